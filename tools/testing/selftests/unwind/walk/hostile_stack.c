// SPDX-License-Identifier: GPL-2.0
/*
 * Corrupt stacks. Whatever the frame pointer, the result is a shorter trace: never an
 * unbounded walk, never a splat. For a valid and resident frame pointer stack, the
 * deferred trace equals the in-place one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "perf_ring.h"
#include "workload.h"
#include "harness.h"

#define PAGE		4096UL
#define PAGES		16
#define SLOTS		(PAGES * PAGE / sizeof(long))
/* Return addresses of frames in these stacks: the map is executable. */
#define RA(n)		((unsigned long)self->map + (n))

FIXTURE(stack) {
	struct perf_event_attr attr;
	struct ring deferred, in_place;
	union record *record;
	__u64 ips[8192], nr;
	/* Between two holes. */
	unsigned long *map;
};

FIXTURE_SETUP(stack)
{
	char *map;

	self->attr = tracepoint_attr("syscalls/sys_enter_getppid");
	if (self->attr.type == ~0U)
		SKIP(return, "needs root, tracefs and CONFIG_FTRACE_SYSCALLS");
	self->record = malloc(sizeof(*self->record));
	ASSERT_EQ(0, ring_open(&self->deferred, &self->attr, 0, -1, 32));
	self->attr.defer_callchain = 0;
	self->attr.defer_output = 0;
	ASSERT_EQ(0, ring_open(&self->in_place, &self->attr, 0, -1, 32));

	map = mmap(NULL, (PAGES + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)map);
	self->map = (void *)(map + PAGE);
	ASSERT_EQ(0, mprotect(self->map, PAGES * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC));
	ring_enable(&self->deferred);
	ring_enable(&self->in_place);
}

/* Without SFrame, the kernel has no such switch. */
static void sframe_switch(const char *state)
{
	int fd = open("/proc/sys/kernel/unwind_user_sframe", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, state, 1) != 1)
		perror("# SFrame cannot be switched");
	close(fd);
}

FIXTURE_TEARDOWN(stack)
{
	sframe_switch("1");
	free(self->record);
}

/* Write a frame at word @at of the map. */
static unsigned long frame(unsigned long *map, unsigned int at, unsigned long next,
			   unsigned long ra)
{
	map[at] = next;
	map[at + 1] = ra;
	return (unsigned long)&map[at];
}

/* Sample with frame pointer @fp, check the first entry, and copy the trace to ips. */
#define WALK(fp) do {								\
	const struct deferred *_deferred = as_deferred(self->record);		\
	long _call[7] = { SYS_getppid };					\
										\
	ring_drain(&self->deferred);						\
	workload_call_fp(&self->map[8], fp, _call);				\
	ASSERT_TRUE(ring_next_type(&self->deferred, self->record,		\
				   PERF_RECORD_CALLCHAIN_DEFERRED));		\
	self->nr = _deferred->nr;						\
	memcpy(self->ips, _deferred->ips, self->nr * sizeof(*self->ips));	\
	ASSERT_LE(1, self->nr);							\
	EXPECT_TRUE(workload_is_leaf_fp(self->ips[0]));				\
} while (0)

#define EXPECT_ENDS_AT_ONCE(fp) do {						\
	WALK(fp);								\
	EXPECT_EQ(1, self->nr) {						\
		TH_LOG("frame pointer %lx", (unsigned long)(fp));		\
	}									\
} while (0)

TEST_F(stack, frame_pointer_is_no_stack_address)
{
	static const unsigned long values[] = {
		0, 1, 8, 16, PAGE, ~0UL, ~0UL - 7, ~0UL - 15, ~0UL - 16,
		/* The edges of user space, the hole between the halves. */
		(1UL << 47) - PAGE - 16, (1UL << 47) - PAGE - 8, (1UL << 47) - PAGE,
		(1UL << 47) - 16, (1UL << 47) - 8, 1UL << 47, (1UL << 47) + 8,
		(1UL << 56) - PAGE - 16, 1UL << 56, 1UL << 62, 1UL << 63,
		~0UL << 47, (~0UL << 47) - 16,
		/* Kernel: direct map, text, fixmap, vsyscall. */
		0xffff888000000000, 0xffff888000100000, 0xffffffff81000000,
		0xffffffffff5fb000, 0xffffffffff600000,
		0x8000000000000008, 0xdead000000000100,
	};

	for (unsigned int i = 0; i < sizeof(values) / sizeof(*values); i++) {
		EXPECT_ENDS_AT_ONCE(values[i]);
	}
}

TEST_F(stack, misaligned)
{
	unsigned long fp = frame(self->map, 100, 0, RA(1));

	for (int i = 1; i < 8; i++) {
		EXPECT_ENDS_AT_ONCE(fp + i);
	}
	/* In the second frame: the first one is still reported. */
	WALK(frame(self->map, 50, fp + 4, RA(0)));
	EXPECT_EQ(2, self->nr);
	EXPECT_EQ(RA(0), self->ips[1]);
}

TEST_F(stack, loops)
{
	unsigned long fp = (unsigned long)&self->map[100];

	/* A frame that names itself, and a loop of two frames. */
	WALK(frame(self->map, 100, fp, RA(0)));
	EXPECT_EQ(2, self->nr);
	EXPECT_EQ(RA(0), self->ips[1]);

	frame(self->map, 100, frame(self->map, 200, fp, RA(1)), RA(0));
	WALK(fp);
	EXPECT_EQ(3, self->nr);
	EXPECT_EQ(RA(0), self->ips[1]);
	EXPECT_EQ(RA(1), self->ips[2]);
}

TEST_F(stack, decreasing)
{
	frame(self->map, 100, 0, RA(1));
	WALK(frame(self->map, 200, (unsigned long)&self->map[100], RA(0)));
	EXPECT_EQ(2, self->nr);
	/* Frames that overlap by half: the next one is neither above nor on another stack. */
	WALK(frame(self->map, 200, (unsigned long)&self->map[201], RA(0)));
	EXPECT_EQ(2, self->nr);
	/* Below the stack pointer. */
	EXPECT_ENDS_AT_ONCE((unsigned long)&self->map[0]);
	/* A frame at the stack pointer is valid, and the next one may follow directly. */
	frame(self->map, 10, 0, RA(1));
	WALK(frame(self->map, 8, (unsigned long)&self->map[10], RA(0)));
	EXPECT_EQ(3, self->nr);
}

TEST_F(stack, unmapped_and_edges)
{
	char *hole = (char *)self->map + PAGES * PAGE;

	EXPECT_ENDS_AT_ONCE((unsigned long)hole);
	/* The saved frame pointer is in the last word, the return address is beyond. */
	EXPECT_ENDS_AT_ONCE((unsigned long)hole - 8);
	/* The last frame that fits. */
	WALK(frame(self->map, SLOTS - 2, 0, RA(7)));
	EXPECT_EQ(2, self->nr);
	EXPECT_EQ(RA(7), self->ips[1]);
	/* Untouched pages hold zeroes, which end the walk. */
	EXPECT_ENDS_AT_ONCE((unsigned long)&self->map[SLOTS / 2]);
}

/* A return address that is no code ends the walk and is not reported. */
TEST_F(stack, return_address_is_no_code)
{
	unsigned long values[] = {
		0, 1, PAGE, (unsigned long)self->map - PAGE,
		(unsigned long)self->map + PAGES * PAGE, (unsigned long)&values,
		(1UL << 47) - PAGE, 1UL << 47, 1UL << 63, ~0UL,
		0xffffffff81000000, 0xffffffffff600000,
	};

	for (unsigned int i = 0; i < sizeof(values) / sizeof(*values); i++) {
		frame(self->map, 104, 0, RA(2));
		frame(self->map, 102, (unsigned long)&self->map[104], values[i]);
		WALK(frame(self->map, 100, (unsigned long)&self->map[102], RA(0)));
		EXPECT_EQ(2, self->nr) {
			TH_LOG("return address %lx", values[i]);
		}
		EXPECT_EQ(RA(0), self->ips[1]);
	}

	/* Code that loses its execute permission. */
	ASSERT_EQ(0, mprotect(&self->map[512], PAGE, PROT_READ | PROT_WRITE));
	frame(self->map, 102, 0, RA(PAGE));
	WALK(frame(self->map, 100, (unsigned long)&self->map[102], RA(0)));
	EXPECT_EQ(2, self->nr);
}

/* As many frames as fit into memory: the walk ends at the limit. */
TEST_F(stack, endless)
{
	for (unsigned int i = 16; i + 3 < SLOTS; i += 2)
		frame(self->map, i, (unsigned long)&self->map[i + 2], RA(i));

	WALK((unsigned long)&self->map[16]);
	EXPECT_EQ(self->attr.sample_max_stack ?: 127, self->nr);
	for (__u64 i = 1; i < self->nr; i++) {
		EXPECT_EQ(RA(14 + 2 * i), self->ips[i]);
	}
}

/* Most stacks end with a frame pointer of 0: the walker must not read memory there. */
TEST_F(stack, ends_without_page_fault)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr),
		.config = PERF_COUNT_SW_PAGE_FAULTS,
	};
	static const unsigned long ends[] = { 0, 8, 0xff8 };
	long call[7] = { SYS_getppid };
	__u64 before, after;
	int fd = perf_open(&attr, 0, -1, -1, 0);

	ASSERT_LE(0, fd);
	for (unsigned int i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		WALK(ends[i]);
		ASSERT_EQ(sizeof(before), read(fd, &before, sizeof(before)));
		workload_call_fp(&self->map[8], ends[i], call);
		ASSERT_EQ(sizeof(after), read(fd, &after, sizeof(after)));
		EXPECT_EQ(before, after);
	}
	close(fd);
}

/* Call code that calls getppid(); returns the address after the call. */
static __attribute__((noinline)) unsigned long call_code(const void *entry)
{
	long nr = SYS_getppid;
	unsigned long ra;

	/* Below the red zone, in which the compiler may have variables. */
	asm volatile("lea	1f(%%rip), %[ra]\n"
		     "	add	$-128, %%rsp\n"
		     "	call	*%[entry]\n"
		     "1:	sub	$-128, %%rsp"
		     : "+a" (nr), [ra] "=&r" (ra) : [entry] "r" (entry)
		     : "rcx", "r11", "memory", "cc");
	return ra;
}

/* Code rewritten in place, sampled at the same address: nothing else reveals the change. */
TEST_F(stack, rewritten_code)
{
	const struct deferred *deferred = as_deferred(self->record);
	__u8 *code = (__u8 *)&self->map[3 * PAGE / 8];
	unsigned long ra;

	/* push %rbp; mov %rsp,%rbp; syscall; pop %rbp; ret */
	memcpy(code, "\x55\x48\x89\xe5\x0f\x05\x5d\xc3", 8);
	ra = call_code(code);
	ASSERT_TRUE(ring_next_type(&self->deferred, self->record,
				   PERF_RECORD_CALLCHAIN_DEFERRED));
	EXPECT_EQ((unsigned long)code + 6, deferred->ips[0]);
	EXPECT_EQ(ra, deferred->ips[1]);

	/* syscall; ret */
	code[6] = 0xc3;
	ra = call_code(code + 4);
	ASSERT_TRUE(ring_next_type(&self->deferred, self->record,
				   PERF_RECORD_CALLCHAIN_DEFERRED));
	EXPECT_EQ((unsigned long)code + 6, deferred->ips[0]);
	EXPECT_EQ(ra, deferred->ips[1]);
}

/*
 * The code before a lower stack's return address becomes a call, in place or under
 * mprotect(). The kernel may have cached that it was no call.
 */
TEST_F(stack, rewritten_caller)
{
	__u8 *code = (__u8 *)&self->map[3 * PAGE / 8];
	unsigned long ra = (unsigned long)code + 5;
	unsigned long fp = frame(self->map, 2, 0, ra);

	for (int i = 0; i < 4; i++) {
		bool in_place = i % 2;

		memset(code, 0x90, 5);
		if (!in_place)
			ASSERT_EQ(0, mprotect(code, PAGE, PROT_READ | PROT_EXEC));
		EXPECT_ENDS_AT_ONCE(fp);
		EXPECT_ENDS_AT_ONCE(fp);

		if (!in_place)
			ASSERT_EQ(0, mprotect(code, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC));
		/* call */
		code[0] = 0xe8;
		if (!in_place)
			ASSERT_EQ(0, mprotect(code, PAGE, PROT_READ | PROT_EXEC));
		WALK(fp);
		ASSERT_EQ(2, self->nr);
		EXPECT_EQ(ra, self->ips[1]);
		ASSERT_EQ(0, mprotect(code, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC));
	}
}

/* The same with a write to the file behind a shared mapping. */
TEST_F(stack, rewritten_file)
{
	unsigned long ra, fp;
	char path[32];
	__u8 *code;
	int fd, ro;

	fd = memfd_create("code", MFD_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, PAGE));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, ro);
	code = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, ro, 0);
	ASSERT_NE(MAP_FAILED, code);
	ra = (unsigned long)code + 13;
	fp = frame(self->map, 2, 0, ra);
	EXPECT_ENDS_AT_ONCE(fp);
	EXPECT_ENDS_AT_ONCE(fp);

	/* call */
	ASSERT_EQ(1, pwrite(fd, "\xe8", 1, 8));
	WALK(fp);
	ASSERT_EQ(2, self->nr);
	EXPECT_EQ(ra, self->ips[1]);
	munmap(code, PAGE);
	close(ro);
	close(fd);
}

/*
 * The same with a private mapping, which the walker does not expect to be rewritten: it looks
 * again after a second. No table is looked for, which would make it look again by itself.
 */
TEST_F(stack, rewritten_private_file)
{
	unsigned long ra, fp;
	__u8 *code;
	int fd;

	fd = memfd_create("code", MFD_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, PAGE));
	code = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	ASSERT_NE(MAP_FAILED, code);
	ra = (unsigned long)code + 13;
	fp = frame(self->map, 2, 0, ra);
	sframe_switch("0");
	EXPECT_ENDS_AT_ONCE(fp);
	EXPECT_ENDS_AT_ONCE(fp);

	/* call */
	ASSERT_EQ(1, pwrite(fd, "\xe8", 1, 8));
	for (int i = 0; i < 20000 && self->nr == 1; i++) {
		usleep(1000);
		WALK(fp);
	}
	ASSERT_EQ(2, self->nr);
	EXPECT_EQ(ra, self->ips[1]);
	munmap(code, PAGE);
	close(fd);
}

/* Criterion: for a resident frame pointer stack, both walks give the same frames. */
TEST_F(stack, same_as_in_place)
{
	static const unsigned int depths[] = { 0, 1, 2, 10, 55, 56, 57, 112, 124, 125, 126, 200 };

	for (unsigned int i = 0; i < sizeof(depths) / sizeof(*depths); i++) {
		const struct deferred *deferred = as_deferred(self->record);
		struct sample sample;
		__u64 nr;
		int at;

		ring_drain(&self->deferred);
		ring_drain(&self->in_place);
		workload_syscall(depths[i], SYS_getppid);
		ASSERT_TRUE(ring_next_type(&self->in_place, self->record, PERF_RECORD_SAMPLE));
		parse_sample(self->record, &sample);
		at = sample_part(&sample, PERF_CONTEXT_USER, &nr);
		ASSERT_LT(0, at);
		memcpy(self->ips, sample.ips + at, nr * sizeof(*self->ips));

		ASSERT_TRUE(ring_next_type(&self->deferred, self->record,
					   PERF_RECORD_CALLCHAIN_DEFERRED));
		EXPECT_EQ(nr, deferred->nr);
		EXPECT_EQ(0, memcmp(self->ips, deferred->ips, nr * sizeof(*self->ips)));
		EXPECT_EQ(-1, workload_check_head(deferred->ips, deferred->nr, depths[i]));
	}
}

TEST_HARNESS_MAIN
