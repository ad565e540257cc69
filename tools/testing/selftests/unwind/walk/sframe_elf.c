// SPDX-License-Identifier: GPL-2.0
/*
 * ELF files with SFrame sections of any version, and code for them that only tables
 * can walk.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sframe_elf.h"

#define SFRAME_ABI_AMD64	3
#define SFRAME_FIXED_RA		-8
#define SFRAME_MAGIC		0xdee2
#define SFRAME_INFO_BLOCK	0x10

#define ROW_SP			0x01
#define ROW_WORDS(nr)		((nr) << 1)
#define ROW_WORD_SIZE(code)	((code) << 5)

static size_t round_up_to(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

static size_t fde_size(unsigned int version)
{
	return version == 1 ? offsetof(struct sframe_fde2, block) :
	       version == 2 ? sizeof(struct sframe_fde2) : sizeof(struct sframe_fde3);
}

/* The row type of a function: 1 << type bytes for the address of a row. */
static unsigned int row_type(const struct sframe_function *function)
{
	__u32 limit = function->block ?: function->size;

	return limit <= 0x100 ? 0 : limit <= 0x10000 ? 1 : 2;
}

static unsigned int word_code(const struct sframe_row *row)
{
	if (row->cfa == (__s8)row->cfa && row->fp == (__s8)row->fp)
		return 0;
	return row->cfa == (__s16)row->cfa && row->fp == (__s16)row->fp ? 1 : 2;
}

static __u8 *write_row(__u8 *to, const struct sframe_row *row, unsigned int type)
{
	unsigned int words = row->fp ? 2 : 1, code = word_code(row);

	/* All numbers are little-endian, as in this program. */
	memcpy(to, &row->at, 1 << type);
	to += 1 << type;
	*to++ = (row->base == CFA_SP ? ROW_SP : 0) | ROW_WORDS(words) | ROW_WORD_SIZE(code);
	memcpy(to, &row->cfa, 1 << code);
	to += 1 << code;
	if (words == 2) {
		memcpy(to, &row->fp, 1 << code);
		to += 1 << code;
	}
	return to;
}

/* Versions 1 and 2 cannot mark a function as outermost. */
static bool is_outermost(const struct sframe_function *function)
{
	return function->nr == 1 && function->rows[0].base == CFA_OUTERMOST;
}

static bool is_said(const struct sframe_spec *spec, const struct sframe_function *function)
{
	return spec->version == 3 || !is_outermost(function);
}

static __u8 *write_rows(__u8 *to, const struct sframe_function *function)
{
	if (is_outermost(function)) {
		*to++ = 0;
		*to++ = 0;
		return to;
	}
	for (unsigned int i = 0; i < function->nr; i++)
		to = write_row(to, &function->rows[i], row_type(function));
	return to;
}

static void write_fde(const struct sframe_spec *spec, const struct sframe_function *function,
		      struct sframe_head *head, size_t index, __u8 **rows)
{
	__u8 *first = (__u8 *)(head + 1) + head->rows, *at;
	__u8 info = row_type(function) | (function->block ? SFRAME_INFO_BLOCK : 0);
	__u64 from = spec->addr;
	__u32 offset = *rows - first;

	at = (__u8 *)(head + 1) + index * fde_size(spec->version);
	if ((spec->flags & SFRAME_F_PCREL) || !(spec->flags & SFRAME_F_SORTED))
		from += at - (__u8 *)head;

	if (spec->version == 3) {
		struct sframe_attr3 attr = {
			.nr_rows = function->nr, .info = info, .block = function->block,
		};

		*(struct sframe_fde3 *)at = (struct sframe_fde3) {
			.start = spec->start + function->start - from,
			.size = function->size, .rows = offset,
		};
		memcpy(*rows, &attr, sizeof(attr));
		*rows += sizeof(attr);
	} else {
		struct sframe_fde2 fde = {
			.start = spec->start + function->start - from,
			.size = function->size, .rows = offset, .nr_rows = function->nr,
			.info = info, .block = function->block,
		};

		memcpy(at, &fde, fde_size(spec->version));
	}
	*rows = write_rows(*rows, function);
	head->nr_rows += function->nr;
}

size_t sframe_room(const struct sframe_spec *spec)
{
	size_t room = sizeof(struct sframe_head);

	for (unsigned int i = 0; i < spec->nr; i++)
		room += sizeof(struct sframe_fde2) + sizeof(struct sframe_attr3) +
			13 * spec->functions[i].nr;
	return room;
}

size_t sframe_write(void *to, const struct sframe_spec *spec)
{
	struct sframe_head *head = to;
	unsigned int index = 0;
	__u8 *rows;

	*head = (struct sframe_head) {
		.magic = SFRAME_MAGIC, .version = spec->version, .flags = spec->flags,
		.abi = SFRAME_ABI_AMD64, .fixed_ra = SFRAME_FIXED_RA,
	};
	for (unsigned int i = 0; i < spec->nr; i++)
		head->nr_functions += is_said(spec, &spec->functions[i]);
	head->rows = head->nr_functions * fde_size(spec->version);
	rows = (__u8 *)(head + 1) + head->rows;

	for (unsigned int i = 0; i < spec->nr; i++) {
		unsigned int order = spec->flags & (SFRAME_F_SORTED | SFRAME_F_NOT_SORTED);
		bool sorted = order == SFRAME_F_SORTED;
		unsigned int nr = sorted ? i : spec->nr - 1 - i;

		if (is_said(spec, &spec->functions[nr]))
			write_fde(spec, &spec->functions[nr], head, index++, &rows);
	}
	head->rows_size = rows - (__u8 *)(head + 1) - head->rows;
	return rows - (__u8 *)to;
}

void *sframe_fde(void *section, unsigned int index)
{
	struct sframe_head *head = section;

	return (__u8 *)(head + 1) + index * fde_size(head->version);
}

struct sframe_attr3 *sframe_attr(void *section, unsigned int index)
{
	struct sframe_head *head = section;
	struct sframe_fde3 *fde = sframe_fde(section, index);

	return (void *)((__u8 *)(head + 1) + head->rows + fde->rows);
}

__u8 *sframe_rows(void *section, unsigned int index)
{
	struct sframe_head *head = section;
	struct sframe_fde2 *fde = sframe_fde(section, index);

	if (head->version == 3)
		return (__u8 *)(sframe_attr(section, index) + 1);
	return (__u8 *)(head + 1) + head->rows + fde->rows;
}

void sframe_spoil(void *section, unsigned int index)
{
	struct sframe_head *head = section;

	if (head->version == 3)
		((struct sframe_fde3 *)sframe_fde(section, index))->size = 0;
	else
		((struct sframe_fde2 *)sframe_fde(section, index))->size = 0;
}

void sframe_shift(void *section, __s64 by)
{
	struct sframe_head *head = section;

	for (unsigned int i = 0; i < head->nr_functions; i++) {
		if (head->version == 3)
			((struct sframe_fde3 *)sframe_fde(section, i))->start -= by;
		else
			((struct sframe_fde2 *)sframe_fde(section, i))->start -= by;
	}
}

unsigned int chain_index(const void *section, int function)
{
	const struct sframe_head *head = section;

	return function - (head->version != 3 && function > CHAIN_FN_ENTRY);
}

/* Group consecutive rows into functions. */
static unsigned int chain_functions(const struct chain_code *code,
				    struct sframe_function *functions, struct sframe_row *rows)
{
	unsigned int nr = 0;

	for (const struct chain_row *row = code->rows; row < code->rows_end; row++) {
		if (!nr || functions[nr - 1].start != row->start)
			functions[nr++] = (struct sframe_function) {
				.start = row->start, .size = row->size, .block = row->block,
				.rows = rows,
			};
		*rows++ = row->row;
		functions[nr - 1].nr++;
	}
	return nr;
}

static void write_phdrs(struct image *image, const struct image_spec *spec)
{
	size_t sframe = image_offset(image, image->sframe);
	size_t data = sframe / SFRAME_PAGE * SFRAME_PAGE;
	Elf64_Phdr *phdrs = image->phdrs;

	phdrs[IMAGE_PH_TEXT] = (Elf64_Phdr) {
		.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = image->text,
		.p_filesz = image->text_size,
	};
	phdrs[IMAGE_PH_DATA] = (Elf64_Phdr) {
		.p_type = PT_LOAD, .p_flags = PF_R, .p_offset = data,
		.p_filesz = sframe - data + image->sframe_size,
	};
	phdrs[IMAGE_PH_SFRAME] = (Elf64_Phdr) {
		.p_type = spec->how == BY_HEADER ? PT_GNU_SFRAME : PT_NULL,
		.p_flags = PF_R, .p_offset = sframe, .p_filesz = image->sframe_size,
	};
	phdrs[IMAGE_PH_STACK] = (Elf64_Phdr) {
		.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W,
	};
	for (int i = 0; i < IMAGE_PH_STACK; i++) {
		phdrs[i].p_vaddr = phdrs[i].p_offset + spec->bias;
		phdrs[i].p_paddr = phdrs[i].p_vaddr;
		phdrs[i].p_memsz = phdrs[i].p_filesz;
		phdrs[i].p_align = SFRAME_PAGE;
	}
}

/* After the program headers: a note of another type, and the build-id. */
static void write_notes(struct image *image, const struct image_spec *spec)
{
	Elf64_Nhdr *note = (void *)(image->phdrs + IMAGE_PHDRS), *first = note;
	size_t size = strlen(spec->build_id);

	*note = (Elf64_Nhdr) { sizeof("GNU"), 6, NT_GNU_ABI_TAG };
	memcpy(note + 1, "GNU", sizeof("GNU"));
	note = (void *)(note + 1) + 4 + round_up_to(6, 4);
	*note = (Elf64_Nhdr) { sizeof("GNU"), size, NT_GNU_BUILD_ID };
	memcpy(note + 1, "GNU", sizeof("GNU"));
	memcpy((void *)(note + 1) + 4, spec->build_id, size);
	image->phdrs[IMAGE_PH_NOTE] = (Elf64_Phdr) {
		.p_type = PT_NOTE, .p_flags = PF_R, .p_offset = image_offset(image, first),
		.p_filesz = (void *)(note + 1) + 4 + size - (void *)first,
		.p_align = 4,
	};
}

/* .sframes must not be taken for .sframe, which it begins with. */
static const char names[] = "\0.text\0.sframe\0.sframes";

static void write_shdrs(struct image *image, const struct image_spec *spec)
{
	size_t sframe = image_offset(image, image->sframe);
	Elf64_Shdr *shdrs = image->shdrs;
	bool found = spec->how == BY_NAME || spec->how == BY_TYPE;

	shdrs[IMAGE_SH_TEXT] = (Elf64_Shdr) {
		.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
		.sh_addr = image->text + spec->bias, .sh_offset = image->text,
		.sh_size = image->text_size,
	};
	shdrs[IMAGE_SH_SFRAME] = (Elf64_Shdr) {
		.sh_name = spec->how == BY_NAME ? 7 : 15,
		.sh_type = spec->how == BY_TYPE ? SHT_GNU_SFRAME_ : SHT_PROGBITS,
		.sh_flags = SHF_ALLOC, .sh_addr = sframe + spec->bias, .sh_offset = sframe,
		.sh_size = image->sframe_size,
	};
	shdrs[IMAGE_SH_NAMES] = (Elf64_Shdr) {
		.sh_name = 1, .sh_type = SHT_STRTAB,
		.sh_offset = image_offset(image, shdrs + IMAGE_SHDRS), .sh_size = sizeof(names),
	};
	memcpy(shdrs + IMAGE_SHDRS, names, sizeof(names));
	if (!found && spec->how != BY_HEADER)
		shdrs[IMAGE_SH_SFRAME].sh_type = SHT_NULL;
}

static void init_ehdr(Elf64_Ehdr *ehdr)
{
	*ehdr = (Elf64_Ehdr) {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			     EV_CURRENT },
		.e_type = ET_DYN, .e_machine = EM_X86_64, .e_version = EV_CURRENT,
		.e_ehsize = sizeof(Elf64_Ehdr), .e_phentsize = sizeof(Elf64_Phdr),
		.e_shentsize = sizeof(Elf64_Shdr),
	};
}

static void write_ehdr(struct image *image, const struct image_spec *spec)
{
	init_ehdr(image->ehdr);
	if (spec->program)
		image->ehdr->e_type = ET_EXEC;
	image->ehdr->e_phoff = image_offset(image, image->phdrs);
	image->ehdr->e_phnum = IMAGE_PHDRS;
	image->ehdr->e_shoff = image_offset(image, image->shdrs);
	image->ehdr->e_shnum = IMAGE_SHDRS;
	image->ehdr->e_shstrndx = IMAGE_SH_NAMES;
	if (spec->code)
		image->ehdr->e_entry = image->text + spec->bias + spec->code->entry;
}

static void image_layout(struct image *image, const struct image_spec *spec, size_t room)
{
	size_t size = spec->code ? spec->code->end - spec->code->start : spec->size;
	size_t sframe, shdrs;

	image->text = spec->text ?: SFRAME_PAGE;
	image->text_size = round_up_to(size, SFRAME_PAGE);
	sframe = image->text + image->text_size;
	shdrs = round_up_to(sframe + room, sizeof(__u64));
	image->size = shdrs + IMAGE_SHDRS * sizeof(Elf64_Shdr) + sizeof(names);
	image->bytes = calloc(1, image->size);
	if (!image->bytes)
		abort();
	image->ehdr = (void *)image->bytes;
	image->phdrs = (void *)(image->ehdr + 1);
	image->sframe = (void *)(image->bytes + sframe);
	image->shdrs = (void *)(image->bytes + shdrs);
	if (spec->code)
		memcpy(image->bytes + image->text, spec->code->start, size);
	else
		memset(image->bytes + image->text, 0x90, size);
}

void image_init(struct image *image, const struct image_spec *spec)
{
	struct sframe_function functions[CHAIN_FUNCTIONS];
	struct sframe_spec section = { .functions = spec->functions, .nr = spec->nr };
	struct sframe_row rows[64];

	memset(image, 0, sizeof(*image));
	image->code = spec->code;
	if (spec->code) {
		section.functions = functions;
		section.nr = chain_functions(spec->code, functions, rows);
	}
	section.version = spec->version ?: 3;
	section.flags = spec->flags ?: SFRAME_FLAGS(section.version);

	image_layout(image, spec, sframe_room(&section) + spec->room);
	section.start = image->text + spec->bias;
	section.addr = image_offset(image, image->sframe) + spec->bias;
	image->sframe_size = sframe_write(image->sframe, &section);
	image->functions = image->sframe->nr_functions;
	write_ehdr(image, spec);
	write_phdrs(image, spec);
	if (spec->build_id)
		write_notes(image, spec);
	write_shdrs(image, spec);
}

void image_free(struct image *image)
{
	free(image->bytes);
	image->bytes = NULL;
}

size_t image_offset(const struct image *image, const void *at)
{
	return (const __u8 *)at - image->bytes;
}

void image_resize(struct image *image, size_t size)
{
	Elf64_Phdr *data = &image->phdrs[IMAGE_PH_DATA];

	data->p_filesz += size - image->sframe_size;
	data->p_memsz = data->p_filesz;
	image->phdrs[IMAGE_PH_SFRAME].p_filesz = size;
	image->shdrs[IMAGE_SH_SFRAME].sh_size = size;
	image->sframe_size = size;
}

void image_page(void *page)
{
	static const struct sframe_row row = { .base = CFA_SP, .cfa = 8 };
	static const struct sframe_function function = {
		.size = SFRAME_PAGE, .nr = 1, .rows = &row,
	};
	const struct sframe_spec section = {
		.version = 3, .flags = SFRAME_FLAGS(3), .functions = &function, .nr = 1,
		.addr = SFRAME_PAGE / 2,
	};
	Elf64_Ehdr *ehdr = page;
	Elf64_Phdr *phdrs = (void *)(ehdr + 1);

	memset(page, 0, SFRAME_PAGE);
	init_ehdr(ehdr);
	ehdr->e_phoff = sizeof(*ehdr);
	ehdr->e_phnum = 2;
	phdrs[0] = (Elf64_Phdr) {
		.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = SFRAME_PAGE,
		.p_memsz = SFRAME_PAGE, .p_align = SFRAME_PAGE,
	};
	phdrs[1] = (Elf64_Phdr) {
		.p_type = PT_GNU_SFRAME, .p_flags = PF_R, .p_offset = section.addr,
		.p_vaddr = section.addr,
	};
	phdrs[1].p_filesz = sframe_write(page + section.addr, &section);
	phdrs[1].p_memsz = phdrs[1].p_filesz;
}

int image_write_fd(const struct image *image, int fd)
{
	for (size_t at = 0; at < image->size;) {
		ssize_t put = pwrite(fd, image->bytes + at, image->size - at, at);

		if (put <= 0)
			return -1;
		at += put;
	}
	return 0;
}

int image_write(const struct image *image, const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

	if (fd >= 0 && image_write_fd(image, fd)) {
		close(fd);
		return -1;
	}
	return fd;
}

void *image_map(const struct image *image, int fd)
{
	void *map = mmap(NULL, image->text_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd,
			 image->text);

	return map == MAP_FAILED ? NULL : map;
}
