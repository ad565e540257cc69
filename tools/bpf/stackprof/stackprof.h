/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Records from the BPF programs of stackprof to user space.
 *
 * Records of a thread are in the ring in the order of their creation: a delivery comes after
 * the samples that requested it, and before the first sample of the thread's next kernel
 * entry.
 */
#ifndef __STACKPROF_H
#define __STACKPROF_H

#define STACKPROF_COMM_LEN	16

/* Names of stacks: 0 for none, the number in the map of stacks plus 1, or STACK_SENT and up. */
#define STACK_SENT		(1ULL << 32)

/* Not an error: a kernel thread has no user stack. */
#define STATUS_KTHREAD		1

enum record_type {
	RECORD_SAMPLE,
	RECORD_USER,
	RECORD_STACK,
};

/* Per-CPU counters. */
enum count {
	COUNT_SAMPLES,		/* Samples taken, lost ones included */
	COUNT_LOST_SAMPLES,	/* Samples for which the ring or a map had no room */
	COUNT_LOST_USER,	/* Deliveries for which the ring had no room */
	COUNT_LOST_STACKS,	/* Likewise stacks; their samples are not lost */
	COUNT_LOST_CHILDREN,	/* Processes that could not be followed */
	COUNT_HITS,		/* Hits of a tracepoint since the latest sample */
	NR_COUNTS,
};

/*
 * A sample, or the user stack of a kernel entry. Process numbers are reused, so @start and
 * @exec_id identify the process, too.
 */
struct record {
	__u32	type;
	__s32	status;		/* Of a sample: -errno if no user stack will come */
	__u64	cookie;		/* The kernel entry */
	__u64	stack;		/* Kernel stack of a sample, user stack of a delivery */
	__u64	time;		/* CLOCK_MONOTONIC */
	__u64	weight;		/* Events or ns that a sample stands for */
	__u64	start;		/* Start of the process */
	__u32	exec_id;	/* Counts its execs */
	__u32	tgid;
	__u32	tid;
	char	comm[STACKPROF_COMM_LEN];
	__u32	pad;
};

/* A stack without room in the map of stacks; it precedes the record with its name. */
struct record_stack {
	__u32	type;
	__u32	nr;
	__u64	stack;
	__u64	ips[];
};

#endif /* __STACKPROF_H */
