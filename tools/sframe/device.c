// SPDX-License-Identifier: GPL-2.0
/*
 * Sections for the kernel, by /dev/unwind_sframe.
 *
 * Tasks that are walked read the file of a section. Where that would have to ask a server,
 * which may be just such a task, the kernel gets a copy in memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "session.h"

#define DEVICE	"/dev/unwind_sframe"

/* File systems that headers of the system do not know: some are not part of Linux. */
#define BEEGFS_MAGIC	0x19830326
#define GFS2_MAGIC	0x01161970
#define GPFS_MAGIC	0x47504653
#define LUSTRE_MAGIC	0x0bd00bd0
#define ORANGEFS_MAGIC	0x20030528
#define PANFS_MAGIC	0xaad7aaea
#define VBOXSF_MAGIC	0x786f4256

/**
 * device_look - is there a device?
 *
 * Return: 0, or an error of errno.h, negative.
 */
int device_look(void)
{
	return access(DEVICE, F_OK) ? -errno : 0;
}

/**
 * device_open - open the device
 *
 * Return: the device; -1 if there is none, with errno.
 */
int device_open(void)
{
	return open(DEVICE, O_RDWR | O_CLOEXEC);
}

/**
 * device_is_for_all - are sections of ours used for tasks of others?
 *
 * Return: true if so, or if that is not known.
 */
bool device_is_for_all(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, data))
		return true;
	return data[CAP_TO_INDEX(CAP_SYS_ADMIN)].effective & CAP_TO_MASK(CAP_SYS_ADMIN) ||
	       data[CAP_TO_INDEX(CAP_PERFMON)].effective & CAP_TO_MASK(CAP_PERFMON);
}

/**
 * device_needs_copy - is a file where a server has to be asked for it?
 * @fd:		the file, or a directory of such files
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

/**
 * device_add - hand in a section
 * @device:	the device
 * @id:		of the files that it is for
 * @section:	a file that holds it, and nothing else
 *
 * Return: 0, or an error of errno.h, negative. That there is one already is none.
 */
int device_add(int device, const struct build_id *id, int section)
{
	struct unwind_sframe_section request = {
		.fd = section, .build_id_size = id->size,
	};
	int copy = -1, ret = 0;
	struct stat st;

	if (fstat(section, &st))
		return -errno;
	if (device_needs_copy(section)) {
		copy = copy_to_memory(section);
		if (copy < 0)
			return copy;
		request.fd = copy;
	}
	request.size = st.st_size;
	memcpy(request.build_id, id->bytes, id->size);
	if (ioctl(device, UNWIND_SFRAME_ADD, &request) && errno != EEXIST)
		ret = -errno;
	if (copy >= 0)
		close(copy);
	return ret;
}
