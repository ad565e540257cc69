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
#include <linux/stddef.h>
#include <linux/string.h>
#include <linux/unwind_user_arch.h>
#include <linux/uprobes.h>

#include "sframe_user.h"
#include "text.h"
#include "vma.h"

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

static void unwind_text_remember_code(struct unwind_user_state *state,
				      const struct unwind_vma *vma)
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
	struct unwind_text *text = state->text;
	struct unwind_text_code *code;
	struct unwind_vma vma;

	if (!unwind_may_be_user(addr) || unwind_is_trampoline(state, addr))
		return false;

	code = text ? unwind_text_find_code(text, addr) : NULL;
	if (code) {
		state->code = code;
		return true;
	}
	if (text && unwind_text_is_data(text, addr))
		return false;

	if (!unwind_vma_find(addr, &vma))
		return true;
	if (vma.mapped && unwind_text_has_trampoline(&vma.range))
		return vma.code;
	if (vma.code)
		unwind_text_remember_code(state, &vma);
	else if (text && vma.range.size)
		text->data[text->next_data++ % UNWIND_TEXT_RANGES] = vma.range;
	return vma.code;
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
