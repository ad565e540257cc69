// SPDX-License-Identifier: GPL-2.0
/*
 * The branch stack of a task is kept over context switches, whatever event asks for it, and
 * never shows another task's calls or those of another time. perf_test in arch/x86/events has
 * such a stack, in which a program records its calls itself.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "branches.h"
#include "harness.h"

FIXTURE(branches) BRANCHES_FIXTURE;
FIXTURE_SETUP(branches) BRANCHES_SETUP
FIXTURE_TEARDOWN(branches) BRANCHES_TEARDOWN

/* Two processes that take turns get whole samples, and end. */
static void expect_both_whole(struct __test_metadata *_metadata,
			      FIXTURE_DATA(branches) *self, const pid_t *pid)
{
	struct count count[2];

	count_turns(self->turns, &self->ring, self->record, count, 2);
	self->turns->stop = 1;
	EXPECT_ALL_WHOLE(count, 2);
	for (int who = 0; who < 2; who++)
		EXPECT_EXIT(pid[who], 0);
}

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
	expect_both_whole(_metadata, self, pid);
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
	expect_both_whole(_metadata, self, pid);
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

/* Drop what earlier tasks have left in the pipes, which would start the next ones too early. */
static bool renew_pipes(struct turns *turns)
{
	for (int i = 0; i < 2; i++) {
		for (int end = 0; end < 2; end++)
			close(turns->pipes[i][end]);
		if (pipe(turns->pipes[i]))
			return false;
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
		ASSERT_TRUE(renew_pipes(turns));
		turns->leave = 0;
		turns->stop = 0;
		turns->ready[0] = 0;
		turns->ready[1] = 0;
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

/* A CPU goes while an event counts there, and comes back; a new event finds all in order. */
TEST_F(branches, cpu_that_goes)
{
	struct perf_event_attr attr = branch_attr("perf_test2");
	const char *online = "/sys/devices/system/cpu/cpu1/online";
	struct turns *turns = self->turns;
	pid_t pid[2];

	if (access(online, W_OK))
		SKIP(return, "needs a second CPU that can go");
	run_on(0);
	turns->cpu = 1;
	turns->depth = SMALL_DEPTH;
	ASSERT_EQ(0, ring_open(&self->ring, &attr, -1, 1, 64));
	ASSERT_EQ(1, set_number(online, 0));
	ASSERT_EQ(0, set_number(online, 1));
	ring_close(&self->ring);

	ASSERT_EQ(0, ring_open(&self->ring, &attr, -1, 1, 64));
	for (int who = 0; who < 2; who++)
		pid[who] = start_turns(turns, who);
	ASSERT_TRUE(both_ready(turns, &self->ring));
	expect_both_whole(_metadata, self, pid);
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
 * Record calls while an event of this task counts, whose descriptor another process has and sends
 * the number of; stop it and execute this program.
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
