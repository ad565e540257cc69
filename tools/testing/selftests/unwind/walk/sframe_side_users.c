// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame sections that users add through /dev/unwind_sframe: for which processes they are
 * used, and how many a user may add.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "sframe_device.h"
#include "fuse.h"
#include "harness.h"

#define SYSCTL_MAX	"/proc/sys/kernel/unwind_user_sframe_max"

/* Two users without privileges. */
#define SOMEBODY	12345
#define ELSE		12346

FIXTURE(side) SIDE_FIXTURE;
FIXTURE_SETUP(side) SIDE_SETUP
FIXTURE_TEARDOWN(side) SIDE_TEARDOWN

/* Become an unprivileged user; @dumpable decides whether ptrace is allowed. */
static int become(uid_t uid, bool dumpable)
{
	if (setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
		return -1;
	return prctl(PR_SET_DUMPABLE, dumpable, 0, 0, 0);
}

/* Evaluate the expression in a child; it has to be true. */
#define EXPECT_CHILD(expression) do {						\
	pid_t _child = fork();							\
	int _status;								\
										\
	if (!_child)								\
		_exit(!(expression));						\
	ASSERT_EQ(_child, waitpid(_child, &_status, 0));			\
	EXPECT_EQ(0, _status)							\
		TH_LOG("%s", #expression);					\
} while (0)

/* Does a walk as user @uid have this many frames? */
static bool walks(struct walker *walker, const struct mapped *mapped, uid_t uid, bool dumpable,
		  unsigned int frames)
{
	struct trace right = trace_of_mapped(mapped, frames);

	if (uid && become(uid, dumpable))
		return false;
	return walk_mapped(walker, mapped) && trace_is(walker, &right);
}

/* Add a section as user @uid and keep it until *go is closed. */
static pid_t add_as(uid_t uid, const struct image *image, const char *id, int *go, int *error)
{
	int orders[2], answers[2];
	pid_t child;
	char done;

	if (pipe(orders) || pipe(answers))
		return -1;
	child = fork();
	if (!child) {
		close(orders[1]);
		if (become(uid, true))
			_exit(1);
		done = add(device(), image, id);
		if (write(answers[1], &done, 1) != 1)
			_exit(1);
		_exit(read(orders[0], &done, 1));
	}
	close(orders[0]);
	close(answers[1]);
	*go = orders[1];
	*error = read(answers[0], &done, 1) == 1 ? done : -1;
	close(answers[0]);
	return child;
}

/* Which sections a process has added is for those that could ptrace it. */
TEST_F(side, fdinfo_of_others)
{
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/fdinfo/%d", getpid(), self->fd);
	EXPECT_CHILD(open(name, O_RDONLY) >= 0);
	EXPECT_CHILD(!become(SOMEBODY, true) && open(name, O_RDONLY) < 0 && errno == EACCES);
}

/* A user's section is used for processes that the user could ptrace. */
TEST_F(side, of_somebody)
{
	int status, error, go;
	pid_t child;

	child = add_as(SOMEBODY, &self->a.image, ID_A, &go, &error);
	ASSERT_LT(0, child);
	ASSERT_EQ(0, error);
	EXPECT_CHILD(walks(&self->walker, &self->a, SOMEBODY, true, ALL_FRAMES));
	EXPECT_CHILD(walks(&self->walker, &self->a, SOMEBODY, false, WITHOUT_TABLE));
	EXPECT_CHILD(walks(&self->walker, &self->a, ELSE, true, WITHOUT_TABLE));
	EXPECT_CHILD(walks(&self->walker, &self->a, 0, true, WITHOUT_TABLE));

	/* Root's section is used for all processes, and preferred. */
	ASSERT_EQ(0, add(self->fd, &self->a.image, ID_A));
	EXPECT_CHILD(walks(&self->walker, &self->a, ELSE, true, ALL_FRAMES));
	EXPECT_CHILD(walks(&self->walker, &self->a, SOMEBODY, false, ALL_FRAMES));
	EXPECT_CHILD(walks(&self->walker, &self->a, 0, true, ALL_FRAMES));
	close(go);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_CHAIN(&self->a);
}

/* Walk, with the same mappings, until a walk has this many frames. */
static bool walks_at_last(struct walker *walker, const struct mapped *mapped,
			  unsigned int frames)
{
	struct trace right = trace_of_mapped(mapped, frames);

	do {
		if (!walk_mapped(walker, mapped))
			return false;
	} while (walker->event.nr != right.nr);
	return trace_is(walker, &right);
}

/* Does a process of a user that was walked before notice sections that come and go? */
static bool notices(struct walker *walker, const struct mapped *mapped)
{
	int fd;

	if (!walks(walker, mapped, SOMEBODY, true, WITHOUT_TABLE))
		return false;
	fd = device();
	if (fd < 0 || add(fd, &mapped->image, ID_A) ||
	    !walks_at_last(walker, mapped, ALL_FRAMES))
		return false;
	close(fd);
	return walks_at_last(walker, mapped, WITHOUT_TABLE);
}

/* Running tasks notice within a second: otherwise users could make others look all the time. */
TEST_F(side, noticed)
{
	EXPECT_CHILD(notices(&self->walker, &self->a));
}

/* The user could not ptrace an invisible process, though the user id is the same. */
TEST_F(side, of_another_pid_namespace)
{
	int own = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC), status, error, go;
	pid_t child;

	if (own < 0 || unshare(CLONE_NEWPID))
		SKIP(return, "needs CONFIG_PID_NS");
	child = add_as(SOMEBODY, &self->a.image, ID_A, &go, &error);
	ASSERT_LT(0, child);
	ASSERT_EQ(0, error);
	EXPECT_CHILD(walks(&self->walker, &self->a, SOMEBODY, true, ALL_FRAMES));
	ASSERT_EQ(0, setns(own, CLONE_NEWPID));
	EXPECT_CHILD(walks(&self->walker, &self->a, SOMEBODY, true, WITHOUT_TABLE));
	close(go);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);

	/* From the outer namespace the user could. */
	child = add_as(SOMEBODY, &self->a.image, ID_A, &go, &error);
	ASSERT_EQ(0, error);
	ASSERT_EQ(0, unshare(CLONE_NEWPID));
	EXPECT_CHILD(walks(&self->walker, &self->a, SOMEBODY, true, ALL_FRAMES));
	ASSERT_EQ(0, setns(own, CLONE_NEWPID));
	close(go);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	close(own);
}

/*
 * Enter a user namespace that @maker creates, with @nr ids from @first on. Mapping them
 * needs root, so another process, forked before this one drops root, does it. 0 or -1.
 */
static int enter_namespace(uid_t maker, uid_t first, unsigned int nr)
{
	int made[2], status;
	char dir[32], byte;
	pid_t mapper;

	if (pipe(made))
		return -1;
	snprintf(dir, sizeof(dir), "/proc/%d", getpid());
	mapper = fork();
	if (!mapper) {
		close(made[1]);
		_exit(read(made[0], &byte, 1) != 1 ||
		      file_print(dir, "gid_map", "0 %u %u", first, nr) ||
		      file_print(dir, "uid_map", "0 %u %u", first, nr));
	}
	close(made[0]);
	status = (maker && become(maker, true)) || unshare(CLONE_NEWUSER) ||
		 write(made[1], "m", 1) != 1;
	close(made[1]);
	if (status)
		return -1;
	return waitpid(mapper, &status, 0) == mapper && !status ? 0 : -1;
}

static bool walks_in_namespace(struct walker *walker, const struct mapped *mapped,
			       uid_t maker, unsigned int frames)
{
	return !enter_namespace(maker, SOMEBODY, 1) && !become(0, true) &&
	       walks(walker, mapped, 0, true, frames);
}

/* A user has all capabilities in a user namespace of their own, and none in others. */
TEST_F(side, of_another_user_namespace)
{
	int status, error, go;
	pid_t child;

	if (access("/proc/self/ns/user", F_OK))
		SKIP(return, "needs CONFIG_USER_NS");
	child = add_as(SOMEBODY, &self->a.image, ID_A, &go, &error);
	ASSERT_LT(0, child);
	ASSERT_EQ(0, error);
	EXPECT_CHILD(walks_in_namespace(&self->walker, &self->a, SOMEBODY, ALL_FRAMES));
	EXPECT_CHILD(walks_in_namespace(&self->walker, &self->a, 0, WITHOUT_TABLE));
	EXPECT_CHILD(walks_in_namespace(&self->walker, &self->a, ELSE, WITHOUT_TABLE));
	EXPECT_CHILD(!enter_namespace(SOMEBODY, SOMEBODY, 1) && !enter_namespace(0, 0, 1) &&
		     walks(&self->walker, &self->a, 0, true, ALL_FRAMES));
	close(go);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
}

/* A process with a capability that the user lacks does not use the user's section. */
static bool walks_with_capability(struct walker *walker, const struct mapped *mapped,
				  unsigned int frames)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2] = {
		{ .permitted = 1 << CAP_NET_RAW, .effective = 1 << CAP_NET_RAW },
	};

	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) || become(SOMEBODY, true) ||
	    syscall(SYS_capset, &head, caps) || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))
		return false;
	return walks(walker, mapped, 0, true, frames);
}

TEST_F(side, of_somebody_with_less)
{
	int status, error, go;
	pid_t child;

	child = add_as(SOMEBODY, &self->a.image, ID_A, &go, &error);
	ASSERT_EQ(0, error);
	EXPECT_CHILD(walks_with_capability(&self->walker, &self->a, WITHOUT_TABLE));
	EXPECT_CHILD(walks(&self->walker, &self->a, SOMEBODY, true, ALL_FRAMES));
	close(go);
	ASSERT_EQ(child, waitpid(child, &status, 0));
}

static bool become_perfmon(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2] = {};

	caps[CAP_TO_INDEX(CAP_PERFMON)].permitted = CAP_TO_MASK(CAP_PERFMON);
	caps[CAP_TO_INDEX(CAP_PERFMON)].effective = CAP_TO_MASK(CAP_PERFMON);
	return !prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) && !become(SOMEBODY, true) &&
	       !syscall(SYS_capset, &head, caps);
}

/* A section that is added with CAP_PERFMON is used for all processes. */
static bool add_as_perfmon(const struct image *image, struct walker *walker,
			   const struct mapped *mapped)
{
	int fd;

	if (!become_perfmon())
		return false;
	fd = device();
	return fd >= 0 && !add(fd, image, ID_A) && walks(walker, mapped, 0, false, ALL_FRAMES) &&
	       !prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) &&
	       walks(walker, mapped, 0, false, ALL_FRAMES);
}

TEST_F(side, of_perfmon)
{
	EXPECT_CHILD(add_as_perfmon(&self->a.image, &self->walker, &self->a));
	EXPECT_FRAMES(&self->a, WITHOUT_TABLE);
}

/* Open a file of a directory, through an overlay if there is a directory for one. */
static int open_in(const char *dir, const char *name, const char *overlay)
{
	char text[128];

	snprintf(text, sizeof(text), "lowerdir=%s:%s", dir, overlay);
	if (overlay && (unshare(CLONE_NEWNS) || mount("", "/", "", MS_REC | MS_PRIVATE, NULL) ||
			mount("overlay", overlay, "overlay", MS_RDONLY, text)))
		return -1;
	snprintf(text, sizeof(text), "%s/%s", overlay ?: dir, name);
	return open(text, O_RDONLY | O_CLOEXEC);
}

/* Start a process that adds the section in that file, and ends with the error. */
static pid_t add_in(const char *dir, const char *name, const char *overlay,
		    const struct image *image, bool root)
{
	struct unwind_sframe_section section;
	pid_t child = fork();
	int file;

	if (child)
		return child;
	file = open_in(dir, name, overlay);
	if (file < 0 || (!root && !become_perfmon()))
		_exit(-1);
	section = section_of(image, file, ID_A);
	_exit(add_section(device(), &section));
}

static int add_ends(pid_t child)
{
	int status;

	return waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : -1;
}

/* Add a section in the file of a file system, and serve that; returns the error. */
static int add_served(struct fuse *fuse, const char *overlay, const struct image *image,
		      bool root)
{
	pid_t child = add_in(fuse->dir, strrchr(fuse->file, '/') + 1, overlay, image, root);
	int pidfd = syscall(SYS_pidfd_open, child, 0);
	char page[FUSE_PAGE] = {};

	memcpy(page, image->sframe, image->sframe_size);
	while (fuse_wait_for_fault(fuse, pidfd))
		fuse_resolve(fuse, page);
	close(pidfd);
	return add_ends(child);
}

/* The server of a section may never answer: other users' processes must not wait for it. */
TEST_F(side, in_fuse)
{
	char overlay[48];
	struct fuse fuse;
	int err;

	err = fuse_mount(&fuse, false);
	if (err == -ENODEV)
		SKIP(return, "no /dev/fuse");
	ASSERT_EQ(0, err);
	snprintf(overlay, sizeof(overlay), "%s/overlay", self->dir);
	ASSERT_EQ(0, mkdir(overlay, 0755));
	EXPECT_EQ(EPERM, add_served(&fuse, NULL, &self->a.image, false));
	EXPECT_EQ(EPERM, add_served(&fuse, overlay, &self->a.image, false));
	EXPECT_EQ(0, add_served(&fuse, NULL, &self->a.image, true));
	EXPECT_EQ(0, add_served(&fuse, overlay, &self->a.image, true));
	fuse_unmount(&fuse);
}

/* An overlay that reads from another file system now may have the file on FUSE later. */
TEST_F(side, in_overlay)
{
	char lower[48], overlay[48], path[64];

	snprintf(lower, sizeof(lower), "%s/lower", self->dir);
	snprintf(overlay, sizeof(overlay), "%s/overlay", self->dir);
	snprintf(path, sizeof(path), "%s/section", lower);
	ASSERT_EQ(0, mkdir(lower, 0755));
	ASSERT_EQ(0, mkdir(overlay, 0755));
	close(section_file(&self->a.image, path));
	EXPECT_EQ(0, add_ends(add_in(lower, "section", NULL, &self->a.image, false)));
	EXPECT_EQ(EPERM, add_ends(add_in(lower, "section", overlay, &self->a.image, false)));
	EXPECT_EQ(0, add_ends(add_in(lower, "section", overlay, &self->a.image, true)));
}

/* Add sections until that fails; return their number, and the error. */
static int fill(const struct image *image, bool same, int *error)
{
	int fds[1000], nr = 0, file = section_file(image, NULL);
	struct unwind_sframe_section section;

	fds[0] = device();
	do {
		char id[16];

		snprintf(id, sizeof(id), "id %d", nr);
		section = section_of(image, file, same ? ID_A : id);
		*error = add_section(fds[same ? nr : 0], &section);
		if (*error)
			break;
		if (same)
			fds[nr + 1] = device();
	} while (++nr < 900);
	for (int i = 0; i <= (same ? nr : 0); i++)
		close(fds[i]);
	close(file);
	return nr;
}

static bool fills(const struct image *image, uid_t uid, bool same, int nr, int error)
{
	int got, had;

	if (uid && become(uid, true))
		return false;
	/* The second round needs all of the quota again. */
	for (int i = 0; i < 2; i++) {
		had = fill(image, same, &got);
		if (had != nr || got != error) {
			printf("# %d sections, and then %s\n", had, strerror(got));
			return false;
		}
	}
	return true;
}

TEST_F(side, limit)
{
	char before[32];

	ASSERT_EQ(0, file_get(SYSCTL_MAX, before, sizeof(before)));
	ASSERT_EQ(0, file_put(SYSCTL_MAX, "64"));
	EXPECT_CHILD(fills(&self->a.image, SOMEBODY, false, 64, EDQUOT));
	EXPECT_CHILD(fills(&self->a.image, 0, false, 900, 0));
	ASSERT_EQ(0, file_put(SYSCTL_MAX, "0"));
	EXPECT_CHILD(fills(&self->a.image, SOMEBODY, false, 0, EDQUOT));
	ASSERT_EQ(0, file_put(SYSCTL_MAX, before));
	EXPECT_CHILD(fills(&self->a.image, SOMEBODY, false, 900, 0));
	EXPECT_CHILD(fills(&self->a.image, SOMEBODY, true, 900, 0));
	EXPECT_CHILD(fills(&self->a.image, 0, true, 900, 0));
}

/* Add sections with several ids of SOMEBODY's namespace: do they share a limit of @most? */
static bool fills_as_many(const struct image *image, int most)
{
	int file = section_file(image, NULL), nr = 0, error = 0;

	if (enter_namespace(SOMEBODY, 10 * SOMEBODY, 10))
		return false;
	for (int id = 1; id < 4; id++) {
		int fd;

		if (setresuid(id, id, id))
			return false;
		fd = device();
		for (int i = 0; i < most / 3 + 1 && !error; i++, nr += !error) {
			char name[16];

			snprintf(name, sizeof(name), "id %d.%d", id, i);
			struct unwind_sframe_section section = section_of(image, file, name);

			error = add_section(fd, &section);
		}
	}
	if (nr != most || error != EDQUOT)
		printf("# %d sections, and then %s\n", nr, strerror(error));
	return nr == most && error == EDQUOT;
}

TEST_F(side, limit_of_many_ids)
{
	char before[32];

	if (access("/proc/self/ns/user", F_OK))
		SKIP(return, "needs CONFIG_USER_NS");
	ASSERT_EQ(0, file_get(SYSCTL_MAX, before, sizeof(before)));
	ASSERT_EQ(0, file_put(SYSCTL_MAX, "64"));
	EXPECT_CHILD(fills_as_many(&self->a.image, 64));
	ASSERT_EQ(0, file_put(SYSCTL_MAX, before));
}

/* A walk skips the sections of other users for the same file, however many there are. */
TEST_F(side, of_others)
{
	int error, go[20], status;
	pid_t children[20];

	for (int i = 0; i < 20; i++) {
		children[i] = add_as(SOMEBODY + i, &self->b.image, ID_A, &go[i], &error);
		ASSERT_EQ(0, error);
	}
	EXPECT_FRAMES(&self->a, WITHOUT_TABLE);
	ASSERT_EQ(0, add(self->fd, &self->a.image, ID_A));
	EXPECT_CHAIN(&self->a);
	/* Each child has the pipes of the earlier ones open. */
	for (int i = 0; i < 20; i++)
		close(go[i]);
	for (int i = 0; i < 20; i++)
		ASSERT_EQ(children[i], waitpid(children[i], &status, 0));
	EXPECT_CHAIN(&self->a);
}

TEST_HARNESS_MAIN
