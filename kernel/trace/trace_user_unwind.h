/* SPDX-License-Identifier: GPL-2.0 */
/*
 * User stacks of the events of an instance, see trace_user_unwind.c.
 */
#ifndef _KERNEL_TRACE_USER_UNWIND_H
#define _KERNEL_TRACE_USER_UNWIND_H

#include "trace.h"

struct unwind_stacktrace;
struct user_unwind_names;

#ifdef CONFIG_UNWIND_USER

/* Defined in trace_user_unwind_names.c and used by trace_user_unwind.c. */
struct user_unwind_names *user_unwind_names_new(void);
void user_unwind_name_files(struct user_unwind_names *names, struct trace_event_file *event,
			    const struct unwind_stacktrace *trace);

int trace_user_unwind_option(struct trace_array *tr, bool enabled);
void trace_user_unwind_remove(struct trace_array *tr);
void trace_user_unwind_ask(struct trace_array *tr, int type);
bool trace_user_unwind_triggered(const struct event_trigger_data *data);
int trace_user_unwind_command(const struct event_command *stacktrace);

/**
 * trace_user_unwind_type - check whether an event has to request the user stack
 * @tr:		the instance that it is recorded in
 * @event:	the event, not committed yet
 *
 * Return: the type to pass to trace_user_unwind_ask(), 0 for no request.
 */
static inline int trace_user_unwind_type(const struct trace_array *tr,
					 struct ring_buffer_event *event)
{
	const struct trace_entry *entry;

	if (likely(!(tr->trace_flags & TRACE_ITER_USERSTACKTRACE_DELAY)))
		return 0;

	entry = ring_buffer_event_data(event);
	return entry->type;
}

#else /* !CONFIG_UNWIND_USER */

static inline int trace_user_unwind_option(struct trace_array *tr, bool enabled)
{
	return -EINVAL;
}

static inline void trace_user_unwind_remove(struct trace_array *tr) { }
static inline void trace_user_unwind_ask(struct trace_array *tr, int type) { }

static inline bool trace_user_unwind_triggered(const struct event_trigger_data *data)
{
	return false;
}

static inline int trace_user_unwind_command(const struct event_command *stacktrace)
{
	return 0;
}

static inline int trace_user_unwind_type(const struct trace_array *tr,
					 struct ring_buffer_event *event)
{
	return 0;
}

#endif /* CONFIG_UNWIND_USER */
#endif /* _KERNEL_TRACE_USER_UNWIND_H */
