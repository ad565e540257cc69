// SPDX-License-Identifier: GPL-2.0
/*
 * Make system calls from the innermost of a known number of callers.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "workload.h"

#ifndef __x86_64__
#error "workload.c has no assembly for this architecture"
#endif

/* Labels in the assembly below. */
extern const char workload_leaf[], workload_recursed[], workload_outermost[];
extern const char workload_leaf_fp[];

/* r11 points to the number and the arguments of a system call. */
#define SYSCALL_AT_R11 \
	"	mov	0(%r11), %rax\n" \
	"	mov	8(%r11), %rdi\n" \
	"	mov	16(%r11), %rsi\n" \
	"	mov	24(%r11), %rdx\n" \
	"	mov	32(%r11), %r10\n" \
	"	mov	40(%r11), %r8\n" \
	"	mov	48(%r11), %r9\n" \
	"	syscall\n"

/* Switch to the stack that ends at rdi, unless rdi is 0. rbx keeps the old one. */
#define SWITCH_TO_RDI \
	"	push	%rbp\n" \
	"	push	%rbx\n" \
	"	mov	%rsp, %rbx\n" \
	"	test	%rdi, %rdi\n" \
	"	cmovnz	%rdi, %rsp\n"

#define SWITCH_BACK \
	"	mov	%rbx, %rsp\n" \
	"	pop	%rbx\n" \
	"	pop	%rbp\n" \
	"	ret\n"

asm(
"	.pushsection .text\n"
	/* rdi: remaining callers, rsi: system call number and arguments */
"	.type	workload_asm, @function\n"
"workload_asm:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	test	%rdi, %rdi\n"
"	jz	1f\n"
"	dec	%rdi\n"
"	call	workload_asm\n"
"	.globl	workload_recursed\n"
"workload_recursed:\n"
"	pop	%rbp\n"
"	ret\n"
"1:	mov	%rsi, %r11\n"
	SYSCALL_AT_R11
"	.globl	workload_leaf\n"
"workload_leaf:\n"
"	pop	%rbp\n"
"	ret\n"
"	.size	workload_asm, . - workload_asm\n"

	/* rdi: top of the stack to use, or 0; rsi, rdx: passed to workload_asm */
"	.globl	workload_call_on\n"
"	.type	workload_call_on, @function\n"
"workload_call_on:\n"
	SWITCH_TO_RDI
"	mov	%rsi, %rdi\n"
"	mov	%rdx, %rsi\n"
"	xor	%ebp, %ebp\n"
"	call	workload_asm\n"
"	.globl	workload_outermost\n"
"workload_outermost:\n"
	SWITCH_BACK
"	.size	workload_call_on, . - workload_call_on\n"

	/* rdi: top of the stack to use, or 0; rsi: frame pointer; rdx: system call */
"	.globl	workload_call_fp\n"
"	.type	workload_call_fp, @function\n"
"workload_call_fp:\n"
	SWITCH_TO_RDI
"	mov	%rsi, %rbp\n"
"	mov	%rdx, %r11\n"
	SYSCALL_AT_R11
"	.globl	workload_leaf_fp\n"
"workload_leaf_fp:\n"
	SWITCH_BACK
"	.size	workload_call_fp, . - workload_call_fp\n"
"	.popsection\n"
);

long workload_call(unsigned int depth, const long args[7])
{
	return workload_call_on(NULL, depth, args);
}

bool workload_is_leaf_fp(__u64 ip)
{
	return ip == (uintptr_t)workload_leaf_fp;
}

bool workload_is_leaf(__u64 ip)
{
	return ip == (uintptr_t)workload_leaf;
}

int workload_check_head(const __u64 *ips, __u64 nr, unsigned int depth)
{
	for (__u64 i = 0; i < nr; i++) {
		const char *want = workload_recursed;

		if (!i)
			want = workload_leaf;
		else if (i > depth)
			want = workload_outermost;

		if (i >= WORKLOAD_NR(depth) || ips[i] != (uintptr_t)want)
			return i;
	}
	return -1;
}

int workload_check(const __u64 *ips, __u64 nr, unsigned int depth)
{
	int wrong = workload_check_head(ips, nr, depth);

	if (wrong < 0 && nr != WORKLOAD_NR(depth))
		return nr;
	return wrong;
}

int stop_at_syscall(pid_t child, long nr, struct user_regs_struct *regs)
{
	int status, sig = 0;

	do {
		if (ptrace(PTRACE_SYSCALL, child, 0, sig) || waitpid(child, &status, 0) != child)
			return -1;
		if (!WIFSTOPPED(status))
			return status ?: -1;
		/* Pass signals on to the child. */
		sig = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
		if (ptrace(PTRACE_GETREGS, child, 0, regs))
			return -1;
	} while ((long)regs->orig_rax != nr);
	return 0;
}

int pin_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

int first_cpus(int *cpu, int nr)
{
	cpu_set_t all;
	int found = 0;

	if (sched_getaffinity(0, sizeof(all), &all))
		return 0;
	for (int i = 0; i < CPU_SETSIZE && found < nr; i++) {
		if (CPU_ISSET(i, &all))
			cpu[found++] = i;
	}
	return found;
}
