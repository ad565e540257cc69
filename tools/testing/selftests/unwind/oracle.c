// SPDX-License-Identifier: GPL-2.0
/*
 * The walk is right at every instruction of functions that have frame pointers.
 *
 * A child runs functions under single-step. Each step is a kernel entry of its own
 * in which a signal is generated, and an event on that asks for a deferred trace.
 * The truth is a shadow stack: every call adds the return address that it pushed,
 * and what is below the stack pointer is gone.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "oracle.h"
#include "perf_ring.h"
#include "harness.h"

#define MAX_DEPTH	64
/* A function that does not come back is a bug in the test. */
#define MAX_STEPS	20000
/* Wrong positions that are shown. */
#define MAX_SHOWN	20

/* rdi: function. Outermost: its frame pointer is 0. */
void oracle_enter(oracle_func_t func);
extern const char oracle_begin[], oracle_end[];

asm(
"	.pushsection .text\n"
"	.globl	oracle_enter, oracle_begin, oracle_end\n"
"	.type	oracle_enter, @function\n"
"oracle_enter:\n"
"	push	%rbp\n"
"	xor	%ebp, %ebp\n"
"	int3\n"
"oracle_begin:\n"
"	call	*%rdi\n"
"oracle_end:\n"
"	pop	%rbp\n"
"	ret\n"
"	.popsection\n"
);

/* Written by hand, as in libraries. */
void asm_leave(void);
void asm_pop(void);
void asm_ret_n(void);
void asm_tail(void);
void asm_tail_pointer(void);
void asm_endbr(void);

asm(
"	.pushsection .text\n"
"	.type	asm_leaf, @function\n"
"asm_leaf:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	nop\n"
"	pop	%rbp\n"
"	rep	ret\n"
"	.type	asm_leave, @function\n"
"asm_leave:\n"
"	push	%rbp\n"
"	.byte	0x48, 0x8b, 0xec\n"	/* mov %rsp,%rbp, the other way */
"	sub	$64, %rsp\n"
"	call	asm_leaf\n"
"	leave\n"
"	ret\n"
"	.type	asm_pop, @function\n"
"asm_pop:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	push	%rbx\n"
"	push	%r12\n"
"	call	asm_leaf\n"
"	pop	%r12\n"
"	pop	%rbx\n"
"	pop	%rbp\n"
"	ret\n"
"	.type	asm_callee_pops, @function\n"
"asm_callee_pops:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	pop	%rbp\n"
"	ret	$16\n"
"	.type	asm_ret_n, @function\n"
"asm_ret_n:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	push	%rax\n"
"	push	%rax\n"
"	call	asm_callee_pops\n"
"	pop	%rbp\n"
"	ret\n"
"	.type	asm_tail, @function\n"
"asm_tail:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	sub	$16, %rsp\n"
"	leave\n"
"	jmp	asm_pop\n"
"	.type	asm_tail_pointer, @function\n"
"asm_tail_pointer:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	lea	asm_leave(%rip), %r11\n"
"	pop	%rbp\n"
"	jmp	*%r11\n"
"	.type	asm_endbr, @function\n"
"asm_endbr:\n"
"	endbr64\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	lea	asm_tail(%rip), %rax\n"
"	call	*%rax\n"
"	pop	%rbp\n"
"	ret\n"
"	.popsection\n"
);

static const struct oracle_func oracle_table_asm[] = {
	{ "leave", asm_leave }, { "pop", asm_pop }, { "ret n", asm_ret_n },
	{ "tail", asm_tail }, { "tail pointer", asm_tail_pointer }, { "endbr", asm_endbr },
	{}
};

/* Return addresses on the child's stack, outermost first. */
struct shadow {
	struct {
		unsigned long	slot, ra;
	} frame[MAX_DEPTH];
	unsigned int	nr;
};

/* The child has the same code as this process. */
static bool is_call(unsigned long ip)
{
	const unsigned char *code = (const unsigned char *)ip;

	while (*code == 0x41 || *code == 0x3e || *code == 0xf2)
		code++;
	return *code == 0xe8 || (*code == 0xff && (code[1] & 0x38) == 0x10);
}

static void shadow_step(struct shadow *shadow, pid_t child, unsigned long from,
			unsigned long sp)
{
	while (shadow->nr && shadow->frame[shadow->nr - 1].slot < sp)
		shadow->nr--;
	if (!is_call(from) || shadow->nr == MAX_DEPTH)
		return;
	shadow->frame[shadow->nr].slot = sp;
	shadow->frame[shadow->nr].ra = ptrace(PTRACE_PEEKDATA, child, sp, 0);
	shadow->nr++;
}

static bool is_right(const struct shadow *shadow, unsigned long ip,
		     const struct deferred *deferred)
{
	if (deferred->nr != shadow->nr + 1 || deferred->ips[0] != ip)
		return false;
	for (unsigned int i = 0; i < shadow->nr; i++) {
		if (deferred->ips[1 + i] != shadow->frame[shadow->nr - 1 - i].ra)
			return false;
	}
	return true;
}

FIXTURE(oracle) {
	union record *record;
	struct ring ring;
	pid_t child;
	unsigned int steps, wrong;
};

FIXTURE_VARIANT(oracle) {
	const struct oracle_func *table;
};

FIXTURE_VARIANT_ADD(oracle, assembly) { .table = oracle_table_asm };
FIXTURE_VARIANT_ADD(oracle, O0) { .table = oracle_table_O0 };
FIXTURE_VARIANT_ADD(oracle, O2) { .table = oracle_table_O2 };
FIXTURE_VARIANT_ADD(oracle, Os) { .table = oracle_table_Os };
FIXTURE_VARIANT_ADD(oracle, cet) { .table = oracle_table_cet };

FIXTURE_SETUP(oracle)
{
	struct perf_event_attr attr = tracepoint_attr("signal/signal_generate");
	int status;

	if (attr.type == ~0U)
		SKIP(return, "needs root, tracefs and CONFIG_FTRACE");
	self->record = malloc(sizeof(*self->record));
	self->child = fork();
	if (!self->child) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		for (const struct oracle_func *f = variant->table; f->name; f++)
			oracle_enter(f->func);
		_exit(0);
	}
	ASSERT_EQ(self->child, waitpid(self->child, &status, 0));
	ASSERT_TRUE(WIFSTOPPED(status));
	ASSERT_EQ(0, ring_open(&self->ring, &attr, self->child, -1, 32));
	ring_enable(&self->ring);
}

FIXTURE_TEARDOWN(oracle)
{
	kill(self->child, SIGKILL);
	waitpid(self->child, NULL, 0);
	free(self->record);
}

#define SHOW_WRONG(name, ip, deferred, shadow) do {				\
	const unsigned char *_code = (const unsigned char *)(ip);		\
										\
	if (self->wrong++ < MAX_SHOWN)						\
		TH_LOG("%s at %llx: %02x %02x %02x %02x, %llu entries, not %u",	\
		       name, ip, _code[0], _code[1], _code[2], _code[3],	\
		       (deferred)->nr, (shadow)->nr + 1);			\
} while (0)

TEST_F(oracle, every_instruction)
{
	const struct deferred *deferred = as_deferred(self->record);
	struct user_regs_struct regs;
	int status;

	for (const struct oracle_func *f = variant->table; f->name; f++) {
		struct shadow shadow = {};
		unsigned long from = 0;
		unsigned int steps = 0;

		/* To the breakpoint in front of the call. */
		ASSERT_EQ(0, ptrace(PTRACE_CONT, self->child, 0, 0));
		ASSERT_EQ(self->child, waitpid(self->child, &status, 0));
		ASSERT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
		ASSERT_EQ(0, ptrace(PTRACE_GETREGS, self->child, 0, &regs));
		ASSERT_EQ((uintptr_t)oracle_begin, regs.rip);

		for (;;) {
			ASSERT_GT(MAX_STEPS, steps++);
			from = regs.rip;
			ring_drain(&self->ring);
			ASSERT_EQ(0, ptrace(PTRACE_SINGLESTEP, self->child, 0, 0));
			ASSERT_EQ(self->child, waitpid(self->child, &status, 0));
			ASSERT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
			ASSERT_EQ(0, ptrace(PTRACE_GETREGS, self->child, 0, &regs));

			/* Behind it is the caller of oracle_enter(), without a frame. */
			if (regs.rip == (uintptr_t)oracle_end)
				break;

			shadow_step(&shadow, self->child, from, regs.rsp);
			ASSERT_TRUE(ring_next_type(&self->ring, self->record,
						   PERF_RECORD_CALLCHAIN_DEFERRED));
			if (!is_right(&shadow, regs.rip, deferred))
				SHOW_WRONG(f->name, regs.rip, deferred, &shadow);
		}
		self->steps += steps;
	}
	TH_LOG("%u instructions, %u wrong", self->steps, self->wrong);
	EXPECT_EQ(0, self->wrong);
}

TEST_HARNESS_MAIN
