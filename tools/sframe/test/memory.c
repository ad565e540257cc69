// SPDX-License-Identifier: GPL-2.0
/*
 * memory FILE...: convert files, and check the sections, while memory is short. First each
 * allocation fails in turn, of the library as of libdw and libelf, then all from each one on. Each
 * time there is the whole section, and the check finds no difference, or an error names memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

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

/* Returns as check_section(). */
static int check(const char *name, const struct sframe_output *whole, char *message)
{
	struct section section = { .bytes = whole->bytes, .size = whole->size };
	int fd = open(name, O_RDONLY), ret;
	struct image image;

	nr_calls = 0;
	armed = true;
	ret = image_open_fd(&image, fd, message);
	if (!ret) {
		ret = image_open_cfi(&image);
		if (!ret)
			ret = check_section(&image, &section, name, false);
		image_close(&image);
	}
	armed = false;
	close(fd);
	return ret;
}

/* As try(). What the check prints goes nowhere. */
static unsigned long try_check(const char *name, const struct sframe_output *whole)
{
	unsigned long nr, matter = 0;
	char message[SFRAME_MESSAGE] = "";
	int ret;

	failing = -1UL;
	ret = check(name, whole, message);
	nr = nr_calls;
	for (failing = 1; !ret && failing <= nr; failing++) {
		ret = check(name, whole, message);
		if (ret >= 0 || !strstr(message, "memory"))
			continue;
		ret = 0;
		matter++;
	}
	if (!ret && matter)
		return matter;
	fprintf(stderr, "%s: check, allocation %lu of %lu%s: %d '%s'\n", name, failing - 1, nr,
		all ? " and all others" : "", ret, message);
	return 0;
}

/* Returns how many of the allocations matter, 0 after an error. */
static unsigned long try(const char *name, unsigned long nr, const struct sframe_output *whole)
{
	unsigned long matter = 0;

	for (failing = 1; failing <= nr; failing++) {
		struct sframe_output out;
		int ret = convert(name, &out);

		if (is_wrong(ret, &out, whole)) {
			fprintf(stderr, "%s: allocation %lu of %lu%s: %d '%s'\n", name, failing, nr,
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
	if (!freopen("/dev/null", "w", stdout))
		return 1;
	for (int i = 1; i < argc; i++) {
		unsigned long nr, one, more, checks;
		struct sframe_output whole;

		failing = 0;
		all = false;
		if (convert(argv[i], &whole)) {
			fprintf(stderr, "%s\n", whole.message);
			return 1;
		}
		nr = nr_calls;
		one = try(argv[i], nr, &whole);
		checks = try_check(argv[i], &whole);
		all = true;
		more = try(argv[i], nr, &whole);
		if (!one || more < one || !checks || try_check(argv[i], &whole) < checks)
			return 1;
		fprintf(stderr, "%s: %lu of %lu allocations matter, and %lu of a check\n", argv[i],
			one, nr, checks);
		sframe_free(&whole);
	}
	return 0;
}
