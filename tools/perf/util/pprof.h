/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PPROF_H
#define __PERF_PPROF_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

/*
 * A profile in pprof's format that is being made, see pprof.c. If memory runs out, the functions
 * below return 0, and pprof__write() fails.
 */
struct pprof;

/**
 * struct pprof_mapping - a mapped part of a file
 * @place:	tells apart parts that may have nothing in common but the name, such as code that
 *		two processes have generated: their first addresses; 0 for a file
 * @offset:	where it is in the file, in bytes
 * @start:	its first address
 * @limit:	the first address after it
 * @filename:	name of the file
 * @build_id:	its build-id in hexadecimal, or ""
 */
struct pprof_mapping {
	u64		place;
	u64		offset;
	u64		start;
	u64		limit;
	const char	*filename;
	const char	*build_id;
};

/**
 * struct pprof_label - what a sample says in addition to its stack
 * @key:	name of the label, from pprof__string()
 * @value:	its value, from there as well
 */
struct pprof_label {
	s64	key;
	s64	value;
};

struct pprof *pprof__new(void);
void pprof__delete(struct pprof *pprof);
s64 pprof__string(struct pprof *pprof, const char *text);
size_t pprof__type(struct pprof *pprof, const char *type, const char *unit);
void pprof__set_period(struct pprof *pprof, size_t type, u64 period);
void pprof__set_time(struct pprof *pprof, u64 begin, u64 duration);
void pprof__comment(struct pprof *pprof, const char *text);
u64 pprof__mapping(struct pprof *pprof, const struct pprof_mapping *mapping, u64 *start);
u64 pprof__location(struct pprof *pprof, u64 mapping, u64 addr, bool *is_new);
void pprof__add_line(struct pprof *pprof, u64 location, const char *function, const char *file,
		     u64 line);
void pprof__add_sample(struct pprof *pprof, const u64 *locations, size_t nr,
		       const struct pprof_label *labels, size_t nr_labels, size_t type, u64 value);
void pprof__program_first(struct pprof *pprof, const char *label, size_t max);
int pprof__write(struct pprof *pprof, const char *path);

#endif /* __PERF_PPROF_H */
