// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user registers and stacks: broken and crafted records, and merging records
 * into samples.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>

#include "util/callchain-deferred.h"
#include "debug.h"
#include "event.h"
#include "evlist.h"
#include "evsel.h"
#include "tests.h"
#include "user-state-deferred.h"
#include <internal/evlist.h>
#include <internal/lib.h>

#define NR_REGS		3
#define COOKIE		0x500000003ULL

/* Two words of sample_id follow: pid and tid, time. */
static struct evsel evsel = {
	.core.attr = {
		.sample_id_all		= 1,
		.sample_type		= PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
					  PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER |
					  PERF_SAMPLE_STACK_USER,
		.sample_regs_user	= 0x1c0,
		.sample_stack_user	= 64,
		.defer_user_state	= 1,
	},
};

static union perf_event *record(const __u64 *words, size_t nr)
{
	static char buf[PERF_SAMPLE_MAX_SIZE] __aligned(8);
	union perf_event *event = (void *)buf;

	event->header = (struct perf_event_header) {
		.type = PERF_RECORD_USER_STATE_DEFERRED,
		.misc = PERF_RECORD_MISC_USER,
		.size = sizeof(event->header) + nr * sizeof(u64),
	};
	memcpy(&event->header + 1, words, nr * sizeof(u64));
	return event;
}

static int test__user_state_record(struct test_suite *test __maybe_unused,
				   int subtest __maybe_unused)
{
	/* Cookie, ip, sp, abi; registers; stack size, stack, valid bytes of it; sample_id. */
	static const struct {
		size_t nr;
		__u64 words[20];
		int ret;
	} rows[] = {
		{ 13, { COOKIE, 1, 2, 2, 11, 12, 13, 8, 0x55, 8, 0, 0 }, 0 },
		{ 12, { COOKIE, 1, 2, 2, 11, 12, 13, 8, 0x55, 8, 0, 0 }, 0 },
		{ 10, { COOKIE, 1, 2, 2, 11, 12, 13, 0, 0, 0 }, 0 },
		{ 7, { COOKIE, 1, 2, 0, 0, 0, 0 }, 0 },
		{ 9, { COOKIE, 1, 2, 0, 8, 0x55, 5, 0, 0 }, 0 },
		/* Too short for the fixed part, for registers, for the size. */
		{ 0, { 0 }, -EINVAL },
		{ 4, { COOKIE, 1, 2, 0 }, -EINVAL },
		{ 6, { COOKIE, 1, 2, 0, 0, 0 }, -EINVAL },
		{ 7, { COOKIE, 1, 2, 2, 11, 12, 13 }, -EINVAL },
		{ 9, { COOKIE, 1, 2, 2, 11, 12, 13, 0, 0 }, -EINVAL },
		/* A missing stack, an odd stack size, or more valid bytes than the size. */
		{ 12, { COOKIE, 1, 2, 2, 11, 12, 13, 16, 0x55, 8, 0, 0 }, -EINVAL },
		{ 12, { COOKIE, 1, 2, 2, 11, 12, 13, -8ULL, 0x55, 8, 0, 0 }, -EINVAL },
		{ 12, { COOKIE, 1, 2, 2, 11, 12, 13, 1ULL << 63, 0x55, 8, 0, 0 }, -EINVAL },
		{ 12, { COOKIE, 1, 2, 2, 11, 12, 13, 7, 0x55, 7, 0, 0 }, -EINVAL },
		{ 12, { COOKIE, 1, 2, 2, 11, 12, 13, 8, 0x55, 9, 0, 0 }, -EINVAL },
		{ 12, { COOKIE, 1, 2, 2, 11, 12, 13, 8, 0x55, -1ULL, 0, 0 }, -EINVAL },
		{ 10, { COOKIE, 1, 2, 2, 11, 12, 13, 8, 0, 0 }, -EINVAL },
	};
	struct user_state state;
	union perf_event *event;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		event = record(rows[i].words, rows[i].nr);
		pr_debug("row %zu\n", i);
		TEST_ASSERT_EQUAL("check", perf_event__check_user_state(event, &evsel),
				  rows[i].ret);
	}

	event = record(rows[0].words, rows[0].nr);
	perf_event__parse_user_state(event, evsel__user_state_mask(&evsel), &state);
	TEST_ASSERT_EQUAL("ip", (int)state.ip, 1);
	TEST_ASSERT_EQUAL("sp", (int)state.sp, 2);
	TEST_ASSERT_EQUAL("registers", (int)state.regs[2], 13);
	TEST_ASSERT_EQUAL("stack", (int)state.size, 8);
	TEST_ASSERT_EQUAL("content", (int)*(u64 *)state.stack, 0x55);
	event->header.size++;
	TEST_ASSERT_EQUAL("odd size", perf_event__check_user_state(event, &evsel), -EINVAL);
	return TEST_OK;
}

/* A sample with an empty callchain, and @tail words after registers and stack. */
static union perf_event *sample_event(struct perf_sample *sample, size_t tail)
{
	union perf_event *event = malloc(PERF_SAMPLE_MAX_SIZE);
	u64 *words;

	if (!event)
		return NULL;

	/* nr, abi, size */
	words = (u64 *)(&event->header + 1);
	memset(words, 0, 3 * sizeof(u64));
	memset(words + 3, 0x77, tail * sizeof(u64));
	event->header = (struct perf_event_header) {
		.type = PERF_RECORD_SAMPLE,
		.size = sizeof(event->header) + (3 + tail) * sizeof(u64),
	};
	memset(sample, 0, sizeof(*sample));
	sample->user_stack.offset = sizeof(event->header) + 2 * sizeof(u64);
	return event;
}

static int test__user_state_write(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	static const size_t stacks[] = { 0, 7, 8, 64, 8192, 65000, 65528 };
	static char stack[65536];
	u64 regs[NR_REGS] = { 11, 12, 13 }, size;
	struct user_state state = {
		.abi = 2, .mask = 0x1c0, .regs = regs, .stack = stack,
	};

	memset(stack, 0x33, sizeof(stack));
	for (size_t i = 0; i < ARRAY_SIZE(stacks); i++) {
		struct perf_sample sample;
		union perf_event *event = sample_event(&sample, 4);
		u64 *words;

		TEST_ASSERT_VAL("memory", event);
		words = (u64 *)(&event->header + 1);
		TEST_ASSERT_VAL("it has neither", perf_sample__lacks_user_state(&sample, &evsel));
		state.size = stacks[i];
		perf_sample__set_user_state(&sample, &state);
		TEST_ASSERT_EQUAL("write", perf_event__write_user_state(event, &sample), 0);
		TEST_ASSERT_EQUAL("abi", (int)words[1], 2);
		TEST_ASSERT_EQUAL("registers", (int)words[4], 13);
		size = words[5];
		TEST_ASSERT_VAL("stack", size <= stacks[i] && (size + 8 > stacks[i] ||
							       event->header.size > 65520));
		words += 6;
		if (size) {
			TEST_ASSERT_VAL("content", !memcmp(words, stack, size));
			words += size / 8;
			TEST_ASSERT_EQUAL("what is there", (int)*words++, (int)size);
		}
		TEST_ASSERT_VAL("what follows", words[0] == 0x7777777777777777ULL &&
				words[3] == 0x7777777777777777ULL);
		TEST_ASSERT_VAL("end", (void *)(words + 4) == (void *)event + event->header.size);
		free(event);
	}

	/* One sample without room for the registers, one without a place for them. */
	for (int i = 0; i < 2; i++) {
		struct perf_sample sample;
		union perf_event *event = sample_event(&sample, i ? 4 : 8184);

		TEST_ASSERT_VAL("memory", event);
		perf_sample__set_user_state(&sample, &state);
		if (i)
			sample.user_stack.offset = 8;
		TEST_ASSERT_EQUAL("refused", perf_event__write_user_state(event, &sample), -EINVAL);
		free(event);
	}
	return TEST_OK;
}

/* Two events with different registers. */
static const u64 masks[] = { 0x100, 0x1c0 };
static const u64 ids[] = { 77, 78 };

static struct evlist *two_events(void)
{
	struct perf_event_attr attr = evsel.core.attr;
	struct evlist *evlist = evlist__new();

	if (!evlist)
		return NULL;

	attr.sample_type |= PERF_SAMPLE_IDENTIFIER;
	for (size_t i = 0; i < ARRAY_SIZE(masks); i++) {
		struct evsel *new;

		attr.sample_regs_user = masks[i];
		new = evsel__new(&attr);
		if (!new)
			goto out;
		/* From here on, the list deletes it. */
		evlist__add(evlist, new);
		if (perf_evsel__alloc_id(&new->core, 1, 1))
			goto out;
		perf_evlist__id_add(&evlist->core, &new->core, 0, 0, ids[i]);
	}
	evlist__set_id_pos(evlist);
	return evlist;
out:
	evlist__delete(evlist);
	return NULL;
}

/* A record has the registers of the event that wrote it. */
static int test__user_state_mask(struct test_suite *test __maybe_unused,
				 int subtest __maybe_unused)
{
	/* The id is the last word of the sample_id. */
	static const struct {
		size_t nr;
		__u64 words[12];
		int event, ret;
	} rows[] = {
		{ 9, { COOKIE, 1, 2, 2, 11, 0, 0, 0, 77 }, 0, 0 },
		{ 11, { COOKIE, 1, 2, 2, 11, 12, 13, 0, 0, 0, 78 }, 1, 0 },
		{ 9, { COOKIE, 1, 2, 2, 11, 0, 0, 0, 78 }, 1, -EINVAL },
		{ 11, { COOKIE, 1, 2, 2, 11, 12, 13, 0, 0, 0, 77 }, 0, -EINVAL },
		{ 9, { COOKIE, 1, 2, 2, 11, 0, 0, 0, 0 }, 0, 0 },
		/* A nonexistent event: perf drops the record. */
		{ 9, { COOKIE, 1, 2, 2, 11, 0, 0, 0, 79 }, -1, 0 },
	};
	struct evlist *evlist = two_events();

	TEST_ASSERT_VAL("events", evlist);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		union perf_event *event = record(rows[i].words, rows[i].nr);
		struct evsel *pos = evlist__event2evsel(evlist, event);

		pr_debug("row %zu\n", i);
		if (rows[i].event < 0) {
			TEST_ASSERT_VAL("no event", !pos);
			TEST_ASSERT_VAL("no registers", !evlist__user_state_mask(evlist, event));
			continue;
		}
		TEST_ASSERT_VAL("event", pos && pos->core.idx == rows[i].event);
		TEST_ASSERT_EQUAL("check", perf_event__check_user_state(event, pos), rows[i].ret);
		TEST_ASSERT_VAL("registers", evlist__user_state_mask(evlist, event) ==
					     masks[rows[i].event]);
	}
	evlist__delete(evlist);
	return TEST_OK;
}

static unsigned int needs_state(void *data __maybe_unused,
				const struct perf_sample *sample __maybe_unused)
{
	return CALLCHAIN_DEFERRED_STATE;
}

/* Register masks of the sample and of the record. */
struct merge_masks {
	u64 wants, mask;
};

static u64 wanted_mask(void *data, const struct perf_sample *sample __maybe_unused)
{
	return ((const struct merge_masks *)data)->wants;
}

static u64 record_mask(void *data, union perf_event *event __maybe_unused)
{
	return ((const struct merge_masks *)data)->mask;
}

/* The kernel address takes all of the depth, which does not apply to stacks. */
static u16 depth_of_one(void *data __maybe_unused,
			const struct perf_sample *sample __maybe_unused)
{
	return 1;
}

static const struct callchain_deferred_ops merge_ops = {
	.needs = needs_state, .regs_mask = wanted_mask, .state_mask = record_mask,
	.max_stack = depth_of_one,
};

/*
 * A sample takes no registers of a record whose mask differs. Without a stack nothing can
 * be unwound, and its user callchain is marked as lost.
 */
static int test__user_state_merge(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	/* As above; the stack is last. */
	static const __u64 words[] = { COOKIE, 1, 2, 2, 11, 12, 13, 8, 0x55, 8, 0, 0 };
	static const __u64 no_stack[] = { COOKIE, 1, 2, 2, 11, 12, 13, 0, 0, 0 };
	static const __u64 no_bytes[] = { COOKIE, 1, 2, 2, 11, 12, 13, 8, 0x55, 0, 0, 0 };
	/* Without registers, the start of the stack is unknown. */
	static const __u64 no_regs[] = { COOKIE, 1, 2, 0, 8, 0x55, 8, 0, 0 };
	static u64 chain[] = { 3, 0xffffffff81000000ULL, PERF_CONTEXT_USER_DEFERRED, COOKIE };
	static const struct {
		const __u64 *words;
		size_t nr;
		u64 mask, wants, abi;
		bool lost;
	} rows[] = {
		{ words, ARRAY_SIZE(words), 0x1c0, 0x1c0, 2, false },
		{ words, ARRAY_SIZE(words), 0x1c0, 0x100, 0, true },
		{ words, ARRAY_SIZE(words), 0x1c0, 0xe00, 0, true },
		{ words, ARRAY_SIZE(words), 0x1c0, 0, 0, true },
		{ no_stack, ARRAY_SIZE(no_stack), 0x1c0, 0x1c0, 2, true },
		{ no_bytes, ARRAY_SIZE(no_bytes), 0x1c0, 0x1c0, 2, true },
		{ no_regs, ARRAY_SIZE(no_regs), 0x1c0, 0x1c0, 0, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		union perf_event *event = record(rows[i].words, rows[i].nr);
		union perf_event sampled = { .header.type = PERF_RECORD_SAMPLE };
		struct callchain_deferred_limits limits = {};
		struct perf_sample sample = { .callchain = (void *)chain };
		const struct callchain_deferred_stats *stats;
		struct merge_masks both = { rows[i].wants, rows[i].mask };
		struct callchain_deferred *cd = callchain_deferred__new(&merge_ops, &both,
									&limits);

		pr_debug("row %zu\n", i);
		TEST_ASSERT_VAL("new", cd);
		TEST_ASSERT_EQUAL("add", callchain_deferred__add_state(cd, event, &sample, true),
				  0);
		/* All records are known beforehand: the sample does not wait. */
		TEST_ASSERT_EQUAL("feed", callchain_deferred__feed(cd, &sampled, &sample, 0, NULL),
				  0);
		TEST_ASSERT_EQUAL("abi", (int)sample.user_regs.abi, (int)rows[i].abi);
		TEST_ASSERT_VAL("registers", !rows[i].abi || sample.user_regs.regs[0] == 11);
		stats = callchain_deferred__stats(cd);
		TEST_ASSERT_EQUAL("merged", (int)stats->merged, !rows[i].lost);
		TEST_ASSERT_EQUAL("empty", (int)stats->empty, rows[i].lost);
		TEST_ASSERT_EQUAL("callchain", (int)sample.callchain->nr, 1 + 2 * rows[i].lost);
		TEST_ASSERT_VAL("mark", !rows[i].lost ||
				sample.callchain->ips[2] == CALLCHAIN_USER_LOST);
		callchain_deferred__delete(cd);
	}
	return TEST_OK;
}

static struct test_case tests__user_state_deferred[] = {
	TEST_CASE("Deferred callchain: broken records of registers and stack", user_state_record),
	TEST_CASE("Deferred callchain: writing registers and stack", user_state_write),
	TEST_CASE("Deferred callchain: registers of the event that wrote them", user_state_mask),
	TEST_CASE("Deferred callchain: samples and registers that differ", user_state_merge),
	{ .name = NULL, }
};

struct test_suite suite__user_state_deferred = {
	.desc = "Deferred callchains: user registers and stack",
	.test_cases = tests__user_state_deferred,
};
