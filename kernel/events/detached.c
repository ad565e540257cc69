// SPDX-License-Identifier: GPL-2.0
/*
 * Detached events: events of a task that outlive the descriptor by which they were opened, and
 * whose buffer can be read after the task has exited.
 *
 * PERF_FLAG_DETACHED prepares an event for that. PERF_EVENT_IOC_DETACH gives it a buffer of its own
 * and a name below /sys/kernel/perf; whoever may open that file gets an ordinary descriptor of the
 * event, and unlink() ends it.
 *
 * A task that inherits the event has one of its own, which gets its buffer before the task first
 * returns to user mode, and its name soon after.
 *
 * Contexts: process context. Locks: perf_detached_lock is a leaf; nothing sleeps under it.
 *
 * Invariant: the event is released once: by the close of its last descriptor while it has no name;
 * when its name is removed, by a user or because others are kept; or when it is inherited and gets
 * no buffer or name. The event and its buffer are charged to the user who detached it, from then
 * until it is freed.
 */
#include <linux/capability.h>
#include <linux/cleanup.h>
#include <linux/cpumask.h>
#include <linux/cred.h>
#include <linux/err.h>
#include <linux/list.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/perf_event.h>
#include <linux/pid_namespace.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>
#include <linux/sched/task.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/task_work.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#include "detached.h"
#include "internal.h"

/* What rb_alloc() can have. */
#define DETACHED_MAX_PAGES	((PAGE_SIZE << MAX_PAGE_ORDER) / sizeof(void *))

/**
 * perf_detached_check - may the caller open such an event?
 * @attr:	of the event
 * @pid:	of perf_event_open(), likewise the following ones
 * @cpu:	must be -1
 * @group_fd:	must be -1
 * @flags:	with PERF_FLAG_DETACHED, or it is none
 *
 * Return: 0; -EOPNOTSUPP if it is switched off or an event of a CPU; -EACCES; -EINVAL.
 */
int perf_detached_check(const struct perf_event_attr *attr, pid_t pid, int cpu, int group_fd,
			unsigned long flags)
{
	int ret;

	if (!(flags & PERF_FLAG_DETACHED))
		return 0;
	ret = perf_detached_allowed();
	if (ret)
		return ret;
	if ((flags & PERF_FLAG_PID_CGROUP) || group_fd != -1)
		return -EINVAL;
	if (pid == -1 || cpu != -1)
		return -EOPNOTSUPP;
	/* It is enabled when it has a buffer, and nobody may wait for its signals. */
	if (!attr->disabled || attr->sigtrap || attr->remove_on_exec)
		return -EINVAL;
	/* Buffers of those that are inherited can be written only after a return to user mode. */
	if (attr->inherit && !(attr->exclude_kernel && attr->exclude_hv))
		return -EINVAL;
	return 0;
}

/* May the caller trace all tasks of the user namespace that a task is in? */
static bool detached_may_trace(const struct task_struct *task)
{
	guard(rcu)();
	return ns_capable_noaudit(__task_cred(task)->user_ns, CAP_SYS_PTRACE);
}

/* End an event, with a reference. Its task may stay in the kernel for long. */
static void detached_release(struct perf_event *event)
{
	struct perf_buffer *rb;

	atomic_long_inc(&event->refcount);
	perf_event_release_kernel(event);
	rb = event->attr.inherit ? ring_buffer_get(event) : NULL;
	if (rb) {
		perf_shmem_leave(rb);
		ring_buffer_put(rb);
	}
	if (task_work_cancel(event->hw.target, &event->detached->pin))
		put_event(event);
	/* Its task will not do that any more. */
	wake_up_all(&event->waitq);
	put_event(event);
}

/*
 * Release an event whose name was removed, with the reference of its name, or one that has to go,
 * with the reference of detached_drop().
 */
static void detached_release_work(struct work_struct *work)
{
	struct perf_detached *detached = container_of(work, struct perf_detached, release);

	/* Nothing else uses it: the event is gone. */
	if (detached->name)
		perffs_remove(no_free_ptr(detached->name));
	detached_release(detached->event);
}

static void detached_pin_work(struct callback_head *head);
static void detached_name_work(struct work_struct *work);

static void detached_put_work(struct work_struct *work)
{
	put_event(container_of(work, struct perf_detached, put)->event);
}

static struct perf_detached *detached_alloc(struct perf_event *event)
{
	struct perf_detached *detached = kzalloc(sizeof(*detached), GFP_KERNEL_ACCOUNT);

	if (!detached)
		return NULL;
	detached->event = event;
	detached->files = 1;
	INIT_LIST_HEAD(&detached->kept);
	INIT_WORK(&detached->release, detached_release_work);
	INIT_WORK(&detached->naming, detached_name_work);
	INIT_WORK(&detached->put, detached_put_work);
	init_task_work(&detached->pin, detached_pin_work);
	event->detached = detached;
	return detached;
}

/* Is it a kprobe or uprobe? Its attr has a pointer to the name of what it probes. */
static bool detached_is_probe(const struct perf_event *event)
{
#ifdef CONFIG_EVENT_TRACING
	return event->tp_event && event->attr.type != PERF_TYPE_TRACEPOINT;
#else
	return false;
#endif
}

/**
 * perf_detached_open - prepare an event for being detached
 * @event:	the event, of a task
 * @leader:	leader of the group that it joins, or NULL
 * @flags:	as above
 *
 * A detached event is alone: it would outlive the descriptors of its group.
 *
 * Return: 0; -EINVAL for a kernel thread or a group; -EOPNOTSUPP for a PMU with an AUX area, and
 * for a probe that is inherited; -ENOMEM.
 */
int perf_detached_open(struct perf_event *event, const struct perf_event *leader,
		       unsigned long flags)
{
	struct task_struct *task = event->hw.target;
	struct perf_detached *detached;

	if (leader && leader->detached)
		return -EINVAL;
	if (!(flags & PERF_FLAG_DETACHED))
		return 0;
	/* The task changes other flags meanwhile. */
	if (data_race(task->flags) & (PF_KTHREAD | PF_USER_WORKER))
		return -EINVAL;
	if (has_aux(event))
		return -EOPNOTSUPP;
	/* A child would read the name from its own memory, with the owner's rights. */
	if (event->attr.inherit && detached_is_probe(event))
		return -EOPNOTSUPP;
	detached = detached_alloc(event);
	if (!detached)
		return -ENOMEM;
	detached->phase = DETACHED_OWNED;
	detached->perfmon = perfmon_capable();
	detached->ptrace = detached_may_trace(task);
	perf_detached_init_info(detached, task, task_active_pid_ns(current));
	return 0;
}

/* A buffer in memory that always stays in RAM. */
static struct perf_buffer *detached_pinned(struct perf_detached *detached, unsigned int pages)
{
	struct perf_event *event = detached->event;
	struct perf_buffer *rb;

	rb = rb_alloc(pages, event->attr.watermark ? event->attr.wakeup_watermark : 0, -1,
		      event->attr.write_backward ? 0 : RING_BUFFER_WRITABLE);
	if (!rb)
		return ERR_PTR(-ENOMEM);
	/* The event itself is the first that has it mapped, so munmap() does not take it away. */
	atomic_set(&rb->mmap_count, 1);
	atomic_inc(&event->mmap_count);
	return rb;
}

/*
 * Give an event of a group its buffer, which is overwritten if it is written backward. Otherwise
 * records are lost once it is full: nobody reads it.
 */
static int detached_set_buffer(struct perf_detached *detached, unsigned int pages)
{
	struct perf_event *event = detached->event;
	struct perf_event_detached_info info;
	char comm[TASK_COMM_LEN];
	struct perf_buffer *rb;

	lockdep_assert_held(&event->mmap_mutex);
	if (!perf_detached_count(detached))
		return -EDQUOT;
	get_task_comm(comm, event->hw.target);
	scoped_guard(spinlock, &perf_detached_lock) {
		memcpy(detached->info.comm, comm, sizeof(comm));
		detached->info.pages = pages;
		info = detached->info;
	}
	rb = event->attr.inherit ? perf_shmem_alloc(event, pages, detached->group, &info) :
	     detached_pinned(detached, pages);
	if (IS_ERR(rb)) {
		perf_detached_uncount(detached);
		return PTR_ERR(rb);
	}
	perf_event_set_buffer(event, rb);
	if (!event->attr.inherit)
		perf_detached_describe(detached, rb);
	/* perf_detached_exit() sets the state first, and looks for the buffer then. */
	perf_detached_publish(detached, rb);
	return 0;
}

static int detached_buffer(struct perf_detached *detached, const struct perf_event_detach *args)
{
	struct perf_event *event = detached->event;
	struct perf_detached_group *group;
	int ret;

	if (!is_power_of_2(args->pages) || args->pages > DETACHED_MAX_PAGES || args->aux_pages ||
	    args->flags)
		return -EINVAL;
	guard(mutex)(&event->mmap_mutex);
	/* It was detached before, or got no name. */
	if (event->rb)
		return data_page_nr(event->rb) == args->pages ? 0 : -EINVAL;
	/* A buffer in shared memory gets to a slot when the event is next scheduled. */
	if (event->attr.inherit && READ_ONCE(event->state) >= PERF_EVENT_STATE_INACTIVE)
		return -EINVAL;
	group = perf_detached_group_alloc(args->pages + 1UL, event->attr.inherit);
	if (IS_ERR(group))
		return PTR_ERR(group);
	detached->group = group;
	ret = detached_set_buffer(detached, args->pages);
	if (ret)
		perf_detached_ungroup(detached);
	return ret;
}

/* Change the phase to @to. Returns false if it is not @from. */
static bool detached_change(struct perf_detached *detached, enum detached_phase from,
			    enum detached_phase to)
{
	bool changed;

	scoped_guard(spinlock, &perf_detached_lock) {
		changed = detached->phase == from;
		if (changed)
			detached->phase = to;
	}
	return changed;
}

/* An event has a file in perffs, or is about to have it. */
static bool detached_has_name(const struct perf_detached *detached)
{
	lockdep_assert_held(&perf_detached_lock);
	return detached->phase == DETACHED_BORN || detached->phase == DETACHED_NAMING ||
	       detached->phase == DETACHED_NAMED;
}

/* The name of an event: process, task and event. */
static int detached_name(struct perf_detached *detached)
{
	char name[3 * 21];
	struct dentry *dentry;

	snprintf(name, sizeof(name), "%u.%u.%llu", detached->info.pid, detached->info.tid,
		 detached->info.id);
	dentry = perffs_create(detached->event, name, detached->group->cred);
	if (IS_ERR(dentry))
		return PTR_ERR(dentry);
	scoped_guard(spinlock, &perf_detached_lock) {
		/* Or somebody has unlinked it already. */
		if (detached->phase == DETACHED_NAMING || detached->phase == DETACHED_BORN) {
			/* From here on, the name keeps what the task has inherited. */
			detached->files -= detached->phase == DETACHED_BORN;
			detached->phase = DETACHED_NAMED;
			detached->name = dentry;
			if (detached->info.state != PERF_EVENT_DETACHED_LIVE)
				perf_detached_keep(detached);
			return 0;
		}
	}
	perffs_remove(dentry);
	return 0;
}

static int detached_detach(struct perf_detached *detached, void __user *arg)
{
	struct perf_event *event = detached->event;
	struct perf_event_detach args;
	bool has_buffer;
	u32 size;
	int ret;

	if (get_user(size, (u32 __user *)arg))
		return -EFAULT;
	if (size < sizeof(args))
		return -EINVAL;
	if (size > PAGE_SIZE)
		return -E2BIG;
	ret = copy_struct_from_user(&args, sizeof(args), arg, size);
	if (ret)
		return ret;

	ret = perf_detached_allowed();
	if (ret)
		return ret;
	if (!detached_change(detached, DETACHED_OWNED, DETACHED_NAMING))
		return -EBUSY;
	has_buffer = READ_ONCE(event->rb);
	ret = detached_buffer(detached, &args);
	if (!ret) {
		/* It was enabled meanwhile: let it be scheduled with its buffer. */
		if (event->attr.inherit && !has_buffer) {
			/* After event->rb. Pairs with perf_shmem_sched_in(). */
			smp_mb();
			perf_event_reschedule(event);
		}
		/* prctl(PR_TASK_PERF_EVENTS_DISABLE) is for what the task has open. */
		perf_remove_from_owner(event);
		ret = detached_name(detached);
	}
	if (ret)
		detached_change(detached, DETACHED_NAMING, DETACHED_OWNED);
	return ret;
}

/* Name an inherited event. Its task does not wait for that: users can block names for long. */
static void detached_name_work(struct work_struct *work)
{
	struct perf_detached *detached = container_of(work, struct perf_detached, naming);
	struct perf_event *event = detached->event;

	if (!detached_name(detached)) {
		/* The first reference, which the name has replaced. */
		put_event(event);
		return;
	}
	atomic64_inc(&detached->group->inherit_failures);
	detached_change(detached, DETACHED_BORN, DETACHED_GONE);
	/* This drops the first reference. Elsewhere, so that other names need not wait. */
	perf_detached_queue(&detached->release);
}

/*
 * When the task of an inherited event runs for the first time, give the event its buffer, and let
 * it have a name soon. If that fails, it ends.
 */
static void detached_bear(struct perf_detached *detached)
{
	struct perf_event *event = detached->event;
	unsigned int pages = detached->group->pages / num_possible_cpus() - 1;
	int ret;

	perf_detached_init_info(detached, current, detached->group->pid_ns);
	scoped_guard(mutex, &event->mmap_mutex)
		ret = detached_set_buffer(detached, pages);
	if (!ret) {
		detached_change(detached, DETACHED_INHERITED, DETACHED_BORN);
		perf_detached_queue_name(&detached->naming);
		return;
	}
	atomic64_inc(&detached->group->inherit_failures);
	detached_change(detached, DETACHED_INHERITED, DETACHED_GONE);
	perf_event_release_kernel(event);
}

/* Before its task returns to user mode, let an event's buffer be written on this CPU. */
static void detached_pin_work(struct callback_head *head)
{
	struct perf_detached *detached = container_of(head, struct perf_detached, pin);
	struct perf_event *event = detached->event;

	/* Interrupts of this CPU may let the event count, and queue this once more. */
	WRITE_ONCE(detached->pin_queued, false);
	if (detached->newborn) {
		detached_bear(detached);
		detached->newborn = false;
	}
	perf_shmem_pin(event);
	put_event(event);
}

/**
 * perf_detached_inherits - does a new task inherit an event?
 * @event:	the event of its parent
 * @child:	the task
 *
 * A task that never returns to user mode has nothing to record. An event that is disabled could
 * never be enabled for the child, as it gets a name only when it counts: the child lacks it then.
 *
 * Context: fork, in the parent, with ctx->mutex held.
 * Return: false if it is detached, and the task does not inherit it.
 */
bool perf_detached_inherits(const struct perf_event *event, const struct task_struct *child)
{
	struct perf_detached *detached = event->detached;
	bool inherits;

	if (!detached)
		return true;
	if (child->flags & (PF_KTHREAD | PF_USER_WORKER))
		return false;
	scoped_guard(spinlock, &perf_detached_lock) {
		inherits = (detached->phase == DETACHED_NAMED ||
			    detached->phase == DETACHED_BORN) &&
			   (event->state >= PERF_EVENT_STATE_INACTIVE ||
			    event->attr.enable_on_exec);
		/* Or nobody has detached it, or it belongs to descriptors again. */
		if (!inherits && detached->group && detached->phase != DETACHED_OWNED)
			atomic64_inc(&detached->group->inherit_failures);
	}
	return inherits;
}

/**
 * perf_detached_override_creds - inherit an event with the rights of its owner
 * @event:	the event of the task's parent
 *
 * A detached event stays what it was allowed to be, whatever the task is that forks.
 *
 * Return: what perf_detached_revert_creds() takes.
 */
const struct cred *perf_detached_override_creds(const struct perf_event *event)
{
	return event->detached ? override_creds(event->detached->group->cred) : NULL;
}

/**
 * perf_detached_revert_creds - undo perf_detached_override_creds()
 * @cred:	what that returned
 */
void perf_detached_revert_creds(const struct cred *cred)
{
	if (cred)
		revert_creds(cred);
}

/**
 * perf_detached_inherit - let a new task's event be one like its parent's
 * @event:	the new event, which is on its own: what it inherits from is no parent of it
 * @from:	the event of the task's parent
 *
 * Its buffer and its name come when the task runs: fork may fail until then.
 *
 * Context: fork, in the parent, with ctx->mutex held.
 * Return: 0 or -ENOMEM.
 */
int perf_detached_inherit(struct perf_event *event, const struct perf_event *from)
{
	struct perf_detached *detached;

	if (!from->detached)
		return 0;
	detached = detached_alloc(event);
	if (!detached)
		return -ENOMEM;
	detached->newborn = true;
	detached->perfmon = from->detached->perfmon;
	detached->ptrace = from->detached->ptrace;
	detached->group = perf_detached_group_get(from->detached->group);
	event->clock = from->clock;
	event->orig_type = from->orig_type;
	event->event_caps = from->event_caps;
	put_pid_ns(event->ns);
	event->ns = get_pid_ns(from->ns);
	return 0;
}

/**
 * perf_detached_inherited - a new task has inherited an event, or not
 * @from:	the event of its parent
 * @ret:	0 or an error
 *
 * Return: @ret; 0 for a detached event, as fork does not fail because of it.
 */
int perf_detached_inherited(const struct perf_event *from, int ret)
{
	if (!from->detached)
		return ret;
	if (ret)
		atomic64_inc(&from->detached->group->inherit_failures);
	return 0;
}

static int detached_reattach(struct perf_detached *detached)
{
	struct dentry *name;

	scoped_guard(spinlock, &perf_detached_lock) {
		if (detached->phase != DETACHED_NAMED)
			return detached_has_name(detached) ? -EBUSY : -EINVAL;
		perf_detached_unkeep(detached);
		detached->phase = DETACHED_OWNED;
		name = no_free_ptr(detached->name);
	}
	perffs_remove(name);
	return 0;
}

/**
 * perf_detached_ioctl - what only events with PERF_FLAG_DETACHED have
 * @event:	the event
 * @cmd:	PERF_EVENT_IOC_*
 * @arg:	what goes with it
 *
 * Return: -ENOIOCTLCMD if it is for all events; -ENODEV if the event was released; -EBUSY if it
 * was detached before, or another caller is about to do that, or takes its name away; -EPERM if its
 * buffer is larger than the caller may lock; -EDQUOT if the caller has as many as one may have; 0,
 * or another error.
 */
long perf_detached_ioctl(struct perf_event *event, unsigned int cmd, unsigned long arg)
{
	struct perf_detached *detached = event->detached;

	if (!detached)
		return -ENOIOCTLCMD;
	/* Sizes in numbers are what the caller knows; the structures tell them, too. */
	if ((cmd & ~IOCSIZE_MASK) == (PERF_EVENT_IOC_DETACHED_INFO & ~IOCSIZE_MASK))
		return perf_detached_info(detached, (void __user *)arg);
	if (READ_ONCE(detached->phase) == DETACHED_GONE)
		return -ENODEV;
	if ((cmd & ~IOCSIZE_MASK) == (PERF_EVENT_IOC_DETACH & ~IOCSIZE_MASK))
		return detached_detach(detached, (void __user *)arg);
	if (cmd == PERF_EVENT_IOC_REATTACH)
		return detached_reattach(detached);
	/* A program would run for all tasks, until somebody removes the name. */
	if (cmd == PERF_EVENT_IOC_SET_BPF)
		return -EOPNOTSUPP;
	/* Those that are inherited would not have it. */
	if (cmd == PERF_EVENT_IOC_SET_FILTER && event->attr.inherit)
		return -EOPNOTSUPP;
	return -ENOIOCTLCMD;
}

/**
 * perf_detached_mmap - may a mapping of an event be made?
 * @event:	the event
 * @vma:	the mapping
 *
 * The buffer has its size already. It is only to be read: others may have mapped it, too.
 *
 * Return: 0 or -EINVAL.
 */
int perf_detached_mmap(const struct perf_event *event, struct vm_area_struct *vma)
{
	if (!event->detached)
		return 0;
	if (!READ_ONCE(event->rb) || (vma->vm_flags & VM_WRITE))
		return -EINVAL;
	vm_flags_clear(vma, VM_MAYWRITE);
	return 0;
}

/* Who may profile a task may read what was recorded of it; the owner also when it has exited. */
static int detached_may_open(struct perf_event *event)
{
	struct task_struct *task = event->hw.target;
	int ret = security_perf_event_read(event);

	if (ret || perfmon_capable())
		return ret;
	/* Its buffer may hold what the owner could not record. */
	if (event->detached->perfmon || (event->detached->ptrace && !detached_may_trace(task)))
		return -EACCES;
	/* The task changes other flags meanwhile. */
	if ((data_race(task->flags) & PF_EXITING) ||
	    ptrace_may_access(task, PTRACE_MODE_READ_FSCREDS))
		return 0;
	return -EACCES;
}

/**
 * perf_detached_open_name - one more file of a named event
 * @event:	the event
 *
 * Whether the caller may open the file was checked before.
 *
 * Return: 0; -ENOENT if the name was removed; -EACCES if the caller may not profile the task, or
 * the event was opened with a capability that the caller lacks.
 */
int perf_detached_open_name(struct perf_event *event)
{
	struct perf_detached *detached = event->detached;
	int ret = detached_may_open(event);

	if (ret)
		return ret;
	scoped_guard(spinlock, &perf_detached_lock) {
		if (!detached_has_name(detached)) {
			ret = -ENOENT;
			break;
		}
		detached->files++;
		perf_detached_used(detached);
	}
	return ret;
}

/**
 * perf_detached_is_of - is an event one of a process or thread?
 * @event:	the event, which has its name
 * @pid:	the number
 * @thread:	of a thread; one that executed a file has its process's number since
 *
 * Return: true if it is.
 */
bool perf_detached_is_of(const struct perf_event *event, const struct pid *pid, bool thread)
{
	const struct perf_detached *detached = event->detached;

	if (!thread)
		return pid == detached->tgid;
	if (pid == detached->pid || pid == READ_ONCE(detached->exec_pid))
		return true;
	/* Its address alone is of interest, whatever becomes of it meanwhile. */
	return pid == data_race(event->hw.target->thread_pid);
}

/**
 * perf_detached_close - a file of an event is closed
 * @event:	the event
 *
 * Return: false if it is not detached; otherwise the file's reference is dropped, and the event has
 * ended if that was its last owner.
 */
bool perf_detached_close(struct perf_event *event)
{
	struct perf_detached *detached = event->detached;
	bool last;

	if (!detached)
		return false;
	scoped_guard(spinlock, &perf_detached_lock) {
		last = !--detached->files && detached->phase == DETACHED_OWNED;
		if (last)
			detached->phase = DETACHED_GONE;
	}
	if (last)
		detached_release(event);
	else
		put_event(event);
	return true;
}

/**
 * perf_detached_unlinked - a name was removed by the user
 * @event:	the event, with the name's reference, which this drops
 *
 * Context: with the locks of inodes, which releasing an event must not wait for.
 */
void perf_detached_unlinked(struct perf_event *event)
{
	struct perf_detached *detached = event->detached;
	struct dentry *name = NULL;
	bool ends = false;

	scoped_guard(spinlock, &perf_detached_lock) {
		if (detached_has_name(detached)) {
			perf_detached_unkeep(detached);
			detached->phase = DETACHED_GONE;
			name = no_free_ptr(detached->name);
			perf_detached_queue(&detached->release);
			ends = true;
		}
	}
	dput(name);
	/* Or a descriptor has taken over the event meanwhile, or the name had to go. */
	if (!ends)
		put_event(event);
}

/**
 * perf_detached_free - an event is freed
 * @event:	the event
 */
void perf_detached_free(struct perf_event *event)
{
	struct perf_detached *detached = event->detached;

	if (!detached)
		return;
	if (event->rb && event->attr.inherit)
		perf_shmem_leave(event->rb);
	perf_detached_ungroup(detached);
	put_pid(detached->pid);
	put_pid(detached->tgid);
	put_pid(detached->exec_pid);
	WRITE_ONCE(event->detached, NULL);
	kfree_rcu(detached, rcu);
}
