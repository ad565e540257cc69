/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Words of the stack that is walked, for the user stack walker and the architectures.
 */
#ifndef _LINUX_UNWIND_USER_WORD_H
#define _LINUX_UNWIND_USER_WORD_H

#include <linux/align.h>
#include <linux/compiler.h>
#include <linux/types.h>
#include <linux/uaccess.h>
#include <linux/unwind_user_arch.h>

/**
 * unwind_user_word - read an address from user memory
 * @state:	the walk, which says how large it is
 * @addr:	where it is
 * @base:	base of the segment that it is relative to in 32-bit code
 * @val:	set to it
 *
 * Context: as the walk; page faults are allowed or disabled.
 * Return: true; false if it is misaligned or cannot be read.
 */
static __always_inline bool
unwind_user_word(const struct unwind_user_state *state, unsigned long addr, u32 base,
		 unsigned long *val)
{
	u32 word;

	if (!IS_ALIGNED(addr, state->ws))
		return false;
	if (state->ws == sizeof(u64))
		return !get_user(*val, (unsigned long __user *)addr);

	if (get_user(word, (u32 __user *)addr))
		return false;
	*val = (u32)(word + base);
	return true;
}

#endif /* _LINUX_UNWIND_USER_WORD_H */
