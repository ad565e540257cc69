// SPDX-License-Identifier: GPL-2.0
/*
 * Whatever random events write to their buffers must be well-formed: each record, each
 * deferred callchain and user state, each marker with a cookie at the end of a sample.
 *
 * Do not trust any field in a buffer before checking it. How much of a record can be
 * checked depends on its slot, because other events may write to the same buffer.
 */
#include <string.h>

#include "fuzz_records.h"
#include "perf_ring.h"
#include "../../kselftest.h"

struct seen seen;

static union record record;

void complain(const struct slot *slot, const char *what)
{
	__u64 flags;

	memcpy(&flags, (const char *)&slot->attr + FLAGS_OFFSET, sizeof(flags));
	seen.bad++;
	ksft_print_msg("%s: record %u size %u\n", what, record.header.type,
		       record.header.size);
	ksft_print_msg("attr: type %u config %llx sample_type %llx flags %llx\n",
		       slot->attr.type, slot->attr.config, slot->attr.sample_type, flags);
	ksft_print_msg("attr: read_format %llx sample_max_stack %u\n",
		       slot->attr.read_format, slot->attr.sample_max_stack);
}

/* Bytes of the sample_id at the end of a record. */
static size_t id_size(const struct perf_event_attr *attr)
{
	__u64 fields = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID |
		       PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER;

	return attr->sample_id_all ? 8 * __builtin_popcountll(attr->sample_type & fields) : 0;
}

/* Number of words of the PERF_SAMPLE_READ at @words. */
static unsigned int read_words(const struct perf_event_attr *attr, const __u64 *words)
{
	__u64 format = attr->read_format;
	unsigned int times = !!(format & PERF_FORMAT_TOTAL_TIME_ENABLED) +
			     !!(format & PERF_FORMAT_TOTAL_TIME_RUNNING);
	unsigned int each = 1 + !!(format & PERF_FORMAT_ID) + !!(format & PERF_FORMAT_LOST);

	return format & PERF_FORMAT_GROUP ? 1 + times + each * (__u32)words[0] : times + each;
}

/* The cookie of a kernel entry: an odd count, and a CPU number counted from 1. */
static bool is_cookie(__u64 cookie)
{
	return (cookie >> 32 & 1) && (__u32)cookie;
}

/*
 * A task's kernel entries come one after the other, and each is recorded once. In the buffer
 * of a CPU a record may come again, because another buffer has not had it yet, but only after
 * another entry's record and with the same addresses, or none if registers have changed.
 */
static void check_repeat(const struct slot *slot, struct history *old, __u64 cookie, __u64 sum)
{
	unsigned int at = old->nr % OLD_COOKIES;

	for (unsigned int i = 0; i < OLD_COOKIES && i < old->nr; i++) {
		if (old->cookie[i] != cookie)
			continue;
		if (slot->one_task || (i + 1) % OLD_COOKIES == at)
			complain(slot, "a second record for one kernel entry");
		else if (sum && old->sum[i] && sum != old->sum[i])
			complain(slot, "one cookie for two stacks");
	}
	old->cookie[at] = cookie;
	old->sum[at] = sum;
	old->nr++;
}

static void check_callchain(const struct slot *slot, const __u64 *words, size_t room)
{
	const struct perf_event_attr *attr = &slot->attr;
	__u64 nr = words[0];

	if (!room || nr >= room) {
		complain(slot, "a callchain does not fit its sample");
		return;
	}
	for (__u64 i = 1; i <= nr; i++) {
		if (words[i] != PERF_CONTEXT_USER_DEFERRED)
			continue;
		seen.markers++;
		if (i + 1 != nr || !is_cookie(words[nr]))
			complain(slot, "marker and cookie are not last");
		else if (!attr->defer_user_state &&
			 (!attr->defer_callchain || attr->exclude_callchain_user))
			complain(slot, "nobody asked for this marker");
		return;
	}
}

static void check_sample(const struct slot *slot)
{
	/* All fields of one word that precede the callchain. */
	__u64 fields = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID |
		       PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_ID |
		       PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD;
	const struct perf_event_attr *attr = &slot->attr;
	unsigned int at = 1 + __builtin_popcountll(attr->sample_type & fields);

	seen.samples++;
	if (!(attr->sample_type & PERF_SAMPLE_CALLCHAIN))
		return;
	if (attr->sample_type & PERF_SAMPLE_READ)
		at += read_words(attr, record.words + at);
	if (at * 8 >= record.header.size)
		complain(slot, "no room for a callchain");
	else
		check_callchain(slot, record.words + at, record.header.size / 8 - at);
}

static void check_deferred(struct slot *slot)
{
	const struct deferred *deferred = as_deferred(&record);
	size_t size = record.header.size, want = sizeof(*deferred) + deferred->nr * 8;
	__u64 sum = deferred->nr;

	seen.deferred++;
	if (!is_cookie(deferred->cookie))
		complain(slot, "no cookie");
	if (deferred->nr > size || want > size || want + 48 < size)
		complain(slot, "the number of addresses does not fit the size");
	if (slot->mixed)
		return;
	if (!slot->attr.defer_output)
		complain(slot, "nobody asked for this record");
	if (want + id_size(&slot->attr) != size)
		complain(slot, "size and sample_id do not match");
	if (deferred->nr > MAX_STACK ||
	    (slot->attr.sample_max_stack && deferred->nr > slot->attr.sample_max_stack))
		complain(slot, "too many addresses");
	for (__u64 i = 0; i < deferred->nr && i < size / 8; i++) {
		/* With five-level page tables other tasks may have code above 47 bits. */
		if (deferred->ips[i] >> (slot->one_task ? 47 : 56))
			complain(slot, "a kernel address in a user callchain");
		sum = sum * 31 + deferred->ips[i];
	}
	check_repeat(slot, &slot->chains, deferred->cookie, sum);
}

static void check_state(struct slot *slot)
{
	const struct perf_event_attr *attr = &slot->attr;
	__u64 mask = attr->sample_type & PERF_SAMPLE_REGS_USER ? attr->sample_regs_user : 0;
	/* Cookie, ip, sp and abi follow the header. */
	__u64 abi = record.words[4], *at = record.words + 5;
	size_t room = record.header.size / 8, words = 6;

	seen.states++;
	if (room < words) {
		complain(slot, "a user state that is too short");
		return;
	}
	if (!is_cookie(record.words[1]))
		complain(slot, "no cookie");
	if (slot->mixed)
		return;
	if (!attr->defer_output || !attr->defer_user_state)
		complain(slot, "nobody asked for this record");
	if (abi) {
		at += __builtin_popcountll(mask);
		words += __builtin_popcountll(mask);
	}
	if (words > room || at[0] > attr->sample_stack_user || at[0] % 8) {
		complain(slot, "a user state without a stack size");
		return;
	}
	if (at[0])
		words += at[0] / 8 + 1;
	if (words * 8 + id_size(attr) != record.header.size)
		complain(slot, "the size of a user state is not that of its parts");
	else if (at[0] && at[1 + at[0] / 8] > at[0])
		complain(slot, "there is more of the stack than it says");
	if (record.header.misc & PERF_RECORD_MISC_USER_STATE_CHANGED ? abi || at[0] :
	    abi != PERF_SAMPLE_REGS_ABI_32 && abi != PERF_SAMPLE_REGS_ABI_64)
		complain(slot, "registers or stack of another place, or none of this one");
	check_repeat(slot, &slot->states, record.words[1], 0);
}

/* Like ring_next(), but trusts no field. */
static bool next_record(struct slot *slot)
{
	struct ring ring = { .meta = slot->map, .data_size = slot->size };
	__u64 head = __atomic_load_n(&slot->map->data_head, __ATOMIC_ACQUIRE);
	__u64 tail = slot->map->data_tail;
	const struct perf_event_header *header;

	if (head == tail)
		return false;
	header = (void *)((char *)slot->map + PAGE + tail % slot->size);
	if (head - tail > slot->size || header->size < sizeof(*header) || header->size % 8 ||
	    header->size > head - tail || !header->type ||
	    (header->type >= PERF_RECORD_MAX &&
	     header->type != PERF_RECORD_USER_STATE_DEFERRED)) {
		record.header = *header;
		complain(slot, "a record that is none");
		slot->readable = false;
		return false;
	}
	return ring_next(&ring, &record);
}

void read_slot(struct slot *slot)
{
	/* Limit the number: tasks may write as fast as this loop reads. */
	for (int i = 0; i < 3000 && slot->map && slot->readable && next_record(slot); i++) {
		seen.records++;
		if (record.header.type == PERF_RECORD_CALLCHAIN_DEFERRED)
			check_deferred(slot);
		else if (record.header.type == PERF_RECORD_USER_STATE_DEFERRED)
			check_state(slot);
		else if (record.header.type == PERF_RECORD_SAMPLE && !slot->mixed)
			check_sample(slot);
		else if (record.header.type == PERF_RECORD_LOST)
			seen.lost += record.words[2];
	}
}
