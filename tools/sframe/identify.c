// SPDX-License-Identifier: GPL-2.0
/*
 * Identify an ELF file as the kernel does: by its build-id, and by whether it has a section of its
 * own.
 */
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "session.h"

/* Limit of notes in all segments: real files have some hundred bytes. */
#define NOTES_MAX	(1 << 16)

/* Number of FDEs for start code and PLTs. */
#define START_FUNCTIONS	3

static bool is_build_id(const GElf_Nhdr *note, const char *name)
{
	return note->n_type == NT_GNU_BUILD_ID && note->n_namesz == sizeof(ELF_NOTE_GNU) &&
	       !memcmp(name, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) &&
	       note->n_descsz >= BUILD_ID_MIN;
}

/* Search @size bytes of notes, which lie within the file, as the kernel does. */
static void find_in_notes(const struct image *image, u64 offset, size_t size,
			  struct build_id *id, bool *is_long)
{
	Elf_Data *data = elf_getdata_rawchunk(image->elf, offset, size, ELF_T_NHDR);
	size_t at = 0, name, desc;
	GElf_Nhdr note;

	while (data && !id->size && (at = gelf_getnote(data, at, &note, &name, &desc))) {
		if (!is_build_id(&note, (const char *)data->d_buf + name))
			continue;
		/* The kernel goes on to the next note. */
		if (note.n_descsz > sizeof(id->bytes)) {
			*is_long = true;
			continue;
		}
		id->size = note.n_descsz;
		memcpy(id->bytes, (const char *)data->d_buf + desc, id->size);
	}
}

/*
 * Use program headers like the kernel, to find the same build-id. Sets @is_long if there is one
 * that is longer than the kernel recognizes, such as the SHA256 of mold.
 */
static void find_build_id(const struct image *image, struct build_id *id, bool *is_long)
{
	u64 left = NOTES_MAX;
	GElf_Phdr phdr;
	size_t nr;

	if (elf_getphdrnum(image->elf, &nr))
		return;
	for (size_t i = 0; i < nr && !id->size; i++) {
		u64 size;

		if (!gelf_getphdr(image->elf, i, &phdr) || phdr.p_type != PT_NOTE ||
		    phdr.p_offset >= image->size)
			continue;
		size = phdr.p_filesz < left ? phdr.p_filesz : left;
		if (size > image->size - phdr.p_offset)
			size = image->size - phdr.p_offset;
		find_in_notes(image, phdr.p_offset, size, id, is_long);
		left -= size;
	}
}

/*
 * Warn if the file's own section covers few of its functions, because the kernel takes no other
 * section then. Start code and PLTs do not count: the section's assembler did not see them.
 */
static void find_gaps(const struct image *image, u32 own, char *message)
{
	u32 all = image_eh_functions(image);

	if (all / 2 > own && all - own > START_FUNCTIONS)
		snprintf(message, SFRAME_MESSAGE,
			 "has a section of its own, for %u of %u functions", own, all);
}

/**
 * file_build_id - get the build-id of a file
 * @fd:		the file
 * @id:		set; size 0 if it has none that the kernel recognizes
 * @has_sframe:	set if it has a section of its own that the kernel can use
 * @message:	set to why the file cannot be converted or cannot get a section, or what its own
 *		section lacks, or ""; SFRAME_MESSAGE bytes
 *
 * Return: 0, or a negative errno.
 */
int file_build_id(int fd, struct build_id *id, bool *has_sframe, char *message)
{
	struct image image;
	bool is_long = false;
	u32 own;
	int ret;

	*id = (struct build_id) {};
	*has_sframe = false;
	message[0] = '\0';
	ret = image_open_fd(&image, fd, message);
	if (ret)
		return ret;
	find_build_id(&image, id, &is_long);
	*has_sframe = table_can_be(&image, &own);
	if (*has_sframe)
		find_gaps(&image, own, message);
	else if (!id->size && is_long)
		snprintf(message, SFRAME_MESSAGE, "has a build-id that is too long");
	image_close(&image);
	return 0;
}
