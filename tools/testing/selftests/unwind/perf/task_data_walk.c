// SPDX-License-Identifier: GPL-2.0
/*
 * PMU-specific data for all tasks, while tasks come, end and execute programs: the walk that
 * attaches it leaves none out, and no task waits for it to be forked or to exit. And data for one
 * task, which exits meanwhile.
 *
 * After a few hundred tasks, the walk allocates memory for the next one, and lets others run; for
 * one task, memory is allocated after the task was found. The tests stop the opener there: the
 * tracepoint of the allocation wakes a task of a higher priority on the same CPU, which keeps the
 * CPU.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "branches.h"
#include "harness.h"

FIXTURE(data) BRANCHES_FIXTURE;
FIXTURE_SETUP(data) BRANCHES_SETUP
FIXTURE_TEARDOWN(data) BRANCHES_TEARDOWN

/* The tasks of a test, and those at their end. */
#define MANY	600
#define FEW	10

/*
 * The walk stops after each 256 tasks or numbers of tasks. At this stop, it is amid the MANY, if
 * no more than 500 other tasks come before them.
 */
#define STOP	2
/* Set in common_flags of what an interrupt does after it. */
#define TRACE_FLAG_SOFTIRQ	0x10
/* Set in gfp_flags if the caller may wait for memory. */
#define __GFP_DIRECT_RECLAIM	0x400

/*
 * Threads of start_many() read these: a byte of the first ends one of them, and a byte of the
 * second lets one of those at the end run a program.
 */
static int end_pipe[2], exec_pipe[2];

static void *wait_to_end(void *unused)
{
	char byte;

	while (read(end_pipe[0], &byte, 1) != 1)
		;
	return unused;
}

static void *wait_to_exec(void *unused)
{
	char byte;

	while (read(exec_pipe[0], &byte, 1) != 1)
		;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execlp("sleep", "sleep", "1000", NULL);
	_exit(1);
}

/* Start threads, of which those at the end may run a program. */
static bool start_threads(int nr)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 1 << 16);
	for (int i = 0; i < nr; i++) {
		if (pthread_create(&thread, &attr, i < nr - FEW ? wait_to_end : wait_to_exec, NULL))
			return false;
	}
	return true;
}

/* Wait until a child stops; false if it does not. */
static bool has_stopped(pid_t pid)
{
	int status;

	return pid > 0 && waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status);
}

/* Start processes, each with @threads more threads, which wait; false on failure. */
static bool start_many(pid_t *pids, int nr, int threads)
{
	/* The walk is in the order of the numbers: they must not begin anew. */
	if (set_sysctl("kernel/pid_max", 1 << 22) < 0)
		return false;
	if (!end_pipe[1] && (pipe2(end_pipe, O_CLOEXEC) || pipe2(exec_pipe, O_CLOEXEC)))
		return false;
	for (int i = 0; i < nr; i++) {
		pids[i] = fork();
		if (pids[i])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!start_threads(threads))
			_exit(1);
		raise(SIGSTOP);
		for (;;)
			pause();
	}
	for (int i = 0; i < nr; i++) {
		if (!has_stopped(pids[i]))
			return false;
	}
	return true;
}

/* Kill a child; false if it had failed before. */
static bool end_child(pid_t pid)
{
	int status;

	return pid > 0 && !kill(pid, SIGKILL) && waitpid(pid, &status, 0) == pid &&
	       (!status || status == SIGKILL);
}

static bool end_many(const pid_t *pids, int nr)
{
	bool ended = true;

	for (int i = 0; i < nr; i++)
		ended &= end_child(pids[i]);
	return ended;
}

/**
 * struct held_walk - a walk of all tasks, or an open for one task, that does not go on
 * @target:	the task; 0 for all
 * @opener:	the process that does the walk
 * @holder:	the process that keeps its CPU
 * @held:	the holder does so; in memory that it shares with the test, as is
 * @stop:	the holder shall end
 */
struct held_walk {
	pid_t		target, opener, holder;
	volatile int	*held, *stop;
};

/* Become a real-time task of the second CPU. */
static void run_first(int priority)
{
	const struct sched_param param = { .sched_priority = priority };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run_on(1);
	if (sched_setscheduler(0, SCHED_FIFO, &param))
		_exit(1);
}

/* Open an event of a CPU, or of a task; stop and keep it, or exit with the error. */
static pid_t start_opener(pid_t target)
{
	struct perf_event_attr attr = branch_attr("perf_test2");
	pid_t pid = fork();
	int ret;

	if (pid)
		return pid;
	run_first(1);
	raise(SIGSTOP);
	ret = perf_open(&attr, target ?: -1, target ? -1 : 1, -1, 0);
	if (ret < 0)
		_exit(-ret);
	raise(SIGSTOP);
	_exit(1);
}

/* Let a tracepoint event count what the opener allocates where it stops; false on failure. */
static bool count_stops(int fd)
{
	char filter[64];

	snprintf(filter, sizeof(filter), "bytes_req == %d && gfp_flags & %#x",
		 get_number(OBJECT_SIZE), __GFP_DIRECT_RECLAIM);
	return !ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filter);
}

/* Let the opener run, and keep its CPU as soon as it allocates where it stops. */
static pid_t start_holder(const struct held_walk *walk)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_TRACEPOINT,
		.size		= sizeof(attr),
		.config		= tracepoint_id("kmem/kmem_cache_alloc"),
		.sample_period	= walk->target ? 1 : STOP,
		.wakeup_events	= 1,
	};
	struct pollfd pollfd = { .events = POLLIN };
	pid_t pid = fork();
	struct ring ring;

	if (pid)
		return pid;
	run_first(2);
	if (ring_open(&ring, &attr, walk->opener, -1, 1) || !count_stops(ring.fd))
		_exit(1);
	pollfd.fd = ring.fd;
	/* The opener must not run before this waits, so have all code in memory. */
	if (poll(&pollfd, 1, 0) || kill(walk->opener, SIGCONT) || poll(&pollfd, 1, -1) != 1 ||
	    !(pollfd.revents & POLLIN))
		_exit(1);
	*walk->held = 1;
	/* In an emulator with one thread, this lets the other CPU run. */
	while (!*walk->stop)
		__builtin_ia32_pause();
	_exit(0);
}

/* End both processes, which give their event back; false if one has ended by itself. */
static bool drop_walk(struct held_walk *walk)
{
	bool ended = end_child(walk->opener);

	return end_child(walk->holder) && ended;
}

/*
 * Let the first event of a CPU come, and stop its walk of all tasks; or let one of walk->target
 * come, and stop it before it gets data. Returns false on failure.
 */
static bool hold_walk(struct held_walk *walk, struct turns *turns)
{
	walk->held = &turns->ready[0];
	walk->stop = &turns->stop;
	*walk->held = 0;
	*walk->stop = 0;
	walk->opener = start_opener(walk->target);
	if (!has_stopped(walk->opener))
		return false;
	walk->holder = start_holder(walk);
	if (walk->holder < 0)
		return false;
	for (int i = 0; i < 60000 && !*walk->held; i++) {
		/* If it has ended, it could not do what it has to. */
		if (waitpid(walk->holder, NULL, WNOHANG))
			break;
		usleep(1000);
	}
	if (!*walk->held)
		drop_walk(walk);
	return *walk->held;
}

/* Let the walk end. Returns how many tasks lack data then, or -1 on failure. */
static long end_walk(struct held_walk *walk)
{
	long lack = -1;

	*walk->stop = 1;
	if (has_stopped(walk->opener))
		lack = get_file("lacking2");
	return drop_walk(walk) ? lack : -1;
}

/* Fork a child with a number that is free. It waits. Returns false on failure. */
static bool fork_with_number(pid_t number)
{
	struct clone_args args = {
		.exit_signal	= SIGCHLD,
		.set_tid	= (__u64)(unsigned long)&number,
		.set_tid_size	= 1,
	};
	long pid = syscall(SYS_clone3, &args, sizeof(args));

	if (pid)
		return pid == number;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

/* The walk is amid the MANY: some lack data, and after them the opener and the holder. */
#define EXPECT_AMID() do {							\
	long lack_ = get_file("lacking2");					\
	EXPECT_LT(FEW + 2, lack_);						\
	EXPECT_GE(MANY, lack_);							\
} while (0)

/* A child comes where the walk has already been. */
TEST_F(data, fork_during_attach)
{
	pid_t pids[1 + MANY];
	struct held_walk walk = {};

	run_on(0);
	ASSERT_TRUE(start_many(pids, ARRAY_SIZE(pids), 0));
	ASSERT_TRUE(end_child(pids[0]));
	ASSERT_TRUE(hold_walk(&walk, self->turns));
	EXPECT_AMID();
	EXPECT_TRUE(fork_with_number(pids[0]));
	EXPECT_AMID();
	EXPECT_EQ(0, end_walk(&walk));
	EXPECT_TRUE(end_many(pids, ARRAY_SIZE(pids)));
}

/* Fork a child that exits; false on failure. */
static bool fork_and_exit(void)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	return pid == waitpid(pid, &status, 0) && !status;
}

/* Tasks come and go meanwhile, as if there were no walk. */
TEST_F(data, exit_during_attach)
{
	struct held_walk walk = {};
	pid_t pids[MANY];
	long lack;

	run_on(0);
	ASSERT_TRUE(start_many(pids, MANY, 0));
	ASSERT_TRUE(hold_walk(&walk, self->turns));
	EXPECT_AMID();
	lack = get_file("lacking2");
	for (int i = 0; i < 10; i++)
		EXPECT_TRUE(fork_and_exit());
	EXPECT_EQ(lack, get_file("lacking2"));
	EXPECT_EQ(0, end_walk(&walk));
	EXPECT_TRUE(end_many(pids, MANY));
}

/* The walk ends at once if its task is killed, and takes back what it has attached. */
TEST_F(data, killed_during_attach)
{
	struct held_walk walk = {};
	pid_t pids[MANY];
	char filter[64];
	int objects[2];
	long lack;

	run_on(0);
	ASSERT_TRUE(start_many(pids, MANY, 0));
	lack = get_file("lacking2");
	ASSERT_TRUE(hold_walk(&walk, self->turns));
	EXPECT_AMID();
	snprintf(filter, sizeof(filter), "bytes_req == %d && common_pid == %d",
		 get_number(OBJECT_SIZE), walk.opener);
	ASSERT_TRUE(count_open(objects, "kmem/kmem_cache_alloc", filter));
	ASSERT_EQ(0, kill(walk.opener, SIGKILL));
	*walk.stop = 1;
	EXPECT_TRUE(drop_walk(&walk));
	EXPECT_EQ(lack, get_file("lacking2"));
	EXPECT_EQ(0, counted(objects));
	count_close(objects);
	EXPECT_TRUE(end_many(pids, MANY));
}

/* End all threads but those at the end, or let one of these replace all; false on failure. */
static bool thin_out(pid_t pid, bool exec)
{
	char bytes[MANY] = {}, path[64];
	int left = exec ? 1 : 1 + FEW, threads = MANY;
	struct stat st;

	if (kill(pid, SIGCONT) ||
	    write(exec ? exec_pipe[1] : end_pipe[1], bytes, exec ? 1 : MANY - left) < 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	for (int i = 0; i < 60000 && threads > left; i++) {
		usleep(1000);
		/* It has a directory for each thread. */
		threads = stat(path, &st) ? 0 : st.st_nlink - 2;
	}
	return threads == left;
}

/*
 * The walk is amid the threads of a process. The one with which it would go on is gone, so that it
 * has to begin this process anew: those at the end lack data.
 */
static void thinned_out(struct __test_metadata *_metadata, struct turns *turns, bool exec)
{
	struct held_walk walk = {};
	pid_t pid;

	run_on(0);
	ASSERT_TRUE(start_many(&pid, 1, MANY - 1));
	ASSERT_TRUE(hold_walk(&walk, turns));
	EXPECT_AMID();
	EXPECT_TRUE(thin_out(pid, exec));
	/* And the opener and the holder. */
	EXPECT_EQ((exec ? 1 : FEW) + 2, get_file("lacking2"));
	EXPECT_EQ(0, end_walk(&walk));
	EXPECT_TRUE(end_child(pid));
}

TEST_F(data, threads_end_during_attach)
{
	thinned_out(_metadata, self->turns, false);
}

TEST_F(data, exec_of_thread_during_attach)
{
	thinned_out(_metadata, self->turns, true);
}

/*
 * A task is found for an event, and exits before it gets data. What was allocated for it is freed
 * at once: no task has ever seen it.
 */
TEST_F(data, exit_of_task_during_attach)
{
	struct held_walk walk = {};
	int status, freed[2];
	char filter[80];

	run_on(0);
	walk.target = fork();
	if (!walk.target) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
	}
	ASSERT_TRUE(hold_walk(&walk, self->turns));
	snprintf(filter, sizeof(filter), OF_SECOND " && common_pid == %d && !(common_flags & %d)",
		 walk.opener, TRACE_FLAG_SOFTIRQ);
	ASSERT_TRUE(count_open(freed, FREES, filter));
	EXPECT_EQ(0, kill(walk.target, SIGKILL));
	EXPECT_EQ(0, waitid(P_PID, walk.target, NULL, WEXITED | WNOWAIT));
	*walk.stop = 1;
	/* It stops if it got an event. */
	EXPECT_EQ(walk.opener, waitpid(walk.opener, &status, WUNTRACED));
	EXPECT_EQ(ESRCH << 8, status);
	EXPECT_EQ(1, counted(freed));
	count_close(freed);
	EXPECT_EXIT(walk.holder, 0);
	EXPECT_EXIT(walk.target, SIGKILL);
}

TEST_HARNESS_MAIN
