// SPDX-License-Identifier: GPL-2.0
/*
 * Detached events, and their names.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "detaching.h"
#include "files.h"

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

struct perf_event_attr inherit_attr(void)
{
	struct perf_event_attr attr = clock_attr();

	/* Or a slow kernel samples what comes after spin() until that is overwritten. */
	attr.sample_period = 500000;
	attr.inherit = 1;
	return attr;
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

int wait_for_names(int nr)
{
	char path[300];
	int have = names(path, sizeof(path));

	for (int i = 0; i < 6000 && have < nr; i++) {
		usleep(10000);
		have = names(path, sizeof(path));
	}
	return have;
}

int remove_names(void)
{
	char path[300];
	int nr = 0;

	while (names(path, sizeof(path))) {
		if (!unlink(path))
			nr++;
		else if (errno != ENOENT)
			break;
	}
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

struct perf_event_mmap_page *map_thread(pid_t pid, pid_t tid)
{
	struct perf_event_mmap_page *map = NULL;
	char pattern[64];
	glob_t names = {};
	int fd = -1;

	snprintf(pattern, sizeof(pattern), DIR_NAME "/%d.%d.*", pid, tid);
	if (!glob(pattern, 0, NULL, &names) && names.gl_pathc == 1)
		fd = open(names.gl_pathv[0], O_RDWR | O_CLOEXEC);
	globfree(&names);
	if (fd >= 0) {
		map = map_event(fd, PROT_READ);
		close(fd);
	}
	return map;
}

const struct perf_event_detached_info *info_of(const struct perf_event_mmap_page *map)
{
	return (const void *)map + map->detached_offset;
}

extern const char __start_spin_text[], __stop_spin_text[];

__attribute__((noinline, section("spin_text"))) void spin(bool end)
{
	for (volatile unsigned int i = 0; i < 2000000; i++)
		;
	if (end)
		asm volatile(".globl	spin_fault\n"
			     "spin_fault:	movl	$0, (%0)" : : "r" (NULL) : "memory");
}

__attribute__((noinline, section("spin_text"))) void touch(void)
{
	volatile char *pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (unsigned int i = 0; i < PAGES; i++)
		pages[i * PAGE] = 1;
	munmap((void *)pages, PAGES * PAGE);
}

struct perf_event_attr fault_attr(void)
{
	struct perf_event_attr attr = inherit_attr();

	attr.config = PERF_COUNT_SW_PAGE_FAULTS;
	attr.sample_period = 1;
	return attr;
}

__u32 newest_type(const struct perf_event_mmap_page *map)
{
	const struct perf_event_header *header = (const void *)map + map->data_offset +
						 (map->data_head & (map->data_size - 1));

	return header->type;
}

__u64 newest_ip(const struct perf_event_mmap_page *map)
{
	const __u64 *data = (const void *)map + map->data_offset;
	const __u64 nr = map->data_size / sizeof(*data), start = map->data_head / sizeof(*data);

	for (__u64 at = start; at - start < nr;) {
		const struct perf_event_header *header = (const void *)(data + at % nr);

		if (header->type == PERF_RECORD_SAMPLE)
			return data[(at + 1) % nr];
		if (!header->size)
			break;
		at += header->size / sizeof(*data);
	}
	return 0;
}

unsigned int newest_in_spin(const struct perf_event_mmap_page *map)
{
	const __u64 *data = (const void *)map + map->data_offset;
	const __u64 nr = map->data_size / sizeof(*data), start = map->data_head / sizeof(*data);
	unsigned int hits = 0;

	for (__u64 at = start; at - start < nr;) {
		const struct perf_event_header *header = (const void *)(data + at % nr);
		__u64 ip = data[(at + 1) % nr];

		at += header->size / sizeof(*data);
		if (header->type == PERF_RECORD_LOST || header->type == PERF_RECORD_THROTTLE ||
		    header->type == PERF_RECORD_UNTHROTTLE)
			continue;
		if (header->type != PERF_RECORD_SAMPLE ||
		    ip < (__u64)(unsigned long)__start_spin_text ||
		    ip >= (__u64)(unsigned long)__stop_spin_text)
			return hits;
		hits++;
	}
	return hits;
}

bool any_in_spin(const struct perf_event_mmap_page *map)
{
	const __u64 *data = (const void *)map + map->data_offset;

	for (unsigned int i = 0; i < map->data_size / sizeof(*data); i++) {
		if (data[i] >= (__u64)(unsigned long)__start_spin_text &&
		    data[i] < (__u64)(unsigned long)__stop_spin_text)
			return true;
	}
	return false;
}

unsigned int count_type(const struct perf_event_mmap_page *map, __u32 type)
{
	const bool backward = (__s64)map->data_head < 0;
	const __u64 end = backward ? 0 : map->data_head;
	__u64 at = backward ? map->data_head : 0;
	const __u64 start = at;
	unsigned int hits = 0;

	while (at != end && at - start < map->data_size) {
		const struct perf_event_header *header = (const void *)map + map->data_offset +
							 (at & (map->data_size - 1));

		hits += header->type == type;
		if (!header->size)
			break;
		at += header->size;
	}
	return hits;
}

bool wait_for_sleep(pid_t pid, pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	for (int i = 0; i < 6000; i++) {
		char stat[512], *state;

		state = file_get(path, stat, sizeof(stat)) ? NULL : strrchr(stat, ')');
		if (!state)
			return false;
		if (state[2] == 'S')
			return true;
		usleep(10000);
	}
	return false;
}

bool wait_for_end(const struct perf_event_mmap_page *map)
{
	const volatile __u32 *state = &info_of(map)->state;

	for (int i = 0; i < 6000 && *state == PERF_EVENT_DETACHED_LIVE; i++)
		usleep(10000);
	return *state == PERF_EVENT_DETACHED_EXITED;
}

int run_on(pid_t tid, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(tid, sizeof(set), &set);
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
