// SPDX-License-Identifier: GPL-2.0
/*
 * A 32-bit process: its system calls by interrupt and through its vDSO, its signal
 * frames, which return to the vDSO, its page faults and return probes, and its user
 * registers in samples. The program is compat_task32.S, which has all labels below.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/hw_breakpoint.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf_ring.h"
#include "shots_expect.h"
#include "tracer.h"

/* From asm/unistd_32.h, whose names clash with the 64-bit ones. */
#define NR_GETPPID_32	64
#define NR_READ_32	3
/* More than the size of the 32-bit vDSO, and less than the distance to its neighbours. */
#define VDSO_SIZE	0x10000U
#define MAX_CHAIN	8
/* Of so many NMIs, some hit the start of a system call. */
#define ENTRY_SHOTS	1000

/* The program's standard input: the function to call, and a signal action. */
struct order {
	__u32	function;
	__u32	handler, flags, restorer;
	__u64	mask;
};

/* The program's standard output, written twice: before it reads, and at its end. */
struct told {
	__u32	vsyscall, vdso, landing_pad, restorer;
};

/* The file of the program. */
struct program {
	char			path[4096];
	const Elf32_Ehdr	*elf;
	size_t			size;
};

/* The program as a process. */
struct task {
	struct program	program;
	struct told	told;
	pid_t		pid;
	int		order, told_fd;
};

static const void *at(const struct program *program, __u32 offset)
{
	return (const char *)program->elf + offset;
}

static int program_open(struct program *program)
{
	ssize_t len = readlink("/proc/self/exe", program->path, sizeof(program->path) - 3);
	struct stat st;
	int fd;

	if (len < 0)
		return -errno;
	memcpy(program->path + len, "32", sizeof("32"));
	fd = open(program->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return -errno;
	program->size = st.st_size;
	program->elf = mmap(NULL, program->size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	return program->elf == MAP_FAILED ? -errno : 0;
}

/* The address of a label, or 0. */
static __u32 label(const struct program *program, const char *name)
{
	const Elf32_Shdr *section = at(program, program->elf->e_shoff), *symtab = section;
	const Elf32_Sym *symbol;

	while (symtab->sh_type != SHT_SYMTAB) {
		if (++symtab == section + program->elf->e_shnum)
			return 0;
	}
	symbol = at(program, symtab->sh_offset);
	for (unsigned int i = 0; i < symtab->sh_size / sizeof(*symbol); i++) {
		if (!strcmp(at(program, section[symtab->sh_link].sh_offset + symbol[i].st_name),
			    name))
			return symbol[i].st_value;
	}
	return 0;
}

/* The file offset of an address, or -1. */
static __s64 file_offset(const struct program *program, __u32 addr)
{
	const Elf32_Phdr *load = at(program, program->elf->e_phoff);

	for (unsigned int i = 0; i < program->elf->e_phnum; i++, load++) {
		if (load->p_type == PT_LOAD && addr - load->p_vaddr < load->p_filesz)
			return addr - load->p_vaddr + load->p_offset;
	}
	return -1;
}

/* In the child: execute the program; the exit status tells why that failed. */
static void become(const struct program *program, int order, int told)
{
	dup2(order, STDIN_FILENO);
	dup2(told, STDOUT_FILENO);
	execl(program->path, program->path, NULL);
	_exit(errno == ENOEXEC ? KSFT_SKIP : KSFT_FAIL);
}

/* Start the program, which waits for its order; returns its status if it does not start. */
static int task_start(struct task *task)
{
	int order[2], told[2], status;

	if (pipe2(order, O_CLOEXEC) || pipe2(told, O_CLOEXEC))
		return -1;
	task->pid = fork();
	if (!task->pid)
		become(&task->program, order[0], told[1]);
	close(order[0]);
	close(told[1]);
	task->order = order[1];
	task->told_fd = told[0];
	if (read(told[0], &task->told, sizeof(task->told)) == sizeof(task->told))
		return 0;
	return waitpid(task->pid, &status, 0) == task->pid ? status : -1;
}

/* Does the program wait for input in the function to be interrupted? */
static bool waits(const struct task *task)
{
	__u32 size = label(&task->program, "edx_decoy");
	unsigned long pending = 1, shared = 1, arg = 0;
	char path[64], line[256];
	FILE *file;
	int nr = -1;

	snprintf(path, sizeof(path), "/proc/%d/status", task->pid);
	file = fopen(path, "r");
	if (!file)
		return false;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "SigPnd: %lx", &pending) != 1 &&
		    sscanf(line, "ShdPnd: %lx", &shared) == 1)
			break;
	}
	fclose(file);
	snprintf(path, sizeof(path), "/proc/%d/syscall", task->pid);
	file = fopen(path, "r");
	if (!file)
		return false;
	if (fscanf(file, "%d %*x %*x %lx", &nr, &arg) != 2)
		nr = -1;
	fclose(file);
	return !pending && !shared && nr == NR_READ_32 && arg == size;
}

/* Send the signal when the program waits, and input when it waits again. */
static bool interrupt_read(const struct task *task)
{
	while (!waits(task))
		usleep(1000);
	if (kill(task->pid, SIGUSR1))
		return false;
	while (!waits(task))
		usleep(1000);
	return write(task->order, "", 1) == 1;
}

static bool task_order(const struct task *task, const char *function, int flags)
{
	const struct order order = {
		.function = label(&task->program, function),
		.handler = label(&task->program, "handler"),
		.flags = flags,
	};

	return write(task->order, &order, sizeof(order)) == sizeof(order);
}

/* Kill a program that loops forever, if it still runs. */
static bool task_kill(struct task *task)
{
	pid_t pid = task->pid;

	task->pid = 0;
	return pid > 0 && !kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid;
}

/* Run the program to its end; returns its status. */
static int task_run(struct task *task, const char *function, int flags)
{
	int status;

	if (!task_order(task, function, flags) ||
	    (flags & SA_RESTART && !interrupt_read(task)) ||
	    read(task->told_fd, &task->told, sizeof(task->told)) != sizeof(task->told) ||
	    waitpid(task->pid, &status, 0) != task->pid)
		return -1;
	return status;
}

/* The address of a label, or an address that the program has reported. */
static __u32 address(const struct task *task, const char *name)
{
	if (!strcmp(name, "landing_pad"))
		return task->told.landing_pad;
	/* The int $0x80 before it. */
	if (!strcmp(name, "restart"))
		return task->told.landing_pad - 2;
	if (!strcmp(name, "restorer"))
		return task->told.restorer;
	return label(&task->program, name);
}

/* Expect exactly the labels before the first NULL. */
static void expect_chain(struct __test_metadata *_metadata, const struct task *task,
			 const struct deferred *deferred, const char * const *names)
{
	__u64 nr = 0;

	for (; names[nr]; nr++) {
		__u32 want = address(task, names[nr]);

		ASSERT_NE(0, want);
		ASSERT_LT(nr, deferred->nr) {
			TH_LOG("entry %llu, %s, is missing", nr, names[nr]);
		}
		EXPECT_EQ(want, deferred->ips[nr]) {
			TH_LOG("entry %llu should be %s", nr, names[nr]);
		}
	}
	EXPECT_EQ(nr, deferred->nr);
}

#define START() do {								\
	int _status;								\
										\
	ASSERT_EQ(0, program_open(&self->task.program));			\
	_status = task_start(&self->task);					\
	if (WIFEXITED(_status) && WEXITSTATUS(_status) == KSFT_SKIP)		\
		SKIP(return, "needs CONFIG_IA32_EMULATION");			\
	ASSERT_EQ(0, _status);							\
	if (!self->task.told.vsyscall)						\
		SKIP(return, "needs the 32-bit vDSO");				\
} while (0)

#define OPEN_DISABLED(ring, attr) do {						\
	int _err = ring_open(ring, attr, self->task.pid, -1, 32);		\
										\
	if (_err == -EACCES || _err == -EPERM)					\
		SKIP(return, "needs root");					\
	ASSERT_EQ(0, _err);							\
} while (0)

/* Open a ring of the program's events and enable it. */
#define OPEN(ring, attr) do {							\
	OPEN_DISABLED(ring, attr);						\
	ring_enable(ring);							\
} while (0)

/* Open a ring for the program's getppid(); tracefs names no 32-bit system calls. */
#define OPEN_GETPPID(ring) do {							\
	struct perf_event_attr _attr = tracepoint_attr("raw_syscalls/sys_enter");	\
										\
	if (_attr.type == ~0U)							\
		SKIP(return, "needs root, tracefs and CONFIG_FTRACE_SYSCALLS");	\
	OPEN_DISABLED(ring, &_attr);						\
	ASSERT_EQ(0, ring_filter(ring, "id", NR_GETPPID_32));			\
	/* Not before: the program may only be about to wait for this test. */	\
	ring_enable(ring);							\
} while (0)

FIXTURE(chain) {
	struct task task;
	struct ring ring;
	union record *record;
};

FIXTURE_VARIANT(chain) {
	const char *function;
	int flags;
	bool faults;
	const char *names[MAX_CHAIN];
};

FIXTURE_VARIANT_ADD(chain, int80) {
	.function = "int80",
	.names = { "int80_at", "middle_called", "top_called", "start_called" },
};

/* With the fastest instruction for this CPU. */
FIXTURE_VARIANT_ADD(chain, vdso) {
	.function = "in_vdso",
	.names = { "landing_pad", "in_vdso_called", "middle_called", "top_called",
		   "start_called" },
};

FIXTURE_VARIANT_ADD(chain, restart_in_vdso) {
	.function = "restarted",
	.names = { "landing_pad", "restarted_called", "middle_called", "top_called",
		   "start_called" },
};

FIXTURE_VARIANT_ADD(chain, page_fault) {
	.function = "fault", .faults = true,
	.names = { "fault_at", "middle_called", "top_called", "start_called" },
};

#define SIGNAL_NAMES								\
	{ "handler_at", "restorer", "signal_at", "middle_called", "top_called",	\
	  "start_called" }

FIXTURE_VARIANT_ADD(chain, signal) {
	.function = "signal",
	.names = SIGNAL_NAMES,
};

FIXTURE_VARIANT_ADD(chain, rt_signal) {
	.function = "signal", .flags = SA_SIGINFO,
	.names = SIGNAL_NAMES,
};

FIXTURE_VARIANT_ADD(chain, signal_on_other_stack) {
	.function = "signal", .flags = SA_ONSTACK,
	.names = SIGNAL_NAMES,
};

FIXTURE_VARIANT_ADD(chain, rt_signal_on_other_stack) {
	.function = "signal", .flags = SA_SIGINFO | SA_ONSTACK,
	.names = SIGNAL_NAMES,
};

FIXTURE_VARIANT_ADD(chain, signal_in_vdso) {
	.function = "signal_in_vdso",
	.names = { "handler_at", "restorer", "landing_pad", "signal_in_vdso_called",
		   "middle_called", "top_called", "start_called" },
};

FIXTURE_VARIANT_ADD(chain, signal_restarts_in_vdso) {
	.function = "restarted_read", .flags = SA_RESTART,
	.names = { "handler_at", "restorer", "restart", "restarted_read_called",
		   "middle_called", "top_called", "start_called" },
};

FIXTURE_SETUP(chain)
{
	struct perf_event_attr faults = software_attr(PERF_COUNT_SW_PAGE_FAULTS);

	self->record = malloc(sizeof(*self->record));
	START();
	if (variant->faults)
		OPEN(&self->ring, &faults);
	else
		OPEN_GETPPID(&self->ring);
}

FIXTURE_TEARDOWN(chain)
{
	free(self->record);
}

/* Find the next trace that begins at this address. */
static bool next_trace(struct ring *ring, union record *record, __u32 first)
{
	while (ring_next_type(ring, record, PERF_RECORD_CALLCHAIN_DEFERRED)) {
		if (as_deferred(record)->nr && as_deferred(record)->ips[0] == first)
			return true;
	}
	return false;
}

TEST_F(chain, complete)
{
	const struct told *told = &self->task.told;
	__u32 first;

	ASSERT_EQ(0, task_run(&self->task, variant->function, variant->flags));
	first = address(&self->task, variant->names[0]);
	ASSERT_TRUE(next_trace(&self->ring, self->record, first));
	expect_chain(_metadata, &self->task, as_deferred(self->record), variant->names);
	EXPECT_FALSE(next_trace(&self->ring, self->record, first));

	/* The kernel used the vDSO's restorer. */
	if (!strcmp(variant->names[1], "restorer")) {
		EXPECT_GT(VDSO_SIZE, told->restorer - told->vdso);
	}
}

/* Is this the CPU's vendor? */
static bool is_vendor(const char *name)
{
	FILE *file = fopen("/proc/cpuinfo", "r");
	bool found = false;
	char line[4096];

	while (file && !found && fgets(line, sizeof(line), file))
		found = !strncmp(line, "vendor_id", 9) && strstr(line, name);
	if (file)
		fclose(file);
	return found;
}

FIXTURE(vdso) {
	struct task task;
};

FIXTURE_SETUP(vdso)
{
	START();
}

FIXTURE_TEARDOWN(vdso)
{
	close(self->task.order);
}

/* The vDSO has the fastest instruction, followed by the int $0x80 for other CPUs. */
TEST_F(vdso, instruction)
{
	unsigned char code[2];
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", self->task.pid);
	fd = open(path, O_RDONLY);
	ASSERT_LE(0, fd);
	ASSERT_EQ(2, pread(fd, code, 2, self->task.told.landing_pad - 4));
	TH_LOG("%02x %02x", code[0], code[1]);
	if (is_vendor("GenuineIntel")) {
		/* sysenter */
		EXPECT_EQ(0x0f, code[0]);
		EXPECT_EQ(0x34, code[1]);
	} else if (is_vendor("AuthenticAMD")) {
		/* syscall */
		EXPECT_EQ(0x0f, code[0]);
		EXPECT_EQ(0x05, code[1]);
	}
	close(fd);
}

FIXTURE(shots) {
	struct task task;
	struct shots shots;
	struct ring ring;
	union record *record;
};

FIXTURE_VARIANT(shots) {
	const char *function, *at[MAX_HERE];
	/* The system call of a signal has its arguments in ebx and ecx. */
	int first_kept;
	bool signals;
};

/* With the fastest instruction for this CPU. */
FIXTURE_VARIANT_ADD(shots, vdso) {
	.function	= "vdso_entries",
	.at		= { "landing_pad" },
	.first_kept	= PERF_REG_X86_BX,
};

FIXTURE_VARIANT_ADD(shots, int80) {
	.function	= "int80_entries",
	.at		= { "int80_entries_at" },
	.first_kept	= PERF_REG_X86_BX,
};

/* Handlers are entered with the registers of the interrupted code, but for ip and sp. */
FIXTURE_VARIANT_ADD(shots, signals) {
	.function	= "old_signals",
	.at		= { "old_signals_at", "old_handler", "old_sigreturn_at" },
	.first_kept	= PERF_REG_X86_BP,
	.signals	= true,
};

FIXTURE_VARIANT_ADD(shots, rt_signals) {
	.function	= "rt_signals",
	.at		= { "rt_signals_at", "rt_handler", "rt_sigreturn_at" },
	.first_kept	= PERF_REG_X86_BP,
	.signals	= true,
};

FIXTURE_SETUP(shots)
{
	self->record = malloc(sizeof(*self->record));
	START();
}

FIXTURE_TEARDOWN(shots)
{
	task_kill(&self->task);
	free(self->record);
}

/* NMIs find the registers of 32-bit user mode, or none. */
TEST_F(shots, right)
{
	time_t begin;
	int err;

	if (!shots_possible())
		SKIP(return, "needs CONFIG_PERF_TEST_PMU and two CPUs");
	shots_init_32(&self->shots);
	self->shots.kept[0] = variant->first_kept;
	self->shots.until_none = variant->signals;
	for (unsigned int i = 0; i < MAX_HERE && variant->at[i]; i++) {
		ASSERT_NE(0, address(&self->task, variant->at[i]));
		shots_here(&self->shots, address(&self->task, variant->at[i]), 1);
	}
	err = shots_open(&self->shots, &self->ring, self->task.pid);
	if (err == -EACCES || err == -EPERM)
		SKIP(return, "needs root");
	ASSERT_EQ(0, err);
	ASSERT_TRUE(task_order(&self->task, variant->function, 0));
	for (begin = time(NULL); !shots_enough(&self->shots, begin); usleep(10000))
		shots_read(&self->shots, &self->ring, self->record);
	/* The program loops forever. */
	ASSERT_EQ(0, waitpid(self->task.pid, NULL, WNOHANG));
	ASSERT_TRUE(task_kill(&self->task));
	shots_read(&self->shots, &self->ring, self->record);
	ring_close(&self->ring);
	shots_expect(_metadata, &self->shots);
	shots_expect_elsewhere(_metadata, &self->shots);
}

FIXTURE(entries) {
	struct task task;
	struct ring ring;
	union record *record;
};

FIXTURE_SETUP(entries)
{
	self->record = malloc(sizeof(*self->record));
	START();
}

FIXTURE_TEARDOWN(entries)
{
	task_kill(&self->task);
	free(self->record);
}

/*
 * The stack is that at an NMI until the task is back in user mode, even if the entry code
 * replaces the instruction pointer.
 */
TEST_F(entries, move_no_stack)
{
	long moved = unwind_stat("empty_moved");
	struct perf_event_attr attr;
	struct shots shots;

	if (!shots_possible())
		SKIP(return, "needs CONFIG_PERF_TEST_PMU and two CPUs");
	shots_init_32(&shots);
	attr = software_attr(shots.attr.config);
	attr.type = shots.attr.type;
	attr.sample_period = shots.attr.sample_period;
	ASSERT_EQ(0, ring_open(&self->ring, &attr, self->task.pid, -1, 64));
	ring_enable(&self->ring);
	ASSERT_TRUE(task_order(&self->task, "vdso_entries", 0));
	for (unsigned int chains = 0; chains < ENTRY_SHOTS; ) {
		chains += ring_next_type(&self->ring, self->record, PERF_RECORD_CALLCHAIN_DEFERRED);
		ASSERT_EQ(0, waitpid(self->task.pid, NULL, WNOHANG));
	}
	ring_close(&self->ring);
	EXPECT_EQ(moved, unwind_stat("empty_moved"));
}

FIXTURE(stores) {
	struct task task;
	struct shots shots;
	struct ring ring;
	union record *record;
	/* The last shot. */
	struct user_part part;
};

FIXTURE_VARIANT(stores) {
	/* Function of the program, and the handler's system call in the kernel. */
	const char *function, *sigreturn;
};

FIXTURE_VARIANT_ADD(stores, signals) {
	.function	= "old_signals",
	.sigreturn	= "__ia32_compat_sys_sigreturn",
};

FIXTURE_VARIANT_ADD(stores, rt_signals) {
	.function	= "rt_signals",
	.sigreturn	= "__ia32_compat_sys_rt_sigreturn",
};

FIXTURE_SETUP(stores)
{
	self->record = malloc(sizeof(*self->record));
	START();
	shots_init_32(&self->shots);
}

FIXTURE_TEARDOWN(stores)
{
	task_kill(&self->task);
	free(self->record);
}

/* Wait for @number shots; *@part is the last one. False if they do not come. */
static bool next_shots(FIXTURE_DATA(stores) *self, unsigned int number,
		       struct user_part *part, unsigned int *with_registers)
{
	time_t end = time(NULL) + 60;

	while (number) {
		if (shots_next_at(&self->shots, &self->ring, self->record, part)) {
			*with_registers += !!part->abi;
			number--;
			continue;
		}
		if (time(NULL) > end || waitpid(self->task.pid, NULL, WNOHANG))
			return false;
		usleep(1000);
	}
	return true;
}

/*
 * At each store of registers for a handler, and for the code that it returns to, samples
 * have no user registers. Before and between these stores they have.
 */
TEST_F(stores, none)
{
	struct user_part part;
	unsigned int with = 0;
	__u64 regs;
	int err;

	err = shots_open_function(&self->shots, &self->ring, self->task.pid, "__ia32_sys_kill");
	if (err == -ENOSPC || err == -ENOENT)
		SKIP(return, "needs root, CONFIG_KALLSYMS and hardware breakpoints");
	ASSERT_EQ(0, err);
	ASSERT_TRUE(task_order(&self->task, variant->function, 0));
	if (!next_shots(self, 1, &part, &with))
		SKIP(return, "needs hardware breakpoints that hit");
	ASSERT_TRUE(next_shots(self, 2, &part, &with));
	EXPECT_EQ(3, with);
	EXPECT_EQ(PERF_SAMPLE_REGS_ABI_32, part.abi);
	/* The argument of the kernel's system call function points to the registers. */
	regs = part.intr[PERF_REG_X86_DI];
	ring_close(&self->ring);

	ASSERT_EQ(0, shots_open_function(&self->shots, &self->ring, self->task.pid,
					 variant->sigreturn));
	with = 0;
	ASSERT_TRUE(next_shots(self, 3, &part, &with));
	EXPECT_EQ(3, with);
	EXPECT_EQ(PERF_SAMPLE_REGS_ABI_32, part.abi);
	ring_close(&self->ring);

	for (unsigned int i = 0; i < ARRAY_SIZE(shots_slots); i++) {
		ASSERT_EQ(0, shots_open_at(&self->shots, &self->ring, self->task.pid,
					   HW_BREAKPOINT_W, regs + shots_slots[i]));
		with = 0;
		ASSERT_TRUE(next_shots(self, 20, &part, &with));
		EXPECT_EQ(0, with) {
			TH_LOG("slot %zu; the last is stored by %llx", shots_slots[i],
			       part.intr[PERF_REG_X86_IP]);
		}
		ring_close(&self->ring);
	}
	ASSERT_TRUE(task_kill(&self->task));
}

FIXTURE(return_probe) {
	struct task task;
	struct perf_event_attr attr;
	struct ring ring, probe;
	union record *record;
};

FIXTURE_VARIANT(return_probe) {
	const char *function;
	/* How many entries of below_probe are gone when the function returns. */
	unsigned int left;
};

static const char * const below_probe[MAX_CHAIN] = {
	"int80_at", "middle_called", "top_called", "start_called",
};

FIXTURE_VARIANT_ADD(return_probe, innermost) { .function = "int80", .left = 1 };
FIXTURE_VARIANT_ADD(return_probe, middle) { .function = "middle", .left = 2 };
FIXTURE_VARIANT_ADD(return_probe, outermost) { .function = "top", .left = 3 };

FIXTURE_SETUP(return_probe)
{
	const struct program *program = &self->task.program;
	int err;

	self->record = malloc(sizeof(*self->record));
	START();
	err = uprobe_file_attr(&self->attr, program->path,
			       file_offset(program, label(program, variant->function)));
	if (err == -ENOENT)
		SKIP(return, "no uprobe event source");
	ASSERT_EQ(0, err);
	self->attr.config = 1;
}

FIXTURE_TEARDOWN(return_probe)
{
	free(self->record);
}

/* Expect one trace, which has these labels. */
#define EXPECT_ONE(ring, names) do {						\
	ASSERT_TRUE(ring_next_type(ring, self->record,				\
				   PERF_RECORD_CALLCHAIN_DEFERRED));		\
	expect_chain(_metadata, &self->task, as_deferred(self->record), names);	\
	EXPECT_FALSE(ring_next_type(ring, self->record,				\
				    PERF_RECORD_CALLCHAIN_DEFERRED));		\
} while (0)

/* While the probed function runs, its return address on the stack is the trampoline's. */
TEST_F(return_probe, below)
{
	struct tally tally;

	self->attr.defer_callchain = 0;
	self->attr.defer_output = 0;
	OPEN(&self->probe, &self->attr);
	OPEN_GETPPID(&self->ring);
	ASSERT_EQ(0, task_run(&self->task, "int80", 0));
	EXPECT_ONE(&self->ring, below_probe);
	/* The probe was hit. */
	tally_rings(&tally, &self->probe, 1, self->task.pid);
	EXPECT_EQ(1, tally.samples);
}

/* The sample of the probe itself, which is taken in the trampoline. */
TEST_F(return_probe, at_return)
{
	OPEN(&self->probe, &self->attr);
	ASSERT_EQ(0, task_run(&self->task, "int80", 0));
	EXPECT_ONE(&self->probe, below_probe + variant->left);
}

TEST_HARNESS_MAIN
