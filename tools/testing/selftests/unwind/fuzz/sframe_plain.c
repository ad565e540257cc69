// SPDX-License-Identifier: GPL-2.0
/*
 * A slow and plain SFrame decoder: it reads a section from its first byte to its last,
 * and looks at every row to find one. It shares only the types of the results with the
 * kernel's decoder, so each one tests the other.
 */
#include "sframe_plain.h"

#define FRAME_SP	7
#define FRAME_FP	6

struct cursor {
	const u8	*bytes;
	u64		at;
	u64		end;
	bool		bad;
};

/* A part of a section with its own header. */
struct piece {
	unsigned int	version;
	unsigned int	flags;
	u64		at;
	u64		fdes;
	u64		nr_fdes;
	u64		rows;
	u64		rows_end;
	u64		rows_left;
};

/* The words of a row, unsigned and signed. */
struct words {
	u32		raw[15];
	s32		val[15];
	unsigned int	nr;
	unsigned int	next;
	bool		bad;
};

static u64 take(struct cursor *c, unsigned int size)
{
	u64 val = 0;

	if (c->at > c->end || c->end - c->at < size) {
		c->bad = true;
		return 0;
	}
	for (int i = 0; i < size; i++)
		val |= (u64)c->bytes[c->at++] << 8 * i;
	return val;
}

static s64 take_signed(struct cursor *c, unsigned int size)
{
	u64 val = take(c, size);

	if (size < 8 && val >= 1ULL << (8 * size - 1))
		return (s64)val - (s64)(1ULL << 8 * size);
	return val;
}

static int read_header(const struct sframe_section *section, u64 at, struct piece *piece)
{
	struct cursor c = { section->bytes, at, section->size };
	u64 magic = take(&c, 2), known, abi, fp, rows_size, aux;
	s64 ra;

	piece->at = at;
	piece->version = take(&c, 1);
	piece->flags = take(&c, 1);
	abi = take(&c, 1);
	fp = take(&c, 1);
	ra = take_signed(&c, 1);
	aux = take(&c, 1);
	piece->nr_fdes = take(&c, 4);
	take(&c, 4);
	rows_size = take(&c, 4);
	piece->fdes = at + 28 + aux + take(&c, 4);
	piece->rows = at + 28 + aux + take(&c, 4);
	piece->rows_end = piece->rows + rows_size;
	/* Read no more rows than they have bytes: functions may share rows. */
	piece->rows_left = rows_size;

	if (c.bad || magic != 0xdee2)
		return -EINVAL;
	known = piece->version == 1 ? 3 : piece->version == 2 ? 7 : 5;
	if (!piece->version || piece->version > 3 || piece->flags & ~known ||
	    abi != 3 || fp || ra != -8)
		return -EOPNOTSUPP;
	if (piece->fdes + piece->nr_fdes * (piece->version == 1 ? 17 :
					    piece->version == 2 ? 20 : 16) > piece->rows ||
	    piece->rows_end > section->size)
		return -EINVAL;
	return 0;
}

static bool in_text(const struct sframe_section *section, const struct plain_func *func)
{
	for (int i = 0; i < section->nr_text; i++) {
		const struct sframe_range *text = &section->text[i];

		if (func->start >= text->start && func->start < text->end &&
		    func->size <= text->end - func->start)
			return func->size;
	}
	return false;
}

/* Read an FDE, except for its rows. */
static struct plain_func read_fde(const struct sframe_section *section, struct piece *piece,
				  struct cursor *fdes)
{
	struct cursor attr = { section->bytes, 0, piece->rows_end };
	unsigned int info, type = 0, padding = 0;
	u64 base = section->addr;
	struct plain_func func = { .repeat = 16, .end = piece->rows_end };

	base += piece->flags & 4 || !(piece->flags & 1) ? fdes->at : piece->at;
	func.start = base + take_signed(fdes, piece->version == 3 ? 8 : 4);
	func.size = take(fdes, 4);
	func.rows = piece->rows + take(fdes, 4);
	if (piece->version == 3) {
		attr.at = func.rows;
		func.nr_rows = take(&attr, 2);
		info = take(&attr, 1);
		type = take(&attr, 1);
		func.repeat = take(&attr, 1);
		func.rows = attr.at;
	} else {
		func.nr_rows = take(fdes, 4);
		info = take(fdes, 1);
	}
	if (piece->version == 2) {
		func.repeat = take(fdes, 1);
		padding = take(fdes, 2);
	}

	func.width = 1 << (info & 3);
	func.flex = type == 1;
	func.signal = info & 0x80;
	func.good = !attr.bad && !padding && type <= 1 && (info & 0xf) <= 2 &&
		    !(info & 0x60) && (!func.signal || piece->version == 3) &&
		    func.rows <= func.end && func.nr_rows <= piece->rows_left &&
		    func.nr_rows * (func.width + 1) <= func.end - func.rows &&
		    in_text(section, &func);
	if (!(info & 0x10))
		func.repeat = 0;
	else if (!func.repeat || func.nr_rows > func.repeat)
		func.good = false;
	if (func.good)
		piece->rows_left -= func.nr_rows;
	return func;
}

/* Read the next rule of a flexible row; false if the row has no more. */
static bool read_rule(struct words *words, u8 *base, s32 *off)
{
	u32 control = words->next < words->nr ? words->raw[words->next++] : 0;

	if (!control)
		return false;
	if (words->next == words->nr || control & 4 || control >> 3 > 15 ||
	    (!(control & 1) && control >> 3)) {
		words->bad = true;
		return false;
	}
	*base = (control & 1 ? control >> 3 : UNWIND_BASE_CFA) |
		(control & 2 ? UNWIND_BASE_LOAD : 0);
	*off = words->val[words->next++];
	return true;
}

static bool read_words(const struct plain_func *func, struct words *words, bool sp,
		       struct unwind_user_frame *frame)
{
	if (!func->flex) {
		frame->cfa = sp ? FRAME_SP : FRAME_FP;
		frame->cfa_off = words->val[0];
		if (words->nr > 1) {
			frame->fp = UNWIND_BASE_CFA | UNWIND_BASE_LOAD;
			frame->fp_off = words->val[1];
		}
		return words->nr < 3;
	}
	if (sp || !read_rule(words, &frame->cfa, &frame->cfa_off) || frame->cfa & UNWIND_BASE_CFA)
		return false;
	read_rule(words, &frame->ra, &frame->ra_off);
	read_rule(words, &frame->fp, &frame->fp_off);
	return !words->bad && words->next == words->nr;
}

/* Read the row at @at and advance @at; false if the row is invalid. */
bool plain_next_row(const struct plain *plain, const struct plain_func *func, u64 *at,
		    struct plain_row *row)
{
	struct cursor c = { plain->section->bytes, *at, func->end };
	struct words words = {};
	unsigned int info, size;

	row->start = take(&c, func->width);
	info = take(&c, 1);
	words.nr = info >> 1 & 0xf;
	size = 1 << (info >> 5 & 3);
	row->frame = (struct unwind_user_frame) {
		.ra = UNWIND_BASE_CFA | UNWIND_BASE_LOAD,
		.ra_off = -8,
		.fp = UNWIND_BASE_SAME,
		.signal = func->signal,
		.outermost = !words.nr,
	};
	if (words.nr && (size > 4 || info & 0x80))
		return false;
	for (int i = 0; i < words.nr; i++) {
		words.raw[i] = take(&c, size);
		c.at -= size;
		words.val[i] = take_signed(&c, size);
	}
	*at = c.at;
	if (c.bad)
		return false;
	return words.nr ? read_words(func, &words, info & 1, &row->frame) : !info;
}

static bool has_good_rows(const struct plain *plain, const struct plain_func *func)
{
	u32 limit = func->repeat ?: func->size;
	struct plain_row row;
	u64 at = func->rows;
	s64 last = -1;

	for (u64 i = 0; i < func->nr_rows; i++) {
		if (!plain_next_row(plain, func, &at, &row) || row.start <= last ||
		    row.start >= limit)
			return false;
		last = row.start;
	}
	return true;
}

/* The frame at an address that @func covers; false if it has none. */
bool plain_frame(const struct plain *plain, const struct plain_func *func, u64 addr,
		 struct unwind_user_frame *frame)
{
	u64 off = addr - func->start, at = func->rows;
	struct plain_row row;
	bool found = false;

	if (func->repeat)
		off %= func->repeat;
	*frame = (struct unwind_user_frame) { .outermost = true };
	if (!func->nr_rows)
		return true;
	for (u64 i = 0; i < func->nr_rows; i++) {
		plain_next_row(plain, func, &at, &row);
		if (row.start <= off) {
			*frame = row.frame;
			found = true;
		}
	}
	return found;
}

/* Select the functions of a table: those with good rows, within 4 GiB of the first one. */
static void judge(struct plain *plain)
{
	u64 base = U64_MAX;

	for (int i = 0; i < plain->nr; i++) {
		if (plain->funcs[i].good)
			base = min(base, plain->funcs[i].start);
	}
	for (int i = 0; i < plain->nr; i++) {
		struct plain_func *func = &plain->funcs[i];

		func->good = func->good && has_good_rows(plain, func) &&
			     func->start + func->size - base <= U32_MAX;
		func->silent = func->signal && !func->nr_rows;
		plain->functions += func->good;
		plain->bad += !func->good;
	}
}

/* Does another header follow this part? Other bytes may follow as well. */
static bool has_next(const struct sframe_section *section, const struct piece *piece, u64 *at)
{
	struct cursor c = { section->bytes, (piece->rows_end + 7) / 8 * 8, section->size };

	*at = c.at;
	return c.at + 28 <= c.end && take(&c, 2) == 0xdee2;
}

void plain_read(struct plain *plain, const struct sframe_section *section)
{
	struct piece piece;
	bool any = false;
	u64 at = 0;

	*plain = (struct plain) { .section = section };
	do {
		struct cursor c = { section->bytes, 0, section->size };

		plain->error = read_header(section, at, &piece);
		if (plain->error) {
			plain->bad++;
			break;
		}
		plain->versions |= 1 << piece.version;
		plain->funcs = realloc(plain->funcs,
				       (plain->nr + piece.nr_fdes + 1) * sizeof(*plain->funcs));
		c.at = piece.fdes;
		for (u64 i = 0; i < piece.nr_fdes; i++)
			plain->funcs[plain->nr++] = read_fde(section, &piece, &c);
	} while (has_next(section, &piece, &at));

	judge(plain);
	for (int i = 0; i < plain->nr; i++)
		any |= plain->funcs[i].good && !plain->funcs[i].silent;
	if (plain->versions)
		plain->error = any ? 0 : -ENODATA;
}

void plain_drop(struct plain *plain)
{
	free(plain->funcs);
}
