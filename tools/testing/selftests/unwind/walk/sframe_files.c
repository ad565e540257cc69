// SPDX-License-Identifier: GPL-2.0
/*
 * A walk uses the table of the mapped file, wherever it is mapped, whatever its name is,
 * and with its current contents. Files of all kinds hold chains that only their own
 * tables can walk, and each trace must be correct to the last address. The kernel's list
 * of files is checked as well.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/loop.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sframe_walk.h"
#include "harness.h"

static const struct image_spec spec_a = { .code = &chain_a };
static const struct image_spec spec_b = { .code = &chain_b };

static bool has_file_system(const char *name)
{
	char text[4096];

	return !file_get("/proc/filesystems", text, sizeof(text)) && strstr(text, name);
}

FIXTURE(kinds) {
	struct walker walker;
	char dir[32];
};

FIXTURE_VARIANT(kinds) {
	struct image_spec spec;
};

FIXTURE_VARIANT_ADD(kinds, version_1) { .spec = { .version = 1 } };
FIXTURE_VARIANT_ADD(kinds, version_2) { .spec = { .version = 2 } };
FIXTURE_VARIANT_ADD(kinds, version_3) { .spec = { .version = 3 } };

FIXTURE_VARIANT_ADD(kinds, relative_to_itself) {
	.spec = { .version = 2, .flags = SFRAME_F_SORTED | SFRAME_F_PCREL },
};

FIXTURE_VARIANT_ADD(kinds, relative_to_the_section) {
	.spec = { .version = 3, .flags = SFRAME_F_SORTED },
};

FIXTURE_VARIANT_ADD(kinds, as_the_assembler_left_it) {
	.spec = { .version = 1, .flags = SFRAME_F_NONE },
};

FIXTURE_VARIANT_ADD(kinds, not_sorted) {
	.spec = { .version = 3, .flags = SFRAME_F_PCREL },
};

/* The kernel checks the order. */
FIXTURE_VARIANT_ADD(kinds, 2_not_as_sorted_as_it_says) {
	.spec = { .version = 2, .flags = SFRAME_F_SORTED | SFRAME_F_NOT_SORTED },
};

FIXTURE_VARIANT_ADD(kinds, 3_not_as_sorted_as_it_says) {
	.spec = { .version = 3, .flags = SFRAME_FLAGS(3) | SFRAME_F_NOT_SORTED },
};

FIXTURE_VARIANT_ADD(kinds, with_frame_pointers) {
	.spec = { .version = 2, .flags = SFRAME_F_SORTED | SFRAME_F_FP },
};

FIXTURE_VARIANT_ADD(kinds, by_name_of_the_section) { .spec = { .how = BY_NAME } };
FIXTURE_VARIANT_ADD(kinds, by_type_of_the_section) { .spec = { .how = BY_TYPE } };
FIXTURE_VARIANT_ADD(kinds, far_in_the_file) { .spec = { .text = 5 * SFRAME_PAGE } };

FIXTURE_VARIANT_ADD(kinds, at_other_addresses) {
	.spec = { .text = 2 * SFRAME_PAGE, .bias = 0x12345000 },
};

FIXTURE_VARIANT_ADD(kinds, above_4_gib) { .spec = { .bias = 0x7654321000 } };
FIXTURE_VARIANT_ADD(kinds, a_program) { .spec = { .bias = 0x400000, .program = true } };

FIXTURE_SETUP(kinds)
{
	SETUP_WALKER();
}

FIXTURE_TEARDOWN(kinds)
{
	private_unmount(self->dir);
	walker_exit(&self->walker);
}

TEST_F(kinds, all_of_it)
{
	long loaded = unwind_stat("sframe_loaded");
	struct image_spec spec = variant->spec;
	struct object object;
	struct mapped file;

	for (int i = 0; i < 2; i++) {
		spec.code = i ? &chain_b : &chain_a;
		ASSERT_TRUE(mapped_init(&file, &spec, "%s/%d", self->dir, i));
		EXPECT_CHAIN(&file);
		EXPECT_STATE(file.path, "ok");
		object_find(file.path, &object);
		EXPECT_EQ(file.image.sframe->version, atoi(object.version));
		EXPECT_EQ(file.image.functions, object.functions);
		EXPECT_EQ(0, object.bad);

		/* Map the file once more. */
		file.map = image_map(&file.image, file.fd);
		ASSERT_NE(NULL, file.map);
		EXPECT_CHAIN(&file);
		EXPECT_EQ(i + 1, unwind_stat("sframe_loaded") - loaded);
	}
}

FIXTURE(files) {
	struct walker walker;
	char dir[32];
	struct mapped a, b;
	long loaded;
};

/* A file that was walked, and another one that is only an image so far. */
FIXTURE_SETUP(files)
{
	SETUP_WALKER();
	ASSERT_TRUE(mapped_init(&self->a, &spec_a, "%s/a", self->dir));
	EXPECT_CHAIN(&self->a);
	image_init(&self->b.image, &spec_b);
	self->loaded = unwind_stat("sframe_loaded");
}

FIXTURE_TEARDOWN(files)
{
	private_unmount(self->dir);
	walker_exit(&self->walker);
}

#define EXPECT_LOADED(nr)	EXPECT_EQ(nr, unwind_stat("sframe_loaded") - self->loaded)

/* One walk through both files, where @outer calls @inner. */
#define EXPECT_BOTH(outer, inner) do {						\
	const struct chain_code *_inner = (inner)->image.code;			\
	struct chain_args _args, _next;						\
	struct trace _both = {};						\
										\
	walk_tracer_args(&self->walker, &_next);				\
	_args = (struct chain_args) {						\
		.call = (inner)->map + _inner->top, .call_arg = &_next,		\
	};									\
	ASSERT_TRUE(walk_args(&self->walker, (outer)->map + (outer)->image.code->top, \
			      &_args));						\
	trace_add_chain(&_both, _inner, (inner)->map);				\
	trace_add_callers(&_both, (outer)->image.code, (outer)->map);		\
	trace_add_outermost(&_both);						\
	EXPECT_TRUE(trace_is(&self->walker, &_both));				\
} while (0)

TEST_F(files, mapped_twice)
{
	struct mapped again = self->a;

	again.map = image_map(&again.image, again.fd);
	ASSERT_NE(NULL, again.map);
	EXPECT_CHAIN(&again);
	EXPECT_CHAIN(&self->a);
	EXPECT_BOTH(&again, &self->a);
	EXPECT_STATE(self->a.path, "ok");
	EXPECT_LOADED(0);
}

TEST_F(files, of_two_kinds)
{
	ASSERT_TRUE(mapped_write(&self->b, "%s/b", self->dir));
	EXPECT_BOTH(&self->a, &self->b);
	EXPECT_BOTH(&self->b, &self->a);
	EXPECT_LOADED(1);
}

/* Hits are counted with a delay, and those of one walk together. */
TEST_F(files, hits)
{
	struct object object;

	do {
		EXPECT_CHAIN(&self->a);
		walk_anew();
		ASSERT_EQ(1, object_find(self->a.path, &object));
	} while (!object.hits);
	EXPECT_EQ(0, object.hits % CHAIN_FRAMES);
	EXPECT_LOADED(0);
}

/* Each page of the code becomes its own mapping, and then both are one again. */
TEST_F(files, mapping_is_split)
{
	for (int page = 0; page < 2; page++) {
		void *at = self->a.map + page * SFRAME_PAGE;

		ASSERT_EQ(0, mprotect(at, SFRAME_PAGE, PROT_READ | PROT_WRITE | PROT_EXEC));
		EXPECT_CHAIN(&self->a);
		ASSERT_EQ(0, mprotect(at, SFRAME_PAGE, PROT_READ | PROT_EXEC));
		EXPECT_CHAIN(&self->a);
	}
	EXPECT_LOADED(0);
}

/* Two files take turns: each moves to the address that the other one has left. */
TEST_F(files, mapping_is_moved)
{
	size_t size = self->a.image.text_size;
	void *places[3];

	ASSERT_TRUE(mapped_write(&self->b, "%s/b", self->dir));
	EXPECT_CHAIN(&self->b);
	places[0] = self->a.map;
	places[1] = self->b.map;
	places[2] = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, places[2]);

	for (int i = 0; i < 6; i++) {
		struct mapped *file = i % 2 ? &self->b : &self->a;
		void *to = places[(i + 2) % 3];

		ASSERT_EQ(to, mremap(file->map, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to));
		file->map = to;
		EXPECT_CHAIN(file);
	}
	EXPECT_BOTH(&self->a, &self->b);
	EXPECT_LOADED(1);
}

/* Only the mapping changes, always at an address that was walked before. */
TEST_F(files, mapping_is_replaced)
{
	size_t size = self->a.image.text_size;
	struct mapped *files[] = { &self->a, &self->b };

	ASSERT_TRUE(mapped_write(&self->b, "%s/b", self->dir));
	self->b.map = self->a.map;
	for (int i = 1; i < 20; i++) {
		struct mapped *file = files[i % 2];

		ASSERT_EQ(file->map, mmap(file->map, size, PROT_READ | PROT_EXEC,
					  MAP_PRIVATE | MAP_FIXED, file->fd, file->image.text));
		EXPECT_CHAIN(file);
	}
	EXPECT_LOADED(1);
}

/* The child has the mappings of its parent. */
TEST_F(files, fork)
{
	int status;
	pid_t child;

	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		struct trace right = trace_of_mapped(&self->a, ALL_FRAMES);

		_exit(!walk_mapped(&self->walker, &self->a) || !trace_is(&self->walker, &right));
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_STATE(self->a.path, "ok");
	EXPECT_LOADED(0);
}

TEST_F(files, deleted)
{
	char path[300];

	/* The file has changed, if the clock of the file system has advanced. */
	ASSERT_EQ(0, unlink(self->a.path));
	walk_anew();
	EXPECT_CHAIN(&self->a);

	/* Delete a file before its first walk, too: the list has its name at that time. */
	ASSERT_TRUE(mapped_write(&self->b, "%s/b", self->dir));
	ASSERT_EQ(0, unlink(self->b.path));
	EXPECT_CHAIN(&self->b);
	snprintf(path, sizeof(path), "%s (deleted)", self->b.path);
	EXPECT_STATE(path, "ok");
}

/* An update: a task that has mapped the old file keeps it, and its table. */
TEST_F(files, replaced_by_rename)
{
	struct object object;
	char path[300];

	ASSERT_TRUE(mapped_write(&self->b, "%s/new", self->dir));
	ASSERT_EQ(0, rename(self->b.path, self->a.path));
	self->b.map = image_map(&self->b.image, open(self->a.path, O_RDONLY | O_CLOEXEC));
	ASSERT_NE(NULL, self->b.map);

	EXPECT_CHAIN(&self->a);
	EXPECT_CHAIN(&self->b);
	EXPECT_BOTH(&self->a, &self->b);
	EXPECT_BOTH(&self->b, &self->a);
	/* The old file lost its name and so has changed: it may have been read again. */
	snprintf(path, sizeof(path), "%s (deleted)", self->a.path);
	EXPECT_EQ(2, object_find(self->a.path, &object) + object_find(path, &object));
}

TEST_F(files, memfd)
{
	struct mapped *b = &self->b;

	b->fd = memfd_create("a name", MFD_CLOEXEC);
	ASSERT_LE(0, b->fd);
	ASSERT_EQ(0, image_write_fd(&b->image, b->fd));
	b->map = image_map(&b->image, b->fd);
	ASSERT_NE(NULL, b->map);
	snprintf(b->path, sizeof(b->path), "/memfd:a name (deleted)");
	EXPECT_CHAIN(b);
	EXPECT_STATE(b->path, "ok");
	EXPECT_LOADED(1);
}

/* A name is one word of one line. */
TEST_F(files, name_with_spaces)
{
	int count = object_count();

	ASSERT_TRUE(mapped_write(&self->b, "%s/a\\040b c\t\nok 8 1 1 1 1 d\\", self->dir));
	EXPECT_CHAIN(&self->b);
	EXPECT_STATE(self->b.path, "ok");
	EXPECT_EQ(count + 1, object_count());
}

/* A name has no control characters that a terminal would interpret. */
TEST_F(files, name_with_controls)
{
	static const char list[] = "/sys/kernel/debug/unwind/sframe";
	struct stat st;
	FILE *file;
	int c;

	ASSERT_TRUE(mapped_write(&self->b, "%s/\a\b\r\033[31m\177\303\244\233", self->dir));
	EXPECT_CHAIN(&self->b);
	EXPECT_STATE(self->b.path, "ok");
	ASSERT_EQ(0, stat(list, &st));
	EXPECT_EQ(0400, st.st_mode & 0777);
	file = fopen(list, "r");
	ASSERT_NE(NULL, file);
	while ((c = fgetc(file)) != EOF)
		ASSERT_TRUE(c == '\n' || (c >= ' ' && c <= '~'))
			TH_LOG("%#x", c);
	fclose(file);
}

/* The same file by two names, on two mounts. */
TEST_F(files, bind_mount)
{
	char dir[64];

	snprintf(dir, sizeof(dir), "%s/bound", self->dir);
	ASSERT_EQ(0, mkdir(dir, 0755));
	ASSERT_EQ(0, mount(self->dir, dir, NULL, MS_BIND, NULL));
	image_init(&self->b.image, &spec_a);
	snprintf(self->b.path, sizeof(self->b.path), "%s/a", dir);
	self->b.fd = open(self->b.path, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, self->b.fd);
	self->b.map = image_map(&self->b.image, self->b.fd);
	ASSERT_NE(NULL, self->b.map);
	EXPECT_BOTH(&self->a, &self->b);
	EXPECT_LOADED(0);
}

/* An overlay maps the file of the lower layer until a write creates another file. */
TEST_F(files, overlay)
{
	static const char *const dirs[] = { "lower", "upper", "work", "merged" };
	struct mapped old = {}, new = {};
	char data[256];

	if (!has_file_system("overlay"))
		SKIP(return, "needs CONFIG_OVERLAY_FS");
	for (int i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(old.path, sizeof(old.path), "%s/%s", self->dir, dirs[i]);
		ASSERT_EQ(0, mkdir(old.path, 0755));
	}
	ASSERT_TRUE(mapped_write(&self->b, "%s/lower/file", self->dir));
	snprintf(data, sizeof(data), "lowerdir=%1$s/lower,upperdir=%1$s/upper,workdir=%1$s/work",
		 self->dir);
	ASSERT_EQ(0, mount("overlay", old.path, "overlay", 0, data));
	snprintf(old.path, sizeof(old.path), "%s/merged/file", self->dir);

	EXPECT_CHAIN(&self->b);
	old.image = self->b.image;
	old.fd = open(old.path, O_RDONLY | O_CLOEXEC);
	old.map = image_map(&old.image, old.fd);
	ASSERT_NE(NULL, old.map);
	EXPECT_BOTH(&old, &self->b);
	EXPECT_LOADED(1);

	new = old;
	new.image = self->a.image;
	new.fd = open(new.path, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, new.fd);
	ASSERT_EQ(0, image_write_fd(&new.image, new.fd));
	new.map = image_map(&new.image, new.fd);
	ASSERT_NE(NULL, new.map);
	EXPECT_BOTH(&new, &old);
	EXPECT_BOTH(&self->b, &new);
	EXPECT_LOADED(2);
}

/* Cached files must not keep a file system from being unmounted. */
TEST_F(files, unmounted)
{
	struct stat before = {}, now;
	unsigned int same = 0;
	char dir[64];

	snprintf(dir, sizeof(dir), "%s/fs", self->dir);
	ASSERT_EQ(0, mkdir(dir, 0755));
	/*
	 * The next file has the same inode number as the one before. It also has the same
	 * device, the lowest free one, unless others mount or unmount something meanwhile.
	 * Only the generation of the inode, which is random, and its times may tell the two
	 * apart.
	 */
	for (int i = 0; i < 20; i++) {
		struct mapped file;

		ASSERT_EQ(0, mount("unwind", dir, "tmpfs", 0, NULL));
		ASSERT_TRUE(mapped_init(&file, i % 2 ? &spec_a : &spec_b, "%s/file", dir));
		EXPECT_CHAIN(&file);
		ASSERT_EQ(0, fstat(file.fd, &now));
		if (i) {
			ASSERT_EQ(before.st_ino, now.st_ino);
			same += before.st_dev == now.st_dev;
		}
		before = now;
		mapped_exit(&file);
		ASSERT_EQ(0, umount(dir))
			TH_LOG("%s", strerror(errno));
	}
	/* Not all need to be the same: others may have taken the device. */
	EXPECT_LT(0, same);
	EXPECT_LOADED(20);
}

/* A table without the function inner: the trace ends there. */
static void forget_inner(struct image *image)
{
	sframe_spoil(image->sframe, chain_index(image->sframe, CHAIN_FN_INNER));
}

#define WITHOUT_INNER	(CHAIN_INNER + 1)

/* A change of the file is noticed with the next change of mappings. */
TEST_F(files, rewritten_in_place)
{
	struct image good = self->b.image;
	struct mapped *b = &self->b;
	struct object object;

	image_init(&b->image, &spec_b);
	forget_inner(&b->image);
	ASSERT_TRUE(mapped_write(b, "%s/b", self->dir));
	EXPECT_FRAMES(b, WITHOUT_INNER);
	ASSERT_EQ(1, object_find(b->path, &object));
	EXPECT_EQ(1, object.bad);

	for (int i = 0; i < 5; i++) {
		ASSERT_EQ(0, rewrite(b->fd, &good, i % 2));
		walk_anew();
		EXPECT_CHAIN(b);
		ASSERT_EQ(1, object_find(b->path, &object));
		EXPECT_EQ(0, object.bad);
		ASSERT_EQ(0, rewrite(b->fd, &b->image, i % 2));
		walk_anew();
		EXPECT_FRAMES(b, WITHOUT_INNER);
	}
	EXPECT_LOADED(1 + 2 * 5);
}

/* Or after a moment: the trace is the old one until then, and the new one from then on. */
TEST_F(files, rewritten_while_walked)
{
	struct image good = self->b.image;
	struct trace right, old;
	struct mapped *b = &self->b;
	unsigned long walks = 0;

	image_init(&b->image, &spec_b);
	forget_inner(&b->image);
	ASSERT_TRUE(mapped_write(b, "%s/b", self->dir));
	EXPECT_FRAMES(b, WITHOUT_INNER);
	ASSERT_EQ(0, rewrite(b->fd, &good, false));

	right = trace_of_mapped(b, ALL_FRAMES);
	old = trace_of_mapped(b, WITHOUT_INNER);
	do {
		walks++;
		ASSERT_TRUE(walk_mapped(&self->walker, b));
		if (self->walker.event.nr == old.nr)
			ASSERT_TRUE(trace_is(&self->walker, &old));
	} while (self->walker.event.nr == old.nr);
	EXPECT_TRUE(trace_is(&self->walker, &right));
	TH_LOG("%lu walks", walks);
	EXPECT_LOADED(2);
}

/* The whole file becomes another program. */
TEST_F(files, rewritten_as_another)
{
	for (int i = 0; i < 5; i++) {
		struct image other = self->b.image;

		self->b.image = self->a.image;
		self->a.image = other;
		ASSERT_EQ(0, rewrite(self->a.fd, &other, true));
		walk_anew();
		EXPECT_CHAIN(&self->a);
	}
	EXPECT_LOADED(5);
}

/* Pages of a ramfs cannot be reclaimed: a file there is not read, and its holes stay. */
TEST_F(files, of_ramfs)
{
	struct object object;
	struct mapped file;
	char dir[64];

	snprintf(dir, sizeof(dir), "%s/fs", self->dir);
	ASSERT_EQ(0, mkdir(dir, 0755));
	ASSERT_EQ(0, mount("unwind", dir, "ramfs", 0, NULL));
	ASSERT_TRUE(mapped_init(&file, &spec_a, "%s/file", dir));
	EXPECT_FRAMES(&file, 1);
	EXPECT_EQ(0, object_find(file.path, &object));
	mapped_exit(&file);
	EXPECT_EQ(0, umount(dir));
}

/* More sections than the kernel looks at. The last one has the names. */
TEST_F(files, many_sections)
{
	enum { SECTIONS = 2000 };
	struct image *image = &self->b.image;
	Elf64_Ehdr *ehdr;

	image_free(image);
	image_init(image, &(struct image_spec) { .code = &chain_b, .how = BY_NAME });
	ehdr = image->ehdr;
	ehdr->e_shoff = (image->size + 7) / 8 * 8;
	ehdr->e_shnum = SECTIONS;
	ehdr->e_shstrndx = SECTIONS - 1;
	ASSERT_TRUE(mapped_write(&self->b, "%s/b", self->dir));
	ASSERT_EQ(0, ftruncate(self->b.fd, ehdr->e_shoff + SECTIONS * sizeof(Elf64_Shdr)));
	ASSERT_EQ(IMAGE_SH_NAMES * sizeof(Elf64_Shdr),
		  pwrite(self->b.fd, image->shdrs, IMAGE_SH_NAMES * sizeof(Elf64_Shdr),
			 ehdr->e_shoff));
	ASSERT_EQ(sizeof(Elf64_Shdr),
		  pwrite(self->b.fd, &image->shdrs[IMAGE_SH_NAMES], sizeof(Elf64_Shdr),
			 ehdr->e_shoff + (SECTIONS - 1) * sizeof(Elf64_Shdr)));
	EXPECT_CHAIN(&self->b);
	EXPECT_STATE(self->b.path, "ok");
}

/* Code of a file that is not ELF. */
TEST_F(files, no_elf)
{
	struct mapped *b = &self->b;

	memset(b->image.bytes, 0, b->image.text);
	ASSERT_TRUE(mapped_write(b, "%s/b", self->dir));
	EXPECT_FRAMES(b, 1);
	EXPECT_STATE(b->path, "no-elf");
	EXPECT_BOTH(&self->a, &self->a);
}

static void *copy_of_code(const struct image *image, int fd, int flags)
{
	void *map = mmap(NULL, image->text_size, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (map == MAP_FAILED)
		return NULL;
	memcpy(map, image->bytes + image->text, image->text_size);
	return mprotect(map, image->text_size, PROT_READ | PROT_EXEC) ? NULL : map;
}

/* Code without a file, and code of a device. */
TEST_F(files, no_file)
{
	struct mapped *b = &self->b;
	int count = object_count();

	b->map = copy_of_code(&b->image, -1, MAP_PRIVATE | MAP_ANONYMOUS);
	ASSERT_NE(NULL, b->map);
	EXPECT_FRAMES(b, 1);

	b->map = copy_of_code(&b->image, open("/dev/zero", O_RDWR), MAP_PRIVATE);
	ASSERT_NE(NULL, b->map);
	EXPECT_FRAMES(b, 1);
	EXPECT_EQ(count, object_count());

	/* The kernel creates a file for this mapping. */
	b->map = copy_of_code(&b->image, open("/dev/zero", O_RDWR), MAP_SHARED);
	ASSERT_NE(NULL, b->map);
	EXPECT_FRAMES(b, 1);
	EXPECT_STATE("/dev/zero (deleted)", "no-elf");
}

FIXTURE(btrfs) {
	struct walker walker;
	char dir[32];
	char fs[64];
	char device[32];
	int loop;
};

static int attach_loop(char *device, size_t size, const char *path)
{
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int nr = ioctl(control, LOOP_CTL_GET_FREE), loop;
	int file = open(path, O_RDWR | O_CLOEXEC);

	close(control);
	snprintf(device, size, "/dev/loop%d", nr);
	loop = open(device, O_RDWR | O_CLOEXEC);
	if (loop < 0 || file < 0 || ioctl(loop, LOOP_SET_FD, file))
		return -1;
	close(file);
	return loop;
}

/* A file system in a file of the private one. */
FIXTURE_SETUP(btrfs)
{
	char path[64], command[128], text[512] = "";
	FILE *mkfs;
	int fd;

	if (!has_file_system("btrfs"))
		SKIP(return, "needs CONFIG_BTRFS_FS");
	if (access("/dev/loop-control", R_OK))
		SKIP(return, "needs CONFIG_BLK_DEV_LOOP");
	if (system("PATH=$PATH:/sbin:/usr/sbin; command -v mkfs.btrfs > /dev/null"))
		SKIP(return, "needs mkfs.btrfs of btrfs-progs");
	SETUP_WALKER();

	snprintf(path, sizeof(path), "%s/disk", self->dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ASSERT_EQ(0, ftruncate(fd, 128 << 20));
	close(fd);
	snprintf(command, sizeof(command), "PATH=$PATH:/sbin:/usr/sbin mkfs.btrfs -q %s 2>&1",
		 path);
	mkfs = popen(command, "r");
	ASSERT_NE(NULL, mkfs);
	fread(text, 1, sizeof(text) - 1, mkfs);
	ASSERT_EQ(0, pclose(mkfs))
		TH_LOG("mkfs.btrfs: %s", text);
	self->loop = attach_loop(self->device, sizeof(self->device), path);
	ASSERT_LE(0, self->loop);
	snprintf(self->fs, sizeof(self->fs), "%s/fs", self->dir);
	ASSERT_EQ(0, mkdir(self->fs, 0755));
	ASSERT_EQ(0, mount(self->device, self->fs, "btrfs", 0, NULL));
}

FIXTURE_TEARDOWN(btrfs)
{
	umount2(self->fs, MNT_DETACH);
	ioctl(self->loop, LOOP_CLR_FD);
	close(self->loop);
	private_unmount(self->dir);
	walker_exit(&self->walker);
}

static int make_subvolume(const char *dir, const char *name, const char *of)
{
	struct btrfs_ioctl_vol_args args = {};
	int fd = open(dir, O_RDONLY | O_DIRECTORY), ret;

	snprintf(args.name, sizeof(args.name), "%s", name);
	if (!of) {
		ret = ioctl(fd, BTRFS_IOC_SUBVOL_CREATE, &args);
	} else {
		args.fd = open(of, O_RDONLY | O_DIRECTORY);
		ret = ioctl(fd, BTRFS_IOC_SNAP_CREATE, &args);
		close(args.fd);
	}
	close(fd);
	return ret;
}

/* Files with the same inode number on one device. */
TEST_F(btrfs, subvolumes)
{
	long loaded = unwind_stat("sframe_loaded");
	struct stat stat_a, stat_b;
	struct mapped a, b = {};
	char first[128];

	snprintf(first, sizeof(first), "%s/first", self->fs);
	ASSERT_EQ(0, make_subvolume(self->fs, "first", NULL));
	ASSERT_TRUE(mapped_init(&a, &spec_a, "%s/first/file", self->fs));
	ASSERT_EQ(0, fsync(a.fd));
	ASSERT_EQ(0, make_subvolume(self->fs, "second", first));

	image_init(&b.image, &spec_b);
	ASSERT_TRUE(mapped_write(&b, "%s/second/file", self->fs));
	ASSERT_EQ(0, fstat(a.fd, &stat_a));
	ASSERT_EQ(0, fstat(b.fd, &stat_b));
	ASSERT_EQ(stat_a.st_ino, stat_b.st_ino);

	for (int i = 0; i < 10; i++) {
		EXPECT_CHAIN(&a);
		EXPECT_CHAIN(&b);
		walk_anew();
	}
	EXPECT_STATE(a.path, "ok");
	EXPECT_STATE(b.path, "ok");
	EXPECT_EQ(2, unwind_stat("sframe_loaded") - loaded);
	mapped_exit(&a);
	mapped_exit(&b);
	EXPECT_EQ(0, umount(self->fs));
}

/* An inode number is used again for another file. */
TEST_F(btrfs, number_again)
{
	long loaded = unwind_stat("sframe_loaded");
	unsigned long ino = 0, same = 0;

	for (int i = 0; i < 6; i++) {
		struct mapped file;
		struct stat stat;

		ASSERT_TRUE(mapped_init(&file, i % 2 ? &spec_a : &spec_b, "%s/file", self->fs));
		EXPECT_CHAIN(&file);
		ASSERT_EQ(0, fstat(file.fd, &stat));
		same += stat.st_ino == ino;
		ino = stat.st_ino;
		ASSERT_EQ(0, unlink(file.path));
		mapped_exit(&file);
		/* After a mount, new inode numbers follow the highest one in use. */
		ASSERT_EQ(0, umount(self->fs));
		ASSERT_EQ(0, mount(self->device, self->fs, "btrfs", 0, NULL));
	}
	EXPECT_EQ(5, same);
	EXPECT_EQ(6, unwind_stat("sframe_loaded") - loaded);
}

TEST_HARNESS_MAIN
