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
 * struct orders - what a process does that has mapped the page
 * @uid:	as whom, if not 0
 * @inner:	as whom in a user namespace that @uid makes, if not 0
 * @until_found: walk through it until there is a table, and not only once
 * @real_time:	as a real-time task
 * @write_to:	write it to that file instead, if not 0
 */
struct orders {
	uid_t	uid;
	uid_t	inner;
	bool	until_found;
	bool	real_time;
	int	write_to;
};

/* Such a process. */
struct child {
	pid_t	pid;
	int	pidfd;
	int	ready[2];
	int	go[2];
};

/* Ids that are nobody's. */
#define INNER_IDS	1000000

/* As an exit status of wait(). */
#define EXITED(how)	((how) << 8)

/* Of current: SCHED_FIFO, or SCHED_OTHER. 0 if it is so now. */
int set_policy(int policy);

/* Start one, which waits for child_go(); false if that fails. */
bool child_start_to(struct child *child, struct fuse *fuse, const struct orders *orders);
bool child_start(struct child *child, struct fuse *fuse, bool until_found);
void child_go(struct child *child);

/* It has @nr ids in its user namespace; 0 or -errno. */
int child_map_ids(const struct child *child, unsigned int nr);

/* Its exit status; @page is what the server gives to those who read, or NULL. */
int child_end(struct child *child, struct fuse *fuse, const void *page);

#endif /* _UNWIND_SFRAME_CHILD_H */
