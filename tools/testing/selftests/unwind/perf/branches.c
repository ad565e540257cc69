// SPDX-License-Identifier: GPL-2.0
/*
 * Tasks that record their calls in the branch stack of perf_test, and the samples that show it;
 * and how often the kernel allocates and frees objects for that.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "branches.h"

#define PERIOD_NS	100000
/* One turn of so many lasts for longer than a period. */
#define LONG_TURNS	8
#define PERCENT		"kernel/perf_cpu_time_max_percent"
#define FILES		"/sys/kernel/debug/perf_test/"

/* Samples have these fields, and the number of branches with three words each. */
#define SAMPLE_TYPE	(PERF_SAMPLE_TID | PERF_SAMPLE_CPU | PERF_SAMPLE_BRANCH_STACK)

/* The addresses of a task's calls. */
static __u64 from(unsigned int who, unsigned int depth)
{
	return 0x100000ULL * (who + 1) + depth;
}

bool set_file(const char *name, const char *value)
{
	char path[128];
	bool done;
	int fd;

	snprintf(path, sizeof(path), FILES "%s", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	done = fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value);
	if (fd >= 0)
		close(fd);
	return done;
}

long get_file(const char *name)
{
	char path[128];
	long value = -1;
	FILE *file;

	snprintf(path, sizeof(path), FILES "%s", name);
	file = fopen(path, "r");
	if (!file)
		return -1;
	if (fscanf(file, "%ld", &value) != 1)
		value = -1;
	fclose(file);
	return value;
}

struct perf_event_attr branch_attr(const char *pmu)
{
	return (struct perf_event_attr) {
		.type		= pmu_type(pmu),
		.size		= sizeof(struct perf_event_attr),
		.config		= 1,	/* the timer is on the same CPU */
		.sample_period	= PERIOD_NS,
		.sample_type	= SAMPLE_TYPE,
		.branch_sample_type = PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_CALL_STACK,
	};
}

int filtered_open(struct perf_event_attr *attr, int cpu, const char *filter)
{
	int fd;

	attr->type = PERF_TYPE_TRACEPOINT;
	attr->size = sizeof(*attr);
	attr->disabled = 1;
	fd = perf_open(attr, -1, cpu, -1, 0);
	if (fd < 0)
		return -1;
	if (ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filter) || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0)) {
		close(fd);
		return -1;
	}
	return fd;
}

bool count_open(int fd[2], const char *tracepoint, const char *filter)
{
	struct perf_event_attr attr = { .config = tracepoint_id(tracepoint) };

	for (int cpu = 0; cpu < 2; cpu++) {
		fd[cpu] = filtered_open(&attr, cpu, filter);
		if (fd[cpu] < 0)
			return false;
	}
	return true;
}

long counted(const int fd[2])
{
	long sum = 0;
	__u64 value;

	for (int cpu = 0; cpu < 2; cpu++) {
		if (read(fd[cpu], &value, sizeof(value)) != sizeof(value))
			return -1;
		sum += value;
	}
	return sum;
}

void count_close(const int fd[2])
{
	for (int cpu = 0; cpu < 2; cpu++)
		close(fd[cpu]);
}

void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		_exit(1);
}

bool record_calls(int branches, unsigned int who)
{
	for (unsigned int i = 0; i < DEPTH; i++) {
		__u64 call[] = { from(who, i), from(who, i) + 8 };

		if (write(branches, call, sizeof(call)) != sizeof(call))
			return false;
	}
	return true;
}

static __s64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

/* Work until the timer that takes samples has expired in this task. */
static void work(void)
{
	__s64 end = now_ns() + 2 * PERIOD_NS;

	while (now_ns() < end)
		;
}

bool take_turns(struct turns *turns, unsigned int who)
{
	unsigned int turn = 0;
	char byte = 0;

	turns->tid[who] = gettid();
	if (!record_calls(turns->branches, who))
		return false;
	turns->ready[who] = 1;
	while (!turns->stop && !turns->leave) {
		/* Else turns and samples may fall into step, and one task gets all samples. */
		if (turn++ % LONG_TURNS == 0)
			work();
		if (write(turns->pipes[!who][1], &byte, 1) != 1 ||
		    read(turns->pipes[who][0], &byte, 1) != 1)
			return false;
	}
	/* The other one may still be waiting. */
	return write(turns->pipes[!who][1], &byte, 1) == 1;
}

pid_t start_turns(struct turns *turns, unsigned int who)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run_on(turns->cpu);
	_exit(!take_turns(turns, who));
}

bool renew_turns(struct turns *turns)
{
	turns->leave = 0;
	turns->stop = 0;
	turns->ready[0] = 0;
	turns->ready[1] = 0;
	for (int i = 0; i < 2; i++) {
		for (int end = 0; end < 2; end++)
			close(turns->pipes[i][end]);
		if (pipe(turns->pipes[i]))
			return false;
	}
	return true;
}

void count_sample(const struct turns *turns, unsigned int who, const union record *record,
		  struct count *count)
{
	const __u64 *word = record->words + 1, *entries = word + 3;
	__u64 nr = word[2];
	bool own = true;

	if ((pid_t)(word[0] >> 32) != turns->tid[who])
		return;
	for (__u64 i = 0; i < nr; i++)
		own &= nr <= turns->depth && entries[3 * i] == from(who, DEPTH - 1 - i);
	if (!nr)
		count->none++;
	else if (own && nr == turns->depth)
		count->whole++;
	else
		count->other++;
}

bool has_foreign(const struct turns *turns, const union record *record)
{
	const __u64 *word = record->words + 1, *entries = word + 3;
	pid_t tid = word[0] >> 32;
	unsigned int who = 0;
	bool foreign = false;

	/* Other tasks, such as the idle one, have no calls at all. */
	while (who < 2 && tid != turns->tid[who])
		who++;
	for (__u64 i = 0; i < word[2]; i++)
		foreign |= entries[3 * i] - from(who, 0) >= DEPTH;
	return foreign;
}

unsigned int all(const struct count *count)
{
	return count->whole + count->none + count->other;
}

void count_turns(struct turns *turns, struct ring *ring, union record *record,
		 struct count *count, int nr)
{
	bool enough = false;

	memset(count, 0, nr * sizeof(*count));
	for (int i = 0; i < 3000 && !enough; i++) {
		usleep(10000);
		while (ring_next_type(ring, record, PERF_RECORD_SAMPLE)) {
			for (int who = 0; who < nr; who++)
				count_sample(turns, who, record, &count[who]);
		}
		enough = true;
		for (int who = 0; who < nr; who++)
			enough &= all(&count[who]) >= ENOUGH;
	}
}

bool is_ready(struct turns *turns, unsigned int who)
{
	for (int i = 0; i < 3000 && !turns->ready[who]; i++)
		usleep(10000);
	return turns->ready[who];
}

bool both_ready(struct turns *turns, struct ring *ring)
{
	bool ready = is_ready(turns, 0) && is_ready(turns, 1);

	ring_drain(ring);
	return ready;
}

struct turns *turns_init(int *percent, const char **why)
{
	struct turns *turns;

	*why = "needs CONFIG_PERF_TEST_PMU";
	if (pmu_type("perf_test") < 0)
		return NULL;
	*why = "needs root and debugfs";
	*percent = set_sysctl(PERCENT, 0);
	turns = mmap(NULL, sizeof(*turns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	if (*percent < 0 || turns == MAP_FAILED)
		return NULL;
	turns->branches = open(FILES "branches", O_WRONLY);
	if (turns->branches < 0 || pipe(turns->pipes[0]) || pipe(turns->pipes[1]))
		return NULL;
	turns->depth = DEPTH;
	/* Leave the CPU of the tasks to them. */
	run_on(1);
	return turns;
}

void turns_exit(struct turns *turns, int percent)
{
	set_file("scheme", "0");
	if (percent > 0)
		set_sysctl(PERCENT, percent);
	munmap(turns, sizeof(*turns));
}
