/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Parse samples with user registers, and judge the registers. The sampled program
 * loads one number into all registers that a kernel entry preserves, and another
 * number before each entry. NMIs of another CPU hit whatever the kernel does then,
 * including its entry code. A register of another entry is noticed.
 */
#ifndef _UNWIND_SHOTS_H
#define _UNWIND_SHOTS_H

#include <asm/perf_regs.h>
#include <linux/types.h>
#include <time.h>
#include <unistd.h>

#include "perf_ring.h"

#define BIT_OF(reg)	(1ULL << (PERF_REG_X86_##reg))
/* All registers of 64-bit tasks: DS, ES, FS and GS are for 32-bit tasks only. */
#define ALL_REGS	0xff0fffULL
#define USER_END	0x7ffffffff000UL
#define MAX_KEPT	6
#define MAX_HERE	4

/* The part of a sample after the callchain. */
struct user_part {
	__u64		abi, intr_abi;
	__u64		regs[64], intr[64];
	__u64		size, dyn_size;
	const char	*stack;
	/* Bytes of the sample that are left over: 0 if it is correct. */
	long		rest;
};

/* @record is a sample of RING_SAMPLE_TYPE and any fields of struct user_part. */
void parse_user_part(const union record *record, const struct perf_event_attr *attr,
		     struct user_part *part);

/* The program, and its NMIs, counted by their result. */
struct shots {
	/* Registers of the program that hold the number, which is above @number. */
	int		kept[MAX_KEPT];
	unsigned int	nr_kept;
	__u64		number;
	unsigned int	number_shift;
	__u64		abi;
	/*
	 * Addresses where the program leaves user mode. Elsewhere its registers may
	 * hold anything. The stack pointer is the same each time, that of the first
	 * sample with registers.
	 */
	struct {
		__u64	begin, end, sp;
	} here[MAX_HERE];
	/* The stack pointer differs: each image has another stack. */
	bool		any_sp;
	/*
	 * Continue until a sample outside of entry code has no registers, and until
	 * one is in the gap between SYSCALL and the switch to the kernel's stack.
	 */
	bool		until_none, until_gap;
	struct perf_event_attr attr;

	unsigned int	samples, kernel, entry, gap, none, none_elsewhere, right;
	unsigned int	minus_one, stale, torn, other_abi;
};

/* Needs CONFIG_PERF_TEST_PMU and two CPUs. */
static inline bool shots_possible(void)
{
	return pmu_type("perf_test") >= 0 && sysconf(_SC_NPROCESSORS_ONLN) > 1;
}

/* For a 64-bit program, and for a 32-bit program. */
void shots_init(struct shots *shots);
void shots_init_32(struct shots *shots);

/* Add one or more addresses where the program enters the kernel. */
void shots_here(struct shots *shots, __u64 begin, __u64 size);

/* 0 or -errno; the ring is enabled. */
int shots_open(struct shots *shots, struct ring *ring, pid_t pid);

/*
 * Like shots_open(), with a sample at each execution of or store to a kernel address
 * instead, HW_BREAKPOINT_X or _W: code, or a slot on the kernel stack of the task.
 * Changes the attr of @shots.
 */
int shots_open_at(struct shots *shots, struct ring *ring, pid_t pid, int type, __u64 addr);

/* Sample each call of a kernel function; -ENOENT if the function is not found. */
int shots_open_function(struct shots *shots, struct ring *ring, pid_t pid, const char *name);

/* Registers that both signal delivery and sigreturn store: offsets in the saved registers. */
#define SLOTS		3
extern const size_t shots_slots[SLOTS];

/* The next of these samples that is not in entry code. */
bool shots_next_at(struct shots *shots, struct ring *ring, union record *record,
		   struct user_part *part);

/* Have the shots run long enough since @begin? Not by time alone: an emulator may be slow. */
bool shots_enough(const struct shots *shots, time_t begin);

/* Judge the samples in the ring. */
void shots_read(struct shots *shots, struct ring *ring, union record *record);

#endif /* _UNWIND_SHOTS_H */
