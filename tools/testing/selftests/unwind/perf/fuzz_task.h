/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _UNWIND_FUZZ_TASK_H
#define _UNWIND_FUZZ_TASK_H

/*
 * Do random things until the task is killed, or its parent ends. It leads a process group. The
 * caller has seeded the random numbers.
 */
__attribute__((noreturn)) void fuzz_task(void);

#endif /* _UNWIND_FUZZ_TASK_H */
