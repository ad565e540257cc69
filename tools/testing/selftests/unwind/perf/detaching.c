// SPDX-License-Identifier: GPL-2.0
/*
 * Detached events, and their names.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "detaching.h"

struct perf_event_attr clock_attr(void)
{
	return (struct perf_event_attr) {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(struct perf_event_attr),
		.config		= PERF_COUNT_SW_TASK_CLOCK,
		.sample_period	= 100000,
		.sample_type	= PERF_SAMPLE_IP | PERF_SAMPLE_TID,
		.disabled	= 1,
		.exclude_kernel	= 1,
		.exclude_hv	= 1,
		.write_backward	= 1,
	};
}

int detach_pages(int fd, unsigned int pages)
{
	struct perf_event_detach args = { .size = sizeof(args), .pages = pages };

	return ioctl(fd, PERF_EVENT_IOC_DETACH, &args) ? -errno : 0;
}

int open_pages(const struct perf_event_attr *attr, pid_t pid, unsigned int pages)
{
	int fd = perf_open(attr, pid, -1, -1, PERF_FLAG_DETACHED), ret;

	if (fd < 0)
		return fd;
	ret = detach_pages(fd, pages);
	if (!ret && ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		ret = -errno;
	if (!ret)
		return fd;
	close(fd);
	return ret;
}

int open_detached(const struct perf_event_attr *attr, pid_t pid)
{
	return open_pages(attr, pid, PAGES);
}

int names(char *path, size_t size)
{
	DIR *dir = opendir(DIR_NAME);
	struct dirent *entry;
	int nr = 0;

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, size, DIR_NAME "/%s", entry->d_name);
		nr++;
	}
	if (dir)
		closedir(dir);
	return nr;
}

int remove_names(void)
{
	char path[300];
	int nr = 0;

	while (names(path, sizeof(path)) && !unlink(path))
		nr++;
	return nr;
}

struct perf_event_mmap_page *map_pages(int fd, int prot, unsigned int pages)
{
	void *map = mmap(NULL, (1 + pages) * PAGE, prot, MAP_SHARED, fd, 0);

	return map == MAP_FAILED ? NULL : map;
}

struct perf_event_mmap_page *map_event(int fd, int prot)
{
	return map_pages(fd, prot, PAGES);
}

const struct perf_event_detached_info *info_of(const struct perf_event_mmap_page *map)
{
	return (const void *)map + map->detached_offset;
}

void become(uid_t uid)
{
	if (setresgid(uid, uid, uid) || setresuid(uid, uid, uid) ||
	    prctl(PR_SET_DUMPABLE, 1))
		_exit(100);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

int as_user(uid_t uid, int (*what)(const char *name), const char *name)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		become(uid);
		_exit(what(name));
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const char *const sysctls[NR_SYSCTLS] = { SYSCTL, SYSCTL_MAX, SYSCTL_KEEP, SYSCTL_MLOCK };

bool save_sysctls(int values[NR_SYSCTLS])
{
	char path[80];

	for (int i = 0; i < NR_SYSCTLS; i++) {
		snprintf(path, sizeof(path), "/proc/sys/%s", sysctls[i]);
		values[i] = get_number(path);
		if (values[i] < 0)
			return false;
	}
	return true;
}

void restore_sysctls(const int values[NR_SYSCTLS])
{
	for (int i = 0; i < NR_SYSCTLS; i++)
		set_sysctl(sysctls[i], values[i]);
}
