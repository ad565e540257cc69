// SPDX-License-Identifier: GPL-2.0
/*
 * Compare a section with .eh_frame, at each address where either changes.
 *
 * The section is decoded like any other, and the results of its rules are compared, see
 * evaluate.c. It may lack code that SFrame cannot describe, and may describe more PLTs.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Limit of differences to print. */
#define CHECK_PRINT	20
#define CHECK_MACHINES	2

/* Limit of looked up places: ten times as many as the largest real files have, in 2 s. */
#define CHECK_STEPS	(1U << 26)

/* Sections with PLTs. */
#define PLTS		4

/**
 * struct check - results of a check
 * @image:	the file
 * @name:	its name
 * @plts:	its sections with PLTs
 * @nr_plts:	number of @plts
 * @version:	version of the section
 * @table:	functions of the section, without signal frames that have no rows
 * @functions:	number of functions in .eh_frame
 * @covered:	bytes that .eh_frame describes
 * @same:	of @covered, bytes that the section describes in the same way
 * @plt:	other bytes, of PLTs, that the section describes
 * @lost:	bytes that the section lacks because SFrame cannot describe them
 * @missing:	bytes that the section lacks although SFrame could describe them
 * @bad:	bytes that the section describes differently
 * @printed:	number of differences, printed up to CHECK_PRINT
 * @steps:	number of places looked up, up to CHECK_STEPS
 */
struct check {
	struct image	*image;
	const char	*name;
	struct range	plts[PLTS];
	unsigned int	nr_plts;
	unsigned int	version;
	struct table	table;
	u64	functions;
	u64	covered;
	u64	same;
	u64	plt;
	u64	lost[SFRAME_LOSS_NR];
	u64	missing;
	u64	bad;
	unsigned int	printed;
	unsigned int	steps;
};

static void check_print(struct check *check, u64 addr, u64 bytes, const char *what)
{
	if (check->printed++ < CHECK_PRINT)
		printf("0x%" PRIx64 ", %" PRIu64 " bytes: %s\n", addr, bytes, what);
}

static bool is_same(const struct caller *a, const struct caller *b)
{
	if (a->outermost || b->outermost)
		return a->outermost == b->outermost;
	return a->cfa == b->cfa && a->ra == b->ra && a->fp == b->fp;
}

/* Returns a description of the difference, or NULL. */
static const char *check_row(const struct check *check, const struct cfi_cursor *cursor,
			     u64 addr, const struct row *row,
			     const struct function *function)
{
	struct caller wanted, found;
	struct machine machine;

	if (!cursor->frame)
		return "a row where .eh_frame is damaged";
	for (unsigned int i = 0; i < CHECK_MACHINES; i++) {
		machine_init(&machine, i, addr);
		if (!machine_run_cfi(&machine, cursor->frame, &wanted))
			return "a row where the rules of .eh_frame are no row";
		machine_run_row(&machine, row, &found);
		if (wanted.outermost != found.outermost)
			return wanted.outermost ? "a caller where there is none" :
						  "no caller where there is one";
		if (!is_same(&wanted, &found))
			return wanted.cfa != found.cfa ? "another CFA" :
			       wanted.ra != found.ra ? "another return address" :
						       "another frame pointer";
	}
	if (check->version > 2 && function->signal != cursor->signal)
		return cursor->signal ? "no signal frame where there is one" :
					"a signal frame where there is none";
	return NULL;
}

static void find_plts(struct check *check)
{
	static const char * const names[PLTS] = { ".plt", ".plt.sec", ".plt.got", ".plt.bnd" };
	GElf_Shdr shdr;

	for (unsigned int i = 0; i < PLTS; i++) {
		if (image_section(check->image, names[i], &shdr) &&
		    shdr.sh_size <= UINT64_MAX - shdr.sh_addr)
			check->plts[check->nr_plts++] = (struct range) {
				shdr.sh_addr, shdr.sh_addr + shdr.sh_size
			};
	}
}

static bool is_plt(const struct check *check, u64 start, u64 end)
{
	for (unsigned int i = 0; i < check->nr_plts; i++) {
		if (start >= check->plts[i].start && end <= check->plts[i].end)
			return true;
	}
	return false;
}

/*
 * A few bytes can describe any amount of code, also in segments that go on after the end of the
 * file: count each step, or there would be billions of them.
 */
static int check_step(struct check *check)
{
	if (++check->steps > CHECK_STEPS)
		return image_error(check->image, EFBIG, "has too many rows to be checked");
	return 0;
}

/* Check a row of .eh_frame, or a part of it that one row of the section covers. */
static int check_span(struct check *check, const struct cfi_cursor *cursor, u64 addr,
		      u64 bytes, const struct row *row, const struct function *function)
{
	const char *wrong;
	struct row unused;
	int loss;

	/* Rows of PLTs were derived from their code: accept them without .eh_frame. */
	if (row && !cursor->frame && is_plt(check, addr, addr + bytes)) {
		check->plt += bytes;
		return 0;
	}
	if (row) {
		errno = 0;
		wrong = check_row(check, cursor, addr, row, function);
		if (!wrong) {
			check->same += bytes;
			return 0;
		}
		if (errno == ENOMEM)
			return image_no_memory(check->image);
		check->bad += bytes;
		check_print(check, addr, bytes, wrong);
		return 0;
	}
	loss = row_from_cursor(cursor, check->version, &unused);
	if (loss < 0)
		return image_no_memory(check->image);
	if (loss != SFRAME_LOSS_NONE) {
		check->lost[loss] += bytes;
		return 0;
	}
	check->missing += bytes;
	check_print(check, addr, bytes, "no row");
	return 0;
}

static int check_function(struct check *check, struct cfi_cursor *cursor,
			  const struct cfi_function *cfi)
{
	check->functions++;
	check->covered += cfi->end - cfi->start;
	for (u64 addr = cfi->start; addr < cfi->end; addr = cursor->end) {
		int ret = cfi_row(check->image, cursor, cfi, addr);
		u64 end;

		if (ret)
			return ret;
		for (u64 at = addr; at < cursor->end; at = end) {
			const struct function *function;
			const struct row *row;

			if (check_step(check))
				return -EFBIG;
			end = cursor->end;
			if (cursor->frame && cfi_needs_addr(cursor->frame))
				end = at + 1;
			row = table_at(&check->table, at, &end, &function);
			ret = check_span(check, cursor, at, end - at, row, function);
			if (ret)
				return ret;
		}
	}
	return 0;
}

/* Check rows of the section between functions of .eh_frame. */
static int check_hole(struct check *check, u64 start, u64 end)
{
	u64 next;

	for (; start < end; start = next) {
		const struct function *function;
		const struct row *row;

		if (check_step(check))
			return -EFBIG;
		next = end;
		row = table_at(&check->table, start, &next, &function);
		if (!row)
			continue;
		if (is_plt(check, start, next)) {
			check->plt += next - start;
			continue;
		}
		check->bad += next - start;
		check_print(check, start, next - start, "a row without .eh_frame");
	}
	return 0;
}

static int check_compare(struct check *check)
{
	struct cfi_cursor cursor;
	struct cfi_list list;
	u64 end = 0;
	int ret;

	ret = cfi_list(check->image, &list);
	if (ret)
		return ret;
	ret = cfi_open(check->image, &list, &cursor);
	if (ret)
		goto out;
	for (size_t i = 0; !ret && i < list.nr; i++) {
		ret = check_hole(check, end, list.functions[i].start);
		if (!ret)
			ret = check_function(check, &cursor, &list.functions[i]);
		end = list.functions[i].end;
	}
	if (!ret)
		ret = check_hole(check, end, UINT64_MAX);
	cfi_close(&cursor);
out:
	cfi_list_free(&list);
	return ret;
}

static double percent(u64 part, u64 all)
{
	return all ? 100.0 * part / all : 0;
}

static void check_report(const struct check *check)
{
	printf("%s: version %u, %" PRIu64 " functions, %zu FDEs, %zu rows\n", check->name,
	       check->version, check->functions, check->table.nr, check->table.nr_rows);
	printf("%12" PRIu64 " bytes have .eh_frame\n", check->covered);
	printf("%12" PRIu64 " bytes %8.4f %%  said: the same\n", check->same,
	       percent(check->same, check->covered));
	for (unsigned int i = 0; i < SFRAME_LOSS_NR; i++) {
		if (check->lost[i])
			printf("%12" PRIu64 " bytes %8.4f %%  cannot be said: %s\n",
			       check->lost[i], percent(check->lost[i], check->covered),
			       sframe_loss_name(i));
	}
	if (check->plt)
		printf("%12" PRIu64 " bytes of PLTs without .eh_frame\n", check->plt);
	printf("%12" PRIu64 " bytes are missing\n%12" PRIu64 " bytes differ\n", check->missing,
	       check->bad);
	if (check->printed > CHECK_PRINT)
		printf("%u more differences\n", check->printed - CHECK_PRINT);
}

/**
 * check_section - compare a section with .eh_frame, and print the results
 * @image:	the file, with its .eh_frame
 * @from:	the section: its bytes, their size and address
 * @name:	name of the file
 * @partial:	missing rows are no difference
 *
 * Return: 0; 1 if they differ; or a negative errno.
 */
int check_section(struct image *image, const struct section *from, const char *name,
		  bool partial)
{
	struct check check = { .image = image, .name = name };
	int ret;

	find_plts(&check);
	ret = table_read(image, from, &check.table, &check.version);
	if (!ret)
		ret = check_compare(&check);
	if (!ret) {
		check_report(&check);
		ret = check.bad || (check.missing && !partial);
	}
	table_free(&check.table);
	return ret;
}
