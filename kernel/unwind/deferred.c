// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user stack unwinding.
 *
 * A tracer requests the user stack of current from any context, NMI included.
 * The task itself walks the stack, once for that kernel entry, where it may fault
 * and while the user registers are still those of the request. Then each tracer
 * that asked gets the trace, with the cookie that names the entry.
 *
 * Contexts:
 *  - unwind_deferred_request() and unwind_deferred_again(): any; constant time, no
 *    lock, no allocation.
 *  - unwind_deferred_reset(): interrupts off, last step to user mode.
 *  - everything else: task context, may sleep.
 *
 * All state of an entry is in current->unwind_info, which only current touches. So
 * only interrupts and NMIs on top of the task interleave with it, and each of them
 * runs to its end between two instructions of the task. The one exception is
 * unwind_deferred_cancel(), which clears a tracer's bit in the masks of other tasks.
 *
 * The life of an entry:
 *  1. The first request claims a cookie, sets its bit and UNWIND_PENDING, and
 *     queues the task work. UNWIND_USED stays set until the entry ends, even if a
 *     tracer is cancelled. Later requests only set their bit. A tracer whose bit is
 *     already set has its callback coming, or has had it.
 *  2. The task work clears UNWIND_PENDING, walks, and calls each tracer whose bit
 *     is set in unwind_mask and not in unwind_completed. Before the user registers
 *     are lost (exec, sigreturn, exit, a probed instruction), the kernel does the
 *     same ahead of time. The task work stays queued and then finds nothing due.
 *     Task work may run long before the entry ends: a tracer with several consumers
 *     can request its callback again.
 *  3. unwind_deferred_reset() forgets the entry. If UNWIND_PENDING is set then, an NMI
 *     came too late for this exit: its callback runs from the next entry, which
 *     the task work forces. UNWIND_LATE is set until then, and no other tracer gets
 *     that cookie. The task work forgets the cookie; the rest of the entry gets a new one.
 *
 * UNWIND_PENDING is set if and only if the task work is on the task's list: this
 * keeps the callback_head from being queued twice.
 */
#include <kunit/static_stub.h>
#include <linux/cpumask.h>
#include <linux/hardirq.h>
#include <linux/irqflags.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/ptrace.h>
#include <linux/sched/mm.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/task_work.h>
#include <linux/unwind_deferred.h>

#define CREATE_TRACE_POINTS
#include <trace/events/unwind.h>

#include "regs.h"
#include "test_tracer.h"
#include "text.h"
#include "tracers.h"
#include "unwind.h"

/* Callbacks that a task may repeat in one burst, see unwind_may_again(). */
#define UNWIND_AGAIN	8

/* Counts the named entries of this CPU in steps of 2: odd in each cookie, so none is 0. */
static DEFINE_PER_CPU(u32, unwind_entry_count);

/*
 * Name the current kernel entry. An NMI between any two of these steps gets the
 * same cookie: it finds @id complete, or it finds the count claimed and fills in
 * the same CPU, or it claims the count itself and the interrupted claim fails.
 */
static u64 unwind_entry_cookie(struct unwind_task_info *info)
{
	u32 cnt, none = 0;

	lockdep_assert_irqs_disabled();

	if (READ_ONCE(info->id.cpu))
		return READ_ONCE(info->id.id);

	cnt = (__this_cpu_read(unwind_entry_count) + 2) | 1;
	if (try_cmpxchg_local(&info->id.cnt, &none, cnt))
		__this_cpu_write(unwind_entry_count, cnt);
	unwind_test_point(UNWIND_TEST_POINT_COOKIE);

	WRITE_ONCE(info->id.cpu, smp_processor_id() + 1);
	return READ_ONCE(info->id.id);
}

/* Inline for the first request of an entry; all others use unwind_queue_again(). */
static __always_inline int unwind_queue_work(struct unwind_task_info *info, bool irqs_off)
{
	int ret;

	if (unwind_test_fail(UNWIND_TEST_FAIL_TASK_WORK))
		return -ESRCH;

	KUNIT_STATIC_STUB_REDIRECT(unwind_queue_work, info, irqs_off);

	/*
	 * An interrupt checks the task's flags again on its way out, and so does a
	 * task with interrupts enabled. Code that runs with interrupts off may be
	 * past the last check: force another one, as from NMI.
	 */
	if (in_nmi() || (irqs_off && !in_hardirq()))
		return task_work_add(current, &info->work, TWA_NMI_CURRENT);

	/* The caller may hold locks: do not allocate memory for KASAN's records. */
	ret = task_work_add(current, &info->work, TWA_NONE | TWAF_NO_ALLOC);
	/* Like TWA_RESUME, but without the kick: current is running here. */
	if (!ret)
		set_thread_flag(TIF_NOTIFY_RESUME);
	return ret;
}

static noinline int unwind_queue_again(struct unwind_task_info *info, bool irqs_off)
{
	return unwind_queue_work(info, irqs_off);
}

static int unwind_refuse(enum unwind_stat why, int err)
{
	unwind_count(why);
	return err;
}

/*
 * Request the stack for one tracer bit. Interrupts are off; @irqs_off tells whether
 * they were already off when the tracer called.
 */
static int unwind_request_bit(struct unwind_task_info *info, unsigned long bit,
			      bool irqs_off, bool complete, u64 *cookie)
{
	long mask = atomic_long_read(&info->unwind_mask);
	u64 id;
	int ret;

	if (mask & UNWIND_EXEC)
		return unwind_refuse(UNWIND_STAT_REFUSED_EXEC, -ESTALE);
	if (mask & UNWIND_RESET)
		return unwind_refuse(UNWIND_STAT_REFUSED_BETWEEN, -EAGAIN);

	/*
	 * The cookie is still that of the previous entry, see unwind_reset_entry(): refuse
	 * all tracers but those whose callback is still due.
	 */
	if ((mask & UNWIND_LATE) &&
	    (!(mask & bit) || (atomic_long_read(&info->unwind_completed) & bit)))
		return unwind_refuse(UNWIND_STAT_REFUSED_BETWEEN, -EAGAIN);

	unwind_note_regs(info, complete);
	id = unwind_entry_cookie(info);
	unwind_test_point(UNWIND_TEST_POINT_MASK);

	if (!(mask & bit))
		mask = atomic_long_fetch_or(bit | UNWIND_PENDING | UNWIND_USED,
					    &info->unwind_mask);
	if (mask & bit) {
		*cookie = id;
		return 1;
	}

	if (!(mask & UNWIND_PENDING)) {
		ret = unwind_queue_work(info, irqs_off);
		if (ret) {
			/*
			 * Undo what this call set, but keep UNWIND_USED, because the
			 * entry has a name. No other request relies on PENDING: a task
			 * whose work cannot be queued is exiting, and is refused.
			 */
			atomic_long_andnot(bit | UNWIND_PENDING, &info->unwind_mask);
			return unwind_refuse(UNWIND_STAT_REFUSED_NO_WORK, ret);
		}
	}

	*cookie = id;
	trace_user_unwind_cookie(id);
	return 0;
}

/**
 * unwind_deferred_request_regs - request current's user stack, with registers
 * @work:	the tracer
 * @complete:	task_pt_regs(current) holds the registers that user mode left, see
 *		perf_user_regs(); makes a difference in NMI only
 * @cookie:	set to the name of the kernel entry, or to 0 on error
 *
 * If the user registers are already complete, the walk detects whether they were
 * changed after the request.
 *
 * Context: any, NMI included.
 * Return: as unwind_deferred_request().
 */
int unwind_deferred_request_regs(struct unwind_work *work, bool complete, u64 *cookie)
{
	struct unwind_task_info *info = &current->unwind_info;
	int bit, ret;

	*cookie = 0;

	/* User workers have an mm, but no user mode to return to. */
	if (!is_user_task(current) || !user_mode(task_pt_regs(current)))
		return unwind_refuse(UNWIND_STAT_REFUSED_NO_USER, -EINVAL);
	if (current->flags & PF_EXITING)
		return unwind_refuse(UNWIND_STAT_REFUSED_EXITING, -ESRCH);

	/*
	 * Also holds off unwind_deferred_cancel(), whose synchronize_rcu() waits
	 * for sections with interrupts disabled: a bit read here still belongs to
	 * this tracer when it is set below.
	 */
	CLASS(irqsave, irqs)();

	/* Pairs with unwind_deferred_init() and unwind_deferred_cancel(). */
	bit = READ_ONCE(work->bit);
	if (bit < UNWIND_TRACER_SHIFT)
		return unwind_refuse(UNWIND_STAT_REFUSED_NO_TRACER, -EINVAL);

	ret = unwind_request_bit(info, BIT(bit), irqs_disabled_flags(irqs.flags), complete,
				 cookie);
	if (ret >= 0)
		unwind_count(UNWIND_STAT_REQUESTS);
	return ret;
}

/**
 * unwind_deferred_request - request current's user stack
 * @work:	the tracer
 * @cookie:	set to the name of the kernel entry, or to 0 on error
 *
 * All requests of all tracers in one kernel entry get the same cookie, and each
 * tracer gets one callback. If the stack cannot be walked, the callback comes with
 * an empty trace. It does not come if the tracer is cancelled first.
 *
 * Context: any, NMI included. Constant time; takes no lock, allocates nothing.
 * Return:
 * * 0		- the callback will come
 * * 1		- the callback is already due, or was called in this entry, see
 *		  unwind_deferred_again()
 * * -EINVAL	- the tracer is not registered, or current is not a user task
 * * -ESRCH	- current is exiting
 * * -ESTALE	- current is in exec: its user stack of this entry is gone
 * * -EAGAIN	- current is between two entries
 */
int unwind_deferred_request(struct unwind_work *work, u64 *cookie)
{
	return unwind_deferred_request_regs(work, false, cookie);
}

/**
 * unwind_deferred_request_stack - request a callback that copies the user stack
 * @work:	the tracer
 * @complete:	as for unwind_deferred_request_regs()
 * @size:	bytes of the stack that should be in memory at the callback
 * @cookie:	set to the name of the kernel entry, or to 0 on error
 *
 * In the callback, unwind_deferred_stack() tells what can be copied.
 *
 * Context: any, NMI included.
 * Return: as unwind_deferred_request().
 */
int unwind_deferred_request_stack(struct unwind_work *work, bool complete,
				  unsigned int size, u64 *cookie)
{
	struct unwind_task_info *info = &current->unwind_info;
	int ret = unwind_deferred_request_regs(work, complete, cookie);
	unsigned int want = READ_ONCE(info->stack_want);

	/* An NMI in between may want more. */
	while (ret >= 0 && want < size &&
	       !try_cmpxchg_local(&info->stack_want, &want, size))
		;
	return ret;
}

/*
 * May a tracer of current have its callback again? A task gets UNWIND_AGAIN repeats at once,
 * and one a second in the long run: each is a run of the task work, and perhaps another walk.
 */
static bool unwind_may_again(struct unwind_task_info *info, u32 now)
{
	u32 at = READ_ONCE(info->again_at);

	/* A larger distance means that again_at is past, or that jiffies have wrapped. */
	if (at - now > UNWIND_AGAIN * HZ)
		at = now;
	if (at - now > (UNWIND_AGAIN - 1) * HZ)
		return false;
	/* No partner: the update of an interrupt or NMI in between may be lost. */
	WRITE_ONCE(info->again_at, at + HZ);
	return true;
}

/* Repeat the callback of this bit. Interrupts are off; @irqs_off: they already were before. */
static int unwind_again_bit(struct unwind_task_info *info, unsigned long bit, bool irqs_off)
{
	long mask = atomic_long_read(&info->unwind_mask);
	int ret;

	if (!(mask & bit))
		return -EINVAL;
	if (!(atomic_long_read(&info->unwind_completed) & bit))
		return 1;
	if (mask & (UNWIND_EXEC | UNWIND_RESET | UNWIND_LATE))
		return -EAGAIN;
	if (unwind_test_fail(UNWIND_TEST_FAIL_AGAIN) || !unwind_may_again(info, jiffies))
		return unwind_refuse(UNWIND_STAT_REFUSED_AGAIN, -EBUSY);

	/* Make the bit due before PENDING is set: a run of the work in between finds it. */
	atomic_long_andnot(bit, &info->unwind_completed);
	mask = atomic_long_fetch_or(UNWIND_PENDING, &info->unwind_mask);
	if (mask & UNWIND_PENDING)
		return 0;
	ret = unwind_queue_again(info, irqs_off);
	if (ret) {
		atomic_long_or(bit, &info->unwind_completed);
		atomic_long_andnot(UNWIND_PENDING, &info->unwind_mask);
	}
	return ret;
}

/**
 * unwind_deferred_again - repeat a callback that was already called
 * @work:	the tracer, whose request in this kernel entry returned 1
 *
 * Task work may run inside a long entry, in a wait of io_uring or in a virtual machine. A
 * tracer with several consumers may then meet a consumer that asks for the first time after
 * the callback. A callback that was called comes again with the same cookie, and the same trace
 * unless uprobes corrected the user ip meanwhile; one that is still due is left as it is.
 *
 * All tracers of a task share a limit: otherwise a consumer that asks again each time the
 * task work runs would keep the task in the kernel. Refusals for this reason are counted.
 *
 * Context: any, NMI included. Constant time; takes no lock, allocates nothing.
 * Return:
 * * 0		- the callback comes again
 * * 1		- the callback is still due
 * * -EBUSY	- current has had its repeats, see above
 * * other	- the callback cannot be repeated any more
 */
int unwind_deferred_again(struct unwind_work *work)
{
	int bit;

	/* Holds off unwind_deferred_cancel(), as a request does. */
	CLASS(irqsave, irqs)();

	/* Pairs with unwind_deferred_init() and unwind_deferred_cancel(). */
	bit = READ_ONCE(work->bit);
	if (bit < UNWIND_TRACER_SHIFT)
		return -EINVAL;
	if (current->flags & PF_EXITING)
		return -ESRCH;
	return unwind_again_bit(&current->unwind_info, BIT(bit),
				irqs_disabled_flags(irqs.flags));
}

/* Does the trace take more than a page? Such memory is not kept for the next one. */
static bool unwind_cache_is_large(const struct unwind_task_info *info)
{
	return info->cache && info->cache->max > UNWIND_PAGE_ENTRIES;
}

/**
 * unwind_user_faultable - get current's user stack trace now
 * @trace:	set to the trace, which is empty on error
 *
 * Deferred requests in this kernel entry get the same trace: the first caller walks,
 * the others reuse it. The entries stay valid until the task runs its task work or exits. Both
 * hold until uprobes correct the user ip, see unwind_deferred_regs_moved().
 *
 * Context: task context, page faults allowed. May sleep.
 * Return:
 * * 0		- @trace is filled in; empty if the registers were changed
 * * -EINVAL	- current is not a user task
 * * -ESRCH	- current is exiting and has no trace: its last callbacks have run, or
 *		  memory is short
 * * -ESTALE	- current is in exec
 * * -EBUSY	- current is in a page fault of its own walk
 * * -ENOMEM	- no memory for the trace, and current is not exiting
 */
int unwind_user_faultable(struct unwind_stacktrace *trace)
{
	struct unwind_task_info *info = &current->unwind_info;
	long mask;

	might_fault();

	trace->nr = 0;
	trace->entries = NULL;

	if (!is_user_task(current) || !user_mode(task_pt_regs(current)))
		return -EINVAL;

	mask = atomic_long_fetch_or(UNWIND_USED, &info->unwind_mask);
	if (mask & UNWIND_EXEC)
		return -ESTALE;
	if (mask & UNWIND_WALKING)
		return -EBUSY;

	unwind_get_trace(info, trace);
	if (!info->cache)
		return current->flags & PF_EXITING ? -ESRCH : -ENOMEM;

	/* The task work frees the memory on the way out. */
	if (unwind_cache_is_large(info)) {
		mask = atomic_long_fetch_or(UNWIND_PENDING, &info->unwind_mask);
		if (!(mask & UNWIND_PENDING) && unwind_queue_again(info, false))
			atomic_long_andnot(UNWIND_PENDING, &info->unwind_mask);
	}
	return 0;
}

/* End an entry. Interrupts are off, NMIs still come. */
static void unwind_reset_entry(struct unwind_task_info *info)
{
	long completed, mask;

	lockdep_assert_irqs_disabled();
	unwind_test_point(UNWIND_TEST_POINT_RESET);

	mask = atomic_long_read(&info->unwind_mask);

	do {
		if (mask & UNWIND_PENDING) {
			/*
			 * The cookie has to last until its callback, but the cached
			 * trace belongs to this entry. No other tracer may name the
			 * next entry by this cookie: neither one that had the callback,
			 * nor one that asks in the next entry for the first time.
			 */
			atomic_long_or(UNWIND_LATE, &info->unwind_mask);
			/* From here on unwind_deferred_again() fails in NMIs. */
			completed = atomic_long_read(&info->unwind_completed);
			atomic_long_andnot(completed, &info->unwind_mask);
			info->walked = false;
			return;
		}
		/* From here on NMIs are refused until the entry is forgotten. */
	} while (!atomic_long_try_cmpxchg(&info->unwind_mask, &mask, UNWIND_RESET));

	info->id.id = 0;
	info->stack_want = 0;
	info->stack_size = 0;
	info->callchain_cpu = 0;
	info->user_state_cpu = 0;
	info->regs_seen = false;
	info->regs_changing = false;
	info->walked = false;
	atomic_long_set(&info->unwind_completed, 0);
	barrier();
	atomic_long_set(&info->unwind_mask, 0);
}

/*
 * The requests of a late NMI are delivered: the current entry gets a name of its own. In
 * exec it cannot get one, and the end of the entry forgets the late cookie.
 */
static void unwind_end_late(struct unwind_task_info *info)
{
	guard(irqsave)();

	if (!(atomic_long_read(&info->unwind_mask) & UNWIND_EXEC))
		unwind_reset_entry(info);
}

static void unwind_run_work(struct unwind_task_info *info)
{
	/* Set by unwind_reset_entry() only, so it does not change before the next line. */
	bool late = atomic_long_read(&info->unwind_mask) & UNWIND_LATE;

	/* From here on a new request queues the work again. */
	atomic_long_andnot(UNWIND_PENDING, &info->unwind_mask);

	unwind_deliver(info);
	if (unwind_cache_is_large(info))
		unwind_trim_cache(info);
	if (unlikely(late))
		unwind_end_late(info);
}

static void unwind_deferred_work(struct callback_head *head)
{
	unwind_run_work(&current->unwind_info);
}

/**
 * unwind_deferred_flush - run due callbacks now
 *
 * For places where code that may sleep is about to change current's user registers: at
 * a uprobe, before the probed instruction is emulated or stepped; and in exec, before
 * cred_guard_mutex is taken.
 *
 * Context: task context of current, may sleep and fault.
 */
void unwind_deferred_flush(void)
{
	struct unwind_task_info *info = &current->unwind_info;

	if (unlikely(atomic_long_read(&info->unwind_mask)))
		unwind_deliver(info);
}

/**
 * unwind_regs_change_begin - run due callbacks before user registers are replaced
 *
 * For the last moment before current's user registers are lost, if more kernel code runs
 * before the return to user mode: in sigreturn after the frame was read, in signal
 * delivery, where the kernel emulates an instruction or prepares its single step, and
 * where a return probe restores the registers. unwind_regs_change_end() marks them as
 * complete again.
 * Samples in between would mix both contexts, so they get no user registers.
 *
 * Context: task context of current, may sleep and fault; the change itself must not.
 */
void unwind_regs_change_begin(void)
{
	struct unwind_task_info *info = &current->unwind_info;
	unsigned long left = 0;

	for (;;) {
		unwind_test_point(UNWIND_TEST_POINT_CHANGE);
		/* Pairs with unwind_regs_changing() in interrupts and NMIs on top of this. */
		WRITE_ONCE(info->regs_changing, true);
		barrier();
		/* A request before the mark is for the old registers: deliver it with them. */
		if (likely(!(unwind_bits_due(info) & ~left)))
			return;

		WRITE_ONCE(info->regs_changing, false);
		left |= unwind_deliver(info);
	}
}

/**
 * unwind_deferred_exec - run due callbacks, then refuse requests until user mode
 *
 * For exec, past the point of no return and before the old mm is dropped: from here on
 * current has no user stack that belongs to this kernel entry. Nothing here waits for user
 * memory, see unwind_must_not_wait().
 *
 * Context: task context of current, may sleep.
 */
void unwind_deferred_exec(void)
{
	struct unwind_task_info *info = &current->unwind_info;

	/* Refuse first: earlier requests are delivered, and none can follow. */
	atomic_long_or(UNWIND_EXEC, &info->unwind_mask);
	unwind_deliver(info);
	/* Lasts until the entry ends, or a signal sets the registers of the new program. */
	unwind_regs_change_begin();
	if (unwind_cache_is_large(info))
		unwind_trim_cache(info);
	/* The address space is about to be replaced. */
	if (info->cache)
		unwind_text_forget(&info->cache->text);
}

/**
 * unwind_deferred_regs_moved - the kernel corrected the user registers
 *
 * Uprobes move the instruction pointer back onto the probe, out of the slot in which
 * a probed instruction was stepped, or off the return trampoline. The stack is
 * unchanged and the new registers are the true ones: a pending request takes them
 * as its own, and a trace that begins elsewhere is not used again.
 *
 * Context: task context of current.
 */
void unwind_deferred_regs_moved(void)
{
	struct unwind_task_info *info = &current->unwind_info;

	if (likely(!atomic_long_read(&info->unwind_mask)))
		return;

	guard(irqsave)();
	WRITE_ONCE(info->regs_seen, false);
	barrier();
	unwind_note_regs(info, true);
	unwind_drop_other_trace(info);
}

/**
 * unwind_deferred_task_exit - run due callbacks for the last time
 *
 * For do_exit(), after PF_EXITING has stopped new requests and while mm and perf
 * events of current still exist. Does not wait: the walk reads resident pages only.
 */
void unwind_deferred_task_exit(void)
{
	struct unwind_task_info *info = &current->unwind_info;

	lockdep_assert(current->flags & PF_EXITING);

	if (unlikely(atomic_long_read(&info->unwind_mask)))
		unwind_deliver(info);

	/*
	 * The remaining bits belong to tracers that are being cancelled. Work that is still
	 * queued runs without an address space, and must find nothing due.
	 */
	atomic_long_or(~UNWIND_RESERVED_BITS, &info->unwind_completed);
	info->stack_want = 0;

	unwind_free_cache(info);
	/* From here on unwind_get_trace() returns an empty trace. */
	info->walked = true;
}

/**
 * unwind_task_init - start a new task without unwind state
 * @task:	the child in fork, not running yet; a byte copy of its parent
 */
void unwind_task_init(struct task_struct *task)
{
	struct unwind_task_info *info = &task->unwind_info;

	memset(info, 0, sizeof(*info));
	/* 0 may be ahead: jiffies wrap five minutes after boot. */
	info->again_at = jiffies;
	init_task_work(&info->work, unwind_deferred_work);
}

/**
 * unwind_deferred_reset - end a kernel entry that has unwind state
 *
 * The part of unwind_reset_info() for tasks whose unwind_mask is not 0.
 *
 * Context: last step to user mode, interrupts off.
 */
void unwind_deferred_reset(void)
{
	unwind_reset_entry(&current->unwind_info);
}

#ifdef CONFIG_UNWIND_USER_KUNIT_TEST
#include "deferred_kunit.c"
#endif
