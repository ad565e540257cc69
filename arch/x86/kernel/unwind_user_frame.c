// SPDX-License-Identifier: GPL-2.0
/*
 * Registers of x86 user mode, and those that a signal frame holds.
 *
 * Contexts: task context of the task that owns the stack, page faults allowed or
 * disabled. No locks, no allocation.
 *
 * Code and frames are untrusted user memory. A signal frame may hold any registers; one
 * that cannot be read is none.
 */
#include <linux/compat.h>
#include <linux/ptrace.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/unaligned.h>
#include <linux/unwind_user_arch.h>

#include <asm/sigframe.h>
#include <asm/unistd.h>
#include <asm/unwind_user.h>

/**
 * arch_unwind_user_set_32 - slow path of arch_unwind_user_set()
 * @state:	as set for 64-bit code
 * @regs:	user registers of code that is not 64-bit
 *
 * Context: any.
 */
void arch_unwind_user_set_32(struct unwind_user_state *state, const struct pt_regs *regs)
{
	state->ws = sizeof(u32);
	if ((regs->flags & X86_VM_MASK) || !user_segment_base(regs->cs, &state->cs_base) ||
	    !user_segment_base(regs->ss, &state->ss_base))
		state->ws = 0;
	state->ip = (u32)(state->cs_base + regs->ip);
	state->sp = (u32)(state->ss_base + regs->sp);
	state->fp = (u32)(state->ss_base + regs->bp);
	state->arch = (u32)(state->ss_base + regs->cx);
}

/**
 * struct sigreturn_code - how a restorer asks for sigreturn
 * @len:	bytes in @code
 * @code:	the instructions, the system call last
 * @before:	words of the signal frame that have been popped at the first
 *		instruction, including the return address that led there
 * @after:	likewise, at the system call
 * @nr:		system call number
 * @regs:	offset of the saved registers in the signal frame
 */
struct sigreturn_code {
	u8	len;
	u8	code[9];
	u8	before;
	u8	after;
	int	nr;
	u16	regs;
};

#define RT_REGS		offsetof(struct rt_sigframe, uc.uc_mcontext)
#define X32_REGS	offsetof(struct rt_sigframe_x32, uc.uc_mcontext)
/* mov $nr,%eax in two encodings; syscall */
static const struct sigreturn_code sigreturn_64[] = {
	{ 9, { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 }, 1, 1, __NR_rt_sigreturn, RT_REGS },
	{ 7, { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 }, 1, 1, __NR_rt_sigreturn, RT_REGS },
#ifdef CONFIG_X86_X32_ABI
	{ 9, { 0x48, 0xc7, 0xc0, 0x01, 0x02, 0, 0x40, 0x0f, 0x05 }, 1, 1,
	  ARCH_X32_SIGRETURN, X32_REGS },
	{ 7, { 0xb8, 0x01, 0x02, 0, 0x40, 0x0f, 0x05 }, 1, 1, ARCH_X32_SIGRETURN, X32_REGS },
#endif
};

#ifdef CONFIG_IA32_EMULATION
#define IA32_REGS	offsetof(struct sigframe_ia32, sc)
#define IA32_RT_REGS	offsetof(struct rt_sigframe_ia32, uc.uc_mcontext)

/* pop %eax, to drop the signal number, in the first; mov $nr,%eax; int $0x80 */
static const struct sigreturn_code sigreturn_32[] = {
	{ 8, { 0x58, 0xb8, 0x77, 0, 0, 0, 0xcd, 0x80 }, 1, 2, ARCH_IA32_SIGRETURN, IA32_REGS },
	{ 7, { 0xb8, 0x77, 0, 0, 0, 0xcd, 0x80 }, 2, 2, ARCH_IA32_SIGRETURN, IA32_REGS },
	{ 7, { 0xb8, 0xad, 0, 0, 0, 0xcd, 0x80 }, 1, 1, ARCH_IA32_RT_SIGRETURN, IA32_RT_REGS },
};
#endif

static bool is_sigreturn(const struct sigreturn_code *known, unsigned long addr)
{
	u8 code[sizeof(known->code)];

	return !copy_from_user(code, (void __user *)addr, known->len) &&
	       !memcmp(code, known->code, known->len);
}

/* Find the sigreturn at the ip, if any, and how many words of its frame have been popped. */
static const struct sigreturn_code *
find_sigreturn(const struct unwind_user_state *state, const struct sigreturn_code *known,
	       int nr, unsigned int *popped)
{
	u16 start;

	if (state->syscall >= 0) {
		for (int i = 0; i < nr; i++) {
			*popped = known[i].after;
			/* The number may be an exception's error code: check the code, too. */
			if (known[i].nr == state->syscall &&
			    is_sigreturn(&known[i], state->ip - known[i].len))
				return &known[i];
		}
		return NULL;
	}

	if (get_user(start, (u16 __user *)state->ip))
		return NULL;

	for (int i = 0; i < nr; i++, known++) {
		bool call = start == get_unaligned_le16(&known->code[known->len - 2]);

		if (!call && start != get_unaligned_le16(known->code))
			continue;
		*popped = call ? known->after : known->before;
		if (is_sigreturn(known, state->ip - (call ? known->len - 2 : 0)))
			return known;
	}
	return NULL;
}

/* Find the restorer at the ip: at its first instruction or in its system call. */
static const struct sigreturn_code *
find_restorer(const struct unwind_user_state *state, unsigned int *popped)
{
#ifdef CONFIG_IA32_EMULATION
	if (state->ws == sizeof(u32))
		return find_sigreturn(state, sigreturn_32, ARRAY_SIZE(sigreturn_32), popped);
#endif
	return find_sigreturn(state, sigreturn_64, ARRAY_SIZE(sigreturn_64), popped);
}

#ifdef CONFIG_IA32_EMULATION
static bool load_signal_regs_32(struct unwind_user_state *state, unsigned long addr)
{
	struct sigcontext_32 sc;

	if (copy_from_user(&sc, (void __user *)addr, sizeof(sc)))
		return false;

	arch_unwind_user_set(state, &(struct pt_regs) {
		.ip = sc.ip, .sp = sc.sp, .bp = sc.bp, .cx = sc.cx,
		.cs = sc.cs | 3, .ss = sc.ss | 3, .orig_ax = -1,
	});
	/* The interrupted code may be 64-bit: the frame does not have all its registers. */
	state->regs = NULL;
	state->signal_regs = 0;
	return true;
}
#endif

static bool load_signal_regs_64(struct unwind_user_state *state, unsigned long addr)
{
	struct sigcontext_64 sc;

	if (copy_from_user(&sc, (void __user *)addr, sizeof(sc)))
		return false;

	arch_unwind_user_set(state, &(struct pt_regs) {
		.ip = sc.ip, .sp = sc.sp, .bp = sc.bp, .r10 = sc.r10,
		.cs = sc.cs | 3, .ss = sc.ss | 3, .orig_ax = -1,
	});
	state->regs = NULL;
	state->signal_regs = addr;
	return true;
}

/**
 * arch_unwind_user_restorer - is an address the restorer that signal handlers return to?
 * @state:	the walk
 * @addr:	the return address
 *
 * Context: as the walk; page faults are allowed or disabled.
 * Return: true if a restorer is there; false also if the code cannot be read.
 */
bool arch_unwind_user_restorer(const struct unwind_user_state *state, unsigned long addr)
{
	struct unwind_user_state at = { .ip = addr, .ws = state->ws, .syscall = -1 };
	unsigned int popped;

	return find_restorer(&at, &popped);
}

/**
 * arch_unwind_user_signal_frame - step from a signal handler to the interrupted code
 * @state:	a walk that may be at the restorer, which a signal handler returns to
 *
 * Return: true if @state has been set to the interrupted code.
 */
bool arch_unwind_user_signal_frame(struct unwind_user_state *state)
{
	const struct sigreturn_code *found;
	unsigned int popped;
	unsigned long regs;

	found = find_restorer(state, &popped);
	if (!found)
		return false;

	regs = state->sp + found->regs - popped * state->ws;
#ifdef CONFIG_IA32_EMULATION
	if (state->ws == sizeof(u32))
		return load_signal_regs_32(state, regs);
#endif
	return load_signal_regs_64(state, regs);
}
