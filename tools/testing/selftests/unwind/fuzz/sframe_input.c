// SPDX-License-Identifier: GPL-2.0
/*
 * Inputs of the SFrame decoder: bytes, texts, and ELF files. Inputs of the ELF parser are
 * images; elf_input.c has their texts.
 *
 * The fuzzer changes bytes; any bytes are an input. Committed inputs are text:
 *
 *   section 0x2000			address of the section
 *   text 0x1000 0x2000			code: its first address, and its end
 *   e2de 01 01 | 03 00			bytes of the section
 *   expect measure -EINVAL		what sframe_measure() returns
 *   expect build -ENODATA		what sframe_build() returns
 *   expect functions 2			functions that the table has
 *   expect bad 1			functions that it does not have
 *   expect at 0x1004 cfa=sp+16 fp=c-16 ra=f	the frame of an address in the table,
 *   expect at 0x1005-0x1008 nothing		or of all these addresses
 *
 * The notation of frames is that of readelf: c is the CFA, u unchanged, f fixed. Values in
 * brackets are loaded from memory, and so are values relative to the CFA. "=c-16" is
 * the address itself. A # begins a comment, "next" another input. A text begins with a
 * comment, which distinguishes it from bytes.
 */
#include <fcntl.h>
#include <gelf.h>
#include <unistd.h>

#include "elf_fuzz.h"

bool input_is_image(const u8 *data, size_t size)
{
	return size >= INPUT_MARK && !memcmp(data, INPUT_IMAGE, INPUT_MARK);
}

void input_load(struct input *input, const u8 *data, size_t size)
{
	struct input_head head = {};
	size_t used = min(size, sizeof(head));

	memcpy(&head, data, used);
	*input = (struct input) {
		.section = {
			.bytes	 = data + used,
			.size	 = size - used,
			.addr	 = head.addr,
			.text	 = input->text,
			.nr_text = INPUT_TEXTS,
		},
	};
	for (int i = 0; i < INPUT_TEXTS; i++) {
		u64 start = head.text[i].start;

		/* Program headers do not wrap around. */
		input->text[i].start = start;
		input->text[i].end = start + min(head.text[i].size, U64_MAX - start);
	}
}

static void add_byte(struct text *text, u8 byte)
{
	text->bytes = realloc(text->bytes, text->size + 1);
	text->bytes[text->size++] = byte;
}

/* Parse pairs of hexadecimal digits, and separators. */
static bool parse_bytes(struct text *text, const char *s)
{
	unsigned int byte;

	for (; *s; s++) {
		if (strchr(" \t|", *s))
			continue;
		if (strspn(s, "0123456789abcdef") < 2 || sscanf(s, "%2x", &byte) != 1)
			return false;
		add_byte(text, byte);
		s++;
	}
	return true;
}

/* Does this line begin an image? */
static bool parse_mark(struct text *text, const char *line)
{
	if (strcmp(line, "image") && strncmp(line, "elf ", 4))
		return false;
	memcpy(text->bytes, INPUT_IMAGE, INPUT_MARK);
	text->size = INPUT_MARK;
	return true;
}

static bool parse_expect(struct text *text, const char *line)
{
	if (strncmp(line, "expect ", 7))
		return false;
	text->expect = realloc(text->expect, (text->nr_expect + 1) * sizeof(*text->expect));
	text->expect[text->nr_expect++] = strdup(line + 7);
	return true;
}

/* Parse a line about a section. */
static bool parse_line(struct text *text, unsigned int *nr_text, char *line)
{
	struct input_head *head = (struct input_head *)text->bytes;
	u64 start, end;
	int used = 0;

	if (sscanf(line, "section %llx%n", &start, &used) == 1 && !line[used]) {
		head->addr = start;
		return true;
	}
	if (sscanf(line, "text %llx %llx%n", &start, &end, &used) == 2 && !line[used]) {
		if (*nr_text == INPUT_TEXTS || end < start || end - start > U32_MAX)
			return false;
		head->text[*nr_text].start = start;
		head->text[*nr_text].size = end - start;
		++*nr_text;
		return true;
	}
	return parse_bytes(text, line);
}

/* Read the next input of a file. Returns 0; 1 if it was the last one; -1 for bad lines. */
int input_parse(FILE *file, unsigned int *line, struct text *text)
{
	bool image = false, good;
	unsigned int nr_text = 0;
	char buf[256], *end;

	*text = (struct text) { .size = sizeof(struct input_head) };
	text->bytes = calloc(1, text->size);
	while (fgets(buf, sizeof(buf), file)) {
		++*line;
		end = buf + strcspn(buf, "#\n");
		while (end > buf && strchr(" \t", end[-1]))
			end--;
		*end = 0;
		if (!strcmp(buf, "next"))
			return 0;
		if (parse_expect(text, buf))
			continue;
		if (!image && text->size == sizeof(struct input_head))
			image = parse_mark(text, buf);
		good = image ? !strcmp(buf, "image") || image_parse(text, buf) ||
			       parse_bytes(text, buf) :
			       parse_line(text, &nr_text, buf);
		if (!good)
			return -1;
	}
	return 1;
}

void input_drop(struct text *text)
{
	for (int i = 0; i < text->nr_expect; i++)
		free(text->expect[i]);
	free(text->expect);
	free(text->bytes);
}

static void print_bytes(FILE *file, const u8 *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		fprintf(file, "%02x%s", bytes[i], i % 16 == 15 || i + 1 == size ? "\n" :
			i % 4 == 3 ? " " : "");
}

void input_print(FILE *file, const u8 *data, size_t size)
{
	struct input input;

	fprintf(file, "# Say what this is.\n");
	if (input_is_image(data, size)) {
		fprintf(file, "image\n");
		print_bytes(file, data + INPUT_MARK, size - INPUT_MARK);
		return;
	}
	input_load(&input, data, size);
	fprintf(file, "section %#llx\n", input.section.addr);
	for (int i = 0; i < INPUT_TEXTS; i++)
		fprintf(file, "text %#llx %#llx\n", input.text[i].start, input.text[i].end);
	print_bytes(file, input.section.bytes, input.section.size);
}

/* Read the executable segments and the section of a file; false if it has none. */
static bool read_elf(Elf *elf, struct text *text)
{
	struct input_head head = {};
	unsigned int nr_text = 0;
	size_t nr, names;
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	GElf_Phdr phdr;

	if (elf_getphdrnum(elf, &nr) || elf_getshdrstrndx(elf, &names) ||
	    gelf_getclass(elf) != ELFCLASS64)
		return false;
	for (size_t i = 0; i < nr; i++) {
		if (!gelf_getphdr(elf, i, &phdr) || phdr.p_type != PT_LOAD ||
		    !(phdr.p_flags & PF_X))
			continue;
		if (nr_text == INPUT_TEXTS || phdr.p_memsz > U32_MAX)
			return false;
		head.text[nr_text].start = phdr.p_vaddr;
		head.text[nr_text++].size = phdr.p_memsz;
	}
	while ((scn = elf_nextscn(elf, scn))) {
		const char *name = gelf_getshdr(scn, &shdr) ?
			elf_strptr(elf, names, shdr.sh_name) : NULL;
		Elf_Data *data;

		if (!name || strcmp(name, ".sframe"))
			continue;
		data = elf_rawdata(scn, NULL);
		if (!data || !data->d_buf)
			return false;
		head.addr = shdr.sh_addr;
		text->size = sizeof(head) + data->d_size;
		text->bytes = malloc(text->size);
		memcpy(text->bytes, &head, sizeof(head));
		memcpy(text->bytes + sizeof(head), data->d_buf, data->d_size);
		return nr_text;
	}
	return false;
}

/* Read the section of a file. Returns 0, or -1 if it has none. */
int input_from_elf(const char *name, struct text *text)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	bool found = false;
	Elf *elf;

	*text = (struct text) {};
	elf_version(EV_CURRENT);
	if (fd >= 0) {
		elf = elf_begin(fd, ELF_C_READ, NULL);
		found = elf && read_elf(elf, text);
		elf_end(elf);
		close(fd);
	}
	return found ? 0 : -1;
}
