/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The debugfs file unwind/test: what tools/testing/selftests/unwind and
 * test_tracer.c agree on, and the hooks that the core calls. No ABI: both sides
 * are built from the same tree.
 *
 * A test is an array of operations that the kernel runs in one kernel entry of the
 * calling task, in order. Each operation's result is written back into it.
 */
#ifndef _KERNEL_UNWIND_TEST_TRACER_H
#define _KERNEL_UNWIND_TEST_TRACER_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* One more than the core has bits, so that it can be asked for too many. */
#define UNWIND_TEST_SLOTS	64
/* Addresses that an event keeps; unwind_test_event::nr says how many there were. */
#define UNWIND_TEST_ENTRIES	32
/* Callbacks that are remembered until somebody reads them. */
#define UNWIND_TEST_EVENTS	1024

enum unwind_test_code {
	/* Register the slot's tracer. */
	UNWIND_TEST_INIT,
	UNWIND_TEST_CANCEL,
	/* Request in @where. */
	UNWIND_TEST_REQUEST,
	/* Request from an NMI on CPU @arg, if it runs a task of this process. */
	UNWIND_TEST_REQUEST_CPU,
	/* unwind_user_faultable(); @arg becomes the number of entries. */
	UNWIND_TEST_FAULTABLE,
	/* Run task work now, in mid entry, as signal handling and io_uring do. */
	UNWIND_TEST_TASK_WORK,
	/* Make the core's step @arg (enum unwind_test_fail) fail @where times. */
	UNWIND_TEST_FAIL,
	/* When this task passes @arg (enum unwind_test_point), request in @where. */
	UNWIND_TEST_AT,
	/* What the request of the latest UNWIND_TEST_AT for point @arg returned. */
	UNWIND_TEST_AT_RESULT,
	/* What the slot's callback does: @arg (enum unwind_test_mode) to slot @where. */
	UNWIND_TEST_MODE,
	/* Let a sleeping callback go on. */
	UNWIND_TEST_RELEASE,
	/* Take the oldest event to address @arg; returns 0 when there is none. */
	UNWIND_TEST_EVENT,
	/* @ret is the slot's bit, @arg this task's mask, @cookie its entry's name. */
	UNWIND_TEST_STATE,
	/* UNWIND_TEST_POINT_PROBE is the instruction at @arg; with 0 it is disarmed. */
	UNWIND_TEST_PROBE,
	/* @ret is how many addresses this task's buffer has room for; 0: it has none. */
	UNWIND_TEST_ROOM,
	/* Nobody looked for any object of a file in the last @arg seconds. */
	UNWIND_TEST_OLDER,
	/* Drop the objects that nobody looked for in the last @arg seconds. */
	UNWIND_TEST_DROP,
};

/* Where a request comes from. */
enum unwind_test_where {
	UNWIND_TEST_TASK,
	UNWIND_TEST_IRQS_OFF,
	UNWIND_TEST_HARDIRQ,
	UNWIND_TEST_NMI,
	UNWIND_TEST_KTHREAD,
};

enum unwind_test_fail {
	UNWIND_TEST_FAIL_TASK_WORK,
	UNWIND_TEST_FAIL_CACHE,
	/* An object of a file, and what its name takes. */
	UNWIND_TEST_FAIL_OBJECT,
	UNWIND_TEST_FAIL_NAME,
	UNWIND_TEST_NR_FAILS,
};

/* Places in the core at which an NMI may come, or come too late. */
enum unwind_test_point {
	/* The count of a cookie is claimed, the CPU is not stored yet. */
	UNWIND_TEST_POINT_COOKIE,
	/* The mask was read, the tracer's bit is not set yet. */
	UNWIND_TEST_POINT_MASK,
	/* PENDING is set, the task work is not queued yet. */
	UNWIND_TEST_POINT_QUEUE,
	/* The task work cleared PENDING, and did nothing else yet. */
	UNWIND_TEST_POINT_WORK,
	/* The last moment before the entry is forgotten. */
	UNWIND_TEST_POINT_RESET,
	/* The last moment before user registers are replaced. */
	UNWIND_TEST_POINT_CHANGE,
	/* Any instruction, see UNWIND_TEST_PROBE; @where is ignored, it traps. */
	UNWIND_TEST_POINT_PROBE,
	UNWIND_TEST_NR_POINTS,
};

enum unwind_test_mode {
	UNWIND_TEST_MODE_LOG,
	/* Sleep until released; a second event says that it is over. */
	UNWIND_TEST_MODE_SLEEP,
	/* Request for another slot, or for itself. */
	UNWIND_TEST_MODE_REQUEST,
};

/**
 * struct unwind_test_op - one operation
 * @code:	enum unwind_test_code
 * @slot:	the tracer
 * @where:	enum unwind_test_where, or as @code says
 * @ret:	out: what the core returned
 * @arg:	as @code says
 * @cookie:	out: likewise
 * @seq:	out: position of its end among all operations and events of the file
 */
struct unwind_test_op {
	__u32	code;
	__u32	slot;
	__u32	where;
	__s32	ret;
	__u64	arg;
	__u64	cookie;
	__u64	seq;
};

/**
 * struct unwind_test_event - one callback
 * @seq:	position among all operations and events of the file
 * @cookie:	as the callback got it
 * @slot:	the tracer
 * @tid:	thread that the callback ran in
 * @nr:		length of the trace
 * @end:	the end of a callback that slept, not its start
 * @ret:	UNWIND_TEST_MODE_REQUEST: result of the request
 * @lost:	events that were dropped before this one for lack of room
 * @entries:	the first entries of the trace
 */
struct unwind_test_event {
	__u64	seq;
	__u64	cookie;
	__u32	slot;
	__u32	tid;
	__u32	nr;
	__u32	end;
	__s32	ret;
	__u32	lost;
	__u64	entries[UNWIND_TEST_ENTRIES];
};

/**
 * struct unwind_test_ops - argument of UNWIND_TEST_RUN, and of the io_uring command
 * @nr:		number of operations
 * @pad:	0
 * @ops:	address of the first
 */
struct unwind_test_ops {
	__u32	nr;
	__u32	pad;
	__u64	ops;
};

#define UNWIND_TEST_RUN		_IOW('U', 1, struct unwind_test_ops)

#ifdef __KERNEL__
#ifdef CONFIG_UNWIND_TEST_TRACER
bool unwind_test_fail(enum unwind_test_fail what);
void unwind_test_point(enum unwind_test_point point);
#else
static inline bool unwind_test_fail(enum unwind_test_fail what) { return false; }
static inline void unwind_test_point(enum unwind_test_point point) { }
#endif
#endif /* __KERNEL__ */

#endif /* _KERNEL_UNWIND_TEST_TRACER_H */
