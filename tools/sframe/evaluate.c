// SPDX-License-Identifier: GPL-2.0
/*
 * Evaluate rules on a machine with made-up registers and memory.
 *
 * Rules of .eh_frame, as DWARF expressions, and rows of SFrame are equivalent if they
 * result in the same callers. This check shares no code with the conversion from one to
 * the other.
 */
#include <dwarf.h>

#include "internal.h"

#define STACK_SIZE	32

/**
 * struct stack - stack of an expression
 * @val:	the values
 * @nr:		number of @val
 * @bad:	underflow, overflow or an unknown operation
 * @value:	the result is the value itself, not its address
 */
struct stack {
	u64	val[STACK_SIZE];
	unsigned int	nr;
	bool		bad;
	bool		value;
};

static u64 mix(u64 val)
{
	val = (val ^ val >> 30) * 0xbf58476d1ce4e5b9ULL;
	val = (val ^ val >> 27) * 0x94d049bb133111ebULL;
	return val ^ val >> 31;
}

static u64 load(const struct machine *machine, u64 addr)
{
	return mix(addr + machine->seed);
}

/**
 * machine_init - make up a machine
 * @machine:	set
 * @seed:	different seeds make different machines
 * @addr:	address of the code that it runs
 */
void machine_init(struct machine *machine, u64 seed, u64 addr)
{
	machine->seed = mix(seed + 1);
	for (unsigned int i = 0; i < REG_NR; i++)
		machine->reg[i] = mix(machine->seed + i * 0x9e3779b97f4a7c15ULL);
	machine->reg[REG_RA] = addr;
}

static void push(struct stack *stack, u64 val)
{
	if (stack->nr == STACK_SIZE)
		stack->bad = true;
	else
		stack->val[stack->nr++] = val;
}

static u64 pop(struct stack *stack)
{
	if (stack->nr)
		return stack->val[--stack->nr];
	stack->bad = true;
	return 0;
}

static bool is_reg(u64 reg)
{
	return reg <= REG_RA;
}

static void run_reg(const struct machine *machine, struct stack *stack, u64 reg,
		    u64 off)
{
	if (is_reg(reg))
		push(stack, machine->reg[reg] + off);
	else
		stack->bad = true;
}

static void run_shift(struct stack *stack, unsigned int atom, u64 a, u64 b)
{
	if (b > 63)
		stack->bad = true;
	else
		push(stack, atom == DW_OP_shl ? a << b : a >> b);
}

/* Apply an operation to the two topmost values; the second operand is on top. */
static void run_binary(struct stack *stack, unsigned int atom)
{
	u64 b = pop(stack), a = pop(stack);
	s64 x = a, y = b;

	switch (atom) {
	case DW_OP_plus:
		return push(stack, a + b);
	case DW_OP_minus:
		return push(stack, a - b);
	case DW_OP_mul:
		return push(stack, a * b);
	case DW_OP_and:
		return push(stack, a & b);
	case DW_OP_or:
		return push(stack, a | b);
	case DW_OP_xor:
		return push(stack, a ^ b);
	case DW_OP_shl:
	case DW_OP_shr:
		return run_shift(stack, atom, a, b);
	case DW_OP_eq:
		return push(stack, x == y);
	case DW_OP_ne:
		return push(stack, x != y);
	case DW_OP_ge:
		return push(stack, x >= y);
	case DW_OP_gt:
		return push(stack, x > y);
	case DW_OP_le:
		return push(stack, x <= y);
	case DW_OP_lt:
		return push(stack, x < y);
	default:
		stack->bad = true;
	}
}

static void run_op(const struct machine *machine, struct stack *stack, const Dwarf_Op *op,
		   const u64 *cfa)
{
	switch (op->atom) {
	case DW_OP_lit0 ... DW_OP_lit31:
		return push(stack, op->atom - DW_OP_lit0);
	case DW_OP_const1u ... DW_OP_consts:
		return push(stack, op->number);
	case DW_OP_breg0 ... DW_OP_breg31:
		return run_reg(machine, stack, op->atom - DW_OP_breg0, op->number);
	case DW_OP_bregx:
		return run_reg(machine, stack, op->number, op->number2);
	case DW_OP_reg0 ... DW_OP_reg31:
		stack->value = true;
		return run_reg(machine, stack, op->atom - DW_OP_reg0, 0);
	case DW_OP_regx:
		stack->value = true;
		return run_reg(machine, stack, op->number, 0);
	case DW_OP_deref:
		return push(stack, load(machine, pop(stack)));
	case DW_OP_plus_uconst:
		return push(stack, pop(stack) + op->number);
	case DW_OP_call_frame_cfa:
		if (cfa)
			return push(stack, *cfa);
		stack->bad = true;
		return;
	case DW_OP_stack_value:
		stack->value = true;
		return;
	case DW_OP_nop:
		return;
	default:
		run_binary(stack, op->atom);
	}
}

/* Evaluate an expression; false if that is not possible. */
static bool run(const struct machine *machine, const Dwarf_Op *ops, size_t nr,
		const u64 *cfa, bool *value, u64 *result)
{
	struct stack stack = {};

	for (size_t i = 0; i < nr && !stack.bad; i++) {
		/* An operation after a final value would take it for an address. */
		if (stack.value)
			return false;
		run_op(machine, &stack, &ops[i], cfa);
	}
	*result = pop(&stack);
	*value = stack.value;
	return !stack.bad;
}

/* Get a register of the caller; sets @lost if its value is lost. */
static bool run_register(const struct machine *machine, Dwarf_Frame *frame, int reg,
			 u64 cfa, u64 *result, bool *lost)
{
	Dwarf_Op mem[3], *ops;
	bool value;
	size_t nr;

	*lost = false;
	if (dwarf_frame_register(frame, reg, mem, &ops, &nr))
		return false;
	if (!nr) {
		*lost = ops;
		*result = machine->reg[reg];
		return true;
	}
	if (!run(machine, ops, nr, &cfa, &value, result))
		return false;
	if (!value)
		*result = load(machine, *result);
	return true;
}

/**
 * machine_run_cfi - find the caller with a frame of libdw
 * @machine:	the machine
 * @frame:	the frame
 * @caller:	set
 *
 * Return: false if the rules cannot be evaluated, the frame pointer is lost, or the stack
 * pointer is not the CFA, which SFrame cannot express.
 */
bool machine_run_cfi(const struct machine *machine, Dwarf_Frame *frame, struct caller *caller)
{
	u64 cfa = 0, sp;
	bool value, lost;
	Dwarf_Op *ops;
	size_t nr;

	*caller = (struct caller) {};
	run_register(machine, frame, REG_RA, 0, &caller->ra, &caller->outermost);
	if (caller->outermost)
		return true;
	if (dwarf_frame_cfa(frame, &ops, &nr) || !run(machine, ops, nr, NULL, &value, &cfa))
		return false;
	caller->cfa = cfa;
	return run_register(machine, frame, REG_RA, cfa, &caller->ra, &lost) &&
	       run_register(machine, frame, REG_FP, cfa, &caller->fp, &lost) && !lost &&
	       run_register(machine, frame, REG_SP, cfa, &sp, &lost) && !lost && sp == cfa;
}

static u64 run_rule(const struct machine *machine, const struct rule *rule, u64 cfa,
		    u64 same)
{
	u8 base = rule->base & ~BASE_LOAD;
	u64 addr;

	if (base == BASE_SAME)
		return same;
	addr = (base == BASE_CFA ? cfa : machine->reg[base]) + rule->off;
	return rule->base & BASE_LOAD ? load(machine, addr) : addr;
}

/**
 * machine_run_row - find the caller with a row
 * @machine:	the machine
 * @row:	the row
 * @caller:	set
 */
void machine_run_row(const struct machine *machine, const struct row *row,
		     struct caller *caller)
{
	*caller = (struct caller) { .outermost = row->outermost };
	if (row->outermost)
		return;
	caller->cfa = run_rule(machine, &row->cfa, 0, 0);
	caller->ra = run_rule(machine, &row->ra, caller->cfa, 0);
	caller->fp = run_rule(machine, &row->fp, caller->cfa, machine->reg[REG_FP]);
}

/**
 * cfi_needs_addr - does the CFA depend on the address of the code?
 * @frame:	frame of libdw
 *
 * Return: true if so, as in PLTs.
 */
bool cfi_needs_addr(Dwarf_Frame *frame)
{
	Dwarf_Op *ops;
	size_t nr;

	if (dwarf_frame_cfa(frame, &ops, &nr))
		return false;
	for (size_t i = 0; i < nr; i++) {
		if (ops[i].atom == DW_OP_breg0 + REG_RA ||
		    (ops[i].atom == DW_OP_bregx && ops[i].number == REG_RA))
			return true;
	}
	return false;
}
