// SPDX-License-Identifier: GPL-2.0
/*
 * Cache of converted sections by build-id: DIR/.sframe/2/ab/cdef..., where DIR is perf's
 * build-id cache.
 *
 * Raise the number when the converter makes better sections of the same files, or when names
 * change their meaning. Cache files are trusted only if no other user could have written them and
 * they are complete. A section of a file that others must not trust is marked in its name, because
 * any file system and any copy keeps the name. It is used only where sections are for the user
 * alone, and no other user may read it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "session.h"

#define CACHE_VERSION	"2"

/* Suffix of a section that must not be used for tasks of others. */
#define ALONE		".alone"

/* Update the time of a section's last use if it is older than this, in s. */
#define USED_TOLD	86400

/*
 * Keep a section for two days after its last use, which the time of its file tells to within a day,
 * in s; but not if there are too many even of these.
 */
#define UNUSED		(3 * USED_TOLD)
#ifndef RECENT_MAX
#define RECENT_MAX	(8 * KEPT_MAX)
#endif

/* How many names of sections to sort out of too many. */
#define NAMES_MAX	65536

/* Attribute with the id of a boot in which the file was complete. */
#define BOOT		"user.sframe.boot"
#define BOOT_SIZE	36

/* Attribute with the number of bytes of code that a section does not describe. */
#define LOST		"user.sframe.lost"

/* Prefix of incomplete files, and the age at which they are left over, in s. */
#define TEMP		".tmp."
#define STALE		3600

/**
 * write_hex - write bytes as hexadecimal digits
 * @to:		room for two digits for each byte, and 0
 * @bytes:	the bytes
 * @nr:		their number
 *
 * Faster than sprintf(), as the start of a session writes thousands of names.
 *
 * Return: the end of the digits.
 */
char *write_hex(char *to, const u8 *bytes, u32 nr)
{
	static const char digits[] = "0123456789abcdef";

	for (u32 i = 0; i < nr; i++) {
		*to++ = digits[bytes[i] >> 4];
		*to++ = digits[bytes[i] & 15];
	}
	*to = '\0';
	return to;
}

/* The build-id is not empty. */
static void cache_name(const struct build_id *id, bool alone, char *name)
{
	name = write_hex(name, id->bytes, 1);
	*name++ = '/';
	name = write_hex(name, id->bytes + 1, id->size - 1);
	if (alone)
		memcpy(name, ALONE, sizeof(ALONE));
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Returns false if this is no name of the cache. Keep it fast: there may be thousands. */
static bool cache_parse(const char *dir, const char *file, struct build_id *id, bool *alone)
{
	size_t digits = strcspn(file, "."), len = strlen(dir) + digits;

	*alone = !strcmp(file + digits, ALONE);
	if (strlen(dir) != 2 || len > 2 * UNWIND_SFRAME_BUILD_ID_MAX || len % 2 ||
	    (file[digits] && !*alone))
		return false;
	*id = (struct build_id) { .size = len / 2 };
	for (u32 i = 0; i < id->size; i++) {
		const char *at = i ? file + 2 * (i - 1) : dir;
		int high = digit(at[0]), low = digit(at[1]);

		if (high < 0 || low < 0)
			return false;
		id->bytes[i] = high << 4 | low;
	}
	return true;
}

/* Is it certain that no other user but root could have written this? */
static bool is_ours(int fd, mode_t type)
{
	struct stat st;

	return !fstat(fd, &st) && (st.st_mode & S_IFMT) == type &&
	       (st.st_uid == geteuid() || !st.st_uid) && !(st.st_mode & 022);
}

/*
 * Open a directory that no other user can write to; with @make, create it if it is missing. EPERM
 * always means that others can write to it.
 */
static int open_dir(int at, const char *name, int flags, bool make)
{
	int fd;

	if (make && mkdirat(at, name, 0755) && errno != EEXIST) {
		errno = errno == EPERM ? EACCES : errno;
		return -1;
	}
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
	if (fd < 0 || is_ours(fd, S_IFDIR))
		return fd;
	close(fd);
	errno = EPERM;
	return -1;
}

/**
 * cache_open - open the cache
 * @dir:	directory of perf's cache
 * @make:	create it if it is missing
 *
 * Return: a directory; -1 with errno on failure: EPERM if other users may write to it.
 */
int cache_open(const char *dir, bool make)
{
	int fd = open_dir(AT_FDCWD, dir, 0, make), next;

	for (const char *const *name = (const char *[]) { ".sframe", CACHE_VERSION, NULL };
	     fd >= 0 && *name; name++) {
		next = open_dir(fd, *name, O_NOFOLLOW, make);
		close(fd);
		fd = next;
	}
	return fd;
}

/**
 * cache_dir - find the directory of perf's cache
 * @dir:	where the user says it is, or NULL
 * @path:	room for its name, PATH_MAX bytes
 *
 * Return: @dir, PERF_BUILDID_DIR, or ~/.debug; NULL if neither is set.
 */
const char *cache_dir(const char *dir, char *path)
{
	const char *home = getenv("HOME");

	if (!dir)
		dir = getenv("PERF_BUILDID_DIR");
	if (dir || !home)
		return dir;
	snprintf(path, PATH_MAX, "%s/.debug", home);
	return path;
}

/**
 * cache_why - describe an error of the cache
 * @error:	an errno of cache_open(), cache_begin() or cache_end()
 *
 * Return: the description.
 */
const char *cache_why(int error)
{
	return error == EPERM ? "other users may write to it, or to a directory in it" :
				strerror(error);
}

/* Open a section that no other user but root could have written. */
static int cache_open_file(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || is_ours(fd, S_IFREG))
		return fd;
	close(fd);
	errno = EACCES;
	return -1;
}

/*
 * Read @size bytes. Returns 1 if the file was truncated meanwhile: no file system returns that
 * as an error.
 */
static int read_section(int fd, u8 *bytes, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t got = pread(fd, bytes + done, size - done, done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (!got)
			return 1;
		done += got;
	}
	return 0;
}

/* The id of this boot; empty if unknown. Clocks do not help, because they can be set. */
static const char *this_boot(void)
{
	static char id[BOOT_SIZE];
	FILE *file = *id ? NULL : fopen("/proc/sys/kernel/random/boot_id", "re");

	if (file) {
		if (fread(id, 1, BOOT_SIZE, file) != BOOT_SIZE)
			*id = '\0';
		fclose(file);
	}
	return id;
}

/* Was the file complete in this boot? No other user can write this attribute, either. */
static bool is_of_this_boot(int fd)
{
	char boot[BOOT_SIZE];

	return *this_boot() && fgetxattr(fd, BOOT, boot, BOOT_SIZE) == BOOT_SIZE &&
	       !memcmp(boot, this_boot(), BOOT_SIZE);
}

/* Mark a file as complete. Without attributes, each file is read each time. */
static void set_boot(int fd)
{
	if (*this_boot())
		fsetxattr(fd, BOOT, this_boot(), BOOT_SIZE, 0);
}

/* Returns the same as check_file(). */
static int check_header(int fd, size_t size)
{
	u8 header[SFRAME_HEADER_SIZE];
	int ret = read_section(fd, header, sizeof(header));

	return ret ?: !section_has_size(header, size);
}

/*
 * Returns 0 if a section is complete; 1 if not; a negative errno if it cannot be read. Reading
 * thousands of sections takes long: each is read once per boot, and then marked with the id of
 * that boot.
 */
static int check_file(int fd, bool read_only)
{
	struct stat st;
	u8 *bytes;
	int ret;

	if (fstat(fd, &st))
		return -errno;
	if (st.st_size > SFRAME_SECTION_MAX)
		return 1;
	if (is_of_this_boot(fd))
		return check_header(fd, st.st_size);
	bytes = malloc(st.st_size + 1);
	if (!bytes)
		return -ENOMEM;
	ret = read_section(fd, bytes, st.st_size);
	if (!ret && !section_is_whole(bytes, st.st_size))
		ret = 1;
	free(bytes);
	/* This fails for a file of root, which is read each time. */
	if (!ret && !read_only)
		set_boot(fd);
	return ret;
}

/* Remove a file, unless it has been replaced by now. */
static void remove_damaged(int dir, const char *name, int fd)
{
	struct stat st, now;

	if (!fstat(fd, &st) && !fstatat(dir, name, &now, AT_SYMLINK_NOFOLLOW) &&
	    st.st_dev == now.st_dev && st.st_ino == now.st_ino)
		unlinkat(dir, name, 0);
}

/*
 * Open a complete section. Remove a file that is incomplete because the system went down, unless
 * the cache is read-only. Keep one that cannot be read now: it may be good.
 */
static int cache_open_whole(int dir, const char *name, bool read_only)
{
	int fd = cache_open_file(dir, name), ret;

	if (fd < 0)
		return -1;
	ret = check_file(fd, read_only);
	if (!ret)
		return fd;
	if (ret > 0 && !read_only)
		remove_damaged(dir, name, fd);
	close(fd);
	errno = ret > 0 ? EBADMSG : -ret;
	return -1;
}

static int cache_find_named(int cache, const struct build_id *id, bool alone, bool read_only)
{
	char name[CACHE_NAME_SIZE], *file = name + 3;
	int dir, fd;

	cache_name(id, alone, name);
	name[2] = '\0';
	dir = openat(cache, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	fd = dir >= 0 && is_ours(dir, S_IFDIR) ? cache_open_whole(dir, file, read_only) : -1;
	if (dir >= 0)
		close(dir);
	return fd;
}

/* Record the use of a section: later sessions register it early, see cache_each(). */
static void set_used(int fd)
{
	struct stat st;

	/* The kernel then reads the section again, so do this rarely. */
	if (!fstat(fd, &st) && time(NULL) - st.st_mtime > USED_TOLD)
		futimens(fd, NULL);
}

/**
 * cache_find - find the section of a file
 * @cache:	the cache
 * @id:		the file's build-id
 * @read_only:	leave the cache as it is
 *
 * Return: the complete section, open for reading; -1 if there is none.
 */
int cache_find(int cache, const struct build_id *id, bool read_only)
{
	int fd = cache_find_named(cache, id, false, read_only);

	if (fd < 0 && !device_is_for_all())
		fd = cache_find_named(cache, id, true, read_only);
	if (fd >= 0 && !read_only)
		set_used(fd);
	return fd;
}

/**
 * cache_remove - remove a useless section
 * @cache:	the cache
 * @id:		of the file
 */
void cache_remove(int cache, const struct build_id *id)
{
	char name[CACHE_NAME_SIZE];

	for (int alone = 0; alone <= !device_is_for_all(); alone++) {
		cache_name(id, alone, name);
		unlinkat(cache, name, 0);
	}
}

/**
 * copy_file - copy a file
 * @to:		the destination
 * @from:	the source, copied from start to end
 *
 * Return: 0, or a negative errno.
 */
int copy_file(int to, int from)
{
	off_t at = 0;
	ssize_t done;

	do {
		done = sendfile(to, from, &at, 1 << 30);
	} while (done > 0);
	return done < 0 ? -errno : 0;
}

/* EPERM stands for what others may write to, see open_dir(), and not for what is immutable. */
static int not_eperm(int ret)
{
	return ret == -EPERM ? -EACCES : ret;
}

/* Copy a section into a new file, without waiting for the disk. */
static int fill_entry(struct cache_entry *entry, int from, bool alone)
{
	int ret;

	entry->fd = temp_create(entry->dir, TEMP, entry->temp);
	if (entry->fd < 0)
		return entry->fd;
	ret = copy_file(entry->fd, from);
	if (!ret && fchmod(entry->fd, alone ? 0600 : 0644))
		ret = -errno;
	if (!ret) {
		entry->section = openat(entry->dir, entry->temp,
					O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		ret = entry->section < 0 ? -errno : 0;
	}
	if (!ret)
		set_boot(entry->fd);
	if (ret) {
		close(entry->fd);
		unlinkat(entry->dir, entry->temp, 0);
	}
	return ret;
}

/**
 * cache_begin - start putting a section into the cache
 * @entry:	set; pass it to cache_end() if this returns 0
 * @cache:	the cache
 * @id:		the build-id of the file that it is for
 * @from:	a file that holds only the section
 * @alone:	it must not be used where sections are for tasks of others
 *
 * Return: 0, or a negative errno.
 */
int cache_begin(struct cache_entry *entry, int cache, const struct build_id *id, int from,
		bool alone)
{
	int ret;

	if (id->size < BUILD_ID_MIN)
		return -EINVAL;
	cache_name(id, alone, entry->name);
	entry->name[2] = '\0';
	entry->dir = open_dir(cache, entry->name, O_NOFOLLOW, true);
	if (entry->dir < 0)
		return -errno;
	ret = fill_entry(entry, from, alone);
	if (ret)
		close(entry->dir);
	return not_eperm(ret);
}

/**
 * cache_set_lost - remember how much code a section does not describe
 * @entry:	from cache_begin()
 * @bytes:	bytes of code that only .eh_frame describes
 *
 * The number is lost on file systems without attributes.
 */
void cache_set_lost(const struct cache_entry *entry, u64 bytes)
{
	char text[24];

	fsetxattr(entry->fd, LOST, text,
		  snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes), 0);
}

/**
 * cache_lost - get how much code a section does not describe
 * @section:	from cache_find()
 *
 * Return: the bytes of code; 0 if unknown.
 */
u64 cache_lost(int section)
{
	char text[24] = "";

	return fgetxattr(section, LOST, text, sizeof(text) - 1) > 0 ? strtoull(text, NULL, 10) : 0;
}

/**
 * cache_end - finish putting a section into the cache
 * @entry:	from cache_begin()
 * @keep:	false to drop the section
 *
 * This waits for the disk. Readers, even after a crash of the system, find the complete section
 * or nothing.
 *
 * Return: 0, or a negative errno.
 */
int cache_end(struct cache_entry *entry, bool keep)
{
	int ret = keep ? file_sync(entry->fd) : 0;

	if (close(entry->fd) && !ret)
		ret = -errno;
	if (!ret && keep && renameat(entry->dir, entry->temp, entry->dir, entry->name + 3))
		ret = -errno;
	if (ret || !keep)
		unlinkat(entry->dir, entry->temp, 0);
	close(entry->section);
	close(entry->dir);
	return not_eperm(ret);
}

/* Remove a file that a writer left because it was killed. */
static void remove_stale(int dir, const char *name)
{
	struct stat st;

	if (!strncmp(name, TEMP, strlen(TEMP)) && !fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) &&
	    time(NULL) - st.st_mtime > STALE)
		unlinkat(dir, name, 0);
}

/**
 * struct kept - a section in the cache
 * @id:		the build-id of the file that it is for
 * @alone:	it must not be used where sections are for tasks of others
 * @used:	time of its last use, if that is needed
 */
struct kept {
	struct build_id	id;
	bool		alone;
	time_t		used;
};

/**
 * struct walk - a walk through the cache
 * @cache:	the cache
 * @read_only:	leave it as it is
 * @remote:	the cache is on a server
 * @all:	also look at sections that are of no use here
 * @kept:	sections found
 * @nr:		number of @kept
 * @room:	allocated entries of @kept
 * @max:	most of them
 * @names:	number of all sections
 */
struct walk {
	int		cache;
	bool		read_only;
	bool		remote;
	bool		all;
	struct kept	*kept;
	size_t		nr;
	size_t		room;
	size_t		max;
	size_t		names;
};

static bool walk_has_room(struct walk *walk)
{
	size_t more = walk->room ? 2 * walk->room : 1024;
	struct kept *grown;

	if (walk->nr == walk->max)
		return false;
	if (walk->nr < walk->room)
		return true;
	grown = realloc(walk->kept, more * sizeof(*grown));
	if (!grown)
		return false;
	walk->kept = grown;
	walk->room = more;
	return true;
}

static void walk_file(struct walk *walk, int at, const char *dir, const char *file)
{
	struct kept kept = {};

	if (!cache_parse(dir, file, &kept.id, &kept.alone)) {
		if (!walk->read_only)
			remove_stale(at, file);
		return;
	}
	if (walk->remote)
		return;
	walk->names++;
	if ((kept.alone && device_is_for_all() && !walk->all) || !walk_has_room(walk))
		return;
	walk->kept[walk->nr++] = kept;
}

static void walk_dir(struct walk *walk, const char *dir)
{
	int at = openat(walk->cache, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *files = at >= 0 && is_ours(at, S_IFDIR) ? fdopendir(at) : NULL;
	struct dirent *file;

	if (!files) {
		if (at >= 0)
			close(at);
		return;
	}
	while ((file = readdir(files)))
		walk_file(walk, at, dir, file->d_name);
	closedir(files);
}

static void walk_all(struct walk *walk)
{
	int at = openat(walk->cache, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dirs = at < 0 ? NULL : fdopendir(at);
	struct dirent *dir;

	while (dirs && (dir = readdir(dirs))) {
		if (strlen(dir->d_name) == 2 && dir->d_name[0] != '.')
			walk_dir(walk, dir->d_name);
	}
	if (dirs)
		closedir(dirs);
	else if (at >= 0)
		close(at);
}

static int compare_kept(const void *a, const void *b)
{
	const struct kept *one = a, *two = b;

	return one->used > two->used ? -1 : one->used < two->used;
}

/* Sort by last use, latest first. */
static void walk_sort(const struct walk *walk)
{
	char name[CACHE_NAME_SIZE];
	struct stat st;

	for (size_t i = 0; i < walk->nr; i++) {
		cache_name(&walk->kept[i].id, walk->kept[i].alone, name);
		if (!fstatat(walk->cache, name, &st, AT_SYMLINK_NOFOLLOW))
			walk->kept[i].used = st.st_mtime;
	}
	if (walk->nr)
		qsort(walk->kept, walk->nr, sizeof(*walk->kept), compare_kept);
}

/**
 * cache_each - go through the sections of the cache
 * @cache:	the cache
 * @read_only:	leave it as it is; otherwise remove damaged sections and left-over files
 * @max:	with more sections than this, start with those that were used last, of the first
 *		KEPT_MAX names that the directories have
 * @found:	called for each section, which is then closed; stops unless it returns 0
 * @data:	for @found
 *
 * Skips sections on a server: they would all be fetched and copied into memory, and few are
 * needed. There, only the names are read to remove left-over files.
 *
 * Return: the number of sections; 0 if they are on a server.
 */
unsigned int cache_each(int cache, bool read_only, unsigned int max,
			int (*found)(void *data, const struct build_id *id, int fd), void *data)
{
	struct walk walk = {
		.cache = cache, .read_only = read_only, .remote = device_needs_copy(cache),
		.max = KEPT_MAX,
	};
	int ret = 0;

	if (walk.remote && read_only)
		return 0;
	walk_all(&walk);
	if (walk.nr > max)
		walk_sort(&walk);
	for (size_t i = 0; !ret && i < walk.nr; i++) {
		const struct kept *kept = &walk.kept[i];
		int fd = cache_find_named(cache, &kept->id, kept->alone, read_only);

		if (fd < 0)
			continue;
		ret = found(data, &kept->id, fd);
		close(fd);
	}
	free(walk.kept);
	return walk.names;
}

/**
 * cache_prune - remove sections that were not used for days, if there are more than KEPT_MAX
 * @cache:	the cache
 *
 * Of those that were used lately, it keeps RECENT_MAX.
 *
 * Starts with those whose last use is longest ago, and makes room for new ones, or each session
 * with one would have to do this. A session that has registered a section keeps it. Sections on a
 * server stay: to find the time of each last use would take a request.
 */
void cache_prune(int cache)
{
	struct walk walk = { .cache = cache, .all = true, .max = NAMES_MAX };
	time_t recent = time(NULL) - UNUSED;
	char name[CACHE_NAME_SIZE];

	if (device_needs_copy(cache))
		return;
	walk_all(&walk);
	if (walk.nr > KEPT_MAX) {
		walk_sort(&walk);
		for (size_t i = KEPT_MAX - KEPT_MAX / 8; i < walk.nr; i++) {
			if (i < RECENT_MAX && walk.kept[i].used >= recent)
				continue;
			cache_name(&walk.kept[i].id, walk.kept[i].alone, name);
			unlinkat(cache, name, 0);
		}
	}
	free(walk.kept);
}
