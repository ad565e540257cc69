// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user stacks for BPF programs.
 *
 * A program asks for the user stack of current from wherever it runs, NMI included, by
 * a kfunc or by a flag of bpf_get_stack(), and gets the cookie of the kernel entry. On
 * the way out of that entry bpf_user_unwind_deliver() is called, for programs to attach
 * to, and there bpf_get_stack() and bpf_get_stackid() have the trace.
 *
 * BPF as a whole is one tracer of the unwinding core: programs share requests and
 * deliveries as they share cookies, and maps tell them apart.
 *
 * Contexts: what programs call runs in any context; the verifier and the end of a
 * program are in task context and may sleep; the delivery is in task context, may
 * fault, and may so wait for as long as the user likes.
 *
 * Invariant: the tracer is registered if and only if there is a program whose
 * has_user_unwind is set, which those have that can ask.
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

/* Programs that can ask, under bpf_user_unwind_mutex. */
static unsigned int bpf_user_unwind_progs;
/* Counts the times that one more program could ask, or get what was asked for. */
static atomic_t bpf_user_unwind_arrivals;
static DEFINE_MUTEX(bpf_user_unwind_mutex);

static void bpf_user_unwind_callback(struct unwind_work *work,
				     struct unwind_stacktrace *trace, u64 cookie);

/* Sleepable programs may wait for user memory; it is never freed. */
static struct unwind_work bpf_user_unwind_work = { .may_wait = true };

/* The programs that are there now get what is to be delivered of this kernel entry. */
static void bpf_user_unwind_note_arrivals(void)
{
	/* Pairs with bpf_user_unwind_again() on top of this. */
	WRITE_ONCE(current->unwind_info.delivered_to, atomic_read(&bpf_user_unwind_arrivals));
}

/*
 * Programs asked before in this kernel entry. If they have the stack already, and another
 * one came since, it is delivered again: to all of them.
 */
static void bpf_user_unwind_again(void)
{
	/* Pairs with bpf_user_unwind_note_arrivals() below this. */
	if (READ_ONCE(current->unwind_info.delivered_to) != atomic_read(&bpf_user_unwind_arrivals))
		unwind_deferred_again(&bpf_user_unwind_work);
}

/* As unwind_deferred_request_regs(). */
static int bpf_user_unwind_ask(bool complete, u64 *cookie)
{
	int ret = unwind_deferred_request_regs(&bpf_user_unwind_work, complete, cookie);

	/*
	 * What asks when the delivery has just begun must not find what an older one noted. If
	 * a program came since this, it may be that all have the stack twice.
	 */
	if (!ret)
		bpf_user_unwind_note_arrivals();
	else if (ret > 0)
		bpf_user_unwind_again();
	return ret;
}

__bpf_kfunc_start_defs();

/**
 * bpf_user_unwind_request - ask for the user stack of current
 * @cookie:	set to the name of the kernel entry, or to 0 on error
 *
 * bpf_user_unwind_deliver() is called once for each kernel entry in which programs
 * asked, when current returns to user mode or exits, also when the stack could not be
 * walked. All requests of an entry get the same cookie, also those of perf and ftrace.
 * In a long entry, in a wait of io_uring or a virtual machine, it may be called before
 * that; if a program that can ask was loaded or attached since, or one attached to it, the
 * next request makes it be called again, with the same cookie and trace.
 *
 * Context: any, NMI included.
 * Return:
 * * 0		- the stack will be delivered
 * * 1		- likewise, or it was delivered in this entry already
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
 * bpf_user_unwind_deliver - the user stack of a kernel entry in which programs asked
 * @cookie:	what they got
 * @trace:	the stack, innermost address first; empty if there is none
 *
 * Does nothing: fentry and fmod_ret programs attach to it, sleepable ones too.
 *
 * Context: task context of the task that was asked about. Page faults are allowed, but
 * in a task that exits or is being killed.
 * Return: of no meaning.
 */
__weak noinline int bpf_user_unwind_deliver(u64 cookie, const struct unwind_stacktrace *trace)
{
	return 0;
}

__bpf_hook_end();

static void bpf_user_unwind_callback(struct unwind_work *work,
				     struct unwind_stacktrace *trace, u64 cookie)
{
	const bool dying = unwind_dying();

	/* Before, so that a program is not missed. */
	bpf_user_unwind_note_arrivals();
	if (dying)
		pagefault_disable();
	bpf_user_unwind_deliver(cookie, trace);
	if (dying)
		pagefault_enable();
}

/* From now on @prog can ask. */
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
 * bpf_user_unwind_attached - a program was attached to something
 * @prog:	the program, or NULL
 *
 * What was delivered of long kernel entries before is delivered again when one asks.
 *
 * Context: task context.
 */
void bpf_user_unwind_attached(const struct bpf_prog *prog)
{
	/* Does it ask, or does a delivery call it? */
	if (prog && (prog->has_user_unwind || bpf_user_unwind_overlaps(prog)))
		atomic_inc(&bpf_user_unwind_arrivals);
}

/**
 * bpf_user_unwind_enabled - an event was enabled, and with it its program
 * @event:	the event
 *
 * Context: task context; the caller keeps the program.
 */
void bpf_user_unwind_enabled(const struct perf_event *event)
{
	bpf_user_unwind_attached(event->prog);
}

/**
 * bpf_user_unwind_put - a program is gone
 * @prog:	the program, which may be one that never could ask
 *
 * Requests that were not delivered yet are dropped with the last one.
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
 * bpf_user_unwind_check_flags - can a call of bpf_get_stack() ask?
 * @env:	the verifier, whose program then holds the tracer
 * @flags:	the flags of the call, of which every value was made precise
 *
 * Flags that are not known before the program runs can have the bit, too.
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
		/* Fails when it runs. */
		return 0;
	}
	return bpf_user_unwind_check_get(env);
}

BTF_ID_LIST_SINGLE(bpf_user_unwind_request_id, func, bpf_user_unwind_request)

/**
 * bpf_user_unwind_check_kfunc - does a call of a kfunc ask?
 * @env:	the verifier, whose program then holds the tracer
 * @btf:	of the kfunc
 * @func_id:	the kfunc
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
 * bpf_user_unwind_may_sleep - can a sleepable program sleep where it is?
 *
 * They run what does not sleep, too: callbacks of timers, and what is inside RCU's
 * sections, where that can be seen.
 *
 * Context: any.
 * Return: true if so, and if page faults are allowed.
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

	/* In exec, and in workers of io_uring, the registers are nobody's. */
	return is_user_task(current) && user_mode(task_pt_regs(current)) &&
	       !unwind_regs_changing();
}

/* Where it cannot, helpers must not sleep in sleepable programs either. */
#define BPF_USER_UNWIND_MIGHT_SLEEP	!IS_ENABLED(CONFIG_PREEMPT_COUNT)

/**
 * bpf_user_unwind_walk - have the trace that a helper is about to take
 * @flags:	of the helper
 *
 * For sleepable programs, which need not wait for a delivery. Where they cannot sleep
 * after all, the helper takes what it can get in place.
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
 * bpf_user_unwind_get_stack - bpf_get_stack() with flags that it does not know itself
 * @regs:	where the program runs
 * @task:	whose stack it is, or NULL for that of current
 * @buf:	gets PERF_CONTEXT_USER_DEFERRED and the cookie
 * @size:	of @buf, in bytes
 * @flags:	of the helper
 *
 * Asks for the user stack with BPF_F_USER_DEFERRED.
 *
 * Context: any, NMI included.
 * Return: the bytes of @buf that are set, -EINVAL for other flags, for another task and
 * where there is no room, or as bpf_user_unwind_request().
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

/* The kernel's part has nothing to wait for, nor has what cannot wait. */
BPF_CALL_4(bpf_get_stack_sleepable_tracing, void *, ctx, void *, buf, u32, size, u64, flags)
{
	if (bpf_user_unwind_may_walk(flags))
		return bpf_get_stack_sleepable((unsigned long)task_pt_regs(current),
					       (unsigned long)buf, size, flags, 0);

	/* For perf's callchain, as in all that does not sleep. */
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
 * bpf_user_unwind_func_proto - helpers that wait for the user stack
 * @func_id:	a helper
 *
 * For sleepable programs that have no registers for a context.
 *
 * Return: what is called, or NULL if it is what other programs call.
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
 * bpf_user_unwind_overlaps - may a program run in several tasks at once on one CPU?
 * @prog:	a program that is attached to a function, or is to be
 *
 * Tracing programs that run already on a CPU are skipped there, against recursion. One
 * that is at bpf_user_unwind_deliver() may be preempted or wait for the user, while
 * other tasks on its CPU are due; and there is no recursion, as one task delivers one
 * trace at a time.
 *
 * Context: any.
 * Return: true if it is not to be skipped.
 */
bool bpf_user_unwind_overlaps(const struct bpf_prog *prog)
{
	const struct btf *btf = prog->aux->attach_btf;

	return btf && btf_is_kernel(btf) && !btf_is_module(btf) &&
	       prog->aux->attach_btf_id == bpf_user_unwind_deliver_id[0];
}

BTF_KFUNCS_START(bpf_user_unwind_kfuncs)
/* A cookie that is NULL is refused, or there would be a check in each request. */
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
	/* Tracepoints, perf events and LSM hooks share the first one. */
	return register_btf_kfunc_id_set(BPF_PROG_TYPE_TRACING, &bpf_user_unwind_kfunc_set) ?:
	       register_btf_kfunc_id_set(BPF_PROG_TYPE_KPROBE, &bpf_user_unwind_kfunc_set) ?:
	       register_btf_fmodret_id_set(&bpf_user_unwind_hook_set);
}
late_initcall(bpf_user_unwind_init);
