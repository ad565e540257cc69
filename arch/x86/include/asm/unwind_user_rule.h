/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rules of x86 frames without a table, from what their code says. Only for the walker of
 * kernel/unwind, which needs one of them in most samples: they are inline, so that no rule has
 * to be put in memory.
 *
 * Contexts: as unwind_user_code.c, which reads the code.
 *
 * The stack is untrusted user memory. Without the words of the stack that the code speaks of,
 * there is no rule. The return address of a rule may be none: the walker has to check it.
 */
#ifndef _ASM_X86_UNWIND_USER_RULE_H
#define _ASM_X86_UNWIND_USER_RULE_H

#include <linux/compiler.h>
#include <linux/types.h>
#include <linux/unwind_user_arch.h>
#include <linux/unwind_user_word.h>

#include <asm/unwind_user.h>

/* Is this word of the stack the caller's frame pointer, or is the frame all that is left? */
static __always_inline bool x86_unwind_fp_pushed(const struct unwind_user_state *state)
{
	unsigned long word;

	return unwind_user_word(state, state->sp, state->ss_base, &word) &&
	       (word == state->fp || state->fp == state->sp);
}

/* Is the word below the stack pointer the frame pointer? */
static __always_inline bool x86_unwind_fp_below(const struct unwind_user_state *state)
{
	unsigned long word;

	return unwind_user_word(state, state->sp - state->ws, state->ss_base, &word) &&
	       word == state->fp;
}

/*
 * Does a frame begin right below the stack pointer? Go builds it before it calls code
 * without a prologue, so its words are in the usual places.
 */
static __always_inline bool x86_unwind_frame_below(const struct unwind_user_state *state)
{
	return state->fp == state->sp - state->ws;
}

/**
 * arch_unwind_user_rule - get the rule of a frame from what the code at the user ip says
 * @state:	a walk whose ip is exact
 * @says:	the answer of arch_unwind_user_look()
 * @frame:	set to the rule
 *
 * Context: as the walk; page faults are allowed or disabled.
 * Return: false, with @frame unset, if there is none, or if the stack is not as the code says.
 */
static __always_inline bool
arch_unwind_user_rule(const struct unwind_user_state *state, unsigned int says,
		      struct unwind_user_frame *frame)
{
	u8 cfa = ARCH_DWARF_SP, fp = UNWIND_BASE_SAME;
	s32 cfa_off = state->ws;
	unsigned long word;

	switch (says) {
	case X86_SAYS_TOP:
		if (x86_unwind_frame_below(state))
			fp = ARCH_DWARF_FP | UNWIND_BASE_LOAD;
		break;
	case UNWIND_SAYS_FP:
		if (!x86_unwind_frame_below(state) ||
		    !unwind_user_word(state, state->fp, state->ss_base, &word))
			return false;
		fp = ARCH_DWARF_FP | UNWIND_BASE_LOAD;
		break;
	case UNWIND_SAYS_NO_CODE:
		break;
	case X86_SAYS_JUMP:
		if (!x86_unwind_fp_below(state))
			return false;
		break;
	case X86_SAYS_PUSHED:
	case X86_SAYS_PUSHED_3:
		if (!x86_unwind_fp_pushed(state))
			return false;
		cfa_off *= says == X86_SAYS_PUSHED ? 2 : 4;
		fp = ARCH_DWARF_SP | UNWIND_BASE_LOAD;
		break;
	case X86_SAYS_DRAP:
		cfa = UNWIND_BASE_ARCH;
		cfa_off = 0;
		break;
	default:
		return false;
	}

	*frame = (struct unwind_user_frame) {
		.cfa	= cfa,
		.cfa_off = cfa_off,
		.ra	= UNWIND_BASE_CFA | UNWIND_BASE_LOAD,
		.ra_off	= -(s32)state->ws,
		.fp	= fp,
	};
	return true;
}

#endif /* _ASM_X86_UNWIND_USER_RULE_H */
