// SPDX-License-Identifier: GPL-2.0
/*
 * Encode an SFrame section: header, FDEs in order of addresses, rows in order of FDEs, with
 * each number in as few bytes as possible.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Start, info, and six words of 4 bytes. */
#define ROW_SIZE_MAX	(4 + 1 + 6 * 4)

/**
 * struct words - data words of a row
 * @val:	the words, signed or unsigned as in the format
 * @nr:		number of words
 * @size:	size of each word: 1, 2 or 4
 */
struct words {
	s64		val[6];
	unsigned int	nr;
	unsigned int	size;
};

static u8 *put(u8 *to, u64 val, unsigned int size)
{
	for (unsigned int i = 0; i < size; i++)
		*to++ = val >> 8 * i;
	return to;
}

/* The size of a row's start, as log2 of its bytes. */
static unsigned int width_of(u32 start)
{
	return start <= UINT8_MAX ? 0 : start <= UINT16_MAX ? 1 : 2;
}

static void add_offset(struct words *words, s32 off)
{
	unsigned int size = off == (s8)off ? 1 : off == (s16)off ? 2 : 4;

	words->val[words->nr++] = off;
	if (size > words->size)
		words->size = size;
}

/* Register numbers are small, so a control word always fits in a byte. */
static void add_rule(struct words *words, const struct rule *rule)
{
	unsigned int control = rule->base & BASE_LOAD ? SFRAME_CTRL_LOAD : 0;

	if (!(rule->base & BASE_CFA))
		control |= SFRAME_CTRL_REG | (rule->base & ~BASE_LOAD) << SFRAME_CTRL_SHIFT;
	words->val[words->nr++] = control;
	add_offset(words, rule->off);
}

static bool is_fixed_ra(const struct rule *rule)
{
	return rule->base == (BASE_CFA | BASE_LOAD) && rule->off == SFRAME_RA_OFF;
}

/* Add CFA, return address and frame pointer; 0 means no rule, and is omitted at the end. */
static void flex_words(struct words *words, const struct row *row)
{
	bool fp = row->fp.base != BASE_SAME;

	add_rule(words, &row->cfa);
	if (!is_fixed_ra(&row->ra))
		add_rule(words, &row->ra);
	else if (fp)
		words->val[words->nr++] = 0;
	if (fp)
		add_rule(words, &row->fp);
}

static void plain_words(struct words *words, const struct row *row)
{
	add_offset(words, row->cfa.off);
	if (row->fp.base != BASE_SAME)
		add_offset(words, row->fp.off);
}

static u8 *put_row(u8 *to, const struct row *row, unsigned int width, bool flex)
{
	struct words words = { .size = 1 };
	u8 info;

	to = put(to, row->start, 1 << width);
	if (row->outermost)
		return put(to, 0, 1);

	if (flex)
		flex_words(&words, row);
	else
		plain_words(&words, row);
	info = words.nr << 1 | (words.size >> 1) << 5;
	if (!flex && row->cfa.base == REG_SP)
		info |= SFRAME_ROW_SP;
	to = put(to, info, 1);
	for (unsigned int i = 0; i < words.nr; i++)
		to = put(to, words.val[i], words.size);
	return to;
}

static u8 fde_info(const struct table *table, const struct function *function)
{
	u8 info = 0;

	if (function->nr)
		info = width_of(table->rows[function->first + function->nr - 1].start);
	if (function->block)
		info |= SFRAME_FDE_PCMASK;
	if (function->signal)
		info |= SFRAME_FDE_SIGNAL;
	return info;
}

/* Write the attribute, if the version has one, and the rows. */
static u8 *put_rows(u8 *to, const struct table *table,
		    const struct function *function, unsigned int version)
{
	const struct row *rows = &table->rows[function->first];
	u8 info = fde_info(table, function);

	if (version == 3) {
		to = put(to, function->nr, 2);
		to = put(to, info, 1);
		to = put(to, function->flex ? SFRAME_FDE_FLEX : 0, 1);
		to = put(to, function->block, 1);
	}
	for (u32 i = 0; i < function->nr; i++)
		to = put_row(to, &rows[i], SFRAME_FDE_WIDTH(info), function->flex);
	return to;
}

/* Write an FDE without its rows, which are at @rows. */
static u8 *put_fde(u8 *to, const struct table *table,
		   const struct function *function, unsigned int version, s64 start,
		   size_t rows)
{
	to = put(to, start, version == 3 ? 8 : 4);
	to = put(to, function->end - function->start, 4);
	to = put(to, rows, 4);
	if (version == 3)
		return to;
	to = put(to, function->nr, 4);
	to = put(to, fde_info(table, function), 1);
	to = put(to, function->block, 1);
	return put(to, 0, 2);
}

static void put_header(u8 *to, const struct table *table,
		       const struct sframe_stats *stats, unsigned int version,
		       size_t fdes_size, size_t rows_size)
{
	to = put(to, SFRAME_MAGIC, 2);
	to = put(to, version, 1);
	to = put(to, SFRAME_F_SORTED | SFRAME_F_PCREL, 1);
	to = put(to, SFRAME_ABI_AMD64, 1);
	to = put(to, 0, 1);
	to = put(to, SFRAME_RA_OFF, 1);
	to = put(to, 0, 1);
	to = put(to, table->nr, 4);
	to = put(to, stats->rows, 4);
	to = put(to, rows_size, 4);
	to = put(to, 0, 4);
	put(to, fdes_size, 4);
}

/*
 * Write all but the header. Returns the end, or a position beyond the maximum
 * size; NULL if the section is too far from code.
 */
static u8 *put_functions(u8 *bytes, const struct table *table, unsigned int version,
			 size_t fdes_size, u64 addr)
{
	u8 *fde = bytes + SFRAME_HEADER_SIZE;
	u8 *rows = fde + fdes_size, *to = rows;

	for (size_t i = 0; i < table->nr && to - bytes <= SFRAME_SECTION_MAX; i++) {
		const struct function *function = &table->functions[i];
		s64 start = function->start - (addr + (fde - bytes));

		if (version < 3 && start != (s32)start)
			return NULL;
		fde = put_fde(fde, table, function, version, start, to - rows);
		to = put_rows(to, table, function, version);
	}
	return to;
}

/**
 * encode - write a section
 * @image:	gets an error message
 * @table:	functions to write, sorted
 * @options:	version and address
 * @out:	gets the section; @out->stats contains the number of rows
 *
 * Return: 0, or a negative errno.
 */
int encode(struct image *image, const struct table *table,
	   const struct sframe_options *options, struct sframe_output *out)
{
	unsigned int version = options->version ?: 3;
	size_t fdes_size = table->nr * (version == 3 ? SFRAME_FDE_V3_SIZE : SFRAME_FDE_V2_SIZE);
	size_t space = SFRAME_HEADER_SIZE + fdes_size + table->nr * SFRAME_ATTR_SIZE +
		       out->stats.rows * ROW_SIZE_MAX;
	u8 *bytes, *end;

	if (SFRAME_HEADER_SIZE + fdes_size > SFRAME_SECTION_MAX)
		goto too_large;
	/* put_functions() may exceed the maximum size by one function. */
	if (space > SFRAME_SECTION_MAX + SFRAME_ROWS_MAX * ROW_SIZE_MAX + SFRAME_ATTR_SIZE)
		space = SFRAME_SECTION_MAX + SFRAME_ROWS_MAX * ROW_SIZE_MAX + SFRAME_ATTR_SIZE;
	bytes = malloc(space);
	if (!bytes)
		return image_no_memory(image);
	end = put_functions(bytes, table, version, fdes_size, options->addr);
	if (!end) {
		free(bytes);
		return image_error(image, ERANGE,
				   "has code too far from the section for SFrame version 2");
	}
	out->size = end - bytes;
	if (out->size > SFRAME_SECTION_MAX) {
		free(bytes);
		goto too_large;
	}
	put_header(bytes, table, &out->stats, version, fdes_size,
		   out->size - SFRAME_HEADER_SIZE - fdes_size);
	out->bytes = realloc(bytes, out->size) ?: bytes;
	return 0;

too_large:
	out->size = 0;
	return image_error(image, EFBIG, "needs a section larger than %u MiB",
			   SFRAME_SECTION_MAX >> 20);
}
