// SPDX-License-Identifier: GPL-2.0
/*
 * Names of addresses.
 *
 * Invariant: each place in a file or in the kernel has one frame, whichever processes map the
 * file, and each mapped part of a file has one segment.
 */
#include <endian.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <bpf/hashmap.h>
#include <elfutils/libdwelf.h>

#include "prof.h"

struct kernel_symbol {
	__u64	addr;
	char	type;
	char	*name;
};

/* An address on a stack. */
struct place {
	const struct space	*space;
	__u64			ip;
	__u64			caller;
};

static struct {
	struct kernel_symbol	*kernel;
	size_t			nr_kernel;
	size_t			room_kernel;
	__u64			kernel_start;
	bool			hidden;
	unsigned char		kernel_id[BUILD_ID_SIZE];
	size_t			kernel_id_size;
	struct hashmap		*places;
	struct hashmap		*frames;
	struct hashmap		*segments;
} symbols;

static int compare_addr(const void *a, const void *b)
{
	const struct kernel_symbol *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static void add_kernel_symbol(__u64 addr, char type, const char *name)
{
	symbols.kernel = xgrow(symbols.kernel, symbols.nr_kernel, &symbols.room_kernel,
			       sizeof(*symbols.kernel));
	symbols.kernel[symbols.nr_kernel++] = (struct kernel_symbol) {
		addr, type, xstrdup(name)
	};
	if (!strcmp(name, "_stext"))
		symbols.kernel_start = addr;
}

static void read_kallsyms(void)
{
	FILE *file = fopen("/proc/kallsyms", "re");
	char *line = NULL, type, name[512];
	unsigned long long addr;
	size_t room = 0;

	while (file && getline(&line, &room, file) > 0) {
		if (sscanf(line, "%llx %c %511s", &addr, &type, name) == 3 && addr)
			add_kernel_symbol(addr, type, name);
	}
	free(line);
	if (file)
		fclose(file);
	symbols.hidden = !symbols.nr_kernel;
	qsort(symbols.kernel, symbols.nr_kernel, sizeof(*symbols.kernel), compare_addr);
}

/* The list includes data: addresses after the text of a module are not in a function. */
static const char *kernel_name(__u64 addr)
{
	size_t low = 0, high = symbols.nr_kernel;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (symbols.kernel[middle].addr <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || !strchr("tTwW", symbols.kernel[low - 1].type))
		return NULL;
	return symbols.kernel[low - 1].name;
}

/* elfutils reads notes from ELF files: wrap the kernel's notes in one. */
static void read_kernel_build_id(void)
{
	static struct {
		ElfW(Ehdr)	ehdr;
		ElfW(Phdr)	phdr;
		char		notes[4096];
	} image;
	FILE *file = fopen("/sys/kernel/notes", "re");
	const void *bits;
	ssize_t size;
	Elf *elf;

	if (!file)
		return;
	image.phdr.p_type = PT_NOTE;
	image.phdr.p_offset = offsetof(typeof(image), notes);
	image.phdr.p_filesz = fread(image.notes, 1, sizeof(image.notes), file);
	image.phdr.p_align = 4;
	fclose(file);

	memcpy(image.ehdr.e_ident, ELFMAG, SELFMAG);
	image.ehdr.e_ident[EI_CLASS] = sizeof(long) == 8 ? ELFCLASS64 : ELFCLASS32;
	image.ehdr.e_ident[EI_DATA] = htobe16(1) == 1 ? ELFDATA2MSB : ELFDATA2LSB;
	image.ehdr.e_ident[EI_VERSION] = EV_CURRENT;
	image.ehdr.e_type = ET_EXEC;
	image.ehdr.e_version = EV_CURRENT;
	image.ehdr.e_ehsize = sizeof(image.ehdr);
	image.ehdr.e_phoff = sizeof(image.ehdr);
	image.ehdr.e_phentsize = sizeof(image.phdr);
	image.ehdr.e_phnum = 1;

	elf_version(EV_CURRENT);
	elf = elf_memory((char *)&image, sizeof(image));
	size = elf ? dwelf_elf_gnu_build_id(elf, &bits) : 0;
	if (size > 0 && size <= BUILD_ID_SIZE) {
		memcpy(symbols.kernel_id, bits, size);
		symbols.kernel_id_size = size;
	}
	elf_end(elf);
}

static size_t place_hash(long key, void *ctx)
{
	return hash_bytes((const void *)key, sizeof(struct place));
}

static bool place_equal(long key1, long key2, void *ctx)
{
	return !memcmp((const void *)key1, (const void *)key2, sizeof(struct place));
}

/* Call this before the first lookup, and after the last record. */
void symbols_init(void)
{
	symbols.places = map_new(place_hash, place_equal);
	symbols.frames = map_of_strings();
	symbols.segments = map_of_strings();
	read_kallsyms();
	read_kernel_build_id();
}

/* A file may be known twice: by its build-id, and by its inode number. */
static char *dso_key(struct dso *dso)
{
	const unsigned char *id;
	size_t size = dso_build_id(dso, &id);

	if (size)
		return xprintf("%zx %s", hash_bytes(id, size), dso_name(dso));
	return xprintf("%p", dso);
}

static struct segment *segment_of(const struct mapping *mapping)
{
	char *dso = dso_key(mapping->dso), *key = xprintf("%llx %s", mapping->offset, dso);
	struct segment *segment;

	free(dso);
	if (hashmap__find(symbols.segments, key, &segment)) {
		free(key);
	} else {
		segment = xalloc(sizeof(*segment));
		segment->dso = mapping->dso;
		segment->offset = mapping->offset;
		segment->start = mapping->start;
		if (hashmap__add(symbols.segments, key, segment))
			die(STATUS_FAILED, "out of memory");
	}
	if (segment->end < segment->start + mapping->end - mapping->start)
		segment->end = segment->start + mapping->end - mapping->start;
	return segment;
}

/* The kernel's //anon becomes [anon+0xoff] here, and [vdso] becomes [vdso+0xoff]. */
static char *name_offset(const char *name, __u64 offset)
{
	const char *slash = strrchr(name, '/');
	const char *base = slash ? slash + 1 : name;
	const size_t size = strlen(base);

	if (base[0] == '[' && base[size - 1] == ']')
		return xprintf("[%.*s+0x%llx]", (int)size - 2, base + 1, offset);
	return xprintf("[%s+0x%llx]", base, offset);
}

static struct frame *frame_of(char *key, struct segment *segment)
{
	struct frame *frame;

	if (hashmap__find(symbols.frames, key, &frame)) {
		free(key);
		return frame;
	}
	frame = xalloc(sizeof(*frame));
	frame->segment = segment;
	if (hashmap__add(symbols.frames, key, frame))
		die(STATUS_FAILED, "out of memory");
	return frame;
}

static struct frame *make_user_frame(const struct space *space, __u64 ip)
{
	const struct mapping *mapping = spaces_find(space, ip);
	struct segment *segment;
	struct frame *frame;
	__u64 offset, addr;
	char *name;

	if (!mapping) {
		frame = frame_of(xprintf("unknown %llx", ip), NULL);
		if (!frame->name)
			frame->name = xprintf("[unknown+0x%llx]", ip);
		frame->addr = ip;
		return frame;
	}

	segment = segment_of(mapping);
	offset = ip - mapping->start;
	frame = frame_of(xprintf("%p %llx", segment, offset), segment);
	if (frame->name)
		return frame;
	frame->addr = segment->start + offset;
	dso_open(segment->dso, space->tgid, mapping);
	name = dso_symbol(segment->dso, segment->offset + offset, &addr);
	frame->known = name;
	frame->name = name ?: name_offset(dso_name(segment->dso), addr);
	return frame;
}

/**
 * symbols_user - find the frame of an address of a user stack
 * @space:	its address space
 * @ip:		the address
 * @caller:	@ip is a return address: the call is before it
 *
 * Return: the frame
 */
struct frame *symbols_user(const struct space *space, __u64 ip, bool caller)
{
	struct place key = { space, ip, caller }, *place;
	struct frame *frame;

	if (hashmap__find(symbols.places, &key, &frame))
		return frame;

	frame = make_user_frame(space, ip - caller);
	place = xalloc(sizeof(*place));
	*place = key;
	if (hashmap__add(symbols.places, place, frame))
		die(STATUS_FAILED, "out of memory");
	return frame;
}

/* Likewise for a kernel stack. */
struct frame *symbols_kernel(__u64 ip, bool caller)
{
	struct frame *frame = frame_of(xprintf("kernel %llx", ip - caller), NULL);
	const char *name;

	if (frame->name)
		return frame;
	name = kernel_name(ip - caller);
	frame->addr = ip - caller;
	frame->kernel = true;
	frame->known = name;
	frame->name = name ? xstrdup(name) : xprintf("[kernel+0x%llx]", frame->addr);
	return frame;
}

__u64 symbols_kernel_start(void)
{
	return symbols.kernel_start ?: 1ULL << 63;
}

size_t symbols_kernel_build_id(const unsigned char **build_id)
{
	*build_id = symbols.kernel_id;
	return symbols.kernel_id_size;
}

/* Does the kernel hide the addresses of its functions? */
bool symbols_hidden(void)
{
	return symbols.hidden;
}
