/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Detached events: between perf's core, the events and the file system with their names.
 */
#ifndef _KERNEL_EVENTS_DETACHED_H
#define _KERNEL_EVENTS_DETACHED_H

#include <linux/perf_detached.h>
#include <linux/perf_event.h>

struct dentry;
struct vm_area_struct;

#ifdef CONFIG_PERF_DETACHED

int perf_detached_check(const struct perf_event_attr *attr, pid_t pid, int cpu, int group_fd,
			unsigned long flags);
int perf_detached_open(struct perf_event *event, const struct perf_event *leader,
		       unsigned long flags);
void perf_detached_free(struct perf_event *event);
bool perf_detached_close(struct perf_event *event);
long perf_detached_ioctl(struct perf_event *event, unsigned int cmd, unsigned long arg);
int perf_detached_mmap(const struct perf_event *event, struct vm_area_struct *vma);
void perf_detached_exit(struct perf_event *event);

/* For perffs.c. */
int perf_detached_open_name(struct perf_event *event);
void perf_detached_unlinked(struct perf_event *event);

/* In perffs.c. */
struct dentry *perffs_create(struct perf_event *event, const char *name);
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
static inline bool perf_detached_close(struct perf_event *event) { return true; }

static inline long perf_detached_ioctl(struct perf_event *event, unsigned int cmd,
				       unsigned long arg)
{
	return -ENOIOCTLCMD;
}

static inline int perf_detached_mmap(const struct perf_event *event, struct vm_area_struct *vma)
{
	return 0;
}

static inline void perf_detached_exit(struct perf_event *event) {}

#endif

#endif /* _KERNEL_EVENTS_DETACHED_H */
