// SPDX-License-Identifier: GPL-2.0
/*
 * Whose files are: of ours and root's, what is made of them may be believed later.
 *
 * The owner is what the file system says. Who has a server of FUSE, or the disk or the remote
 * directory that somebody mounted for him, says what he likes. Such mounts are nosuid, as this
 * is what makes root's files dangerous: so the same sign is used here. Who mounts in a user
 * namespace has no owners but those of that namespace, and these are no other users' here.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "session.h"

/* Does this line of mountinfo say that a file system is mounted, and not nosuid? */
static bool line_honours(const char *line, dev_t dev)
{
	unsigned int major, minor;
	int options = 0;

	if (sscanf(line, "%*d %*d %u:%u %*s %*s %n", &major, &minor, &options) != 2 || !options ||
	    makedev(major, minor) != dev)
		return false;
	return !memmem(line + options, strcspn(line + options, " "), "nosuid", 6);
}

/* Is it mounted for us, and not nosuid? A sandbox may have it nosuid, as all else that it has. */
static bool is_honoured(dev_t dev)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	bool honoured = false;
	char *line = NULL;
	size_t size = 0;

	while (mounts && !honoured && getline(&line, &size, mounts) > 0)
		honoured = line_honours(line, dev);
	free(line);
	if (mounts)
		fclose(mounts);
	return honoured;
}

/*
 * Memory has the owners that the kernel knows. What else there is depends on the file system
 * of the root directory: it is believed, be it of FUSE, as in some virtual machines.
 */
static bool is_believed(int fd, const struct stat *st)
{
	struct statfs fs;
	struct stat root;

	if (fstatfs(fd, &fs))
		return false;
	if (fs.f_type == TMPFS_MAGIC || (!stat("/", &root) && root.st_dev == st->st_dev))
		return true;
	if (fs.f_type == FUSE_SUPER_MAGIC)
		return false;
	/* Programs of a user who is not root need no set-user-ID bit. */
	return st->st_uid || !(fs.f_flags & ST_NOSUID) || is_honoured(st->st_dev);
}

/**
 * owner_doubt - is a file not ours, or root's?
 * @fd:		the file
 *
 * Root of a container is root.
 *
 * Return: NULL, or why what is made of it is not to be believed.
 */
const char *owner_doubt(int fd)
{
	struct stat st;

	if (fstat(fd, &st) || (st.st_uid && st.st_uid != geteuid()) || st.st_mode & 002)
		return "belongs to somebody else";
	return is_believed(fd, &st) ? NULL : "is on a file system that may make up owners";
}
