/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What random events write to their buffers, and what is wrong with it.
 */
#ifndef _UNWIND_FUZZ_RECORDS_H
#define _UNWIND_FUZZ_RECORDS_H

#include <linux/perf_event.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#define PAGE		4096UL
/* Where the flags of an attr are. */
#define FLAGS_OFFSET	40
/* kernel.perf_event_max_stack */
#define MAX_STACK	127
#define OLD_COOKIES	64

/* Records of one type in a buffer: cookies of the latest, and a sum of addresses or 0. */
struct history {
	__u64		cookie[OLD_COOKIES], sum[OLD_COOKIES];
	unsigned int	nr;
};

/**
 * struct slot - an event, or what is left of one
 * @fd:		the event, or -1
 * @attr:	as it was opened
 * @map:	the buffer, or NULL; may be there when @fd is gone
 * @size:	of the data in @map
 * @readable:	the buffer can be read: written forward, reader's position kept
 * @mixed:	other events write there, too, or it writes elsewhere
 * @one_task:	nobody but one task has its kernel entries recorded there
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

/* Of all buffers. */
struct seen {
	unsigned int	records, samples, markers, deferred, states, lost;
	/* Complaints. */
	unsigned int	bad;
};

extern struct seen seen;

/* Say and count that something is wrong: with the latest record, if it is about one. */
void complain(const struct slot *slot, const char *what);

/* Look at what is in a buffer, some thousand records of it at most. */
void read_slot(struct slot *slot);

#endif /* _UNWIND_FUZZ_RECORDS_H */
