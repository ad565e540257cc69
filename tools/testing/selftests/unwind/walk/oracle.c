// SPDX-License-Identifier: GPL-2.0
/*
 * The walk is correct at each instruction of functions with frame pointers, in a
 * file without tables.
 */
#include "oracle.h"
#include "harness.h"

FIXTURE(oracle) {
	struct oracle oracle;
};

FIXTURE_VARIANT(oracle) {
	const struct oracle_func *table;
};

FIXTURE_VARIANT_ADD(oracle, assembly) { .table = oracle_table_asm };
FIXTURE_VARIANT_ADD(oracle, O0) { .table = oracle_table_O0 };
FIXTURE_VARIANT_ADD(oracle, O2) { .table = oracle_table_O2 };
FIXTURE_VARIANT_ADD(oracle, Os) { .table = oracle_table_Os };
FIXTURE_VARIANT_ADD(oracle, cet) { .table = oracle_table_cet };

FIXTURE_SETUP(oracle)
{
	const char *missing = oracle_missing();

	if (missing)
		SKIP(return, "%s", missing);
	ASSERT_TRUE(oracle_judge(&self->oracle, getpid(), "oracle"));
	ASSERT_TRUE(oracle_fork(&self->oracle, &oracle_base_bare, variant->table));
}

FIXTURE_TEARDOWN(oracle)
{
	oracle_end(&self->oracle);
}

TEST_F(oracle, every_instruction)
{
	ASSERT_TRUE(oracle_run_table(&self->oracle, variant->table));
	EXPECT_EQ(0, self->oracle.wrong);
}

TEST_HARNESS_MAIN
