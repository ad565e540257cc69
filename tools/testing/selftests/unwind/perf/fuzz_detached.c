// SPDX-License-Identifier: GPL-2.0
/*
 * Random detached events of tasks that fork, exec and exit, used by root and by a user at the same
 * time: detached, taken over, found, opened by their names, mapped, paged out, changed and removed
 * in random order, while limits change. The kernel must survive; what a task that is gone has left
 * must be well-formed; and when all names are gone, so is all that was charged.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "detaching.h"
#include "files.h"
#include "fuzz_task.h"
#include "random.h"
#include "../../kselftest.h"

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT	21
#endif
#ifndef PIDFD_THREAD
#define PIDFD_THREAD	O_EXCL
#endif

#define SLOTS		16
#define TASKS		2
/* Emulated machines are slow: shorter periods leave the tasks no time. */
#define MIN_PERIOD	300000
#define MIN_STEPS	20000

struct slot {
	int			fd;
	struct perf_event_mmap_page *map;
	size_t			size;
};

/* What those who use events have seen; in memory that they share. */
struct counts {
	unsigned int	steps, opened, detached, found, mapped, removed, read, bad;
};

static struct counts *counts;
static struct slot slots[SLOTS];
static pid_t tasks[TASKS];
static int perf_test_type;
static unsigned int nr_tasks;
/* Which user of events this is, from 1. */
static __u64 stream;

static void end_task(unsigned int i)
{
	if (!tasks[i])
		return;
	kill(-tasks[i], SIGKILL);
	kill(tasks[i], SIGKILL);
	waitpid(tasks[i], NULL, 0);
}

/* There is none if memory is short. */
static void renew_task(unsigned int i)
{
	pid_t pid;

	end_task(i);
	nr_tasks++;
	tasks[i] = 0;
	pid = fork();
	if (pid > 0)
		tasks[i] = pid;
	if (pid)
		return;
	for (int slot = 0; slot < SLOTS; slot++) {
		if (slots[slot].fd >= 0)
			close(slots[slot].fd);
	}
	fuzz_reseed(stream * 1000000 + nr_tasks);
	fuzz_task();
}

static void random_type(struct perf_event_attr *attr)
{
	static const __u64 software[] = {
		PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK, PERF_COUNT_SW_PAGE_FAULTS,
		PERF_COUNT_SW_CONTEXT_SWITCHES, PERF_COUNT_SW_DUMMY,
	};

	attr->type = PERF_TYPE_SOFTWARE;
	attr->config = software[rnd_below(5)];
	attr->sample_period = MIN_PERIOD + (rnd_wide() >> 8);
	if (attr->config == PERF_COUNT_SW_PAGE_FAULTS || attr->config == PERF_COUNT_SW_DUMMY)
		attr->sample_period = rnd_below(3);
	if (one_in(8) && perf_test_type >= 0) {
		attr->type = perf_test_type;
		attr->config = rnd_below(2);
	}
	if (one_in(30)) {
		attr->type = rnd_below(16);
		attr->config = rnd_wide();
	}
}

static struct perf_event_attr random_attr(void)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .disabled = !one_in(20) };

	random_type(&attr);
	attr.sample_type = rnd() & (PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
				    PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_ID | PERF_SAMPLE_PERIOD |
				    PERF_SAMPLE_IDENTIFIER);
	if (one_in(3)) {
		attr.sample_type |= PERF_SAMPLE_REGS_USER;
		attr.sample_regs_user = rnd() & 0xff0fff;
	}
	if (one_in(6)) {
		attr.sample_type |= PERF_SAMPLE_STACK_USER;
		attr.sample_stack_user = 8 * rnd_below(64);
	}
	attr.inherit = !one_in(3);
	attr.exclude_kernel = !one_in(8);
	attr.exclude_hv = attr.exclude_kernel;
	attr.exclude_callchain_kernel = one_in(2);
	attr.write_backward = one_in(2);
	attr.defer_callchain = one_in(2);
	attr.defer_output = attr.defer_callchain;
	attr.enable_on_exec = one_in(4);
	attr.sample_id_all = one_in(2);
	attr.comm = one_in(3);
	attr.mmap = one_in(3);
	attr.mmap2 = attr.mmap;
	attr.build_id = attr.mmap2 && one_in(2);
	attr.task = one_in(3);
	attr.context_switch = one_in(6);
	attr.remove_on_exec = one_in(20);
	attr.inherit_thread = attr.inherit && one_in(6);
	if (one_in(4))
		attr.wakeup_events = rnd_wide();
	return attr;
}

static struct slot *random_slot(void)
{
	return &slots[rnd_below(SLOTS)];
}

static void close_slot(struct slot *slot)
{
	if (slot->map)
		munmap(slot->map, slot->size);
	if (slot->fd >= 0)
		close(slot->fd);
	*slot = (struct slot) { .fd = -1 };
}

/* The path of some name; false if there is none. */
static bool random_name(char *path, size_t size)
{
	DIR *dir = opendir(DIR_NAME);
	unsigned int skip = rnd_below(30);
	struct dirent *entry;

	path[0] = '\0';
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, size, DIR_NAME "/%s", entry->d_name);
		if (!skip--)
			break;
	}
	if (dir)
		closedir(dir);
	return path[0];
}

static void detach_slot(struct slot *slot)
{
	struct perf_event_detach args = {
		.size = one_in(20) ? rnd_wide() : sizeof(args),
		.pages = one_in(8) ? rnd_wide() : 1U << rnd_below(4),
		.aux_pages = one_in(50),
		.flags = one_in(50) ? rnd_wide() : 0,
	};

	if (!ioctl(slot->fd, PERF_EVENT_IOC_DETACH, one_in(50) ? NULL : &args))
		counts->detached++;
}

static void open_slot(struct slot *slot)
{
	struct perf_event_attr attr = random_attr();
	unsigned long flags = one_in(10) ? 0 : PERF_FLAG_DETACHED;
	int group = one_in(20) ? random_slot()->fd : -1;
	/* Or itself. */
	pid_t pid = one_in(4) ? 0 : tasks[rnd_below(TASKS)];

	close_slot(slot);
	if (one_in(20))
		flags |= 1UL << rnd_below(32);
	slot->fd = perf_open(&attr, one_in(30) ? -1 : pid, one_in(30) ? rnd_below(2) : -1, group,
			     flags & ~(unsigned long)PERF_FLAG_PID_CGROUP);
	if (slot->fd < 0)
		return;
	counts->opened++;
	if (one_in(10))
		return;
	detach_slot(slot);
	if (!one_in(10))
		ioctl(slot->fd, PERF_EVENT_IOC_ENABLE, 0);
}

static void open_name(struct slot *slot)
{
	char path[300];

	if (!random_name(path, sizeof(path)))
		return;
	close_slot(slot);
	slot->fd = open(path, one_in(10) ? O_RDONLY : O_RDWR);
	if (slot->fd >= 0)
		counts->found++;
}

static void bad(const char *what)
{
	ksft_print_msg("%s\n", what);
	__atomic_add_fetch(&counts->bad, 1, __ATOMIC_RELAXED);
}

/* Names come and go by perf alone. */
static void change_names(void)
{
	char path[300], other[320];

	if (!random_name(path, sizeof(path)))
		return;
	snprintf(other, sizeof(other), "%s.1", path);
	switch (rnd_below(8)) {
	case 0:
		if (!rename(path, other))
			bad("a name was changed");
		break;
	case 1:
		if (!link(path, other) || !symlink(path, other))
			bad("a name was made");
		break;
	case 2:
		if (open(other, O_CREAT | O_RDWR, 0600) >= 0 || !mkdir(other, 0700))
			bad("a file was made");
		break;
	case 3:
		truncate(path, rnd_wide());
		chmod(path, 0666);
		chown(path, NOBODY, NOBODY);
		break;
	default:
		if (!unlink(path))
			counts->removed++;
	}
}

static void map_slot(struct slot *slot)
{
	struct perf_event_detached_info info = { .size = sizeof(info) };
	int prot = PROT_READ | (one_in(10) ? PROT_WRITE : 0);
	size_t size;
	void *map;

	if (slot->map || ioctl(slot->fd, PERF_EVENT_IOC_DETACHED_INFO, &info) || !info.pages)
		return;
	size = (1UL + (one_in(20) ? rnd_below(20) : info.pages)) * PAGE;
	map = mmap(NULL, size, prot, one_in(20) ? MAP_PRIVATE : MAP_SHARED, slot->fd,
		   one_in(30) ? PAGE : 0);
	if (map == MAP_FAILED)
		return;
	if (prot & PROT_WRITE)
		bad("a buffer can be written to");
	counts->mapped++;
	slot->map = map;
	slot->size = size;
}

static void change_map(struct slot *slot)
{
	static const int advice[] = {
		MADV_DONTNEED, MADV_PAGEOUT, MADV_WILLNEED, MADV_REMOVE, MADV_DONTFORK,
		MADV_MERGEABLE,
	};

	if (!slot->map)
		return;
	switch (rnd_below(4)) {
	case 0:
		if (!mprotect(slot->map, slot->size, PROT_READ | PROT_WRITE))
			bad("a buffer was made writable");
		break;
	case 1:
		munmap(slot->map, slot->size);
		slot->map = NULL;
		break;
	default:
		madvise(slot->map, slot->size, advice[rnd_below(6)]);
	}
}

/* The records of an event whose task is gone follow each other from the first to the last byte. */
static void read_map(const struct slot *slot)
{
	const struct perf_event_mmap_page *map = slot->map;
	const struct perf_event_detached_info *info;
	__u64 at, end;
	bool backward;

	if (!map)
		return;
	info = info_of(map);
	if (__atomic_load_n(&info->state, __ATOMIC_ACQUIRE) != PERF_EVENT_DETACHED_EXITED)
		return;
	counts->read++;
	if (map->detached_size != sizeof(*info) || info->size != sizeof(*info) || !info->tid ||
	    map->data_size != slot->size - PAGE || map->data_offset != PAGE)
		bad("the user page is damaged");
	backward = (__s64)map->data_head < 0;
	at = backward ? map->data_head : 0;
	end = backward ? 0 : map->data_head;
	if (end - at > map->data_size)
		end = at + map->data_size;
	while (at != end) {
		const struct perf_event_header *header = (const void *)map + PAGE +
							 (at & (map->data_size - 1));

		/* The oldest one may be overwritten in part. */
		if (backward && header->size > end - at)
			break;
		if (header->size < sizeof(*header) || header->size % 8 ||
		    header->size > end - at || !header->type ||
		    header->type > PERF_RECORD_CALLCHAIN_DEFERRED + 64) {
			bad("a record is damaged");
			break;
		}
		at += header->size;
	}
}

static void change_slot(struct slot *slot)
{
	struct perf_event_detached_info info = { .size = one_in(2) ? sizeof(info) : rnd_wide() };
	struct pollfd pollfd = { .fd = slot->fd };
	__u64 period = MIN_PERIOD + (rnd_wide() >> 8);

	switch (rnd_below(14)) {
	case 0:
		ioctl(slot->fd, PERF_EVENT_IOC_DISABLE, rnd_below(2));
		break;
	case 1:
		ioctl(slot->fd, PERF_EVENT_IOC_REFRESH, rnd_below(5));
		break;
	case 2:
		ioctl(slot->fd, PERF_EVENT_IOC_PERIOD, &period);
		break;
	case 3:
		ioctl(slot->fd, PERF_EVENT_IOC_PAUSE_OUTPUT, rnd_below(2));
		break;
	case 4:
		ioctl(slot->fd, PERF_EVENT_IOC_SET_OUTPUT, random_slot()->fd);
		break;
	case 5:
		ioctl(slot->fd, PERF_EVENT_IOC_REATTACH, 0);
		break;
	case 6:
		if (info.size <= sizeof(info))
			ioctl(slot->fd, PERF_EVENT_IOC_DETACHED_INFO, &info);
		break;
	case 7:
		ioctl(slot->fd, PERF_EVENT_IOC_SET_FILTER, "common_pid != 0");
		break;
	case 8:
		poll(&pollfd, 1, 0);
		break;
	case 9:
		/* All numbers of this kind, but with none that asks for more than a page. */
		ioctl(slot->fd, _IOC(rnd_below(4), '$', 248 + rnd_below(8), rnd_below(256)), 0);
		break;
	case 10:
		ioctl(slot->fd, PERF_EVENT_IOC_RESET, 0);
		break;
	case 11:
		detach_slot(slot);
		break;
	default:
		ioctl(slot->fd, PERF_EVENT_IOC_ENABLE, rnd_below(2));
	}
}

static void find_by_pidfd(void)
{
	struct perffs_find find = { .size = one_in(10) ? rnd_wide() : sizeof(find) };
	int dir = open(DIR_NAME, O_RDONLY | O_DIRECTORY);
	pid_t pid = tasks[rnd_below(TASKS)];
	int pidfd = syscall(SYS_pidfd_open, pid ?: getpid(), one_in(2) ? PIDFD_THREAD : 0);

	find.pidfd = one_in(10) ? (int)rnd_wide() : pidfd;
	while (!ioctl(dir, PERFFS_IOC_FIND, &find)) {
		if (!memchr(find.name, '\0', sizeof(find.name)) || !find.id) {
			bad("a name that was found is damaged");
			break;
		}
	}
	close(pidfd);
	close(dir);
}

/* Only root may do that. */
static void change_limits(void)
{
	switch (rnd_below(6)) {
	case 0:
		set_sysctl(SYSCTL_KEEP, rnd_below(20));
		break;
	case 1:
		set_sysctl(SYSCTL_MAX, rnd_below(64));
		break;
	case 2:
		set_sysctl(SYSCTL, rnd_below(3));
		break;
	case 3:
		file_put("/proc/sys/vm/drop_caches", "3");
		break;
	default:
		set_sysctl(SYSCTL_MAX, 256);
		set_sysctl(SYSCTL, 2);
	}
}

static void step(void)
{
	struct slot *slot = random_slot();

	switch (rnd_below(24)) {
	case 0 ... 5:
		open_slot(slot);
		break;
	case 6 ... 8:
		open_name(slot);
		break;
	case 9 ... 11:
		map_slot(slot);
		break;
	case 12:
		change_map(slot);
		break;
	case 13 ... 14:
		read_map(slot);
		break;
	case 15:
		close_slot(slot);
		break;
	case 16:
		change_names();
		break;
	case 17:
		if (one_in(4))
			renew_task(rnd_below(TASKS));
		break;
	case 18:
		find_by_pidfd();
		break;
	case 19:
		if (!geteuid())
			change_limits();
		break;
	default:
		if (slot->fd >= 0)
			change_slot(slot);
	}
}

static bool has_tried(void)
{
	return counts->detached && counts->found && counts->mapped && counts->read;
}

/* Use events until the time is up. On a slow emulator, go on until enough was tried. */
static void use_events(void)
{
	unsigned int steps = 0;

	for (int i = 0; i < SLOTS; i++)
		slots[i].fd = -1;
	for (unsigned int i = 0; i < TASKS; i++)
		renew_task(i);
	while (counts->bad < 20 && (!fuzz_over() || (!has_tried() && steps < MIN_STEPS))) {
		fuzz_reseed(stream * 100000000 + steps++);
		step();
	}
	for (unsigned int i = 0; i < TASKS; i++)
		end_task(i);
	__atomic_add_fetch(&counts->steps, steps, __ATOMIC_RELAXED);
}

/* Be a task of the user until the end: with its last one, the kernel forgets what was charged. */
static void keep_user(void)
{
	if (fork())
		return;
	become(NOBODY);
	for (;;)
		pause();
}

/*
 * Can a user have one event, if that and its memory are all that a user may have? The memory of
 * root is not limited.
 */
static int has_room(const char *unused)
{
	struct rlimit limit = { 2 * PAGE, 2 * PAGE };
	struct perf_event_attr attr = clock_attr();
	int fd;

	setrlimit(RLIMIT_MEMLOCK, &limit);
	fd = open_pages(&attr, 0, 1);
	if (fd >= 0)
		ioctl(fd, PERF_EVENT_IOC_REATTACH, 0);
	return fd < 0 ? -fd : 0;
}

/* Is all given back that events had? What works do comes a little later. */
static bool has_room_as(uid_t uid)
{
	int ret = 0;

	for (int i = 0; i < 600; i++) {
		remove_names();
		ret = as_user(uid, has_room, NULL);
		if (!ret)
			return true;
		usleep(100000);
	}
	ksft_print_msg("user %u cannot have an event: %s\n", uid, strerror(ret));
	return false;
}

static bool all_is_given_back(const int values[NR_SYSCTLS])
{
	bool good;

	set_sysctl(SYSCTL, 2);
	set_sysctl(SYSCTL_MAX, 1);
	/* What RLIMIT_MEMLOCK allows. */
	set_sysctl(SYSCTL_MLOCK, 0);
	good = has_room_as(0) && has_room_as(NOBODY);
	restore_sysctls(values);
	return good;
}

int main(void)
{
	int values[NR_SYSCTLS];
	pid_t users[2];

	ksft_print_header();
	if (geteuid() || access(DIR_NAME, F_OK))
		ksft_exit_skip("needs root and CONFIG_PERF_DETACHED\n");
	ksft_set_plan(1);
	while (!umount(DIR_NAME))
		;
	if (!save_sysctls(values) || mount("perffs", DIR_NAME, "perffs", 0, NULL))
		ksft_exit_fail_msg("cannot mount perffs: %s\n", strerror(errno));
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	perf_test_type = pmu_type("perf_test");
	set_sysctl(SYSCTL, 2);
	fuzz_start();
	keep_user();
	for (unsigned int i = 0; i < 2; i++) {
		users[i] = fork();
		if (!users[i]) {
			if (i)
				become(NOBODY);
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			stream = 1 + i;
			use_events();
			_exit(0);
		}
	}
	for (unsigned int i = 0; i < 2; i++) {
		int status = -1;

		waitpid(users[i], &status, 0);
		if (status) {
			ksft_print_msg("user %u ended with %#x\n", i, status);
			counts->bad++;
		}
	}
	ksft_print_msg("%u steps: %u opened, %u detached, %u found, %u maps, %u removed, %u read\n",
		       counts->steps, counts->opened, counts->detached, counts->found,
		       counts->mapped, counts->removed, counts->read);
	ksft_test_result(all_is_given_back(values) && !counts->bad && has_tried(),
			 "detached events survive random use\n");
	umount(DIR_NAME);
	ksft_finished();
}
