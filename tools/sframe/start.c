// SPDX-License-Identifier: GPL-2.0
/*
 * Start of a session: open the device, start the watch, handle the files that the program needs
 * and those of running tasks, and then register the last used sections of the cache.
 *
 * At this point, only the process that waits for the start knows of the session.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "internal.h"
#include "session.h"

/*
 * How many sections of the cache to register at the start: each takes some 40000 instructions,
 * and the others are found when their files are mapped.
 */
#ifndef CACHED_MAX
#define CACHED_MAX	512
#endif

/* Their share of what a user without privileges may have, in all sessions. */
#define CACHED_SHARE	16

/* A deputy's share of the memory for sections, and the CPU time of its conversions, in ms. */
#define DEPUTY_SHARE	8
#ifndef DEPUTY_CPU_MAX
#define DEPUTY_CPU_MAX	(1000 * JOB_SECONDS)
#endif

/* Upper bound of descriptors that are used neither by conversions nor by queued files. */
#define OTHER_FILES	(16 + USERS_MAX)

/* Register a section of the cache. Remove a damaged one: it is converted again when needed. */
static int session_known(void *data, const struct build_id *id, int fd)
{
	struct session *session = data;
	int ret;

	if (book_find(&session->book, id))
		return 0;
	ret = device_add(session->device, id, fd, &session->room);
	if (session_may_remove(session, ret))
		cache_remove(session->cache, id);
	if (ret == -EDQUOT)
		session_say(session,
			    "the user has too many sections, see kernel.unwind_user_sframe_max");
	if (!ret && book_add(&session->book, id, NULL)) {
		session->sections++;
		session->cached++;
	}
	return ret == -EDQUOT || session->cached >= session->cached_max;
}

/*
 * Queued files are open, and so is an event for each thread and CPU. They must leave descriptors
 * for the rest, of which each conversion has three. The kernel hands out the lowest descriptor
 * first, so keep those from max_fd on free: if there are few, half of those that are free now.
 */
static void session_limit_files(struct session *session)
{
	unsigned int others = 3 * session->jobs.max + OTHER_FILES, unused;
	int first = fcntl(session->device, F_DUPFD_CLOEXEC, 0);
	struct rlimit files;

	if (first >= 0)
		close(first);

	session->mapped.max_fd = INT_MAX;
	if (getrlimit(RLIMIT_NOFILE, &files))
		return;
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur >= INT_MAX)
		return;
	unused = first < 0 ? 0 : files.rlim_cur - first;
	session->mapped.max_fd = files.rlim_cur - (others < unused / 2 ? others : unused / 2);
}

static void session_open_cache(struct session *session)
{
	const struct sframe_session_options *options = &session->options;
	char path[PATH_MAX];
	const char *dir = cache_dir(options->cache, path);

	if (dir)
		session->cache = cache_open(dir, !options->read_only);
	if (session->cache >= 0 || options->read_only)
		return;
	if (dir)
		session_say(session, "nothing is kept for the next time: %s: %s", dir,
			    cache_why(errno));
	else
		session_say(session,
			    "nothing is kept for the next time: neither PERF_BUILDID_DIR nor HOME is set");
}

static int session_open(struct session *session, char *message)
{
	const struct sframe_session_options *options = &session->options;

	session->device = device_open();
	if (session->device < 0) {
		snprintf(message, SFRAME_MESSAGE, errno == ENOENT ?
			 "no sections: " SFRAME_NO_DEVICE :
			 "/dev/unwind_sframe cannot be opened: %s", strerror(errno));
		return -1;
	}
	if (device_is_off())
		session_say(session,
			    "kernel.unwind_user_sframe is 0: until it is 1, the kernel uses no section");
	session->for_all = device_is_for_all();
	session->room = MEMORY_MAX;
	session->cached_max = CACHED_MAX;
	if (!session->for_all && device_max() / CACHED_SHARE < CACHED_MAX)
		session->cached_max = device_max() / CACHED_SHARE;
	session->told.apart = session->for_all && is_first_namespace();
	session_limit_files(session);
	session_open_cache(session);
	session->watch = watch_new(options->pids, options->nr_pids,
				   session->mapped.max_fd / 2);
	/* The events are open now: compute the files' share of the remaining descriptors. */
	session_limit_files(session);
	if (!session->watch && errno == ESRCH) {
		snprintf(message, SFRAME_MESSAGE, "there is no process %d", options->pids[0]);
		return -1;
	}
	if (!session->watch)
		session_say(session, "%s cannot be watched for what is mapped later: %s",
			    options->nr_pids ? "the process" : "the system", strerror(errno));
	return 0;
}

static struct session *session_alloc(const struct sframe_session_options *options)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	session->options = *options;
	jobs_init(&session->jobs);
	book_init(&session->book);
	session->mapped.known = session_knows_file;
	session->mapped.data = session;
	session->mapped.budget = START_WAITS_MAX;
	session->socket = -1;
	session->device = -1;
	session->cache = -1;
	/* The limit for parsing headers. */
	image_limit_memory(0);
	return session;
}

/**
 * session_new_deputy - start a session that makes sections for one user
 * @device:	the device for the tasks of that user
 * @socket:	connection to the session that it works for
 * @began:	in memory shared with that session: when its command began
 * @verbose:	tell what is done
 *
 * Keeps nothing for later, and uses a part of the CPUs, of the time and of the memory.
 *
 * Return: a session; NULL without memory.
 */
struct session *session_new_deputy(int device, int socket, const long *began, bool verbose)
{
	const struct sframe_session_options options = { .verbose = verbose };
	struct session *session = session_alloc(&options);

	if (!session)
		return NULL;
	session->device = device;
	session->socket = socket;
	session->shared = began;
	session->room = MEMORY_MAX / DEPUTY_SHARE;
	session->jobs.max = (session->jobs.max + 1) / 2;
	session->jobs.cpu_max = DEPUTY_CPU_MAX;
	/* It gets what is for the user's own tasks. */
	session->told.apart = true;
	session_limit_files(session);
	return session;
}

/**
 * session_new - start a session
 * @options:	what it covers
 * @message:	set to a message after an error, SFRAME_MESSAGE bytes
 *
 * Registers the last used sections of the cache, some hundred at most, and queues other needed
 * files for conversion: see session_convert().
 *
 * Return: a session to pass to session_free(); NULL after an error.
 */
struct session *session_new(const struct sframe_session_options *options, char *message)
{
	struct session *session = session_alloc(options);

	if (!session) {
		snprintf(message, SFRAME_MESSAGE, "there is no memory");
		return NULL;
	}
	if (session_open(session, message)) {
		session_free(session);
		return NULL;
	}
	if (options->program && !needed_files(options->program, session_found, session)) {
		mapped_spend(&session->mapped, START_WAITS_MAX / 2);
		session_say(session, "%s is on a file system that does not answer",
			    options->program);
	}
	if (options->running)
		session_scan(session, false);
	if (session->cache >= 0)
		session->kept = cache_each(session->cache, options->read_only, session->cached_max,
					   session_known, session);
	return session;
}
