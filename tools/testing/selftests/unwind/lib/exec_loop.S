/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A program that executes itself forever, each time with another number in the
 * registers that perf/user_regs.c checks. The instruction pointer in execve() equals its
 * entry point.
 */
#include <asm/unistd_64.h>

	.text
again:
	mov	%rbx, %rbp
	mov	%rbx, %r12
	mov	%rbx, %r13
	mov	%rbx, %r14
	mov	%rbx, %r15
	mov	$__NR_execve, %eax
	syscall
	.globl	_start
_start:
	rdtsc
	mov	%eax, %eax
	mov	$0x5a0000000000, %rbx
	add	%rax, %rbx
	lea	8(%rsp), %rsi
	mov	(%rsi), %rdi
	xor	%edx, %edx
	jmp	again

	/* Without this note the stack would be executable. */
	.section .note.GNU-stack, "", @progbits
