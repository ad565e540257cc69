// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the limits of objects: how many loads a user may have in flight, and which
 * part of the room for all objects they may use.
 *
 * The test's objects are not in the hash, so lookups do not find them. They are accounted to
 * the user that runs the test, who must have no other loads in flight.
 */
#include <kunit/test.h>
#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/mm.h>

#include "object.h"

/* Maximum number of loads of a user, and the room for all objects in bytes. */
#define LOADS		max(16U, num_online_cpus())
#define ROOM		((long)(totalram_pages() / 16 * PAGE_SIZE))

/* Also runs after a failed assertion, because the list and the counts outlive the test. */
static void room_forget(void *data)
{
	struct unwind_object *object = data;

	unwind_object_unreserve(object, object->bytes);
	unwind_room_loaded(object);
}

static struct unwind_object *room_objects(struct kunit *test, unsigned int nr)
{
	struct unwind_object *objects = kunit_kcalloc(test, nr, sizeof(*objects), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, objects);
	for (unsigned int i = 0; i < nr; i++) {
		INIT_LIST_HEAD(&objects[i].lru);
		KUNIT_ASSERT_EQ(test, 0, kunit_add_action(test, room_forget, &objects[i]));
	}
	return objects;
}

/* LOADS at once are allowed, and each one that ends allows another one. */
static void room_loads_test(struct kunit *test)
{
	const unsigned int loads = LOADS;
	struct unwind_object *objects = room_objects(test, loads + 1), *last = &objects[loads];

	for (unsigned int i = 0; i < loads; i++)
		KUNIT_EXPECT_EQ(test, 0, unwind_room_load(&objects[i]));
	for (unsigned int i = 0; i < loads; i++) {
		KUNIT_EXPECT_EQ(test, -EBUSY, unwind_room_load(last));
		KUNIT_EXPECT_TRUE(test, list_empty(&last->lru));
		unwind_room_loaded(&objects[i]);
		/* The entry is free for the list of objects that may be dropped. */
		KUNIT_EXPECT_TRUE(test, list_empty(&objects[i].lru));
		KUNIT_EXPECT_EQ(test, 0, unwind_room_load(last));
		unwind_room_loaded(last);
		KUNIT_EXPECT_EQ(test, 0, unwind_room_load(&objects[i]));
	}
	for (unsigned int i = 0; i < loads; i++)
		unwind_room_loaded(&objects[i]);
}

/* All loads of a user together may reserve half of the room. */
static void room_bytes_test(struct kunit *test)
{
	struct unwind_object *objects = room_objects(test, 2);
	const long part = ROOM / 8;

	KUNIT_ASSERT_EQ(test, 0, unwind_room_load(&objects[0]));
	KUNIT_ASSERT_EQ(test, 0, unwind_room_load(&objects[1]));
	for (int i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ(test, 0, unwind_object_reserve(&objects[i % 2], part));
	for (int i = 0; i < 2; i++) {
		KUNIT_EXPECT_EQ(test, -ENOSPC, unwind_object_reserve(&objects[i], part));
		KUNIT_EXPECT_EQ(test, 2 * part, objects[i].bytes);
	}

	unwind_object_unreserve(&objects[1], part);
	KUNIT_EXPECT_EQ(test, 0, unwind_object_reserve(&objects[0], part));
	unwind_object_unreserve(&objects[1], part);
	unwind_room_loaded(&objects[1]);
	KUNIT_EXPECT_EQ(test, 0, unwind_object_reserve(&objects[0], part));
	/* More than half is too much even for a single load. */
	KUNIT_EXPECT_EQ(test, -EFBIG, unwind_object_reserve(&objects[0], part));
	KUNIT_EXPECT_EQ(test, 4 * part, objects[0].bytes);
}

/* Workers have a lower limit, and their loads do not block those of the task itself. */
static void room_workers_test(struct kunit *test)
{
	struct unwind_object *objects = room_objects(test, 4);

	for (int i = 0; i < 3; i++)
		objects[i].by_worker = true;
	KUNIT_EXPECT_EQ(test, 0, unwind_room_load(&objects[0]));
	KUNIT_EXPECT_EQ(test, 0, unwind_room_load(&objects[1]));
	KUNIT_EXPECT_EQ(test, -EBUSY, unwind_room_load(&objects[2]));
	KUNIT_EXPECT_EQ(test, 0, unwind_room_load(&objects[3]));
	unwind_room_loaded(&objects[1]);
	KUNIT_EXPECT_EQ(test, 0, unwind_room_load(&objects[2]));
}

/* Others may retry if a cgroup or user had no room, but not after errors of the file. */
static void room_others_test(struct kunit *test)
{
	struct unwind_object *objects = room_objects(test, 1), *object = &objects[0];
	static const int errors[] = { 0, -ENOMEM, -ENOSPC, -ENODATA, -EIO };
	struct unwind_object loaded;

	KUNIT_ASSERT_EQ(test, 0, unwind_room_load(object));
	unwind_room_loaded(object);
	loaded = *object;
	for (int i = 0; i < ARRAY_SIZE(errors); i++) {
		*object = loaded;
		object->error = errors[i];
		KUNIT_EXPECT_FALSE(test, unwind_room_others(object, i));
		object->memcg = (void *)-1L;
		KUNIT_EXPECT_EQ(test, errors[i] == -ENOMEM, unwind_room_others(object, i));
		object->memcg = loaded.memcg;
		object->user = INVALID_UID;
		KUNIT_EXPECT_EQ(test, errors[i] == -ENOSPC, unwind_room_others(object, i));
	}
	*object = loaded;
}

/* Retries by others are limited: a few at once, and then a few per second. */
static void room_tries_test(struct kunit *test)
{
	struct unwind_object object = { .error = -ENOMEM, .memcg = (void *)-1L };
	unsigned long begin = jiffies;
	unsigned int tries = 0;

	for (int i = 0; i < 1000; i++)
		tries += unwind_room_others(&object, 7);
	KUNIT_EXPECT_LE(test, 8, tries);
	KUNIT_EXPECT_GE(test, 8 * (2 + (jiffies - begin) / HZ), tries);
	/* Another file has its own limit. */
	KUNIT_EXPECT_TRUE(test, unwind_room_others(&object, 8));
}

/* The average for the shrinker is never 0, and grows with a large object. */
static void room_average_test(struct kunit *test)
{
	struct unwind_object *object = room_objects(test, 1);
	unsigned long before = unwind_room_average();

	KUNIT_EXPECT_LE(test, 1UL, before);
	KUNIT_ASSERT_EQ(test, 0, unwind_room_load(object));
	unwind_room_take(object);
	KUNIT_EXPECT_EQ(test, 0, unwind_object_reserve(object, ROOM / 8));
	KUNIT_EXPECT_LT(test, before, unwind_room_average());
	unwind_room_loaded(object);
	unwind_room_give(object);
	object->bytes = 0;
}

static struct kunit_case unwind_room_cases[] = {
	KUNIT_CASE(room_loads_test),
	KUNIT_CASE(room_bytes_test),
	KUNIT_CASE(room_workers_test),
	KUNIT_CASE(room_others_test),
	KUNIT_CASE(room_tries_test),
	KUNIT_CASE(room_average_test),
	{}
};

static struct kunit_suite unwind_room_suite = {
	.name		= "unwind_room",
	.test_cases	= unwind_room_cases,
};

kunit_test_suite(unwind_room_suite);

MODULE_DESCRIPTION("KUnit tests of the room for objects");
MODULE_LICENSE("GPL");
