// SPDX-License-Identifier: GPL-2.0
/*
 * Build-ids of user addresses, for sleepable programs.
 *
 * Contexts: task context of current, may sleep; as long as the file system wants, or
 * whoever holds the lock of the address space.
 *
 * Invariant: files are read with a reference and no lock. Who reads a file takes the
 * lock of the address space inside of the file system's locks, to copy to user memory,
 * so under it no file can be read.
 */
#include <linux/bpf.h>
#include <linux/bpf_user_unwind.h>
#include <linux/buildid.h>
#include <linux/cleanup.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/unwind_deferred.h>

/**
 * struct bpf_user_mapping - what is known of the mapping that was looked at last
 * @start:	its first address
 * @end:	the address behind it
 * @offset:	of @start in the file, in bytes
 * @valid:	whether @build_id is set
 * @build_id:	of the file
 */
struct bpf_user_mapping {
	unsigned long	start;
	unsigned long	end;
	u64		offset;
	bool		valid;
	unsigned char	build_id[BUILD_ID_SIZE_MAX];
};

/* Find the mapping of @ip and get its file. */
static struct file *bpf_user_mapping_file(struct bpf_user_mapping *mapping, unsigned long ip)
{
	struct mm_struct *mm = current->mm;
	struct file *file = NULL;
	struct vm_area_struct *vma;

	*mapping = (struct bpf_user_mapping) {};
	if (mmap_read_lock_killable(mm))
		return NULL;

	vma = vma_lookup(mm, ip);
	if (vma) {
		mapping->start = vma->vm_start;
		mapping->end = vma->vm_end;
		mapping->offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
		/* A device has no build-id, and might make who reads it wait for ever. */
		if (vma->vm_file && S_ISREG(file_inode(vma->vm_file)->i_mode))
			file = get_file(vma->vm_file);
	}
	mmap_read_unlock(mm);
	return file;
}

/* Make @mapping that of @ip. Returns whether there is a build-id. */
static bool bpf_user_mapping_find(struct bpf_user_mapping *mapping, unsigned long ip)
{
	if (ip < mapping->start || ip >= mapping->end) {
		struct file *file __free(fput) = bpf_user_mapping_file(mapping, ip);

		mapping->valid = file && !build_id_parse_file(file, mapping->build_id, NULL);
	}
	return mapping->valid;
}

/* A task that is dying must not wait for a server of user memory or of files. */
static bool bpf_user_may_read_files(void)
{
	return current->mm && !pagefault_disabled() &&
	       !(current->flags & PF_EXITING) && !fatal_signal_pending(current);
}

/**
 * bpf_user_build_ids - make build-ids and file offsets of user addresses of current
 * @ids:	the addresses; gets what stack_map_get_build_id_offset() describes
 * @nr:		of them
 *
 * Context: task context, may sleep.
 * Return: false, and nothing done, where files cannot be read.
 */
bool bpf_user_build_ids(struct bpf_stack_build_id *ids, u32 nr)
{
	struct bpf_user_mapping mapping = {};

	if (!bpf_user_may_read_files())
		return false;

	for (u32 i = 0; i < nr; i++) {
		/* Pairs with nothing: whoever can write to the map the buffer is in. */
		u64 ip = READ_ONCE(ids[i].ip);

		if (!bpf_user_mapping_find(&mapping, ip)) {
			ids[i].status = BPF_STACK_BUILD_ID_IP;
			memset(ids[i].build_id, 0, BUILD_ID_SIZE_MAX);
			continue;
		}
		ids[i].offset = mapping.offset + (ip - mapping.start);
		ids[i].status = BPF_STACK_BUILD_ID_VALID;
		memcpy(ids[i].build_id, mapping.build_id, BUILD_ID_SIZE_MAX);
	}
	return true;
}

/**
 * bpf_user_read_build_ids - have in memory what a stack map will look for there
 *
 * A stack map has its entries from a list that must not be held asleep, and so takes
 * build-ids only from the page cache.
 *
 * Context: task context, may sleep; the stack of current was walked.
 */
void bpf_user_read_build_ids(void)
{
	struct bpf_user_mapping mapping = {};
	struct unwind_stacktrace trace;

	if (!bpf_user_may_read_files() || !unwind_user_walked(&trace))
		return;

	for (unsigned int i = 0; i < trace.nr; i++)
		bpf_user_mapping_find(&mapping, trace.entries[i]);
}
