/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Detached events: what other parts of the kernel tell them.
 */
#ifndef _LINUX_PERF_DETACHED_H
#define _LINUX_PERF_DETACHED_H

#include <uapi/linux/perf_detached.h>

#ifdef CONFIG_PERF_DETACHED
void perf_detached_sample_exit(void);
#else
static inline void perf_detached_sample_exit(void) {}
#endif

#endif /* _LINUX_PERF_DETACHED_H */
