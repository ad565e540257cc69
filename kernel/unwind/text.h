/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Address checks of the walker, see text.c.
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

/* Is @addr code? If it is in the mapping of the latest caller, the first test is enough. */
static __always_inline bool unwind_text(struct unwind_user_state *state,
					unsigned long addr)
{
	return likely(unwind_text_in(&state->code->range, addr)) ||
	       unwind_text_lookup(state, addr);
}

/*
 * May the cache keep what the code at @addr says, after unwind_text() found it? Not with
 * page faults disabled, when the read may have failed, nor where a program may rewrite it.
 */
static __always_inline bool
unwind_text_may_remember(const struct unwind_user_state *state, unsigned long addr)
{
	return state->text && !pagefault_disabled() &&
	       unwind_text_in(&state->code->range, addr) && !state->code->rewritable;
}

/* Can @addr be a user address at all? Many words of a stack are small numbers. */
static __always_inline bool unwind_text_may_be(unsigned long addr)
{
	return addr >= PAGE_SIZE && addr < TASK_SIZE_MAX;
}

/* Sequence count of the mappings; odd if they may change at any time. */
static __always_inline unsigned int unwind_text_seq(struct mm_struct *mm)
{
#ifdef CONFIG_PER_VMA_LOCK
	/*
	 * Pairs with mm_lock_seqcount_begin() and mm_lock_seqcount_end(). Starts no
	 * read section that would have to end.
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

/* Addresses have spare bits: two for the word size, and below them four for the answer. */
#define UNWIND_TEXT_SAYS	GENMASK(3, 0)

static __always_inline u64 unwind_text_key(const struct unwind_user_state *state)
{
	return state->ip << 6 | state->ws << 2;
}

/* Is a uprobe being handled? Then the code is not what other walks read there. */
static __always_inline bool unwind_text_at_uprobe(void)
{
#ifdef CONFIG_UPROBES
	return unlikely(current->utask) && current->utask->auprobe;
#else
	return false;
#endif
}

/**
 * unwind_text_look - see what the code at the ip says, from the cache if possible
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
		/* If the first instruction said nothing, the code after it may tell. */
		if (likely(says <= UNWIND_TEXT_SAYS) && (says || !follow))
			return says;
	}
	return unwind_text_look_at(state, look, follow);
}

#ifdef CONFIG_UPROBES
/* Do functions with a return probe return to @addr? */
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

/* Undo what a return probe did to the address at @slot. Returns false without a probe. */
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
