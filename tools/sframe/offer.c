// SPDX-License-Identifier: GPL-2.0
/*
 * Sections that a session offers to the kernel, and why a file has none.
 *
 * Sections in the cache are registered as they are there; others are in memory, of which a session
 * may use a limited amount.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "session.h"

/* Interval of attempts to register sections that the kernel had no room for, in ms. */
#define OFFER		1000

/**
 * dso_lose - record why a file has no section
 * @session:	the session
 * @dso:	the file
 * @format:	as for printf()
 */
void dso_lose(struct session *session, struct dso *dso, const char *format, ...)
{
	char *known = dso->why;
	va_list args;

	va_start(args, format);
	if (vasprintf(&dso->why, format, args) < 0)
		dso->why = NULL;
	va_end(args);
	/* Do not repeat the message when a retry fails in the same way. */
	if (session->options.verbose && dso->path && dso->why &&
	    (!known || strcmp(known, dso->why)))
		session_say(session, "%s: %s", dso->path, dso->why);
	free(known);
}

/**
 * dso_refuse - reject a file that was accepted before
 * @session:	the session
 * @dso:	the file, which may be freed
 *
 * Other files with its build-id must not suffer. Rescan, as they may be mapped already.
 */
void dso_refuse(struct session *session, struct dso *dso)
{
	if (book_refuse(&session->book, dso) && !session->over)
		session->lost = true;
}

/**
 * dso_keep - record that a file has a section, or gets one
 * @dso:	the file
 */
void dso_keep(struct dso *dso)
{
	free(dso->why);
	dso->why = NULL;
	dso->again = false;
}

/**
 * session_may_remove - may a rejected section be removed from the cache?
 * @session:	the session
 * @error:	why the kernel rejects it, a negative errno
 */
bool session_may_remove(const struct session *session, int error)
{
	return session->cache >= 0 && !session->options.read_only &&
	       (error == -EINVAL || error == -EOPNOTSUPP);
}

/* The user has too many sections, or memory is short: that may change when others end. */
static void dso_deny(struct session *session, struct dso *dso)
{
	dso->denied = true;
	if (!dso->since)
		dso->since = now_ms();
	if (!session->offer)
		session->offer = now_ms() + OFFER;
}

/**
 * dso_add - register a section
 * @session:	the session
 * @dso:	the file that it is for, which may be freed if this returns false
 * @section:	the section
 *
 * Return: false if the section is damaged.
 */
bool dso_add(struct session *session, struct dso *dso, int section)
{
	int ret = device_add(session->device, &dso->id, section, &session->room);
	bool damaged = ret == -EINVAL || ret == -EOPNOTSUPP;

	dso->again = false;
	dso->denied = false;
	if (!ret) {
		dso_keep(dso);
		session->sections++;
		return true;
	}
	if (ret == -ENOBUFS) {
		dso_lose(session, dso, "has a section for which no memory is left");
		return true;
	}
	if (ret == -EDQUOT || is_scarce(-ret))
		dso_deny(session, dso);
	/* It may be a damaged one from the cache. */
	if (session_may_remove(session, ret)) {
		cache_remove(session->cache, &dso->id);
		dso->again = !dso->identity.ino;
	}
	dso_lose(session, dso, "has a section that the kernel does not take: %s",
		 strerror(-ret));
	if (damaged && dso->identity.ino)
		dso_refuse(session, dso);
	return !damaged;
}

/**
 * session_cached - find a section in the cache
 * @session:	the session
 * @id:		its build-id
 *
 * Return: the section, a file to close; -1 with errno if there is none.
 */
int session_cached(const struct session *session, const struct build_id *id)
{
	errno = ENOENT;
	if (!id->size || session->cache < 0)
		return -1;
	return cache_find(session->cache, id, session->options.read_only);
}

static bool session_begin_entry(struct session *session, struct cache_entry *entry,
				const struct dso *dso, int section)
{
	int ret = cache_begin(entry, session->cache, &dso->id, section, dso->alone);

	if (ret)
		session_unkept(session, -ret);
	else
		cache_set_lost(entry, dso->lost);
	return !ret;
}

/**
 * session_keeps - may the section of a file go into the cache?
 * @session:	the session
 * @dso:	the file
 */
bool session_keeps(const struct session *session, const struct dso *dso)
{
	return session->cache >= 0 && dso->own && !session->options.read_only;
}

/* Register a section that is in no file of the cache: it is in memory until the session ends. */
static bool dso_add_memory(struct session *session, struct dso *dso, int section)
{
	unsigned int before = session->sections;
	struct stat st;
	bool good;

	if (fstat(section, &st) || (size_t)st.st_size > session->room) {
		dso_lose(session, dso, "has a section for which no memory is left");
		return true;
	}
	good = dso_add(session, dso, section);
	if (session->sections > before)
		session->room -= st.st_size;
	return good;
}

/**
 * session_keep - register a section that was made, and put it into the cache if it may be there
 * @session:	the session
 * @dso:	the file that it was made of, which may be freed
 * @section:	the section
 *
 * Register the section first and sync the cache entry afterwards: running tasks do not wait for
 * the disk. Register the cache file to save memory, unless a server would have to be asked for it.
 */
void session_keep(struct session *session, struct dso *dso, int section)
{
	bool keep = session_keeps(session, dso);
	bool remote = keep && device_needs_copy(session->cache), good;
	struct cache_entry entry;
	int ret;

	if (keep && !remote)
		keep = session_begin_entry(session, &entry, dso, section);
	if (dso->since && !dso->late)
		dso->late = now_ms() - dso->since + 1;
	good = keep && !remote ? dso_add(session, dso, entry.section) :
				 dso_add_memory(session, dso, section);
	if (keep && remote)
		keep = good && session_begin_entry(session, &entry, dso, section);
	if (!keep)
		return;
	ret = cache_end(&entry, good);
	if (ret)
		session_unkept(session, -ret);
}

/* @dso may be freed then. */
static void dso_offer(struct session *session, struct dso *dso)
{
	int section = session_cached(session, &dso->id);

	dso->denied = false;
	if (section >= 0) {
		dso->late = now_ms() - dso->since + 1;
		dso_add(session, dso, section);
		close(section);
	} else if (is_scarce(errno)) {
		dso_deny(session, dso);
	} else if (session_keeps(session, dso)) {
		/* It is gone from the cache: make it again when the file is found. */
		dso->again = true;
		session->lost = true;
	}
}

/**
 * session_offer - offer sections again that the kernel had no room for, if the cache has them
 * @session:	the session
 */
void session_offer(struct session *session)
{
	long begin = now_ms();
	struct dso *dso, *next;

	session->offer = 0;
	for (dso = book_denied(&session->book); dso; dso = next) {
		next = dso->next;
		dso_offer(session, dso);
	}
	/* Some were denied again. */
	if (session->offer)
		session->offer = now_ms() + OFFER + (REPEAT_SHARE - 1) * (now_ms() - begin);
}

/**
 * struct refusal - what the kernel says of a section that it has not used
 * @state:	its word
 * @why:	the end of a sentence
 */
struct refusal {
	const char	*state;
	const char	*why;
};

static const struct refusal refusals[] = {
	{ "damaged",		"it is damaged" },
	{ "no-elf",		"its file has become shorter" },
	{ "no-section",		"it has no valid function" },
	{ "unsupported",	"it has an unknown version" },
	{ "too-large",		"it is too large, or others have taken the room for it" },
	{ "no-memory",		"there was no memory for it, or none in the cgroup" },
	{ "reading",		"its file was not read in time" },
	{ "unreadable",		"its file cannot be read" },
};

static const char *refusal_of(const char *state)
{
	for (unsigned int i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
		if (!strcmp(state, refusals[i].state))
			return refusals[i].why;
	}
	return NULL;
}

static bool read_id(const char *hex, struct build_id *id)
{
	*id = (struct build_id) {};
	if (strlen(hex) % 2)
		return false;
	for (; *hex; hex += 2) {
		if (id->size == UNWIND_SFRAME_BUILD_ID_MAX ||
		    sscanf(hex, "%2hhx", &id->bytes[id->size]) != 1)
			return false;
		id->size++;
	}
	return true;
}

/* Note what the kernel says of a section. Only files that a watched task has mapped have a name. */
static void session_hear(struct session *session, char *line)
{
	const char *name = strsep(&line, "\t"), *hex = strsep(&line, " ");
	const char *state = strsep(&line, " "), *why;
	struct build_id id;
	struct dso *dso;
	bool used;

	if (!state || strcmp(name, "sframe:"))
		return;
	used = !strncmp(state, "ok,", 3);
	why = refusal_of(used ? state + 3 : state);
	/* There may be a thousand lines, of which few say more than "ok" or "unused". */
	if (!why || !read_id(hex, &id))
		return;
	dso = book_find(&session->book, &id);
	if (!dso || !dso->path)
		return;
	if (used)
		dso->unused = why;
	else
		dso_lose(session, dso, SFRAME_UNUSED ": %s", why);
}

/**
 * session_ask - ask the kernel which sections it has not used
 * @session:	the session
 *
 * The kernel reads a section when it meets its file in a stack, long after it was registered.
 */
void session_ask(struct session *session)
{
	FILE *info = device_info(session->device);
	char *line = NULL;
	size_t size = 0;

	while (info && getline(&line, &size, info) > 0)
		session_hear(session, line);
	free(line);
	if (info)
		fclose(info);
}
