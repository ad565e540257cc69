// SPDX-License-Identifier: GPL-2.0
/*
 * Common code of the fuzzers: random numbers that a seed repeats, and the time
 * to run.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "random.h"
#include "../../kselftest.h"

static __u64 fuzz_seed, fuzz_state;
static time_t fuzz_end;

static time_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

void fuzz_start(void)
{
	const char *seconds = getenv("UNWIND_SECONDS"), *seed = getenv("UNWIND_SEED");
	unsigned int duration = seconds && *seconds ? atoi(seconds) : 60;

	if (seed && *seed)
		fuzz_seed = strtoull(seed, NULL, 0);
	else if (getrandom(&fuzz_seed, sizeof(fuzz_seed), 0) != sizeof(fuzz_seed))
		fuzz_seed = time(NULL);
	fuzz_state = fuzz_seed;
	fuzz_end = now() + duration;
	ksft_print_msg("UNWIND_SEED=%llu UNWIND_SECONDS=%u\n", fuzz_seed, duration);
}

bool fuzz_over(void)
{
	return now() >= fuzz_end;
}

void fuzz_reseed(__u64 stream)
{
	fuzz_state = fuzz_seed ^ (stream + 1) * 0xd1342543de82ef95;
	rnd();
}

/* The finalizer of a 64-bit hash, applied to a counter. */
__u64 rnd(void)
{
	__u64 x = fuzz_state += 0x9e3779b97f4a7c15;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

unsigned int rnd_below(unsigned int n)
{
	return rnd() % n;
}

bool one_in(unsigned int n)
{
	return !rnd_below(n);
}

__u64 rnd_wide(void)
{
	__u64 x = rnd() >> rnd_below(64);

	return one_in(4) ? x ^ -1ULL : x;
}
