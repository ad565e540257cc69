// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's decoder in user space: kernel/unwind/sframe.c as it stands.
 */
#include "../../../kernel/unwind/sframe.c"

#include "kernel.h"

/**
 * kernel_open - make the kernel's table of a section
 * @bytes:	the section
 * @size:	its size
 * @addr:	its address
 * @text:	executable segments
 * @nr_text:	entries in @text
 * @counts:	set to the numbers of functions in the table, and of bad ones
 *
 * Return: the table, or NULL if the kernel refuses it.
 */
struct sframe_table *kernel_open(const u8 *bytes, u32 size, u64 addr,
				 const struct kernel_text *text, unsigned int nr_text,
				 struct kernel_counts *counts)
{
	const struct sframe_section section = {
		.bytes	 = bytes,
		.size	 = size,
		.addr	 = addr,
		.text	 = (const struct sframe_range *)text,
		.nr_text = nr_text,
	};
	struct sframe_table measured, *table;

	if (sframe_measure(&section, &measured))
		return NULL;
	table = malloc(sframe_table_size(&measured));
	*table = measured;
	if (sframe_build(&section, table)) {
		free(table);
		return NULL;
	}
	*counts = (struct kernel_counts) { table->functions, table->bad };
	return table;
}

/**
 * kernel_find - ask the kernel's table
 * @table:	the table
 * @addr:	an address
 * @frame:	set to the rules at @addr
 *
 * Return: false if the table has no row for @addr.
 */
bool kernel_find(const struct sframe_table *table, u64 addr, struct kernel_frame *frame)
{
	struct unwind_user_frame found;

	if (!sframe_find(table, addr, &found))
		return false;
	*frame = (struct kernel_frame) {
		.outermost = found.outermost,
		.signal	   = found.signal,
		.cfa	   = found.cfa,
		.cfa_off   = found.cfa_off,
		.ra	   = found.ra,
		.ra_off	   = found.ra_off,
		.fp	   = found.fp,
		.fp_off	   = found.fp_off,
	};
	return true;
}
