// SPDX-License-Identifier: GPL-2.0
/*
 * Detached events of tasks that migrate, fork, execute files and are killed, while their names are
 * used and removed, and while memory ends. Nothing is left, and no task lacks an event unsaid.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../walk/inject.h"
#include "detaching.h"
#include "files.h"
#include "harness.h"
#include "random.h"

#define VICTIMS		3
#define ROUNDS		600
#define MAX_FAULTS	2000
#define EXECUTED	"UNWIND_EXECUTED"

FIXTURE(detached) DETACHED_FIXTURE;
FIXTURE_SETUP(detached) DETACHED_SETUP
FIXTURE_TEARDOWN(detached) DETACHED_TEARDOWN

/* Executed by a victim, this program has nothing to do. */
static void __attribute__((constructor)) executed(void)
{
	if (getenv(EXECUTED)) {
		spin(false);
		_exit(0);
	}
}

static void execute_self(void)
{
	setenv(EXECUTED, "1", true);
	execl("/proc/self/exe", "executed", NULL);
	_exit(1);
}

static void *short_main(void *data)
{
	spin(false);
	return NULL;
}

/* Threads, children, and children that execute a file, which come and go. */
static void victim_main(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	raise(SIGSTOP);
	for (;;) {
		pthread_t thread;
		pid_t pid;

		if (pthread_create(&thread, NULL, short_main, NULL))
			continue;
		pid = rnd_below(2) ? fork() : vfork();
		if (!pid)
			execute_self();
		pid = fork();
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			spin(false);
			_exit(0);
		}
		pthread_join(thread, NULL);
		while (wait(NULL) > 0)
			;
	}
}

/* Start a victim with an event whose descriptor is closed. Returns its pid, or -1. */
static pid_t start_victim(const struct perf_event_attr *attr, __u64 stream)
{
	pid_t pid = fork();
	int status, fd;

	if (!pid) {
		fuzz_reseed(stream);
		victim_main();
	}
	if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status))
		return -1;
	fd = open_detached(attr, pid);
	if (fd >= 0)
		close(fd);
	kill(pid, SIGCONT);
	return pid;
}

/* Use an event by its name: its buffer, its information and its end. */
static void use_name(const char *name)
{
	struct perf_event_detached_info info = { .size = sizeof(info) };
	int fd = open(name, O_RDWR | O_CLOEXEC);
	struct perf_event_mmap_page *map;

	if (fd < 0)
		return;
	map = map_event(fd, PROT_READ);
	ioctl(fd, PERF_EVENT_IOC_DETACHED_INFO, &info);
	if (map) {
		count_type(map, PERF_RECORD_SAMPLE);
		munmap(map, (1 + PAGES) * PAGE);
	}
	if (one_in(4))
		ioctl(fd, PERF_EVENT_IOC_REATTACH, 0);
	if (one_in(4))
		detach_pages(fd, PAGES);
	if (one_in(4))
		ioctl(fd, one_in(2) ? PERF_EVENT_IOC_DISABLE : PERF_EVENT_IOC_ENABLE, 0);
	close(fd);
}

/* Wait until all that was detached is given back: then one may have one more. */
static bool all_ended(const struct perf_event_attr *attr)
{
	set_sysctl(SYSCTL_MAX, 1);
	for (int i = 0; i < 6000; i++) {
		int fd;

		remove_names();
		fd = open_detached(attr, 0);
		if (fd >= 0) {
			close(fd);
			return remove_names() == 1;
		}
		if (fd != -EDQUOT)
			return false;
		usleep(10000);
	}
	return false;
}

TEST_F(detached, storm)
{
	struct perf_event_attr attr = inherit_attr();
	pid_t pid[VICTIMS] = {};

	fuzz_start();
	set_sysctl(SYSCTL_MAX, 1000);
	for (int i = 0; i < ROUNDS; i++) {
		pid_t *victim = &pid[rnd_below(VICTIMS)];

		usleep(1000);
		if (*victim && one_in(20)) {
			kill(*victim, SIGKILL);
			EXPECT_EQ(*victim, waitpid(*victim, NULL, 0));
			*victim = 0;
		}
		if (!*victim) {
			*victim = start_victim(&attr, i);
			ASSERT_LT(0, *victim);
		}
		run_on(*victim, rnd_below(2));
		if (names(self->name, sizeof(self->name))) {
			if (one_in(3))
				unlink(self->name);
			else
				use_name(self->name);
		}
	}
	for (int i = 0; i < VICTIMS; i++) {
		if (pid[i]) {
			kill(pid[i], SIGKILL);
			EXPECT_EQ(pid[i], waitpid(pid[i], NULL, 0));
		}
	}
	EXPECT_TRUE(all_ended(&attr));
}

/* Names of tasks are recorded where the kernel may not sleep, too. */
TEST_F(detached, executes_a_descriptor)
{
	struct perf_event_attr attr = inherit_attr();
	struct perf_event_mmap_page *map;
	pid_t pid = fork();
	int fd;

	if (!pid) {
		int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		raise(SIGSTOP);
		setenv(EXECUTED, "1", true);
		fexecve(file, (char *[]){ "executed", NULL }, environ);
		_exit(1);
	}
	ASSERT_EQ(pid, waitpid(pid, NULL, WUNTRACED));
	attr.config = PERF_COUNT_SW_DUMMY;
	attr.write_backward = 0;
	attr.comm = 1;
	fd = open_detached(&attr, pid);
	ASSERT_LE(0, fd);
	map = map_event(fd, PROT_READ);
	ASSERT_NE(NULL, map);
	kill(pid, SIGCONT);
	EXPECT_EQ(pid, waitpid(pid, NULL, 0));
	EXPECT_TRUE(wait_for_end(map));
	EXPECT_EQ(1, count_type(map, PERF_RECORD_COMM) + info_of(map)->lost);
	munmap(map, (1 + PAGES) * PAGE);
	close(fd);
	EXPECT_EQ(1, remove_names());
}

/* A fork that fails after the child has inherited an event leaves nothing. */
TEST_F(detached, fork_that_fails)
{
	static const char root[] = "/sys/fs/cgroup";
	struct perf_event_detached_info info = { .size = sizeof(info) };
	struct perf_event_attr attr = inherit_attr();
	char cgroup[80];
	int fd, status;
	pid_t pid;

	if (file_print(root, "cgroup.subtree_control", "+pids"))
		SKIP(return, "needs the pids controller of cgroup2 on %s", root);
	snprintf(cgroup, sizeof(cgroup), "%s/unwind-detached-%d", root, getpid());
	ASSERT_EQ(0, mkdir(cgroup, 0755));
	ASSERT_EQ(0, file_print(cgroup, "pids.max", "1"));
	fd = open_detached(&attr, 0);
	ASSERT_LE(0, fd);
	pid = fork();
	if (!pid) {
		int failed = 0;

		if (file_print(cgroup, "cgroup.procs", "0"))
			_exit(100);
		for (int i = 0; i < 50; i++)
			failed += fork() < 0 && errno == EAGAIN;
		_exit(failed);
	}
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(50, WEXITSTATUS(status));
	EXPECT_EQ(2, wait_for_names(2));
	EXPECT_EQ(0, ioctl(fd, PERF_EVENT_IOC_DETACHED_INFO, &info));
	EXPECT_EQ(0, info.inherit_failures);
	close(fd);
	EXPECT_TRUE(all_ended(&attr));
	EXPECT_EQ(0, rmdir(cgroup));
}

/* Let failures hit what a function allocates, and its callees. */
static bool fail_in(const char *function)
{
	unsigned long begin, end;

	return kernel_function(function, &begin, &end) && set_filters(begin, end);
}

/* Fork a child that ends at once. Returns whether there was one. */
static int fork_once(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	if (pid < 0)
		return 0;
	waitpid(pid, NULL, 0);
	return 1;
}

/* An allocation that fails is an error of the caller, or a task without an event, counted. */
TEST_F(detached, memory_ends)
{
	struct perf_event_detached_info info = { .size = sizeof(info) };
	struct perf_event_attr attr = inherit_attr();
	int nth, forked = 0, fd, ret;
	bool unused;

	if (!set_knobs())
		SKIP(return, INJECT_NEEDS);
	set_sysctl(SYSCTL_MAX, 10000);
	set_sysctl(SYSCTL_KEEP, 10000);
	ASSERT_TRUE(arm_init());
	for (nth = 1; nth < MAX_FAULTS; nth++) {
		fd = perf_open(&attr, 0, -1, -1, PERF_FLAG_DETACHED);
		ASSERT_LE(0, fd);
		arm(nth);
		ret = detach_pages(fd, PAGES);
		unused = disarm();
		/* The copy of the argument may fail as well. */
		if (ret && ret != -EFAULT)
			EXPECT_EQ(-ENOMEM, ret);
		close(fd);
		EXPECT_EQ(!ret, remove_names());
		if (unused)
			break;
	}
	EXPECT_EQ(0, ret);
	TH_LOG("%d failures of a detach", nth - 1);

	/* Others would be failures of the whole fork, with messages. */
	ASSERT_TRUE(fail_in("perf_event_init_task"));
	/* An event that nobody has detached, of which a fork has the context of a child alone. */
	fd = perf_open(&attr, 0, -1, -1, PERF_FLAG_DETACHED);
	ASSERT_LE(0, fd);
	arm(1);
	EXPECT_EQ(1, fork_once());
	EXPECT_FALSE(disarm());
	close(fd);

	fd = open_detached(&attr, 0);
	ASSERT_LE(0, fd);
	for (nth = 1; nth < MAX_FAULTS; nth++) {
		arm(nth);
		forked += fork_once();
		if (disarm())
			break;
	}
	TH_LOG("%d failures of a fork, %d succeeded", nth - 1, forked);
	/* When children run for the first time. */
	ASSERT_TRUE(fail_in("detached_pin_work") && set_probability("10") && take_failures(true));
	for (int i = 0; i < 100; i++)
		forked += fork_once();
	take_failures(false);
	clear_filters();
	restore_knobs();
	/* All have run. A fork that fails may have failed to inherit before. */
	EXPECT_EQ(0, ioctl(fd, PERF_EVENT_IOC_DETACHED_INFO, &info));
	ret = 1 + forked - info.inherit_failures;
	EXPECT_LE(ret, wait_for_names(ret));
	EXPECT_LT(0, info.inherit_failures);
	TH_LOG("%llu lack an event", info.inherit_failures);
	close(fd);
	EXPECT_TRUE(all_ended(&attr));
}

TEST_HARNESS_MAIN
