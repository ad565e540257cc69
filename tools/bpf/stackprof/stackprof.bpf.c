// SPDX-License-Identifier: GPL-2.0
/*
 * The BPF programs of stackprof: they take samples, request the user stack of the kernel entry
 * of each sample, and report both. User space joins them by the cookie.
 *
 * Contexts: on_event() runs in interrupts and NMIs; the programs at tracepoints run anywhere,
 * also with the lock of a run queue held; on_delivery() runs in task context.
 *
 * Invariant: every record that does not get into the ring is counted.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "stackprof.h"

#define PF_KTHREAD	0x00200000
#define TASK_DEAD	0x00000080

/* Attempts to write to the ring: an NMI does not wait for the lock of the ring. */
#define RING_ATTEMPTS	8

enum scratch {
	SCRATCH_SAMPLE,
	SCRATCH_USER,
	NR_SCRATCH,
};

/* Set before the programs are loaded. */
const volatile __u32 own_tgid;
const volatile bool only_targets;
const volatile __u64 tracepoint_period = 1;
const volatile __u32 stack_size = 127 * sizeof(__u64);
const volatile __u64 wakeup_size;

/* Name of the next stack that goes through the ring. */
__u64 next_stack = STACK_SENT;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 23);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, 127 * sizeof(__u64));
	__uint(max_entries, 16384);
} stacks SEC(".maps");

/* One for each program that may interrupt another one on its CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct record_stack) + 127 * sizeof(__u64));
	__uint(max_entries, NR_SCRATCH);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, NR_COUNTS);
} counts SEC(".maps");

/* Processes to profile, by tgid. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u8);
	__uint(max_entries, 16384);
} targets SEC(".maps");

/* Records of blocked threads, by tid; they are sent when the threads run again. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct record);
	__uint(max_entries, 16384);
} blocked SEC(".maps");

/* Not for programs: user space receives the records of mappings through it. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} mmaps SEC(".maps");

extern int bpf_user_unwind_request(u64 *cookie) __ksym;
extern void bpf_preempt_disable(void) __ksym;
extern void bpf_preempt_enable(void) __ksym;

static __always_inline void count(__u32 which)
{
	__u64 *value = bpf_map_lookup_elem(&counts, &which);

	if (value)
		__sync_fetch_and_add(value, 1);
}

static __always_inline bool to_ring(const void *data, __u64 size)
{
	/* A wakeup for each record would cause context switches of its own. */
	const bool wake = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) >= wakeup_size;

	for (int i = 0; i < RING_ATTEMPTS; i++) {
		if (!bpf_ringbuf_output(&ring, (void *)data, size,
					wake ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP))
			return true;
	}
	return false;
}

/* Send a stack whose slot in the map is taken. */
static __always_inline __u64 send_stack(void *ctx, __u64 flags, __u32 slot)
{
	struct record_stack *rec = bpf_map_lookup_elem(&scratch, &slot);
	long size;

	if (!rec)
		return 0;

	size = bpf_get_stack(ctx, rec->ips, stack_size, flags);
	if (size <= 0)
		return 0;
	if (size > stack_size)
		size = stack_size;

	rec->type = RECORD_STACK;
	rec->nr = size / sizeof(__u64);
	rec->stack = __sync_fetch_and_add(&next_stack, 1);
	if (!to_ring(rec, sizeof(*rec) + size))
		count(COUNT_LOST_STACKS);
	return rec->stack;
}

static __always_inline __u64 get_stack(void *ctx, __u64 flags, __u32 slot)
{
	long id = bpf_get_stackid(ctx, &stacks, flags);

	if (id >= 0)
		return id + 1;
	/* No such stack: a sample in user mode. */
	if (id == -14 /* EFAULT */)
		return 0;
	return send_stack(ctx, flags, slot);
}

static __always_inline void fill(struct record *rec, struct task_struct *task)
{
	rec->time = bpf_ktime_get_ns();
	rec->start = BPF_CORE_READ(task, group_leader, start_boottime);
	rec->exec_id = task->self_exec_id;
	rec->tgid = task->tgid;
	rec->tid = task->pid;
	BPF_CORE_READ_STR_INTO(&rec->comm, task, comm);
}

static __always_inline bool wanted(__u32 tgid, __u32 tid)
{
	if (!tid || tgid == own_tgid)
		return false;
	return !only_targets || bpf_map_lookup_elem(&targets, &tgid);
}

static __always_inline void ask(struct record *rec, struct task_struct *task)
{
	int ret;

	if (task->flags & PF_KTHREAD) {
		rec->status = STATUS_KTHREAD;
		return;
	}
	ret = bpf_user_unwind_request(&rec->cookie);
	rec->status = ret < 0 ? ret : 0;
}

static __always_inline void sample(void *ctx, __u64 weight)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct record rec = { .type = RECORD_SAMPLE, .weight = weight };

	if (!wanted(task->tgid, task->pid))
		return;

	count(COUNT_SAMPLES);
	fill(&rec, task);
	ask(&rec, task);
	rec.stack = get_stack(ctx, 0, SCRATCH_SAMPLE);
	if (!to_ring(&rec, sizeof(rec)))
		count(COUNT_LOST_SAMPLES);
}

SEC("perf_event")
int on_event(struct bpf_perf_event_data *ctx)
{
	sample(ctx, ctx->sample_period);
	return 0;
}

SEC("tracepoint")
int on_tracepoint(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const __u32 key = COUNT_HITS;
	__u64 *hits;

	if (!wanted(task->tgid, task->pid))
		return 0;

	hits = bpf_map_lookup_elem(&counts, &key);
	if (!hits || ++*hits < tracepoint_period)
		return 0;
	*hits = 0;
	sample(ctx, tracepoint_period);
	return 0;
}

/* current, which is @prev, starts to wait. */
static __always_inline void begin_wait(void *ctx, struct task_struct *prev)
{
	struct record rec = { .type = RECORD_SAMPLE };

	if ((prev->flags & PF_KTHREAD) || !wanted(prev->tgid, prev->pid))
		return;

	count(COUNT_SAMPLES);
	fill(&rec, prev);
	ask(&rec, prev);
	rec.stack = get_stack(ctx, 0, SCRATCH_SAMPLE);
	if (bpf_map_update_elem(&blocked, &rec.tid, &rec, BPF_ANY))
		count(COUNT_LOST_SAMPLES);
}

static __always_inline void end_wait(__u32 tid)
{
	struct record *rec = bpf_map_lookup_elem(&blocked, &tid);
	__u64 now = bpf_ktime_get_ns();

	if (!rec)
		return;

	rec->weight = now - rec->time;
	rec->time = now;
	if (!to_ring(rec, sizeof(*rec)))
		count(COUNT_LOST_SAMPLES);
	bpf_map_delete_elem(&blocked, &tid);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	if (!preempt && prev_state && !(prev_state & TASK_DEAD))
		begin_wait(ctx, prev);
	end_wait(next->pid);
	return 0;
}

SEC("fentry/bpf_user_unwind_deliver")
int BPF_PROG(on_delivery, __u64 cookie, const struct unwind_stacktrace *trace)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct record rec = { .type = RECORD_USER, .cookie = cookie };

	if (!wanted(task->tgid, task->pid))
		return 0;

	/* Tasks that preempt each other here would share the scratch of their CPU. */
	bpf_preempt_disable();
	fill(&rec, task);
	if (trace->nr)
		rec.stack = get_stack(ctx, BPF_F_USER_STACK, SCRATCH_USER);
	if (!to_ring(&rec, sizeof(rec)))
		count(COUNT_LOST_USER);
	bpf_preempt_enable();
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 from = parent->tgid, to = child->tgid;
	const __u8 one = 1;

	if (from != to && bpf_map_lookup_elem(&targets, &from) &&
	    bpf_map_update_elem(&targets, &to, &one, BPF_ANY))
		count(COUNT_LOST_CHILDREN);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	__u32 tgid = task->tgid;

	/* Another process may get the number soon. */
	if (!BPF_CORE_READ(task, signal, live.counter))
		bpf_map_delete_elem(&targets, &tgid);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
