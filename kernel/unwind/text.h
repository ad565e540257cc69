/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the walker asks about an address, see text.c.
 */
#ifndef _KERNEL_UNWIND_TEXT_H
#define _KERNEL_UNWIND_TEXT_H

#include <linux/compiler.h>
#include <linux/unwind_user_types.h>

bool unwind_text_lookup(struct unwind_user_state *state, unsigned long addr);

/* The one of these mappings that @addr is in, or NULL. */
static __always_inline const struct unwind_text_range *
unwind_text_find(const struct unwind_text_range *range, unsigned long addr)
{
	for (int i = 0; i < UNWIND_TEXT_RANGES; i++) {
		if (addr - range[i].start < range[i].size)
			return &range[i];
	}
	return NULL;
}

/* Is @addr code? Where the mapping is known, this is all it takes. */
static __always_inline bool unwind_text(struct unwind_user_state *state,
					unsigned long addr)
{
	if (likely(state->text && unwind_text_find(state->text->code, addr)))
		return true;
	return unwind_text_lookup(state, addr);
}

void unwind_text_begin(struct unwind_text *text);
enum unwind_user_says unwind_text_look(struct unwind_user_state *state, bool follow);

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
