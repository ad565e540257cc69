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
 * struct unwind_file - position of an address of a trace in a file
 * @offset:	offset in the file, in bytes; the address itself without a file
 * @inode:	inode number, 0 without a file
 * @dev:	device of the file system, 0 without a file
 * @file:	the file, at the first address that is in it; NULL at the others
 */
struct unwind_file {
	u64		offset;
	u64		inode;
	dev_t		dev;
	struct file	*file;
};

/* Addresses in a user_unwind_stack event: they fit in a page of ftrace's buffer. */
#define UNWIND_EVENT_ENTRIES	128U

/**
 * struct unwind_stacktrace - one user stack trace
 * @nr:		number of valid entries
 * @entries:	the addresses, innermost first: the user instruction pointer,
 *		then return addresses
 * @files:	positions in files of the first UNWIND_EVENT_ENTRIES addresses, or NULL when
 *		no tracer wanted them or they could not be found out
 * @nr_files:	number of @files
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
 * The base of a value: a register, by its DWARF number, the CFA, or the previous value.
 * Base plus offset is the value, or with UNWIND_BASE_LOAD the address where it is saved.
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
 *			after the code was followed
 * @UNWIND_SAYS_TOP:	on top of the stack
 * @UNWIND_SAYS_NO_CODE: likewise, if no code is at the ip: a call to a bad address
 * @UNWIND_SAYS_JUMP:	likewise, if the next jump leaves the function: then the word
 *			below is the frame pointer, which was restored from there
 * @UNWIND_SAYS_PUSHED:	above the caller's frame pointer, which is on top of the stack
 * @UNWIND_SAYS_PUSHED_3: likewise, with two words in between
 * @UNWIND_SAYS_DRAP:	below the CFA, which is in a register
 * @UNWIND_SAYS_SFRAME:	where an SFrame table says
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

/* Signal frames that a walk passes. */
#define UNWIND_USER_SIGNALS	32

/* Switches to a lower stack, other than by a signal, that a walk follows. */
#define UNWIND_USER_SWITCHES	8

/* Cache sizes: executable mappings, other ranges, pairs of looks at code, pairs of frames. */
#define UNWIND_TEXT_CODES	8
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
 * @look:	what the code at an ip said: unwind_text_key(), with &enum unwind_user_says
 *		in the low bits; the latest of each pair comes first
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

/**
 * struct unwind_user_state - position of a walk
 * @ip:		instruction pointer of the current frame
 * @sp:		stack pointer of the current frame; the lower bound of all
 *		that the rest of the walk may read, until a signal frame or a frame
 *		pointer leads to another stack
 * @low:	stack pointer of the latest frame with an exact ip: that frame, and all that
 *		follow on the same stack, use no memory below it; 0 after a switch of stacks
 * @fp:		frame pointer register as of the current frame
 * @drap:	register that holds the CFA of functions that align their stack;
 *		only where @ip is exact
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
 * @own:	the executable mapping of a walk without @text
 * @text:	cache of the task's code, or NULL
 * @regs:	the registers that the walk started with, while @ip is theirs
 * @signal_regs: where a signal frame holds the registers of @ip, or 0
 * @no_load:	read no more files for this walk: it has already waited for one
 * @read_code:	the current step read code: it takes as long as many frames
 * @uretprobe:	the task's return probes, or NULL
 *
 * All addresses are linear: they include the segment's base.
 */
struct unwind_user_state {
	unsigned long		ip;
	unsigned long		sp;
	unsigned long		low;
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
	bool			read_code;
	struct unwind_text_code	own;
};

#endif /* _LINUX_UNWIND_USER_TYPES_H */
