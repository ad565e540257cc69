/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Detached events: between perf's core, the events and the file system with their names.
 */
#ifndef _KERNEL_EVENTS_DETACHED_H
#define _KERNEL_EVENTS_DETACHED_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/perf_detached.h>
#include <linux/perf_event.h>
#include <linux/refcount.h>
#include <linux/spinlock_types.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct cred;
struct dentry;
struct file;
struct perf_buffer;
struct pid;
struct pid_namespace;
struct vm_area_struct;

/* Where the user page has the information: after all that is in use, for a long time to come. */
#define DETACHED_INFO_OFFSET	2048
#define DETACHED_ATTR_OFFSET	2560

/**
 * struct perf_shmem_slot - the buffer of a group that may be written on a CPU
 * @rb:		the buffer, with a pin of its pages and a reference; or NULL
 * @mutex:	of tasks that pin a buffer here: at most one of them has pages that are in no slot,
 *		and none while @rb is there
 */
struct perf_shmem_slot {
	struct perf_buffer		*rb;
	struct mutex			mutex;	/* of tasks that pin a buffer here */
};

/**
 * struct perf_detached_group - an event that was detached, and those that its task's children
 * inherited
 * @refs:	one for each of these events, and for each of their buffers
 * @cred:	of the task that has detached the event: its user is charged, its fsuid and fsgid
 *		own all names, and tasks inherit the event with its rights
 * @pages:	what the user is charged with
 * @pid_ns:	of the user's numbers of tasks
 * @slots:	one on each CPU; NULL for an event that is not inherited
 * @pins:	how often a buffer came to a slot
 * @unpins:	how often one went from there
 * @pin_failures: how often one could not come, as memory was short
 * @inherit_failures: children without an event
 */
struct perf_detached_group {
	refcount_t			refs;
	const struct cred		*cred;
	unsigned long			pages;
	struct pid_namespace		*pid_ns;
	struct perf_shmem_slot __percpu	*slots;
	atomic64_t			pins;
	atomic64_t			unpins;
	atomic64_t			pin_failures;
	atomic64_t			inherit_failures;
};

/**
 * enum detached_phase - what keeps a detached event
 * @DETACHED_INHERITED:	its task, which has not run yet
 * @DETACHED_BORN:	its naming work: it has a buffer, and is about to have a name
 * @DETACHED_OWNED:	its descriptors
 * @DETACHED_NAMING:	likewise, or its task; it is about to have a name
 * @DETACHED_NAMED:	its name
 * @DETACHED_GONE:	nothing, it was released
 */
enum detached_phase {
	DETACHED_INHERITED,
	DETACHED_BORN,
	DETACHED_OWNED,
	DETACHED_NAMING,
	DETACHED_NAMED,
	DETACHED_GONE,
};

/**
 * struct perf_detached - an event that was opened with PERF_FLAG_DETACHED, or inherited from one
 * @event:	the event
 * @release:	releases the event after its name was removed, or removes it first
 * @naming:	gives an inherited event its name
 * @put:	drops a reference where that may need any lock
 * @rcu:	frees it after those that found the event in its context
 * @pid:	its task's number, also when that has exited
 * @tgid:	likewise that of the process
 * @exec_pid:	likewise the one that the task had when it exited, if that was another one because
 *		it had executed a file
 * @perfmon:	it was opened with CAP_PERFMON, which its name asks for then
 * @ptrace:	likewise CAP_SYS_PTRACE in the task's user namespace
 * @group:	who is charged, and where shared buffers are; NULL without a buffer
 * @pin:	lets its buffer be written on the CPU where its task runs
 * @pinning:	it is being pinned; only in the task, as the following two
 * @pin_queued:	@pin is queued
 * @pin_wanted:	its task is on a CPU whose slot lacks the buffer
 * @newborn:	it was inherited by a task that has not run yet
 * @counted:	it is one of the events of @group's user
 * @unaccounted: perf does not look for events because of it any more
 * @sampled:	its last sample was taken; only in the task
 * @phase:	what keeps the event; this and the members below are under perf_detached_lock
 * @files:	number of its open files, and the task that has inherited it
 * @name:	in perffs, with a reference; NULL without a name
 * @kept:	in user_struct::perf_detached_kept
 * @info:	for the user, also in the user page of the buffer if there is one
 */
struct perf_detached {
	struct perf_event		*event;
	struct work_struct		release;
	struct work_struct		naming;
	struct work_struct		put;
	struct rcu_head			rcu;
	struct pid			*pid;
	struct pid			*tgid;
	struct pid			*exec_pid;
	bool				perfmon;
	bool				ptrace;
	struct perf_detached_group	*group;
	struct callback_head		pin;
	bool				pinning;
	bool				pin_queued;
	bool				pin_wanted;
	bool				newborn;
	bool				counted;
	bool				unaccounted;
	bool				sampled;
	enum detached_phase		phase;
	unsigned int			files;
	struct dentry			*name;
	struct list_head		kept;
	struct perf_event_detached_info	info;
};

#ifdef CONFIG_PERF_DETACHED

int perf_detached_check(const struct perf_event_attr *attr, pid_t pid, int cpu, int group_fd,
			unsigned long flags);
int perf_detached_open(struct perf_event *event, const struct perf_event *leader,
		       unsigned long flags);
void perf_detached_free(struct perf_event *event);
bool perf_detached_close(struct perf_event *event);
long perf_detached_ioctl(struct perf_event *event, unsigned int cmd, unsigned long arg);
int perf_detached_mmap(const struct perf_event *event, struct vm_area_struct *vma);

/* In detached_exit.c. */
bool perf_detached_exit(struct perf_event *event);
bool perf_detached_unaccounted(struct perf_event *event);

/* For perffs.c. */
int perf_detached_open_name(struct perf_event *event);
void perf_detached_unlinked(struct perf_event *event);
bool perf_detached_is_of(const struct perf_event *event, const struct pid *pid, bool thread);

/* In detached_info.c. */
void perf_detached_init_info(struct perf_detached *detached, struct task_struct *task,
			     struct pid_namespace *ns);
void perf_detached_attr(const struct perf_event *event, struct perf_event_attr *attr);
void perf_detached_init_page(void *page, const struct perf_event *event);
void perf_detached_describe(struct perf_detached *detached, struct perf_buffer *rb);
void perf_detached_publish(struct perf_detached *detached, struct perf_buffer *rb);
void perf_detached_end(struct perf_detached *detached);
int perf_detached_info(struct perf_detached *detached, void __user *arg);

bool perf_detached_inherits(const struct perf_event *event, const struct task_struct *child);
int perf_detached_inherit(struct perf_event *event, const struct perf_event *from);
int perf_detached_inherited(const struct perf_event *from, int ret);
const struct cred *perf_detached_override_creds(const struct perf_event *event);
void perf_detached_revert_creds(const struct cred *cred);

/* In detached_limits.c. */
extern spinlock_t perf_detached_lock;

int perf_detached_allowed(void);
bool perf_detached_count(struct perf_detached *detached);
void perf_detached_uncount(struct perf_detached *detached);
struct perf_detached_group *perf_detached_group_alloc(unsigned long pages, bool inherit);
struct perf_detached_group *perf_detached_group_get(struct perf_detached_group *group);
void perf_detached_group_put(struct perf_detached_group *group);
void perf_detached_ungroup(struct perf_detached *detached);
void perf_detached_keep(struct perf_detached *detached);
void perf_detached_unkeep(struct perf_detached *detached);
void perf_detached_used(struct perf_detached *detached);
void perf_detached_queue(struct work_struct *work);
void perf_detached_queue_name(struct work_struct *work);

/* In detached_shmem.c. */
bool perf_shmem_usable(const struct perf_buffer *rb);
struct perf_buffer *perf_shmem_alloc(struct perf_event *event, unsigned int pages,
				     struct perf_detached_group *group,
				     const struct perf_event_detached_info *info);
void perf_shmem_free(struct perf_buffer *rb);
void perf_shmem_sched_in(struct perf_event *event);
void perf_shmem_pin(struct perf_event *event);
void perf_shmem_settle_irq(void);
struct perf_shmem_slot __percpu *perf_shmem_alloc_slots(void);
void perf_shmem_free_slots(struct perf_shmem_slot __percpu *slots);
void perf_shmem_leave(struct perf_buffer *rb);
int perf_shmem_publish(struct perf_buffer *rb, const struct perf_event_detached_info *info);
int perf_shmem_mmap(struct perf_event *event, struct vm_area_struct *vma);

/* In perffs.c. */
struct dentry *perffs_create(struct perf_event *event, const char *name, const struct cred *cred);
void perffs_remove(struct dentry *dentry);

#else

static inline int perf_detached_check(const struct perf_event_attr *attr, pid_t pid, int cpu,
				      int group_fd, unsigned long flags)
{
	return flags & PERF_FLAG_DETACHED ? -EINVAL : 0;
}

static inline int perf_detached_open(struct perf_event *event, const struct perf_event *leader,
				     unsigned long flags)
{
	return 0;
}

static inline void perf_detached_free(struct perf_event *event) {}
static inline bool perf_detached_close(struct perf_event *event) { return false; }

static inline long perf_detached_ioctl(struct perf_event *event, unsigned int cmd,
				       unsigned long arg)
{
	return -ENOIOCTLCMD;
}

static inline int perf_detached_mmap(const struct perf_event *event, struct vm_area_struct *vma)
{
	return 0;
}

static inline bool perf_detached_exit(struct perf_event *event) { return false; }
static inline bool perf_detached_unaccounted(struct perf_event *event) { return false; }

static inline bool perf_detached_inherits(const struct perf_event *event,
					  const struct task_struct *child)
{
	return true;
}

static inline void perf_detached_attr(const struct perf_event *event, struct perf_event_attr *attr)
{
	*attr = event->attr;
}

static inline int perf_detached_inherit(struct perf_event *event, const struct perf_event *from)
{
	return 0;
}

static inline int perf_detached_inherited(const struct perf_event *from, int ret)
{
	return ret;
}

static inline const struct cred *perf_detached_override_creds(const struct perf_event *event)
{
	return NULL;
}

static inline void perf_detached_revert_creds(const struct cred *cred) {}
static inline void perf_shmem_free(struct perf_buffer *rb) {}
static inline void perf_shmem_sched_in(struct perf_event *event) {}

static inline int perf_shmem_mmap(struct perf_event *event, struct vm_area_struct *vma)
{
	return -EINVAL;
}

#endif

#endif /* _KERNEL_EVENTS_DETACHED_H */
