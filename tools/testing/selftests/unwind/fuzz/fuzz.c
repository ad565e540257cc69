// SPDX-License-Identifier: GPL-2.0
/*
 * The user stack walker on made-up processes: a target for libFuzzer, and a program
 * that replays inputs.
 *
 * Contracts that are checked, beyond those of sim.c and of the sanitizers:
 * - A walk ends, stores no more entries than fit, and reads and looks up no more than
 *   a fixed number of times for each entry.
 * - An entry is code, or the value in a signal frame or a return probe, and is not an
 *   address of the kernel. The stack pointer always moves up, except across a signal
 *   frame, and once from each exact ip.
 * - Each caller that tables or frame pointers determine is that of a plain model.
 * - A walk in pieces of any size, a walk that remembers results of an earlier one, and
 *   a walk that remembers nothing find the same. Results that depend on mappings and
 *   tables are forgotten when these change. So are incomplete results, because of pages,
 *   locks and files that a walk must not wait for, and of dropped objects.
 *
 * An input is a series of records; input.c defines them.
 */
#include "fuzz.h"

#include <asm/sigcontext.h>

/*
 * User reads: for a frame, with a check for a signal frame after it; for a signal
 * frame, whose code is followed over 32 jumps; and for the steps at the end that find
 * nothing, with the same checks. With tables, a frame that is left by its frame pointer
 * for code with a table needs a search for its CFA.
 */
#define READS_PER_ENTRY		7
#define READS_PER_TABLE		30
#define READS_PER_SIGNAL	72
#define READS_AT_END		80
#define MAX_SIGNALS		32
#define MAX_SWITCHES		8
/*
 * Look-ups of a mapping: by itself, under the lock, for its file. A frame needs one
 * mapping. The code at an ip is in one mapping, may lead to two others and back, and
 * its caller is in another one. A dropped object is looked up again.
 */
#define LOOKUPS_PER_MAPPING	3
#define MAPPINGS_PER_SIGNAL	5
/* Uses of an object are accounted once there are 256, after each batch. */
#define MAX_HITS_LEFT		(256 + 64)
/* The events of a walk, locks and reads, at which the replay drops objects. */
#define MAX_DROP_EVENTS		256

/**
 * struct trace - the result of a walk
 * @nr:		number of callers
 * @entries:	the callers
 * @reads:	reads up to each caller, for walks of one at a time
 * @counts:	see struct counts
 * @stats:	unwind_stats
 * @tabled:	minimum of callers found by the tables of each area; likewise
 * @unsure:	number of callers for which that is not known
 */
struct trace {
	unsigned int	nr;
	unsigned long	*entries;
	unsigned int	*reads;
	struct counts	counts;
	unsigned long	stats[UNWIND_NR_STATS];
	unsigned int	tabled[AREAS];
	unsigned int	unsure;
};

/* The walk with the most reads per entry. */
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

/* Is the address code, or may the walk be unable to tell? */
static bool is_code(unsigned long addr)
{
	const struct area *area = sim_area(addr);

	if (process.mmap_busy && (process.raced || process.seq & 1))
		return true;
	return area && (area->flags & AREA_VMA) && (area->flags & AREA_EXEC);
}

static bool has_slow_file(void)
{
	for (int i = 0; i < AREAS; i++) {
		if (process.mapped[i].kind == TABLE_AGAIN)
			return true;
	}
	return false;
}

/* Does memory stay the same, however often a walk reads? */
static bool is_constant(void)
{
	for (int i = 0; i < process.nr_traps; i++) {
		if (process.traps[i].change)
			return false;
	}
	return !process.kill_read && !process.fail_read;
}

/* May a dropped object be read again? */
static bool may_load(void)
{
	return !process.nofault && !process.exiting && !has_slow_file();
}

/* Does each walk find the same? */
static bool is_stable(void)
{
	return is_constant() && (!process.nr_drops || (process.nr_drops == 1 && may_load()));
}

/* The registers for rules are those of the code that was interrupted there. */
static void check_registers(const struct unwind_user_state *state)
{
	unsigned long ip;

	sim_rule(!state->regs, "the registers of %#lx are another frame's", state->ip);
	if (!state->signal_regs || !is_stable())
		return;
	sim_rule(sim_peek(&ip, state->signal_regs + offsetof(struct sigcontext_64, ip), 8) &&
		 ip == state->ip, "the signal frame of %#lx is another one's", state->ip);
}

/* Check an entry. @before is the state of the walk before it. */
static void check_entry(const struct unwind_user_state *before,
			const struct unwind_user_state *state, unsigned long entry, bool tabled)
{
	/* A walk looks at code only where a signal interrupted it. */
	bool signal = state->step == UNWIND_STEP_CODE && !tabled;

	sim_rule(state->ip == entry, "ip %#lx after entry %#lx", state->ip, entry);
	sim_rule(entry < TASK_SIZE_MAX, "entry %#lx is not the user's", entry);
	sim_rule(state->ws != 4 || entry <= UINT32_MAX || was_probed(entry),
		 "entry %#lx of 32-bit code", entry);
	if (state->step == UNWIND_STEP_CODE && state->ws == 8)
		check_registers(state);
	if (signal)
		return;
	sim_rule(entry != process.trampoline || !process.nr_probes || was_probed(entry),
		 "entry %#lx is the trampoline", entry);
	sim_rule(is_code(entry) || was_probed(entry), "entry %#lx is no code", entry);
	/* The rows of a signal frame may lead anywhere else. */
	sim_rule(state->sp > before->sp ||
		 (tabled && state->step == UNWIND_STEP_CODE && state->sp != before->sp) ||
		 (state->switches > before->switches && state->switches <= MAX_SWITCHES) ||
		 (tabled && before->step == UNWIND_STEP_CODE && state->sp == before->sp),
		 "from stack pointer %#lx to %#lx", before->sp, state->sp);
}

/* Compare the next caller with the model. */
static void check_expected(const struct unwind_user_state *state, unsigned int got,
			   const struct expected *e, bool tabled)
{
	if (!e->known)
		return;
	sim_rule(got || !e->found, "%#lx is the caller, and is not found", e->entry);
	sim_rule(!got || e->found, "there is no caller, but %#lx", state->ip);
	sim_rule(got || state->step == UNWIND_STEP_DONE, "an end, and none that stays");
	if (!got)
		return;
	sim_rule(state->ip == e->entry, "caller %#lx, not %#lx", state->ip, e->entry);
	sim_rule(state->sp == e->sp || state->sp == e->sp_other, "stack pointer %#lx, not %#lx",
		 state->sp, e->sp);
	sim_rule(state->fp == e->fp || state->fp == e->fp_other, "frame pointer %#lx, not %#lx",
		 state->fp, e->fp);
	sim_rule((state->step == UNWIND_STEP_CODE) == e->exact, "%#lx is%s exact", state->ip,
		 e->exact ? " not" : "");
	sim_rule(tabled == e->table, "a table is%s asked", e->table ? " not" : "");
}

/* Walk to one more caller, and compare it with the model. */
static unsigned int walk_one(struct unwind_user_state *state, struct trace *trace)
{
	struct expected expected = model_next(state, !trace->nr);
	const unsigned long *frames = &unwind_stats[UNWIND_STAT_SFRAME_FRAMES];
	struct unwind_user_state before = *state;
	unsigned long *entry = &trace->entries[trace->nr], old = *frames;
	unsigned int got = unwind_user_walk(state, entry, 1);

	if (got)
		check_entry(&before, state, *entry, *frames != old);
	check_expected(state, got, &expected, *frames != old);
	/* After a step that keeps the stack pointer, no table is used again. */
	sim_rule(!got || before.sp != state->sp || before.step != UNWIND_STEP_CODE ||
		 state->step != UNWIND_STEP_CODE || *frames == old,
		 "from %#lx to %#lx on the spot", before.ip, state->ip);
	if (got && expected.known && expected.table)
		trace->tabled[sim_area(before.ip) - process.areas]++;
	trace->unsure += got && !expected.known;
	return got;
}

static void check_counts(const struct trace *trace)
{
	const struct counts *c = &trace->counts;
	unsigned int nr = trace->nr, signals = min(nr, MAX_SIGNALS);
	unsigned int mappings = nr + MAPPINGS_PER_SIGNAL * (signals + 1) + process.nr_drops;

	sim_rule(c->reads <= READS_AT_END + READS_PER_SIGNAL * signals +
			     (process.nr_funcs ? READS_PER_TABLE : READS_PER_ENTRY) * nr,
		 "%u reads for %u entries", c->reads, nr);
	sim_rule(c->lookups <= LOOKUPS_PER_MAPPING * mappings, "%u look-ups for %u entries",
		 c->lookups, nr);
	sim_rule(c->gets <= mappings, "%u looks for objects for %u entries", c->gets, nr);
}

/* Check the public counters: why walks end, and how often tables are used. */
static void check_stats(const struct trace *trace)
{
	const unsigned long *stats = trace->stats;
	unsigned long frames = stats[UNWIND_STAT_SFRAME_FRAMES];
	unsigned int tabled = 0;

	sim_rule(stats[UNWIND_STAT_NO_CODE] + stats[UNWIND_STAT_ENDED_UNREADABLE] +
		 stats[UNWIND_STAT_ENDED_BAD_FRAME] + stats[UNWIND_STAT_ENDED_SIGNALS] <= 1,
		 "more than one end is counted");
	for (int i = 0; i < AREAS; i++)
		tabled += trace->tabled[i];
	sim_rule(frames >= tabled && frames <= tabled + trace->unsure,
		 "%lu frames by tables, not %u to %u", frames, tabled, tabled + trace->unsure);
}

/*
 * Uses of objects are counted for each object, or pending: those that found a caller, and
 * perhaps one more, which turned out to be invalid. Pending uses are counted when the text
 * is forgotten.
 */
static void check_hits(const struct trace *trace, struct unwind_text *text)
{
	unsigned long frames = trace->stats[UNWIND_STAT_SFRAME_FRAMES], all = 0;
	struct counts *counts = sim_counts();
	unsigned int hits[AREAS];

	if (process.nr_drops)
		return;
	memcpy(hits, trace->counts.hits, sizeof(hits));
	for (int i = 0; i < UNWIND_TEXT_CODES; i++) {
		const struct unwind_text_code *code = &text->code[i];

		sim_rule(code->hits < MAX_HITS_LEFT, "%u uses are not counted yet", code->hits);
		if (code->hits)
			hits[sim_area(code->range.start) - process.areas] += code->hits;
	}

	memcpy(counts->hits, trace->counts.hits, sizeof(hits));
	unwind_text_forget(text);
	for (int i = 0; i < AREAS; i++) {
		all += hits[i];
		sim_rule(counts->hits[i] == hits[i], "%u uses of %u are counted", counts->hits[i],
			 hits[i]);
		sim_rule(hits[i] >= trace->tabled[i], "%u uses for %u frames of area %d",
			 hits[i], trace->tabled[i], i);
	}
	sim_rule(all >= frames && all <= frames + 1, "%lu uses for %lu frames", all, frames);
}

static void remember_most(const struct trace *trace)
{
	most.walks++;
	if (trace->counts.reads / (trace->nr + 1) > most.counts.reads / (most.nr + 1)) {
		most.counts = trace->counts;
		most.nr = trace->nr;
	}
}

static void forget(struct unwind_text *text)
{
	memset(text, 0, sizeof(*text));
}

/* Walk up to @piece callers at a time, with no more room than the input says. */
static struct trace walk(struct unwind_text *text, unsigned int piece)
{
	struct unwind_user_state state;
	struct trace trace = {};
	struct unwind_text_code own;
	unsigned int got, want;

	/* Allocate exactly this size: the address sanitizer catches one entry too many. */
	trace.entries = malloc(process.room * sizeof(long));
	trace.reads = calloc(process.room, sizeof(*trace.reads));
	sim_begin();
	memset(unwind_stats, 0, sizeof(trace.stats));
	/* The walk has to initialize all of it. */
	memset(&state, 0xa5, sizeof(state));
	memset(&own, 0xa5, sizeof(own));
	unwind_user_start(&state, &sim_regs, text, text ? NULL : &own);
	do {
		want = min(piece, process.room - trace.nr);
		got = piece == 1 && want ? walk_one(&state, &trace) :
		      unwind_user_walk(&state, trace.entries + trace.nr, want);
		sim_rule(got <= want, "%u entries where there is room for %u", got, want);
		if (piece == 1 && got)
			trace.reads[trace.nr] = sim_counts()->reads;
		trace.nr += got;
	} while (got == want && trace.nr < process.room);

	sim_rule(trace.nr == process.room || state.step == UNWIND_STEP_DONE,
		 "an early end, and none that stays");
	sim_end(&trace.counts);
	memcpy(trace.stats, unwind_stats, sizeof(trace.stats));
	check_counts(&trace);
	remember_most(&trace);
	return trace;
}

static struct trace walk_all(struct unwind_text *text)
{
	return walk(text, process.room);
}

/*
 * Walk with the results of an earlier walk. If that walk dropped an object, this one does
 * not: of two objects that are dropped one after the other, a walk may find neither.
 */
static struct trace walk_again(struct unwind_text *text, unsigned int piece)
{
	unsigned int nr = process.nr_drops;
	struct trace trace;

	process.nr_drops = 0;
	trace = walk(text, piece);
	process.nr_drops = nr;
	return trace;
}

/* Walk through the interface of other users, which starts with the ip. */
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

/* Compare two traces and free @b. */
static void same(const char *what, const struct trace *a, struct trace b)
{
	unsigned int i = 0;

	while (i < a->nr && i < b.nr && a->entries[i] == b.entries[i])
		i++;
	sim_rule(i == a->nr && i == b.nr, "%s: %u entries instead of %u, entry %u is another",
		 what, b.nr, a->nr, i);
	drop(b);
}

/* Results of a walk that must not wait for pages and files are not final. */
static void check_impatient(const struct trace *trace)
{
	struct unwind_text text;

	forget(&text);
	process.nofault = true;
	drop(walk_all(&text));
	process.nofault = false;
	same("after one that must not wait", trace, walk_again(&text, process.room));

	/* If files may not be read, it matters what was known before the walk. */
	if (!process.nr_funcs || process.exiting || has_slow_file())
		return;
	sim_objects_forget();
	process.nofault = true;
	drop(walk_all(&text));
	process.nofault = false;
	same("after one that must not read files", trace, walk_again(&text, process.room));
}

/* Nor are results of a walk while others held the locks of mappings. */
static void check_busy(const struct trace *trace)
{
	bool mmap_busy = process.mmap_busy, vma_busy = process.vma_busy;
	struct unwind_text text;

	/* After a change, the walk forgets everything anyway. */
	if (process.raced)
		return;
	forget(&text);
	process.mmap_busy = true;
	process.vma_busy = true;
	drop(walk_all(&text));
	process.mmap_busy = mmap_busy;
	process.vma_busy = vma_busy;
	same("after one that got no lock", trace, walk_again(&text, process.room));
}

/* Compare after files and mappings have changed. */
static void check_changed(struct unwind_text *text, const char *what)
{
	struct unwind_text cold;
	struct trace after;

	forget(&cold);
	after = walk(&cold, 1);
	same(what, &after, walk_all(text));
	drop(after);
}

/* Walk in all the ways that must find the same as @trace. */
static void check_walks(const struct trace *trace)
{
	struct unwind_text text, cold;
	struct trace again;

	forget(&text);
	again = walk_all(&text);
	check_hits(&again, &text);
	same("once more", trace, again);

	again = walk_all(&text);
	for (int i = 0; i < UNWIND_TEXT_CODES; i++)
		text.code[i].hits = 0;
	drop(again);
	again = walk_again(&text, 1);
	check_stats(&again);
	check_hits(&again, &text);
	same("one at a time, with what is remembered", trace, again);

	forget(&text);
	forget(&cold);
	same("all at once", trace, walk_all(&text));
	same("with what is remembered", trace, walk_again(&text, process.room));
	same("with nothing to remember in", trace, walk_all(NULL));
	same("in pieces", trace, walk(&cold, process.piece));
	same("unwind_user", trace, walk_whole());
	if (!process.nofault)
		check_impatient(trace);
	check_busy(trace);

	/* Nor are results of a walk that read the breakpoint of a probe. */
	if (process.insn) {
		forget(&cold);
		process.unhandled = true;
		drop(walk_all(&cold));
		process.unhandled = false;
		same("at a probe that was seen before", trace, walk_again(&cold, process.room));
	}

	if (process.replace) {
		process.replaced = process.replace;
		sim_objects_forget();
		check_changed(&text, "after files changed");
		process.replaced = 0;
		process.seq += 2;
		check_changed(&text, "after other files were mapped");
	}
	if (process.remap) {
		for (int i = 0; i < AREAS; i++) {
			if (process.remap & BIT(i))
				process.areas[i].flags ^= AREA_EXEC;
		}
		process.seq += 2;
		check_changed(&text, "after the mappings changed");
	}
}

/*
 * One object that is dropped during a walk makes no difference to @trace, a walk
 * without drops. More drops may make a difference, but not to later walks.
 */
static void check_drops(const struct trace *trace)
{
	unsigned int nr = process.nr_drops;
	struct unwind_text text;

	if (nr == 1) {
		forget(&text);
		same("with a drop", trace, walk(&text, 1));
		same("after a drop", trace, walk_again(&text, process.room));
		forget(&text);
		same("with a drop, all at once", trace, walk_all(&text));
		same("with a drop, and nothing to remember in", trace, walk_all(NULL));
		forget(&text);
		drop(walk_again(&text, process.room));
		same("with a drop of what is remembered", trace, walk_all(&text));
	}
	/* Not one at a time: the model expects the results of a walk with one drop. */
	forget(&text);
	drop(walk_again(&text, process.room));
	sim_objects_drop_other();
	drop(walk(&text, 2));
	same("after two drops", trace, walk_again(&text, process.room));
}

static void __attribute__((destructor)) print_most(void)
{
	if (most.walks)
		fprintf(stderr, "%lu walks, the most reads: %u of %u bytes for %u entries\n",
			most.walks, most.counts.reads, most.counts.bytes, most.nr);
}

/* Returns the trace of a walk, one caller at a time. */
static struct trace check(const struct record *records, size_t nr)
{
	struct unwind_text text;
	struct trace trace;

	forget(&text);
	input_load(records, nr);
	if (process.nr_drops && is_constant() && may_load()) {
		trace = walk_again(&text, 1);
		check_drops(&trace);
		drop(trace);
		forget(&text);
	}
	trace = walk(&text, 1);
	check_stats(&trace);
	check_hits(&trace, &text);
	if (is_stable()) {
		check_walks(&trace);
	} else {
		forget(&text);
		input_load(records, nr);
		drop(walk_all(&text));
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

/* Half of the time change bytes; otherwise change whole records, or small numbers in them. */
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
	for (int i = 0; gives->counted && i < NR_COUNTS; i++) {
		const char *name;
		unsigned long nr = trace->stats[input_count(i, &name)];

		sim_rule(nr == gives->counts[i], "%s is %lu, not %lu", name, nr, gives->counts[i]);
	}
}

/* Fail each read once: earlier results stay, and later ones keep the rules. */
static void fail_each_read(const struct record *records, size_t nr, const struct trace *trace)
{
	struct unwind_text text;
	struct trace part;

	if (!is_stable())
		return;
	for (unsigned int nth = 1; nth <= trace->counts.reads; nth++) {
		input_load(records, nr);
		process.fail_read = nth;
		forget(&text);
		part = walk(&text, 1);
		for (int i = 0; i < trace->nr && trace->reads[i] < nth; i++)
			sim_rule(i < part.nr && part.entries[i] == trace->entries[i],
				 "read %u fails: entry %d is another", nth, i);
		drop(part);
	}
}

/* Drop an object at each event of the walk: it is looked up again. */
static void drop_at_each_event(const struct record *records, size_t nr,
			       const struct trace *trace)
{
	unsigned int events = min(trace->counts.events, MAX_DROP_EVENTS);

	input_load(records, nr);
	if (!process.nr_funcs || process.nr_drops || !is_constant() || !may_load())
		return;
	for (unsigned int i = 0; i < AREAS * events; i++) {
		if (process.mapped[i % AREAS].kind != TABLE_READ)
			continue;
		process.drops[0] = (struct drop) { .area = i % AREAS, .event = i / AREAS };
		process.nr_drops = 1;
		check_drops(trace);
	}
}

/* Walk the processes of a text. */
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
		/* Print the line first, in case the input crashes. */
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
		drop_at_each_event(records, nr, &trace);
		printf("%u callers, %u reads of %u bytes, %u look-ups\n", trace.nr,
		       trace.counts.reads, trace.counts.bytes, trace.counts.lookups);
		for (int i = 0; i < trace.nr; i++)
			printf("\t%#lx\n", trace.entries[i]);
		drop(trace);
	} while (!feof(file));
	fclose(file);
	return nr < 0;
}

/* Convert bytes to text, or text to bytes. */
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
