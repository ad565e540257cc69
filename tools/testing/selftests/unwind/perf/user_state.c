// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user state: registers and stack of a kernel entry come once, in a record with the
 * cookie of its samples and the layout of the user ABI. The stack is complete where a copy in
 * the sample would not be, and never belongs to another position.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "exec_child.h"
#include "hang.h"
#include "perf_ring.h"
#include "state_record.h"
#include "swap.h"
#include "tracer.h"
#include "workload.h"
#include "harness.h"

#define DEPTH		10
#define PAGE		4096UL
#define GETPPID		"syscalls/sys_enter_getppid"
#define VSYSCALL_TIME	0xffffffffff600400UL

FIXTURE(state) {
	struct perf_event_attr attr;
	union record *record;
	struct rings rings;
	struct ring *ring;
	char *stack;
};

FIXTURE_SETUP(state)
{
	self->attr = state_attr(GETPPID);
	if (self->attr.type == ~0U)
		SKIP(return, "needs root, tracefs and CONFIG_FTRACE_SYSCALLS");
	self->record = malloc(sizeof(*self->record));
	self->ring = &self->rings.ring[0];
	self->stack = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->stack);
	/* The last page does not belong to the stack. */
	ASSERT_EQ(0, mprotect(self->stack + 3 * PAGE, PAGE, PROT_NONE));
}

FIXTURE_TEARDOWN(state)
{
	rings_close(&self->rings);
	munmap(self->stack, 4 * PAGE);
	free(self->record);
}

#define OPEN(pid)	ASSERT_EQ(0, rings_open(&self->rings, &self->attr, pid, -1, 128))

/* Sample one system call. */
#define SAMPLE_GETPPID() do {							\
	OPEN(0);								\
	rings_enable(&self->rings);						\
	workload_syscall(DEPTH, SYS_getppid);					\
	rings_disable(&self->rings);						\
} while (0)

/* The next sample has neither registers nor stack, and this cookie. */
#define NEXT_SAMPLE(cookie) do {						\
	struct sample sample_;							\
										\
	ASSERT_TRUE(ring_next_type(self->ring, self->record, PERF_RECORD_SAMPLE));	\
	parse_sample(self->record, &sample_);					\
	cookie = sample_cookie(&sample_);					\
	EXPECT_NE(0, cookie);							\
	EXPECT_EQ(0, user_part(self->record)[0]);				\
	EXPECT_EQ(0, user_part(self->record)[1]);				\
	EXPECT_EQ((char *)self->record + self->record->header.size,		\
		  (char *)(user_part(self->record) + 2));			\
} while (0)

#define NEXT_STATE(state) do {							\
	ASSERT_TRUE(ring_next_type(self->ring, self->record,			\
				   PERF_RECORD_USER_STATE_DEFERRED));		\
	parse_state(self->record, &(state));					\
	EXPECT_EQ(0, (state).rest);						\
	EXPECT_NE(0, (state).cookie);						\
} while (0)

/* The next sample and the next state belong to the same kernel entry. */
#define NEXT_PAIR(state) do {							\
	__u64 cookie_;								\
										\
	NEXT_SAMPLE(cookie_);							\
	NEXT_STATE(state);							\
	EXPECT_EQ(cookie_, (state).cookie);					\
} while (0)

#define EXPECT_NO_MORE()							\
	EXPECT_FALSE(ring_next_type(self->ring, self->record,			\
				    PERF_RECORD_USER_STATE_DEFERRED))

static long call_on_stack(FIXTURE_DATA(state) *self, long nr)
{
	return workload_call_on(self->stack + 3 * PAGE, DEPTH, (const long[7]){ nr });
}

/* All parts of the record are correct, and the copy ends where the stack ends. */
TEST_F(state, record)
{
	struct state state;

	OPEN(0);
	rings_enable(&self->rings);
	call_on_stack(self, SYS_getppid);
	rings_disable(&self->rings);
	NEXT_PAIR(state);
	EXPECT_FALSE(state.changed);
	EXPECT_EQ((__u32)gettid(), state.tid);
	EXPECT_EQ(PERF_SAMPLE_REGS_ABI_64, state.abi);
	EXPECT_TRUE(workload_is_leaf(state.ip));
	EXPECT_EQ(state.ip, state.reg_ip);
	EXPECT_EQ(state.sp, state.reg_sp);
	ASSERT_LE((uintptr_t)self->stack, state.sp);
	/* Trimmed at the end of the mapping, to less than the requested size. */
	EXPECT_GT(STATE_STACK, state.size);
	EXPECT_EQ((uintptr_t)self->stack + 3 * PAGE - state.sp, state.size);
	EXPECT_EQ(state.size, state.dyn_size);
	EXPECT_EQ(0, memcmp(state.stack, (void *)state.sp, state.size));
	/* The frame pointer points into the copy. */
	EXPECT_LE(state.sp, state.bp);
	EXPECT_GT(state.sp + state.size, state.bp);
	EXPECT_NO_MORE();
}

/* The copy of a large stack has the requested size. */
TEST_F(state, size)
{
	static const __u32 sizes[] = { 0, 8, 256, 8192, 65528 };
	struct state state;
	char room[80000];

	memset(room, 1, sizeof(room));
	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		self->attr.sample_stack_user = sizes[i];
		SAMPLE_GETPPID();
		NEXT_PAIR(state);
		if (sizes[i] < 65528) {
			EXPECT_EQ(sizes[i], state.size);
		} else {
			/* Less, because the 16-bit size includes the header. */
			EXPECT_LT(65000, state.size);
			EXPECT_GE(65535, self->record->header.size);
		}
		EXPECT_EQ(state.size, state.dyn_size);
		rings_close(&self->rings);
	}
}

/* One record per kernel entry, for several samples, and several events in a buffer. */
TEST_F(state, once_per_entry)
{
	struct perf_event_attr more = state_attr("syscalls/sys_exit_getppid");
	struct state state, before = {};
	__u64 cookie, first;

	OPEN(0);
	ASSERT_EQ(0, rings_share(&self->rings, &more, 0));
	ASSERT_EQ(0, rings_share(&self->rings, &self->attr, 0));
	rings_enable(&self->rings);
	for (int i = 0; i < 3; i++)
		workload_syscall(DEPTH, SYS_getppid);
	rings_disable(&self->rings);
	for (int i = 0; i < 3; i++) {
		NEXT_SAMPLE(first);
		NEXT_SAMPLE(cookie);
		EXPECT_EQ(first, cookie);
		NEXT_SAMPLE(cookie);
		EXPECT_EQ(first, cookie);
		NEXT_STATE(state);
		EXPECT_EQ(first, state.cookie);
		EXPECT_NE(before.cookie, state.cookie);
		before = state;
	}
	EXPECT_NO_MORE();
}

/* Marker and cookie are present even if the callchain is otherwise empty. */
TEST_F(state, no_callchain_at_all)
{
	struct sample sample;
	struct state state;
	__u64 cookie;

	self->attr.exclude_callchain_kernel = 1;
	SAMPLE_GETPPID();
	NEXT_SAMPLE(cookie);
	parse_sample(self->record, &sample);
	EXPECT_EQ(2, sample.nr);
	NEXT_STATE(state);
	EXPECT_EQ(cookie, state.cookie);
}

/* With an in-place user part of the callchain, and with a deferred one. */
TEST_F(state, with_callchain)
{
	struct sample sample;
	struct state state;
	__u64 cookie, nr;

	self->attr.exclude_callchain_user = 0;
	SAMPLE_GETPPID();
	NEXT_SAMPLE(cookie);
	parse_sample(self->record, &sample);
	EXPECT_LT(0, sample_part(&sample, PERF_CONTEXT_USER, &nr));
	NEXT_STATE(state);
	EXPECT_EQ(cookie, state.cookie);
	rings_close(&self->rings);

	self->attr.defer_callchain = 1;
	SAMPLE_GETPPID();
	NEXT_SAMPLE(cookie);
	parse_sample(self->record, &sample);
	EXPECT_EQ(-1, sample_part(&sample, PERF_CONTEXT_USER, &nr));
	ASSERT_TRUE(ring_next(self->ring, self->record));
	ASSERT_EQ(PERF_RECORD_CALLCHAIN_DEFERRED, self->record->header.type);
	EXPECT_EQ(cookie, as_deferred(self->record)->cookie);
	EXPECT_EQ(-1, workload_check(as_deferred(self->record)->ips,
				     as_deferred(self->record)->nr, DEPTH));
	NEXT_STATE(state);
	EXPECT_EQ(cookie, state.cookie);
}

/* Registers without stack, and stack without registers. */
TEST_F(state, parts)
{
	static const __u64 without[] = { PERF_SAMPLE_STACK_USER, PERF_SAMPLE_REGS_USER };
	const __u64 *at;

	for (unsigned int i = 0; i < ARRAY_SIZE(without); i++) {
		self->attr = state_attr(GETPPID);
		self->attr.sample_type &= ~without[i];
		SAMPLE_GETPPID();
		ASSERT_TRUE(ring_next_type(self->ring, self->record, PERF_RECORD_SAMPLE));
		at = user_part(self->record);
		EXPECT_EQ(0, *at++);
		EXPECT_EQ((char *)self->record + self->record->header.size, (char *)at);
		ASSERT_TRUE(ring_next(self->ring, self->record));
		ASSERT_EQ(PERF_RECORD_USER_STATE_DEFERRED, self->record->header.type);
		/* The ABI is set even if no registers are sampled. */
		at = self->record->words + 4;
		EXPECT_EQ(PERF_SAMPLE_REGS_ABI_64, *at++);
		if (without[i] == PERF_SAMPLE_STACK_USER) {
			/* Header, cookie, ip, sp, abi, registers, size, sample_id. */
			EXPECT_EQ((1 + 4 + STATE_NR_REGS + 1 + 3) * 8, self->record->header.size);
			EXPECT_EQ(0, at[STATE_NR_REGS]);
		} else {
			EXPECT_EQ(STATE_STACK, *at);
		}
		rings_close(&self->rings);
	}
}

TEST_F(state, bad_attrs)
{
	struct perf_event_attr attr = self->attr;

	attr.sample_type &= ~PERF_SAMPLE_CALLCHAIN;
	EXPECT_EQ(-EINVAL, perf_open(&attr, 0, -1, -1, 0));
	attr = self->attr;
	attr.sample_type &= ~(PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER);
	EXPECT_EQ(-EINVAL, perf_open(&attr, 0, -1, -1, 0));
	attr.defer_callchain = 1;
	EXPECT_EQ(-EINVAL, perf_open(&attr, 0, -1, -1, 0));
}

/* A state that no event receives is counted. */
TEST_F(state, unheard)
{
	long unheard = unwind_stat("states_unheard"), states = unwind_stat("states");
	__u64 cookie;

	self->attr.defer_output = 0;
	SAMPLE_GETPPID();
	NEXT_SAMPLE(cookie);
	EXPECT_NO_MORE();
	if (unheard < 0)
		SKIP(return, "needs root and debugfs");
	EXPECT_LE(unheard + 1, unwind_stat("states_unheard"));
	EXPECT_EQ(states, unwind_stat("states"));
}

/* Pages that were swapped out are read in before the copy. */
TEST_F(state, paged_out)
{
	struct state state;
	pid_t child;
	int status;

	if (!have_swap())
		SKIP(return, "no swap device is active");
	/* Pin: new pages stay in a per-CPU batch, which reclaim does not scan. */
	ASSERT_EQ(0, pin_to(0));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		/* Map in the child: pages shared with the parent would not be swapped out. */
		char *map = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		memset(map, 0x5a, 4 * PAGE);
		raise(SIGSTOP);
		if (page_out(map + PAGE, 3, 3) < 3)
			_exit(3);
		/* The frame is in a resident page, the pages of its callers are not. */
		workload_call_fp(map + PAGE, 0, (const long[7]){ SYS_getppid });
		_exit(0);
	}
	ASSERT_EQ(child, waitpid(child, &status, WUNTRACED));
	OPEN(child);
	rings_enable(&self->rings);
	kill(child, SIGCONT);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	if (WEXITSTATUS(status) == 3)
		SKIP(return, "the pages did not go to swap");
	NEXT_PAIR(state);
	EXPECT_EQ(STATE_STACK, state.dyn_size);
	EXPECT_EQ(0x5a5a5a5a5a5a5a5a, state.stack[STATE_STACK / 8 - 1]);
}

/* A task that waits for a stack page of userfaultfd can be killed. */
TEST_F(state, killed_in_copy)
{
	struct hanging_stack hang;
	struct state state;
	int ready[2], status, uffd, pidfd;
	pid_t child;

	ASSERT_EQ(0, pipe(ready));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (hanging_stack_init(&hang))
			_exit(3);
		raise(SIGSTOP);
		if (write(ready[1], &hang.uffd, sizeof(hang.uffd)) != sizeof(hang.uffd))
			_exit(4);
		/* The top of the stack is in the page. */
		workload_call_fp(hang.page + 64, 0, (const long[7]){ SYS_getppid });
		_exit(0);
	}
	ASSERT_EQ(child, waitpid(child, &status, WUNTRACED));
	if (WIFEXITED(status))
		SKIP(return, "needs userfaultfd");
	OPEN(child);
	rings_enable(&self->rings);
	kill(child, SIGCONT);
	ASSERT_EQ(sizeof(uffd), read(ready[0], &uffd, sizeof(uffd)));
	pidfd = syscall(SYS_pidfd_open, child, 0);
	uffd = syscall(SYS_pidfd_getfd, pidfd, uffd, 0);
	ASSERT_LE(0, uffd);
	wait_for_fault(uffd);
	ASSERT_EQ(0, kill(child, SIGKILL));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	NEXT_STATE(state);
	EXPECT_EQ(0, state.dyn_size);
	close(uffd);
	close(pidfd);
}

static void __attribute__((noreturn)) landing(void)
{
	_exit(42);
}

/* prev_state of sched_switch for a task that stops for its tracer. */
#define TRACED	8

/* User mode resumes elsewhere: a flag says so, without registers and stack. */
TEST_F(state, moved_by_ptrace)
{
	long moved = unwind_stat("states_moved");
	struct user_regs_struct regs, old;
	struct state state;
	pid_t child;
	int status;

	self->attr = state_attr("sched/sched_switch");
	if (self->attr.type == ~0U)
		SKIP(return, "no scheduler tracepoints");
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		workload_syscall(DEPTH, SYS_getppid);
		_exit(1);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	OPEN(child);
	ASSERT_EQ(0, ring_filter(self->ring, "prev_state", TRACED));
	ASSERT_EQ(0, stop_at_syscall(child, SYS_getppid, &regs));
	rings_enable(&self->rings);
	ASSERT_EQ(0, stop_at_syscall(child, SYS_getppid, &regs));
	old = regs;
	regs.rip = (uintptr_t)landing;
	regs.rsp = ((regs.rsp - 1024) & ~15UL) - 8;
	ASSERT_EQ(0, ptrace(PTRACE_SETREGS, child, 0, &regs));
	ASSERT_EQ(0, ptrace(PTRACE_CONT, child, 0, 0));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(42, WEXITSTATUS(status));

	NEXT_PAIR(state);
	EXPECT_TRUE(state.changed);
	EXPECT_EQ(old.rip, state.ip);
	EXPECT_EQ(old.rsp, state.sp);
	EXPECT_EQ(0, state.abi);
	EXPECT_EQ(0, state.size);
	EXPECT_EQ(moved + 1, unwind_stat("states_moved"));
}

/*
 * A kernel entry with requests of an event without stack only, after an entry with a request
 * of an event with stack: the former entry's stack must not be copied.
 */
TEST_F(state, of_this_entry)
{
	struct perf_event_attr regs_only = state_attr("sched/sched_switch");
	struct user_regs_struct regs;
	struct state state;
	__u64 cookie;
	pid_t child;
	int status;

	regs_only.sample_type &= ~PERF_SAMPLE_STACK_USER;
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		workload_syscall(DEPTH, SYS_getppid);
		workload_syscall(DEPTH, SYS_getpid);
		workload_syscall(DEPTH, SYS_getpid);
		_exit(1);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	OPEN(child);
	ASSERT_EQ(0, rings_open(&self->rings, &regs_only, child, -1, 8));
	ASSERT_EQ(0, ring_filter(&self->rings.ring[1], "prev_state", TRACED));
	rings_enable(&self->rings);
	ASSERT_EQ(0, stop_at_syscall(child, SYS_getppid, &regs));
	ASSERT_EQ(0, stop_at_syscall(child, SYS_getppid, &regs));
	/* Sample ptrace stops: the first leaves the position, the second moves it. */
	ASSERT_EQ(0, stop_at_syscall(child, SYS_getpid, &regs));
	ASSERT_EQ(0, stop_at_syscall(child, SYS_getpid, &regs));
	ASSERT_EQ(0, stop_at_syscall(child, SYS_getpid, &regs));
	regs.rip = (uintptr_t)landing;
	regs.rsp = ((regs.rsp - 1024) & ~15UL) - 8;
	ASSERT_EQ(0, ptrace(PTRACE_SETREGS, child, 0, &regs));
	ASSERT_EQ(0, ptrace(PTRACE_CONT, child, 0, 0));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(42, WEXITSTATUS(status));

	NEXT_SAMPLE(cookie);
	NEXT_STATE(state);
	EXPECT_EQ(cookie, state.cookie);
	EXPECT_EQ(STATE_STACK, state.dyn_size);
	for (int moved = 0; moved < 2; moved++) {
		NEXT_STATE(state);
		EXPECT_NE(cookie, state.cookie);
		EXPECT_EQ(moved, state.changed);
		EXPECT_EQ(moved ? 0 : PERF_SAMPLE_REGS_ABI_64, state.abi);
		EXPECT_EQ(0, state.size);
	}
	EXPECT_NO_MORE();
}

static void handler(int sig)
{
	workload_syscall(3, SYS_getppid);
}

/* Signal delivery and sigreturn change registers: the state is taken before. */
TEST_F(state, signals)
{
	struct perf_event_attr more = state_attr("raw_syscalls/sys_enter");
	unsigned int records = 0, samples = 0;
	struct state state;

	self->attr.sample_stack_user = 64;
	more.sample_stack_user = 64;
	OPEN(0);
	ASSERT_EQ(0, rings_share(&self->rings, &more, 0));
	signal(SIGUSR1, handler);
	rings_enable(&self->rings);
	for (int i = 0; i < 100; i++)
		raise(SIGUSR1);
	rings_disable(&self->rings);
	while (ring_next(self->ring, self->record)) {
		if (self->record->header.type == PERF_RECORD_SAMPLE)
			samples++;
		if (self->record->header.type != PERF_RECORD_USER_STATE_DEFERRED)
			continue;
		parse_state(self->record, &state);
		EXPECT_FALSE(state.changed);
		EXPECT_EQ(state.sp, state.reg_sp);
		EXPECT_EQ(0, state.rest);
		records++;
	}
	/* At least in tkill(), getppid() and rt_sigreturn(). */
	EXPECT_LE(300, records);
	EXPECT_LE(records, samples);
}

static char *const exec_argv[] = { "true", NULL };
static char *const exec_envp[] = { NULL };

/* In exec the old state is recorded before it is gone; then there is none until user mode. */
TEST_F(state, exec)
{
	struct perf_event_attr more = state_attr("sched/sched_process_exec");
	unsigned int with = 0, without = 0, records = 0;
	struct sample sample;
	struct state state;
	int go[2], status;
	pid_t child;
	char c;

	ASSERT_EQ(0, pipe(go));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		if (read(go[0], &c, 1) == 1)
			workload_syscall(DEPTH, SYS_execve, (long)"/bin/true", (long)exec_argv,
					 (long)exec_envp);
		_exit(1);
	}
	self->attr = state_attr("syscalls/sys_enter_execve");
	OPEN(child);
	ASSERT_EQ(0, rings_share(&self->rings, &more, child));
	rings_enable(&self->rings);
	ASSERT_EQ(1, write(go[1], "", 1));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
	while (ring_next(self->ring, self->record)) {
		if (self->record->header.type == PERF_RECORD_SAMPLE) {
			parse_sample(self->record, &sample);
			with += !!sample_cookie(&sample);
			without += !sample_cookie(&sample);
			EXPECT_EQ(0, user_part(self->record)[0]);
			EXPECT_EQ(0, user_part(self->record)[1]);
		} else if (self->record->header.type == PERF_RECORD_USER_STATE_DEFERRED) {
			parse_state(self->record, &state);
			EXPECT_FALSE(state.changed);
			EXPECT_TRUE(workload_is_leaf(state.ip));
			EXPECT_EQ(STATE_STACK, state.dyn_size);
			records++;
		}
	}
	EXPECT_EQ(1, with);
	EXPECT_EQ(1, without);
	EXPECT_EQ(1, records);
}

/* Repeated exec: no record says that the position changed. */
TEST_F(state, exec_loop)
{
	unsigned int records = 0, others = 0;
	struct exec_loop loop;
	struct state state;
	__u64 cookie = 0;
	time_t end;

	self->attr = state_attr("syscalls/sys_enter_execve");
	self->attr.sample_stack_user = 64;
	ASSERT_EQ(0, exec_loop_prepare(&loop));
	OPEN(loop.pid);
	rings_enable(&self->rings);
	ASSERT_EQ(0, exec_loop_start(&loop));
	for (end = time(NULL) + 100; time(NULL) < end && records < 200; ) {
		if (!ring_next(self->ring, self->record)) {
			usleep(1000);
			continue;
		}
		if (self->record->header.type == PERF_RECORD_SAMPLE) {
			struct sample sample;

			parse_sample(self->record, &sample);
			cookie = sample_cookie(&sample);
			EXPECT_NE(0, cookie);
		}
		if (self->record->header.type != PERF_RECORD_USER_STATE_DEFERRED)
			continue;
		parse_state(self->record, &state);
		EXPECT_EQ(cookie, state.cookie);
		EXPECT_FALSE(state.changed);
		EXPECT_EQ(64, state.dyn_size);
		EXPECT_EQ(state.ip, state.reg_ip);
		/* The first exec was called from another program. */
		others += state.ip != loop.entry;
		records++;
	}
	EXPECT_TRUE(exec_loop_stop(&loop));
	EXPECT_LT(20, records);
	EXPECT_GE(1, others);
}

void state_probed(void);
extern const char state_probed_at[];

/* The kernel does not emulate this instruction but steps it out of line. */
asm(
"state_probed:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"state_probed_at:\n"
"	mov	%rbx, %rbx\n"
"	pop	%rbp\n"
"	ret\n"
);

/* The state at a probed instruction is that before it, with the original ip. */
TEST_F(state, uprobe)
{
	struct state state;
	char file[PATH_MAX];

	if (uprobe_attr(&self->attr, state_probed_at, file, sizeof(file)))
		SKIP(return, "needs CONFIG_UPROBE_EVENTS");
	defer_state(&self->attr);
	self->attr.sample_stack_user = 64;
	OPEN(0);
	rings_enable(&self->rings);
	for (int i = 0; i < 3; i++)
		state_probed();
	rings_disable(&self->rings);
	for (int i = 0; i < 3; i++) {
		NEXT_PAIR(state);
		EXPECT_FALSE(state.changed);
		EXPECT_EQ((uintptr_t)state_probed_at, state.ip);
		EXPECT_EQ((uintptr_t)state_probed_at, state.reg_ip);
		EXPECT_EQ(state.sp, state.bp);
		EXPECT_EQ(64, state.dyn_size);
	}
	EXPECT_NO_MORE();
}

/* An emulated vsyscall changes ip and sp: the state is taken before. */
TEST_F(state, vsyscall)
{
	struct state state;
	__u64 cookie;
	pid_t child;
	int go[2], status;
	char c;

	self->attr = state_attr("exceptions/page_fault_user");
	if (self->attr.type == ~0U)
		SKIP(return, "no page fault tracepoints");
	self->attr.exclude_callchain_user = 0;
	self->attr.defer_callchain = 1;
	ASSERT_EQ(0, pipe(go));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		if (read(go[0], &c, 1) == 1)
			((time_t (*)(time_t *))VSYSCALL_TIME)(NULL);
		_exit(0);
	}
	OPEN(child);
	ASSERT_EQ(0, ring_filter(self->ring, "address", VSYSCALL_TIME));
	rings_enable(&self->rings);
	ASSERT_EQ(1, write(go[1], "", 1));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	if (WIFSIGNALED(status))
		SKIP(return, "needs CONFIG_LEGACY_VSYSCALL_XONLY");
	NEXT_SAMPLE(cookie);
	ASSERT_TRUE(ring_next(self->ring, self->record));
	ASSERT_EQ(PERF_RECORD_CALLCHAIN_DEFERRED, self->record->header.type);
	EXPECT_EQ(cookie, as_deferred(self->record)->cookie);
	/* The caller of the vsyscall is in the callchain. */
	EXPECT_LT(2, as_deferred(self->record)->nr);
	EXPECT_EQ(VSYSCALL_TIME, as_deferred(self->record)->ips[0]);
	NEXT_STATE(state);
	EXPECT_EQ(cookie, state.cookie);
	EXPECT_FALSE(state.changed);
	EXPECT_EQ(VSYSCALL_TIME, state.ip);
	EXPECT_EQ(VSYSCALL_TIME, state.reg_ip);
	EXPECT_EQ(state.sp, state.reg_sp);
}

/* The record of an exiting task has the resident part of the stack. */
TEST_F(state, exit)
{
	struct state state;
	int go[2], status;
	pid_t child;
	char c;

	ASSERT_EQ(0, pipe(go));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		if (read(go[0], &c, 1) == 1)
			workload_syscall(DEPTH, SYS_exit, 7);
		_exit(1);
	}
	self->attr = state_attr("syscalls/sys_enter_exit");
	OPEN(child);
	rings_enable(&self->rings);
	ASSERT_EQ(1, write(go[1], "", 1));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(7, WEXITSTATUS(status));
	NEXT_PAIR(state);
	EXPECT_TRUE(workload_is_leaf(state.ip));
	EXPECT_EQ(STATE_STACK, state.dyn_size);
}

/* Stack pointers outside of any stack. */
TEST_F(state, hostile_stack_pointers)
{
	static const unsigned long tops[] = {
		8, PAGE, 0xffff888000000000, -8UL, 0x7ffffffff000, 1UL << 47, (1UL << 56) - PAGE,
	};
	struct state state;

	self->attr.sample_stack_user = 8192;
	for (unsigned int i = 0; i < ARRAY_SIZE(tops); i++) {
		pid_t child;
		int go[2], status;
		char c;

		ASSERT_EQ(0, pipe(go));
		child = fork();
		ASSERT_LE(0, child);
		if (!child) {
			if (read(go[0], &c, 1) == 1)
				asm volatile("mov %0, %%rsp; syscall; mov $60, %%eax; syscall"
					     :: "r" (tops[i]), "a" (SYS_getppid), "D" (0)
					     : "rcx", "r11", "memory");
			_exit(1);
		}
		OPEN(child);
		rings_enable(&self->rings);
		ASSERT_EQ(1, write(go[1], "", 1));
		ASSERT_EQ(child, waitpid(child, &status, 0));
		NEXT_PAIR(state);
		EXPECT_EQ(tops[i], state.sp);
		EXPECT_EQ(0, state.dyn_size);
		rings_close(&self->rings);
		close(go[0]);
		close(go[1]);
	}
}

TEST_HARNESS_MAIN
