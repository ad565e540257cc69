// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user state of perf events: user registers and user stack are recorded once for
 * each kernel entry, not in each sample of it.
 *
 * A sample of an event with attr.defer_user_state requests both, in addition to what
 * callchain_deferred.c may request, and contains neither; its callchain ends in marker
 * and cookie. Before the task leaves the kernel entry, the callback writes
 * PERF_RECORD_USER_STATE_DEFERRED with the same cookie to every event that has
 * attr.defer_user_state and attr.defer_output and that callchains are delivered to as well:
 * the registers and as much of the stack as the attr of that event names.
 *
 * Contexts: as callchain_deferred.c.
 *
 * Invariant: if a sample of an event that asks for user registers and stack lacks them,
 * either it has the cookie of a granted request, or they did not exist.
 *
 * The stack is copied from user memory into the buffer with page faults disabled. The
 * core has faulted it in just before; pages that are gone again are missing at the end. A
 * CPU that the task has left gets a copy, because the user memory that is mapped there
 * belongs to another task.
 */
#include <linux/init.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/perf_event.h>
#include <linux/perf_regs.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/unwind_deferred.h>
#include <linux/unwind_stats.h>

#include "deferred_pass.h"
#include "internal.h"

static struct unwind_work perf_user_state_work = { .no_trace = true };
static bool perf_user_state_registered __ro_after_init;

/**
 * struct perf_user_state_record - fixed part of PERF_RECORD_USER_STATE_DEFERRED
 * @header:	type, misc and size
 * @cookie:	names the kernel entry
 * @ip:		user instruction pointer at the kernel entry
 * @sp:		user stack pointer at the kernel entry
 * @abi:	PERF_SAMPLE_REGS_ABI_* of the registers that follow
 */
struct perf_user_state_record {
	struct perf_event_header	header;
	u64				cookie;
	u64				ip;
	u64				sp;
	u64				abi;
};

/**
 * struct perf_user_state - what the callback delivers to each event
 * @regs:	user registers
 * @stack:	user stack
 * @copy:	copy of the stack, for a CPU that the task has left, or NULL
 * @cookie:	names the kernel entry
 * @task:	task of the kernel entry: current, except on a CPU that it has left
 * @heard:	an event got the state now or earlier
 * @pass:	bytes that may still be copied
 */
struct perf_user_state {
	struct perf_regs		regs;
	struct unwind_user_stack	stack;
	const void			*copy;
	u64				cookie;
	struct task_struct		*task;
	bool				heard;
	struct perf_deferred_pass	pass;
};

/**
 * perf_user_state_attr_check - validate attr.defer_user_state
 * @attr:	from user space
 *
 * Return: 0, -EINVAL without callchains, without a state to defer, or on a kernel without
 * support, -EOPNOTSUPP if the core had no free tracer slot.
 */
int perf_user_state_attr_check(const struct perf_event_attr *attr)
{
	const u64 state = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;

	if (!attr->defer_user_state)
		return 0;
	if (!IS_ENABLED(CONFIG_UNWIND_USER))
		return -EINVAL;
	if (!(attr->sample_type & PERF_SAMPLE_CALLCHAIN) || !(attr->sample_type & state))
		return -EINVAL;

	return perf_user_state_registered ? 0 : -EOPNOTSUPP;
}

static noinline int perf_user_state_again(const struct perf_event *event, u64 cookie)
{
	struct perf_buffer *rb = perf_deferred_buffer(event);

	return rb ? perf_deferred_again(&perf_user_state_work, &rb->deferred_user_states,
					cookie) : 1;
}

/*
 * Request the user state of a sample. If the request is granted, mark the sample and set
 * the cookie of its chain, which is also the cookie of a deferred chain. Set @third if this
 * CPU gets no record if the task leaves it.
 */
static void perf_user_state_defer(struct perf_sample_data *data, struct perf_event *event,
				  unsigned int contexts, u64 *cookie, bool *third)
{
	unsigned int size = 0;
	u64 id;
	int ret;

	if (!perf_may_defer(event, contexts))
		return;

	if (event->attr.sample_type & PERF_SAMPLE_STACK_USER)
		size = event->attr.sample_stack_user;

	ret = unwind_deferred_request_stack(&perf_user_state_work, data->regs_user.regs,
					    size, &id);
	if (ret > 0) {
		ret = perf_user_state_again(event, id);
		if (ret < 0)
			return;
	}
	if (!ret)
		*third |= !perf_deferred_note_cpu(event, unwind_user_state_cpu());
	if (ret >= 0)
		*cookie = id;
	/* In exec, no user state belongs to this kernel entry any more. */
	if (ret >= 0 || ret == -ESTALE)
		data->sample_flags |= PERF_SAMPLE_USER_STATE_DEFERRED;
}

/**
 * perf_callchain_user_state - take the callchain of a sample with deferred user state
 * @data:	the sample; marked if it must not contain user registers and stack
 * @event:	the event that samples, with attr.defer_user_state
 * @regs:	registers of the sample
 * @kernel:	the event wants the kernel part
 * @user:	the event wants the user part, and current has one
 *
 * Context: as the sample, NMI included.
 * Return: the chain, or NULL if none can be taken.
 */
struct perf_callchain_entry *
perf_callchain_user_state(struct perf_sample_data *data, struct perf_event *event,
			  struct pt_regs *regs, bool kernel, bool user)
{
	struct perf_callchain_entry *entry;
	bool third = false;
	u64 cookie = 0;

	perf_fetch_regs_user(data, regs);
	if (event->attr.defer_callchain)
		cookie = perf_callchain_defer(data, event, regs, kernel, &user, &third);
	/* A chain that had to be taken in place gets no cookie, which would link it to a record. */
	if (!user || !event->attr.defer_callchain)
		perf_user_state_defer(data, event, (kernel && !user_mode(regs)) +
				      (user && data->regs_user.regs), &cookie, &third);
	if (third)
		unwind_count(UNWIND_STAT_THIRD_CPU);

	entry = perf_callchain_with_cookie(data, event, regs, kernel, user, cookie);
	/* Without a chain, no cookie would link the sample to its record. */
	if (!entry && cookie)
		data->sample_flags &= ~PERF_SAMPLE_USER_STATE_DEFERRED;
	return entry;
}

/* Bytes of the stack that fit into a record of which @used bytes are taken. */
static u16 perf_user_state_stack_size(const struct perf_event *event,
				      const struct unwind_user_stack *stack, size_t used)
{
	unsigned int size = min(stack->size, event->attr.sample_stack_user);

	if (!(event->attr.sample_type & PERF_SAMPLE_STACK_USER))
		return 0;

	/* The last u64 is the number of bytes that were copied. */
	return round_down(min(size, U16_MAX - used - sizeof(u64)), sizeof(u64));
}

static void perf_user_state_output_stack(struct perf_output_handle *handle,
					 const struct perf_user_state *state, u64 size)
{
	if (!state->copy) {
		perf_output_sample_ustack(handle, size, size ? state->regs.regs : NULL);
		return;
	}

	perf_output_put(handle, size);
	if (size) {
		__output_copy(handle, state->copy, size);
		perf_output_put(handle, size);
	}
}

/* Runs with preemption disabled, for each event that side-band delivery reaches. */
static void perf_user_state_output(struct perf_event *event, void *data)
{
	struct perf_user_state *state = data;
	const u64 mask = event->attr.sample_type & PERF_SAMPLE_REGS_USER ?
			 event->attr.sample_regs_user : 0;
	struct perf_output_handle handle __uninitialized;
	struct perf_sample_data sample __uninitialized;
	struct perf_user_state_record record;
	struct perf_buffer *rb;
	size_t size;
	u16 stack;

	if (!event->attr.defer_output || !event->attr.defer_user_state ||
	    !perf_deferred_turn(&state->pass, event->id))
		return;

	/* Skip buffers that have the record, as perf_deferred_output() does. */
	rb = perf_deferred_buffer(event);
	if (!rb)
		return;
	state->heard = true;
	if (READ_ONCE(rb->deferred_user_states.record) == state->cookie)
		return;

	record.cookie = state->cookie;
	record.ip = state->stack.ip;
	record.sp = state->stack.sp;
	record.abi = state->regs.abi;

	size = sizeof(record) + sizeof(u64);
	if (record.abi)
		size += hweight64(mask) * sizeof(u64);
	stack = perf_user_state_stack_size(event, &state->stack, size + event->id_header_size);
	if (stack)
		size += stack + sizeof(u64);

	perf_event_header__init(&record.header, &sample, PERF_RECORD_USER_STATE_DEFERRED,
				PERF_RECORD_MISC_USER |
				(state->stack.moved ? PERF_RECORD_MISC_USER_STATE_CHANGED : 0),
				size, event);
	if (!perf_deferred_take(&state->pass, event->id, record.header.size))
		return;
	perf_deferred_sample_id(&sample, event, state->task);
	if (perf_output_begin(&handle, &sample, event, record.header.size)) {
		perf_deferred_give_back(&state->pass, record.header.size);
		return;
	}

	/*
	 * Set here for the reason given in perf_deferred_output(). Pairs with this function and
	 * perf_deferred_again().
	 */
	WRITE_ONCE(rb->deferred_user_states.record, state->cookie);
	perf_output_put(&handle, record);
	if (record.abi)
		perf_output_sample_regs(&handle, state->regs.regs, mask);
	perf_user_state_output_stack(&handle, state, stack);
	perf_event__output_id_sample(event, &handle, &sample);
	perf_output_end(&handle);
}

/* Write to the buffers of a CPU that asked and that the task has left since. */
static noinline void perf_user_state_output_cpu(struct perf_user_state *state, int cpu)
{
	/* If the copy cannot be allocated, the record has registers and no stack. */
	state->copy = unwind_deferred_copy_stack(&state->stack);
	perf_deferred_iterate_cpu(perf_user_state_output, state, &state->pass, cpu);
	kvfree(state->copy);
}

static void perf_user_state_callback(struct unwind_work *work,
				     struct unwind_stacktrace *trace, u64 cookie)
{
	struct perf_user_state state = {
		.cookie	= cookie,
		.task	= current,
		.pass	= PERF_DEFERRED_PASS,
	};
	int asked = perf_deferred_take_cpu(unwind_user_state_cpu());

	unwind_deferred_stack(&state.stack);
	if (state.stack.moved) {
		unwind_count(UNWIND_STAT_STATES_MOVED);
	} else {
		state.regs.regs = task_pt_regs(current);
		state.regs.abi = perf_reg_abi(current);
	}

	perf_records_ahead();
	if (!perf_deferred_iterate(perf_user_state_output, &state, &state.pass, asked))
		perf_user_state_output_cpu(&state, asked);

	unwind_count(state.heard ? UNWIND_STAT_STATES : UNWIND_STAT_STATES_UNHEARD);
}

static int __init perf_user_state_init(void)
{
	perf_user_state_registered = !unwind_deferred_init(&perf_user_state_work,
							   perf_user_state_callback);
	return 0;
}
core_initcall(perf_user_state_init);
