/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Cache of SFrame tables by file, see object.c and lookup.c.
 */
#ifndef _KERNEL_UNWIND_OBJECT_H
#define _KERNEL_UNWIND_OBJECT_H

#include <linux/compiler.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/list_lru.h>
#include <linux/rcupdate.h>
#include <linux/sizes.h>
#include <linux/time64.h>
#include <linux/types.h>
#include <linux/uidgid.h>

#include "elf.h"
#include "sframe.h"
#include "text.h"

struct cred;
struct seq_file;

/**
 * struct unwind_section - place of a section in a file, as given by its registration
 * @offset:	offset in the file
 * @addr:	address of the section
 * @size:	size in bytes; 0 for the section that the file's headers name
 */
struct unwind_section {
	u64	offset;
	u64	addr;
	u64	size;
};

/**
 * struct unwind_object_source - the section that a table is built from
 * @file:	a file, with a reference
 * @section:	the section in @file
 */
struct unwind_object_source {
	struct file		*file;
	struct unwind_section	section;
};

/**
 * struct unwind_object_key - identity of a section
 * @inode:	the file's inode; compared, never dereferenced: it may have been freed
 * @dev:	device of its file system
 * @ino:	its inode number
 * @generation:	tells files apart that reuse an inode number
 * @section:	the section in the file
 *
 * Inode numbers are not enough: subvolumes of a file system share them. Nor is the inode
 * pointer: another inode may reuse the memory. The key is valid for one mounted file system
 * only, because another one may reuse the device: unwind_user_unmount() drops the objects.
 */
struct unwind_object_key {
	const struct inode	*inode;
	u64			ino;
	dev_t			dev;
	u32			generation;
	struct unwind_section	section;
};

/**
 * struct unwind_object_stamp - attributes of a file that change when it is written to
 * @ctime:	time of its latest change
 * @mtime:	time of the latest change of its contents
 * @size:	its size, in bytes
 *
 * Timestamps are coarse. The change counter of some file systems is no alternative: it also
 * counts reads of the file once it has been queried.
 */
struct unwind_object_stamp {
	struct timespec64	ctime;
	struct timespec64	mtime;
	loff_t			size;
};

/**
 * enum unwind_object_state - life cycle of an object
 * @UNWIND_OBJECT_LOADING: a task or worker reads the file; only the key is valid, and @bytes
 *			   and @path for the list
 * @UNWIND_OBJECT_READY: all fields are valid, and do not change any more
 * @UNWIND_OBJECT_DROPPED: lookups do not find it any more
 */
enum unwind_object_state {
	UNWIND_OBJECT_LOADING,
	UNWIND_OBJECT_READY,
	UNWIND_OBJECT_DROPPED,
};

/**
 * struct unwind_object - a file or section, and its table if it has one
 * @hash:	entry in the table of objects
 * @lru:	entry in the list of objects that may be dropped; during the load, entry in the
 *		list of loads
 * @rcu:	to free it
 * @state:	&enum unwind_object_state
 * @key:	the file
 * @stamp:	attributes of the file when it was read
 * @user:	user that the load is accounted to
 * @memcg:	cgroup that it was charged to; compared, never dereferenced: it may be freed
 * @by_worker:	a worker reads it
 * @slow:	a task timed out waiting for the file to be read
 * @error:	why there is no table: an errno, or 0
 * @used:	time of the last lookup, in jiffies
 * @retry:	time of the next attempt, in jiffies, if @error may be temporary; or 0
 * @shrink_since: when the shrinker began to count visits, in jiffies; protected by the lock of
 *		the list
 * @shrink_nr:	how often the shrinker saw the object since; likewise
 * @hits:	frames found in the table
 * @bytes:	memory that it uses
 * @elf:	segments and section
 * @table:	the table, or NULL
 * @path:	the file's name when it was read, or NULL
 */
struct unwind_object {
	struct hlist_node		hash;
	struct list_head		lru;
	struct rcu_head			rcu;
	enum unwind_object_state	state;
	struct unwind_object_key	key;
	struct unwind_object_stamp	stamp;
	kuid_t				user;
	const struct mem_cgroup		*memcg;
	bool				by_worker;
	bool				slow;
	int				error;
	unsigned long			used;
	unsigned long			retry;
	unsigned long			shrink_since;
	unsigned int			shrink_nr;
	atomic_long_t			hits;
	size_t				bytes;
	struct unwind_elf		elf;
	struct sframe_table		*table;
	const char			*path;
};

/**
 * struct unwind_object_place - where a file is mapped
 * @start:	first address
 * @end:	first address after it
 * @offset:	offset of @start in the file, in bytes
 * @locked:	the mapping is locked in memory
 */
struct unwind_object_place {
	unsigned long	start;
	unsigned long	end;
	u64		offset;
	bool		locked;
};

/* Maximum size of a section, in bytes: many times that of the largest libraries. */
#define UNWIND_SECTION_MAX	SZ_64M

/* Delay before a retry after a temporary failure. */
#define UNWIND_OBJECT_RETRY	HZ
/* Period of the rechecks of files, and the age at which objects count as unused. */
#define UNWIND_OBJECT_RECHECK	HZ
#define UNWIND_OBJECT_UNUSED	(60 * HZ)

/* Counts dropped objects with a table. An increment makes references to any object stale. */
extern atomic_long_t unwind_objects_epoch;

/* Incremented when walks must ask unwind_object_get() again for all their mappings. */
extern atomic_t unwind_objects_ticks;

/* The sysctl. False until the end of unwind_lookup_init(). */
extern bool unwind_sframe_enabled;

/* The object of the vDSO, which is in no list and is never dropped. */
extern struct unwind_object unwind_vdso;

/**
 * unwind_object_of - the object of a reference, if it is still valid
 * @ref:	set by unwind_object_get()
 *
 * Context: any, inside an RCU read-side section that covers all uses of the object.
 * Return: the object; NULL if there is none, or if it must be looked up again.
 */
static inline struct unwind_object *unwind_object_of(const struct unwind_object_ref *ref)
{
	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "object without RCU");
	/*
	 * Pairs with unwind_object_forget(): if this reads the old value, the grace period
	 * before the object is freed starts after this read.
	 */
	return likely(atomic_long_read(&unwind_objects_epoch) == ref->epoch) ?
		ref->object : NULL;
}

void unwind_objects_ask(void);
int unwind_object_get(struct file *file, const struct unwind_object_place *place,
		      bool may_load, struct unwind_object_ref *ref);
bool unwind_object_get_vdso(const struct unwind_object_place *place,
			    struct unwind_object_ref *ref);
void unwind_object_hit(const struct unwind_object_ref *ref, unsigned long hits);

/* LRU_REMOVED: drop the object; LRU_SKIP: keep it; LRU_STOP: keep it and all others. */
typedef enum lru_status (*unwind_object_pick_t)(const struct unwind_object *object,
						const void *data);

void unwind_objects_drop(unsigned long age);
void unwind_objects_drop_picked(unwind_object_pick_t pick, const void *data);
/* For tests. */
void unwind_objects_older(unsigned long by);

kuid_t unwind_room_user(const struct cred *cred);
bool unwind_room_full(unsigned int nr, long bytes);
bool unwind_room_make(kuid_t user, unsigned int nr, long bytes);
void unwind_room_later(kuid_t user);
void unwind_room_tick(void);
void unwind_room_init(void);
int unwind_room_load(struct unwind_object *object);
void unwind_room_loaded(struct unwind_object *object);
bool unwind_room_others(const struct unwind_object *object, u32 hash);
unsigned long unwind_room_average(void);
void unwind_room_take(const struct unwind_object *object);
void unwind_room_give(const struct unwind_object *object);
int unwind_object_reserve(struct unwind_object *object, long bytes);
void unwind_object_unreserve(struct unwind_object *object, long bytes);
int unwind_object_load(struct unwind_object *object,
		       const struct unwind_elf_source *source);

int unwind_object_known(const struct unwind_object_source *source, bool may_load,
			struct unwind_object **found);
struct unwind_object *unwind_object_begin(const struct unwind_object_source *source,
					  bool by_worker);
void unwind_object_read(struct unwind_object *object, struct file *file);
int unwind_object_wait(const struct unwind_object_source *source);
bool unwind_object_can_be(const struct file *file);
int unwind_object_fetch(const struct unwind_object_source *source,
			const struct unwind_object_place *place, int why);
int unwind_fetch_init(void);
bool unwind_objects_any(void);
int unwind_objects_init(void);

const char *unwind_object_why(int error);
void unwind_object_show_path(struct seq_file *m, const char *path);

typedef void (*unwind_object_visit_t)(const struct unwind_object *object,
				      enum unwind_object_state state, void *data);
void unwind_objects_visit(unwind_object_visit_t visit, void *data);

#endif /* _KERNEL_UNWIND_OBJECT_H */
