// SPDX-License-Identifier: GPL-2.0
/*
 * Read the SFrame section of a file, and build its table.
 *
 * Contexts: task context, may sleep for as long as the file system takes; no locks are
 * held. Object memory is charged to the task that is walked, and its allocation fails rather
 * than invoke the OOM killer. Page cache of the files is charged to nobody.
 *
 * Invariant: a section is copied before it is checked, and nothing is read twice.
 */
#include <linux/cleanup.h>
#include <linux/errno.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/unwind_stats.h>
#include <linux/vmalloc.h>

#include "gfp.h"
#include "object.h"
#include "test_tracer.h"

/* Memory that unwind_load_alloc() uses for a size: whole pages, or a kmalloc() size. */
static size_t unwind_load_room(size_t size)
{
	return size > PAGE_SIZE ? PAGE_ALIGN(size) : kmalloc_size_roundup(size);
}

/* Use vmalloc() above a page: kmalloc() would round up to a power of two of pages. */
static void *unwind_load_alloc(size_t size)
{
	void *mem = NULL;

	if (!unwind_test_fail(UNWIND_TEST_FAIL_CACHE))
		mem = size > PAGE_SIZE ? __vmalloc(size, unwind_gfp()) :
					 kmalloc(size, unwind_gfp());
	if (!mem)
		unwind_count(UNWIND_STAT_NOMEM);
	return mem;
}

static int unwind_load_table(struct unwind_object *object,
			     const struct sframe_section *section)
{
	struct sframe_table measured, *table;
	size_t size, room;
	int ret;

	ret = sframe_measure(section, &measured);
	if (ret)
		return ret;
	size = sframe_table_size(&measured);
	room = unwind_load_room(size);
	ret = unwind_object_reserve(object, room);
	if (ret)
		return ret;

	table = unwind_load_alloc(size);
	ret = -ENOMEM;
	if (table) {
		*table = measured;
		ret = sframe_build(section, table);
	}
	if (ret) {
		kvfree(table);
		unwind_object_unreserve(object, room);
		return ret;
	}
	object->table = table;
	return 0;
}

/* Copy a section, and build its table. */
static int unwind_load_section(struct unwind_object *object,
			       const struct unwind_elf_source *source, u32 size)
{
	u8 *bytes __free(kvfree) = unwind_load_alloc(size);
	/* For a registered section, the code ranges of its files are not known. */
	static const struct sframe_range anywhere = { .end = S64_MAX };
	struct sframe_range text[UNWIND_ELF_SEGMENTS];
	const struct unwind_elf *elf = &object->elf;
	struct sframe_section section;
	int ret;

	if (!bytes)
		return -ENOMEM;
	ret = unwind_elf_read(source, bytes, size, elf->offset);
	if (ret)
		return ret;

	for (unsigned int i = 0; i < elf->nr_segments; i++) {
		const struct unwind_elf_segment *segment = &elf->segments[i];

		text[i].start = segment->addr;
		text[i].end = segment->addr + (segment->end - segment->offset);
	}
	section = (struct sframe_section) {
		.bytes	 = bytes,
		.size	 = size,
		.addr	 = elf->addr,
		.text	 = elf->nr_segments ? text : &anywhere,
		.nr_text = elf->nr_segments ?: 1,
	};
	return unwind_load_table(object, &section);
}

/* Limit the size to that of the file: linkers may write a larger one. */
static u64 unwind_section_size(const struct unwind_elf_source *source,
			       const struct unwind_elf *elf)
{
	u64 size = source->file ? i_size_read(file_inode(source->file)) : source->size;

	return elf->offset < size ? min(elf->size, size - elf->offset) : 0;
}

/**
 * unwind_object_load - load the table of an object
 * @object:	gets its table and @elf, and its @bytes include the table; its key selects the
 *		section
 * @source:	the file
 *
 * Context: task context, may sleep.
 * Return:
 * * 0		- the object has a table
 * * -ENOEXEC	- this is no ELF file
 * * -ENODATA	- it has no section, or the section has no valid function
 * * -EINVAL	- the section is damaged
 * * -EOPNOTSUPP - the section's version or features are not known
 * * -EFBIG	- the section is too large
 * * -ENOSPC	- the limits of objects leave no room for it
 * * -ENOMEM	- out of memory
 * * others	- the file cannot be read
 */
int unwind_object_load(struct unwind_object *object, const struct unwind_elf_source *source)
{
	const struct unwind_section *section = &object->key.section;
	struct unwind_elf *elf = &object->elf;
	size_t room;
	u64 size;
	int ret;

	if (section->size) {
		elf->offset = section->offset;
		elf->addr = section->addr;
		elf->size = section->size;
	} else {
		ret = unwind_elf_open(source, elf);
		if (ret)
			return ret;
	}
	size = unwind_section_size(source, elf);
	if (!size)
		return -ENODATA;
	if (size > UNWIND_SECTION_MAX)
		return -EFBIG;

	room = unwind_load_room(size);
	ret = unwind_object_reserve(object, room);
	if (ret)
		return ret;
	ret = unwind_load_section(object, source, size);
	unwind_object_unreserve(object, room);
	return ret;
}
