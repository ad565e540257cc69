// SPDX-License-Identifier: GPL-2.0
/*
 * A session: register cached sections with the kernel, convert files that watched tasks map, and
 * record the files that get no section, see book.c.
 *
 * It is one process, which waits for mappings and for conversions. The kernel drops the
 * sections when it ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"
#include "session.h"

/* Interval of progress messages, in ms. */
#define PATIENCE	1000

static void session_queue(struct session *session, struct dso *dso,
			  const struct mapped_file *file)
{
	dso->file = file->fd;
	dso->identity = file->identity;
	dso->own = file->own;
	dso->alone = file->alone;
	dso->busy = true;
	dso->others = false;
	dso->tried = 0;
	if (session->runs)
		dso->since = now_ms();
	jobs_queue(&session->jobs, dso);
}

/* Is this another file with the build-id of one that is being converted? */
static bool is_other(const struct dso *known, const struct identity *identity)
{
	return known->busy && (known->identity.dev != identity->dev ||
			       known->identity.ino != identity->ino);
}

/* Record a file that can have a section. Do not convert it if its user has no device. */
static void session_good(struct session *session, const struct mapping *mapping,
			 struct mapped_file *file, int section, int device)
{
	struct dso *dso = book_find(&session->book, &file->id, &file->user);

	if (dso && !dso->again)
		return;
	if (!dso)
		dso = book_add(&session->book, &file->id, &file->user, mapping->path);
	if (!dso)
		return;
	if (device < 0) {
		dso_lose_user(session, dso, device);
		dso->again = file->again;
	} else if (section >= 0) {
		dso->lost = cache_lost(section);
		dso_add(session, dso, section);
	} else if (file->has_sframe) {
		dso_keep(dso);
		if (file->message[0])
			dso_lose(session, dso, "%s", file->message);
	} else {
		dso_keep(dso);
		session_queue(session, dso, file);
		file->fd = -1;
	}
}

/* A file that hung for this long may answer when it gets more time. */
static void session_hung(struct session *session, unsigned int patience)
{
	if (patience && (!session->hung || patience < session->hung))
		session->hung = patience;
}

static void session_refuse(struct session *session, const struct mapping *mapping,
			   const struct mapped_file *file)
{
	struct dso *dso = book_add_refused(&session->book, mapping, file);

	if (!dso)
		return;
	/* It may be good with another build-id, another owner, or another task that maps it. */
	dso->again = file->again || file->unclaimed ||
		     (file->error != -EIO && file->id.size);
	dso->patience = file->patience;
	if (dso->again)
		session_hung(session, dso->patience);
	dso_lose(session, dso, "%s", file->message[0] ? file->message : "has no build-id");
}

/* Retry a rejected file if that can help; retry one that hung only with more time. */
static bool session_may_try(struct session *session, const struct dso *dso)
{
	if (!dso->again)
		return false;
	if (dso->patience < mapped_patience(&session->mapped))
		return true;
	session_hung(session, dso->patience);
	return false;
}

/* A section that was registered from the cache turns out to be needed. */
static void session_name(struct session *session, struct dso *dso, const char *path)
{
	int section = session_cached(session, &dso->id);

	dso->path = strdup(path);
	if (section < 0)
		return;
	dso->lost = cache_lost(section);
	close(section);
}

/*
 * Find a file with this build-id and name that is for one user only: a file with another name
 * may be for all users. Sets @user, or its uid to ALL_USERS if no single user counts.
 */
static struct dso *session_find_users(const struct session *session,
				      const struct mapping *mapping, struct user *user)
{
	struct dso *known;

	user->uid = ALL_USERS;
	if (!session->users.nr || !user_of_process(mapping->pid, user)) {
		user->uid = ALL_USERS;
		return NULL;
	}
	known = book_find(&session->book, &mapping->id, user);
	return known && (!strcmp(known->path, mapping->path) ||
			 book_has_seen(&session->book, mapping->path, user)) ? known : NULL;
}

/* Is everything known about this mapping? */
static bool session_knows(struct session *session, const struct mapping *mapping)
{
	struct dso *known = book_find(&session->book, &mapping->id, NULL);
	struct user all = { .uid = ALL_USERS }, user = all;

	/* Finding the user of a process is slow, so check this first. */
	if ((!known || known->again) && book_has_seen(&session->book, mapping->file, &all))
		return true;
	if (!known || known->again)
		known = session_find_users(session, mapping, &user);
	if (known && !known->again) {
		if (!known->path)
			session_name(session, known, mapping->path);
		known->others = true;
		return true;
	}
	known = book_find_place(&session->book, mapping);
	return (known && !session_may_try(session, known)) ||
	       (user.uid != ALL_USERS && book_has_seen(&session->book, mapping->file, &user));
}

/**
 * session_has_refused - is a file known to be bad?
 * @data:	the session
 * @identity:	of the file
 *
 * A rejected file need not be opened, unless a retry may succeed.
 */
bool session_has_refused(void *data, const struct identity *identity)
{
	struct session *session = data;
	const struct dso *known = book_find_refused(&session->book, identity);

	return known && !session_may_try(session, known);
}

/* Do not examine this file again, except for another user. */
static void session_see(struct session *session, const struct mapping *mapping,
			const struct mapped_file *file)
{
	book_see(&session->book, mapping->file, &file->user);
	if (file->user.uid != ALL_USERS)
		book_see(&session->book, mapping->path, &file->user);
}

/* Act on the result of examining a file. */
static void session_look(struct session *session, const struct mapping *mapping,
			 struct mapped_file *file, int section)
{
	struct dso *known = book_find(&session->book, &file->id, &file->user);
	bool takes = file->fd >= 0 && file->id.size && !file->has_sframe;
	int device = takes ? session_device(session, &file->user) : session->device;

	file->again |= device < 0 && is_scarce(-device);
	/* The task may have ended while others still map the file. */
	if (file->error != -ENOENT)
		book_found(&session->book, mapping);
	if ((file->error != -EIO && file->error != -EAGAIN) || file->identity.ino)
		book_answers(&session->book, mapping);
	if (known && file->fd >= 0 && is_other(known, &file->identity))
		known->others = true;
	else if (file->error != -ENOENT && !file->again && !file->unclaimed)
		session_see(session, mapping, file);
	if (section >= 0 || (file->fd >= 0 && file->id.size)) {
		book_accept(&session->book, &file->identity);
		session_good(session, mapping, file, section, device);
	} else if ((file->fd >= 0 && !file->has_sframe) || file->message[0]) {
		session_refuse(session, mapping, file);
	}
}

/*
 * Sections that are for our own processes alone may be of any file that these have mapped. But if
 * all processes are watched, others have mapped files too.
 */
static enum believe session_believes(const struct session *session)
{
	if (session->for_all)
		return session->options.running ? BELIEVE_OWN : BELIEVE_USERS;
	return session->options.nr_pids ? BELIEVE_ALL : BELIEVE_OWN;
}

/* Open the file. A process that uses up the budget comes last in the next rescan. */
static void session_open_file(struct session *session, const struct mapping *mapping,
			      struct mapped_file *file)
{
	enum believe believe = session_believes(session);
	unsigned int budget = session->mapped.budget;

	mapped_open(&session->mapped, mapping, believe, file);
	session->round.waited += budget - session->mapped.budget;
	if (budget && !session->mapped.budget && !session->round.rest)
		session->round.after = mapping->pid;
}

/**
 * session_found - handle a file that is or will be mapped
 * @data:	the session
 * @mapping:	of the file
 */
void session_found(void *data, const struct mapping *mapping)
{
	struct mapped_file file = {
		.fd = -1, .id = mapping->id, .user = { .uid = ALL_USERS },
	};
	struct session *session = data;
	int section;

	session_apart(session, mapping->pid);
	if (session_knows(session, mapping))
		return;
	if (book_is_full(&session->book)) {
		session_full(session);
		return;
	}
	section = session_cached(session, &file.id);
	if (section < 0)
		session_open_file(session, mapping, &file);
	if (file.fd >= 0 && !mapping->id.size)
		section = session_cached(session, &file.id);
	session_look(session, mapping, &file, section);
	session_stuck(session);
	if (file.stuck)
		session->waits = true;
	else if (file.again && !file.patience && !session->over)
		session->lost = true;
	session_forgot(session);
	if (section >= 0)
		close(section);
	if (file.fd >= 0)
		close(file.fd);
}

static void session_start_jobs(struct session *session)
{
	struct dso *dso;
	int error;

	while ((dso = jobs_start(&session->jobs, &error))) {
		dso_lose(session, dso, "cannot be converted: %s", strerror(error));
		dso_refuse(session, dso);
	}
}

static void session_kill_blocked(struct session *session)
{
	struct dso *dso;
	bool hangs;

	while ((dso = jobs_kill_blocked(&session->jobs, &hangs))) {
		dso_lose(session, dso, hangs ? SFRAME_HANGS : SFRAME_SLOW);
		dso_refuse(session, dso);
	}
}

static void session_end_job(struct session *session, unsigned int nr)
{
	char message[SFRAME_MESSAGE];
	/* No more retries after the end of the watch. */
	bool again = !session->over;
	int section;
	struct dso *dso = jobs_end(&session->jobs, nr, &section, &again, message);

	session->ended += !again;
	if (!dso)
		return;
	if (section < 0) {
		dso_lose(session, dso, "%s", message);
		if (!again)
			dso_refuse(session, dso);
		return;
	}
	dso->busy = false;
	session->converted++;
	if (session->options.verbose)
		session_say(session, "%s: converted", dso->path);
	session_keep(session, dso, section);
	close(section);
}

/**
 * session_scan - find what tasks have mapped by now
 * @session:	the session
 * @children:	also what tasks have mapped that the given ones have started
 *
 * Goes on where the last scan ran out of time. Sets the time of the next one: a task that maps a
 * lot may cause lost events, but must not keep the session busy.
 */
void session_scan(struct session *session, bool children)
{
	long begin = now_ms();

	/* Events were lost: scan all again. */
	if (session->lost)
		session->round.until = session->round.after;
	session->lost = false;
	session->hung = 0;
	if (!scan_processes(session->options.pids, session->options.nr_pids, children,
			    &session->round, session_found, session))
		session->lost = true;
	session->rescan = now_ms() + (REPEAT_SHARE - 1) * (now_ms() - begin);
}

/* The end of a hung process makes room for files that were not opened. */
static void session_reap(struct session *session)
{
	unsigned int before = stuck_nr();

	stuck_reap();
	if (stuck_nr() == before || !session->waits)
		return;
	session->waits = false;
	session->lost = true;
}

/*
 * Handle all that is mapped by now. The budget is renewed only after the command has started.
 * Rescan first: a task that maps files all the time must not use up the budget for that.
 */
static void session_watch(struct session *session)
{
	session_reap(session);
	session->last = 0;
	if (session->over)
		return;
	if (session->runs)
		session->mapped.budget = WAITS_MAX;
	if ((session->hung && session->hung < mapped_patience(&session->mapped)) ||
	    watch_is_partial(session->watch))
		session->lost = true;
	if (session->offer && now_ms() >= session->offer)
		session_offer(session);
	/* The command does not wait for what the first scan had no time for. */
	if ((session->lost || (session->round.rest && session->runs)) &&
	    session->mapped.budget && now_ms() >= session->rescan)
		session_scan(session, true);
	session_scanned(session);
	if (session->watch && !watch_read(session->watch, session_found, session))
		session->lost = true;
}

/* Is there something to do that no descriptor tells of? */
static bool session_polls(const struct session *session)
{
	return watch_has_ended(session->watch) || watch_is_partial(session->watch) ||
	       session->lost || session->round.rest || session->hung || session->offer ||
	       stuck_nr() || session->jobs.held;
}

/* Wait for something to do, and do it. Returns true when @until is ready. */
static bool session_step(struct session *session, struct pollfd until, int timeout)
{
	unsigned int watched = watch_nr(session->watch), nr = 0;
	struct pollfd fds[1 + JOBS_MAX + watched];
	int ready;

	session_start_jobs(session);
	fds[nr++] = until;
	for (unsigned int i = 0; i < session->jobs.nr; i++)
		fds[nr++] = (struct pollfd) {
			.fd = session->jobs.running[i].job.pidfd, .events = POLLIN
		};
	for (unsigned int i = 0; i < watched; i++)
		fds[nr++] = (struct pollfd) {
			.fd = watch_fd(session->watch, i), .events = POLLIN
		};
	if (timeout < 0 && (session_polls(session) || jobs_going(&session->jobs)))
		timeout = TICK;
	if (timeout < 0)
		timeout = watch_timeout(session->watch);
	ready = poll(fds, nr, timeout);
	if (ready < 0)
		return errno != EINTR;
	for (unsigned int i = 0; i < watched; i++) {
		if (fds[nr - watched + i].revents & ~POLLIN)
			watch_end(session->watch, i);
	}
	/* Go backwards: the last job takes the slot of one that has ended. */
	for (unsigned int i = session->jobs.nr; i > 0; i--) {
		if (fds[i].revents)
			session_end_job(session, i - 1);
	}
	session_kill_blocked(session);
	session_watch(session);
	return !!fds[0].revents;
}

/*
 * Are all conversions with a turn up to @last done? At the start, do not wait for blocked ones
 * either: the command has to start, even if some files have no section for the time being.
 */
static bool session_is_done(const struct session *session, unsigned long last)
{
	return jobs_are_done(&session->jobs, last, session->runs ? UINT_MAX : OPEN_BLOCKED_MAX);
}

/**
 * session_convert - wait for all conversions requested so far
 * @session:	the session
 * @fd:		connection to the waiting program: stop when it hangs up; or -1
 *
 * Does not wait for files seen meanwhile, because tasks may map files without end.
 */
void session_convert(struct session *session, int fd)
{
	const struct pollfd until = { .fd = fd };
	unsigned int before = session->ended;
	unsigned long last = session->jobs.turns;
	long next = now_ms() + PATIENCE;
	bool first = true;

	while (!session_is_done(session, last)) {
		if (session_step(session, until, TICK))
			break;
		if (now_ms() < next)
			continue;
		session_progress(session, session->ended - before, first);
		next += PATIENCE;
		first = false;
	}
	if (!first && isatty(STDERR_FILENO) && !session->options.quiet) {
		session_progress(session, session->ended - before, false);
		fputc('\n', stderr);
	}
}

static void dso_begins(struct dso *dso)
{
	dso->since = now_ms();
}

static void dso_is_late(struct dso *dso)
{
	dso->late = LATE_TOO_LATE;
}

/* At the end, only sections that go into the cache are still useful. */
static bool session_drops(void *data, struct dso *dso, bool hangs)
{
	struct session *session = data;

	if (session_keeps(session, dso))
		return false;
	dso_lose(session, dso, hangs ? SFRAME_HANGS : "was not converted in time");
	return true;
}

/**
 * session_run - run until a descriptor is readable
 * @session:	the session
 * @fd:		the descriptor
 */
void session_run(struct session *session, int fd)
{
	const struct pollfd until = { .fd = fd, .events = POLLIN };

	session->runs = true;
	/* What the start had no time for comes next. */
	session->rescan = 0;
	/* Conversions that the start did not wait for are late from now on. */
	jobs_each(&session->jobs, dso_begins);
	while (!session_step(session, until, -1))
		;
	/* See what running tasks have mapped since the last time. */
	session->mapped.budget = WAITS_MAX;
	if (session->lost || session->round.rest)
		session_scan(session, true);
	session_scanned(session);
	/* Ignore later mappings. */
	watch_free(session->watch);
	session->watch = NULL;
	session->over = true;
	jobs_drop(&session->jobs, session_drops, session);
	/* Unfinished conversions come too late for this session. */
	jobs_each(&session->jobs, dso_is_late);
}

/* The shortage that held up these conversions has lasted until the end. */
static void session_never_began(struct session *session)
{
	for (struct dso *dso = session->jobs.queue; dso; dso = dso->next)
		dso_lose(session, dso, "cannot be converted: %s", strerror(session->jobs.held));
}

/**
 * session_prune - remove old sections from the cache, if there are too many
 * @session:	the session
 */
void session_prune(const struct session *session)
{
	if (!session->options.read_only && session->cache >= 0 &&
	    session->kept + session->converted > KEPT_MAX)
		cache_prune(session->cache);
}

/**
 * session_missed - list files whose stacks may be incomplete
 * @session:	the session
 * @missed:	called for each file
 * @data:	for @missed
 */
void session_missed(struct session *session, sframe_missed_fn missed, void *data)
{
	if (session->jobs.held)
		session_never_began(session);
	session_ask(session);
	book_missed(&session->book, missed, data);
}

/**
 * session_free - end a session
 * @session:	what session_new() returned
 *
 * The kernel drops the session's sections.
 */
void session_free(struct session *session)
{
	jobs_free(&session->jobs);
	mapped_end(&session->mapped);
	watch_free(session->watch);
	if (session->cache >= 0)
		close(session->cache);
	if (session->device >= 0)
		close(session->device);
	users_free(&session->users);
	book_free(&session->book);
	free(session);
}
