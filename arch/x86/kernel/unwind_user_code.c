// SPDX-License-Identifier: GPL-2.0
/*
 * Decode x86 code where the frame pointer does not lead to the caller, before a
 * function has set up its frame and after it has left it.
 *
 * Contexts: task context of the task that owns the code, page faults allowed or
 * disabled. No locks, no allocation.
 *
 * All text is untrusted user memory, and may change while it is read. The results are guesses
 * about where a return address is: the caller has to check the address. If code cannot be
 * read, the answer is UNWIND_SAYS_NO_CODE.
 */
#include <linux/compiler.h>
#include <linux/ptrace.h>
#include <linux/sched/task_stack.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/unwind_user_arch.h>
#include <linux/uprobes.h>

#include <asm/insn.h>
#include <asm/unwind_user.h>

/* The longest call: a prefix, opcode, ModRM, SIB and a displacement. */
#define MAX_CALL	7
/* Maximum number of instructions that are decoded, and of bytes that are read for them. */
#define MAX_SCAN	32
#define SCAN_BYTES	160
/* Bytes that are read of the pushes at the start of a function. */
#define START_BYTES	48

/* Read up to @size bytes; returns the number of bytes read. */
static size_t read_text(u8 *buf, unsigned long addr, size_t size)
{
	return size - copy_from_user(buf, (void __user *)addr, size);
}

/* Read the code at the ip, without the breakpoint of a uprobe that is being handled. */
static size_t read_code(const struct unwind_user_state *state, u8 *code, size_t size)
{
	size_t len = read_text(code, state->ip, size);
#ifdef CONFIG_UPROBES
	const struct uprobe_task *utask = current->utask;

	if (unlikely(utask && utask->auprobe) && len && code[0] == 0xcc &&
	    state->ip == task_pt_regs(current)->ip)
		code[0] = utask->auprobe->insn[0];
#endif
	return len;
}

/**
 * struct code_pattern - code that determines the frame by its first bytes
 * @len:	bytes in @code
 * @code:	the instruction at the user ip
 * @ws:		word size of the code
 * @says:	SIGNAL if a restorer may start like this; DRAP if the CFA is in the
 *		DRAP (dynamic realign argument pointer): r10, or ecx, in functions
 *		that align their stack
 * @lea:	bytes of the lea that loads the DRAP, if it has to be right before
 */
struct code_pattern {
	u8	len;
	u8	code[4];
	u8	ws;
	u8	says;
	u8	lea;
};

static const struct code_pattern code_patterns[] = {
	/* and $n,%rsp */
	{ 3, { 0x48, 0x83, 0xe4 },		8, X86_SAYS_DRAP, .lea = 5 },
	{ 3, { 0x48, 0x81, 0xe4 },		8, X86_SAYS_DRAP, .lea = 5 },
	{ 2, { 0x83, 0xe4 },			4, X86_SAYS_DRAP, .lea = 4 },
	{ 2, { 0x81, 0xe4 },			4, X86_SAYS_DRAP, .lea = 4 },
	/* push -8(%r10); push -4(%ecx) */
	{ 4, { 0x41, 0xff, 0x72, 0xf8 },	8, X86_SAYS_DRAP },
	{ 3, { 0xff, 0x71, 0xfc },		4, X86_SAYS_DRAP },
	/* lea -8(%r10),%rsp; lea -4(%ecx),%esp */
	{ 4, { 0x49, 0x8d, 0x62, 0xf8 },	8, X86_SAYS_DRAP },
	{ 3, { 0x8d, 0x61, 0xfc },		4, X86_SAYS_DRAP },
	/*
	 * int80_landing_pad, where system calls of the vDSO return to, and the
	 * int $0x80 before it, where a signal makes them restart.
	 */
	{ 4, { 0x5d, 0x5a, 0x59, 0xc3 },	4, X86_SAYS_PUSHED_3 },
	{ 4, { 0xcd, 0x80, 0x5d, 0x5a },	4, X86_SAYS_PUSHED_3 },
	/* Restorers, and their system calls. */
	{ 3, { 0x48, 0xc7, 0xc0 },		8, UNWIND_SAYS_SIGNAL },
	{ 1, { 0xb8 },				8, UNWIND_SAYS_SIGNAL },
	{ 1, { 0xb8 },				4, UNWIND_SAYS_SIGNAL },
	{ 2, { 0x58, 0xb8 },			4, UNWIND_SAYS_SIGNAL },
	{ 2, { 0x0f, 0x05 },			8, UNWIND_SAYS_SIGNAL },
	{ 2, { 0xcd, 0x80 },			4, UNWIND_SAYS_SIGNAL },
};

static const struct code_pattern *
find_pattern(const u8 *code, size_t len, unsigned int ws)
{
	for (int i = 0; i < ARRAY_SIZE(code_patterns); i++) {
		const struct code_pattern *p = &code_patterns[i];

		if (p->code[0] == code[0] && p->ws == ws && p->len <= len &&
		    !memcmp(p->code, code, p->len))
			return p;
	}
	return NULL;
}

/* Not known yet: look at the next instruction, or at the target of a jump. */
#define SAYS_NEXT	UNWIND_SAYS_NOTHING
#define SAYS_TARGET	UNWIND_SAYS_SIGNAL

/* Is lea 8(%rsp),%r10 or lea 4(%esp),%ecx right before? Other code aligns its stack, too. */
static bool is_after_lea(unsigned long ip, unsigned int len)
{
	static const u8 lea_64[] = { 0x4c, 0x8d, 0x54, 0x24, 0x08 };
	static const u8 lea_32[] = { 0x8d, 0x4c, 0x24, 0x04 };
	u8 code[sizeof(lea_64)];

	return read_text(code, ip - len, len) == len &&
	       !memcmp(code, len == sizeof(lea_64) ? lea_64 : lea_32, len);
}

/* Get the bits of REX; for REX2, combine bits 4 and 3 of each register number. */
static u8 rex_bits(const struct insn *insn)
{
	u8 bits = insn->rex_prefix.bytes[1];

	return insn->rex_prefix.nbytes == 2 ? bits | (bits >> 4 & 7) : insn->rex_prefix.bytes[0];
}

/* Is the stack pointer, rbp, or rbx the register, or the operand, of ModRM? */
static bool is_sp_reg(const struct insn *insn)
{
	return X86_MODRM_REG(insn->modrm.value) == 4 && !X86_REX_R(rex_bits(insn));
}

static bool is_sp_rm(const struct insn *insn)
{
	return X86_MODRM_MOD(insn->modrm.value) == 3 &&
	       X86_MODRM_RM(insn->modrm.value) == 4 && !X86_REX_B(rex_bits(insn));
}

static bool is_bp_reg(const struct insn *insn)
{
	return X86_MODRM_REG(insn->modrm.value) == 5 && !X86_REX_R(rex_bits(insn));
}

static bool is_bp_rm(const struct insn *insn)
{
	return X86_MODRM_MOD(insn->modrm.value) == 3 &&
	       X86_MODRM_RM(insn->modrm.value) == 5 && !X86_REX_B(rex_bits(insn));
}

static bool is_bx_reg(const struct insn *insn)
{
	return X86_MODRM_REG(insn->modrm.value) == 3 && !X86_REX_R(rex_bits(insn));
}

static bool is_bx_rm(const struct insn *insn)
{
	return X86_MODRM_MOD(insn->modrm.value) == 3 &&
	       X86_MODRM_RM(insn->modrm.value) == 3 && !X86_REX_B(rex_bits(insn));
}

/* -8(%r10); -4(%ecx): the return address in functions that align their stack */
static bool is_drap_ra(const struct insn *insn)
{
	unsigned int reg = X86_MODRM_RM(insn->modrm.value) |
			   (X86_REX_B(rex_bits(insn)) ? 8 : 0);

	return reg == (insn->x86_64 ? 10 : 1) && X86_MODRM_MOD(insn->modrm.value) == 1 &&
	       insn->displacement.value == (insn->x86_64 ? -8 : -4);
}

/* push, call and jmp through an operand */
static unsigned int ask_group5(const struct insn *insn)
{
	switch (X86_MODRM_REG(insn->modrm.value)) {
	case 0:
	case 1:
		return SAYS_NEXT;
	case 4:
		/* Relative to the ip: a PLT entry, or a tail call of the same form. */
		return insn->x86_64 && insn_rip_relative((struct insn *)insn) ?
			X86_SAYS_TOP : X86_SAYS_JUMP;
	case 6:
		return is_drap_ra(insn) ? X86_SAYS_DRAP : UNWIND_SAYS_FP;
	default:
		return UNWIND_SAYS_FP;
	}
}

static unsigned int ask_two_bytes(const struct insn *insn)
{
	switch (insn->opcode.bytes[1]) {
	case 0x0b: case 0xb9: case 0xff:	/* ud2, ud1, ud0 */
	case 0xa0: case 0xa1:	/* push and pop of segments */
	case 0xa8: case 0xa9:
		return UNWIND_SAYS_FP;
	default:
		return SAYS_NEXT;
	}
}

/* mov %rsp,%rbp of whole registers, not of their lower halves */
static bool is_whole(const struct insn *insn)
{
	return insn->opnd_bytes == (insn->x86_64 ? 8 : 4);
}

/* lea 8(%rsp),%r10; lea 4(%esp),%ecx: the first instruction of a function */
static bool is_drap_set(const struct insn *insn)
{
	unsigned int reg = X86_MODRM_REG(insn->modrm.value) |
			   (X86_REX_R(rex_bits(insn)) ? 8 : 0);

	return reg == (insn->x86_64 ? 10 : 1) && X86_MODRM_MOD(insn->modrm.value) == 1 &&
	       insn->sib.value == 0x24 &&
	       insn->displacement.value == (insn->x86_64 ? 8 : 4);
}

/*
 * Evaluate one instruction. A function with a frame pointer has set up its frame
 * before each call, and only changes the stack pointer to set up, use or leave
 * that frame.
 */
static unsigned int ask(const struct insn *insn)
{
	u8 opcode = insn->opcode.bytes[0];

	/* These use other opcode maps. */
	if (insn_is_avx((struct insn *)insn) ||
	    (insn_is_rex2((struct insn *)insn) && insn_rex2_m_bit((struct insn *)insn)))
		return SAYS_NEXT;

	switch (opcode) {
	case 0x0f:
		return ask_two_bytes(insn);
	case 0x50 ... 0x5f:
		if (opcode == 0x55 && !X86_REX_B(rex_bits(insn)))
			return X86_SAYS_TOP;
		if (opcode == 0x5d && !X86_REX_B(rex_bits(insn)))
			return X86_SAYS_PUSHED;
		return UNWIND_SAYS_FP;
	case 0x89:		/* mov to operand */
		if (is_sp_reg(insn) && is_bp_rm(insn))
			return is_whole(insn) ? X86_SAYS_PUSHED : UNWIND_SAYS_FP;
		return is_sp_rm(insn) ? UNWIND_SAYS_FP : SAYS_NEXT;
	case 0x8b:		/* mov from operand */
		if (is_sp_rm(insn) && is_bp_reg(insn))
			return is_whole(insn) ? X86_SAYS_PUSHED : UNWIND_SAYS_FP;
		return is_sp_reg(insn) ? UNWIND_SAYS_FP : SAYS_NEXT;
	case 0x8d:		/* lea */
		if (is_drap_set(insn))
			return X86_SAYS_TOP;
		if (is_sp_reg(insn) && is_drap_ra(insn))
			return X86_SAYS_DRAP;
		fallthrough;
	case 0x03: case 0x23: case 0x2b: case 0x33:
		return is_sp_reg(insn) ? UNWIND_SAYS_FP : SAYS_NEXT;
	case 0x01: case 0x21: case 0x29: case 0x31:
	case 0x81: case 0x83:
		return is_sp_rm(insn) ? UNWIND_SAYS_FP : SAYS_NEXT;
	case 0x87:		/* xchg */
		return is_sp_rm(insn) || is_sp_reg(insn) ? UNWIND_SAYS_FP : SAYS_NEXT;
	case 0xc2: case 0xc3:	/* ret */
		return X86_SAYS_TOP;
	case 0xe9: case 0xeb:	/* jmp */
		return SAYS_TARGET;
	case 0xff:
		return ask_group5(insn);
	case 0x06: case 0x07: case 0x0e: case 0x16: case 0x17: case 0x1e: case 0x1f:
	case 0x60: case 0x61: case 0x68: case 0x6a: case 0x8f: case 0x94:
	case 0x9a: case 0x9c: case 0x9d: case 0xbc: case 0xc8: case 0xc9: case 0xca:
	case 0xcb: case 0xcc: case 0xcf: case 0xe8: case 0xea: case 0xf4:
		return UNWIND_SAYS_FP;
	default:
		/* Ignore conditional jumps: the stack is the same at their targets. */
		return SAYS_NEXT;
	}
}

static bool is_endbr_insn(const struct insn *insn)
{
	return insn->opcode.bytes[0] == 0x0f && insn->opcode.bytes[1] == 0x1e &&
	       insn->modrm.value == (insn->x86_64 ? 0xfa : 0xfb);
}

/*
 * Follow the code from the ip until an instruction says where the return address
 * is; @code holds the first @len bytes.
 */
static unsigned int scan_code(const struct unwind_user_state *state, u8 *code, size_t len)
{
	enum insn_mode mode = state->ws == sizeof(u64) ? INSN_MODE_64 : INSN_MODE_32;
	unsigned long ip = state->ip;
	unsigned int says;
	struct insn insn;
	size_t at = 0;

	for (int i = 0; i < MAX_SCAN; i++) {
		if (at >= len || insn_decode(&insn, code + at, len - at, mode))
			return UNWIND_SAYS_FP;

		/* Later in the code, endbr is the target of a jump, not a function entry. */
		if (!i && is_endbr_insn(&insn))
			return X86_SAYS_TOP;

		says = ask(&insn);
		at += insn.length;
		ip += insn.length;
		if (says == SAYS_TARGET) {
			ip += insn.immediate.value;
			if (state->ws == sizeof(u32))
				ip = (u32)ip;
			len = read_text(code, ip, SCAN_BYTES);
			at = 0;
		} else if (says != SAYS_NEXT) {
			return says;
		}
	}
	return UNWIND_SAYS_FP;
}

/**
 * arch_unwind_user_look - see what the code at the user ip says about the frame
 * @state:	a walk whose ip is exact: the next instruction to run
 * @follow:	look at more than the first instruction
 *
 * Return: enum unwind_user_says or enum x86_says; UNWIND_SAYS_NOTHING if that needs more
 * instructions.
 */
unsigned int arch_unwind_user_look(const struct unwind_user_state *state, bool follow)
{
	const struct code_pattern *pattern;
	u8 code[SCAN_BYTES];
	size_t len;

	/* Usually the first few bytes are enough. */
	len = read_code(state, code, follow ? sizeof(code) : sizeof(pattern->code));
	if (!len)
		return UNWIND_SAYS_NO_CODE;

	pattern = find_pattern(code, len, state->ws);
	if (pattern &&
	    (pattern->says != UNWIND_SAYS_SIGNAL || arch_unwind_user_restorer(state, state->ip)) &&
	    (!pattern->lea || is_after_lea(state->ip, pattern->lea)))
		return pattern->says;

	if (!follow)
		return UNWIND_SAYS_NOTHING;
	return scan_code(state, code, len);
}

/**
 * arch_unwind_user_fp_restored - is the frame pointer the caller's, whatever a table says?
 * @state:	a walk whose ip is exact, of 64-bit code
 *
 * At the end of functions that align their stack, compilers do not update the rule of the
 * frame pointer after the register has been restored.
 *
 * Context: as the walk; page faults are allowed or disabled.
 * Return: true if the code shows that.
 */
bool arch_unwind_user_fp_restored(const struct unwind_user_state *state)
{
	unsigned int says = arch_unwind_user_look(state, true);

	return says == X86_SAYS_TOP || says == X86_SAYS_DRAP;
}

/* push %r10, which saves it; or an operand relative to it, see is_drap_ra(). */
static bool is_drap_use(const struct insn *insn)
{
	switch (insn->opcode.bytes[0]) {
	case 0x52:
		return X86_REX_B(rex_bits(insn));
	case 0x8d:
		return is_sp_reg(insn) && is_drap_ra(insn);
	case 0xff:
		return X86_MODRM_REG(insn->modrm.value) == 6 && is_drap_ra(insn);
	default:
		return false;
	}
}

/**
 * arch_unwind_user_uses_drap - is the code in the prologue or epilogue of a function that
 * aligns its stack?
 * @ip:		the next instruction to run, of 64-bit code
 *
 * Context: as the walk; page faults are allowed or disabled.
 * Return: true if it uses the DRAP before it calls, jumps or returns.
 */
bool arch_unwind_user_uses_drap(unsigned long ip)
{
	u8 code[SCAN_BYTES];
	size_t len = read_text(code, ip, sizeof(code)), at = 0;
	struct insn insn;

	for (int i = 0; i < MAX_SCAN; i++) {
		if (at >= len || insn_decode(&insn, code + at, len - at, INSN_MODE_64))
			return false;
		if (is_drap_use(&insn))
			return true;

		at += insn.length;
		switch (insn.opcode.bytes[0]) {
		case 0xc2: case 0xc3: case 0xe8: case 0xe9: case 0xeb:
			return false;
		}
	}
	return false;
}

/*
 * Is this one of the instructions that compilers put between the pushes at the start of a
 * function? They change neither the stack pointer nor rbx, and do not jump.
 */
static bool is_between_pushes(const struct insn *insn)
{
	switch (insn->opcode.bytes[0]) {
	case 0x0f:
		return is_endbr_insn(insn);
	case 0x31: case 0x89:			/* xor, mov */
		return !is_sp_rm(insn) && !is_bx_rm(insn);
	case 0x33: case 0x8b: case 0x8d:	/* xor, mov, lea */
		return !is_sp_reg(insn) && !is_bx_reg(insn);
	default:
		return false;
	}
}

/**
 * arch_unwind_user_saves_rbx - where does a function save rbx?
 * @func:	its first instruction, of 64-bit code
 * @size:	bytes of code from @func on
 *
 * Context: as the walk; page faults are allowed or disabled.
 * Return: how many words below the return address; 0 if it does not push rbx at its start.
 */
unsigned int arch_unwind_user_saves_rbx(unsigned long func, unsigned long size)
{
	u8 code[START_BYTES];
	size_t len = read_text(code, func, min(size, sizeof(code)));
	unsigned int words = 0;
	struct insn insn;

	for (size_t at = 0; at < len; at += insn.length) {
		/* Those with these prefixes use other opcode maps. */
		if (insn_decode(&insn, code + at, len - at, INSN_MODE_64) ||
		    insn_is_avx(&insn) || insn_is_rex2(&insn))
			return 0;
		/* A prefix would change the size of a push. */
		if ((insn.opcode.bytes[0] & 0xf8) == 0x50 && !insn.prefixes.nbytes) {
			words++;
			if (insn.opcode.bytes[0] == 0x53 && !X86_REX_B(rex_bits(&insn)))
				return words;
		} else if (!is_between_pushes(&insn)) {
			return 0;
		}
	}
	return 0;
}

/*
 * A uprobe on the call replaces its first byte. The same byte fills gaps between
 * functions: in tasks with uprobes, a few more words look like return addresses.
 */
static bool is_probed(u8 opcode)
{
	return opcode == 0xcc && test_bit(MMF_HAS_UPROBES, &current->mm->flags);
}

/* ff /2 with its ModRM byte at @modrm: does it end after @rest more bytes? */
static bool is_indirect_call(const u8 *modrm, unsigned int rest)
{
	unsigned int mod = *modrm >> 6, rm = *modrm & 7, size;

	if ((*modrm & 0x38) != 0x10)
		return false;

	size = mod == 1 ? 1 : mod == 2 ? 4 : 0;
	if (mod != 3 && rm == 4) {
		/* SIB; without a base register there is a displacement */
		size++;
		if (!mod && rest && (modrm[1] & 7) == 5)
			size += 4;
	} else if (!mod && rm == 5) {
		size += 4;
	}
	return size == rest && (modrm[-1] == 0xff || is_probed(modrm[-1]));
}

/* Read the code before an address near the start of its mapping; 0 if it is unreadable. */
static noinline u64 read_first_code(unsigned long addr)
{
	size_t near = min(offset_in_page(addr), sizeof(u64));
	u64 word = 0;

	if (!near || near == sizeof(word) ||
	    read_text((u8 *)(&word + 1) - near, addr - near, near) != near)
		return 0;
	return word;
}

/* Does an indirect call end with this word? */
static noinline bool ends_in_indirect_call(u64 word)
{
	u8 code[MAX_CALL + 1], *call = code + 1;

	memcpy(code, &word, sizeof(code));
	for (int rest = 0; rest <= MAX_CALL - 2; rest++) {
		if (is_indirect_call(&call[MAX_CALL - 1 - rest], rest))
			return true;
	}
	return false;
}

/* nop; call; nop: the first function of a goroutine returns to the call. */
static noinline int is_goexit(unsigned long addr)
{
	u8 code[6];

	if (read_text(code, addr, sizeof(code)) != sizeof(code))
		return -EFAULT;
	return code[0] == 0xe8 && code[5] == 0x90;
}

/**
 * arch_unwind_user_after_call - does a call instruction end at an address?
 * @addr:	a possible return address
 *
 * Context: as the walk; page faults are allowed or disabled.
 * Return: 1 if one does, or if the outermost function of a goroutine returns there; 0 if
 * not; -EFAULT if the code cannot be read.
 */
int arch_unwind_user_after_call(unsigned long addr)
{
	int none = 0;
	u64 word;
	u8 byte;

	if (addr < sizeof(word))
		return 0;
	if (get_user(word, (u64 __user *)(addr - sizeof(word)))) {
		word = read_first_code(addr);
		/* A call may start in the part that is unreadable. */
		none = -EFAULT;
	}

	/* call rel32 */
	byte = word >> 24;
	if (byte == 0xe8 || is_probed(byte))
		return 1;
	/* call *%reg: most of the other calls */
	if ((word >> 48 & 0xf8ff) == 0xd0ff)
		return 1;
	if (ends_in_indirect_call(word))
		return 1;

	if (word >> 56 == 0x90)
		return is_goexit(addr) ?: none;
	return none;
}
