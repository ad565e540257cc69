// SPDX-License-Identifier: GPL-2.0
/*
 * Storms of requests to the deferred unwinding core, with fork, exec, exit, signals
 * and tracers that come and go: each granted request has one callback, with its
 * cookie and in its address space; each kernel entry has one cookie, and no two
 * entries have the same one.
 *
 * The kernel does the accounting (kernel/unwind/test_storm.c), and this program makes
 * the load. It ends once UNWIND_STORM_NMI kernel entries had a request granted in
 * NMI, and four times as many requests came from interrupt and task context, but not
 * before UNWIND_SECONDS. UNWIND_SEED repeats what the processes do, but not when.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test_storm.h"
#include "tracer.h"
#include "harness.h"

#define FILE_NAME	"/sys/kernel/debug/unwind/storm"
/* The default takes a few seconds on an emulated machine. */
#define DEFAULT_NMI	40000
/* Requests from other contexts for each entry with a request from NMI. */
#define PER_NMI		4
/* The minimum in runs with a given time. */
#define NMI_PER_SECOND	30
/* The long form has no fixed duration. */
#define TIMEOUT		14400
/* The period of the NMIs on each CPU. */
#define PERIOD_US	200

/* Tracers that stay. The others are cancelled and registered all the time. */
#define STABLE		4
#define STABLE_MASK	((1U << STABLE) - 1)
/* System calls request one tracer of each kind. */
#define SYSCALL_MASK	(1U << (STABLE - 1) | 1U << STABLE)

/* Average number of bursts before a process starts its next child. */
#define LIFE		32
#define WORKERS		16
#define EXEC_FAILED	126

/* State that the processes share. */
static struct shared {
	atomic_bool	stop;
	atomic_ulong	bursts;
	atomic_ulong	failed;
	atomic_ulong	handled;
	atomic_ulong	forks;
	atomic_ulong	execs;
	atomic_ulong	vforks;
	atomic_ulong	killed;
	atomic_ulong	cancels;
} *shared;

struct rng {
	uint64_t state;
};

static int storm_fd = -1;
static int self_fd = -1;
static struct rng handler_rng;

static uint64_t rng_next(struct rng *rng)
{
	rng->state ^= rng->state >> 12;
	rng->state ^= rng->state << 25;
	rng->state ^= rng->state >> 27;
	return rng->state * 0x2545f4914f6cdd1dULL >> 16;
}

static unsigned int below(struct rng *rng, unsigned int limit)
{
	return rng_next(rng) % limit;
}

static struct rng rng_fork(struct rng *rng)
{
	return (struct rng){ rng_next(rng) * 2 + 1 };
}

/* Some tracers, sometimes only those that stay. */
static uint8_t random_tracers(struct rng *rng)
{
	uint64_t bits = rng_next(rng);
	uint8_t tracers = bits & (bits >> 8);

	if (bits & 1 << 16)
		tracers &= STABLE_MASK;
	return tracers ?: 1U << (bits >> 20) % UNWIND_STORM_TRACERS;
}

static struct unwind_storm_step random_step(struct rng *rng)
{
	static const uint8_t kinds[] = {
		UNWIND_STORM_TASK, UNWIND_STORM_TASK, UNWIND_STORM_IRQS_OFF,
		UNWIND_STORM_HARDIRQ, UNWIND_STORM_HARDIRQ, UNWIND_STORM_NMI,
		UNWIND_STORM_HIT, UNWIND_STORM_WORK,
	};
	struct unwind_storm_step step = {
		.what	= kinds[below(rng, sizeof(kinds))],
		.arg	= random_tracers(rng),
		.count	= 1 + below(rng, 2),
	};

	switch (below(rng, 256)) {
	case 0 ... 3:
		step.what = UNWIND_STORM_FAULTABLE;
		break;
	case 4 ... 5:
		step.what = UNWIND_STORM_SLEEP;
		break;
	case 6:
		step.what = UNWIND_STORM_SIGNAL;
		step.arg = SIGUSR1;
		break;
	}
	return step;
}

static void make_burst(struct unwind_storm_burst *burst)
{
	if (ioctl(storm_fd, UNWIND_STORM_BURST, burst) && shared)
		shared->failed++;
	if (shared)
		shared->bursts++;
}

/* Requests in one entry, which also sends @signo from within unless that is 0. */
static void random_burst(struct rng *rng, int signo)
{
	struct unwind_storm_burst burst = { .nr = 2 + below(rng, 5) };

	for (unsigned int i = 0; i < burst.nr; i++)
		burst.steps[i] = random_step(rng);
	if (signo) {
		struct unwind_storm_step *step = &burst.steps[below(rng, burst.nr)];

		step->what = UNWIND_STORM_SIGNAL;
		step->arg = signo;
	}
	burst.steps[burst.nr] = (struct unwind_storm_step) {
		.what	= UNWIND_STORM_NMI,
		.arg	= random_tracers(rng),
		.count	= 1,
	};
	/* If the NMI comes first, it names the entry. */
	if (below(rng, 2)) {
		struct unwind_storm_step nmi = burst.steps[burst.nr];

		burst.steps[burst.nr] = burst.steps[0];
		burst.steps[0] = nmi;
	}
	burst.nr++;
	make_burst(&burst);
}

static void random_bursts(struct rng *rng, unsigned int nr)
{
	while (nr--)
		random_burst(rng, 0);
}

/* Short system calls, so that many NMIs hit user mode, and kernel entry and exit. */
static void user_mode(struct rng *rng)
{
	for (unsigned int i = below(rng, 64); i; i--) {
		for (volatile unsigned int spin = below(rng, 256); spin; spin--)
			;
		syscall(SYS_getppid);
	}
}

/* Handlers nest: a burst of a handler may send the next signal. */
static void handle_signal(int signo)
{
	static __thread unsigned int depth;

	if (shared)
		shared->handled++;
	if (depth < 3) {
		depth++;
		random_burst(&handler_rng, 0);
		depth--;
	}
}

static void *burst_thread(void *data)
{
	struct rng rng = *(struct rng *)data;

	for (;;)
		random_burst(&rng, 0);
	return NULL;
}

/* Execute this program again. Its environment tells it what to do. */
static void exec_self(struct rng *rng)
{
	static char variable[64];
	char *const argv[] = { "storm", NULL };
	char *const envp[] = { variable, NULL };

	snprintf(variable, sizeof(variable), "UNWIND_STORM_EXEC=%d %llu", storm_fd,
		 (unsigned long long)rng_next(rng));
	fexecve(self_fd, argv, envp);
	_exit(EXEC_FAILED);
}

/* Runs before main() and the harness: the new image makes bursts and then ends. */
static void __attribute__((constructor)) exec_mode(void)
{
	const char *variable = getenv("UNWIND_STORM_EXEC");
	unsigned long long seed;
	struct rng rng;

	if (!variable || sscanf(variable, "%d %llu", &storm_fd, &seed) != 2)
		return;
	rng.state = seed * 2 + 1;
	random_bursts(&rng, 1 + below(&rng, 8));
	if (!below(&rng, 4))
		random_burst(&rng, SIGKILL);
	_exit(0);
}

static void crash(struct rng *rng)
{
	struct rlimit none = {};
	volatile char *nowhere = NULL;

	setrlimit(RLIMIT_CORE, &none);
	signal(SIGSEGV, SIG_DFL);
	random_burst(rng, 0);
	*nowhere = 1;
}

enum life {
	EXIT, KILL_SELF, CRASH, BUSY, EXEC, THREADS_EXIT, THREADS_EXEC, THREADS_BUSY, NR_LIVES
};

/* A child's life. The parent kills the busy ones. */
static void child_life(struct rng *rng, enum life life)
{
	struct rng rngs[2] = { rng_fork(rng), rng_fork(rng) };
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	handler_rng = rng_fork(rng);
	random_bursts(rng, below(rng, 4));
	if (life == THREADS_EXIT || life == THREADS_EXEC || life == THREADS_BUSY) {
		for (int i = 0; i < 2; i++)
			pthread_create(&thread, NULL, burst_thread, &rngs[i]);
		random_bursts(rng, 8);
	}
	switch (life) {
	case KILL_SELF:
		random_burst(rng, SIGKILL);
		break;
	case CRASH:
		crash(rng);
		break;
	case BUSY:
	case THREADS_BUSY:
		for (;;)
			random_burst(rng, 0);
	case THREADS_EXEC:
	case EXEC:
		exec_self(rng);
		break;
	default:
		break;
	}
	_exit(0);
}

static void live_and_die(struct rng *rng)
{
	struct rng child_rng = rng_fork(rng);
	enum life life = below(rng, NR_LIVES);
	/* Exec is rarer than the rest: loading a program takes most of the time. */
	bool exec = life == EXEC || life == THREADS_EXEC;
	bool busy = life == BUSY || life == THREADS_BUSY;
	bool vforked = exec && below(rng, 2);
	int status = 0;
	pid_t child;

	if (exec && below(rng, 4))
		return;
	if (vforked) {
		child = vfork();
		if (!child) {
			/* Runs on the parent's stack, while the parent waits in its entry. */
			random_burst(&child_rng, 0);
			exec_self(&child_rng);
		}
		shared->vforks++;
	} else {
		child = fork();
		if (!child)
			child_life(&child_rng, life);
		shared->forks++;
	}
	shared->execs += exec;
	if (child < 0) {
		shared->failed++;
		return;
	}
	if (busy) {
		random_bursts(rng, below(rng, 32));
		kill(child, SIGKILL);
		shared->killed++;
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXEC_FAILED)
		shared->failed++;
}

static void worker(struct rng rng)
{
	struct sigaction action = { .sa_handler = handle_signal, .sa_flags = SA_NODEFER };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigaction(SIGUSR1, &action, NULL);
	handler_rng = rng_fork(&rng);
	while (!shared->stop) {
		random_bursts(&rng, below(&rng, 2 * LIFE));
		user_mode(&rng);
		live_and_die(&rng);
	}
	_exit(0);
}

/* Cancel tracers and register them again. */
static void *churn_thread(void *data)
{
	struct rng rng = *(struct rng *)data;

	while (!shared->stop) {
		unsigned int tracer = STABLE + below(&rng, UNWIND_STORM_TRACERS - STABLE);

		if (ioctl(storm_fd, UNWIND_STORM_CANCEL, tracer) ||
		    ioctl(storm_fd, UNWIND_STORM_REGISTER, tracer))
			shared->failed++;
		shared->cancels++;
	}
	return NULL;
}

static unsigned long env_number(const char *name, unsigned long otherwise)
{
	const char *value = getenv(name);

	return value && *value ? strtoul(value, NULL, 0) : otherwise;
}

/* Copy the program to memory: exec is under test, and not a file system. */
static int copy_of_self(void)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int to = memfd_create("storm", 0);
	struct stat st;

	if (from < 0 || to < 0 || fstat(from, &st))
		return -1;
	while (st.st_size > 0) {
		ssize_t sent = sendfile(to, from, NULL, st.st_size);

		if (sent <= 0)
			return -1;
		st.st_size -= sent;
	}
	close(from);
	return to;
}

static unsigned long long answered(const struct unwind_storm_sums *sums, unsigned int where)
{
	return sums->results[where][UNWIND_STORM_GRANTED] +
	       sums->results[where][UNWIND_STORM_COMING];
}

static unsigned long long not_from_nmi(const struct unwind_storm_sums *sums)
{
	return answered(sums, UNWIND_STORM_TASK) + answered(sums, UNWIND_STORM_IRQS_OFF) +
	       answered(sums, UNWIND_STORM_HARDIRQ) + answered(sums, UNWIND_STORM_SYSCALL) +
	       answered(sums, UNWIND_STORM_CALLBACK);
}

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

FIXTURE(storm) {
	struct unwind_storm_counts counts;
	unsigned long seed, nmi, limit;
	double begin;
	long walks, moved;
	pid_t workers[WORKERS];
	unsigned int nr_workers;
};

FIXTURE_SETUP(storm)
{
	storm_fd = open(FILE_NAME, O_RDWR);
	if (storm_fd < 0)
		SKIP(return, "needs root and CONFIG_UNWIND_TEST_TRACER");
	self_fd = copy_of_self();
	ASSERT_LE(0, self_fd);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, shared);
	for (unsigned long tracer = 0; tracer < UNWIND_STORM_TRACERS; tracer++)
		ASSERT_EQ(0, ioctl(storm_fd, UNWIND_STORM_REGISTER, tracer));
	/*
	 * Tasks that sleep all the time, such as the harness, must not be hit: they
	 * would owe their callbacks until the end.
	 */
	ASSERT_EQ(0, setpgid(0, 0));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	self->seed = env_number("UNWIND_SEED", time(NULL));
	self->limit = env_number("UNWIND_SECONDS", 0);
	/* Any kernel reaches more than that. */
	self->nmi = env_number("UNWIND_STORM_NMI",
			       self->limit ? self->limit * NMI_PER_SECOND : DEFAULT_NMI);
	/* Print this now, because the kernel may crash before the end. */
	TH_LOG("UNWIND_SEED=%lu UNWIND_SECONDS=%lu UNWIND_STORM_NMI=%lu", self->seed,
	       self->limit, self->nmi);
}

FIXTURE_TEARDOWN(storm)
{
	close(storm_fd);
	close(self_fd);
}

static void report(struct __test_metadata *_metadata, const struct unwind_storm_counts *counts,
		   double seconds)
{
	static const char * const wheres[UNWIND_STORM_NR_WHERE] = {
		"task", "irqs off", "hardirq", "own NMI", "other CPU's NMI", "syscall", "callback",
	};
	const struct unwind_storm_sums *sums = &counts->sums;

	TH_LOG("%-16s %10s %10s %8s %8s %8s %8s", "requests from", "granted", "coming",
	       "EINVAL", "ESRCH", "ESTALE", "EAGAIN");
	for (unsigned int w = 0; w < UNWIND_STORM_NR_WHERE; w++) {
		const __u64 *results = sums->results[w];

		TH_LOG("%-16s %10llu %10llu %8llu %8llu %8llu %8llu", wheres[w],
		       results[0], results[1], results[2], results[3], results[4], results[5]);
	}
	TH_LOG("%llu entries with requests, %llu granted in NMI (%.0f/s), %llu named in NMI",
	       sums->entries, sums->nmi_entries, sums->nmi_entries / seconds, sums->nmi_named);
	TH_LOG("%llu requests not from NMI (%.0f/s)", not_from_nmi(sums),
	       not_from_nmi(sums) / seconds);
	TH_LOG("%lu bursts, %lu signals handled, %lu forks, %lu vforks, %lu execs, %lu killed",
	       shared->bursts, shared->handled, shared->forks, shared->vforks, shared->execs,
	       shared->killed);
	TH_LOG("%llu NMIs had to be sent again", sums->resent);
	TH_LOG("%lu cancels, %llu requests dropped by them, %llu task addresses", shared->cancels,
	       sums->dropped + counts->left, counts->records);
	for (unsigned int i = 0; i < counts->nr_notes; i++) {
		const struct unwind_storm_note *note = &counts->notes[i];

		TH_LOG("error %u: tracer %u where %u tid %u cookie %llx other %llx", note->error,
		       note->tracer, note->where, note->tid, note->cookie, note->other);
	}
}

static bool is_over(FIXTURE_DATA(storm) *self)
{
	const struct unwind_storm_sums *sums = &self->counts.sums;

	if (ioctl(storm_fd, UNWIND_STORM_COUNTS, &self->counts))
		return true;
	for (unsigned int i = 0; i < UNWIND_STORM_NR_ERRORS; i++) {
		if (sums->errors[i])
			return true;
	}
	return seconds_now() - self->begin >= self->limit &&
	       sums->nmi_entries >= self->nmi && not_from_nmi(sums) >= PER_NMI * self->nmi;
}

static void check_books(struct __test_metadata *_metadata,
			const struct unwind_storm_counts *counts)
{
	const struct unwind_storm_sums *sums = &counts->sums;
	unsigned long long granted = 0, called = 0;

	for (unsigned int i = 0; i < UNWIND_STORM_NR_ERRORS; i++) {
		EXPECT_EQ(0, sums->errors[i]) {
			TH_LOG("error %u", i);
		}
	}
	EXPECT_EQ(0, counts->owing);
	for (unsigned int t = 0; t < UNWIND_STORM_TRACERS; t++) {
		granted += sums->granted[t];
		called += sums->called[t];
		if (t < STABLE) {
			EXPECT_EQ(sums->granted[t], sums->called[t]);
		}
	}
	EXPECT_EQ(granted, called + sums->dropped + counts->left);
	/* The emulator loses an NMI once in a while. More losses are the kernel's fault. */
	EXPECT_LE(sums->resent, 1 + sums->nmi_entries / 1000000);
	TH_LOG("%llu granted, %llu called", granted, called);
	/* Each kind of request was granted. */
	for (unsigned int w = 0; w < UNWIND_STORM_CALLBACK; w++)
		EXPECT_LT(0, sums->results[w][UNWIND_STORM_GRANTED]);
	EXPECT_LT(0, sums->results[UNWIND_STORM_CALLBACK][UNWIND_STORM_COMING]);
}

TEST_F_TIMEOUT(storm, exactly_once, TIMEOUT)
{
	struct unwind_storm_arm arm = {
		.period_us	= PERIOD_US,
		.hit		= (1U << UNWIND_STORM_TRACERS) - 1,
		.syscall	= SYSCALL_MASK,
	};
	struct rng rng = { self->seed * 2 + 1 }, churn_rng = rng_fork(&rng);
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t churn;
	double seconds;

	self->nr_workers = cpus < WORKERS ? cpus : WORKERS;
	self->begin = seconds_now();
	self->walks = unwind_stat("walks");
	self->moved = unwind_stat("empty_moved");
	ASSERT_EQ(0, ioctl(storm_fd, UNWIND_STORM_ARM, &arm));
	for (unsigned int i = 0; i < self->nr_workers; i++) {
		struct rng worker_rng = rng_fork(&rng);

		self->workers[i] = fork();
		if (!self->workers[i])
			worker(worker_rng);
	}
	ASSERT_EQ(0, pthread_create(&churn, NULL, churn_thread, &churn_rng));
	while (!is_over(self))
		usleep(100000);

	shared->stop = true;
	pthread_join(churn, NULL);
	for (unsigned int i = 0; i < self->nr_workers; i++) {
		int status;

		EXPECT_EQ(self->workers[i], waitpid(self->workers[i], &status, 0));
		EXPECT_EQ(0, status);
	}
	ASSERT_EQ(0, ioctl(storm_fd, UNWIND_STORM_DISARM));
	seconds = seconds_now() - self->begin;
	ASSERT_EQ(0, ioctl(storm_fd, UNWIND_STORM_COUNTS, &self->counts));

	TH_LOG("%.1f s, %u workers", seconds, self->nr_workers);
	report(_metadata, &self->counts, seconds);
	check_books(_metadata, &self->counts);
	EXPECT_EQ(0, atomic_load(&shared->failed));

	/*
	 * Each sigreturn has a request. Without a flush there, the registers would
	 * change before the walk. An NMI may come after the last flush, but not that
	 * often.
	 */
	self->walks = unwind_stat("walks") - self->walks;
	self->moved = unwind_stat("empty_moved") - self->moved;
	TH_LOG("%ld traces, %ld without as the registers were changed", self->walks, self->moved);
	EXPECT_LE(self->moved, (long)shared->handled / 2);
	EXPECT_LE(self->nmi, self->counts.sums.nmi_entries);
	EXPECT_LE(PER_NMI * self->nmi, not_from_nmi(&self->counts.sums));
}

TEST_HARNESS_MAIN
