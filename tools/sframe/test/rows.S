/* SPDX-License-Identifier: GPL-2.0 */
/*
 * All kinds of rules that .eh_frame has, for test.sh, which compares the section of version 3
 * with rows.txt. This code never runs.
 */
	.text

	.macro function name
	.balign 256
	.globl \name
	.type \name, @function
\name:
	.cfi_startproc
	.endm

	.macro end_function name
	.cfi_endproc
	.size \name, . - \name
	.endm

/* Frame pointer: plain rows. */
function plain
	push %rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	mov %rsp, %rbp
	.cfi_def_cfa_register %rbp
	push %rbx
	.cfi_offset %rbx, -24
	leave
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	ret
end_function plain

/* Nothing but rbx changes: one row. */
function one_row
	nop
	.cfi_offset %rbx, -24
	nop
	.cfi_offset %r12, -32
	ret
end_function one_row

/* States within states. */
function nested
	nop
	.cfi_remember_state
	.cfi_def_cfa_offset 16
	nop
	.cfi_remember_state
	.cfi_def_cfa_offset 24
	nop
	.cfi_restore_state
	nop
	.cfi_restore_state
	ret
end_function nested

/* Stack realigned: CFA in r10, then loaded, and so is the frame pointer. */
function drap
	lea 8(%rsp), %r10
	.cfi_def_cfa %r10, 0
	push %rbp
	.cfi_escape 0x10, 0x6, 0x2, 0x76, 0
	mov %rsp, %rbp
	.cfi_escape 0xf, 0x3, 0x76, 0x78, 0x6
	nop
	.cfi_def_cfa %rsp, 8
	ret
end_function drap

/* Nobody called it. */
function outermost
	.cfi_undefined %rip
	nop
	hlt
end_function outermost

/* The thread that starts in the middle has no caller. */
function thread_start
	nop
	nop
	.cfi_undefined %rip
	nop
	hlt
end_function thread_start

/* The return address is in a register, and then back. */
function ra_in_register
	pop %rdi
	.cfi_adjust_cfa_offset -8
	.cfi_register %rip, %rdi
	nop
	push %rdi
	.cfi_adjust_cfa_offset 8
	.cfi_restore %rip
	ret
end_function ra_in_register

/* The return address is elsewhere in memory, once far from the CFA. */
function ra_elsewhere
	nop
	.cfi_offset %rip, -24
	nop
	.cfi_escape 0x10, 0x10, 0x2, 0x73, 16
	ret
end_function ra_elsewhere

/* The frame pointer is in rbx, or an expression computes its place. */
function fp_elsewhere
	mov %rbp, %rbx
	.cfi_register %rbp, %rbx
	nop
	.cfi_escape 0x16, 0x6, 0x2, 0x73, 8
	ret
end_function fp_elsewhere

/* Frames larger than one byte can say, and larger than two can. */
function large
	nop
	.cfi_def_cfa_offset 0x78
	nop
	.cfi_def_cfa_offset 0x80
	nop
	.cfi_def_cfa_offset 0x120
	nop
	.cfi_def_cfa_offset 0x8000
	nop
	.cfi_def_cfa_offset 0x12345
	.cfi_offset %rbp, -0x8000
	ret
end_function large

/* Rows that SFrame cannot express are left out; the others are there. */
function split
	nop
	.cfi_def_cfa_offset 16
	nop
	.cfi_escape 0xf, 0x5, 0x77, 24, 0x6, 0x23, 8
	nop
	.cfi_def_cfa %rsp, 16
	nop
	.cfi_val_offset %rbp, -16
	nop
	.cfi_same_value %rbp
	nop
	.cfi_undefined %rbp
	nop
	.cfi_same_value %rbp
	nop
	.cfi_escape 0x16, 0x7, 0x2, 0x77, 32
	nop
	.cfi_val_offset %rsp, 0
	ret
end_function split

/* A signal frame whose rules SFrame can express. */
function signal_said
	.cfi_signal_frame
	.cfi_def_cfa %rsp, 160
	.cfi_offset %rbp, -40
	nop
	ret
end_function signal_said

/* A signal frame whose rules it cannot express. */
function signal_silent
	.cfi_signal_frame
	.cfi_escape 0xf, 0x4, 0x77, 0xa0, 0x1, 0x6
	.cfi_escape 0x10, 0x7, 0x3, 0x77, 0xa0, 0x1
	nop
	ret
end_function signal_silent

/* Rows whose starts need two bytes, and four. */
function long2
	nop
	.cfi_def_cfa_offset 16
	.skip 300, 0x90
	.cfi_def_cfa_offset 24
	ret
end_function long2

function long4
	nop
	.cfi_def_cfa_offset 16
	.skip 0x10000, 0x90
	.cfi_def_cfa_offset 24
	ret
end_function long4

	.section .note.GNU-stack, "", @progbits
