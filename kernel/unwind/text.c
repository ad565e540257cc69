// SPDX-License-Identifier: GPL-2.0
/*
 * Is an address in code of the task that is being walked?
 *
 * Contexts: task context of that task, page faults allowed or disabled; with page
 * faults disabled nothing here sleeps.
 *
 * A return address is believed only if it is in an executable mapping, because other
 * words of a stack look like one too easily. The answer is a hint, and so is what the
 * code says about its frame. Both are cached until the mappings change; a change during
 * a walk may cost a wrong address. What the code says is not cached where a program may
 * rewrite it. Other code can change as well: by a debugger, when a uprobe is removed, or
 * by write() to a file that is mapped privately. So all caches are dropped about once a
 * second while anybody walks.
 */
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/sched.h>
#include <linux/stddef.h>
#include <linux/uaccess.h>
#include <linux/unwind_user.h>
#include <linux/uprobes.h>

#include "sframe_user.h"
#include "text.h"
#include "unwind.h"

/**
 * unwind_text_forget - drop the cache of a task's code
 * @text:	the cache
 */
void unwind_text_forget(struct unwind_text *text)
{
	for (int i = 0; i < UNWIND_TEXT_CODES; i++)
		unwind_sframe_count(&text->code[i]);
	unwind_sframe_forget(text);
	memset(text, 0, offsetofend(struct unwind_text, no_caller));
}

/**
 * unwind_text_begin_anew - drop the cache of a task's code, as it may be stale
 * @text:	the cache
 * @seq:	state of the address space that the new contents belong to
 */
void unwind_text_begin_anew(struct unwind_text *text, u64 seq)
{
	unwind_text_forget(text);
	text->seq = seq;
	/* Also for code that is in no file, or in one that cannot have a table. */
	unwind_objects_ask();
}

/**
 * unwind_text_look_at - see what the code at the ip says
 * @state:	the walk
 * @look:	the two cache slots for the answer, or NULL
 * @follow:	see arch_unwind_user_look()
 *
 * Context: as the walk; page faults are allowed or disabled.
 * Return: as arch_unwind_user_look(), or UNWIND_SAYS_NO_CODE.
 */
unsigned int unwind_text_look_at(struct unwind_user_state *state, u64 *look, bool follow)
{
	unsigned int says = UNWIND_SAYS_NO_CODE;

	/* Do not decode bytes outside executable mappings. */
	if (unwind_text(state, state->ip) || unwind_is_trampoline(state, state->ip)) {
		says = arch_unwind_user_look(state, follow);
		if (says != UNWIND_SAYS_SIGNAL && unwind_sframe_knows(state))
			says = UNWIND_SAYS_SFRAME;
		if (says == UNWIND_SAYS_NOTHING && follow)
			says = UNWIND_SAYS_FP;
	}

	/* Do not cache the answer for code that cannot be read now, but may be later. */
	if (look && says != UNWIND_SAYS_NO_CODE && unwind_text_may_remember(state, state->ip)) {
		u64 key = unwind_text_key(state);

		if ((look[0] ^ key) > UNWIND_TEXT_SAYS)
			look[1] = look[0];
		look[0] = key | says;
	}
	return says;
}

static struct unwind_text_code *unwind_text_find_code(struct unwind_text *text,
						      unsigned long addr)
{
	for (int i = 0; i < UNWIND_TEXT_CODES; i++) {
		if (unwind_text_in(&text->code[i].range, addr))
			return &text->code[i];
	}
	return NULL;
}

static bool unwind_text_is_data(const struct unwind_text *text, unsigned long addr)
{
	for (int i = 0; i < UNWIND_TEXT_RANGES; i++) {
		if (unwind_text_in(&text->data[i], addr))
			return true;
	}
	return false;
}

/**
 * struct unwind_text_vma - properties of a mapping
 * @range:	where it is; without a mapping, where the gap is, or of size 0
 * @mapped:	a mapping exists
 * @code:	it is executable
 * @rewritable:	it is writable, or shared with a mapping that may be
 */
struct unwind_text_vma {
	struct unwind_text_range	range;
	bool				mapped;
	bool				code;
	bool				rewritable;
};

static void unwind_text_copy(struct unwind_text_vma *copy, const struct vm_area_struct *vma)
{
	unsigned long flags;

	*copy = (struct unwind_text_vma) {};
	if (!vma)
		return;

	/* May be changing: unwind_text_fast() notices. */
	copy->range.start = max(data_race(vma->vm_start), PAGE_SIZE);
	/* So may this ... */
	copy->range.size = data_race(vma->vm_end) - copy->range.start;
	copy->mapped = true;
	/* ... and these. */
	flags = data_race(vma->vm_flags);
	copy->code = flags & VM_EXEC;
	copy->rewritable = flags & (VM_WRITE | VM_MAYSHARE);
}

#ifdef CONFIG_PER_VMA_LOCK
/* Returns false while the mappings change: ask again under the lock. */
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
	if (!copy->mapped) {
		copy->range.start = mas.index;
		copy->range.size = mas.last - mas.index + 1;
	}
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

static void unwind_text_remember_code(struct unwind_user_state *state,
				      const struct unwind_text_vma *vma)
{
	struct unwind_text *text = state->text;
	struct unwind_text_code *code = state->own;

	if (text) {
		code = &text->code[text->next_code++ % UNWIND_TEXT_CODES];
		unwind_sframe_count(code);
	}
	*code = (struct unwind_text_code) {
		.range		= vma->range,
		.rewritable	= vma->rewritable,
	};
	unwind_sframe_find(state, code);
	state->code = code;
}

/* Do not cache the mapping of the trampoline: each address in it has to be compared. */
static bool unwind_text_has_trampoline(const struct unwind_text_range *range)
{
#ifdef CONFIG_UPROBES
	return unwind_text_in(range, uprobe_get_trampoline_vaddr());
#else
	return false;
#endif
}

/**
 * unwind_text_lookup - is an address in code? (slow path)
 * @state:	the walk, which remembers the mapping
 * @addr:	the address
 *
 * Return: true when @addr is in an executable mapping, or when the lock cannot be
 * taken; false for the trampoline of return probes.
 */
bool unwind_text_lookup(struct unwind_user_state *state, unsigned long addr)
{
	struct mm_struct *mm = current->mm;
	struct unwind_text *text = state->text;
	struct unwind_text_code *code;
	struct unwind_text_vma vma;

	if (!unwind_text_may_be(addr) || unwind_is_trampoline(state, addr))
		return false;

	code = text ? unwind_text_find_code(text, addr) : NULL;
	if (code) {
		state->code = code;
		return true;
	}
	if (text && unwind_text_is_data(text, addr))
		return false;

	if (!unwind_text_fast(mm, addr, &vma) && !unwind_text_slow(mm, addr, &vma))
		return true;
	if (vma.mapped && unwind_text_has_trampoline(&vma.range))
		return vma.code;
	if (vma.code)
		unwind_text_remember_code(state, &vma);
	else if (text && vma.range.size)
		text->data[text->next_data++ % UNWIND_TEXT_RANGES] = vma.range;
	return vma.code;
}

/**
 * unwind_user_see_vma - look at the mapping of an address of current
 * @addr:	the address
 * @wait:	wait for the lock of the address space where that of the mapping does not do
 * @see:	called with the mapping locked, if there is one; takes what it needs, such as a
 *		reference to the file, and reads no file: code that reads a file takes these
 *		locks inside of the file system's
 * @data:	for @see
 *
 * Context: task context of current; may sleep if @wait is true.
 * Return: 0, also without a mapping; -EAGAIN if the lock cannot be taken.
 */
int unwind_user_see_vma(unsigned long addr, bool wait,
			void (*see)(struct vm_area_struct *vma, void *data), void *data)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma = lock_vma_under_rcu(mm, addr);

	if (vma) {
		see(vma, data);
		vma_end_read(vma);
		return 0;
	}

	if (wait ? mmap_read_lock_killable(mm) : !mmap_read_trylock(mm))
		return -EAGAIN;
	vma = vma_lookup(mm, addr);
	if (vma)
		see(vma, data);
	mmap_read_unlock(mm);
	return 0;
}

/**
 * unwind_mapped_from - how far a mapping reaches from an address on
 * @addr:	the address
 * @max:	limit of the result
 *
 * Return: bytes from @addr on, at most @max; 0 when nothing is mapped there, @max
 * when the lock cannot be taken.
 */
unsigned int unwind_mapped_from(unsigned long addr, unsigned int max)
{
	struct mm_struct *mm = current->mm;
	struct unwind_text_vma vma;

	if (!unwind_text_may_be(addr))
		return 0;
	if (!unwind_text_fast(mm, addr, &vma) && !unwind_text_slow(mm, addr, &vma))
		return min(max, TASK_SIZE_MAX - addr);
	if (!vma.mapped)
		return 0;
	return min(max, vma.range.start + vma.range.size - addr);
}

#ifdef CONFIG_UPROBES
/**
 * unwind_uretprobe_find - find the return probe of a function
 * @state:	the walk, which remembers the mapping that the function returns to
 * @slot:	where on the stack its return address was
 *
 * Search by place and not by order: longjmp() leaves probes behind, and coroutines take
 * turns. The latest probe of a place is the valid one.
 *
 * Return: the probe, which lasts as long as the walk, or NULL.
 */
const struct return_instance *unwind_uretprobe_find(struct unwind_user_state *state,
						    unsigned long slot)
{
	for (const struct return_instance *ri = state->uretprobe; ri; ri = ri->next) {
		/* The address that the probe found on the stack is user data, too. */
		if (ri->stack == slot && ri->orig_ret_vaddr < TASK_SIZE_MAX) {
			/* Find its mapping; the probe knows that the address is code. */
			unwind_text(state, ri->orig_ret_vaddr);
			return ri;
		}
	}
	return NULL;
}
#endif
