/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A file system of one file with one page, whose server is the calling process: it
 * reads requests and answers them by hand, so it decides when memory that is mapped
 * from the file is there, and whether it ever will be.
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
 * @held:	the request for the page that was not answered yet, or 0
 * @reads:	such requests so far
 * @uid:	as whom the latest was made
 * @sync:	who reads waits for the answer, and not for the page: it cannot be killed
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

/* 0 or -errno; -ENODEV where there is no FUSE. */
int fuse_mount(struct fuse *fuse, bool sync);
void fuse_unmount(struct fuse *fuse);

/*
 * Serve until somebody starts to wait for the page, which is true, or until @pidfd's
 * process has ended, which is false.
 */
bool fuse_wait_for_fault(struct fuse *fuse, int pidfd);

/* Supply the page. */
void fuse_resolve(struct fuse *fuse, const void *content);

/* Leave everybody alone who waits or will wait. */
void fuse_die(struct fuse *fuse);

#endif /* _UNWIND_FUSE_H */
