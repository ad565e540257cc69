// SPDX-License-Identifier: GPL-2.0
/*
 * Find the SFrame section of an ELF image, and its executable segments.
 *
 * Contexts: task context, may sleep for as long as the file system takes; no locks are
 * held. A file is read through the page cache, not through the mapping of the walked task:
 * the task may have changed the mapping, which need not include the section either.
 *
 * The file is untrusted, and may change while it is read. Each value is read once.
 * Invariant: the number of reads is bounded by constants and the requested sizes, and
 * offsets and sizes from the file are only used within the limits of a file's size.
 */
#include <linux/align.h>
#include <linux/elf.h>
#include <linux/errno.h>
#include <linux/fs.h>
#include <linux/limits.h>
#include <linux/memcontrol.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/string.h>

#include "elf.h"

/* Maximum numbers of headers read: real files have about 12 program, 40 section headers. */
#define UNWIND_ELF_PHDRS	256
#define UNWIND_ELF_SHDRS	1024
/* Maximum number of section names read. */
#define UNWIND_ELF_NAMES	64
/* Number of headers per read. */
#define UNWIND_ELF_BATCH	8
/* Type of the build-id note, of the owner "GNU". */
#define UNWIND_ELF_BUILD_ID	3
/* Maximum number of notes read: real files have two segments of two. */
#define UNWIND_ELF_NOTES	16
/* Maximum number of short reads: less than a page, and less than requested. */
#define UNWIND_ELF_SHORT	16

/* The root cgroup, for memory that no task has to pay for. */
static struct mem_cgroup *unwind_elf_root(void)
{
#ifdef CONFIG_MEMCG
	return root_mem_cgroup;
#else
	return NULL;
#endif
}

/*
 * A walked task did not ask for its files to be read. If its cgroup is full, it must neither
 * be killed for their pages nor wait for reclaim. So set the active cgroup, which page cache
 * is charged to, to the root.
 */
static ssize_t unwind_elf_read_file(const struct unwind_elf_source *source, void *buf,
				    size_t size, loff_t *at)
{
	struct mem_cgroup *active;
	ssize_t got;

	if (source->charge)
		return __kernel_read(source->file, buf, size, at);

	active = set_active_memcg(unwind_elf_root());
	got = __kernel_read(source->file, buf, size, at);
	set_active_memcg(active);
	return got;
}

/**
 * unwind_elf_read - read a part of an image
 * @source:	the image
 * @buf:	buffer for the bytes
 * @size:	bytes to read
 * @pos:	offset in the image
 *
 * Context: task context, may sleep.
 * Return: 0; -ENOEXEC if the image is shorter; -EIO, -ENOMEM or -EINTR if the read failed.
 */
int unwind_elf_read(const struct unwind_elf_source *source, void *buf, size_t size, u64 pos)
{
	unsigned int nr_short = 0;
	loff_t at = pos;

	if (size > INT_MAX || pos > S64_MAX - size)
		return -ENOEXEC;
	if (!source->file) {
		if (pos + size > source->size)
			return -ENOEXEC;
		memcpy(buf, source->bytes + pos, size);
		return 0;
	}

	while (size) {
		ssize_t got = unwind_elf_read_file(source, buf, size, &at);

		/* Map errors of file systems: callers use other errnos for bad contents. */
		if (got < 0)
			return got == -EINTR || got == -ENOMEM ? got : -EIO;
		if (!got)
			return -ENOEXEC;
		if (got < min(size, PAGE_SIZE) && ++nr_short > UNWIND_ELF_SHORT)
			return -EIO;
		if (fatal_signal_pending(current))
			return -EINTR;
		buf += got;
		size -= got;
	}
	return 0;
}

static int unwind_elf_check(const struct elf64_hdr *ehdr)
{
	if (memcmp(ehdr->e_ident, ELFMAG, SELFMAG) ||
	    ehdr->e_ident[EI_CLASS] != ELFCLASS64 || ehdr->e_ident[EI_DATA] != ELF_DATA ||
	    (ehdr->e_type != ET_EXEC && ehdr->e_type != ET_DYN) || !elf_check_arch(ehdr) ||
	    ehdr->e_phentsize != sizeof(struct elf64_phdr))
		return -ENOEXEC;
	return 0;
}

/* Add a segment if it is executable and can be mapped as its header says. */
static void unwind_elf_add_segment(struct unwind_elf *elf, const struct elf64_phdr *phdr)
{
	if (!(phdr->p_flags & PF_X) || !phdr->p_filesz ||
	    offset_in_page(phdr->p_offset) != offset_in_page(phdr->p_vaddr) ||
	    phdr->p_offset > S64_MAX || phdr->p_filesz > S64_MAX - phdr->p_offset ||
	    phdr->p_vaddr > S64_MAX || phdr->p_filesz > S64_MAX - phdr->p_vaddr ||
	    elf->nr_segments == UNWIND_ELF_SEGMENTS)
		return;

	elf->segments[elf->nr_segments++] = (struct unwind_elf_segment) {
		.offset	= phdr->p_offset,
		.end	= phdr->p_offset + phdr->p_filesz,
		.addr	= phdr->p_vaddr,
	};
}

/* The first section in the headers counts. */
static void unwind_elf_set_section(struct unwind_elf *elf, u64 offset, u64 addr, u64 size)
{
	if (elf->size)
		return;
	elf->offset = offset;
	elf->addr = addr;
	elf->size = size;
}

/* Is a note the build-id? The id follows the name. */
static bool unwind_elf_is_build_id(const struct elf64_note *note, const char *name)
{
	return note->n_type == UNWIND_ELF_BUILD_ID && note->n_namesz == sizeof("GNU") &&
	       !memcmp(name, "GNU", sizeof("GNU")) && note->n_descsz &&
	       note->n_descsz <= UNWIND_BUILD_ID_MAX;
}

/* Read the build-id. A file that has none, or whose notes are truncated, is valid. */
static int unwind_elf_read_notes(const struct unwind_elf_source *source,
				 const struct elf64_phdr *phdr, unsigned int *reads,
				 struct unwind_build_id *id)
{
	u64 size = phdr->p_filesz, at = 0;
	struct {
		struct elf64_note	note;
		char			name[sizeof("GNU")];
	} head;

	while (!id->size && size > at && size - at >= sizeof(head) && *reads) {
		int ret;

		--*reads;
		ret = unwind_elf_read(source, &head, sizeof(head), phdr->p_offset + at);
		if (!ret && unwind_elf_is_build_id(&head.note, head.name)) {
			ret = unwind_elf_read(source, id->bytes, head.note.n_descsz,
					      phdr->p_offset + at + sizeof(head));
			id->size = ret ? 0 : head.note.n_descsz;
		}
		if (ret)
			return ret == -ENOEXEC ? 0 : ret;
		at += sizeof(head.note) + ALIGN((u64)head.note.n_namesz, 4) +
		      ALIGN((u64)head.note.n_descsz, 4);
	}
	return 0;
}

static int unwind_elf_read_phdrs(const struct unwind_elf_source *source,
				 const struct elf64_hdr *ehdr, struct unwind_elf *elf)
{
	unsigned int nr = min_t(unsigned int, ehdr->e_phnum, UNWIND_ELF_PHDRS);
	unsigned int notes = UNWIND_ELF_NOTES;
	struct elf64_phdr phdrs[UNWIND_ELF_BATCH];
	int ret = 0;

	for (unsigned int i = 0; !ret && i < nr; i++) {
		const struct elf64_phdr *phdr = &phdrs[i % UNWIND_ELF_BATCH];

		if (!(i % UNWIND_ELF_BATCH)) {
			unsigned int batch = min(nr - i, UNWIND_ELF_BATCH);

			ret = unwind_elf_read(source, phdrs, batch * sizeof(*phdr),
					      ehdr->e_phoff + i * sizeof(*phdr));
			if (ret)
				return ret;
		}
		if (phdr->p_type == PT_LOAD)
			unwind_elf_add_segment(elf, phdr);
		else if (phdr->p_type == PT_GNU_SFRAME)
			unwind_elf_set_section(elf, phdr->p_offset, phdr->p_vaddr,
					       phdr->p_filesz);
		else if (phdr->p_type == PT_NOTE)
			ret = unwind_elf_read_notes(source, phdr, &notes, &elf->build_id);
	}
	return ret;
}

/* Is it the SFrame section, by its type or its name? The name takes one of @reads. */
static int unwind_elf_is_sframe(const struct unwind_elf_source *source,
				const struct elf64_shdr *shdr, u64 names, unsigned int *reads)
{
	char name[sizeof(".sframe")];
	int ret;

	if ((shdr->sh_flags & (SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR)) != SHF_ALLOC)
		return 0;
	if (shdr->sh_type == SHT_GNU_SFRAME)
		return 1;
	if (shdr->sh_type != SHT_PROGBITS || !names || !*reads)
		return 0;

	--*reads;
	ret = unwind_elf_read(source, name, sizeof(name), names + shdr->sh_name);
	/* The file may end in a shorter name. */
	if (ret == -ENOEXEC)
		return 0;
	return ret ?: !memcmp(name, ".sframe", sizeof(name));
}

/* Find the section by section headers: not all linkers write a program header for it. */
static int unwind_elf_read_shdrs(const struct unwind_elf_source *source,
				 const struct elf64_hdr *ehdr, struct unwind_elf *elf)
{
	unsigned int nr = min_t(unsigned int, ehdr->e_shnum, UNWIND_ELF_SHDRS);
	unsigned int reads = UNWIND_ELF_NAMES;
	struct elf64_shdr shdrs[UNWIND_ELF_BATCH], strings;
	int ret;

	/* Read the header of the names first: it is usually the last, maybe above nr. */
	if (!nr || ehdr->e_shentsize != sizeof(struct elf64_shdr) ||
	    ehdr->e_shstrndx >= ehdr->e_shnum)
		return 0;
	ret = unwind_elf_read(source, &strings, sizeof(strings),
			      ehdr->e_shoff + ehdr->e_shstrndx * sizeof(strings));

	for (unsigned int i = 0; !ret && !elf->size && i < nr; i++) {
		const struct elf64_shdr *shdr = &shdrs[i % UNWIND_ELF_BATCH];

		if (!(i % UNWIND_ELF_BATCH)) {
			unsigned int batch = min(nr - i, UNWIND_ELF_BATCH);

			ret = unwind_elf_read(source, shdrs, batch * sizeof(*shdr),
					      ehdr->e_shoff + i * sizeof(*shdr));
			if (ret)
				break;
		}
		ret = unwind_elf_is_sframe(source, shdr, strings.sh_offset, &reads);
		if (ret > 0) {
			unwind_elf_set_section(elf, shdr->sh_offset, shdr->sh_addr,
					       shdr->sh_size);
			ret = 0;
		}
	}
	/* Section headers may have been cut off the file, because nothing else needs them. */
	return ret == -ENOEXEC ? 0 : ret;
}

/**
 * unwind_elf_open - find the SFrame section of an image
 * @source:	the image
 * @elf:	set to the section, the executable segments and the build-id
 *
 * Context: task context, may sleep.
 * Return:
 * * 0		- the image has a section and code
 * * -ENOEXEC	- the image is no executable or library of this architecture
 * * -ENODATA	- the image has no section, or no code
 * * others	- the file cannot be read
 */
int unwind_elf_open(const struct unwind_elf_source *source, struct unwind_elf *elf)
{
	struct elf64_hdr ehdr;
	int ret;

	*elf = (struct unwind_elf) {};
	ret = unwind_elf_read(source, &ehdr, sizeof(ehdr), 0);
	if (!ret)
		ret = unwind_elf_check(&ehdr);
	if (!ret)
		ret = unwind_elf_read_phdrs(source, &ehdr, elf);
	if (!ret && elf->nr_segments && !elf->size)
		ret = unwind_elf_read_shdrs(source, &ehdr, elf);
	if (ret)
		return ret;
	return elf->nr_segments && elf->size ? 0 : -ENODATA;
}
