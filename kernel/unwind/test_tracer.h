/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The debugfs file unwind/test: the interface between tools/testing/selftests/unwind and
 * test_tracer.c, and the hooks that the core calls. Not an ABI: both sides are built
 * from the same tree.
 *
 * A test is an array of operations that the kernel runs in one kernel entry of the
 * calling task, in order. Each operation's result is written back into it.
 */
#ifndef _KERNEL_UNWIND_TEST_TRACER_H
#define _KERNEL_UNWIND_TEST_TRACER_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* One more than the core has bits, to be able to request too many. */
#define UNWIND_TEST_SLOTS	64
/* Addresses that an event keeps; unwind_test_event::nr is the full number. */
#define UNWIND_TEST_ENTRIES	32
/* Callbacks that are logged until userspace reads them. */
#define UNWIND_TEST_EVENTS	1024

enum unwind_test_code {
	/* Register the slot's tracer. */
	UNWIND_TEST_INIT,
	UNWIND_TEST_CANCEL,
	/* Request in @where. */
	UNWIND_TEST_REQUEST,
	/* Request from an NMI on CPU @arg if that CPU runs a task of this process. */
	UNWIND_TEST_REQUEST_CPU,
	/* unwind_user_faultable(); @arg becomes the number of entries. */
	UNWIND_TEST_FAULTABLE,
	/* Run task work now, in mid entry, as signal handling and io_uring do. */
	UNWIND_TEST_TASK_WORK,
	/* Make the core's step @arg (enum unwind_test_fail) fail @where times. */
	UNWIND_TEST_FAIL,
	/* When this task passes @arg (enum unwind_test_point), request in @where. */
	UNWIND_TEST_AT,
	/* Result of the request of the latest UNWIND_TEST_AT for point @arg. */
	UNWIND_TEST_AT_RESULT,
	/* Set the action of the slot's callback: @arg (enum unwind_test_mode) to slot @where. */
	UNWIND_TEST_MODE,
	/* Wake up a sleeping callback. */
	UNWIND_TEST_RELEASE,
	/* Copy the oldest event to address @arg and remove it; returns 0 if there is none. */
	UNWIND_TEST_EVENT,
	/* @ret is the slot's bit, @arg this task's mask, @cookie the cookie of its entry. */
	UNWIND_TEST_STATE,
	/* Set UNWIND_TEST_POINT_PROBE to the instruction at @arg; 0 disarms it. */
	UNWIND_TEST_PROBE,
	/* @ret is the capacity of this task's buffer in addresses, 0 if it has none. */
	UNWIND_TEST_ROOM,
	/* Age all objects of files by @arg seconds. */
	UNWIND_TEST_OLDER,
	/* Drop the objects that were not looked up in the last @arg seconds. */
	UNWIND_TEST_DROP,
};

/* The context of a request. */
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
	/* The allocations of a file's object, and of its name. */
	UNWIND_TEST_FAIL_OBJECT,
	UNWIND_TEST_FAIL_NAME,
	/* The repeats of callbacks are used up. */
	UNWIND_TEST_FAIL_AGAIN,
	UNWIND_TEST_NR_FAILS,
};

/* Places in the core where an NMI may hit, or hit too late. */
enum unwind_test_point {
	/* The count of a cookie is claimed; the CPU is not stored yet. */
	UNWIND_TEST_POINT_COOKIE,
	/* The mask was read; the tracer's bit is not set yet. */
	UNWIND_TEST_POINT_MASK,
	/* The last moment before the entry is forgotten. */
	UNWIND_TEST_POINT_RESET,
	/* The last moment before user registers are replaced. */
	UNWIND_TEST_POINT_CHANGE,
	/* Any instruction, see UNWIND_TEST_PROBE. A trap requests; @where is ignored. */
	UNWIND_TEST_POINT_PROBE,
	UNWIND_TEST_NR_POINTS,
};

enum unwind_test_mode {
	UNWIND_TEST_MODE_LOG,
	/* Sleep until released; a second event is logged at the end. */
	UNWIND_TEST_MODE_SLEEP,
	/* Request for another slot, or for itself. */
	UNWIND_TEST_MODE_REQUEST,
	/*
	 * The same from task work that comes next: after all callbacks, and before the entry
	 * ends. A second event is logged, with the cookie of that request.
	 */
	UNWIND_TEST_MODE_FOLLOW,
};

/**
 * struct unwind_test_op - one operation
 * @code:	enum unwind_test_code
 * @slot:	the tracer
 * @where:	enum unwind_test_where, or depends on @code
 * @ret:	out: return value of the core
 * @arg:	depends on @code
 * @cookie:	out: depends on @code
 * @seq:	out: position of its end in the sequence of the file's operations and events
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
 * @seq:	position in the sequence of the file's operations and events
 * @cookie:	as the callback got it
 * @slot:	the tracer
 * @tid:	thread that the callback ran in
 * @nr:		length of the trace
 * @end:	the event is the end of a callback that slept, not its start
 * @ret:	UNWIND_TEST_MODE_REQUEST and _FOLLOW: result of the request
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
