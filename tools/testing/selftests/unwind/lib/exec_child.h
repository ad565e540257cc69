/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A process that executes itself forever.
 */
#ifndef _UNWIND_EXEC_CHILD_H
#define _UNWIND_EXEC_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

/* Its program is exec_loop.S. */
struct exec_loop {
	pid_t		pid;
	int		go;
	/* The entry point, which is also the instruction pointer in execve(). */
	unsigned long	entry;
};

/* Fork the process; 0 or -1. Then start its loop. */
int exec_loop_prepare(struct exec_loop *loop);
int exec_loop_start(struct exec_loop *loop);

/* Kill it; returns whether it was still running. */
bool exec_loop_stop(struct exec_loop *loop);

#endif /* _UNWIND_EXEC_CHILD_H */
