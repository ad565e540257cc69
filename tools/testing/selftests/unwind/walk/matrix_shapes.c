// SPDX-License-Identifier: GPL-2.0
/*
 * The columns of the test matrix: stacks with known answers.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hang.h"
#include "matrix.h"
#include "swap.h"
#include "workload.h"

/* An address on one of the stacks; from its end when @at is negative. */
static char *stack_at(const struct run *run, enum half half, long at)
{
	return run->map + MATRIX_PAGE + half * MATRIX_HALF + (at < 0 ? MATRIX_STACK + at : at);
}

/* Write a frame at @addr. */
static __u64 frame(char *addr, __u64 next, __u64 ra)
{
	__u64 *words = (__u64 *)addr;

	words[0] = next;
	words[1] = ra;
	return (uintptr_t)addr;
}

static void expect(struct run *run, __u64 ip)
{
	run->answer.ips[run->answer.nr++] = ip;
}

/* Expect the callers in matrix_enter() with this depth, except for the leaf's caller. */
static void expect_recursion(struct run *run, long depth)
{
	for (long i = 0; i < depth; i++)
		expect(run, (uintptr_t)matrix_recursed);
	expect(run, (uintptr_t)matrix_entered);
}

/* The same, starting with the leaf's caller. */
static void expect_frames(struct run *run, long depth)
{
	expect(run, (uintptr_t)matrix_caller);
	expect_recursion(run, depth);
}

static void enter_on(struct run *run, enum half half, __u64 fp, long depth)
{
	/* Start below the end, to leave a frame's worth of zeroes above. */
	run->enter.top = (uintptr_t)stack_at(run, half, -64);
	run->enter.fp = fp;
	run->enter.depth = depth;
}

/* The middle of the higher stack: room below for a signal, and above for frames. */
#define RAW_AT		(MATRIX_STACK / 2)

static void enter_raw(struct run *run, __u64 fp)
{
	run->enter.top = (uintptr_t)stack_at(run, HIGHER, RAW_AT);
	run->enter.fp = fp;
	run->enter.raw = 1;
}

/* Write a valid frame on the higher stack, with MATRIX_RA(@n). */
static __u64 good_frame(struct run *run, unsigned int n, __u64 next)
{
	return frame(stack_at(run, HIGHER, RAW_AT + 256 + 64 * n), next, MATRIX_RA(n));
}

static void build_depth(struct run *run, long depth)
{
	enter_on(run, HIGHER, 0, depth);
	expect_frames(run, depth);
}

static void build_no_caller(struct run *run, long param)
{
	enter_raw(run, 0);
}

static void build_one_caller(struct run *run, long param)
{
	enter_raw(run, good_frame(run, 0, 0));
	expect(run, MATRIX_RA(0));
}

/* The return address is above the leaf's locals: the walk misses the leaf's caller. */
static void build_locals(struct run *run, long depth)
{
	enter_on(run, HIGHER, 0, depth);
	expect_recursion(run, depth);
}

static int raise_in_child(struct run *run)
{
	struct raw_sigaction action = {
		.handler = matrix_handler, .restorer = matrix_restorer,
		.flags = RAW_SA_RESTORER | SA_SIGINFO | SA_NODEFER | SA_ONSTACK,
	};
	stack_t stack = {
		.ss_sp = stack_at(run, run->enter.top < (uintptr_t)stack_at(run, HIGHER, 0), 0),
		.ss_size = MATRIX_STACK,
	};

	if (run->shape->param >= 0 && sigaltstack(&stack, NULL))
		return -errno;
	if (syscall(SYS_rt_sigaction, SIGUSR2, &action, NULL, 8))
		return -errno;
	run->enter.args[0] = SYS_tkill;
	run->enter.args[1] = gettid();
	run->enter.args[2] = SIGUSR2;
	matrix_in_handler = &run->inner;
	return 0;
}

/* In a signal handler. @half is the interrupted stack; if negative, both share one stack. */
static void build_signal(struct run *run, long half)
{
	const struct leaf *outer = &matrix_leaves[FORM_OUTER][TRIGGER_SYSCALL];

	enter_on(run, half < 0 ? HIGHER : half, 0, 2);
	run->enter.leaf = outer->entry;
	run->site = &run->inner;
	expect(run, (uintptr_t)matrix_handled);
	expect(run, (uintptr_t)matrix_restorer);
	expect(run, outer->first);
	expect_frames(run, 2);
}

/* Switched to @half from the other stack. */
static void build_switched(struct run *run, long half)
{
	__u64 fp = frame(stack_at(run, !half, RAW_AT), 0, (uintptr_t)matrix_called);

	enter_on(run, half, fp, 2);
	expect_frames(run, 2);
	expect(run, (uintptr_t)matrix_called);
}

/* Enter with a bad frame pointer, in the leaf or in the frame of a caller. */
static void bad_fp(struct run *run, __u64 fp, long in_caller)
{
	if (in_caller) {
		fp = good_frame(run, 0, fp);
		expect(run, MATRIX_RA(0));
	}
	enter_raw(run, fp);
}

static void build_zero(struct run *run, long in_caller)
{
	bad_fp(run, 0, in_caller);
}

static void build_below_sp(struct run *run, long in_caller)
{
	bad_fp(run, frame(stack_at(run, HIGHER, RAW_AT - 64), 0, MATRIX_RA(2)), in_caller);
}

/* A frame at the stack pointer is valid; with @loops its next frame is itself. */
static void build_at_sp(struct run *run, long loops)
{
	char *at = stack_at(run, HIGHER, RAW_AT);

	enter_raw(run, frame(at, loops ? (uintptr_t)at : 0, MATRIX_RA(0)));
	expect(run, MATRIX_RA(0));
}

static void build_loop(struct run *run, long frames)
{
	__u64 first = good_frame(run, 0, 0);

	for (long i = 1; i < frames; i++) {
		good_frame(run, i - 1, good_frame(run, i, 0));
	}
	good_frame(run, frames - 1, first);
	enter_raw(run, first);
	for (long i = 0; i < frames; i++)
		expect(run, MATRIX_RA(i));
}

/* A complete frame at a misaligned address. */
static void build_misaligned(struct run *run, long in_caller)
{
	char *at = stack_at(run, HIGHER, RAW_AT + 1024 + 4);

	bad_fp(run, frame(at, 0, MATRIX_RA(2)), in_caller);
}

#define HOLE_AT		(-4L * (long)MATRIX_PAGE)

static void build_unmapped(struct run *run, long in_caller)
{
	bad_fp(run, (uintptr_t)stack_at(run, HIGHER, HOLE_AT), in_caller);
}

static int unmap_in_child(struct run *run)
{
	return munmap(stack_at(run, HIGHER, HOLE_AT), MATRIX_PAGE) ? -errno : 0;
}

static void build_prot_none(struct run *run, long in_caller)
{
	/* The page holds a frame, which must not be seen. */
	bad_fp(run, frame(stack_at(run, HIGHER, HOLE_AT), 0, MATRIX_RA(2)), in_caller);
}

static int protect_in_child(struct run *run)
{
	return mprotect(stack_at(run, HIGHER, HOLE_AT), MATRIX_PAGE, PROT_NONE) ? -errno : 0;
}

/* The last frame that fits; its next frame is the page above. */
static void build_guard(struct run *run, long param)
{
	char *end = stack_at(run, HIGHER, 0) + MATRIX_STACK;

	enter_raw(run, frame(end - 16, (uintptr_t)end, MATRIX_RA(0)));
	expect(run, MATRIX_RA(0));
}

/* Only the first word of the frame is mapped. */
static void build_last_word(struct run *run, long in_caller)
{
	bad_fp(run, (uintptr_t)stack_at(run, HIGHER, -8), in_caller);
}

/* The last pages of the higher stack, which are not present at the time of the walk. */
#define OUT_PAGES	2
#define OUT_AT		(-(long)(OUT_PAGES * MATRIX_PAGE))

static void build_out(struct run *run, long kept)
{
	char *out = stack_at(run, HIGHER, OUT_AT);
	__u64 next = frame(out + MATRIX_PAGE, 0, MATRIX_RA(1));

	enter_raw(run, frame(out, next, MATRIX_RA(0)));
	run->answer.resident = 1;
	if (kept) {
		expect(run, MATRIX_RA(0));
		expect(run, MATRIX_RA(1));
	}
}

/* Map shared memory there instead; a page that is never written is a hole. */
static void shmem_out(struct run *run)
{
	int fd = memfd_create("matrix", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, OUT_PAGES * MATRIX_PAGE) ||
	    mmap(stack_at(run, HIGHER, OUT_AT), OUT_PAGES * MATRIX_PAGE, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
		_exit(1);
	close(fd);
}

static void build_shmem(struct run *run, long kept)
{
	shmem_out(run);
	build_out(run, kept);
}

static void build_hole(struct run *run, long in_caller)
{
	shmem_out(run);
	bad_fp(run, (uintptr_t)stack_at(run, HIGHER, OUT_AT), in_caller);
}

/* Shared memory keeps its contents, private memory becomes zeroes. */
static int drop_in_child(struct run *run)
{
	return madvise(stack_at(run, HIGHER, OUT_AT), OUT_PAGES * MATRIX_PAGE, MADV_DONTNEED) ?
		-errno : 0;
}

static int page_out_in_child(struct run *run)
{
	char *out = stack_at(run, HIGHER, OUT_AT);

	/* Pages that are still shared after the fork are not paged out. */
	for (unsigned int i = 0; i < OUT_PAGES; i++)
		((volatile char *)out)[i * MATRIX_PAGE] += 0;
	return page_out(out, OUT_PAGES, OUT_PAGES) == OUT_PAGES ? 0 : -EAGAIN;
}

static void build_hang(struct run *run, long param)
{
	bad_fp(run, (uintptr_t)stack_at(run, HIGHER, OUT_AT), 0);
	/* The future contents of the page. */
	frame(run->data, 0, MATRIX_RA(0));
	run->answer.resident = 1;
	expect(run, MATRIX_RA(0));
}

static int hang_in_child(struct run *run)
{
	char *out = stack_at(run, HIGHER, OUT_AT);

	if (drop_in_child(run))
		return -errno;
	if (run->shared->uffd < 0)
		__atomic_store_n(&run->shared->uffd, hang_page(out), __ATOMIC_RELEASE);
	return run->shared->uffd < 0 ? -ENOSYS : 0;
}

/* The outermost 32-bit function returns to the address on the stack; a frame follows. */
static void build_compat(struct run *run, long param)
{
	__u32 *words = (__u32 *)stack_at(run, HIGHER, RAW_AT);

	words[0] = MATRIX_RA(0);
	words[64] = 0;
	words[65] = MATRIX_RA(1);
	enter_raw(run, (uintptr_t)&words[64]);
	expect(run, run->leaf->caller);
	expect(run, MATRIX_RA(0));
	expect(run, MATRIX_RA(1));
}

const struct shape matrix_shapes[NR_SHAPES] = {
	{ "frame pointers", {
		{ "no caller", FORM_RAW, build_no_caller, .flags = CASE_FULL },
		{ "1 caller", FORM_RAW, build_one_caller, .param = 0 },
		{ "2 callers", FORM_FRAME, build_depth, .param = 0 },
		{ "510 entries", FORM_FRAME, build_depth, .param = 510 - 3 },
		{ "511 entries", FORM_FRAME, build_depth, .param = 511 - 3,
		  .flags = CASE_FULL },
		{ "as deep as allowed", FORM_FRAME, build_depth, .param = MATRIX_MAX_STACK - 3,
		  .flags = CASE_FULL },
		{ "deeper", FORM_FRAME, build_depth, .param = MATRIX_MAX_STACK - 2 },
	} },
	{ "leaf without frame pointer", {
		{ "nothing on the stack", FORM_LEAF, build_depth, .param = 2 },
		{ "documented loss", FORM_LOCALS, build_locals, .param = 2 },
	} },
	{ "entry", { { "before the push", FORM_ENTRY, build_depth, .param = 2 } } },
	{ "epilogue", { { "after the pop", FORM_EXIT, build_depth, .param = 2 } } },
	{ "sigaltstack", {
		{ "a higher one", FORM_FRAME, build_signal, .param = LOWER,
		  .prepare = raise_in_child, .flags = CASE_SIGNAL },
		{ "a lower one", FORM_FRAME, build_signal, .param = HIGHER,
		  .prepare = raise_in_child, .flags = CASE_SIGNAL },
	} },
	{ "signal frame", {
		{ "", FORM_FRAME, build_signal, .param = -1,
		  .prepare = raise_in_child, .flags = CASE_SIGNAL },
	} },
	{ "swapped stacks", {
		{ "from a lower one", FORM_FRAME, build_switched, .param = HIGHER },
		{ "from a higher one", FORM_FRAME, build_switched, .param = LOWER },
	} },
	{ "fp = 0", {
		{ "leaf", FORM_RAW, build_zero, .param = 0 },
		{ "caller", FORM_RAW, build_zero, .param = 1 },
	} },
	{ "fp < sp", {
		{ "leaf", FORM_RAW, build_below_sp, .param = 0,
		  .counter = "ended_bad_frame" },
		{ "caller", FORM_RAW, build_below_sp, .param = 1,
		  .counter = "ended_bad_frame" },
	} },
	{ "fp = sp", {
		{ "a frame", FORM_RAW, build_at_sp, .param = 0 },
		{ "that names itself", FORM_RAW, build_at_sp, .param = 1,
		  .counter = "ended_bad_frame" },
	} },
	{ "loop", {
		{ "of one frame", FORM_RAW, build_loop, .param = 1,
		  .counter = "ended_bad_frame" },
		{ "of three frames", FORM_RAW, build_loop, .param = 3,
		  .counter = "ended_bad_frame" },
	} },
	{ "misaligned", {
		{ "leaf", FORM_RAW, build_misaligned, .param = 0,
		  .counter = "ended_bad_frame" },
		{ "caller", FORM_RAW, build_misaligned, .param = 1,
		  .counter = "ended_bad_frame" },
	} },
	{ "unmapped", {
		{ "leaf", FORM_RAW, build_unmapped, .prepare = unmap_in_child,
		  .counter = "ended_unreadable" },
		{ "caller", FORM_RAW, build_unmapped, .param = 1, .prepare = unmap_in_child,
		  .counter = "ended_unreadable" },
	} },
	{ "PROT_NONE", {
		{ "leaf", FORM_RAW, build_prot_none, .prepare = protect_in_child,
		  .counter = "ended_unreadable" },
		{ "caller", FORM_RAW, build_prot_none, .param = 1, .prepare = protect_in_child,
		  .counter = "ended_unreadable" },
	} },
	{ "edge of the guard page", {
		{ "", FORM_RAW, build_guard, .param = 0, .counter = "ended_unreadable" },
	} },
	{ "last word of the VMA", {
		{ "leaf", FORM_RAW, build_last_word, .param = 0,
		  .counter = "ended_unreadable" },
		{ "caller", FORM_RAW, build_last_word, .param = 1,
		  .counter = "ended_unreadable" },
	} },
	{ "paged out", {
		{ "shared memory", FORM_RAW, build_shmem, .param = 1, .prepare = drop_in_child },
		{ "MADV_DONTNEED", FORM_RAW, build_out, .prepare = drop_in_child,
		  .counter = "no_code" },
		{ "MADV_PAGEOUT", FORM_RAW, build_out, .param = 1, .prepare = page_out_in_child,
		  .flags = CASE_NEEDS_SWAP },
	} },
	{ "shmem hole", {
		{ "leaf", FORM_RAW, build_hole, .param = 0,
		  .counter = "no_code" },
		{ "caller", FORM_RAW, build_hole, .param = 1,
		  .counter = "no_code" },
	} },
	{ "userfaultfd", {
		{ "that answers", FORM_RAW, build_hang, .prepare = hang_in_child,
		  .flags = CASE_HANGS | CASE_LOST_IN_FORK },
		{ "that does not", FORM_RAW, build_hang, .prepare = hang_in_child,
		  .flags = CASE_HANGS | CASE_KILLED | CASE_LOST_IN_FORK },
	} },
	{ "32-bit code", { { "", FORM_COMPAT, build_compat, .param = 0 } } },
};

static char *map_low(size_t size, int prot)
{
	return mmap(NULL, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
}

/* Map stacks with an inaccessible page below, between and above them. */
int matrix_build(struct run *run)
{
	const struct shape_case *shape = run->shape;

	run->map = map_low(MATRIX_PAGE + 2 * MATRIX_HALF, PROT_NONE);
	run->data = map_low(2 * MATRIX_PAGE, PROT_READ | PROT_WRITE);
	if (run->map == MAP_FAILED || run->data == MAP_FAILED)
		return -errno;
	for (enum half half = LOWER; half <= HIGHER; half++) {
		if (mprotect(stack_at(run, half, 0), MATRIX_STACK, PROT_READ | PROT_WRITE))
			return -errno;
	}

	run->leaf = &matrix_leaves[shape->form][run->context->trigger];
	run->site = &run->enter;
	memset(&run->enter, 0, sizeof(run->enter));
	memset(&run->inner, 0, sizeof(run->inner));
	run->answer.resident = 0;
	run->answer.nr = 1;
	shape->build(run, shape->param);
	run->site->leaf = run->leaf->entry;
	return 0;
}

void matrix_unbuild(struct run *run)
{
	munmap(run->map, MATRIX_PAGE + 2 * MATRIX_HALF);
	munmap(run->data, 2 * MATRIX_PAGE);
}
