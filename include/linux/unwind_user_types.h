/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Types of the user stack walker, see kernel/unwind/user.c.
 */
#ifndef _LINUX_UNWIND_USER_TYPES_H
#define _LINUX_UNWIND_USER_TYPES_H

#include <linux/types.h>

struct return_instance;

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
 * @cfa_off:	from the frame pointer to the CFA, in bytes
 * @ra_off:	from the CFA to the saved return address, in bytes
 * @fp_off:	from the CFA to the caller's frame pointer, in bytes
 */
struct unwind_user_frame {
	s32	cfa_off;
	s32	ra_off;
	s32	fp_off;
};

/**
 * struct unwind_user_guess - a frame that the code at the user ip speaks of
 * @cfa:	the CFA; the return address is in the word below
 * @fp_saved:	the caller's frame pointer is in the word below that, else the
 *		register still holds it
 * @signal:	this may be the end of a signal handler; @cfa means nothing
 */
struct unwind_user_guess {
	unsigned long	cfa;
	bool		fp_saved;
	bool		signal;
};

/**
 * enum unwind_user_step - what a walk does next
 * @UNWIND_STEP_DONE:	nothing: there is no caller, or none that can be found
 * @UNWIND_STEP_CODE:	look at the code at the ip, which is exact: the next
 *			instruction to run. So it is in the innermost frame, and in
 *			one that a signal interrupted
 * @UNWIND_STEP_FP:	follow frame pointers
 * @UNWIND_STEP_SIGNAL:	see whether the ip is the return address of a signal
 *			handler
 */
enum unwind_user_step {
	UNWIND_STEP_DONE,
	UNWIND_STEP_CODE,
	UNWIND_STEP_FP,
	UNWIND_STEP_SIGNAL,
};

/* Ranges of text that a walk remembers: the program's and its library's. */
#define UNWIND_USER_TEXTS	2

/**
 * struct unwind_user_state - position of a walk
 * @ip:		instruction pointer of the current frame
 * @sp:		stack pointer of the current frame; the lower bound of all
 *		that the rest of the walk may read, until a signal frame
 *		names another stack
 * @fp:		frame pointer register as of the current frame
 * @drap:	register that holds the CFA of functions that align their stack;
 *		only where @ip is exact
 * @cs_base:	base of the code segment, 0 for 64-bit code
 * @ss_base:	base of the stack segment, likewise
 * @syscall:	number of the system call that the current frame is in, or -1
 * @ws:		user word size in bytes: 8, or 4 for 32-bit code
 * @step:	what to do next
 * @text_next:	which of @text to replace
 * @text:	executable mappings seen by this walk, @size 0 if none
 * @uretprobe:	innermost return probe that was not seen on the stack yet
 *
 * All addresses are linear: a segment's base is in them.
 */
struct unwind_user_state {
	unsigned long		ip;
	unsigned long		sp;
	unsigned long		fp;
	unsigned long		drap;
	u32			cs_base;
	u32			ss_base;
	int			syscall;
	unsigned int		ws;
	enum unwind_user_step	step;
	unsigned int		text_next;
	struct {
		unsigned long	start;
		unsigned long	size;
	} text[UNWIND_USER_TEXTS];
	struct return_instance	*uretprobe;
};

#endif /* _LINUX_UNWIND_USER_TYPES_H */
