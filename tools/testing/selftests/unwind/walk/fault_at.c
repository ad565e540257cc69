// SPDX-License-Identifier: GPL-2.0
/*
 * One bad page, at each place where a walk reads user memory: each frame, whole and
 * across a page edge, the code at the instruction pointer, the top of the stack, the
 * call before a return address, the code at return addresses, the restorer and the
 * signal frame that it leads to. The page is not mapped, not readable, beyond the end
 * of its file, or has to be supplied by a process that is slow or never does it. The
 * expected trace is known for each place.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "fuse.h"
#include "hang.h"
#include "perf_ring.h"
#include "tracer.h"
#include "harness.h"

#define PAGE		4096UL
#define FRAMES		8
/* The frame that returns to the restorer: below it is a signal frame. */
#define SIGNAL_AT	3

/* Pages of the map. */
enum {
	/* The last instruction is the system call, */
	PAGE_LEAF	= 1,
	/* ... the first one of the next page returns from the innermost function, */
	PAGE_IP,
	/* ... to the address after the call that ends this page, */
	PAGE_CALL,
	/* ... and leaves the map. */
	PAGE_BACK,
	/* The return addresses of the frames. */
	PAGE_RA,
	PAGE_RESTORER,
	PAGE_INTERRUPTED,
	/* The stack pointer points here. */
	PAGE_STACK	= 9,
	PAGE_FRAMES	= 11,
	/* For each frame one page, one for its second half, one for a signal frame. */
	PAGE_PER_FRAME	= 3,
	PAGES		= PAGE_FRAMES + FRAMES * PAGE_PER_FRAME + 1,
};

#define PAGE_FRAME(i)		(PAGE_FRAMES + (i) * PAGE_PER_FRAME)
#define PAGE_SIGNAL		(PAGE_FRAME(SIGNAL_AT) + 2)

/* Bytes of a signal frame in front of its registers, and half of the registers. */
#define SIGNAL_HALF		(offsetof(ucontext_t, uc_mcontext) + 128)

/* How a page is bad. */
enum kind {
	KIND_UNMAPPED,
	KIND_NO_ACCESS,
	KIND_BEHIND_FILE,
	KIND_UFFD,
	KIND_FUSE,
};

/* What happens during the walk. */
enum end {
	/* The page stays as it is. */
	END_BAD,
	END_RESOLVED,
	/* SIGKILL while the walk waits. */
	END_KILLED,
	END_SERVER_DIES,
	/* The walk happens in an exiting task. */
	END_EXIT,
};

/* A place: the bad page, and what crosses a page edge. */
struct place {
	int	page;
	bool	split_frames;
	bool	split_signal;
};

/* Shared by the walked process and its parent. */
struct shared {
	char	content[PAGE];
	int	uffd;
	pid_t	parent;
};

/*
 * A system call at @leaf with this stack pointer and frame pointer; returns on a jump to
 * the address in r13.
 */
long fault_at_enter(unsigned long sp, unsigned long fp, unsigned long leaf, long nr, long arg);

asm(
"	.pushsection .text\n"
"	.type	fault_at_enter, @function\n"
"fault_at_enter:\n"
"	push	%rbp\n"
"	push	%rbx\n"
"	push	%r13\n"
"	mov	%rsp, %rbx\n"
"	lea	1f(%rip), %r13\n"
"	mov	%rdi, %rsp\n"
"	mov	%rsi, %rbp\n"
"	mov	%rcx, %rax\n"
"	mov	%r8, %rdi\n"
"	jmp	*%rdx\n"
"1:	mov	%rbx, %rsp\n"
"	pop	%r13\n"
"	pop	%rbx\n"
"	pop	%rbp\n"
"	ret\n"
"	.size	fault_at_enter, . - fault_at_enter\n"
"	.popsection\n"
);

FIXTURE(at) {
	struct perf_event_attr attr;
	struct shared *shared;
	union record *record;
	struct fuse fuse;
	const struct _fixture_variant_at *variant;
	struct place place;
	char *map;
	int tracer;
	__u64 want[32];
	unsigned int nr;
};

FIXTURE_VARIANT(at) {
	enum kind kind;
	enum end end;
	bool sync;
};

FIXTURE_VARIANT_ADD(at, unmapped) {
	.kind = KIND_UNMAPPED, .end = END_BAD
};

FIXTURE_VARIANT_ADD(at, no_access) {
	.kind = KIND_NO_ACCESS, .end = END_BAD
};

FIXTURE_VARIANT_ADD(at, behind_file) {
	.kind = KIND_BEHIND_FILE, .end = END_BAD
};

FIXTURE_VARIANT_ADD(at, uffd_resolved) {
	.kind = KIND_UFFD, .end = END_RESOLVED
};

FIXTURE_VARIANT_ADD(at, uffd_killed) {
	.kind = KIND_UFFD, .end = END_KILLED
};

FIXTURE_VARIANT_ADD(at, uffd_exit) {
	.kind = KIND_UFFD, .end = END_EXIT
};

FIXTURE_VARIANT_ADD(at, fuse_resolved) {
	.kind = KIND_FUSE, .end = END_RESOLVED
};

FIXTURE_VARIANT_ADD(at, fuse_killed) {
	.kind = KIND_FUSE, .end = END_KILLED
};

FIXTURE_VARIANT_ADD(at, fuse_server_dies) {
	.kind = KIND_FUSE, .end = END_SERVER_DIES
};

/* Synchronous reads: the walk cannot be killed, and still no other task waits. */
FIXTURE_VARIANT_ADD(at, fuse_sync_resolved) {
	.kind = KIND_FUSE, .end = END_RESOLVED, .sync = true
};

FIXTURE_VARIANT_ADD(at, fuse_sync_server_dies) {
	.kind = KIND_FUSE, .end = END_SERVER_DIES, .sync = true
};

FIXTURE_VARIANT_ADD(at, fuse_exit) {
	.kind = KIND_FUSE, .end = END_EXIT
};

FIXTURE_SETUP(at)
{
	const char *event = variant->end == END_EXIT ? "syscalls/sys_enter_exit" :
						       "syscalls/sys_enter_getppid";
	const char *why;

	self->attr = tracepoint_attr(event);
	if (self->attr.type == ~0U)
		SKIP(return, "needs root, tracefs and CONFIG_FTRACE_SYSCALLS");
	keep_tracepoint(event);
	self->tracer = tracer_open(&why);
	if (self->tracer < 0)
		SKIP(return, "%s", why);
	self->record = malloc(sizeof(*self->record));
	self->shared = mmap(NULL, sizeof(*self->shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->shared);
	self->shared->parent = getpid();
	self->map = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->map);
}

FIXTURE_TEARDOWN(at)
{
	free(self->record);
}

static unsigned long addr_of(const struct _test_data_at *self, int page, unsigned long offset)
{
	return (unsigned long)self->map + page * PAGE + offset;
}

static unsigned long return_address(const struct _test_data_at *self, int i)
{
	if (i == SIGNAL_AT)
		return addr_of(self, PAGE_RESTORER, 64);
	return addr_of(self, PAGE_RA, 64 * (i + 1));
}

static unsigned long frame_address(const struct _test_data_at *self, int i)
{
	/* Right below the signal frame, which is on the next page with all or half of it. */
	if (i == SIGNAL_AT && !self->place.split_frames)
		return addr_of(self, PAGE_SIGNAL, -16 -
			       (self->place.split_signal ? SIGNAL_HALF : 0));
	if (self->place.split_frames)
		return addr_of(self, PAGE_FRAME(i) + 1, -8);
	return addr_of(self, PAGE_FRAME(i) + 1, 64);
}

static void write_code(const struct _test_data_at *self)
{
	static const unsigned char restorer[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	static const unsigned char call[] = { 0xe8, 0, 0, 0, 0 };
	static const unsigned char jmp_r13[] = { 0x41, 0xff, 0xe5 };

	memcpy((void *)addr_of(self, PAGE_LEAF + 1, -2), "\x0f\x05", 2);
	*(unsigned char *)addr_of(self, PAGE_IP, 0) = 0xc3;
	memcpy((void *)addr_of(self, PAGE_CALL + 1, -5), call, sizeof(call));
	memcpy((void *)addr_of(self, PAGE_BACK, 0), jmp_r13, sizeof(jmp_r13));
	memcpy((void *)return_address(self, SIGNAL_AT), restorer, sizeof(restorer));
	memset((void *)addr_of(self, PAGE_INTERRUPTED, 0), 0x90, PAGE);
	/* Make it resident for an exiting task. */
	memset((void *)addr_of(self, PAGE_RA, 0), 0x90, PAGE);
}

static void write_stack(const struct _test_data_at *self)
{
	unsigned long fp = frame_address(self, SIGNAL_AT);
	ucontext_t *uc = (void *)(fp + 16);

	*(unsigned long *)addr_of(self, PAGE_STACK, 512) = addr_of(self, PAGE_BACK, 0);
	for (int i = 0; i < FRAMES; i++) {
		unsigned long *frame = (void *)frame_address(self, i);

		frame[0] = i + 1 < FRAMES ? frame_address(self, i + 1) : 0;
		frame[1] = return_address(self, i);
	}

	uc->uc_mcontext.gregs[REG_RIP] = addr_of(self, PAGE_INTERRUPTED, 100);
	uc->uc_mcontext.gregs[REG_RSP] = addr_of(self, PAGE_SIGNAL, 2048);
	uc->uc_mcontext.gregs[REG_RBP] = frame_address(self, SIGNAL_AT + 1);
	uc->uc_mcontext.gregs[REG_CSGSFS] = 0x33;
	/* The walker reads the top of the interrupted code's stack, too. */
	*(unsigned long *)addr_of(self, PAGE_SIGNAL, 2048) = 0;
}

/* Can the walker tell that the bad page is no code without reading it? */
static bool is_no_code(const struct _test_data_at *self)
{
	return self->variant->kind == KIND_UNMAPPED || self->variant->kind == KIND_NO_ACCESS;
}

/* Does the walk fail to read @page? */
static bool bad(const struct _test_data_at *self, int page)
{
	return self->place.page == page && self->variant->end != END_RESOLVED;
}

/* Is frame @i unreadable? */
static bool frame_bad(const struct _test_data_at *self, int i)
{
	unsigned long fp = frame_address(self, i);
	unsigned long start = addr_of(self, self->place.page, 0);

	if (self->variant->end == END_RESOLVED)
		return false;
	return (fp >= start && fp < start + PAGE) || (fp + 8 >= start && fp + 8 < start + PAGE);
}

/* Fill in the expected trace, self->want. */
static void expect(struct _test_data_at *self)
{
	self->nr = 0;
	self->want[self->nr++] = addr_of(self, PAGE_IP, 0);

	/*
	 * The caller of a function without a frame is found by the code. If the ip is not
	 * in code at all, the walker assumes a call that has just been made.
	 */
	if (!bad(self, PAGE_STACK) && !bad(self, PAGE_CALL) &&
	    (!bad(self, PAGE_IP) || is_no_code(self)))
		self->want[self->nr++] = addr_of(self, PAGE_BACK, 0);

	for (int i = 0; i < FRAMES; i++) {
		int code = i == SIGNAL_AT ? PAGE_RESTORER : PAGE_RA;

		if (frame_bad(self, i))
			break;
		if (bad(self, code) && is_no_code(self))
			break;
		self->want[self->nr++] = return_address(self, i);
		/* The interrupted code; its frame pointer leads to its callers. */
		if (i == SIGNAL_AT && !bad(self, PAGE_RESTORER) &&
		    !bad(self, PAGE_SIGNAL))
			self->want[self->nr++] = addr_of(self, PAGE_INTERRUPTED, 100);
	}
}

static int prot_of(int page)
{
	return PROT_READ | PROT_WRITE | (page < PAGE_STACK ? PROT_EXEC : 0);
}

static int map_file(void *addr, int fd, int prot)
{
	if (fd < 0)
		return -1;
	return mmap(addr, PAGE, prot, MAP_PRIVATE | MAP_FIXED, fd, 0) == addr ? 0 : -1;
}

/* Make a page bad; keep its contents for the process that resolves it. */
static int spoil(const struct _test_data_at *self, int page)
{
	void *addr = (void *)addr_of(self, page, 0);

	memcpy(self->shared->content, addr, PAGE);
	switch (self->variant->kind) {
	case KIND_UNMAPPED:
		return munmap(addr, PAGE);
	case KIND_NO_ACCESS:
		return mprotect(addr, PAGE, PROT_NONE);
	case KIND_BEHIND_FILE:
		return map_file(addr, memfd_create("empty", MFD_CLOEXEC), prot_of(page));
	case KIND_UFFD:
		if (madvise(addr, PAGE, MADV_DONTNEED))
			return -1;
		self->shared->uffd = hang_page(addr);
		return self->shared->uffd < 0;
	case KIND_FUSE:
		return map_file(addr, open(self->fuse.file, O_RDONLY), prot_of(page));
	}
	return -1;
}

/* Exit codes of the child. */
enum {
	CHILD_GOOD,
	CHILD_WRONG_RESULT,
	CHILD_WRONG_SIGNALS,
	CHILD_NO_SETUP,
	CHILD_EXIT	= 7,
};

static unsigned int signals;

static void on_signal(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	signals++;
	uc->uc_mcontext.gregs[REG_RIP] = uc->uc_mcontext.gregs[REG_R13];
}

static int catch_signals(void)
{
	struct sigaction action = {
		.sa_sigaction	= on_signal,
		.sa_flags	= SA_SIGINFO | SA_ONSTACK,
	};
	stack_t stack = { .ss_sp = malloc(65536), .ss_size = 65536 };

	return sigaltstack(&stack, NULL) || sigaction(SIGSEGV, &action, NULL) ||
	       sigaction(SIGBUS, &action, NULL);
}

/* Does the task itself need that page? */
static bool is_needed(const struct _test_data_at *self)
{
	return bad(self, PAGE_IP) || bad(self, PAGE_STACK);
}

static int child(const struct _test_data_at *self, int ready)
{
	bool exits = self->variant->end == END_EXIT;
	size_t code = PAGE_STACK * PAGE;
	long ret;

	if (mprotect(self->map, code, prot_of(0)) ||
	    mprotect(self->map + code, PAGES * PAGE - code, prot_of(PAGE_STACK)))
		return CHILD_NO_SETUP;
	write_code(self);
	write_stack(self);
	if (spoil(self, self->place.page) || catch_signals() || write(ready, "r", 1) != 1)
		return CHILD_NO_SETUP;

	ret = fault_at_enter(addr_of(self, PAGE_STACK, 512), frame_address(self, 0),
			     addr_of(self, PAGE_IP, -2), exits ? SYS_exit : SYS_getppid,
			     CHILD_EXIT);
	/* The result survives the signals that the task itself gets from a bad page. */
	if (ret != self->shared->parent)
		return CHILD_WRONG_RESULT;
	return signals == is_needed(self) ? CHILD_GOOD : CHILD_WRONG_SIGNALS;
}

/* While a walk waits for its page, no other task does. */
#define EXPECT_OTHERS_GO_ON() do {						\
	EXPECT_EQ(0, tracer_op(self->tracer, (struct unwind_test_op)OP_INIT(0)));	\
	EXPECT_EQ(0, tracer_op(self->tracer, (struct unwind_test_op)OP_CANCEL(0)));	\
} while (0)

/* Attend to a child whose walk waits for userfaultfd. */
static void attend_uffd(struct __test_metadata *_metadata, struct _test_data_at *self,
			int page, int pid, int pidfd)
{
	int uffd;

	if (self->variant->end == END_EXIT)
		return;
	uffd = syscall(SYS_pidfd_getfd, pidfd, self->shared->uffd, 0);
	ASSERT_LE(0, uffd);
	wait_for_fault(uffd);
	EXPECT_OTHERS_GO_ON();
	if (self->variant->end == END_RESOLVED) {
		EXPECT_EQ(0, resolve(uffd, self->map + page * PAGE, self->shared->content));
	} else {
		EXPECT_EQ(0, kill(pid, SIGKILL));
	}
	close(uffd);
}

/* The same for FUSE; this process is the server. */
static void attend_fuse(struct __test_metadata *_metadata, struct _test_data_at *self,
			int pid, int pidfd)
{
	bool waits = fuse_wait_for_fault(&self->fuse, pidfd);

	/* An exiting task does not request the page. */
	EXPECT_EQ(self->variant->end != END_EXIT, waits);
	if (!waits)
		return;
	EXPECT_OTHERS_GO_ON();
	switch (self->variant->end) {
	case END_RESOLVED:
		fuse_resolve(&self->fuse, self->shared->content);
		break;
	case END_SERVER_DIES:
		fuse_die(&self->fuse);
		return;
	default:
		/* The page is never supplied. */
		EXPECT_EQ(0, kill(pid, SIGKILL));
	}
	EXPECT_FALSE(fuse_wait_for_fault(&self->fuse, pidfd));
	EXPECT_EQ(1, self->fuse.reads);
}

static void check_status(struct __test_metadata *_metadata,
			 const struct _test_data_at *self, int status)
{
	if (self->variant->end == END_KILLED) {
		EXPECT_TRUE(WIFSIGNALED(status));
		EXPECT_EQ(SIGKILL, WTERMSIG(status));
		return;
	}
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(self->variant->end == END_EXIT ? CHILD_EXIT : CHILD_GOOD, WEXITSTATUS(status));
}

static void check_trace(struct __test_metadata *_metadata, struct _test_data_at *self,
			struct ring *ring)
{
	const struct deferred *deferred = as_deferred(self->record);

	ASSERT_TRUE(ring_next_type(ring, self->record, PERF_RECORD_CALLCHAIN_DEFERRED));
	EXPECT_EQ(self->nr, deferred->nr);
	for (unsigned int i = 0; i < self->nr && i < deferred->nr; i++) {
		EXPECT_EQ(self->want[i], deferred->ips[i]) {
			TH_LOG("entry %u", i);
		}
	}
	EXPECT_FALSE(ring_next_type(ring, self->record, PERF_RECORD_CALLCHAIN_DEFERRED));
}

/* Test one place: a child walks, this process attends to it and checks the trace. */
static void walk(struct __test_metadata *_metadata, struct _test_data_at *self)
{
	int go[2], ready[2], status, pidfd;
	struct ring ring;
	pid_t pid;
	char c;

	if (self->variant->kind == KIND_FUSE) {
		status = fuse_mount(&self->fuse, self->variant->sync);
		if (status == -ENODEV)
			SKIP(return, "needs CONFIG_FUSE_FS");
		ASSERT_EQ(0, status);
	}
	ASSERT_EQ(0, pipe(go));
	ASSERT_EQ(0, pipe(ready));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (self->variant->kind == KIND_FUSE)
			close(self->fuse.fd);
		if (read(go[0], &c, 1) != 1)
			_exit(CHILD_NO_SETUP);
		_exit(child(self, ready[1]));
	}
	close(ready[1]);
	pidfd = syscall(SYS_pidfd_open, pid, 0);
	ASSERT_LE(0, pidfd);
	ASSERT_EQ(0, ring_open(&ring, &self->attr, pid, -1, 8));
	ring_enable(&ring);
	ASSERT_EQ(1, write(go[1], "g", 1));

	if (self->variant->kind == KIND_FUSE)
		attend_fuse(_metadata, self, pid, pidfd);
	else if (read(ready[0], &c, 1) == 1 && self->variant->kind == KIND_UFFD)
		attend_uffd(_metadata, self, self->place.page, pid, pidfd);

	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_NO_SETUP)
		SKIP(return, "cannot make such a page");
	check_status(_metadata, self, status);
	expect(self);
	check_trace(_metadata, self, &ring);

	if (self->variant->kind == KIND_FUSE)
		fuse_unmount(&self->fuse);
	ring_close(&ring);
	close(pidfd);
	close(ready[0]);
	close(go[0]);
	close(go[1]);
}

#define WALK(...) do {								\
	self->variant = variant;						\
	self->place = (struct place){ __VA_ARGS__ };				\
	walk(_metadata, self);				\
	if (_metadata->exit_code != KSFT_PASS) {				\
		TH_LOG("page %d", self->place.page);				\
		return;								\
	}									\
} while (0)

TEST_F(at, each_frame)
{
	for (int i = 0; i < FRAMES; i++) {
		/* The signal frame comes right after its frame, on the page above. */
		WALK(.page = PAGE_FRAME(i) + 1);
	}
}

TEST_F(at, lower_half_of_each_frame)
{
	for (int i = 0; i < FRAMES; i++)
		WALK(.page = PAGE_FRAME(i), .split_frames = true);
}

TEST_F(at, upper_half_of_each_frame)
{
	for (int i = 0; i < FRAMES; i++) {
		/* This page holds the signal frame, too. */
		WALK(.page = PAGE_FRAME(i) + 1, .split_frames = true);
	}
}

TEST_F(at, innermost_function)
{
	static const int pages[] = { PAGE_IP, PAGE_STACK, PAGE_CALL };

	for (unsigned int i = 0; i < ARRAY_SIZE(pages); i++)
		WALK(.page = pages[i]);
}

TEST_F(at, signal_frame)
{
	WALK(.page = PAGE_SIGNAL);
	WALK(.page = PAGE_SIGNAL, .split_signal = true);
	WALK(.page = PAGE_RESTORER);
}

TEST_F(at, code_of_callers)
{
	WALK(.page = PAGE_RA);
}

TEST_HARNESS_MAIN
