/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One request through an io_uring, executed by a worker.
 */
#ifndef _UNWIND_URING_H
#define _UNWIND_URING_H

#include <linux/io_uring.h>

/* Submit @sqe to a new ring, wait for its end; its result, or why it was not run. */
int uring_run_async(const struct io_uring_sqe *sqe);

#endif /* _UNWIND_URING_H */
