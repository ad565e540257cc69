/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Failures that the kernel injects into a task which asks for them.
 */
#ifndef _UNWIND_INJECT_H
#define _UNWIND_INJECT_H

#include <stdbool.h>
#include <sys/types.h>

#define INJECT_NEEDS "needs root, debugfs, CONFIG_FAULT_INJECTION_DEBUG_FS, " \
		     "CONFIG_FAILSLAB, CONFIG_FAIL_PAGE_ALLOC and " \
		     "CONFIG_FAULT_INJECTION_USERCOPY"

/*
 * Let failures hit any allocation of a task that asks for them, without a word; false if
 * that cannot be.
 */
bool set_knobs(void);

/* As it was before. */
void restore_knobs(void);

/* How many percent of the allocations fail. */
bool set_probability(const char *percent);

/* Let no failure happen, nor count, but in what this code of the kernel calls. */
bool set_filters(unsigned long begin, unsigned long end);
void clear_filters(void);

/* No allocation fails any more. */
bool filter_allocations(void);

/* Of the calling task, to come before arm(); false if there is no such thing. */
bool arm_init(void);

/* The @nth failure from here on is injected; none with 0. */
void arm(unsigned int nth);

/* Returns whether the failure was not used up. */
bool disarm(void);

/* The same of a dead child that nobody waited for. */
bool zombie_unused(pid_t pid);

#endif /* _UNWIND_INJECT_H */
