/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A file system of one file with one page, whose server is the calling process: it
 * reads and answers the requests itself, and so decides if and when memory mapped from
 * the file becomes available.
 */
#ifndef _UNWIND_FUSE_H
#define _UNWIND_FUSE_H

#include <linux/types.h>
#include <stdbool.h>

#define FUSE_PAGE	4096UL

/**
 * struct fuse - a mounted file system
 * @fd:		the connection, or -1 when the server is dead
 * @dir:	where it is mounted
 * @file:	the path of its file
 * @held:	the unanswered request for the page, or 0
 * @reads:	number of requests for the page
 * @uid:	user ID of the latest such request
 * @sync:	a reader waits for the answer, not for the page: it cannot be killed
 */
struct fuse {
	int		fd;
	char		dir[32];
	char		file[40];
	__u64		held;
	unsigned int	reads;
	uid_t		uid;
	bool		sync;
};

/* 0 or -errno; -ENODEV without FUSE. */
int fuse_mount(struct fuse *fuse, bool sync);
void fuse_unmount(struct fuse *fuse);

/*
 * Serve until a task requests the page (returns true) or until @pidfd's process has
 * ended (returns false).
 */
bool fuse_wait_for_fault(struct fuse *fuse, int pidfd);

/* Supply the page. */
void fuse_resolve(struct fuse *fuse, const void *content);

/* Let the request for the page fail with an errno; 0 or -errno. */
int fuse_refuse(struct fuse *fuse, int error);

/* Close the connection: all current and future requests fail. */
void fuse_die(struct fuse *fuse);

#endif /* _UNWIND_FUSE_H */
