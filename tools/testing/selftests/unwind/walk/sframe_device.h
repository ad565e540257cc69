/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Add SFrame sections through /dev/unwind_sframe, for two files that have none.
 */
#ifndef _UNWIND_SFRAME_DEVICE_H
#define _UNWIND_SFRAME_DEVICE_H

#include <errno.h>
#include <linux/unwind_sframe.h>
#include <unistd.h>

#include "sframe_walk.h"

#define DEVICE		"/dev/unwind_sframe"

/* Frames of a trace if the code has no table. */
#define WITHOUT_TABLE	1

#define ID_A		"build-id of file a"
#define ID_B		"build-id of file b"

extern const struct image_spec bare_a, bare_b;

/* A file with only the section. The kernel lists the section by this file name. */
int section_file(const struct image *image, const char *path);
struct unwind_sframe_section section_of(const struct image *image, int fd, const char *id);

/* Open the device. */
int device(void);

/* 0, or a positive errno. The file of a path is not kept open. */
int add_section(int fd, const struct unwind_sframe_section *section);
int add_path(int fd, const struct image *image, const char *id, const char *path);
int add(int fd, const struct image *image, const char *id);

/* A fixture: the device, and files a and b without a table. */
#define SIDE_FIXTURE {								\
	struct walker walker;							\
	char dir[32];								\
	struct mapped a, b;							\
	int fd;									\
}

#define SIDE_SETUP {								\
	self->fd = device();							\
	if (self->fd < 0 && errno == ENOENT)					\
		SKIP(return, "needs " DEVICE " of CONFIG_UNWIND_USER_SFRAME");	\
	ASSERT_LE(0, self->fd);							\
	SETUP_WALKER();								\
	ASSERT_TRUE(mapped_init(&self->a, &bare_a, "%s/a", self->dir));		\
	ASSERT_TRUE(mapped_init(&self->b, &bare_b, "%s/b", self->dir));		\
	EXPECT_FRAMES(&self->a, WITHOUT_TABLE);					\
	EXPECT_STATE(self->a.path, "no-section");				\
}

#define SIDE_TEARDOWN {								\
	close(self->fd);							\
	private_unmount(self->dir);						\
	walker_exit(&self->walker);						\
}

#endif /* _UNWIND_SFRAME_DEVICE_H */
