/* SPDX-License-Identifier: GPL-2.0 */
/*
 * System calls from the innermost of a known number of callers.
 *
 * The functions are assembly with frame pointers, and the outermost one is called
 * with a zero frame pointer. So the whole right answer is known: the address after
 * the system call instruction, @depth times the address after the recursive call,
 * and the address after the call in the outermost function.
 */
#ifndef _UNWIND_WORKLOAD_H
#define _UNWIND_WORKLOAD_H

#include <linux/types.h>
#include <stdbool.h>
#include <sys/types.h>
#include <sys/user.h>

/* The end of a function in assembly that began with a push of each, %rbp first. */
#define RETURN_TO_C \
	"	pop	%r15\n" \
	"	pop	%r14\n" \
	"	pop	%r13\n" \
	"	pop	%r12\n" \
	"	pop	%rbx\n" \
	"	pop	%rbp\n" \
	"	ret\n"

/* As the kernel has it: the C library's names the restorer of the library. */
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
 * current one when that is 0. The trace starts with workload_is_leaf_fp() and goes
 * on with whatever @fp points to.
 */
long workload_call_fp(void *top, unsigned long fp, const long args[7]);

/* The index of the first wrong entry, or -1 when the trace is the right one. */
int workload_check(const __u64 *ips, __u64 nr, unsigned int depth);

/* The same for the first @nr entries of a longer trace. */
int workload_check_head(const __u64 *ips, __u64 nr, unsigned int depth);

/* Is @ip the address after the system call, of workload_call_fp() for the second? */
bool workload_is_leaf(__u64 ip);
bool workload_is_leaf_fp(__u64 ip);

/*
 * Let a traced child run to the entry, or from there to the exit, of a system call.
 * Returns 0; the child's status, when it ended before; or -1.
 */
int stop_at_syscall(pid_t child, long nr, struct user_regs_struct *regs);

/* Run on this CPU only. */
int pin_to(int cpu);

/* The first @nr CPUs that this task may run on; returns how many there are of these. */
int first_cpus(int *cpu, int nr);

#endif /* _UNWIND_WORKLOAD_H */
