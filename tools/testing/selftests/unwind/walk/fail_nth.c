// SPDX-License-Identifier: GPL-2.0
/*
 * The nth allocation or copy from user space fails, for each n until there is no nth:
 * in setting up events, in requests and walks, in clone, exec and exit with a request
 * pending. Each time the result is a known errno, or a trace that lacks some entries of
 * the complete one and has no others. Afterwards everything works as before.
 *
 * Each n runs in a new task, whose first walk has to allocate its buffer. A loop ends
 * when the kernel reports that the fault was not used up. The number of allocations
 * depends on the free objects of the allocators, so that the loop may miss those of the
 * walk: these get a loop of their own, which counts nothing else. The copies of the walk
 * get another one, which counts no allocations.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <elf.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inject.h"
#include "perf_ring.h"
#include "tracer.h"
#include "workload.h"
#include "harness.h"

#define GETPPID		"syscalls/sys_enter_getppid"
#define DEPTH		5U
#define DEEP		1900U
#define DEEP_STACK	(64 * 1024UL)
#define MAX_STACK	2000
/* No operation has that many places to fail. */
#define MAX_FAULTS	3000U

/* Exit codes of a child; an executed program has its own. */
enum {
	CHILD_GOOD,
	CHILD_NO_SETUP	= 3,
	CHILD_EXIT	= 7,
	CHILD_EXEC	= 9,
};

/* Results of a child. */
struct shared {
	/* Result of the operation, negative errno included. */
	long	ret;
	/* The operation ended without using the fault. */
	bool	unused;
	/* There is a trace: from the parent's ring, or from the child's own one. */
	bool	sampled;
	__u64	nr, ips[DEEP + 100];
};

/* The operations. They run in a child, and fill in @shared. */
typedef void operation_t(struct shared *shared, unsigned int nth);

static void sample(struct shared *shared, unsigned int nth)
{
	arm(nth);
	shared->ret = workload_syscall(DEPTH, SYS_getppid);
	shared->unused = disarm();
}

/* Map a resident stack; returns its end. */
static char *deep_stack(void)
{
	char *stack = mmap(NULL, DEEP_STACK, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (stack == MAP_FAILED)
		_exit(CHILD_NO_SETUP);
	return stack + DEEP_STACK;
}

static void sample_deep(struct shared *shared, unsigned int nth)
{
	char *stack = deep_stack();

	arm(nth);
	shared->ret = workload_call_on(stack, DEEP, (long[7]){ SYS_getppid });
	shared->unused = disarm();
}

static struct shared *handler_shared;
static unsigned int handler_nth;

static void handler(int sig)
{
	long call[7] = { SYS_getppid };

	arm(handler_nth);
	handler_shared->ret = workload_call_fp(NULL, (unsigned long)__builtin_frame_address(0),
					       call);
	handler_shared->unused = disarm();
}

static void sample_in_handler(struct shared *shared, unsigned int nth)
{
	handler_shared = shared;
	handler_nth = nth;
	signal(SIGUSR1, handler);
	workload_syscall(DEPTH, SYS_tkill, gettid(), SIGUSR1);
}

/* The C library's function has no frame: the walker finds its caller by the code. */
static void sample_without_frame(struct shared *shared, unsigned int nth)
{
	arm(nth);
	shared->ret = syscall(SYS_getppid);
	shared->unused = disarm();
}

/*
 * A failed allocation of a kernel stack logs a backtrace that looks like a splat. Provide
 * stacks: the kernel reuses those of tasks that ended on this CPU.
 */
static void have_kernel_stacks(void)
{
	pid_t pids[2];

	pin_to(0);
	for (int i = 0; i < 2; i++) {
		pids[i] = fork();
		if (!pids[i])
			_exit(0);
	}
	for (int i = 0; i < 2; i++)
		waitpid(pids[i], NULL, 0);
}

static void clone_starts(void)
{
	syscall(SYS_exit, CHILD_EXIT);
}

/* Share the memory: copying it in fork is not tested here. */
static void clone_pending(struct shared *shared, unsigned int nth)
{
	char *stack = deep_stack() - 56;
	int status = -1;
	long pid;

	/* The child pops a frame pointer and returns, which aligns the stack for a function. */
	((unsigned long *)stack)[1] = (unsigned long)clone_starts;
	arm(nth);
	pid = workload_syscall(DEPTH, SYS_clone, CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD,
			       (long)stack);
	shared->ret = pid;
	shared->unused = disarm();
	if (pid > 0 && (waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != CHILD_EXIT))
		_exit(CHILD_NO_SETUP);
}

static void exit_pending(struct shared *shared, unsigned int nth)
{
	arm(nth);
	workload_syscall(DEPTH, SYS_exit, CHILD_EXIT);
}

/* A program that only exits, so that most of the failures hit exec. */
static int tiny_program(void)
{
	static const unsigned char code[] = {
		/* mov $60,%eax; mov $9,%edi; syscall */
		0xb8, 60, 0, 0, 0, 0xbf, CHILD_EXEC, 0, 0, 0, 0x0f, 0x05,
	};
	struct {
		Elf64_Ehdr	header;
		Elf64_Phdr	segment;
		unsigned char	code[sizeof(code)];
	} file = {
		.header = {
			.e_ident	= { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3,
					    ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			.e_type		= ET_EXEC,
			.e_machine	= EM_X86_64,
			.e_version	= EV_CURRENT,
			.e_entry	= 0x400000 + offsetof(typeof(file), code),
			.e_phoff	= offsetof(typeof(file), segment),
			.e_ehsize	= sizeof(Elf64_Ehdr),
			.e_phentsize	= sizeof(Elf64_Phdr),
			.e_phnum	= 1,
		},
		.segment = {
			.p_type		= PT_LOAD,
			.p_flags	= PF_R | PF_X,
			.p_vaddr	= 0x400000,
			.p_filesz	= sizeof(file),
			.p_memsz	= sizeof(file),
			.p_align	= 4096,
		},
	};
	int fd = memfd_create("tiny", 0);

	memcpy(file.code, code, sizeof(code));
	if (fd < 0 || write(fd, &file, sizeof(file)) != sizeof(file))
		_exit(CHILD_NO_SETUP);
	return fd;
}

static void exec_pending(struct shared *shared, unsigned int nth)
{
	static const char * const argv[] = { "tiny", NULL };
	int fd = tiny_program();

	arm(nth);
	shared->ret = workload_syscall(DEPTH, SYS_execveat, fd, (long)"", (long)argv, 0,
				       AT_EMPTY_PATH);
	shared->unused = disarm();
}

/* From opening an event to reading its record, all in the task itself. */
static void own_event(struct shared *shared, unsigned int nth)
{
	struct perf_event_attr attr = tracepoint_attr(GETPPID);
	union record *record = malloc(sizeof(*record));
	struct ring ring;

	arm(nth);
	shared->ret = ring_open(&ring, &attr, 0, -1, 8);
	if (!shared->ret) {
		ring_enable(&ring);
		workload_syscall(DEPTH, SYS_getppid);
	}
	shared->unused = disarm();
	if (shared->ret)
		return;

	/* Enabling may have failed. */
	ring_enable(&ring);
	shared->sampled = ring_next_type(&ring, record, PERF_RECORD_CALLCHAIN_DEFERRED);
	if (shared->sampled) {
		shared->nr = as_deferred(record)->nr;
		memcpy(shared->ips, as_deferred(record)->ips, shared->nr * sizeof(__u64));
	}
	ring_drain(&ring);
	workload_syscall(DEPTH, SYS_getppid);
	if (!ring_next_type(&ring, record, PERF_RECORD_CALLCHAIN_DEFERRED))
		shared->ret = -ENODATA;
	ring_close(&ring);
}

FIXTURE(nth) {
	struct perf_event_attr attr;
	struct shared *shared;
	union record *record;
	int old_max;
	/* The complete trace, and how many traces lacked all or some of it. */
	__u64 whole[DEEP + 100], nr;
	unsigned int empty, shorter;
};

FIXTURE_VARIANT(nth) {
	operation_t *operation;
	/* Sampled by the parent, or NULL. */
	const char *event;
	/* Exit code of the child on success. */
	int exit_code;
	/* Number of callers; 0 if the trace has other entries, too. */
	unsigned int depth;
};

FIXTURE_VARIANT_ADD(nth, walk) {
	.operation = sample, .event = GETPPID, .depth = DEPTH,
};

FIXTURE_VARIANT_ADD(nth, deep_walk) {
	.operation = sample_deep, .event = GETPPID, .depth = DEEP,
};

FIXTURE_VARIANT_ADD(nth, signal_frame) {
	.operation = sample_in_handler, .event = GETPPID,
};

FIXTURE_VARIANT_ADD(nth, code) {
	.operation = sample_without_frame, .event = GETPPID,
};

FIXTURE_VARIANT_ADD(nth, clone) {
	.operation = clone_pending, .event = "syscalls/sys_enter_clone", .depth = DEPTH,
};

FIXTURE_VARIANT_ADD(nth, exec) {
	.operation = exec_pending, .event = "syscalls/sys_enter_execveat", .depth = DEPTH,
	.exit_code = CHILD_EXEC,
};

FIXTURE_VARIANT_ADD(nth, exit) {
	.operation = exit_pending, .event = "syscalls/sys_enter_exit", .depth = DEPTH,
	.exit_code = CHILD_EXIT,
};

FIXTURE_VARIANT_ADD(nth, own_event) {
	.operation = own_event, .depth = DEPTH,
};

FIXTURE_SETUP(nth)
{
	const char *event = variant->event ?: GETPPID;

	self->attr = tracepoint_attr(event);
	if (self->attr.type == ~0U)
		SKIP(return, "needs root, tracefs and CONFIG_FTRACE_SYSCALLS");
	self->attr.sample_max_stack = MAX_STACK;
	keep_tracepoint(event);
	if (!set_knobs())
		SKIP(return, INJECT_NEEDS);
	self->old_max = set_sysctl("kernel/perf_event_max_stack", MAX_STACK);
	ASSERT_LT(0, self->old_max);
	self->record = malloc(sizeof(*self->record));
	self->shared = mmap(NULL, sizeof(*self->shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->shared);
}

FIXTURE_TEARDOWN(nth)
{
	EXPECT_EQ(MAX_STACK, set_sysctl("kernel/perf_event_max_stack", self->old_max));
	clear_filters();
	restore_knobs();
	free(self->record);
}

/* Take the only trace, which must match the only sample. */
static void take_trace(struct __test_metadata *_metadata, struct _test_data_nth *self,
		       struct ring *ring)
{
	unsigned int samples = 0, records = 0;
	struct sample sample;
	__u64 cookie = 0;

	while (ring_next(ring, self->record)) {
		const struct deferred *deferred = as_deferred(self->record);

		if (self->record->header.type == PERF_RECORD_SAMPLE) {
			parse_sample(self->record, &sample);
			cookie = sample_cookie(&sample);
			samples++;
		} else if (self->record->header.type == PERF_RECORD_CALLCHAIN_DEFERRED) {
			EXPECT_EQ(cookie, deferred->cookie);
			self->shared->nr = deferred->nr;
			memcpy(self->shared->ips, deferred->ips, deferred->nr * sizeof(__u64));
			records++;
		}
	}
	EXPECT_EQ(1, samples);
	EXPECT_EQ(1, records);
	EXPECT_NE(0, cookie);
	self->shared->sampled = true;
}

/* Run a child with the nth failure; returns its exit status, results in self->shared. */
static int run(struct __test_metadata *_metadata, struct _test_data_nth *self,
	       const struct _fixture_variant_nth *variant, unsigned int nth)
{
	struct ring ring;
	siginfo_t info;
	int go[2], ready[2], status;
	pid_t pid;
	char c;

	memset(self->shared, 0, offsetof(struct shared, ips));
	ASSERT_EQ(0, pipe(go));
	ASSERT_EQ(0, pipe(ready));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!arm_init())
			_exit(CHILD_NO_SETUP);
		if (variant->operation == clone_pending)
			have_kernel_stacks();
		if (write(ready[1], "r", 1) != 1 || read(go[0], &c, 1) != 1)
			_exit(CHILD_NO_SETUP);
		variant->operation(self->shared, nth);
		_exit(CHILD_GOOD);
	}
	close(ready[1]);
	ASSERT_EQ(1, read(ready[0], &c, 1));
	if (variant->event) {
		ASSERT_EQ(0, ring_open(&ring, &self->attr, pid, -1, 32));
		ring_enable(&ring);
	}
	ASSERT_EQ(1, write(go[1], "g", 1));
	ASSERT_EQ(0, waitid(P_PID, pid, &info, WEXITED | WNOWAIT));
	self->shared->unused |= zombie_unused(pid);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	close(ready[0]);
	close(go[0]);
	close(go[1]);
	if (variant->event) {
		take_trace(_metadata, self, &ring);
		ring_close(&ring);
	}
	return status;
}

/* The only possible errors are lack of memory and a bad address. */
static void check_result(struct __test_metadata *_metadata, struct _test_data_nth *self,
			 const struct _fixture_variant_nth *variant, int status)
{
	long ret = self->shared->ret;

	if (WIFSIGNALED(status)) {
		/* exec failed past the point of no return, or the new image is incomplete. */
		EXPECT_TRUE(variant->operation == exec_pending);
		EXPECT_TRUE(WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGSEGV ||
			    WTERMSIG(status) == SIGBUS);
		return;
	}
	/* exec does not report why it has no page for the arguments. */
	EXPECT_TRUE(ret >= 0 || ret == -ENOMEM || ret == -EFAULT ||
		    (ret == -E2BIG && variant->operation == exec_pending)) {
		TH_LOG("result %ld", ret);
	}
	EXPECT_EQ(ret < 0 ? CHILD_GOOD : variant->exit_code, WEXITSTATUS(status));
}

/* The trace has only entries of the complete one, in the same order. */
static void check_trace(struct __test_metadata *_metadata, struct _test_data_nth *self)
{
	const struct shared *shared = self->shared;
	__u64 at = 0;

	for (__u64 i = 0; i < shared->nr; i++, at++) {
		while (at < self->nr && self->whole[at] != shared->ips[i])
			at++;
		EXPECT_GT(self->nr, at) {
			TH_LOG("entry %lld is %llx", i, shared->ips[i]);
		}
		/* A trace that is not empty has the instruction pointer. */
		if (!i)
			EXPECT_EQ(0, at);
	}
	self->empty += !shared->nr;
	self->shorter += shared->nr && shared->nr < self->nr;
}

/* Take the first trace, which must be complete because nothing failed. */
static void take_whole(struct __test_metadata *_metadata, struct _test_data_nth *self,
		       const struct _fixture_variant_nth *variant, int status)
{
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(variant->exit_code, WEXITSTATUS(status));
	ASSERT_TRUE(self->shared->sampled);
	self->nr = self->shared->nr;
	memcpy(self->whole, self->shared->ips, self->nr * sizeof(__u64));
	if (variant->depth) {
		EXPECT_EQ(-1, workload_check(self->whole, self->nr, variant->depth));
	} else if (variant->operation == sample_in_handler) {
		/* The handler's system call and the restorer come before the interrupted code. */
		ASSERT_EQ(2 + WORKLOAD_NR(DEPTH), self->nr);
		EXPECT_EQ(-1, workload_check(self->whole + 2, self->nr - 2, DEPTH));
	} else {
		EXPECT_LT(2, self->nr);
	}
}

/* Run each n once; returns the number of failures. */
static unsigned int sweep(struct __test_metadata *_metadata, struct _test_data_nth *self,
			  const struct _fixture_variant_nth *variant)
{
	/* The caller of sweep() is in the traces: each call has its own complete trace. */
	self->nr = 0;
	for (unsigned int nth = 0; nth < MAX_FAULTS; nth++) {
		int status = run(_metadata, self, variant, nth);
		bool last = nth && self->shared->unused;

		if (!self->nr)
			take_whole(_metadata, self, variant, status);
		check_result(_metadata, self, variant, status);
		if (self->shared->sampled)
			check_trace(_metadata, self);
		/* Without a failure the trace must be complete. */
		if (last)
			EXPECT_EQ(self->nr, self->shared->nr);
		if (last || _metadata->exit_code)
			return nth;
	}
	EXPECT_TRUE(false) {
		TH_LOG("failures do not end");
	}
	return MAX_FAULTS;
}

TEST_F(nth, each_failure)
{
	long nomem = unwind_stat("nomem"), empty_nomem = unwind_stat("empty_nomem");
	unsigned int all, empty, shorter, walks, copies;
	unsigned long begin, end;

	all = sweep(_metadata, self, variant);
	ASSERT_EQ(KSFT_PASS, _metadata->exit_code);
	empty = self->empty;
	shorter = self->shorter;
	TH_LOG("%u failures, %u empty and %u shorter traces", all, empty, shorter);

	/* All walks for requests go through this function, whose name is unique. */
	if (!kernel_function("unwind_get_trace", &begin, &end) || !set_filters(begin, end))
		SKIP(return, "needs CONFIG_KALLSYMS and CONFIG_FAULT_INJECTION_STACKTRACE_FILTER");
	walks = sweep(_metadata, self, variant);
	TH_LOG("%u of the walk, %u empty and %u shorter traces", walks, self->empty - empty,
	       self->shorter - shorter);
	EXPECT_LT(empty, self->empty);
	if (!variant->depth) {
		/* Only the copies of the walk: code and signal frames. */
		ASSERT_TRUE(filter_allocations());
		empty = self->empty;
		shorter = self->shorter;
		copies = sweep(_metadata, self, variant);
		TH_LOG("%u of its copies, %u empty and %u shorter traces", copies,
		       self->empty - empty, self->shorter - shorter);
		EXPECT_EQ(empty, self->empty);
		EXPECT_LT(shorter, self->shorter);
	}
	EXPECT_EQ(empty_nomem + self->empty, unwind_stat("empty_nomem"));
	EXPECT_LE(nomem + self->empty, unwind_stat("nomem"));
}

FIXTURE(tracer) {
	struct shared *shared;
};

FIXTURE_SETUP(tracer)
{
	const char *why;
	int fd = tracer_open(&why);

	if (fd < 0)
		SKIP(return, "%s", why);
	close(fd);
	if (!set_knobs())
		SKIP(return, INJECT_NEEDS);
	self->shared = mmap(NULL, sizeof(*self->shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->shared);
}

FIXTURE_TEARDOWN(tracer)
{
	restore_knobs();
}

/*
 * A single failure does not keep a large buffer from growing, because the kernel has two
 * ways to allocate it. If all allocations fail, the entries that fit are delivered.
 */
TEST(no_memory_to_grow)
{
	struct perf_event_attr attr = tracepoint_attr(GETPPID);
	struct unwind_test_op room = OP_ROOM();
	union record *record = malloc(sizeof(*record));
	long call[7] = { SYS_getppid };
	long nomem, ended_full;
	int old_max, fd, tracer;
	struct ring ring;
	const char *why;
	char *stack;

	tracer = tracer_open(&why);
	if (tracer < 0)
		SKIP(return, "%s", why);
	fd = open("/proc/self/make-it-fail", O_RDWR);
	if (fd < 0 || !set_knobs())
		SKIP(return, INJECT_NEEDS);
	old_max = set_sysctl("kernel/perf_event_max_stack", MAX_STACK);
	ASSERT_LT(0, old_max);
	attr.sample_max_stack = MAX_STACK;
	ASSERT_EQ(0, ring_open(&ring, &attr, 0, -1, 32));
	ring_enable(&ring);

	/* Make all pages resident, and leave the buffer with one page. */
	stack = deep_stack();
	workload_call_on(stack, DEEP, call);
	workload_call_on(stack, DEPTH, call);
	ASSERT_EQ(1, pwrite(fd, "0", 1, 0));
	room.ret = tracer_op(tracer, room);
	ASSERT_LT(WORKLOAD_NR(DEPTH), room.ret);
	ASSERT_GT(DEEP, room.ret);
	nomem = unwind_stat("nomem");
	ended_full = unwind_stat("ended_full");
	ring_drain(&ring);
	ASSERT_TRUE(set_probability("100"));

	if (pwrite(fd, "1", 1, 0) == 1)
		workload_call_on(stack, DEEP, call);
	if (pwrite(fd, "0", 1, 0) != 1)
		abort();
	EXPECT_TRUE(set_probability("0"));

	ASSERT_TRUE(ring_next_type(&ring, record, PERF_RECORD_CALLCHAIN_DEFERRED));
	EXPECT_EQ(room.ret, as_deferred(record)->nr);
	EXPECT_EQ(-1, workload_check_head(as_deferred(record)->ips, as_deferred(record)->nr, DEEP));
	EXPECT_EQ(nomem + 1, unwind_stat("nomem"));
	EXPECT_EQ(ended_full + 1, unwind_stat("ended_full"));

	/* The next trace is complete again. */
	workload_call_on(stack, DEEP, call);
	ASSERT_TRUE(ring_next_type(&ring, record, PERF_RECORD_CALLCHAIN_DEFERRED));
	EXPECT_EQ(-1, workload_check(as_deferred(record)->ips, as_deferred(record)->nr, DEEP));

	/* The sysctl cannot be changed while callchain events exist. */
	ring_close(&ring);
	EXPECT_EQ(MAX_STACK, set_sysctl("kernel/perf_event_max_stack", old_max));
	restore_knobs();
	close(tracer);
	close(fd);
	free(record);
}

/* The life of a test tracer; each step may fail for lack of memory. */
static int tracer_life(unsigned int nth, bool *unused)
{
	struct unwind_test_op ops[] = {
		OP_INIT(0), OP_REQUEST(0, UNWIND_TEST_TASK), OP_REQUEST(0, UNWIND_TEST_NMI),
		OP_TASK_WORK(), OP_INIT(1), OP_REQUEST(1, UNWIND_TEST_HARDIRQ), OP_FAULTABLE(),
		OP_CANCEL(1), OP_CANCEL(0),
	};
	static const int want[ARRAY_SIZE(ops)] = { 0, 0, 1, 0, 0, 0, 0, 0, 0 };
	int fd, err, ret = 0;
	const char *why;

	arm(nth);
	fd = tracer_open(&why);
	err = fd < 0 ? -errno : tracer_run_deep(fd, ops, ARRAY_SIZE(ops), DEPTH);
	*unused = disarm();

	/* Only a walk without a buffer may report -ENOMEM: the first one of a task. */
	for (unsigned int i = 0; !err && i < ARRAY_SIZE(ops); i++) {
		if (ops[i].ret != want[i] &&
		    !(ops[i].code == UNWIND_TEST_FAULTABLE && ops[i].ret == -ENOMEM))
			ret = -EINVAL;
	}
	if (fd >= 0) {
		struct unwind_test_event event;

		/* On success the first tracer has one event; the other one is cancelled before. */
		if (!err && (!tracer_event(fd, &event) || event.slot || tracer_event(fd, &event)))
			ret = -EINVAL;
		close(fd);
	}
	return ret ?: err;
}

TEST_F(tracer, each_failure)
{
	bool unused = false;
	int status;

	for (unsigned int nth = 1; !unused; nth++) {
		pid_t pid = fork();

		ASSERT_LE(0, pid);
		if (!pid) {
			int ret;

			if (!arm_init())
				_exit(CHILD_NO_SETUP);
			ret = tracer_life(nth, &self->shared->unused);
			/* Without an injected failure no error is allowed. */
			if (ret && (self->shared->unused || (ret != -ENOMEM && ret != -EFAULT)))
				_exit(CHILD_EXIT);
			_exit(CHILD_GOOD);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(CHILD_GOOD, WEXITSTATUS(status)) {
			TH_LOG("failure %u", nth);
		}
		ASSERT_GT(MAX_FAULTS, nth);
		unused = self->shared->unused;
		if (unused)
			TH_LOG("%u failures", nth - 1);
	}
}

TEST_HARNESS_MAIN
