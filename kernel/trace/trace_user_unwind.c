// SPDX-License-Identifier: GPL-2.0
/*
 * User stacks of the events of an instance, taken on return to user space.
 *
 * Each instance is its own tracer of the unwinding core while its option
 * userstacktrace_delay is on or one of its events has a user_unwind trigger. An event that
 * makes a request is followed by user_unwind_cookie, which names the kernel entry. All
 * requests in one kernel entry are followed by one user_unwind_stack with the same cookie.
 * user_unwind_file names the files that the stacks lead through.
 *
 * Contexts:
 *  - trace_user_unwind_ask(): the contexts of events: any, NMI included.
 *  - user_unwind_callback(): task context, inside the core's SRCU section.
 *  - everything else: task context, under event_mutex.
 *
 * Invariants: the callback takes no lock, as unwind_deferred_cancel() waits for it
 * under event_mutex and trace_types_lock. An instance's tracer is gone before its event
 * files and buffers are. This code never triggers requests by itself: its three events
 * make none, and events that a context of a CPU records during a request make none in
 * that context.
 */
#include <linux/bits.h>
#include <linux/cleanup.h>
#include <linux/container_of.h>
#include <linux/err.h>
#include <linux/init.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/trace_events.h>
#include <linux/unwind_deferred.h>

#include <trace/events/unwind.h>

#include "trace.h"
#include "trace_user_unwind.h"

/**
 * struct trace_user_unwind - an instance as a tracer
 * @work:	the tracer
 * @cookie_file: the instance's event user_unwind_cookie; constant
 * @stack_file:	its event user_unwind_stack; constant
 * @name_file:	its event user_unwind_file; constant
 * @names:	the files that have been named
 * @users:	number of triggers, plus one for the option; under event_mutex
 *
 * Lives from the first user to the last one, or to the end of the instance. It is found
 * through &trace_array.user_unwind, which is written under event_mutex and read with
 * preemption disabled.
 */
struct trace_user_unwind {
	struct unwind_work	work;
	struct trace_event_file	*cookie_file;
	struct trace_event_file	*stack_file;
	struct trace_event_file	*name_file;
	struct user_unwind_names *names;
	unsigned int		users;
};

/*
 * Bit mask of each CPU's contexts that are making a request now. A context on top of
 * another one finishes before the other continues.
 */
static DEFINE_PER_CPU(unsigned int, user_unwind_contexts);

/* Returns the bit for user_unwind_leave(), or 0 if this context is already in a request. */
static unsigned int user_unwind_enter(void)
{
	const unsigned int bit = BIT(interrupt_context_level());

	if (__this_cpu_read(user_unwind_contexts) & bit)
		return 0;

	__this_cpu_or(user_unwind_contexts, bit);
	return bit;
}

static void user_unwind_leave(unsigned int bit)
{
	__this_cpu_and(user_unwind_contexts, ~bit);
}

/*
 * Is the event enabled in this instance? Then its tracepoint records it for the requests
 * of all tracers, and it must not be written here a second time.
 */
static bool user_unwind_is_on(const struct trace_event_file *file)
{
	const unsigned long mask = EVENT_FILE_FL_ENABLED | EVENT_FILE_FL_SOFT_DISABLED;

	return (file->flags & mask) == EVENT_FILE_FL_ENABLED;
}

/* Write an event as its tracepoint would, but to one instance only. */
static void user_unwind_write_cookie(struct trace_event_file *file, u64 cookie)
{
	void (*probe)(void *data, u64 cookie) = file->event_call->class->probe;

	check_trace_callback_type_user_unwind_cookie(probe);
	probe(file, cookie);
}

static void user_unwind_write_stack(struct trace_event_file *file, u64 cookie,
				    const struct unwind_stacktrace *trace)
{
	void (*probe)(void *data, u64 cookie, const struct unwind_stacktrace *trace) =
		file->event_call->class->probe;

	check_trace_callback_type_user_unwind_stack(probe);
	probe(file, cookie, trace);
}

static void user_unwind_callback(struct unwind_work *work,
				 struct unwind_stacktrace *trace, u64 cookie)
{
	struct trace_user_unwind *unwind = container_of(work, struct trace_user_unwind, work);

	user_unwind_name_files(unwind->names, unwind->name_file, trace);
	if (user_unwind_is_on(unwind->stack_file))
		return;

	/* Preemption is disabled as in a tracepoint. */
	guard(preempt_notrace)();
	user_unwind_write_stack(unwind->stack_file, cookie, trace);
}

static bool user_unwind_is_own(const struct trace_user_unwind *unwind, int type)
{
	return type == unwind->cookie_file->event_call->event.type ||
	       type == unwind->stack_file->event_call->event.type ||
	       type == unwind->name_file->event_call->event.type;
}

static void user_unwind_request(struct trace_user_unwind *unwind)
{
	u64 cookie;
	int ret;

	ret = unwind_deferred_request(&unwind->work, &cookie);
	/* The first request of a tracer in a kernel entry hits the tracepoint. */
	if (ret > 0 || (!ret && !user_unwind_is_on(unwind->cookie_file)))
		user_unwind_write_cookie(unwind->cookie_file, cookie);
}

/**
 * trace_user_unwind_ask - request the user stack of current on behalf of an event
 * @tr:		the instance that the event is in
 * @type:	the type of the event, as in its record
 *
 * Does nothing if there is no user stack or if tracing is off.
 *
 * Context: any, NMI included.
 */
void trace_user_unwind_ask(struct trace_array *tr, int type)
{
	struct trace_user_unwind *unwind;
	unsigned int context;

	/* The core would refuse the request and count the refusal. */
	if (!is_user_task(current) || (current->flags & PF_EXITING))
		return;

	guard(preempt_notrace)();

	/* Pairs with user_unwind_get() and user_unwind_free(). */
	unwind = rcu_dereference_sched(tr->user_unwind);
	if (!unwind || user_unwind_is_own(unwind, type) || !tracer_tracing_is_on(tr))
		return;

	context = user_unwind_enter();
	if (!context)
		return;
	user_unwind_request(unwind);
	user_unwind_leave(context);
}

static struct trace_user_unwind *user_unwind_of(struct trace_array *tr)
{
	return rcu_dereference_protected(tr->user_unwind, lockdep_is_held(&event_mutex));
}

static struct trace_user_unwind *user_unwind_new(struct trace_array *tr)
{
	struct trace_user_unwind *unwind __free(kfree) = kzalloc(sizeof(*unwind), GFP_KERNEL);
	struct user_unwind_names *names __free(kfree) = user_unwind_names_new();
	int ret;

	if (!unwind || !names)
		return ERR_PTR(-ENOMEM);

	/* Instances can be limited to the events of some systems. */
	unwind->cookie_file = find_event_file(tr, "unwind", "user_unwind_cookie");
	unwind->stack_file = find_event_file(tr, "unwind", "user_unwind_stack");
	unwind->name_file = find_event_file(tr, "unwind", "user_unwind_file");
	if (!unwind->cookie_file || !unwind->stack_file || !unwind->name_file)
		return ERR_PTR(-ENODEV);

	unwind->work.want_files = true;
	ret = unwind_deferred_init(&unwind->work, user_unwind_callback);
	if (ret)
		return ERR_PTR(ret);

	unwind->names = no_free_ptr(names);
	return_ptr(unwind);
}

static void user_unwind_free(struct trace_array *tr, struct trace_user_unwind *unwind)
{
	/* Pairs with trace_user_unwind_ask(). */
	rcu_assign_pointer(tr->user_unwind, NULL);
	/* Waits for RCU, so for readers of tr->user_unwind, and for callbacks. */
	unwind_deferred_cancel(&unwind->work);
	kfree(unwind->names);
	kfree(unwind);
}

/* Add a user. */
static int user_unwind_get(struct trace_array *tr)
{
	struct trace_user_unwind *unwind = user_unwind_of(tr);

	if (!unwind) {
		unwind = user_unwind_new(tr);
		if (IS_ERR(unwind))
			return PTR_ERR(unwind);
		/* Pairs with trace_user_unwind_ask(). */
		rcu_assign_pointer(tr->user_unwind, unwind);
	}
	unwind->users++;
	return 0;
}

/* Drop a user. After trace_user_unwind_remove() the tracer is gone. */
static void user_unwind_put(struct trace_array *tr)
{
	struct trace_user_unwind *unwind = user_unwind_of(tr);

	if (unwind && !--unwind->users)
		user_unwind_free(tr, unwind);
}

/**
 * trace_user_unwind_option - handle a change of the option userstacktrace_delay
 * @tr:		the instance
 * @enabled:	the new state, which differs from the current one
 *
 * Context: task context, under event_mutex; may sleep.
 * Return: 0, -EBUSY if all tracer slots of the unwinding core are taken, -ENODEV if the
 * instance lacks the events, -ENOMEM.
 */
int trace_user_unwind_option(struct trace_array *tr, bool enabled)
{
	lockdep_assert_held(&event_mutex);

	if (enabled)
		return user_unwind_get(tr);

	user_unwind_put(tr);
	return 0;
}

/* The triggers of an instance that is removed are freed, but not unregistered. */
static void user_unwind_put_events(struct trace_array *tr)
{
	struct event_trigger_data *data;
	struct trace_event_file *file;

	list_for_each_entry(file, &tr->events, list) {
		list_for_each_entry(data, &file->triggers, list) {
			if (data->cmd_ops->trigger_type == ETT_USER_UNWIND)
				trace_event_put_ref(file->event_call);
		}
	}
}

/**
 * trace_user_unwind_remove - free the tracer of an instance that is being removed
 * @tr:		the instance
 *
 * Context: task context, under event_mutex until the instance has lost its events and
 * buffers; may sleep.
 */
void trace_user_unwind_remove(struct trace_array *tr)
{
	struct trace_user_unwind *unwind = user_unwind_of(tr);

	lockdep_assert_held(&event_mutex);

	if (!unwind)
		return;
	user_unwind_put_events(tr);
	user_unwind_free(tr, unwind);
}

/**
 * trace_user_unwind_triggered - handle a hit of a user_unwind trigger
 * @data:	a trigger that shares the functions of stacktrace triggers
 *
 * Context: any, NMI included.
 * Return: true if it is a user_unwind trigger, whose request was made.
 */
bool trace_user_unwind_triggered(const struct event_trigger_data *data)
{
	const struct trace_event_file *file = data->private_data;

	if (data->cmd_ops->trigger_type != ETT_USER_UNWIND)
		return false;

	trace_user_unwind_ask(file->tr, file->event_call->event.type);
	return true;
}

/*
 * Hold a reference to the event. Otherwise an event of a module, or a dynamic event, could
 * go away together with its triggers without notice.
 */
static int user_unwind_register_trigger(char *glob, struct event_trigger_data *data,
					struct trace_event_file *file)
{
	int ret;

	if (!trace_event_try_get_ref(file->event_call))
		return -EBUSY;

	ret = user_unwind_get(file->tr);
	if (ret)
		goto put_ref;

	ret = register_trigger(glob, data, file);
	if (!ret)
		return 0;

	user_unwind_put(file->tr);
put_ref:
	trace_event_put_ref(file->event_call);
	return ret;
}

static void user_unwind_unregister_trigger(char *glob, struct event_trigger_data *data,
					   struct trace_event_file *file)
{
	if (!try_unregister_trigger(glob, data, file))
		return;

	user_unwind_put(file->tr);
	trace_event_put_ref(file->event_call);
}

/**
 * trace_user_unwind_command - register the trigger command user_unwind
 * @stacktrace:	the command that it shares syntax, count and filter with
 *
 * Return: 0 or an error.
 */
int __init trace_user_unwind_command(const struct event_command *stacktrace)
{
	static struct event_command command;

	command = *stacktrace;
	command.name = "user_unwind";
	command.trigger_type = ETT_USER_UNWIND;
	command.reg = user_unwind_register_trigger;
	command.unreg = user_unwind_unregister_trigger;
	return register_event_command(&command);
}
