/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Address checks of the walker, and the cache of what they find out, see text.c.
 */
#ifndef _KERNEL_UNWIND_TEXT_H
#define _KERNEL_UNWIND_TEXT_H

#include <linux/compiler.h>
#include <linux/sched.h>
#include <linux/uaccess.h>
#include <linux/unwind_user_arch.h>
#include <linux/uprobes.h>
#include <asm/unwind_user.h>

struct unwind_object;

/* Cache sizes: executable mappings, other ranges, pairs of looks at code, pairs of frames. */
#define UNWIND_TEXT_CODES	8
#define UNWIND_TEXT_RANGES	4
#define UNWIND_TEXT_LOOKS	32
#define UNWIND_TEXT_FRAMES	64

/**
 * struct unwind_object_ref - the object of a mapping
 * @object:	the object, to be used by unwind_object_of(); NULL if there is none
 * @bias:	from addresses in the file to those of the mapping, in bytes
 * @epoch:	how many objects had been dropped at the lookup
 */
struct unwind_object_ref {
	struct unwind_object	*object;
	unsigned long		bias;
	long			epoch;
};

/**
 * struct unwind_text_code - an executable mapping
 * @range:	where it is
 * @ref:	the object with the table of its frames
 * @hits:	uses of that object which were not counted yet
 * @rewritable:	the code may change while the mapping stays: answers about it are not cached
 */
struct unwind_text_code {
	struct unwind_text_range	range;
	struct unwind_object_ref	ref;
	u32				hits;
	bool				rewritable;
};

/**
 * enum unwind_text_kind - kind of a cached frame
 * @UNWIND_TEXT_CALLER:	where the CFA is, and the caller's frame pointer
 * @UNWIND_TEXT_DRAP:	likewise in a function that aligns its stack: both are saved at
 *			offsets from its frame pointer
 * @UNWIND_TEXT_OUTERMOST: there is no caller
 * @UNWIND_TEXT_UNKNOWN: no table covers the address
 * @UNWIND_TEXT_RESTORER: a signal handler returns to this address
 */
enum unwind_text_kind {
	UNWIND_TEXT_CALLER,
	UNWIND_TEXT_DRAP,
	UNWIND_TEXT_OUTERMOST,
	UNWIND_TEXT_UNKNOWN,
	UNWIND_TEXT_RESTORER,
};

/**
 * struct unwind_text_frame - cached answer of a table, if it is of a common form
 * @key:	the address, and whether it is exact; 0 for none
 * @cfa_off:	from the base to the CFA, in bytes
 * @fp_off:	from the CFA to the caller's frame pointer, or 0 if that is unchanged; with
 *		%UNWIND_TEXT_DRAP from the frame pointer
 * @cfa:	base of the CFA: stack or frame pointer, UNWIND_BASE_*
 * @kind:	&enum unwind_text_kind
 */
struct unwind_text_frame {
	unsigned long			key;
	s32				cfa_off;
	s16				fp_off;
	u8				cfa;
	u8				kind;
};

/**
 * struct unwind_text - cache of what walks of a task found out about its code
 * @seq:	state of the address space, and tick of the object lookups, to which the rest
 *		belongs
 * @next_code:	counts replacements in @code
 * @next_data:	likewise in @data
 * @code:	executable mappings, but not that of the trampoline of return probes
 * @data:	other mappings that words on the stack point to, and gaps between mappings
 * @look:	what the code at an ip said: unwind_code_key(), with &enum unwind_user_says
 *		or an answer of the architecture in the low bits; the latest of each pair
 *		comes first
 * @caller:	a return address on top of a stack, where a call ends
 * @no_caller:	code that a frame down the stack returns to, where no call ends
 * @again_ticks: tick of the object lookups to which @again belongs
 * @again:	walks in that tick after which all had to be looked up again, because a file
 *		could not be read just then
 * @frames_full: counts answers for which no slot was free
 * @frames_used: which of @frames have a key
 * @frames:	cached answers of tables; each may be in one of two pairs
 */
struct unwind_text {
	u64				seq;
	u16				next_code;
	u16				next_data;
	struct unwind_text_code		code[UNWIND_TEXT_CODES];
	struct unwind_text_range	data[UNWIND_TEXT_RANGES];
	u64				look[UNWIND_TEXT_LOOKS][2];
	unsigned long			caller;
	unsigned long			no_caller;
#ifdef CONFIG_UNWIND_USER_SFRAME
	u32				again_ticks;
	u16				again;
	u16				frames_full;
	u64				frames_used;
	struct unwind_text_frame	frames[UNWIND_TEXT_FRAMES][2];
#endif
};

/* The mapping of a walk that has found none yet. */
extern struct unwind_text_code unwind_text_none;

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

void unwind_text_begin_anew(struct unwind_text *text, u64 seq);
void unwind_text_forget(struct unwind_text *text);

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
