/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Records of any length go to any number of events: in passes over the events, each of
 * which copies no more than one long record with preemption disabled.
 */
#ifndef _KERNEL_EVENTS_DEFERRED_PASS_H
#define _KERNEL_EVENTS_DEFERRED_PASS_H

#include <linux/compiler.h>
#include <linux/limits.h>
#include <linux/types.h>

struct perf_event;

/**
 * struct perf_deferred_pass - one pass over the events
 * @from:	where it begins, and then where the next one goes on, or NULL: an event
 *		that may be gone by then, so it is compared and never followed
 * @left:	how many bytes it may still copy
 * @more:	it has ended, before the last event
 */
struct perf_deferred_pass {
	const struct perf_event		*from;
	unsigned int			left;
	bool				more;
};

/* The first one; the longest record fits. */
#define PERF_DEFERRED_PASS	((struct perf_deferred_pass) { .left = U16_MAX })

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
	if (pass->more || (pass->from && pass->from != event))
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
 * Return: true if so; @left is for the caller to count, after it has written.
 */
static inline bool perf_deferred_fits(struct perf_deferred_pass *pass,
				      const struct perf_event *event, unsigned int size)
{
	if (likely(size <= pass->left))
		return true;
	pass->from = event;
	pass->more = true;
	return false;
}

/**
 * perf_deferred_more - is there another pass?
 * @pass:	the one that is over; becomes the next one
 *
 * If the event that it was to begin with is gone, it begins with the first one again, and
 * the buffers know what they have.
 *
 * Return: true if so.
 */
static inline bool perf_deferred_more(struct perf_deferred_pass *pass)
{
	const struct perf_event *from = pass->more ? pass->from : NULL;
	bool again = pass->more || pass->from;

	*pass = (struct perf_deferred_pass) { .from = from, .left = U16_MAX };
	return again;
}

#endif /* _KERNEL_EVENTS_DEFERRED_PASS_H */
