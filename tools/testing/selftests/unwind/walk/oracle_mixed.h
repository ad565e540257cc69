/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions that call the next function of a path, see oracle_mixed.c.
 */
#ifndef _UNWIND_ORACLE_MIXED_H
#define _UNWIND_ORACLE_MIXED_H

#include <stddef.h>

/* A function that calls the first function of a path, with the rest of the path. */
struct oracle_hop {
	long	(*call)(const struct oracle_hop *path);
};

typedef void (*oracle_handler_t)(int sig);

/* The last function calls nothing. A NULL follows it. */
extern const struct oracle_hop oracle_hops_mixed_row[], oracle_hops_mixed_bare[];
/* A handler without a frame, and one that calls other functions. */
#define ORACLE_SHORT	0
#define ORACLE_LONG	1
extern const oracle_handler_t oracle_handlers_mixed_row[], oracle_handlers_mixed_bare[];

#endif /* _UNWIND_ORACLE_MIXED_H */
