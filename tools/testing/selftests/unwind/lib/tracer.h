/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Client of the kernel's test tracer (CONFIG_UNWIND_TEST_TRACER).
 */
#ifndef _UNWIND_TRACER_H
#define _UNWIND_TRACER_H

#include <stdbool.h>
#include <stddef.h>

#include "test_tracer.h"

#define ARRAY_SIZE(arr)	(sizeof(arr) / sizeof((arr)[0]))

/* The bits of a task's mask that belong to no tracer, see kernel/unwind/unwind.h. */
#define MASK_PENDING	0x1
#define MASK_USED	0x2

/* Initializers for an array of operations. */
#define OP_INIT(s)		{ .code = UNWIND_TEST_INIT, .slot = (s) }
#define OP_CANCEL(s)		{ .code = UNWIND_TEST_CANCEL, .slot = (s) }
#define OP_REQUEST(s, w)	{ .code = UNWIND_TEST_REQUEST, .slot = (s), .where = (w) }
#define OP_REQUEST_CPU(s, cpu)	{ .code = UNWIND_TEST_REQUEST_CPU, .slot = (s), .arg = (cpu) }
#define OP_FAULTABLE()		{ .code = UNWIND_TEST_FAULTABLE }
#define OP_TASK_WORK()		{ .code = UNWIND_TEST_TASK_WORK }
#define OP_FAIL(what, times)	{ .code = UNWIND_TEST_FAIL, .arg = (what), .where = (times) }
#define OP_AT(s, point, w)	\
	{ .code = UNWIND_TEST_AT, .slot = (s), .arg = (point), .where = (w) }
#define OP_AT_RESULT(point)	{ .code = UNWIND_TEST_AT_RESULT, .arg = (point) }
#define OP_MODE(s, mode, other)	\
	{ .code = UNWIND_TEST_MODE, .slot = (s), .arg = (mode), .where = (other) }
#define OP_RELEASE(s)		{ .code = UNWIND_TEST_RELEASE, .slot = (s) }
#define OP_STATE(s)		{ .code = UNWIND_TEST_STATE, .slot = (s) }
#define OP_PROBE(addr)		{ .code = UNWIND_TEST_PROBE, .arg = (addr) }
#define OP_ROOM()		{ .code = UNWIND_TEST_ROOM }
#define OP_OLDER(seconds)	{ .code = UNWIND_TEST_OLDER, .arg = (seconds) }
#define OP_DROP(seconds)	{ .code = UNWIND_TEST_DROP, .arg = (seconds) }

/* A file descriptor, or -1 with the reason in errno and a message in @why. */
int tracer_open(const char **why);

/* FIXTURE_SETUP() of a fixture with @fd: register @nr tracers in slots 0 and up. */
#define SETUP_TRACERS(nr) do {							\
	const char *_why;							\
										\
	self->fd = tracer_open(&_why);						\
	if (self->fd < 0)							\
		SKIP(return, "%s", _why);					\
	for (int _slot = 0; _slot < (nr); _slot++) {				\
		ASSERT_EQ(0, tracer_op(self->fd, (struct unwind_test_op)OP_INIT(_slot))); \
	}									\
} while (0)

/* Setup and teardown of a fixture with @fd and @nr tracers, and nothing else. */
#define TRACER_FIXTURE(name, nr)					\
FIXTURE_SETUP(name)							\
{									\
	SETUP_TRACERS(nr);						\
}									\
									\
FIXTURE_TEARDOWN(name)							\
{									\
	close(self->fd);						\
}

/* Run operations in one kernel entry; 0 or -errno. */
int tracer_run(int fd, struct unwind_test_op *ops, unsigned int nr);
#define tracer_run_array(fd, ops)	tracer_run(fd, ops, ARRAY_SIZE(ops))

/* Like tracer_run(), from the innermost of @depth known callers, see workload.h. */
int tracer_run_deep(int fd, struct unwind_test_op *ops, unsigned int nr, unsigned int depth);

/* Like tracer_run(), with any frame pointer, on a stack before @top: see workload_call_fp(). */
int tracer_run_fp(int fd, struct unwind_test_op *ops, unsigned int nr, void *top,
		  unsigned long fp);

/* Run one operation and return its ret. */
int tracer_op(int fd, struct unwind_test_op op);

/* Take the oldest event; false if there is none. */
bool tracer_event(int fd, struct unwind_test_event *event);

/* A counter of unwind/stats, or -1. */
long unwind_stat(const char *name);

#endif /* _UNWIND_TRACER_H */
