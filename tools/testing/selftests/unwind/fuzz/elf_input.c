// SPDX-License-Identifier: GPL-2.0
/*
 * Images for the ELF parser: from texts, and with single fields changed.
 *
 * A text is an image, and not a section, if its first line is one of
 *
 *   image			bytes follow, as in the text of a section
 *   elf 2 3			a program with 2 program headers after the ELF header,
 *				followed by 3 section headers. The last one is for the
 *				section names, which end the image. The other headers
 *				are zero, except for the first program header, which is
 *				for code at 0x401000
 *
 * The following lines change it, and state the expected results:
 *
 *   ehdr phnum=3 type=1	fields of the ELF header
 *   phdr 1 type=0x6474e554	of a program header
 *   shdr 1 type=1 flags=2	of a section header
 *   shdrs 1 64 type=1		of 64 section headers, from index 1 on
 *   size 300			cut it off, or append zeroes
 *   expect open -ENODATA	what unwind_elf_open() returns
 *   expect section 0x2000 0x402000 0x100	offset, address and size of the section
 *   expect segments 2		number of segments
 *   expect segment 0 0x1000 0x2000 0x401000	its offset, end and address
 *   expect reads 226		parts of the image that are read
 *
 * The names are ".sframe", at 1, and ".sframe2", at 9, and ".shstrtab", at 18.
 */
#include "elf_fuzz.h"

#define MAX_HEADERS	2000

struct field {
	const char	*name;
	unsigned int	at;
	unsigned int	size;
};

static const struct field ehdr_fields[] = {
	{ "magic", 0, 4 }, { "class", 4, 1 }, { "data", 5, 1 }, { "type", 16, 2 },
	{ "machine", 18, 2 }, { "version", 20, 4 }, { "entry", 24, 8 }, { "phoff", 32, 8 },
	{ "shoff", 40, 8 }, { "flags", 48, 4 }, { "ehsize", 52, 2 }, { "phentsize", 54, 2 },
	{ "phnum", 56, 2 }, { "shentsize", 58, 2 }, { "shnum", 60, 2 }, { "shstrndx", 62, 2 },
};

static const struct field phdr_fields[] = {
	{ "type", 0, 4 }, { "flags", 4, 4 }, { "offset", 8, 8 }, { "vaddr", 16, 8 },
	{ "paddr", 24, 8 }, { "filesz", 32, 8 }, { "memsz", 40, 8 }, { "align", 48, 8 },
};

static const struct field shdr_fields[] = {
	{ "name", 0, 4 }, { "type", 4, 4 }, { "flags", 8, 8 }, { "addr", 16, 8 },
	{ "offset", 24, 8 }, { "size", 32, 8 }, { "link", 40, 4 }, { "info", 44, 4 },
	{ "addralign", 48, 8 }, { "entsize", 56, 8 },
};

static const char names[] = "\0.sframe\0.sframe2\0.shstrtab";

u64 image_get(const struct image *image, u64 at, unsigned int size)
{
	u64 val = 0;

	while (size--)
		val = val << 8 | image->bytes[at + size];
	return val;
}

void image_set(const struct image *image, u64 at, unsigned int size, u64 val)
{
	for (; size--; val >>= 8)
		image->bytes[at++] = val;
}

/* Get field @nr of all headers in the image; false if there are fewer. */
bool image_field(const struct image *image, unsigned int nr, struct image_field *found)
{
	const unsigned int ehdr = ARRAY_SIZE(ehdr_fields), phdr = ARRAY_SIZE(phdr_fields);
	const unsigned int shdr = ARRAY_SIZE(shdr_fields);
	const struct field *field;
	u64 at = 0, phnum;

	if (image->size < EHDR_SIZE)
		return false;
	phnum = image_get(image, 56, 2);
	if (nr < ehdr) {
		field = &ehdr_fields[nr];
	} else if (nr - ehdr < phnum * phdr) {
		nr -= ehdr;
		field = &phdr_fields[nr % phdr];
		at = image_get(image, 32, 8) + nr / phdr * PHDR_SIZE;
	} else {
		nr -= ehdr + phnum * phdr;
		if (nr / shdr >= image_get(image, 60, 2))
			return false;
		field = &shdr_fields[nr % shdr];
		at = image_get(image, 40, 8) + nr / shdr * SHDR_SIZE;
	}
	*found = (struct image_field) { at + field->at, field->size };
	return found->at < image->size && found->size <= image->size - found->at;
}

/* Get value @nr to try in a field; false if there are fewer. */
bool image_value(const struct image *image, const struct image_field *field, unsigned int nr,
		 u64 *val)
{
	u64 now = image_get(image, field->at, field->size);
	const u64 vals[] = {
		0, 1, 2, 3, 7, 64, 255, 256, 257, 1023, 1025, 4096,
		now - 1, now + 1, now + 4096, -now, now << 1, now ^ 1, now ^ 2, now ^ 4,
		image->size, image->size - 1, image->size - 7, image->size - 8,
		image->size - PHDR_SIZE, image->size - SHDR_SIZE,
		0x6474e554, 0x6ffffff4, 0x7fff, 0xffff, INT_MAX, U32_MAX, S64_MAX,
		S64_MAX - 1, 1ULL << 63, S64_MAX - 4095, -8ULL, -64ULL, -4096ULL, -1ULL,
	};

	if (nr >= ARRAY_SIZE(vals))
		return false;
	*val = vals[nr];
	return true;
}

/* Set any field to any of the values. */
void image_mutate(const struct image *image, unsigned int seed)
{
	unsigned int fields = 0, vals = 0;
	struct image_field field;
	u64 val;

	while (image_field(image, fields, &field))
		fields++;
	if (!fields)
		return;
	image_field(image, seed % fields, &field);
	while (image_value(image, &field, vals, &val))
		vals++;
	image_value(image, &field, seed / fields % vals, &val);
	image_set(image, field.at, field.size, val);
}

/* The image in a text, after the mark. */
static struct image image_of(struct text *text)
{
	return (struct image) { text->bytes + INPUT_MARK, text->size - INPUT_MARK };
}

static void resize(struct text *text, u64 size)
{
	size += INPUT_MARK;
	text->bytes = realloc(text->bytes, size);
	if (size > text->size)
		memset(text->bytes + text->size, 0, size - text->size);
	text->size = size;
}

static bool set_field(const struct image *image, u64 at, const struct field *fields,
		      unsigned int nr, const char *name, u64 val)
{
	for (; nr; nr--, fields++) {
		if (strcmp(fields->name, name))
			continue;
		if (at > image->size || fields->at + fields->size > image->size - at)
			return false;
		image_set(image, at + fields->at, fields->size, val);
		return true;
	}
	return false;
}

/* Parse "name=value ..." for a header at @at. */
static bool set_fields(const struct image *image, u64 at, const struct field *fields,
		       unsigned int nr, const char *s)
{
	char name[16], *end;
	int used;
	u64 val;

	for (; *s; s = end) {
		used = 0;
		if (sscanf(s, " %15[a-z]=%n", name, &used) != 1 || !used)
			return false;
		val = strtoull(s + used, &end, 0);
		if (end == s + used || !set_field(image, at, fields, nr, name, val))
			return false;
	}
	return true;
}

static bool set_shdrs(const struct image *image, unsigned int first, unsigned int nr,
		      const char *s)
{
	u64 at = image_get(image, 40, 8);

	for (unsigned int i = first; i < first + nr; i++) {
		if (!set_fields(image, at + i * SHDR_SIZE, shdr_fields,
				ARRAY_SIZE(shdr_fields), s))
			return false;
	}
	return true;
}

static void set_ehdr(const struct image *image, const char *s)
{
	set_fields(image, 0, ehdr_fields, ARRAY_SIZE(ehdr_fields), s);
}

/* Make a valid image. */
static bool make(struct text *text, unsigned int nr_phdrs, unsigned int nr_shdrs)
{
	u64 shdrs = EHDR_SIZE + nr_phdrs * PHDR_SIZE, end = shdrs + nr_shdrs * SHDR_SIZE;
	struct image image;
	char s[128];

	if (nr_phdrs > MAX_HEADERS || nr_shdrs > MAX_HEADERS)
		return false;
	resize(text, end + sizeof(names));
	image = image_of(text);
	set_ehdr(&image, "magic=0x464c457f class=2 data=1 type=2 machine=62 version=1");
	set_ehdr(&image, "entry=0x401000 ehsize=64 phentsize=56 shentsize=64 phoff=64");
	snprintf(s, sizeof(s), "phnum=%u shoff=%llu shnum=%u shstrndx=%u", nr_phdrs, shdrs,
		 nr_shdrs, nr_shdrs ? nr_shdrs - 1 : 0);
	set_ehdr(&image, s);
	if (nr_phdrs)
		set_fields(&image, EHDR_SIZE, phdr_fields, ARRAY_SIZE(phdr_fields),
			   "type=1 flags=5 offset=0x1000 vaddr=0x401000 filesz=0x800 memsz=0x800");
	snprintf(s, sizeof(s), "name=18 type=3 offset=%llu size=%zu", end, sizeof(names));
	if (nr_shdrs)
		set_shdrs(&image, nr_shdrs - 1, 1, s);
	memcpy(image.bytes + end, names, sizeof(names));
	return true;
}

/* Parse a line of a text other than bytes; false if it is not valid. */
bool image_parse(struct text *text, const char *line)
{
	struct image image = image_of(text);
	unsigned int first, nr;
	int used = 0;
	u64 size;

	if (sscanf(line, "elf %u %u%n", &first, &nr, &used) == 2 && !line[used])
		return !image.size && make(text, first, nr);
	if (sscanf(line, "size %llu%n", &size, &used) == 1 && !line[used]) {
		resize(text, size);
		return true;
	}
	if (image.size < EHDR_SIZE)
		return false;
	if (!strncmp(line, "ehdr ", 5))
		return set_fields(&image, 0, ehdr_fields, ARRAY_SIZE(ehdr_fields), line + 5);
	if (sscanf(line, "phdr %u %n", &first, &used) == 1)
		return set_fields(&image, image_get(&image, 32, 8) + first * PHDR_SIZE,
				  phdr_fields, ARRAY_SIZE(phdr_fields), line + used);
	if (sscanf(line, "shdr %u %n", &first, &used) == 1)
		return set_shdrs(&image, first, 1, line + used);
	if (sscanf(line, "shdrs %u %u %n", &first, &nr, &used) == 2)
		return set_shdrs(&image, first, nr, line + used);
	return false;
}
