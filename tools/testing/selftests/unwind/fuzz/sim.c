// SPDX-License-Identifier: GPL-2.0
/*
 * The simulated process and kernel: memory, page faults, mappings and locks.
 *
 * Each function stands for one of the kernel and checks that the walker may call it
 * at this point: an access window contains only reads within it, nothing sleeps in
 * atomic context, locks and windows come in pairs, and reads stay within checked
 * ranges. A mapping is a copy that is freed with the last lock that protects it:
 * the address sanitizer catches later uses.
 */
#include "fuzz.h"

struct process process;
struct pt_regs sim_regs;
struct vdso_image vdso_image_64;
static const struct vdso_image vdso_image_32;
static struct mm_struct sim_mm;
static struct arch_uprobe sim_uprobe;
static struct uprobe_task sim_utask;
static struct signal_struct sim_signal;
struct task_struct sim_task = { .mm = &sim_mm, .utask = &sim_utask, .signal = &sim_signal };
unsigned long unwind_stats[UNWIND_NR_STATS];

/*
 * Reads between two looks for pending signals: after 56 frames comes a look. Frame pointers
 * need two reads each, and the last word is read again if it looks like a fault. The rest is
 * for code, which is followed only before a single frame, and a signal frame. Tables need three
 * reads, and five to detect a restorer. The reads that they need after frame pointers are fewer
 * than those of two more frames.
 */
#define MAX_READS_FP		(2 * 56 + 1 + 16)
#define MAX_READS_UNSEEN	(8 * 58)

/* The state of the kernel during a walk. @told: the walker knows that the task is dying. */
static struct {
	struct counts	counts;
	unsigned int	locks[SIM_LOCKS];
	unsigned int	unseen;
	int		pagefaults_off;
	bool		killed;
	bool		told;
	bool		window;
	bool		masked;
	unsigned long	low;
	unsigned long	high;
	u32		resident[AREAS];
	struct trap	traps[MAX_TRAPS];
	void		*vmas[16];
	unsigned int	nr_vmas;
} sim;

struct area *sim_area(unsigned long addr)
{
	for (int i = 0; i < AREAS; i++) {
		struct area *area = &process.areas[i];

		if (addr - area->base < area->pages * PAGE_SIZE)
			return area;
	}
	return NULL;
}

void sim_write(unsigned long addr, const void *src, size_t size)
{
	struct area *area = sim_area(addr);
	unsigned long off;

	if (!area)
		return;
	off = addr - area->base;
	size = min(size, area->pages * PAGE_SIZE - off);
	memcpy(area->mem + off, src, size);
	area->low = min(area->low, off);
	area->high = max(area->high, off + size);
}

struct counts *sim_counts(void)
{
	return &sim.counts;
}

/* Only reads may be called in an access window. */
void sim_no_window(const char *who)
{
	sim_rule(!sim.window, "%s in an access window", who);
}

static bool is_atomic(void)
{
	return sim.pagefaults_off || sim.locks[SIM_RCU] || sim.locks[SIM_IRQ];
}

bool sim_holds(enum sim_lock lock)
{
	return sim.locks[lock];
}

/* May the walker wait for I/O here? */
bool sim_may_wait(void)
{
	return !is_atomic() && !sim.told && !sim.locks[SIM_MMAP] && !sim.locks[SIM_VMA];
}

bool sim_in_rcu(void)
{
	return sim.locks[SIM_RCU];
}

/* Make a page resident, if that is allowed. */
static bool fault_in(struct area *area, unsigned int page)
{
	unsigned int i = area - process.areas;

	if (!(area->out & BIT(page)) || sim.resident[i] & BIT(page))
		return true;
	if (sim.pagefaults_off)
		return false;
	sim_rule(!sim.told, "a dying task waits for a page");
	sim.resident[i] |= BIT(page);
	return true;
}

/* The number of readable bytes from @addr on. They must be resident, except for @peek. */
static size_t readable(unsigned long addr, size_t size, bool peek)
{
	struct area *area = sim_area(addr);
	unsigned long off, end;

	if (!area || !(area->flags & AREA_READ))
		return 0;
	off = addr - area->base;
	if (!peek && !fault_in(area, off / PAGE_SIZE))
		return 0;
	end = min(addr + size, area->base + (off / PAGE_SIZE + 1) * PAGE_SIZE);
	for (int i = 0; i < process.nr_traps; i++) {
		const struct trap *trap = &sim.traps[i];

		if (!trap->change && trap->size && addr < trap->addr + trap->size &&
		    trap->addr < end)
			end = max(addr, trap->addr);
	}
	return end - addr;
}

/* Change words right after they were read. */
static void change_words(unsigned long addr, size_t size)
{
	for (int i = 0; i < process.nr_traps; i++) {
		struct trap *trap = &sim.traps[i];

		if (!trap->change || addr >= trap->addr + trap->size || trap->addr >= addr + size)
			continue;
		if (!trap->reads--) {
			trap->change = false;
			trap->size = 0;
			sim_write(trap->addr, &trap->val, process.traps[i].size);
			sim.counts.changes++;
		}
	}
}

/* Copy the bytes at @addr; returns how many of them are readable. */
static size_t copy(void *dst, unsigned long addr, size_t size, bool peek)
{
	size_t done = 0, part;

	for (; done < size; done += part) {
		part = readable(addr + done, size - done, peek);
		if (!part)
			break;
		memcpy(dst + done, sim_area(addr + done)->mem +
		       (addr + done - sim_area(addr + done)->base), part);
	}
	return done;
}

/* Read like a walk that may wait for pages; false if the memory cannot be read. */
bool sim_peek(void *dst, unsigned long addr, size_t size)
{
	return access_ok(addr, size) && copy(dst, addr, size, true) == size;
}

size_t sim_read(void *dst, unsigned long addr, size_t size, enum sim_read how)
{
	size_t done = 0;

	if (how == SIM_WINDOW) {
		sim_rule(sim.window, "an unsafe read outside of an access window");
		sim_rule(sim.masked || (addr >= sim.low && addr + size <= sim.high),
			 "an unsafe read of %#lx, which was not checked", addr);
	} else {
		sim_no_window("a user access");
	}
	/* If one mask serves many reads, all but the first may be beyond it. */
	sim_rule(addr < TASK_SIZE_MAX + (sim.window && sim.masked ? ARCH_USER_GAP : PAGE_SIZE),
		 "a read of %#lx", addr);
	sim_rule(sim.pagefaults_off || (!sim.locks[SIM_MMAP] && !sim.locks[SIM_VMA]),
		 "a read that may fault, with mappings locked");
	sim_rule(!sim.locks[SIM_RCU], "a user access in an RCU section");
	sim_rule(sim.pagefaults_off || !is_atomic(), "a read that may fault in atomic context");
	sim_rule(sim.told ||
		 sim.unseen++ < (process.nr_funcs ? MAX_READS_UNSEEN : MAX_READS_FP),
		 "%u reads without a look at signals", sim.unseen);

	sim.counts.bytes += size;
	if (++sim.counts.reads == process.kill_read)
		sim.killed = true;
	if (sim.counts.reads != process.fail_read) {
		done = copy(dst, addr, size, false);
		change_words(addr, size);
	}
	sim_event();
	memset(dst + done, 0, size - done);
	return size - done;
}

void sim_window_open(unsigned long addr, size_t size, bool masked)
{
	sim_no_window("an access window");
	sim_rule(!masked || !process.nomask, "a mask that does not exist");
	sim.window = true;
	sim.masked = masked;
	sim.low = addr;
	sim.high = addr + size;
}

void sim_window_close(void)
{
	sim_rule(sim.window, "a window is closed that is not open");
	sim.window = false;
}

bool sim_can_mask(void)
{
	return !process.nomask;
}

unsigned long sim_mask(unsigned long addr)
{
	return min(addr, TASK_SIZE_MAX);
}

void sim_pagefault(int change)
{
	sim_no_window("pagefault_disable");
	sim.pagefaults_off += change;
	sim_rule(sim.pagefaults_off >= process.nofault, "page faults are enabled twice");
}

bool pagefault_disabled(void)
{
	return sim.pagefaults_off;
}

bool sim_fatal_signal(void)
{
	sim_no_window("a look at signals");
	sim.told |= sim.killed;
	sim.unseen = 0;
	return sim.killed;
}

void sim_resched(void)
{
	sim_no_window("cond_resched");
	sim_rule(!is_atomic(), "cond_resched in atomic context");
	sim_rule(!sim.locks[SIM_MMAP] && !sim.locks[SIM_VMA], "cond_resched with a lock held");
}

unsigned long get_segment_base(unsigned int segment)
{
	unsigned int index = segment >> 3;

	sim_rule(sim.locks[SIM_IRQ], "the LDT is read with interrupts on");
	if (segment & SEGMENT_TI_MASK)
		return process.segments[3 + index % 5];
	sim_rule(index >= GDT_ENTRY_TLS_MIN && index <= GDT_ENTRY_TLS_MAX,
		 "the base of segment %#x is the kernel's", segment);
	return process.segments[index - GDT_ENTRY_TLS_MIN];
}

unsigned long uprobe_get_trampoline_vaddr(void)
{
	return process.trampoline;
}

bool sim_lock(enum sim_lock lock, bool may_wait)
{
	sim_no_window("a lock");
	sim_rule(!may_wait || !is_atomic(), "a lock is waited for in atomic context");
	if (lock == SIM_MMAP) {
		sim_rule(!sim.locks[lock], "the lock of the mappings is taken twice");
		if (process.mmap_busy)
			return false;
	}
	sim.locks[lock]++;
	sim_event();
	return true;
}

void sim_unlock(enum sim_lock lock)
{
	sim_no_window("an unlock");
	sim_rule(sim.locks[lock], "lock %d is released and was not taken", lock);
	sim.locks[lock]--;
	sim_event();
	if (sim.locks[SIM_RCU] || sim.locks[SIM_MMAP] || sim.locks[SIM_VMA])
		return;
	while (sim.nr_vmas)
		free(sim.vmas[--sim.nr_vmas]);
}

/*
 * The mapping that @addr is in, valid as long as the lock is held. RCU alone may
 * show a mapping that is about to change, with other flags.
 */
struct vm_area_struct *sim_vma(unsigned long addr)
{
	const struct area *area = sim_area(addr);
	struct vm_area_struct *vma;

	sim_no_window("a look-up of a mapping");
	sim_rule(sim.locks[SIM_RCU] || sim.locks[SIM_MMAP] || sim.locks[SIM_VMA],
		 "a look-up without a lock");
	sim.counts.lookups++;
	if (!area || !(area->flags & AREA_VMA))
		return NULL;

	sim_rule(sim.nr_vmas < ARRAY_SIZE(sim.vmas), "too many mappings under one lock");
	vma = malloc(sizeof(*vma));
	*vma = (struct vm_area_struct) {
		.vm_start = area->base,
		.vm_end = area->base + area->pages * PAGE_SIZE,
		.vm_flags = VM_READ | (area->flags & AREA_EXEC ? VM_EXEC : VM_WRITE),
		.vm_pgoff = process.mapped[area - process.areas].pgoff,
		.vm_mm = &sim_mm,
		.vm_file = sim_file(area - process.areas),
	};
	if (process.raced && !sim.locks[SIM_MMAP])
		vma->vm_flags ^= VM_EXEC;
	sim.vmas[sim.nr_vmas++] = vma;
	return vma;
}

/* Like sim_vma(), with the range of the mapping, or of the gap that the address is in. */
struct vm_area_struct *sim_vma_range(unsigned long addr, unsigned long *first,
				     unsigned long *last)
{
	struct vm_area_struct *vma = sim_vma(addr);

	*first = 0;
	*last = ULONG_MAX;
	for (int i = 0; i < AREAS; i++) {
		const struct area *area = &process.areas[i];
		unsigned long end = area->base + area->pages * PAGE_SIZE;

		if (!(area->flags & AREA_VMA))
			continue;
		if (area->base > addr) {
			*last = min(*last, area->base - 1);
		} else if (end <= addr) {
			*first = max(*first, end);
		} else {
			*first = area->base;
			*last = end - 1;
			break;
		}
	}
	return vma;
}

/* Like sim_vma(), with the mapping's own lock, which cannot be taken during a change. */
struct vm_area_struct *sim_lock_vma(unsigned long addr)
{
	struct vm_area_struct *vma;

	if (process.raced || process.vma_busy || process.seq & 1)
		return NULL;
	sim_lock(SIM_VMA, false);
	vma = sim_vma(addr);
	if (!vma)
		sim_unlock(SIM_VMA);
	return vma;
}

/* Has a change of mappings begun since their state was read? */
bool sim_raced(void)
{
	return process.raced;
}

static void map_vdso(void)
{
	sim_mm.context.vdso = NULL;
	sim_mm.context.vdso_image = NULL;
	for (int i = 0; i < AREAS; i++) {
		enum table_kind kind = process.mapped[i].kind;

		if (kind != TABLE_VDSO && kind != TABLE_VDSO_32)
			continue;
		vdso_image_64.size = process.areas[i].pages * PAGE_SIZE;
		sim_mm.context.vdso = (void *)process.areas[i].base;
		sim_mm.context.vdso_image = kind == TABLE_VDSO ? &vdso_image_64 : &vdso_image_32;
	}
}

/* Reset before a process is made, when no walk runs. */
void sim_reset(void)
{
	memset(&sim, 0, sizeof(sim));
}

/* Before a walk: set the state of the kernel. */
void sim_begin(void)
{
	sim_reset();
	memcpy(sim.traps, process.traps, sizeof(sim.traps));
	sim.pagefaults_off = process.nofault;
	sim.told = process.exiting;
	sim_task.flags = process.exiting ? PF_EXITING : 0;

	sim_uprobe.insn[0] = process.insn;
	sim_utask.auprobe = process.insn && !process.unhandled ? &sim_uprobe : NULL;
	sim_utask.return_instances = process.nr_probes ? process.probes : NULL;
	for (int i = 0; i < process.nr_probes; i++)
		process.probes[i].next = i + 1 < process.nr_probes ? &process.probes[i + 1] : NULL;

	sim_mm.mm_lock_seq.sequence = process.seq;
	/* The kernel sets it under the lock of the mappings, so the sequence count changes, too. */
	sim_mm.flags = process.insn || process.nr_probes ? BIT(MMF_HAS_UPROBES) : 0;
	map_vdso();
	sim_objects_begin();
}

/* After a walk: check that the state is as it was. */
void sim_end(struct counts *counts)
{
	static const struct unwind_text_code none;

	sim_no_window("the end of a walk");
	for (int i = 0; i < SIM_LOCKS; i++)
		sim_rule(!sim.locks[i], "lock %d is held after a walk", i);
	sim_rule(sim.pagefaults_off == process.nofault, "page faults stay disabled");
	sim_rule(!memcmp(&unwind_text_none, &none, sizeof(none)),
		 "what is constant was written to");
	sim_objects_end();
	if (counts)
		*counts = sim.counts;
}
