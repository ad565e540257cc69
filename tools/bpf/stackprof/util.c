// SPDX-License-Identifier: GPL-2.0
/*
 * Errors, memory and tables of stackprof. There is no way to go on without memory.
 */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <bpf/hashmap.h>
#include <bpf/libbpf.h>

#include "prof.h"

void die(int status, const char *format, ...)
{
	va_list args;

	fputs("stackprof: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(status);
}

void say(const char *format, ...)
{
	va_list args;

	fputs("stackprof: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

void *xalloc(size_t size)
{
	void *memory = calloc(1, size);

	if (!memory)
		die(STATUS_FAILED, "out of memory");
	return memory;
}

/* Make room for one more element of @size bytes, after @nr. */
void *xgrow(void *array, size_t nr, size_t *room, size_t size)
{
	if (nr < *room)
		return array;

	*room = *room ? *room * 2 : 8;
	array = realloc(array, *room * size);
	if (!array)
		die(STATUS_FAILED, "out of memory");
	return array;
}

char *xstrdup(const char *text)
{
	return xprintf("%s", text);
}

char *xprintf(const char *format, ...)
{
	va_list args;
	char *text;
	int ret;

	va_start(args, format);
	ret = vasprintf(&text, format, args);
	va_end(args);
	if (ret < 0)
		die(STATUS_FAILED, "out of memory");
	return text;
}

struct hashmap *map_new(size_t (*hash)(long key, void *ctx),
			bool (*equal)(long key1, long key2, void *ctx))
{
	struct hashmap *map = hashmap__new(hash, equal, NULL);

	if (libbpf_get_error(map))
		die(STATUS_FAILED, "out of memory");
	return map;
}

static size_t number_hash(long key, void *ctx)
{
	return key;
}

static bool number_equal(long key1, long key2, void *ctx)
{
	return key1 == key2;
}

static size_t string_hash(long key, void *ctx)
{
	return str_hash((const char *)key);
}

static bool string_equal(long key1, long key2, void *ctx)
{
	return !strcmp((const char *)key1, (const char *)key2);
}

struct hashmap *map_of_numbers(void)
{
	return map_new(number_hash, number_equal);
}

struct hashmap *map_of_strings(void)
{
	return map_new(string_hash, string_equal);
}

/* FNV-1a */
size_t hash_bytes(const void *data, size_t size)
{
	const unsigned char *bytes = data;
	size_t hash = 0xcbf29ce484222325;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3;
	return hash;
}

__u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

/* Parse a number and nothing else: strtoull() takes signs and ignores trailing text. */
bool parse_number(const char *text, __u64 *number)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	*number = strtoull(text, &end, 0);
	return !errno && !*end;
}
