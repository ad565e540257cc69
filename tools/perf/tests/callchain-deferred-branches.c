// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of callers from a branch stack, where a deferred callchain ended early.
 */
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/zalloc.h>

#include "tests/callchain-deferred.h"
#include "util/branch.h"
#include "util/callchain-deferred.h"

#define MAX_BRANCHES	6
#define COOKIE		7

/* A call from here to there returns to RA(from). */
#define CALL(at, there)	{ .from = (at), .to = (there) }
#define RA(at)		((at) + 5)

/**
 * struct row - a record, the branch stack of its sample, and what they make
 * @name: what is tested
 * @ips: addresses of the record, up to a 0
 * @calls: the branch stack, the latest call first, up to one to 0
 * @walked: the record does not say that it ended early
 * @other: the branch stack is not one of calls
 * @depth: of the event, or 0
 * @out: the user part of the callchain, up to a 0
 */
struct row {
	const char *name;
	u64 ips[6];
	struct branch_entry calls[MAX_BRANCHES];
	bool walked;
	bool other;
	u16 depth;
	u64 out[10];
};

#define JOINED	CALLCHAIN_USER_BRANCHES

static const struct row rows[] = {
	{ "all calls are there", { 0x1010, RA(0x2000) },
	  { CALL(0x2000, 0x1000), CALL(0x3000, 0x2000), CALL(0x4000, 0x3000) },
	  .out = { 0x1010, RA(0x2000), JOINED, 0x3000, 0x4000 } },
	{ "the first address alone", { 0x1010 },
	  { CALL(0x2000, 0x1000), CALL(0x3000, 0x2000) },
	  .out = { 0x1010, JOINED, 0x2000, 0x3000 } },
	{ "the latest call does not lead there", { 0x1010 },
	  { CALL(0x2000, 0x1020), CALL(0x3000, 0x2000) }, .out = { 0x1010 } },
	{ "the walk did not end early", { 0x1010, RA(0x2000) },
	  { CALL(0x2000, 0x1000), CALL(0x3000, 0x2000) }, .walked = true,
	  .out = { 0x1010, RA(0x2000) } },
	{ "branches that are no calls", { 0x1010, RA(0x2000) },
	  { CALL(0x2000, 0x1000), CALL(0x3000, 0x2000) }, .other = true,
	  .out = { 0x1010, RA(0x2000) } },
	{ "no branches", { 0x1010, RA(0x2000) }, {}, .out = { 0x1010, RA(0x2000) } },
	{ "none of the first address", { 0x1010 }, {}, .out = { 0x1010 } },
	{ "no earlier call", { 0x1010, RA(0x2000) }, { CALL(0x2000, 0x1000) },
	  .out = { 0x1010, RA(0x2000) } },
	{ "another call", { 0x1010, RA(0x2000) },
	  { CALL(0x2800, 0x1000), CALL(0x3000, 0x2000) }, .out = { 0x1010, RA(0x2000) } },
	{ "a recursion", { 0x1010, RA(0x2000), RA(0x2000) },
	  { CALL(0x2000, 0x1000), CALL(0x2000, 0x1000), CALL(0x2000, 0x1000),
	    CALL(0x3000, 0x1000) },
	  .out = { 0x1010, RA(0x2000), RA(0x2000), JOINED, 0x2000, 0x3000 } },
	{ "a call that left no frame", { 0x1010, RA(0x2000), RA(0x3000) },
	  { CALL(0x2000, 0x1000), CALL(0x2500, 0x2000), CALL(0x3000, 0x2500),
	    CALL(0x4000, 0x3000) },
	  .out = { 0x1010, RA(0x2000), RA(0x3000), JOINED, 0x4000 } },
	{ "a recursion with a call that left no frame", { 0x1010, RA(0x2000), RA(0x3000) },
	  { CALL(0x2000, 0x1000), CALL(0x3000, 0x2000), CALL(0x2500, 0x3000),
	    CALL(0x3000, 0x2500), CALL(0x4000, 0x3000) },
	  .out = { 0x1010, RA(0x2000), RA(0x3000), JOINED, 0x2500, 0x3000, 0x4000 } },
	{ "which of the calls", { 0x1010, RA(0x2000), RA(0x3000) },
	  { CALL(0x2000, 0x1000), CALL(0x2500, 0x2000), CALL(0x3000, 0x2500),
	    CALL(0x3000, 0x3000), CALL(0x4000, 0x3000) },
	  .out = { 0x1010, RA(0x2000), RA(0x3000) } },
	{ "a recursion deeper than the branch stack",
	  { 0x1010, RA(0x2000), RA(0x3000), RA(0x4000), RA(0x2000) },
	  { CALL(0x2000, 0x1000), CALL(0x3000, 0x2000), CALL(0x4000, 0x3000) },
	  .out = { 0x1010, RA(0x2000), RA(0x3000), RA(0x4000), RA(0x2000) } },
	{ "a call from the kernel", { 0x1010, RA(0x2000) },
	  { CALL(0x2000, 0x1000), CALL(KERNEL_IP, 0x2000), CALL(0x4000, 0x3000) },
	  .out = { 0x1010, RA(0x2000) } },
	{ "a depth limit", { 0x1010, RA(0x2000) },
	  { CALL(0x2000, 0x1000), CALL(0x3000, 0x2000), CALL(0x4000, 0x3000) }, .depth = 3,
	  .out = { 0x1010, RA(0x2000), JOINED, 0x3000 } },
	{ "no room", { 0x1010, RA(0x2000) },
	  { CALL(0x2000, 0x1000), CALL(0x3000, 0x2000) }, .depth = 2,
	  .out = { 0x1010, RA(0x2000), CALLCHAIN_USER_CUT } },
	{ "an address that is a mark", { 0x1010, RA(0x2000), JOINED, 0x5000 },
	  { CALL(0x2000, 0x1000), CALL(0x3000, 0x2000) },
	  .out = { 0x1010, RA(0x2000), CALLCHAIN_USER_CUT } },
};

struct ctx {
	const struct row *row;
	struct ip_callchain *chain;
	struct branch_stack *branches;
	const struct ip_callchain *merged;
};

static void set_sample(const struct ctx *ctx, struct perf_sample *sample)
{
	memset(sample, 0, sizeof(*sample));
	sample->time = 1;
	sample->callchain = ctx->chain;
	sample->branch_stack = ctx->branches;
}

static int ctx__parse(void *data, union perf_event *event, struct perf_sample *sample)
{
	set_sample(data, sample);
	if (event->header.type != PERF_RECORD_SAMPLE)
		sample->callchain = NULL;
	return 0;
}

static int ctx__deliver(void *data, union perf_event *event __maybe_unused,
			struct perf_sample *sample, u64 file_offset __maybe_unused,
			const char *file_path __maybe_unused)
{
	struct ctx *ctx = data;

	ctx->merged = sample->callchain;
	return 0;
}

static u16 ctx__max_stack(void *data, const struct perf_sample *sample __maybe_unused)
{
	const struct ctx *ctx = data;

	return ctx->row->depth;
}

static bool ctx__call_stack(void *data, const struct perf_sample *sample __maybe_unused)
{
	const struct ctx *ctx = data;

	return !ctx->row->other;
}

static const struct callchain_deferred_ops ops = {
	.parse		= ctx__parse,
	.deliver	= ctx__deliver,
	.max_stack	= ctx__max_stack,
	.call_stack	= ctx__call_stack,
};

static void ctx__set_branches(struct ctx *ctx)
{
	struct branch_entry *entries = (struct branch_entry *)((u64 *)ctx->branches + 2);

	ctx->branches->nr = 0;
	while (ctx->branches->nr < MAX_BRANCHES && ctx->row->calls[ctx->branches->nr].to)
		ctx->branches->nr++;
	memcpy(entries, ctx->row->calls, sizeof(ctx->row->calls));
}

/* Merge a sample with its record, which is known beforehand, or comes before or after it. */
static int ctx__merge(struct ctx *ctx, struct callchain_deferred *cd, bool beforehand,
		      bool before)
{
	struct {
		struct perf_record_callchain_deferred rec;
		u64 ips[ARRAY_SIZE(ctx->row->ips)];
	} record = { .rec.cookie = COOKIE };
	union perf_event sample_event = { .header = { PERF_RECORD_SAMPLE, 0, 8 } };
	union perf_event *event = (union perf_event *)&record;
	struct perf_sample sample, none = { .time = 1 };

	record.rec.header.type = PERF_RECORD_CALLCHAIN_DEFERRED;
	record.rec.header.misc = PERF_RECORD_MISC_USER;
	if (!ctx->row->walked)
		record.rec.header.misc |= PERF_RECORD_MISC_CALLCHAIN_EARLY;
	while (record.rec.nr < ARRAY_SIZE(record.ips) && ctx->row->ips[record.rec.nr])
		record.rec.nr++;
	memcpy(record.ips, ctx->row->ips, sizeof(record.ips));
	record.rec.header.size = sizeof(record.rec) + record.rec.nr * sizeof(u64);

	set_sample(ctx, &sample);
	if (beforehand)
		TEST_EQUAL("add", callchain_deferred__add(cd, &record.rec, &none, true), 0);
	else if (before)
		TEST_EQUAL("record", callchain_deferred__feed(cd, event, &none, 0, NULL), 1);
	if (!callchain_deferred__feed(cd, &sample_event, &sample, 0, NULL))
		ctx__deliver(ctx, &sample_event, &sample, 0, NULL);
	if (!beforehand && !before)
		TEST_EQUAL("record", callchain_deferred__feed(cd, event, &none, 0, NULL), 1);
	TEST_ASSERT_VAL("merged", ctx->merged && ctx->merged != ctx->chain);
	return TEST_OK;
}

static int test_row(struct ctx *ctx, bool beforehand, bool before)
{
	const struct callchain_deferred_limits limits = { .max_bytes = beforehand ? 0 : 1 << 20 };
	struct callchain_deferred *cd = callchain_deferred__new(&ops, ctx, &limits);
	const u64 *out = ctx->row->out;
	bool joined = false;
	u64 i, nr = 0;

	TEST_ASSERT_VAL("memory", cd);
	pr_debug("%s\n", ctx->row->name);
	ctx->merged = NULL;
	ctx__set_branches(ctx);
	if (ctx__merge(ctx, cd, beforehand, before))
		return TEST_FAIL;
	while (nr < ARRAY_SIZE(ctx->row->out) && out[nr])
		joined |= out[nr++] == JOINED;
	TEST_EQUAL("number", ctx->merged->nr, nr + 1);
	TEST_EQUAL("context", ctx->merged->ips[0], PERF_CONTEXT_USER);
	for (i = 0; i < nr; i++)
		TEST_EQUAL("entry", ctx->merged->ips[i + 1], out[i]);
	TEST_EQUAL("count", callchain_deferred__stats(cd)->joined, joined);
	callchain_deferred__delete(cd);
	return TEST_OK;
}

int test__deferred_branches(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	struct ctx ctx = {
		.chain		= zalloc(sizeof(*ctx.chain) + 2 * sizeof(u64)),
		.branches	= zalloc(2 * sizeof(u64) +
					 MAX_BRANCHES * sizeof(struct branch_entry)),
	};
	int ret = TEST_OK;

	TEST_ASSERT_VAL("memory", ctx.chain && ctx.branches);
	ctx.chain->nr = 2;
	ctx.chain->ips[0] = PERF_CONTEXT_USER_DEFERRED;
	ctx.chain->ips[1] = COOKIE;
	for (size_t i = 0; i < ARRAY_SIZE(rows) && !ret; i++) {
		ctx.row = &rows[i];
		ret = test_row(&ctx, true, false) ?: test_row(&ctx, false, true) ?:
		      test_row(&ctx, false, false);
	}
	free(ctx.chain);
	free(ctx.branches);
	return ret;
}
