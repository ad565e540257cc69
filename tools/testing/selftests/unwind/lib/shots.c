// SPDX-License-Identifier: GPL-2.0
/*
 * Samples with user registers, and whether these are correct.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <string.h>
#include <sys/user.h>

#include "shots.h"

#define PERIOD_NS	200000
#define REMOTE		0
#define SECONDS		2
#define AT_MOST		100
/* At least the size of a kernel stack, and less than the distance to other stacks. */
#define KERNEL_STACK	0x10000
#define ENOUGH		1000

const size_t shots_slots[SLOTS] = {
	offsetof(struct user_regs_struct, rip),
	offsetof(struct user_regs_struct, rsp),
	offsetof(struct user_regs_struct, rdx),
};

/* Where the kernel's entry code is. */
static unsigned long entry_begin, entry_end;

/*
 * Before the tests are forked: this takes minutes if interrupts come between any two
 * instructions.
 */
static void __attribute__((constructor)) find_entry_text(void)
{
	entry_begin = kernel_symbol("__entry_text_start");
	entry_end = kernel_symbol("__entry_text_end");
}

static const __u64 *take_regs(const __u64 *at, __u64 mask, __u64 *abi, __u64 *regs)
{
	*abi = *at++;
	memset(regs, 0, 64 * sizeof(*regs));
	for (int i = 0; *abi && i < 64; i++) {
		if (mask & 1ULL << i)
			regs[i] = *at++;
	}
	return at;
}

void parse_user_part(const union record *record, const struct perf_event_attr *attr,
		     struct user_part *part)
{
	struct sample sample;
	const __u64 *at;

	memset(part, 0, sizeof(*part));
	parse_sample(record, &sample);
	at = sample.ips + sample.nr;
	if (attr->sample_type & PERF_SAMPLE_REGS_USER)
		at = take_regs(at, attr->sample_regs_user, &part->abi, part->regs);
	if (attr->sample_type & PERF_SAMPLE_STACK_USER) {
		part->size = *at++;
		if (part->size) {
			part->stack = (const char *)at;
			at += part->size / 8;
			part->dyn_size = *at++;
		}
	}
	if (attr->sample_type & PERF_SAMPLE_REGS_INTR)
		at = take_regs(at, attr->sample_regs_intr, &part->intr_abi, part->intr);
	part->rest = (const char *)record + record->header.size - (const char *)at;
}

static void shots_init_attr(struct shots *shots)
{
	shots->attr = (struct perf_event_attr) {
		.type			= pmu_type("perf_test"),
		.size			= sizeof(shots->attr),
		.config			= REMOTE,
		.sample_period		= PERIOD_NS,
		.sample_type		= RING_SAMPLE_TYPE | PERF_SAMPLE_REGS_USER |
					  PERF_SAMPLE_REGS_INTR,
		.sample_regs_user	= ALL_REGS,
		.sample_regs_intr	= ALL_REGS,
		.exclude_callchain_user	= 1,
		.disabled		= 1,
	};
}

void shots_init(struct shots *shots)
{
	*shots = (struct shots) {
		.kept		= {
			/* Begin with one that the base never has as -1, but may have stale. */
			PERF_REG_X86_BP, PERF_REG_X86_BX, PERF_REG_X86_R12,
			PERF_REG_X86_R13, PERF_REG_X86_R14, PERF_REG_X86_R15,
		},
		.nr_kept	= 6,
		.number		= 0x5a0000000000,
		.number_shift	= 40,
		.abi		= PERF_SAMPLE_REGS_ABI_64,
	};
	shots_init_attr(shots);
}

void shots_init_32(struct shots *shots)
{
	*shots = (struct shots) {
		.kept		= { PERF_REG_X86_BX, PERF_REG_X86_SI, PERF_REG_X86_DI },
		.nr_kept	= 3,
		.number		= 0x5a5a0000,
		.number_shift	= 16,
		.abi		= PERF_SAMPLE_REGS_ABI_32,
	};
	shots_init_attr(shots);
}

void shots_here(struct shots *shots, __u64 begin, __u64 size)
{
	for (unsigned int i = 0; i < MAX_HERE; i++) {
		if (!shots->here[i].end) {
			shots->here[i].begin = begin;
			shots->here[i].end = begin + size;
			return;
		}
	}
}

int shots_open(struct shots *shots, struct ring *ring, pid_t pid)
{
	int err;

	err = ring_open(ring, &shots->attr, pid, -1, 1024);
	if (!err)
		ring_enable(ring);
	return err;
}

int shots_open_at(struct shots *shots, struct ring *ring, pid_t pid, int type, __u64 addr)
{
	shots->attr.type = PERF_TYPE_BREAKPOINT;
	shots->attr.config = 0;
	shots->attr.sample_period = 1;
	shots->attr.bp_type = type;
	shots->attr.bp_addr = addr;
	shots->attr.bp_len = sizeof(long);
	return shots_open(shots, ring, pid);
}

bool shots_enough(const struct shots *shots, time_t begin)
{
	time_t now = time(NULL);

	return now >= begin + AT_MOST ||
	       (now >= begin + SECONDS && shots->kernel >= ENOUGH &&
		(!shots->until_none || shots->none_elsewhere) &&
		(!shots->until_gap || shots->gap));
}

/* Did the program leave user mode here? If so, *@moved tells if it had another stack. */
static bool is_here(struct shots *shots, const struct user_part *part, bool *moved)
{
	__u64 ip = part->regs[PERF_REG_X86_IP], sp = part->regs[PERF_REG_X86_SP];

	for (unsigned int i = 0; part->abi && i < MAX_HERE; i++) {
		if (ip < shots->here[i].begin || ip >= shots->here[i].end)
			continue;
		if (!shots->here[i].sp)
			shots->here[i].sp = sp;
		*moved = !shots->any_sp && sp != shots->here[i].sp;
		return true;
	}
	*moved = false;
	return false;
}

int shots_open_function(struct shots *shots, struct ring *ring, pid_t pid, const char *name)
{
	unsigned long addr = kernel_symbol(name);

	return addr ? shots_open_at(shots, ring, pid, HW_BREAKPOINT_X, addr) : -ENOENT;
}

static bool is_in_entry(const struct user_part *part)
{
	return part->intr[PERF_REG_X86_IP] >= entry_begin &&
	       part->intr[PERF_REG_X86_IP] < entry_end;
}

static void judge(struct shots *shots, const struct user_part *part)
{
	bool in_entry = is_in_entry(part);
	__u64 first = part->regs[shots->kept[0]];
	/* The program's register may still be in the CPU. */
	__u64 live = part->intr[shots->kept[0]];
	bool here, torn, minus_one = false;
	bool number = first >> shots->number_shift == shots->number >> shots->number_shift;

	shots->entry += in_entry;
	shots->gap += in_entry && part->intr[PERF_REG_X86_SP] < USER_END;
	if (!part->abi) {
		shots->none++;
		shots->none_elsewhere += !in_entry;
		return;
	}
	shots->other_abi += part->abi != shots->abi;
	here = is_here(shots, part, &torn);
	for (unsigned int i = 0; i < shots->nr_kept; i++) {
		minus_one |= part->regs[shots->kept[i]] == -1ULL;
		torn |= here && part->regs[shots->kept[i]] != first;
	}
	shots->right += here && number && !torn;
	shots->minus_one += minus_one;
	if (live >> shots->number_shift == shots->number >> shots->number_shift && live != first)
		shots->stale++;
	else if (!minus_one)
		shots->torn += torn;
}

void shots_read(struct shots *shots, struct ring *ring, union record *record)
{
	struct user_part part;

	while (ring_next_type(ring, record, PERF_RECORD_SAMPLE)) {
		shots->samples++;
		if ((record->header.misc & PERF_RECORD_MISC_CPUMODE_MASK) !=
		    PERF_RECORD_MISC_KERNEL)
			continue;
		shots->kernel++;
		parse_user_part(record, &shots->attr, &part);
		judge(shots, &part);
	}
}

bool shots_next_at(struct shots *shots, struct ring *ring, union record *record,
		   struct user_part *part)
{
	while (ring_next_type(ring, record, PERF_RECORD_SAMPLE)) {
		parse_user_part(record, &shots->attr, part);
		if (is_in_entry(part))
			continue;
		/* Skip an entry's own stack, from which the entry copies registers. */
		if (shots->attr.bp_type == HW_BREAKPOINT_X ||
		    shots->attr.bp_addr - part->intr[PERF_REG_X86_SP] < KERNEL_STACK)
			return true;
	}
	return false;
}
