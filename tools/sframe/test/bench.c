// SPDX-License-Identifier: GPL-2.0
/*
 * bench [-r ROUNDS] FILE...: the cost of a conversion, and of libdw alone to find all rows for
 * it, in the same process, one after the other, the best of 7 rounds each.
 *
 * Counts instructions in user space, where a counter is available, and CPU time.
 */
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

/**
 * struct cost - cost of one round
 * @insns:	instructions, 0 without a counter
 * @ns:		CPU time
 * @rows:	how many rows resulted
 */
struct cost {
	u64	insns;
	u64	ns;
	u64	rows;
};

static int counter = -1;
static unsigned int rounds = 7;

static void open_counter(void)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_HARDWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_HW_INSTRUCTIONS,
		.exclude_kernel	= 1,
		.exclude_hv	= 1,
	};

	counter = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

static struct cost now(void)
{
	struct cost cost = {};
	struct timespec ts;

	if (counter >= 0 && read(counter, &cost.insns, sizeof(cost.insns)) < 0)
		cost.insns = 0;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	cost.ns = ts.tv_sec * 1000000000ULL + ts.tv_nsec;
	return cost;
}

static void keep_best(struct cost *best, const struct cost *start, u64 rows)
{
	struct cost end = now();

	end.insns -= start->insns;
	end.ns -= start->ns;
	if (!best->ns || end.ns < best->ns)
		best->ns = end.ns;
	if (!best->rows || end.insns < best->insns)
		best->insns = end.insns;
	best->rows = rows;
}

/* Ask for each row once, without reading it. */
static u64 libdw_rows(const struct image *image, const struct cfi_list *list)
{
	Dwarf_CFI *cfi = dwarf_getcfi_elf(image->elf);
	u64 rows = 0;

	for (size_t i = 0; i < list->nr; i++) {
		const struct cfi_function *function = &list->functions[i];
		Dwarf_Addr addr = function->start, start, end;

		while (addr < function->end) {
			Dwarf_Frame *frame;
			bool signal;

			if (dwarf_cfi_addrframe(cfi, addr, &frame))
				break;
			dwarf_frame_info(frame, &start, &end, &signal);
			free(frame);
			addr = end;
			rows++;
		}
	}
	dwarf_cfi_end(cfi);
	return rows;
}

/* libdw alone: reads the file anew, but the functions to ask for are known. */
static int cost_libdw(const char *name, const struct cfi_list *list, struct cost *best)
{
	char message[SFRAME_MESSAGE];
	struct image image;
	struct cost start = now();
	int fd = open(name, O_RDONLY);
	u64 rows;

	if (image_open_fd(&image, fd, message))
		return -1;
	rows = libdw_rows(&image, list);
	image_close(&image);
	close(fd);
	keep_best(best, &start, rows);
	return 0;
}

static int cost_convert(const char *name, struct cost *best)
{
	struct sframe_options options = {};
	struct cost start = now();
	struct sframe_output out;

	if (sframe_convert_path(name, &options, &out))
		return -1;
	keep_best(best, &start, out.stats.rows);
	sframe_free(&out);
	return 0;
}

static int list_functions(const char *name, struct cfi_list *list)
{
	char message[SFRAME_MESSAGE];
	int fd = open(name, O_RDONLY), ret;
	struct image image;

	ret = image_open_fd(&image, fd, message);
	if (!ret) {
		ret = image_open_cfi(&image);
		if (!ret)
			ret = cfi_list(&image, list);
		image_close(&image);
	}
	close(fd);
	if (ret)
		fprintf(stderr, "bench: %s: %s\n", name, message);
	return ret;
}

static int bench(const char *name)
{
	struct cost libdw = {}, convert = {};
	struct cfi_list list;

	if (list_functions(name, &list))
		return 1;
	for (unsigned int i = 0; i < rounds; i++) {
		if (cost_libdw(name, &list, &libdw) || cost_convert(name, &convert))
			return 1;
	}
	cfi_list_free(&list);
	printf("%s: libdw alone %.2f ms for %llu rows; convert %.2f ms for %llu rows: %.2f times",
	       name, libdw.ns / 1e6, (unsigned long long)libdw.rows, convert.ns / 1e6,
	       (unsigned long long)convert.rows, (double)convert.ns / libdw.ns);
	if (libdw.insns)
		printf(", %.2f times the instructions (%llu)",
		       (double)convert.insns / libdw.insns, (unsigned long long)convert.insns);
	printf("\n");
	return 0;
}

int main(int argc, char **argv)
{
	int ret = 0;

	if (getopt(argc, argv, "r:") == 'r')
		rounds = atoi(optarg);
	open_counter();
	for (int i = optind; i < argc; i++)
		ret |= bench(argv[i]);
	return ret;
}
