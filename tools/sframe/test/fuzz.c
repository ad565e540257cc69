// SPDX-License-Identifier: GPL-2.0
/*
 * fuzz [-n ROUNDS] [-s SEED] FILE...: give damaged files to all code that reads files.
 * fuzz -s SEED -w OUT FILE...: write the file of the first round
 *
 * Each round damages a few bytes of one file, mostly in headers, tables and .eh_frame, or cuts
 * the file off. Then, a file that can be converted must pass the check, and a file that can be
 * installed must have its section. The sanitizers in this build find other errors. A round
 * depends on its number and the seed alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

/**
 * struct input - a file
 * @name:	its path
 * @bytes:	its contents
 * @size:	of @bytes
 * @parts:	ranges that are worth damaging
 * @nr_parts:	entries in @parts
 */
struct input {
	const char	*name;
	u8		*bytes;
	size_t		size;
	struct range	parts[16];
	unsigned int	nr_parts;
};

static struct {
	unsigned long	rounds;
	unsigned long	converted;
	unsigned long	installed;
	unsigned long	decoded;
} counts;

static u64 state;
static unsigned long round_seed;

/* libdw does not limit register numbers, and has to cope without memory. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1:max_allocation_size_mb=1024";
}

static u64 any(u64 limit)
{
	u64 val;

	state += 0x9e3779b97f4a7c15ULL;
	val = (state ^ state >> 30) * 0xbf58476d1ce4e5b9ULL;
	val = (val ^ val >> 27) * 0x94d049bb133111ebULL;
	return (val ^ val >> 31) % limit;
}

static void die(const char *what, const char *why)
{
	fprintf(stderr, "fuzz: seed %lu: %s: %s\n", round_seed, what, why);
	exit(2);
}

static void add_part(struct input *input, u64 start, u64 size)
{
	if (input->nr_parts < 16 && size && start < input->size && size <= input->size - start)
		input->parts[input->nr_parts++] = (struct range) { start, start + size };
}

static void read_input(struct input *input, const char *name)
{
	static const char * const names[] = {
		".eh_frame", ".eh_frame_hdr", ".dynamic", ".plt", ".sframe", ".shstrtab",
	};
	char message[SFRAME_MESSAGE];
	struct image image;
	struct stat st;
	int fd = open(name, O_RDONLY);

	if (fd < 0 || fstat(fd, &st))
		die(name, strerror(errno));
	*input = (struct input) { .name = name, .size = st.st_size };
	input->bytes = malloc(st.st_size);
	if (read(fd, input->bytes, st.st_size) != st.st_size)
		die(name, "cannot be read");
	close(fd);
	if (image_open_memory(&image, input->bytes, input->size, message))
		die(name, message);
	add_part(input, 0, 64);
	add_part(input, 64, 13 * 56);
	add_part(input, elf64_getehdr(image.elf)->e_shoff,
		 elf64_getehdr(image.elf)->e_shnum * 64ULL);
	for (unsigned int i = 0; i < sizeof(names) / sizeof(*names); i++) {
		GElf_Shdr shdr;

		if (image_section(&image, names[i], &shdr))
			add_part(input, shdr.sh_offset, shdr.sh_size);
	}
	image_close(&image);
}

/* Replace a number by one that is likely to matter. */
static void damage(u8 *bytes, size_t size, const struct range *part)
{
	static const u64 values[] = {
		0, 1, 2, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff,
		0x100000000, INT64_MAX, 1ULL << 63, UINT64_MAX, UINT64_MAX - 7,
	};
	unsigned int width = 1 << any(4);
	u64 at = part->start + any(part->end - part->start), val;

	if (at + width > size)
		return;
	memcpy(&val, bytes + at, sizeof(val) > size - at ? size - at : sizeof(val));
	switch (any(4)) {
	case 0:
		val ^= 1ULL << any(8 * width);
		break;
	case 1:
		val += any(33) - 16;
		break;
	case 2:
		val = values[any(16)];
		break;
	default:
		val = any(UINT64_MAX);
	}
	memcpy(bytes + at, &val, width);
}

static void mutate(const struct input *input, u8 *bytes, size_t *size)
{
	const struct range all = { 0, input->size };
	unsigned int nr = 1 + any(6);

	*size = input->size;
	memcpy(bytes, input->bytes, *size);
	while (nr--)
		damage(bytes, *size, any(8) ? &input->parts[any(input->nr_parts)] : &all);
	if (!any(16))
		*size = any(*size + 1);
}

/* For PLTs, .eh_frame may differ from the code; the code counts. */
static bool has_plt(const struct image *image)
{
	GElf_Shdr shdr;

	return image_section(image, ".plt", &shdr) || image_section(image, ".plt.got", &shdr) ||
	       image_section(image, ".plt.sec", &shdr);
}

/* The section of a file passes the check. Its output is discarded here. */
static void try_check(const u8 *bytes, size_t size, const struct sframe_output *out,
		      bool wrong_is_bad)
{
	struct section section = { .bytes = out->bytes, .size = out->size };
	char message[SFRAME_MESSAGE];
	struct image image;
	int ret;

	if (image_open_memory(&image, bytes, size, message))
		die("check", message);
	if (image_open_cfi(&image))
		die("check", message);
	ret = check_section(&image, &section, "fuzz", false);
	if (wrong_is_bad && ret && !(ret == 1 && has_plt(&image)))
		die("check", ret < 0 ? message : "the section differs");
	image_close(&image);
}

static void try_convert(const u8 *bytes, size_t size)
{
	struct sframe_options options = { .version = 2 + any(2) };
	struct sframe_output out;
	int ret = sframe_convert_memory(bytes, size, &options, &out);

	if (ret) {
		if (!*out.message || out.bytes)
			die("convert", "an error without a sentence, or with a section");
		return;
	}
	counts.converted++;
	if (!section_is_whole(out.bytes, out.size))
		die("convert", "the cache would not take the section");
	try_check(bytes, size, &out, true);
	/* Damage the section itself. */
	for (unsigned int i = any(4); i; i--)
		damage(out.bytes, out.size, &(struct range) { 0, out.size });
	counts.decoded++;
	section_is_whole(out.bytes, out.size);
	try_check(bytes, size, &out, false);
	sframe_free(&out);
}

static void try_install(const u8 *bytes, size_t size)
{
	char message[SFRAME_MESSAGE] = "";
	struct sframe_output out = {};
	u64 addr, offset, length;
	struct image image;

	if (image_open_memory(&image, bytes, size, message))
		return;
	if (install_image(&image, bytes, size, 2 + any(2), &out)) {
		if (!*message || out.bytes)
			die("install", "an error without a sentence, or with a file");
		image_close(&image);
		return;
	}
	image_close(&image);
	counts.installed++;
	if (image_open_memory(&image, out.bytes, out.size, message))
		die("install", message);
	if (image_sframe(&image, &addr, &offset, &length))
		die("install", "there is no section");
	image_close(&image);
	sframe_free(&out);
}

static void write_out(const char *name, const u8 *bytes, size_t size)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0755);

	if (fd < 0 || write(fd, bytes, size) != size)
		die(name, strerror(errno));
	exit(0);
}

static void fuzz(const struct input *inputs, unsigned int nr, u8 *bytes, const char *out)
{
	const struct input *input;
	u8 *exact;
	size_t size;

	state = round_seed * 0x2545f4914f6cdd1dULL;
	input = &inputs[any(nr)];
	mutate(input, bytes, &size);
	if (out)
		write_out(out, bytes, size);
	/* The allocation ends where the file ends. */
	exact = malloc(size ?: 1);
	memcpy(exact, bytes, size);
	try_convert(exact, size);
	try_install(exact, size);
	free(exact);
	counts.rounds++;
}

int main(int argc, char **argv)
{
	unsigned long rounds = 20000, seed = 1;
	struct input inputs[16];
	unsigned int nr = 0;
	size_t largest = 0;
	u8 *bytes;
	const char *out = NULL;
	int option;

	while ((option = getopt(argc, argv, "n:s:w:")) != -1) {
		if (option == 'n')
			rounds = strtoul(optarg, NULL, 0);
		else if (option == 's')
			seed = strtoul(optarg, NULL, 0);
		else if (option == 'w')
			out = optarg;
		else
			return 2;
	}
	for (; optind < argc && nr < 16; optind++, nr++) {
		read_input(&inputs[nr], argv[optind]);
		if (inputs[nr].size > largest)
			largest = inputs[nr].size;
	}
	bytes = malloc(largest + 1);
	if (!nr || !bytes)
		die("needs files", "there are none");
	/* The check prints its findings. */
	if (!freopen("/dev/null", "w", stdout))
		die("/dev/null", strerror(errno));
	for (round_seed = seed; round_seed < seed + rounds; round_seed++)
		fuzz(inputs, nr, bytes, out);
	fprintf(stderr, "%lu rounds, %lu converted, %lu installed, %lu sections decoded\n",
		counts.rounds, counts.converted, counts.installed, counts.decoded);
	while (nr--)
		free(inputs[nr].bytes);
	free(bytes);
	return 0;
}
