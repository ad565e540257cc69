/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The ELF parser as a part of the program that has the SFrame decoder: what else is an
 * input there, and what is expected of it.
 *
 * elf.c holds the parser against its contracts, elf_plain.c is another one that it is
 * compared with, elf_input.c makes images and changes them.
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
 * @bytes:	what is in it
 * @size:	bytes of it
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
 * struct plain_elf - what is in an image
 * @elf:	as the parser has it
 * @error:	what it returns
 * @cut:	section headers are cut off: it may not have looked at those before, either
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
 * @size:	bytes of it
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
