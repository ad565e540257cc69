/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_TESTS_CALLCHAIN_DEFERRED_H
#define __PERF_TESTS_CALLCHAIN_DEFERRED_H

#include <inttypes.h>
#include <stdbool.h>
#include <linux/types.h>

#include "debug.h"
#include "event.h"
#include "tests.h"

#define KERNEL_IP	0xffffffff81000000ULL

/* TEST_ASSERT_EQUAL() for 64-bit values. */
#define TEST_EQUAL(text, val, expected)	\
	TEST_ASSERT_VAL(text, test_equal(val, expected))

static inline bool test_equal(__u64 val, __u64 expected)
{
	if (val != expected)
		pr_debug("%#" PRI_lx64 " is not %#" PRI_lx64 "\n", val, expected);
	return val == expected;
}

/* Cases of the first suite in other files: callchain-deferred-branches.c, ...-format.c */
int test__deferred_branches(struct test_suite *test, int subtest);
int test__deferred_lbr(struct test_suite *test, int subtest);
int test__deferred_options(struct test_suite *test, int subtest);
int test__deferred_top_options(struct test_suite *test, int subtest);
int test__deferred_record_size(struct test_suite *test, int subtest);
int test__deferred_start(struct test_suite *test, int subtest);
int test__deferred_answers(struct test_suite *test, int subtest);
int test__deferred_ends(struct test_suite *test, int subtest);
int test__deferred_resolve(struct test_suite *test, int subtest);
int test__deferred_write(struct test_suite *test, int subtest);

#endif /* __PERF_TESTS_CALLCHAIN_DEFERRED_H */
