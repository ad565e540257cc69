/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ELF files with SFrame sections of any version, and code for them that only tables
 * can walk.
 *
 * Files are made in memory, so that a test can change any byte before it writes one.
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

/* The start of a section, and functions as the versions have them. */
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
/* For a specification that wants none of these. */
#define SFRAME_F_NONE		0x100

/* The first two; without the last two fields in version 1. */
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

/* In front of the rows of version 3. */
struct sframe_attr3 {
	__u16	nr_rows;
	__u8	info;
	__u8	info2;
	__u8	block;
} __attribute__((packed));

/* What a CFA is computed from. */
enum { CFA_FP, CFA_SP, CFA_OUTERMOST };

/**
 * struct sframe_row - what there is to say from an address on
 * @at:		the address, from the start of the function
 * @base:	of the CFA
 * @cfa:	from that to the CFA, in bytes
 * @fp:		from the CFA to where the caller's frame pointer is, or 0
 */
struct sframe_row {
	__u32	at;
	__u32	base;
	__s32	cfa;
	__s32	fp;
};

/**
 * struct sframe_function - a function
 * @start:	first address, from the start of the code
 * @size:	bytes of code
 * @block:	rows are for the addresses in each block of so many bytes, or 0
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

/* Where the starts of functions are relative to what, as linkers write it. */
#define SFRAME_FLAGS(version)	\
	(SFRAME_F_SORTED | ((version) == 3 ? SFRAME_F_PCREL : 0))

/* Room for the section, at most. */
size_t sframe_room(const struct sframe_spec *spec);

/* Write a section; its size. */
size_t sframe_write(void *to, const struct sframe_spec *spec);

/* Parts of a section, by the index of the function: FDE, attributes, rows. */
void *sframe_fde(void *section, unsigned int index);
struct sframe_attr3 *sframe_attr(void *section, unsigned int index);
__u8 *sframe_rows(void *section, unsigned int index);

/* Let an FDE make no sense. */
void sframe_spoil(void *section, unsigned int index);

/* What it says is still right when it is so many bytes further back in the file. */
void sframe_shift(void *section, __s64 by);

/* The argument of a chain: a system call, or what to call instead. */
struct chain_args {
	long		nr;
	long		arg[6];
	const void	*call;
	const void	*call_arg;
	const void	*call_arg2;
};

/* Addresses that are in a trace, of each function of a chain. */
enum {
	CHAIN_STUB,
	CHAIN_LEAF,
	CHAIN_INNER,
	CHAIN_MIDDLE,
	CHAIN_TOP,
	CHAIN_FRAMES,
};

/* Functions of a chain in the order of their addresses, which is that of a section. */
enum {
	CHAIN_FN_STUBS,
	CHAIN_FN_TOP,
	CHAIN_FN_ENTRY,
	CHAIN_FN_MIDDLE,
	CHAIN_FN_INNER,
	CHAIN_FN_LEAF,
	CHAIN_FUNCTIONS,
};

/* As an index. */
unsigned int chain_index(const void *section, int function);

/**
 * struct chain_code - code of a chain, see sframe_code.S
 * @start:	its first byte
 * @end:	the byte behind it
 * @rows:	what there is to say of it
 * @rows_end:	the end of that
 * @stub:	offset of the stub that is called
 * @top:	offset of the function to call
 * @entry:	where a program starts
 * @frames:	what is in a trace, CHAIN_*, as offsets
 * @after_top:	behind the call of a program
 * @after_call:	in place of CHAIN_STUB and CHAIN_LEAF, where something else was called
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

/* A row and its function, as sframe_code.S has them. */
struct chain_row {
	__u32			start;
	__u32			size;
	__u32			block;
	struct sframe_row	row;
};

extern const struct chain_code chain_a, chain_b;
extern const char chain_outermost[];

/* Where a program finds the test tracer. */
#define CHAIN_TRACER_FD		100

/* Call a chain on a stack that ends at @stack; what the system call returned. */
long chain_call(void *stack, const void *top, const struct chain_args *args);

/* How a file says where its section is. */
enum image_how { BY_HEADER, BY_NAME, BY_TYPE, BY_NOTHING };

/**
 * struct image_spec - a file
 * @code:	a chain; or NULL for @size bytes of which @functions tell
 * @size:	bytes of code, if there is no chain
 * @functions:	likewise
 * @nr:		number of @functions
 * @version:	of the section, 0 for 3
 * @flags:	of the section, 0 for what linkers write
 * @how:	how the section can be found
 * @bias:	from offsets in the file to addresses
 * @text:	offset of the code, 0 for the first page behind the headers
 * @room:	bytes to leave behind the section
 * @program:	it has one address, and is for execve()
 * @build_id:	a string that is the build-id; none if it is NULL
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
 * struct image - a file in memory: headers, code, section, section headers
 * @bytes:	all of it
 * @size:	of that
 * @ehdr:	the header
 * @phdrs:	IMAGE_PHDRS program headers
 * @shdrs:	IMAGE_SHDRS section headers
 * @text:	offset of the code
 * @text_size:	its size, in whole pages
 * @sframe:	the section
 * @sframe_size: its size
 * @functions:	how many it has
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

/* Make a file of a specification; nothing fails but for lack of memory, which aborts. */
void image_init(struct image *image, const struct image_spec *spec);
void image_free(struct image *image);

/* Offsets in the file. */
size_t image_offset(const struct image *image, const void *at);

/* Of which all headers say that the section has it. */
void image_resize(struct image *image, size_t size);

/*
 * All of a file in one page: code that is nothing but its headers, of which each address
 * is in a function that has nothing on its stack but the return address.
 */
void image_page(void *page);

/* Write it to a new file; a descriptor for reading and writing, or -1. */
int image_write(const struct image *image, const char *path);
/* Write it to what is there. */
int image_write_fd(const struct image *image, int fd);

/* Map the code of a file; NULL on failure. */
void *image_map(const struct image *image, int fd);

#endif /* _UNWIND_SFRAME_ELF_H */
