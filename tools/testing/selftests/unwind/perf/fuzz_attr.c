// SPDX-License-Identifier: GPL-2.0
/*
 * Random perf events, mostly with deferred callchains, on tasks that make system
 * calls, fault, fork, exec, exit and take signals; opened, grouped, redirected,
 * mapped, paused, changed and closed in random order. The kernel must survive, its
 * records must be well-formed, see fuzz_records.c, and it must refuse attrs with
 * unknown bits.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz_records.h"
#include "fuzz_task.h"
#include "perf_ring.h"
#include "random.h"
#include "workload.h"
#include "../../kselftest.h"

#define SLOTS		24
#define VICTIMS		2
/* Emulated machines are slow: shorter timer periods leave the tasks no time. */
#define MIN_TIMER_NS	300000
#define MAX_FREQ	2000
#define KNOWN_FLAGS	40
/* defer_user_state; the flags between KNOWN_FLAGS and this one are unknown. */
#define USER_STATE	0x8000000000000000ULL
#define MIN_STEPS	20000

static struct slot slots[SLOTS];
static pid_t victims[VICTIMS];
static int perf_test_type = -1;
static __u64 tracepoints[8];
static unsigned int nr_tracepoints;

static struct {
	unsigned int	opened, refused[200], ioctls, maps, victims;
} count;

static void renew_victim(unsigned int i)
{
	if (victims[i]) {
		kill(-victims[i], SIGKILL);
		kill(victims[i], SIGKILL);
		waitpid(victims[i], NULL, 0);
	}
	victims[i] = fork();
	/* Not all processes, when it is ended. */
	if (victims[i] < 0)
		victims[i] = 0;
	else if (!victims[i]) {
		/* Only the parent keeps the events. */
		for (int slot = 0; slot < SLOTS; slot++) {
			if (slots[slot].fd >= 0)
				close(slots[slot].fd);
		}
		fuzz_reseed(1000 + count.victims);
		fuzz_task();
	}
	count.victims++;
}

/* Events. */

static void random_type(struct perf_event_attr *attr)
{
	static const __u64 software[] = {
		PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK, PERF_COUNT_SW_PAGE_FAULTS,
		PERF_COUNT_SW_CONTEXT_SWITCHES, PERF_COUNT_SW_CPU_MIGRATIONS,
		PERF_COUNT_SW_DUMMY, PERF_COUNT_SW_DUMMY, PERF_COUNT_SW_BPF_OUTPUT,
	};

	attr->type = PERF_TYPE_SOFTWARE;
	attr->config = software[rnd_below(8)];
	switch (rnd_below(8)) {
	case 0 ... 3:
		if (!nr_tracepoints)
			return;
		attr->type = PERF_TYPE_TRACEPOINT;
		attr->config = tracepoints[rnd_below(nr_tracepoints)];
		return;
	case 4:
		if (perf_test_type < 0)
			return;
		attr->type = perf_test_type;
		attr->config = rnd_below(2);
		return;
	case 5:
		if (one_in(8)) {
			attr->type = rnd_below(16);
			attr->config = rnd_wide();
		}
	}
}

static bool is_timer(const struct perf_event_attr *attr)
{
	if (attr->type == PERF_TYPE_SOFTWARE)
		return attr->config == PERF_COUNT_SW_CPU_CLOCK ||
		       attr->config == PERF_COUNT_SW_TASK_CLOCK;
	return attr->type != PERF_TYPE_TRACEPOINT;
}

static __u64 random_period(const struct perf_event_attr *attr)
{
	if (is_timer(attr))
		return MIN_TIMER_NS + (rnd_wide() >> 8);
	return one_in(2) ? 1 : 1 + rnd_below(1000);
}

/* Set the flags under test often, the others now and then. */
static __u64 random_flags(void)
{
	__u64 flags = 1ULL << 38 | 1ULL << 39;

	if (one_in(4))
		flags ^= 1ULL << 38;
	if (one_in(4))
		flags ^= 1ULL << 39;
	if (one_in(2))
		flags |= USER_STATE;
	for (unsigned int i = rnd_below(6); i; i--)
		flags |= 1ULL << rnd_below(KNOWN_FLAGS);
	if (one_in(2))
		/* sample_id_all */
		flags |= 1ULL << 18;
	return flags;
}

static struct perf_event_attr random_attr(bool can_trap, bool *unknown)
{
	struct perf_event_attr attr = { .size = sizeof(attr) };
	__u64 flags = random_flags();

	*unknown = one_in(30);
	if (*unknown)
		flags |= 1ULL << (KNOWN_FLAGS + rnd_below(63 - KNOWN_FLAGS));
	memcpy((char *)&attr + FLAGS_OFFSET, &flags, sizeof(flags));

	random_type(&attr);
	attr.sample_type = PERF_SAMPLE_CALLCHAIN;
	for (unsigned int i = rnd_below(8); i; i--)
		attr.sample_type |= 1ULL << rnd_below(17);
	if (attr.defer_user_state && !one_in(8))
		attr.sample_type |= one_in(2) ? PERF_SAMPLE_REGS_USER : PERF_SAMPLE_STACK_USER;
	if (one_in(20))
		attr.sample_type |= 1ULL << rnd_below(64);
	if (one_in(8))
		attr.sample_type &= ~PERF_SAMPLE_CALLCHAIN;
	/* Do not copy the whole stack in each record. */
	if (attr.sample_type & PERF_SAMPLE_STACK_USER)
		attr.sample_stack_user = 8 * rnd_below(64);
	if (attr.sample_type & PERF_SAMPLE_REGS_USER)
		attr.sample_regs_user = rnd() & 0xff0fff;
	if (attr.sample_type & PERF_SAMPLE_REGS_INTR)
		attr.sample_regs_intr = rnd() & 0xff0fff;
	if (one_in(3))
		attr.read_format = rnd_below(32);
	if (one_in(3))
		attr.sample_max_stack = one_in(4) ? rnd() : rnd_below(128);
	if (one_in(4))
		attr.wakeup_events = rnd_wide();
	if (one_in(8))
		attr.clockid = rnd_below(12);
	attr.sample_period = random_period(&attr);
	if (attr.freq)
		attr.sample_freq = 1 + rnd_below(MAX_FREQ);
	if (!can_trap)
		attr.sigtrap = 0;
	if (attr.sigtrap && one_in(4))
		attr.sig_data = rnd();
	else if (attr.sigtrap)
		attr.remove_on_exec = 1;
	/* Sizes that the kernel knows, and others. */
	if (one_in(30))
		attr.size = rnd_below(2) ? PERF_ATTR_SIZE_VER0 + 8 * rnd_below(9) : rnd_wide();
	return attr;
}

static struct slot *random_slot(void)
{
	return &slots[rnd_below(SLOTS)];
}

static void unmap(struct slot *slot)
{
	if (slot->map)
		munmap(slot->map, PAGE + slot->size);
	slot->map = NULL;
}

static void close_slot(struct slot *slot)
{
	if (slot->fd >= 0)
		close(slot->fd);
	slot->fd = -1;
}

static void open_slot(struct slot *slot)
{
	int pid = 0, cpu = -1, group = -1, fd;
	struct slot *leader = random_slot();
	unsigned long flags = 0;
	bool unknown, trap;
	__u32 size;

	close_slot(slot);
	unmap(slot);
	switch (rnd_below(8)) {
	case 0 ... 3:
		pid = victims[rnd_below(VICTIMS)];
		break;
	case 4 ... 5:
		pid = -1;
		break;
	}
	if (pid < 0 || one_in(3))
		cpu = rnd_below(2);
	if (one_in(50))
		cpu = (int)rnd_wide();
	if (one_in(4))
		group = leader->fd;
	if (one_in(4))
		flags = 1UL << rnd_below(4);
	if (one_in(50))
		flags = rnd_wide();
	flags &= ~(unsigned long)PERF_FLAG_PID_CGROUP;
	trap = pid > 0;

	slot->attr = random_attr(trap, &unknown);
	/* The kernel overwrites the size if it does not accept it. */
	size = slot->attr.size;
	fd = perf_open(&slot->attr, pid, cpu, group, flags);
	if (fd < 0) {
		count.refused[-fd < 200 ? -fd : 199]++;
		if (unknown && size >= PERF_ATTR_SIZE_VER0 && size <= sizeof(slot->attr) &&
		    !(flags & ~0xfUL) && fd != -EINVAL) {
			ksft_print_msg("unknown flags are refused with %d\n", fd);
			seen.bad++;
		}
		return;
	}
	count.opened++;
	/* Clear the part that the kernel did not read. */
	size = size ?: PERF_ATTR_SIZE_VER0;
	if (size < sizeof(slot->attr))
		memset((char *)&slot->attr + size, 0, sizeof(slot->attr) - size);
	slot->fd = fd;
	slot->readable = false;
	slot->one_task = pid >= 0 && !slot->attr.inherit;
	slot->mixed = (flags & PERF_FLAG_FD_OUTPUT) && group >= 0;
	leader->mixed |= slot->mixed;
	if (unknown) {
		complain(slot, "unknown flags are accepted");
		close_slot(slot);
	}
}

static void map_slot(struct slot *slot)
{
	size_t pages = one_in(20) ? rnd_below(20) : 1UL << rnd_below(6);
	int prot = PROT_READ | (one_in(6) ? 0 : PROT_WRITE);
	void *map;

	if (slot->fd < 0 || slot->map)
		return;
	map = mmap(NULL, (pages + 1) * PAGE, prot, MAP_SHARED, slot->fd,
		   one_in(30) ? PAGE : 0);
	if (map == MAP_FAILED)
		return;
	count.maps++;
	slot->map = map;
	slot->size = pages * PAGE;
	/* The buffer is new and has no records yet. */
	slot->chains.nr = 0;
	slot->states.nr = 0;
	slot->readable = (prot & PROT_WRITE) && pages && !slot->attr.write_backward;
}

static void change_slot(struct slot *slot)
{
	struct slot *other = random_slot();
	struct perf_event_attr attr;
	bool unknown;
	__u64 arg;

	if (slot->fd < 0)
		return;
	count.ioctls++;
	switch (rnd_below(9)) {
	case 0:
		ioctl(slot->fd, PERF_EVENT_IOC_DISABLE, rnd_below(2));
		break;
	case 1:
		ioctl(slot->fd, PERF_EVENT_IOC_REFRESH, rnd_below(5));
		break;
	case 2:
		ioctl(slot->fd, PERF_EVENT_IOC_RESET, rnd_below(2));
		break;
	case 3:
		arg = one_in(10) && !is_timer(&slot->attr) ? rnd_wide() :
							     random_period(&slot->attr);
		if (slot->attr.freq)
			arg = 1 + rnd_below(MAX_FREQ);
		ioctl(slot->fd, PERF_EVENT_IOC_PERIOD, &arg);
		break;
	case 4:
		if (!ioctl(slot->fd, PERF_EVENT_IOC_SET_OUTPUT, one_in(4) ? -1 : other->fd))
			slot->mixed = true;
		other->mixed |= slot->mixed;
		break;
	case 5:
		ioctl(slot->fd, PERF_EVENT_IOC_PAUSE_OUTPUT, rnd_below(2));
		break;
	case 6:
		attr = random_attr(false, &unknown);
		ioctl(slot->fd, PERF_EVENT_IOC_MODIFY_ATTRIBUTES, &attr);
		break;
	default:
		ioctl(slot->fd, PERF_EVENT_IOC_ENABLE, rnd_below(2));
	}
}

static void step(void)
{
	struct slot *slot = random_slot();
	char buf[1024];

	switch (rnd_below(32)) {
	case 0 ... 6:
		open_slot(slot);
		map_slot(slot);
		break;
	case 7:
		map_slot(slot);
		break;
	case 8:
		unmap(slot);
		break;
	case 9 ... 10:
		close_slot(slot);
		break;
	case 11:
		if (one_in(8))
			renew_victim(rnd_below(VICTIMS));
		break;
	case 12:
		workload_syscall(rnd_below(150), SYS_getppid);
		break;
	case 13:
		if (slot->fd >= 0 && read(slot->fd, buf, sizeof(buf)) < 0)
			break;
		break;
	case 14 ... 22:
		change_slot(slot);
		break;
	default:
		read_slot(slot);
	}
}

/* Does an event still work after all that? */
static bool still_works(void)
{
	struct perf_event_attr attr = tracepoint_attr("syscalls/sys_enter_getppid");
	static union record record;
	struct ring ring;
	bool good;

	if (attr.type == ~0U)
		return true;
	if (ring_open(&ring, &attr, 0, -1, 8))
		return false;
	ring_enable(&ring);
	workload_syscall(10, SYS_getppid);
	good = ring_next_type(&ring, &record, PERF_RECORD_CALLCHAIN_DEFERRED) &&
	       workload_check(as_deferred(&record)->ips, as_deferred(&record)->nr, 10) < 0;
	ring_close(&ring);
	return good;
}

static void find_events(void)
{
	static const char * const names[] = {
		"raw_syscalls/sys_enter", "raw_syscalls/sys_exit",
		"syscalls/sys_enter_getppid", "syscalls/sys_exit_getppid",
		"sched/sched_switch", "sched/sched_process_exit", "signal/signal_deliver",
		"exceptions/page_fault_user",
	};

	perf_test_type = pmu_type("perf_test");
	for (unsigned int i = 0; i < 8; i++) {
		int id = tracepoint_id(names[i]);

		if (id < 0)
			continue;
		tracepoints[nr_tracepoints++] = id;
		keep_tracepoint(names[i]);
	}
}

static void summary(unsigned int steps)
{
	ksft_print_msg("%u steps, %u tasks, %u events opened, %u ioctls, %u buffers\n",
		       steps, count.victims, count.opened, count.ioctls, count.maps);
	for (int i = 0; i < 200; i++) {
		if (count.refused[i])
			ksft_print_msg("%u attrs refused: %s\n", count.refused[i], strerror(i));
	}
	ksft_print_msg("%u records: %u samples, %u markers, %u deferred callchains, %u lost\n",
		       seen.records, seen.samples, seen.markers, seen.deferred, seen.lost);
	ksft_print_msg("%u user states\n", seen.states);
}

/* A run in which all attrs were refused has tested nothing. */
static bool has_tried(void)
{
	return seen.deferred && seen.markers && seen.states;
}

int main(void)
{
	unsigned int steps = 0;
	int old_max;

	ksft_print_header();
	if (geteuid())
		ksft_exit_skip("needs root\n");
	ksft_set_plan(1);
	fuzz_start();
	old_max = set_sysctl("kernel/perf_event_max_stack", MAX_STACK);
	if (old_max < 0)
		ksft_exit_skip("others use kernel.perf_event_max_stack\n");
	find_events();
	signal(SIGIO, SIG_IGN);
	signal(SIGTRAP, SIG_IGN);
	for (int i = 0; i < SLOTS; i++)
		slots[i].fd = -1;
	for (unsigned int i = 0; i < VICTIMS; i++)
		renew_victim(i);

	/* On a slow emulator, continue after the time is up until enough has been tried. */
	while (seen.bad < 20 && (!fuzz_over() || (!has_tried() && steps < MIN_STEPS))) {
		fuzz_reseed(steps++);
		step();
	}

	for (int i = 0; i < SLOTS; i++) {
		close_slot(&slots[i]);
		unmap(&slots[i]);
	}
	for (unsigned int i = 0; i < VICTIMS; i++) {
		kill(-victims[i], SIGKILL);
		kill(victims[i], SIGKILL);
		waitpid(victims[i], NULL, 0);
	}
	set_sysctl("kernel/perf_event_max_stack", old_max);
	summary(steps);
	ksft_test_result(!seen.bad && still_works() && has_tried(),
			 "events survive random use\n");
	ksft_finished();
}
