// SPDX-License-Identifier: GPL-2.0
/*
 * The files that a session has met, and what became of them.
 *
 * One process has it, and nobody else. Anybody can map any number of files, so there is a limit
 * to what is known.
 */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session.h"

static int compare_ids(const void *a, const void *b)
{
	return memcmp(&((const struct dso *)a)->id, &((const struct dso *)b)->id,
		      sizeof(struct build_id));
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(((const struct dso *)a)->path, ((const struct dso *)b)->path);
}

static int compare_files(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void dso_free(void *data)
{
	struct dso *dso = data;

	if (dso->file >= 0)
		close(dso->file);
	free(dso->path);
	free(dso->why);
	free(dso);
}

/**
 * book_is_full - is there no room for another file?
 * @book:	the book
 */
bool book_is_full(const struct book *book)
{
	return book->nr_dsos == FILES_MAX;
}

/**
 * book_find - find a file by its build-id
 * @book:	the book
 * @id:		the build-id
 *
 * Return: its entry; NULL if it was not met, or has no build-id.
 */
struct dso *book_find(const struct book *book, const struct build_id *id)
{
	const struct dso key = { .id = *id };
	struct dso **known = id->size ? tfind(&key, &book->dsos, compare_ids) : NULL;

	return known ? *known : NULL;
}

/**
 * book_find_path - find a file without build-id by its name
 * @book:	the book
 * @path:	the name
 *
 * Return: its entry; NULL if it was not met.
 */
struct dso *book_find_path(const struct book *book, const char *path)
{
	const struct dso key = { .path = (char *)path };
	struct dso **known = tfind(&key, &book->paths, compare_paths);

	return known ? *known : NULL;
}

/**
 * book_add - a new entry
 * @book:	the book
 * @id:		build-id of the file
 * @path:	its name; NULL if only the cache has it
 *
 * Return: the entry; NULL if there is one, or no room, or no memory.
 */
struct dso *book_add(struct book *book, const struct build_id *id, const char *path)
{
	struct dso *dso = book_is_full(book) ? NULL : calloc(1, sizeof(*dso)), **place;

	if (!dso)
		return NULL;
	dso->id = *id;
	dso->file = -1;
	dso->path = path ? strdup(path) : NULL;
	if (path && !dso->path)
		goto free;
	place = id->size ? tsearch(dso, &book->dsos, compare_ids) :
			   tsearch(dso, &book->paths, compare_paths);
	if (place && *place == dso) {
		book->nr_dsos++;
		return dso;
	}
free:
	dso_free(dso);
	return NULL;
}

/**
 * book_see - remember that a file was looked at
 * @book:	the book
 * @file:	its device, inode and name; or NULL
 */
void book_see(struct book *book, const char *file)
{
	char **place, *copy;

	copy = file && book->nr_files < FILES_MAX ? strdup(file) : NULL;
	place = copy ? tsearch(copy, &book->files, compare_files) : NULL;
	if (place && *place == copy)
		book->nr_files++;
	else
		free(copy);
}

/**
 * book_has_seen - was a file looked at before?
 * @book:	the book
 * @file:	as of book_see()
 */
bool book_has_seen(const struct book *book, const char *file)
{
	return file && tfind(file, &book->files, compare_files);
}

struct missed {
	sframe_missed_fn	fn;
	void			*data;
};

static void missed_dso(const void *node, VISIT visit, void *data)
{
	const struct dso *dso = *(const struct dso *const *)node;
	const struct missed *missed = data;
	char why[64];

	if ((visit != postorder && visit != leaf) || !dso->path)
		return;
	if (dso->why) {
		missed->fn(missed->data, dso->path, false, dso->why);
	} else if (dso->late == LATE_TOO_LATE) {
		missed->fn(missed->data, dso->path, true, SFRAME_NEXT_TIME);
	} else if (dso->late) {
		snprintf(why, sizeof(why), "had no section for its first %ld.%03ld s",
			 dso->late / 1000, dso->late % 1000);
		missed->fn(missed->data, dso->path, true, why);
	}
}

/**
 * book_missed - list what had no section, or not from its start on
 * @book:	the book
 * @missed:	called for each file
 * @data:	for @missed
 */
void book_missed(const struct book *book, sframe_missed_fn missed, void *data)
{
	struct missed arg = { .fn = missed, .data = data };

	twalk_r(book->dsos, missed_dso, &arg);
	twalk_r(book->paths, missed_dso, &arg);
}

/**
 * book_free - forget all
 * @book:	the book
 */
void book_free(struct book *book)
{
	tdestroy(book->dsos, dso_free);
	tdestroy(book->paths, dso_free);
	tdestroy(book->files, free);
}
