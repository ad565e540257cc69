/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The ELF parser, in the same program as the SFrame decoder: its inputs, and the
 * expected results.
 *
 * elf.c checks the contracts of the parser, elf_plain.c is another parser to compare
 * it with, elf_input.c makes images and changes them.
 */
#ifndef _UNWIND_FUZZ_ELF_FUZZ_H
#define _UNWIND_FUZZ_ELF_FUZZ_H

#include <kernel/unwind/elf.h>

#include "elf_sim.h"
#include "sframe_fuzz.h"

#define EHDR_SIZE	64
#define PHDR_SIZE	56
#define SHDR_SIZE	64

/**
 * struct image - an ELF file in memory
 * @bytes:	its contents
 * @size:	its size
 */
struct image {
	u8	*bytes;
	u64	size;
};

/* elf.c */

void elf_check(const struct image *image);
int elf_replay(const struct text *text);
int elf_print(const char *name);
int elf_damage(const char *name);
void elf_print_total(FILE *file);

/* elf_plain.c */

/**
 * struct plain_elf - the contents of an image
 * @elf:	the expected result of the parser
 * @error:	its expected return value
 * @cut:	section headers are cut off: the parser may not have read those before, either
 */
struct plain_elf {
	struct unwind_elf	elf;
	int			error;
	bool			cut;
};

void plain_elf_read(struct plain_elf *plain, const struct image *image);

/* elf_input.c */

/**
 * struct image_field - a field of a header
 * @at:		offset in the image
 * @size:	its size in bytes
 */
struct image_field {
	u64		at;
	unsigned int	size;
};

u64 image_get(const struct image *image, u64 at, unsigned int size);
void image_set(const struct image *image, u64 at, unsigned int size, u64 val);
bool image_field(const struct image *image, unsigned int nr, struct image_field *field);
bool image_value(const struct image *image, const struct image_field *field, unsigned int nr,
		 u64 *val);
void image_mutate(const struct image *image, unsigned int seed);
bool image_parse(struct text *text, const char *line);

#endif /* _UNWIND_FUZZ_ELF_FUZZ_H */
