// SPDX-License-Identifier: GPL-2.0
/*
 * Owners of files: sections made of our own and root's files can be trusted later.
 *
 * The file system reports the owner. A user who runs a FUSE server, or who provides a disk or a
 * remote directory that somebody mounts, can make up owners. Such mounts are nosuid, because
 * set-user-ID files of root would be dangerous: so check for nosuid here as well.
 *
 * In a user namespace, any user may mount without nosuid. Such file systems can only have owners
 * of that namespace, which are no other users here. Only overlayfs passes on owners that another
 * file system has made up. So overlayfs is trusted only if we have the same mount, or another one
 * of the same file system, as with root's containers: only root mounts for us.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "session.h"

/* The attribute with a POSIX access control list. */
#define ACL	"system.posix_acl_access"

/* The id of the mount through which a file was opened, or -1 if unknown. */
static int mount_of(int fd)
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &stx) ||
	    !(stx.stx_mask & STATX_MNT_ID))
		return -1;
	return stx.stx_mnt_id;
}

/**
 * struct mount - a line of mountinfo
 * @id:		mount id
 * @dev:	device of the file system
 * @nosuid:	is it mounted nosuid?
 */
struct mount {
	int	id;
	dev_t	dev;
	bool	nosuid;
};

static bool mount_parse(struct mount *mount, const char *line)
{
	unsigned int major, minor;
	int options = 0;

	/* Names never contain the white space that separates them. */
	if (sscanf(line, "%d %*d %u:%u %*[^ ] %*[^ ] %n", &mount->id, &major, &minor,
		   &options) != 3 || !options)
		return false;
	mount->dev = makedev(major, minor);
	mount->nosuid = memmem(line + options, strcspn(line + options, " "), "nosuid", 6);
	return true;
}

/* Read the next mount. Returns false at the end. */
static bool mount_next(FILE *mounts, struct mount *mount)
{
	bool found = false;
	char *line = NULL;
	size_t size = 0;

	while (!found && getline(&line, &size, mounts) > 0)
		found = mount_parse(mount, line);
	free(line);
	return found;
}

/*
 * Do we have a mount of this file system without nosuid? In a sandbox, all mounts may be nosuid.
 *
 * Files of btrfs and overlayfs may report another device than their mount. For a mount that we
 * have, use the device of the mount.
 */
static bool is_honoured(int fd, dev_t dev)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	int id = mount_of(fd);
	struct mount mount;
	bool honoured = false;

	if (!mounts)
		return false;
	while (mount_next(mounts, &mount)) {
		if (mount.id == id)
			dev = mount.dev;
	}
	rewind(mounts);
	while (!honoured && mount_next(mounts, &mount))
		honoured = mount.dev == dev && !mount.nosuid;
	fclose(mounts);
	return honoured;
}

/*
 * Owners on tmpfs come from the kernel. The root file system is trusted, because everything
 * depends on it, even if it is FUSE, as in some virtual machines.
 */
static bool is_believed(int fd, const struct stat *st, bool *alone)
{
	struct statfs fs;
	struct stat root;

	if (fstatfs(fd, &fs))
		return false;
	if (fs.f_type == TMPFS_MAGIC || (!stat("/", &root) && root.st_dev == st->st_dev))
		return true;
	if (fs.f_type == FUSE_SUPER_MAGIC)
		return false;
	if (!(fs.f_flags & ST_NOSUID) && fs.f_type != OVERLAYFS_SUPER_MAGIC)
		return true;
	if (is_honoured(fd, st->st_dev))
		return true;
	/* A user's own programs need no set-user-ID bit, and their sections are for that user. */
	*alone = st->st_uid && !device_is_for_all();
	return *alone;
}

/* Does an access control list make the group bits of the mode apply to others as well? */
static bool has_acl(int fd)
{
	return fgetxattr(fd, ACL, NULL, 0) >= 0 || (errno != ENODATA && errno != EOPNOTSUPP);
}

/*
 * May others write to it? Root's own group contains only root, and a user's group mostly only that
 * user. Another group that root has given a file to has other members.
 */
static bool is_shared(int fd, const struct stat *st)
{
	if (st->st_mode & 002)
		return true;
	return st->st_mode & 020 && ((!st->st_uid && st->st_gid) || has_acl(fd));
}

/**
 * owner_doubt - check that a file is ours or root's
 * @fd:		the file
 * @alone:	set if it may be trusted for our own tasks only
 *
 * Root of a container counts as root.
 *
 * Return: NULL, or why a section made of the file cannot be trusted.
 */
const char *owner_doubt(int fd, bool *alone)
{
	struct stat st;

	*alone = false;
	if (fstat(fd, &st) || (st.st_uid && st.st_uid != geteuid()) ||
	    is_shared(fd, &st))
		return "belongs to somebody else";
	return is_believed(fd, &st, alone) ? NULL : "is on a file system that may make up owners";
}
