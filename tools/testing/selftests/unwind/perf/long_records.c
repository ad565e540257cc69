// SPDX-License-Identifier: GPL-2.0
/*
 * Records that are too long for all buffers to get theirs in one pass: each buffer still
 * gets exactly one, whichever tasks run between the passes.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "perf_ring.h"
#include "tracer.h"
#include "workload.h"
#include "harness.h"

#define NR_RINGS	4
/* The kernel copies 64 KiB in one pass: one record. */
#define STACK		(40 * 1024U)
#define ABOVE		(64 * 1024U)
/* Calls of the running task, and of the one that preempts it; a buffer holds all records. */
#define CALLS		40
#define TURNS		8
#define RING_PAGES	512
#define MAX_RECORDS	(CALLS + TURNS + 1)

/* A callchain nearly as long as a record can be. */
#define MAX_STACK	"kernel/perf_event_max_stack"
#define DEEP		8000
#define DEEP_RINGS	3

FIXTURE(long_records) {
	struct perf_event_attr attr;
	struct ring ring[NR_RINGS];
	union record *record;
	char *sp;
};

FIXTURE_SETUP(long_records)
{
	char *map = mmap(NULL, 2 * ABOVE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	ASSERT_NE(MAP_FAILED, (void *)map);
	self->sp = map + ABOVE;
	self->record = malloc(sizeof(*self->record));
	self->attr = tracepoint_attr("syscalls/sys_enter_getppid");
	if (self->attr.type == ~0U)
		SKIP(return, "needs root, tracefs and CONFIG_FTRACE_SYSCALLS");
	self->attr.defer_callchain = 0;
	self->attr.defer_user_state = 1;
	self->attr.exclude_callchain_user = 1;
	self->attr.sample_type |= PERF_SAMPLE_STACK_USER;
	self->attr.sample_stack_user = STACK;
}

FIXTURE_TEARDOWN(long_records)
{
	for (unsigned int i = 0; i < NR_RINGS; i++)
		ring_close(&self->ring[i]);
	free(self->record);
}

/* Fields of a record without registers. */
static __u64 cookie_of(const union record *record)
{
	return record->words[1];
}

static __u64 sp_of(const union record *record)
{
	return record->words[3];
}

static __u64 dyn_size_of(const union record *record)
{
	__u64 size = record->words[5];

	return size ? record->words[6 + size / 8] : 0;
}

static void call_getppid(char *sp)
{
	long call[7] = { SYS_getppid };

	workload_call_fp(sp, 0, call);
}

/* Each buffer has the only record, in full length. */
static void one_record_each(struct __test_metadata *_metadata,
			    FIXTURE_DATA(long_records) *self)
{
	__u64 cookie = 0;

	for (unsigned int i = 0; i < NR_RINGS; i++) {
		struct ring *ring = &self->ring[i];

		ring_disable(ring);
		ASSERT_TRUE(ring_next_type(ring, self->record,
					   PERF_RECORD_USER_STATE_DEFERRED));
		EXPECT_EQ(STACK, dyn_size_of(self->record));
		EXPECT_EQ((uintptr_t)self->sp, sp_of(self->record));
		if (i) {
			EXPECT_EQ(cookie, cookie_of(self->record));
		}
		cookie = cookie_of(self->record);
		EXPECT_FALSE(ring_next_type(ring, self->record,
					    PERF_RECORD_USER_STATE_DEFERRED));
	}
}

TEST_F(long_records, one_task)
{
	for (unsigned int i = 0; i < NR_RINGS; i++)
		ASSERT_EQ(0, ring_open(&self->ring[i], &self->attr, 0, -1, 32));
	for (unsigned int i = 0; i < NR_RINGS; i++)
		ring_enable(&self->ring[i]);
	call_getppid(self->sp);
	one_record_each(_metadata, self);
}

/* The records take more than one interrupt on the old CPU. */
TEST_F(long_records, of_a_cpu_that_is_left)
{
	cpu_set_t there;
	const long call[7] = {
		SYS_sched_setaffinity, 0, sizeof(there), (long)&there,
	};
	int cpu[2];

	if (first_cpus(cpu, 2) < 2)
		SKIP(return, "needs two CPUs");
	ASSERT_EQ(0, pin_to(cpu[0]));
	self->attr.config = tracepoint_id("syscalls/sys_enter_sched_setaffinity");
	for (unsigned int i = 0; i < NR_RINGS; i++)
		ASSERT_EQ(0, ring_open(&self->ring[i], &self->attr, -1, cpu[0], 32));
	for (unsigned int i = 0; i < NR_RINGS; i++)
		ring_enable(&self->ring[i]);
	CPU_ZERO(&there);
	CPU_SET(cpu[1], &there);
	ASSERT_LE(0, workload_call_fp(self->sp, 0, call));
	ASSERT_EQ(cpu[1], sched_getcpu());
	one_record_each(_metadata, self);
}

/* Call without a pause: the task spends nearly all of its time on records. */
static int ask_at_once(char *sp)
{
	for (unsigned int i = 0; i < CALLS; i++)
		call_getppid(sp);
	return 0;
}

/* Preempt the other task, wherever that is possible, and call. */
static int ask_in_turns(char *sp)
{
	const struct sched_param param = { .sched_priority = 1 };
	const struct timespec pause = { .tv_nsec = 1000 * 1000 };

	if (sched_setscheduler(0, SCHED_FIFO, &param))
		return 1;
	for (unsigned int i = 0; i < TURNS; i++) {
		nanosleep(&pause, NULL);
		call_getppid(sp);
	}
	return 0;
}

static __u32 tid_of(const union record *record)
{
	/* The sample_id of RING_SAMPLE_TYPE: pid and tid, time, CPU. */
	return record->words[record->header.size / 8 - 3] >> 32;
}

static pid_t start(int (*ask)(char *sp), char *sp)
{
	pid_t child = fork();

	if (!child)
		_exit(ask(sp));
	return child;
}

/* Records of one task between two passes of another one must not matter. */
static void two_tasks(struct __test_metadata *_metadata, FIXTURE_DATA(long_records) *self,
		      pid_t pid)
{
	__u64 cookies[MAX_RECORDS];
	pid_t at_once, in_turns;
	int status;

	ASSERT_EQ(0, pin_to(0));
	for (unsigned int i = 0; i < NR_RINGS; i++)
		ASSERT_EQ(0, ring_open(&self->ring[i], &self->attr, pid, 0, RING_PAGES));
	for (unsigned int i = 0; i < NR_RINGS; i++)
		ring_enable(&self->ring[i]);
	at_once = start(ask_at_once, self->sp);
	ASSERT_LT(0, at_once);
	in_turns = start(ask_in_turns, self->sp);
	ASSERT_LT(0, in_turns);
	ASSERT_EQ(in_turns, waitpid(in_turns, &status, 0));
	EXPECT_EQ(0, status);
	ASSERT_EQ(at_once, waitpid(at_once, &status, 0));
	EXPECT_EQ(0, status);

	for (unsigned int i = 0; i < NR_RINGS; i++) {
		unsigned int nr = 0, turns = 0;

		ring_disable(&self->ring[i]);
		while (nr < MAX_RECORDS && ring_next_type(&self->ring[i], self->record,
							  PERF_RECORD_USER_STATE_DEFERRED)) {
			cookies[nr++] = cookie_of(self->record);
			turns += tid_of(self->record) == in_turns;
		}
		EXPECT_EQ(CALLS + TURNS, nr);
		EXPECT_EQ(TURNS, turns);
		for (unsigned int a = 0; a < nr; a++) {
			for (unsigned int b = 0; b < a; b++)
				EXPECT_NE(cookies[a], cookies[b]);
		}
	}
}

TEST_F(long_records, tasks_of_one_cpu)
{
	two_tasks(_metadata, self, -1);
}

/* Clones swap their events instead of switching them. */
TEST_F(long_records, clones)
{
	self->attr.inherit = 1;
	two_tasks(_metadata, self, 0);
}

/*
 * Disable and enable the first events repeatedly, so that now and then the event at which
 * a pass should continue is gone. Ends when the other task sets @end.
 */
static int disable_in_turns(struct ring *rings, unsigned int nr, const volatile bool *end)
{
	const struct sched_param param = { .sched_priority = 1 };
	const struct timespec pause = { .tv_nsec = 100 * 1000 };

	if (sched_setscheduler(0, SCHED_FIFO, &param))
		return 1;
	while (!*end) {
		for (unsigned int i = 0; i < nr; i++)
			ring_disable(&rings[i]);
		nanosleep(&pause, NULL);
		for (unsigned int i = 0; i < nr; i++)
			ring_enable(&rings[i]);
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* The buffer whose event stays enabled gets all records. */
TEST_F(long_records, others_are_disabled)
{
	struct ring *last = &self->ring[NR_RINGS - 1];
	long missed = unwind_stat("buffers_missed");
	unsigned int nr = 0;
	__u64 cookie = 0;
	int status;
	bool *end;
	pid_t pid;

	end = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)end);
	ASSERT_EQ(0, pin_to(0));
	/* Events are visited in reverse order: the one that stays comes last. */
	ASSERT_EQ(0, ring_open(last, &self->attr, -1, 0, RING_PAGES));
	for (unsigned int i = 0; i < NR_RINGS - 1; i++)
		ASSERT_EQ(0, ring_open(&self->ring[i], &self->attr, -1, 0, RING_PAGES));
	for (unsigned int i = 0; i < NR_RINGS; i++)
		ring_enable(&self->ring[i]);
	pid = fork();
	if (!pid)
		_exit(disable_in_turns(self->ring, NR_RINGS - 1, end));
	ASSERT_LT(0, pid);
	ask_at_once(self->sp);
	*end = true;
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);

	ring_disable(last);
	while (ring_next_type(last, self->record, PERF_RECORD_USER_STATE_DEFERRED)) {
		EXPECT_NE(cookie, cookie_of(self->record));
		cookie = cookie_of(self->record);
		nr++;
	}
	EXPECT_EQ(CALLS, nr);
	EXPECT_EQ(missed, unwind_stat("buffers_missed"));
}

/* Sessions of a CPU that the task leaves within the sampled system call. */
FIXTURE(long_chains) {
	struct ring ring[DEEP_RINGS];
	union record *record;
	int cpu[2];
	int old;
};

FIXTURE_SETUP(long_chains)
{
	struct perf_event_attr attr = tracepoint_attr("syscalls/sys_enter_sched_setaffinity");

	if (attr.type == ~0U)
		SKIP(return, "needs root, tracefs and CONFIG_FTRACE_SYSCALLS");
	if (first_cpus(self->cpu, 2) < 2)
		SKIP(return, "needs two CPUs");
	self->record = malloc(sizeof(*self->record));
	ASSERT_EQ(0, pin_to(self->cpu[0]));
	self->old = set_sysctl(MAX_STACK, DEEP + 1);
	ASSERT_LE(0, self->old);
	for (unsigned int i = 0; i < DEEP_RINGS; i++)
		ASSERT_EQ(0, ring_open(&self->ring[i], &attr, -1, self->cpu[0], 64));
}

FIXTURE_TEARDOWN(long_chains)
{
	for (unsigned int i = 0; i < DEEP_RINGS; i++)
		ring_close(&self->ring[i]);
	if (self->old > 0)
		set_sysctl(MAX_STACK, self->old);
	free(self->record);
}

/* More records than one interrupt on the old CPU writes. */
TEST_F(long_chains, of_a_cpu_that_is_left)
{
	const unsigned int depth = DEEP - WORKLOAD_NR(0);
	const struct deferred *deferred = as_deferred(self->record);
	struct sample sample;
	cpu_set_t there;

	CPU_ZERO(&there);
	CPU_SET(self->cpu[1], &there);
	for (unsigned int i = 0; i < DEEP_RINGS; i++)
		ring_enable(&self->ring[i]);
	ASSERT_LE(0, workload_syscall(depth, SYS_sched_setaffinity, 0, sizeof(there),
				      (long)&there));
	ASSERT_EQ(self->cpu[1], sched_getcpu());
	for (unsigned int i = 0; i < DEEP_RINGS; i++) {
		__u64 cookie = 0;

		ring_disable(&self->ring[i]);
		while (!cookie && ring_next_type(&self->ring[i], self->record,
						 PERF_RECORD_SAMPLE)) {
			parse_sample(self->record, &sample);
			if (sample.tid == (__u32)gettid())
				cookie = sample_cookie(&sample);
		}
		ASSERT_NE(0, cookie);
		ASSERT_TRUE(ring_next_type(&self->ring[i], self->record,
					   PERF_RECORD_CALLCHAIN_DEFERRED));
		EXPECT_EQ(cookie, deferred->cookie);
		EXPECT_EQ(DEEP, deferred->nr);
		EXPECT_EQ(-1, workload_check_head(deferred->ips, deferred->nr, depth));
		EXPECT_FALSE(ring_next_type(&self->ring[i], self->record,
					    PERF_RECORD_CALLCHAIN_DEFERRED));
	}
}

TEST_HARNESS_MAIN
