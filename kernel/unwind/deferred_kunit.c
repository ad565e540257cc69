// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the deferred core's bookkeeping, included by deferred.c.
 *
 * The test thread is not a user task, so the tests call the steps below the public
 * functions, on a task info of their own. tools/testing/selftests/unwind tests whatever
 * needs a real kernel entry.
 */
#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mman.h>
#include <linux/shmem_fs.h>
#include <linux/workqueue.h>

struct core_tracer {
	struct unwind_work	work;
	unsigned int		calls;
	unsigned int		nr;
	u64			cookie;
};

/**
 * struct core_test - state of one test
 * @info:	the task info under test
 * @a:		a tracer
 * @b:		another one
 * @queued:	how often the task work was queued
 * @queue_ret:	return value of queueing
 * @nested:	if set, this tracer makes a request while the work is queued
 */
struct core_test {
	struct unwind_task_info	info;
	struct core_tracer	a, b;
	unsigned int		queued;
	int			queue_ret;
	struct core_tracer	*nested;
};

static void core_callback(struct unwind_work *work,
			  struct unwind_stacktrace *trace, u64 cookie)
{
	struct core_tracer *tracer = container_of(work, struct core_tracer, work);

	tracer->calls++;
	tracer->nr = trace->nr;
	tracer->cookie = cookie;
}

static int core_request(struct core_test *t, struct core_tracer *tracer, u64 *cookie)
{
	guard(irqsave)();

	*cookie = 0;
	return unwind_request_bit(&t->info, BIT(tracer->work.bit), false, true, cookie);
}

static int core_queue(struct unwind_task_info *info, bool irqs_off)
{
	struct core_test *t = kunit_get_current_test()->priv;
	u64 cookie;

	t->queued++;
	if (t->nested)
		KUNIT_EXPECT_EQ(kunit_get_current_test(), 0,
				core_request(t, t->nested, &cookie));
	return t->queue_ret;
}

/* The walk is not part of these tests: each entry has an empty trace. */
static void core_run_work(struct core_test *t)
{
	t->info.walked = true;
	unwind_run_work(&t->info);
}

static void core_reset(struct core_test *t)
{
	guard(irqsave)();

	unwind_reset_entry(&t->info);
}

static long core_mask(struct core_test *t)
{
	return atomic_long_read(&t->info.unwind_mask);
}

static void exactly_once_test(struct kunit *test)
{
	struct core_test *t = test->priv;
	u64 c1, c2, c3;

	KUNIT_EXPECT_EQ(test, 0, core_request(t, &t->a, &c1));
	KUNIT_EXPECT_EQ(test, 1, core_request(t, &t->a, &c2));
	KUNIT_EXPECT_EQ(test, 0, core_request(t, &t->b, &c3));
	KUNIT_EXPECT_EQ(test, c1, c2);
	KUNIT_EXPECT_EQ(test, c1, c3);
	KUNIT_EXPECT_EQ(test, t->queued, 1);

	core_run_work(t);
	core_run_work(t);
	KUNIT_EXPECT_EQ(test, t->a.calls, 1);
	KUNIT_EXPECT_EQ(test, t->b.calls, 1);
	KUNIT_EXPECT_EQ(test, t->a.cookie, c1);

	/* It had its callback in this entry: no second one, and the same cookie. */
	KUNIT_EXPECT_EQ(test, 1, core_request(t, &t->a, &c2));
	KUNIT_EXPECT_EQ(test, c1, c2);
	core_run_work(t);
	KUNIT_EXPECT_EQ(test, t->a.calls, 1);
	KUNIT_EXPECT_EQ(test, t->queued, 1);

	core_reset(t);
	KUNIT_EXPECT_EQ(test, core_mask(t), 0);
	KUNIT_EXPECT_EQ(test, 0, core_request(t, &t->a, &c2));
	KUNIT_EXPECT_NE(test, c1, c2);
}

static void cookie_test(struct kunit *test)
{
	struct core_test *t = test->priv;
	union unwind_task_id id, last = {};
	unsigned long flags;
	int cpu;

	for (int i = 0; i < 10; i++) {
		local_irq_save(flags);
		cpu = smp_processor_id();
		KUNIT_EXPECT_EQ(test, 0, core_request(t, &t->a, &id.id));
		local_irq_restore(flags);

		KUNIT_EXPECT_EQ(test, id.cpu, cpu + 1);
		KUNIT_EXPECT_EQ(test, id.cnt & 1, 1);
		KUNIT_EXPECT_NE(test, id.id, last.id);
		KUNIT_EXPECT_EQ(test, id.id, (u64)id.cnt << 32 | id.cpu);
		last = id;
		core_run_work(t);
		core_reset(t);
	}
}

/* An NMI between the steps of a claim must get and leave the same name. */
static void cookie_nmi_test(struct kunit *test)
{
	struct unwind_task_info *info = &((struct core_test *)test->priv)->info;
	u64 nmi, task;

	guard(irqsave)();

	/* The count is claimed, the CPU is not filled in yet. */
	info->id.cnt = 7;
	nmi = unwind_entry_cookie(info);
	KUNIT_EXPECT_EQ(test, nmi >> 32, 7);
	task = unwind_entry_cookie(info);
	KUNIT_EXPECT_EQ(test, nmi, task);
}

/* A tracer that asks after another tracer's callback does not repeat that callback. */
static void late_tracer_test(struct kunit *test)
{
	struct core_test *t = test->priv;
	u64 c1, c2;

	core_request(t, &t->a, &c1);
	core_run_work(t);
	KUNIT_EXPECT_EQ(test, 0, core_request(t, &t->b, &c2));
	KUNIT_EXPECT_EQ(test, t->queued, 2);
	core_run_work(t);
	KUNIT_EXPECT_EQ(test, t->a.calls, 1);
	KUNIT_EXPECT_EQ(test, t->b.calls, 1);
	KUNIT_EXPECT_EQ(test, c1, c2);
}

/* If queueing fails, only the request of that tracer is undone. */
static void queue_fails_test(struct kunit *test)
{
	struct core_test *t = test->priv;
	u64 c1, c2;
	long mask;

	core_request(t, &t->a, &c1);
	core_run_work(t);
	mask = core_mask(t);
	KUNIT_EXPECT_TRUE(test, mask & UNWIND_USED);

	t->queue_ret = -ESRCH;
	KUNIT_EXPECT_EQ(test, -ESRCH, core_request(t, &t->b, &c2));
	KUNIT_EXPECT_EQ(test, c2, 0);
	KUNIT_EXPECT_EQ(test, core_mask(t), mask);
	KUNIT_EXPECT_EQ(test, 1, core_request(t, &t->a, &c2));
	KUNIT_EXPECT_EQ(test, c1, c2);
}

/* A request that interrupts another one's queueing relies on it and does not queue. */
static void nested_request_test(struct kunit *test)
{
	struct core_test *t = test->priv;
	u64 cookie;

	t->nested = &t->b;
	KUNIT_EXPECT_EQ(test, 0, core_request(t, &t->a, &cookie));
	KUNIT_EXPECT_EQ(test, t->queued, 1);
	core_run_work(t);
	KUNIT_EXPECT_EQ(test, t->a.calls, 1);
	KUNIT_EXPECT_EQ(test, t->b.calls, 1);
}

/* An NMI after the last check for task work: delivered from the next entry. */
static void late_nmi_test(struct kunit *test)
{
	struct core_tracer *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);
	struct core_test *t = test->priv;
	u64 c1, c2, c3;

	KUNIT_ASSERT_NOT_NULL(test, c);
	KUNIT_ASSERT_EQ(test, 0, unwind_deferred_init(&c->work, core_callback));
	core_request(t, &t->a, &c1);
	core_run_work(t);
	core_request(t, &t->b, &c2);
	t->info.callchain_cpu = 1;
	t->info.user_state_cpu = 2;
	core_reset(t);

	KUNIT_EXPECT_EQ(test, c1, c2);
	KUNIT_EXPECT_EQ(test, t->info.id.id, c2);
	/* What was noted lasts until the callback, too. */
	KUNIT_EXPECT_EQ(test, t->info.callchain_cpu, 1);
	KUNIT_EXPECT_EQ(test, t->info.user_state_cpu, 2);
	/* The cached trace belongs to the entry that ended. */
	KUNIT_EXPECT_FALSE(test, t->info.walked);
	/*
	 * No tracer may name the next entry by the same cookie, neither one that had its
	 * callback nor one that asks for the first time.
	 */
	KUNIT_EXPECT_EQ(test, -EAGAIN, core_request(t, &t->a, &c3));
	KUNIT_EXPECT_EQ(test, c3, 0);
	KUNIT_EXPECT_EQ(test, -EAGAIN, core_request(t, c, &c3));
	KUNIT_EXPECT_EQ(test, c3, 0);
	KUNIT_EXPECT_EQ(test, 1, core_request(t, &t->b, &c3));
	KUNIT_EXPECT_EQ(test, c3, c2);

	/* The registers were those of the entry that ended. */
	t->info.regs_seen = true;
	core_run_work(t);
	KUNIT_EXPECT_EQ(test, t->a.calls, 1);
	KUNIT_EXPECT_EQ(test, t->b.calls, 1);
	KUNIT_EXPECT_EQ(test, t->b.cookie, c2);
	KUNIT_EXPECT_FALSE(test, t->info.regs_seen);
	/* From here on the entry has a name of its own. */
	KUNIT_EXPECT_EQ(test, 0, core_request(t, &t->a, &c3));
	KUNIT_EXPECT_NE(test, c3, c2);
	KUNIT_EXPECT_NE(test, c3, 0);
	core_run_work(t);
	core_reset(t);
	KUNIT_EXPECT_EQ(test, core_mask(t), 0);
	unwind_deferred_cancel(&c->work);
}

static int core_again(struct core_test *t, struct core_tracer *tracer)
{
	guard(irqsave)();

	return unwind_again_bit(&t->info, BIT(tracer->work.bit), false);
}

/* A task gets UNWIND_AGAIN repeats at once, and then one a second. */
static void again_share_test(struct kunit *test)
{
	static const u32 nows[] = { 0, HZ, -1, -HZ, 1U << 31 };
	/* Distances of a leftover again_at from now. */
	static const u32 lefts[] = { 0, -1, -HZ, 1U << 31, UNWIND_AGAIN * HZ + 1 };
	struct core_test *t = test->priv;
	unsigned int nr;
	u32 now;

	for (int i = 0; i < ARRAY_SIZE(nows) * ARRAY_SIZE(lefts); i++) {
		now = nows[i / ARRAY_SIZE(lefts)];
		t->info.again_at = now + lefts[i % ARRAY_SIZE(lefts)];
		for (nr = 0; nr < 2 * UNWIND_AGAIN && unwind_may_again(&t->info, now); nr++)
			;
		KUNIT_EXPECT_EQ_MSG(test, UNWIND_AGAIN, nr, "case %d", i);

		KUNIT_EXPECT_FALSE(test, unwind_may_again(&t->info, now + HZ - 1));
		KUNIT_EXPECT_TRUE(test, unwind_may_again(&t->info, now + HZ));
		KUNIT_EXPECT_FALSE(test, unwind_may_again(&t->info, now + HZ));
		now += 100 * HZ;
		for (nr = 0; nr < 2 * UNWIND_AGAIN && unwind_may_again(&t->info, now); nr++)
			;
		KUNIT_EXPECT_EQ_MSG(test, UNWIND_AGAIN, nr, "case %d, later", i);
	}
}

/* A new task has all of its repeats, however long ago the machine was booted. */
static void again_new_task_test(struct kunit *test)
{
	struct task_struct *task = kunit_kzalloc(test, sizeof(*task), GFP_KERNEL);
	u32 start = jiffies;

	KUNIT_ASSERT_NOT_NULL(test, task);
	unwind_task_init(task);
	KUNIT_EXPECT_LE(test, task->unwind_info.again_at - start, (u32)jiffies - start);
}

/* The callback comes again, for consumers that the tracer met after it. */
static void again_test(struct kunit *test)
{
	struct core_test *t = test->priv;
	u64 c1, c2;

	KUNIT_EXPECT_EQ(test, -EINVAL, core_again(t, &t->a));
	core_request(t, &t->a, &c1);
	/* The callback is still due. */
	KUNIT_EXPECT_EQ(test, 1, core_again(t, &t->a));
	core_run_work(t);
	KUNIT_EXPECT_EQ(test, t->queued, 1);

	KUNIT_EXPECT_EQ(test, 0, core_again(t, &t->a));
	KUNIT_EXPECT_EQ(test, 1, core_again(t, &t->a));
	KUNIT_EXPECT_EQ(test, -EINVAL, core_again(t, &t->b));
	KUNIT_EXPECT_EQ(test, t->queued, 2);
	core_run_work(t);
	KUNIT_EXPECT_EQ(test, t->a.calls, 2);
	KUNIT_EXPECT_EQ(test, t->a.cookie, c1);
	KUNIT_EXPECT_EQ(test, t->b.calls, 0);

	/* If queueing fails, nothing changes. */
	t->queue_ret = -ESRCH;
	KUNIT_EXPECT_EQ(test, -ESRCH, core_again(t, &t->a));
	core_run_work(t);
	KUNIT_EXPECT_EQ(test, t->a.calls, 2);
	t->queue_ret = 0;

	/* Too late for this exit: called from the next entry, which then forgets the cookie. */
	KUNIT_EXPECT_EQ(test, 0, core_again(t, &t->a));
	core_reset(t);
	KUNIT_EXPECT_EQ(test, 1, core_again(t, &t->a));
	core_run_work(t);
	KUNIT_EXPECT_EQ(test, t->a.calls, 3);
	KUNIT_EXPECT_EQ(test, t->a.cookie, c1);
	KUNIT_EXPECT_EQ(test, -EINVAL, core_again(t, &t->a));
	KUNIT_EXPECT_EQ(test, 0, core_request(t, &t->a, &c2));
	KUNIT_EXPECT_NE(test, c1, c2);
}

static void refused_test(struct kunit *test)
{
	struct core_test *t = test->priv;
	u64 cookie;

	atomic_long_set(&t->info.unwind_mask, UNWIND_EXEC);
	KUNIT_EXPECT_EQ(test, -ESTALE, core_request(t, &t->a, &cookie));
	atomic_long_set(&t->info.unwind_mask, UNWIND_RESET);
	KUNIT_EXPECT_EQ(test, -EAGAIN, core_request(t, &t->a, &cookie));
	KUNIT_EXPECT_EQ(test, t->queued, 0);
	KUNIT_EXPECT_EQ(test, t->info.id.id, 0);
}

/* Without memory the trace is empty, and callbacks still come once. */
static void no_cache_test(struct kunit *test)
{
	struct core_test *t = test->priv;
	u64 cookie;

	t->a.nr = 99;
	core_request(t, &t->a, &cookie);
	core_run_work(t);
	core_request(t, &t->b, &cookie);
	core_run_work(t);
	KUNIT_EXPECT_NULL(test, t->info.cache);
	KUNIT_EXPECT_EQ(test, t->a.calls, 1);
	KUNIT_EXPECT_EQ(test, t->a.nr, 0);
	KUNIT_EXPECT_EQ(test, t->b.calls, 1);
}

/* A tracer that needs no trace causes no walk; other tracers get their trace. */
static void no_trace_test(struct kunit *test)
{
	struct core_tracer *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);
	struct core_test *t = test->priv;
	u64 c1, c2;

	KUNIT_ASSERT_NOT_NULL(test, c);
	c->work.no_trace = true;
	KUNIT_ASSERT_EQ(test, 0, unwind_deferred_init(&c->work, core_callback));

	KUNIT_EXPECT_EQ(test, 0, core_request(t, c, &c1));
	unwind_run_work(&t->info);
	KUNIT_EXPECT_FALSE(test, t->info.walked);
	KUNIT_EXPECT_EQ(test, c->calls, 1);
	KUNIT_EXPECT_EQ(test, c->cookie, c1);

	KUNIT_EXPECT_EQ(test, 0, core_request(t, &t->a, &c2));
	KUNIT_EXPECT_EQ(test, c1, c2);
	core_run_work(t);
	KUNIT_EXPECT_EQ(test, t->a.calls, 1);
	KUNIT_EXPECT_EQ(test, c->calls, 1);
	core_reset(t);

	unwind_deferred_cancel(&c->work);
	/* The next owner of the bit wants the trace. */
	c->work.no_trace = false;
	KUNIT_ASSERT_EQ(test, 0, unwind_deferred_init(&c->work, core_callback));
	KUNIT_EXPECT_EQ(test, 0, unwind_bits_no_trace & BIT(c->work.bit));
	unwind_deferred_cancel(&c->work);
}

/**
 * struct core_waiting - a tracer whose callback waits for all SRCU readers
 * @tracer:	the tracer itself
 * @other:	a tracer that does not wait
 * @others:	calls of @other before this one
 * @sync:	waits for all SRCU readers
 * @synced:	no reader is left
 * @in_time:	@synced was completed before the timeout
 */
struct core_waiting {
	struct core_tracer	tracer;
	struct core_tracer	*other;
	unsigned int		others;
	struct work_struct	sync;
	struct completion	synced;
	bool			in_time;
};

static void core_sync(struct work_struct *work)
{
	struct core_waiting *waiting = container_of(work, struct core_waiting, sync);

	synchronize_srcu(&unwind_srcu);
	complete(&waiting->synced);
}

static void core_wait_callback(struct unwind_work *work,
			       struct unwind_stacktrace *trace, u64 cookie)
{
	struct core_waiting *waiting = container_of(work, struct core_waiting, tracer.work);

	core_callback(work, trace, cookie);
	waiting->others = waiting->other->calls;
	schedule_work(&waiting->sync);
	waiting->in_time = wait_for_completion_timeout(&waiting->synced, 100 * HZ);
}

/* A tracer that may wait is called outside of the SRCU section, after all others. */
static void may_wait_test(struct kunit *test)
{
	struct core_waiting *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);
	struct core_tracer *last = kunit_kzalloc(test, sizeof(*last), GFP_KERNEL);
	struct core_test *t = test->priv;
	u64 c1, c2;

	KUNIT_ASSERT_NOT_NULL(test, w);
	KUNIT_ASSERT_NOT_NULL(test, last);
	INIT_WORK(&w->sync, core_sync);
	init_completion(&w->synced);
	w->other = last;
	w->tracer.work.may_wait = true;
	KUNIT_ASSERT_EQ(test, 0, unwind_deferred_init(&w->tracer.work, core_wait_callback));
	KUNIT_ASSERT_EQ(test, 0, unwind_deferred_init(&last->work, core_callback));

	KUNIT_EXPECT_EQ(test, 0, core_request(t, &t->a, &c1));
	KUNIT_EXPECT_EQ(test, 0, core_request(t, &w->tracer, &c2));
	KUNIT_EXPECT_EQ(test, 0, core_request(t, last, &c2));
	core_run_work(t);
	core_run_work(t);
	KUNIT_EXPECT_TRUE(test, w->in_time);
	KUNIT_EXPECT_EQ(test, w->others, 1);
	KUNIT_EXPECT_EQ(test, t->a.calls, 1);
	KUNIT_EXPECT_EQ(test, w->tracer.calls, 1);
	KUNIT_EXPECT_EQ(test, last->calls, 1);
	KUNIT_EXPECT_EQ(test, t->a.cookie, c1);
	KUNIT_EXPECT_EQ(test, w->tracer.cookie, c1);
	KUNIT_EXPECT_EQ(test, last->cookie, c1);
	KUNIT_EXPECT_EQ(test, 1, core_request(t, &w->tracer, &c2));

	flush_work(&w->sync);
	unwind_deferred_cancel(&w->tracer.work);
	unwind_deferred_cancel(&last->work);
}

/* Files are looked up only while a tracer that wants them is due. */
static void want_files_test(struct kunit *test)
{
	struct core_tracer *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, c);
	c->work.want_files = true;
	KUNIT_ASSERT_EQ(test, 0, unwind_deferred_init(&c->work, core_callback));
	KUNIT_EXPECT_NE(test, 0, unwind_bits_want_files & BIT(c->work.bit));
	unwind_deferred_cancel(&c->work);

	/* The next owner of the bit does not want files. */
	c->work.want_files = false;
	KUNIT_ASSERT_EQ(test, 0, unwind_deferred_init(&c->work, core_callback));
	KUNIT_EXPECT_EQ(test, 0, unwind_bits_want_files & BIT(c->work.bit));
	unwind_deferred_cancel(&c->work);
}

/* Addresses in a file, in anonymous memory, and in no mapping. */
static void files_test(struct kunit *test)
{
	const unsigned long prot = PROT_READ, flags = MAP_PRIVATE;
	unsigned long entries[4], start, none;
	struct unwind_stacktrace trace = { .nr = 4, .entries = entries };
	const struct inode *inode;
	struct file *file;

	file = shmem_kernel_file_setup("unwind", 4 * PAGE_SIZE, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(file));
	start = kunit_vm_mmap(test, file, 0, 3 * PAGE_SIZE, prot, flags, PAGE_SIZE);
	none = kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, prot, flags | MAP_ANONYMOUS, 0);
	inode = file_inode(file);
	KUNIT_EXPECT_TRUE(test, start && none);

	entries[0] = start + 16;
	entries[1] = start + PAGE_SIZE + 32;
	entries[2] = none + 48;
	entries[3] = 64;
	unwind_get_files(&trace);
	if (trace.files && start && none) {
		KUNIT_EXPECT_EQ(test, trace.files[0].offset, PAGE_SIZE + 16);
		KUNIT_EXPECT_EQ(test, trace.files[1].offset, 2 * PAGE_SIZE + 32);
		for (int i = 0; i < 4; i++) {
			bool in_file = i < 2;

			KUNIT_EXPECT_EQ(test, trace.files[i].inode, in_file ? inode->i_ino : 0);
			KUNIT_EXPECT_EQ(test, trace.files[i].dev,
					in_file ? inode->i_sb->s_dev : 0);
			if (!in_file)
				KUNIT_EXPECT_EQ(test, trace.files[i].offset, entries[i]);
		}
	} else {
		KUNIT_FAIL(test, "no files of the trace, or no mappings");
	}

	unwind_put_files(&trace);
	KUNIT_EXPECT_NULL(test, trace.files);
	fput(file);
}

/* Addresses beyond those of an event are not looked up under the lock. */
static void files_of_deep_stack_test(struct kunit *test)
{
	const unsigned int nr = 2 * UNWIND_EVENT_ENTRIES;
	struct unwind_stacktrace trace = {
		.nr = nr,
		.entries = kunit_kcalloc(test, nr, sizeof(long), GFP_KERNEL),
	};

	KUNIT_ASSERT_NOT_NULL(test, trace.entries);
	/* Gives the KUnit thread an address space, which it does not have otherwise. */
	KUNIT_ASSERT_NE(test, 0, kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, PROT_READ,
					       MAP_PRIVATE | MAP_ANONYMOUS, 0));
	unwind_get_files(&trace);
	KUNIT_ASSERT_NOT_NULL(test, trace.files);
	KUNIT_EXPECT_LT(test, ksize(trace.files), nr * sizeof(*trace.files));
	unwind_put_files(&trace);
}

/* Requests of a cancelled tracer are dropped, and what it noted ends with the entry. */
static void cancel_test(struct kunit *test)
{
	struct core_test *t = test->priv;
	int bit = t->a.work.bit;
	u64 cookie;

	core_request(t, &t->a, &cookie);
	t->info.callchain_cpu = 1;
	t->info.user_state_cpu = 2;
	unwind_deferred_cancel(&t->a.work);
	KUNIT_EXPECT_LT(test, t->a.work.bit, UNWIND_TRACER_SHIFT);
	/* A second cancel, and the cancel of an unregistered tracer, have no effect. */
	unwind_deferred_cancel(&t->a.work);
	unwind_deferred_cancel(&(struct unwind_work) {});

	core_run_work(t);
	KUNIT_EXPECT_EQ(test, t->a.calls, 0);
	KUNIT_EXPECT_EQ(test, -EINVAL, unwind_deferred_request(&t->a.work, &cookie));
	core_reset(t);
	KUNIT_EXPECT_EQ(test, t->info.callchain_cpu, 0);
	KUNIT_EXPECT_EQ(test, t->info.user_state_cpu, 0);

	/* The lowest free bit is the old one, and it can be registered again. */
	KUNIT_ASSERT_EQ(test, 0, unwind_deferred_init(&t->a.work, core_callback));
	KUNIT_EXPECT_EQ(test, t->a.work.bit, bit);
	KUNIT_EXPECT_EQ(test, -EINVAL, unwind_deferred_init(&t->a.work, core_callback));
}

/* Use all bits, the top ones included: then no bit is left. */
static void all_bits_test(struct kunit *test)
{
	struct core_test *t = test->priv;
	struct core_tracer *many;
	unsigned int nr = 0;
	int ret;

	many = kunit_kcalloc(test, UNWIND_MAX_TRACERS + 1, sizeof(*many), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, many);

	while (nr <= UNWIND_MAX_TRACERS) {
		ret = unwind_deferred_init(&many[nr].work, core_callback);
		if (ret)
			break;
		nr++;
	}
	KUNIT_EXPECT_EQ(test, ret, -EBUSY);
	KUNIT_EXPECT_GT(test, nr, 0);

	for (int i = 0; i < nr; i++) {
		u64 cookie;

		KUNIT_EXPECT_EQ(test, 0, core_request(t, &many[i], &cookie));
		KUNIT_EXPECT_EQ(test, 1, core_request(t, &many[i], &cookie));
	}
	core_run_work(t);

	for (int i = 0; i < nr; i++) {
		KUNIT_EXPECT_EQ(test, many[i].calls, 1);
		unwind_deferred_cancel(&many[i].work);
	}
}

static int core_init(struct kunit *test)
{
	struct core_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	test->priv = t;
	init_task_work(&t->info.work, unwind_deferred_work);
	kunit_activate_static_stub(test, unwind_queue_work, core_queue);
	KUNIT_ASSERT_EQ(test, 0, unwind_deferred_init(&t->a.work, core_callback));
	KUNIT_ASSERT_EQ(test, 0, unwind_deferred_init(&t->b.work, core_callback));
	return 0;
}

static void core_exit(struct kunit *test)
{
	struct core_test *t = test->priv;

	if (!t)
		return;
	unwind_deferred_cancel(&t->a.work);
	unwind_deferred_cancel(&t->b.work);
}

static void core_event(void *data, u64 cookie, const struct unwind_stacktrace *trace)
{
	u64 *last = data;

	/* Other entries hit the event, too. */
	if (cookie == last[0])
		last[1]++;
}

/* An entry hits the event once, even if the tracer that was called is gone. */
static void event_once_test(struct kunit *test)
{
	struct core_test *t = test->priv;
	u64 event[2] = {}, cookie;

	KUNIT_ASSERT_EQ(test, 0, core_request(t, &t->a, &event[0]));
	KUNIT_ASSERT_EQ(test, 0, register_trace_user_unwind_stack(core_event, event));
	core_run_work(t);
	KUNIT_EXPECT_EQ(test, event[1], 1);
	/* As if the tracer was cancelled. */
	atomic_long_set(&t->info.unwind_completed, 0);
	atomic_long_andnot(BIT(t->a.work.bit), &t->info.unwind_mask);

	KUNIT_EXPECT_EQ(test, 0, core_request(t, &t->b, &cookie));
	KUNIT_EXPECT_EQ(test, cookie, event[0]);
	core_run_work(t);
	KUNIT_EXPECT_EQ(test, t->b.calls, 1);
	KUNIT_EXPECT_EQ(test, event[1], 1);
	core_reset(t);

	KUNIT_EXPECT_EQ(test, 0, core_request(t, &t->a, &event[0]));
	core_run_work(t);
	KUNIT_EXPECT_EQ(test, event[1], 2);
	unregister_trace_user_unwind_stack(core_event, event);
	tracepoint_synchronize_unregister();
}

static struct kunit_case unwind_deferred_cases[] = {
	KUNIT_CASE(exactly_once_test),
	KUNIT_CASE(cookie_test),
	KUNIT_CASE(cookie_nmi_test),
	KUNIT_CASE(late_tracer_test),
	KUNIT_CASE(queue_fails_test),
	KUNIT_CASE(nested_request_test),
	KUNIT_CASE(late_nmi_test),
	KUNIT_CASE(again_test),
	KUNIT_CASE(again_share_test),
	KUNIT_CASE(again_new_task_test),
	KUNIT_CASE(refused_test),
	KUNIT_CASE(no_cache_test),
	KUNIT_CASE(no_trace_test),
	KUNIT_CASE(may_wait_test),
	KUNIT_CASE(want_files_test),
	KUNIT_CASE(files_test),
	KUNIT_CASE(files_of_deep_stack_test),
	KUNIT_CASE(event_once_test),
	KUNIT_CASE(cancel_test),
	KUNIT_CASE(all_bits_test),
	{}
};

static struct kunit_suite unwind_deferred_suite = {
	.name		= "unwind_deferred",
	.init		= core_init,
	.exit		= core_exit,
	.test_cases	= unwind_deferred_cases,
};

kunit_test_suite(unwind_deferred_suite);
