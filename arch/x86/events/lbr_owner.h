/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whose calls a CPU's branch stack holds, in call stack mode: what to do with it at a context
 * switch, and when events come and go; and where saved registers end. These functions touch no
 * hardware; the LBR of Intel CPUs and the branch stack of the test PMU share most of them.
 *
 * Contexts: on the CPU, with interrupts off.
 *
 * Invariant: while an event with call stacks counts, the branch stack holds calls of the task
 * that runs, or none: not those of another task, nor of a guest, nor of a program that exec
 * replaced, nor of before the first of the CPU's events was opened. While KVM's event counts, it
 * holds branches of the guest that the task runs, or none. A context switch has moments at which
 * that is not so: lbr_owner_shows() tells them.
 */
#ifndef _X86_EVENTS_LBR_OWNER_H
#define _X86_EVENTS_LBR_OWNER_H

#include <linux/bug.h>
#include <linux/lockdep.h>
#include <linux/perf_task_data.h>

#include <asm/fpu/types.h>

/**
 * enum lbr_kind - what an event uses the branch stack for
 * @LBR_BRANCHES:	branches that are not kept when the task leaves the CPU
 * @LBR_CALLS:		call stacks of user code
 * @LBR_GUEST:		it is KVM's event: a guest has the branch stack, and the registers are the
 *			guest's; they are saved and restored as call stacks are
 */
enum lbr_kind {
	LBR_BRANCHES,
	LBR_CALLS,
	LBR_GUEST,
};

/**
 * struct lbr_owner - whose calls the branch stack of a CPU holds
 * @users:	events that count here and want what was saved, of the last two kinds
 * @guests:	those of a guest
 * @guest:	the branch stack holds what a guest has left
 * @task:	the task whose calls it holds, only to be compared while events count here; NULL
 *		while that changes
 * @stale:	the calls may be another task's, and have to be wiped before an event counts
 * @left:	what ran when the last event went; zero if the branches are not those of that run
 * @left_calls:	they are calls
 */
struct lbr_owner {
	int			users;
	int			guests;
	bool			guest;
	bool			stale;
	bool			left_calls;
	struct task_struct	*task;
	struct perf_task_run	left;
};

/**
 * enum lbr_action - what to do with the branch stack of a CPU
 * @LBR_LEAVE:		nothing
 * @LBR_SAVE:		save it to a task's data
 * @LBR_RESTORE:	restore it from there
 * @LBR_WIPE:		make it empty
 */
enum lbr_action {
	LBR_LEAVE,
	LBR_SAVE,
	LBR_RESTORE,
	LBR_WIPE,
};

/**
 * lbr_owner_add - an event begins to count
 * @owner:	the owner
 * @first:	no other event uses the branch stack
 * @kind:	of the event
 * @new:	the event has not counted before
 *
 * A new event begins with an empty stack. One that goes on keeps what is there, if nothing else has
 * run meanwhile, and if it is of its kind. Otherwise the stack is stale: if a task gets on the CPU,
 * lbr_owner_switch() follows, which restores or wipes it, and else lbr_owner_enable().
 *
 * Return: LBR_WIPE or LBR_LEAVE.
 */
static inline enum lbr_action lbr_owner_add(struct lbr_owner *owner, bool first,
					    enum lbr_kind kind, bool new)
{
	lockdep_assert_irqs_disabled();
	owner->users += kind != LBR_BRANCHES;
	owner->guests += kind == LBR_GUEST;
	if (!first)
		return LBR_LEAVE;
	owner->task = current;
	owner->stale = !new && !(perf_task_run_goes_on(&owner->left) &&
				 owner->left_calls == (kind != LBR_BRANCHES));
	if (!new)
		return LBR_LEAVE;
	owner->guest = owner->guests;
	return LBR_WIPE;
}

/**
 * lbr_owner_enable - events are about to count
 * @owner:	the owner, for which an event was added
 *
 * While events are only taken out and added again, no task and no guest runs. So this, and not
 * lbr_owner_add() and lbr_owner_del(), finds out whether the branch stack goes from a guest to the
 * host, or back.
 *
 * Return: LBR_WIPE, to be done before lbr_owner_enabled(); or LBR_LEAVE.
 */
static inline enum lbr_action lbr_owner_enable(struct lbr_owner *owner)
{
	if (likely(!owner->stale && owner->guest == !!owner->guests))
		return LBR_LEAVE;
	return LBR_WIPE;
}

/**
 * lbr_owner_enabled - the wipe that lbr_owner_enable() has asked for is done
 * @owner:	the owner
 *
 * An NMI amid the wipe may make the events count, and wipes itself then: it still finds the branch
 * stack to be wiped.
 */
static inline void lbr_owner_enabled(struct lbr_owner *owner)
{
	barrier();
	WRITE_ONCE(owner->stale, false);
	WRITE_ONCE(owner->guest, owner->guests);
}

/**
 * lbr_owner_del - an event stops counting
 * @owner:	the owner
 * @last:	no other event uses the branch stack
 * @kind:	of the event
 *
 * When a task gets on the CPU, events of the CPU may go before lbr_owner_switch(): the calls
 * are still those of the former task then.
 */
static inline void lbr_owner_del(struct lbr_owner *owner, bool last, enum lbr_kind kind)
{
	lockdep_assert_irqs_disabled();
	owner->users -= kind != LBR_BRANCHES;
	owner->guests -= kind == LBR_GUEST;
	WARN_ON_ONCE(owner->users < 0 || owner->guests < 0);
	if (!last)
		return;
	owner->left_calls = kind != LBR_BRANCHES;
	owner->left = owner->task == current && !owner->stale ? perf_task_run() :
								(struct perf_task_run) {};
}

/**
 * lbr_owner_switch - a task gets on the CPU or leaves it
 * @owner:	the owner
 * @task:	the task
 * @cache:	pmu::task_ctx_cache
 * @sched_in:	the task gets on the CPU
 * @data:	set to the object to save to or restore from
 *
 * Branches are not tagged with an address space. If there is nowhere to save those of another task,
 * wipe them. Restore a guest's branches only for a guest: KVM's event may go while the task is not
 * on a CPU.
 *
 * Return: what to do, before lbr_owner_switched().
 */
static inline enum lbr_action lbr_owner_switch(struct lbr_owner *owner, struct task_struct *task,
					       struct kmem_cache *cache, bool sched_in,
					       void **data)
{
	enum lbr_kind kind = owner->guests ? LBR_GUEST : LBR_CALLS;

	lockdep_assert_irqs_disabled();
	*data = owner->users ? perf_task_data_switch(task, cache, sched_in, kind) : NULL;
	if (!sched_in)
		return *data ? LBR_SAVE : LBR_LEAVE;
	/* An NMI shows nothing from here to lbr_owner_switched(). */
	WRITE_ONCE(owner->task, NULL);
	barrier();
	owner->stale = false;
	owner->guest = owner->guests;
	return *data ? LBR_RESTORE : LBR_WIPE;
}

/**
 * lbr_owner_switched - what lbr_owner_switch() has asked for is done
 * @owner:	the owner
 * @task:	the task that gets on the CPU or has left it
 * @sched_in:	the task gets on the CPU
 */
static inline void lbr_owner_switched(struct lbr_owner *owner, struct task_struct *task,
				      bool sched_in)
{
	if (!sched_in)
		return;
	barrier();
	WRITE_ONCE(owner->task, task);
}

/**
 * lbr_owner_shows - may a sample of the host show what the branch stack holds?
 * @owner:	the owner
 *
 * A guest's branches are not for the host, nor what is to be wiped. While a task gets on the CPU,
 * events count before lbr_owner_switch() has restored its calls: what is there is of the former
 * task.
 *
 * Context: on the CPU, NMI included.
 * Return: false if the sample has to do without.
 */
static inline bool lbr_owner_shows(const struct lbr_owner *owner)
{
	return !READ_ONCE(owner->guests) && !READ_ONCE(owner->guest) &&
	       !READ_ONCE(owner->stale) && READ_ONCE(owner->task) == current;
}

/**
 * lbr_entries_end - end what was saved of the registers of architectural LBR
 * @entries:	a task's saved registers; a restore takes those up to the first one that is zero
 * @saved:	how many registers were saved: those up to the first one that was zero
 * @nr:		how many registers there are
 *
 * Entries after those are of an earlier save, maybe of another program, and must not be restored.
 * If not all registers were saved, the last entry is zero as well, which tells a restore to reset
 * the registers first.
 */
static inline void lbr_entries_end(struct lbr_entry *entries, unsigned int saved, unsigned int nr)
{
	if (saved >= nr)
		return;
	entries[saved].from = 0;
	entries[nr - 1].from = 0;
}

#endif /* _X86_EVENTS_LBR_OWNER_H */
