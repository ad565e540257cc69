// SPDX-License-Identifier: GPL-2.0
/*
 * A task that enters the kernel with random registers, stacks, code, signal frames and
 * segments: by system calls of all ABIs, faults, signals and interrupts.
 *
 * Its actions may kill the task. If it survives, it returns to one_round(): directly, or
 * from the handler of the signal that the action raised.
 */
#define _GNU_SOURCE
#include <asm/ldt.h>
#include <grp.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include "random.h"
#include "fuzz_child.h"
#include "workload.h"
#include "../../kselftest.h"

#define PAGE		4096UL
/* In memory that 32-bit code can address. */
#define ARENA		0x20000000UL
#define CODE_PAGES	8
#define DATA_PAGES	24
#define BAD_PAGES	16
#define CODE		ARENA
#define DATA		(CODE + CODE_PAGES * PAGE)
#define BAD		(DATA + DATA_PAGES * PAGE)
#define ARENA_SIZE	((CODE_PAGES + DATA_PAGES + BAD_PAGES) * PAGE)
/* The way back from 32-bit code; no random code writes here. */
#define BACK		(BAD + BAD_PAGES * PAGE)
#define ROUNDS		400
#define NOBODY		65534

#define LDT_CODE	7
#define LDT_STACK	15

/* Registers that fuzz_enter() loads. */
struct start {
	__u64	rip, rsp, rbp, rax, rdi, rsi, rdx, r10, rcx, cs, ss;
};

void fuzz_enter(const struct start *start);
void fuzz_enter_far(const struct start *start);
extern const char fuzz_syscall[], fuzz_int80[], fuzz_touch[], fuzz_spin[], fuzz_after[];
extern const char fuzz_call[], fuzz_called[];

#define LOAD_AND_GO(go)							\
"	push	%rbp\n"							\
"	push	%rbx\n"							\
"	push	%r12\n"							\
"	push	%r13\n"							\
"	push	%r14\n"							\
"	push	%r15\n"							\
"	mov	%rsp, fuzz_saved(%rip)\n"				\
"	mov	0(%rdi), %r11\n"					\
"	mov	16(%rdi), %rbp\n"					\
"	mov	24(%rdi), %rax\n"					\
"	mov	40(%rdi), %rsi\n"					\
"	mov	48(%rdi), %rdx\n"					\
"	mov	56(%rdi), %r10\n"					\
"	mov	64(%rdi), %rcx\n"					\
	go

asm(
"	.lcomm	fuzz_saved, 8\n"
"	.lcomm	fuzz_far, 8\n"
"	.pushsection .text\n"
"	.type	fuzz_enter, @function\n"
"fuzz_enter:\n"
	LOAD_AND_GO(
"	mov	8(%rdi), %rsp\n"
"	mov	32(%rdi), %rdi\n"
"	jmp	*%r11\n"
	)
	/* The same to another code segment, with another stack segment. */
"fuzz_enter_far:\n"
	LOAD_AND_GO(
"	mov	80(%rdi), %r12\n"
"	mov	72(%rdi), %r13\n"
"	mov	%r11d, fuzz_far(%rip)\n"
"	mov	%r13w, fuzz_far+4(%rip)\n"
"	mov	$0x2b, %r13d\n"
"	mov	%r13d, %ds\n"
"	mov	%r12d, %ss\n"
"	mov	8(%rdi), %rsp\n"
"	mov	32(%rdi), %rdi\n"
"	ljmpl	*fuzz_far(%rip)\n"
	)
"fuzz_syscall:\n"
"	syscall\n"
"	jmp	fuzz_after\n"
"fuzz_int80:\n"
"	int	$0x80\n"
"	jmp	fuzz_after\n"
"fuzz_touch:\n"
"	mov	(%rdi), %eax\n"
"	jmp	fuzz_after\n"
"fuzz_spin:\n"
"	dec	%rcx\n"
"	jnz	fuzz_spin\n"
"fuzz_after:\n"
"	mov	fuzz_saved(%rip), %rsp\n"
"	push	$0\n"
"	popf\n"
"	mov	$0x2b, %eax\n"
"	mov	%eax, %ss\n"
	RETURN_TO_C
	/* Never called: only its addresses are used. */
"fuzz_call:\n"
"	call	fuzz_after\n"
"fuzz_called:\n"
"	ret\n"
"	.popsection\n"
);

static struct fuzz_shared *shared;
static sigjmp_buf recover;
static unsigned long tls;
static uintptr_t restorer;

/* Addresses. */

static unsigned long kernel_address(void)
{
	static const unsigned long addrs[] = {
		0xffff888000000000, 0xffff888000100000, 0xffffffff81000000,
		0xffffffff81000010, 0xffffc90000000000, 0xfffffe0000000000,
		0xffffffffff5fb000, 0xffffffffff600000, 0xffffffffff600400,
		0x0000800000000000, 0x00007ffffffff000, 0x00007fffffffefff,
		0x8000000000000000, 0xffff7fffffffffff, ~0UL, ~0UL - 7, ~0UL - 15,
	};

	return addrs[rnd_below(sizeof(addrs) / sizeof(*addrs))];
}

static unsigned long text_address(void)
{
	/* Only addresses at the start of instructions, see sanitize(). */
	switch (rnd_below(8)) {
	case 0:
		return restorer;
	case 1:
		return (unsigned long)fuzz_called;
	case 2:
		return (unsigned long)fuzz_after;
	default:
		return CODE + rnd_below(CODE_PAGES * PAGE);
	}
}

static unsigned long any_address(void)
{
	switch (rnd_below(16)) {
	case 0:
		return kernel_address();
	case 1:
		return rnd_wide();
	case 2:
		return rnd_below(2 * PAGE);
	case 3:
		return BAD + rnd_below(BAD_PAGES * PAGE);
	case 4:
		return text_address();
	case 5:
		return (unsigned long)__builtin_frame_address(0) + 8 * rnd_below(64);
	case 6:
		/* Around the edges of pages. */
		return DATA + rnd_below(DATA_PAGES + BAD_PAGES) * PAGE - 24 + 8 * rnd_below(6);
	case 7:
		return DATA + rnd_below(DATA_PAGES * PAGE);
	default:
		return DATA + 8 * rnd_below(DATA_PAGES * PAGE / 8);
	}
}

/* Memory. */

/* Start of the latest chain of frames. */
static unsigned long chain;

static void random_frames(void)
{
	unsigned long at = DATA + 8 * rnd_below(PAGE / 8);
	unsigned int gap = 1 + rnd_below(one_in(2) ? 3 : 80);
	unsigned int mutate = one_in(3) ? 10000 : 30;

	chain = at;
	for (unsigned int i = rnd_below(300); i && at + 8 * gap + 32 < BAD; i--) {
		unsigned long next = at + 8 * (2 + rnd_below(gap));
		unsigned long *frame = (void *)at;

		frame[0] = one_in(mutate) ? any_address() : next;
		frame[1] = one_in(mutate) ? any_address() : text_address();
		at = next;
	}
}

static void random_words(void)
{
	for (int i = 0; i < 64; i++)
		*(unsigned long *)(DATA + 8 * rnd_below(DATA_PAGES * PAGE / 8)) = any_address();
}

/*
 * In QEMU 7.2, far calls and returns access the stack with kernel privileges, and a page
 * fault there kills the guest. Remove them, from whatever byte the code is entered.
 */
static void sanitize(unsigned char *from, unsigned char *to)
{
	for (unsigned char *at = from; at < to; at++) {
		unsigned int reg = at[1] >> 3 & 7;

		switch (*at) {
		case 0x9a:
		case 0xca:
		case 0xcb:
		case 0xcf:
			*at = 0x90;
			break;
		case 0xff:
			if (reg == 3 || reg == 5)
				at[1] = 0xd0;
			break;
		}
	}
}

/* Instructions that a walk decodes, with random bytes around them. */
static void random_code(void)
{
	static const struct {
		unsigned char len, code[10];
	} known[] = {
		{ 1, { 0x55 } }, { 3, { 0x48, 0x89, 0xe5 } }, { 1, { 0x5d } },
		{ 1, { 0xc3 } }, { 1, { 0xc9 } }, { 4, { 0xf3, 0x0f, 0x1e, 0xfa } },
		{ 5, { 0xe8 } }, { 5, { 0xe9 } }, { 2, { 0xeb } }, { 2, { 0xff, 0xd0 } },
		{ 2, { 0xff, 0xe0 } }, { 6, { 0xff, 0x25 } }, { 6, { 0xff, 0x15 } },
		{ 3, { 0xc2, 8, 0 } }, { 4, { 0x48, 0x83, 0xec } },
		{ 4, { 0x48, 0x83, 0xe4, 0xf0 } }, { 5, { 0x4c, 0x8d, 0x54, 0x24, 8 } },
		{ 4, { 0x41, 0xff, 0x72, 0xf8 } }, { 4, { 0x49, 0x8d, 0x62, 0xf8 } },
		{ 9, { 0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05 } },
		{ 7, { 0xb8, 15, 0, 0, 0, 0x0f, 0x05 } },
		{ 9, { 0x48, 0xc7, 0xc0, 1, 2, 0, 0x40, 0x0f, 0x05 } },
		{ 8, { 0x58, 0xb8, 0x77, 0, 0, 0, 0xcd, 0x80 } },
		{ 7, { 0xb8, 0xad, 0, 0, 0, 0xcd, 0x80 } }, { 1, { 0x90 } },
		{ 1, { 0xcc } }, { 3, { 0xc5, 0xf8, 0x77 } }, { 2, { 0x87, 0xe5 } },
		{ 1, { 0x66 } }, { 1, { 0xf0 } },
	};
	unsigned char *start = (unsigned char *)CODE + 1 + rnd_below(CODE_PAGES * PAGE - 1024);
	unsigned char *at = start;

	for (int i = 0; i < 40; i++) {
		unsigned int k = rnd_below(sizeof(known) / sizeof(*known));
		unsigned char random[10];
		__u64 bits = rnd();

		memset(random, 0, sizeof(random));
		memcpy(random, &bits, 8);
		/* No system calls except for those above. */
		for (int j = 0; j < 10; j++) {
			if (random[j] == 0x05 || random[j] == 0x80 || random[j] == 0x34)
				random[j] = 0x90;
		}
		if (one_in(4)) {
			memcpy(at, random, 8);
			at += 1 + rnd_below(8);
			continue;
		}
		memcpy(at, known[k].code, known[k].len);
		/* Set the target of jumps and calls. */
		if (known[k].len > 1 && !known[k].code[known[k].len - 1])
			at[1] = random[0];
		at += known[k].len;
	}
	/* Random bytes are written as 8 bytes, even if the next instruction starts within. */
	sanitize(start - 1, at + 8);
}

static void make_bad_pages(void)
{
	for (unsigned long page = BAD; page < BACK; page += PAGE) {
		void *addr = (void *)page;

		switch (rnd_below(6)) {
		case 0:
			munmap(addr, PAGE);
			break;
		case 1:
			mprotect(addr, PAGE, PROT_NONE);
			break;
		case 2:
			mprotect(addr, PAGE, PROT_READ);
			break;
		case 3:
			mmap(addr, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED,
			     memfd_create("empty", MFD_CLOEXEC), 0);
			break;
		case 4:
			madvise(addr, PAGE, MADV_DONTNEED);
			break;
		}
	}
}

static void make_arena(void)
{
	/* mov $fuzz_after,%rax; jmp *%rax */
	static const unsigned char back[] = { 0x48, 0xb8, [10] = 0xff, 0xe0 };
	unsigned long after = (unsigned long)fuzz_after;
	struct user_desc desc = {
		.limit = 0xfffff, .seg_32bit = 1, .limit_in_pages = 1,
	};

	if (mmap((void *)ARENA, ARENA_SIZE + PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != (void *)ARENA)
		_exit(1);
	memcpy((void *)BACK, back, sizeof(back));
	memcpy((void *)BACK + 2, &after, 8);
	mprotect((void *)BACK, PAGE, PROT_READ | PROT_EXEC);
	mprotect((void *)DATA, BACK - DATA, PROT_READ | PROT_WRITE);
	make_bad_pages();

	desc.contents = MODIFY_LDT_CONTENTS_CODE;
	desc.base_addr = one_in(2) ? 0 : rnd_wide();
	syscall(SYS_modify_ldt, 1, &desc, sizeof(desc));
	desc.entry_number = 1;
	desc.contents = MODIFY_LDT_CONTENTS_DATA;
	desc.base_addr = one_in(2) ? 0 : rnd_wide();
	syscall(SYS_modify_ldt, 1, &desc, sizeof(desc));
}

/* Ways into the kernel. */

static struct start random_start(const char *rip)
{
	bool good = chain && one_in(2);

	return (struct start) {
		.rip	= (unsigned long)rip,
		.rsp	= good ? chain - 8 * rnd_below(64) : any_address(),
		.rbp	= good ? chain : any_address(),
		.rax	= SYS_getppid,
		.rdi	= any_address(),
		.r10	= any_address(),
		.rcx	= 1 + rnd_below(3000),
	};
}

static void go_syscall(void)
{
	struct start start = random_start(fuzz_syscall);

	fuzz_enter(&start);
}

static void go_int80(void)
{
	struct start start = random_start(fuzz_int80);

	/* getppid() there */
	start.rax = 64;
	fuzz_enter(&start);
}

static void go_touch(void)
{
	struct start start = random_start(fuzz_touch);

	fuzz_enter(&start);
}

static void go_spin(void)
{
	struct start start = random_start(fuzz_spin);

	fuzz_enter(&start);
}

/* To an address that is not code, or to code that is not present. */
static void go_nowhere(void)
{
	struct start start = random_start(NULL);

	start.rip = one_in(3) ? any_address() : BAD + rnd_below(BAD_PAGES * PAGE);
	if (start.rip - CODE < CODE_PAGES * PAGE)
		start.rip = 0;
	fuzz_enter(&start);
}

/* Run random code; a timer ends it. */
static void go_code(void)
{
	struct itimerval timer = { .it_value = { .tv_usec = 3000 } };
	struct start start = random_start(NULL);

	start.rip = CODE + rnd_below(CODE_PAGES * PAGE);
	if (one_in(2))
		start.rsp = DATA + 8 * rnd_below(DATA_PAGES * PAGE / 8);
	setitimer(ITIMER_REAL, &timer, NULL);
	fuzz_enter(&start);
}

static __u16 random_segment(void)
{
	static const __u16 known[] = { 0x33, 0x2b, 0x23, LDT_CODE, LDT_STACK, 0, 3, 0x10, 0x18 };

	return one_in(8) ? rnd() : known[rnd_below(sizeof(known) / sizeof(*known))];
}

static void random_context(unsigned long at)
{
	ucontext_t *uc = (void *)at;
	greg_t *gregs = uc->uc_mcontext.gregs;

	memset(uc, 0, offsetof(ucontext_t, __fpregs_mem));
	gregs[REG_RIP] = one_in(3) ? any_address() : (unsigned long)fuzz_after;
	gregs[REG_RSP] = any_address();
	gregs[REG_RBP] = any_address();
	gregs[REG_R10] = any_address();
	gregs[REG_EFL] = one_in(4) ? rnd() & ~0x40000 : 0x202;
	gregs[REG_CSGSFS] = one_in(3) ? random_segment() | (__u64)random_segment() << 48 :
					0x33 | 0x2bULL << 48;
	uc->uc_flags = rnd_below(8);
	if (one_in(8))
		uc->uc_mcontext.fpregs = (void *)any_address();
}

/* Words of a 32-bit signal frame, from its struct sigcontext_32 on. */
#define SC_32_SP	7
#define SC_32_IP	14
#define SC_32_CS	15
#define SC_32_FLAGS	16
#define SC_32_SS	18
#define SC_32_FPSTATE	19
/* Start of that struct in a real-time frame, and the words of signal masks. */
#define SC_32_RT	40
#define MASKS_32	{ 20, 62, 63, 178 }

static void random_context_32(unsigned long at, bool rt)
{
	static const unsigned int masks[] = MASKS_32;
	__u32 *words = (void *)at, *sc = words + (rt ? SC_32_RT : 0);

	for (int i = 0; i < 64; i++)
		words[i] = one_in(2) ? 0 : one_in(2) ? random_segment() : any_address();
	if (one_in(2)) {
		sc[SC_32_IP] = BACK;
		sc[SC_32_CS] = 0x33;
		sc[SC_32_SS] = 0x2b;
		sc[SC_32_FLAGS] = 0x202;
		sc[SC_32_FPSTATE] = 0;
	}
	if (one_in(4))
		sc[SC_32_SP] = one_in(2) ? chain : any_address();
	/* Clear the masks: a blocked signal kills the task, and a new one takes time. */
	for (unsigned int i = 0; i < ARRAY_SIZE(masks) && !one_in(20); i++)
		words[masks[i]] = 0;
}

/* Forged frames of all ABIs; the walk happens before they are restored. */
static void go_sigreturn(void)
{
	static const long numbers[] = { SYS_rt_sigreturn, 0x40000000 | 513, 119, 173 };
	unsigned int which = rnd_below(4);
	struct start start = random_start(which < 2 ? fuzz_syscall : fuzz_int80);

	start.rax = numbers[which];
	start.rsp = DATA + 16 * rnd_below((DATA_PAGES - 1) * PAGE / 16);
	if (which < 2)
		random_context(start.rsp);
	else
		random_context_32(start.rsp, which == 3);
	if (one_in(10))
		start.rsp = any_address();
	fuzz_enter(&start);
}

/* Write the 32-bit code to a random place. */
static unsigned long compat_code(void)
{
	/* mov $64,%eax; int $0x80; mov (%edi),%eax; ljmp $0x33,$BACK */
	static const unsigned char code[] = {
		0xb8, 64, 0, 0, 0, 0xcd, 0x80, 0x8b, 0x07, 0xea, 0, 0, 0, 0, 0x33, 0,
	};
	unsigned long at = CODE + rnd_below(CODE_PAGES * PAGE - sizeof(code));
	__u32 back = BACK;

	memcpy((void *)at, code, sizeof(code));
	memcpy((void *)at + 10, &back, sizeof(back));
	return at;
}

static unsigned long compat_at;

static void go_compat(void)
{
	struct start start = random_start((void *)compat_at);

	start.cs = one_in(2) ? 0x23 : LDT_CODE;
	start.ss = one_in(2) ? 0x2b : LDT_STACK;
	if (one_in(2))
		start.rsp = (__u32)start.rsp;
	fuzz_enter_far(&start);
}

static void on_usr1(int sig)
{
	long call[7] = { SYS_getppid };

	workload_call_fp(NULL, (unsigned long)__builtin_frame_address(0), call);
	if (one_in(2))
		workload_call_fp(NULL, any_address(), call);
	asm volatile("" : : : "memory");
}

/* A handler on either stack, interrupting code with known callers or with none. */
static void go_signal(void)
{
	struct sigaction action = {
		.sa_handler	= on_usr1,
		.sa_flags	= one_in(2) ? SA_ONSTACK : 0,
	};
	long call[7] = { SYS_tkill, gettid(), SIGUSR1 };

	sigaction(SIGUSR1, &action, NULL);
	if (one_in(2))
		workload_call_on((void *)DATA + (1 + rnd_below(DATA_PAGES)) * PAGE,
				 rnd_below(20), call);
	else
		workload_call_fp((void *)DATA + (1 + rnd_below(DATA_PAGES)) * PAGE,
				 any_address(), call);
}

static void (* const kinds[FUZZ_KINDS])(void) = {
	go_syscall, go_int80, go_touch, go_spin, go_nowhere, go_code, go_sigreturn, go_compat,
	go_signal,
};

const char * const fuzz_kinds[FUZZ_KINDS] = {
	"system call", "int $0x80", "page fault", "spin", "jump to nowhere", "random code",
	"sigreturn", "32-bit code", "signal",
};

/* 32-bit frames load segments, which destroys the thread's own. */
static __always_inline void restore_segments(void)
{
	unsigned long ret;

	asm volatile("mov %[ds], %%ds\n"
		     "syscall\n"
		     : "=a"(ret)
		     : "a"(SYS_arch_prctl), "D"(0x1002 /* ARCH_SET_FS */), "S"(tls), [ds] "r"(0)
		     : "rcx", "r11", "memory");
}

static void on_crash(int sig)
{
	restore_segments();
	siglongjmp(recover, 1);
}

static void catch_crashes(void)
{
	static const int signals[] = {
		SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGALRM,
	};
	struct sigaction action = { .sa_handler = on_crash, .sa_flags = SA_ONSTACK };
	stack_t stack = { .ss_sp = malloc(65536), .ss_size = 65536 };

	sigaltstack(&stack, NULL);
	for (unsigned int i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		sigaction(signals[i], &action, NULL);
}

static void find_restorer(int sig)
{
	restorer = (uintptr_t)__builtin_return_address(0);
}

static void one_round(void)
{
	struct itimerval none = {};
	unsigned int kind = rnd_below(FUZZ_KINDS);

	setitimer(ITIMER_REAL, &none, NULL);
	shared->kinds[kind]++;
	if (one_in(3))
		random_frames();
	if (one_in(4))
		random_words();
	/* Make the code writable only while it does not run. */
	mprotect((void *)CODE, CODE_PAGES * PAGE, PROT_READ | PROT_WRITE);
	random_code();
	if (kinds[kind] == go_compat)
		compat_at = compat_code();
	mprotect((void *)CODE, CODE_PAGES * PAGE, PROT_READ | PROT_EXEC);
	if (!sigsetjmp(recover, 1))
		kinds[kind]();
	restore_segments();
}

/* Run as another user with few rights: random code may do anything. */
void fuzz_child(struct fuzz_shared *with, unsigned int nr)
{
	struct rlimit none = {}, few = { 4, 4 };
	unsigned int rounds;

	shared = with;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fuzz_reseed(nr);
	signal(SIGUSR1, find_restorer);
	raise(SIGUSR1);
	syscall(SYS_arch_prctl, 0x1003 /* ARCH_GET_FS */, &tls);
	make_arena();
	catch_crashes();
	setrlimit(RLIMIT_CORE, &none);
	setrlimit(RLIMIT_FSIZE, &none);
	setrlimit(RLIMIT_NPROC, &few);
	if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
	    setresuid(NOBODY, NOBODY, NOBODY))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	raise(SIGSTOP);
	/* Limit the number of rounds. */
	rounds = 1 + rnd_below(ROUNDS);
	while (shared->round < rounds) {
		shared->round++;
		one_round();
	}
	_exit(0);
}
