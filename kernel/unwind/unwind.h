/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Internal declarations of kernel/unwind.
 */
#ifndef _KERNEL_UNWIND_UNWIND_H
#define _KERNEL_UNWIND_UNWIND_H

#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/mm_types.h>
#include <linux/types.h>
#include <linux/unwind_stats.h>
#include <linux/unwind_user_arch.h>
#include <linux/unwind_user_types.h>

#include "text.h"

struct pt_regs;
struct unwind_task_info;

/* Bits of unwind_task_info::unwind_mask. The rest are tracers. */
enum {
	/* The task work is queued. */
	UNWIND_PENDING_BIT,
	/* The entry has a name or a trace, which its end has to forget. */
	UNWIND_USED_BIT,
	/* In exec: no user stack until the return to user mode. */
	UNWIND_EXEC_BIT,
	/* The entry is being forgotten; only NMIs can see this bit. */
	UNWIND_RESET_BIT,
	/* The stack is being walked: a fault of the walk must not start another walk. */
	UNWIND_WALKING_BIT,
	/* The user_unwind_stack event of the entry was hit. */
	UNWIND_EVENT_BIT,
	/* The name is that of the previous entry, whose last requests are still due. */
	UNWIND_LATE_BIT,
	UNWIND_TRACER_SHIFT,
};

#define UNWIND_PENDING		BIT(UNWIND_PENDING_BIT)
#define UNWIND_USED		BIT(UNWIND_USED_BIT)
#define UNWIND_EXEC		BIT(UNWIND_EXEC_BIT)
#define UNWIND_RESET		BIT(UNWIND_RESET_BIT)
#define UNWIND_WALKING		BIT(UNWIND_WALKING_BIT)
#define UNWIND_EVENT		BIT(UNWIND_EVENT_BIT)
#define UNWIND_LATE		BIT(UNWIND_LATE_BIT)
#define UNWIND_RESERVED_BITS	(BIT(UNWIND_TRACER_SHIFT) - 1)
#define UNWIND_MAX_TRACERS	(BITS_PER_LONG - UNWIND_TRACER_SHIFT)

static_assert((UNWIND_PENDING | UNWIND_USED | UNWIND_EXEC | UNWIND_RESET |
	       UNWIND_WALKING | UNWIND_EVENT | UNWIND_LATE) == UNWIND_RESERVED_BITS);

/* Signal frames that a walk passes. */
#define UNWIND_USER_SIGNALS	32

/* Switches to a lower stack, other than by a signal, that a walk follows. */
#define UNWIND_USER_SWITCHES	8

/**
 * struct unwind_cache - a task's latest trace, in a page
 * @max:	room in @entries
 * @nr:		entries in use
 * @early:	see struct unwind_stacktrace
 * @entries:	the addresses: @page, or a separate allocation for longer traces
 * @text:	cache of the task's code
 * @page:	room for most traces
 */
struct unwind_cache {
	unsigned int		max;
	unsigned int		nr;
	bool			early;
	unsigned long		*entries;
	struct unwind_text	text;
	unsigned long		page[];
};

/* Entries that fit in the rest of the page. */
#define UNWIND_PAGE_ENTRIES						\
	((unsigned int)((PAGE_SIZE - sizeof(struct unwind_cache)) / sizeof(long)))

/*
 * The longest trace. A perf record has 64 KiB for it, of which header, cookie,
 * count and the longest sample_id take 72 bytes.
 */
#define UNWIND_MAX_ENTRIES	8180U

static_assert(UNWIND_MAX_ENTRIES * sizeof(u64) + 72 <= U16_MAX);

void unwind_get_files(struct unwind_stacktrace *trace);
void unwind_put_files(struct unwind_stacktrace *trace);
void unwind_get_trace(struct unwind_task_info *info, struct unwind_stacktrace *trace);
void unwind_drop_other_trace(struct unwind_task_info *info);
void unwind_trim_cache(struct unwind_task_info *info);
void unwind_free_cache(struct unwind_task_info *info);
void unwind_fault_in_stack(struct unwind_task_info *info);

void unwind_user_start(struct unwind_user_state *state, struct pt_regs *regs,
		       struct unwind_text *text, struct unwind_text_code *own);
unsigned int unwind_user_walk(struct unwind_user_state *state,
			      unsigned long *entries, unsigned int max);

#endif /* _KERNEL_UNWIND_UNWIND_H */
