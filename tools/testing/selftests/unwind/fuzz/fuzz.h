/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An input of the fuzzer, and the simulated process that it describes.
 *
 * sim.c simulates the process, sim_object.c the kernel's SFrame tables of its files.
 * input.c makes a process from an input, and input_table.c its tables. fuzz.c walks
 * the stack and checks the results, model.c predicts them.
 */
#ifndef _UNWIND_FUZZ_FUZZ_H
#define _UNWIND_FUZZ_FUZZ_H

#include <linux/unwind_stats.h>
#include <linux/unwind_user.h>

#include <kernel/unwind/unwind.h>

#include "sframe_plain.h"

#define AREAS		10
#define AREA_PAGES	16
#define MAX_RECORDS	128
#define MAX_ENTRIES	1024
#define MAX_REPEAT	1024
#define MAX_PROBES	32
#define MAX_TRAPS	8
#define MAX_FUNCS	32
#define MAX_ROWS	96
#define MAX_DROPS	4

/* How an area is mapped. */
#define AREA_READ	1	/* the memory can be read */
#define AREA_VMA	2	/* it has a mapping */
#define AREA_EXEC	4	/* it is executable */

/**
 * struct area - a piece of the address space
 * @base:	its first address
 * @pages:	its size
 * @flags:	AREA_*
 * @out:	bits of pages that are not resident
 * @low:	start of the written part of @mem, to be cleared
 * @high:	end of that part
 * @mem:	the contents
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

/* The kernel's knowledge of the file of a mapping. */
enum table_kind {
	TABLE_NO_FILE,		/* no file */
	TABLE_NONE,		/* a file without a table */
	TABLE_READ,		/* a table that was read */
	TABLE_UNREAD,		/* a table that was not read yet */
	TABLE_AGAIN,		/* a table that takes too long to read */
	TABLE_VDSO,		/* the vDSO */
	TABLE_VDSO_32,		/* the vDSO of 32-bit code */
	TABLE_KINDS,
};

/**
 * struct mapped - the mapping in an area
 * @kind:	kind of the file
 * @pgoff:	file offset of the start of the area, in pages
 * @addr:	address of that offset according to the file
 */
struct mapped {
	enum table_kind	kind;
	unsigned int	pgoff;
	u64		addr;
};

/* A value in a row: a base as in struct unwind_user_frame, and an offset. */
struct rule {
	bool		set;
	u8		base;
	s32		off;
};

/**
 * struct row - a row of a table
 * @start:	offset from the start of its function, or of a block of it
 * @outermost:	the function has no caller
 * @cfa:	rules; those that are not set have the usual values
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
 * @off:	offset of its start in the area
 * @size:	bytes of code
 * @block:	its rows apply to each block of this size, if not 0
 * @signal:	its caller was interrupted
 * @first_row:	its rows
 * @nr_rows:	number of rows
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

/* Drop the object of a file at an event of the walk. */
struct drop {
	unsigned int	area;
	unsigned int	event;
};

/**
 * struct process - a process as an input describes it
 * @areas:	memory and mappings
 * @traps:	bad and changing words
 * @nr_traps:	number of @traps
 * @probes:	return instances, the innermost first
 * @nr_probes:	number of @probes
 * @segments:	bases of 3 thread-local segments and of 5 of the LDT
 * @trampoline:	of return probes
 * @insn:	instruction under the breakpoint that is being handled; 0 for none
 * @unhandled:	that breakpoint exists, but is not being handled
 * @room:	number of entries that fit
 * @piece:	number of entries to request at a time
 * @nofault:	the caller has disabled page faults
 * @exiting:	the task is exiting
 * @kill_read:	read at which the task is killed, if not 0
 * @fail_read:	read that fails, if not 0
 * @raced:	the mappings begin to change during each look-up
 * @mmap_busy:	the mmap lock cannot be taken; waiting for it is interrupted
 * @vma_busy:	no lock of a single mapping can be taken
 * @nomask:	user pointers cannot be masked
 * @seq:	state of the mappings; odd while they change
 * @remap:	areas that stop or start being code, at the end
 * @mapped:	mappings of files in the areas
 * @funcs:	functions in the tables of these files
 * @nr_funcs:	number of @funcs
 * @rows:	rows of the functions
 * @nr_rows:	number of @rows
 * @drops:	objects that are dropped during the walk
 * @nr_drops:	number of @drops
 * @replace:	areas whose files are replaced at the end
 * @replaced:	areas whose files are replaced now
 * @shift:	offset of all functions in replaced files
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
	bool			unhandled;
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
 * @bytes:	contents of the section
 * @table:	its table, or NULL
 * @plain:	its decoding by the plain decoder
 */
struct file_table {
	struct sframe_section	section;
	struct sframe_range	text;
	u8			bytes[4096];
	struct sframe_table	*table;
	struct plain		plain;
};

/* Counts of a walk. */
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
 * struct expected - the expected next caller
 * @known:	it is known; otherwise the other members have no meaning
 * @found:	it exists
 * @table:	a table determines it
 * @entry:	its address
 * @sp:		its stack pointer
 * @sp_other:	an alternative to @sp, according to the code
 * @fp:		its frame pointer
 * @fp_other:	likewise
 * @exact:	its address is the next instruction to run
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
 * struct record - one record of an input
 * @op:		the operation, see the names in input.c
 * @area:	area of the place
 * @tag:	base of @val
 * @kind:	depends on @op
 * @off:	offset of the place in the area
 * @n:		a count
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

/* Expected results of a text: the number of callers, the first callers, and counters. */
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
