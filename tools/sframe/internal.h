/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Declarations shared in this directory, from the file that is read to the section that is
 * written.
 */
#ifndef _SFRAME_INTERNAL_H
#define _SFRAME_INTERNAL_H

#include <elfutils/libdw.h>
#include <gelf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "format.h"
#include "sframe.h"

/* DWARF register numbers. */
#define REG_FP		6
#define REG_SP		7
#define REG_RA		16
#define REG_NR		16

/* Bases of rules other than registers. */
#define BASE_CFA	0x20
#define BASE_SAME	0x40
#define BASE_LOAD	0x80

/* image.c: the file */

/* The kernel uses no more executable segments. */
#define IMAGE_SEGMENTS	8

/* The kernel reads no more program headers. */
#define IMAGE_PHDRS	256

/* Limit of section names: real programs have some hundred bytes. */
#define IMAGE_NAMES	(16 << 20)

/* Limit of the size of a file, which can be read in a few seconds. */
#define FILE_SIZE_MAX	(4ULL << 30)

/**
 * struct image - an x86-64 ELF file
 * @elf:	libelf handle
 * @ident:	first bytes of the file
 * @size:	size of the file
 * @text:	its executable segments
 * @nr_text:	entries in @text
 * @eh_frame:	contents of .eh_frame
 * @eh_addr:	address of .eh_frame
 * @message:	buffer for an error message, SFRAME_MESSAGE bytes
 */
struct image {
	Elf		*elf;
	const u8	*ident;
	u64		size;
	struct range {
		u64		start;
		u64		end;
	}		text[IMAGE_SEGMENTS];
	unsigned int	nr_text;
	Elf_Data	*eh_frame;
	u64		eh_addr;
	char		*message;
};

int image_no_memory(struct image *image);
int image_error(struct image *image, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int image_open_fd(struct image *image, int fd, char *message);
int image_open_memory(struct image *image, const void *bytes, size_t size, char *message);
int image_check_sections(struct image *image);
int image_open_cfi(struct image *image);
void image_close(struct image *image);
void image_limit_memory(u64 held);
const struct range *image_text(const struct image *image, u64 addr);
Elf_Scn *image_section(const struct image *image, const char *name, GElf_Shdr *shdr);
u32 image_eh_functions(const struct image *image);
int image_sframe(const struct image *image, u64 *addr, u64 *offset, u64 *size);

/* frames.c: reading .eh_frame */

/**
 * struct cfi_function - code described by an FDE of .eh_frame
 * @start:	its first address
 * @end:	first address after it
 * @order:	index of the FDE in .eh_frame
 * @insns:	bytes of instructions
 */
struct cfi_function {
	u64		start;
	u64		end;
	u32		order;
	u32		insns;
};

struct cfi_list {
	struct cfi_function	*functions;
	size_t			nr;
};

int cfi_list(struct image *image, struct cfi_list *list);
void cfi_list_free(struct cfi_list *list);

/* Limit of work per file. The largest programs have a tenth of it. */
#define CFI_WORK_MAX	(1ULL << 34)

/**
 * struct cfi_cursor - iterator over the rows of libdw
 * @cfi:	libdw handle
 * @frame:	libdw's frame of the row, NULL if there is none
 * @start:	first address of the row
 * @end:	first address after the row, in the same function
 * @signal:	it is a signal frame
 * @no_match:	libdw's error for an address that it finds in no function
 * @work:	work so far, up to CFI_WORK_MAX: bytes of instructions that libdw processed, or
 *		BAD_WORK for a row that was rejected
 */
struct cfi_cursor {
	Dwarf_CFI	*cfi;
	Dwarf_Frame	*frame;
	u64		start;
	u64		end;
	bool		signal;
	int		no_match;
	u64		work;
};

int cfi_open(struct image *image, const struct cfi_list *list, struct cfi_cursor *cursor);
void cfi_close(struct cfi_cursor *cursor);
int cfi_row(struct image *image, struct cfi_cursor *cursor, const struct cfi_function *function,
	    u64 addr);

/* rules.c: converting rules of .eh_frame to SFrame */

/**
 * struct rule - location of a value
 * @base:	a register, or BASE_*; with BASE_LOAD the value is in memory there
 * @off:	offset from the base
 */
struct rule {
	u8		base;
	s32		off;
};

/**
 * struct row - how to find the caller's frame from some code
 * @start:	first address of the code, relative to the start of the function
 * @outermost:	there is no caller; ignore the other fields
 * @cfa:	the CFA
 * @ra:		the return address
 * @fp:		the caller's frame pointer
 */
struct row {
	u32		start;
	bool		outermost;
	struct rule	cfa;
	struct rule	ra;
	struct rule	fp;
};

int row_from_cursor(const struct cfi_cursor *cursor, unsigned int version, struct row *row);
bool row_is_flex(const struct row *row);
bool row_equal(const struct row *a, const struct row *b);

/* table.c: functions that were read or are to be written */

/**
 * struct function - an FDE and its rows
 * @start:	address of its code
 * @end:	first address after its code
 * @first:	index of its first row in the table
 * @nr:		number of its rows
 * @block:	rows apply to each block of this size; 0 if they apply to the function
 * @signal:	it is a signal frame
 * @flex:	it has a flexible row
 */
struct function {
	u64		start;
	u64		end;
	size_t		first;
	u32		nr;
	u8		block;
	bool		signal;
	bool		flex;
};

/**
 * struct table - functions, their rows and lost code
 * @functions:	functions, in order of addresses after table_sort()
 * @nr:		number of @functions
 * @space:	allocated entries of @functions
 * @rows:	rows of the functions, in the order in which they were added
 * @nr_rows:	number of @rows
 * @rows_space:	allocated entries of @rows
 * @lost:	code that .eh_frame describes but SFrame cannot
 * @nr_lost:	number of @lost
 * @lost_space:	allocated entries of @lost
 */
struct table {
	struct function	*functions;
	size_t		nr;
	size_t		space;
	struct row	*rows;
	size_t		nr_rows;
	size_t		rows_space;
	struct lost {
		u64		start;
		u64		end;
		enum sframe_loss	loss;
	}		*lost;
	size_t		nr_lost;
	size_t		lost_space;
};

struct function *table_function(struct table *table, u64 start, u64 end);
int table_row(struct table *table, struct function *function, const struct row *row);
void table_sort(struct table *table);
size_t table_search(const struct table *table, size_t nr, u64 addr);
void table_free(struct table *table);
int table_lose(struct table *table, u64 start, u64 end, enum sframe_loss loss);
u64 table_said(const struct table *table, u64 start, u64 end);
struct section;
int table_read(struct image *image, const struct section *from, struct table *table,
	       unsigned int *version);
bool table_can_be(struct image *image, u32 *functions);
const struct row *table_at(const struct table *table, u64 addr, u64 *end,
			   const struct function **function);

/* convert.c, plt.c, encode.c: from .eh_frame to bytes */

int plt_add(struct image *image, struct table *table, struct sframe_stats *stats);
int encode(struct image *image, const struct table *table,
	   const struct sframe_options *options, struct sframe_output *out);
int convert_image(struct image *image, const struct sframe_options *options,
		  struct sframe_output *out);

/* decode.c: reading sections */

/**
 * struct section - the section to read, or a part of it with its own header
 * @bytes:	the whole section
 * @size:	size of @bytes
 * @addr:	address of @bytes
 * @at:		offset of the header
 * @next:	offset of the next header, 0 if there is none
 * @version:	version of the format
 * @flags:	SFRAME_F_*
 * @ra_off:	fixed offset of the return address
 * @nr_fdes:	number of FDEs
 * @nr_rows:	number of rows according to the header
 * @fdes:	offset of the FDEs
 * @rows:	offset of the rows
 * @rows_end:	end of the rows
 */
struct section {
	const u8	*bytes;
	size_t		size;
	u64		addr;
	size_t		at;
	size_t		next;
	u8		version;
	u8		flags;
	s8		ra_off;
	u32		nr_fdes;
	u32		nr_rows;
	size_t		fdes;
	size_t		rows;
	size_t		rows_end;
};

/**
 * struct fde - an FDE of a section
 * @start:	address of its code
 * @size:	size of its code
 * @rows:	offset of its rows in the section
 * @nr:		number of its rows
 * @info:	info byte of the section
 * @type:	type byte of the section
 * @block:	block size of the section; 0 if rows apply to the function
 */
struct fde {
	u64		start;
	u32		size;
	size_t		rows;
	u32		nr;
	u8		info;
	u8		type;
	u8		block;
};

const char *section_open(struct section *section, size_t at);
const char *section_fde(const struct section *section, u32 index, struct fde *fde);
const char *section_row(const struct section *section, const struct fde *fde, size_t *at,
			struct row *row, bool *padded);
const char *section_next_row(const struct section *section, const struct fde *fde, u64 *from,
			     size_t *at, struct row *row);
bool section_has_size(const u8 *header, size_t size);
bool section_is_whole(const u8 *bytes, size_t size);

/* check.c, dump.c, install.c: the verbs */

int dump_section(const struct section *from, const char *name);
int check_section(struct image *image, const struct section *from, const char *name,
		  bool partial);

/* evaluate.c: evaluating rules */

/**
 * struct machine - made-up registers and memory
 * @reg:	registers, with the address of the code in REG_RA
 * @seed:	determines the contents of memory
 */
struct machine {
	u64		reg[REG_NR + 1];
	u64		seed;
};

/**
 * struct caller - state of the caller
 * @outermost:	there is no caller
 * @cfa:	its stack pointer
 * @ra:		its code address
 * @fp:		its frame pointer
 */
struct caller {
	bool		outermost;
	u64		cfa;
	u64		ra;
	u64		fp;
};

void machine_init(struct machine *machine, u64 seed, u64 addr);
bool machine_run_cfi(const struct machine *machine, Dwarf_Frame *frame, struct caller *caller);
void machine_run_row(const struct machine *machine, const struct row *row,
		     struct caller *caller);
bool cfi_needs_addr(Dwarf_Frame *frame);
int install_image(struct image *image, const u8 *file, size_t size,
		  unsigned int version, struct sframe_output *out);

/* write.c: writing files */

/**
 * struct new_file - a file to write
 * @bytes:	its contents
 * @size:	size of @bytes
 * @mode:	its mode, if no file has its name
 * @former:	the open file that it was made of, if it is to replace that; or -1
 * @read:	status of @former when it was read
 */
struct new_file {
	const u8	*bytes;
	size_t		size;
	mode_t		mode;
	int		former;
	struct stat	read;
};

const char *write_file(const char *name, const struct new_file *file);

/* main.c, run.c: the command line */

void help(void);
int fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
int fail_option(int status, const char *known, const char *arg);
int run_main(int argc, char **argv);

#endif /* _SFRAME_INTERNAL_H */
