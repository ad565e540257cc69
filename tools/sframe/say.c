// SPDX-License-Identifier: GPL-2.0
/*
 * What a session tells the user while it lasts, on stderr: its progress, and, once each, what keeps
 * it from making sections.
 */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "internal.h"
#include "session.h"

/**
 * session_say - print a line on stderr, unless the session is quiet; a deputy has it printed
 * @session:	the session
 * @format:	as for printf()
 */
void session_say(const struct session *session, const char *format, ...)
{
	va_list args;

	if (session->options.quiet)
		return;
	va_start(args, format);
	if (session->socket >= 0)
		deputy_say(session, format, args);
	else
		say_line(format, args);
	va_end(args);
}

/* Returns true the first time. */
static bool is_news(bool *told)
{
	bool news = !*told;

	*told = true;
	return news;
}

/**
 * session_full - tell that there are too many files
 * @session:	the session
 *
 * Any user can map any number of files.
 */
void session_full(struct session *session)
{
	if (is_news(&session->told.full))
		session_say(session, "there are more than %u files, and others have no section",
			    FILES_MAX);
}

/**
 * session_forgot - tell that rejected files were dropped to make room, if so
 * @session:	the session
 */
void session_forgot(struct session *session)
{
	if (session->book.forgot && is_news(&session->told.forgot))
		session_say(session,
			    "there are more than %u files, and some without section are not listed",
			    FILES_MAX);
}

/**
 * session_stuck - tell that too many processes hang, if so
 * @session:	the session
 */
void session_stuck(struct session *session)
{
	if (stuck_nr() == STUCK_MAX && is_news(&session->told.stuck))
		session_say(session,
			    "%u processes hang, and no more files are opened until one has ended",
			    STUCK_MAX);
}

/**
 * session_scanned - tell what the scans of mappings so far have left out
 * @session:	the session
 */
void session_scanned(struct session *session)
{
	if (scan_deaf() && is_news(&session->told.deaf))
		session_say(session,
			    "the mappings of process %d take too long to read, and what only it maps may have no section",
			    scan_deaf());
	if (session->round.rest && is_news(&session->told.unread))
		session_say(session,
			    "it takes long to read what processes have mapped, and some files may have no section");
}

/**
 * session_apart - tell of a process that cannot use the sections, if it is one
 * @session:	the session
 * @pid:	the process, or 0
 *
 * In a batch of mappings, check once for each run of files of the same process.
 */
void session_apart(struct session *session, pid_t pid)
{
	bool same = session->last == pid;

	session->last = pid;
	if (session->told.apart || !pid || same || !is_elsewhere(pid))
		return;
	session_say(session,
		    "process %d is in another user namespace, which somebody else has made, or as another user, so sections of ours are not used there: root's are, or those made in there",
		    pid);
	session->told.apart = true;
}

/**
 * session_unkept - tell that a section is not put into the cache
 * @session:	the session
 * @error:	the reason, an errno
 */
void session_unkept(struct session *session, int error)
{
	if (is_news(&session->told.unkept))
		session_say(session, "some sections are not put into the cache: %s",
			    cache_why(error));
}

/**
 * session_progress - print how many files are converted
 * @session:	the session
 * @done:	conversions that have ended
 * @first:	this is the first call; without a terminal, print only then
 */
void session_progress(const struct session *session, unsigned int done, bool first)
{
	unsigned int all = done + session->jobs.waiting + jobs_going(&session->jobs);

	if (session->options.quiet)
		return;
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\rsframe: %u of %u files are converted for the first time",
			done, all);
	else if (first)
		session_say(session, "%u files are converted for the first time", all);
}

/**
 * session_summary - print how many sections there were
 * @session:	the session
 */
void session_summary(const struct session *session)
{
	session_say(session, "%u sections, of which %u were made now", session->sections,
		    session->converted);
}
