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
#include <linux/cache.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/uaccess.h>
#include <linux/unwind_user.h>

#include <asm/unwind_user_rule.h>

#include "sframe_user.h"
#include "text.h"
#include "unwind.h"

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

/**
 * unwind_user_word - read an address from user memory
 * @state:	the walk, which says how large it is
 * @addr:	where it is
 * @base:	base of the segment that it is relative to in 32-bit code
 * @val:	set to it
 *
 * Context: as the walk; page faults are allowed or disabled.
 * Return: true; false if it is misaligned or cannot be read.
 */
bool unwind_user_word(const struct unwind_user_state *state, unsigned long addr, u32 base,
		      unsigned long *val)
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

/*
 * Does a call end at this address of code? Samples of one loop find the same caller on
 * top of the stack again and again: remember the latest one.
 */
static __always_inline bool unwind_user_after_call(struct unwind_user_state *state,
						   unsigned long ra)
{
	struct unwind_text *text = state->text;
	bool called = text && ra == text->caller;

	if (likely(called))
		return true;
	called = arch_unwind_user_after_call(ra) > 0;
	if (called && unwind_text_may_remember(state, ra))
		text->caller = ra;
	return called;
}

/*
 * Read a word that may be a return address: after a call, the restorer of a signal
 * handler, or the trampoline of a return probe. Returns 0 when it is none; sets the
 * next step.
 */
static __always_inline unsigned long
unwind_user_caller(struct unwind_user_state *state, unsigned long addr)
{
	unsigned long ra;

	state->step = UNWIND_STEP_SIGNAL;

	if (!unwind_user_word(state, addr, state->cs_base, &ra) || !unwind_text_may_be(ra))
		return 0;
	if (unwind_is_trampoline(state, ra))
		return ra;
	if (!unwind_text(state, ra))
		return 0;
	if (unwind_user_after_call(state, ra)) {
		state->step = UNWIND_STEP_FP;
		return ra;
	}
	return arch_unwind_user_restorer(state, ra) ? ra : 0;
}

/* Like unwind_user_caller(), but replaces the trampoline of a return probe. */
static __always_inline unsigned long
unwind_user_real_caller(struct unwind_user_state *state, unsigned long addr)
{
	unsigned long ra = unwind_user_caller(state, addr);

	if (unwind_is_trampoline(state, ra) && !unwind_uretprobe_address(state, &ra, addr))
		return 0;
	return ra;
}

/* Compute a value by a rule; false if it needs a lost or unreadable value. */
static __always_inline bool
unwind_user_value(const struct unwind_user_state *state, bool exact, u8 base, s32 off,
		  unsigned long cfa, unsigned long *value)
{
	unsigned int reg = base & ~UNWIND_BASE_LOAD;
	unsigned long addr;

	if (reg == UNWIND_BASE_CFA)
		addr = cfa;
	else if (reg == ARCH_DWARF_SP)
		addr = state->sp;
	else if (reg == ARCH_DWARF_FP)
		addr = state->fp;
	else if (reg == UNWIND_BASE_ARCH)
		addr = state->arch;
	/* Only tables name other registers, of which few are known unless the ip is exact. */
	else if (!IS_ENABLED(CONFIG_UNWIND_USER_SFRAME) ||
		 (exact ? !arch_unwind_user_reg(state, reg, &addr) :
			  !arch_unwind_user_saved_reg(state, &state->code->range, reg, &addr)))
		return false;

	addr += off;
	if (!(base & UNWIND_BASE_LOAD)) {
		*value = addr;
		return true;
	}
	if (state->ws != sizeof(u64))
		return unwind_user_word(state, addr, state->ss_base, value);
	return !get_user(*value, (unsigned long __user *)addr);
}

/*
 * Get the caller's frame pointer, or 0 if it is not known: steps that use it will fail.
 */
static __always_inline unsigned long
unwind_user_caller_fp(const struct unwind_user_state *state, bool exact, const bool guess,
		      const struct unwind_user_frame *frame, unsigned long cfa)
{
	unsigned long fp;

	if (frame->fp == UNWIND_BASE_SAME)
		return state->fp;
	if (frame->fp == (ARCH_DWARF_FP | UNWIND_BASE_LOAD) && exact && !guess &&
	    arch_unwind_user_fp_restored(state))
		return state->fp;
	return unwind_user_value(state, exact, frame->fp, frame->fp_off, cfa, &fp) ? fp : 0;
}

/* Is the CFA valid? The stack that a signal interrupted may be at any address. */
static __always_inline bool
unwind_user_cfa_ok(const struct unwind_user_state *state, bool exact, const bool guess,
		   const struct unwind_user_frame *frame, unsigned long cfa)
{
	if (!IS_ALIGNED(cfa, state->ws))
		return false;
	if (cfa == state->sp)
		return exact && !frame->signal && !guess;
	return cfa > state->sp || frame->signal;
}

/* Check a return address, and undo a return probe; false if it is not in code. */
static bool unwind_user_table_caller(struct unwind_user_state *state, unsigned long *ra,
				     unsigned long slot)
{
	if (unwind_text(state, *ra) || unwind_uretprobe_address(state, ra, slot))
		return true;

	unwind_count(UNWIND_STAT_NO_CODE);
	return false;
}

/*
 * Go to the caller by a rule: set ip, sp and fp, and the mapping of the return address, whether it
 * is a caller or not. False if there is no caller; ip, sp and fp are unchanged then. @guess is a
 * constant in each caller: the rule is that of code without a table. It names no place for the
 * return address but the CFA, and there is a caller only if a call ends at that address, or a
 * signal handler or return probe goes there; then the step is set, too.
 */
static __always_inline bool
unwind_user_go(struct unwind_user_state *state, bool exact, const bool guess,
	       const struct unwind_user_frame *frame, unsigned long *entry)
{
	unsigned long cfa, slot, ra, fp;

	if (!unwind_user_value(state, exact, frame->cfa, frame->cfa_off, 0, &cfa) ||
	    !unwind_user_cfa_ok(state, exact, guess, frame, cfa)) {
		if (!guess)
			unwind_count(UNWIND_STAT_ENDED_BAD_FRAME);
		return false;
	}
	if (!guess && !unwind_user_value(state, exact, frame->ra, frame->ra_off, cfa, &ra)) {
		unwind_count(UNWIND_STAT_ENDED_UNREADABLE);
		return false;
	}
	/* Now, because state->code is about to be the mapping of the caller. */
	fp = unwind_user_caller_fp(state, exact, guess, frame, cfa);

	slot = cfa + frame->ra_off;
	if (guess) {
		ra = unwind_user_real_caller(state, slot);
		if (!ra)
			return false;
	} else if (!unwind_user_table_caller(state, &ra, slot)) {
		return false;
	}

	*entry = ra;
	state->ip = ra;
	state->sp = cfa;
	state->fp = fp;
	/* A table says itself which frame is the outermost. */
	state->outermost = guess && !fp && (frame->fp & UNWIND_BASE_LOAD);
	return true;
}

/**
 * unwind_user_apply - go to the caller by the rule of a table
 * @state:	the walk; gets ip, sp and fp of the caller, and the mapping of the return address,
 *		whether it is a caller or not
 * @exact:	the ip is the next instruction to run, not a return address
 * @frame:	the rule, which has a caller
 * @entry:	set to the return address
 *
 * A table that leads to no caller ends the walk, and a counter says why.
 *
 * Context: as the walk.
 * Return: false if there is no caller; ip, sp and fp are unchanged then.
 */
bool unwind_user_apply(struct unwind_user_state *state, bool exact,
		       const struct unwind_user_frame *frame, unsigned long *entry)
{
	return unwind_user_go(state, exact, false, frame, entry);
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
	if ((text && ra == text->no_caller) || !unwind_text_may_be(ra))
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
	if (!unwind_text_may_be(state->fp))
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
	unsigned int says = unwind_text_look(state, false);

	if (says == UNWIND_SAYS_NOTHING && unwind_user_has_caller(state)) {
		/* The walk went to none of these callers: the ip is as exact as before. */
		state->step = UNWIND_STEP_CODE;
		*stop = entries + 1;
		says = unwind_text_look(state, true);
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
	if (state->syscall < 0 && unwind_text_look(state, false) != UNWIND_SAYS_SIGNAL) {
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
	u64 seq = unwind_text_seq(current->mm) | (u64)unwind_object_ticks() << 32;
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
