/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Types of the user stack walker, see kernel/unwind/user.c.
 */
#ifndef _LINUX_UNWIND_USER_TYPES_H
#define _LINUX_UNWIND_USER_TYPES_H

#include <linux/types.h>

struct return_instance;

/**
 * struct unwind_file - where an address of a trace is in a file
 * @offset:	offset in the file, in bytes; the address itself where there is no file
 * @inode:	inode number, 0 where there is no file
 * @dev:	device of the file system, 0 where there is no file
 */
struct unwind_file {
	u64		offset;
	u64		inode;
	dev_t		dev;
};

/**
 * struct unwind_stacktrace - one user stack trace
 * @nr:		number of valid entries
 * @entries:	the addresses, innermost first: the user instruction pointer,
 *		then return addresses
 * @files:	where each of them is in a file, or NULL when nobody wanted to know or
 *		it could not be found out
 *
 * The owner of @entries defines how long they live.
 */
struct unwind_stacktrace {
	unsigned int		nr;
	unsigned long		*entries;
	struct unwind_file	*files;
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
 * enum unwind_user_says - where the code at an exact ip says the return address is
 * @UNWIND_SAYS_NOTHING: not known
 * @UNWIND_SAYS_FP:	in the frame that the frame pointer points to
 * @UNWIND_SAYS_TOP:	on top of the stack
 * @UNWIND_SAYS_NO_CODE: likewise, if there is none: a call of nothing
 * @UNWIND_SAYS_JUMP:	likewise, if the jump that comes leaves the function: the word
 *			below is the frame pointer, which was restored from there
 * @UNWIND_SAYS_PUSHED:	above the caller's frame pointer, which is on top of the stack
 * @UNWIND_SAYS_PUSHED_3: likewise, with two words in between
 * @UNWIND_SAYS_DRAP:	below the CFA, which is in a register
 * @UNWIND_SAYS_SIGNAL:	nowhere: this is the end of a signal handler
 */
enum unwind_user_says {
	UNWIND_SAYS_NOTHING,
	UNWIND_SAYS_FP,
	UNWIND_SAYS_TOP,
	UNWIND_SAYS_NO_CODE,
	UNWIND_SAYS_JUMP,
	UNWIND_SAYS_PUSHED,
	UNWIND_SAYS_PUSHED_3,
	UNWIND_SAYS_DRAP,
	UNWIND_SAYS_SIGNAL,
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

/* Signal handlers of one stack that were interrupted by the next one. */
#define UNWIND_USER_SIGNALS	32

/* Mappings and pairs of places in the code that are remembered. */
#define UNWIND_TEXT_RANGES	2
#define UNWIND_TEXT_LOOKS	16

/**
 * struct unwind_text_range - a mapping
 * @start:	its first address
 * @size:	its size, 0 for none
 */
struct unwind_text_range {
	unsigned long	start;
	unsigned long	size;
};

/**
 * struct unwind_text_look - what code said
 * @key:	its address and word size; 0 for none
 * @says:	the answer
 */
struct unwind_text_look {
	unsigned long			key;
	enum unwind_user_says		says;
};

/**
 * struct unwind_text - what walks of a task found out about its code
 * @seq:	state of the address space that the rest belongs to; odd for none
 * @next_code:	counts what was replaced in @code
 * @next_data:	likewise
 * @code:	executable mappings, but not that of the trampoline of return probes
 * @data:	others that addresses on the stack point to
 * @look:	what the code at an ip said; the latest of each pair is the first
 */
struct unwind_text {
	unsigned int			seq;
	u16				next_code;
	u16				next_data;
	struct unwind_text_range	code[UNWIND_TEXT_RANGES];
	struct unwind_text_range	data[UNWIND_TEXT_RANGES];
	struct unwind_text_look		look[UNWIND_TEXT_LOOKS][2];
};

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
 * @syscall:	number of the system call that the current frame is in, if it may be
 *		sigreturn, or -1
 * @ws:		user word size in bytes: 8, or 4 for 32-bit code
 * @signals:	signal frames that were passed
 * @step:	what to do next
 * @code:	an executable mapping: that of the latest caller, or where the first one
 *		is expected
 * @text:	what is known about the code, or NULL
 * @uretprobe:	the task's return probes, or NULL
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
	unsigned int		signals;
	enum unwind_user_step	step;
	struct unwind_text_range code;
	struct unwind_text	*text;
	struct return_instance	*uretprobe;
};

#endif /* _LINUX_UNWIND_USER_TYPES_H */
