/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Files whose SFrame sections are known, see object.c.
 */
#ifndef _KERNEL_UNWIND_OBJECT_H
#define _KERNEL_UNWIND_OBJECT_H

#include <linux/compiler.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/rcupdate.h>
#include <linux/sizes.h>
#include <linux/time64.h>
#include <linux/types.h>
#include <linux/uidgid.h>
#include <linux/unwind_user_types.h>

#include "elf.h"
#include "sframe.h"

struct cred;

/**
 * struct unwind_section - where in a file somebody says that a section is
 * @offset:	in the file
 * @addr:	the address that it has
 * @size:	in bytes; 0 for the section that the file's headers name
 */
struct unwind_section {
	u64	offset;
	u64	addr;
	u64	size;
};

/**
 * struct unwind_object_source - what a table is made of
 * @file:	a file, with a reference
 * @section:	what of it
 */
struct unwind_object_source {
	struct file		*file;
	struct unwind_section	section;
};

/**
 * struct unwind_object_key - what a file is known by
 * @inode:	its inode, which is compared and never looked into: it may be gone
 * @dev:	device of its file system
 * @ino:	its number there
 * @generation:	tells files apart that had one number one after the other
 * @section:	what of it
 *
 * Inode numbers are not enough: subvolumes of a file system have the same ones. Nor is
 * the inode, whose memory may have become that of another one. All of that is true of one
 * file system: with it go the objects, see unwind_user_unmount(), and the device may be
 * that of another one.
 */
struct unwind_object_key {
	const struct inode	*inode;
	u64			ino;
	dev_t			dev;
	u32			generation;
	struct unwind_section	section;
};

/**
 * struct unwind_object_stamp - what was read of a file, in so far as it may change
 * @ctime:	time of its latest change
 * @mtime:	time of the latest change of what it holds
 * @size:	its size, in bytes
 *
 * Times are not exact. The counter of changes that some file systems have also counts
 * that the file was read, and only because somebody asks for it.
 */
struct unwind_object_stamp {
	struct timespec64	ctime;
	struct timespec64	mtime;
	loff_t			size;
};

/**
 * enum unwind_object_state - the life of an object
 * @UNWIND_OBJECT_LOADING: somebody reads the file; only the key is valid
 * @UNWIND_OBJECT_READY: all of it is valid, and does not change any more
 * @UNWIND_OBJECT_DROPPED: nobody finds it any more
 */
enum unwind_object_state {
	UNWIND_OBJECT_LOADING,
	UNWIND_OBJECT_READY,
	UNWIND_OBJECT_DROPPED,
};

/**
 * struct unwind_object - a file or section, and its table if it has one
 * @hash:	entry of the table of objects
 * @lru:	entry of the list of objects that may be dropped; while it is being loaded, of
 *		those that are
 * @rcu:	to free it
 * @state:	&enum unwind_object_state
 * @key:	the file
 * @stamp:	as of when it was read
 * @user:	who answers for having loaded it
 * @memcg:	what it was charged to, which is compared and never looked into: it may be gone
 * @by_worker:	a worker reads it
 * @slow:	somebody waited for it in vain while it was being read
 * @error:	why there is no table: an errno, or 0
 * @used:	when somebody looked for it, in jiffies
 * @retry:	when to try again, in jiffies, if @error may pass; or 0
 * @hits:	frames that the table told of
 * @bytes:	memory that it takes
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
	atomic_long_t			hits;
	size_t				bytes;
	struct unwind_elf		elf;
	struct sframe_table		*table;
	const char			*path;
};

/**
 * struct unwind_object_place - where a file is mapped
 * @start:	first address
 * @end:	the address behind it
 * @offset:	of @start in the file, in bytes
 * @locked:	it is locked in memory
 */
struct unwind_object_place {
	unsigned long	start;
	unsigned long	end;
	u64		offset;
	bool		locked;
};

/* Bytes of a section at most: many times what the largest libraries have. */
#define UNWIND_SECTION_MAX	SZ_64M

/* How long after a failure that may pass it is tried again. */
#define UNWIND_OBJECT_RETRY	HZ
/* How often files are looked at anew, and after which time objects are unused. */
#define UNWIND_OBJECT_RECHECK	HZ
#define UNWIND_OBJECT_UNUSED	(60 * HZ)

/* Counts objects that were dropped: who found one before, any, must not use it any more. */
extern atomic_long_t unwind_objects_epoch;

/* Counts when it is time to ask unwind_object_get() again for all that is known. */
extern atomic_t unwind_objects_ticks;

/**
 * unwind_object_of - the object that was found before, if that is still valid
 * @ref:	what unwind_object_get() found
 *
 * Context: any, inside of an RCU section that lasts for as long as the object is used.
 * Return: the object; NULL if there is none, or if it has to be looked for again.
 */
static inline struct unwind_object *unwind_object_of(const struct unwind_object_ref *ref)
{
	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "object without RCU");
	/*
	 * Pairs with unwind_object_forget(): where this is the old value, the grace period
	 * after which the object is freed begins behind it.
	 */
	return likely(atomic_long_read(&unwind_objects_epoch) == ref->epoch) ?
		ref->object : NULL;
}

int unwind_object_get(struct file *file, const struct unwind_object_place *place,
		      bool may_load, struct unwind_object_ref *ref);
bool unwind_object_get_vdso(const struct unwind_object_place *place,
			    struct unwind_object_ref *ref);
void unwind_object_hit(const struct unwind_object_ref *ref, unsigned long hits);

void unwind_objects_drop(unsigned long age);
/* For tests. */
void unwind_objects_older(unsigned long by);

kuid_t unwind_room_user(const struct cred *cred);
bool unwind_room_full(long bytes);
bool unwind_room_make(long bytes);
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

struct unwind_object *unwind_object_begin(const struct unwind_object_source *source,
					  bool by_worker);
void unwind_object_read(struct unwind_object *object, struct file *file);
int unwind_object_wait(const struct unwind_object_source *source);
bool unwind_object_can_be(const struct file *file);
int unwind_object_fetch(const struct unwind_object_source *source,
			const struct unwind_object_place *place, int why);
int unwind_fetch_init(void);

void unwind_objects_visit(void (*visit)(const struct unwind_object *object, void *data),
			  void *data);

#endif /* _KERNEL_UNWIND_OBJECT_H */
