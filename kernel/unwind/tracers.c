// SPDX-License-Identifier: GPL-2.0
/*
 * The tracers of deferred user stack unwinding: who may ask, and how those are called
 * that did.
 *
 * Contexts: task context, may sleep. Callbacks run under SRCU, but for those that may
 * wait.
 *
 * Invariant: a tracer that has a bit is on the list, and when unwind_deferred_cancel()
 * returns no mask of any task has its bit any more.
 */
#include <linux/bitops.h>
#include <linux/mutex.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/srcu.h>
#include <linux/unwind_deferred.h>

#include "tracers.h"
#include "unwind.h"

static DEFINE_MUTEX(unwind_mutex);
static LIST_HEAD(unwind_works);
static unsigned long unwind_bits_used = UNWIND_RESERVED_BITS;
/* A bit of these changes only while it is nobody's. */
unsigned long unwind_bits_no_trace;
unsigned long unwind_bits_want_files;
static unsigned long unwind_bits_may_wait;
DEFINE_SRCU(unwind_srcu);

/*
 * The bit of this tracer, if it is its time: it counts as called from here on. Inline, as
 * each delivery comes here.
 */
static __always_inline unsigned long
unwind_claim_call(struct unwind_task_info *info, struct unwind_work *work,
		  unsigned long due)
{
	/*
	 * Pairs with unwind_deferred_init(): with a new owner's bit come masks from
	 * which cancel has swept the old one's requests.
	 */
	int bit = smp_load_acquire(&work->bit);

	if (bit < UNWIND_TRACER_SHIFT || !(unwind_bits_due(info) & due & BIT(bit)))
		return 0;
	/* A new owner of the bit, whose request has queued the work again. */
	if (!work->no_trace && !info->walked)
		return 0;

	atomic_long_or(BIT(bit), &info->unwind_completed);
	return BIT(bit);
}

/* Call the tracers of @due, but for those that may wait. Returns who was not called. */
static unsigned long unwind_call(struct unwind_task_info *info, unsigned long due,
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
		/* Most often there is one. */
		due &= ~bit;
		if (!due)
			break;
	}
	srcu_read_unlock(&unwind_srcu, idx);
	return due;
}

/* Of those that may wait, the next of @due, claimed. */
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

/**
 * unwind_call_tracers - call who is due
 * @info:	current's
 * @due:	their bits
 * @trace:	what they get
 * @cookie:	names the kernel entry
 *
 * What some of them wait for does not hold up the others.
 *
 * Context: task context of current, may sleep.
 * Return: the bits of @due that nobody was called for.
 */
unsigned long unwind_call_tracers(struct unwind_task_info *info, unsigned long due,
				  struct unwind_stacktrace *trace, u64 cookie)
{
	struct unwind_work *work;

	due = unwind_call(info, due, trace, cookie);
	/* Pairs with unwind_deferred_init(), as the bits of @due do. */
	if (likely(!(due & READ_ONCE(unwind_bits_may_wait))))
		return due;

	while ((work = unwind_claim_waiting(info, &due))) {
		/* One that may wait is never freed. */
		work->func(work, trace, cookie);
		unwind_count(UNWIND_STAT_CALLBACKS);
	}
	return due;
}

/* Readers see it without a lock, see unwind_prepare() and unwind_call_tracers(). */
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
 * Return: 0, -EINVAL when @work is registered, -EBUSY when all tracer bits are
 * taken: there are UNWIND_MAX_TRACERS.
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
	/* Before the bit, as those who look at them do so after it. */
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
	return 0;
}

/* Take a bit that nobody can set any more out of all tasks' masks. */
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
 * @work:	the tracer; one that is not registered is left alone
 *
 * When this returns the callback is not running and never will, but for a @work that
 * &unwind_work.may_wait: of that, one that was claimed before may still run. Requests
 * that were granted and not delivered yet are dropped. @work can be freed or
 * registered again.
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

	/* Requests that still saw the bit have set it now, ... */
	synchronize_rcu();
	/* ... no callback is running that found the work, ... */
	synchronize_srcu(&unwind_srcu);
	/* ... and before its next owner asks, nobody remembers this one, */
	unwind_sweep_bit(BIT(bit));
	/* ... not even an unwind_reset_entry() that read it before. */
	synchronize_rcu();
	unwind_bits_used &= ~BIT(bit);
}

/**
 * unwind_nr_tracers - how many tracers there are
 *
 * Return: those that are registered, and those that are about to be gone.
 */
unsigned int unwind_nr_tracers(void)
{
	guard(mutex)(&unwind_mutex);

	return hweight_long(unwind_bits_used & ~UNWIND_RESERVED_BITS);
}
