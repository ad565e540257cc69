// SPDX-License-Identifier: GPL-2.0
/*
 * Tables of functions and their rows: built from .eh_frame to write a section, or from a
 * section to look up addresses.
 */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

/*
 * Limit of FDEs, rows and headers to examine for a good function: real sections start with
 * one. The file-opening process of a session spends up to this, and reads up to
 * SFRAME_SECTION_MAX, for each file.
 */
#define LOOKS_MAX	(1 << 16)

/* Make room for one more entry; only memory limits @nr. */
static void *table_grow(void *array, size_t nr, size_t *space, size_t size)
{
	size_t more = *space ? *space * 2 : 1024;
	void *grown;

	if (nr < *space)
		return array;
	grown = realloc(array, more * size);
	if (grown)
		*space = more;
	return grown;
}

/**
 * table_function - add a function
 * @table:	the table
 * @start:	address of its code
 * @end:	first address after its code
 *
 * Return: the function, which is valid until the next one is added; NULL without memory.
 */
struct function *table_function(struct table *table, u64 start, u64 end)
{
	void *grown = table_grow(table->functions, table->nr, &table->space,
				 sizeof(*table->functions));

	if (!grown)
		return NULL;
	table->functions = grown;
	table->functions[table->nr] = (struct function) {
		.start = start,
		.end   = end,
		.first = table->nr_rows,
	};
	return &table->functions[table->nr++];
}

/**
 * table_row - add a row to the function that was added last
 * @table:	the table
 * @function:	the function
 * @row:	the row
 *
 * Return: 0, or -ENOMEM.
 */
int table_row(struct table *table, struct function *function, const struct row *row)
{
	void *grown = table_grow(table->rows, table->nr_rows, &table->rows_space,
				 sizeof(*table->rows));

	if (!grown)
		return -ENOMEM;
	table->rows = grown;
	table->rows[table->nr_rows++] = *row;
	function->nr++;
	function->flex |= row_is_flex(row);
	return 0;
}

static int table_compare(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/**
 * table_sort - sort functions by their addresses, which must be unique
 * @table:	the table
 */
void table_sort(struct table *table)
{
	if (table->nr)
		qsort(table->functions, table->nr, sizeof(*table->functions), table_compare);
}

/**
 * table_search - find a function
 * @table:	the table
 * @nr:		number of its functions to search, which must be sorted
 * @addr:	an address
 *
 * Return: the index of the first function that ends after @addr, or @nr.
 */
size_t table_search(const struct table *table, size_t nr, u64 addr)
{
	size_t low = 0;

	while (low < nr) {
		size_t middle = low + (nr - low) / 2;

		if (table->functions[middle].end > addr)
			nr = middle;
		else
			low = middle + 1;
	}
	return low;
}

/**
 * table_free - free a table
 * @table:	the table
 */
void table_free(struct table *table)
{
	free(table->functions);
	free(table->rows);
	free(table->lost);
}

/**
 * table_lose - record code that SFrame cannot describe
 * @table:	the table
 * @start:	address of the code, after all code lost so far
 * @end:	first address after it
 * @loss:	the reason
 *
 * Return: 0, or -ENOMEM.
 */
int table_lose(struct table *table, u64 start, u64 end, enum sframe_loss loss)
{
	void *grown = table_grow(table->lost, table->nr_lost, &table->lost_space,
				 sizeof(*table->lost));

	if (!grown)
		return -ENOMEM;
	table->lost = grown;
	table->lost[table->nr_lost++] = (struct lost) { start, end, loss };
	return 0;
}

/**
 * table_said - count bytes of functions with rows
 * @table:	the table, sorted
 * @start:	first address to count
 * @end:	first address after the range
 *
 * Return: the number of bytes.
 */
u64 table_said(const struct table *table, u64 start, u64 end)
{
	u64 bytes = 0;

	for (size_t i = table_search(table, table->nr, start); i < table->nr; i++) {
		const struct function *function = &table->functions[i];

		if (function->start >= end)
			break;
		if (function->nr)
			bytes += (function->end < end ? function->end : end) -
				 (function->start > start ? function->start : start);
	}
	return bytes;
}

static int read_damaged(struct image *image, const char *wrong)
{
	return image_error(image, EBADMSG, "has a damaged section: %s", wrong);
}

static int read_rows(struct image *image, const struct section *section,
		     const struct fde *fde, struct table *table)
{
	struct function *function;
	size_t at = fde->rows;
	const char *wrong;
	struct row row;
	u64 from = 0;

	function = table_function(table, fde->start, fde->start + fde->size);
	if (!function)
		return image_no_memory(image);
	function->block = fde->block;
	function->signal = fde->info & SFRAME_FDE_SIGNAL;
	for (u32 i = 0; i < fde->nr; i++) {
		wrong = section_next_row(section, fde, &from, &at, &row);
		if (wrong)
			return read_damaged(image, wrong);
		if (table_row(table, function, &row))
			return image_no_memory(image);
	}
	return 0;
}

/* Is the code of the FDE within one segment? */
static bool is_text(const struct image *image, const struct fde *fde)
{
	for (unsigned int i = 0; i < image->nr_text; i++) {
		const struct range *text = &image->text[i];

		if (fde->start >= text->start && fde->start < text->end &&
		    fde->size <= text->end - fde->start)
			return fde->size;
	}
	return false;
}

static int read_part(struct image *image, const struct section *section, struct table *table)
{
	struct fde fde;
	int ret;

	for (u32 i = 0; i < section->nr_fdes; i++) {
		const char *wrong = section_fde(section, i, &fde);

		if (wrong)
			return read_damaged(image, wrong);
		if (!is_text(image, &fde))
			return read_damaged(image, "a function is not in code of the file");
		if (!fde.nr && fde.info & SFRAME_FDE_SIGNAL)
			continue;
		/* Functions may share rows, so limit the total number of rows. */
		if (fde.nr > section->size || table->nr_rows > section->size)
			return read_damaged(image, "it has more rows than bytes");
		ret = read_rows(image, section, &fde, table);
		if (ret)
			return ret;
	}
	return 0;
}

/**
 * table_read - read a section
 * @image:	the file that it describes
 * @from:	its bytes, their size and address
 * @table:	gets its functions, sorted, except signal frames without rows, which
 *		describe nothing
 * @version:	set to the latest version of its parts
 *
 * Return: 0, or a negative errno.
 */
int table_read(struct image *image, const struct section *from, struct table *table,
	       unsigned int *version)
{
	struct section section = *from;
	u64 end = 0;

	*version = 0;
	section.next = 0;
	do {
		const char *wrong = section_open(&section, section.next);
		int ret;

		if (wrong)
			return read_damaged(image, wrong);
		if (section.version > *version)
			*version = section.version;
		ret = read_part(image, &section, table);
		if (ret)
			return ret;
	} while (section.next);

	table_sort(table);
	for (size_t i = 0; i < table->nr; i++) {
		if (table->functions[i].start < end)
			return read_damaged(image, "functions overlap");
		end = table->functions[i].end;
	}
	return 0;
}

/**
 * struct look - how much of a section may still be examined
 * @left:	total number of FDEs, rows and headers
 * @rows:	rows that FDEs of this part may have
 */
struct look {
	u32	left;
	u32	rows;
};

/* Does sframe_add() in the kernel accept this as a function that describes code? */
static bool is_function(struct image *image, const struct section *section, u32 index,
			struct look *look)
{
	struct fde fde;
	struct row row;
	u64 from = 0;
	size_t at;

	if (section_fde(section, index, &fde) || fde.nr > look->rows || !is_text(image, &fde))
		return false;
	at = fde.rows;
	if ((u64)fde.nr * ((1 << SFRAME_FDE_WIDTH(fde.info)) + 1) > section->rows_end - at)
		return false;
	look->rows -= fde.nr;
	for (u32 i = 0; i < fde.nr; i++) {
		if (!look->left || section_next_row(section, &fde, &from, &at, &row))
			return false;
		look->left--;
	}
	return fde.nr || !(fde.info & SFRAME_FDE_SIGNAL);
}

/* Sum up the functions in the headers of all parts, of LOOKS_MAX parts at most. */
static u32 count_functions(struct section *section)
{
	u64 nr = 0;

	section->next = 0;
	for (u32 parts = 0; parts < LOOKS_MAX; parts++) {
		if (section_open(section, section->next))
			break;
		nr += section->nr_fdes;
		if (!section->next)
			break;
	}
	return nr < UINT32_MAX ? nr : UINT32_MAX;
}

static bool has_function(struct image *image, struct section *section)
{
	struct look look = { .left = LOOKS_MAX };

	section->next = 0;
	do {
		/* Stop at the first good function: damage after it does not matter. */
		if (section_open(section, section->next))
			return false;
		look.rows = section->rows_end - section->rows;
		for (u32 i = 0; i < section->nr_fdes && look.left; i++) {
			look.left--;
			if (is_function(image, section, i, &look))
				return true;
		}
		if (look.left)
			look.left--;
	} while (section->next && look.left);
	return false;
}

/**
 * table_can_be - does a file have a section that the kernel can use?
 * @image:	the file
 * @functions:	set to the number of functions in its headers
 *
 * The kernel ignores a section that is damaged or describes no code, and uses the one
 * registered for the file instead. A section without a good function within LOOKS_MAX is
 * assumed to be damaged: if it is not, the file is converted needlessly, and the kernel
 * uses the file's own section.
 *
 * Return: true if so.
 */
bool table_can_be(struct image *image, u32 *functions)
{
	struct section section = {};
	Elf_Data *data;
	u64 offset, size;

	if (image_sframe(image, &section.addr, &offset, &size) || size > SFRAME_SECTION_MAX)
		return false;
	data = elf_getdata_rawchunk(image->elf, offset, size, ELF_T_BYTE);
	if (!data || !data->d_buf)
		return false;
	section.bytes = data->d_buf;
	section.size = data->d_size;
	*functions = count_functions(&section);
	return has_function(image, &section);
}

/**
 * table_at - look up an address
 * @table:	the section, from table_read()
 * @addr:	the address
 * @end:	in: an address after @addr; out: lowered to where the result changes
 * @function:	set to the function of @addr
 *
 * Return: the row, or NULL.
 */
const struct row *table_at(const struct table *table, u64 addr, u64 *end,
			   const struct function **function)
{
	static const struct row outermost = { .outermost = true };
	size_t index = table_search(table, table->nr, addr), low = 0, high;
	const struct function *found = &table->functions[index];
	u64 off, block = 0, next;

	*function = NULL;
	if (index == table->nr || found->start > addr) {
		if (index < table->nr && found->start < *end)
			*end = found->start;
		return NULL;
	}
	*function = found;
	off = addr - found->start;
	if (found->block) {
		block = off / found->block * found->block;
		off -= block;
	}

	/* Find the first row after the address. */
	for (high = found->nr; low < high;) {
		size_t middle = low + (high - low) / 2;

		if (table->rows[found->first + middle].start > off)
			high = middle;
		else
			low = middle + 1;
	}
	next = found->end;
	if (found->block && found->start + block + found->block < next)
		next = found->start + block + found->block;
	if (low < found->nr && found->start + block + table->rows[found->first + low].start < next)
		next = found->start + block + table->rows[found->first + low].start;
	if (next < *end)
		*end = next;
	if (!found->nr)
		return &outermost;
	return low ? &table->rows[found->first + low - 1] : NULL;
}
