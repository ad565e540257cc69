/* SPDX-License-Identifier: GPL-2.0 */
/*
 * x86 support for the user stack walker.
 */
#ifndef _ASM_X86_UNWIND_USER_H
#define _ASM_X86_UNWIND_USER_H

#include <linux/bits.h>
#include <linux/cleanup.h>
#include <linux/irqflags.h>
#include <linux/types.h>
#include <linux/unwind_user_arch.h>
#include <asm/asm.h>
#include <asm/ptrace.h>
#include <asm/segment.h>
#include <asm/unistd.h>

/* arch/x86/events/core.c */
unsigned long get_segment_base(unsigned int segment);

/**
 * user_segment_base - get the base of a segment that userspace may use
 * @segment:	its selector, maybe set by a debugger or a signal frame
 * @base:	set
 *
 * Refuse other segments: their bases would leak where the kernel keeps its tables.
 *
 * Context: any.
 * Return: false if it is no segment of userspace.
 */
static inline bool user_segment_base(unsigned int segment, u32 *base)
{
	unsigned int index = segment >> 3;

	*base = 0;
	if (segment == __USER32_CS || segment == __USER_DS)
		return true;
	if (!(segment & SEGMENT_TI_MASK) &&
	    (index < GDT_ENTRY_TLS_MIN || index > GDT_ENTRY_TLS_MAX))
		return false;

	/* Interrupts off keep the LDT: it is freed only after an IPI. */
	guard(irqsave)();
	*base = get_segment_base(segment);
	return true;
}

#ifdef CONFIG_UNWIND_USER

/* push %rbp; mov %rsp,%rbp: the caller's frame pointer, then the return address. */
#define ARCH_INIT_USER_FP_FRAME(ws)		\
	.cfa		= ARCH_DWARF_FP,	\
	.cfa_off	=  2 * (s32)(ws),	\
	.ra		= UNWIND_BASE_CFA | UNWIND_BASE_LOAD,	\
	.ra_off		= -1 * (s32)(ws),	\
	.fp		= UNWIND_BASE_CFA | UNWIND_BASE_LOAD,	\
	.fp_off		= -2 * (s32)(ws),

/* Header fields of SFrame sections for this architecture. */
#define ARCH_SFRAME_ABI			3
#define ARCH_SFRAME_RA_OFF		(-8)

/*
 * DWARF numbers of the frame and the stack pointer, and how many there are. Rules of 32-bit code
 * use those of 64-bit code, too.
 */
#define ARCH_DWARF_FP			6
#define ARCH_DWARF_SP			7
#define ARCH_DWARF_REGS			16

/* No signal frame is smaller than its registers. */
#define ARCH_SIGNAL_FRAME_MIN(ws)	((ws) == 8 ? 256UL : 88UL)

/* Minimum size of the non-canonical range after TASK_SIZE_MAX. */
#define ARCH_USER_GAP			BIT(47)

#ifndef arch_unwind_user_load
/**
 * arch_unwind_user_load - read a word inside a window of user access
 * @addr:	its address, which was masked or checked, and is aligned
 * @ws:		its size, a constant: 8, or 4
 *
 * unsafe_get_user() would test for an error after each word.
 *
 * Context: as for unsafe_get_user().
 * Return: the word, zero-extended; -EFAULT if it cannot be read.
 */
static __always_inline unsigned long
arch_unwind_user_load(unsigned long addr, const unsigned int ws)
{
	unsigned long word;

	if (ws == sizeof(u64))
		asm volatile("1:	movq %[mem], %q[word]\n"
			     "2:\n"
			     _ASM_EXTABLE_TYPE_REG(1b, 2b, EX_TYPE_EFAULT_REG, %[word])
			     : [word] "=r" (word)
			     : [mem] "m" (*(u64 __force *)addr));
	else
		asm volatile("1:	movl %[mem], %k[word]\n"
			     "2:\n"
			     _ASM_EXTABLE_TYPE_REG(1b, 2b, EX_TYPE_EFAULT_REG, %[word])
			     : [word] "=r" (word)
			     : [mem] "m" (*(u32 __force *)addr));
	return word;
}
#endif

/* Not all kernels have names for these. */
#define ARCH_X32_SIGRETURN		(__X32_SYSCALL_BIT | 513)
#define ARCH_IA32_SIGRETURN		119
#define ARCH_IA32_RT_SIGRETURN		173

/*
 * Check the number only, which is that of another system call in the other ABI. The number
 * is -1 outside of system calls.
 */
static __always_inline bool arch_maybe_sigreturn(long nr)
{
	return nr >= 0 && (nr == __NR_rt_sigreturn || nr == ARCH_X32_SIGRETURN ||
			   nr == ARCH_IA32_SIGRETURN || nr == ARCH_IA32_RT_SIGRETURN);
}

/**
 * enum x86_says - what code at an exact ip says, in addition to enum unwind_user_says
 * @X86_SAYS_TOP:	the return address is on top of the stack
 * @X86_SAYS_JUMP:	likewise, if the next jump leaves the function: then the word below is
 *			the frame pointer, which was restored from there
 * @X86_SAYS_PUSHED:	it is above the caller's frame pointer, which is on top of the stack
 * @X86_SAYS_PUSHED_3:	likewise, with two words in between
 * @X86_SAYS_DRAP:	it is below the CFA, which is in a register
 */
enum x86_says {
	X86_SAYS_TOP = UNWIND_SAYS_ARCH,
	X86_SAYS_JUMP,
	X86_SAYS_PUSHED,
	X86_SAYS_PUSHED_3,
	X86_SAYS_DRAP,
};

#define ARCH_UNWIND_SAYS_MAX		X86_SAYS_DRAP

void arch_unwind_user_set_32(struct unwind_user_state *state, const struct pt_regs *regs);

#ifndef arch_unwind_user_set
/**
 * arch_unwind_user_set - set the position of a walk from registers
 * @state:	gets ip, sp, low, fp, arch, segments, system call and word size; the last
 *		is 0 in VM86 mode, which has no walkable stack, and with segments
 *		that userspace may not use
 * @regs:	user registers
 *
 * Context: any. No user memory is read.
 */
static __always_inline void
arch_unwind_user_set(struct unwind_user_state *state, const struct pt_regs *regs)
{
	state->ip = regs->ip;
	state->sp = regs->sp;
	state->low = regs->sp;
	state->fp = regs->bp;
	/* The DRAP (dynamic realign argument pointer) */
	state->arch = regs->r10;
	state->cs_base = 0;
	state->ss_base = 0;
	state->syscall = arch_maybe_sigreturn(regs->orig_ax) ? regs->orig_ax : -1;
	state->ws = sizeof(u64);
	if (unlikely(!user_64bit_mode((struct pt_regs *)regs)))
		arch_unwind_user_set_32(state, regs);
}
#endif

/* How far above the stack pointer the CFA may be in functions that align their stack. */
#define X86_REALIGN_MAX			4096UL

/**
 * arch_unwind_user_slot - where may the return address be before or after a function's body?
 * @state:	a walk whose ip is exact
 * @nr:		number of the place, from 0 on
 * @slot:	set to the place
 *
 * It is on top of the stack, or above one word, which is the frame pointer of the caller; or
 * below the CFA, which is in a register in functions that align their stack.
 *
 * Context: any. No user memory is read.
 * Return: false if there are not so many places.
 */
static __always_inline bool arch_unwind_user_slot(const struct unwind_user_state *state,
						  unsigned int nr, unsigned long *slot)
{
	if (nr < 2) {
		*slot = state->sp + nr * state->ws;
		return true;
	}
	*slot = state->arch - state->ws;
	return nr == 2 && state->arch - state->sp - 1 < X86_REALIGN_MAX;
}

/* Many frame pointers at a time; user.c can follow one. */
#define arch_unwind_user_fp_batch arch_unwind_user_fp_batch
unsigned int arch_unwind_user_fp_batch(struct unwind_user_state *state,
				       const struct unwind_text_range *text,
				       unsigned long *entries, unsigned int max);
unsigned int arch_unwind_user_look(const struct unwind_user_state *state, bool follow);
bool arch_unwind_user_fp_restored(const struct unwind_user_state *state);
bool arch_unwind_user_restorer(const struct unwind_user_state *state, unsigned long addr);
int arch_unwind_user_after_call(unsigned long addr);
bool arch_unwind_user_uses_drap(unsigned long ip);
unsigned int arch_unwind_user_saves_rbx(unsigned long func, unsigned long size);
bool arch_unwind_user_signal_frame(struct unwind_user_state *state);

/* With CONFIG_UNWIND_USER_SFRAME. */
bool arch_unwind_user_reg(const struct unwind_user_state *state, unsigned int reg,
			  unsigned long *value);
bool arch_unwind_user_saved_reg(const struct unwind_user_state *state,
				const struct unwind_text_range *text, unsigned int reg,
				unsigned long *value);
unsigned long arch_unwind_user_cfa(const struct unwind_user_state *state, unsigned long ip,
				   unsigned long sp);
bool arch_unwind_user_vdso(unsigned long addr, unsigned long *start, unsigned long *end);
bool arch_unwind_user_vdso_image(const u8 **bytes, u64 *size);

#endif /* CONFIG_UNWIND_USER */
#endif /* _ASM_X86_UNWIND_USER_H */
