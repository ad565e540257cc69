/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Records of any length go to any number of events: in passes over the events, each of
 * which copies no more than one long record with preemption disabled, or, in an interrupt,
 * some short ones or one long one.
 */
#ifndef _KERNEL_EVENTS_DEFERRED_PASS_H
#define _KERNEL_EVENTS_DEFERRED_PASS_H

#include <linux/compiler.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/sizes.h>
#include <linux/types.h>
#include <linux/unwind_stats.h>

struct perf_event;

/**
 * struct perf_deferred_pass - one pass over the events
 * @from:	where it begins, and then where the next one goes on, or NULL: an event
 *		that may be gone by then, so it is compared and never followed
 * @room:	how many bytes each pass may copy; a record that is longer has one for itself
 * @left:	how many of these this one may still copy
 * @anew:	how many of the passes to come may begin with the first event again, as
 *		the one at @from is gone
 * @more:	it has ended early, and the next one goes on at @from, which is set then
 */
struct perf_deferred_pass {
	const struct perf_event		*from;
	unsigned int			room;
	unsigned int			left;
	unsigned int			anew;
	bool				more;
};

/* Whoever closes events, or disables them, does not keep a task busy for longer. */
#define PERF_DEFERRED_ANEW	16

#define PERF_DEFERRED_FIRST(bytes)	((struct perf_deferred_pass) {	\
	.room = (bytes), .left = (bytes), .anew = PERF_DEFERRED_ANEW,	\
})

/* The first one in task context; the longest record fits. */
#define PERF_DEFERRED_PASS		PERF_DEFERRED_FIRST(U16_MAX)

/* The first one in an interrupt, which copies what a sample with 8 KiB of the stack does. */
#define PERF_DEFERRED_IRQ_PASS		PERF_DEFERRED_FIRST(SZ_8K)

/**
 * perf_deferred_turn - is it the turn of an event?
 * @pass:	the pass
 * @event:	the event
 *
 * Return: false if it had its turn in a pass before, or has it in a later one.
 */
static inline bool perf_deferred_turn(struct perf_deferred_pass *pass,
				      const struct perf_event *event)
{
	if (likely(!pass->from))
		return true;
	if (pass->more || pass->from != event)
		return false;
	pass->from = NULL;
	return true;
}

/**
 * perf_deferred_fits - may this pass copy a record?
 * @pass:	the pass; it ends here if not
 * @event:	the event, whose turn it is
 * @size:	of the record
 *
 * Return: true if so; who has written it says so with perf_deferred_wrote().
 */
static inline bool perf_deferred_fits(struct perf_deferred_pass *pass,
				      const struct perf_event *event, unsigned int size)
{
	if (likely(size <= pass->left) || pass->left == pass->room)
		return true;
	pass->from = event;
	pass->more = true;
	return false;
}

/**
 * perf_deferred_wrote - this pass copied a record
 * @pass:	the pass
 * @size:	of the record
 */
static inline void perf_deferred_wrote(struct perf_deferred_pass *pass, unsigned int size)
{
	pass->left -= min(size, pass->left);
}

/**
 * perf_deferred_more - is there another pass?
 * @pass:	the one that is over; becomes the next one
 *
 * If the event that it was to begin with is gone, the next one begins with the first event
 * again, and the buffers know what they have. That happens PERF_DEFERRED_ANEW times at
 * most. After that the buffers that have no record get none, which is counted.
 *
 * Return: true if so.
 */
static inline bool perf_deferred_more(struct perf_deferred_pass *pass)
{
	if (likely(!pass->from))
		return false;
	if (!pass->more) {
		if (!pass->anew) {
			unwind_count(UNWIND_STAT_BUFFERS_MISSED);
			return false;
		}
		pass->anew--;
		pass->from = NULL;
	}
	pass->left = pass->room;
	pass->more = false;
	return true;
}

#endif /* _KERNEL_EVENTS_DEFERRED_PASS_H */
