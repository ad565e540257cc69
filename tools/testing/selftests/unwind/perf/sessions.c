// SPDX-License-Identifier: GPL-2.0
/*
 * Sessions that begin after a kernel entry was delivered, while the task still
 * waits in it, and sessions of a CPU that the task has left before delivery.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "perf_ring.h"
#include "state_record.h"
#include "tracer.h"
#include "uring.h"
#include "workload.h"
#include "harness.h"

#define DEPTH		10
#define ENTER		"syscalls/sys_enter_io_uring_enter"
#define SWITCH		"sched/sched_switch"
#define LIMIT_MS	60000

/* Wait until @condition holds, for longer than a slow machine takes. */
#define WAIT_FOR(condition) do {						\
	int ms_ = 0;								\
										\
	while (!(condition) && ms_++ < LIMIT_MS)				\
		usleep(1000);							\
	ASSERT_LT(ms_, LIMIT_MS);						\
} while (0)

FIXTURE(waiting) {
	/* One ring for each session, the pipe that the child waits for, and the child. */
	struct ring first, second;
	union record *record;
	int pipe[2];
	pid_t pid;
};

FIXTURE_VARIANT(waiting) {
	bool state, callchain;
	__u32 type;
	/* The number of repeats that the task is refused. */
	unsigned int refused;
};

#define ALL_REPEATS	1000

FIXTURE_VARIANT_ADD(waiting, callchain) {
	.callchain = true, .type = PERF_RECORD_CALLCHAIN_DEFERRED,
};

FIXTURE_VARIANT_ADD(waiting, user_state) {
	.state = true, .type = PERF_RECORD_USER_STATE_DEFERRED,
};

FIXTURE_VARIANT_ADD(waiting, callchain_used_up) {
	.callchain = true, .type = PERF_RECORD_CALLCHAIN_DEFERRED, .refused = ALL_REPEATS,
};

FIXTURE_VARIANT_ADD(waiting, user_state_used_up) {
	.state = true, .type = PERF_RECORD_USER_STATE_DEFERRED, .refused = ALL_REPEATS,
};

/* The callchain is not repeated. The user state would be. */
FIXTURE_VARIANT_ADD(waiting, callchain_of_both_used_up) {
	.state = true, .callchain = true, .type = PERF_RECORD_USER_STATE_DEFERRED, .refused = 1,
};

static int tracer = -1;

static void refuse(unsigned int repeats)
{
	struct unwind_test_op op = OP_FAIL(UNWIND_TEST_FAIL_AGAIN, repeats);

	if (tracer_op(tracer, op))
		_exit(1);
}

/* In the task. */
static void refuse_all(void)
{
	refuse(ALL_REPEATS);
}

static void refuse_one(void)
{
	refuse(1);
}

FIXTURE_SETUP(waiting)
{
	void (*prepare)(void) = NULL;
	const char *why;

	if (tracepoint_id(ENTER) < 0 || tracepoint_id(SWITCH) < 0)
		SKIP(return, "needs root, tracefs, io_uring and CONFIG_FTRACE_SYSCALLS");
	if (variant->refused) {
		prepare = variant->refused == 1 ? refuse_one : refuse_all;
		tracer = tracer_open(&why);
		if (tracer < 0)
			SKIP(return, "%s", why);
	}
	self->record = malloc(sizeof(*self->record));
	ASSERT_EQ(0, pipe(self->pipe));
	self->pid = uring_fork_waiter(self->pipe[0], DEPTH, prepare);
	if (self->pid == -ENOSYS)
		SKIP(return, "no io_uring");
	ASSERT_LT(0, self->pid);
}

FIXTURE_TEARDOWN(waiting)
{
	if (!self->pid)
		return;
	kill(self->pid, SIGKILL);
	waitpid(self->pid, NULL, 0);
	free(self->record);
}

static struct perf_event_attr session_attr(const char *event, bool state)
{
	return state ? state_attr(event) : tracepoint_attr(event);
}

static struct perf_event_attr both_attr(const char *event)
{
	struct perf_event_attr attr = state_attr(event);

	attr.defer_callchain = 1;
	attr.exclude_callchain_user = 0;
	return attr;
}

static struct perf_event_attr waiting_attr(const FIXTURE_VARIANT(waiting) *variant,
					   const char *event)
{
	if (variant->state && variant->callchain)
		return both_attr(event);
	return session_attr(event, variant->state);
}

static bool next_sample(struct ring *ring, union record *record, pid_t tid,
			struct sample *sample)
{
	while (ring_next_type(ring, record, PERF_RECORD_SAMPLE)) {
		parse_sample(record, sample);
		if (sample->tid == (__u32)tid)
			return true;
	}
	return false;
}

/* The cookie of the next sample of @tid that has one, or 0. */
static __u64 next_cookie(struct ring *ring, union record *record, pid_t tid)
{
	struct sample sample;

	while (next_sample(ring, record, tid, &sample)) {
		if (sample_cookie(&sample))
			return sample_cookie(&sample);
	}
	return 0;
}

/* The number of remaining records of this type with this cookie. */
static unsigned int records_of(struct ring *ring, union record *record, __u32 type,
			       __u64 cookie)
{
	unsigned int nr = 0;

	/* The cookie is at the same offset in both types. */
	while (ring_next_type(ring, record, type))
		nr += as_deferred(record)->cookie == cookie;
	return nr;
}

/* Does the sample itself have the callchain, or the registers and the stack, as wanted? */
static bool has_user_half(const FIXTURE_VARIANT(waiting) *variant, const union record *record,
			  const struct sample *sample)
{
	const __u64 *part = user_part(record);
	__u64 nr;
	int at;

	if (sample_cookie(sample))
		return false;
	/* The ABI, then the registers of defer_state() and the size of the stack. */
	if (variant->state &&
	    (part[0] != PERF_SAMPLE_REGS_ABI_64 || part[5] != STATE_STACK))
		return false;
	if (!variant->callchain)
		return true;
	at = sample_part(sample, PERF_CONTEXT_USER, &nr);
	return at >= 0 && workload_check(sample->ips + at, nr, DEPTH) == -1;
}

/*
 * The second session gets the trace that the first one has had; the first one gets no copy.
 * A sample of the second session that was refused a repeat needs no record.
 */
TEST_F(waiting, session_that_begins_later)
{
	struct perf_event_attr first = waiting_attr(variant, ENTER);
	struct perf_event_attr second = waiting_attr(variant, SWITCH);
	long refused = unwind_stat("refused_again");
	struct sample sample;
	__u64 cookie = 0;
	int status;

	ASSERT_EQ(0, ring_open(&self->first, &first, self->pid, -1, 32));
	ring_enable(&self->first);
	ASSERT_EQ(1, write(self->pipe[1], "g", 1));

	/* Wait until the task sleeps after its task work has run. */
	WAIT_FOR(cookie || (cookie = next_cookie(&self->first, self->record, self->pid)));
	WAIT_FOR(ring_next_type(&self->first, self->record, variant->type));
	EXPECT_EQ(cookie, as_deferred(self->record)->cookie);

	ASSERT_EQ(0, ring_open(&self->second, &second, self->pid, -1, 32));
	ring_enable(&self->second);
	/* One request completes and wakes the task, which then waits for the other one. */
	ASSERT_EQ(1, write(self->pipe[1], "p", 1));
	WAIT_FOR(next_sample(&self->second, self->record, self->pid, &sample));
	EXPECT_EQ(variant->refused ? 0 : cookie, sample_cookie(&sample));
	EXPECT_EQ(!!variant->refused, has_user_half(variant, self->record, &sample));

	ASSERT_EQ(0, kill(self->pid, SIGUSR1));
	ASSERT_EQ(self->pid, waitpid(self->pid, &status, 0));
	self->pid = 0;
	EXPECT_EQ(0, status);
	/* A later sample is not refused if only one was. */
	if (variant->refused != 1) {
		EXPECT_EQ(!variant->refused,
			  records_of(&self->second, self->record, variant->type, cookie));
	}
	EXPECT_EQ(0, records_of(&self->first, self->record, variant->type, cookie));
	EXPECT_EQ(!!variant->refused, refused >= 0 && unwind_stat("refused_again") > refused);
	ring_close(&self->first);
	ring_close(&self->second);
}

/* Two tasks that wait, on a CPU with a session. */
FIXTURE(two_waiting) {
	struct ring ring;
	union record *record;
	struct {
		int pipe[2];
		pid_t pid;
		/* Of the latest kernel entry. */
		__u64 cookie;
		int samples, records;
	} task[2];
};

FIXTURE_VARIANT(two_waiting) {
	bool state;
	__u32 type;
};

FIXTURE_VARIANT_ADD(two_waiting, callchain) {
	.type = PERF_RECORD_CALLCHAIN_DEFERRED,
};

FIXTURE_VARIANT_ADD(two_waiting, user_state) {
	.state = true, .type = PERF_RECORD_USER_STATE_DEFERRED,
};

FIXTURE_SETUP(two_waiting)
{
	struct perf_event_attr attr = session_attr(SWITCH, variant->state);
	int cpu;

	if (attr.type == ~0U)
		SKIP(return, "needs root and tracefs");
	self->record = malloc(sizeof(*self->record));
	ASSERT_EQ(1, first_cpus(&cpu, 1));
	ASSERT_EQ(0, pin_to(cpu));
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, pipe(self->task[i].pipe));
		self->task[i].pid = uring_fork_waiter(self->task[i].pipe[0], DEPTH, NULL);
		if (self->task[i].pid == -ENOSYS)
			SKIP(return, "no io_uring");
		ASSERT_LT(0, self->task[i].pid);
	}
	ASSERT_EQ(0, ring_open(&self->ring, &attr, -1, cpu, 64));
	ring_enable(&self->ring);
}

FIXTURE_TEARDOWN(two_waiting)
{
	for (int i = 0; i < 2; i++) {
		if (self->task[i].pid > 0)
			kill(self->task[i].pid, SIGKILL);
	}
	while (wait(NULL) > 0)
		;
	free(self->record);
}

/* Account the new records of the two tasks. */
static void look_at(struct _test_data_two_waiting *self, __u32 type)
{
	struct sample sample;
	__u64 cookie;

	while (ring_next(&self->ring, self->record)) {
		for (int i = 0; i < 2; i++) {
			if (self->record->header.type == type) {
				cookie = as_deferred(self->record)->cookie;
				self->task[i].records += cookie == self->task[i].cookie;
				continue;
			}
			if (self->record->header.type != PERF_RECORD_SAMPLE)
				continue;
			parse_sample(self->record, &sample);
			cookie = sample_cookie(&sample);
			if (sample.tid != (__u32)self->task[i].pid || !cookie)
				continue;
			if (cookie != self->task[i].cookie) {
				self->task[i].samples = 0;
				self->task[i].records = 0;
			}
			self->task[i].cookie = cookie;
			self->task[i].samples++;
		}
	}
}

static bool waits_in_io_uring(pid_t pid)
{
	char name[64];
	int nr = -1;
	FILE *file;

	snprintf(name, sizeof(name), "/proc/%d/syscall", pid);
	file = fopen(name, "r");
	if (file && fscanf(file, "%d", &nr) != 1)
		nr = -1;
	if (file)
		fclose(file);
	return nr == SYS_io_uring_enter;
}

/*
 * Between two turns of a task, the buffer gets records of the other task. A stack is not
 * delivered again each time: only 8 times at once, and then once a second.
 */
TEST_F(two_waiting, take_turns)
{
	time_t begin = time(NULL);
	int before;

	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(1, write(self->task[i].pipe[1], "g", 1));
		WAIT_FOR(waits_in_io_uring(self->task[i].pid));
	}
	look_at(self, variant->type);
	for (int n = 0; n < URING_RESULTS; n++) {
		for (int i = 0; i < 2; i++) {
			before = self->task[i].samples;
			ASSERT_EQ(1, write(self->task[i].pipe[1], "p", 1));
			WAIT_FOR((look_at(self, variant->type), self->task[i].samples != before));
		}
	}
	ring_disable(&self->ring);
	look_at(self, variant->type);
	for (int i = 0; i < 2; i++) {
		EXPECT_LE(URING_RESULTS, self->task[i].samples);
		EXPECT_LT(2, self->task[i].records);
		EXPECT_GE(9 + time(NULL) + 1 - begin, self->task[i].records);
	}
	ring_close(&self->ring);
}

/*
 * No other code uses this stack, so it is unchanged after the system call. The sample is
 * inside one mapping, because the copy of a stack ends with its mapping.
 */
static char stack[2 * STATE_STACK] __attribute__((aligned(2 * STATE_STACK)));

/* Sessions of two CPUs, the task's first, and a system call that moves it to the other. */
FIXTURE(cpus) {
	struct ring rings[2];
	union record *record;
	int cpu[2];
};

FIXTURE_VARIANT(cpus) {
	bool state;
	__u32 type;
};

FIXTURE_VARIANT_ADD(cpus, callchain) {
	.type = PERF_RECORD_CALLCHAIN_DEFERRED,
};

FIXTURE_VARIANT_ADD(cpus, user_state) {
	.state = true, .type = PERF_RECORD_USER_STATE_DEFERRED,
};

FIXTURE_SETUP(cpus)
{
	struct perf_event_attr attr = session_attr("syscalls/sys_enter_sched_setaffinity",
						   variant->state);

	if (attr.type == ~0U)
		SKIP(return, "needs root, tracefs and CONFIG_FTRACE_SYSCALLS");
	if (first_cpus(self->cpu, 2) < 2)
		SKIP(return, "needs two CPUs");
	self->record = malloc(sizeof(*self->record));
	memset(stack, 0x5a, sizeof(stack));
	ASSERT_EQ(0, pin_to(self->cpu[0]));
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, ring_open(&self->rings[i], &attr, -1, self->cpu[i], 32));
}

FIXTURE_TEARDOWN(cpus)
{
	for (int i = 0; i < 2; i++)
		ring_close(&self->rings[i]);
	free(self->record);
}

/* Move from CPU @from of the two to the other one. */
#define MOVE(from) do {								\
	int _there = self->cpu[!(from)];					\
	cpu_set_t _set;								\
	const long _call[7] = {							\
		SYS_sched_setaffinity, 0, sizeof(_set), (long)&_set,		\
	};									\
										\
	CPU_ZERO(&_set);							\
	CPU_SET(_there, &_set);							\
	ASSERT_LE(0, workload_call_on(stack + STATE_STACK, DEPTH, _call));	\
	ASSERT_EQ(_there, sched_getcpu());					\
} while (0)

static bool right_callchain(const union record *record)
{
	const struct deferred *deferred = as_deferred(record);

	return workload_check(deferred->ips, deferred->nr, DEPTH) == -1;
}

/* Are the registers and the stack those of this task? */
static bool right_state(const union record *record)
{
	struct state state;

	parse_state(record, &state);
	return !state.rest && !state.changed && state.abi == PERF_SAMPLE_REGS_ABI_64 &&
	       workload_is_leaf(state.ip) && state.reg_ip == state.ip &&
	       state.sp >= (uintptr_t)stack && state.sp < (uintptr_t)stack + STATE_STACK &&
	       state.reg_sp == state.sp && state.dyn_size == STATE_STACK &&
	       !memcmp(state.stack, (const void *)state.sp, STATE_STACK);
}

/*
 * A session of one CPU gets the stack, or the registers and stack, of a task that leaves
 * the CPU inside the system call. The record names that task, and not the one that runs
 * there when the record is written.
 */
TEST_F(cpus, left_by_the_task)
{
	const __u64 *words = self->record->words;

	for (int i = 0; i < 2; i++) {
		struct ring *ring = &self->rings[i];
		unsigned int end;
		__u64 cookie;

		ring_enable(ring);
		MOVE(i);
		ring_disable(ring);

		cookie = next_cookie(ring, self->record, gettid());
		EXPECT_NE(0, cookie);
		ASSERT_TRUE(ring_next_type(ring, self->record, variant->type));
		EXPECT_EQ(cookie, as_deferred(self->record)->cookie);
		EXPECT_TRUE(variant->state ? right_state(self->record) :
					     right_callchain(self->record));
		/* The sample_id has pid and tid, time, CPU. */
		end = self->record->header.size / 8;
		EXPECT_EQ((__u64)gettid() << 32 | getpid(), words[end - 3]);
		EXPECT_EQ(self->cpu[i], (__u32)words[end - 1]);
		EXPECT_FALSE(ring_next_type(ring, self->record, variant->type));
	}
}

/* Without memory the record has no addresses, or registers only. */
TEST_F(cpus, left_without_memory)
{
	struct unwind_test_op op = OP_FAIL(UNWIND_TEST_FAIL_CACHE, 1);
	struct ring *ring = &self->rings[0];
	struct state state;
	const char *why;
	long nomem;
	int fd = tracer_open(&why);

	if (fd < 0)
		SKIP(return, "%s", why);
	nomem = unwind_stat("nomem");
	ring_enable(ring);
	ASSERT_EQ(0, tracer_op(fd, op));
	MOVE(0);
	ring_disable(ring);
	close(fd);

	EXPECT_EQ(nomem + 1, unwind_stat("nomem"));
	EXPECT_NE(0, next_cookie(ring, self->record, gettid()));
	ASSERT_TRUE(ring_next_type(ring, self->record, variant->type));
	if (!variant->state) {
		EXPECT_EQ(0, as_deferred(self->record)->nr);
		return;
	}
	parse_state(self->record, &state);
	EXPECT_TRUE(workload_is_leaf(state.reg_ip));
	EXPECT_EQ(state.sp, state.reg_sp);
	EXPECT_EQ(0, state.size);
	EXPECT_EQ(0, state.rest);
}

/* The stack is copied only for a session of the CPU that requests user state. */
TEST_F(cpus, copy_for_who_wants_it)
{
	struct perf_event_attr attr = state_attr("syscalls/sys_enter_sched_setaffinity");
	struct unwind_test_op op = OP_FAIL(UNWIND_TEST_FAIL_CACHE, 1);
	struct ring own;
	const char *why;
	long nomem;
	int fd = tracer_open(&why);

	if (fd < 0)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, ring_open(&own, &attr, 0, -1, 32));
	ring_enable(&own);
	ring_enable(&self->rings[0]);
	/* These moves allocate the memory for callchains. */
	MOVE(0);
	MOVE(1);
	nomem = unwind_stat("nomem");
	ASSERT_EQ(0, tracer_op(fd, op));
	MOVE(0);
	close(fd);
	ring_disable(&self->rings[0]);
	ring_disable(&own);

	EXPECT_EQ(nomem + variant->state, unwind_stat("nomem"));
	for (int i = 0; i < 3; i++)
		ASSERT_TRUE(ring_next_type(&own, self->record, PERF_RECORD_USER_STATE_DEFERRED));
	/* The stack is unchanged since the last record. */
	EXPECT_TRUE(right_state(self->record));
	ring_close(&own);
}

/* A session of all CPUs gets the record once in the buffer of each of the two. */
TEST_F(cpus, session_of_all)
{
	__u64 cookie;

	for (int i = 0; i < 2; i++)
		ring_enable(&self->rings[i]);
	MOVE(0);
	for (int i = 0; i < 2; i++)
		ring_disable(&self->rings[i]);
	cookie = next_cookie(&self->rings[0], self->record, gettid());
	EXPECT_NE(0, cookie);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(1, records_of(&self->rings[i], self->record, variant->type, cookie));
}

/* A sample on the other CPU is counted once, even if it requests callchain and state. */
TEST_F(cpus, both_ask)
{
	struct perf_event_attr attr[] = {
		both_attr("syscalls/sys_enter_sched_setaffinity"),
		both_attr("syscalls/sys_exit_sched_setaffinity"),
	};
	long third = unwind_stat("third_cpu");
	__u64 cookie;

	if (third < 0)
		SKIP(return, "needs debugfs");
	for (int i = 0; i < 2; i++) {
		ring_close(&self->rings[i]);
		ASSERT_EQ(0, ring_open(&self->rings[i], &attr[i], -1, self->cpu[i], 32));
		ring_enable(&self->rings[i]);
	}
	MOVE(0);
	for (int i = 0; i < 2; i++)
		ring_disable(&self->rings[i]);

	EXPECT_EQ(third + 1, unwind_stat("third_cpu"));
	cookie = next_cookie(&self->rings[0], self->record, gettid());
	EXPECT_NE(0, cookie);
	EXPECT_EQ(cookie, next_cookie(&self->rings[1], self->record, gettid()));
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(1, records_of(&self->rings[i], self->record, variant->type, cookie));
}

/* A CPU's session of the switches from task @pid. */
static int open_switches(struct ring *ring, int cpu, bool state, pid_t pid)
{
	struct perf_event_attr attr = session_attr(SWITCH, state);
	int err;

	ring_close(ring);
	err = ring_open(ring, &attr, -1, cpu, 32);
	return err ?: ring_filter(ring, "prev_pid", pid);
}

/*
 * The cookie of the last sample of @tid, or 0; *@delivered tells whether a record of this type
 * with that cookie was read, too.
 */
static __u64 last_cookie(struct ring *ring, union record *record, pid_t tid, __u32 type,
			 bool *delivered)
{
	struct sample sample;
	__u64 last = 0, cookie;

	*delivered = false;
	while (ring_next(ring, record)) {
		if (record->header.type == type && as_deferred(record)->cookie == last)
			*delivered = true;
		if (record->header.type != PERF_RECORD_SAMPLE)
			continue;
		parse_sample(record, &sample);
		cookie = sample.tid == (__u32)tid ? sample_cookie(&sample) : 0;
		if (!cookie || cookie == last)
			continue;
		last = cookie;
		*delivered = false;
	}
	return last;
}

static int move_task(pid_t pid, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(pid, sizeof(set), &set);
}

/*
 * After a delivery in mid entry, a session of the other CPU begins. The task leaves that CPU,
 * too, before the next delivery.
 */
TEST_F(cpus, left_after_a_delivery)
{
	struct sample sample;
	bool delivered;
	__u64 cookie;
	long third;
	int go[2];
	pid_t pid;

	ASSERT_EQ(0, pipe(go));
	pid = uring_fork_waiter(go[0], DEPTH, NULL);
	if (pid == -ENOSYS)
		SKIP(return, "no io_uring");
	ASSERT_LT(0, pid);
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, open_switches(&self->rings[i], self->cpu[i], variant->state, pid));
	ring_enable(&self->rings[0]);
	ASSERT_EQ(1, write(go[1], "g", 1));
	WAIT_FOR(waits_in_io_uring(pid));
	/*
	 * The last sample is that of the wait. A task that was preempted earlier in the same
	 * entry has delivered before it waits.
	 */
	cookie = last_cookie(&self->rings[0], self->record, pid, variant->type, &delivered);
	ASSERT_NE(0, cookie);
	/* The task wakes up, delivers, and sleeps again. */
	ASSERT_EQ(1, write(go[1], "p", 1));
	WAIT_FOR(delivered || ring_next_type(&self->rings[0], self->record, variant->type));
	WAIT_FOR(waits_in_io_uring(pid));

	third = unwind_stat("third_cpu");
	if (third < 0)
		SKIP(return, "needs debugfs");
	ring_enable(&self->rings[1]);
	ASSERT_EQ(0, move_task(pid, self->cpu[1]));
	ASSERT_EQ(1, write(go[1], "p", 1));
	WAIT_FOR(next_sample(&self->rings[1], self->record, pid, &sample));
	EXPECT_EQ(cookie, sample_cookie(&sample));
	WAIT_FOR(waits_in_io_uring(pid));
	ASSERT_EQ(0, move_task(pid, self->cpu[0]));
	ASSERT_EQ(0, kill(pid, SIGUSR1));
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));

	EXPECT_EQ(third, unwind_stat("third_cpu"));
	EXPECT_EQ(1, records_of(&self->rings[1], self->record, variant->type, cookie));
}

/*
 * While the callback of a later tracer sleeps, a session of the other CPU begins, and has the
 * task before and after the next one sleeps: perf has its delivery already.
 */
TEST_F(cpus, left_in_later_callbacks)
{
	struct perf_event_attr attr = session_attr("syscalls/sys_enter_ioctl", variant->state);
	struct unwind_test_op prepare[] = {
		OP_INIT(0), OP_INIT(1),
		OP_MODE(0, UNWIND_TEST_MODE_SLEEP, 0), OP_MODE(1, UNWIND_TEST_MODE_SLEEP, 0),
	};
	struct unwind_test_op call[] = {
		OP_REQUEST(0, UNWIND_TEST_TASK), OP_REQUEST(1, UNWIND_TEST_TASK),
	};
	struct unwind_test_event event;
	struct sample sample;
	const char *why;
	__u64 cookie;
	int go[2], fd, status;
	long third;
	pid_t pid;
	char byte;

	fd = tracer_open(&why);
	if (fd < 0)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, tracer_run_array(fd, prepare));
	ASSERT_EQ(0, pipe(go));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		/* Otherwise it would stay in a callback, and no tracer could be cancelled. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (read(go[0], &byte, 1) != 1 || tracer_run_array(fd, call))
			_exit(1);
		_exit(call[0].ret || call[1].ret);
	}
	ring_close(&self->rings[0]);
	ASSERT_EQ(0, ring_open(&self->rings[0], &attr, -1, self->cpu[0], 32));
	ASSERT_EQ(0, ring_filter(&self->rings[0], "common_pid", pid));
	ASSERT_EQ(0, open_switches(&self->rings[1], self->cpu[1], variant->state, pid));
	ring_enable(&self->rings[0]);
	third = unwind_stat("third_cpu");
	ASSERT_EQ(1, write(go[1], "g", 1));
	WAIT_FOR(tracer_event(fd, &event));
	cookie = next_cookie(&self->rings[0], self->record, pid);
	ASSERT_NE(0, cookie);
	ASSERT_TRUE(ring_next_type(&self->rings[0], self->record, variant->type));

	ring_enable(&self->rings[1]);
	ASSERT_EQ(0, move_task(pid, self->cpu[1]));
	ASSERT_EQ(0, tracer_op(fd, (struct unwind_test_op)OP_RELEASE(0)));
	WAIT_FOR(next_sample(&self->rings[1], self->record, pid, &sample));
	EXPECT_EQ(cookie, sample_cookie(&sample));
	WAIT_FOR(tracer_event(fd, &event) && event.slot == 1);
	ASSERT_EQ(0, move_task(pid, self->cpu[0]));
	ASSERT_EQ(0, tracer_op(fd, (struct unwind_test_op)OP_RELEASE(1)));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);

	EXPECT_EQ(third, unwind_stat("third_cpu"));
	EXPECT_EQ(1, records_of(&self->rings[1], self->record, variant->type, cookie));
	close(fd);
}

TEST_HARNESS_MAIN
