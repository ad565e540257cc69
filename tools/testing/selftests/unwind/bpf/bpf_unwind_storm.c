// SPDX-License-Identifier: GPL-2.0
/*
 * BPF programs that request deferred user stacks from NMIs, while similar programs are
 * loaded and unloaded, and threads come and go: each kernel entry with a request has one
 * delivery, even if the requesting program is gone; entries without a request have none.
 * UNWIND_SECONDS sets the duration.
 */
#define _GNU_SOURCE
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bpf_run.h"
#include "perf_ring.h"
#include "workload.h"
#include "harness.h"

#define PERIOD_NS	400000
#define PERCENT		"kernel/perf_cpu_time_max_percent"
#define WORKERS		4
#define CPUS		2
/* Each test has half of the time, or what it needs on a slow machine. */
#define SECONDS		5
#define ENTRIES		100
#define TIMEOUT		7200

struct worker {
	pthread_t	thread;
	atomic_ulong	turns;
};

FIXTURE(storm) {
	struct perf_event_attr attr;
	struct bpf_run stays;
	/* The instructions of the program that comes and goes. */
	struct bpf_insn *insns;
	size_t nr_insns;
	struct worker workers[WORKERS];
	/* Events of the programs that stay, and of those that come and go. */
	int events[CPUS], others[CPUS];
	int percent;
};

static atomic_bool stop;

static double seconds_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

/* When a test that begins now is to end. */
static double end_of_test(void)
{
	const char *seconds = getenv("UNWIND_SECONDS");

	return seconds_now() + (seconds ? atof(seconds) : SECONDS) / 2;
}

static void *short_thread(void *data)
{
	workload_syscall(3, SYS_getpgid);
	return NULL;
}

/* Make kernel entries of different kinds and lengths. */
static void work(unsigned long turn)
{
	pthread_t thread;
	char *map;

	for (int i = 0; i < 20; i++)
		workload_syscall(turn % 20, SYS_getpgid);
	switch (turn % 4) {
	case 0:
		if (!pthread_create(&thread, NULL, short_thread, NULL))
			pthread_join(thread, NULL);
		break;
	case 1:
		map = mmap(NULL, 16 * 4096, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (map != MAP_FAILED) {
			for (int i = 0; i < 16; i++)
				((volatile char *)map)[i * 4096] = 1;
			munmap(map, 16 * 4096);
		}
		break;
	case 2:
		pthread_kill(pthread_self(), SIGUSR1);
		break;
	case 3:
		usleep(100);
		break;
	}
}

static void *worker_thread(void *data)
{
	struct worker *worker = data;

	while (!stop)
		work(worker->turns++);
	return NULL;
}

static void handler(int sig)
{
	workload_syscall(2, SYS_getpgid);
}

/* Wait until each thread has left its current kernel entry. */
static void wait_for_workers(struct worker *workers)
{
	unsigned long turns;

	for (int i = 0; i < WORKERS; i++) {
		turns = workers[i].turns;
		while (workers[i].turns < turns + 2)
			usleep(1000);
	}
}

FIXTURE_SETUP(storm)
{
	int type = pmu_type("perf_test");

	SKIP_WITHOUT_BPF();
	if (type < 0)
		SKIP(return, "needs CONFIG_PERF_TEST_PMU");
	if (sysconf(_SC_NPROCESSORS_ONLN) < CPUS)
		SKIP(return, "needs two CPUs");
	self->percent = set_sysctl(PERCENT, 0);
	self->attr = (struct perf_event_attr) {
		.type		= type,
		.size		= sizeof(self->attr),
		.sample_period	= PERIOD_NS,
		.disabled	= 1,
	};
	for (int i = 0; i < CPUS; i++) {
		self->events[i] = perf_open(&self->attr, -1, i, -1, 0);
		ASSERT_LE(0, self->events[i]);
	}
	signal(SIGUSR1, handler);
	stop = false;
	for (int i = 0; i < WORKERS; i++) {
		struct worker *worker = &self->workers[i];

		ASSERT_EQ(0, pthread_create(&worker->thread, NULL, worker_thread, worker));
	}
}

FIXTURE_TEARDOWN(storm)
{
	stop = true;
	for (int i = 0; i < WORKERS; i++)
		pthread_join(self->workers[i].thread, NULL);
	for (int i = 0; i < CPUS; i++)
		close(self->events[i]);
	bpf_run_close(&self->stays);
	free(self->insns);
	if (self->percent > 0)
		set_sysctl(PERCENT, self->percent);
}

static void ioctl_all(const int events[CPUS], unsigned long request)
{
	for (int i = 0; i < CPUS; i++)
		ioctl(events[i], request, 0);
}

/* Each enabled event is an arrival. */
static void enable_all(struct _test_data_storm *self, const int events[CPUS])
{
	self->stays.shared->arrivals_begun += CPUS;
	ioctl_all(events, PERF_EVENT_IOC_ENABLE);
	self->stays.shared->arrivals_ended += CPUS;
}

/* Copy the instructions of a program, with the map of the program that stays. */
static int get_program(struct _test_data_storm *self)
{
	const struct bpf_program *program;
	struct bpf_run run;
	int map, err;

	err = bpf_run_join(&run, &self->stays, "ask_perf_event");
	if (err)
		return err;
	program = bpf_run_program(&run, "ask_perf_event");
	self->nr_insns = bpf_program__insn_cnt(program);
	self->insns = malloc(self->nr_insns * sizeof(*self->insns));
	if (!self->insns)
		exit(1);
	memcpy(self->insns, bpf_program__insns(program), self->nr_insns * sizeof(*self->insns));
	map = bpf_run_map(&run, ".bss");
	for (size_t i = 0; i < self->nr_insns; i++) {
		struct bpf_insn *insn = &self->insns[i];

		if (insn->code != (BPF_LD | BPF_IMM | BPF_DW))
			continue;
		if (insn->src_reg == BPF_PSEUDO_MAP_VALUE && insn->imm == map)
			insn->imm = bpf_run_map(&self->stays, ".bss");
		i++;
	}
	bpf_run_close(&run);
	return 0;
}

/* Load, attach and unload a program that requests. */
static int come_and_go(struct _test_data_storm *self, unsigned int turn)
{
	/* Every retry would be another load. */
	LIBBPF_OPTS(bpf_prog_load_opts, once, .attempts = 1);
	int prog, err = 0;

	self->stays.shared->arrivals_begun++;
	prog = bpf_prog_load(BPF_PROG_TYPE_PERF_EVENT, "comes_and_goes", "GPL", self->insns,
			     self->nr_insns, &once);
	self->stays.shared->arrivals_ended++;
	if (prog < 0)
		return prog;
	self->stays.shared->arrivals_begun += CPUS;
	for (int i = 0; i < CPUS; i++) {
		self->others[i] = perf_open(&self->attr, -1, i, -1, 0);
		err |= ioctl(self->others[i], PERF_EVENT_IOC_SET_BPF, prog);
	}
	self->stays.shared->arrivals_ended += CPUS;
	enable_all(self, self->others);
	usleep(1000 * (turn % 4));
	/* Alternate the order: close the events first, or the program under them. */
	if (turn & 1)
		close(prog);
	for (int i = 0; i < CPUS; i++)
		close(self->others[i]);
	if (!(turn & 1))
		close(prog);
	return err;
}

/* Storm for one second, or less if there are many notes; then stop all requests. */
static void storm_for_a_while(struct __test_metadata *_metadata,
			      struct _test_data_storm *self, unsigned int *turns)
{
	double end = seconds_now() + 1;

	enable_all(self, self->events);
	do {
		ASSERT_EQ(0, come_and_go(self, *turns));
		++*turns;
	} while (seconds_now() < end && self->stays.shared->nr_notes < BPF_UNWIND_NOTES / 2);
	ioctl_all(self->events, PERF_EVENT_IOC_DISABLE);
	wait_for_workers(self->workers);
}

/*
 * With a program that stays: no delivery is lost, and none comes twice except in a kernel
 * entry during which a program is loaded or attached: one more for each arrival, because
 * the new program may not have had the delivery.
 */
TEST_F_TIMEOUT(storm, one_stays, TIMEOUT)
{
	unsigned int entries = 0, asked = 0, turns = 0;
	struct bpf_run_sum sum;
	double end;

	ASSERT_EQ(0, bpf_run_start(&self->stays, "deliver_fentry_s", "deliver_fmod",
				   "ask_perf_event"));
	for (int i = 0; i < CPUS; i++) {
		ASSERT_EQ(0, bpf_run_attach_event(&self->stays, "ask_perf_event",
						  self->events[i]));
	}
	ASSERT_EQ(0, get_program(self));
	self->stays.shared->tgid = getpid();
	self->stays.shared->tid = 0;
	end = end_of_test();
	do {
		storm_for_a_while(_metadata, self, &turns);
		for (int who = BPF_UNWIND_FENTRY_S; who <= BPF_UNWIND_FMOD; who++) {
			bpf_run_add_up(&self->stays, who, &sum);
			EXPECT_EQ(sum.entries, sum.delivered);
			EXPECT_EQ(0, sum.missing);
			EXPECT_EQ(0, sum.surplus);
			EXPECT_EQ(0, sum.foreign);
			EXPECT_EQ(0, sum.granted_twice);
			EXPECT_EQ(0, sum.not_granted);
			EXPECT_EQ(0, sum.lost);
		}
		entries += sum.entries;
		asked += sum.asked;
		bpf_run_clear(&self->stays);
	} while ((seconds_now() < end || entries < ENTRIES) && !_metadata->exit_code);
	TH_LOG("%u requests in %u entries, %u programs", asked, entries, turns);
	EXPECT_LT(entries, asked);
}

/* With none: a delivery may be dropped, or repeat as above, but none comes unrequested. */
TEST_F_TIMEOUT(storm, none_stays, TIMEOUT)
{
	unsigned int entries = 0, missing = 0, turns = 0;
	struct bpf_run_sum sum;
	double end;

	ASSERT_EQ(0, bpf_run_start(&self->stays, "deliver_fentry_s", "deliver_fmod"));
	ASSERT_EQ(0, get_program(self));
	self->stays.shared->tgid = getpid();
	self->stays.shared->tid = 0;
	end = end_of_test();
	do {
		storm_for_a_while(_metadata, self, &turns);
		for (int who = BPF_UNWIND_FENTRY_S; who <= BPF_UNWIND_FMOD; who++) {
			bpf_run_add_up(&self->stays, who, &sum);
			EXPECT_EQ(0, sum.foreign);
			EXPECT_EQ(0, sum.surplus);
			EXPECT_EQ(0, sum.not_granted);
			EXPECT_EQ(0, sum.lost);
		}
		entries += sum.entries;
		missing += sum.missing;
		bpf_run_clear(&self->stays);
	} while ((seconds_now() < end || entries < ENTRIES) && !_metadata->exit_code);
	TH_LOG("%u entries, %u of them without a delivery, %u programs", entries, missing, turns);
	/* Two deliveries are due for each entry. */
	EXPECT_LT(missing, 2 * entries);
}

TEST_HARNESS_MAIN
