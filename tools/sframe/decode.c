// SPDX-License-Identifier: GPL-2.0
/*
 * Decode SFrame sections of any version.
 *
 * Sections are not trusted. Each function here reads only bytes within the section, and
 * returns a message about what is wrong. Decoding is strict: all words of a row must be
 * used, and unknown bits are errors.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static u64 get(const u8 *from, unsigned int size)
{
	u64 val = 0;

	for (unsigned int i = 0; i < size; i++)
		val |= (u64)from[i] << 8 * i;
	return val;
}

static s64 get_signed(const u8 *from, unsigned int size)
{
	u64 val = get(from, size), sign = 1ULL << (8 * size - 1);

	return (val ^ sign) - sign;
}

static size_t fde_size(const struct section *section)
{
	return section->version == 1 ? SFRAME_FDE_V1_SIZE :
	       section->version == 2 ? SFRAME_FDE_V2_SIZE : SFRAME_FDE_V3_SIZE;
}

/* Find a header after this part: linkers that do not know the format concatenate parts. */
static size_t section_next(const struct section *section)
{
	size_t next = (section->rows_end + 7) & ~(size_t)7;

	if (next > section->size || section->size - next < SFRAME_HEADER_SIZE ||
	    get(section->bytes + next, 2) != SFRAME_MAGIC)
		return 0;
	return next;
}

static const char *section_header(struct section *section)
{
	const u8 *header = section->bytes + section->at;
	static const u8 flags[] = {
		[1] = SFRAME_F_SORTED | SFRAME_F_FP,
		[2] = SFRAME_F_SORTED | SFRAME_F_FP | SFRAME_F_PCREL,
		[3] = SFRAME_F_SORTED | SFRAME_F_PCREL,
	};

	if (get(header, 2) != SFRAME_MAGIC)
		return "it does not begin with the number that all have";
	section->version = header[2];
	section->flags = header[3];
	section->ra_off = header[6];
	if (section->version < 1 || section->version > 3)
		return "its version is not known";
	if (section->flags & ~flags[section->version])
		return "it has flags that are not known";
	if (header[4] != SFRAME_ABI_AMD64)
		return "it is for another architecture";
	if (header[5] || section->ra_off != SFRAME_RA_OFF)
		return "its fixed offsets are not those of x86-64";
	return NULL;
}

/**
 * section_open - read the header of a section, or of a part of it
 * @section:	with @section->bytes, @section->size and @section->addr; the other fields
 *		are set
 * @at:		offset of the header
 *
 * Return: NULL, or what is wrong.
 */
const char *section_open(struct section *section, size_t at)
{
	const u8 *header = section->bytes + at;
	u64 left, fdes, rows, nr;
	const char *wrong;

	if (at > section->size || section->size - at < SFRAME_HEADER_SIZE)
		return "it is shorter than a header";
	section->at = at;
	wrong = section_header(section);
	if (wrong)
		return wrong;

	left = section->size - at;
	section->nr_fdes = get(header + 8, 4);
	section->nr_rows = get(header + 12, 4);
	nr = get(header + 16, 4);
	fdes = SFRAME_HEADER_SIZE + header[7] + get(header + 20, 4);
	rows = SFRAME_HEADER_SIZE + header[7] + get(header + 24, 4);
	if (rows + nr > left)
		return "it is truncated: rows are beyond its end";
	if (fdes + section->nr_fdes * fde_size(section) > rows)
		return "its FDEs and its rows overlap";
	section->fdes = at + fdes;
	section->rows = at + rows;
	section->rows_end = section->rows + nr;
	section->next = section_next(section);
	return NULL;
}

/* Without SFRAME_F_PCREL, starts are relative to themselves in sections not sorted by ld. */
static u64 fde_base(const struct section *section, size_t at)
{
	if (section->flags & SFRAME_F_PCREL || !(section->flags & SFRAME_F_SORTED))
		return section->addr + at;
	return section->addr + section->at;
}

static const char *fde_attribute(const struct section *section, struct fde *fde)
{
	const u8 *attr = section->bytes + fde->rows;

	if (section->rows_end - fde->rows < SFRAME_ATTR_SIZE)
		return "its attribute is beyond the end";
	fde->nr = get(attr, 2);
	fde->info = attr[2];
	fde->type = attr[3];
	fde->block = attr[4];
	fde->rows += SFRAME_ATTR_SIZE;
	return NULL;
}

static const char *fde_check(const struct section *section, struct fde *fde)
{
	u8 unused = SFRAME_FDE_UNUSED | (section->version < 3 ? SFRAME_FDE_SIGNAL : 0);

	if (SFRAME_FDE_WIDTH(fde->info) > 2 || (fde->info & unused) ||
	    fde->type > SFRAME_FDE_FLEX)
		return "it is of a kind that is not known";
	if (!(fde->info & SFRAME_FDE_PCMASK))
		fde->block = 0;
	else if (!fde->block)
		return "its blocks are empty";
	return NULL;
}

/**
 * section_fde - read an FDE
 * @section:	the section
 * @index:	its index, less than @section->nr_fdes
 * @fde:	set
 *
 * Return: NULL, or what is wrong.
 */
const char *section_fde(const struct section *section, u32 index, struct fde *fde)
{
	size_t at = section->fdes + index * fde_size(section);
	unsigned int wide = section->version == 3 ? 8 : 4;
	const u8 *from = section->bytes + at;
	const char *wrong = NULL;
	u64 rows;

	*fde = (struct fde) {
		.start = fde_base(section, at) + get_signed(from, wide),
		.size  = get(from + wide, 4),
		.block = SFRAME_V1_BLOCK,
	};
	rows = get(from + wide + 4, 4);
	if (rows > section->rows_end - section->rows)
		return "its rows are beyond the end";
	fde->rows = section->rows + rows;
	if (section->version == 3) {
		wrong = fde_attribute(section, fde);
	} else {
		fde->nr = get(from + 12, 4);
		fde->info = from[16];
	}
	if (section->version == 2) {
		fde->block = from[17];
		if (get(from + 18, 2))
			wrong = "it has something where nothing is to be";
	}
	return wrong ?: fde_check(section, fde);
}

/**
 * struct words - data words of a row
 * @at:		the first word
 * @nr:		number of words
 * @size:	size of each word
 * @next:	index of the first unused word
 */
struct words {
	const u8	*at;
	unsigned int	nr;
	unsigned int	size;
	unsigned int	next;
};

/* Decode the next rule of a flexible row; leaves @rule unchanged if there is none. */
static bool take_rule(struct words *words, struct rule *rule)
{
	const u8 *at = words->at + words->next * words->size;
	u32 control, reg;

	if (words->next == words->nr)
		return true;
	control = get(at, words->size);
	reg = control >> SFRAME_CTRL_SHIFT;
	words->next++;
	if (!control)
		return true;
	if (words->next == words->nr || control & SFRAME_CTRL_UNUSED ||
	    reg >= REG_NR || (reg && !(control & SFRAME_CTRL_REG)))
		return false;
	rule->base = (control & SFRAME_CTRL_REG ? reg : BASE_CFA) |
		     (control & SFRAME_CTRL_LOAD ? BASE_LOAD : 0);
	rule->off = get_signed(at + words->size, words->size);
	words->next++;
	return true;
}

static const char *flex_row(struct words *words, struct row *row, bool *padded)
{
	row->cfa.base = BASE_CFA;
	if (!take_rule(words, &row->cfa) || (row->cfa.base & BASE_CFA))
		return "the CFA is from no register";
	*padded = words->next < words->nr && !get(words->at + words->next * words->size,
						  words->size);
	if (!take_rule(words, &row->ra) || !take_rule(words, &row->fp))
		return "a row has a rule that is not known";
	return words->next == words->nr ? NULL : "a row has more than its rules";
}

static const char *plain_row(const struct words *words, u8 info, struct row *row)
{
	if (words->nr > 2)
		return "a row has more than its rules";
	row->cfa.base = info & SFRAME_ROW_SP ? REG_SP : REG_FP;
	row->cfa.off = get_signed(words->at, words->size);
	if (words->nr == 2) {
		row->fp.base = BASE_CFA | BASE_LOAD;
		row->fp.off = get_signed(words->at + words->size, words->size);
	}
	return NULL;
}

/**
 * section_row - read a row
 * @section:	the section
 * @fde:	FDE of the row
 * @at:		offset of the row; set to the offset of the next one
 * @row:	set
 * @padded:	set to whether a zero word stands for the return address
 *
 * Return: NULL, or what is wrong.
 */
const char *section_row(const struct section *section, const struct fde *fde, size_t *at,
			struct row *row, bool *padded)
{
	unsigned int width = 1 << SFRAME_FDE_WIDTH(fde->info);
	size_t left = section->rows_end - *at;
	struct words words = {};
	u8 info;

	*padded = false;
	if (left < width + 1)
		return "a row is beyond the end";
	info = section->bytes[*at + width];
	*row = (struct row) {
		.start	   = get(section->bytes + *at, width),
		.outermost = !SFRAME_ROW_NR(info),
		.ra	   = { BASE_CFA | BASE_LOAD, SFRAME_RA_OFF },
		.fp	   = { .base = BASE_SAME },
	};
	*at += width + 1;
	if (row->outermost)
		return info ? "a row without words has something else" : NULL;

	words.nr = SFRAME_ROW_NR(info);
	words.size = 1 << SFRAME_ROW_SIZE(info);
	words.at = section->bytes + *at;
	if (words.size > 4 || info & SFRAME_ROW_MANGLED ||
	    (fde->type == SFRAME_FDE_FLEX && info & SFRAME_ROW_SP))
		return "a row is of a kind that is not known";
	if (left - width - 1 < words.nr * words.size)
		return "a row is beyond the end";
	*at += words.nr * words.size;
	return fde->type == SFRAME_FDE_FLEX ? flex_row(&words, row, padded) :
					      plain_row(&words, info, row);
}

/**
 * section_next_row - read the next row of a function
 * @section:	the section
 * @fde:	the function
 * @from:	lowest start of the row, 0 for the first row; set for the next row
 * @at:		as for section_row()
 * @row:	set
 *
 * Rows must ascend, and start within the function or its block.
 *
 * Return: NULL, or what is wrong.
 */
const char *section_next_row(const struct section *section, const struct fde *fde, u64 *from,
			     size_t *at, struct row *row)
{
	bool padded;
	const char *wrong = section_row(section, fde, at, row, &padded);

	if (!wrong && (row->start < *from || row->start >= (fde->block ?: fde->size)))
		wrong = "rows do not ascend in their function";
	*from = (u64)row->start + 1;
	return wrong;
}

/* Check an FDE with rows from @at on; sets @at to their end. Returns their number, or -1. */
static s64 whole_rows(const struct section *section, u32 index, u64 *end, size_t *at)
{
	size_t attr = section->version == 3 ? SFRAME_ATTR_SIZE : 0;
	u64 from = 0;
	struct fde fde;
	struct row row;

	if (section_fde(section, index, &fde) || fde.rows != *at + attr || !fde.size ||
	    fde.size > INT64_MAX - fde.start || fde.start < *end)
		return -1;
	*end = fde.start + fde.size;
	*at = fde.rows;
	for (u32 i = 0; i < fde.nr; i++) {
		if (section_next_row(section, &fde, &from, at, &row))
			return -1;
	}
	return fde.nr;
}

/**
 * section_has_size - is this the size of a section from encode()?
 * @header:	its first SFRAME_HEADER_SIZE bytes
 * @size:	the size
 *
 * Return: true if so.
 */
bool section_has_size(const u8 *header, size_t size)
{
	struct section section = { .bytes = header };
	u64 fdes;

	if (section_header(&section))
		return false;
	fdes = get(header + 8, 4) * fde_size(&section);
	return fdes && !header[7] && !get(header + 20, 4) && get(header + 24, 4) == fdes &&
	       SFRAME_HEADER_SIZE + fdes + get(header + 16, 4) == size;
}

/**
 * section_is_whole - is this a complete section from encode()?
 * @bytes:	the section
 * @size:	its size
 *
 * Does not find all damage, but detects a missing end, and zeroes in place of blocks that
 * were not written: FDEs must ascend, and so must rows, each of which must start where the
 * one before it ends, up to the last byte.
 *
 * Return: true if so.
 */
bool section_is_whole(const u8 *bytes, size_t size)
{
	struct section section = { .bytes = bytes, .size = size };
	u64 end = 0, rows = 0;
	size_t at;

	if (section_open(&section, 0) || !section_has_size(bytes, size))
		return false;
	at = section.rows;
	for (u32 i = 0; i < section.nr_fdes; i++) {
		s64 nr = whole_rows(&section, i, &end, &at);

		if (nr < 0)
			return false;
		rows += nr;
	}
	return at == size && rows == section.nr_rows;
}
