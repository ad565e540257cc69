// SPDX-License-Identifier: GPL-2.0
/*
 * Files with one wrong number: in ELF headers, program headers, section headers, and in
 * each part of SFrame sections of all versions. The resulting state of each file is
 * known, and so is the trace: it ends where the remaining tables end.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sframe_walk.h"
#include "harness.h"

/* The damaged part. The last three belong to a function. */
enum part { EHDR, PHDR, SHDR, HEAD, FDE, ATTR, ROWS };

/* State, frames and bad functions of files with all frames or one. */
#define FINE		"ok", ALL_FRAMES, 0
#define NO_ELF		"no-elf", 1, 0
#define NO_SECTION	"no-section", 1, 0
#define DAMAGED		"damaged", 1, 0
#define UNSUPPORTED	"unsupported", 1, 0

/**
 * struct damage - one wrong number
 * @part:	the part that has it
 * @index:	index of the part
 * @at:		offset in the part
 * @size:	size in bytes
 * @value:	the wrong value
 * @state:	resulting state of the file
 * @frames:	remaining frames of a chain
 * @bad:	number of rejected functions
 */
struct damage {
	enum part	part;
	int		index;
	size_t		at;
	size_t		size;
	__u64		value;
	const char	*state;
	unsigned int	frames;
	unsigned int	bad;
};

#define WRONG(part, index, type, field, value, ...)					\
	{ part, index, offsetof(type, field), sizeof(((type *)0)->field), value, __VA_ARGS__ }

#define WRONG_EHDR(...)		WRONG(EHDR, 0, Elf64_Ehdr, __VA_ARGS__)
#define WRONG_PHDR(which, ...)	WRONG(PHDR, IMAGE_PH_##which, Elf64_Phdr, __VA_ARGS__)
#define WRONG_SHDR(which, ...)	WRONG(SHDR, IMAGE_SH_##which, Elf64_Shdr, __VA_ARGS__)
#define WRONG_HEAD(...)		WRONG(HEAD, 0, struct sframe_head, __VA_ARGS__)
#define WRONG_FDE2(which, ...)	WRONG(FDE, CHAIN_FN_##which, struct sframe_fde2, __VA_ARGS__)
#define WRONG_FDE3(which, ...)	WRONG(FDE, CHAIN_FN_##which, struct sframe_fde3, __VA_ARGS__)
#define WRONG_ATTR(which, ...)	WRONG(ATTR, CHAIN_FN_##which, struct sframe_attr3, __VA_ARGS__)
#define WRONG_ROWS(which, at, size, ...)	\
	{ ROWS, CHAIN_FN_##which, at, size, __VA_ARGS__ }

/* The function is rejected, and the trace ends there. */
#define NO_STUBS	"ok", CHAIN_STUB + 1, 1
#define NO_LEAF		"ok", CHAIN_LEAF + 1, 1
#define NO_INNER	"ok", CHAIN_INNER + 1, 1
/* The function is accepted, but its rows lead to no caller. */
#define LOST_INNER	"ok", CHAIN_INNER + 1, 0

static const struct damage headers[] = {
	WRONG_EHDR(e_ident[EI_MAG0], 0, NO_ELF),
	WRONG_EHDR(e_ident[EI_MAG3], 'f', NO_ELF),
	WRONG_EHDR(e_ident[EI_CLASS], ELFCLASS32, NO_ELF),
	WRONG_EHDR(e_ident[EI_CLASS], 0, NO_ELF),
	WRONG_EHDR(e_ident[EI_DATA], ELFDATA2MSB, NO_ELF),
	WRONG_EHDR(e_type, ET_NONE, NO_ELF),
	WRONG_EHDR(e_type, ET_REL, NO_ELF),
	WRONG_EHDR(e_type, ET_CORE, NO_ELF),
	WRONG_EHDR(e_type, 0xffff, NO_ELF),
	WRONG_EHDR(e_machine, EM_386, NO_ELF),
	WRONG_EHDR(e_machine, EM_AARCH64, NO_ELF),
	WRONG_EHDR(e_phentsize, 0, NO_ELF),
	WRONG_EHDR(e_phentsize, sizeof(Elf32_Phdr), NO_ELF),
	WRONG_EHDR(e_phentsize, sizeof(Elf64_Phdr) + 1, NO_ELF),
	WRONG_EHDR(e_phentsize, 0xffff, NO_ELF),
	WRONG_EHDR(e_phnum, 0, NO_SECTION),
	/* The program headers end beyond the end of the file. */
	WRONG_EHDR(e_phnum, 0xffff, NO_ELF),
	WRONG_EHDR(e_phoff, 1 << 20, NO_ELF),
	WRONG_EHDR(e_phoff, INT64_MAX, NO_ELF),
	WRONG_EHDR(e_phoff, INT64_MIN, NO_ELF),
	WRONG_EHDR(e_phoff, UINT64_MAX, NO_ELF),
	WRONG_EHDR(e_phoff, -sizeof(Elf64_Phdr), NO_ELF),
	WRONG_EHDR(e_phoff, -8 * sizeof(Elf64_Phdr), NO_ELF),
	/* The kernel does not use these. */
	WRONG_EHDR(e_version, 0, FINE),
	WRONG_EHDR(e_ehsize, 0, FINE),
	WRONG_EHDR(e_shoff, UINT64_MAX, FINE),
	WRONG_EHDR(e_shnum, 0xffff, FINE),

	WRONG_PHDR(TEXT, p_type, PT_NULL, NO_SECTION),
	WRONG_PHDR(TEXT, p_flags, PF_R | PF_W, NO_SECTION),
	WRONG_PHDR(TEXT, p_flags, PF_R | PF_W | PF_X, FINE),
	WRONG_PHDR(TEXT, p_filesz, 0, NO_SECTION),
	WRONG_PHDR(TEXT, p_filesz, INT64_MAX, NO_SECTION),
	WRONG_PHDR(TEXT, p_filesz, UINT64_MAX, NO_SECTION),
	WRONG_PHDR(TEXT, p_filesz, 1, "no-section", 1, 0),
	/* Only the first page of the code; more than the file has. */
	WRONG_PHDR(TEXT, p_filesz, SFRAME_PAGE, "ok", CHAIN_LEAF + 1, 3),
	WRONG_PHDR(TEXT, p_filesz, 1ULL << 40, FINE),
	WRONG_PHDR(TEXT, p_memsz, 0, FINE),
	/* Not congruent to the address; elsewhere; invalid. */
	WRONG_PHDR(TEXT, p_offset, SFRAME_PAGE + 1, NO_SECTION),
	WRONG_PHDR(TEXT, p_vaddr, SFRAME_PAGE + 8, NO_SECTION),
	WRONG_PHDR(TEXT, p_vaddr, SFRAME_PAGE << 20, NO_SECTION),
	WRONG_PHDR(TEXT, p_vaddr, INT64_MIN, NO_SECTION),
	WRONG_PHDR(TEXT, p_vaddr, -SFRAME_PAGE, NO_SECTION),
	WRONG_PHDR(TEXT, p_offset, -SFRAME_PAGE, NO_SECTION),
	/* The code is not mapped from this offset. */
	WRONG_PHDR(TEXT, p_offset, SFRAME_PAGE << 20, "ok", 1, 0),

	WRONG_PHDR(DATA, p_type, PT_NULL, FINE),
	WRONG_PHDR(DATA, p_flags, PF_R | PF_W, FINE),
	WRONG_PHDR(SFRAME, p_type, PT_NULL, NO_SECTION),
	WRONG_PHDR(SFRAME, p_flags, PF_R | PF_W, FINE),
	WRONG_PHDR(SFRAME, p_filesz, 0, NO_SECTION),
	WRONG_PHDR(SFRAME, p_filesz, 1, DAMAGED),
	WRONG_PHDR(SFRAME, p_filesz, sizeof(struct sframe_head) - 1, DAMAGED),
	WRONG_PHDR(SFRAME, p_filesz, sizeof(struct sframe_head), DAMAGED),
	/* The section ends at the end of the file. */
	WRONG_PHDR(SFRAME, p_filesz, 1 << 20, FINE),
	WRONG_PHDR(SFRAME, p_filesz, INT64_MAX, FINE),
	WRONG_PHDR(SFRAME, p_filesz, UINT64_MAX, FINE),
	WRONG_PHDR(SFRAME, p_memsz, 0, FINE),
	WRONG_PHDR(SFRAME, p_offset, 0, DAMAGED),
	WRONG_PHDR(SFRAME, p_offset, 1 << 20, NO_SECTION),
	WRONG_PHDR(SFRAME, p_offset, INT64_MAX, NO_SECTION),
	WRONG_PHDR(SFRAME, p_offset, UINT64_MAX, NO_SECTION),
	/* No function is in the code then. */
	WRONG_PHDR(SFRAME, p_vaddr, 0x40000000, NO_SECTION),
	WRONG_PHDR(SFRAME, p_vaddr, INT64_MIN, NO_SECTION),
	WRONG_PHDR(SFRAME, p_vaddr, UINT64_MAX, NO_SECTION),
	/* Of two sections, the first one counts. */
	WRONG_PHDR(STACK, p_type, PT_GNU_SFRAME, FINE),
};

/* The section is found only by a section header, with name or type. */
static const struct damage sections[] = {
	WRONG_EHDR(e_shentsize, 0, NO_SECTION),
	WRONG_EHDR(e_shentsize, sizeof(Elf64_Shdr) - 1, NO_SECTION),
	WRONG_EHDR(e_shnum, 0, NO_SECTION),
	WRONG_EHDR(e_shnum, IMAGE_SH_SFRAME, NO_SECTION),
	WRONG_EHDR(e_shstrndx, IMAGE_SHDRS, NO_SECTION),
	WRONG_EHDR(e_shstrndx, 0xffff, NO_SECTION),
	WRONG_EHDR(e_shoff, 1 << 20, NO_SECTION),
	WRONG_EHDR(e_shoff, INT64_MAX, NO_SECTION),
	WRONG_EHDR(e_shoff, UINT64_MAX, NO_SECTION),
	/* The header of the names would then be at the start of the file. */
	WRONG_EHDR(e_shoff, -IMAGE_SH_NAMES * sizeof(Elf64_Shdr), NO_SECTION),
	WRONG_SHDR(SFRAME, sh_flags, 0, NO_SECTION),
	WRONG_SHDR(SFRAME, sh_flags, SHF_ALLOC | SHF_WRITE, NO_SECTION),
	WRONG_SHDR(SFRAME, sh_flags, SHF_ALLOC | SHF_EXECINSTR, NO_SECTION),
	WRONG_SHDR(SFRAME, sh_type, SHT_NOBITS, NO_SECTION),
	WRONG_SHDR(SFRAME, sh_size, 0, NO_SECTION),
	WRONG_SHDR(SFRAME, sh_size, 1, DAMAGED),
	WRONG_SHDR(SFRAME, sh_size, UINT64_MAX, FINE),
	WRONG_SHDR(SFRAME, sh_offset, 1 << 20, NO_SECTION),
	WRONG_SHDR(SFRAME, sh_offset, UINT64_MAX, NO_SECTION),
	WRONG_SHDR(SFRAME, sh_offset, 0, DAMAGED),
	WRONG_SHDR(SFRAME, sh_addr, UINT64_MAX, NO_SECTION),
	WRONG_SHDR(TEXT, sh_type, SHT_GNU_SFRAME_, FINE),
};

static const struct damage names[] = {
	WRONG_SHDR(SFRAME, sh_name, 0, NO_SECTION),
	WRONG_SHDR(SFRAME, sh_name, 8, NO_SECTION),
	WRONG_SHDR(SFRAME, sh_name, 15, NO_SECTION),
	WRONG_SHDR(SFRAME, sh_name, 0xffffffff, NO_SECTION),
	WRONG_SHDR(NAMES, sh_offset, 0, NO_SECTION),
	WRONG_SHDR(NAMES, sh_offset, 1 << 20, NO_SECTION),
	WRONG_SHDR(NAMES, sh_offset, INT64_MAX, NO_SECTION),
	WRONG_SHDR(NAMES, sh_offset, -7, NO_SECTION),
	WRONG_SHDR(NAMES, sh_size, 0, FINE),
};

static const struct damage heads[] = {
	WRONG_HEAD(magic, 0, DAMAGED),
	WRONG_HEAD(magic, 0xe2de, DAMAGED),
	WRONG_HEAD(version, 0, UNSUPPORTED),
	WRONG_HEAD(version, 4, UNSUPPORTED),
	WRONG_HEAD(version, 0xff, UNSUPPORTED),
	WRONG_HEAD(flags, SFRAME_F_SORTED | 0x08, UNSUPPORTED),
	WRONG_HEAD(flags, SFRAME_F_SORTED | 0x80, UNSUPPORTED),
	/* ARM, and the other byte order. */
	WRONG_HEAD(abi, 0, UNSUPPORTED),
	WRONG_HEAD(abi, 1, UNSUPPORTED),
	WRONG_HEAD(abi, 2, UNSUPPORTED),
	WRONG_HEAD(abi, 4, UNSUPPORTED),
	WRONG_HEAD(fixed_fp, 0xf0, UNSUPPORTED),
	WRONG_HEAD(fixed_ra, 0, UNSUPPORTED),
	WRONG_HEAD(fixed_ra, 8, UNSUPPORTED),
	/* The section has no auxiliary header, so all other parts move beyond its end. */
	WRONG_HEAD(aux_len, 1, DAMAGED),
	WRONG_HEAD(aux_len, 0xff, DAMAGED),
	WRONG_HEAD(nr_functions, 0, NO_SECTION),
	WRONG_HEAD(nr_functions, 7, DAMAGED),
	WRONG_HEAD(nr_functions, 0x7fffffff, DAMAGED),
	WRONG_HEAD(nr_functions, 0xffffffff, DAMAGED),
	/* Times the size of an FDE, modulo 2^32: 1, 4 or 0. */
	WRONG_HEAD(nr_functions, 0xf0f0f0f1, DAMAGED),
	WRONG_HEAD(nr_functions, 0x33333334, DAMAGED),
	WRONG_HEAD(nr_functions, 0x10000000, DAMAGED),
	/* Only the stubs remain. */
	WRONG_HEAD(nr_functions, 1, "ok", CHAIN_LEAF + 1, 0),
	WRONG_HEAD(nr_rows, 0, FINE),
	WRONG_HEAD(nr_rows, 0xffffffff, FINE),
	WRONG_HEAD(rows_size, 0, NO_SECTION),
	WRONG_HEAD(rows_size, 0x7fffffff, DAMAGED),
	WRONG_HEAD(rows_size, 0xffffffff, DAMAGED),
	WRONG_HEAD(functions, 1, DAMAGED),
	WRONG_HEAD(functions, 0x7fffffff, DAMAGED),
	WRONG_HEAD(functions, 0xffffffff, DAMAGED),
	WRONG_HEAD(rows, 0, DAMAGED),
	WRONG_HEAD(rows, 0x7fffffff, DAMAGED),
	WRONG_HEAD(rows, 0xffffffff, DAMAGED),
};

/* Flags that only one version rejects. */
static const struct damage heads1[] = {
	WRONG_HEAD(flags, SFRAME_F_SORTED | SFRAME_F_PCREL, UNSUPPORTED),
	WRONG_HEAD(flags, SFRAME_F_SORTED | SFRAME_F_FP, FINE),
};

static const struct damage heads3[] = {
	WRONG_HEAD(flags, SFRAME_F_SORTED | SFRAME_F_PCREL | SFRAME_F_FP, UNSUPPORTED),
	/* The kernel checks whether the functions are sorted. */
	WRONG_HEAD(flags, SFRAME_F_PCREL, FINE),
};

/* Versions 1 and 2. */
static const struct damage functions12[] = {
	WRONG_FDE2(INNER, start, 0x7fffffff, NO_INNER),
	WRONG_FDE2(INNER, start, 0x80000000, NO_INNER),
	WRONG_FDE2(INNER, start, 0, NO_INNER),
	WRONG_FDE2(INNER, size, 0, NO_INNER),
	WRONG_FDE2(INNER, size, 0x7fffffff, NO_INNER),
	WRONG_FDE2(INNER, size, 0xffffffff, NO_INNER),
	/* The function does not have all of its rows; it ends before the call. */
	WRONG_FDE2(INNER, size, 1, NO_INNER),
	WRONG_FDE2(INNER, rows, 0x7fffffff, NO_INNER),
	WRONG_FDE2(INNER, rows, 0xffffffff, NO_INNER),
	WRONG_FDE2(INNER, nr_rows, 0xffff, NO_INNER),
	WRONG_FDE2(INNER, nr_rows, 0x7fffffff, NO_INNER),
	WRONG_FDE2(INNER, nr_rows, 0xffffffff, NO_INNER),
	/* No rows: no caller. */
	WRONG_FDE2(INNER, nr_rows, 0, LOST_INNER),
	WRONG_FDE2(INNER, info, 3, NO_INNER),
	WRONG_FDE2(INNER, info, 15, NO_INNER),
	WRONG_FDE2(INNER, info, 0x20, NO_INNER),
	WRONG_FDE2(INNER, info, 0x40, NO_INNER),
	WRONG_FDE2(INNER, info, 0x80, NO_INNER),
	/* Too many rows for a block. */
	WRONG_FDE2(STUBS, nr_rows, 17, NO_STUBS),
};

static const struct damage functions2[] = {
	WRONG_FDE2(STUBS, block, 0, NO_STUBS),
	/* No room for the rows of a block. */
	WRONG_FDE2(STUBS, block, 2, NO_STUBS),
	WRONG_FDE2(INNER, block, 16, FINE),
	WRONG_FDE2(INNER, pad, 1, NO_INNER),
	WRONG_FDE2(INNER, pad, 0x8000, NO_INNER),
};

static const struct damage functions3[] = {
	WRONG_FDE3(INNER, start, 0, NO_INNER),
	WRONG_FDE3(INNER, start, INT64_MAX, NO_INNER),
	WRONG_FDE3(INNER, start, INT64_MIN, NO_INNER),
	WRONG_FDE3(INNER, size, 0, NO_INNER),
	WRONG_FDE3(INNER, size, 1, NO_INNER),
	WRONG_FDE3(INNER, size, 0x7fffffff, NO_INNER),
	WRONG_FDE3(INNER, size, 0xffffffff, NO_INNER),
	WRONG_FDE3(INNER, rows, 0x7fffffff, NO_INNER),
	WRONG_FDE3(INNER, rows, 0xffffffff, NO_INNER),
	WRONG_ATTR(INNER, nr_rows, 0xffff, NO_INNER),
	WRONG_ATTR(INNER, nr_rows, 0, LOST_INNER),
	WRONG_ATTR(INNER, info, 3, NO_INNER),
	WRONG_ATTR(INNER, info, 15, NO_INNER),
	WRONG_ATTR(INNER, info, 0x20, NO_INNER),
	WRONG_ATTR(INNER, info, 0x40, NO_INNER),
	/* No rows of that kind, no such kind, reserved bits. */
	WRONG_ATTR(INNER, info2, 1, NO_INNER),
	WRONG_ATTR(INNER, info2, 2, NO_INNER),
	WRONG_ATTR(INNER, info2, 0x1f, NO_INNER),
	WRONG_ATTR(INNER, info2, 0x20, NO_INNER),
	WRONG_ATTR(INNER, info2, 0x80, NO_INNER),
	WRONG_ATTR(STUBS, block, 0, NO_STUBS),
	WRONG_ATTR(STUBS, block, 2, NO_STUBS),
	WRONG_ATTR(STUBS, nr_rows, 17, NO_STUBS),
	WRONG_ATTR(INNER, block, 16, FINE),
};

/*
 * Rows of the function inner: three bytes each for the first two (address, info, CFA),
 * one more for the third, then the row that counts, whose two words have two bytes
 * each.
 */
static const struct damage rows[] = {
	/* The address of an earlier row, of a later row, outside of the function. */
	WRONG_ROWS(INNER, 0, 1, 2, NO_INNER),
	WRONG_ROWS(INNER, 3, 1, 0, NO_INNER),
	WRONG_ROWS(INNER, 3, 1, 0xff, NO_INNER),
	/* The rows do not cover all of it, but the part that is used. */
	WRONG_ROWS(INNER, 0, 1, 1, FINE),
	/* Words of no size; a mangled return address; too many words; too few. */
	WRONG_ROWS(INNER, 1, 1, 0x63, NO_INNER),
	WRONG_ROWS(INNER, 1, 1, 0x83, NO_INNER),
	WRONG_ROWS(INNER, 1, 1, 0x1f, NO_INNER),
	WRONG_ROWS(INNER, 1, 1, 0x07, NO_INNER),
	WRONG_ROWS(INNER, 1, 1, 0x01, NO_INNER),
	WRONG_ROWS(INNER, 1, 1, 0x80, NO_INNER),
	/* The CFA: at the frame's start, below it, not aligned, no return address there. */
	WRONG_ROWS(INNER, 12, 2, 0, LOST_INNER),
	WRONG_ROWS(INNER, 12, 2, 0xfff8, LOST_INNER),
	WRONG_ROWS(INNER, 12, 2, 0x8000, LOST_INNER),
	WRONG_ROWS(INNER, 12, 2, 9, LOST_INNER),
	WRONG_ROWS(INNER, 12, 2, 8, LOST_INNER),
	WRONG_ROWS(INNER, 12, 2, 0x2000, LOST_INNER),
	/* The frame pointer: without it the next frame is the last. */
	WRONG_ROWS(INNER, 14, 2, 8, "ok", CHAIN_MIDDLE + 1, 0),
	WRONG_ROWS(INNER, 14, 2, 0x8000, "ok", CHAIN_MIDDLE + 1, 0),
	WRONG_ROWS(INNER, 14, 2, 1, "ok", CHAIN_MIDDLE + 1, 0),
};

static void *part_of(struct image *image, const struct damage *damage)
{
	unsigned int function = chain_index(image->sframe, damage->index);

	switch (damage->part) {
	case EHDR:
		return image->ehdr;
	case PHDR:
		return &image->phdrs[damage->index];
	case SHDR:
		return &image->shdrs[damage->index];
	case HEAD:
		return image->sframe;
	case FDE:
		return sframe_fde(image->sframe, function);
	case ATTR:
		return sframe_attr(image->sframe, function);
	default:
		return sframe_rows(image->sframe, function);
	}
}

FIXTURE(damage) {
	struct walker walker;
	char dir[32];
};

FIXTURE_VARIANT(damage) {
	const struct damage *damages;
	unsigned int nr;
	struct image_spec spec;
};

#define DAMAGES(name)	.damages = name, .nr = ARRAY_SIZE(name)

FIXTURE_VARIANT_ADD(damage, headers) { DAMAGES(headers) };

FIXTURE_VARIANT_ADD(damage, sections_with_type) {
	DAMAGES(sections), .spec = { .how = BY_TYPE },
};

FIXTURE_VARIANT_ADD(damage, sections_with_name) {
	DAMAGES(sections), .spec = { .how = BY_NAME },
};

FIXTURE_VARIANT_ADD(damage, names) { DAMAGES(names), .spec = { .how = BY_NAME } };
FIXTURE_VARIANT_ADD(damage, head_1) { DAMAGES(heads), .spec = { .version = 1 } };
FIXTURE_VARIANT_ADD(damage, head_2) { DAMAGES(heads), .spec = { .version = 2 } };
FIXTURE_VARIANT_ADD(damage, head_3) { DAMAGES(heads), .spec = { .version = 3 } };
FIXTURE_VARIANT_ADD(damage, flags_1) { DAMAGES(heads1), .spec = { .version = 1 } };
FIXTURE_VARIANT_ADD(damage, flags_3) { DAMAGES(heads3), .spec = { .version = 3 } };
FIXTURE_VARIANT_ADD(damage, functions_1) { DAMAGES(functions12), .spec = { .version = 1 } };
FIXTURE_VARIANT_ADD(damage, functions_2) { DAMAGES(functions12), .spec = { .version = 2 } };
FIXTURE_VARIANT_ADD(damage, more_functions_2) { DAMAGES(functions2), .spec = { .version = 2 } };
FIXTURE_VARIANT_ADD(damage, functions_3) { DAMAGES(functions3), .spec = { .version = 3 } };
FIXTURE_VARIANT_ADD(damage, rows_1) { DAMAGES(rows), .spec = { .version = 1 } };
FIXTURE_VARIANT_ADD(damage, rows_2) { DAMAGES(rows), .spec = { .version = 2 } };
FIXTURE_VARIANT_ADD(damage, rows_3) { DAMAGES(rows), .spec = { .version = 3 } };

FIXTURE_SETUP(damage)
{
	SETUP_WALKER();
}

FIXTURE_TEARDOWN(damage)
{
	private_unmount(self->dir);
	walker_exit(&self->walker);
}

TEST_F(damage, one_number)
{
	struct image_spec spec = variant->spec;

	spec.code = &chain_a;
	for (unsigned int i = 0; i < variant->nr; i++) {
		const struct damage *damage = &variant->damages[i];
		struct object object;
		struct mapped file;
		struct trace right;

		image_init(&file.image, &spec);
		memcpy(part_of(&file.image, damage) + damage->at, &damage->value, damage->size);
		ASSERT_TRUE(mapped_write(&file, "%s/%u", self->dir, i));
		right = trace_of_mapped(&file, damage->frames);
		ASSERT_TRUE(walk_mapped(&self->walker, &file));
		EXPECT_EQ(1, object_find(file.path, &object));
		if (!trace_is(&self->walker, &right) || strcmp(damage->state, object.state) ||
		    damage->bad != object.bad) {
			EXPECT_TRUE(false)
				TH_LOG("%u: part %d index %d at %zu %#llx: %s, %u bad", i,
				       damage->part, damage->index, damage->at, damage->value,
				       object.state, object.bad);
		}
		mapped_exit(&file);
	}
}

TEST_HARNESS_MAIN
