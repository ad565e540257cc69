// SPDX-License-Identifier: GPL-2.0
/*
 * Adding a section through /dev/unwind_sframe meets trouble: its file cannot be read, or not
 * now, or memory is short. It fails with the reason and leaves nothing behind.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "fuse.h"
#include "inject.h"
#include "sframe_device.h"
#include "harness.h"

/* Opening the device and adding a section have fewer places to fail. */
#define MAX_FAULTS	1000

FIXTURE(side) SIDE_FIXTURE;
FIXTURE_SETUP(side) SIDE_SETUP
FIXTURE_TEARDOWN(side) SIDE_TEARDOWN

/* Open the device and add a section with the nth failure. 0, or a positive errno. */
static int add_with(const struct unwind_sframe_section *section, unsigned int nth, bool *unused)
{
	int fd, error;

	arm(nth);
	fd = device();
	error = fd < 0 ? errno : add_section(fd, section);
	*unused = disarm();
	if (fd >= 0)
		close(fd);
	return error;
}

TEST_F(side, each_failure)
{
	const int file = section_file(&self->a.image, NULL);
	const struct unwind_sframe_section section = section_of(&self->a.image, file, ID_A);
	unsigned int nth = 0, failed = 0;
	bool unused = false;

	if (!arm_init() || !set_knobs())
		SKIP(return, INJECT_NEEDS);
	while (!unused && nth < MAX_FAULTS) {
		int error = add_with(&section, ++nth, &unused);

		EXPECT_TRUE(!error || error == ENOMEM || error == EFAULT)
			TH_LOG("%u: %s", nth, strerror(error));
		failed += !!error;
	}
	restore_knobs();
	TH_LOG("%u of %u failed", failed, nth - 1);
	EXPECT_GT(MAX_FAULTS, nth);
	/* At least what the device file and the section need. */
	EXPECT_LE(2, failed);

	EXPECT_FRAMES(&self->a, WITHOUT_TABLE);
	EXPECT_EQ(0, add_section(self->fd, &section));
	EXPECT_CHAIN(&self->a);
	close(file);
}

FIXTURE(served) {
	struct walker walker;
	char dir[32];
	struct mapped a, b;
	int fd;
	struct fuse fuse;
	char page[SFRAME_PAGE];
};

FIXTURE_SETUP(served)
{
	int err;

	SIDE_SETUP
	err = fuse_mount(&self->fuse, false);
	if (err == -ENODEV)
		SKIP(return, "no /dev/fuse");
	ASSERT_EQ(0, err);
	ASSERT_GE(sizeof(self->page), self->a.image.sframe_size);
	memcpy(self->page, self->a.image.sframe, self->a.image.sframe_size);
}

FIXTURE_TEARDOWN(served)
{
	fuse_unmount(&self->fuse);
	SIDE_TEARDOWN
}

/* Add the section in the served file, in a child. */
static pid_t add_served(struct _test_data_served *self, int *pidfd)
{
	pid_t pid = fork();

	if (!pid) {
		int file = open(self->fuse.file, O_RDONLY | O_CLOEXEC);
		struct unwind_sframe_section section = section_of(&self->a.image, file, ID_A);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(add_section(self->fd, &section));
	}
	*pidfd = syscall(SYS_pidfd_open, pid, 0);
	return pid;
}

static int status_of(pid_t pid, int pidfd)
{
	int status = -1;

	close(pidfd);
	return waitpid(pid, &status, 0) == pid ? status : -1;
}

/* Errors that say what is wrong with the section are not those of its file system. */
TEST_F(served, read_errors)
{
	static const struct {
		int	from, to;
	} errors[] = {
		{ EIO, EIO }, { EINVAL, EIO }, { EOPNOTSUPP, EIO }, { EEXIST, EIO },
		{ ENOMEM, ENOMEM }, { EINTR, EINTR },
	};
	int pidfd;
	pid_t pid;

	for (int i = 0; i < ARRAY_SIZE(errors); i++) {
		pid = add_served(self, &pidfd);
		ASSERT_TRUE(fuse_wait_for_fault(&self->fuse, pidfd));
		/* Readahead makes a second request. */
		do {
			ASSERT_EQ(0, fuse_refuse(&self->fuse, errors[i].from));
		} while (fuse_wait_for_fault(&self->fuse, pidfd));
		EXPECT_EQ(errors[i].to << 8, status_of(pid, pidfd))
			TH_LOG("for %s", strerror(errors[i].from));
	}
	EXPECT_FRAMES(&self->a, WITHOUT_TABLE);

	pid = add_served(self, &pidfd);
	ASSERT_TRUE(fuse_wait_for_fault(&self->fuse, pidfd));
	fuse_resolve(&self->fuse, self->page);
	EXPECT_FALSE(fuse_wait_for_fault(&self->fuse, pidfd));
	EXPECT_EQ(0, status_of(pid, pidfd));
	EXPECT_CHAIN(&self->a);
}

/* A server that never answers holds up only the task that adds, which can be killed. */
TEST_F(served, never)
{
	int pidfd;
	pid_t pid = add_served(self, &pidfd);

	ASSERT_TRUE(fuse_wait_for_fault(&self->fuse, pidfd));
	EXPECT_EQ(0, add(self->fd, &self->a.image, ID_A));
	EXPECT_CHAIN(&self->a);
	kill(pid, SIGKILL);
	/* The server must answer as the file is closed. */
	EXPECT_FALSE(fuse_wait_for_fault(&self->fuse, pidfd));
	EXPECT_EQ(SIGKILL, status_of(pid, pidfd));
}

TEST_HARNESS_MAIN
