// SPDX-License-Identifier: GPL-2.0
/*
 * Mapped files and the symbols in them, by elfutils.
 *
 * A file is opened when the first address in it is seen, through the process that maps it: by
 * the end, both may be gone. It must be the file that was mapped, as its build-id or its inode
 * number shows; otherwise its symbols are not used.
 *
 * Invariant: a user who may write a file can make its names wrong, but cannot stop or end this
 * program. So no open() may block, and no file is mapped, because a truncation would cause
 * SIGBUS. elfutils does both when it opens files itself, so it never opens any.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <bpf/hashmap.h>
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>

#include "prof.h"

/* Larger files are not read. */
#define MAX_FILE_SIZE	(4LL << 30)

/* Where separate debuginfo is installed. */
#define DEBUG_ROOT	"/usr/lib/debug"

enum dso_state {
	DSO_NEW,
	DSO_OPEN,
	DSO_READ,
	DSO_NONE,
};

/**
 * struct dso - a file
 * @name:	its path, or the kernel's name for a mapping without a file
 * @build_id:	from the kernel or from the file
 * @build_id_size: its size, 0 if it is not known
 * @ino:	inode number, 0 if it is not known
 * @state:	what was done to it
 * @elf:	its contents, for DSO_OPEN and DSO_READ
 * @module:	its symbols, for DSO_READ
 * @debug:	symbols of its separate debuginfo, may be NULL
 */
struct dso {
	char		*name;
	unsigned char	build_id[BUILD_ID_SIZE];
	size_t		build_id_size;
	__u64		ino;
	enum dso_state	state;
	Elf		*elf;
	Dwfl_Module	*module;
	Dwfl_Module	*debug;
};

static struct hashmap *dsos;
static __u64 changed;

/* Get a file by its name and its identity: @build_id is NULL, and @ino 0, if not known. */
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

/* //anon, [vdso] and similar names of the kernel are not files. */
bool dso_is_file(const struct dso *dso)
{
	return dso->name[0] == '/' && strncmp(dso->name, "//", 2);
}

/* As far as is known: one may have a build-id, and the other an inode number. */
bool dso_is_same(const struct dso *a, const struct dso *b)
{
	if (a == b)
		return true;
	if (strcmp(a->name, b->name))
		return false;
	if (a->build_id_size && b->build_id_size)
		return a->build_id_size == b->build_id_size &&
		       !memcmp(a->build_id, b->build_id, a->build_id_size);
	return !a->ino || !b->ino || a->ino == b->ino;
}

/* Processes with the word size of this one have the same vDSO. */
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

/* Opening a device or a pipe may have side effects, or block. */
static int open_regular(const char *path)
{
	int place = open(path, O_PATH | O_CLOEXEC), fd = -1;
	struct stat stat_buf;
	char *again;

	if (place < 0)
		return -1;
	/* Files of procfs have no size; reading them may have side effects, too. */
	if (!fstat(place, &stat_buf) && S_ISREG(stat_buf.st_mode) && stat_buf.st_size > 0 &&
	    stat_buf.st_size <= MAX_FILE_SIZE) {
		again = xprintf("/proc/self/fd/%d", place);
		/* Do not block: the file's owner may have a lease. */
		fd = open(again, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
		free(again);
	}
	close(place);
	return fd;
}

/* ELF_C_READ does not map the file. */
static Elf *open_elf(int fd)
{
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);

	if (elf_kind(elf) == ELF_K_ELF)
		return elf;
	elf_end(elf);
	return NULL;
}

static size_t read_build_id(Elf *elf, const void **build_id)
{
	ssize_t size = elf ? dwelf_elf_gnu_build_id(elf, build_id) : 0;

	return size > 0 && size <= BUILD_ID_SIZE ? size : 0;
}

static bool has_build_id(const struct dso *dso, Elf *elf)
{
	const void *build_id;
	const size_t size = read_build_id(elf, &build_id);

	return size == dso->build_id_size && !memcmp(build_id, dso->build_id, size);
}

/* Use a file if it is the one that was mapped, and learn its build-id. */
static bool take_file(struct dso *dso, int fd)
{
	const void *build_id;
	struct stat stat_buf;
	Elf *elf;

	if (fstat(fd, &stat_buf) ||
	    (!dso->build_id_size && dso->ino && dso->ino != stat_buf.st_ino))
		return false;
	elf = open_elf(fd);
	if (dso->build_id_size && !has_build_id(dso, elf)) {
		elf_end(elf);
		return false;
	}
	dso->build_id_size = read_build_id(elf, &build_id);
	if (dso->build_id_size)
		memcpy(dso->build_id, build_id, dso->build_id_size);
	dso->ino = stat_buf.st_ino;
	dso->elf = elf;
	dso->state = elf ? DSO_OPEN : DSO_NONE;
	return true;
}

static bool try_open(struct dso *dso, char *path, bool *other)
{
	int fd = open_regular(path);
	bool taken;

	free(path);
	if (fd < 0)
		return false;
	taken = take_file(dso, fd);
	if (!dso->elf)
		close(fd);
	*other |= !taken;
	return taken;
}

/**
 * dso_open - open a file for its symbols, if it was not tried before
 * @dso:	the file
 * @tgid:	a process that maps it
 * @mapping:	where it is mapped
 */
void dso_open(struct dso *dso, __u32 tgid, const struct mapping *mapping)
{
	bool other = false;

	if (dso->state != DSO_NEW)
		return;
	elf_version(EV_CURRENT);
	dso->state = DSO_NONE;
	if (!strcmp(dso->name, "[vdso]") && mapping->start >> 32) {
		dso->elf = open_elf(open_vdso());
		dso->state = dso->elf ? DSO_OPEN : DSO_NONE;
		return;
	}
	if (!dso_is_file(dso))
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

/* How many files were not the mapped ones. */
__u64 dso_changed(void)
{
	return changed;
}

/* Callbacks of elfutils: use the given ELF, and do not open anything. */
static int find_elf(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
		    char **file_name, Elf **elf)
{
	*elf = *userdata;
	return -1;
}

static int find_no_debuginfo(Dwfl_Module *module, void **userdata, const char *name,
			     Dwarf_Addr base, const char *file_name, const char *link,
			     GElf_Word crc, char **debuginfo_name)
{
	return -1;
}

/* Find the file's own addresses, not those of a process. */
static bool find_range(Elf *elf, GElf_Addr *start, GElf_Addr *end)
{
	bool found = false;
	GElf_Ehdr ehdr;
	GElf_Phdr phdr;
	size_t nr;

	if (!gelf_getehdr(elf, &ehdr) || (ehdr.e_type != ET_EXEC && ehdr.e_type != ET_DYN) ||
	    elf_getphdrnum(elf, &nr))
		return false;
	for (size_t i = 0; i < nr; i++) {
		if (!gelf_getphdr(elf, i, &phdr) || phdr.p_type != PT_LOAD)
			continue;
		if (!found)
			*start = phdr.p_vaddr & -phdr.p_align;
		*end = phdr.p_vaddr + phdr.p_memsz;
		found = true;
	}
	return found && *start < *end;
}

static Dwfl_Module *module_of(const struct dso *dso, Elf *elf)
{
	static const Dwfl_Callbacks callbacks = {
		.find_elf = find_elf,
		.find_debuginfo = find_no_debuginfo,
		.section_address = dwfl_offline_section_address,
	};
	Dwfl_Module *module;
	GElf_Addr start = 0, end = 0;
	void **userdata;
	Dwfl *dwfl;

	if (!elf || !find_range(elf, &start, &end))
		return NULL;
	dwfl = dwfl_begin(&callbacks);
	if (!dwfl)
		return NULL;
	dwfl_report_begin(dwfl);
	module = dwfl_report_module(dwfl, dso->name, start, end);
	if (module) {
		dwfl_module_info(module, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
		*userdata = elf;
	}
	dwfl_report_end(dwfl, NULL, NULL);
	return module;
}

/* .gnu_debuglink has the same CRC as zlib. */
static bool has_crc(int fd, GElf_Word wanted)
{
	static unsigned char buffer[65536];
	uLong crc = crc32(0, NULL, 0);
	ssize_t size;
	off_t at;

	/* The file may grow meanwhile. */
	for (at = 0; at < MAX_FILE_SIZE; at += size) {
		size = pread(fd, buffer, sizeof(buffer), at);
		if (size <= 0)
			return !size && crc == wanted;
		crc = crc32(crc, buffer, size);
	}
	return false;
}

/* Open debuginfo at @path, if it has the build-id of @dso; without build-id, if it has @crc. */
static Elf *try_debug(const struct dso *dso, char *path, const GElf_Word *crc)
{
	int fd = open_regular(path);
	Elf *elf;

	free(path);
	if (fd < 0)
		return NULL;
	elf = open_elf(fd);
	if (elf && (dso->build_id_size ? has_build_id(dso, elf) : crc && has_crc(fd, *crc)))
		return elf;
	elf_end(elf);
	close(fd);
	return NULL;
}

static Elf *debug_by_id(const struct dso *dso)
{
	char hex[2 * BUILD_ID_SIZE + 1];

	if (dso->build_id_size < 2)
		return NULL;
	for (size_t i = 0; i < dso->build_id_size; i++)
		sprintf(hex + 2 * i, "%02x", dso->build_id[i]);
	return try_debug(dso, xprintf(DEBUG_ROOT "/.build-id/%.2s/%s.debug", hex, hex + 2), NULL);
}

static Elf *debug_by_link(const struct dso *dso)
{
	const char *slash = strrchr(dso->name, '/');
	const int size = slash ? slash - dso->name : 0;
	const char *link;
	GElf_Word crc;
	Elf *elf;

	link = slash ? dwelf_elf_gnu_debuglink(dso->elf, &crc) : NULL;
	if (!link || !*link || strchr(link, '/'))
		return NULL;
	elf = try_debug(dso, xprintf("%.*s/%s", size, dso->name, link), &crc);
	if (!elf)
		elf = try_debug(dso, xprintf("%.*s/.debug/%s", size, dso->name, link), &crc);
	if (!elf)
		elf = try_debug(dso, xprintf(DEBUG_ROOT "%.*s/%s", size, dso->name, link), &crc);
	return elf;
}

static bool has_symtab(Elf *elf)
{
	Elf_Scn *section = NULL;
	GElf_Shdr shdr;

	while ((section = elf_nextscn(elf, section)))
		if (gelf_getshdr(section, &shdr) && shdr.sh_type == SHT_SYMTAB)
			return true;
	return false;
}

static void read_dso(struct dso *dso)
{
	dso->module = module_of(dso, dso->elf);
	dso->state = dso->module ? DSO_READ : DSO_NONE;
	if (dso->module && !has_symtab(dso->elf))
		dso->debug = module_of(dso, debug_by_id(dso) ?: debug_by_link(dso));
}

static bool offset_to_addr(Elf *elf, __u64 offset, __u64 *addr)
{
	size_t nr;

	if (elf_getphdrnum(elf, &nr))
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

static char *name_in(Dwfl_Module *module, __u64 addr)
{
	const char *name;
	GElf_Addr bias;
	GElf_Off off;
	GElf_Sym sym;

	if (!module || !dwfl_module_getelf(module, &bias))
		return NULL;
	/* A name may be followed by its version. */
	name = dwfl_module_addrinfo(module, addr + bias, &off, &sym, NULL, NULL, NULL);
	return name ? xprintf("%.*s", (int)strcspn(name, "@"), name) : NULL;
}

/**
 * dso_symbol - the function at an offset of a file
 * @dso:	the file
 * @offset:	in the file
 * @addr:	set to the address of @offset in the file, or to @offset
 *
 * Return: its name, which the caller frees, or NULL if it has none
 */
char *dso_symbol(struct dso *dso, __u64 offset, __u64 *addr)
{
	*addr = offset;
	if (dso->state == DSO_OPEN)
		read_dso(dso);
	if (dso->state != DSO_READ || !offset_to_addr(dso->elf, offset, addr))
		return NULL;
	return name_in(dso->debug, *addr) ?: name_in(dso->module, *addr);
}
