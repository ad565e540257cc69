/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the walker asks about an address, see text.c.
 */
#ifndef _KERNEL_UNWIND_TEXT_H
#define _KERNEL_UNWIND_TEXT_H

#include <linux/compiler.h>
#include <linux/unwind_user_types.h>

bool unwind_text_lookup(struct unwind_user_state *state, unsigned long addr);

/* Is @addr code? Where the walk knows the mapping, this is all it takes. */
static __always_inline bool unwind_text(struct unwind_user_state *state,
					unsigned long addr)
{
	for (int i = 0; i < UNWIND_USER_TEXTS; i++) {
		if (likely(addr - state->text[i].start < state->text[i].size))
			return true;
	}
	return unwind_text_lookup(state, addr);
}

#ifdef CONFIG_UPROBES
bool unwind_is_trampoline(const struct unwind_user_state *state, unsigned long addr);
void unwind_uretprobe_init(struct unwind_user_state *state);
bool unwind_uretprobe_address(struct unwind_user_state *state, unsigned long *addr);
#else
static inline bool unwind_is_trampoline(const struct unwind_user_state *state,
					unsigned long addr)
{
	return false;
}

static inline void unwind_uretprobe_init(struct unwind_user_state *state) { }

static inline bool unwind_uretprobe_address(struct unwind_user_state *state,
					    unsigned long *addr)
{
	return false;
}
#endif

#endif /* _KERNEL_UNWIND_TEXT_H */
