// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the decoding of x86 code and frames: each instruction that the walker
 * knows at the ip, each form of a call before a return address, pushes at the start of
 * functions, and signal frames of every ABI. The test writes stacks and text into its own
 * mapping.
 */
#include <kunit/test.h>
#include <linux/compat.h>
#include <linux/mman.h>
#include <linux/ptrace.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/unwind_user_arch.h>

#include <asm/sigframe.h>
#include <asm/unwind_user.h>

#include "../../../kernel/unwind/unwind.h"

/* The mapping: stack, text, and the alternate signal stack. */
#define STACK		64
#define CODE		(PAGE_SIZE + 256)
#define CALLER(n)	(PAGE_SIZE + 512 + 16 * (n))
#define RESTORER	(PAGE_SIZE + 1024)
#define ALTSTACK	(2 * PAGE_SIZE)
#define MAP_SIZE	(4 * PAGE_SIZE)

#define MAX_ENTRIES	8

static unsigned long frame_map(struct kunit *test)
{
	unsigned long base = kunit_vm_mmap(test, NULL, 0, MAP_SIZE,
					   PROT_READ | PROT_WRITE | PROT_EXEC,
					   MAP_ANONYMOUS | MAP_PRIVATE | MAP_32BIT, 0);

	KUNIT_ASSERT_NE(test, base, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(base));
	for (int i = 1; i < MAX_ENTRIES; i++)
		KUNIT_ASSERT_EQ(test, 0, put_user(0xe8, (u8 __user *)base + CALLER(i) - 5));
	return base;
}

static void put_word(struct kunit *test, unsigned long addr, unsigned int ws, u64 val)
{
	KUNIT_ASSERT_EQ(test, 0, copy_to_user((void __user *)addr, &val, ws));
}

/* Write a frame for a walk by frame pointers; @next may be 0. */
static void put_frame(struct kunit *test, unsigned long addr, unsigned int ws,
		      u64 next, u64 ra)
{
	put_word(test, addr, ws, next);
	put_word(test, addr + ws, ws, ra);
}

static void put_code(struct kunit *test, unsigned long addr, const u8 *code, size_t len)
{
	KUNIT_ASSERT_EQ(test, 0, copy_to_user((void __user *)addr, code, len));
}

/* The frame layout that the instruction at the ip implies. */
enum frame_kind {
	/* The frame pointer is valid. */
	KIND_FP,
	/* The return address is on top of the stack. */
	KIND_ENTRY,
	/* The caller's frame pointer was pushed below the return address. */
	KIND_PUSHED,
	/* Likewise, and two more words, as in the vDSO. */
	KIND_PUSHED_3,
	/* The frame that the frame pointer points to begins right below the stack pointer. */
	KIND_BELOW,
	/* r10 or ecx holds the CFA; for LEA_DRAP only if a lea loaded it right before. */
	KIND_DRAP,
	KIND_LEA_DRAP,
	/* The word on top, or below it, is not the frame pointer: the register is valid. */
	KIND_NOT_PUSHED,
	KIND_NOT_LEFT,
};

struct code_case {
	const char	*desc;
	unsigned int	ws;
	u8		before;
	u8		code[7];
	enum frame_kind	kind;
};

static const struct code_case code_cases[] = {
	{ "endbr64",		8, 0, { 0xf3, 0x0f, 0x1e, 0xfa, 0x90 },	KIND_ENTRY },
	{ "endbr64 in 32 bit",	4, 0, { 0xf3, 0x0f, 0x1e, 0xfa, 0x90 },	KIND_FP },
	{ "endbr32",		4, 0, { 0xf3, 0x0f, 0x1e, 0xfb, 0x90 },	KIND_ENTRY },
	{ "push rbp",		8, 0, { 0x55, 0x48, 0x89, 0xe5 },	KIND_ENTRY },
	{ "push ebp",		4, 0, { 0x55, 0x89, 0xe5 },		KIND_ENTRY },
	{ "push r13",		8, 0, { 0x41, 0x55 },			KIND_FP },
	{ "mov rsp,rbp",	8, 0, { 0x48, 0x89, 0xe5 },		KIND_PUSHED },
	{ "mov rsp,rbp (8b)",	8, 0, { 0x48, 0x8b, 0xec },		KIND_PUSHED },
	{ "mov esp,ebp",	4, 0, { 0x89, 0xe5 },			KIND_PUSHED },
	{ "mov esp,ebp (8b)",	4, 0, { 0x8b, 0xec },			KIND_PUSHED },
	{ "mov esp,ebp in 64 bit", 8, 0, { 0x89, 0xe5 },		KIND_FP },
	{ "pop rbp",		8, 0, { 0x5d, 0xc3 },			KIND_PUSHED },
	{ "landing pad",	4, 0, { 0x5d, 0x5a, 0x59, 0xc3 },	KIND_PUSHED_3 },
	{ "restart before it",	4, 0, { 0xcd, 0x80, 0x5d, 0x5a, 0x59, 0xc3 }, KIND_PUSHED_3 },
	{ "landing pad in 64 bit", 8, 0, { 0x5d, 0x5a, 0x59, 0xc3 },	KIND_PUSHED },
	{ "ret",		8, 0, { 0xc3 },				KIND_ENTRY },
	{ "ret in 32 bit",	4, 0, { 0xc3 },				KIND_ENTRY },
	{ "ret n",		8, 0, { 0xc2, 0x08, 0x00 },		KIND_ENTRY },
	{ "rep ret",		8, 0, { 0xf3, 0xc3 },			KIND_ENTRY },
	{ "bnd ret",		8, 0, { 0xf2, 0xc3 },			KIND_ENTRY },
	{ "leave",		8, 0, { 0xc9, 0xc3 },			KIND_FP },
	{ "nop",		8, 0, { 0x90 },				KIND_FP },
	{ "movups, of duffzero", 8, 0, { 0x44, 0x0f, 0x11, 0x3f, 0xc9 }, KIND_BELOW },
	{ "ret of duffzero",	8, 0, { 0xc3 },				KIND_BELOW },
	{ "PLT",		8, 0, { 0xff, 0x25, 1, 2, 3, 0 },	KIND_ENTRY },
	{ "PLT with bnd",	8, 0, { 0xf2, 0xff, 0x25, 1, 2, 3, 0 },	KIND_ENTRY },
	{ "jmp *rax after pop",	8, 0x5d, { 0xff, 0xe0 },		KIND_ENTRY },
	{ "jmp *r11 after pop",	8, 0x5d, { 0x41, 0xff, 0xe3 },		KIND_ENTRY },
	{ "notrack jmp after pop", 8, 0x5d, { 0x3e, 0xff, 0xe0 },	KIND_ENTRY },
	{ "jmp",		8, 0x90, { 0xe9, 1, 2, 3, 4 },		KIND_FP },
	{ "call *rax after pop", 8, 0x5d, { 0xff, 0xd0 },		KIND_FP },
	{ "lea 8(rsp),r10",	8, 0, { 0x4c, 0x8d, 0x54, 0x24, 0x08 },	KIND_ENTRY },
	{ "lea 4(esp),ecx",	4, 0, { 0x8d, 0x4c, 0x24, 0x04 },	KIND_ENTRY },
	{ "and n,rsp",		8, 0, { 0x48, 0x83, 0xe4, 0xe0 },	KIND_LEA_DRAP },
	{ "and big n,rsp",	8, 0, { 0x48, 0x81, 0xe4, 0, 0xff },	KIND_LEA_DRAP },
	{ "and n,esp",		4, 0, { 0x83, 0xe4, 0xf0 },		KIND_LEA_DRAP },
	{ "and n,rsp of others", 8, 0, { 0x48, 0x83, 0xe4, 0xe0 },	KIND_FP },
	{ "vandnps",		8, 0, { 0xc5, 0xf8, 0x55, 0xc1, 0xc9 },	KIND_FP },
	{ "vminps",		8, 0, { 0xc5, 0xf8, 0x5d, 0xc1, 0xc9 },	KIND_FP },
	{ "vcmpps",		8, 0, { 0xc5, 0xf8, 0xc2, 0xc1, 0, 0xc9 }, KIND_FP },
	{ "endbr64 further on",	8, 0, { 0x90, 0xf3, 0x0f, 0x1e, 0xfa, 0xc9 }, KIND_FP },
	{ "mov of other code",	8, 0, { 0x48, 0x89, 0xe5 },		KIND_NOT_PUSHED },
	{ "jmp *rax of a switch", 8, 0, { 0xff, 0xe0 },			KIND_NOT_LEFT },
	{ "push -8(r10)",	8, 0, { 0x41, 0xff, 0x72, 0xf8 },	KIND_DRAP },
	{ "push -4(ecx)",	4, 0, { 0xff, 0x71, 0xfc },		KIND_DRAP },
	{ "lea -8(r10),rsp",	8, 0, { 0x49, 0x8d, 0x62, 0xf8 },	KIND_DRAP },
	{ "lea -4(ecx),esp",	4, 0, { 0x8d, 0x61, 0xfc },		KIND_DRAP },
};

KUNIT_ARRAY_PARAM_DESC(code, code_cases, desc);

/*
 * The caller is CALLER(1) if the code determines it, and CALLER(2) if the frame
 * pointer does; the next frame is that of CALLER(3).
 */
static void code_test(struct kunit *test)
{
	const struct code_case *c = test->param_value;
	struct unwind_user_state state = {}, start;
	unsigned long entries[MAX_ENTRIES];
	struct unwind_text_code own = {};
	static const u8 lea_64[] = { 0x4c, 0x8d, 0x54, 0x24, 0x08 };
	static const u8 lea_32[] = { 0x8d, 0x4c, 0x24, 0x04 };
	unsigned int ws = c->ws, nr;
	unsigned long base, last;
	bool fp_only;

	base = frame_map(test);
	last = base + STACK + 24 * ws;
	put_word(test, base + CODE - 1, 1, c->before);
	put_code(test, base + CODE, c->code, sizeof(c->code));

	state.ip = base + CODE;
	state.sp = base + STACK;
	state.fp = base + STACK + 16 * ws;
	state.arch = base + STACK + 8 * ws;
	state.ws = ws;
	state.syscall = -1;
	state.code = &unwind_text_none;
	state.own = &own;
	state.step = UNWIND_STEP_CODE;
	put_frame(test, state.fp, ws, last, base + CALLER(2));
	put_frame(test, last, ws, 0, base + CALLER(3));

	if (c->kind != KIND_NOT_LEFT)
		put_word(test, state.sp - ws, ws, state.fp);

	switch (c->kind) {
	case KIND_FP:
	case KIND_NOT_PUSHED:
	case KIND_NOT_LEFT:
		/* The walk must ignore these return addresses. */
		put_frame(test, state.sp, ws, base + CALLER(1), base + CALLER(1));
		break;
	case KIND_ENTRY:
		put_word(test, state.sp, ws, base + CALLER(1));
		break;
	case KIND_PUSHED:
		put_frame(test, state.sp, ws, state.fp, base + CALLER(1));
		break;
	case KIND_PUSHED_3:
		/* The second word is a decoy: the return address is in the fourth. */
		put_frame(test, state.sp, ws, state.fp, base + CALLER(4));
		put_word(test, state.sp + 3 * ws, ws, base + CALLER(1));
		break;
	case KIND_BELOW:
		put_frame(test, state.sp - ws, ws, state.fp, base + CALLER(1));
		state.fp = state.sp - ws;
		break;
	case KIND_LEA_DRAP:
		if (ws == sizeof(u64))
			put_code(test, base + CODE - sizeof(lea_64), lea_64, sizeof(lea_64));
		else
			put_code(test, base + CODE - sizeof(lea_32), lea_32, sizeof(lea_32));
		fallthrough;
	case KIND_DRAP:
		put_word(test, state.arch - ws, ws, base + CALLER(1));
		break;
	}

	start = state;
	nr = unwind_user_walk(&state, entries, MAX_ENTRIES);
	fp_only = c->kind == KIND_FP || c->kind == KIND_NOT_PUSHED || c->kind == KIND_NOT_LEFT;
	KUNIT_ASSERT_EQ(test, nr, fp_only ? 2 : 3);
	KUNIT_EXPECT_EQ(test, entries[0], base + CALLER(fp_only ? 2 : 1));
	KUNIT_EXPECT_EQ(test, entries[1], base + CALLER(fp_only ? 3 : 2));
	KUNIT_EXPECT_EQ(test, entries[nr - 1], base + CALLER(3));

	if (fp_only)
		return;

	/* Without a call before the caller's address, the walk must reject it. */
	put_word(test, base + CALLER(1) - 5, 1, 0x90);
	state = start;
	nr = unwind_user_walk(&state, entries, MAX_ENTRIES);
	if (c->kind == KIND_BELOW) {
		KUNIT_EXPECT_EQ(test, nr, 0);
		return;
	}
	KUNIT_ASSERT_EQ(test, nr, 2);
	KUNIT_EXPECT_EQ(test, entries[0], base + CALLER(2));
}

/* A call to an address without code: its return address is on top of the stack. */
static void no_code_test(struct kunit *test)
{
	static const unsigned long ips[] = { 0, 0x1000, TASK_SIZE_MAX - 1 };
	unsigned long entries[MAX_ENTRIES];
	struct unwind_user_state state;
	unsigned long base;

	base = frame_map(test);
	put_word(test, base + STACK, 8, base + CALLER(1));

	for (int i = 0; i < ARRAY_SIZE(ips); i++) {
		state = (struct unwind_user_state) {
			.ip = ips[i], .sp = base + STACK, .ws = 8, .syscall = -1,
			.code = &unwind_text_none,
			.own = &(struct unwind_text_code) {},
			.step = UNWIND_STEP_CODE,
		};
		KUNIT_EXPECT_EQ(test, unwind_user_walk(&state, entries, MAX_ENTRIES), 1);
		KUNIT_EXPECT_EQ(test, entries[0], base + CALLER(1));
	}
}

static const struct call_case {
	const char	*desc;
	bool		is_call;
	u8		len;
	u8		code[7];
} call_cases[] = {
	{ "call rel32",			true,  5, { 0xe8, 1, 2, 3, 4 } },
	{ "call *rax",			true,  2, { 0xff, 0xd0 } },
	{ "call *r11",			true,  3, { 0x41, 0xff, 0xd3 } },
	{ "call *(rax)",		true,  2, { 0xff, 0x10 } },
	{ "call *8(rax)",		true,  3, { 0xff, 0x50, 8 } },
	{ "call *8(rsp)",		true,  4, { 0xff, 0x54, 0x24, 8 } },
	{ "call *(rax,rcx,8)",		true,  3, { 0xff, 0x14, 0xc8 } },
	{ "call *n(,rcx,8)",		true,  7, { 0xff, 0x14, 0xcd, 1, 2, 3, 4 } },
	{ "call *n(rip)",		true,  6, { 0xff, 0x15, 1, 2, 3, 4 } },
	{ "call *n(rbx)",		true,  6, { 0xff, 0x93, 1, 2, 3, 4 } },
	{ "call *n(rsp)",		true,  7, { 0xff, 0x94, 0x24, 1, 2, 3, 4 } },
	{ "jmp rel32",			false, 5, { 0xe9, 1, 2, 3, 4 } },
	{ "jmp *rax",			false, 2, { 0xff, 0xe0 } },
	{ "jmp *n(rip)",		false, 6, { 0xff, 0x25, 1, 2, 3, 4 } },
	{ "push (rax)",			false, 2, { 0xff, 0x30 } },
	{ "call cut short",		false, 4, { 0xe8, 1, 2, 3 } },
	{ "call *n(rip) cut short",	false, 5, { 0xff, 0x15, 1, 2, 3 } },
	{ "nothing",			false, 0, { 0 } },
};

KUNIT_ARRAY_PARAM_DESC(call, call_cases, desc);

static void call_test(struct kunit *test)
{
	const struct call_case *c = test->param_value;
	unsigned long base = frame_map(test);

	put_code(test, base + CODE - c->len, c->code, c->len);
	KUNIT_EXPECT_EQ(test, arch_unwind_user_after_call(base + CODE), c->is_call);
}

/* The return address of a goroutine's first function, and code that differs by a byte. */
static void goexit_test(struct kunit *test)
{
	static const u8 goexit[] = { 0x90, 0xe8, 1, 2, 3, 4, 0x90 };
	unsigned long base = frame_map(test), addr = base + CODE;

	put_code(test, addr - 1, goexit, sizeof(goexit));
	KUNIT_EXPECT_EQ(test, 1, arch_unwind_user_after_call(addr));
	for (int i = 0; i < sizeof(goexit); i += i ? 5 : 1) {
		put_word(test, addr - 1 + i, 1, 0x91);
		KUNIT_EXPECT_EQ(test, 0, arch_unwind_user_after_call(addr));
		put_word(test, addr - 1 + i, 1, goexit[i]);
	}

	/* The call is cut off by the end of the mapping. */
	addr = base + MAP_SIZE - 5;
	put_code(test, addr - 1, goexit, sizeof(goexit) - 1);
	KUNIT_EXPECT_EQ(test, -EFAULT, arch_unwind_user_after_call(addr));
}

/* No code precedes the first bytes of an address space or of a mapping. */
static void call_edge_test(struct kunit *test)
{
	unsigned long base = frame_map(test);

	KUNIT_EXPECT_EQ(test, 0, arch_unwind_user_after_call(0));
	KUNIT_EXPECT_EQ(test, 0, arch_unwind_user_after_call(3));
	KUNIT_ASSERT_EQ(test, 0, vm_munmap(base, PAGE_SIZE));
	KUNIT_EXPECT_EQ(test, -EFAULT, arch_unwind_user_after_call(base + PAGE_SIZE + 1));

	/* These bytes are the end of no call, or of a call that starts below. */
	put_word(test, base + PAGE_SIZE, 4, 0x90443322);
	for (int i = 1; i <= 4; i++)
		KUNIT_EXPECT_EQ(test, -EFAULT, arch_unwind_user_after_call(base + PAGE_SIZE + i));
	put_word(test, base + PAGE_SIZE, 2, 0xd0ff);
	KUNIT_EXPECT_EQ(test, 1, arch_unwind_user_after_call(base + PAGE_SIZE + 2));
}

struct start_case {
	const char	*desc;
	unsigned int	words;
	u8		len;
	u8		code[9];
};

static const struct start_case start_cases[] = {
	{ "push rbx",			1, 1, { 0x53 } },
	{ "endbr64",			1, 5, { 0xf3, 0x0f, 0x1e, 0xfa, 0x53 } },
	{ "frame pointer",		2, 5, { 0x55, 0x48, 0x89, 0xe5, 0x53 } },
	{ "glibc",			4, 9,
	  { 0x41, 0x55, 0x45, 0x31, 0xc9, 0x41, 0x54, 0x55, 0x53 } },
	{ "mov to r11",			1, 4, { 0x49, 0x89, 0xfb, 0x53 } },
	{ "mov to rbx",			0, 4, { 0x48, 0x89, 0xfb, 0x53 } },
	{ "mov to rbx from memory",	0, 4, { 0x48, 0x8b, 0x1f, 0x53 } },
	{ "xor of rsp",			0, 4, { 0x48, 0x33, 0xe0, 0x53 } },
	{ "push r11",			0, 2, { 0x41, 0x53 } },
	{ "push bx",			0, 2, { 0x66, 0x53 } },
	{ "sub",			0, 5, { 0x48, 0x83, 0xec, 0x08, 0x53 } },
	{ "jmp",			0, 3, { 0xeb, 0x00, 0x53 } },
	{ "breakpoint",			0, 2, { 0xcc, 0x53 } },
	{ "nothing",			0, 0, { 0 } },
};

KUNIT_ARRAY_PARAM_DESC(start, start_cases, desc);

/* The mapping ends after the push, or its readable part ends before it. */
static void start_test(struct kunit *test)
{
	const struct start_case *c = test->param_value;
	unsigned long addr = frame_map(test) + MAP_SIZE - c->len;

	put_code(test, addr, c->code, c->len);
	KUNIT_EXPECT_EQ(test, c->words, arch_unwind_user_saves_rbx(addr, ULONG_MAX));
	for (int i = 0; i < c->len; i++)
		KUNIT_EXPECT_EQ(test, 0, arch_unwind_user_saves_rbx(addr, i));
}

enum signal_abi { ABI_64, ABI_X32, ABI_IA32, ABI_IA32_RT };

struct signal_case {
	const char	*desc;
	enum signal_abi	abi;
	u8		len;
	u8		code[9];
	/* Words of the frame that are popped at the start and at the system call. */
	u8		before, after;
	int		nr;
};

static const struct signal_case signal_cases[] = {
	{ "64 bit",		ABI_64,	9,
	  { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 }, 1, 1, 15 },
	{ "64 bit, short mov",	ABI_64,	7, { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 }, 1, 1, 15 },
#ifdef CONFIG_X86_X32_ABI
	{ "x32",		ABI_X32, 9,
	  { 0x48, 0xc7, 0xc0, 0x01, 0x02, 0, 0x40, 0x0f, 0x05 }, 1, 1, 0x40000201 },
#endif
#ifdef CONFIG_IA32_EMULATION
	{ "32 bit",		ABI_IA32, 8,
	  { 0x58, 0xb8, 0x77, 0, 0, 0, 0xcd, 0x80 }, 1, 2, 119 },
	{ "32 bit, rt",		ABI_IA32_RT, 7, { 0xb8, 0xad, 0, 0, 0, 0xcd, 0x80 }, 1, 1, 173 },
#endif
};

KUNIT_ARRAY_PARAM_DESC(signal, signal_cases, desc);

static unsigned int abi_ws(enum signal_abi abi)
{
	return abi == ABI_IA32 || abi == ABI_IA32_RT ? 4 : 8;
}

/* Write the registers of the interrupted code to a signal frame at @frame. */
static void put_signal_frame(struct kunit *test, const struct signal_case *c,
			     unsigned long frame, unsigned long ip, unsigned long sp,
			     unsigned long fp)
{
	struct sigcontext_64 sc = { .ip = ip, .sp = sp, .bp = fp, .cs = __USER_CS };
	unsigned long at = 0;

#ifdef CONFIG_IA32_EMULATION
	if (abi_ws(c->abi) == 4) {
		struct sigcontext_32 sc32 = {
			.ip = ip, .sp = sp, .bp = fp,
			.cs = __USER32_CS, .ss = __USER_DS,
		};

		at = c->abi == ABI_IA32 ? offsetof(struct sigframe_ia32, sc) :
			offsetof(struct rt_sigframe_ia32, uc.uc_mcontext);
		KUNIT_ASSERT_EQ(test, 0, copy_to_user((void __user *)(frame + at), &sc32,
						      sizeof(sc32)));
		return;
	}
#endif
	at = offsetof(struct rt_sigframe, uc.uc_mcontext);
#ifdef CONFIG_X86_X32_ABI
	if (c->abi == ABI_X32)
		at = offsetof(struct rt_sigframe_x32, uc.uc_mcontext);
#endif
	KUNIT_ASSERT_EQ(test, 0, copy_to_user((void __user *)(frame + at), &sc, sizeof(sc)));
}

/*
 * The handler runs on a stack above that of the interrupted code, which is about
 * to push its frame pointer. Walk from the handler, then from each position in the
 * restorer.
 */
static void signal_test(struct kunit *test)
{
	const struct signal_case *c = test->param_value;
	unsigned int ws = abi_ws(c->abi), nr;
	unsigned long entries[MAX_ENTRIES];
	struct unwind_user_state state;
	unsigned long base, frame, fp;
	const u8 push = 0x55;

	base = frame_map(test);
	frame = base + ALTSTACK + 1024;
	fp = base + STACK + 16 * ws;

	put_code(test, base + RESTORER, c->code, c->len);
	put_code(test, base + CODE, &push, 1);
	put_signal_frame(test, c, frame, base + CODE, base + STACK, fp);
	put_word(test, base + STACK, ws, base + CALLER(1));
	put_frame(test, fp, ws, 0, base + CALLER(2));
	/* The handler's own frame, right below. */
	put_frame(test, frame - ws, ws, fp, base + RESTORER);

	state = (struct unwind_user_state) {
		.ip = base + CALLER(3), .sp = frame - 64, .fp = frame - ws, .ws = ws,
		.syscall = -1, .step = UNWIND_STEP_FP, .code = &unwind_text_none,
		.own = &(struct unwind_text_code) {},
	};
	nr = unwind_user_walk(&state, entries, MAX_ENTRIES);
	KUNIT_ASSERT_EQ(test, nr, 4);
	KUNIT_EXPECT_EQ(test, entries[0], base + RESTORER);
	KUNIT_EXPECT_EQ(test, entries[1], base + CODE);
	KUNIT_EXPECT_EQ(test, entries[2], base + CALLER(1));
	KUNIT_EXPECT_EQ(test, entries[3], base + CALLER(2));

	for (int at = 0; at < 3; at++) {
		static const char * const where[] = { "start", "call", "in the call" };
		unsigned int offset = at == 2 ? c->len : at == 1 ? c->len - 2 : 0;

		state = (struct unwind_user_state) {
			.ip = base + RESTORER + offset,
			.sp = frame + (at ? c->after : c->before) * ws,
			.fp = fp, .ws = ws,
			.syscall = at == 2 ? c->nr : -1,
			.code = &unwind_text_none,
			.own = &(struct unwind_text_code) {},
			.step = at == 2 ? UNWIND_STEP_SIGNAL : UNWIND_STEP_CODE,
		};
		nr = unwind_user_walk(&state, entries, MAX_ENTRIES);
		KUNIT_EXPECT_EQ_MSG(test, nr, 3, "%s", where[at]);
		KUNIT_EXPECT_EQ_MSG(test, entries[0], base + CODE, "%s", where[at]);
	}

	/* Walking one entry at a time gives the same number of entries. */
	state = (struct unwind_user_state) {
		.ip = base + CALLER(3), .sp = frame - 64, .fp = frame - ws, .ws = ws,
		.syscall = -1, .step = UNWIND_STEP_FP, .code = &unwind_text_none,
		.own = &(struct unwind_text_code) {},
	};
	for (nr = 0; nr < MAX_ENTRIES && unwind_user_walk(&state, &entries[nr], 1); nr++)
		;
	KUNIT_EXPECT_EQ(test, nr, 4);
	KUNIT_EXPECT_EQ(test, state.step, UNWIND_STEP_DONE);
}

/* Map the restorer of the first signal case. */
static unsigned long restorer_map(struct kunit *test, unsigned long *frame)
{
	unsigned long base = frame_map(test);

	*frame = base + ALTSTACK + 1024;
	put_code(test, base + RESTORER, signal_cases[0].code, signal_cases[0].len);
	return base;
}

/* Walk from the start of the restorer, after the frame's return address was popped. */
static unsigned int walk_restorer(unsigned long base, unsigned long sp,
				  unsigned long *entries, unsigned int max)
{
	struct unwind_user_state state = {
		.ip = base + RESTORER, .sp = sp, .ws = 8,
		.syscall = -1, .step = UNWIND_STEP_CODE, .code = &unwind_text_none,
		.own = &(struct unwind_text_code) {},
	};
	unsigned int nr = unwind_user_walk(&state, entries, max);

	return state.step == UNWIND_STEP_DONE ? nr : max + 1;
}

/* A signal frame that interrupted its own handler. */
static void signal_loop_test(struct kunit *test)
{
	unsigned long entries[UNWIND_USER_SIGNALS + 2];
	unsigned long base, frame;

	base = restorer_map(test, &frame);
	put_signal_frame(test, &signal_cases[0], frame, base + RESTORER, frame + 8, frame - 8);
	KUNIT_EXPECT_EQ(test, walk_restorer(base, frame + 8, entries, ARRAY_SIZE(entries)),
			UNWIND_USER_SIGNALS);
}

/* Frames with invalid contents, and frames outside mappings. */
static void signal_hostile_test(struct kunit *test)
{
	const struct signal_case *c = &signal_cases[0];
	unsigned long entries[MAX_ENTRIES];
	unsigned long base, frame, sp;

	base = restorer_map(test, &frame);

	/* A kernel ip. */
	put_signal_frame(test, c, frame, 0xffffffff81000000, base + STACK, 0);
	KUNIT_EXPECT_EQ(test, walk_restorer(base, frame + 8, entries, MAX_ENTRIES), 0);

	/* An unmapped stack. */
	put_signal_frame(test, c, frame, base + CODE, -8UL, -16UL);
	KUNIT_EXPECT_EQ(test, walk_restorer(base, frame + 8, entries, MAX_ENTRIES), 1);
	KUNIT_EXPECT_EQ(test, entries[0], base + CODE);

	/* A truncated frame, and none: treated as other code, with nothing on the stack. */
	for (int i = 0; i < 2; i++) {
		sp = i ? TASK_SIZE_MAX - 64 : base + MAP_SIZE - 128;
		KUNIT_EXPECT_EQ(test, walk_restorer(base, sp, entries, MAX_ENTRIES), 0);
	}
}

/* Kernel segments, which only a forged signal frame can name. */
static void signal_segments_test(struct kunit *test)
{
	static const u16 selectors[] = { 0x43, 0x4b, 0x53, 0x7b, 0x03, 0x13 };
	unsigned long entries[MAX_ENTRIES];
	unsigned long base, frame;

	base = restorer_map(test, &frame);

	for (int i = 0; i < 2 * ARRAY_SIZE(selectors); i++) {
		struct sigcontext_64 sc = {
			.ip = base + CODE, .sp = base + STACK,
			.cs = i & 1 ? selectors[i / 2] : __USER32_CS,
			.ss = i & 1 ? __USER_DS : selectors[i / 2],
		};

		put_code(test, frame + offsetof(struct rt_sigframe, uc.uc_mcontext),
			 (u8 *)&sc, sizeof(sc));
		KUNIT_EXPECT_EQ(test, walk_restorer(base, frame + 8, entries, MAX_ENTRIES), 0);
	}
}

/* The number of sigreturn outside of a system call, as from an exception's error code. */
static void no_system_call_test(struct kunit *test)
{
	const struct signal_case *c = &signal_cases[0];
	unsigned long entries[MAX_ENTRIES];
	struct unwind_user_state state;
	unsigned long base, frame;

	base = frame_map(test);
	frame = base + ALTSTACK + 1024;
	put_signal_frame(test, c, frame, base + CALLER(1), base + STACK, 0);
	state = (struct unwind_user_state) {
		.ip = base + CODE + 9, .sp = frame + 8, .ws = 8,
		.syscall = c->nr, .step = UNWIND_STEP_SIGNAL, .code = &unwind_text_none,
		.own = &(struct unwind_text_code) {},
	};
	KUNIT_EXPECT_EQ(test, unwind_user_walk(&state, entries, MAX_ENTRIES), 0);
}

static struct kunit_case unwind_user_frame_cases[] = {
	KUNIT_CASE_PARAM(code_test, code_gen_params),
	KUNIT_CASE(no_code_test),
	KUNIT_CASE_PARAM(call_test, call_gen_params),
	KUNIT_CASE(goexit_test),
	KUNIT_CASE(call_edge_test),
	KUNIT_CASE_PARAM(start_test, start_gen_params),
	KUNIT_CASE_PARAM(signal_test, signal_gen_params),
	KUNIT_CASE(signal_loop_test),
	KUNIT_CASE(signal_hostile_test),
	KUNIT_CASE(signal_segments_test),
	KUNIT_CASE(no_system_call_test),
	{}
};

static struct kunit_suite unwind_user_frame_suite = {
	.name		= "unwind_user_frame",
	.test_cases	= unwind_user_frame_cases,
};

kunit_test_suite(unwind_user_frame_suite);

MODULE_DESCRIPTION("KUnit tests of x86 user frames");
MODULE_LICENSE("GPL");
