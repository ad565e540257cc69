// SPDX-License-Identifier: GPL-2.0
/*
 * How much the kernel caches about files, and for how long: many processes and many files,
 * memory pressure, the sysctl. Traces are always correct or end early.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sframe_large.h"
#include "sframe_walk.h"
#include "harness.h"

/* The maximum number of cached objects. */
#define OBJECTS_MAX	4096

FIXTURE(load) {
	struct walker walker;
	char dir[32];
	struct mapped file;
	long loaded;
};

/* A file that is in the cache. */
FIXTURE_SETUP(load)
{
	SETUP_WALKER();
	ASSERT_TRUE(mapped_init(&self->file, &(struct image_spec) { .code = &chain_a }, "%s/file",
				self->dir));
	EXPECT_CHAIN(&self->file);
	self->loaded = unwind_stat("sframe_loaded");
}

FIXTURE_TEARDOWN(load)
{
	private_unmount(self->dir);
	walker_exit(&self->walker);
}

#define EXPECT_LOADED(nr)	EXPECT_EQ(nr, unwind_stat("sframe_loaded") - self->loaded)

TEST_F(load, switched_off)
{
	for (int i = 1; i <= 5; i++) {
		ASSERT_EQ(0, sframe_switch(false));
		EXPECT_EQ(0, object_count());
		EXPECT_FRAMES(&self->file, 1);
		walk_anew();
		EXPECT_FRAMES(&self->file, 1);
		EXPECT_EQ(0, object_count());
		EXPECT_LOADED(i - 1);

		ASSERT_EQ(0, sframe_switch(true));
		EXPECT_CHAIN(&self->file);
		EXPECT_STATE(self->file.path, "ok");
		EXPECT_LOADED(i);
	}
}

/* An object that is unused for a moment is dropped under memory pressure, and loaded again. */
TEST_F(load, dropped_and_loaded)
{
	struct object object;

	for (int i = 1; i <= 2; i++) {
		do {
			ASSERT_EQ(0, file_put(DROP_CACHES, "2"));
		} while (object_find(self->file.path, &object));
		EXPECT_LOADED(i - 1);
		/* The lookups that a task has cached are still valid. */
		EXPECT_CHAIN(&self->file);
		walk_anew();
		EXPECT_CHAIN(&self->file);
		EXPECT_STATE(self->file.path, "ok");
		EXPECT_LOADED(i);
	}
}

/* About as many functions as a C library has. */
#define LIBRARY		3700

/* The number of concurrent processes: fewer if fork() is very slow. */
static int processes(void)
{
	bool slow = !system("zcat /proc/config.gz 2>/dev/null | grep -qE '^CONFIG_KC?[AC]SAN=y'");

	return slow ? 200 : 1000;
}

/* Processes walk one after the other and stay alive: all share one table. */
TEST_F(load, many_processes)
{
	int report[2], end[2], found = 0, nr = processes();
	struct mapped library;

	ASSERT_TRUE(large_init(&library, LIBRARY, 3, self->dir, "library"));
	ASSERT_EQ(0, pipe(report));
	ASSERT_EQ(0, pipe(end));
	for (int i = 0; i < nr; i++) {
		pid_t child = fork();
		char how;

		ASSERT_LE(0, child);
		if (!child) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			close(end[1]);
			library.map = image_map(&library.image, library.fd);
			how = library.map ? walk_large(&self->walker, &library) : WRONG;
			if (write(report[1], &how, 1) == 1)
				read(end[0], &how, 1);
			_exit(0);
		}
		ASSERT_EQ(1, read(report[0], &how, 1));
		found += how == WITH_TABLE;
	}
	EXPECT_EQ(nr, found);
	EXPECT_STATE(library.path, "ok");
	EXPECT_LOADED(1);
	close(end[1]);
	while (wait(NULL) > 0)
		;
}

/* A table takes little more memory than its section. */
TEST_F(load, memory_of_a_table)
{
	for (int version = 1; version <= 3; version++) {
		struct mapped library;
		struct object object;
		char name[8];

		snprintf(name, sizeof(name), "%d", version);
		ASSERT_TRUE(large_init(&library, LIBRARY, version, self->dir, name));
		EXPECT_EQ(WITH_TABLE, walk_large(&self->walker, &library));
		EXPECT_STATE(library.path, "ok");
		object_find(library.path, &object);
		EXPECT_EQ(LIBRARY, object.functions);
		EXPECT_GE(library.image.sframe_size * 115 / 100, object.bytes);
		TH_LOG("version %d: section %zu, table %lu", version, library.image.sframe_size,
		       object.bytes);
	}
}

/* If the cache is full, only tables that were unused for a while are dropped. */
TEST_F(load, many_bytes)
{
	enum { FUNCTIONS = 60000, MOST = 400 };
	struct mapped *files = calloc(MOST, sizeof(*files));
	unsigned long max, bytes;
	struct object object;
	struct sysinfo info;
	int nr = 0;

	/* Otherwise objects of other tests would be dropped in between. */
	sframe_drop();
	ASSERT_EQ(0, sysinfo(&info));
	max = info.totalram / 16 * info.mem_unit;
	do {
		char name[8];

		ASSERT_GT(MOST, nr);
		snprintf(name, sizeof(name), "%d", nr);
		ASSERT_TRUE(large_init(&files[nr], FUNCTIONS, 2, self->dir, name));
		ASSERT_EQ(WITH_TABLE, walk_large(&self->walker, &files[nr]));
		ASSERT_EQ(1, object_find(files[nr].path, &object));
		bytes = object.bytes;
		/* Keep all of them recently used, however long the loop takes. */
		for (int i = 0; i < nr; i++)
			ASSERT_EQ(WITH_TABLE, walk_large(&self->walker, &files[i]));
		/* Stop when the next table and its copy of the section do not fit. */
	} while (++nr * bytes + 2 * bytes < max);
	EXPECT_LOADED(nr);

	/* All objects look unused for 20 seconds. */
	ASSERT_EQ(0, tracer_op(self->walker.fd, (struct unwind_test_op)OP_OLDER(20)));
	walk_anew();
	for (int i = nr / 2; i < nr - 1; i++)
		ASSERT_EQ(WITH_TABLE, walk_large(&self->walker, &files[i]));
	ASSERT_TRUE(large_init(&files[nr], FUNCTIONS, 2, self->dir, "last"));
	EXPECT_EQ(WITH_TABLE, walk_large(&self->walker, &files[nr]));
	EXPECT_STATE(files[nr].path, "ok");
	for (int i = 0; i < nr - 1; i++) {
		EXPECT_EQ(i >= nr / 2, object_find(files[i].path, &object))
			TH_LOG("file %d of %d", i, nr);
	}
	free(files);
}

/* How many files one walk goes through. */
#define TOGETHER	25

/* Map @nr new files, named by number from @first; false on failure. */
static bool map_new_files(const char *dir, int first, int nr, const void **returns)
{
	char page[SFRAME_PAGE], path[64];

	image_page(page);
	for (int i = 0; i < nr; i++) {
		void *map;
		int fd;

		snprintf(path, sizeof(path), "%s/%d", dir, first + i);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0755);
		if (write(fd, page, SFRAME_PAGE) != SFRAME_PAGE)
			return false;
		map = mmap(NULL, SFRAME_PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
		close(fd);
		if (map == MAP_FAILED)
			return false;
		returns[i] = map + 1 + (first + i) % 1000;
	}
	return true;
}

/* Walk through new files until all of them have tables. */
static int walk_new_files(struct walker *walker, const char *dir, int first, int nr)
{
	const void *returns[TOGETHER];
	int how;

	if (!map_new_files(dir, first, nr, returns))
		return WRONG;
	do {
		walk_anew();
		how = walk_returns(walker, returns, nr);
	} while (how == WITHOUT_TABLE);
	for (int i = 0; i < nr; i++)
		munmap((void *)((uintptr_t)returns[i] & -SFRAME_PAGE), SFRAME_PAGE);
	return how;
}

/* More files than the cache can hold: a new file may have to wait for its table. */
TEST_F(load, many_files)
{
	enum { FILES = 5000 };
	struct object object;
	char path[64];

	for (int i = 0; i < FILES; i += TOGETHER) {
		ASSERT_EQ(WITH_TABLE, walk_new_files(&self->walker, self->dir, i, TOGETHER));
		if (i > OBJECTS_MAX - 2 * TOGETHER)
			EXPECT_GE(OBJECTS_MAX, object_count());
	}
	EXPECT_LE(FILES, unwind_stat("sframe_loaded") - self->loaded);
	/* The latest files are in the cache, and the oldest are not. */
	snprintf(path, sizeof(path), "%s/%d", self->dir, FILES - 1);
	EXPECT_STATE(path, "ok");
	snprintf(path, sizeof(path), "%s/0", self->dir);
	EXPECT_EQ(0, object_find(path, &object));
}

/* Ordinary users. */
#define SOMEBODY	1001
#define OTHERS		30

static bool become(uid_t uid)
{
	return !setresgid(uid, uid, uid) && !setresuid(uid, uid, uid);
}

/* Have @nr files in use as an ordinary user, at any time. */
static int hoard(struct walker *walker, const char *dir, int nr)
{
	if (!become(SOMEBODY))
		return WRONG;
	for (int i = 0; i < nr; i += TOGETHER) {
		int how = walk_new_files(walker, dir, i, nr - i < TOGETHER ? nr - i : TOGETHER);

		if (how != WITH_TABLE ||
		    tracer_op(walker->fd, (struct unwind_test_op)OP_OLDER(-1000)))
			return WRONG;
	}
	return WITH_TABLE;
}

/* Walk through one new file as another user; once. */
static int walk_as_other(struct walker *walker, const char *dir, int other)
{
	const void *returns[1];
	int how;

	if (!become(SOMEBODY + 1 + other) || !map_new_files(dir, OBJECTS_MAX + other, 1, returns))
		return WRONG;
	how = walk_returns(walker, returns, 1);
	/* However slow the next ones are, this file is in use, too. */
	return tracer_op(walker->fd, (struct unwind_test_op)OP_OLDER(-1000)) ? WRONG : how;
}

/*
 * A user has all objects, and all are in use: others get some of the room at once. By chance, one
 * of 256 of them shares the room of that user, and some share theirs with each other, of whom the
 * last one may take that of the others. So allow for a few.
 */
TEST_F(load, room_of_others)
{
	enum { MOST = OTHERS - 5 };
	int status, walked = 0, stay = 0;
	struct object object;
	char path[64];
	pid_t child;

	ASSERT_EQ(0, chmod(self->dir, 0777));
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		_exit(hoard(&self->walker, self->dir, OBJECTS_MAX - object_count()));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_EQ(OBJECTS_MAX, object_count());

	for (int i = 0; i < OTHERS; i++) {
		child = fork();
		ASSERT_LE(0, child);
		if (!child)
			_exit(walk_as_other(&self->walker, self->dir, i));
		ASSERT_EQ(child, waitpid(child, &status, 0));
		ASSERT_TRUE(WIFEXITED(status));
		ASSERT_NE(WRONG, WEXITSTATUS(status));
		walked += WEXITSTATUS(status) == WITH_TABLE;
	}
	for (int i = 0; i < OTHERS; i++) {
		snprintf(path, sizeof(path), "%s/%d", self->dir, OBJECTS_MAX + i);
		stay += object_find(path, &object) == 1 && !strcmp(object.state, "ok");
	}
	EXPECT_LE(MOST, walked);
	EXPECT_LE(MOST, stay);
	EXPECT_GE(walked, stay);
	EXPECT_GE(OBJECTS_MAX, object_count());
	EXPECT_LE(OBJECTS_MAX - OTHERS, object_count());
}

struct walks {
	const struct mapped	*files;
	unsigned int		nr;
	/* Stop after this many files were read. */
	long			loaded;
	atomic_uint		wrong;
	atomic_uint		whole;
};

static void *walks_main(void *data)
{
	struct walks *walks = data;
	struct walker walker;

	walker_thread_init(&walker);
	for (unsigned int i = 0; i % 16 || unwind_stat("sframe_loaded") < walks->loaded; i++) {
		const struct mapped *file = &walks->files[i % walks->nr];
		struct trace right = trace_of_mapped(file, ALL_FRAMES);

		walks->wrong += !walk_mapped(&walker, file) || !trace_begins(&walker, &right);
		walks->whole += walker.event.nr == right.nr;
		if (i % 7 == 0)
			walk_anew();
	}
	walker_exit(&walker);
	return NULL;
}

/* Objects are dropped during walks: by the sysctl, by a change of the file, by reclaim. */
TEST_F(load, walks_while_dropped)
{
	enum { WALKERS = 3, FILES = 8 };
	struct walks walks = { .nr = FILES, .loaded = self->loaded + 300 };
	struct reader reader = {};
	struct mapped files[FILES];
	pthread_t walkers[WALKERS];

	for (int i = 0; i < FILES; i++) {
		const struct image_spec spec = { .code = i % 2 ? &chain_a : &chain_b };

		ASSERT_TRUE(mapped_init(&files[i], &spec, "%s/%d", self->dir, i));
	}
	walks.files = files;
	START_READER(&reader);
	for (int i = 0; i < WALKERS; i++)
		ASSERT_EQ(0, pthread_create(&walkers[i], NULL, walks_main, &walks));
	for (int i = 0; i < WALKERS; i++) {
		while (pthread_tryjoin_np(walkers[i], NULL)) {
			sframe_drop();
			rewrite(files[i].fd, &files[i].image, false);
			file_put(DROP_CACHES, "2");
		}
	}
	STOP_READER(&reader);
	EXPECT_EQ(0, walks.wrong);
	EXPECT_LT(0, walks.whole);
	for (int i = 0; i < FILES; i++)
		EXPECT_CHAIN(&files[i]);
}

TEST_HARNESS_MAIN
