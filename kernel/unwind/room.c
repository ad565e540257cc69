// SPDX-License-Identifier: GPL-2.0
/*
 * Room for objects: how many there may be, what they may take, and how much of that one
 * user may keep from all others by files that take for ever to be read.
 *
 * Contexts: task context that may sleep, but for functions that say otherwise.
 *
 * Invariant: what is counted is what an object has or is about to have, from when it is in
 * the hash until it leaves that. So is the room that a section takes while it is read.
 *
 * Nobody can drop an object while it is being loaded. So each user has a budget of these.
 */
#include <linux/array_size.h>
#include <linux/atomic.h>
#include <linux/cleanup.h>
#include <linux/cpumask.h>
#include <linux/cred.h>
#include <linux/errno.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/math.h>
#include <linux/memcontrol.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>

#include "object.h"

/* Objects at most, those without a table included; and their share of all memory. */
#define UNWIND_OBJECTS_MAX	4096
#define UNWIND_OBJECTS_SHARE	16

/* How often all of them make room, if none is unused. */
#define UNWIND_OBJECT_CLEAR	(15 * HZ)

/*
 * Objects that a user may have under way at once, or as many as there are CPUs, and the
 * share of what there is for all of them. What is left is for others, however few there are.
 */
#define UNWIND_LOADS_USER	16U
/* Of these, how many workers may read: who waits for none of them has less to lose. */
#define UNWIND_LOADS_WORKER	2U
#define UNWIND_LOADS_SHARE	2

/*
 * How often others try what could not be loaded, until it is time to try it again anyway:
 * all of them may be as short of memory.
 */
#define UNWIND_LOADS_OTHERS	8U

/**
 * struct unwind_loads - what a user has under way
 * @nr:		objects
 * @by_worker:	how many of these are read by workers
 * @bytes:	memory that these take or are about to
 */
struct unwind_loads {
	unsigned int	nr;
	unsigned int	by_worker;
	long		bytes;
};

/* The objects that are being loaded. */
static LIST_HEAD(unwind_loads);

/**
 * struct unwind_tries - loads of what failed for others just before, of some files
 * @since:	begin of the period that they are counted in, in jiffies
 * @nr:		how many
 */
struct unwind_tries {
	unsigned long	since;
	unsigned int	nr;
};

static struct unwind_tries unwind_tries[64];

/* Protects all of that, and the bytes of what is on the list. Inside of unwind_objects_lock. */
static DEFINE_SPINLOCK(unwind_loads_lock);

static atomic_t unwind_objects_nr;
/* All that objects take or are about to, until they are dropped. */
static atomic_long_t unwind_objects_bytes;
/* When there was no room, and when all were dropped for it. No partner: it is for speed. */
static unsigned long unwind_objects_filled;
static unsigned long unwind_objects_cleared;

static long unwind_room_max(void)
{
	return totalram_pages() / UNWIND_OBJECTS_SHARE * PAGE_SIZE;
}

/**
 * unwind_room_full - is there no room for one more object?
 * @bytes:	how much it is about to take
 *
 * Context: any.
 * Return: true if there is none, unless somebody makes it.
 */
bool unwind_room_full(long bytes)
{
	/* A limit that is exceeded by one is none the worse. */
	return atomic_read(&unwind_objects_nr) >= UNWIND_OBJECTS_MAX ||
	       atomic_long_read(&unwind_objects_bytes) + bytes > unwind_room_max();
}

/**
 * unwind_room_make - have room for one more object
 * @bytes:	how much it is about to take
 *
 * Drop what nobody looked for in a while, and if need be what is not in use right now. If
 * all is, somebody may just see to that: from time to time, all of it goes, and those who
 * are first have the room.
 *
 * Context: task context, may sleep.
 * Return: true if there is room now.
 */
bool unwind_room_make(long bytes)
{
	unsigned long age = UNWIND_OBJECT_UNUSED / 4;

	if (!unwind_room_full(bytes))
		return true;
	if (bytes > unwind_room_max() ||
	    jiffies - READ_ONCE(unwind_objects_filled) < UNWIND_OBJECT_RETRY)
		return false;

	for (; unwind_room_full(bytes) && age > UNWIND_OBJECT_RECHECK; age /= 2)
		unwind_objects_drop(age);
	if (!unwind_room_full(bytes))
		return true;
	if (jiffies - READ_ONCE(unwind_objects_cleared) > UNWIND_OBJECT_CLEAR) {
		WRITE_ONCE(unwind_objects_cleared, jiffies);
		unwind_objects_drop(0);
		return !unwind_room_full(bytes);
	}
	WRITE_ONCE(unwind_objects_filled, jiffies);
	return false;
}

/**
 * unwind_room_average - what an object takes
 *
 * Context: any.
 * Return: pages, on average of all objects, and at least one.
 */
unsigned long unwind_room_average(void)
{
	unsigned long bytes = atomic_long_read(&unwind_objects_bytes);
	unsigned int nr = atomic_read(&unwind_objects_nr);

	return DIV_ROUND_UP(bytes / max(nr, 1), PAGE_SIZE) ?: 1;
}

/**
 * unwind_room_take - count an object
 * @object:	it, with what it takes so far
 *
 * Context: any.
 */
void unwind_room_take(const struct unwind_object *object)
{
	atomic_inc(&unwind_objects_nr);
	atomic_long_add(object->bytes, &unwind_objects_bytes);
}

/**
 * unwind_room_give - count an object no longer
 * @object:	it, which nobody finds any more
 *
 * There is room for another one, if a grace period early.
 *
 * Context: any.
 */
void unwind_room_give(const struct unwind_object *object)
{
	atomic_dec(&unwind_objects_nr);
	atomic_long_sub(object->bytes, &unwind_objects_bytes);
}

/**
 * unwind_room_user - who answers for what a task takes of that which all have together
 * @cred:	its credentials
 *
 * In a user namespace, a user may have as many ids as they like: the user that made the
 * outermost one answers. If that was the system, it is the root of that namespace, and where
 * it has none, or the system's, each of the ids that the system gave.
 *
 * Context: any.
 * Return: the user.
 */
kuid_t unwind_room_user(const struct cred *cred)
{
	struct user_namespace *ns = cred->user_ns;
	kuid_t root;

	if (ns == &init_user_ns)
		return cred->uid;
	while (ns->parent != &init_user_ns)
		ns = ns->parent;
	if (!uid_eq(ns->owner, GLOBAL_ROOT_UID))
		return ns->owner;
	root = make_kuid(ns, 0);
	return uid_valid(root) && !uid_eq(root, GLOBAL_ROOT_UID) ? root : cred->uid;
}

/* To compare: who needs it for more takes a reference. */
static const struct mem_cgroup *unwind_loads_memcg(void)
{
	struct mem_cgroup *memcg = get_mem_cgroup_from_current();

	mem_cgroup_put(memcg);
	return memcg;
}

static struct unwind_loads unwind_loads_of(kuid_t user)
{
	const struct unwind_object *object;
	struct unwind_loads loads = {};

	lockdep_assert_held(&unwind_loads_lock);
	list_for_each_entry(object, &unwind_loads, lru) {
		if (!uid_eq(object->user, user))
			continue;
		loads.nr++;
		loads.by_worker += object->by_worker;
		loads.bytes += object->bytes;
	}
	return loads;
}

/**
 * unwind_room_load - begin to load an object
 * @object:	it, of which nobody knows yet
 *
 * Context: task context, any locks but those of this file.
 * Return: 0; or -EBUSY if the user who answers for current has enough of them under way.
 */
int unwind_room_load(struct unwind_object *object)
{
	object->user = unwind_room_user(current_real_cred());
	object->memcg = unwind_loads_memcg();
	scoped_guard(spinlock, &unwind_loads_lock) {
		const struct unwind_loads loads = unwind_loads_of(object->user);

		if (loads.nr >= max(UNWIND_LOADS_USER, num_online_cpus()) ||
		    (object->by_worker && loads.by_worker >= UNWIND_LOADS_WORKER))
			return -EBUSY;
		list_add(&object->lru, &unwind_loads);
	}
	return 0;
}

/**
 * unwind_room_loaded - an object is not being loaded any more
 * @object:	it, of which the entry of lists is free from then on
 *
 * Context: task context, any locks but those of this file.
 */
void unwind_room_loaded(struct unwind_object *object)
{
	scoped_guard(spinlock, &unwind_loads_lock)
		list_del_init(&object->lru);
}

/* Did current not lack what who loaded it lacked? */
static bool unwind_loads_differ(const struct unwind_object *object)
{
	switch (object->error) {
	case -ENOMEM:
		return object->memcg != unwind_loads_memcg();
	case -ENOSPC:
		return !uid_eq(object->user, unwind_room_user(current_real_cred()));
	default:
		return false;
	}
}

/**
 * unwind_room_others - is current to load what could not be loaded for somebody else?
 * @object:	an object that was read
 * @hash:	of its file
 *
 * A memory cgroup may be full, and a user may have too much under way. That is no reason
 * why nobody else should have it.
 *
 * Context: task context, any locks but those of this file.
 * Return: true if so, which is counted.
 */
bool unwind_room_others(const struct unwind_object *object, u32 hash)
{
	struct unwind_tries *tries = &unwind_tries[hash % ARRAY_SIZE(unwind_tries)];

	if (likely(!object->error) || !unwind_loads_differ(object))
		return false;
	guard(spinlock)(&unwind_loads_lock);
	if (time_after(jiffies, tries->since + UNWIND_OBJECT_RETRY))
		*tries = (struct unwind_tries) { .since = jiffies };
	return tries->nr < UNWIND_LOADS_OTHERS && ++tries->nr;
}

/* More bytes for an object; false if its user has too much under way. */
static bool unwind_loads_add(struct unwind_object *object, long bytes, long max)
{
	scoped_guard(spinlock, &unwind_loads_lock) {
		if (unwind_loads_of(object->user).bytes + bytes > max)
			return false;
		object->bytes += bytes;
	}
	return true;
}

/**
 * unwind_object_reserve - have room for what an object is about to take
 * @object:	an object that is being loaded
 * @bytes:	how much more
 *
 * Context: task context, may sleep.
 * Return: 0; -EFBIG if no user may have that much under way; or -ENOSPC if there is no
 * room now, or none for the user who loads it.
 */
int unwind_object_reserve(struct unwind_object *object, long bytes)
{
	const long max = unwind_room_max() / UNWIND_LOADS_SHARE;

	/* Nobody else changes what an object takes while it is being loaded. */
	if (object->bytes + bytes > max)
		return -EFBIG;
	if (!unwind_room_make(bytes))
		return -ENOSPC;
	if (atomic_long_add_return(bytes, &unwind_objects_bytes) > unwind_room_max() ||
	    !unwind_loads_add(object, bytes, max)) {
		atomic_long_sub(bytes, &unwind_objects_bytes);
		return -ENOSPC;
	}
	return 0;
}

/**
 * unwind_object_unreserve - give some of that back
 * @object:	an object that is being loaded
 * @bytes:	how much
 *
 * Context: any.
 */
void unwind_object_unreserve(struct unwind_object *object, long bytes)
{
	scoped_guard(spinlock, &unwind_loads_lock)
		object->bytes -= bytes;
	atomic_long_sub(bytes, &unwind_objects_bytes);
}
