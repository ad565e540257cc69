// SPDX-License-Identifier: GPL-2.0
/*
 * Detached events: events of a task that outlive the descriptor by which they were opened, and
 * whose buffer can be read after the task has exited.
 *
 * PERF_FLAG_DETACHED prepares an event for that. PERF_EVENT_IOC_DETACH gives it a buffer of its own
 * and a name below /sys/kernel/perf; whoever may open that file gets an ordinary descriptor of the
 * event, and unlink() ends it.
 *
 * Contexts: process context. Locks: detached_lock is a leaf; nothing sleeps under it.
 *
 * Invariant: the event is released once: by the close of its last descriptor while it has no name,
 * or when its name is removed, by a user or because others are kept. The event and its buffer are
 * charged to the user who detached it, from then until it is freed.
 */
#include <linux/capability.h>
#include <linux/cleanup.h>
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
#include <linux/sched/user.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/sysctl.h>
#include <linux/uaccess.h>
#include <linux/user_namespace.h>
#include <linux/workqueue.h>

#include "detached.h"
#include "internal.h"

/* Where the user page has the information: after all that is in use, for a long time to come. */
#define DETACHED_INFO_OFFSET	2048

/**
 * enum detached_phase - what keeps a detached event
 * @DETACHED_OWNED:	its descriptors
 * @DETACHED_NAMING:	its descriptors; it is about to have a name
 * @DETACHED_NAMED:	its name
 * @DETACHED_GONE:	nothing, it was released
 */
enum detached_phase {
	DETACHED_OWNED,
	DETACHED_NAMING,
	DETACHED_NAMED,
	DETACHED_GONE,
};

/**
 * struct perf_detached - an event that was opened with PERF_FLAG_DETACHED
 * @event:	the event
 * @release:	releases the event after its name was removed, or removes it first
 * @perfmon:	it was opened with CAP_PERFMON, which its name asks for then
 * @ptrace:	likewise CAP_SYS_PTRACE in the task's user namespace
 * @pages:	what its buffer is charged with
 * @user:	to whom; NULL if it has no buffer
 * @phase:	what keeps the event; this and the members below are under detached_lock
 * @files:	number of its open files
 * @name:	in perffs, with a reference; NULL without a name
 * @kept:	in detached_kept
 * @info:	for the user, also in the user page of the buffer if there is one
 */
struct perf_detached {
	struct perf_event		*event;
	struct work_struct		release;
	bool				perfmon;
	bool				ptrace;
	unsigned long			pages;
	struct user_struct		*user;
	enum detached_phase		phase;
	unsigned int			files;
	struct dentry			*name;
	struct list_head		kept;
	struct perf_event_detached_info	info;
};

static DEFINE_SPINLOCK(detached_lock);

/*
 * Named events whose task has exited or lost them; first the one that was opened by its name, or
 * lost its task, the longest time ago. Under detached_lock.
 */
static LIST_HEAD(detached_kept);

/* 0: nobody may detach events, 1: with CAP_PERFMON, 2: all for tasks that they may profile. */
static int sysctl_perf_event_detached __read_mostly = 1;

/* How many events with a buffer a user may have, and how many of them in detached_kept. */
static unsigned int sysctl_perf_event_detached_max __read_mostly = 256;
static unsigned int sysctl_perf_event_detached_keep __read_mostly = 16;

/*
 * May the caller have such events at all? The limits are those of each user: as one with
 * subordinate users could have them many times, these may have none.
 */
static int detached_allowed(void)
{
	int allowed = READ_ONCE(sysctl_perf_event_detached);

	if (!allowed)
		return -EOPNOTSUPP;
	if (!perfmon_capable() && (allowed < 2 || current_user_ns() != &init_user_ns))
		return -EACCES;
	return 0;
}

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
	ret = detached_allowed();
	if (ret)
		return ret;
	if ((flags & PERF_FLAG_PID_CGROUP) || group_fd != -1)
		return -EINVAL;
	if (pid == -1 || cpu != -1)
		return -EOPNOTSUPP;
	/* It is enabled when it has a buffer, and nobody may wait for its signals. */
	if (!attr->disabled || attr->inherit || attr->sigtrap || attr->remove_on_exec)
		return -EINVAL;
	return 0;
}

/* May the caller trace all tasks of the user namespace that a task is in? */
static bool detached_may_trace(const struct task_struct *task)
{
	guard(rcu)();
	return ns_capable_noaudit(__task_cred(task)->user_ns, CAP_SYS_PTRACE);
}

/*
 * Release an event whose name was removed, with the reference of its name, or one that has to go,
 * with the reference of detached_drop().
 */
static void detached_release_work(struct work_struct *work)
{
	struct perf_detached *detached = container_of(work, struct perf_detached, release);
	struct perf_event *event = detached->event;

	/* Nothing else uses it: the event is gone. */
	if (detached->name)
		perffs_remove(no_free_ptr(detached->name));
	atomic_long_inc(&event->refcount);
	perf_event_release_kernel(event);
	/* Its task will not do that any more. */
	wake_up_all(&event->waitq);
	put_event(event);
}

/**
 * perf_detached_open - prepare an event for being detached
 * @event:	the event, of a task
 * @leader:	leader of the group that it joins, or NULL
 * @flags:	as above
 *
 * A detached event is alone: it would outlive the descriptors of its group.
 *
 * Return: 0; -EINVAL for a kernel thread or a group; -EOPNOTSUPP for a PMU with an AUX area;
 * -ENOMEM.
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
	detached = kzalloc(sizeof(*detached), GFP_KERNEL_ACCOUNT);
	if (!detached)
		return -ENOMEM;
	detached->event = event;
	detached->files = 1;
	detached->perfmon = perfmon_capable();
	detached->ptrace = detached_may_trace(task);
	detached->info = (struct perf_event_detached_info) {
		.size		= sizeof(detached->info),
		.state		= PERF_EVENT_DETACHED_LIVE,
		.id		= event->id,
		.pid		= task_tgid_vnr(task),
		.tid		= task_pid_vnr(task),
		.start_time	= task->start_time,
	};
	INIT_LIST_HEAD(&detached->kept);
	INIT_WORK(&detached->release, detached_release_work);
	event->detached = detached;
	return 0;
}

/*
 * Charge an event and its buffer to the caller. Pages that exceed the limit of all users are
 * limited by RLIMIT_MEMLOCK, but not charged to the caller's mm, which the buffer outlives. As no
 * OOM killer can free them, the limits are also for those who may do anything else in perf.
 */
static int detached_charge(struct perf_detached *detached, unsigned long pages)
{
	unsigned long limit = sysctl_perf_event_mlock >> (PAGE_SHIFT - 10), locked;
	struct user_struct *user = current_user();

	limit *= num_online_cpus();
	limit += rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	locked = atomic_long_add_return(pages, &user->perf_mlock);
	if (locked > limit && !capable(CAP_IPC_LOCK)) {
		atomic_long_sub(pages, &user->perf_mlock);
		return -EPERM;
	}
	scoped_guard(spinlock, &detached_lock) {
		if (user->perf_detached < READ_ONCE(sysctl_perf_event_detached_max)) {
			user->perf_detached++;
			detached->pages = pages;
			detached->user = get_uid(user);
			return 0;
		}
	}
	atomic_long_sub(pages, &user->perf_mlock);
	return -EDQUOT;
}

static void detached_uncharge(struct perf_detached *detached)
{
	struct user_struct *user = detached->user;

	if (!user)
		return;
	atomic_long_sub(detached->pages, &user->perf_mlock);
	scoped_guard(spinlock, &detached_lock)
		user->perf_detached--;
	free_uid(user);
	detached->user = NULL;
}

/* Copy the information to the user page; its readers see the state last. */
static void detached_publish(struct perf_detached *detached, struct perf_buffer *rb)
{
	struct perf_event_detached_info *to = (void *)rb->user_page + DETACHED_INFO_OFFSET;
	struct perf_event_detached_info info = detached->info;

	lockdep_assert_held(&detached_lock);
	info.state = to->state;
	*to = info;
	/* Readers of the user page take the state first, and the rest after a barrier. */
	smp_store_release(&to->state, detached->info.state);
}

static void detached_describe(struct perf_detached *detached, struct perf_buffer *rb)
{
	char comm[TASK_COMM_LEN];

	get_task_comm(comm, detached->event->hw.target);
	rb->user_page->detached_offset = DETACHED_INFO_OFFSET;
	rb->user_page->detached_size = sizeof(detached->info);
	guard(spinlock)(&detached_lock);
	memcpy(detached->info.comm, comm, sizeof(comm));
	detached_publish(detached, rb);
}

/*
 * Give an event its buffer, which is overwritten if it is written backward. Otherwise records are
 * lost once it is full: nobody reads it.
 */
static int detached_buffer(struct perf_detached *detached, const struct perf_event_detach *args)
{
	struct perf_event *event = detached->event;
	struct perf_buffer *rb;
	int ret;

	if (!is_power_of_2(args->pages) || args->pages > INT_MAX || args->aux_pages ||
	    args->flags)
		return -EINVAL;
	guard(mutex)(&event->mmap_mutex);
	/* It was detached before, or got no name. */
	if (event->rb)
		return data_page_nr(event->rb) == args->pages ? 0 : -EINVAL;
	ret = detached_charge(detached, args->pages + 1UL);
	if (ret)
		return ret;
	rb = rb_alloc(args->pages, event->attr.watermark ? event->attr.wakeup_watermark : 0, -1,
		      event->attr.write_backward ? 0 : RING_BUFFER_WRITABLE);
	if (!rb) {
		detached_uncharge(detached);
		return -ENOMEM;
	}
	/* The event itself is the first that has it mapped, so munmap() does not take it away. */
	atomic_set(&rb->mmap_count, 1);
	atomic_inc(&event->mmap_count);
	perf_event_set_buffer(event, rb);
	detached_describe(detached, rb);
	return 0;
}

/* Change the phase from one to another. Returns false if it is another one than that. */
static bool detached_change(struct perf_detached *detached, enum detached_phase from,
			    enum detached_phase to)
{
	guard(spinlock)(&detached_lock);
	if (detached->phase != from)
		return false;
	detached->phase = to;
	return true;
}

/* An event loses its name. */
static void detached_unkeep(struct perf_detached *detached)
{
	lockdep_assert_held(&detached_lock);
	if (!list_empty(&detached->kept)) {
		list_del_init(&detached->kept);
		detached->user->perf_detached_kept--;
	}
}

/* Take away the name of an event, and end it. */
static void detached_drop(struct perf_detached *detached)
{
	lockdep_assert_held(&detached_lock);
	detached_unkeep(detached);
	detached->phase = DETACHED_GONE;
	/* Its name has a reference, which the user may drop before the work does. */
	atomic_long_inc(&detached->event->refcount);
	queue_work(system_unbound_wq, &detached->release);
}

/* Keep a named event whose task is gone, and only so many of its user. */
static void detached_keep(struct perf_detached *detached)
{
	struct user_struct *user = detached->user;
	struct perf_detached *other, *next;

	lockdep_assert_held(&detached_lock);
	list_add_tail(&detached->kept, &detached_kept);
	user->perf_detached_kept++;
	list_for_each_entry_safe(other, next, &detached_kept, kept) {
		if (user->perf_detached_kept <= READ_ONCE(sysctl_perf_event_detached_keep))
			break;
		if (other->user == user)
			detached_drop(other);
	}
}

/* The name of an event: process, task and event. */
static int detached_name(struct perf_detached *detached)
{
	char name[3 * 21];
	struct dentry *dentry;

	snprintf(name, sizeof(name), "%u.%u.%llu", detached->info.pid, detached->info.tid,
		 detached->info.id);
	dentry = perffs_create(detached->event, name);
	if (IS_ERR(dentry))
		return PTR_ERR(dentry);
	scoped_guard(spinlock, &detached_lock) {
		/* Or somebody has unlinked it already. */
		if (detached->phase == DETACHED_NAMING) {
			detached->phase = DETACHED_NAMED;
			detached->name = dentry;
			if (detached->info.state != PERF_EVENT_DETACHED_LIVE)
				detached_keep(detached);
			return 0;
		}
	}
	perffs_remove(dentry);
	return 0;
}

static int detached_detach(struct perf_detached *detached, void __user *arg)
{
	struct perf_event_detach args;
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

	ret = detached_allowed();
	if (ret)
		return ret;
	if (!detached_change(detached, DETACHED_OWNED, DETACHED_NAMING))
		return -EBUSY;
	ret = detached_buffer(detached, &args);
	if (!ret) {
		/* prctl(PR_TASK_PERF_EVENTS_DISABLE) is for what the task has open. */
		perf_remove_from_owner(detached->event);
		ret = detached_name(detached);
	}
	if (ret)
		detached_change(detached, DETACHED_NAMING, DETACHED_OWNED);
	return ret;
}

static int detached_reattach(struct perf_detached *detached)
{
	struct dentry *name;

	scoped_guard(spinlock, &detached_lock) {
		if (detached->phase != DETACHED_NAMED)
			return detached->phase == DETACHED_NAMING ? -EBUSY : -EINVAL;
		detached_unkeep(detached);
		detached->phase = DETACHED_OWNED;
		name = no_free_ptr(detached->name);
	}
	perffs_remove(name);
	return 0;
}

static int detached_info(struct perf_detached *detached, void __user *arg)
{
	struct perf_event_detached_info info;
	u32 size;

	if (get_user(size, (u32 __user *)arg))
		return -EFAULT;
	if (size < sizeof(info))
		return -EINVAL;
	scoped_guard(spinlock, &detached_lock)
		info = detached->info;
	return copy_to_user(arg, &info, sizeof(info)) ? -EFAULT : 0;
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
		return detached_info(detached, (void __user *)arg);
	if (READ_ONCE(detached->phase) == DETACHED_GONE)
		return -ENODEV;
	if ((cmd & ~IOCSIZE_MASK) == (PERF_EVENT_IOC_DETACH & ~IOCSIZE_MASK))
		return detached_detach(detached, (void __user *)arg);
	if (cmd == PERF_EVENT_IOC_REATTACH)
		return detached_reattach(detached);
	/* A program would run for all tasks, until somebody removes the name. */
	return cmd == PERF_EVENT_IOC_SET_BPF ? -EOPNOTSUPP : -ENOIOCTLCMD;
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
	guard(spinlock)(&detached_lock);
	if (detached->phase != DETACHED_NAMED && detached->phase != DETACHED_NAMING)
		return -ENOENT;
	detached->files++;
	/* It is the last one to go. */
	if (!list_empty(&detached->kept))
		list_move_tail(&detached->kept, &detached_kept);
	return 0;
}

/**
 * perf_detached_close - a file of an event is closed
 * @event:	the event
 *
 * Return: true if the event is to be released, false if only the file's reference is.
 */
bool perf_detached_close(struct perf_event *event)
{
	struct perf_detached *detached = event->detached;

	if (!detached)
		return true;
	guard(spinlock)(&detached_lock);
	if (--detached->files || detached->phase != DETACHED_OWNED)
		return false;
	detached->phase = DETACHED_GONE;
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

	scoped_guard(spinlock, &detached_lock) {
		if (detached->phase == DETACHED_NAMED || detached->phase == DETACHED_NAMING) {
			detached_unkeep(detached);
			detached->phase = DETACHED_GONE;
			name = no_free_ptr(detached->name);
			queue_work(system_unbound_wq, &detached->release);
			ends = true;
		}
	}
	dput(name);
	/* Or a descriptor has taken over the event meanwhile, or the name had to go. */
	if (!ends)
		put_event(event);
}

/**
 * perf_detached_exit - the task of an event exits, or executes a privileged file
 * @event:	the event, before its state says so
 *
 * Context: in the task, with ctx->mutex held.
 */
void perf_detached_exit(struct perf_event *event)
{
	struct perf_detached *detached = event->detached;
	bool exits = current->flags & PF_EXITING;
	struct perf_event_detached_info *info;
	char comm[TASK_COMM_LEN];
	struct perf_buffer *rb;

	if (!detached)
		return;
	info = &detached->info;
	get_task_comm(comm, current);
	rb = ring_buffer_get(event);
	scoped_guard(spinlock, &detached_lock) {
		memcpy(info->comm, comm, sizeof(comm));
		info->lost = atomic64_read(&event->lost_samples);
		info->exit_code = exits ? current->exit_code : 0;
		info->exit_time = event->clock();
		info->state = exits ? PERF_EVENT_DETACHED_EXITED : PERF_EVENT_DETACHED_EXECUTED;
		/* Or detached_describe() does so later. */
		if (rb)
			detached_publish(detached, rb);
		if (detached->phase == DETACHED_NAMED)
			detached_keep(detached);
	}
	if (rb)
		ring_buffer_put(rb);
}

/**
 * perf_detached_free - an event is freed
 * @event:	the event
 */
void perf_detached_free(struct perf_event *event)
{
	if (!event->detached)
		return;
	detached_uncharge(event->detached);
	kfree(event->detached);
	event->detached = NULL;
}

static struct ctl_table detached_sysctls[] = {
	{
		.procname	= "perf_event_detached",
		.data		= &sysctl_perf_event_detached,
		.maxlen		= sizeof(sysctl_perf_event_detached),
		.mode		= 0644,
		.proc_handler	= proc_dointvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_TWO,
	},
	{
		.procname	= "perf_event_detached_max",
		.data		= &sysctl_perf_event_detached_max,
		.maxlen		= sizeof(sysctl_perf_event_detached_max),
		.mode		= 0644,
		.proc_handler	= proc_douintvec,
	},
	{
		.procname	= "perf_event_detached_keep",
		.data		= &sysctl_perf_event_detached_keep,
		.maxlen		= sizeof(sysctl_perf_event_detached_keep),
		.mode		= 0644,
		.proc_handler	= proc_douintvec,
	},
};

static int __init perf_detached_init(void)
{
	register_sysctl_init("kernel", detached_sysctls);
	return 0;
}
late_initcall(perf_detached_init);
