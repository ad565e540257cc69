// SPDX-License-Identifier: GPL-2.0

// The phases of the Go program that call C. The C code has frame pointers, Go always has.

package main

// #cgo CFLAGS: -O2 -fno-omit-frame-pointer
// #include "burn.h"
import "C"

// callC: C runs on the system stack.
//
//go:noinline
func callC(worker int) {
	sums[worker].sum += uint64(C.burn(200000))
}

// callBack: Go code that C calls runs on the goroutine's stack again.
//
//go:noinline
func callBack(worker int) {
	sums[worker].sum += uint64(C.burn_in_go(100))
}

//export goBurn
func goBurn(n C.int) C.ulong {
	return C.ulong(calledBack(int(n)))
}

//go:noinline
func calledBack(n int) uint64 {
	sum := uint64(n)
	for i := 0; i < 5000; i++ {
		sum = sum*6364136223846793005 + 1442695040888963407
	}
	return sum
}
