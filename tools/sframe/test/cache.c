// SPDX-License-Identifier: GPL-2.0
/*
 * cache save DIR FILE [written]: put the section of FILE into the cache DIR, and print its name
 *	there; with "written", as if FILE had been written to since its build-id was read
 * cache find DIR FILE [read-only]: print the size of its section there, or "none"
 * cache each DIR [read-only]: print how many sections there are
 * cache prune DIR: remove old sections, if there are too many
 * cache id FILE...: the build-id of each, whether it has a section, or why it is refused
 * cache needed PROGRAM: the files that it needs
 * cache remote FILE: is it on a file system with a server?
 *
 * This is what sessions do before they convert files.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "session.h"

static int say(const char *name, const char *what)
{
	printf("%s: %s\n", name, what);
	return 1;
}

/* Open a file and read its build-id, or print why that is refused. */
static int open_file(const char *name, struct build_id *id, bool *has_sframe)
{
	char message[SFRAME_MESSAGE] = "";
	int fd = open(name, O_RDONLY | O_NONBLOCK);

	if (fd < 0) {
		say(name, strerror(errno));
	} else if (file_build_id(fd, id, has_sframe, message)) {
		say(name, message);
		close(fd);
		fd = -1;
	}
	return fd;
}

static int save(int cache, const char *name, bool written)
{
	char message[SFRAME_MESSAGE];
	struct pollfd ended = { .events = POLLIN };
	struct cache_entry entry;
	struct build_id id;
	bool has_sframe;
	struct job job;
	int fd = open_file(name, &id, &has_sframe), section, ret;
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return 1;
	st.st_mtim.tv_sec -= written;
	if (job_start(&job, fd, &st.st_mtim))
		return 1;
	ended.fd = job.pidfd;
	poll(&ended, 1, -1);
	section = job_end(&job, message);
	if (section < 0)
		return say(name, message);
	ret = cache_begin(&entry, cache, &id, section, false) ?: cache_end(&entry, true);
	if (ret)
		return say(name, strerror(-ret));
	for (u32 i = 0; i < id.size; i++)
		printf(i == 1 ? "/%02x" : "%02x", id.bytes[i]);
	putchar('\n');
	return 0;
}

static int find(int cache, const char *name, bool read_only)
{
	struct build_id id;
	bool has_sframe;
	struct stat st;
	int fd = open_file(name, &id, &has_sframe);

	if (fd < 0)
		return 1;
	close(fd);
	fd = cache_find(cache, &id, read_only);
	if (fd < 0)
		puts("none");
	else if (!fstat(fd, &st))
		printf("%lld\n", (long long)st.st_size);
	return 0;
}

static int count(void *data, const struct build_id *id, int fd)
{
	unsigned int *nr = data;

	*nr += id->size && fd >= 0;
	return 0;
}

static int identify(int nr, char **names)
{
	for (int i = 0; i < nr; i++) {
		bool has_sframe;
		struct build_id id;
		int fd = open_file(names[i], &id, &has_sframe);

		if (fd < 0)
			continue;
		close(fd);
		printf("%s: %s", names[i], id.size ? "" : "no build-id");
		for (u32 j = 0; j < id.size; j++)
			printf("%02x", id.bytes[j]);
		puts(has_sframe ? " sframe" : "");
	}
	return 0;
}

static void print_path(void *data, const struct mapping *mapping)
{
	fprintf(data, "%s\n", mapping->path);
}

int main(int argc, char **argv)
{
	unsigned int nr = 0;
	bool read_only;
	int cache;

	if (argc < 3)
		return 2;
	read_only = !strcmp(argv[argc - 1], "read-only");
	/* Sessions have the same limit. */
	image_limit_memory(0);
	if (!strcmp(argv[1], "id"))
		return identify(argc - 2, argv + 2);
	if (!strcmp(argv[1], "remote")) {
		cache = open(argv[2], O_RDONLY | O_CLOEXEC);
		return cache < 0 || !device_needs_copy(cache);
	}
	if (!strcmp(argv[1], "needed"))
		return !needed_files(argv[2], print_path, stdout);
	cache = cache_open(argv[2], !read_only);
	if (cache < 0)
		return say(argv[2], strerror(errno));
	if (!strcmp(argv[1], "each")) {
		cache_each(cache, read_only, UINT32_MAX, count, &nr);
		printf("%u\n", nr);
		return 0;
	}
	if (!strcmp(argv[1], "prune")) {
		cache_prune(cache);
		return 0;
	}
	if (argc < 4)
		return 2;
	if (!strcmp(argv[1], "save"))
		return save(cache, argv[3], argc > 4);
	return find(cache, argv[3], read_only);
}
