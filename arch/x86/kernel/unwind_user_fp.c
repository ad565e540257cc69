// SPDX-License-Identifier: GPL-2.0
/*
 * Follow the frame pointers of x86 user stacks, many at a time. A frame of a recorded stack takes
 * 38 instructions so, and 183 with unwind_user_fp_one().
 *
 * Contexts: as the walk: task context of the task that owns the stack, page faults allowed or
 * disabled. No locks, no allocation, and no call inside of a window of user access.
 *
 * Frame pointers and return addresses are untrusted user memory. Invariant: one mask serves a
 * batch, which reads at most UNWIND_USER_BATCH steps above the masked address. Each step is shorter
 * than two signal frames, also under speculation. So all reads end in the gap after user memory.
 */
#include <linux/bitops.h>
#include <linux/build_bug.h>
#include <linux/compiler.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/uaccess.h>
#include <linux/unwind_stats.h>
#include <linux/unwind_user_arch.h>
#include <linux/unwind_user_word.h>

#include <asm/unwind_user.h>

/* What arch_unwind_user_load() returns for a word that cannot be read. */
#define FAULT	((unsigned long)-EFAULT)

/*
 * Read a word of the stack inside a window of user access. No user address equals FAULT, so
 * callers that check the word for being a user address need not check for the fault before.
 */
static __always_inline unsigned long
load_word(unsigned long addr, u32 base, const unsigned int ws)
{
	unsigned long word = arch_unwind_user_load(addr, ws);

	/* A 4-byte word never equals FAULT, because it is zero-extended. */
	static_assert(sizeof(word) == sizeof(u64));
	if (ws == sizeof(u32) && likely(word != FAULT))
		word = (u32)(word + base);
	return word;
}

/*
 * Open a window of user access for frames from @fp on: for a batch if user pointers can be
 * masked, else for one frame. Lowers @max to the frames that the window serves; returns false if
 * there is no window.
 */
static __always_inline bool
open_window(unsigned long *fp, s32 low, s32 high, unsigned int *max)
{
	static_assert(UNWIND_USER_BATCH * (2 * ARCH_SIGNAL_FRAME_MIN(sizeof(u64))) <=
		      ARCH_USER_GAP);

	if (can_do_masked_user_access()) {
		*fp = (unsigned long)masked_user_access_begin((void __user *)(*fp + low)) - low;
		return true;
	}
	*max = 1;
	return user_read_access_begin((void __user *)(*fp + low), high - low);
}

/*
 * End a batch at a frame, with CFA @sp, that has a word equal to FAULT: its return address, which
 * is entries[nr], or its frame pointer, which is at @fp_at and may really be that number. Not
 * inlined: a call would take registers from the loop below.
 */
static noinline unsigned int end_at_fault(struct unwind_user_state *state, unsigned long *entries,
					  unsigned int nr, unsigned long sp, unsigned long fp_at)
{
	unsigned long fp;

	if (entries[nr] == FAULT || !unwind_user_word(state, fp_at, state->ss_base, &fp)) {
		unwind_count(UNWIND_STAT_ENDED_UNREADABLE);
	} else {
		nr++;
		state->step = UNWIND_STEP_SIGNAL;
		state->sp = sp;
		state->fp = fp;
		state->outermost = !fp;
	}
	if (nr)
		state->ip = entries[nr - 1];
	return nr;
}

/*
 * Follow saved frame pointers for up to @max frames, as long as each caller is in the mapping
 * @text: only the last address may be outside of it. @ws is a constant in each caller, which
 * makes the frame layout constant too.
 */
static __always_inline unsigned int
follow_all(struct unwind_user_state *state, const struct unwind_text_range *text,
	   unsigned long *entries, unsigned int max, const unsigned int ws)
{
	const struct unwind_user_frame frame = { ARCH_INIT_USER_FP_FRAME(ws) };
	const s32 ra_at = frame.cfa_off + frame.ra_off, fp_at = frame.cfa_off + frame.fp_off;
	const unsigned long start = text->start, size = text->size;
	const unsigned long near = ARCH_SIGNAL_FRAME_MIN(ws) / ws;
	unsigned long fp = state->fp, sp;
	unsigned long ra, next, off, words, *end;
	long nr;

	state->step = UNWIND_STEP_DONE;
	if (!open_window(&fp, min(ra_at, fp_at), max(ra_at, fp_at) + ws, &max)) {
		unwind_count(UNWIND_STAT_ENDED_UNREADABLE);
		return 0;
	}

	/*
	 * Count up to 0 to save a compare. OPTIMIZER_HIDE_VAR() keeps the compiler from
	 * holding ra, next and fp live, at three copies per iteration: they are computed
	 * again after the loop.
	 */
	nr = -(long)max;
	end = entries + max;
	do {
		ra = load_word(fp + ra_at, state->cs_base, ws);
		next = load_word(fp + fp_at, state->ss_base, ws);

		sp = fp + frame.cfa_off;
		OPTIMIZER_HIDE_VAR(sp);
		end[nr] = ra;
		off = ra - start;
		OPTIMIZER_HIDE_VAR(off);
		/* A misaligned frame pointer becomes large. */
		words = ror64(next - sp, ilog2(ws));
		OPTIMIZER_HIDE_VAR(words);
		if (unlikely(off >= size) || unlikely(words >= near))
			goto ended;

		/* Keep speculation within the same bound. */
		OPTIMIZER_HIDE_VAR(words);
		words &= roundup_pow_of_two(near) - 1;
		fp = sp + words * ws;
	} while (++nr);
	/* Of the last frame, as if it had ended the loop. */
	nr = -1;
ended:
	user_read_access_end();

	ra = off + start;
	next = sp + rol64(words, ilog2(ws));
	if (unlikely(ra == FAULT) || unlikely(next == FAULT))
		return end_at_fault(state, entries, nr + max, sp, sp - frame.cfa_off + fp_at);

	state->step = words < near ? UNWIND_STEP_FP : UNWIND_STEP_SIGNAL;
	state->ip = ra;
	state->sp = sp;
	state->fp = next;
	state->outermost = !next;
	return nr + 1 + max;
}

/* Not inlined: the loop of 64-bit code needs all registers. */
static noinline unsigned int
follow_32(struct unwind_user_state *state, const struct unwind_text_range *text,
	  unsigned long *entries, unsigned int max)
{
	return follow_all(state, text, entries, max, sizeof(u32));
}

/**
 * arch_unwind_user_fp_batch - follow frame pointers
 * @state:	the walk, whose frame pointer is aligned and not below its stack pointer
 * @text:	the mapping where callers are expected
 * @entries:	where to store return addresses
 * @max:	room in @entries, from 1 to UNWIND_USER_BATCH
 *
 * The same as that many calls of unwind_user_fp_one(), as long as return addresses are in @text;
 * the last one may be anywhere. Only a return address of -EFAULT counts as unreadable here.
 *
 * Context: as the walk; page faults are allowed or disabled.
 * Return: number of entries stored.
 */
unsigned int arch_unwind_user_fp_batch(struct unwind_user_state *state,
				       const struct unwind_text_range *text,
				       unsigned long *entries, unsigned int max)
{
	if (unlikely(state->ws == sizeof(u32)))
		return follow_32(state, text, entries, max);
	return follow_all(state, text, entries, max, sizeof(u64));
}
