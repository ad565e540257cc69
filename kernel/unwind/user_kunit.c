// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the user stack walker.
 *
 * The test thread gets a user mapping of its own. Each case writes a stack into it and
 * walks it from made-up registers. Hostile stacks come first: each of them must end in
 * a shorter trace.
 */
#include <kunit/test.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/uaccess.h>
#include <linux/unwind_user.h>

#include "unwind.h"

#define WALK_PAGES	4
#define WALK_SLOTS	(WALK_PAGES * PAGE_SIZE / sizeof(u64))
#define WALK_MAX	24

/* The page of the mapping that frames return to: each caller is after a call. */
#define WALK_TEXT	(2 * PAGE_SIZE)
#define CALLER(n)	(WALK_TEXT + 16 * (n))

/*
 * Words and registers of a case are byte offsets into the user mapping if they
 * stand for addresses; RAW() takes a value as it is.
 */
struct walk_val {
	bool	raw;
	u64	val;
};

#define AT(off)		{ .val = (off) }
#define RAW(v)		{ .raw = true, .val = (v) }
#define RA(n)		AT(CALLER(n))
#define WORD(off, v)	{ .used = true, .where = (off), .what = v }

struct walk_case {
	const char	*desc;
	unsigned int	ws;
	/* The ip is at the first instruction of a function. */
	bool		at_entry;
	/* The last page of the mapping is unmapped. */
	bool		hole;
	struct walk_val	sp, fp;
	struct {
		bool		used;
		u32		where;
		struct walk_val	what;
	} words[10];
	unsigned int	max;
	u64		expect[WALK_MAX];
	unsigned int	nr;
	/* The walk ends because the last frame has saved 0. */
	bool		outermost;
};

static const struct walk_case walk_cases[] = {
	{
		.desc	= "fp is zero",
		.ws = 8, .sp = AT(64), .fp = RAW(0),
	}, {
		.desc	= "fp below sp, to code after no call",
		.ws = 8, .sp = AT(64), .fp = AT(48),
		.words	= { WORD(48, AT(128)), WORD(56, AT(CALLER(1) + 1)) },
	}, {
		.desc	= "fp below sp, to data",
		.ws = 8, .sp = AT(64), .fp = AT(48),
		.words	= { WORD(48, AT(128)), WORD(56, RAW(0)) },
	}, {
		.desc	= "frame across sp",
		.ws = 8, .sp = AT(64), .fp = AT(56),
		.words	= { WORD(56, AT(128)), WORD(64, RA(1)) },
	}, {
		.desc	= "switch to a lower stack and back",
		.ws = 8, .sp = AT(512), .fp = AT(512),
		.words	= { WORD(512, AT(64)), WORD(520, RA(1)),
			    WORD(64, AT(96)), WORD(72, RA(2)),
			    WORD(96, AT(640)), WORD(104, RA(3)),
			    WORD(640, RAW(0)), WORD(648, RA(4)) },
		.expect	= { CALLER(1), CALLER(2), CALLER(3), CALLER(4) },
		.nr = 4, .outermost = true,
	}, {
		.desc	= "frame points to itself",
		.ws = 8, .sp = AT(64), .fp = AT(64),
		.words	= { WORD(64, AT(64)), WORD(72, RA(1)) },
		.expect	= { [0 ... UNWIND_USER_SWITCHES] = CALLER(1) },
		.nr = 1 + UNWIND_USER_SWITCHES,
	}, {
		.desc	= "two frames in a loop",
		.ws = 8, .sp = AT(0), .fp = AT(64),
		.words	= { WORD(64, AT(128)), WORD(72, RA(1)),
			    WORD(128, AT(64)), WORD(136, RA(2)) },
		.expect	= { CALLER(1), CALLER(2), CALLER(1), CALLER(2), CALLER(1), CALLER(2),
			    CALLER(1), CALLER(2), CALLER(1), CALLER(2), CALLER(1), CALLER(2),
			    CALLER(1), CALLER(2), CALLER(1), CALLER(2), CALLER(1), CALLER(2) },
		.nr = 2 * (1 + UNWIND_USER_SWITCHES),
	}, {
		.desc	= "caller's frame overlaps this one",
		.ws = 8, .sp = AT(0), .fp = AT(64),
		.words	= { WORD(64, AT(72)), WORD(72, RA(1)),
			    WORD(80, RA(2)) },
		.expect	= { CALLER(1) }, .nr = 1,
	}, {
		.desc	= "fp to zeroes above sp",
		.ws = 8, .sp = AT(0), .fp = AT(64),
		.words	= { WORD(64, RAW(0)), WORD(72, RAW(0)) },
	}, {
		.desc	= "fp not aligned",
		.ws = 8, .sp = AT(0), .fp = AT(65),
	}, {
		.desc	= "caller's fp not aligned",
		.ws = 8, .sp = AT(0), .fp = AT(64),
		.words	= { WORD(64, AT(132)), WORD(72, RA(1)) },
		.expect	= { CALLER(1) }, .nr = 1,
	}, {
		.desc	= "fp is a kernel address",
		.ws = 8, .sp = AT(0), .fp = RAW(0xffffffff81000000),
	}, {
		.desc	= "caller's fp is a kernel address",
		.ws = 8, .sp = AT(0), .fp = AT(64),
		.words	= { WORD(64, RAW(0xffff888000000000)), WORD(72, RA(1)) },
		.expect	= { CALLER(1) }, .nr = 1,
	}, {
		.desc	= "fp is not canonical",
		.ws = 8, .sp = AT(0), .fp = RAW(0x8000000000000000),
	}, {
		.desc	= "fp in the last word of user memory",
		.ws = 8, .sp = AT(0), .fp = RAW(0x7fffffffeff8),
	}, {
		.desc	= "fp at the end of the address space",
		.ws = 8, .sp = AT(0), .fp = RAW(-8ULL),
	}, {
		.desc	= "sp and fp at the end of the address space",
		.ws = 8, .sp = RAW(-16ULL), .fp = RAW(-16ULL),
	}, {
		.desc	= "frame in a hole",
		.ws = 8, .hole = true, .sp = AT(0), .fp = AT(3 * PAGE_SIZE + 64),
	}, {
		.desc	= "frame ends at a hole",
		.ws = 8, .hole = true, .sp = AT(0), .fp = AT(3 * PAGE_SIZE - 16),
		.words	= { WORD(3 * PAGE_SIZE - 16, AT(3 * PAGE_SIZE)),
			    WORD(3 * PAGE_SIZE - 8, RA(1)) },
		.expect	= { CALLER(1) }, .nr = 1,
	}, {
		.desc	= "return address in a hole",
		.ws = 8, .hole = true, .sp = AT(0), .fp = AT(3 * PAGE_SIZE - 8),
		.words	= { WORD(3 * PAGE_SIZE - 8, AT(3 * PAGE_SIZE + 8)) },
	}, {
		.desc	= "entry: sp in a hole",
		.ws = 8, .at_entry = true, .hole = true,
		.sp = AT(3 * PAGE_SIZE), .fp = AT(3 * PAGE_SIZE + 64),
	}, {
		.desc	= "entry: sp not aligned",
		.ws = 8, .at_entry = true, .sp = AT(65), .fp = RAW(0),
	}, {
		.desc	= "entry: sp is a kernel address",
		.ws = 8, .at_entry = true, .sp = RAW(0xffffffff81000000), .fp = RAW(0),
	}, {
		.desc	= "entry: sp wraps",
		.ws = 8, .at_entry = true, .sp = RAW(-8ULL), .fp = RAW(0),
	}, {
		.desc	= "32 bit: fp above 4G is cut off",
		.ws = 4, .sp = AT(0), .fp = RAW(0xffffffff00000001),
	}, {
		.desc	= "32 bit: loop",
		.ws = 4, .sp = AT(0), .fp = AT(64),
		.words	= { WORD(64, AT(64)), WORD(68, RA(1)) },
		.expect	= { [0 ... UNWIND_USER_SWITCHES] = CALLER(1) },
		.nr = 1 + UNWIND_USER_SWITCHES,
	}, {
		.desc	= "three frames",
		.ws = 8, .sp = AT(0), .fp = AT(16),
		.words	= { WORD(16, AT(64)), WORD(24, RA(1)),
			    WORD(64, AT(PAGE_SIZE)), WORD(72, RA(2)),
			    WORD(PAGE_SIZE, RAW(0)), WORD(PAGE_SIZE + 8, RA(3)) },
		.expect	= { CALLER(1), CALLER(2), CALLER(3) }, .nr = 3, .outermost = true,
	}, {
		.desc	= "three frames back to back from sp on",
		.ws = 8, .sp = AT(16), .fp = AT(16),
		.words	= { WORD(16, AT(32)), WORD(24, RA(1)),
			    WORD(32, AT(48)), WORD(40, RA(2)),
			    WORD(48, RAW(1)), WORD(56, RA(3)) },
		.expect	= { CALLER(1), CALLER(2), CALLER(3) }, .nr = 3,
	}, {
		.desc	= "no room",
		.ws = 8, .sp = AT(0), .fp = AT(16), .max = 1,
		.words	= { WORD(16, AT(64)), WORD(24, RA(1)),
			    WORD(64, RAW(0)), WORD(72, RA(2)) },
		.expect	= { CALLER(1) }, .nr = 1,
	}, {
		.desc	= "entry: caller on top of the stack",
		.ws = 8, .at_entry = true, .sp = AT(8), .fp = AT(16),
		.words	= { WORD(8, RA(1)),
			    WORD(16, RAW(0)), WORD(24, RA(2)) },
		.expect	= { CALLER(1), CALLER(2) }, .nr = 2, .outermost = true,
	}, {
		.desc	= "32 bit: two frames",
		.ws = 4, .sp = AT(0), .fp = AT(16),
		.words	= { WORD(16, AT(64)), WORD(20, RA(1)),
			    WORD(64, RAW(0)), WORD(68, RA(2)) },
		.expect	= { CALLER(1), CALLER(2) }, .nr = 2, .outermost = true,
	}, {
		.desc	= "32 bit: entry",
		.ws = 4, .at_entry = true, .sp = AT(12), .fp = AT(16),
		.words	= { WORD(12, RA(1)),
			    WORD(16, RAW(0)), WORD(20, RA(2)) },
		.expect	= { CALLER(1), CALLER(2) }, .nr = 2, .outermost = true,
	},
};

KUNIT_ARRAY_PARAM_DESC(walk, walk_cases, desc);

static unsigned long walk_map(struct kunit *test, unsigned long flags)
{
	unsigned long addr;

	addr = kunit_vm_mmap(test, NULL, 0, WALK_PAGES * PAGE_SIZE,
			     PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_ANONYMOUS | MAP_PRIVATE | flags, 0);
	KUNIT_ASSERT_NE(test, addr, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(addr));
	return addr;
}

static u64 walk_val(const struct walk_val *v, unsigned long base)
{
	return v->raw ? v->val : base + v->val;
}

static void walk_write(struct kunit *test, unsigned long addr, u64 val,
		       unsigned int ws)
{
	if (ws == sizeof(u32))
		KUNIT_ASSERT_EQ(test, 0, put_user((u32)val, (u32 __user *)addr));
	else
		KUNIT_ASSERT_EQ(test, 0, put_user(val, (u64 __user *)addr));
}

static void walk_test(struct kunit *test)
{
	const struct walk_case *c = test->param_value;
	unsigned int max = c->max ?: WALK_MAX;
	unsigned long entries[WALK_MAX + 1];
	struct unwind_user_state state;
	unsigned long base;
	unsigned int nr;

	base = walk_map(test, c->ws == sizeof(u32) ? MAP_32BIT : 0);
	for (int i = 1; i < WALK_MAX; i++)
		KUNIT_ASSERT_EQ(test, 0, put_user(0xe8, (u8 __user *)base + CALLER(i) - 5));
	KUNIT_ASSERT_EQ(test, 0, put_user(0x55, (u8 __user *)base + CALLER(0)));

	for (int i = 0; i < ARRAY_SIZE(c->words); i++) {
		if (c->words[i].used)
			walk_write(test, base + c->words[i].where,
				   walk_val(&c->words[i].what, base), c->ws);
	}
	if (c->hole)
		KUNIT_ASSERT_EQ(test, 0, vm_munmap(base + 3 * PAGE_SIZE, PAGE_SIZE));

	state = (struct unwind_user_state) {
		.sp		= walk_val(&c->sp, base),
		.fp		= walk_val(&c->fp, base),
		.ip		= base + CALLER(0),
		.ws		= c->ws,
		.code		= &unwind_text_none,
		.own		= &(struct unwind_text_code) {},
		.step		= c->at_entry ? UNWIND_STEP_CODE : UNWIND_STEP_FP,
		.syscall	= -1,
	};

	entries[max] = 0xdead;
	nr = unwind_user_walk(&state, entries, max);

	KUNIT_EXPECT_EQ(test, nr, c->nr);
	KUNIT_EXPECT_EQ(test, entries[max], 0xdead);
	KUNIT_EXPECT_EQ(test, state.step == UNWIND_STEP_DONE, nr < max);
	KUNIT_EXPECT_EQ(test, state.outermost, c->outermost);
	for (int i = 0; i < min(nr, c->nr); i++)
		KUNIT_EXPECT_EQ(test, entries[i], base + c->expect[i]);
	if (nr)
		KUNIT_EXPECT_EQ(test, state.ip, entries[nr - 1]);
}

/* Walk a chain through the whole mapping, in pieces of several sizes. */
static void walk_resume_test(struct kunit *test)
{
	const unsigned int frames = WALK_SLOTS / 2;
	unsigned long *entries;
	unsigned long base;

	entries = kunit_kcalloc(test, frames, sizeof(*entries), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, entries);
	base = walk_map(test, 0);

	for (int i = 0; i < frames; i++) {
		walk_write(test, base + 16 * i, base + 16 * (i + 1), 8);
		walk_write(test, base + 16 * i + 8, base + i, 8);
	}

	for (unsigned int piece = 1; piece <= 2 * frames; piece = piece * 3 + 1) {
		struct unwind_user_state state = {
			.sp = base, .fp = base, .ws = 8, .step = UNWIND_STEP_FP,
			.code = &unwind_text_none, .syscall = -1,
			.own = &(struct unwind_text_code) {},
		};
		unsigned int nr = 0;

		memset(entries, 0, frames * sizeof(*entries));
		while (state.step != UNWIND_STEP_DONE && nr < frames)
			nr += unwind_user_walk(&state, entries + nr,
					       min(piece, frames - nr));

		KUNIT_EXPECT_EQ(test, nr, frames);
		for (int i = 0; i < frames; i++)
			KUNIT_ASSERT_EQ(test, entries[i], base + i);
	}
}

/* Pages that are not present fault in; with page faults disabled they end the walk. */
static void walk_fault_test(struct kunit *test)
{
	struct unwind_user_state state, start;
	unsigned long entries[WALK_MAX];
	unsigned long base, fp;

	base = walk_map(test, 0);
	/* The frame's last word is on an untouched page, which reads as zero. */
	fp = base + PAGE_SIZE - 8;
	walk_write(test, fp, fp + 64, 8);
	start = (struct unwind_user_state) {
		.sp = base, .fp = fp, .ws = 8, .step = UNWIND_STEP_FP,
		.code = &unwind_text_none, .syscall = -1,
		.own = &(struct unwind_text_code) {},
	};

	state = start;
	pagefault_disable();
	KUNIT_EXPECT_EQ(test, unwind_user_walk(&state, entries, WALK_MAX), 0);
	pagefault_enable();
	/* Nothing was read. */
	KUNIT_EXPECT_EQ(test, state.sp, base);

	state = start;
	KUNIT_EXPECT_EQ(test, unwind_user_walk(&state, entries, WALK_MAX), 0);
	/* The frame was read, and 0 is no code. */
	KUNIT_EXPECT_EQ(test, state.sp, fp + 16);
}

/* A return address must be code. */
static void walk_text_test(struct kunit *test)
{
	struct unwind_user_state state;
	unsigned long entries[WALK_MAX];
	unsigned long base, data;
	u64 bad[8];

	base = walk_map(test, 0);
	data = kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, PROT_READ | PROT_WRITE,
			     MAP_ANONYMOUS | MAP_PRIVATE, 0);
	KUNIT_ASSERT_NE(test, data, 0);

	bad[0] = data + 16;
	bad[1] = 0;
	bad[2] = base - 1;
	bad[3] = base + WALK_PAGES * PAGE_SIZE;
	bad[4] = TASK_SIZE_MAX;
	bad[5] = 1ULL << 63;
	bad[6] = 0xffffffffff600000;
	bad[7] = (unsigned long)walk_text_test;

	walk_write(test, base, base + 64, 8);
	walk_write(test, base + 8, base + CALLER(1), 8);
	walk_write(test, base + 64, base + 128, 8);
	walk_write(test, base + 128, 0, 8);
	walk_write(test, base + 136, base + CALLER(3), 8);

	for (int i = 0; i < ARRAY_SIZE(bad); i++) {
		walk_write(test, base + 72, bad[i], 8);
		state = (struct unwind_user_state) {
			.sp = base, .fp = base, .ws = 8, .step = UNWIND_STEP_FP,
			.code = &unwind_text_none, .syscall = -1,
			.own = &(struct unwind_text_code) {},
		};
		KUNIT_EXPECT_EQ_MSG(test, unwind_user_walk(&state, entries, WALK_MAX), 1,
				    "return address %llx", bad[i]);
		KUNIT_EXPECT_EQ(test, entries[0], base + CALLER(1));
		KUNIT_EXPECT_EQ(test, state.step, UNWIND_STEP_DONE);
	}

	walk_write(test, base + 72, base + CALLER(2), 8);
	state = (struct unwind_user_state) {
		.sp = base, .fp = base, .ws = 8, .step = UNWIND_STEP_FP,
		.code = &unwind_text_none, .syscall = -1,
		.own = &(struct unwind_text_code) {},
	};
	KUNIT_EXPECT_EQ(test, unwind_user_walk(&state, entries, WALK_MAX), 3);
}

/* Write where user mode cannot, as a debugger does. */
static void walk_poke(struct kunit *test, unsigned long addr, const void *what, size_t size)
{
	struct page *page;

	KUNIT_ASSERT_EQ(test, 1, pin_user_pages_unlocked(addr & PAGE_MASK, 1, &page,
							 FOLL_WRITE | FOLL_FORCE));
	memcpy_to_page(page, offset_in_page(addr), what, size);
	unpin_user_page(page);
}

/* Returns an empty cache, and maps a page of read-only code: zeros. */
static struct unwind_text *walk_text_map(struct kunit *test, unsigned long *code)
{
	struct unwind_text *text;

	text = kunit_kzalloc(test, sizeof(*text), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, text);
	*code = kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, PROT_READ | PROT_EXEC,
			      MAP_ANONYMOUS | MAP_PRIVATE, 0);
	KUNIT_ASSERT_FALSE(test, !*code || IS_ERR_VALUE(*code));
	return text;
}

/* A return address, whether it is accepted as caller, and whether it is cached. */
struct walk_ra {
	unsigned long	ra;
	bool		no_faults;
	bool		found;
	bool		remembered;
};

/* Walk from @start with each of @cases in turn at @at; *@memory is the cached address. */
static void walk_each(struct kunit *test, const struct unwind_user_state *start,
		      const struct walk_ra *cases, int nr, unsigned long at,
		      const unsigned long *memory)
{
	unsigned long entry, was = 0;

	for (int i = 0; i < nr; i++) {
		struct unwind_user_state state = *start;

		walk_write(test, at, cases[i].ra, 8);
		if (cases[i].no_faults)
			pagefault_disable();
		KUNIT_EXPECT_EQ_MSG(test, cases[i].found, unwind_user_walk(&state, &entry, 1),
				    "case %d", i);
		if (cases[i].no_faults)
			pagefault_enable();
		if (cases[i].remembered)
			was = cases[i].ra;
		KUNIT_EXPECT_EQ_MSG(test, was, *memory, "case %d", i);
	}
}

/*
 * A caller on top of the stack is cached, so that its code is read only once. It is not
 * cached if the code may change or could not be read.
 */
static void walk_caller_test(struct kunit *test)
{
	const u8 call[] = { 0xe8, 0, 0, 0, 0 }, push = 0x55;
	unsigned long base = walk_map(test, 0), entry, code;
	struct unwind_user_state state, start;
	struct unwind_text *text = walk_text_map(test, &code);

	walk_poke(test, code, &push, sizeof(push));
	walk_poke(test, code + 64 - sizeof(call), call, sizeof(call));
	walk_poke(test, code + 128 - sizeof(call), call, sizeof(call));
	walk_poke(test, base + CALLER(1) - sizeof(call), call, sizeof(call));
	start = (struct unwind_user_state) {
		.ip = code, .sp = base, .ws = 8, .step = UNWIND_STEP_CODE,
		.code = &text->code[0], .text = text, .syscall = -1,
	};

	const struct walk_ra cases[] = {
		{ .ra = base + CALLER(1), .found = true },
		{ .ra = code + 32 },
		{ .ra = code + 64, .found = true, .no_faults = true },
		{ .ra = code + 64, .found = true, .remembered = true },
		{ .ra = code + 128, .found = true, .remembered = true },
		{ .ra = code + 32 },
	};

	walk_each(test, &start, cases, ARRAY_SIZE(cases), base, &text->caller);

	text->caller = code + 32;
	state = start;
	KUNIT_EXPECT_EQ(test, 1, unwind_user_walk(&state, &entry, 1));
	KUNIT_EXPECT_EQ(test, code + 32, entry);
}

/*
 * If a frame down the stack leads to no caller, this is cached, so that its code is read
 * only once. It is not cached if the code may change or could not be read.
 */
static void walk_switch_test(struct kunit *test)
{
	unsigned long base = walk_map(test, 0), entry, code, zeros;
	struct unwind_user_state state, start;
	/* The zeros of this page are no call. */
	struct unwind_text *text = walk_text_map(test, &code);

	start = (struct unwind_user_state) {
		.sp = base + 64, .fp = base + 16, .ws = 8, .step = UNWIND_STEP_FP,
		.code = &text->code[0], .text = text, .syscall = -1,
	};
	walk_write(test, base + 16, 0, 8);
	/* Fault the page in, for reads with page faults disabled. */
	KUNIT_ASSERT_EQ(test, 0, get_user(zeros, (unsigned long __user *)code));
	KUNIT_ASSERT_EQ(test, 0, zeros);

	const struct walk_ra cases[] = {
		{ .ra = base + 0x800 },
		{ .ra = code },
		{ .ra = code + 0x800, .no_faults = true },
		{ .ra = code + 0x900, .remembered = true },
		{ .ra = code + 0xa00, .remembered = true },
		{ .ra = base + 0x800 },
	};

	walk_each(test, &start, cases, ARRAY_SIZE(cases), base + 24, &text->no_caller);

	KUNIT_ASSERT_EQ(test, 0, put_user(0xe8, (u8 __user *)base + CALLER(1) - 5));
	walk_write(test, base + 24, base + CALLER(1), 8);
	state = start;
	KUNIT_EXPECT_EQ(test, 1, unwind_user_walk(&state, &entry, 1));
	text->no_caller = base + CALLER(1);
	state = start;
	KUNIT_EXPECT_EQ(test, 0, unwind_user_walk(&state, &entry, 1));
}

#ifdef CONFIG_X86_64
static void start_test(struct kunit *test)
{
	struct unwind_user_state state;
	struct pt_regs regs = {
		.orig_ax = -1, .ip = 0x401000, .sp = 0x1234567890, .bp = 0x1234567898,
		.cs = __USER_CS, .ss = __USER_DS,
	};

	memset(&state, 0xa5, sizeof(state));
	unwind_user_start(&state, &regs, NULL, NULL);
	KUNIT_EXPECT_EQ(test, state.ws, 8);
	KUNIT_EXPECT_EQ(test, state.ip, 0x401000);
	KUNIT_EXPECT_EQ(test, state.sp, 0x1234567890);
	KUNIT_EXPECT_EQ(test, state.fp, 0x1234567898);
	KUNIT_EXPECT_EQ(test, state.step, UNWIND_STEP_CODE);
	KUNIT_EXPECT_EQ(test, state.arch, 0);
	KUNIT_EXPECT_EQ(test, state.cs_base, 0);
	KUNIT_EXPECT_EQ(test, state.ss_base, 0);
	KUNIT_EXPECT_EQ(test, state.syscall, -1);
	KUNIT_EXPECT_EQ(test, state.signals, 0);
	KUNIT_EXPECT_EQ(test, state.code->range.start, 0);
	KUNIT_EXPECT_EQ(test, state.code->range.size, 0);
	KUNIT_EXPECT_NULL(test, state.text);
	KUNIT_EXPECT_NULL(test, state.uretprobe);

	/* The upper halves of a 32-bit task's registers are not part of its addresses. */
	regs.cs = __USER32_CS;
	unwind_user_start(&state, &regs, NULL, NULL);
	KUNIT_EXPECT_EQ(test, state.ws, 4);
	KUNIT_EXPECT_EQ(test, state.sp, 0x34567890);
	KUNIT_EXPECT_EQ(test, state.fp, 0x34567898);

	/* A code segment that user space cannot have. */
	memset(&state, 0xa5, sizeof(state));
	regs.cs = __KERNEL32_CS | 3;
	unwind_user_start(&state, &regs, NULL, NULL);
	KUNIT_EXPECT_EQ(test, state.ws, 0);
	KUNIT_EXPECT_EQ(test, state.step, UNWIND_STEP_DONE);
	KUNIT_EXPECT_EQ(test, state.signals, 0);
	KUNIT_EXPECT_NULL(test, state.text);
	KUNIT_EXPECT_NULL(test, state.uretprobe);
}
#endif

static void no_user_task_test(struct kunit *test)
{
	struct unwind_stacktrace trace = { .nr = 1 };

	KUNIT_EXPECT_EQ(test, unwind_user(&trace, 8), -EINVAL);
	KUNIT_EXPECT_EQ(test, trace.nr, 0);
}

static struct kunit_case unwind_user_cases[] = {
	KUNIT_CASE_PARAM(walk_test, walk_gen_params),
	KUNIT_CASE(walk_resume_test),
	KUNIT_CASE(walk_fault_test),
	KUNIT_CASE(walk_text_test),
	KUNIT_CASE(walk_caller_test),
	KUNIT_CASE(walk_switch_test),
#ifdef CONFIG_X86_64
	KUNIT_CASE(start_test),
#endif
	KUNIT_CASE(no_user_task_test),
	{}
};

static struct kunit_suite unwind_user_suite = {
	.name		= "unwind_user",
	.test_cases	= unwind_user_cases,
};

kunit_test_suite(unwind_user_suite);

MODULE_DESCRIPTION("KUnit tests of the user stack walker");
MODULE_LICENSE("GPL");
