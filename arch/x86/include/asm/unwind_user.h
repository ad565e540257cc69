/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the user stack walker needs to know of x86.
 */
#ifndef _ASM_X86_UNWIND_USER_H
#define _ASM_X86_UNWIND_USER_H

#include <asm/ptrace.h>

#ifdef CONFIG_UPROBES
/* arch/x86/events/core.c, for the in-place walker of perf as well. */
bool is_uprobe_at_func_entry(struct pt_regs *regs);
#endif

#ifdef CONFIG_UNWIND_USER

/* push %rbp; mov %rsp,%rbp: the caller's frame pointer, then the return address. */
#define ARCH_INIT_USER_FP_FRAME(ws)		\
	.cfa_off	=  2 * (s32)(ws),	\
	.ra_off		= -1 * (s32)(ws),	\
	.fp_off		= -2 * (s32)(ws),	\
	.use_fp		= true,

/* Nothing was pushed yet: the return address is on top of the stack. */
#define ARCH_INIT_USER_FP_ENTRY_FRAME(ws)	\
	.cfa_off	=  1 * (s32)(ws),	\
	.ra_off		= -1 * (s32)(ws),	\
	.fp_off		=  0,			\
	.use_fp		= false,

/**
 * unwind_user_word_size - word size of the code that @regs were saved from
 * @regs:	user registers
 *
 * Return: the size in bytes, or 0 for VM86 mode, which has no walkable stack.
 */
static inline unsigned int unwind_user_word_size(const struct pt_regs *regs)
{
	if (regs->flags & X86_VM_MASK)
		return 0;
	return user_64bit_mode((struct pt_regs *)regs) ? 8 : 4;
}

#ifdef CONFIG_UPROBES
#define unwind_user_at_function_start is_uprobe_at_func_entry
#endif

bool arch_perf_user_regs_valid(struct pt_regs *regs);
#define arch_perf_user_regs_valid arch_perf_user_regs_valid

bool x86_user_regs_valid_at(unsigned long ip, unsigned long sp);

#endif /* CONFIG_UNWIND_USER */
#endif /* _ASM_X86_UNWIND_USER_H */
