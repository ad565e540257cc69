// SPDX-License-Identifier: GPL-2.0
/*
 * What a detached event tells about itself: in its user page, and by an ioctl.
 *
 * Contexts: process context. Locks: perf_detached_lock protects the information.
 *
 * Invariant: the user page of a buffer says that the task lives until it has ended, and then what
 * became of it, if there is memory for the page. The state is what readers see last.
 */
#include <linux/atomic.h>
#include <linux/build_bug.h>
#include <linux/cleanup.h>
#include <linux/perf_event.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "detached.h"
#include "internal.h"

/**
 * perf_detached_init_info - tell whose event it is
 * @detached:	the event
 * @task:	its task
 * @ns:		whose numbers of tasks to tell
 */
void perf_detached_init_info(struct perf_detached *detached, struct task_struct *task,
			     struct pid_namespace *ns)
{
	detached->pid = get_task_pid(task, PIDTYPE_PID);
	detached->tgid = get_task_pid(task, PIDTYPE_TGID);
	detached->info = (struct perf_event_detached_info) {
		.size		= sizeof(detached->info),
		.state		= PERF_EVENT_DETACHED_LIVE,
		.id		= detached->event->id,
		.pid		= task_tgid_nr_ns(task, ns),
		.tid		= task_pid_nr_ns(task, ns),
		.start_time	= task->start_time,
		.attr_offset	= DETACHED_ATTR_OFFSET,
	};
}

/* Take the numbers of a group over. */
static void detached_count_pins(struct perf_detached *detached)
{
	struct perf_event_detached_info *info = &detached->info;
	struct perf_detached_group *group = detached->group;

	lockdep_assert_held(&perf_detached_lock);
	if (!group)
		return;
	info->pins = atomic64_read(&group->pins);
	info->unpins = atomic64_read(&group->unpins);
	info->pin_failures = atomic64_read(&group->pin_failures);
	info->inherit_failures = atomic64_read(&group->inherit_failures);
}

/* Copy the information to the user page; its readers see the state last. */
static void detached_write(struct perf_buffer *rb, const struct perf_event_detached_info *info)
{
	struct perf_event_detached_info *to = (void *)rb->user_page + DETACHED_INFO_OFFSET;
	struct perf_event_detached_info copy = *info;

	lockdep_assert_held(&perf_detached_lock);
	copy.state = to->state;
	*to = copy;
	/* Readers of the user page take the state first, and the rest after a barrier. */
	smp_store_release(&to->state, info->state);
}

/**
 * perf_detached_publish - copy the information about an event to its user page, if its task is gone
 * @detached:	the event
 * @rb:		its buffer
 *
 * Context: process context, may sleep.
 */
void perf_detached_publish(struct perf_detached *detached, struct perf_buffer *rb)
{
	struct perf_event_detached_info info;

	scoped_guard(spinlock, &perf_detached_lock) {
		info = detached->info;
		if (info.state == PERF_EVENT_DETACHED_LIVE)
			return;
		if (!rb->shmem)
			detached_write(rb, &info);
	}
	/* If memory is short, readers see that it lives until somebody maps the buffer again. */
	if (rb->shmem)
		perf_shmem_publish(rb, &info);
}

/**
 * perf_detached_attr - the attr by which an event like this one can be opened
 * @event:	the event, detached or not
 * @attr:	set to it
 *
 * perf_init_event() takes the number of the PMU from an event's own. For those that are inherited,
 * their parent's PMU stands in for that; but a detached event is the parent of none.
 */
void perf_detached_attr(const struct perf_event *event, struct perf_event_attr *attr)
{
	*attr = event->attr;
	if (event->detached && (event->pmu->capabilities & PERF_PMU_CAP_EXTENDED_HW_TYPE) &&
	    (attr->type == PERF_TYPE_HARDWARE || attr->type == PERF_TYPE_HW_CACHE))
		attr->config |= (u64)event->pmu->type << PERF_PMU_TYPE_SHIFT;
}

/**
 * perf_detached_init_page - what the user page of an event tells from the beginning
 * @page:	the page
 * @event:	the event
 */
void perf_detached_init_page(void *page, const struct perf_event *event)
{
	struct perf_event_mmap_page *user_page = page;
	struct perf_event_attr *attr = page + DETACHED_ATTR_OFFSET;

	BUILD_BUG_ON(DETACHED_INFO_OFFSET + sizeof(struct perf_event_detached_info) >
		     DETACHED_ATTR_OFFSET || DETACHED_ATTR_OFFSET + sizeof(*attr) > PAGE_SIZE);
	user_page->detached_offset = DETACHED_INFO_OFFSET;
	user_page->detached_size = sizeof(struct perf_event_detached_info);
	perf_detached_attr(event, attr);
	attr->size = sizeof(*attr);
	/* Clocks have another one inside of the kernel. */
	attr->type = event->orig_type;
}

/**
 * perf_detached_describe - the same for a buffer that is pinned, with the information
 * @detached:	the event
 * @rb:		its buffer
 */
void perf_detached_describe(struct perf_detached *detached, struct perf_buffer *rb)
{
	perf_detached_init_page(rb->user_page, detached->event);
	scoped_guard(spinlock, &perf_detached_lock)
		detached_write(rb, &detached->info);
}

/**
 * perf_detached_info - PERF_EVENT_IOC_DETACHED_INFO
 * @detached:	the event
 * @arg:	the user's structure, whose size may be that of a later kernel
 *
 * Return: 0; -EFAULT; -EINVAL if the structure is too small.
 */
int perf_detached_info(struct perf_detached *detached, void __user *arg)
{
	struct perf_event_detached_info info;
	u32 size;

	if (get_user(size, (u32 __user *)arg))
		return -EFAULT;
	if (size < sizeof(info))
		return -EINVAL;
	scoped_guard(spinlock, &perf_detached_lock) {
		detached_count_pins(detached);
		info = detached->info;
	}
	return copy_to_user(arg, &info, sizeof(info)) ? -EFAULT : 0;
}

/**
 * perf_detached_end - tell what became of the task of an event
 * @detached:	the event
 *
 * Context: in the task, which exits or executes a privileged file.
 */
void perf_detached_end(struct perf_detached *detached)
{
	struct perf_event_detached_info *info = &detached->info;
	bool exits = current->flags & PF_EXITING;
	char comm[TASK_COMM_LEN];

	get_task_comm(comm, current);
	scoped_guard(spinlock, &perf_detached_lock) {
		memcpy(info->comm, comm, sizeof(comm));
		info->lost = atomic64_read(&detached->event->lost_samples);
		info->exit_code = exits ? current->exit_code : 0;
		info->exit_time = detached->event->clock();
		info->state = exits ? PERF_EVENT_DETACHED_EXITED : PERF_EVENT_DETACHED_EXECUTED;
		detached_count_pins(detached);
	}
}
