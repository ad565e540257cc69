/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Code that only tables can walk, to be copied into files, with the rows of its tables.
 *
 * A copy is a chain of five functions: top calls middle, middle calls inner, inner sets
 * an invalid frame pointer and calls leaf, and leaf calls one of four stubs, which makes
 * a system call. They span two pages. A copy is also a program that requests one trace
 * of itself and may then execute another program. The two copies differ in frames and
 * addresses, so a walk with the tables of the other copy fails.
 *
 * The structs are in sframe_elf.h: chain_args, chain_row and chain_code.
 */
#include <asm/unistd_64.h>

/* The base of a CFA. */
#define FP		0
#define SP		1
#define OUTERMOST	2

/* A program makes one request of the tracer in slot 0, see tracer.h. */
#define TRACER_FD	100
#define TRACER_RUN	0x40105501
#define TRACER_REQUEST	2

/* From here on, the function has this CFA and saved frame pointer. */
	.macro	row v, name, base, cfa=0, fp=0, block=0
901:	.pushsection .rodata.chain_rows, "a"
	.long	\v\()_\name - \v\()_start, \v\()_\name\()_end - \v\()_\name
	.long	\block, 901b - \v\()_\name, \base, \cfa, \fp
	.popsection
	.endm

	.macro	stub_begin
	.balign	16
	push	$0
	push	$0
	syscall
	.endm

	.macro	stub_end
	add	$16, %rsp
	ret
	.endm

	.macro	chain v, top, inner, leaf, pad
	.pushsection .rodata.chain_rows, "a"
	.balign	8
\v\()_rows:
	.popsection

	.balign	4096
\v\()_start:
	.skip	\pad, 0x90
	/* These rows cover each address of all stubs. */
	.balign	16
\v\()_stubs:
	row	\v, stubs, SP, 8, block=16
	push	$0
	row	\v, stubs, SP, 16, block=16
	push	$0
	row	\v, stubs, SP, 24, block=16
	syscall
	add	$16, %rsp
	row	\v, stubs, SP, 8, block=16
	ret
	stub_begin
	stub_end
	.balign	16
\v\()_stub:
	stub_begin
\v\()_after_syscall:
	stub_end
	stub_begin
	stub_end
	.balign	16
\v\()_stubs_end:

	/* rdi: struct chain_args */
\v\()_top:
	row	\v, top, SP, 8
	push	%rbx
	row	\v, top, SP, 16
	sub	$\top, %rsp
	row	\v, top, SP, 16 + \top
	.skip	\pad, 0x90
	call	\v\()_middle
\v\()_after_middle:
	add	$\top, %rsp
	row	\v, top, SP, 16
	pop	%rbx
	row	\v, top, SP, 8
	ret
\v\()_top_end:

\v\()_entry:
	row	\v, entry, OUTERMOST
	mov	%rsp, %rbx
	xor	%ebp, %ebp
	sub	$0x100, %rsp
	and	$-64, %rsp
	/* The operation, the argument of the ioctl, and the argument of top. */
	movq	$TRACER_REQUEST, 0xb0(%rsp)
	movq	$0, 0xb8(%rsp)
	movq	$1, 0xa0(%rsp)
	lea	0xb0(%rsp), %rax
	mov	%rax, 0xa8(%rsp)
	movq	$__NR_ioctl, 0(%rsp)
	movq	$TRACER_FD, 8(%rsp)
	movq	$TRACER_RUN, 16(%rsp)
	lea	0xa0(%rsp), %rax
	mov	%rax, 24(%rsp)
	movq	$0, 56(%rsp)
	mov	%rsp, %rdi
	call	\v\()_top
\v\()_after_top:
	mov	$1, %edi
	test	%rax, %rax
	jnz	1f
	xor	%edi, %edi
	cmpq	$1, (%rbx)
	jbe	1f
	mov	16(%rbx), %rdi
	lea	16(%rbx), %rsi
	xor	%edx, %edx
	mov	$__NR_execve, %eax
	syscall
	mov	$2, %edi
1:	mov	$__NR_exit_group, %eax
	syscall
	hlt
\v\()_entry_end:

	.balign	4096
	/* Only the frame pointer leads to the frame of middle. */
\v\()_middle:
	row	\v, middle, SP, 8
	push	%rbp
	row	\v, middle, SP, 16, -16
	mov	%rsp, %rbp
	row	\v, middle, FP, 16, -16
	sub	$0x28, %rsp
	and	$-64, %rsp
	call	\v\()_inner
\v\()_after_inner:
	leave
	row	\v, middle, SP, 8
	ret
\v\()_middle_end:

	.skip	\pad, 0x90
\v\()_inner:
	row	\v, inner, SP, 8
	push	%r12
	row	\v, inner, SP, 16
	push	%rbp
	row	\v, inner, SP, 24, -24
	sub	$\inner, %rsp
	row	\v, inner, SP, 24 + \inner, -24
	mov	$1, %ebp
	call	\v\()_leaf
\v\()_after_leaf:
	add	$\inner, %rsp
	row	\v, inner, SP, 24, -24
	pop	%rbp
	row	\v, inner, SP, 16
	pop	%r12
	row	\v, inner, SP, 8
	ret
\v\()_inner_end:

\v\()_leaf:
	row	\v, leaf, SP, 8
	sub	$\leaf, %rsp
	row	\v, leaf, SP, 8 + \leaf
	mov	%rdi, %r11
	mov	56(%r11), %rax
	test	%rax, %rax
	jz	2f
	mov	64(%r11), %rdi
	mov	72(%r11), %rsi
	call	*%rax
\v\()_after_call:
	jmp	3f
2:	mov	0(%r11), %rax
	mov	8(%r11), %rdi
	mov	16(%r11), %rsi
	mov	24(%r11), %rdx
	mov	32(%r11), %r10
	mov	40(%r11), %r8
	mov	48(%r11), %r9
	call	\v\()_stub
\v\()_after_stub:
3:	add	$\leaf, %rsp
	row	\v, leaf, SP, 8
	ret
\v\()_leaf_end:
	.balign	4096
\v\()_end:

	.pushsection .rodata.chain_rows, "a"
\v\()_rows_end:
	.popsection

	.pushsection .data.rel.ro, "aw"
	.balign	8
	.globl	\v
\v:	.quad	\v\()_start, \v\()_end, \v\()_rows, \v\()_rows_end
	.long	\v\()_stub - \v\()_start, \v\()_top - \v\()_start, \v\()_entry - \v\()_start
	.long	\v\()_after_syscall - \v\()_start, \v\()_after_stub - \v\()_start
	.long	\v\()_after_leaf - \v\()_start, \v\()_after_inner - \v\()_start
	.long	\v\()_after_middle - \v\()_start, \v\()_after_top - \v\()_start
	.long	\v\()_after_call - \v\()_start
	.popsection
	.endm

	.text
	chain	chain_a, top=0x40, inner=0x108, leaf=0x28, pad=1
	chain	chain_b, top=0x58, inner=0x68, leaf=0x38, pad=9

/* rdi: top of the stack to use, rsi: function, rdx: its argument. The outermost frame. */
	.globl	chain_call, chain_outermost
	.type	chain_call, @function
chain_call:
	push	%rbp
	push	%rbx
	push	%r12
	mov	%rsp, %rbx
	mov	%rdi, %rsp
	mov	%rdx, %rdi
	/* The saved registers must not look like code addresses. */
	xor	%ebp, %ebp
	xor	%r12d, %r12d
	call	*%rsi
chain_outermost:
	mov	%rbx, %rsp
	pop	%r12
	pop	%rbx
	pop	%rbp
	ret
	.size	chain_call, . - chain_call

	.section .note.GNU-stack, "", @progbits
