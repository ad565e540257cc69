// SPDX-License-Identifier: GPL-2.0
/*
 * perf_test: a PMU whose events overflow in NMI, on machines that have none.
 *
 * A timer stands in for the counter. When an event's period is over, the timer
 * sends an NMI to the CPU that the event counts on, and the NMI handler takes the
 * sample, as the handler of a hardware PMU does. Two events:
 *
 *  remote	the timer runs on another CPU. So the NMI also hits what runs with
 *		interrupts disabled, and the entry code.
 *  self	the timer runs on the same CPU, and always hits the timer interrupt.
 *		For machines with one CPU, where samples have to repeat exactly.
 *
 * Periods are in nanoseconds, as those of cpu-clock.
 *
 * Contexts:
 *  - add, del, start, stop: on the event's CPU, interrupts off, and stop also from
 *    its NMI;
 *  - timer: hardirq of the shooting CPU;
 *  - NMI: on the event's CPU.
 *
 * Invariant: what an NMI reads is written by its own CPU, with the exception of
 * @due and @sent, which are handed over atomically. A slot's event outlives its bit
 * in @active, and a timer that still fires for a slot that was reused costs one
 * early sample of the new event at most. No lock: whoever starts a timer looks at all
 * slots first.
 */
#include <linux/bitops.h>
#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/init.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/smp.h>
#include <linux/sysfs.h>

#include <asm/apic.h>
#include <asm/nmi.h>

#include "test_branches.h"

enum test_pmu_mode {
	TEST_PMU_REMOTE,
	TEST_PMU_SELF,
	TEST_PMU_NR_MODES,
};

/* Events that count on one CPU at the same time; more are multiplexed. */
#define TEST_PMU_SLOTS		8
/* The shortest period, as that of cpu-clock. */
#define TEST_PMU_MIN_PERIOD	10000

/**
 * struct test_pmu_timer - shoots at one CPU
 * @timer:	runs while any event of its mode is active
 * @csd:	starts @timer on the shooting CPU
 * @cpu:	the target
 * @mode:	enum test_pmu_mode
 */
struct test_pmu_timer {
	struct hrtimer		timer;
	call_single_data_t	csd;
	int			cpu;
	enum test_pmu_mode	mode;
};

/**
 * struct test_pmu_cpu - the events that count on one CPU
 * @timers:	one for each mode
 * @events:	slots; an event's index is its hw.idx
 * @used:	slots that are taken
 * @active:	slots whose event is started
 * @due:	slots whose period is over, from timer to NMI
 * @sent:	NMIs that were sent and not received, likewise
 * @mode:	of each slot's event
 * @period:	of each slot's event, in ns
 * @next:	when each slot's period is over; the timer's once it is active
 * @last:	when the latest NMI was sent
 */
struct test_pmu_cpu {
	struct test_pmu_timer	timers[TEST_PMU_NR_MODES];
	struct perf_event	*events[TEST_PMU_SLOTS];
	unsigned long		used;
	unsigned long		active;
	atomic_long_t		due;
	atomic_t		sent;
	u8			mode[TEST_PMU_SLOTS];
	u64			period[TEST_PMU_SLOTS];
	u64			next[TEST_PMU_SLOTS];
	u64			last;
};

static DEFINE_PER_CPU(struct test_pmu_cpu, test_pmu_cpus);

/* Slots whose period is over, and when to look again; 0 when no event is active. */
static unsigned long test_pmu_expire(struct test_pmu_cpu *tc, enum test_pmu_mode mode,
				     u64 now, u64 *wake)
{
	unsigned long due = 0, active = READ_ONCE(tc->active);
	unsigned int i;

	*wake = 0;
	for_each_set_bit(i, &active, TEST_PMU_SLOTS) {
		u64 next = READ_ONCE(tc->next[i]), period = READ_ONCE(tc->period[i]);

		if (READ_ONCE(tc->mode[i]) != mode)
			continue;

		if (next <= now) {
			due |= BIT(i);
			/*
			 * Overflows that nobody could have seen are not made up
			 * for. The slot may be another event's meanwhile.
			 */
			period = max(next + period, now + period / 2);
			next = cmpxchg64(&tc->next[i], next, period) == next ?
				period : READ_ONCE(tc->next[i]);
		}
		if (!*wake || next < *wake)
			*wake = next;
	}
	return due;
}

static enum hrtimer_restart test_pmu_timer(struct hrtimer *timer)
{
	struct test_pmu_timer *tt = container_of(timer, struct test_pmu_timer, timer);
	struct test_pmu_cpu *tc = per_cpu_ptr(&test_pmu_cpus, tt->cpu);
	unsigned long due;
	u64 wake;

	due = test_pmu_expire(tc, tt->mode, ktime_get_ns(), &wake);
	if (due) {
		WRITE_ONCE(tc->last, ktime_get_mono_fast_ns());
		atomic_long_or(due, &tc->due);
		atomic_inc(&tc->sent);
		__apic_send_IPI_mask(cpumask_of(tt->cpu), NMI_VECTOR);
	}

	/* An event that is started now sends its csd, which runs after this. */
	if (wake)
		hrtimer_start(timer, ns_to_ktime(wake), HRTIMER_MODE_ABS_PINNED_HARD);
	return HRTIMER_NORESTART;
}

/* On the shooting CPU: wake up for the slot that is due first. */
static void test_pmu_kick(void *data)
{
	struct test_pmu_timer *tt = data;
	u64 wake;

	test_pmu_expire(per_cpu_ptr(&test_pmu_cpus, tt->cpu), tt->mode, 0, &wake);
	if (wake)
		hrtimer_start(&tt->timer, ns_to_ktime(wake), HRTIMER_MODE_ABS_PINNED_HARD);
}

static void test_pmu_sample(struct perf_event *event, struct pt_regs *regs)
{
	/* As it counts, which may not be as it was set. */
	u64 period = this_cpu_read(test_pmu_cpus.period[event->hw.idx]);
	struct perf_sample_data data;

	local64_add(period, &event->count);
	if (user_mode(regs) ? event->attr.exclude_user : event->attr.exclude_kernel)
		return;

	perf_sample_data_init(&data, 0, period);
	test_branches_sample(event, &data);
	if (perf_event_overflow(event, &data, regs))
		event->pmu->stop(event, 0);
}

static int test_pmu_nmi(unsigned int cmd, struct pt_regs *regs)
{
	struct test_pmu_cpu *tc = this_cpu_ptr(&test_pmu_cpus);
	int sent = atomic_xchg(&tc->sent, 0);
	unsigned long due;
	unsigned int i;

	/* Somebody else's NMI may have done the work of one that comes only now. */
	if (!sent)
		return ktime_get_mono_fast_ns() - READ_ONCE(tc->last) < NSEC_PER_SEC ?
			NMI_HANDLED : NMI_DONE;

	/* Set before @sent was. */
	due = atomic_long_xchg(&tc->due, 0) & tc->active;
	for_each_set_bit(i, &due, TEST_PMU_SLOTS)
		test_pmu_sample(tc->events[i], regs);

	/* With more than one, the NMI that may still be latched is expected. */
	return sent;
}

static void test_pmu_start(struct perf_event *event, int flags)
{
	struct test_pmu_cpu *tc = this_cpu_ptr(&test_pmu_cpus);
	int i = event->hw.idx, mode = event->attr.config;
	struct test_pmu_timer *tt = &tc->timers[mode];
	u64 period;
	int shooter;

	/* An ioctl may have set anything meanwhile. */
	period = clamp_t(u64, event->hw.sample_period, TEST_PMU_MIN_PERIOD, KTIME_MAX / 4);
	WRITE_ONCE(tc->mode[i], mode);
	WRITE_ONCE(tc->period[i], period);
	WRITE_ONCE(tc->next[i], ktime_get_ns() + period);
	event->hw.state = 0;
	/* Ordered after the slot by the csd, or seen by a timer that runs anyway. */
	smp_mb__before_atomic();
	set_bit(i, &tc->active);

	if (mode == TEST_PMU_SELF) {
		test_pmu_kick(tt);
		return;
	}

	shooter = cpumask_any_but(cpu_online_mask, smp_processor_id());
	/* Busy means that it is on its way, and will see this event, too. */
	if (shooter < nr_cpu_ids)
		smp_call_function_single_async(shooter, &tt->csd);
}

static void test_pmu_stop(struct perf_event *event, int flags)
{
	struct test_pmu_cpu *tc = this_cpu_ptr(&test_pmu_cpus);

	/* The timer notices. */
	clear_bit(event->hw.idx, &tc->active);
	event->hw.state |= PERF_HES_STOPPED | PERF_HES_UPTODATE;
}

static int test_pmu_add(struct perf_event *event, int flags)
{
	struct test_pmu_cpu *tc = this_cpu_ptr(&test_pmu_cpus);
	int i = ffz(tc->used);

	if (i >= TEST_PMU_SLOTS)
		return -EAGAIN;

	__set_bit(i, &tc->used);
	tc->events[i] = event;
	event->hw.idx = i;
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
	test_branches_add(event);
	if (flags & PERF_EF_START)
		test_pmu_start(event, flags);
	perf_event_update_userpage(event);
	return 0;
}

static void test_pmu_del(struct perf_event *event, int flags)
{
	struct test_pmu_cpu *tc = this_cpu_ptr(&test_pmu_cpus);

	test_pmu_stop(event, flags);
	test_branches_del(event);
	__clear_bit(event->hw.idx, &tc->used);
	perf_event_update_userpage(event);
}

static void test_pmu_read(struct perf_event *event)
{
	/* Counted when it overflows. */
}

static int test_pmu_event_init(struct perf_event *event)
{
	struct perf_event_attr *attr = &event->attr;
	struct hw_perf_event *hwc = &event->hw;

	if (attr->type != event->pmu->type)
		return -ENOENT;
	if (attr->config >= TEST_PMU_NR_MODES || attr->config1 || attr->config2 ||
	    attr->config3)
		return -EINVAL;
	/* There is nothing to count but overflows. */
	if (!is_sampling_event(event))
		return -EINVAL;
	if (attr->config == TEST_PMU_REMOTE && num_online_cpus() < 2)
		return -ENODEV;

	if (attr->freq) {
		if (!attr->sample_freq)
			return -EINVAL;
		attr->sample_period = NSEC_PER_SEC / attr->sample_freq;
		attr->freq = 0;
	}
	hwc->sample_period = max_t(u64, attr->sample_period, TEST_PMU_MIN_PERIOD);
	hwc->last_period = hwc->sample_period;
	return test_branches_event_init(event);
}

PMU_FORMAT_ATTR(mode, "config:0");
PMU_EVENT_ATTR_STRING(remote, test_pmu_remote, "mode=0x0");
PMU_EVENT_ATTR_STRING(self, test_pmu_self, "mode=0x1");

static struct attribute *test_pmu_format_attrs[] = {
	&format_attr_mode.attr,
	NULL
};

static struct attribute *test_pmu_event_attrs[] = {
	&test_pmu_remote.attr.attr,
	&test_pmu_self.attr.attr,
	NULL
};

static const struct attribute_group test_pmu_format_group = {
	.name	= "format",
	.attrs	= test_pmu_format_attrs,
};

static const struct attribute_group test_pmu_events_group = {
	.name	= "events",
	.attrs	= test_pmu_event_attrs,
};

static const struct attribute_group *test_pmu_groups[] = {
	&test_pmu_format_group,
	&test_pmu_events_group,
	NULL
};

static struct pmu test_pmu = {
	/* Has no counters to share with the CPU's own PMU. */
	.task_ctx_nr	= perf_sw_context,
	.attr_groups	= test_pmu_groups,
	.event_init	= test_pmu_event_init,
	.add		= test_pmu_add,
	.del		= test_pmu_del,
	.start		= test_pmu_start,
	.stop		= test_pmu_stop,
	.read		= test_pmu_read,
	.sched_task	= test_branches_sched_task,
};

static int __init test_pmu_init(void)
{
	int cpu, ret;

	for_each_possible_cpu(cpu) {
		struct test_pmu_cpu *tc = per_cpu_ptr(&test_pmu_cpus, cpu);

		for (int mode = 0; mode < TEST_PMU_NR_MODES; mode++) {
			struct test_pmu_timer *tt = &tc->timers[mode];

			tt->cpu = cpu;
			tt->mode = mode;
			INIT_CSD(&tt->csd, test_pmu_kick, tt);
			hrtimer_init(&tt->timer, CLOCK_MONOTONIC,
				     HRTIMER_MODE_ABS_PINNED_HARD);
			tt->timer.function = test_pmu_timer;
		}
	}

	ret = test_branches_init(&test_pmu);
	if (ret)
		return ret;
	ret = register_nmi_handler(NMI_LOCAL, test_pmu_nmi, 0, "perf_test");
	if (ret)
		goto exit_branches;

	ret = perf_pmu_register(&test_pmu, "perf_test", -1);
	if (ret)
		goto unregister_nmi;
	return 0;

unregister_nmi:
	unregister_nmi_handler(NMI_LOCAL, "perf_test");
exit_branches:
	test_branches_exit(&test_pmu);
	return ret;
}
device_initcall(test_pmu_init);
