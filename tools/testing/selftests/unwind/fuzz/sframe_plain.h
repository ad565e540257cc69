/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A plain decoder of SFrame, see sframe_plain.c: what that of the kernel is compared
 * with, and where the model of the walker has its frames from.
 */
#ifndef _UNWIND_FUZZ_SFRAME_PLAIN_H
#define _UNWIND_FUZZ_SFRAME_PLAIN_H

#include <kernel/unwind/sframe.h>

/**
 * struct plain_func - an FDE
 * @start:	address of the function
 * @size:	bytes of code
 * @rows:	where its rows start in the section
 * @end:	what they must not cross
 * @nr_rows:	rows that it has
 * @repeat:	size of the blocks that they are for, 0 for none
 * @width:	bytes of the start of a row
 * @flex:	rows have rules of the flexible kind
 * @signal:	it is a signal frame
 * @good:	the table has it
 * @silent:	but does not say anything about it
 */
struct plain_func {
	u64		start;
	u32		size;
	u64		rows;
	u64		end;
	u64		nr_rows;
	unsigned int	repeat;
	unsigned int	width;
	bool		flex;
	bool		signal;
	bool		good;
	bool		silent;
};

/**
 * struct plain - a section
 * @section:	the section
 * @error:	what is wrong with it, negative
 * @versions:	bits of the versions in it
 * @functions:	good ones
 * @bad:	functions that are not, and parts
 * @funcs:	functions, as they follow each other
 * @nr:		how many
 */
struct plain {
	const struct sframe_section	*section;
	int				error;
	u32				versions;
	unsigned int			functions;
	unsigned int			bad;
	struct plain_func		*funcs;
	unsigned int			nr;
};

struct plain_row {
	u32				start;
	struct unwind_user_frame	frame;
};

void plain_read(struct plain *plain, const struct sframe_section *section);
void plain_drop(struct plain *plain);
bool plain_next_row(const struct plain *plain, const struct plain_func *func, u64 *at,
		    struct plain_row *row);
bool plain_frame(const struct plain *plain, const struct plain_func *func, u64 addr,
		 struct unwind_user_frame *frame);

static inline bool plain_covers(const struct plain_func *func, u64 addr)
{
	return func->good && !func->silent && addr - func->start < func->size;
}

#endif /* _UNWIND_FUZZ_SFRAME_PLAIN_H */
