/* SPDX-License-Identifier: GPL-2.0 */
/*
 * User stack traces, as their users get them.
 */
#ifndef _LINUX_UNWIND_USER_TYPES_H
#define _LINUX_UNWIND_USER_TYPES_H

#include <linux/types.h>

struct file;

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
 * @early:	the walk ended before a frame that is known to be the outermost, and not because
 *		it had no more room: callers may be missing
 *
 * The owner of @entries defines how long they live.
 */
struct unwind_stacktrace {
	unsigned int		nr;
	unsigned long		*entries;
	struct unwind_file	*files;
	unsigned int		nr_files;
	bool			early;
};

#endif /* _LINUX_UNWIND_USER_TYPES_H */
