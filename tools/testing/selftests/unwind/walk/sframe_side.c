// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame sections that are added through /dev/unwind_sframe for files that have none: how
 * long they are used, what the device says of them, and which ones are refused and why.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sframe_device.h"
#include "harness.h"

FIXTURE(side) SIDE_FIXTURE;
FIXTURE_SETUP(side) SIDE_SETUP
FIXTURE_TEARDOWN(side) SIDE_TEARDOWN

/* A section is used from the next walk on, for as long as the device is open. */
TEST_F(side, as_long_as_open)
{
	for (int i = 0; i < 20; i++) {
		int fd = device();

		ASSERT_EQ(0, add(fd, &self->a.image, ID_A));
		EXPECT_CHAIN(&self->a);
		EXPECT_FRAMES(&self->b, WITHOUT_TABLE);
		ASSERT_EQ(0, add(fd, &self->b.image, ID_B));
		EXPECT_CHAIN(&self->b);
		EXPECT_CHAIN(&self->a);
		close(fd);
		EXPECT_FRAMES(&self->a, WITHOUT_TABLE);
		EXPECT_FRAMES(&self->b, WITHOUT_TABLE);
	}
}

/* The section stays until the last process closes the device. */
TEST_F(side, inherited)
{
	int status, end[2];
	pid_t child;

	ASSERT_EQ(0, pipe(end));
	ASSERT_EQ(0, add(self->fd, &self->a.image, ID_A));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		close(end[1]);
		_exit(read(end[0], &status, 1));
	}
	close(self->fd);
	EXPECT_CHAIN(&self->a);
	close(end[1]);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_FRAMES(&self->a, WITHOUT_TABLE);
	self->fd = device();
}

FIXTURE(version) {
	struct walker walker;
	char dir[32];
};

FIXTURE_VARIANT(version) {
	unsigned int version;
	unsigned int flags;
};

FIXTURE_VARIANT_ADD(version, 1) { .version = 1 };
FIXTURE_VARIANT_ADD(version, 2) { .version = 2 };
FIXTURE_VARIANT_ADD(version, 2_pcrel) { .version = 2, .flags = SFRAME_F_SORTED | SFRAME_F_PCREL };
FIXTURE_VARIANT_ADD(version, 2_unsorted) { .version = 2, .flags = SFRAME_F_NONE };
FIXTURE_VARIANT_ADD(version, 3) { .version = 3 };

FIXTURE_SETUP(version)
{
	if (access(DEVICE, F_OK))
		SKIP(return, "needs " DEVICE " of CONFIG_UNWIND_USER_SFRAME");
	SETUP_WALKER();
}

FIXTURE_TEARDOWN(version)
{
	private_unmount(self->dir);
	walker_exit(&self->walker);
}

/* Each format that a file itself may have, and programs with a fixed address. */
TEST_F(version, of_the_format)
{
	struct image_spec spec = bare_a;
	struct mapped file;
	int fd = device();

	spec.version = variant->version;
	spec.flags = variant->flags;
	for (int i = 0; i < 2; i++) {
		spec.bias = i * 0x400000;
		ASSERT_TRUE(mapped_init(&file, &spec, "%s/%d", self->dir, i));
		EXPECT_FRAMES(&file, WITHOUT_TABLE);
		mapped_exit(&file);
	}
	ASSERT_LE(0, fd);
	ASSERT_TRUE(mapped_init(&file, &spec, "%s/file", self->dir));
	struct unwind_sframe_section section =
		section_of(&file.image, section_file(&file.image, NULL), ID_A);

	section.addr += spec.bias;
	ASSERT_EQ(0, add_section(fd, &section));
	EXPECT_CHAIN(&file);
	mapped_exit(&file);
	close(fd);
}

/* An added section is used only if the file has none. */
TEST_F(side, own_section_first)
{
	struct image_spec spec = { .code = &chain_a, .build_id = ID_A };
	struct mapped own;
	struct image bad;

	image_init(&bad, &spec);
	sframe_spoil(bad.sframe, chain_index(bad.sframe, CHAIN_FN_INNER));
	ASSERT_EQ(0, add(self->fd, &bad, ID_A));
	ASSERT_TRUE(mapped_init(&own, &spec, "%s/own", self->dir));
	EXPECT_CHAIN(&own);
	EXPECT_FRAMES(&self->a, CHAIN_INNER + 1);
	mapped_exit(&own);
	image_free(&bad);
}

/* Each of several sections is enough. The same one can be added only once per device. */
TEST_F(side, several)
{
	int other = device();

	ASSERT_EQ(0, add(self->fd, &self->a.image, ID_A));
	EXPECT_EQ(EEXIST, add(self->fd, &self->a.image, ID_A));
	ASSERT_EQ(0, add(other, &self->a.image, ID_A));
	close(self->fd);
	EXPECT_CHAIN(&self->a);
	self->fd = device();
	ASSERT_EQ(0, add(self->fd, &self->a.image, ID_A));
	close(other);
	EXPECT_CHAIN(&self->a);
}

/* A useless section keeps no other one from being used, in whatever order they were added. */
TEST_F(side, one_of_no_use)
{
	struct image bad;
	int before, after;

	image_init(&bad, &(struct image_spec) { .code = &chain_a, .build_id = ID_A });
	for (int i = 0; i < CHAIN_FUNCTIONS; i++)
		sframe_spoil(bad.sframe, i);
	before = device();
	ASSERT_EQ(0, add(before, &bad, ID_A));
	EXPECT_FRAMES(&self->a, WITHOUT_TABLE);
	ASSERT_EQ(0, add(self->fd, &self->a.image, ID_A));
	EXPECT_CHAIN(&self->a);
	after = device();
	ASSERT_EQ(0, add(after, &bad, ID_A));
	walk_anew();
	EXPECT_CHAIN(&self->a);
	close(self->fd);
	self->fd = -1;
	EXPECT_FRAMES(&self->a, WITHOUT_TABLE);
	close(before);
	close(after);
	image_free(&bad);
}

/* The section follows neither the name nor the inode number of its file. */
TEST_F(side, replaced)
{
	struct mapped next;
	char path[256];

	ASSERT_EQ(0, add(self->fd, &self->a.image, ID_A));
	EXPECT_CHAIN(&self->a);
	ASSERT_TRUE(mapped_init(&next, &bare_b, "%s/next", self->dir));
	snprintf(path, sizeof(path), "%s/a", self->dir);
	ASSERT_EQ(0, rename(next.path, path));
	EXPECT_FRAMES(&next, WITHOUT_TABLE);
	ASSERT_EQ(0, add(self->fd, &self->b.image, ID_B));
	EXPECT_CHAIN(&next);
	EXPECT_CHAIN(&self->a);

	ASSERT_EQ(0, rewrite(self->a.fd, &self->b.image, false));
	self->a.image = self->b.image;
	walk_anew();
	EXPECT_CHAIN(&self->a);
	mapped_exit(&next);
}

/* Write to a file until its times change. */
static bool change(int fd, const void *bytes, size_t size, off_t offset)
{
	struct stat before, after;

	if (fstat(fd, &before))
		return false;
	do {
		if (pwrite(fd, bytes, size, offset) != (ssize_t)size || fstat(fd, &after))
			return false;
	} while (before.st_ctim.tv_sec == after.st_ctim.tv_sec &&
		 before.st_ctim.tv_nsec == after.st_ctim.tv_nsec);
	return true;
}

/*
 * An added section is read when a walk needs it, once for all tasks, and is cached as
 * other files are: it is dropped if unused, loaded again, and read again after a
 * change.
 */
TEST_F(side, object)
{
	long loaded = unwind_stat("sframe_loaded");
	struct object object;
	char path[64];
	int other = device(), fd;

	snprintf(path, sizeof(path), "%s/section", self->dir);
	ASSERT_EQ(0, add_path(self->fd, &self->a.image, ID_A, path));
	EXPECT_EQ(0, object_find(path, &object));
	for (int i = 1; i <= 3; i++) {
		EXPECT_CHAIN(&self->a);
		EXPECT_STATE(path, "ok");
		EXPECT_EQ(i, unwind_stat("sframe_loaded") - loaded);
		do {
			ASSERT_EQ(0, file_put("/proc/sys/vm/drop_caches", "2"));
		} while (object_find(path, &object));
		walk_anew();
	}

	/* The same section of the same file is the same object, also from another device. */
	EXPECT_CHAIN(&self->a);
	loaded = unwind_stat("sframe_loaded");
	fd = open(path, O_RDWR | O_CLOEXEC);
	struct unwind_sframe_section section = section_of(&self->a.image, fd, ID_A);

	ASSERT_EQ(0, add_section(other, &section));
	EXPECT_CHAIN(&self->a);
	EXPECT_EQ(1, object_find(path, &object));
	EXPECT_LT(CHAIN_INNER, object.hits);
	EXPECT_EQ(0, unwind_stat("sframe_loaded") - loaded);

	/* Damage that only a read of the whole section finds. */
	ASSERT_TRUE(change(fd, "\xff\xff\xff\xff", 4,
			   offsetof(struct sframe_head, nr_functions)));
	walk_anew();
	EXPECT_FRAMES(&self->a, WITHOUT_TABLE);
	EXPECT_STATE(path, "damaged");
	ASSERT_TRUE(change(fd, self->a.image.sframe, self->a.image.sframe_size, 0));
	walk_anew();
	EXPECT_CHAIN(&self->a);
	ASSERT_EQ(0, ftruncate(fd, 40));
	walk_anew();
	EXPECT_FRAMES(&self->a, WITHOUT_TABLE);
	EXPECT_STATE(path, "damaged");
	close(fd);
	close(other);
}

/* Lines of a device's fdinfo for sections of this build-id that begin like this, or are this. */
static unsigned int lines_of(int device, const char *id, const char *end)
{
	char name[64], text[512], hex[64] = "", *line = NULL;
	unsigned int found = 0;
	size_t size = 0;
	FILE *file;

	for (const char *byte = id; *byte; byte++)
		sprintf(hex + strlen(hex), "%02x", (unsigned char)*byte);
	snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", device);
	snprintf(text, sizeof(text), "sframe:\t%s %s%s", hex, end, strchr(end, ' ') ? "\n" : " ");
	file = fopen(name, "re");
	while (file && getline(&line, &size, file) > 0)
		found += !strncmp(line, text, strlen(text));
	free(line);
	if (file)
		fclose(file);
	return found;
}

#define EXPECT_LISTED(device, id, state, path) do {				\
	char _end[300];								\
										\
	snprintf(_end, sizeof(_end), "%s %s", state, path);			\
	EXPECT_EQ(1, lines_of(device, id, _end)) TH_LOG("for %s", _end);	\
} while (0)

/* The device tells what became of each section in walks, and which file it keeps open. */
TEST_F(side, fdinfo)
{
	struct unwind_test_op no_table = OP_FAIL(UNWIND_TEST_FAIL_CACHE, 1);
	struct unwind_test_op no_object = OP_FAIL(UNWIND_TEST_FAIL_OBJECT, 1);
	char a[64], b[64], shown[80];
	int other = device(), fd;

	snprintf(a, sizeof(a), "%s/section\033 a", self->dir);
	snprintf(shown, sizeof(shown), "%s/section\\033\\040a", self->dir);
	snprintf(b, sizeof(b), "%s/section_b", self->dir);
	ASSERT_EQ(0, add_path(self->fd, &self->a.image, ID_A, a));
	ASSERT_EQ(0, add_path(self->fd, &self->b.image, ID_B, b));
	EXPECT_LISTED(self->fd, ID_A, "unused", shown);
	EXPECT_LISTED(self->fd, ID_B, "unused", b);
	EXPECT_EQ(0, lines_of(other, ID_B, "unused"));
	EXPECT_CHAIN(&self->b);
	EXPECT_LISTED(self->fd, ID_B, "ok", b);
	EXPECT_LISTED(self->fd, ID_A, "unused", shown);

	/* A walk without the table is remembered, also if later ones have it. */
	ASSERT_EQ(0, tracer_op(self->walker.fd, no_table));
	EXPECT_FRAMES(&self->a, WITHOUT_TABLE);
	EXPECT_LISTED(self->fd, ID_A, "no-memory", shown);
	do {
		walk_anew();
		ASSERT_TRUE(walk_mapped(&self->walker, &self->a));
	} while (self->walker.event.nr == WITHOUT_TABLE);
	EXPECT_LISTED(self->fd, ID_A, "ok,no-memory", shown);

	/* So is one that cannot even remember the file. */
	close(self->fd);
	self->fd = other;
	snprintf(b, sizeof(b), "%s/other_b", self->dir);
	ASSERT_EQ(0, add_path(self->fd, &self->b.image, ID_B, b));
	ASSERT_EQ(0, tracer_op(self->walker.fd, no_object));
	EXPECT_FRAMES(&self->b, WITHOUT_TABLE);
	EXPECT_LISTED(self->fd, ID_B, "no-memory", b);
	walk_anew();
	EXPECT_CHAIN(&self->b);
	EXPECT_LISTED(self->fd, ID_B, "ok,no-memory", b);

	/* The last reason counts. */
	fd = open(b, O_RDWR | O_CLOEXEC);
	ASSERT_TRUE(change(fd, "\xff\xff\xff\xff", 4,
			   offsetof(struct sframe_head, nr_functions)));
	close(fd);
	walk_anew();
	EXPECT_FRAMES(&self->b, WITHOUT_TABLE);
	EXPECT_LISTED(self->fd, ID_B, "ok,damaged", b);
}

/* More lines than fit into a page. */
TEST_F(side, fdinfo_of_many)
{
	enum { MANY = 300 };
	char path[64], end[80], id[16];

	snprintf(path, sizeof(path), "%s/section", self->dir);
	snprintf(end, sizeof(end), "unused %s", path);
	for (int i = 0; i < MANY; i++) {
		snprintf(id, sizeof(id), "id%d", i);
		ASSERT_EQ(0, add_path(self->fd, &self->a.image, id, path));
	}
	for (int i = 0; i < MANY; i++) {
		snprintf(id, sizeof(id), "id%d", i);
		EXPECT_EQ(1, lines_of(self->fd, id, end));
	}
}

/* Count the sections that a process' fdinfo has; -1 if a line is wrong. */
static int sections_of(const char *name)
{
	FILE *file = fopen(name, "re");
	char *line = NULL, *end;
	size_t size = 0;
	int nr = 0;

	while (file && nr >= 0 && getline(&line, &size, file) > 0) {
		end = line + strlen(line) - 1;
		if (strncmp(line, "sframe:", 7))
			continue;
		nr = *end == '\n' && strstr(line, " unused /memfd:") ? nr + 1 : -1;
	}
	free(line);
	if (file)
		fclose(file);
	return nr;
}

/* Read fdinfo until @end closes; tell when some, but not @all sections are there. */
static bool reads_meanwhile(const char *name, int all, int seen, int end)
{
	struct pollfd poll_end = { .fd = end };
	int nr;

	while (!poll(&poll_end, 1, 0)) {
		nr = sections_of(name);
		if (nr < 0 || nr > all)
			return false;
		if (nr && nr < all && write(seen, "", 1) != 1)
			return false;
	}
	return true;
}

/* Another process reads fdinfo while sections are added and while the device is closed. */
TEST_F(side, fdinfo_meanwhile)
{
	enum { MANY = 100, ROUNDS = 20 };
	int fd = device(), end[2], seen[2], status;
	struct pollfd poll_seen;
	char name[64], id[16];
	pid_t child;

	snprintf(name, sizeof(name), "/proc/%d/fdinfo/%d", getpid(), fd);
	ASSERT_EQ(0, pipe(end));
	ASSERT_EQ(0, pipe2(seen, O_NONBLOCK));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		close(fd);
		close(end[1]);
		fcntl(seen[1], F_SETFL, 0);
		_exit(!reads_meanwhile(name, MANY, seen[1], end[0]));
	}
	close(seen[1]);
	poll_seen = (struct pollfd) { .fd = seen[0], .events = POLLIN };
	for (int i = 0; i < ROUNDS || poll(&poll_seen, 1, 0) <= 0; i++) {
		for (int j = 0; j < MANY; j++) {
			snprintf(id, sizeof(id), "id%d", j);
			ASSERT_EQ(0, add(fd, &self->a.image, id));
		}
		close(fd);
		ASSERT_EQ(fd, device());
	}
	close(end[1]);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
}

/* Sections anywhere in a file, and several in one file. */
TEST_F(side, offsets)
{
	struct unwind_sframe_section section = section_of(&self->a.image, self->a.fd, ID_A);
	int fd = memfd_create("both", MFD_CLOEXEC);
	size_t size = self->a.image.sframe_size;

	ASSERT_EQ(size, pwrite(fd, self->a.image.sframe, size, 12345));
	ASSERT_EQ(self->b.image.sframe_size,
		  pwrite(fd, self->b.image.sframe, self->b.image.sframe_size, 12345 + size));
	section.fd = fd;
	section.offset = 12345;
	ASSERT_EQ(0, add_section(self->fd, &section));
	section = section_of(&self->b.image, fd, ID_B);
	section.offset = 12345 + size;
	ASSERT_EQ(0, add_section(self->fd, &section));
	close(fd);
	EXPECT_CHAIN(&self->a);
	EXPECT_CHAIN(&self->b);
}

/* A section's file keeps its file system busy only while the device is open. */
TEST_F(side, unmounted)
{
	char dir[64], path[80];

	snprintf(dir, sizeof(dir), "%s/mount", self->dir);
	snprintf(path, sizeof(path), "%s/section", dir);
	for (int i = 0; i < 10; i++) {
		mkdir(dir, 0755);
		ASSERT_EQ(0, mount("none", dir, "tmpfs", 0, NULL));
		ASSERT_EQ(0, add_path(self->fd, &self->a.image, ID_A, path));
		EXPECT_CHAIN(&self->a);
		EXPECT_EQ(-1, umount(dir));
		EXPECT_EQ(EBUSY, errno);
		close(self->fd);
		EXPECT_EQ(0, umount(dir));
		EXPECT_FRAMES(&self->a, WITHOUT_TABLE);
		self->fd = device();
	}
}

/* While registrations come and go, a walk finds the whole chain or a part of it. */
TEST_F(side, storm)
{
	struct trace whole = trace_of_mapped(&self->a, ALL_FRAMES);
	unsigned int with = 0, without = 0;
	int end[2], status;
	pid_t child;

	ASSERT_EQ(0, pipe(end));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		struct pollfd poll_end = { .fd = end[0] };

		close(end[1]);
		do {
			int fd = device();

			if (add(fd, &self->a.image, ID_A))
				_exit(1);
			sched_yield();
			close(fd);
		} while (!poll(&poll_end, 1, 0));
		_exit(0);
	}
	for (int i = 0; !with || !without || i < 500; i++) {
		walk_anew();
		ASSERT_TRUE(walk_mapped(&self->walker, &self->a));
		ASSERT_TRUE(trace_begins(&self->walker, &whole));
		if (self->walker.event.nr == whole.nr)
			with++;
		else
			without++;
	}
	close(end[1]);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_FRAMES(&self->a, WITHOUT_TABLE);
}

/* A regular file that is the only copy of its contents. */
TEST_F(side, refused_on_ramfs)
{
	char dir[] = "/tmp/sframe_side.XXXXXX", path[64];

	ASSERT_NE(NULL, mkdtemp(dir));
	ASSERT_EQ(0, mount("none", dir, "ramfs", 0, NULL));
	snprintf(path, sizeof(path), "%s/section", dir);
	EXPECT_EQ(EINVAL, add_path(self->fd, &self->a.image, ID_A, path));
	EXPECT_FRAMES(&self->a, WITHOUT_TABLE);
	EXPECT_EQ(0, umount(dir));
	rmdir(dir);
}

TEST_F(side, refused)
{
	int file = section_file(&self->a.image, NULL), other = device();
	const struct unwind_sframe_section good = section_of(&self->a.image, file, ID_A);
	struct sframe_head *head = self->a.image.sframe;
	struct unwind_sframe_section bad;
	struct {
		struct unwind_sframe_section	section;
		__u64				more;
	} later = { .section = good };
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
#define EXPECT_REFUSED(error, field, value) do {				\
	bad = good;								\
	bad.field = value;							\
	EXPECT_EQ(error, add_section(self->fd, &bad))				\
		TH_LOG("for " #field " = " #value);				\
} while (0)
	EXPECT_REFUSED(EINVAL, flags, 1);
	EXPECT_REFUSED(EINVAL, build_id_size, 0);
	EXPECT_REFUSED(EINVAL, build_id_size, 21);
	EXPECT_REFUSED(EINVAL, build_id_size, 3);
	EXPECT_REFUSED(EINVAL, size, 0);
	EXPECT_REFUSED(EINVAL, size, sizeof(*head) - 1);
	EXPECT_REFUSED(EINVAL, size, good.size + 1);
	EXPECT_REFUSED(EINVAL, offset, 1);
	EXPECT_REFUSED(EINVAL, offset, -1);
	EXPECT_REFUSED(EINVAL, offset, 1ULL << 62);
	EXPECT_REFUSED(EFBIG, size, (64 << 20) + 1);
	EXPECT_REFUSED(EFBIG, size, -1);
	EXPECT_REFUSED(EINVAL, addr, -1);
	EXPECT_REFUSED(EBADF, fd, -1);
	EXPECT_REFUSED(EBADF, fd, 9999);
	EXPECT_REFUSED(EBADF, fd, open(path, O_WRONLY | O_CLOEXEC));
	EXPECT_REFUSED(EBADF, fd, open(path, O_PATH | O_CLOEXEC));
	EXPECT_REFUSED(EINVAL, fd, open(path, O_RDONLY | O_DIRECT | O_CLOEXEC));
	EXPECT_REFUSED(EINVAL, fd, other);
	EXPECT_REFUSED(EINVAL, fd, self->fd);
	EXPECT_REFUSED(EINVAL, fd, open("/dev/zero", O_RDONLY | O_CLOEXEC));
	EXPECT_REFUSED(EINVAL, fd, open("/", O_RDONLY | O_CLOEXEC));
	EXPECT_REFUSED(EINVAL, fd, open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
	EXPECT_EQ(-1, ioctl(self->fd, UNWIND_SFRAME_ADD, NULL));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, ioctl(self->fd, UNWIND_SFRAME_ADD + 1, &good));
	EXPECT_EQ(ENOTTY, errno);

	/* A larger structure, as later kernels may have it, is accepted if the rest is 0. */
	later.more = 1;
	EXPECT_EQ(-1, ioctl(self->fd, _IOC(_IOC_WRITE, 0xde, 0, sizeof(later)), &later));
	EXPECT_EQ(E2BIG, errno);
	EXPECT_EQ(-1, ioctl(self->fd, _IOC(_IOC_WRITE, 0xde, 0, 16), &later));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_FRAMES(&self->a, WITHOUT_TABLE);
	later.more = 0;
	EXPECT_EQ(0, ioctl(self->fd, _IOC(_IOC_WRITE, 0xde, 0, sizeof(later)), &later));
	EXPECT_CHAIN(&self->a);
	close(self->fd);
	close(other);
	self->fd = device();

	head->version = 9;
	EXPECT_EQ(EOPNOTSUPP, add(self->fd, &self->a.image, ID_A));
	head->version = 3;
	head->abi = 1;
	EXPECT_EQ(EOPNOTSUPP, add(self->fd, &self->a.image, ID_A));
	head->abi = 3;
	head->magic++;
	EXPECT_EQ(EINVAL, add(self->fd, &self->a.image, ID_A));
	head->magic--;
	EXPECT_FRAMES(&self->a, WITHOUT_TABLE);

	/* Invalid functions are found only when the section is read. */
	snprintf(path, sizeof(path), "%s/section", self->dir);
	for (int i = 0; i < CHAIN_FUNCTIONS; i++)
		sframe_spoil(head, i);
	EXPECT_EQ(0, add_path(self->fd, &self->a.image, ID_A, path));
	EXPECT_FRAMES(&self->a, WITHOUT_TABLE);
	EXPECT_STATE(path, "no-section");
}

TEST_HARNESS_MAIN
