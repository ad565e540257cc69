/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where the parts of a file are in a copy that has a section more.
 */
#ifndef _SFRAME_LAYOUT_H
#define _SFRAME_LAYOUT_H

#include "internal.h"

#define SECTION_NAME	".sframe"
#define SEGMENT_ALIGN	4096ULL
/* Of these, as many as can make room. */
#define LAYOUT_MOVED	8

/**
 * struct moved - a section that makes room for program headers
 * @index:	number of the section
 * @tag:	of the entry of .dynamic that names its address
 * @offset:	where it was
 * @size:	of it
 * @addr:	what address it had
 * @to:		where it is from now on
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
 * struct layout - where the parts of the new file are
 * @base:	address of what the file had at its start
 * @shift:	bytes that are new in front of that
 * @nr_phdrs:	number of program headers
 * @block:	where the small sections behind them were
 * @block_end:	behind these
 * @block_to:	where they are from now on
 * @moved:	sections that are in the new segment from now on
 * @nr_moved:	number of these
 * @addr:	address of the new segment
 * @segment:	where it is
 * @sframe:	where the new section is
 * @end:	behind the segment
 * @names:	where names of sections are
 * @old_names:	bytes of these that there were
 * @shdrs:	where section headers are
 * @nr_shdrs:	number of these
 * @size:	of the file
 *
 * Places are offsets in the file, the former ones in the former file.
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

/* The address of what is in the new segment, or in front of all others. */
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
