// SPDX-License-Identifier: GPL-2.0
/*
 * Where BPF programs get user stacks that are not in memory: in deliveries, in sleepable
 * programs, and after either of these in all other programs, until the registers change.
 * And where sleepable programs get none, because they hold a lock that a page fault takes.
 */
#define _GNU_SOURCE
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "bpf_run.h"
#include "hang.h"
#include "perf_ring.h"
#include "swap.h"
#include "workload.h"
#include "harness.h"

#define PAGE	HANG_PAGE

/* Not all headers have a name for it. */
#define NR_URETPROBE	335

/* Other code that frames return to. */
#define OTHER_RA	((unsigned long)wait_for_fault)

/* Where workload_call_fp() is after its system call. */
extern const char workload_leaf_fp[];

/* A system call, or a probed place, on a stack whose only frame is not in memory. */
struct caller {
	pthread_t	thread;
	void		*stack;
	bool		probed;
	long		nr;
	long		args[3];
	atomic_bool	returned;
};

/* Two places to probe, with the stack and the frame pointer at @stack. */
void bpf_walk_places(void *stack);
extern const char bpf_walk_place[], bpf_walk_place_s[];

void bpf_walk_calls(void);
extern const char bpf_walk_returns[], bpf_walk_returned[];

asm(
"	.pushsection .text\n"
"	.type	bpf_walk_places, @function\n"
"bpf_walk_places:\n"
"	push	%rbp\n"
"	push	%rbx\n"
"	mov	%rsp, %rbx\n"
"	mov	%rdi, %rsp\n"
"	mov	%rdi, %rbp\n"
"	.globl	bpf_walk_place\n"
"bpf_walk_place:\n"
"	nop\n"
"	nop\n"
"	.globl	bpf_walk_place_s\n"
"bpf_walk_place_s:\n"
"	nop\n"
"	mov	%rbx, %rsp\n"
"	pop	%rbx\n"
"	pop	%rbp\n"
"	ret\n"
"	.size	bpf_walk_places, . - bpf_walk_places\n"

	/* A function whose return is probed. */
"	.globl	bpf_walk_calls, bpf_walk_returns, bpf_walk_returned\n"
"	.type	bpf_walk_calls, @function\n"
"bpf_walk_calls:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	call	bpf_walk_returns\n"
"bpf_walk_returned:\n"
"	pop	%rbp\n"
"	ret\n"
"	.size	bpf_walk_calls, . - bpf_walk_calls\n"
"	.type	bpf_walk_returns, @function\n"
"bpf_walk_returns:\n"
"	push	%rbp\n"
"	pop	%rbp\n"
"	ret\n"
"	.size	bpf_walk_returns, . - bpf_walk_returns\n"
"	.popsection\n"
);

static void *caller_thread(void *data)
{
	struct caller *caller = data;
	long call[7] = { caller->nr, caller->args[0], caller->args[1], caller->args[2] };

	if (caller->probed)
		bpf_walk_places(caller->stack);
	else
		workload_call_fp(caller->stack, (unsigned long)caller->stack, call);
	caller->returned = true;
	return NULL;
}

#define OPEN_HANGING_STACK(hang) do {						\
	if (hanging_stack_init(hang))						\
		SKIP(return, "no userfaultfd");					\
} while (0)

/* A delivery waits for the stack. */
TEST(delivery_waits_for_page)
{
	struct caller caller = { .nr = SYS_getpgid };
	struct hanging_stack hang;
	struct bpf_run run;

	SKIP_WITHOUT_BPF();
	OPEN_HANGING_STACK(&hang);
	keep_tracepoint("syscalls/sys_enter_getpgid");
	ASSERT_EQ(0, bpf_run_start(&run, "deliver_fentry", "take_fentry", "ask_tp"));
	run.shared->tgid = getpid();
	run.shared->tid = 0;
	caller.stack = hang.page;
	pthread_create(&caller.thread, NULL, caller_thread, &caller);
	wait_for_fault(hang.uffd);
	EXPECT_EQ(1, bpf_run_count(&run, BPF_UNWIND_ASK, 0));
	EXPECT_EQ(0, bpf_run_count(&run, BPF_UNWIND_FENTRY, 0));
	EXPECT_FALSE((bool)caller.returned);

	EXPECT_EQ(0, hanging_stack_resolve(&hang));
	pthread_join(caller.thread, NULL);
	EXPECT_EQ(1, bpf_run_count(&run, BPF_UNWIND_FENTRY, 0));
	/* In place, only the leaf was available. */
	EXPECT_TRUE(bpf_run_has(bpf_run_trace(&run, BPF_UNWIND_TAKE, BPF_UNWIND_STACK, 0), 1));
	for (int how = BPF_UNWIND_ENTRIES; how <= BPF_UNWIND_STACK; how++) {
		const struct bpf_unwind_trace *trace;

		trace = bpf_run_trace(&run, BPF_UNWIND_FENTRY, how, 0);
		ASSERT_TRUE(bpf_run_has(trace, 2));
		EXPECT_EQ(HANGING_RA, trace->ips[1]);
	}
	bpf_run_close(&run);
}

/* The same from a swap device. */
TEST(delivery_of_paged_out_stack)
{
	const struct bpf_unwind_trace *trace;
	struct bpf_run run;
	long call[7] = { SYS_getpgid };
	unsigned long *frame;
	char *map;

	SKIP_WITHOUT_BPF();
	if (!have_swap())
		SKIP(return, "no swap device is active");
	ASSERT_EQ(0, pin_to(0));
	keep_tracepoint("syscalls/sys_enter_getpgid");
	ASSERT_EQ(0, bpf_run_start(&run, "deliver_fentry_s", "take_fentry", "ask_tp"));
	map = mmap(NULL, 5 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)map);
	frame = (unsigned long *)(map + 4 * PAGE);
	frame[0] = 0;
	frame[1] = OTHER_RA;
	if (page_out(frame, 1, 1) != 1)
		SKIP(return, "the page did not go to swap");

	run.shared->tid = gettid();
	workload_call_fp(frame, (unsigned long)frame, call);
	run.shared->tid = BPF_RUN_NOBODY;
	EXPECT_TRUE(bpf_run_has(bpf_run_trace(&run, BPF_UNWIND_TAKE, BPF_UNWIND_STACK, 0), 1));
	trace = bpf_run_trace(&run, BPF_UNWIND_FENTRY_S, BPF_UNWIND_STACK, 0);
	ASSERT_TRUE(bpf_run_has(trace, 2));
	EXPECT_EQ(OTHER_RA, trace->ips[1]);
	bpf_run_close(&run);
}

/* Sleepable programs need no request. */
TEST(sleepable_fentry)
{
	struct caller caller = { .nr = SYS_getpgid };
	const struct bpf_unwind_trace *trace;
	struct hanging_stack hang;
	struct bpf_run run;

	SKIP_WITHOUT_BPF();
	OPEN_HANGING_STACK(&hang);
	/* The program attached last runs first. */
	ASSERT_EQ(0, bpf_run_start(&run, "take_fentry_s", "take_fentry"));
	run.shared->tgid = getpid();
	run.shared->tid = 0;
	caller.stack = hang.page;
	pthread_create(&caller.thread, NULL, caller_thread, &caller);
	wait_for_fault(hang.uffd);
	EXPECT_FALSE((bool)caller.returned);
	EXPECT_EQ(0, hanging_stack_resolve(&hang));
	pthread_join(caller.thread, NULL);

	EXPECT_TRUE(bpf_run_has(bpf_run_trace(&run, BPF_UNWIND_TAKE, BPF_UNWIND_STACK, 0), 1));
	trace = bpf_run_trace(&run, BPF_UNWIND_TAKE_S, BPF_UNWIND_STACK, 0);
	ASSERT_TRUE(bpf_run_has(trace, 2));
	EXPECT_EQ(HANGING_RA, trace->ips[1]);
	bpf_run_close(&run);
}

/*
 * Start @caller on a stack that is not in memory. While programs hold the mmap lock, they
 * get the part that is in memory; afterwards they get the whole stack.
 */
static void take_locked(struct __test_metadata *_metadata, struct bpf_run *run,
			struct caller *caller, struct hanging_stack *hang)
{
	const struct bpf_unwind_trace *trace;

	run->shared->tgid = getpid();
	run->shared->tid = 0;
	caller->stack = hang->page;
	pthread_create(&caller->thread, NULL, caller_thread, caller);
	wait_for_fault(hang->uffd);
	/* Only a program that does not hold the lock waits for the page. */
	trace = bpf_run_trace(run, BPF_UNWIND_TAKE_LOCKED, BPF_UNWIND_STACK, 0);
	EXPECT_TRUE(bpf_run_has(trace, 1));
	EXPECT_EQ(0, hanging_stack_resolve(hang));
	pthread_join(caller->thread, NULL);

	trace = bpf_run_trace(run, BPF_UNWIND_TAKE_S, BPF_UNWIND_STACK, 0);
	ASSERT_TRUE(bpf_run_has(trace, 2));
	EXPECT_EQ(HANGING_RA, trace->ips[1]);
}

TEST(not_in_find_vma)
{
	struct caller caller = { .nr = SYS_getpgid };
	struct hanging_stack hang;
	struct bpf_run run;

	SKIP_WITHOUT_BPF();
	OPEN_HANGING_STACK(&hang);
	ASSERT_EQ(0, bpf_run_start(&run, "take_find_vma_s"));
	run.shared->vma_addr = OTHER_RA;
	run.shared->wait_addr = (unsigned long)hang.page;
	take_locked(_metadata, &run, &caller, &hang);
	/* A stack with a build-id, a stack in a map, and a read of user memory. */
	ASSERT_EQ(3, bpf_run_count(&run, BPF_UNWIND_TAKE_LOCKED, 0));
	EXPECT_EQ(sizeof(struct bpf_stack_build_id),
		  bpf_run_note(&run, BPF_UNWIND_TAKE_LOCKED, 0)->ret);
	EXPECT_LE(0, bpf_run_note(&run, BPF_UNWIND_TAKE_LOCKED, 1)->ret);
	EXPECT_EQ(-EFAULT, bpf_run_note(&run, BPF_UNWIND_TAKE_LOCKED, 2)->ret);
	bpf_run_close(&run);
}

TEST(not_in_iterator_of_mappings)
{
	struct caller caller = { .nr = SYS_read };
	struct hanging_stack hang;
	struct bpf_run run;
	char buf[64];
	int fd;

	SKIP_WITHOUT_BPF();
	OPEN_HANGING_STACK(&hang);
	ASSERT_EQ(0, bpf_run_start(&run, "take_iter_vma_s"));
	fd = bpf_iter_create(bpf_link__fd(run.links[0]));
	ASSERT_LE(0, fd);
	caller.args[0] = fd;
	caller.args[1] = (long)buf;
	caller.args[2] = sizeof(buf);
	take_locked(_metadata, &run, &caller, &hang);
	close(fd);
	bpf_run_close(&run);
}

/* Sleepable programs get the kernel's stack like other programs. */
TEST(sleepable_kernel_stack)
{
	const struct bpf_unwind_trace *trace;
	struct bpf_run run;

	SKIP_WITHOUT_BPF();
	ASSERT_EQ(0, bpf_run_start(&run, "take_kernel_s"));
	run.shared->tid = gettid();
	syscall(SYS_getpgid, 0);
	run.shared->tid = BPF_RUN_NOBODY;
	trace = bpf_run_trace(&run, BPF_UNWIND_TAKE_S, BPF_UNWIND_KERNEL_STACK, 0);
	ASSERT_NE(NULL, trace);
	ASSERT_LE(2 * 8, trace->ret);
	for (int i = 0; i < trace->ret / 8; i++)
		EXPECT_GT(0, (long)trace->ips[i]);
	ASSERT_EQ(1, bpf_run_count(&run, BPF_UNWIND_KERNEL_ID, 0));
	EXPECT_LE(0, bpf_run_note(&run, BPF_UNWIND_KERNEL_ID, 0)->ret);
	bpf_run_close(&run);
}

TEST(sleepable_uprobe)
{
	const struct bpf_unwind_trace *trace;
	struct caller caller = { .probed = true };
	struct hanging_stack hang;
	struct bpf_run run;

	SKIP_WITHOUT_BPF();
	OPEN_HANGING_STACK(&hang);
	ASSERT_EQ(0, bpf_run_start(&run, "take_uprobe", "take_uprobe_s"));
	ASSERT_EQ(0, bpf_run_attach_uprobe(&run, "take_uprobe", bpf_walk_place));
	ASSERT_EQ(0, bpf_run_attach_uprobe(&run, "take_uprobe_s", bpf_walk_place_s));
	run.shared->tgid = getpid();
	run.shared->tid = 0;
	caller.stack = hang.page;
	pthread_create(&caller.thread, NULL, caller_thread, &caller);
	wait_for_fault(hang.uffd);
	EXPECT_FALSE((bool)caller.returned);
	EXPECT_EQ(0, hanging_stack_resolve(&hang));
	pthread_join(caller.thread, NULL);

	trace = bpf_run_trace(&run, BPF_UNWIND_TAKE, BPF_UNWIND_STACK, 0);
	ASSERT_NE(NULL, trace);
	EXPECT_EQ(8, trace->ret);
	EXPECT_EQ((unsigned long)bpf_walk_place, trace->ips[0]);
	trace = bpf_run_trace(&run, BPF_UNWIND_TAKE_S, BPF_UNWIND_STACK, 0);
	ASSERT_NE(NULL, trace);
	ASSERT_EQ(16, trace->ret);
	EXPECT_EQ((unsigned long)bpf_walk_place_s, trace->ips[0]);
	EXPECT_EQ(HANGING_RA, trace->ips[1]);
	bpf_run_close(&run);
}

/*
 * A program at a return probe. perf has a request earlier in the probe's system call, when
 * the user ip is still in the trampoline: both get the stack of the caller. With @walked, so
 * has another program, and it takes the stack there and then.
 */
static void return_probe(struct __test_metadata *_metadata, bool walked)
{
	struct perf_event_attr attr = tracepoint_attr("raw_syscalls/sys_enter");
	union record *record = malloc(sizeof(*record));
	const struct deferred *deferred = as_deferred(record);
	const struct bpf_unwind_trace *trace;
	struct bpf_run run;
	struct ring ring;

	SKIP_WITHOUT_BPF();
	if (attr.type == ~0U)
		SKIP(return, "no CONFIG_FTRACE_SYSCALLS");
	ASSERT_EQ(0, bpf_run_start(&run, "take_uprobe_s",
				   walked ? "take_uretprobe_call_s" : NULL));
	ASSERT_EQ(0, bpf_run_attach_uretprobe(&run, "take_uprobe_s", bpf_walk_returns));
	ASSERT_EQ(0, ring_open(&ring, &attr, 0, -1, 32));
	ASSERT_EQ(0, ring_filter(&ring, "id", NR_URETPROBE));
	run.shared->tid = gettid();
	ring_enable(&ring);
	bpf_walk_calls();
	ring_disable(&ring);
	run.shared->tid = BPF_RUN_NOBODY;

	if (!ring_next_type(&ring, record, PERF_RECORD_SAMPLE))
		SKIP(return, "return probes are no system calls here");
	ASSERT_TRUE(ring_next_type(&ring, record, PERF_RECORD_CALLCHAIN_DEFERRED));
	ASSERT_LE(2, deferred->nr);
	EXPECT_EQ((unsigned long)bpf_walk_returned, deferred->ips[0]);

	trace = bpf_run_trace(&run, BPF_UNWIND_TAKE_S, BPF_UNWIND_STACK, 0);
	ASSERT_NE(NULL, trace);
	ASSERT_EQ(deferred->nr * sizeof(__u64), trace->ret);
	ASSERT_GE(BPF_UNWIND_IPS, deferred->nr);
	EXPECT_EQ(0, memcmp(trace->ips, deferred->ips, trace->ret));
	trace = bpf_run_trace(&run, BPF_UNWIND_TAKE, BPF_UNWIND_STACK, 0);
	ASSERT_EQ(walked, !!trace);
	if (walked)
		EXPECT_LT(0, trace->ret);
	ring_close(&ring);
	bpf_run_close(&run);
	free(record);
}

TEST(sleepable_return_probe)
{
	return_probe(_metadata, false);
}

TEST(sleepable_return_probe_walked_before)
{
	return_probe(_metadata, true);
}

/* A page with one frame that returns to @ra. */
static unsigned long *one_frame(unsigned long ra)
{
	char *map = mmap(NULL, 5 * PAGE, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned long *frame = (unsigned long *)(map + 4 * PAGE);

	if (map == MAP_FAILED)
		exit(1);
	frame[0] = 0;
	frame[1] = ra;
	return frame;
}

/* A system call unmaps the stack. A program still gets it if it was walked before. */
static __s64 take_after_stack_is_gone(struct __test_metadata *_metadata, bool walk)
{
	const struct bpf_unwind_trace *trace;
	struct bpf_run run;
	unsigned long *frame = one_frame(OTHER_RA);
	long call[7] = { SYS_munmap, (long)frame, PAGE };
	__s64 ret;

	if (walk) {
		ASSERT_EQ(0, bpf_run_start(&run, "take_raw_tp_exit",
					   "take_fentry_s@__x64_sys_munmap"));
	} else {
		ASSERT_EQ(0, bpf_run_start(&run, "take_raw_tp_exit"));
	}
	run.shared->exit = SYS_munmap;
	run.shared->tid = gettid();
	EXPECT_EQ(0, workload_call_fp(frame, (unsigned long)frame, call));
	run.shared->tid = BPF_RUN_NOBODY;

	if (walk) {
		EXPECT_TRUE(bpf_run_has(bpf_run_trace(&run, BPF_UNWIND_TAKE_S,
						      BPF_UNWIND_STACK, 0), 2));
	}
	trace = bpf_run_trace(&run, BPF_UNWIND_TAKE, BPF_UNWIND_STACK, 0);
	ASSERT_NE(NULL, trace);
	EXPECT_TRUE(workload_is_leaf_fp(trace->ips[0]));
	if (trace->ret > 8) {
		EXPECT_EQ(OTHER_RA, trace->ips[1]);
	}
	ret = trace->ret;
	bpf_run_close(&run);
	return ret;
}

TEST(others_have_what_was_walked)
{
	SKIP_WITHOUT_BPF();
	EXPECT_EQ(8, take_after_stack_is_gone(_metadata, false));
	EXPECT_EQ(16, take_after_stack_is_gone(_metadata, true));
}

static unsigned long *frame_before, *frame_after;

#define READ_FRAME(frame)	(*(volatile unsigned long *)(frame))

static long after_sigreturn[3];

static void sigreturn_done(void)
{
	_exit(0);
}

/*
 * Return to right after a system call instruction, as if from it, on another stack: only
 * the stack pointer reveals that the registers have changed.
 */
static void handler(int sig, siginfo_t *info, void *data)
{
	/* Below the frame: walks go up. */
	ucontext_t *uc = (void *)((char *)frame_before - PAGE);
	long call[7] = { SYS_rt_sigreturn };

	memcpy(uc, data, sizeof(*uc));
	uc->uc_mcontext.gregs[REG_RIP] = (long)workload_leaf_fp;
	uc->uc_mcontext.gregs[REG_RSP] = (long)frame_after;
	uc->uc_mcontext.gregs[REG_RBP] = (long)frame_after;
	/* workload_call_fp() finally returns to this. */
	after_sigreturn[2] = (long)sigreturn_done;
	uc->uc_mcontext.gregs[REG_RBX] = (long)after_sigreturn;
	workload_call_fp(uc, (unsigned long)frame_before, call);
}

#define EXPECT_TAKEN(run, who, ra) do {						\
	const struct bpf_unwind_trace *_trace;					\
										\
	_trace = bpf_run_trace(run, who, BPF_UNWIND_STACK, 0);			\
	ASSERT_TRUE(bpf_run_has(_trace, 2)) {					\
		TH_LOG("%lld bytes: %llx %llx", _trace ? _trace->ret : -1,	\
		       _trace ? _trace->ips[0] : 0, _trace ? _trace->ips[1] : 0); \
	}									\
	EXPECT_EQ(ra, _trace->ips[1]);						\
} while (0)

/* A stack delivered before sigreturn is not reused after it. */
TEST(not_after_sigreturn)
{
	struct bpf_run run;
	int status, go[2];
	pid_t child;
	char c = 'y';

	SKIP_WITHOUT_BPF();
	frame_before = one_frame(HANGING_RA);
	frame_after = one_frame(OTHER_RA);
	ASSERT_EQ(0, bpf_run_start(&run, "deliver_fentry", "take_raw_tp_exit", "ask_tp_btf"));
	ASSERT_EQ(0, pipe(go));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };

		/* Fault the page in: shared pages are not in a child's page tables at first. */
		if (read(go[0], &c, 1) != 1 || READ_FRAME(frame_after) ||
		    sigaction(SIGUSR1, &action, NULL))
			_exit(1);
		raise(SIGUSR1);
		_exit(2);
	}
	run.shared->syscall = SYS_rt_sigreturn;
	/* sigreturn restores the system call number, too. */
	run.shared->exit = -1;
	run.shared->tid = child;
	ASSERT_EQ(1, write(go[1], &c, 1));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(1, bpf_run_count(&run, BPF_UNWIND_FENTRY, 0));
	EXPECT_TAKEN(&run, BPF_UNWIND_FENTRY, HANGING_RA);
	EXPECT_TAKEN(&run, BPF_UNWIND_TAKE, OTHER_RA);
	bpf_run_close(&run);
}

/* Nor after a tracer changes the registers. */
TEST(not_after_ptrace)
{
	struct user_regs_struct regs;
	struct bpf_run run;
	int status;
	pid_t child;

	SKIP_WITHOUT_BPF();
	frame_before = one_frame(HANGING_RA);
	frame_after = one_frame(OTHER_RA);
	ASSERT_EQ(0, bpf_run_start(&run, "take_raw_tp_signal",
				   "take_fentry_s@__x64_sys_tgkill"));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		/* The signal is ignored, but the tracer still sees it. */
		long call[7] = { SYS_tgkill, getpid(), getpid(), SIGURG };

		if (READ_FRAME(frame_after) || ptrace(PTRACE_TRACEME, 0, 0, 0))
			_exit(1);
		raise(SIGSTOP);
		workload_call_fp(frame_before, (unsigned long)frame_before, call);
		_exit(0);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	run.shared->tid = child;
	ASSERT_EQ(0, ptrace(PTRACE_CONT, child, 0, 0));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGURG);
	ASSERT_EQ(0, ptrace(PTRACE_GETREGS, child, 0, &regs));
	EXPECT_TRUE(workload_is_leaf_fp(regs.rip));
	regs.rsp = (unsigned long)frame_after;
	regs.rbp = (unsigned long)frame_after;
	ASSERT_EQ(0, ptrace(PTRACE_SETREGS, child, 0, &regs));
	ASSERT_EQ(0, ptrace(PTRACE_CONT, child, 0, SIGURG));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_TAKEN(&run, BPF_UNWIND_TAKE_S, HANGING_RA);
	EXPECT_TAKEN(&run, BPF_UNWIND_TAKE, OTHER_RA);
	bpf_run_close(&run);
}

TEST_HARNESS_MAIN
