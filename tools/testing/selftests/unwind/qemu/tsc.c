// SPDX-License-Identifier: GPL-2.0
/*
 * How fast is the TSC of this machine? Prints that in kHz.
 *
 * A guest without KVM has the host's TSC, and timers that come when the host has time for
 * them. So what the guest measures on a busy host may be a tenth of what is true, and its
 * clock then runs ten times too fast.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

struct moment {
	uint64_t	tsc;
	int64_t		ns;
};

/* Both at once: of many attempts, that which took the least time. */
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
