/* SPDX-License-Identifier: GPL-2.0 */
/* The functions of burn.c that cgo.go calls. */
#ifndef _UNWIND_BURN_H
#define _UNWIND_BURN_H

unsigned long burn(int n);
unsigned long burn_in_go(int n);

#endif /* _UNWIND_BURN_H */
