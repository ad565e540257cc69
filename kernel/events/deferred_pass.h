/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Passes over perf events that write one record to each of them, whatever its length and
 * their number. With preemption disabled, a pass copies no more than one long record; in
 * an interrupt, some short records or one long one.
 */
#ifndef _KERNEL_EVENTS_DEFERRED_PASS_H
#define _KERNEL_EVENTS_DEFERRED_PASS_H

#include <linux/compiler.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/sizes.h>
#include <linux/types.h>
#include <linux/unwind_stats.h>

/**
 * struct perf_deferred_pass - one pass over the events
 * @from:	id of the event where this pass begins, and later where the next one continues,
 *		or 0. The event may be gone by then; no other one ever gets its id
 * @room:	bytes that each pass may copy; a longer record gets a pass of its own
 * @left:	bytes that this pass may still copy
 * @anew:	how many more passes may restart at the first event because the event at
 *		@from is gone
 * @more:	this pass ended early, and the next one continues at @from
 */
struct perf_deferred_pass {
	u64	from;
	u16	room;
	u16	left;
	u8	anew;
	bool	more;
};

/* Limit the restarts, so that closing or disabling events does not keep a task busy. */
#define PERF_DEFERRED_ANEW	16

#define PERF_DEFERRED_FIRST(bytes)	((struct perf_deferred_pass) {	\
	.room = (bytes), .left = (bytes), .anew = PERF_DEFERRED_ANEW,	\
})

/* The first pass in task context. The longest record fits. */
#define PERF_DEFERRED_PASS		PERF_DEFERRED_FIRST(U16_MAX)

/* The first pass in an interrupt: copies as much as a sample with 8 KiB of user stack. */
#define PERF_DEFERRED_IRQ_PASS		PERF_DEFERRED_FIRST(SZ_8K)

/**
 * perf_deferred_turn - check whether a pass has to handle an event
 * @pass:	the pass
 * @id:		id of the event
 *
 * Return: false if an earlier pass handled the event, or a later one will.
 */
static inline bool perf_deferred_turn(struct perf_deferred_pass *pass, u64 id)
{
	if (likely(!pass->from))
		return true;
	if (pass->more || pass->from != id)
		return false;
	pass->from = 0;
	return true;
}

/**
 * perf_deferred_take - take room for a record from a pass
 * @pass:	the pass; ends here if the record does not fit
 * @id:		id of the event that the pass handles
 * @size:	of the record
 *
 * Return: true if the caller may write the record.
 */
static inline bool perf_deferred_take(struct perf_deferred_pass *pass, u64 id, unsigned int size)
{
	if (likely(size <= pass->left)) {
		pass->left -= size;
		return true;
	}
	/* A longer record gets a pass of its own. */
	if (pass->left == pass->room) {
		pass->left = 0;
		return true;
	}
	pass->from = id;
	pass->more = true;
	return false;
}

/**
 * perf_deferred_give_back - return the room of a record that was not written
 * @pass:	the pass
 * @size:	of the record
 *
 * Events whose buffer is full or small would otherwise end passes that copy nothing, each of
 * which visits all events.
 */
static inline void perf_deferred_give_back(struct perf_deferred_pass *pass, unsigned int size)
{
	pass->left = min(pass->left + size, (unsigned int)pass->room);
}

/**
 * perf_deferred_more - set up the next pass, if one is needed
 * @pass:	the pass that ended; becomes the next one
 *
 * If the event that the next pass was to begin with is gone, the next pass begins with
 * the first event, and the buffers' cookies tell which have the record. This happens at
 * most PERF_DEFERRED_ANEW times. After that, the remaining buffers get no record, which is
 * counted.
 *
 * Return: true if another pass is needed.
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
		pass->from = 0;
	}
	pass->left = pass->room;
	pass->more = false;
	return true;
}

#endif /* _KERNEL_EVENTS_DEFERRED_PASS_H */
