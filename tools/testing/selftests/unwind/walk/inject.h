/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Failures that the kernel injects into a task that requests them.
 */
#ifndef _UNWIND_INJECT_H
#define _UNWIND_INJECT_H

#include <stdbool.h>
#include <sys/types.h>

#define INJECT_NEEDS "needs root, debugfs, CONFIG_FAULT_INJECTION_DEBUG_FS, " \
		     "CONFIG_FAILSLAB, CONFIG_FAIL_PAGE_ALLOC and " \
		     "CONFIG_FAULT_INJECTION_USERCOPY"

/*
 * Let failures hit any allocation of a task that requests them, without log messages; false
 * if that is not possible.
 */
bool set_knobs(void);

/* Restore the old settings. */
void restore_knobs(void);

/* Set the percentage of failing allocations, of all kinds or of slab objects alone. */
bool set_probability(const char *percent);
bool set_slab_probability(const char *percent);

/* Let no allocation fail before those that may fail have taken this many bytes. */
bool set_space(const char *bytes);

/* Let failures with that probability hit the calling task, and the children that it forks then. */
bool take_failures(bool on);

/* Count and inject failures only in callees of this kernel code. */
bool set_filters(unsigned long begin, unsigned long end);
void clear_filters(void);

/* Let no allocation fail. */
bool filter_allocations(void);

/* Prepare the calling task for arm(); false if the kernel lacks fail-nth. */
bool arm_init(void);

/* Inject the @nth failure from here on; none with 0. */
void arm(unsigned int nth);

/* Returns whether the failure was not used up. */
bool disarm(void);

/* The same for a dead child before it is reaped. */
bool zombie_unused(pid_t pid);

#endif /* _UNWIND_INJECT_H */
