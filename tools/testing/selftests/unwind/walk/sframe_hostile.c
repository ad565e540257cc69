// SPDX-License-Identifier: GPL-2.0
/*
 * Malicious files, with more than one wrong number: cut off at any place, with too much
 * of something, with two of something that must be unique, with tables that lead in
 * circles or to inaccessible addresses. Also valid files that are unusual. A trace goes
 * as far as the tables are correct, and no further.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include "perf_ring.h"
#include "sframe_walk.h"
#include "harness.h"

FIXTURE(hostile) {
	struct walker walker;
	char dir[32];
	struct mapped file;
	unsigned int files;
};

FIXTURE_SETUP(hostile)
{
	SETUP_WALKER();
}

FIXTURE_TEARDOWN(hostile)
{
	private_unmount(self->dir);
	walker_exit(&self->walker);
}

#define INIT(...) image_init(&self->file.image,						\
			     &(struct image_spec) { .code = &chain_a, __VA_ARGS__ })

/* Write the image to a new file, walk, and check the state of the file and the frames. */
#define EXPECT_FATE(state, frames, bad_functions) do {					\
	struct object _fate;								\
											\
	ASSERT_TRUE(mapped_write(&self->file, "%s/%u", self->dir, self->files++));	\
	EXPECT_FRAMES(&self->file, frames);						\
	EXPECT_STATE(self->file.path, state);						\
	object_find(self->file.path, &_fate);						\
	EXPECT_EQ(bad_functions, _fate.bad);						\
} while (0)

/* The end of the section's name, relative to the start of all names. */
#define NAME_END	15

static bool is_next_to(size_t size, size_t edge)
{
	return size + 1 >= edge && size <= edge + 1;
}

/* Is @size next to a start or end of a header, a part of the section, or a name? */
static bool is_at_edge(const struct image *image, size_t size)
{
	size_t sframe = image_offset(image, image->sframe);
	size_t shdrs = image_offset(image, image->shdrs);

	for (int i = 0; i <= IMAGE_PHDRS; i++) {
		if (is_next_to(size, sizeof(Elf64_Ehdr) + i * sizeof(Elf64_Phdr)))
			return true;
	}
	for (int i = 0; i <= IMAGE_SHDRS; i++) {
		if (is_next_to(size, shdrs + i * sizeof(Elf64_Shdr)))
			return true;
	}
	return is_next_to(size, 0) || is_next_to(size, EI_NIDENT) || is_next_to(size, sframe) ||
	       is_next_to(size, sframe + sizeof(*image->sframe)) ||
	       is_next_to(size, sframe + sizeof(*image->sframe) + image->sframe->rows) ||
	       is_next_to(size, sframe + image->sframe_size) ||
	       is_next_to(size, shdrs + IMAGE_SHDRS * sizeof(Elf64_Shdr) + NAME_END) ||
	       is_next_to(size, image->size);
}

/* The state of a file that is cut off at @size. */
static const char *state_of_cut(const struct image *image, enum image_how how, size_t size)
{
	size_t sframe = image_offset(image, image->sframe);
	size_t names = image_offset(image, image->shdrs + IMAGE_SHDRS);

	if (size < sizeof(Elf64_Ehdr) + IMAGE_PHDRS * sizeof(Elf64_Phdr))
		return "no-elf";
	if (size <= sframe || (how != BY_HEADER && size < names) ||
	    (how == BY_NAME && size < names + NAME_END))
		return "no-section";
	return size < sframe + image->sframe_size ? "damaged" : "ok";
}

static const struct sframe_row leaf_row = { .base = CFA_SP, .cfa = 8 };

/*
 * The code of these files may be cut off, too, and is never run: only its addresses are
 * on a stack.
 */
TEST_F(hostile, cut_off)
{
	static const struct sframe_function functions[] = {
		{ .size = 256, .nr = 1, .rows = &leaf_row },
		{ .start = 256, .size = 256, .nr = 1, .rows = &leaf_row },
	};
	struct image_spec spec = {
		.size = SFRAME_PAGE, .functions = functions, .nr = ARRAY_SIZE(functions),
	};
	struct mapped *file = &self->file;

	for (spec.how = BY_HEADER; spec.how <= BY_TYPE; spec.how++) {
		image_init(&file->image, &spec);
		for (size_t size = 0; size <= file->image.size; size++) {
			const char *state = state_of_cut(&file->image, spec.how, size);
			const void *words[] = { (void *)1, NULL, NULL, NULL, NULL };
			struct trace right = {};

			if (!is_at_edge(&file->image, size))
				continue;
			ASSERT_TRUE(mapped_write(file, "%s/%d-%zu", self->dir, spec.how, size));
			ASSERT_EQ(0, ftruncate(file->fd, size));
			words[1] = file->map + 16;
			words[2] = file->map + 300;
			words[3] = file->map + 32;
			ASSERT_TRUE(walk_words(&self->walker, words, ARRAY_SIZE(words)));
			trace_add_words(&right);
			trace_add(&right, words[1]);
			if (!strcmp(state, "ok")) {
				trace_add(&right, words[2]);
				trace_add(&right, words[3]);
			}
			EXPECT_TRUE(trace_is(&self->walker, &right));
			EXPECT_STATE(file->path, state);
			munmap(file->map, file->image.text_size);
			close(file->fd);
			unlink(file->path);
		}
		image_free(&file->image);
	}
}

/* The maximum number of headers, all inside the file. */
TEST_F(hostile, many_headers)
{
	INIT(.room = 65536 * sizeof(Elf64_Phdr));
	self->file.image.ehdr->e_phnum = 0xffff;
	EXPECT_FATE("ok", ALL_FRAMES, 0);

	INIT(.room = 65536 * sizeof(Elf64_Shdr), .how = BY_TYPE);
	self->file.image.ehdr->e_shnum = 0xffff;
	self->file.image.ehdr->e_shoff = SFRAME_PAGE + 2 * SFRAME_PAGE + 1024;
	self->file.image.ehdr->e_shstrndx = 0;
	EXPECT_FATE("no-section", 1, 0);
}

/* The kernel looks at no more than eight executable segments. */
TEST_F(hostile, many_segments)
{
	for (int nr = 7; nr <= 8; nr++) {
		struct image *image = &self->file.image;
		Elf64_Phdr *phdrs;

		INIT(.room = SFRAME_PAGE);
		phdrs = (void *)(image->bytes + image->size - SFRAME_PAGE);
		for (int i = 0; i < nr; i++) {
			phdrs[i] = image->phdrs[IMAGE_PH_TEXT];
			phdrs[i].p_offset += (i + 1) * 16 * SFRAME_PAGE;
			phdrs[i].p_vaddr += (i + 1) * 16 * SFRAME_PAGE;
		}
		memcpy(phdrs + nr, image->phdrs, IMAGE_PHDRS * sizeof(*phdrs));
		image->ehdr->e_phoff = image_offset(image, phdrs);
		image->ehdr->e_phnum = nr + IMAGE_PHDRS;
		EXPECT_FATE(nr < 8 ? "ok" : "no-section", nr < 8 ? ALL_FRAMES : 1, 0);
	}
}

/* Two segments in one page of the file, which is then mapped at two addresses. */
TEST_F(hostile, segments_share_a_page)
{
	static const struct sframe_function functions[] = {
		{ .size = 0x800, .nr = 1, .rows = &leaf_row },
		{ .start = 0x100800, .size = 0x1800, .nr = 1, .rows = &leaf_row },
	};
	const struct image_spec spec = {
		.size = 2 * SFRAME_PAGE, .functions = functions, .nr = ARRAY_SIZE(functions),
	};
	struct image *image = &self->file.image;
	Elf64_Phdr *phdrs = image->phdrs;
	struct trace right = {};
	const void *words[8] = { (void *)1 };
	void *first, *second;

	image_init(image, &spec);
	phdrs = image->phdrs;
	phdrs[IMAGE_PH_DATA] = phdrs[IMAGE_PH_TEXT];
	phdrs[IMAGE_PH_TEXT].p_filesz = 0x800;
	phdrs[IMAGE_PH_DATA].p_offset += 0x800;
	phdrs[IMAGE_PH_DATA].p_vaddr += 0x100800;
	phdrs[IMAGE_PH_DATA].p_filesz = 0x1800;
	ASSERT_TRUE(mapped_write(&self->file, "%s/file", self->dir));
	second = self->file.map;
	first = mmap(NULL, SFRAME_PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, self->file.fd,
		     image->text);
	ASSERT_NE(MAP_FAILED, first);

	words[1] = first + 0x10;
	words[2] = second + 0x810;
	words[3] = first + 0x7ff;
	words[4] = second + 0x1fff;
	words[5] = second + 0x1000;
	/* No function of the first segment has this address, so its caller is not found. */
	words[6] = first + 0x811;
	words[7] = second + 0x820;
	trace_add_words(&right);
	for (int i = 1; i < 7; i++)
		trace_add(&right, words[i]);
	ASSERT_TRUE(walk_words(&self->walker, words, ARRAY_SIZE(words)));
	EXPECT_TRUE(trace_is(&self->walker, &right));
	EXPECT_STATE(self->file.path, "ok");
}

static void move_section(struct image *image, size_t by)
{
	memmove((void *)image->sframe + by, image->sframe, image->sframe_size);
	image->phdrs[IMAGE_PH_SFRAME].p_offset += by;
	image->phdrs[IMAGE_PH_SFRAME].p_vaddr += by;
}

/* A section may have any alignment. */
TEST_F(hostile, misaligned_section)
{
	for (unsigned int by = 0; by < 8; by++) {
		INIT(.version = 1 + by % 3, .room = 64);
		sframe_shift(self->file.image.sframe, by);
		move_section(&self->file.image, by);
		EXPECT_FATE("ok", ALL_FRAMES, 0);
	}
}

/* An unknown auxiliary header after the header. */
TEST_F(hostile, auxiliary_header)
{
	struct image *image = &self->file.image;
	struct sframe_head *head;

	INIT(.version = 2, .room = 256);
	head = image->sframe;
	memmove((void *)(head + 1) + 255, head + 1, image->sframe_size - sizeof(*head));
	memset(head + 1, 0xa5, 255);
	head->aux_len = 255;
	image_resize(image, image->sframe_size + 255);
	EXPECT_FATE("ok", ALL_FRAMES, 0);
}

/* Some linkers concatenate the sections of all objects. */
TEST_F(hostile, several_sections)
{
	enum { NO_MAGIC, OTHER_VERSION, GOOD };
	struct image *image = &self->file.image, second;
	struct object object;
	size_t at;

	for (int kind = NO_MAGIC; kind <= GOOD; kind++) {
		/* The first section has only the stubs, the second one all other functions. */
		INIT(.version = 2, .room = 2048);
		for (unsigned int i = 1; i < image->functions; i++)
			sframe_spoil(image->sframe, i);
		image_init(&second, &(struct image_spec) { .code = &chain_a, .version = 3 });
		sframe_spoil(second.sframe, CHAIN_FN_STUBS);

		at = (image->sframe_size + 7) / 8 * 8;
		sframe_shift(second.sframe, at);
		if (kind == NO_MAGIC)
			second.sframe->magic = 0;
		else if (kind == OTHER_VERSION)
			second.sframe->version = 9;
		memcpy((void *)image->sframe + at, second.sframe, second.sframe_size);
		image_resize(image, at + second.sframe_size);

		/* Bytes without the magic are no section and do not count as a bad one. */
		EXPECT_FATE("ok", kind == GOOD ? ALL_FRAMES : CHAIN_LEAF + 1,
			    kind == NO_MAGIC ? 4 : 4 + 1);
		object_find(self->file.path, &object);
		EXPECT_STREQ(kind == GOOD ? "2,3" : "2", object.version);
		image_free(&second);
	}
}

/* The size limit of a section. */
#define LARGEST		(64UL << 20)

TEST_F(hostile, very_large)
{
	struct image *image = &self->file.image;

	INIT();
	image->phdrs[IMAGE_PH_SFRAME].p_filesz = LARGEST + 1;
	ASSERT_TRUE(mapped_write(&self->file, "%s/file", self->dir));
	ASSERT_EQ(0, ftruncate(self->file.fd, 2 * LARGEST));
	EXPECT_FRAMES(&self->file, 1);
	EXPECT_STATE(self->file.path, "too-large");
}

/*
 * All tables and all sections that are being read may use a share of memory, and one user
 * at most half of that share: this section fits, but its table does not.
 */
TEST_F(hostile, larger_than_its_share)
{
	size_t share = sysconf(_SC_PHYS_PAGES) * SFRAME_PAGE / 16;
	size_t size = share * 3 / 8 < LARGEST ? share * 3 / 8 : LARGEST;
	struct image *image = &self->file.image;
	struct mapped other;

	if (4 * size <= share)
		SKIP(return, "needs less than 4 GiB of memory");
	INIT();
	image->phdrs[IMAGE_PH_SFRAME].p_filesz = size;
	image->sframe->rows_size = size - sizeof(*image->sframe) - image->sframe->rows;
	ASSERT_TRUE(mapped_write(&self->file, "%s/file", self->dir));
	ASSERT_EQ(0, ftruncate(self->file.fd, size + (1 << 20)));
	EXPECT_FRAMES(&self->file, 1);
	EXPECT_STATE(self->file.path, "too-large");

	/* Other files still get their tables. */
	ASSERT_TRUE(mapped_init(&other, &(struct image_spec) { .code = &chain_b }, "%s/other",
				self->dir));
	EXPECT_CHAIN(&other);
}

/* Each return address leads to the same function again. */
TEST_F(hostile, endless)
{
	int max = set_sysctl("kernel/perf_event_max_stack", 100);
	const void *words[1500];
	void *page = aligned_alloc(SFRAME_PAGE, SFRAME_PAGE), *map;
	char path[64];
	int fd;

	ASSERT_LT(0, max);
	image_page(page);
	snprintf(path, sizeof(path), "%s/page", self->dir);
	fd = open(path, O_RDWR | O_CREAT, 0755);
	ASSERT_EQ(SFRAME_PAGE, write(fd, page, SFRAME_PAGE));
	map = mmap(NULL, SFRAME_PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	ASSERT_NE(MAP_FAILED, map);
	for (int i = 0; i < 1500; i++)
		words[i] = map + 100;
	words[0] = (void *)1;

	EXPECT_TRUE(walk_words(&self->walker, words, ARRAY_SIZE(words)));
	EXPECT_EQ(100, self->walker.event.nr);
	for (int i = 1; i < UNWIND_TEST_ENTRIES; i++)
		EXPECT_EQ((uintptr_t)words[i], self->walker.event.entries[i]);
	set_sysctl("kernel/perf_event_max_stack", max);
}

/* Words of register rules: a register, followed by an offset. */
enum { REG = 1, LOAD = 2, RSP = 7, R9 = 9 };

/* Replace the rows of a function by one row of @nr words at its start. */
static void set_rule(struct image *image, int function, const __s8 *words, unsigned int nr)
{
	struct sframe_attr3 *attr = sframe_attr(image->sframe, function);
	__u8 *row = sframe_rows(image->sframe, function);

	attr->nr_rows = 1;
	attr->info2 = 1;
	*row++ = 0;
	*row++ = nr << 1;
	memcpy(row, words, nr);
}

/*
 * Rows of signal frames may lead to any stack, here to one below the handler's. The walk
 * ends even if that stack leads to the same signal frame again.
 */
TEST_F(hostile, signal_rows)
{
	enum { PLAIN, BIG, OUTERMOST, SIGNAL, FUNCTIONS };
	enum { SIZE = 64, SIGNALS = 32 };
	/* Three rows leave room for the row of set_rule(). */
	static const struct sframe_row signal[3] = {
		{ 0, CFA_SP, 8 }, { 1, CFA_SP, 8 }, { 2, CFA_SP, 8 },
	};
	static const struct sframe_row plain = { 0, CFA_SP, 8 }, big = { 0, CFA_SP, 80 };
	static const struct sframe_row outermost = { 0, CFA_OUTERMOST };
	static const struct sframe_function functions[FUNCTIONS] = {
		{ PLAIN * SIZE, SIZE, 0, 1, &plain }, { BIG * SIZE, SIZE, 0, 1, &big },
		{ OUTERMOST * SIZE, SIZE, 0, 1, &outermost },
		{ SIGNAL * SIZE, SIZE, 0, 3, signal },
	};
	/* The CFA is *(rsp + 8), and the return address *rsp. */
	static const __s8 words[] = { RSP << 3 | REG | LOAD, 8, RSP << 3 | REG | LOAD, 0 };
	const void *stack[18] = {}, **at = walker_words(&self->walker);
	const char *code[FUNCTIONS];
	long before;

	image_init(&self->file.image, &(struct image_spec) {
		.size = SFRAME_PAGE, .functions = functions, .nr = FUNCTIONS,
	});
	set_rule(&self->file.image, SIGNAL, words, sizeof(words));
	sframe_attr(self->file.image.sframe, SIGNAL)->info |= 0x80;
	ASSERT_TRUE(mapped_write(&self->file, "%s/file", self->dir));
	for (int i = 0; i < FUNCTIONS; i++)
		code[i] = self->file.map + i * SIZE + SIZE / 2;

	/* A caller, its signal frame, and the interrupted code with its return address. */
	stack[1] = code[BIG];
	stack[11] = code[SIGNAL];
	stack[12] = code[PLAIN];
	stack[13] = at + 4;
	stack[4] = code[OUTERMOST];
	EXPECT_TRUE(walk_words(&self->walker, stack, ARRAY_SIZE(stack)));
	EXPECT_STATE(self->file.path, "ok");
	ASSERT_EQ(5, self->walker.event.nr);
	EXPECT_EQ((uintptr_t)code[BIG], self->walker.event.entries[1]);
	EXPECT_EQ((uintptr_t)code[SIGNAL], self->walker.event.entries[2]);
	EXPECT_EQ((uintptr_t)code[PLAIN], self->walker.event.entries[3]);
	EXPECT_EQ((uintptr_t)code[OUTERMOST], self->walker.event.entries[4]);

	/* Let the code lead to another signal frame, which leads to that code again. */
	stack[4] = code[BIG];
	stack[14] = code[SIGNAL];
	stack[15] = code[PLAIN];
	stack[16] = at + 4;
	before = unwind_stat("ended_signals");
	EXPECT_TRUE(walk_words(&self->walker, stack, ARRAY_SIZE(stack)));
	EXPECT_EQ(1 + 3 * SIGNALS + 2, self->walker.event.nr);
	EXPECT_EQ(1, unwind_stat("ended_signals") - before);
}

/*
 * A return to a restorer means that a signal interrupted code. A return to other code does
 * not, whether no function in the table has it or it follows one that has no caller. A
 * program may overwrite one with the other: in a mapping of its own, and in a private one of
 * the file, where the kernel asks the table before it looks at the code.
 */
TEST_F(hostile, rewritten_restorer)
{
	enum { PLAIN, OUTERMOST, FUNCTIONS };
	enum { SIZE = 64, UCONTEXT = 3 };
	static const struct sframe_row plain = { 0, CFA_SP, 8 }, outermost = { 0, CFA_OUTERMOST };
	static const struct sframe_function functions[FUNCTIONS] = {
		{ PLAIN * SIZE, SIZE, 0, 1, &plain }, { OUTERMOST * SIZE, SIZE, 0, 1, &outermost },
	};
	/* mov $__NR_rt_sigreturn, %rax; syscall */
	static const __u8 restorer[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	const void *stack[64] = {}, **at = walker_words(&self->walker);
	const void **regs = &stack[UCONTEXT + offsetof(ucontext_t, uc_mcontext) / sizeof(*stack)];
	__u8 *maps[2], *places[3];

	image_init(&self->file.image, &(struct image_spec) {
		.size = SFRAME_PAGE, .functions = functions, .nr = FUNCTIONS,
	});
	ASSERT_TRUE(mapped_write(&self->file, "%s/file", self->dir));
	for (unsigned int i = 0; i < ARRAY_SIZE(maps); i++) {
		maps[i] = mmap(NULL, SFRAME_PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
			       MAP_PRIVATE | (i ? 0 : MAP_ANONYMOUS), i ? self->file.fd : -1,
			       i ? self->file.image.text : 0);
		ASSERT_NE(MAP_FAILED, maps[i]);
	}
	places[0] = maps[0] + SIZE;
	places[1] = maps[1] + FUNCTIONS * SIZE + SIZE / 2;
	places[2] = maps[1] + FUNCTIONS * SIZE;

	stack[1] = self->file.map + PLAIN * SIZE + SIZE / 2;
	regs[REG_RIP] = self->file.map + OUTERMOST * SIZE + SIZE / 2;
	regs[REG_RSP] = at + ARRAY_SIZE(stack);
	/* cs and ss */
	regs[REG_CSGSFS] = (void *)(0x2bUL << 48 | 0x33);

	for (unsigned int i = 0; i < 4 * ARRAY_SIZE(places); i++) {
		stack[2] = places[i / 4];
		memset(places[i / 4], 0x90, sizeof(restorer));
		if (i % 2)
			memcpy(places[i / 4], restorer, sizeof(restorer));
		/* The first walk after the change, and one more. */
		for (int again = 0; again < 2; again++) {
			EXPECT_TRUE(walk_words(&self->walker, stack, ARRAY_SIZE(stack)));
			ASSERT_EQ(i % 2 ? 4 : 3, self->walker.event.nr)
				TH_LOG("place %u, change %u", i / 4, i % 4);
			EXPECT_EQ((uintptr_t)stack[2], self->walker.event.entries[2]);
			if (i % 2)
				EXPECT_EQ((uintptr_t)regs[REG_RIP],
					  self->walker.event.entries[3]);
		}
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(maps); i++)
		munmap(maps[i], SFRAME_PAGE);
}

/* Register rules: the registers hold kernel addresses or invalid ones. */
TEST_F(hostile, registers)
{
	static const struct {
		bool	whole;
		int	nr;
		__s8	words[6];
	} rules[] = {
		/* The CFA is r9, or what that points to. */
		{ false, 2, { R9 << 3 | REG, 0 } },
		{ false, 2, { R9 << 3 | REG | LOAD, 0 } },
		/* Likewise the return address; and the frame pointer, which no caller needs. */
		{ false, 4, { RSP << 3 | REG, 24, R9 << 3 | REG, 0 } },
		{ false, 4, { RSP << 3 | REG, 24, R9 << 3 | REG | LOAD, 0 } },
		{ true, 5, { RSP << 3 | REG, 24, 0, R9 << 3 | REG, 0 } },
		{ true, 5, { RSP << 3 | REG, 24, 0, R9 << 3 | REG | LOAD, 0 } },
		/* The same CFA without r9. */
		{ true, 2, { RSP << 3 | REG, 24 } },
		/* A register that does not exist, and a reserved bit. */
		{ false, 2, { 16 << 3 | REG, 0 } },
		{ false, 2, { RSP << 3 | REG | 4, 24 } },
	};
	static const unsigned long values[] = {
		0, 8, 0x7ffffffff000, 0x800000000000, 0x8000000000000000, 0xffffffff81000000,
		0xffff888000000000, 0xffffffffff600000, -8UL, -1UL,
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(rules) * ARRAY_SIZE(values); i++) {
		unsigned long value = values[i % ARRAY_SIZE(values)];
		unsigned int rule = i / ARRAY_SIZE(values);
		struct image *image = &self->file.image;
		struct chain_args args;
		struct trace right;

		INIT();
		set_rule(image, CHAIN_FN_STUBS, rules[rule].words, rules[rule].nr);
		ASSERT_TRUE(mapped_write(&self->file, "%s/%u", self->dir, i));
		walk_tracer_args(&self->walker, &args);
		args.arg[5] = value;
		ASSERT_TRUE(walk_args(&self->walker, self->file.map + chain_a.top, &args));
		right = trace_of_mapped(&self->file, rules[rule].whole ? ALL_FRAMES : 1);
		EXPECT_TRUE(trace_is(&self->walker, &right))
			TH_LOG("rule %u, value %#lx", rule, value);
		EXPECT_STATE(self->file.path, "ok");
		mapped_exit(&self->file);
	}
}

TEST_HARNESS_MAIN
