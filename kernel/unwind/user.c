// SPDX-License-Identifier: GPL-2.0
/*
 * User stack walker.
 *
 * Runs in task context of the task whose stack it reads, where page faults are
 * allowed; with page faults disabled it works too and ends at the first page
 * that is not resident. No locks, no allocation.
 *
 * Registers and stack belong to the user and may say anything. Everything rests
 * on one invariant: each step moves the stack pointer strictly up, reads only
 * above it, and adds at most one entry. So a walk ends after as many steps as
 * the caller has room for, whatever the stack holds, and every failed test or
 * read is the end of the walk, never an error: what was found so far is kept.
 */
#include <linux/bits.h>
#include <linux/export.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/uaccess.h>
#include <linux/unwind_user.h>

#ifndef unwind_user_at_function_start
static bool unwind_user_at_function_start(struct pt_regs *regs)
{
	return false;
}
#endif

#ifndef ARCH_INIT_USER_FP_ENTRY_FRAME
#define ARCH_INIT_USER_FP_ENTRY_FRAME(ws)
#endif

/*
 * Frames between two looks at pending signals. User accesses are opened and
 * closed once per batch.
 */
#define UNWIND_USER_BATCH	64

/* Addresses that the user can lie with: truncate what 32-bit code holds. */
static unsigned long unwind_user_word(unsigned long val, unsigned int ws)
{
	return ws == sizeof(u32) ? (u32)val : val;
}

/*
 * A frame pointer that may be followed from @sp. That it points into user
 * memory is left to the access itself.
 */
static __always_inline bool
unwind_user_base_ok(unsigned long base, unsigned long sp, unsigned int ws)
{
	return base >= sp && !(base & (ws - 1));
}

#define unwind_user_load(dst, addr, ws, label)					\
do {										\
	if ((ws) == sizeof(u32)) {						\
		u32 __word;							\
		unsafe_get_user(__word, (u32 __user *)(addr), label);		\
		(dst) = __word;							\
	} else {								\
		unsafe_get_user(dst, (unsigned long __user *)(addr), label);	\
	}									\
} while (0)

/*
 * Follow saved frame pointers for up to @max frames. @ws is a constant in each
 * caller, which makes the frame layout one too.
 *
 * Where the architecture can mask user pointers, one access window serves the
 * whole batch: a masked pointer needs neither a check nor a speculation barrier
 * of its own, and one outside of user memory faults.
 */
static __always_inline unsigned int
unwind_user_fp_batch(struct unwind_user_state *state, unsigned long *entries,
		     unsigned int max, const unsigned int ws)
{
	const struct unwind_user_frame frame = { ARCH_INIT_USER_FP_FRAME(ws) };
	const s32 low = frame.cfa_off + min(frame.ra_off, frame.fp_off);
	const s32 high = frame.cfa_off + max(frame.ra_off, frame.fp_off);
	unsigned long fp = state->fp, sp = state->sp, ra;
	const bool masked = can_do_masked_user_access();
	unsigned int nr = 0;
	void __user *win;

	if (masked)
		win = masked_user_access_begin((void __user *)(fp + low));

	while (nr < max && unwind_user_base_ok(fp, sp, ws)) {
		unsigned long next;

		win = (void __user *)(fp + low);
		if (masked)
			win = mask_user_address(win);
		else if (!user_read_access_begin(win, high - low + ws))
			goto out;

		unwind_user_load(ra, win + (frame.cfa_off + frame.ra_off - low), ws, fault);
		unwind_user_load(next, win + (frame.cfa_off + frame.fp_off - low), ws, fault);

		if (!masked)
			user_read_access_end();

		entries[nr++] = ra;
		sp = fp + frame.cfa_off;
		fp = next;
	}

	state->done = nr < max;
	if (masked)
		user_read_access_end();
	goto save;

fault:
	user_read_access_end();
out:
	state->done = true;
save:
	if (nr)
		state->ip = entries[nr - 1];
	state->sp = sp;
	state->fp = fp;
	return nr;
}

/* The caller of a function that did not push anything yet. */
static unsigned int
unwind_user_entry_frame(struct unwind_user_state *state, unsigned long *entries)
{
	const struct unwind_user_frame frame = {
		ARCH_INIT_USER_FP_ENTRY_FRAME(state->ws)
	};
	unsigned long cfa = state->sp + frame.cfa_off, ra;
	void __user *addr = (void __user *)(cfa + frame.ra_off);

	state->at_entry = false;

	if (cfa <= state->sp || !IS_ALIGNED(cfa, state->ws))
		return 0;

	if (!user_read_access_begin(addr, state->ws))
		return 0;
	unwind_user_load(ra, addr, state->ws, fault);
	user_read_access_end();

	entries[0] = ra;
	state->ip = ra;
	state->sp = cfa;
	return 1;

fault:
	user_read_access_end();
	return 0;
}

static unsigned int unwind_user_batch(struct unwind_user_state *state,
				      unsigned long *entries, unsigned int max)
{
	if (state->at_entry)
		return unwind_user_entry_frame(state, entries);

	if (state->ws == sizeof(u32))
		return unwind_user_fp_batch(state, entries, max, sizeof(u32));

	return unwind_user_fp_batch(state, entries, max, sizeof(u64));
}

/* Nothing could end a wait for user memory any more, or somebody wants to. */
static bool unwind_user_dying(void)
{
	return (current->flags & PF_EXITING) || fatal_signal_pending(current);
}

/**
 * unwind_user_start - begin a walk
 * @state:	the position to set up
 * @regs:	user registers to start from
 *
 * Context: any. No user memory is read.
 */
void unwind_user_start(struct unwind_user_state *state, struct pt_regs *regs)
{
	unsigned int ws = unwind_user_word_size(regs);

	*state = (struct unwind_user_state) {
		.ip		= instruction_pointer(regs),
		.sp		= unwind_user_word(user_stack_pointer(regs), ws),
		.fp		= unwind_user_word(frame_pointer(regs), ws),
		.ws		= ws,
		.at_entry	= ws && unwind_user_at_function_start(regs),
		.done		= !ws,
	};
}

/**
 * unwind_user_walk - find callers
 * @state:	position, from unwind_user_start() or an earlier walk
 * @entries:	where to store return addresses, innermost first
 * @max:	room in @entries
 *
 * Ends when @max entries were stored, at the end of the stack, at anything that
 * does not look like a frame. A walk that ended because of @max can be continued
 * with the same @state. A task that is exiting or being killed never waits for
 * user memory: its walk ends at the first page that is not resident.
 *
 * Context: task context of the task that owns the stack. May fault and then
 * sleep, unless page faults are disabled.
 * Return: number of entries stored.
 */
unsigned int unwind_user_walk(struct unwind_user_state *state,
			      unsigned long *entries, unsigned int max)
{
	unsigned int nr = 0;

	while (!state->done && nr < max) {
		bool resident_only = unwind_user_dying();

		if (resident_only)
			pagefault_disable();
		nr += unwind_user_batch(state, entries + nr,
					min(max - nr, UNWIND_USER_BATCH));
		if (resident_only)
			pagefault_enable();
	}

	return nr;
}

/**
 * unwind_user - take a stack trace of current's user stack
 * @trace:	@trace->entries has room for @max_entries, the walk fills it in
 * @max_entries: maximum number of entries, the instruction pointer included
 *
 * Context: task context. May fault and then sleep, unless page faults are
 * disabled. Must not be called before the user registers are complete or after
 * they were changed on behalf of user space.
 * Return: 0, or -EINVAL when current has no user stack; @trace->nr is 0 then.
 */
int unwind_user(struct unwind_stacktrace *trace, unsigned int max_entries)
{
	struct pt_regs *regs = task_pt_regs(current);
	struct unwind_user_state state;

	trace->nr = 0;
	if (!is_user_task(current) || !user_mode(regs))
		return -EINVAL;

	unwind_user_start(&state, regs);
	if (state.done || !max_entries)
		return state.done ? -EINVAL : 0;

	trace->entries[0] = state.ip;
	trace->nr = 1 + unwind_user_walk(&state, trace->entries + 1, max_entries - 1);
	return 0;
}
