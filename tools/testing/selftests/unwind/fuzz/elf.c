// SPDX-License-Identifier: GPL-2.0
/*
 * The ELF parser on made-up images, and on those of ../sframe/ with fields changed.
 *
 * Contracts that are checked, beyond those of the sanitizers:
 * - An image in memory has exactly its size. An image in a file gives the same result,
 *   in whatever parts the file system returns it. The number of reads stays limited even
 *   if the parts are very small.
 * - The number of reads has a bound that does not depend on the image.
 * - A failed read ends the parsing. An error of the file system is never taken for a
 *   property of the image.
 * - A killed task gets no result, and the reads stop: a look for signals follows each read.
 * - Segments and section are those that a plain reader finds, and their sums do not wrap.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf_fuzz.h"

/*
 * The header, 256 program headers, 16 notes, the header of the names, and 1024 section
 * headers, 8 headers at a time; 64 names.
 */
#define MAX_READS		(1 + 256 / 8 + 2 * 16 + 1 + 1024 / 8 + 64)
/* Maximum number of small parts of a read. Parts of SMALL_PART never exceed it. */
#define MAX_PARTS		17
#define SMALL_PART		32
#define MAX_FAILS		4

/* A file, the reads of it so far, and the read to fail. */
struct file {
	const struct image	*image;
	u64			part;
	unsigned int		reads;
	unsigned int		looks;
	unsigned int		fail_read;
	int			error;
};

static struct {
	unsigned long	images;
	unsigned long	found;
	unsigned int	reads;
} total;

ssize_t __kernel_read(struct file *file, void *buf, size_t size, loff_t *pos)
{
	u64 at = *pos, left = file->image->size;

	sim_rule(*pos >= 0 && size && size <= INT_MAX, "a read of %zu at %#llx", size, at);
	sim_rule(!file->fail_read || file->reads < file->fail_read, "a read after the last");
	sim_rule(sim.looks >= file->looks, "a read, and no look for signals before it");
	file->reads++;
	if (file->reads == file->fail_read)
		return file->error;
	left = at < left ? left - at : 0;
	size = min(min(size, file->part), left);
	memcpy(buf, file->image->bytes + (left ? at : 0), size);
	*pos += size;
	/* A read at the end of the file needs no look for signals. */
	file->looks = sim.looks + !!size;
	return size;
}

static int open_source(const struct unwind_elf_source *source, struct unwind_elf *elf)
{
	int ret;

	memset(elf, 0xa5, sizeof(*elf));
	sim.reads = 0;
	sim.looks = 0;
	ret = unwind_elf_open(source, elf);
	sim_rule(sim.reads <= MAX_READS, "%u reads", sim.reads);
	return ret;
}

static int open_memory(const struct image *image, struct unwind_elf *elf)
{
	struct unwind_elf_source source = { .size = image->size };
	u8 *bytes = malloc(image->size);
	int ret;

	memcpy(bytes, image->bytes, image->size);
	source.bytes = bytes;
	ret = open_source(&source, elf);
	free(bytes);
	return ret;
}

static int open_file(struct file *file, struct unwind_elf *elf)
{
	struct unwind_elf_source source = { .file = file };
	int ret;

	file->reads = 0;
	file->looks = 0;
	ret = open_source(&source, elf);
	sim_rule(file->reads <= MAX_PARTS * sim.reads, "%u reads of the file", file->reads);
	return ret;
}

/* No sum of these wraps around, and a mapping can have them. */
static void check_segments(const struct unwind_elf *elf)
{
	sim_rule(elf->nr_segments && elf->nr_segments <= UNWIND_ELF_SEGMENTS, "%u segments",
		 elf->nr_segments);
	for (unsigned int i = 0; i < elf->nr_segments; i++) {
		const struct unwind_elf_segment *segment = &elf->segments[i];

		sim_rule(segment->offset < segment->end && segment->end <= S64_MAX &&
			 segment->addr <= S64_MAX - (segment->end - segment->offset) &&
			 offset_in_page(segment->offset) == offset_in_page(segment->addr),
			 "segment %#llx-%#llx at %#llx", segment->offset, segment->end,
			 segment->addr);
	}
	sim_rule(elf->size, "a section of no bytes");
}

static void check_elf(const struct plain_elf *plain, int ret, const struct unwind_elf *elf)
{
	const struct unwind_elf *model = &plain->elf;

	if (plain->cut && ret == -ENODATA)
		return;
	sim_rule(ret == plain->error, "status %d, not %d", ret, plain->error);
	if (ret)
		return;
	check_segments(elf);
	sim_rule(elf->offset == model->offset && elf->addr == model->addr &&
		 elf->size == model->size, "section %#llx of %#llx at %#llx", elf->offset,
		 elf->size, elf->addr);
	sim_rule(elf->build_id.size == model->build_id.size &&
		 !memcmp(elf->build_id.bytes, model->build_id.bytes, elf->build_id.size),
		 "another build-id");
	sim_rule(elf->nr_segments == model->nr_segments, "%u segments, not %u",
		 elf->nr_segments, model->nr_segments);
	for (unsigned int i = 0; i < elf->nr_segments; i++)
		sim_rule(elf->segments[i].offset == model->segments[i].offset &&
			 elf->segments[i].end == model->segments[i].end &&
			 elf->segments[i].addr == model->segments[i].addr, "segment %u", i);
}

/* A file that returns less than requested. */
static void check_parts(const struct plain_elf *plain, struct file *file)
{
	static const u64 parts[] = { 4096, 100, SMALL_PART, 20, 1 };
	struct unwind_elf elf;
	int ret;

	for (unsigned int i = 0; i < ARRAY_SIZE(parts); i++) {
		file->part = parts[i];
		ret = open_file(file, &elf);
		if (ret != -EIO || parts[i] >= SMALL_PART)
			check_elf(plain, ret, &elf);
	}
	file->part = U64_MAX;
}

static int status_of(int error)
{
	return error == -EINTR || error == -ENOMEM ? error : -EIO;
}

/* Reads that fail with the errors of file systems. */
static void check_fails(struct file *file, unsigned int reads)
{
	static const int errors[] = { -EIO, -EINTR, -ENOMEM, -ENOEXEC, -ENODATA, -EINVAL };
	struct unwind_elf elf;
	int ret;

	for (unsigned int i = 0; i < ARRAY_SIZE(errors); i++) {
		file->error = errors[i];
		for (unsigned int nr = min(reads, MAX_FAILS); nr; nr--) {
			file->fail_read = nr == MAX_FAILS ? reads : nr;
			ret = open_file(file, &elf);
			sim_rule(ret == status_of(file->error), "status %d where read %u is %d",
				 ret, file->fail_read, file->error);
		}
	}
	file->fail_read = 0;
}

static void check_kills(struct file *file, unsigned int looks)
{
	struct unwind_elf elf;
	int ret;

	for (unsigned int nr = min(looks, MAX_FAILS); nr; nr--) {
		sim.kill_look = nr == MAX_FAILS ? looks : nr;
		ret = open_file(file, &elf);
		sim_rule(ret == -EINTR, "status %d for a task that is killed", ret);
		sim_rule(sim.looks == sim.kill_look, "work for a task that is killed");
	}
	sim.kill_look = 0;
}

/* Read as a section is read: at once, whatever its size. */
static void check_read(struct file *file, u64 part)
{
	const struct image *image = file->image;
	struct unwind_elf_source source = { .file = file };
	u64 parts = (image->size + part - 1) / part;
	u8 *bytes = malloc(image->size + 1);
	int ret;

	file->part = part;
	file->reads = 0;
	ret = unwind_elf_read(&source, bytes, image->size, 0);
	sim_rule(!ret || (ret == -EIO && parts > MAX_PARTS && part < 4096),
		 "status %d of %llu parts", ret, parts);
	sim_rule(ret || !memcmp(bytes, image->bytes, image->size), "other bytes");
	sim_rule(file->reads <= MAX_PARTS + image->size / 4096, "%u reads of %llu bytes",
		 file->reads, image->size);

	file->part = U64_MAX;
	ret = unwind_elf_read(&source, bytes, image->size + 1, 0);
	sim_rule(ret == -ENOEXEC, "status %d of what is shorter", ret);
	free(bytes);
}

/* Read beyond the end. */
static void check_far(const struct unwind_elf_source *source, u64 size)
{
	const u64 far[] = { size, size + 1, S64_MAX - 1, S64_MAX, 1ULL << 63, -1ULL };
	u8 byte[2];
	int ret;

	for (unsigned int i = 0; i < ARRAY_SIZE(far); i++) {
		ret = unwind_elf_read(source, byte, sizeof(byte), far[i]);
		sim_rule(ret == -ENOEXEC, "status %d at %#llx", ret, far[i]);
	}
}

/* Returns the result of unwind_elf_open(); sets @elf and the number of reads. */
static int check(const struct image *image, struct unwind_elf *elf, unsigned int *reads)
{
	struct file file = { .image = image, .part = U64_MAX };
	struct unwind_elf_source memory = { .bytes = image->bytes, .size = image->size };
	struct unwind_elf_source source = { .file = &file };
	struct plain_elf plain;
	int ret;

	plain_elf_read(&plain, image);
	ret = open_memory(image, elf);
	*reads = sim.reads;
	check_elf(&plain, ret, elf);

	ret = open_file(&file, elf);
	check_elf(&plain, ret, elf);
	sim_rule(sim.reads == *reads, "%u reads, not %u", sim.reads, *reads);
	check_kills(&file, sim.looks);
	check_parts(&plain, &file);
	open_file(&file, elf);
	/* A read beyond the end of a file can fail as well. */
	check_fails(&file, file.reads);
	check_read(&file, 4096);
	check_read(&file, 1 + image->size / 7);
	check_far(&source, image->size);
	check_far(&memory, image->size);

	ret = open_memory(image, elf);
	total.images++;
	total.found += !ret;
	total.reads = max(total.reads, *reads);
	return ret;
}

void elf_check(const struct image *image)
{
	struct unwind_elf elf;
	unsigned int reads;

	check(image, &elf, &reads);
}

void elf_print_total(FILE *file)
{
	if (total.images)
		fprintf(file, "%lu images, %lu have a section, the most reads: %u\n",
			total.images, total.found, total.reads);
}

#ifndef FUZZ
static int parse_status(const char *s)
{
	return !strcmp(s, "0") ? 0 : !strcmp(s, "-ENOEXEC") ? -ENOEXEC :
	       !strcmp(s, "-ENODATA") ? -ENODATA : 1;
}

static void check_expect(const char *expect, int ret, const struct unwind_elf *elf,
			 unsigned int reads)
{
	const struct unwind_elf_segment *segment;
	u64 offset, addr, last;
	char word[16];
	unsigned int nr;

	if (sscanf(expect, "open %15s", word) == 1) {
		sim_rule(ret == parse_status(word), "expect %s: it is %d", expect, ret);
	} else if (sscanf(expect, "section %llx %llx %llx", &offset, &addr, &last) == 3) {
		sim_rule(!ret && elf->offset == offset && elf->addr == addr &&
			 elf->size == last, "expect %s: it is %#llx %#llx %#llx", expect,
			 elf->offset, elf->addr, elf->size);
	} else if (sscanf(expect, "segment %u %llx %llx %llx", &nr, &offset, &last,
			  &addr) == 4) {
		sim_rule(!ret && nr < elf->nr_segments, "expect %s: there is none", expect);
		segment = &elf->segments[nr];
		sim_rule(segment->offset == offset && segment->end == last &&
			 segment->addr == addr, "expect %s: it is %#llx %#llx %#llx", expect,
			 segment->offset, segment->end, segment->addr);
	} else if (sscanf(expect, "segments %u", &nr) == 1) {
		sim_rule(elf->nr_segments == nr, "expect %s: %u", expect, elf->nr_segments);
	} else if (sscanf(expect, "reads %u", &nr) == 1) {
		sim_rule(reads == nr, "expect %s: %u", expect, reads);
	} else {
		sim_rule(false, "expect %s: what is that?", expect);
	}
}

/* Replay a text that is an image. */
int elf_replay(const struct text *text)
{
	const struct image image = { text->bytes + INPUT_MARK, text->size - INPUT_MARK };
	struct unwind_elf elf;
	unsigned int reads;
	int ret;

	ret = check(&image, &elf, &reads);
	printf("open %d, %u segments, section of %llu bytes, %u reads\n", ret,
	       elf.nr_segments, elf.size, reads);
	for (int i = 0; i < text->nr_expect; i++)
		check_expect(text->expect[i], ret, &elf, reads);
	return 0;
}

static int load(const char *name, struct image *image)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	struct stat stat;
	int ret = -1;

	*image = (struct image) {};
	if (fd >= 0 && !fstat(fd, &stat)) {
		image->size = stat.st_size;
		image->bytes = malloc(image->size);
		ret = read(fd, image->bytes, image->size) == image->size ? 0 : -1;
	}
	if (ret)
		perror(name);
	if (fd >= 0)
		close(fd);
	return ret;
}

/* As if the linker had written no program header for the section. */
static void drop_phdr(const struct image *image)
{
	u64 at = image_get(image, 32, 8);

	for (u64 nr = image_get(image, 56, 2); nr; nr--, at += PHDR_SIZE) {
		if (image_get(image, at, 4) == 0x6474e554)
			image_set(image, at, 4, 0);
	}
}

/* Print a file for a comparison with readelf: the section found in both ways. */
int elf_print(const char *name)
{
	struct unwind_elf elf;
	struct image image;
	unsigned int reads;

	if (load(name, &image) || check(&image, &elf, &reads))
		return 1;
	printf("header %llx %llx %llx\n", elf.offset, elf.addr, elf.size);
	for (unsigned int i = 0; i < elf.nr_segments; i++)
		printf("segment %llx %llx %llx\n", elf.segments[i].offset,
		       elf.segments[i].addr, elf.segments[i].end - elf.segments[i].offset);
	drop_phdr(&image);
	if (check(&image, &elf, &reads))
		return 1;
	printf("section %llx %llx %llx\n", elf.offset, elf.addr, elf.size);
	free(image.bytes);
	return 0;
}

static void damage_field(struct image *image, const struct image_field *field)
{
	u64 good = image_get(image, field->at, field->size), val;

	for (unsigned int nr = 0; image_value(image, field, nr, &val); nr++) {
		image_set(image, field->at, field->size, val);
		elf_check(image);
		image_set(image, field->at, field->size, good);
	}
}

/* Damage each header field in turn, then let the image end before or in a header. */
static void damage(struct image *image)
{
	u64 good = image->size, headers[2] = {};
	struct image_field field;

	for (unsigned int nr = 0; image_field(image, nr, &field); nr++)
		damage_field(image, &field);

	headers[1] = image_get(image, 40, 8);
	for (unsigned int i = 0; i < ARRAY_SIZE(headers); i++) {
		for (image->size = headers[i]; image->size < min(good, headers[i] + 1024);
		     image->size++)
			elf_check(image);
	}
	image->size = good;
}

/* Do this with and without the program header of the section. */
int elf_damage(const char *name)
{
	struct image image;

	if (load(name, &image))
		return 1;
	damage(&image);
	drop_phdr(&image);
	damage(&image);
	free(image.bytes);
	return 0;
}
#endif
