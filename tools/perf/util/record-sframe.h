/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_RECORD_SFRAME_H
#define __PERF_RECORD_SFRAME_H

#include <stdbool.h>
#include <linux/compiler.h>
#include <linux/types.h>

struct evlist;
struct perf_data;

/* SFrame sections for files that have none, while perf records: record-sframe.c */

struct record_sframe;

#ifdef HAVE_SFRAME_SUPPORT

struct record_sframe *record_sframe__start(struct evlist *evlist, const char *program,
					   bool keep);
int record_sframe__wait(struct record_sframe *sframe, struct evlist *evlist, bool (*stop)(void));
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
				      struct evlist *evlist __maybe_unused,
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

/* Samples that are affected by missing sections: sframe-missed.c */

/**
 * struct sframe_missed - a file whose section was missing, late, or incomplete
 * @path: its path in the mappings of tasks
 * @why: the reason, a phrase that continues "it"
 * @late: it had a section, but too late, or not for all of its code
 * @entry: file offset where a task starts; 0 if unknown, -1 if not looked up yet
 * @in: number of samples whose user stack goes through the file
 * @cut: number of samples whose user stack ends in the file, but not where a task starts
 * @last: number of the last sample that was counted in @in
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
 * struct sframe_missed_list - all files with missing sections
 * @files: the files
 * @nr: number of @files
 * @counted: the samples were counted
 * @samples: number of samples with a user stack
 */
struct sframe_missed_list {
	struct sframe_missed	*files;
	unsigned int		nr;
	bool			counted;
	u64			samples;
};

int sframe_missed__add(struct sframe_missed_list *list, const char *path, bool late,
		       const char *why);
bool sframe_missed__has_news(const struct sframe_missed_list *list);
int sframe_missed__count(struct sframe_missed_list *list, const struct perf_data *data);
void sframe_missed__print(struct sframe_missed_list *list);
void sframe_missed__exit(struct sframe_missed_list *list);

#endif /* __PERF_RECORD_SFRAME_H */
