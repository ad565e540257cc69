// SPDX-License-Identifier: GPL-2.0
/*
 * The user stack walker on made-up processes: a target for libFuzzer, and a program
 * that replays inputs.
 *
 * Contracts that are checked, beyond those of sim.c and of the sanitizers:
 * - A walk ends, stores no more entries than there is room for, and reads and looks
 *   up no more than a fixed number of times for each.
 * - What it stores is code, or what a signal frame or a return probe says, and is
 *   not an address of the kernel. Only across a signal frame does the stack pointer
 *   not move up.
 * - A walk in pieces of any size, one that remembers what an earlier one found out,
 *   and one that remembers nothing find the same, and what is remembered of mappings
 *   is forgotten when they change.
 *
 * An input is a row of records; input.c says what they mean.
 */
#include "fuzz.h"

/*
 * User reads: for a frame, with a look whether a signal frame is behind it; for a
 * signal frame, where code is followed over 32 jumps; and for the steps at the end
 * that find nothing, where it may be, too. Likewise look-ups of mappings, of which
 * a frame needs one.
 */
#define READS_PER_ENTRY		7
#define READS_PER_SIGNAL	72
#define READS_AT_END		80
#define MAX_SIGNALS		32
#define LOOKUPS_PER_SIGNAL	8

struct trace {
	unsigned int	nr;
	unsigned long	*entries;
	/* Up to the entry, for walks of one at a time. */
	unsigned int	*reads;
	struct counts	counts;
};

/* The walk that read most for each entry. */
static struct {
	struct counts	counts;
	unsigned int	nr;
	unsigned long	walks;
} most;

static bool was_probed(unsigned long addr)
{
	for (int i = 0; i < process.nr_probes; i++) {
		if (process.probes[i].orig_ret_vaddr == addr)
			return true;
	}
	return false;
}

/* Is it code, or may the walk not be able to tell? */
static bool is_code(unsigned long addr)
{
	const struct area *area = sim_area(addr);

	if (process.mmap_busy && (process.raced || process.seq & 1))
		return true;
	return area && (area->flags & AREA_VMA) && (area->flags & AREA_EXEC);
}

/* One entry was found; @before is the stack pointer that the walk came from. */
static void check_entry(const struct unwind_user_state *state, unsigned long entry,
			unsigned long before)
{
	/* Only the code that a signal interrupted is looked at. */
	bool signal = state->step == UNWIND_STEP_CODE;

	sim_rule(state->ip == entry, "ip %#lx after entry %#lx", state->ip, entry);
	sim_rule(entry < TASK_SIZE_MAX, "entry %#lx is not the user's", entry);
	sim_rule(state->ws != 4 || entry <= UINT32_MAX || was_probed(entry),
		 "entry %#lx of 32-bit code", entry);
	if (signal)
		return;
	sim_rule(entry != process.trampoline || !process.nr_probes || was_probed(entry),
		 "entry %#lx is the trampoline", entry);
	sim_rule(is_code(entry) || was_probed(entry), "entry %#lx is no code", entry);
	sim_rule(state->sp > before, "from stack pointer %#lx to %#lx", before, state->sp);
}

static void check_counts(const struct trace *trace)
{
	const struct counts *c = &trace->counts;

	sim_rule(c->reads <= READS_AT_END + READS_PER_ENTRY * trace->nr +
			     READS_PER_SIGNAL * min(trace->nr, MAX_SIGNALS),
		 "%u reads for %u entries", c->reads, trace->nr);
	sim_rule(c->lookups <= trace->nr + LOOKUPS_PER_SIGNAL * (min(trace->nr, MAX_SIGNALS) + 1),
		 "%u look-ups for %u entries", c->lookups, trace->nr);
}

static void remember_most(const struct trace *trace)
{
	most.walks++;
	if (trace->counts.reads / (trace->nr + 1) > most.counts.reads / (most.nr + 1)) {
		most.counts = trace->counts;
		most.nr = trace->nr;
	}
}

/* Walk, with no more room than the input says, @piece entries at a time. */
static struct trace walk(struct unwind_text *text, unsigned int piece)
{
	struct unwind_user_state state;
	struct trace trace = {};
	unsigned int got, want;
	unsigned long sp;

	/* Of this size, so that one entry too many is the address sanitizer's. */
	trace.entries = malloc(process.room * sizeof(long));
	trace.reads = calloc(process.room, sizeof(*trace.reads));
	sim_begin();
	unwind_user_start(&state, &sim_regs, text);
	do {
		want = min(piece, process.room - trace.nr);
		sp = state.sp;
		got = unwind_user_walk(&state, trace.entries + trace.nr, want);
		sim_rule(got <= want, "%u entries where there is room for %u", got, want);
		if (piece == 1 && got) {
			check_entry(&state, trace.entries[trace.nr], sp);
			trace.reads[trace.nr] = sim_reads();
		}
		trace.nr += got;
	} while (got == want && trace.nr < process.room);

	sim_rule(trace.nr == process.room || state.step == UNWIND_STEP_DONE,
		 "an early end, and none that stays");
	sim_end(&trace.counts);
	check_counts(&trace);
	remember_most(&trace);
	return trace;
}

/* The same through the interface of others, which starts with the ip. */
static struct trace walk_whole(void)
{
	struct unwind_stacktrace stack;
	struct trace trace = {};
	int ret;

	stack.entries = malloc((process.room + 1) * sizeof(long));
	sim_begin();
	ret = unwind_user(&stack, process.room + 1);
	sim_end(&trace.counts);
	sim_rule(ret ? ret == -EINVAL && !stack.nr : stack.nr,
		 "status %d with %u entries", ret, stack.nr);
	trace.nr = ret ? 0 : stack.nr - 1;
	sim_rule(trace.nr <= process.room, "%u entries", stack.nr);

	trace.entries = malloc(process.room * sizeof(long));
	trace.reads = NULL;
	memcpy(trace.entries, stack.entries + 1, trace.nr * sizeof(long));
	free(stack.entries);
	return trace;
}

static void drop(struct trace trace)
{
	free(trace.entries);
	free(trace.reads);
}

/* Compare and forget @b. */
static void same(const char *what, const struct trace *a, struct trace b)
{
	unsigned int i = 0;

	while (i < a->nr && i < b.nr && a->entries[i] == b.entries[i])
		i++;
	sim_rule(i == a->nr && i == b.nr, "%s: %u entries instead of %u, entry %u is another",
		 what, b.nr, a->nr, i);
	drop(b);
}

/* Walk in all the ways that have to find the same as @trace. */
static void check_walks(const struct trace *trace)
{
	struct unwind_text text = {}, cold = {};
	struct trace after;

	same("all at once", trace, walk(&text, process.room));
	same("with what is remembered", trace, walk(&text, process.room));
	same("with nothing to remember in", trace, walk(NULL, process.room));
	same("in pieces", trace, walk(&cold, process.piece));
	same("unwind_user", trace, walk_whole());

	/* What could not be read is not remembered. */
	if (!process.nofault) {
		cold = (struct unwind_text) {};
		process.nofault = true;
		drop(walk(&cold, process.room));
		process.nofault = false;
		same("after one that must not wait", trace, walk(&cold, process.room));
	}
	/* Nor is what everybody else reads where a probe is being handled. */
	if (process.insn) {
		u8 insn = process.insn;

		cold = (struct unwind_text) {};
		process.insn = 0;
		drop(walk(&cold, process.room));
		process.insn = insn;
		same("at a probe that was seen before", trace, walk(&cold, process.room));
	}
	if (!process.remap)
		return;

	for (int i = 0; i < AREAS; i++) {
		if (process.remap & BIT(i))
			process.areas[i].flags ^= AREA_EXEC;
	}
	process.seq += 2;
	cold = (struct unwind_text) {};
	after = walk(&cold, process.room);
	same("after the mappings changed", &after, walk(&text, process.room));
	drop(after);
}

static bool is_stable(void)
{
	for (int i = 0; i < process.nr_traps; i++) {
		if (process.traps[i].change)
			return false;
	}
	/* How much a walk reads depends on what it asks for and remembers. */
	return !process.kill_read && !process.fail_read;
}

static void __attribute__((destructor)) print_most(void)
{
	if (most.walks)
		fprintf(stderr, "%lu walks, the most reads: %u of %u bytes for %u entries\n",
			most.walks, most.counts.reads, most.counts.bytes, most.nr);
}

/* Returns what a walk finds, one caller at a time. */
static struct trace check(const struct record *records, size_t nr)
{
	struct unwind_text text = {};
	struct trace trace;

	input_load(records, nr);
	trace = walk(&text, 1);
	if (is_stable()) {
		check_walks(&trace);
	} else {
		text = (struct unwind_text) {};
		input_load(records, nr);
		drop(walk(&text, process.room));
	}
	return trace;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct record records[MAX_RECORDS];
	size_t nr = min(size / sizeof(*records), MAX_RECORDS);

	memcpy(records, data, nr * sizeof(*records));
	drop(check(records, nr));
	return 0;
}

#ifdef FUZZ
size_t LLVMFuzzerMutate(u8 *data, size_t size, size_t max_size);

/* Half of the time change bytes; else whole records, or small numbers in them. */
size_t LLVMFuzzerCustomMutator(u8 *data, size_t size, size_t max_size, unsigned int seed)
{
	struct record records[MAX_RECORDS], *r, other;
	size_t nr = min(size / sizeof(*r), MAX_RECORDS);

	srandom(seed);
	if (!nr || random() % 2)
		return LLVMFuzzerMutate(data, size, max_size);

	memcpy(records, data, nr * sizeof(*r));
	r = &records[random() % nr];
	other = records[random() % nr];
	switch (random() % 8) {
	case 0:
	case 1:
		if (nr < MAX_RECORDS && (nr + 1) * sizeof(*r) <= max_size) {
			memmove(r + 1, r, (records + nr - r) * sizeof(*r));
			nr++;
		}
		if (random() % 2)
			*r = input_random();
		break;
	case 2:
		memmove(r, r + 1, (records + nr - r - 1) * sizeof(*r));
		nr--;
		break;
	case 3:
		*r = other;
		break;
	case 4:
		r->off += 8 * (random() % 17) - 64;
		break;
	case 5:
		r->val += random() % 33 - 16;
		break;
	case 6:
		r->kind += random() % 3 - 1;
		r->n = random() % 2 ? r->n ^ BIT(random() % 10) : other.n;
		break;
	case 7:
		r->tag = other.tag;
		r->val = other.val;
		break;
	}
	memcpy(data, records, nr * sizeof(*r));
	return nr * sizeof(*r);
}
#else
static void check_gives(const struct trace *trace, const struct gives *gives)
{
	unsigned long addr;

	sim_rule(!gives->known || trace->nr == gives->nr, "%u callers are found, not %u",
		 trace->nr, gives->nr);
	for (int i = 0; i < gives->nr_first; i++) {
		addr = input_value(gives->first[i].tag, gives->first[i].val);
		sim_rule(trace->entries[i] == addr, "caller %d is %#lx, not %#lx", i,
			 trace->entries[i], addr);
	}
}

/* Each read fails once: what was found before stays, and what comes keeps the rules. */
static void fail_each_read(const struct record *records, size_t nr, const struct trace *trace)
{
	struct unwind_text text;
	struct trace part;

	if (!is_stable())
		return;
	for (unsigned int nth = 1; nth <= trace->counts.reads; nth++) {
		input_load(records, nr);
		process.fail_read = nth;
		text = (struct unwind_text) {};
		part = walk(&text, 1);
		for (int i = 0; i < trace->nr && trace->reads[i] < nth; i++)
			sim_rule(i < part.nr && part.entries[i] == trace->entries[i],
				 "read %u fails: entry %d is another", nth, i);
		drop(part);
	}
}

/* Walk the processes that a text describes. */
static int replay(const char *name)
{
	struct record records[MAX_RECORDS];
	FILE *file = fopen(name, "r");
	unsigned int line = 0;
	struct gives gives;
	struct trace trace;
	int nr;

	if (!file) {
		perror(name);
		return 1;
	}
	do {
		/* Where it is, should that be the end. */
		printf("line %u: ", line + 1);
		fflush(stdout);
		nr = input_parse(file, &line, records, &gives);
		if (nr < 0) {
			printf("line %u cannot be read\n", line);
			break;
		}
		trace = check(records, nr);
		check_gives(&trace, &gives);
		fail_each_read(records, nr, &trace);
		printf("%u callers, %u reads of %u bytes, %u look-ups\n", trace.nr,
		       trace.counts.reads, trace.counts.bytes, trace.counts.lookups);
		for (int i = 0; i < trace.nr; i++)
			printf("\t%#lx\n", trace.entries[i]);
		drop(trace);
	} while (!feof(file));
	fclose(file);
	return nr < 0;
}

/* From bytes to text and back. */
static int convert(bool to_text)
{
	struct record records[MAX_RECORDS];
	unsigned int line = 0;
	struct gives gives;
	int nr;

	if (to_text) {
		nr = fread(records, sizeof(*records), MAX_RECORDS, stdin);
		input_print(stdout, records, nr);
		return 0;
	}
	nr = input_parse(stdin, &line, records, &gives);
	return nr < 0 || fwrite(records, sizeof(*records), nr, stdout) != nr;
}

int main(int argc, char **argv)
{
	if (argc == 2 && (!strcmp(argv[1], "text") || !strcmp(argv[1], "bytes")))
		return convert(!strcmp(argv[1], "text"));
	if (argc == 3 && !strcmp(argv[1], "replay"))
		return replay(argv[2]);
	fprintf(stderr, "usage: %s replay TEXT | text < BYTES | bytes < TEXT\n", argv[0]);
	return 2;
}
#endif
