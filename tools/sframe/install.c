// SPDX-License-Identifier: GPL-2.0
/*
 * Add a section to a copy of a program or a library, in a separate segment. layout.c places
 * all parts. Section headers and section names grow and can be anywhere, so they are
 * written again after the segment. The old ones are not used any more.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"

/**
 * struct copy - the new file
 * @image:	the old file
 * @old:	its bytes
 * @old_size:	size of @old
 * @layout:	layout of the new file
 * @file:	bytes of the new file
 */
struct copy {
	struct image		*image;
	const u8		*old;
	u64		old_size;
	const struct layout	*layout;
	u8			*file;
};

/* Write data in file byte order, which may differ from that of the host. */
static void put(u8 *to, const void *from, size_t size, Elf_Type type)
{
	Elf_Data src = {
		.d_buf = (void *)from, .d_size = size, .d_type = type, .d_version = EV_CURRENT,
	};
	Elf_Data dst = src;

	dst.d_buf = to;
	elf64_xlatetof(&dst, &src, ELFDATA2LSB);
}

/* Make a program header for the range between two offsets. */
static Elf64_Phdr make_phdr(const struct layout *layout, u32 type, u64 start,
			    u64 end, u64 align)
{
	u64 addr = layout_addr(layout, start);

	return (Elf64_Phdr) {
		.p_type	  = type,
		.p_flags  = PF_R,
		.p_offset = start,
		.p_vaddr  = addr,
		.p_paddr  = addr,
		.p_filesz = end - start,
		.p_memsz  = end - start,
		.p_align  = align,
	};
}

/* Adjust an old program header to the new layout. */
static void shift_phdr(const struct layout *layout, Elf64_Phdr *phdr)
{
	u64 start, size = phdr->p_filesz;

	if (phdr->p_type == PT_PHDR) {
		start = sizeof(Elf64_Ehdr);
		size = layout->nr_phdrs * sizeof(*phdr);
		*phdr = make_phdr(layout, PT_PHDR, start, start + size, 8);
	} else if (phdr->p_type == PT_LOAD && !phdr->p_offset) {
		phdr->p_vaddr -= layout->shift;
		phdr->p_paddr -= layout->shift;
		phdr->p_filesz += layout->shift;
		phdr->p_memsz += layout->shift;
	} else if (phdr->p_type != PT_LOAD && size &&
		   layout_in_block(layout, phdr->p_offset, size)) {
		phdr->p_offset += layout->block_to - layout->block;
		phdr->p_vaddr = layout_addr(layout, phdr->p_offset);
		phdr->p_paddr = phdr->p_vaddr;
	} else if (phdr->p_offset || size) {
		phdr->p_offset += layout->shift;
	}
}

static void write_phdrs(const struct copy *copy)
{
	const Elf64_Phdr *old = elf64_getphdr(copy->image->elf);
	const struct layout *layout = copy->layout;
	size_t nr = layout->nr_phdrs - 2, last = 0;
	u8 *to = copy->file + sizeof(Elf64_Ehdr);
	Elf64_Phdr phdr;

	for (size_t i = 0; i < nr; i++) {
		if (old[i].p_type == PT_LOAD)
			last = i;
	}
	for (size_t i = 0; i < nr; i++) {
		phdr = old[i];
		shift_phdr(layout, &phdr);
		put(to, &phdr, sizeof(phdr), ELF_T_PHDR);
		to += sizeof(phdr);
		if (i != last)
			continue;
		/* Segments ascend, and loaded ones are adjacent. */
		phdr = make_phdr(layout, PT_LOAD, layout->segment, layout->end, SEGMENT_ALIGN);
		put(to, &phdr, sizeof(phdr), ELF_T_PHDR);
		to += sizeof(phdr);
	}
	phdr = make_phdr(layout, PT_GNU_SFRAME, layout->sframe, layout->end, 8);
	put(to, &phdr, sizeof(phdr), ELF_T_PHDR);
}

/* Adjust a section header. Returns how far the section has moved in memory. */
static u64 shift_shdr(const struct layout *layout, size_t index, Elf64_Shdr *shdr)
{
	u64 addr = shdr->sh_addr;

	for (unsigned int i = 0; i < layout->nr_moved; i++) {
		if (layout->moved[i].index != index)
			continue;
		shdr->sh_offset = layout->moved[i].to;
		shdr->sh_addr = layout_addr(layout, shdr->sh_offset);
		return shdr->sh_addr - addr;
	}
	if (shdr->sh_flags & SHF_ALLOC && shdr->sh_type != SHT_NOBITS && shdr->sh_size &&
	    layout_in_block(layout, shdr->sh_offset, shdr->sh_size)) {
		shdr->sh_offset += layout->block_to - layout->block;
		shdr->sh_addr = layout_addr(layout, shdr->sh_offset);
	} else if (shdr->sh_type != SHT_NULL) {
		shdr->sh_offset += layout->shift;
	}
	return shdr->sh_addr - addr;
}

static void write_names(const struct copy *copy, Elf64_Shdr *shdr)
{
	const struct layout *layout = copy->layout;
	u8 *to = copy->file + layout->names;

	memcpy(to, copy->old + (shdr->sh_offset - layout->shift), layout->old_names);
	memcpy(to + layout->old_names, SECTION_NAME, sizeof(SECTION_NAME));
	shdr->sh_offset = layout->names;
	shdr->sh_size = layout->old_names + sizeof(SECTION_NAME);
}

/* The new section is the last one, to keep the indexes of the others. */
static void write_shdrs(const struct copy *copy)
{
	const struct layout *layout = copy->layout;
	Elf *elf = copy->image->elf;
	size_t names = elf64_getehdr(elf)->e_shstrndx;
	u8 *to = copy->file + layout->shdrs;
	Elf64_Shdr shdr;

	for (size_t i = 0; i < layout->nr_shdrs - 1; i++) {
		const Elf64_Shdr *from = elf64_getshdr(elf_getscn(elf, i));

		shdr = from ? *from : (Elf64_Shdr) {};
		shift_shdr(layout, i, &shdr);
		if (i == names)
			write_names(copy, &shdr);
		put(to, &shdr, sizeof(shdr), ELF_T_SHDR);
		to += sizeof(shdr);
	}
	shdr = (Elf64_Shdr) {
		.sh_name      = layout->old_names,
		.sh_type      = SHT_GNU_SFRAME,
		.sh_flags     = SHF_ALLOC,
		.sh_addr      = layout_addr(layout, layout->sframe),
		.sh_offset    = layout->sframe,
		.sh_size      = layout->end - layout->sframe,
		.sh_addralign = 8,
	};
	put(to, &shdr, sizeof(shdr), ELF_T_SHDR);
}

/* Adjust symbols in moved sections: section symbols, and those of objects in notes. */
static void write_symbols(const struct copy *copy)
{
	Elf *elf = copy->image->elf;
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	GElf_Sym sym;

	while ((scn = elf_nextscn(elf, scn))) {
		u8 *to = copy->file + copy->layout->shift;
		Elf_Data *data;

		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_SYMTAB ||
		    shdr.sh_entsize != sizeof(Elf64_Sym))
			continue;
		data = elf_getdata(scn, NULL);
		to += shdr.sh_offset;
		for (int i = 0; data && gelf_getsym(data, i, &sym); i++) {
			const Elf64_Shdr *from = elf64_getshdr(elf_getscn(elf, sym.st_shndx));
			Elf64_Shdr moved;

			if (!sym.st_shndx || sym.st_shndx >= SHN_LORESERVE || !from)
				continue;
			moved = *from;
			sym.st_value += shift_shdr(copy->layout, sym.st_shndx, &moved);
			if (moved.sh_addr != from->sh_addr)
				put(to + i * sizeof(Elf64_Sym), &sym, sizeof(Elf64_Sym),
				    ELF_T_SYM);
		}
	}
}

/* Adjust the addresses of moved sections in .dynamic. */
static int write_dynamic(const struct copy *copy)
{
	const struct layout *layout = copy->layout;
	Elf_Data *data;
	GElf_Shdr shdr;
	Elf_Scn *scn;
	GElf_Dyn dyn;

	if (!layout->nr_moved)
		return 0;
	scn = image_section(copy->image, ".dynamic", &shdr);
	data = scn ? elf_getdata(scn, NULL) : NULL;
	if (!data)
		return image_error(copy->image, EBADMSG, "has a damaged .dynamic");
	for (int i = 0; gelf_getdyn(data, i, &dyn) && dyn.d_tag != DT_NULL; i++) {
		for (unsigned int j = 0; j < layout->nr_moved; j++) {
			const struct moved *moved = &layout->moved[j];

			if (dyn.d_tag != moved->tag || dyn.d_un.d_ptr != moved->addr)
				continue;
			dyn.d_un.d_ptr = layout_addr(layout, moved->to);
			put(copy->file + shdr.sh_offset + i * sizeof(Elf64_Dyn), &dyn,
			    sizeof(Elf64_Dyn), ELF_T_DYN);
			break;
		}
	}
	return 0;
}

static void write_moved(const struct copy *copy)
{
	const struct layout *layout = copy->layout;
	u64 size = layout->block_end - layout->block;

	for (unsigned int i = 0; i < layout->nr_moved; i++) {
		const struct moved *moved = &layout->moved[i];

		memcpy(copy->file + moved->to, copy->old + moved->offset, moved->size);
		memset(copy->file + moved->offset, 0, moved->size);
	}
	/* With a new page in front, keep the old block for users of its address. */
	if (!layout->shift)
		memset(copy->file + layout->block, 0, size);
	memcpy(copy->file + layout->block_to, copy->old + layout->block, size);
}

static void write_ehdr(const struct copy *copy)
{
	Elf64_Ehdr ehdr = *elf64_getehdr(copy->image->elf);

	ehdr.e_phnum = copy->layout->nr_phdrs;
	ehdr.e_shoff = copy->layout->shdrs;
	ehdr.e_shnum = copy->layout->nr_shdrs;
	put(copy->file, &ehdr, sizeof(ehdr), ELF_T_EHDR);
}

/* Replace the section in @out with the new file that contains it. */
static int write_image(struct copy *copy, struct sframe_output *out)
{
	const struct layout *layout = copy->layout;
	int ret;

	copy->file = calloc(1, layout->size);
	if (!copy->file)
		return image_no_memory(copy->image);
	memcpy(copy->file + layout->shift, copy->old, copy->old_size);
	memcpy(copy->file + layout->sframe, out->bytes, out->size);
	write_moved(copy);
	write_symbols(copy);
	ret = write_dynamic(copy);
	if (ret) {
		free(copy->file);
		return ret;
	}
	write_shdrs(copy);
	write_phdrs(copy);
	write_ehdr(copy);
	sframe_free(out);
	out->bytes = copy->file;
	out->size = layout->size;
	return 0;
}

/**
 * install_image - add a section to a file
 * @image:	the file, open
 * @file:	its bytes
 * @size:	size of @file
 * @version:	version of the section, 0 for the default
 * @out:	gets the new file
 *
 * Return: 0, or a negative errno.
 */
int install_image(struct image *image, const u8 *file, size_t size,
		  unsigned int version, struct sframe_output *out)
{
	struct sframe_options options = { .version = version };
	struct layout layout;
	struct copy copy = {
		.image = image, .old = file, .old_size = size, .layout = &layout,
	};
	int ret;

	*out = (struct sframe_output) {};
	ret = layout_segment(image, size, &layout);
	if (ret)
		return ret;
	options.addr = layout_addr(&layout, layout.sframe);
	ret = convert_image(image, &options, out);
	if (!ret)
		ret = layout_end(image, out->size, &layout);
	if (!ret)
		ret = write_image(&copy, out);
	if (ret)
		sframe_free(out);
	return ret;
}
