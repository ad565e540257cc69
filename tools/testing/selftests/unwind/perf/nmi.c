// SPDX-License-Identifier: GPL-2.0
/*
 * Request unwinds from NMI by the events of the PMU perf_test: each cookie gets its
 * record, and callchains and registers are correct.
 */
#define _GNU_SOURCE
#include <asm/perf_regs.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "perf_ring.h"
#include "workload.h"
#include "harness.h"

/* Long enough for an emulated CPU to do other work as well. */
#define PERIOD_NS	250000
#define DEPTH		10U
#define PERCENT		"kernel/perf_cpu_time_max_percent"
/* Time alone does not guarantee samples: the machine may be slow. AT_MOST ends waits in vain. */
#define SECONDS		2
#define AT_MOST		120
#define ENOUGH		(300ULL * PERIOD_NS)
#define HITS		500
/* Few where samples of other tasks fill the buffers, too. */
#define FEW_HITS	100
#define BIT_OF(reg)	(1ULL << (reg))

enum { REMOTE, SELF };

FIXTURE(nmi) {
	struct perf_event_attr attr;
	union record *record;
	struct ring ring;
	int percent;
};

FIXTURE_VARIANT(nmi) {
	int mode;
};

FIXTURE_VARIANT_ADD(nmi, remote) { .mode = REMOTE };
FIXTURE_VARIANT_ADD(nmi, self) { .mode = SELF };

FIXTURE_SETUP(nmi)
{
	int type = pmu_type("perf_test");

	if (type < 0)
		SKIP(return, "needs CONFIG_PERF_TEST_PMU");
	self->attr = software_attr(variant->mode);
	self->attr.type = type;
	self->attr.sample_period = PERIOD_NS;
	self->record = malloc(sizeof(*self->record));
	if (variant->mode == REMOTE && sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two CPUs");
	/* Do not throttle for the cost of samples under emulation. */
	self->percent = set_sysctl(PERCENT, 0);
	if (self->percent < 0)
		SKIP(return, "needs root");
}

FIXTURE_TEARDOWN(nmi)
{
	free(self->record);
	if (self->percent > 0)
		set_sysctl(PERCENT, self->percent);
}

/* Has the test run long enough since @begin, and has @fd counted @ns of periods? */
static bool enough(int fd, __u64 ns, time_t begin)
{
	time_t now = time(NULL);
	__u64 count = 0;

	if (now < begin + SECONDS)
		return false;
	return !ns || now >= begin + AT_MOST ||
	       (read(fd, &count, sizeof(count)) == sizeof(count) && count >= ns);
}

/* The number of NMIs on all CPUs. */
static unsigned long nmis(void)
{
	FILE *file = fopen("/proc/interrupts", "r");
	unsigned long sum = 0, count;
	char line[4096], *at;
	int used;

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		if (!strstr(line, "NMI:"))
			continue;
		at = strchr(line, ':') + 1;
		for (; sscanf(at, "%lu%n", &count, &used) == 1; at += used)
			sum += count;
	}
	fclose(file);
	return sum;
}

/* System calls from DEPTH callers, each its own kernel entry. */
static void some_calls(void)
{
	for (int i = 0; i < 200; i++)
		workload_syscall(DEPTH, SYS_getppid);
}

static void busy(int fd, __u64 ns)
{
	time_t begin = time(NULL);

	while (!enough(fd, ns, begin))
		some_calls();
}

#define EXPECT_ALL_MATCHED(tally) do {						\
	TH_LOG("%u samples, %u deferred, %u records, %u empty, %u lost",	\
	       (tally).samples, (tally).deferred, (tally).records,		\
	       (tally).empty, (tally).lost);					\
	EXPECT_LT(100, (tally).deferred);					\
	EXPECT_EQ(0, (tally).lost);						\
	EXPECT_EQ((tally).deferred, (tally).matched);				\
	EXPECT_EQ(0, (tally).foreign);						\
	EXPECT_EQ(0, (tally).duplicate);					\
	EXPECT_EQ(0, (tally).empty);						\
} while (0)

/* A child that is busy from a byte written to @go until *stop is set. */
struct child {
	pid_t		pid;
	int		go;
	atomic_bool	*stop;
};

static int fork_busy(struct child *child)
{
	int fds[2];
	char c;

	child->stop = mmap(NULL, sizeof(*child->stop), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (child->stop == MAP_FAILED || pipe(fds))
		return -1;
	child->pid = fork();
	if (!child->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (read(fds[0], &c, 1) == 1) {
			while (!*child->stop)
				some_calls();
		}
		_exit(0);
	}
	close(fds[0]);
	child->go = fds[1];
	return child->pid < 0 ? -1 : 0;
}

static unsigned int hits(const struct rings *rings, pid_t tid)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < rings->nr; i++)
		nr += ring_count_samples(&rings->ring[i], tid);
	return nr;
}

/* Let the child run until it has been hit so often, then end it. */
static bool run_busy(struct child *child, const struct rings *rings, unsigned int nr)
{
	time_t end = time(NULL) + AT_MOST;
	bool ran = write(child->go, "", 1) == 1;

	while (ran && hits(rings, child->pid) < nr && time(NULL) < end)
		usleep(10000);
	*child->stop = true;
	close(child->go);
	ran = waitpid(child->pid, NULL, 0) == child->pid && ran;
	munmap(child->stop, sizeof(*child->stop));
	return ran;
}

/* The child ends before the event does, so no record is missing. */
TEST_F(nmi, per_task)
{
	unsigned long before = nmis();
	struct rings rings = {};
	struct child child;
	struct tally tally;

	ASSERT_EQ(0, fork_busy(&child));
	ASSERT_EQ(0, rings_open(&rings, &self->attr, child.pid, -1, 2048));
	rings_enable(&rings);
	ASSERT_TRUE(run_busy(&child, &rings, HITS));
	tally_rings(&tally, rings.ring, rings.nr, child.pid);
	EXPECT_ALL_MATCHED(tally);
	/* One NMI serves all events that are due. */
	EXPECT_LE(tally.samples, nmis() - before);
	rings_close(&rings);
}

TEST_F(nmi, cpu_wide)
{
	struct rings rings = {};
	struct child child;
	struct tally tally;

	ASSERT_EQ(0, fork_busy(&child));
	for (int cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN); cpu++)
		ASSERT_EQ(0, rings_open(&rings, &self->attr, -1, cpu, 2048));
	rings_enable(&rings);
	ASSERT_TRUE(run_busy(&child, &rings, FEW_HITS));
	rings_disable(&rings);
	/* The parent gets samples in the system calls that end the run. */
	tally_rings(&tally, rings.ring, rings.nr, child.pid);
	TH_LOG("%u samples, %u deferred, %u lost", tally.samples, tally.deferred, tally.lost);
	EXPECT_EQ(0, tally.lost);
	EXPECT_LT(50, tally.deferred);
	EXPECT_EQ(tally.deferred, tally.matched);
	rings_close(&rings);
}

/* In a system call the whole chain is known. In user mode only a tail of it is. */
TEST_F(nmi, right_chains)
{
	const struct deferred *deferred = as_deferred(self->record);
	unsigned int whole = 0, records = 0;

	ASSERT_EQ(0, ring_open(&self->ring, &self->attr, 0, -1, 2048));
	ring_enable(&self->ring);
	busy(self->ring.fd, ENOUGH);
	ring_disable(&self->ring);
	while (ring_next_type(&self->ring, self->record, PERF_RECORD_CALLCHAIN_DEFERRED)) {
		records++;
		ASSERT_LE(1, deferred->nr);
		if (!workload_is_leaf(deferred->ips[0]))
			continue;
		EXPECT_EQ(-1, workload_check_head(deferred->ips, WORKLOAD_NR(DEPTH), DEPTH));
		whole++;
	}
	TH_LOG("%u records, %u of them in the system call", records, whole);
	EXPECT_LT(20, whole);
	ring_close(&self->ring);
}

extern const char __executable_start[], etext[];

/* Only another CPU's NMI can hit code that runs with interrupts disabled. */
TEST_F(nmi, entry_code)
{
	unsigned long begin = kernel_symbol("__entry_text_start");
	unsigned long end = kernel_symbol("__entry_text_end");
	time_t give_up = time(NULL) + AT_MOST;
	unsigned int samples = 0, in_entry = 0;
	struct sample sample;
	__u64 nr;
	int at;

	if (!begin)
		SKIP(return, "needs CONFIG_KALLSYMS");
	ASSERT_LT(begin, end);
	ASSERT_EQ(0, ring_open(&self->ring, &self->attr, 0, -1, 2048));
	/* Entry code is a small part of a system call: go on until a sample is there. */
	for (int i = 1; i == 1 || (variant->mode == REMOTE && !in_entry && time(NULL) < give_up);
	     i++) {
		ring_enable(&self->ring);
		busy(self->ring.fd, i * ENOUGH);
		ring_disable(&self->ring);
		while (ring_next_type(&self->ring, self->record, PERF_RECORD_SAMPLE)) {
			parse_sample(self->record, &sample);
			samples++;
			at = sample_part(&sample, PERF_CONTEXT_KERNEL, &nr);
			in_entry += at >= 0 && nr && sample.ips[at] >= begin &&
				    sample.ips[at] < end;
		}
	}
	TH_LOG("%u samples, %u of them in the entry code", samples, in_entry);
	EXPECT_LT(20, samples);
	if (variant->mode == REMOTE) {
		EXPECT_LT(0, in_entry);
	} else {
		EXPECT_EQ(0, in_entry);
	}
	ring_close(&self->ring);
}

/* User registers of a program in user mode: ip in this program, sp on its stack. */
TEST_F(nmi, user_registers)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	unsigned int samples = 0, in_program = 0;
	time_t begin = time(NULL);
	const __u64 *regs;
	struct sample sample;

	/* In self mode the NMI always hits the kernel, in the timer interrupt. */
	self->attr.exclude_kernel = variant->mode == REMOTE;
	self->attr.sample_type |= PERF_SAMPLE_REGS_USER;
	self->attr.sample_regs_user = BIT_OF(PERF_REG_X86_IP) | BIT_OF(PERF_REG_X86_SP);
	ASSERT_EQ(0, ring_open(&self->ring, &self->attr, 0, -1, 2048));
	ring_enable(&self->ring);
	while (!enough(self->ring.fd, ENOUGH, begin)) {
		for (volatile int i = 0; i < 1000000; i++)
			;
	}
	ring_disable(&self->ring);

	while (ring_next_type(&self->ring, self->record, PERF_RECORD_SAMPLE)) {
		parse_sample(self->record, &sample);
		/* The ABI, then the registers of the mask, lowest first: sp, ip. */
		regs = sample.ips + sample.nr;
		ASSERT_EQ(PERF_SAMPLE_REGS_ABI_64, regs[0]);
		EXPECT_GT(1 << 20, labs((long)(here - regs[1])));
		in_program += regs[2] >= (uintptr_t)__executable_start &&
			      regs[2] < (uintptr_t)etext;
		samples++;
	}
	TH_LOG("%u samples, %u of them in the program", samples, in_program);
	EXPECT_LT(20, samples);
	/* The other samples are in the vDSO or the C library. */
	EXPECT_LT(samples / 2, in_program);
	ring_close(&self->ring);
}

/* No period that an ioctl sets may starve the task or stop all samples. */
TEST_F(nmi, any_period)
{
	/* The long one first: an NMI for an earlier event may arrive during the next one. */
	static const __u64 periods[] = { 1ULL << 62, 1, PERIOD_NS };
	struct tally tally;

	for (unsigned int i = 0; i < ARRAY_SIZE(periods); i++) {
		ASSERT_EQ(0, ring_open(&self->ring, &self->attr, 0, -1, 64));
		ASSERT_EQ(0, ioctl(self->ring.fd, PERF_EVENT_IOC_PERIOD, &periods[i]));
		ring_enable(&self->ring);
		busy(self->ring.fd, periods[i] > PERIOD_NS ? 0 : 20 * PERIOD_NS);
		ring_disable(&self->ring);
		tally_rings(&tally, &self->ring, 1, 0);
		TH_LOG("period %llu: %u samples", periods[i], tally.samples);
		if (periods[i] > PERIOD_NS) {
			EXPECT_EQ(0, tally.samples);
		} else {
			EXPECT_LT(0, tally.samples);
			EXPECT_LT(0, tally.matched);
		}
		ring_close(&self->ring);
	}
}

TEST_F(nmi, bad_attrs)
{
	struct perf_event_attr attr = self->attr;

	attr.config = 2;
	EXPECT_EQ(-EINVAL, perf_open(&attr, 0, -1, -1, 0));
	attr = self->attr;
	attr.config1 = 1;
	EXPECT_EQ(-EINVAL, perf_open(&attr, 0, -1, -1, 0));
	attr = self->attr;
	attr.sample_period = 0;
	EXPECT_EQ(-EINVAL, perf_open(&attr, 0, -1, -1, 0));
	attr = self->attr;
	attr.sample_type |= PERF_SAMPLE_BRANCH_STACK;
	attr.branch_sample_type = PERF_SAMPLE_BRANCH_ANY;
	EXPECT_EQ(-EOPNOTSUPP, perf_open(&attr, 0, -1, -1, 0));
}

#define EVENTS	20

/* The number of events that have counted and have waited for a slot. */
static unsigned int took_turns(const int fd[EVENTS])
{
	struct { __u64 count, enabled, running; } val;
	unsigned int turns = 0;

	for (unsigned int i = 0; i < EVENTS; i++) {
		if (read(fd[i], &val, sizeof(val)) != sizeof(val) || val.running > val.enabled)
			return 0;
		turns += val.count && val.running && val.running < val.enabled;
	}
	return turns;
}

/* More events than there are slots take turns, and each gets to count. */
TEST_F(nmi, many_events)
{
	struct perf_event_attr attr = self->attr;
	time_t begin = time(NULL);
	int fd[EVENTS];

	attr.disabled = 0;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	for (unsigned int i = 0; i < EVENTS; i++) {
		fd[i] = perf_open(&attr, 0, -1, -1, 0);
		ASSERT_LE(0, fd[i]);
	}
	do {
		busy(-1, 0);
	} while (took_turns(fd) < EVENTS && time(NULL) < begin + AT_MOST);
	EXPECT_EQ(EVENTS, took_turns(fd));
	for (unsigned int i = 0; i < EVENTS; i++)
		close(fd[i]);
}

/* Take, use and release slots over and over: the last event still counts. */
TEST_F(nmi, come_and_go)
{
	struct perf_event_attr attr = self->attr;
	int fd[EVENTS], last;
	__u64 count = 0;

	attr.disabled = 0;
	for (int round = 0; round < 20; round++) {
		for (unsigned int i = 0; i < ARRAY_SIZE(fd); i++) {
			fd[i] = perf_open(&attr, 0, -1, -1, 0);
			ASSERT_LE(0, fd[i]);
		}
		for (int i = 0; i < 3; i++)
			some_calls();
		for (unsigned int i = 0; i < ARRAY_SIZE(fd); i++)
			close(fd[i]);
	}
	last = perf_open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, last);
	busy(last, PERIOD_NS);
	ASSERT_EQ(sizeof(count), read(last, &count, sizeof(count)));
	EXPECT_LT(0, count);
	close(last);
}

TEST_HARNESS_MAIN
