// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame: tables that give the frame for each code address.
 *
 * Contexts: sframe_measure() and sframe_build() may sleep, sframe_find() runs in any.
 * The code works on bytes only: no user memory, no locks, no allocation. It is also
 * compiled in userspace, by tools/testing/selftests/unwind/fuzz.
 *
 * Sections are untrusted file contents. A section is checked once, when a table is
 * built from it, in time linear in its size, except for sorting. Invariant: each row
 * that a table refers to is complete and valid, and rows of a function ascend. So
 * sframe_find() reads at most SFRAME_FUNC_ROWS rows, or those of one block, and does
 * not check them.
 *
 * Invalid parts are left out. If only one function is invalid, the others are kept.
 */
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/limits.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/overflow.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sort.h>
#include <linux/string.h>
#include <linux/unaligned.h>

#include <asm/unwind_user.h>

#include "sframe.h"

/**
 * struct sframe_piece - one header and its sub-sections
 * @fdes:	the FDE sub-section
 * @rows:	the FRE sub-section
 * @end:	the end of both
 * @fdes_addr:	address of @fdes in the file
 * @addr:	address of the header in the file
 * @num_fdes:	FDEs in @fdes
 * @fde_size:	bytes of each
 * @rows_size:	bytes of @rows
 * @rows_left:	upper bound of the rows not read yet
 * @version:	version of the format
 * @pcrel:	start addresses are relative to their own FDE
 */
struct sframe_piece {
	const u8	*fdes;
	const u8	*rows;
	const u8	*end;
	u64		fdes_addr;
	u64		addr;
	u32		num_fdes;
	u32		fde_size;
	u32		rows_size;
	u32		rows_left;
	u8		version;
	bool		pcrel;
};

/**
 * struct sframe_desc - an FDE of any version
 * @start:	address of the function in the file
 * @size:	bytes of code
 * @rows:	offset of the first row in the FRE sub-section
 * @num_fres:	number of rows
 * @info:	as in version 3
 * @info2:	likewise
 * @rep_size:	as in &struct sframe_func
 */
struct sframe_desc {
	u64	start;
	u32	size;
	u32	rows;
	u32	num_fres;
	u8	info;
	u8	info2;
	u8	rep_size;
};

/*
 * GNU ld sorts the FDEs, and sets a flag if starts are PC-relative. In a section that it did
 * not process, they are as the assembler wrote them: always relative to their own FDE.
 */
static bool sframe_is_pcrel(u8 flags)
{
	return (flags & SFRAME_F_FDE_FUNC_START_PCREL) || !(flags & SFRAME_F_FDE_SORTED);
}

/**
 * sframe_check_header - check the header of a section
 * @header:	the first bytes of the section
 *
 * Return: 0; -EINVAL if it is no header; -EOPNOTSUPP if its version or features are unknown.
 */
int sframe_check_header(const struct sframe_header *header)
{
	static const u8 flags[] = {
		[SFRAME_VERSION_1] = SFRAME_F_FDE_SORTED | SFRAME_F_FRAME_POINTER,
		[SFRAME_VERSION_2] = SFRAME_F_FDE_SORTED | SFRAME_F_FRAME_POINTER |
				     SFRAME_F_FDE_FUNC_START_PCREL,
		[SFRAME_VERSION_3] = SFRAME_F_FDE_SORTED | SFRAME_F_FDE_FUNC_START_PCREL,
	};

	if (get_unaligned_le16(&header->magic) != SFRAME_MAGIC)
		return -EINVAL;
	if (header->version < SFRAME_VERSION_1 || header->version > SFRAME_VERSION_3)
		return -EOPNOTSUPP;
	if (header->flags & ~flags[header->version])
		return -EOPNOTSUPP;
	if (header->abi_arch != ARCH_SFRAME_ABI || header->cfa_fixed_fp_offset ||
	    header->cfa_fixed_ra_offset != ARCH_SFRAME_RA_OFF)
		return -EOPNOTSUPP;
	return 0;
}

/* Find the sub-sections of the piece at @offset of a section. */
static int sframe_open_piece(const struct sframe_section *section, u32 offset,
			     struct sframe_piece *piece)
{
	const struct sframe_header *header = (const void *)section->bytes + offset;
	u64 left = section->size - offset, fdeoff, freoff, fdes_size;
	int ret;

	if (left < sizeof(*header))
		return -EINVAL;
	ret = sframe_check_header(header);
	if (ret)
		return ret;

	piece->version = header->version;
	piece->pcrel = sframe_is_pcrel(header->flags);
	piece->fde_size = header->version == SFRAME_VERSION_1 ? SFRAME_FDE_V1_SIZE :
			  header->version == SFRAME_VERSION_2 ? SFRAME_FDE_V2_SIZE :
								sizeof(struct sframe_fde_v3);
	piece->num_fdes = get_unaligned_le32(&header->num_fdes);
	piece->rows_size = get_unaligned_le32(&header->fre_len);

	fdeoff = sizeof(*header) + header->auxhdr_len +
		 (u64)get_unaligned_le32(&header->fdeoff);
	freoff = sizeof(*header) + header->auxhdr_len +
		 (u64)get_unaligned_le32(&header->freoff);
	fdes_size = (u64)piece->num_fdes * piece->fde_size;
	if (fdeoff + fdes_size > freoff || freoff + piece->rows_size > left)
		return -EINVAL;

	piece->addr = section->addr + offset;
	piece->fdes_addr = piece->addr + fdeoff;
	piece->fdes = (const u8 *)header + fdeoff;
	piece->rows = (const u8 *)header + freoff;
	piece->end = piece->rows + piece->rows_size;
	/* A row has at least two bytes. Functions may share rows: this bounds the work. */
	piece->rows_left = piece->rows_size;
	return 0;
}

/*
 * Some linkers write one section after the other; others write one, with other data after
 * it. Returns true, and sets @offset, if there is a next one.
 */
static bool sframe_next_piece(const struct sframe_section *section,
			      const struct sframe_piece *piece, u32 *offset)
{
	u64 next = round_up((u64)(piece->end - section->bytes), sizeof(u64));

	if (next + sizeof(struct sframe_header) > section->size ||
	    get_unaligned_le16(section->bytes + next) != SFRAME_MAGIC)
		return false;
	*offset = next;
	return true;
}

static bool sframe_in_text(const struct sframe_section *section, u64 start, u32 size)
{
	for (unsigned int i = 0; i < section->nr_text; i++) {
		const struct sframe_range *text = &section->text[i];

		if (start >= text->start && start < text->end && size <= text->end - start)
			return true;
	}
	return false;
}

/* Versions 1 and 2; false if the FDE uses bits that these versions do not have. */
static bool sframe_get_fde(const struct sframe_piece *piece, const u8 *at,
			   struct sframe_desc *desc)
{
	const struct sframe_fde *fde = (const void *)at;

	desc->start += (s32)get_unaligned_le32(&fde->start);
	desc->size = get_unaligned_le32(&fde->size);
	desc->rows = get_unaligned_le32(&fde->fre_off);
	desc->num_fres = get_unaligned_le32(&fde->num_fres);
	desc->info = fde->info;
	desc->info2 = SFRAME_FDE_TYPE_DEFAULT;
	desc->rep_size = SFRAME_V1_REP_SIZE;
	if (piece->version == SFRAME_VERSION_2) {
		desc->rep_size = fde->rep_size;
		if (get_unaligned_le16(&fde->padding))
			return false;
	}
	return !(fde->info & SFRAME_FDE_SIGNAL);
}

static bool sframe_get_fde_v3(const struct sframe_piece *piece, const u8 *at,
			      struct sframe_desc *desc)
{
	const struct sframe_fde_v3 *fde = (const void *)at;
	const struct sframe_attr_v3 *attr;
	u32 offset = get_unaligned_le32(&fde->fre_off);

	if (offset > piece->rows_size || piece->rows_size - offset < sizeof(*attr))
		return false;

	attr = (const void *)piece->rows + offset;
	desc->start += get_unaligned_le64(&fde->start);
	desc->size = get_unaligned_le32(&fde->size);
	desc->rows = offset + sizeof(*attr);
	desc->num_fres = get_unaligned_le16(&attr->num_fres);
	desc->info = attr->info;
	desc->info2 = attr->info2;
	desc->rep_size = attr->rep_size;
	return true;
}

/*
 * Get the next FDE, without checking its rows. Returns false if it is invalid, in
 * sframe_build() for the same FDEs as in sframe_measure().
 */
static __always_inline bool
sframe_get_desc(const struct sframe_section *section, struct sframe_piece *piece, u32 index,
		struct sframe_desc *desc)
{
	u64 offset = (u64)index * piece->fde_size;
	u32 min_row;

	desc->start = piece->pcrel ? piece->fdes_addr + offset : piece->addr;
	if (piece->version == SFRAME_VERSION_3 ?
	    !sframe_get_fde_v3(piece, piece->fdes + offset, desc) :
	    !sframe_get_fde(piece, piece->fdes + offset, desc))
		return false;

	if (desc->info & SFRAME_FDE_PCMASK) {
		if (!desc->rep_size || desc->num_fres > desc->rep_size)
			return false;
	} else {
		desc->rep_size = 0;
	}
	min_row = (1 << SFRAME_FDE_FRE_TYPE(desc->info)) + 1;
	if (SFRAME_FDE_FRE_TYPE(desc->info) > SFRAME_FRE_TYPE_ADDR4 ||
	    (desc->info & (SFRAME_FDE_PAUTH | SFRAME_FDE_UNUSED)) ||
	    SFRAME_FDE_TYPE(desc->info2) > SFRAME_FDE_TYPE_FLEX ||
	    (desc->info2 & SFRAME_FDE_TYPE_UNUSED) ||
	    desc->num_fres > piece->rows_left || !desc->size ||
	    desc->rows + (u64)desc->num_fres * min_row > piece->rows_size ||
	    !sframe_in_text(section, desc->start, desc->size))
		return false;

	piece->rows_left -= desc->num_fres;
	return true;
}

/* Number of table entries for a function: one for each SFRAME_FUNC_ROWS rows. */
static u32 sframe_nr_entries(const struct sframe_desc *desc)
{
	return desc->rep_size || !desc->num_fres ? 1 :
	       DIV_ROUND_UP(desc->num_fres, SFRAME_FUNC_ROWS);
}

/* Let others run, and check for fatal signals, because a large section takes long. */
static __always_inline bool sframe_interrupted(u32 index)
{
	if (likely(index % 256))
		return false;
	cond_resched();
	return fatal_signal_pending(current);
}

static int sframe_measure_piece(const struct sframe_section *section,
				struct sframe_piece *piece, struct sframe_table *table)
{
	struct sframe_desc desc;

	for (u32 i = 0; i < piece->num_fdes; i++) {
		if (sframe_interrupted(i))
			return -EINTR;
		if (!sframe_get_desc(section, piece, i, &desc))
			continue;
		table->nr_funcs += sframe_nr_entries(&desc);
		table->base = min(table->base, desc.start);
	}
	table->rows_size += piece->rows_size;
	return 0;
}

/**
 * sframe_measure - get the size of the table of a section
 * @section:	the section
 * @table:	gets @base, and @nr_funcs and @rows_size as upper bounds; the rest is
 *		zeroed
 *
 * Context: may sleep.
 * Return:
 * * 0		- sframe_build() can build the table
 * * -EINVAL	- the section is damaged
 * * -EOPNOTSUPP - the version or features of the section are unknown
 * * -ENODATA	- the section has no valid function
 * * -EINTR	- current is being killed
 */
int sframe_measure(const struct sframe_section *section, struct sframe_table *table)
{
	struct sframe_piece piece;
	u32 offset = 0, pieces = 0;
	int ret;

	*table = (struct sframe_table) { .base = U64_MAX };
	do {
		if (sframe_interrupted(pieces++))
			return -EINTR;
		ret = sframe_open_piece(section, offset, &piece);
		/* Garbage after a valid piece does not invalidate it. */
		if (ret && offset)
			break;
		if (!ret)
			ret = sframe_measure_piece(section, &piece, table);
		if (ret)
			return ret;
	} while (sframe_next_piece(section, &piece, &offset));

	return table->nr_funcs ? 0 : -ENODATA;
}

/* @width is a constant in callers that read many rows. */
static __always_inline u32 sframe_row_start(const u8 *row, unsigned int width)
{
	return width == 1 ? *row : width == 2 ? get_unaligned_le16(row) :
						get_unaligned_le32(row);
}

static __always_inline u32 sframe_row_size(u8 info, unsigned int width)
{
	return width + 1 + (SFRAME_FRE_NR_WORDS(info) << SFRAME_FRE_WORD_SIZE(info));
}

/* A data word of a row; @word_size is that of its info byte. */
static s32 sframe_word(const u8 *words, unsigned int index, unsigned int word_size)
{
	switch (word_size) {
	case 0:
		return (s8)words[index];
	case 1:
		return (s16)get_unaligned_le16(words + index * 2);
	default:
		return (s32)get_unaligned_le32(words + index * 4);
	}
}

static u32 sframe_control(const u8 *words, unsigned int index, unsigned int word_size)
{
	/* Zero-extend. */
	return (u32)sframe_word(words, index, word_size) &
	       GENMASK((8 << word_size) - 1, 0);
}

/* Decode the rule of a value from a pair of words; false if it is invalid. */
static bool sframe_pair(const u8 *words, unsigned int index, unsigned int word_size,
			u8 *base, s32 *off)
{
	u32 control = sframe_control(words, index, word_size);

	*base = UNWIND_BASE_CFA;
	if (control & SFRAME_CTRL_REG) {
		if (SFRAME_CTRL_REGNUM(control) >= ARCH_DWARF_REGS)
			return false;
		*base = SFRAME_CTRL_REGNUM(control);
	} else if (SFRAME_CTRL_REGNUM(control)) {
		return false;
	}
	if (control & SFRAME_CTRL_DEREF)
		*base |= UNWIND_BASE_LOAD;
	*off = sframe_word(words, index + 1, word_size);
	return !(control & SFRAME_CTRL_UNUSED);
}

/* The rules of CFA, RA, FP; RA or FP without a rule is one zero word, or is omitted. */
static bool sframe_flex_row(const u8 *words, unsigned int nr, unsigned int word_size,
			    struct unwind_user_frame *frame)
{
	unsigned int index = 2;

	if (nr < 2 || !sframe_pair(words, 0, word_size, &frame->cfa, &frame->cfa_off) ||
	    (frame->cfa & UNWIND_BASE_CFA))
		return false;

	if (index < nr && !sframe_control(words, index, word_size)) {
		index++;
	} else if (index + 1 < nr) {
		if (!sframe_pair(words, index, word_size, &frame->ra, &frame->ra_off))
			return false;
		index += 2;
	}

	if (index < nr && !sframe_control(words, index, word_size)) {
		index++;
	} else if (index + 1 < nr) {
		if (!sframe_pair(words, index, word_size, &frame->fp, &frame->fp_off))
			return false;
		index += 2;
	}
	return index == nr;
}

/* Decode a row whose info byte is valid; false if its data words are not. */
static bool sframe_get_row(const u8 *row, unsigned int width, u16 type,
			   struct unwind_user_frame *frame)
{
	u8 info = row[width];
	unsigned int nr = SFRAME_FRE_NR_WORDS(info), word_size = SFRAME_FRE_WORD_SIZE(info);
	const u8 *words = row + width + 1;

	*frame = (struct unwind_user_frame) {
		.cfa	= SFRAME_FRE_CFA_SP(info) ? ARCH_DWARF_SP : ARCH_DWARF_FP,
		.ra	= UNWIND_BASE_CFA | UNWIND_BASE_LOAD,
		.ra_off	= ARCH_SFRAME_RA_OFF,
		.fp	= UNWIND_BASE_SAME,
		.signal	= !!(type & SFRAME_FUNC_SIGNAL),
	};
	if (!nr) {
		frame->outermost = true;
		return true;
	}
	if (type & SFRAME_FUNC_FLEX)
		return sframe_flex_row(words, nr, word_size, frame);

	frame->cfa_off = sframe_word(words, 0, word_size);
	if (nr > 1) {
		frame->fp = UNWIND_BASE_CFA | UNWIND_BASE_LOAD;
		frame->fp_off = sframe_word(words, 1, word_size);
	}
	return true;
}

/* Begin a new run of rows at @start, and end the run before it there. */
static struct sframe_func *sframe_next_run(struct sframe_func *func, u32 start, u32 rows)
{
	struct sframe_func *next = func + 1;

	*next = *func;
	next->nr = 0;
	next->rows = rows;
	next->skip = start;
	next->start += start - func->skip;
	next->size -= start - func->skip;
	func->size = start - func->skip;
	return next;
}

/* Bytes of a default row after its start, by info byte; 0 if the info byte is invalid. */
static const u8 sframe_default_sizes[256] = {
	[0]		= 1,
	/* One word, or two, of 1, 2 or 4 bytes; the CFA is based on FP or SP. */
	[0x02 ... 0x03]	= 1 + 1,
	[0x04 ... 0x05]	= 1 + 2,
	[0x22 ... 0x23]	= 1 + 2,
	[0x24 ... 0x25]	= 1 + 4,
	[0x42 ... 0x43]	= 1 + 4,
	[0x44 ... 0x45]	= 1 + 8,
};

/* Bytes of a flexible row after its start, which fits before @end; 0 if it is invalid. */
static u32 sframe_flex_size(const u8 *row, const u8 *end, unsigned int width, u16 type)
{
	u8 info = row[width];
	u32 size = sframe_row_size(info, width);
	struct unwind_user_frame frame;

	if (!info)
		return 1;
	if (!SFRAME_FRE_NR_WORDS(info) || SFRAME_FRE_WORD_SIZE(info) > 2 ||
	    (info & SFRAME_FRE_MANGLED_RA) || SFRAME_FRE_CFA_SP(info) ||
	    end - row < size || !sframe_get_row(row, width, type, &frame))
		return 0;
	return size - width;
}

/*
 * Check @nr rows, the first of which is at @row. Its start must be at least @least, which is
 * set to the minimum for the row after them. Returns their end, or NULL if one is invalid.
 */
static __always_inline const u8 *
sframe_check_run(const u8 *row, const u8 *end, u32 nr, u64 *least, u16 type,
		 const bool flex, const unsigned int width)
{
	/* The last place where a row fits. If data words do not fit, no row follows them. */
	const u8 *last = end - width - 1;
	u64 min = *least;

	for (; nr; nr--) {
		u32 start, size;

		if (row > last)
			return NULL;
		start = sframe_row_start(row, width);
		size = flex ? sframe_flex_size(row, end, width, type) :
			      sframe_default_sizes[row[width]];
		if (start < min || !size)
			return NULL;
		min = (u64)start + 1;
		row += width + size;
	}
	*least = min;
	return row <= end ? row : NULL;
}

/*
 * Check the rows of a function, and make table entries of them; @func is the first entry,
 * set except for @nr and @rows. @rows is the offset of the piece's rows in the table.
 * @flex and @width are constants, because most of the time of a build is spent here.
 * Returns 0, -EINVAL if a row is invalid, or -EINTR.
 */
static __always_inline int
sframe_check_rows(const struct sframe_piece *piece, const struct sframe_desc *desc,
		  u32 rows, struct sframe_func *func, const bool flex,
		  const unsigned int width)
{
	const u8 *row = piece->rows + desc->rows;
	/* A block has no more rows than bytes: those are one run. */
	const u32 run = desc->rep_size ?: SFRAME_FUNC_ROWS;
	u64 least = 0;
	u32 nr;

	func->rows = rows + desc->rows;
	for (u32 done = 0; done < desc->num_fres; done += nr) {
		const u8 *first = row;

		nr = min(desc->num_fres - done, run);
		row = sframe_check_run(row, piece->end, nr, &least, func->type, flex, width);
		if (!row)
			return -EINVAL;
		if (sframe_interrupted(done + nr))
			return -EINTR;
		if (done)
			func = sframe_next_run(func, sframe_row_start(first, width),
					       rows + (first - piece->rows));
		func->nr = nr;
	}
	/* Rows ascend, so only the last start can be too large. */
	return least <= (desc->rep_size ?: desc->size) ? 0 : -EINVAL;
}

static int sframe_add_rows(const struct sframe_piece *piece, const struct sframe_desc *desc,
			   u32 rows, struct sframe_func *func)
{
	unsigned int type = SFRAME_FDE_FRE_TYPE(desc->info);

	if (func->type & SFRAME_FUNC_FLEX)
		return sframe_check_rows(piece, desc, rows, func, true, 1 << type);
	switch (type) {
	case 0:
		return sframe_check_rows(piece, desc, rows, func, false, 1);
	case 1:
		return sframe_check_rows(piece, desc, rows, func, false, 2);
	default:
		return sframe_check_rows(piece, desc, rows, func, false, 4);
	}
}

/* Add a function to a table. Returns 0, -EINVAL if it is bad, or -EINTR. */
static int sframe_add(struct sframe_table *table, const struct sframe_piece *piece,
		      const struct sframe_desc *desc, u32 rows)
{
	struct sframe_func *func = &table->funcs[table->nr_funcs];
	int ret;

	if (desc->start - table->base > U32_MAX - desc->size)
		return -EINVAL;

	*func = (struct sframe_func) {
		.start	  = desc->start - table->base,
		.size	  = desc->size,
		.rep_size = desc->rep_size,
		.type	  = SFRAME_FDE_FRE_TYPE(desc->info) |
			    (desc->info2 ? SFRAME_FUNC_FLEX : 0) |
			    (desc->info & SFRAME_FDE_SIGNAL ? SFRAME_FUNC_SIGNAL : 0),
	};
	ret = sframe_add_rows(piece, desc, rows, func);
	if (ret)
		return ret;
	/* A signal frame without rows: leave it to the walker, which looks at the code. */
	if (func->nr || !(func->type & SFRAME_FUNC_SIGNAL))
		table->nr_funcs += sframe_nr_entries(desc);
	return 0;
}

static int sframe_build_piece(const struct sframe_section *section,
			      struct sframe_piece *piece, struct sframe_table *table)
{
	struct sframe_desc desc;
	int ret;

	for (u32 i = 0; i < piece->num_fdes; i++) {
		if (sframe_interrupted(i))
			return -EINTR;
		ret = -EINVAL;
		if (sframe_get_desc(section, piece, i, &desc))
			ret = sframe_add(table, piece, &desc, table->rows_size);
		if (ret == -EINTR)
			return ret;
		if (ret)
			table->bad++;
		else
			table->functions++;
	}
	memcpy(table->rows + table->rows_size, piece->rows, piece->rows_size);
	table->rows_size += piece->rows_size;
	table->versions |= BIT(piece->version);
	/* The sort that may follow cannot be stopped. */
	return sframe_interrupted(0) ? -EINTR : 0;
}

static int sframe_compare(const void *a, const void *b)
{
	const struct sframe_func *x = a, *y = b;

	/* sort() cannot be stopped, but ends sooner if all elements compare equal. */
	if (sframe_interrupted(0))
		return 0;
	return x->start < y->start ? -1 : x->start > y->start;
}

static void sframe_sort(struct sframe_table *table)
{
	for (u32 i = 1; i < table->nr_funcs; i++) {
		if (table->funcs[i].start < table->funcs[i - 1].start) {
			sort(table->funcs, table->nr_funcs, sizeof(*table->funcs),
			     sframe_compare, NULL);
			return;
		}
	}
}

/**
 * sframe_build - build the table of a section
 * @section:	the section that sframe_measure() got, unchanged
 * @table:	sframe_table_size() bytes, with the header that sframe_measure() set
 *
 * Context: may sleep.
 * Return: 0; -ENODATA if no function is valid; -EINTR if current is being killed.
 */
int sframe_build(const struct sframe_section *section, struct sframe_table *table)
{
	struct sframe_piece piece;
	u32 offset = 0;
	int ret;

	table->rows = (u8 *)&table->funcs[table->nr_funcs];
	table->nr_funcs = 0;
	table->rows_size = 0;
	do {
		ret = sframe_open_piece(section, offset, &piece);
		if (ret) {
			table->bad++;
			break;
		}
		ret = sframe_build_piece(section, &piece, table);
		if (ret)
			return ret;
	} while (sframe_next_piece(section, &piece, &offset));

	sframe_sort(table);
	if (fatal_signal_pending(current))
		return -EINTR;
	return table->nr_funcs ? 0 : -ENODATA;
}

/* Find the last function that starts at or below an offset, or NULL. */
static const struct sframe_func *sframe_find_func(const struct sframe_table *table, u32 off)
{
	const struct sframe_func *func = table->funcs;
	u32 nr = table->nr_funcs;

	if (off < func->start)
		return NULL;
	while (nr > 1) {
		u32 half = nr / 2;

		if (func[half].start <= off)
			func += half;
		nr -= half;
	}
	return func;
}

/* Find the last row that starts at or below an offset, or NULL. */
static __always_inline const u8 *
sframe_scan_rows(const u8 *row, unsigned int nr, u32 off, const unsigned int width)
{
	const u8 *found = NULL;

	while (nr-- && sframe_row_start(row, width) <= off) {
		found = row;
		row += sframe_row_size(row[width], width);
	}
	return found;
}

static const u8 *sframe_find_row(const u8 *rows, const struct sframe_func *func, u32 off)
{
	switch (func->type & SFRAME_FUNC_FRE_TYPE) {
	case 0:
		return sframe_scan_rows(rows, func->nr, off, 1);
	case 1:
		return sframe_scan_rows(rows, func->nr, off, 2);
	default:
		return sframe_scan_rows(rows, func->nr, off, 4);
	}
}

/**
 * sframe_find - find the frame of a code address
 * @table:	the table
 * @addr:	address in the file; for a caller, an address inside the call instruction
 * @frame:	set if the table has it
 *
 * Context: any.
 * Return: true if the table has a frame for @addr.
 */
bool sframe_find(const struct sframe_table *table, u64 addr,
		 struct unwind_user_frame *frame)
{
	const struct sframe_func *func;
	const u8 *row;
	bool last;
	u32 off;

	if (addr - table->base > U32_MAX)
		return false;
	off = addr - table->base;

	func = sframe_find_func(table, off);
	if (!func || off - func->start >= func->size)
		return false;
	off -= func->start;
	last = off == func->size - 1;
	if (!func->nr) {
		*frame = (struct unwind_user_frame) { .outermost = true, .last = last };
		return true;
	}

	off = func->rep_size ? off % func->rep_size : off + func->skip;
	row = sframe_find_row(table->rows + func->rows, func, off);
	if (!row)
		return false;
	sframe_get_row(row, 1 << (func->type & SFRAME_FUNC_FRE_TYPE), func->type, frame);
	frame->last = last;
	return true;
}
