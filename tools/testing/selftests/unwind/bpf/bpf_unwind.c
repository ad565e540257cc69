// SPDX-License-Identifier: GPL-2.0
/*
 * BPF programs that request deferred user stacks, by the function and by the flag, from
 * all possible contexts: one cookie and one delivery for each kernel entry, shared with
 * perf and the test tracer, and the right trace wherever it is available.
 */
#define _GNU_SOURCE
#include <bpf/bpf.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bpf_run.h"
#include "perf_ring.h"
#include "tracer.h"
#include "workload.h"
#include "harness.h"

/* Number of known callers; the whole trace fits. */
#define DEPTH		20
#define ENTRIES		3

FIXTURE(ask) {
	struct bpf_run run;
};

FIXTURE_VARIANT(ask) {
	const char *program;
	/* Requests by the flag do not learn whether they were the first. */
	bool flag;
};

FIXTURE_VARIANT_ADD(ask, tp) { .program = "ask_tp" };
FIXTURE_VARIANT_ADD(ask, tp_flag) { .program = "ask_tp_flag", .flag = true };
FIXTURE_VARIANT_ADD(ask, tp_btf) { .program = "ask_tp_btf" };
FIXTURE_VARIANT_ADD(ask, tp_btf_flag) { .program = "ask_tp_btf_flag", .flag = true };
FIXTURE_VARIANT_ADD(ask, raw_tp_flag) { .program = "ask_raw_tp_flag", .flag = true };
FIXTURE_VARIANT_ADD(ask, fentry) { .program = "ask_fentry" };
FIXTURE_VARIANT_ADD(ask, fentry_s) { .program = "ask_fentry_s" };
FIXTURE_VARIANT_ADD(ask, kprobe) { .program = "ask_kprobe" };
FIXTURE_VARIANT_ADD(ask, kprobe_flag) { .program = "ask_kprobe_flag", .flag = true };
FIXTURE_VARIANT_ADD(ask, lsm) { .program = "ask_lsm" };

FIXTURE_SETUP(ask)
{
	SKIP_WITHOUT_BPF();
	keep_tracepoint("syscalls/sys_enter_getpgid");
	/* The program attached last runs first. */
	ASSERT_EQ(0, bpf_run_start(&self->run, "deliver_fentry", "deliver_fentry_s",
				   "deliver_fmod", "deliver_fmod_s", variant->program));
	self->run.shared->tid = gettid();
	self->run.shared->syscall = SYS_getpgid;
	self->run.shared->again = true;
}

FIXTURE_TEARDOWN(ask)
{
	bpf_run_close(&self->run);
}

/* Two requests in each entry, one delivery to each program. */
TEST_F(ask, one_delivery)
{
	const struct bpf_unwind_note *first, *again, *delivery;
	__u64 last = 0;

	for (int i = 0; i < ENTRIES; i++) {
		/* The return values of fmod_ret programs have no effect. */
		EXPECT_LT(0, workload_syscall(DEPTH + i, SYS_getpgid, getpid()));
	}
	EXPECT_EQ(2 * ENTRIES, bpf_run_count(&self->run, BPF_UNWIND_ASK, 0));
	for (int i = 0; i < ENTRIES; i++) {
		first = bpf_run_note(&self->run, BPF_UNWIND_ASK, 2 * i);
		again = bpf_run_note(&self->run, BPF_UNWIND_ASK, 2 * i + 1);
		ASSERT_NE(NULL, again);
		EXPECT_EQ(0, first->ret);
		EXPECT_EQ(!variant->flag, again->ret);
		EXPECT_NE(0, first->cookie);
		EXPECT_EQ(first->cookie, again->cookie);
		EXPECT_NE(last, first->cookie);
		last = first->cookie;

		for (int who = BPF_UNWIND_FENTRY; who <= BPF_UNWIND_FMOD_S; who++) {
			EXPECT_EQ(1, bpf_run_count(&self->run, who, last));
			delivery = bpf_run_note(&self->run, who, i);
			ASSERT_NE(NULL, delivery);
			EXPECT_EQ(last, delivery->cookie);
			EXPECT_EQ(WORKLOAD_NR(DEPTH + i), delivery->ret);
			for (int how = BPF_UNWIND_ENTRIES; how <= BPF_UNWIND_STACK; how++) {
				EXPECT_TRUE(bpf_run_right(bpf_run_trace(&self->run, who, how, i),
							  DEPTH + i));
			}
		}
	}
	for (int who = BPF_UNWIND_FENTRY; who <= BPF_UNWIND_FMOD_S; who++)
		EXPECT_EQ(ENTRIES, bpf_run_count(&self->run, who, 0));
}

static __attribute__((noinline)) void probed(void)
{
	asm volatile ("" ::: "memory");
}

/* The delivery comes before the probed instruction is executed. */
TEST(asked_in_uprobe)
{
	const struct bpf_unwind_trace *trace;
	struct bpf_run run;

	SKIP_WITHOUT_BPF();
	ASSERT_EQ(0, bpf_run_start(&run, "deliver_fentry_s", "ask_uprobe"));
	ASSERT_EQ(0, bpf_run_attach_uprobe(&run, "ask_uprobe", probed));
	run.shared->tid = gettid();
	probed();
	run.shared->tid = BPF_RUN_NOBODY;
	EXPECT_EQ(1, bpf_run_count(&run, BPF_UNWIND_ASK, 0));
	EXPECT_EQ(1, bpf_run_count(&run, BPF_UNWIND_FENTRY_S, 0));
	ASSERT_NE(NULL, trace = bpf_run_trace(&run, BPF_UNWIND_FENTRY_S, BPF_UNWIND_STACK, 0));
	EXPECT_LT(8, trace->ret);
	EXPECT_EQ((unsigned long)probed, trace->ips[0]);
	bpf_run_close(&run);
}

/* All requesters in one entry get the same cookie, and each gets the stack. */
TEST(same_cookie_for_all)
{
	struct perf_event_attr attr = tracepoint_attr("syscalls/sys_enter_ioctl");
	union record *record = malloc(sizeof(*record));
	struct unwind_test_op op = OP_REQUEST(0, UNWIND_TEST_NMI);
	const struct bpf_unwind_note *note;
	struct unwind_test_event event;
	struct bpf_run run;
	struct ring ring;
	const char *why;
	bool sampled = false, recorded = false;
	int fd;

	SKIP_WITHOUT_BPF();
	fd = tracer_open(&why);
	if (fd < 0)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, tracer_op(fd, (struct unwind_test_op)OP_INIT(0)));
	keep_tracepoint("syscalls/sys_enter_ioctl");
	ASSERT_EQ(0, bpf_run_start(&run, "deliver_fmod", "ask_raw_tp_flag"));
	run.shared->syscall = SYS_ioctl;
	ASSERT_EQ(0, ring_open(&ring, &attr, 0, -1, 32));
	ring_enable(&ring);

	run.shared->tid = gettid();
	ASSERT_EQ(0, tracer_run_deep(fd, &op, 1, DEPTH));
	run.shared->tid = BPF_RUN_NOBODY;
	ring_disable(&ring);

	EXPECT_EQ(0, op.ret);
	ASSERT_NE(NULL, note = bpf_run_note(&run, BPF_UNWIND_ASK, 0));
	EXPECT_EQ(0, note->ret);
	EXPECT_EQ(op.cookie, note->cookie);
	EXPECT_EQ(1, bpf_run_count(&run, BPF_UNWIND_FMOD, op.cookie));
	EXPECT_EQ(1, bpf_run_count(&run, BPF_UNWIND_FMOD, 0));
	EXPECT_TRUE(bpf_run_right(bpf_run_trace(&run, BPF_UNWIND_FMOD,
						BPF_UNWIND_STACK, 0), DEPTH));

	/* The return value of an fmod_ret program does not stop other deliveries. */
	ASSERT_TRUE(tracer_event(fd, &event));
	EXPECT_EQ(op.cookie, event.cookie);
	EXPECT_EQ(-1, workload_check(event.entries, event.nr, DEPTH));

	while (ring_next(&ring, record)) {
		struct sample sample;

		if (record->header.type == PERF_RECORD_SAMPLE) {
			parse_sample(record, &sample);
			sampled |= sample_cookie(&sample) == op.cookie;
		}
		if (record->header.type == PERF_RECORD_CALLCHAIN_DEFERRED)
			recorded |= as_deferred(record)->cookie == op.cookie;
	}
	EXPECT_TRUE(sampled);
	EXPECT_TRUE(recorded);

	ring_close(&ring);
	bpf_run_close(&run);
	close(fd);
	free(record);
}

/* Any number of requests in one entry cause one walk and one delivery. */
TEST(thousand_requests)
{
	const size_t size = 1100 * 4096;
	const struct bpf_unwind_note *note;
	struct bpf_run_sum sum;
	struct bpf_run run;
	unsigned int most = 0;
	long walks;
	char *map;

	SKIP_WITHOUT_BPF();
	keep_tracepoint("kmem/mm_page_alloc");
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)map);
	ASSERT_EQ(0, madvise(map, size, MADV_NOHUGEPAGE));
	ASSERT_EQ(0, bpf_run_start(&run, "deliver_fentry", "ask_page_alloc"));

	walks = unwind_stat("walks");
	run.shared->tid = gettid();
	EXPECT_EQ(0, workload_syscall(DEPTH, SYS_madvise, (long)map, size, MADV_POPULATE_WRITE));
	run.shared->tid = BPF_RUN_NOBODY;
	walks = unwind_stat("walks") - walks;

	for (int i = 0; (note = bpf_run_note(&run, BPF_UNWIND_FENTRY, i)); i++) {
		unsigned int nr = bpf_run_count(&run, BPF_UNWIND_ASK, note->cookie);

		most = nr > most ? nr : most;
	}
	EXPECT_LE(1000, most);
	bpf_run_add_up(&run, BPF_UNWIND_FENTRY, &sum);
	EXPECT_EQ(sum.entries, sum.delivered);
	EXPECT_EQ(0, sum.twice + sum.granted_twice + sum.not_granted + sum.refused + sum.lost);
	if (walks >= 0) {
		EXPECT_EQ(sum.entries, walks);
	}
	bpf_run_close(&run);
	munmap(map, size);
}

FIXTURE(event) {
	struct bpf_run run;
};

FIXTURE_VARIANT(event) {
	const char *program;
	enum bpf_unwind_who who;
};

FIXTURE_VARIANT_ADD(event, tp_btf) { "event_tp_btf", BPF_UNWIND_TP_BTF };
FIXTURE_VARIANT_ADD(event, raw_tp) { "event_raw_tp", BPF_UNWIND_RAW_TP };
FIXTURE_VARIANT_ADD(event, tp) { "event_tp", BPF_UNWIND_TP };

FIXTURE_SETUP(event)
{
	SKIP_WITHOUT_BPF();
	keep_tracepoint("syscalls/sys_enter_getpgid");
	keep_tracepoint("unwind/user_unwind_stack");
	ASSERT_EQ(0, bpf_run_start(&self->run, variant->program));
	self->run.shared->tid = gettid();
}

FIXTURE_TEARDOWN(event)
{
	bpf_run_close(&self->run);
}

/* The tracepoint fires for every requester, even for perf alone, and has the stack. */
TEST_F(event, asked_by_perf)
{
	struct perf_event_attr attr = tracepoint_attr("syscalls/sys_enter_getpgid");
	union record *record = malloc(sizeof(*record));
	const struct bpf_unwind_trace *trace;
	struct ring ring;

	ASSERT_EQ(0, ring_open(&ring, &attr, 0, -1, 32));
	ring_enable(&ring);
	for (int i = 0; i < ENTRIES; i++)
		workload_syscall(DEPTH + i, SYS_getpgid);
	ring_disable(&ring);

	for (int i = 0; i < ENTRIES; i++) {
		ASSERT_TRUE(ring_next_type(&ring, record, PERF_RECORD_CALLCHAIN_DEFERRED));
		trace = bpf_run_trace(&self->run, variant->who, BPF_UNWIND_STACK, i);
		ASSERT_NE(NULL, trace);
		EXPECT_EQ(as_deferred(record)->cookie, trace->cookie);
		EXPECT_TRUE(bpf_run_right(trace, DEPTH + i));
		if (variant->who == BPF_UNWIND_TP_BTF) {
			trace = bpf_run_trace(&self->run, variant->who, BPF_UNWIND_ENTRIES, i);
			EXPECT_TRUE(bpf_run_right(trace, DEPTH + i));
		}
	}
	EXPECT_EQ(NULL, bpf_run_trace(&self->run, variant->who, BPF_UNWIND_STACK, ENTRIES));
	ring_close(&ring);
	free(record);
}

struct build_id {
	unsigned char	bytes[BPF_BUILD_ID_SIZE];
	unsigned long	base;
	bool		found;
};

/* Find the note of the first object, which is this program. */
static int find_build_id(struct dl_phdr_info *info, size_t size, void *data)
{
	struct build_id *id = data;

	id->base = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum && !id->found; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		const char *at = (const char *)info->dlpi_addr + phdr->p_vaddr;
		const char *end = at + phdr->p_memsz;

		if (phdr->p_type != PT_NOTE)
			continue;
		while (at + sizeof(ElfW(Nhdr)) < end) {
			const ElfW(Nhdr) *nhdr = (const void *)at;
			const char *desc = at + sizeof(*nhdr) + ((nhdr->n_namesz + 3) & ~3U);

			if (nhdr->n_type == NT_GNU_BUILD_ID &&
			    nhdr->n_descsz == sizeof(id->bytes)) {
				memcpy(id->bytes, desc, sizeof(id->bytes));
				id->found = true;
			}
			at = desc + ((nhdr->n_descsz + 3) & ~3U);
		}
	}
	return 1;
}

static unsigned int count_right_ids(const struct bpf_stack_build_id *ids,
				    const struct build_id *want, const __u64 *ips)
{
	unsigned int right = 0;

	/* File offsets and addresses differ by a constant, the offset of the code. */
	for (unsigned int i = 0; i < WORKLOAD_NR(DEPTH); i++) {
		right += ids[i].status == BPF_STACK_BUILD_ID_VALID &&
			 !memcmp(ids[i].build_id, want->bytes, sizeof(want->bytes)) &&
			 !((ids[i].offset ^ ips[i]) & 4095) &&
			 ids[i].offset - ids[0].offset == ips[i] - ips[0];
	}
	return right;
}

/* Build-ids and offsets, which a reader needs once the process is gone. */
TEST(build_ids)
{
	struct bpf_stack_build_id ids[BPF_UNWIND_IPS];
	const struct bpf_unwind_ids *got;
	struct build_id want = {};
	struct bpf_run run;
	__u64 ips[127];
	__u32 id;

	SKIP_WITHOUT_BPF();
	dl_iterate_phdr(find_build_id, &want);
	if (!want.found)
		SKIP(return, "this program has no build-id");
	ASSERT_EQ(0, bpf_run_start(&run, "deliver_build_ids", "ask_fentry"));
	run.shared->tid = gettid();
	workload_syscall(DEPTH, SYS_getpgid);
	got = &run.shared->ids;

	ASSERT_LE(0, got->plain_id);
	id = got->plain_id;
	EXPECT_EQ(0, bpf_map_lookup_elem(bpf_run_map(&run, "stacks"), &id, ips));
	EXPECT_EQ(-1, workload_check(ips, WORKLOAD_NR(DEPTH), DEPTH));
	EXPECT_EQ(0, ips[WORKLOAD_NR(DEPTH)]);

	EXPECT_EQ(WORKLOAD_NR(DEPTH) * sizeof(ids[0]), got->ret);
	EXPECT_EQ(WORKLOAD_NR(DEPTH), count_right_ids(got->ids, &want, ips));
	ASSERT_LE(0, got->stackid);
	id = got->stackid;
	EXPECT_EQ(0, bpf_map_lookup_elem(bpf_run_map(&run, "stack_ids"), &id, ids));
	EXPECT_EQ(WORKLOAD_NR(DEPTH), count_right_ids(ids, &want, ips));
	bpf_run_close(&run);
}

TEST_HARNESS_MAIN
