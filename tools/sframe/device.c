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
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
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

/**
 * device_is_for_all - are our sections used for tasks of others?
 *
 * Return: true if so, or if unknown.
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

/*
 * Become a user without effective capabilities, with the user's ids if it is another user. Keep
 * permitted ones for our own user, because some of our own tasks may have the same.
 */
static bool become(const struct user *user)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
	bool ours = user->uid == getuid();

	if ((!ours || user->gid != getgid()) &&
	    (setgroups(0, NULL) || setresgid(user->gid, user->gid, user->gid) ||
	     setresuid(user->uid, user->uid, user->uid)))
		return false;
	if (ours && syscall(SYS_capget, &header, data))
		return false;
	for (unsigned int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		data[i].effective = 0;
	if (syscall(SYS_capset, &header, data))
		return false;
	errno = EPERM;
	return !device_is_for_all();
}

/*
 * A user that may debug the opener can make it send us any file, and closing that can hang. With
 * fs.suid_dumpable 1 a change of ids lets the new user do that. Returns 0 or a negative errno.
 */
static int may_become(const struct user *user)
{
	int value, ret = -EOPNOTSUPP;
	FILE *file;

	if (user->uid == getuid())
		return 0;
	file = fopen("/proc/sys/fs/suid_dumpable", "re");
	if (!file)
		return -errno;
	if (fscanf(file, "%d", &value) == 1 && value != 1)
		ret = 0;
	fclose(file);
	return ret;
}

/*
 * The user may stop the opener after its change of ids, but not debug it. It has only the socket
 * open. Set the parent death signal after the change of ids, which resets it.
 */
static void __attribute__((noreturn))
opener_main(const struct user *user, int socket, pid_t parent)
{
	int device = -1, error = 0;

	if (dup2(socket, 0) < 0 || syscall(SYS_close_range, 1, ~0U, 0))
		_exit(1);
	if (become(user) && !prctl(PR_SET_DUMPABLE, 0) && !prctl(PR_SET_PDEATHSIG, SIGKILL))
		device = device_open();
	if (device < 0)
		error = errno;
	if (getppid() != parent || pass_send(0, &error, sizeof(error), device))
		_exit(1);
	_exit(0);
}

/* Has somebody stopped the opener? */
static bool opener_is_stopped(pid_t pid)
{
	siginfo_t info = {};

	return !waitid(P_PID, pid, &info, WSTOPPED | WNOHANG | WNOWAIT) && info.si_pid;
}

/* Is this really the device? */
static bool is_device(int fd)
{
	struct stat device, st;

	return !stat(DEVICE, &device) && !fstat(fd, &st) && S_ISCHR(st.st_mode) &&
	       st.st_rdev == device.st_rdev;
}

/* We had no free descriptor for the device, or a security module has withheld it. */
static int opener_withheld(int socket)
{
	int other = fcntl(socket, F_DUPFD_CLOEXEC, 0);

	if (other < 0)
		return -EMFILE;
	close(other);
	return -EACCES;
}

/* Returns the opened device or a negative errno. This is quick unless the user obstructs it. */
static int opener_wait(int socket, pid_t pid)
{
	struct pollfd ready = { .fd = socket, .events = POLLIN };
	long end = now_ms() + OPEN_BLOCKED_MAX;
	int device, error;
	bool cut;

	while (poll(&ready, 1, TICK) <= 0) {
		if (opener_is_stopped(pid))
			return -EBUSY;
		if (now_ms() >= end)
			return -ETIMEDOUT;
	}
	if (pass_receive(socket, &error, sizeof(error), &device, &cut))
		return -ECHILD;
	if (device >= 0 && is_device(device))
		return device;
	if (device >= 0)
		close(device);
	return cut ? opener_withheld(socket) : error > 0 ? -error : -EBADMSG;
}

/**
 * device_open_as - open the device for the tasks of one user
 * @user:	whose
 *
 * A separate process opens it.
 *
 * Return: the device, or a negative errno: -EOPNOTSUPP if fs.suid_dumpable is 1; for the process,
 * -EBUSY if it was stopped, -ETIMEDOUT if it hangs, -ECHILD if it has ended, -EBADMSG if it has
 * sent something else.
 */
int device_open_as(const struct user *user)
{
	int sockets[2], device = may_become(user);
	pid_t parent = getpid(), pid;

	if (device)
		return device;
	if (!stuck_has_room(user->uid))
		return -EAGAIN;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets))
		return -errno;
	pid = fork();
	if (!pid)
		opener_main(user, sockets[1], parent);
	device = pid < 0 ? -errno : 0;
	close(sockets[1]);
	if (pid > 0) {
		device = opener_wait(sockets[0], pid);
		/* The user may even delay its end. */
		stuck_kill(pid, user->uid);
	}
	close(sockets[0]);
	return device;
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
