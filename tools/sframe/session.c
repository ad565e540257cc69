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

/* Since when has the command lacked a section of this file? In ms. */
static long late_since(const struct session *session, const struct mapped_file *file)
{
	long since = file->since ?: now_ms();

	return since > session->began ? since : session->began;
}

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
	if (session->began)
		dso->since = late_since(session, file);
	jobs_queue(&session->jobs, dso);
}

/**
 * dso_is_other - is this another file with the build-id of one that is being converted?
 * @known:	what is known of that build-id
 * @identity:	of the file
 */
bool dso_is_other(const struct dso *known, const struct identity *identity)
{
	return known->busy && (known->identity.dev != identity->dev ||
			       known->identity.ino != identity->ino);
}

/* Record a file that can have a section. */
static void session_good(struct session *session, const struct mapping *mapping,
			 struct mapped_file *file, int section)
{
	struct dso *dso = book_find(&session->book, &file->id);

	if (dso && !dso->again)
		return;
	if (!dso)
		dso = book_add(&session->book, &file->id, mapping->path);
	if (!dso)
		return;
	if (section >= 0) {
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

/**
 * session_hung - note that a file may answer when it gets more time
 * @session:	the session
 * @patience:	how long it hung, in ms; nothing is done with 0
 */
void session_hung(struct session *session, unsigned int patience)
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

static bool is_same_user(const struct user *a, const struct user *b)
{
	return a->uid == b->uid && a->gid == b->gid;
}

/* Have the user's deputy make the section. If that cannot be, record why. */
static void session_pass(struct session *session, const struct mapping *mapping,
			 struct mapped_file *file)
{
	struct dso *refused = book_find_refused(&session->book, &file->identity);
	int ret = deputies_pass(session, mapping, file);

	/* What another user has missed stays listed. */
	if (!ret && refused && (is_same_user(&refused->unserved, &file->user) ||
				refused->unserved.uid == ALL_USERS))
		book_accept(&session->book, &file->identity);
	if (!ret)
		return;
	/* Another user may have a deputy, and this one later. */
	file->unclaimed = true;
	file->again = is_scarce(-ret);
	snprintf(file->message, SFRAME_MESSAGE, "is for user %u alone, %s", file->user.uid,
		 deputies_why(ret));
	session_refuse(session, mapping, file);
	refused = book_find_refused(&session->book, &file->identity);
	if (refused && refused->unserved.uid == ALL_USERS)
		refused->unserved = file->user;
}

/* Is everything known about this mapping? */
static bool session_knows(struct session *session, const struct mapping *mapping)
{
	struct dso *known = book_find(&session->book, &mapping->id);

	if ((!known || known->again) && (book_has_seen(&session->book, mapping->file) ||
					 deputies_know(&session->deputies, mapping)))
		return true;
	if (known && !known->again) {
		if (!known->path)
			session_name(session, known, mapping->path);
		known->others = true;
		return true;
	}
	known = book_find_place(&session->book, mapping);
	return known && !session_may_try(session, known);
}

/**
 * session_knows_file - is all known about the file of a mapping?
 * @data:	the session
 * @mapping:	the mapping
 * @identity:	of the file
 *
 * A rejected file need not be opened, unless a retry may succeed; nor one that a deputy knows.
 */
bool session_knows_file(void *data, const struct mapping *mapping,
			const struct identity *identity)
{
	struct session *session = data;
	const struct dso *known = book_find_refused(&session->book, identity);

	if (known && !session_may_try(session, known))
		return true;
	if (session->socket >= 0 ||
	    !deputies_know_file(&session->deputies, mapping, identity,
				known && known->unserved.uid != ALL_USERS))
		return false;
	session->by_user = true;
	return true;
}

/* Is it for one user? Then a deputy looks at its contents. */
static bool is_for_one(const struct mapped_file *file)
{
	return file->fd >= 0 && file->user.uid != ALL_USERS;
}

/**
 * session_look - act on the result of examining a file
 * @session:	the session
 * @mapping:	of the file
 * @file:	the result; its descriptor may be taken over, and is -1 then
 * @section:	the section if it is in the cache, or -1
 */
void session_look(struct session *session, const struct mapping *mapping,
		  struct mapped_file *file, int section)
{
	struct dso *known = book_find(&session->book, &file->id);

	/* The task may have ended while others still map the file. */
	if (file->error != -ENOENT)
		book_found(&session->book, mapping);
	if ((file->error != -EIO && file->error != -EAGAIN) || file->identity.ino)
		book_answers(&session->book, mapping);
	if (known && file->fd >= 0 && dso_is_other(known, &file->identity))
		known->others = true;
	else if (file->error != -ENOENT && !file->again && !file->unclaimed &&
		 !is_for_one(file) && !session->by_user)
		book_see(&session->book, mapping->file);
	if (is_for_one(file) && section < 0) {
		session_pass(session, mapping, file);
	} else if (section >= 0 || (file->fd >= 0 && file->id.size)) {
		book_accept(&session->book, &file->identity);
		session_good(session, mapping, file, section);
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
		return BELIEVE_USERS;
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
	session->by_user = false;
	section = session_cached(session, &file.id);
	if (section < 0)
		session_open_file(session, mapping, &file);
	/* No process that opens files has a say in it. */
	file.since = 0;
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
		if (error == ETIME)
			dso_lose(session, dso, "cannot be converted: all have taken too long");
		else
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
	if (session->socket >= 0)
		deputy_scan(session);
	else if (!scan_processes(session->options.pids, session->options.nr_pids, children,
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
	if (session->began)
		session->mapped.budget = WAITS_MAX;
	if ((session->hung && session->hung < mapped_patience(&session->mapped)) ||
	    watch_is_partial(session->watch))
		session->lost = true;
	if (session->offer && now_ms() >= session->offer)
		session_offer(session);
	/* The command does not wait for what the first scan had no time for. */
	if ((session->lost || (session->round.rest && session->began)) &&
	    session->mapped.budget && now_ms() >= session->rescan)
		session_scan(session, true);
	if (session->socket < 0)
		session_scanned(session);
	if (session->watch && !watch_read(session->watch, session_found, session))
		session->lost = true;
}

/* Is there something to do that no descriptor tells of? */
static bool session_polls(const struct session *session)
{
	return watch_has_ended(session->watch) || watch_is_partial(session->watch) ||
	       session->lost || session->round.rest || session->hung || session->offer ||
	       stuck_nr() || session->jobs.held || deputies_wait(&session->deputies);
}

/**
 * session_step - wait for something to do, and do it
 * @session:	the session
 * @until:	what else to wait for
 * @timeout:	how long to wait, in ms; or -1
 *
 * Return: true when @until is ready.
 */
bool session_step(struct session *session, struct pollfd until, int timeout)
{
	unsigned int watched = watch_nr(session->watch), nr = 0, rings;
	struct pollfd fds[1 + JOBS_MAX + watched + USERS_MAX];
	int ready;

	session_start_jobs(session);
	fds[nr++] = until;
	for (unsigned int i = 0; i < session->jobs.nr; i++)
		fds[nr++] = (struct pollfd) {
			.fd = session->jobs.running[i].job.pidfd, .events = POLLIN
		};
	rings = nr;
	for (unsigned int i = 0; i < watched; i++)
		fds[nr++] = (struct pollfd) {
			.fd = watch_fd(session->watch, i), .events = POLLIN
		};
	if (!session->over)
		nr += deputies_fds(&session->deputies, fds + nr);
	if (timeout < 0 && (session_polls(session) || jobs_going(&session->jobs)))
		timeout = TICK;
	if (timeout < 0)
		timeout = watch_timeout(session->watch);
	ready = poll(fds, nr, timeout);
	if (ready < 0)
		return errno != EINTR;
	if (session->socket >= 0)
		deputy_begin(session);
	for (unsigned int i = 0; i < watched; i++) {
		if (fds[rings + i].revents & ~POLLIN)
			watch_end(session->watch, i);
	}
	/* Go backwards: the last job takes the slot of one that has ended. */
	for (unsigned int i = session->jobs.nr; i > 0; i--) {
		if (fds[i].revents)
			session_end_job(session, i - 1);
	}
	session_kill_blocked(session);
	if (!session->over)
		deputies_listen(session);
	session_watch(session);
	return !!fds[0].revents;
}

/*
 * Are all conversions with a turn up to @last done? At the start, do not wait for blocked ones
 * either: the command has to start, even if some files have no section for the time being. Nor wait
 * for long for deputies, as any user may have any files: @until becomes the end of this wait.
 */
static bool session_is_done(const struct session *session, unsigned long last, long *until)
{
	if (!jobs_are_done(&session->jobs, last, session->began ? UINT_MAX : OPEN_BLOCKED_MAX))
		return false;
	if (session->began || deputies_are_ready(&session->deputies))
		return true;
	if (!*until)
		*until = now_ms() + DEPUTIES_WAIT_MAX;
	return now_ms() >= *until;
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
	long next = now_ms() + PATIENCE, until_deputies = 0;
	bool first = true;

	if (!session->began)
		deputies_sync(&session->deputies);
	while (!session_is_done(session, last, &until_deputies)) {
		if (session_step(session, until, TICK))
			break;
		if (now_ms() < next)
			continue;
		if (jobs_going(&session->jobs) || session->jobs.waiting) {
			session_progress(session, session->ended - before, first);
			first = false;
		}
		next += PATIENCE;
	}
	if (!first && isatty(STDERR_FILENO) && !session->options.quiet) {
		session_progress(session, session->ended - before, false);
		fputc('\n', stderr);
	}
}

static void dso_begins(struct dso *dso, long began)
{
	dso->since = began;
}

static void dso_is_late(struct dso *dso, long late)
{
	dso->late = late;
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
 * session_begin - the command begins
 * @session:	the session
 * @began:	the time, in ms
 */
void session_begin(struct session *session, long began)
{
	session->began = began;
	/* What the start had no time for comes next. */
	session->rescan = 0;
	/* Conversions that the start did not wait for are late from now on. */
	jobs_each(&session->jobs, dso_begins, began);
	deputies_begin(&session->deputies, began);
}

/**
 * session_end - the command has ended
 * @session:	the session
 */
void session_end(struct session *session)
{
	/* See what running tasks have mapped since the last time. */
	session->mapped.budget = WAITS_MAX;
	if (session->lost || session->round.rest)
		session_scan(session, true);
	if (session->socket < 0)
		session_scanned(session);
	/* Ignore later mappings. */
	watch_free(session->watch);
	session->watch = NULL;
	session->over = true;
	deputies_stop(&session->deputies);
	jobs_drop(&session->jobs, session_drops, session);
	/* Unfinished conversions come too late for this session. */
	jobs_each(&session->jobs, dso_is_late, LATE_TOO_LATE);
}

/**
 * session_run - run until a descriptor is readable
 * @session:	the session
 * @fd:		the descriptor
 */
void session_run(struct session *session, int fd)
{
	const struct pollfd until = { .fd = fd, .events = POLLIN };

	session_begin(session, now_ms());
	while (!session_step(session, until, -1))
		;
	session_end(session);
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
	deputies_end(session, missed, data);
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
	deputies_free(&session->deputies);
	book_free(&session->book);
	free(session);
}
