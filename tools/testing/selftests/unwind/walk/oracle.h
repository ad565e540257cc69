/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Single-step a process, take an unwind at each instruction, and compare it with a shadow
 * stack.
 *
 * Each step is its own kernel entry, in which a signal is generated. An event on that
 * requests a deferred trace. The shadow stack is the reference: each call adds the return
 * address that it pushed, and entries below the stack pointer are removed.
 */
#ifndef _UNWIND_ORACLE_H
#define _UNWIND_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/user.h>

#include "perf_ring.h"

/* A function to step through, and its argument. */
struct oracle_func {
	const char	*name;
	void		(*func)(void);
	long		arg;
};

/*
 * The outermost function, which calls another one on the stack below @sp. @begin is the
 * address of the call, @end its return address, where the run is over.
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

/* The frame pointer of this base is 0, and no table covers it. */
ORACLE_BASE(bare);

/*
 * oracle_code.c: a table for each set of compiler flags, which ends with a NULL name.
 * The functions have frame pointers; those of row* have rows instead, and rowfp has
 * both.
 */
extern const struct oracle_func oracle_table_O0[], oracle_table_O2[], oracle_table_Os[];
extern const struct oracle_func oracle_table_cet[], oracle_table_asm[];
extern const struct oracle_func oracle_table_rowO0[], oracle_table_rowO2[];
extern const struct oracle_func oracle_table_rowOs[], oracle_table_rowcet[];
extern const struct oracle_func oracle_table_rowfp[], oracle_table_rowasm[];

/* A restorer for signal handlers, in a file with tables. */
void oracle_row_restorer(void);

/* The code of a mapped file. */
#define ORACLE_SEEN	1
#define ORACLE_WRONG	2
#define ORACLE_SIGNALED	4
struct oracle_image {
	char			name[64];
	unsigned long		bias, start, end;
	/* ORACLE_* flags of each byte of the code. */
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
	/* State at the signal. Frames below @floor may be on another stack. */
	struct user_regs_struct	interrupted;
	unsigned int		floor;
	/* Deliver this signal at each instruction. */
	int			signal;
	/* Do not print wrong walks: they are expected. */
	bool			quiet;
	unsigned int		steps, wrong, shown;
};

/* For FIXTURE_SETUP(): why an oracle, or one with tables, is not possible, or NULL. */
const char *oracle_missing(void);
const char *oracle_missing_sframe(void);

#define ORACLE_SYSCTL	"kernel/unwind_user_sframe"

/* The path of a file beside this program, valid until the next call. */
const char *oracle_beside(const char *name);

/*
 * All of these return false on any failure other than a wrong walk, and print it.
 * Start a process that calls functions one by one; or a program, up to its first
 * instruction.
 */
bool oracle_fork(struct oracle *oracle, const struct oracle_base *base,
		 const struct oracle_func *table);
bool oracle_exec(struct oracle *oracle, const char *path, const char *arg);
void oracle_end(struct oracle *oracle);

/*
 * Judge walks in the code of this file, which a process has mapped. Other code is only
 * stepped through. The name is the last part of the file's path, or [vdso].
 */
bool oracle_judge(struct oracle *oracle, pid_t pid, const char *name);

/* Step through the next function, or to the end of the program; or through a whole table. */
bool oracle_run(struct oracle *oracle, const char *name);
bool oracle_run_table(struct oracle *oracle, const struct oracle_func *table);

/* Print the results. */
void oracle_report(const struct oracle *oracle);

/* oracle_image.c */
bool oracle_image_open(struct oracle_image *image, pid_t pid, const char *name);
/* The function at an address, else the section, or NULL. */
const char *oracle_image_symbol(const struct oracle_image *image, unsigned long addr,
				unsigned long *offset);
/* The address of the nth function of a PLT. */
unsigned long oracle_image_plt(const struct oracle_image *image, unsigned long nr);
/* The version of the file's SFrame section, or 0. */
int oracle_image_sframe(const struct oracle_image *image);
/* The number of positions with a mark, in a function, or in all if @function is NULL. */
unsigned int oracle_image_count(const struct oracle_image *image, const char *function,
				unsigned char mark);

#endif /* _UNWIND_ORACLE_H */
