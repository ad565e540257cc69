// SPDX-License-Identifier: GPL-2.0
/*
 * Cancel tracers of the deferred unwinding core while other tracers request, walk and
 * call back: once cancel returns, the callback is not running and never will, its bit
 * is clean for the next owner, and no user stack can make cancel wait.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <asm/perf_regs.h>

#include "hang.h"
#include "perf_ring.h"
#include "tracer.h"
#include "uring.h"
#include "workload.h"
#include "harness.h"

#define DEPTH	5
#define PAGE	HANG_PAGE

FIXTURE(cancel) {
	int fd;
};

TRACER_FIXTURE(cancel, 2)

/* A thread that runs operations, once. */
struct runner {
	pthread_t		thread;
	atomic_int		tid;
	int			fd;
	struct unwind_test_op	*ops;
	unsigned int		nr;
	/* Stack and frame pointer for tracer_run_fp(), or 0 for known callers. */
	void			*stack;
	unsigned long		fp;
	atomic_bool		returned;
	long			ret;
};

static void *runner_thread(void *data)
{
	struct runner *runner = data;

	runner->tid = gettid();
	if (runner->fp)
		runner->ret = tracer_run_fp(runner->fd, runner->ops, runner->nr, runner->stack,
					    runner->fp);
	else
		runner->ret = tracer_run_deep(runner->fd, runner->ops, runner->nr, DEPTH);
	runner->returned = true;
	return NULL;
}

static void runner_start(struct runner *runner)
{
	runner->tid = 0;
	runner->returned = false;
	pthread_create(&runner->thread, NULL, runner_thread, runner);
	while (!runner->tid)
		sched_yield();
}

/* Wait until a thread sleeps in state @state, 'D' or 'S'; false if it returned. */
static bool runner_sleeps(struct runner *runner, char state)
{
	char path[64], line[512], *end;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", runner->tid);
	while (!runner->returned) {
		FILE *file = fopen(path, "r");

		if (!file)
			return false;
		if (!fgets(line, sizeof(line), file))
			line[0] = '\0';
		fclose(file);
		end = strrchr(line, ')');
		if (end && end[2] == state)
			return true;
		usleep(1000);
	}
	return false;
}

/* Cancel ends after the callback does: the sequence numbers give the order. */
TEST_F(cancel, waits_for_callback)
{
	struct unwind_test_op call[] = {
		OP_MODE(0, UNWIND_TEST_MODE_SLEEP, 0),
		OP_REQUEST(0, UNWIND_TEST_TASK),
	};
	struct unwind_test_op cancel[] = { OP_CANCEL(0), OP_REQUEST(0, UNWIND_TEST_TASK) };
	struct runner caller = { .fd = self->fd, .ops = call, .nr = 2 };
	struct runner canceller = { .fd = self->fd, .ops = cancel, .nr = 2 };
	struct unwind_test_event event = {};

	runner_start(&caller);
	while (!tracer_event(self->fd, &event))
		sched_yield();
	EXPECT_EQ(0, event.end);

	runner_start(&canceller);
	EXPECT_TRUE(runner_sleeps(&canceller, 'D'));
	EXPECT_EQ(0, tracer_op(self->fd, (struct unwind_test_op)OP_RELEASE(0)));
	pthread_join(canceller.thread, NULL);
	pthread_join(caller.thread, NULL);

	ASSERT_TRUE(tracer_event(self->fd, &event));
	EXPECT_EQ(1, event.end);
	EXPECT_GT(cancel[0].seq, event.seq);
	EXPECT_EQ(-EINVAL, cancel[1].ret);
	EXPECT_FALSE(tracer_event(self->fd, &event));
}

/* A walk that waits for userspace makes no other task wait. */
TEST_F(cancel, does_not_wait_for_walk)
{
	struct unwind_test_op ops[] = {
		OP_REQUEST(0, UNWIND_TEST_TASK),
		OP_REQUEST(1, UNWIND_TEST_TASK),
	};
	struct hanging_stack hang;
	struct runner walker = { .fd = self->fd, .ops = ops, .nr = 2 };
	struct unwind_test_event event;

	if (hanging_stack_init(&hang))
		SKIP(return, "no userfaultfd");
	walker.stack = hang.page;
	walker.fp = (unsigned long)hang.page;
	runner_start(&walker);
	wait_for_fault(hang.uffd);

	/* An uninvolved tracer, and one whose trace is being taken. */
	EXPECT_EQ(0, tracer_op(self->fd, (struct unwind_test_op)OP_INIT(2)));
	EXPECT_EQ(0, tracer_op(self->fd, (struct unwind_test_op)OP_CANCEL(2)));
	EXPECT_EQ(0, tracer_op(self->fd, (struct unwind_test_op)OP_CANCEL(0)));
	EXPECT_FALSE((bool)walker.returned);
	EXPECT_FALSE(tracer_event(self->fd, &event));

	EXPECT_EQ(0, hanging_stack_resolve(&hang));
	pthread_join(walker.thread, NULL);
	EXPECT_EQ(0, walker.ret);
	EXPECT_EQ(0, ops[0].ret);
	EXPECT_EQ(0, ops[1].ret);

	/* The cancelled tracer is not called. The other one is, with the whole trace. */
	ASSERT_TRUE(tracer_event(self->fd, &event));
	EXPECT_EQ(1, event.slot);
	ASSERT_EQ(2, event.nr);
	EXPECT_TRUE(workload_is_leaf_fp(event.entries[0]));
	EXPECT_EQ(HANGING_RA, event.entries[1]);
	EXPECT_FALSE(tracer_event(self->fd, &event));
}

/* SIGKILL ends a walk that waits. If it did not, the test would time out. */
TEST_F(cancel, killed_in_walk)
{
	struct hanging_stack hang;
	int status, go[2];
	pid_t child;

	/* The child's own userfaultfd: a fork does not inherit it. */
	ASSERT_EQ(0, pipe(go));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		struct unwind_test_op op = OP_REQUEST(0, UNWIND_TEST_TASK);
		struct runner walker = { .fd = self->fd, .ops = &op, .nr = 1 };
		char ready = 'y';

		if (hanging_stack_init(&hang))
			_exit(4);
		walker.stack = hang.page;
		walker.fp = (unsigned long)hang.page;
		runner_start(&walker);
		wait_for_fault(hang.uffd);
		if (write(go[1], &ready, 1) != 1)
			_exit(1);
		pause();
	}
	close(go[1]);
	if (read(go[0], &status, 1) == 1)
		kill(child, SIGKILL);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 4)
		SKIP(return, "no userfaultfd");
	EXPECT_TRUE(WIFSIGNALED(status));
	EXPECT_EQ(SIGKILL, WTERMSIG(status));
}

FIXTURE(exiting) {
};

FIXTURE_VARIANT(exiting) {
	const char	*event;
	long		nr;
	bool		in_flight;
};

FIXTURE_VARIANT_ADD(exiting, thread) {
	.event = "syscalls/sys_enter_exit", .nr = SYS_exit,
};

FIXTURE_VARIANT_ADD(exiting, group) {
	.event = "syscalls/sys_enter_exit_group", .nr = SYS_exit_group,
};

FIXTURE_VARIANT_ADD(exiting, group_with_io_uring) {
	.event = "syscalls/sys_enter_exit_group", .nr = SYS_exit_group, .in_flight = true,
};

FIXTURE_SETUP(exiting)
{
}

FIXTURE_TEARDOWN(exiting)
{
}

/* Expect the record of a walk that read no memory. */
static void expect_only_ip(struct __test_metadata *_metadata, struct ring *ring)
{
	union record *record = malloc(sizeof(*record));

	ASSERT_TRUE(ring_next_type(ring, record, PERF_RECORD_CALLCHAIN_DEFERRED));
	EXPECT_EQ(1, as_deferred(record)->nr);
	EXPECT_TRUE(workload_is_leaf_fp(as_deferred(record)->ips[0]));
	free(record);
}

/* A task exits without waiting for stack pages that userspace has to supply. */
TEST_F(exiting, does_not_wait)
{
	struct perf_event_attr attr = tracepoint_attr(variant->event);
	struct hanging_stack hang;
	struct ring ring;
	int status, go[2];
	pid_t child;
	char c = 'y';

	if (attr.type == ~0U)
		SKIP(return, "no system call tracepoints");
	ASSERT_EQ(0, pipe(go));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		long call[7] = { variant->nr, 7 };

		if (read(go[0], &c, 1) != 1 || hanging_stack_init(&hang))
			_exit(4);
		if (variant->in_flight && uring_leave_in_flight())
			_exit(5);
		workload_call_fp(hang.page, (unsigned long)hang.page, call);
	}
	ASSERT_EQ(0, ring_open(&ring, &attr, child, -1, 8));
	ring_enable(&ring);
	ASSERT_EQ(1, write(go[1], &c, 1));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 4)
		SKIP(return, "no userfaultfd");
	EXPECT_EQ(7, WEXITSTATUS(status));

	expect_only_ip(_metadata, &ring);
	ring_close(&ring);
}

/* Sleep in pause() on a stack that userspace has to supply, after telling the thread's ID. */
struct sleeper {
	struct hanging_stack	hang;
	int			told;
};

static void *sleeper_thread(void *data)
{
	struct sleeper *sleeper = data;
	long call[7] = { SYS_pause };
	pid_t tid = gettid();

	if (uring_leave_in_flight() || write(sleeper->told, &tid, sizeof(tid)) != sizeof(tid))
		_exit(5);
	workload_call_fp(sleeper->hang.page, (unsigned long)sleeper->hang.page, call);
	return NULL;
}

/* Wait until a thread of this process is in pause(). */
static void wait_for_pause(pid_t tid)
{
	char path[64], line[256];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	do {
		line[0] = '\0';
		file = fopen(path, "r");
		if (!file)
			_exit(6);
		if (!fgets(line, sizeof(line), file))
			line[0] = '\0';
		fclose(file);
	} while (atoi(line) != SYS_pause);
}

/*
 * A thread that execve() of another one ends does not wait, either. It has taken its SIGKILL
 * when the event samples it, and io_uring runs task work before it is PF_EXITING. execve()
 * waits for the thread.
 */
TEST(ended_by_exec)
{
	struct perf_event_attr attr = tracepoint_attr("signal/signal_deliver");
	int status, go[2], told[2];
	struct sleeper sleeper;
	pthread_t thread;
	struct ring ring;
	pid_t child, tid;

	ASSERT_NE(~0U, attr.type);
	ASSERT_EQ(0, pipe(go));
	ASSERT_EQ(0, pipe(told));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		close(told[0]);
		sleeper.told = told[1];
		if (hanging_stack_init(&sleeper.hang))
			_exit(4);
		pthread_create(&thread, NULL, sleeper_thread, &sleeper);
		if (read(go[0], &tid, sizeof(tid)) != sizeof(tid))
			_exit(1);
		wait_for_pause(tid);
		execl("/bin/sh", "sh", "-c", "exit 7", NULL);
		_exit(1);
	}
	close(told[1]);
	if (read(told[0], &tid, sizeof(tid)) != sizeof(tid)) {
		ASSERT_EQ(child, waitpid(child, &status, 0));
		ASSERT_EQ(4, WEXITSTATUS(status));
		SKIP(return, "no userfaultfd");
	}
	ASSERT_EQ(0, ring_open(&ring, &attr, tid, -1, 8));
	ring_enable(&ring);
	ASSERT_EQ(sizeof(tid), write(go[1], &tid, sizeof(tid)));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(7, WEXITSTATUS(status));

	expect_only_ip(_metadata, &ring);
	ring_close(&ring);
}

/* Samples of exit_group() that request a copy of the user stack, taken on exit. */
static struct perf_event_attr exit_state_attr(void)
{
	struct perf_event_attr attr = tracepoint_attr("syscalls/sys_enter_exit_group");

	attr.defer_callchain = 0;
	attr.defer_user_state = 1;
	attr.exclude_callchain_user = 1;
	attr.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
	attr.sample_regs_user = 1 << PERF_REG_X86_SP;
	attr.sample_stack_user = 1024;
	return attr;
}

/* Fork a child whose exit_group() requests a stack copy, and traces for slots 1 and 0. */
static pid_t exit_with_requests(int fd, struct ring *ring)
{
	struct unwind_test_op at_exit[] = {
		OP_AT(1, UNWIND_TEST_POINT_COOKIE, UNWIND_TEST_NMI),
		OP_AT(0, UNWIND_TEST_POINT_MASK, UNWIND_TEST_NMI),
	};
	struct perf_event_attr attr = exit_state_attr();
	pid_t child;
	char c = 'y';
	int go[2];

	if (pipe(go))
		return -1;
	child = fork();
	if (!child) {
		if (read(go[0], &c, 1) == 1)
			tracer_run_array(fd, at_exit);
		_exit(7);
	}
	if (child < 0 || ring_open(ring, &attr, child, -1, 8))
		return -1;
	ring_enable(ring);
	return write(go[1], &c, 1) == 1 ? child : -1;
}

/* Wait until the callback of a slot has begun; returns the ID of its thread. */
static pid_t wait_for_callback(int fd, unsigned int slot)
{
	struct unwind_test_event event = {};

	while (!tracer_event(fd, &event) || event.slot != slot)
		sched_yield();
	return event.tid;
}

/*
 * A task exits while a tracer with a request in it is being cancelled: that request is no
 * longer taken. The leftover work runs after the address space is gone, and must not look
 * for the stack that another tracer wanted to copy.
 *
 * The callback of slot 1 sleeps in the exiting task, to have it in exit when slot 0 is
 * cancelled. The callback of slot 2 sleeps in another thread, to keep cancel from ending.
 */
TEST_F(cancel, exit_meanwhile)
{
	struct unwind_test_op prepare[] = {
		OP_INIT(2),
		OP_MODE(1, UNWIND_TEST_MODE_SLEEP, 0),
		OP_MODE(2, UNWIND_TEST_MODE_SLEEP, 0),
		/* Register slot 0 again, to have it called after slot 1. */
		OP_CANCEL(0),
		OP_INIT(0),
	};
	struct unwind_test_op hold[] = { OP_REQUEST(2, UNWIND_TEST_TASK) };
	struct unwind_test_op cancel[] = { OP_CANCEL(0) };
	struct runner holder = { .fd = self->fd, .ops = hold, .nr = 1 };
	struct runner canceller = { .fd = self->fd, .ops = cancel, .nr = 1 };
	struct unwind_test_event event = {};
	struct ring ring;
	pid_t child;
	int status;

	if (exit_state_attr().type == ~0U)
		SKIP(return, "no system call tracepoints");
	ASSERT_EQ(0, tracer_run_array(self->fd, prepare));
	child = exit_with_requests(self->fd, &ring);
	ASSERT_LT(0, child);
	EXPECT_EQ(child, wait_for_callback(self->fd, 1));
	runner_start(&holder);
	EXPECT_EQ(holder.tid, wait_for_callback(self->fd, 2));
	runner_start(&canceller);
	EXPECT_TRUE(runner_sleeps(&canceller, 'D'));

	EXPECT_EQ(0, tracer_op(self->fd, (struct unwind_test_op)OP_RELEASE(1)));
	EXPECT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(7, WEXITSTATUS(status));
	EXPECT_FALSE(canceller.returned);
	EXPECT_EQ(0, tracer_op(self->fd, (struct unwind_test_op)OP_AT_RESULT(
						UNWIND_TEST_POINT_MASK)));

	EXPECT_EQ(0, tracer_op(self->fd, (struct unwind_test_op)OP_RELEASE(2)));
	pthread_join(canceller.thread, NULL);
	pthread_join(holder.thread, NULL);
	while (tracer_event(self->fd, &event))
		EXPECT_NE(0, event.slot);
	ring_close(&ring);
}

/*
 * Register the slots from @slot on until one gets this bit, and return it: other tracers
 * may free lower bits at the same time. Returns -1 if the bit is not free, or on error.
 */
static int next_owner(int fd, int slot, int bit)
{
	for (; slot < UNWIND_TEST_SLOTS; slot++) {
		int got;

		if (tracer_op(fd, (struct unwind_test_op)OP_INIT(slot)))
			break;
		got = tracer_op(fd, (struct unwind_test_op)OP_STATE(slot));
		if (got == bit)
			return slot;
		/* The lowest free bit is taken: another tracer has this one. */
		if (got > bit)
			break;
	}
	return -1;
}

/*
 * The next owner of a bit gets no request of the last one, even if the
 * requesting task sleeps in that entry while the bit changes hands.
 */
TEST_F(cancel, bit_changes_hands_in_mid_entry)
{
	/* The second operation is on a page that the test supplies later. */
	char *map = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct unwind_test_op *ops = (void *)(map + PAGE - sizeof(*ops));
	struct unwind_test_op second[PAGE / sizeof(*ops) + 1] = { OP_STATE(0) };
	struct unwind_test_op bit = OP_STATE(0);
	struct runner asker = { .fd = self->fd, .ops = ops, .nr = 2 };
	struct unwind_test_event event;
	int uffd, owner;

	ASSERT_NE(MAP_FAILED, (void *)map);
	uffd = hang_page(map + PAGE);
	if (uffd < 0)
		SKIP(return, "no userfaultfd");
	*ops = (struct unwind_test_op)OP_REQUEST(0, UNWIND_TEST_TASK);
	bit.ret = tracer_op(self->fd, bit);
	runner_start(&asker);
	wait_for_fault(uffd);

	EXPECT_EQ(0, tracer_op(self->fd, (struct unwind_test_op)OP_CANCEL(0)));
	owner = next_owner(self->fd, 2, bit.ret);
	ASSERT_LT(0, owner);
	second[0].slot = owner;
	EXPECT_EQ(0, resolve(uffd, map + PAGE, second));
	pthread_join(asker.thread, NULL);

	EXPECT_EQ(0, ops[0].ret);
	EXPECT_EQ(bit.ret, ops[1].ret);
	EXPECT_EQ(MASK_PENDING | MASK_USED, ops[1].arg);
	EXPECT_FALSE(tracer_event(self->fd, &event));
}

static atomic_bool storm_stop;
static atomic_uint storm_rounds;

/* Let the requesting thread run some rounds before the bit changes hands. */
static void storm_wait(void)
{
	unsigned int until = storm_rounds + 5;

	while (!storm_stop && (int)(until - storm_rounds) > 0)
		sched_yield();
}

/* Two tracers take turns on one bit. */
static void *storm_thread(void *data)
{
	int fd = *(int *)data;

	while (!storm_stop) {
		struct unwind_test_op to_1[] = { OP_CANCEL(0), OP_INIT(1) };
		struct unwind_test_op to_0[] = { OP_CANCEL(1), OP_INIT(0) };

		tracer_run_array(fd, to_1);
		storm_wait();
		tracer_run_array(fd, to_0);
		storm_wait();
	}
	return NULL;
}

#define STORM	2000
/* Callbacks required of a storm: on a busy host one cancel may last thousands of rounds. */
#define STORM_CALLED	500

/*
 * Tracer 1 never requests, so it must never be called, although it owns
 * tracer 0's bit half of the time. Tracer 0 is called for its granted requests.
 */
TEST_F(cancel, bit_changes_hands_in_storm)
{
	static const unsigned int wheres[] = {
		UNWIND_TEST_TASK, UNWIND_TEST_HARDIRQ, UNWIND_TEST_NMI,
	};
	unsigned int granted = 0, refused = 0, called = 0;
	struct unwind_test_event event;
	pthread_t thread;

	ASSERT_EQ(0, tracer_op(self->fd, (struct unwind_test_op)OP_CANCEL(1)));
	storm_stop = false;
	ASSERT_EQ(0, pthread_create(&thread, NULL, storm_thread, &self->fd));
	for (unsigned int i = 0; i < STORM || called < STORM_CALLED || !refused; i++) {
		struct unwind_test_op ops[] = {
			OP_REQUEST(0, wheres[i % 3]),
			OP_REQUEST(0, wheres[i % 3]),
		};
		unsigned int callbacks = 0;

		ASSERT_EQ(0, tracer_run_array(self->fd, ops));
		granted += !ops[0].ret + !ops[1].ret;
		refused += (ops[0].ret == -EINVAL) + (ops[1].ret == -EINVAL);
		while (tracer_event(self->fd, &event)) {
			EXPECT_EQ(0, event.slot);
			EXPECT_TRUE(event.cookie == ops[0].cookie || event.cookie == ops[1].cookie);
			callbacks++;
		}
		/* Twice at most: it may be cancelled and registered between the requests. */
		EXPECT_LE(callbacks, !ops[0].ret + !ops[1].ret);
		called += callbacks;
		storm_rounds++;
	}
	storm_stop = true;
	pthread_join(thread, NULL);
	EXPECT_FALSE(tracer_event(self->fd, &event));
	TH_LOG("%u granted, %u refused, %u called", granted, refused, called);
}

/*
 * A thread that requests for slot 0 of file @closed in an ioctl of another file, and waits for
 * memory there: its own ioctl would keep @closed open.
 */
struct waiter {
	struct runner	runner;
	int		closed;
	int		armed;
};

static void *waiter_thread(void *data)
{
	struct waiter *waiter = data;
	struct unwind_test_op arm = OP_AT(0, UNWIND_TEST_POINT_COOKIE, UNWIND_TEST_NMI);

	/* The request in the next entry hits this point. */
	waiter->armed = tracer_op(waiter->closed, arm);
	return runner_thread(&waiter->runner);
}

/* Closing the file cancels the tracer and drops its request that is pending in another task. */
TEST_F(cancel, close_with_request_pending)
{
	/* The third operation is on a page that the test supplies later. */
	char *map = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct unwind_test_op *ops = (void *)(map + PAGE - 2 * sizeof(*ops));
	struct unwind_test_op third[PAGE / sizeof(*ops) + 1] = { OP_STATE(0) };
	struct waiter waiter = { .runner = { .fd = self->fd, .ops = ops, .nr = 3 } };
	struct unwind_test_event event;
	int bit, own_bit, uffd;
	const char *why;

	ASSERT_NE(MAP_FAILED, (void *)map);
	uffd = hang_page(map + PAGE);
	if (uffd < 0)
		SKIP(return, "no userfaultfd");
	waiter.closed = tracer_open(&why);
	ASSERT_LE(0, waiter.closed);
	ASSERT_EQ(0, tracer_op(waiter.closed, (struct unwind_test_op)OP_INIT(0)));
	bit = tracer_op(waiter.closed, (struct unwind_test_op)OP_STATE(0));
	own_bit = tracer_op(self->fd, (struct unwind_test_op)OP_STATE(0));
	ops[0] = (struct unwind_test_op)OP_REQUEST(0, UNWIND_TEST_TASK);
	ops[1] = (struct unwind_test_op)OP_STATE(0);
	ASSERT_EQ(0, pthread_create(&waiter.runner.thread, NULL, waiter_thread, &waiter));
	wait_for_fault(uffd);
	EXPECT_EQ(0, waiter.armed);
	EXPECT_EQ(0, tracer_op(self->fd, (struct unwind_test_op)OP_AT_RESULT(
						UNWIND_TEST_POINT_COOKIE)));
	EXPECT_EQ(MASK_PENDING | MASK_USED | 1ULL << bit | 1ULL << own_bit, ops[1].arg);

	/* The next owner of the bit must not be called for the request of the last one. */
	EXPECT_EQ(0, close(waiter.closed));
	EXPECT_LT(1, next_owner(self->fd, 2, bit));
	EXPECT_FALSE((bool)waiter.runner.returned);
	EXPECT_EQ(0, resolve(uffd, map + PAGE, third));
	pthread_join(waiter.runner.thread, NULL);
	EXPECT_EQ(0, waiter.runner.ret);
	EXPECT_EQ(0, ops[0].ret);
	EXPECT_EQ(MASK_PENDING | MASK_USED | 1ULL << own_bit, ops[2].arg);

	/* The other tracer that asked in this entry is called as usual. */
	ASSERT_TRUE(tracer_event(self->fd, &event));
	EXPECT_EQ(0, event.slot);
	EXPECT_EQ(ops[0].cookie, event.cookie);
	EXPECT_EQ(WORKLOAD_NR(DEPTH), event.nr);
	EXPECT_FALSE(tracer_event(self->fd, &event));
}

TEST_HARNESS_MAIN
