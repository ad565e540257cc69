// SPDX-License-Identifier: GPL-2.0
/*
 * decoder FILE [SECTION]: the kernel's decoder takes the whole section, and says the same as
 * the decoder here. Ask both at each address of each function, and next to it: the two may
 * divide a function into rows in different ways.
 *
 * decoder -k FILE: does the kernel's decoder take any part of the section? 0 if so.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "kernel.h"

static u8 *read_all(const char *name, size_t *size)
{
	int fd = open(name, O_RDONLY);
	u8 *bytes = NULL;
	struct stat st;

	if (fd >= 0 && !fstat(fd, &st))
		bytes = malloc(st.st_size + 1);
	if (!bytes || read(fd, bytes, st.st_size) != st.st_size) {
		perror(name);
		exit(2);
	}
	close(fd);
	*size = st.st_size;
	return bytes;
}

static bool same_rule(const struct rule *rule, u8 base, s32 off)
{
	return rule->base == base && (rule->off == off || base == BASE_SAME);
}

static bool same(const struct row *row, const struct function *function,
		 const struct kernel_frame *frame)
{
	if (row->outermost || frame->outermost)
		return row->outermost == frame->outermost;
	return same_rule(&row->cfa, frame->cfa, frame->cfa_off) &&
	       same_rule(&row->ra, frame->ra, frame->ra_off) &&
	       same_rule(&row->fp, frame->fp, frame->fp_off) &&
	       function->signal == frame->signal;
}

/* Do both have the same answer? If not, print it unless @quiet. */
static bool ask(const struct table *table, const struct sframe_table *kernel, u64 addr,
		bool quiet)
{
	const struct function *function;
	struct kernel_frame frame;
	u64 end = UINT64_MAX;
	const struct row *row = table_at(table, addr, &end, &function);
	bool found = kernel_find(kernel, addr, &frame);

	if (row ? found && same(row, function, &frame) : !found)
		return true;
	if (!quiet)
		printf("0x%" PRIx64 ": %s here, %s in the kernel\n", addr,
		       row ? "a row" : "none", found ? "a row" : "none");
	return false;
}

/* Returns how many addresses have different answers. */
static unsigned long compare(const struct table *table, const struct sframe_table *kernel,
			     unsigned long *asked)
{
	unsigned long bad = 0;

	for (size_t i = 0; i < table->nr; i++) {
		const struct function *function = &table->functions[i];
		u64 nr = function->end - function->start + 2;
		bool differ = false;

		/* Print only the first of a run of addresses. */
		for (u64 j = 0; j < nr; j++) {
			differ = !ask(table, kernel, function->start - 1 + j, differ);
			bad += differ;
		}
		*asked += nr;
	}
	return bad;
}

/* Ask the kernel's decoder alone. */
static int can_be(const char *name)
{
	char message[SFRAME_MESSAGE];
	struct kernel_counts counts;
	u64 addr, offset, bytes;
	struct image image;
	size_t size;
	u8 *file = read_all(name, &size);

	if (image_open_memory(&image, file, size, message))
		return 2;
	if (image_sframe(&image, &addr, &offset, &bytes))
		return 1;
	return !kernel_open(file + offset, bytes, addr, (const struct kernel_text *)image.text,
			    image.nr_text, &counts);
}

int main(int argc, char **argv)
{
	struct section section = {};
	char message[SFRAME_MESSAGE] = "has no section";
	unsigned long asked = 0, bad;
	struct kernel_counts counts;
	struct sframe_table *kernel;
	u64 offset, bytes;
	struct table table = {};
	unsigned int version;
	struct image image;
	u8 *file;
	size_t size;

	if (argc < 2)
		return 2;
	if (argc > 2 && !strcmp(argv[1], "-k"))
		return can_be(argv[2]);
	file = read_all(argv[1], &size);
	if (image_open_memory(&image, file, size, message)) {
		printf("%s: %s\n", argv[1], message);
		return 2;
	}
	if (argc > 2) {
		section.bytes = read_all(argv[2], &section.size);
	} else if (!image_sframe(&image, &section.addr, &offset, &bytes)) {
		section.bytes = file + offset;
		section.size = bytes;
	}
	if (table_read(&image, &section, &table, &version)) {
		printf("%s: %s\n", argv[1], message);
		return 2;
	}
	kernel = kernel_open(section.bytes, section.size, section.addr,
			     (const struct kernel_text *)image.text, image.nr_text, &counts);
	if (!kernel || counts.bad) {
		printf("%s: the kernel refuses %s\n", argv[1], kernel ? "a function" : "all");
		return 1;
	}
	bad = compare(&table, kernel, &asked);
	printf("%s: version %u, %u functions, %lu addresses, %lu differ\n", argv[1], version,
	       counts.functions, asked, bad);
	return bad || !asked;
}
