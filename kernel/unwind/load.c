// SPDX-License-Identifier: GPL-2.0
/*
 * Read the SFrame section of a file, and make a table of it.
 *
 * Contexts: task context, may sleep for as long as the file system wants; no locks are
 * held. The memory of an object is charged to the task that is walked, and rather not had
 * than at the price of killing somebody; pages of files that are brought in, to nobody.
 *
 * Invariant: a section is copied before it is checked, and nothing is read twice.
 */
#include <linux/cleanup.h>
#include <linux/errno.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "object.h"
#include "test_tracer.h"
#include "unwind.h"

/* What is taken of memory for that much, to the byte but for small sizes. */
static size_t unwind_load_room(size_t size)
{
	return size > PAGE_SIZE ? PAGE_ALIGN(size) : kmalloc_size_roundup(size);
}

/* Whole pages, and not the next power of two of them, which is what kmalloc() has. */
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

/* Copy a section, and make a table of it. */
static int unwind_load_section(struct unwind_object *object,
			       const struct unwind_elf_source *source, u32 size)
{
	u8 *bytes __free(kvfree) = unwind_load_alloc(size);
	/* The files that a section was handed in for may have code wherever they want. */
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

/* What linkers write as the size may be more than there is. */
static u64 unwind_section_size(const struct unwind_elf_source *source,
			       const struct unwind_elf *elf)
{
	u64 size = source->file ? i_size_read(file_inode(source->file)) : source->size;

	return elf->offset < size ? min(elf->size, size - elf->offset) : 0;
}

/**
 * unwind_object_load - make the table of an object
 * @object:	gets its table, and the memory that takes, and where code and section are;
 *		its key tells which section is meant
 * @source:	the file
 *
 * Context: task context, may sleep.
 * Return:
 * * 0		- the object has a table
 * * -ENOEXEC	- this is no ELF file
 * * -ENODATA	- it has no section, or none that says anything
 * * -EINVAL	- the section is damaged
 * * -EOPNOTSUPP - the section's version or features are not known
 * * -EFBIG	- the section is too large
 * * -ENOSPC	- it is too large for what objects may take
 * * -ENOMEM	- there is no memory for it
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
