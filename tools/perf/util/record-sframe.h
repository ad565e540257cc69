/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_RECORD_SFRAME_H
#define __PERF_RECORD_SFRAME_H

#include <stdbool.h>
#include <linux/compiler.h>
#include <linux/types.h>

struct evlist;
struct perf_data;

/* What a recording does about files without SFrame section: record-sframe.c */

struct record_sframe;

#ifdef HAVE_SFRAME_SUPPORT

struct record_sframe *record_sframe__start(struct evlist *evlist, const char *program,
					   bool keep);
int record_sframe__wait(struct record_sframe *sframe, bool (*stop)(void));
void record_sframe__stop(struct record_sframe *sframe);
void record_sframe__end(struct record_sframe *sframe, bool failed, const struct perf_data *data);

#else /* HAVE_SFRAME_SUPPORT */

static inline struct record_sframe *record_sframe__start(struct evlist *evlist __maybe_unused,
							 const char *program __maybe_unused,
							 bool keep __maybe_unused)
{
	return NULL;
}

static inline int record_sframe__wait(struct record_sframe *sframe __maybe_unused,
				      bool (*stop)(void) __maybe_unused)
{
	return 0;
}

static inline void record_sframe__stop(struct record_sframe *sframe __maybe_unused)
{
}

static inline void record_sframe__end(struct record_sframe *sframe __maybe_unused,
				      bool failed __maybe_unused,
				      const struct perf_data *data __maybe_unused)
{
}

#endif /* HAVE_SFRAME_SUPPORT */

/* What they are missed for: sframe-missed.c */

/**
 * struct sframe_missed - a file that had no section, or not from its start on, or for some code
 * @path: as tasks have it mapped
 * @why: what of, as what follows "it"
 * @late: it had one, if not from its start on, or not for all of its code
 * @entry: where in the file a task starts; 0 if that is not known, -1 if it was not looked for
 * @in: samples with a user stack that has it
 * @cut: samples with a user stack that ends in it, and not where a task starts
 * @last: the last sample in @in
 */
struct sframe_missed {
	char	*path;
	char	*why;
	bool	late;
	s64	entry;
	u64	in;
	u64	cut;
	u64	last;
};

/**
 * struct sframe_missed_list - all of them
 * @files: those, by name
 * @nr: how many
 * @samples: all samples with a user stack; 0 if nobody has looked
 */
struct sframe_missed_list {
	struct sframe_missed	*files;
	unsigned int		nr;
	u64			samples;
};

int sframe_missed__add(struct sframe_missed_list *list, const char *path, bool late,
		       const char *why);
bool sframe_missed__has_news(const struct sframe_missed_list *list);
int sframe_missed__count(struct sframe_missed_list *list, const struct perf_data *data);
void sframe_missed__print(struct sframe_missed_list *list);
void sframe_missed__exit(struct sframe_missed_list *list);

#endif /* __PERF_RECORD_SFRAME_H */
