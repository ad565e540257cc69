/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions for bench-load.c that only SFrame can unwind: as many as a C library has, with
 * as many rows. Each calls the next one of the list that its argument points to, and
 * returns that function's result; the frame pointer holds an arbitrary value.
 */
#ifndef FUNCS
#define FUNCS	3700
#endif
#define SIZE	64

	.globl	chain_funcs, chain_size
	.section .rodata, "a"
	.balign	4
chain_funcs:
	.long	FUNCS
chain_size:
	.long	SIZE

	.text
	.globl	chain_code
	.balign	SIZE
chain_code:
	.rept	FUNCS
	.balign	SIZE
	.cfi_startproc
	push	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	push	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbx, 0
	sub	$24, %rsp
	.cfi_adjust_cfa_offset 24
	mov	%rdi, %rbp
	add	$8, %rdi
	call	*(%rbp)
	add	$24, %rsp
	.cfi_adjust_cfa_offset -24
	pop	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
	pop	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbp
	ret
	.cfi_endproc
	.endr

	.section .note.GNU-stack, "", @progbits
