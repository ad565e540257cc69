/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Types of the deferred unwinding core, see kernel/unwind/deferred.c. Apart from
 * unwind_deferred.h because task_struct embeds one of them.
 */
#ifndef _LINUX_UNWIND_DEFERRED_TYPES_H
#define _LINUX_UNWIND_DEFERRED_TYPES_H

#include <linux/atomic.h>
#include <linux/types.h>

struct unwind_cache;
struct unwind_stacktrace;
struct unwind_work;

/**
 * union unwind_task_id - name of one kernel entry, the cookie
 * @cpu:	CPU of the first request plus one: never 0 once complete
 * @cnt:	counter of that CPU, always odd: never 0 once claimed
 * @id:		both as one number, as tracers get it; 0 means none
 *
 * User space sees @id: the layout is ABI.
 */
union unwind_task_id {
	struct {
		u32	cpu;
		u32	cnt;
	};
	u64	id;
};

/**
 * struct unwind_task_info - state of one task's kernel entry
 * @unwind_mask:	UNWIND_* bits and a bit for each tracer that asked in this
 *			entry; 0 in every task that nobody asked about. Written by
 *			the task itself, in any context, and by cancel
 * @unwind_completed:	tracers whose callback ran in this entry, and that did not ask
 *			for it again since. Written like @unwind_mask
 * @cache:		the trace of this entry, NULL until the first walk; owned
 *			by the task, freed when it exits
 * @work:		runs the callbacks on return to user space; queued if and
 *			only if UNWIND_PENDING is set
 * @id:			cookie of this entry
 * @ip:			user instruction pointer at the first request that could
 *			see it, valid if @regs_seen
 * @sp:			user stack pointer, likewise
 * @stack_want:		bytes of the user stack that tracers want to copy
 * @stack_size:		bytes from the user stack pointer on that there are to copy, at
 *			most @stack_want; set before the callbacks are run
 * @callchain_cpu:	CPU plus one whose perf events asked first for a callchain, until perf
 *			has the delivery or the entry ends without one; 0 if none did
 * @user_state_cpu:	likewise, for user registers and stack
 * @delivered_to:	which programs of BPF get this entry's trace: those that were there when
 *			one asked for it, or when it came; BPF's own, of no meaning before
 * @again_at:		in jiffies, when tracers have asked again as often as they may by then,
 *			see unwind_deferred_again()
 * @regs_seen:		@ip and @sp are set
 * @regs_changing:	task_pt_regs() are being replaced, and are no user mode's now: in
 *			some instructions of signal delivery, sigreturn, emulated
 *			vsyscalls and uprobes, and in exec up to the return to user mode
 * @walked:		@cache holds this entry's trace, which may be empty; without
 *			@cache the trace is empty
 *
 * All fields are the task's own, and but for the two masks nobody else touches
 * them: "concurrency" is an interrupt or NMI on top of the task.
 */
struct unwind_task_info {
	atomic_long_t		unwind_mask;
	atomic_long_t		unwind_completed;
	struct unwind_cache	*cache;
	struct callback_head	work;
	union unwind_task_id	id;
	unsigned long		ip;
	unsigned long		sp;
	unsigned int		stack_want;
	unsigned int		stack_size;
	unsigned int		callchain_cpu;
	unsigned int		user_state_cpu;
	unsigned int		delivered_to;
	u32			again_at;
	bool			regs_seen;
	bool			regs_changing;
	bool			walked;
};

/**
 * struct unwind_user_stack - where the user stack of a request is
 * @ip:		user instruction pointer at the first request that could see it
 * @sp:		user stack pointer, likewise
 * @size:	bytes from @sp on that are mapped and, a moment ago, were in memory; at
 *		most what was asked for, 0 if @moved
 * @moved:	user mode will go on somewhere else: task_pt_regs() and the stack are
 *		not those of the request any more
 */
struct unwind_user_stack {
	unsigned long	ip;
	unsigned long	sp;
	unsigned int	size;
	bool		moved;
};

/**
 * typedef unwind_callback_t - a tracer's callback
 * @work:	the tracer
 * @trace:	the user stack trace; empty (nr is 0) when there is none. Valid
 *		during the call only
 * @cookie:	what unwind_deferred_request() returned in this entry
 *
 * Called in task context of the traced task, with interrupts on, inside an SRCU
 * read-side section of the core but for those that &unwind_work.may_wait. May sleep,
 * but should not for long: it delays the task and every unwind_deferred_cancel(). Must
 * not cancel any work.
 */
typedef void (*unwind_callback_t)(struct unwind_work *work,
				  struct unwind_stacktrace *trace, u64 cookie);

/**
 * struct unwind_work - a tracer, to be embedded in the tracer's own data
 * @list:	on the core's list of tracers while registered, under its mutex
 *		and SRCU
 * @func:	the callback; constant while registered
 * @no_trace:	@func does without the trace, which may be empty then; set by the
 *		owner before it registers
 * @want_files:	@func wants &unwind_stacktrace.files; likewise
 * @may_wait:	@func may wait for user memory, and so for as long as the user likes:
 *		it is called outside of the SRCU section, may still run after
 *		unwind_deferred_cancel(), and therefore, as @work, is there for
 *		good; likewise
 * @bit:	the tracer's bit in the masks of all tasks, below
 *		UNWIND_TRACER_SHIFT while not registered. Written under the
 *		core's mutex
 *
 * Zeroed memory is a valid tracer that is not registered.
 */
struct unwind_work {
	struct list_head	list;
	unwind_callback_t	func;
	bool			no_trace;
	bool			want_files;
	bool			may_wait;
	int			bit;
};

#endif /* _LINUX_UNWIND_DEFERRED_TYPES_H */
