// SPDX-License-Identifier: GPL-2.0
/*
 * For make bench: what it costs to give all tasks data of a PMU, and to take them back.
 *
 *   bench-attach TASKS
 *   bench-attach plain|branches COMMAND...
 *
 * Starts threads until there are TASKS more, and opens two events of a CPU with a branch stack.
 * Prints the nanoseconds, which are instructions if the machine's clock counts these, of the first
 * open, the second open, and an event that comes and goes, time and again; of the start and end of
 * a thread before the events come, while they are there, and at most while the first open is amid
 * the tasks; how many tasks have no data before, with and after the events, and how many kilobytes
 * of objects the kernel has.
 *
 * Or opens an event of a CPU that takes no samples, without or with a branch stack, and becomes the
 * command, which keeps the event.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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

/* The cost of starts and ends of threads. */
static unsigned long thread_cost(int nr)
{
	unsigned long begin = now();

	for (int i = 0; i < nr; i++) {
		if (pthread_join(start(end), NULL))
			die("pthread_join");
	}
	return now() - begin;
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

/* An event of a CPU or of this task that takes no samples; sets what it cost. */
static int open_event(int type, bool branches, bool cpu, unsigned long *cost)
{
	struct perf_event_attr attr = {
		.type = type,
		.size = sizeof(attr),
		.config = 1,
		.sample_period = 1UL << 40,
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
	fd = syscall(SYS_perf_event_open, &attr, cpu ? -1 : 0, cpu ? 0 : -1, -1, 0);
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
		close(open_event(type, true, true, &unused));
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

/*
 * The greatest cost of a thread's start and end that begin while the first open is amid the tasks,
 * in a process that the scheduler keeps waiting. Returns 0 if the open was over before.
 */
static unsigned long cost_amid(int type)
{
	unsigned long most = 0, lack, cost;
	pid_t opener;

	/* Until former data is freed. */
	sleep(2);
	lack = tasks_without();
	opener = fork();
	if (opener < 0)
		die("fork");
	if (!opener) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setpriority(PRIO_PROCESS, 0, 19);
		open_event(type, true, true, &cost);
		wait_forever(NULL);
	}
	/* The opener is one more. */
	for (int i = 0; i < 100000 && tasks_without() >= lack; i++)
		usleep(50);
	for (int i = 0; i < 10 && tasks_without(); i++) {
		cost = thread_cost(1);
		if (cost > most)
			most = cost;
	}
	kill(opener, SIGKILL);
	waitpid(opener, NULL, 0);
	return most;
}

/* Run a command while there is an event, though no task records calls. */
static int with_event(int type, char **argv)
{
	bool branches = !strcmp(argv[1], "branches");
	unsigned long unused;
	int fd = open_event(type, branches, true, &unused);

	if (ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		die("PERF_EVENT_IOC_ENABLE");
	execvp(argv[2], argv + 2);
	die(argv[2]);
	return 1;
}

int main(int argc, char **argv)
{
	unsigned long first, second, cycle, without, with, amid = 0;
	unsigned long without_data[3], kb[3];
	int type = pmu_type(), fd[2];

	if (argc > 2)
		return with_event(type, argv);
	if (argc != 2)
		return 2;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, STACK);
	for (int i = atoi(argv[1]); i; i--)
		start(wait_forever);

	/* The first event of all patches the scheduler's code. */
	open_event(type, false, false, &first);
	without = thread_cost(THREADS) / THREADS;
	without_data[0] = tasks_without();
	kb[0] = memory();
	fd[0] = open_event(type, true, true, &first);
	without_data[1] = tasks_without();
	kb[1] = memory();
	fd[1] = open_event(type, true, true, &second);
	with = thread_cost(THREADS) / THREADS;
	close(fd[1]);
	close(fd[0]);
	without_data[2] = tasks_without();
	kb[2] = memory();
	cycle = cycle_cost(type);
	for (int i = 0; i < CYCLES && !amid; i++)
		amid = cost_amid(type);
	printf("%lu %lu %lu %lu %lu %lu %lu %lu %lu %lu %lu %lu\n", first, second, cycle, without,
	       with, amid, without_data[0], without_data[1], without_data[2], kb[0], kb[1], kb[2]);
	exit(0);
}
