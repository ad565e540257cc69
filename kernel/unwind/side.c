// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame sections that users register for files that have none: /dev/unwind_sframe.
 *
 * Contexts: open, ioctl, release and reads of fdinfo run in task context and may sleep.
 * unwind_side_get() and unwind_side_note() run in the context of the task that is walked, and do
 * not sleep.
 *
 * A registration is found by the build-id of its files, and lasts as long as the device
 * file it was made with is open. It names a section in a file, which a walk loads when it
 * needs it: the result is an object like any other, and is dropped when memory is short.
 * Invariant: except for what walks note, a registration is immutable once it is in the hash; it
 * leaves the hash once, in release, and is freed a grace period after the last reference is put.
 * Except for the device file, only a task that reads the file holds a reference for long.
 *
 * A section controls where a walk reads the stack of a task. So sections of users without
 * CAP_PERFMON are only used for tasks that these users could ptrace, and so read, anyway; rows
 * that a task remembers, until the next tick of the objects. Sections for all tasks make all
 * tasks wait for the file system they are in: only CAP_SYS_ADMIN may choose one that is served
 * by a process.
 */
#include <linux/atomic.h>
#include <linux/capability.h>
#include <linux/cleanup.h>
#include <linux/cred.h>
#include <linux/dcache.h>
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
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/sysctl.h>
#include <linux/uaccess.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>
#include <uapi/linux/unwind_sframe.h>

#include "object.h"
#include "side.h"
#include "unwind.h"

/* Maximum number of sections that a user without CAP_PERFMON may register. */
static unsigned int unwind_side_user_max = 4096;

/**
 * struct unwind_side_user - a user that registrations are accounted to
 * @node:	entry in the table of users
 * @uid:	the user, see unwind_room_user()
 * @files:	how often the user has the device open
 * @sides:	number of the user's sections, except those of trusted device files
 */
struct unwind_side_user {
	struct hlist_node	node;
	kuid_t			uid;
	unsigned int		files;
	unsigned int		sides;
};

/**
 * struct unwind_side_file - an open file of the device
 * @user:	user that it is accounted to
 * @uid:	uid that opened it
 * @pid_ns:	pid namespace in which it was opened, with a reference
 * @admin:	opened with CAP_SYS_ADMIN in init_user_ns
 * @trusted:	likewise, or with CAP_PERFMON: used for all tasks
 * @lock:	protects @sides until release; unwind_side_lock nests in it, so that nobody else
 *		waits while fdinfo is read
 * @sides:	its registrations
 */
struct unwind_side_file {
	struct unwind_side_user	*user;
	kuid_t			uid;
	struct pid_namespace	*pid_ns;
	bool			admin;
	bool			trusted;
	struct mutex		lock;	/* protects sides */
	struct list_head	sides;
};

/**
 * struct unwind_side_key - lookup key of a registration
 * @id:		build-id of its files
 * @uid:	uid of the tasks that it is for, so that lookups skip other users' entries;
 *		INVALID_UID for all tasks
 */
struct unwind_side_key {
	struct unwind_build_id	id;
	kuid_t			uid;
};

/**
 * struct unwind_side - a registration
 * @refs:	one is held by the device file, which puts it in release
 * @rcu:	to free it
 * @hash:	entry in the table of registrations
 * @list:	entry in &struct unwind_side_file.sides
 * @owner:	the device file
 * @key:	the files and tasks that it is for
 * @source:	the section
 * @cred:	credentials of the device file, with a reference
 * @pid_ns:	pid namespace of @owner, with a reference: only its tasks use untrusted sections
 * @loaded:	a walk has had its table
 * @error:	why a walk had none, an errno of the last such walk; or 0
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
	bool				loaded;
	int				error;
};

static const struct rhashtable_params unwind_side_params = {
	.key_len		= sizeof(struct unwind_side_key),
	.key_offset		= offsetof(struct unwind_side, key),
	.head_offset		= offsetof(struct unwind_side, hash),
	.automatic_shrinking	= true,
};

static struct rhltable unwind_sides;
static DEFINE_HASHTABLE(unwind_side_users, 6);
/* Protects all of the above. */
static DEFINE_MUTEX(unwind_side_lock);

/*
 * Does the owner of a registration have all capabilities of a task? The creator of a user
 * namespace has all capabilities in it, and in the namespaces that were created in it.
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
 * Could the owner ptrace current? The conditions are those of ptrace, without the exception
 * for privileged tracers, which do not need it here. Current must also have a pid in the
 * namespace in which the device was opened. Use its real credentials, not those that it
 * may have overridden temporarily.
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

/* Skip @nth usable registrations; on failure @nth is the number still to be skipped. */
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
 * unwind_side_get - find a registered section for files that have none
 * @id:		build-id of the files
 * @nth:	index among several registrations, from 0
 *
 * Registrations for all tasks come first.
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
	/* A race with release reports none: closing the device makes walks look again. */
	return side && refcount_inc_not_zero(&side->refs) ? side : NULL;
}

/**
 * unwind_side_put - put a reference
 * @side:	a registration, or NULL
 *
 * Context: any.
 */
void unwind_side_put(struct unwind_side *side)
{
	if (!side || !refcount_dec_and_test(&side->refs))
		return;
	/* RCU readers may use these: they are also freed after a grace period. */
	put_cred(side->cred);
	put_pid_ns(side->pid_ns);
	fput(side->source.file);
	kfree_rcu(side, rcu);
}

/**
 * unwind_side_source - get the section of a registration
 * @side:	a registration
 *
 * Context: any, with a reference.
 * Return: the section; valid as long as the reference is held.
 */
const struct unwind_object_source *unwind_side_source(const struct unwind_side *side)
{
	return &side->source;
}

/**
 * unwind_side_note - note what became of a registered section in a walk
 * @side:	a registration
 * @error:	why the walk has no table, an errno; or 0 if it has one
 *
 * Context: any, with a reference.
 */
void unwind_side_note(struct unwind_side *side, int error)
{
	/* Someone has turned sections off. */
	if (error == -ECANCELED)
		return;
	/* Pairs with unwind_side_show(). Mostly equal: the cache line stays shared. */
	if (error && READ_ONCE(side->error) != error)
		WRITE_ONCE(side->error, error);
	else if (!error && !READ_ONCE(side->loaded))
		WRITE_ONCE(side->loaded, true);
}

/*
 * Make all tasks look for registrations again in their next walk. If the owner is not
 * trusted, leave it to the next tick, within a second: otherwise one user could make the
 * tasks of others look again all the time.
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

/* Publish a registration. On success the device file takes over the reference. */
static int unwind_side_publish(struct unwind_side_file *owner, struct unwind_side **new)
{
	struct unwind_side *side = *new;
	int ret;

	guard(mutex)(&owner->lock);
	guard(mutex)(&unwind_side_lock);
	if (unwind_side_has(owner, &side->key))
		return -EEXIST;
	/* Trusted owners have no limit. */
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

/*
 * May a process serve the file, which may never answer? FUSE has such servers. A file of a
 * stacked file system may be read from there, too: an overlay may copy it there at any time.
 */
static bool unwind_side_is_served(const struct file *file)
{
	const struct super_block *sb = file_inode(file)->i_sb;

	return sb->s_stack_depth ||
	       sb->s_iflags & (SB_I_UNTRUSTED_MOUNTER | SB_I_IMA_UNVERIFIABLE_SIGNATURE);
}

/* Check the file, and the header of the section, without reading all of it. */
static int unwind_side_check_file(const struct unwind_side_file *owner,
				  const struct unwind_object_source *source)
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
	if (owner->trusted && !owner->admin && unwind_side_is_served(file))
		return -EPERM;
	ret = unwind_elf_read(&elf, &header, sizeof(header), section->offset);
	if (ret)
		return ret == -ENOEXEC ? -EINVAL : ret;
	return sframe_check_header(&header);
}

/* Allocate a registration, which takes its own reference to @file. */
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
	ret = unwind_side_check_file(side->owner, &side->source);
	if (ret)
		return ret;
	return unwind_side_publish(device->private_data, &side);
}

static long unwind_side_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct unwind_sframe_section req;
	int ret;

	/* Later versions of the structure may be larger. */
	if (_IOC_TYPE(cmd) != _IOC_TYPE(UNWIND_SFRAME_ADD) ||
	    _IOC_NR(cmd) != _IOC_NR(UNWIND_SFRAME_ADD) || _IOC_DIR(cmd) != _IOC_WRITE)
		return -ENOTTY;
	if (_IOC_SIZE(cmd) < sizeof(req))
		return -EINVAL;
	ret = copy_struct_from_user(&req, sizeof(req), (void __user *)arg, _IOC_SIZE(cmd));
	return ret ?: unwind_side_add(file, &req);
}

/* Get the entry of a user, with a reference. */
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
	mutex_init(&owner->lock);
	INIT_LIST_HEAD(&owner->sides);
	owner->admin = file_ns_capable(file, &init_user_ns, CAP_SYS_ADMIN);
	owner->trusted = owner->admin || file_ns_capable(file, &init_user_ns, CAP_PERFMON);
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

	/* There may be many: unlock after each, so that other users do not wait for all. */
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
	mutex_destroy(&owner->lock);
	kfree(owner);
	return 0;
}

#ifdef CONFIG_PROC_FS
/* @buf has room for a name of PATH_MAX. */
static void unwind_side_show(struct seq_file *m, const struct unwind_side *side, char *buf)
{
	const char *path = d_path(&side->source.file->f_path, buf, PATH_MAX);
	/* Pairs with unwind_side_note(). */
	bool loaded = READ_ONCE(side->loaded);
	int error = READ_ONCE(side->error);

	seq_printf(m, "sframe:\t%*phN ", side->key.id.size, side->key.id.bytes);
	if (loaded || !error)
		seq_puts(m, loaded ? "ok" : "unused");
	if (error)
		seq_printf(m, "%s%s", loaded ? "," : "", unwind_object_why(error));
	seq_putc(m, ' ');
	unwind_object_show_path(m, IS_ERR(path) ? NULL : path);
	seq_putc(m, '\n');
}

/* Bytes of a line, more or less. */
#define UNWIND_SIDE_LINE	128

/* A line for each registration: what became of it, and which file it keeps open. */
static void unwind_side_show_fdinfo(struct seq_file *m, struct file *file)
{
	char *buf __free(kfree) = kmalloc(PATH_MAX, GFP_KERNEL);
	struct unwind_side_file *owner = file->private_data;
	struct unwind_side *side;

	if (!buf)
		return;
	guard(mutex)(&owner->lock);
	/* On overflow, the caller starts over with twice the room: print nothing before that. */
	if (list_count_nodes(&owner->sides) * UNWIND_SIDE_LINE > m->size - m->count) {
		seq_commit(m, -1);
		return;
	}
	list_for_each_entry(side, &owner->sides, list) {
		if (seq_has_overflowed(m) || fatal_signal_pending(current))
			return;
		unwind_side_show(m, side, buf);
		cond_resched();
	}
}
#endif

static const struct file_operations unwind_side_fops = {
	.owner		= THIS_MODULE,
	.open		= unwind_side_open,
	.release	= unwind_side_release,
	.unlocked_ioctl	= unwind_side_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
#ifdef CONFIG_PROC_FS
	.show_fdinfo	= unwind_side_show_fdinfo,
#endif
};

/* All users may register sections for their own tasks. */
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
 * unwind_side_init - initialize registrations and their device
 *
 * Context: once, before any call of unwind_side_get().
 * Return: 0, or an error, after which unwind_side_get() must not be called. A missing device
 * is no error: no registration is found then.
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
