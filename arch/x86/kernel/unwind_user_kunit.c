// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the user frame predicate: made-up interrupted positions of every class
 * that arch_perf_user_regs_valid() distinguishes in a kernel without FRED. kselftests cover
 * 32-bit fast system calls, whose frame has no ip yet.
 */
#include <kunit/test.h>
#include <linux/sched/task_stack.h>

#include <asm/cpu_entry_area.h>
#include <asm/perf_user_regs.h>
#include <asm/processor.h>
#include <asm/sections.h>

static void user_regs_valid_test(struct kunit *test)
{
	unsigned long stack = (unsigned long)task_stack_page(current);
	unsigned long entry = (unsigned long)__entry_text_start;
	unsigned long entry_end = (unsigned long)__entry_text_end;
	unsigned long kernel = (unsigned long)user_regs_valid_test;
	unsigned long irq, trampoline;

	/* Kernel code on the thread stack, up to both ends. */
	KUNIT_EXPECT_TRUE(test, x86_user_regs_valid_at(kernel, stack + THREAD_SIZE / 2));
	KUNIT_EXPECT_TRUE(test, x86_user_regs_valid_at(kernel, stack));
	KUNIT_EXPECT_TRUE(test, x86_user_regs_valid_at(kernel, stack + THREAD_SIZE - 8));
	KUNIT_EXPECT_FALSE(test, x86_user_regs_valid_at(kernel, stack - 8));
	KUNIT_EXPECT_FALSE(test, x86_user_regs_valid_at(kernel, stack + THREAD_SIZE));

	/* Entry text, whatever the stack; a user stack in the SYSCALL gap. */
	KUNIT_EXPECT_FALSE(test, x86_user_regs_valid_at(entry, stack + 64));
	KUNIT_EXPECT_FALSE(test, x86_user_regs_valid_at(entry_end - 1, stack + 64));
	KUNIT_EXPECT_FALSE(test, x86_user_regs_valid_at(entry, 0x7ffffffde000));
	KUNIT_EXPECT_TRUE(test, x86_user_regs_valid_at(entry - 1, stack + 64));
	KUNIT_EXPECT_TRUE(test, x86_user_regs_valid_at(entry_end, stack + 64));

	/* Kernel code on a stack that is not the thread's: user's, entry, exception. */
	KUNIT_EXPECT_FALSE(test, x86_user_regs_valid_at(kernel, 0x7ffffffde000));
	KUNIT_EXPECT_FALSE(test, x86_user_regs_valid_at(kernel, 0));

	preempt_disable();
	trampoline = (unsigned long)(cpu_entry_stack(smp_processor_id()) + 1);
	KUNIT_EXPECT_FALSE(test, x86_user_regs_valid_at(kernel, trampoline - 64));
	KUNIT_EXPECT_FALSE(test, x86_user_regs_valid_at(kernel, __this_cpu_ist_top_va(DB) - 64));
	KUNIT_EXPECT_FALSE(test, x86_user_regs_valid_at(kernel, __this_cpu_ist_top_va(NMI) - 64));

	irq = (unsigned long)this_cpu_read(pcpu_hot.hardirq_stack_ptr);
	KUNIT_EXPECT_TRUE(test, x86_user_regs_valid_at(kernel, irq));
	KUNIT_EXPECT_TRUE(test, x86_user_regs_valid_at(kernel, irq - 512));
	KUNIT_EXPECT_FALSE(test, x86_user_regs_valid_at(kernel, irq - IRQ_STACK_SIZE));
	KUNIT_EXPECT_FALSE(test, x86_user_regs_valid_at(kernel, irq + 16));
	preempt_enable();
}

static void user_mode_test(struct kunit *test)
{
	struct pt_regs regs = {
		.ip = (unsigned long)__entry_text_start, .sp = 0x7ffffffde000,
		.cs = __USER_CS,
	};

	KUNIT_EXPECT_TRUE(test, arch_perf_user_regs_valid(&regs));
	regs.cs = __KERNEL_CS;
	KUNIT_EXPECT_FALSE(test, arch_perf_user_regs_valid(&regs));
}

static struct kunit_case unwind_user_x86_cases[] = {
	KUNIT_CASE(user_regs_valid_test),
	KUNIT_CASE(user_mode_test),
	{}
};

static struct kunit_suite unwind_user_x86_suite = {
	.name		= "unwind_user_x86",
	.test_cases	= unwind_user_x86_cases,
};

kunit_test_suite(unwind_user_x86_suite);

MODULE_DESCRIPTION("KUnit tests of the x86 user frame predicate");
MODULE_LICENSE("GPL");
