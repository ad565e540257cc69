/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Between the user stack walker in kernel/unwind and the architectures; for nobody else.
 */
#ifndef _LINUX_UNWIND_USER_ARCH_H
#define _LINUX_UNWIND_USER_ARCH_H

#include <linux/types.h>

struct pt_regs;
struct return_instance;
struct unwind_text;
struct unwind_text_code;

/* Frames of a walk between two checks for pending signals. */
#define UNWIND_USER_BATCH	56U

/*
 * The base of a value: a register, by its DWARF number, the CFA, or the previous value.
 * Base plus offset is the value, or with UNWIND_BASE_LOAD the address where it is saved.
 */
#define UNWIND_BASE_CFA		0x20
#define UNWIND_BASE_ARCH	0x21	/* unwind_user_state::arch */
#define UNWIND_BASE_SAME	0x40	/* the value of the frame before */
#define UNWIND_BASE_LOAD	0x80

/**
 * struct unwind_user_frame - rule by which a walk gets from one frame to its caller
 * @cfa_off:	from the base to the CFA, in bytes
 * @ra_off:	from the base to the return address, in bytes
 * @fp_off:	from the base to the caller's frame pointer, in bytes
 * @cfa:	base of the CFA, UNWIND_BASE_*
 * @ra:		base of the return address
 * @fp:		base of the caller's frame pointer
 * @outermost:	there is no caller; ignore the other fields
 * @signal:	the caller was interrupted, and may be at any instruction
 * @last:	the address is the last one of its function in the table
 * @unknown:	no table covers the address; ignore the other fields
 * @restorer:	a signal handler returns to this address; ignore the other fields
 */
struct unwind_user_frame {
	s32	cfa_off;
	s32	ra_off;
	s32	fp_off;
	u8	cfa;
	u8	ra;
	u8	fp;
	u8	outermost:1;
	u8	signal:1;
	u8	last:1;
	u8	unknown:1;
	u8	restorer:1;
};

/**
 * enum unwind_user_says - where the code at an exact ip says the return address is
 * @UNWIND_SAYS_NOTHING: not known
 * @UNWIND_SAYS_FP:	in the frame that the frame pointer points to, or not known even
 *			after the code was followed; arch_unwind_user_rule() may know more
 * @UNWIND_SAYS_NO_CODE: where a call to the ip put it, if no code is there; likewise
 * @UNWIND_SAYS_SFRAME:	where an SFrame table says
 * @UNWIND_SAYS_SIGNAL:	nowhere: this is the end of a signal handler
 * @UNWIND_SAYS_ARCH:	where arch_unwind_user_rule() says; the first of the architecture's own
 */
enum unwind_user_says {
	UNWIND_SAYS_NOTHING,
	UNWIND_SAYS_FP,
	UNWIND_SAYS_NO_CODE,
	UNWIND_SAYS_SFRAME,
	UNWIND_SAYS_SIGNAL,
	UNWIND_SAYS_ARCH,
};

/**
 * enum unwind_user_step - what a walk does next
 * @UNWIND_STEP_DONE:	nothing: there is no caller, or none that can be found
 * @UNWIND_STEP_CODE:	look at the code at the ip, which is exact: the next
 *			instruction to run. The ip is exact in the innermost frame, and
 *			in one that a signal interrupted
 * @UNWIND_STEP_FP:	follow frame pointers
 * @UNWIND_STEP_SFRAME:	ask the table of the ip's mapping
 * @UNWIND_STEP_SIGNAL:	see whether the ip is the return address of a signal
 *			handler
 */
enum unwind_user_step {
	UNWIND_STEP_DONE,
	UNWIND_STEP_CODE,
	UNWIND_STEP_FP,
	UNWIND_STEP_SFRAME,
	UNWIND_STEP_SIGNAL,
};

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
 * struct unwind_user_state - position of a walk
 * @ip:		instruction pointer of the current frame
 * @sp:		stack pointer of the current frame; the lower bound of all
 *		that the rest of the walk may read, until a signal frame or a frame
 *		pointer leads to another stack
 * @low:	stack pointer of the latest frame with an exact ip: that frame, and all that
 *		follow on the same stack, use no memory below it; 0 after a switch of stacks
 * @fp:		frame pointer register as of the current frame
 * @arch:	a register that only rules of the architecture use; 0 unless @ip is exact
 * @cs_base:	base of the code segment, 0 for 64-bit code
 * @ss_base:	base of the stack segment, likewise
 * @syscall:	number of the system call that the current frame is in, if it may be
 *		sigreturn, or -1
 * @ws:		user word size in bytes: 8, or 4 for 32-bit code
 * @signals:	number of signal frames passed
 * @switches:	number of switches to a lower stack that were followed
 * @step:	what to do next
 * @code:	an executable mapping: that of the latest caller, or where the first one
 *		is expected; in @text, or @own, or one of size 0
 * @own:	room for the executable mapping of a walk without @text
 * @text:	cache of the task's code, or NULL
 * @regs:	the registers that the walk started with, while @ip is theirs
 * @signal_regs: where a signal frame holds the registers of @ip, or 0
 * @no_load:	read no more files for this walk: it has already waited for one
 * @outermost:	the current frame has no caller: a table says so, or its callee has no table
 *		and saved 0 as its frame pointer
 * @uretprobe:	the task's return probes, or NULL
 *
 * All addresses are linear: they include the segment's base.
 */
struct unwind_user_state {
	unsigned long		ip;
	unsigned long		sp;
	unsigned long		low;
	unsigned long		fp;
	unsigned long		arch;
	u32			cs_base;
	u32			ss_base;
	int			syscall;
	unsigned int		ws;
	unsigned int		signals;
	unsigned int		switches;
	enum unwind_user_step	step;
	struct unwind_text_code	*code;
	struct unwind_text_code	*own;
	struct unwind_text	*text;
	struct return_instance	*uretprobe;
	const struct pt_regs	*regs;
	unsigned long		signal_regs;
	bool			no_load;
	bool			outermost;
};

#endif /* _LINUX_UNWIND_USER_ARCH_H */
