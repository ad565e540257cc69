// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the SFrame decoder.
 *
 * Look up each address of sections that assemblers and linkers wrote, and compare with
 * readelf's output. Then truncate and damage the same sections: each must give an error or
 * a table of valid frames. More invalid sections are in
 * tools/testing/selftests/unwind/fuzz/sframe-corpus.
 */
#include <kunit/test.h>
#include <linux/overflow.h>
#include <linux/string.h>

#include <asm/unwind_user.h>

#include "sframe.h"
#include "sframe_kunit.h"

/* A section, and the expected answers of its table from the first row on. */
struct sframe_vector {
	const char			*desc;
	const u8			*bytes;
	u32				size;
	u64				addr;
	struct sframe_range		text;
	u32				functions;
	const struct sframe_says	*says;
	unsigned int			nr_says;
};

#define VECTOR(name, at, first, end, nr) {						\
	.desc = #name, .bytes = name, .size = sizeof(name), .addr = (at),		\
	.text = { (first), (end) }, .functions = (nr),					\
	.says = name##_says, .nr_says = ARRAY_SIZE(name##_says),			\
}

static const struct sframe_vector sframe_vectors[] = {
	VECTOR(frames_v1, 0x4021e0, 0x401000, 0x4013f6, 10),
	VECTOR(frames_v2, 0x4021e0, 0x401000, 0x4013fe, 10),
	VECTOR(frames_v3, 0x4021a8, 0x401000, 0x401405, 11),
	VECTOR(linked_v1, 0x2120, 0x1000, 0x2000, 3),
	VECTOR(object_v2, 0x2000, 0x1000, 0x2000, 3),
	VECTOR(linked_v3, 0x2140, 0x1000, 0x11b4, 7),
	VECTOR(special_v3, 0x2000, 0x1000, 0x2000, 12),
};

KUNIT_ARRAY_PARAM_DESC(sframe, sframe_vectors, desc);

/* Allocate exactly @size bytes, so that KASAN reports reads beyond the section. */
static u8 *sframe_bytes(struct kunit *test, const struct sframe_vector *v, u32 size,
			struct sframe_section *section)
{
	u8 *bytes = kunit_kzalloc(test, size, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, bytes);
	memcpy(bytes, v->bytes, min(size, v->size));
	*section = (struct sframe_section) {
		.bytes = bytes, .size = size, .addr = v->addr, .text = &v->text, .nr_text = 1,
	};
	return bytes;
}

static struct sframe_table *sframe_table(struct kunit *test,
					 const struct sframe_section *section, int *status)
{
	struct sframe_table measured, *table;

	*status = sframe_measure(section, &measured);
	if (*status)
		return NULL;
	table = kunit_kmalloc(test, sframe_table_size(&measured), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, table);
	memset(table, 0xa5, sframe_table_size(&measured));
	*table = measured;
	*status = sframe_build(section, table);
	if (*status) {
		kunit_kfree(test, table);
		return NULL;
	}
	return table;
}

static bool sframe_same(const struct unwind_user_frame *a, const struct unwind_user_frame *b)
{
	if (a->outermost || b->outermost)
		return a->outermost == b->outermost;
	return a->cfa == b->cfa && a->cfa_off == b->cfa_off && a->signal == b->signal &&
	       a->ra == b->ra && a->ra_off == b->ra_off && a->fp == b->fp &&
	       (a->fp == UNWIND_BASE_SAME || a->fp_off == b->fp_off);
}

/* Check each address from one row to the next, and 8 addresses from the last row on. */
static void sframe_expect_rows(struct kunit *test, const struct sframe_table *table,
			       const struct sframe_vector *v, u64 shift)
{
	struct unwind_user_frame frame;

	for (unsigned int i = 0; i < v->nr_says; i++) {
		const struct sframe_says *says = &v->says[i];
		u32 end = i + 1 < v->nr_says ? says[1].at : says->at + 8;

		for (u32 at = says->at; at < end; at++) {
			bool found = sframe_find(table, at + shift, &frame);

			if (found != says->found || (found && !sframe_same(&frame, &says->frame)))
				KUNIT_FAIL(test, "%s: %#x: found %d cfa %#x%+d fp %#x%+d ra %#x%+d",
					   v->desc, at, found, frame.cfa, frame.cfa_off, frame.fp,
					   frame.fp_off, frame.ra, frame.ra_off);
		}
	}
}

static void sframe_vector_test(struct kunit *test)
{
	const struct sframe_vector *v = test->param_value;
	struct unwind_user_frame frame;
	struct sframe_section section;
	struct sframe_table *table;
	int status;
	u8 *bytes;

	bytes = sframe_bytes(test, v, v->size, &section);
	table = sframe_table(test, &section, &status);
	KUNIT_ASSERT_EQ(test, status, 0);
	KUNIT_EXPECT_EQ(test, table->functions, v->functions);
	KUNIT_EXPECT_EQ(test, table->bad, 0);
	KUNIT_EXPECT_EQ(test, table->versions, BIT(v->bytes[2]));
	/* The table does not refer to the section. */
	kunit_kfree(test, bytes);

	sframe_expect_rows(test, table, v, 0);
	KUNIT_EXPECT_FALSE(test, sframe_find(table, v->says[0].at - 1, &frame));
	KUNIT_EXPECT_FALSE(test, sframe_find(table, 0, &frame));
	KUNIT_EXPECT_FALSE(test, sframe_find(table, U64_MAX, &frame));
	KUNIT_EXPECT_FALSE(test, sframe_find(table, v->says[0].at + BIT_ULL(32), &frame));
}

/* Linkers without SFrame support concatenate sections. Garbage after them is no section. */
static void sframe_concatenated_test(struct kunit *test)
{
	const struct sframe_vector first = VECTOR(linked_v1, 0x2120, 0x1000, 0x3000, 3);
	const struct sframe_vector second = VECTOR(object_v2, 0x2000, 0x1000, 0x3000, 3);
	const u32 offset = round_up(first.size, 8);
	const u32 size = round_up(offset + second.size, 8) + sizeof(struct sframe_header);
	struct sframe_section section;
	struct sframe_table *table;
	u8 *bytes, *behind;
	int status;

	bytes = sframe_bytes(test, &first, size, &section);
	memcpy(bytes + offset, second.bytes, second.size);
	behind = bytes + size - sizeof(struct sframe_header);

	for (unsigned int garbage = 0; garbage <= 1; garbage++) {
		/* A magic number with an unknown version. */
		behind[0] = garbage ? 0xe2 : 0;
		behind[1] = garbage ? 0xde : 0;
		table = sframe_table(test, &section, &status);
		KUNIT_ASSERT_EQ(test, status, 0);
		KUNIT_EXPECT_EQ(test, table->functions, 6);
		KUNIT_EXPECT_EQ(test, table->bad, garbage);
		KUNIT_EXPECT_EQ(test, table->versions, BIT(1) | BIT(2));
		sframe_expect_rows(test, table, &first, 0);
		sframe_expect_rows(test, table, &second, first.addr + offset - second.addr);
	}
}

/* Change one byte of a section, and check the status and the number of bad functions. */
static void sframe_wrong_test(struct kunit *test)
{
	static const struct {
		unsigned int	offset;
		u8		val;
		int		status;
		unsigned int	bad;
	} cases[] = {
		/* Magic, version, flags, architecture, fixed offsets, auxiliary header */
		{ 0, 0xde, -EINVAL }, { 2, 0, -EOPNOTSUPP }, { 2, 4, -EOPNOTSUPP },
		{ 3, 7, -EOPNOTSUPP }, { 4, 2, -EOPNOTSUPP }, { 5, 1, -EOPNOTSUPP },
		{ 6, 0, -EOPNOTSUPP }, { 7, 1, -EINVAL },
		/* Number of FDEs, size of rows, offsets of both */
		{ 8, 0, -ENODATA }, { 8, 8, -EINVAL }, { 11, 0x80, -EINVAL }, { 16, 0x51, -EINVAL },
		{ 20, 1, -EINVAL }, { 24, 0x6f, -EINVAL }, { 27, 0xff, -EINVAL },
		/* Start of a function, size, offset of its rows, number of rows */
		{ 32, 0, .bad = 1 }, { 36, 0, .bad = 1 }, { 39, 0xff, .bad = 1 },
		{ 40, 77, .bad = 1 }, { 43, 0xff, .bad = 1 }, { 140, 9, .bad = 1 },
		{ 141, 0xff, .bad = 1 },
		/* Width, bits of other architectures, blocks of 0 bytes, type */
		{ 142, 3, .bad = 1 }, { 142, 0x20, .bad = 1 }, { 142, 0x40, .bad = 1 },
		{ 142, 0x10, .bad = 1 }, { 143, 2, .bad = 1 },
		/* Start of a row after the end, data words */
		{ 145, 4, .bad = 1 }, { 146, 7, .bad = 1 }, { 146, 0x63, .bad = 1 },
		{ 146, 0x83, .bad = 1 },
	};
	const struct sframe_vector *v = &sframe_vectors[5];
	struct sframe_section section;
	struct sframe_table *table;
	u8 *bytes, was;
	int status;

	bytes = sframe_bytes(test, v, v->size, &section);
	for (int i = 0; i < ARRAY_SIZE(cases); i++) {
		was = bytes[cases[i].offset];
		bytes[cases[i].offset] = cases[i].val;
		table = sframe_table(test, &section, &status);
		KUNIT_EXPECT_EQ_MSG(test, status, cases[i].status, "case %d", i);
		if (table) {
			KUNIT_EXPECT_EQ_MSG(test, table->bad, cases[i].bad, "case %d", i);
			KUNIT_EXPECT_EQ_MSG(test, table->functions, 7 - cases[i].bad, "case %d", i);
		}
		bytes[cases[i].offset] = was;
	}
}

static bool sframe_is_rule(u8 base)
{
	base &= ~UNWIND_BASE_LOAD;
	return base == UNWIND_BASE_CFA || base < ARCH_DWARF_REGS;
}

/* If there is a table, all its frames must be valid. */
static void sframe_check_any(struct kunit *test, const struct sframe_vector *v,
			     const struct sframe_section *section)
{
	struct unwind_user_frame frame;
	struct sframe_table *table;
	int status;

	table = sframe_table(test, section, &status);
	KUNIT_EXPECT_EQ(test, !table, status < 0);
	for (unsigned int i = 0; table && i < v->nr_says; i++) {
		if (sframe_find(table, v->says[i].at, &frame) && !frame.outermost &&
		    (!sframe_is_rule(frame.cfa) || (frame.cfa & UNWIND_BASE_CFA) ||
		     !sframe_is_rule(frame.ra) ||
		     (frame.fp != UNWIND_BASE_SAME && !sframe_is_rule(frame.fp))))
			KUNIT_FAIL(test, "%#x: cfa %#x ra %#x", v->says[i].at, frame.cfa, frame.ra);
	}
	kunit_kfree(test, table);
}

static void sframe_cut_test(struct kunit *test)
{
	const struct sframe_vector *v = test->param_value;
	struct sframe_section section;
	struct sframe_table measured;
	u8 *bytes;

	for (u32 size = 1; size < v->size; size++) {
		bytes = sframe_bytes(test, v, size, &section);
		KUNIT_EXPECT_EQ(test, sframe_measure(&section, &measured), -EINVAL);
		kunit_kfree(test, bytes);
	}
}

static void sframe_damaged_test(struct kunit *test)
{
	static const u8 flips[] = { 0x01, 0x10, 0x80, 0xff };
	const struct sframe_vector *v = test->param_value;
	struct sframe_section section;
	u8 *bytes, was;

	bytes = sframe_bytes(test, v, v->size, &section);
	for (u32 i = 0; i < v->size; i++) {
		was = bytes[i];
		bytes[i] ^= flips[i % ARRAY_SIZE(flips)];
		sframe_check_any(test, v, &section);
		bytes[i] = 0;
		sframe_check_any(test, v, &section);
		bytes[i] = was;
	}
}

static struct kunit_case unwind_sframe_cases[] = {
	KUNIT_CASE_PARAM(sframe_vector_test, sframe_gen_params),
	KUNIT_CASE(sframe_concatenated_test),
	KUNIT_CASE(sframe_wrong_test),
	KUNIT_CASE_PARAM(sframe_cut_test, sframe_gen_params),
	KUNIT_CASE_PARAM(sframe_damaged_test, sframe_gen_params),
	{}
};

static struct kunit_suite unwind_sframe_suite = {
	.name		= "unwind_sframe",
	.test_cases	= unwind_sframe_cases,
};

kunit_test_suite(unwind_sframe_suite);

MODULE_DESCRIPTION("KUnit tests of the SFrame decoder");
MODULE_LICENSE("GPL");
