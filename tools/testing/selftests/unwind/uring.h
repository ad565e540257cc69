/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One request through an io_uring, executed by a worker.
 */
#ifndef _UNWIND_URING_H
#define _UNWIND_URING_H

#include <linux/io_uring.h>

struct uring {
	struct io_uring_params	params;
	struct io_uring_sqe	*sqes;
	char			*sq;
	int			fd;
};

/* A ring in which @sqe waits for io_uring_enter(fd, 1, 1, GETEVENTS); 0 or -errno. */
int uring_prepare(struct uring *uring, const struct io_uring_sqe *sqe);

/* The result of the request, which has ended. */
int uring_result(const struct uring *uring);
void uring_close(struct uring *uring);

/* Submit @sqe to a new ring, wait for its end; its result, or why it was not run. */
int uring_run_async(const struct io_uring_sqe *sqe);

#endif /* _UNWIND_URING_H */
