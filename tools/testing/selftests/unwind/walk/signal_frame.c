// SPDX-License-Identifier: GPL-2.0
/*
 * Walks through signal frames: the trace of a handler continues in the code that
 * the signal interrupted, whatever stacks the two are on.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "perf_ring.h"
#include "workload.h"
#include "harness.h"

#define STACK_SIZE	65536UL
#define DEPTH		5U
#define MAX_NESTED	3

/* Values that the handlers record, and the number of handlers to nest. */
static struct {
	uintptr_t	restorer[MAX_NESTED];
	uintptr_t	interrupted[MAX_NESTED];
	unsigned int	nested, levels;
} seen;

/* A handler without a frame. */
void leaf_handler(int sig);
extern const char leaf_handler_called[];

asm(
"	.pushsection .text\n"
"	.type	leaf_handler, @function\n"
"leaf_handler:\n"
"	mov	$110, %eax\n"	/* getppid() */
"	syscall\n"
"leaf_handler_called:\n"
"	ret\n"
"	.popsection\n"
);

/* From here on the chain is the caller's. */
static __attribute__((noinline)) void sample_here(void)
{
	long call[7] = { SYS_getppid };

	workload_call_fp(NULL, (unsigned long)__builtin_frame_address(0), call);
	asm volatile("" : : : "memory");
}

static void handler(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	unsigned int level = seen.nested++;

	seen.restorer[level] = (uintptr_t)__builtin_return_address(0);
	seen.interrupted[level] = uc->uc_mcontext.gregs[REG_RIP];
	if (seen.nested < seen.levels)
		workload_syscall(DEPTH, SYS_tkill, gettid(), SIGUSR1);
	else
		sample_here();
	if (sig == SIGSEGV)
		uc->uc_mcontext.gregs[REG_RIP] = uc->uc_mcontext.gregs[REG_R12];
	/* Prevent a tail call above, which would lose this frame. */
	asm volatile("" : : : "memory");
}

FIXTURE(frame) {
	struct ring ring;
	union record *record;
	char *map;
	const __u64 *ips;
	__u64 nr;
};

FIXTURE_VARIANT(frame) {
	int flags;
	/* The interrupted stack and the handler's, as indices into the map. */
	unsigned int thread_at, signal_at;
};

FIXTURE_VARIANT_ADD(frame, same_stack) { .thread_at = 0 };

FIXTURE_VARIANT_ADD(frame, higher_stack) {
	.flags = SA_ONSTACK, .thread_at = 0, .signal_at = 1
};

FIXTURE_VARIANT_ADD(frame, lower_stack) {
	.flags = SA_ONSTACK, .thread_at = 1, .signal_at = 0
};

FIXTURE_SETUP(frame)
{
	struct perf_event_attr attr = tracepoint_attr("syscalls/sys_enter_getppid");
	struct sigaction action = { .sa_sigaction = handler };
	stack_t stack = { .ss_size = STACK_SIZE };

	if (attr.type == ~0U)
		SKIP(return, "needs root, tracefs and CONFIG_FTRACE_SYSCALLS");
	self->record = malloc(sizeof(*self->record));
	ASSERT_EQ(0, ring_open(&self->ring, &attr, 0, -1, 32));
	self->map = mmap(NULL, 2 * STACK_SIZE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->map);

	stack.ss_sp = self->map + variant->signal_at * STACK_SIZE;
	if (variant->flags & SA_ONSTACK)
		ASSERT_EQ(0, sigaltstack(&stack, NULL));
	action.sa_flags = SA_SIGINFO | SA_NODEFER | variant->flags;
	ASSERT_EQ(0, sigaction(SIGUSR1, &action, NULL));
	ASSERT_EQ(0, sigaction(SIGSEGV, &action, NULL));
	memset(&seen, 0, sizeof(seen));
	seen.levels = 1;
	ring_enable(&self->ring);
}

FIXTURE_TEARDOWN(frame)
{
	free(self->record);
}

static void *top(struct _test_data_frame *self, const struct _fixture_variant_frame *variant)
{
	return self->map + (variant->thread_at + 1) * STACK_SIZE;
}

#define NEXT_TRACE() do {							\
	ASSERT_TRUE(ring_next_type(&self->ring, self->record,			\
				   PERF_RECORD_CALLCHAIN_DEFERRED));		\
	self->ips = as_deferred(self->record)->ips;				\
	self->nr = as_deferred(self->record)->nr;				\
	ASSERT_LE(1, self->nr);							\
	EXPECT_TRUE(workload_is_leaf_fp(self->ips[0]));				\
} while (0)

/* The index of an address in the trace, or -1. */
static int find(const __u64 *ips, __u64 nr, uintptr_t what)
{
	for (__u64 i = 0; i < nr; i++) {
		if (ips[i] == what)
			return i;
	}
	return -1;
}

TEST_F(frame, interrupted_code_follows)
{
	long call[7] = { SYS_tkill, gettid(), SIGUSR1 };
	int at;

	ASSERT_EQ(0, workload_call_on(top(self, variant), DEPTH, call));
	ASSERT_EQ(1, seen.nested);
	NEXT_TRACE();
	at = find(self->ips, self->nr, seen.restorer[0]);
	/* The sample, sample_here(), the handler. */
	ASSERT_EQ(2, at);
	ASSERT_EQ(at + 1 + WORKLOAD_NR(DEPTH), self->nr);
	EXPECT_EQ(seen.interrupted[0], self->ips[at + 1]);
	EXPECT_EQ(-1, workload_check(self->ips + at + 1, self->nr - at - 1, DEPTH));
}

TEST_F(frame, handler_without_frame)
{
	struct sigaction action = { .sa_handler = leaf_handler, .sa_flags = variant->flags };
	long call[7] = { SYS_tkill, gettid(), SIGUSR2 };

	ASSERT_EQ(0, sigaction(SIGUSR2, &action, NULL));
	ASSERT_EQ(0, workload_call_on(top(self, variant), DEPTH, call));
	ASSERT_TRUE(ring_next_type(&self->ring, self->record,
				   PERF_RECORD_CALLCHAIN_DEFERRED));
	self->ips = as_deferred(self->record)->ips;
	ASSERT_EQ(2 + WORKLOAD_NR(DEPTH), as_deferred(self->record)->nr);
	EXPECT_EQ((uintptr_t)leaf_handler_called, self->ips[0]);
	EXPECT_EQ(-1, workload_check(self->ips + 2, WORKLOAD_NR(DEPTH), DEPTH));
}

TEST_F(frame, nested)
{
	long call[7] = { SYS_tkill, gettid(), SIGUSR1 };
	int at = -1;

	seen.levels = MAX_NESTED;
	ASSERT_EQ(0, workload_call_on(top(self, variant), DEPTH, call));
	ASSERT_EQ(MAX_NESTED, seen.nested);
	NEXT_TRACE();
	/* Each handler sent the next signal from below a frame pointer of 0. */
	at = find(self->ips, self->nr, seen.restorer[MAX_NESTED - 1]);
	ASSERT_EQ(2, at);
	EXPECT_EQ(at + 1 + WORKLOAD_NR(DEPTH), self->nr);
	EXPECT_EQ(-1, workload_check(self->ips + at + 1, WORKLOAD_NR(DEPTH), DEPTH));
}

/* A call through an invalid function pointer: the caller is still found. */
TEST_F(frame, call_of_nothing)
{
	uintptr_t caller;
	int at;

	asm volatile(
	"	push	%%rbp\n"
	"	mov	%%rsp, %%rbx\n"
	"	mov	%[top], %%rsp\n"
	"	xor	%%ebp, %%ebp\n"
	"	lea	1f(%%rip), %[caller]\n"
	"	xor	%%eax, %%eax\n"
	"	lea	2f(%%rip), %%r12\n"
	"	call	*%%rax\n"
	"1:	nop\n"
	"2:	mov	%%rbx, %%rsp\n"
	"	pop	%%rbp\n"
	: [caller] "=&r"(caller)
	: [top] "r"(top(self, variant))
	: "rax", "rbx", "r12", "memory", "cc");
	/* The handler made the code continue at r12. */
	ASSERT_EQ(1, seen.nested);
	NEXT_TRACE();
	at = find(self->ips, self->nr, seen.restorer[0]);
	ASSERT_LT(0, at);
	ASSERT_EQ(at + 3, self->nr);
	EXPECT_EQ(0, self->ips[at + 1]);
	EXPECT_EQ(caller, self->ips[at + 2]);
}

/* In rt_sigreturn() itself, which flushes before it restores the registers. */
TEST_F(frame, in_sigreturn)
{
	struct perf_event_attr attr = tracepoint_attr("syscalls/sys_enter_rt_sigreturn");
	long call[7] = { SYS_tkill, gettid(), SIGUSR1 };
	struct ring ring;

	ASSERT_EQ(0, ring_open(&ring, &attr, 0, -1, 32));
	ring_enable(&ring);
	ASSERT_EQ(0, workload_call_on(top(self, variant), DEPTH, call));
	ring_disable(&ring);
	/* The record of the handler's sample is in this ring, too. */
	for (int i = 0; i < 2; i++)
		ASSERT_TRUE(ring_next_type(&ring, self->record,
					   PERF_RECORD_CALLCHAIN_DEFERRED));
	self->ips = as_deferred(self->record)->ips;
	self->nr = as_deferred(self->record)->nr;
	ASSERT_EQ(1 + WORKLOAD_NR(DEPTH), self->nr);
	EXPECT_LT(seen.restorer[0], self->ips[0]);
	EXPECT_GT(seen.restorer[0] + 16, self->ips[0]);
	EXPECT_EQ(-1, workload_check(self->ips + 1, WORKLOAD_NR(DEPTH), DEPTH));
	ring_close(&ring);
}

/* A signal frame that interrupted itself is followed a few times, see UNWIND_USER_SIGNALS. */
TEST_F(frame, endless)
{
	long call[7] = { SYS_tkill, gettid(), SIGUSR1 };
	unsigned long *fp = (void *)(self->map + STACK_SIZE);
	ucontext_t *uc = (void *)(fp + 2);

	ASSERT_EQ(0, workload_call_on(NULL, DEPTH, call));
	ring_drain(&self->ring);

	fp[0] = (unsigned long)fp;
	fp[1] = seen.restorer[0];
	uc->uc_mcontext.gregs[REG_RIP] = seen.restorer[0];
	uc->uc_mcontext.gregs[REG_RSP] = (unsigned long)uc;
	uc->uc_mcontext.gregs[REG_RBP] = (unsigned long)fp;
	uc->uc_mcontext.gregs[REG_CSGSFS] = 0x33;
	workload_call_fp(fp, (unsigned long)fp, (long[7]){ SYS_getppid });
	NEXT_TRACE();
	ASSERT_EQ(2 + 32, self->nr);
	EXPECT_EQ(seen.restorer[0], self->ips[self->nr - 1]);
}

TEST_HARNESS_MAIN
