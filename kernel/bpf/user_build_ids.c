// SPDX-License-Identifier: GPL-2.0
/*
 * Build-ids of user addresses, for sleepable programs.
 *
 * Contexts: task context of current, may sleep, as long as the file system wants.
 *
 * Invariant: files are read with a reference and none of the locks of the address
 * space. Who reads a file takes these inside of the file system's locks, to copy to user
 * memory. The program may hold some of both already, from where it is attached: locks of
 * the address space are only tried, and an inode that is locked is not waited for.
 */
#include <linux/bpf.h>
#include <linux/bpf_user_unwind.h>
#include <linux/buildid.h>
#include <linux/cleanup.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/rwsem.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/unwind_deferred.h>
#include <linux/unwind_user.h>

/**
 * struct bpf_user_mapping - what is known of a mapping
 * @start:	its first address
 * @end:	the address behind it; 0 if nothing is known
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

/**
 * struct bpf_user_mappings - those that were looked at last
 * @map:	the mappings; the frames of a stack are in a program and its libraries in turn
 * @next:	the next one to be replaced
 */
struct bpf_user_mappings {
	struct bpf_user_mapping	map[4];
	unsigned int		next;
};

static bool bpf_user_has_file(const struct vm_area_struct *vma)
{
	/* A device has no build-id, and might make who reads it wait for ever. */
	return vma->vm_file && S_ISREG(file_inode(vma->vm_file)->i_mode);
}

/* What there is to know of a mapping without waiting. Returns a file to be read. */
static struct file *bpf_user_look_at(struct bpf_user_mapping *map,
				     struct vm_area_struct *vma)
{
	map->start = vma->vm_start;
	map->end = vma->vm_end;
	map->offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	if (!bpf_user_has_file(vma))
		return NULL;

	/* Perhaps by who called the program. */
	if (rwsem_is_locked(&file_inode(vma->vm_file)->i_rwsem)) {
		map->valid = !build_id_parse_nofault(vma, map->build_id, NULL);
		return NULL;
	}
	return get_file(vma->vm_file);
}

/* Look at the mapping of @ip, as far as that can be done without waiting. */
static struct file *bpf_user_find_vma(struct bpf_user_mapping *map, unsigned long ip)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	struct file *file = NULL;

	vma = lock_vma_under_rcu(mm, ip);
	if (vma) {
		file = bpf_user_look_at(map, vma);
		vma_end_read(vma);
		return file;
	}

	if (!mmap_read_trylock(mm))
		return NULL;
	vma = vma_lookup(mm, ip);
	if (vma)
		file = bpf_user_look_at(map, vma);
	mmap_read_unlock(mm);
	return file;
}

/* The mapping of @ip, if its file has a build-id. */
static const struct bpf_user_mapping *
bpf_user_find(struct bpf_user_mappings *maps, unsigned long ip)
{
	struct file *file __free(fput) = NULL;
	struct bpf_user_mapping *map;

	for (int i = 0; i < ARRAY_SIZE(maps->map); i++) {
		map = &maps->map[i];
		if (ip >= map->start && ip < map->end)
			return map->valid ? map : NULL;
	}

	map = &maps->map[maps->next++ % ARRAY_SIZE(maps->map)];
	*map = (struct bpf_user_mapping) {};
	file = bpf_user_find_vma(map, ip);
	if (file)
		map->valid = !build_id_parse_file(file, map->build_id, NULL);
	return map->valid ? map : NULL;
}

/* A task that is dying must not wait for a server of files. */
static bool bpf_user_may_read_files(void)
{
	return current->mm && bpf_user_unwind_may_sleep() && !unwind_dying();
}

/**
 * bpf_user_build_ids - make build-ids and file offsets of user addresses of current
 * @ids:	the addresses; gets what stack_map_get_build_id_offset() describes
 * @nr:		of them
 *
 * Context: any; reads files only where it may sleep.
 * Return: false, and nothing done, where files cannot be read.
 */
bool bpf_user_build_ids(struct bpf_stack_build_id *ids, u32 nr)
{
	struct bpf_user_mappings maps = {};

	if (!bpf_user_may_read_files())
		return false;

	for (u32 i = 0; i < nr; i++) {
		/* No partner: others may write to the map that the buffer is in. */
		u64 ip = READ_ONCE(ids[i].ip);
		const struct bpf_user_mapping *map = bpf_user_find(&maps, ip);

		if (!map) {
			ids[i].status = BPF_STACK_BUILD_ID_IP;
			memset(ids[i].build_id, 0, BUILD_ID_SIZE_MAX);
			continue;
		}
		ids[i].offset = map->offset + (ip - map->start);
		ids[i].status = BPF_STACK_BUILD_ID_VALID;
		memcpy(ids[i].build_id, map->build_id, BUILD_ID_SIZE_MAX);
	}
	return true;
}

/**
 * bpf_user_read_build_ids - have in memory what a stack map will look for there
 * @map:	the map, of build-ids
 * @flags:	of bpf_get_stackid()
 *
 * A stack map has its entries from a list that must not be held asleep, and so takes
 * build-ids only from the page cache.
 *
 * Context: any; reads files only where it may sleep.
 */
void bpf_user_read_build_ids(const struct bpf_map *map, u64 flags)
{
	unsigned int nr = map->value_size / sizeof(struct bpf_stack_build_id);
	struct bpf_user_mappings maps = {};
	struct unwind_stacktrace trace;

	if (!bpf_user_may_read_files() || !unwind_user_walked(&trace))
		return;

	nr = min(trace.nr, nr + (unsigned int)(flags & BPF_F_SKIP_FIELD_MASK));
	for (unsigned int i = 0; i < nr; i++)
		bpf_user_find(&maps, trace.entries[i]);
}
