// SPDX-License-Identifier: GPL-2.0
/*
 * Storms of requests to the unwinding core.
 *
 * Each open of the debugfs file unwind/storm owns a few tracers. Tasks that hold
 * the file make bursts of requests, each burst in one kernel entry. While the file
 * is armed, the CPUs also send NMIs to each other, which make requests for any task of
 * the arming process group that they hit, and system calls of these tasks start with
 * requests. test_storm_books.c keeps the books of the results.
 *
 * Contexts:
 *  - ioctls: task context;
 *  - storm_timer(): hardirq;
 *  - storm_nmi(): NMI, on purpose;
 *  - storm_syscall(): task context, preemption disabled.
 *
 * Invariant: NMIs and timers find a file through storm_armed, and disarming waits
 * for those that found it. The file is released after the last burst and disarmed
 * first, so the books are open during all requests.
 */
#include <linux/cleanup.h>
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/init.h>
#include <linux/irq_work.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/pid.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/task_work.h>
#include <linux/timekeeping.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>
#include <linux/unwind_deferred.h>

#include <asm/unistd.h>
#ifdef CONFIG_X86_LOCAL_APIC
#include <asm/apic.h>
#include <asm/nmi.h>
#endif

#include <trace/events/syscalls.h>

#include "test_storm.h"
#include "test_storm_books.h"

/* The shortest period of the timers that send NMIs. */
#define STORM_MIN_PERIOD_US	20
/* Timeout for a CPU's own NMI on a busy emulator, and number of attempts. */
#define STORM_NMI_US		(1 * USEC_PER_SEC)
#define STORM_NMI_TRIES		10

/* One of the first four tracers and one of the others. */
#define STORM_SOME		0x11
/* How late an NMI may be, likewise, if another NMI has done its work. */
#define STORM_LATE_NS		(10 * NSEC_PER_SEC)

/**
 * struct storm - data of one open file
 * @books:	the tracers and the results of their requests
 * @group:	process group that NMIs and system calls make requests for, while armed
 * @arm:	parameters, while armed
 */
struct storm {
	struct storm_books	books;
	struct pid		*group;
	struct unwind_storm_arm	arm;
};

/**
 * struct storm_shot - requests on their way into another context
 * @storm:	the file
 * @step:	the requests to make
 * @irq:	carries it into hardirq context
 * @done:	set last
 */
struct storm_shot {
	struct storm			*storm;
	const struct unwind_storm_step	*step;
	struct irq_work			irq;
	bool				done;
};

/**
 * struct storm_cpu - a CPU as sender and receiver of NMIs
 * @timer:	sends NMIs to the next CPU
 * @shot:	requests for its own NMI
 * @hits:	number of pending NMIs from other CPUs
 * @last:	when an NMI was last sent to it
 * @turn:	counter to choose between alternatives
 */
struct storm_cpu {
	struct hrtimer		timer;
	struct storm_shot	*shot;
	atomic_t		hits;
	u64			last;
	u32			turn;
};

static DEFINE_PER_CPU(struct storm_cpu, storm_cpus);

/* The armed file, at most one; read in NMI. */
static struct storm __rcu *storm_armed;
static DEFINE_MUTEX(storm_arm_lock);

static u32 storm_turn(void)
{
	return this_cpu_inc_return(storm_cpus.turn);
}

static void storm_fire(struct storm_shot *shot, struct pt_regs *regs)
{
	const struct unwind_storm_step *step = shot->step;

	storm_request_all(&shot->storm->books, step->arg, step->count, step->what, regs);
	/* Pairs with storm_fire_hardirq() and storm_fire_nmi(). */
	smp_store_release(&shot->done, true);
}

static void storm_irq_func(struct irq_work *irq)
{
	storm_fire(container_of(irq, struct storm_shot, irq), NULL);
}

/* Stay on this CPU, so that the interrupt finds the same current. */
static void storm_fire_hardirq(struct storm_shot *shot)
{
	shot->irq = IRQ_WORK_INIT_HARD(storm_irq_func);

	scoped_guard(preempt) {
		irq_work_queue(&shot->irq);
		/* Pairs with storm_fire(). */
		while (!smp_load_acquire(&shot->done))
			cpu_relax();
	}
	irq_work_sync(&shot->irq);
}

/* Is current in the process group of the armed file? */
static bool storm_is_target(const struct storm *storm)
{
	const struct signal_struct *signal = READ_ONCE(current->signal);

	return signal && READ_ONCE(signal->pids[PIDTYPE_PGID]) == storm->group;
}

#ifdef CONFIG_X86_LOCAL_APIC
static void storm_send_nmi(struct storm_cpu *sc, unsigned int cpu)
{
	WRITE_ONCE(sc->last, ktime_get_mono_fast_ns());
	__apic_send_IPI_mask(cpumask_of(cpu), NMI_VECTOR);
}

/* Context: preemption disabled. */
static void storm_send_hit(unsigned int cpu)
{
	struct storm_cpu *sc = per_cpu_ptr(&storm_cpus, cpu);

	atomic_inc(&sc->hits);
	storm_send_nmi(sc, cpu);
}

static bool storm_wait_nmi(const struct storm_shot *shot)
{
	for (unsigned int us = 0; us < STORM_NMI_US; us++) {
		/* Pairs with storm_fire(). */
		if (smp_load_acquire(&shot->done))
			return true;
		if (us)
			udelay(1);
	}
	return false;
}

static void storm_fire_nmi(struct storm_shot *shot)
{
	struct storm_cpu *sc;

	guard(irqsave)();

	sc = this_cpu_ptr(&storm_cpus);
	WRITE_ONCE(sc->shot, shot);
	for (unsigned int try = 0; try < STORM_NMI_TRIES; try++) {
		/* About one NMI in ten million never came. */
		if (try) {
			pr_notice("unwind_storm: no NMI came, it is sent again\n");
			this_cpu_inc(shot->storm->books.sums->resent);
		}
		storm_send_nmi(sc, smp_processor_id());
		if (storm_wait_nmi(shot))
			return;
	}
	WARN_ONCE(1, "no NMI\n");
	if (xchg(&sc->shot, NULL))
		return;
	/* The handler took the shot and will finish soon. Pairs with storm_fire(). */
	while (!smp_load_acquire(&shot->done))
		cpu_relax();
}

static void storm_hit(struct pt_regs *regs)
{
	struct storm *storm;

	guard(rcu)();

	storm = rcu_dereference(storm_armed);
	if (!storm || !storm_is_target(storm))
		return;
	/* Two tracers at a time, to leave some for the next NMI that hits this entry. */
	storm_request_all(&storm->books, storm->arm.hit & STORM_SOME << storm_turn() % 4, 1,
			  UNWIND_STORM_HIT, regs);
}

static int storm_nmi(unsigned int cmd, struct pt_regs *regs)
{
	struct storm_cpu *sc = this_cpu_ptr(&storm_cpus);
	struct storm_shot *shot = xchg(&sc->shot, NULL);
	int hits = atomic_xchg(&sc->hits, 0);

	if (shot)
		storm_fire(shot, regs);
	if (hits)
		storm_hit(regs);
	/*
	 * An earlier NMI may have done the work of this one. The next NMI may be sent after
	 * the clock was read here, so compare as signed.
	 */
	if (!shot && !hits)
		return (s64)(ktime_get_mono_fast_ns() - READ_ONCE(sc->last)) < STORM_LATE_NS ?
			NMI_HANDLED : NMI_DONE;
	return hits + !!shot;
}

static int __init storm_nmi_init(void)
{
	return register_nmi_handler(NMI_LOCAL, storm_nmi, 0, "unwind_storm");
}
#else
static void storm_send_hit(unsigned int cpu)
{
}

static void storm_fire_nmi(struct storm_shot *shot)
{
}

static int __init storm_nmi_init(void)
{
	return 0;
}
#endif

static enum hrtimer_restart storm_timer(struct hrtimer *timer)
{
	unsigned int cpu = smp_processor_id(), next = cpumask_next(cpu, cpu_online_mask);
	struct storm *storm;

	guard(rcu)();

	storm = rcu_dereference(storm_armed);
	if (!storm)
		return HRTIMER_NORESTART;

	if (next >= nr_cpu_ids)
		next = cpumask_first(cpu_online_mask);
	if (next != cpu)
		storm_send_hit(next);
	hrtimer_forward_now(timer, ns_to_ktime((u64)storm->arm.period_us * NSEC_PER_USEC));
	return HRTIMER_RESTART;
}

static void storm_start_timer(void *data)
{
	hrtimer_start(&this_cpu_ptr(&storm_cpus)->timer, 0, HRTIMER_MODE_REL_PINNED_HARD);
}

/* Runs at the start of exec, exit, sigreturn and so on. Bursts make their own requests. */
static void storm_syscall(void *data, struct pt_regs *regs, long id)
{
	struct storm *storm = data;
	struct unwind_storm_step step = {
		.what	= UNWIND_STORM_NMI,
		.arg	= storm->arm.syscall,
		.count	= 1,
	};
	struct storm_shot shot = { .storm = storm, .step = &step };

	if (!storm_is_target(storm))
		return;
	storm_begin_syscall(&storm->books);
	if (id == __NR_ioctl || !step.arg)
		return;
	/* The first request sets the cookie and decides how the task work is queued. */
	if (storm_turn() & 1)
		storm_fire_nmi(&shot);
	else
		storm_request_all(&storm->books, step.arg, 1, UNWIND_STORM_SYSCALL, NULL);
}

static int storm_op_disarm(struct storm *storm)
{
	unsigned int cpu;

	guard(mutex)(&storm_arm_lock);

	if (rcu_access_pointer(storm_armed) != storm)
		return -ENOENT;

	rcu_assign_pointer(storm_armed, NULL);
	unregister_trace_sys_enter(storm_syscall, storm);
	tracepoint_synchronize_unregister();
	/* NMIs and timers no longer use @storm after this, and do not start again. */
	synchronize_rcu();
	for_each_possible_cpu(cpu)
		hrtimer_cancel(&per_cpu_ptr(&storm_cpus, cpu)->timer);
	put_pid(storm->group);
	return 0;
}

static int storm_op_arm(struct storm *storm, const struct unwind_storm_arm __user *uarm)
{
	struct unwind_storm_arm arm;
	int ret;

	if (copy_from_user(&arm, uarm, sizeof(arm)))
		return -EFAULT;
	if (arm.pad || arm.period_us < STORM_MIN_PERIOD_US)
		return -EINVAL;

	guard(mutex)(&storm_arm_lock);

	if (rcu_access_pointer(storm_armed))
		return -EBUSY;

	storm->arm = arm;
	storm->group = get_task_pid(current, PIDTYPE_PGID);
	ret = register_trace_sys_enter(storm_syscall, storm);
	if (ret) {
		put_pid(storm->group);
		return ret;
	}
	rcu_assign_pointer(storm_armed, storm);
	on_each_cpu(storm_start_timer, NULL, true);
	return 0;
}

static void storm_hit_others(void)
{
	unsigned int cpu;

	guard(preempt)();

	for_each_online_cpu(cpu) {
		if (cpu != smp_processor_id())
			storm_send_hit(cpu);
	}
}

static int storm_step(struct storm *storm, const struct unwind_storm_step *step)
{
	struct storm_shot shot = { .storm = storm, .step = step };
	struct unwind_stacktrace trace;

	switch (step->what) {
	case UNWIND_STORM_TASK:
		storm_fire(&shot, NULL);
		return 0;
	case UNWIND_STORM_IRQS_OFF:
		scoped_guard(irqsave)
			storm_fire(&shot, NULL);
		return 0;
	case UNWIND_STORM_HARDIRQ:
		storm_fire_hardirq(&shot);
		return 0;
	case UNWIND_STORM_NMI:
		storm_fire_nmi(&shot);
		return 0;
	case UNWIND_STORM_HIT:
		storm_hit_others();
		return 0;
	case UNWIND_STORM_WORK:
		if (task_work_pending(current))
			task_work_run();
		return 0;
	case UNWIND_STORM_FAULTABLE:
		return unwind_user_faultable(&trace);
	case UNWIND_STORM_SLEEP:
		usleep_range(10, 50);
		return 0;
	case UNWIND_STORM_SIGNAL:
		/* Signal 0 sends nothing. */
		return step->arg ? send_sig(step->arg, current, 0) : -EINVAL;
	default:
		return -EINVAL;
	}
}

static int storm_op_burst(struct storm *storm, const struct unwind_storm_burst __user *uburst)
{
	struct unwind_storm_burst burst;
	int ret;

	if (copy_from_user(&burst, uburst, sizeof(burst)))
		return -EFAULT;
	if (burst.nr > UNWIND_STORM_STEPS)
		return -EINVAL;

	ret = storm_begin_burst(&storm->books);
	if (ret)
		return ret;
	for (u32 i = 0; i < burst.nr && !ret; i++)
		ret = storm_step(storm, &burst.steps[i]);
	storm_end_burst(&storm->books);
	return ret;
}

static long storm_ioctl(struct file *filep, unsigned int cmd, unsigned long arg)
{
	struct storm *storm = filep->private_data;

	switch (cmd) {
	case UNWIND_STORM_REGISTER:
		return storm_register(&storm->books, arg);
	case UNWIND_STORM_CANCEL:
		return storm_cancel(&storm->books, arg);
	case UNWIND_STORM_BURST:
		return storm_op_burst(storm, (void __user *)arg);
	case UNWIND_STORM_ARM:
		return storm_op_arm(storm, (void __user *)arg);
	case UNWIND_STORM_DISARM:
		return storm_op_disarm(storm);
	case UNWIND_STORM_COUNTS:
		return storm_books_read(&storm->books, (void __user *)arg);
	default:
		return -ENOTTY;
	}
}

static int storm_open(struct inode *inode, struct file *filep)
{
	struct storm *storm = kzalloc(sizeof(*storm), GFP_KERNEL);
	int ret;

	if (!storm)
		return -ENOMEM;

	ret = storm_books_open(&storm->books);
	if (ret) {
		kfree(storm);
		return ret;
	}
	filep->private_data = storm;
	return nonseekable_open(inode, filep);
}

static int storm_release(struct inode *inode, struct file *filep)
{
	struct storm *storm = filep->private_data;

	storm_op_disarm(storm);
	storm_books_close(&storm->books);
	kfree(storm);
	return 0;
}

static const struct file_operations storm_fops = {
	.owner		= THIS_MODULE,
	.open		= storm_open,
	.release	= storm_release,
	.unlocked_ioctl	= storm_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
};

static int __init storm_init(void)
{
	struct dentry *dir = debugfs_lookup("unwind", NULL);
	int cpu, ret;

	for_each_possible_cpu(cpu) {
		struct hrtimer *timer = &per_cpu_ptr(&storm_cpus, cpu)->timer;

		hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
		timer->function = storm_timer;
	}
	ret = storm_nmi_init();
	if (!ret)
		debugfs_create_file("storm", 0600, dir, NULL, &storm_fops);
	dput(dir);
	return ret;
}
late_initcall_sync(storm_init);
