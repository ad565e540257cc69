// SPDX-License-Identifier: GPL-2.0
/*
 * Detached events: they outlive their descriptors and their task, are found by name, and end by
 * unlink().
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "detaching.h"
#include "files.h"
#include "harness.h"

FIXTURE(detached) DETACHED_FIXTURE;
FIXTURE_SETUP(detached) DETACHED_SETUP
FIXTURE_TEARDOWN(detached) DETACHED_TEARDOWN

/* The descriptor is closed, the task runs on, and the event is found again. */
TEST_F(detached, outlives_its_descriptor)
{
	struct perf_event_attr attr = clock_attr(), copy;
	struct perf_event_detached_info info = { .size = sizeof(info) };
	struct perf_event_mmap_page *map;
	int fd;

	attr.sample_period = 1000000;
	fd = open_detached(&attr, 0);
	ASSERT_LE(0, fd);
	close(fd);
	for (int i = 0; i < 10; i++)
		spin(false);

	ASSERT_EQ(1, names(self->name, sizeof(self->name)));
	fd = open(self->name, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
	map = map_event(fd, PROT_READ);
	ASSERT_NE(NULL, map);
	EXPECT_TRUE(any_in_spin(map));
	EXPECT_EQ(0, ioctl(fd, PERF_EVENT_IOC_DETACHED_INFO, &info));
	EXPECT_EQ(0, memcmp(&info, info_of(map), sizeof(info)));
	EXPECT_EQ(sizeof(info), map->detached_size);
	memcpy(&copy, (void *)map + info.attr_offset, sizeof(copy));
	EXPECT_LE(sizeof(copy), copy.size);
	EXPECT_EQ(attr.type, copy.type);
	EXPECT_EQ(attr.config, copy.config);
	EXPECT_EQ(attr.sample_period, copy.sample_period);
	EXPECT_EQ(attr.sample_type, copy.sample_type);
	EXPECT_TRUE(copy.write_backward && copy.exclude_kernel);
	EXPECT_EQ(PERF_EVENT_DETACHED_LIVE, info.state);
	EXPECT_EQ(getpid(), info.pid);
	EXPECT_EQ(gettid(), info.tid);
	EXPECT_STREQ("detached", info.comm);
	munmap(map, (1 + PAGES) * PAGE);

	EXPECT_EQ(0, unlink(self->name));
	EXPECT_EQ(-1, unlink(self->name));
	EXPECT_EQ(ENOENT, errno);
	EXPECT_EQ(-1, ioctl(fd, PERF_EVENT_IOC_ENABLE, 0));
	EXPECT_EQ(ENODEV, errno);
	close(fd);
}

static pid_t start_crash(void)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	raise(SIGSTOP);
	for (int i = 0; i < 10; i++)
		spin(false);
	spin(true);
	_exit(1);
}

/* The task crashes, and a descriptor that waits is told. */
TEST_F(detached, outlives_its_task)
{
	struct perf_event_attr attr = clock_attr();
	const struct perf_event_detached_info *info;
	struct perf_event_mmap_page *map;
	struct pollfd pollfd = {};
	pid_t pid = start_crash();
	int status;

	ASSERT_EQ(pid, waitpid(pid, &status, WUNTRACED));
	pollfd.fd = open_detached(&attr, pid);
	ASSERT_LE(0, pollfd.fd);
	EXPECT_EQ(0, poll(&pollfd, 1, 0));
	kill(pid, SIGCONT);
	EXPECT_EQ(1, poll(&pollfd, 1, 60000));
	EXPECT_EQ(POLLHUP, pollfd.revents);
	close(pollfd.fd);
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));

	ASSERT_EQ(1, names(self->name, sizeof(self->name)));
	pollfd.fd = open(self->name, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, pollfd.fd);
	map = map_event(pollfd.fd, PROT_READ);
	ASSERT_NE(NULL, map);
	info = info_of(map);
	EXPECT_EQ(PERF_EVENT_DETACHED_EXITED, info->state);
	EXPECT_EQ(status, info->exit_code);
	EXPECT_EQ(pid, info->pid);
	EXPECT_LT(0, info->exit_time);
	EXPECT_LT(0, newest_in_spin(map));
	/* The mapping outlives the name and the descriptor. */
	EXPECT_EQ(0, unlink(self->name));
	close(pollfd.fd);
	EXPECT_EQ(pid, info->tid);
	munmap(map, (1 + PAGES) * PAGE);
}

/* A buffer that is not overwritten keeps what came first, and counts what is lost. */
TEST_F(detached, fills_once)
{
	struct perf_event_attr attr = clock_attr();
	const struct perf_event_detached_info *info;
	struct perf_event_mmap_page *map;
	pid_t pid = start_crash();
	int status, fd;

	attr.write_backward = 0;
	attr.sample_period = 10000;
	ASSERT_EQ(pid, waitpid(pid, &status, WUNTRACED));
	fd = open_pages(&attr, pid, 1);
	ASSERT_LE(0, fd);
	map = map_pages(fd, PROT_READ, 1);
	ASSERT_NE(NULL, map);
	kill(pid, SIGCONT);
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	info = info_of(map);
	EXPECT_LT(0, map->data_head);
	EXPECT_GE(map->data_size, map->data_head);
	EXPECT_LT(0, info->lost);
	EXPECT_EQ(0, map->data_tail);
	munmap(map, 2 * PAGE);
	close(fd);
	EXPECT_EQ(1, remove_names());
}

/* A descriptor that waits is told when somebody ends the event. */
TEST_F(detached, unlinked_in_poll)
{
	struct perf_event_attr attr = clock_attr();
	struct pollfd pollfd = { .fd = open_detached(&attr, 0) };
	pid_t pid;

	ASSERT_LE(0, pollfd.fd);
	pid = fork();
	if (!pid) {
		usleep(100000);
		_exit(remove_names() != 1);
	}
	EXPECT_EQ(1, poll(&pollfd, 1, 60000));
	EXPECT_EQ(POLLHUP, pollfd.revents);
	EXPECT_EQ(pid, waitpid(pid, NULL, 0));
	close(pollfd.fd);
}

/* The task exits before its event gets a buffer. */
TEST_F(detached, task_that_is_gone)
{
	struct perf_event_attr attr = clock_attr();
	const struct perf_event_detached_info *info;
	struct perf_event_mmap_page *map;
	pid_t pid = start_crash();
	int status, fd;

	ASSERT_EQ(pid, waitpid(pid, &status, WUNTRACED));
	fd = perf_open(&attr, pid, -1, -1, PERF_FLAG_DETACHED);
	ASSERT_LE(0, fd);
	kill(pid, SIGKILL);
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, detach_pages(fd, PAGES));
	map = map_event(fd, PROT_READ);
	ASSERT_NE(NULL, map);
	info = info_of(map);
	EXPECT_EQ(PERF_EVENT_DETACHED_EXITED, info->state);
	EXPECT_EQ(SIGKILL, info->exit_code);
	EXPECT_EQ(pid, info->pid);
	close(fd);
	EXPECT_EQ(1, remove_names());
}

/* The descriptor owns the event again, until it is detached once more. */
TEST_F(detached, reattached)
{
	struct perf_event_attr attr = clock_attr();
	int fd = open_detached(&attr, 0);

	ASSERT_LE(0, fd);
	EXPECT_EQ(0, ioctl(fd, PERF_EVENT_IOC_REATTACH, 0));
	EXPECT_EQ(0, names(self->name, sizeof(self->name)));
	EXPECT_EQ(-1, ioctl(fd, PERF_EVENT_IOC_REATTACH, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-EINVAL, detach_pages(fd, 2 * PAGES));
	EXPECT_EQ(0, detach_pages(fd, PAGES));
	EXPECT_EQ(-EBUSY, detach_pages(fd, PAGES));
	EXPECT_EQ(1, names(self->name, sizeof(self->name)));
	EXPECT_EQ(0, ioctl(fd, PERF_EVENT_IOC_REATTACH, 0));
	/* Its end is that of the event. */
	close(fd);
}

/* Without a buffer it is an ordinary event that cannot be mapped. */
TEST_F(detached, never_detached)
{
	struct perf_event_attr attr = clock_attr();
	int fd = perf_open(&attr, 0, -1, -1, PERF_FLAG_DETACHED);

	ASSERT_LE(0, fd);
	EXPECT_EQ(NULL, map_event(fd, PROT_READ));
	EXPECT_EQ(0, ioctl(fd, PERF_EVENT_IOC_ENABLE, 0));
	close(fd);
}

static int wrong_sizes(int fd)
{
	const unsigned int wrong[] = { 0, 3, 1U << 31, ~0U };
	int errors = 0;

	for (unsigned int i = 0; i < ARRAY_SIZE(wrong); i++)
		errors += detach_pages(fd, wrong[i]) == -EINVAL;
	return ARRAY_SIZE(wrong) - errors;
}

/* What cannot be detached is refused, and leaves nothing behind. */
TEST_F(detached, refused)
{
	struct perf_event_detach args = { .size = sizeof(args), .pages = PAGES };
	struct perf_event_attr attr = clock_attr(), plain = attr, other = attr;
	int fd, plain_fd = perf_open(&plain, 0, -1, -1, 0);

	ASSERT_LE(0, plain_fd);
	EXPECT_EQ(-EOPNOTSUPP, perf_open(&attr, -1, 0, -1, PERF_FLAG_DETACHED));
	EXPECT_EQ(-EOPNOTSUPP, perf_open(&attr, 0, 0, -1, PERF_FLAG_DETACHED));
	EXPECT_EQ(-EINVAL, perf_open(&attr, 0, -1, plain_fd, PERF_FLAG_DETACHED));
	/* kthreadd */
	EXPECT_EQ(-EINVAL, perf_open(&attr, 2, -1, -1, PERF_FLAG_DETACHED));
	other.disabled = 0;
	EXPECT_EQ(-EINVAL, perf_open(&other, 0, -1, -1, PERF_FLAG_DETACHED));
	other = attr;
	other.inherit = 1;
	other.exclude_hv = 0;
	EXPECT_EQ(-EINVAL, perf_open(&other, 0, -1, -1, PERF_FLAG_DETACHED));
	/* A child would read the name of the function from its own memory. */
	other.exclude_hv = 1;
	other.type = file_number("/sys/bus/event_source/devices", "uprobe/type", NULL);
	other.config = 0;
	other.config1 = (unsigned long)"/proc/self/exe";
	EXPECT_EQ(-EOPNOTSUPP, perf_open(&other, 0, -1, -1, PERF_FLAG_DETACHED));
	other.type = file_number("/sys/bus/event_source/devices", "kprobe/type", NULL);
	other.config1 = (unsigned long)"do_exit";
	EXPECT_EQ(-EOPNOTSUPP, perf_open(&other, 0, -1, -1, PERF_FLAG_DETACHED));
	other.inherit = 0;
	fd = perf_open(&other, 0, -1, -1, PERF_FLAG_DETACHED);
	EXPECT_LE(0, fd);
	close(fd);
	other = attr;
	other.remove_on_exec = 1;
	EXPECT_EQ(-EINVAL, perf_open(&other, 0, -1, -1, PERF_FLAG_DETACHED));
	other.sigtrap = 1;
	EXPECT_EQ(-EINVAL, perf_open(&other, 0, -1, -1, PERF_FLAG_DETACHED));
	EXPECT_EQ(-ENOTTY, detach_pages(plain_fd, PAGES));

	fd = perf_open(&attr, 0, -1, -1, PERF_FLAG_DETACHED);
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, wrong_sizes(fd));
	args.aux_pages = 1;
	EXPECT_EQ(-1, ioctl(fd, PERF_EVENT_IOC_DETACH, &args));
	EXPECT_EQ(EINVAL, errno);
	args.aux_pages = 0;
	args.flags = 1;
	EXPECT_EQ(-1, ioctl(fd, PERF_EVENT_IOC_DETACH, &args));
	EXPECT_EQ(EINVAL, errno);
	args.flags = 0;
	args.size = PAGE + 1;
	EXPECT_EQ(-1, ioctl(fd, PERF_EVENT_IOC_DETACH, &args));
	EXPECT_EQ(E2BIG, errno);
	args.size = sizeof(args) - 1;
	EXPECT_EQ(-1, ioctl(fd, PERF_EVENT_IOC_DETACH, &args));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, ioctl(fd, PERF_EVENT_IOC_DETACH, NULL));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-EINVAL, perf_open(&plain, 0, -1, fd, 0));
	EXPECT_EQ(0, detach_pages(fd, PAGES));
	/* Each has a buffer, so nothing else stands against it. */
	EXPECT_EQ(-1, ioctl(plain_fd, PERF_EVENT_IOC_SET_OUTPUT, fd));
	ASSERT_NE(NULL, map_event(plain_fd, PROT_READ));
	EXPECT_EQ(-1, ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, plain_fd));
	EXPECT_EQ(NULL, map_event(fd, PROT_READ | PROT_WRITE));
	EXPECT_EQ(NULL, map_pages(fd, PROT_READ, 2 * PAGES));
	EXPECT_EQ(0, ioctl(fd, PERF_EVENT_IOC_REATTACH, 0));
	close(fd);
	close(plain_fd);
}

/* A task that executes a file that its user may not read loses the event. */
TEST_F(detached, privileged_exec)
{
	char path[] = "/tmp/detached.XXXXXX", command[128];
	struct perf_event_attr attr = clock_attr();
	const struct perf_event_detached_info *info;
	struct perf_event_mmap_page *map;
	int fd, status;
	pid_t pid;

	close(mkstemp(path));
	snprintf(command, sizeof(command), "cp /proc/%d/exe %s && chmod 0711 %s", getpid(), path,
		 path);
	ASSERT_EQ(0, system(command));
	pid = fork();
	if (!pid) {
		become(NOBODY);
		raise(SIGSTOP);
		spin(false);
		execl(path, path, "wait", NULL);
		_exit(1);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, WUNTRACED));
	fd = open_detached(&attr, pid);
	ASSERT_LE(0, fd);
	map = map_event(fd, PROT_READ);
	ASSERT_NE(NULL, map);
	kill(pid, SIGCONT);
	/* It stops in the new program. */
	ASSERT_EQ(pid, waitpid(pid, &status, WUNTRACED));
	info = info_of(map);
	EXPECT_EQ(PERF_EVENT_DETACHED_EXECUTED, info->state);
	EXPECT_TRUE(any_in_spin(map));
	kill(pid, SIGKILL);
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(PERF_EVENT_DETACHED_EXECUTED, info->state);
	munmap(map, (1 + PAGES) * PAGE);
	close(fd);
	unlink(path);
	EXPECT_EQ(1, remove_names());
}

/* Names come and go while others open them and the task runs. */
TEST_F(detached, storm)
{
	struct perf_event_attr attr = clock_attr();
	pid_t pid = fork();
	int status = -1, detached = 0;

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			if (names(self->name, sizeof(self->name))) {
				int fd = open(self->name, O_RDWR);

				if (fd >= 0) {
					map_event(fd, PROT_READ);
					unlink(self->name);
					close(fd);
				}
			}
		}
	}
	for (int i = 0; i < 300; i++) {
		int fd = open_detached(&attr, i % 2 ? 0 : pid);

		/* Its name was removed before it was enabled. */
		if (fd == -ENODEV)
			continue;
		ASSERT_LE(0, fd);
		detached++;
		if (i % 3)
			ioctl(fd, PERF_EVENT_IOC_REATTACH, 0);
		close(fd);
	}
	kill(pid, SIGKILL);
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(SIGKILL, status);
	EXPECT_LT(0, detached);
	remove_names();
}

/* The name of the next event of a pidfd's process or thread, after that with @find's id. */
static int find_name(int pidfd, struct perffs_find *find)
{
	int dir = open(DIR_NAME, O_RDONLY | O_DIRECTORY | O_CLOEXEC), ret;

	find->size = sizeof(*find);
	find->pidfd = pidfd;
	ret = ioctl(dir, PERFFS_IOC_FIND, find) ? -errno : 0;
	close(dir);
	return ret;
}

/* Events are found by a pidfd, also of a process that is gone, and none of others. */
TEST_F(detached, found_by_pidfd)
{
	struct perf_event_attr attr = clock_attr();
	char path[sizeof(DIR_NAME) + 70];
	struct perffs_find find = {};
	int first, second, own, pidfd;
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
	}
	own = open_detached(&attr, 0);
	first = open_detached(&attr, pid);
	second = open_detached(&attr, pid);
	ASSERT_TRUE(own >= 0 && first >= 0 && second >= 0);
	pidfd = syscall(SYS_pidfd_open, pid, 0);
	ASSERT_LE(0, pidfd);
	for (int dead = 0; dead < 2; dead++) {
		find.id = 0;
		for (int nr = 0; nr < 2; nr++) {
			EXPECT_EQ(0, find_name(pidfd, &find));
			snprintf(path, sizeof(path), DIR_NAME "/%s", find.name);
			EXPECT_EQ(0, access(path, F_OK));
			EXPECT_EQ(pid, atoi(find.name));
		}
		EXPECT_EQ(-ENOENT, find_name(pidfd, &find));
		if (dead)
			break;
		kill(pid, SIGKILL);
		EXPECT_EQ(pid, waitpid(pid, NULL, 0));
	}
	EXPECT_EQ(-EBADF, find_name(own, &find));
	EXPECT_EQ(-EBADF, find_name(-1, &find));
	close(first);
	close(second);
	close(own);
	EXPECT_EQ(3, remove_names());
	find.id = 0;
	EXPECT_EQ(-ENOENT, find_name(pidfd, &find));
}

/* A thread says its number, and executes a file when it is told. */
static int tid_pipe[2], exec_pipe[2];

static void *exec_main(void *unused)
{
	pid_t tid = gettid();
	char byte;

	if (write(tid_pipe[1], &tid, sizeof(tid)) != sizeof(tid) ||
	    read(exec_pipe[0], &byte, 1) != 1)
		_exit(1);
	execl("/proc/self/exe", "detached", "wait", NULL);
	_exit(1);
}

/* The event of a thread that has executed a file is found by the number that it has then. */
TEST_F(detached, found_after_exec)
{
	struct perf_event_attr attr = clock_attr();
	struct perffs_find find = {};
	char name[sizeof(find.name)];
	int fd, pidfd, status;
	pthread_t thread;
	pid_t pid, tid;

	ASSERT_EQ(0, pipe(tid_pipe) | pipe(exec_pipe));
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pthread_create(&thread, NULL, exec_main, NULL);
		for (;;)
			pause();
	}
	ASSERT_EQ(sizeof(tid), read(tid_pipe[0], &tid, sizeof(tid)));
	ASSERT_NE(pid, tid);
	fd = open_detached(&attr, tid);
	ASSERT_LE(0, fd);
	ASSERT_EQ(1, write(exec_pipe[1], "", 1));
	ASSERT_EQ(pid, waitpid(pid, &status, WUNTRACED));
	ASSERT_TRUE(WIFSTOPPED(status));
	/* PIDFD_THREAD */
	pidfd = syscall(SYS_pidfd_open, pid, O_EXCL);
	ASSERT_LE(0, pidfd);
	snprintf(name, sizeof(name), "%d.%d.", pid, tid);
	for (int dead = 0; dead < 2; dead++) {
		find.id = 0;
		EXPECT_EQ(0, find_name(pidfd, &find));
		EXPECT_EQ(0, strncmp(name, find.name, strlen(name)));
		EXPECT_EQ(-ENOENT, find_name(pidfd, &find));
		if (dead)
			break;
		kill(pid, SIGKILL);
		EXPECT_EQ(pid, waitpid(pid, NULL, 0));
	}
	close(fd);
	EXPECT_EQ(1, remove_names());
}

#define TRACING	"/sys/kernel/tracing"
#define PROBE	"unwind_sched_in"

/* Count how often perf looks for events of the next task. */
static int probe_switches(bool on)
{
	if (!on) {
		file_put(TRACING "/events/kprobes/" PROBE "/enable", "0");
		return file_put(TRACING "/kprobe_events", "-:" PROBE);
	}
	if (file_put(TRACING "/kprobe_events", "p:" PROBE " __perf_event_task_sched_in"))
		return -1;
	return file_put(TRACING "/events/kprobes/" PROBE "/enable", "1");
}

/* How often perf looks during some context switches. */
static long looks(void)
{
	long before = file_number(TRACING, "kprobe_profile", "  " PROBE);

	for (int i = 0; i < 10; i++)
		usleep(1000);
	return file_number(TRACING, "kprobe_profile", "  " PROBE) - before;
}

/* Switches of other tasks do not look for an event that stays without its task. It ends once. */
TEST_F(detached, costs_nothing_without_its_task)
{
	struct perf_event_attr attr = clock_attr();
	pid_t pid = fork();
	int fd, other;

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
	}
	probe_switches(false);
	if (probe_switches(true)) {
		kill(pid, SIGKILL);
		SKIP(return, "needs CONFIG_KPROBE_EVENTS and tracefs");
	}
	fd = open_detached(&attr, pid);
	ASSERT_LE(0, fd);
	EXPECT_LT(0, looks());
	kill(pid, SIGKILL);
	EXPECT_EQ(pid, waitpid(pid, NULL, 0));
	close(fd);
	/* That is a second later. */
	for (int i = 0; i < 600 && looks(); i++)
		usleep(100000);
	EXPECT_EQ(0, looks());

	fd = open_detached(&attr, 0);
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, ioctl(fd, PERF_EVENT_IOC_REATTACH, 0));
	EXPECT_EQ(1, remove_names());
	/* The other one is freed when there is room for one more, and a second later that shows. */
	set_sysctl(SYSCTL_MAX, 2);
	other = open_detached(&attr, 0);
	for (int i = 0; i < 600 && other == -EDQUOT; i++) {
		usleep(100000);
		other = open_detached(&attr, 0);
	}
	ASSERT_LE(0, other);
	EXPECT_EQ(0, ioctl(other, PERF_EVENT_IOC_REATTACH, 0));
	close(other);
	sleep(2);
	EXPECT_LT(0, looks());
	close(fd);
	EXPECT_EQ(0, probe_switches(false));
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "wait")) {
		raise(SIGSTOP);
		return 0;
	}
	return test_harness_run(argc, argv);
}
