// SPDX-License-Identifier: GPL-2.0
/* The C functions that the Go program calls. They have frame pointers. */
#include "burn.h"

#include "_cgo_export.h"

#define noinline __attribute__((noinline, noclone))

static volatile unsigned long work;
static void *volatile frame;

static noinline unsigned long burn_leaf(int n)
{
	/* gcc makes no frame for a leaf function, unless the frame is used. */
	frame = __builtin_frame_address(0);
	for (int i = 0; i < n; i++)
		work++;
	return work;
}

unsigned long burn(int n)
{
	return burn_leaf(n) + 1;
}

unsigned long burn_in_go(int n)
{
	unsigned long sum = 0;

	for (int i = 0; i < n; i++)
		sum += goBurn(i);
	return sum;
}
