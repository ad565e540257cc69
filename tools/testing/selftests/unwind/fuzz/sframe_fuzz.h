/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The SFrame decoder as a program: its inputs, and the expected results.
 *
 * sframe.c checks the contracts of the decoder, sframe_plain.c is another decoder to
 * compare it with, sframe_input.c reads and writes inputs. An input may be an ELF
 * image instead, see elf_fuzz.h.
 */
#ifndef _UNWIND_FUZZ_SFRAME_FUZZ_H
#define _UNWIND_FUZZ_SFRAME_FUZZ_H

#include "sframe_plain.h"

#define INPUT_TEXTS	2

/* The start of an input; the section follows. */
struct input_head {
	__le64		addr;
	struct {
		__le64	start;
		__le32	size;
	} __packed text[INPUT_TEXTS];
} __packed;

static_assert(sizeof(struct input_head) == 32);

/* The start of an input that is an ELF image; the image follows. */
#define INPUT_IMAGE	"ELFimage"
#define INPUT_MARK	8

/**
 * struct input - a section in a file
 * @section:	the argument of the decoder; it does not own its bytes
 * @text:	the code of the file
 */
struct input {
	struct sframe_section	section;
	struct sframe_range	text[INPUT_TEXTS];
};

/* sframe.c */

/**
 * struct sim_work - work of the code under test, and where to kill it
 * @calls:	number of function calls
 * @reads:	number of calls of unwind_elf_read()
 * @looks:	number of looks for fatal signals
 * @kill_look:	the look that finds a signal, 0 for none
 */
struct sim_work {
	unsigned long	calls;
	unsigned int	reads;
	unsigned int	looks;
	unsigned int	kill_look;
};

extern struct sim_work sim;

/* sframe_input.c */

/**
 * struct text - the text of an input
 * @bytes:	the input
 * @size:	its size
 * @expect:	lines with expected results
 * @nr_expect:	number of these lines
 */
struct text {
	u8		*bytes;
	size_t		size;
	char		**expect;
	unsigned int	nr_expect;
};

bool input_is_image(const u8 *data, size_t size);
void input_load(struct input *input, const u8 *data, size_t size);
int input_parse(FILE *file, unsigned int *line, struct text *text);
void input_drop(struct text *text);
void input_print(FILE *file, const u8 *data, size_t size);
int input_from_elf(const char *name, struct text *text);

#endif /* _UNWIND_FUZZ_SFRAME_FUZZ_H */
