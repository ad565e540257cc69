/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Users, and the processes that make sections for the tasks of one of them, see deputies.c.
 */
#ifndef _SFRAME_DEPUTIES_H
#define _SFRAME_DEPUTIES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "server.h"

struct identity;
struct mapped_file;
struct mapping;
struct pollfd;
struct session;

/* Stands for the tasks of all users. */
#define ALL_USERS	((uid_t)-1)

/**
 * struct user - whose tasks a section is for
 * @uid:	the user, or ALL_USERS
 * @gid:	the group
 */
struct user {
	uid_t	uid;
	gid_t	gid;
};

/* Limit of pairs of user and group, and of those of one user. */
#ifndef USERS_MAX
#define USERS_MAX	32
#endif
#define USER_GROUPS_MAX	2

/**
 * struct deputy - a process that makes sections for the tasks of one user, see deputy.c
 * @user:	the user
 * @files:	files that it was told of, by identity; and by device, inode and name, or by
 *		build-id and name
 * @nr_files:	number of these files
 * @names:	bytes of the other names in @files
 * @error:	why there is no process, a negative errno; or 0
 * @pid:	the process
 * @socket:	connection to it
 * @sync:	ORDER_SYNC is still to be sent
 * @ready:	it has made the sections for what was passed before the last ORDER_SYNC
 * @done:	it has told all
 * @full:	it could not take a file
 * @said:	bytes of its messages
 * @crowd:	it was told of too many files
 */
struct deputy {
	struct user	user;
	void		*files;
	unsigned int	nr_files;
	size_t		names;
	int		error;
	pid_t		pid;
	int		socket;
	bool		sync;
	bool		ready;
	bool		done;
	bool		full;
	size_t		said;
	bool		crowd;
};

/**
 * struct deputies - all deputies of a session
 * @known:	the deputies
 * @nr:		number of @known
 * @began:	when the command began, as in struct session, in memory shared with the deputies;
 *		NULL before the first
 */
struct deputies {
	struct deputy	known[USERS_MAX];
	unsigned int	nr;
	long		*began;
};

/* How long the command waits for deputies, in ms; at the end they have twice as long. */
#ifndef DEPUTIES_WAIT_MAX
#define DEPUTIES_WAIT_MAX	10000
#endif

bool deputies_know(const struct deputies *deputies, const struct mapping *mapping);
bool deputies_know_file(struct deputies *deputies, const struct mapping *mapping,
			const struct identity *identity, bool listed);
int deputies_pass(struct session *session, const struct mapping *mapping,
		  const struct mapped_file *file);
const char *deputies_why(int error);
unsigned int deputies_fds(const struct deputies *deputies, struct pollfd *fds);
bool deputies_wait(const struct deputies *deputies);
void deputies_stop(struct deputies *deputies);
void deputies_listen(struct session *session);
void deputies_sync(struct deputies *deputies);
bool deputies_are_ready(const struct deputies *deputies);
void deputies_begin(struct deputies *deputies, long began);
void deputies_end(struct session *session, sframe_missed_fn missed, void *data);
void deputies_free(struct deputies *deputies);

#endif /* _SFRAME_DEPUTIES_H */
