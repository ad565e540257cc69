// SPDX-License-Identifier: GPL-2.0
/*
 * Counters of user stack unwinding, for the administrator.
 *
 * The counters are per CPU and may be incremented in any context; a reader gets a
 * sum that may lag a few events behind. How many tracers there are comes last: it is the only
 * value that also goes down.
 */
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/minmax.h>
#include <linux/seq_file.h>
#include <linux/unwind_stats.h>

DEFINE_PER_CPU(unsigned long [UNWIND_NR_STATS], unwind_stats);

static const char * const unwind_stat_names[] = {
	[UNWIND_STAT_REQUESTS]		= "requests",
	[UNWIND_STAT_REFUSED_NO_USER]	= "refused_no_user",
	[UNWIND_STAT_REFUSED_NO_TRACER]	= "refused_no_tracer",
	[UNWIND_STAT_REFUSED_EXITING]	= "refused_exiting",
	[UNWIND_STAT_REFUSED_EXEC]	= "refused_exec",
	[UNWIND_STAT_REFUSED_BETWEEN]	= "refused_between",
	[UNWIND_STAT_REFUSED_NO_WORK]	= "refused_no_work",
	[UNWIND_STAT_REFUSED_AGAIN]	= "refused_again",
	[UNWIND_STAT_WALKS]		= "walks",
	[UNWIND_STAT_FRAMES]		= "frames",
	[UNWIND_STAT_ENDED_FULL]	= "ended_full",
	[UNWIND_STAT_NO_CODE]		= "no_code",
	[UNWIND_STAT_ENDED_UNREADABLE]	= "ended_unreadable",
	[UNWIND_STAT_ENDED_BAD_FRAME]	= "ended_bad_frame",
	[UNWIND_STAT_ENDED_SIGNALS]	= "ended_signals",
	[UNWIND_STAT_SFRAME_FRAMES]	= "sframe_frames",
	[UNWIND_STAT_SFRAME_LOADED]	= "sframe_loaded",
	[UNWIND_STAT_SFRAME_REFUSED]	= "sframe_refused",
	[UNWIND_STAT_SFRAME_BUSY]	= "sframe_busy",
	[UNWIND_STAT_SFRAME_NOT_READ]	= "sframe_not_read",
	[UNWIND_STAT_EMPTY_MOVED]	= "empty_moved",
	[UNWIND_STAT_EMPTY_NOMEM]	= "empty_nomem",
	[UNWIND_STAT_EMPTY_NO_STACK]	= "empty_no_stack",
	[UNWIND_STAT_NOMEM]		= "nomem",
	[UNWIND_STAT_CALLBACKS]		= "callbacks",
	[UNWIND_STAT_REGS_FETCHED]	= "regs_fetched",
	[UNWIND_STAT_REGS_NONE]		= "regs_none",
	[UNWIND_STAT_STATES]		= "states",
	[UNWIND_STAT_STATES_MOVED]	= "states_moved",
	[UNWIND_STAT_STATES_UNHEARD]	= "states_unheard",
	[UNWIND_STAT_THIRD_CPU]		= "third_cpu",
	[UNWIND_STAT_BUFFERS_MISSED]	= "buffers_missed",
	[UNWIND_STAT_TRACERS]		= "tracers",
};

static_assert(ARRAY_SIZE(unwind_stat_names) == UNWIND_NR_STATS);

static int unwind_stats_show(struct seq_file *m, void *unused)
{
	for (int i = 0; i < UNWIND_NR_STATS; i++) {
		long sum = 0;
		int cpu;

		for_each_possible_cpu(cpu)
			sum += READ_ONCE(per_cpu(unwind_stats[i], cpu));
		/* A tracer may come and go during this, and be seen to go only. */
		seq_printf(m, "%s %ld\n", unwind_stat_names[i], max(sum, 0L));
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(unwind_stats);

static int __init unwind_stats_init(void)
{
	struct dentry *dir = debugfs_create_dir("unwind", NULL);

	debugfs_create_file("stats", 0444, dir, NULL, &unwind_stats_fops);
	return 0;
}
late_initcall(unwind_stats_init);
