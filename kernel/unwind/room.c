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
#include <linux/bitmap.h>
#include <linux/bitops.h>
#include <linux/cleanup.h>
#include <linux/cpumask.h>
#include <linux/cred.h>
#include <linux/errno.h>
#include <linux/init.h>
#include <linux/jhash.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/list_lru.h>
#include <linux/math.h>
#include <linux/memcontrol.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/random.h>
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
 * @filled:	last time without room for them, in jiffies
 * @cleared:	last drop of all of them, in jiffies
 */
struct unwind_use {
	atomic_t	nr;
	atomic_long_t	bytes;
	/* No partner: only rate limits. */
	unsigned long	filled;
	unsigned long	cleared;
};

#define UNWIND_USES	256
/* How many of them are asked for room at once. */
#define UNWIND_USES_ASKED	8

/*
 * By user. Two users that share a slot have the room of one: the hash is seeded, so that this
 * depends on chance.
 */
static struct unwind_use unwind_uses[UNWIND_USES];
static u32 unwind_uses_seed __ro_after_init;
/* Slots of users whose tasks must not make room and found none. The next tick makes some. */
static DECLARE_BITMAP(unwind_uses_wanted, UNWIND_USES);

static atomic_t unwind_objects_nr;
/* Memory that objects use or have reserved, until they are dropped. */
static atomic_long_t unwind_objects_bytes;

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

static unsigned int unwind_use_slot(kuid_t user)
{
	return jhash_1word(__kuid_val(user), unwind_uses_seed) % UNWIND_USES;
}

/**
 * struct unwind_room_want - room that objects of some users have to give
 * @by_nr:	objects are short, otherwise bytes
 * @more:	how many more are needed
 * @slot:	the users
 * @user:	the only one of them; or INVALID_UID for all
 * @keep:	how many they keep
 */
struct unwind_room_want {
	bool		by_nr;
	long		more;
	unsigned int	slot;
	kuid_t		user;
	long		keep;
};

/* How much is missing. Racy, because exceeding the limit by one object does no harm. */
static long unwind_room_missing(const struct unwind_room_want *want)
{
	if (want->by_nr)
		return atomic_read(&unwind_objects_nr) + want->more - UNWIND_OBJECTS_MAX;
	return atomic_long_read(&unwind_objects_bytes) + want->more - unwind_room_max();
}

/* How much of the wanted resource a slot uses. */
static long unwind_use_taken(const struct unwind_room_want *want, unsigned int slot)
{
	const struct unwind_use *use = &unwind_uses[slot];

	return want->by_nr ? atomic_read(&use->nr) : atomic_long_read(&use->bytes);
}

/* The slot with most of the room, except for those in @asked. */
static unsigned int unwind_use_most(const struct unwind_room_want *want,
				    const unsigned long *asked)
{
	unsigned int most = find_first_zero_bit(asked, UNWIND_USES), slot;

	for_each_clear_bit(slot, asked, UNWIND_USES) {
		if (unwind_use_taken(want, slot) > unwind_use_taken(want, most))
			most = slot;
	}
	return most;
}

static enum lru_status unwind_room_pick(const struct unwind_object *object, const void *data)
{
	const struct unwind_room_want *want = data;

	if (unwind_room_missing(want) <= 0 || unwind_use_taken(want, want->slot) <= want->keep)
		return LRU_STOP;
	if (uid_valid(want->user) && !uid_eq(object->user, want->user))
		return LRU_SKIP;
	return unwind_use_slot(object->user) == want->slot ? LRU_REMOVED : LRU_SKIP;
}

/* Drop objects of users with more than slot @own will have. Ask some of them, each once. */
static void unwind_room_level(unsigned int own, bool by_nr, long more)
{
	struct unwind_room_want want = { .by_nr = by_nr, .more = more, .user = INVALID_UID };
	DECLARE_BITMAP(asked, UNWIND_USES) = {};

	for (int i = 0; i < UNWIND_USES_ASKED && unwind_room_missing(&want) > 0; i++) {
		want.slot = unwind_use_most(&want, asked);
		want.keep = unwind_use_taken(&want, own) + max(more, 1);
		if (unwind_use_taken(&want, want.slot) <= want.keep)
			break;
		__set_bit(want.slot, asked);
		unwind_objects_drop_picked(unwind_room_pick, &want);
	}
}

/* Drop objects that were not looked up for a while. */
static void unwind_room_drop_unused(unsigned int nr, long bytes)
{
	unsigned long age = UNWIND_OBJECT_UNUSED / 4;

	for (; unwind_room_full(nr, bytes) && age > UNWIND_OBJECT_RECHECK; age /= 2)
		unwind_objects_drop(age);
}

/* Drop all objects of a slot, or of one @user, from time to time if that may be enough. */
static void unwind_room_clear(unsigned int slot, kuid_t user, unsigned int nr, long bytes)
{
	const struct unwind_room_want by_nr = { .by_nr = true, .more = nr };
	struct unwind_room_want all = { .more = bytes, .slot = slot, .user = user };
	struct unwind_use *use = &unwind_uses[slot];

	if (jiffies - READ_ONCE(use->cleared) <= UNWIND_OBJECT_CLEAR ||
	    unwind_room_missing(&by_nr) > unwind_use_taken(&by_nr, slot) ||
	    unwind_room_missing(&all) > unwind_use_taken(&all, slot))
		return;
	WRITE_ONCE(use->cleared, jiffies);
	/* Nothing but the last object makes that much room. */
	all.more = unwind_room_max();
	unwind_objects_drop_picked(unwind_room_pick, &all);
}

static bool unwind_room_make_for(unsigned int slot, kuid_t user, unsigned int nr, long bytes)
{
	struct unwind_use *use = &unwind_uses[slot];
	bool often = jiffies - READ_ONCE(use->filled) < UNWIND_OBJECT_RETRY;

	if (bytes > unwind_room_max())
		return false;
	if (unwind_room_full(nr, bytes) && !often)
		unwind_room_drop_unused(nr, bytes);
	unwind_room_level(slot, true, nr);
	unwind_room_level(slot, false, bytes);
	if (unwind_room_full(nr, bytes) && !often) {
		unwind_room_clear(slot, user, nr, bytes);
		if (unwind_room_full(nr, bytes))
			WRITE_ONCE(use->filled, jiffies);
	}
	return !unwind_room_full(nr, bytes);
}

/**
 * unwind_room_make - make room for more objects or for larger ones
 * @user:	user that they are accounted to
 * @nr:		number of objects, 0 or 1
 * @bytes:	memory that is needed
 *
 * Drop objects that were not looked up for a while. If that is not enough, users with more of
 * the room than @user have to give some of it. If none has more, and all is in use, let new
 * objects replace those of @user from time to time only: otherwise each walk would read files.
 *
 * Context: task context, may sleep.
 * Return: true if there is room now.
 */
bool unwind_room_make(kuid_t user, unsigned int nr, long bytes)
{
	return unwind_room_make_for(unwind_use_slot(user), user, nr, bytes);
}

/**
 * unwind_room_later - let the next tick make room for one more object
 * @user:	user that it is accounted to
 *
 * Context: any.
 */
void unwind_room_later(kuid_t user)
{
	set_bit(unwind_use_slot(user), unwind_uses_wanted);
}

/**
 * unwind_room_tick - make room for users that could not do so
 *
 * Context: task context, may sleep.
 */
void unwind_room_tick(void)
{
	unsigned int slot;

	for_each_set_bit(slot, unwind_uses_wanted, UNWIND_USES) {
		clear_bit(slot, unwind_uses_wanted);
		unwind_room_make_for(slot, INVALID_UID, 1, 0);
	}
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
	struct unwind_use *use = &unwind_uses[unwind_use_slot(user)];

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

/* Count one more retry, if the period of these retries still has room for it. */
static bool unwind_tries_add(struct unwind_tries *tries)
{
	lockdep_assert_held(&unwind_loads_lock);
	if (time_after(jiffies, tries->since + UNWIND_OBJECT_RETRY))
		*tries = (struct unwind_tries) { .since = jiffies };
	if (tries->nr >= UNWIND_LOADS_OTHERS)
		return false;
	tries->nr++;
	return true;
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
	bool more = false;

	if (likely(!object->error) || !unwind_loads_differ(object))
		return false;
	scoped_guard(spinlock, &unwind_loads_lock)
		more = unwind_tries_add(&unwind_tries[hash % ARRAY_SIZE(unwind_tries)]);
	return more;
}

/* Add bytes to an object; false if its user has too much in flight. */
static bool unwind_loads_add(struct unwind_object *object, long bytes, long max)
{
	scoped_guard(spinlock, &unwind_loads_lock) {
		if (unwind_loads_of(object->user).bytes + bytes > max)
			return false;
		/* No partner: unwind_object_show() shows the old number or the new one. */
		WRITE_ONCE(object->bytes, object->bytes + bytes);
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
		/* No partner, as above. */
		WRITE_ONCE(object->bytes, object->bytes - bytes);
	unwind_room_add(object->user, 0, -bytes);
}

/**
 * unwind_room_init - draw the seed, before the first object is counted
 */
void __init unwind_room_init(void)
{
	unwind_uses_seed = get_random_u32();
}
