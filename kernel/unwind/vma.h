/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Mappings of the task that is walked, see vma.c.
 */
#ifndef _KERNEL_UNWIND_VMA_H
#define _KERNEL_UNWIND_VMA_H

#include <linux/compiler.h>
#include <linux/mm_types.h>
#include <linux/sched.h>
#include <linux/uaccess.h>
#include <linux/unwind_user_arch.h>

/**
 * struct unwind_vma - properties of a mapping
 * @range:	where it is; without a mapping, where the gap is, or of size 0
 * @mapped:	a mapping exists
 * @code:	it is executable
 * @rewritable:	it is writable, or shared with a mapping that may be
 */
struct unwind_vma {
	struct unwind_text_range	range;
	bool				mapped;
	bool				code;
	bool				rewritable;
};

/* Can @addr be a user address at all? Many words of a stack are small numbers. */
static __always_inline bool unwind_may_be_user(unsigned long addr)
{
	return addr >= PAGE_SIZE && addr < TASK_SIZE_MAX;
}

/* Sequence count of the mappings; odd if they may change at any time. */
static __always_inline unsigned int unwind_vma_seq(struct mm_struct *mm)
{
#ifdef CONFIG_PER_VMA_LOCK
	/*
	 * Pairs with mm_lock_seqcount_begin() and mm_lock_seqcount_end(). Starts no
	 * read section that would have to end.
	 */
	return smp_load_acquire(&mm->mm_lock_seq.sequence);
#else
	return 1;
#endif
}

bool unwind_vma_find(unsigned long addr, struct unwind_vma *vma);
unsigned int unwind_mapped_from(unsigned long addr, unsigned int max);

#endif /* _KERNEL_UNWIND_VMA_H */
