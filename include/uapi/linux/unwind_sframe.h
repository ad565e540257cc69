/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * SFrame sections for files that have none: ioctls of /dev/unwind_sframe.
 *
 * See Documentation/core-api/unwind-sframe.rst.
 */
#ifndef _UAPI_LINUX_UNWIND_SFRAME_H
#define _UAPI_LINUX_UNWIND_SFRAME_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define UNWIND_SFRAME_BUILD_ID_MAX	20

/**
 * struct unwind_sframe_section - a section for all files of a build-id
 * @fd:		a regular file that holds the section, open for reading
 * @flags:	must be 0, no flags are defined yet
 * @offset:	offset of the section in @fd, in bytes
 * @size:	size of the section, in bytes
 * @addr:	address that the section would have in the files: addresses in it are relative
 *		to this
 * @build_id_size: bytes of @build_id
 * @build_id:	build-id of the files, which have no section of their own; unused bytes are 0
 */
struct unwind_sframe_section {
	__s32	fd;
	__u32	flags;
	__u64	offset;
	__u64	size;
	__u64	addr;
	__u32	build_id_size;
	__u8	build_id[UNWIND_SFRAME_BUILD_ID_MAX];
};

/* Use a section for as long as the device is open. */
#define UNWIND_SFRAME_ADD	_IOW(0xde, 0, struct unwind_sframe_section)

#endif /* _UAPI_LINUX_UNWIND_SFRAME_H */
