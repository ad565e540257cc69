// SPDX-License-Identifier: GPL-2.0
/*
 * The files that a session has seen, and the result for each.
 *
 * Any user can map any number of files, under any name and with any build-id. So the number of
 * entries is limited, and rejected files make room for others. A rejected file is identified by
 * device, inode and modification time. If these could not be read, its place is recorded: the
 * name, with mount namespace and root of the process. No build-id is ever rejected as such.
 */
#include <errno.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session.h"

static int compare_ids(const void *a, const void *b)
{
	const struct dso *one = a, *two = b;

	return memcmp(&one->id, &two->id, sizeof(one->id));
}

static int compare_keys(const void *a, const void *b)
{
	return strcmp(((const struct dso *)a)->key, ((const struct dso *)b)->key);
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
	free(dso->key);
	free(dso->path);
	free(dso->why);
	free(dso);
}

/**
 * book_init - initialize a book
 * @book:	the book, all 0
 */
void book_init(struct book *book)
{
	book->end = &book->oldest;
}

/**
 * book_is_full - is there no room for another file, even if rejected ones are dropped?
 * @book:	the book
 */
bool book_is_full(const struct book *book)
{
	return book->nr_dsos == FILES_MAX && !book->oldest;
}

static bool is_place(const struct dso *dso)
{
	return dso->key[0] == 'p';
}

static void forget(struct book *book, struct dso *dso)
{
	*dso->before = dso->next;
	if (dso->next)
		dso->next->before = dso->before;
	else
		book->end = dso->before;
	book->places -= is_place(dso);
	tdelete(dso, &book->refused, compare_keys);
	dso_free(dso);
	book->nr_dsos--;
}

static bool make_room(struct book *book)
{
	if (book->nr_dsos == FILES_MAX && book->oldest) {
		book->forgot = true;
		forget(book, book->oldest);
	}
	return book->nr_dsos < FILES_MAX;
}

static struct dso *find_key(const struct book *book, char *key)
{
	const struct dso wanted = { .key = key };
	struct dso **known = key ? tfind(&wanted, &book->refused, compare_keys) : NULL;

	return known ? *known : NULL;
}

/* Like find_key(), and frees the key. */
static struct dso *find_and_free(const struct book *book, char *key)
{
	struct dso *known = find_key(book, key);

	free(key);
	return known;
}

static char *file_key(const struct identity *identity)
{
	char *key;

	if (asprintf(&key, "f %llx %llx %lld.%ld", (unsigned long long)identity->dev,
		     (unsigned long long)identity->ino, (long long)identity->mtime.tv_sec,
		     identity->mtime.tv_nsec) < 0)
		return NULL;
	return key;
}

/* Read where a process resolves names, from a link in /proc that is not followed. */
static void read_place(pid_t pid, const char *name, char *text, size_t size)
{
	char link[32];
	ssize_t got;

	snprintf(link, sizeof(link), "/proc/%d/%s", pid, name);
	got = readlink(link, text, size - 1);
	text[got < 0 ? 0 : got] = '\0';
}

/* A name means different files in other mount namespaces and below other roots. */
static char *place_key(const struct mapping *mapping)
{
	char mounts[64] = "", root[PATH_MAX] = "", *key;

	if (mapping->pid) {
		read_place(mapping->pid, "ns/mnt", mounts, sizeof(mounts));
		read_place(mapping->pid, "root", root, sizeof(root));
	}
	return asprintf(&key, "p %s %s %s", mounts, root, mapping->path) < 0 ? NULL : key;
}

/* Key of a file that was already gone. */
static char *gone_key(const struct mapping *mapping)
{
	char id[2 * UNWIND_SFRAME_BUILD_ID_MAX + 1] = "", *key;

	write_hex(id, mapping->id.bytes, mapping->id.size);
	return asprintf(&key, "g %s %s", id, mapping->path) < 0 ? NULL : key;
}

/**
 * book_find - find a file by its build-id
 * @book:	the book
 * @id:		the build-id
 *
 * Return: its entry; NULL if it was not seen, or has no build-id.
 */
struct dso *book_find(const struct book *book, const struct build_id *id)
{
	const struct dso key = { .id = *id };
	struct dso **known = id->size ? tfind(&key, &book->dsos, compare_ids) : NULL;

	return known ? *known : NULL;
}

/**
 * book_find_refused - find a rejected file
 * @book:	the book
 * @identity:	of the file
 *
 * Return: its entry; NULL if it was not rejected.
 */
struct dso *book_find_refused(const struct book *book, const struct identity *identity)
{
	return identity->ino ? find_and_free(book, file_key(identity)) : NULL;
}

/**
 * book_find_place - find the place of a file that hung or was not examined
 * @book:	the book
 * @mapping:	of the file
 *
 * Return: its entry; NULL if there is none.
 */
struct dso *book_find_place(const struct book *book, const struct mapping *mapping)
{
	return book->places ? find_and_free(book, place_key(mapping)) : NULL;
}

/**
 * book_answers - forget that a place hung or was not examined
 * @book:	the book
 * @mapping:	of the file
 */
void book_answers(struct book *book, const struct mapping *mapping)
{
	struct dso *place = book_find_place(book, mapping);

	if (place)
		forget(book, place);
}

static struct dso *dso_new(const struct build_id *id, const char *path)
{
	struct dso *dso = calloc(1, sizeof(*dso));

	if (!dso)
		return NULL;
	dso->id = *id;
	dso->file = -1;
	dso->unserved.uid = ALL_USERS;
	dso->path = path ? strdup(path) : NULL;
	if (!path || dso->path)
		return dso;
	free(dso);
	return NULL;
}

/**
 * book_add - add an entry
 * @book:	the book
 * @id:		build-id of the file
 * @path:	its name; NULL if only the cache knows the file
 *
 * Return: the entry; NULL if one exists, or without room or memory.
 */
struct dso *book_add(struct book *book, const struct build_id *id, const char *path)
{
	struct dso *dso = make_room(book) ? dso_new(id, path) : NULL, **place;

	if (!dso)
		return NULL;
	place = tsearch(dso, &book->dsos, compare_ids);
	if (place && *place == dso) {
		book->nr_dsos++;
		return dso;
	}
	dso_free(dso);
	return NULL;
}

/* Add to the tree and the end of the list. Returns false if the key exists, or without memory. */
static bool add_refused(struct book *book, struct dso *dso)
{
	struct dso **place = dso->key ? tsearch(dso, &book->refused, compare_keys) : NULL;

	if (!place || *place != dso)
		return false;
	dso->next = NULL;
	dso->before = book->end;
	*book->end = dso;
	book->end = &dso->next;
	book->places += is_place(dso);
	book->nr_dsos++;
	return true;
}

/**
 * book_add_refused - add an entry for a file that cannot have a section
 * @book:	the book
 * @mapping:	of the file
 * @file:	result of opening it
 *
 * Return: its entry, new or old; NULL without room or memory.
 */
struct dso *book_add_refused(struct book *book, const struct mapping *mapping,
			     const struct mapped_file *file)
{
	char *key = file->identity.ino ? file_key(&file->identity) :
		    file->error == -EIO || file->error == -EAGAIN ? place_key(mapping) :
		    gone_key(mapping);
	struct dso *dso = find_key(book, key);

	/* A file that was not examined does not displace one that was. */
	if (!dso && file->error == -EAGAIN && book->nr_dsos == FILES_MAX)
		book->forgot = true;
	if (dso || (file->error == -EAGAIN && book->nr_dsos == FILES_MAX) || !make_room(book)) {
		free(key);
		return dso;
	}
	dso = dso_new(&file->id, mapping->path);
	if (!dso) {
		free(key);
		return NULL;
	}
	dso->identity = file->identity;
	dso->key = key;
	if (add_refused(book, dso))
		return dso;
	dso_free(dso);
	return NULL;
}

/**
 * book_refuse - reject a file that was accepted before
 * @book:	the book
 * @dso:	the file, which may be freed
 *
 * Return: true if other files with its build-id were seen meanwhile, which may be good.
 */
bool book_refuse(struct book *book, struct dso *dso)
{
	bool others = dso->others;

	tdelete(dso, &book->dsos, compare_ids);
	book->nr_dsos--;
	dso->busy = false;
	dso->key = file_key(&dso->identity);
	if (!add_refused(book, dso))
		dso_free(dso);
	return others;
}

/**
 * book_found - forget that a file was gone
 * @book:	the book
 * @mapping:	of the file
 */
void book_found(struct book *book, const struct mapping *mapping)
{
	struct dso *gone = find_and_free(book, gone_key(mapping));

	if (gone)
		forget(book, gone);
}

/**
 * book_accept - forget that a file was rejected
 * @book:	the book
 * @identity:	of the file
 */
void book_accept(struct book *book, const struct identity *identity)
{
	struct dso *refused = book_find_refused(book, identity);

	if (refused)
		forget(book, refused);
}

/**
 * book_see - remember that a file was examined
 * @book:	the book
 * @file:	its device, inode and name; or NULL
 */
void book_see(struct book *book, const char *file)
{
	char **place, *key = NULL;

	if (file && book->nr_files < FILES_MAX)
		key = strdup(file);
	place = key ? tsearch(key, &book->files, compare_files) : NULL;
	if (place && *place == key)
		book->nr_files++;
	else
		free(key);
}

/**
 * book_has_seen - was a file examined before?
 * @book:	the book
 * @file:	as for book_see()
 */
bool book_has_seen(const struct book *book, const char *file)
{
	return file && tfind(file, &book->files, compare_files);
}

static void denied_dso(const void *node, VISIT visit, void *data)
{
	struct dso *dso = *(struct dso *const *)node, **list = data;

	if ((visit != postorder && visit != leaf) || !dso->denied)
		return;
	dso->next = *list;
	*list = dso;
}

/**
 * book_denied - list the files whose sections the kernel had no room for
 * @book:	the book
 *
 * Return: the list; NULL if there are none.
 */
struct dso *book_denied(const struct book *book)
{
	struct dso *list = NULL;

	twalk_r(book->dsos, denied_dso, &list);
	return list;
}

/**
 * struct missed - where to report files without section
 * @good:	build-ids of files that have a section
 * @fn:		called for each file
 * @data:	for @fn
 */
struct missed {
	void			*good;
	sframe_missed_fn	fn;
	void			*data;
};

static void good_dso(const void *node, VISIT visit, void *data)
{
	const struct dso *dso = *(const struct dso *const *)node;
	struct missed *missed = data;

	if ((visit == postorder || visit == leaf) && !dso->why)
		tsearch(dso, &missed->good, compare_ids);
}

static void keep_dso(void *dso)
{
	(void)dso;
}

/* A rejected file needs no section if another file with its build-id has one. */
static bool is_covered(const struct missed *missed, const struct dso *dso)
{
	return dso->key && dso->id.size && tfind(dso, &missed->good, compare_ids);
}

/* The C library has less code than this that the kernel unwinds without a section. */
#define LOST_MIN	1024

/* Report missing code of late files, too: being late happens only once. */
static void missed_code(const struct missed *missed, const struct dso *dso)
{
	char why[96];

	if (dso->why || dso->lost < LOST_MIN)
		return;
	snprintf(why, sizeof(why), "has %llu bytes " SFRAME_NO_WORDS,
		 (unsigned long long)dso->lost);
	missed->fn(missed->data, dso->path, true, why);
}

static void missed_stacks(const struct missed *missed, const struct dso *dso)
{
	char why[128];

	if (dso->why || !dso->unused)
		return;
	snprintf(why, sizeof(why), SFRAME_UNUSED " in some stacks: %s", dso->unused);
	missed->fn(missed->data, dso->path, true, why);
}

static void missed_dso(const void *node, VISIT visit, void *data)
{
	const struct dso *dso = *(const struct dso *const *)node;
	const struct missed *missed = data;
	char why[64];

	if ((visit != postorder && visit != leaf) || !dso->path)
		return;
	if (dso->why) {
		if (!is_covered(missed, dso))
			missed->fn(missed->data, dso->path, false, dso->why);
	} else if (dso->late == LATE_TOO_LATE) {
		missed->fn(missed->data, dso->path, true, SFRAME_NEXT_TIME);
	} else if (dso->late) {
		snprintf(why, sizeof(why), "had no section for its first %ld.%03ld s",
			 dso->late / 1000, dso->late % 1000);
		missed->fn(missed->data, dso->path, true, why);
	}
	missed_code(missed, dso);
	missed_stacks(missed, dso);
}

/**
 * book_missed - list files whose stacks may be incomplete
 * @book:	the book
 * @missed:	called for each file
 * @data:	for @missed
 */
void book_missed(const struct book *book, sframe_missed_fn missed, void *data)
{
	struct missed arg = { .fn = missed, .data = data };

	twalk_r(book->dsos, good_dso, &arg);
	twalk_r(book->dsos, missed_dso, &arg);
	twalk_r(book->refused, missed_dso, &arg);
	tdestroy(arg.good, keep_dso);
}

/**
 * book_free - free all entries
 * @book:	the book
 */
void book_free(struct book *book)
{
	tdestroy(book->dsos, dso_free);
	tdestroy(book->refused, dso_free);
	tdestroy(book->files, free);
}
