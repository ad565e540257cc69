// SPDX-License-Identifier: GPL-2.0
/*
 * One request through an io_uring, executed by a worker.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "uring.h"

#define RING_SIZE	65536
#define SQES_SIZE	4096

static void *map_ring(int ring, size_t size, off_t what)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, what);
}

static int submit(int ring, const struct io_uring_params *params, const struct io_uring_sqe *sqe)
{
	char *sq = map_ring(ring, RING_SIZE, IORING_OFF_SQ_RING);
	struct io_uring_sqe *sqes = map_ring(ring, SQES_SIZE, IORING_OFF_SQES);
	unsigned int *tail;
	int ret;

	if (sq == MAP_FAILED || sqes == MAP_FAILED)
		return -errno;

	sqes[0] = *sqe;
	sqes[0].flags |= IOSQE_ASYNC;
	*(unsigned int *)(sq + params->sq_off.array) = 0;
	tail = (unsigned int *)(sq + params->sq_off.tail);
	/* Pairs with the kernel's reading of the tail. */
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);

	ret = syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
	if (ret != 1)
		ret = ret < 0 ? -errno : -EIO;
	else
		ret = ((struct io_uring_cqe *)(sq + params->cq_off.cqes))->res;

	munmap(sqes, SQES_SIZE);
	munmap(sq, RING_SIZE);
	return ret;
}

int uring_run_async(const struct io_uring_sqe *sqe)
{
	struct io_uring_params params = {};
	int ring = syscall(SYS_io_uring_setup, 4, &params);
	int ret;

	if (ring < 0)
		return -errno;
	ret = submit(ring, &params, sqe);
	close(ring);
	return ret;
}
