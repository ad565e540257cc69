// SPDX-License-Identifier: GPL-2.0
/*
 * A kernel entry's user context changes while a request is pending: fork, exec, signal
 * delivery, all four kinds of sigreturn, a tracer that changes the registers.
 * The trace shows the old context, or is empty and counted. It never shows the new
 * context under the old cookie.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf_ring.h"
#include "tracer.h"
#include "workload.h"
#include "harness.h"

#define DEPTH	10

FIXTURE(boundary) {
	struct perf_event_attr attr;
	struct rings rings;
	union record *record;
	int go[2];
};

FIXTURE_SETUP(boundary)
{
	self->attr = tracepoint_attr("raw_syscalls/sys_enter");
	if (self->attr.type == ~0U)
		SKIP(return, "needs root, tracefs and CONFIG_FTRACE_SYSCALLS");
	self->record = malloc(sizeof(*self->record));
	ASSERT_EQ(0, pipe(self->go));
}

FIXTURE_TEARDOWN(boundary)
{
	rings_close(&self->rings);
	free(self->record);
}

/* One buffer on each CPU for @pid and its children. */
#define OPEN_EACH_CPU(pid) do {							\
	self->attr.inherit = 1;							\
	ASSERT_EQ(0, rings_open_each_cpu(&self->rings, &self->attr, pid));	\
} while (0)

/* One buffer for this process, for the event @name. */
#define OPEN(name) do {								\
	self->attr = tracepoint_attr(name);					\
	if (self->attr.type == ~0U)						\
		SKIP(return, "no " name);					\
	ASSERT_EQ(0, rings_open(&self->rings, &self->attr, 0, -1, 32));		\
} while (0)

/* Another event into the same buffers. */
#define SHARE(name, pid) do {							\
	struct perf_event_attr _attr = tracepoint_attr(name);			\
										\
	_attr.inherit = self->attr.inherit;					\
	_attr.defer_output = 0;							\
	ASSERT_EQ(0, rings_share(&self->rings, &_attr, pid));			\
} while (0)

/* The child waits here until its events are open. */
static void wait_go(int go[2])
{
	char c;

	if (read(go[0], &c, 1) != 1)
		_exit(1);
}

#define GO() ASSERT_EQ(1, write(self->go[1], "g", 1))

/*
 * All trace records and all samples of all buffers, for tests with only a few of them.
 * Traces are truncated, which is still enough to compare them with known callers.
 */
#define MAX_SEEN	32

struct seen {
	unsigned int	samples, records;
	struct {
		__u32	tid;
		__u64	cookie;
		/* Entries after PERF_CONTEXT_USER, 0 without it. */
		__u64	user;
	} sample[MAX_SEEN];
	struct {
		__u32	tid;
		__u64	cookie;
		__u64	nr;
		__u64	ips[32];
	} record[MAX_SEEN];
};

static void collect(struct seen *seen, struct rings *rings, union record *record)
{
	memset(seen, 0, sizeof(*seen));
	for (unsigned int i = 0; i < rings->nr; i++) {
		while (ring_next(&rings->ring[i], record)) {
			const struct deferred *deferred = as_deferred(record);
			unsigned int n;

			if (record->header.type == PERF_RECORD_SAMPLE && seen->samples < MAX_SEEN) {
				struct sample sample;
				__u64 user;

				parse_sample(record, &sample);
				n = seen->samples++;
				seen->sample[n].tid = sample.tid;
				seen->sample[n].cookie = sample_cookie(&sample);
				sample_part(&sample, PERF_CONTEXT_USER, &user);
				seen->sample[n].user = user;
			}
			if (record->header.type == PERF_RECORD_CALLCHAIN_DEFERRED &&
			    seen->records < MAX_SEEN) {
				n = seen->records++;
				seen->record[n].tid = deferred->ips[deferred->nr] >> 32;
				seen->record[n].cookie = deferred->cookie;
				seen->record[n].nr = deferred->nr;
				memcpy(seen->record[n].ips, deferred->ips,
				       8 * (deferred->nr < 32 ? deferred->nr : 32));
			}
		}
	}
}

/* Fork: only the parent keeps the cookie and the pending work. */
static void fork_test(struct __test_metadata *_metadata, FIXTURE_DATA(boundary) *self, long nr)
{
	struct seen seen;
	int status;
	pid_t child;

	OPEN_EACH_CPU(0);
	for (unsigned int i = 0; i < self->rings.nr; i++) {
		ASSERT_EQ(0, ring_filter(&self->rings.ring[i], "id", nr));
	}
	rings_enable(&self->rings);
	child = workload_syscall(DEPTH, nr, SIGCHLD);
	if (!child)
		_exit(3);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(3, WEXITSTATUS(status));
	collect(&seen, &self->rings, self->record);
	ASSERT_EQ(1, seen.samples);
	ASSERT_EQ(1, seen.records);
	EXPECT_EQ(getpid(), (pid_t)seen.record[0].tid);
	EXPECT_EQ(seen.sample[0].cookie, seen.record[0].cookie);
	EXPECT_EQ(-1, workload_check(seen.record[0].ips, seen.record[0].nr, DEPTH));
}

TEST_F(boundary, fork)
{
	fork_test(_metadata, self, SYS_fork);
}

TEST_F(boundary, clone)
{
	fork_test(_metadata, self, SYS_clone);
}

/* The same with the test tracer, which sees the child's state. */
TEST(child_starts_with_nothing)
{
	struct unwind_test_op ops[] = { OP_INIT(0), OP_REQUEST(0, UNWIND_TEST_TASK), OP_STATE(0) };
	struct unwind_test_op state = OP_STATE(0);
	const char *why;
	int fd = tracer_open(&why), status;
	pid_t child;

	if (fd < 0)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, tracer_run_array(fd, ops));
	EXPECT_NE(0, ops[2].arg);
	child = fork();
	if (!child) {
		if (tracer_run(fd, &state, 1))
			_exit(1);
		_exit(state.arg || state.cookie ? 2 : 0);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, WEXITSTATUS(status));
	close(fd);
}

static char *const exec_argv[] = { "true", NULL };
static char *const exec_envp[] = { NULL };

static void *exec_thread(void *data)
{
	workload_syscall(DEPTH, SYS_execve, (long)data, (long)exec_argv, (long)exec_envp);
	return NULL;
}

/*
 * Exec: the entry's request gets the stack of the old image. Between the point of no
 * return and user mode there is no user stack. After that, requests see the new image.
 */
static void exec_test(struct __test_metadata *_metadata, FIXTURE_DATA(boundary) *self,
		      bool by_thread)
{
	struct seen seen;
	int status, in_exec = 0, later = 0;
	pid_t child;

	if (tracepoint_id("sched/sched_process_exec") < 0)
		SKIP(return, "no scheduler tracepoints");
	child = fork();
	if (!child) {
		pthread_t thread;

		wait_go(self->go);
		if (by_thread) {
			pthread_create(&thread, NULL, exec_thread, "/bin/true");
			pause();
		}
		exec_thread("/bin/true");
		_exit(1);
	}
	self->attr = tracepoint_attr("syscalls/sys_enter_execve");
	OPEN_EACH_CPU(child);
	SHARE("sched/sched_process_exec", child);
	SHARE("syscalls/sys_enter_exit_group", child);
	rings_enable(&self->rings);
	GO();
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);

	collect(&seen, &self->rings, self->record);
	EXPECT_EQ(3, seen.samples);
	EXPECT_EQ(2, seen.records);
	for (unsigned int i = 0; i < seen.samples; i++) {
		if (!seen.sample[i].cookie) {
			/* sched_process_exec */
			in_exec++;
			EXPECT_EQ(0, seen.sample[i].user);
		}
	}
	EXPECT_EQ(1, in_exec);
	for (unsigned int i = 0; i < seen.records; i++) {
		if (workload_is_leaf(seen.record[i].ips[0])) {
			EXPECT_EQ(-1, workload_check(seen.record[i].ips, seen.record[i].nr, DEPTH));
		} else {
			later++;
			EXPECT_LE(1, seen.record[i].nr);
		}
	}
	EXPECT_EQ(1, later);
}

TEST_F(boundary, exec)
{
	exec_test(_metadata, self, false);
}

TEST_F(boundary, exec_by_thread)
{
	exec_test(_metadata, self, true);
}

/* A failed exec is a system call like any other. */
TEST_F(boundary, exec_that_fails)
{
	struct seen seen;

	OPEN("syscalls/sys_enter_execve");
	rings_enable(&self->rings);
	EXPECT_EQ(-ENOENT, workload_syscall(DEPTH, SYS_execve, (long)"/nowhere/at/all",
					    (long)exec_argv, (long)exec_envp));
	EXPECT_EQ(-EACCES, workload_syscall(DEPTH, SYS_execve, (long)"/proc/self/status",
					    (long)exec_argv, (long)exec_envp));
	collect(&seen, &self->rings, self->record);
	ASSERT_EQ(2, seen.records);
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(seen.sample[i].cookie, seen.record[i].cookie);
		EXPECT_EQ(-1, workload_check(seen.record[i].ips, seen.record[i].nr, DEPTH));
	}
}

static void call_handler(int sig)
{
	(void)sig;
	workload_syscall(3, SYS_getppid);
}

/*
 * Signal: the entry that delivers it shows the interrupted code, an entry from the
 * handler shows the handler.
 */
TEST_F(boundary, signal_delivery)
{
	struct sigaction action = { .sa_handler = call_handler, .sa_flags = SA_ONSTACK };
	stack_t stack = { .ss_sp = malloc(65536), .ss_size = 65536 };
	struct seen seen;

	ASSERT_EQ(0, sigaltstack(&stack, NULL));
	ASSERT_EQ(0, sigaction(SIGUSR1, &action, NULL));
	OPEN("syscalls/sys_enter_tkill");
	self->attr = tracepoint_attr("syscalls/sys_enter_getppid");
	ASSERT_EQ(0, rings_share(&self->rings, &self->attr, 0));
	rings_enable(&self->rings);
	workload_syscall(DEPTH, SYS_tkill, gettid(), SIGUSR1);

	collect(&seen, &self->rings, self->record);
	ASSERT_EQ(2, seen.samples);
	ASSERT_EQ(2, seen.records);
	EXPECT_EQ(seen.sample[0].cookie, seen.record[0].cookie);
	EXPECT_EQ(seen.sample[1].cookie, seen.record[1].cookie);
	EXPECT_NE(seen.sample[0].cookie, seen.sample[1].cookie);
	EXPECT_EQ(-1, workload_check(seen.record[0].ips, seen.record[0].nr, DEPTH));
	EXPECT_EQ(-1, workload_check(seen.record[1].ips, seen.record[1].nr, 3));
}

/* A request during delivery, after the task work ran: still shows the interrupted stack. */
TEST_F(boundary, signal_deliver_event)
{
	struct sigaction action = { .sa_handler = call_handler };
	struct seen seen;

	ASSERT_EQ(0, sigaction(SIGUSR1, &action, NULL));
	OPEN("signal/signal_deliver");
	rings_enable(&self->rings);
	workload_syscall(DEPTH, SYS_tkill, gettid(), SIGUSR1);

	collect(&seen, &self->rings, self->record);
	ASSERT_EQ(1, seen.samples);
	ASSERT_EQ(1, seen.records);
	EXPECT_EQ(seen.sample[0].cookie, seen.record[0].cookie);
	EXPECT_EQ(-1, workload_check(seen.record[0].ips, seen.record[0].nr, DEPTH));
}

/*
 * sigreturn without a signal: a frame made by hand leads to sigreturn_landing. 64-bit
 * code makes all the calls, so that one binary can use the four entries: the code segment
 * is in the frame. 32-bit frames cannot hold the stack pointer and the landing address:
 * sigreturn_sp keeps the former, a jump in low memory leads to the latter.
 */
extern const char sigreturn_leaf_syscall[], sigreturn_leaf_int80[], sigreturn_landing[];
extern unsigned long sigreturn_sp;

void sigreturn_asm(const void *sp, long nr, bool int80);

asm(
"	.pushsection .text\n"
"	.globl	sigreturn_asm, sigreturn_landing\n"
"	.globl	sigreturn_leaf_syscall, sigreturn_leaf_int80\n"
"	.type	sigreturn_asm, @function\n"
"sigreturn_asm:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	push	%rbx\n"
"	push	%r12\n"
"	push	%r13\n"
"	push	%r14\n"
"	push	%r15\n"
"	push	%r15\n"
"	mov	%rsp, sigreturn_sp(%rip)\n"
"	mov	%rdi, %rsp\n"
"	mov	%rsi, %rax\n"
"	test	%edx, %edx\n"
"	jnz	1f\n"
"	syscall\n"
"sigreturn_leaf_syscall:\n"
"	ud2\n"
"1:	int	$0x80\n"
"sigreturn_leaf_int80:\n"
"	ud2\n"
"sigreturn_landing:\n"
"	mov	sigreturn_sp(%rip), %rsp\n"
"	cld\n"
"	pop	%r15\n"
	RETURN_TO_C
"	.size	sigreturn_asm, . - sigreturn_asm\n"
"	.popsection\n"
"	.pushsection .bss\n"
"	.globl	sigreturn_sp\n"
"	.balign	8\n"
"sigreturn_sp:\n"
"	.zero	8\n"
"	.popsection\n"
);

#define USER_CS		0x33
#define USER_DS		0x2b
#define EFLAGS		0x202

/* arch/x86/include/uapi/asm/sigcontext.h; its header and libc's exclude each other. */
struct context64 {
	__u64	r8_to_r15[8];
	__u64	di, si, bp, bx, dx, ax, cx, sp, ip, flags;
	__u16	cs, gs, fs, ss;
	__u64	err, trapno, oldmask, cr2, fpstate, reserved[8];
};

struct context32 {
	__u16	gs, gsh, fs, fsh, es, esh, ds, dsh;
	__u32	di, si, bp, sp, bx, dx, cx, ax, trapno, err, ip;
	__u16	cs, csh;
	__u32	flags, sp_at_signal;
	__u16	ss, ssh;
	__u32	fpstate, oldmask, cr2;
};

/* arch/x86/include/asm/sigframe.h: the parts of the frames that the kernel reads. */
struct frame64 {
	__u64			pretcode;
	__u64			uc_flags, uc_link;
	stack_t			uc_stack;
	struct context64	context;
	__u64			sigmask;
};

struct framex32 {
	__u64			pretcode;
	__u32			uc_flags, uc_link;
	__u32			uc_stack[3], pad;
	struct context64	context;
	__u64			sigmask;
};

struct frame32 {
	__u32			pretcode, sig;
	struct context32	context;
	__u32			fpstate_unused[28];
	__u32			extramask;
};

struct rt_frame32 {
	__u32			pretcode, sig, pinfo, puc;
	__u32			info[32];
	__u32			uc_flags, uc_link, uc_stack[3];
	struct context32	context;
	__u64			sigmask;
};

#define LOW_SIZE	65536
/* Offset of the frame, which is alone in its page. */
#define FRAME_AT	32768

FIXTURE(sigreturn) {
	struct ring ring;
	union record *record;
	/* Below 4 GiB, with the jump at its start; dropped pages keep their contents. */
	char *low;
};

FIXTURE_VARIANT(sigreturn) {
	long nr;
	bool int80;
};

FIXTURE_VARIANT_ADD(sigreturn, rt_64) { .nr = SYS_rt_sigreturn };
FIXTURE_VARIANT_ADD(sigreturn, rt_x32) { .nr = __X32_SYSCALL_BIT | 513 };
FIXTURE_VARIANT_ADD(sigreturn, ia32) { .nr = 119, .int80 = true };
FIXTURE_VARIANT_ADD(sigreturn, rt_ia32) { .nr = 173, .int80 = true };

FIXTURE_SETUP(sigreturn)
{
	static const unsigned char jump[] = { 0xff, 0x25, 0, 0, 0, 0 };
	const void *landing = sigreturn_landing;
	int fd = memfd_create("sigreturn", MFD_CLOEXEC);

	self->record = malloc(sizeof(*self->record));
	ASSERT_EQ(0, ftruncate(fd, LOW_SIZE));
	self->low = mmap(NULL, LOW_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
			 MAP_SHARED | MAP_32BIT, fd, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->low);
	close(fd);
	memcpy(self->low, jump, sizeof(jump));
	memcpy(self->low + sizeof(jump), &landing, sizeof(landing));
}

FIXTURE_TEARDOWN(sigreturn)
{
	ring_close(&self->ring);
	free(self->record);
}

static void fill_context64(struct context64 *context, const char *ip, const char *sp)
{
	context->ip = (uintptr_t)ip;
	context->sp = (uintptr_t)sp;
	context->flags = EFLAGS;
	context->cs = USER_CS;
	context->ss = USER_DS;
}

static void fill_context32(struct context32 *context, const char *ip, const char *sp)
{
	context->ip = (uintptr_t)ip;
	context->sp = (uintptr_t)sp;
	context->flags = EFLAGS;
	context->cs = USER_CS;
	context->ss = USER_DS;
}

/* Returns the stack pointer of the system call, above the part that a handler's return pops. */
static void *make_frame(char *low, long nr)
{
	char *at = low + FRAME_AT, *sp = low + FRAME_AT / 2;

	if (nr == SYS_rt_sigreturn) {
		struct frame64 *frame = (void *)at;

		frame->uc_stack.ss_flags = SS_DISABLE;
		fill_context64(&frame->context, low, sp);
		return at + 8;
	}
	if (nr & __X32_SYSCALL_BIT) {
		struct framex32 *frame = (void *)at;

		fill_context64(&frame->context, low, sp);
		return at + 8;
	}
	if (nr == 119) {
		struct frame32 *frame = (void *)at;

		fill_context32(&frame->context, low, sp);
		return at + 8;
	}

	fill_context32(&((struct rt_frame32 *)at)->context, low, sp);
	return at + 4;
}

/*
 * Call sigreturn with a frame whose page is not present, under the events of self->ring:
 * one sample, whose trace shows the caller of sigreturn and not the restored context.
 */
static void sigreturn_test(struct __test_metadata *_metadata, FIXTURE_DATA(sigreturn) *self,
			   const FIXTURE_VARIANT(sigreturn) *variant)
{
	const char *leaf = variant->int80 ? sigreturn_leaf_int80 : sigreturn_leaf_syscall;
	void *sp = make_frame(self->low, variant->nr);
	long moved = unwind_stat("empty_moved");
	struct sample sample;
	__u64 cookie;
	pid_t child;
	int status;

	/* On a kernel without this entry the following ud2 raises SIGILL. */
	child = fork();
	if (!child) {
		sigreturn_asm(sp, variant->nr, variant->int80);
		_exit(0);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	if (variant->nr != SYS_rt_sigreturn && status)
		SKIP(return, "the kernel has no such system call");
	ASSERT_EQ(0, status);

	ASSERT_EQ(0, madvise(self->low + FRAME_AT, sysconf(_SC_PAGESIZE), MADV_DONTNEED));
	ring_enable(&self->ring);
	sigreturn_asm(sp, variant->nr, variant->int80);
	ring_disable(&self->ring);

	ASSERT_TRUE(ring_next_type(&self->ring, self->record, PERF_RECORD_SAMPLE));
	parse_sample(self->record, &sample);
	cookie = sample_cookie(&sample);
	EXPECT_NE(0, cookie);
	ASSERT_TRUE(ring_next_type(&self->ring, self->record, PERF_RECORD_CALLCHAIN_DEFERRED));
	EXPECT_EQ(cookie, as_deferred(self->record)->cookie);
	ASSERT_LE(1, as_deferred(self->record)->nr);
	EXPECT_EQ((uintptr_t)leaf, as_deferred(self->record)->ips[0]);
	EXPECT_FALSE(ring_next(&self->ring, self->record));
	/* The flush takes the trace; the later check for moved registers must not trigger. */
	EXPECT_EQ(moved, unwind_stat("empty_moved"));
}

TEST_F(sigreturn, shows_caller)
{
	struct perf_event_attr attr = tracepoint_attr("raw_syscalls/sys_enter");

	if (attr.type == ~0U)
		SKIP(return, "needs root, tracefs and CONFIG_FTRACE_SYSCALLS");
	ASSERT_EQ(0, ring_open(&self->ring, &attr, 0, -1, 32));
	ASSERT_EQ(0, ring_filter(&self->ring, "id", variant->nr));
	sigreturn_test(_metadata, self, variant);
}

/* A sample later in the system call: the page fault on the frame. */
TEST_F(sigreturn, shows_caller_while_frame_is_read)
{
	struct perf_event_attr attr = tracepoint_attr("exceptions/page_fault_kernel");
	unsigned long at = (uintptr_t)self->low + FRAME_AT;
	char filter[100];

	if (attr.type == ~0U)
		SKIP(return, "needs root, tracefs and the events of exceptions");
	ASSERT_EQ(0, ring_open(&self->ring, &attr, 0, -1, 32));
	snprintf(filter, sizeof(filter), "address >= %lu && address < %lu", at,
		 at + sysconf(_SC_PAGESIZE));
	ASSERT_EQ(0, ioctl(self->ring.fd, PERF_EVENT_IOC_SET_FILTER, filter));
	sigreturn_test(_metadata, self, variant);
}

static void __attribute__((noreturn)) ptrace_landing(void)
{
	syscall(SYS_exit_group, 42);
	__builtin_unreachable();
}

/* Start a child that stops itself before its getppid() under DEPTH known callers. */
static pid_t start_tracee(bool stops_again)
{
	int status;
	pid_t child = fork();

	if (!child) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		if (stops_again)
			raise(SIGSTOP);
		_exit(workload_syscall(DEPTH, SYS_getppid) == 77 ? 77 : 1);
	}
	return waitpid(child, &status, 0) == child ? child : -1;
}

/* Set the registers of a stopped child and let it run to its end; returns its exit code. */
static int finish_tracee(pid_t child, struct user_regs_struct *regs)
{
	int status;

	if (ptrace(PTRACE_SETREGS, child, 0, regs) || ptrace(PTRACE_CONT, child, 0, 0) ||
	    waitpid(child, &status, 0) != child)
		return -1;
	return WEXITSTATUS(status);
}

static void move_registers(struct user_regs_struct *regs)
{
	regs->rip = (uintptr_t)ptrace_landing;
	regs->rsp = ((regs->rsp - 1024) & ~15UL) - 8;
}

static void ptrace_test(struct __test_metadata *_metadata, FIXTURE_DATA(boundary) *self, bool move)
{
	struct user_regs_struct regs;
	struct seen seen;
	pid_t child = start_tracee(false);

	ASSERT_LT(0, child);
	self->attr = tracepoint_attr("syscalls/sys_enter_getppid");
	ASSERT_EQ(0, rings_open(&self->rings, &self->attr, child, -1, 32));
	rings_enable(&self->rings);
	ASSERT_EQ(0, stop_at_syscall(child, SYS_getppid, &regs));
	ASSERT_EQ(0, stop_at_syscall(child, SYS_getppid, &regs));
	if (move)
		move_registers(&regs);
	else
		regs.rax = 77;
	EXPECT_EQ(move ? 42 : 77, finish_tracee(child, &regs));

	/* The stop runs task work first, so the trace is taken before the registers change. */
	collect(&seen, &self->rings, self->record);
	ASSERT_EQ(1, seen.samples);
	ASSERT_EQ(1, seen.records);
	EXPECT_EQ(seen.sample[0].cookie, seen.record[0].cookie);
	EXPECT_EQ(-1, workload_check(seen.record[0].ips, seen.record[0].nr, DEPTH));
}

TEST_F(boundary, ptrace_moves_registers)
{
	ptrace_test(_metadata, self, true);
}

TEST_F(boundary, ptrace_sets_result)
{
	ptrace_test(_metadata, self, false);
}

/* Change the registers of a child stopped after its only sample: expect an empty trace. */
static void expect_withheld(struct __test_metadata *_metadata, FIXTURE_DATA(boundary) *self,
			    pid_t child, struct user_regs_struct *regs)
{
	long moved = unwind_stat("empty_moved");
	struct seen seen;

	move_registers(regs);
	EXPECT_EQ(42, finish_tracee(child, regs));

	collect(&seen, &self->rings, self->record);
	ASSERT_EQ(1, seen.samples);
	ASSERT_EQ(1, seen.records);
	EXPECT_NE(0, seen.sample[0].cookie);
	EXPECT_EQ(seen.sample[0].cookie, seen.record[0].cookie);
	EXPECT_EQ(0, seen.record[0].nr);
	EXPECT_EQ(moved + 1, unwind_stat("empty_moved"));
}

/* prev_state of sched_switch for a task that stops for its tracer. */
#define TRACED	8

/*
 * A sample in the stop itself: the context changes after it. The cause of the empty trace
 * is counted. A sample on the way to the stop, where the child may be
 * preempted, would get its trace in the stop, and so would all later ones.
 */
TEST_F(boundary, ptrace_after_sample)
{
	struct user_regs_struct regs;
	pid_t child;

	self->attr = tracepoint_attr("sched/sched_switch");
	if (self->attr.type == ~0U)
		SKIP(return, "no scheduler tracepoints");
	child = start_tracee(false);
	ASSERT_LT(0, child);
	ASSERT_EQ(0, rings_open(&self->rings, &self->attr, child, -1, 32));
	ASSERT_EQ(0, ring_filter(&self->rings.ring[0], "prev_state", TRACED));
	ASSERT_EQ(0, stop_at_syscall(child, SYS_getppid, &regs));
	/* Enable here: a sample in the stop at the entry would get its trace at the exit. */
	rings_enable(&self->rings);
	ASSERT_EQ(0, stop_at_syscall(child, SYS_getppid, &regs));
	expect_withheld(_metadata, self, child, &regs);
}

/* The same in a signal stop, after which the task continues without a handler. */
TEST_F(boundary, ptrace_after_sample_in_signal_stop)
{
	struct user_regs_struct regs;
	pid_t child;
	int status;

	self->attr = tracepoint_attr("sched/sched_switch");
	if (self->attr.type == ~0U)
		SKIP(return, "no scheduler tracepoints");
	child = start_tracee(true);
	ASSERT_LT(0, child);
	ASSERT_EQ(0, rings_open(&self->rings, &self->attr, child, -1, 32));
	ASSERT_EQ(0, ring_filter(&self->rings.ring[0], "prev_state", TRACED));
	rings_enable(&self->rings);
	ASSERT_EQ(0, ptrace(PTRACE_CONT, child, 0, 0));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	ASSERT_EQ(0, ptrace(PTRACE_GETREGS, child, 0, &regs));
	/* The child is still in raise()'s tkill(). */
	ASSERT_LE(0, (long)regs.orig_rax);
	expect_withheld(_metadata, self, child, &regs);
}

TEST_HARNESS_MAIN
