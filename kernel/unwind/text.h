/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the walker asks about an address, see text.c.
 */
#ifndef _KERNEL_UNWIND_TEXT_H
#define _KERNEL_UNWIND_TEXT_H

#include <linux/bits.h>
#include <linux/compiler.h>
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/mm_types.h>
#include <linux/sched.h>
#include <linux/uaccess.h>
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
	return likely(unwind_text_in(&state->code->range, addr)) ||
	       unwind_text_lookup(state, addr);
}

/*
 * May be remembered what the code at @addr says, after unwind_text() found it? Not where
 * it could not be read in earnest, nor where a program may rewrite it.
 */
static __always_inline bool
unwind_text_may_remember(const struct unwind_user_state *state, unsigned long addr)
{
	return state->text && !pagefault_disabled() &&
	       unwind_text_in(&state->code->range, addr) && !state->code->rewritable;
}

/* Can @addr be an address at all? What is on a stack is a small number as often as not. */
static __always_inline bool unwind_text_may_be(unsigned long addr)
{
	return addr >= PAGE_SIZE && addr < TASK_SIZE_MAX;
}

/* The state of the mappings; odd when it is not known for how long it lasts. */
static __always_inline unsigned int unwind_text_seq(struct mm_struct *mm)
{
#ifdef CONFIG_PER_VMA_LOCK
	/*
	 * Pairs with mm_lock_seqcount_begin() and mm_lock_seqcount_end(). No section
	 * of readers starts here that somebody has to end.
	 */
	return smp_load_acquire(&mm->mm_lock_seq.sequence);
#else
	return 1;
#endif
}

void unwind_text_begin_anew(struct unwind_text *text, u64 seq);

void unwind_text_forget(struct unwind_text *text);
enum unwind_user_says unwind_text_look_at(struct unwind_user_state *state,
					  u64 *look, bool follow);

/* Addresses have bits to spare: two for the word size, and below these some for the answer. */
#define UNWIND_TEXT_SAYS	GENMASK(3, 0)

static __always_inline u64 unwind_text_key(const struct unwind_user_state *state)
{
	return state->ip << 6 | state->ws << 2;
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
	u64 key = unwind_text_key(state), says, *look = NULL;

	static_assert(UNWIND_SAYS_SIGNAL <= UNWIND_TEXT_SAYS);
	if (state->text && !unwind_text_at_uprobe()) {
		look = state->text->look[hash_64(key, ilog2(UNWIND_TEXT_LOOKS))];
		says = look[0] ^ key;
		if (unlikely(says > UNWIND_TEXT_SAYS))
			says = look[1] ^ key;
		/* If it said nothing, more of it may tell. */
		if (likely(says <= UNWIND_TEXT_SAYS) && (says || !follow))
			return says;
	}
	return unwind_text_look_at(state, look, follow);
}

#ifdef CONFIG_UPROBES
/* Do functions return here whose return is probed? */
static inline bool unwind_is_trampoline(const struct unwind_user_state *state,
					unsigned long addr)
{
	return unlikely(state->uretprobe) && addr == uprobe_get_trampoline_vaddr();
}

/* Let a walk see through return probes. */
static inline void unwind_uretprobe_init(struct unwind_user_state *state)
{
	state->uretprobe = unlikely(current->utask) ? current->utask->return_instances : NULL;
}

const struct return_instance *unwind_uretprobe_find(struct unwind_user_state *state,
						    unsigned long slot);

/* Undo what a return probe did to the address at @slot. Returns false where there is none. */
static __always_inline bool unwind_uretprobe_address(struct unwind_user_state *state,
						     unsigned long *addr, unsigned long slot)
{
	const struct return_instance *ri;

	if (!unwind_is_trampoline(state, *addr))
		return false;
	ri = unwind_uretprobe_find(state, slot);
	if (ri)
		*addr = ri->orig_ret_vaddr;
	return ri;
}
#else
static inline bool unwind_is_trampoline(const struct unwind_user_state *state,
					unsigned long addr)
{
	return false;
}

static inline void unwind_uretprobe_init(struct unwind_user_state *state) { }

static inline bool unwind_uretprobe_address(struct unwind_user_state *state,
					    unsigned long *addr, unsigned long slot)
{
	return false;
}
#endif

#endif /* _KERNEL_UNWIND_TEXT_H */
