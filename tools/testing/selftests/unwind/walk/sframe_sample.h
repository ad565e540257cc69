/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The files of sframe/: their functions, and which of them call each other.
 */
#ifndef _UNWIND_SFRAME_SAMPLE_H
#define _UNWIND_SFRAME_SAMPLE_H

#include <elf.h>
#include <linux/types.h>
#include <stdbool.h>

/**
 * struct sframe_sample - a file
 * @path:	its path, beside this program
 * @bytes:	the whole file
 * @symbols:	its symbols
 * @nr_symbols:	number of symbols
 * @names:	names of the symbols
 * @plt:	address of the PLT
 * @nr_plt:	number of its entries; the first one is not a function's
 * @plt_relocs:	relocations of the other entries
 * @dynamic:	symbols of the relocations
 * @dynamic_names: names of these symbols
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

/* False if the file is missing. */
bool sample_open(struct sframe_sample *sample, const char *name);

/* The function at an address; in the PLT, the function that its entry calls. */
const char *sample_function(const struct sframe_sample *sample, __u64 addr);

/* The address after the system call of leaf_syscall(). */
__u64 sample_leaf(const struct sframe_sample *sample);

/* The PLT entry of a function, or the start of the PLT if @name is NULL; 0 if not found. */
__u64 sample_plt(const struct sframe_sample *sample, const char *name);

/*
 * Does each function of a trace call the one before it, up to @last? The called function
 * is known from the instruction before each return address. Returns the number of
 * frames, or 0.
 */
unsigned int sample_chain(const struct sframe_sample *sample, const __u64 *ips, unsigned int nr,
			  __u64 bias, const char *last);

/* The number of frames of a function in a trace. */
unsigned int sample_count(const struct sframe_sample *sample, const __u64 *ips, unsigned int nr,
			  __u64 bias, const char *name);

#endif /* _UNWIND_SFRAME_SAMPLE_H */
