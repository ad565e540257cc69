/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A task that enters the kernel with random registers, stacks, code, signal frames and
 * segments.
 */
#ifndef _UNWIND_FUZZ_CHILD_H
#define _UNWIND_FUZZ_CHILD_H

#define FUZZ_KINDS	9

/**
 * struct fuzz_shared - the task's progress, in shared memory
 * @round:	current round of the task
 * @kinds:	number of kernel entries of each kind, over all tasks
 */
struct fuzz_shared {
	unsigned int	round;
	unsigned int	kinds[FUZZ_KINDS];
};

/* The names of the kinds. */
extern const char * const fuzz_kinds[FUZZ_KINDS];

/* Run as task number @nr, which stops itself before it starts; does not return. */
void fuzz_child(struct fuzz_shared *with, unsigned int nr);

#endif /* _UNWIND_FUZZ_CHILD_H */
