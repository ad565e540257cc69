// SPDX-License-Identifier: GPL-2.0
/*
 * Detached events that are inherited: each task has its own, with a buffer that is in RAM while
 * the task runs. No record is lost unsaid.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "detaching.h"
#include "hang.h"
#include "harness.h"

#define MAX_THREADS	200

FIXTURE(detached) DETACHED_FIXTURE;
FIXTURE_SETUP(detached) DETACHED_SETUP
FIXTURE_TEARDOWN(detached) DETACHED_TEARDOWN

/* Threads of a child: what they do, and how far they are; in shared memory. */
struct team {
	unsigned int	nr;
	bool		crash;
	uid_t		uid;
	atomic_uint	started;
	atomic_uint	ran;
	atomic_bool	end;
	pid_t		tid[MAX_THREADS];
	int		pipe[2];
};

static struct team *team_init(unsigned int nr)
{
	struct team *team = mmap(NULL, sizeof(*team), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (team == MAP_FAILED || pipe(team->pipe))
		return NULL;
	team->nr = nr;
	return team;
}

/* Sleep until the team ends. */
static void team_wait(struct team *team)
{
	char byte;

	while (read(team->pipe[0], &byte, 1) < 0)
		;
}

/* Sleep for ever, in a system call from a known place. */
static __attribute__((noinline)) void sleep_here(void)
{
	long nr = SYS_pause;

	asm volatile("syscall\n"
		     ".globl	sleeps_here\n"
		     "sleeps_here:" : "+a" (nr) : : "rcx", "r11", "memory");
}

extern const char sleeps_here[];

static void *team_main(void *data)
{
	struct team *team = data;

	touch();
	team->tid[atomic_fetch_add(&team->started, 1)] = gettid();
	atomic_fetch_add(&team->ran, 1);
	if (team->crash)
		sleep_here();
	team_wait(team);
	return NULL;
}

static void end_team(struct team *team)
{
	close(team->pipe[1]);
}

/* Wait to be told, start the threads, and let them end, or crash. */
static pid_t start_team(struct team *team)
{
	pthread_t threads[MAX_THREADS];
	pid_t pid = fork();

	if (pid)
		return pid;
	if (team->uid)
		become(team->uid);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(team->pipe[1]);
	raise(SIGSTOP);
	for (unsigned int i = 0; i < team->nr; i++) {
		if (pthread_create(&threads[i], NULL, team_main, team))
			_exit(1);
	}
	team_wait(team);
	if (team->crash)
		spin(true);
	for (unsigned int i = 0; i < team->nr; i++)
		pthread_join(threads[i], NULL);
	_exit(0);
}

/* Detach an event of a team that waits, and let it run until all threads have done their work. */
static int record_team(pid_t pid, struct team *team, const struct perf_event_attr *attr)
{
	int status, fd;

	if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status))
		return -ECHILD;
	fd = open_detached(attr, pid);
	if (fd < 0)
		return fd;
	kill(pid, SIGCONT);
	for (int i = 0; i < 6000 && team->ran < team->nr; i++)
		usleep(10000);
	return team->ran == team->nr ? fd : -ETIME;
}

/* Each thread has an event of its own, with its own samples, while it lives and afterwards. */
TEST_F(detached, of_each_thread)
{
	struct perf_event_attr attr = fault_attr();
	struct team *team = team_init(MAX_THREADS);
	pid_t pid;
	int fd;

	ASSERT_NE(NULL, team);
	set_sysctl(SYSCTL_MAX, 1000);
	set_sysctl(SYSCTL_KEEP, 1000);
	pid = start_team(team);
	fd = record_team(pid, team, &attr);
	ASSERT_LE(0, fd);
	EXPECT_EQ(1 + MAX_THREADS, wait_for_names(1 + MAX_THREADS));
	for (int ended = 0; ended < 2; ended++) {
		for (unsigned int i = 0; i < MAX_THREADS; i++) {
			struct perf_event_mmap_page *map = map_thread(pid, team->tid[i]);
			const struct perf_event_detached_info *info;

			ASSERT_NE(NULL, map) TH_LOG("thread %u, ended %d", i, ended);
			info = info_of(map);
			EXPECT_EQ(ended ? PERF_EVENT_DETACHED_EXITED : PERF_EVENT_DETACHED_LIVE,
				  info->state);
			EXPECT_EQ(team->tid[i], info->tid);
			EXPECT_EQ(pid, info->pid);
			EXPECT_TRUE(any_in_spin(map));
			munmap(map, (1 + PAGES) * PAGE);
		}
		if (ended)
			break;
		end_team(team);
		EXPECT_EQ(pid, waitpid(pid, NULL, 0));
	}
	close(fd);
	EXPECT_EQ(1 + MAX_THREADS, remove_names());
}

/*
 * A process with threads crashes: the newest sample of the faulting thread is at its instruction,
 * and those of the others are in the system call in which they sleep.
 */
TEST_F(detached, of_threads_that_crash)
{
	struct perf_event_attr attr = inherit_attr();
	struct perf_event_mmap_page *map;
	struct team *team = team_init(4);
	int fd, status;
	pid_t pid;

	ASSERT_NE(NULL, team);
	attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
	attr.defer_callchain = 1;
	attr.defer_output = 1;
	team->crash = true;
	pid = start_team(team);
	fd = record_team(pid, team, &attr);
	ASSERT_LE(0, fd);
	EXPECT_EQ(5, wait_for_names(5));
	for (unsigned int i = 0; i < team->nr; i++)
		EXPECT_TRUE(wait_for_sleep(pid, team->tid[i]));
	end_team(team);
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	map = map_thread(pid, pid);
	ASSERT_NE(NULL, map);
	EXPECT_EQ((__u64)(unsigned long)spin_fault, newest_ip(map));
	EXPECT_EQ(PERF_RECORD_CALLCHAIN_DEFERRED, newest_type(map));
	EXPECT_EQ(status, info_of(map)->exit_code);
	munmap(map, (1 + PAGES) * PAGE);
	for (unsigned int i = 0; i < team->nr; i++) {
		map = map_thread(pid, team->tid[i]);
		ASSERT_NE(NULL, map);
		EXPECT_EQ((__u64)(unsigned long)sleeps_here, newest_ip(map));
		/* Its callers, unless another thread took its place just before. */
		EXPECT_TRUE(newest_type(map) == PERF_RECORD_CALLCHAIN_DEFERRED ||
			    info_of(map)->lost);
		munmap(map, (1 + PAGES) * PAGE);
	}
	close(fd);
	EXPECT_EQ(5, remove_names());
}

/* Tasks beyond what a user may have lack an event, run all the same, and are counted. */
TEST_F(detached, of_too_many_threads)
{
	struct perf_event_detached_info info = { .size = sizeof(info) };
	struct perf_event_attr attr = inherit_attr();
	struct team *team = team_init(20);
	int fd, nr, status;
	pid_t pid;

	ASSERT_NE(NULL, team);
	set_sysctl(SYSCTL_MAX, 8);
	pid = start_team(team);
	fd = record_team(pid, team, &attr);
	ASSERT_LE(0, fd);
	/* All that lack an event are counted: they ran. Events of other tests may still end. */
	EXPECT_EQ(0, ioctl(fd, PERF_EVENT_IOC_DETACHED_INFO, &info));
	nr = 1 + team->nr - info.inherit_failures;
	EXPECT_GE(8, nr);
	EXPECT_LT(1, nr);
	EXPECT_EQ(nr, wait_for_names(nr));
	end_team(team);
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	close(fd);
	EXPECT_EQ(nr, remove_names());
}

/* Tasks inherit what their owner may record, whatever they may themselves. */
TEST_F(detached, of_threads_of_a_user)
{
	struct perf_event_detached_info info = { .size = sizeof(info) };
	struct perf_event_attr attr = inherit_attr();
	struct team *team = team_init(2);
	int paranoid, fd;
	pid_t pid;

	ASSERT_NE(NULL, team);
	attr.type = PERF_TYPE_TRACEPOINT;
	attr.config = tracepoint_id("sched/sched_switch");
	ASSERT_LE(0, (int)attr.config);
	attr.sample_type |= PERF_SAMPLE_RAW;
	team->uid = NOBODY;
	paranoid = set_sysctl("kernel/perf_event_paranoid", 2);
	pid = start_team(team);
	fd = record_team(pid, team, &attr);
	set_sysctl("kernel/perf_event_paranoid", paranoid);
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, ioctl(fd, PERF_EVENT_IOC_DETACHED_INFO, &info));
	EXPECT_EQ(0, info.inherit_failures);
	EXPECT_EQ(3, wait_for_names(3));
	end_team(team);
	EXPECT_EQ(pid, waitpid(pid, NULL, 0));
	close(fd);
	EXPECT_EQ(3, remove_names());
}

static void *busy_main(void *data)
{
	struct team *team = data;

	team->tid[atomic_fetch_add(&team->started, 1)] = gettid();
	atomic_fetch_add(&team->ran, 1);
	while (!team->end)
		spin(false);
	return NULL;
}

/* Threads that take turns on CPUs take buffers from each other, and lose no sample. */
TEST_F(detached, of_busy_threads)
{
	struct perf_event_detached_info info = { .size = sizeof(info) };
	struct perf_event_attr attr = inherit_attr();
	struct team *team = team_init(8);
	pthread_t threads[8];
	int fd;

	ASSERT_NE(NULL, team);
	fd = open_detached(&attr, 0);
	ASSERT_LE(0, fd);
	for (int i = 0; i < 8; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, busy_main, team));
	/* Migrate them all the time. */
	for (int i = 0; i < 500; i++) {
		usleep(1000);
		if (team->ran == 8)
			run_on(team->tid[i / 2 % 8], i % 2);
	}
	EXPECT_EQ(0, ioctl(fd, PERF_EVENT_IOC_DETACHED_INFO, &info));
	team->end = true;
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	TH_LOG("%llu pins, %llu unpins", info.pins, info.unpins);
	EXPECT_LT(16, info.pins);
	/* Some may have gone between the two counts. */
	EXPECT_GE(sysconf(_SC_NPROCESSORS_CONF), (long)(info.pins - info.unpins));
	EXPECT_EQ(0, info.pin_failures);
	EXPECT_EQ(9, wait_for_names(9));
	for (int i = 0; i < 8; i++) {
		struct perf_event_mmap_page *map = map_thread(getpid(), team->tid[i]);

		ASSERT_NE(NULL, map);
		EXPECT_TRUE(wait_for_end(map));
		EXPECT_EQ(0, info_of(map)->lost);
		EXPECT_TRUE(any_in_spin(map));
		munmap(map, (1 + PAGES) * PAGE);
	}
	close(fd);
	EXPECT_EQ(9, remove_names());
}

/* A thread that sleeps in the kernel on one CPU, and wakes on the other one. */
struct mover {
	void			(*sleep)(char *page);
	struct hanging_stack	hang;
	pid_t			tid;
};

static void *mover_main(void *data)
{
	struct mover *mover = data;

	mover->tid = gettid();
	mover->sleep(mover->hang.page);
	return NULL;
}

/* Let such a thread run with an event, to its end. Returns its buffer, or NULL. */
static struct perf_event_mmap_page *record_mover(const struct perf_event_attr *attr,
						 void (*sleep)(char *page))
{
	struct mover mover = { .sleep = sleep };
	struct perf_event_mmap_page *map = NULL;
	pthread_t thread;
	int fd;

	/* The thread has not run on the other CPU before, so its buffer is not there. */
	if (run_on(0, 0))
		return NULL;
	fd = open_detached(attr, 0);
	if (fd < 0)
		return NULL;
	if (!hanging_stack_init(&mover.hang) &&
	    !pthread_create(&thread, NULL, mover_main, &mover)) {
		wait_for_fault(mover.hang.uffd);
		if (!run_on(mover.tid, 1) && !hanging_stack_resolve(&mover.hang)) {
			pthread_join(thread, NULL);
			wait_for_names(2);
			map = map_thread(getpid(), mover.tid);
		}
	}
	close(fd);
	return map;
}

static void sleep_in_prctl(char *page)
{
	prctl(PR_SET_NAME, page);
}

/* The kernel writes a record where its task goes on after it slept: nothing is lost. */
TEST_F(detached, named_after_a_sleep)
{
	struct perf_event_attr attr = inherit_attr();
	struct perf_event_mmap_page *map;

	attr.config = PERF_COUNT_SW_DUMMY;
	attr.write_backward = 0;
	attr.comm = 1;
	map = record_mover(&attr, sleep_in_prctl);
	ASSERT_NE(NULL, map);
	EXPECT_TRUE(wait_for_end(map));
	EXPECT_EQ(1, count_type(map, PERF_RECORD_COMM));
	EXPECT_EQ(0, info_of(map)->lost);
	munmap(map, (1 + PAGES) * PAGE);
	EXPECT_EQ(2, remove_names());
}

/* Count on a stack whose callers are in memory that is missing. */
static void sleep_in_walk(char *page)
{
	unsigned long count = 20000000;

	asm volatile("mov	%%rsp, %%r13\n\t"
		     "mov	%%rbp, %%r12\n\t"
		     "lea	-256(%[page]), %%rsp\n\t"
		     "mov	%[page], %%rbp\n"
		     "1:	dec	%[count]\n\t"
		     "jnz	1b\n\t"
		     "mov	%%r12, %%rbp\n\t"
		     "mov	%%r13, %%rsp"
		     : [count] "+r" (count) : [page] "r" (page) : "r12", "r13", "memory", "cc");
}

/* A walk sleeps in a page fault, and its task goes on elsewhere: its record is not lost. */
TEST_F(detached, walked_after_a_sleep)
{
	struct perf_event_attr attr = inherit_attr();
	struct perf_event_mmap_page *map;

	attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
	attr.defer_callchain = 1;
	attr.defer_output = 1;
	map = record_mover(&attr, sleep_in_walk);
	ASSERT_NE(NULL, map);
	EXPECT_TRUE(wait_for_end(map));
	EXPECT_LT(0, count_type(map, PERF_RECORD_CALLCHAIN_DEFERRED));
	EXPECT_EQ(0, info_of(map)->lost);
	munmap(map, (1 + PAGES) * PAGE);
	EXPECT_EQ(2, remove_names());
}

/* What only the whole, shared, read-only mapping of the buffer can be. */
TEST_F(detached, refused)
{
	struct perf_event_attr attr = inherit_attr(), other = attr;
	struct perf_event_mmap_page *map;
	int fd;

	other.exclude_kernel = 0;
	EXPECT_EQ(-EINVAL, perf_open(&other, 0, -1, -1, PERF_FLAG_DETACHED));
	fd = perf_open(&attr, 0, -1, -1, PERF_FLAG_DETACHED);
	ASSERT_LE(0, fd);
	EXPECT_EQ(NULL, map_event(fd, PROT_READ));
	EXPECT_EQ(0, ioctl(fd, PERF_EVENT_IOC_ENABLE, 0));
	EXPECT_EQ(-EINVAL, detach_pages(fd, PAGES));
	EXPECT_EQ(0, ioctl(fd, PERF_EVENT_IOC_DISABLE, 0));
	ASSERT_EQ(0, detach_pages(fd, PAGES));
	EXPECT_EQ(-1, ioctl(fd, PERF_EVENT_IOC_SET_FILTER, "filter /foo"));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(NULL, map_event(fd, PROT_READ | PROT_WRITE));
	EXPECT_EQ(NULL, map_pages(fd, PROT_READ, PAGES / 2));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, (1 + PAGES) * PAGE, PROT_READ, MAP_PRIVATE, fd, 0));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, PAGE));
	map = map_event(fd, PROT_READ);
	ASSERT_NE(NULL, map);
	EXPECT_EQ(-1, mprotect(map, PAGE, PROT_READ | PROT_WRITE));
	/* This maps the file with its pages, not the event. */
	syscall(SYS_remap_file_pages, map, (1 + PAGES) * PAGE, 0, 0, 0);
	EXPECT_EQ(-1, mprotect(map, PAGE, PROT_READ | PROT_WRITE));
	EXPECT_EQ(-1, madvise(map, (1 + PAGES) * PAGE, MADV_REMOVE));
	EXPECT_EQ(PAGE, map->data_offset);
	EXPECT_EQ(PAGES * PAGE, map->data_size);
	EXPECT_EQ(PERF_EVENT_DETACHED_LIVE, info_of(map)->state);
	munmap(map, (1 + PAGES) * PAGE);
	close(fd);
	EXPECT_EQ(1, remove_names());
}

TEST_HARNESS_MAIN
