/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_USER_STATE_DEFERRED_H
#define __PERF_USER_STATE_DEFERRED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <linux/types.h>
#include <perf/event.h>

#include "sample.h"

struct evsel;

/**
 * struct user_state - a parsed PERF_RECORD_USER_STATE_DEFERRED
 * @ip: user instruction pointer at the kernel entry
 * @sp: user stack pointer at the kernel entry
 * @abi: ABI of @regs, 0 if there are none
 * @mask: mask of the registers in @regs
 * @regs: the registers, in the record
 * @size: number of valid bytes in @stack
 * @stack: the stack from @sp on, in the record
 * @changed: user mode resumed elsewhere
 */
struct user_state {
	__u64		ip;
	__u64		sp;
	__u64		abi;
	u64		mask;
	u64		*regs;
	__u64		size;
	char		*stack;
	bool		changed;
};

int perf_event__check_user_state(const union perf_event *event, const struct evsel *evsel);
void perf_event__parse_user_state(const union perf_event *event, u64 mask,
				  struct user_state *state);
size_t perf_event__fprintf_user_state(const union perf_event *event, u64 mask, FILE *fp);
u64 evsel__user_state_mask(const struct evsel *evsel);
bool perf_sample__lacks_user_state(const struct perf_sample *sample, const struct evsel *evsel);
void perf_sample__set_user_state(struct perf_sample *sample, const struct user_state *state);
int perf_event__write_user_state(union perf_event *event, struct perf_sample *sample);

#endif /* __PERF_USER_STATE_DEFERRED_H */
