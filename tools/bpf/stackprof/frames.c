// SPDX-License-Identifier: GPL-2.0
/*
 * The frames of a group of samples: user stack, then kernel stack. A frame with the reason
 * stands for a missing stack.
 */
#include <string.h>

#include "prof.h"

static struct frame cut_user = { .name = "[cut]" };
static struct frame cut_kernel = { .name = "[cut]", .kernel = true };
static struct frame lost_kernel = { .name = "[kernel stack lost]", .kernel = true };

static struct frame missing[NR_USER_STATES] = {
	[USER_EMPTY] = { .name = "[user stack empty]" },
	[USER_REFUSED] = { .name = "[user stack refused]" },
	[USER_UNMATCHED] = { .name = "[user stack not delivered]" },
};

static void add_frame(struct frames *frames, struct frame *frame)
{
	frames->frame = xgrow(frames->frame, frames->nr, &frames->room, sizeof(*frames->frame));
	frames->frame[frames->nr++] = frame;
}

static void add_user(const struct group *group, struct frames *frames)
{
	const struct stack *stack = group->user;

	if (!stack) {
		if (missing[group->state].name)
			add_frame(frames, &missing[group->state]);
		return;
	}
	if (stack->cut)
		add_frame(frames, &cut_user);
	for (__u32 i = stack->nr; i-- > 0;)
		add_frame(frames, symbols_user(group->space, stack->ips[i], i));
}

/* Is this frame between a tracepoint and the program of --off-cpu? */
static bool is_tracing(const struct frame *frame)
{
	static const char * const names[] = {
		"bpf_prog_", "bpf_trace_run", "__bpf_trace_", "__traceiter_",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strncmp(frame->name, names[i], strlen(names[i])))
			return true;
	return false;
}

static void add_kernel(const struct group *group, bool off_cpu, struct frames *frames)
{
	const struct stack *stack = group->kernel;
	__u32 first = 0;

	if (group->lost_kernel)
		add_frame(frames, &lost_kernel);
	if (!stack)
		return;
	if (stack->cut)
		add_frame(frames, &cut_kernel);
	/* Threads do not block in tracing code. */
	while (off_cpu && first < stack->nr &&
	       is_tracing(symbols_kernel(stack->ips[first], first)))
		first++;
	for (__u32 i = stack->nr; i-- > first;)
		add_frame(frames, symbols_kernel(stack->ips[i], i));
}

/**
 * frames_of - frames of a group of samples
 * @group:	the samples
 * @off_cpu:	the samples show where a thread was blocked
 * @frames:	set to the frames, outermost first; its array is reused
 */
void frames_of(const struct group *group, bool off_cpu, struct frames *frames)
{
	frames->nr = 0;
	add_user(group, frames);
	add_kernel(group, off_cpu, frames);
}
