/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The 32-bit program that compat_task.c starts, which needs no 32-bit C library. It
 * reports where the vDSO is, reads which function to call, calls that function below
 * two others, and reports where a signal handler would have returned to.
 *
 * Labels that end in _called are return addresses, those in _at other addresses that
 * traces show.
 */
#include <asm/unistd_32.h>

#define AT_SYSINFO	32
#define AT_SYSINFO_EHDR	33
#define SIGUSR1		10
#define SA_SIGINFO	4
#define PAGE		4096

	.text
	.globl	_start
_start:
	lea	4(%esp), %esi
	xor	%ebp, %ebp
	call	find_vdso
	call	tell
	mov	$__NR_read, %eax
	mov	$0, %ebx
	mov	$order, %ecx
	mov	$order_end - order, %edx
	int	$0x80
	/* The other end is gone. */
	cmp	$order_end - order, %eax
	jne	1f
	call	top
start_called:
	call	tell
1:	mov	$__NR_exit, %eax
	mov	$0, %ebx
	int	$0x80

/* esi: argv, followed by the environment and the auxiliary vector */
find_vdso:
	mov	$2, %ecx
1:	lodsl
	test	%eax, %eax
	jnz	1b
	dec	%ecx
	jnz	1b
2:	lodsl
	mov	%eax, %edx
	lodsl
	cmp	$AT_SYSINFO, %edx
	jne	3f
	mov	%eax, vsyscall
3:	cmp	$AT_SYSINFO_EHDR, %edx
	jne	4f
	mov	%eax, vdso
4:	test	%edx, %edx
	jnz	2b

	/* pop %ebp; pop %edx; pop %ecx; ret: where all system calls return to */
	mov	vsyscall, %eax
	test	%eax, %eax
	jz	6f
5:	inc	%eax
	cmpl	$0xc3595a5d, (%eax)
	jne	5b
	mov	%eax, landing_pad
6:	ret

tell:
	mov	$__NR_write, %eax
	mov	$1, %ebx
	mov	$told, %ecx
	mov	$told_end - told, %edx
	int	$0x80
	ret

top:
	push	%ebp
	mov	%esp, %ebp
	call	middle
top_called:
	pop	%ebp
	ret

middle:
	push	%ebp
	mov	%esp, %ebp
	call	*function
middle_called:
	pop	%ebp
	ret

/* The functions that may be called. */

int80:
	push	%ebp
	mov	%esp, %ebp
	mov	$__NR_getppid, %eax
	int	$0x80
int80_at:
	pop	%ebp
	ret

/*
 * Addresses after calls, like return addresses, but never called: a walker reports them
 * if it takes a register that __kernel_vsyscall saved for a return address.
 */
decoys:
	call	int80
edx_decoy:
	call	int80
ecx_decoy:
	ret

in_vdso:
	push	%ebp
	mov	%esp, %ebp
	mov	$edx_decoy, %edx
	mov	$ecx_decoy, %ecx
	mov	$__NR_getppid, %eax
	call	*vsyscall
in_vdso_called:
	pop	%ebp
	ret

/* Like the kernel's restart of a system call: by the int $0x80 before the landing pad. */
restarted:
	push	%ebp
	mov	%esp, %ebp
	mov	$edx_decoy, %edx
	mov	$ecx_decoy, %ecx
	mov	$__NR_getppid, %eax
	call	1f
restarted_called:
	pop	%ebp
	ret
1:	push	%ecx
	push	%edx
	push	%ebp
	mov	landing_pad, %esi
	lea	-2(%esi), %esi
	jmp	*%esi

fault:
	push	%ebp
	mov	%esp, %ebp
	mov	$fresh_page, %eax
fault_at:
	mov	(%eax), %eax
	pop	%ebp
	ret

/* Install handler() for the next signal; ebx, ecx: arguments for kill() */
prepare_signal:
	mov	$__NR_sigaltstack, %eax
	mov	$other_stack, %ebx
	mov	$0, %ecx
	int	$0x80
	mov	$__NR_rt_sigaction, %eax
	mov	$SIGUSR1, %ebx
	mov	$action, %ecx
	mov	$0, %edx
	mov	$8, %esi
	int	$0x80
	mov	$__NR_getpid, %eax
	int	$0x80
	mov	%eax, %ebx
	mov	$SIGUSR1, %ecx
	ret

signal:
	push	%ebp
	mov	%esp, %ebp
	call	prepare_signal
	mov	$__NR_kill, %eax
	int	$0x80
signal_at:
	pop	%ebp
	ret

/* The signal interrupts the vDSO. */
signal_in_vdso:
	push	%ebp
	mov	%esp, %ebp
	call	prepare_signal
	mov	$edx_decoy, %edx
	mov	$__NR_kill, %eax
	call	*vsyscall
signal_in_vdso_called:
	pop	%ebp
	ret

/* Waits for input; the signal makes the read restart. */
restarted_read:
	push	%ebp
	mov	%esp, %ebp
	call	prepare_signal
	mov	$__NR_read, %eax
	mov	$0, %ebx
	mov	$byte, %ecx
	mov	$edx_decoy, %edx
	call	*vsyscall
restarted_read_called:
	pop	%ebp
	ret

/*
 * Loop forever, with one number in all registers that the kernel entry keeps and that
 * the vDSO does not use for itself; another number in each round.
 */
	.macro	entries
	push	%ebp
	mov	%esp, %ebp
	mov	$0x5a5a0000, %ebx
1:	inc	%bx
	mov	%ebx, %esi
	mov	%ebx, %edi
	mov	$__NR_getppid, %eax
	.endm

vdso_entries:
	entries
	call	*vsyscall
	jmp	1b

int80_entries:
	entries
	int	$0x80
int80_entries_at:
	jmp	1b

/* The same with signals; the handlers below use another number. */
	.macro	signal_entries handler, flags
	push	%ebp
	movl	$\handler, action
	movl	$\flags, action + 4
	call	prepare_signal
	mov	$0x5a5a0000, %esi
1:	inc	%si
	mov	%esi, %edi
	mov	%esi, %ebp
	mov	$__NR_kill, %eax
	int	$0x80
	.endm

old_signals:
	signal_entries old_handler, 0
old_signals_at:
	jmp	1b

rt_signals:
	signal_entries rt_handler, SA_SIGINFO
rt_signals_at:
	jmp	1b

/* Does the work of a handler and of the vDSO that it returns to. */
	.macro	other_number
	mov	$0x5a5a7777, %esi
	mov	%esi, %edi
	mov	%esi, %ebp
	pop	%eax
	.endm

old_handler:
	other_number
	pop	%eax
	mov	$__NR_sigreturn, %eax
	int	$0x80
old_sigreturn_at:
	ud2

rt_handler:
	other_number
	mov	$__NR_rt_sigreturn, %eax
	int	$0x80
rt_sigreturn_at:
	ud2

handler:
	push	%ebp
	mov	%esp, %ebp
	mov	4(%ebp), %eax
	mov	%eax, restorer
	mov	$__NR_getppid, %eax
	int	$0x80
handler_at:
	pop	%ebp
	ret

	.data
	.balign	4
/* struct order */
order:
function:
	.long	0
action:
	.long	handler
	.long	0	/* flags */
	.long	0	/* restorer */
	.quad	0	/* mask */
order_end:

/* struct told */
told:
vsyscall:
	.long	0
vdso:
	.long	0
landing_pad:
	.long	0
restorer:
	.long	0
told_end:

byte:
	.long	0

other_stack:
	.long	signal_stack, 0, 4 * PAGE

	.bss
	.balign	PAGE
fresh_page:
	.skip	PAGE
signal_stack:
	.skip	4 * PAGE

	/* Without this note the stack would be executable. */
	.section .note.GNU-stack, "", @progbits
