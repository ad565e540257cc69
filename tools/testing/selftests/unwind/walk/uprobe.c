// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred callchains of uprobe events. A probed instruction is emulated or stepped out of
 * line before the task work runs, but the trace has to be that of the probe. The
 * in-place chain is the reference.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hang.h"
#include "perf_ring.h"
#include "shots.h"
#include "uprobe_code.h"
#include "workload.h"
#include "harness.h"

/* Is it known that the kernel can tell endbr64 from a nop? */
static bool kernel_has_ibt(void)
{
	return !system("zcat /proc/config.gz 2>/dev/null | grep -qx CONFIG_X86_KERNEL_IBT=y");
}

FIXTURE(uprobe) {
	struct perf_event_attr attr;
	struct ring deferred, in_place;
	union record *record;
	char file[4096];
	bool ibt;
};

FIXTURE_VARIANT(uprobe) {
	const char *at;
	bool ret;
	/* Expected frames; without IBT the kernel takes endbr64 for a nop. */
	const char *first, *second, *second_without_ibt;
};

/* Emulated, and the caller's frame pointer is not saved yet. */
FIXTURE_VARIANT_ADD(uprobe, push) {
	.at = probe_entry_push, .first = probe_entry_push, .second = probe_push_caller,
};

/* Nothing is pushed here either; the kernel knows that only with CONFIG_X86_KERNEL_IBT. */
FIXTURE_VARIANT_ADD(uprobe, endbr) {
	.at = probe_entry_endbr, .first = probe_entry_endbr, .second = probe_endbr_caller,
	.second_without_ibt = probe_outermost,
};

/* Emulated, and the return address that it pushes is not a frame yet. */
FIXTURE_VARIANT_ADD(uprobe, call) {
	.at = probe_call, .first = probe_call, .second = probe_push_caller,
};

FIXTURE_VARIANT_ADD(uprobe, nop) {
	.at = probe_nop, .first = probe_nop, .second = probe_push_caller,
};

/* Stepped out of line. */
FIXTURE_VARIANT_ADD(uprobe, stepped) {
	.at = probe_stepped, .first = probe_stepped, .second = probe_push_caller,
};

/* Stepped out of line; the kernel corrects the return address that it pushed. */
FIXTURE_VARIANT_ADD(uprobe, stepped_call) {
	.at = probe_stepped_call, .first = probe_stepped_call, .second = probe_push_caller,
};

/* A trampoline replaces the return address on the stack meanwhile. */
FIXTURE_VARIANT_ADD(uprobe, function_return) {
	.at = probe_entry_push, .ret = true,
	.first = probe_push_caller, .second = probe_outermost,
};

FIXTURE_SETUP(uprobe)
{
	int err = uprobe_attr(&self->attr, variant->at, self->file, sizeof(self->file));

	if (err == -ENOENT)
		SKIP(return, "no uprobe event source");
	ASSERT_EQ(0, err);
	self->attr.config = variant->ret;
	self->record = malloc(sizeof(*self->record));
	self->ibt = kernel_has_ibt();
}

FIXTURE_TEARDOWN(uprobe)
{
	free(self->record);
}

#define OPEN(ring, defer) do {							\
	int _err;								\
										\
	self->attr.defer_callchain = defer;					\
	self->attr.defer_output = defer;					\
	_err = ring_open(ring, &self->attr, 0, -1, 32);				\
	if (_err == -EACCES || _err == -EPERM)					\
		SKIP(return, "needs root");					\
	ASSERT_EQ(0, _err);							\
} while (0)

#define EXPECT_TRACE(ips, nr) do {						\
	ASSERT_LE(2, nr);							\
	EXPECT_EQ((uintptr_t)variant->first, (ips)[0]);				\
	if (self->ibt || (ips)[1] != (uintptr_t)variant->second_without_ibt) {	\
		EXPECT_EQ((uintptr_t)variant->second, (ips)[1]);		\
	}									\
	EXPECT_EQ((uintptr_t)probe_outermost, (ips)[(nr) - 1]);			\
} while (0)

TEST_F(uprobe, probed_address_then_caller)
{
	const struct deferred *deferred = as_deferred(self->record);
	struct sample sample;
	__u64 cookie;

	OPEN(&self->deferred, 1);
	ring_enable(&self->deferred);
	probe_top();
	ring_disable(&self->deferred);

	ASSERT_TRUE(ring_next_type(&self->deferred, self->record, PERF_RECORD_SAMPLE));
	parse_sample(self->record, &sample);
	cookie = sample_cookie(&sample);
	EXPECT_NE(0, cookie);
	ASSERT_TRUE(ring_next_type(&self->deferred, self->record,
				   PERF_RECORD_CALLCHAIN_DEFERRED));
	EXPECT_EQ(cookie, deferred->cookie);
	EXPECT_TRACE(deferred->ips, deferred->nr);
	EXPECT_FALSE(ring_next(&self->deferred, self->record));
	ring_close(&self->deferred);
}

/* In-place and deferred events on one probe have the same frames. */
TEST_F(uprobe, same_as_in_place)
{
	__u64 ips[128], nr;
	struct sample sample;
	int at;

	OPEN(&self->in_place, 0);
	OPEN(&self->deferred, 1);
	ring_enable(&self->in_place);
	ring_enable(&self->deferred);
	probe_top();
	ring_disable(&self->in_place);
	ring_disable(&self->deferred);

	ASSERT_TRUE(ring_next_type(&self->in_place, self->record, PERF_RECORD_SAMPLE));
	parse_sample(self->record, &sample);
	at = sample_part(&sample, PERF_CONTEXT_USER, &nr);
	ASSERT_LT(0, at);
	ASSERT_GT(128, nr);
	memcpy(ips, sample.ips + at, nr * sizeof(*ips));
	EXPECT_TRACE(ips, nr);

	ASSERT_TRUE(ring_next_type(&self->deferred, self->record, PERF_RECORD_CALLCHAIN_DEFERRED));
	ASSERT_EQ(nr, as_deferred(self->record)->nr);
	EXPECT_EQ(0, memcmp(ips, as_deferred(self->record)->ips, nr * sizeof(*ips)));
	ring_close(&self->deferred);
	ring_close(&self->in_place);
}

/* A loop of probes: each hit is a separate kernel entry. */
TEST_F(uprobe, every_hit)
{
	struct tally tally;

	OPEN(&self->deferred, 1);
	ring_enable(&self->deferred);
	for (int i = 0; i < 50; i++)
		probe_top();
	ring_disable(&self->deferred);
	tally_rings(&tally, &self->deferred, 1, 0);
	EXPECT_EQ(50, tally.samples);
	EXPECT_EQ(50, tally.matched);
	EXPECT_EQ(50, tally.records);
	EXPECT_EQ(0, tally.foreign);
	ring_close(&self->deferred);
}

#define PAGE	4096

/* An emulated instruction with the stack pointer at a page boundary. */
FIXTURE(edge) {
	struct ring probe, fault;
	union record *record;
	char file[4096];
	char *map;
};

FIXTURE_VARIANT(edge) {
	const char *at;
	/* Bytes on the stack before the instruction. */
	unsigned int used;
};

FIXTURE_VARIANT_ADD(edge, push) {
	.at = probe_entry_push, .used = 24,
};

FIXTURE_VARIANT_ADD(edge, call) {
	.at = probe_call, .used = 32,
};

FIXTURE_SETUP(edge)
{
	struct perf_event_attr fault = tracepoint_attr("exceptions/page_fault_kernel"), probe;
	int err = uprobe_attr(&probe, variant->at, self->file, sizeof(self->file));

	if (err == -ENOENT || fault.type == ~0U)
		SKIP(return, "no uprobe event source, or no page fault tracepoints");
	ASSERT_EQ(0, err);
	probe.defer_callchain = 0;
	probe.defer_output = 0;
	err = ring_open(&self->probe, &probe, 0, -1, 32);
	if (err == -EACCES || err == -EPERM)
		SKIP(return, "needs root");
	ASSERT_EQ(0, err);
	ASSERT_EQ(0, ring_open(&self->fault, &fault, 0, -1, 32));
	self->record = malloc(sizeof(*self->record));
	self->map = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->map);
}

FIXTURE_TEARDOWN(edge)
{
	free(self->record);
}

/*
 * The push stores into a page that is not present. The probe's handler makes no request, but
 * the page fault does, before any register has changed.
 */
TEST_F(edge, fault_of_the_emulation)
{
	const struct deferred *deferred = as_deferred(self->record);
	char *edge = self->map + PAGE;
	struct sample sample;
	__u64 cookie;

	ASSERT_EQ(0, ring_filter(&self->fault, "address", (long)edge - 8));
	ASSERT_EQ(0, madvise(self->map, PAGE, MADV_DONTNEED));
	ring_enable(&self->probe);
	ring_enable(&self->fault);
	probe_edge_top(edge + variant->used);
	ring_disable(&self->fault);
	ring_disable(&self->probe);

	ASSERT_TRUE(ring_next_type(&self->fault, self->record, PERF_RECORD_SAMPLE));
	parse_sample(self->record, &sample);
	cookie = sample_cookie(&sample);
	EXPECT_NE(0, cookie);
	ASSERT_TRUE(ring_next_type(&self->fault, self->record, PERF_RECORD_CALLCHAIN_DEFERRED));
	EXPECT_EQ(cookie, deferred->cookie);
	ASSERT_EQ(3, deferred->nr);
	EXPECT_EQ((uintptr_t)variant->at, deferred->ips[0]);
	EXPECT_EQ((uintptr_t)probe_push_caller, deferred->ips[1]);
	EXPECT_EQ((uintptr_t)probe_edge_outermost, deferred->ips[2]);
	EXPECT_FALSE(ring_next_type(&self->fault, self->record, PERF_RECORD_SAMPLE));
	ring_close(&self->fault);
	ring_close(&self->probe);
}

#define ROUNDS		5

/* Watch stores to the saved user registers while a probe is hit. */
FIXTURE(stores) {
	struct shots shots;
	struct ring ring;
	union record *record;
	char file[4096];
	unsigned long saved;
	int probe;
};

/* Number of marked stores to each of the first of shots_slots in one round. */
FIXTURE_VARIANT(stores) {
	const char *at;
	bool ret;
	unsigned int marked[2];
};

FIXTURE_VARIANT_ADD(stores, push) {
	.at = probe_entry_push, .marked = { 1, 1 },
};

FIXTURE_VARIANT_ADD(stores, call) {
	.at = probe_call, .marked = { 1, 1 },
};

FIXTURE_VARIANT_ADD(stores, nop) {
	.at = probe_nop, .marked = { 1, 0 },
};

/* At the push, and when the trampoline's registers are put back. */
FIXTURE_VARIANT_ADD(stores, function_return) {
	.at = probe_entry_push, .ret = true, .marked = { 2, 2 },
};

/*
 * Find the saved user registers: the kernel's system call function gets their address. Returns
 * 0 or -errno of the watchpoint; *@at stays 0 if it does not hit.
 */
static int saved_registers(struct shots *shots, union record *record, unsigned long *at)
{
	struct user_part part;
	struct ring ring;
	int err = shots_open_function(shots, &ring, 0, "__x64_sys_kill");

	*at = 0;
	if (err)
		return err;
	kill(getpid(), 0);
	if (shots_next_at(shots, &ring, record, &part))
		*at = part.intr[PERF_REG_X86_DI];
	ring_close(&ring);
	return 0;
}

/* Did a watchpoint in the kernel fail for lack of root or CONFIG_KALLSYMS? */
static bool is_not_possible(int err)
{
	return err == -EACCES || err == -EPERM || err == -ENOENT;
}

FIXTURE_SETUP(stores)
{
	struct perf_event_attr attr;
	int err = uprobe_attr(&attr, variant->at, self->file, sizeof(self->file));

	if (err == -ENOENT)
		SKIP(return, "no uprobe event source");
	ASSERT_EQ(0, err);
	self->record = malloc(sizeof(*self->record));
	shots_init(&self->shots);
	err = saved_registers(&self->shots, self->record, &self->saved);
	if (is_not_possible(err))
		SKIP(return, "needs root and CONFIG_KALLSYMS");
	ASSERT_EQ(0, err);
	ASSERT_NE(0, self->saved);
	attr.config = variant->ret;
	attr.defer_callchain = 0;
	attr.defer_output = 0;
	attr.sample_period = 1UL << 62;
	attr.disabled = 0;
	self->probe = perf_open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, self->probe);
}

FIXTURE_TEARDOWN(stores)
{
	if (self->probe > 0)
		close(self->probe);
	free(self->record);
}

/* A sample in a marked store has no registers: they would mix old and new values. */
TEST_F(stores, have_no_registers)
{
	struct user_part part;

	for (unsigned int i = 0; i < ARRAY_SIZE(variant->marked); i++) {
		unsigned int none = 0, some = 0;

		ASSERT_EQ(0, shots_open_at(&self->shots, &self->ring, 0, HW_BREAKPOINT_W,
					   self->saved + shots_slots[i]));
		for (int round = 0; round < ROUNDS; round++)
			probe_top();
		ring_disable(&self->ring);
		while (shots_next_at(&self->shots, &self->ring, self->record, &part)) {
			none += part.abi == PERF_SAMPLE_REGS_ABI_NONE;
			some += part.abi != PERF_SAMPLE_REGS_ABI_NONE;
		}
		EXPECT_EQ(ROUNDS * variant->marked[i], none) {
			TH_LOG("slot %u, and %u with registers", i, some);
		}
		/* The breakpoint's handler sets ip back to the probe, unmarked. */
		EXPECT_LE(i ? 0 : ROUNDS, some);
		ring_close(&self->ring);
	}
}

/*
 * A stepped instruction with a request after the handlers are done. The walk still sees the
 * instruction instead of the breakpoint, so it knows that nothing is pushed yet.
 */
TEST(asked_before_the_step)
{
	struct perf_event_attr probe, ask = software_attr(0);
	union record *record = malloc(sizeof(*record));
	const struct deferred *deferred = as_deferred(record);
	struct ring probe_ring, ask_ring;
	char file[4096];
	int err = uprobe_attr(&probe, probe_entry_endbr, file, sizeof(file));

	if (err == -ENOENT)
		SKIP(return, "no uprobe event source");
	ASSERT_EQ(0, err);
	ask.type = PERF_TYPE_BREAKPOINT;
	ask.bp_type = HW_BREAKPOINT_X;
	ask.bp_addr = kernel_symbol("arch_uprobe_pre_xol");
	ask.bp_len = sizeof(long);
	if (!ask.bp_addr)
		SKIP(return, "needs root and CONFIG_KALLSYMS");
	err = ring_open(&ask_ring, &ask, 0, -1, 32);
	if (is_not_possible(err))
		SKIP(return, "needs root and hardware breakpoints");
	ASSERT_EQ(0, err);
	probe.defer_callchain = 0;
	probe.defer_output = 0;
	ASSERT_EQ(0, ring_open(&probe_ring, &probe, 0, -1, 32));
	ring_enable(&probe_ring);
	ring_enable(&ask_ring);
	probe_top();
	ring_disable(&ask_ring);
	ring_disable(&probe_ring);

	ASSERT_TRUE(ring_next_type(&ask_ring, record, PERF_RECORD_CALLCHAIN_DEFERRED));
	ASSERT_EQ(3, deferred->nr);
	EXPECT_EQ((uintptr_t)probe_entry_endbr, deferred->ips[0]);
	EXPECT_EQ((uintptr_t)probe_endbr_caller, deferred->ips[1]);
	EXPECT_EQ((uintptr_t)probe_outermost, deferred->ips[2]);
	EXPECT_FALSE(ring_next_type(&ask_ring, record, PERF_RECORD_CALLCHAIN_DEFERRED));
	ring_close(&ask_ring);
	ring_close(&probe_ring);
	free(record);
}

static void *hanging_thread(void *data)
{
	struct hanging_stack *hang = data;

	probe_with_fp((unsigned long)hang->page);
	return NULL;
}

static atomic_bool closed;

static void *closing_thread(void *data)
{
	ring_close(data);
	closed = true;
	return NULL;
}

/*
 * A walk at a uprobe that waits for userspace does not delay the removal of another uprobe,
 * which waits for RCU Tasks Trace readers, such as sleepable BPF programs.
 */
TEST(walk_delays_no_removal)
{
	union record *record = malloc(sizeof(*record));
	struct perf_event_attr attr, other;
	struct ring ring, other_ring;
	struct hanging_stack hang;
	pthread_t thread, closer;
	char file[2][4096];
	int err;

	if (hanging_stack_init(&hang))
		SKIP(return, "no userfaultfd");
	err = uprobe_attr(&attr, probe_hanging, file[0], sizeof(file[0]));
	if (err == -ENOENT)
		SKIP(return, "no uprobe event source");
	ASSERT_EQ(0, err);
	ASSERT_EQ(0, uprobe_attr(&other, probe_nop, file[1], sizeof(file[1])));
	/* For the thread; inherited events need the buffer of a CPU. */
	attr.inherit = 1;
	err = ring_open(&ring, &attr, 0, 0, 32);
	if (err == -EACCES || err == -EPERM)
		SKIP(return, "needs root");
	ASSERT_EQ(0, err);
	ASSERT_EQ(0, ring_open(&other_ring, &other, 0, -1, 32));
	ASSERT_EQ(0, pin_to(0));
	ring_enable(&ring);
	ring_enable(&other_ring);

	ASSERT_EQ(0, pthread_create(&thread, NULL, hanging_thread, &hang));
	wait_for_fault(hang.uffd);
	closed = false;
	ASSERT_EQ(0, pthread_create(&closer, NULL, closing_thread, &other_ring));
	for (int ms = 0; ms < 100000 && !closed; ms += 10)
		usleep(10000);
	EXPECT_TRUE((bool)closed);

	EXPECT_EQ(0, hanging_stack_resolve(&hang));
	pthread_join(thread, NULL);
	pthread_join(closer, NULL);
	ring_disable(&ring);

	/* The thread did hang, in the walk. */
	ASSERT_TRUE(ring_next_type(&ring, record, PERF_RECORD_CALLCHAIN_DEFERRED));
	ASSERT_EQ(2, as_deferred(record)->nr);
	EXPECT_EQ((uintptr_t)probe_hanging, as_deferred(record)->ips[0]);
	EXPECT_EQ(HANGING_RA, as_deferred(record)->ips[1]);
	ring_close(&ring);
	free(record);
}

static void signal_top(void)
{
	const struct raw_sigaction action = {
		.handler = probe_handler, .restorer = probe_restorer, .flags = RAW_SA_RESTORER,
	};

	syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, sizeof(action.mask));
	probe_signal_top(gettid(), SIGUSR1);
	signal(SIGUSR1, SIG_DFL);
}

FIXTURE(behind) {
	struct perf_event_attr attr, probed;
	struct ring ring, probe;
	union record *record;
	char file[4096];
};

FIXTURE_VARIANT(behind) {
	const char *at;
	void (*top)(void);
	const char *ips[4];
};

/* In functions with return probes: the real callers, not the trampoline. */
FIXTURE_VARIANT_ADD(behind, trampolines) {
	.at = probe_getppid, .top = probe_getppid_top,
	.ips = { probe_after_getppid, probe_getppid_caller, probe_getppid_second,
		 probe_getppid_outermost },
};

/* The latest return probe is no longer on the stack. */
FIXTURE_VARIANT_ADD(behind, a_jump) {
	.at = probe_jumps, .top = probe_jumps_top,
	.ips = { probe_after_jump, probe_jumps_outermost },
};

/* A signal handler, whose return address leads to its frame. */
FIXTURE_VARIANT_ADD(behind, a_handler) {
	.at = probe_handler, .top = signal_top,
	.ips = { probe_in_handler, probe_restorer, probe_interrupted, probe_signal_outermost },
};

/* A function on a lower stack, whose caller is there, too. */
FIXTURE_VARIANT_ADD(behind, a_lower_stack) {
	.at = probe_switches, .top = probe_switch_top,
	.ips = { probe_asked, probe_switched, probe_switch_outermost },
};

FIXTURE_SETUP(behind)
{
	int err = uprobe_attr(&self->probed, variant->at, self->file, sizeof(self->file));

	self->attr = tracepoint_attr("syscalls/sys_enter_getppid");
	if (err == -ENOENT || self->attr.type == ~0U)
		SKIP(return, "no uprobe event source, or no CONFIG_FTRACE_SYSCALLS");
	ASSERT_EQ(0, err);
	self->probed.config = 1;
	err = ring_open(&self->probe, &self->probed, 0, -1, 32);
	if (err == -EACCES || err == -EPERM)
		SKIP(return, "needs root");
	ASSERT_EQ(0, err);
	ASSERT_EQ(0, ring_open(&self->ring, &self->attr, 0, -1, 32));
	self->record = malloc(sizeof(*self->record));
	ring_enable(&self->probe);
	ring_enable(&self->ring);
}

FIXTURE_TEARDOWN(behind)
{
	free(self->record);
}

TEST_F(behind, return_addresses)
{
	const struct deferred *deferred = as_deferred(self->record);
	unsigned int nr = 0;

	while (nr < ARRAY_SIZE(variant->ips) && variant->ips[nr])
		nr++;
	variant->top();
	ring_disable(&self->ring);
	ASSERT_TRUE(ring_next_type(&self->ring, self->record, PERF_RECORD_CALLCHAIN_DEFERRED));
	ASSERT_EQ(nr, deferred->nr);
	for (unsigned int i = 0; i < nr; i++)
		EXPECT_EQ((uintptr_t)variant->ips[i], deferred->ips[i]);
	ring_close(&self->ring);
	ring_close(&self->probe);
}

/* The call of the probed function is hidden by another probe's breakpoint. */
TEST(caller_behind_a_probed_call)
{
	union record *record = malloc(sizeof(*record));
	struct perf_event_attr attr, site;
	struct ring ring, site_ring;
	char file[2][4096];
	int err;

	err = uprobe_attr(&attr, probe_entry_push, file[0], sizeof(file[0]));
	if (err == -ENOENT)
		SKIP(return, "no uprobe event source");
	ASSERT_EQ(0, err);
	ASSERT_EQ(0, uprobe_attr(&site, probe_call_site, file[1], sizeof(file[1])));
	site.defer_callchain = 0;
	site.defer_output = 0;
	err = ring_open(&site_ring, &site, 0, -1, 32);
	if (err == -EACCES || err == -EPERM)
		SKIP(return, "needs root");
	ASSERT_EQ(0, err);
	ASSERT_EQ(0, ring_open(&ring, &attr, 0, -1, 32));
	ring_enable(&site_ring);
	ring_enable(&ring);
	probe_top();
	ring_disable(&ring);

	ASSERT_TRUE(ring_next_type(&ring, record, PERF_RECORD_CALLCHAIN_DEFERRED));
	ASSERT_LE(2, as_deferred(record)->nr);
	EXPECT_EQ((uintptr_t)probe_entry_push, as_deferred(record)->ips[0]);
	EXPECT_EQ((uintptr_t)probe_push_caller, as_deferred(record)->ips[1]);
	ring_close(&ring);
	ring_close(&site_ring);
	free(record);
}

TEST_HARNESS_MAIN
