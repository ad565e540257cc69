/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Deferred user stack unwinding: interface for tracers, and hooks for fork, exec,
 * exit and the return to user space.
 */
#ifndef _LINUX_UNWIND_DEFERRED_H
#define _LINUX_UNWIND_DEFERRED_H

#include <linux/errno.h>
#include <linux/unwind_deferred_types.h>
#include <linux/unwind_user_types.h>

struct task_struct;

#ifdef CONFIG_UNWIND_USER

#include <linux/sched.h>
#include <linux/smp.h>

/* For tracers. */
int unwind_deferred_init(struct unwind_work *work, unwind_callback_t func);
void unwind_deferred_cancel(struct unwind_work *work);
int unwind_deferred_request(struct unwind_work *work, u64 *cookie);
int unwind_deferred_request_regs(struct unwind_work *work, bool complete, u64 *cookie);
int unwind_deferred_request_stack(struct unwind_work *work, bool complete,
				  unsigned int size, u64 *cookie);
int unwind_deferred_again(struct unwind_work *work);
void unwind_deferred_stack(struct unwind_user_stack *stack);
void *unwind_deferred_copy_stack(struct unwind_user_stack *stack);
int unwind_user_faultable(struct unwind_stacktrace *trace);
bool unwind_user_walked(struct unwind_stacktrace *trace);

/* For code that ends, replaces or moves the user context of a pending request. */
void unwind_task_init(struct task_struct *task);
void unwind_deferred_task_exit(void);
void unwind_deferred_flush(void);
void unwind_regs_change_begin(void);
void unwind_deferred_exec(void);
void unwind_deferred_regs_moved(void);
void unwind_deferred_reset(void);

/**
 * unwind_deferred_pending - was this kernel entry asked about?
 *
 * Return: false when unwind_deferred_flush() has nothing to do.
 */
static inline bool unwind_deferred_pending(void)
{
	return atomic_long_read(&current->unwind_info.unwind_mask);
}

/**
 * unwind_regs_change_end - user registers are complete again
 *
 * Context: task context of current.
 */
static inline void unwind_regs_change_end(void)
{
	barrier();
	/* Pairs with unwind_regs_changing(). */
	WRITE_ONCE(current->unwind_info.regs_changing, false);
}

/**
 * unwind_regs_changing - is task_pt_regs(current) being replaced?
 *
 * Context: any.
 * Return: true if some registers are those that user mode left, and some those it will get.
 */
static inline bool unwind_regs_changing(void)
{
	/* Pairs with unwind_regs_change_begin() and unwind_regs_change_end(). */
	return READ_ONCE(current->unwind_info.regs_changing);
}

/**
 * unwind_regs_change_try - begin to replace user registers, unless there is a request
 *
 * For places where unwind_regs_change_begin() must not wait: if this returns true, that
 * call is not needed, and unwind_regs_change_end() comes next.
 *
 * Context: task context of current.
 * Return: false if the entry was asked about; the change has not begun then.
 */
static inline bool unwind_regs_change_try(void)
{
	/* Pairs with unwind_regs_changing() in interrupts and NMIs on top of this. */
	WRITE_ONCE(current->unwind_info.regs_changing, true);
	barrier();
	/* A request before the mark is for the old registers. */
	if (likely(!unwind_deferred_pending()))
		return true;
	unwind_regs_change_end();
	return false;
}

/**
 * unwind_callchain_cpu - which CPU's perf events asked for a callchain?
 *
 * Context: any. Of the task alone, like &struct unwind_task_info.
 * Return: the note of current, for perf to write and to take; NULL where every request fails.
 */
static inline unsigned int *unwind_callchain_cpu(void)
{
	return &current->unwind_info.callchain_cpu;
}

/**
 * unwind_user_state_cpu - which CPU's perf events asked for user registers and stack?
 *
 * Context: as unwind_callchain_cpu().
 * Return: likewise.
 */
static inline unsigned int *unwind_user_state_cpu(void)
{
	return &current->unwind_info.user_state_cpu;
}

/**
 * unwind_reset_info - forget the kernel entry that ends now
 *
 * Context: last instrumentable step to user mode, interrupts off. A task without
 * requests pays only this load and test.
 */
static __always_inline void unwind_reset_info(void)
{
	if (unlikely(atomic_long_read(&current->unwind_info.unwind_mask)))
		unwind_deferred_reset();
}

#else /* !CONFIG_UNWIND_USER */

static inline int unwind_deferred_init(struct unwind_work *work, unwind_callback_t func)
{
	return -ENOSYS;
}

static inline void unwind_deferred_cancel(struct unwind_work *work) { }

static inline int unwind_deferred_request(struct unwind_work *work, u64 *cookie)
{
	*cookie = 0;
	return -ENOSYS;
}

static inline int unwind_deferred_request_regs(struct unwind_work *work,
					       bool complete, u64 *cookie)
{
	*cookie = 0;
	return -ENOSYS;
}

static inline int unwind_deferred_request_stack(struct unwind_work *work, bool complete,
						unsigned int size, u64 *cookie)
{
	*cookie = 0;
	return -ENOSYS;
}

static inline int unwind_deferred_again(struct unwind_work *work) { return -ENOSYS; }
static inline unsigned int *unwind_callchain_cpu(void) { return NULL; }
static inline unsigned int *unwind_user_state_cpu(void) { return NULL; }

static inline void unwind_deferred_stack(struct unwind_user_stack *stack)
{
	*stack = (struct unwind_user_stack) {};
}

static inline void *unwind_deferred_copy_stack(struct unwind_user_stack *stack)
{
	return NULL;
}

static inline int unwind_user_faultable(struct unwind_stacktrace *trace)
{
	*trace = (struct unwind_stacktrace) {};
	return -ENOSYS;
}

static inline bool unwind_user_walked(struct unwind_stacktrace *trace)
{
	return false;
}

static inline void unwind_task_init(struct task_struct *task) { }
static inline void unwind_deferred_task_exit(void) { }
static inline void unwind_deferred_flush(void) { }
static inline void unwind_deferred_exec(void) { }
static inline bool unwind_deferred_pending(void) { return false; }
static inline void unwind_regs_change_begin(void) { }
static inline bool unwind_regs_change_try(void) { return true; }
static inline void unwind_regs_change_end(void) { }
static inline bool unwind_regs_changing(void) { return false; }
static inline void unwind_deferred_regs_moved(void) { }
static __always_inline void unwind_reset_info(void) { }

#endif /* CONFIG_UNWIND_USER */
#endif /* _LINUX_UNWIND_DEFERRED_H */
