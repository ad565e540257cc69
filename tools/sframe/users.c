// SPDX-License-Identifier: GPL-2.0
/*
 * Users of processes, and user namespaces: which tasks the kernel uses whose sections for.
 *
 * If a process has a file mapped, and has the same ids before and after this check, it has mapped
 * the file with these ids: a program that gives its process other ids has other mappings.
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

/* Size of the device and inode in a line of /proc/PID/maps. */
#define FILE_SIZE	64

/* The initial user namespace. */
#define FIRST_NAMESPACE	"user:[4026531837]"

/**
 * is_first_namespace - is this the initial user namespace?
 *
 * Root of another namespace has privileges only there.
 */
bool is_first_namespace(void)
{
	char ours[64] = "";

	return readlink("/proc/self/ns/user", ours, sizeof(ours) - 1) > 0 &&
	       !strcmp(ours, FIRST_NAMESPACE);
}

/* Cache our namespace: a session never changes it. */
static bool is_our_namespace(const struct stat *ns)
{
	static struct stat ours;

	if (!ours.st_ino && stat("/proc/self/ns/user", &ours))
		return true;
	return ns->st_dev == ours.st_dev && ns->st_ino == ours.st_ino;
}

/* Is a process in our namespace? True if unknown. */
static bool is_inside(pid_t pid)
{
	struct stat st;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	return stat(path, &st) || is_our_namespace(&st);
}

/**
 * user_of_process - get the only user of a process
 * @pid:	the process
 * @user:	set
 *
 * Return: false if unknown, if its real, effective and saved ids differ, or if it has more
 * privileges than a deputy of this user.
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
	/* Capabilities in another namespace do not count. */
	if (caps && uid[0] != getuid() && is_inside(pid))
		return false;
	*user = (struct user) { uid[0], gid[0] };
	return true;
}

/*
 * Returns @ns or the ancestor of it that is a direct child of our namespace. Closes @ns. Returns
 * -1 with EPERM if there is none, and with another errno if unknown.
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

/* Get the creator of a namespace outside ours. Returns 0 or a negative errno. */
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
 * is_elsewhere - is a process in a place where the kernel does not use our sections?
 * @pid:	the process
 *
 * True outside our user namespace, unless we have created that namespace, or its ancestor directly
 * below ours. In namespaces that we have created, true for processes of other users.
 *
 * Return: true if so; false if unknown.
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

/* In other namespaces, the kernel uses only the sections of the namespace's creator. */
static bool is_used_for(const struct user *user, pid_t pid)
{
	uid_t maker;

	return is_inside(pid) || (!namespace_maker(pid, &maker) && maker == user->uid);
}

/**
 * struct map - a line of /proc/PID/maps
 * @start:	its first address
 * @exec:	is it executable?
 * @file:	device and inode as printed there: stat() may return another device
 */
struct map {
	unsigned long	start;
	bool		exec;
	char		file[FILE_SIZE];
};

/* Read the next mapping of a file. Returns false at the end. */
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

/* Find a mapping of a process by its start; with @start 0, an executable one by its file. */
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

/* Reads all mappings, of which there may be many. */
static bool has_mapped_somewhere(pid_t pid, int fd)
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

/* Is the file still mapped there? With less rights than root's, look for it everywhere. */
static bool has_mapped(pid_t pid, unsigned long start, unsigned long end, int fd)
{
	struct stat there, here;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/map_files/%lx-%lx", pid, start, end);
	if (stat(path, &there))
		return errno == EPERM && has_mapped_somewhere(pid, fd);
	return !fstat(fd, &here) && there.st_dev == here.st_dev && there.st_ino == here.st_ino;
}

/**
 * user_of_mapping - get the user of a process that has a file mapped executable
 * @pid:	the process; 0 for the command that we are about to run
 * @start:	where it was mapped
 * @end:	first address after it
 * @fd:		the file
 * @user:	set
 *
 * Return: false if unknown, if the file is not mapped any more, or if the kernel would not use a
 * section for the process.
 */
bool user_of_mapping(pid_t pid, unsigned long start, unsigned long end, int fd,
		     struct user *user)
{
	struct user before;

	if (!pid)
		return user_of_process(getpid(), user);
	return user_of_process(pid, &before) && is_used_for(&before, pid) &&
	       has_mapped(pid, start, end, fd) && user_of_process(pid, user) &&
	       before.uid == user->uid && before.gid == user->gid;
}
