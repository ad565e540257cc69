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
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/sched.h>
#include <linux/uaccess.h>
#include <linux/unwind_user.h>
#include <linux/uprobes.h>

#include "text.h"
#include "unwind.h"

/* The state of the mappings; odd when it is not known for how long it lasts. */
static unsigned int unwind_text_seq(struct mm_struct *mm)
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

/**
 * unwind_text_begin - forget what is not true any more
 * @state:	a walk that starts
 */
void unwind_text_begin(struct unwind_user_state *state)
{
	unsigned int seq = unwind_text_seq(current->mm);
	struct unwind_text *text = state->text;

	if (unlikely((seq & 1) || seq != text->seq))
		*text = (struct unwind_text) { .seq = seq };
	/* The first caller is likely to be where one was before. */
	state->code = text->code[0];
}

/**
 * unwind_text_look_at - see what the code at the ip says
 * @state:	the walk
 * @look:	the two places where it may be remembered, or NULL
 * @follow:	see arch_unwind_user_look()
 *
 * Context: as the walk; page faults are allowed or disabled.
 * Return: as arch_unwind_user_look(), or UNWIND_SAYS_NO_CODE.
 */
enum unwind_user_says unwind_text_look_at(struct unwind_user_state *state,
					  struct unwind_text_look *look, bool follow)
{
	enum unwind_user_says says = UNWIND_SAYS_NO_CODE;

	/* Of what cannot run, no byte means anything. */
	if (unwind_text(state, state->ip) || unwind_is_trampoline(state, state->ip))
		says = arch_unwind_user_look(state, follow);

	/* Code that cannot be read says nothing, but perhaps not for good. */
	if (look && says != UNWIND_SAYS_NO_CODE && !pagefault_disabled()) {
		unsigned long key = unwind_text_key(state);

		if (look[0].key != key)
			look[1] = look[0];
		look[0] = (struct unwind_text_look) { .key = key, .says = says };
	}
	return says;
}

/* The one of these mappings that @addr is in, or NULL. */
static const struct unwind_text_range *
unwind_text_find(const struct unwind_text_range *range, unsigned long addr)
{
	for (int i = 0; i < UNWIND_TEXT_RANGES; i++) {
		if (unwind_text_in(&range[i], addr))
			return &range[i];
	}
	return NULL;
}

/**
 * struct unwind_text_vma - what is asked about a mapping
 * @range:	where it is; of size 0 when there is none
 * @code:	it is executable
 */
struct unwind_text_vma {
	struct unwind_text_range	range;
	bool				code;
};

static void unwind_text_copy(struct unwind_text_vma *copy, const struct vm_area_struct *vma)
{
	*copy = (struct unwind_text_vma) {};
	if (!vma)
		return;

	/* May be about to change, which unwind_text_fast() notices. */
	copy->range.start = max(data_race(vma->vm_start), PAGE_SIZE);
	/* So may this ... */
	copy->range.size = data_race(vma->vm_end) - copy->range.start;
	/* ... and this. */
	copy->code = data_race(vma->vm_flags) & VM_EXEC;
}

#ifdef CONFIG_PER_VMA_LOCK
/* Returns false while somebody changes mappings: ask again under the lock. */
static bool unwind_text_fast(struct mm_struct *mm, unsigned long addr,
			     struct unwind_text_vma *copy)
{
	MA_STATE(mas, &mm->mm_mt, addr, addr);
	unsigned int seq = unwind_text_seq(mm);

	if (seq & 1)
		return false;

	/* Pairs with call_rcu() in vm_area_free(). */
	scoped_guard(rcu)
		unwind_text_copy(copy, mas_walk(&mas));
	return !read_seqcount_retry(&mm->mm_lock_seq, seq);
}
#else
static bool unwind_text_fast(struct mm_struct *mm, unsigned long addr,
			     struct unwind_text_vma *copy)
{
	return false;
}
#endif

static bool unwind_text_slow(struct mm_struct *mm, unsigned long addr,
			     struct unwind_text_vma *copy)
{
	if (pagefault_disabled() ? !mmap_read_trylock(mm) : mmap_read_lock_killable(mm))
		return false;

	unwind_text_copy(copy, vma_lookup(mm, addr));
	mmap_read_unlock(mm);
	return true;
}

static void unwind_text_remember(struct unwind_text *text, const struct unwind_text_vma *vma)
{
	if (vma->code)
		text->code[text->next_code++ % UNWIND_TEXT_RANGES] = vma->range;
	else
		text->data[text->next_data++ % UNWIND_TEXT_RANGES] = vma->range;
}

/* Where the trampoline is, each address has to be compared with it. */
static bool unwind_text_has_trampoline(const struct unwind_text_range *range)
{
#ifdef CONFIG_UPROBES
	return unwind_text_in(range, uprobe_get_trampoline_vaddr());
#else
	return false;
#endif
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
	struct unwind_text *text = state->text;
	const struct unwind_text_range *range;
	struct unwind_text_vma vma;

	if (addr < PAGE_SIZE || addr >= TASK_SIZE_MAX || unwind_is_trampoline(state, addr))
		return false;

	range = text ? unwind_text_find(text->code, addr) : NULL;
	if (range) {
		state->code = *range;
		return true;
	}
	if (text && unwind_text_find(text->data, addr))
		return false;

	if (!unwind_text_fast(mm, addr, &vma) && !unwind_text_slow(mm, addr, &vma))
		return true;
	if (!vma.range.size || unwind_text_has_trampoline(&vma.range))
		return vma.code;
	if (text)
		unwind_text_remember(text, &vma);
	if (vma.code)
		state->code = vma.range;
	return vma.code;
}

/**
 * unwind_mapped_from - what is left of the mapping that an address is in
 * @addr:	the address
 * @max:	what is of interest
 *
 * Return: bytes from @addr on, at most @max; 0 when nothing is mapped there, @max
 * when that cannot be told without waiting.
 */
unsigned int unwind_mapped_from(unsigned long addr, unsigned int max)
{
	struct mm_struct *mm = current->mm;
	struct unwind_text_vma vma;

	if (addr < PAGE_SIZE || addr >= TASK_SIZE_MAX)
		return 0;
	if (!unwind_text_fast(mm, addr, &vma) && !unwind_text_slow(mm, addr, &vma))
		return min(max, TASK_SIZE_MAX - addr);
	if (!vma.range.size)
		return 0;
	return min(max, vma.range.start + vma.range.size - addr);
}

#ifdef CONFIG_UPROBES
/**
 * unwind_is_trampoline - do functions return here whose return is probed?
 * @state:	the walk
 * @addr:	a return address
 *
 * Context: task context.
 * Return: true if so.
 */
bool unwind_is_trampoline(const struct unwind_user_state *state, unsigned long addr)
{
	return unlikely(state->uretprobe) && addr == uprobe_get_trampoline_vaddr();
}

/**
 * unwind_uretprobe_init - let a walk see through return probes
 * @state:	the walk
 */
void unwind_uretprobe_init(struct unwind_user_state *state)
{
	state->uretprobe = current->utask ? current->utask->return_instances : NULL;
}

/**
 * unwind_uretprobe_address - undo what a return probe did to the stack
 * @state:	the walk
 * @addr:	a return address; becomes the real one
 * @slot:	where on the stack it is
 *
 * By place and not by order: longjmp() leaves probes behind, and coroutines take
 * turns. The latest one of a place is the one that counts.
 *
 * Return: true when @addr was the trampoline, and @slot that of a return probe.
 */
bool unwind_uretprobe_address(const struct unwind_user_state *state, unsigned long *addr,
			      unsigned long slot)
{
	if (!unwind_is_trampoline(state, *addr))
		return false;

	for (const struct return_instance *ri = state->uretprobe; ri; ri = ri->next) {
		/* What the probe found on the stack is the user's word, too. */
		if (ri->stack == slot && ri->orig_ret_vaddr < TASK_SIZE_MAX) {
			*addr = ri->orig_ret_vaddr;
			return true;
		}
	}
	return false;
}
#endif
