// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user stacks for BPF programs.
 *
 * A program requests the user stack of current from any context, NMI included, by a
 * kfunc or by a flag of bpf_get_stack(), and gets the cookie of the kernel entry. Before
 * the task leaves that entry, the callback calls bpf_user_unwind_deliver(), which programs
 * can attach to. There, bpf_get_stack() and bpf_get_stackid() return the trace.
 *
 * BPF as a whole is one tracer of the unwinding core: programs share requests, cookies and
 * deliveries, and use maps to tell them apart.
 *
 * Contexts: functions that programs call run in any context. The verifier and the release
 * of a program run in task context and may sleep. The delivery runs in task context and
 * may fault, so userspace can make it wait indefinitely.
 *
 * Invariant: the tracer is registered if and only if there is a program with
 * has_user_unwind, which is set in all programs that can make requests.
 */
#include <linux/atomic.h>
#include <linux/bpf.h>
#include <linux/bpf_user_unwind.h>
#include <linux/bpf_verifier.h>
#include <linux/btf.h>
#include <linux/btf_ids.h>
#include <linux/filter.h>
#include <linux/init.h>
#include <linux/mutex.h>
#include <linux/perf_event.h>
#include <linux/preempt.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/uaccess.h>
#include <linux/unwind_deferred.h>
#include <linux/unwind_user.h>

/* Number of programs that can make requests, under bpf_user_unwind_mutex. */
static unsigned int bpf_user_unwind_progs;
/* Incremented whenever another program can make requests or gets deliveries. */
static atomic_t bpf_user_unwind_arrivals;
static DEFINE_MUTEX(bpf_user_unwind_mutex);

static void bpf_user_unwind_callback(struct unwind_work *work,
				     struct unwind_stacktrace *trace, u64 cookie);

/* Sleepable programs may wait for user memory. Never freed, as .may_wait requires. */
static struct unwind_work bpf_user_unwind_work = { .may_wait = true };

/* Record the arrivals so far: those programs get this kernel entry's delivery. */
static void bpf_user_unwind_note_arrivals(void)
{
	int arrivals;

	/*
	 * Pairs with bpf_user_unwind_again() in an interrupt or NMI on top of this. One that
	 * noted a program in between has to find it noted afterwards, too.
	 */
	do {
		arrivals = atomic_read(&bpf_user_unwind_arrivals);
		WRITE_ONCE(current->unwind_info.delivered_to, arrivals);
	} while (arrivals != atomic_read(&bpf_user_unwind_arrivals));
}

/*
 * Handle a repeated request in this kernel entry. If the stack was delivered and another
 * program arrived since then, deliver it again, to all programs. The delivery that comes is
 * for the programs that are there now: a request that interrupts its first instructions must
 * not repeat it for them.
 */
static void bpf_user_unwind_again(void)
{
	/* Pairs with bpf_user_unwind_note_arrivals() in the context below this one. */
	if (READ_ONCE(current->unwind_info.delivered_to) == atomic_read(&bpf_user_unwind_arrivals))
		return;
	if (unwind_deferred_again(&bpf_user_unwind_work) >= 0)
		bpf_user_unwind_note_arrivals();
}

/* Same arguments and return values as unwind_deferred_request_regs(). */
static int bpf_user_unwind_ask(bool complete, u64 *cookie)
{
	int ret = unwind_deferred_request_regs(&bpf_user_unwind_work, complete, cookie);

	/*
	 * A request made when the delivery has just begun must not find the count that an
	 * older delivery noted. If a program arrives after this, all programs may get the
	 * stack twice.
	 */
	if (!ret)
		bpf_user_unwind_note_arrivals();
	else if (ret > 0)
		bpf_user_unwind_again();
	return ret;
}

__bpf_kfunc_start_defs();

/**
 * bpf_user_unwind_request - request the user stack of current
 * @cookie:	set to the name of the kernel entry, or to 0 on error
 *
 * bpf_user_unwind_deliver() is called once for each kernel entry with requests, when
 * current returns to user mode or exits, even if the stack could not be walked. All
 * requests of an entry get the same cookie, including those of perf and ftrace. In a long
 * entry (a wait of io_uring or a virtual machine) it may be called earlier. After that, the
 * next request triggers another call with the same cookie and trace if a program that can
 * make requests was loaded or attached, or a program attached to bpf_user_unwind_deliver(),
 * since the earlier call began. If that happened between the entry's first request and that
 * call, it may trigger one, too. How often a task repeats calls is limited, see
 * unwind_deferred_again().
 *
 * Context: any, NMI included.
 * Return:
 * * 0		- the stack will be delivered
 * * 1		- likewise, or it was already delivered in this entry
 * * -EINVAL	- current is not a user task
 * * -ESRCH	- current is exiting
 * * -ESTALE	- current is in exec: its user stack of this entry is gone
 * * -EAGAIN	- current is between two entries
 */
__bpf_kfunc int bpf_user_unwind_request(u64 *cookie)
{
	return bpf_user_unwind_ask(false, cookie);
}

__bpf_kfunc_end_defs();

__bpf_hook_start();

/**
 * bpf_user_unwind_deliver - deliver the user stack of a kernel entry with requests
 * @cookie:	the cookie that the requests returned
 * @trace:	the stack, innermost address first; empty if there is none
 *
 * Does nothing itself: fentry and fmod_ret programs attach to it, sleepable ones too.
 *
 * Context: task context of the traced task. Page faults are allowed unless the task exits,
 * is being killed, or is in exec.
 * Return: ignored.
 */
__weak noinline int bpf_user_unwind_deliver(u64 cookie, const struct unwind_stacktrace *trace)
{
	return 0;
}

__bpf_hook_end();

static void bpf_user_unwind_callback(struct unwind_work *work,
				     struct unwind_stacktrace *trace, u64 cookie)
{
	const bool no_faults = unwind_must_not_wait();

	/* Before the call, to not miss a program that arrives during it. */
	bpf_user_unwind_note_arrivals();
	if (no_faults)
		pagefault_disable();
	bpf_user_unwind_deliver(cookie, trace);
	if (no_faults)
		pagefault_enable();
}

/* Let @prog make requests: register the tracer for the first such program. */
static int bpf_user_unwind_get(struct bpf_prog *prog)
{
	int ret;

	if (prog->has_user_unwind)
		return 0;

	guard(mutex)(&bpf_user_unwind_mutex);

	if (!bpf_user_unwind_progs) {
		ret = unwind_deferred_init(&bpf_user_unwind_work, bpf_user_unwind_callback);
		if (ret)
			return ret;
	}
	bpf_user_unwind_progs++;
	atomic_inc(&bpf_user_unwind_arrivals);
	prog->has_user_unwind = true;
	return 0;
}

/**
 * bpf_user_unwind_attached - note that a program was attached
 * @prog:	the program, or NULL
 *
 * Stacks of long kernel entries that were already delivered are delivered again upon the
 * next request.
 *
 * Context: task context.
 */
void bpf_user_unwind_attached(const struct bpf_prog *prog)
{
	/* Only programs that make requests or get deliveries. */
	if (prog && (prog->has_user_unwind || bpf_user_unwind_overlaps(prog)))
		atomic_inc(&bpf_user_unwind_arrivals);
}

/**
 * bpf_user_unwind_enabled - note that an event and its program were enabled
 * @event:	the event
 *
 * Context: task context; the caller keeps the program alive.
 */
void bpf_user_unwind_enabled(const struct perf_event *event)
{
	bpf_user_unwind_attached(event->prog);
}

/**
 * bpf_user_unwind_put - release the tracer when a program is freed
 * @prog:	the program, whether or not it could make requests
 *
 * The last program drops the requests that were not delivered yet.
 *
 * Context: task context, may sleep.
 */
void bpf_user_unwind_put(struct bpf_prog *prog)
{
	if (!prog->has_user_unwind)
		return;

	guard(mutex)(&bpf_user_unwind_mutex);

	prog->has_user_unwind = false;
	if (!--bpf_user_unwind_progs)
		unwind_deferred_cancel(&bpf_user_unwind_work);
}

static int bpf_user_unwind_check_get(struct bpf_verifier_env *env)
{
	int ret = bpf_user_unwind_get(env->prog);

	if (ret)
		bpf_verifier_log_write(env,
				       "cannot ask for user stacks: all tracers of the user unwinder are in use\n");
	return ret;
}

/**
 * bpf_user_unwind_check_flags - check the flags of a bpf_get_stack() call
 * @env:	the verifier, whose program then holds the tracer
 * @flags:	the flags of the call, already marked precise
 *
 * Flags that are only known at run time may contain BPF_F_USER_DEFERRED, too.
 *
 * Context: task context, may sleep.
 * Return: 0, or why the program cannot be loaded.
 */
int bpf_user_unwind_check_flags(struct bpf_verifier_env *env,
				const struct bpf_reg_state *flags)
{
	const u64 want = BPF_F_USER_STACK | BPF_F_USER_DEFERRED;
	u64 value = flags->var_off.value, unknown = flags->var_off.mask;

	if (flags->type != SCALAR_VALUE) {
		value = 0;
		unknown = U64_MAX;
	}
	if (!((value | unknown) & BPF_F_USER_DEFERRED))
		return 0;

	if (!(((value | unknown) & want) == want) || (value & ~want)) {
		if (value & BPF_F_USER_DEFERRED) {
			bpf_verifier_log_write(env,
					       "BPF_F_USER_DEFERRED goes with BPF_F_USER_STACK and nothing else\n");
			return -EINVAL;
		}
		/* The call fails at run time. */
		return 0;
	}
	return bpf_user_unwind_check_get(env);
}

BTF_ID_LIST_SINGLE(bpf_user_unwind_request_id, func, bpf_user_unwind_request)

/**
 * bpf_user_unwind_check_kfunc - check a call of a kfunc
 * @env:	the verifier, whose program then holds the tracer
 * @btf:	BTF of the kfunc
 * @func_id:	BTF id of the kfunc
 *
 * Context: task context, may sleep.
 * Return: 0, or why the program cannot be loaded.
 */
int bpf_user_unwind_check_kfunc(struct bpf_verifier_env *env, const struct btf *btf,
				u32 func_id)
{
	if (btf_is_module(btf) || func_id != bpf_user_unwind_request_id[0])
		return 0;

	return bpf_user_unwind_check_get(env);
}

/**
 * bpf_user_unwind_may_sleep - check whether a sleepable program can sleep here
 *
 * Sleepable programs also run code that must not sleep: timer callbacks and RCU read-side
 * sections, the latter only where the kernel can detect them.
 *
 * Context: any.
 * Return: true if it can sleep and page faults are allowed.
 */
bool bpf_user_unwind_may_sleep(void)
{
	return in_task() && !in_atomic() && !irqs_disabled() && !rcu_preempt_depth() &&
	       !pagefault_disabled();
}

static bool bpf_user_unwind_may_walk(u64 flags)
{
	if (!(flags & BPF_F_USER_STACK) || !bpf_user_unwind_may_sleep())
		return false;

	/* In exec and in io_uring workers, the registers belong to no user context. */
	return is_user_task(current) && user_mode(task_pt_regs(current)) &&
	       !unwind_regs_changing();
}

/* Without PREEMPT_COUNT, atomic sections cannot be detected: leave that to the verifier. */
#define BPF_USER_UNWIND_MIGHT_SLEEP	!IS_ENABLED(CONFIG_PREEMPT_COUNT)

/**
 * bpf_user_unwind_walk - walk the user stack for a helper
 * @flags:	flags of the helper
 *
 * For sleepable programs, which need not wait for a delivery. If they cannot sleep here,
 * the helper takes the part of the stack that is accessible in place.
 *
 * Context: a sleepable program.
 */
void bpf_user_unwind_walk(u64 flags)
{
	struct unwind_stacktrace trace;

	if (bpf_user_unwind_may_walk(flags))
		unwind_user_faultable(&trace);
}

/**
 * bpf_user_unwind_get_stack - handle the flags that bpf_get_stack() does not know
 * @regs:	registers of the context that the program runs in
 * @task:	the task to walk, or NULL for current
 * @buf:	set to PERF_CONTEXT_USER_DEFERRED and the cookie
 * @size:	of @buf, in bytes
 * @flags:	flags of the helper
 *
 * Requests the user stack if BPF_F_USER_DEFERRED is set.
 *
 * Context: any, NMI included.
 * Return: the number of bytes of @buf that are set; -EINVAL for other flags, for another
 * task and if @buf is too small; otherwise as bpf_user_unwind_request().
 */
long bpf_user_unwind_get_stack(struct pt_regs *regs, struct task_struct *task, void *buf,
			       u32 size, u64 flags)
{
	u64 part[2] = { PERF_CONTEXT_USER_DEFERRED };
	int ret;

	memset(buf, 0, size);
	if (task || flags != (BPF_F_USER_STACK | BPF_F_USER_DEFERRED) || size < sizeof(part))
		return -EINVAL;

	ret = bpf_user_unwind_ask(!in_nmi() || perf_user_regs(regs), &part[1]);
	if (ret < 0)
		return ret;

	memcpy(buf, part, sizeof(part));
	return sizeof(part);
}

BPF_CALL_3(bpf_get_stackid_sleepable, struct pt_regs *, regs, struct bpf_map *, map,
	   u64, flags)
{
	bpf_user_unwind_walk(flags);
	if (bpf_user_unwind_may_walk(flags) && (map->map_flags & BPF_F_STACK_BUILD_ID))
		bpf_user_read_build_ids(map, flags);

	/* For perf's callchain. */
	guard(rcu)();
	return bpf_get_stackid((unsigned long)regs, (unsigned long)map, flags, 0, 0);
}

const struct bpf_func_proto bpf_get_stackid_sleepable_proto = {
	.func		= bpf_get_stackid_sleepable,
	.gpl_only	= true,
	.might_sleep	= BPF_USER_UNWIND_MIGHT_SLEEP,
	.ret_type	= RET_INTEGER,
	.arg1_type	= ARG_PTR_TO_CTX,
	.arg2_type	= ARG_CONST_MAP_PTR,
	.arg3_type	= ARG_ANYTHING,
};

/* Walk in place for the kernel part, and if the program cannot sleep here. */
BPF_CALL_4(bpf_get_stack_sleepable_tracing, void *, ctx, void *, buf, u32, size, u64, flags)
{
	if (bpf_user_unwind_may_walk(flags))
		return bpf_get_stack_sleepable((unsigned long)task_pt_regs(current),
					       (unsigned long)buf, size, flags, 0);

	/* For perf's callchain, as in programs that do not sleep. */
	guard(rcu)();
	return bpf_get_stack_raw_tp((unsigned long)ctx, (unsigned long)buf, size, flags, 0);
}

static const struct bpf_func_proto bpf_get_stack_sleepable_tracing_proto = {
	.func		= bpf_get_stack_sleepable_tracing,
	.gpl_only	= true,
	.might_sleep	= BPF_USER_UNWIND_MIGHT_SLEEP,
	.ret_type	= RET_INTEGER,
	.arg1_type	= ARG_PTR_TO_CTX,
	.arg2_type	= ARG_PTR_TO_UNINIT_MEM,
	.arg3_type	= ARG_CONST_SIZE_OR_ZERO,
	.arg4_type	= ARG_ANYTHING,
};

BPF_CALL_3(bpf_get_stackid_sleepable_tracing, void *, ctx, struct bpf_map *, map, u64, flags)
{
	if (bpf_user_unwind_may_walk(flags))
		return bpf_get_stackid_sleepable((unsigned long)task_pt_regs(current),
						 (unsigned long)map, flags, 0, 0);

	guard(rcu)();
	return bpf_get_stackid_raw_tp((unsigned long)ctx, (unsigned long)map, flags, 0, 0);
}

static const struct bpf_func_proto bpf_get_stackid_sleepable_tracing_proto = {
	.func		= bpf_get_stackid_sleepable_tracing,
	.gpl_only	= true,
	.might_sleep	= BPF_USER_UNWIND_MIGHT_SLEEP,
	.ret_type	= RET_INTEGER,
	.arg1_type	= ARG_PTR_TO_CTX,
	.arg2_type	= ARG_CONST_MAP_PTR,
	.arg3_type	= ARG_ANYTHING,
};

/**
 * bpf_user_unwind_func_proto - get a helper that waits for the user stack
 * @func_id:	id of the helper
 *
 * For sleepable programs whose context is not a pt_regs.
 *
 * Return: the helper, or NULL if sleepable programs use the same one as others.
 */
const struct bpf_func_proto *bpf_user_unwind_func_proto(enum bpf_func_id func_id)
{
	switch (func_id) {
	case BPF_FUNC_get_stack:
		return &bpf_get_stack_sleepable_tracing_proto;
	case BPF_FUNC_get_stackid:
		return &bpf_get_stackid_sleepable_tracing_proto;
	default:
		return NULL;
	}
}

BTF_ID_LIST_SINGLE(bpf_user_unwind_deliver_id, func, bpf_user_unwind_deliver)

/**
 * bpf_user_unwind_overlaps - check whether a program may overlap on one CPU
 * @prog:	a program that is attached, or about to be, to a function
 *
 * To prevent recursion, a tracing program that is already running on a CPU is skipped
 * there. A program at bpf_user_unwind_deliver() may be preempted or wait for userspace
 * while other tasks on its CPU get their delivery, and it cannot recurse, because a task
 * delivers one trace at a time.
 *
 * Context: any.
 * Return: true if the program must not be skipped.
 */
bool bpf_user_unwind_overlaps(const struct bpf_prog *prog)
{
	const struct btf *btf = prog->aux->attach_btf;

	return btf && btf_is_kernel(btf) && !btf_is_module(btf) &&
	       prog->aux->attach_btf_id == bpf_user_unwind_deliver_id[0];
}

BTF_KFUNCS_START(bpf_user_unwind_kfuncs)
/* The verifier rejects a NULL cookie, which saves a check in each request. */
BTF_ID_FLAGS(func, bpf_user_unwind_request, KF_TRUSTED_ARGS)
BTF_KFUNCS_END(bpf_user_unwind_kfuncs)

static const struct btf_kfunc_id_set bpf_user_unwind_kfunc_set = {
	.owner	= THIS_MODULE,
	.set	= &bpf_user_unwind_kfuncs,
};

BTF_KFUNCS_START(bpf_user_unwind_hooks)
BTF_ID_FLAGS(func, bpf_user_unwind_deliver, KF_SLEEPABLE)
BTF_KFUNCS_END(bpf_user_unwind_hooks)

static const struct btf_kfunc_id_set bpf_user_unwind_hook_set = {
	.owner	= THIS_MODULE,
	.set	= &bpf_user_unwind_hooks,
};

static int __init bpf_user_unwind_init(void)
{
	/* Tracepoints, perf events and LSM hooks share the first set. */
	return register_btf_kfunc_id_set(BPF_PROG_TYPE_TRACING, &bpf_user_unwind_kfunc_set) ?:
	       register_btf_kfunc_id_set(BPF_PROG_TYPE_KPROBE, &bpf_user_unwind_kfunc_set) ?:
	       register_btf_fmodret_id_set(&bpf_user_unwind_hook_set);
}
late_initcall(bpf_user_unwind_init);
