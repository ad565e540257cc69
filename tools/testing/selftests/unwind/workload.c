// SPDX-License-Identifier: GPL-2.0
/*
 * System calls from the innermost of a known number of callers.
 */
#include <stdint.h>

#include "workload.h"

#ifndef __x86_64__
#error "workload.c has no assembly for this architecture"
#endif

/* Labels in the assembly below. */
extern const char workload_leaf[], workload_recursed[], workload_outermost[];
extern const char workload_leaf_fp[];

long workload_asm_top(void *top, unsigned long depth, const long args[7]);
long workload_asm_fp(void *top, unsigned long fp, const long args[7]);

asm(
"	.pushsection .text\n"
	/* rdi: callers to come, rsi: system call number and arguments */
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
"	mov	0(%r11), %rax\n"
"	mov	8(%r11), %rdi\n"
"	mov	16(%r11), %rsi\n"
"	mov	24(%r11), %rdx\n"
"	mov	32(%r11), %r10\n"
"	mov	40(%r11), %r8\n"
"	mov	48(%r11), %r9\n"
"	syscall\n"
"	.globl	workload_leaf\n"
"workload_leaf:\n"
"	pop	%rbp\n"
"	ret\n"
"	.size	workload_asm, . - workload_asm\n"

	/* rdi: top of the stack to use, or 0; rsi, rdx: for workload_asm */
"	.globl	workload_asm_top\n"
"	.type	workload_asm_top, @function\n"
"workload_asm_top:\n"
"	push	%rbp\n"
"	push	%rbx\n"
"	mov	%rsp, %rbx\n"
"	test	%rdi, %rdi\n"
"	cmovnz	%rdi, %rsp\n"
"	mov	%rsi, %rdi\n"
"	mov	%rdx, %rsi\n"
"	xor	%ebp, %ebp\n"
"	call	workload_asm\n"
"	.globl	workload_outermost\n"
"workload_outermost:\n"
"	mov	%rbx, %rsp\n"
"	pop	%rbx\n"
"	pop	%rbp\n"
"	ret\n"
"	.size	workload_asm_top, . - workload_asm_top\n"

	/* rdi: top of the stack to use, or 0; rsi: frame pointer; rdx: as above */
"	.globl	workload_asm_fp\n"
"	.type	workload_asm_fp, @function\n"
"workload_asm_fp:\n"
"	push	%rbp\n"
"	push	%rbx\n"
"	mov	%rsp, %rbx\n"
"	test	%rdi, %rdi\n"
"	cmovnz	%rdi, %rsp\n"
"	mov	%rsi, %rbp\n"
"	mov	%rdx, %r11\n"
"	mov	0(%r11), %rax\n"
"	mov	8(%r11), %rdi\n"
"	mov	16(%r11), %rsi\n"
"	mov	24(%r11), %rdx\n"
"	mov	32(%r11), %r10\n"
"	mov	40(%r11), %r8\n"
"	mov	48(%r11), %r9\n"
"	syscall\n"
"	.globl	workload_leaf_fp\n"
"workload_leaf_fp:\n"
"	mov	%rbx, %rsp\n"
"	pop	%rbx\n"
"	pop	%rbp\n"
"	ret\n"
"	.size	workload_asm_fp, . - workload_asm_fp\n"
"	.popsection\n"
);

long workload_call_on(void *top, unsigned int depth, const long args[7])
{
	return workload_asm_top(top, depth, args);
}

long workload_call(unsigned int depth, const long args[7])
{
	return workload_asm_top(0, depth, args);
}

long workload_call_fp(void *top, unsigned long fp, const long args[7])
{
	return workload_asm_fp(top, fp, args);
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
