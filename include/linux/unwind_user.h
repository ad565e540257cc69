/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The user stack walker.
 */
#ifndef _LINUX_UNWIND_USER_H
#define _LINUX_UNWIND_USER_H

#include <linux/unwind_user_types.h>

struct super_block;
struct vm_area_struct;

#ifdef CONFIG_UNWIND_USER

#include <linux/sched.h>
#include <linux/sched/signal.h>

int unwind_user(struct unwind_stacktrace *trace, unsigned int max_entries);
int unwind_user_see_vma(unsigned long addr, bool wait,
			void (*see)(struct vm_area_struct *vma, void *data), void *data);

/**
 * unwind_must_not_wait - is current not allowed to wait for user memory?
 *
 * In a dying task, nothing can end such a wait any more, or a fatal signal is to end it. A
 * task that took its SIGKILL, or called exit_group(), gets no other one, and can run task
 * work before it is PF_EXITING: io_uring does so. If signal->flags and group_exec_task are
 * seen late, that signal is still to come. In exec, tasks that want to trace this one wait
 * for cred_guard_mutex.
 *
 * Context: task context of current.
 * Return: true if current must not wait.
 */
static inline bool unwind_must_not_wait(void)
{
	const struct signal_struct *signal = current->signal;

	return (current->flags & PF_EXITING) || current->in_execve ||
	       fatal_signal_pending(current) || (READ_ONCE(signal->flags) & SIGNAL_GROUP_EXIT) ||
	       READ_ONCE(signal->group_exec_task);
}

#endif /* CONFIG_UNWIND_USER */

#ifdef CONFIG_UNWIND_USER_SFRAME
void unwind_user_unmount(const struct super_block *sb);
#else
static inline void unwind_user_unmount(const struct super_block *sb) { }
#endif

#endif /* _LINUX_UNWIND_USER_H */
