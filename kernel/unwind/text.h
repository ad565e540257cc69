/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the walker asks about an address, see text.c.
 */
#ifndef _KERNEL_UNWIND_TEXT_H
#define _KERNEL_UNWIND_TEXT_H

#include <linux/compiler.h>
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/sched.h>
#include <linux/unwind_user_types.h>
#include <linux/uprobes.h>

bool unwind_text_lookup(struct unwind_user_state *state, unsigned long addr);

static __always_inline bool
unwind_text_in(const struct unwind_text_range *range, unsigned long addr)
{
	return addr - range->start < range->size;
}

/* Is @addr code? Where the mapping is that of the latest caller, this is all it takes. */
static __always_inline bool unwind_text(struct unwind_user_state *state,
					unsigned long addr)
{
	return likely(unwind_text_in(&state->code, addr)) ||
	       unwind_text_lookup(state, addr);
}

void unwind_text_begin(struct unwind_user_state *state);
enum unwind_user_says unwind_text_look_at(struct unwind_user_state *state,
					  struct unwind_text_look *look, bool follow);

/* Addresses have bits to spare. */
static __always_inline unsigned long unwind_text_key(const struct unwind_user_state *state)
{
	return state->ip << 2 | state->ws >> 2;
}

/* A uprobe is being handled: the code is not what everybody else reads there. */
static __always_inline bool unwind_text_at_uprobe(void)
{
#ifdef CONFIG_UPROBES
	return unlikely(current->utask) && current->utask->auprobe;
#else
	return false;
#endif
}

/**
 * unwind_text_look - see what the code at the ip says, or said before
 * @state:	the walk
 * @follow:	see arch_unwind_user_look()
 *
 * Context: as the walk; page faults are allowed or disabled.
 * Return: as arch_unwind_user_look(), or UNWIND_SAYS_NO_CODE.
 */
static __always_inline enum unwind_user_says
unwind_text_look(struct unwind_user_state *state, bool follow)
{
	unsigned long key = unwind_text_key(state);
	struct unwind_text_look *look = NULL, *found;

	if (state->text && !unwind_text_at_uprobe()) {
		look = state->text->look[hash_long(key, ilog2(UNWIND_TEXT_LOOKS))];
		found = likely(look[0].key == key) ? &look[0] : &look[1];
		/* If it said nothing, more of it may tell. */
		if (likely(found->key == key) && (found->says || !follow))
			return found->says;
	}
	return unwind_text_look_at(state, look, follow);
}

#ifdef CONFIG_UPROBES
bool unwind_is_trampoline(const struct unwind_user_state *state, unsigned long addr);
void unwind_uretprobe_init(struct unwind_user_state *state);
bool unwind_uretprobe_address(const struct unwind_user_state *state, unsigned long *addr,
			      unsigned long slot);
#else
static inline bool unwind_is_trampoline(const struct unwind_user_state *state,
					unsigned long addr)
{
	return false;
}

static inline void unwind_uretprobe_init(struct unwind_user_state *state) { }

static inline bool unwind_uretprobe_address(const struct unwind_user_state *state,
					    unsigned long *addr, unsigned long slot)
{
	return false;
}
#endif

#endif /* _KERNEL_UNWIND_TEXT_H */
