// SPDX-License-Identifier: GPL-2.0
/*
 * Derive rows of PLTs from their code.
 *
 * For entries of a lazy PLT, linkers write an expression to .eh_frame that depends on the
 * address. SFrame has its own form for this: rows for each block of 16 bytes. Some linkers
 * write nothing, so PLT code without .eh_frame gets rows here, too.
 *
 * An entry is recognized by its first instructions. Unknown entries get no rows.
 */
#include <errno.h>
#include <string.h>

#include "internal.h"

/**
 * struct plt_entry - pattern of a kind of entries
 * @nr:		number of bytes to compare
 * @push:	offset of the instruction after the push, 0 if there is no push
 * @first:	it is the first entry: the entry that jumped there has pushed a number
 * @bytes:	the code; 0xcc matches any byte
 */
struct plt_entry {
	u8		nr;
	u8		push;
	bool		first;
	u8		bytes[16];
};

#define ANY4	0xcc, 0xcc, 0xcc, 0xcc

static const struct plt_entry plt_entries[] = {
	/* push GOT+8; jmp *GOT+16 */
	{ 8, 6, true, { 0xff, 0x35, ANY4, 0xff, 0x25 } },
	/* push GOT+8; bnd jmp *GOT+16 */
	{ 9, 6, true, { 0xff, 0x35, ANY4, 0xf2, 0xff, 0x25 } },
	/* jmp *slot; push number; jmp to the first */
	{ 12, 11, false, { 0xff, 0x25, ANY4, 0x68, ANY4, 0xe9 } },
	/* endbr64; push number; jmp to the first, or bnd jmp */
	{ 10, 9, false, { 0xf3, 0x0f, 0x1e, 0xfa, 0x68, ANY4, 0xe9 } },
	{ 11, 9, false, { 0xf3, 0x0f, 0x1e, 0xfa, 0x68, ANY4, 0xf2, 0xe9 } },
	/* push number; bnd jmp to the first */
	{ 7, 5, false, { 0x68, ANY4, 0xf2, 0xe9 } },
	/* endbr64; jmp *slot, or bnd jmp */
	{ 6, 0, false, { 0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25 } },
	{ 7, 0, false, { 0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25 } },
	/* jmp *slot, or bnd jmp */
	{ 8, 0, false, { 0xff, 0x25, ANY4, 0x66, 0x90 } },
	{ 3, 0, false, { 0xf2, 0xff, 0x25 } },
};

/**
 * struct plt - a PLT section
 * @code:	its bytes
 * @addr:	its address
 * @size:	its size
 * @block:	size of an entry
 */
struct plt {
	const u8	*code;
	u64	addr;
	u64	size;
	unsigned int	block;
};

static const struct plt_entry *plt_entry(const struct plt *plt, u64 at)
{
	for (unsigned int i = 0; i < sizeof(plt_entries) / sizeof(*plt_entries); i++) {
		const struct plt_entry *entry = &plt_entries[i];
		bool same = entry->nr <= plt->block && (!entry->first || !at);

		for (unsigned int j = 0; same && j < entry->nr; j++)
			same = entry->bytes[j] == 0xcc || entry->bytes[j] == plt->code[at + j];
		if (same)
			return entry;
	}
	return NULL;
}

/* Rows are the same for all entries of a kind. */
static int plt_function(struct table *table, u64 start, u64 end,
			const struct plt_entry *entry, unsigned int block)
{
	struct function *function = table_function(table, start, end);
	struct row row = {
		.cfa = { REG_SP, entry->first ? 16 : 8 },
		.ra  = { BASE_CFA | BASE_LOAD, SFRAME_RA_OFF },
		.fp  = { .base = BASE_SAME },
	};

	if (!function || table_row(table, function, &row))
		return -ENOMEM;
	if (!entry->first)
		function->block = block;
	if (!entry->push)
		return 0;
	row.start = entry->push;
	row.cfa.off += 8;
	return table_row(table, function, &row);
}

/**
 * plt_fill - add rows for entries without rows
 * @table:	gets functions
 * @plt:	the section
 * @start:	offset in it of a hole without rows
 * @end:	end of the hole
 *
 * Return: number of bytes that have got rows, or -ENOMEM.
 */
static s64 plt_fill(struct table *table, const struct plt *plt, u64 start,
		    u64 end)
{
	u64 at = (start + plt->block - 1) / plt->block * plt->block, next;
	s64 bytes = 0;

	for (; at + plt->block <= end; at = next) {
		const struct plt_entry *entry = plt_entry(plt, at);

		next = at + plt->block;
		if (!entry)
			continue;
		while (!entry->first && next + plt->block <= end && plt_entry(plt, next) == entry)
			next += plt->block;
		if (plt_function(table, plt->addr + at, plt->addr + next, entry, plt->block))
			return -ENOMEM;
		bytes += next - at;
	}
	return bytes;
}

/* Open a PLT section. Returns false unless all of it is code of the file. */
static bool plt_open(struct image *image, const char *name, struct plt *plt)
{
	const struct range *text;
	Elf_Data *data;
	GElf_Shdr shdr;

	if (!image_section(image, name, &shdr) || shdr.sh_type != SHT_PROGBITS ||
	    shdr.sh_offset > image->size || shdr.sh_size > image->size - shdr.sh_offset)
		return false;
	text = image_text(image, shdr.sh_addr);
	if (!text || shdr.sh_size > text->end - shdr.sh_addr || shdr.sh_size > UINT32_MAX)
		return false;
	data = elf_getdata_rawchunk(image->elf, shdr.sh_offset, shdr.sh_size, ELF_T_BYTE);
	if (!data || !data->d_buf || data->d_size != shdr.sh_size)
		return false;

	*plt = (struct plt) {
		.code  = data->d_buf,
		.addr  = shdr.sh_addr,
		.size  = shdr.sh_size,
		/* Only entries of .plt.got may be shorter. */
		.block = shdr.sh_entsize == 8 && !strcmp(name, ".plt.got") ? 8 : 16,
	};
	return true;
}

/* Fill the holes between @nr sorted functions in a section. */
static int plt_holes(struct table *table, size_t nr, const struct plt *plt,
		     struct sframe_stats *stats)
{
	size_t next = table_search(table, nr, plt->addr);
	u64 at = 0;

	while (at < plt->size) {
		u64 end = plt->size, after = plt->size;
		s64 bytes;

		if (next < nr && table->functions[next].start < plt->addr + plt->size) {
			const struct function *function = &table->functions[next++];

			after = function->end - plt->addr;
			end = function->start > plt->addr ? function->start - plt->addr : 0;
		}
		bytes = plt_fill(table, plt, at, end);
		if (bytes < 0)
			return bytes;
		stats->plt += bytes;
		at = after;
	}
	return 0;
}

/**
 * plt_add - add missing rows of PLTs
 * @image:	the file
 * @table:	its functions, sorted; stays sorted
 * @stats:	@stats->plt is set
 *
 * Return: 0, or a negative errno.
 */
int plt_add(struct image *image, struct table *table, struct sframe_stats *stats)
{
	static const char * const names[] = { ".plt", ".plt.sec", ".plt.got", ".plt.bnd" };
	struct plt plt;

	for (unsigned int i = 0; i < sizeof(names) / sizeof(*names); i++) {
		errno = 0;
		if (!plt_open(image, names[i], &plt)) {
			if (errno == ENOMEM)
				return image_no_memory(image);
			continue;
		}
		/* Sections of a hostile file may overlap. */
		table_sort(table);
		if (plt_holes(table, table->nr, &plt, stats))
			return image_no_memory(image);
	}
	table_sort(table);
	return 0;
}
