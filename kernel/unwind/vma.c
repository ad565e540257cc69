// SPDX-License-Identifier: GPL-2.0
/*
 * Mappings of the task that is walked.
 *
 * Contexts: task context of that task, page faults allowed or disabled; with page faults
 * disabled nothing here sleeps, unless the caller asks for it.
 *
 * Invariant: no function returns with a lock held. So what one says of a mapping is a hint: the
 * mapping may have changed since.
 */
#include <linux/cleanup.h>
#include <linux/errno.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/uaccess.h>
#include <linux/unwind_user.h>

#include "vma.h"

static void unwind_vma_copy(struct unwind_vma *copy, const struct vm_area_struct *vma)
{
	unsigned long flags;

	*copy = (struct unwind_vma) {};
	if (!vma)
		return;

	/* May be changing: unwind_vma_fast() notices. */
	copy->range.start = max(data_race(vma->vm_start), PAGE_SIZE);
	/* So may this ... */
	copy->range.size = data_race(vma->vm_end) - copy->range.start;
	copy->mapped = true;
	/* ... and these. */
	flags = data_race(vma->vm_flags);
	copy->code = flags & VM_EXEC;
	copy->rewritable = flags & (VM_WRITE | VM_MAYSHARE);
}

#ifdef CONFIG_PER_VMA_LOCK
/* Returns false while the mappings change: ask again under the lock. */
static bool unwind_vma_fast(struct mm_struct *mm, unsigned long addr,
			    struct unwind_vma *copy)
{
	MA_STATE(mas, &mm->mm_mt, addr, addr);
	unsigned int seq = unwind_vma_seq(mm);

	if (seq & 1)
		return false;

	/* Pairs with call_rcu() in vm_area_free(). */
	scoped_guard(rcu)
		unwind_vma_copy(copy, mas_walk(&mas));
	if (!copy->mapped) {
		copy->range.start = mas.index;
		copy->range.size = mas.last - mas.index + 1;
	}
	return !read_seqcount_retry(&mm->mm_lock_seq, seq);
}
#else
static bool unwind_vma_fast(struct mm_struct *mm, unsigned long addr,
			    struct unwind_vma *copy)
{
	return false;
}
#endif

static bool unwind_vma_slow(struct mm_struct *mm, unsigned long addr,
			    struct unwind_vma *copy)
{
	if (pagefault_disabled() ? !mmap_read_trylock(mm) : mmap_read_lock_killable(mm))
		return false;

	unwind_vma_copy(copy, vma_lookup(mm, addr));
	mmap_read_unlock(mm);
	return true;
}

/**
 * unwind_vma_find - find the mapping of an address of current
 * @addr:	the address
 * @vma:	set, also if there is no mapping
 *
 * Context: task context of current; sleeps only if page faults are allowed.
 * Return: false if the lock cannot be taken; @vma is undefined then.
 */
bool unwind_vma_find(unsigned long addr, struct unwind_vma *vma)
{
	struct mm_struct *mm = current->mm;

	return unwind_vma_fast(mm, addr, vma) || unwind_vma_slow(mm, addr, vma);
}

/**
 * unwind_user_see_vma - look at the mapping of an address of current
 * @addr:	the address
 * @wait:	wait for the lock of the address space where that of the mapping does not do
 * @see:	called with the mapping locked, if there is one; takes what it needs, such as a
 *		reference to the file, and reads no file: code that reads a file takes these
 *		locks inside of the file system's
 * @data:	for @see
 *
 * Context: task context of current; may sleep if @wait is true.
 * Return: 0, also without a mapping; -EAGAIN if the lock cannot be taken.
 */
int unwind_user_see_vma(unsigned long addr, bool wait,
			void (*see)(struct vm_area_struct *vma, void *data), void *data)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma = lock_vma_under_rcu(mm, addr);

	if (vma) {
		see(vma, data);
		vma_end_read(vma);
		return 0;
	}

	if (wait ? mmap_read_lock_killable(mm) : !mmap_read_trylock(mm))
		return -EAGAIN;
	vma = vma_lookup(mm, addr);
	if (vma)
		see(vma, data);
	mmap_read_unlock(mm);
	return 0;
}

/**
 * unwind_mapped_from - how far a mapping reaches from an address on
 * @addr:	the address
 * @max:	limit of the result
 *
 * Return: bytes from @addr on, at most @max; 0 when nothing is mapped there, @max
 * when the lock cannot be taken.
 */
unsigned int unwind_mapped_from(unsigned long addr, unsigned int max)
{
	struct unwind_vma vma;

	if (!unwind_may_be_user(addr))
		return 0;
	if (!unwind_vma_find(addr, &vma))
		return min(max, TASK_SIZE_MAX - addr);
	if (!vma.mapped)
		return 0;
	return min(max, vma.range.start + vma.range.size - addr);
}
