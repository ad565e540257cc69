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
 * @reserved:	0
 * @lost:	records that did not fit into a buffer that is not overwritten; updated when @state
 *		changes
 * @comm:	the name of the task; updated when @state changes
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
	__u32	reserved;
	__u64	lost;
	char	comm[16];
};

/* Give the event a buffer and a name. From here on it outlives the descriptor. */
#define PERF_EVENT_IOC_DETACH		_IOW('$', 255, struct perf_event_detach)
/* Take the name away: the event ends with its last descriptor. */
#define PERF_EVENT_IOC_REATTACH		_IO('$', 254)
#define PERF_EVENT_IOC_DETACHED_INFO	_IOWR('$', 253, struct perf_event_detached_info)

#endif /* _UAPI_LINUX_PERF_DETACHED_H */
