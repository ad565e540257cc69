// SPDX-License-Identifier: GPL-2.0
/*
 * Register sections with the kernel through /dev/unwind_sframe.
 *
 * A task that is unwound reads the file of a section. If that file is on a server, which may be
 * such a task itself, the kernel gets a copy in memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "session.h"

#ifndef DEVICE
#define DEVICE	"/dev/unwind_sframe"
#endif

/* File systems missing in the system's headers: some are not part of Linux. */
#define BEEGFS_MAGIC	0x19830326
#define GFS2_MAGIC	0x01161970
#define GPFS_MAGIC	0x47504653
#define LUSTRE_MAGIC	0x0bd00bd0
#define ORANGEFS_MAGIC	0x20030528
#define PANFS_MAGIC	0xaad7aaea
#define VBOXSF_MAGIC	0x786f4256

/**
 * device_look - does the device exist?
 *
 * Return: 0, or a negative errno.
 */
int device_look(void)
{
	return access(DEVICE, F_OK) ? -errno : 0;
}

/**
 * device_open - open the device
 *
 * Return: the device; -1 with errno on failure.
 */
int device_open(void)
{
	return open(DEVICE, O_RDWR | O_CLOEXEC);
}

/* Read a setting of the kernel; @value if that fails. */
static unsigned int kernel_setting(const char *path, unsigned int value)
{
	FILE *file = fopen(path, "re");
	unsigned int read;

	if (!file)
		return value;
	if (fscanf(file, "%u", &read) == 1)
		value = read;
	fclose(file);
	return value;
}

/**
 * device_is_off - is the use of sections turned off in the kernel?
 */
bool device_is_off(void)
{
	return !kernel_setting("/proc/sys/kernel/unwind_user_sframe", 1);
}

/**
 * device_max - how many sections may a user without privileges have?
 */
unsigned int device_max(void)
{
	return kernel_setting("/proc/sys/kernel/unwind_user_sframe_max", UINT_MAX);
}

/* Does this process use a capability? True if unknown. */
static bool has_cap(int cap)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	return syscall(SYS_capget, &header, data) ||
	       data[CAP_TO_INDEX(cap)].effective & CAP_TO_MASK(cap);
}

/**
 * device_is_for_all - are our sections used for tasks of others?
 *
 * Return: true if so, or if unknown.
 */
bool device_is_for_all(void)
{
	return has_cap(CAP_SYS_ADMIN) || has_cap(CAP_PERFMON);
}

/* Set the capabilities of this process: permitted ones are there to be effective later. */
static int set_caps(const struct __user_cap_data_struct *data)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };

	return syscall(SYS_capset, &header, data) ? -errno : 0;
}

/*
 * Open the device with permitted capabilities, as some of our own tasks may have the same, but
 * without effective ones, so that the sections are not for all tasks.
 */
static int open_without(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];
	struct __user_cap_data_struct less[_LINUX_CAPABILITY_U32S_3];
	int device, ret;

	if (syscall(SYS_capget, &header, caps))
		return -errno;
	memcpy(less, caps, sizeof(less));
	for (unsigned int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		less[i].effective = 0;
	ret = set_caps(less);
	if (ret)
		return ret;
	device = device_open();
	if (device < 0)
		device = -errno;
	ret = set_caps(caps);
	if (ret && device >= 0)
		close(device);
	return ret ?: device;
}

/**
 * device_may_become - may a process become a user whose sections it makes?
 * @user:	the user
 *
 * A user that may debug the process would see what is in its memory. With fs.suid_dumpable 1 a
 * change of ids lets the new user do that.
 *
 * Return: 0, or a negative errno: -EOPNOTSUPP with that setting, -EPERM if it cannot become one.
 */
int device_may_become(const struct user *user)
{
	int value, ret = -EOPNOTSUPP;
	FILE *file;

	if (user->uid == getuid())
		return 0;
	/* Without CAP_KILL, the deputy would not end with us. */
	if (!has_cap(CAP_SETUID) || !has_cap(CAP_SETGID) || !has_cap(CAP_KILL))
		return -EPERM;
	file = fopen("/proc/sys/fs/suid_dumpable", "re");
	if (!file)
		return -errno;
	if (fscanf(file, "%d", &value) == 1 && value != 1)
		ret = 0;
	fclose(file);
	return ret;
}

/**
 * device_become - become a user
 * @user:	the user
 *
 * Another user has no capabilities then. Our own user keeps them, to get at files.
 *
 * Return: 0, or a negative errno.
 */
int device_become(const struct user *user)
{
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
	bool ours = user->uid == getuid();
	int ret;

	if ((!ours || user->gid != getgid()) &&
	    (setgroups(0, NULL) || setresgid(user->gid, user->gid, user->gid) ||
	     setresuid(user->uid, user->uid, user->uid)))
		return -errno;
	if (ours)
		return 0;
	ret = set_caps(none);
	return ret ?: device_is_for_all() ? -EPERM : 0;
}

/**
 * device_open_for - after device_become(), open the device for the tasks of this user
 * @ours:	it is our own user
 *
 * Return: the device, or a negative errno.
 */
int device_open_for(bool ours)
{
	int device;

	if (ours)
		return open_without();
	device = device_open();
	return device < 0 ? -errno : device;
}

/**
 * device_info - open what the kernel says of the sections of a device
 * @device:	the device
 *
 * Return: a file of lines, of which those for sections begin with "sframe:"; NULL if it cannot be
 * opened.
 */
FILE *device_info(int device)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", device);
	return fopen(path, "re");
}

/**
 * device_needs_copy - does reading a file involve a server, or can the kernel not read it?
 * @fd:		the file, or a directory of such files
 *
 * The kernel takes no section in a file of ramfs, as that has no limit.
 *
 * Return: true if so.
 */
bool device_needs_copy(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs))
		return false;
	switch ((u32)fs.f_type) {
	case AFS_FS_MAGIC:
	case AFS_SUPER_MAGIC:
	case BEEGFS_MAGIC:
	case CEPH_SUPER_MAGIC:
	case CIFS_SUPER_MAGIC:
	case CODA_SUPER_MAGIC:
	case FUSE_SUPER_MAGIC:
	case GFS2_MAGIC:
	case GPFS_MAGIC:
	case LUSTRE_MAGIC:
	case NFS_SUPER_MAGIC:
	case OCFS2_SUPER_MAGIC:
	case ORANGEFS_MAGIC:
	case PANFS_MAGIC:
	case RAMFS_MAGIC:
	case SMB2_SUPER_MAGIC:
	case SMB_SUPER_MAGIC:
	case V9FS_MAGIC:
	case VBOXSF_MAGIC:
		return true;
	default:
		return false;
	}
}

static int copy_to_memory(int from)
{
	int fd = memfd_create("sframe", MFD_CLOEXEC), ret;

	ret = fd < 0 ? -errno : copy_file(fd, from);
	if (fd >= 0 && ret)
		close(fd);
	return ret ?: fd;
}

static int add(int device, const struct unwind_sframe_section *request)
{
	return ioctl(device, UNWIND_SFRAME_ADD, request) ? -errno : 0;
}

/**
 * device_add - register a section with the kernel
 * @device:	the device
 * @id:		build-id of the files that it is for
 * @section:	a file that holds only the section
 * @room:	bytes of memory that are left for copies of sections; reduced by that of this one
 *
 * Return: 0, also if one is registered already, or a negative errno: -ENOBUFS if the section must
 * be copied, and is larger than @room.
 */
int device_add(int device, const struct build_id *id, int section, size_t *room)
{
	struct unwind_sframe_section request = {
		.fd = section, .build_id_size = id->size,
	};
	struct stat st;
	int copy, ret;

	if (fstat(section, &st))
		return -errno;
	request.size = st.st_size;
	memcpy(request.build_id, id->bytes, id->size);
	/* For all tasks, the kernel refuses FUSE and, with few rights, stacked file systems. */
	ret = device_needs_copy(section) ? -EPERM : add(device, &request);
	if (ret != -EPERM)
		return ret == -EEXIST ? 0 : ret;

	if (request.size > *room)
		return -ENOBUFS;
	copy = copy_to_memory(section);
	if (copy < 0)
		return copy;
	request.fd = copy;
	ret = add(device, &request);
	close(copy);
	if (ret == -EEXIST)
		return 0;
	if (!ret)
		*room -= request.size;
	return ret;
}
