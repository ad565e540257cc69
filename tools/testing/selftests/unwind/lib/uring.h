/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Requests through an io_uring: executed by a worker, or waited for by a task.
 */
#ifndef _UNWIND_URING_H
#define _UNWIND_URING_H

#include <linux/io_uring.h>
#include <sys/types.h>

struct uring {
	struct io_uring_params	params;
	struct io_uring_sqe	*sqes;
	char			*sq;
	int			fd;
};

/* Make a ring in which @sqe waits for io_uring_enter(fd, 1, 1, GETEVENTS); 0 or -errno. */
int uring_prepare(struct uring *uring, const struct io_uring_sqe *sqe);

/* The result of the completed request. */
int uring_result(const struct uring *uring);
void uring_close(struct uring *uring);

/* Submit @sqe to a new ring and wait; returns its result, or why it was not run. */
int uring_run_async(const struct io_uring_sqe *sqe);

/*
 * Leave a request that io_uring ends when the task exits. While it exists, task work runs
 * earlier in exit. Returns 0, or -1 without io_uring.
 */
int uring_leave_in_flight(void);

/*
 * Fork a child that waits, below @depth callers, in io_uring_enter() for more results than
 * will come. It begins when it can read from @pipe. Each of the next URING_RESULTS bytes there
 * wakes it, as a result that its own task work sees. SIGUSR1 ends the wait, and the child
 * exits with status 0 if it went as planned. Returns its pid once it is ready, -ENOSYS without
 * io_uring, or another error. @prepare, if not NULL, is called in the child first.
 */
#define URING_RESULTS	30
pid_t uring_fork_waiter(int pipe, unsigned int depth, void (*prepare)(void));

#endif /* _UNWIND_URING_H */
