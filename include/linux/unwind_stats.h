/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counters of user stack unwinding, for the core and for its users, shown by
 * kernel/unwind/stats.c. They begin at boot, and may be changed in any context.
 */
#ifndef _LINUX_UNWIND_STATS_H
#define _LINUX_UNWIND_STATS_H

#include <linux/percpu.h>

/* See unwind_stat_names[]. */
enum unwind_stat {
	UNWIND_STAT_REQUESTS,
	UNWIND_STAT_REFUSED_NO_USER,
	UNWIND_STAT_REFUSED_NO_TRACER,
	UNWIND_STAT_REFUSED_EXITING,
	UNWIND_STAT_REFUSED_EXEC,
	UNWIND_STAT_REFUSED_BETWEEN,
	UNWIND_STAT_REFUSED_NO_WORK,
	UNWIND_STAT_REFUSED_AGAIN,
	UNWIND_STAT_WALKS,
	UNWIND_STAT_FRAMES,
	UNWIND_STAT_ENDED_FULL,
	UNWIND_STAT_NO_CODE,
	UNWIND_STAT_ENDED_UNREADABLE,
	UNWIND_STAT_ENDED_BAD_FRAME,
	UNWIND_STAT_ENDED_SIGNALS,
	UNWIND_STAT_SFRAME_FRAMES,
	UNWIND_STAT_SFRAME_LOADED,
	UNWIND_STAT_SFRAME_REFUSED,
	UNWIND_STAT_SFRAME_BUSY,
	UNWIND_STAT_SFRAME_NOT_READ,
	UNWIND_STAT_EMPTY_MOVED,
	UNWIND_STAT_EMPTY_NOMEM,
	UNWIND_STAT_EMPTY_NO_STACK,
	UNWIND_STAT_NOMEM,
	UNWIND_STAT_CALLBACKS,
	UNWIND_STAT_REGS_FETCHED,
	UNWIND_STAT_REGS_NONE,
	UNWIND_STAT_STATES,
	UNWIND_STAT_STATES_MOVED,
	UNWIND_STAT_STATES_UNHEARD,
	UNWIND_STAT_THIRD_CPU,
	UNWIND_STAT_BUFFERS_MISSED,
	UNWIND_STAT_TRACERS,
	UNWIND_NR_STATS,
};

#ifdef CONFIG_UNWIND_USER

DECLARE_PER_CPU(unsigned long [UNWIND_NR_STATS], unwind_stats);

static inline void unwind_count_add(enum unwind_stat stat, unsigned long nr)
{
	this_cpu_add(unwind_stats[stat], nr);
}

#else

static inline void unwind_count_add(enum unwind_stat stat, unsigned long nr) { }

#endif

static inline void unwind_count(enum unwind_stat stat)
{
	unwind_count_add(stat, 1);
}

#endif /* _LINUX_UNWIND_STATS_H */
