// SPDX-License-Identifier: GPL-2.0
/*
 * Which buffers get the records of deferred callchains: per-task and CPU-wide events,
 * inherited ones, several on one buffer, several sessions; which samples are deferred
 * at all; limits of depth and contexts; loss.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "perf_ring.h"
#include "uring.h"
#include "workload.h"
#include "harness.h"

#define DEPTH	10
#define GETPPID	"syscalls/sys_enter_getppid"
#define CALLS	20
/* Seconds to wait for events that come soon unless the machine is slow. */
#define AT_MOST	60

static void calls(unsigned int depth)
{
	for (int i = 0; i < CALLS; i++)
		workload_syscall(depth, SYS_getppid);
}

FIXTURE(delivery) {
	struct perf_event_attr attr;
	struct rings rings;
	union record *record;
};

FIXTURE_SETUP(delivery)
{
	self->attr = tracepoint_attr(GETPPID);
	if (self->attr.type == ~0U)
		SKIP(return, "needs root, tracefs and CONFIG_FTRACE_SYSCALLS");
	self->record = malloc(sizeof(*self->record));
}

FIXTURE_TEARDOWN(delivery)
{
	rings_close(&self->rings);
	free(self->record);
}

#define OPEN(pid, pages) \
	ASSERT_EQ(0, rings_open(&self->rings, &self->attr, pid, -1, pages))

#define OPEN_EACH_CPU(pid) \
	ASSERT_EQ(0, rings_open_each_cpu(&self->rings, &self->attr, pid))

/* Stop the events and count their records. */
#define TALLY(tally, tid) do {							\
	rings_disable(&self->rings);						\
	tally_rings(tally, self->rings.ring, self->rings.nr, tid);		\
} while (0)

/* Every request got exactly one record. */
#define EXPECT_COMPLETE(tally, nr_samples) do {					\
	EXPECT_EQ(nr_samples, (tally).samples);					\
	EXPECT_EQ((tally).samples, (tally).deferred);				\
	EXPECT_EQ((tally).deferred, (tally).matched);				\
	EXPECT_EQ(0, (tally).duplicate);					\
	EXPECT_EQ(0, (tally).lost);						\
} while (0)

TEST_F(delivery, task)
{
	struct tally tally;

	OPEN(0, 32);
	rings_enable(&self->rings);
	calls(DEPTH);
	TALLY(&tally, 0);
	EXPECT_COMPLETE(tally, CALLS);
	EXPECT_EQ(CALLS, tally.records);
}

TEST_F(delivery, task_on_each_cpu)
{
	struct tally tally;

	OPEN_EACH_CPU(0);
	rings_enable(&self->rings);
	for (unsigned int cpu = 0; cpu < self->rings.nr; cpu++) {
		ASSERT_EQ(0, pin_to(cpu));
		calls(DEPTH);
	}
	TALLY(&tally, 0);
	EXPECT_COMPLETE(tally, CALLS * self->rings.nr);
	EXPECT_EQ(0, tally.foreign);
}

TEST_F(delivery, cpu_wide)
{
	struct tally tally;

	OPEN_EACH_CPU(-1);
	rings_enable(&self->rings);
	calls(DEPTH);
	TALLY(&tally, gettid());
	EXPECT_COMPLETE(tally, CALLS);
}

/* The side-band event of a session, which has no samples of its own. */
TEST_F(delivery, cpu_wide_dummy_gets_records)
{
	struct perf_event_attr dummy = software_attr(PERF_COUNT_SW_DUMMY);
	struct tally samples, records;
	unsigned int first;

	dummy.defer_callchain = 0;
	self->attr.defer_output = 0;
	OPEN_EACH_CPU(-1);
	first = self->rings.nr;
	self->attr = dummy;
	OPEN_EACH_CPU(-1);
	rings_enable(&self->rings);
	calls(DEPTH);
	tally_rings(&samples, self->rings.ring, first, gettid());
	tally_rings(&records, self->rings.ring + first, self->rings.nr - first, 0);
	EXPECT_EQ(CALLS, samples.deferred);
	EXPECT_EQ(0, samples.records);
	EXPECT_LE(CALLS, records.records);
}

static void *calling_thread(void *data)
{
	calls(*(unsigned int *)data);
	return NULL;
}

TEST_F(delivery, inherited_by_threads_and_children)
{
	unsigned int depths[] = { 3, 7, 30 };
	pthread_t thread[3];
	struct tally tally;
	pid_t child;
	int status;

	/* Inheritance needs a buffer for each CPU. */
	self->attr.inherit = 1;
	OPEN_EACH_CPU(0);
	rings_enable(&self->rings);
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, calling_thread, &depths[i]));
	}
	child = fork();
	if (!child) {
		calls(DEPTH);
		_exit(0);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	TALLY(&tally, 0);
	EXPECT_COMPLETE(tally, 4 * CALLS);
	EXPECT_EQ(4 * CALLS, tally.records);
	EXPECT_EQ(0, tally.foreign);
}

/* A record has no more addresses than the event's limit. */
TEST_F(delivery, sample_max_stack)
{
	self->attr.sample_max_stack = 8;
	OPEN(0, 32);
	rings_enable(&self->rings);
	workload_syscall(100, SYS_getppid);
	ASSERT_TRUE(ring_next_type(&self->rings.ring[0], self->record,
				   PERF_RECORD_CALLCHAIN_DEFERRED));
	EXPECT_EQ(8, as_deferred(self->record)->nr);
	EXPECT_EQ(-1, workload_check_head(as_deferred(self->record)->ips, 8, 100));
}

/* More than the old limit if requested, never more than requested. */
TEST_F(delivery, sysctl_max_stack)
{
	static const unsigned int limits[] = { 16, 127, 700 };
	int old = set_sysctl("kernel/perf_event_max_stack", 127);

	if (old < 0)
		SKIP(return, "cannot set kernel.perf_event_max_stack: %s", strerror(-old));
	for (int i = 0; i < 3; i++) {
		const struct deferred *deferred = as_deferred(self->record);

		ASSERT_LE(0, set_sysctl("kernel/perf_event_max_stack", limits[i]));
		OPEN(0, 32);
		rings_enable(&self->rings);
		workload_syscall(1000, SYS_getppid);
		ASSERT_TRUE(ring_next_type(&self->rings.ring[0], self->record,
					   PERF_RECORD_CALLCHAIN_DEFERRED));
		EXPECT_EQ(limits[i], deferred->nr);
		EXPECT_EQ(-1, workload_check_head(deferred->ips, deferred->nr, 1000));
		rings_close(&self->rings);
	}
	set_sysctl("kernel/perf_event_max_stack", old);
}

/* Marker and cookie, or neither and then the in-place chain. */
TEST_F(delivery, max_contexts)
{
	static const char path[] = "kernel/perf_event_max_contexts_per_stack";
	int old = set_sysctl(path, 8);

	if (old < 0)
		SKIP(return, "cannot set %s: %s", path, strerror(-old));
	self->attr.config = tracepoint_id("raw_syscalls/sys_enter");
	for (int contexts = 0; contexts <= 4; contexts++) {
		struct sample sample;
		bool deferred = contexts >= 3, marker = false;
		__u64 nr;
		int at;

		ASSERT_LE(0, set_sysctl(path, contexts));
		OPEN(0, 32);
		ASSERT_EQ(0, ring_filter(&self->rings.ring[0], "id", SYS_getppid));
		rings_enable(&self->rings);
		workload_syscall(DEPTH, SYS_getppid);
		ASSERT_TRUE(ring_next_type(&self->rings.ring[0], self->record, PERF_RECORD_SAMPLE));
		parse_sample(self->record, &sample);
		for (__u64 i = 0; i < sample.nr; i++)
			marker |= sample.ips[i] == PERF_CONTEXT_USER_DEFERRED;
		EXPECT_EQ(deferred, marker);
		EXPECT_EQ(deferred, !!sample_cookie(&sample));
		at = sample_part(&sample, PERF_CONTEXT_USER, &nr);
		/* The kernel's marker takes the first context. */
		EXPECT_EQ(contexts == 2, at > 0);
		if (at > 0) {
			EXPECT_EQ(-1, workload_check(sample.ips + at, nr, DEPTH));
		}
		EXPECT_EQ(deferred, ring_next_type(&self->rings.ring[0], self->record,
						   PERF_RECORD_CALLCHAIN_DEFERRED));
		rings_close(&self->rings);
	}
	set_sysctl(path, old);
}

/* The last entry of a task, which is sampled on its way to exit. */
static void exit_test(struct __test_metadata *_metadata, FIXTURE_DATA(delivery) *self,
		      bool cpu_wide, bool inherit)
{
	struct tally tally;
	int status, go[2], cpu;
	pid_t child;
	char c = 'y';

	self->attr = tracepoint_attr("syscalls/sys_enter_exit");
	self->attr.inherit = inherit;
	ASSERT_EQ(0, pipe(go));
	child = fork();
	if (!child) {
		/* If the child migrated, the events of both CPUs would get the record. */
		if (cpu_wide && (first_cpus(&cpu, 1) != 1 || pin_to(cpu)))
			_exit(1);
		if (read(go[0], &c, 1) != 1)
			_exit(1);
		if (inherit) {
			pid_t grandchild = fork();

			if (!grandchild)
				workload_syscall(DEPTH, SYS_exit, 0);
			waitpid(grandchild, NULL, 0);
		}
		workload_syscall(DEPTH, SYS_exit, 0);
	}
	if (cpu_wide || inherit) {
		OPEN_EACH_CPU(cpu_wide ? -1 : child);
	} else {
		OPEN(child, 32);
	}
	rings_enable(&self->rings);
	ASSERT_EQ(1, write(go[1], &c, 1));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	TALLY(&tally, inherit ? 0 : child);
	EXPECT_COMPLETE(tally, 1 + inherit);
}

TEST_F(delivery, exit_task)
{
	exit_test(_metadata, self, false, false);
}

TEST_F(delivery, exit_inherited)
{
	exit_test(_metadata, self, false, true);
}

TEST_F(delivery, exit_cpu_wide)
{
	exit_test(_metadata, self, true, false);
}

/* One record per buffer, however many of its events request it. */
TEST_F(delivery, events_that_share_a_buffer)
{
	struct perf_event_attr other = software_attr(PERF_COUNT_SW_DUMMY);
	struct tally tally;

	OPEN(0, 32);
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, rings_share(&self->rings, &other, 0));
	}
	rings_enable(&self->rings);
	calls(DEPTH);
	TALLY(&tally, 0);
	EXPECT_COMPLETE(tally, CALLS);
	EXPECT_EQ(CALLS, tally.records);
}

/* A session also gets records that it did not request; they do no harm. */
TEST_F(delivery, two_sessions)
{
	struct tally first, second;

	OPEN(0, 32);
	self->attr = tracepoint_attr("syscalls/sys_enter_getpgid");
	OPEN(0, 32);
	rings_enable(&self->rings);
	calls(DEPTH);
	workload_syscall(DEPTH, SYS_getpgid, 0);
	tally_rings(&first, &self->rings.ring[0], 1, 0);
	tally_rings(&second, &self->rings.ring[1], 1, 0);
	EXPECT_COMPLETE(first, CALLS);
	EXPECT_EQ(1, first.foreign);
	EXPECT_COMPLETE(second, 1);
	EXPECT_EQ(CALLS, second.foreign);
}

/* Records that do not fit are reported, so that a reader can count them. */
TEST_F(delivery, loss_is_countable)
{
	struct tally tally, rest;

	OPEN(0, 1);
	rings_enable(&self->rings);
	calls(100);
	/* Room again: the number of lost records comes first. */
	tally_rings(&tally, self->rings.ring, 1, 0);
	EXPECT_GT(CALLS, tally.samples);
	EXPECT_GT(CALLS, tally.records);
	calls(1);
	TALLY(&rest, 0);
	EXPECT_EQ(2 * 2 * CALLS, tally.samples + tally.records + tally.lost +
				 rest.samples + rest.records + rest.lost);
	EXPECT_LT(0, tally.lost + rest.lost);
}

/* Is this the ID of the idle task, or of a thread without an executable? */
static bool is_kernel_thread(__u32 tid)
{
	char path[64], link[8];

	snprintf(path, sizeof(path), "/proc/%u/exe", tid);
	return !tid || (readlink(path, link, sizeof(link)) < 0 && errno == ENOENT &&
			access(path, F_OK) && !kill(tid, 0));
}

/* Count the new samples of kernel threads or of workers: none has a user part. */
static unsigned int read_without(struct __test_metadata *_metadata,
				 FIXTURE_DATA(delivery) *self, bool workers)
{
	unsigned int nr_without = 0;
	struct sample sample;
	__u64 nr;

	for (unsigned int i = 0; i < self->rings.nr; i++) {
		while (ring_next_type(&self->rings.ring[i], self->record, PERF_RECORD_SAMPLE)) {
			parse_sample(self->record, &sample);
			if (workers ? sample.tid == (__u32)gettid() :
				      !is_kernel_thread(sample.tid))
				continue;
			nr_without++;
			EXPECT_EQ(0, sample_cookie(&sample));
			EXPECT_EQ(-1, sample_part(&sample, PERF_CONTEXT_USER, &nr));
			if (!workers) {
				EXPECT_LT(0, sample_part(&sample, PERF_CONTEXT_KERNEL, &nr));
			}
		}
	}
	return nr_without;
}

/* How often this thread was switched out. */
static long switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

/* Sleep until @nr switches: on a slow machine a sleep may be over before its switch. */
static long sleep_often(long nr, useconds_t us)
{
	time_t end = time(NULL) + AT_MOST;
	long begin = switches(), before = begin, now;

	do {
		usleep(us);
		now = switches();
		if (now == before && us < 100000)
			us *= 2;
		before = now;
	} while (now - begin < nr && time(NULL) < end);
	return now - begin;
}

/* A kernel thread has no user part, neither deferred nor in place. */
TEST_F(delivery, kernel_threads)
{
	self->attr = tracepoint_attr("sched/sched_switch");
	if (self->attr.type == ~0U)
		SKIP(return, "no scheduler tracepoints");
	OPEN_EACH_CPU(-1);
	rings_enable(&self->rings);
	/* Kworkers and RCU's threads run meanwhile. */
	EXPECT_LE(50, sleep_often(50, 2000));
	rings_disable(&self->rings);
	EXPECT_LT(0, read_without(_metadata, self, false));
}

/* Workers of an io_uring share the mm, but have no user mode to return to. */
TEST_F(delivery, io_workers)
{
	struct io_uring_sqe sqe = { .opcode = IORING_OP_FSYNC, .fd = 0 };
	time_t end = time(NULL) + AT_MOST;
	unsigned int workers = 0;

	self->attr = tracepoint_attr("sched/sched_switch");
	if (self->attr.type == ~0U)
		SKIP(return, "no scheduler tracepoints");
	self->attr.inherit = 1;
	OPEN_EACH_CPU(0);
	rings_enable(&self->rings);
	if (uring_run_async(&sqe) == -ENOSYS)
		SKIP(return, "no io_uring");
	/* The worker sleeps once it has nothing more to do. */
	while (!workers && time(NULL) < end) {
		usleep(1000);
		workers = read_without(_metadata, self, true);
	}
	rings_disable(&self->rings);
	read_without(_metadata, self, true);
	EXPECT_LT(0, workers);
}

/* The scheduler's tracepoints sample under the run queue lock. */
TEST_F(delivery, under_scheduler_locks)
{
	struct tally tally;
	long nr;

	self->attr = tracepoint_attr("sched/sched_switch");
	if (self->attr.type == ~0U)
		SKIP(return, "no scheduler tracepoints");
	OPEN(0, 32);
	rings_enable(&self->rings);
	nr = sleep_often(CALLS, 1000);
	TALLY(&tally, 0);
	EXPECT_LE(CALLS, nr);
	EXPECT_LE(nr, tally.deferred);
	EXPECT_EQ(tally.samples, tally.deferred);
	EXPECT_EQ(tally.deferred, tally.matched);
	EXPECT_EQ(0, tally.duplicate);
}

/* Does a thread of this process wait in this system call? */
static bool waits_in(int tid, long nr)
{
	char path[64];
	long now = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	file = fopen(path, "r");
	/* For a running thread the file holds no number. */
	if (file && fscanf(file, "%ld", &now) != 1)
		now = -1;
	if (file)
		fclose(file);
	return now == nr;
}

static void *reading_thread(void *data)
{
	int *pipe = data;
	char c;

	pipe[2] = gettid();
	return (void *)read(pipe[0], &c, 1);
}

/*
 * A waker delivers sched_waking to those events of the woken task that are for the
 * waker's CPU. These events must not see the waker's stack, neither in place nor under
 * the cookie of the waker's entry. Kernels that sample for active events alone deliver
 * nothing, because the woken task does not run.
 */
TEST_F(delivery, event_of_another_task)
{
	struct perf_event_attr in_place;
	/* The two ends of the pipe, and the reader's thread ID. */
	int pipes[3] = {};
	unsigned int samples[2] = {};
	struct sample sample;
	pthread_t thread;
	__u64 cookie, nr;

	self->attr = tracepoint_attr("sched/sched_waking");
	if (self->attr.type == ~0U)
		SKIP(return, "no scheduler tracepoints");
	ASSERT_EQ(0, pin_to(0));
	ASSERT_EQ(0, pipe(pipes));
	ASSERT_EQ(0, pthread_create(&thread, NULL, reading_thread, pipes));
	while (!*(volatile int *)&pipes[2] || !waits_in(pipes[2], SYS_read))
		usleep(1000);

	in_place = self->attr;
	in_place.defer_callchain = 0;
	in_place.defer_output = 0;
	ASSERT_EQ(0, rings_open(&self->rings, &self->attr, pipes[2], 0, 32));
	ASSERT_EQ(0, rings_open(&self->rings, &in_place, pipes[2], 0, 32));
	/* Gives this thread's entry a cookie that must not appear in their samples. */
	self->attr = tracepoint_attr("syscalls/sys_enter_write");
	OPEN(0, 32);
	rings_enable(&self->rings);
	ASSERT_EQ(1, workload_syscall(DEPTH, SYS_write, pipes[1], (long)"x", 1));
	rings_disable(&self->rings);
	pthread_join(thread, NULL);

	ASSERT_TRUE(ring_next_type(&self->rings.ring[2], self->record, PERF_RECORD_SAMPLE));
	parse_sample(self->record, &sample);
	cookie = sample_cookie(&sample);
	EXPECT_NE(0, cookie);

	for (int i = 0; i < 2; i++) {
		while (ring_next(&self->rings.ring[i], self->record)) {
			if (self->record->header.type == PERF_RECORD_CALLCHAIN_DEFERRED) {
				/* The waker's record is for the waker's events only. */
				EXPECT_NE(cookie, as_deferred(self->record)->cookie);
			}
			if (self->record->header.type != PERF_RECORD_SAMPLE)
				continue;
			parse_sample(self->record, &sample);
			if (sample.tid != (__u32)gettid())
				continue;
			samples[i]++;
			EXPECT_EQ(0, sample_cookie(&sample));
			EXPECT_EQ(-1, sample_part(&sample, PERF_CONTEXT_USER, &nr));
			EXPECT_EQ(-1, sample_part(&sample, PERF_CONTEXT_USER_DEFERRED, &nr));
			EXPECT_LT(0, sample_part(&sample, PERF_CONTEXT_KERNEL, &nr));
		}
	}
	EXPECT_EQ(samples[0], samples[1]);
	TH_LOG("%u samples of the waker", samples[0]);
	close(pipes[0]);
	close(pipes[1]);
}

static volatile double fpu_value = 1;

/* Take the FPU away from the other tasks on this CPU. */
static pid_t start_fpu_user(void)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		fpu_value *= 1.0000001;
}

/*
 * Interrupts are off and the task's flags were checked for the last time: the record
 * must not wait for the next entry, which has other registers.
 */
TEST_F(delivery, after_the_last_look_at_flags)
{
	time_t end = time(NULL) + AT_MOST;
	struct tally tally;
	__u64 count = 0;
	pid_t pid;

	ASSERT_EQ(0, pin_to(0));
	self->attr = tracepoint_attr("x86_fpu/x86_fpu_regs_activated");
	if (self->attr.type == ~0U)
		SKIP(return, "no x86_fpu tracepoints");
	OPEN(0, 32);
	pid = start_fpu_user();
	ASSERT_LE(0, pid);
	rings_enable(&self->rings);
	for (int i = 0; i < CALLS || (!count && time(NULL) < end); i++) {
		usleep(10000);
		ASSERT_EQ(sizeof(count), read(self->rings.ring[0].fd, &count, sizeof(count)));
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	TALLY(&tally, 0);
	EXPECT_LE(1, tally.deferred);
	EXPECT_EQ(tally.samples, tally.deferred);
	EXPECT_EQ(tally.deferred, tally.matched);
	EXPECT_EQ(0, tally.empty);
}

/* Page faults of the walk itself are samples of the entry being walked. */
TEST_F(delivery, page_faults)
{
	char *map = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct tally tally;

	ASSERT_NE(MAP_FAILED, (void *)map);
	self->attr = software_attr(PERF_COUNT_SW_PAGE_FAULTS);
	OPEN(0, 64);
	rings_enable(&self->rings);
	for (int i = 0; i < 64; i++)
		((volatile char *)map)[i * 4096] = 1;
	TALLY(&tally, 0);
	EXPECT_LE(64, tally.deferred);
	EXPECT_EQ(tally.samples, tally.deferred);
	EXPECT_EQ(tally.deferred, tally.matched);
	EXPECT_EQ(0, tally.duplicate);
}

/*
 * Two software events of one kind on one task, one of which defers: each gets the kind of
 * chain that it requested, whichever the kernel samples first.
 */
static void two_software_events(struct __test_metadata *_metadata, FIXTURE_DATA(delivery) *self,
				int deferring)
{
	char *map = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned int deferred[2] = {}, in_place[2] = {};
	struct sample sample;
	__u64 nr;

	ASSERT_NE(MAP_FAILED, (void *)map);
	self->attr = software_attr(PERF_COUNT_SW_PAGE_FAULTS);
	for (int i = 0; i < 2; i++) {
		self->attr.defer_callchain = i == deferring;
		self->attr.defer_output = i == deferring;
		OPEN(0, 64);
	}
	rings_enable(&self->rings);
	for (int i = 0; i < 64; i++)
		((volatile char *)map)[i * 4096] = 1;
	rings_disable(&self->rings);

	for (int i = 0; i < 2; i++) {
		while (ring_next_type(&self->rings.ring[i], self->record, PERF_RECORD_SAMPLE)) {
			parse_sample(self->record, &sample);
			deferred[i] += !!sample_cookie(&sample);
			in_place[i] += sample_part(&sample, PERF_CONTEXT_USER, &nr) >= 0;
		}
	}
	EXPECT_LE(64, deferred[deferring]);
	EXPECT_EQ(0, in_place[deferring]);
	EXPECT_EQ(0, deferred[!deferring]);
	EXPECT_LE(64, in_place[!deferring]);
}

TEST_F(delivery, software_event_and_one_that_defers)
{
	two_software_events(_metadata, self, 1);
}

TEST_F(delivery, software_event_that_defers_and_one_that_does_not)
{
	two_software_events(_metadata, self, 0);
}

TEST_HARNESS_MAIN
