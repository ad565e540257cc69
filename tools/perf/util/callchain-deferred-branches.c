// SPDX-License-Identifier: GPL-2.0
/*
 * Callers from a branch stack, where the walk of the user stack ended early.
 *
 * In call stack mode, the branches of a sample are the calls that have not returned, the
 * latest first: a branch goes from a call to the function that it calls. They do not
 * depend on what the code does with its frame pointer, but there are only as many as the
 * CPU has registers. So the walked chain comes first. Where the kernel says that it ended
 * early, the calls before that of its last frame follow, after a mark.
 *
 * Both are of the same moment: the user stack of a task does not change in the kernel, where
 * the walk is done.
 */
#include <linux/kernel.h>

#include "branch.h"
#include "callchain-deferred.h"
#include "sample.h"

/* The longest instruction. */
#define MAX_CALL	15

/* Is the branch the call that returns to @ra? */
static bool returns_to(const struct branch_entry *entry, u64 ra)
{
	return ra - entry->from - 1 < MAX_CALL;
}

/*
 * Find the call of the last frame of a chain, innermost first. If all of its calls are in the
 * branch stack and nothing else is, that is clear, even in a recursion. Otherwise, as where
 * a function without a frame is among them, it must be the only call with that address. It cannot
 * be later than the calls of as many frames.
 *
 * Returns its position, or -1.
 */
static ssize_t find_last_call(const struct branch_entry *entries, u64 nr, const u64 *ips,
			      u64 nr_ips)
{
	ssize_t found = -1;
	u64 i = 0;

	while (i < nr && i < nr_ips - 1 && returns_to(&entries[i], ips[i + 1]))
		i++;
	if (i == nr_ips - 1)
		return i - 1;
	for (i = nr_ips - 2; i < nr; i++) {
		if (!returns_to(&entries[i], ips[nr_ips - 1]))
			continue;
		if (found >= 0)
			return -1;
		found = i;
	}
	return found;
}

/**
 * callchain_deferred__join_branches - append callers from a sample's branch stack
 * @sample: has a branch stack in call stack mode
 * @ips: the user part of its callchain, innermost first, without marks
 * @nr_ips: number of addresses there, at least 1
 * @max: how many callers fit, apart from the mark
 *
 * Return: how many entries were appended with the mark, 0 if there are no callers.
 */
u64 callchain_deferred__join_branches(struct perf_sample *sample, u64 *ips, u64 nr_ips, u64 max)
{
	const struct branch_entry *entries = perf_sample__branch_entries(sample);
	u64 nr = sample->branch_stack->nr, joined = 0;
	ssize_t last = -1;

	/*
	 * The first address is no return address: the latest call led to its function. But the
	 * kernel enters a signal handler without a call. Then the function that it interrupts is
	 * missing; so are all, if the chain is only the handler, and its code comes first.
	 */
	if (nr_ips > 1)
		last = find_last_call(entries, nr, ips, nr_ips);
	else if (!nr || entries[0].to > ips[0])
		return 0;
	if (nr_ips > 1 && last < 0)
		return 0;

	for (u64 i = last + 1; i < nr && joined < max; i++, joined++) {
		/* A branch from the kernel, or an invalid one */
		if (!entries[i].from || (s64)entries[i].from < 0)
			break;
		ips[nr_ips + 1 + joined] = entries[i].from;
	}
	if (!joined)
		return 0;
	ips[nr_ips] = CALLCHAIN_USER_BRANCHES;
	return joined + 1;
}
