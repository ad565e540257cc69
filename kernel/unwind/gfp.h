/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How kernel/unwind allocates memory on behalf of a task. Not in unwind.h, which is also
 * compiled in user space.
 */
#ifndef _KERNEL_UNWIND_GFP_H
#define _KERNEL_UNWIND_GFP_H

#include <linux/gfp.h>
#include <linux/sched.h>

/**
 * unwind_gfp - flags for memory that is charged to current
 *
 * The target is charged, but the OOM killer is never invoked on it.
 *
 * Context: task context.
 * Return: the flags; in exit, of an allocation that does not wait.
 */
static inline gfp_t unwind_gfp(void)
{
	return (current->flags & PF_EXITING ? GFP_NOWAIT : GFP_KERNEL) |
	       __GFP_ACCOUNT | __GFP_NORETRY | __GFP_NOWARN;
}

#endif /* _KERNEL_UNWIND_GFP_H */
