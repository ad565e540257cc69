// SPDX-License-Identifier: GPL-2.0
/*
 * Which tasks have PMU-specific data, and when: all of them while an event of a CPU needs it, none
 * afterwards, whatever the tasks do and however short memory is.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../walk/inject.h"
#include "branches.h"
#include "harness.h"

/* Opening an event has fewer places to fail. */
#define MAX_FAULTS	10000

#define FORKERS		4

FIXTURE(data) BRANCHES_FIXTURE;
FIXTURE_SETUP(data) BRANCHES_SETUP
FIXTURE_TEARDOWN(data) BRANCHES_TEARDOWN

/* How many objects were freed, or -1. Removing the PMU waits until all are. */
static long frees(const int fd[2])
{
	return set_file("second", "0") ? counted(fd) : -1;
}

/* A user without privileges gets an error, and no task gets data. */
TEST_F(data, refused)
{
	struct perf_event_attr attr = branch_attr("perf_test2");
	int fd[2], event, paranoid;
	pid_t pid;

	/* Or the user would be refused because of the kernel. */
	attr.exclude_kernel = 1;
	ASSERT_TRUE(count_open(fd, FREES, OF_SECOND));
	paranoid = set_sysctl("kernel/perf_event_paranoid", 2);
	pid = fork();
	if (!pid) {
		if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))
			_exit(1);
		_exit(perf_open(&attr, -1, 0, -1, 0) != -EACCES ||
		      perf_open(&attr, 1, -1, -1, 0) != -EACCES);
	}
	EXPECT_EXIT(pid, 0);
	set_sysctl("kernel/perf_event_paranoid", paranoid);
	EXPECT_EQ(0, frees(fd));

	/* The counter works. */
	ASSERT_TRUE(set_file("second", "1"));
	attr.type = pmu_type("perf_test2");
	event = perf_open(&attr, -1, 0, -1, 0);
	ASSERT_LE(0, event);
	close(event);
	EXPECT_LT(0, frees(fd));
	count_close(fd);
}

/*
 * The object for an event of a task is charged to the control group of the opener. Those for an
 * event of a CPU are not.
 */
TEST_F(data, charged)
{
	struct perf_event_attr attr = branch_attr("perf_test2");
	char filter[80];
	int fd[2];

	snprintf(filter, sizeof(filter), "common_pid==%d && bytes_req==%d && accounted==1",
		 gettid(), get_number(OBJECT_SIZE));
	ASSERT_TRUE(count_open(fd, "kmem/kmem_cache_alloc", filter));
	for (int cpu = -1; cpu < 1; cpu++) {
		int event = perf_open(&attr, cpu < 0 ? 0 : -1, cpu, -1, 0);

		ASSERT_LE(0, event);
		close(event);
		EXPECT_EQ(1, counted(fd));
	}
	count_close(fd);
}

/* An event that does not ask for calls of user code is refused. */
TEST_F(data, of_another_kind)
{
	struct perf_event_attr attr = branch_attr("perf_test");

	attr.branch_sample_type = PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_ANY;
	EXPECT_EQ(-EOPNOTSUPP, perf_open(&attr, -1, 0, -1, 0));
	attr.branch_sample_type = PERF_SAMPLE_BRANCH_KERNEL | PERF_SAMPLE_BRANCH_CALL_STACK;
	EXPECT_EQ(-EOPNOTSUPP, perf_open(&attr, -1, 0, -1, 0));
}

/* A PMU that says it has data of tasks, and lacks the cache for it. */
TEST_F(data, without_cache)
{
	struct perf_event_attr attr = branch_attr("perf_test");

	ASSERT_TRUE(set_file("second", "0"));
	ASSERT_TRUE(set_file("second", "2"));
	attr.type = pmu_type("perf_test2");
	EXPECT_EQ(-EOPNOTSUPP, perf_open(&attr, -1, 0, -1, 0));
	EXPECT_EQ(-EOPNOTSUPP, perf_open(&attr, 0, -1, -1, 0));
	/* Nothing holds it. */
	EXPECT_TRUE(set_file("second", "0"));
}

static void *short_thread(void *unused)
{
	usleep(20000);
	return unused;
}

/* Start threads and children that live for a while, until told to stop. Nobody waits for them. */
static void storm_of_tasks(const struct turns *turns)
{
	pthread_attr_t attr;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGCHLD, SIG_IGN);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	while (!turns->stop) {
		pthread_t thread;
		pid_t pid = fork();

		if (!pid) {
			short_thread(NULL);
			_exit(0);
		}
		if (pid < 0 || pthread_create(&thread, &attr, short_thread, NULL))
			_exit(1);
	}
	_exit(0);
}

/*
 * Tasks come and go while the first event of CPUs comes and the last one goes. A task that came
 * amid the walk for the first event is still there afterwards.
 */
TEST_F(data, storm)
{
	struct perf_event_attr attr = branch_attr("perf_test2");
	pid_t forkers[FORKERS];
	int fd;

	for (int i = 0; i < FORKERS; i++) {
		forkers[i] = fork();
		if (!forkers[i])
			storm_of_tasks(self->turns);
	}
	for (int i = 0; i < 100; i++) {
		fd = perf_open(&attr, -1, i % 2, -1, 0);
		ASSERT_LE(0, fd);
		EXPECT_EQ(0, get_file("lacking2"));
		close(fd);
	}
	self->turns->stop = 1;
	for (int i = 0; i < FORKERS; i++)
		EXPECT_EXIT(forkers[i], 0);
}

/* The most processes of a bomb. */
#define BOMB	100

/* Each process forks until that fails, and ends then, except for the first one. */
static void explode(const struct turns *turns)
{
	struct rlimit limit = { BOMB, BOMB };
	pid_t first = getpid();

	/* Nobody waits for the processes, whose parent becomes this one. */
	signal(SIGCHLD, SIG_IGN);
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) || setrlimit(RLIMIT_NPROC, &limit) ||
	    setresuid(NOBODY, NOBODY, NOBODY))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run_on(0);
	/* The others do not get the signal. */
	while (!turns->stop && !kill(first, 0)) {
		if (fork() >= 0)
			continue;
		if (getpid() != first)
			_exit(0);
		usleep(1000);
	}
	while (getpid() == first && wait(NULL) >= 0)
		;
	_exit(0);
}

/* The same with a fork bomb. */
TEST_F(data, fork_bomb)
{
	struct perf_event_attr attr = branch_attr("perf_test2");
	long lack = get_file("lacking2"), now = 0;
	pid_t bomb;
	int fd;

	bomb = fork();
	if (!bomb)
		explode(self->turns);
	for (int i = 0; i < 3000 && now < lack + BOMB / 2; i++) {
		usleep(10000);
		now = get_file("lacking2");
	}
	EXPECT_LE(lack + BOMB / 2, now);
	for (int i = 0; i < 50; i++) {
		fd = perf_open(&attr, -1, i % 2, -1, 0);
		ASSERT_LE(0, fd);
		EXPECT_EQ(0, get_file("lacking2"));
		close(fd);
	}
	self->turns->stop = 1;
	EXPECT_EXIT(bomb, 0);
}

/* What opens an event, or has it inherited. 0, or a negative errno. */
typedef int (*opener)(struct perf_event_attr *attr);

static int closed(int fd)
{
	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static int open_of_cpu(struct perf_event_attr *attr)
{
	return closed(perf_open(attr, -1, 0, -1, 0));
}

static int open_of_task(struct perf_event_attr *attr)
{
	return closed(perf_open(attr, 0, -1, -1, 0));
}

/* An event with @attr is there before anything fails. A child that has all data says so. */
static int fork_with_event(struct perf_event_attr *attr)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(!attr->inherit && get_file("lacking2") != 0);
	if (pid < 0)
		return -errno;
	return pid == waitpid(pid, &status, 0) && !status ? 0 : -ECHILD;
}

/*
 * Whichever allocation fails, the call fails for that reason, or works all the same, and nothing
 * is left behind.
 */
static bool fails_each(struct perf_event_attr *attr, opener open, unsigned int *failed)
{
	long lack = get_file("lacking2");
	unsigned int nth = 0;
	bool unused = false;

	*failed = 0;
	while (!unused && nth < MAX_FAULTS) {
		int ret;

		arm(++nth);
		ret = open(attr);
		unused = disarm();
		if (ret && ret != -ENOMEM && ret != -EFAULT)
			return false;
		if (get_file("lacking2") != lack)
			return false;
		*failed += !!ret;
	}
	return unused;
}

/* Let failures hit what a function allocates; false if that cannot be. */
static bool filter_function(const char *function)
{
	unsigned long begin, end;

	return kernel_function(function, &begin, &end) && set_filters(begin, end);
}

TEST_F(data, each_failure)
{
	struct perf_event_attr attr = branch_attr("perf_test2"), inherited = attr;
	unsigned int failed;
	int fd;

	if (!arm_init() || !set_knobs())
		SKIP(return, INJECT_NEEDS);
	EXPECT_TRUE(fails_each(&attr, open_of_cpu, &failed));
	EXPECT_LT(0, failed);
	EXPECT_TRUE(fails_each(&attr, open_of_task, &failed));
	EXPECT_LT(0, failed);

	inherited.inherit = 1;
	fd = perf_open(&inherited, 0, -1, -1, 0);
	ASSERT_LE(0, fd);
	/* The kernel log has a warning if fork() finds no memory for a stack. */
	if (!filter_function("perf_event_init_task"))
		SKIP(goto out, "needs CONFIG_FAULT_INJECTION_STACKTRACE_FILTER");
	EXPECT_TRUE(fails_each(&inherited, fork_with_event, &failed));
	EXPECT_LT(0, failed);
out:
	close(fd);
	clear_filters();
	restore_knobs();
}

/*
 * What fails once while an event of a CPU attaches data: only the first allocation is not tried
 * again, and none that fork attaches.
 */
TEST_F(data, each_failure_of_attach)
{
	struct perf_event_attr attr = branch_attr("perf_test2");
	unsigned int failed;
	int fd;

	if (!arm_init() || !set_knobs())
		SKIP(return, INJECT_NEEDS);
	if (!filter_function("perf_task_data_attach"))
		SKIP(goto out, "needs CONFIG_FAULT_INJECTION_STACKTRACE_FILTER");
	EXPECT_TRUE(fails_each(&attr, open_of_cpu, &failed));
	EXPECT_EQ(1, failed);

	clear_filters();
	fd = perf_open(&attr, -1, 0, -1, 0);
	ASSERT_LE(0, fd);
	EXPECT_TRUE(filter_function("perf_task_data_fork"));
	EXPECT_TRUE(fails_each(&attr, fork_with_event, &failed));
	EXPECT_EQ(0, failed);
	close(fd);
out:
	clear_filters();
	restore_knobs();
}

/* Let all slab objects that a function allocates after @space bytes fail. */
static bool fail_in(const char *function, const char *space)
{
	return filter_function(function) && set_space(space) && set_slab_probability("100") &&
	       take_failures(true);
}

static void fail_no_more(void)
{
	take_failures(false);
	set_probability("0");
	set_space("0");
	clear_filters();
	restore_knobs();
}

#define TASKS	20

/* Start tasks that wait. */
static void start_waiting(pid_t *pids, int nr)
{
	for (int i = 0; i < nr; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			pause();
		}
	}
}

static void end_waiting(struct __test_metadata *_metadata, const pid_t *pids, int nr)
{
	for (int i = 0; i < nr; i++) {
		if (pids[i] <= 0)
			continue;
		kill(pids[i], SIGKILL);
		EXPECT_EXIT(pids[i], SIGKILL);
	}
}

/* If memory ends when half of the tasks have data, none keeps it. */
TEST_F(data, for_half_the_tasks)
{
	struct perf_event_attr attr = branch_attr("perf_test2");
	int fd, ret, freed[2];
	pid_t pids[TASKS];
	long lack;

	if (!set_knobs())
		SKIP(return, INJECT_NEEDS);
	ASSERT_TRUE(count_open(freed, FREES, OF_SECOND));
	start_waiting(pids, TASKS);
	lack = get_file("lacking2");
	EXPECT_LT(TASKS, lack);
	if (!fail_in("perf_task_data_attach", "5000"))
		SKIP(goto out, "needs CONFIG_FAULT_INJECTION_STACKTRACE_FILTER");
	ret = perf_open(&attr, -1, 0, -1, 0);
	fail_no_more();
	EXPECT_EQ(-ENOMEM, ret);
	EXPECT_EQ(lack, get_file("lacking2"));

	fd = perf_open(&attr, -1, 0, -1, 0);
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, get_file("lacking2"));
	close(fd);
	EXPECT_EQ(lack, get_file("lacking2"));
	/* Some got data both times. */
	EXPECT_LT(lack + 2, frees(freed));
out:
	fail_no_more();
	count_close(freed);
	end_waiting(_metadata, pids, TASKS);
}

/* Fork a child that forks another one after it is told by a byte, and both take turns then. */
static pid_t start_family(struct turns *turns, const int go[2])
{
	pid_t pid = fork();
	char byte;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!take_failures(false) || read(go[0], &byte, 1) != 1 || start_turns(turns, 1) < 0)
		_exit(1);
	run_on(0);
	_exit(!take_turns(turns, 0) || wait(NULL) < 0);
}

/*
 * A task for which there was no memory when it was forked has no data and shows no calls. Its
 * own children have data.
 */
TEST_F(data, of_child_without_memory)
{
	struct perf_event_attr attr = branch_attr("perf_test2");
	struct turns *turns = self->turns;
	struct count count[2];
	int go[2];
	pid_t pid;

	if (!set_knobs())
		SKIP(return, INJECT_NEEDS);
	turns->depth = SMALL_DEPTH;
	ASSERT_EQ(0, pipe(go));
	ASSERT_EQ(0, ring_open(&self->ring, &attr, -1, 0, 64));
	if (!fail_in("perf_task_data_fork", "0")) {
		fail_no_more();
		SKIP(return, "needs CONFIG_FAULT_INJECTION_STACKTRACE_FILTER");
	}
	pid = start_family(turns, go);
	fail_no_more();
	EXPECT_EQ(1, get_file("lacking2"));
	ASSERT_EQ(1, write(go[1], "", 1));
	ASSERT_TRUE(both_ready(turns, &self->ring));
	EXPECT_EQ(1, get_file("lacking2"));
	count_turns(turns, &self->ring, self->record, count, 2);
	turns->stop = 1;
	TH_LOG("%u whole, %u without, %u others", count[0].whole, count[0].none, count[0].other);
	EXPECT_LE(ENOUGH, count[0].none);
	EXPECT_EQ(0, count[0].other);
	EXPECT_ALL_WHOLE(count + 1, 1);
	EXPECT_EXIT(pid, 0);
}

/* An event outlives its task, and a task that is gone gets none. */
TEST_F(data, of_task_that_exits)
{
	struct perf_event_attr attr = branch_attr("perf_test2");
	pid_t pid = fork();
	int fd;

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
	}
	fd = perf_open(&attr, pid, -1, -1, 0);
	ASSERT_LE(0, fd);
	kill(pid, SIGKILL);
	ASSERT_EQ(0, waitid(P_PID, pid, NULL, WEXITED | WNOWAIT));
	EXPECT_EQ(-ESRCH, perf_open(&attr, pid, -1, -1, 0));
	EXPECT_EXIT(pid, SIGKILL);
	close(fd);
}

/* Let a child inherit the events of this process, and run first; then take turns with it. */
static bool turn_with_child(struct turns *turns)
{
	int status = -1;
	char byte = 0;

	run_on(turns->cpu);
	if (read(turns->pipes[0][0], &byte, 1) != 1)
		return false;
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (read(turns->pipes[1][0], &byte, 1) != 1)
			_exit(1);
		turns->tid[1] = getpid();
		turns->ready[1] = 1;
		_exit(read(turns->pipes[1][0], &byte, 1) != 1 || !take_turns(turns, 1));
	}
	/* From here the child goes on, directly after this task. */
	if (write(turns->pipes[1][1], &byte, 1) != 1 || read(turns->pipes[0][0], &byte, 1) != 1)
		return false;
	return take_turns(turns, 0) && wait(&status) > 0 && !status;
}

/*
 * Start a task with an event, and its child, which has the context of that event; join an event of
 * @pmu to it, by which it goes to that PMU's context. Returns the descriptor of that event, or
 * -EINVAL if another task ran in between and the child has its own context.
 */
static int move_event(struct turns *turns, struct ring *ring, const char *pmu)
{
	struct perf_event_attr attr = branch_attr("perf_test");
	struct perf_event_attr other = {
		.type		= pmu_type(pmu),
		.size		= sizeof(other),
		.config		= 1,
		.sample_period	= attr.sample_period,
		.inherit	= 1,
	};
	pid_t pid = fork();
	int fd = -ETIMEDOUT;

	if (pid < 0)
		return -errno;
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(!turn_with_child(turns));
	}
	turns->tid[0] = pid;
	turns->ready[1] = 0;
	attr.inherit = 1;
	if (!ring_open(ring, &attr, pid, turns->cpu, 64)) {
		if (write(turns->pipes[0][1], "", 1) == 1 && is_ready(turns, 1))
			fd = perf_open(&other, turns->tid[1], turns->cpu, ring->fd, 0);
		if (fd >= 0)
			return fd;
		ring_close(ring);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return fd;
}

/* An event is removed and installed anew while another task than its own has the context. */
TEST_F(data, of_event_that_moves)
{
	struct perf_event_attr attr = branch_attr("perf_test");
	struct turns *turns = self->turns;
	int fd = -EINVAL, opened;
	struct ring of_task;
	struct count count;

	ASSERT_TRUE(set_file("second", "0"));
	ASSERT_TRUE(set_file("second", "3"));
	for (int i = 0; i < 20 && fd == -EINVAL; i++)
		fd = move_event(turns, &self->ring, "perf_test2");
	ASSERT_LE(0, fd);
	opened = ring_open(&of_task, &attr, turns->tid[0], -1, 64);
	close(fd);
	ASSERT_EQ(0, opened);
	ring_close(&self->ring);
	self->ring = of_task;

	/* Both have given back what they held, and not what the task's event holds. */
	ASSERT_EQ(1, write(turns->pipes[1][1], "", 1));
	ASSERT_TRUE(is_ready(turns, 0));
	ring_drain(&self->ring);
	count_turns(turns, &self->ring, self->record, &count, 1);
	turns->stop = 1;
	EXPECT_ALL_WHOLE(&count, 1);
	EXPECT_EXIT(turns->tid[0], 0);
}

/* kthreadd has no calls to record; an event of it does no harm. */
TEST_F(data, of_kernel_thread)
{
	struct perf_event_attr attr = branch_attr("perf_test2");
	int fd, freed[2];

	ASSERT_TRUE(count_open(freed, FREES, OF_SECOND));
	fd = perf_open(&attr, 2, -1, -1, 0);
	ASSERT_LE(0, fd);
	close(fd);
	EXPECT_EQ(1, frees(freed));
	count_close(freed);
}

/* The kernel's own event of a CPU gives all tasks data, and its own event of a task this one. */
TEST_F(data, of_kernel_counter)
{
	long lack = get_file("lacking2");
	int freed[2];

	EXPECT_LT(1, lack);
	ASSERT_TRUE(count_open(freed, FREES, OF_SECOND));
	ASSERT_TRUE(set_file("counter", "2"));
	EXPECT_EQ(lack - 1, get_file("lacking2"));
	ASSERT_TRUE(set_file("counter", "1"));
	EXPECT_EQ(0, get_file("lacking2"));
	EXPECT_FALSE(set_file("second", "0"));
	EXPECT_EQ(EBUSY, errno);
	ASSERT_TRUE(set_file("counter", "0"));
	EXPECT_LE(lack + 1, frees(freed));
	count_close(freed);
}

/* Events that make it slow to free an object, as each walks the stack, and tasks with one. */
#define SLOW		200
#define SLOW_TASKS	200

static bool slow_open(int fd[SLOW], int cpu)
{
	struct perf_event_attr attr = {
		.config		= tracepoint_id(FREES),
		.sample_period	= 1,
		.sample_type	= PERF_SAMPLE_CALLCHAIN,
	};

	for (int i = 0; i < SLOW; i++) {
		fd[i] = filtered_open(&attr, cpu, OF_SECOND);
		if (fd[i] < 0)
			return false;
	}
	return true;
}

/*
 * CPU 0 removes a PMU right after its last event, while CPU 1 still has its objects to free. None
 * is left when the PMU is gone.
 */
TEST_F(data, pmu_that_goes)
{
	struct perf_event_attr attr = branch_attr("perf_test2");
	int fd, freed[2], slow[SLOW];
	pid_t pids[SLOW_TASKS];
	long lack;

	/* First, so that they do not inherit the descriptors. */
	start_waiting(pids, SLOW_TASKS);
	ASSERT_TRUE(count_open(freed, FREES, OF_SECOND));
	ASSERT_TRUE(slow_open(slow, 1));
	lack = get_file("lacking2");
	EXPECT_LT(SLOW_TASKS, lack);

	fd = perf_open(&attr, -1, 1, -1, 0);
	ASSERT_LE(0, fd);
	EXPECT_FALSE(set_file("second", "0"));
	EXPECT_EQ(EBUSY, errno);
	close(fd);
	run_on(0);
	/*
	 * Keep the cache: to destroy it would also wait. The walk may have freed an object that it
	 * did not need.
	 */
	EXPECT_TRUE(set_file("second", "4"));
	EXPECT_LE(lack, counted(freed));

	for (int i = 0; i < SLOW; i++)
		close(slow[i]);
	count_close(freed);
	end_waiting(_metadata, pids, SLOW_TASKS);
}

TEST_HARNESS_MAIN
