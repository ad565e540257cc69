// SPDX-License-Identifier: GPL-2.0
/*
 * BPF programs that request deferred user stacks, and programs that get them. A test loads
 * the few that it needs.
 *
 * Kernel types are declared here as far as they are used. Their field offsets are relocated
 * at load time, so that the same file serves all kernels.
 */
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include <stdbool.h>

#include "bpf_unwind.h"

char LICENSE[] SEC("license") = "GPL";

struct unwind_stacktrace {
	unsigned int	nr;
	unsigned long	*entries;
} __attribute__((preserve_access_index));

struct pt_regs___unwind {
	unsigned long	orig_ax;
} __attribute__((preserve_access_index));

struct trace_event_raw_user_unwind_stack {
	__u64		cookie;
} __attribute__((preserve_access_index));

struct task_struct {
	unsigned int	flags;
} __attribute__((preserve_access_index));

struct bpf_prog_aux {
	__u64		load_time;
} __attribute__((preserve_access_index));

struct bpf_prog {
	struct bpf_prog_aux	*aux;
} __attribute__((preserve_access_index));

struct vm_area_struct;

struct bpf_iter__task_vma {
	struct vm_area_struct	*vma;
} __attribute__((preserve_access_index));

#define PF_KTHREAD	0x00200000

extern int bpf_user_unwind_request(__u64 *cookie) __ksym;

struct bpf_unwind_shared shared;

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, 127 * sizeof(__u64));
	__uint(max_entries, 64);
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, BPF_UNWIND_IPS * sizeof(struct bpf_stack_build_id));
	__uint(max_entries, 64);
	__uint(map_flags, BPF_F_STACK_BUILD_ID);
} stack_ids SEC(".maps");

/* Maps with room for one entry. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, __u64);
	__uint(max_entries, 1);
} one_key SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, 127 * sizeof(__u64));
	__uint(max_entries, 1);
} one_stack SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} one_page SEC(".maps");

static __always_inline bool wanted(void)
{
	__u64 id = bpf_get_current_pid_tgid();

	if (shared.tid && shared.tid != (__u32)id)
		return false;
	return !shared.tgid || shared.tgid == id >> 32;
}

static __always_inline void note_with(__u32 who, __s64 ret, __u64 cookie, __u64 arrivals)
{
	__u32 i = __sync_fetch_and_add(&shared.nr_notes, 1);

	if (i >= BPF_UNWIND_NOTES)
		return;
	i &= BPF_UNWIND_NOTES - 1;
	shared.notes[i].cookie = cookie;
	shared.notes[i].ret = ret;
	shared.notes[i].arrivals = arrivals;
	/* Write this last: it tells readers that the rest is there. */
	*(volatile __u32 *)&shared.notes[i].who = who;
}

static __always_inline void note(__u32 who, __s64 ret, __u64 cookie)
{
	note_with(who, ret, cookie, shared.arrivals_begun);
}

static __always_inline struct bpf_unwind_trace *new_trace(__u32 who, __u32 how, __u64 cookie)
{
	struct bpf_unwind_trace *trace;
	__u32 i = __sync_fetch_and_add(&shared.nr_traces, 1);

	if (i >= BPF_UNWIND_TRACES)
		return NULL;
	trace = &shared.traces[i & (BPF_UNWIND_TRACES - 1)];
	trace->cookie = cookie;
	trace->who = who;
	trace->how = how;
	return trace;
}

/* Record the result of bpf_get_stack(). */
static __always_inline void take(void *ctx, __u32 who, __u64 cookie)
{
	struct bpf_unwind_trace *trace = new_trace(who, BPF_UNWIND_STACK, cookie);

	if (trace)
		trace->ret = bpf_get_stack(ctx, trace->ips, sizeof(trace->ips), BPF_F_USER_STACK);
}

/* Record the entries of a trace. */
static __always_inline void copy(const struct unwind_stacktrace *from, __u32 who, __u64 cookie)
{
	struct bpf_unwind_trace *trace = new_trace(who, BPF_UNWIND_ENTRIES, cookie);
	__u32 nr = from->nr;

	if (!trace)
		return;
	trace->ret = nr * sizeof(__u64);
	if (nr > BPF_UNWIND_IPS)
		nr = BPF_UNWIND_IPS;
	if (nr && bpf_probe_read_kernel(trace->ips, nr * sizeof(__u64), from->entries))
		trace->ret = -1;
}

/* Programs that request by the function. */
static __always_inline int ask(void)
{
	__u64 cookie = -1, arrivals;
	int ret;

	if (!wanted())
		return 0;
	for (int i = 0; i < 2; i++) {
		arrivals = *(volatile __u64 *)&shared.arrivals_ended;
		ret = bpf_user_unwind_request(&cookie);
		note_with(BPF_UNWIND_ASK, ret, cookie, arrivals);
		if (!shared.again)
			break;
	}
	return 0;
}

/* Requests by the flag, which only report success. */
static __always_inline void ask_flag_with(void *ctx, __u64 flags)
{
	__u64 arrivals = *(volatile __u64 *)&shared.arrivals_ended;
	__u64 part[4] = { -1, -1, -1, -1 };
	long ret = bpf_get_stack(ctx, part, sizeof(part), flags);

	/* The unused part of the buffer is cleared. */
	if (ret == 2 * sizeof(part[0]) && part[0] == PERF_CONTEXT_USER_DEFERRED &&
	    !part[2] && !part[3])
		ret = 0;
	note_with(BPF_UNWIND_ASK, ret, part[1], arrivals);
}

static __always_inline int ask_flag(void *ctx)
{
	if (!wanted())
		return 0;
	ask_flag_with(ctx, BPF_F_USER_STACK | BPF_F_USER_DEFERRED);
	if (shared.again)
		ask_flag_with(ctx, BPF_F_USER_STACK | BPF_F_USER_DEFERRED);
	return 0;
}

SEC("?perf_event")
int ask_perf_event(void *ctx)
{
	return ask();
}

SEC("?perf_event")
int ask_perf_event_flag(void *ctx)
{
	return ask_flag(ctx);
}

SEC("?tp/syscalls/sys_enter_getpgid")
int ask_tp(void *ctx)
{
	return ask();
}

SEC("?tp/syscalls/sys_enter_getpgid")
int ask_tp_flag(void *ctx)
{
	return ask_flag(ctx);
}

SEC("?tp_btf/sys_enter")
int BPF_PROG(ask_tp_btf, void *regs, __u64 id)
{
	return id == shared.syscall ? ask() : 0;
}

SEC("?tp_btf/sys_enter")
int BPF_PROG(ask_tp_btf_flag, void *regs, __u64 id)
{
	return id == shared.syscall ? ask_flag(ctx) : 0;
}

SEC("?raw_tp/sys_enter")
int ask_raw_tp_flag(struct bpf_raw_tracepoint_args *ctx)
{
	return ctx->args[1] == shared.syscall ? ask_flag(ctx) : 0;
}

SEC("?fentry/__x64_sys_getpgid")
int ask_fentry(void *ctx)
{
	return ask();
}

SEC("?fentry.s/__x64_sys_getpgid")
int ask_fentry_s(void *ctx)
{
	return ask();
}

SEC("?kprobe/__x64_sys_getpgid")
int ask_kprobe(void *ctx)
{
	return ask();
}

SEC("?kprobe/__x64_sys_getpgid")
int ask_kprobe_flag(void *ctx)
{
	return ask_flag(ctx);
}

SEC("?lsm/task_getpgid")
int ask_lsm(void *ctx)
{
	return ask();
}

SEC("?uprobe")
int ask_uprobe(void *ctx)
{
	return ask();
}

/* Hit by a system call once for each page allocation. */
SEC("?tp/kmem/mm_page_alloc")
int ask_page_alloc(void *ctx)
{
	return ask();
}

/* Runs in a task that is switched out. */
SEC("?tp/sched/sched_switch")
int ask_switch(void *ctx)
{
	return ask();
}

/* In tasks without a stack to request: kernel threads, */
SEC("?tp/sched/sched_switch")
int ask_in_kernel_thread(void *ctx)
{
	const struct task_struct *task = (void *)bpf_get_current_task();

	if (BPF_CORE_READ(task, flags) & PF_KTHREAD && !shared.tid)
		return ask();
	return 0;
}

/* ... tasks that get a new stack in exec, */
SEC("?tp/sched/sched_process_exec")
int ask_in_exec(void *ctx)
{
	return ask();
}

/* ... and exiting tasks. */
SEC("?fentry/exit_mm_release")
int ask_in_exit(void *ctx)
{
	return ask();
}

/* The verifier does not know these flags: the tests set them. */
SEC("?raw_tp/sys_enter")
int ask_any_flags(struct bpf_raw_tracepoint_args *ctx)
{
	if (ctx->args[1] == shared.syscall && wanted())
		ask_flag_with(ctx, shared.flags);
	return 0;
}

/* Calls that only turn out to be wrong at run time. */
SEC("?raw_tp/sys_enter")
int ask_wrongly(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 part[2] = { -1, -1 };

	if (ctx->args[1] != shared.syscall || !wanted())
		return 0;
	note(BPF_UNWIND_WRONG_SIZE,
	     bpf_get_stack(ctx, part, sizeof(part[0]), BPF_F_USER_STACK | BPF_F_USER_DEFERRED),
	     part[0]);
	note(BPF_UNWIND_WRONG_ID,
	     bpf_get_stackid(ctx, &stacks, BPF_F_USER_STACK | BPF_F_USER_DEFERRED), 0);
	note(BPF_UNWIND_WRONG_FLAGS,
	     bpf_get_stackid(ctx, &stacks, BPF_F_USER_STACK | BPF_F_USER_BUILD_ID), 0);
	return 0;
}

SEC("?tp_btf/sys_enter")
int BPF_PROG(ask_about_task, void *regs, __u64 id)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	__u64 part[2] = { -1, -1 };

	if (id == shared.syscall && wanted())
		note(BPF_UNWIND_WRONG_TASK,
		     bpf_get_task_stack(task, part, sizeof(part),
					BPF_F_USER_STACK | BPF_F_USER_DEFERRED), part[0]);
	return 0;
}

static __always_inline void deliver(void *ctx, __u32 who, __u64 cookie,
				    const struct unwind_stacktrace *trace)
{
	if (!wanted())
		return;
	note(who, trace->nr, cookie);
	if (shared.no_traces)
		return;
	copy(trace, who, cookie);
	take(ctx, who, cookie);
}

SEC("?fentry/bpf_user_unwind_deliver")
int BPF_PROG(deliver_fentry, __u64 cookie, const struct unwind_stacktrace *trace)
{
	deliver(ctx, BPF_UNWIND_FENTRY, cookie, trace);
	return 0;
}

SEC("?fentry.s/bpf_user_unwind_deliver")
int BPF_PROG(deliver_fentry_s, __u64 cookie, const struct unwind_stacktrace *trace)
{
	deliver(ctx, BPF_UNWIND_FENTRY_S, cookie, trace);
	return 0;
}

/* The return value has no effect, except that no fmod_ret program runs after this one. */
SEC("?fmod_ret/bpf_user_unwind_deliver")
int BPF_PROG(deliver_fmod, __u64 cookie, const struct unwind_stacktrace *trace, int ret)
{
	deliver(ctx, BPF_UNWIND_FMOD, cookie, trace);
	return -1;
}

SEC("?fmod_ret.s/bpf_user_unwind_deliver")
int BPF_PROG(deliver_fmod_s, __u64 cookie, const struct unwind_stacktrace *trace, int ret)
{
	deliver(ctx, BPF_UNWIND_FMOD_S, cookie, trace);
	return 0;
}

SEC("?tp_btf/user_unwind_stack")
int BPF_PROG(event_tp_btf, __u64 cookie, const struct unwind_stacktrace *trace)
{
	deliver(ctx, BPF_UNWIND_TP_BTF, cookie, trace);
	return 0;
}

SEC("?raw_tp/user_unwind_stack")
int event_raw_tp(struct bpf_raw_tracepoint_args *ctx)
{
	if (wanted())
		take(ctx, BPF_UNWIND_RAW_TP, ctx->args[0]);
	return 0;
}

SEC("?tp/unwind/user_unwind_stack")
int event_tp(struct trace_event_raw_user_unwind_stack *ctx)
{
	if (wanted())
		take(ctx, BPF_UNWIND_TP, ctx->cookie);
	return 0;
}

SEC("?fentry.s/bpf_user_unwind_deliver")
int BPF_PROG(deliver_build_ids, __u64 cookie, const struct unwind_stacktrace *trace)
{
	if (!wanted())
		return 0;
	note(BPF_UNWIND_FENTRY_S, trace->nr, cookie);
	shared.ids.ret = bpf_get_stack(ctx, shared.ids.ids, sizeof(shared.ids.ids),
				       BPF_F_USER_STACK | BPF_F_USER_BUILD_ID);
	shared.ids.stackid = bpf_get_stackid(ctx, &stack_ids, BPF_F_USER_STACK);
	shared.ids.plain_id = bpf_get_stackid(ctx, &stacks, BPF_F_USER_STACK);
	return 0;
}

/* The first delivery fills the maps; the second one, of another stack, finds them full. */
SEC("?fentry.s/bpf_user_unwind_deliver")
int BPF_PROG(deliver_to_full_maps, __u64 cookie, const struct unwind_stacktrace *trace)
{
	void *room;

	if (!wanted())
		return 0;
	note(BPF_UNWIND_FENTRY_S, trace->nr, cookie);
	note(BPF_UNWIND_FULL_HASH, bpf_map_update_elem(&one_key, &cookie, &cookie, BPF_ANY),
	     cookie);
	note(BPF_UNWIND_FULL_STACKS, bpf_get_stackid(ctx, &one_stack, BPF_F_USER_STACK), cookie);
	room = bpf_ringbuf_reserve(&one_page, 4000, 0);
	note(BPF_UNWIND_FULL_RING, room ? 0 : -1, cookie);
	if (room)
		bpf_ringbuf_submit(room, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("?fentry.s/bpf_user_unwind_deliver")
int BPF_PROG(deliver_and_wait, __u64 cookie, const struct unwind_stacktrace *trace)
{
	__u64 word = 0;

	if (!wanted())
		return 0;
	note(BPF_UNWIND_FENTRY_S, trace->nr, cookie);
	if (shared.wait_tid == (__u32)bpf_get_current_pid_tgid())
		note(BPF_UNWIND_WAITED,
		     bpf_copy_from_user(&word, sizeof(word), (void *)shared.wait_addr), cookie);
	return 0;
}

/* Runs when a program of any kind has released what it held of the unwinder. */
SEC("?fexit/bpf_user_unwind_put")
int BPF_PROG(note_freed, struct bpf_prog *prog)
{
	note(BPF_UNWIND_FREED, 0, BPF_CORE_READ(prog, aux, load_time));
	return 0;
}

/* Programs that take the stack at their own place. */
SEC("?fentry.s/__x64_sys_getpgid")
int take_fentry_s(void *ctx)
{
	if (wanted())
		take(ctx, BPF_UNWIND_TAKE_S, 0);
	return 0;
}

SEC("?fentry.s/__x64_sys_uretprobe")
int take_uretprobe_call_s(void *ctx)
{
	if (wanted())
		take(ctx, BPF_UNWIND_TAKE, 0);
	return 0;
}

/* Takes the stack under the mmap lock first. */
struct find_vma_data {
	void	*ctx;
	__u64	ids[2 * sizeof(struct bpf_stack_build_id) / sizeof(__u64)];
	__u64	word;
};

static long take_in_vma(struct task_struct *task, struct vm_area_struct *vma,
			struct find_vma_data *data)
{
	take(data->ctx, BPF_UNWIND_TAKE_LOCKED, 0);
	note(BPF_UNWIND_TAKE_LOCKED,
	     bpf_get_stack(data->ctx, data->ids, sizeof(data->ids),
			   BPF_F_USER_STACK | BPF_F_USER_BUILD_ID), 0);
	note(BPF_UNWIND_TAKE_LOCKED, bpf_get_stackid(data->ctx, &stacks, BPF_F_USER_STACK), 0);
	note(BPF_UNWIND_TAKE_LOCKED,
	     bpf_copy_from_user(&data->word, sizeof(data->word), (void *)shared.wait_addr), 0);
	return 0;
}

SEC("?fentry.s/__x64_sys_getpgid")
int take_find_vma_s(void *ctx)
{
	struct find_vma_data data = { .ctx = ctx };

	if (!wanted())
		return 0;
	bpf_find_vma(bpf_get_current_task_btf(), shared.vma_addr, take_in_vma, &data, 0);
	take(ctx, BPF_UNWIND_TAKE_S, 0);
	return 0;
}

/* Under the mmap lock for each mapping, without it at the end. */
SEC("?iter.s/task_vma")
int take_iter_vma_s(struct bpf_iter__task_vma *ctx)
{
	if (!wanted())
		return 0;
	if (!ctx->vma)
		take(ctx, BPF_UNWIND_TAKE_S, 0);
	else if (!shared.nr_traces)
		take(ctx, BPF_UNWIND_TAKE_LOCKED, 0);
	return 0;
}

SEC("?fentry.s/__x64_sys_getpgid")
int take_kernel_s(void *ctx)
{
	struct bpf_unwind_trace *trace;

	if (!wanted())
		return 0;
	trace = new_trace(BPF_UNWIND_TAKE_S, BPF_UNWIND_KERNEL_STACK, 0);
	if (trace)
		trace->ret = bpf_get_stack(ctx, trace->ips, sizeof(trace->ips), 0);
	note(BPF_UNWIND_KERNEL_ID, bpf_get_stackid(ctx, &stacks, 0), 0);
	return 0;
}

SEC("?fentry/__x64_sys_getpgid")
int take_fentry(void *ctx)
{
	if (wanted())
		take(ctx, BPF_UNWIND_TAKE, 0);
	return 0;
}

SEC("?uprobe.s")
int take_uprobe_s(void *ctx)
{
	if (wanted())
		take(ctx, BPF_UNWIND_TAKE_S, 0);
	return 0;
}

SEC("?uprobe")
int take_uprobe(void *ctx)
{
	if (wanted())
		take(ctx, BPF_UNWIND_TAKE, 0);
	return 0;
}

SEC("?raw_tp/sys_exit")
int take_raw_tp_exit(struct bpf_raw_tracepoint_args *ctx)
{
	const struct pt_regs___unwind *regs = (void *)ctx->args[0];

	if (wanted() && BPF_CORE_READ(regs, orig_ax) == shared.exit)
		take(ctx, BPF_UNWIND_TAKE, 0);
	return 0;
}

SEC("?raw_tp/signal_deliver")
int take_raw_tp_signal(struct bpf_raw_tracepoint_args *ctx)
{
	if (wanted())
		take(ctx, BPF_UNWIND_TAKE, 0);
	return 0;
}
