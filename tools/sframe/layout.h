/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Layout of a copy of a file with one more section.
 */
#ifndef _SFRAME_LAYOUT_H
#define _SFRAME_LAYOUT_H

#include "internal.h"

#define SECTION_NAME	".sframe"
#define SEGMENT_ALIGN	4096ULL
/* Limit of sections that move to make room. */
#define LAYOUT_MOVED	8

/**
 * struct moved - a section that makes room for program headers
 * @index:	index of the section
 * @tag:	tag of the .dynamic entry with its address
 * @offset:	its old offset
 * @size:	its size
 * @addr:	its old address
 * @to:		its new offset
 */
struct moved {
	size_t		index;
	s64		tag;
	u64	offset;
	u64	size;
	u64	addr;
	u64	to;
};

/**
 * struct layout - layout of the new file
 * @base:	address of the start of the old file
 * @shift:	bytes inserted in front of it
 * @nr_phdrs:	number of program headers
 * @block:	old start of the small sections after the program headers
 * @block_end:	old end of these sections
 * @block_to:	new start of these sections
 * @moved:	sections moved to the new segment
 * @nr_moved:	number of @moved
 * @addr:	address of the new segment
 * @segment:	start of the new segment
 * @sframe:	start of the new section
 * @end:	end of the new segment
 * @names:	start of the section names
 * @old_names:	size of the old section names
 * @shdrs:	start of the section headers
 * @nr_shdrs:	number of section headers
 * @size:	size of the file
 *
 * All positions are offsets in the new file, and old ones in the old file.
 */
struct layout {
	u64	base;
	u64	shift;
	size_t		nr_phdrs;
	u64	block;
	u64	block_end;
	u64	block_to;
	struct moved	moved[LAYOUT_MOVED];
	unsigned int	nr_moved;
	u64	addr;
	u64	segment;
	u64	sframe;
	u64	end;
	u64	names;
	u64	old_names;
	u64	shdrs;
	size_t		nr_shdrs;
	u64	size;
};

int layout_segment(struct image *image, u64 size, struct layout *layout);
int layout_end(struct image *image, u64 sframe_size, struct layout *layout);

/* The address of an offset in the new segment, or in the first one. */
static inline u64 layout_addr(const struct layout *layout, u64 offset)
{
	return offset < layout->segment ? layout->base - layout->shift + offset :
					  layout->addr + (offset - layout->segment);
}

static inline bool layout_in_block(const struct layout *layout, u64 offset, u64 size)
{
	return offset >= layout->block && offset < layout->block_end &&
	       size <= layout->block_end - offset;
}

#endif /* _SFRAME_LAYOUT_H */
