/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An input of the fuzzer, and the simulated process that it describes.
 *
 * sim.c simulates the process, sim_object.c the kernel's SFrame tables of its files.
 * input.c makes a process of an input, and input_table.c its tables. fuzz.c walks the
 * stack and checks what comes out, model.c says what that should be.
 */
#ifndef _UNWIND_FUZZ_FUZZ_H
#define _UNWIND_FUZZ_FUZZ_H

#include <linux/unwind_stats.h>
#include <linux/unwind_user.h>

#include "sframe_plain.h"

#define AREAS		8
#define AREA_PAGES	16
#define MAX_RECORDS	128
#define MAX_ENTRIES	1024
#define MAX_REPEAT	1024
#define MAX_PROBES	32
#define MAX_TRAPS	8
#define MAX_FUNCS	32
#define MAX_ROWS	96
#define MAX_DROPS	4

/* What an area is mapped as. */
#define AREA_READ	1	/* the memory can be read */
#define AREA_VMA	2	/* there is a mapping */
#define AREA_EXEC	4	/* it is executable */

/**
 * struct area - a piece of the address space
 * @base:	its first address
 * @pages:	its size
 * @flags:	AREA_*
 * @out:	pages that are not resident
 * @low:	what was written to @mem, for it to be cleared
 * @high:	likewise
 * @mem:	the content
 */
struct area {
	unsigned long	base;
	unsigned int	pages;
	unsigned int	flags;
	u32		out;
	unsigned int	low;
	unsigned int	high;
	u8		mem[AREA_PAGES * PAGE_SIZE];
};

/* A word that cannot be read, or that changes after some reads. */
struct trap {
	unsigned long	addr;
	bool		change;
	unsigned int	size;
	unsigned int	reads;
	u64		val;
};

/* What the kernel knows of the file of a mapping. */
enum table_kind {
	TABLE_NO_FILE,		/* there is none */
	TABLE_NONE,		/* it has no table */
	TABLE_READ,		/* it has one, which was read */
	TABLE_UNREAD,		/* which was not read yet */
	TABLE_AGAIN,		/* which takes too long to be read */
	TABLE_VDSO,		/* it is the vDSO */
	TABLE_VDSO_32,		/* it is one of 32-bit code */
	TABLE_KINDS,
};

/**
 * struct mapped - what is mapped in an area
 * @kind:	the file
 * @pgoff:	where in the file the area starts, in pages
 * @addr:	what the file says is the address of that
 */
struct mapped {
	enum table_kind	kind;
	unsigned int	pgoff;
	u64		addr;
};

/* A value in a row of a table: a base as in struct unwind_user_frame, and an offset. */
struct rule {
	bool		set;
	u8		base;
	s32		off;
};

/**
 * struct row - a row of a table
 * @start:	from the start of its function, or of a block of it
 * @outermost:	there is no caller
 * @cfa:	rules; those that are not set are the usual ones
 * @ra:		likewise
 * @fp:		likewise
 */
struct row {
	u16		start;
	bool		outermost;
	struct rule	cfa;
	struct rule	ra;
	struct rule	fp;
};

/**
 * struct func - a function in a table
 * @area:	the area whose file has it
 * @off:	where it starts there
 * @size:	bytes of code
 * @block:	its rows are for each block of this size, if not 0
 * @signal:	its caller was interrupted
 * @first_row:	its rows
 * @nr_rows:	how many
 */
struct func {
	unsigned int	area;
	u16		off;
	u16		size;
	u8		block;
	bool		signal;
	unsigned int	first_row;
	unsigned int	nr_rows;
};

/* The object of a file is dropped at some point of the walk. */
struct drop {
	unsigned int	area;
	unsigned int	event;
};

/**
 * struct process - what an input describes
 * @areas:	memory and mappings
 * @traps:	bad and changing words
 * @nr_traps:	how many
 * @probes:	return instances, the innermost first
 * @nr_probes:	how many
 * @segments:	bases of 3 thread-local segments and of 5 of the LDT
 * @trampoline:	of return probes
 * @insn:	what is under the breakpoint that is being handled; 0 for none
 * @room:	how many entries there is room for
 * @piece:	how many of them to ask for at a time
 * @nofault:	the caller has disabled page faults
 * @exiting:	the task is
 * @kill_read:	it is killed at this read, if not 0
 * @fail_read:	this read fails, if not 0
 * @raced:	the mappings begin to change during each look-up
 * @mmap_busy:	their lock cannot be had, without a wait that is interrupted
 * @vma_busy:	no lock of a single mapping can be had
 * @nomask:	user pointers cannot be masked
 * @seq:	state of the mappings; odd when somebody is changing them
 * @remap:	the areas that are code no more, or that become code, at the end
 * @mapped:	what the areas are mapped from
 * @funcs:	functions in the tables of that
 * @nr_funcs:	how many
 * @rows:	rows of these
 * @nr_rows:	how many
 * @drops:	objects that are dropped meanwhile
 * @nr_drops:	how many
 * @replace:	areas whose files are other ones at the end
 * @replaced:	those that are
 * @shift:	these have all functions so much higher
 */
struct process {
	struct area		areas[AREAS];
	struct trap		traps[MAX_TRAPS];
	unsigned int		nr_traps;
	struct return_instance	probes[MAX_PROBES];
	unsigned int		nr_probes;
	unsigned long		segments[8];
	unsigned long		trampoline;
	u8			insn;
	unsigned int		room;
	unsigned int		piece;
	bool			nofault;
	bool			exiting;
	unsigned int		kill_read;
	unsigned int		fail_read;
	bool			raced;
	bool			mmap_busy;
	bool			vma_busy;
	bool			nomask;
	unsigned int		seq;
	u32			remap;
	struct mapped		mapped[AREAS];
	struct func		funcs[MAX_FUNCS];
	unsigned int		nr_funcs;
	struct row		rows[MAX_ROWS];
	unsigned int		nr_rows;
	struct drop		drops[MAX_DROPS];
	unsigned int		nr_drops;
	u32			replace;
	u32			replaced;
	u64			shift;
};

/**
 * struct file_table - the table of a file
 * @section:	the section
 * @text:	code of the file
 * @bytes:	of the section
 * @table:	what is made of it, or NULL
 * @plain:	the same by the plain decoder
 */
struct file_table {
	struct sframe_section	section;
	struct sframe_range	text;
	u8			bytes[4096];
	struct sframe_table	*table;
	struct plain		plain;
};

/* What was counted during a walk. */
struct counts {
	unsigned int reads;
	unsigned int bytes;
	unsigned int lookups;
	unsigned int changes;
	unsigned int gets;
	unsigned int hits[AREAS];
	unsigned int events;
};

extern struct process process;

extern struct file_table file_tables[AREAS];

/* sim.c */
void sim_write(unsigned long addr, const void *src, size_t size);
bool sim_peek(void *dst, unsigned long addr, size_t size);
struct area *sim_area(unsigned long addr);
struct counts *sim_counts(void);
void sim_no_window(const char *who);
bool sim_holds(enum sim_lock lock);
bool sim_may_wait(void);
void sim_reset(void);
void sim_begin(void);
void sim_end(struct counts *counts);

/* sim_object.c */
struct file *sim_file(unsigned int area);
void sim_event(void);
void sim_objects_begin(void);
void sim_objects_end(void);
void sim_objects_drop_other(void);
void sim_objects_forget(void);
void sim_objects_free(void);

/* model.c */

/**
 * struct expected - what the next caller should be
 * @known:	it is known; else nothing of the rest means anything
 * @found:	there is a caller
 * @table:	a table says so
 * @entry:	its address
 * @sp:		its stack pointer
 * @sp_other:	what that may be as well, as the code says
 * @fp:		its frame pointer
 * @fp_other:	likewise
 * @exact:	its address is that of the next instruction to run
 */
struct expected {
	bool		known;
	bool		found;
	bool		table;
	unsigned long	entry;
	unsigned long	sp;
	unsigned long	sp_other;
	unsigned long	fp;
	unsigned long	fp_other;
	bool		exact;
};

struct expected model_next(const struct unwind_user_state *state, bool first);
bool model_is_code(unsigned long addr);

/**
 * struct record - an input is a row of these
 * @op:		what it says, see the names in input.c
 * @area:	where, the area
 * @tag:	what @val is relative to
 * @kind:	depends on @op
 * @off:	where, the offset
 * @n:		how often
 * @val:	an address, a number or bytes
 */
struct record {
	u8	op;
	u8	area;
	u8	tag;
	u8	kind;
	u16	off;
	u16	n;
	u64	val;
};

static_assert(sizeof(struct record) == 16);

#define NR_COUNTS	5

/* What a text says that the walk of it gives: how many callers, the first of them. */
struct gives {
	bool		known;
	unsigned int	nr;
	unsigned int	nr_first;
	struct {
		u8	tag;
		u64	val;
	} first[16];
	bool		counted;
	unsigned long	counts[NR_COUNTS];
};

/* input_table.c */
void input_tables(void);

/* input.c */
void input_load(const struct record *records, size_t nr);
unsigned long input_value(unsigned int tag, u64 val);
void input_print(FILE *file, const struct record *records, size_t nr);
int input_parse(FILE *file, unsigned int *line, struct record *records, struct gives *gives);
struct record input_random(void);
enum unwind_stat input_count(unsigned int i, const char **name);

#endif /* _UNWIND_FUZZ_FUZZ_H */
