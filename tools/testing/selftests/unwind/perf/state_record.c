// SPDX-License-Identifier: GPL-2.0
/*
 * Records of deferred user state, of events that all request the same registers.
 *
 * The registers are those of defer_state(), or none. The stack may have any size.
 */
#include <assert.h>
#include <string.h>

#include "state_record.h"

/* The numbers that programs were built with. */
static_assert(PERF_RECORD_USER_STATE_DEFERRED == 63, "record type");
static_assert(PERF_RECORD_MISC_USER_STATE_CHANGED == 1 << 13, "flag");

void parse_state(const union record *record, struct state *state)
{
	const __u64 *at = record->words + 1;

	memset(state, 0, sizeof(*state));
	state->changed = record->header.misc & PERF_RECORD_MISC_USER_STATE_CHANGED;
	state->cookie = *at++;
	state->ip = *at++;
	state->sp = *at++;
	state->abi = *at++;
	if (state->abi) {
		state->bp = *at++;
		state->reg_sp = *at++;
		state->reg_ip = *at++;
		state->r15 = *at++;
	}
	state->size = *at++;
	if (state->size) {
		state->stack = at;
		at += state->size / 8;
		state->dyn_size = *at++;
	}
	/* The sample_id of RING_SAMPLE_TYPE: pid and tid, time, CPU. */
	state->tid = *at >> 32;
	state->rest = (const char *)record + record->header.size - (const char *)(at + 3);
}

const __u64 *user_part(const union record *record)
{
	struct sample sample;

	parse_sample(record, &sample);
	return sample.ips + sample.nr;
}

void defer_state(struct perf_event_attr *attr)
{
	attr->defer_callchain = 0;
	attr->defer_user_state = 1;
	attr->sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
	attr->sample_regs_user = STATE_REGS;
	attr->sample_stack_user = STATE_STACK;
}

struct perf_event_attr state_attr(const char *event)
{
	struct perf_event_attr attr = tracepoint_attr(event);

	defer_state(&attr);
	attr.exclude_callchain_user = 1;
	return attr;
}
