// SPDX-License-Identifier: GPL-2.0
/*
 * Find a place for a new segment and its program headers.
 *
 * Code, data and debuginfo refer to each other by address, so they do not move. The new
 * segment follows all others. Its program headers must be with the others, after the ELF
 * header in the first segment, because tools that copy files, like strip, put them there.
 *
 * Small sections that only program headers refer to follow them: the name of the dynamic
 * linker, and notes. These move up, but stay in the first page, where tools look for the
 * build-id in core files. The tables there, which only .dynamic refers to, such as
 * .gnu.hash, move to the new segment.
 *
 * Static programs at fixed addresses have no such tables: insert another page in front of
 * the first segment.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"

/* End of user addresses. */
#define ADDR_MAX	(1ULL << 47)
/* Lowest address that can be mapped. */
#define ADDR_MIN	0x10000ULL
/* Maximum alignment of segments; more would make larger files. */
#define ALIGN_MAX	(2ULL << 20)
/* Maximum alignment of notes. */
#define BLOCK_ALIGN	16ULL

/**
 * struct place - a loaded section
 * @index:	its index
 * @shdr:	its header
 * @small:	it may move within the first segment
 */
struct place {
	size_t		index;
	GElf_Shdr	shdr;
	bool		small;
};

struct places {
	struct place	*place;
	size_t		nr;
};

static u64 align_up(u64 val, u64 to)
{
	return (val + to - 1) & ~(to - 1);
}

static int place_compare(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->shdr.sh_offset != y->shdr.sh_offset)
		return x->shdr.sh_offset < y->shdr.sh_offset ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/* Is this the section of PT_INTERP? */
static bool is_interp(struct image *image, const GElf_Shdr *shdr)
{
	GElf_Phdr phdr;
	size_t nr = 0;

	elf_getphdrnum(image->elf, &nr);
	for (size_t i = 0; i < nr; i++) {
		if (gelf_getphdr(image->elf, i, &phdr) && phdr.p_type == PT_INTERP)
			return phdr.p_offset == shdr->sh_offset;
	}
	return false;
}

/* List all loaded sections with contents in the file, in file order. */
static int list_places(struct image *image, struct places *places)
{
	Elf_Scn *scn = NULL;
	size_t nr = 0;

	elf_getshdrnum(image->elf, &nr);
	places->nr = 0;
	places->place = calloc(nr + 1, sizeof(*places->place));
	if (!places->place)
		return image_no_memory(image);
	while (places->nr < nr && (scn = elf_nextscn(image->elf, scn))) {
		struct place *place = &places->place[places->nr];

		if (!gelf_getshdr(scn, &place->shdr) || place->shdr.sh_type == SHT_NOBITS ||
		    !(place->shdr.sh_flags & SHF_ALLOC) || !place->shdr.sh_size)
			continue;
		place->index = elf_ndxscn(scn);
		place->small = place->shdr.sh_type == SHT_NOTE ||
			       is_interp(image, &place->shdr);
		places->nr++;
	}
	qsort(places->place, places->nr, sizeof(*places->place), place_compare);
	return 0;
}

/* The tag of the .dynamic entry with the address of a section, 0 if there is none. */
static s64 place_tag(const struct place *place)
{
	switch (place->shdr.sh_type) {
	case SHT_GNU_HASH:
		return DT_GNU_HASH;
	case SHT_HASH:
		return DT_HASH;
	case SHT_DYNSYM:
		return DT_SYMTAB;
	case SHT_STRTAB:
		return DT_STRTAB;
	case SHT_GNU_versym:
		return DT_VERSYM;
	case SHT_GNU_verneed:
		return DT_VERNEED;
	case SHT_GNU_verdef:
		return DT_VERDEF;
	case SHT_RELA:
		return DT_RELA;
	default:
		return 0;
	}
}

static bool is_movable(struct image *image, const struct place *place)
{
	s64 tag = place_tag(place);
	Elf_Data *data = NULL;
	GElf_Shdr shdr;
	Elf_Scn *scn;
	GElf_Dyn dyn;

	if (!tag || place->shdr.sh_addralign > SEGMENT_ALIGN)
		return false;
	scn = image_section(image, ".dynamic", &shdr);
	if (scn && shdr.sh_type == SHT_DYNAMIC)
		data = elf_getdata(scn, NULL);
	for (int i = 0; data && gelf_getdyn(data, i, &dyn) && dyn.d_tag != DT_NULL; i++) {
		if (dyn.d_tag == tag)
			return dyn.d_un.d_ptr == place->shdr.sh_addr;
	}
	return false;
}

/* Find the small sections after the program headers, which end at @end. */
static void find_block(const struct places *places, u64 end, struct layout *layout)
{
	layout->block = end;
	layout->block_end = end;
	for (size_t i = 0; i < places->nr; i++) {
		const struct place *place = &places->place[i];

		if (place->shdr.sh_offset < end)
			continue;
		if (!place->small)
			break;
		if (layout->block == layout->block_end)
			layout->block = place->shdr.sh_offset;
		layout->block_end = place->shdr.sh_offset + place->shdr.sh_size;
	}
}

static u64 phdrs_end(size_t nr)
{
	return sizeof(Elf64_Ehdr) + nr * sizeof(Elf64_Phdr);
}

/* Try to make room by moving sections of the first segment, which ends at @limit. */
static bool make_room(struct image *image, const struct places *places, u64 limit,
		      struct layout *layout)
{
	u64 end = phdrs_end(layout->nr_phdrs);

	layout->block_to = layout->block;
	if (layout->block_to < end)
		layout->block_to += align_up(end - layout->block, BLOCK_ALIGN);
	end = layout->block_to + (layout->block_end - layout->block);
	if (end > limit)
		return false;

	for (size_t i = 0; i < places->nr; i++) {
		const struct place *place = &places->place[i];
		const GElf_Shdr *shdr = &place->shdr;

		if (shdr->sh_offset >= end ||
		    layout_in_block(layout, shdr->sh_offset, shdr->sh_size))
			continue;
		if (layout->nr_moved == LAYOUT_MOVED || !is_movable(image, place))
			return false;
		layout->moved[layout->nr_moved++] = (struct moved) {
			.index	= place->index,
			.tag	= place_tag(place),
			.offset	= shdr->sh_offset,
			.size	= shdr->sh_size,
			.addr	= shdr->sh_addr,
		};
	}
	return true;
}

/* Make room in front of the first segment, if addresses are fixed and lower ones are free. */
static int add_front(struct image *image, u64 align, struct layout *layout)
{
	u64 size = layout->block_end - layout->block;

	layout->nr_moved = 0;
	layout->block_to = align_up(phdrs_end(layout->nr_phdrs), BLOCK_ALIGN) +
			   layout->block % BLOCK_ALIGN;
	layout->shift = align_up(layout->block_to + size, align);
	if (elf64_getehdr(image->elf)->e_type != ET_EXEC ||
	    layout->base < layout->shift + ADDR_MIN)
		return image_error(image, ENOSPC, "has no room for program headers");
	return 0;
}

/**
 * struct extent - the extent of all segments
 * @first:	the first segment, which contains all headers
 * @align:	the largest alignment of a segment
 * @addr:	end of the last segment in memory
 * @end:	end of the segments in the file
 */
struct extent {
	GElf_Phdr	first;
	u64	align;
	u64	addr;
	u64	end;
};

static int add_extent(struct image *image, const GElf_Phdr *phdr, u64 size,
		      struct extent *extent)
{
	if (phdr->p_type == PT_GNU_SFRAME)
		return image_error(image, EEXIST, "has an " SECTION_NAME " already");
	if (phdr->p_type != PT_LOAD)
		return 0;
	if (phdr->p_offset > size || phdr->p_filesz > size - phdr->p_offset)
		return image_error(image, EBADMSG, "is truncated: it lacks a segment");
	if (phdr->p_vaddr > ADDR_MAX || phdr->p_memsz > ADDR_MAX - phdr->p_vaddr ||
	    phdr->p_align > ALIGN_MAX || (phdr->p_align & (phdr->p_align - 1)))
		return image_error(image, EBADMSG, "has a segment of no possible address");
	if (!extent->addr)
		extent->first = *phdr;
	if (phdr->p_align > extent->align)
		extent->align = phdr->p_align;
	if (phdr->p_vaddr < extent->addr)
		return image_error(image, EBADMSG, "has segments whose addresses do not ascend");
	extent->addr = phdr->p_vaddr + phdr->p_memsz;
	if (extent->end < phdr->p_offset + phdr->p_filesz)
		extent->end = phdr->p_offset + phdr->p_filesz;
	return 0;
}

static int find_extent(struct image *image, u64 size, struct extent *extent)
{
	GElf_Phdr phdr;
	size_t nr = 0;
	int ret;

	*extent = (struct extent) { .align = SEGMENT_ALIGN };
	elf_getphdrnum(image->elf, &nr);
	for (size_t i = 0; i < nr; i++) {
		if (!gelf_getphdr(image->elf, i, &phdr))
			return image_error(image, EBADMSG, "has damaged program headers");
		ret = add_extent(image, &phdr, size, extent);
		if (ret)
			return ret;
	}
	if (!extent->addr || elf64_getehdr(image->elf)->e_phoff != sizeof(Elf64_Ehdr) ||
	    extent->first.p_offset || extent->first.p_filesz < phdrs_end(nr) ||
	    extent->first.p_vaddr % SEGMENT_ALIGN)
		return image_error(image, EINVAL,
				   "has its program headers where they cannot become more");
	return 0;
}

/* Reject data after all segments, sections and headers: it would not be found any more. */
static int check_end(struct image *image, u64 end, u64 size)
{
	Elf64_Ehdr *ehdr = elf64_getehdr(image->elf);
	int ret = image_check_sections(image);
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;

	if (ret)
		return ret;
	if (end < ehdr->e_shoff + ehdr->e_shnum * sizeof(Elf64_Shdr))
		end = ehdr->e_shoff + ehdr->e_shnum * sizeof(Elf64_Shdr);
	while ((scn = elf_nextscn(image->elf, scn))) {
		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type == SHT_NOBITS)
			continue;
		if (shdr.sh_offset > size || shdr.sh_size > size - shdr.sh_offset)
			return image_error(image, EBADMSG, "is truncated: it lacks a section");
		if (end < shdr.sh_offset + shdr.sh_size)
			end = shdr.sh_offset + shdr.sh_size;
	}
	/* Less than a page is padding. */
	if (end < size && size - end >= SEGMENT_ALIGN)
		return image_error(image, EINVAL, "has data after its end, which must not move");
	return 0;
}

/* Place the new segment, except its end: moved sections come first. */
static void place_segment(const struct extent *extent, u64 size, struct layout *layout)
{
	layout->segment = align_up(size + layout->shift, SEGMENT_ALIGN);
	layout->addr = align_up(extent->addr, SEGMENT_ALIGN);
	layout->sframe = layout->segment;
	for (unsigned int i = 0; i < layout->nr_moved; i++) {
		struct moved *moved = &layout->moved[i];

		/* Keep the alignment of the section. */
		moved->to = align_up(layout->sframe, 64) + moved->offset % 64;
		layout->sframe = moved->to + moved->size;
	}
	layout->sframe = align_up(layout->sframe, 8);
}

/**
 * layout_segment - find a place for a segment
 * @image:	the file
 * @size:	size of the file
 * @layout:	set, up to the start of the new section
 *
 * Return: 0, or a negative errno.
 */
int layout_segment(struct image *image, u64 size, struct layout *layout)
{
	struct extent extent;
	struct places places;
	GElf_Shdr shdr;
	size_t nr = 0;
	int ret;

	*layout = (struct layout) {};
	if (image_section(image, SECTION_NAME, &shdr))
		return image_error(image, EEXIST, "has an " SECTION_NAME " already");
	ret = find_extent(image, size, &extent);
	if (!ret)
		ret = check_end(image, extent.end, size);
	if (!ret)
		ret = list_places(image, &places);
	if (ret)
		return ret;

	elf_getphdrnum(image->elf, &nr);
	layout->nr_phdrs = nr + 2;
	layout->base = extent.first.p_vaddr;
	find_block(&places, phdrs_end(nr), layout);
	if (layout->nr_phdrs > IMAGE_PHDRS)
		ret = image_error(image, EFBIG, "has too many program headers");
	else if (!make_room(image, &places, extent.first.p_filesz, layout))
		ret = add_front(image, extent.align, layout);
	free(places.place);
	if (!ret)
		place_segment(&extent, size, layout);
	if (!ret && layout->addr > ADDR_MAX - SFRAME_SECTION_MAX - size)
		ret = image_error(image, EBADMSG, "has no address left for a segment");
	return ret;
}

/**
 * layout_end - place the names and headers of sections after the segment
 * @image:	the file
 * @sframe_size: size of the new section
 * @layout:	set
 *
 * Return: 0, or a negative errno.
 */
int layout_end(struct image *image, u64 sframe_size, struct layout *layout)
{
	size_t nr = 0, index;
	GElf_Shdr shdr;
	Elf_Scn *scn;

	elf_getshdrnum(image->elf, &nr);
	scn = elf_getshdrstrndx(image->elf, &index) ? NULL : elf_getscn(image->elf, index);
	if (nr >= SHN_LORESERVE - 1 || !scn || !gelf_getshdr(scn, &shdr) ||
	    shdr.sh_type != SHT_STRTAB || (shdr.sh_flags & SHF_ALLOC) ||
	    shdr.sh_size > UINT32_MAX - sizeof(SECTION_NAME) ||
	    elf64_getehdr(image->elf)->e_shstrndx != index)
		return image_error(image, EBADMSG, "has damaged section headers");
	layout->end = layout->sframe + sframe_size;
	layout->names = layout->end;
	layout->old_names = shdr.sh_size;
	layout->shdrs = align_up(layout->names + shdr.sh_size + sizeof(SECTION_NAME), 8);
	layout->nr_shdrs = nr + 1;
	layout->size = layout->shdrs + layout->nr_shdrs * sizeof(Elf64_Shdr);
	return 0;
}
