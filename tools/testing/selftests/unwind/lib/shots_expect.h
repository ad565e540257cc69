/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The expectations of tests that use shots, for those that include the harness.
 */
#ifndef _UNWIND_SHOTS_EXPECT_H
#define _UNWIND_SHOTS_EXPECT_H

#include "shots.h"
#include "harness.h"

/* Registers were correct or absent. Prints the counts, which the benchmark reads. */
static inline void shots_expect(struct __test_metadata *_metadata, const struct shots *shots)
{
	TH_LOG("%u NMIs, %u in the kernel, %u in entry code, %u of them in the gap",
	       shots->samples, shots->kernel, shots->entry, shots->gap);
	TH_LOG("no registers %u (%u elsewhere), stale %u, torn %u, with -1 %u, all right %u",
	       shots->none, shots->none_elsewhere, shots->stale, shots->torn, shots->minus_one,
	       shots->right);
	EXPECT_LT(50, shots->kernel);
	EXPECT_LT(20, shots->right);
	EXPECT_EQ(0, shots->stale);
	EXPECT_EQ(0, shots->torn);
	EXPECT_EQ(0, shots->minus_one);
	EXPECT_EQ(0, shots->other_abi);
	/* Samples in entry code have no registers. */
	EXPECT_EQ(shots->entry, shots->none - shots->none_elsewhere);
	EXPECT_TRUE(!shots->until_none || shots->none_elsewhere);
}

/* Outside of entry code, samples lack registers at a few instructions only. */
static inline void shots_expect_elsewhere(struct __test_metadata *_metadata,
					  const struct shots *shots)
{
	EXPECT_LE(shots->none_elsewhere, (shots->kernel - shots->entry) / 4);
}

#endif /* _UNWIND_SHOTS_EXPECT_H */
