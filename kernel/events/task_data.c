// SPDX-License-Identifier: GPL-2.0
/*
 * PMU-specific data of tasks.
 *
 * Events are created and freed in process context; they attach the data of one task, or of all
 * tasks. Fork and exit run in the task's parent and in the task. Context switches find the data
 * without a lock, by perf_task_data().
 *
 * Invariant: while an event of a CPU needs data of some cache, each task that may run user code
 * has an entry for that cache, unless it is exiting, or there was no memory when it was forked, or
 * not at once, and its parent was killed meanwhile. The first such event publishes the cache
 * before it walks all tasks; fork puts the child on the list of tasks before it looks for
 * published caches. So either the walk finds the child, or fork finds the cache. The last event
 * withdraws the cache before its walk, and fork sees that under the lock of the child, or the walk
 * finds what fork has attached. An entry is unlinked when no event needs it, and at exit; exit
 * takes no sleeping lock, and nothing is attached to a task after that.
 *
 * An event of a task holds the data of the task in whose context it is: when two tasks swap their
 * contexts, they swap the events that hold their data. Before it is in a context, an event holds
 * the data of its target, and afterwards that of the task that had the context then.
 *
 * Memory is allocated without perf_ctx_data_lock, which context switches never wait for.
 */
#include <linux/build_bug.h>
#include <linux/cleanup.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/perf_event.h>
#include <linux/perf_task_data.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/threads.h>

/**
 * struct global_data - a cache that events of CPUs need
 * @entry:	in global_data_list
 * @cache:	the cache
 * @events:	how many events need it; 0 before the walk that frees all tasks' data starts
 * @rcu_head:	frees it when no fork uses it any more
 *
 * Changed under global_data_mutex; fork reads it under RCU.
 */
struct global_data {
	struct list_head	entry;
	struct kmem_cache	*cache;
	unsigned long		events;
	struct rcu_head		rcu_head;
};

/* After this many tasks, a walk of all tasks lets others run. */
#define TASKS_AT_ONCE	256

/* How often that number doubles at most: then it is all tasks. */
#define ANEW_MAX	14U

static_assert(TASKS_AT_ONCE << ANEW_MAX >= PID_MAX_LIMIT);

static DEFINE_MUTEX(global_data_mutex);
static LIST_HEAD(global_data_list);

static void ctx_data_free(struct perf_ctx_data *data)
{
	if (data && data->data)
		kmem_cache_free(data->cache, data->data);
	kfree(data);
}

DEFINE_FREE(ctx_data, struct perf_ctx_data *, ctx_data_free(_T))

static void ctx_data_free_rcu(struct rcu_head *rcu_head)
{
	ctx_data_free(container_of(rcu_head, struct perf_ctx_data, rcu_head));
}

static struct perf_ctx_data *ctx_data_alloc(struct kmem_cache *cache, gfp_t gfp)
{
	struct perf_ctx_data *data __free(ctx_data) = kzalloc(sizeof(*data), gfp);

	if (!data)
		return NULL;
	data->cache = cache;
	data->data = kmem_cache_zalloc(cache, gfp);
	return data->data ? no_free_ptr(data) : NULL;
}

/*
 * Flags that a task changes only by setting PF_EXITING, and this before it takes
 * perf_ctx_data_lock to drop its entries: under that lock, the flag is there or the entries are
 * still to be dropped.
 */
static unsigned int task_flags(const struct task_struct *task)
{
	/* The task changes other flags meanwhile. */
	return data_race(task->flags) & (PF_EXITING | PF_KTHREAD | PF_USER_WORKER);
}

/*
 * Find the pointer to a task's entry for a cache, or the one that ends the list. Under
 * perf_ctx_data_lock.
 */
static struct perf_ctx_data __rcu **ctx_data_find(struct task_struct *task,
						  struct kmem_cache *cache)
{
	struct perf_ctx_data __rcu **link = &task->perf_ctx_data;
	struct perf_ctx_data *data;

	lockdep_assert_held(&task->perf_ctx_data_lock);
	while ((data = rcu_dereference_protected(*link, true)) && data->cache != cache)
		link = &data->next;
	return link;
}

/* Hold an entry, see ctx_data_hold(). */
static int ctx_data_hold_locked(struct task_struct *task, struct kmem_cache *cache,
				const struct global_data *global, struct perf_ctx_data **spare)
{
	struct perf_ctx_data __rcu **link;
	struct perf_ctx_data *data;

	lockdep_assert_held(&task->perf_ctx_data_lock);
	if (task_flags(task) & PF_EXITING)
		return -ESRCH;
	/* Pairs with global_data_remove(): its walk is still to take this lock, or it is 0. */
	if (global && !READ_ONCE(global->events))
		return -ESRCH;

	link = ctx_data_find(task, cache);
	data = rcu_dereference_protected(*link, true);
	if (!data) {
		if (!*spare)
			return -ENOMEM;
		data = *spare;
		*spare = NULL;
		rcu_assign_pointer(*link, data);
	}
	if (global)
		data->global = true;
	else
		data->events++;
	return 0;
}

/*
 * Let one more event, or with @global the events of CPUs, hold a task's entry. If there is none,
 * *@spare becomes the entry, and is set to NULL. Returns -ESRCH if the task is exiting or no
 * event of a CPU needs it any more, and -ENOMEM if it needs a spare.
 */
static int ctx_data_hold(struct task_struct *task, struct kmem_cache *cache,
			 const struct global_data *global, struct perf_ctx_data **spare)
{
	int ret;

	scoped_guard(raw_spinlock_irqsave, &task->perf_ctx_data_lock)
		ret = ctx_data_hold_locked(task, cache, global, spare);
	return ret;
}

/* One event less needs an entry, or with @global those of CPUs. Returns whether none does now. */
static bool ctx_data_unused(struct perf_ctx_data *data, bool global)
{
	if (global)
		data->global = false;
	else
		data->events--;
	return !data->events && !data->global;
}

/* Undo ctx_data_hold(). The task may have lost the entry in exit. */
static void ctx_data_drop(struct task_struct *task, struct kmem_cache *cache, bool global)
{
	struct perf_ctx_data __rcu **link;
	struct perf_ctx_data *data;

	scoped_guard(raw_spinlock_irqsave, &task->perf_ctx_data_lock) {
		link = ctx_data_find(task, cache);
		data = rcu_dereference_protected(*link, true);
		if (data && ctx_data_unused(data, global)) {
			rcu_assign_pointer(*link, rcu_dereference_protected(data->next, true));
			call_rcu(&data->rcu_head, ctx_data_free_rcu);
		}
	}
}

static int ctx_data_attach(struct task_struct *task, struct kmem_cache *cache)
{
	struct perf_ctx_data *spare __free(ctx_data) = NULL;
	int ret = ctx_data_hold(task, cache, NULL, &spare);

	if (ret != -ENOMEM)
		return ret;
	spare = ctx_data_alloc(cache, GFP_KERNEL_ACCOUNT);
	return spare ? ctx_data_hold(task, cache, NULL, &spare) : -ENOMEM;
}

/* Tasks that never run user code have no user state to keep. */
static bool task_has_data(const struct task_struct *task)
{
	return !(task_flags(task) & (PF_KTHREAD | PF_USER_WORKER));
}

/**
 * struct task_walk - a walk of all tasks, which lets others run from time to time
 * @nr:		number of the process at which to continue
 * @task:	the task of it, with a reference; NULL if that is the first one
 * @anew:	how often the walk began that process once more
 * @global:	the cache
 * @spare:	for the next task without an entry
 * @visit:	called for each task under RCU; the walk stops there for a while if it returns false
 *
 * The walk can always continue at a number, whatever exits or executes meanwhile: another thread
 * that becomes the leader takes over the number. A task that is added to the list meanwhile looks
 * after its data itself.
 *
 * If the thread at which to continue is gone, the walk starts that process again. Each time, it
 * visits twice as many of its tasks without a break, so that threads that exit cannot keep it there
 * for ever.
 */
struct task_walk {
	pid_t			nr;
	struct task_struct	*task;
	unsigned int		anew;
	struct global_data	*global;
	struct perf_ctx_data	*spare;
	bool			(*visit)(struct task_walk *walk, struct task_struct *task);
};

/*
 * Find the process with the lowest number that is at least *@nr, and store that number in *@nr.
 * Each number tried uses up one of *@left. Returns NULL if none is left; after the last process,
 * *@nr is 0.
 */
static struct task_struct *process_from(pid_t *nr, int *left)
{
	struct task_struct *process;
	struct pid *pid;

	for (; --*left >= 0; ++*nr) {
		pid = find_ge_pid(*nr, &init_pid_ns);
		*nr = pid ? pid_nr(pid) : 0;
		process = pid ? pid_task(pid, PIDTYPE_TGID) : NULL;
		if (process || !pid)
			return process;
	}
	return NULL;
}

static void task_walk_forget(struct task_walk *walk)
{
	if (walk->task)
		put_task_struct(walk->task);
	walk->task = NULL;
}

/*
 * Begin with a process, or with @again go on with the one where the walk stopped. If the task to
 * go on with is gone, begin anew.
 */
static struct task_struct *task_walk_begin(struct task_walk *walk, struct task_struct *process,
					   bool again)
{
	struct task_struct *task = walk->task;

	/* RCU keeps a task that has a number on the list, though it may exit. */
	if (!task || !pid_alive(task) || !same_thread_group(task, process)) {
		walk->anew = task && again ? min(walk->anew + 1, ANEW_MAX) : 0;
		task = list_first_or_null_rcu(&process->signal->thread_head, struct task_struct,
					      thread_node);
	}
	task_walk_forget(walk);
	return task;
}

/* Visit the next tasks. Returns false after the last one. */
static bool task_walk_some(struct task_walk *walk)
{
	struct task_struct *process, *task;
	int left = TASKS_AT_ONCE << walk->anew;
	pid_t at = walk->nr;

	guard(rcu)();
	for (; (process = process_from(&walk->nr, &left)); walk->nr++) {
		task = task_walk_begin(walk, process, walk->nr == at);
		for (; task; task = __next_thread(task)) {
			if (--left < 0 || !walk->visit(walk, task)) {
				walk->task = get_task_struct(task);
				return true;
			}
		}
		/* More than that are for one process only. */
		left = min(left, TASKS_AT_ONCE);
	}
	return walk->nr;
}

/* Attach data to a task, without waiting for memory. Returns false if memory is short. */
static bool attach_visit(struct task_walk *walk, struct task_struct *task)
{
	struct kmem_cache *cache = walk->global->cache;

	if (!task_has_data(task))
		return true;
	if (!walk->spare)
		walk->spare = ctx_data_alloc(cache, GFP_NOWAIT | __GFP_NOWARN);
	return ctx_data_hold(task, cache, walk->global, &walk->spare) != -ENOMEM;
}

/* Attach data to all tasks. Where memory is short, wait for it amid the walk. */
static int attach_all(struct global_data *global)
{
	struct task_walk walk = { .nr = 1, .global = global, .visit = attach_visit };
	int ret = 0;

	while (!ret && task_walk_some(&walk)) {
		if (!walk.spare)
			walk.spare = ctx_data_alloc(global->cache, GFP_KERNEL);
		if (!walk.spare)
			ret = -ENOMEM;
		else if (fatal_signal_pending(current))
			ret = -EINTR;
		cond_resched();
	}
	task_walk_forget(&walk);
	ctx_data_free(walk.spare);
	return ret;
}

static bool detach_visit(struct task_walk *walk, struct task_struct *task)
{
	ctx_data_drop(task, walk->global->cache, true);
	return true;
}

static void detach_all(struct global_data *global)
{
	struct task_walk walk = { .nr = 1, .global = global, .visit = detach_visit };

	while (task_walk_some(&walk))
		cond_resched();
	/* The task where the walk stopped last may be gone, and no process after it. */
	task_walk_forget(&walk);
}

static struct global_data *global_data_find(struct kmem_cache *cache)
{
	struct global_data *global;

	list_for_each_entry(global, &global_data_list, entry) {
		if (global->cache == cache)
			return global;
	}
	return NULL;
}

static void global_data_remove(struct global_data *global)
{
	lockdep_assert_held(&global_data_mutex);
	list_del_rcu(&global->entry);
	WRITE_ONCE(global->events, 0);
	/* Before the walk; pairs with ctx_data_hold(). */
	smp_mb();
	detach_all(global);
	kfree_rcu(global, rcu_head);
}

static int global_data_add(struct kmem_cache *cache)
{
	struct global_data *global = global_data_find(cache);
	int ret;

	lockdep_assert_held(&global_data_mutex);
	if (global) {
		WRITE_ONCE(global->events, global->events + 1);
		return 0;
	}

	global = kzalloc(sizeof(*global), GFP_KERNEL);
	if (!global)
		return -ENOMEM;
	global->cache = cache;
	global->events = 1;
	list_add_rcu(&global->entry, &global_data_list);
	/* Publish the cache before the walk; pairs with perf_task_data_fork(). */
	smp_mb();
	ret = attach_all(global);
	if (ret)
		global_data_remove(global);
	return ret;
}

static int attach_global(struct kmem_cache *cache)
{
	int ret = mutex_lock_killable(&global_data_mutex);

	if (ret)
		return ret;
	ret = global_data_add(cache);
	mutex_unlock(&global_data_mutex);
	return ret;
}

static void detach_global(struct kmem_cache *cache)
{
	struct global_data *global;

	guard(mutex)(&global_data_mutex);
	global = global_data_find(cache);
	if (WARN_ON_ONCE(!global))
		return;
	if (global->events == 1)
		global_data_remove(global);
	else
		WRITE_ONCE(global->events, global->events - 1);
}

/**
 * perf_task_data_attach - attach the data that a new event needs
 * @event:	the event; event_init() has set PERF_ATTACH_TASK_DATA if it needs any
 *
 * Data of all tasks is attached only for a caller that may profile CPUs; whether the caller may
 * profile a task was checked before.
 *
 * Context: process context, may sleep; for an event of a CPU without ctx->mutex.
 * Return: 0; -EACCES or -EPERM if the caller may not profile CPUs; -EOPNOTSUPP if the PMU has no
 * cache; -ESRCH if the task is exiting; -EINTR if the caller is killed; -ENOMEM.
 */
int perf_task_data_attach(struct perf_event *event)
{
	struct kmem_cache *cache = event->pmu->task_ctx_cache;
	struct task_struct *task = event->hw.target;
	int ret;

	might_sleep();
	if (!(event->attach_state & PERF_ATTACH_TASK_DATA))
		return 0;
	if (!cache)
		return -EOPNOTSUPP;

	if (task) {
		ret = ctx_data_attach(task, cache);
	} else {
		ret = perf_allow_cpu();
		if (!ret)
			ret = attach_global(cache);
	}
	if (!ret)
		event->attach_state |= PERF_ATTACH_DATA_HELD;
	return ret;
}

/**
 * perf_task_data_detach - give back the data that an event needed
 * @event:	the event, which is in no context any more and about to be freed
 *
 * Context: process context. May sleep if it is an event of a CPU.
 */
void perf_task_data_detach(struct perf_event *event)
{
	struct task_struct *task = event->data_task ?: event->hw.target;

	if (!(event->attach_state & PERF_ATTACH_DATA_HELD))
		return;
	event->attach_state &= ~PERF_ATTACH_DATA_HELD;
	if (task)
		ctx_data_drop(task, event->pmu->task_ctx_cache, false);
	else
		detach_global(event->pmu->task_ctx_cache);
	if (event->data_task)
		put_task_struct(event->data_task);
	event->data_task = NULL;
}

/**
 * perf_task_data_enter - an event comes to a context
 * @event:	the event, which may hold data
 * @ctx:	the context of the event's task, with its lock held
 *
 * What the event holds follows the context from here on, see perf_task_data_swap().
 */
void perf_task_data_enter(struct perf_event *event, struct perf_event_context *ctx)
{
	struct kmem_cache *cache = event->pmu->task_ctx_cache;

	lockdep_assert_held(&ctx->lock);
	if (!(event->attach_state & PERF_ATTACH_DATA_HELD) || !event->hw.target)
		return;
	/* It went from a context that is this one, or is another one of the same task. */
	if (event->data_task)
		put_task_struct(event->data_task);
	event->data_task = NULL;
	ctx->data_task = ctx->task;
	if (!ctx->nr_data_held++)
		ctx->data_cache = cache;
	else if (ctx->data_cache != cache)
		ctx->data_cache = NULL;
}

/**
 * perf_task_data_leave - an event goes from a context
 * @event:	the event, which may hold data
 * @ctx:	the context, with its lock held; its task is there, though it may exit
 *
 * The event holds the data of the task that has the context now.
 */
void perf_task_data_leave(struct perf_event *event, struct perf_event_context *ctx)
{
	lockdep_assert_held(&ctx->lock);
	if (!(event->attach_state & PERF_ATTACH_DATA_HELD) || !event->hw.target)
		return;
	ctx->nr_data_held--;
	if (ctx->data_task != event->hw.target && !WARN_ON_ONCE(event->data_task))
		event->data_task = get_task_struct(ctx->data_task);
}

/**
 * perf_task_data_init - set up a new task without data
 * @task:	the child of a fork, before anything can be attached to it
 *
 * Context: fork, in the parent.
 */
void perf_task_data_init(struct task_struct *task)
{
	RCU_INIT_POINTER(task->perf_ctx_data, NULL);
	raw_spin_lock_init(&task->perf_ctx_data_lock);
}

/* Attach data of all published caches; false if memory is short. */
static bool attach_published(struct task_struct *child)
{
	const struct global_data *global;

	/* Until its end no cache can go, nor what was allocated from it. */
	guard(rcu)();
	list_for_each_entry_rcu(global, &global_data_list, entry) {
		struct perf_ctx_data *spare __free(ctx_data) =
			ctx_data_alloc(global->cache, GFP_NOWAIT | __GFP_NOWARN);

		if (ctx_data_hold(child, global->cache, global, &spare) == -ENOMEM)
			return false;
	}
	return true;
}

/**
 * perf_task_data_fork - attach the data that events of CPUs need to a new task
 * @child:	the task, which is on the list of tasks but has not run yet
 *
 * Fork does not fail if there is no memory: then the PMU wipes its state at each switch. It
 * waits for the walk of another event only if memory is short, and not after a fatal signal.
 *
 * Context: fork, in the parent. May sleep.
 */
void perf_task_data_fork(struct task_struct *child)
{
	const struct global_data *global;

	/* The child is on the list of tasks; pairs with global_data_add(). */
	smp_mb();
	if (likely(list_empty(&global_data_list)) || !task_has_data(child) ||
	    attach_published(child))
		return;

	/* Keeps the caches while this waits for memory. */
	if (mutex_lock_killable(&global_data_mutex))
		return;
	list_for_each_entry(global, &global_data_list, entry) {
		struct perf_ctx_data *spare __free(ctx_data) =
			ctx_data_alloc(global->cache, GFP_KERNEL);

		ctx_data_hold(child, global->cache, global, &spare);
	}
	mutex_unlock(&global_data_mutex);
}

/**
 * perf_task_data_free - drop all data of a task
 * @task:	current in exit, after exit_signals(), or a child whose fork failed
 *
 * Context: process context, never sleeps.
 */
void perf_task_data_free(struct task_struct *task)
{
	struct perf_ctx_data *data, *next;

	/* Whoever sees the list empty, and waits for RCU, waits for these call_rcu() as well. */
	guard(rcu)();
	scoped_guard(raw_spinlock_irqsave, &task->perf_ctx_data_lock)
		data = rcu_replace_pointer(task->perf_ctx_data, NULL,
					   lockdep_is_held(&task->perf_ctx_data_lock));
	for (; data; data = next) {
		next = rcu_dereference_protected(data->next, true);
		call_rcu(&data->rcu_head, ctx_data_free_rcu);
	}
}

/**
 * perf_task_data_exec - let nothing be restored that was saved for another program
 *
 * What the PMUs hold at present is also that program's: let them wipe it before interrupts are on,
 * or a context switch saves it again. A run ends here, see perf_task_run().
 *
 * Context: exec, in the task, with interrupts off.
 */
void perf_task_data_exec(void)
{
	struct perf_ctx_data *data;

	lockdep_assert_irqs_disabled();
	current->perf_execs++;
	/* Only context switches of this task use the stamps. */
	for (data = rcu_dereference_sched(current->perf_ctx_data); data;
	     data = rcu_dereference_sched(data->next))
		data->stamp = 0;
}
