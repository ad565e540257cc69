/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the fuzzers share: random numbers that a seed repeats, how long to run.
 *
 * UNWIND_SECONDS and UNWIND_SEED in the environment override the default of 60
 * seconds and a seed from the kernel. The seed repeats what the fuzzer does, not how
 * it interleaves with the tasks that are sampled.
 */
#ifndef _UNWIND_RANDOM_H
#define _UNWIND_RANDOM_H

#include <linux/types.h>
#include <stdbool.h>

/* Read the environment, start the clock; says what it took. */
void fuzz_start(void);

/* Is the time over? */
bool fuzz_over(void);

/* A stream of random numbers of its own for another process. */
void fuzz_reseed(__u64 stream);

__u64 rnd(void);

/* Below @n, which is not 0. */
unsigned int rnd_below(unsigned int n);

/* True one time in @n. */
bool one_in(unsigned int n);

/* A number of a random length in bits, as its edges are the interesting ones. */
__u64 rnd_wide(void);

#endif /* _UNWIND_RANDOM_H */
