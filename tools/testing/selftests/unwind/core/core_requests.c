// SPDX-License-Identifier: GPL-2.0
/*
 * Requests and callbacks of the deferred unwinding core, through the test tracer:
 * one cookie per kernel entry, one callback per tracer and entry, the right trace,
 * from task, hardirq and NMI context, with requests at the last moment and
 * with failures injected.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "perf_ring.h"
#include "tracer.h"
#include "uring.h"
#include "workload.h"
#include "harness.h"

/* Number of known callers; the whole trace fits into an event. */
#define DEPTH	20

/* CPUs of the tests that send NMIs from one CPU to the other. */
#define HERE	0
#define THERE	1

FIXTURE(core) {
	int fd;
};

TRACER_FIXTURE(core, 3)

FIXTURE_VARIANT(core) {
	unsigned int where;
};

FIXTURE_VARIANT_ADD(core, task) { .where = UNWIND_TEST_TASK };
FIXTURE_VARIANT_ADD(core, irqs_off) { .where = UNWIND_TEST_IRQS_OFF };
FIXTURE_VARIANT_ADD(core, hardirq) { .where = UNWIND_TEST_HARDIRQ };
FIXTURE_VARIANT_ADD(core, nmi) { .where = UNWIND_TEST_NMI };

/* The next event is @slot's callback with @cookie and the complete trace. */
#define EXPECT_CALLBACK(fd, _slot, _cookie, depth) do {			\
	struct unwind_test_event _ev = {};				\
									\
	ASSERT_TRUE(tracer_event(fd, &_ev));				\
	EXPECT_EQ(_slot, _ev.slot);					\
	EXPECT_EQ(_cookie, _ev.cookie);					\
	EXPECT_EQ(gettid(), (pid_t)_ev.tid);				\
	EXPECT_EQ(0, _ev.lost);						\
	EXPECT_EQ(-1, workload_check(_ev.entries, _ev.nr, depth));	\
} while (0)

#define EXPECT_NO_CALLBACK(fd) do {					\
	struct unwind_test_event _ev;					\
									\
	EXPECT_FALSE(tracer_event(fd, &_ev));				\
} while (0)

static unsigned int count_slot(int fd, unsigned int slot)
{
	struct unwind_test_event event;
	unsigned int nr = 0;

	while (tracer_event(fd, &event))
		nr += event.slot == slot;
	return nr;
}

TEST_F(core, exactly_once)
{
	struct unwind_test_op ops[] = {
		OP_REQUEST(0, variant->where),
		OP_REQUEST(0, variant->where),
		OP_REQUEST(1, variant->where),
	};

	pin_to(HERE);
	ASSERT_EQ(0, tracer_run_deep(self->fd, ops, ARRAY_SIZE(ops), DEPTH));
	EXPECT_EQ(0, ops[0].ret);
	EXPECT_EQ(1, ops[1].ret);
	EXPECT_EQ(0, ops[2].ret);

	EXPECT_EQ(HERE + 1, (__u32)ops[0].cookie);
	EXPECT_EQ(1, ops[0].cookie >> 32 & 1);
	EXPECT_EQ(ops[0].cookie, ops[1].cookie);
	EXPECT_EQ(ops[0].cookie, ops[2].cookie);

	EXPECT_CALLBACK(self->fd, 0, ops[0].cookie, DEPTH);
	EXPECT_CALLBACK(self->fd, 1, ops[0].cookie, DEPTH);
	EXPECT_NO_CALLBACK(self->fd);
}

TEST_F(core, next_entry_has_next_cookie)
{
	__u64 last = 0;

	pin_to(HERE);
	for (unsigned int i = 0; i < 50; i++) {
		struct unwind_test_op op = OP_REQUEST(0, variant->where);
		unsigned int depth = i % DEPTH;

		ASSERT_EQ(0, tracer_run_deep(self->fd, &op, 1, depth));
		ASSERT_EQ(0, op.ret);
		/* The count is in the upper half and grows by two. */
		if (last) {
			EXPECT_EQ(last + (2ULL << 32), op.cookie);
		}
		last = op.cookie;
		EXPECT_CALLBACK(self->fd, 0, op.cookie, depth);
	}
	EXPECT_NO_CALLBACK(self->fd);
}

/* Signals and io_uring run task work before the entry ends. */
TEST_F(core, request_after_callback)
{
	struct unwind_test_op ops[] = {
		OP_REQUEST(0, variant->where),
		OP_TASK_WORK(),
		OP_REQUEST(0, variant->where),
		OP_TASK_WORK(),
		OP_REQUEST(1, variant->where),
		OP_REQUEST(0, variant->where),
	};

	ASSERT_EQ(0, tracer_run_deep(self->fd, ops, ARRAY_SIZE(ops), DEPTH));
	EXPECT_EQ(0, ops[0].ret);
	EXPECT_EQ(1, ops[2].ret);
	EXPECT_EQ(0, ops[4].ret);
	EXPECT_EQ(1, ops[5].ret);
	EXPECT_EQ(ops[0].cookie, ops[2].cookie);
	EXPECT_EQ(ops[0].cookie, ops[4].cookie);

	EXPECT_CALLBACK(self->fd, 0, ops[0].cookie, DEPTH);
	EXPECT_CALLBACK(self->fd, 1, ops[0].cookie, DEPTH);
	EXPECT_NO_CALLBACK(self->fd);
}

/* One walk serves all requests of an entry, at any time. */
TEST_F(core, one_walk)
{
	struct unwind_test_op ops[] = {
		OP_REQUEST(0, variant->where),
		OP_TASK_WORK(),
		OP_REQUEST(1, variant->where),
		OP_FAULTABLE(),
		OP_TASK_WORK(),
		OP_REQUEST(2, variant->where),
	};
	/* Nothing is readable there: the walk fails after the first entry. */
	char *hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *stack = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long walks = unwind_stat("walks"), callbacks = unwind_stat("callbacks");

	ASSERT_NE(MAP_FAILED, (void *)hole);
	ASSERT_NE(MAP_FAILED, (void *)stack);
	ASSERT_EQ(0, tracer_run_fp(self->fd, ops, ARRAY_SIZE(ops),
				   stack < hole ? stack + 4096 : NULL, (unsigned long)hole));
	EXPECT_EQ(walks + 1, unwind_stat("walks"));
	EXPECT_EQ(callbacks + 3, unwind_stat("callbacks"));
	EXPECT_EQ(0, ops[3].ret);
	EXPECT_EQ(1, ops[3].arg);
}

/* A failed request undoes its own changes and nothing else. */
TEST_F(core, failed_task_work)
{
	struct unwind_test_op ops[] = {
		OP_FAULTABLE(),
		OP_REQUEST(0, variant->where),
		OP_TASK_WORK(),
		OP_STATE(0),
		OP_FAIL(UNWIND_TEST_FAIL_TASK_WORK, 1),
		OP_REQUEST(1, variant->where),
		OP_STATE(0),
		OP_REQUEST(0, variant->where),
		OP_REQUEST(1, variant->where),
	};

	ASSERT_EQ(0, tracer_run_deep(self->fd, ops, ARRAY_SIZE(ops), DEPTH));
	EXPECT_EQ(0, ops[1].ret);
	EXPECT_EQ(-ESRCH, ops[5].ret);
	EXPECT_EQ(0, ops[5].cookie);
	EXPECT_EQ(ops[3].arg, ops[6].arg);
	EXPECT_EQ(MASK_USED | 1ULL << ops[6].ret, ops[6].arg);
	EXPECT_EQ(ops[3].cookie, ops[6].cookie);
	EXPECT_EQ(1, ops[7].ret);
	EXPECT_EQ(0, ops[8].ret);

	EXPECT_CALLBACK(self->fd, 0, ops[1].cookie, DEPTH);
	EXPECT_CALLBACK(self->fd, 1, ops[1].cookie, DEPTH);
	EXPECT_NO_CALLBACK(self->fd);
}

/* Empty traces are delivered once and remembered. */
TEST_F(core, failed_cache)
{
	struct unwind_test_op ops[] = {
		OP_FAIL(UNWIND_TEST_FAIL_CACHE, 1),
		OP_REQUEST(0, variant->where),
		OP_TASK_WORK(),
		OP_REQUEST(1, variant->where),
		OP_TASK_WORK(),
		OP_REQUEST(0, variant->where),
		OP_FAULTABLE(),
	};
	long nomem = unwind_stat("nomem");
	struct unwind_test_event event;
	struct unwind_test_op op = OP_REQUEST(0, variant->where);

	ASSERT_EQ(0, tracer_run_deep(self->fd, ops, ARRAY_SIZE(ops), DEPTH));
	EXPECT_EQ(0, ops[1].ret);
	EXPECT_EQ(0, ops[3].ret);
	EXPECT_EQ(1, ops[5].ret);
	EXPECT_EQ(-ENOMEM, ops[6].ret);
	for (unsigned int slot = 0; slot < 2; slot++) {
		ASSERT_TRUE(tracer_event(self->fd, &event));
		EXPECT_EQ(slot, event.slot);
		EXPECT_EQ(ops[1].cookie, event.cookie);
		EXPECT_EQ(0, event.nr);
	}
	EXPECT_NO_CALLBACK(self->fd);
	/* The reason is counted. */
	EXPECT_EQ(nomem + 1, unwind_stat("nomem"));

	/* The next entry works again. */
	ASSERT_EQ(0, tracer_run_deep(self->fd, &op, 1, DEPTH));
	EXPECT_CALLBACK(self->fd, 0, op.cookie, DEPTH);
}

/* A tracer that was cancelled gets no callback, and its requests are refused. */
TEST_F(core, cancelled_is_refused)
{
	struct unwind_test_op ops[] = {
		OP_CANCEL(0),
		OP_STATE(0),
		OP_REQUEST(0, variant->where),
		OP_STATE(0),
		/* Never registered at all. */
		OP_REQUEST(40, variant->where),
		OP_STATE(0),
	};

	ASSERT_EQ(0, tracer_run_array(self->fd, ops));
	EXPECT_EQ(-EINVAL, ops[2].ret);
	EXPECT_EQ(0, ops[2].cookie);
	EXPECT_EQ(-EINVAL, ops[4].ret);
	for (int i = 1; i < 6; i += 2) {
		EXPECT_EQ(0, ops[i].arg);
		EXPECT_EQ(0, ops[i].cookie);
	}
	EXPECT_NO_CALLBACK(self->fd);
}

/* A tracer that is cancelled in the same entry is not called, and its bit is clean. */
TEST_F(core, cancel_drops_request)
{
	struct unwind_test_op ops[] = {
		OP_REQUEST(0, variant->where),
		OP_STATE(0),
		OP_CANCEL(0),
		OP_INIT(5),
		OP_STATE(5),
		OP_TASK_WORK(),
		OP_REQUEST(5, variant->where),
	};

	ASSERT_EQ(0, tracer_run_deep(self->fd, ops, ARRAY_SIZE(ops), DEPTH));
	/* The same bit, unless another tracer frees a lower one. */
	EXPECT_EQ(0, ops[4].arg & 1ULL << ops[4].ret);
	EXPECT_EQ(0, ops[6].ret);
	EXPECT_CALLBACK(self->fd, 5, ops[0].cookie, DEPTH);
	EXPECT_NO_CALLBACK(self->fd);
}

/* A cancel leaves no bit set, but the entry must still be reset at its end. */
TEST_F(core, entry_ends_after_cancel)
{
	struct unwind_test_op next = OP_REQUEST(2, variant->where);
	struct unwind_test_op ops[][3] = {
		{ OP_REQUEST(0, variant->where), OP_TASK_WORK(), OP_CANCEL(0) },
		{ OP_REQUEST(1, variant->where), OP_CANCEL(1) },
	};

	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, tracer_run_deep(self->fd, ops[i], 3 - i, DEPTH));
		EXPECT_EQ(0, ops[i][0].ret);
		if (!i)
			EXPECT_CALLBACK(self->fd, 0, ops[i][0].cookie, DEPTH);
		EXPECT_NO_CALLBACK(self->fd);

		ASSERT_EQ(0, tracer_run_deep(self->fd, &next, 1, DEPTH + 2 + i));
		EXPECT_EQ(0, next.ret);
		EXPECT_NE(ops[i][0].cookie, next.cookie);
		EXPECT_CALLBACK(self->fd, 2, next.cookie, DEPTH + 2 + i);
	}
}

/* The same after a request that failed. */
TEST_F(core, entry_ends_after_failed_task_work)
{
	struct unwind_test_op failed[] = {
		OP_FAIL(UNWIND_TEST_FAIL_TASK_WORK, 1),
		OP_REQUEST(0, variant->where),
	};
	struct unwind_test_op next = OP_REQUEST(0, variant->where);

	ASSERT_EQ(0, tracer_run_deep(self->fd, failed, ARRAY_SIZE(failed), DEPTH));
	EXPECT_EQ(-ESRCH, failed[1].ret);
	ASSERT_EQ(0, tracer_run_deep(self->fd, &next, 1, DEPTH + 2));
	EXPECT_EQ(0, next.ret);
	EXPECT_CALLBACK(self->fd, 0, next.cookie, DEPTH + 2);
}

/* Every bit, including 31, 32 and 63, with and without a race. */
TEST_F(core, every_bit)
{
	struct unwind_test_op op = OP_INIT(0);
	int last = 2, high = 0;

	for (int slot = 3; slot < UNWIND_TEST_SLOTS; slot++) {
		op.slot = slot;
		op.ret = tracer_op(self->fd, op);
		if (op.ret)
			break;
		last = slot;
	}
	EXPECT_EQ(-EBUSY, op.ret);
	/* Other tracers of the system may hold some bits. */
	ASSERT_GT(last, 40);

	for (int slot = 0; slot <= last; slot++) {
		struct unwind_test_op ops[] = {
			OP_AT(slot, UNWIND_TEST_POINT_MASK, variant->where),
			OP_REQUEST(slot, UNWIND_TEST_TASK),
			OP_AT_RESULT(UNWIND_TEST_POINT_MASK),
			OP_REQUEST(slot, variant->where),
			OP_STATE(slot),
		};

		/* Interrupts are off at the point: it would wait forever for a hardirq. */
		if (variant->where == UNWIND_TEST_HARDIRQ)
			ops[0].where = UNWIND_TEST_IRQS_OFF;

		ASSERT_EQ(0, tracer_run_deep(self->fd, ops, ARRAY_SIZE(ops), 3));
		EXPECT_EQ(0, ops[2].ret);
		EXPECT_EQ(1, ops[1].ret);
		EXPECT_EQ(1, ops[3].ret);
		EXPECT_EQ(ops[1].cookie, ops[2].cookie);
		EXPECT_EQ(MASK_PENDING | MASK_USED | 1ULL << ops[4].ret, ops[4].arg);
		EXPECT_CALLBACK(self->fd, (unsigned int)slot, ops[1].cookie, 3);
		if (ops[4].ret > high)
			high = ops[4].ret;
	}
	EXPECT_EQ(63, high);
	EXPECT_NO_CALLBACK(self->fd);
}

/* Cancelling twice does nothing; the log scan looks for splats. */
TEST_F(core, double_cancel)
{
	struct unwind_test_op ops[] = {
		OP_CANCEL(50),
		OP_CANCEL(0),
		OP_CANCEL(0),
		OP_INIT(0),
		OP_INIT(0),
		OP_REQUEST(0, variant->where),
		OP_REQUEST(1, variant->where),
	};

	ASSERT_EQ(0, tracer_run_deep(self->fd, ops, ARRAY_SIZE(ops), DEPTH));
	EXPECT_EQ(0, ops[3].ret);
	EXPECT_EQ(-EINVAL, ops[4].ret);
	EXPECT_EQ(0, ops[5].ret);
	EXPECT_EQ(0, ops[6].ret);
	EXPECT_EQ(2, count_slot(self->fd, 0) + 1);
}

/* A callback that requests for itself, a later and an earlier tracer. */
TEST_F(core, callback_requests)
{
	for (unsigned int other = 0; other < 3; other++) {
		struct unwind_test_op ops[] = {
			OP_MODE(1, UNWIND_TEST_MODE_REQUEST, other),
			OP_REQUEST(1, variant->where),
		};
		struct unwind_test_event event;

		ASSERT_EQ(0, tracer_run_deep(self->fd, ops, ARRAY_SIZE(ops), DEPTH));
		EXPECT_EQ(0, ops[1].ret);
		ASSERT_TRUE(tracer_event(self->fd, &event));
		EXPECT_EQ(1, event.slot);
		EXPECT_EQ(other == 1, event.ret);
		if (other != 1) {
			EXPECT_CALLBACK(self->fd, other, ops[1].cookie, DEPTH);
		}
		EXPECT_NO_CALLBACK(self->fd);
	}
}

/* A request right before the registers change, with nothing pending until then. */
FIXTURE(last_moment) {
	int fd;
};

TRACER_FIXTURE(last_moment, 1)

FIXTURE_VARIANT(last_moment) {
	unsigned int where;
};

FIXTURE_VARIANT_ADD(last_moment, task) { UNWIND_TEST_TASK };
/* An NMI cannot see the registers, so nothing else notices that they changed. */
FIXTURE_VARIANT_ADD(last_moment, nmi) { UNWIND_TEST_NMI };

/* Expect one trace: @head other entries, then the workload. */
static void expect_last_moment(struct __test_metadata *_metadata, int fd, unsigned int head)
{
	struct unwind_test_op result = OP_AT_RESULT(UNWIND_TEST_POINT_CHANGE);
	struct unwind_test_event event;

	ASSERT_EQ(0, tracer_run(fd, &result, 1));
	EXPECT_EQ(0, result.ret);
	EXPECT_NE(0, result.cookie);
	ASSERT_TRUE(tracer_event(fd, &event));
	EXPECT_EQ(result.cookie, event.cookie);
	ASSERT_LE(head, event.nr);
	EXPECT_EQ(-1, workload_check(event.entries + head, event.nr - head, DEPTH));
	EXPECT_FALSE(tracer_event(fd, &event));
}

static void do_nothing(int sig)
{
	(void)sig;
}

TEST_F(last_moment, signal)
{
	struct unwind_test_op at = OP_AT(0, UNWIND_TEST_POINT_CHANGE, variant->where);
	struct sigaction action = { .sa_handler = do_nothing };

	ASSERT_EQ(0, sigaction(SIGUSR1, &action, NULL));
	ASSERT_EQ(0, tracer_op(self->fd, at));
	workload_syscall(DEPTH, SYS_tkill, gettid(), SIGUSR1);
	expect_last_moment(_metadata, self->fd, 0);
}

/* A signal that turns out to be ignored: the system call restarts at its instruction. */
TEST_F(last_moment, restart)
{
	struct unwind_test_op at = OP_AT(0, UNWIND_TEST_POINT_CHANGE, variant->where);
	struct timespec timeout = { .tv_nsec = 1000 * 1000 };
	__u64 blocked = 1ULL << (SIGUSR1 - 1), none = 0;

	ASSERT_EQ(0, syscall(SYS_rt_sigprocmask, SIG_BLOCK, &blocked, NULL, 8));
	ASSERT_NE(SIG_ERR, signal(SIGUSR1, SIG_IGN));
	ASSERT_EQ(0, raise(SIGUSR1));
	ASSERT_EQ(0, tracer_op(self->fd, at));
	EXPECT_EQ(0, workload_syscall(DEPTH, SYS_ppoll, 0, 0, (long)&timeout, (long)&none, 8));
	expect_last_moment(_metadata, self->fd, 0);
}

static int handler_fd;
static struct unwind_test_op handler_op;

static void run_op(int sig)
{
	(void)sig;
	tracer_run(handler_fd, &handler_op, 1);
}

/* The handler's restorer is in the C library and has no caller. */
TEST_F(last_moment, sigreturn)
{
	struct sigaction action = { .sa_handler = run_op };

	handler_fd = self->fd;
	handler_op = (struct unwind_test_op)
		OP_AT(0, UNWIND_TEST_POINT_CHANGE, variant->where);
	ASSERT_EQ(0, sigaction(SIGUSR1, &action, NULL));
	workload_syscall(DEPTH, SYS_tkill, gettid(), SIGUSR1);
	expect_last_moment(_metadata, self->fd, 1);
}

/* Two tracers, one kind of request. */
FIXTURE(pair) {
	int fd;
};

TRACER_FIXTURE(pair, 2)

/*
 * A request at the last moment, after the last check of the task's flags. The
 * record comes from the next entry, which is forced before user code makes progress: it
 * has the requested stack, and comes before any record that the next system call
 * requests. One cookie never names two stacks.
 */
TEST_F(pair, at_the_last_moment)
{
	struct unwind_test_op ops[] = {
		OP_AT(1, UNWIND_TEST_POINT_RESET, UNWIND_TEST_TASK),
		OP_REQUEST(0, UNWIND_TEST_TASK),
	};
	struct unwind_test_op again = OP_REQUEST(0, UNWIND_TEST_TASK);
	struct unwind_test_op late = OP_AT_RESULT(UNWIND_TEST_POINT_RESET);

	ASSERT_EQ(0, tracer_run_deep(self->fd, ops, ARRAY_SIZE(ops), DEPTH));
	/* Any system call from another stack; this one also requests for the first tracer. */
	ASSERT_EQ(0, tracer_run_deep(self->fd, &again, 1, 2));
	ASSERT_EQ(0, tracer_run(self->fd, &late, 1));
	EXPECT_EQ(0, late.ret);
	EXPECT_EQ(ops[1].cookie, late.cookie);
	EXPECT_EQ(0, again.ret);
	EXPECT_NE(ops[1].cookie, again.cookie);

	EXPECT_CALLBACK(self->fd, 0, ops[1].cookie, DEPTH);
	EXPECT_CALLBACK(self->fd, 1, ops[1].cookie, DEPTH);
	EXPECT_CALLBACK(self->fd, 0, again.cookie, 2);
	EXPECT_NO_CALLBACK(self->fd);
}

/*
 * The entry that a late callback has forced is an entry of its own: after the callback, a
 * request gets another cookie, and its own callback before that entry ends.
 */
TEST_F(pair, request_after_a_late_callback)
{
	struct unwind_test_op ops[] = {
		OP_MODE(1, UNWIND_TEST_MODE_FOLLOW, 0),
		OP_AT(1, UNWIND_TEST_POINT_RESET, UNWIND_TEST_TASK),
		OP_REQUEST(0, UNWIND_TEST_TASK),
	};
	struct unwind_test_event event;

	ASSERT_EQ(0, tracer_run_deep(self->fd, ops, ARRAY_SIZE(ops), DEPTH));
	EXPECT_CALLBACK(self->fd, 0, ops[2].cookie, DEPTH);
	EXPECT_CALLBACK(self->fd, 1, ops[2].cookie, DEPTH);
	/* The request. */
	ASSERT_TRUE(tracer_event(self->fd, &event));
	EXPECT_TRUE(event.end);
	EXPECT_EQ(0, event.ret);
	EXPECT_NE(0, event.cookie);
	EXPECT_NE(ops[2].cookie, event.cookie);
	EXPECT_CALLBACK(self->fd, 0, event.cookie, DEPTH);
	EXPECT_NO_CALLBACK(self->fd);
}

/* A kernel thread has no user mode to return to. */
TEST_F(pair, kthread_is_refused)
{
	struct unwind_test_op op = OP_REQUEST(0, UNWIND_TEST_KTHREAD);

	ASSERT_EQ(0, tracer_run(self->fd, &op, 1));
	EXPECT_EQ(-EINVAL, op.ret);
	EXPECT_EQ(0, op.cookie);
	EXPECT_NO_CALLBACK(self->fd);
}

/* An io_uring worker never returns to user mode, so it may not request. */
TEST_F(pair, io_worker_is_refused)
{
	struct unwind_test_op op = OP_REQUEST(0, UNWIND_TEST_TASK);
	struct unwind_test_ops arg = { .nr = 1, .ops = (uintptr_t)&op };
	struct io_uring_sqe sqe = {
		.opcode	= IORING_OP_URING_CMD,
		.fd	= self->fd,
		.cmd_op	= UNWIND_TEST_RUN,
	};
	int ret;

	memcpy(sqe.cmd, &arg, sizeof(arg));
	ret = uring_run_async(&sqe);
	if (ret == -ENOSYS)
		SKIP(return, "no io_uring");
	ASSERT_EQ(0, ret);
	EXPECT_EQ(-EINVAL, op.ret);
	EXPECT_EQ(0, op.cookie);
	EXPECT_NO_CALLBACK(self->fd);
}

/* A thread on another CPU that NMIs are sent to. */
struct target {
	atomic_bool	stop;
	atomic_ulong	rounds;
	bool		syscalls;
	pid_t		tid;
};

static void *target_thread(void *data)
{
	struct target *target = data;

	pin_to(THERE);
	target->tid = gettid();
	while (!target->stop) {
		if (target->syscalls)
			workload_syscall(DEPTH, SYS_getppid);
		target->rounds++;
	}
	return NULL;
}

static int start_target(struct target *target, pthread_t *thread, bool syscalls)
{
	target->stop = false;
	target->rounds = 0;
	target->syscalls = syscalls;
	if (sysconf(_SC_NPROCESSORS_ONLN) <= THERE)
		return -1;
	pin_to(HERE);
	if (pthread_create(thread, NULL, target_thread, target))
		return -1;
	while (!target->rounds)
		sched_yield();
	return 0;
}

#define STORM	1000

/*
 * NMIs into a thread that spins in user mode or makes system calls: each grant gets its
 * callback with the same cookie, and no other callback comes.
 */
static void storm(struct __test_metadata *_metadata, int fd, bool syscalls)
{
	static __u64 granted[STORM];
	unsigned int grants = 0, repeats = 0, callbacks = 0;
	struct unwind_test_event event;
	struct target target;
	pthread_t thread;

	if (start_target(&target, &thread, syscalls))
		SKIP(return, "needs two CPUs");

	/* On a busy host many NMIs hit the same entry. */
	for (int i = 0; i < STORM || grants <= STORM / 10; i++) {
		struct unwind_test_op op = OP_REQUEST_CPU(0, THERE);

		ASSERT_EQ(0, tracer_run(fd, &op, 1));
		if (op.ret < 0) {
			EXPECT_EQ(0, op.cookie);
			continue;
		}
		EXPECT_NE(0, op.cookie);
		if (op.ret)
			repeats++;
		else
			granted[grants++] = op.cookie;
	}
	target.stop = true;
	pthread_join(thread, NULL);

	while (tracer_event(fd, &event)) {
		EXPECT_EQ(0, event.lost);
		EXPECT_EQ(target.tid, (pid_t)event.tid);
		ASSERT_LT(callbacks, grants);
		EXPECT_EQ(granted[callbacks++], event.cookie);
		EXPECT_NE(0, event.nr);
	}
	EXPECT_EQ(grants, callbacks);
	TH_LOG("%u grants, %u repeats", grants, repeats);
}

TEST_F(pair, storm_in_user_mode)
{
	storm(_metadata, self->fd, false);
}

TEST_F(pair, storm_in_system_calls)
{
	storm(_metadata, self->fd, true);
}

/* A direct trace shows its own entry, not the previous one. */
TEST(faultable)
{
	const char *why;
	int fd = tracer_open(&why);

	if (fd < 0)
		SKIP(return, "%s", why);

	for (unsigned int depth = 0; depth < 600; depth += 50) {
		struct unwind_test_op ops[] = { OP_FAULTABLE(), OP_FAULTABLE() };
		unsigned int max = 127;

		ASSERT_EQ(0, tracer_run_deep(fd, ops, ARRAY_SIZE(ops), depth));
		for (int i = 0; i < 2; i++) {
			EXPECT_EQ(0, ops[i].ret);
			EXPECT_EQ(WORKLOAD_NR(depth) < max ? WORKLOAD_NR(depth) : max, ops[i].arg);
		}
	}
	close(fd);
}

/* A task keeps at most a page for its next trace, whichever way the long one was taken. */
TEST_F(pair, long_trace_is_given_back)
{
	struct unwind_test_op ops[][3] = {
		{ OP_FAULTABLE(), OP_ROOM(), OP_ROOM() },
		{ OP_REQUEST(0, UNWIND_TEST_TASK), OP_TASK_WORK(), OP_ROOM() },
		{ OP_FAULTABLE(), OP_FAULTABLE(), OP_ROOM() },
	};
	int old = set_sysctl("kernel/perf_event_max_stack", 2000);
	struct unwind_test_op room = OP_ROOM();
	int page;

	if (old < 0)
		SKIP(return, "cannot set kernel.perf_event_max_stack: %s", strerror(-old));

	ASSERT_EQ(0, tracer_run_deep(self->fd, ops[0], 3, DEPTH));
	page = ops[0][2].ret;
	EXPECT_LT(0, page);
	EXPECT_GE(4096 / sizeof(long), page);
	ASSERT_EQ(0, tracer_run(self->fd, &room, 1));
	EXPECT_EQ(page, room.ret);

	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, tracer_run_deep(self->fd, ops[i], 3, 1700));
		/* Task work that runs before the entry ends gives the long trace back at once. */
		if (i != 1) {
			EXPECT_EQ(WORKLOAD_NR(1700), ops[i][0].arg);
			EXPECT_LE(WORKLOAD_NR(1700), ops[i][2].ret);
		}
		ASSERT_EQ(0, tracer_run(self->fd, &room, 1));
		EXPECT_EQ(page, room.ret);
	}
	set_sysctl("kernel/perf_event_max_stack", old);
}

TEST_HARNESS_MAIN
