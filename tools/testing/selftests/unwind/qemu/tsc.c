// SPDX-License-Identifier: GPL-2.0
/*
 * Measure the frequency of this machine's TSC, and print it in kHz.
 *
 * A guest without KVM has the host's TSC, but its timers expire late on a busy host. A
 * frequency that the guest measures may be a tenth of the real one, and its clock then runs
 * ten times too fast.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

struct moment {
	uint64_t	tsc;
	int64_t		ns;
};

/* Read both clocks at the same time: take the fastest of many attempts. */
static struct moment now(void)
{
	uint64_t least = UINT64_MAX;
	struct moment moment = {};

	for (int i = 0; i < 1000; i++) {
		uint64_t before = __rdtsc(), took;
		struct timespec time;

		clock_gettime(CLOCK_MONOTONIC, &time);
		took = __rdtsc() - before;
		if (took >= least)
			continue;
		least = took;
		moment.tsc = before + took / 2;
		moment.ns = time.tv_sec * 1000000000LL + time.tv_nsec;
	}
	return moment;
}

int main(void)
{
	const struct timespec wait = { .tv_nsec = 20000000 };
	struct moment from = now(), to;

	nanosleep(&wait, NULL);
	to = now();
	printf("%llu\n", (unsigned long long)((to.tsc - from.tsc) * 1000000 / (to.ns - from.ns)));
	return 0;
}
