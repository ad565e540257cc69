// SPDX-License-Identifier: GPL-2.0
/*
 * For make bench: what it costs to give all tasks data of a PMU, and to take them back.
 *
 *   bench-attach TASKS
 *
 * Starts threads until there are TASKS more, and opens two events of a CPU with a branch stack.
 * Prints the nanoseconds, which are instructions if the machine's clock counts these, of the first
 * open, the second open, and an event that comes and goes, time and again; of the start and end of
 * a thread before the events come and while they are there; how many tasks have no data before,
 * with and after the events, and how many kilobytes of objects the kernel has.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* How often all tasks get data and lose it. */
#define CYCLES		20

/* Threads whose start and end are measured, and their stacks' size. */
#define THREADS		100
#define STACK		16384

static pthread_attr_t small;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static unsigned long now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000UL + ts.tv_nsec;
}

static void *wait_forever(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void *end(void *unused)
{
	return unused;
}

static pthread_t start(void *(*what)(void *))
{
	pthread_t thread;

	if (pthread_create(&thread, &small, what, NULL))
		die("pthread_create");
	return thread;
}

/* The mean cost of a thread's start and end. */
static unsigned long thread_cost(void)
{
	unsigned long begin = now();

	for (int i = 0; i < THREADS; i++) {
		if (pthread_join(start(end), NULL))
			die("pthread_join");
	}
	return (now() - begin) / THREADS;
}

static int pmu_type(void)
{
	FILE *file = fopen("/sys/bus/event_source/devices/perf_test/type", "r");
	int type;

	if (!file || fscanf(file, "%d", &type) != 1)
		die("perf_test");
	fclose(file);
	return type;
}

/* An event that takes no samples; sets what it cost. */
static int open_event(int type, bool branches, unsigned long *cost)
{
	struct perf_event_attr attr = {
		.type = type,
		.size = sizeof(attr),
		.config = 1,
		.sample_period = 1000000,
		.disabled = 1,
	};
	unsigned long begin;
	int fd;

	if (branches) {
		attr.sample_type = PERF_SAMPLE_BRANCH_STACK;
		attr.branch_sample_type = PERF_SAMPLE_BRANCH_USER |
					  PERF_SAMPLE_BRANCH_CALL_STACK;
	}
	begin = now();
	fd = syscall(SYS_perf_event_open, &attr, branches ? -1 : 0, branches ? 0 : -1, -1, 0);
	*cost = now() - begin;
	if (fd < 0)
		die("perf_event_open");
	return fd;
}

/*
 * The mean cost of giving all tasks data and of taking them back. What is taken back is freed after
 * a grace period, in a later cycle.
 */
static unsigned long cycle_cost(int type)
{
	unsigned long begin = now(), unused;

	for (int i = 0; i < CYCLES; i++)
		close(open_event(type, true, &unused));
	return (now() - begin) / CYCLES;
}

/* Read a number that follows @what in a file. */
static unsigned long number(const char *path, const char *what)
{
	FILE *file = fopen(path, "r");
	unsigned long value;
	char line[256];

	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, what, strlen(what)) ||
		    sscanf(line + strlen(what), "%lu", &value) != 1)
			continue;
		fclose(file);
		return value;
	}
	die(path);
	return 0;
}

/* How many tasks have no data. */
static unsigned long tasks_without(void)
{
	return number("/sys/kernel/debug/perf_test/lacking", "");
}

/* Kilobytes of the kernel's objects that cannot be reclaimed. */
static unsigned long memory(void)
{
	/* Objects are freed after a grace period, and counted each second. */
	sleep(2);
	return number("/proc/meminfo", "SUnreclaim:");
}

int main(int argc, char **argv)
{
	unsigned long first, second, cycle, without, with, without_data[3], kb[3];
	int type = pmu_type(), fd[2];

	if (argc != 2)
		return 2;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, STACK);
	for (int i = atoi(argv[1]); i; i--)
		start(wait_forever);

	/* The first event of all patches the scheduler's code. */
	open_event(type, false, &first);
	without = thread_cost();
	without_data[0] = tasks_without();
	kb[0] = memory();
	fd[0] = open_event(type, true, &first);
	without_data[1] = tasks_without();
	kb[1] = memory();
	fd[1] = open_event(type, true, &second);
	with = thread_cost();
	close(fd[1]);
	close(fd[0]);
	without_data[2] = tasks_without();
	kb[2] = memory();
	cycle = cycle_cost(type);
	printf("%lu %lu %lu %lu %lu %lu %lu %lu %lu %lu %lu\n", first, second, cycle, without, with,
	       without_data[0], without_data[1], without_data[2], kb[0], kb[1], kb[2]);
	exit(0);
}
