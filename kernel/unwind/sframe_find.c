// SPDX-License-Identifier: GPL-2.0
/*
 * Find the SFrame tables of mappings for the walker, and count their uses.
 *
 * Contexts: task context of the task that is walked, page faults allowed or disabled. With page
 * faults disabled no file is read.
 *
 * Invariant: the file of a mapping is read without locks of the address space, with a reference of
 * its own.
 */
#include <linux/cleanup.h>
#include <linux/errno.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/uaccess.h>
#include <linux/unwind_user.h>

#include "object.h"
#include "sframe_user.h"
#include "text.h"

/* How often per tick a task retries files that could not be read at the time. */
#define UNWIND_SFRAME_AGAIN	8

/**
 * unwind_sframe_count_slow - add the uses in a mapping to the count of its object
 * @code:	the mapping
 */
void unwind_sframe_count_slow(struct unwind_text_code *code)
{
	unwind_object_hit(&code->ref, code->hits);
	code->hits = 0;
}

/**
 * struct unwind_sframe_file - the file of a mapping
 * @file:	the file, with a reference; NULL if there is none
 * @place:	where it is mapped
 */
struct unwind_sframe_file {
	struct file			*file;
	struct unwind_object_place	place;
};

static void unwind_sframe_get_file(struct vm_area_struct *vma, void *data)
{
	struct unwind_sframe_file *found = data;

	*found = (struct unwind_sframe_file) {
		.file	= vma->vm_file ? get_file(vma->vm_file) : NULL,
		.place	= {
			.start	= vma->vm_start,
			.end	= vma->vm_end,
			.offset	= (u64)vma->vm_pgoff << PAGE_SHIFT,
			.locked	= vma->vm_flags & VM_LOCKED,
		},
	};
}

/*
 * Should the next walk try again to get a file that could not be read now? Limit the
 * retries: the file may never be readable, and each retry also forgets all other files.
 */
static bool unwind_sframe_again(struct unwind_text *text)
{
	u32 ticks = unwind_object_ticks();

	if (text->again_ticks != ticks) {
		text->again_ticks = ticks;
		text->again = 0;
	}
	return text->again < UNWIND_SFRAME_AGAIN && ++text->again;
}

/**
 * unwind_sframe_find - find the table of a mapping
 * @state:	the walk
 * @code:	an executable mapping; gets the table if there is one
 */
void unwind_sframe_find(struct unwind_user_state *state, struct unwind_text_code *code)
{
	bool may_load = !pagefault_disabled() && !state->no_load;
	unsigned long start = code->range.start;
	struct unwind_sframe_file found = {};
	struct file *file __free(fput) = NULL;
	int ret;

	ret = unwind_user_see_vma(start, !pagefault_disabled(), unwind_sframe_get_file, &found);
	file = found.file;
	if (!ret && !file) {
		found.place.offset = 0;
		if (arch_unwind_user_vdso(start, &found.place.start, &found.place.end))
			unwind_object_get_vdso(&found.place, &code->ref);
		return;
	}
	if (!ret)
		ret = unwind_object_get(file, &found.place, may_load, &code->ref);
	if (!ret)
		return;
	if (ret == -ETIMEDOUT)
		state->no_load = true;
	/* The next walk may find it. */
	if (state->text && (!may_load || unwind_sframe_again(state->text)))
		state->text->seq = 0;
}
