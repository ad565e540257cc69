/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory on a swap device.
 */
#ifndef _UNWIND_SWAP_H
#define _UNWIND_SWAP_H

#include <stdbool.h>

bool have_swap(void);

/*
 * Try to move at least @want of @pages at @addr to the swap device. Returns the number
 * of pages there, or -1 if it cannot be determined.
 */
int page_out(void *addr, int pages, int want);

#endif /* _UNWIND_SWAP_H */
