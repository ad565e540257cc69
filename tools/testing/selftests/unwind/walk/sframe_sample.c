// SPDX-License-Identifier: GPL-2.0
/*
 * The files of sframe/: their functions, and which of them call each other.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sframe_sample.h"

#define PLT_ENTRY	16

static const Elf64_Shdr *sample_section(const struct sframe_sample *sample, const char *name)
{
	const Elf64_Ehdr *ehdr = (const void *)sample->bytes;
	const Elf64_Shdr *shdrs = (const void *)sample->bytes + ehdr->e_shoff;
	const char *names = (const char *)sample->bytes + shdrs[ehdr->e_shstrndx].sh_offset;

	for (int i = 0; i < ehdr->e_shnum; i++) {
		if (!strcmp(names + shdrs[i].sh_name, name))
			return &shdrs[i];
	}
	return NULL;
}

bool sample_open(struct sframe_sample *sample, const char *name)
{
	const Elf64_Shdr *symbols, *names, *plt, *relocs;
	struct stat stat;
	ssize_t len;
	int fd;

	memset(sample, 0, sizeof(*sample));
	len = readlink("/proc/self/exe", sample->path, sizeof(sample->path) - 64);
	while (len > 0 && sample->path[len - 1] != '/')
		len--;
	if (len < 0)
		return false;
	snprintf(sample->path + len, sizeof(sample->path) - len, "%s", name);
	fd = open(sample->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &stat))
		return false;
	sample->bytes = mmap(NULL, stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (sample->bytes == MAP_FAILED)
		return false;

	symbols = sample_section(sample, ".symtab");
	names = sample_section(sample, ".strtab");
	if (!symbols || !names)
		return false;
	sample->symbols = (const void *)sample->bytes + symbols->sh_offset;
	sample->nr_symbols = symbols->sh_size / sizeof(Elf64_Sym);
	sample->names = (const void *)sample->bytes + names->sh_offset;

	plt = sample_section(sample, ".plt");
	relocs = sample_section(sample, ".rela.plt");
	if (!plt || !relocs)
		return true;
	sample->plt = plt->sh_addr;
	sample->nr_plt = plt->sh_size / PLT_ENTRY;
	sample->plt_relocs = (const void *)sample->bytes + relocs->sh_offset;
	sample->dynamic = (const void *)sample->bytes +
			  sample_section(sample, ".dynsym")->sh_offset;
	sample->dynamic_names = (const void *)sample->bytes +
				sample_section(sample, ".dynstr")->sh_offset;
	return true;
}

static const void *sample_at(const struct sframe_sample *sample, __u64 addr)
{
	const Elf64_Ehdr *ehdr = (const void *)sample->bytes;
	const Elf64_Phdr *phdrs = (const void *)sample->bytes + ehdr->e_phoff;

	for (int i = 0; i < ehdr->e_phnum; i++) {
		if (phdrs[i].p_type == PT_LOAD && addr - phdrs[i].p_vaddr < phdrs[i].p_filesz)
			return sample->bytes + phdrs[i].p_offset + (addr - phdrs[i].p_vaddr);
	}
	return NULL;
}

static const char *plt_function(const struct sframe_sample *sample, unsigned int entry)
{
	const Elf64_Rela *reloc = &sample->plt_relocs[entry - 1];

	return sample->dynamic_names + sample->dynamic[ELF64_R_SYM(reloc->r_info)].st_name;
}

const char *sample_function(const struct sframe_sample *sample, __u64 addr)
{
	unsigned int entry = (addr - sample->plt) / PLT_ENTRY;

	if (addr - sample->plt < sample->nr_plt * PLT_ENTRY)
		return entry ? plt_function(sample, entry) : "any";
	for (unsigned int i = 0; i < sample->nr_symbols; i++) {
		const Elf64_Sym *symbol = &sample->symbols[i];

		if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
		    addr - symbol->st_value < symbol->st_size)
			return sample->names + symbol->st_name;
	}
	return "none";
}

/* The function whose call returns to this address. */
static const char *sample_callee(const struct sframe_sample *sample, __u64 addr)
{
	const __u8 *call = sample_at(sample, addr - 5);
	__s32 offset;

	if (!call || *call != 0xe8)
		return "no call";
	memcpy(&offset, call + 1, sizeof(offset));
	return sample_function(sample, addr + offset);
}

static void print_ips(const struct sframe_sample *sample, const __u64 *ips, unsigned int nr,
		      __u64 bias)
{
	for (unsigned int i = 0; i < nr; i++)
		printf("#   %#llx %s, called %s\n", ips[i] - bias,
		       sample_function(sample, ips[i] - bias - !!i),
		       i ? sample_callee(sample, ips[i] - bias) : "nobody");
}

/* Compilers add a suffix to the name of a function that calls itself. */
static bool same_function(const char *a, const char *b)
{
	size_t length = strcspn(a, ".");

	return length == strcspn(b, ".") && !strncmp(a, b, length);
}

unsigned int sample_chain(const struct sframe_sample *sample, const __u64 *ips, unsigned int nr,
			  __u64 bias, const char *last)
{
	const char *function = nr ? sample_function(sample, ips[0] - bias) : "";

	for (unsigned int i = 1; i < nr; i++) {
		const char *callee = sample_callee(sample, ips[i] - bias);

		if (!same_function(callee, function) && strcmp("any", function))
			break;
		function = sample_function(sample, ips[i] - bias - 1);
		if (same_function(function, last))
			return i + 1;
	}
	printf("# not all of a chain, %u frames:\n", nr);
	print_ips(sample, ips, nr, bias);
	return 0;
}

unsigned int sample_count(const struct sframe_sample *sample, const __u64 *ips, unsigned int nr,
			  __u64 bias, const char *name)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < nr; i++)
		count += same_function(name, sample_function(sample, ips[i] - bias - 1));
	return count;
}

__u64 sample_leaf(const struct sframe_sample *sample)
{
	for (unsigned int i = 0; i < sample->nr_symbols; i++) {
		const Elf64_Sym *symbol = &sample->symbols[i];
		const __u8 *code = sample_at(sample, symbol->st_value);

		if (strcmp(sample->names + symbol->st_name, "leaf_syscall"))
			continue;
		for (unsigned int at = 0; at < symbol->st_size; at++) {
			if (code[at] == 0x0f && code[at + 1] == 0x05)
				return symbol->st_value + at + 2;
		}
	}
	return 0;
}

__u64 sample_plt(const struct sframe_sample *sample, const char *name)
{
	if (!name)
		return sample->plt;
	for (unsigned int entry = 1; entry < sample->nr_plt; entry++) {
		if (!strcmp(plt_function(sample, entry), name))
			return sample->plt + entry * PLT_ENTRY;
	}
	return 0;
}
