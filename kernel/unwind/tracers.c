// SPDX-License-Identifier: GPL-2.0
/*
 * The tracers of deferred user stack unwinding: their registration, and the delivery of
 * stacks to them.
 *
 * Contexts: task context, may sleep. Callbacks run under SRCU, except for those of
 * tracers with &unwind_work.may_wait.
 *
 * Invariant: a tracer that has a bit is on the list, and when unwind_deferred_cancel()
 * returns, its bit is clear in the masks of all tasks.
 */
#include <linux/bitops.h>
#include <linux/mutex.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/srcu.h>
#include <linux/unwind_deferred.h>
#include <trace/events/unwind.h>

#include "tracers.h"
#include "unwind.h"

static DEFINE_MUTEX(unwind_mutex);
static LIST_HEAD(unwind_works);
static unsigned long unwind_bits_used = UNWIND_RESERVED_BITS;
/* A bit of these masks changes only while no tracer owns it. */
unsigned long unwind_bits_no_trace;
unsigned long unwind_bits_want_files;
static unsigned long unwind_bits_may_wait;
DEFINE_SRCU(unwind_srcu);

/*
 * Claim the call of this tracer if it is due, and return its bit: it counts as called from
 * here on. Inline, because each delivery comes here.
 */
static __always_inline unsigned long
unwind_claim_call(struct unwind_task_info *info, struct unwind_work *work,
		  unsigned long due)
{
	/*
	 * Pairs with unwind_deferred_init(): a reader of a new owner's bit also sees
	 * masks from which cancel has swept the old owner's requests.
	 */
	int bit = smp_load_acquire(&work->bit);

	if (bit < UNWIND_TRACER_SHIFT || !(unwind_bits_due(info) & due & BIT(bit)))
		return 0;
	/* Skip a new owner of the bit: its request has queued the work again. */
	if (!work->no_trace && !info->walked)
		return 0;

	atomic_long_or(BIT(bit), &info->unwind_completed);
	return BIT(bit);
}

/* Call the tracers of @due, except for those that may wait. Returns the bits not called. */
static __always_inline unsigned long
unwind_call(struct unwind_task_info *info, unsigned long due,
	    struct unwind_stacktrace *trace, u64 cookie)
{
	struct unwind_work *work;
	unsigned long bit;
	int idx;

	idx = srcu_read_lock(&unwind_srcu);
	list_for_each_entry_srcu(work, &unwind_works, list,
				 srcu_read_lock_held(&unwind_srcu)) {
		bit = work->may_wait ? 0 : unwind_claim_call(info, work, due);
		if (!bit)
			continue;
		work->func(work, trace, cookie);
		unwind_count(UNWIND_STAT_CALLBACKS);
		/* Most often only one tracer is due. */
		due &= ~bit;
		if (!due)
			break;
	}
	srcu_read_unlock(&unwind_srcu, idx);
	return due;
}

/* Claim the next tracer of @due that may wait. */
static struct unwind_work *unwind_claim_waiting(struct unwind_task_info *info,
						unsigned long *due)
{
	struct unwind_work *work, *claimed = NULL;
	unsigned long bit;
	int idx;

	idx = srcu_read_lock(&unwind_srcu);
	list_for_each_entry_srcu(work, &unwind_works, list,
				 srcu_read_lock_held(&unwind_srcu)) {
		bit = work->may_wait ? unwind_claim_call(info, work, *due) : 0;
		if (bit) {
			*due &= ~bit;
			claimed = work;
			break;
		}
	}
	srcu_read_unlock(&unwind_srcu, idx);
	return claimed;
}

/* Call the tracers of @due that may wait. Returns the bits not called. */
static noinline unsigned long
unwind_call_waiting(struct unwind_task_info *info, unsigned long due,
		    struct unwind_stacktrace *trace, u64 cookie)
{
	struct unwind_work *work;

	while ((work = unwind_claim_waiting(info, &due))) {
		/* A tracer that may wait is never freed. */
		work->func(work, trace, cookie);
		unwind_count(UNWIND_STAT_CALLBACKS);
	}
	return due;
}

/* Those that may wait come last, so that they do not delay the others. */
static __always_inline unsigned long
unwind_call_due(struct unwind_task_info *info, unsigned long due,
		struct unwind_stacktrace *trace, u64 cookie)
{
	due = unwind_call(info, due, trace, cookie);
	/* Pairs with unwind_deferred_init(), as the bits of @due do. */
	if (likely(!(due & READ_ONCE(unwind_bits_may_wait))))
		return due;
	return unwind_call_waiting(info, due, trace, cookie);
}

/* Claim the user_unwind_stack event of this entry. False if it is off or was hit. */
static bool unwind_wants_event(struct unwind_task_info *info)
{
	return trace_user_unwind_stack_enabled() &&
	       !(atomic_long_fetch_or(UNWIND_EVENT, &info->unwind_mask) & UNWIND_EVENT);
}

/* Get the trace, files and stack that the tracers of @due and the event need. */
static void unwind_prepare(struct unwind_task_info *info, unsigned long due,
			   struct unwind_stacktrace *trace, bool event)
{
	might_fault();
	/* Pairs with unwind_deferred_init(), as the bits of @due do. */
	if (event || (due & ~READ_ONCE(unwind_bits_no_trace)))
		unwind_get_trace(info, trace);
	/* Likewise. */
	if (unlikely(event || (due & READ_ONCE(unwind_bits_want_files))))
		unwind_get_files(trace);
	if (info->stack_want)
		unwind_fault_in_stack(info);
}

/**
 * unwind_deliver - call the tracers that are due
 * @info:	current's
 *
 * The walk and everything else that may wait for user memory come first, outside of the
 * SRCU section: they may take as long as the user likes, and would make every
 * unwind_deferred_cancel() wait. Tracers that ask meanwhile are called in the next round.
 *
 * Context: task context of current, may sleep and fault.
 * Return: the bits that were due and for which no tracer was called.
 */
unsigned long unwind_deliver(struct unwind_task_info *info)
{
	unsigned long due, done = 0, left = 0;
	struct unwind_stacktrace trace = {};
	u64 cookie;

	/* A bit may stay due without being called while its tracer is cancelled. */
	while ((due = unwind_bits_due(info) & ~done)) {
		bool event = unwind_wants_event(info);

		/* The request of a due tracer has named the entry, and it keeps that name. */
		cookie = READ_ONCE(info->id.id);

		unwind_prepare(info, due, &trace, event);
		if (event)
			trace_user_unwind_stack(cookie, &trace);
		left |= unwind_call_due(info, due, &trace, cookie);
		done |= due;
	}
	if (unlikely(trace.files))
		unwind_put_files(&trace);
	return left;
}

/* Lockless readers see the change, see unwind_prepare() and unwind_call_due(). */
static void unwind_assign_bit(unsigned long *bits, unsigned long bit, bool set)
{
	lockdep_assert_held(&unwind_mutex);
	WRITE_ONCE(*bits, set ? *bits | BIT(bit) : *bits & ~BIT(bit));
}

/**
 * unwind_deferred_init - register a tracer
 * @work:	the tracer, not registered
 * @func:	its callback
 *
 * Context: task context, may sleep.
 * Return: 0, -EINVAL when @work is already registered, -EBUSY when all
 * UNWIND_MAX_TRACERS bits are taken.
 */
int unwind_deferred_init(struct unwind_work *work, unwind_callback_t func)
{
	unsigned long bit;

	guard(mutex)(&unwind_mutex);

	if (work->bit >= UNWIND_TRACER_SHIFT)
		return -EINVAL;

	bit = find_first_zero_bit(&unwind_bits_used, BITS_PER_LONG);
	if (bit >= BITS_PER_LONG)
		return -EBUSY;

	unwind_bits_used |= BIT(bit);
	/* Set these before the bit, because readers check them after it. */
	unwind_assign_bit(&unwind_bits_no_trace, bit, work->no_trace);
	unwind_assign_bit(&unwind_bits_want_files, bit, work->want_files);
	unwind_assign_bit(&unwind_bits_may_wait, bit, work->may_wait);
	work->func = func;
	list_add_tail_rcu(&work->list, &unwind_works);
	/*
	 * Last, so that a granted request finds the work on the list. Pairs with
	 * unwind_claim_call() and unwind_deferred_request_regs().
	 */
	smp_store_release(&work->bit, bit);
	unwind_count(UNWIND_STAT_TRACERS);
	return 0;
}

/* Clear, in the masks of all tasks, a bit that no tracer can set any more. */
static void unwind_sweep_bit(unsigned long bit)
{
	struct task_struct *p, *t;

	guard(rcu)();
	for_each_process_thread(p, t) {
		atomic_long_andnot(bit, &t->unwind_info.unwind_mask);
		atomic_long_andnot(bit, &t->unwind_info.unwind_completed);
	}
}

/**
 * unwind_deferred_cancel - unregister a tracer
 * @work:	the tracer; nothing happens if it is not registered
 *
 * When this returns, the callback is not running and will not run again, except for a
 * @work with &unwind_work.may_wait: its callback may still run if it was claimed before.
 * Requests that were granted and not delivered yet are dropped. @work can be registered
 * again; it can be freed unless it may wait.
 *
 * Context: task context, may sleep; not from a callback.
 */
void unwind_deferred_cancel(struct unwind_work *work)
{
	int bit;

	might_sleep();
	guard(mutex)(&unwind_mutex);

	bit = work->bit;
	if (bit < UNWIND_TRACER_SHIFT)
		return;

	list_del_rcu(&work->list);
	WRITE_ONCE(work->bit, -1);

	/* Requests that still saw the bit have set it by now, ... */
	synchronize_rcu();
	/* ... no callback of the removed work runs any more, unless it may wait, ... */
	synchronize_srcu(&unwind_srcu);
	/* ... the bit is clear in all tasks before its next owner asks, ... */
	unwind_sweep_bit(BIT(bit));
	/* ... and no unwind_reset_entry() that read it before can act on it. */
	synchronize_rcu();
	unwind_bits_used &= ~BIT(bit);
	unwind_count_add(UNWIND_STAT_TRACERS, -1);
}
