// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of deferred user callchains: options, the format of records, joining
 * samples and records in all orders. For whole files see callchain-deferred-file.c.
 *
 * The joining is tested on events with a format of their own, so that a row of
 * a table is a sequence of samples and records and what must come out of it.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <linux/kernel.h>
#include <linux/zalloc.h>

#include "callchain.h"
#include "callchain-deferred.h"
#include "debug.h"
#include "tests.h"

#define KERNEL_IP	0xffffffff81000000ULL

/* As TEST_ASSERT_EQUAL(), for 64 bits. */
#define TEST_EQUAL(text, val, expected)	\
	TEST_ASSERT_VAL(text, test_equal(val, expected))

static bool test_equal(__u64 val, __u64 expected)
{
	if (val != expected)
		pr_debug("%#" PRI_lx64 " is not %#" PRI_lx64 "\n", val, expected);
	return val == expected;
}

/* Option values. */

static int test__options(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	static const struct {
		const char *arg;
		int ret;
		u16 max_stack;
	} rows[] = {
		{ "deferred",		0,	0 },
		{ "deferred,32",	0,	32 },
		{ "fp,defer",		0,	0 },
		{ "fp,32,defer",	0,	32 },
		{ "fp,defer,32",	0,	32 },
		{ "dwarf,defer",	0,	0 },
		{ "dwarf,4096,defer",	0,	0 },
		{ "fp",			1,	0 },
		{ "fp,32",		1,	0 },
		{ "dwarf",		1,	0 },
		{ "dwarf,4096",		1,	0 },
		{ "lbr",		1,	0 },
		{ "",			1,	0 },
		{ "deferre",		1,	0 },
		{ "fp,defre",		-EINVAL, 0 },
		{ "fp,defer,defer",	-EINVAL, 0 },
		{ "fp,32,defer,32",	-EINVAL, 0 },
		{ "deferred,defer",	-EINVAL, 0 },
		{ "deferred,0",		-EINVAL, 0 },
		{ "deferred,-1",	-EINVAL, 0 },
		{ "deferred,99999999",	-EINVAL, 0 },
		{ "deferred,99999999999999999999", -EINVAL, 0 },
		{ "deferred,1k",	-EINVAL, 0 },
		{ "dwarf,defer,4096",	-EINVAL, 0 },
		{ "lbr,defer",		-EINVAL, 0 },
		{ "defer",		-EINVAL, 0 },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct callchain_param param = { .record_mode = CALLCHAIN_NONE };
		int ret = parse_callchain_deferred(rows[i].arg, &param);

		pr_debug("'%s': %d\n", rows[i].arg, ret);
		TEST_EQUAL("return value", ret, rows[i].ret);
		TEST_EQUAL("defer", param.defer, !ret);
		TEST_EQUAL("max_stack", param.max_stack, rows[i].max_stack);
		if (!ret)
			TEST_EQUAL("mode", param.record_mode,
				   rows[i].arg[1] == 'w' ? CALLCHAIN_DWARF : CALLCHAIN_FP);
	}
	return TEST_OK;
}

static int test__top_options(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	static const struct {
		const char *arg;
		const char *record;
		const char *rest;
	} rows[] = {
		{ "deferred",			"deferred",	"" },
		{ "deferred,32",		"deferred,32",	"" },
		{ "deferred,32,graph,0.5",	"deferred,32",	"graph,0.5" },
		{ "deferred,0.5,caller",	"deferred",	"0.5,caller" },
		{ "fp,32,defer,caller",		"fp,32,defer",	"caller" },
		{ "fp,defer,32,0.5",		"fp,defer,32",	"0.5" },
		{ "dwarf,4096,defer,caller",	"dwarf,4096,defer", "caller" },
		{ "dwarf,4096",			NULL,		NULL },
		{ "fp,graph",			NULL,		NULL },
		{ "graph,0.5,caller",		NULL,		NULL },
		{ "fp,32",			NULL,		NULL },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		char *arg = strdup(rows[i].arg), *rest;

		TEST_ASSERT_VAL("memory", arg);
		rest = cut_callchain_deferred(arg);
		pr_debug("'%s': '%s' and '%s'\n", rows[i].arg, arg, rest ?: "(null)");
		TEST_ASSERT_VAL("cut", !rest == !rows[i].rest);
		if (rest) {
			TEST_ASSERT_VAL("record part", !strcmp(arg, rows[i].record));
			TEST_ASSERT_VAL("report part", !strcmp(rest, rows[i].rest));
		}
		free(arg);
	}
	return TEST_OK;
}

/* The lengths in a record. */

static int test__record_size(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	static const struct {
		u16 size;
		u16 id_size;
		__u64 nr;
		bool ok;
	} rows[] = {
		{ 24,	0,	0,		true },
		{ 24,	8,	0,		false },
		{ 32,	8,	0,		true },
		{ 32,	0,	1,		true },
		{ 40,	8,	1,		true },
		{ 65528, 48,	8182,		true },
		{ 65528, 48,	8183,		false },
		{ 0,	0,	0,		false },
		{ 8,	0,	0,		false },
		{ 16,	0,	0,		false },
		{ 24,	0,	1,		false },
		{ 32,	8,	1,		false },
		{ 33,	0,	1,		false },
		{ 64,	0,	6,		false },
		{ 64,	0,	1ULL << 61,	false },
		{ 64,	0,	(1ULL << 61) - 1, false },
		{ 64,	0,	-1ULL,		false },
	};
	union perf_event event;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		int ret;

		event.header.type = PERF_RECORD_CALLCHAIN_DEFERRED;
		event.header.size = rows[i].size;
		event.callchain_deferred.nr = rows[i].nr;
		ret = perf_event__check_callchain_deferred(&event, rows[i].id_size);

		pr_debug("size %u, sample_id %u, nr %" PRI_lu64 ": %d\n", rows[i].size,
			 rows[i].id_size, rows[i].nr, ret);
		TEST_EQUAL("return value", ret, rows[i].ok ? 0 : -EINVAL);
	}
	return TEST_OK;
}

/* Joining. */

enum { END, S, R, O, D, L };

#define NO_TID	((u32)-1)

/**
 * struct step - an event that comes in
 * @what: S: deferred sample, R: record, O: something else, D: no event, but the
 *	  depth of samples that follow, L: likewise, of all records
 * @tid: of the task
 * @cookie: of the kernel entry
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
 * What comes out is written as one word for each event: S and the number of
 * user addresses, with + if more were cut, S- for a sample without, O for another
 * event.
 */
struct ctx {
	struct callchain_deferred *cd;
	char *out;
	size_t size;
	u64 nr_out;
	u64 last_time;
	u16 max_stack;
	u16 max_record;
	bool bad;
};

/* An event of the tests: tid, time and the callchain. */
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
	size_t len = ctx->out ? strlen(ctx->out) : 0;
	u64 i, cookie, nr;

	ctx->nr_out++;
	if (sample->time < ctx->last_time || file_offset != sample->time)
		ctx->bad = true;
	ctx->last_time = sample->time;

	if (event->header.type != PERF_RECORD_SAMPLE) {
		if (ctx->out)
			snprintf(ctx->out + len, ctx->size - len, "O ");
		return 0;
	}

	/* One address of the kernel, then the user part. */
	cookie = event->sample.array[6];
	if (chain->nr < 3 || chain->ips[0] != PERF_CONTEXT_KERNEL || chain->ips[1] != KERNEL_IP ||
	    chain->ips[2] != PERF_CONTEXT_USER) {
		ctx->bad = true;
		return 0;
	}

	if (chain->nr > 3 && chain->ips[3] == CALLCHAIN_USER_LOST) {
		if (chain->nr != 4)
			ctx->bad = true;
		if (ctx->out)
			snprintf(ctx->out + len, ctx->size - len, "S- ");
		return 0;
	}

	nr = chain->nr - ip_callchain__is_cut(chain);
	for (i = 3; i < nr; i++) {
		if (chain->ips[i] != cookie * 16 + i - 3)
			ctx->bad = true;
	}
	if (ctx->out)
		snprintf(ctx->out + len, ctx->size - len, "S%d%s ", (int)nr - 3,
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

/* Add the records of all steps before the first event, as with a file. */
static int ctx__add_records(struct ctx *ctx, const struct step *steps)
{
	union perf_event event;
	struct perf_sample sample;
	int ret = 0;

	for (; steps->what != END && !ret; steps++) {
		if (steps->what == L)
			ctx->max_record = steps->nr;
		if (steps->what != R)
			continue;
		step__event(steps, 0, &event, &sample);
		ret = callchain_deferred__add(ctx->cd, &event.callchain_deferred, &sample, true);
	}
	return ret;
}

struct row {
	const char *name;
	struct step steps[12];
	const char *out;
	struct callchain_deferred_stats stats;
};

/* These come out the same whether the records are known beforehand or not. */
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
	{ "no user part, and none wanted", { { D, 0, 0, 1 }, { S, 1, 3, 0 }, { O, 0, 0, 0 } },
	  "S0 O ", { .merged = 1 } },
	{ "no user part, but wanted", { { D, 0, 0, 2 }, { S, 1, 3, 0 }, { O, 0, 0, 0 } }, "S- O ",
	  { .lost = 1 } },
	{ "nothing deferred", { { O, 0, 0, 0 }, { O, 0, 0, 0 } }, "O O ", { .merged = 0 } },
};

static int run_row(const struct row *row, bool beforehand)
{
	const struct callchain_deferred_limits limits = { .max_bytes = beforehand ? 0 : 1 << 20 };
	char out[128] = "";
	struct ctx ctx = { .out = out, .size = sizeof(out) };
	const struct step *step;
	u64 time = 0;

	ctx.cd = callchain_deferred__new(&ctx_ops, &ctx, &limits);
	TEST_ASSERT_VAL("memory", ctx.cd);

	if (beforehand)
		TEST_EQUAL("records", ctx__add_records(&ctx, row->steps), 0);
	for (step = row->steps; step->what != END; step++)
		TEST_EQUAL("feed", ctx__feed(&ctx, step, ++time), 0);
	TEST_EQUAL("flush", callchain_deferred__flush(ctx.cd), 0);

	pr_debug("%s, records %s: %s\n", row->name,
		 beforehand ? "beforehand" : "as they come", out);
	TEST_ASSERT_VAL("order and callchains", !ctx.bad);
	TEST_ASSERT_VAL("output", !strcmp(out, row->out));
	TEST_ASSERT_VAL("counts", !memcmp(callchain_deferred__stats(ctx.cd), &row->stats,
					  sizeof(row->stats)));
	callchain_deferred__delete(ctx.cd);
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

/* A sample that waits forever: at the bound it goes, and what is behind it. */
#define NR_CROWD	40

static int test__bounds(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	const struct callchain_deferred_limits bytes = { .max_bytes = 64 * 1024 };
	const struct callchain_deferred_limits both = { .max_bytes = 64 * 1024, .max_ns = 100 };
	const struct step blocked = { S, 1, 3, 0 }, other = { O, 0, 0, 0 };
	const struct step record = { R, 1, 3, 2 };
	const struct step parked = { S, 9, 1, 0 }, parked_r = { R, 9, 1, 2 };
	const struct callchain_deferred_limits none = {};
	const struct callchain_deferred_stats *stats;
	struct step crowd[NR_CROWD + 1];
	struct ctx ctx = {};
	u64 time = 0;
	int i;

	for (i = 0; i < NR_CROWD; i++)
		crowd[i] = (struct step) { R, i + 1, 1, 2 };
	crowd[i].what = END;

	/* By bytes. */
	ctx.cd = callchain_deferred__new(&ctx_ops, &ctx, &bytes);
	TEST_ASSERT_VAL("memory", ctx.cd);
	ctx__feed(&ctx, &blocked, ++time);
	for (i = 0; i < 100000; i++) {
		ctx__feed(&ctx, &other, ++time);
		TEST_ASSERT_VAL("memory is bounded",
				callchain_deferred__held_bytes(ctx.cd) <= 2 * bytes.max_bytes);
	}
	stats = callchain_deferred__stats(ctx.cd);
	TEST_EQUAL("late", stats->late, 1);
	TEST_EQUAL("all are out", ctx.nr_out, 100001);
	ctx__feed(&ctx, &record, ++time);
	callchain_deferred__flush(ctx.cd);
	TEST_EQUAL("not foreign", stats->foreign, 0);
	TEST_EQUAL("late is not lost", stats->lost, 0);
	TEST_ASSERT_VAL("order and callchains", !ctx.bad);
	callchain_deferred__delete(ctx.cd);

	/* By time. */
	memset(&ctx, 0, sizeof(ctx));
	ctx.cd = callchain_deferred__new(&ctx_ops, &ctx, &both);
	TEST_ASSERT_VAL("memory", ctx.cd);
	ctx__feed(&ctx, &blocked, 1000);
	ctx__feed(&ctx, &other, 1100);
	TEST_EQUAL("waits", ctx.nr_out, 0);
	ctx__feed(&ctx, &other, 1101);
	TEST_EQUAL("does not wait", ctx.nr_out, 3);
	TEST_EQUAL("late", callchain_deferred__stats(ctx.cd)->late, 1);
	callchain_deferred__delete(ctx.cd);

	/* Past records: the one in use stays, the others are forgotten. */
	memset(&ctx, 0, sizeof(ctx));
	ctx.cd = callchain_deferred__new(&ctx_ops, &ctx, &bytes);
	TEST_ASSERT_VAL("memory", ctx.cd);
	time = 0;
	ctx__feed(&ctx, &parked_r, ++time);
	for (i = 1; i <= 50000; i++) {
		const struct step foreign = { R, 1, 2 * i + 1, 8 };

		ctx__feed(&ctx, &foreign, ++time);
		if (i % 64 == 0)
			ctx__feed(&ctx, &parked, ++time);
		TEST_ASSERT_VAL("memory is bounded",
				callchain_deferred__held_bytes(ctx.cd) <= 2 * bytes.max_bytes);
	}
	callchain_deferred__flush(ctx.cd);
	stats = callchain_deferred__stats(ctx.cd);
	TEST_EQUAL("merged", stats->merged, 50000 / 64);
	TEST_EQUAL("foreign", stats->foreign, 50000);
	TEST_ASSERT_VAL("order and callchains", !ctx.bad);
	callchain_deferred__delete(ctx.cd);

	/* Many tasks that claim to be in one kernel entry are no lack of memory. */
	memset(&ctx, 0, sizeof(ctx));
	ctx.cd = callchain_deferred__new(&ctx_ops, &ctx, &none);
	TEST_ASSERT_VAL("memory", ctx.cd);
	TEST_EQUAL("crowd", ctx__add_records(&ctx, crowd), 0);
	stats = callchain_deferred__stats(ctx.cd);
	TEST_EQUAL("records", stats->records, NR_CROWD);
	TEST_EQUAL("some are left out", stats->foreign, NR_CROWD - 16);
	callchain_deferred__delete(ctx.cd);
	return TEST_OK;
}

/* Without memory nothing is dropped, and what was not merged is counted. */

static int allocs_left;

static void *failing_alloc(size_t size)
{
	return allocs_left-- > 0 ? malloc(size) : NULL;
}

static int test__no_memory(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	static const struct callchain_deferred_ops ops = {
		.parse   = ctx__parse,
		.deliver = ctx__deliver,
		.alloc   = failing_alloc,
	};
	const struct callchain_deferred_limits limits = { .max_bytes = 16 << 20 };
	const u64 nr = 20000;
	int allowed;

	for (allowed = 0; allowed < 12; allowed++) {
		const struct callchain_deferred_stats *stats;
		struct ctx ctx = {};
		u64 i, time = 0;

		ctx.cd = callchain_deferred__new(&ops, &ctx, &limits);
		TEST_ASSERT_VAL("memory", ctx.cd);
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
		TEST_ASSERT_VAL("order and callchains", !ctx.bad);
		callchain_deferred__delete(ctx.cd);
	}
	return TEST_OK;
}

/* Records that are known beforehand, with what is in them or without. */
static int add_records(struct callchain_deferred *cd, u64 nr, bool keep)
{
	union perf_event event;
	struct perf_sample sample;
	u64 i;

	for (i = 0; i < nr; i++) {
		const struct step step = { R, i % 1000, i << 32 | 1, 2 };

		step__event(&step, 0, &event, &sample);
		TEST_EQUAL("record", callchain_deferred__add(cd, &event.callchain_deferred,
							     &sample, keep), 0);
	}
	return TEST_OK;
}

/* Many samples wait at the same time; the cost of each must not depend on that. */

static int time_merge(u64 nr, bool beforehand, double *secs)
{
	const struct callchain_deferred_limits limits = { .max_bytes = beforehand ? 0 : SIZE_MAX };
	struct ctx ctx = {};
	struct timespec t0, t1;
	u64 i, time = 0;

	ctx.cd = callchain_deferred__new(&ctx_ops, &ctx, &limits);
	TEST_ASSERT_VAL("memory", ctx.cd);

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
	if (beforehand && add_records(ctx.cd, nr, true))
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
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);

	TEST_EQUAL("merged", callchain_deferred__stats(ctx.cd)->merged, nr);
	TEST_EQUAL("all are out", ctx.nr_out, nr);
	TEST_ASSERT_VAL("order and callchains", !ctx.bad);
	callchain_deferred__delete(ctx.cd);

	*secs = t1.tv_sec - t0.tv_sec + (t1.tv_nsec - t0.tv_nsec) / 1e9;
	return TEST_OK;
}

static int test__many(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	int beforehand;

	for (beforehand = 0; beforehand < 2; beforehand++) {
		double small, large;

		if (time_merge(125000, beforehand, &small) ||
		    time_merge(1000000, beforehand, &large))
			return TEST_FAIL;
		pr_debug("records %s: 125000 samples %.3f s, 1000000 samples %.3f s\n",
			 beforehand ? "beforehand" : "as they come", small, large);
		/* 8 if linear, 64 if quadratic; caches and the host's load have their share. */
		TEST_ASSERT_VAL("cost is about linear", large < 32 * small + 0.5);
	}
	return TEST_OK;
}

/* Records that are known beforehand: what one costs, and what a lack of memory does. */
static int test__index(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	static const struct callchain_deferred_ops failing_ops = {
		.parse   = ctx__parse,
		.deliver = ctx__deliver,
		.alloc   = failing_alloc,
	};
	const struct callchain_deferred_limits limits = {};
	const u64 nr = 1000000;
	struct ctx ctx = {};
	union perf_event event;
	struct perf_sample sample;
	u64 i, added = 0;
	int allowed;

	/* What is in the records does not matter here. */
	ctx.cd = callchain_deferred__new(&ctx_ops, &ctx, &limits);
	TEST_ASSERT_VAL("memory", ctx.cd);
	if (add_records(ctx.cd, nr, false))
		return TEST_FAIL;
	pr_debug("%" PRI_lu64 " records: %zu bytes\n", (__u64)nr,
		 callchain_deferred__held_bytes(ctx.cd));
	TEST_ASSERT_VAL("bytes of a record", callchain_deferred__held_bytes(ctx.cd) <= nr * 26);
	TEST_EQUAL("flush", callchain_deferred__flush(ctx.cd), 0);
	TEST_EQUAL("foreign", callchain_deferred__stats(ctx.cd)->foreign, nr);
	callchain_deferred__delete(ctx.cd);

	/* Those that were added stay. */
	for (allowed = 0; allowed < 6; allowed++) {
		ctx.cd = callchain_deferred__new(&failing_ops, &ctx, &limits);
		TEST_ASSERT_VAL("memory", ctx.cd);
		allocs_left = allowed;
		for (added = i = 0; i < 20000; i++) {
			const struct step step = { R, 1, i + 1, 8 };

			step__event(&step, 0, &event, &sample);
			added += !callchain_deferred__add(ctx.cd, &event.callchain_deferred,
							  &sample, true);
		}
		pr_debug("%d allocations: %" PRI_lu64 " added\n", allowed, (__u64)added);
		TEST_ASSERT_VAL("some are not added", added < 20000);
		TEST_EQUAL("flush", callchain_deferred__flush(ctx.cd), 0);
		TEST_EQUAL("foreign", callchain_deferred__stats(ctx.cd)->foreign, added);
		callchain_deferred__delete(ctx.cd);
	}
	return TEST_OK;
}

/* Where tasks begin. */
static int test__start(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	static const char * const starts[] = {
		"_start", "clone3", "start_thread", "__libc_start_main@@GLIBC_2.34",
		"runtime.goexit.abi0",
	};
	static const char * const others[] = {
		"", "@", ".abi0", "main", "_start1", "_star", "clone3.part.0",
		"my_start_thread", "runtime.goexit0",
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(starts); i++)
		TEST_ASSERT_VAL(starts[i], callchain_ends__is_start(starts[i]));
	for (i = 0; i < ARRAY_SIZE(others); i++)
		TEST_ASSERT_VAL(others[i], !callchain_ends__is_start(others[i]));
	return TEST_OK;
}

/* Writing a merged sample: the size of an event is 16 bits. */
static int test__write(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	union perf_event *event = zalloc(PERF_SAMPLE_MAX_SIZE), *dst = zalloc(PERF_SAMPLE_MAX_SIZE);
	struct ip_callchain *chain = zalloc(2 * PERF_SAMPLE_MAX_SIZE);
	u64 *array, nr, i;
	int ret;

	TEST_ASSERT_VAL("memory", event && dst && chain);
	for (nr = 1; nr < 16000; nr = nr * 2 + 1) {
		u64 nr_out = min_t(u64, nr, 8187), *out = (u64 *)dst->sample.array;
		struct perf_sample sample = { .callchain = chain };

		/* An ip, a callchain of two, something behind it. */
		event->header.type = PERF_RECORD_SAMPLE;
		event->header.size = sizeof(event->header) + 5 * sizeof(u64);
		array = (u64 *)event->sample.array;
		array[0] = KERNEL_IP;
		array[1] = 2;
		array[2] = PERF_CONTEXT_USER_DEFERRED;
		array[3] = 3;
		array[4] = 1000;
		sample.aux_sample.size = sizeof(u64);
		sample.aux_sample.data = &array[4];
		chain->nr = nr;
		for (i = 0; i < nr; i++)
			chain->ips[i] = i;

		ret = perf_event__write_callchain(dst, event, (struct ip_callchain *)&array[1],
						  &sample);
		TEST_EQUAL("write", ret, 0);
		pr_debug("%d entries: size %u\n", (int)nr, dst->header.size);
		TEST_EQUAL("size", dst->header.size,
			   sizeof(event->header) + (nr_out + 3) * sizeof(u64));
		TEST_EQUAL("nr", out[1], nr_out);
		TEST_EQUAL("before", out[0], KERNEL_IP);
		TEST_EQUAL("last", out[1 + nr_out], nr_out - 1);
		TEST_EQUAL("after", out[2 + nr_out], 1000);
		TEST_ASSERT_VAL("callchain", sample.callchain == (void *)&out[1]);
		TEST_ASSERT_VAL("AUX sample", sample.aux_sample.data == &out[2 + nr_out]);
	}
	free(event);
	free(dst);
	free(chain);
	return TEST_OK;
}

static struct test_case tests__callchain_deferred[] = {
	TEST_CASE("Deferred callchains that are known beforehand", index),
	TEST_CASE("Deferred callchains and where tasks begin", start),
	TEST_CASE("Deferred callchain options", options),
	TEST_CASE("Deferred callchain options of perf top", top_options),
	TEST_CASE("Deferred callchain lengths", record_size),
	TEST_CASE("Deferred callchains in all orders", merge),
	TEST_CASE("Deferred callchain bounds", bounds),
	TEST_CASE("Deferred callchains without memory", no_memory),
	TEST_CASE("A million deferred callchains", many),
	TEST_CASE("Writing deferred callchains", write),
	{	.name = NULL, }
};

struct test_suite suite__callchain_deferred = {
	.desc = "Deferred user callchains",
	.test_cases = tests__callchain_deferred,
};
