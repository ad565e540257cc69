// SPDX-License-Identifier: GPL-2.0
/*
 * Requests through an io_uring: executed by a worker, or waited for by a task.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "uring.h"
#include "workload.h"

#define RING_SIZE	65536
#define SQES_SIZE	4096

static void *map_ring(int ring, size_t size, off_t what)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, what);
}

int uring_prepare(struct uring *uring, const struct io_uring_sqe *sqe)
{
	const struct io_sqring_offsets *off = &uring->params.sq_off;
	unsigned int *tail;

	*uring = (struct uring) {};
	uring->fd = syscall(SYS_io_uring_setup, 16, &uring->params);
	if (uring->fd < 0)
		return -errno;

	uring->sq = map_ring(uring->fd, RING_SIZE, IORING_OFF_SQ_RING);
	uring->sqes = map_ring(uring->fd, SQES_SIZE, IORING_OFF_SQES);
	if (uring->sq == MAP_FAILED || (void *)uring->sqes == MAP_FAILED)
		return -errno;

	uring->sqes[0] = *sqe;
	uring->sqes[0].flags |= IOSQE_ASYNC;
	*(unsigned int *)(uring->sq + off->array) = 0;
	tail = (unsigned int *)(uring->sq + off->tail);
	/* Pairs with the kernel's reading of the tail. */
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	return 0;
}

int uring_result(const struct uring *uring)
{
	return ((struct io_uring_cqe *)(uring->sq + uring->params.cq_off.cqes))->res;
}

void uring_close(struct uring *uring)
{
	munmap(uring->sqes, SQES_SIZE);
	munmap(uring->sq, RING_SIZE);
	close(uring->fd);
}

int uring_run_async(const struct io_uring_sqe *sqe)
{
	struct uring uring;
	int ret = uring_prepare(&uring, sqe);

	if (ret)
		return ret;
	ret = syscall(SYS_io_uring_enter, uring.fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
	if (ret != 1)
		ret = ret < 0 ? -errno : -EIO;
	else
		ret = uring_result(&uring);
	uring_close(&uring);
	return ret;
}

static void on_signal(int sig)
{
}

int uring_leave_in_flight(void)
{
	struct uring waiting, other;
	struct io_uring_sqe sqe = { .opcode = IORING_OP_NOP };

	if (uring_prepare(&other, &sqe))
		return -1;
	/* io_uring tracks only requests on its own files. */
	sqe = (struct io_uring_sqe) {
		.opcode = IORING_OP_POLL_ADD, .fd = other.fd, .poll32_events = POLLIN,
	};
	if (uring_prepare(&waiting, &sqe))
		return -1;
	waiting.sqes[0].flags = 0;
	return syscall(SYS_io_uring_enter, waiting.fd, 1, 0, 0, NULL, 0) == 1 ? 0 : -1;
}

/* Writes 'r' to @ready, or 'n' without io_uring; returns the child's exit status. */
static int wait_for_results(int pipe, int ready, unsigned int depth)
{
	struct io_uring_sqe sqe = {
		.opcode = IORING_OP_POLL_ADD, .fd = pipe, .poll32_events = POLLIN,
		.len = IORING_POLL_ADD_MULTI,
	};
	struct sigaction action = { .sa_handler = on_signal };
	struct uring uring;
	char c = 'r';

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigaction(SIGUSR1, &action, NULL);
	if (uring_prepare(&uring, &sqe))
		c = 'n';
	if (write(ready, &c, 1) != 1 || read(pipe, &c, 1) != 1)
		return 1;
	return workload_syscall(depth, SYS_io_uring_enter, uring.fd, 1, URING_RESULTS + 1,
				IORING_ENTER_GETEVENTS, 0, 0) == 1 ? 0 : 2;
}

pid_t uring_fork_waiter(int pipe, unsigned int depth, void (*prepare)(void))
{
	int ready[2];
	char c = 0;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (!pid) {
		if (prepare)
			prepare();
		_exit(wait_for_results(pipe, ready[1], depth));
	}
	if (pid < 0)
		pid = -errno;
	close(ready[1]);
	if (pid > 0 && (read(ready[0], &c, 1) != 1 || c != 'r')) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		pid = c == 'n' ? -ENOSYS : -ECHILD;
	}
	close(ready[0]);
	return pid;
}
