// SPDX-License-Identifier: GPL-2.0
/*
 * 32-bit code, with and without segment bases, in a 64-bit program, which jumps to a
 * 32-bit code segment and back and takes a page fault there.
 */
#define _GNU_SOURCE
#include <asm/ldt.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf_ring.h"
#include "sframe_walk.h"
#include "workload.h"
#include "harness.h"

#define PAGE		4096UL
#define MAP_SIZE	(256 * 1024UL)
/* In the map: code, a page to fault on, the top of the stack. */
#define CODE_AT		0x20000UL
#define FAULT_AT	0x22000UL
#define STACK_AT	0x38000UL
/* Segment base; the flat addresses stay the same. */
#define BASE		0x10000UL

/* Selectors of the flat segments of x86-64. */
#define CS_32		0x23
#define DS_32		0x2b
/* Selector of the task state segment, with the user's privilege level. */
#define CS_TSS		0x43
#define LDT_CODE	0
#define LDT_STACK	1
#define SELECTOR(entry)	((entry) << 3 | 7)

/* Positions in the code below, which is copied to low memory. */
extern const char code_start[], code_fault[], code_call[], code_return[], code_end[];
extern const char code_ret[], code_before[], code_jump[], code_back[];

asm(
"	.pushsection .rodata\n"
"	.code32\n"
"code_start:\n"
"	push	%ebp\n"
"	mov	%esp, %ebp\n"
"	call	1f\n"
"code_call:\n"
"	pop	%ebp\n"
"code_jump:\n"
"	ljmp	$0x33, $0x12345678\n"
"1:	push	%ebp\n"
"	mov	%esp, %ebp\n"
	/* eax: the address */
"code_fault:\n"
"	mov	(%eax), %eax\n"
"	pop	%ebp\n"
"	ret\n"
	/* A leaf without a frame. */
"code_before:\n"
"	call	2f\n"
"code_return:\n"
"	jmp	code_jump\n"
"2:\n"
"code_ret:\n"
"	mov	(%eax), %eax\n"
"	ret\n"
"	.code64\n"
"code_back:\n"
"	movabs	$0x123456789abcdef0, %rax\n"
"	jmp	*%rax\n"
"code_end:\n"
"	.popsection\n"
);

/*
 * Go to @eip in segment @cs with the stack at @esp in @ss; the code returns to
 * compat_back. Register contents after the 32-bit code are not relied upon.
 */
void compat_enter(unsigned long cs, unsigned long eip, unsigned long ss,
		  unsigned long esp, unsigned long eax);
extern const char compat_back[];

asm(
"	.lcomm	saved_rsp, 8\n"
"	.lcomm	far_pointer, 8\n"
"	.pushsection .text\n"
"	.globl	compat_enter, compat_back\n"
"	.type	compat_enter, @function\n"
"compat_enter:\n"
"	push	%rbp\n"
"	push	%rbx\n"
"	push	%r12\n"
"	push	%r13\n"
"	push	%r14\n"
"	push	%r15\n"
"	mov	%rsp, saved_rsp(%rip)\n"
"	mov	$0x2b, %eax\n"
"	mov	%eax, %ds\n"
"	mov	%r8, %rax\n"
"	mov	%edx, %ss\n"
"	mov	%rcx, %rsp\n"
"	xor	%ebp, %ebp\n"
	/* QEMU's lret to another segment fails with SMAP. */
"	mov	%esi, far_pointer(%rip)\n"
"	mov	%di, far_pointer+4(%rip)\n"
"	ljmpl	*far_pointer(%rip)\n"
"compat_back:\n"
"	mov	$0x2b, %eax\n"
"	mov	%eax, %ss\n"
"	mov	saved_rsp(%rip), %rsp\n"
"	xor	%eax, %eax\n"
"	mov	%eax, %ds\n"
	RETURN_TO_C
"	.popsection\n"
);

static int set_segment(unsigned int entry, unsigned long base, bool code)
{
	struct user_desc desc = {
		.entry_number	= entry,
		.base_addr	= base,
		.limit		= 0xfffff,
		.seg_32bit	= 1,
		.limit_in_pages	= 1,
		.contents	= code ? MODIFY_LDT_CONTENTS_CODE : MODIFY_LDT_CONTENTS_DATA,
	};

	return syscall(SYS_modify_ldt, 1, &desc, sizeof(desc)) ? -errno : 0;
}

FIXTURE(compat) {
	struct perf_event_attr attr;
	union record *record;
	struct ring ring;
	char *map;
};

FIXTURE_VARIANT(compat) {
	unsigned long cs_base, ss_base;
	bool ldt;
};

FIXTURE_VARIANT_ADD(compat, flat) { };
FIXTURE_VARIANT_ADD(compat, ldt) { .ldt = true };
FIXTURE_VARIANT_ADD(compat, code_base) { .ldt = true, .cs_base = BASE };
FIXTURE_VARIANT_ADD(compat, stack_base) { .ldt = true, .ss_base = BASE };
FIXTURE_VARIANT_ADD(compat, both_bases) { .ldt = true, .cs_base = BASE, .ss_base = BASE };

/* The address of a label in the copy. */
#define COPIED(label)	((unsigned long)self->map + CODE_AT + ((label) - code_start))

FIXTURE_SETUP(compat)
{
	unsigned long back;
	unsigned int offset;
	int err = 0;

	self->attr = software_attr(PERF_COUNT_SW_PAGE_FAULTS);
	self->record = malloc(sizeof(*self->record));
	self->map = mmap(NULL, MAP_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->map);
	memset(self->map + STACK_AT - 2 * BASE, 0, 2 * BASE);
	memcpy(self->map + CODE_AT, code_start, code_end - code_start);
	offset = COPIED(code_back);
	memcpy(self->map + CODE_AT + (code_jump - code_start) + 1, &offset, 4);
	back = (unsigned long)compat_back;
	memcpy(self->map + CODE_AT + (code_back - code_start) + 2, &back, 8);

	if (variant->ldt) {
		err = set_segment(LDT_CODE, variant->cs_base, true);
		if (!err)
			err = set_segment(LDT_STACK, variant->ss_base, false);
	}
	if (err == -ENOSYS)
		SKIP(return, "needs CONFIG_MODIFY_LDT_SYSCALL");
	ASSERT_EQ(0, err);
	err = ring_open(&self->ring, &self->attr, 0, -1, 32);
	if (err == -EACCES || err == -EPERM)
		SKIP(return, "needs root");
	ASSERT_EQ(0, err);
}

FIXTURE_TEARDOWN(compat)
{
	free(self->record);
}

/* Run the code at @address, which faults, and read the record of the fault. */
#define FAULT_IN(address) do {							\
	char *_page = self->map + FAULT_AT;					\
										\
	ASSERT_EQ(0, madvise(_page, PAGE, MADV_DONTNEED));			\
	ring_enable(&self->ring);						\
	compat_enter(variant->ldt ? SELECTOR(LDT_CODE) : CS_32,		\
		     (address) - variant->cs_base,				\
		     variant->ldt ? SELECTOR(LDT_STACK) : DS_32,		\
		     (unsigned long)self->map + STACK_AT - variant->ss_base,	\
		     (unsigned long)_page);					\
	ring_disable(&self->ring);						\
	ASSERT_TRUE(ring_next_type(&self->ring, self->record,			\
				   PERF_RECORD_CALLCHAIN_DEFERRED));		\
} while (0)

TEST_F(compat, frame_pointers)
{
	const struct deferred *deferred = as_deferred(self->record);

	FAULT_IN(COPIED(code_start));
	ASSERT_EQ(2, deferred->nr);
	EXPECT_EQ(COPIED(code_fault), deferred->ips[0]);
	EXPECT_EQ(COPIED(code_call), deferred->ips[1]);
}

TEST_F(compat, leaf_without_frame)
{
	const struct deferred *deferred = as_deferred(self->record);

	FAULT_IN(COPIED(code_before));
	ASSERT_EQ(2, deferred->nr);
	EXPECT_EQ(COPIED(code_ret), deferred->ips[0]);
	EXPECT_EQ(COPIED(code_return), deferred->ips[1]);
}

/*
 * A file's table describes 64-bit code, and 32-bit code of the file is walked by its frame
 * pointers. The code is in the place of a function that, by the table, has no caller.
 */
TEST_F(compat, table_of_64_bit_code)
{
	const struct image_spec spec = { .code = &chain_a };
	const struct deferred *deferred = as_deferred(self->record);
	struct mapped mapped = {};
	struct walker walker;
	struct trace right;
	unsigned long code;
	const char *why;
	char dir[64];
	void *text;

	if (walker_init(&walker, &why))
		SKIP(return, "%s", why);
	ASSERT_EQ(0, private_mount(dir, sizeof(dir)));
	image_init(&mapped.image, &spec);
	memcpy(mapped.image.bytes + mapped.image.text + chain_a.entry, self->map + CODE_AT,
	       code_end - code_start);
	ASSERT_TRUE(mapped_write(&mapped, "%s/file", dir));
	/* No page faults by the code itself. */
	text = mmap(NULL, mapped.image.text_size, PROT_READ | PROT_EXEC,
		    MAP_PRIVATE | MAP_32BIT | MAP_POPULATE, mapped.fd, mapped.image.text);
	ASSERT_NE(MAP_FAILED, text);
	code = (unsigned long)text + chain_a.entry;

	right = trace_of_mapped(&mapped, ALL_FRAMES);
	ASSERT_TRUE(walk_mapped(&walker, &mapped));
	EXPECT_TRUE(trace_is(&walker, &right));

	FAULT_IN(code);
	ASSERT_EQ(2, deferred->nr);
	EXPECT_EQ(code + (code_fault - code_start), deferred->ips[0]);
	EXPECT_EQ(code + (code_call - code_start), deferred->ips[1]);

	munmap(text, mapped.image.text_size);
	mapped_exit(&mapped);
	private_unmount(dir);
	walker_exit(&walker);
}

/* Return address in a frame of 32-bit code. */
#define LOW_RA		0x1000U

/*
 * A debugger gives a task the selector of the kernel's task state segment. The task is killed
 * when it leaves the kernel, and no sample before that may reveal the segment's address.
 */
TEST(segment_of_the_kernel)
{
	struct perf_event_attr entry_attr = tracepoint_attr("syscalls/sys_enter_getppid");
	struct perf_event_attr attr = tracepoint_attr("raw_syscalls/sys_exit");
	union record *record = malloc(sizeof(*record));
	struct user_regs_struct regs;
	__u64 nr, samples = 0;
	struct ring ring, entry;
	struct sample sample;
	__u32 *frame;
	int status;
	pid_t pid;

	if (attr.type == ~0U || entry_attr.type == ~0U)
		SKIP(return, "needs root, tracefs and CONFIG_FTRACE_SYSCALLS");
	frame = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)frame);
	frame[1] = LOW_RA;
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		syscall(SYS_getppid);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_TRUE(WIFSTOPPED(status));

	/* Test the in-place walk: the deferred one has had this check for longer. */
	attr.defer_callchain = 0;
	attr.defer_output = 0;
	ASSERT_EQ(0, ring_open(&ring, &attr, pid, -1, 32));
	ASSERT_EQ(0, ring_filter(&ring, "id", SYS_getppid));
	ring_enable(&ring);
	/* Of the user registers, as at each hit in user code. */
	entry_attr.sample_type = PERF_SAMPLE_IP;
	entry_attr.defer_callchain = 0;
	entry_attr.defer_output = 0;
	ASSERT_EQ(0, ring_open(&entry, &entry_attr, pid, -1, 32));
	ring_enable(&entry);
	ASSERT_EQ(0, stop_at_syscall(pid, SYS_getppid, &regs));
	regs.cs = CS_TSS;
	regs.rbp = (uintptr_t)frame;
	ASSERT_EQ(0, ptrace(PTRACE_SETREGS, pid, 0, &regs));
	ASSERT_EQ(0, ptrace(PTRACE_CONT, pid, 0, 0));
	/* The task faults on its way to user mode. */
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSEGV);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);

	while (ring_next_type(&ring, record, PERF_RECORD_SAMPLE)) {
		int at;

		parse_sample(record, &sample);
		at = sample_part(&sample, PERF_CONTEXT_USER, &nr);
		for (unsigned int i = 1; at >= 0 && i < nr; i++) {
			EXPECT_EQ(LOW_RA, sample.ips[at + i]) {
				TH_LOG("%llx", sample.ips[at + i]);
			}
		}
		samples++;
	}
	EXPECT_EQ(1, samples);
	ring_close(&ring);
	ASSERT_TRUE(ring_next_type(&entry, record, PERF_RECORD_SAMPLE));
	EXPECT_EQ(regs.rip, record->words[1]);
	ring_close(&entry);
	munmap(frame, PAGE);
	free(record);
}

TEST_HARNESS_MAIN
