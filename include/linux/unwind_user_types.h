/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Types of the user stack walker, see kernel/unwind/user.c.
 */
#ifndef _LINUX_UNWIND_USER_TYPES_H
#define _LINUX_UNWIND_USER_TYPES_H

#include <linux/types.h>

struct file;
struct pt_regs;
struct return_instance;
struct unwind_object;

/**
 * struct unwind_file - where an address of a trace is in a file
 * @offset:	offset in the file, in bytes; the address itself where there is no file
 * @inode:	inode number, 0 where there is no file
 * @dev:	device of the file system, 0 where there is no file
 * @file:	the file, at the first address that is in it; NULL at the others
 */
struct unwind_file {
	u64		offset;
	u64		inode;
	dev_t		dev;
	struct file	*file;
};

/* The event user_unwind_stack has so many addresses, which fit a page of ftrace's buffer. */
#define UNWIND_EVENT_ENTRIES	128U

/**
 * struct unwind_stacktrace - one user stack trace
 * @nr:		number of valid entries
 * @entries:	the addresses, innermost first: the user instruction pointer,
 *		then return addresses
 * @files:	where the first UNWIND_EVENT_ENTRIES of them are in files, or NULL when
 *		nobody wanted to know or it could not be found out
 * @nr_files:	how many @files there are
 *
 * The owner of @entries defines how long they live.
 */
struct unwind_stacktrace {
	unsigned int		nr;
	unsigned long		*entries;
	struct unwind_file	*files;
	unsigned int		nr_files;
};

/*
 * What a value is computed from: a register, by its number in DWARF, or one of these. It
 * is the value, or with the last one the address where it is saved.
 */
#define UNWIND_BASE_CFA		0x20
#define UNWIND_BASE_SAME	0x40	/* the value of the frame before */
#define UNWIND_BASE_LOAD	0x80

/**
 * struct unwind_user_frame - how to get from one frame to its caller
 * @cfa_off:	from the base to the CFA, in bytes
 * @ra_off:	from the base to the return address, in bytes
 * @fp_off:	from the base to the caller's frame pointer, in bytes
 * @cfa:	base of the CFA, UNWIND_BASE_*
 * @ra:		base of the return address
 * @fp:		base of the caller's frame pointer
 * @outermost:	there is no caller, and nothing of the rest means anything
 * @signal:	the caller was interrupted, and may be at any instruction
 * @last:	the address is the last one of what the table has a function for
 * @unknown:	no table says anything, and nothing of the rest means anything
 * @restorer:	this is where a signal handler returns to, likewise
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
 * @UNWIND_SAYS_FP:	in the frame that the frame pointer points to, or not known, however
 *			far the code is followed
 * @UNWIND_SAYS_TOP:	on top of the stack
 * @UNWIND_SAYS_NO_CODE: likewise, if there is none: a call of nothing
 * @UNWIND_SAYS_JUMP:	likewise, if the jump that comes leaves the function: the word
 *			below is the frame pointer, which was restored from there
 * @UNWIND_SAYS_PUSHED:	above the caller's frame pointer, which is on top of the stack
 * @UNWIND_SAYS_PUSHED_3: likewise, with two words in between
 * @UNWIND_SAYS_DRAP:	below the CFA, which is in a register
 * @UNWIND_SAYS_SFRAME:	where a table says
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
	UNWIND_SAYS_SFRAME,
	UNWIND_SAYS_SIGNAL,
};

/**
 * enum unwind_user_step - what a walk does next
 * @UNWIND_STEP_DONE:	nothing: there is no caller, or none that can be found
 * @UNWIND_STEP_CODE:	look at the code at the ip, which is exact: the next
 *			instruction to run. So it is in the innermost frame, and in
 *			one that a signal interrupted
 * @UNWIND_STEP_FP:	follow frame pointers
 * @UNWIND_STEP_SFRAME:	ask the table of the mapping that the ip is in
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

/* Signal handlers of one stack that were interrupted by the next one. */
#define UNWIND_USER_SIGNALS	32

/* Switches to a lower stack, other than by a signal, that a walk follows. */
#define UNWIND_USER_SWITCHES	8

/* Mappings, pairs of places in the code, and frames that are remembered. */
#define UNWIND_TEXT_CODES	4
#define UNWIND_TEXT_RANGES	4
#define UNWIND_TEXT_LOOKS	32
#define UNWIND_TEXT_FRAMES	64

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
 * struct unwind_object_ref - the object of a mapping, see kernel/unwind/object.c
 * @object:	the object, to be used by unwind_object_of(); NULL if there is none
 * @bias:	from addresses that the file names to those of the mapping, in bytes
 * @epoch:	how many objects had been dropped then
 */
struct unwind_object_ref {
	struct unwind_object	*object;
	unsigned long		bias;
	long			epoch;
};

/**
 * struct unwind_text_code - an executable mapping
 * @range:	where it is
 * @ref:	what has the table of its frames
 * @hits:	how often that was used, and was not counted yet
 * @rewritable:	the code may change and the mapping stay: nothing is remembered of it
 */
struct unwind_text_code {
	struct unwind_text_range	range;
	struct unwind_object_ref	ref;
	unsigned long			hits;
	bool				rewritable;
};

/**
 * enum unwind_text_kind - what is remembered of a frame
 * @UNWIND_TEXT_CALLER:	where the CFA is, and the caller's frame pointer
 * @UNWIND_TEXT_OUTERMOST: there is no caller
 * @UNWIND_TEXT_UNKNOWN: no table says anything
 * @UNWIND_TEXT_RESTORER: this is where a signal handler returns to
 */
enum unwind_text_kind {
	UNWIND_TEXT_CALLER,
	UNWIND_TEXT_OUTERMOST,
	UNWIND_TEXT_UNKNOWN,
	UNWIND_TEXT_RESTORER,
};

/**
 * struct unwind_text_frame - what a table said, if it is what most say
 * @key:	the address, and whether it is exact; 0 for none
 * @cfa_off:	from the base to the CFA, in bytes
 * @fp_off:	from the CFA to the caller's frame pointer; 0 if that is the same
 * @cfa:	base of the CFA: stack or frame pointer
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
 * struct unwind_text - what walks of a task found out about its code
 * @seq:	state of the address space, and when objects were looked up, that the rest
 *		belongs to
 * @next_code:	counts what was replaced in @code
 * @next_data:	likewise
 * @code:	executable mappings, but not that of the trampoline of return probes
 * @data:	others that words on the stack point to, and gaps between mappings
 * @look:	what the code at an ip said: unwind_text_key(), and in the last digits &enum
 *		unwind_user_says; the latest of each pair is the first
 * @caller:	a return address at the top of a stack, where a call ends
 * @no_caller:	code that a frame down the stack returns to, where no call ends
 * @again_ticks: when objects were looked up, that @again belongs to
 * @again:	walks since then after which all was to be looked up once more, as a file
 *		could not be read just then
 * @frames_used: which of @frames have a key
 * @frames:	what tables said; the latest of each pair is the first
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
	u32				again;
	u64				frames_used;
	struct unwind_text_frame	frames[UNWIND_TEXT_FRAMES][2];
#endif
};

/**
 * struct unwind_user_state - position of a walk
 * @ip:		instruction pointer of the current frame
 * @sp:		stack pointer of the current frame; the lower bound of all
 *		that the rest of the walk may read, until a signal frame or a frame
 *		pointer leads to another stack
 * @fp:		frame pointer register as of the current frame
 * @drap:	register that holds the CFA of functions that align their stack;
 *		only where @ip is exact
 * @cs_base:	base of the code segment, 0 for 64-bit code
 * @ss_base:	base of the stack segment, likewise
 * @syscall:	number of the system call that the current frame is in, if it may be
 *		sigreturn, or -1
 * @ws:		user word size in bytes: 8, or 4 for 32-bit code
 * @signals:	signal frames that were passed
 * @switches:	switches to a lower stack that were followed
 * @step:	what to do next
 * @code:	an executable mapping: that of the latest caller, or where the first one
 *		is expected; in @text, or @own, or one of size 0
 * @own:	where there is no @text
 * @text:	what is known about the code, or NULL
 * @regs:	the registers that the walk started with, while @ip is theirs
 * @signal_regs: where a signal frame has those of @ip, or 0
 * @no_load:	read no more files for this walk: it has waited for one already
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
	unsigned int		switches;
	enum unwind_user_step	step;
	struct unwind_text_code	*code;
	struct unwind_text	*text;
	struct return_instance	*uretprobe;
	const struct pt_regs	*regs;
	unsigned long		signal_regs;
	bool			no_load;
	struct unwind_text_code	own;
};

#endif /* _LINUX_UNWIND_USER_TYPES_H */
