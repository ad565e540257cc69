// SPDX-License-Identifier: GPL-2.0
/*
 * Memory on a swap device.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "swap.h"

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT	21
#endif

#define PAGE		4096UL
/* For what never goes to swap. */
#define SECONDS		100
#define PAGEMAP_SWAPPED	(1ULL << 62)
#define PAGEMAP_PRESENT	(1ULL << 63)

bool have_swap(void)
{
	FILE *file = fopen("/proc/swaps", "r");
	char line[256];
	int lines = 0;

	if (!file)
		return false;
	while (fgets(line, sizeof(line), file))
		lines++;
	fclose(file);
	return lines > 1;
}

/* The number of @pages at @addr that are on the swap device. */
static int pages_out(int pagemap, const void *addr, int pages)
{
	uint64_t entry;
	int out = 0;

	for (int i = 0; i < pages; i++) {
		if (pread(pagemap, &entry, 8, ((uintptr_t)addr / PAGE + i) * 8) != 8)
			return -1;
		out += (entry & (PAGEMAP_SWAPPED | PAGEMAP_PRESENT)) == PAGEMAP_SWAPPED;
	}
	return out;
}

int page_out(void *addr, int pages, int want)
{
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	time_t end = time(NULL) + SECONDS;
	int out;

	if (pagemap < 0)
		return -1;
	/* The kernel skips a page that is in use or under writeback: retry. */
	for (;;) {
		out = madvise(addr, pages * PAGE, MADV_PAGEOUT) ? -1 :
			pages_out(pagemap, addr, pages);
		if (out < 0 || out >= want || time(NULL) >= end)
			break;
		usleep(1000);
	}
	close(pagemap);
	return out;
}
