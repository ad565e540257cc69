/* SPDX-License-Identifier: GPL-2.0 */
/*
 * When the user registers that current saved at kernel entry are complete.
 */
#ifndef _ASM_X86_PERF_USER_REGS_H
#define _ASM_X86_PERF_USER_REGS_H

#include <linux/types.h>

struct pt_regs;

bool arch_perf_user_regs_valid(struct pt_regs *regs);
bool x86_user_regs_valid_at(unsigned long ip, unsigned long sp);

#endif /* _ASM_X86_PERF_USER_REGS_H */
