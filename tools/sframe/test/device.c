// SPDX-License-Identifier: GPL-2.0
/*
 * A stand-in for device.c, for tests of sessions on kernels that take no sections: each section
 * becomes a line of the file that SFRAME_DEVICE names. With SFRAME_REMOTE, all files count as
 * files of a server. The device for one user's tasks is another file, which cannot be opened for
 * want of descriptors while the file that SFRAME_SCARCE names exists; with SFRAME_STOPS, a process
 * that opens it is stopped. While the file that
 * SFRAME_REFUSE names has a build-id, a section for that build-id is refused. While the file that
 * SFRAME_FULL names exists, there is no room for any section, or for that of the build-id in it.
 *
 * Everything but the kernel's answer is the same as with the device.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
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

int device_may_become(const struct user *user __attribute__((unused)))
{
	return 0;
}

static struct user become;

int device_become(const struct user *user)
{
	become = *user;
	return 0;
}

/* Open the file of this name, with the user's ids appended. */
int device_open_for(bool ours __attribute__((unused)))
{
	const char *scarce = getenv("SFRAME_SCARCE");
	char name[4096];
	int device;

	if (getenv("SFRAME_STOPS"))
		raise(SIGSTOP);
	if (scarce && !access(scarce, F_OK)) {
		device = open(scarce, O_WRONLY | O_APPEND | O_CLOEXEC);
		dprintf(device, "none\n");
		close(device);
		return -EMFILE;
	}
	snprintf(name, sizeof(name), "%s.%u.%u", getenv("SFRAME_DEVICE"), become.uid, become.gid);
	device = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	return device < 0 ? -errno : device;
}

/* The answer is the file that SFRAME_INFO names; its lines are those for sections for all. */
FILE *device_info(int device __attribute__((unused)))
{
	const char *info = getenv("SFRAME_INFO");

	return info ? fopen(info, "re") : NULL;
}

bool device_is_off(void)
{
	return getenv("SFRAME_OFF");
}

unsigned int device_max(void)
{
	const char *max = getenv("SFRAME_MAX");

	return max ? strtoul(max, NULL, 10) : 4096;
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

/* Does the file that a variable names have this build-id, or, if @all, exist without one? */
static bool names(const char *variable, const char *id, bool all)
{
	const char *name = getenv(variable);
	FILE *file = name ? fopen(name, "re") : NULL;
	char named[2 * UNWIND_SFRAME_BUILD_ID_MAX + 2];
	bool any;

	if (!file)
		return false;
	any = fgets(named, sizeof(named), file);
	fclose(file);
	return any ? !strcmp(named, id) : all;
}

int device_add(int device, const struct build_id *id, int section,
	       size_t *room __attribute__((unused)))
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
	if (names("SFRAME_REFUSE", line, false))
		return -EINVAL;
	if (names("SFRAME_FULL", line, true))
		return -EDQUOT;
	sprintf(at, " %lld %s\n", (long long)st.st_size, is_memory(section) ? "memory" : "file");
	return dprintf(device, "%s", line) < 0 ? -errno : 0;
}
