// SPDX-License-Identifier: GPL-2.0
/*
 * The user registers of a sample.
 *
 * Contexts: any that a sample is taken in, NMI included, with preemption disabled.
 *
 * Invariant: perf_sample_data::regs_user is set together with the flag
 * PERF_SAMPLE_FETCHED_REGS_USER. All users of a sample's user registers (the sample
 * itself, a copy of the stack, a callchain, a deferred request) get the same ones, or
 * all of them get none. PEBS is the exception: registers that go into the sample, and the
 * copy of the stack, are those of the sampled instruction.
 */
#include <linux/bitops.h>
#include <linux/perf_event.h>
#include <linux/perf_regs.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/unwind_deferred.h>
#include <linux/unwind_stats.h>

static_assert(PERF_SAMPLE_FETCHED_REGS_USER >= PERF_SAMPLE_MAX);

static __always_inline void
perf_get_user_regs(struct perf_regs *regs_user, struct pt_regs *regs)
{
	/* Kernel threads have no user registers, and those of user workers mean nothing. */
	if (!is_user_task(current))
		goto none;

	unwind_count(UNWIND_STAT_REGS_FETCHED);
	if (!unwind_regs_changing()) {
		perf_get_regs_user(regs_user, regs);
		if (regs_user->regs)
			return;
	}
	unwind_count(UNWIND_STAT_REGS_NONE);
none:
	regs_user->abi = PERF_SAMPLE_REGS_ABI_NONE;
	regs_user->regs = NULL;
}

/**
 * perf_user_regs - get the user registers below an interruption
 * @regs:	registers of the interruption
 *
 * For callers without a perf_sample_data.
 *
 * Context: any, NMI included.
 * Return: @regs if these are user registers; else the registers that current saved at
 * kernel entry, or NULL if there are none or they are incomplete.
 */
struct pt_regs *perf_user_regs(struct pt_regs *regs)
{
	struct perf_regs regs_user;

	if (user_mode(regs))
		return regs;

	perf_get_user_regs(&regs_user, regs);
	return regs_user.regs;
}

/**
 * __perf_fetch_regs_user - find the user registers of a sample
 * @data:	the sample; sets &perf_sample_data.regs_user, which later calls of
 *		perf_fetch_regs_user() for the same sample use
 * @regs:	registers of the sample
 *
 * Context: any, NMI included.
 */
void __perf_fetch_regs_user(struct perf_sample_data *data, struct pt_regs *regs)
{
	struct perf_regs *regs_user = &data->regs_user;

	if (user_mode(regs)) {
		regs_user->abi = perf_reg_abi(current);
		regs_user->regs = regs;
	} else {
		perf_get_user_regs(regs_user, regs);
	}
	data->sample_flags |= PERF_SAMPLE_FETCHED_REGS_USER;
}

/**
 * perf_fetch_record_regs - find the user registers of a sample that a PMU recorded
 * @data:	the sample
 * @event:	the event that samples
 * @iregs:	registers of the interrupt that reads the record
 * @record:	registers of the record, or NULL if PERF_SAMPLE_REGS_USER is sampled and
 *		can name registers that the record lacks
 *
 * For callers that pass perf_prepare_sample() other registers than @iregs, not all of
 * which belong together.
 *
 * Context: any, NMI included.
 */
void perf_fetch_record_regs(struct perf_sample_data *data, struct perf_event *event,
			    struct pt_regs *iregs, struct pt_regs *record)
{
	u64 sample_type = event->attr.sample_type;

	if (record && sample_type & PERF_SAMPLE_REGS_USER && user_mode(record))
		__perf_fetch_regs_user(data, record);
	else if (sample_type & (PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER))
		perf_fetch_regs_user(data, iregs);
}

/* Append the user part, which was already walked in this kernel entry. */
static void perf_callchain_walked(struct perf_callchain_entry *entry,
				  const struct unwind_stacktrace *trace, u32 max_stack)
{
	/* Limit the whole chain to max_stack entries, as in a walk in place. */
	unsigned int at = entry->nr;
	unsigned int nr = min(trace->nr, max_stack - min(at, max_stack));

	for (unsigned int i = 0; i < nr; i++)
		entry->ip[at + i] = trace->entries[i];
	entry->nr = at + nr;
}

/**
 * get_perf_callchain - take a callchain without a perf_sample_data
 * @regs:	registers to start from
 * @kernel:	include the kernel part
 * @user:	include the user part
 * @max_stack:	frames at most
 * @crosstask:	the chain is of another task, whose user stack is not accessible
 * @add_mark:	include PERF_CONTEXT_KERNEL and PERF_CONTEXT_USER
 *
 * If the user stack of this kernel entry was already walked in a context that may fault,
 * that trace becomes the user part.
 *
 * Context: any, NMI included, with preemption disabled.
 * Return: the chain, to be used before preemption is enabled, or NULL.
 */
struct perf_callchain_entry *
get_perf_callchain(struct pt_regs *regs, bool kernel, bool user,
		   u32 max_stack, bool crosstask, bool add_mark)
{
	struct pt_regs *user_regs = user && !crosstask ? perf_user_regs(regs) : NULL;
	struct perf_callchain_entry *entry;
	struct unwind_stacktrace trace;

	if (crosstask && user && !kernel)
		return NULL;
	/* The walked trace has no context markers: callers that need them walk in place. */
	if (add_mark || !user_regs || user_regs != task_pt_regs(current) ||
	    !unwind_user_walked(&trace))
		return __get_perf_callchain(regs, kernel, user_regs, max_stack, crosstask,
					    add_mark);

	entry = __get_perf_callchain(regs, kernel, NULL, max_stack, false, false);
	if (entry)
		perf_callchain_walked(entry, &trace, max_stack);
	return entry;
}

/* Batch size of perf_output_sample_regs(). Small, because NMIs have little stack. */
#define PERF_OUTPUT_REGS	8

/**
 * perf_output_sample_regs - write registers into the buffer, lowest number first
 * @handle:	handle of the record, which has room for them
 * @regs:	the registers
 * @mask:	bit mask of the registers to write
 *
 * Context: any, NMI included.
 */
void perf_output_sample_regs(struct perf_output_handle *handle,
			     struct pt_regs *regs, u64 mask)
{
	u64 values[PERF_OUTPUT_REGS];
	unsigned int nr = 0;

	for (; mask; mask &= mask - 1) {
		values[nr++] = perf_reg_value(regs, __ffs64(mask));
		if (nr == PERF_OUTPUT_REGS) {
			perf_output_copy(handle, values, sizeof(values));
			nr = 0;
		}
	}
	if (nr)
		perf_output_copy(handle, values, nr * sizeof(values[0]));
}
