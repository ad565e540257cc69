/* SPDX-License-Identifier: GPL-2.0 */
/*
 * PMU-specific data of tasks: what a PMU keeps of a task while the task is not on a CPU, such
 * as its branch stack.
 *
 * A PMU that sets pmu::task_ctx_cache gets an object of that cache for each task that an event
 * with PERF_ATTACH_TASK_DATA may count: for the task of an event of a task, and for all tasks of
 * the system while there is such an event of a CPU. Its sched_task() callback finds the object
 * by perf_task_data_switch(), whichever event it is called for. A task has no object if memory was
 * short: then the PMU wipes its state, because that is another task's.
 *
 * PMUs with the same cache share an object, as those of a hybrid CPU do. Create the cache with
 * SLAB_NO_MERGE, or it may be that of another PMU with objects of about that size.
 */
#ifndef _LINUX_PERF_TASK_DATA_H
#define _LINUX_PERF_TASK_DATA_H

#include <linux/lockdep.h>
#include <linux/minmax.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <linux/types.h>

struct kmem_cache;

/**
 * struct perf_ctx_data - the data of a task for the PMUs of one cache
 * @next:	data of the task for other caches
 * @cache:	where @data is from; tells which PMUs it is for
 * @data:	the object, zeroed when it is allocated
 * @stamp:	the task's context switches when @data was saved, 0 if it never was, and since exec
 * @kind:	what @data was saved for, as the PMU numbers it
 * @events:	number of events of the task that need it; memory for these ends long before it
 *		could wrap around
 * @global:	an event of a CPU needs it
 * @rcu_head:	frees it when no context switch uses it any more
 *
 * task_struct::perf_ctx_data_lock protects @next, @events and @global. Only context switches of
 * the task change @data, @stamp and @kind, and the task itself with interrupts off.
 */
struct perf_ctx_data {
	struct perf_ctx_data __rcu	*next;
	struct kmem_cache		*cache;
	void				*data;
	unsigned long			stamp;
	unsigned int			kind;
	unsigned long			events;
	bool				global;
	struct rcu_head			rcu_head;
};

/**
 * perf_task_data - find a task's data for a PMU
 * @task:	the task
 * @cache:	pmu::task_ctx_cache
 *
 * Context: callbacks of a PMU, with interrupts off.
 * Return: the data, valid until interrupts are on; NULL if the task has none.
 */
static inline struct perf_ctx_data *perf_task_data(struct task_struct *task,
						   struct kmem_cache *cache)
{
	struct perf_ctx_data *data;

	lockdep_assert_irqs_disabled();
	for (data = rcu_dereference_sched(task->perf_ctx_data); data;
	     data = rcu_dereference_sched(data->next)) {
		if (data->cache == cache)
			break;
	}
	return data;
}

/**
 * perf_task_data_switch - where to save a PMU's state at a context switch, or what to restore
 * @task:	the task, which gets on this CPU or leaves it
 * @cache:	pmu::task_ctx_cache
 * @sched_in:	which of these it does
 * @kind:	what the PMU counts for, if some uses must not see what others have left; or 0
 *
 * Saved state is valid only if the task has not run since it was saved: it may have been on a CPU
 * that has no event. The scheduler counts each switch before it tells perf, so a task that has not
 * run since has the same count.
 *
 * Context: pmu::sched_task(), with interrupts off.
 * Return: the object to save to, or to restore from; NULL if there is none: then a state must
 * not be left to a task that gets on the CPU.
 */
static inline void *perf_task_data_switch(struct task_struct *task, struct kmem_cache *cache,
					  bool sched_in, unsigned int kind)
{
	struct perf_ctx_data *data = perf_task_data(task, cache);
	unsigned long switches = task->nvcsw + task->nivcsw;

	if (!data)
		return NULL;
	if (!sched_in) {
		data->stamp = switches;
		data->kind = kind;
	}
	return data->stamp && data->stamp == switches && data->kind == kind ? data->data : NULL;
}

/**
 * struct perf_task_run - a time during which one program had a CPU
 * @task:	its task
 * @start_time:	the task's, because @task may be another one at the same address
 * @switches:	the task's context switches
 * @execs:	the task's number of execs
 *
 * For a PMU that has to know whether its state is that of another task. It remembers the run
 * when its last event goes. If the next event comes in the same run, or when the task comes back
 * before it has run elsewhere, the state is still that of the task.
 */
struct perf_task_run {
	struct task_struct	*task;
	u64			start_time;
	unsigned long		switches;
	unsigned int		execs;
};

/**
 * perf_task_run - what runs
 *
 * Context: interrupts off.
 * Return: current's run.
 */
static inline struct perf_task_run perf_task_run(void)
{
	return (struct perf_task_run) {
		.task		= current,
		.start_time	= current->start_time,
		.switches	= current->nvcsw + current->nivcsw,
		.execs		= current->perf_execs,
	};
}

/**
 * perf_task_run_goes_on - does a run go on?
 * @run:	from perf_task_run() on this CPU, or zero
 *
 * Context: interrupts off.
 * Return: true if current has run nowhere else since, and executed nothing.
 */
static inline bool perf_task_run_goes_on(const struct perf_task_run *run)
{
	const struct perf_task_run now = perf_task_run();

	return run->task == now.task && run->start_time == now.start_time &&
	       run->switches == now.switches && run->execs == now.execs;
}

int perf_task_data_attach(struct perf_event *event);
void perf_task_data_detach(struct perf_event *event);
void perf_task_data_init(struct task_struct *task);
void perf_task_data_fork(struct task_struct *child);
void perf_task_data_exec(void);
void perf_task_data_free(struct task_struct *task);
void perf_task_data_enter(struct perf_event *event, struct perf_event_context *ctx);
void perf_task_data_leave(struct perf_event *event, struct perf_event_context *ctx);

/**
 * perf_task_data_swap - let two contexts swap the tasks whose data their events hold
 * @a:		a context, with its lock held
 * @b:		the other one, likewise
 *
 * Contexts with the same events differ while one of these is being closed, in one task after the
 * other. Contexts with events of several caches are not swapped, whether they differ or not.
 *
 * Context: context switch, with interrupts off.
 * Return: false if the contexts must not be swapped.
 */
static inline bool perf_task_data_swap(struct perf_event_context *a,
				       struct perf_event_context *b)
{
	if (likely(!a->nr_data_held && !b->nr_data_held))
		return true;
	if (a->nr_data_held != b->nr_data_held || a->data_cache != b->data_cache || !a->data_cache)
		return false;
	swap(a->data_task, b->data_task);
	return true;
}

#endif /* _LINUX_PERF_TASK_DATA_H */
