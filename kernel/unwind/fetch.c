// SPDX-License-Identifier: GPL-2.0
/*
 * Read files that are not known yet: which may be read, and on whose time.
 *
 * Contexts: a walk that may load, so task context that may sleep; and a workqueue, which
 * reads for tasks that must not wait.
 *
 * Invariant: an object that unwind_object_begin() made is handed to unwind_object_read()
 * once, with its file open until that returns.
 */
#include <linux/cleanup.h>
#include <linux/cred.h>
#include <linux/errno.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/memcontrol.h>
#include <linux/pagemap.h>
#include <linux/rwsem.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/prio.h>
#include <linux/sched/rt.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "object.h"
#include "unwind.h"

/* A dead server may keep a worker for ever, so these workers are nobody else's. */
static struct workqueue_struct *unwind_fetch_queue;

/**
 * struct unwind_fetch - a file to be read by a worker
 * @work:	queued once
 * @object:	what it is read for
 * @file:	the file, with a reference
 * @cred:	of the task that was walked, with a reference: servers may refuse those of a
 *		worker
 * @memcg:	of the task, with a reference: what the object takes is charged to it, as if
 *		the task itself had read the file
 */
struct unwind_fetch {
	struct work_struct	work;
	struct unwind_object	*object;
	struct file		*file;
	const struct cred	*cred;
	struct mem_cgroup	*memcg;
};

/*
 * One rule for all who load, as where a walk runs is not known here. A program that asks for
 * the stack may be called with the inode locked, or from inside of a file system or of
 * reclaim, which might wait for themselves. Who finds the inode locked by somebody else can
 * wait for another walk.
 */
static bool unwind_object_may_read(const struct file *file)
{
	struct inode *inode = file_inode(file);

	return !rwsem_is_locked(&inode->i_rwsem) && !current->journal_info &&
	       !(current->flags & (PF_MEMALLOC | PF_MEMALLOC_NOFS | PF_MEMALLOC_NOIO));
}

/*
 * A real-time task, and one that locked the code in memory, must not wait for a file to be
 * read where it returns to user mode.
 */
static bool unwind_object_may_wait(const struct unwind_object_place *place)
{
	return !place->locked && !rt_or_dl_task_policy(current);
}

/**
 * unwind_object_can_be - can a file have a section that is read?
 * @file:	the file
 *
 * Devices might make who reads them wait for ever. A mapped file can be read, but some
 * have no way to do so in the kernel. Pages that are never given back, as those of a
 * ramfs, must not come to be by a read that charges them to nobody.
 *
 * Context: any.
 * Return: true if so.
 */
bool unwind_object_can_be(const struct file *file)
{
	return S_ISREG(file_inode(file)->i_mode) && (file->f_mode & FMODE_READ) &&
	       (file->f_mode & FMODE_CAN_READ) && file->f_op->read_iter && !file->f_op->read &&
	       !mapping_unevictable(file->f_mapping);
}

static void unwind_fetch_work(struct work_struct *work)
{
	struct unwind_fetch *fetch = container_of(work, struct unwind_fetch, work);
	struct mem_cgroup *memcg = set_active_memcg(fetch->memcg);
	const struct cred *cred = override_creds(fetch->cred);

	unwind_object_read(fetch->object, fetch->file);
	/* Now, and not when a kernel thread gets to it: the mount may be wanted. */
	__fput_sync(fetch->file);
	revert_creds(cred);
	put_cred(fetch->cred);
	set_active_memcg(memcg);
	mem_cgroup_put(fetch->memcg);
	kfree(fetch);
}

/* Have it read. Returns -EALREADY, also if somebody else reads it; or another error. */
static int unwind_fetch_later(const struct unwind_object_source *source, int why)
{
	struct unwind_fetch *fetch __free(kfree) = NULL;
	struct unwind_object *object;

	if (why != -ENOENT)
		return -EALREADY;
	/*
	 * Another time, rather than to wait for memory. That of a cgroup is all in use as a rule:
	 * what there are two of for a user is charged to nobody.
	 */
	fetch = kmalloc(sizeof(*fetch), GFP_NOWAIT | __GFP_NOWARN);
	if (!fetch) {
		unwind_count(UNWIND_STAT_NOMEM);
		return -ENOMEM;
	}
	object = unwind_object_begin(source, true);
	if (IS_ERR(object))
		return PTR_ERR(object) == -EEXIST ? -EALREADY : PTR_ERR(object);

	INIT_WORK(&fetch->work, unwind_fetch_work);
	fetch->object = object;
	fetch->file = get_file(source->file);
	fetch->cred = get_cred(current_real_cred());
	fetch->memcg = get_mem_cgroup_from_current();
	queue_work(unwind_fetch_queue, &no_free_ptr(fetch)->work);
	return -EALREADY;
}

/**
 * unwind_object_fetch - read what is not known, have it read, or wait for who reads it
 * @source:	the file
 * @place:	where current has mapped it
 * @why:	-ENOENT if it is not known, -EINPROGRESS while somebody reads it
 *
 * Context: task context; no locks held that a file system may want.
 * Return: 0 to look again, -EAGAIN if it must not be read now, -EALREADY if it is read
 * while current goes on, or never, or what unwind_object_wait() or unwind_object_begin() say.
 */
int unwind_object_fetch(const struct unwind_object_source *source,
			const struct unwind_object_place *place, int why)
{
	struct unwind_object *object;

	/* What can be read of a file that is open for direct I/O depends on the file system. */
	if (source->file->f_flags & O_DIRECT) {
		unwind_count(UNWIND_STAT_SFRAME_NOT_READ);
		return -EALREADY;
	}
	if (!unwind_object_may_read(source->file)) {
		unwind_count(UNWIND_STAT_SFRAME_NOT_READ);
		return -EAGAIN;
	}
	if (!unwind_object_may_wait(place))
		return unwind_fetch_later(source, why);

	object = why == -ENOENT ? unwind_object_begin(source, false) : ERR_PTR(-EEXIST);
	if (PTR_ERR(object) == -EEXIST)
		return unwind_object_wait(source);
	if (IS_ERR(object))
		return PTR_ERR(object);
	unwind_object_read(object, source->file);
	return 0;
}

/**
 * unwind_fetch_init - be ready to read
 *
 * The time that workers take is nobody's, so they have what others leave.
 *
 * Return: 0 or -ENOMEM.
 */
int __init unwind_fetch_init(void)
{
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	int ret = -ENOMEM;

	unwind_fetch_queue = alloc_workqueue("unwind-fetch", WQ_UNBOUND, WQ_UNBOUND_MAX_ACTIVE);
	if (attrs && unwind_fetch_queue) {
		attrs->nice = MAX_NICE;
		ret = apply_workqueue_attrs(unwind_fetch_queue, attrs);
	}
	free_workqueue_attrs(attrs);
	return ret;
}
