// SPDX-License-Identifier: GPL-2.0
/*
 * Files that are mapped, and the symbols in them, by elfutils.
 *
 * A file is opened when the first address in it is seen, from the process that maps it:
 * by the end, both may be gone. It must be the one that was mapped: build-id or inode
 * number say so, else its symbols are not used.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <bpf/hashmap.h>
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>

#include "prof.h"

enum dso_state {
	DSO_NEW,
	DSO_OPEN,
	DSO_READ,
	DSO_NONE,
};

/**
 * struct dso - a file
 * @name:	its path, or what the kernel calls something else
 * @build_id:	as the kernel or the file say
 * @build_id_size: its size, 0 if it is not known
 * @ino:	inode number, 0 if it is not known
 * @state:	what was done to it
 * @fd:		for DSO_OPEN
 * @module:	for DSO_READ
 */
struct dso {
	char		*name;
	unsigned char	build_id[BUILD_ID_SIZE];
	size_t		build_id_size;
	__u64		ino;
	enum dso_state	state;
	int		fd;
	Dwfl_Module	*module;
};

static struct hashmap *dsos;
static __u64 changed;

/* A file by its name and what else is known about it; NULL and 0 if it is not. */
struct dso *dso_get(const char *name, const void *build_id, size_t build_id_size, __u64 ino)
{
	struct dso *dso;
	char *key;
	__u64 id = build_id ? hash_bytes(build_id, build_id_size) : ino;

	if (!dsos)
		dsos = map_of_strings();
	key = xprintf("%c%llx %s", build_id ? 'b' : 'i', id, name);
	if (hashmap__find(dsos, key, &dso)) {
		free(key);
		return dso;
	}

	dso = xalloc(sizeof(*dso));
	dso->name = xstrdup(name);
	dso->build_id_size = build_id_size;
	dso->ino = ino;
	if (build_id)
		memcpy(dso->build_id, build_id, build_id_size);
	if (hashmap__add(dsos, key, dso))
		die(STATUS_FAILED, "out of memory");
	return dso;
}

/* All processes of a word size have the vDSO of this one. */
static int open_vdso(void)
{
	const void *vdso = (const void *)getauxval(AT_SYSINFO_EHDR);
	const size_t size = 2 * getpagesize();
	int fd;

	fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd >= 0 && (!vdso || write(fd, vdso, size) <= 0)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int open_regular(const char *path)
{
	struct stat stat_buf;

	/* Opening a device may do something. */
	if (stat(path, &stat_buf) || !S_ISREG(stat_buf.st_mode))
		return -1;
	return open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
}

static size_t read_build_id(int fd, const unsigned char *build_id[], Elf **elf)
{
	const void *bits;
	ssize_t size;

	/* Not mapped: somebody could truncate the file. */
	*elf = elf_begin(fd, ELF_C_READ, NULL);
	size = *elf ? dwelf_elf_gnu_build_id(*elf, &bits) : 0;
	if (size <= 0 || size > BUILD_ID_SIZE)
		return 0;
	*build_id = bits;
	return size;
}

/* Is it the file that was mapped? If so, learn its build-id. */
static bool is_same(struct dso *dso, int fd)
{
	const unsigned char *build_id;
	struct stat stat_buf;
	size_t size;
	bool same;
	Elf *elf;

	size = read_build_id(fd, &build_id, &elf);
	if (dso->build_id_size)
		same = size == dso->build_id_size && !memcmp(build_id, dso->build_id, size);
	else
		same = !dso->ino || (!fstat(fd, &stat_buf) && stat_buf.st_ino == dso->ino);
	if (same && size) {
		dso->build_id_size = size;
		memcpy(dso->build_id, build_id, size);
	}
	elf_end(elf);
	return same;
}

static bool try_open(struct dso *dso, char *path, bool *other)
{
	int fd = open_regular(path);

	free(path);
	if (fd < 0)
		return false;
	if (!is_same(dso, fd)) {
		close(fd);
		*other = true;
		return false;
	}
	dso->fd = fd;
	dso->state = DSO_OPEN;
	return true;
}

/**
 * dso_open - open a file for its symbols, if it was not tried before
 * @dso:	the file
 * @tgid:	a process that maps it
 * @mapping:	where
 */
void dso_open(struct dso *dso, __u32 tgid, const struct mapping *mapping)
{
	bool other = false;

	if (dso->state != DSO_NEW)
		return;
	elf_version(EV_CURRENT);
	dso->state = DSO_NONE;
	if (!strcmp(dso->name, "[vdso]") && mapping->start >> 32) {
		dso->fd = open_vdso();
		dso->state = dso->fd < 0 ? DSO_NONE : DSO_OPEN;
		return;
	}
	if (dso->name[0] != '/' || !strncmp(dso->name, "//", 2))
		return;
	if (try_open(dso, xprintf("/proc/%u/map_files/%llx-%llx", tgid, mapping->start,
				  mapping->end), &other) ||
	    try_open(dso, xprintf("/proc/%u/root%s", tgid, dso->name), &other) ||
	    try_open(dso, xstrdup(dso->name), &other))
		return;
	changed += other;
}

const char *dso_name(const struct dso *dso)
{
	return dso->name;
}

size_t dso_build_id(struct dso *dso, const unsigned char **build_id)
{
	*build_id = dso->build_id;
	return dso->build_id_size;
}

/* Files that are not what was mapped. */
__u64 dso_changed(void)
{
	return changed;
}

static void read_dso(struct dso *dso)
{
	static const Dwfl_Callbacks callbacks = {
		.find_elf = dwfl_build_id_find_elf,
		.find_debuginfo = dwfl_standard_find_debuginfo,
		.section_address = dwfl_offline_section_address,
	};
	Dwfl *dwfl = dwfl_begin(&callbacks);

	dso->state = DSO_NONE;
	if (!dwfl)
		return;
	/* At the addresses that the file says, not at those of a process. */
	dwfl_report_begin(dwfl);
	dso->module = dwfl_report_elf(dwfl, dso->name, dso->name, dso->fd, 0, true);
	dwfl_report_end(dwfl, NULL, NULL);
	if (dso->module)
		dso->state = DSO_READ;
}

static bool offset_to_addr(Elf *elf, __u64 offset, __u64 *addr)
{
	size_t nr;

	if (!elf || elf_getphdrnum(elf, &nr))
		return false;
	for (size_t i = 0; i < nr; i++) {
		GElf_Phdr phdr;

		if (gelf_getphdr(elf, i, &phdr) && phdr.p_type == PT_LOAD &&
		    offset >= phdr.p_offset && offset - phdr.p_offset < phdr.p_filesz) {
			*addr = phdr.p_vaddr + offset - phdr.p_offset;
			return true;
		}
	}
	return false;
}

/**
 * dso_symbol - the function at an offset of a file
 * @dso:	the file
 * @offset:	in the file
 * @addr:	set to the address that the file has for it, or to @offset
 *
 * Return: its name, to be freed, NULL if it has none
 */
char *dso_symbol(struct dso *dso, __u64 offset, __u64 *addr)
{
	const char *name;
	GElf_Addr bias;
	GElf_Off off;
	GElf_Sym sym;

	*addr = offset;
	if (dso->state == DSO_OPEN)
		read_dso(dso);
	if (dso->state != DSO_READ ||
	    !offset_to_addr(dwfl_module_getelf(dso->module, &bias), offset, addr))
		return NULL;
	/* A name may be followed by its version. */
	name = dwfl_module_addrinfo(dso->module, *addr, &off, &sym, NULL, NULL, NULL);
	return name ? xprintf("%.*s", (int)strcspn(name, "@"), name) : NULL;
}
