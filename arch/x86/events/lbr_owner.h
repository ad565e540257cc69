/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whose calls a CPU's branch stack holds, in call stack mode: what to do with it at a context
 * switch, and when events come and go. These functions touch no hardware; the LBR of Intel CPUs
 * and the branch stack of the test PMU share them.
 *
 * Contexts: on the CPU, with interrupts off.
 *
 * Invariant: while an event with call stacks counts, the branch stack holds calls of the task
 * that runs, or none: not those of another task, nor of a program that was executed over, nor of
 * before the first of the CPU's events was opened.
 */
#ifndef _X86_EVENTS_LBR_OWNER_H
#define _X86_EVENTS_LBR_OWNER_H

#include <linux/bug.h>
#include <linux/perf_task_data.h>

/**
 * struct lbr_owner - whose calls the branch stack of a CPU holds
 * @users:	events with call stacks that count here
 * @task:	the task whose calls it holds, only to be compared while events count here
 * @stale:	the calls may be another task's, and have to be wiped before an event counts
 * @left:	what ran when the last event went; zero if the calls are not those of that run
 */
struct lbr_owner {
	int			users;
	bool			stale;
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
 * @callstack:	the event wants call stacks of user code
 * @new:	the event has not counted before
 *
 * A new event begins with an empty stack. One that goes on keeps what its task has called, if
 * nothing else has run meanwhile. Otherwise the stack is stale: if a task gets on the CPU,
 * lbr_owner_switch() follows, which restores or wipes it, and else lbr_owner_enable(). With
 * another kind of branches it keeps what is there: the registers are not wiped for it.
 *
 * Return: LBR_WIPE or LBR_LEAVE.
 */
static inline enum lbr_action lbr_owner_add(struct lbr_owner *owner, bool first, bool callstack,
					    bool new)
{
	owner->users += callstack;
	if (!first)
		return LBR_LEAVE;
	owner->task = current;
	owner->stale = callstack && !new && !perf_task_run_goes_on(&owner->left);
	return new ? LBR_WIPE : LBR_LEAVE;
}

/**
 * lbr_owner_enable - events are about to count
 * @owner:	the owner
 *
 * Return: LBR_WIPE or LBR_LEAVE.
 */
static inline enum lbr_action lbr_owner_enable(struct lbr_owner *owner)
{
	if (likely(!owner->stale))
		return LBR_LEAVE;
	owner->stale = false;
	return LBR_WIPE;
}

/**
 * lbr_owner_del - an event stops counting
 * @owner:	the owner
 * @last:	no other event uses the branch stack
 * @callstack:	the event wanted call stacks of user code
 *
 * When a task gets on the CPU, events of the CPU may go before lbr_owner_switch(): the calls
 * are still those of the former task then.
 */
static inline void lbr_owner_del(struct lbr_owner *owner, bool last, bool callstack)
{
	owner->users -= callstack;
	WARN_ON_ONCE(owner->users < 0);
	if (last && callstack && owner->task == current && !owner->stale)
		owner->left = perf_task_run();
	else if (last)
		owner->left = (struct perf_task_run) {};
}

/**
 * lbr_owner_switch - a task gets on the CPU or leaves it
 * @owner:	the owner
 * @task:	the task
 * @cache:	pmu::task_ctx_cache
 * @sched_in:	the task gets on the CPU
 * @data:	set to the object to save to or restore from
 *
 * Branches are not tagged with an address space. So without a place to keep them, those of
 * another task must not be left.
 *
 * Return: what to do.
 */
static inline enum lbr_action lbr_owner_switch(struct lbr_owner *owner, struct task_struct *task,
					       struct kmem_cache *cache, bool sched_in,
					       void **data)
{
	*data = owner->users ? perf_task_data_switch(task, cache, sched_in) : NULL;
	if (!sched_in)
		return *data ? LBR_SAVE : LBR_LEAVE;
	owner->task = task;
	owner->stale = false;
	return *data ? LBR_RESTORE : LBR_WIPE;
}

#endif /* _X86_EVENTS_LBR_OWNER_H */
