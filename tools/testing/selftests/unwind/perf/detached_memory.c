// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of detached events that are inherited: it may be swapped out while nothing writes there,
 * is in no huge pages, and is charged once, to the control group of the task.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "detaching.h"
#include "files.h"
#include "harness.h"
#include "swap.h"

FIXTURE(detached) DETACHED_FIXTURE;
FIXTURE_SETUP(detached) DETACHED_SETUP
FIXTURE_TEARDOWN(detached) DETACHED_TEARDOWN

/* A thread that sleeps, and how far it is. */
struct sleeper {
	pid_t		tid;
	int		pipe[2];
	atomic_uint	ran;
};

static void *sleeper_main(void *data)
{
	struct sleeper *sleeper = data;
	char byte;

	sleeper->tid = gettid();
	touch();
	sleeper->ran = 1;
	/* To wake from time to time would pin the buffer. */
	if (read(sleeper->pipe[0], &byte, 1) != 1)
		return NULL;
	touch();
	sleeper->ran = 2;
	return NULL;
}

static void *greedy_main(void *data)
{
	struct sleeper *sleeper = data;

	while (sleeper->ran < 2)
		spin(false);
	return NULL;
}

static bool has_run(struct sleeper *sleeper, unsigned int ran)
{
	for (int i = 0; i < 6000 && sleeper->ran < ran; i++)
		usleep(10000);
	return sleeper->ran >= ran;
}

/* How much of a mapping is on the swap device, in kB; -1 on failure. */
static int kb_swapped(const void *map)
{
	FILE *file = fopen("/proc/self/smaps", "r");
	bool found = false;
	char line[256];
	int kb = -1;

	while (file && kb < 0 && fgets(line, sizeof(line), file)) {
		unsigned long start, end;

		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			found = start == (unsigned long)map;
		else if (found)
			sscanf(line, "Swap: %d", &kb);
	}
	if (file)
		fclose(file);
	return kb;
}

/* Swap a mapping out, which needs that nothing has pinned it. Returns whether all of it is. */
static bool swap_out(void *map, unsigned int pages)
{
	const int kb = pages * PAGE / 1024;

	for (int i = 0; i < 3000; i++) {
		/* Only pages that are mapped are swapped out. */
		for (unsigned int page = 0; page < pages; page++)
			*(volatile char *)(map + page * PAGE);
		if (madvise(map, pages * PAGE, MADV_PAGEOUT))
			return false;
		if (kb_swapped(map) == kb)
			return true;
		usleep(10000);
	}
	return false;
}

/*
 * The buffer of a thread that sleeps can be swapped out once other threads have run on its CPU,
 * and has the same records afterwards. When the thread runs again, there are more.
 */
TEST_F(detached, swapped_out)
{
	struct perf_event_attr attr = fault_attr();
	const unsigned int size = (1 + PAGES) * PAGE;
	struct sleeper sleeper = {};
	struct perf_event_mmap_page *map;
	pthread_t thread, greedy;
	void *copy;
	__u64 head;
	int fd;

	if (!have_swap())
		SKIP(return, "needs swap");
	/* All of them run on one CPU. */
	ASSERT_EQ(0, run_on(0, 0));
	ASSERT_EQ(0, pipe(sleeper.pipe));
	fd = open_detached(&attr, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pthread_create(&thread, NULL, sleeper_main, &sleeper));
	ASSERT_TRUE(has_run(&sleeper, 1));
	ASSERT_EQ(0, pthread_create(&greedy, NULL, greedy_main, &sleeper));
	EXPECT_EQ(3, wait_for_names(3));
	map = map_thread(getpid(), sleeper.tid);
	ASSERT_NE(NULL, map);
	copy = malloc(size);
	ASSERT_TRUE(swap_out(map, 1 + PAGES));
	memcpy(copy, map, size);
	EXPECT_TRUE(any_in_spin(map));
	head = map->data_head;
	ASSERT_TRUE(swap_out(map, 1 + PAGES));
	EXPECT_EQ(0, memcmp(copy, map, size));
	ASSERT_TRUE(swap_out(map, 1 + PAGES));
	ASSERT_EQ(1, write(sleeper.pipe[1], "", 1));
	ASSERT_TRUE(has_run(&sleeper, 2));
	pthread_join(thread, NULL);
	EXPECT_TRUE(wait_for_end(map));
	/* It is written backward. */
	EXPECT_GT(head, map->data_head);
	EXPECT_EQ(0, info_of(map)->lost);
	EXPECT_EQ(0, info_of(map)->pin_failures);
	pthread_join(greedy, NULL);
	munmap(map, size);
	free(copy);
	close(fd);
	EXPECT_EQ(3, remove_names());
}

#define HUGE_DIR	"/sys/kernel/mm/transparent_hugepage"

/* A buffer is in small pages, also where all other shared memory is in huge ones. */
TEST_F(detached, in_small_pages)
{
	struct perf_event_attr attr = inherit_attr();
	char old[128], *chosen;
	long before;
	int fd, ret;

	if (file_get(HUGE_DIR "/shmem_enabled", old, sizeof(old)) ||
	    file_print(HUGE_DIR, "shmem_enabled", "always"))
		SKIP(return, "needs huge pages of shared memory");
	/* The one in brackets. */
	chosen = strtok(strchr(old, '[') + 1, "]");
	before = file_number("/proc", "meminfo", "Shmem:");
	fd = open_detached(&attr, 0);
	spin(false);
	/* In kB. */
	EXPECT_GT(1024, file_number("/proc", "meminfo", "Shmem:") - before);
	ret = file_print(HUGE_DIR, "shmem_enabled", "%s", chosen);
	EXPECT_EQ(0, ret);
	ASSERT_LE(0, fd);
	close(fd);
	EXPECT_EQ(1, remove_names());
}

#define CGROUP_ROOT	"/sys/fs/cgroup"
#define CHARGED_TASKS	16
#define CHARGED_PAGES	64U
#define CHARGED_BYTES	(long)(CHARGED_TASKS * (1 + CHARGED_PAGES) * PAGE)

/* A process in a control group, with children, which all run, and end when it is told. */
static int charged_main(const char *cgroup, int ready, int end)
{
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (file_print(cgroup, "cgroup.procs", "0"))
		return 1;
	raise(SIGSTOP);
	for (int i = 1; i < CHARGED_TASKS; i++) {
		if (!fork())
			break;
	}
	spin(false);
	if (write(ready, "", 1) != 1)
		return 1;
	while (read(end, &byte, 1) < 0)
		;
	while (wait(NULL) > 0)
		;
	return 0;
}

/* Wait until a control group has no more than @bytes. Returns what it has. */
static long wait_for_memory(const char *cgroup, long bytes)
{
	long have = file_number(cgroup, "memory.current", NULL);

	for (int i = 0; i < 3000 && have > bytes; i++) {
		usleep(10000);
		have = file_number(cgroup, "memory.current", NULL);
	}
	return have;
}

/* The pages are charged to the tasks' control group, once, and it gets back what it had. */
TEST_F(detached, charged_once)
{
	struct perf_event_attr attr = inherit_attr();
	int ready[2], end[2], fd, status;
	char cgroup[80], byte;
	long before, during;
	pid_t pid;

	if (file_print(CGROUP_ROOT, "cgroup.subtree_control", "+memory"))
		SKIP(return, "needs the memory controller of cgroup2 on %s", CGROUP_ROOT);
	snprintf(cgroup, sizeof(cgroup), CGROUP_ROOT "/unwind-detached-%d", getpid());
	ASSERT_EQ(0, mkdir(cgroup, 0755));
	ASSERT_EQ(0, pipe(ready) | pipe(end));
	pid = fork();
	if (!pid) {
		close(end[1]);
		_exit(charged_main(cgroup, ready[1], end[0]));
	}
	ASSERT_EQ(pid, waitpid(pid, &status, WUNTRACED));
	ASSERT_TRUE(WIFSTOPPED(status));
	before = file_number(cgroup, "memory.current", NULL);
	fd = open_pages(&attr, pid, CHARGED_PAGES);
	ASSERT_LE(0, fd);
	kill(pid, SIGCONT);
	for (int i = 0; i < CHARGED_TASKS; i++)
		ASSERT_EQ(1, read(ready[0], &byte, 1));
	EXPECT_EQ(CHARGED_TASKS, wait_for_names(CHARGED_TASKS));
	during = file_number(cgroup, "memory.current", NULL);
	close(end[1]);
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	close(fd);
	EXPECT_EQ(CHARGED_TASKS, remove_names());
	TH_LOG("%ld, then %ld bytes", before, during);
	EXPECT_LE(before + CHARGED_BYTES, during);
	/* Some are kept for each CPU. */
	EXPECT_GE(before + CHARGED_BYTES / 4, wait_for_memory(cgroup, before + CHARGED_BYTES / 4));
	EXPECT_EQ(0, rmdir(cgroup));
}

TEST_HARNESS_MAIN
