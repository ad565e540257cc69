/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Data shared by the programs in bpf_unwind.bpf.c and the tests that load them.
 */
#ifndef _UNWIND_BPF_UNWIND_H
#define _UNWIND_BPF_UNWIND_H

#include <linux/bpf.h>
#include <linux/types.h>

/* Number of addresses kept per trace. */
#define BPF_UNWIND_IPS		32
#define BPF_UNWIND_TRACES	256
/* Powers of two. */
#define BPF_UNWIND_NOTES	(1U << 18)

/* The program that wrote a note or a trace. */
enum bpf_unwind_who {
	/* Programs that request: notes. */
	BPF_UNWIND_ASK = 1,
	/* Programs at bpf_user_unwind_deliver(): a note, and a trace of each kind below. */
	BPF_UNWIND_FENTRY,
	BPF_UNWIND_FENTRY_S,
	BPF_UNWIND_FMOD,
	BPF_UNWIND_FMOD_S,
	/* Programs at the tracepoint user_unwind_stack: likewise. */
	BPF_UNWIND_TP_BTF,
	BPF_UNWIND_RAW_TP,
	BPF_UNWIND_TP,
	/* Programs that take the stack elsewhere: traces. */
	BPF_UNWIND_TAKE,
	BPF_UNWIND_TAKE_S,
	/* ... while they hold the mmap lock: likewise. */
	BPF_UNWIND_TAKE_LOCKED,
	/* Result of bpf_get_stackid() for the kernel's stack: a note. */
	BPF_UNWIND_KERNEL_ID,
	/* Result of the waiting delivery for the memory that it waits for: a note. */
	BPF_UNWIND_WAITED,
	/* A program was freed: a note, with the time of its load as the cookie. */
	BPF_UNWIND_FREED,
	/* Results of helpers that fail: notes. */
	BPF_UNWIND_FULL_HASH,
	BPF_UNWIND_FULL_STACKS,
	BPF_UNWIND_FULL_RING,
	BPF_UNWIND_WRONG_SIZE,
	BPF_UNWIND_WRONG_TASK,
	BPF_UNWIND_WRONG_ID,
	BPF_UNWIND_WRONG_FLAGS,
};

/* How a program got a trace. */
enum bpf_unwind_how {
	/* From the entries of the trace that it was called with. */
	BPF_UNWIND_ENTRIES,
	/* From bpf_get_stack(). */
	BPF_UNWIND_STACK,
	/* The same, the kernel's. */
	BPF_UNWIND_KERNEL_STACK,
};

/**
 * struct bpf_unwind_note - one request or delivery
 * @cookie:	of the request or delivery
 * @ret:	of the request, or the length of the trace that was delivered
 * @who:	enum bpf_unwind_who
 * @arrivals:	how many had ended before the request; else how many have begun
 */
struct bpf_unwind_note {
	__u64	cookie;
	__s32	ret;
	__u32	who;
	__u64	arrivals;
};

/**
 * struct bpf_unwind_trace - one trace
 * @cookie:	0 outside of deliveries
 * @who:	enum bpf_unwind_who
 * @how:	enum bpf_unwind_how
 * @ret:	what the helper returned: bytes, or -errno
 * @ips:	the first addresses
 */
struct bpf_unwind_trace {
	__u64	cookie;
	__u32	who;
	__u32	how;
	__s64	ret;
	__u64	ips[BPF_UNWIND_IPS];
};

/**
 * struct bpf_unwind_ids - one trace with build-ids
 * @ret:	what bpf_get_stack() returned
 * @stackid:	what bpf_get_stackid() returned, for the map stack_ids
 * @plain_id:	likewise, for the map stacks
 * @ids:	from bpf_get_stack()
 */
struct bpf_unwind_ids {
	__s64				ret;
	__s64				stackid;
	__s64				plain_id;
	struct bpf_stack_build_id	ids[BPF_UNWIND_IPS];
};

/**
 * struct bpf_unwind_shared - settings of the tests, and results of the programs
 * @tid:	programs look at this thread only, if it is not 0
 * @tgid:	likewise, this process
 * @syscall:	programs at the entry of all system calls look at this one only
 * @exit:	likewise, at their exit
 * @again:	programs that request do so twice
 * @no_traces:	deliveries leave notes only
 * @wait_tid:	delivery_that_waits() waits in this thread
 * @wait_addr:	... for the memory at this address
 * @vma_addr:	take_find_vma_s() looks up the mapping at this address
 * @arrivals_begun: how often the test has begun to load a program that can request, to
 *		attach it or to enable its event
 * @arrivals_ended: how often it has finished that
 * @flags:	used by the programs whose flags the verifier does not know
 * @ids:	results of with_build_ids()
 * @nr_notes:	number of notes; those above BPF_UNWIND_NOTES were lost
 * @nr_traces:	likewise, with BPF_UNWIND_TRACES
 * @notes:	in order
 * @traces:	in order
 */
struct bpf_unwind_shared {
	__u32			tid;
	__u32			tgid;
	__u64			syscall;
	__u64			exit;
	__u32			again;
	__u32			no_traces;
	__u32			wait_tid;
	__u64			wait_addr;
	__u64			vma_addr;
	__u64			arrivals_begun;
	__u64			arrivals_ended;
	__u64			flags;
	struct bpf_unwind_ids	ids;
	__u32			nr_notes;
	__u32			nr_traces;
	struct bpf_unwind_note	notes[BPF_UNWIND_NOTES];
	struct bpf_unwind_trace	traces[BPF_UNWIND_TRACES];
};

#endif /* _UNWIND_BPF_UNWIND_H */
