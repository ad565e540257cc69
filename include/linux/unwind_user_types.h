/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Types of the user stack walker, see kernel/unwind/user.c.
 */
#ifndef _LINUX_UNWIND_USER_TYPES_H
#define _LINUX_UNWIND_USER_TYPES_H

#include <linux/types.h>

/**
 * struct unwind_stacktrace - one user stack trace
 * @nr:		number of valid entries
 * @entries:	the addresses, innermost first: the user instruction pointer,
 *		then return addresses
 *
 * The owner of @entries defines how long they live.
 */
struct unwind_stacktrace {
	unsigned int	nr;
	unsigned long	*entries;
};

/**
 * struct unwind_user_frame - how to get from one frame to its caller
 * @cfa_off:	from the base to the CFA, in bytes
 * @ra_off:	from the CFA to the saved return address, in bytes
 * @fp_off:	from the CFA to the caller's frame pointer, in bytes; 0 when
 *		the frame pointer was not saved and is still the caller's
 * @use_fp:	the base is the frame pointer, else the stack pointer
 */
struct unwind_user_frame {
	s32	cfa_off;
	s32	ra_off;
	s32	fp_off;
	bool	use_fp;
};

/**
 * struct unwind_user_state - position of a walk
 * @ip:		instruction pointer of the current frame
 * @sp:		stack pointer of the current frame; the lower bound of all
 *		that the rest of the walk may read
 * @fp:		frame pointer register as of the current frame
 * @ws:		user word size in bytes: 8, or 4 for 32-bit code
 * @at_entry:	the frame is the innermost one and nothing was pushed yet
 * @done:	there is no caller, or none that can be found
 */
struct unwind_user_state {
	unsigned long	ip;
	unsigned long	sp;
	unsigned long	fp;
	unsigned int	ws;
	bool		at_entry;
	bool		done;
};

#endif /* _LINUX_UNWIND_USER_TYPES_H */
