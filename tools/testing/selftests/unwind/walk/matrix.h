/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Definitions shared by the contexts and the stack shapes of the test matrix.
 *
 * A context defines how a request is triggered, a shape defines the stack at that time.
 * They meet in a leaf function, which has one of a few forms. Each form exists with each
 * trigger, at a known address.
 */
#ifndef _UNWIND_MATRIX_H
#define _UNWIND_MATRIX_H

#include <linux/types.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "perf_ring.h"
#include "test_tracer.h"

/* kernel.perf_event_max_stack of all cells. */
#define MATRIX_MAX_STACK	520U

/* CPUs of the child and, if the child needs its CPU for itself, of the parent. */
#define CHILD_CPU	1
#define LOOKING_CPU	0

/* How the leaf triggers the request. */
enum trigger {
	TRIGGER_SYSCALL,
	/* Reads a page that is not present. */
	TRIGGER_LOAD,
	/* Runs in user mode until told to stop. */
	TRIGGER_SPIN,
	/* An instruction to be probed. */
	TRIGGER_PROBE,
	/* Calls matrix_inner(), whose return may be probed. */
	TRIGGER_CALL,
	/* Instructions that the kernel emulates: SGDT, with an operand, under UMIP; CLI. */
	TRIGGER_SGDT,
	TRIGGER_CLI,
	/* Like TRIGGER_SPIN, in a restartable sequence. */
	TRIGGER_ABORT,
	NR_TRIGGERS,
};

/* The kind of function, and the place of the trigger in it. */
enum form {
	/* Where the frame pointer is set up. */
	FORM_FRAME,
	/* In a function without a frame: without and with locals on the stack. */
	FORM_LEAF,
	FORM_LOCALS,
	/* Before the frame pointer is pushed, and after it is popped. */
	FORM_ENTRY,
	FORM_EXIT,
	/* No function: runs with the stack and frame pointer given to matrix_enter(). */
	FORM_RAW,
	/* In 32-bit code, below one caller; entered like FORM_RAW. */
	FORM_COMPAT,
	/* Like FORM_FRAME, for code that a signal interrupts. */
	FORM_OUTER,
	NR_FORMS,
};

/*
 * The code of a form with a trigger: its start, the first and the last instruction at
 * which the trigger may be seen, and, for 32-bit code, the return address of its caller.
 */
struct leaf {
	__u64	entry, first, last, caller;
};

extern const struct leaf matrix_leaves[NR_FORMS][NR_TRIGGERS];

/* TRIGGER_ABORT's end of sequence and abort handler: offsets from its last instruction. */
#define MATRIX_SEQUENCE_END	2
#define MATRIX_ABORT		8

/* Arguments of matrix_enter(), in memory that 32-bit code can address. */
struct enter {
	/* The stack to use and the initial frame pointer. */
	__u64	top, fp;
	/* Number of recursive calls between matrix_enter() and the leaf. */
	__u64	depth;
	__u64	leaf;
	/* If set, jump to the leaf with nothing pushed. */
	__u64	raw;
	/* Address that TRIGGER_LOAD and TRIGGER_SPIN read, and TRIGGER_SGDT writes. */
	__u64	addr;
	/* The call of TRIGGER_SYSCALL, or the value and address that TRIGGER_ABORT stores. */
	__u64	args[7];
	/* Tasks with another ID exit instead of returning. */
	__u64	tid;
};

void matrix_enter(const struct enter *enter);

/* matrix_handler() calls the leaf of this one. */
extern const struct enter *matrix_in_handler;

/* Labels in the code. */
extern const char matrix_caller[], matrix_recursed[], matrix_entered[];
extern const char matrix_handler[], matrix_handled[], matrix_returns[];
extern const char matrix_restorer[], matrix_restored[];
extern const char matrix_inner[], matrix_exit[], matrix_exit_group[];
/* Code that does nothing: MATRIX_RA() gives return addresses in it. */
extern const char matrix_text[];
/* Follows a call, as real return addresses do: required on a lower stack. */
extern const char matrix_called[];
#define MATRIX_RA(n)	((uintptr_t)matrix_text + 8 + 8 * (n))

/* Two stacks in a row, the lower one first, each with an inaccessible page above. */
#define MATRIX_PAGE	4096UL
#define MATRIX_STACK	(16 * MATRIX_PAGE)
#define MATRIX_HALF	(MATRIX_STACK + MATRIX_PAGE)
enum half { LOWER, HIGHER };

/* The expected trace. */
struct answer {
	unsigned int	nr;
	/* Number of entries that can be walked without reading in a page. */
	unsigned int	resident;
	/* The first entry is the leaf's, which depends on the trigger. */
	__u64		ips[MATRIX_MAX_STACK + 128];
};

/* Shared by the sampled child and its parent. */
struct shared {
	__u64			stop;
	/* Nonzero until the second thread has ended. */
	__u32			thread;
	int			uffd;
	/* -errno if the child could not prepare the case. */
	int			err;
	struct unwind_test_op	op;
	struct unwind_test_ops	ops;
};

struct context;
struct shape;
struct shape_case;

/* One case of a shape in one context. */
struct run {
	const struct context	*context;
	const struct shape_case	*shape;
	struct enter		enter;
	/* For the signal handler's leaf, if any. *site is the one with the trigger. */
	struct enter		inner, *site;
	const struct leaf	*leaf;
	/* Two stacks; two pages, of which the second one is not present. */
	char			*map, *data;
	struct shared		*shared;
	struct answer		answer;
	pid_t			child;
	int			tracer;
	struct rings		deferred, in_place;
	/* For contexts that trigger more than once. */
	int			poke_fd;
	char			*buffer;
	/* The file with the probed code. */
	char			file[4096];
};

enum case_flags {
	CASE_NEEDS_SWAP		= 1 << 0,
	/* The parent has to resolve the page, or kills the child instead. */
	CASE_HANGS		= 1 << 1,
	CASE_KILLED		= 1 << 2,
	/* A fork does not inherit the userfaultfd that completes the stack. */
	CASE_LOST_IN_FORK	= 1 << 3,
	/* The case itself takes a signal and returns from it. */
	CASE_SIGNAL		= 1 << 4,
	/* Always run in row C1, in other rows only with UNWIND_FULL. */
	CASE_FULL		= 1 << 5,
};

struct shape_case {
	const char	*what;
	enum form	form;
	/* In the parent: build the stack and the answer. */
	void		(*build)(struct run *run, long param);
	long		param;
	/* In the child, before each matrix_enter(); -errno if that is not possible. */
	int		(*prepare)(struct run *run);
	unsigned int	flags;
	/* Statistic that counts walks ending like this; NULL if the end is normal. */
	const char	*counter;
};

#define MATRIX_CASES	8

struct shape {
	const char		*what;
	struct shape_case	cases[MATRIX_CASES];
};

enum { NR_SHAPES = 20, NR_CONTEXTS = 16 };

extern const struct shape matrix_shapes[NR_SHAPES];

/* Map fresh stacks and build those of the shape; 0 or -errno. */
int matrix_build(struct run *run);
void matrix_unbuild(struct run *run);

enum context_flags {
	/* Repeats until it was seen. */
	CONTEXT_REPEATS		= 1 << 0,
	/* No page can be read in. */
	CONTEXT_RESIDENT	= 1 << 1,
	/* Children are sampled, too. */
	CONTEXT_INHERITS	= 1 << 2,
	/* In rt_sigreturn(): the trace starts with the restorer. */
	CONTEXT_SIGRETURN	= 1 << 3,
	/* A tracer changes the registers after the request. */
	CONTEXT_PTRACE		= 1 << 4,
	/* No request is granted. */
	CONTEXT_REFUSED		= 1 << 5,
	/* The in-place walker gives another answer, or none. */
	CONTEXT_NOT_IN_PLACE	= 1 << 6,
	/* With the first shape only. */
	CONTEXT_PLAIN		= 1 << 7,
	/* The second task has a copy of the memory. */
	CONTEXT_COPIES		= 1 << 8,
	/* Needs a CPU for itself. */
	CONTEXT_PINNED		= 1 << 9,
	/* Two entries, with two cookies. */
	CONTEXT_TWICE		= 1 << 10,
	/* Uses events of the CPUs: those of the task are gone too early. */
	CONTEXT_CPU_WIDE	= 1 << 11,
};

struct context {
	unsigned int	id;
	const char	*what;
	/*
	 * Fill in the @i th event of a buffer: 0; 1 if the event needs a filter by
	 * system call number; -errno if there is no such event.
	 */
	int		(*attr)(struct run *run, unsigned int i, struct perf_event_attr *attr);
	unsigned int	events;
	enum trigger	trigger;
	/* System call of the trigger, in 64-bit and 32-bit code. */
	long		nr, nr32;
	/* Its other arguments. */
	void		(*args)(struct run *run, __u64 *args);
	/* In the parent, before the fork; 0, or -errno if that is not possible. */
	int		(*setup)(struct run *run);
	/* In the parent, repeatedly until the child ends. */
	void		(*poke)(struct run *run);
	unsigned int	flags;
	/* Exact counts, if not 0: samples, samples not deferred, traces of the leaf. */
	unsigned int	samples, bare, traces;
};

extern const struct context matrix_contexts[];
extern const unsigned int matrix_nr_contexts;

static inline bool run_is_compat(const struct run *run)
{
	return run->shape->form == FORM_COMPAT;
}

/* The number of the context's system call, in the code of the shape. */
static inline long run_nr(const struct run *run)
{
	return run_is_compat(run) ? run->context->nr32 : run->context->nr;
}

/* The number of the sampled system call. */
static inline long run_sampled_nr(const struct run *run)
{
	return run->context->flags & CONTEXT_SIGRETURN ? 15 : run_nr(run);
}

#endif /* _UNWIND_MATRIX_H */
