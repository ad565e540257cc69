// SPDX-License-Identifier: GPL-2.0
/*
 * Write files: a new file in the same directory replaces the old one after it has been
 * synced to the disk.
 *
 * Other users may change names meanwhile. Replace only the file that was examined, in the
 * directory where it was found, or nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "session.h"

#define TEMP_PREFIX	".sframe."

/**
 * struct place - the destination of a file
 * @path:	name of the directory, followed by @name; freed with the place
 * @name:	its name there
 * @dir:	the directory
 */
struct place {
	char		*path;
	const char	*name;
	int		dir;
};

/**
 * temp_create - create a file with an unpredictable name
 * @dir:	the directory
 * @prefix:	prefix of the name
 * @name:	set to the name, TEMP_SIZE bytes
 *
 * Return: the file, open for writing and private to us; or a negative errno.
 */
int temp_create(int dir, const char *prefix, char *name)
{
	u64 number;
	int fd;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -errno;
	snprintf(name, TEMP_SIZE, "%s%016" PRIx64, prefix, (uint64_t)number);
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

/**
 * file_sync - sync a file to the disk
 * @fd:		the file
 *
 * Return: 0, also if the file system has no disk, or a negative errno.
 */
int file_sync(int fd)
{
	return fsync(fd) && errno != EINVAL ? -errno : 0;
}

static int write_all(int fd, const u8 *bytes, size_t size)
{
	while (size) {
		ssize_t done = write(fd, bytes, size);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		bytes += done;
		size -= done;
	}
	return 0;
}

/* Open the directory of a file. For an existing file, resolve all links. */
static int place_open(struct place *place, const char *name, bool exists)
{
	char *slash;
	int ret;

	place->path = exists ? realpath(name, NULL) : strdup(name);
	if (!place->path)
		return -errno;
	slash = strrchr(place->path, '/');
	place->name = slash ? slash + 1 : place->path;
	if (slash)
		*slash = '\0';
	place->dir = open(!slash ? "." : slash == place->path ? "/" : place->path,
			  O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (place->dir >= 0)
		return 0;
	ret = -errno;
	free(place->path);
	return ret;
}

static void place_close(struct place *place)
{
	close(place->dir);
	free(place->path);
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool is_same_access(const struct stat *a, const struct stat *b)
{
	return a->st_mode == b->st_mode && a->st_uid == b->st_uid && a->st_gid == b->st_gid;
}

/*
 * A new ctime means that the file has changed, unless a change of owner, links or mode explains
 * it. Cleared set-ID bits do not explain it, because a write clears them.
 */
static bool is_changed(const struct stat *read, const struct stat *now)
{
	if (now->st_size != read->st_size ||
	    memcmp(&now->st_mtim, &read->st_mtim, sizeof(now->st_mtim)))
		return true;
	return !((read->st_mode ^ now->st_mode) & ~(S_ISUID | S_ISGID)) &&
	       read->st_uid == now->st_uid && read->st_gid == now->st_gid &&
	       read->st_nlink == now->st_nlink &&
	       memcmp(&now->st_ctim, &read->st_ctim, sizeof(now->st_ctim));
}

/*
 * Keep owner and mode of the old file, or set those of a new file. Some users may replace a file,
 * but may not give the new one to the old owner.
 */
static const char *set_mode(int fd, mode_t mode, const struct stat *former)
{
	struct stat st;

	if (former) {
		mode = former->st_mode & 07777;
		if (fchown(fd, former->st_uid, former->st_gid))
			return "its owner and group cannot be kept";
	} else {
		mode_t mask = umask(0);

		umask(mask);
		mode &= 0777 & ~mask;
	}
	if (fchmod(fd, mode))
		return strerror(errno);
	/* fchmod() silently clears the set-group-ID bit if the user is not in the group. */
	if (former && (fstat(fd, &st) || (st.st_mode & 07777) != mode))
		return "its mode cannot be kept";
	return NULL;
}

/*
 * Owner and mode may have changed since @former: use the current ones. If the file that was read
 * has changed as well, the result is out of date.
 */
static const char *look_again(int fd, int replaced, const struct stat *former,
			      const struct new_file *file)
{
	struct stat now;

	if (fstat(replaced, &now))
		return strerror(errno);
	if (file->former >= 0 && is_changed(&file->read, &now))
		return "it was changed meanwhile";
	return is_same_access(former, &now) ? NULL : set_mode(fd, 0, &now);
}

static const char *fill(int fd, const struct stat *former, const struct new_file *file)
{
	int ret = write_all(fd, file->bytes, file->size);
	const char *why;

	if (ret)
		return strerror(-ret);
	why = set_mode(fd, file->mode, former);
	if (why)
		return why;
	ret = file_sync(fd);
	return ret ? strerror(-ret) : NULL;
}

static const char replaced_meanwhile[] = "it was replaced meanwhile";

/* Does the name still refer to this file? Others may have replaced it. */
static bool has_name(int dir, const char *name, int fd)
{
	struct stat st, ours;

	return !fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) && !fstat(fd, &ours) &&
	       is_same(&ours, &st);
}

/*
 * Put back a file that was exchanged by mistake. Others may have removed or replaced our file
 * meanwhile. Do not remove a foreign file that has the name @temp after that.
 */
static const char *change_back(const struct place *place, const char *temp, int held)
{
	static char message[sizeof(replaced_meanwhile) + TEMP_SIZE + 40];
	int dir = place->dir;
	struct stat st;

	if (renameat2(dir, temp, dir, place->name, RENAME_EXCHANGE) && errno == ENOENT)
		renameat2(dir, temp, dir, place->name, RENAME_NOREPLACE);
	if (has_name(dir, temp, held) ||
	    (fstatat(dir, temp, &st, AT_SYMLINK_NOFOLLOW) && errno == ENOENT))
		return replaced_meanwhile;
	snprintf(message, sizeof(message), "%s, and what replaced it is %s now",
		 replaced_meanwhile, temp);
	return message;
}

/*
 * Replace @former, unless another file has its name by now: exchange the names, and then check
 * both files. On file systems without RENAME_EXCHANGE, such as NFS, only check the name just
 * before renaming.
 */
static const char *name_again(const struct place *place, const char *temp, int held,
			      const struct stat *former)
{
	int dir = place->dir;
	struct stat st;

	if (fstatat(dir, place->name, &st, AT_SYMLINK_NOFOLLOW) || !is_same(former, &st))
		return replaced_meanwhile;
	if (renameat2(dir, temp, dir, place->name, RENAME_EXCHANGE)) {
		if (errno == ENOENT)
			return replaced_meanwhile;
		if (errno != EINVAL)
			return strerror(errno);
		return renameat(dir, temp, dir, place->name) ? strerror(errno) : NULL;
	}
	if (fstatat(dir, temp, &st, AT_SYMLINK_NOFOLLOW) || !is_same(former, &st) ||
	    !has_name(dir, place->name, held))
		return change_back(place, temp, held);
	unlinkat(dir, temp, 0);
	return NULL;
}

/*
 * Give a file a new name, unless another file has it by now. On file systems without
 * RENAME_NOREPLACE, such as NFS, a link does the same.
 */
static const char *name_new(const struct place *place, const char *temp)
{
	int dir = place->dir, ret;

	ret = renameat2(dir, temp, dir, place->name, RENAME_NOREPLACE);
	if (ret && errno == EINVAL) {
		ret = linkat(dir, temp, dir, place->name, 0);
		if (!ret)
			unlinkat(dir, temp, 0);
	}
	if (ret && errno == EEXIST)
		return "it was created meanwhile";
	return ret ? strerror(errno) : NULL;
}

/*
 * Keep a file open, so that its inode number is not reused, whatever happens to its name. Do not
 * keep it open for writing, because it may be executed. Returns -1 and sets @why on failure.
 */
static int hold(int dir, const char *name, int fd, const char **why)
{
	int held = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st, ours;

	if (held < 0 && errno != ENOENT) {
		*why = strerror(errno);
		return -1;
	}
	if (held >= 0 && !fstat(held, &st) && !fstat(fd, &ours) && is_same(&ours, &st))
		return held;
	if (held >= 0)
		close(held);
	*why = replaced_meanwhile;
	return -1;
}

/*
 * Give the new file its name, if it still has its temporary name. Check the result, because another
 * file may have taken the temporary name just before.
 */
static const char *name_file(const struct place *place, const char *temp, int held,
			     const struct stat *former)
{
	const char *why;

	if (!has_name(place->dir, temp, held))
		return replaced_meanwhile;
	why = former ? name_again(place, temp, held, former) : name_new(place, temp);
	if (!why && !has_name(place->dir, place->name, held))
		why = replaced_meanwhile;
	return why;
}

/* Remove a useless file, but no other file that has its name by now. */
static void unlink_file(int dir, const char *name, int fd)
{
	if (has_name(dir, name, fd))
		unlinkat(dir, name, 0);
}

/* Replace the open file @replaced with the status @former; or create a file with -1 and NULL. */
static const char *replace(const struct place *place, int replaced, const struct stat *former,
			   const struct new_file *file)
{
	char temp[TEMP_SIZE];
	int fd = temp_create(place->dir, TEMP_PREFIX, temp), held;
	const char *why;

	if (fd < 0)
		return strerror(-fd);
	held = hold(place->dir, temp, fd, &why);
	if (held < 0) {
		unlink_file(place->dir, temp, fd);
		close(fd);
		return why;
	}
	why = fill(fd, former, file);
	if (!why && former)
		why = look_again(fd, replaced, former, file);
	/* A server may report write errors only on close. */
	if (close(fd) && !why)
		why = strerror(errno);
	if (!why)
		why = name_file(place, temp, held, former);
	if (why)
		unlink_file(place->dir, temp, held);
	close(held);
	return why;
}

/* Write to a pipe or a device, if it still is the one in @st. */
static const char *write_special(const char *name, const struct stat *st,
				 const struct new_file *file)
{
	int fd = open(name, O_WRONLY | O_NOCTTY | O_CLOEXEC), ret = 0;
	const char *why = NULL;
	struct stat now;

	if (fd < 0)
		return strerror(errno);
	if (fstat(fd, &now) || !is_same(st, &now))
		why = replaced_meanwhile;
	else
		ret = write_all(fd, file->bytes, file->size);
	if (close(fd) && !ret)
		ret = -errno;
	return why ?: ret ? strerror(-ret) : NULL;
}

/* Create a file, or replace @fd, which is -1 if the name does not exist. */
static const char *write_regular(const char *name, int fd, const struct stat *st,
				 const struct new_file *file)
{
	struct place place = {};
	const char *why;
	int ret;

	ret = place_open(&place, name, fd >= 0);
	if (ret)
		return strerror(-ret);
	why = replace(&place, fd, fd < 0 ? NULL : st, file);
	place_close(&place);
	return why;
}

/**
 * write_file - write a file
 * @name:	its name; - is standard output
 * @file:	its new contents
 *
 * Replaces regular files, because others may have them open or mapped, and writes to others, such
 * as pipes. Links to files stay links.
 *
 * Return: NULL, or an error message.
 */
const char *write_file(const char *name, const struct new_file *file)
{
	const char *why;
	struct stat st;
	int fd, ret;

	if (!strcmp(name, "-")) {
		ret = write_all(STDOUT_FILENO, file->bytes, file->size);
		return ret ? strerror(-ret) : NULL;
	}
	/* Let the kernel reject links that must not be followed, such as others' in /tmp. */
	fd = file->former >= 0 ? dup(file->former) : open(name, O_PATH | O_CLOEXEC);
	if (fd < 0 && errno != ENOENT)
		return strerror(errno);
	if (fd < 0 && *name && name[strlen(name) - 1] == '/')
		return "there is no such directory";
	if (fd < 0 && !lstat(name, &st) && S_ISLNK(st.st_mode))
		return "it is a link to a file that is not there";
	if (fd >= 0 && fstat(fd, &st))
		why = strerror(errno);
	else if (fd >= 0 && !S_ISREG(st.st_mode))
		why = write_special(name, &st, file);
	else
		why = write_regular(name, fd, &st, file);
	/* Keep the file open until here, so that its inode number is not reused. */
	if (fd >= 0)
		close(fd);
	return why;
}
