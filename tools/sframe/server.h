/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For profilers: have sections for all that they meet, with nothing to wait for but a
 * file descriptor. See server.c.
 */
#ifndef _SFRAME_SERVER_H
#define _SFRAME_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

#include "sframe.h"

/**
 * struct sframe_session_options - what a session is for
 * @cache:	directory of the cache; NULL for that of perf
 * @read_only:	nothing is put into the cache, nor removed from it
 * @program:	a program that is about to run, or NULL
 * @pids:	processes that are watched, and all that they start
 * @nr_pids:	of these; 0 to watch all there are
 * @running:	what is watched runs already
 * @verbose:	say what is done
 * @quiet:	say nothing
 */
struct sframe_session_options {
	const char	*cache;
	bool		read_only;
	const char	*program;
	const pid_t	*pids;
	unsigned int	nr_pids;
	bool		running;
	bool		verbose;
	bool		quiet;
};

/**
 * struct sframe_server - sections for a profiler
 * @pid:	the process that has them
 * @socket:	to talk to it
 */
struct sframe_server {
	pid_t	pid;
	int	socket;
};

/* Of a file that had no section from its start on. */
typedef void (*sframe_missed_fn)(void *data, const char *path, bool late, const char *why);

/* Why a file is late that was never in time. */
#define SFRAME_NEXT_TIME "has a section for the next time only"

/* What is said of a file of which some code is not in its section, which it had in time. */
#define SFRAME_NO_WORDS	"of code for which SFrame has no words"

typedef bool (*sframe_stop_fn)(void);

int sframe_server_start(struct sframe_server *server,
			const struct sframe_session_options *options);
int sframe_server_wait(struct sframe_server *server, sframe_stop_fn stop, char *message);
void sframe_server_stop(struct sframe_server *server);
int sframe_server_end(struct sframe_server *server, sframe_missed_fn missed, void *data);
int sframe_open_in(const char *root, const char *path);
void sframe_printable(char *text);

#endif /* _SFRAME_SERVER_H */
