// SPDX-License-Identifier: GPL-2.0
/*
 * Single-step a process, and compare an unwind at each instruction with a shadow stack.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "oracle.h"
#include "../../kselftest.h"

/* A function that does not return is a bug in the test. */
#define MAX_STEPS	20000
/* Maximum number of wrong positions to print. */
#define MAX_SHOWN	40
#define STACK_SIZE	0x40000UL
/* Each run begins at another one of these, so that stacks have all alignments. */
#define STACK_STARTS	16

/*
 * rdi: function, rsi: its argument, rdx: its stack. The outermost function: its frame
 * pointer is 0. The function in between relies on the others to preserve the frame pointer.
 */
asm(
"	.pushsection .text\n"
"	.globl	oracle_bare, oracle_bare_begin, oracle_bare_end\n"
"	.type	oracle_bare, @function\n"
"oracle_bare:\n"
"	push	%rbp\n"
"	push	%rbx\n"
"	mov	%rsp, %rbx\n"
"	mov	%rdx, %rsp\n"
"	xor	%ebp, %ebp\n"
"	mov	%rdi, %rax\n"
"	mov	%rsi, %rdi\n"
"	int3\n"
"oracle_bare_begin:\n"
"	call	oracle_bare_frame\n"
"oracle_bare_end:\n"
"	mov	%rbx, %rsp\n"
"	pop	%rbx\n"
"	pop	%rbp\n"
"	ret\n"
"	.size	oracle_bare, . - oracle_bare\n"
"	.type	oracle_bare_frame, @function\n"
"oracle_bare_frame:\n"
"	push	%rbp\n"
"	mov	%rsp, %rbp\n"
"	call	*%rax\n"
"	pop	%rbp\n"
"	ret\n"
"	.size	oracle_bare_frame, . - oracle_bare_frame\n"
"	.popsection\n"
);

const char *oracle_missing(void)
{
	if (tracepoint_id("signal/signal_generate") < 0)
		return "needs root, tracefs and CONFIG_FTRACE";
	return NULL;
}

const char *oracle_missing_sframe(void)
{
	if (access("/proc/sys/" ORACLE_SYSCTL, W_OK))
		return "needs root and CONFIG_UNWIND_USER_SFRAME";
	return oracle_missing();
}

const char *oracle_beside(const char *name)
{
	static char path[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - NAME_MAX - 2);

	path[len < 0 ? 0 : len] = '\0';
	dirname(path);
	strcat(path, "/");
	return strcat(path, name);
}

static bool oracle_failed(const struct oracle *oracle, const char *what)
{
	ksft_print_msg("%s, at %llx after %u steps: %s\n", what, oracle->regs.rip,
		       oracle->steps, strerror(errno));
	return false;
}

/* If two processes take turns, only a switch to another CPU takes much time. */
static void oracle_stay_here(void)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
}

static unsigned long oracle_peek(const struct oracle *oracle, unsigned long addr)
{
	return ptrace(PTRACE_PEEKDATA, oracle->child, addr, 0);
}

/* Let the child run until it stops; false if it ends instead. */
static bool oracle_resume(struct oracle *oracle, int how, int sig)
{
	int status;

	ring_drain(&oracle->ring);
	if (ptrace(how, oracle->child, 0, sig) ||
	    waitpid(oracle->child, &status, 0) != oracle->child ||
	    !WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
		return false;
	return !ptrace(PTRACE_GETREGS, oracle->child, 0, &oracle->regs);
}

static bool oracle_attach(struct oracle *oracle)
{
	struct perf_event_attr attr = tracepoint_attr("signal/signal_generate");
	int status;

	/* Skip the kernel's stack: thousands of samples do not need it. */
	attr.exclude_callchain_kernel = 1;
	oracle->record = malloc(sizeof(*oracle->record));
	if (!oracle->record || oracle->child < 0 ||
	    waitpid(oracle->child, &status, 0) != oracle->child || !WIFSTOPPED(status))
		return oracle_failed(oracle, "no child");
	errno = -ring_open(&oracle->ring, &attr, oracle->child, -1, 32);
	if (errno)
		return oracle_failed(oracle, "no event");
	ring_enable(&oracle->ring);
	return true;
}

/* The end of a stack that is aligned to its size, unlike any other. */
static unsigned long oracle_stack(void)
{
	void *map = mmap(NULL, 2 * STACK_SIZE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return map == MAP_FAILED ? 0 : ((unsigned long)map | (STACK_SIZE - 1)) + STACK_SIZE + 1;
}

bool oracle_fork(struct oracle *oracle, const struct oracle_base *base,
		 const struct oracle_func *table)
{
	unsigned long sp = oracle_stack();

	oracle_stay_here();
	oracle->base = base;
	oracle->child = sp ? fork() : -1;
	if (!oracle->child) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		for (const struct oracle_func *f = table; f->name; f++)
			base->enter(f->func, f->arg,
				    (void *)(sp - (f - table) % STACK_STARTS * 16));
		_exit(0);
	}
	return oracle_attach(oracle);
}

bool oracle_exec(struct oracle *oracle, const char *path, const char *arg)
{
	oracle_stay_here();
	oracle->child = fork();
	if (!oracle->child) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		personality(ADDR_NO_RANDOMIZE);
		raise(SIGSTOP);
		execle(path, path, arg, NULL, (char *[]){ NULL });
		_exit(1);
	}
	if (!oracle_attach(oracle))
		return false;
	return oracle_resume(oracle, PTRACE_CONT, 0) || oracle_failed(oracle, path);
}

void oracle_end(struct oracle *oracle)
{
	if (oracle->child > 0) {
		kill(oracle->child, SIGKILL);
		waitpid(oracle->child, NULL, 0);
	}
	free(oracle->record);
}

bool oracle_judge(struct oracle *oracle, pid_t pid, const char *name)
{
	if (oracle->images == ORACLE_IMAGES ||
	    !oracle_image_open(&oracle->image[oracle->images], pid, name))
		return oracle_failed(oracle, name);
	oracle->images++;
	return true;
}

static struct oracle_image *oracle_image_of(struct oracle *oracle, unsigned long addr)
{
	for (unsigned int i = 0; i < oracle->images; i++) {
		struct oracle_image *image = &oracle->image[i];

		if (addr >= image->start && addr < image->end)
			return image;
	}
	return NULL;
}

/* Format an address as "function+0x12", for messages. */
static const char *oracle_place(struct oracle *oracle, unsigned long addr, char *buf,
				size_t size)
{
	const struct oracle_image *image = oracle_image_of(oracle, addr);
	unsigned long offset;
	const char *name;

	name = image ? oracle_image_symbol(image, addr, &offset) : NULL;
	if (name)
		snprintf(buf, size, "%s+%#lx", name, offset);
	else if (image)
		snprintf(buf, size, "%s:%#lx", image->name, addr - image->bias);
	else
		snprintf(buf, size, "%#lx", addr);
	return buf;
}

static void oracle_push(struct oracle *oracle, unsigned long slot, unsigned long ra)
{
	if (oracle->nr < ORACLE_DEPTH) {
		oracle->frame[oracle->nr].slot = slot;
		oracle->frame[oracle->nr].ra = ra;
		oracle->nr++;
	}
}

/* Account the last instruction: only a call pushes the address that follows it. */
static void oracle_shadow(struct oracle *oracle, const struct user_regs_struct *from)
{
	unsigned long sp = oracle->regs.rsp, ra;

	while (oracle->nr > oracle->floor && oracle->frame[oracle->nr - 1].slot < sp)
		oracle->nr--;
	if (sp != from->rsp - sizeof(ra))
		return;
	ra = oracle_peek(oracle, sp);
	if (ra - from->rip >= 2 && ra - from->rip <= 15)
		oracle_push(oracle, sp, ra);
}

/* The correct entry @i of the trace, innermost first. */
static unsigned long oracle_truth(const struct oracle *oracle, unsigned int i)
{
	return i ? oracle->frame[oracle->nr - i].ra : oracle->regs.rip;
}

/* The first wrong entry, or -1. */
static int oracle_compare(const struct oracle *oracle, const struct deferred *deferred)
{
	for (unsigned int i = 0; i <= oracle->nr; i++) {
		if (i >= deferred->nr || deferred->ips[i] != oracle_truth(oracle, i))
			return i;
	}
	return deferred->nr == oracle->nr + 1 ? -1 : oracle->nr + 1;
}

static void oracle_show(struct oracle *oracle, const struct deferred *deferred, int wrong)
{
	unsigned long code = oracle_peek(oracle, oracle->regs.rip);
	char at[128], is[128] = "the end", not[128] = "the end";

	oracle_place(oracle, oracle->regs.rip, at, sizeof(at));
	if (wrong < deferred->nr)
		oracle_place(oracle, deferred->ips[wrong], is, sizeof(is));
	if (wrong <= oracle->nr)
		oracle_place(oracle, oracle_truth(oracle, wrong), not, sizeof(not));
	ksft_print_msg("%s at %02lx %02lx %02lx %02lx: entry %d of %u is %s, not %s%s\n", at,
		       code & 0xff, code >> 8 & 0xff, code >> 16 & 0xff, code >> 24 & 0xff,
		       wrong, oracle->nr + 1, is, not, oracle->floor ? ", in a handler" : "");
}

/* The mark of the judged code: an error in a handler counts for the interrupted code. */
static unsigned char *oracle_mark(struct oracle *oracle)
{
	unsigned long ip = oracle->floor ? oracle->interrupted.rip : oracle->regs.rip;
	struct oracle_image *image = oracle_image_of(oracle, ip);

	return image ? &image->marks[ip - image->start] : NULL;
}

/* Compare if the ip is in judged code; false if there is no trace at all. */
static bool oracle_compare_here(struct oracle *oracle)
{
	const struct deferred *deferred = as_deferred(oracle->record);
	unsigned char *mark = oracle_mark(oracle);
	int wrong;

	if (!mark)
		return true;
	if (!ring_next_type(&oracle->ring, oracle->record, PERF_RECORD_CALLCHAIN_DEFERRED))
		return oracle_failed(oracle, "no trace");
	*mark |= ORACLE_SEEN;
	wrong = oracle_compare(oracle, deferred);
	if (wrong < 0)
		return true;
	oracle->wrong++;
	if (!oracle->quiet && !(*mark & ORACLE_WRONG) && oracle->shown++ < MAX_SHOWN)
		oracle_show(oracle, deferred, wrong);
	*mark |= ORACLE_WRONG;
	return true;
}

/* Run to an address. A hardware breakpoint does not change the code. */
static bool oracle_run_to(struct oracle *oracle, unsigned long addr)
{
	long dr0 = offsetof(struct user, u_debugreg[0]);
	long dr7 = offsetof(struct user, u_debugreg[7]);

	if (ptrace(PTRACE_POKEUSER, oracle->child, dr0, addr) ||
	    ptrace(PTRACE_POKEUSER, oracle->child, dr7, 1) ||
	    !oracle_resume(oracle, PTRACE_CONT, 0) || oracle->regs.rip != addr ||
	    ptrace(PTRACE_POKEUSER, oracle->child, dr7, 0))
		return oracle_failed(oracle, "no breakpoint");
	return true;
}

/*
 * The first call through a PLT enters the dynamic linker, with the number of the
 * function on the stack. Skip the thousand steps of the linker.
 */
static bool oracle_skip_linker(struct oracle *oracle, const struct user_regs_struct *from)
{
	const struct oracle_image *image = oracle_image_of(oracle, from->rip);
	unsigned long sp = oracle->regs.rsp;

	if (!image || oracle_image_of(oracle, oracle->regs.rip) || sp != from->rsp)
		return true;
	return oracle_run_to(oracle, oracle_image_plt(image, oracle_peek(oracle, sp + 8)));
}

/* Step one instruction. If there is a base, the process has the code of this one. */
static bool oracle_step(struct oracle *oracle)
{
	struct user_regs_struct from = oracle->regs;

	oracle->steps++;
	if (!oracle_resume(oracle, PTRACE_SINGLESTEP, 0))
		return false;
	oracle_shadow(oracle, &from);
	return oracle_skip_linker(oracle, &from);
}

/* Interrupt the code here, and step through the handler. */
static bool oracle_interrupt(struct oracle *oracle)
{
	oracle->interrupted = oracle->regs;
	if (!oracle_resume(oracle, PTRACE_SINGLESTEP, oracle->signal))
		return oracle_failed(oracle, "no signal");
	oracle_push(oracle, -1UL, oracle->interrupted.rip);
	oracle->floor = oracle->nr;
	oracle_push(oracle, oracle->regs.rsp, oracle_peek(oracle, oracle->regs.rsp));

	for (unsigned int i = 0; i < MAX_STEPS; i++) {
		if (!oracle_step(oracle))
			return oracle_failed(oracle, "lost in a handler");
		if (oracle->regs.rip == oracle->interrupted.rip &&
		    oracle->regs.rsp == oracle->interrupted.rsp) {
			oracle->nr = oracle->floor - 1;
			oracle->floor = 0;
			return true;
		}
		if (!oracle_compare_here(oracle))
			return false;
	}
	return oracle_failed(oracle, "a handler without an end");
}

static bool oracle_may_interrupt(struct oracle *oracle)
{
	struct oracle_image *image = oracle_image_of(oracle, oracle->regs.rip);
	unsigned char *mark;

	if (!oracle->signal || !image)
		return false;
	mark = &image->marks[oracle->regs.rip - image->start];
	if (*mark & ORACLE_SIGNALED)
		return false;
	*mark |= ORACLE_SIGNALED;
	return true;
}

/* Run to the breakpoint before the call. */
static bool oracle_begin(struct oracle *oracle)
{
	oracle->nr = 0;
	if (!oracle->base)
		return true;
	if (!oracle_resume(oracle, PTRACE_CONT, 0) ||
	    oracle->regs.rip != (uintptr_t)oracle->base->begin)
		return oracle_failed(oracle, "no function");
	return true;
}

/* A breakpoint in the code ends a function that never returns. */
static bool oracle_is_end(const struct oracle *oracle, unsigned long from)
{
	if (!oracle->base)
		return false;
	return oracle->regs.rip == (uintptr_t)oracle->base->end ||
	       (oracle->regs.rip == from + 1 && *(unsigned char *)from == 0xcc);
}

static bool oracle_go_on(struct oracle *oracle, struct user_regs_struct *regs)
{
	if (!oracle->base || oracle->regs.rip == (uintptr_t)oracle->base->end)
		return true;
	regs->rip = (uintptr_t)oracle->base->end;
	return !ptrace(PTRACE_SETREGS, oracle->child, 0, regs) ||
	       oracle_failed(oracle, "no way back");
}

bool oracle_run(struct oracle *oracle, const char *name)
{
	struct user_regs_struct begin;

	if (!oracle_begin(oracle))
		return false;
	begin = oracle->regs;
	for (unsigned int i = 0; i < MAX_STEPS; i++) {
		unsigned long from = oracle->regs.rip;

		if (!oracle_step(oracle))
			return !oracle->base || oracle_failed(oracle, name);
		if (oracle_is_end(oracle, from))
			return oracle_go_on(oracle, &begin);
		if (!oracle_compare_here(oracle))
			return false;
		if (oracle_may_interrupt(oracle) && !oracle_interrupt(oracle))
			return false;
	}
	return oracle_failed(oracle, "a function without an end");
}

bool oracle_run_table(struct oracle *oracle, const struct oracle_func *table)
{
	for (const struct oracle_func *f = table; f->name; f++) {
		if (!oracle_run(oracle, f->name))
			return false;
	}
	oracle_report(oracle);
	return true;
}

void oracle_report(const struct oracle *oracle)
{
	for (unsigned int i = 0; i < oracle->images; i++) {
		const struct oracle_image *image = &oracle->image[i];

		ksft_print_msg("%s: %u positions, %u wrong\n", image->name,
			       oracle_image_count(image, NULL, ORACLE_SEEN),
			       oracle_image_count(image, NULL, ORACLE_WRONG));
	}
	ksft_print_msg("%u instructions, %u wrong\n", oracle->steps, oracle->wrong);
}
