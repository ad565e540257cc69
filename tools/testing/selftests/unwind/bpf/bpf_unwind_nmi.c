// SPDX-License-Identifier: GPL-2.0
/*
 * BPF programs that request deferred user stacks in NMIs, wherever these hit: one delivery
 * for each kernel entry, with the whole stack.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bpf_run.h"
#include "perf_ring.h"
#include "workload.h"
#include "harness.h"

/* Number of known callers; the whole trace fits. */
#define DEPTH		20

/* Samples in NMI, see perf/nmi.c. */
#define PERIOD_NS	250000
#define PERCENT		"kernel/perf_cpu_time_max_percent"
#define HITS		60

FIXTURE(nmi) {
	struct perf_event_attr attr;
	struct bpf_run run;
	int percent;
};

FIXTURE_VARIANT(nmi) {
	const char *program;
	/* Mode of the PMU. */
	int mode;
	/* The event has a callchain, from which bpf_get_stack() otherwise takes the stack. */
	bool callchain;
};

FIXTURE_VARIANT_ADD(nmi, remote) { .program = "ask_perf_event" };
FIXTURE_VARIANT_ADD(nmi, remote_flag) { .program = "ask_perf_event_flag" };
FIXTURE_VARIANT_ADD(nmi, self) { .program = "ask_perf_event", .mode = 1 };
FIXTURE_VARIANT_ADD(nmi, self_flag) { .program = "ask_perf_event_flag", .mode = 1 };
FIXTURE_VARIANT_ADD(nmi, callchain_flag) {
	.program = "ask_perf_event_flag", .callchain = true
};

FIXTURE_SETUP(nmi)
{
	int type = pmu_type("perf_test");

	SKIP_WITHOUT_BPF();
	if (type < 0)
		SKIP(return, "needs CONFIG_PERF_TEST_PMU");
	if (!variant->mode && sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two CPUs");
	self->attr = (struct perf_event_attr) {
		.type		= type,
		.size		= sizeof(self->attr),
		.config		= variant->mode,
		.sample_period	= PERIOD_NS,
		.sample_type	= variant->callchain ? PERF_SAMPLE_CALLCHAIN : 0,
		.disabled	= 1,
	};
	self->percent = set_sysctl(PERCENT, 0);
	ASSERT_EQ(0, bpf_run_start(&self->run, "deliver_fentry_s", variant->program));
}

FIXTURE_TEARDOWN(nmi)
{
	bpf_run_close(&self->run);
	if (self->percent > 0)
		set_sysctl(PERCENT, self->percent);
}

/* Run until enough NMIs hit, however slow the machine. */
static void busy(const struct bpf_run *run)
{
	struct bpf_run_sum sum;

	do {
		for (int i = 0; i < 20000; i++)
			workload_syscall(DEPTH, SYS_getpgid);
		bpf_run_add_up(run, BPF_UNWIND_FENTRY_S, &sum);
	} while (sum.entries < HITS && !sum.lost);
}

/* Each entry with a request from an NMI gets one delivery with the whole stack. */
TEST_F_TIMEOUT(nmi, one_delivery, 300)
{
	const struct bpf_unwind_trace *entries, *stack;
	struct bpf_run_sum sum;
	unsigned int right = 0;
	int fd;

	fd = perf_open(&self->attr, 0, -1, -1, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bpf_run_attach_event(&self->run, variant->program, fd));
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	/* Not before: the program arrives in that call, which may add a delivery. */
	self->run.shared->tid = gettid();
	busy(&self->run);
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	self->run.shared->tid = BPF_RUN_NOBODY;

	bpf_run_add_up(&self->run, BPF_UNWIND_FENTRY_S, &sum);
	TH_LOG("%u requests, %u refused, %u entries", sum.asked, sum.refused, sum.entries);
	EXPECT_LE(HITS, sum.entries);
	EXPECT_EQ(sum.entries, sum.delivered);
	EXPECT_EQ(0, sum.missing);
	EXPECT_EQ(0, sum.twice);
	EXPECT_EQ(0, sum.foreign);
	EXPECT_EQ(0, sum.lost);
	EXPECT_EQ(0, sum.empty);
	EXPECT_EQ(0, sum.not_granted);
	if (!strstr(variant->program, "flag"))
		EXPECT_EQ(0, sum.granted_twice);
	/* Only few requests hit between two entries, where they are refused. */
	EXPECT_GT(sum.entries / 2, sum.refused);

	/* Both traces agree, wherever the NMI hits; in the system call they have known callers. */
	for (int i = 0; ; i++) {
		entries = bpf_run_trace(&self->run, BPF_UNWIND_FENTRY_S, BPF_UNWIND_ENTRIES, i);
		stack = bpf_run_trace(&self->run, BPF_UNWIND_FENTRY_S, BPF_UNWIND_STACK, i);
		if (!entries || !stack)
			break;
		EXPECT_EQ(entries->ret, stack->ret);
		EXPECT_EQ(0, memcmp(entries->ips, stack->ips, sizeof(stack->ips)));
		right += bpf_run_right(stack, DEPTH);
	}
	EXPECT_LT(0, right);
}

TEST_HARNESS_MAIN
