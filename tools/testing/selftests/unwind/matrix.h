/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the contexts and the stack shapes of the test matrix agree on.
 *
 * A context says how a request is triggered, a shape what the stack looks like then.
 * They meet in a leaf function: one of a few forms, in each of which any of the
 * triggers is at a known address.
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

/* Where the child runs, when it needs a CPU for itself, and who looks at it. */
#define CHILD_CPU	1
#define LOOKING_CPU	0

/* How the leaf gives the kernel an occasion. */
enum trigger {
	TRIGGER_SYSCALL,
	/* Reads a page that is not there. */
	TRIGGER_LOAD,
	/* Runs in user mode until told to stop. */
	TRIGGER_SPIN,
	/* An instruction to be probed. */
	TRIGGER_PROBE,
	/* Calls matrix_inner(), whose return may be probed. */
	TRIGGER_CALL,
	/* Instructions that the kernel carries out: UMIP, with an operand; CLI. */
	TRIGGER_SGDT,
	TRIGGER_CLI,
	/* As TRIGGER_SPIN, in a restartable sequence. */
	TRIGGER_ABORT,
	NR_TRIGGERS,
};

/* Where in which function the trigger is. */
enum form {
	/* Where the frame pointer is right. */
	FORM_FRAME,
	/* In a function without frame, whose stack holds nothing else, or locals. */
	FORM_LEAF,
	FORM_LOCALS,
	/* Before the frame pointer is pushed, after it was popped. */
	FORM_ENTRY,
	FORM_EXIT,
	/* No function at all: whatever stack and frame pointer matrix_enter() was given. */
	FORM_RAW,
	/* In 32-bit code, below one caller; entered as the one before. */
	FORM_COMPAT,
	/* As the first one, for who is interrupted by a signal. */
	FORM_OUTER,
	NR_FORMS,
};

/*
 * The code of a form with a trigger: its start, the instructions at which the trigger
 * may be seen, and who called it; the latter in 32-bit code only.
 */
struct leaf {
	__u64	entry, first, last, caller;
};

extern const struct leaf matrix_leaves[NR_FORMS][NR_TRIGGERS];

/* Of TRIGGER_ABORT, behind its last instruction: the end of the sequence, its abort handler. */
#define MATRIX_SEQUENCE_END	2
#define MATRIX_ABORT		8

/* What matrix_enter() does, in memory that 32-bit code reaches, too. */
struct enter {
	/* The stack to use and the frame pointer that it starts with. */
	__u64	top, fp;
	/* Functions that call themselves, between matrix_enter() and the leaf. */
	__u64	depth;
	__u64	leaf;
	/* Jump there instead, with nothing on the stack. */
	__u64	raw;
	/* What is read by TRIGGER_LOAD and TRIGGER_SPIN, or written by TRIGGER_SGDT. */
	__u64	addr;
	/* The system call of TRIGGER_SYSCALL, or what TRIGGER_ABORT stores where. */
	__u64	args[7];
	/* Any other task ends when it leaves. */
	__u64	tid;
};

void matrix_enter(const struct enter *enter);

/* What matrix_handler() calls the leaf of. */
extern const struct enter *matrix_in_handler;

/* Labels in the code. */
extern const char matrix_caller[], matrix_recursed[], matrix_entered[];
extern const char matrix_handler[], matrix_handled[], matrix_returns[];
extern const char matrix_restorer[], matrix_restored[];
extern const char matrix_inner[], matrix_exit[], matrix_exit_group[];
/* Addresses that are code and do nothing, each a function's that returns there. */
extern const char matrix_text[];
/* After a call, as real return addresses are: what a lower stack has to have. */
extern const char matrix_called[];
#define MATRIX_RA(n)	((uintptr_t)matrix_text + 8 + 8 * (n))

/* Two stacks in a row, the lower one first, each with a page above that is not there. */
#define MATRIX_PAGE	4096UL
#define MATRIX_STACK	(16 * MATRIX_PAGE)
#define MATRIX_HALF	(MATRIX_STACK + MATRIX_PAGE)
enum half { LOWER, HIGHER };

/* The right answer. */
struct answer {
	unsigned int	nr;
	/* Entries that need no page to be read in. */
	unsigned int	resident;
	/* The first one is the leaf's, which is known with the trigger. */
	__u64		ips[MATRIX_MAX_STACK + 128];
};

/* What the process that is sampled shares with the one that looks. */
struct shared {
	__u64			stop;
	/* Until the second thread has ended. */
	__u32			thread;
	int			uffd;
	/* Why there is no such stack. */
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
	/* Below the first one, if a signal is in between; else the same one. */
	struct enter		inner, *site;
	const struct leaf	*leaf;
	/* Two stacks; two pages, of which the second one is not there. */
	char			*map, *data;
	struct shared		*shared;
	struct answer		answer;
	pid_t			child;
	int			tracer;
	struct rings		deferred, in_place;
	/* Of contexts that have to ask more than once. */
	int			poke_fd;
	char			*buffer;
	/* Whose code is probed. */
	char			file[4096];
};

enum case_flags {
	CASE_NEEDS_SWAP		= 1 << 0,
	/* Somebody has to resolve the page, or ends the task instead. */
	CASE_HANGS		= 1 << 1,
	CASE_KILLED		= 1 << 2,
	/* A fork does not inherit what makes it right. */
	CASE_LOST_IN_FORK	= 1 << 3,
	/* It has a signal of its own, and a return from it. */
	CASE_SIGNAL		= 1 << 4,
	/* In the first row, elsewhere only when all is run. */
	CASE_FULL		= 1 << 5,
};

struct shape_case {
	const char	*what;
	enum form	form;
	/* In the parent: the stack and the answer. */
	void		(*build)(struct run *run, long param);
	long		param;
	/* In the child, each time before it enters; negative when that is not possible. */
	int		(*prepare)(struct run *run);
	unsigned int	flags;
	/* Counts walks that end there, NULL if that is as it should be. */
	const char	*counter;
};

#define MATRIX_CASES	8

struct shape {
	const char		*what;
	struct shape_case	cases[MATRIX_CASES];
};

enum { NR_SHAPES = 20, NR_CONTEXTS = 16 };

extern const struct shape matrix_shapes[NR_SHAPES];

/* A fresh map and all that does not depend on the context; 0 or -errno. */
int matrix_build(struct run *run);
void matrix_unbuild(struct run *run);

enum context_flags {
	/* Goes on until it was seen. */
	CONTEXT_REPEATS		= 1 << 0,
	/* No page can be read in. */
	CONTEXT_RESIDENT	= 1 << 1,
	/* Children are sampled, too. */
	CONTEXT_INHERITS	= 1 << 2,
	/* In rt_sigreturn(): the restorer comes first. */
	CONTEXT_SIGRETURN	= 1 << 3,
	/* A tracer changes the registers after the request. */
	CONTEXT_PTRACE		= 1 << 4,
	/* No request is granted. */
	CONTEXT_REFUSED		= 1 << 5,
	/* The in-place walker's answer is another one, or none. */
	CONTEXT_NOT_IN_PLACE	= 1 << 6,
	/* Of the first shape only. */
	CONTEXT_PLAIN		= 1 << 7,
	/* The second task has a copy of the memory. */
	CONTEXT_COPIES		= 1 << 8,
	/* Needs a CPU for itself. */
	CONTEXT_PINNED		= 1 << 9,
	/* Two entries, with two names. */
	CONTEXT_TWICE		= 1 << 10,
	/* Events of the CPUs: those of the task are gone too early. */
	CONTEXT_CPU_WIDE	= 1 << 11,
};

struct context {
	unsigned int	id;
	const char	*what;
	/*
	 * Events into one buffer: 0; 1 if it is to be filtered by the number of the
	 * system call; -errno if there is no such event.
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
	/* In the parent, again and again. */
	void		(*poke)(struct run *run);
	unsigned int	flags;
	/* Exact numbers, if not 0: samples, of those not deferred, traces of the leaf. */
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

/* That of the call which is sampled. */
static inline long run_sampled_nr(const struct run *run)
{
	return run->context->flags & CONTEXT_SIGRETURN ? 15 : run_nr(run);
}

#endif /* _UNWIND_MATRIX_H */
