// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user state: a record of its own holds the registers and stack of a kernel
 * entry, for all samples that request them with attr.defer_user_state.
 *
 * Samples and records are merged like callchains, in callchain-deferred.c: the cookie is
 * at the end of the sample's callchain. This file handles the format of the record, and
 * copies its contents to a sample.
 *
 * A file may be damaged or crafted to do damage: no field of a record is used before
 * perf_event__check_user_state() has checked that the record is complete.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <linux/bitops.h>
#include <linux/kernel.h>

#include "debug.h"
#include "event.h"
#include "evsel.h"
#include "user-state-deferred.h"

/* Registers in the records of an event. */
u64 evsel__user_state_mask(const struct evsel *evsel)
{
	const struct perf_event_attr *attr = &evsel->core.attr;

	return attr->sample_type & PERF_SAMPLE_REGS_USER ? attr->sample_regs_user : 0;
}

static int broken(const char *what)
{
	static bool told;

	if (!told)
		pr_err("Broken deferred user state record: %s\n", what);
	told = true;
	return -EINVAL;
}

/**
 * perf_event__check_user_state - check the lengths in a record
 * @event: PERF_RECORD_USER_STATE_DEFERRED; at least its header is readable
 * @evsel: the event that it was written for
 *
 * Return: 0 or -EINVAL after a message.
 */
int perf_event__check_user_state(const union perf_event *event, const struct evsel *evsel)
{
	const struct perf_record_user_state_deferred *rec = &event->user_state_deferred;
	size_t id_size = evsel->core.attr.sample_id_all ? evsel__id_hdr_size(evsel) : 0;
	size_t size = event->header.size, words, regs, stack;

	if (size % sizeof(u64) || size < sizeof(*rec) + sizeof(u64) + id_size)
		return broken("it is too short");

	words = (size - sizeof(*rec) - id_size) / sizeof(u64);
	regs = rec->abi ? hweight64(evsel__user_state_mask(evsel)) : 0;
	if (words < regs + 1)
		return broken("registers are missing");

	stack = rec->array[regs];
	words -= regs + 1;
	if (stack && (stack % sizeof(u64) || words < 1 || stack / sizeof(u64) > words - 1))
		return broken("the stack does not fit");
	if (stack && rec->array[regs + 1 + stack / sizeof(u64)] > stack)
		return broken("there is more of the stack than it says");
	return 0;
}

/**
 * perf_event__parse_user_state - parse a checked record
 * @event: PERF_RECORD_USER_STATE_DEFERRED
 * @mask: mask of its registers
 * @state: the result
 */
void perf_event__parse_user_state(const union perf_event *event, u64 mask,
				  struct user_state *state)
{
	const struct perf_record_user_state_deferred *rec = &event->user_state_deferred;
	const __u64 *at = rec->array;
	size_t size;

	memset(state, 0, sizeof(*state));
	state->ip = rec->ip;
	state->sp = rec->sp;
	state->changed = rec->header.misc & PERF_RECORD_MISC_USER_STATE_CHANGED;
	state->abi = rec->abi;
	if (rec->abi) {
		state->mask = mask;
		state->regs = (u64 *)at;
		at += hweight64(mask);
	}

	size = *at++;
	if (size) {
		state->stack = (char *)at;
		state->size = at[size / sizeof(u64)];
	}
}

size_t perf_event__fprintf_user_state(const union perf_event *event, u64 mask, FILE *fp)
{
	struct user_state state;

	perf_event__parse_user_state(event, mask, &state);
	return fprintf(fp, "(0x%x): cookie: %#" PRI_lx64 " ip: %#" PRI_lx64 " sp: %#" PRI_lx64
		       " abi: %" PRI_lu64 " stack: %" PRI_lu64 " bytes%s\n",
		       event->header.misc, event->user_state_deferred.cookie, state.ip, state.sp,
		       state.abi, state.size, state.changed ? ", changed since" : "");
}

/* Does a sample of an event that defers registers and stack have neither of them? */
bool perf_sample__lacks_user_state(const struct perf_sample *sample, const struct evsel *evsel)
{
	return evsel && (evsel->core.attr.defer_user_state || evsel->user_state_deferred) &&
	       !sample->user_regs.abi && !sample->user_stack.size;
}

void perf_sample__set_user_state(struct perf_sample *sample, const struct user_state *state)
{
	sample->user_regs.abi = state->abi;
	sample->user_regs.mask = state->mask;
	sample->user_regs.regs = state->regs;
	sample->user_regs.cache_mask = 0;
	sample->user_stack.data = state->stack;
	sample->user_stack.size = state->size;
}

/**
 * perf_event__write_user_state - insert user registers and stack into a sample
 * @event: the sample, which has neither, in a buffer of PERF_SAMPLE_MAX_SIZE
 * @sample: parsed from it, with both set
 *
 * The stack is cut to the size that fits. Pointers in @sample stay valid, except those
 * to data after the stack.
 *
 * Return: 0, or -EINVAL if the registers do not fit or the sample has no place for
 * registers and stack. The sample is not changed then.
 */
int perf_event__write_user_state(union perf_event *event, struct perf_sample *sample)
{
	const struct regs_dump *regs = &sample->user_regs;
	size_t max = round_down(PERF_SAMPLE_MAX_SIZE - 1, sizeof(u64));
	size_t nr = regs->abi ? hweight64(regs->mask) : 0;
	size_t at = sample->user_stack.offset, size, after, more;
	u64 *pos;

	/* Offset of the stack size, which follows the ABI of the missing registers. */
	if (at < sizeof(event->header) + sizeof(u64) || at + sizeof(u64) > event->header.size)
		return -EINVAL;

	after = event->header.size - at - sizeof(u64);
	more = nr * sizeof(u64) + sizeof(u64);
	if (event->header.size + more > max)
		return -EINVAL;

	size = round_down(min_t(size_t, sample->user_stack.size,
				max - event->header.size - more), sizeof(u64));
	if (!size)
		more -= sizeof(u64);

	memmove((void *)event + at + sizeof(u64) + more + size, (void *)event + at + sizeof(u64),
		after);
	if (sample->aux_sample.size)
		sample->aux_sample.data += more + size;

	pos = (void *)event + at - sizeof(u64);
	*pos++ = regs->abi;
	memcpy(pos, regs->regs, nr * sizeof(u64));
	pos += nr;
	*pos++ = size;
	if (size) {
		memcpy(pos, sample->user_stack.data, size);
		pos[size / sizeof(u64)] = size;
	}
	event->header.size += more + size;
	return 0;
}
