/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The debugfs file unwind/storm: the interface between test_storm.c and
 * tools/testing/selftests/unwind/core/storm.c. Not an ABI: both sides are built from the same
 * tree.
 *
 * A burst is an array of steps that the kernel runs in one kernel entry of the caller.
 * The kernel also keeps the books of granted requests and callbacks.
 */
#ifndef _KERNEL_UNWIND_TEST_STORM_H
#define _KERNEL_UNWIND_TEST_STORM_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Tracers of one open file. Sets of tracers are bit masks. */
#define UNWIND_STORM_TRACERS	8
/* Steps of one burst. */
#define UNWIND_STORM_STEPS	12
/* Number of errors that are described, starting with the first. */
#define UNWIND_STORM_NOTES	8

/* The context of a request. */
enum unwind_storm_where {
	UNWIND_STORM_TASK,
	UNWIND_STORM_IRQS_OFF,
	UNWIND_STORM_HARDIRQ,
	/* An NMI that a CPU sends to itself. */
	UNWIND_STORM_NMI,
	/* An NMI that another CPU sends, which may hit any code. */
	UNWIND_STORM_HIT,
	/* The start of a system call, in a tracepoint. */
	UNWIND_STORM_SYSCALL,
	UNWIND_STORM_CALLBACK,
	UNWIND_STORM_NR_WHERE,
};

/* Steps of a burst: requests, up to UNWIND_STORM_HIT, and these. */
enum unwind_storm_what {
	/* Run task work now, in mid entry, as signal handling and io_uring do. */
	UNWIND_STORM_WORK = UNWIND_STORM_NR_WHERE,
	UNWIND_STORM_FAULTABLE,
	/* Sleep briefly and perhaps wake up on another CPU. */
	UNWIND_STORM_SLEEP,
	/* Send signal @arg to the caller. */
	UNWIND_STORM_SIGNAL,
};

enum unwind_storm_result {
	UNWIND_STORM_GRANTED,
	UNWIND_STORM_COMING,
	UNWIND_STORM_EINVAL,
	UNWIND_STORM_ESRCH,
	UNWIND_STORM_ESTALE,
	UNWIND_STORM_EAGAIN,
	UNWIND_STORM_NR_RESULTS,
};

/* Errors, which must not happen. */
enum unwind_storm_error {
	/* Granted, but never called. */
	UNWIND_STORM_LOST,
	/* Granted twice in one entry. */
	UNWIND_STORM_TWICE,
	/* Called twice for one cookie. */
	UNWIND_STORM_CALLED_TWICE,
	/* Called with a cookie that was not granted to this tracer. */
	UNWIND_STORM_UNASKED,
	/* Called or still running after cancel returned. */
	UNWIND_STORM_CANCELLED,
	/*
	 * Requested in user mode, but not called before the next system call. In the note,
	 * @other is 1 if TIF_NOTIFY_RESUME is set, plus 2 if task work is pending.
	 */
	UNWIND_STORM_LATE,
	/* The core answered that the callback is coming, but did not grant it before. */
	UNWIND_STORM_PROMISE,
	/* A registered tracer was refused in a system call. */
	UNWIND_STORM_REFUSED,
	/* A return value that the interface does not define. */
	UNWIND_STORM_RESULT,
	/* An invalid cookie, or a cookie on error. */
	UNWIND_STORM_COOKIE,
	/* Two cookies in one entry. */
	UNWIND_STORM_SPLIT,
	/* The cookie of the previous entry. */
	UNWIND_STORM_STALE,
	/* A cookie that another entry or task had before. */
	UNWIND_STORM_REUSED,
	/* Called in another address space than that of the request. */
	UNWIND_STORM_OTHER_MM,
	/* More tasks than records: not an error of the core, but the test proves nothing. */
	UNWIND_STORM_NO_ROOM,
	UNWIND_STORM_NR_ERRORS,
};

/**
 * struct unwind_storm_step - one step of a burst
 * @what:	enum unwind_storm_where or enum unwind_storm_what
 * @arg:	set of tracers that make requests, or signal number
 * @count:	number of requests of each tracer
 */
struct unwind_storm_step {
	__u8	what;
	__u8	arg;
	__u16	count;
};

/**
 * struct unwind_storm_burst - argument of UNWIND_STORM_BURST
 * @nr:		number of steps
 * @steps:	the steps, in order
 */
struct unwind_storm_burst {
	__u32				nr;
	struct unwind_storm_step	steps[UNWIND_STORM_STEPS];
};

/**
 * struct unwind_storm_arm - argument of UNWIND_STORM_ARM
 * @period_us:	period in which each CPU sends an NMI to the next one
 * @hit:	tracers that take turns in these NMIs, for tasks of the caller's process group
 * @syscall:	set of tracers that make requests when such a task starts a system call
 * @pad:	0
 */
struct unwind_storm_arm {
	__u32	period_us;
	__u32	hit;
	__u32	syscall;
	__u32	pad;
};

/**
 * struct unwind_storm_note - an error
 * @error:	enum unwind_storm_error
 * @tracer:	the tracer
 * @where:	enum unwind_storm_where
 * @tid:	the task
 * @cookie:	the cookie concerned
 * @other:	the expected or conflicting value
 */
struct unwind_storm_note {
	__u32	error;
	__u32	tracer;
	__u32	where;
	__u32	tid;
	__u64	cookie;
	__u64	other;
};

/**
 * struct unwind_storm_sums - the part of the counters that is kept for each CPU
 * @results:	results of all requests, by context
 * @granted:	granted requests of each tracer
 * @called:	callbacks of each tracer
 * @dropped:	requests granted but not called because the tracer was cancelled
 * @entries:	entries with a request that was granted, or whose callback was coming
 * @nmi_entries:	entries in which at least one NMI was granted its request
 * @nmi_named:	entries whose first request came from NMI
 * @resent:	NMIs that a CPU had to send to itself again
 * @errors:	number of errors of each kind
 */
struct unwind_storm_sums {
	__u64	results[UNWIND_STORM_NR_WHERE][UNWIND_STORM_NR_RESULTS];
	__u64	granted[UNWIND_STORM_TRACERS];
	__u64	called[UNWIND_STORM_TRACERS];
	__u64	dropped;
	__u64	entries;
	__u64	nmi_entries;
	__u64	nmi_named;
	__u64	resent;
	__u64	errors[UNWIND_STORM_NR_ERRORS];
};

/**
 * struct unwind_storm_counts - argument of UNWIND_STORM_COUNTS
 * @sums:	sums since the file was opened
 * @owing:	requests granted but not called yet; lost callbacks stay here
 * @left:	requests granted but not called, of tracers that are cancelled now
 * @records:	tasks that made requests, except those whose task_struct was reused
 * @nr_notes:	number of errors in @notes
 * @notes:	the first errors
 */
struct unwind_storm_counts {
	struct unwind_storm_sums	sums;
	__u64				owing;
	__u64				left;
	__u64				records;
	__u64				nr_notes;
	struct unwind_storm_note	notes[UNWIND_STORM_NOTES];
};

/* The argument is a tracer. */
#define UNWIND_STORM_REGISTER	_IO('U', 16)
#define UNWIND_STORM_CANCEL	_IO('U', 17)
#define UNWIND_STORM_BURST	_IOW('U', 18, struct unwind_storm_burst)
#define UNWIND_STORM_ARM	_IOW('U', 19, struct unwind_storm_arm)
#define UNWIND_STORM_DISARM	_IO('U', 20)
#define UNWIND_STORM_COUNTS	_IOR('U', 21, struct unwind_storm_counts)

#endif /* _KERNEL_UNWIND_TEST_STORM_H */
