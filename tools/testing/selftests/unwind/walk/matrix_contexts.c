// SPDX-License-Identifier: GPL-2.0
/*
 * The rows of the test matrix: the contexts that request a deferred callchain.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/hw_breakpoint.h>
#include <linux/rseq.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/io.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "matrix.h"
#include "tracer.h"
#include "uring.h"
#include "workload.h"

/* Period of the timer events, long enough for an emulated CPU. */
#define PERIOD_NS	250000
/* Bytes that the interrupted system call writes. */
#define BUFFER		(256 * 1024UL)

static int tracepoint(const char *name, struct perf_event_attr *attr)
{
	*attr = tracepoint_attr(name);
	return attr->type == ~0U ? -ENOENT : 0;
}

/* System call events are filtered for the context's own call. */
static int syscall_event(const char *name, struct perf_event_attr *attr)
{
	return tracepoint(name, attr) ?: 1;
}

static int on_enter(struct run *run, unsigned int i, struct perf_event_attr *attr)
{
	return syscall_event("raw_syscalls/sys_enter", attr);
}

static int on_exit_of_call(struct run *run, unsigned int i, struct perf_event_attr *attr)
{
	return syscall_event("raw_syscalls/sys_exit", attr);
}

static int on_both(struct run *run, unsigned int i, struct perf_event_attr *attr)
{
	return i ? on_enter(run, i, attr) : on_exit_of_call(run, i, attr);
}

/* The second event comes after the user stack is gone. */
static int on_task_exit(struct run *run, unsigned int i, struct perf_event_attr *attr)
{
	return i ? tracepoint("sched/sched_process_exit", attr) : on_enter(run, i, attr);
}

static int on_exec(struct run *run, unsigned int i, struct perf_event_attr *attr)
{
	return i ? tracepoint("sched/sched_process_exec", attr) : on_enter(run, i, attr);
}

static int on_page_fault(struct run *run, unsigned int i, struct perf_event_attr *attr)
{
	*attr = software_attr(PERF_COUNT_SW_PAGE_FAULTS);
	return 0;
}

static int on_timer_in_user(struct run *run, unsigned int i, struct perf_event_attr *attr)
{
	*attr = software_attr(PERF_COUNT_SW_CPU_CLOCK);
	attr->sample_period = PERIOD_NS;
	attr->exclude_kernel = 1;
	return 0;
}

static int on_timer_in_kernel(struct run *run, unsigned int i, struct perf_event_attr *attr)
{
	*attr = software_attr(PERF_COUNT_SW_CPU_CLOCK);
	attr->sample_period = PERIOD_NS;
	attr->exclude_user = 1;
	return 0;
}

static int on_ipi(struct run *run, unsigned int i, struct perf_event_attr *attr)
{
	return tracepoint("csd/csd_function_entry", attr);
}

static int on_nmi(struct run *run, struct perf_event_attr *attr)
{
	int type = pmu_type("perf_test");

	if (type < 0)
		return -ENOENT;
	/* 0 is "remote": the timer of another CPU sends the NMI. */
	*attr = software_attr(0);
	attr->type = type;
	attr->sample_period = PERIOD_NS;
	return 0;
}

static int on_nmi_in_user(struct run *run, unsigned int i, struct perf_event_attr *attr)
{
	int err = on_nmi(run, attr);

	attr->exclude_kernel = 1;
	return err;
}

static int on_nmi_in_kernel(struct run *run, unsigned int i, struct perf_event_attr *attr)
{
	int err = on_nmi(run, attr);

	attr->exclude_user = 1;
	return err;
}

static int on_probe(struct run *run, unsigned int i, struct perf_event_attr *attr)
{
	return uprobe_attr(attr, (const void *)run->leaf->first, run->file, sizeof(run->file));
}

static int on_return(struct run *run, unsigned int i, struct perf_event_attr *attr)
{
	int err = uprobe_attr(attr, matrix_inner, run->file, sizeof(run->file));

	attr->config = 1;
	return err;
}

/*
 * The last request that the system call of a return trampoline can get before it restores
 * its registers: the return probe has made none, and its flush is over.
 */
static int on_end_of_return(struct run *run, unsigned int i, struct perf_event_attr *attr)
{
	if (i) {
		int err = on_return(run, i, attr);

		attr->sample_period = 1UL << 62;
		return err;
	}
	*attr = software_attr(0);
	attr->type = PERF_TYPE_BREAKPOINT;
	attr->bp_type = HW_BREAKPOINT_X;
	attr->bp_addr = kernel_symbol("unwind_regs_change_begin");
	attr->bp_len = sizeof(long);
	return attr->bp_addr ? 0 : -ENOENT;
}

/* The kernel reads the instruction to find out which one it is. */
static int on_read_of_code(struct run *run, unsigned int i, struct perf_event_attr *attr)
{
	*attr = software_attr(0);
	attr->type = PERF_TYPE_BREAKPOINT;
	attr->bp_type = HW_BREAKPOINT_RW;
	attr->bp_addr = run->leaf->first;
	attr->bp_len = HW_BREAKPOINT_LEN_1;
	return 0;
}

static int on_abort(struct run *run, unsigned int i, struct perf_event_attr *attr)
{
	return tracepoint("rseq/rseq_ip_fixup", attr);
}

static void exec_args(struct run *run, __u64 *args)
{
	/* In memory that 32-bit code can address. */
	static const char path[] = "/bin/true";
	static __u32 argv32[2];
	static __u64 argv[2];

	argv[0] = (uintptr_t)path;
	argv32[0] = argv[0];
	args[0] = AT_FDCWD;
	args[1] = (uintptr_t)path;
	args[2] = run_is_compat(run) ? (uintptr_t)argv32 : (uintptr_t)argv;
}

/* The new thread runs on the lowest part of the stack and exits at once. */
static void thread_args(struct run *run, __u64 *args)
{
	__u64 *sp = (__u64 *)(run->map + MATRIX_PAGE + MATRIX_HALF + 1024);

	for (int i = 0; i < 8; i++)
		sp[i] = (uintptr_t)matrix_exit;
	args[0] = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
		  CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
	args[1] = (uintptr_t)sp;
	args[3] = (uintptr_t)&run->shared->thread;
	run->shared->thread = 1;
}

/* A signal whose handler does nothing. */
static void signal_args(struct run *run, __u64 *args)
{
	struct raw_sigaction action = {
		.handler = matrix_returns, .restorer = matrix_restorer,
		.flags = RAW_SA_RESTORER | SA_SIGINFO,
	};

	syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, 8);
	args[0] = gettid();
	args[1] = SIGUSR1;
}

/* Read zeroes from /dev/zero, which takes the kernel some time. */
static int zeroes_setup(struct run *run)
{
	run->poke_fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	run->buffer = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT | MAP_POPULATE, -1, 0);
	return run->poke_fd < 0 || run->buffer == MAP_FAILED ? -errno : 0;
}

static void zeroes_args(struct run *run, __u64 *args)
{
	args[0] = run->poke_fd;
	args[1] = (uintptr_t)run->buffer;
	args[2] = BUFFER;
}

/* Start and stop an event of the child: that takes an IPI to the child's CPU. */
static void ipi_poke(struct run *run)
{
	struct perf_event_attr attr = software_attr(PERF_COUNT_SW_DUMMY);

	if (run->poke_fd < 0)
		run->poke_fd = perf_open(&attr, run->child, -1, -1, 0);
	ioctl(run->poke_fd, PERF_EVENT_IOC_ENABLE, 0);
	ioctl(run->poke_fd, PERF_EVENT_IOC_DISABLE, 0);
}

/* Without UMIP the CPU executes the instruction itself. The kernel's emulation gives 0. */
static int umip_setup(struct run *run)
{
	struct {
		__u16	limit;
		__u64	base;
	} __attribute__((packed)) table = { .limit = 1 };

	asm volatile("sgdt %0" : "=m"(table));
	return table.limit ? -ENOSYS : 0;
}

static void iopl_args(struct run *run, __u64 *args)
{
	if (iopl(3))
		run->shared->err = -ENOSYS;
}

/* Replaces the C library's area: 32-bit code must be able to address it. */
static struct rseq rseq_area __attribute__((aligned(32)));
static struct rseq_cs rseq_cs __attribute__((aligned(32)));

static void rseq_args(struct run *run, __u64 *args)
{
	void *libc_area = (char *)__builtin_thread_pointer() + __rseq_offset;

	if (!rseq_cs.start_ip) {
		syscall(SYS_rseq, libc_area, sizeof(rseq_area), RSEQ_FLAG_UNREGISTER, RSEQ_SIG);
		if (syscall(SYS_rseq, &rseq_area, sizeof(rseq_area), 0, RSEQ_SIG))
			run->shared->err = -ENOSYS;
	}
	rseq_cs.start_ip = run->leaf->first;
	rseq_cs.post_commit_offset = run->leaf->last + MATRIX_SEQUENCE_END - run->leaf->first;
	rseq_cs.abort_ip = run->leaf->last + MATRIX_ABORT;
	args[0] = (uintptr_t)&rseq_cs;
	args[1] = (uintptr_t)&rseq_area.rseq_cs;
}

/* A task that migrates in a sequence restarts the sequence. */
static void migrate_poke(struct run *run)
{
	static const int cpus[] = { LOOKING_CPU, CHILD_CPU };

	for (unsigned int i = 0; i < ARRAY_SIZE(cpus); i++) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(cpus[i], &set);
		sched_setaffinity(run->child, sizeof(set), &set);
	}
}

/* A request by an ioctl of the test tracer, from context @where. */
static int tracer_setup_op(struct run *run, unsigned int where)
{
	struct shared *shared = run->shared;
	const char *why;

	run->tracer = tracer_open(&why);
	if (run->tracer < 0)
		return -ENOENT;
	shared->op = (struct unwind_test_op)OP_REQUEST(0, where);
	shared->op.ret = 1;
	shared->ops = (struct unwind_test_ops) { .nr = 1, .ops = (uintptr_t)&shared->op };
	return tracer_op(run->tracer, (struct unwind_test_op)OP_INIT(0));
}

static int kthread_setup(struct run *run)
{
	return tracer_setup_op(run, UNWIND_TEST_KTHREAD);
}

static void ioctl_args(struct run *run, __u64 *args)
{
	args[0] = run->tracer;
	args[1] = UNWIND_TEST_RUN;
	args[2] = (uintptr_t)&run->shared->ops;
}

static struct uring uring;

static int uring_setup(struct run *run)
{
	struct io_uring_sqe sqe = { .opcode = IORING_OP_URING_CMD, .cmd_op = UNWIND_TEST_RUN };
	int err = tracer_setup_op(run, UNWIND_TEST_TASK);

	if (err)
		return err;
	sqe.fd = run->tracer;
	memcpy(sqe.cmd, &run->shared->ops, sizeof(run->shared->ops));
	return uring_prepare(&uring, &sqe);
}

static void uring_args(struct run *run, __u64 *args)
{
	args[0] = uring.fd;
	args[1] = 1;
	args[2] = 1;
	args[3] = IORING_ENTER_GETEVENTS;
}

#define CALLS(call, call32)	.trigger = TRIGGER_SYSCALL, .nr = SYS_##call, .nr32 = (call32)

const struct context matrix_contexts[] = {
	{ 1, "system call", on_enter, 1, CALLS(getppid, 64), .flags = CONTEXT_TWICE,
	  .samples = 2, .traces = 2 },
	{ 2, "page fault", on_page_fault, 1, .trigger = TRIGGER_LOAD,
	  .flags = CONTEXT_TWICE, .traces = 2 },
	{ 3, "timer in user mode", on_timer_in_user, 1, .trigger = TRIGGER_SPIN,
	  .flags = CONTEXT_REPEATS },
	{ 3, "timer in kernel mode", on_timer_in_kernel, 1, CALLS(read, 3),
	  .setup = zeroes_setup, .args = zeroes_args, .flags = CONTEXT_REPEATS },
	{ 4, "IPI", on_ipi, 1, .trigger = TRIGGER_SPIN, .poke = ipi_poke,
	  .flags = CONTEXT_REPEATS | CONTEXT_PINNED },
	{ 5, "NMI in user mode", on_nmi_in_user, 1, .trigger = TRIGGER_SPIN,
	  .flags = CONTEXT_REPEATS | CONTEXT_PINNED },
	{ 5, "NMI in kernel mode", on_nmi_in_kernel, 1, CALLS(read, 3),
	  .setup = zeroes_setup, .args = zeroes_args,
	  .flags = CONTEXT_REPEATS | CONTEXT_PINNED },
	{ 6, "uprobe", on_probe, 1, .trigger = TRIGGER_PROBE, .flags = CONTEXT_TWICE,
	  .samples = 2, .traces = 2 },
	{ 7, "uretprobe", on_return, 1, .trigger = TRIGGER_CALL, .flags = CONTEXT_TWICE,
	  .samples = 2, .traces = 2 },
	{ 7, "uretprobe, system call", on_end_of_return, 2, .trigger = TRIGGER_CALL,
	  .flags = CONTEXT_TWICE | CONTEXT_NOT_IN_PLACE, .samples = 2, .traces = 2 },
	/* Two samples in each entry, one cookie. */
	{ 8, "system call exit", on_both, 2, CALLS(getppid, 64), .flags = CONTEXT_TWICE,
	  .samples = 4, .traces = 2 },
	{ 9, "exit", on_enter, 1, CALLS(exit, 1), .flags = CONTEXT_RESIDENT,
	  .samples = 1, .traces = 1 },
	{ 9, "exit, on CPUs", on_task_exit, 2, CALLS(exit, 1),
	  .flags = CONTEXT_RESIDENT | CONTEXT_CPU_WIDE,
	  .samples = 2, .bare = 1, .traces = 1 },
	{ 10, "exec", on_exec, 2, CALLS(execveat, 358), .args = exec_args,
	  .samples = 2, .bare = 1, .traces = 1 },
	{ 11, "fork", on_exit_of_call, 1, CALLS(fork, 2),
	  .flags = CONTEXT_INHERITS | CONTEXT_COPIES, .samples = 2, .traces = 2 },
	{ 11, "vfork", on_exit_of_call, 1, CALLS(vfork, 190), .flags = CONTEXT_INHERITS,
	  .samples = 2, .traces = 2 },
	{ 11, "thread", on_exit_of_call, 1, CALLS(clone, 120), .args = thread_args,
	  .flags = CONTEXT_INHERITS | CONTEXT_PLAIN, .samples = 2, .traces = 2 },
	{ 12, "ptrace stop", on_enter, 1, CALLS(getppid, 64), .flags = CONTEXT_PTRACE,
	  .samples = 1, .traces = 1 },
	{ 12, "sigreturn", on_enter, 1, CALLS(tkill, 238), .args = signal_args,
	  .flags = CONTEXT_TWICE | CONTEXT_SIGRETURN | CONTEXT_NOT_IN_PLACE,
	  .samples = 2, .traces = 2 },
	{ 13, "kernel thread", CALLS(ioctl, 54), .setup = kthread_setup, .args = ioctl_args,
	  .flags = CONTEXT_REFUSED },
	{ 14, "io worker", CALLS(io_uring_enter, 426), .setup = uring_setup, .args = uring_args,
	  .flags = CONTEXT_REFUSED },
	{ 15, "UMIP", on_page_fault, 1, .trigger = TRIGGER_SGDT, .setup = umip_setup,
	  .flags = CONTEXT_TWICE, .traces = 2 },
	/* QEMU hits only one of two breakpoints at one address. */
	{ 15, "IOPL", on_read_of_code, 1, .trigger = TRIGGER_CLI, .args = iopl_args,
	  .flags = CONTEXT_TWICE | CONTEXT_NOT_IN_PLACE, .traces = 2 },
	{ 16, "rseq abort", on_abort, 1, .trigger = TRIGGER_ABORT, .args = rseq_args,
	  .poke = migrate_poke, .flags = CONTEXT_REPEATS | CONTEXT_PINNED },
};

const unsigned int matrix_nr_contexts = ARRAY_SIZE(matrix_contexts);
