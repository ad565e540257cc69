/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Records of deferred user state, of events that all ask for the same registers.
 */
#ifndef _UNWIND_STATE_RECORD_H
#define _UNWIND_STATE_RECORD_H

#include <asm/perf_regs.h>
#include <linux/types.h>
#include <stdbool.h>

#include "perf_ring.h"

/* What defer_state() asks for. */
#define STATE_BIT(reg)	(1ULL << (PERF_REG_X86_##reg))
#define STATE_REGS	(STATE_BIT(BP) | STATE_BIT(SP) | STATE_BIT(IP) | STATE_BIT(R15))
#define STATE_NR_REGS	4
#define STATE_STACK	2048

/* A record, taken apart. */
struct state {
	__u64		cookie, ip, sp, abi;
	__u64		bp, reg_sp, reg_ip, r15;
	__u64		size, dyn_size;
	const __u64	*stack;
	bool		changed;
	__u32		tid;
	/* Bytes that are none of all this: 0. */
	long		rest;
};

void parse_state(const union record *record, struct state *state);

/* The part of a sample behind the callchain: 2 words, when it is deferred. */
const __u64 *user_part(const union record *record);

/* Let an event ask for registers and stack, later, and for no deferred callchain. */
void defer_state(struct perf_event_attr *attr);

/* The same of a tracepoint, as of tracepoint_attr(), with no user callchain at all. */
struct perf_event_attr state_attr(const char *event);

#endif /* _UNWIND_STATE_RECORD_H */
