// SPDX-License-Identifier: GPL-2.0
/*
 * The nth allocation or copy fails while a walk reads a file that is not cached, for each n
 * until there is no nth. The trace is complete or lacks some entries. Afterwards, the file
 * can be read as if nothing had failed.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "inject.h"
#include "perf_ring.h"
#include "sframe_walk.h"
#include "harness.h"

/* No walk has that many places to fail. */
#define MAX_FAULTS	3000

FIXTURE(load) {
	struct walker walker;
	char dir[32];
	struct mapped file;
	struct trace whole;
	unsigned int failed;
};

FIXTURE_SETUP(load)
{
	SETUP_WALKER();
	if (!set_knobs())
		SKIP(return, INJECT_NEEDS);
	ASSERT_TRUE(arm_init());
	ASSERT_TRUE(mapped_init(&self->file, &(struct image_spec) { .code = &chain_a }, "%s/file",
				self->dir));
	EXPECT_CHAIN(&self->file);
	self->whole = trace_of_mapped(&self->file, ALL_FRAMES);
}

FIXTURE_TEARDOWN(load)
{
	clear_filters();
	restore_knobs();
	private_unmount(self->dir);
	walker_exit(&self->walker);
}

/* Drop all cached files, including those without a name. */
static void forget(void)
{
	sframe_drop();
	walk_anew();
}

/* Load with the nth failure; returns whether that failure was not used. */
static bool load_with(struct __test_metadata *_metadata, struct _test_data_load *self,
		      unsigned int nth)
{
	bool walked, unused;

	forget();
	self->walker.event.nr = 0;
	arm(nth);
	walked = walk_mapped(&self->walker, &self->file);
	unused = disarm();
	/* The request may have failed, or something after it. */
	if (!walked)
		tracer_event(self->walker.fd, &self->walker.event);
	if (self->walker.event.nr)
		EXPECT_TRUE(trace_is_of(&self->walker, &self->whole));
	self->failed += self->walker.event.nr < self->whole.nr;
	if (unused)
		EXPECT_EQ(self->whole.nr, self->walker.event.nr);

	forget();
	EXPECT_CHAIN(&self->file);
	EXPECT_STATE(self->file.path, "ok");
	return unused;
}

/* All failures; then only those of reading the file, so that none of these is missed. */
TEST_F(load, each_failure)
{
	unsigned long begin, end;

	for (int read_alone = 0; read_alone < 2; read_alone++) {
		unsigned int nth = 1;

		self->failed = 0;
		while (nth < MAX_FAULTS && !load_with(_metadata, self, nth) &&
		       !_metadata->exit_code)
			nth++;
		TH_LOG("%u failures, %u traces lack something", nth - 1, self->failed);
		EXPECT_GT(MAX_FAULTS, nth);
		EXPECT_LT(0, self->failed);
		if (!kernel_function("unwind_object_fetch", &begin, &end) ||
		    !set_filters(begin, end))
			SKIP(return, "needs CONFIG_FAULT_INJECTION_STACKTRACE_FILTER");
	}
}

TEST_HARNESS_MAIN
