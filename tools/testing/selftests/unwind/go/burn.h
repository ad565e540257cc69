/* SPDX-License-Identifier: GPL-2.0 */
/* What burn.c has for cgo.go. */
#ifndef _UNWIND_BURN_H
#define _UNWIND_BURN_H

unsigned long burn(int n);
unsigned long burn_in_go(int n);

#endif /* _UNWIND_BURN_H */
