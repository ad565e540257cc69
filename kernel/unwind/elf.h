/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reading of ELF images, see elf.c.
 */
#ifndef _KERNEL_UNWIND_ELF_H
#define _KERNEL_UNWIND_ELF_H

#include <linux/types.h>

#include "sframe.h"

struct file;

/* Maximum number of executable segments of a file: linkers write one, or a few. */
#define UNWIND_ELF_SEGMENTS	8

/**
 * struct unwind_elf_source - an image in a file or in memory
 * @file:	the file, or NULL
 * @bytes:	the image in memory, if @file is NULL
 * @size:	size of @bytes
 * @charge:	current asked for the read: charge pages of @file to its cgroup
 */
struct unwind_elf_source {
	struct file	*file;
	const u8	*bytes;
	u64		size;
	bool		charge;
};

/**
 * struct unwind_elf_segment - an executable segment
 * @offset:	offset in the file; mappings start at the page that contains it
 * @end:	offset of the first byte after the segment
 * @addr:	address of @offset by the file's headers
 */
struct unwind_elf_segment {
	u64	offset;
	u64	end;
	u64	addr;
};

/* Linkers write 20 or 16 bytes. */
#define UNWIND_BUILD_ID_MAX	20

/**
 * struct unwind_build_id - build-id of a file, which does not depend on its path
 * @size:	bytes of @bytes; 0 if the file has no build-id
 * @bytes:	the build-id
 */
struct unwind_build_id {
	u32	size;
	u8	bytes[UNWIND_BUILD_ID_MAX];
};

/**
 * struct unwind_elf - code and SFrame section of an image
 * @segments:	the executable segments
 * @nr_segments: entries in @segments
 * @offset:	offset of the section in the file
 * @addr:	address of the section
 * @size:	maximum size of the section: data after it may be included
 * @build_id:	build-id of the image
 */
struct unwind_elf {
	struct unwind_elf_segment	segments[UNWIND_ELF_SEGMENTS];
	unsigned int			nr_segments;
	u64				offset;
	u64				addr;
	u64				size;
	struct unwind_build_id		build_id;
};

int unwind_elf_read(const struct unwind_elf_source *source, void *buf, size_t size, u64 pos);
int unwind_elf_open(const struct unwind_elf_source *source, struct unwind_elf *elf);

#endif /* _KERNEL_UNWIND_ELF_H */
