// SPDX-License-Identifier: GPL-2.0
/*
 * Whose files are: of ours and root's, what is made of them may be believed later.
 *
 * The owner is what the file system says. Who has a server of FUSE, or the disk or the remote
 * directory that somebody mounted for him, says what he likes. Such mounts are nosuid, as this
 * is what makes root's files dangerous: so the same sign is used here.
 *
 * Anybody may mount in a user namespace, and not nosuid. What is mounted so has no owners but
 * those of that namespace, and these are no other users' here. Only overlayfs shows owners that
 * another file system has made up. So it is believed where we have the same mount, or another
 * one of the same file system, as with root's containers: nobody mounts for us but root.
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

/* The attribute that has an access control list of POSIX. */
#define ACL	"system.posix_acl_access"

/* The number of the mount that a file was opened by, or -1: what else has it is not known. */
static int mount_of(int fd)
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &stx) ||
	    !(stx.stx_mask & STATX_MNT_ID))
		return -1;
	return stx.stx_mnt_id;
}

/**
 * struct mount - what a line of mountinfo says
 * @id:		its number
 * @dev:	of the file system
 * @nosuid:	is it mounted so?
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

	/* Names may have any white space but that between them. */
	if (sscanf(line, "%d %*d %u:%u %*[^ ] %*[^ ] %n", &mount->id, &major, &minor,
		   &options) != 3 || !options)
		return false;
	mount->dev = makedev(major, minor);
	mount->nosuid = memmem(line + options, strcspn(line + options, " "), "nosuid", 6);
	return true;
}

/* The next one that we have, or false. */
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
 * Is it mounted for us, and not nosuid? A sandbox may have it nosuid, as all else that it has.
 *
 * Files of btrfs and overlayfs may have other devices than the mount has. Of a mount that we
 * have, its own device counts.
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
 * Memory has the owners that the kernel knows. What else there is depends on the file system
 * of the root directory: it is believed, be it of FUSE, as in some virtual machines.
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
	/* Programs of a user need no set-user-ID bit, and sections of theirs are for that user. */
	*alone = st->st_uid && !device_is_for_all();
	return *alone;
}

/* Is there an access control list, by which the mode of the group is that of others as well? */
static bool has_acl(int fd)
{
	return fgetxattr(fd, ACL, NULL, 0) >= 0 || (errno != ENODATA && errno != EOPNOTSUPP);
}

/*
 * May others write to it? Root's own group is root alone, as that of a user mostly is this user
 * alone. Another group to which root gives a file is not.
 */
static bool is_shared(int fd, const struct stat *st)
{
	if (st->st_mode & 002)
		return true;
	return st->st_mode & 020 && ((!st->st_uid && st->st_gid) || has_acl(fd));
}

/**
 * owner_doubt - is a file not ours, or root's?
 * @fd:		the file
 * @alone:	set: it is ours as long as nobody else has to believe that
 *
 * Root of a container is root.
 *
 * Return: NULL, or why what is made of it is not to be believed.
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
