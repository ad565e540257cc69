// SPDX-License-Identifier: GPL-2.0
/*
 * Convert rules of .eh_frame to rules of SFrame.
 *
 * libdw returns all rules as DWARF expressions. Accept the forms that compilers and people
 * write and that SFrame can express. Rules of other forms are lost: a wrong rule would be
 * worse than none.
 */
#include <dwarf.h>
#include <errno.h>
#include <limits.h>

#include "internal.h"

#define OP_NONE	0xff

/* The operation at @index, or OP_NONE. */
static unsigned int op_at(const Dwarf_Op *ops, size_t nr, size_t index)
{
	return index < nr ? ops[index].atom : OP_NONE;
}

/* Does it push a register plus an offset? Sets @base and @off. */
static bool op_is_reg(const Dwarf_Op *op, u8 *base, s64 *off)
{
	u64 reg;

	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
		reg = op->atom - DW_OP_breg0;
		*off = op->number;
	} else if (op->atom == DW_OP_bregx) {
		reg = op->number;
		*off = op->number2;
	} else {
		return false;
	}
	*base = reg;
	return reg < REG_NR;
}

static bool fits(s64 off)
{
	return off >= INT32_MIN && off <= INT32_MAX;
}

/* Parse an address of the form base + offset; sets @index to the operation after it. */
static bool ops_address(const Dwarf_Op *ops, size_t nr, size_t *index, struct rule *rule)
{
	s64 off = 0;

	if (op_at(ops, nr, *index) == DW_OP_call_frame_cfa)
		rule->base = BASE_CFA;
	else if (*index >= nr || !op_is_reg(&ops[*index], &rule->base, &off))
		return false;
	++*index;
	/* The number is unsigned, but some offsets of registers in it are negative. */
	if (op_at(ops, nr, *index) == DW_OP_plus_uconst) {
		if (__builtin_add_overflow(off, (s64)ops[*index].number, &off))
			return false;
		++*index;
	}
	rule->off = off;
	return fits(off);
}

/* The CFA, which is a value: an address, or the value in memory there. */
static bool rule_cfa(Dwarf_Frame *frame, struct rule *rule)
{
	size_t nr, index = 0;
	Dwarf_Op *ops;

	if (dwarf_frame_cfa(frame, &ops, &nr) || !ops_address(ops, nr, &index, rule))
		return false;
	if (op_at(ops, nr, index) == DW_OP_deref) {
		rule->base |= BASE_LOAD;
		index++;
	}
	return index == nr && !(rule->base & BASE_CFA);
}

/**
 * rule_register - find the caller's value of a register
 * @frame:	the row
 * @reg:	the register
 * @rule:	set
 * @undefined:	set to whether the value is lost
 *
 * Return: false if SFrame cannot express the rule.
 */
static bool rule_register(Dwarf_Frame *frame, int reg, struct rule *rule, bool *undefined)
{
	Dwarf_Op mem[3], *ops;
	size_t nr, index = 0;

	*undefined = false;
	if (dwarf_frame_register(frame, reg, mem, &ops, &nr))
		return false;
	if (!nr) {
		*rule = (struct rule) { .base = BASE_SAME };
		*undefined = ops;
		return !ops;
	}
	if (nr == 1 && ops[0].atom == DW_OP_regx) {
		*rule = (struct rule) { .base = ops[0].number };
		return ops[0].number < REG_NR;
	}
	if (nr == 1 && ops[0].atom >= DW_OP_reg0 && ops[0].atom < DW_OP_reg0 + REG_NR) {
		*rule = (struct rule) { .base = ops[0].atom - DW_OP_reg0 };
		return true;
	}

	/* Expressions start with the CFA on their stack, unless they push it themselves. */
	if (op_at(ops, nr, 0) == DW_OP_call_frame_cfa && nr > 1 &&
	    ((ops[1].atom >= DW_OP_breg0 && ops[1].atom <= DW_OP_breg31) ||
	     ops[1].atom == DW_OP_bregx))
		index++;
	if (!ops_address(ops, nr, &index, rule))
		return false;
	if (op_at(ops, nr, index) == DW_OP_stack_value)
		return index + 1 == nr;
	rule->base |= BASE_LOAD;
	return index == nr;
}

/* SFrame cannot express a value that is the CFA plus an offset: it would read as no rule. */
static bool is_value_of_cfa(const struct rule *rule)
{
	return rule->base == BASE_CFA;
}

static bool is_usual_ra(const struct rule *rule)
{
	return rule->base == (BASE_CFA | BASE_LOAD) && rule->off == SFRAME_RA_OFF;
}

static bool is_usual_fp(const struct rule *rule)
{
	return rule->base == BASE_SAME || rule->base == (BASE_CFA | BASE_LOAD);
}

static bool is_usual_cfa(const struct rule *rule)
{
	return rule->base == REG_SP || rule->base == REG_FP;
}

/**
 * row_is_flex - is this a flexible row of version 3?
 * @row:	the row
 *
 * Return: true if so.
 */
bool row_is_flex(const struct row *row)
{
	return !row->outermost && !(is_usual_cfa(&row->cfa) && is_usual_ra(&row->ra) &&
				    is_usual_fp(&row->fp));
}

static bool rule_equal(const struct rule *a, const struct rule *b)
{
	return a->base == b->base && (a->off == b->off || a->base == BASE_SAME);
}

/**
 * row_equal - are two rows equal, except for their start?
 * @a:		a row
 * @b:		another row
 *
 * Return: true if so.
 */
bool row_equal(const struct row *a, const struct row *b)
{
	if (a->outermost || b->outermost)
		return a->outermost == b->outermost;
	return rule_equal(&a->cfa, &b->cfa) && rule_equal(&a->ra, &b->ra) &&
	       rule_equal(&a->fp, &b->fp);
}

/* SFrame requires that the caller's stack pointer is the CFA. */
static bool is_sp_cfa(Dwarf_Frame *frame)
{
	struct rule rule;
	bool undefined;

	return rule_register(frame, REG_SP, &rule, &undefined) && rule.base == BASE_CFA &&
	       !rule.off;
}

static enum sframe_loss row_from_frame(Dwarf_Frame *frame, unsigned int version,
				       struct row *row)
{
	bool undefined, ok;

	ok = rule_register(frame, REG_RA, &row->ra, &undefined);
	if (undefined) {
		row->outermost = true;
		return SFRAME_LOSS_NONE;
	}
	if (!rule_cfa(frame, &row->cfa))
		return SFRAME_LOSS_CFA;
	if (version < 3 && !is_usual_cfa(&row->cfa))
		return SFRAME_LOSS_CFA_REG;
	if (!ok || row->ra.base == BASE_SAME || is_value_of_cfa(&row->ra) ||
	    (version < 3 && !is_usual_ra(&row->ra)))
		return SFRAME_LOSS_RA;
	if (!rule_register(frame, REG_FP, &row->fp, &undefined) || is_value_of_cfa(&row->fp) ||
	    (version < 3 && !is_usual_fp(&row->fp)))
		return SFRAME_LOSS_FP;
	if (!is_sp_cfa(frame))
		return SFRAME_LOSS_SP;
	return SFRAME_LOSS_NONE;
}

/**
 * row_from_cursor - convert a row of libdw
 * @cursor:	the cursor at the row
 * @version:	version of the format
 * @row:	set, except its start
 *
 * Return: SFRAME_LOSS_NONE; why SFrame cannot express the row, an enum sframe_loss; or -ENOMEM.
 */
int row_from_cursor(const struct cfi_cursor *cursor, unsigned int version, struct row *row)
{
	enum sframe_loss loss;

	*row = (struct row) {};
	if (!cursor->frame)
		return SFRAME_LOSS_BAD;
	/* An unwinder would take the address for a return address, after a call. */
	if (cursor->signal && version < 3)
		return SFRAME_LOSS_SIGNAL;
	/* libdw allocates memory for expressions. */
	errno = 0;
	loss = row_from_frame(cursor->frame, version, row);
	return loss != SFRAME_LOSS_NONE && errno == ENOMEM ? -ENOMEM : loss;
}

/**
 * sframe_loss_name - get the name of a reason
 * @loss:	the reason
 *
 * Return: a short description.
 */
const char *sframe_loss_name(enum sframe_loss loss)
{
	static const char * const names[SFRAME_LOSS_NR] = {
		[SFRAME_LOSS_NONE]	= "nothing",
		[SFRAME_LOSS_CFA]	= "CFA is computed",
		[SFRAME_LOSS_CFA_REG]	= "CFA is not from SP or FP",
		[SFRAME_LOSS_RA]	= "return address is elsewhere",
		[SFRAME_LOSS_FP]	= "frame pointer is elsewhere",
		[SFRAME_LOSS_SP]	= "stack pointer is not the CFA",
		[SFRAME_LOSS_SIGNAL]	= "signal frame",
		[SFRAME_LOSS_BAD]	= "damaged",
	};

	return (unsigned int)loss < SFRAME_LOSS_NR ? names[loss] : "unknown";
}
