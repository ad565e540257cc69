// SPDX-License-Identifier: GPL-2.0
/*
 * Find where the addresses of a trace are in files: a reader needs this to find symbols
 * after the process is gone.
 *
 * Contexts: task context of the task that was walked, called by tracers.c outside of any
 * SRCU section: the holder of the address space's lock may be waiting for user memory. A
 * task that dies or is in exec takes the lock only if it is free.
 *
 * Invariant: the lock is taken once for all addresses of a trace, so they belong to one
 * state of the mappings. It is held for UNWIND_EVENT_ENTRIES look-ups at most. Each file is
 * held once, so that its name is still available after the lock is released.
 */
#include <linux/cleanup.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/unwind_user.h>

#include "gfp.h"
#include "test_tracer.h"
#include "unwind.h"

static struct vm_area_struct *unwind_find_vma(struct vm_area_struct *vma,
					      unsigned long addr)
{
	/* Callers are often in the same mapping. */
	if (vma && addr >= vma->vm_start && addr < vma->vm_end)
		return vma;
	return vma_lookup(current->mm, addr);
}

static struct unwind_file unwind_file_of(struct vm_area_struct *vma, unsigned long addr)
{
	const struct inode *inode;

	if (!vma || !vma->vm_file)
		return (struct unwind_file) { .offset = addr };

	inode = file_user_inode(vma->vm_file);
	return (struct unwind_file) {
		.offset	= ((u64)vma->vm_pgoff << PAGE_SHIFT) + (addr - vma->vm_start),
		.inode	= inode->i_ino,
		.dev	= inode->i_sb->s_dev,
	};
}

/* Get the file of a mapping, unless an entry before @nr holds it already. */
static struct file *unwind_hold_file(const struct unwind_file *files, unsigned int nr,
				     const struct vm_area_struct *vma)
{
	if (!vma || !vma->vm_file)
		return NULL;

	for (unsigned int i = 0; i < nr; i++) {
		if (files[i].file && files[i].inode == files[nr].inode &&
		    files[i].dev == files[nr].dev)
			return NULL;
	}
	return get_file(vma->vm_file);
}

static bool unwind_lock_mm(struct mm_struct *mm)
{
	if (unwind_must_not_wait())
		return mmap_read_trylock(mm);

	return !mmap_read_lock_killable(mm);
}

/**
 * unwind_get_files - find the files that the addresses of a trace are in
 * @trace:	of current; gets @files, to be freed by unwind_put_files(), or NULL when
 *		memory is short or the lock cannot be taken
 *
 * Context: task context of current, may sleep.
 */
void unwind_get_files(struct unwind_stacktrace *trace)
{
	unsigned int nr = min(trace->nr, UNWIND_EVENT_ENTRIES);
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma = NULL;
	struct unwind_file *files;

	if (trace->files || !nr || !mm)
		return;

	files = unwind_test_fail(UNWIND_TEST_FAIL_CACHE) ? NULL :
		kmalloc_array(nr, sizeof(*files), unwind_gfp());
	if (!files) {
		unwind_count(UNWIND_STAT_NOMEM);
		return;
	}
	if (!unwind_lock_mm(mm)) {
		kfree(files);
		return;
	}

	for (unsigned int i = 0; i < nr; i++) {
		const struct vm_area_struct *last = vma;

		vma = unwind_find_vma(vma, trace->entries[i]);
		files[i] = unwind_file_of(vma, trace->entries[i]);
		if (vma != last)
			files[i].file = unwind_hold_file(files, i, vma);
	}
	mmap_read_unlock(mm);
	trace->files = files;
	trace->nr_files = nr;
}

/**
 * unwind_put_files - release what unwind_get_files() got
 * @trace:	the trace
 */
void unwind_put_files(struct unwind_stacktrace *trace)
{
	for (unsigned int i = 0; i < trace->nr_files; i++) {
		if (trace->files[i].file)
			fput(trace->files[i].file);
	}
	kfree(trace->files);
	trace->files = NULL;
	trace->nr_files = 0;
}
