// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame sections that users hand in, for files that have none: /dev/unwind_sframe.
 *
 * Contexts: open, ioctl and release run in task context and may sleep.
 * unwind_side_get() runs in the context of the task that is walked, and does not.
 *
 * A registration is known by the build-id of the files it is for, and lasts for as long
 * as the device is open that it was made with. It names a section in a file, which is read
 * as those of other files are when a walk needs it: that is an object like any other, and
 * goes when memory is short. Invariant: a registration is immutable from when it is in the
 * hash, leaves that once, in release, and is freed after a grace period when the last
 * reference is gone. Only who reads the file has one for more than a moment.
 *
 * What a section says decides where a walk reads the stack of the task it is used for.
 * So that of somebody without CAP_PERFMON is for those tasks only which they could
 * ptrace, and so read, anyway.
 */
#include <linux/atomic.h>
#include <linux/capability.h>
#include <linux/cleanup.h>
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/hashtable.h>
#include <linux/init.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pid_namespace.h>
#include <linux/printk.h>
#include <linux/refcount.h>
#include <linux/rhashtable.h>
#include <linux/sched/coredump.h>
#include <linux/slab.h>
#include <linux/sysctl.h>
#include <linux/uaccess.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>
#include <uapi/linux/unwind_sframe.h>

#include "object.h"
#include "side.h"
#include "unwind.h"

/* Sections that a user without CAP_PERFMON may have handed in. */
static unsigned int unwind_side_user_max = 4096;

/**
 * struct unwind_side_user - somebody who answers for sections that are handed in
 * @node:	entry of the table of users
 * @uid:	who, see unwind_room_user()
 * @files:	how often they have the device open
 * @sides:	how many sections they have, but for what CAP_PERFMON has
 */
struct unwind_side_user {
	struct hlist_node	node;
	kuid_t			uid;
	unsigned int		files;
	unsigned int		sides;
};

/**
 * struct unwind_side_file - the device, opened
 * @user:	who answers for that
 * @uid:	by whom
 * @pid_ns:	where from, with a reference
 * @trusted:	their sections are used for all tasks
 * @sides:	what was registered
 */
struct unwind_side_file {
	struct unwind_side_user	*user;
	kuid_t			uid;
	struct pid_namespace	*pid_ns;
	bool			trusted;
	struct list_head	sides;
};

/**
 * struct unwind_side_key - what a registration is looked for by
 * @id:		the files that it is for
 * @uid:	whose tasks it is for, so that nobody has to look at those of others;
 *		INVALID_UID for all
 */
struct unwind_side_key {
	struct unwind_build_id	id;
	kuid_t			uid;
};

/**
 * struct unwind_side - a registration
 * @refs:	one is the device's, which gives it up in release
 * @rcu:	to free it
 * @hash:	entry of the table of registrations
 * @list:	entry of &struct unwind_side_file.sides
 * @owner:	the device
 * @key:	what it is for
 * @source:	the section
 * @cred:	whose it is, with a reference
 * @pid_ns:	of these who opened the device, with a reference: the tasks that they see
 */
struct unwind_side {
	refcount_t			refs;
	struct rcu_head			rcu;
	struct rhlist_head		hash;
	struct list_head		list;
	const struct unwind_side_file	*owner;
	struct unwind_side_key		key;
	struct unwind_object_source	source;
	const struct cred		*cred;
	struct pid_namespace		*pid_ns;
};

static const struct rhashtable_params unwind_side_params = {
	.key_len		= sizeof(struct unwind_side_key),
	.key_offset		= offsetof(struct unwind_side, key),
	.head_offset		= offsetof(struct unwind_side, hash),
	.automatic_shrinking	= true,
};

static struct rhltable unwind_sides;
static DEFINE_HASHTABLE(unwind_side_users, 6);
/* Protects all of the above, and lists of registrations until the device is released. */
static DEFINE_MUTEX(unwind_side_lock);

/*
 * Have the capabilities of a task no power that an owner has not? Who made a user namespace
 * has all of them there, and in those that were made in it.
 */
static bool unwind_side_caps(const struct cred *owner, const struct cred *cred)
{
	const struct user_namespace *ns = cred->user_ns;

	if (ns == owner->user_ns)
		return cap_issubset(cred->cap_permitted, owner->cap_permitted);
	while (ns && ns->parent != owner->user_ns)
		ns = ns->parent;
	return ns && uid_eq(ns->owner, owner->euid);
}

/*
 * Could its owner ptrace current? The same conditions as there, but with no exception for
 * capabilities that somebody was given, which those who have them do not need here. So
 * current has to have a number where the device was opened, and it is its own credentials
 * that count, and not those that it acts with for a moment.
 */
static bool unwind_side_may_use(const struct unwind_side *side)
{
	const struct cred *owner = side->cred, *cred = current_real_cred();

	return uid_eq(owner->uid, cred->euid) && uid_eq(owner->uid, cred->suid) &&
	       uid_eq(owner->uid, cred->uid) && gid_eq(owner->gid, cred->egid) &&
	       gid_eq(owner->gid, cred->sgid) && gid_eq(owner->gid, cred->gid) &&
	       task_pid_nr_ns(current, side->pid_ns) && unwind_side_caps(owner, cred) &&
	       get_dumpable(current->mm) == SUID_DUMP_USER;
}

/* Skips @nth of those that may be used, and leaves there how many are still to be skipped. */
static struct unwind_side *unwind_side_lookup(const struct unwind_build_id *id, kuid_t uid,
					      unsigned int *nth)
{
	const struct unwind_side_key key = { .id = *id, .uid = uid };
	struct rhlist_head *list, *pos;
	struct unwind_side *side;

	list = rhltable_lookup(&unwind_sides, &key, unwind_side_params);
	rhl_for_each_entry_rcu(side, pos, list, hash) {
		if ((!uid_valid(uid) || unwind_side_may_use(side)) && !(*nth)--)
			return side;
	}
	return NULL;
}

/**
 * unwind_side_get - find the section of files that have none
 * @id:		their build-id
 * @nth:	which of several, from 0 on
 *
 * Those that are used for all tasks come first.
 *
 * Context: any, as long as current is the task that is walked.
 * Return: a registration, with a reference; or NULL.
 */
struct unwind_side *unwind_side_get(const struct unwind_build_id *id, unsigned int nth)
{
	struct unwind_side *side;

	if (!id->size)
		return NULL;
	guard(rcu)();
	side = unwind_side_lookup(id, INVALID_UID, &nth) ?:
	       unwind_side_lookup(id, current_real_cred()->uid, &nth);
	/* Who closes the device makes all look again. */
	return side && refcount_inc_not_zero(&side->refs) ? side : NULL;
}

/**
 * unwind_side_put - give a reference back
 * @side:	a registration, or NULL
 *
 * Context: any.
 */
void unwind_side_put(struct unwind_side *side)
{
	if (!side || !refcount_dec_and_test(&side->refs))
		return;
	/* These are freed after a grace period, too. */
	put_cred(side->cred);
	put_pid_ns(side->pid_ns);
	fput(side->source.file);
	kfree_rcu(side, rcu);
}

/**
 * unwind_side_source - what to read
 * @side:	a registration
 *
 * Context: any, with a reference.
 * Return: the section; valid for as long as the reference.
 */
const struct unwind_object_source *unwind_side_source(const struct unwind_side *side)
{
	return &side->source;
}

/*
 * Who knows that there was none, or had one, looks again in the next walk; with what is
 * for the tasks of one user, within a second: nobody is to make others do so all the time.
 */
static void unwind_side_tell(const struct unwind_side_file *owner)
{
	if (owner->trusted)
		atomic_inc(&unwind_objects_ticks);
}

static bool unwind_side_has(const struct unwind_side_file *owner,
			    const struct unwind_side_key *key)
{
	struct rhlist_head *list, *pos;
	struct unwind_side *side;

	guard(rcu)();
	list = rhltable_lookup(&unwind_sides, key, unwind_side_params);
	rhl_for_each_entry_rcu(side, pos, list, hash) {
		if (side->owner == owner)
			return true;
	}
	return false;
}

/* Show a registration to everybody; the device has the reference then. */
static int unwind_side_publish(struct unwind_side_file *owner, struct unwind_side **new)
{
	struct unwind_side *side = *new;
	int ret;

	guard(mutex)(&unwind_side_lock);
	if (unwind_side_has(owner, &side->key))
		return -EEXIST;
	/* Who may do everything has no limit. */
	if (!owner->trusted && owner->user->sides >= READ_ONCE(unwind_side_user_max))
		return -EDQUOT;
	ret = rhltable_insert(&unwind_sides, &side->hash, unwind_side_params);
	if (ret)
		return -ENOMEM;
	owner->user->sides += !owner->trusted;
	list_add_tail(&side->list, &owner->sides);
	*new = NULL;
	unwind_side_tell(owner);
	return 0;
}

static int unwind_side_check(const struct unwind_sframe_section *req)
{
	if (req->flags || !req->build_id_size ||
	    req->build_id_size > UNWIND_SFRAME_BUILD_ID_MAX)
		return -EINVAL;
	if (memchr_inv(req->build_id + req->build_id_size, 0,
		       UNWIND_SFRAME_BUILD_ID_MAX - req->build_id_size))
		return -EINVAL;
	if (req->size > UNWIND_SECTION_MAX)
		return -EFBIG;
	if (!req->size || req->addr > S64_MAX - req->size || req->offset > S64_MAX - req->size)
		return -EINVAL;
	return 0;
}

/* What can be said about the section without reading all of it. */
static int unwind_side_check_file(const struct unwind_object_source *source)
{
	const struct unwind_elf_source elf = { .file = source->file, .charge = true };
	const struct unwind_section *section = &source->section;
	struct file *file = source->file;
	struct sframe_header header;
	int ret;

	if (!(file->f_mode & FMODE_READ))
		return -EBADF;
	if (!unwind_object_can_be(file) || (file->f_flags & O_DIRECT) ||
	    section->size < sizeof(header) ||
	    section->offset + section->size > i_size_read(file_inode(file)))
		return -EINVAL;
	ret = unwind_elf_read(&elf, &header, sizeof(header), section->offset);
	if (ret)
		return ret == -ENOEXEC ? -EINVAL : ret;
	return sframe_check_header(&header);
}

/* With a reference to the file, which is the registration's from then on. */
static struct unwind_side *unwind_side_new(struct file *device, struct file *file,
					   const struct unwind_sframe_section *req)
{
	const struct unwind_side_file *owner = device->private_data;
	struct unwind_side *side;

	side = kzalloc(sizeof(*side), GFP_KERNEL_ACCOUNT);
	if (!side)
		return NULL;
	refcount_set(&side->refs, 1);
	side->source.file = get_file(file);
	side->source.section = (struct unwind_section) {
		.offset = req->offset, .addr = req->addr, .size = req->size,
	};
	side->cred = get_cred(device->f_cred);
	side->pid_ns = get_pid_ns(owner->pid_ns);
	side->owner = owner;
	side->key.uid = owner->trusted ? INVALID_UID : owner->uid;
	side->key.id.size = req->build_id_size;
	memcpy(side->key.id.bytes, req->build_id, req->build_id_size);
	return side;
}

static int unwind_side_add(struct file *device, const struct unwind_sframe_section *req)
{
	struct unwind_side *side __free(unwind_side) = NULL;
	struct file *file __free(fput) = NULL;
	int ret;

	ret = unwind_side_check(req);
	if (ret)
		return ret;
	file = fget(req->fd);
	if (!file)
		return -EBADF;
	side = unwind_side_new(device, file, req);
	if (!side)
		return -ENOMEM;
	ret = unwind_side_check_file(&side->source);
	if (ret)
		return ret;
	return unwind_side_publish(device->private_data, &side);
}

static long unwind_side_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct unwind_sframe_section req;
	int ret;

	/* A later version of the structure may be larger. */
	if (_IOC_TYPE(cmd) != _IOC_TYPE(UNWIND_SFRAME_ADD) ||
	    _IOC_NR(cmd) != _IOC_NR(UNWIND_SFRAME_ADD) || _IOC_DIR(cmd) != _IOC_WRITE)
		return -ENOTTY;
	if (_IOC_SIZE(cmd) < sizeof(req))
		return -EINVAL;
	ret = copy_struct_from_user(&req, sizeof(req), (void __user *)arg, _IOC_SIZE(cmd));
	return ret ?: unwind_side_add(file, &req);
}

/* The user of the device, with a reference. */
static struct unwind_side_user *unwind_side_user_get(kuid_t uid)
{
	struct unwind_side_user *user;

	lockdep_assert_held(&unwind_side_lock);
	hash_for_each_possible(unwind_side_users, user, node, __kuid_val(uid)) {
		if (uid_eq(user->uid, uid)) {
			user->files++;
			return user;
		}
	}

	user = kzalloc(sizeof(*user), GFP_KERNEL_ACCOUNT);
	if (!user)
		return NULL;
	user->uid = uid;
	user->files = 1;
	hash_add(unwind_side_users, &user->node, __kuid_val(uid));
	return user;
}

static void unwind_side_user_put(struct unwind_side_user *user)
{
	lockdep_assert_held(&unwind_side_lock);
	if (--user->files)
		return;
	hash_del(&user->node);
	kfree(user);
}

static int unwind_side_open(struct inode *inode, struct file *file)
{
	struct unwind_side_file *owner __free(kfree) = NULL;

	owner = kzalloc(sizeof(*owner), GFP_KERNEL_ACCOUNT);
	if (!owner)
		return -ENOMEM;
	INIT_LIST_HEAD(&owner->sides);
	owner->trusted = file_ns_capable(file, &init_user_ns, CAP_PERFMON) ||
			 file_ns_capable(file, &init_user_ns, CAP_SYS_ADMIN);
	owner->uid = file->f_cred->uid;
	scoped_guard(mutex, &unwind_side_lock)
		owner->user = unwind_side_user_get(unwind_room_user(file->f_cred));
	if (!owner->user)
		return -ENOMEM;
	owner->pid_ns = get_pid_ns(task_active_pid_ns(current));
	file->private_data = no_free_ptr(owner);
	return nonseekable_open(inode, file);
}

static int unwind_side_release(struct inode *inode, struct file *file)
{
	struct unwind_side_file *owner = file->private_data;
	struct unwind_side *side, *next;

	/* There may be many, and nobody waits for all of them. */
	list_for_each_entry(side, &owner->sides, list) {
		scoped_guard(mutex, &unwind_side_lock) {
			rhltable_remove(&unwind_sides, &side->hash, unwind_side_params);
			owner->user->sides -= !owner->trusted;
		}
		cond_resched();
	}
	scoped_guard(mutex, &unwind_side_lock)
		unwind_side_user_put(owner->user);
	if (!list_empty(&owner->sides))
		unwind_side_tell(owner);
	list_for_each_entry_safe(side, next, &owner->sides, list) {
		unwind_side_put(side);
		cond_resched();
	}
	put_pid_ns(owner->pid_ns);
	kfree(owner);
	return 0;
}

static const struct file_operations unwind_side_fops = {
	.owner		= THIS_MODULE,
	.open		= unwind_side_open,
	.release	= unwind_side_release,
	.unlocked_ioctl	= unwind_side_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
};

/* Everybody may use it, for their own tasks. */
static struct miscdevice unwind_side_device = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "unwind_sframe",
	.fops	= &unwind_side_fops,
	.mode	= 0666,
};

static struct ctl_table unwind_side_sysctls[] = {
	{
		.procname	= "unwind_user_sframe_max",
		.data		= &unwind_side_user_max,
		.maxlen		= sizeof(unwind_side_user_max),
		.mode		= 0644,
		.proc_handler	= proc_douintvec,
	},
};

/**
 * unwind_side_init - have registrations, and the device to make them
 *
 * Context: once, before anybody may call unwind_side_get().
 * Return: 0, or why nobody must call that. Without a device there is nothing to be found.
 */
int __init unwind_side_init(void)
{
	int ret = rhltable_init(&unwind_sides, &unwind_side_params);

	if (ret)
		return ret;
	register_sysctl("kernel", unwind_side_sysctls);
	ret = misc_register(&unwind_side_device);
	if (ret)
		pr_err("unwind: no /dev/%s: %d\n", unwind_side_device.name, ret);
	return 0;
}
