/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Common code of the fuzzers: random numbers that a seed repeats, and the time to
 * run.
 *
 * UNWIND_SECONDS and UNWIND_SEED in the environment override the default of 60
 * seconds and a seed from the kernel. The seed repeats what the fuzzer does, not how
 * it interleaves with the sampled tasks.
 */
#ifndef _UNWIND_RANDOM_H
#define _UNWIND_RANDOM_H

#include <linux/types.h>
#include <stdbool.h>

/* Read the environment and start the clock. Prints the seed and the time. */
void fuzz_start(void);

/* Is the time up? */
bool fuzz_over(void);

/* Start a separate stream of random numbers for another process. */
void fuzz_reseed(__u64 stream);

__u64 rnd(void);

/* A number below @n, which is not 0. */
unsigned int rnd_below(unsigned int n);

/* True one time in @n. */
bool one_in(unsigned int n);

/* A number with a random number of bits, because edges are the interesting values. */
__u64 rnd_wide(void);

#endif /* _UNWIND_RANDOM_H */
