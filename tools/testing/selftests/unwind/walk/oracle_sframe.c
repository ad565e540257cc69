// SPDX-License-Identifier: GPL-2.0
/*
 * The walk is correct at each instruction of functions that have no frame pointers but
 * rows of SFrame tables, and of functions with frame pointers that call them or are
 * called by them.
 *
 * "row" is code with rows, and "bare" is code with frame pointers that no table covers:
 * the program's table has no rows for its functions, and its library has no table.
 */
#include <dlfcn.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "oracle.h"
#include "oracle_mixed.h"
#include "harness.h"

#ifdef ORACLE_ROWS
ORACLE_BASE(row);
#else
/* The assembler writes no tables, and all tests are skipped. */
static const struct oracle_base oracle_base_row;
const struct oracle_func oracle_table_rowO0[1], oracle_table_rowO2[1];
const struct oracle_func oracle_table_rowOs[1], oracle_table_rowcet[1];
const struct oracle_func oracle_table_rowfp[1], oracle_table_rowasm[1];
const struct oracle_hop oracle_hops_mixed_row[1];
const oracle_handler_t oracle_handlers_mixed_row[2];
void oracle_row_restorer(void) { }
#endif

#define PROGRAM		"oracle_sframe"
#define STACK_SIZE	65536

static const char *missing(void)
{
#ifndef ORACLE_ROWS
	return "needs an assembler that takes --gsframe, when the test is built";
#endif
	return oracle_missing_sframe();
}

/* Load a library beside this program, judge walks in it, and return a symbol of it. */
static const void *from_library(struct oracle *oracle, const char *name, const char *symbol)
{
	void *lib = dlopen(oracle_beside(name), RTLD_LAZY | RTLD_LOCAL);

	if (!lib || !oracle_judge(oracle, getpid(), name))
		return NULL;
	return dlsym(lib, symbol);
}

/*
 * The functions of the vDSO, as far as they do not wait. Most clocks are read again if a
 * tick came in between, and a slow kernel has a tick in each such pass of single steps.
 */
static struct {
	int	(*clock_gettime)(clockid_t clock, struct timespec *time);
	int	(*clock_getres)(clockid_t clock, struct timespec *time);
	time_t	(*time)(time_t *time);
	long	(*getcpu)(unsigned int *cpu, unsigned int *node, void *unused);
} vdso;

static void vdso_clock_gettime(long clock)
{
	struct timespec time;

	vdso.clock_gettime(clock, &time);
}

static void vdso_clock_getres(long clock)
{
	struct timespec time;

	vdso.clock_getres(clock, &time);
}

static void vdso_time(long unused)
{
	time_t time;

	vdso.time(&time);
}

static void vdso_getcpu(long unused)
{
	unsigned int cpu, node;

	vdso.getcpu(&cpu, &node, NULL);
}

/* The vDSO reads this clock by a system call. */
static const struct oracle_func vdso_table[] = {
	{ "clock_gettime", (void (*)(void))vdso_clock_gettime, CLOCK_PROCESS_CPUTIME_ID },
	{ "clock_getres", (void (*)(void))vdso_clock_getres, CLOCK_MONOTONIC },
	{ "time", (void (*)(void))vdso_time, 0 },
	{ "getcpu", (void (*)(void))vdso_getcpu, 0 },
	{}
};

static bool vdso_init(void)
{
	void *lib = dlopen("linux-vdso.so.1", RTLD_LAZY | RTLD_NOLOAD);

	if (!lib)
		return false;
	vdso.clock_gettime = dlsym(lib, "__vdso_clock_gettime");
	vdso.clock_getres = dlsym(lib, "__vdso_clock_getres");
	vdso.time = dlsym(lib, "__vdso_time");
	vdso.getcpu = dlsym(lib, "__vdso_getcpu");
	return vdso.clock_gettime && vdso.clock_getres && vdso.time && vdso.getcpu;
}

FIXTURE(code) {
	struct oracle oracle;
	const struct oracle_func *table;
};

FIXTURE_VARIANT(code) {
	const struct oracle_func *table;
	const struct oracle_base *base;
	/* Or the table of a library. */
	const char *file, *symbol;
};

#define CODE(_name, _base)							\
FIXTURE_VARIANT_ADD(code, _name##_from_##_base) {				\
	.table = oracle_table_##_name, .base = &oracle_base_##_base		\
}

CODE(rowO0, bare);
CODE(rowO2, row);
CODE(rowOs, bare);
CODE(rowcet, row);
CODE(rowasm, row);
CODE(rowasm, bare);
/* Frame pointers, and rows as well. */
CODE(rowfp, row);
CODE(O2, row);
CODE(asm, row);
CODE(asm, bare);

FIXTURE_VARIANT_ADD(code, plt) {
	.base = &oracle_base_bare, .file = "oracle_plt.so", .symbol = "oracle_table_plt"
};

FIXTURE_VARIANT_ADD(code, ibt) {
	.base = &oracle_base_row, .file = "oracle_ibt.so", .symbol = "oracle_table_ibt"
};

FIXTURE_SETUP(code)
{
	if (missing())
		SKIP(return, "%s", missing());
	ASSERT_TRUE(oracle_judge(&self->oracle, getpid(), PROGRAM));
	self->table = variant->file ?
		from_library(&self->oracle, variant->file, variant->symbol) : variant->table;
	ASSERT_NE(NULL, self->table);
	for (unsigned int i = 0; i < self->oracle.images; i++)
		ASSERT_NE(0, oracle_image_sframe(&self->oracle.image[i]));
	ASSERT_TRUE(oracle_fork(&self->oracle, variant->base, self->table));
}

FIXTURE_TEARDOWN(code)
{
	oracle_end(&self->oracle);
}

/*
 * Wrong rows of linkers, each for an instruction or two of PLT entries:
 * - GNU ld 2.40 uses the rows of entries without IBT for entries with IBT, whose push ends
 *   two bytes later; and takes the first entry of .plt.sec for the one that calls the
 *   dynamic linker, with two words on the stack;
 * - GNU ld 2.47 assumes a pushed word at the only jump of each entry of .plt.got.
 */
static const struct {
	int		last_version;
	const char	*section;
	/* In each entry of @size, or only in the first one if @size is 0. */
	unsigned int	size, offset;
} wrong_rows[] = {
	{ 2, ".plt", 16, 9 }, { 2, ".plt.sec", 0, 0 }, { 2, ".plt.sec", 0, 4 },
	{ 3, ".plt.got", 8, 0 }, { 3, ".plt.got", 16, 4 },
};

static bool has_wrong_row(const struct oracle_image *image, unsigned long addr)
{
	unsigned long offset;
	const char *section = oracle_image_symbol(image, addr, &offset);

	for (unsigned int i = 0; i < ARRAY_SIZE(wrong_rows) && section; i++) {
		unsigned int size = wrong_rows[i].size ?: -1U;

		if (oracle_image_sframe(image) <= wrong_rows[i].last_version &&
		    !strcmp(section, wrong_rows[i].section) &&
		    offset % size == wrong_rows[i].offset)
			return true;
	}
	return false;
}

TEST_F(code, every_instruction)
{
	ASSERT_TRUE(oracle_run_table(&self->oracle, self->table));
	for (unsigned int i = 0; i < self->oracle.images; i++) {
		const struct oracle_image *image = &self->oracle.image[i];
		unsigned int wrong = 0;

		for (unsigned long at = image->start; at < image->end; at++) {
			if (image->marks[at - image->start] & ORACLE_WRONG)
				wrong += !has_wrong_row(image, at);
		}
		EXPECT_EQ(0, wrong);
	}
}

/*
 * The kernel's build made the vDSO's table. The vDSO also has frame pointers, so only the
 * count of frames tells that the table was used: no other code here has one.
 */
TEST(instructions_of_the_vdso)
{
	long frames = unwind_stat("sframe_frames");
	struct oracle oracle = {};
	unsigned int seen;

	if (missing())
		SKIP(return, "%s", missing());
	ASSERT_TRUE(vdso_init());
	ASSERT_TRUE(oracle_judge(&oracle, getpid(), "[vdso]"));
	if (!oracle_image_sframe(&oracle.image[0]))
		SKIP(return, "needs a vDSO with SFrame, by an assembler that makes that");
	ASSERT_TRUE(oracle_fork(&oracle, &oracle_base_bare, vdso_table));
	EXPECT_TRUE(oracle_run_table(&oracle, vdso_table));
	oracle_end(&oracle);
	EXPECT_EQ(0, oracle.wrong);
	seen = oracle_image_count(&oracle.image[0], NULL, ORACLE_SEEN);
	EXPECT_LT(40, seen);
	if (frames >= 0)
		EXPECT_LE(seen, unwind_stat("sframe_frames") - frames);
}

/* Without tables many walks are wrong there, which shows that the tables are tested. */
TEST(no_tables)
{
	struct oracle oracle = { .quiet = true };
	int old;

	if (missing())
		SKIP(return, "%s", missing());
	old = set_sysctl(ORACLE_SYSCTL, 0);
	ASSERT_LE(0, old);
	EXPECT_TRUE(oracle_judge(&oracle, getpid(), PROGRAM));
	EXPECT_TRUE(oracle_fork(&oracle, &oracle_base_row, oracle_table_rowO2) &&
		    oracle_run_table(&oracle, oracle_table_rowO2));
	oracle_end(&oracle);
	EXPECT_EQ(0, set_sysctl(ORACLE_SYSCTL, old));
	EXPECT_LT(oracle.steps / 4, oracle.wrong);
}

/* Code of one kind calls code of another kind, which calls the first kind again. */
FIXTURE(mixed) {
	struct oracle oracle;
	const struct oracle_hop *outer, *inner;
};

FIXTURE_VARIANT(mixed) {
	const struct oracle_base *base;
	/* Each is the code of this program, or of a library. */
	const char *outer, *inner;
};

#define MIXED(_outer, _inner, _base)						\
FIXTURE_VARIANT_ADD(mixed, _outer##_and_##_inner) {				\
	.outer = #_outer, .inner = #_inner, .base = &oracle_base_##_base	\
}

MIXED(row, bare, bare);
MIXED(bare, librow, row);
MIXED(libbare, row, row);
MIXED(librow, libbare, bare);
MIXED(row, librow, row);
MIXED(libbare, bare, bare);

static const struct oracle_hop *hops_of(struct oracle *oracle, const char *kind)
{
	char file[NAME_MAX], symbol[NAME_MAX];
	const struct oracle_image *image;
	const struct oracle_hop *hops;

	if (!strcmp(kind, "row"))
		return oracle_hops_mixed_row;
	if (!strcmp(kind, "bare"))
		return oracle_hops_mixed_bare;
	snprintf(file, sizeof(file), "oracle_mixed_%s.so", kind);
	snprintf(symbol, sizeof(symbol), "oracle_hops_mixed_%s", kind);
	hops = from_library(oracle, file, symbol);
	if (!hops)
		return NULL;
	/* Does the library have a table exactly if its name says so? */
	image = &oracle->image[oracle->images - 1];
	return !strstr(kind, "row") == !oracle_image_sframe(image) ? hops : NULL;
}

FIXTURE_SETUP(mixed)
{
	if (missing())
		SKIP(return, "%s", missing());
	ASSERT_TRUE(oracle_judge(&self->oracle, getpid(), PROGRAM));
	self->outer = hops_of(&self->oracle, variant->outer);
	self->inner = hops_of(&self->oracle, variant->inner);
	ASSERT_NE(NULL, self->outer);
	ASSERT_NE(NULL, self->inner);
}

FIXTURE_TEARDOWN(mixed)
{
	oracle_end(&self->oracle);
}

#define MAX_HOPS	12

/*
 * A function of @outer calls two functions of @inner, or all of them, which call it again.
 * At the end it calls the last one, which calls nothing.
 */
static void make_path(struct oracle_hop *path, const struct oracle_hop *outer,
		      const struct oracle_hop *inner, unsigned int first)
{
	bool full = getenv("UNWIND_FULL");

	for (unsigned int i = 0; inner[i].call; i++) {
		if (full || i == first || i == first + 1 || !inner[i + 1].call) {
			*path++ = outer[first];
			*path++ = inner[i];
		}
	}
	*path = (struct oracle_hop) {};
}

TEST_F(mixed, every_instruction)
{
	struct oracle_hop path[MAX_HOPS][2 * MAX_HOPS];
	struct oracle_func table[MAX_HOPS] = {};

	/* The last one calls nothing. */
	for (unsigned int i = 0; self->outer[i + 1].call; i++) {
		ASSERT_GT(MAX_HOPS, i + 1);
		make_path(path[i], self->outer, self->inner, i);
		table[i].name = "path";
		table[i].func = (void (*)(void))path[i][0].call;
		table[i].arg = (long)(path[i] + 1);
	}
	ASSERT_TRUE(oracle_fork(&self->oracle, variant->base, table));
	ASSERT_TRUE(oracle_run_table(&self->oracle, table));
	EXPECT_EQ(0, self->oracle.wrong);
}

/* A signal at each instruction: the handler's walk continues there, and is exact. */
FIXTURE(signals) {
	struct oracle oracle;
	void *stack;
};

FIXTURE_VARIANT(signals) {
	const struct oracle_func *table;
	const struct oracle_base *base;
	const oracle_handler_t *handler;
	unsigned long flags;
	/* Use the restorer of this program instead of the C library's. */
	bool restorer;
};

#define SIGNAL(_name, _base, _kind, _length, _flags, _restorer)			\
FIXTURE_VARIANT_ADD(signals, _name##_from_##_base##_##_length##_##_kind) {	\
	.table = oracle_table_##_name, .base = &oracle_base_##_base,		\
	.handler = &oracle_handlers_mixed_##_kind[ORACLE_##_length],		\
	.flags = _flags, .restorer = _restorer					\
}

SIGNAL(rowO2, bare, row, SHORT, 0, false);
SIGNAL(O2, row, bare, SHORT, SA_ONSTACK, true);
SIGNAL(rowasm, row, row, LONG, SA_ONSTACK, true);
SIGNAL(rowasm, bare, bare, LONG, 0, false);
SIGNAL(asm, bare, row, SHORT, SA_ONSTACK, false);
SIGNAL(asm, row, row, SHORT, 0, true);

/* The kernel's struct sigaction. */
struct kernel_sigaction {
	oracle_handler_t	handler;
	unsigned long		flags;
	void			(*restorer)(void);
	unsigned long		mask;
};

FIXTURE_SETUP(signals)
{
	struct sigaction posix = { .sa_handler = *variant->handler };
	struct kernel_sigaction action;
	stack_t stack = { .ss_size = STACK_SIZE };

	if (missing())
		SKIP(return, "%s", missing());
	self->stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->stack);
	stack.ss_sp = self->stack;
	ASSERT_EQ(0, sigaltstack(&stack, NULL));
	/* The C library's sigaction() sets its own restorer. */
	ASSERT_EQ(0, sigaction(SIGUSR1, &posix, NULL));
	ASSERT_EQ(0, syscall(SYS_rt_sigaction, SIGUSR1, NULL, &action, sizeof(action.mask)));
	action.flags |= variant->flags;
	if (variant->restorer)
		action.restorer = oracle_row_restorer;
	ASSERT_EQ(0, syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, sizeof(action.mask)));

	self->oracle.signal = SIGUSR1;
	ASSERT_TRUE(oracle_judge(&self->oracle, getpid(), PROGRAM));
	ASSERT_TRUE(oracle_fork(&self->oracle, variant->base, variant->table));
}

FIXTURE_TEARDOWN(signals)
{
	oracle_end(&self->oracle);
}

TEST_F(signals, every_instruction)
{
	ASSERT_TRUE(oracle_run_table(&self->oracle, variant->table));
	EXPECT_EQ(0, self->oracle.wrong);
}

TEST_HARNESS_MAIN
