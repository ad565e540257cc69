/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is read of an ELF image, see elf.c.
 */
#ifndef _KERNEL_UNWIND_ELF_H
#define _KERNEL_UNWIND_ELF_H

#include <linux/types.h>

#include "sframe.h"

struct file;

/* Executable segments of a file: linkers write one, or a few. */
#define UNWIND_ELF_SEGMENTS	8

/**
 * struct unwind_elf_source - where an image is
 * @file:	the file, or NULL
 * @bytes:	else, the image in memory
 * @size:	of @bytes
 * @charge:	current asked for this itself: pages of @file are charged to its cgroup
 */
struct unwind_elf_source {
	struct file	*file;
	const u8	*bytes;
	u64		size;
	bool		charge;
};

/**
 * struct unwind_elf_segment - an executable segment
 * @offset:	in the file; what is mapped begins with the page it is in
 * @end:	likewise, behind the segment
 * @addr:	the address that the file's headers name for @offset
 */
struct unwind_elf_segment {
	u64	offset;
	u64	end;
	u64	addr;
};

/* What linkers write has 20 bytes, or 16. */
#define UNWIND_BUILD_ID_MAX	20

/**
 * struct unwind_build_id - what a file is known by, wherever it is
 * @size:	bytes of @bytes; 0 if there is none
 * @bytes:	the build-id
 */
struct unwind_build_id {
	u32	size;
	u8	bytes[UNWIND_BUILD_ID_MAX];
};

/**
 * struct unwind_elf - where an image has its code and its SFrame section
 * @segments:	the code
 * @nr_segments: entries in @segments
 * @offset:	of the section, in the file
 * @addr:	of the section
 * @size:	of the section, at most: what follows it may be included
 * @build_id:	its build-id
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
