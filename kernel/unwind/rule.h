/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Apply the rule of a frame: go to its caller.
 *
 * A rule comes from a table, or is that of code without one: user.c and sframe_user.c apply those
 * of their kind. The functions are inline, because each kind needs only some of the tests.
 *
 * Contexts: as the walk. Invariant: each address that a rule leads to is read with the accessors of
 * user memory, and a walk goes to no return address that is not in code.
 */
#ifndef _KERNEL_UNWIND_RULE_H
#define _KERNEL_UNWIND_RULE_H

#include <linux/align.h>
#include <linux/compiler.h>
#include <linux/kconfig.h>
#include <linux/types.h>
#include <linux/uaccess.h>
#include <linux/unwind_stats.h>
#include <linux/unwind_user_arch.h>
#include <linux/unwind_user_word.h>

#include <asm/unwind_user_rule.h>

#include "text.h"
#include "vma.h"

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

	if (!unwind_user_word(state, addr, state->cs_base, &ra) || !unwind_may_be_user(ra))
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
static __always_inline bool
unwind_user_table_caller(struct unwind_user_state *state, unsigned long *ra, unsigned long slot)
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

#endif /* _KERNEL_UNWIND_RULE_H */
