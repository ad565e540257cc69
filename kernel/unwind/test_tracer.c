// SPDX-License-Identifier: GPL-2.0
/*
 * Tracers of the unwinding core that a test program controls.
 *
 * Each open of the debugfs file unwind/test owns a set of tracers. An ioctl runs a
 * list of operations on them in one kernel entry of the caller: register, request
 * from task, hardirq or NMI context, run the task work in mid entry, make a step
 * of the core fail, let an NMI hit the core at a named place, or let a trap hit it at
 * any instruction. Callbacks are logged, and the log can be read back. See
 * test_tracer.h for the operations.
 *
 * Contexts:
 *  - operations: task context of the caller, or of an io_uring worker for it.
 *  - unwind_test_request(): any, on purpose.
 *  - unwind_test_fail(): those of its callers in the core.
 *  - unwind_test_point(): likewise, except NMI.
 *  - unwind_test_probe_hit(): a trap, which the core treats as an NMI.
 *
 * Invariant: a tracer lives as long as its file, and release cancels it first. So
 * callbacks never see a freed tracer, and this code adds no ordering to the core's
 * own: one test may sleep in a callback while another thread cancels.
 * A trap belongs to one task, fires once, and is disarmed before it does.
 */
#include <linux/cleanup.h>
#include <linux/completion.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/io_uring/cmd.h>
#include <linux/irq_work.h>
#include <linux/kprobes.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/perf_event.h>
#include <linux/percpu.h>
#include <linux/poison.h>
#include <linux/preempt.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/task_work.h>
#include <linux/uaccess.h>
#include <linux/unwind_deferred.h>
#include <linux/workqueue.h>

#ifdef CONFIG_X86_LOCAL_APIC
#include <asm/apic.h>
#include <asm/nmi.h>
#endif

#include "object.h"
#include "test_tracer.h"
#include "unwind.h"

/* Operations of one ioctl. */
#define UNWIND_TEST_MAX_OPS	256
/* Timeout for an IPI on a busy emulator. */
#define UNWIND_TEST_IPI_US	(10 * USEC_PER_SEC)

struct unwind_test_file;

/**
 * struct unwind_test_slot - a tracer
 * @work:	the core's part
 * @file:	the owner
 * @go:		ends the sleep of a callback
 * @follow:	makes the request that follows a callback
 * @follows:	@follow is queued
 * @mode:	enum unwind_test_mode
 * @other:	slot for which the callback requests
 */
struct unwind_test_slot {
	struct unwind_work	work;
	struct unwind_test_file	*file;
	struct completion	go;
	struct callback_head	follow;
	bool			follows;
	u32			mode;
	u32			other;
};

/**
 * struct unwind_test_file - data of one open file
 * @slots:	its tracers
 * @users:	the open file, and task work that UNWIND_TEST_MODE_FOLLOW has queued
 * @seq:	counter that numbers operations and events
 * @lock:	protects what follows
 * @head:	number of events logged
 * @tail:	number of events read
 * @lost:	events dropped since the last one that was logged
 * @events:	ring of events
 */
struct unwind_test_file {
	struct unwind_test_slot		slots[UNWIND_TEST_SLOTS];
	refcount_t			users;
	atomic64_t			seq;
	/* Protects what follows. */
	spinlock_t			lock;
	unsigned int			head;
	unsigned int			tail;
	unsigned int			lost;
	struct unwind_test_event	events[UNWIND_TEST_EVENTS];
};

/**
 * struct unwind_test_shot - one request on its way into another context
 * @slot:	the tracer
 * @mm:		request only for tasks with this mm; NULL for any task
 * @ret:	result
 * @cookie:	result
 * @done:	set last
 * @irq:	carries it into hardirq context
 * @kthread:	carries it into a kernel thread
 */
struct unwind_test_shot {
	struct unwind_test_slot	*slot;
	struct mm_struct	*mm;
	int			ret;
	u64			cookie;
	bool			done;
	struct irq_work		irq;
	struct work_struct	kthread;
};

/**
 * struct unwind_test_trap - a failure or a request, waiting for its task
 * @task:	the only task it fires for; NULL while not armed
 * @file:	the file that armed it
 * @slot:	the tracer that requests
 * @count:	how often to fail
 * @where:	enum unwind_test_where
 * @ret:	result of the request
 * @cookie:	likewise
 */
struct unwind_test_trap {
	struct task_struct	*task;
	struct unwind_test_file	*file;
	struct unwind_test_slot	*slot;
	u32			count;
	u32			where;
	int			ret;
	u64			cookie;
};

static struct unwind_test_trap unwind_test_fails[UNWIND_TEST_NR_FAILS];
static struct unwind_test_trap unwind_test_points[UNWIND_TEST_NR_POINTS];
static atomic_t unwind_test_firing = ATOMIC_INIT(0);

static DEFINE_MUTEX(unwind_test_probe_lock);
static struct unwind_test_file *unwind_test_probe_owner;

/* Make the request, in its target context. */
static void unwind_test_fire(struct unwind_test_shot *shot, struct pt_regs *regs)
{
	struct unwind_work *work = &shot->slot->work;

	if (shot->mm && shot->mm != current->mm)
		shot->ret = -EXDEV;
	else if (regs)
		shot->ret = unwind_deferred_request_regs(work, perf_user_regs(regs),
							 &shot->cookie);
	else
		shot->ret = unwind_deferred_request(work, &shot->cookie);

	/* Pairs with unwind_test_wait(). */
	smp_store_release(&shot->done, true);
}

/* Returns whether the other context has finished with @shot. */
static bool unwind_test_wait(struct unwind_test_shot *shot)
{
	for (unsigned int us = 0; us < UNWIND_TEST_IPI_US; us++) {
		/* Pairs with unwind_test_fire(). */
		if (smp_load_acquire(&shot->done))
			return true;
		udelay(1);
	}
	return false;
}

#ifdef CONFIG_X86_LOCAL_APIC
static DEFINE_PER_CPU(struct unwind_test_shot *, unwind_test_nmi_shot);

static int unwind_test_nmi_handler(unsigned int cmd, struct pt_regs *regs)
{
	struct unwind_test_shot *shot = this_cpu_xchg(unwind_test_nmi_shot, NULL);

	if (!shot)
		return NMI_DONE;

	unwind_test_fire(shot, regs);
	return NMI_HANDLED;
}

/* Context: preemption disabled, also with interrupts off. */
static void unwind_test_send_nmi(struct unwind_test_shot *shot, int cpu)
{
	struct unwind_test_shot **slot = per_cpu_ptr(&unwind_test_nmi_shot, cpu);

	if (cmpxchg(slot, NULL, shot)) {
		shot->ret = -EBUSY;
		return;
	}

	__apic_send_IPI_mask(cpumask_of(cpu), NMI_VECTOR);
	if (unwind_test_wait(shot))
		return;
	if (xchg(slot, NULL)) {
		shot->ret = -ETIMEDOUT;
		return;
	}
	/* The handler took the shot and will finish soon. */
	while (!unwind_test_wait(shot))
		cpu_relax();
}

static int __init unwind_test_nmi_init(void)
{
	return register_nmi_handler(NMI_LOCAL, unwind_test_nmi_handler, 0, "unwind_test");
}
#else
static void unwind_test_send_nmi(struct unwind_test_shot *shot, int cpu)
{
	shot->ret = -EOPNOTSUPP;
}

static int __init unwind_test_nmi_init(void)
{
	return 0;
}
#endif

static void unwind_test_irq_func(struct irq_work *irq)
{
	unwind_test_fire(container_of(irq, struct unwind_test_shot, irq), NULL);
}

static void unwind_test_kthread_func(struct work_struct *work)
{
	unwind_test_fire(container_of(work, struct unwind_test_shot, kthread), NULL);
}

/* Stay on this CPU, so that the interrupt finds the same current. */
static void unwind_test_fire_hardirq(struct unwind_test_shot *shot)
{
	shot->irq = IRQ_WORK_INIT_HARD(unwind_test_irq_func);

	preempt_disable();
	irq_work_queue(&shot->irq);
	/* Pairs with unwind_test_fire(). */
	while (!smp_load_acquire(&shot->done))
		cpu_relax();
	preempt_enable();
	irq_work_sync(&shot->irq);
}

static void unwind_test_fire_kthread(struct unwind_test_shot *shot)
{
	INIT_WORK_ONSTACK(&shot->kthread, unwind_test_kthread_func);
	schedule_work(&shot->kthread);
	flush_work(&shot->kthread);
	destroy_work_on_stack(&shot->kthread);
}

static void unwind_test_request(struct unwind_test_shot *shot, u32 where)
{
	switch (where) {
	case UNWIND_TEST_TASK:
		unwind_test_fire(shot, NULL);
		break;
	case UNWIND_TEST_IRQS_OFF:
		scoped_guard(irqsave)
			unwind_test_fire(shot, NULL);
		break;
	case UNWIND_TEST_HARDIRQ:
		unwind_test_fire_hardirq(shot);
		break;
	case UNWIND_TEST_NMI:
		scoped_guard(irqsave)
			unwind_test_send_nmi(shot, smp_processor_id());
		break;
	case UNWIND_TEST_KTHREAD:
		unwind_test_fire_kthread(shot);
		break;
	default:
		shot->ret = -EINVAL;
	}
}

/**
 * unwind_test_fail - check whether a step of the core has to fail
 * @what:	the step
 *
 * Context: any.
 * Return: true if a test armed it for current.
 */
bool unwind_test_fail(enum unwind_test_fail what)
{
	struct unwind_test_trap *trap = &unwind_test_fails[what];

	/* No partner: current arms it for itself. */
	if (likely(READ_ONCE(trap->task) != current))
		return false;

	/* An NMI in between fails once too often at most. */
	if (!--trap->count)
		WRITE_ONCE(trap->task, NULL);
	return true;
}

/**
 * unwind_test_point - make the armed request at a place in the core
 * @point:	the place
 */
void unwind_test_point(enum unwind_test_point point)
{
	struct unwind_test_trap *trap = &unwind_test_points[point];
	struct unwind_test_shot shot = {};

	if (likely(READ_ONCE(trap->task) != current) || in_nmi())
		return;

	/* Pairs with unwind_test_release(): it sees the count, or this sees the disarming. */
	atomic_inc(&unwind_test_firing);
	if (cmpxchg(&trap->task, current, NULL) == current) {
		shot.slot = trap->slot;
		unwind_test_request(&shot, trap->where);
		trap->ret = shot.ret;
		trap->cookie = shot.cookie;
	}
	atomic_dec(&unwind_test_firing);
}

/* Does a walk of the core's list find this tracer? */
static bool unwind_test_listed(const struct unwind_work *work)
{
	const struct list_head *prev = READ_ONCE(work->list.prev);

	return prev && prev != LIST_POISON2 && READ_ONCE(prev->next) == &work->list;
}

/*
 * Like unwind_test_point(), but in the context of the trap. The core treats a trap as an
 * NMI, except at the start of a function, where ftrace replaces the trap.
 */
static int unwind_test_probe_hit(struct kprobe *probe, struct pt_regs *regs)
{
	struct unwind_test_trap *trap = &unwind_test_points[UNWIND_TEST_POINT_PROBE];
	struct unwind_test_shot shot = { .slot = trap->slot };

	if (READ_ONCE(trap->task) != current)
		return 0;

	WRITE_ONCE(trap->task, NULL);
	unwind_test_fire(&shot, regs);
	trap->cookie = shot.cookie;
	trap->ret = shot.ret;
	/* Not valid in cancel, which unlists a tracer and then drops its requests. */
	if (!shot.ret && !unwind_test_listed(&shot.slot->work))
		trap->ret = -ENOLINK;
	return 0;
}

/* A post handler keeps kprobes from optimizing the trap to a jump, which is no NMI. */
static void unwind_test_probe_over(struct kprobe *probe, struct pt_regs *regs,
				   unsigned long flags)
{
}

static struct kprobe unwind_test_probe;

static void unwind_test_unprobe(struct unwind_test_file *file)
{
	guard(mutex)(&unwind_test_probe_lock);

	if (unwind_test_probe_owner != file)
		return;
	unregister_kprobe(&unwind_test_probe);
	WRITE_ONCE(unwind_test_points[UNWIND_TEST_POINT_PROBE].task, NULL);
	unwind_test_probe_owner = NULL;
}

static int unwind_test_op_probe(struct unwind_test_file *file, const struct unwind_test_op *op)
{
	int ret;

	unwind_test_unprobe(file);
	if (!op->arg)
		return 0;

	guard(mutex)(&unwind_test_probe_lock);
	if (unwind_test_probe_owner)
		return -EBUSY;

	unwind_test_probe = (struct kprobe) {
		.addr		= (kprobe_opcode_t *)(unsigned long)op->arg,
		.pre_handler	= unwind_test_probe_hit,
		.post_handler	= unwind_test_probe_over,
	};
	ret = register_kprobe(&unwind_test_probe);
	if (!ret)
		unwind_test_probe_owner = file;
	return ret;
}

static void unwind_test_log(struct unwind_test_slot *slot, const struct unwind_stacktrace *trace,
			    u64 cookie, int ret, bool end)
{
	struct unwind_test_file *file = slot->file;
	struct unwind_test_event *event;

	spin_lock(&file->lock);

	if (file->head - file->tail >= UNWIND_TEST_EVENTS) {
		file->lost++;
		goto out;
	}

	event = &file->events[file->head++ % UNWIND_TEST_EVENTS];
	memset(event, 0, sizeof(*event));
	event->seq = atomic64_inc_return(&file->seq);
	event->cookie = cookie;
	event->slot = slot - file->slots;
	event->tid = task_pid_vnr(current);
	event->nr = trace->nr;
	event->end = end;
	event->ret = ret;
	event->lost = file->lost;
	file->lost = 0;

	for (unsigned int i = 0; i < min(trace->nr, UNWIND_TEST_ENTRIES); i++)
		event->entries[i] = trace->entries[i];
out:
	spin_unlock(&file->lock);
}

static void unwind_test_put(struct unwind_test_file *file)
{
	if (refcount_dec_and_test(&file->users))
		kvfree(file);
}

static void unwind_test_follow(struct callback_head *head)
{
	struct unwind_test_slot *slot = container_of(head, struct unwind_test_slot, follow);
	const struct unwind_stacktrace none = {};
	u64 cookie;
	int ret;

	ret = unwind_deferred_request(&slot->file->slots[slot->other].work, &cookie);
	unwind_test_log(slot, &none, cookie, ret, true);
	/* Pairs with unwind_test_queue_follow(). */
	smp_store_release(&slot->follows, false);
	unwind_test_put(slot->file);
}

/* The task work holds the file, because it may run after the file is closed. */
static void unwind_test_queue_follow(struct unwind_test_slot *slot)
{
	/* Another thread's callback may have queued it. Pairs with unwind_test_follow(). */
	if (xchg(&slot->follows, true))
		return;

	refcount_inc(&slot->file->users);
	init_task_work(&slot->follow, unwind_test_follow);
	if (task_work_add(current, &slot->follow, TWA_RESUME)) {
		/* As in unwind_test_follow(). */
		smp_store_release(&slot->follows, false);
		unwind_test_put(slot->file);
	}
}

static void unwind_test_callback(struct unwind_work *work, struct unwind_stacktrace *trace,
				 u64 cookie)
{
	struct unwind_test_slot *slot = container_of(work, struct unwind_test_slot, work);
	u32 mode = READ_ONCE(slot->mode);
	int ret = 0;
	u64 again;

	if (mode == UNWIND_TEST_MODE_REQUEST)
		ret = unwind_deferred_request(&slot->file->slots[slot->other].work, &again);

	unwind_test_log(slot, trace, cookie, ret, false);

	if (mode == UNWIND_TEST_MODE_FOLLOW)
		unwind_test_queue_follow(slot);
	if (mode == UNWIND_TEST_MODE_SLEEP) {
		ret = wait_for_completion_killable(&slot->go);
		unwind_test_log(slot, trace, cookie, ret, true);
	}
}

static int unwind_test_op_request(struct unwind_test_slot *slot, struct unwind_test_op *op)
{
	struct unwind_test_shot shot = { .slot = slot };

	unwind_test_request(&shot, op->where);
	op->cookie = shot.cookie;
	return shot.ret;
}

static int unwind_test_op_request_cpu(struct unwind_test_slot *slot, struct unwind_test_op *op)
{
	struct unwind_test_shot shot = { .slot = slot, .mm = current->mm };

	if (op->arg >= nr_cpu_ids || !cpu_online(op->arg))
		return -ENXIO;

	scoped_guard(preempt)
		unwind_test_send_nmi(&shot, op->arg);
	op->cookie = shot.cookie;
	return shot.ret;
}

static int unwind_test_op_faultable(struct unwind_test_op *op)
{
	struct unwind_stacktrace trace;
	int ret = unwind_user_faultable(&trace);

	op->arg = trace.nr;
	return ret;
}

static int unwind_test_arm(struct unwind_test_slot *slot, struct unwind_test_trap *trap, u32 where)
{
	if (READ_ONCE(trap->task))
		return -EBUSY;

	trap->file = slot->file;
	trap->slot = slot;
	trap->count = max(where, 1U);
	trap->where = where;
	trap->ret = -ENODATA;
	trap->cookie = 0;
	WRITE_ONCE(trap->task, current);
	return 0;
}

static int unwind_test_op_event(struct unwind_test_file *file, struct unwind_test_op *op)
{
	struct unwind_test_event *event __free(kfree) = kmalloc(sizeof(*event), GFP_KERNEL);

	if (!event)
		return -ENOMEM;

	scoped_guard(spinlock, &file->lock) {
		if (file->tail == file->head)
			return 0;
		*event = file->events[file->tail++ % UNWIND_TEST_EVENTS];
	}
	return copy_to_user(u64_to_user_ptr(op->arg), event, sizeof(*event)) ? -EFAULT : 1;
}

static int unwind_test_op_state(struct unwind_test_slot *slot, struct unwind_test_op *op)
{
	const struct unwind_task_info *info = &current->unwind_info;

	op->arg = atomic_long_read(&info->unwind_mask);
	op->cookie = info->id.id;
	return slot->work.bit;
}

static int unwind_test_op_room(void)
{
	const struct unwind_cache *cache = current->unwind_info.cache;

	return cache ? cache->max : 0;
}

static int unwind_test_op_objects(const struct unwind_test_op *op)
{
	if (!IS_ENABLED(CONFIG_UNWIND_USER_SFRAME))
		return -EOPNOTSUPP;
	if (op->code == UNWIND_TEST_OLDER)
		unwind_objects_older(op->arg * HZ);
	else
		unwind_objects_drop(op->arg * HZ);
	return 0;
}

static int unwind_test_op_mode(struct unwind_test_slot *slot, const struct unwind_test_op *op)
{
	if (op->where >= UNWIND_TEST_SLOTS)
		return -EINVAL;

	slot->other = op->where;
	reinit_completion(&slot->go);
	WRITE_ONCE(slot->mode, op->arg);
	return 0;
}

static int unwind_test_op_task_work(void)
{
	if (task_work_pending(current))
		task_work_run();
	return 0;
}

static int unwind_test_op(struct unwind_test_file *file, struct unwind_test_op *op)
{
	struct unwind_test_slot *slot = &file->slots[op->slot];

	switch (op->code) {
	case UNWIND_TEST_INIT:
		return unwind_deferred_init(&slot->work, unwind_test_callback);
	case UNWIND_TEST_CANCEL:
		unwind_deferred_cancel(&slot->work);
		return 0;
	case UNWIND_TEST_REQUEST:
		return unwind_test_op_request(slot, op);
	case UNWIND_TEST_REQUEST_CPU:
		return unwind_test_op_request_cpu(slot, op);
	case UNWIND_TEST_FAULTABLE:
		return unwind_test_op_faultable(op);
	case UNWIND_TEST_TASK_WORK:
		return unwind_test_op_task_work();
	case UNWIND_TEST_FAIL:
		if (op->arg >= UNWIND_TEST_NR_FAILS)
			return -EINVAL;
		return unwind_test_arm(slot, &unwind_test_fails[op->arg], op->where);
	case UNWIND_TEST_AT:
		if (op->arg >= UNWIND_TEST_NR_POINTS)
			return -EINVAL;
		/* Interrupts are off at these points: requests must not wait or sleep. */
		if (op->where != UNWIND_TEST_TASK && op->where != UNWIND_TEST_IRQS_OFF &&
		    op->where != UNWIND_TEST_NMI)
			return -EINVAL;
		return unwind_test_arm(slot, &unwind_test_points[op->arg], op->where);
	case UNWIND_TEST_AT_RESULT:
		if (op->arg >= UNWIND_TEST_NR_POINTS)
			return -EINVAL;
		op->cookie = unwind_test_points[op->arg].cookie;
		return unwind_test_points[op->arg].ret;
	case UNWIND_TEST_MODE:
		return unwind_test_op_mode(slot, op);
	case UNWIND_TEST_RELEASE:
		complete_all(&slot->go);
		return 0;
	case UNWIND_TEST_EVENT:
		return unwind_test_op_event(file, op);
	case UNWIND_TEST_STATE:
		return unwind_test_op_state(slot, op);
	case UNWIND_TEST_PROBE:
		return unwind_test_op_probe(file, op);
	case UNWIND_TEST_ROOM:
		return unwind_test_op_room();
	case UNWIND_TEST_OLDER:
	case UNWIND_TEST_DROP:
		return unwind_test_op_objects(op);
	default:
		return -ENOTTY;
	}
}

static int unwind_test_run(struct unwind_test_file *file, const struct unwind_test_ops *ops)
{
	struct unwind_test_op __user *uop = u64_to_user_ptr(ops->ops);

	if (ops->nr > UNWIND_TEST_MAX_OPS || ops->pad)
		return -EINVAL;

	for (u32 i = 0; i < ops->nr; i++, uop++) {
		struct unwind_test_op op;

		if (copy_from_user(&op, uop, sizeof(op)))
			return -EFAULT;
		if (op.slot >= UNWIND_TEST_SLOTS)
			return -EINVAL;

		op.ret = unwind_test_op(file, &op);
		op.seq = atomic64_inc_return(&file->seq);

		if (copy_to_user(uop, &op, sizeof(op)))
			return -EFAULT;
	}
	return 0;
}

static long unwind_test_ioctl(struct file *filep, unsigned int cmd, unsigned long arg)
{
	struct unwind_test_ops ops;

	if (cmd != UNWIND_TEST_RUN)
		return -ENOTTY;
	if (copy_from_user(&ops, (void __user *)arg, sizeof(ops)))
		return -EFAULT;

	return unwind_test_run(filep->private_data, &ops);
}

/* Always run in a worker, which is the purpose of this command. */
static int unwind_test_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	struct unwind_test_ops ops;

	if (issue_flags & IO_URING_F_NONBLOCK)
		return -EAGAIN;
	if (cmd->cmd_op != UNWIND_TEST_RUN)
		return -ENOTTY;

	memcpy(&ops, io_uring_sqe_cmd(cmd->sqe), sizeof(ops));
	return unwind_test_run(cmd->file->private_data, &ops);
}

static int unwind_test_open(struct inode *inode, struct file *filep)
{
	struct unwind_test_file *file = kvzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);

	if (!file)
		return -ENOMEM;

	refcount_set(&file->users, 1);
	spin_lock_init(&file->lock);
	for (unsigned int i = 0; i < UNWIND_TEST_SLOTS; i++) {
		file->slots[i].file = file;
		init_completion(&file->slots[i].go);
	}

	filep->private_data = file;
	return nonseekable_open(inode, filep);
}

static void unwind_test_disarm(struct unwind_test_file *file, struct unwind_test_trap *traps,
			       unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++) {
		if (traps[i].file == file)
			WRITE_ONCE(traps[i].task, NULL);
	}
}

static int unwind_test_release(struct inode *inode, struct file *filep)
{
	struct unwind_test_file *file = filep->private_data;

	unwind_test_disarm(file, unwind_test_fails, UNWIND_TEST_NR_FAILS);
	unwind_test_disarm(file, unwind_test_points, UNWIND_TEST_NR_POINTS);
	unwind_test_unprobe(file);
	/* A trap in another thread may still use a slot. Pairs with unwind_test_point(). */
	smp_mb();
	while (atomic_read(&unwind_test_firing))
		fsleep(1000);
	for (unsigned int i = 0; i < UNWIND_TEST_SLOTS; i++) {
		complete_all(&file->slots[i].go);
		unwind_deferred_cancel(&file->slots[i].work);
	}
	unwind_test_put(file);
	return 0;
}

static const struct file_operations unwind_test_fops = {
	.owner		= THIS_MODULE,
	.open		= unwind_test_open,
	.release	= unwind_test_release,
	.unlocked_ioctl	= unwind_test_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.uring_cmd	= unwind_test_uring_cmd,
};

static int __init unwind_test_init(void)
{
	struct dentry *dir = debugfs_lookup("unwind", NULL);
	int ret = unwind_test_nmi_init();

	if (ret)
		return ret;

	/* Never removed, so no proxy is needed, which does not support io_uring. */
	debugfs_create_file_unsafe("test", 0600, dir, NULL, &unwind_test_fops);
	dput(dir);
	return 0;
}
late_initcall_sync(unwind_test_init);
