// SPDX-License-Identifier: GPL-2.0
/*
 * The end of a task that has detached events: they record where it was, and stay for readers.
 *
 * Contexts: exit and exec, in the task; or fork, in the parent, if that fails. Locks: ctx->mutex
 * for all but the last sample. perf_detached_lock is a leaf; nothing sleeps under it.
 *
 * Invariant: the last sample is taken while the task has its address space. After that an event's
 * state changes once. From then on perf's hooks for context switches and side-band records do not
 * look for events because of it.
 */
#include <linux/cleanup.h>
#include <linux/irqflags.h>
#include <linux/perf_event.h>
#include <linux/pid.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/smp.h>
#include <linux/spinlock.h>

#include "detached.h"
#include "internal.h"

/* Does an event count here, so that it stays on this CPU while interrupts are off? */
static bool detached_counts(const struct perf_event *event)
{
	return event->state == PERF_EVENT_STATE_ACTIVE && event->oncpu == smp_processor_id();
}

/* Does an event sample all that its task does in user mode, and not what happens now and then? */
static bool detached_samples_time(struct perf_event *event)
{
	if (!is_sampling_event(event) || event->attr.exclude_user || event->attr.exclude_host)
		return false;
	return event->pmu->task_ctx_nr == perf_hw_context ||
	       (event->orig_type == PERF_TYPE_SOFTWARE &&
		(event->attr.config == PERF_COUNT_SW_CPU_CLOCK ||
		 event->attr.config == PERF_COUNT_SW_TASK_CLOCK));
}

/* An event of current that is to take its last sample, or NULL. */
static struct perf_event *detached_unsampled(void)
{
	struct perf_event_context *ctx;
	struct perf_event *event;

	/* rcu_dereference(), but the base does not declare it as __rcu; likewise below. */
	ctx = READ_ONCE(current->perf_event_ctxp);
	if (!ctx)
		return NULL;
	list_for_each_entry_rcu(event, &ctx->event_list, event_entry) {
		struct perf_detached *detached = READ_ONCE(event->detached);

		if (detached && !detached->sampled && READ_ONCE(event->rb) &&
		    detached_counts(event) && detached_samples_time(event))
			return event;
	}
	return NULL;
}

/* One sample more, which stands for no time. */
static void detached_sample(struct perf_event *event, struct pt_regs *regs)
{
	perf_overflow_handler_t output = READ_ONCE(event->overflow_handler);
	struct perf_sample_data data;

	event->detached->sampled = true;
	/* So that the event's own interrupt does not come amid this. */
	perf_pmu_disable(event->pmu);
	/* What the hardware has comes before. */
	event->pmu->read(event);
	perf_sample_data_init(&data, 0, 1);
	/* Not perf_event_overflow(): it may have to be stopped then, for a while or for good. */
	output(event, &data, regs);
	perf_pmu_enable(event->pmu);
}

/* Let an event take its last sample, with its buffer pinned. Returns false if none is left. */
static bool detached_sample_next(struct pt_regs *regs)
{
	struct perf_event *event = NULL;
	int recursion;

	perf_shmem_settle_irq();
	recursion = perf_swevent_get_recursion_context();
	if (recursion >= 0) {
		scoped_guard(rcu) {
			event = detached_unsampled();
			if (event)
				detached_sample(event, regs);
		}
		perf_swevent_put_recursion_context(recursion);
	}
	local_irq_enable();
	return event;
}

/**
 * perf_detached_sample_exit - take a last sample of current, which exits
 *
 * Its user registers are those of the last kernel entry. So of a process that a signal kills, each
 * thread's last sample tells where it was then: the one that is to blame, where it faulted.
 *
 * Context: do_exit(), before PF_EXITING is set: a walk that this asks for is done while the
 * address space exists.
 */
void perf_detached_sample_exit(void)
{
	struct pt_regs *regs = task_pt_regs(current);

	if (!READ_ONCE(current->perf_event_ctxp) || !current->mm ||
	    (current->flags & (PF_KTHREAD | PF_USER_WORKER)) || !user_mode(regs))
		return;
	/* With interrupts on in between: a sample may copy much of a stack. */
	while (detached_sample_next(regs))
		;
}

/**
 * perf_detached_exit - the task of an event exits, or executes a privileged file
 * @event:	the event, before its state says so
 *
 * Context: in the task, or in fork if that fails; with ctx->mutex held.
 * Return: true if the event is to end, as it was inherited and got no name.
 */
bool perf_detached_exit(struct perf_event *event)
{
	struct perf_detached *detached = event->detached;
	struct perf_buffer *rb;
	bool ends;

	if (!detached)
		return false;
	/* Another thread than the first one of its process has executed a file. */
	if (event->hw.target == current && detached->pid && detached->pid != task_pid(current))
		WRITE_ONCE(detached->exec_pid, get_pid(task_pid(current)));
	perf_detached_end(detached);
	/* After the state: detached_set_buffer() has the buffer first, and then looks at it. */
	rb = ring_buffer_get(event);
	if (rb) {
		perf_detached_publish(detached, rb);
		if (rb->shmem)
			perf_shmem_leave(rb);
		ring_buffer_put(rb);
	}

	/* Queued work may still come, after a failed exec or in the exit of a user worker. */
	detached->newborn = false;
	scoped_guard(spinlock, &perf_detached_lock) {
		ends = detached->phase == DETACHED_INHERITED;
		if (detached->phase == DETACHED_NAMED)
			perf_detached_keep(detached);
	}
	return ends;
}

/**
 * perf_detached_unaccounted - mark that perf's hooks no longer look for events because of this one
 * @event:	the event, which may be kept for long after its task has exited
 *
 * Context: with ctx->mutex held, or when the event is freed.
 * Return: true if that was so before; otherwise the caller takes it out of what they look at.
 */
bool perf_detached_unaccounted(struct perf_event *event)
{
	struct perf_detached *detached = event->detached;
	bool done;

	if (!detached)
		return false;
	done = detached->unaccounted;
	detached->unaccounted = true;
	return done;
}
