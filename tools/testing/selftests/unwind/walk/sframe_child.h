/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Processes that walk through a page of a file system that the test serves.
 */
#ifndef _UNWIND_SFRAME_CHILD_H
#define _UNWIND_SFRAME_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "fuse.h"
#include "sframe_walk.h"

/**
 * struct orders - what a process does after it has mapped the page
 * @uid:	user to run as, if not 0
 * @inner:	user to run as in a user namespace that @uid creates, if not 0
 * @until_found: walk until the trace uses a table, instead of once
 * @real_time:	run as a real-time task
 * @changes:	during the walk, a thread changes the mappings at each further child_go(), and
 *		writes a byte to child::ready
 * @execs:	execute a program that ends with EXECED instead of walking
 * @write_to:	write the page to this file instead of walking, if not 0
 */
struct orders {
	uid_t	uid;
	uid_t	inner;
	bool	until_found;
	bool	real_time;
	bool	changes;
	bool	execs;
	int	write_to;
};

/* A process that has mapped the page. */
struct child {
	pid_t	pid;
	int	pidfd;
	int	ready[2];
	int	go[2];
};

/* Start of an id range that no user has. */
#define INNER_IDS	1000000

/* The exit code of the program that replaced the child's. */
#define EXECED		77
#define EXECED_TEXT	"77"

/* An exit status as wait() returns it. */
#define EXITED(how)	((how) << 8)

/* Make current SCHED_FIFO or SCHED_OTHER; 0 on success. */
int set_policy(int policy);

/* Start a process that waits for child_go(); false on failure. */
bool child_start_to(struct child *child, struct fuse *fuse, const struct orders *orders);
bool child_start(struct child *child, struct fuse *fuse, bool until_found);
void child_go(struct child *child);

/* Map @nr ids into the child's user namespace; 0 or -errno. */
int child_map_ids(const struct child *child, unsigned int nr);

/* The child's exit status. @page is the server's answer to reads, or NULL. */
int child_end(struct child *child, struct fuse *fuse, const void *page);

#endif /* _UNWIND_SFRAME_CHILD_H */
