/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_CALLCHAIN_DEFERRED_TABLE_H
#define __PERF_CALLCHAIN_DEFERRED_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/list.h>
#include <linux/types.h>

struct callchain_deferred_stats;
struct dc_slab;
struct perf_record_callchain_deferred;
struct perf_sample;
union perf_event;

/**
 * struct dc_entry - records of one cookie
 * @hash: link in the table, or in the list of free entries
 * @lru: link in the list of entries that no held sample refers to
 * @cookie: key
 * @tid: key, -1 if not known
 * @machine_pid: key, 0 for the host
 * @refs: number of held samples that refer to this
 * @nr: number of addresses
 * @known: the records that the entry has, CALLCHAIN_DEFERRED_*
 * @cut: the kernel cut the chain at its depth limit
 * @early: the walk did not reach a frame known to be the outermost
 * @hit: a sample asked for it
 * @ips: the addresses
 * @state: the record of registers and stack
 * @mask: mask of its registers
 */
struct dc_entry {
	struct hlist_node	hash;
	struct list_head	lru;
	u64			cookie;
	u32			tid;
	u32			machine_pid;
	u32			refs;
	u32			nr;
	u8			known;
	bool			cut;
	bool			early;
	bool			hit;
	const u64		*ips;
	const union perf_event	*state;
	u64			mask;
};

/**
 * struct dc_table - entries by cookie
 * @alloc: malloc(), or the allocator of a test
 * @max_bytes: limit of @lru_bytes
 * @stats: counts records that are dropped, evicted or duplicate
 * @buckets: heads of lists of entries
 * @hash_bits: number of buckets, as a power of 2
 * @hash_seed: keeps crafted data from choosing buckets
 * @nr: number of entries in buckets
 * @slabs: memory of all entries
 * @free: entries in no bucket
 * @lru: entries that no held sample refers to, least recently used first
 * @lru_bytes: size of entries in @lru, with their records
 * @used_bytes: size of all other entries, with their records
 * @steps: number of entries that were visited, moved or evicted
 */
struct dc_table {
	void			*(*alloc)(size_t size);
	size_t			max_bytes;
	struct callchain_deferred_stats *stats;
	struct hlist_head	*buckets;
	unsigned int		hash_bits;
	u64			hash_seed;
	u64			nr;
	struct dc_slab		*slabs;
	struct hlist_head	free;
	struct list_head	lru;
	size_t			lru_bytes;
	size_t			used_bytes;
	u64			steps;
};

int dc_table__init(struct dc_table *table, void *(*alloc)(size_t size), size_t max_bytes,
		   struct callchain_deferred_stats *stats);
void dc_table__exit(struct dc_table *table);
struct dc_entry *dc_table__findnew(struct dc_table *table, u64 cookie,
				   const struct perf_sample *sample);
int dc_table__add(struct dc_table *table, const struct perf_record_callchain_deferred *rec,
		  const struct perf_sample *sample, bool cut);
int dc_table__add_state(struct dc_table *table, const union perf_event *event,
			const struct perf_sample *sample, u64 mask);
void dc_table__touch(struct dc_table *table, struct dc_entry *entry);
void dc_table__get(struct dc_table *table, struct dc_entry *entry);
void dc_table__put(struct dc_table *table, struct dc_entry *entry);
void dc_table__account_unused(struct dc_table *table);

/* Does the entry have all of the records @what, CALLCHAIN_DEFERRED_*? */
static inline bool dc_entry__has(const struct dc_entry *entry, unsigned int what)
{
	return entry && (entry->known & what) == what;
}

#endif /* __PERF_CALLCHAIN_DEFERRED_TABLE_H */
