// SPDX-License-Identifier: GPL-2.0
/*
 * What a user may have of detached events: who at all, how many, how much memory, and which of them
 * stay when their task is gone.
 *
 * Contexts: process context. Locks: perf_detached_lock is a leaf; nothing sleeps under it.
 *
 * Invariant: a group's buffers are charged to the user who has detached the event, from then until
 * the last of them is freed. user_struct::perf_detached counts the events with a buffer, and
 * ::perf_detached_nr_kept those in ::perf_detached_kept, which stay without their task: first the
 * one that was opened by its name, or lost its task, the longest time ago.
 */
#include <linux/capability.h>
#include <linux/cleanup.h>
#include <linux/cpumask.h>
#include <linux/cred.h>
#include <linux/err.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/perf_event.h>
#include <linux/pid_namespace.h>
#include <linux/sched/user.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/sysctl.h>
#include <linux/user_namespace.h>
#include <linux/workqueue.h>

#include "detached.h"
#include "internal.h"

/* Protects the phases, names and information of all detached events, and what follows from them. */
DEFINE_SPINLOCK(perf_detached_lock);

static struct workqueue_struct *detached_workqueue __ro_after_init;
static struct workqueue_struct *detached_names __ro_after_init;

/* 0: nobody may detach events, 1: with CAP_PERFMON, 2: all for tasks that they may profile. */
static int sysctl_perf_event_detached __read_mostly = 1;

/* How many events with a buffer a user may have, and how many named ones without their task. */
static unsigned int sysctl_perf_event_detached_max __read_mostly = 256;
static unsigned int sysctl_perf_event_detached_keep __read_mostly = 16;

/**
 * perf_detached_allowed - may the caller have detached events at all?
 *
 * The limits are those of each user: as one with subordinate users could have them many times,
 * these may have none.
 *
 * Return: 0; -EOPNOTSUPP if it is switched off; -EACCES.
 */
int perf_detached_allowed(void)
{
	int allowed = READ_ONCE(sysctl_perf_event_detached);

	if (!allowed || !detached_names)
		return -EOPNOTSUPP;
	if (!perfmon_capable() && (allowed < 2 || current_user_ns() != &init_user_ns))
		return -EACCES;
	return 0;
}

/*
 * Charge pages to the caller. What exceeds the limit of all users is limited by RLIMIT_MEMLOCK, but
 * not charged to the caller's mm, which the buffer outlives. As no OOM killer can free it, the
 * limit is also for those who may do anything else in perf.
 */
static int detached_charge(struct user_struct *user, unsigned long pages)
{
	unsigned long limit = sysctl_perf_event_mlock >> (PAGE_SHIFT - 10), locked;

	limit *= num_online_cpus();
	limit += rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	locked = atomic_long_add_return(pages, &user->perf_mlock);
	if (locked <= limit || capable(CAP_IPC_LOCK))
		return 0;
	atomic_long_sub(pages, &user->perf_mlock);
	return -EPERM;
}

/**
 * perf_detached_count - count one more event with a buffer
 * @detached:	the event, whose group's user it is counted for
 *
 * Return: false if the user may not have one more.
 */
bool perf_detached_count(struct perf_detached *detached)
{
	struct user_struct *user = detached->group->cred->user;

	scoped_guard(spinlock, &perf_detached_lock) {
		if (user->perf_detached < READ_ONCE(sysctl_perf_event_detached_max)) {
			user->perf_detached++;
			detached->counted = true;
		}
	}
	return detached->counted;
}

/**
 * perf_detached_uncount - undo perf_detached_count()
 * @detached:	the event, which need not be counted
 */
void perf_detached_uncount(struct perf_detached *detached)
{
	scoped_guard(spinlock, &perf_detached_lock) {
		if (detached->counted)
			detached->group->cred->user->perf_detached--;
		detached->counted = false;
	}
}

/**
 * perf_detached_group_alloc - a group for an event that the caller detaches
 * @pages:	of one buffer
 * @inherit:	each task has one, of which one may be pinned on each CPU
 *
 * Return: the group; ERR_PTR(-EPERM) if the caller may not lock so much memory; another error.
 */
struct perf_detached_group *perf_detached_group_alloc(unsigned long pages, bool inherit)
{
	struct perf_detached_group *group = kzalloc(sizeof(*group), GFP_KERNEL_ACCOUNT);
	int ret = -ENOMEM;

	if (!group)
		return ERR_PTR(-ENOMEM);
	refcount_set(&group->refs, 1);
	group->pages = inherit ? pages * num_possible_cpus() : pages;
	if (inherit) {
		group->slots = perf_shmem_alloc_slots();
		if (!group->slots)
			goto free;
	}
	ret = detached_charge(current_user(), group->pages);
	if (ret)
		goto free;
	group->cred = get_current_cred();
	group->pid_ns = get_pid_ns(task_active_pid_ns(current));
	return group;
free:
	perf_shmem_free_slots(group->slots);
	kfree(group);
	return ERR_PTR(ret);
}

/**
 * perf_detached_group_get - one more reference on a group
 * @group:	the group
 *
 * Return: the group.
 */
struct perf_detached_group *perf_detached_group_get(struct perf_detached_group *group)
{
	refcount_inc(&group->refs);
	return group;
}

/**
 * perf_detached_group_put - drop a reference on a group
 * @group:	the group, or NULL
 *
 * Context: any but NMI.
 */
void perf_detached_group_put(struct perf_detached_group *group)
{
	if (!group || !refcount_dec_and_test(&group->refs))
		return;
	atomic_long_sub(group->pages, &group->cred->user->perf_mlock);
	put_cred(group->cred);
	put_pid_ns(group->pid_ns);
	perf_shmem_free_slots(group->slots);
	kfree(group);
}

/**
 * perf_detached_ungroup - an event goes from its group
 * @detached:	the event; it may have none
 */
void perf_detached_ungroup(struct perf_detached *detached)
{
	struct perf_detached_group *group;

	perf_detached_uncount(detached);
	scoped_guard(spinlock, &perf_detached_lock) {
		group = detached->group;
		detached->group = NULL;
	}
	perf_detached_group_put(group);
}

/**
 * perf_detached_unkeep - an event loses its name
 * @detached:	the event
 *
 * Context: with perf_detached_lock held.
 */
void perf_detached_unkeep(struct perf_detached *detached)
{
	lockdep_assert_held(&perf_detached_lock);
	if (!list_empty(&detached->kept)) {
		list_del_init(&detached->kept);
		detached->group->cred->user->perf_detached_nr_kept--;
	}
}

/* Take away the name of an event, and end it. */
static void detached_drop(struct perf_detached *detached)
{
	lockdep_assert_held(&perf_detached_lock);
	perf_detached_unkeep(detached);
	detached->phase = DETACHED_GONE;
	/* Its name has a reference, which the user may drop before the work does. */
	atomic_long_inc(&detached->event->refcount);
	perf_detached_queue(&detached->release);
}

/**
 * perf_detached_keep - keep a named event whose task is gone
 * @detached:	the event
 *
 * If these are more of its user than kernel.perf_event_detached_keep, the ones that were used the
 * longest time ago end.
 *
 * Context: with perf_detached_lock held.
 */
void perf_detached_keep(struct perf_detached *detached)
{
	struct user_struct *user = detached->group->cred->user;

	lockdep_assert_held(&perf_detached_lock);
	/* The end of its task and its naming may both find that it has a name and no task. */
	if (!list_empty(&detached->kept))
		return;
	if (!user->perf_detached_nr_kept++)
		INIT_LIST_HEAD(&user->perf_detached_kept);
	list_add_tail(&detached->kept, &user->perf_detached_kept);
	while (user->perf_detached_nr_kept > READ_ONCE(sysctl_perf_event_detached_keep))
		detached_drop(list_first_entry(&user->perf_detached_kept, struct perf_detached,
					       kept));
}

/**
 * perf_detached_used - an event was opened by its name
 * @detached:	the event, which is the last one to go now
 *
 * Context: with perf_detached_lock held.
 */
void perf_detached_used(struct perf_detached *detached)
{
	lockdep_assert_held(&perf_detached_lock);
	if (!list_empty(&detached->kept))
		list_move_tail(&detached->kept,
			       &detached->group->cred->user->perf_detached_kept);
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

/**
 * perf_detached_queue - run work that ends an event
 * @work:	the work
 *
 * A user can block the end of own events for long. Others do not wait meanwhile.
 */
void perf_detached_queue(struct work_struct *work)
{
	queue_work(detached_workqueue, work);
}

/**
 * perf_detached_queue_name - run work that names an event
 * @work:	the work
 *
 * It waits for no event, but for the directory.
 */
void perf_detached_queue_name(struct work_struct *work)
{
	queue_work(detached_names, work);
}

static int __init perf_detached_init(void)
{
	detached_workqueue = alloc_workqueue("perf_detached", WQ_UNBOUND, WQ_MAX_ACTIVE);
	if (!detached_workqueue)
		return -ENOMEM;
	detached_names = alloc_workqueue("perf_detached_names", WQ_UNBOUND, 0);
	if (!detached_names)
		return -ENOMEM;
	register_sysctl_init("kernel", detached_sysctls);
	return 0;
}
late_initcall(perf_detached_init);
