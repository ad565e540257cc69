// SPDX-License-Identifier: GPL-2.0
/*
 * The user stack of a kernel entry: its trace, and how much of it callbacks can copy.
 *
 * Contexts: task context, called by tracers.c. Callbacks call unwind_deferred_stack()
 * and unwind_deferred_copy_stack(); any context may call unwind_user_walked(). The rest
 * may fault, and so wait for as long as the user likes; a task that dies or is in exec
 * does not wait.
 *
 * All state is in current->unwind_info and only current comes here, so no lock is
 * needed. Invariant: with @walked set, @cache is the trace of this kernel entry, or NULL
 * if there was no memory for one; otherwise it is only memory for reuse. An NMI on top
 * of current, or a program that is attached to a function called here, may read it: so
 * @walked is set last, and memory is freed only after @walked was cleared.
 */
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/perf_event.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/unwind_deferred.h>
#include <linux/unwind_user.h>

#include "gfp.h"
#include "regs.h"
#include "test_tracer.h"
#include "text.h"
#include "unwind.h"
#include "vma.h"

/* True when user mode will not be resumed where it was left. */
static bool unwind_regs_differ(struct unwind_task_info *info)
{
	struct pt_regs *regs = task_pt_regs(current);

	return info->regs_seen && (info->ip != instruction_pointer(regs) ||
				   info->sp != user_stack_pointer(regs));
}

/*
 * Continue the walk into the rest of @cache. Returns whether it ended because @cache
 * is full.
 */
static bool unwind_fill_cache(struct unwind_user_state *state,
			      struct unwind_cache *cache, unsigned int limit)
{
	unsigned int max = min(cache->max, limit), nr = cache->nr;

	nr += unwind_user_walk(state, cache->entries + nr, max - nr);
	cache->nr = nr;
	return nr == max && state->step != UNWIND_STEP_DONE;
}

static void *unwind_alloc(size_t size)
{
	void *mem = unwind_test_fail(UNWIND_TEST_FAIL_CACHE) ? NULL :
		    kvmalloc(size, unwind_gfp());

	if (!mem)
		unwind_count(UNWIND_STAT_NOMEM);
	return mem;
}

static struct unwind_cache *unwind_alloc_cache(void)
{
	struct unwind_cache *cache = unwind_alloc(PAGE_SIZE);

	/* With the default limit, no trace needs more memory. */
	static_assert(UNWIND_PAGE_ENTRIES >= PERF_MAX_STACK_DEPTH);
	if (!cache)
		return NULL;

	cache->max = UNWIND_PAGE_ENTRIES;
	cache->nr = 0;
	cache->entries = cache->page;
	memset(&cache->text, 0, sizeof(cache->text));
	return cache;
}

/* Make room for @max entries. Returns false and changes nothing if memory is short. */
static bool unwind_grow_cache(struct unwind_cache *cache, unsigned int max)
{
	unsigned long *entries = unwind_alloc(array_size(max, sizeof(*entries)));

	if (!entries)
		return false;

	memcpy(entries, cache->entries, array_size(cache->nr, sizeof(*entries)));
	if (cache->entries != cache->page)
		kvfree(cache->entries);
	cache->entries = entries;
	cache->max = max;
	return true;
}

/* Depth limit: kernel.perf_event_max_stack, as far as a perf record can hold it. */
static unsigned int unwind_max_entries(void)
{
	/* No partner: a change of the sysctl may take effect any time. */
	int max = READ_ONCE(sysctl_perf_event_max_stack);

	return clamp_t(int, max, 1, UNWIND_MAX_ENTRIES);
}

/* Inline, because the only caller calls it most of the time. */
static __always_inline void unwind_walk_stack(struct unwind_task_info *info)
{
	struct unwind_user_state state __uninitialized;
	struct pt_regs *regs = task_pt_regs(current);
	unsigned int limit = unwind_max_entries();
	struct unwind_cache *cache;
	unsigned long more;

	if (!info->cache)
		info->cache = unwind_alloc_cache();
	cache = info->cache;
	if (!cache) {
		unwind_count(UNWIND_STAT_EMPTY_NOMEM);
		return;
	}

	cache->nr = 0;
	cache->early = false;
	if (unwind_regs_differ(info)) {
		unwind_count(UNWIND_STAT_EMPTY_MOVED);
		return;
	}
	/* Even without a request: the trace must not be taken for that of other registers later. */
	if (!info->regs_seen)
		unwind_note_regs(info, true);

	unwind_user_start(&state, regs, &cache->text, NULL);
	if (state.ws) {
		cache->entries[0] = state.ip;
		cache->nr = 1;
	}

	while (unwind_fill_cache(&state, cache, limit) && cache->max < limit &&
	       unwind_grow_cache(cache, min(limit, cache->max * 4)))
		;

	unwind_count(UNWIND_STAT_WALKS);
	unwind_count_add(UNWIND_STAT_FRAMES, cache->nr);
	if (!cache->nr)
		unwind_count(UNWIND_STAT_EMPTY_NO_STACK);
	/* Most walks have ended: skip the call for them. */
	else if (state.step != UNWIND_STEP_DONE && unwind_user_walk(&state, &more, 1))
		unwind_count(UNWIND_STAT_ENDED_FULL);
	else
		cache->early = !state.outermost;
}

/**
 * unwind_get_trace - get the trace of this kernel entry
 * @info:	current's
 * @trace:	set; empty if there is none
 *
 * Walks only if no walk of this entry was done before, even if that found nothing; and again after
 * unwind_drop_other_trace().
 */
void unwind_get_trace(struct unwind_task_info *info, struct unwind_stacktrace *trace)
{
	struct unwind_cache *cache;

	if (!info->walked) {
		atomic_long_or(UNWIND_WALKING, &info->unwind_mask);
		unwind_walk_stack(info);
		atomic_long_andnot(UNWIND_WALKING, &info->unwind_mask);
		barrier();
		/* Pairs with unwind_user_walked() on top of this. */
		WRITE_ONCE(info->walked, true);
	}

	cache = info->cache;
	trace->nr = cache ? cache->nr : 0;
	trace->entries = trace->nr ? cache->entries : NULL;
	trace->early = trace->nr && cache->early;
}

/**
 * unwind_drop_other_trace - drop the trace of this kernel entry if it begins elsewhere
 * @info:	current's, whose user instruction pointer was corrected
 *
 * Only a program that takes the stack before the correction causes such a trace.
 */
void unwind_drop_other_trace(struct unwind_task_info *info)
{
	const struct unwind_cache *cache = info->cache;

	if (info->walked && cache && cache->nr &&
	    cache->entries[0] != instruction_pointer(task_pt_regs(current))) {
		/* Pairs with unwind_user_walked() on top of this. */
		WRITE_ONCE(info->walked, false);
	}
}

/**
 * unwind_trim_cache - drop the trace of this kernel entry, and all but a page of memory
 * @info:	current's, which has one
 */
void unwind_trim_cache(struct unwind_task_info *info)
{
	struct unwind_cache *cache = info->cache;
	unsigned long *entries = cache->entries;

	/* Pairs with unwind_user_walked() on top of this. */
	WRITE_ONCE(info->walked, false);
	barrier();
	cache->nr = 0;
	if (entries == cache->page)
		return;
	cache->max = UNWIND_PAGE_ENTRIES;
	cache->entries = cache->page;
	kvfree(entries);
}

/**
 * unwind_free_cache - free the memory for traces
 * @info:	current's
 */
void unwind_free_cache(struct unwind_task_info *info)
{
	struct unwind_cache *cache = info->cache;

	if (!cache)
		return;
	unwind_trim_cache(info);
	/* An NMI on top of this reads it only with @walked set. */
	info->cache = NULL;
	unwind_text_forget(&cache->text);
	kvfree(cache);
}

/**
 * unwind_user_walked - get the trace of this kernel entry, if the stack was walked
 * @trace:	set if so
 *
 * For callers that cannot wait for the trace. The entries stay valid until the task runs
 * its task work or exits, and thus for as long as an interrupt or NMI lasts.
 *
 * Context: any, NMI included.
 * Return: true if there is a trace, and ip and sp of user mode are still those of the walk.
 */
bool unwind_user_walked(struct unwind_stacktrace *trace)
{
	struct unwind_task_info *info = &current->unwind_info;
	struct unwind_cache *cache;

	/* Pairs with unwind_get_trace() and unwind_trim_cache() below this. */
	if (!READ_ONCE(info->walked))
		return false;
	cache = READ_ONCE(info->cache);
	if (!cache || !cache->nr || unwind_regs_differ(info))
		return false;
	/* Uprobes correct the instruction pointer, and info->ip with it. */
	if (cache->entries[0] != instruction_pointer(task_pt_regs(current)))
		return false;

	*trace = (struct unwind_stacktrace) {
		.nr		= cache->nr,
		.entries	= cache->entries,
		.early		= cache->early,
	};
	return true;
}

/**
 * unwind_fault_in_stack - bring into memory what tracers want to copy of the user stack
 * @info:	current's
 *
 * If this reads from disk, the wait is here and not in a callback.
 */
void unwind_fault_in_stack(struct unwind_task_info *info)
{
	unsigned long sp = user_stack_pointer(task_pt_regs(current));

	info->stack_size = 0;
	if (WARN_ON_ONCE(!current->mm) || unwind_regs_differ(info))
		return;

	if (unwind_must_not_wait()) {
		pagefault_disable();
		info->stack_size = unwind_mapped_from(sp, info->stack_want);
		pagefault_enable();
		return;
	}

	info->stack_size = unwind_mapped_from(sp, info->stack_want);
	fault_in_readable((const char __user *)sp, info->stack_size);
}

/**
 * unwind_deferred_stack - tell a callback what it can copy of the user stack
 * @stack:	set
 *
 * For tracers that asked with unwind_deferred_request_stack().
 *
 * Context: a callback.
 */
void unwind_deferred_stack(struct unwind_user_stack *stack)
{
	struct unwind_task_info *info = &current->unwind_info;
	struct pt_regs *regs = task_pt_regs(current);

	stack->moved = unwind_regs_differ(info);
	stack->ip = info->regs_seen ? info->ip : instruction_pointer(regs);
	stack->sp = info->regs_seen ? info->sp : user_stack_pointer(regs);
	stack->size = stack->moved ? 0 : info->stack_size;
}

/**
 * unwind_deferred_copy_stack - copy the user stack, for code in another address space
 * @stack:	from unwind_deferred_stack(); its size becomes that of the copy
 *
 * Does not wait for user memory: the copy ends at the first page that is gone.
 *
 * Context: a callback.
 * Return: the copy, to be freed with kvfree(); NULL if there is nothing to copy, or no
 * memory for it, which is counted.
 */
void *unwind_deferred_copy_stack(struct unwind_user_stack *stack)
{
	const void __user *from = (const void __user *)stack->sp;
	unsigned int size = stack->size;
	void *copy;

	stack->size = 0;
	if (!size || !access_ok(from, size))
		return NULL;
	copy = unwind_alloc(size);
	if (!copy)
		return NULL;

	pagefault_disable();
	stack->size = size - __copy_from_user_inatomic(copy, from, size);
	pagefault_enable();
	return copy;
}
