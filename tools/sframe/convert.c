// SPDX-License-Identifier: GPL-2.0
/*
 * Convert an ELF file to an SFrame section: read the rows of each function with libdw, add
 * PLTs, and encode the section.
 *
 * A function is split where SFrame cannot express a row of .eh_frame; each part gets its own
 * FDE. The output depends only on the file and the options.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

/* May a row be added to the function before it? */
static bool convert_fits(const struct function *function, const struct cfi_cursor *cursor)
{
	return function && function->nr && function->nr < SFRAME_ROWS_MAX &&
	       function->signal == cursor->signal &&
	       cursor->end - function->start <= UINT32_MAX;
}

static int convert_row(struct table *table, const struct cfi_cursor *cursor, struct row *row,
		       struct function **function)
{
	if (!convert_fits(*function, cursor)) {
		*function = table_function(table, cursor->start, cursor->end);
		if (!*function)
			return -ENOMEM;
		(*function)->signal = cursor->signal;
	}
	(*function)->end = cursor->end;
	row->start = cursor->start - (*function)->start;
	if ((*function)->nr && row_equal(row, &table->rows[table->nr_rows - 1]))
		return 0;
	return table_row(table, *function, row);
}

/* A signal frame gets an FDE even if SFrame cannot express its rules, to mark it. */
static int convert_silent(struct table *table, const struct cfi_cursor *cursor)
{
	struct function *function = table->nr ? &table->functions[table->nr - 1] : NULL;

	if (function && function->end == cursor->start && !function->nr &&
	    cursor->end - function->start <= UINT32_MAX) {
		function->end = cursor->end;
		return 0;
	}
	function = table_function(table, cursor->start, cursor->end);
	if (!function)
		return -ENOMEM;
	function->signal = true;
	return 0;
}

/* Add the row of a cursor, or record its loss; @function may get the row, or is NULL. */
static int convert_step(struct table *table, const struct cfi_cursor *cursor,
			unsigned int version, struct function **function)
{
	struct row row;
	int loss, ret;

	loss = row_from_cursor(cursor, version, &row);
	if (loss < 0)
		return loss;
	if (loss == SFRAME_LOSS_NONE)
		return convert_row(table, cursor, &row, function);
	*function = NULL;
	ret = table_lose(table, cursor->start, cursor->end, loss);
	if (!ret && cursor->frame && cursor->signal && version > 2)
		ret = convert_silent(table, cursor);
	return ret;
}

static int convert_function(struct image *image, struct cfi_cursor *cursor,
			    const struct cfi_function *cfi, unsigned int version,
			    struct table *table, struct sframe_stats *stats)
{
	struct function *function = NULL;

	for (u64 addr = cfi->start; addr < cfi->end; addr = cursor->end) {
		int ret = cfi_row(image, cursor, cfi, addr);

		if (ret)
			return ret;
		/* Sizes have 32 bits. */
		if (cursor->end - cursor->start > INT32_MAX)
			cursor->end = cursor->start + INT32_MAX;
		if (convert_step(table, cursor, version, &function))
			return image_no_memory(image);
	}
	stats->functions++;
	stats->covered += cfi->end - cfi->start;
	return 0;
}

static int convert_cfi(struct image *image, unsigned int version, struct table *table,
		       struct sframe_stats *stats)
{
	struct cfi_cursor cursor;
	struct cfi_list list;
	int ret;

	ret = cfi_list(image, &list);
	if (ret)
		return ret;
	ret = cfi_open(image, &list, &cursor);
	if (ret)
		goto out;
	for (size_t i = 0; !ret && i < list.nr; i++)
		ret = convert_function(image, &cursor, &list.functions[i], version, table,
				       stats);
	cfi_close(&cursor);
out:
	cfi_list_free(&list);
	return ret;
}

/* Count rows and lost bytes. Rows from plt_add() may cover lost code. */
static void convert_count(struct sframe_stats *stats, const struct table *table)
{
	stats->fdes = table->nr;
	for (size_t i = 0; i < table->nr; i++)
		stats->rows += table->functions[i].nr;
	stats->said = table_said(table, 0, UINT64_MAX);
	for (size_t i = 0; i < table->nr_lost; i++) {
		const struct lost *lost = &table->lost[i];

		stats->lost[lost->loss] += lost->end - lost->start -
					   table_said(table, lost->start, lost->end);
	}
}

/**
 * convert_image - convert an open file
 * @image:	the file
 * @options:	how
 * @out:	gets the section
 *
 * Return: 0, or a negative errno.
 */
int convert_image(struct image *image, const struct sframe_options *options,
		  struct sframe_output *out)
{
	unsigned int version = options->version ?: 3;
	struct table table = {};
	int ret;

	if (version != 2 && version != 3)
		return image_error(image, EINVAL, "cannot become SFrame version %u, only 2 and 3",
				   version);
	ret = image_open_cfi(image);
	if (!ret)
		ret = convert_cfi(image, version, &table, &out->stats);
	if (!ret) {
		table_sort(&table);
		ret = plt_add(image, &table, &out->stats);
	}
	if (!ret && !table.nr)
		ret = image_error(image, ENODATA, out->stats.functions ?
				  "has an .eh_frame of rows that no SFrame can express" :
				  "has an .eh_frame without any function");
	if (!ret) {
		convert_count(&out->stats, &table);
		ret = encode(image, &table, options, out);
	}
	table_free(&table);
	return ret;
}

static int convert_open(struct image *image, int ret, const struct sframe_options *options,
			struct sframe_output *out)
{
	if (ret)
		return ret;
	ret = convert_image(image, options, out);
	image_close(image);
	return ret;
}

/**
 * sframe_convert_fd - convert an open file
 * @fd:		the file; its offset may change
 * @options:	how
 * @out:	set to the section, to be freed by sframe_free(), or an error
 *
 * Return:
 * * 0		- @out has a section
 * * -ENOEXEC	- this is no x86-64 ELF program or library
 * * -EBADMSG	- it is truncated or damaged
 * * -ENODATA	- it has no .eh_frame, or no code
 * * -EFBIG	- it is too large, or takes too much work
 * * others	- the file cannot be read, there is no memory, an option is wrong
 */
int sframe_convert_fd(int fd, const struct sframe_options *options,
		      struct sframe_output *out)
{
	struct image image;

	*out = (struct sframe_output) {};
	return convert_open(&image, image_open_fd(&image, fd, out->message), options, out);
}

/**
 * sframe_convert_memory - convert a file in memory
 * @bytes:	the file, which is not changed
 * @size:	its size in bytes
 * @options:	how
 * @out:	as for sframe_convert_fd()
 *
 * Return: as sframe_convert_fd().
 */
int sframe_convert_memory(const void *bytes, size_t size,
			  const struct sframe_options *options, struct sframe_output *out)
{
	struct image image;

	*out = (struct sframe_output) {};
	return convert_open(&image, image_open_memory(&image, bytes, size, out->message),
			    options, out);
}

/**
 * sframe_convert_path - convert a file
 * @path:	its name
 * @options:	how
 * @out:	as for sframe_convert_fd()
 *
 * Return: as sframe_convert_fd().
 */
int sframe_convert_path(const char *path, const struct sframe_options *options,
			struct sframe_output *out)
{
	struct image image = { .message = out->message };
	int fd, ret;

	*out = (struct sframe_output) {};
	/* Opening a pipe must not wait for a writer. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return image_error(&image, errno, "cannot be opened: %s", strerror(errno));
	ret = sframe_convert_fd(fd, options, out);
	close(fd);
	return ret;
}

/**
 * sframe_free - free a section
 * @out:	the section, also after an error
 */
void sframe_free(struct sframe_output *out)
{
	free(out->bytes);
	out->bytes = NULL;
	out->size = 0;
}
