/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Detached events: events that outlive their descriptors, with a buffer that is found by a name
 * below /sys/kernel/perf. See Documentation/admin-guide/perf/detached.rst.
 *
 * The numbers are from the top of their ranges, as they are not those of any other kernel.
 */
#ifndef _UAPI_LINUX_PERF_DETACHED_H
#define _UAPI_LINUX_PERF_DETACHED_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* For perf_event_open(): the event, which is opened disabled, may be detached. */
#define PERF_FLAG_DETACHED		(1UL << 31)

/**
 * struct perf_event_detach - what a detached event gets
 * @size:	sizeof() of this structure, as the caller knows it
 * @pages:	pages of its buffer, a power of two
 * @aux_pages:	pages of its AUX area; must be 0
 * @flags:	must be 0
 */
struct perf_event_detach {
	__u32	size;
	__u32	pages;
	__u32	aux_pages;
	__u32	flags;
};

/* What became of the event, in perf_event_detached_info::state. */
enum perf_event_detached_state {
	PERF_EVENT_DETACHED_LIVE	= 1,	/* its task lives */
	PERF_EVENT_DETACHED_EXITED	= 2,	/* its task has exited */
	PERF_EVENT_DETACHED_EXECUTED	= 3,	/* removed: its task executes a privileged file */
};

/**
 * struct perf_event_detached_info - a detached event and its task
 * @size:	sizeof() of this structure: as the caller knows it for PERF_EVENT_IOC_DETACHED_INFO,
 *		which changes it to what the kernel knows
 * @state:	enum perf_event_detached_state
 * @id:		of the event, as in its samples
 * @pid:	the task's process, as perf_event_open()'s caller saw it
 * @tid:	the task, likewise
 * @start_time:	the task's start in nanoseconds of CLOCK_MONOTONIC, which tells it from a later
 *		one with the same number
 * @exit_time:	when @state changed, by the clock of the event's samples; or 0
 * @exit_code:	of the task that has exited, encoded as wait() does
 * @attr_offset: where the user page has a copy of the event's struct perf_event_attr, whose size is
 *		that of the kernel
 * @lost:	records that did not fit into a buffer that is not overwritten; updated when @state
 *		changes
 * @comm:	the name of the task; updated when @state changes
 * @pins:	how often a buffer of the event, or of those inherited from it or with it, was made
 *		ready on a CPU; this and the following numbers are updated when @state changes
 * @unpins:	how often one had to go from there
 * @pin_failures: how often none could be, because memory was short: samples are lost then
 * @inherit_failures: tasks that could not inherit the event
 * @pages:	pages of its buffer, which can only be mapped as a whole; 0 without a buffer
 * @reserved:	0
 */
struct perf_event_detached_info {
	__u32	size;
	__u32	state;
	__u64	id;
	__u32	pid;
	__u32	tid;
	__u64	start_time;
	__u64	exit_time;
	__s32	exit_code;
	__u32	attr_offset;
	__u64	lost;
	char	comm[16];
	__u64	pins;
	__u64	unpins;
	__u64	pin_failures;
	__u64	inherit_failures;
	__u32	pages;
	__u32	reserved;
};

/* Give the event a buffer and a name. From here on it outlives the descriptor. */
#define PERF_EVENT_IOC_DETACH		_IOW('$', 255, struct perf_event_detach)
/* Take the name away: the event ends with its last descriptor. */
#define PERF_EVENT_IOC_REATTACH		_IO('$', 254)
#define PERF_EVENT_IOC_DETACHED_INFO	_IOWR('$', 253, struct perf_event_detached_info)

/**
 * struct perffs_find - find the events of a process or thread
 * @size:	sizeof() of this structure
 * @pidfd:	of the process; or of the thread, with PIDFD_THREAD
 * @id:		find the event with the smallest id above this one; set to its id
 * @name:	set to the event's name
 *
 * The numbers in names are used again, those of a pidfd's process are not: this also finds what is
 * left of one that has exited.
 */
struct perffs_find {
	__u32	size;
	__s32	pidfd;
	__u64	id;
	char	name[64];
};

/* For the directory. It fails with ENOENT if there is no event, or no more. */
#define PERFFS_IOC_FIND			_IOWR('$', 252, struct perffs_find)

#endif /* _UAPI_LINUX_PERF_DETACHED_H */
