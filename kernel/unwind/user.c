// SPDX-License-Identifier: GPL-2.0
/*
 * User stack walker.
 *
 * Runs in task context of the task whose stack it reads, where page faults are
 * allowed; with page faults disabled it works too and ends at the first page
 * that is not resident. No allocation; the lock of a mapping is taken to see
 * whether an address is code.
 *
 * Registers and stack belong to the user and may say anything. Everything rests
 * on one invariant: each step either adds an entry or is the last of its kind in
 * a row, and below a signal frame each one that adds an entry moves the stack
 * pointer strictly up. So a walk ends after as many steps
 * as the caller has room for, whatever the stack holds. A failed test or read is
 * never an error. It is the end of the walk, or where code or a signal frame cannot
 * be read, the end of what these could tell; what was found so far is kept.
 *
 * What differs from the in-place walker of perf: the code at an exact ip tells of
 * frames that are not built yet or not any more; a signal frame leads to the code
 * that was interrupted, on whatever stack; a return address that is no code ends
 * the walk and is not shown.
 */
#include <linux/bitops.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/uaccess.h>
#include <linux/unwind_user.h>

#include "text.h"
#include "unwind.h"

/*
 * Frames between two looks at pending signals.
 */
#define UNWIND_USER_BATCH	64

/*
 * A frame pointer that may be followed from @sp. That it points into user
 * memory is left to the access itself.
 */
static __always_inline bool
unwind_user_base_ok(unsigned long base, unsigned long sp, unsigned int ws)
{
	return base >= sp && !(base & (ws - 1));
}

/*
 * The same, and too near for a signal frame to be in between. In one comparison:
 * what is misaligned becomes large.
 */
static __always_inline bool
unwind_user_base_near(unsigned long base, unsigned long sp, unsigned int ws)
{
	return ror64(base - sp, ilog2(ws)) < ARCH_SIGNAL_FRAME_MIN(ws) / ws;
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
 * Follow saved frame pointers for up to @max frames, as long as one caller is in
 * the same mapping as the one before: only the last address may be none of code.
 * @ws is a constant in each caller, which makes the frame layout one too.
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
	const unsigned long start = state->code.start, size = state->code.size;
	unsigned long *entry = entries, *end = entries + max;
	unsigned long fp = state->fp, sp = state->sp;
	const bool masked = can_do_masked_user_access();
	void __user *win;

	state->step = UNWIND_STEP_DONE;
	if (!unwind_user_base_ok(fp, sp, ws))
		return 0;

	if (masked)
		win = masked_user_access_begin((void __user *)(fp + low));

	do {
		unsigned long ra, next;

		win = (void __user *)(fp + low);
		if (masked)
			win = mask_user_address(win);
		else if (!user_read_access_begin(win, high - low + ws))
			goto out;

		unwind_user_load(ra, win + (frame.cfa_off + frame.ra_off - low), ws, fault);
		unwind_user_load(next, win + (frame.cfa_off + frame.fp_off - low), ws, fault);

		if (!masked)
			user_read_access_end();

		if (ws == sizeof(u32)) {
			ra = (u32)(ra + state->cs_base);
			next = (u32)(next + state->ss_base);
		}

		sp = fp + frame.cfa_off;
		fp = next;
		*entry++ = ra;
		if (unlikely(ra - start >= size))
			break;
	} while (likely(unwind_user_base_near(fp, sp, ws)) && entry != end);

	if (masked)
		user_read_access_end();
	state->step = fp - sp < ARCH_SIGNAL_FRAME_MIN(ws) ? UNWIND_STEP_FP : UNWIND_STEP_SIGNAL;
	goto out;

fault:
	user_read_access_end();
out:
	if (entry != entries)
		state->ip = entry[-1];
	state->sp = sp;
	state->fp = fp;
	return entry - entries;
}

/* Not inlined: the loop needs all registers. */
static noinline unsigned int
unwind_user_fp_32(struct unwind_user_state *state, unsigned long *entries, unsigned int max)
{
	return unwind_user_fp_batch(state, entries, max, sizeof(u32));
}

static noinline unsigned int
unwind_user_fp_64(struct unwind_user_state *state, unsigned long *entries, unsigned int max)
{
	return unwind_user_fp_batch(state, entries, max, sizeof(u64));
}

static unsigned int unwind_user_fp(struct unwind_user_state *state,
				   unsigned long *entries, unsigned int max)
{
	unsigned long *last;
	unsigned int nr;

	max = min_t(unsigned int, max, UNWIND_USER_BATCH);
	nr = state->ws == sizeof(u32) ? unwind_user_fp_32(state, entries, max) :
					unwind_user_fp_64(state, entries, max);
	if (!nr)
		return 0;

	/* All others are where the first was expected. */
	last = &entries[nr - 1];
	if (unwind_text(state, *last))
		return nr;
	if (unwind_uretprobe_address(state, last, state->sp - state->ws)) {
		state->ip = *last;
		return nr;
	}

	unwind_count(UNWIND_STAT_NO_CODE);
	state->step = UNWIND_STEP_DONE;
	return nr - 1;
}

/* Read an address; one of 32-bit code is relative to its segment's base. */
static bool unwind_user_word(const struct unwind_user_state *state, unsigned long addr,
			     u32 base, unsigned long *val)
{
	u32 word;

	if (!IS_ALIGNED(addr, state->ws))
		return false;
	if (state->ws == sizeof(u64))
		return !get_user(*val, (unsigned long __user *)addr);

	if (get_user(word, (u32 __user *)addr))
		return false;
	*val = (u32)(word + base);
	return true;
}

/*
 * Read what may be a return address: behind a call, where a signal handler returns
 * to, or where a return probe put its trampoline. Returns 0 when it is none.
 */
static unsigned long unwind_user_caller(struct unwind_user_state *state, unsigned long addr)
{
	unsigned long ra;

	if (!unwind_user_word(state, addr, state->cs_base, &ra))
		return 0;
	if (unwind_is_trampoline(state, ra))
		return ra;
	if (unwind_text(state, ra) && (arch_unwind_user_after_call(ra) ||
				       arch_unwind_user_restorer(state, ra)))
		return ra;
	return 0;
}

/* Is this word of the stack the same as the frame pointer? */
static bool unwind_user_is_fp(struct unwind_user_state *state, unsigned long addr)
{
	unsigned long word;

	return unwind_user_word(state, addr, state->ss_base, &word) && word == state->fp;
}

/*
 * What the code at the ip says. There is no need to follow it, unless one of the
 * words where a return address may be is one.
 */
static enum unwind_user_says unwind_user_look(struct unwind_user_state *state)
{
	enum unwind_user_says says = unwind_text_look(state, false);

	if (says == UNWIND_SAYS_NOTHING &&
	    (unwind_user_caller(state, state->sp) ||
	     unwind_user_caller(state, state->sp + state->ws)))
		says = unwind_text_look(state, true);
	return says;
}

/* The caller by what the code at the ip says, if there is one where it should be. */
static unsigned int unwind_user_code(struct unwind_user_state *state,
				     unsigned long *entries)
{
	enum unwind_user_says says = unwind_user_look(state);
	unsigned long cfa = state->sp + state->ws;
	unsigned long ra, fp = state->fp;

	state->step = UNWIND_STEP_FP;

	switch (says) {
	case UNWIND_SAYS_SIGNAL:
		state->step = UNWIND_STEP_SIGNAL;
		return 0;
	case UNWIND_SAYS_PUSHED:
		/* It is the caller's still, or the stack is all of the frame again. */
		if ((state->fp != state->sp && !unwind_user_is_fp(state, state->sp)) ||
		    !unwind_user_word(state, state->sp, state->ss_base, &fp))
			return 0;
		cfa += state->ws;
		break;
	case UNWIND_SAYS_DRAP:
		cfa = state->drap;
		break;
	case UNWIND_SAYS_JUMP:
		if (!unwind_user_is_fp(state, state->sp - state->ws))
			return 0;
		break;
	case UNWIND_SAYS_NO_CODE:
		if (unwind_text(state, state->ip))
			return 0;
		break;
	case UNWIND_SAYS_TOP:
		break;
	default:
		return 0;
	}

	ra = unwind_user_caller(state, cfa - state->ws);
	if (!ra || cfa <= state->sp)
		return 0;

	if (unwind_is_trampoline(state, ra) &&
	    !unwind_uretprobe_address(state, &ra, cfa - state->ws))
		return 0;

	entries[0] = ra;
	state->ip = ra;
	state->sp = cfa;
	state->fp = fp;
	/* It may be a restorer. */
	state->step = UNWIND_STEP_SIGNAL;
	return 1;
}

/*
 * The code that a signal interrupted, if this is the end of its handler. Each takes
 * a look at the code, and may lead to the next one: a walk passes a few only.
 */
static unsigned int unwind_user_signal(struct unwind_user_state *state,
				       unsigned long *entries)
{
	/* At a return address it shows in the code, which was seen before most often. */
	if (state->syscall < 0 && unwind_text_look(state, false) != UNWIND_SAYS_SIGNAL) {
		state->step = unwind_user_base_ok(state->fp, state->sp, state->ws) ?
			UNWIND_STEP_FP : UNWIND_STEP_DONE;
		return 0;
	}
	if (!arch_unwind_user_signal_frame(state)) {
		/* In the innermost frame the code was not looked at yet. */
		state->step = state->syscall >= 0 ? UNWIND_STEP_CODE : UNWIND_STEP_FP;
		state->syscall = -1;
		return 0;
	}
	if (!state->ws || state->ip >= TASK_SIZE_MAX ||
	    ++state->signals > UNWIND_USER_SIGNALS) {
		state->step = UNWIND_STEP_DONE;
		return 0;
	}

	entries[0] = state->ip;
	state->step = UNWIND_STEP_CODE;
	return 1;
}

static unsigned int unwind_user_step(struct unwind_user_state *state,
				     unsigned long *entries, unsigned int max)
{
	switch (state->step) {
	case UNWIND_STEP_CODE:
		return unwind_user_code(state, entries);
	case UNWIND_STEP_SIGNAL:
		return unwind_user_signal(state, entries);
	default:
		return unwind_user_fp(state, entries, max);
	}
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
 * @text:	what walks of this task remember of its code, or NULL; zeroed before
 *		the first one, and when the task gets another address space
 *
 * Context: task context of the task that owns @regs. No user memory is read.
 */
void unwind_user_start(struct unwind_user_state *state, struct pt_regs *regs,
		       struct unwind_text *text)
{
	*state = (struct unwind_user_state) { .text = text };
	arch_unwind_user_set(state, regs);
	if (!state->ws)
		return;

	/* A system call may be sigreturn; anywhere else the code tells. */
	state->step = state->syscall >= 0 ? UNWIND_STEP_SIGNAL : UNWIND_STEP_CODE;
	unwind_uretprobe_init(state);
	if (text)
		unwind_text_begin(state);
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

	while (state->step != UNWIND_STEP_DONE && nr < max) {
		bool resident_only = unwind_user_dying();

		if (resident_only)
			pagefault_disable();
		nr += unwind_user_step(state, entries + nr, max - nr);
		if (resident_only)
			pagefault_enable();
		else if (!pagefault_disabled())
			cond_resched();
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
	struct unwind_text text = {};

	trace->nr = 0;
	if (!is_user_task(current) || !user_mode(regs))
		return -EINVAL;

	unwind_user_start(&state, regs, &text);
	if (!state.ws || !max_entries)
		return state.ws ? 0 : -EINVAL;

	trace->entries[0] = state.ip;
	trace->nr = 1 + unwind_user_walk(&state, trace->entries + 1, max_entries - 1);
	return 0;
}
