// SPDX-License-Identifier: GPL-2.0
/*
 * The user registers that current saved at kernel entry, if they are complete.
 *
 * Contexts: any, NMI included. Only registers and the bounds of stacks are read,
 * nothing is written, so nesting is no issue.
 *
 * task_pt_regs(current) names a place, not a promise. An NMI, or another
 * exception that does not care for the interrupt flag, may hit the entry code
 * while the frame at that place is still the one of the previous entry (the
 * SYSCALL gap), is being pushed, or is being copied from the entry stack
 * (sync_regs()). All of these run either in the entry text or on a stack that
 * is neither the thread's nor the hardirq stack; after them the frame stays
 * valid until the exit code, which is entry text again. One exception: 32-bit
 * SYSENTER leaves the user ip 0 up to the first instructions of
 * do_SYSENTER_32(), with interrupts off.
 */
#include <linux/hardirq.h>
#include <linux/perf_event.h>
#include <linux/perf_regs.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>

#include <asm/fred.h>
#include <asm/perf_user_regs.h>
#include <asm/processor.h>
#include <asm/sections.h>

static bool on_stack_of_current(unsigned long sp)
{
	unsigned long stack = (unsigned long)task_stack_page(current);

	return sp - stack < THREAD_SIZE;
}

static bool on_hardirq_stack(unsigned long sp)
{
	unsigned long top = (unsigned long)raw_cpu_read(pcpu_hot.hardirq_stack_ptr);

	return top && sp <= top && sp > top - IRQ_STACK_SIZE;
}

/* FRED enters on the thread stack, in text of its own. */
static bool in_fred_entry(unsigned long ip)
{
#ifdef CONFIG_X86_FRED
	return ip >= (unsigned long)asm_fred_entrypoint_user &&
	       ip < (unsigned long)asm_fred_entrypoint_kernel;
#else
	return false;
#endif
}

/* As x86_user_regs_valid_at(); for each NMI sample of the kernel. */
static __always_inline bool user_regs_valid_at(unsigned long ip, unsigned long sp)
{
	if (ip >= (unsigned long)__entry_text_start &&
	    ip < (unsigned long)__entry_text_end)
		return false;
	if (in_fred_entry(ip))
		return false;

	return on_stack_of_current(sp) || on_hardirq_stack(sp);
}

/* The same for the registers of what was interrupted. */
static __always_inline bool user_regs_valid_below(const struct pt_regs *regs)
{
	/* 32-bit fast system calls fill it in after the entry code. */
	return user_regs_valid_at(regs->ip, regs->sp) && task_pt_regs(current)->ip;
}

/**
 * x86_user_regs_valid_at - user frame validity for an interrupted position
 * @ip:		interrupted kernel instruction pointer
 * @sp:		interrupted kernel stack pointer
 *
 * The decision of arch_perf_user_regs_valid() for kernel mode, apart from it so
 * that it can be fed with fabricated positions. Errs towards false: the exit
 * path counts as not valid although most of it is.
 *
 * Return: true when all of task_pt_regs(current) was written in this entry.
 */
bool x86_user_regs_valid_at(unsigned long ip, unsigned long sp)
{
	return user_regs_valid_at(ip, sp);
}

/**
 * arch_perf_user_regs_valid - is task_pt_regs(current) what user mode left?
 * @regs:	registers of the interrupt or NMI that asks
 *
 * Context: any. For use where @regs are those of the innermost interruption.
 * Return: true when every register of task_pt_regs(current) is real, false
 * when any may be stale or not yet written.
 */
bool arch_perf_user_regs_valid(struct pt_regs *regs)
{
	return user_mode(regs) || user_regs_valid_below(regs);
}

/**
 * perf_get_regs_user - the user registers of a sample that hit the kernel
 * @regs_user:	set to current's registers, or to none of them
 * @regs:	registers of the sample
 *
 * All or nothing: a register that is stale or was not written yet never gets out.
 * Only an NMI can arrive before the frame is complete.
 *
 * Context: any; current is a user task.
 */
void perf_get_regs_user(struct perf_regs *regs_user, struct pt_regs *regs)
{
	if (in_nmi() && !user_regs_valid_below(regs)) {
		regs_user->abi = PERF_SAMPLE_REGS_ABI_NONE;
		regs_user->regs = NULL;
		return;
	}

	regs_user->regs = task_pt_regs(current);
	/* Of the registers: a task may change its bitness at run time. */
	regs_user->abi = user_64bit_mode(regs_user->regs) ? PERF_SAMPLE_REGS_ABI_64 :
							    PERF_SAMPLE_REGS_ABI_32;
}
