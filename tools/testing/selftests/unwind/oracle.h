/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Single-step a process, take an unwind at each instruction, and compare it with a
 * shadow stack.
 *
 * Each step is a kernel entry of its own in which a signal is generated, and an event on
 * that asks for a deferred trace. The truth is a shadow stack: every call adds the return
 * address that it pushed, and what is below the stack pointer is gone.
 */
#ifndef _UNWIND_ORACLE_H
#define _UNWIND_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/user.h>

#include "perf_ring.h"

/* A function to be stepped through, and its argument. */
struct oracle_func {
	const char	*name;
	void		(*func)(void);
	long		arg;
};

/*
 * Where a stack begins: a function that calls another one, on the stack below @sp. Behind
 * @begin is the call, at @end the caller is not known any more.
 */
struct oracle_base {
	void		(*enter)(void (*func)(void), long arg, void *sp);
	const char	*begin, *end;
};

#define ORACLE_BASE(name)							\
	extern const char oracle_##name##_begin[], oracle_##name##_end[];	\
	void oracle_##name(void (*func)(void), long arg, void *sp);		\
	static const struct oracle_base oracle_base_##name = {			\
		oracle_##name, oracle_##name##_begin, oracle_##name##_end	\
	}

/* Its frame pointer is 0, and no table knows it. */
ORACLE_BASE(bare);

/*
 * oracle_code.c: a table for each set of compiler flags; it ends with a NULL name. They
 * have frame pointers, those of the second line have rows instead, the last one both.
 */
extern const struct oracle_func oracle_table_O0[], oracle_table_O2[], oracle_table_Os[];
extern const struct oracle_func oracle_table_cet[], oracle_table_asm[];
extern const struct oracle_func oracle_table_rowO0[], oracle_table_rowO2[];
extern const struct oracle_func oracle_table_rowOs[], oracle_table_rowcet[];
extern const struct oracle_func oracle_table_rowfp[], oracle_table_rowasm[];

/* Where signal handlers can return to, in a file with tables. */
void oracle_row_restorer(void);

/* The code of a file, as it is mapped. */
#define ORACLE_SEEN	1
#define ORACLE_WRONG	2
#define ORACLE_SIGNALED	4
struct oracle_image {
	char			name[64];
	unsigned long		bias, start, end;
	/* What happened at each byte of the code. */
	unsigned char		*marks;
	const unsigned char	*file;
	size_t			size;
};

#define ORACLE_IMAGES	4
#define ORACLE_DEPTH	128

struct oracle {
	pid_t			child;
	const struct oracle_base *base;
	struct ring		ring;
	union record		*record;
	struct oracle_image	image[ORACLE_IMAGES];
	unsigned int		images;
	struct user_regs_struct	regs;
	/* Return addresses on the stack, outermost first. */
	struct {
		unsigned long	slot, ra;
	} frame[ORACLE_DEPTH];
	unsigned int		nr;
	/* Where a signal interrupted it: what is below is on another stack, perhaps. */
	struct user_regs_struct	interrupted;
	unsigned int		floor;
	/* Deliver one at each instruction. */
	int			signal;
	/* It is to be wrong. */
	bool			quiet;
	unsigned int		steps, wrong, shown;
};

/* For FIXTURE_SETUP(): why there can be no oracle, or none of tables, or NULL. */
const char *oracle_missing(void);
const char *oracle_missing_sframe(void);

#define ORACLE_SYSCTL	"kernel/unwind_user_sframe"

/* The path of a file beside this program, until the next call. */
const char *oracle_beside(const char *name);

/*
 * All of these return false when something else went wrong than a walk, and say what.
 * A process that calls functions one by one; or a program, at its first instruction.
 */
bool oracle_fork(struct oracle *oracle, const struct oracle_base *base,
		 const struct oracle_func *table);
bool oracle_exec(struct oracle *oracle, const char *path, const char *arg);
void oracle_end(struct oracle *oracle);

/*
 * Walks are judged in the code of this file, which a process has mapped; elsewhere it is
 * only stepped through. The name is the last part of its path.
 */
bool oracle_judge(struct oracle *oracle, pid_t pid, const char *name);

/* Step through the next function, or to the end of the program; and through all of them. */
bool oracle_run(struct oracle *oracle, const char *name);
bool oracle_run_table(struct oracle *oracle, const struct oracle_func *table);

/* Say how it went. */
void oracle_report(const struct oracle *oracle);

/* oracle_image.c */
bool oracle_image_open(struct oracle_image *image, pid_t pid, const char *name);
/* The function that an address is in, else the section, or NULL. */
const char *oracle_image_symbol(const struct oracle_image *image, unsigned long addr,
				unsigned long *offset);
/* Where the nth function of a PLT is. */
unsigned long oracle_image_plt(const struct oracle_image *image, unsigned long nr);
/* The version of its SFrame section, or 0. */
int oracle_image_sframe(const struct oracle_image *image);
/* Positions with a mark, in a function or, if that is NULL, all. */
unsigned int oracle_image_count(const struct oracle_image *image, const char *function,
				unsigned char mark);

#endif /* _UNWIND_ORACLE_H */
