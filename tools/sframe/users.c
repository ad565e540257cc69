// SPDX-License-Identifier: GPL-2.0
/*
 * Users for whose tasks alone a section is, in sessions whose sections are for all.
 *
 * Anybody can write any build-id into a file, and any .eh_frame. So what is made of a file that
 * others may write is for those who run it, as they have to believe it anyway. It is handed in by
 * a device that was opened with their ids, and without privileges, as if they had a session
 * themselves: the kernel knows whom to use it for, whatever these tasks become later.
 *
 * Whoever has a file mapped, with the same ids before and after that was seen, has mapped it with
 * these: a program that gives others ids to its process has other mappings.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "session.h"

/* Of a line of /proc/PID/maps: what says which file it is. */
#define FILE_SIZE	64

/* The user namespace that the system came up with. */
#define FIRST_NAMESPACE	"user:[4026531837]"

/**
 * is_first_namespace - is this the user namespace that the system came up with?
 *
 * Root of another one has privileges there, and not with the kernel.
 */
bool is_first_namespace(void)
{
	char ours[64] = "";

	return readlink("/proc/self/ns/user", ours, sizeof(ours) - 1) > 0 &&
	       !strcmp(ours, FIRST_NAMESPACE);
}

/* Sessions stay in theirs. */
static bool is_our_namespace(const struct stat *ns)
{
	static struct stat ours;

	if (!ours.st_ino && stat("/proc/self/ns/user", &ours))
		return true;
	return ns->st_dev == ours.st_dev && ns->st_ino == ours.st_ino;
}

/* Is a process in our namespace? Or is that not known? */
static bool is_inside(pid_t pid)
{
	struct stat st;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	return stat(path, &st) || is_our_namespace(&st);
}

/**
 * user_of_process - whose is a process, in every respect?
 * @pid:	the process
 * @user:	set
 *
 * Return: false if that is not known, if it is of several, or if it may do more than who opens the
 * device for this user.
 */
bool user_of_process(pid_t pid, struct user *user)
{
	char path[32], *line = NULL;
	unsigned long long caps = 0;
	unsigned int uid[3], gid[3];
	bool has_uid = false, has_gid = false;
	size_t size = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (getline(&line, &size, file) > 0) {
		has_uid |= sscanf(line, "Uid: %u %u %u", &uid[0], &uid[1], &uid[2]) == 3;
		has_gid |= sscanf(line, "Gid: %u %u %u", &gid[0], &gid[1], &gid[2]) == 3;
		if (!strncmp(line, "CapPrm:", 7))
			caps = strtoull(line + 7, NULL, 16);
	}
	free(line);
	fclose(file);
	if (!has_uid || uid[0] != uid[1] || uid[0] != uid[2] ||
	    !has_gid || gid[0] != gid[1] || gid[0] != gid[2])
		return false;
	/* In another namespace they do not count. */
	if (caps && uid[0] != getuid() && is_inside(pid))
		return false;
	*user = (struct user) { uid[0], gid[0] };
	return true;
}

/*
 * It, or one around it: the next one within ours. Closes what it is given; -1 if there is none,
 * with EPERM, or if that is not known.
 */
static int namespace_below_ours(int ns)
{
	int parent, error;
	struct stat st;

	while ((parent = ioctl(ns, NS_GET_PARENT)) >= 0) {
		if (!fstat(parent, &st) && is_our_namespace(&st)) {
			close(parent);
			return ns;
		}
		close(ns);
		ns = parent;
	}
	error = errno;
	close(ns);
	errno = error;
	return -1;
}

/* Who has made the namespace of a process that is not in ours? Returns an error, negative, or 0. */
static int namespace_maker(pid_t pid, uid_t *maker)
{
	char path[32];
	int ns, ret;

	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	if (ns < 0)
		return -ENOENT;
	ns = namespace_below_ours(ns);
	if (ns < 0)
		return -errno;
	ret = ioctl(ns, NS_GET_OWNER_UID, maker) ? -EINVAL : 0;
	close(ns);
	return ret;
}

/**
 * is_elsewhere - is a process where the kernel does not use our sections?
 * @pid:	the process
 *
 * That is in a user namespace that neither is ours nor was made by us, directly or further out; or
 * in one of ours, as another user.
 *
 * Return: true if so; false if that is not known.
 */
bool is_elsewhere(pid_t pid)
{
	uid_t maker, uid;
	int ret;

	if (is_inside(pid))
		return false;
	ret = namespace_maker(pid, &maker);
	uid = process_uid(pid);
	return ret ? ret == -EPERM : maker != geteuid() || (uid != maker && uid != ALL_USERS);
}

/* In other namespaces, the kernel uses what is for their makers, for these alone. */
static bool is_used_for(const struct user *user, pid_t pid)
{
	uid_t maker;

	return is_inside(pid) || (!namespace_maker(pid, &maker) && maker == user->uid);
}

/**
 * struct map - what a line of /proc/PID/maps says
 * @start:	its first address
 * @exec:	is it executable?
 * @file:	device and inode, as they are there: file systems may tell others of another device
 */
struct map {
	unsigned long	start;
	bool		exec;
	char		file[FILE_SIZE];
};

/* The next one of a file, or false. */
static bool map_next(FILE *maps, struct map *map)
{
	char perms[5], dev[16], ino[32], *line = NULL;
	bool found = false;
	size_t size = 0;

	while (!found && getline(&line, &size, maps) > 0)
		found = sscanf(line, "%lx-%*s %4s %*s %15s %31s", &map->start, perms, dev,
			       ino) == 4;
	if (found) {
		map->exec = strchr(perms, 'x');
		snprintf(map->file, sizeof(map->file), "%s %s", dev, ino);
	}
	free(line);
	return found;
}

/* What is found in the mappings of a process: where it starts, or if @start is 0, as code. */
static bool map_find(pid_t pid, unsigned long start, const char *file, struct map *map)
{
	bool found = false;
	char path[32];
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	while (maps && !found && map_next(maps, map))
		found = start ? map->start == start : map->exec && !strcmp(map->file, file);
	if (maps)
		fclose(maps);
	return found;
}

static bool has_mapped(pid_t pid, int fd)
{
	void *ours = mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0);
	struct map known, theirs;
	bool found;

	if (ours == MAP_FAILED)
		return false;
	found = map_find(getpid(), (unsigned long)ours, NULL, &known) &&
		map_find(pid, 0, known.file, &theirs);
	munmap(ours, 1);
	return found;
}

/**
 * user_of_mapping - whose is a process that has a file mapped as code?
 * @pid:	the process; or 0 for what we are about to run
 * @fd:		the file
 * @user:	set
 *
 * Return: false if that is not known, if it is not mapped any more, or if the kernel would not use
 * a section for it.
 */
bool user_of_mapping(pid_t pid, int fd, struct user *user)
{
	struct user before;

	if (!pid)
		return user_of_process(getpid(), user);
	return user_of_process(pid, &before) && has_mapped(pid, fd) &&
	       user_of_process(pid, user) && before.uid == user->uid &&
	       before.gid == user->gid && is_used_for(user, pid);
}

/* There are more groups than users, and some have many: nobody has more than half of the places. */
static bool users_are_full(const struct users *users, uid_t uid)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < users->nr; i++)
		nr += users->known[i].uid == uid;
	return users->nr == USERS_MAX || nr == USERS_MAX / 2;
}

/**
 * users_device - the device for the tasks of one user
 * @users:	users
 * @user:	whose
 *
 * Return: the device, or an error of errno.h, negative: -EUSERS if there are too many users.
 */
int users_device(struct users *users, const struct user *user)
{
	int device;

	for (unsigned int i = 0; i < users->nr; i++) {
		if (users->known[i].uid == user->uid && users->known[i].gid == user->gid)
			return users->devices[i];
	}
	if (users_are_full(users, user->uid))
		return -EUSERS;
	device = device_open_as(user);
	/* What was missing may be there the next time. */
	if (device < 0 && is_scarce(-device))
		return device;
	users->known[users->nr] = *user;
	users->devices[users->nr++] = device;
	return device;
}

/**
 * users_why - why has a user no device?
 * @error:	what users_device() returned
 *
 * Return: the end of a sentence about what is for this user; NULL if strerror() tells.
 */
const char *users_why(int error)
{
	switch (error) {
	case -EUSERS:
		return "and there are too many users";
	case -EOPNOTSUPP:
		return "who can have none while fs.suid_dumpable is 1";
	case -EBUSY:
		return "and the process that asks for this user was stopped";
	case -ETIMEDOUT:
		return "and the process that asks for this user did not go on";
	case -ECHILD:
		return "and the process that asks for this user was ended";
	case -EBADMSG:
		return "and the process that asks for this user had no device";
	default:
		return NULL;
	}
}

/**
 * users_free - close all devices
 * @users:	users
 */
void users_free(struct users *users)
{
	while (users->nr) {
		if (users->devices[--users->nr] >= 0)
			close(users->devices[users->nr]);
	}
}
