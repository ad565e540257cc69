// SPDX-License-Identifier: GPL-2.0
/*
 * Add SFrame sections through /dev/unwind_sframe, for two files that have none.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "sframe_device.h"

const struct image_spec bare_a = {
	.code = &chain_a, .how = BY_NOTHING, .build_id = ID_A,
};

const struct image_spec bare_b = {
	.code = &chain_b, .how = BY_NOTHING, .build_id = ID_B,
};

int section_file(const struct image *image, const char *path)
{
	int fd = path ? open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) :
			memfd_create("section", MFD_CLOEXEC);

	if (write(fd, image->sframe, image->sframe_size) != (ssize_t)image->sframe_size) {
		close(fd);
		return -1;
	}
	return fd;
}

struct unwind_sframe_section section_of(const struct image *image, int fd, const char *id)
{
	struct unwind_sframe_section section = {
		.fd = fd, .size = image->sframe_size,
		.addr = image_offset(image, image->sframe), .build_id_size = strlen(id),
	};

	memcpy(section.build_id, id, section.build_id_size);
	return section;
}

int device(void)
{
	return open(DEVICE, O_RDWR | O_CLOEXEC);
}

int add_section(int fd, const struct unwind_sframe_section *section)
{
	return ioctl(fd, UNWIND_SFRAME_ADD, section) ? errno : 0;
}

int add_path(int fd, const struct image *image, const char *id, const char *path)
{
	int file = section_file(image, path), error;
	struct unwind_sframe_section section = section_of(image, file, id);

	error = add_section(fd, &section);
	close(file);
	return error;
}

int add(int fd, const struct image *image, const char *id)
{
	return add_path(fd, image, id, NULL);
}
