// SPDX-License-Identifier: GPL-2.0
/*
 * Build-ids of user addresses for sleepable programs.
 *
 * Contexts: task context of current; may sleep for as long as the file system takes.
 *
 * Invariant: files are read with a reference and without the locks of the address space
 * (the mmap lock and VMA locks): code that reads a file takes these inside of the file
 * system's locks, to copy to user memory. The program may be attached to a function whose
 * callers hold some of both. So only try the locks of the address space, and do not wait
 * for a locked inode.
 */
#include <linux/bpf.h>
#include <linux/bpf_user_unwind.h>
#include <linux/buildid.h>
#include <linux/cleanup.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/rwsem.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/unwind_deferred.h>
#include <linux/unwind_user.h>

/**
 * struct bpf_user_mapping - cached data of one mapping
 * @start:	its first address
 * @end:	first address after it; 0 if the mapping is unknown
 * @offset:	offset of @start in the file, in bytes
 * @valid:	whether @build_id is set
 * @build_id:	build-id of the file
 */
struct bpf_user_mapping {
	unsigned long	start;
	unsigned long	end;
	u64		offset;
	bool		valid;
	unsigned char	build_id[BUILD_ID_SIZE_MAX];
};

/**
 * struct bpf_user_mappings - the mappings that were looked up last
 * @map:	several mappings, because the frames of a stack alternate between a program and
 *		its libraries
 * @next:	index of the mapping to replace next
 */
struct bpf_user_mappings {
	struct bpf_user_mapping	map[4];
	unsigned int		next;
};

static bool bpf_user_has_file(const struct vm_area_struct *vma)
{
	/* A device has no build-id, and reading it might block forever. */
	return vma->vm_file && S_ISREG(file_inode(vma->vm_file)->i_mode);
}

/**
 * struct bpf_user_look - a look at a mapping
 * @map:	its data
 * @file:	its file, if that must be read to get the build-id
 */
struct bpf_user_look {
	struct bpf_user_mapping	*map;
	struct file		*file;
};

/* Fill in the data of a locked mapping without waiting. */
static void bpf_user_look_at(struct vm_area_struct *vma, void *data)
{
	struct bpf_user_look *look = data;
	struct bpf_user_mapping *map = look->map;

	map->start = vma->vm_start;
	map->end = vma->vm_end;
	map->offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	if (!bpf_user_has_file(vma))
		return;

	/* The caller of the program may be holding the lock. */
	if (rwsem_is_locked(&file_inode(vma->vm_file)->i_rwsem))
		map->valid = !build_id_parse_nofault(vma, map->build_id, NULL);
	else
		look->file = get_file(vma->vm_file);
}

/* Get the mapping of @ip if its file has a build-id. */
static const struct bpf_user_mapping *
bpf_user_find(struct bpf_user_mappings *maps, unsigned long ip)
{
	struct file *file __free(fput) = NULL;
	struct bpf_user_mapping *map;
	struct bpf_user_look look;

	for (int i = 0; i < ARRAY_SIZE(maps->map); i++) {
		map = &maps->map[i];
		if (ip >= map->start && ip < map->end)
			return map->valid ? map : NULL;
	}

	map = &maps->map[maps->next++ % ARRAY_SIZE(maps->map)];
	*map = (struct bpf_user_mapping) {};
	look = (struct bpf_user_look) { .map = map };
	unwind_user_see_vma(ip, false, bpf_user_look_at, &look);
	file = look.file;
	if (file)
		map->valid = !build_id_parse_file(file, map->build_id, NULL);
	return map->valid ? map : NULL;
}

/* A task that dies or is in exec must not wait for a file server. */
static bool bpf_user_may_read_files(void)
{
	return current->mm && bpf_user_unwind_may_sleep() && !unwind_must_not_wait();
}

/**
 * bpf_user_build_ids - find build-ids and file offsets of user addresses of current
 * @ids:	the addresses; set to the result that stack_map_get_build_id_offset() describes
 * @nr:		number of addresses
 *
 * Context: any; reads files only where it may sleep.
 * Return: false, with nothing done, if files cannot be read here.
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
 * bpf_user_read_build_ids - read build-ids into the page cache for a stack map
 * @map:	the stack map, which holds build-ids
 * @flags:	flags of bpf_get_stackid()
 *
 * A stack map takes its entries from a freelist, must not sleep while it holds one, and so
 * reads build-ids only from the page cache.
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
