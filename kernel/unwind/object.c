// SPDX-License-Identifier: GPL-2.0
/*
 * Cache of SFrame tables by file, including files that have none. All tasks that map a
 * file share its object.
 *
 * Contexts: functions that create, read or wait for an object run in task context and may
 * sleep. The shrinker runs in any reclaim, and may wait for a grace period. Readers of an
 * object are in RCU read-side sections, and use a reference that unwind_object_get()
 * returned before.
 *
 * Invariant: an object in state READY is immutable, except for statistics and times. It
 * leaves the hash once, under unwind_objects_lock, and is freed after a grace period. No
 * object holds a file, an inode or a mount: it may outlive all of them, but not the file
 * system, because another file system may reuse the device number.
 *
 * No lock is held over I/O. A task that needs a file which another task is reading waits
 * briefly, if it may wait, and walks without the table if that is not enough.
 */
#include <linux/atomic.h>
#include <linux/cleanup.h>
#include <linux/dcache.h>
#include <linux/fs.h>
#include <linux/hashtable.h>
#include <linux/init.h>
#include <linux/jhash.h>
#include <linux/jiffies.h>
#include <linux/list_lru.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/swap.h>
#include <linux/unwind_stats.h>
#include <linux/unwind_user.h>
#include <linux/wait_bit.h>

#include "gfp.h"
#include "object.h"
#include "test_tracer.h"

/* How long to wait for another task or worker that reads the file. */
#define UNWIND_OBJECT_WAIT	(HZ / 10)
/* How many visits of the shrinker an object survives that was looked up recently. */
#define UNWIND_OBJECT_CHANCES	4
/* Pages that the shrinker scans at once: many, because it waits for a grace period then. */
#define UNWIND_OBJECTS_BATCH	4096

static DEFINE_HASHTABLE(unwind_objects, 10);
/* Protects the hash and object states. */
static DEFINE_SPINLOCK(unwind_objects_lock);

static u32 unwind_objects_seed __ro_after_init;
static struct kmem_cache *unwind_object_cache;
static struct list_lru unwind_objects_lru;
static struct shrinker *unwind_objects_shrinker;

atomic_long_t unwind_objects_epoch = ATOMIC_LONG_INIT(1);
atomic_t unwind_objects_ticks;

bool unwind_sframe_enabled;
struct unwind_object unwind_vdso;

static u32 unwind_object_hash(const struct unwind_object_key *key)
{
	/* Seeded, so that a user with many sections in one file cannot make one chain long. */
	return hash_ptr(key->inode, 32) ^ (u32)key->ino ^
	       jhash(&key->section, sizeof(key->section), unwind_objects_seed);
}

static struct unwind_object_key unwind_object_key(const struct unwind_object_source *source)
{
	const struct inode *inode = file_inode(source->file);

	return (struct unwind_object_key) {
		.inode		= inode,
		.ino		= inode->i_ino,
		.dev		= inode->i_sb->s_dev,
		.generation	= inode->i_generation,
		.section	= source->section,
	};
}

static struct unwind_object_stamp unwind_object_stamp(const struct file *file)
{
	struct inode *inode = file_inode(file);

	return (struct unwind_object_stamp) {
		.ctime		= inode_get_ctime(inode),
		.mtime		= inode_get_mtime(inode),
		.size		= i_size_read(inode),
	};
}

static bool unwind_object_is(const struct unwind_object *object,
			     const struct unwind_object_key *key)
{
	return object->key.inode == key->inode && object->key.ino == key->ino &&
	       object->key.dev == key->dev && object->key.generation == key->generation &&
	       !memcmp(&object->key.section, &key->section, sizeof(key->section));
}

static bool unwind_object_unchanged(const struct unwind_object *object,
				    const struct unwind_object_stamp *stamp)
{
	return object->stamp.size == stamp->size &&
	       timespec64_equal(&object->stamp.ctime, &stamp->ctime) &&
	       timespec64_equal(&object->stamp.mtime, &stamp->mtime);
}

/* Find the object of a key, in an RCU read-side section or with the lock held. */
static struct unwind_object *unwind_object_find(const struct unwind_object_key *key)
{
	struct unwind_object *object;

	hash_for_each_possible_rcu(unwind_objects, object, hash, unwind_object_hash(key),
				   lockdep_is_held(&unwind_objects_lock)) {
		if (unwind_object_is(object, key))
			return object;
	}
	return NULL;
}

static void unwind_object_free(struct rcu_head *rcu)
{
	struct unwind_object *object = container_of(rcu, struct unwind_object, rcu);

	kvfree(object->table);
	kfree(object->path);
	kmem_cache_free(unwind_object_cache, object);
}

/* Remove an object from the hash. Returns false if another CPU has already done so. */
static bool unwind_object_forget(struct unwind_object *object)
{
	scoped_guard(spinlock, &unwind_objects_lock) {
		if (object->state == UNWIND_OBJECT_DROPPED)
			return false;
		/* No partner: readers may use the object until their RCU section ends. */
		WRITE_ONCE(object->state, UNWIND_OBJECT_DROPPED);
		hash_del_rcu(&object->hash);
	}
	unwind_room_give(object);
	/*
	 * No reference points to an object without a table. Pairs with unwind_object_look():
	 * a lookup that sees the new epoch does not find the object any more.
	 */
	if (object->table)
		atomic_long_inc_return_release(&unwind_objects_epoch);
	return true;
}

static void unwind_object_drop(struct unwind_object *object)
{
	if (!unwind_object_forget(object))
		return;
	list_lru_del_obj(&unwind_objects_lru, &object->lru);
	call_rcu(&object->rcu, unwind_object_free);
}

/**
 * struct unwind_objects_walk - a walk of lists of objects that drops some
 * @pick:	decides about an object; or NULL, to let @age decide
 * @data:	for @pick
 * @age:	minimum time since the last lookup, in jiffies; 0 to drop all
 * @may_fail:	the shrinker works for an allocation that may fail
 * @dropped:	the objects that were dropped
 * @bytes:	their memory
 */
struct unwind_objects_walk {
	unwind_object_pick_t	pick;
	const void		*data;
	unsigned long		age;
	bool			may_fail;
	struct list_head	dropped;
	size_t			bytes;
};

/* Drop an object of an LRU list, whose lock is held. */
static enum lru_status unwind_object_isolate(struct unwind_object *object,
					     struct list_lru_one *list,
					     struct unwind_objects_walk *walk)
{
	/* unwind_object_publish() has put it on the list, but not set READY yet. */
	if (READ_ONCE(object->state) == UNWIND_OBJECT_LOADING ||
	    !unwind_object_forget(object))
		return LRU_SKIP;

	walk->bytes += object->bytes;
	list_lru_isolate_move(list, &object->lru, &walk->dropped);
	return LRU_REMOVED;
}

/* Drop it if it is picked, or if its last lookup is old enough. */
static enum lru_status unwind_object_check(struct list_head *item, struct list_lru_one *list,
					   spinlock_t *lock, void *data)
{
	struct unwind_object *object = container_of(item, struct unwind_object, lru);
	struct unwind_objects_walk *walk = data;
	enum lru_status status = LRU_REMOVED;

	if (walk->pick)
		status = walk->pick(object, walk->data);
	/* No partner: dropping one object more or less does not matter. */
	else if (walk->age && time_before(jiffies, READ_ONCE(object->used) + walk->age))
		status = LRU_SKIP;
	/* Keep its place: a walk of all lists sees each object once. */
	return status == LRU_REMOVED ? unwind_object_isolate(object, list, walk) : status;
}

/*
 * Must the shrinker keep the object? One that was looked up recently has some chances within
 * a second, and is kept for allocations that may fail, as those for other objects. Otherwise
 * it has to go: a cgroup with no other memory to reclaim would be out of memory.
 */
static bool unwind_object_keep(struct unwind_object *object, bool may_fail)
{
	/* No partner, as in unwind_object_check(). */
	if (time_after_eq(jiffies, READ_ONCE(object->used) + UNWIND_OBJECT_RECHECK))
		return false;
	if (may_fail)
		return true;
	if (time_after(jiffies, object->shrink_since + UNWIND_OBJECT_RECHECK)) {
		object->shrink_since = jiffies;
		object->shrink_nr = 0;
	}
	return object->shrink_nr++ < UNWIND_OBJECT_CHANCES;
}

/* The same for the shrinker. It scans a part of one list: rotate to reach the rest next. */
static enum lru_status unwind_object_shrink(struct list_head *item, struct list_lru_one *list,
					    spinlock_t *lock, void *data)
{
	struct unwind_object *object = container_of(item, struct unwind_object, lru);
	struct unwind_objects_walk *walk = data;

	if (unwind_object_keep(object, walk->may_fail) ||
	    unwind_object_isolate(object, list, walk) == LRU_SKIP)
		return LRU_ROTATE;
	return LRU_REMOVED;
}

/* Free objects after a grace period: before this returns, or later. */
static void unwind_objects_free(struct unwind_objects_walk *walk, bool wait)
{
	struct unwind_object *object, *next;

	if (wait && !list_empty(&walk->dropped))
		synchronize_rcu();
	list_for_each_entry_safe(object, next, &walk->dropped, lru) {
		if (wait)
			unwind_object_free(&object->rcu);
		else
			call_rcu_hurry(&object->rcu, unwind_object_free);
	}
}

static void unwind_objects_drop_by(struct unwind_objects_walk *walk)
{
	INIT_LIST_HEAD(&walk->dropped);
	list_lru_walk(&unwind_objects_lru, unwind_object_check, walk, ULONG_MAX);
	unwind_objects_free(walk, false);
}

/**
 * unwind_objects_drop - drop objects that were not looked up recently
 * @age:	minimum time since the last lookup, in jiffies
 *
 * Context: task context; a shrinker may be waiting for it.
 */
void unwind_objects_drop(unsigned long age)
{
	unwind_objects_drop_by(&(struct unwind_objects_walk) { .age = age });
}

/**
 * unwind_objects_drop_picked - drop objects, whenever they were looked up
 * @pick:	decides about an object; called with a spinlock held
 * @data:	for @pick
 *
 * Context: as unwind_objects_drop().
 */
void unwind_objects_drop_picked(unwind_object_pick_t pick, const void *data)
{
	unwind_objects_drop_by(&(struct unwind_objects_walk) { .pick = pick, .data = data });
}

/**
 * unwind_user_unmount - drop the objects of a file system
 * @sb:		the file system, which has no open files any more
 *
 * The next file system may reuse its device number at once, and so all keys of its files.
 *
 * Context: task context.
 */
void unwind_user_unmount(const struct super_block *sb)
{
	struct unwind_object *object;
	int bucket;

	guard(rcu)();
	hash_for_each_rcu(unwind_objects, bucket, object, hash) {
		if (object->key.dev != sb->s_dev)
			continue;
		/*
		 * A file that is being read is open, so it is in another file system: an MTD
		 * and a block device may share a number. Pairs with unwind_object_publish().
		 */
		if (smp_load_acquire(&object->state) != UNWIND_OBJECT_LOADING)
			unwind_object_drop(object);
	}
}

#ifdef CONFIG_UNWIND_TEST_TRACER
/**
 * unwind_objects_older - move the last lookup of all objects back in time
 * @by:		how far, in jiffies
 *
 * Context: any.
 */
void unwind_objects_older(unsigned long by)
{
	struct unwind_object *object;
	int bucket;

	guard(rcu)();
	hash_for_each_rcu(unwind_objects, bucket, object, hash)
		/* No partner, as in unwind_object_check(). */
		WRITE_ONCE(object->used, READ_ONCE(object->used) - by);
}
#endif

/*
 * The shrinker counts pages, because an object may take one or thousands of them. The sizes
 * of the objects on one list are not known: use the average of all objects.
 */
static unsigned long unwind_objects_count(struct shrinker *shrinker,
					  struct shrink_control *sc)
{
	return list_lru_shrink_count(&unwind_objects_lru, sc) * unwind_room_average() ?:
	       SHRINK_EMPTY;
}

static unsigned long unwind_objects_scan(struct shrinker *shrinker,
					 struct shrink_control *sc)
{
	struct unwind_objects_walk walk = {
		.may_fail	= sc->gfp_mask & __GFP_NORETRY,
		.dropped	= LIST_HEAD_INIT(walk.dropped),
	};
	unsigned long average = unwind_room_average();

	sc->nr_to_scan = DIV_ROUND_UP(sc->nr_to_scan, average);
	/*
	 * One object may be larger than the request. Report the full number even if the list
	 * has fewer objects: otherwise the caller asks for the rest again, forever.
	 */
	sc->nr_scanned = sc->nr_to_scan * average;
	list_lru_shrink_walk(&unwind_objects_lru, sc, unwind_object_shrink, &walk);
	/*
	 * Wait for memory that cannot be had elsewhere: a cgroup with no other memory to reclaim
	 * is out of memory after some attempts, which take less than a grace period.
	 */
	unwind_objects_free(&walk, !walk.may_fail && !current_is_kswapd());
	return DIV_ROUND_UP(walk.bytes, PAGE_SIZE);
}

/**
 * unwind_object_known - find the object of a file or section
 * @source:	file or section
 * @may_load:	the caller may load the file: an error of another user or cgroup does not count
 * @found:	set to the object if it is READY
 *
 * Drops the object if the file has changed, or if it is time for another attempt.
 *
 * Context: any, inside an RCU read-side section that covers all uses of @found.
 * Return: 0 if it is READY, -ENOENT if there is none, or -EINPROGRESS while it is being read.
 */
int unwind_object_known(const struct unwind_object_source *source, bool may_load,
			struct unwind_object **found)
{
	struct unwind_object_stamp stamp = unwind_object_stamp(source->file);
	struct unwind_object_key key = unwind_object_key(source);
	enum unwind_object_state state;
	unsigned long now = jiffies;
	struct unwind_object *object;

	object = unwind_object_find(&key);
	if (!object)
		return -ENOENT;
	/* Pairs with unwind_object_publish(). */
	state = smp_load_acquire(&object->state);
	if (state != UNWIND_OBJECT_READY)
		return state == UNWIND_OBJECT_LOADING ? -EINPROGRESS : -ENOENT;
	if (!unwind_object_unchanged(object, &stamp) ||
	    (object->retry && time_after(now, object->retry)) ||
	    (may_load && unwind_room_others(object, unwind_object_hash(&key)))) {
		unwind_object_drop(object);
		return -ENOENT;
	}
	/* Mostly equal: the cache line stays shared. No partner, as in the shrinker. */
	if (READ_ONCE(object->used) != now)
		WRITE_ONCE(object->used, now);
	*found = object;
	return 0;
}

static struct unwind_object *unwind_object_alloc(void)
{
	struct unwind_object *object = NULL;

	if (!unwind_test_fail(UNWIND_TEST_FAIL_OBJECT))
		object = kmem_cache_alloc_lru(unwind_object_cache, &unwind_objects_lru,
					      unwind_gfp() | __GFP_ZERO);
	if (!object)
		unwind_count(UNWIND_STAT_NOMEM);
	return object;
}

/**
 * unwind_object_begin - create an object in state LOADING
 * @source:	section that it will be read from
 * @by_worker:	a worker reads it; do not drop other objects to make room
 *
 * Context: task context, may sleep.
 * Return: the object, for unwind_object_read(); or an ERR_PTR(): -EEXIST if there is one,
 * -EBUSY if the user has too many other loads in flight, -ENOSPC or -ENOMEM.
 */
struct unwind_object *unwind_object_begin(const struct unwind_object_source *source,
					  bool by_worker)
{
	kuid_t user = unwind_room_user(current_real_cred());
	struct unwind_object *object;
	int ret;

	if (by_worker && unwind_room_full(1, 0)) {
		unwind_room_later(user);
		return ERR_PTR(-ENOSPC);
	}
	if (!unwind_room_make(user, 1, 0))
		return ERR_PTR(-ENOSPC);
	object = unwind_object_alloc();
	if (!object)
		return ERR_PTR(-ENOMEM);

	INIT_LIST_HEAD(&object->lru);
	object->key = unwind_object_key(source);
	object->stamp = unwind_object_stamp(source->file);
	object->by_worker = by_worker;
	object->used = jiffies;
	object->bytes = sizeof(*object);

	scoped_guard(spinlock, &unwind_objects_lock) {
		ret = unwind_object_find(&object->key) ? -EEXIST : unwind_room_load(object);
		if (!ret) {
			unwind_room_take(object);
			hash_add_rcu(unwind_objects, &object->hash,
				     unwind_object_hash(&object->key));
			return object;
		}
	}
	if (ret == -EBUSY)
		unwind_count(UNWIND_STAT_SFRAME_BUSY);
	kmem_cache_free(unwind_object_cache, object);
	return ERR_PTR(ret);
}

/* Set the name. It is for display only: without room for it, leave it NULL. */
static void unwind_object_name(struct unwind_object *object, struct file *file)
{
	char *buf __free(kfree) = kmalloc(PATH_MAX, unwind_gfp());
	const char *path, *copy = NULL;

	if (!buf)
		return;
	path = d_path(file_user_path(file), buf, PATH_MAX);
	if (IS_ERR(path) || unwind_object_reserve(object, strlen(path) + 1))
		return;
	if (!unwind_test_fail(UNWIND_TEST_FAIL_NAME))
		copy = kstrdup(path, unwind_gfp());
	/* Pairs with unwind_object_show(), which depends on the address. */
	smp_store_release(&object->path, copy);
	if (!copy)
		unwind_object_unreserve(object, strlen(path) + 1);
}

/* Can another attempt give a different result? */
static bool unwind_object_may_pass(int error)
{
	switch (error) {
	case 0:
	case -ENOEXEC:
	case -ENODATA:
	case -EINVAL:
	case -EOPNOTSUPP:
	case -EFBIG:
		return false;
	default:
		return true;
	}
}

/* Publish an object that was read. */
static void unwind_object_publish(struct unwind_object *object)
{
	if (unwind_object_may_pass(object->error))
		object->retry = (jiffies + UNWIND_OBJECT_RETRY) ?: 1;
	/* The read may have taken long: its end is a use. No partner, as in the shrinker. */
	WRITE_ONCE(object->used, jiffies);

	list_lru_add_obj(&unwind_objects_lru, &object->lru);
	/* It was not dropped meanwhile: objects in state LOADING are never dropped. */
	scoped_guard(spinlock, &unwind_objects_lock)
		/* Pairs with unwind_object_look(). */
		smp_store_release(&object->state, UNWIND_OBJECT_READY);
}

/* Wait queue for tasks that wait until an object has been read. */
static void *unwind_object_waitq(const struct unwind_object_key *key)
{
	return &unwind_objects[hash_min(unwind_object_hash(key), HASH_BITS(unwind_objects))];
}

/**
 * unwind_object_read - read the file of an object and publish the object
 * @object:	the object, from unwind_object_begin()
 * @file:	the file
 *
 * Context: task context, may sleep for as long as the file system takes.
 */
void unwind_object_read(struct unwind_object *object, struct file *file)
{
	const struct unwind_elf_source source = { .file = file };
	void *waitq = unwind_object_waitq(&object->key);

	object->error = -ECANCELED;
	/* No partner: the check at the end drops the object if this one misses a change. */
	if (READ_ONCE(unwind_sframe_enabled)) {
		unwind_object_name(object, file);
		object->error = unwind_object_load(object, &source);
	}
	unwind_count(object->table ? UNWIND_STAT_SFRAME_LOADED : UNWIND_STAT_SFRAME_REFUSED);

	unwind_room_loaded(object);
	/* A killed task leaves the object to others. */
	if (object->error && fatal_signal_pending(current))
		unwind_object_drop(object);
	else
		unwind_object_publish(object);
	/*
	 * Pairs with wait_var_event_timeout(), which checks after queueing itself, and with
	 * unwind_sframe_sysctl(): at least one of the two drops the object.
	 */
	smp_mb();
	wake_up_var(waitq);
	if (!READ_ONCE(unwind_sframe_enabled))
		unwind_objects_drop(0);
}

/* Is it worth waiting for the object? @slow: current timed out, so others should not wait. */
static bool unwind_object_is_loading(const struct unwind_object_key *key, bool slow)
{
	struct unwind_object *object;

	guard(rcu)();
	object = unwind_object_find(key);
	/* Pairs with unwind_object_publish(). */
	if (!object || smp_load_acquire(&object->state) != UNWIND_OBJECT_LOADING)
		return false;
	/* No partner: one wait more or less does not matter. */
	if (slow)
		WRITE_ONCE(object->slow, true);
	return !READ_ONCE(object->slow);
}

/**
 * unwind_object_wait - wait briefly until another task or worker has read a file
 * @source:	the file
 *
 * Context: task context, may sleep.
 * Return: 0 to look again, -ETIMEDOUT if the file is still being read.
 */
int unwind_object_wait(const struct unwind_object_source *source)
{
	struct unwind_object_key key = unwind_object_key(source);

	if (wait_var_event_timeout(unwind_object_waitq(&key),
				   !unwind_object_is_loading(&key, false),
				   UNWIND_OBJECT_WAIT))
		return 0;
	unwind_object_is_loading(&key, true);
	return -ETIMEDOUT;
}

/**
 * unwind_objects_visit - visit the objects of the vDSO and of all files
 * @visit:	called in an RCU read-side section for each object that is not dropped yet, with
 *		its state; of an object that is LOADING, only @bytes, @hits and @path may be read,
 *		each once
 * @data:	for @visit
 *
 * Context: any.
 */
void unwind_objects_visit(unwind_object_visit_t visit, void *data)
{
	enum unwind_object_state state;
	struct unwind_object *object;
	int bucket;

	guard(rcu)();
	visit(&unwind_vdso, UNWIND_OBJECT_READY, data);
	hash_for_each_rcu(unwind_objects, bucket, object, hash) {
		/* Pairs with unwind_object_publish(). */
		state = smp_load_acquire(&object->state);
		if (state != UNWIND_OBJECT_DROPPED)
			visit(object, state, data);
	}
}

/**
 * unwind_objects_any - is any object that was read left?
 *
 * Context: any.
 * Return: true if there is one.
 */
bool unwind_objects_any(void)
{
	return list_lru_count(&unwind_objects_lru);
}

/**
 * unwind_objects_init - create the cache and its shrinker
 *
 * Return: 0 or -ENOMEM.
 */
int __init unwind_objects_init(void)
{
	unwind_objects_shrinker = shrinker_alloc(SHRINKER_NUMA_AWARE | SHRINKER_MEMCG_AWARE,
						 "unwind-objects");
	if (!unwind_objects_shrinker)
		return -ENOMEM;
	if (list_lru_init_memcg(&unwind_objects_lru, unwind_objects_shrinker)) {
		shrinker_free(unwind_objects_shrinker);
		return -ENOMEM;
	}

	unwind_objects_seed = get_random_u32();
	unwind_room_init();
	unwind_object_cache = KMEM_CACHE(unwind_object, SLAB_ACCOUNT | SLAB_PANIC);
	unwind_objects_shrinker->count_objects = unwind_objects_count;
	unwind_objects_shrinker->scan_objects = unwind_objects_scan;
	unwind_objects_shrinker->batch = UNWIND_OBJECTS_BATCH;
	shrinker_register(unwind_objects_shrinker);
	return 0;
}
