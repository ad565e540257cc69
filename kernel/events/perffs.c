// SPDX-License-Identifier: GPL-2.0
/*
 * perffs: the names of detached events, in /sys/kernel/perf.
 *
 * Each event has a file, which belongs to the user who detached it; to open it gives one more
 * descriptor of the event. unlink() ends the event; only perf makes files.
 *
 * Contexts: process context. Locks: the locks of inodes are outside of those of an event.
 *
 * Invariant: while an event has its name, the inode has a reference on it.
 */
#include <linux/capability.h>
#include <linux/cleanup.h>
#include <linux/cred.h>
#include <linux/dcache.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/fs_context.h>
#include <linux/fsnotify.h>
#include <linux/kobject.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <linux/namei.h>
#include <linux/pagemap.h>
#include <linux/perf_detached.h>
#include <linux/perf_event.h>
#include <linux/pid.h>
#include <linux/pidfd.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/uaccess.h>

#include "detached.h"
#include "internal.h"

#define PERFFS_MAGIC	0x50455246	/* "PERF" */

static struct vfsmount *perffs_mount __ro_after_init;

/* Take away the event of an inode, with its reference; NULL if that was done before. */
static struct perf_event *perffs_take(struct inode *inode)
{
	struct perf_event *event;

	scoped_guard(spinlock, &inode->i_lock) {
		event = inode->i_private;
		inode->i_private = NULL;
	}
	return event;
}

/* The event of an inode, with one more reference; NULL if its name was removed. */
static struct perf_event *perffs_get(struct inode *inode)
{
	struct perf_event *event;

	scoped_guard(spinlock, &inode->i_lock) {
		event = inode->i_private;
		if (event)
			atomic_long_inc(&event->refcount);
	}
	return event;
}

static int perffs_open(struct inode *inode, struct file *file)
{
	struct perf_event *event;
	int ret;

	/* Whatever the mode, the descriptor can do all that one of an event can. */
	if ((file->f_mode & (FMODE_READ | FMODE_WRITE)) != (FMODE_READ | FMODE_WRITE))
		return -EACCES;
	event = perffs_get(inode);
	if (!event)
		return -ENOENT;
	ret = perf_detached_open_name(event);
	if (ret) {
		put_event(event);
		return ret;
	}
	file->private_data = event;
	/* Pages of the buffer name the mapping of the file by which they were mapped last. */
	file->f_mapping = d_inode(perffs_mount->mnt_root)->i_mapping;
	replace_fops(file, &perf_fops);
	return 0;
}

static const struct file_operations perffs_file_operations = {
	.open	= perffs_open,
	.llseek	= noop_llseek,
};

/* Everybody may try to remove a name, see perffs_unlink(); nobody may make one. */
static int perffs_permission(struct mnt_idmap *idmap, struct inode *dir, int mask)
{
	return mask & MAY_WRITE ? 0 : generic_permission(idmap, dir, mask);
}

static int perffs_unlink(struct inode *dir, struct dentry *dentry)
{
	struct inode *inode = d_inode(dentry);
	struct perf_event *event;

	if (!uid_eq(current_fsuid(), inode->i_uid) && !perfmon_capable())
		return -EPERM;
	simple_unlink(dir, dentry);
	/* The inode may stay for as long as somebody has a path to it. */
	event = perffs_take(inode);
	if (event)
		perf_detached_unlinked(event);
	return 0;
}

/* Find the name of an event of @pid that has the smallest id above @find->id. */
static int perffs_find(struct dentry *root, const struct pid *pid, bool thread,
		       struct perffs_find *find)
{
	struct dentry *child;
	u64 id = U64_MAX;

	/* With the lock of the directory, events keep their names. */
	inode_lock_shared(d_inode(root));
	spin_lock(&root->d_lock);
	hlist_for_each_entry(child, &root->d_children, d_sib) {
		const struct perf_event *event;

		spin_lock_nested(&child->d_lock, DENTRY_D_LOCK_NESTED);
		event = simple_positive(child) ? d_inode(child)->i_private : NULL;
		if (event && perf_detached_is_of(event, pid, thread) && event->id > find->id &&
		    event->id < id) {
			id = event->id;
			strscpy(find->name, child->d_name.name);
		}
		spin_unlock(&child->d_lock);
	}
	spin_unlock(&root->d_lock);
	inode_unlock_shared(d_inode(root));
	find->id = id;
	return id == U64_MAX ? -ENOENT : 0;
}

static long perffs_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct perffs_find find, __user *user = (void __user *)arg;
	unsigned int flags;
	struct pid *pid;
	int ret;

	if (cmd != PERFFS_IOC_FIND)
		return -ENOTTY;
	if (copy_from_user(&find, user, sizeof(find)))
		return -EFAULT;
	if (find.size != sizeof(find))
		return -EINVAL;
	pid = pidfd_get_pid(find.pidfd, &flags);
	if (IS_ERR(pid))
		return PTR_ERR(pid);
	memset(find.name, 0, sizeof(find.name));
	ret = perffs_find(file->f_path.dentry, pid, flags & PIDFD_THREAD, &find);
	put_pid(pid);
	if (!ret && copy_to_user(user, &find, sizeof(find)))
		ret = -EFAULT;
	return ret;
}

static const struct file_operations perffs_dir_operations = {
	.open		= dcache_dir_open,
	.release	= dcache_dir_close,
	.llseek		= dcache_dir_lseek,
	.read		= generic_read_dir,
	.iterate_shared	= dcache_readdir,
	.fsync		= noop_fsync,
	.unlocked_ioctl	= perffs_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
};

static const struct inode_operations perffs_dir_inode_operations = {
	.lookup		= simple_lookup,
	.permission	= perffs_permission,
	.unlink		= perffs_unlink,
};

static void perffs_evict_inode(struct inode *inode)
{
	struct perf_event *event = perffs_take(inode);

	truncate_inode_pages_final(&inode->i_data);
	clear_inode(inode);
	if (event)
		put_event(event);
}

static const struct super_operations perffs_super_operations = {
	.statfs		= simple_statfs,
	.drop_inode	= generic_delete_inode,
	.evict_inode	= perffs_evict_inode,
};

static struct inode *perffs_inode(struct super_block *sb, struct perf_event *event,
				  const struct cred *cred)
{
	struct inode *inode = new_inode(sb);

	if (!inode)
		return NULL;
	inode->i_ino = get_next_ino();
	inode->i_mode = S_IFREG | 0600;
	inode->i_uid = cred->fsuid;
	inode->i_gid = cred->fsgid;
	inode->i_fop = &perffs_file_operations;
	simple_inode_init_ts(inode);
	atomic_long_inc(&event->refcount);
	inode->i_private = event;
	return inode;
}

/**
 * perffs_create - give an event a name
 * @event:	the event
 * @name:	the name, which no other event has
 * @cred:	of its owner
 *
 * Return: the name, with a reference; an ERR_PTR(), -EBUSY if the event's former name has not gone.
 */
struct dentry *perffs_create(struct perf_event *event, const char *name, const struct cred *cred)
{
	struct dentry *root, *dentry;
	struct inode *dir, *inode;

	/* It could not be mounted at boot. */
	if (!perffs_mount)
		return ERR_PTR(-ENODEV);
	root = perffs_mount->mnt_root;
	dir = d_inode(root);
	inode = perffs_inode(root->d_sb, event, cred);
	if (!inode)
		return ERR_PTR(-ENOMEM);
	inode_lock(dir);
	dentry = lookup_one_len(name, root, strlen(name));
	if (IS_ERR(dentry) || d_really_is_positive(dentry)) {
		inode_unlock(dir);
		iput(inode);
		if (IS_ERR(dentry))
			return dentry;
		dput(dentry);
		return ERR_PTR(-EBUSY);
	}
	d_instantiate(dentry, inode);
	fsnotify_create(dir, dentry);
	inode_unlock(dir);
	/* One reference keeps the name, until perffs_remove() or unlink(). */
	return dget(dentry);
}

/**
 * perffs_remove - take away the name of an event, not the event
 * @dentry:	from perffs_create(), whose reference this drops; it may be gone
 *
 * The caller has a reference on the event.
 */
void perffs_remove(struct dentry *dentry)
{
	struct inode *dir = d_inode(perffs_mount->mnt_root);
	struct perf_event *event = NULL;

	/* As unlink() has it, too, the name is removed once. */
	inode_lock(dir);
	if (simple_positive(dentry)) {
		event = perffs_take(d_inode(dentry));
		/* With what is mounted on it. */
		d_invalidate(dentry);
		fsnotify_unlink(dir, dentry);
		simple_unlink(dir, dentry);
	}
	inode_unlock(dir);
	if (event)
		put_event(event);
	dput(dentry);
}

static int perffs_fill_super(struct super_block *sb, struct fs_context *fc)
{
	static const struct tree_descr files[] = { { "" } };
	int ret = simple_fill_super(sb, PERFFS_MAGIC, files);

	if (ret)
		return ret;
	sb->s_op = &perffs_super_operations;
	sb->s_d_op = &simple_dentry_operations;
	sb->s_iflags |= SB_I_NOEXEC | SB_I_NODEV;
	d_inode(sb->s_root)->i_op = &perffs_dir_inode_operations;
	d_inode(sb->s_root)->i_fop = &perffs_dir_operations;
	d_inode(sb->s_root)->i_mapping->a_ops = &ram_aops;
	return 0;
}

static int perffs_get_tree(struct fs_context *fc)
{
	return get_tree_single(fc, perffs_fill_super);
}

static const struct fs_context_operations perffs_context_operations = {
	.get_tree	= perffs_get_tree,
};

static int perffs_init_fs_context(struct fs_context *fc)
{
	fc->ops = &perffs_context_operations;
	return 0;
}

static struct file_system_type perffs_type = {
	.name			= "perffs",
	.init_fs_context	= perffs_init_fs_context,
	.kill_sb		= kill_litter_super,
};

static int __init perffs_init(void)
{
	int ret = sysfs_create_mount_point(kernel_kobj, "perf");

	if (ret)
		return ret;
	perffs_mount = kern_mount(&perffs_type);
	if (IS_ERR(perffs_mount)) {
		ret = PTR_ERR(perffs_mount);
		perffs_mount = NULL;
		return ret;
	}
	return register_filesystem(&perffs_type);
}
fs_initcall(perffs_init);
