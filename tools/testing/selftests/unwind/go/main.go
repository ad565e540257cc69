// SPDX-License-Identifier: GPL-2.0

// A Go program with known stacks, for test.sh. Each phase does something for which Go's
// runtime handles stacks and frame pointers in its own way. Functions that judge.py looks
// for are not inlined.
//
//	stacks MILLISECONDS	duration of each phase
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

// Stores to these variables are not optimized away.
var (
	sums    [workers]struct{ sum, _, _, _, _, _, _, _ uint64 }
	kept    [workers][][]byte
	ended   chan struct{}
	phaseMS time.Duration
)

// over reports whether the time of the phase is over.
func over() bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

// phase lets each worker call work as often as the time allows.
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

// plain: only Go code, below 1, 7, 19 and 37 callers.
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

// growMap: a map that grows moves its buckets.
//
//go:noinline
func growMap(worker int) {
	grown := make(map[int]uint64)
	for i := 0; i < 3000; i++ {
		grown[i] = uint64(i)
	}
	sums[worker].sum += uint64(len(grown))
}

// systemstack: runtime.systemstack() switches to another stack and calls a function there.
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

// collect: the collector's own goroutines take nearly all the time.
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

// zero: runtime.duffzero() has no frame; its callers make one for it. An emulator may take
// interrupts only between pieces of code without branches, and duffzero() is one piece. So
// spend most of the time right before the call, which needs the result: the interrupt then
// comes at the first instruction of duffzero().
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

// copies: runtime.duffcopy() has no frame, either.
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
	// Disable automatic collection: the collector's goroutines have their own phase.
	debug.SetGCPercent(-1)
	collect(plant(17))
	phase(zero)
	phase(copies)
	phase(clock)
	phase(callC)
	phase(callBack)
}
