// SPDX-License-Identifier: GPL-2.0
/*
 * A branch stack in software: what the LBR in call stack mode is to the PMU of a CPU.
 *
 * Each CPU has a stack of the latest calls, which is recorded only while an event with a branch
 * stack counts there. A program records its calls and returns by writes to the file
 * perf_test/branches in debugfs, as hardware does by itself: a call is two words, from and to; a
 * return is one word of any value. As that of hardware, the stack belongs to the CPU; at a
 * context switch it is saved to the task's data and restored from it, or wiped.
 *
 * The file perf_test/second registers a second PMU by 1, perf_test2, whose stack and objects are
 * smaller, and removes it by 0, as the unload of a module does; 4 removes it, too, but not yet the
 * cache of its objects. The files perf_test/lacking and lacking2 tell how many tasks lack an object
 * of which PMU, perf_test/users how many events with a branch stack count at present.
 *
 * The file perf_test/counter creates an event of that PMU for the kernel itself, of the writer's
 * CPU by 1 and of the writer by 2, and releases it by 0.
 *
 * The file perf_test/scheme chooses how branch stacks are kept: by 0 as here, and by 1 as Linux
 * 6.15 does, for comparison: users of call stacks are counted in the data of the event's task,
 * or for all CPUs in one number, perf_test/global_users, and a saved stack is restored whatever
 * the task did meanwhile.
 *
 * Contexts: add, del and sched_task on the CPU with interrupts off; samples in NMI; debugfs in
 * task context.
 *
 * Invariant: an NMI finds all entries from @bottom to @top complete. An entry is written before
 * @top counts it, and after @bottom has left it.
 */
#include <linux/cleanup.h>
#include <linux/compiler.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/mutex.h>
#include <linux/overflow.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/perf_task_data.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/time64.h>
#include <linux/uaccess.h>

#include "lbr_owner.h"
#include "test_branches.h"

/* A power of two, as positions in the ring wrap around. */
#define TEST_BRANCHES	32U
#define TEST_BRANCHES_PAUSE_US	100

/**
 * struct test_branches - the branch stack of one PMU on one CPU
 * @owner:	whose calls these are
 * @top:	number of calls ever recorded, without those that have returned
 * @bottom:	number of them that are no longer in @entries
 * @entries:	a ring
 * @sample:	for the latest sample
 * @sampled:	its entries
 */
struct test_branches {
	struct lbr_owner		owner;
	u32				top;
	u32				bottom;
	struct perf_branch_entry	entries[TEST_BRANCHES];
	struct perf_branch_stack	sample;
	struct perf_branch_entry	sampled[TEST_BRANCHES];
};

/**
 * struct test_branches_data - the branch stack of a task while it does not run
 * @users:	with the scheme of Linux 6.15, counting events with this task as their target
 * @nr:		number of @entries
 * @entries:	the oldest call first
 */
struct test_branches_data {
	int				users;
	unsigned int			nr;
	struct perf_branch_entry	entries[];
};

enum { FIRST, SECOND, TEST_PMUS };

static DEFINE_PER_CPU(struct test_branches, test_branches_of_first);
static DEFINE_PER_CPU(struct test_branches, test_branches_of_second);
static struct test_branches __percpu *const test_branches[TEST_PMUS] = {
	&test_branches_of_first, &test_branches_of_second
};

static const unsigned int test_branches_max[TEST_PMUS] = { TEST_BRANCHES, TEST_BRANCHES / 4 };

static struct pmu *test_branches_first;
/* Serializes its registration, and the kernel's own event. */
static DEFINE_MUTEX(test_branches_mutex);
static struct pmu test_branches_second;
/* Its events; negative while it is removed. */
static atomic_t test_branches_second_events;

/* An event of the kernel itself. */
static struct perf_event *test_branches_counter;

static u32 test_branches_scheme;
/* For the scheme of Linux 6.15: events of CPUs. */
static u32 test_branches_global_users;

static unsigned int test_branches_index(const struct pmu *pmu)
{
	return pmu == test_branches_first ? FIRST : SECOND;
}

static struct test_branches *test_branches_of(const struct pmu *pmu)
{
	return this_cpu_ptr(test_branches[test_branches_index(pmu)]);
}

static void test_branches_wipe(struct test_branches *tb)
{
	WRITE_ONCE(tb->bottom, tb->top);
}

static void test_branches_call(struct test_branches *tb, unsigned int max,
			       const struct perf_branch_entry *entry)
{
	if (tb->top - tb->bottom == max)
		WRITE_ONCE(tb->bottom, tb->bottom + 1);
	barrier();
	tb->entries[tb->top % TEST_BRANCHES] = *entry;
	barrier();
	WRITE_ONCE(tb->top, tb->top + 1);
}

static void test_branches_return(struct test_branches *tb)
{
	if (tb->top != tb->bottom)
		WRITE_ONCE(tb->top, tb->top - 1);
}

static void test_branches_save(struct test_branches *tb, struct test_branches_data *saved)
{
	saved->nr = 0;
	for (u32 at = tb->bottom; at != tb->top; at++)
		saved->entries[saved->nr++] = tb->entries[at % TEST_BRANCHES];
}

static void test_branches_restore(struct test_branches *tb, unsigned int max,
				  const struct test_branches_data *saved)
{
	test_branches_wipe(tb);
	for (unsigned int i = 0; i < saved->nr; i++)
		test_branches_call(tb, max, &saved->entries[i]);
}

/*
 * Linux 6.15 counts events of CPUs without a lock: what another CPU counts meanwhile is lost. A
 * pause makes that likely.
 */
static void test_branches_count_global(int delta)
{
	u32 users = READ_ONCE(test_branches_global_users);

	udelay(TEST_BRANCHES_PAUSE_US);
	WRITE_ONCE(test_branches_global_users, users + delta);
}

/*
 * Linux 6.15 counts the users of a target in its data. An event remembers in branch_reg that it
 * was counted, as the scheme may change.
 */
static void test_branches_count_there(struct perf_event *event, int delta)
{
	struct task_struct *target = event->hw.target;
	struct perf_ctx_data *data;

	if (delta > 0)
		event->hw.branch_reg.reg = READ_ONCE(test_branches_scheme);
	if (!event->hw.branch_reg.reg)
		return;
	if (!target) {
		test_branches_count_global(delta);
		return;
	}
	data = perf_task_data(target, event->pmu->task_ctx_cache);
	if (data)
		((struct test_branches_data *)data->data)->users += delta;
}

/* As lbr_owner_switch(), with the scheme of Linux 6.15. */
static enum lbr_action test_branches_switch_there(struct task_struct *task,
						  struct kmem_cache *cache, bool sched_in,
						  void **data)
{
	struct perf_ctx_data *entry = perf_task_data(task, cache);
	struct test_branches_data *saved = entry ? entry->data : NULL;

	if (!saved)
		return sched_in ? LBR_WIPE : LBR_LEAVE;
	if (!saved->users && !READ_ONCE(test_branches_global_users)) {
		saved->nr = 0;
		return sched_in ? LBR_WIPE : LBR_LEAVE;
	}
	*data = saved;
	return sched_in ? LBR_RESTORE : LBR_SAVE;
}

/**
 * test_branches_sched_task - keep the branch stack of a task over a context switch
 * @pmu_ctx:	tells which PMU it is
 * @task:	the task that gets on the CPU or leaves it
 * @sched_in:	which of these it is
 *
 * Context: as pmu::sched_task().
 */
void test_branches_sched_task(struct perf_event_pmu_context *pmu_ctx,
			      struct task_struct *task, bool sched_in)
{
	struct test_branches *tb = test_branches_of(pmu_ctx->pmu);
	struct kmem_cache *cache = pmu_ctx->pmu->task_ctx_cache;
	enum lbr_action action;
	void *data;

	if (!tb->owner.users)
		return;

	if (READ_ONCE(test_branches_scheme))
		action = test_branches_switch_there(task, cache, sched_in, &data);
	else
		action = lbr_owner_switch(&tb->owner, task, cache, sched_in, &data);
	if (action == LBR_SAVE)
		test_branches_save(tb, data);
	else if (action == LBR_RESTORE)
		test_branches_restore(tb, test_branches_max[test_branches_index(pmu_ctx->pmu)],
				      data);
	else if (action == LBR_WIPE)
		test_branches_wipe(tb);
	lbr_owner_switched(&tb->owner, task, sched_in);
}

/*
 * The core is not yet done with the event. It keeps a reference on a module until it is; tests
 * remove the PMU after they have closed its events, or waited for the tasks that had them.
 */
static void test_branches_destroy(struct perf_event *event)
{
	atomic_dec(&test_branches_second_events);
}

/**
 * test_branches_event_init - see whether a new event may have a branch stack
 * @event:	the event
 *
 * Context: as pmu::event_init().
 * Return: 0, also for an event without a branch stack; -EOPNOTSUPP if that is not of user calls;
 * -ENODEV if the PMU is being removed.
 */
int test_branches_event_init(struct perf_event *event)
{
	const u64 other = PERF_SAMPLE_BRANCH_NO_FLAGS | PERF_SAMPLE_BRANCH_NO_CYCLES |
			  PERF_SAMPLE_BRANCH_HW_INDEX;

	if (has_branch_stack(event)) {
		if ((event->attr.branch_sample_type & ~other) !=
		    (PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_CALL_STACK))
			return -EOPNOTSUPP;
		event->attach_state |= PERF_ATTACH_TASK_DATA | PERF_ATTACH_SCHED_CB;
	}
	if (event->pmu == &test_branches_second) {
		if (!atomic_inc_unless_negative(&test_branches_second_events))
			return -ENODEV;
		event->destroy = test_branches_destroy;
	}
	return 0;
}

/**
 * test_branches_add - record calls on this CPU
 * @event:	an event that is about to count
 *
 * Context: as pmu::add().
 */
void test_branches_add(struct perf_event *event)
{
	struct test_branches *tb = test_branches_of(event->pmu);

	if (!has_branch_stack(event))
		return;
	test_branches_count_there(event, 1);
	perf_sched_cb_inc(event->pmu);
	/* To wipe twice costs nothing here. */
	if (lbr_owner_add(&tb->owner, !tb->owner.users, LBR_CALLS,
			  !event->total_time_running) == LBR_WIPE ||
	    lbr_owner_enable(&tb->owner) == LBR_WIPE) {
		test_branches_wipe(tb);
		lbr_owner_enabled(&tb->owner);
	}
}

/**
 * test_branches_del - undo test_branches_add()
 * @event:	the event
 *
 * Context: as pmu::del().
 */
void test_branches_del(struct perf_event *event)
{
	struct test_branches *tb = test_branches_of(event->pmu);

	if (!has_branch_stack(event))
		return;
	lbr_owner_del(&tb->owner, tb->owner.users == 1, LBR_CALLS);
	perf_sched_cb_dec(event->pmu);
	test_branches_count_there(event, -1);
}

/**
 * test_branches_sample - put the branch stack into a sample
 * @event:	the event
 * @data:	its sample
 *
 * Context: NMI on the event's CPU.
 */
void test_branches_sample(struct perf_event *event, struct perf_sample_data *data)
{
	struct test_branches *tb = test_branches_of(event->pmu);
	u32 bottom = READ_ONCE(tb->bottom), top = READ_ONCE(tb->top);

	if (!has_branch_stack(event))
		return;
	tb->sample.nr = 0;
	tb->sample.hw_idx = -1ULL;
	/* The scheme of Linux 6.15 shows whatever is there. */
	if (!READ_ONCE(test_branches_scheme) && !lbr_owner_shows(&tb->owner))
		bottom = top;
	while (top != bottom)
		tb->sampled[tb->sample.nr++] = tb->entries[--top % TEST_BRANCHES];
	perf_sample_save_brstack(data, event, &tb->sample, NULL);
}

static ssize_t test_branches_write(struct file *file, const char __user *buf, size_t size,
				   loff_t *pos)
{
	struct perf_branch_entry entry = {};
	u64 words[2];

	if (size != sizeof(words[0]) && size != sizeof(words))
		return -EINVAL;
	if (copy_from_user(words, buf, size))
		return -EFAULT;
	entry.from = words[0];
	entry.to = words[1];

	guard(irqsave)();
	for (int i = 0; i < TEST_PMUS; i++) {
		struct test_branches *tb = this_cpu_ptr(test_branches[i]);

		if (!tb->owner.users)
			continue;
		if (size == sizeof(words))
			test_branches_call(tb, test_branches_max[i], &entry);
		else
			test_branches_return(tb);
	}
	return size;
}

static const struct file_operations test_branches_fops = {
	.owner	= THIS_MODULE,
	.write	= test_branches_write,
};

static struct kmem_cache *test_branches_cache(const char *name, unsigned int max)
{
	struct test_branches_data *data;

	return kmem_cache_create(name, struct_size(data, entries, max), 0, SLAB_NO_MERGE, NULL);
}

static int test_branches_second_get(void *unused, u64 *value)
{
	guard(mutex)(&test_branches_mutex);
	*value = !!test_branches_second.event_init;
	return 0;
}

static int test_branches_second_unregister(void)
{
	struct kmem_cache *cache = test_branches_second.task_ctx_cache;

	if (!test_branches_second.event_init)
		return 0;
	/* They would hold the module. close() has freed what it counted down. */
	if (atomic_cmpxchg(&test_branches_second_events, 0, INT_MIN))
		return -EBUSY;
	perf_pmu_unregister(&test_branches_second);
	test_branches_second = (struct pmu) { .task_ctx_cache = cache };
	atomic_set(&test_branches_second_events, 0);
	return 0;
}

static int test_branches_second_remove(void)
{
	int ret = test_branches_second_unregister();

	if (!ret) {
		kmem_cache_destroy(test_branches_second.task_ctx_cache);
		test_branches_second.task_ctx_cache = NULL;
	}
	return ret;
}

/*
 * 0 removes the PMU, 1 registers it, 2 without a cache, and 3 as one of hardware; 4 removes all but
 * the cache.
 */
static int test_branches_second_set(void *unused, u64 value)
{
	struct kmem_cache *cache = NULL;
	int ret;

	guard(mutex)(&test_branches_mutex);
	if (!value)
		return test_branches_second_remove();
	if (value == 4)
		return test_branches_second_unregister();
	if (test_branches_second.event_init)
		return 0;
	/* There may be a cache of that name. */
	test_branches_second_remove();

	if (value != 2)
		cache = test_branches_cache("perf_test2", test_branches_max[SECOND]);
	if (value != 2 && !cache)
		return -ENOMEM;
	test_branches_second = (struct pmu) {
		.task_ctx_nr	= value == 3 ? perf_hw_context : test_branches_first->task_ctx_nr,
		.attr_groups	= test_branches_first->attr_groups,
		.event_init	= test_branches_first->event_init,
		.add		= test_branches_first->add,
		.del		= test_branches_first->del,
		.start		= test_branches_first->start,
		.stop		= test_branches_first->stop,
		.read		= test_branches_first->read,
		.sched_task	= test_branches_first->sched_task,
		.task_ctx_cache	= cache,
	};
	ret = perf_pmu_register(&test_branches_second, "perf_test2", -1);
	if (ret) {
		test_branches_second = (struct pmu) {};
		kmem_cache_destroy(cache);
	}
	return ret;
}

DEFINE_DEBUGFS_ATTRIBUTE(test_branches_second_fops, test_branches_second_get,
			 test_branches_second_set, "%llu\n");

static int test_branches_counter_create(struct task_struct *task)
{
	struct perf_event_attr attr = {
		.type		= test_branches_second.type,
		.size		= sizeof(attr),
		.sample_period	= NSEC_PER_SEC,
		.sample_type	= PERF_SAMPLE_BRANCH_STACK,
		.branch_sample_type = PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_CALL_STACK,
	};
	struct perf_event *event;

	if (!test_branches_second.event_init)
		return -ENODEV;
	event = perf_event_create_kernel_counter(&attr, task ? -1 : raw_smp_processor_id(), task,
						 NULL, NULL);
	if (IS_ERR(event))
		return PTR_ERR(event);
	test_branches_counter = event;
	return 0;
}

static int test_branches_counter_set(void *unused, u64 value)
{
	guard(mutex)(&test_branches_mutex);
	if (test_branches_counter)
		perf_event_release_kernel(test_branches_counter);
	test_branches_counter = NULL;
	return value ? test_branches_counter_create(value == 2 ? current : NULL) : 0;
}

DEFINE_DEBUGFS_ATTRIBUTE(test_branches_counter_fops, NULL, test_branches_counter_set, "%llu\n");

/*
 * Is this a task that events of CPUs give data, and that has no entry for a cache? One that was
 * never woken has not got its data yet, and one that exits has dropped it.
 */
static bool test_branches_lacks(struct task_struct *task, struct kmem_cache *cache)
{
	unsigned int flags;
	bool woken, has;

	/* Before it is woken, fork gives it data. */
	woken = smp_load_acquire(&task->__state) != TASK_NEW;
	/* RCU for perf_task_data(), which expects a context switch. */
	scoped_guard(irqsave)
		has = perf_task_data(task, cache);
	/* Exit sets the flag before it drops the data. */
	smp_rmb();
	/* The task changes other flags meanwhile. */
	flags = data_race(task->flags);
	return woken && !has && !(flags & (PF_KTHREAD | PF_USER_WORKER | PF_EXITING));
}

static int test_branches_lacking_get(void *data, u64 *value)
{
	struct task_struct *process, *task;
	const struct pmu *pmu = data;
	u64 lacking = 0;

	guard(mutex)(&test_branches_mutex);
	guard(rcu)();
	for_each_process_thread(process, task)
		lacking += test_branches_lacks(task, pmu->task_ctx_cache);
	*value = lacking;
	return 0;
}

DEFINE_DEBUGFS_ATTRIBUTE(test_branches_lacking_fops, test_branches_lacking_get, NULL, "%llu\n");

static int test_branches_users_get(void *unused, u64 *value)
{
	int cpu;

	*value = 0;
	for_each_possible_cpu(cpu) {
		for (int i = 0; i < TEST_PMUS; i++) {
			/* A test reads it while no event comes or goes. */
			*value += data_race(per_cpu_ptr(test_branches[i], cpu)->owner.users);
		}
	}
	return 0;
}

DEFINE_DEBUGFS_ATTRIBUTE(test_branches_users_fops, test_branches_users_get, NULL, "%llu\n");

static struct dentry *test_branches_dir;

/**
 * test_branches_init - give a PMU branch stacks
 * @pmu:	the PMU, which is about to be registered
 *
 * Return: 0 or -ENOMEM.
 */
int test_branches_init(struct pmu *pmu)
{
	struct dentry *dir;

	pmu->task_ctx_cache = test_branches_cache("perf_test", test_branches_max[FIRST]);
	if (!pmu->task_ctx_cache)
		return -ENOMEM;
	test_branches_first = pmu;

	dir = debugfs_create_dir("perf_test", NULL);
	debugfs_create_file("branches", 0200, dir, NULL, &test_branches_fops);
	debugfs_create_file("second", 0600, dir, NULL, &test_branches_second_fops);
	debugfs_create_file("counter", 0200, dir, NULL, &test_branches_counter_fops);
	debugfs_create_file("lacking", 0400, dir, pmu, &test_branches_lacking_fops);
	debugfs_create_file("lacking2", 0400, dir, &test_branches_second,
			    &test_branches_lacking_fops);
	debugfs_create_file("users", 0400, dir, NULL, &test_branches_users_fops);
	debugfs_create_u32("scheme", 0600, dir, &test_branches_scheme);
	debugfs_create_u32("global_users", 0600, dir, &test_branches_global_users);
	test_branches_dir = dir;
	return 0;
}

/**
 * test_branches_exit - undo test_branches_init()
 * @pmu:	the PMU, which could not be registered
 */
void test_branches_exit(struct pmu *pmu)
{
	debugfs_remove(test_branches_dir);
	kmem_cache_destroy(pmu->task_ctx_cache);
}
