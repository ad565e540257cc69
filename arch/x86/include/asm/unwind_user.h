/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the user stack walker needs to know of x86.
 */
#ifndef _ASM_X86_UNWIND_USER_H
#define _ASM_X86_UNWIND_USER_H

#include <linux/unwind_user_types.h>
#include <asm/ptrace.h>

/* arch/x86/events/core.c, for the in-place walker of perf as well. */
unsigned long get_segment_base(unsigned int segment);

#ifdef CONFIG_UNWIND_USER

/* push %rbp; mov %rsp,%rbp: the caller's frame pointer, then the return address. */
#define ARCH_INIT_USER_FP_FRAME(ws)		\
	.cfa_off	=  2 * (s32)(ws),	\
	.ra_off		= -1 * (s32)(ws),	\
	.fp_off		= -2 * (s32)(ws),

/* No signal frame is smaller than its registers. */
#define ARCH_SIGNAL_FRAME_MIN(ws)	((ws) == 8 ? 256UL : 88UL)

void arch_unwind_user_set(struct unwind_user_state *state, const struct pt_regs *regs);
enum unwind_user_says arch_unwind_user_look(const struct unwind_user_state *state,
					    bool follow);
bool arch_unwind_user_restorer(const struct unwind_user_state *state, unsigned long addr);
bool arch_unwind_user_after_call(unsigned long addr);
bool arch_unwind_user_signal_frame(struct unwind_user_state *state);

bool arch_perf_user_regs_valid(struct pt_regs *regs);
#define arch_perf_user_regs_valid arch_perf_user_regs_valid

bool x86_user_regs_valid_at(unsigned long ip, unsigned long sp);

#endif /* CONFIG_UNWIND_USER */
#endif /* _ASM_X86_UNWIND_USER_H */
