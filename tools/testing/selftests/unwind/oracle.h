/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions to be stepped through, and how oracle_code.c is compiled.
 */
#ifndef _UNWIND_ORACLE_H
#define _UNWIND_ORACLE_H

typedef void (*oracle_func_t)(void);

struct oracle_func {
	const char	*name;
	oracle_func_t	func;
};

/* One table for each set of compiler flags; it ends with a NULL name. */
extern const struct oracle_func oracle_table_O0[], oracle_table_O2[], oracle_table_Os[];
extern const struct oracle_func oracle_table_cet[];

#endif /* _UNWIND_ORACLE_H */
