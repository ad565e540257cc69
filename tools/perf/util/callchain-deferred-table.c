// SPDX-License-Identifier: GPL-2.0
/*
 * Table of cookies for a pipe or live data: of waiting samples, and of past records.
 *
 * The first sample or record with a cookie creates its entry. Each held sample has a
 * reference to its entry. Entries without references are in the LRU list, which is
 * bounded by bytes: the least recently used entry is evicted first. Entries with
 * references are counted here and bounded by the owner of the samples. Entries are
 * allocated from slabs, which live as long as the table.
 *
 * Several tasks may have the same cookie, but only crafted data has more than a few
 * of them. Beyond that number, records are dropped, so that adding and finding a
 * record take constant time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <perf/event.h>

#include "callchain-deferred.h"
#include "callchain-deferred-index.h"
#include "callchain-deferred-table.h"

#define SLAB_ENTRIES		1024
#define MIN_HASH_BITS		8

struct dc_slab {
	struct dc_slab		*next;
	struct dc_entry		entries[SLAB_ENTRIES];
};

static struct hlist_head *dc_table__bucket(const struct dc_table *table, u64 cookie)
{
	u64 hash = (cookie ^ table->hash_seed) * 0x9e3779b97f4a7c15ULL;

	hash = (hash ^ (hash >> 32)) * 0xd6e8feb86659fd93ULL;
	return &table->buckets[hash >> (64 - table->hash_bits)];
}

static int dc_table__grow(struct dc_table *table, unsigned int bits)
{
	struct hlist_head *buckets = calloc(1UL << bits, sizeof(*buckets));
	struct hlist_head *old = table->buckets;
	size_t i, nr_old = old ? 1UL << table->hash_bits : 0;

	if (!buckets)
		return -ENOMEM;

	table->buckets = buckets;
	table->hash_bits = bits;
	for (i = 0; i < nr_old; i++) {
		struct hlist_node *tmp;
		struct dc_entry *pos;

		hlist_for_each_entry_safe(pos, tmp, &old[i], hash) {
			hlist_add_head(&pos->hash, dc_table__bucket(table, pos->cookie));
			table->steps++;
		}
	}
	free(old);
	return 0;
}

static struct dc_entry *dc_table__alloc_entry(struct dc_table *table)
{
	struct dc_entry *entry;
	struct dc_slab *slab;
	int i;

	if (hlist_empty(&table->free)) {
		slab = table->alloc(sizeof(*slab));
		if (!slab)
			return NULL;
		slab->next = table->slabs;
		table->slabs = slab;
		for (i = 0; i < SLAB_ENTRIES; i++)
			hlist_add_head(&slab->entries[i].hash, &table->free);
	}

	entry = hlist_entry(table->free.first, struct dc_entry, hash);
	hlist_del(&entry->hash);
	memset(entry, 0, sizeof(*entry));
	INIT_LIST_HEAD(&entry->lru);
	return entry;
}

/* Find the task's entry, if any; otherwise, @nr_same is the number of other tasks' ones. */
static struct dc_entry *dc_table__find(struct dc_table *table, u64 cookie,
				       const struct perf_sample *sample, int *nr_same)
{
	struct dc_entry *pos;

	*nr_same = 0;
	hlist_for_each_entry(pos, dc_table__bucket(table, cookie), hash) {
		table->steps++;
		if (pos->cookie != cookie)
			continue;
		++*nr_same;
		if (pos->machine_pid == sample->machine_pid && dc_same_tid(pos->tid, sample->tid))
			return pos;
	}
	return NULL;
}

/**
 * dc_table__findnew - find or create the entry of a cookie
 * @table: the table
 * @cookie: cookie of a sample or a record
 * @sample: its task, as far as known
 *
 * A new entry has no records and is not in the LRU list.
 *
 * Return: the entry, or NULL if there is no memory or too many tasks have the cookie.
 */
struct dc_entry *dc_table__findnew(struct dc_table *table, u64 cookie,
				   const struct perf_sample *sample)
{
	int nr_same;
	struct dc_entry *entry = dc_table__find(table, cookie, sample, &nr_same);

	if (entry || nr_same >= DC_MAX_SAME_COOKIE)
		return entry;

	/* If this fails, the table is just slower. */
	if (table->nr >= 2ULL << table->hash_bits)
		dc_table__grow(table, table->hash_bits + 2);

	entry = dc_table__alloc_entry(table);
	if (!entry)
		return NULL;
	entry->cookie = cookie;
	entry->tid = sample->tid;
	entry->machine_pid = sample->machine_pid;
	hlist_add_head(&entry->hash, dc_table__bucket(table, cookie));
	table->nr++;
	return entry;
}

static size_t dc_entry__bytes(const struct dc_entry *entry)
{
	size_t size = sizeof(*entry);

	if (entry->ips)
		size += entry->nr * sizeof(u64);
	if (entry->state)
		size += entry->state->header.size;
	return size;
}

static void dc_entry__free(struct dc_entry *entry, unsigned int what)
{
	if (what & CALLCHAIN_DEFERRED_CHAIN) {
		free((void *)entry->ips);
		entry->ips = NULL;
	}
	if (what & CALLCHAIN_DEFERRED_STATE) {
		free((void *)entry->state);
		entry->state = NULL;
	}
}

static void dc_table__account_entry(struct dc_table *table, const struct dc_entry *entry)
{
	if (entry->known && !entry->hit)
		table->stats->foreign++;
}

static void dc_table__evict(struct dc_table *table, struct dc_entry *entry)
{
	dc_table__account_entry(table, entry);
	table->steps++;
	table->lru_bytes -= dc_entry__bytes(entry);
	list_del(&entry->lru);
	hlist_del(&entry->hash);
	table->nr--;
	dc_entry__free(entry, CALLCHAIN_DEFERRED_BOTH);
	hlist_add_head(&entry->hash, &table->free);
}

/* Make @entry the last one to be evicted. Entries with references are not in the list. */
void dc_table__touch(struct dc_table *table, struct dc_entry *entry)
{
	if (entry->refs)
		return;

	if (list_empty(&entry->lru))
		table->lru_bytes += dc_entry__bytes(entry);
	list_move_tail(&entry->lru, &table->lru);

	while (table->lru_bytes > table->max_bytes && !list_is_singular(&table->lru))
		dc_table__evict(table, list_first_entry(&table->lru, struct dc_entry, lru));
}

void dc_table__get(struct dc_table *table, struct dc_entry *entry)
{
	if (entry->refs++)
		return;

	table->used_bytes += dc_entry__bytes(entry);
	if (!list_empty(&entry->lru)) {
		table->lru_bytes -= dc_entry__bytes(entry);
		list_del_init(&entry->lru);
	}
}

void dc_table__put(struct dc_table *table, struct dc_entry *entry)
{
	if (!--entry->refs)
		table->used_bytes -= dc_entry__bytes(entry);
	dc_table__touch(table, entry);
}

/* Until dc_table__end_change(), the entry's size may change and is not accounted. */
static void dc_table__begin_change(struct dc_table *table, struct dc_entry *entry)
{
	dc_table__get(table, entry);
	table->used_bytes -= dc_entry__bytes(entry);
}

static void dc_table__end_change(struct dc_table *table, struct dc_entry *entry)
{
	table->used_bytes += dc_entry__bytes(entry);
	dc_table__put(table, entry);
}

/* Get the entry for a record of kind @what. If there is none, @rc is the result. */
static struct dc_entry *dc_table__entry_of_record(struct dc_table *table, u64 cookie,
						  const struct perf_sample *sample,
						  unsigned int what, int *rc)
{
	struct dc_entry *entry = dc_table__findnew(table, cookie, sample);
	int nr_same;

	*rc = 0;
	if (!entry) {
		dc_table__find(table, cookie, sample, &nr_same);
		if (nr_same < DC_MAX_SAME_COOKIE)
			*rc = -ENOMEM;
		else
			table->stats->foreign++;
	} else if (entry->known & what) {
		table->stats->duplicate++;
	}
	return entry;
}

/**
 * dc_table__add - add a copy of a callchain
 * @table: the table
 * @rec: checked by perf_event__check_callchain_deferred()
 * @sample: its task, as far as known
 * @cut: the kernel cut the chain at its depth limit
 *
 * Of records that repeat each other, the longest is kept.
 *
 * Return: 0 or -ENOMEM.
 */
int dc_table__add(struct dc_table *table, const struct perf_record_callchain_deferred *rec,
		  const struct perf_sample *sample, bool cut)
{
	const u64 *ips = NULL;
	struct dc_entry *entry;
	int rc;

	entry = dc_table__entry_of_record(table, rec->cookie, sample, CALLCHAIN_DEFERRED_CHAIN,
					  &rc);
	if (!entry)
		return rc;
	if (entry->known & CALLCHAIN_DEFERRED_CHAIN && entry->nr >= rec->nr)
		return 0;

	if (rec->nr) {
		u64 *dup = table->alloc(rec->nr * sizeof(u64));

		if (!dup)
			return -ENOMEM;
		ips = memcpy(dup, rec->ips, rec->nr * sizeof(u64));
	}

	dc_table__begin_change(table, entry);
	dc_entry__free(entry, CALLCHAIN_DEFERRED_CHAIN);
	entry->ips = ips;
	entry->nr = rec->nr;
	entry->cut = cut;
	entry->early = rec->header.misc & PERF_RECORD_MISC_CALLCHAIN_EARLY;
	entry->known |= CALLCHAIN_DEFERRED_CHAIN;
	dc_table__end_change(table, entry);
	return 0;
}

/**
 * dc_table__add_state - add a copy of a record of registers and stack
 * @table: the table
 * @event: checked by perf_event__check_user_state()
 * @sample: its task, as far as known
 * @mask: its registers
 *
 * Of records that repeat each other, the longest is kept.
 *
 * Return: 0 or -ENOMEM.
 */
int dc_table__add_state(struct dc_table *table, const union perf_event *event,
			const struct perf_sample *sample, u64 mask)
{
	size_t size = event->header.size;
	struct dc_entry *entry;
	void *dup;
	int rc;

	entry = dc_table__entry_of_record(table, event->user_state_deferred.cookie, sample,
					  CALLCHAIN_DEFERRED_STATE, &rc);
	if (!entry)
		return rc;
	if (entry->state && entry->state->header.size >= size)
		return 0;

	dup = table->alloc(size);
	if (!dup)
		return -ENOMEM;

	dc_table__begin_change(table, entry);
	dc_entry__free(entry, CALLCHAIN_DEFERRED_STATE);
	entry->state = memcpy(dup, event, size);
	entry->mask = mask;
	entry->known |= CALLCHAIN_DEFERRED_STATE;
	dc_table__end_change(table, entry);
	return 0;
}

/* Count the records that no sample asked for since the last call. */
void dc_table__account_unused(struct dc_table *table)
{
	size_t i;

	for (i = 0; i < 1UL << table->hash_bits; i++) {
		struct dc_entry *pos;

		hlist_for_each_entry(pos, &table->buckets[i], hash) {
			dc_table__account_entry(table, pos);
			pos->hit = true;
		}
	}
}

/**
 * dc_table__init - initialize an empty table
 * @table: the table, zeroed
 * @alloc: allocator for entries and copies
 * @max_bytes: see struct dc_table
 * @stats: see struct dc_table
 *
 * Return: 0 or -ENOMEM.
 */
int dc_table__init(struct dc_table *table, void *(*alloc)(size_t size), size_t max_bytes,
		   struct callchain_deferred_stats *stats)
{
	table->alloc = alloc;
	table->max_bytes = max_bytes;
	table->stats = stats;
	table->hash_seed = (u64)getpid() << 32 ^ (unsigned long)table;
	INIT_LIST_HEAD(&table->lru);
	return dc_table__grow(table, MIN_HASH_BITS);
}

/* May be called after dc_table__init() failed, too. */
void dc_table__exit(struct dc_table *table)
{
	struct dc_slab *slab;
	size_t i;

	for (i = 0; table->buckets && i < 1UL << table->hash_bits; i++) {
		struct dc_entry *pos;

		hlist_for_each_entry(pos, &table->buckets[i], hash)
			dc_entry__free(pos, CALLCHAIN_DEFERRED_BOTH);
	}
	free(table->buckets);

	while ((slab = table->slabs) != NULL) {
		table->slabs = slab->next;
		free(slab);
	}
}
