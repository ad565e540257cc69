// SPDX-License-Identifier: GPL-2.0
/*
 * memory FILE...: convert files while memory is short. First each allocation fails in turn, of the
 * library as of libdw and libelf, then all from each one on. Each time there is the whole section,
 * or an error that names memory.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sframe.h"

/* glibc's own functions, which the ones below hide. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t nr, size_t size);
void *__libc_realloc(void *former, size_t size);

/* The allocation that fails, and whether later ones do; those so far. */
static unsigned long failing, nr_calls;
static bool all, armed;

static bool fails(void)
{
	if (!armed)
		return false;
	nr_calls++;
	if (nr_calls != failing && !(all && nr_calls > failing))
		return false;
	errno = ENOMEM;
	return true;
}

void *malloc(size_t size)
{
	return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t nr, size_t size)
{
	return fails() ? NULL : __libc_calloc(nr, size);
}

void *realloc(void *former, size_t size)
{
	return fails() ? NULL : __libc_realloc(former, size);
}

static int convert(const char *name, struct sframe_output *out)
{
	const struct sframe_options options = {};
	int ret;

	nr_calls = 0;
	armed = true;
	ret = sframe_convert_path(name, &options, out);
	armed = false;
	return ret;
}

static bool is_wrong(int ret, const struct sframe_output *out, const struct sframe_output *whole)
{
	if (!ret)
		return out->size != whole->size || memcmp(out->bytes, whole->bytes, out->size) ||
		       memcmp(&out->stats, &whole->stats, sizeof(out->stats));
	return out->bytes || !strstr(out->message, "memory");
}

/* Returns how many of the allocations matter, 0 after an error. */
static unsigned long try(const char *name, unsigned long nr, const struct sframe_output *whole)
{
	unsigned long matter = 0;

	for (failing = 1; failing <= nr; failing++) {
		struct sframe_output out;
		int ret = convert(name, &out);

		if (is_wrong(ret, &out, whole)) {
			printf("%s: allocation %lu of %lu%s: %d '%s'\n", name, failing, nr,
			       all ? " and all others" : "", ret, out.message);
			return 0;
		}
		matter += !!ret;
		sframe_free(&out);
	}
	return matter;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct sframe_output whole;
		unsigned long nr, one, more;

		failing = 0;
		all = false;
		if (convert(argv[i], &whole)) {
			printf("%s\n", whole.message);
			return 1;
		}
		nr = nr_calls;
		one = try(argv[i], nr, &whole);
		all = true;
		more = try(argv[i], nr, &whole);
		if (!one || more < one)
			return 1;
		printf("%s: %lu of %lu allocations matter\n", argv[i], one, nr);
		sframe_free(&whole);
	}
	return 0;
}
