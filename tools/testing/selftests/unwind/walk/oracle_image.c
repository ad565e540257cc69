// SPDX-License-Identifier: GPL-2.0
/*
 * The ELF file of code that is stepped through: mapping, symbols, sections.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "oracle.h"

/* Find the mapping of the file in a process, and the file's path; [vdso] has no file. */
static bool find_mapping(struct oracle_image *image, pid_t pid, char *path, size_t size)
{
	unsigned long start, end, offset;
	char line[4096], perms[8];
	FILE *maps;

	snprintf(line, sizeof(line), "/proc/%d/maps", pid);
	maps = fopen(line, "r");
	if (!maps)
		return false;
	while (fgets(line, sizeof(line), maps)) {
		char here[4096], *base;

		if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %4095s", &start, &end, perms, &offset,
			   here) != 5)
			continue;
		base = strrchr(here, '/');
		if (strcmp(base ? base + 1 : here, image->name))
			continue;
		snprintf(path, size, "%s", here);
		if (!offset)
			image->bias = start;
		if (perms[2] == 'x') {
			image->start = start;
			image->end = end;
		}
	}
	fclose(maps);
	return image->end;
}

static const Elf64_Ehdr *header_of(const struct oracle_image *image)
{
	return (const Elf64_Ehdr *)image->file;
}

/* NULL if the section is missing. */
static const Elf64_Shdr *section_of(const struct oracle_image *image, const char *name)
{
	const Elf64_Ehdr *ehdr = header_of(image);
	const Elf64_Shdr *shdr = (const void *)(image->file + ehdr->e_shoff);
	const char *names = (const char *)image->file + shdr[ehdr->e_shstrndx].sh_offset;

	for (int i = 0; i < ehdr->e_shnum; i++) {
		if (!strcmp(names + shdr[i].sh_name, name))
			return &shdr[i];
	}
	return NULL;
}

static bool map_file(struct oracle_image *image, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *map;

	if (fd < 0)
		return false;
	if (fstat(fd, &st)) {
		close(fd);
		return false;
	}
	map = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return false;
	image->file = map;
	image->size = st.st_size;
	return true;
}

/* Copy the vDSO, whose mapping is all of its ELF file. */
static bool copy_vdso(struct oracle_image *image, pid_t pid)
{
	char path[32];
	ssize_t size;
	void *copy;
	int fd;

	image->size = image->end - image->start;
	copy = malloc(image->size);
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (!copy || fd < 0)
		return false;
	size = pread(fd, copy, image->size, image->start);
	close(fd);
	image->file = copy;
	return size == image->size;
}

bool oracle_image_open(struct oracle_image *image, pid_t pid, const char *name)
{
	char path[4096];

	*image = (struct oracle_image) {};
	snprintf(image->name, sizeof(image->name), "%s", name);
	errno = ENOENT;
	if (!find_mapping(image, pid, path, sizeof(path)))
		return false;
	if (path[0] == '/' ? !map_file(image, path) : !copy_vdso(image, pid))
		return false;
	if (header_of(image)->e_type == ET_EXEC)
		image->bias = 0;
	image->marks = calloc(image->end - image->start, 1);
	return image->marks;
}

/* The section at an address, for code without symbols, such as a PLT. */
static const char *section_at(const struct oracle_image *image, unsigned long addr,
			      unsigned long *offset)
{
	const Elf64_Ehdr *ehdr = header_of(image);
	const Elf64_Shdr *shdr = (const void *)(image->file + ehdr->e_shoff);
	const char *names = (const char *)image->file + shdr[ehdr->e_shstrndx].sh_offset;

	for (int i = 0; i < ehdr->e_shnum; i++) {
		*offset = addr - image->bias - shdr[i].sh_addr;
		if (shdr[i].sh_addr && *offset < shdr[i].sh_size)
			return names + shdr[i].sh_name;
	}
	return NULL;
}

const char *oracle_image_symbol(const struct oracle_image *image, unsigned long addr,
				unsigned long *offset)
{
	const Elf64_Shdr *symtab = section_of(image, ".symtab");
	const Elf64_Shdr *strtab = section_of(image, ".strtab");
	const Elf64_Sym *sym;

	if (!symtab || !strtab)
		return section_at(image, addr, offset);
	sym = (const void *)(image->file + symtab->sh_offset);
	for (size_t i = 0; i < symtab->sh_size / sizeof(*sym); i++, sym++) {
		*offset = addr - image->bias - sym->st_value;
		if (ELF_ST_TYPE(sym->st_info) == STT_FUNC && *offset < sym->st_size)
			return (const char *)image->file + strtab->sh_offset + sym->st_name;
	}
	return section_at(image, addr, offset);
}

unsigned long oracle_image_plt(const struct oracle_image *image, unsigned long nr)
{
	const Elf64_Shdr *rela = section_of(image, ".rela.plt");
	const Elf64_Shdr *dynsym = section_of(image, ".dynsym");
	const Elf64_Rela *rel;
	const Elf64_Sym *sym;

	if (!rela || !dynsym || nr >= rela->sh_size / sizeof(*rel))
		return 0;
	rel = (const void *)(image->file + rela->sh_offset);
	sym = (const void *)(image->file + dynsym->sh_offset);
	return image->bias + sym[ELF64_R_SYM(rel[nr].r_info)].st_value;
}

int oracle_image_sframe(const struct oracle_image *image)
{
	const Elf64_Shdr *section = section_of(image, ".sframe");

	/* The version follows the magic number. */
	return section ? image->file[section->sh_offset + 2] : 0;
}

unsigned int oracle_image_count(const struct oracle_image *image, const char *function,
				unsigned char mark)
{
	unsigned long offset;
	unsigned int nr = 0;

	for (unsigned long addr = image->start; addr < image->end; addr++) {
		const char *name;

		if (!(image->marks[addr - image->start] & mark))
			continue;
		name = function ? oracle_image_symbol(image, addr, &offset) : NULL;
		nr += !function || (name && !strcmp(name, function));
	}
	return nr;
}
