// SPDX-License-Identifier: GPL-2.0
/*
 * Inputs: the effect of their records on the process, and their form as text.
 *
 * The fuzzer changes bytes; any bytes are an input. Committed inputs are text, with a
 * record on each line, and its words in any order:
 *
 *   OP [@AREA+OFFSET] [.KIND] [*COUNT] [=VALUE | :HEX]		# comment
 *
 *   reg .ip =code+0x10		registers; orig_ax is the number of the system call
 *   map @lib .rx *4 =0x7f0000	a mapping of 4 pages, which starts in the page of this
 *				address if that is free; 0 leaves it where it is
 *   word @stack+0x40 =code+8	a word of 8 bytes, or of .4
 *   bytes @code *9 :e800000000	up to 8 bytes, 9 times in a row
 *   chain @stack *100 =code+8	consecutive frames that return to this address;
 *				.4 for words of 4 bytes
 *   evict @stack+0x1000	this page is not resident
 *   bad @stack+0x48		this word can never be read
 *   change @stack+8 *1 =lib	this word changes after one more read
 *   probe @stack+8 =code+8	a return probe replaced this address in this slot;
 *				.chained if it was a trampoline itself
 *   segment *3 =0x1000		base of a segment, the first 3 are thread-local
 *   frame @alt .x32.ip =code	a saved register in a signal frame that starts there
 *   set .room *10		see set_names[]
 *   table @lib .read *2 =0x4000	the area is mapped from page 2 of a file, which has this
 *				address according to its headers; see table_names[]
 *   func @lib+0x40 *0x20 .signal	a function in that table; .blocks of =SIZE bytes
 *   row *4 .sp =16		a row of the latest function, from its byte 4 on: the CFA
 *				is sp + 16; .(bp) loads from bp + n; .end for no caller
 *   ra .(cfa) =-8		the return address of the latest row
 *   fp .(cfa) =-16		the frame pointer
 *   drop @lib *5		the object of the file is dropped at this event of a walk
 *
 * Missing numbers are 0. A last line "gives NUMBER [VALUE...]" states how many callers
 * a walk finds, and the first of them; "counts NAME NUMBER..." states counters, see
 * count_names[], of which missing ones must be 0. A line "next" begins another input.
 */
#include "fuzz.h"

#include <asm/sigframe.h>

enum { OP_REG, OP_MAP, OP_WORD, OP_BYTES, OP_CHAIN, OP_EVICT, OP_BAD, OP_CHANGE,
	OP_PROBE, OP_SEGMENT, OP_FRAME, OP_SET, OP_TABLE, OP_FUNC, OP_ROW, OP_RA, OP_FP,
	OP_DROP, OPS };

static const char * const op_names[OPS] = {
	"reg", "map", "word", "bytes", "chain", "evict", "bad", "change",
	"probe", "segment", "frame", "set", "table", "func", "row", "ra", "fp", "drop",
};

/* Bases of values: an area, or an address that may be unmapped. */
enum { TAG_NONE = AREAS, TAG_4G, TAG_END, TAG_HOLE, TAG_KERNEL, TAGS };

static const char * const tag_names[TAGS] = {
	"code", "lib", "data", "stack", "alt", "high", "edge", "edge32", "more", "most",
	"", "4g", "end", "hole", "kernel",
};

static const unsigned long tag_bases[TAGS] = {
	[TAG_4G] = 1UL << 32,
	[TAG_END] = TASK_SIZE_MAX,
	[TAG_HOLE] = 1UL << 47,
	[TAG_KERNEL] = 0xffff888000000000,
};

static const struct area default_areas[AREAS] = {
	{ .base = 0x08048000, .pages = 4, .flags = AREA_READ | AREA_VMA | AREA_EXEC },
	{ .base = 0xf7c00000, .pages = 2, .flags = AREA_READ | AREA_VMA | AREA_EXEC },
	{ .base = 0x08060000, .pages = 2, .flags = AREA_READ | AREA_VMA },
	{ .base = 0xffe00000, .pages = AREA_PAGES, .flags = AREA_READ | AREA_VMA },
	{ .base = 0xf0000000, .pages = 2, .flags = AREA_READ | AREA_VMA },
	{ .base = 0x7f0000000000, .pages = 4, .flags = AREA_READ | AREA_VMA | AREA_EXEC },
	{ .base = TASK_SIZE_MAX - 2 * PAGE_SIZE, .pages = 2, .flags = AREA_READ | AREA_VMA },
	{ .base = 0xfffff000, .pages = 1, .flags = AREA_READ | AREA_VMA },
	/* Two more for inputs that map them. */
	{ .base = 0x7e0000000000, .pages = 1 },
	{ .base = 0x7d0000000000, .pages = 1 },
};

#define REG(name) { #name, offsetof(struct pt_regs, name) }

static const struct {
	const char	*name;
	size_t		off;
} regs[] = {
	REG(ip), REG(sp), REG(bp), REG(r10), REG(cx), REG(cs), REG(ss), REG(flags), REG(orig_ax),
	REG(ax), REG(bx), REG(dx), REG(si), REG(di), REG(r8), REG(r9), REG(r11), REG(r12),
	REG(r13), REG(r14), REG(r15),
};

/* Kinds of mappings, see map_flags[]. */
static const char * const map_names[] = { "rw", "rx", "x", "guard", "hidden", "none" };

static const u8 map_flags[] = {
	AREA_READ | AREA_VMA, AREA_READ | AREA_VMA | AREA_EXEC, AREA_VMA | AREA_EXEC,
	AREA_VMA, AREA_READ, 0,
};

static const char * const size_names[] = { "8", "4" };
static const char * const probe_names[] = { "", "chained" };

#define FIELDS(layout, type, context, r10)					\
	{ layout ".ip", offsetof(type, context.ip), sizeof(((type *)0)->context.ip) }, \
	{ layout ".sp", offsetof(type, context.sp), sizeof(((type *)0)->context.sp) }, \
	{ layout ".bp", offsetof(type, context.bp), sizeof(((type *)0)->context.bp) }, \
	{ layout ".drap", offsetof(type, context.r10), sizeof(((type *)0)->context.r10) }, \
	{ layout ".cs", offsetof(type, context.cs), 2 },			\
	{ layout ".ss", offsetof(type, context.ss), 2 }

#define FIELD_64(name)								\
	{ "64." #name, offsetof(struct rt_sigframe, uc.uc_mcontext.name), 8 }

static const struct frame_field {
	const char	*name;
	u16		off;
	u16		size;
} frame_fields[] = {
	FIELDS("64", struct rt_sigframe, uc.uc_mcontext, r10),
	FIELDS("x32", struct rt_sigframe_x32, uc.uc_mcontext, r10),
	FIELDS("ia32", struct sigframe_ia32, sc, cx),
	FIELDS("rt", struct rt_sigframe_ia32, uc.uc_mcontext, cx),
	FIELD_64(ax), FIELD_64(bx), FIELD_64(cx), FIELD_64(dx), FIELD_64(si), FIELD_64(di),
	FIELD_64(r8), FIELD_64(r9), FIELD_64(r11), FIELD_64(r12), FIELD_64(r13), FIELD_64(r14),
	FIELD_64(r15),
};

enum { SET_ROOM, SET_PIECE, SET_NOFAULT, SET_EXITING, SET_KILL_READ, SET_FAIL_READ,
	SET_RACED, SET_MMAP_BUSY, SET_NOMASK, SET_ODDSEQ, SET_TRAMPOLINE,
	SET_UPROBE, SET_REMAP, SET_REPLACE, SET_VMA_BUSY, SETS };

static const char * const set_names[SETS] = {
	"room", "piece", "nofault", "exiting", "kill-read", "fail-read", "raced",
	"mmap-busy", "nomask", "oddseq", "trampoline", "uprobe", "remap", "replace",
	"vma-busy",
};

static const char * const table_names[TABLE_KINDS] = {
	"none", "empty", "read", "unread", "again", "vdso", "vdso32",
};

static const char * const func_names[] = { "", "signal", "blocks", "signal-blocks" };

/* Bases of rules: registers, memory at registers, the CFA, memory at the CFA, no caller. */
static const char * const base_names[] = {
	"ax", "dx", "cx", "bx", "si", "di", "bp", "sp",
	"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
	"(ax)", "(dx)", "(cx)", "(bx)", "(si)", "(di)", "(bp)", "(sp)",
	"(r8)", "(r9)", "(r10)", "(r11)", "(r12)", "(r13)", "(r14)", "(r15)",
	"cfa", "(cfa)", "end",
};

enum { BASE_LOADS = 16, BASE_CFA = 32, BASE_CFA_LOAD, BASE_END };

/* Counters that a text may expect, see enum unwind_stat. */
static const struct {
	const char		*name;
	enum unwind_stat	stat;
} count_names[NR_COUNTS] = {
	{ "no-code", UNWIND_STAT_NO_CODE },
	{ "unreadable", UNWIND_STAT_ENDED_UNREADABLE },
	{ "bad-frame", UNWIND_STAT_ENDED_BAD_FRAME },
	{ "signals", UNWIND_STAT_ENDED_SIGNALS },
	{ "sframe", UNWIND_STAT_SFRAME_FRAMES },
};

/* The names of the kinds of an op. */
static const char *kind_name(unsigned int op, unsigned int kind)
{
#define NAME(names)	(kind < ARRAY_SIZE(names) ? (names)[kind] : NULL)
	switch (op) {
	case OP_REG:
		return kind < ARRAY_SIZE(regs) ? regs[kind].name : NULL;
	case OP_MAP:
		return NAME(map_names);
	case OP_WORD:
	case OP_CHAIN:
	case OP_CHANGE:
		return NAME(size_names);
	case OP_PROBE:
		return NAME(probe_names);
	case OP_FRAME:
		return kind < ARRAY_SIZE(frame_fields) ? frame_fields[kind].name : NULL;
	case OP_SET:
		return NAME(set_names);
	case OP_TABLE:
		return NAME(table_names);
	case OP_FUNC:
		return NAME(func_names);
	case OP_ROW:
	case OP_RA:
	case OP_FP:
		return NAME(base_names);
	default:
		return kind ? NULL : "";
	}
#undef NAME
}

static unsigned int nr_kinds(unsigned int op)
{
	unsigned int nr = 0;

	/* The kind of bytes is their number. */
	if (op == OP_BYTES)
		return 9;
	while (kind_name(op, nr))
		nr++;
	return nr;
}

/* Make a valid record of any bytes. */
static struct record valid(struct record r)
{
	r.op %= OPS;
	r.area %= AREAS;
	r.tag %= TAGS;
	r.kind %= nr_kinds(r.op);
	return r;
}

/* A value relative to the current address of an area. */
unsigned long input_value(unsigned int tag, u64 val)
{
	return (tag < AREAS ? process.areas[tag].base : tag_bases[tag]) + val;
}

static void write_value(unsigned long addr, u64 val, size_t size)
{
	sim_write(addr, &val, size);
}

static void map_area(struct area *area, const struct record *r)
{
	unsigned long base = r->val ? (r->val + tag_bases[r->tag]) & -PAGE_SIZE : area->base;
	unsigned int pages = r->n ? min(r->n, AREA_PAGES) : area->pages;

	area->flags = map_flags[r->kind];
	if (base > TASK_SIZE_MAX - pages * PAGE_SIZE)
		return;
	for (int i = 0; i < AREAS; i++) {
		struct area *other = &process.areas[i];

		if (other != area && base < other->base + other->pages * PAGE_SIZE &&
		    other->base < base + pages * PAGE_SIZE)
			return;
	}
	area->base = base;
	area->pages = pages;
}

static void set_option(const struct record *r, u64 val)
{
	switch (r->kind) {
	case SET_ROOM:
		process.room = min(r->n, MAX_ENTRIES);
		break;
	case SET_PIECE:
		process.piece = max(r->n, 1);
		break;
	case SET_NOFAULT:
		process.nofault = true;
		break;
	case SET_EXITING:
		process.exiting = true;
		break;
	case SET_KILL_READ:
		process.kill_read = r->n;
		break;
	case SET_FAIL_READ:
		process.fail_read = r->n;
		break;
	case SET_RACED:
		process.raced = true;
		break;
	case SET_MMAP_BUSY:
		process.mmap_busy = true;
		break;
	case SET_VMA_BUSY:
		process.vma_busy = true;
		break;
	case SET_NOMASK:
		process.nomask = true;
		break;
	case SET_ODDSEQ:
		process.seq |= 1;
		break;
	case SET_TRAMPOLINE:
		process.trampoline = val;
		break;
	case SET_UPROBE:
		process.insn = r->val;
		break;
	case SET_REMAP:
		process.remap |= BIT(r->area);
		break;
	case SET_REPLACE:
		process.replace |= BIT(r->area);
		process.shift = val;
		break;
	}
}

static void add_func(const struct record *r)
{
	if (process.nr_funcs == MAX_FUNCS)
		return;
	process.funcs[process.nr_funcs++] = (struct func) {
		.area = r->area, .off = r->off, .size = r->n, .first_row = process.nr_rows,
		.signal = r->kind & 1, .block = r->kind & 2 ? r->val : 0,
	};
}

static struct rule rule(const struct record *r, u64 val)
{
	struct rule rule = { .set = r->kind < BASE_END, .off = val };

	if (r->kind < BASE_CFA)
		rule.base = r->kind < BASE_LOADS ? r->kind :
				(r->kind - BASE_LOADS) | UNWIND_BASE_LOAD;
	else
		rule.base = UNWIND_BASE_CFA | (r->kind == BASE_CFA_LOAD ? UNWIND_BASE_LOAD : 0);
	return rule;
}

static void add_row(const struct record *r, u64 val)
{
	if (process.nr_rows == MAX_ROWS || !process.nr_funcs)
		return;
	process.rows[process.nr_rows++] = (struct row) {
		.start = r->n, .outermost = r->kind == BASE_END, .cfa = rule(r, val),
	};
	process.funcs[process.nr_funcs - 1].nr_rows++;
}

static void add_rule(const struct record *r, u64 val)
{
	if (!process.nr_rows)
		return;
	if (r->op == OP_RA)
		process.rows[process.nr_rows - 1].ra = rule(r, val);
	else
		process.rows[process.nr_rows - 1].fp = rule(r, val);
}

static void apply(const struct record *r)
{
	struct area *area = &process.areas[r->area];
	unsigned long addr = area->base + r->off;
	u64 val = input_value(r->tag, r->val);
	unsigned int ws = r->kind ? 4 : 8;
	unsigned int n = r->n;

	switch (r->op) {
	case OP_REG:
		memcpy((void *)&sim_regs + regs[r->kind].off, &val, sizeof(val));
		break;
	case OP_MAP:
		map_area(area, r);
		break;
	case OP_WORD:
		write_value(addr, val, ws);
		break;
	case OP_BYTES:
		n = min(max(n, 1), MAX_REPEAT);
		for (int i = 0; i < n; i++)
			sim_write(addr + i * r->kind, &r->val, r->kind);
		break;
	case OP_CHAIN:
		n = min(max(n, 1), MAX_REPEAT);
		for (int i = 0; i < n; i++, addr += 2 * ws) {
			write_value(addr, addr + 2 * ws, ws);
			write_value(addr + ws, val, ws);
		}
		break;
	case OP_EVICT:
		area->out |= BIT(r->off / PAGE_SIZE);
		break;
	case OP_BAD:
	case OP_CHANGE:
		process.traps[process.nr_traps++ % MAX_TRAPS] = (struct trap) {
			.addr = addr, .change = r->op == OP_CHANGE, .size = ws,
			.reads = n, .val = val,
		};
		break;
	case OP_PROBE:
		process.probes[process.nr_probes++ % MAX_PROBES] = (struct return_instance) {
			.stack = addr, .orig_ret_vaddr = val, .chained = r->kind,
		};
		break;
	case OP_SEGMENT:
		process.segments[n % ARRAY_SIZE(process.segments)] = val;
		break;
	case OP_FRAME:
		write_value(addr + frame_fields[r->kind].off, val, frame_fields[r->kind].size);
		break;
	case OP_SET:
		set_option(r, val);
		break;
	case OP_TABLE:
		process.mapped[r->area] = (struct mapped) { r->kind, n, val };
		break;
	case OP_FUNC:
		add_func(r);
		break;
	case OP_ROW:
		add_row(r, val);
		break;
	case OP_RA:
	case OP_FP:
		add_rule(r, val);
		break;
	case OP_DROP:
		process.drops[process.nr_drops++ % MAX_DROPS] = (struct drop) { r->area, n };
		break;
	}
}

/* Make the process that the records describe. */
void input_load(const struct record *records, size_t nr)
{
	for (int i = 0; i < AREAS; i++) {
		struct area *area = &process.areas[i];

		if (area->low < area->high)
			memset(area->mem + area->low, 0, area->high - area->low);
		area->base = default_areas[i].base;
		area->pages = default_areas[i].pages;
		area->flags = default_areas[i].flags;
		area->low = sizeof(area->mem);
		area->high = 0;
		area->out = 0;
	}
	memset(&process.traps, 0, sizeof(process) - offsetof(struct process, traps));
	process.trampoline = -1UL;
	process.room = 64;
	process.piece = 3;
	process.seq = 2;
	sim_regs = (struct pt_regs) {
		.ip = process.areas[0].base, .sp = process.areas[3].base,
		.cs = __USER_CS, .ss = __USER_DS, .orig_ax = -1,
	};

	for (int i = 0; i < nr; i++) {
		struct record r = valid(records[i]);

		apply(&r);
	}
	/* The segments are those of user mode. */
	sim_regs.cs = (u16)sim_regs.cs | 3;
	sim_regs.ss = (u16)sim_regs.ss | 3;
	process.nr_traps = min(process.nr_traps, MAX_TRAPS);
	process.nr_probes = min(process.nr_probes, MAX_PROBES);
	process.nr_drops = min(process.nr_drops, MAX_DROPS);
	input_tables();
}

/* Values for tables: code is in few areas, functions and frames are small. */
static void random_table(struct record *r)
{
	static const u8 code[] = { 0, 0, 1, 5 };

	switch (r->op) {
	case OP_TABLE:
		r->kind = random() % 2 ? TABLE_READ : random() % TABLE_KINDS;
		r->area = code[random() % ARRAY_SIZE(code)];
		break;
	case OP_FUNC:
		r->kind = random() % 2 ? 0 : random();
		r->area = code[random() % ARRAY_SIZE(code)];
		r->off = random() % 2 ? r->off : 0x800 + random() % 64;
		r->n = 1 << random() % 10;
		break;
	case OP_ROW:
	case OP_RA:
	case OP_FP:
		r->kind = random() % 2 ? ARCH_DWARF_SP - random() % 2 : random();
		if (r->op != OP_ROW && random() % 2)
			r->kind = BASE_CFA_LOAD;
		r->tag = random() % 8 ? TAG_NONE : r->tag;
		r->val = 8 * (random() % 8 - (r->op == OP_ROW ? 0 : 8));
		r->n = random() % 4 ? 0 : random() % 64;
		break;
	case OP_DROP:
		r->n = random() % 128;
		break;
	}
}

/* A record with numbers that are likely to be meaningful. */
struct record input_random(void)
{
	static const u8 bytes[][8] = {
		{ 0xe8 }, { 0x90, 0x90, 0x90, 0xe8 }, { 0xff, 0xd0 }, { 0xc3 }, { 0x55 }, { 0x5d },
		{ 0xeb, 0xfe }, { 0xe9 }, { 0xc9 }, { 0xff, 0x25 }, { 0xc5, 0xf8, 0x77 },
		{ 0x62, 0xf1, 0x7c, 0x48, 0x28, 0xc0 }, { 0x0f, 0x05 }, { 0xcd, 0x80 },
		{ 0x48, 0xc7, 0xc0, 0x0f }, { 0xb8, 0x0f }, { 0x58, 0xb8, 0x77 },
		{ 0xb8, 0xad }, { 0x4c, 0x8d, 0x54, 0x24, 0x08 }, { 0x48, 0x83, 0xe4 },
		{ 0x41, 0xff, 0x72, 0xf8 }, { 0xff, 0x71, 0xfc }, { 0x48, 0x89, 0xe5 },
		{ 0x48, 0x8b, 0x73, 0x10, 0x48, 0x8b, 0x7b, 0x08 }, { 0x41, 0x55 }, { 0x53 },
	};
	struct record r = {
		.op = random() % OPS,
		.area = random() % AREAS,
		.tag = random() % 2 ? random() % AREAS : random() % TAGS,
		.kind = random(),
		.off = random() % 64 * 8,
		.n = random() % 4 ? random() % 8 : random(),
		.val = random() % 64 * 8,
	};

	if (r.op == OP_BYTES) {
		r.kind = 1 + random() % 8;
		memcpy(&r.val, bytes[random() % ARRAY_SIZE(bytes)], sizeof(r.val));
	}
	random_table(&r);
	if (random() % 8 == 0)
		r.off += random() % AREA_PAGES * PAGE_SIZE - 8;
	return r;
}

static void print_value(FILE *file, const char *name, u64 val)
{
	if (!*name)
		fprintf(file, "%#llx", val);
	else if ((s64)val < 0)
		fprintf(file, "%s-%#llx", name, -val);
	else
		fprintf(file, val ? "%s+%#llx" : "%s", name, val);
}

/* Print the text of an input. */
void input_print(FILE *file, const struct record *records, size_t nr)
{
	for (int i = 0; i < nr; i++) {
		struct record r = valid(records[i]);

		fputs(op_names[r.op], file);
		if (r.area || r.off) {
			fputs(" @", file);
			print_value(file, tag_names[r.area], r.off);
		}
		if (r.op != OP_BYTES && *kind_name(r.op, r.kind))
			fprintf(file, " .%s", kind_name(r.op, r.kind));
		if (r.n)
			fprintf(file, " *%d", r.n);
		if (r.op == OP_BYTES) {
			fputs(" :", file);
			for (int j = 0; j < r.kind; j++)
				fprintf(file, "%02x", ((u8 *)&r.val)[j]);
		} else if (r.val || r.tag != TAG_NONE) {
			fputs(" =", file);
			print_value(file, tag_names[r.tag], r.val);
		}
		fputc('\n', file);
	}
}

static bool parse_value(const char *word, u8 *tag, u64 *val)
{
	size_t len = strcspn(word, "+-");
	char *end;

	for (*tag = 0; *tag < TAGS; (*tag)++) {
		if (*tag != TAG_NONE && !strncmp(word, tag_names[*tag], len) &&
		    !tag_names[*tag][len])
			break;
	}
	if (*tag == TAGS) {
		*tag = TAG_NONE;
		len = 0;
	}
	*val = strtoull(word + len, &end, 0);
	return !*end;
}

static bool parse_kind(const char *word, struct record *r)
{
	const char *name;

	for (r->kind = 0; (name = kind_name(r->op, r->kind)); r->kind++) {
		if (!strcmp(name, word))
			return true;
	}
	return false;
}

static bool parse_hex(const char *word, struct record *r)
{
	unsigned int byte;

	if (r->op != OP_BYTES)
		return false;
	for (r->kind = 0; r->kind < 8 && sscanf(word, "%2x", &byte) == 1; word += 2)
		((u8 *)&r->val)[r->kind++] = byte;
	return !*word;
}

static bool parse_word(char *word, struct record *r)
{
	char *end;
	u64 off;
	u8 tag;

	switch (*word++) {
	case '@':
		if (!parse_value(word, &tag, &off) || tag >= AREAS || off > U16_MAX)
			return false;
		r->area = tag;
		r->off = off;
		return true;
	case '.':
		return parse_kind(word, r);
	case '*':
		r->n = strtoul(word, &end, 0);
		return !*end;
	case '=':
		return parse_value(word, &r->tag, &r->val);
	case ':':
		return parse_hex(word, r);
	default:
		return false;
	}
}

static bool parse_gives(struct gives *gives)
{
	char *word = strtok(NULL, " \t\n");
	unsigned int i = 0;

	gives->known = word;
	if (!word)
		return false;
	gives->nr = strtoul(word, NULL, 0);
	for (; (word = strtok(NULL, " \t\n")) && i < ARRAY_SIZE(gives->first); i++) {
		if (!parse_value(word, &gives->first[i].tag, &gives->first[i].val))
			return false;
	}
	gives->nr_first = i;
	return !word && i <= gives->nr;
}

static bool parse_counts(struct gives *gives)
{
	char *word, *number, *end;
	unsigned int i;

	gives->counted = true;
	while ((word = strtok(NULL, " \t\n"))) {
		for (i = 0; i < NR_COUNTS && strcmp(word, count_names[i].name); i++)
			;
		number = strtok(NULL, " \t\n");
		if (i == NR_COUNTS || !number)
			return false;
		gives->counts[i] = strtoul(number, &end, 0);
		if (*end)
			return false;
	}
	return true;
}

/* The counter with index @i, and its name. */
enum unwind_stat input_count(unsigned int i, const char **name)
{
	*name = count_names[i].name;
	return count_names[i].stat;
}

static bool parse_line(char *line, struct record *r, struct gives *gives)
{
	char *word = strtok(line, " \t\n");

	*r = (struct record) { .op = OPS, .tag = TAG_NONE };
	if (!word)
		return true;
	if (!strcmp(word, "gives"))
		return parse_gives(gives);
	if (!strcmp(word, "counts"))
		return parse_counts(gives);
	for (r->op = 0; r->op < OPS && strcmp(word, op_names[r->op]); r->op++)
		;
	if (r->op == OPS)
		return false;
	while ((word = strtok(NULL, " \t\n"))) {
		if (!parse_word(word, r))
			return false;
	}
	return true;
}

/*
 * Read one input. Returns the number of its records, or -1 at an invalid line.
 * Sets @line to the number of the last line that was read.
 */
int input_parse(FILE *file, unsigned int *line, struct record *records, struct gives *gives)
{
	char text[256];
	int nr = 0;

	*gives = (struct gives) {};
	while (fgets(text, sizeof(text), file)) {
		(*line)++;
		text[strcspn(text, "#\n")] = '\0';
		if (!strcmp(text, "next"))
			break;
		if (nr == MAX_RECORDS || !parse_line(text, &records[nr], gives))
			return -1;
		nr += records[nr].op != OPS;
	}
	return nr;
}
