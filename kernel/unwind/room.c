// SPDX-License-Identifier: GPL-2.0
/*
 * Limits of objects: their number, their memory, and the part of both that one user can
 * occupy, with files whose reads never end or with objects that are always in use.
 *
 * Contexts: task context that may sleep, except for functions that say otherwise.
 *
 * Invariant: an object is counted while it is in the hash, with the memory that it uses or
 * has reserved. A section is counted while it is being read.
 *
 * Objects cannot be dropped while they are being loaded, so each user has a budget of loads.
 * Other objects have none: if there is no room, the user with most of it gives way.
 */
#include <linux/array_size.h>
#include <linux/atomic.h>
#include <linux/cleanup.h>
#include <linux/cpumask.h>
#include <linux/cred.h>
#include <linux/errno.h>
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/list_lru.h>
#include <linux/log2.h>
#include <linux/math.h>
#include <linux/memcontrol.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>

#include "object.h"

/* Maximum number of objects, with or without a table; and their share of all memory. */
#define UNWIND_OBJECTS_MAX	4096
#define UNWIND_OBJECTS_SHARE	16

/* Minimum time between drops of all objects of a user, if none is unused. */
#define UNWIND_OBJECT_CLEAR	(15 * HZ)

/*
 * Loads that a user may have in flight, or the number of CPUs if that is larger; and the share
 * of the memory for objects that these loads may use. The rest is left to other users.
 */
#define UNWIND_LOADS_USER	16U
/* How many of these loads workers may do: few, because no task waits for them. */
#define UNWIND_LOADS_WORKER	2U
#define UNWIND_LOADS_SHARE	2

/*
 * How often other users and cgroups may retry a failed load per UNWIND_OBJECT_RETRY: limited,
 * because all of them may be as short of memory.
 */
#define UNWIND_LOADS_OTHERS	8U

/**
 * struct unwind_loads - loads that a user has in flight
 * @nr:		number of objects
 * @by_worker:	how many of these objects are read by workers
 * @bytes:	memory that these objects use or have reserved
 */
struct unwind_loads {
	unsigned int	nr;
	unsigned int	by_worker;
	long		bytes;
};

/* The objects that are being loaded. */
static LIST_HEAD(unwind_loads);

/**
 * struct unwind_tries - recent retries of loads that failed for others, for some files
 * @since:	start of the period that is counted, in jiffies
 * @nr:		number of retries
 */
struct unwind_tries {
	unsigned long	since;
	unsigned int	nr;
};

static struct unwind_tries unwind_tries[64];

/* Protects the above, and the bytes of objects on the list. Nests in unwind_objects_lock. */
static DEFINE_SPINLOCK(unwind_loads_lock);

/**
 * struct unwind_use - room that the objects of some users take
 * @nr:		number of objects
 * @bytes:	memory that they use or have reserved
 */
struct unwind_use {
	atomic_t	nr;
	atomic_long_t	bytes;
};

/* By user. Two users that share a slot are treated as one, which costs them room only. */
static struct unwind_use unwind_uses[64];

static atomic_t unwind_objects_nr;
/* Memory that objects use or have reserved, until they are dropped. */
static atomic_long_t unwind_objects_bytes;
/* Last time without room, and last drop of all objects. No partner: only a rate limit. */
static unsigned long unwind_objects_filled;
static unsigned long unwind_objects_cleared;

static long unwind_room_max(void)
{
	return totalram_pages() / UNWIND_OBJECTS_SHARE * PAGE_SIZE;
}

/**
 * unwind_room_full - is there no room for more?
 * @nr:		number of objects
 * @bytes:	memory that is needed
 *
 * Context: any.
 * Return: true if there is no room without dropping objects.
 */
bool unwind_room_full(unsigned int nr, long bytes)
{
	/* Racy, because exceeding the limit by one object does no harm. */
	return atomic_read(&unwind_objects_nr) + nr > UNWIND_OBJECTS_MAX ||
	       atomic_long_read(&unwind_objects_bytes) + bytes > unwind_room_max();
}

static struct unwind_use *unwind_use_of(kuid_t user)
{
	return &unwind_uses[hash_32(__kuid_val(user), ilog2(ARRAY_SIZE(unwind_uses)))];
}

/* The part of the room, as bytes: by number or by memory, whichever is more. */
static long unwind_use_part(unsigned int nr, long bytes)
{
	return max(nr * (unwind_room_max() / UNWIND_OBJECTS_MAX), bytes);
}

static long unwind_use_taken(const struct unwind_use *use)
{
	return unwind_use_part(atomic_read(&use->nr), atomic_long_read(&use->bytes));
}

static struct unwind_use *unwind_use_most(void)
{
	struct unwind_use *most = &unwind_uses[0];

	for (unsigned int i = 1; i < ARRAY_SIZE(unwind_uses); i++) {
		if (unwind_use_taken(&unwind_uses[i]) > unwind_use_taken(most))
			most = &unwind_uses[i];
	}
	return most;
}

/**
 * struct unwind_room_want - room that objects of some users have to give
 * @use:	the users
 * @nr:		number of objects that need room
 * @bytes:	memory that is needed
 * @keep:	part of the room that the users keep
 */
struct unwind_room_want {
	const struct unwind_use	*use;
	unsigned int		nr;
	long			bytes;
	long			keep;
};

static enum lru_status unwind_room_pick(const struct unwind_object *object, const void *data)
{
	const struct unwind_room_want *want = data;

	if (!unwind_room_full(want->nr, want->bytes) ||
	    unwind_use_taken(want->use) <= want->keep)
		return LRU_STOP;
	return unwind_use_of(object->user) == want->use ? LRU_REMOVED : LRU_SKIP;
}

/* Drop objects of users with more of the room than @user will have. */
static void unwind_room_level(kuid_t user, unsigned int nr, long bytes)
{
	struct unwind_room_want want = { .nr = nr, .bytes = bytes };
	long taken;

	want.keep = unwind_use_taken(unwind_use_of(user)) + unwind_use_part(1, bytes);
	do {
		want.use = unwind_use_most();
		taken = unwind_use_taken(want.use);
		if (taken <= want.keep)
			break;
		unwind_objects_drop_picked(unwind_room_pick, &want);
	} while (unwind_room_full(nr, bytes) && unwind_use_taken(want.use) < taken);
}

/* Drop objects that were not looked up for a while. */
static void unwind_room_drop_unused(unsigned int nr, long bytes)
{
	unsigned long age = UNWIND_OBJECT_UNUSED / 4;

	for (; unwind_room_full(nr, bytes) && age > UNWIND_OBJECT_RECHECK; age /= 2)
		unwind_objects_drop(age);
}

/* Drop all objects of @user from time to time. */
static void unwind_room_clear(kuid_t user)
{
	/* Nothing but the last object makes that much room. */
	const struct unwind_room_want all = {
		.use = unwind_use_of(user), .bytes = unwind_room_max(),
	};

	if (jiffies - READ_ONCE(unwind_objects_cleared) <= UNWIND_OBJECT_CLEAR)
		return;
	WRITE_ONCE(unwind_objects_cleared, jiffies);
	unwind_objects_drop_picked(unwind_room_pick, &all);
}

/**
 * unwind_room_make - make room for more objects or for larger ones
 * @user:	user that they are accounted to
 * @nr:		number of objects
 * @bytes:	memory that is needed
 *
 * Drop objects that were not looked up for a while. If that is not enough, users with more of
 * the room than @user have to give some of it. If @user has most, and all is in use, let new
 * objects replace the old ones from time to time only: otherwise each walk would read files.
 *
 * Context: task context, may sleep.
 * Return: true if there is room now.
 */
bool unwind_room_make(kuid_t user, unsigned int nr, long bytes)
{
	bool often = jiffies - READ_ONCE(unwind_objects_filled) < UNWIND_OBJECT_RETRY;

	if (bytes > unwind_room_max())
		return false;
	if (unwind_room_full(nr, bytes) && !often)
		unwind_room_drop_unused(nr, bytes);
	if (unwind_room_full(nr, bytes))
		unwind_room_level(user, nr, bytes);
	if (unwind_room_full(nr, bytes) && !often) {
		unwind_room_clear(user);
		if (unwind_room_full(nr, bytes))
			WRITE_ONCE(unwind_objects_filled, jiffies);
	}
	return !unwind_room_full(nr, bytes);
}

/**
 * unwind_room_average - get the average size of an object
 *
 * Context: any.
 * Return: pages, at least one.
 */
unsigned long unwind_room_average(void)
{
	unsigned long bytes = atomic_long_read(&unwind_objects_bytes);
	unsigned int nr = atomic_read(&unwind_objects_nr);

	return DIV_ROUND_UP(bytes / max(nr, 1), PAGE_SIZE) ?: 1;
}

/* Count objects and memory of a user. */
static void unwind_room_add(kuid_t user, int nr, long bytes)
{
	struct unwind_use *use = unwind_use_of(user);

	atomic_add(nr, &unwind_objects_nr);
	atomic_long_add(bytes, &unwind_objects_bytes);
	atomic_add(nr, &use->nr);
	atomic_long_add(bytes, &use->bytes);
}

/**
 * unwind_room_take - count an object
 * @object:	the object, with its @user and @bytes set
 *
 * Context: any.
 */
void unwind_room_take(const struct unwind_object *object)
{
	unwind_room_add(object->user, 1, object->bytes);
}

/**
 * unwind_room_give - stop counting an object
 * @object:	the object, which is not in the hash any more
 *
 * This makes room for another object, a grace period before the memory is freed.
 *
 * Context: any.
 */
void unwind_room_give(const struct unwind_object *object)
{
	unwind_room_add(object->user, -1, -(long)object->bytes);
}

/**
 * unwind_room_user - get the user that a task's use of shared limits is accounted to
 * @cred:	credentials of the task
 *
 * A user namespace may give its owner any number of ids: account to the owner of the outermost
 * one. If that owner is the global root, account to the root of that namespace; if it has no
 * root, or the global one, account to each id.
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

/* The memcg of current, to be compared only: it comes without a reference. */
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
 * @object:	the object, not in the hash yet
 *
 * Context: task context, any locks except those of this file.
 * Return: 0; or -EBUSY if the user of current has too many loads in flight.
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
 * unwind_room_loaded - end the load of an object
 * @object:	the object, whose list entry is free for other lists afterwards
 *
 * Context: task context, any locks except those of this file.
 */
void unwind_room_loaded(struct unwind_object *object)
{
	scoped_guard(spinlock, &unwind_loads_lock)
		list_del_init(&object->lru);
}

/* Is current of another cgroup or user than the load that ran out of memory or room? */
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
 * unwind_room_others - should current retry a load that failed for others?
 * @object:	an object that was read
 * @hash:	hash of its key
 *
 * If the memory cgroup of one task is full, or its user has too much in flight, others may
 * still be able to load the file.
 *
 * Context: task context, any locks except those of this file.
 * Return: true if it should; each true counts as a retry.
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

/* Add bytes to an object; false if its user has too much in flight. */
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
 * unwind_object_reserve - reserve room for memory of an object
 * @object:	an object that is being loaded
 * @bytes:	how much more
 *
 * Context: task context, may sleep.
 * Return: 0; -EFBIG if the limit of a user is too small for it; or -ENOSPC if there is no
 * room now, or none for the user that loads it.
 */
int unwind_object_reserve(struct unwind_object *object, long bytes)
{
	const long max = unwind_room_max() / UNWIND_LOADS_SHARE;

	/* No lock: only the task that loads an object changes its bytes. */
	if (object->bytes + bytes > max)
		return -EFBIG;
	if (!unwind_room_make(object->user, 0, bytes))
		return -ENOSPC;
	unwind_room_add(object->user, 0, bytes);
	if (atomic_long_read(&unwind_objects_bytes) > unwind_room_max() ||
	    !unwind_loads_add(object, bytes, max)) {
		unwind_room_add(object->user, 0, -bytes);
		return -ENOSPC;
	}
	return 0;
}

/**
 * unwind_object_unreserve - give reserved room back
 * @object:	an object that is being loaded
 * @bytes:	how much
 *
 * Context: any.
 */
void unwind_object_unreserve(struct unwind_object *object, long bytes)
{
	scoped_guard(spinlock, &unwind_loads_lock)
		object->bytes -= bytes;
	unwind_room_add(object->user, 0, -bytes);
}
