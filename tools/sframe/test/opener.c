// SPDX-License-Identifier: GPL-2.0
/*
 * opener: test how the device is opened for another user, who may not want that, and what becomes
 * of sections that the kernel refuses. Results in TAP.
 *
 * /dev/null stands in for the device. A process of its own opens it; that process records its own
 * state, and then does what the test asks for.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
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

/* What the opener does at the open() of the device. */
enum does { OPENS, STOPS, RUNS, ENDS, LIES, FAILS };

/**
 * struct shared - shared with the opener
 * @does:	what it has to do
 * @user:	its ids
 * @permitted:	its permitted capabilities; it uses none that the kernel checks
 * @files:	a file of this process is still open in it
 * @dies:	it ends with its parent
 * @dumpable:	processes of its user may trace it
 */
static struct shared {
	enum does	does;
	struct user	user;
	u32		permitted[_LINUX_CAPABILITY_U32S_3];
	bool		files;
	bool		dies;
	bool		dumpable;
} *shared;

/* Contents of fs.suid_dumpable. */
static const char *dumpable = "0\n";
static unsigned int nr, bad;
/* An open file of this process; a session has many. */
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

static void read_permitted(u32 *permitted)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};

	syscall(SYS_capget, &header, data);
	for (unsigned int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		permitted[i] = data[i].permitted;
}

static void write_down(void)
{
	int sig = 0;

	shared->user = (struct user) { getuid(), getgid() };
	read_permitted(shared->permitted);
	shared->files = fcntl(business, F_GETFD) >= 0;
	shared->dies = !prctl(PR_GET_PDEATHSIG, &sig) && sig == SIGKILL;
	shared->dumpable = prctl(PR_GET_DUMPABLE);
}

int open(const char *name, int flags, ...)
{
	if (strcmp(name, DEVICE))
		return syscall(SYS_openat, AT_FDCWD, name, flags, 0);
	write_down();
	switch (shared->does) {
	case STOPS:
		raise(SIGSTOP);
		break;
	case RUNS:
		for (;;)
			;
	case ENDS:
		_exit(0);
	case LIES:
		name = "/dev/zero";
		break;
	case FAILS:
		errno = EACCES;
		return -1;
	default:
		break;
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

static int open_as(enum does does, uid_t uid, gid_t gid)
{
	const struct user user = { uid, gid };

	shared->does = does;
	return device_open_as(&user);
}

static bool is_alone(void)
{
	return !shared->files && shared->dies && !shared->dumpable;
}

static bool is_null(int device)
{
	struct stat st;

	return device >= 0 && !fstat(device, &st) && st.st_rdev == makedev(1, 3) && !close(device);
}

static void check_own(void)
{
	u32 permitted[_LINUX_CAPABILITY_U32S_3];

	read_permitted(permitted);
	check(is_null(open_as(OPENS, getuid(), getgid())), "own tasks");
	check(is_alone(), "who opens it has nothing else, and is alone");
	check(!memcmp(permitted, shared->permitted, sizeof(permitted)), "and may do as much");
	check(open_as(FAILS, getuid(), getgid()) == -EACCES, "an error");
	check(open_as(ENDS, getuid(), getgid()) == -ECHILD, "no answer");
	check(open_as(LIES, getuid(), getgid()) == -EBADMSG, "another file");
	check(open_as(STOPS, getuid(), getgid()) == -EBUSY, "who opens it is stopped");
	check(open_as(RUNS, getuid(), getgid()) == -ETIMEDOUT, "who opens it does not go on");
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
	u32 permitted[_LINUX_CAPABILITY_U32S_3], none[_LINUX_CAPABILITY_U32S_3] = {};
	int device;

	dumpable = "1\n";
	check(open_as(OPENS, OTHER_ID, OTHER_ID) == -EOPNOTSUPP,
	      "another user, who might debug who opens it");
	check(is_null(open_as(OPENS, getuid(), getgid())), "and own tasks then");
	dumpable = "0\n";
	if (!has_other()) {
		printf("ok %u - another user # SKIP there can be no other user\n", ++nr);
		return;
	}
	device = open_as(OPENS, OTHER_ID, OTHER_ID);
	check(is_null(device) && shared->user.uid == OTHER_ID && shared->user.gid == OTHER_ID,
	      "another user");
	check(is_alone(), "who becomes another user is alone");
	check(!memcmp(none, shared->permitted, sizeof(none)), "and may do nothing");
	read_permitted(permitted);
	check(is_null(open_as(OPENS, getuid(), OTHER_ID)) && shared->user.gid == OTHER_ID &&
	      !memcmp(permitted, shared->permitted, sizeof(permitted)),
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
	/* Wait as long as it takes: the alarm ends a hang. */
	for (stuck_reap(); stuck_nr(); stuck_reap())
		poll(NULL, 0, 10);
	check(!stuck_nr() && waitpid(-1, NULL, WNOHANG | __WALL) < 0, "nothing is left");
	printf("1..%u\n", nr);
	return !!bad;
}
