/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A plain SFrame decoder, see sframe_plain.c. The kernel's decoder is compared with
 * it, and the model of the walker gets its frames from it.
 */
#ifndef _UNWIND_FUZZ_SFRAME_PLAIN_H
#define _UNWIND_FUZZ_SFRAME_PLAIN_H

#include <kernel/unwind/sframe.h>

/**
 * struct plain_func - an FDE
 * @start:	address of the function
 * @size:	bytes of code
 * @rows:	offset of its rows in the section
 * @end:	end of the part, which they must not cross
 * @nr_rows:	number of its rows
 * @repeat:	size of the blocks that they apply to, 0 for none
 * @width:	bytes of the start of a row
 * @flex:	rows have flexible rules
 * @signal:	it is a signal frame
 * @good:	the table has it
 * @silent:	but no frame for its addresses
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
 * @error:	its negative error, or 0
 * @versions:	bits of the versions in it
 * @functions:	number of good functions
 * @bad:	number of bad functions, and of bad parts
 * @funcs:	functions in the order of the section
 * @nr:		number of @funcs
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
