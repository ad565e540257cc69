// SPDX-License-Identifier: GPL-2.0
/*
 * Request at each instruction of the deferred unwinding core, from a trap that interrupts
 * the core like an NMI: a granted request must get one callback with its cookie and the
 * right trace, and no other callback gets that cookie.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "perf_ring.h"
#include "tracer.h"
#include "workload.h"
#include "harness.h"

#define DEPTH		5
/* More entries than fit into the page that a task keeps. */
#define MAX_STACK	700
#define DEEP		600
/* No function of the core is larger. */
#define MAX_SIZE	4096
/* Up to this size, try every byte of the code. */
#define PLENTY		8192UL
/* Removing a trap waits for a grace period: two thirds of the run time if not expedited. */
#define EXPEDITED	"/sys/kernel/rcu_expedited"

/* What to do while the trap is armed. */
enum scenario {
	/* No request yet, but the task work runs: it was queued for the buffer. */
	UNNAMED,
	/* The other tracer has a request. */
	OTHER,
	/* The same tracer has a request. */
	SAME,
	/* The tracer is being registered. */
	REGISTER,
};

FIXTURE(probe) {
	int fd;
};

TRACER_FIXTURE(probe, 2)

FIXTURE_VARIANT(probe) {
	enum scenario scenario;
	/* A request must hit in this function. */
	const char *must_hit;
};

FIXTURE_VARIANT_ADD(probe, unnamed) { UNNAMED, "unwind_deliver" };
FIXTURE_VARIANT_ADD(probe, other) { OTHER, "unwind_deferred_request_regs" };
FIXTURE_VARIANT_ADD(probe, same) { SAME, "unwind_deferred_request_regs" };
FIXTURE_VARIANT_ADD(probe, register) { REGISTER, "unwind_deferred_init" };

/* Some may be inlined into another function and still have a symbol. */
static struct function {
	const char	*name;
	unsigned long	start, end;
} functions[] = {
	{ .name = "unwind_deferred_init" },
	{ .name = "unwind_deferred_request_regs" },
	{ .name = "unwind_request_bit" },
	{ .name = "unwind_entry_cookie" },
	{ .name = "unwind_queue_work" },
	{ .name = "unwind_user_faultable" },
	{ .name = "unwind_deferred_work" },
	{ .name = "unwind_run_work" },
	{ .name = "unwind_deliver" },
	{ .name = "unwind_walk_stack" },
	{ .name = "unwind_deferred_reset" },
	{ .name = "unwind_reset_entry" },
};

#define for_each_function(f)	for (f = functions; f < functions + ARRAY_SIZE(functions); f++)

/* Find the start and end of the functions, even if the compiler has renamed them. */
static bool find_functions(void)
{
	FILE *file = fopen("/proc/kallsyms", "r");
	struct function *f;
	char line[512];

	if (!file)
		return false;
	while (fgets(line, sizeof(line), file)) {
		const char *name = strstr(line, " unwind_");

		if (!name++)
			continue;
		for_each_function(f) {
			size_t len = strlen(f->name);

			/* Unlikely code is in a separate part. */
			if (!strncmp(name, f->name, len) && !strstr(name, ".cold") &&
			    (name[len] == '\n' || name[len] == '.'))
				f->start = strtoul(line, NULL, 16);
		}
	}
	for_each_function(f)
		f->end = f->start ? f->start + MAX_SIZE : 0;
	rewind(file);
	while (fgets(line, sizeof(line), file)) {
		unsigned long addr = strtoul(line, NULL, 16);

		for_each_function(f) {
			if (addr > f->start && addr < f->end)
				f->end = addr;
		}
	}
	fclose(file);
	return functions[0].start;
}

struct granted {
	__u64		cookie[3];
	unsigned int	slot[3], nr;
};

static void note_grant(struct granted *granted, unsigned int slot, int ret, __u64 cookie)
{
	if (ret)
		return;
	granted->slot[granted->nr] = slot;
	granted->cookie[granted->nr++] = cookie;
}

/* Check that each granted request got one callback, and that no other callbacks came. */
static int check_callbacks(int fd, const struct granted *granted, unsigned int depth,
			   unsigned int max)
{
	unsigned int seen = 0, callbacks = 0;
	struct unwind_test_event event;

	while (tracer_event(fd, &event)) {
		unsigned int head = event.nr < UNWIND_TEST_ENTRIES ? event.nr :
								     UNWIND_TEST_ENTRIES;

		callbacks++;
		for (unsigned int i = 0; i < granted->nr; i++) {
			if (event.slot == granted->slot[i] && event.cookie == granted->cookie[i])
				seen |= 1U << i;
		}
		if (event.nr != (WORKLOAD_NR(depth) < max ? WORKLOAD_NR(depth) : max) ||
		    workload_check_head(event.entries, head, depth) >= 0)
			return -EIO;
	}
	return callbacks == granted->nr && seen + 1 == 1U << granted->nr ? 0 : -ENOMSG;
}

/* One run with the trap at @addr: 1 if it was hit, 0 if not, negative if wrong. */
static int run(int fd, unsigned long addr, enum scenario scenario)
{
	struct unwind_test_op setup[] = { OP_PROBE(addr), OP_CANCEL(1) };
	struct unwind_test_op ops[] = {
		OP_AT(scenario == SAME ? 0 : 1, UNWIND_TEST_POINT_PROBE, UNWIND_TEST_TASK),
		OP_REQUEST(0, UNWIND_TEST_TASK),
	};
	struct unwind_test_op result[] = {
		OP_PROBE(0), OP_AT_RESULT(UNWIND_TEST_POINT_PROBE),
	};
	unsigned int depth = scenario == UNNAMED ? DEEP : DEPTH;
	struct granted granted = {};
	int ret;

	if (scenario == UNNAMED)
		ops[1] = (struct unwind_test_op)OP_FAULTABLE();
	if (scenario == REGISTER)
		ops[1] = (struct unwind_test_op)OP_INIT(1);

	/* Most addresses are in mid-instruction, and some instructions cannot be probed. */
	ret = tracer_run(fd, setup, 1 + (scenario == REGISTER)) ?: setup[0].ret;
	if (ret)
		return ret == -EILSEQ || ret == -EINVAL || ret == -EOPNOTSUPP ? 0 : ret;
	ret = tracer_run_deep(fd, ops, ARRAY_SIZE(ops), depth) ?: ops[0].ret;
	/* OP_PROBE(0) disarms the trap; a forced entry may come right before it. */
	if (tracer_run_array(fd, result) || ret || ops[1].ret < 0)
		return -ENXIO;

	if (scenario == OTHER || scenario == SAME)
		note_grant(&granted, 0, ops[1].ret, ops[1].cookie);
	note_grant(&granted, ops[0].slot, result[1].ret, result[1].cookie);
	for (unsigned int i = 0; i < granted.nr; i++) {
		if (!granted.cookie[i])
			return -ENOKEY;
	}
	/* Granted while the tracer is not on the list: its callback could be missed. */
	ret = result[1].ret == -ENOLINK ? -ENOLINK :
		check_callbacks(fd, &granted, depth, MAX_STACK);
	if (ret)
		return ret;

	switch (result[1].ret) {
	case -ENODATA:
		return 0;
	case 1:
		/* The same tracer has requested before, so that request was granted. */
		return granted.nr && result[1].cookie == granted.cookie[0] ? 1 : -EPROTO;
	case 0:
	case -EAGAIN:
		return 1;
	case -EINVAL:
		return scenario == REGISTER ? 1 : -EINVAL;
	default:
		return result[1].ret;
	}
}

/*
 * Bytes from one try to the next. Sanitizers multiply the instructions: then try only
 * some, different ones in each run, unless UNWIND_FULL is set.
 */
static unsigned long stride(void)
{
	unsigned long size = 0;
	struct function *f;

	for_each_function(f)
		size += f->end - f->start;
	return getenv("UNWIND_FULL") ? 1 : 1 + size / PLENTY;
}

TEST_F_TIMEOUT(probe, each_instruction, 900)
{
	const char *seed = getenv("UNWIND_SEED");
	struct unwind_test_op try = OP_PROBE(0);
	unsigned long step, first;
	unsigned int hits = 0;
	bool hit = false;
	struct function *f;
	int old, ret, rcu;

	if (!find_functions())
		SKIP(return, "needs CONFIG_KALLSYMS");
	try.arg = functions[0].start;
	if (tracer_op(self->fd, try) == -EOPNOTSUPP)
		SKIP(return, "needs CONFIG_KPROBES");
	/* Patch the code on the CPU that runs it. */
	ASSERT_EQ(0, pin_to(0));
	old = set_sysctl("kernel/perf_event_max_stack", MAX_STACK);
	if (old < 0)
		SKIP(return, "cannot set kernel.perf_event_max_stack: %s", strerror(-old));
	rcu = set_number(EXPEDITED, 1);

	step = stride();
	first = 1 + (seed && *seed ? strtoul(seed, NULL, 0) : time(NULL)) % step;
	TH_LOG("from byte %lu on each %lu, the same with UNWIND_SEED=%lu", first, step, first - 1);
	for_each_function(f) {
		for (unsigned long addr = f->start; addr < f->end;
		     addr += addr == f->start ? first : step) {
			ret = run(self->fd, addr, variant->scenario);
			EXPECT_LE(0, ret) {
				TH_LOG("%s+0x%lx: %s", f->name, addr - f->start, strerror(-ret));
			}
			hits += ret > 0;
			hit |= ret > 0 && !strcmp(f->name, variant->must_hit);
			/* Skip a function that the scenario does not reach. */
			if (addr == f->start && !ret)
				break;
		}
	}
	set_sysctl("kernel/perf_event_max_stack", old);
	if (rcu >= 0)
		set_number(EXPEDITED, rcu);
	TH_LOG("%u instructions", hits);
	EXPECT_LT(20, hits);
	EXPECT_TRUE(hit);
}

TEST_HARNESS_MAIN
