// SPDX-License-Identifier: GPL-2.0
/*
 * The branch stacks of tasks that take turns are kept over context switches, whatever events ask
 * for them, and never show another task's calls. perf_test in arch/x86/events has such a stack,
 * in which a program records its calls itself.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "branches.h"
#include "harness.h"

FIXTURE(branches) BRANCHES_FIXTURE;
FIXTURE_SETUP(branches) BRANCHES_SETUP
FIXTURE_TEARDOWN(branches) BRANCHES_TEARDOWN

/* Two tasks take turns on a CPU that an event counts on. */
TEST_F(branches, of_two_tasks)
{
	struct perf_event_attr attr = branch_attr("perf_test");
	struct turns *turns = self->turns;
	pid_t pid[2];

	ASSERT_EQ(0, ring_open(&self->ring, &attr, -1, 0, 64));
	for (int who = 0; who < 2; who++)
		pid[who] = start_turns(turns, who);
	ASSERT_TRUE(both_ready(turns, &self->ring));
	EXPECT_BOTH_WHOLE(self, pid);
}

/* Samples may be taken amid a context switch, too: they never show the other task's calls. */
TEST_F(branches, of_two_tasks_amid_switches)
{
	struct perf_event_attr attr = branch_attr("perf_test");
	struct turns *turns = self->turns;
	unsigned int nr = 0, foreign = 0;
	pid_t pid[2];

	/* The timer is on another CPU. */
	attr.config = 0;
	ASSERT_EQ(0, ring_open(&self->ring, &attr, -1, 0, 64));
	for (int who = 0; who < 2; who++)
		pid[who] = start_turns(turns, who);
	ASSERT_TRUE(both_ready(turns, &self->ring));
	for (int i = 0; i < 3000 && nr < 100 * ENOUGH; i++) {
		usleep(10000);
		while (ring_next_type(&self->ring, self->record, PERF_RECORD_SAMPLE)) {
			nr++;
			foreign += has_foreign(turns, self->record);
		}
	}
	turns->stop = 1;
	EXPECT_LE(100 * ENOUGH, nr);
	EXPECT_EQ(0, foreign);
	for (int who = 0; who < 2; who++)
		EXPECT_EXIT(pid[who], 0);
}

/* Events of two PMUs with objects of different sizes: each keeps its own. */
TEST_F(branches, of_two_pmus)
{
	struct perf_event_attr attr = branch_attr("perf_test");
	struct perf_event_attr small = branch_attr("perf_test2");
	struct turns *turns = self->turns;
	struct count count[2];
	struct ring ring;
	pid_t pid[2];

	ASSERT_EQ(0, ring_open(&self->ring, &attr, -1, 0, 64));
	ASSERT_EQ(0, ring_open(&ring, &small, -1, 0, 64));
	for (int who = 0; who < 2; who++)
		pid[who] = start_turns(turns, who);
	ASSERT_TRUE(both_ready(turns, &self->ring));
	ring_drain(&ring);
	count_turns(turns, &self->ring, self->record, count, 2);
	EXPECT_ALL_WHOLE(count, 2);
	turns->depth = SMALL_DEPTH;
	count_turns(turns, &ring, self->record, count, 2);
	EXPECT_ALL_WHOLE(count, 2);
	ring_close(&ring);
	turns->stop = 1;
	for (int who = 0; who < 2; who++)
		EXPECT_EXIT(pid[who], 0);
}

#define CGROUPS	"/sys/fs/cgroup"

/* Write a file of a cgroup; false on failure. */
static bool set_cgroup(int dir, const char *name, const char *value)
{
	int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value);

	if (fd >= 0)
		close(fd);
	return done;
}

/* Tasks of two cgroups with an event each: at each turn, one event stops and the other starts. */
TEST_F(branches, of_two_cgroups)
{
	static const char * const names[] = { CGROUPS "/turns0", CGROUPS "/turns1" };
	struct perf_event_attr attr = branch_attr("perf_test");
	int root = open(CGROUPS, O_DIRECTORY | O_CLOEXEC), dir;
	struct count count[2] = {}, strays = {};
	struct turns *turns = self->turns;
	struct ring rings[2];
	pid_t pid[2];

	/* The first controller that is enabled brings perf_event along. */
	if (!set_cgroup(root, "cgroup.subtree_control", "+pids") ||
	    !set_cgroup(root, "cgroup.procs", "0"))
		SKIP(return, "needs cgroup2 in " CGROUPS);
	for (int who = 0; who < 2; who++) {
		ASSERT_EQ(0, mkdir(names[who], 0755));
		dir = open(names[who], O_DIRECTORY | O_CLOEXEC);
		ASSERT_EQ(0, ring_open_cgroup(&rings[who], &attr, dir, 0, 64));
		ASSERT_TRUE(set_cgroup(dir, "cgroup.procs", "0"));
		pid[who] = start_turns(turns, who);
		close(dir);
	}
	EXPECT_TRUE(set_cgroup(root, "cgroup.procs", "0"));
	ASSERT_TRUE(both_ready(turns, &rings[0]));
	ring_drain(&rings[1]);
	for (int i = 0; i < 3000 && (all(&count[0]) < ENOUGH || all(&count[1]) < ENOUGH); i++) {
		usleep(10000);
		for (int who = 0; who < 2; who++) {
			while (ring_next_type(&rings[who], self->record, PERF_RECORD_SAMPLE)) {
				count_sample(turns, who, self->record, &count[who]);
				count_sample(turns, !who, self->record, &strays);
			}
		}
	}
	turns->stop = 1;
	EXPECT_ALL_WHOLE(count, 2);
	EXPECT_EQ(0, all(&strays));
	for (int who = 0; who < 2; who++) {
		EXPECT_EXIT(pid[who], 0);
		ring_close(&rings[who]);
		EXPECT_EQ(0, rmdir(names[who]));
	}
	EXPECT_TRUE(set_cgroup(root, "cgroup.subtree_control", "-pids"));
	close(root);
}

struct thread {
	struct turns	*turns;
	unsigned int	who;
	bool		done;
};

static void *turns_thread(void *data)
{
	struct thread *thread = data;

	run_on(0);
	thread->done = take_turns(thread->turns, thread->who);
	return NULL;
}

/*
 * Let two threads of this process take turns, which inherit its event, and with @small one of the
 * other PMU, whose samples are in the second half of @count then. False on failure.
 */
static bool count_threads(struct turns *turns, struct ring *ring, struct ring *small,
			  union record *record, struct count *count)
{
	struct perf_event_attr attr = branch_attr("perf_test");
	struct perf_event_attr other = branch_attr("perf_test2");
	struct thread threads[2];
	pthread_t ids[2];
	bool done;

	attr.inherit = 1;
	other.inherit = 1;
	if (ring_open(ring, &attr, 0, 0, 64) || (small && ring_open(small, &other, 0, 0, 64)))
		return false;
	for (int who = 0; who < 2; who++) {
		threads[who] = (struct thread) { .turns = turns, .who = who };
		if (pthread_create(&ids[who], NULL, turns_thread, &threads[who]))
			return false;
	}
	done = both_ready(turns, ring);
	count_turns(turns, ring, record, count, 2);
	if (small) {
		ring_drain(small);
		turns->depth = SMALL_DEPTH;
		count_turns(turns, small, record, count + 2, 2);
	}
	turns->stop = 1;
	for (int who = 0; who < 2; who++)
		done &= !pthread_join(ids[who], NULL) && threads[who].done;
	return done;
}

/*
 * Threads that take turns swap their event contexts, and so each counts with the events of the
 * other one.
 */
TEST_F(branches, of_threads)
{
	struct count count[2];

	ASSERT_TRUE(count_threads(self->turns, &self->ring, NULL, self->record, count));
	EXPECT_ALL_WHOLE(count, 2);
}

/* The swapped contexts have events of two PMUs: each holds the data of its own PMU. */
TEST_F(branches, of_threads_and_two_pmus)
{
	struct count count[4];
	struct ring small;

	ASSERT_TRUE(count_threads(self->turns, &self->ring, &small, self->record, count));
	EXPECT_ALL_WHOLE(count, 4);
	ring_close(&small);
}

/* Linux 6.15 counts users in the data of the event's task. */
TEST_F(branches, of_threads_in_6_15)
{
	struct count count[2];

	ASSERT_TRUE(set_file("scheme", "1"));
	ASSERT_TRUE(count_threads(self->turns, &self->ring, NULL, self->record, count));
	EXPECT_LT(0, count[0].none + count[1].none);
}

/* Wait until this process has no other thread; false if it takes too long. */
static bool is_alone(void)
{
	char path[32], state = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", getpid());
	for (int i = 0; i < 3000 && state != 'Z'; i++) {
		FILE *file = fopen(path, "r");

		if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
			_exit(1);
		fclose(file);
		usleep(10000);
	}
	return state == 'Z';
}

/* Take turns in a thread after the first one of its process has ended, and the test says so. */
static void *lone_thread(void *data)
{
	struct thread *thread = data;
	struct turns *turns = thread->turns;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	turns->ready[0] = is_alone();
	if (read(turns->pipes[0][0], &byte, 1) != 1)
		_exit(1);
	turns_thread(thread);
	_exit(!thread->done);
}

/* An event finds a thread that outlived the first one of its process. */
TEST_F(branches, thread_after_its_process)
{
	struct perf_event_attr attr = branch_attr("perf_test");
	struct turns *turns = self->turns;
	struct thread thread = { .turns = turns };
	pthread_t id;
	pid_t pid[2];

	pid[0] = fork();
	if (!pid[0]) {
		if (!pthread_create(&id, NULL, lone_thread, &thread))
			pthread_exit(NULL);
		_exit(1);
	}
	ASSERT_TRUE(is_ready(turns, 0));
	ASSERT_EQ(0, ring_open(&self->ring, &attr, -1, 0, 64));
	EXPECT_EQ(0, get_file("lacking"));
	turns->ready[0] = 0;
	ASSERT_EQ(1, write(turns->pipes[0][1], "", 1));
	pid[1] = start_turns(turns, 1);
	ASSERT_TRUE(both_ready(turns, &self->ring));
	EXPECT_BOTH_WHOLE(self, pid);
}

/* Take turns until task 1 leaves, and task 0 goes on alone. */
static bool turn_or_leave(struct turns *turns, unsigned int who)
{
	alarm(120);
	if (!take_turns(turns, who))
		return false;
	while (!who && !turns->stop) {
		for (int i = 0; i < 1000; i++)
			getppid();
		usleep(100);
	}
	return true;
}

/* Wait for a byte, and let two children take turns; they get to the test when this exits. */
static bool start_two(struct turns *turns, unsigned int first)
{
	char byte;

	run_on(turns->cpu);
	if (read(turns->pipes[0][0], &byte, 1) != 1)
		return false;
	for (int i = 0; i < 2; i++) {
		if (!fork())
			_exit(!turn_or_leave(turns, i ? !first : first));
	}
	return is_ready(turns, 0) && is_ready(turns, 1);
}

/*
 * Tasks that take turns swap their contexts. One that exits has the events of another one, which
 * keeps its data. It depends on the order of the switches which task has whose events.
 */
TEST_F(branches, of_task_that_stays)
{
	struct perf_event_attr attr = branch_attr("perf_test");
	struct turns *turns = self->turns;
	struct count count[2];
	pid_t pid;

	attr.inherit = 1;
	ASSERT_EQ(0, prctl(PR_SET_CHILD_SUBREAPER, 1));
	for (int round = 0; round < 4; round++) {
		ASSERT_TRUE(renew_turns(turns));
		pid = fork();
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			_exit(!start_two(turns, round % 2));
		}
		ASSERT_EQ(0, ring_open(&self->ring, &attr, pid, turns->cpu, 64));
		ASSERT_EQ(1, write(turns->pipes[0][1], "", 1));
		EXPECT_EXIT(pid, 0);
		/* Without the samples from before their calls. */
		ring_drain(&self->ring);
		count_turns(turns, &self->ring, self->record, count, 2);
		EXPECT_ALL_WHOLE(count, 2);
		turns->leave = 1;
		EXPECT_EXIT(turns->tid[1], 0);
		ring_drain(&self->ring);
		count_turns(turns, &self->ring, self->record, count, 1);
		turns->stop = 1;
		EXPECT_ALL_WHOLE(count, 1);
		EXPECT_EXIT(turns->tid[0], 0);
		ring_close(&self->ring);
	}
}

TEST_HARNESS_MAIN
