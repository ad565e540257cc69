// SPDX-License-Identifier: GPL-2.0
/*
 * User stack walker.
 *
 * Runs in task context of the task whose stack it reads, where page faults are
 * allowed. With page faults disabled it works too, and ends at the first page
 * that is not resident. It may take the lock of the mappings to see whether an address
 * is code, and where page faults are allowed, read a mapped file for SFrame tables.
 *
 * The user controls registers and stack, which may hold anything. Everything rests
 * on one invariant: each step either adds an entry or is the last of its kind in
 * a row, and each step that adds an entry moves the stack pointer strictly up, except at
 * a signal frame and at up to UNWIND_USER_SWITCHES switches to a lower stack. So a walk
 * ends after as many steps as the caller has room for, whatever the stack holds. A failed
 * test or read is never an error: it ends the walk, or where code or a signal frame cannot
 * be read, only what these could tell. The walk keeps the entries found so far.
 *
 * Differences from perf's in-place walker: the code at an exact ip tells of frames
 * that are not built yet or already torn down; a signal frame leads to the
 * interrupted code, on any stack; a return address outside of code ends the walk
 * and is not reported.
 */
#include <linux/bits.h>
#include <linux/cache.h>
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/uaccess.h>
#include <linux/unwind_user.h>
#include <linux/unwind_user_word.h>

#include <asm/unwind_user_rule.h>

#include "rule.h"
#include "sframe_user.h"
#include "text.h"
#include "unwind.h"
#include "vma.h"

struct unwind_text_code unwind_text_none __ro_after_init;

/*
 * May the walk follow the frame pointer @base from @sp? The access itself checks
 * whether it points into user memory.
 */
static __always_inline bool
unwind_user_base_ok(unsigned long base, unsigned long sp, unsigned int ws)
{
	return base >= sp && !(base & (ws - 1));
}

/* The outermost frame pointer is 0, which is the normal end of a walk. */
static void unwind_user_bad_frame(unsigned long fp)
{
	if (fp)
		unwind_count(UNWIND_STAT_ENDED_BAD_FRAME);
}

/*
 * Follow one saved frame pointer. A stack that goes on far away, or is misaligned, may be that
 * of a signal handler.
 */
static unsigned int unwind_user_fp_one(struct unwind_user_state *state, unsigned long *entries)
{
	const struct unwind_user_frame frame = { ARCH_INIT_USER_FP_FRAME(state->ws) };
	unsigned long sp = state->fp + frame.cfa_off, ra, fp;

	state->step = UNWIND_STEP_DONE;
	if (!unwind_user_word(state, sp + frame.ra_off, state->cs_base, &ra) ||
	    !unwind_user_word(state, sp + frame.fp_off, state->ss_base, &fp)) {
		unwind_count(UNWIND_STAT_ENDED_UNREADABLE);
		return 0;
	}

	entries[0] = ra;
	state->ip = ra;
	state->sp = sp;
	state->fp = fp;
	state->outermost = !fp;
	state->step = IS_ALIGNED(fp - sp, state->ws) &&
		      fp - sp < ARCH_SIGNAL_FRAME_MIN(state->ws) ?
		      UNWIND_STEP_FP : UNWIND_STEP_SIGNAL;
	return 1;
}

/* Addresses have spare bits: two for the word size, and below them four for the answer. */
#define UNWIND_CODE_SAYS	GENMASK(3, 0)

static __always_inline u64 unwind_code_key(const struct unwind_user_state *state)
{
	return state->ip << 6 | state->ws << 2;
}

/* Is a uprobe being handled? Then the code is not what other walks read there. */
static __always_inline bool unwind_code_at_uprobe(void)
{
#ifdef CONFIG_UPROBES
	return unlikely(current->utask) && current->utask->auprobe;
#else
	return false;
#endif
}

/*
 * See what the code at the ip says, and remember it in the two slots @look, which may be NULL.
 * Returns as arch_unwind_user_look(), or UNWIND_SAYS_NO_CODE.
 */
static noinline unsigned int
unwind_code_look_at(struct unwind_user_state *state, u64 *look, bool follow)
{
	unsigned int says = UNWIND_SAYS_NO_CODE;

	/* Do not decode bytes outside executable mappings. */
	if (unwind_text(state, state->ip) || unwind_is_trampoline(state, state->ip)) {
		says = arch_unwind_user_look(state, follow);
		if (says != UNWIND_SAYS_SIGNAL && unwind_sframe_knows(state))
			says = UNWIND_SAYS_SFRAME;
		if (says == UNWIND_SAYS_NOTHING && follow)
			says = UNWIND_SAYS_FP;
	}

	/* Do not cache the answer for code that cannot be read now, but may be later. */
	if (look && says != UNWIND_SAYS_NO_CODE && unwind_text_may_remember(state, state->ip)) {
		u64 key = unwind_code_key(state);

		if ((look[0] ^ key) > UNWIND_CODE_SAYS)
			look[1] = look[0];
		look[0] = key | says;
	}
	return says;
}

/* Likewise, from the cache if possible. For @follow see arch_unwind_user_look(). */
static __always_inline unsigned int
unwind_code_look(struct unwind_user_state *state, bool follow)
{
	u64 key = unwind_code_key(state), says, *look = NULL;

	static_assert(ARCH_UNWIND_SAYS_MAX <= UNWIND_CODE_SAYS);
	if (state->text && !unwind_code_at_uprobe()) {
		look = state->text->look[hash_64(key, ilog2(UNWIND_TEXT_LOOKS))];
		says = look[0] ^ key;
		if (unlikely(says > UNWIND_CODE_SAYS))
			says = look[1] ^ key;
		/* If the first instruction said nothing, the code after it may tell. */
		if (likely(says <= UNWIND_CODE_SAYS) && (says || !follow))
			return says;
	}
	return unwind_code_look_at(state, look, follow);
}

/*
 * After a step by a guess or to another stack: the caller may have a table. @ip is of before;
 * for the stack pointer of before, the CFA does, as no frame below it could tell more.
 */
static void unwind_user_enter(struct unwind_user_state *state, unsigned long ip)
{
	if (unwind_sframe_has_table(state))
		unwind_sframe_enter(state, ip, state->sp);
	state->arch = 0;
}

/*
 * Read the return address of a frame down the stack; 0 if no call ends there. Some libraries
 * use the frame pointer for other purposes, and then each walk may end at the same word:
 * remember one that is no return address.
 */
static unsigned long unwind_user_switch_caller(struct unwind_user_state *state,
					       unsigned long addr)
{
	struct unwind_text *text = state->text;
	unsigned long ra;
	int called;

	if (!unwind_user_word(state, addr, state->cs_base, &ra))
		return 0;
	if ((text && ra == text->no_caller) || !unwind_may_be_user(ra))
		return 0;
	if (!unwind_uretprobe_address(state, &ra, addr) && !unwind_text(state, ra))
		return 0;

	called = arch_unwind_user_after_call(ra);
	if (!called && unwind_text_may_remember(state, ra))
		text->no_caller = ra;
	return called > 0 ? ra : 0;
}

/*
 * Follow a frame pointer that leads down the stack. It may lead to another stack:
 * coroutines have theirs wherever they were allocated, and their runtimes call from them
 * to the stack of the thread. Other data there rarely looks like a return address.
 */
static unsigned int unwind_user_switch(struct unwind_user_state *state, unsigned long *entries)
{
	const struct unwind_user_frame frame = { ARCH_INIT_USER_FP_FRAME(state->ws) };
	unsigned long cfa = state->fp + frame.cfa_off, ip = state->ip, ra, fp;

	state->step = UNWIND_STEP_DONE;
	/* Most walks end at frame pointer 0: reading there would cost the task a page fault. */
	if (!unwind_may_be_user(state->fp))
		goto bad_frame;
	if (cfa > state->sp)
		goto bad_frame;
	ra = unwind_user_switch_caller(state, cfa + frame.ra_off);
	if (!ra || state->switches == UNWIND_USER_SWITCHES ||
	    !unwind_user_word(state, cfa + frame.fp_off, state->ss_base, &fp))
		goto bad_frame;

	state->switches++;
	state->low = 0;
	state->step = UNWIND_STEP_SIGNAL;
	entries[0] = ra;
	state->ip = ra;
	state->sp = cfa;
	state->fp = fp;
	state->outermost = !fp;
	unwind_user_enter(state, ip);
	return 1;

bad_frame:
	unwind_user_bad_frame(state->fp);
	return 0;
}

/* If a return probe replaced the last return address, put the real one in its place. */
static bool unwind_user_probed(struct unwind_user_state *state, unsigned long *last)
{
	if (!unwind_uretprobe_address(state, last, state->sp - state->ws))
		return false;
	state->ip = *last;
	return true;
}

#ifndef arch_unwind_user_fp_batch
static unsigned int arch_unwind_user_fp_batch(struct unwind_user_state *state,
					      const struct unwind_text_range *text,
					      unsigned long *entries, unsigned int max)
{
	return unwind_user_fp_one(state, entries);
}
#endif

/* Follow up to @max frame pointers: UNWIND_USER_BATCH at most. */
static unsigned int unwind_user_fp(struct unwind_user_state *state,
				   unsigned long *entries, unsigned int max)
{
	unsigned long *last, ip = state->ip, sp = state->sp, fp = state->fp;
	struct unwind_text_code *code = state->code;
	unsigned int nr;

	if (unlikely(!unwind_user_base_ok(fp, sp, state->ws)))
		return unwind_user_switch(state, entries);

retry:
	/* One frame at a time: a table that says nothing here may cover the next frame. */
	if (unwind_sframe_has_table(state))
		nr = unwind_user_fp_one(state, entries);
	else
		nr = arch_unwind_user_fp_batch(state, &state->code->range, entries, max);
	if (!nr)
		return 0;

	/* All addresses before the last one are in the expected mapping. */
	last = &entries[nr - 1];
	if (unwind_text(state, *last) || unwind_user_probed(state, last)) {
		if (unlikely(unwind_sframe_has_table(state)) && state->step != UNWIND_STEP_DONE) {
			if (nr > 1) {
				/* unwind_sframe_enter() needs the frame before: go there first. */
				state->ip = ip;
				state->sp = sp;
				state->fp = fp;
				state->code = code;
				max = nr - 1;
				goto retry;
			}
			unwind_sframe_enter(state, ip, sp);
		}
		state->arch = 0;
		return nr;
	}

	unwind_count(UNWIND_STAT_NO_CODE);
	state->step = UNWIND_STEP_DONE;
	state->outermost = false;
	return nr - 1;
}

/* Does a word that may be the return address of code without a frame lead to a caller? */
static noinline bool unwind_user_has_caller(struct unwind_user_state *state)
{
	unsigned long slot;

	for (unsigned int nr = 0; arch_unwind_user_slot(state, nr, &slot); nr++) {
		if (unwind_user_caller(state, slot))
			return true;
	}
	return false;
}

/*
 * Ask the code at the ip where the return address is. Follow the code only if one of
 * the words that may hold a return address does. That takes as long as some frames: move @stop,
 * so that a look at signals comes soon.
 */
static unsigned int unwind_user_look(struct unwind_user_state *state,
				     unsigned long *entries, unsigned long **stop)
{
	unsigned int says = unwind_code_look(state, false);

	if (says == UNWIND_SAYS_NOTHING && unwind_user_has_caller(state)) {
		/* The walk went to none of these callers: the ip is as exact as before. */
		state->step = UNWIND_STEP_CODE;
		*stop = entries + 1;
		says = unwind_code_look(state, true);
	}
	return says;
}

/*
 * Find the caller by the code at the ip, if a return address is in the expected place. Moves @stop
 * to where the trip has to end, which is later than @entries.
 */
static unsigned int unwind_user_code(struct unwind_user_state *state,
				     unsigned long *entries, unsigned long **stop)
{
	struct unwind_user_frame frame __uninitialized;
	unsigned int says = unwind_user_look(state, entries, stop);
	unsigned long ip = state->ip;

	if (says == UNWIND_SAYS_SFRAME)
		return unwind_sframe_walk(state, entries, *stop - entries);
	if (says == UNWIND_SAYS_SIGNAL) {
		state->step = UNWIND_STEP_SIGNAL;
		return 0;
	}

	if ((says == UNWIND_SAYS_NO_CODE && unwind_text(state, ip)) ||
	    !arch_unwind_user_rule(state, says, &frame) ||
	    !unwind_user_go(state, true, true, &frame, entries)) {
		state->step = UNWIND_STEP_FP;
		return 0;
	}
	unwind_user_enter(state, ip);
	return 1;
}

/*
 * Find the code that a signal interrupted, if this is the end of its handler. Each
 * signal frame costs a look at the code, and may lead to the next one: a walk passes
 * only UNWIND_USER_SIGNALS.
 */
static unsigned int unwind_user_signal(struct unwind_user_state *state,
				       unsigned long *entries)
{
	/* At a return address the code tells; the answer is mostly cached. */
	if (state->syscall < 0 && unwind_code_look(state, false) != UNWIND_SAYS_SIGNAL) {
		state->step = UNWIND_STEP_FP;
		return 0;
	}
	if (!arch_unwind_user_signal_frame(state)) {
		/* The code of the innermost frame was not looked at yet. */
		state->step = state->syscall >= 0 ? UNWIND_STEP_CODE : UNWIND_STEP_FP;
		state->syscall = -1;
		return 0;
	}
	state->step = UNWIND_STEP_DONE;
	state->outermost = false;
	if (!state->ws || state->ip >= TASK_SIZE_MAX) {
		unwind_count(UNWIND_STAT_ENDED_BAD_FRAME);
		return 0;
	}
	if (++state->signals > UNWIND_USER_SIGNALS) {
		unwind_count(UNWIND_STAT_ENDED_SIGNALS);
		return 0;
	}

	entries[0] = state->ip;
	state->step = UNWIND_STEP_CODE;
	return 1;
}

/* Take a step, of which there is room for up to @stop; moves it down if the step takes long. */
static unsigned int unwind_user_step(struct unwind_user_state *state,
				     unsigned long *entries, unsigned long **stop)
{
	unsigned int nr = 0, max;

	switch (state->step) {
	case UNWIND_STEP_SIGNAL:
		nr = unwind_user_signal(state, entries);
		break;
	case UNWIND_STEP_CODE:
		nr = unwind_user_code(state, entries, stop);
		break;
	case UNWIND_STEP_SFRAME:
		return unwind_sframe_walk(state, entries, *stop - entries);
	case UNWIND_STEP_FP:
	case UNWIND_STEP_DONE:
		break;
	}

	/* Most of these steps lead to frame pointers. */
	max = *stop - entries;
	if (state->step != UNWIND_STEP_FP || nr >= max)
		return nr;
	return nr + unwind_user_fp(state, entries + nr, max - nr);
}

/* Forget what is known about the code, if it may have become stale. */
static __always_inline void unwind_user_recall(struct unwind_user_state *state)
{
	u64 seq = unwind_vma_seq(current->mm) | (u64)unwind_object_ticks() << 32;
	struct unwind_text *text = state->text;

	if (unlikely((seq & 1) || seq != text->seq))
		unwind_text_begin_anew(text, seq);
	/* The first caller is likely to be in a mapping where one was before. */
	state->code = &text->code[0];
}

/**
 * unwind_user_start - begin a walk
 * @state:	the position to set up
 * @regs:	user registers to start from
 * @text:	cache of the task's code for its walks, or NULL; zeroed before the first
 *		walk, and forgotten when the task gets another address space
 * @own:	room for one mapping if @text is NULL, valid as long as @state
 *
 * Context: task context of the task that owns @regs. No user memory is read.
 */
void unwind_user_start(struct unwind_user_state *state, struct pt_regs *regs,
		       struct unwind_text *text, struct unwind_text_code *own)
{
	arch_unwind_user_set(state, regs);
	state->signals = 0;
	state->switches = 0;
	state->step = UNWIND_STEP_DONE;
	state->code = &unwind_text_none;
	state->own = own;
	state->text = text;
	state->uretprobe = NULL;
	state->regs = regs;
	state->signal_regs = 0;
	state->no_load = false;
	state->outermost = false;
	if (!state->ws)
		return;

	/* The system call may be sigreturn; anywhere else the code tells. */
	state->step = state->syscall >= 0 ? UNWIND_STEP_SIGNAL : UNWIND_STEP_CODE;
	unwind_uretprobe_init(state);
	if (text)
		unwind_user_recall(state);
}

/**
 * unwind_user_walk - find callers
 * @state:	position, from unwind_user_start() or an earlier walk
 * @entries:	where to store return addresses, innermost first
 * @max:	room in @entries
 *
 * Ends when @max entries were stored, at the end of the stack, or at anything that
 * does not look like a frame. A walk that ended because of @max can be continued
 * with the same @state. A task that exits, is being killed or is in exec never waits for
 * user memory: its walk ends at the first page that is not resident.
 *
 * Context: task context of the task that owns the stack. May fault and then
 * sleep, unless page faults are disabled.
 * Return: number of entries stored.
 */
unsigned int unwind_user_walk(struct unwind_user_state *state,
			      unsigned long *entries, unsigned int max)
{
	unsigned long *at = entries, *end = entries + max;

	while (state->step != UNWIND_STEP_DONE && at < end) {
		bool resident_only = unwind_must_not_wait();
		unsigned long *stop = min(at + UNWIND_USER_BATCH, end);
		/* Most walks are a step of some frames, and one that finds no more. */
		unsigned int steps = 2;

		if (resident_only)
			pagefault_disable();
		do {
			at += unwind_user_step(state, at, &stop);
		} while (--steps && state->step == UNWIND_STEP_SIGNAL && at < stop);
		if (resident_only)
			pagefault_enable();
		if (!pagefault_disabled())
			cond_resched();
	}

	return at - entries;
}

/**
 * unwind_user - take a stack trace of current's user stack
 * @trace:	to be filled in; @trace->entries has room for @max_entries
 * @max_entries: maximum number of entries, the instruction pointer included
 *
 * Context: task context. May fault and then sleep, unless page faults are
 * disabled. Must not be called before the user registers are complete, or after
 * they were changed on behalf of user space.
 * Return: 0, or -EINVAL when current has no user stack; @trace->nr is 0 then.
 */
int unwind_user(struct unwind_stacktrace *trace, unsigned int max_entries)
{
	struct unwind_user_state state __uninitialized;
	struct unwind_text_code own __uninitialized;
	struct pt_regs *regs = task_pt_regs(current);

	trace->nr = 0;
	trace->early = false;
	if (!is_user_task(current) || !user_mode(regs))
		return -EINVAL;

	unwind_user_start(&state, regs, NULL, &own);
	if (!state.ws || !max_entries)
		return state.ws ? 0 : -EINVAL;

	trace->entries[0] = state.ip;
	trace->nr = 1 + unwind_user_walk(&state, trace->entries + 1, max_entries - 1);
	trace->early = state.step == UNWIND_STEP_DONE && !state.outermost;
	return 0;
}
