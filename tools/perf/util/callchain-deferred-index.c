// SPDX-License-Identifier: GPL-2.0
/*
 * Index of a file's records by cookie.
 *
 * A file may have tens of millions of records, so an index entry takes 20 bytes, plus up
 * to two bytes in the table of buckets. Record data is read from the mapping of the
 * file, even the cookie. A record that was compressed, or that is in the other byte
 * order, is copied and takes the space of the whole record as well: 8 KB for each stack
 * of that size. (The reader also keeps the data that it uncompressed.) Records are never
 * removed; copies are in large chunks, which are freed with the index.
 *
 * Several tasks may have the same cookie, but only crafted data has more than a few
 * of them. Beyond that number, records are dropped, so that adding and finding a
 * record take constant time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/kernel.h>
#include <linux/zalloc.h>
#include <perf/event.h>

#include "callchain-deferred-index.h"
#include "event.h"
#include "sample.h"

#define SLAB_BITS		12
#define SLAB_RECORDS		BIT(SLAB_BITS)
#define SLAB_MASK		(SLAB_RECORDS - 1)
#define MAX_RECORDS		((1U << 28) - 1)
#define COPIES_SIZE		(1024 * 1024)
#define MIN_HASH_BITS		8
/* Average number of records in a bucket before the table grows. */
#define BUCKET_RECORDS		4

/**
 * struct dc_record - one record
 * @event: the record
 * @hash: hash of the cookie and the pid of the machine
 * @tid: tid of the task, -1 if not known
 * @next: next record in the bucket, 0 for none; record numbers begin with 1
 * @is_state: record of registers and stack, not of a callchain
 * @cut: the kernel cut the chain at its depth limit
 * @hit: a sample asked for it
 */
struct dc_record {
	const union perf_event	*event;
	u32			hash;
	u32			tid;
	u32			next : 28;
	u32			is_state : 1;
	u32			cut : 1;
	u32			hit : 1;
} __packed __aligned(4);

static_assert(sizeof(struct dc_record) <= 20);

struct dc_copies {
	struct dc_copies	*next;
	size_t			used;
	char			data[COPIES_SIZE] __aligned(8);
};

/**
 * struct dc_index - all records of a file
 * @alloc: malloc(), or the allocator of a test
 * @slabs: slabs of SLAB_RECORDS records each
 * @nr: number of records
 * @nr_slabs: capacity of @slabs
 * @buckets: number of the first record in each bucket
 * @hash_bits: number of buckets, as a power of 2
 * @hash_seed: keeps crafted files from choosing buckets
 * @copies: list of chunks, the one with free space first
 * @steps: number of records that were visited or put in a bucket
 */
struct dc_index {
	void			*(*alloc)(size_t size);
	struct dc_record	**slabs;
	u32			nr;
	u32			nr_slabs;
	u32			*buckets;
	unsigned int		hash_bits;
	u64			hash_seed;
	struct dc_copies	*copies;
	u64			steps;
};

/* @nr is at least 1. */
static struct dc_record *dc_index__record(const struct dc_index *index, u32 nr)
{
	return &index->slabs[(nr - 1) >> SLAB_BITS][(nr - 1) & SLAB_MASK];
}

/*
 * Guests and the host have independent cookies. A record does not have the pid of its machine:
 * only the hash tells equal cookies of two machines apart.
 */
static u32 dc_hash(const struct dc_index *index, u64 cookie, const struct perf_sample *sample)
{
	u64 hash = (cookie ^ index->hash_seed) * 0x9e3779b97f4a7c15ULL + sample->machine_pid;

	hash = (hash ^ (hash >> 32)) * 0xd6e8feb86659fd93ULL;
	return hash >> 32;
}

static u32 *dc_index__bucket(const struct dc_index *index, u32 hash)
{
	return &index->buckets[hash >> (32 - index->hash_bits)];
}

/* Both types of records have it in the same place. */
static u64 dc_cookie(const union perf_event *event)
{
	return event->callchain_deferred.cookie;
}

static void dc_index__link(struct dc_index *index, u32 nr)
{
	struct dc_record *rec = dc_index__record(index, nr);
	u32 *bucket = dc_index__bucket(index, rec->hash);

	index->steps++;
	rec->next = *bucket;
	*bucket = nr;
}

static int dc_index__set_buckets(struct dc_index *index, unsigned int bits)
{
	u32 *buckets = calloc(1UL << bits, sizeof(*buckets)), nr;

	if (!buckets)
		return -ENOMEM;

	free(index->buckets);
	index->buckets = buckets;
	index->hash_bits = bits;
	for (nr = 1; nr <= index->nr; nr++)
		dc_index__link(index, nr);
	return 0;
}

/* Make room for one more record. */
static int dc_index__grow(struct dc_index *index)
{
	u32 slab = index->nr >> SLAB_BITS;

	if (index->nr & SLAB_MASK)
		return 0;
	if (index->nr >= MAX_RECORDS - SLAB_RECORDS)
		return -ENOMEM;

	if (slab == index->nr_slabs) {
		u32 nr_slabs = index->nr_slabs * 2 ?: 16;
		void *slabs = realloc(index->slabs, nr_slabs * sizeof(*index->slabs));

		if (!slabs)
			return -ENOMEM;
		index->slabs = slabs;
		index->nr_slabs = nr_slabs;
	}

	index->slabs[slab] = index->alloc(SLAB_RECORDS * sizeof(struct dc_record));
	if (!index->slabs[slab])
		return -ENOMEM;

	/* If this fails, the index is just slower. */
	if (index->nr >> index->hash_bits >= BUCKET_RECORDS)
		dc_index__set_buckets(index, index->hash_bits + 1);
	return 0;
}

static const union perf_event *dc_index__copy(struct dc_index *index,
					      const union perf_event *event)
{
	size_t size = PERF_ALIGN(event->header.size, sizeof(u64));
	struct dc_copies *copies = index->copies;
	void *copy;

	if (!copies || COPIES_SIZE - copies->used < size) {
		copies = index->alloc(sizeof(*copies));
		if (!copies)
			return NULL;
		copies->used = 0;
		copies->next = index->copies;
		index->copies = copies;
	}

	copy = copies->data + copies->used;
	copies->used += size;
	return memcpy(copy, event, event->header.size);
}

/* Find the task's record, if any; otherwise, @nr_same is the number of other tasks' ones. */
static struct dc_record *dc_index__find_like(struct dc_index *index, u64 cookie,
					     const struct dc_record *like, int *nr_same)
{
	struct dc_record *pos;
	u32 nr;

	*nr_same = 0;
	for (nr = *dc_index__bucket(index, like->hash); nr; nr = pos->next) {
		pos = dc_index__record(index, nr);
		index->steps++;
		if (pos->hash != like->hash || pos->is_state != like->is_state ||
		    dc_cookie(pos->event) != cookie)
			continue;
		++*nr_same;
		if (dc_same_tid(pos->tid, like->tid))
			return pos;
	}
	return NULL;
}

/* The size of a record, to compare it with one that it repeats. */
static u64 dc_record__size(const union perf_event *event)
{
	return event->header.type == PERF_RECORD_USER_STATE_DEFERRED ?
	       event->header.size : event->callchain_deferred.nr;
}

/**
 * dc_index__add - add a record
 * @index: the index
 * @event: PERF_RECORD_CALLCHAIN_DEFERRED or PERF_RECORD_USER_STATE_DEFERRED, checked
 * @sample: its task, as far as known
 * @cut: the kernel cut the chain at its depth limit
 * @copy: false if @event stays valid
 *
 * Of records that repeat each other, the longest is kept.
 *
 * Return: DC_INDEX_* or -ENOMEM.
 */
int dc_index__add(struct dc_index *index, const union perf_event *event,
		  const struct perf_sample *sample, bool cut, bool copy)
{
	bool is_state = event->header.type == PERF_RECORD_USER_STATE_DEFERRED;
	u64 cookie = dc_cookie(event);
	struct dc_record new = {
		.hash	  = dc_hash(index, cookie, sample),
		.tid	  = sample->tid,
		.is_state = is_state,
	};
	struct dc_record *rec;
	int nr_same, ret;

	rec = dc_index__find_like(index, cookie, &new, &nr_same);
	if (!rec && nr_same >= DC_MAX_SAME_COOKIE)
		return DC_INDEX_FOREIGN;
	if (rec && dc_record__size(rec->event) >= dc_record__size(event))
		return DC_INDEX_DUPLICATE;

	new.event = copy ? dc_index__copy(index, event) : event;
	if (!new.event)
		return -ENOMEM;
	new.cut = cut;

	if (rec) {
		rec->event = new.event;
		rec->cut = new.cut;
		return DC_INDEX_DUPLICATE;
	}

	ret = dc_index__grow(index);
	if (ret)
		return ret;
	*dc_index__record(index, ++index->nr) = new;
	dc_index__link(index, index->nr);
	return DC_INDEX_NEW;
}

/**
 * dc_index__find - find a record of a sample
 * @index: the index
 * @cookie: cookie of the sample
 * @sample: its task, as far as known
 * @is_state: find the record of registers and stack, not the callchain
 * @cut: set if a record is found, see dc_index__add()
 *
 * Return: the record or NULL if there is none.
 */
const union perf_event *dc_index__find(struct dc_index *index, u64 cookie,
				       const struct perf_sample *sample, bool is_state,
				       bool *cut)
{
	const struct dc_record like = {
		.hash	  = dc_hash(index, cookie, sample),
		.tid	  = sample->tid,
		.is_state = is_state,
	};
	struct dc_record *rec;
	int nr_same;

	rec = dc_index__find_like(index, cookie, &like, &nr_same);
	if (!rec)
		return NULL;

	rec->hit = true;
	*cut = rec->cut;
	return rec->event;
}

/* Count the records that no sample asked for since the last call. */
u64 dc_index__account_unused(struct dc_index *index)
{
	u64 unused = 0;
	u32 nr;

	for (nr = 1; nr <= index->nr; nr++) {
		struct dc_record *rec = dc_index__record(index, nr);

		unused += !rec->hit;
		rec->hit = true;
	}
	return unused;
}

/**
 * dc_index__new - create an index
 * @alloc: allocator for records and copies
 *
 * Return: the index or NULL if there is no memory.
 */
struct dc_index *dc_index__new(void *(*alloc)(size_t size))
{
	struct dc_index *index = zalloc(sizeof(*index));

	if (!index)
		return NULL;

	index->alloc = alloc;
	index->hash_seed = (u64)getpid() << 32 ^ (unsigned long)index;
	if (dc_index__set_buckets(index, MIN_HASH_BITS)) {
		free(index);
		return NULL;
	}
	return index;
}

size_t dc_index__bytes(const struct dc_index *index)
{
	size_t bytes = round_up((size_t)index->nr, SLAB_RECORDS) * sizeof(struct dc_record);
	const struct dc_copies *copies;

	for (copies = index->copies; copies; copies = copies->next)
		bytes += sizeof(*copies);
	return bytes + (sizeof(*index->buckets) << index->hash_bits);
}

u64 dc_index__steps(const struct dc_index *index)
{
	return index->steps;
}

void dc_index__delete(struct dc_index *index)
{
	struct dc_copies *copies;
	u32 nr;

	if (!index)
		return;

	for (nr = 0; nr < index->nr; nr += SLAB_RECORDS)
		free(index->slabs[nr >> SLAB_BITS]);
	free(index->slabs);
	while ((copies = index->copies) != NULL) {
		index->copies = copies->next;
		free(copies);
	}
	free(index->buckets);
	free(index);
}
