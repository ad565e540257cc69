// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <string.h>

#include "sframe_large.h"

/* Rows as compilers write them. A function starts with a return address only. */
static const struct sframe_row usual_rows[] = {
	{ 0, CFA_SP, 8, 0 }, { 1, CFA_SP, 16, 0 }, { 2, CFA_SP, 24, -24 },
	{ 6, CFA_SP, 112, -24 }, { 50, CFA_SP, 24, -24 }, { 51, CFA_SP, 16, 0 },
	{ 52, CFA_SP, 8, 0 },
};

#define FUNCTION_SIZE	64

bool large_init(struct mapped *large, unsigned int nr, unsigned int version, const char *dir,
		const char *name)
{
	struct sframe_function *functions = calloc(nr, sizeof(*functions));
	const struct image_spec spec = {
		.size = nr * FUNCTION_SIZE, .functions = functions, .nr = nr,
		.version = version,
	};
	bool done;

	for (unsigned int i = 0; i < nr; i++)
		functions[i] = (struct sframe_function) {
			.start = i * FUNCTION_SIZE, .size = FUNCTION_SIZE,
			.nr = ARRAY_SIZE(usual_rows), .rows = usual_rows,
		};
	done = mapped_init(large, &spec, "%s/%s", dir, name);
	free(functions);
	return done;
}

int walk_returns(struct walker *walker, const void *const *returns, unsigned int nr)
{
	const void *words[UNWIND_TEST_ENTRIES] = { (void *)1 };
	struct trace right = {};

	memcpy(words + 1, returns, nr * sizeof(*returns));
	trace_add_words(&right);
	for (unsigned int i = 0; i < nr; i++)
		trace_add(&right, returns[i]);
	if (!walk_words(walker, words, nr + 1))
		return WRONG;
	if (walker->event.nr > 1 && walker->event.nr < right.nr)
		return trace_begins(walker, &right) ? WITHOUT_TABLE : WRONG;
	return trace_is(walker, &right) ? WITH_TABLE : WRONG;
}

int walk_large(struct walker *walker, const struct mapped *large)
{
	const void *returns[8];

	for (unsigned int i = 0; i < ARRAY_SIZE(returns); i++) {
		unsigned int nr = (i * 12345 + 7) % large->image.functions;

		returns[i] = large->map + nr * FUNCTION_SIZE + 1;
	}
	return walk_returns(walker, returns, ARRAY_SIZE(returns));
}

void *reader_main(void *data)
{
	struct reader *reader = data;

	while (!reader->stop) {
		reader->lists++;
		reader->bad += object_count() < 0;
	}
	return NULL;
}
