/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The files of sframe/: what functions they have, and which of them call each other.
 */
#ifndef _UNWIND_SFRAME_SAMPLE_H
#define _UNWIND_SFRAME_SAMPLE_H

#include <elf.h>
#include <linux/types.h>
#include <stdbool.h>

/**
 * struct sframe_sample - a file
 * @path:	its path, beside this program
 * @bytes:	all of it
 * @symbols:	its symbols
 * @nr_symbols:	how many
 * @names:	of these
 * @plt:	address of the PLT
 * @nr_plt:	its entries, the first of which is none
 * @plt_relocs:	what the others jump to
 * @dynamic:	the symbols of that
 * @dynamic_names: the names of these
 */
struct sframe_sample {
	char			path[4096];
	const __u8		*bytes;
	const Elf64_Sym		*symbols;
	unsigned int		nr_symbols;
	const char		*names;
	__u64			plt;
	unsigned int		nr_plt;
	const Elf64_Rela	*plt_relocs;
	const Elf64_Sym		*dynamic;
	const char		*dynamic_names;
};

/* False if it is not there. */
bool sample_open(struct sframe_sample *sample, const char *name);

/* The function at an address; that which is called there, where it is in the PLT. */
const char *sample_function(const struct sframe_sample *sample, __u64 addr);

/* Behind the system call of the function leaf_syscall. */
__u64 sample_leaf(const struct sframe_sample *sample);

/* The entry of the PLT for a function, or the one in front of all; or 0. */
__u64 sample_plt(const struct sframe_sample *sample, const char *name);

/*
 * Does each function of a trace call the one before, up to @last? Each can be no other's
 * caller than that of the one that it called. Returns how many frames there are, or 0.
 */
unsigned int sample_chain(const struct sframe_sample *sample, const __u64 *ips, unsigned int nr,
			  __u64 bias, const char *last);

/* How many frames of a trace are that function's. */
unsigned int sample_count(const struct sframe_sample *sample, const __u64 *ips, unsigned int nr,
			  __u64 bias, const char *name);

#endif /* _UNWIND_SFRAME_SAMPLE_H */
