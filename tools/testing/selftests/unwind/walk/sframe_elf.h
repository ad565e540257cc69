/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ELF files with SFrame sections of any version, and code for them that only tables
 * can walk.
 *
 * Files are built in memory, so a test can change any byte before it writes one.
 */
#ifndef _UNWIND_SFRAME_ELF_H
#define _UNWIND_SFRAME_ELF_H

#include <elf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#define SFRAME_PAGE		4096UL

#ifndef PT_GNU_SFRAME
#define PT_GNU_SFRAME		(PT_LOOS + 0x474e554)
#endif
#define SHT_GNU_SFRAME_		0x6ffffff4

/* The header of a section, and the functions of each version. */
struct sframe_head {
	__u16	magic;
	__u8	version;
	__u8	flags;
	__u8	abi;
	__s8	fixed_fp;
	__s8	fixed_ra;
	__u8	aux_len;
	__u32	nr_functions;
	__u32	nr_rows;
	__u32	rows_size;
	__u32	functions;
	__u32	rows;
} __attribute__((packed));

#define SFRAME_F_SORTED		1
#define SFRAME_F_FP		2
#define SFRAME_F_PCREL		4
/* Of a specification: none of these flags; SORTED, but the functions are in reverse. */
#define SFRAME_F_NONE		0x100
#define SFRAME_F_NOT_SORTED	0x200

/* Versions 1 and 2. Version 1 lacks the last two fields. */
struct sframe_fde2 {
	__s32	start;
	__u32	size;
	__u32	rows;
	__u32	nr_rows;
	__u8	info;
	__u8	block;
	__u16	pad;
} __attribute__((packed));

struct sframe_fde3 {
	__s64	start;
	__u32	size;
	__u32	rows;
} __attribute__((packed));

/* Precedes the rows in version 3. */
struct sframe_attr3 {
	__u16	nr_rows;
	__u8	info;
	__u8	info2;
	__u8	block;
} __attribute__((packed));

/* The base of a CFA. */
enum { CFA_FP, CFA_SP, CFA_OUTERMOST };

/**
 * struct sframe_row - the rule from an address on
 * @at:		the address, relative to the start of the function
 * @base:	base of the CFA
 * @cfa:	offset of the CFA from its base, in bytes
 * @fp:		offset of the caller's frame pointer from the CFA, or 0
 */
struct sframe_row {
	__u32	at;
	__u32	base;
	__s32	cfa;
	__s32	fp;
};

/**
 * struct sframe_function - a function
 * @start:	first address, relative to the start of the code
 * @size:	bytes of code
 * @block:	rows apply to each block of this many bytes, or 0
 * @nr:		number of rows
 * @rows:	the first row
 */
struct sframe_function {
	__u32			start;
	__u32			size;
	__u32			block;
	__u32			nr;
	const struct sframe_row	*rows;
};

/**
 * struct sframe_spec - a section
 * @version:	1, 2 or 3
 * @flags:	SFRAME_F_*; without SORTED functions are in reverse, and relative to
 *		themselves
 * @functions:	functions
 * @nr:		number of functions
 * @start:	address of the code
 * @addr:	address of the section
 */
struct sframe_spec {
	unsigned int			version;
	unsigned int			flags;
	const struct sframe_function	*functions;
	unsigned int			nr;
	__u64				start;
	__u64				addr;
};

/* The flags that linkers write. They say what the starts of functions are relative to. */
#define SFRAME_FLAGS(version)	\
	(SFRAME_F_SORTED | ((version) == 3 ? SFRAME_F_PCREL : 0))

/* An upper bound of the section's size. */
size_t sframe_room(const struct sframe_spec *spec);

/* Write a section and return its size. */
size_t sframe_write(void *to, const struct sframe_spec *spec);

/* Parts of a section by the function's index: FDE, attributes, rows. */
void *sframe_fde(void *section, unsigned int index);
struct sframe_attr3 *sframe_attr(void *section, unsigned int index);
__u8 *sframe_rows(void *section, unsigned int index);

/* Make an FDE invalid. */
void sframe_spoil(void *section, unsigned int index);

/* Keep a section valid after it moves @by bytes towards the end of the file. */
void sframe_shift(void *section, __s64 by);

/* The argument of a chain: a system call, or a function to call instead. */
struct chain_args {
	long		nr;
	long		arg[6];
	const void	*call;
	const void	*call_arg;
	const void	*call_arg2;
};

/* The address of each function of a chain in a trace. */
enum {
	CHAIN_STUB,
	CHAIN_LEAF,
	CHAIN_INNER,
	CHAIN_MIDDLE,
	CHAIN_TOP,
	CHAIN_FRAMES,
};

/* The functions of a chain in the order of their addresses, as in a section. */
enum {
	CHAIN_FN_STUBS,
	CHAIN_FN_TOP,
	CHAIN_FN_ENTRY,
	CHAIN_FN_MIDDLE,
	CHAIN_FN_INNER,
	CHAIN_FN_LEAF,
	CHAIN_FUNCTIONS,
};

/* The index of a function in a section. */
unsigned int chain_index(const void *section, int function);

/**
 * struct chain_code - code of a chain, see sframe_code.S
 * @start:	its first byte
 * @end:	the byte after it
 * @rows:	its rows
 * @rows_end:	end of the rows
 * @stub:	offset of the stub that is called
 * @top:	offset of the function to call
 * @entry:	where a program starts
 * @frames:	addresses in a trace, CHAIN_*, as offsets
 * @after_top:	return address of a program's call of top
 * @after_call:	replaces CHAIN_STUB and CHAIN_LEAF if another function was called
 */
struct chain_code {
	const __u8			*start;
	const __u8			*end;
	const struct chain_row		*rows;
	const struct chain_row		*rows_end;
	__u32				stub;
	__u32				top;
	__u32				entry;
	__u32				frames[CHAIN_FRAMES];
	__u32				after_top;
	__u32				after_call;
};

/* A row and its function, as in sframe_code.S. */
struct chain_row {
	__u32			start;
	__u32			size;
	__u32			block;
	struct sframe_row	row;
};

extern const struct chain_code chain_a, chain_b;
extern const char chain_outermost[];

/* The test tracer's file descriptor in a program. */
#define CHAIN_TRACER_FD		100

/* Call a chain on a stack that ends at @stack; returns the system call's result. */
long chain_call(void *stack, const void *top, const struct chain_args *args);

/* How a file locates its section. */
enum image_how { BY_HEADER, BY_NAME, BY_TYPE, BY_NOTHING };

/**
 * struct image_spec - a chain; or NULL for @size bytes that @functions describe
 * @code:	a chain; or NULL for @size bytes of which @functions tell
 * @size:	if there is no chain
 * @functions:	likewise
 * @nr:		number of @functions
 * @version:	of the section, 0 for 3
 * @flags:	of the section, 0 for those that linkers write
 * @how:	how the section can be found
 * @bias:	difference of addresses and file offsets
 * @text:	offset of the code, 0 for the first page after the headers
 * @room:	bytes to leave after the section
 * @program:	it has a fixed address and can be executed
 * @build_id:	a string to use as build-id, or NULL for none
 */
struct image_spec {
	const struct chain_code		*code;
	size_t				size;
	const struct sframe_function	*functions;
	unsigned int			nr;
	unsigned int			version;
	unsigned int			flags;
	enum image_how			how;
	__u64				bias;
	size_t				text;
	size_t				room;
	bool				program;
	const char			*build_id;
};

/* Program headers and section headers. */
enum {
	IMAGE_PH_TEXT,
	IMAGE_PH_DATA,
	IMAGE_PH_SFRAME,
	IMAGE_PH_STACK,
	IMAGE_PH_NOTE,
	IMAGE_PHDRS,
};

enum { IMAGE_SH_NULL, IMAGE_SH_TEXT, IMAGE_SH_SFRAME, IMAGE_SH_NAMES, IMAGE_SHDRS };

/**
 * struct image - the whole file
 * @bytes:	its size
 * @size:	of that
 * @ehdr:	the header
 * @phdrs:	IMAGE_PHDRS program headers
 * @shdrs:	IMAGE_SHDRS section headers
 * @text:	offset of the code
 * @text_size:	its size, in whole pages
 * @sframe:	the section
 * @sframe_size: its size
 * @functions:	number of its functions
 * @code:	the chain, or NULL
 */
struct image {
	__u8			*bytes;
	size_t			size;
	Elf64_Ehdr		*ehdr;
	Elf64_Phdr		*phdrs;
	Elf64_Shdr		*shdrs;
	size_t			text;
	size_t			text_size;
	struct sframe_head	*sframe;
	size_t			sframe_size;
	unsigned int		functions;
	const struct chain_code	*code;
};

/* Build a file from a specification. Aborts if memory is short; cannot fail otherwise. */
void image_init(struct image *image, const struct image_spec *spec);
void image_free(struct image *image);

/* The offset of @at in the file. */
size_t image_offset(const struct image *image, const void *at);

/* Set the section's size in all headers. */
void image_resize(struct image *image, size_t size);

/*
 * Build a whole file in one page. Its code is the page itself: one function covers all
 * addresses, with only the return address on its stack.
 */
void image_page(void *page);

/* Write the image to a new file; returns a descriptor for reading and writing, or -1. */
int image_write(const struct image *image, const char *path);
/* Write the image to an open file. */
int image_write_fd(const struct image *image, int fd);

/* Map the code of a file; NULL on failure. */
void *image_map(const struct image *image, int fd);

#endif /* _UNWIND_SFRAME_ELF_H */
