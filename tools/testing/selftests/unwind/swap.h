/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory on a swap device.
 */
#ifndef _UNWIND_SWAP_H
#define _UNWIND_SWAP_H

#include <stdbool.h>

bool have_swap(void);

/*
 * Try to get at least @want of @pages at @addr to the swap device; how many are there,
 * or -1 when that cannot be told.
 */
int page_out(void *addr, int pages, int want);

#endif /* _UNWIND_SWAP_H */
