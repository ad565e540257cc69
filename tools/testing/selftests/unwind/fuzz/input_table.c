// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame sections for the functions and rows of an input, as an assembler would
 * write them, and their tables by both decoders.
 */
#include "fuzz.h"

/* Far enough from the code, as a linker places it. */
#define SECTION_AT	0x100000

/* A buffer to which little-endian numbers are appended. */
struct writer {
	u8	*bytes;
	size_t	size;
};

static void put(struct writer *w, u64 val, unsigned int size)
{
	for (int i = 0; i < size; i++)
		w->bytes[w->size++] = val >> 8 * i;
}

/* Two words describe a row of code that keeps the conventions. */
static bool is_plain_row(const struct row *row)
{
	return row->outermost ||
	       ((row->cfa.base == ARCH_DWARF_SP || row->cfa.base == ARCH_DWARF_FP) &&
		!row->ra.set &&
		(!row->fp.set || row->fp.base == (UNWIND_BASE_CFA | UNWIND_BASE_LOAD)));
}

static bool is_plain_func(const struct func *func)
{
	for (int i = 0; i < func->nr_rows; i++) {
		if (!is_plain_row(&process.rows[func->first_row + i]))
			return false;
	}
	return true;
}

/* Make the words of a row; returns their number. */
static unsigned int row_words(const struct row *row, bool plain, s32 *words)
{
	const struct rule *rules[] = { &row->cfa, &row->ra, &row->fp };
	unsigned int nr = 0;

	if (row->outermost)
		return 0;
	if (plain) {
		words[nr++] = row->cfa.off;
		if (row->fp.set)
			words[nr++] = row->fp.off;
		return nr;
	}
	for (int i = 0; i < ARRAY_SIZE(rules); i++) {
		const struct rule *rule = rules[i];
		unsigned int reg = rule->base & ~UNWIND_BASE_LOAD;

		if (!i || rule->set) {
			words[nr++] = (reg == UNWIND_BASE_CFA ? 0 : reg << 3 | 1) |
				      (rule->base & UNWIND_BASE_LOAD ? 2 : 0);
			words[nr++] = rule->off;
		} else if (i == 1 && row->fp.set) {
			words[nr++] = 0;
		}
	}
	return nr;
}

/* The smallest size in which all words fit, as its code. */
static unsigned int word_size(const s32 *words, unsigned int nr)
{
	unsigned int size = 0;

	for (int i = 0; i < nr; i++) {
		if (words[i] != (s16)words[i])
			return 2;
		if (words[i] != (s8)words[i])
			size = 1;
	}
	return size;
}

static void put_row(struct writer *w, const struct row *row, bool plain, unsigned int width)
{
	unsigned int nr, size;
	s32 words[6];

	nr = row_words(row, plain, words);
	size = word_size(words, nr);
	put(w, row->start, width);
	put(w, (plain && nr && row->cfa.base == ARCH_DWARF_SP) | nr << 1 | size << 5, 1);
	for (int i = 0; i < nr; i++)
		put(w, words[i], 1 << size);
}

/* Attributes and rows of a function, in version 3. */
static void put_rows(struct writer *w, const struct func *func)
{
	bool plain = is_plain_func(func), wide = func->size > 0xff;

	put(w, func->nr_rows, 2);
	put(w, wide | (func->block ? 0x10 : 0) | (func->signal ? 0x80 : 0), 1);
	put(w, !plain, 1);
	put(w, func->block, 1);
	for (int i = 0; i < func->nr_rows; i++)
		put_row(w, &process.rows[func->first_row + i], plain, wide ? 2 : 1);
}

/* Write the section of an area's file; false if it has none. */
static bool write_section(struct file_table *file, unsigned int area)
{
	const struct mapped *mapped = &process.mapped[area];
	struct writer index = { file->bytes + 28 }, rows, head = { file->bytes };
	unsigned int nr = 0;

	static_assert(sizeof(file->bytes) > 28 + MAX_FUNCS * (16 + 5) +
		      MAX_ROWS * (2 + 1 + 6 * 4));
	for (int i = 0; i < process.nr_funcs; i++)
		nr += process.funcs[i].area == area;
	if (!nr || mapped->kind < TABLE_READ || mapped->kind > TABLE_VDSO)
		return false;

	file->section.addr = mapped->addr + SECTION_AT;
	rows = (struct writer) { index.bytes + nr * 16 };
	for (int i = 0; i < process.nr_funcs; i++) {
		const struct func *func = &process.funcs[i];
		u64 here = file->section.addr + 28 + index.size;

		if (func->area != area)
			continue;
		put(&index, mapped->addr + func->off - here, 8);
		put(&index, func->size, 4);
		put(&index, rows.size, 4);
		put_rows(&rows, func);
	}
	/* Magic, version, flags, architecture, fixed offsets, no auxiliary header. */
	put(&head, 0x00f800030403dee2, 8);
	put(&head, nr, 4);
	put(&head, process.nr_rows, 4);
	put(&head, rows.size, 4);
	put(&head, 0, 4);
	put(&head, nr * 16, 4);
	file->section.bytes = file->bytes;
	file->section.size = 28 + nr * 16 + rows.size;
	file->section.text = &file->text;
	file->section.nr_text = 1;
	file->text.start = mapped->addr;
	/* The file may have more code than is mapped. */
	file->text.end = mapped->addr + AREA_PAGES * PAGE_SIZE;
	return true;
}

static void build_table(struct file_table *file)
{
	struct sframe_table measured;

	if (sframe_measure(&file->section, &measured))
		return;
	file->table = malloc(sframe_table_size(&measured));
	*file->table = measured;
	if (sframe_build(&file->section, file->table)) {
		free(file->table);
		file->table = NULL;
	}
}

/* A process has one vDSO. */
static void keep_one_vdso(void)
{
	bool found = false;

	for (int i = AREAS - 1; i >= 0; i--) {
		struct mapped *mapped = &process.mapped[i];

		if (mapped->kind != TABLE_VDSO && mapped->kind != TABLE_VDSO_32)
			continue;
		if (found)
			mapped->kind = TABLE_NO_FILE;
		found = true;
	}
}

/* Make the tables of an input, and free those of the previous input. */
void input_tables(void)
{
	sim_reset();
	sim_objects_free();
	keep_one_vdso();
	for (int i = 0; i < AREAS; i++) {
		struct file_table *file = &file_tables[i];

		free(file->table);
		plain_drop(&file->plain);
		file->table = NULL;
		file->plain = (struct plain) {};
		if (write_section(file, i)) {
			build_table(file);
			plain_read(&file->plain, &file->section);
		}
	}
}
