// SPDX-License-Identifier: GPL-2.0
/*
 * Handwritten functions with frame pointers, as libraries have them, to be stepped
 * through instruction by instruction.
 */
#include "oracle.h"

void asm_leave(void);
void asm_pop(void);
void asm_ret_n(void);
void asm_tail(void);
void asm_tail_pointer(void);
void asm_endbr(void);
void asm_old_drap(void);

asm(
"	.pushsection .text\n"
"	.type	asm_leaf, @function\n"
"asm_leaf:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	nop\n"
"	pop	%rbp\n"
"	rep	ret\n"
"	.size	asm_leaf, . - asm_leaf\n"
"	.type	asm_leave, @function\n"
"asm_leave:\n"
"	push	%rbp\n"
"	.byte	0x48, 0x8b, 0xec\n"	/* mov %rsp,%rbp in its other encoding */
"	sub	$64, %rsp\n"
"	call	asm_leaf\n"
"	leave\n"
"	ret\n"
"	.size	asm_leave, . - asm_leave\n"
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
"	.size	asm_pop, . - asm_pop\n"
"	.type	asm_callee_pops, @function\n"
"asm_callee_pops:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	pop	%rbp\n"
"	ret	$16\n"
"	.size	asm_callee_pops, . - asm_callee_pops\n"
"	.type	asm_ret_n, @function\n"
"asm_ret_n:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	push	%rax\n"
"	push	%rax\n"
"	call	asm_callee_pops\n"
"	pop	%rbp\n"
"	ret\n"
"	.size	asm_ret_n, . - asm_ret_n\n"
"	.type	asm_tail, @function\n"
"asm_tail:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	sub	$16, %rsp\n"
"	leave\n"
"	jmp	asm_pop\n"
"	.size	asm_tail, . - asm_tail\n"
"	.type	asm_tail_pointer, @function\n"
"asm_tail_pointer:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	lea	asm_leave(%rip), %r11\n"
"	pop	%rbp\n"
"	jmp	*%r11\n"
"	.size	asm_tail_pointer, . - asm_tail_pointer\n"
"	.type	asm_endbr, @function\n"
"asm_endbr:\n"
"	endbr64\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	lea	asm_tail(%rip), %rax\n"
"	call	*%rax\n"
"	pop	%rbp\n"
"	ret\n"
"	.size	asm_endbr, . - asm_endbr\n"
/*
 * r10 holds the caller's CFA, as if left by a function that aligned its stack. The return
 * address there is the same, and the CFA is as close as if this function had aligned the
 * stack. For a moment, r10 is also stored where such a function would have saved it, but
 * below the stack pointer.
 */
"	.type	asm_again, @function\n"
"asm_again:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	mov	%r10, -8(%rbp)\n"
"	movq	$0, -8(%rbp)\n"
"	sub	$24, %rsp\n"
"	push	%rcx\n"
"	lea	16(%rbp), %r10\n"
"	loop	1f\n"
"	jmp	2f\n"
"1:	call	asm_again\n"
"2:	leave\n"
"	ret\n"
"	.size	asm_again, . - asm_again\n"
/* Likewise, and saved, but too far away for the alignment of this stack. */
"	.type	asm_far, @function\n"
"asm_far:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	sub	$1024, %rsp\n"
"	mov	%r10, -8(%rbp)\n"
"	push	%rcx\n"
"	lea	16(%rbp), %r10\n"
"	loop	1f\n"
"	jmp	2f\n"
"1:	call	asm_far\n"
"2:	leave\n"
"	ret\n"
"	.size	asm_far, . - asm_far\n"
"	.type	asm_old_drap, @function\n"
"asm_old_drap:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	mov	$7, %ecx\n"
"	call	asm_again\n"
"	mov	$4, %ecx\n"
"	call	asm_far\n"
"	pop	%rbp\n"
"	ret\n"
"	.size	asm_old_drap, . - asm_old_drap\n"
"	.popsection\n"
);

const struct oracle_func oracle_table_asm[] = {
	{ "leave", asm_leave, 0 }, { "pop", asm_pop, 0 }, { "ret n", asm_ret_n, 0 },
	{ "tail", asm_tail, 0 }, { "tail pointer", asm_tail_pointer, 0 },
	{ "endbr", asm_endbr, 0 }, { "old DRAP", asm_old_drap, 0 },
	{}
};
