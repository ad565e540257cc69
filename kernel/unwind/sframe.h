/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The SFrame format, versions 1 to 3, and the tables that kernel/unwind/sframe.c builds.
 */
#ifndef _KERNEL_UNWIND_SFRAME_H
#define _KERNEL_UNWIND_SFRAME_H

#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/overflow.h>
#include <linux/stddef.h>
#include <linux/types.h>
#include <linux/unwind_user_arch.h>

/* The start of a section; all fields are little-endian, as on x86, and unaligned. */
struct sframe_header {
	__le16	magic;
	u8	version;
	u8	flags;
	u8	abi_arch;
	s8	cfa_fixed_fp_offset;
	s8	cfa_fixed_ra_offset;
	u8	auxhdr_len;
	__le32	num_fdes;
	__le32	num_fres;
	__le32	fre_len;
	__le32	fdeoff;
	__le32	freoff;
} __packed;

#define SFRAME_MAGIC			0xdee2

#define SFRAME_VERSION_1		1
#define SFRAME_VERSION_2		2
#define SFRAME_VERSION_3		3

#define SFRAME_F_FDE_SORTED		BIT(0)
#define SFRAME_F_FRAME_POINTER		BIT(1)	/* not in version 3 */
#define SFRAME_F_FDE_FUNC_START_PCREL	BIT(2)	/* not in version 1 */

/* FDE (function descriptor entry) of version 1; version 2 adds the last two fields */
struct sframe_fde {
	__le32	start;
	__le32	size;
	__le32	fre_off;
	__le32	num_fres;
	u8	info;
	/* Version 2 */
	u8	rep_size;
	__le16	padding;
} __packed;

#define SFRAME_FDE_V1_SIZE		offsetof(struct sframe_fde, rep_size)
#define SFRAME_FDE_V2_SIZE		sizeof(struct sframe_fde)
/* Version 1 has no field for it. */
#define SFRAME_V1_REP_SIZE		16

/* Version 3 splits the FDE: the second part precedes the rows of the function. */
struct sframe_fde_v3 {
	__le64	start;
	__le32	size;
	__le32	fre_off;
} __packed;

struct sframe_attr_v3 {
	__le16	num_fres;
	u8	info;
	u8	info2;
	u8	rep_size;
} __packed;

#define SFRAME_FDE_FRE_TYPE(info)	((info) & 0xf)
#define SFRAME_FDE_PCMASK		BIT(4)
#define SFRAME_FDE_PAUTH		BIT(5)	/* another architecture's */
#define SFRAME_FDE_UNUSED		BIT(6)
#define SFRAME_FDE_SIGNAL		BIT(7)	/* version 3 */

#define SFRAME_FDE_TYPE(info2)		((info2) & 0x1f)
#define SFRAME_FDE_TYPE_UNUSED		0xe0
#define SFRAME_FDE_TYPE_DEFAULT		0
#define SFRAME_FDE_TYPE_FLEX		1

#define SFRAME_FRE_TYPE_ADDR4		2

/* FRE (frame row entry): start, of 1, 2 or 4 bytes; info; data words */
#define SFRAME_FRE_CFA_SP(info)		((info) & BIT(0))
#define SFRAME_FRE_NR_WORDS(info)	((info) >> 1 & 0xf)
#define SFRAME_FRE_WORD_SIZE(info)	((info) >> 5 & 0x3)
#define SFRAME_FRE_MANGLED_RA		BIT(7)	/* another architecture's */

/* Control words of flexible rows. */
#define SFRAME_CTRL_REG			BIT(0)
#define SFRAME_CTRL_DEREF		BIT(1)
#define SFRAME_CTRL_UNUSED		BIT(2)
#define SFRAME_CTRL_REGNUM(word)	((word) >> 3)

/**
 * struct sframe_range - executable code of a file
 * @start:	first address, by the file's headers
 * @end:	first address after it
 */
struct sframe_range {
	u64	start;
	u64	end;
};

/**
 * struct sframe_section - a section that was read and is not trusted yet
 * @bytes:	the bytes that were read
 * @size:	number of @bytes; may be more than the section has
 * @addr:	address of the section in the file
 * @text:	ranges that may contain functions
 * @nr_text:	entries in @text
 *
 * Addresses are those in the file's headers.
 */
struct sframe_section {
	const u8			*bytes;
	u32				size;
	u64				addr;
	const struct sframe_range	*text;
	unsigned int			nr_text;
};

/**
 * struct sframe_func - a run of rows: all or some of the rows of a function
 * @start:	first address, as an offset from the table's @base
 * @size:	bytes of code
 * @skip:	offset of @start in the function
 * @rows:	offset of the first row in the table's @rows
 * @nr:		number of rows
 * @rep_size:	size of the blocks of code for each of which the rows apply; 0 if the rows
 *		do not repeat
 * @type:	SFRAME_FUNC_*
 */
struct sframe_func {
	u32	start;
	u32	size;
	u32	skip;
	u32	rows;
	u8	nr;
	u8	rep_size;
	u8	type;
} __packed;

/*
 * A table has at most 1.15 times the bytes of its section, however few rows the functions
 * have: rows are copied, with the attributes of version 3.
 */
static_assert(sizeof(struct sframe_func) * 100 <= SFRAME_FDE_V1_SIZE * 115);
static_assert((sizeof(struct sframe_func) + sizeof(struct sframe_attr_v3)) * 100 <=
	      (sizeof(struct sframe_fde_v3) + sizeof(struct sframe_attr_v3)) * 115);

#define SFRAME_FUNC_FRE_TYPE	GENMASK(1, 0)
#define SFRAME_FUNC_FLEX	BIT(2)
#define SFRAME_FUNC_SIGNAL	BIT(3)

/* Maximum number of rows that are read to find one. */
#define SFRAME_FUNC_ROWS	64

/**
 * struct sframe_table - a section after all checks, sorted for lookups
 * @base:	address of the first function in the file
 * @nr_funcs:	entries in @funcs, ascending by start
 * @rows_size:	bytes of @rows
 * @versions:	bit mask of the format versions in it
 * @functions:	number of functions in it
 * @bad:	number of functions and parts of the section that were left out
 * @rows:	the rows, as in the section
 * @funcs:	the runs of rows
 *
 * Immutable once it is built.
 */
struct sframe_table {
	u64			base;
	u32			nr_funcs;
	u32			rows_size;
	u32			versions;
	u32			functions;
	u32			bad;
	u8			*rows;
	struct sframe_func	funcs[];
};

int sframe_check_header(const struct sframe_header *header);
int sframe_measure(const struct sframe_section *section, struct sframe_table *table);
int sframe_build(const struct sframe_section *section, struct sframe_table *table);
bool sframe_find(const struct sframe_table *table, u64 addr,
		 struct unwind_user_frame *frame);

/* Size of a table in bytes, from the header that sframe_measure() set. */
static inline size_t sframe_table_size(const struct sframe_table *table)
{
	return struct_size(table, funcs, table->nr_funcs) + table->rows_size;
}

#endif /* _KERNEL_UNWIND_SFRAME_H */
