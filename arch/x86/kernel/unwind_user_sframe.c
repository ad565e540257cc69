// SPDX-License-Identifier: GPL-2.0
/*
 * x86 support for SFrame tables: registers by their numbers, frames that tables have no
 * rows for or cannot describe to callers, and the vDSO.
 *
 * Contexts: task context of the task that is walked, page faults allowed or disabled; no
 * locks. Stacks and signal frames are in user memory.
 */
#include <linux/align.h>
#include <linux/mm_types.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/stddef.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/unaligned.h>
#include <linux/unwind_user_arch.h>

#include <asm/sigcontext.h>
#include <asm/unwind_user.h>
#include <asm/vdso.h>

/* Offsets of a register in pt_regs and in the registers of a signal frame. */
#define REG(name)	{ offsetof(struct pt_regs, name), offsetof(struct sigcontext_64, name) }

/* Indexed by DWARF register number. */
static const struct {
	u16	regs;
	u16	signal;
} user_regs[ARCH_DWARF_REGS] = {
	REG(ax), REG(dx), REG(cx), REG(bx), REG(si), REG(di), REG(bp), REG(sp),
	REG(r8), REG(r9), REG(r10), REG(r11), REG(r12), REG(r13), REG(r14), REG(r15),
};

/**
 * arch_unwind_user_reg - get a register of a frame whose ip is exact
 * @state:	the walk, of 64-bit code
 * @reg:	its DWARF number
 * @value:	set to its value
 *
 * Return: true; false if it is not known, or cannot be read.
 */
bool arch_unwind_user_reg(const struct unwind_user_state *state, unsigned int reg,
			  unsigned long *value)
{
	if (reg >= ARCH_DWARF_REGS)
		return false;
	if (state->regs) {
		*value = *(const unsigned long *)((const void *)state->regs +
						  user_regs[reg].regs);
		return true;
	}
	return state->signal_regs &&
	       !get_user(*value, (unsigned long __user *)(state->signal_regs +
							  user_regs[reg].signal));
}

/* Number of registers that a function saves before it aligns its stack. */
#define REALIGN_SAVED	6

/*
 * Is @cfa the CFA of a function that aligned its stack? Then the return address is right
 * below @cfa, with a copy right below state->sp, which is lower than @cfa by the alignment
 * at most.
 */
static bool is_realigned(const struct unwind_user_state *state, unsigned long cfa)
{
	const unsigned long __user *copy = (unsigned long __user *)state->sp;
	const unsigned long __user *real = (unsigned long __user *)cfa;
	unsigned long a, b;

	return cfa - state->sp - 1 < min(state->sp & -state->sp, X86_REALIGN_MAX) &&
	       IS_ALIGNED(cfa, sizeof(cfa)) &&
	       !get_user(a, copy - 1) && !get_user(b, real - 1) && a == b;
}

/**
 * arch_unwind_user_cfa - get the CFA of the function that the last step left
 * @state:	the walk, of 64-bit code, after a step by the code or a frame pointer; the DRAP
 *		is that of before
 * @ip:		the ip before that step
 * @sp:		the stack pointer before that step: memory below it is unused
 *
 * Some tables have no rows for functions that align their stack. Such a function has a
 * copy of the return address in its frame, and its CFA is in the DRAP register, or saved
 * close below the frame pointer. Stale values of other functions may look the same: use
 * the register only if the code is about to use it.
 *
 * Return: the CFA, which is @state->sp for all other functions.
 */
unsigned long arch_unwind_user_cfa(const struct unwind_user_state *state, unsigned long ip,
				   unsigned long sp)
{
	const unsigned long __user *frame = (unsigned long __user *)state->sp - 2;
	unsigned long cfa;

	if (is_realigned(state, state->arch) && arch_unwind_user_uses_drap(ip))
		return state->arch;
	for (int i = 1; i <= REALIGN_SAVED; i++) {
		if ((unsigned long)(frame - i) < sp || get_user(cfa, frame - i))
			break;
		if (is_realigned(state, cfa))
			return cfa;
	}
	return state->sp;
}

/* The DWARF number of rbx. */
#define BIND_REG	3

/*
 * The first call of a function by the PLT goes to code of the C library that has its CFA in
 * rbx. It calls _dl_fixup(), which looks the function up, and which makes no tail call:
 *
 *	mov 16(%rbx),%rsi; mov 8(%rbx),%rdi; call
 */
static const u8 bind_code[] = { 0x48, 0x8b, 0x73, 0x10, 0x48, 0x8b, 0x7b, 0x08, 0xe8 };

/**
 * arch_unwind_user_saved_reg - get a register of a caller's frame
 * @state:	the walk, of 64-bit code, at the caller
 * @text:	the mapping of its code
 * @reg:	its DWARF number
 * @value:	set to its value
 *
 * No table tells where functions save the registers of their callers. In the code above
 * the called function is known, and its first instructions tell where it pushes rbx. If it is
 * the innermost one, it may not have done so yet, or may have popped rbx: then that place is
 * below the stack pointer. If anything is in doubt, rbx is not known.
 *
 * Return: true if it is known.
 */
bool arch_unwind_user_saved_reg(const struct unwind_user_state *state,
				const struct unwind_text_range *text, unsigned int reg,
				unsigned long *value)
{
	u8 code[sizeof(bind_code) + sizeof(s32)];
	unsigned long ip = state->ip - sizeof(code), at, slot;
	unsigned int words;

	/* Only code is read as code: other mappings may be of devices. */
	if (reg != BIND_REG || ip - text->start >= text->size ||
	    copy_from_user(code, (void __user *)ip, sizeof(code)) ||
	    memcmp(code, bind_code, sizeof(bind_code)))
		return false;
	at = state->ip + (s32)get_unaligned_le32(&code[sizeof(bind_code)]) - text->start;
	words = at < text->size ?
		arch_unwind_user_saves_rbx(text->start + at, text->size - at) : 0;
	slot = state->sp - (1 + words) * sizeof(long);
	return words && slot >= state->low && !get_user(*value, (unsigned long __user *)slot);
}

/**
 * arch_unwind_user_vdso - get the mapping of the vDSO of 64-bit code
 * @addr:	an address
 * @start:	set to its start
 * @end:	set to its end
 *
 * Return: true if @addr is in it.
 */
bool arch_unwind_user_vdso(unsigned long addr, unsigned long *start, unsigned long *end)
{
	const struct vdso_image *image = current->mm->context.vdso_image;

	if (image != &vdso_image_64)
		return false;
	/* No partner: a move by mremap() is noticed like any change of mappings. */
	*start = (unsigned long)READ_ONCE(current->mm->context.vdso);
	*end = *start + image->size;
	return addr >= *start && addr < *end;
}

/**
 * arch_unwind_user_vdso_image - get the image of the vDSO of 64-bit code
 * @bytes:	set to its start
 * @size:	set to its size, in bytes
 *
 * Return: true.
 */
bool arch_unwind_user_vdso_image(const u8 **bytes, u64 *size)
{
	*bytes = vdso_image_64.data;
	*size = vdso_image_64.size;
	return true;
}
