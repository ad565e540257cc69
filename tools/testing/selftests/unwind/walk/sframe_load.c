// SPDX-License-Identifier: GPL-2.0
/*
 * How much the kernel caches about files, for how long, and who pays for it: many
 * processes and many files, memory pressure, cgroups without memory, the sysctl.
 * Traces are always correct or end early.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sframe_walk.h"
#include "harness.h"

#define DROP_CACHES	"/proc/sys/vm/drop_caches"

/* The maximum number of cached objects. */
#define OBJECTS_MAX	4096

/* Rows as compilers write them. A function starts with a return address only. */
static const struct sframe_row usual_rows[] = {
	{ 0, CFA_SP, 8, 0 }, { 1, CFA_SP, 16, 0 }, { 2, CFA_SP, 24, -24 },
	{ 6, CFA_SP, 112, -24 }, { 50, CFA_SP, 24, -24 }, { 51, CFA_SP, 16, 0 },
	{ 52, CFA_SP, 8, 0 },
};

#define FUNCTION_SIZE	64

/* A file of @nr functions that are never run. */
static bool large_init(struct mapped *large, unsigned int nr, unsigned int version,
		       const char *dir, const char *name)
{
	struct sframe_function *functions = calloc(nr, sizeof(*functions));
	const struct image_spec spec = {
		.size = nr * FUNCTION_SIZE, .functions = functions, .nr = nr,
		.version = version,
	};
	bool done;

	for (unsigned int i = 0; i < nr; i++)
		functions[i] = (struct sframe_function) {
			.start = i * FUNCTION_SIZE, .size = FUNCTION_SIZE,
			.nr = ARRAY_SIZE(usual_rows), .rows = usual_rows,
		};
	done = mapped_init(large, &spec, "%s/%s", dir, name);
	free(functions);
	return done;
}

static int walk_returns(struct walker *walker, const void *const *returns, unsigned int nr)
{
	const void *words[UNWIND_TEST_ENTRIES] = { (void *)1 };
	struct trace right = {};

	memcpy(words + 1, returns, nr * sizeof(*returns));
	trace_add_words(&right);
	for (unsigned int i = 0; i < nr; i++)
		trace_add(&right, returns[i]);
	if (!walk_words(walker, words, nr + 1))
		return WRONG;
	if (walker->event.nr > 1 && walker->event.nr < right.nr)
		return trace_begins(walker, &right) ? WITHOUT_TABLE : WRONG;
	return trace_is(walker, &right) ? WITH_TABLE : WRONG;
}

/* Functions scattered over a large file. */
static int walk_large(struct walker *walker, const struct mapped *large)
{
	const void *returns[8];

	for (unsigned int i = 0; i < ARRAY_SIZE(returns); i++) {
		unsigned int nr = (i * 12345 + 7) % large->image.functions;

		returns[i] = large->map + nr * FUNCTION_SIZE + 1;
	}
	return walk_returns(walker, returns, ARRAY_SIZE(returns));
}

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

/* Make all objects look unused for this long. */
#define LATER(walker, seconds)	\
	ASSERT_EQ(0, tracer_op((walker)->fd, (struct unwind_test_op)OP_OLDER(seconds)))

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

	LATER(&self->walker, 20);
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

/* Walk through @nr new files, named by number from @first, until @nr of them have tables. */
static int walk_new_files(struct walker *walker, const char *dir, int first, int nr)
{
	const void *returns[TOGETHER];
	char page[SFRAME_PAGE], path[64];
	int how;

	image_page(page);
	for (int i = 0; i < nr; i++) {
		void *map;
		int fd;

		snprintf(path, sizeof(path), "%s/%d", dir, first + i);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0755);
		if (write(fd, page, SFRAME_PAGE) != SFRAME_PAGE)
			return WRONG;
		map = mmap(NULL, SFRAME_PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
		close(fd);
		if (map == MAP_FAILED)
			return WRONG;
		returns[i] = map + 1 + (first + i) % 1000;
	}
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

/* An ordinary user. */
#define SOMEBODY	1001

/* Have @nr files in use as an ordinary user, at any time. */
static int hoard(struct walker *walker, const char *dir, int nr)
{
	if (setresgid(SOMEBODY, SOMEBODY, SOMEBODY) || setresuid(SOMEBODY, SOMEBODY, SOMEBODY))
		return WRONG;
	for (int i = 0; i < nr; i += TOGETHER) {
		int how = walk_new_files(walker, dir, i, nr - i < TOGETHER ? nr - i : TOGETHER);

		if (how != WITH_TABLE ||
		    tracer_op(walker->fd, (struct unwind_test_op)OP_OLDER(-1000)))
			return WRONG;
	}
	return WITH_TABLE;
}

/* A user has all objects, and all are in use: others get some of the room at once. */
TEST_F(load, room_of_others)
{
	enum { OTHERS = 30 };
	struct mapped files[OTHERS];
	int status;
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
		ASSERT_TRUE(mapped_init(&files[i], &(struct image_spec) { .code = &chain_a },
					"%s/other%d", self->dir, i));
		EXPECT_CHAIN(&files[i]);
	}
	EXPECT_EQ(OBJECTS_MAX, object_count());
	for (int i = 0; i < OTHERS; i++)
		EXPECT_STATE(files[i].path, "ok");
	EXPECT_STATE(self->file.path, "ok");
	EXPECT_EQ(OBJECTS_MAX, object_count());
}

/* A thread that reads the list of files all the time. */
struct reader {
	pthread_t	thread;
	atomic_bool	stop;
	atomic_uint	lists;
	atomic_uint	bad;
};

static void *reader_main(void *data)
{
	struct reader *reader = data;

	while (!reader->stop) {
		reader->lists++;
		reader->bad += object_count() < 0;
	}
	return NULL;
}

#define START_READER(reader)							\
	ASSERT_EQ(0, pthread_create(&(reader)->thread, NULL, reader_main, reader))

#define STOP_READER(reader) do {						\
	(reader)->stop = true;							\
	pthread_join((reader)->thread, NULL);					\
	EXPECT_EQ(0, (reader)->bad);						\
	EXPECT_LT(0, (reader)->lists);						\
} while (0)

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

FIXTURE(cgroup) {
	struct walker walker;
	char dir[32];
	struct mapped file, large;
	char cgroup[64], other[80];
};

/* More than the memory accounting charges in advance. */
#define LARGE		60000

FIXTURE_SETUP(cgroup)
{
	static const char root[] = "/sys/fs/cgroup";

	if (file_print(root, "cgroup.subtree_control", "+memory"))
		SKIP(return, "needs root and the memory controller of cgroup2 on %s", root);
	SETUP_WALKER();
	ASSERT_TRUE(mapped_init(&self->file, &(struct image_spec) { .code = &chain_a }, "%s/file",
				self->dir));
	EXPECT_CHAIN(&self->file);
	ASSERT_TRUE(large_init(&self->large, LARGE, 2, self->dir, "large"));
	snprintf(self->cgroup, sizeof(self->cgroup), "%s/unwind-sframe-%d", root, getpid());
	snprintf(self->other, sizeof(self->other), "%s-other", self->cgroup);
	ASSERT_EQ(0, mkdir(self->cgroup, 0755));
	ASSERT_EQ(0, mkdir(self->other, 0755));
	file_print(self->cgroup, "memory.swap.max", "0");
}

FIXTURE_TEARDOWN(cgroup)
{
	rmdir(self->cgroup);
	rmdir(self->other);
	private_unmount(self->dir);
	walker_exit(&self->walker);
}

/* A process in a cgroup, which walks on command. */
struct member {
	pid_t	pid;
	int	orders[2];
	int	answers[2];
};

static int member_main(struct member *member, const char *cgroup, const struct mapped *small,
		       const struct mapped *large)
{
	struct walker walker;
	char how, order = 0;
	const char *why;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Set up everything except for the table. */
	if (file_print(cgroup, "cgroup.procs", "0") || walker_init(&walker, &why) ||
	    !walk_mapped(&walker, small))
		return 1;
	how = WITH_TABLE;
	while (write(member->answers[1], &how, 1) == 1) {
		if (read(member->orders[0], &order, 1) != 1 || order == 'q')
			return order != 'q';
		walk_anew();
		how = walk_large(&walker, large);
	}
	return 1;
}

#define START_MEMBER(member, cgroup) do {					\
	char _how;								\
										\
	ASSERT_EQ(0, pipe((member)->orders));					\
	ASSERT_EQ(0, pipe((member)->answers));					\
	(member)->pid = fork();							\
	if (!(member)->pid)							\
		_exit(member_main(member, cgroup, &self->file, &self->large));	\
	ASSERT_EQ(1, read((member)->answers[0], &_how, 1));			\
} while (0)

static int member_walk(struct member *member)
{
	char how;

	if (write(member->orders[1], "w", 1) != 1 || read(member->answers[0], &how, 1) != 1)
		return WRONG;
	return how;
}

static int member_end(struct member *member)
{
	int status;

	if (write(member->orders[1], "q", 1) != 1)
		return -1;
	return waitpid(member->pid, &status, 0) == member->pid ? status : -1;
}

/* The first task that needs a table pays for it, and others do not. */
TEST_F(cgroup, charged)
{
	struct member first, second;
	struct object object;
	long before, other;

	START_MEMBER(&first, self->cgroup);
	START_MEMBER(&second, self->other);
	before = file_number(self->cgroup, "memory.stat", "kernel");
	other = file_number(self->other, "memory.current", NULL);
	ASSERT_LE(0, before);
	EXPECT_EQ(WITH_TABLE, member_walk(&first));
	EXPECT_EQ(WITH_TABLE, member_walk(&second));
	EXPECT_EQ(WITH_TABLE, walk_large(&self->walker, &self->large));
	EXPECT_STATE(self->large.path, "ok");
	object_find(self->large.path, &object);
	/* These numbers lag behind. */
	EXPECT_LE(object.bytes / 2,
		  file_number(self->cgroup, "memory.stat", "kernel") - before);
	/* The copy of the section is freed; no more than the reported size stays charged. */
	while (file_number(self->cgroup, "memory.stat", "kernel") - before >
	       object.bytes + object.bytes / 8)
		;
	EXPECT_GT(object.bytes / 4, file_number(self->other, "memory.current", NULL) - other);

	/* The charge outlives the task. Objects charged to other cgroups stay. */
	EXPECT_EQ(0, member_end(&first));
	EXPECT_LE(object.bytes, file_number(self->cgroup, "memory.current", NULL));
	do {
		file_print(self->cgroup, "memory.reclaim", "16M");
	} while (object_find(self->large.path, &object));
	EXPECT_STATE(self->file.path, "ok");
	EXPECT_EQ(WITH_TABLE, member_walk(&second));
	EXPECT_EQ(0, member_end(&second));
}

/* An old object is dropped, whatever the lists of other cgroups hold. */
TEST_F(cgroup, old)
{
	struct object object;
	struct member member;
	struct mapped young;

	ASSERT_TRUE(mapped_init(&young, &(struct image_spec) { .code = &chain_b }, "%s/young",
				self->dir));
	START_MEMBER(&member, self->cgroup);
	EXPECT_EQ(WITH_TABLE, member_walk(&member));
	EXPECT_STATE(self->large.path, "ok");

	LATER(&self->walker, 40);
	walk_anew();
	EXPECT_CHAIN(&self->file);
	EXPECT_CHAIN(&young);
	ASSERT_EQ(0, tracer_op(self->walker.fd, (struct unwind_test_op)OP_DROP(35)));
	EXPECT_EQ(0, object_find(self->large.path, &object));
	EXPECT_STATE(self->file.path, "ok");
	EXPECT_STATE(young.path, "ok");
	EXPECT_EQ(0, member_end(&member));
	mapped_exit(&young);
}

/* Touch @size bytes of memory in @cgroup. */
static int touch_main(const char *cgroup, size_t size)
{
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || file_print(cgroup, "cgroup.procs", "0"))
		return 1;
	memset(memory, 1, size);
	return 0;
}

/* Walk in @cgroup all the time, and say when the first walk is done. */
static int look_main(const char *cgroup, const struct mapped *large, int ready)
{
	struct walker walker;
	const char *why;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (file_print(cgroup, "cgroup.procs", "0") || walker_init(&walker, &why))
		return 1;
	while (walk_large(&walker, large) != WRONG) {
		if (ready >= 0 && write(ready, "", 1) != 1)
			return 1;
		ready = -1;
		walk_anew();
	}
	return 1;
}

/* A table gives way to the memory of the cgroup's tasks, even if it is used all the time. */
TEST_F(cgroup, in_use)
{
	pid_t child, looker;
	struct object object;
	struct member member;
	int status, ready[2];
	char c;

	START_MEMBER(&member, self->cgroup);
	EXPECT_EQ(WITH_TABLE, member_walk(&member));
	EXPECT_STATE(self->large.path, "ok");
	object_find(self->large.path, &object);
	ASSERT_EQ(0, pipe(ready));
	looker = fork();
	ASSERT_LE(0, looker);
	if (!looker)
		_exit(look_main(self->other, &self->large, ready[1]));
	close(ready[1]);
	ASSERT_EQ(1, read(ready[0], &c, 1));

	/* Half of it fits only without the table. */
	ASSERT_EQ(0, file_print(self->cgroup, "memory.max", "%ld",
				file_number(self->cgroup, "memory.current", NULL) + (1 << 20)));
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		_exit(touch_main(self->cgroup, (1 << 20) + object.bytes / 2));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, file_number(self->cgroup, "memory.events", "oom_kill"));
	EXPECT_EQ(0, kill(looker, SIGKILL));
	EXPECT_EQ(looker, waitpid(looker, &status, 0));
	/* It did not end before. */
	EXPECT_TRUE(WIFSIGNALED(status));
	EXPECT_EQ(0, member_end(&member));
}

/* A table outlives the cgroup that paid for it. */
TEST_F(cgroup, removed)
{
	struct object object;
	struct member member;

	START_MEMBER(&member, self->cgroup);
	EXPECT_EQ(WITH_TABLE, member_walk(&member));
	EXPECT_EQ(0, member_end(&member));
	ASSERT_EQ(0, rmdir(self->cgroup));
	EXPECT_STATE(self->large.path, "ok");
	EXPECT_EQ(WITH_TABLE, walk_large(&self->walker, &self->large));
	do {
		ASSERT_EQ(0, file_put(DROP_CACHES, "2"));
	} while (object_find(self->large.path, &object));
	walk_anew();
	EXPECT_EQ(WITH_TABLE, walk_large(&self->walker, &self->large));
	EXPECT_STATE(self->large.path, "ok");
}

/* A table never causes an OOM kill. */
TEST_F(cgroup, too_small)
{
	struct member member;
	unsigned long walks = 0;
	int how;

	START_MEMBER(&member, self->cgroup);
	ASSERT_EQ(0, file_print(self->cgroup, "memory.max", "%ld",
				file_number(self->cgroup, "memory.current", NULL) + (512 << 10)));
	for (int i = 0; i < 20; i++)
		EXPECT_EQ(WITHOUT_TABLE, member_walk(&member));
	EXPECT_STATE(self->large.path, "no-memory");
	EXPECT_EQ(0, file_number(self->cgroup, "memory.events", "oom"));
	EXPECT_EQ(0, file_number(self->cgroup, "memory.events", "oom_kill"));
	EXPECT_LT(0, file_number(self->cgroup, "memory.events", "max"));

	/* The read is retried once memory is available. */
	ASSERT_EQ(0, file_print(self->cgroup, "memory.max", "max"));
	do {
		how = member_walk(&member);
		walks++;
	} while (how == WITHOUT_TABLE);
	EXPECT_EQ(WITH_TABLE, how);
	EXPECT_STATE(self->large.path, "ok");
	EXPECT_EQ(0, member_end(&member));
}

/* A cgroup without memory keeps no other cgroup from loading a table, and uses theirs. */
TEST_F(cgroup, full)
{
	struct member full, other;

	START_MEMBER(&full, self->cgroup);
	START_MEMBER(&other, self->other);
	ASSERT_EQ(0, file_print(self->cgroup, "memory.max", "%ld",
				file_number(self->cgroup, "memory.current", NULL) + (512 << 10)));
	EXPECT_EQ(WITHOUT_TABLE, member_walk(&full));
	EXPECT_STATE(self->large.path, "no-memory");
	EXPECT_EQ(WITH_TABLE, member_walk(&other));
	EXPECT_STATE(self->large.path, "ok");
	EXPECT_EQ(WITH_TABLE, member_walk(&full));
	EXPECT_EQ(0, member_end(&full));
	EXPECT_EQ(0, member_end(&other));
}

/* If all cgroups are short of memory, tasks retry a few times a second, not at each walk. */
TEST_F(cgroup, both_full)
{
	enum { ROUNDS = 200 };
	struct member members[2];
	struct timespec begin, end;
	long before;

	START_MEMBER(&members[0], self->cgroup);
	START_MEMBER(&members[1], self->other);
	ASSERT_EQ(0, file_print(self->cgroup, "memory.max", "%ld",
				file_number(self->cgroup, "memory.current", NULL) + (512 << 10)));
	ASSERT_EQ(0, file_print(self->other, "memory.max", "%ld",
				file_number(self->other, "memory.current", NULL) + (512 << 10)));
	before = unwind_stat("sframe_refused");
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int i = 0; i < 2 * ROUNDS; i++)
		EXPECT_EQ(WITHOUT_TABLE, member_walk(&members[i % 2]));
	clock_gettime(CLOCK_MONOTONIC, &end);
	/* Eight retries by other cgroups, and one that is due, each second. */
	EXPECT_GE(9 * (2 + end.tv_sec - begin.tv_sec), unwind_stat("sframe_refused") - before);
	EXPECT_EQ(0, member_end(&members[0]));
	EXPECT_EQ(0, member_end(&members[1]));
}

/* The tables of all files do not fit into the cgroup of the walking processes. */
static int crowded_main(const char *cgroup, const struct mapped *files, unsigned int nr)
{
	unsigned int with = 0;
	struct walker walker;
	const char *why;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (file_print(cgroup, "cgroup.procs", "0") || walker_init(&walker, &why))
		return 100;
	for (unsigned int i = 0; i < 20 * nr; i++) {
		int how = walk_large(&walker, &files[i % nr]);

		if (how == WRONG)
			return 101;
		with += how == WITH_TABLE;
	}
	return !with;
}

TEST_F(cgroup, crowded)
{
	enum { MEMBERS = 3, FILES = 18 };
	struct mapped files[FILES];
	struct reader reader = {};
	pid_t members[MEMBERS];
	int status;

	for (int i = 0; i < FILES; i++) {
		char name[8];

		snprintf(name, sizeof(name), "%d", i);
		ASSERT_TRUE(large_init(&files[i], 8000, 1 + i % 3, self->dir, name));
	}
	/* This is less than the tables take, even without the processes. */
	ASSERT_EQ(0, file_print(self->cgroup, "memory.max", "%d", 6 << 20));
	START_READER(&reader);
	for (int i = 0; i < MEMBERS; i++) {
		members[i] = fork();
		if (!members[i])
			_exit(crowded_main(self->cgroup, files, FILES));
	}
	for (int i = 0; i < MEMBERS; i++) {
		ASSERT_EQ(members[i], waitpid(members[i], &status, 0));
		EXPECT_EQ(0, status);
	}
	STOP_READER(&reader);
	EXPECT_EQ(0, file_number(self->cgroup, "memory.events", "oom_kill"));
	EXPECT_LT(0, file_number(self->cgroup, "memory.events", "max"));
}

TEST_HARNESS_MAIN
