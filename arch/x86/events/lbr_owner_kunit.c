// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of what is done with the branch stack of a CPU. Tasks are fakes with a number of
 * context switches and a list of data; current is the task that adds and removes events.
 */
#include <kunit/test.h>
#include <linux/array_size.h>
#include <linux/cleanup.h>
#include <linux/irqflags.h>
#include <linux/sched.h>

#include "lbr_owner.h"

/* Two PMUs, whose caches are only compared. */
static struct kmem_cache *const cache_a = (struct kmem_cache *)1;
static struct kmem_cache *const cache_b = (struct kmem_cache *)2;

/**
 * struct fixture - a task with data of the first PMU
 * @task:	the task
 * @data:	the data
 * @object:	what the data consists of
 * @owner:	has one user
 */
struct fixture {
	struct task_struct	*task;
	struct perf_ctx_data	data;
	char			object;
	struct lbr_owner	owner;
};

static int lbr_owner_init(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, f);
	f->task = kunit_kzalloc(test, sizeof(*f->task), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, f->task);
	f->data.cache = cache_a;
	f->data.data = &f->object;
	RCU_INIT_POINTER(f->task->perf_ctx_data, &f->data);
	f->task->nvcsw = 1;
	f->owner.users = 1;
	test->priv = f;
	return 0;
}

/* A task gets on the CPU or leaves it. */
static enum lbr_action go(struct lbr_owner *owner, struct task_struct *task, bool sched_in,
			  void **found)
{
	enum lbr_action done = lbr_owner_switch(owner, task, cache_a, sched_in, found);

	lbr_owner_switched(owner, task, sched_in);
	return done;
}

static void expect(struct kunit *test, bool sched_in, enum lbr_action action, void *data)
{
	struct fixture *f = test->priv;
	enum lbr_action done;
	void *found;

	scoped_guard(irqsave)
		done = go(&f->owner, f->task, sched_in, &found);
	KUNIT_EXPECT_EQ(test, action, done);
	KUNIT_EXPECT_PTR_EQ(test, data, found);
}

static void restored_test(struct kunit *test)
{
	struct fixture *f = test->priv;

	expect(test, true, LBR_WIPE, NULL);
	expect(test, false, LBR_SAVE, &f->object);
	expect(test, true, LBR_RESTORE, &f->object);
}

/* The task was on a CPU without an event. */
static void elsewhere_test(struct kunit *test)
{
	struct fixture *f = test->priv;

	expect(test, false, LBR_SAVE, &f->object);
	f->task->nivcsw++;
	expect(test, true, LBR_WIPE, NULL);
}

static void without_data_test(struct kunit *test)
{
	struct fixture *f = test->priv;

	RCU_INIT_POINTER(f->task->perf_ctx_data, NULL);
	expect(test, false, LBR_LEAVE, NULL);
	expect(test, true, LBR_WIPE, NULL);
}

/* Events with another kind of branches do not save, and wipe what call stacks have saved. */
static void another_kind_test(struct kunit *test)
{
	struct fixture *f = test->priv;

	expect(test, false, LBR_SAVE, &f->object);
	f->owner.users = 0;
	expect(test, true, LBR_WIPE, NULL);
	expect(test, false, LBR_LEAVE, NULL);
}

/* Each PMU finds its own data, in whatever order they are. */
static void another_pmu_test(struct kunit *test)
{
	struct fixture *f = test->priv;
	char object;
	struct perf_ctx_data data = { .cache = cache_b, .data = &object };
	enum lbr_action done;
	void *found;

	f->data.cache = cache_b;
	expect(test, false, LBR_LEAVE, NULL);
	f->data.cache = cache_a;
	RCU_INIT_POINTER(data.next, &f->data);
	RCU_INIT_POINTER(f->task->perf_ctx_data, &data);
	expect(test, false, LBR_SAVE, &f->object);
	scoped_guard(irqsave)
		done = lbr_owner_switch(&f->owner, f->task, cache_b, true, &found);
	KUNIT_EXPECT_EQ(test, LBR_WIPE, done);
}

/* A child whose count is still 0 has saved nothing. */
static void new_task_test(struct kunit *test)
{
	struct fixture *f = test->priv;

	f->task->nvcsw = 0;
	expect(test, true, LBR_WIPE, NULL);
}

static enum lbr_action enable(struct lbr_owner *owner)
{
	enum lbr_action action = lbr_owner_enable(owner);

	if (action == LBR_WIPE)
		lbr_owner_enabled(owner);
	return action;
}

/* An event begins to count, and no task gets on the CPU. */
static enum lbr_action begin(struct lbr_owner *owner, bool first, enum lbr_kind kind,
			     bool new)
{
	enum lbr_action done = lbr_owner_add(owner, first, kind, new);

	return done == LBR_LEAVE ? enable(owner) : done;
}

static void add_test(struct kunit *test)
{
	struct lbr_owner owner = {};
	enum lbr_action first, second, again, new;
	int two, none;

	/* No context switch meanwhile. */
	scoped_guard(irqsave) {
		first = begin(&owner, true, LBR_CALLS, false);
		second = begin(&owner, false, LBR_CALLS, true);
		two = owner.users;
		lbr_owner_del(&owner, false, LBR_CALLS);
		lbr_owner_del(&owner, true, LBR_CALLS);
		none = owner.users;
		again = begin(&owner, true, LBR_CALLS, false);
		lbr_owner_del(&owner, true, LBR_CALLS);
		new = begin(&owner, true, LBR_CALLS, true);
	}
	/* Whatever is in there, nobody knows whose it is. */
	KUNIT_EXPECT_EQ(test, LBR_WIPE, first);
	/* Not while it is in use. */
	KUNIT_EXPECT_EQ(test, LBR_LEAVE, second);
	KUNIT_EXPECT_EQ(test, 2, two);
	KUNIT_EXPECT_EQ(test, 0, none);
	/* As when events take turns. */
	KUNIT_EXPECT_EQ(test, LBR_LEAVE, again);
	/* What was called before is not for a new event. */
	KUNIT_EXPECT_EQ(test, LBR_WIPE, new);
}

/* Each thing that tells runs apart does. */
static void another_run_test(struct kunit *test)
{
	static const enum lbr_kind kinds[] = { LBR_CALLS, LBR_GUEST, LBR_BRANCHES };
	struct lbr_owner owners[5];
	enum lbr_action done[5];

	for (int k = 0; k < ARRAY_SIZE(kinds); k++) {
		scoped_guard(irqsave) {
			for (int i = 0; i < ARRAY_SIZE(owners); i++) {
				owners[i] = (struct lbr_owner) { .guest = kinds[k] == LBR_GUEST };
				owners[i].left_calls = kinds[k] != LBR_BRANCHES;
				owners[i].left = perf_task_run();
			}
			owners[1].left.task = NULL;
			owners[2].left.start_time--;
			owners[3].left.switches--;
			owners[4].left.execs--;
			for (int i = 0; i < ARRAY_SIZE(owners); i++)
				done[i] = begin(&owners[i], true, kinds[k], false);
		}
		KUNIT_EXPECT_EQ(test, LBR_LEAVE, done[0]);
		for (int i = 1; i < ARRAY_SIZE(owners); i++)
			KUNIT_EXPECT_EQ_MSG(test, LBR_WIPE, done[i], "%d, %d", k, i);
	}
}

/* The last event goes while the calls are still those of the former task. */
static void former_task_test(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct lbr_owner owner = {};
	enum lbr_action done, own;
	void *found;

	scoped_guard(irqsave) {
		lbr_owner_add(&owner, true, LBR_CALLS, true);
		go(&owner, f->task, true, &found);
		lbr_owner_del(&owner, true, LBR_CALLS);
		done = begin(&owner, true, LBR_CALLS, false);
		go(&owner, current, true, &found);
		lbr_owner_del(&owner, true, LBR_CALLS);
		own = begin(&owner, true, LBR_CALLS, false);
	}
	KUNIT_EXPECT_EQ(test, LBR_WIPE, done);
	KUNIT_EXPECT_EQ(test, LBR_LEAVE, own);
}

/* What branches of another kind leave is no call stack. */
static void after_another_kind_test(struct kunit *test)
{
	struct lbr_owner owner = {};
	enum lbr_action new, old, callstack;

	scoped_guard(irqsave) {
		new = begin(&owner, true, LBR_BRANCHES, true);
		lbr_owner_del(&owner, true, LBR_BRANCHES);
		old = begin(&owner, true, LBR_BRANCHES, false);
		lbr_owner_del(&owner, true, LBR_BRANCHES);
		callstack = begin(&owner, true, LBR_CALLS, false);
	}
	KUNIT_EXPECT_EQ(test, LBR_WIPE, new);
	KUNIT_EXPECT_EQ(test, LBR_LEAVE, old);
	KUNIT_EXPECT_EQ(test, LBR_WIPE, callstack);
	KUNIT_EXPECT_EQ(test, 1, owner.users);
}

/* A context switch has something to restore: then nothing is wiped before. */
static void switched_in_test(struct kunit *test)
{
	struct lbr_owner owner = {}, gone = {};
	enum lbr_action added, enabled, after;
	void *found;

	scoped_guard(irqsave) {
		added = lbr_owner_add(&owner, true, LBR_CALLS, false);
		go(&owner, current, true, &found);
		enabled = enable(&owner);
		/* An event that goes before it counts leaves a stale stack. */
		lbr_owner_add(&gone, true, LBR_CALLS, false);
		lbr_owner_del(&gone, true, LBR_CALLS);
		after = begin(&gone, true, LBR_CALLS, false);
	}
	KUNIT_EXPECT_EQ(test, LBR_LEAVE, added);
	KUNIT_EXPECT_EQ(test, LBR_LEAVE, enabled);
	KUNIT_EXPECT_EQ(test, LBR_WIPE, after);
}

/* KVM's event is taken out and added again, as when another event of the task is enabled. */
static void guest_goes_on_test(struct kunit *test)
{
	struct lbr_owner owner = {};
	enum lbr_action new, again, both, host;

	scoped_guard(irqsave) {
		new = begin(&owner, true, LBR_GUEST, true);
		lbr_owner_del(&owner, true, LBR_GUEST);
		again = begin(&owner, true, LBR_GUEST, false);
		/* The same with an event of the host, in both orders. */
		begin(&owner, false, LBR_CALLS, true);
		lbr_owner_del(&owner, false, LBR_GUEST);
		lbr_owner_del(&owner, true, LBR_CALLS);
		lbr_owner_add(&owner, true, LBR_GUEST, false);
		both = begin(&owner, false, LBR_CALLS, false);
		lbr_owner_del(&owner, false, LBR_CALLS);
		lbr_owner_del(&owner, true, LBR_GUEST);
		lbr_owner_add(&owner, true, LBR_CALLS, false);
		host = begin(&owner, false, LBR_GUEST, false);
	}
	KUNIT_EXPECT_EQ(test, LBR_WIPE, new);
	KUNIT_EXPECT_EQ(test, LBR_LEAVE, again);
	KUNIT_EXPECT_EQ(test, LBR_LEAVE, both);
	KUNIT_EXPECT_EQ(test, LBR_LEAVE, host);
	KUNIT_EXPECT_EQ(test, 2, owner.users);
	KUNIT_EXPECT_EQ(test, 1, owner.guests);
}

/* The host does not see what a guest has called, nor a guest what the host has. */
static void guest_ends_test(struct kunit *test)
{
	struct lbr_owner alone = {}, shared = {}, other = {};
	enum lbr_action before, after, rest, back, branches;

	scoped_guard(irqsave) {
		begin(&alone, true, LBR_CALLS, true);
		lbr_owner_del(&alone, true, LBR_CALLS);
		before = begin(&alone, true, LBR_GUEST, false);
		lbr_owner_del(&alone, true, LBR_GUEST);
		after = begin(&alone, true, LBR_CALLS, false);

		begin(&shared, true, LBR_CALLS, true);
		begin(&shared, false, LBR_GUEST, true);
		lbr_owner_del(&shared, false, LBR_GUEST);
		rest = enable(&shared);
		back = begin(&shared, false, LBR_GUEST, false);

		begin(&other, true, LBR_GUEST, true);
		lbr_owner_del(&other, true, LBR_GUEST);
		branches = begin(&other, true, LBR_BRANCHES, false);
	}
	KUNIT_EXPECT_EQ(test, LBR_WIPE, before);
	KUNIT_EXPECT_EQ(test, LBR_WIPE, after);
	KUNIT_EXPECT_EQ(test, LBR_WIPE, rest);
	KUNIT_EXPECT_EQ(test, LBR_WIPE, back);
	KUNIT_EXPECT_EQ(test, LBR_WIPE, branches);
}

/* A guest's task gets off the CPU and back, while an event of the CPU goes on. */
static void guest_switches_test(struct kunit *test)
{
	struct fixture *f = test->priv;
	enum lbr_action off, on;

	scoped_guard(irqsave)
		begin(&f->owner, false, LBR_GUEST, true);
	expect(test, false, LBR_SAVE, &f->object);
	scoped_guard(irqsave) {
		lbr_owner_del(&f->owner, false, LBR_GUEST);
		off = enable(&f->owner);
		lbr_owner_add(&f->owner, false, LBR_GUEST, false);
	}
	expect(test, true, LBR_RESTORE, &f->object);
	scoped_guard(irqsave)
		on = enable(&f->owner);
	KUNIT_EXPECT_EQ(test, LBR_WIPE, off);
	KUNIT_EXPECT_EQ(test, LBR_LEAVE, on);
}

/* KVM's event goes while its task is not on a CPU, and an event of the CPU goes on. */
static void guest_gone_test(struct kunit *test)
{
	struct fixture *f = test->priv;

	scoped_guard(irqsave)
		begin(&f->owner, false, LBR_GUEST, true);
	expect(test, false, LBR_SAVE, &f->object);
	scoped_guard(irqsave)
		lbr_owner_del(&f->owner, false, LBR_GUEST);
	expect(test, true, LBR_WIPE, NULL);
	/* The host's own calls are kept as ever. */
	expect(test, false, LBR_SAVE, &f->object);
	expect(test, true, LBR_RESTORE, &f->object);
}

/*
 * A sample of the host shows neither what a guest has called, nor, amid a context switch, what the
 * former task has.
 */
static void shows_test(struct kunit *test)
{
	struct fixture *f = test->priv;
	bool own, shared, guest, before, wiping, after, stale, former, amid, restored;
	struct lbr_owner owner = {};
	enum lbr_action wipe;
	void *found;

	scoped_guard(irqsave) {
		begin(&owner, true, LBR_CALLS, true);
		own = lbr_owner_shows(&owner);
		begin(&owner, false, LBR_BRANCHES, true);
		shared = lbr_owner_shows(&owner);
		begin(&owner, false, LBR_GUEST, true);
		guest = lbr_owner_shows(&owner);
		lbr_owner_del(&owner, false, LBR_GUEST);
		before = lbr_owner_shows(&owner);
		wipe = lbr_owner_enable(&owner);
		wiping = lbr_owner_shows(&owner);
		lbr_owner_enabled(&owner);
		after = lbr_owner_shows(&owner);
		owner.stale = true;
		stale = lbr_owner_shows(&owner);
		go(&owner, f->task, true, &found);
		former = lbr_owner_shows(&owner);
		lbr_owner_switch(&owner, current, cache_a, true, &found);
		amid = lbr_owner_shows(&owner);
		lbr_owner_switched(&owner, current, true);
		restored = lbr_owner_shows(&owner);
	}
	KUNIT_EXPECT_TRUE(test, own);
	KUNIT_EXPECT_TRUE(test, shared);
	KUNIT_EXPECT_FALSE(test, guest);
	/* The guest's branches are still there. */
	KUNIT_EXPECT_FALSE(test, before);
	KUNIT_EXPECT_EQ(test, LBR_WIPE, wipe);
	KUNIT_EXPECT_FALSE(test, wiping);
	KUNIT_EXPECT_TRUE(test, after);
	KUNIT_EXPECT_FALSE(test, stale);
	KUNIT_EXPECT_FALSE(test, former);
	KUNIT_EXPECT_FALSE(test, amid);
	KUNIT_EXPECT_TRUE(test, restored);
}

#define REGISTERS	4

/* How many entries a restore finds after a save over older ones. */
static unsigned int saved_over(struct lbr_entry *entries, unsigned int saved)
{
	unsigned int i;

	for (i = 0; i <= REGISTERS; i++)
		entries[i].from = 1;
	lbr_entries_end(entries, saved, REGISTERS);
	for (i = 0; i < REGISTERS && entries[i].from; i++)
		;
	return i;
}

/* A save of fewer calls leaves none of those that were saved before. */
static void entries_end_test(struct kunit *test)
{
	struct lbr_entry entries[REGISTERS + 1];

	for (unsigned int saved = 0; saved <= REGISTERS; saved++) {
		KUNIT_EXPECT_EQ(test, saved, saved_over(entries, saved));
		/* Asks for a reset. */
		KUNIT_EXPECT_EQ(test, saved < REGISTERS, !entries[REGISTERS - 1].from);
		KUNIT_EXPECT_EQ(test, 1, entries[REGISTERS].from);
	}
}

static struct kunit_case lbr_owner_cases[] = {
	KUNIT_CASE(restored_test),
	KUNIT_CASE(elsewhere_test),
	KUNIT_CASE(without_data_test),
	KUNIT_CASE(another_kind_test),
	KUNIT_CASE(another_pmu_test),
	KUNIT_CASE(new_task_test),
	KUNIT_CASE(add_test),
	KUNIT_CASE(switched_in_test),
	KUNIT_CASE(another_run_test),
	KUNIT_CASE(former_task_test),
	KUNIT_CASE(after_another_kind_test),
	KUNIT_CASE(guest_goes_on_test),
	KUNIT_CASE(guest_ends_test),
	KUNIT_CASE(guest_switches_test),
	KUNIT_CASE(guest_gone_test),
	KUNIT_CASE(shows_test),
	KUNIT_CASE(entries_end_test),
	{}
};

static struct kunit_suite lbr_owner_suite = {
	.name		= "lbr_owner",
	.init		= lbr_owner_init,
	.test_cases	= lbr_owner_cases,
};

kunit_test_suite(lbr_owner_suite);
