// SPDX-License-Identifier: GPL-2.0
/*
 * A short and plain reader of ELF headers: it has the whole image, and looks at one
 * header after the other. It shares only the types of the results with the kernel's
 * reader, so each one tests the other.
 */
#include "elf_fuzz.h"

/* Limits of headers, names of sections, and notes to look at. */
#define MAX_PHDRS	256
#define MAX_SHDRS	1024
#define MAX_NAMES	64
#define MAX_NOTES	16

static bool has(const struct image *image, u64 at, u64 size)
{
	return at <= image->size && size <= image->size - at;
}

static bool is_program(const struct image *image)
{
	return has(image, 0, EHDR_SIZE) &&
	       image_get(image, 0, 4) == 0x464c457f && image_get(image, 4, 2) == 0x0102 &&
	       (image_get(image, 16, 2) == 2 || image_get(image, 16, 2) == 3) &&
	       image_get(image, 18, 2) == 62 && image_get(image, 54, 2) == PHDR_SIZE;
}

static void add_segment(struct unwind_elf *elf, u64 offset, u64 addr, u64 size)
{
	unsigned __int128 max = S64_MAX;

	if (!size || (offset ^ addr) % 4096 || (unsigned __int128)offset + size > max ||
	    (unsigned __int128)addr + size > max || elf->nr_segments == UNWIND_ELF_SEGMENTS)
		return;
	elf->segments[elf->nr_segments++] =
		(struct unwind_elf_segment) { offset, offset + size, addr };
}

/* Find the first build-id of a program header. */
static void read_notes(const struct image *image, u64 at, u64 left, unsigned int *nr,
		       struct unwind_build_id *id)
{
	/* No sum overflows: a note has two sizes of 32 bits, and the image is short. */
	while (!id->size && left >= 16 && *nr && has(image, at, 16)) {
		u64 name = image_get(image, at, 4), size = image_get(image, at + 4, 4), all;

		--*nr;
		if (name == 4 && image_get(image, at + 8, 4) == 3 &&
		    image_get(image, at + 12, 4) == 0x554e47 && size && size <= 20) {
			if (!has(image, at + 16, size))
				return;
			id->size = size;
			memcpy(id->bytes, image->bytes + at + 16, size);
		}
		all = 12 + (name + 3) / 4 * 4 + (size + 3) / 4 * 4;
		if (all > left)
			return;
		at += all;
		left -= all;
	}
}

static int read_phdrs(const struct image *image, struct unwind_elf *elf)
{
	u64 at = image_get(image, 32, 8), nr = min(image_get(image, 56, 2), MAX_PHDRS);
	unsigned int notes = MAX_NOTES;

	if (nr && !has(image, at, nr * PHDR_SIZE))
		return -ENOEXEC;
	for (; nr; nr--, at += PHDR_SIZE) {
		u64 type = image_get(image, at, 4), offset = image_get(image, at + 8, 8);
		u64 addr = image_get(image, at + 16, 8), size = image_get(image, at + 32, 8);

		if (type == 1 && image_get(image, at + 4, 4) & 1)
			add_segment(elf, offset, addr, size);
		if (type == 0x6474e554 && !elf->size) {
			elf->offset = offset;
			elf->addr = addr;
			elf->size = size;
		}
		if (type == 4)
			read_notes(image, offset, size, &notes, &elf->build_id);
	}
	return 0;
}

/* Is this the header of an SFrame section? @names is the offset of all names. */
static bool is_sframe(const struct image *image, u64 at, u64 names, unsigned int *left)
{
	u64 type = image_get(image, at + 4, 4), name = names + image_get(image, at, 4);

	/* The section is in memory, and neither code nor writable. */
	if ((image_get(image, at + 8, 8) & 7) != 2)
		return false;
	if (type != 1 || !names || !*left)
		return type == 0x6ffffff4;
	--*left;
	return has(image, name, 8) && !memcmp(image->bytes + name, ".sframe", 8);
}

static void read_shdrs(const struct image *image, struct plain_elf *plain)
{
	u64 at = image_get(image, 40, 8), nr = min(image_get(image, 60, 2), MAX_SHDRS);
	u64 strings = at + image_get(image, 62, 2) * SHDR_SIZE, names;
	struct unwind_elf *elf = &plain->elf;
	unsigned int left = MAX_NAMES;

	if (image_get(image, 58, 2) != SHDR_SIZE ||
	    image_get(image, 62, 2) >= image_get(image, 60, 2) ||
	    !has(image, strings, SHDR_SIZE))
		return;
	plain->cut = !has(image, at, nr * SHDR_SIZE);
	names = image_get(image, strings + 24, 8);
	for (; nr && !elf->size && has(image, at, SHDR_SIZE); nr--, at += SHDR_SIZE) {
		if (!is_sframe(image, at, names, &left))
			continue;
		elf->addr = image_get(image, at + 16, 8);
		elf->offset = image_get(image, at + 24, 8);
		elf->size = image_get(image, at + 32, 8);
	}
}

void plain_elf_read(struct plain_elf *plain, const struct image *image)
{
	struct unwind_elf *elf = &plain->elf;

	*plain = (struct plain_elf) {};
	plain->error = is_program(image) ? read_phdrs(image, elf) : -ENOEXEC;
	if (plain->error)
		return;
	if (elf->nr_segments && !elf->size)
		read_shdrs(image, plain);
	if (!elf->nr_segments || !elf->size)
		plain->error = -ENODATA;
}
