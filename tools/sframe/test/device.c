// SPDX-License-Identifier: GPL-2.0
/*
 * A stand-in for device.c, for tests of sessions on kernels that take no sections: what is
 * handed in is a line of a file, which SFRAME_DEVICE names. With SFRAME_REMOTE, all files are
 * where a server has to be asked for them.
 *
 * Everything but the kernel's answer is as it is with the device.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format.h"
#include "session.h"

int device_look(void)
{
	return getenv("SFRAME_DEVICE") ? 0 : -ENOENT;
}

int device_open(void)
{
	const char *device = getenv("SFRAME_DEVICE");

	if (!device)
		errno = ENOENT;
	return !device ? -1 : open(device, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

bool device_is_for_all(void)
{
	return getenv("SFRAME_FOR_ALL");
}

bool device_needs_copy(int fd __attribute__((unused)))
{
	const char *remote = getenv("SFRAME_REMOTE");

	return remote && *remote;
}

static bool is_memory(int fd)
{
	char link[32], name[8] = "";

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return readlink(link, name, sizeof(name) - 1) > 0 && !strcmp(name, "/memfd:");
}

int device_add(int device, const struct build_id *id, int section)
{
	char line[2 * UNWIND_SFRAME_BUILD_ID_MAX + 32], *at = line;
	struct stat st;
	u16 magic = 0;

	if (fstat(section, &st))
		return -errno;
	if (pread(section, &magic, sizeof(magic), 0) != sizeof(magic) || magic != SFRAME_MAGIC)
		return -EINVAL;
	for (u32 i = 0; i < id->size; i++)
		at += sprintf(at, "%02x", id->bytes[i]);
	sprintf(at, " %lld %s\n", (long long)st.st_size, is_memory(section) ? "memory" : "file");
	return dprintf(device, "%s", line) < 0 ? -errno : 0;
}
