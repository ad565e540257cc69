// SPDX-License-Identifier: GPL-2.0
/*
 * Read files that are not cached yet: decide if a file may be read, and by which task.
 *
 * Contexts: task context that may sleep, in a walk that may load files; and a workqueue,
 * which reads for tasks that must not wait.
 *
 * Invariant: an object from unwind_object_begin() is passed to unwind_object_read() once,
 * with its file open until that returns.
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

/* A separate queue, because a dead server may block a worker forever. */
static struct workqueue_struct *unwind_fetch_queue;

/**
 * struct unwind_fetch - a file to be read by a worker
 * @work:	queued once
 * @object:	the object to be loaded
 * @file:	the file, with a reference
 * @cred:	credentials of the walked task, with a reference: servers may refuse those of
 *		a worker
 * @memcg:	cgroup of the task, with a reference: the object's memory is charged to it, as
 *		if the task itself had read the file
 */
struct unwind_fetch {
	struct work_struct	work;
	struct unwind_object	*object;
	struct file		*file;
	const struct cred	*cred;
	struct mem_cgroup	*memcg;
};

/*
 * Apply one rule to all loads, because the context of the walk is not known here. A program
 * that asks for the stack may run inside a file system or reclaim, where the read could
 * deadlock.
 */
static bool unwind_object_may_load(void)
{
	return !current->journal_info &&
	       !(current->flags & (PF_MEMALLOC | PF_MEMALLOC_NOFS | PF_MEMALLOC_NOIO));
}

/*
 * Is the inode locked? The task itself may hold the lock, and the file system may take it for
 * reads, so leave the file to a later walk. That the lock is shared makes no difference: a
 * writer that waits for it would keep the task from taking it again.
 */
static bool unwind_object_is_locked(const struct file *file)
{
	return rwsem_is_locked(&file_inode(file)->i_rwsem);
}

/*
 * Real-time tasks, and tasks that locked the code in memory, must not wait for a file read
 * when they return to user mode.
 */
static bool unwind_object_may_wait(const struct unwind_object_place *place)
{
	return !place->locked && !rt_or_dl_task_policy(current);
}

/**
 * unwind_object_can_be - can a file have a section that the kernel may read?
 * @file:	the file
 *
 * Reads of devices might block forever. Mapped files are readable, but some cannot be read
 * from inside the kernel. Do not read files with unevictable pages, as in a ramfs: the read
 * would allocate pages that are charged to nobody and never freed.
 *
 * Context: any.
 * Return: true if it can.
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
	/* Drop it now, not in a delayed work, so that an unmount does not fail meanwhile. */
	__fput_sync(fetch->file);
	revert_creds(cred);
	put_cred(fetch->cred);
	set_active_memcg(memcg);
	mem_cgroup_put(fetch->memcg);
	kfree(fetch);
}

/* Let a worker read the file. Returns -EALREADY if it is being read, or another error. */
static int unwind_fetch_later(const struct unwind_object_source *source, int why)
{
	struct unwind_fetch *fetch __free(kfree) = NULL;
	struct unwind_object *object;

	if (why != -ENOENT)
		return -EALREADY;
	/*
	 * Fail rather than wait for memory: a later walk retries. Do not charge it, because
	 * cgroups are usually full: a user has UNWIND_LOADS_WORKER such requests at most.
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
 * unwind_object_fetch - read a file, let a worker read it, or wait for its reader
 * @source:	the file
 * @place:	where current has mapped it
 * @why:	-ENOENT if it is not cached, -EINPROGRESS while it is being read
 *
 * Context: task context; no locks held that a file system may take.
 * Return: 0 to look again, -EAGAIN if it must not be read now, -EALREADY if it is read
 * in the background, or never, or an error of unwind_object_wait() or unwind_object_begin().
 */
int unwind_object_fetch(const struct unwind_object_source *source,
			const struct unwind_object_place *place, int why)
{
	struct unwind_object *object;

	/* The file system decides which reads of a file open for direct I/O are valid. */
	if (source->file->f_flags & O_DIRECT) {
		unwind_count(UNWIND_STAT_SFRAME_NOT_READ);
		return -EALREADY;
	}
	/*
	 * Waiting for the reader takes no lock. If the reader waits for one that this task
	 * holds, the wait times out.
	 */
	if (!unwind_object_may_load() ||
	    (why == -ENOENT && unwind_object_is_locked(source->file))) {
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
 * unwind_fetch_init - create the workqueue
 *
 * The workers have the lowest priority, because their CPU time is accounted to nobody.
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
