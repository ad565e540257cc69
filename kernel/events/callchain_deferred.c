// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user callchains of perf events.
 *
 * This is one of perf's two tracers of the unwinding core and serves all events; the
 * other one is in user_state_deferred.c. A sample of an event with attr.defer_callchain
 * requests the user stack and ends in a marker and the cookie of the kernel entry. Before
 * the task leaves that entry, the callback writes PERF_RECORD_CALLCHAIN_DEFERRED with the
 * same cookie and the addresses to every event with attr.defer_output that side-band
 * delivery reaches: the events of the task, of its current CPU, and of the CPU that it
 * was on when an event of that CPU made a request for this delivery.
 *
 * Contexts: samples are taken in any context, NMI included, with preemption
 * disabled. The callback runs in task context. Records for a CPU that the task has left
 * are written in an interrupt on that CPU.
 *
 * Invariant: a chain ends in marker and cookie, always both, only if the core granted
 * the request. Every cookie in a sample therefore has its callback. A chain is not deferred
 * if it is certain that the callback came too early for the sample's buffer.
 */
#include <linux/init.h>
#include <linux/minmax.h>
#include <linux/perf_event.h>
#include <linux/pid.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/unwind_deferred.h>
#include <linux/unwind_stats.h>

#include "deferred_pass.h"
#include "internal.h"

static struct unwind_work perf_unwind_work;
static bool perf_unwind_registered __ro_after_init;

/**
 * struct perf_deferred_record - fixed part of PERF_RECORD_CALLCHAIN_DEFERRED
 * @header:	type, misc and size
 * @cookie:	names the kernel entry
 * @nr:		number of addresses that follow
 */
struct perf_deferred_record {
	struct perf_event_header	header;
	u64				cookie;
	u64				nr;
};

/**
 * struct perf_deferred_trace - what the callback delivers to each event
 * @trace:	the addresses
 * @cookie:	names the kernel entry
 * @task:	task of the kernel entry: current, except on a CPU that it has left
 * @pass:	bytes that may still be copied
 */
struct perf_deferred_trace {
	const struct unwind_stacktrace	*trace;
	u64				cookie;
	struct task_struct		*task;
	struct perf_deferred_pass	pass;
};

/**
 * perf_deferred_attr_check - validate the deferral bits of an attr
 * @attr:	from user space
 *
 * Return: 0, -EINVAL on a kernel without support (as for unknown bits), -EOPNOTSUPP if
 * the core had no free tracer slot for perf.
 */
int perf_deferred_attr_check(const struct perf_event_attr *attr)
{
	if (!attr->defer_callchain && !attr->defer_output)
		return 0;
	if (!IS_ENABLED(CONFIG_UNWIND_USER))
		return -EINVAL;

	return perf_unwind_registered ? 0 : -EOPNOTSUPP;
}

/*
 * A BPF program, or a program that it calls, may read the chain in place. A deferred
 * part would not be there yet.
 */
static bool perf_event_has_bpf(const struct perf_event *event)
{
#ifdef CONFIG_BPF_SYSCALL
	return READ_ONCE(event->prog);
#else
	return false;
#endif
}

/**
 * perf_may_defer - check whether a sample can end in marker and cookie
 * @event:	the event that samples
 * @contexts:	context markers that precede them in the callchain
 *
 * Context: as the sample, NMI included.
 * Return: true if it can.
 */
bool perf_may_defer(const struct perf_event *event, int contexts)
{
	if (contexts + 2 > sysctl_perf_event_max_contexts_per_stack)
		return false;
	/* The user stack belongs to the virtual machine monitor, not to the guest. */
	return !perf_guest_state() && !perf_event_has_bpf(event);
}

/* An NMI, unlike an interrupt, may hit before the user registers are complete. */
static bool perf_user_regs_complete(struct perf_sample_data *data, struct pt_regs *regs)
{
	if (user_mode(regs) || !in_nmi())
		return true;

	perf_fetch_regs_user(data, regs);
	return data->regs_user.regs;
}

/**
 * perf_deferred_again - handle a repeated request in one kernel entry
 * @work:	the tracer that was asked
 * @cookies:	cookies of the event's buffer
 * @cookie:	cookie of the kernel entry
 *
 * If the record was written before this buffer had an event that wants it, it is written
 * again: once for each such buffer, and not to buffers that have it.
 *
 * A repeat may be refused. A buffer that never had a record lacks this one, too. Any other
 * buffer that lacks it now most likely had it before the records of other entries, and
 * readers keep the records that they have seen. The next repeat serves it otherwise.
 *
 * Context: as the sample, NMI included.
 * Return: 0 if the buffer gets the record, 1 if it has the record or may have it, -errno if
 * it neither has it nor gets it.
 */
int perf_deferred_again(struct unwind_work *work, struct perf_deferred_cookies *cookies,
			u64 cookie)
{
	/* Pairs with perf_deferred_output(), and with this function on another CPU. */
	u64 record = READ_ONCE(cookies->record), again = READ_ONCE(cookies->again);
	int ret;

	if (record == cookie || again == cookie)
		return 1;
	ret = unwind_deferred_again(work);
	if (!ret)
		WRITE_ONCE(cookies->again, cookie);
	if (ret >= 0)
		return 0;
	return record || again ? 1 : ret;
}

/**
 * perf_deferred_buffer - get the buffer that an event writes to
 * @event:	the event
 *
 * Context: preemption disabled, which keeps the buffer alive.
 * Return: the buffer, or NULL.
 */
struct perf_buffer *perf_deferred_buffer(const struct perf_event *event)
{
	/* Raw, as perf_event::rb is not marked __rcu. */
	return rcu_dereference_raw((event->parent ?: event)->rb);
}

/**
 * perf_deferred_note_cpu - note that this CPU's buffers want the record
 * @event:	the event whose request was granted, and whose buffer gets a record for it
 * @note:	the note of this kind of record: unwind_callchain_cpu(), unwind_user_state_cpu()
 *
 * Only for events of a CPU: events of a task move with the task, except one of a single CPU,
 * which gets no record if the task leaves that CPU.
 *
 * Context: as the sample, NMI included.
 * Return: false if the events of another CPU were noted, and this CPU gets no record if the
 * task leaves it.
 */
bool perf_deferred_note_cpu(const struct perf_event *event, unsigned int *note)
{
	unsigned int cpu = smp_processor_id() + 1, noted;

	if (event->attach_state & PERF_ATTACH_TASK)
		return true;

	/* Pairs with perf_deferred_take_cpu() below this. An NMI on top stores the same. */
	noted = READ_ONCE(*note);
	if (!noted)
		WRITE_ONCE(*note, cpu);
	return !noted || noted == cpu;
}

/**
 * perf_deferred_take_cpu - take the note of the CPU whose buffers want the record
 * @note:	the note of this kind of record
 *
 * From here on, requests for the next delivery can note another CPU. A request that was
 * granted a moment ago needs no note of its own: the CPU gets the record of this delivery.
 *
 * Context: a callback, which then writes to that CPU.
 * Return: the CPU, or -1.
 */
int perf_deferred_take_cpu(unsigned int *note)
{
	/* Pairs with perf_deferred_note_cpu() in samples meanwhile, which replace no note. */
	unsigned int noted = READ_ONCE(*note);

	if (noted)
		WRITE_ONCE(*note, 0);
	return (int)noted - 1;
}

static noinline int callchain_again(const struct perf_event *event, u64 cookie)
{
	struct perf_buffer *rb = perf_deferred_buffer(event);

	return rb ? perf_deferred_again(&perf_unwind_work, &rb->deferred_callchains, cookie) : 1;
}

/* perf_callchain_defer(), inline because every deferred sample calls it. */
static __always_inline u64
callchain_defer(struct perf_sample_data *data, struct perf_event *event,
		struct pt_regs *regs, bool kernel, bool *user, bool *third)
{
	u64 cookie;
	int ret;

	if (!*user)
		return 0;
	if (!perf_may_defer(event, kernel && !user_mode(regs)))
		return 0;

	ret = unwind_deferred_request_regs(&perf_unwind_work,
					   perf_user_regs_complete(data, regs), &cookie);
	if (ret > 0) {
		ret = callchain_again(event, cookie);
		if (ret < 0)
			return 0;
	}
	if (ret >= 0 || ret == -ESTALE)
		*user = false;
	if (!ret)
		*third = !perf_deferred_note_cpu(event, unwind_callchain_cpu());

	return cookie;
}

/**
 * perf_callchain_defer - request the user part of a sample's callchain
 * @data:	the sample
 * @event:	the event that samples, with attr.defer_callchain
 * @regs:	registers of the sample
 * @kernel:	the chain gets a kernel part if the sample hit the kernel
 * @user:	the event wants a user part; cleared if it must not be walked in place,
 *		because it is deferred or does not exist
 * @third:	set if this CPU gets no record if the task leaves it
 *
 * Context: as the sample, NMI included.
 * Return: the cookie, or 0 when nothing was deferred.
 */
u64 perf_callchain_defer(struct perf_sample_data *data, struct perf_event *event,
			 struct pt_regs *regs, bool kernel, bool *user, bool *third)
{
	return callchain_defer(data, event, regs, kernel, user, third);
}

/* perf_callchain_with_cookie(), inline because every deferred sample calls it. */
static __always_inline struct perf_callchain_entry *
callchain_with_cookie(struct perf_sample_data *data, struct perf_event *event,
		      struct pt_regs *regs, bool kernel, bool user, u64 cookie)
{
	struct perf_callchain_entry *entry;

	if (user)
		perf_fetch_regs_user(data, regs);
	entry = __get_perf_callchain(regs, kernel, user ? data->regs_user.regs : NULL,
				     event->attr.sample_max_stack, false, true);
	if (entry && cookie) {
		entry->ip[entry->nr++] = PERF_CONTEXT_USER_DEFERRED;
		entry->ip[entry->nr++] = cookie;
	}
	return entry;
}

/**
 * perf_callchain_with_cookie - take the parts of a callchain that are not deferred
 * @data:	the sample
 * @event:	the event that samples
 * @regs:	registers of the sample
 * @kernel:	take the kernel part
 * @user:	take the user part
 * @cookie:	if not 0, the chain ends in marker and cookie; perf_may_defer() checked
 *		that there is room
 *
 * Context: as the sample, NMI included.
 * Return: the chain, or NULL if none can be taken.
 */
struct perf_callchain_entry *
perf_callchain_with_cookie(struct perf_sample_data *data, struct perf_event *event,
			   struct pt_regs *regs, bool kernel, bool user, u64 cookie)
{
	return callchain_with_cookie(data, event, regs, kernel, user, cookie);
}

/**
 * perf_callchain_deferred - take a callchain whose user part is deferred
 * @data:	the sample
 * @event:	the event that samples, with attr.defer_callchain
 * @regs:	registers of the sample
 * @kernel:	the event wants the kernel part
 * @user:	the event wants the user part, and current has one
 *
 * Context: as the sample, NMI included.
 * Return: the chain, or NULL if none can be taken.
 */
struct perf_callchain_entry *
perf_callchain_deferred(struct perf_sample_data *data, struct perf_event *event,
			struct pt_regs *regs, bool kernel, bool user)
{
	bool third = false;
	u64 cookie = callchain_defer(data, event, regs, kernel, &user, &third);

	if (third)
		unwind_count(UNWIND_STAT_THIRD_CPU);
	return callchain_with_cookie(data, event, regs, kernel, user, cookie);
}

static void perf_deferred_output_ips(struct perf_output_handle *handle,
				     const struct unwind_stacktrace *trace,
				     unsigned int nr)
{
	if (sizeof(*trace->entries) == sizeof(u64)) {
		__output_copy(handle, trace->entries, nr * sizeof(u64));
		return;
	}

	for (unsigned int i = 0; i < nr; i++) {
		u64 ip = trace->entries[i];

		perf_output_put(handle, ip);
	}
}

/**
 * perf_deferred_sample_id - correct pid and tid of a record if current is not @task
 * @sample:	source of the record's sample_id
 * @event:	the event that gets it
 * @task:	task of the kernel entry, which may be on another CPU
 */
void perf_deferred_sample_id(struct perf_sample_data *sample,
			     const struct perf_event *event, struct task_struct *task)
{
	struct pid_namespace *ns;

	if (likely(task == current))
		return;
	ns = (event->parent ?: event)->ns;
	sample->tid_entry.pid = __task_pid_nr_ns(task, PIDTYPE_TGID, ns);
	sample->tid_entry.tid = __task_pid_nr_ns(task, PIDTYPE_PID, ns);
}

/* Runs with preemption disabled, for each event that side-band delivery reaches. */
static void perf_deferred_output(struct perf_event *event, void *data)
{
	struct perf_deferred_trace *deferred = data;
	/* Some configs would clear these hundreds of bytes; whatever is read is set below. */
	struct perf_output_handle handle __uninitialized;
	struct perf_sample_data sample __uninitialized;
	struct perf_deferred_record record __uninitialized;
	struct perf_buffer *rb;
	unsigned int nr;
	u16 misc;

	if (!event->attr.defer_output || !perf_deferred_turn(&deferred->pass, event->id))
		return;

	/*
	 * Events that share a buffer share one record, cut to the depth of the first
	 * event. All events that write to one buffer do so on the same CPU or for the
	 * same task.
	 */
	rb = perf_deferred_buffer(event);
	if (!rb || READ_ONCE(rb->deferred_callchains.record) == deferred->cookie)
		return;

	nr = min_t(unsigned int, deferred->trace->nr, event->attr.sample_max_stack);

	record.cookie = deferred->cookie;
	record.nr = nr;

	/* A chain that is cut here ends earlier still, for another reason. */
	misc = PERF_RECORD_MISC_USER;
	if (deferred->trace->early && nr == deferred->trace->nr)
		misc |= PERF_RECORD_MISC_CALLCHAIN_EARLY;
	perf_event_header__init(&record.header, &sample,
				PERF_RECORD_CALLCHAIN_DEFERRED, misc,
				sizeof(record) + nr * sizeof(u64), event);
	if (!perf_deferred_take(&deferred->pass, event->id, record.header.size))
		return;
	perf_deferred_sample_id(&sample, event, deferred->task);
	if (perf_output_begin(&handle, &sample, event, record.header.size)) {
		perf_deferred_give_back(&deferred->pass, record.header.size);
		return;
	}

	/*
	 * Mark the buffer only now that the record has its place: samples with this cookie
	 * that an interrupt writes from here on come after the record. Pairs with this
	 * function and perf_deferred_again().
	 */
	WRITE_ONCE(rb->deferred_callchains.record, deferred->cookie);
	__output_copy(&handle, &record, sizeof(record));
	perf_deferred_output_ips(&handle, deferred->trace, nr);
	perf_event__output_id_sample(event, &handle, &sample);
	perf_output_end(&handle);
}

/* Run the passes after the first. The task stays on its CPU; @ctx, its context, is pinned. */
static noinline void deferred_iterate_on(perf_iterate_f output, void *data,
					 struct perf_deferred_pass *pass,
					 struct perf_event_context *ctx)
{
	do {
		cond_resched();
		scoped_guard(preempt)
			perf_iterate_sb(output, data, NULL);
	} while (perf_deferred_more(pass));
	if (ctx)
		perf_unpin_task_context(ctx);
	migrate_enable();
}

/* perf_deferred_iterate(), inline because every delivery calls it. */
static __always_inline bool deferred_iterate(perf_iterate_f output, void *data,
					     struct perf_deferred_pass *pass, int cpu)
{
	struct perf_event_context *ctx;
	bool reached;

	scoped_guard(preempt) {
		reached = cpu < 0 || cpu == smp_processor_id();
		perf_iterate_sb(output, data, NULL);
		if (likely(!perf_deferred_more(pass)))
			return reached;
		migrate_disable();
		ctx = perf_pin_task_context(current);
	}
	deferred_iterate_on(output, data, pass, ctx);
	return reached;
}

/**
 * perf_deferred_iterate - write a record to all events that side-band delivery reaches
 * @output:	writes it to an event whose buffer lacks it; calls perf_deferred_turn() and
 *		perf_deferred_take() first
 * @data:	for @output
 * @pass:	part of @data, set to PERF_DEFERRED_PASS by the caller
 * @cpu:	the CPU whose events asked, or -1
 *
 * A long stack may go to many buffers, so the events are visited in passes. Other tasks
 * may run between two passes and write records to the same buffers. Each pass continues
 * where the previous one ended, so there are no more passes than events. For that, the
 * task stays on its CPU and keeps its context, which it would otherwise swap with a
 * clone. If the event to continue at is closed or disabled in between, the passes start
 * over, at most PERF_DEFERRED_ANEW times. After a restart, or if events share a buffer, a
 * buffer may get the record twice.
 *
 * Context: task context.
 * Return: false if the events of @cpu were not reached.
 */
bool perf_deferred_iterate(perf_iterate_f output, void *data,
			   struct perf_deferred_pass *pass, int cpu)
{
	return deferred_iterate(output, data, pass, cpu);
}

/* Arguments of the interrupt on another CPU. */
struct perf_deferred_remote {
	perf_iterate_f	*output;
	void		*data;
};

static void perf_deferred_remote(void *data)
{
	const struct perf_deferred_remote *remote = data;

	perf_iterate_sb_this_cpu(remote->output, remote->data);
}

/**
 * perf_deferred_iterate_cpu - write a record to the events of a CPU that the task has left
 * @output:	as for perf_deferred_iterate(), but runs in an interrupt on @cpu while the
 *		task waits: there, current is another task, with its own user memory
 * @data:	for @output
 * @pass:	part of @data
 * @cpu:	the CPU; an offline CPU gets no record
 *
 * Context: task context.
 */
void perf_deferred_iterate_cpu(perf_iterate_f output, void *data,
			       struct perf_deferred_pass *pass, int cpu)
{
	struct perf_deferred_remote remote = { .output = output, .data = data };

	*pass = PERF_DEFERRED_IRQ_PASS;
	while (!smp_call_function_single(cpu, perf_deferred_remote, &remote, true) &&
	       perf_deferred_more(pass))
		cond_resched();
}

static void perf_unwind_callback(struct unwind_work *work,
				 struct unwind_stacktrace *trace, u64 cookie)
{
	struct perf_deferred_trace deferred = {
		.trace	= trace,
		.cookie	= cookie,
		.task	= current,
		.pass	= PERF_DEFERRED_PASS,
	};
	int asked = perf_deferred_take_cpu(unwind_callchain_cpu());

	perf_records_ahead();
	/* A session that records the CPU that asked need not record this CPU. */
	if (likely(deferred_iterate(perf_deferred_output, &deferred, &deferred.pass, asked)))
		return;
	perf_deferred_iterate_cpu(perf_deferred_output, &deferred, &deferred.pass, asked);
}

static int __init perf_unwind_init(void)
{
	perf_unwind_registered = !unwind_deferred_init(&perf_unwind_work,
						       perf_unwind_callback);
	return 0;
}
core_initcall(perf_unwind_init);
