// SPDX-License-Identifier: GPL-2.0
/*
 * opener: test how the device is opened for the tasks of one user, and what becomes of sections
 * that the kernel refuses. Results in TAP.
 *
 * /dev/null stands in for the device. A process of its own opens it, and records its own state.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"
#include "session.h"

/* Ids that no user has. */
#define OTHER_ID	12345

/* Time limit of this test, in s: it takes moments, unless something hangs. */
#define TEST_SECONDS	100

/**
 * struct caps - capabilities
 * @permitted:	those that a process may use
 * @effective:	those that it uses
 */
struct caps {
	u32	permitted[_LINUX_CAPABILITY_U32S_3];
	u32	effective[_LINUX_CAPABILITY_U32S_3];
};

/**
 * struct shared - shared with the opener
 * @fails:	it gets no device
 * @user:	its ids
 * @caps:	its capabilities at that moment
 * @after:	and afterwards
 * @ret:	0 if it had the device, or a negative errno
 */
static struct shared {
	bool		fails;
	struct user	user;
	struct caps	caps;
	struct caps	after;
	int		ret;
} *shared;

/* Contents of fs.suid_dumpable. */
static const char *dumpable = "0\n";
static unsigned int nr, bad;
/* An open file of this process. */
static int business;

static void check(bool good, const char *name)
{
	printf("%sok %u - %s\n", good ? "" : "not ", ++nr, name);
	bad += !good;
}

/* Copy the file that check_add() makes. */
int copy_file(int to, int from)
{
	char byte;

	return pread(from, &byte, 1, 0) == 1 && write(to, &byte, 1) == 1 ? 0 : -EIO;
}

static void read_caps(struct caps *caps)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};

	syscall(SYS_capget, &header, data);
	for (unsigned int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		caps->permitted[i] = data[i].permitted;
		caps->effective[i] = data[i].effective;
	}
}

int open(const char *name, int flags, ...)
{
	if (!strcmp(name, DEVICE)) {
		shared->user = (struct user) { getuid(), getgid() };
		read_caps(&shared->caps);
		if (shared->fails) {
			errno = EACCES;
			return -1;
		}
	}
	return syscall(SYS_openat, AT_FDCWD, name, flags, 0);
}

FILE *fopen(const char *name, const char *mode)
{
	int fd;

	if (!strcmp(name, "/proc/sys/fs/suid_dumpable"))
		return fmemopen((void *)dumpable, strlen(dumpable), "r");
	fd = syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC, 0);
	return fd < 0 ? NULL : fdopen(fd, mode);
}

static bool is_null(int device)
{
	struct stat st;

	return device >= 0 && !fstat(device, &st) && st.st_rdev == makedev(1, 3) && !close(device);
}

/* Returns 0 if the device was opened, or a negative errno. */
static int become(uid_t uid, gid_t gid)
{
	const struct user user = { uid, gid };
	uid_t own = getuid();
	pid_t pid = fork();
	int device;

	if (!pid) {
		device = device_become(&user) ?: device_open_for(uid == own);
		read_caps(&shared->after);
		shared->ret = is_null(device) ? 0 : device;
		_exit(0);
	}
	return waitpid(pid, NULL, 0) == pid ? shared->ret : -1;
}

static bool is_same(const u32 *one, const u32 *other)
{
	return !memcmp(one, other, _LINUX_CAPABILITY_U32S_3 * sizeof(*one));
}

static const u32 none[_LINUX_CAPABILITY_U32S_3];

static void check_own(void)
{
	struct caps caps;

	read_caps(&caps);
	check(!become(getuid(), getgid()), "own tasks");
	check(is_same(shared->caps.permitted, caps.permitted) &&
	      is_same(shared->caps.effective, none), "that may do as much, but not all tasks");
	check(!memcmp(&shared->after, &caps, sizeof(caps)), "and it can do as much as before");
	shared->fails = true;
	check(become(getuid(), getgid()) == -EACCES, "an error");
	check(!memcmp(&shared->after, &caps, sizeof(caps)), "and it can do as much then");
	shared->fails = false;
}

/* To become another user takes root, in a user namespace that has other users. */
static bool has_other(void)
{
	pid_t pid = fork();
	int status = 1;

	if (!pid)
		_exit(setgroups(0, NULL) || setresgid(OTHER_ID, OTHER_ID, OTHER_ID) ||
		      setresuid(OTHER_ID, OTHER_ID, OTHER_ID));
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

static void check_other(void)
{
	const struct user other = { OTHER_ID, OTHER_ID }, own = { getuid(), getgid() };
	struct caps caps;

	dumpable = "1\n";
	check(!device_may_become(&own), "own tasks, which might debug it");
	if (getuid()) {
		check(device_may_become(&other) == -EPERM, "another user without rights");
		return;
	}
	check(device_may_become(&other) == -EOPNOTSUPP, "another user, who might debug it");
	dumpable = "0\n";
	check(!device_may_become(&other), "another user, who may not debug it");
	if (!has_other()) {
		printf("ok %u - another user # SKIP there can be no other user\n", ++nr);
		return;
	}
	check(!become(OTHER_ID, OTHER_ID) && shared->user.uid == OTHER_ID &&
	      shared->user.gid == OTHER_ID, "another user");
	check(is_same(shared->caps.permitted, none) && is_same(shared->after.permitted, none),
	      "who may do nothing");
	read_caps(&caps);
	check(!become(getuid(), OTHER_ID) && shared->user.gid == OTHER_ID &&
	      is_same(shared->caps.permitted, caps.permitted) &&
	      is_same(shared->caps.effective, none),
	      "another group, whose tasks may do as much as this one");
}

/* Send @size bytes and @nr_fds descriptors to a receiver of an int and one descriptor. */
static int pass(size_t size, unsigned int nr_fds, int *fd)
{
	char control[CMSG_SPACE(2 * sizeof(int))] __attribute__((aligned(8))) = {};
	const int fds[2] = { business, business };
	int sockets[2], got, ret;
	char bytes[8] = {};
	struct iovec vec = { .iov_base = bytes, .iov_len = size };
	struct msghdr message = {
		.msg_iov = &vec, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = CMSG_SPACE(nr_fds * sizeof(int)),
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	bool cut;

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(nr_fds * sizeof(int));
	memcpy(CMSG_DATA(header), fds, nr_fds * sizeof(int));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets))
		exit(1);
	ret = sendmsg(sockets[1], &message, 0) == size ? 0 : -2;
	ret = ret ?: pass_receive(sockets[0], &got, sizeof(got), fd, &cut);
	close(sockets[0]);
	close(sockets[1]);
	return ret;
}

/* How the device answers, for a file that is not in memory and for one that is. */
static int refusal, copy_refusal;
static unsigned int asked;

int ioctl(int device, unsigned long request, ...)
{
	const struct unwind_sframe_section *section;
	char byte = 0, link[32], name[8] = "";
	va_list args;

	va_start(args, request);
	section = va_arg(args, const struct unwind_sframe_section *);
	va_end(args);
	asked++;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", section->fd);
	if (device != business || request != UNWIND_SFRAME_ADD || section->size != 1 ||
	    pread(section->fd, &byte, 1, 0) != 1 || byte != 's')
		errno = ENOTTY;
	else if (readlink(link, name, sizeof(name) - 1) > 0 && !strcmp(name, "/memfd:"))
		errno = copy_refusal;
	else
		errno = refusal;
	return errno ? -1 : 0;
}

static unsigned int open_files(void)
{
	unsigned int files = 0;

	for (int fd = 0; fd < 256; fd++)
		files += fcntl(fd, F_GETFD) >= 0;
	return files;
}

static void check_pass(void)
{
	unsigned int before = open_files();
	int fd;

	check(!pass(sizeof(int), 2, &fd) && fd >= 0 && !close(fd) && open_files() == before,
	      "of two descriptors there is one");
	before = open_files();
	check(pass(sizeof(int) - 1, 1, &fd) == -1 && fd == -1 && open_files() == before,
	      "a message of another size leaves no descriptor");
}

/* File system of all files: the test may run on any. */
static u32 fs_type = TMPFS_MAGIC;

int fstatfs(int fd __attribute__((unused)), struct statfs *fs)
{
	*fs = (struct statfs) { .f_type = fs_type };
	return 0;
}

/* Add a section in a file; the device gives these errors for the file and for a copy of it. */
static bool adds_in(size_t *room, int file, int error, int copy_error, int ret, unsigned int times)
{
	const struct build_id id = { .size = 20 };
	unsigned int before = open_files();

	refusal = error;
	copy_refusal = copy_error;
	asked = 0;
	return device_add(business, &id, file, room) == ret && asked == times &&
	       open_files() == before;
}

/* The same, with room for one copy, which is taken if the device takes the copy. */
static bool adds(int file, int error, int copy_error, int ret, unsigned int times)
{
	bool copies = !ret && (error || fs_type == FUSE_SUPER_MAGIC) && copy_error != EEXIST;
	size_t room = 1;

	return adds_in(&room, file, error, copy_error, ret, times) && room == !copies;
}

static void check_add(void)
{
	FILE *file = tmpfile();
	size_t room = 0;

	if (!file || fputc('s', file) == EOF || fflush(file))
		exit(1);
	check(adds(fileno(file), 0, EIO, 0, 1), "a section that the kernel takes");
	check(adds(fileno(file), EPERM, 0, 0, 2), "a section that it takes in memory only");
	check(adds(fileno(file), EPERM, EDQUOT, -EDQUOT, 2), "a section that it takes nowhere");
	check(adds(fileno(file), EINVAL, 0, -EINVAL, 1), "a section that is damaged");
	check(adds(fileno(file), EPERM, EEXIST, 0, 2), "a section that it has already");
	fs_type = FUSE_SUPER_MAGIC;
	check(adds(fileno(file), EIO, 0, 0, 1), "a section of a server, of which it gets a copy");
	check(adds_in(&room, fileno(file), 0, 0, -ENOBUFS, 0), "no room for the copy");
	fs_type = TMPFS_MAGIC;
	check(adds_in(&room, fileno(file), 0, 0, 0, 1), "no room is needed without a copy");
	fclose(file);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(TEST_SECONDS);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	business = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (shared == MAP_FAILED || business < 0)
		return 1;
	check_own();
	check_other();
	check_pass();
	check_add();
	printf("1..%u\n", nr);
	return !!bad;
}
