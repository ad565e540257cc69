/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Samples with user registers: what is in them. And whether it is right, for a program
 * that loads the same number into the registers that a kernel entry preserves, another
 * one before each, while NMIs of another CPU hit whatever the kernel does then, its
 * entry code too. A register that is not of this entry shows.
 */
#ifndef _UNWIND_SHOTS_H
#define _UNWIND_SHOTS_H

#include <asm/perf_regs.h>
#include <linux/types.h>
#include <time.h>
#include <unistd.h>

#include "perf_ring.h"

#define BIT_OF(reg)	(1ULL << (PERF_REG_X86_##reg))
/* All that 64-bit tasks have: DS, ES, FS and GS are for 32-bit ones only. */
#define ALL_REGS	0xff0fffULL
#define USER_END	0x7ffffffff000UL
#define MAX_KEPT	6
#define MAX_HERE	4

/* The part of a sample behind the callchain. */
struct user_part {
	__u64		abi, intr_abi;
	__u64		regs[64], intr[64];
	__u64		size, dyn_size;
	const char	*stack;
	/* Bytes of the sample that are none of all this: 0. */
	long		rest;
};

/* @record is a sample of RING_SAMPLE_TYPE and any of what struct user_part has. */
void parse_user_part(const union record *record, const struct perf_event_attr *attr,
		     struct user_part *part);

/* The program, and its NMIs by what they found. */
struct shots {
	/* Registers of the program that have the number, which is above this. */
	int		kept[MAX_KEPT];
	unsigned int	nr_kept;
	__u64		number;
	unsigned int	number_shift;
	__u64		abi;
	/*
	 * Where user mode is left; elsewhere in the program they may have anything. The
	 * stack pointer is the same each time, that of the first sample with registers.
	 */
	struct {
		__u64	begin, end, sp;
	} here[MAX_HERE];
	/* It is not: each image has another stack. */
	bool		any_sp;
	/*
	 * Go on until there is one without registers elsewhere than in entry code, and
	 * one in the gap between SYSCALL and the kernel's stack.
	 */
	bool		until_none, until_gap;
	struct perf_event_attr attr;
	__u64		entry_begin, entry_end;

	unsigned int	samples, kernel, entry, gap, none, none_elsewhere, right;
	unsigned int	minus_one, stale, torn, other_abi;
};

/* Needs CONFIG_PERF_TEST_PMU and two CPUs. */
static inline bool shots_possible(void)
{
	return pmu_type("perf_test") >= 0 && sysconf(_SC_NPROCESSORS_ONLN) > 1;
}

/* For a 64-bit program, and for a 32-bit one. */
void shots_init(struct shots *shots);
void shots_init_32(struct shots *shots);

/* Add an address, or some, where the program enters the kernel. */
void shots_here(struct shots *shots, __u64 begin, __u64 size);

/* 0 or -errno; the ring is enabled. */
int shots_open(struct shots *shots, struct ring *ring, pid_t pid);

/*
 * The same, with shots at each execution or store instead, HW_BREAKPOINT_X or _W, of an
 * address of the kernel: for code, or for what is on the kernel stack of the task. From
 * now on these are what @shots has.
 */
int shots_open_at(struct shots *shots, struct ring *ring, pid_t pid, int type, __u64 addr);

/* At each call of a function of the kernel; -ENOENT if it cannot be found. */
int shots_open_function(struct shots *shots, struct ring *ring, pid_t pid, const char *name);

/* What both ways of signals store: where it is among the saved user registers. */
#define SLOTS		3
extern const size_t shots_slots[SLOTS];

/* The next one of these that is no part of an entry to the kernel. */
bool shots_next_at(struct shots *shots, struct ring *ring, union record *record,
		   struct user_part *part);

/* Since @begin, is that enough? Not by time alone: an emulator may be slow. */
bool shots_enough(const struct shots *shots, time_t begin);

/* Judge what is in the ring. */
void shots_read(struct shots *shots, struct ring *ring, union record *record);

#endif /* _UNWIND_SHOTS_H */
