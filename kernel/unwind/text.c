// SPDX-License-Identifier: GPL-2.0
/*
 * Is an address code, of the task that is being walked?
 *
 * Contexts: task context of that task, page faults allowed or disabled; with page
 * faults disabled nothing here sleeps.
 *
 * A return address is believed only if it is in an executable mapping: what else
 * is on a stack looks like one too easily. The answer is a hint, and so is what the
 * code says about its frame. Both are remembered for as long as nobody has changed
 * the mappings; they may change under a walk that is under way, or a program may
 * rewrite its code, at the price of a wrong address.
 */
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/sched.h>
#include <linux/uaccess.h>
#include <linux/unwind_user.h>
#include <linux/uprobes.h>

#include "text.h"

/* The state of the mappings; odd when it is not known for how long it lasts. */
static unsigned int unwind_text_seq(struct mm_struct *mm)
{
#ifdef CONFIG_PER_VMA_LOCK
	/* Pairs with mm_lock_seqcount_begin() and mm_lock_seqcount_end(). */
	return raw_read_seqcount(&mm->mm_lock_seq);
#else
	return 1;
#endif
}

/**
 * unwind_text_begin - forget what is not true any more
 * @text:	of current
 */
void unwind_text_begin(struct unwind_text *text)
{
	unsigned int seq = unwind_text_seq(current->mm);

	if (unlikely((seq & 1) || seq != text->seq))
		*text = (struct unwind_text) { .seq = seq };
}

/**
 * unwind_text_look - see what the code at the ip says, or said before
 * @state:	the walk
 * @follow:	see arch_unwind_user_look()
 */
enum unwind_user_says unwind_text_look(struct unwind_user_state *state, bool follow)
{
	unsigned int i = hash_long(state->ip, ilog2(UNWIND_TEXT_IPS));
	struct unwind_text *text = state->text;
	enum unwind_user_says says;

	if (text && text->look[i].ip == state->ip && text->look[i].says)
		return text->look[i].says;

	says = arch_unwind_user_look(state, follow);

	/* Code that is not resident says nothing, but not for good. */
	if (text && !pagefault_disabled()) {
		text->look[i].ip = state->ip;
		text->look[i].says = says;
	}
	return says;
}

static bool unwind_text_vma(struct unwind_user_state *state,
			    const struct vm_area_struct *vma)
{
	bool code = vma && (vma->vm_flags & VM_EXEC);
	struct unwind_text_range *range;
	struct unwind_text *text;

	text = state->text;
	if (vma && text) {
		range = code ? text->code : text->data;
		range += text->next++ % UNWIND_TEXT_RANGES;
		range->start = vma->vm_start;
		range->size = vma->vm_end - vma->vm_start;
	}
	return code;
}

#ifdef CONFIG_PER_VMA_LOCK
/* Returns false when the mapping is busy or not there: ask again under the lock. */
static bool unwind_text_fast(struct unwind_user_state *state, unsigned long addr,
			     bool *text)
{
	struct vm_area_struct *vma = lock_vma_under_rcu(current->mm, addr);

	if (!vma)
		return false;

	*text = unwind_text_vma(state, vma);
	vma_end_read(vma);
	return true;
}
#else
static bool unwind_text_fast(struct unwind_user_state *state, unsigned long addr,
			     bool *text)
{
	return false;
}
#endif

static bool unwind_text_lock(struct mm_struct *mm)
{
	return pagefault_disabled() ? mmap_read_trylock(mm) :
				      !mmap_read_lock_killable(mm);
}

/**
 * unwind_text_lookup - is this address code? the long way
 * @state:	the walk, which remembers the mapping
 * @addr:	the address
 *
 * Return: true when @addr is in an executable mapping, and when that cannot be
 * told without waiting; false for the trampoline of return probes.
 */
bool unwind_text_lookup(struct unwind_user_state *state, unsigned long addr)
{
	struct mm_struct *mm = current->mm;
	bool text;

	if (addr < PAGE_SIZE || addr >= TASK_SIZE_MAX || unwind_is_trampoline(state, addr))
		return false;
	if (state->text && unwind_text_find(state->text->data, addr))
		return false;
	if (unwind_text_fast(state, addr, &text))
		return text;
	if (!unwind_text_lock(mm))
		return true;

	text = unwind_text_vma(state, vma_lookup(mm, addr));
	mmap_read_unlock(mm);
	return text;
}

#ifdef CONFIG_UPROBES
/**
 * unwind_is_trampoline - do functions return here whose return is probed?
 * @state:	the walk
 * @addr:	a return address
 */
bool unwind_is_trampoline(const struct unwind_user_state *state, unsigned long addr)
{
	return unlikely(state->uretprobe) && addr == uprobe_get_trampoline_vaddr();
}

/**
 * unwind_uretprobe_init - start a walk above all return probes
 * @state:	the walk
 */
void unwind_uretprobe_init(struct unwind_user_state *state)
{
	state->uretprobe = current->utask ? current->utask->return_instances : NULL;
}

/**
 * unwind_uretprobe_address - undo what a return probe did to the stack
 * @state:	the walk, whose innermost return probe this has to be
 * @addr:	a return address; becomes the real one
 *
 * Return: true when @addr was the trampoline.
 */
bool unwind_uretprobe_address(struct unwind_user_state *state, unsigned long *addr)
{
	struct return_instance *ri = state->uretprobe;

	if (!unwind_is_trampoline(state, *addr))
		return false;

	*addr = ri->orig_ret_vaddr;
	/* Functions that were tail called share one return address. */
	while (ri && ri->chained)
		ri = ri->next;
	state->uretprobe = ri ? ri->next : NULL;
	return true;
}
#endif
