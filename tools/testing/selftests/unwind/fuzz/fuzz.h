/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An input of the fuzzer, and the simulated process that it describes.
 *
 * sim.c simulates the process, input.c makes one of an input, fuzz.c walks its
 * stack and checks what comes out.
 */
#ifndef _UNWIND_FUZZ_FUZZ_H
#define _UNWIND_FUZZ_FUZZ_H

#include <linux/unwind_user.h>

#define AREAS		8
#define AREA_PAGES	16
#define MAX_RECORDS	128
#define MAX_ENTRIES	1024
#define MAX_REPEAT	1024
#define MAX_PROBES	32
#define MAX_TRAPS	8

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
 * @nomask:	user pointers cannot be masked
 * @seq:	state of the mappings; odd when somebody is changing them
 * @remap:	the areas that are code no more, or that become code, at the end
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
	bool			nomask;
	unsigned int		seq;
	u32			remap;
};

/* What was counted during a walk. */
struct counts {
	unsigned int reads;
	unsigned int bytes;
	unsigned int lookups;
	unsigned int changes;
};

extern struct process process;

/* sim.c */
void sim_write(unsigned long addr, const void *src, size_t size);
struct area *sim_area(unsigned long addr);
void sim_begin(void);
/* User reads since then. */
unsigned int sim_reads(void);
void sim_end(struct counts *counts);

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

/* What a text says that the walk of it gives: how many callers, the first of them. */
struct gives {
	bool		known;
	unsigned int	nr;
	unsigned int	nr_first;
	struct {
		u8	tag;
		u64	val;
	} first[16];
};

/* input.c */
void input_load(const struct record *records, size_t nr);
unsigned long input_value(unsigned int tag, u64 val);
void input_print(FILE *file, const struct record *records, size_t nr);
int input_parse(FILE *file, unsigned int *line, struct record *records, struct gives *gives);
struct record input_random(void);

#endif /* _UNWIND_FUZZ_FUZZ_H */
