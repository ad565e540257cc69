// SPDX-License-Identifier: GPL-2.0
/*
 * User registers in samples: all registers that user mode had at this kernel entry,
 * or none. Also the size of samples with a copy of the user stack.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/hw_breakpoint.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "exec_child.h"
#include "perf_ring.h"
#include "shots_expect.h"
#include "tracer.h"
#include "uring.h"
#include "workload.h"

#define PERCENT		"kernel/perf_cpu_time_max_percent"
#define ROUNDS		200
/*
 * Seconds until a wait ends in vain: an emulator that takes interrupts at any instruction is
 * slow. The harness ends a test later than that.
 */
#define AT_MOST		200
#define PAGE		4096UL
#define VSYSCALL_TIME	0xffffffffff600400UL
#define GETPPID		"syscalls/sys_enter_getppid"

/*
 * Make @rounds kernel entries of a kind, with the numbers from @number on in the
 * registers of struct shots; returns the last number. @arg: for page faults, a page that
 * is dropped after each fault; for signals, the receiver.
 */
typedef unsigned long entries_t(unsigned long number, unsigned long rounds, unsigned long arg);
entries_t regs_syscalls, regs_int80, regs_faults, regs_vsyscalls, regs_steps, regs_signals;
/* The instruction pointer at these entries. */
extern const char regs_syscalls_at[], regs_int80_at[], regs_faults_at[], regs_vsyscalls_at[];
extern const char regs_steps_at[], regs_steps_end[], regs_signals_at[], regs_sigreturn_at[];
/* A signal handler with another number, which calls rt_sigreturn() itself. */
void regs_handler(int sig);
/* A handler for x32 frames, which works at any address. */
extern const char regs_handler_x32[], regs_handler_x32_end[];
/* getppid() with any stack pointer. */
long regs_call_at(unsigned long sp);

/* @entry finds the argument on top of the stack. */
#define ENTRIES(name, entry)							\
	asm(name ":\n"								\
	"	push	%rbp\n	push %rbx\n	push %r12\n"			\
	"	push	%r13\n	push %r14\n	push %r15\n"			\
	"	push	%rsi\n"							\
	"	push	%rdx\n"							\
	"	mov	%rdi, %rbx\n"						\
	"1:	inc	%rbx\n"							\
	"	mov	%rbx, %rbp\n"						\
	"	mov	%rbx, %r12\n"						\
	"	mov	%rbx, %r13\n"						\
	"	mov	%rbx, %r14\n"						\
	"	mov	%rbx, %r15\n"						\
	entry									\
	"	decq	8(%rsp)\n"						\
	"	jnz	1b\n"							\
	"	mov	%rbx, %rax\n"						\
	"	pop	%rdx\n"							\
	"	pop	%rsi\n"							\
	"	pop	%r15\n	pop %r14\n	pop %r13\n"			\
	"	pop	%r12\n	pop %rbx\n	pop %rbp\n"			\
	"	ret\n")

ENTRIES("regs_syscalls",
	"	mov	$110, %eax\n"		/* getppid() */
	"	syscall\n"
	"regs_syscalls_at:\n");

ENTRIES("regs_int80",
	"	mov	$64, %eax\n"
	"	int	$0x80\n"
	"regs_int80_at:\n");

ENTRIES("regs_faults",
	"	mov	(%rsp), %rdi\n"
	"regs_faults_at:\n"
	"	movb	$1, (%rdi)\n"
	"	mov	$4096, %esi\n"
	"	mov	$4, %edx\n"		/* MADV_DONTNEED */
	"	mov	$28, %eax\n"		/* madvise() */
	"	syscall\n");

ENTRIES("regs_vsyscalls",
	"	xor	%edi, %edi\n"
	"	mov	$0xffffffffff600400, %rax\n"
	"	call	*%rax\n"
	"regs_vsyscalls_at:\n");

/* An instruction that the kernel does not emulate. */
ENTRIES("regs_steps",
	"regs_steps_at:\n"
	"	mov	%rbx, %rbx\n"
	"regs_steps_end:\n");

ENTRIES("regs_signals",
	"	mov	(%rsp), %rdi\n"
	"	mov	$10, %esi\n"		/* SIGUSR1 */
	"	mov	$62, %eax\n"		/* kill() */
	"	syscall\n"
	"regs_signals_at:\n");

asm(
"regs_handler:\n"
"	mov	$0x5a7777777777, %rbx\n"
"	mov	%rbx, %rbp\n"
"	mov	%rbx, %r12\n"
"	mov	%rbx, %r13\n"
"	mov	%rbx, %r14\n"
"	mov	%rbx, %r15\n"
"	add	$8, %rsp\n"
"	mov	$15, %eax\n"
"	syscall\n"
"regs_sigreturn_at:\n"
"	ud2\n"
"regs_handler_x32:\n"
"	add	$8, %rsp\n"
"	mov	$0x40000201, %eax\n"
"	syscall\n"
"	ud2\n"
"regs_handler_x32_end:\n"
"regs_call_at:\n"
"	push	%rbx\n"
"	mov	%rsp, %rbx\n"
"	mov	%rdi, %rsp\n"
"	mov	$110, %eax\n"
"	syscall\n"
"	mov	%rbx, %rsp\n"
"	pop	%rbx\n"
"	ret\n"
);

FIXTURE(regs) {
	struct perf_event_attr attr;
	union record *record;
	struct shots shots;
	struct ring ring;
	int percent;
};

FIXTURE_SETUP(regs)
{
	self->record = malloc(sizeof(*self->record));
	self->percent = set_sysctl(PERCENT, 0);
	if (self->percent < 0)
		SKIP(return, "needs root");
	shots_init(&self->shots);
}

FIXTURE_TEARDOWN(regs)
{
	free(self->record);
	if (self->percent > 0)
		set_sysctl(PERCENT, self->percent);
}

#define NEED_SHOTS() do {							\
	if (!shots_possible())							\
		SKIP(return, "needs CONFIG_PERF_TEST_PMU and two CPUs");	\
} while (0)

static void shoot(struct __test_metadata *_metadata, FIXTURE_DATA(regs) *self,
		  entries_t *enter, unsigned long arg)
{
	unsigned long number = self->shots.number;
	time_t begin;

	ASSERT_EQ(0, shots_open(&self->shots, &self->ring, 0));
	begin = time(NULL);
	do {
		number = enter(number, ROUNDS, arg);
		shots_read(&self->shots, &self->ring, self->record);
	} while (!shots_enough(&self->shots, begin));
	ring_disable(&self->ring);
	shots_read(&self->shots, &self->ring, self->record);
	ring_close(&self->ring);
	shots_expect(_metadata, &self->shots);
	shots_expect_elsewhere(_metadata, &self->shots);
}

TEST_F(regs, nmi_in_system_calls)
{
	NEED_SHOTS();
	self->shots.until_gap = true;
	shots_here(&self->shots, (uintptr_t)regs_syscalls_at, 1);
	shoot(_metadata, self, regs_syscalls, 0);
	EXPECT_LT(0, self->shots.gap);
	EXPECT_LE(self->shots.gap, self->shots.none);
}

static void on_fault(int sig)
{
	_exit(KSFT_SKIP);
}

/* Can user mode do this, or does it get a signal? */
static bool possible(entries_t *enter)
{
	pid_t child = fork();
	int status;

	if (!child) {
		signal(SIGSEGV, on_fault);
		enter(0, 1, 0);
		_exit(KSFT_PASS);
	}
	return waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	       WEXITSTATUS(status) == KSFT_PASS;
}

TEST_F(regs, nmi_in_int80)
{
	NEED_SHOTS();
	if (!possible(regs_int80))
		SKIP(return, "needs CONFIG_IA32_EMULATION");
	shots_here(&self->shots, (uintptr_t)regs_int80_at, 1);
	shoot(_metadata, self, regs_int80, 0);
}

TEST_F(regs, nmi_in_page_faults)
{
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	NEED_SHOTS();
	ASSERT_NE(MAP_FAILED, (void *)page);
	shots_here(&self->shots, (uintptr_t)regs_faults_at, 1);
	shoot(_metadata, self, regs_faults, (uintptr_t)page);
	munmap(page, PAGE);
}

/* The kernel executes the vsyscall in a page fault, and changes ip and sp. */
TEST_F(regs, nmi_in_vsyscalls)
{
	NEED_SHOTS();
	if (!possible(regs_vsyscalls))
		SKIP(return, "needs CONFIG_LEGACY_VSYSCALL_XONLY");
	shots_here(&self->shots, VSYSCALL_TIME, 1);
	shots_here(&self->shots, (uintptr_t)regs_vsyscalls_at, 1);
	shoot(_metadata, self, regs_vsyscalls, 0);
}

/* The address of the page with uprobes' copies of instructions, or 0. */
static unsigned long uprobe_slots(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	unsigned long addr = 0, begin;
	char line[512];

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		if (strstr(line, "[uprobes]") && sscanf(line, "%lx-", &begin) == 1)
			addr = begin;
	}
	fclose(file);
	return addr;
}

/* A probed instruction is stepped out of line: a breakpoint and a debug trap. */
TEST_F(regs, nmi_in_steps)
{
	struct perf_event_attr attr;
	char file[PATH_MAX];
	int probe;

	NEED_SHOTS();
	if (uprobe_attr(&attr, regs_steps_at, file, sizeof(file)))
		SKIP(return, "needs CONFIG_UPROBE_EVENTS");
	attr.defer_callchain = 0;
	attr.defer_output = 0;
	attr.sample_period = 1UL << 62;
	probe = perf_open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, probe);
	ASSERT_EQ(0, ioctl(probe, PERF_EVENT_IOC_ENABLE, 0));
	regs_steps(0, 1, 0);
	ASSERT_NE(0, uprobe_slots());
	shots_here(&self->shots, (uintptr_t)regs_steps_at, regs_steps_end - regs_steps_at + 1);
	shots_here(&self->shots, uprobe_slots(), PAGE);
	shoot(_metadata, self, regs_steps, 0);
	close(probe);
}

/* Registers are stored and loaded one by one: meanwhile samples have none. */
TEST_F(regs, nmi_in_signals)
{
	NEED_SHOTS();
	signal(SIGUSR1, regs_handler);
	shots_here(&self->shots, (uintptr_t)regs_signals_at, 1);
	/* The handler has the registers of the interrupted code, but for ip and sp. */
	shots_here(&self->shots, (uintptr_t)regs_handler, 1);
	shots_here(&self->shots, (uintptr_t)regs_sigreturn_at, 1);
	self->shots.until_none = true;
	shoot(_metadata, self, regs_signals, getpid());
}

/*
 * SIGUSR1 gets an x32 frame, whatever code it interrupts. The addresses of an x32
 * handler and restorer have 32 bits.
 */
static int signal_x32(void)
{
	struct {
		__u32 handler, flags, restorer, mask[2];
	} action = { .flags = 0x04000000 };	/* SA_RESTORER */
	char *low = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

	if (low == MAP_FAILED)
		return -errno;
	memcpy(low, regs_handler_x32, regs_handler_x32_end - regs_handler_x32);
	action.handler = (uintptr_t)low;
	action.restorer = (uintptr_t)low;
	return syscall(__X32_SYSCALL_BIT | 512, SIGUSR1, &action, NULL,
		       sizeof(action.mask)) ? -errno : 0;
}

/*
 * Each sample at a kernel function that sends a signal or returns from one has
 * registers, and so also after the previous signal is over. @part is the last sample.
 */
static int expect_some_at(struct __test_metadata *_metadata, FIXTURE_DATA(regs) *self,
			  const char *name, struct user_part *part)
{
	static const int rounds = 3;
	int n = 0, err = shots_open_function(&self->shots, &self->ring, 0, name);

	if (err)
		return err;
	regs_signals(self->shots.number, rounds, getpid());
	for (; shots_next_at(&self->shots, &self->ring, self->record, part); n++)
		EXPECT_EQ(PERF_SAMPLE_REGS_ABI_64, part->abi);
	ring_close(&self->ring);
	if (!n)
		return -ENODATA;
	EXPECT_EQ(rounds, n);
	return 0;
}

/*
 * Samples at each store for a handler of SIGUSR1, and for its return, have no
 * registers. Samples before that, and in between at the handler's @sigreturn, have
 * them.
 */
static void expect_none_at_stores(struct __test_metadata *_metadata, FIXTURE_DATA(regs) *self,
				  const char *sigreturn)
{
	static const unsigned int rounds = 10;
	struct user_part part;
	unsigned int stores;
	__u64 regs;
	int err;

	err = expect_some_at(_metadata, self, "__x64_sys_kill", &part);
	if (err == -ENOSPC || err == -ENOENT || err == -ENODATA)
		SKIP(return, "needs root, CONFIG_KALLSYMS and hardware breakpoints that hit");
	ASSERT_EQ(0, err);
	/* The argument of a system call function points to the saved registers. */
	regs = part.intr[PERF_REG_X86_DI];
	ASSERT_EQ(0, expect_some_at(_metadata, self, sigreturn, &part));

	for (unsigned int i = 0; i < ARRAY_SIZE(shots_slots); i++) {
		ASSERT_EQ(0, shots_open_at(&self->shots, &self->ring, 0, HW_BREAKPOINT_W,
					   regs + shots_slots[i]));
		regs_signals(self->shots.number, rounds, getpid());
		ring_disable(&self->ring);
		stores = 0;
		while (shots_next_at(&self->shots, &self->ring, self->record, &part)) {
			stores++;
			EXPECT_EQ(PERF_SAMPLE_REGS_ABI_NONE, part.abi) {
				TH_LOG("stored by %llx", part.intr[PERF_REG_X86_IP]);
			}
		}
		EXPECT_EQ(2 * rounds, stores);
		ring_close(&self->ring);
	}
}

TEST_F(regs, stores_for_signals)
{
	signal(SIGUSR1, regs_handler);
	expect_none_at_stores(_metadata, self, "__x64_sys_rt_sigreturn");
}

TEST_F(regs, stores_for_x32_signals)
{
	int err = signal_x32();

	if (err == -ENOSYS)
		SKIP(return, "needs CONFIG_X86_X32_ABI");
	ASSERT_EQ(0, err);
	expect_none_at_stores(_metadata, self, "__x64_compat_sys_x32_rt_sigreturn");
}

/* After exec, samples have no registers until user mode runs the new image. */
TEST_F(regs, nmi_in_exec)
{
	struct exec_loop loop;
	time_t end;

	NEED_SHOTS();
	ASSERT_EQ(0, exec_loop_prepare(&loop));
	shots_here(&self->shots, loop.entry, 1);
	self->shots.any_sp = true;
	ASSERT_EQ(0, shots_open(&self->shots, &self->ring, loop.pid));
	ASSERT_EQ(0, exec_loop_start(&loop));
	for (end = time(NULL) + AT_MOST; time(NULL) < end; usleep(10000)) {
		shots_read(&self->shots, &self->ring, self->record);
		if (self->shots.right > 200 && self->shots.none_elsewhere > 200)
			break;
	}
	ASSERT_TRUE(exec_loop_stop(&loop));
	shots_read(&self->shots, &self->ring, self->record);
	ring_close(&self->ring);
	shots_expect(_metadata, &self->shots);
	EXPECT_LT(20, self->shots.none_elsewhere);
}

/* Cookies of samples or of records. */
struct cookies {
	__u64		*at;
	unsigned int	nr;
};

#define MAX_COOKIES	100000

static int compare(const void *a, const void *b)
{
	__u64 x = *(const __u64 *)a, y = *(const __u64 *)b;

	return x < y ? -1 : x > y;
}

static bool has_cookie(const struct cookies *cookies, __u64 cookie)
{
	return bsearch(&cookie, cookies->at, cookies->nr, sizeof(cookie), compare);
}

static void add_cookie(struct cookies *cookies, __u64 cookie)
{
	if (cookies->nr < MAX_COOKIES)
		cookies->at[cookies->nr++] = cookie;
}

/* Judge the registers of a PERF_RECORD_USER_STATE_DEFERRED like those of samples. */
static void read_states(FIXTURE_DATA(regs) *self, struct cookies *samples,
			struct cookies *states, unsigned int *torn, unsigned int *wrong)
{
	struct user_part part;
	struct sample sample;

	while (ring_next(&self->ring, self->record)) {
		if (self->record->header.type == PERF_RECORD_SAMPLE) {
			parse_sample(self->record, &sample);
			parse_user_part(self->record, &self->shots.attr, &part);
			self->shots.samples++;
			*wrong += part.rest != 0;
			/* Between two kernel entries a sample has the state that is available. */
			if (!sample_cookie(&sample))
				continue;
			*wrong += part.abi || part.size;
			add_cookie(samples, sample_cookie(&sample));
		} else if (self->record->header.type == PERF_RECORD_USER_STATE_DEFERRED) {
			const __u64 *regs = self->record->words + 5;

			add_cookie(states, self->record->words[1]);
			/* The event requests bx, bp and r12 to r15. */
			for (int i = 0; i < 6; i++)
				*torn += self->record->words[2] == (uintptr_t)regs_syscalls_at &&
					 (regs[i] != regs[0] || regs[i] >> 40 != 0x5a);
		}
	}
}

/* Requested in NMI: each kernel entry has a record with its own registers. */
TEST_F(regs, nmi_defers_state)
{
	unsigned int torn = 0, wrong = 0, missing = 0, twice = 0, unasked = 0;
	struct cookies samples = {}, states = {};
	unsigned long number = self->shots.number;
	time_t begin;
	__u64 last;

	NEED_SHOTS();
	samples.at = calloc(MAX_COOKIES, sizeof(__u64));
	states.at = calloc(MAX_COOKIES, sizeof(__u64));
	self->shots.attr.sample_type = RING_SAMPLE_TYPE | PERF_SAMPLE_REGS_USER |
				       PERF_SAMPLE_STACK_USER;
	self->shots.attr.sample_regs_user = 0;
	for (unsigned int i = 0; i < self->shots.nr_kept; i++)
		self->shots.attr.sample_regs_user |= 1ULL << self->shots.kept[i];
	self->shots.attr.sample_stack_user = 64;
	self->shots.attr.sample_id_all = 1;
	self->shots.attr.defer_user_state = 1;
	self->shots.attr.defer_output = 1;
	ASSERT_EQ(0, shots_open(&self->shots, &self->ring, 0));
	begin = time(NULL);
	do {
		number = regs_syscalls(number, ROUNDS, 0);
		self->shots.kernel = states.nr;
		read_states(self, &samples, &states, &torn, &wrong);
	} while (!shots_enough(&self->shots, begin));
	ring_disable(&self->ring);
	read_states(self, &samples, &states, &torn, &wrong);
	ring_close(&self->ring);

	TH_LOG("%u samples, %u with a cookie, %u records", self->shots.samples, samples.nr,
	       states.nr);
	ASSERT_LT(50, states.nr);
	ASSERT_GT(MAX_COOKIES, samples.nr);
	/* The event may be disabled before the last record. */
	last = samples.at[samples.nr - 1];
	qsort(samples.at, samples.nr, sizeof(__u64), compare);
	qsort(states.at, states.nr, sizeof(__u64), compare);
	for (unsigned int i = 0; i < samples.nr; i++)
		missing += samples.at[i] != last && !has_cookie(&states, samples.at[i]);
	for (unsigned int i = 0; i < states.nr; i++) {
		unasked += !has_cookie(&samples, states.at[i]);
		twice += i && states.at[i] == states.at[i - 1];
	}
	EXPECT_LT(self->shots.samples - samples.nr, self->shots.samples / 10);
	EXPECT_EQ(0, missing);
	EXPECT_EQ(0, unasked);
	EXPECT_EQ(0, twice);
	EXPECT_EQ(0, torn);
	EXPECT_EQ(0, wrong);
	free(samples.at);
	free(states.at);
}

/* Samples at a switch: of the idle task, of it with user registers, of this task. */
struct switches {
	unsigned int idle, with, own;
};

static void read_switches(struct __test_metadata *_metadata, FIXTURE_DATA(regs) *self,
			  struct rings *rings, struct switches *nr)
{
	struct user_part part;
	struct sample sample;

	for (unsigned int i = 0; i < rings->nr; i++) {
		while (ring_next_type(&rings->ring[i], self->record, PERF_RECORD_SAMPLE)) {
			parse_sample(self->record, &sample);
			parse_user_part(self->record, &self->attr, &part);
			EXPECT_EQ(0, part.rest);
			nr->idle += !sample.tid;
			nr->with += !sample.tid && (part.abi || part.size);
			nr->own += sample.tid == (__u32)getpid() && part.abi && part.size;
		}
	}
}

/* The idle task has no user registers. */
TEST_F(regs, kernel_thread)
{
	time_t end = time(NULL) + AT_MOST;
	struct rings rings = {};
	struct switches nr = {};

	self->attr = tracepoint_attr("sched/sched_switch");
	self->attr.defer_callchain = 0;
	self->attr.defer_output = 0;
	self->attr.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
	self->attr.sample_regs_user = ALL_REGS;
	self->attr.sample_stack_user = 64;
	ASSERT_EQ(0, rings_open_each_cpu(&rings, &self->attr, -1));
	rings_enable(&rings);
	/* On a slow machine a sleep may be over before the switch. */
	for (int i = 0; i < 100 || ((nr.idle <= 10 || nr.own <= 10) && time(NULL) < end); i++) {
		usleep(1000);
		read_switches(_metadata, self, &rings, &nr);
	}
	rings_disable(&rings);
	read_switches(_metadata, self, &rings, &nr);
	EXPECT_LT(10, nr.idle);
	EXPECT_EQ(0, nr.with);
	EXPECT_LT(10, nr.own);
	rings_close(&rings);
}

/* A worker of an io_uring has none either, although it shares the mm. */
TEST_F(regs, io_worker)
{
	struct io_uring_sqe sqe = { .opcode = IORING_OP_FSYNC, .fd = 0 };
	time_t end = time(NULL) + AT_MOST;
	unsigned int workers = 0, with = 0;
	struct rings rings = {};
	struct user_part part;
	struct sample sample;

	self->attr = tracepoint_attr("sched/sched_switch");
	self->attr.defer_callchain = 0;
	self->attr.defer_output = 0;
	self->attr.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
	self->attr.sample_regs_user = ALL_REGS;
	self->attr.sample_stack_user = 64;
	ASSERT_EQ(0, rings_open_each_cpu(&rings, &self->attr, -1));
	rings_enable(&rings);
	if (uring_run_async(&sqe) == -ENOSYS)
		SKIP(return, "no io_uring");
	/* The worker is switched out when it waits for more work. */
	for (unsigned int i = 0; !workers && time(NULL) < end; i = (i + 1) % rings.nr) {
		while (ring_next_type(&rings.ring[i], self->record, PERF_RECORD_SAMPLE)) {
			parse_sample(self->record, &sample);
			if (sample.pid != (__u32)getpid() || sample.tid == (__u32)getpid())
				continue;
			parse_user_part(self->record, &self->attr, &part);
			workers++;
			with += part.abi || part.size;
		}
	}
	EXPECT_LT(0, workers);
	EXPECT_EQ(0, with);
	rings_close(&rings);
}

/* Sample a system call, with all data taken in place. */
#define GETPPID_ATTR() do {							\
	self->attr = tracepoint_attr(GETPPID);					\
	if (self->attr.type == ~0U)						\
		SKIP(return, "needs tracefs and CONFIG_FTRACE_SYSCALLS");	\
	self->attr.defer_callchain = 0;						\
	self->attr.defer_output = 0;						\
} while (0)

/* One such sample, of a call with 1001 in the registers and 7 on top of the stack. */
#define GETPPID_SAMPLE(part) do {						\
	ASSERT_EQ(0, ring_open(&self->ring, &self->attr, 0, -1, 8));		\
	ring_enable(&self->ring);						\
	regs_syscalls(1000, 1, 7);						\
	ring_disable(&self->ring);						\
	ASSERT_TRUE(ring_next_type(&self->ring, self->record,			\
				   PERF_RECORD_SAMPLE));			\
	parse_user_part(self->record, &self->attr, &(part));			\
	EXPECT_EQ(0, (part).rest);						\
} while (0)

/* Each combination has the length that it claims, and the same contents. */
TEST_F(regs, sample_types)
{
	static const __u64 types[] = {
		0, PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER,
		PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
	};
	struct user_part part;

	for (unsigned int i = 0; i < ARRAY_SIZE(types); i++) {
		GETPPID_ATTR();
		self->attr.sample_type |= types[i];
		self->attr.sample_regs_user = ALL_REGS;
		self->attr.sample_stack_user = 256;
		GETPPID_SAMPLE(part);
		if (types[i] & PERF_SAMPLE_REGS_USER) {
			EXPECT_EQ(PERF_SAMPLE_REGS_ABI_64, part.abi);
			for (unsigned int k = 0; k < self->shots.nr_kept; k++)
				EXPECT_EQ(1001, part.regs[self->shots.kept[k]]);
		}
		if (types[i] & PERF_SAMPLE_STACK_USER) {
			EXPECT_EQ(256, part.size);
			EXPECT_EQ(256, part.dyn_size);
			/* The argument is on top. */
			EXPECT_EQ(7, *(const __u64 *)part.stack);
		}
		ring_close(&self->ring);
	}
}

/* Registers are written in groups: any number of them is correct, whatever remains. */
TEST_F(regs, any_number_of_them)
{
	struct user_part part;

	for (__u64 mask = ALL_REGS, n = 0; mask; mask &= mask - 1, n++) {
		GETPPID_ATTR();
		self->attr.sample_type |= PERF_SAMPLE_REGS_USER;
		self->attr.sample_regs_user = mask;
		GETPPID_SAMPLE(part);
		EXPECT_EQ(PERF_SAMPLE_REGS_ABI_64, part.abi);
		for (unsigned int k = 0; k < self->shots.nr_kept; k++) {
			if (!(mask & 1ULL << self->shots.kept[k]))
				continue;
			EXPECT_EQ(1001, part.regs[self->shots.kept[k]]) {
				TH_LOG("%llu left out", n);
			}
		}
		ring_close(&self->ring);
	}
}

/* Invalid stack pointers, with copies up to the maximum size. */
TEST_F(regs, hostile_stack_pointers)
{
	static const unsigned long sps[] = {
		0, 1, 0xffff888000000000, -1UL, -8UL, USER_END, USER_END - 1, USER_END - 8,
		USER_END - 13, USER_END - 4096, 1UL << 47, (1UL << 56) - 4096 - 13, 0x1003,
	};
	static const __u32 sizes[] = { 0, 8, 8192, 65528 };
	struct user_part part;
	unsigned int seen = 0;

	for (unsigned int s = 0; s < ARRAY_SIZE(sizes); s++) {
		GETPPID_ATTR();
		self->attr.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER |
					  PERF_SAMPLE_REGS_INTR;
		self->attr.sample_regs_user = ALL_REGS;
		self->attr.sample_regs_intr = ALL_REGS;
		self->attr.sample_stack_user = sizes[s];
		ASSERT_EQ(0, ring_open(&self->ring, &self->attr, 0, -1, 512));
		ring_enable(&self->ring);
		for (unsigned int i = 0; i < ARRAY_SIZE(sps); i++)
			regs_call_at(sps[i]);
		regs_syscalls(1000, 1, 7);
		ring_disable(&self->ring);
		for (unsigned int i = 0; i <= ARRAY_SIZE(sps); i++) {
			ASSERT_TRUE(ring_next(&self->ring, self->record));
			ASSERT_EQ(PERF_RECORD_SAMPLE, self->record->header.type);
			parse_user_part(self->record, &self->attr, &part);
			ASSERT_EQ(0, part.rest) {
				TH_LOG("sp %lx, %u bytes: %ld of %u bytes too many or few",
				       i < ARRAY_SIZE(sps) ? sps[i] : 0, sizes[s], part.rest,
				       self->record->header.size);
			}
			EXPECT_EQ(PERF_SAMPLE_REGS_ABI_64, part.abi);
			EXPECT_EQ(PERF_SAMPLE_REGS_ABI_64, part.intr_abi);
			EXPECT_LE(part.dyn_size, part.size);
			if (i < ARRAY_SIZE(sps)) {
				EXPECT_EQ(sps[i], part.regs[PERF_REG_X86_SP]);
				EXPECT_EQ(0, part.dyn_size);
			} else {
				EXPECT_EQ(!sizes[s], !part.dyn_size);
			}
			EXPECT_GE(sizes[s], part.size);
			seen++;
		}
		EXPECT_FALSE(ring_next(&self->ring, self->record));
		ring_close(&self->ring);
	}
	EXPECT_EQ(ARRAY_SIZE(sizes) * (ARRAY_SIZE(sps) + 1), seen);
}

TEST_F(regs, bad_attrs)
{
	static const __u64 bad_regs[] = { 0, BIT_OF(DS), BIT_OF(GS), 1ULL << 24, 1ULL << 31 };
	static const __u32 bad_sizes[] = { 7, 12, 65535, 65536, -8U };
	struct perf_event_attr attr = software_attr(PERF_COUNT_SW_DUMMY);

	attr.sample_type |= PERF_SAMPLE_REGS_USER;
	for (unsigned int i = 0; i < ARRAY_SIZE(bad_regs); i++) {
		attr.sample_regs_user = bad_regs[i];
		EXPECT_EQ(-EINVAL, perf_open(&attr, 0, -1, -1, 0));
	}
	/* Vector registers: no event here supports them. */
	attr.sample_regs_user = 1ULL << PERF_REG_X86_XMM0;
	EXPECT_EQ(-EOPNOTSUPP, perf_open(&attr, 0, -1, -1, 0));
	attr.sample_type = RING_SAMPLE_TYPE | PERF_SAMPLE_STACK_USER;
	for (unsigned int i = 0; i < ARRAY_SIZE(bad_sizes); i++) {
		attr.sample_stack_user = bad_sizes[i];
		EXPECT_EQ(-EINVAL, perf_open(&attr, 0, -1, -1, 0));
	}
}

TEST_HARNESS_MAIN
