// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of which files a task may read, and when.
 *
 * Nobody reads the test's file, so that a wait for its reader ends at once.
 */
#include <kunit/test.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/sched/mm.h>
#include <linux/shmem_fs.h>

#include "object.h"

static void put_file(void *file)
{
	fput(file);
}

static struct file *file_of(struct kunit *test)
{
	struct file *file = shmem_file_setup("unwind_fetch", PAGE_SIZE, 0);

	KUNIT_ASSERT_FALSE(test, IS_ERR(file));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action(test, put_file, file));
	return file;
}

static int fetch(struct file *file, int why)
{
	const struct unwind_object_source source = { .file = file };
	const struct unwind_object_place place = { .end = PAGE_SIZE };

	return unwind_object_fetch(&source, &place, why);
}

/* Some file systems hold the lock, shared, while a task reads the file: others may wait. */
static void locked_test(struct kunit *test)
{
	struct file *file = file_of(test);

	inode_lock_shared(file_inode(file));
	KUNIT_EXPECT_EQ(test, -EAGAIN, fetch(file, -ENOENT));
	KUNIT_EXPECT_EQ(test, 0, fetch(file, -EINPROGRESS));
	inode_unlock_shared(file_inode(file));
}

/* Inside a file system, a task neither reads nor waits for a reader. */
static void context_test(struct kunit *test)
{
	struct file *file = file_of(test);
	unsigned int nofs = memalloc_nofs_save();

	KUNIT_EXPECT_EQ(test, -EAGAIN, fetch(file, -ENOENT));
	KUNIT_EXPECT_EQ(test, -EAGAIN, fetch(file, -EINPROGRESS));
	memalloc_nofs_restore(nofs);

	/* An empty file has no table, and the task may read it. */
	KUNIT_EXPECT_EQ(test, 0, fetch(file, -ENOENT));
}

static struct kunit_case unwind_fetch_cases[] = {
	KUNIT_CASE(locked_test),
	KUNIT_CASE(context_test),
	{}
};

static struct kunit_suite unwind_fetch_suite = {
	.name		= "unwind_fetch",
	.test_cases	= unwind_fetch_cases,
};

kunit_test_suite(unwind_fetch_suite);

MODULE_DESCRIPTION("KUnit tests of reads of files");
MODULE_LICENSE("GPL");
