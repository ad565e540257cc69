// SPDX-License-Identifier: GPL-2.0
/*
 * Walk user stacks with SFrame tables.
 *
 * Contexts: as the walk: task context of the task that is walked, page faults allowed or
 * disabled. With page faults disabled no file is read.
 *
 * Tables are searched in RCU read-side sections, in which nothing faults. The result is
 * copied, and remembered as long as the task's other data about its code. Invariant: a
 * step moves the stack pointer strictly up, except that a step from an exact ip may leave
 * it unchanged, so at most two steps start at one stack pointer. Only a signal frame can
 * lead anywhere, because the handler may have its own stack: up to UNWIND_USER_SIGNALS times.
 *
 * Tables and stacks are controlled by userspace: all addresses in them are accessed with
 * the accessors of user memory, and each return address has to be in code.
 */
#include <linux/bits.h>
#include <linux/cleanup.h>
#include <linux/errno.h>
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/uaccess.h>
#include <linux/unwind_user.h>

#include "object.h"
#include "rule.h"
#include "sframe_user.h"
#include "text.h"
#include "unwind.h"

/* Uses of a table that are batched before its object is updated. */
#define UNWIND_SFRAME_HITS	256

/* Search the table of the mapping, and set @frame if found; false if the table is stale. */
static bool unwind_sframe_ask(const struct unwind_user_state *state, bool exact,
			      struct unwind_user_frame *frame)
{
	const struct unwind_object_ref *ref = &state->code->ref;
	const struct unwind_object *object;

	guard(rcu)();
	object = unwind_object_of(ref);
	if (!object)
		return false;
	sframe_find(object->table, state->ip - !exact - ref->bias, frame);
	return true;
}

/* Find the frame of the ip in the table; sets frame->unknown if it is not there. */
static void unwind_sframe_lookup(struct unwind_user_state *state, bool exact,
				 struct unwind_user_frame *frame)
{
	*frame = (struct unwind_user_frame) { .unknown = true };
	if (!unwind_text(state, state->ip) || !unwind_text_in(&state->code->range, state->ip))
		return;
	if (unwind_sframe_has_table(state) && !unwind_sframe_ask(state, exact, frame)) {
		/* Some object was dropped since the mapping's lookup: repeat it. */
		unwind_sframe_find(state, state->code);
		/* Another drop meanwhile: leave it to the next walk. */
		if (unwind_sframe_has_table(state) && !unwind_sframe_ask(state, exact, frame) &&
		    state->text)
			state->text->seq = 0;
	}

	/* ip - 1 is in the function before the restorer: ignore the table's answer. */
	if (!exact && (frame->unknown || frame->last) &&
	    arch_unwind_user_restorer(state, state->ip))
		*frame = (struct unwind_user_frame) { .unknown = true, .restorer = true };
}

/* Get the numbers of the two pairs of slots in which a frame may be remembered. */
static __always_inline unsigned int unwind_sframe_first(unsigned long key)
{
	return hash_long(key, ilog2(UNWIND_TEXT_FRAMES));
}

static __always_inline unsigned int unwind_sframe_second(unsigned long key)
{
	return hash_long(key, 2 * ilog2(UNWIND_TEXT_FRAMES)) % UNWIND_TEXT_FRAMES;
}

/* Find a remembered frame, or NULL. */
static __always_inline struct unwind_text_frame *
unwind_sframe_remembered(struct unwind_text *text, unsigned long key)
{
	struct unwind_text_frame *pair = text->frames[unwind_sframe_first(key)];

	if (likely(pair[0].key == key))
		return &pair[0];
	if (likely(pair[1].key == key))
		return &pair[1];
	pair = text->frames[unwind_sframe_second(key)];
	return pair[0].key == key ? &pair[0] :
	       pair[1].key == key ? &pair[1] : NULL;
}

/* Of the frames for which no slot is free, one in this many replaces another one. */
#define UNWIND_SFRAME_REPLACE	4

/*
 * Choose a slot for a frame: a free one, or sometimes one in use, or NULL. If each frame
 * replaced another one, repeated walks of a stack with too many frames would replace most of
 * them before their next use.
 */
static struct unwind_text_frame *unwind_sframe_slot(struct unwind_text *text,
						    unsigned long key)
{
	const unsigned int pairs[] = { unwind_sframe_first(key), unwind_sframe_second(key) };
	const unsigned int slots = 2 * ARRAY_SIZE(pairs);
	unsigned int nr = 0, full;

	while (nr < slots && text->frames[pairs[nr / 2]][nr % 2].key)
		nr++;
	if (nr == slots) {
		full = text->frames_full++;
		if (full % UNWIND_SFRAME_REPLACE)
			return NULL;
		nr = full / UNWIND_SFRAME_REPLACE % slots;
	}
	text->frames_used |= BIT_ULL(pairs[nr / 2]);
	return &text->frames[pairs[nr / 2]][nr % 2];
}

/* Pack the row of a caller; false if the form of the row is not a common one. */
static bool unwind_sframe_pack(const struct unwind_user_frame *frame,
			       struct unwind_text_frame *packed)
{
	if (frame->signal || frame->ra != (UNWIND_BASE_CFA | UNWIND_BASE_LOAD) ||
	    frame->ra_off != ARCH_SFRAME_RA_OFF)
		return false;

	packed->cfa = frame->cfa;
	packed->cfa_off = frame->cfa_off;
	packed->fp_off = frame->fp == UNWIND_BASE_SAME ? 0 : frame->fp_off;
	if (frame->cfa == (ARCH_DWARF_FP | UNWIND_BASE_LOAD)) {
		packed->kind = UNWIND_TEXT_DRAP;
		return frame->fp == frame->cfa && packed->fp_off == frame->fp_off;
	}

	packed->kind = UNWIND_TEXT_CALLER;
	if (frame->cfa != ARCH_DWARF_SP && frame->cfa != ARCH_DWARF_FP)
		return false;
	return frame->fp == UNWIND_BASE_SAME ||
	       (frame->fp == (UNWIND_BASE_CFA | UNWIND_BASE_LOAD) &&
		packed->fp_off && packed->fp_off == frame->fp_off);
}

/* Remember a frame. Returns its slot, or NULL if it gets none or cannot be packed. */
static const struct unwind_text_frame *
unwind_sframe_remember(struct unwind_text *text, unsigned long key,
		       const struct unwind_user_frame *frame)
{
	struct unwind_text_frame *slot, packed = { .key = key };

	if (frame->unknown)
		packed.kind = frame->restorer ? UNWIND_TEXT_RESTORER : UNWIND_TEXT_UNKNOWN;
	else if (frame->outermost)
		packed.kind = UNWIND_TEXT_OUTERMOST;
	else if (!unwind_sframe_pack(frame, &packed))
		return NULL;

	slot = unwind_sframe_slot(text, key);
	if (slot)
		*slot = packed;
	return slot;
}

static void unwind_sframe_unpack(const struct unwind_text_frame *packed,
				 struct unwind_user_frame *frame)
{
	*frame = (struct unwind_user_frame) {
		.cfa	   = packed->cfa,
		.cfa_off   = packed->cfa_off,
		.ra	   = UNWIND_BASE_CFA | UNWIND_BASE_LOAD,
		.ra_off	   = ARCH_SFRAME_RA_OFF,
		.fp	   = packed->kind == UNWIND_TEXT_DRAP ? packed->cfa :
			     packed->fp_off ? UNWIND_BASE_CFA | UNWIND_BASE_LOAD :
					      UNWIND_BASE_SAME,
		.fp_off	   = packed->fp_off,
		.outermost = packed->kind == UNWIND_TEXT_OUTERMOST,
		.unknown   = packed->kind >= UNWIND_TEXT_UNKNOWN,
		.restorer  = packed->kind == UNWIND_TEXT_RESTORER,
	};
}

/* May the answer for the ip be remembered? */
static bool unwind_sframe_may_remember(const struct unwind_user_state *state, bool exact,
				       const struct unwind_user_frame *frame)
{
	/* The answer is that of the code, which may be unreadable now, or rewritten later. */
	if (!exact && (frame->unknown || frame->last))
		return unwind_text_may_remember(state, state->ip);
	return state->text && !pagefault_disabled();
}

static unsigned long unwind_sframe_key(unsigned long ip, bool exact)
{
	/* Not 0, which marks a free slot: an exact ip is the address of code. */
	return ip << 1 | (exact ? 0 : 1);
}

/*
 * Find the frame of the ip: remembered, or in the table, and remember it if possible.
 * Returns the slot; or NULL if it cannot be remembered, with @frame set.
 */
static const struct unwind_text_frame *
unwind_sframe_frame(struct unwind_user_state *state, bool exact,
		    struct unwind_user_frame *frame)
{
	unsigned long key = unwind_sframe_key(state->ip, exact);
	const struct unwind_text_frame *packed = NULL;
	struct unwind_text *text = state->text;

	if (likely(text))
		packed = unwind_sframe_remembered(text, key);
	if (likely(packed))
		return packed;

	unwind_sframe_lookup(state, exact, frame);
	return unwind_sframe_may_remember(state, exact, frame) ?
		unwind_sframe_remember(text, key, frame) : NULL;
}

/**
 * unwind_sframe_knows - does a table describe the frame of an exact ip?
 * @state:	the walk; @state->code is the mapping of the ip, if it is known
 *
 * Return: true if a table does.
 */
bool unwind_sframe_knows(struct unwind_user_state *state)
{
	const struct unwind_text_frame *packed;
	struct unwind_user_frame frame;

	if (!unwind_sframe_has_table(state))
		return false;
	packed = unwind_sframe_frame(state, true, &frame);
	return packed ? packed->kind < UNWIND_TEXT_UNKNOWN : !frame.unknown;
}

/**
 * unwind_sframe_enter - continue a walk with SFrame tables
 * @state:	the walk, after the code or a frame pointer led to the caller
 * @ip:		the ip before that step
 * @sp:		the stack pointer before that step
 */
void unwind_sframe_enter(struct unwind_user_state *state, unsigned long ip, unsigned long sp)
{
	state->step = UNWIND_STEP_SFRAME;
	/* Steps by frame pointers do not need the exact CFA, so state->sp may not be it. */
	state->sp = arch_unwind_user_cfa(state, ip, sp);
}

/* Count uses of the table of state->code, the mapping of the ip. */
static void unwind_sframe_used(const struct unwind_user_state *state, unsigned int nr)
{
	state->code->hits += nr;
	if (state->code->hits >= UNWIND_SFRAME_HITS)
		unwind_sframe_count_slow(state->code);
}

/* Limit of a frame in unwind_sframe_batch(); larger frames go to unwind_sframe_apply(). */
#define UNWIND_SFRAME_SIZE	BIT(31)

/* Convert an aligned offset to words; misaligned offsets give a value above the limit. */
static __always_inline unsigned long unwind_sframe_words(unsigned long off)
{
	/* Rotating moves the low bits of misaligned offsets to the top. */
	return ror64(off, ilog2(sizeof(long)));
}

/* Mask the offset, so that speculative accesses also stay in one frame. */
static __always_inline unsigned long unwind_sframe_clamp(unsigned long words)
{
	OPTIMIZER_HIDE_VAR(words);
	return (words & (UNWIND_SFRAME_SIZE / sizeof(long) - 1)) * sizeof(long);
}

/*
 * Walk as long as frames are remembered and callers are in the same mapping. All steps
 * share one window of user access and one mask of the pointer: each step is checked to be
 * less than UNWIND_SFRAME_SIZE, and the gap after user memory is larger than all steps
 * together. Frames that are too large or unreadable are left to unwind_sframe_apply(),
 * which counts why the walk ends. Returns the number of entries stored.
 */
static noinline unsigned int
unwind_sframe_batch(struct unwind_user_state *state, unsigned long *entries, unsigned int max)
{
	const unsigned long start = state->code->range.start, size = state->code->range.size;
	const unsigned long limit = UNWIND_SFRAME_SIZE / sizeof(long);
	unsigned long ip = state->ip, fp = state->fp, sp;
	struct unwind_text *text = state->text;
	unsigned int nr = 0;

	static_assert(UNWIND_USER_BATCH * 2 * UNWIND_SFRAME_SIZE <= ARCH_USER_GAP);
	if (!can_do_masked_user_access() || !text)
		return 0;

	sp = (unsigned long)masked_user_access_begin((void __user *)state->sp);
	do {
		const struct unwind_text_frame *frame;
		unsigned long words, cfa, ra, next;

		frame = unwind_sframe_remembered(text, unwind_sframe_key(ip, false));
		if (unlikely(!frame) || unlikely(frame->kind != UNWIND_TEXT_CALLER))
			break;

		cfa = frame->cfa_off;
		if (frame->cfa == ARCH_DWARF_FP)
			cfa += fp - sp;
		words = unwind_sframe_words(cfa - sizeof(long));
		if (unlikely(words >= limit))
			break;
		cfa = sp + sizeof(long) + unwind_sframe_clamp(words);
		ra = arch_unwind_user_load(cfa + ARCH_SFRAME_RA_OFF, sizeof(u64));
		if (unlikely(ra - start >= size))
			break;

		if (frame->fp_off) {
			words = unwind_sframe_words(cfa - sp + frame->fp_off);
			if (unlikely(words >= limit))
				break;
			next = arch_unwind_user_load(sp + unwind_sframe_clamp(words), sizeof(u64));
			if (unlikely(next == (unsigned long)-EFAULT))
				break;
			fp = next;
		}
		sp = cfa;
		ip = ra;
		entries[nr] = ra;
	} while (++nr < max);
	user_read_access_end();

	if (nr) {
		state->ip = ip;
		state->sp = sp;
		state->fp = fp;
		state->outermost = false;
		unwind_sframe_used(state, nr);
	}
	return nr;
}

/*
 * Go to the caller by the rule of a table. A table that leads to no caller ends the walk, and a
 * counter says why; ip, sp and fp are unchanged then.
 */
static noinline bool
unwind_sframe_apply(struct unwind_user_state *state, bool exact,
		    const struct unwind_user_frame *frame, unsigned long *entry)
{
	return unwind_user_go(state, exact, false, frame, entry);
}

/*
 * Find callers: a batch of remembered ones, or one. Sets the next step, and returns the
 * number of callers.
 */
static unsigned int unwind_sframe_step(struct unwind_user_state *state, bool exact,
				       unsigned long *entries, unsigned int max)
{
	const struct unwind_text_frame *packed;
	struct unwind_user_frame frame;
	unsigned int nr;

	packed = unwind_sframe_frame(state, exact, &frame);
	if (likely(packed)) {
		nr = exact || packed->kind ? 0 : unwind_sframe_batch(state, entries, max);
		if (nr)
			return nr;
		unwind_sframe_unpack(packed, &frame);
	}

	if (frame.unknown) {
		state->step = frame.restorer ? UNWIND_STEP_SIGNAL : UNWIND_STEP_FP;
		return 0;
	}
	state->step = UNWIND_STEP_DONE;
	state->outermost = frame.outermost;
	if (frame.outermost)
		return 0;
	if (frame.signal && ++state->signals > UNWIND_USER_SIGNALS) {
		unwind_count(UNWIND_STAT_ENDED_SIGNALS);
		return 0;
	}

	unwind_sframe_used(state, 1);
	if (!unwind_sframe_apply(state, exact, &frame, entries))
		return 0;

	/* After a signal frame the ip is exact again, but the registers are lost. */
	state->regs = NULL;
	state->signal_regs = 0;
	state->arch = 0;
	if (frame.signal)
		state->low = state->sp;
	/* A caller in a mapping without a table may be a restorer. */
	state->step = frame.signal ? UNWIND_STEP_CODE :
		      unwind_sframe_has_table(state) ? UNWIND_STEP_SFRAME : UNWIND_STEP_SIGNAL;
	return 1;
}

/**
 * unwind_sframe_walk - find callers with SFrame tables
 * @state:	the walk, at step CODE, with an exact ip, or at step SFRAME
 * @entries:	where to store return addresses
 * @max:	room in @entries, from 1 to UNWIND_USER_BATCH
 *
 * Walk as long as tables describe the frames, and set the next step.
 *
 * Return: number of entries stored.
 */
unsigned int unwind_sframe_walk(struct unwind_user_state *state, unsigned long *entries,
				unsigned int max)
{
	unsigned int nr = 0;

	if (state->step == UNWIND_STEP_CODE) {
		/* The code's answer may have been remembered, so the mapping not looked up. */
		unwind_text(state, state->ip);
		nr = unwind_sframe_step(state, true, entries, max);
	}
	while (nr < max && state->step == UNWIND_STEP_SFRAME)
		nr += unwind_sframe_step(state, false, entries + nr, max - nr);
	unwind_count_add(UNWIND_STAT_SFRAME_FRAMES, nr);
	return nr;
}
