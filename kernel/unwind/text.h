/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the walker asks about an address, see text.c.
 */
#ifndef _KERNEL_UNWIND_TEXT_H
#define _KERNEL_UNWIND_TEXT_H

#include <linux/compiler.h>
#include <linux/unwind_user_types.h>

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
enum unwind_user_says unwind_text_look(struct unwind_user_state *state, bool follow);

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
