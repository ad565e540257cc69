// SPDX-License-Identifier: GPL-2.0
/*
 * BPF programs on an event with deferred callchains: bpf_get_stackid() and
 * bpf_get_stack() return the same as without deferral, with no marker and no cookie.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "perf_ring.h"
#include "tracer.h"
#include "workload.h"
#include "harness.h"

#define DEPTH		10
#define MAX_FRAMES	127

#ifndef ARRAY_SIZE
#define ARRAY_SIZE(arr)	(sizeof(arr) / sizeof((arr)[0]))
#endif

/* The results of a program: ids, or lengths in bytes. */
enum result {
	KERNEL_ID,
	USER_ID,
	KERNEL_LEN,
	USER_LEN,
	NR_RESULTS,
};

static int bpf(int cmd, union bpf_attr *attr)
{
	int ret = syscall(SYS_bpf, cmd, attr, sizeof(*attr));

	return ret < 0 ? -errno : ret;
}

static int map_create(enum bpf_map_type type, unsigned int value_size, unsigned int entries)
{
	union bpf_attr attr = {
		.map_type	= type,
		.key_size	= 4,
		.value_size	= value_size,
		.max_entries	= entries,
	};

	return bpf(BPF_MAP_CREATE, &attr);
}

static int map_lookup(int map, unsigned int key, void *value)
{
	union bpf_attr attr = {
		.map_fd	= map,
		.key	= (uintptr_t)&key,
		.value	= (uintptr_t)value,
	};

	return bpf(BPF_MAP_LOOKUP_ELEM, &attr);
}

#define INSN(c, d, s, o, i) \
	((struct bpf_insn){ .code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i) })
#define MOV_REG(d, s)	INSN(BPF_ALU64 | BPF_MOV | BPF_X, d, s, 0, 0)
#define MOV_IMM(d, i)	INSN(BPF_ALU64 | BPF_MOV | BPF_K, d, 0, 0, i)
#define ADD_IMM(d, i)	INSN(BPF_ALU64 | BPF_ADD | BPF_K, d, 0, 0, i)
#define STORE(s, off)	INSN(BPF_STX | BPF_MEM | BPF_DW, BPF_REG_10, s, off, 0)
#define STORE_KEY(key)	INSN(BPF_ST | BPF_MEM | BPF_W, BPF_REG_10, 0, -4, key)
#define LOAD_MAP(d, fd)	INSN(BPF_LD | BPF_IMM | BPF_DW, d, BPF_PSEUDO_MAP_FD, 0, fd), \
			INSN(0, 0, 0, 0, 0)
#define CALL(func)	INSN(BPF_JMP | BPF_CALL, 0, 0, 0, func)
#define JUMP_IF_NULL(n)	INSN(BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, n, 0)
#define EXIT()		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)

/* results[key] = r0 */
#define KEEP(results, key)				\
	STORE(BPF_REG_0, -16),				\
	STORE_KEY(key),					\
	LOAD_MAP(BPF_REG_1, results),			\
	MOV_REG(BPF_REG_2, BPF_REG_10),			\
	ADD_IMM(BPF_REG_2, -4),				\
	MOV_REG(BPF_REG_3, BPF_REG_10),			\
	ADD_IMM(BPF_REG_3, -16),			\
	MOV_IMM(BPF_REG_4, BPF_ANY),			\
	CALL(BPF_FUNC_map_update_elem)

/* bpf_get_stackid(ctx, stacks, flags) */
#define GET_STACKID(stacks, flags)			\
	MOV_REG(BPF_REG_1, BPF_REG_6),			\
	LOAD_MAP(BPF_REG_2, stacks),			\
	MOV_IMM(BPF_REG_3, flags),			\
	CALL(BPF_FUNC_get_stackid)

/* bpf_get_stack(ctx, &frames[key], size, flags); 9 instructions after the jump */
#define GET_STACK(frames, key, flags)			\
	STORE_KEY(key),					\
	LOAD_MAP(BPF_REG_1, frames),			\
	MOV_REG(BPF_REG_2, BPF_REG_10),			\
	ADD_IMM(BPF_REG_2, -4),				\
	CALL(BPF_FUNC_map_lookup_elem),			\
	JUMP_IF_NULL(5),				\
	MOV_REG(BPF_REG_1, BPF_REG_6),			\
	MOV_REG(BPF_REG_2, BPF_REG_0),			\
	MOV_IMM(BPF_REG_3, MAX_FRAMES * 8),		\
	MOV_IMM(BPF_REG_4, flags),			\
	CALL(BPF_FUNC_get_stack)

static char verifier_log[65536];

static int load(enum bpf_prog_type type, const struct bpf_insn *insns, unsigned int nr)
{
	union bpf_attr attr = {
		.prog_type	= type,
		.insns		= (uintptr_t)insns,
		.insn_cnt	= nr,
		.license	= (uintptr_t)"GPL",
		.log_buf	= (uintptr_t)verifier_log,
		.log_size	= sizeof(verifier_log),
		.log_level	= 1,
	};

	return bpf(BPF_PROG_LOAD, &attr);
}

static int prog_load(enum bpf_prog_type type, const int stacks[2], int frames, int results)
{
	struct bpf_insn insns[] = {
		MOV_REG(BPF_REG_6, BPF_REG_1),
		GET_STACKID(stacks[0], 0),
		KEEP(results, KERNEL_ID),
		GET_STACKID(stacks[1], BPF_F_USER_STACK),
		KEEP(results, USER_ID),
		GET_STACK(frames, 0, 0),
		KEEP(results, KERNEL_LEN),
		GET_STACK(frames, 1, BPF_F_USER_STACK),
		KEEP(results, USER_LEN),
		MOV_IMM(BPF_REG_0, 1),
		EXIT(),
	};

	return load(type, insns, ARRAY_SIZE(insns));
}

/*
 * A program that tail-calls @prog and takes no stack itself: the kernel cannot tell from
 * it that a stack will be taken. Closes @prog.
 */
static int caller_load(enum bpf_prog_type type, int prog)
{
	int progs = map_create(BPF_MAP_TYPE_PROG_ARRAY, 4, 1);
	struct bpf_insn insns[] = {
		LOAD_MAP(BPF_REG_2, progs),
		MOV_IMM(BPF_REG_3, 0),
		CALL(BPF_FUNC_tail_call),
		/* Not reached. */
		MOV_IMM(BPF_REG_0, 0),
		EXIT(),
	};
	unsigned int key = 0;
	union bpf_attr attr = {
		.map_fd	= progs,
		.key	= (uintptr_t)&key,
		.value	= (uintptr_t)&prog,
	};
	int ret;

	if (progs < 0)
		return progs;
	ret = bpf(BPF_MAP_UPDATE_ELEM, &attr);
	if (!ret)
		ret = load(type, insns, ARRAY_SIZE(insns));
	/* Keep the array's descriptor: closing the last one empties the array. */
	close(prog);
	return ret;
}

struct stack {
	__u64	nr;
	__u64	ips[MAX_FRAMES];
};

/* The results of one event. */
struct outcome {
	struct stack	kernel_id, user_id, kernel, user;
	__u64		sample_cookie;
	__u64		sample_user;
	bool		record;
};

static void count_frames(struct stack *stack)
{
	stack->nr = 0;
	while (stack->nr < MAX_FRAMES && stack->ips[stack->nr])
		stack->nr++;
}

/* A page fault in kernel mode, with DEPTH known callers in user mode. */
static void fault_in_kernel(void)
{
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	workload_syscall(DEPTH, SYS_getcwd, (long)page, 4096);
	munmap(page, 4096);
}

enum program {
	PERF_EVENT,
	TRACEPOINT,
	/* On a perf event; only tail-calls the program that takes the stacks. */
	TAIL_CALL,
};

static void run(struct __test_metadata *_metadata, bool defer, enum program program,
		struct outcome *outcome)
{
	const bool tracepoint = program == TRACEPOINT;
	const enum bpf_prog_type type = tracepoint ? BPF_PROG_TYPE_TRACEPOINT :
						     BPF_PROG_TYPE_PERF_EVENT;
	struct perf_event_attr attr = tracepoint ? tracepoint_attr("syscalls/sys_enter_getcwd") :
						   software_attr(PERF_COUNT_SW_PAGE_FAULTS);
	/* Two maps: otherwise the stacks could hash to the same id. */
	int stacks[2], frames, results, prog;
	struct sample sample = {};
	union record *record;
	struct ring ring;
	__u64 value[NR_RESULTS];
	bool found = false;

	for (int i = 0; i < 2; i++)
		stacks[i] = map_create(BPF_MAP_TYPE_STACK_TRACE, MAX_FRAMES * 8, 16);
	frames = map_create(BPF_MAP_TYPE_ARRAY, MAX_FRAMES * 8, 2);
	results = map_create(BPF_MAP_TYPE_ARRAY, 8, NR_RESULTS);
	if (stacks[0] == -EPERM || stacks[0] == -ENOSYS)
		SKIP(return, "needs root and CONFIG_BPF_SYSCALL");
	ASSERT_LE(0, stacks[0]);
	ASSERT_LE(0, stacks[1]);
	ASSERT_LE(0, frames);
	ASSERT_LE(0, results);
	prog = prog_load(type, stacks, frames, results);
	if (prog >= 0 && program == TAIL_CALL)
		prog = caller_load(type, prog);
	ASSERT_LE(0, prog) {
		TH_LOG("%s", verifier_log);
	}

	attr.defer_callchain = defer;
	attr.defer_output = defer;
	/* Ignore page faults in user mode. */
	if (!tracepoint)
		attr.exclude_user = 1;
	ASSERT_EQ(0, ring_open(&ring, &attr, 0, -1, 32));
	ASSERT_EQ(0, ioctl(ring.fd, PERF_EVENT_IOC_SET_BPF, prog));
	record = malloc(sizeof(*record));

	/* Run once before, so that nothing else faults under the event. */
	fault_in_kernel();
	ring_enable(&ring);
	fault_in_kernel();
	ring_disable(&ring);

	memset(outcome, 0, sizeof(*outcome));
	while (ring_next(&ring, record)) {
		__u64 nr;

		outcome->record |= record->header.type == PERF_RECORD_CALLCHAIN_DEFERRED;
		if (record->header.type != PERF_RECORD_SAMPLE)
			continue;
		found = true;
		parse_sample(record, &sample);
		outcome->sample_cookie = sample_cookie(&sample);
		sample_part(&sample, PERF_CONTEXT_USER, &nr);
		outcome->sample_user = nr;
	}
	EXPECT_TRUE(found);

	for (unsigned int i = 0; i < NR_RESULTS; i++) {
		ASSERT_EQ(0, map_lookup(results, i, &value[i]));
	}
	if ((long)value[KERNEL_ID] >= 0) {
		EXPECT_EQ(0, map_lookup(stacks[0], value[KERNEL_ID], outcome->kernel_id.ips));
	}
	if ((long)value[USER_ID] >= 0) {
		EXPECT_EQ(0, map_lookup(stacks[1], value[USER_ID], outcome->user_id.ips));
	}
	EXPECT_EQ(0, map_lookup(frames, 0, outcome->kernel.ips));
	EXPECT_EQ(0, map_lookup(frames, 1, outcome->user.ips));
	count_frames(&outcome->kernel_id);
	count_frames(&outcome->user_id);
	count_frames(&outcome->kernel);
	count_frames(&outcome->user);
	EXPECT_EQ(value[KERNEL_LEN], 8 * outcome->kernel.nr);
	EXPECT_EQ(value[USER_LEN], 8 * outcome->user.nr);

	ring_close(&ring);
	close(prog);
	close(results);
	close(frames);
	close(stacks[0]);
	close(stacks[1]);
	free(record);
}

static bool same(const struct stack *a, const struct stack *b)
{
	return a->nr == b->nr && !memcmp(a->ips, b->ips, a->nr * sizeof(*a->ips));
}

static bool has_marker(const struct stack *stack)
{
	for (__u64 i = 0; i < stack->nr; i++) {
		if (stack->ips[i] == PERF_CONTEXT_USER_DEFERRED)
			return true;
	}
	return false;
}

/*
 * The known callers? Programs on perf events are given the callchain of the sample,
 * in which PERF_CONTEXT_USER comes first; others a stack of addresses.
 */
static int check_user(const struct stack *stack)
{
	int marker = stack->nr && stack->ips[0] == PERF_CONTEXT_USER;

	return workload_check(stack->ips + marker, stack->nr - marker, DEPTH);
}

static void compare(struct __test_metadata *_metadata, enum program program)
{
	struct outcome without, with;

	run(_metadata, false, program, &without);
	if (_metadata->exit_code)
		return;
	run(_metadata, true, program, &with);

	/* The results without deferral must be right. */
	EXPECT_EQ(-1, check_user(&without.user));
	EXPECT_EQ(-1, check_user(&without.user_id));
	EXPECT_LT(0, without.kernel.nr);

	EXPECT_TRUE(same(&without.kernel, &with.kernel));
	EXPECT_TRUE(same(&without.kernel_id, &with.kernel_id));
	EXPECT_TRUE(same(&without.user, &with.user));
	EXPECT_TRUE(same(&without.user_id, &with.user_id));
	EXPECT_FALSE(has_marker(&with.kernel));
	EXPECT_FALSE(has_marker(&with.kernel_id));
	EXPECT_FALSE(has_marker(&with.user));
	EXPECT_FALSE(has_marker(&with.user_id));

	/* Readers of the samples get the user part in one way or the other. */
	EXPECT_TRUE(with.sample_cookie ? with.record : with.sample_user == WORKLOAD_NR(DEPTH));
}

TEST(perf_event_program)
{
	compare(_metadata, PERF_EVENT);
}

TEST(tracepoint_program)
{
	compare(_metadata, TRACEPOINT);
}

TEST(tail_called_program)
{
	compare(_metadata, TAIL_CALL);
}

/* A program sees the sample before it is written: its registers are fetched once. */
static void fetched_once(struct __test_metadata *_metadata, __u64 sample_type)
{
	struct perf_event_attr attr = software_attr(PERF_COUNT_SW_PAGE_FAULTS);
	struct bpf_insn insns[] = { MOV_IMM(BPF_REG_0, 1), EXIT() };
	union record *record = malloc(sizeof(*record));
	unsigned int samples = 0;
	struct ring ring;
	long fetched;
	int prog;

	fetched = unwind_stat("regs_fetched");
	if (fetched < 0)
		SKIP(return, "needs root and debugfs");
	prog = load(BPF_PROG_TYPE_PERF_EVENT, insns, ARRAY_SIZE(insns));
	if (prog == -EPERM || prog == -ENOSYS)
		SKIP(return, "needs CONFIG_BPF_SYSCALL");
	ASSERT_LE(0, prog);
	attr.defer_callchain = 0;
	attr.defer_output = 0;
	attr.exclude_user = 1;
	attr.sample_type |= sample_type;
	attr.sample_regs_user = 1;
	attr.sample_stack_user = 64;
	ASSERT_EQ(0, ring_open(&ring, &attr, 0, -1, 8));
	ASSERT_EQ(0, ioctl(ring.fd, PERF_EVENT_IOC_SET_BPF, prog));
	fault_in_kernel();
	fetched = unwind_stat("regs_fetched");
	ring_enable(&ring);
	fault_in_kernel();
	ring_disable(&ring);
	fetched = unwind_stat("regs_fetched") - fetched;
	while (ring_next_type(&ring, record, PERF_RECORD_SAMPLE))
		samples++;
	EXPECT_LT(0, samples);
	EXPECT_EQ(samples, fetched);
	ring_close(&ring);
	close(prog);
	free(record);
}

TEST(registers_are_fetched_once)
{
	fetched_once(_metadata, PERF_SAMPLE_REGS_USER);
	fetched_once(_metadata, PERF_SAMPLE_STACK_USER);
	fetched_once(_metadata, PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER);
}

TEST_HARNESS_MAIN
