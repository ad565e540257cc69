// SPDX-License-Identifier: GPL-2.0
/*
 * User registers in samples: those that user mode left at this kernel entry, all of
 * them, or none. And what a sample with a copy of the user stack has room for.
 *
 * A program loads the same number into all registers that a call preserves, another
 * one before each kernel entry. NMIs of another CPU hit whatever the kernel does then,
 * its entry code too. A register that is not of this entry shows.
 */
#define _GNU_SOURCE
#include <asm/perf_regs.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "perf_ring.h"
#include "tracer.h"
#include "workload.h"
#include "../kselftest_harness.h"

#define PERCENT		"kernel/perf_cpu_time_max_percent"
#define PERIOD_NS	200000
#define ROUNDS		200
#define SECONDS		2
/* An emulator that can be interrupted anywhere is slow. */
#define TIMEOUT		200
#define PAGE		4096UL
#define REMOTE		0
#define GETPPID		"syscalls/sys_enter_getppid"
#define BIT_OF(reg)	(1ULL << (PERF_REG_X86_##reg))
/* The sixteen of the program, ip and flags: what DWARF unwinding asks for. */
#define ALL_REGS	(0xff0fffULL & ~(BIT_OF(DS) | BIT_OF(ES) | BIT_OF(FS) | BIT_OF(GS)))
#define USER_END	0x7ffffffff000UL
/* The first number; there are fewer than can be counted below the shift. */
#define NUMBER		0x5a0000000000UL
#define NUMBER_SHIFT	40

/* The registers that hold the number. */
static const int kept[] = {
	PERF_REG_X86_BX, PERF_REG_X86_BP, PERF_REG_X86_R12, PERF_REG_X86_R13,
	PERF_REG_X86_R14, PERF_REG_X86_R15,
};

/*
 * @rounds kernel entries of each kind, with the numbers from @number on in the registers
 * above. A page fault needs a page at @page that is given up after each.
 */
unsigned long regs_syscalls(unsigned long number, unsigned long rounds);
unsigned long regs_int80(unsigned long number, unsigned long rounds);
unsigned long regs_faults(unsigned long number, unsigned long rounds, char *page);
/* What the instruction pointer is meanwhile. */
extern const char regs_syscall_at[], regs_int80_at[], regs_fault_at[];
/* getppid() with any stack pointer. */
long regs_call_at(unsigned long sp);

#define PUSH_ALL "	push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
#define POP_ALL "	pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n"
#define LOAD_ALL				\
	"	inc	%rbx\n"			\
	"	mov	%rbx, %rbp\n"		\
	"	mov	%rbx, %r12\n"		\
	"	mov	%rbx, %r13\n"		\
	"	mov	%rbx, %r14\n"		\
	"	mov	%rbx, %r15\n"

asm(
"	.text\n"
"regs_syscalls:\n"
	PUSH_ALL
"	push	%rsi\n"
"	mov	%rdi, %rbx\n"
"1:\n"	LOAD_ALL
"	mov	$110, %eax\n"
"	syscall\n"
"regs_syscall_at:\n"
"	decq	(%rsp)\n"
"	jnz	1b\n"
"	pop	%rsi\n"
"	mov	%rbx, %rax\n"
	POP_ALL
"regs_int80:\n"
	PUSH_ALL
"	push	%rsi\n"
"	mov	%rdi, %rbx\n"
"1:\n"	LOAD_ALL
"	mov	$64, %eax\n"
"	int	$0x80\n"
"regs_int80_at:\n"
"	decq	(%rsp)\n"
"	jnz	1b\n"
"	pop	%rsi\n"
"	mov	%rbx, %rax\n"
	POP_ALL
"regs_faults:\n"
	PUSH_ALL
"	push	%rsi\n"
"	push	%rdx\n"
"	mov	%rdi, %rbx\n"
"1:\n"	LOAD_ALL
"	mov	(%rsp), %rdi\n"
"regs_fault_at:\n"
"	movb	$1, (%rdi)\n"
"	mov	$4096, %esi\n"
"	mov	$4, %edx\n"		/* MADV_DONTNEED */
"	mov	$28, %eax\n"
"	syscall\n"
"	decq	8(%rsp)\n"
"	jnz	1b\n"
"	pop	%rdx\n"
"	pop	%rsi\n"
"	mov	%rbx, %rax\n"
	POP_ALL
"regs_call_at:\n"
"	push	%rbx\n"
"	mov	%rsp, %rbx\n"
"	mov	%rdi, %rsp\n"
"	mov	$110, %eax\n"
"	syscall\n"
"	mov	%rbx, %rsp\n"
"	pop	%rbx\n"
"	ret\n"
);

/* The part of a sample behind the callchain. */
struct user_part {
	__u64		abi, intr_abi;
	__u64		regs[64], intr[64];
	__u64		size, dyn_size;
	const char	*stack;
	/* Bytes of the sample that are none of all this: 0. */
	long		rest;
};

static const __u64 *take_regs(const __u64 *at, __u64 mask, __u64 *abi, __u64 *regs)
{
	*abi = *at++;
	memset(regs, 0, 64 * sizeof(*regs));
	for (int i = 0; *abi && i < 64; i++) {
		if (mask & 1ULL << i)
			regs[i] = *at++;
	}
	return at;
}

static void parse_user_part(const union record *record, const struct perf_event_attr *attr,
			    struct user_part *part)
{
	struct sample sample;
	const __u64 *at;

	memset(part, 0, sizeof(*part));
	parse_sample(record, &sample);
	at = sample.ips + sample.nr;
	if (attr->sample_type & PERF_SAMPLE_REGS_USER)
		at = take_regs(at, attr->sample_regs_user, &part->abi, part->regs);
	if (attr->sample_type & PERF_SAMPLE_STACK_USER) {
		part->size = *at++;
		if (part->size) {
			part->stack = (const char *)at;
			at += part->size / 8;
			part->dyn_size = *at++;
		}
	}
	if (attr->sample_type & PERF_SAMPLE_REGS_INTR)
		at = take_regs(at, attr->sample_regs_intr, &part->intr_abi, part->intr);
	part->rest = (const char *)record + record->header.size - (const char *)at;
}

FIXTURE(regs) {
	struct perf_event_attr attr;
	union record *record;
	struct ring ring;
	unsigned long entry_begin, entry_end;
	int percent;
};

FIXTURE_SETUP(regs)
{
	self->record = malloc(sizeof(*self->record));
	self->percent = set_sysctl(PERCENT, 0);
	if (self->percent < 0)
		SKIP(return, "needs root");
	self->entry_begin = kernel_symbol("__entry_text_start");
	self->entry_end = kernel_symbol("__entry_text_end");
}

FIXTURE_TEARDOWN(regs)
{
	free(self->record);
	if (self->percent > 0)
		set_sysctl(PERCENT, self->percent);
}

#define NEED_SHOTS() do {							\
	if (pmu_type("perf_test") < 0 || sysconf(_SC_NPROCESSORS_ONLN) < 2)	\
		SKIP(return, "needs CONFIG_PERF_TEST_PMU and two CPUs");	\
} while (0)

/* The NMIs of one kind of entry, by what they found. */
struct shots {
	unsigned int	samples, kernel, entry, gap, none, none_elsewhere, right;
	unsigned int	minus_one, stale, torn;
	/* Where the program is then. */
	const char	*at;
};

static void judge(struct shots *shots, const struct user_part *part, bool in_entry)
{
	bool gap = in_entry && part->intr[PERF_REG_X86_SP] < USER_END;
	/* The program's register is still in the CPU. */
	bool live = part->intr[PERF_REG_X86_BP] >> NUMBER_SHIFT == NUMBER >> NUMBER_SHIFT;
	bool minus_one = false, torn = false;

	shots->entry += in_entry;
	shots->gap += gap;
	if (!part->abi) {
		shots->none++;
		shots->none_elsewhere += !in_entry;
		return;
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(kept); i++) {
		minus_one |= part->regs[kept[i]] == -1ULL;
		/* Elsewhere in the program, an interrupt may find anything. */
		torn |= part->regs[PERF_REG_X86_IP] == (uintptr_t)shots->at &&
			 part->regs[kept[i]] != part->regs[PERF_REG_X86_BP];
	}
	shots->right += !torn && !minus_one && part->regs[PERF_REG_X86_IP] == (uintptr_t)shots->at;
	shots->minus_one += minus_one;
	if (live && part->regs[PERF_REG_X86_BP] != part->intr[PERF_REG_X86_BP])
		shots->stale++;
	else if (!minus_one)
		shots->torn += torn;
}

static void read_shots(FIXTURE_DATA(regs) *self, struct shots *shots)
{
	struct user_part part;
	__u64 ip;

	while (ring_next_type(&self->ring, self->record, PERF_RECORD_SAMPLE)) {
		shots->samples++;
		if ((self->record->header.misc & PERF_RECORD_MISC_CPUMODE_MASK) !=
		    PERF_RECORD_MISC_KERNEL)
			continue;
		shots->kernel++;
		parse_user_part(self->record, &self->attr, &part);
		ip = part.intr[PERF_REG_X86_IP];
		judge(shots, &part, ip >= self->entry_begin && ip < self->entry_end);
	}
}

static void shoot(struct __test_metadata *_metadata, FIXTURE_DATA(regs) *self,
		  unsigned long (*enter)(unsigned long, unsigned long, char *), struct shots *shots)
{
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long number = NUMBER;
	time_t end = time(NULL) + SECONDS;

	ASSERT_NE(MAP_FAILED, (void *)page);
	self->attr = (struct perf_event_attr) {
		.type			= pmu_type("perf_test"),
		.size			= sizeof(self->attr),
		.config			= REMOTE,
		.sample_period		= PERIOD_NS,
		.sample_type		= RING_SAMPLE_TYPE | PERF_SAMPLE_REGS_USER |
					  PERF_SAMPLE_REGS_INTR,
		.sample_regs_user	= ALL_REGS,
		.sample_regs_intr	= ALL_REGS,
		.exclude_callchain_user	= 1,
		.disabled		= 1,
	};
	ASSERT_EQ(0, ring_open(&self->ring, &self->attr, 0, -1, 1024));
	ring_enable(&self->ring);
	do {
		number = enter(number, ROUNDS, page);
		read_shots(self, shots);
	} while (time(NULL) < end);
	ring_disable(&self->ring);
	read_shots(self, shots);
	ring_close(&self->ring);
	munmap(page, PAGE);

	TH_LOG("%u NMIs, %u in the kernel, %u in entry code, %u of them in the gap",
	       shots->samples, shots->kernel, shots->entry, shots->gap);
	TH_LOG("no registers %u (%u elsewhere), stale %u, torn %u, with -1 %u, all right %u",
	       shots->none, shots->none_elsewhere, shots->stale, shots->torn, shots->minus_one,
	       shots->right);
	EXPECT_LT(50, shots->kernel);
	EXPECT_LT(20, shots->right);
	EXPECT_EQ(0, shots->stale);
	EXPECT_EQ(0, shots->torn);
	EXPECT_EQ(0, shots->minus_one);
	/* None in entry code; elsewhere they are there but for a few instructions. */
	EXPECT_EQ(shots->entry, shots->none - shots->none_elsewhere);
	EXPECT_LE(shots->none_elsewhere, (shots->kernel - shots->entry) / 4);
}

static unsigned long enter_syscall(unsigned long number, unsigned long rounds, char *page)
{
	return regs_syscalls(number, rounds);
}

static unsigned long enter_int80(unsigned long number, unsigned long rounds, char *page)
{
	return regs_int80(number, rounds);
}

TEST_F_TIMEOUT(regs, nmi_in_system_calls, TIMEOUT)
{
	struct shots shots = { .at = regs_syscall_at };

	NEED_SHOTS();
	shoot(_metadata, self, enter_syscall, &shots);
	EXPECT_LT(0, shots.gap);
	EXPECT_LE(shots.gap, shots.none);
}

TEST_F_TIMEOUT(regs, nmi_in_int80, TIMEOUT)
{
	struct shots shots = { .at = regs_int80_at };

	NEED_SHOTS();
	shoot(_metadata, self, enter_int80, &shots);
}

TEST_F_TIMEOUT(regs, nmi_in_page_faults, TIMEOUT)
{
	struct shots shots = { .at = regs_fault_at };

	NEED_SHOTS();
	shoot(_metadata, self, regs_faults, &shots);
}

/* The idle task has no user registers. */
TEST_F(regs, kernel_thread)
{
	unsigned int idle = 0, with = 0, others = 0;
	struct rings rings = {};
	struct user_part part;
	struct sample sample;

	self->attr = tracepoint_attr("sched/sched_switch");
	self->attr.defer_callchain = 0;
	self->attr.defer_output = 0;
	self->attr.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
	self->attr.sample_regs_user = ALL_REGS;
	self->attr.sample_stack_user = 64;
	ASSERT_EQ(0, rings_open_each_cpu(&rings, &self->attr, -1));
	rings_enable(&rings);
	for (int i = 0; i < 100; i++)
		usleep(1000);
	rings_disable(&rings);
	for (unsigned int i = 0; i < rings.nr; i++) {
		while (ring_next_type(&rings.ring[i], self->record, PERF_RECORD_SAMPLE)) {
			parse_sample(self->record, &sample);
			parse_user_part(self->record, &self->attr, &part);
			EXPECT_EQ(0, part.rest);
			idle += !sample.tid;
			with += !sample.tid && (part.abi || part.size);
			others += sample.tid == (__u32)getpid() && part.abi && part.size;
		}
	}
	EXPECT_LT(10, idle);
	EXPECT_EQ(0, with);
	EXPECT_LT(10, others);
	rings_close(&rings);
}

/* Each combination is as long as it says, and what is in it is the same. */
TEST_F(regs, sample_types)
{
	static const __u64 types[] = {
		0, PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER,
		PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
	};
	struct user_part part;

	for (unsigned int i = 0; i < ARRAY_SIZE(types); i++) {
		self->attr = tracepoint_attr(GETPPID);
		if (self->attr.type == ~0U)
			SKIP(return, "needs tracefs and CONFIG_FTRACE_SYSCALLS");
		self->attr.defer_callchain = 0;
		self->attr.defer_output = 0;
		self->attr.sample_type |= types[i];
		self->attr.sample_regs_user = ALL_REGS;
		self->attr.sample_stack_user = 256;
		ASSERT_EQ(0, ring_open(&self->ring, &self->attr, 0, -1, 8));
		ring_enable(&self->ring);
		regs_syscalls(1000, 1);
		ring_disable(&self->ring);
		ASSERT_TRUE(ring_next_type(&self->ring, self->record, PERF_RECORD_SAMPLE));
		parse_user_part(self->record, &self->attr, &part);
		EXPECT_EQ(0, part.rest);
		if (types[i] & PERF_SAMPLE_REGS_USER) {
			EXPECT_EQ(PERF_SAMPLE_REGS_ABI_64, part.abi);
			for (unsigned int k = 0; k < ARRAY_SIZE(kept); k++)
				EXPECT_EQ(1001, part.regs[kept[k]]);
		}
		if (types[i] & PERF_SAMPLE_STACK_USER) {
			EXPECT_EQ(256, part.size);
			EXPECT_EQ(256, part.dyn_size);
			/* On top is the number of rounds. */
			EXPECT_EQ(1, *(const __u64 *)part.stack);
		}
		ring_close(&self->ring);
	}
}

/* Stack pointers that no stack has, with the largest copies that there are. */
TEST_F(regs, hostile_stack_pointers)
{
	static const unsigned long sps[] = {
		0, 1, 0xffff888000000000, -1UL, -8UL, USER_END, USER_END - 1, USER_END - 8,
		USER_END - 13, USER_END - 4096, 1UL << 47, (1UL << 56) - 4096 - 13, 0x1003,
	};
	static const __u32 sizes[] = { 8, 8192, 65528 };
	struct user_part part;
	unsigned int seen = 0;

	for (unsigned int s = 0; s < ARRAY_SIZE(sizes); s++) {
		self->attr = tracepoint_attr(GETPPID);
		if (self->attr.type == ~0U)
			SKIP(return, "needs tracefs and CONFIG_FTRACE_SYSCALLS");
		self->attr.defer_callchain = 0;
		self->attr.defer_output = 0;
		self->attr.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER |
					  PERF_SAMPLE_REGS_INTR;
		self->attr.sample_regs_user = ALL_REGS;
		self->attr.sample_regs_intr = ALL_REGS;
		self->attr.sample_stack_user = sizes[s];
		ASSERT_EQ(0, ring_open(&self->ring, &self->attr, 0, -1, 512));
		ring_enable(&self->ring);
		for (unsigned int i = 0; i < ARRAY_SIZE(sps); i++)
			regs_call_at(sps[i]);
		regs_syscalls(1000, 1);
		ring_disable(&self->ring);
		for (unsigned int i = 0; i <= ARRAY_SIZE(sps); i++) {
			ASSERT_TRUE(ring_next(&self->ring, self->record));
			ASSERT_EQ(PERF_RECORD_SAMPLE, self->record->header.type);
			parse_user_part(self->record, &self->attr, &part);
			ASSERT_EQ(0, part.rest) {
				TH_LOG("sp %lx, %u bytes: %ld of %u bytes too many or few",
				       i < ARRAY_SIZE(sps) ? sps[i] : 0, sizes[s], part.rest,
				       self->record->header.size);
			}
			EXPECT_EQ(PERF_SAMPLE_REGS_ABI_64, part.abi);
			EXPECT_EQ(PERF_SAMPLE_REGS_ABI_64, part.intr_abi);
			EXPECT_LE(part.dyn_size, part.size);
			if (i < ARRAY_SIZE(sps)) {
				EXPECT_EQ(sps[i], part.regs[PERF_REG_X86_SP]);
				EXPECT_EQ(0, part.dyn_size);
			} else {
				EXPECT_LT(0, part.dyn_size);
			}
			seen++;
		}
		EXPECT_FALSE(ring_next(&self->ring, self->record));
		ring_close(&self->ring);
	}
	EXPECT_EQ(ARRAY_SIZE(sizes) * (ARRAY_SIZE(sps) + 1), seen);
}

TEST_F(regs, bad_attrs)
{
	static const __u64 bad_regs[] = { 0, BIT_OF(DS), BIT_OF(GS), 1ULL << 24, 1ULL << 31 };
	static const __u32 bad_sizes[] = { 7, 12, 65535, 65536, -8U };
	struct perf_event_attr attr = software_attr(PERF_COUNT_SW_DUMMY);

	attr.sample_type |= PERF_SAMPLE_REGS_USER;
	for (unsigned int i = 0; i < ARRAY_SIZE(bad_regs); i++) {
		attr.sample_regs_user = bad_regs[i];
		EXPECT_EQ(-EINVAL, perf_open(&attr, 0, -1, -1, 0));
	}
	/* Vector registers: nothing here has them. */
	attr.sample_regs_user = 1ULL << PERF_REG_X86_XMM0;
	EXPECT_EQ(-EOPNOTSUPP, perf_open(&attr, 0, -1, -1, 0));
	attr.sample_type = RING_SAMPLE_TYPE | PERF_SAMPLE_STACK_USER;
	for (unsigned int i = 0; i < ARRAY_SIZE(bad_sizes); i++) {
		attr.sample_stack_user = bad_sizes[i];
		EXPECT_EQ(-EINVAL, perf_open(&attr, 0, -1, -1, 0));
	}
}

TEST_HARNESS_MAIN
