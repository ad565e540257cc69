// SPDX-License-Identifier: GPL-2.0

// A program of Go whose stacks are known, for test.sh: phase by phase it does what Go's
// runtime does in ways of its own with stacks and frame pointers. Functions that judge.py
// looks for are not inlined.
//
//	stacks MILLISECONDS	so long for each phase
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"time"
)

// Workers of a phase: one for each CPU of the VM, and some that wait for one.
const workers = 4

// What is stored here is not optimized away.
var (
	sums    [workers]struct{ sum, _, _, _, _, _, _, _ uint64 }
	kept    [workers][][]byte
	ended   chan struct{}
	phaseMS time.Duration
)

// over says whether the phase's time is.
func over() bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

// phase lets all workers do the same, each as often as the time allows.
func phase(work func(worker int)) {
	var group sync.WaitGroup
	ended = make(chan struct{})
	timer := time.AfterFunc(phaseMS, func() { close(ended) })
	for worker := 0; worker < workers; worker++ {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			for !over() {
				work(worker)
			}
		}(worker)
	}
	group.Wait()
	timer.Stop()
}

//go:noinline
func plainLeaf(n int) uint64 {
	sum := uint64(n)
	for i := 0; i < n; i++ {
		sum = sum*6364136223846793005 + 1442695040888963407
	}
	return sum
}

//go:noinline
func plainCaller(depth int) uint64 {
	if depth == 0 {
		var sum uint64
		for i := 0; i < 1000; i++ {
			sum += plainLeaf(i)
		}
		return sum
	}
	return plainCaller(depth-1) + 1
}

// plain: code of Go alone, below 1, 7, 19 and 37 callers.
//
//go:noinline
func plain(worker int) {
	sums[worker].sum += plainCaller([workers]int{1, 7, 19, 37}[worker])
}

// allocate: each object is a span of its own, which the heap hands out on the system stack.
//
//go:noinline
func allocate(worker int) {
	objects := kept[worker][:0]
	for i := 0; i < 32; i++ {
		objects = append(objects, make([]byte, 20000+512*i))
	}
	kept[worker] = objects
}

// growMap: buckets of maps that grow.
//
//go:noinline
func growMap(worker int) {
	grown := make(map[int]uint64)
	for i := 0; i < 3000; i++ {
		grown[i] = uint64(i)
	}
	sums[worker].sum += uint64(len(grown))
}

// systemstack: runtime.systemstack() goes to another stack, and calls a function there.
func systemstack(worker int) {
	allocate(worker)
	if worker == 0 {
		growMap(worker)
	}
}

//go:noinline
func deepen(depth int) uint64 {
	var frame [80]uint64
	frame[depth%len(frame)] = uint64(depth)
	if depth > 0 {
		frame[0] += deepen(depth - 1)
	}
	return frame[0] + frame[depth%len(frame)]
}

// grow: the stack of a new goroutine is copied to larger ones, 64 KB in the
// end. Fewer frames than a chain holds.
//
//go:noinline
func grow(worker int) {
	done := make(chan uint64)
	go func() { done <- deepen(90) }()
	sums[worker].sum += <-done
}

type tree struct {
	left, right *tree
	payload     [4]uint64
}

func plant(depth int) *tree {
	if depth == 0 {
		return nil
	}
	return &tree{left: plant(depth - 1), right: plant(depth - 1)}
}

// collect: nearly all the time is that of the collector's own goroutines.
//
//go:noinline
func collect(root *tree) {
	for end := time.Now().Add(phaseMS); time.Now().Before(end); {
		runtime.GC()
	}
	runtime.KeepAlive(root)
}

type block [120]uint64

//go:noinline
func use(blocks *[4]block) uint64 {
	return blocks[1][7] + blocks[3][11]
}

// mix is inlined, as one piece of code without branches.
func mix(n uint64) uint64 {
	n = (n ^ n>>33) * 0xff51afd7ed558ccd
	n = (n ^ n>>33) * 0xc4ceb9fe1a85ec53
	return n ^ n>>33
}

// zero: runtime.duffzero() has no frame, its callers make one for it. An emulator may take
// interrupts between pieces of code without branches only, and duffzero() is one. So most
// of the time is spent right before the call, which needs the result: the interrupt comes at
// its first instruction.
//
//go:noinline
func zero(worker int) {
	var blocks [4]block
	n := uint64(worker)
	for i := 0; i < 5000; i++ {
		n = mix(mix(mix(mix(mix(mix(mix(mix(n))))))))
		n = mix(mix(mix(mix(mix(mix(mix(mix(n))))))))
		blocks[n&3] = block{}
	}
	sums[worker].sum += n + use(&blocks)
}

// copies: runtime.duffcopy() likewise.
//
//go:noinline
func copies(worker int) {
	var blocks [4]block
	for i := 0; i < 5000; i++ {
		blocks[0] = blocks[1]
		blocks[2] = blocks[3]
	}
	sums[worker].sum += use(&blocks)
}

// clock: the vDSO is called on the system stack.
//
//go:noinline
func clock(worker int) {
	for i := 0; i < 1000; i++ {
		sums[worker].sum += uint64(time.Now().Nanosecond())
	}
}

func main() {
	ms, err := 0, error(nil)
	if len(os.Args) == 2 {
		ms, err = strconv.Atoi(os.Args[1])
	}
	if err != nil || ms <= 0 {
		fmt.Fprintln(os.Stderr, "usage: stacks MILLISECONDS")
		os.Exit(2)
	}
	phaseMS = time.Duration(ms) * time.Millisecond
	phase(plain)
	phase(systemstack)
	phase(grow)
	// Not while it collects: its goroutines have a phase of their own.
	debug.SetGCPercent(-1)
	collect(plant(17))
	phase(zero)
	phase(copies)
	phase(clock)
	phase(callC)
	phase(callBack)
}
