/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The tracers, as deferred.c sees them.
 */
#ifndef _KERNEL_UNWIND_TRACERS_H
#define _KERNEL_UNWIND_TRACERS_H

#include <linux/atomic.h>
#include <linux/srcu.h>
#include <linux/types.h>
#include <linux/unwind_deferred_types.h>

#include "unwind.h"

/* Properties of tracers. A bit of these masks changes only while no tracer owns it. */
extern unsigned long unwind_bits_no_trace;
extern unsigned long unwind_bits_want_files;

/* Callbacks run in its read-side sections, unless they may wait. */
extern struct srcu_struct unwind_srcu;

/**
 * unwind_bits_due - tracers that asked in this entry and were not called yet
 * @info:	current's
 *
 * Context: task context of current.
 * Return: their bits, including those of tracers that are being cancelled.
 */
static inline unsigned long unwind_bits_due(struct unwind_task_info *info)
{
	return atomic_long_read(&info->unwind_mask) &
	       ~atomic_long_read(&info->unwind_completed) &
	       ~UNWIND_RESERVED_BITS;
}

unsigned long unwind_deliver(struct unwind_task_info *info);

#endif /* _KERNEL_UNWIND_TRACERS_H */
