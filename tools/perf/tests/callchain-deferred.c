// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of merging samples and records of deferred user callchains: in all orders, at the
 * limits, and in large numbers. callchain-deferred-format.c tests options and formats,
 * callchain-deferred-file.c whole files.
 *
 * Events have a special format here: a row of a table is a sequence of samples and
 * records, followed by the expected output.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>

#include "tests/callchain-deferred.h"
#include "util/callchain-deferred.h"

enum { END, S, R, O, D, L };

#define NO_TID	((u32)-1)

/**
 * struct step - an event that comes in
 * @what: S: deferred sample, R: record, O: other event, D: no event, but the depth
 *	  of the samples that follow, L: likewise, of all records
 * @tid: tid of the task
 * @cookie: cookie of the kernel entry
 * @nr: R: number of addresses, they are the cookie * 16, the cookie * 16 + 1, ...;
 *	D, L: the depth
 */
struct step {
	int what;
	u32 tid;
	u64 cookie;
	u64 nr;
};

/*
 * The output has one word for each event, as far as they fit: S and the number of user
 * addresses, with + if more were cut; S- for a sample without any; O for another
 * event.
 */
struct ctx {
	struct callchain_deferred *cd;
	char out[64];
	u64 nr_out;
	u64 last_time;
	u16 max_stack;
	u16 max_record;
	bool bad;
};

/* Parse an event of the tests: tid, time and callchain. */
static int ctx__parse(void *data __maybe_unused, union perf_event *event,
		      struct perf_sample *sample)
{
	memset(sample, 0, sizeof(*sample));
	sample->tid = event->sample.array[0];
	sample->time = event->sample.array[1];
	if (event->header.type == PERF_RECORD_SAMPLE)
		sample->callchain = (struct ip_callchain *)&event->sample.array[2];
	return 0;
}

static int ctx__deliver(void *data, union perf_event *event, struct perf_sample *sample,
			u64 file_offset, const char *file_path __maybe_unused)
{
	struct ctx *ctx = data;
	const struct ip_callchain *chain = sample->callchain;
	size_t len = strlen(ctx->out);
	u64 i, cookie, nr;

	ctx->nr_out++;
	if (sample->time < ctx->last_time || file_offset != sample->time)
		ctx->bad = true;
	ctx->last_time = sample->time;

	if (event->header.type != PERF_RECORD_SAMPLE) {
		snprintf(ctx->out + len, sizeof(ctx->out) - len, "O ");
		return 0;
	}

	/* One kernel address, then the user part. */
	cookie = event->sample.array[6];
	if (chain->nr < 3 || chain->ips[0] != PERF_CONTEXT_KERNEL || chain->ips[1] != KERNEL_IP ||
	    chain->ips[2] != PERF_CONTEXT_USER) {
		ctx->bad = true;
		return 0;
	}

	if (chain->nr > 3 && chain->ips[3] == CALLCHAIN_USER_LOST) {
		if (chain->nr != 4)
			ctx->bad = true;
		snprintf(ctx->out + len, sizeof(ctx->out) - len, "S- ");
		return 0;
	}

	nr = chain->nr - ip_callchain__is_cut(chain);
	for (i = 3; i < nr; i++) {
		if (chain->ips[i] != cookie * 16 + i - 3)
			ctx->bad = true;
	}
	snprintf(ctx->out + len, sizeof(ctx->out) - len, "S%d%s ", (int)nr - 3,
		 nr < chain->nr ? "+" : "");
	return 0;
}

/* Samples have a callchain, records do not. */
static u16 ctx__max_stack(void *data, const struct perf_sample *sample)
{
	const struct ctx *ctx = data;

	return sample->callchain ? ctx->max_stack : ctx->max_record;
}

static const struct callchain_deferred_ops ctx_ops = {
	.parse     = ctx__parse,
	.deliver   = ctx__deliver,
	.max_stack = ctx__max_stack,
};

static bool ctx__open(struct ctx *ctx, const struct callchain_deferred_ops *ops,
		      const struct callchain_deferred_limits *limits)
{
	ctx->cd = callchain_deferred__new(ops, ctx, limits);
	return ctx->cd;
}

/* Were all events in order and with their callchains? */
static bool ctx__close(struct ctx *ctx)
{
	bool good = !ctx->bad;

	callchain_deferred__delete(ctx->cd);
	memset(ctx, 0, sizeof(*ctx));
	return good;
}

#define STEP_MAX_IPS	16

static void step__event(const struct step *step, u64 time, union perf_event *event,
			struct perf_sample *sample)
{
	struct perf_record_callchain_deferred *rec = &event->callchain_deferred;
	u64 i, *array = (u64 *)event->sample.array;

	memset(event, 0, 256);
	switch (step->what) {
	case S:
		event->header.type = PERF_RECORD_SAMPLE;
		array[0] = step->tid;
		array[1] = time;
		array[2] = 4;
		array[3] = PERF_CONTEXT_KERNEL;
		array[4] = KERNEL_IP;
		array[5] = PERF_CONTEXT_USER_DEFERRED;
		array[6] = step->cookie;
		event->header.size = sizeof(event->header) + 7 * sizeof(u64);
		break;
	case R:
		event->header.type = PERF_RECORD_CALLCHAIN_DEFERRED;
		rec->cookie = step->cookie;
		rec->nr = step->nr;
		for (i = 0; i < rec->nr && i < STEP_MAX_IPS; i++)
			rec->ips[i] = step->cookie * 16 + i;
		event->header.size = sizeof(*rec) + rec->nr * sizeof(u64);
		memset(sample, 0, sizeof(*sample));
		sample->tid = step->tid;
		sample->time = time;
		return;
	default:
		event->header.type = PERF_RECORD_COMM;
		array[1] = time;
		event->header.size = sizeof(event->header) + 2 * sizeof(u64);
		break;
	}
	ctx__parse(NULL, event, sample);
}

static int ctx__feed(struct ctx *ctx, const struct step *step, u64 time)
{
	union perf_event event;
	struct perf_sample sample;
	int ret;

	if (step->what == D) {
		ctx->max_stack = step->nr;
		return 0;
	}

	if (step->what == L) {
		ctx->max_record = step->nr;
		return 0;
	}

	step__event(step, time, &event, &sample);
	ret = callchain_deferred__feed(ctx->cd, &event, &sample, time, NULL);
	if (!ret)
		ret = ctx__deliver(ctx, &event, &sample, time, NULL);
	return min(ret, 0);
}

/* Add a copy of a record before the first event. */
static int ctx__add(struct ctx *ctx, const struct step *record)
{
	union perf_event event;
	struct perf_sample sample;

	step__event(record, 0, &event, &sample);
	return callchain_deferred__add(ctx->cd, &event.callchain_deferred, &sample, true);
}

/* Add the records of all steps before the first event, as with a file. */
static int ctx__add_records(struct ctx *ctx, const struct step *steps)
{
	int ret = 0;

	for (; steps->what != END && !ret; steps++) {
		if (steps->what == L)
			ctx->max_record = steps->nr;
		if (steps->what == R)
			ret = ctx__add(ctx, steps);
	}
	return ret;
}

struct row {
	const char *name;
	struct step steps[12];
	const char *out;
	struct callchain_deferred_stats stats;
};

/* From the 14th on, the addresses of its record are reserved for marks. */
#define MARK_COOKIE	(CALLCHAIN_USER_LOWEST / 16)

/* The output is the same whether the records are known beforehand or not. */
static const struct row rows[] = {
	{ "sample, record", { { S, 1, 3, 0 }, { R, 1, 3, 2 } }, "S2 ",
	  { .merged = 1, .records = 1 } },
	{ "two entries interleaved",
	  { { S, 1, 3, 0 }, { S, 1, 5, 0 }, { R, 1, 3, 2 }, { R, 1, 5, 4 } }, "S2 S4 ",
	  { .merged = 2, .records = 2 } },
	{ "two entries, records in the other order",
	  { { S, 1, 3, 0 }, { O, 0, 0, 0 }, { S, 1, 5, 0 }, { R, 1, 5, 4 }, { R, 1, 3, 2 } },
	  "S2 O S4 ", { .merged = 2, .records = 2 } },
	{ "a foreign record between",
	  { { S, 1, 3, 0 }, { S, 1, 5, 0 }, { R, 1, 9, 1 }, { R, 1, 3, 2 }, { R, 1, 5, 4 } },
	  "S2 S4 ", { .merged = 2, .records = 3, .foreign = 1 } },
	{ "record first, many samples",
	  { { R, 1, 3, 2 }, { S, 1, 3, 0 }, { O, 0, 0, 0 }, { S, 1, 3, 0 } }, "S2 O S2 ",
	  { .merged = 2, .records = 1 } },
	{ "samples before and after the record",
	  { { S, 1, 3, 0 }, { S, 1, 3, 0 }, { R, 1, 3, 2 }, { S, 1, 3, 0 } }, "S2 S2 S2 ",
	  { .merged = 3, .records = 1 } },
	{ "no record", { { S, 1, 3, 0 }, { O, 0, 0, 0 }, { S, 1, 5, 0 }, { R, 1, 5, 1 } },
	  "S- O S1 ", { .merged = 1, .lost = 1, .records = 1 } },
	{ "empty record", { { S, 1, 3, 0 }, { R, 1, 3, 0 } }, "S- ",
	  { .empty = 1, .records = 1 } },
	{ "the same record twice", { { S, 1, 3, 0 }, { R, 1, 3, 2 }, { R, 1, 3, 2 } }, "S2 ",
	  { .merged = 1, .records = 2, .duplicate = 1 } },
	{ "a shorter record repeats", { { R, 1, 3, 4 }, { R, 1, 3, 1 }, { S, 1, 3, 0 } }, "S4 ",
	  { .merged = 1, .records = 2, .duplicate = 1 } },
	{ "a longer record repeats", { { R, 1, 3, 1 }, { R, 1, 3, 4 }, { S, 1, 3, 0 } }, "S4 ",
	  { .merged = 1, .records = 2, .duplicate = 1 } },
	{ "record of another task", { { S, 1, 3, 0 }, { R, 2, 3, 2 } }, "S- ",
	  { .lost = 1, .records = 1, .foreign = 1 } },
	{ "both tasks have the cookie",
	  { { S, 1, 3, 0 }, { R, 2, 3, 2 }, { R, 1, 3, 4 }, { S, 2, 3, 0 } }, "S4 S2 ",
	  { .merged = 2, .records = 2 } },
	{ "record names no task", { { S, 1, 3, 0 }, { R, NO_TID, 3, 2 } }, "S2 ",
	  { .merged = 1, .records = 1 } },
	{ "nobody names a task",
	  { { S, NO_TID, 3, 0 }, { R, NO_TID, 5, 4 }, { R, NO_TID, 3, 2 }, { S, NO_TID, 5, 0 } },
	  "S2 S4 ", { .merged = 2, .records = 2 } },
	{ "depth of the kernel part and some of the user part",
	  { { D, 0, 0, 3 }, { S, 1, 3, 0 }, { R, 1, 3, 4 }, { S, 1, 3, 0 } }, "S2+ S2+ ",
	  { .merged = 2, .cut = 2, .records = 1 } },
	{ "exactly as deep", { { D, 0, 0, 5 }, { S, 1, 3, 0 }, { R, 1, 3, 4 } }, "S4 ",
	  { .merged = 1, .records = 1 } },
	{ "depth of the kernel part", { { D, 0, 0, 1 }, { S, 1, 3, 0 }, { R, 1, 3, 4 } }, "S0+ ",
	  { .merged = 1, .cut = 1, .records = 1 } },
	{ "depth of the record", { { L, 0, 0, 4 }, { S, 1, 3, 0 }, { R, 1, 3, 4 } }, "S4+ ",
	  { .merged = 1, .cut = 1, .records = 1 } },
	{ "less than the depth of the record",
	  { { L, 0, 0, 5 }, { S, 1, 3, 0 }, { R, 1, 3, 4 } }, "S4 ",
	  { .merged = 1, .records = 1 } },
	{ "a record that is deeper than it says",
	  { { L, 0, 0, 3 }, { S, 1, 3, 0 }, { R, 1, 3, 4 } }, "S4 ",
	  { .merged = 1, .records = 1 } },
	{ "depth of both",
	  { { L, 0, 0, 4 }, { D, 0, 0, 3 }, { S, 1, 3, 0 }, { R, 1, 3, 4 } }, "S2+ ",
	  { .merged = 1, .cut = 1, .records = 1 } },
	{ "an empty record and a depth of 0",
	  { { L, 0, 0, 0 }, { S, 1, 3, 0 }, { R, 1, 3, 0 } }, "S- ",
	  { .empty = 1, .records = 1 } },
	{ "a longer record repeats one that is cut",
	  { { L, 0, 0, 2 }, { R, 1, 3, 2 }, { L, 0, 0, 0 }, { R, 1, 3, 4 }, { S, 1, 3, 0 } },
	  "S4 ", { .merged = 1, .records = 2, .duplicate = 1 } },
	{ "a longer record that is cut repeats",
	  { { R, 1, 3, 2 }, { L, 0, 0, 4 }, { R, 1, 3, 4 }, { S, 1, 3, 0 } }, "S4+ ",
	  { .merged = 1, .cut = 1, .records = 2, .duplicate = 1 } },
	{ "an empty record, and none wanted",
	  { { D, 0, 0, 1 }, { S, 1, 3, 0 }, { R, 1, 3, 0 } }, "S0+ ",
	  { .merged = 1, .cut = 1, .records = 1 } },
	{ "the last two addresses are marks",
	  { { S, 1, MARK_COOKIE, 0 }, { R, 1, MARK_COOKIE, 16 } }, "S13+ ",
	  { .merged = 1, .truncated = 1, .records = 1 } },
	{ "all addresses are contexts", { { S, 1, -1ULL, 0 }, { R, 1, -1ULL, 4 } }, "S- ",
	  { .empty = 1, .records = 1 } },
	{ "no user part, and none wanted", { { D, 0, 0, 1 }, { S, 1, 3, 0 }, { O, 0, 0, 0 } },
	  "S0+ O ", { .merged = 1, .cut = 1 } },
	{ "no user part, but wanted", { { D, 0, 0, 2 }, { S, 1, 3, 0 }, { O, 0, 0, 0 } }, "S- O ",
	  { .lost = 1 } },
	{ "nothing deferred", { { O, 0, 0, 0 }, { O, 0, 0, 0 } }, "O O ", { .merged = 0 } },
};

static int run_row(const struct row *row, bool beforehand)
{
	const struct callchain_deferred_limits limits = { .max_bytes = beforehand ? 0 : 1 << 20 };
	struct ctx ctx = {};
	const struct step *step;
	u64 time = 0;

	TEST_ASSERT_VAL("memory", ctx__open(&ctx, &ctx_ops, &limits));

	if (beforehand)
		TEST_EQUAL("records", ctx__add_records(&ctx, row->steps), 0);
	for (step = row->steps; step->what != END; step++)
		TEST_EQUAL("feed", ctx__feed(&ctx, step, ++time), 0);
	TEST_EQUAL("flush", callchain_deferred__flush(ctx.cd), 0);

	pr_debug("%s, records %s: %s\n", row->name,
		 beforehand ? "beforehand" : "as they come", ctx.out);
	TEST_ASSERT_VAL("output", !strcmp(ctx.out, row->out));
	TEST_ASSERT_VAL("counts", !memcmp(callchain_deferred__stats(ctx.cd), &row->stats,
					  sizeof(row->stats)));
	TEST_ASSERT_VAL("order and callchains", ctx__close(&ctx));
	return TEST_OK;
}

static int test__merge(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		if (run_row(&rows[i], true) || run_row(&rows[i], false)) {
			pr_debug("FAILED: %s\n", rows[i].name);
			return TEST_FAIL;
		}
	}
	return TEST_OK;
}

/* A sample waits forever: at the limit, it and the later events are delivered. */

static const struct callchain_deferred_limits max_64k = { .max_bytes = 64 * 1024 };
static const struct step blocked = { S, 1, 3, 0 }, other = { O, 0, 0, 0 };

/* Feed an event and check the amount of held memory. */
static bool ctx__feed_bounded(struct ctx *ctx, const struct step *step, u64 time)
{
	return !ctx__feed(ctx, step, time) &&
	       callchain_deferred__held_bytes(ctx->cd) <= 2 * max_64k.max_bytes;
}

static int bounds_of_bytes(void)
{
	const struct step record = { R, 1, 3, 2 };
	const struct callchain_deferred_stats *stats;
	struct ctx ctx = {};
	u64 time = 0;
	int i;

	TEST_ASSERT_VAL("memory", ctx__open(&ctx, &ctx_ops, &max_64k));
	stats = callchain_deferred__stats(ctx.cd);
	ctx__feed(&ctx, &blocked, ++time);
	for (i = 0; i < 100000; i++)
		TEST_ASSERT_VAL("bounded", ctx__feed_bounded(&ctx, &other, ++time));
	TEST_EQUAL("late", stats->late, 1);
	TEST_EQUAL("all are out", ctx.nr_out, 100001);
	ctx__feed(&ctx, &record, ++time);
	callchain_deferred__flush(ctx.cd);
	TEST_EQUAL("not foreign", stats->foreign, 0);
	TEST_EQUAL("late is not lost", stats->lost, 0);
	TEST_ASSERT_VAL("order and callchains", ctx__close(&ctx));
	return TEST_OK;
}

/*
 * The samples that wait after the first one have their records. The test counts what it
 * fed and did not get back: headers, callchains and addresses.
 */
static int bounds_of_waiting(void)
{
	const size_t pair = 2 * sizeof(struct perf_event_header) + (4 + 2 + STEP_MAX_IPS) * 8;
	struct ctx ctx = {};
	u64 i, time = 0;

	TEST_ASSERT_VAL("memory", ctx__open(&ctx, &ctx_ops, &max_64k));
	ctx__feed(&ctx, &blocked, ++time);
	for (i = 1; i <= 100000; i++) {
		const struct step sample = { S, 1, 2 * i + 4, 0 };
		const struct step record = { R, 1, 2 * i + 4, STEP_MAX_IPS };

		TEST_ASSERT_VAL("bounded", ctx__feed_bounded(&ctx, &sample, ++time));
		TEST_ASSERT_VAL("bounded", ctx__feed_bounded(&ctx, &record, ++time));
		TEST_ASSERT_VAL("waiting", (i + 1 - ctx.nr_out) * pair <= max_64k.max_bytes);
	}
	callchain_deferred__flush(ctx.cd);
	TEST_EQUAL("late", callchain_deferred__stats(ctx.cd)->late, 1);
	TEST_EQUAL("merged", callchain_deferred__stats(ctx.cd)->merged, 100000);
	TEST_ASSERT_VAL("order and callchains", ctx__close(&ctx));
	return TEST_OK;
}

static int bounds_of_time(void)
{
	const struct callchain_deferred_limits both = { .max_bytes = 64 * 1024, .max_ns = 100 };
	struct ctx ctx = {};

	TEST_ASSERT_VAL("memory", ctx__open(&ctx, &ctx_ops, &both));
	ctx__feed(&ctx, &blocked, 1000);
	ctx__feed(&ctx, &other, 1100);
	TEST_EQUAL("waits", ctx.nr_out, 0);
	ctx__feed(&ctx, &other, 1101);
	TEST_EQUAL("does not wait", ctx.nr_out, 3);
	TEST_EQUAL("late", callchain_deferred__stats(ctx.cd)->late, 1);
	TEST_ASSERT_VAL("order and callchains", ctx__close(&ctx));
	return TEST_OK;
}

/* The past record that is in use stays, the others are evicted. */
static int bounds_of_records(void)
{
	const struct step parked = { S, 9, 1, 0 }, parked_r = { R, 9, 1, 2 };
	struct ctx ctx = {};
	u64 time = 0;
	int i;

	TEST_ASSERT_VAL("memory", ctx__open(&ctx, &ctx_ops, &max_64k));
	ctx__feed(&ctx, &parked_r, ++time);
	for (i = 1; i <= 50000; i++) {
		const struct step foreign = { R, 1, 2 * i + 1, 8 };

		TEST_ASSERT_VAL("bounded", ctx__feed_bounded(&ctx, &foreign, ++time));
		if (i % 64 == 0)
			TEST_ASSERT_VAL("bounded", ctx__feed_bounded(&ctx, &parked, ++time));
	}
	callchain_deferred__flush(ctx.cd);
	TEST_EQUAL("merged", callchain_deferred__stats(ctx.cd)->merged, 50000 / 64);
	TEST_EQUAL("foreign", callchain_deferred__stats(ctx.cd)->foreign, 50000);
	TEST_ASSERT_VAL("order and callchains", ctx__close(&ctx));
	return TEST_OK;
}

/* Many tasks that claim the same kernel entry must not fail for lack of memory. */
static int bounds_of_tasks(const struct callchain_deferred_limits *limits)
{
	struct ctx ctx = {};
	int i;

	TEST_ASSERT_VAL("memory", ctx__open(&ctx, &ctx_ops, limits));
	for (i = 1; i <= 40; i++) {
		const struct step step = { R, i, 1, 2 };

		TEST_EQUAL("record", ctx__add(&ctx, &step), 0);
	}
	TEST_EQUAL("records", callchain_deferred__stats(ctx.cd)->records, 40);
	TEST_EQUAL("some are left out", callchain_deferred__stats(ctx.cd)->foreign, 40 - 16);
	TEST_ASSERT_VAL("order and callchains", ctx__close(&ctx));
	return TEST_OK;
}

static int test__bounds(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	const struct callchain_deferred_limits none = {};

	return bounds_of_bytes() ?: bounds_of_waiting() ?: bounds_of_time() ?:
	       bounds_of_records() ?: bounds_of_tasks(&none) ?: bounds_of_tasks(&max_64k);
}

/* Without memory, no event is dropped, and unmerged samples are counted. */

static int allocs_left;

static void *failing_alloc(size_t size)
{
	return allocs_left-- > 0 ? malloc(size) : NULL;
}

static const struct callchain_deferred_ops failing_ops = {
	.parse   = ctx__parse,
	.deliver = ctx__deliver,
	.alloc   = failing_alloc,
};

static int test__no_memory(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	const struct callchain_deferred_limits limits = { .max_bytes = 16 << 20 };
	const u64 nr = 20000;
	int allowed;

	for (allowed = 0; allowed < 12; allowed++) {
		const struct callchain_deferred_stats *stats;
		struct ctx ctx = {};
		u64 i, time = 0;

		TEST_ASSERT_VAL("memory", ctx__open(&ctx, &failing_ops, &limits));
		allocs_left = allowed;
		for (i = 1; i <= nr; i++) {
			const struct step sample = { S, 1, i, 0 }, record = { R, 1, i - i % 7, 2 };

			TEST_EQUAL("sample", ctx__feed(&ctx, &sample, ++time), 0);
			if (i % 7 == 0)
				TEST_EQUAL("record", ctx__feed(&ctx, &record, ++time), 0);
		}
		TEST_EQUAL("flush", callchain_deferred__flush(ctx.cd), 0);
		stats = callchain_deferred__stats(ctx.cd);
		pr_debug("%d allocations: merged %" PRI_lu64 " failed %" PRI_lu64 "\n", allowed,
			 stats->merged, stats->failed);
		TEST_EQUAL("all are out", ctx.nr_out, nr);
		TEST_EQUAL("all are counted", stats->merged + stats->empty + stats->lost +
					      stats->late + stats->failed, nr);
		TEST_ASSERT_VAL("failed", stats->failed);
		TEST_ASSERT_VAL("order and callchains", ctx__close(&ctx));
	}
	return TEST_OK;
}

/* Add records that are known beforehand; @copy: with their contents. */
static int add_many(struct ctx *ctx, u64 nr)
{
	u64 i;

	for (i = 0; i < nr; i++) {
		const struct step step = { R, i % 1000, i << 32 | 1, 2 };

		TEST_EQUAL("record", ctx__add(ctx, &step), 0);
	}
	return TEST_OK;
}

/* A record with two addresses */
struct mapped {
	u64 words[5];
};

/* As above, with records in memory that stays valid, as that of a file does. */
static int add_mapped(struct ctx *ctx, u64 nr, struct mapped *mapped)
{
	u64 i;

	for (i = 0; i < nr; i++) {
		const struct step step = { R, i % 1000, i << 32 | 1, 2 };
		struct perf_sample sample;
		union perf_event event;

		step__event(&step, 0, &event, &sample);
		TEST_ASSERT_VAL("size", event.header.size == sizeof(*mapped));
		memcpy(&mapped[i], &event, sizeof(*mapped));
		TEST_EQUAL("record", callchain_deferred__add(ctx->cd, (void *)&mapped[i],
							     &sample, false), 0);
	}
	return TEST_OK;
}

/*
 * Many samples wait at the same time. The cost of each must not depend on their number:
 * it is up to 9 steps if the hash function spreads the cookies well.
 */
#define MAX_STEPS	12

static int merge_many(u64 nr, bool beforehand)
{
	const struct callchain_deferred_limits limits = { .max_bytes = beforehand ? 0 : SIZE_MAX };
	struct ctx ctx = {};
	u64 i, steps, time = 0;

	TEST_ASSERT_VAL("memory", ctx__open(&ctx, &ctx_ops, &limits));
	if (beforehand && add_many(&ctx, nr))
		return TEST_FAIL;
	for (i = 0; i < nr; i++) {
		const struct step step = { S, i % 1000, i << 32 | 1, 0 };

		TEST_EQUAL("sample", ctx__feed(&ctx, &step, ++time), 0);
	}
	for (i = nr; !beforehand && i-- > 0; ) {
		const struct step step = { R, i % 1000, i << 32 | 1, 2 };

		TEST_EQUAL("record", ctx__feed(&ctx, &step, ++time), 0);
	}
	TEST_EQUAL("flush", callchain_deferred__flush(ctx.cd), 0);

	steps = callchain_deferred__steps(ctx.cd);
	pr_debug("%d records %s: %.3f steps each\n", (int)nr,
		 beforehand ? "beforehand" : "as they come", (double)steps / nr);
	TEST_ASSERT_VAL("it counts", steps >= 2 * nr);
	TEST_ASSERT_VAL("cost of each", steps <= MAX_STEPS * nr);
	TEST_EQUAL("merged", callchain_deferred__stats(ctx.cd)->merged, nr);
	TEST_EQUAL("all are out", ctx.nr_out, nr);
	TEST_ASSERT_VAL("order and callchains", ctx__close(&ctx));
	return TEST_OK;
}

static int test__many(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	u64 nr;

	for (nr = 125000; nr <= 1000000; nr *= 8) {
		if (merge_many(nr, true) || merge_many(nr, false))
			return TEST_FAIL;
	}
	return TEST_OK;
}

/* Records that are known beforehand: the size of one, and a lack of memory. */
static int test__index(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	const struct callchain_deferred_limits limits = {};
	const u64 nr = 1000000;
	struct mapped *mapped = calloc(nr, sizeof(*mapped));
	struct ctx ctx = {};
	u64 i, added = 0;
	int allowed;

	TEST_ASSERT_VAL("memory", mapped && ctx__open(&ctx, &ctx_ops, &limits));
	if (add_mapped(&ctx, nr, mapped))
		return TEST_FAIL;
	pr_debug("%" PRI_lu64 " records: %zu bytes\n", (__u64)nr,
		 callchain_deferred__held_bytes(ctx.cd));
	TEST_ASSERT_VAL("bytes of a record", callchain_deferred__held_bytes(ctx.cd) <= nr * 22);
	TEST_EQUAL("flush", callchain_deferred__flush(ctx.cd), 0);
	TEST_EQUAL("foreign", callchain_deferred__stats(ctx.cd)->foreign, nr);
	TEST_ASSERT_VAL("order and callchains", ctx__close(&ctx));
	free(mapped);

	/* Added records stay and are found by their samples, but by no others. */
	for (allowed = 0; allowed < 6; allowed++) {
		TEST_ASSERT_VAL("memory", ctx__open(&ctx, &failing_ops, &limits));
		allocs_left = allowed;
		for (added = i = 0; i < 20000; i++) {
			const struct step step = { R, 1, i + 1, 8 };

			added += !ctx__add(&ctx, &step);
		}
		pr_debug("%d allocations: %" PRI_lu64 " added\n", allowed, (__u64)added);
		TEST_ASSERT_VAL("some are not added", added < 20000);
		for (i = 0; i < 20000; i++) {
			const struct step step = { S, 1, i + 1, 0 };

			TEST_EQUAL("sample", ctx__feed(&ctx, &step, i + 1), 0);
		}
		TEST_EQUAL("flush", callchain_deferred__flush(ctx.cd), 0);
		TEST_EQUAL("foreign", callchain_deferred__stats(ctx.cd)->foreign, 0);
		TEST_EQUAL("merged", callchain_deferred__stats(ctx.cd)->merged, added);
		TEST_EQUAL("lost", callchain_deferred__stats(ctx.cd)->lost, 20000 - added);
		TEST_ASSERT_VAL("order and callchains", ctx__close(&ctx));
	}
	return TEST_OK;
}

static struct test_case tests__callchain_deferred[] = {
	TEST_CASE("Deferred callchains that are known beforehand", index),
	TEST_CASE("Deferred callchains and where tasks begin", deferred_start),
	TEST_CASE("Deferred callchains and where they end", deferred_ends),
	TEST_CASE("Deferred callchain options", deferred_options),
	TEST_CASE("Deferred callchain options of perf top", deferred_top_options),
	TEST_CASE("Deferred callchains and branches of options", deferred_lbr),
	TEST_CASE_REASON("Deferred callchains and answers of the kernel", deferred_answers,
			 "no seccomp"),
	TEST_CASE("Deferred callchain lengths", deferred_record_size),
	TEST_CASE("Deferred callchains in all orders", merge),
	TEST_CASE("Deferred callchain bounds", bounds),
	TEST_CASE("Deferred callchains without memory", no_memory),
	TEST_CASE("A million deferred callchains", many),
	TEST_CASE("Deferred callchains and the mark of a cut", deferred_resolve),
	TEST_CASE("Deferred callchains and branch stacks", deferred_branches),
	TEST_CASE("Writing deferred callchains", deferred_write),
	{	.name = NULL, }
};

struct test_suite suite__callchain_deferred = {
	.desc = "Deferred user callchains",
	.test_cases = tests__callchain_deferred,
};
