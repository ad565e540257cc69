// SPDX-License-Identifier: GPL-2.0
/*
 * Who may detach events, find them and end them, and how many: what is charged is given back, and
 * of those without a task only the latest stay.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "detaching.h"
#include "harness.h"

FIXTURE(detached) DETACHED_FIXTURE;
FIXTURE_SETUP(detached) DETACHED_SETUP
FIXTURE_TEARDOWN(detached) DETACHED_TEARDOWN

static int open_own(const char *unused)
{
	struct perf_event_attr attr = clock_attr();
	int fd = perf_open(&attr, 0, -1, -1, PERF_FLAG_DETACHED);

	return fd < 0 ? -fd : 0;
}

static int open_in_namespace(const char *unused)
{
	/* It has all capabilities there. */
	return unshare(CLONE_NEWUSER) ? 99 : open_own(NULL);
}

static int open_name(const char *name)
{
	int fd = open(name, O_RDWR);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

static int remove_name(const char *name)
{
	return unlink(name) ? errno : 0;
}

static int make_name(const char *unused)
{
	return open(DIR_NAME "/new", O_RDWR | O_CREAT, 0600) < 0 ? errno : 0;
}

/* Who may open such an event, and find, read and end it. */
TEST_F(detached, permissions)
{
	struct perf_event_attr attr = clock_attr();
	int fd;

	EXPECT_EQ(EACCES, as_user(NOBODY, open_own, NULL));
	set_sysctl(SYSCTL, 2);
	EXPECT_EQ(0, as_user(NOBODY, open_own, NULL));
	EXPECT_EQ(EACCES, as_user(NOBODY, open_in_namespace, NULL));
	set_sysctl(SYSCTL, 0);
	EXPECT_EQ(EOPNOTSUPP, as_user(NOBODY, open_own, NULL));
	EXPECT_EQ(-EOPNOTSUPP, open_detached(&attr, 0));
	set_sysctl(SYSCTL, 1);

	fd = open_detached(&attr, 0);
	ASSERT_LE(0, fd);
	close(fd);
	ASSERT_EQ(1, names(self->name, sizeof(self->name)));
	EXPECT_EQ(EACCES, as_user(NOBODY, open_name, self->name));
	EXPECT_EQ(EPERM, as_user(NOBODY, remove_name, self->name));
	EXPECT_EQ(EACCES, as_user(NOBODY, make_name, NULL));
	EXPECT_NE(0, make_name(NULL));
	EXPECT_EQ(0, open_name(self->name));
	EXPECT_EQ(-1, open(self->name, O_RDONLY));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(-1, open(self->name, O_WRONLY));
	EXPECT_EQ(EACCES, errno);
	/* It was opened with CAP_PERFMON, so that the owner does not get what only that may see. */
	EXPECT_EQ(0, chown(self->name, NOBODY, NOBODY));
	EXPECT_EQ(EACCES, as_user(NOBODY, open_name, self->name));
	EXPECT_EQ(0, as_user(NOBODY, remove_name, self->name));
}

/* Detach an event of this task, stop, and exit. */
static int own_and_stop(const char *dumpable)
{
	struct perf_event_attr attr = clock_attr();

	if (open_detached(&attr, 0) < 0)
		return 1;
	prctl(PR_SET_DUMPABLE, !!dumpable);
	raise(SIGSTOP);
	return 0;
}

/* An ordinary user finds the events of own tasks, as long as these may be traced, or are gone. */
static void found_by_owner(struct __test_metadata *_metadata, const char *dumpable)
{
	char name[300];
	pid_t pid = fork();
	int status;

	if (!pid) {
		become(NOBODY);
		_exit(own_and_stop(dumpable));
	}
	ASSERT_EQ(pid, waitpid(pid, &status, WUNTRACED));
	ASSERT_TRUE(WIFSTOPPED(status));
	ASSERT_EQ(1, names(name, sizeof(name)));
	EXPECT_EQ(dumpable ? 0 : EACCES, as_user(NOBODY, open_name, name));
	EXPECT_EQ(EACCES, as_user(NOBODY - 1, open_name, name));
	kill(pid, SIGCONT);
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, as_user(NOBODY, open_name, name));
	EXPECT_EQ(EACCES, as_user(NOBODY - 1, open_name, name));
	EXPECT_EQ(EPERM, as_user(NOBODY - 1, remove_name, name));
	EXPECT_EQ(0, as_user(NOBODY, remove_name, name));
}

TEST_F(detached, of_own_tasks)
{
	set_sysctl(SYSCTL, 2);
	found_by_owner(_metadata, "dumpable");
	found_by_owner(_metadata, NULL);
}

/* Become a user with CAP_SYS_PTRACE, and detach an event of a task of another user. */
static int detach_by_tracer(const char *task)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {};
	struct perf_event_attr attr = clock_attr();
	char name[300];
	int fd;

	data[0].effective = 1 << CAP_SYS_PTRACE;
	data[0].permitted = data[0].effective;
	if (prctl(PR_SET_KEEPCAPS, 1) || setresgid(NOBODY, NOBODY, NOBODY) ||
	    setresuid(NOBODY, NOBODY, NOBODY) || syscall(SYS_capset, &header, data))
		return 99;
	fd = open_detached(&attr, atoi(task));
	if (fd < 0)
		return -fd;
	close(fd);
	/* With that capability, the name can be opened, too. */
	return names(name, sizeof(name)) == 1 ? open_name(name) : 98;
}

/* What a capability has let a user record is not for that user's programs without it. */
TEST_F(detached, of_another_user)
{
	pid_t pid = fork();
	char task[16];

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(1);
	}
	set_sysctl(SYSCTL, 2);
	snprintf(task, sizeof(task), "%d", pid);
	EXPECT_EQ(0, as_user(0, detach_by_tracer, task));
	ASSERT_EQ(1, names(self->name, sizeof(self->name)));
	EXPECT_EQ(EACCES, as_user(NOBODY, open_name, self->name));
	kill(pid, SIGKILL);
	EXPECT_EQ(pid, waitpid(pid, NULL, 0));
	EXPECT_EQ(EACCES, as_user(NOBODY, open_name, self->name));
	EXPECT_EQ(0, as_user(NOBODY, remove_name, self->name));
}

/* How many buffers of @PAGES an ordinary user may have who may lock so many @pages. */
static int count_buffers(const char *pages)
{
	struct perf_event_attr attr = clock_attr();
	struct rlimit limit = { atoi(pages) * PAGE, atoi(pages) * PAGE };
	int nr, fd = 0;

	if (setrlimit(RLIMIT_MEMLOCK, &limit))
		return 98;
	for (nr = 0; nr < 50 && fd >= 0; nr++)
		fd = open_detached(&attr, 0);
	if (fd != -EPERM)
		return 99;
	if (remove_names() != nr - 1)
		return 97;
	return nr - 1;
}

/* What was unlinked is given back a little later. */
static int most_buffers(const char *pages, int wanted)
{
	int nr = -1;

	for (int i = 0; i < 1000 && nr != wanted; i++) {
		usleep(i ? 10000 : 0);
		nr = as_user(NOBODY, count_buffers, pages);
		if (nr > wanted)
			break;
	}
	return nr;
}

/* The limit of all events of a user, and RLIMIT_MEMLOCK: to the page. What ends is given back. */
TEST_F(detached, charged)
{
	if (sysconf(_SC_NPROCESSORS_ONLN) != 2)
		SKIP(return, "needs two CPUs");
	set_sysctl(SYSCTL, 2);
	/* This is for each CPU: two pages less than two buffers need. */
	set_sysctl(SYSCTL_MLOCK, PAGES * PAGE / 1024);
	for (int i = 0; i < 10; i++)
		EXPECT_EQ(1, most_buffers("1", 1));
	EXPECT_EQ(2, most_buffers("2", 2));
}

/* Detach events until that fails. Returns how many could be; *@error is why no more. */
static int detach_many(int most, int *error)
{
	struct perf_event_attr attr = clock_attr();
	int fd;

	for (int nr = 0; nr < most; nr++) {
		fd = open_pages(&attr, 0, 1);
		if (fd < 0) {
			*error = fd;
			return nr;
		}
		close(fd);
	}
	return most;
}

/* The number of a user's events is limited, also for root; ends give back. */
TEST_F(detached, no_more_than_max)
{
	int error = 0, nr = 0;

	set_sysctl(SYSCTL_MAX, 3);
	ASSERT_EQ(3, detach_many(10, &error));
	EXPECT_EQ(-EDQUOT, error);
	EXPECT_EQ(3, remove_names());
	/* What was unlinked is given back a little later. */
	for (int i = 0; i < 3000 && nr < 3; i++) {
		usleep(10000);
		nr += detach_many(3 - nr, &error);
	}
	EXPECT_EQ(3, nr);
	EXPECT_EQ(0, detach_many(1, &error));
	EXPECT_EQ(-EDQUOT, error);
	EXPECT_EQ(3, remove_names());
}

/* A task exits that has detached an event of its own; false on failure. */
static bool exit_with_event(pid_t *pid)
{
	int status = -1;

	*pid = fork();
	if (!*pid) {
		int error;

		_exit(detach_many(1, &error) != 1);
	}
	return waitpid(*pid, &status, 0) == *pid && !status;
}

/* Find the name of a task's event; false if there is none. */
static bool find_name(pid_t pid, char *path, size_t size)
{
	char pattern[64];
	bool found;
	glob_t names = {};

	snprintf(pattern, sizeof(pattern), DIR_NAME "/%d.%d.*", pid, pid);
	found = !glob(pattern, 0, NULL, &names);
	if (found)
		snprintf(path, size, "%s", names.gl_pathv[0]);
	globfree(&names);
	return found;
}

/* Wait until only @nr names are left. */
static int names_left(int nr)
{
	char path[300];

	for (int i = 0; i < 3000 && names(path, sizeof(path)) > nr; i++)
		usleep(10000);
	return names(path, sizeof(path));
}

/* Of events whose task has exited, those stay that exited last, or were opened. */
TEST_F(detached, keeps_the_latest)
{
	int fd, error;
	pid_t pid[4];

	set_sysctl(SYSCTL_KEEP, 2);
	ASSERT_TRUE(exit_with_event(&pid[0]));
	ASSERT_TRUE(exit_with_event(&pid[1]));
	EXPECT_EQ(2, names_left(2));
	/* Now the second one is the one that was used the longest time ago. */
	ASSERT_TRUE(find_name(pid[0], self->name, sizeof(self->name)));
	fd = open(self->name, O_RDWR);
	ASSERT_LE(0, fd);
	ASSERT_TRUE(exit_with_event(&pid[2]));
	EXPECT_EQ(2, names_left(2));
	EXPECT_TRUE(find_name(pid[0], self->name, sizeof(self->name)));
	EXPECT_FALSE(find_name(pid[1], self->name, sizeof(self->name)));
	EXPECT_TRUE(find_name(pid[2], self->name, sizeof(self->name)));

	/* That of a task that lives is none of them. */
	EXPECT_EQ(1, detach_many(1, &error));
	ASSERT_TRUE(exit_with_event(&pid[3]));
	EXPECT_EQ(3, names_left(3));
	EXPECT_FALSE(find_name(pid[0], self->name, sizeof(self->name)));
	EXPECT_TRUE(find_name(getpid(), self->name, sizeof(self->name)));
	/* Its descriptor is open. */
	EXPECT_EQ(-1, ioctl(fd, PERF_EVENT_IOC_ENABLE, 0));
	EXPECT_EQ(ENODEV, errno);
	close(fd);
	EXPECT_EQ(3, remove_names());
}

/* With 0, an event ends with its task, and one of a task that is gone cannot stay. */
TEST_F(detached, keeps_none)
{
	struct perf_event_attr attr = clock_attr();
	pid_t pid;
	int fd;

	set_sysctl(SYSCTL_KEEP, 0);
	ASSERT_TRUE(exit_with_event(&pid));
	EXPECT_EQ(0, names_left(0));

	pid = fork();
	if (!pid) {
		pause();
		_exit(1);
	}
	fd = perf_open(&attr, pid, -1, -1, PERF_FLAG_DETACHED);
	ASSERT_LE(0, fd);
	kill(pid, SIGKILL);
	EXPECT_EQ(pid, waitpid(pid, NULL, 0));
	EXPECT_EQ(0, detach_pages(fd, PAGES));
	EXPECT_EQ(0, names_left(0));
	close(fd);
}

TEST_HARNESS_MAIN
