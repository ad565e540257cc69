// SPDX-License-Identifier: GPL-2.0
/*
 * Merge samples with their deferred user callchains.
 *
 * A sample ends in a cookie. The record with the same cookie holds the user
 * addresses. It comes later in most cases, earlier for a sample taken after the
 * walk in the same kernel entry, or not at all. A cookie is unique in the
 * system, so the tasks are compared only if both sides name them. Events arrive
 * in the order in which they are to be delivered, and leave in that order.
 *
 * All records known beforehand (a file): the owner reads the file once for the
 * records alone and adds them. Each sample is then merged at once, no event is
 * queued, and the index (callchain-deferred-index.c) takes all of the memory. A
 * queue does not work here: one task that sleeps in a system call for the whole
 * session would hold all later events.
 *
 * Records arrive as they are written (a pipe, live data): a sample without its
 * record waits in a queue, and all later events wait after it. The queue is
 * bounded by event time and by bytes, including the records that queued samples
 * already have. At the bound, the oldest sample is delivered without its user
 * part and counted as late. Records without a queued sample are kept in a table
 * (callchain-deferred-table.c) bounded by the same number of bytes. The least
 * recently used record is evicted first, so a task that stays in one kernel
 * entry keeps its record.
 *
 * Each event costs constant time: a waiting sample points to the entry of its
 * cookie and a record fills that entry, so no search is needed. Queued events
 * are allocated from large chunks.
 *
 * Registers and stack of a kernel entry come in records of another type, with the
 * same cookie (user-state-deferred.c). A sample waits for one of the two, or for
 * both.
 *
 * A merged callchain has the classic form: the entries before the cookie, then
 * PERF_CONTEXT_USER, then the addresses, or one mark if there are none. One record
 * serves events of any depth, so the chain is cut here to the depth of its event. A
 * different mark comes last if the chain is cut, either here (also before an invalid
 * address, or if the kernel part leaves no room) or in the kernel. A cut in the kernel
 * is detected by a record with as many addresses as the event that it was written for
 * may have. A stack of exactly that depth looks the same and gets the mark, too. If
 * that limit is kernel.perf_event_max_stack and the recording tool did not write it
 * into the attr, the limit is unknown and the chain gets no mark.
 *
 * If the walk ended early and the sample has a branch stack of calls, callers from there
 * follow the addresses (callchain-deferred-branches.c).
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/string.h>
#include <linux/zalloc.h>

#include "callchain-deferred.h"
#include "callchain-deferred-index.h"
#include "callchain-deferred-table.h"
#include "debug.h"
#include "user-state-deferred.h"

#define CHUNK_SIZE		(1024 * 1024)
/* Addresses in the largest event. */
#define MAX_IPS			(PERF_SAMPLE_MAX_SIZE / sizeof(u64))

/**
 * struct dc_event - an event in the queue
 * @file_offset: for the delivery
 * @file_path: for the delivery
 * @entry: set if this is a deferred sample
 * @needs: the records that it waits for, CALLCHAIN_DEFERRED_*
 * @time: of the sample, -1 if not known
 * @event: the copy, padded to a multiple of 8 bytes in the chunk
 */
struct dc_event {
	u64			file_offset;
	const char		*file_path;
	struct dc_entry		*entry;
	unsigned int		needs;
	u64			time;
	union perf_event	event[];
};

struct dc_chunk {
	struct list_head	list;
	size_t			head;
	size_t			tail;
	char			data[CHUNK_SIZE] __aligned(8);
};

struct callchain_deferred {
	const struct callchain_deferred_ops *ops;
	void			*data;
	void			*(*alloc)(size_t size);
	struct callchain_deferred_limits limits;
	struct callchain_deferred_stats stats;

	/* Records known beforehand, and the entry found there for a sample. */
	struct dc_index		*index;
	struct dc_entry		found;

	/* Records that arrive as they are written, and the events that wait for them. */
	struct dc_table		table;
	struct list_head	chunks;
	struct dc_chunk		*spare;
	size_t			held_bytes;
	u64			last_time;
	u64			steps;

	/* The merged callchain of the sample being delivered: nr, then two halves. */
	u64			merged[1 + MAX_IPS + 1 + MAX_IPS];
	const struct ip_callchain *unmerged;
	u64			copy[PERF_SAMPLE_MAX_SIZE / sizeof(u64)];
};

static u16 dc__max_stack(const struct callchain_deferred *cd, const struct perf_sample *sample)
{
	return cd->ops->max_stack ? cd->ops->max_stack(cd->data, sample) : 0;
}

/* The registers in a record of user state. */
static u64 dc__state_mask(const struct callchain_deferred *cd, union perf_event *event)
{
	return cd->ops->state_mask ? cd->ops->state_mask(cd->data, event) : 0;
}

static int dc__add_to_index(struct callchain_deferred *cd, const union perf_event *event,
			    const struct perf_sample *sample, bool cut, bool copy)
{
	int ret = dc_index__add(cd->index, event, sample, cut, copy);

	if (ret == DC_INDEX_DUPLICATE)
		cd->stats.duplicate++;
	if (ret == DC_INDEX_FOREIGN)
		cd->stats.foreign++;
	return min(ret, 0);
}

/* Find the records of a cookie in the index. The entry is valid until the next call. */
static struct dc_entry *dc__find_in_index(struct callchain_deferred *cd, u64 cookie,
					  const struct perf_sample *sample, unsigned int needs)
{
	const union perf_event *chain = NULL, *state = NULL;
	struct dc_entry *found = &cd->found;
	bool unused;

	memset(found, 0, sizeof(*found));
	if (needs & CALLCHAIN_DEFERRED_CHAIN)
		chain = dc_index__find(cd->index, cookie, sample, false, &found->cut);
	if (needs & CALLCHAIN_DEFERRED_STATE)
		state = dc_index__find(cd->index, cookie, sample, true, &unused);
	if (chain) {
		found->known |= CALLCHAIN_DEFERRED_CHAIN;
		found->ips = (const u64 *)chain->callchain_deferred.ips;
		found->nr = chain->callchain_deferred.nr;
		found->early = chain->header.misc & PERF_RECORD_MISC_CALLCHAIN_EARLY;
	}
	if (state) {
		found->known |= CALLCHAIN_DEFERRED_STATE;
		found->state = state;
		found->mask = dc__state_mask(cd, (union perf_event *)state);
	}
	return found->known ? found : NULL;
}

/**
 * callchain_deferred__add - add a record
 * @cd: the object
 * @rec: checked by perf_event__check_callchain_deferred()
 * @sample: its task, as far as known
 * @copy: false if records are known beforehand, and @rec stays where it is
 *
 * Of records that repeat each other, the longest is kept.
 *
 * Return: 0 or -ENOMEM.
 */
int callchain_deferred__add(struct callchain_deferred *cd,
			    const struct perf_record_callchain_deferred *rec,
			    const struct perf_sample *sample, bool copy)
{
	bool cut = rec->nr && rec->nr == dc__max_stack(cd, sample);

	cd->stats.records++;
	if (cd->index)
		return dc__add_to_index(cd, (const union perf_event *)rec, sample, cut, copy);

	return dc_table__add(&cd->table, rec, sample, cut);
}

/**
 * callchain_deferred__add_state - add a record of registers and stack
 * @cd: the object
 * @event: checked by perf_event__check_user_state()
 * @sample: its task, as far as known
 * @copy: false if records are known beforehand, and @event stays where it is
 *
 * Of records that repeat each other, the longest is kept.
 *
 * Return: 0 or -ENOMEM.
 */
int callchain_deferred__add_state(struct callchain_deferred *cd, union perf_event *event,
				  const struct perf_sample *sample, bool copy)
{
	cd->stats.records++;
	if (cd->index)
		return dc__add_to_index(cd, event, sample, false, copy);

	return dc_table__add_state(&cd->table, event, sample, dc__state_mask(cd, event));
}

/* Merging one sample. */

/* How many user addresses fit after the first @nr entries? Contexts do not count. */
static u64 dc__user_depth(const struct callchain_deferred *cd, const struct perf_sample *sample,
			  u64 nr)
{
	u64 i, max = dc__max_stack(cd, sample);

	if (!max)
		return MAX_IPS;

	for (i = 0; i < nr && max; i++)
		max -= sample->callchain->ips[i] < PERF_CONTEXT_MAX;
	return max;
}

/* Returns whether there is something to unwind, which requires registers and stack. */
static bool dc__merge_state(const struct callchain_deferred *cd, struct dc_entry *entry,
			    struct perf_sample *sample)
{
	struct user_state state;

	/* The record of an event with other registers would be misread. */
	if (!dc_entry__has(entry, CALLCHAIN_DEFERRED_STATE) || !cd->ops->regs_mask ||
	    entry->mask != cd->ops->regs_mask(cd->data, sample))
		return false;

	perf_event__parse_user_state(entry->state, entry->mask, &state);
	perf_sample__set_user_state(sample, &state);
	return state.abi && state.size;
}

/*
 * Append callers from the branch stack of a sample, if the walk ended early. Returns the number
 * of entries.
 */
static u64 dc__join_branches(struct callchain_deferred *cd, const struct dc_entry *entry,
			     struct perf_sample *sample, u64 *ips, u64 nr_ips, u64 depth)
{
	u64 joined;

	/* So a record leaves room for the mark. */
	static_assert(MAX_IPS > (USHRT_MAX - sizeof(struct perf_record_callchain_deferred)) /
				sizeof(u64), "longest record");
	if (!entry->early || !sample->branch_stack || !cd->ops->call_stack ||
	    !cd->ops->call_stack(cd->data, sample))
		return 0;
	/* The mark takes an entry, too. */
	joined = callchain_deferred__join_branches(sample, ips, nr_ips,
						   min_t(u64, depth, MAX_IPS - 1) - nr_ips);
	cd->stats.joined += !!joined;
	return joined;
}

/**
 * dc__merge - give a sample its callchain, registers and stack
 * @cd: the object
 * @entry: the entry of its cookie, or NULL
 * @needs: the records that it lacks, CALLCHAIN_DEFERRED_*
 * @sample: a deferred sample; its callchain is replaced until the next merge
 * @missing: counter to increment if the sample has no record
 */
static void dc__merge(struct callchain_deferred *cd, struct dc_entry *entry,
		      unsigned int needs, struct perf_sample *sample, __u64 *missing)
{
	bool chained = needs & CALLCHAIN_DEFERRED_CHAIN, cut = false, unwound = false;
	const struct ip_callchain *chain = sample->callchain;
	u64 i, nr = min_t(u64, chain->nr - 2, MAX_IPS);
	u64 depth = chained ? dc__user_depth(cd, sample, nr) : MAX_IPS, nr_user = 0;
	struct ip_callchain *merged = (struct ip_callchain *)cd->merged;
	u64 *ips = merged->ips;

	if (chained && dc_entry__has(entry, CALLCHAIN_DEFERRED_CHAIN)) {
		nr_user = min_t(u64, entry->nr, depth);
		cut |= entry->cut || nr_user < entry->nr;
	}
	if (needs & CALLCHAIN_DEFERRED_STATE)
		unwound = dc__merge_state(cd, entry, sample);
	/* If the kernel part takes all of the depth, no user address fits: the chain is cut. */
	cut |= !depth && !unwound;

	memcpy(ips, chain->ips, nr * sizeof(u64));
	/* The unwinder adds the frames that it finds from registers and stack. */
	if (chained || !unwound)
		ips[nr++] = PERF_CONTEXT_USER;

	for (i = 0; i < nr_user; i++) {
		/* User stacks can hold any value, even that of a context marker. */
		if (entry->ips[i] >= CALLCHAIN_USER_LOWEST)
			break;
		ips[nr++] = entry->ips[i];
	}
	if (i && i == entry->nr && !cut)
		nr += dc__join_branches(cd, entry, sample, ips + nr - i, i, depth);

	/* If no address fits, the record is not missed. */
	if (i || !depth || unwound)
		cd->stats.merged++;
	else if (dc_entry__has(entry, needs))
		cd->stats.empty++;
	else
		++*missing;

	if (entry)
		entry->hit = true;
	if (!i && depth && !unwound) {
		ips[nr++] = CALLCHAIN_USER_LOST;
	} else if (i < nr_user || cut) {
		ips[nr++] = CALLCHAIN_USER_CUT;
		++*(i < nr_user ? &cd->stats.truncated : &cd->stats.cut);
	}

	merged->nr = nr;
	sample->callchain = merged;
	cd->unmerged = chain;
}

/* The callchain in the event of a merged sample, or NULL if the sample was not merged. */
const struct ip_callchain *
callchain_deferred__unmerged(const struct callchain_deferred *cd,
			     const struct perf_sample *sample)
{
	return cd && sample->callchain == (const void *)cd->merged ? cd->unmerged : NULL;
}

/* Returns a copy that is valid until the next call. */
union perf_event *callchain_deferred__copy_event(struct callchain_deferred *cd,
						 const union perf_event *event)
{
	return memcpy(cd->copy, event, event->header.size);
}

/* The queue of held events. */

static struct dc_event *dc__first(struct callchain_deferred *cd)
{
	struct dc_chunk *chunk;

	if (list_empty(&cd->chunks))
		return NULL;
	chunk = list_first_entry(&cd->chunks, struct dc_chunk, list);
	return (struct dc_event *)(chunk->data + chunk->head);
}

static size_t dc_event__size(const struct dc_event *ev)
{
	return sizeof(*ev) + PERF_ALIGN(ev->event->header.size, sizeof(u64));
}

/* Chunks in the list are never empty. */
static void dc__remove_first(struct callchain_deferred *cd)
{
	struct dc_chunk *chunk = list_first_entry(&cd->chunks, struct dc_chunk, list);
	size_t size = dc_event__size(dc__first(cd));

	cd->held_bytes -= size;
	chunk->head += size;
	if (chunk->head < chunk->tail)
		return;

	list_del(&chunk->list);
	free(cd->spare);
	cd->spare = chunk;
}

static struct dc_chunk *dc__room(struct callchain_deferred *cd, size_t size)
{
	struct dc_chunk *chunk;

	if (!list_empty(&cd->chunks)) {
		chunk = list_last_entry(&cd->chunks, struct dc_chunk, list);
		if (chunk->tail + size <= CHUNK_SIZE)
			return chunk;
	}

	chunk = cd->spare ?: cd->alloc(sizeof(*chunk));
	if (!chunk)
		return NULL;
	cd->spare = NULL;
	chunk->head = 0;
	chunk->tail = 0;
	list_add_tail(&chunk->list, &cd->chunks);
	return chunk;
}

static int dc__queue(struct callchain_deferred *cd, const union perf_event *event,
		     struct dc_entry *entry, unsigned int needs, u64 time, u64 file_offset,
		     const char *file_path)
{
	size_t size = sizeof(struct dc_event) + PERF_ALIGN(event->header.size, sizeof(u64));
	struct dc_chunk *chunk = dc__room(cd, size);
	struct dc_event *ev;

	if (!chunk)
		return -ENOMEM;

	ev = (struct dc_event *)(chunk->data + chunk->tail);
	chunk->tail += size;
	cd->held_bytes += size;

	ev->file_offset = file_offset;
	ev->file_path = file_path;
	ev->entry = entry;
	ev->needs = needs;
	ev->time = time;
	memcpy(ev->event, event, event->header.size);
	if (entry)
		dc_table__get(&cd->table, entry);
	return 0;
}

static int dc__deliver_first(struct callchain_deferred *cd, __u64 *missing)
{
	struct dc_event *ev = dc__first(cd);
	struct perf_sample sample;
	bool is_user = ev->event->header.type >= PERF_RECORD_USER_TYPE_START;
	int ret = is_user ? 0 : cd->ops->parse(cd->data, ev->event, &sample);

	if (ev->entry) {
		if (!ret)
			dc__merge(cd, ev->entry, ev->needs, &sample, missing);
		dc_table__put(&cd->table, ev->entry);
	}
	if (!ret)
		ret = cd->ops->deliver(cd->data, ev->event, is_user ? NULL : &sample,
				       ev->file_offset, ev->file_path);
	dc__remove_first(cd);
	return ret;
}

static bool dc__at_bound(const struct callchain_deferred *cd, const struct dc_event *ev)
{
	if (cd->held_bytes + cd->table.used_bytes > cd->limits.max_bytes)
		return true;

	return cd->limits.max_ns && ev->time != -1ULL && cd->last_time > ev->time &&
	       cd->last_time - ev->time > cd->limits.max_ns;
}

/* Deliver events up to the first waiting sample, or all events if @missing is set. */
static int dc__drain(struct callchain_deferred *cd, __u64 *missing)
{
	struct dc_event *ev;
	int ret;

	while ((ev = dc__first(cd)) != NULL) {
		bool waits = ev->entry && !dc_entry__has(ev->entry, ev->needs);

		cd->steps++;
		if (waits && !missing && !dc__at_bound(cd, ev))
			break;
		ret = dc__deliver_first(cd, missing ?: &cd->stats.late);
		if (ret)
			return ret;
	}
	return 0;
}

/* No memory to queue an event: deliver all queued events, to keep the order. */
static int dc__give_up(struct callchain_deferred *cd, struct dc_entry *entry,
		       struct perf_sample *sample, unsigned int needs)
{
	int ret;

	/* Hold @entry, because a delivery could evict it. */
	if (entry)
		dc_table__get(&cd->table, entry);
	ret = dc__drain(cd, &cd->stats.failed);
	if (!ret && needs)
		dc__merge(cd, entry, needs, sample, &cd->stats.failed);
	if (entry)
		dc_table__put(&cd->table, entry);
	return ret;
}

/* Which records does a sample lack? Its callchain, unless ops->needs() says otherwise. */
static unsigned int dc__needs(const struct callchain_deferred *cd,
			      const struct perf_sample *sample)
{
	if (!ip_callchain__is_deferred(sample->callchain))
		return 0;
	return cd->ops->needs ? cd->ops->needs(cd->data, sample) : CALLCHAIN_DEFERRED_CHAIN;
}

/**
 * callchain_deferred__feed - handle the next event
 * @cd: the object
 * @event: an event of the kernel
 * @sample: parsed from it; its callchain may be replaced until the next call
 * @file_offset: for a later delivery
 * @file_path: for a later delivery, must stay valid
 *
 * Return: 0 if the caller is to deliver the event now, 1 if not, or an error.
 */
int callchain_deferred__feed(struct callchain_deferred *cd, union perf_event *event,
			     struct perf_sample *sample, u64 file_offset, const char *file_path)
{
	unsigned int needs = event->header.type == PERF_RECORD_SAMPLE ?
			     dc__needs(cd, sample) : 0;
	bool holds = !cd->index;
	struct dc_entry *entry = NULL;
	int ret = 0;

	if (sample->time != -1ULL)
		cd->last_time = max(cd->last_time, sample->time);

	if (event->header.type == PERF_RECORD_CALLCHAIN_DEFERRED ||
	    event->header.type == PERF_RECORD_USER_STATE_DEFERRED) {
		if (holds && event->header.type == PERF_RECORD_CALLCHAIN_DEFERRED)
			ret = callchain_deferred__add(cd, &event->callchain_deferred, sample, true);
		else if (holds)
			ret = callchain_deferred__add_state(cd, event, sample, true);
		/* Without memory for the record, its samples are late or lost. */
		if (ret)
			pr_debug("no memory for a deferred callchain\n");
		return dc__drain(cd, NULL) ?: 1;
	}

	if (needs) {
		u64 cookie = sample->callchain->ips[sample->callchain->nr - 1];

		entry = holds ? dc_table__findnew(&cd->table, cookie, sample) :
				dc__find_in_index(cd, cookie, sample, needs);
	}

	if (!holds || (list_empty(&cd->chunks) && (!entry || dc_entry__has(entry, needs)))) {
		if (needs)
			dc__merge(cd, entry, needs, sample,
				  holds ? &cd->stats.failed : &cd->stats.lost);
		if (entry && holds)
			dc_table__touch(&cd->table, entry);
		return 0;
	}

	if ((needs && !entry) ||
	    dc__queue(cd, event, entry, needs, sample->time, file_offset, file_path))
		return dc__give_up(cd, entry, sample, needs);

	return dc__drain(cd, NULL) ?: 1;
}

/**
 * callchain_deferred__hold - handle an event that perf itself wrote
 * @cd: the object
 * @event: the event
 *
 * For events that must not overtake the queued ones.
 *
 * Return: 0 if the caller is to process the event now, 1 if not, or an error.
 */
int callchain_deferred__hold(struct callchain_deferred *cd, union perf_event *event)
{
	if (list_empty(&cd->chunks))
		return 0;
	if (dc__queue(cd, event, NULL, 0, -1ULL, 0, NULL))
		return dc__give_up(cd, NULL, NULL, 0);
	return dc__drain(cd, NULL) ?: 1;
}

/**
 * callchain_deferred__flush - deliver all queued events at the end of the data
 * @cd: the object
 *
 * Also counts the records that no sample asked for.
 *
 * Return: 0 or an error of the delivery.
 */
int callchain_deferred__flush(struct callchain_deferred *cd)
{
	int ret = dc__drain(cd, &cd->stats.lost);

	if (cd->index)
		cd->stats.foreign += dc_index__account_unused(cd->index);
	dc_table__account_unused(&cd->table);
	return ret;
}

const struct callchain_deferred_stats *
callchain_deferred__stats(const struct callchain_deferred *cd)
{
	return &cd->stats;
}

size_t callchain_deferred__held_bytes(const struct callchain_deferred *cd)
{
	return cd->held_bytes + cd->table.used_bytes + cd->table.lru_bytes +
	       (cd->index ? dc_index__bytes(cd->index) : 0);
}

/* The work so far: number of entries, records and events that were visited or moved. */
u64 callchain_deferred__steps(const struct callchain_deferred *cd)
{
	return cd->steps + cd->table.steps + (cd->index ? dc_index__steps(cd->index) : 0);
}

/**
 * callchain_deferred__new - create an object
 * @ops: see struct callchain_deferred_ops
 * @data: argument of @ops
 * @limits: see struct callchain_deferred_limits
 *
 * Return: the object or NULL if there is no memory.
 */
struct callchain_deferred *
callchain_deferred__new(const struct callchain_deferred_ops *ops, void *data,
			const struct callchain_deferred_limits *limits)
{
	struct callchain_deferred *cd = zalloc(sizeof(*cd));

	if (!cd)
		return NULL;

	cd->ops = ops;
	cd->alloc = ops->alloc ?: malloc;
	cd->data = data;
	cd->limits = *limits;
	INIT_LIST_HEAD(&cd->chunks);
	if (!limits->max_bytes)
		cd->index = dc_index__new(cd->alloc);
	if (dc_table__init(&cd->table, cd->alloc, limits->max_bytes, &cd->stats) ||
	    (!limits->max_bytes && !cd->index)) {
		callchain_deferred__delete(cd);
		return NULL;
	}
	return cd;
}

void callchain_deferred__delete(struct callchain_deferred *cd)
{
	struct dc_chunk *chunk, *tmp_chunk;

	if (!cd)
		return;

	dc_index__delete(cd->index);
	dc_table__exit(&cd->table);
	list_for_each_entry_safe(chunk, tmp_chunk, &cd->chunks, list)
		free(chunk);
	free(cd->spare);
	free(cd);
}
