// SPDX-License-Identifier: GPL-2.0
/*
 * A branch stack never shows calls of another time: those from before the task ran elsewhere, from
 * before the event counted, or of the program that the task executed before.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "branches.h"
#include "harness.h"

FIXTURE(branches) BRANCHES_FIXTURE;
FIXTURE_SETUP(branches) BRANCHES_SETUP
FIXTURE_TEARDOWN(branches) BRANCHES_TEARDOWN

/* Record calls on a CPU with an event, run on one without, and come back. */
static bool go_away_and_back(struct turns *turns)
{
	run_on(0);
	if (!record_calls(turns->branches, 0))
		return false;
	run_on(1);
	run_on(0);
	turns->ready[0] = 1;
	turns->ready[1] = 1;
	while (!turns->stop)
		getppid();
	return true;
}

/* Count what samples hold of a task that was away; false on failure. */
static bool count_stale(struct turns *turns, struct ring *ring, union record *record,
			struct count *count)
{
	struct perf_event_attr attr = branch_attr("perf_test");
	int status = -1;
	bool done;
	pid_t pid;

	if (ring_open(ring, &attr, -1, 0, 64))
		return false;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(!go_away_and_back(turns));
	}
	turns->tid[0] = pid;
	done = both_ready(turns, ring);
	count_turns(turns, ring, record, count, 1);
	turns->stop = 1;
	return waitpid(pid, &status, 0) == pid && !status && done;
}

/* A task that has run on a CPU without an event comes back without its old branch stack. */
TEST_F(branches, stale)
{
	struct count count;

	ASSERT_TRUE(count_stale(self->turns, &self->ring, self->record, &count));
	TH_LOG("%u whole, %u without, %u others", count.whole, count.none, count.other);
	EXPECT_LE(ENOUGH, count.none);
	EXPECT_EQ(count.none, all(&count));
}

/* In Linux 6.15 it comes back. */
TEST_F(branches, stale_in_6_15)
{
	struct count count;

	ASSERT_TRUE(set_file("scheme", "1"));
	ASSERT_TRUE(count_stale(self->turns, &self->ring, self->record, &count));
	EXPECT_LE(ENOUGH, count.whole);
}

/* Work until told to stop, and record calls first if @record. */
static pid_t start_work(struct turns *turns, unsigned int who, bool record)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run_on(0);
	turns->tid[who] = getpid();
	if (record && !record_calls(turns->branches, who))
		_exit(1);
	turns->ready[who] = 1;
	while (!turns->stop)
		getppid();
	_exit(0);
}

/*
 * An event stops while one task runs and goes on while another one does, which must not see
 * the calls of the first one.
 */
TEST_F(branches, of_event_that_pauses)
{
	struct perf_event_attr attr = branch_attr("perf_test");
	struct turns *turns = self->turns;
	struct count count[2] = {};
	pid_t pid;

	ASSERT_EQ(0, ring_open(&self->ring, &attr, -1, 0, 64));
	pid = start_work(turns, 0, true);
	ASSERT_TRUE(is_ready(turns, 0));
	ASSERT_EQ(0, ioctl(self->ring.fd, PERF_EVENT_IOC_DISABLE, 0));
	turns->stop = 1;
	EXPECT_EXIT(pid, 0);

	turns->stop = 0;
	pid = start_work(turns, 1, false);
	ASSERT_TRUE(is_ready(turns, 1));
	ring_drain(&self->ring);
	ASSERT_EQ(0, ioctl(self->ring.fd, PERF_EVENT_IOC_ENABLE, 0));
	turns->tid[0] = turns->tid[1];
	count_turns(turns, &self->ring, self->record, count, 1);
	turns->stop = 1;
	EXPECT_EXIT(pid, 0);
	TH_LOG("%u whole, %u without, %u others", count[0].whole, count[0].none, count[0].other);
	EXPECT_LE(ENOUGH, count[0].none);
	EXPECT_EQ(count[0].none, all(&count[0]));
}

static long switches(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_SELF, &usage) ? -1 : usage.ru_nvcsw + usage.ru_nivcsw;
}

/* Record calls, and let the event stop and go on before another task runs here. */
static bool pause_event(int branches, int event)
{
	__u64 end = 0;
	long before;

	do {
		for (unsigned int i = 0; i < DEPTH; i++) {
			if (write(branches, &end, sizeof(end)) != sizeof(end))
				return false;
		}
		if (!record_calls(branches, 0))
			return false;
		before = switches();
		if (ioctl(event, PERF_EVENT_IOC_DISABLE, 0) ||
		    ioctl(event, PERF_EVENT_IOC_ENABLE, 0))
			return false;
	} while (switches() != before);
	return true;
}

/* It stops and goes on while one task runs, which keeps its calls. */
TEST_F(branches, of_event_that_starts_again)
{
	struct perf_event_attr attr = branch_attr("perf_test");
	struct turns *turns = self->turns;
	struct count count[1];
	pid_t pid;

	ASSERT_EQ(0, ring_open(&self->ring, &attr, -1, 0, 64));
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run_on(0);
		turns->tid[0] = getpid();
		turns->ready[0] = pause_event(turns->branches, self->ring.fd);
		while (!turns->stop)
			getppid();
		_exit(0);
	}
	ASSERT_TRUE(is_ready(turns, 0));
	ring_drain(&self->ring);
	count_turns(turns, &self->ring, self->record, count, 1);
	turns->stop = 1;
	EXPECT_EXIT(pid, 0);
	EXPECT_ALL_WHOLE(count, 1);
}

/* Two tasks take turns with an event of the CPU, and one with its own, too. One event goes. */
static bool count_after(bool task_goes, struct turns *turns, struct ring *ring,
			union record *record, struct count *count)
{
	struct perf_event_attr attr = branch_attr("perf_test2");
	struct ring of_task;
	int status, ended = 0;
	pid_t pid[2];
	bool done;

	if (ring_open(ring, &attr, -1, 0, 64))
		return false;
	turns->depth = SMALL_DEPTH;
	for (int who = 0; who < 2; who++)
		pid[who] = start_turns(turns, who);
	done = both_ready(turns, ring) && !ring_open(&of_task, &attr, pid[0], -1, 64);
	if (done && task_goes) {
		ring_close(&of_task);
	} else if (done) {
		ring_close(ring);
		*ring = of_task;
	}
	if (done)
		ring_drain(ring);
	count_turns(turns, ring, record, count, task_goes ? 2 : 1);
	turns->stop = 1;
	for (int who = 0; who < 2; who++)
		ended += waitpid(pid[who], &status, 0) == pid[who] && !status;
	return done && ended == 2;
}

TEST_F(branches, of_cpu_alone_again)
{
	struct count count[2];

	ASSERT_TRUE(count_after(true, self->turns, &self->ring, self->record, count));
	EXPECT_ALL_WHOLE(count, 2);
}

TEST_F(branches, of_task_alone_again)
{
	struct count count[2];

	ASSERT_TRUE(count_after(false, self->turns, &self->ring, self->record, count));
	EXPECT_ALL_WHOLE(count, 1);
}

#define CPU_1_ONLINE	"/sys/devices/system/cpu/cpu1/online"

/*
 * Two tasks run on a CPU that goes and comes back, and run there again. As they ran elsewhere
 * meanwhile, and record no calls since, they have none.
 */
static void run_there_again(struct __test_metadata *_metadata, FIXTURE_DATA(branches) *self,
			    pid_t target, const pid_t *pid)
{
	struct perf_event_attr attr = branch_attr("perf_test2");
	struct count count[2];
	cpu_set_t set;

	ASSERT_EQ(1, set_number(CPU_1_ONLINE, 0));
	ASSERT_EQ(0, set_number(CPU_1_ONLINE, 1));
	/* The event of a CPU ends with it. */
	if (target < 0) {
		ring_close(&self->ring);
		ASSERT_EQ(0, ring_open(&self->ring, &attr, target, 1, 64));
	}
	CPU_ZERO(&set);
	CPU_SET(1, &set);
	for (int who = 0; who < 2; who++)
		ASSERT_EQ(0, sched_setaffinity(pid[who], sizeof(set), &set));
	ring_drain(&self->ring);
	count_turns(self->turns, &self->ring, self->record, count, 2);
	self->turns->stop = 1;
	for (int who = 0; who < 2; who++) {
		TH_LOG("task %d: %u whole, %u without, %u others", who, count[who].whole,
		       count[who].none, count[who].other);
		EXPECT_LE(ENOUGH, count[who].none);
		EXPECT_EQ(count[who].none, all(&count[who]));
		EXPECT_EXIT(pid[who], 0);
	}
}

/* After them, others run there and have all their calls. */
static void leave_and_return(struct __test_metadata *_metadata, FIXTURE_DATA(branches) *self,
			     pid_t target)
{
	struct perf_event_attr attr = branch_attr("perf_test2");
	struct turns *turns = self->turns;
	pid_t pid[2];

	attr.inherit = target >= 0;
	ASSERT_EQ(0, ring_open(&self->ring, &attr, target, 1, 64));
	for (int back = 0; back < 2; back++) {
		ASSERT_TRUE(renew_turns(turns));
		for (int who = 0; who < 2; who++)
			pid[who] = start_turns(turns, who);
		ASSERT_TRUE(both_ready(turns, &self->ring));
		if (!back)
			run_there_again(_metadata, self, target, pid);
	}
	EXPECT_BOTH_WHOLE(self, pid);
	ring_close(&self->ring);
}

TEST_F(branches, cpu_that_goes)
{
	if (access(CPU_1_ONLINE, W_OK))
		SKIP(return, "needs a second CPU that can go");
	run_on(0);
	self->turns->cpu = 1;
	self->turns->depth = SMALL_DEPTH;
	leave_and_return(_metadata, self, -1);
	leave_and_return(_metadata, self, 0);
}

/* The effective user of a process, -1 on failure. */
static uid_t effective_user(pid_t pid)
{
	char path[32], line[256];
	uid_t user = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file) && user == (uid_t)-1)
		sscanf(line, "Uid: %*u %u", &user);
	if (file)
		fclose(file);
	return user;
}

/*
 * A task that executes a file of root with @mode starts with an empty branch stack, and has one
 * from then on.
 */
static void execute_file(struct __test_metadata *_metadata, FIXTURE_DATA(branches) *self,
			 const char *mode, uid_t wanted)
{
	struct perf_event_attr attr = branch_attr("perf_test");
	struct turns *turns = self->turns;
	char path[] = "/tmp/task_data.XXXXXX", command[256], fds[3][16];
	struct count count[2];
	pid_t pid[2];
	int fd;

	fd = mkstemp(path);
	ASSERT_LE(0, fd);
	close(fd);
	snprintf(command, sizeof(command), "cp /proc/%d/exe %s && chmod %s %s", getpid(), path,
		 mode, path);
	ASSERT_EQ(0, system(command));

	ASSERT_EQ(0, ring_open(&self->ring, &attr, -1, 0, 64));
	pid[0] = start_turns(turns, 0);
	pid[1] = fork();
	if (!pid[1]) {
		run_on(0);
		turns->tid[1] = gettid();
		snprintf(fds[0], sizeof(fds[0]), "%d", turns->branches);
		snprintf(fds[1], sizeof(fds[1]), "%d", turns->pipes[0][1]);
		snprintf(fds[2], sizeof(fds[2]), "%d", turns->pipes[1][0]);
		if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY) ||
		    !record_calls(turns->branches, 2))
			_exit(1);
		/* Meanwhile they are saved: nothing may restore them in the new program. */
		usleep(1000);
		execl(path, path, "turns", fds[0], fds[1], fds[2], NULL);
		_exit(1);
	}
	/* The executed file cannot say when it is ready. */
	for (int i = 0; i < 3000 && !(turns->ready[0] && turns->ready[1]); i++) {
		struct count seen = {};

		while (ring_next_type(&self->ring, self->record, PERF_RECORD_SAMPLE))
			count_sample(turns, 1, self->record, &seen);
		turns->ready[1] = seen.whole > 0;
		usleep(10000);
	}
	ASSERT_TRUE(both_ready(turns, &self->ring));
	EXPECT_EQ(wanted, effective_user(pid[1]));
	count_turns(turns, &self->ring, self->record, count, 2);
	turns->stop = 1;
	EXPECT_ALL_WHOLE(count, 2);
	EXPECT_EXIT(pid[0], 0);
	kill(pid[1], SIGKILL);
	EXPECT_EXIT(pid[1], SIGKILL);
	unlink(path);
}

/* It may not be read, so it is not dumpable. */
TEST_F(branches, of_unreadable_file)
{
	execute_file(_metadata, self, "0711", NOBODY);
}

TEST_F(branches, of_setuid_file)
{
	execute_file(_metadata, self, "04755", 0);
}

/*
 * Another process holds the event's descriptor and sends its number. Record calls while the event
 * counts, then stop it and execute this program.
 */
static void exec_without_event(struct turns *turns, pid_t other)
{
	int pidfd = syscall(SYS_pidfd_open, other, 0), event;
	char ready[16];

	run_on(0);
	if (read(turns->pipes[0][0], &event, sizeof(event)) != sizeof(event))
		_exit(1);
	event = syscall(SYS_pidfd_getfd, pidfd, event, 0);
	if (ioctl(event, PERF_EVENT_IOC_ENABLE, 0) || !record_calls(turns->branches, 0) ||
	    ioctl(event, PERF_EVENT_IOC_DISABLE, 0))
		_exit(1);
	snprintf(ready, sizeof(ready), "%d", turns->pipes[1][1]);
	execl("/proc/self/exe", "task_data", "work", ready, NULL);
	_exit(1);
}

/* An event that stops before exec and goes on in it does not see calls of the old program. */
TEST_F(branches, of_event_that_exec_enables)
{
	struct perf_event_attr attr = branch_attr("perf_test");
	struct turns *turns = self->turns;
	struct count count;
	pid_t pid;
	char byte;

	attr.disabled = 1;
	attr.enable_on_exec = 1;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		exec_without_event(turns, getppid());
	}
	turns->tid[0] = pid;
	ASSERT_EQ(0, ring_open(&self->ring, &attr, pid, -1, 64));
	ASSERT_EQ(sizeof(int), write(turns->pipes[0][1], &self->ring.fd, sizeof(int)));
	close(turns->pipes[1][1]);
	ASSERT_EQ(1, read(turns->pipes[1][0], &byte, 1));
	ring_drain(&self->ring);
	count_turns(turns, &self->ring, self->record, &count, 1);
	TH_LOG("%u whole, %u without, %u others", count.whole, count.none, count.other);
	EXPECT_LE(ENOUGH, count.none);
	EXPECT_EQ(count.none, all(&count));
	kill(pid, SIGKILL);
	EXPECT_EXIT(pid, SIGKILL);
}

/* Let events of two CPUs come and go at a time; false on failure. */
static bool count_at_once(void)
{
	struct perf_event_attr attr = branch_attr("perf_test");
	bool done = true;
	pid_t pid[2];

	attr.disabled = 1;
	for (int cpu = 0; cpu < 2; cpu++) {
		pid[cpu] = fork();
		if (!pid[cpu]) {
			int fd = perf_open(&attr, -1, cpu, -1, 0);

			prctl(PR_SET_PDEATHSIG, SIGKILL);
			run_on(cpu);
			for (int i = 0; i < 300; i++) {
				if (ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) ||
				    ioctl(fd, PERF_EVENT_IOC_DISABLE, 0))
					_exit(1);
			}
			_exit(0);
		}
	}
	for (int cpu = 0; cpu < 2; cpu++) {
		int status = -1;

		done &= waitpid(pid[cpu], &status, 0) == pid[cpu] && !status;
	}
	return done;
}

TEST_F(branches, of_cpus_at_once)
{
	ASSERT_TRUE(count_at_once());
	EXPECT_EQ(0, get_file("users"));
}

/* Linux 6.15 counts them all in one number, and loses some. */
TEST_F(branches, of_cpus_at_once_in_6_15)
{
	long users = 0;

	ASSERT_TRUE(set_file("scheme", "1"));
	/* What is lost of one kind may be as much as of the other. */
	for (int i = 0; i < 20 && !users; i++) {
		ASSERT_TRUE(count_at_once());
		users = get_file("global_users");
	}
	EXPECT_NE(0, users);
	EXPECT_TRUE(set_file("global_users", "0"));
}

/* What of_unreadable_file executes. */
static int executed_turns(char **fds)
{
	struct turns turns = {
		.branches = atoi(fds[0]),
		.pipes = { { -1, atoi(fds[1]) }, { atoi(fds[2]), -1 } },
	};

	return !take_turns(&turns, 1);
}

/* What of_event_that_exec_enables executes. */
static int executed_work(int ready)
{
	if (write(ready, "", 1) != 1)
		return 1;
	for (;;)
		getppid();
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "work"))
		return executed_work(atoi(argv[2]));
	if (argc == 5 && !strcmp(argv[1], "turns"))
		return executed_turns(argv + 2);
	return test_harness_run(argc, argv);
}
