// SPDX-License-Identifier: GPL-2.0
/*
 * A plain model of the walk by tables and by frame pointers, which predicts the next
 * caller. It remembers nothing, and reads memory and tables as they are.
 *
 * It knows neither code nor signal frames, and predicts nothing where these may
 * matter. Nor does it predict walks that meet other activity: pages that a walk must
 * not wait for, locks that others hold, words that change.
 */
#include "fuzz.h"

#define FRAME_BX	3
#define FRAME_FP	6
#define FRAME_SP	7
/* The maximum stack alignment of functions, and of words above a saved CFA. */
#define MAX_ALIGNMENT	4096
#define MAX_SAVED	6
#define MAX_SIGNALS	32

static bool is_quiet(void)
{
	for (int i = 0; i < process.nr_traps; i++) {
		if (process.traps[i].change)
			return false;
	}
	for (int i = 0; i < AREAS; i++) {
		if (process.mapped[i].kind == TABLE_AGAIN)
			return false;
	}
	return !process.nofault && !process.exiting && !process.kill_read &&
	       !process.fail_read && process.nr_drops < 2 &&
	       !(process.mmap_busy && (process.raced || process.vma_busy || process.seq & 1));
}

static bool is_trampoline(unsigned long addr)
{
	return process.nr_probes && addr == process.trampoline;
}

/* Is the address in an executable mapping, as far as the walk can tell? */
bool model_is_code(unsigned long addr)
{
	const struct area *area = sim_area(addr);

	return addr >= PAGE_SIZE && addr < TASK_SIZE_MAX && !is_trampoline(addr) && area &&
	       (area->flags & AREA_VMA) && (area->flags & AREA_EXEC);
}

static bool load(unsigned long addr, unsigned long *val)
{
	return sim_peek(val, addr, sizeof(*val));
}

/* The table of the mapping that an address is in, or NULL. */
static const struct plain *table_at(unsigned long addr, u64 *bias)
{
	const struct area *area = sim_area(addr);
	unsigned int i = area - process.areas;

	/* The walk does not look up the mapping of the trampoline. */
	if (!model_is_code(addr) || sim_area(process.trampoline) == area ||
	    !file_tables[i].table)
		return NULL;
	*bias = area->base - process.mapped[i].addr +
		(process.replaced & BIT(i) ? process.shift : 0);
	return &file_tables[i].plain;
}

/*
 * Look up an address of the file in a table. Returns 1 if it has a frame, 0 if not, and
 * -1 if functions overlap there: the kernel uses one of them.
 */
static int ask(const struct plain *plain, u64 addr, struct unwind_user_frame *frame)
{
	const struct plain_func *found = NULL;

	for (int i = 0; i < plain->nr; i++) {
		const struct plain_func *func = &plain->funcs[i];

		if (!plain_covers(func, addr))
			continue;
		if (found)
			return -1;
		found = func;
	}
	for (int i = 0; found && i < plain->nr; i++) {
		const struct plain_func *func = &plain->funcs[i];

		if (func != found && func->good && !func->silent &&
		    func->start - found->start <= addr - found->start)
			return -1;
	}
	return found && plain_frame(plain, found, addr, frame);
}

/* May this be a restorer of signals? All restorers end in a system call. */
static bool is_restorer(unsigned long addr)
{
	u8 code[9];

	if (!sim_peek(code, addr, 2))
		return false;
	if (code[0] == 0x0f && code[1] == 0x05)
		return true;
	return (sim_peek(code, addr, 9) && !memcmp(code + 7, "\x0f\x05", 2)) ||
	       (sim_peek(code, addr, 7) && !memcmp(code + 5, "\x0f\x05", 2));
}

/* A register of a frame with an exact ip; false if it is not known. */
static bool exact_register(const struct unwind_user_state *state, bool first,
			   unsigned int reg, unsigned long *val)
{
	const struct pt_regs *r = &sim_regs;
	const unsigned long first_regs[] = {
		r->ax, r->dx, r->cx, r->bx, r->si, r->di, r->bp, r->sp,
		r->r8, r->r9, r->r10, r->r11, r->r12, r->r13, r->r14, r->r15,
	};
	/* The order in a signal frame: r8 to r15, then the others. */
	static const u8 order[] = { 13, 12, 14, 11, 9, 8, 10, 15, 0, 1, 2, 3, 4, 5, 6, 7 };

	if (first) {
		*val = first_regs[reg];
		return true;
	}
	return state->signal_regs && load(state->signal_regs + 8 * order[reg], val);
}

/* The value of a rule; false if it cannot be known. */
static bool value(const struct unwind_user_state *state, bool exact, bool first, u8 base, s32 off,
		  unsigned long cfa, unsigned long *val)
{
	unsigned int from = base & ~UNWIND_BASE_LOAD;

	if (from == UNWIND_BASE_CFA)
		*val = cfa;
	else if (from == FRAME_SP)
		*val = state->sp;
	else if (from == FRAME_FP)
		*val = state->fp;
	else if (!exact || !exact_register(state, first, from, val))
		return false;
	*val += off;
	return !(base & UNWIND_BASE_LOAD) || load(*val, val);
}

/* Check a return address that was read from @slot; false if the walk ends there. */
static bool caller(unsigned long ra, unsigned long slot, struct expected *e)
{
	e->entry = ra;
	if (!is_trampoline(ra))
		return model_is_code(ra);
	for (int i = 0; i < process.nr_probes; i++) {
		if (process.probes[i].stack == slot &&
		    process.probes[i].orig_ret_vaddr < TASK_SIZE_MAX) {
			e->entry = process.probes[i].orig_ret_vaddr;
			return true;
		}
	}
	return false;
}

static bool is_by_bx(u8 base)
{
	return (base & ~UNWIND_BASE_LOAD) == FRAME_BX;
}

/* Does a rule need rbx, in code that binds functions lazily? Only the walk can find it. */
static bool is_binding(const struct unwind_user_state *state,
		       const struct unwind_user_frame *frame)
{
	u8 code[9];

	return (is_by_bx(frame->cfa) || is_by_bx(frame->ra) || is_by_bx(frame->fp)) &&
	       sim_peek(code, state->ip - 13, sizeof(code)) &&
	       !memcmp(code, "\x48\x8b\x73\x10\x48\x8b\x7b\x08\xe8", sizeof(code));
}

static struct expected by_table(const struct unwind_user_state *state, bool exact, bool first,
				const struct unwind_user_frame *frame)
{
	struct expected e = { .known = true, .table = true, .exact = frame->signal };
	unsigned long cfa, ra;

	if (!exact && is_binding(state, frame))
		return (struct expected) {};
	if (frame->outermost || (frame->signal && state->signals == MAX_SIGNALS) ||
	    !value(state, exact, first, frame->cfa, frame->cfa_off, 0, &cfa) || cfa % 8)
		return e;
	if (cfa == state->sp ? frame->signal || !exact : cfa < state->sp && !frame->signal)
		return e;
	if (!value(state, exact, first, frame->ra, frame->ra_off, cfa, &ra) ||
	    !caller(ra, cfa + frame->ra_off, &e))
		return e;

	e.found = true;
	e.sp = cfa;
	e.fp = state->fp;
	if (frame->fp != UNWIND_BASE_SAME &&
	    !value(state, exact, first, frame->fp, frame->fp_off, cfa, &e.fp))
		e.fp = 0;
	e.fp_other = e.fp;
	/* The code may tell that it is restored already. */
	if (exact && frame->fp == (FRAME_FP | UNWIND_BASE_LOAD))
		e.fp_other = state->fp;
	return e;
}

/* Did a function with this CFA align its stack and copy its return address below @sp? */
static bool is_copy(unsigned long sp, unsigned long cfa)
{
	unsigned long align = 8, a, b;

	while (align < MAX_ALIGNMENT && sp % (2 * align) == 0)
		align *= 2;
	return cfa > sp && cfa - sp <= align && cfa % 8 == 0 && load(sp - 8, &a) &&
	       load(cfa - 8, &b) && a == b;
}

/* The stack pointer above a frame that ends at @sp, from the CFA that the function saved. */
static unsigned long realigned(const struct unwind_user_state *state, unsigned long sp)
{
	unsigned long cfa, at = sp - 16;

	for (int i = 0; i < MAX_SAVED; i++) {
		at -= 8;
		if (at < state->sp || !load(at, &cfa))
			break;
		if (is_copy(sp, cfa))
			return cfa;
	}
	return sp;
}

static struct expected by_frame_pointer(const struct unwind_user_state *state)
{
	struct expected e = { .known = true };
	unsigned long ra;
	u64 bias;

	/* This may be another stack: whether it has a return address depends on the code. */
	if (state->fp < state->sp)
		return (struct expected) {};
	if (state->fp % 8 || !load(state->fp + 8, &ra) ||
	    !load(state->fp, &e.fp) || !caller(ra, state->fp + 8, &e))
		return e;

	e.found = true;
	e.sp = state->fp + 16;
	e.fp_other = e.fp;
	if (!table_at(e.entry, &bias)) {
		/* Otherwise the mapping of the entry is not known. */
		e.known = model_is_code(e.entry) &&
			  sim_area(e.entry) != sim_area(process.trampoline);
		return e;
	}
	/* The CFA is also in a register if the code is about to use it. */
	if (is_copy(e.sp, state->arch))
		e.sp_other = state->arch;
	e.sp = realigned(state, e.sp);
	return e;
}

/**
 * model_next - predict the next caller
 * @state:	the state of the walk
 * @first:	the walk is at its start
 *
 * Return: the expected caller, or that it is not known.
 */
struct expected model_next(const struct unwind_user_state *state, bool first)
{
	bool exact = state->step == UNWIND_STEP_CODE;
	struct unwind_user_frame frame;
	const struct plain *plain;
	u64 bias;
	int says;

	if (!is_quiet() || state->step == UNWIND_STEP_DONE || state->ws != 8 ||
	    (state->step == UNWIND_STEP_SIGNAL && state->syscall >= 0) || is_restorer(state->ip))
		return (struct expected) {};

	plain = table_at(state->ip, &bias);
	says = plain ? ask(plain, state->ip - !exact - bias, &frame) : 0;
	if (says > 0)
		return by_table(state, exact, first, &frame);
	if (says < 0 || exact)
		return (struct expected) {};
	return by_frame_pointer(state);
}
