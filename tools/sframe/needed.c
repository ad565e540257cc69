// SPDX-License-Identifier: GPL-2.0
/*
 * Find the files that a program needs before it runs: its interpreter, and the libraries that
 * the program and its libraries name, in the usual places.
 *
 * This is a guess for a head start: other files are seen when they are mapped. Files are not
 * trusted, so the number of reads and lookups is limited.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"
#include "session.h"

/* Limit of files; cc1 needs 10, and graphical programs 100. */
#define NEEDED_MAX	512

/* Limit of .dynamic entries read and names tried, for all files together. */
#define LOOKS_MAX	(1 << 16)

/* Limit of the length of a file's list of directories. */
#define DIRS_SIZE	(1 << 16)

/**
 * struct needed - needed files found so far
 * @paths:	their real names
 * @nr:		number of @paths
 * @looks:	entries and names looked up, up to LOOKS_MAX
 */
struct needed {
	char		*paths[NEEDED_MAX];
	unsigned int	nr;
	unsigned int	looks;
};

/* Count one more lookup. Returns false at the limit. */
static bool look(struct needed *needed)
{
	if (needed->looks == LOOKS_MAX)
		return false;
	needed->looks++;
	return true;
}

static const char *const standard_dirs[] = {
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64",
	"/lib", "/usr/lib", "/usr/local/lib",
};

/* Returns false if the file does not exist. */
static bool add_path(struct needed *needed, const char *path)
{
	char *real = look(needed) && !access(path, R_OK) ? realpath(path, NULL) : NULL;

	if (!real)
		return false;
	for (unsigned int i = 0; i < needed->nr; i++) {
		if (!strcmp(needed->paths[i], real)) {
			free(real);
			return true;
		}
	}
	if (needed->nr == NEEDED_MAX)
		free(real);
	else
		needed->paths[needed->nr++] = real;
	return true;
}

/* Add a name from a list of directories separated by colons; $ORIGIN is the directory of @of. */
static bool add_from(struct needed *needed, const char *dirs, const char *of, const char *name)
{
	char path[PATH_MAX], dir[PATH_MAX], origin[PATH_MAX];

	snprintf(origin, sizeof(origin), "%s", of);
	for (const char *end; dirs && *dirs && look(needed); dirs = *end ? end + 1 : end) {
		const char *begin = dirs;

		end = strchrnul(dirs, ':');
		if (!strncmp(begin, "$ORIGIN", 7))
			begin += 7;
		else if (!strncmp(begin, "${ORIGIN}", 9))
			begin += 9;
		snprintf(dir, sizeof(dir), "%s%.*s", begin == dirs ? "" : dirname(origin),
			 (int)(end - begin), begin);
		if (begin != dirs)
			snprintf(origin, sizeof(origin), "%s", of);
		if (snprintf(path, sizeof(path), "%s/%s", dir, name) < (int)sizeof(path) &&
		    add_path(needed, path))
			return true;
	}
	return false;
}

static void add_library(struct needed *needed, const char *runpath, const char *of,
			const char *name)
{
	char path[PATH_MAX];

	if (strchr(name, '/')) {
		add_path(needed, name);
		return;
	}
	if (add_from(needed, getenv("LD_LIBRARY_PATH"), of, name) ||
	    add_from(needed, runpath, of, name))
		return;
	for (unsigned int i = 0; i < sizeof(standard_dirs) / sizeof(*standard_dirs); i++) {
		snprintf(path, sizeof(path), "%s/%s", standard_dirs[i], name);
		if (add_path(needed, path))
			return;
	}
}

/* Get the raw string table; NULL if there is none, or it is too large. */
static const Elf_Data *find_strings(Elf *elf, u32 index)
{
	Elf_Scn *scn = elf_getscn(elf, index);
	const Elf_Data *data;
	GElf_Shdr shdr;

	if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_STRTAB || shdr.sh_size > IMAGE_NAMES)
		return NULL;
	data = elf_rawdata(scn, NULL);
	return data && data->d_buf ? data : NULL;
}

/* Returns NULL if the string does not end within @max bytes. */
static const char *string_at(const Elf_Data *strings, u64 at, size_t max)
{
	const char *string;

	if (at >= strings->d_size)
		return NULL;
	string = (const char *)strings->d_buf + at;
	return memchr(string, 0, strings->d_size - at < max ? strings->d_size - at : max) ?
		string : NULL;
}

/* Read .dynamic: first the directories, then the libraries. */
static void read_dynamic(struct needed *needed, Elf *elf, Elf_Scn *scn, const GElf_Shdr *shdr,
			 const char *path)
{
	const Elf_Data *strings = find_strings(elf, shdr->sh_link);
	Elf_Data *data = shdr->sh_size > IMAGE_NAMES ? NULL : elf_getdata(scn, NULL);
	const char *runpath, *name;
	u64 dirs = UINT64_MAX;
	GElf_Dyn dyn;

	if (!strings || !data)
		return;
	for (int i = 0; look(needed) && gelf_getdyn(data, i, &dyn) && dyn.d_tag != DT_NULL; i++) {
		if (dyn.d_tag == DT_RUNPATH || (dyn.d_tag == DT_RPATH && dirs == UINT64_MAX))
			dirs = dyn.d_un.d_val;
	}
	runpath = string_at(strings, dirs, DIRS_SIZE);
	for (int i = 0; look(needed) && gelf_getdyn(data, i, &dyn) && dyn.d_tag != DT_NULL; i++) {
		name = dyn.d_tag == DT_NEEDED ? string_at(strings, dyn.d_un.d_val, PATH_MAX) : NULL;
		if (name)
			add_library(needed, runpath, path, name);
	}
}

/* Use the first PT_INTERP and the same limit for its name as the kernel. */
static void read_interpreter(struct needed *needed, Elf *elf)
{
	char name[PATH_MAX + 1];
	GElf_Phdr phdr;
	Elf_Data *data;
	size_t nr = 0;

	elf_getphdrnum(elf, &nr);
	for (size_t i = 0; i < nr; i++) {
		if (!gelf_getphdr(elf, i, &phdr) || phdr.p_type != PT_INTERP)
			continue;
		data = phdr.p_filesz > PATH_MAX ? NULL :
			elf_getdata_rawchunk(elf, phdr.p_offset, phdr.p_filesz, ELF_T_BYTE);
		if (data && data->d_buf) {
			snprintf(name, sizeof(name), "%.*s", (int)phdr.p_filesz,
				 (const char *)data->d_buf);
			add_path(needed, name);
		}
		return;
	}
}

static void read_elf(struct needed *needed, Elf *elf, const char *path)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;

	read_interpreter(needed, elf);
	while ((scn = elf_nextscn(elf, scn))) {
		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_DYNAMIC)
			continue;
		read_dynamic(needed, elf, scn, &shdr, path);
		return;
	}
}

/* "#!/usr/bin/env python3" names two programs. */
static void read_script(struct needed *needed, char *line)
{
	char *save, *program = strtok_r(line, " \t\n", &save), *word;

	if (!program)
		return;
	add_path(needed, program);
	word = strtok_r(NULL, " \t\n", &save);
	if (word && !strcmp(basename(program), "env"))
		add_from(needed, getenv("PATH"), "", word);
}

static void read_file(struct needed *needed, const char *path)
{
	int fd = open_place(open(path, O_PATH | O_CLOEXEC));
	char line[256] = {}, message[SFRAME_MESSAGE];
	struct image image;

	if (fd < 0)
		return;
	if (pread(fd, line, sizeof(line) - 1, 0) > 2 && !strncmp(line, "#!", 2)) {
		line[strcspn(line, "\n")] = '\0';
		read_script(needed, line + 2);
	} else if (!image_open_fd(&image, fd, message)) {
		read_elf(needed, image.elf, path);
		image_close(&image);
	}
	close(fd);
}

/* Write the names of the needed files, NUL-terminated. */
static void __attribute__((noreturn)) needed_main(const char *program, int out, pid_t parent)
{
	FILE *names = fdopen(child_begin(out, parent), "w");
	struct needed needed = {};

	if (!names)
		_exit(1);
	job_limit_cpu(OPEN_SECONDS);
	if (strchr(program, '/'))
		add_path(&needed, program);
	else
		add_from(&needed, getenv("PATH"), "", program);
	for (unsigned int i = 0; i < needed.nr; i++) {
		fwrite(needed.paths[i], 1, strlen(needed.paths[i]) + 1, names);
		/* Reading the file may hang. */
		fflush(names);
		read_file(&needed, needed.paths[i]);
	}
	_exit(0);
}

/* Read the names until the process ends or hangs. Returns false if it hangs. */
static bool needed_read(pid_t pid, int in, watch_fn found, void *data)
{
	static char names[NEEDED_MAX * PATH_MAX];
	struct blocked blocked;
	size_t size = 0;
	ssize_t got;
	bool all;

	blocked_begin(&blocked, pid);
	do {
		all = blocked_wait(&blocked, in, OPEN_BLOCKED_MAX,
				   WAITED_TIMES * OPEN_BLOCKED_MAX);
		got = all ? read(in, names + size, sizeof(names) - size) : 0;
		size += got > 0 ? got : 0;
	} while (got > 0);
	for (char *at = names, *end; (end = memchr(at, 0, names + size - at)); at = end + 1) {
		const struct mapping mapping = { .path = at };

		found(data, &mapping);
	}
	return all;
}

/**
 * needed_files - find the files that a program needs
 * @program:	its name, as in a command
 * @found:	called for each file
 * @data:	for @found
 *
 * Uses a separate process, because a file system may hang.
 *
 * Return: false if one hangs.
 */
bool needed_files(const char *program, watch_fn found, void *data)
{
	pid_t parent = getpid(), pid;
	int names[2];
	bool all;

	if (pipe2(names, O_CLOEXEC))
		return true;
	pid = fork();
	if (!pid)
		needed_main(program, names[1], parent);
	close(names[1]);
	all = pid < 0 || needed_read(pid, names[0], found, data);
	close(names[0]);
	/* The process closes files when it ends, which may hang as well. */
	if (pid > 0)
		stuck_kill(pid, getuid());
	return all;
}
