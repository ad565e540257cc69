// SPDX-License-Identifier: GPL-2.0
/*
 * Which cgroup pays for the tables of files: the charge, its end, and cgroups without
 * memory. Traces are always correct or end early.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sframe_large.h"
#include "harness.h"

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

	/* All objects look unused for 40 seconds. */
	ASSERT_EQ(0, tracer_op(self->walker.fd, (struct unwind_test_op)OP_OLDER(40)));
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
