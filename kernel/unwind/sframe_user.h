/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Walking with SFrame, see sframe_find.c and sframe_user.c.
 */
#ifndef _KERNEL_UNWIND_SFRAME_USER_H
#define _KERNEL_UNWIND_SFRAME_USER_H

#include <linux/bitops.h>
#include <linux/compiler.h>
#include <linux/jiffies.h>
#include <linux/unwind_user_arch.h>

#include "text.h"

#ifdef CONFIG_UNWIND_USER_SFRAME

#include "object.h"

/* Changes when walks must look up again all objects that they remember. */
static __always_inline u32 unwind_object_ticks(void)
{
	/*
	 * Pairs with unwind_objects_tick(): a walk that sees this tick also sees, in
	 * unwind_objects_ask(), that the next one has not been asked for yet.
	 */
	return atomic_read_acquire(&unwind_objects_ticks);
}

void unwind_sframe_count_slow(struct unwind_text_code *code);

/* Add the uses in a mapping to the count of its object. */
static __always_inline void unwind_sframe_count(struct unwind_text_code *code)
{
	if (unlikely(code->hits))
		unwind_sframe_count_slow(code);
}

/* Forget all frames. Only clear the used ones, which are few as a rule. */
static inline void unwind_sframe_forget(struct unwind_text *text)
{
	u64 used = text->frames_used;

	static_assert(BITS_PER_TYPE(used) == UNWIND_TEXT_FRAMES);
	for (; used; used &= used - 1) {
		int nr = __ffs64(used);

		text->frames[nr][0].key = 0;
		text->frames[nr][1].key = 0;
	}
	text->frames_used = 0;
}

/* Does the mapping of the latest caller have a table? 32-bit code never has one. */
static __always_inline bool unwind_sframe_has_table(const struct unwind_user_state *state)
{
	return unlikely(state->code->ref.object) && state->ws == sizeof(u64);
}

void unwind_sframe_find(struct unwind_user_state *state, struct unwind_text_code *code);
bool unwind_sframe_knows(struct unwind_user_state *state);
void unwind_sframe_enter(struct unwind_user_state *state, unsigned long ip, unsigned long sp);
unsigned int unwind_sframe_walk(struct unwind_user_state *state, unsigned long *entries,
				unsigned int max);

#else

/* Changes every second, as it does with objects. */
static inline u32 unwind_object_ticks(void)
{
	return jiffies / HZ;
}

static inline void unwind_objects_ask(void) { }

static inline void unwind_sframe_count(struct unwind_text_code *code) { }

static inline void unwind_sframe_forget(struct unwind_text *text) { }

static inline bool unwind_sframe_has_table(const struct unwind_user_state *state)
{
	return false;
}

static inline void unwind_sframe_find(struct unwind_user_state *state,
				      struct unwind_text_code *code) { }

static inline bool unwind_sframe_knows(struct unwind_user_state *state)
{
	return false;
}

static inline void unwind_sframe_enter(struct unwind_user_state *state, unsigned long ip,
				       unsigned long sp) { }

static inline unsigned int unwind_sframe_walk(struct unwind_user_state *state,
					      unsigned long *entries, unsigned int max)
{
	return 0;
}

#endif /* CONFIG_UNWIND_USER_SFRAME */
#endif /* _KERNEL_UNWIND_SFRAME_USER_H */
