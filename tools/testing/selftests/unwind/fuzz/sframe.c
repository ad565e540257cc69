// SPDX-License-Identifier: GPL-2.0
/*
 * The SFrame decoder on made-up sections: a target for libFuzzer, and a program that
 * replays inputs and prints the frames of a file's section. Inputs that are ELF images
 * go to elf.c.
 *
 * Contracts that are checked, beyond those of the sanitizers:
 * - Sections and tables have exactly their sizes, and a table fits in the measured size.
 *   A table does not need the section any more.
 * - Work and memory are linear in the size of a section, and finding a frame takes no
 *   more than a fixed number of rows. Work is counted in calls of functions.
 * - A killed task gets no table.
 * - Frames are valid: registers exist, and no CFA is based on itself.
 * - A table has the same frames as a decoder without an index, at each address where rows
 *   or functions start or end. Where functions overlap, it has the frame of one of them,
 *   or none.
 */
#include <asm/unwind_user.h>

#include "elf_fuzz.h"

/*
 * Calls for a byte of a section: if functions share large rows, as many rows are read
 * as the rows have bytes.
 */
#define CALLS_PER_BYTE		24
#define CALLS_AT_START		24
/* Calls to find a frame: for each row, and to read the row. */
#define CALLS_PER_ROW		2
#define CALLS_PER_FIND		32
#define MAX_BLOCK_ROWS		255
/* An FDE without rows is smaller than its entry in a table. */
#define TABLE_PER_BYTE		2
#define MAX_KILLS		4

struct task_struct sim_task;

struct sim_work sim;

/* The result of an input. */
struct outcome {
	int			measure;
	int			build;
	struct sframe_table	*table;
	unsigned long		addrs;
};

/* All inputs, and the most work: calls for a section, its bytes, and calls to find a frame. */
static struct {
	unsigned long	inputs;
	unsigned long	tables;
	unsigned long	addrs;
	unsigned long	calls;
	unsigned long	bytes;
	unsigned long	find_calls;
} total;

/* Called only by the code under test, which is compiled with -finstrument-functions. */
void __cyg_profile_func_enter(void *func, void *caller)
{
	sim.calls++;
	sim.reads += func == unwind_elf_read;
}

void __cyg_profile_func_exit(void *func, void *caller)
{
}

bool sim_fatal_signal(void)
{
	return ++sim.looks >= sim.kill_look && sim.kill_look;
}

void sim_resched(void)
{
}

/* Measure and build, with a copy of the section that is freed afterwards. */
static struct outcome build(const struct input *input)
{
	struct sframe_section section = input->section;
	struct outcome out = {};
	struct sframe_table measured;
	unsigned long compares;
	size_t size;
	u8 *bytes;

	bytes = malloc(section.size);
	memcpy(bytes, input->section.bytes, section.size);
	section.bytes = bytes;
	sim.calls = 0;
	sim.looks = 0;
	memset(&measured, 0xa5, sizeof(measured));
	out.measure = sframe_measure(&section, &measured);
	if (out.measure)
		goto done;

	sim_rule(measured.nr_funcs, "a table without an entry");
	sim_rule(!measured.functions && !measured.bad && !measured.versions,
		 "counts are not zeroed");
	size = sframe_table_size(&measured);
	sim_rule(size <= sizeof(measured) + TABLE_PER_BYTE * section.size,
		 "a table of %zu bytes for a section of %u", size, section.size);
	out.table = malloc(size);
	memset(out.table, 0xa5, size);
	*out.table = measured;
	out.build = sframe_build(&section, out.table);

	sim_rule(out.build || (out.table->nr_funcs && out.table->nr_funcs <= measured.nr_funcs),
		 "%u entries where %u were measured", out.table->nr_funcs, measured.nr_funcs);
	sim_rule(out.build || out.table->rows_size == measured.rows_size,
		 "%u bytes of rows where %u were measured", out.table->rows_size,
		 measured.rows_size);
	sim_rule(out.build || out.table->base == measured.base, "another base");
done:
	/* The sort compares pairs of entries. */
	compares = out.table ? out.table->nr_funcs * (ilog2(out.table->nr_funcs + 1) + 1) : 0;
	sim_rule(sim.calls <= CALLS_AT_START + CALLS_PER_BYTE * section.size + compares,
		 "%lu calls for a section of %u bytes", sim.calls, section.size);
	if (sim.calls * (total.bytes + CALLS_AT_START) >
	    total.calls * (section.size + CALLS_AT_START)) {
		total.calls = sim.calls;
		total.bytes = section.size;
	}
	memset(bytes, 0xa5, section.size);
	free(bytes);
	return out;
}

static void drop(struct outcome *out)
{
	free(out->table);
}

/* Kill at each look for signals. */
static void check_kills(const struct input *input, unsigned int looks)
{
	struct outcome out;

	for (unsigned int look = 1; look <= min(looks, MAX_KILLS); look++) {
		sim.kill_look = look;
		out = build(input);
		sim.kill_look = 0;
		sim_rule((out.measure ?: out.build) == -EINTR,
			 "status %d and %d for a task that is killed", out.measure, out.build);
		sim_rule(sim.looks == look, "work for a task that is killed");
		drop(&out);
	}
}

/* A register or the CFA, with or without a load, and nothing else. */
static bool is_rule(u8 base)
{
	base &= ~UNWIND_BASE_LOAD;
	return base == UNWIND_BASE_CFA || base < ARCH_DWARF_REGS;
}

static void check_frame(const struct unwind_user_frame *frame)
{
	/* A table never sets these. */
	sim_rule(!frame->unknown && !frame->restorer, "a frame of the walker");
	if (frame->outermost)
		return;
	sim_rule(is_rule(frame->cfa) && !(frame->cfa & UNWIND_BASE_CFA), "CFA from %#x",
		 frame->cfa);
	sim_rule(is_rule(frame->ra), "return address from %#x", frame->ra);
	sim_rule(frame->fp == UNWIND_BASE_SAME || is_rule(frame->fp), "frame pointer from %#x",
		 frame->fp);
}

static bool is_same(const struct unwind_user_frame *a, const struct unwind_user_frame *b)
{
	if (a->outermost || b->outermost)
		return a->outermost == b->outermost;
	return a->cfa == b->cfa && a->cfa_off == b->cfa_off &&
	       a->ra == b->ra && a->ra_off == b->ra_off && a->fp == b->fp &&
	       (a->fp == UNWIND_BASE_SAME || a->fp_off == b->fp_off) &&
	       a->signal == b->signal;
}

static bool find(const struct sframe_table *table, u64 addr, struct unwind_user_frame *frame)
{
	bool found;

	memset(frame, 0xa5, sizeof(*frame));
	sim.calls = 0;
	found = sframe_find(table, addr, frame);
	sim_rule(sim.calls <= CALLS_PER_FIND + CALLS_PER_ROW * MAX_BLOCK_ROWS,
		 "%lu calls for %#llx", sim.calls, addr);
	total.find_calls = max(total.find_calls, sim.calls);
	if (found)
		check_frame(frame);
	return found;
}

static void check_addr(const struct plain *plain, struct outcome *out, u64 addr)
{
	const struct plain_func *only = NULL, *end = plain->funcs + plain->nr;
	struct unwind_user_frame frame, other;
	bool found = find(out->table, addr, &frame), matches = false, same;
	unsigned int covering = 0, calls = sim.calls;

	out->addrs++;
	for (const struct plain_func *func = plain->funcs; func < end; func++) {
		if (!plain_covers(func, addr))
			continue;
		covering++;
		only = func;
		same = plain_frame(plain, func, addr, &other) == found;
		matches |= same && (!found || is_same(&frame, &other));
	}
	if (!covering) {
		sim_rule(!found, "%#llx is in no function and has a frame", addr);
		return;
	}
	sim_rule(!found || matches, "%#llx has a frame that nothing says", addr);
	sim_rule(only->repeat || covering > 1 ||
		 calls <= CALLS_PER_FIND + CALLS_PER_ROW * SFRAME_FUNC_ROWS,
		 "%u calls for %#llx", calls, addr);

	/* Another function that starts above may hide this one. */
	for (const struct plain_func *func = plain->funcs; func < end; func++) {
		if (func != only && func->good && !func->silent &&
		    func->start >= only->start && func->start <= addr)
			covering++;
	}
	sim_rule(covering > 1 || matches, "%#llx should have %sframe", addr,
		 found ? "another " : "a ");
}

static void check_around(const struct plain *plain, struct outcome *out, u64 addr)
{
	for (int i = -1; i <= 1; i++)
		check_addr(plain, out, addr + i);
}

static void check_func(const struct plain *plain, struct outcome *out,
		       const struct plain_func *func)
{
	u64 at = func->rows, last = 0;
	struct plain_row row;

	check_around(plain, out, func->start);
	check_around(plain, out, func->start + func->size);
	for (u64 i = 0; func->good && i < func->nr_rows; i++) {
		plain_next_row(plain, func, &at, &row);
		check_around(plain, out, func->start + row.start);
		if (!func->repeat)
			continue;
		last = (func->size - 1) / func->repeat * func->repeat;
		check_around(plain, out, func->start + func->repeat + row.start);
		check_around(plain, out, func->start + last + row.start);
	}
}

static void check_table(const struct plain *plain, struct outcome *out)
{
	const struct sframe_section *section = plain->section;
	const struct sframe_table *table = out->table;

	sim_rule(table->functions == plain->functions && table->bad == plain->bad,
		 "%u functions and %u bad ones, not %u and %u", table->functions, table->bad,
		 plain->functions, plain->bad);
	sim_rule(table->versions == plain->versions, "versions %#x, not %#x", table->versions,
		 plain->versions);
	for (unsigned int i = 1; i < table->nr_funcs; i++)
		sim_rule(table->funcs[i].start >= table->funcs[i - 1].start,
			 "entry %u is below the one before", i);

	for (unsigned int i = 0; i < plain->nr; i++)
		check_func(plain, out, &plain->funcs[i]);
	for (unsigned int i = 0; i < section->nr_text; i++) {
		check_around(plain, out, section->text[i].start);
		check_around(plain, out, section->text[i].end);
	}
	check_around(plain, out, 0);
	check_around(plain, out, section->addr);
	check_around(plain, out, table->base + U32_MAX);
	check_around(plain, out, 1ULL << 63);
}

static struct outcome check(const u8 *data, size_t size)
{
	struct plain plain;
	struct input input;
	struct outcome out;
	unsigned int looks;

	input_load(&input, data, size);
	plain_read(&plain, &input.section);
	out = build(&input);
	looks = sim.looks;
	sim_rule((out.measure ?: out.build) == plain.error, "status %d and %d, not %d",
		 out.measure, out.build, plain.error);
	if (!out.measure && !out.build)
		check_table(&plain, &out);
	check_kills(&input, looks);
	plain_drop(&plain);

	total.inputs++;
	total.tables += !out.measure && !out.build;
	total.addrs += out.addrs;
	return out;
}

static void __attribute__((destructor)) print_total(void)
{
	if (total.inputs) {
		fprintf(stderr, "%lu sections, %lu tables, %lu addresses, the most calls: ",
			total.inputs, total.tables, total.addrs);
		fprintf(stderr, "%lu for %lu bytes, %lu to find a frame\n", total.calls,
			total.bytes, total.find_calls);
	}
	elf_print_total(stderr);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct outcome out;

	if (input_is_image(data, size)) {
		elf_check(&(struct image) { (u8 *)data + INPUT_MARK, size - INPUT_MARK });
		return 0;
	}
	out = check(data, size);
	drop(&out);
	return 0;
}

#ifdef FUZZ
size_t LLVMFuzzerMutate(u8 *data, size_t size, size_t max_size);

/* Mostly leave addresses alone: with wrong ones no function is valid. */
size_t LLVMFuzzerCustomMutator(u8 *data, size_t size, size_t max_size, unsigned int seed)
{
	struct image image = { data + INPUT_MARK, size - INPUT_MARK };
	size_t head = sizeof(struct input_head);

	if (input_is_image(data, size)) {
		head = INPUT_MARK;
		if (seed % 2) {
			image_mutate(&image, seed / 2);
			return size;
		}
	}
	if (!(seed % 8) || size <= head)
		head = 0;
	return head + LLVMFuzzerMutate(data + head, size - head, max_size - head);
}
#else
struct columns { char cfa[32], fp[32], ra[32]; };

static void format_value(char s[32], u8 base, s32 off)
{
	static const char * const names[ARCH_DWARF_REGS] = {
		"r0", "r1", "r2", "r3", "r4", "r5", "fp", "sp",
		"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
	};
	bool load = base & UNWIND_BASE_LOAD;

	if (base == UNWIND_BASE_SAME)
		snprintf(s, 32, "u");
	else if (base & UNWIND_BASE_CFA)
		snprintf(s, 32, "%sc%+d", load ? "" : "=", off);
	else
		snprintf(s, 32, load ? "(%s%+d)" : "%s%+d", names[base & 0xf], off);
}

static struct columns format_columns(const struct unwind_user_frame *frame)
{
	struct columns c;

	format_value(c.cfa, frame->cfa, frame->cfa_off);
	format_value(c.fp, frame->fp, frame->fp_off);
	format_value(c.ra, frame->ra, frame->ra_off);
	if (!strcmp(c.ra, "c-8"))
		snprintf(c.ra, sizeof(c.ra), "f");
	return c;
}

/* Format a frame as "expect at" has it. */
static void format_frame(char *s, size_t size, bool found,
			 const struct unwind_user_frame *frame)
{
	struct columns c;

	if (!found || frame->outermost) {
		snprintf(s, size, found ? "outermost" : "nothing");
		return;
	}
	c = format_columns(frame);
	snprintf(s, size, "cfa=%s fp=%s ra=%s%s", c.cfa, c.fp, c.ra,
		 frame->signal ? " signal" : "");
}

static void expect_at(const char *expect, const char *says, const struct outcome *out,
		      u64 first, u64 last)
{
	struct unwind_user_frame frame;
	char text[128];
	u64 addr = first;

	sim_rule(out->table && !out->build, "expect %s: no table", expect);
	do {
		bool found = sframe_find(out->table, addr, &frame);

		format_frame(text, sizeof(text), found, &frame);
		sim_rule(!strcmp(text, says), "expect %s: %#llx has %s", expect, addr, text);
	} while (addr++ != last);
}

static int parse_status(const char *s)
{
	static const struct { const char *name; int status; } names[] = {
		{ "0", 0 }, { "-EINVAL", -EINVAL }, { "-ENODATA", -ENODATA },
		{ "-EOPNOTSUPP", -EOPNOTSUPP },
	};

	for (int i = 0; i < ARRAY_SIZE(names); i++) {
		if (!strcmp(names[i].name, s))
			return names[i].status;
	}
	return 1;
}

static void check_expect(const char *expect, const struct outcome *out)
{
	u64 first, last;
	unsigned int nr;
	char word[16];
	int used;

	if (sscanf(expect, "at %llx-%llx %n", &first, &last, &used) == 2)
		expect_at(expect, expect + used, out, first, last);
	else if (sscanf(expect, "at %llx %n", &first, &used) == 1)
		expect_at(expect, expect + used, out, first, first);
	else if (sscanf(expect, "measure %15s", word) == 1)
		sim_rule(out->measure == parse_status(word), "expect %s: it is %d", expect,
			 out->measure);
	else if (sscanf(expect, "build %15s", word) == 1)
		sim_rule(out->table && out->build == parse_status(word), "expect %s: it is %d",
			 expect, out->build);
	else if (sscanf(expect, "functions %u", &nr) == 1)
		sim_rule(out->table && out->table->functions == nr, "expect %s: %u", expect,
			 out->table ? out->table->functions : 0);
	else if (sscanf(expect, "bad %u", &nr) == 1)
		sim_rule(out->table && out->table->bad == nr, "expect %s: %u", expect,
			 out->table ? out->table->bad : 0);
	else
		sim_rule(false, "expect %s: what is that?", expect);
}

static void print_outcome(const struct outcome *out)
{
	printf("measure %d, build %d", out->measure, out->build);
	if (out->table && !out->build)
		printf(", %u functions, %u bad, %u entries, %lu addresses", out->table->functions,
		       out->table->bad, out->table->nr_funcs, out->addrs);
	putchar('\n');
}

static int replay_text(FILE *file)
{
	unsigned int line = 0;
	struct outcome out;
	struct text text;
	int ret;

	do {
		/* Print the line first, in case the input crashes. */
		printf("line %u: ", line + 1);
		fflush(stdout);
		ret = input_parse(file, &line, &text);
		if (ret < 0) {
			printf("line %u cannot be read\n", line);
		} else if (input_is_image(text.bytes, text.size)) {
			elf_replay(&text);
		} else {
			out = check(text.bytes, text.size);
			print_outcome(&out);
			for (int i = 0; i < text.nr_expect; i++)
				check_expect(text.expect[i], &out);
			drop(&out);
		}
		input_drop(&text);
	} while (!ret);
	return ret < 0;
}

static size_t read_bytes(FILE *file, u8 **bytes)
{
	size_t size = 0, room = 0, got;

	*bytes = NULL;
	do {
		room += 1 << 16;
		*bytes = realloc(*bytes, room);
		got = fread(*bytes + size, 1, room - size, file);
		size += got;
	} while (got);
	return size;
}

static int replay(const char *name)
{
	FILE *file = fopen(name, "r");
	size_t size;
	int c, ret;
	u8 *bytes;

	if (!file) {
		perror(name);
		return 1;
	}
	c = getc(file);
	ungetc(c, file);
	if (c == '#') {
		ret = replay_text(file);
	} else {
		size = read_bytes(file, &bytes);
		LLVMFuzzerTestOneInput(bytes, size);
		free(bytes);
		ret = 0;
	}
	fclose(file);
	return ret;
}

/* Print the frame of each address of a file's code, according to its section. */
static int print_rows(const char *name)
{
	struct unwind_user_frame frame;
	struct input input;
	struct outcome out;
	struct columns c;
	struct text elf;

	if (input_from_elf(name, &elf)) {
		fprintf(stderr, "%s: no SFrame section that can be read\n", name);
		return 1;
	}
	out = check(elf.bytes, elf.size);
	input_load(&input, elf.bytes, elf.size);
	for (int i = 0; !out.measure && !out.build && i < INPUT_TEXTS; i++) {
		for (u64 addr = input.text[i].start; addr < input.text[i].end; addr++) {
			if (!sframe_find(out.table, addr, &frame))
				continue;
			if (frame.outermost) {
				printf("%016llx  RA undefined\n", addr);
				continue;
			}
			c = format_columns(&frame);
			printf("%016llx  %-9s %-9s %s%s\n", addr, c.cfa, c.fp, c.ra,
			       frame.signal ? " signal" : "");
		}
	}
	if (out.measure || out.build || out.table->bad)
		fprintf(stderr, "%s: status %d and %d, %u bad functions\n", name, out.measure,
			out.build, out.table ? out.table->bad : 0);
	input_drop(&elf);
	drop(&out);
	return out.measure || out.build;
}

static int print_seed(const char *name)
{
	struct text elf;

	if (input_from_elf(name, &elf))
		return 1;
	fwrite(elf.bytes, 1, elf.size, stdout);
	input_drop(&elf);
	return 0;
}

/* Convert bytes to text, or text to bytes. */
static int convert(bool to_text)
{
	unsigned int line = 0;
	struct text text;
	size_t size;
	u8 *bytes;
	int ret;

	if (to_text) {
		size = read_bytes(stdin, &bytes);
		input_print(stdout, bytes, size);
		free(bytes);
		return 0;
	}
	ret = input_parse(stdin, &line, &text);
	if (ret >= 0)
		fwrite(text.bytes, 1, text.size, stdout);
	input_drop(&text);
	return ret < 0;
}

int main(int argc, char **argv)
{
	int ret = 0;

	if (argc == 2 && (!strcmp(argv[1], "text") || !strcmp(argv[1], "bytes")))
		return convert(!strcmp(argv[1], "text"));
	if (argc == 3 && !strcmp(argv[1], "rows"))
		return print_rows(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "seed"))
		return print_seed(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "headers"))
		return elf_print(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "damage"))
		return elf_damage(argv[2]);
	if (argc >= 3 && !strcmp(argv[1], "replay")) {
		for (int i = 2; i < argc; i++)
			ret |= replay(argv[i]);
		return ret;
	}
	fprintf(stderr, "usage: %s replay FILE... | rows|seed|headers|damage ELF | text | bytes\n",
		argv[0]);
	return 2;
}
#endif
