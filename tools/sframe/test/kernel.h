/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's decoder, for a program whose SFrame headers differ from the kernel's.
 */
#ifndef _SFRAME_TEST_KERNEL_H
#define _SFRAME_TEST_KERNEL_H

#include <linux/types.h>
#include <stdbool.h>

struct kernel_text {
	u64	start;
	u64	end;
};

/* Bases are register numbers, or the kernel's special values. */
struct kernel_frame {
	bool	outermost;
	bool	signal;
	u8	cfa;
	u8	ra;
	u8	fp;
	s32	cfa_off;
	s32	ra_off;
	s32	fp_off;
};

struct kernel_counts {
	unsigned int	functions;
	unsigned int	bad;
};

struct sframe_table;

struct sframe_table *kernel_open(const u8 *bytes, u32 size, u64 addr,
				 const struct kernel_text *text, unsigned int nr_text,
				 struct kernel_counts *counts);
bool kernel_find(const struct sframe_table *table, u64 addr, struct kernel_frame *frame);

#endif /* _SFRAME_TEST_KERNEL_H */
