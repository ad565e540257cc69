/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Records of deferred user state, of events that all request the same registers.
 */
#ifndef _UNWIND_STATE_RECORD_H
#define _UNWIND_STATE_RECORD_H

#include <asm/perf_regs.h>
#include <linux/types.h>
#include <stdbool.h>

#include "perf_ring.h"

/* The registers and the stack size that defer_state() requests. */
#define STATE_BIT(reg)	(1ULL << (PERF_REG_X86_##reg))
#define STATE_REGS	(STATE_BIT(BP) | STATE_BIT(SP) | STATE_BIT(IP) | STATE_BIT(R15))
#define STATE_NR_REGS	4
#define STATE_STACK	2048

/* A parsed record. */
struct state {
	__u64		cookie, ip, sp, abi;
	__u64		bp, reg_sp, reg_ip, r15;
	__u64		size, dyn_size;
	const __u64	*stack;
	bool		changed;
	__u32		tid;
	/* Bytes of the record that are left over: 0 if it is correct. */
	long		rest;
};

void parse_state(const union record *record, struct state *state);

/* The part of a sample after the callchain: 2 words if it is deferred. */
const __u64 *user_part(const union record *record);

/* Make an event request deferred registers and stack, and no deferred callchain. */
void defer_state(struct perf_event_attr *attr);

/* Like tracepoint_attr(), with deferred user state and without any user callchain. */
struct perf_event_attr state_attr(const char *event);

#endif /* _UNWIND_STATE_RECORD_H */
