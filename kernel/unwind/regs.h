/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The user registers of a kernel entry, as noted by requests and walks.
 */
#ifndef _KERNEL_UNWIND_REGS_H
#define _KERNEL_UNWIND_REGS_H

#include <linux/compiler.h>
#include <linux/preempt.h>
#include <linux/ptrace.h>
#include <linux/sched/task_stack.h>
#include <linux/unwind_deferred.h>

/**
 * unwind_note_regs - note where user mode was left, once the registers are complete
 * @info:	current's
 * @complete:	as for unwind_deferred_request_regs()
 *
 * If two requests of one entry both get here, they store the same values. Inline, because
 * the first request of each entry comes here.
 */
static __always_inline void unwind_note_regs(struct unwind_task_info *info, bool complete)
{
	struct pt_regs *user_regs = task_pt_regs(current);

	if (READ_ONCE(info->regs_seen))
		return;
	if ((in_nmi() && !complete) || unwind_regs_changing())
		return;
	/* 32-bit fast system calls fill in the ip after the entry code. */
	if (!instruction_pointer(user_regs))
		return;

	WRITE_ONCE(info->ip, instruction_pointer(user_regs));
	WRITE_ONCE(info->sp, user_stack_pointer(user_regs));
	barrier();
	WRITE_ONCE(info->regs_seen, true);
}

#endif /* _KERNEL_UNWIND_REGS_H */
