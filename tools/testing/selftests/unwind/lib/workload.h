/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Make system calls from the innermost of a known number of callers.
 *
 * The functions are assembly with frame pointers, and the outermost one is called
 * with a zero frame pointer. The correct trace is therefore known: the address
 * after the system call instruction, @depth times the address after the recursive
 * call, and the address after the call in the outermost function.
 */
#ifndef _UNWIND_WORKLOAD_H
#define _UNWIND_WORKLOAD_H

#include <linux/types.h>
#include <stdbool.h>
#include <sys/types.h>
#include <sys/user.h>

/* End an assembly function that began by pushing these registers, %rbp first. */
#define RETURN_TO_C \
	"	pop	%r15\n" \
	"	pop	%r14\n" \
	"	pop	%r13\n" \
	"	pop	%r12\n" \
	"	pop	%rbx\n" \
	"	pop	%rbp\n" \
	"	ret\n"

/* The kernel's struct sigaction: the C library sets its own restorer. */
struct raw_sigaction {
	const char	*handler;
	unsigned long	flags;
	const char	*restorer;
	unsigned long	mask;
};

#define RAW_SA_RESTORER		0x04000000

/* Entries of a complete trace. */
#define WORKLOAD_NR(depth)	((depth) + 2)

/* The kernel's return value, negative errno included. */
long workload_call(unsigned int depth, const long args[7]);

#define workload_syscall(depth, nr, ...)				\
	workload_call(depth, (const long[7]){ (nr), ##__VA_ARGS__ })

/* As above, on another stack that ends at @top, which is 16 byte aligned. */
long workload_call_on(void *top, unsigned long depth, const long args[7]);

/*
 * A system call with any frame pointer, on the stack that ends at @top, or on the
 * current one if @top is NULL. The trace starts with workload_is_leaf_fp() and
 * continues with whatever @fp points to.
 */
long workload_call_fp(void *top, unsigned long fp, const long args[7]);

/* The index of the first wrong entry, or -1 if the trace is correct. */
int workload_check(const __u64 *ips, __u64 nr, unsigned int depth);

/* Like workload_check(), for the first @nr entries of a longer trace. */
int workload_check_head(const __u64 *ips, __u64 nr, unsigned int depth);

/* Is @ip the address after the system call of workload_call(), or of workload_call_fp()? */
bool workload_is_leaf(__u64 ip);
bool workload_is_leaf_fp(__u64 ip);

/*
 * Let a traced child run to the next entry to or exit from a system call. Returns
 * 0; the child's status, if it ended before; or -1.
 */
int stop_at_syscall(pid_t child, long nr, struct user_regs_struct *regs);

/* Run on this CPU only. */
int pin_to(int cpu);

/* Store the first @nr CPUs that this task may run on; return how many were stored. */
int first_cpus(int *cpu, int nr);

#endif /* _UNWIND_WORKLOAD_H */
