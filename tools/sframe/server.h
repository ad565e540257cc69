/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For profilers: sections for all files that they see, provided by a separate process.
 * See server.c.
 */
#ifndef _SFRAME_SERVER_H
#define _SFRAME_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

#include "sframe.h"

/**
 * struct sframe_session_options - what a session covers
 * @cache:	directory of the cache; NULL for that of perf
 * @read_only:	leave the cache as it is
 * @program:	a program that is about to run, or NULL
 * @pids:	processes to watch, with all that they start
 * @nr_pids:	number of @pids; 0 to watch all processes
 * @running:	the watched processes are already running
 * @verbose:	print what is done
 * @quiet:	print nothing
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
 * struct sframe_server - a process that provides sections for a profiler
 * @pid:	the process
 * @socket:	connection to it
 */
struct sframe_server {
	pid_t	pid;
	int	socket;
};

/* Called for a file that had no section, or had it late or in part. */
typedef void (*sframe_missed_fn)(void *data, const char *path, bool late, const char *why);

/* Reason for a file whose section was never in time. */
#define SFRAME_NEXT_TIME "has a section for the next time only"

/* Reason for a file whose section lacks some of its code. */
#define SFRAME_NO_WORDS	"of code for which SFrame has no words"

/* Reason for a file whose section was registered, but not used in all stacks. */
#define SFRAME_UNUSED	"has a section that the kernel did not use"

/* Reasons for a file whose readers wait, perhaps for ever. */
#define SFRAME_HANGS	"is on a file system that does not answer"
#define SFRAME_SLOW	"is on a file system that is too slow"

/* The device is missing: no attempt tells which of the two it is. */
#define SFRAME_NO_DEVICE	"there is no /dev/unwind_sframe: "	\
				"the kernel takes none, or /dev of this container lacks it"

typedef bool (*sframe_stop_fn)(void);

int sframe_server_start(struct sframe_server *server,
			const struct sframe_session_options *options);
int sframe_server_wait(struct sframe_server *server, sframe_stop_fn stop, char *message);
void sframe_server_stop(struct sframe_server *server);
int sframe_server_end(struct sframe_server *server, sframe_missed_fn missed, void *data);
int sframe_open_in(const char *root, const char *path);
void sframe_printable(char *text);

#endif /* _SFRAME_SERVER_H */
