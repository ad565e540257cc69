/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Check the records that random events write to their buffers.
 */
#ifndef _UNWIND_FUZZ_RECORDS_H
#define _UNWIND_FUZZ_RECORDS_H

#include <linux/perf_event.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#define PAGE		4096UL
/* Offset of the flags in an attr. */
#define FLAGS_OFFSET	40
/* kernel.perf_event_max_stack */
#define MAX_STACK	127
#define OLD_COOKIES	64

/* The latest records of one type in a buffer: cookies, and checksums of addresses or 0. */
struct history {
	__u64		cookie[OLD_COOKIES], sum[OLD_COOKIES];
	unsigned int	nr;
};

/**
 * struct slot - an event, or the remains of one
 * @fd:		the event, or -1
 * @attr:	the attr that it was opened with
 * @map:	the buffer, or NULL; may outlive @fd
 * @size:	of the data in @map
 * @readable:	the buffer can be read: written forward, reader's position kept
 * @mixed:	other events write there, too, or this event writes elsewhere
 * @one_task:	only one task has its kernel entries recorded there
 * @chains:	deferred callchains in @map
 * @states:	user states in @map
 */
struct slot {
	int				fd;
	struct perf_event_attr		attr;
	struct perf_event_mmap_page	*map;
	size_t				size;
	bool				readable;
	bool				mixed;
	bool				one_task;
	struct history			chains;
	struct history			states;
};

/* Totals of all buffers. */
struct seen {
	unsigned int	records, samples, markers, deferred, states, lost;
	/* Number of complaints. */
	unsigned int	bad;
};

extern struct seen seen;

/* Print and count an error: in the latest record, if it concerns a record. */
void complain(const struct slot *slot, const char *what);

/* Check the new records of a buffer, a few thousand at most. */
void read_slot(struct slot *slot);

#endif /* _UNWIND_FUZZ_RECORDS_H */
