// SPDX-License-Identifier: GPL-2.0
/*
 * Reports as text: folded stacks, one per line, and a readable list of the largest.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <bpf/hashmap.h>

#include "prof.h"

/* Samples with the same names in their stacks. */
struct line {
	char	*text;
	__u64	count;
	__u64	weight;
};

struct lines {
	struct line	**line;
	size_t		nr;
	size_t		room;
	__u64		count;
	__u64		weight;
};

/* Programs choose their names, which may contain separators of fields. */
static void put_name(FILE *out, const char *name)
{
	for (; *name; name++) {
		if (*name == ';')
			fputc(':', out);
		else
			fputc(iscntrl((unsigned char)*name) ? '?' : *name, out);
	}
}

static char *fold(const struct group *group, bool off_cpu, struct frames *frames)
{
	char comm[STACKPROF_COMM_LEN + 1], *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		die(STATUS_FAILED, "out of memory");
	frames_of(group, off_cpu, frames);
	snprintf(comm, sizeof(comm), "%.*s", STACKPROF_COMM_LEN, group->comm);
	put_name(out, comm);
	for (size_t i = 0; i < frames->nr; i++) {
		fputc(';', out);
		put_name(out, frames->frame[i]->name);
		if (frames->frame[i]->kernel)
			fputs("_[k]", out);
	}
	if (fclose(out))
		die(STATUS_FAILED, "out of memory");
	return text;
}

static void add_line(struct lines *lines, struct hashmap *by_text, char *text,
		     const struct group *group)
{
	struct line *line;

	if (hashmap__find(by_text, text, &line)) {
		free(text);
	} else {
		line = xalloc(sizeof(*line));
		line->text = text;
		if (hashmap__add(by_text, text, line))
			die(STATUS_FAILED, "out of memory");
		lines->line = xgrow(lines->line, lines->nr, &lines->room, sizeof(*lines->line));
		lines->line[lines->nr++] = line;
	}
	line->count += group->count;
	line->weight += group->weight;
	lines->count += group->count;
	lines->weight += group->weight;
}

/* Largest first, and always in the same order. */
static int compare_lines(const void *a, const void *b, void *arg)
{
	const struct line *x = *(struct line * const *)a, *y = *(struct line * const *)b;
	const struct profile *profile = arg;
	const __u64 left = profile->event ? x->count : x->weight;
	const __u64 right = profile->event ? y->count : y->weight;

	if (left != right)
		return left > right ? -1 : 1;
	return strcmp(x->text, y->text);
}

static void fold_all(struct profile *profile, struct lines *lines)
{
	struct hashmap *by_text = map_of_strings();
	struct hashmap_entry *entry;
	struct frames frames = {};
	size_t bucket;

	hashmap__for_each_entry(merge_groups(), entry, bucket)
		add_line(lines, by_text, fold(entry->pvalue, !profile->event, &frames),
			 entry->pvalue);
	qsort_r(lines->line, lines->nr, sizeof(*lines->line), compare_lines, profile);
	hashmap__free(by_text);
	free(frames.frame);
}

/* Samples, or the microseconds of --off-cpu. */
static __u64 value(const struct profile *profile, __u64 count, __u64 weight)
{
	return profile->event ? count : weight / 1000;
}

void report_folded(struct profile *profile, FILE *out)
{
	struct lines lines = {};

	fold_all(profile, &lines);
	for (size_t i = 0; i < lines.nr; i++)
		fprintf(out, "%s %llu\n", lines.line[i]->text,
			value(profile, lines.line[i]->count, lines.line[i]->weight));
}

/* Innermost first: a reader starts where the time is spent. */
static void put_stack(FILE *out, char *text)
{
	char *frame;

	while ((frame = strrchr(text, ';'))) {
		fprintf(out, "%20s%s\n", "", frame + 1);
		*frame = '\0';
	}
}

void report_plain(struct profile *profile, FILE *out)
{
	struct lines lines = {};
	__u64 total;

	fold_all(profile, &lines);
	total = value(profile, lines.count, lines.weight);
	if (profile->event)
		fprintf(out, "%llu samples of %s", total, profile->event->name);
	else
		fprintf(out, "%llu us blocked, %llu times", total, lines.count);
	fprintf(out, ", in %zu different stacks\n", lines.nr);

	for (size_t i = 0; i < lines.nr && i < profile->top; i++) {
		struct line *line = lines.line[i];
		const __u64 number = value(profile, line->count, line->weight);

		fprintf(out, "\n%6.2f %% %8llu%s  %.*s\n", total ? 100.0 * number / total : 0,
			number, profile->event ? "" : " us", (int)strcspn(line->text, ";"),
			line->text);
		put_stack(out, line->text);
	}
}
