// SPDX-License-Identifier: GPL-2.0
/*
 * Files that are written: a new one, in the same directory, takes the place of the former
 * one when all of it is on the disk.
 *
 * Others may change names meanwhile. What is replaced is the file that was looked at, in the
 * directory where it was found, or nothing is.
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
 * struct place - where a file is going to be
 * @path:	the directory, and @name behind it; freed with the place
 * @name:	its name there
 * @dir:	the directory
 */
struct place {
	char		*path;
	const char	*name;
	int		dir;
};

/**
 * temp_create - create a file of a name that nobody knows
 * @dir:	where
 * @prefix:	what the name begins with
 * @name:	gets it, of TEMP_SIZE bytes
 *
 * Return: the file, which is ours alone, to be written; or an error of errno.h, negative.
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
 * file_sync - have a file on the disk
 * @fd:		the file
 *
 * Return: 0, or an error of errno.h, negative. That the file system has no disk is none.
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

/* Of a file that is there already, the name that it has behind all links. */
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
 * The time of the last change of any kind tells, unless owner, links or mode explain it. That
 * a file sets no ID any more does not: a write takes that away.
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
 * Whose a file is, and who may do what with it, is as it was, or as for any new file. Not all
 * users that may replace a file may have it stay another's.
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
	/* The kernel says nothing where the user is not of the group that is to be set as ID. */
	if (former && (fstat(fd, &st) || (st.st_mode & 07777) != mode))
		return "its mode cannot be kept";
	return NULL;
}

/*
 * Owner and mode may have been changed since they were @former, and those of now count. The
 * bytes of the file that was read, too: then what was made of them is out of date.
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

/* Does a file have this name, and not another one that others have put in its place? */
static bool has_name(int dir, const char *name, int fd)
{
	struct stat st, ours;

	return !fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) && !fstat(fd, &ours) &&
	       is_same(&ours, &st);
}

/*
 * What was not to be replaced goes back. Others may have removed ours meanwhile, or may have put
 * something in its place. What still has the name @temp then is not ours to be removed.
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
 * Give a file the place of @former, unless another one has that by now: they change places, and
 * both are looked at. Where the file system knows no such renaming, as that of NFS, what has the
 * place is looked at just before.
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
 * Give a file a name that nobody had, unless somebody has it by now. Where the file system
 * knows no such renaming, as that of NFS, a link does the same.
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
 * Have a file open, so that no other one has its number, whatever becomes of its name; but not for
 * writing, as it may have to be run. Returns -1 if it cannot be had, and sets why.
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
 * Give the new file its name, if it still has the one of those that are not complete. It may have
 * lost that just before, and then another one has got the name.
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

/* What is of no use is removed, and nothing else that may have its name by now. */
static void unlink_file(int dir, const char *name, int fd)
{
	if (has_name(dir, name, fd))
		unlinkat(dir, name, 0);
}

/* What is @replaced is open, and was @former; or -1 and NULL. */
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
	/* What a server finds wrong is known by then. */
	if (close(fd) && !why)
		why = strerror(errno);
	if (!why)
		why = name_file(place, temp, held, former);
	if (why)
		unlink_file(place->dir, temp, held);
	close(held);
	return why;
}

/* A pipe or a device is written to, if it still is what @st says. */
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

/* A new file, or one in the place of @fd, which is -1 if there is none of that name. */
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
 * @name:	of it; - is standard output, and what is no file, like a pipe, is written to
 * @file:	what becomes of it
 *
 * Files that others may have open, or mapped, are replaced, and not written to. Links to
 * files stay links.
 *
 * Return: NULL, or what is wrong.
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
	/* The kernel knows which links are not to be followed, such as others' in /tmp. */
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
	/* It is open until here, so that no other file has its number meanwhile. */
	if (fd >= 0)
		close(fd);
	return why;
}
