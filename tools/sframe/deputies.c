// SPDX-License-Identifier: GPL-2.0
/*
 * Deputies: sections of files that others may write, in a session with sections for all tasks.
 *
 * Any user can write any build-id and any .eh_frame into a file. So the section of such a file is
 * only for the users that have it mapped, because they trust the file anyway. A deputy makes it: a
 * process with the ids of that user, and without privileges if it is not our own user. It is a
 * session of its own. Ours passes on the files that the user's tasks have mapped, and the deputy
 * tells which of them have no section.
 *
 * Any user can have many files, which take any time, and may stop, slow down or kill the deputy. So
 * we never wait for it without a limit, and believe nothing that it says but text. What its files
 * cost, it pays itself: descriptors, processes, memory, and CPU time with the lowest priority.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <search.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "deputy.h"

/* Bytes of orders that may wait for a deputy: some thousand. */
#ifndef ORDERS_SIZE
#define ORDERS_SIZE	(4 << 20)
#endif

/* Errors that the kernel returns are less. */
#define ERRNO_MAX	4096

/* How many messages of a deputy are read in a row. */
#define MESSAGES_MAX	16

/* How many bytes of a deputy's messages are used. */
#ifndef SAID_MAX
#define SAID_MAX	(1 << 20)
#endif

/* Limit of files of one user, and of the bytes of their names: one file can have many. */
#define DEPUTY_FILES_MAX	(FILES_MAX / 8)
#define DEPUTY_NAMES_SIZE	(1 << 20)

/* A deputy has failed: from now on its user's files have no section. */
static void deputy_lose(struct session *session, struct deputy *deputy, int error)
{
	deputy->error = error;
	stuck_kill(deputy->pid, deputy->user.uid);
	close(deputy->socket);
	deputy->socket = -1;
	session_say(session, "files that are for user %u alone have no section, %s",
		    deputy->user.uid, deputies_why(error));
}

/* May a deputy say so much more? Otherwise it is lost. */
static bool deputy_may_say(struct session *session, struct deputy *deputy, size_t size)
{
	deputy->said += size;
	if (deputy->said <= SAID_MAX)
		return true;
	deputy_lose(session, deputy, -EMSGSIZE);
	return false;
}

/* Both strings are within @size bytes of @text. */
static void deputy_lists(const struct deputy *deputy, bool late, const char *text, size_t size,
			 sframe_missed_fn missed, void *data)
{
	const char *end = memchr(text, 0, size), *why = end ? end + 1 : NULL;
	char reason[2 * SFRAME_MESSAGE];

	if (!missed || !end || !memchr(why, 0, size - (why - text)))
		return;
	snprintf(reason, sizeof(reason), "%s, for user %u", why, deputy->user.uid);
	missed(data, text, late, reason);
}

/* What kept a deputy from its work, by its message. */
static int deputy_error(unsigned int error)
{
	return error && error < ERRNO_MAX && !is_scarce(error) ? -(int)error : -ECHILD;
}

/* Read some messages; lists of files go to @missed. */
static void deputy_listen(struct session *session, struct deputy *deputy,
			  sframe_missed_fn missed, void *data)
{
	const size_t head = offsetof(struct answer, text);
	static struct answer answer;
	ssize_t size = 1;

	for (int i = 0; i < MESSAGES_MAX && deputy->socket >= 0; i++) {
		size = recv(deputy->socket, &answer, sizeof(answer), MSG_DONTWAIT);
		/* If it left orders unread, this comes before its answers. */
		if (size < 0 && errno == ECONNRESET)
			size = recv(deputy->socket, &answer, sizeof(answer), MSG_DONTWAIT);
		if (size < 0 && errno == EAGAIN)
			break;
		if (size < (ssize_t)head) {
			if (!deputy->done)
				deputy_lose(session, deputy, -ECHILD);
			break;
		}
		switch (answer.kind) {
		case ANSWER_READY:
			deputy->ready = true;
			break;
		case ANSWER_SAY:
			if (size > (ssize_t)head && memchr(answer.text, 0, size - head) &&
			    deputy_may_say(session, deputy, size))
				session_say(session, "for user %u: %s", deputy->user.uid,
					    answer.text);
			break;
		case ANSWER_MISSED:
			if (deputy_may_say(session, deputy, size))
				deputy_lists(deputy, answer.late, answer.text, size - head, missed,
					     data);
			break;
		case ANSWER_FAILED:
			deputy_lose(session, deputy, deputy_error(answer.late));
			break;
		case ANSWER_END:
			deputy->done = true;
			break;
		}
	}
}

/* One user may have many groups, which must not take the places of others. */
static bool deputies_are_full(const struct deputies *deputies, uid_t uid)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < deputies->nr; i++)
		nr += deputies->known[i].user.uid == uid;
	return deputies->nr == USERS_MAX || nr == USER_GROUPS_MAX;
}

/*
 * Set up what tells deputies when the command began: an order might be read late. No process that
 * reads a file of a user has this memory. Returns 0 or a negative errno.
 */
static int deputies_share(struct deputies *deputies, long began)
{
	long *shared;
	int error;

	if (deputies->began)
		return 0;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (shared == MAP_FAILED)
		return -errno;
	if (madvise(shared, sizeof(*shared), MADV_DONTFORK)) {
		error = -errno;
		munmap(shared, sizeof(*shared));
		return error;
	}
	*shared = began;
	deputies->began = shared;
	return 0;
}

/* Returns 0 or a negative errno. */
static int deputy_start(struct deputy *deputy, long *began, bool verbose)
{
	const int size = ORDERS_SIZE;
	pid_t parent = getpid();
	int sockets[2], ret = device_may_become(&deputy->user);

	if (ret)
		return ret;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets))
		return -errno;
	if (setsockopt(sockets[0], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)))
		setsockopt(sockets[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	/* The deputy may wait for us, but we do not wait for it. */
	fcntl(sockets[0], F_SETFL, O_NONBLOCK);
	madvise(began, sizeof(*began), MADV_DOFORK);
	deputy->pid = fork();
	if (!deputy->pid)
		deputy_main(&deputy->user, sockets[1], began, verbose, parent);
	ret = deputy->pid < 0 ? -errno : 0;
	madvise(began, sizeof(*began), MADV_DONTFORK);
	close(sockets[1]);
	if (ret)
		close(sockets[0]);
	else
		deputy->socket = sockets[0];
	return ret;
}

static int compare_files(const void *a, const void *b)
{
	return strcmp(a, b);
}

static bool deputy_knows(const struct deputy *deputy, const char *name)
{
	return name && tfind(name, &deputy->files, compare_files);
}

/* Remember that a deputy knows a file by a name, which is freed. Returns false if it did before. */
static bool deputy_note(struct deputy *deputy, char *name)
{
	char **place = name ? tsearch(name, &deputy->files, compare_files) : NULL;

	if (place && *place == name)
		return true;
	free(name);
	return false;
}

/* Otherwise each mapping of the file leads to its identity. */
static void deputy_note_name(struct deputy *deputy, char *name)
{
	size_t size = name ? strlen(name) : 0;

	if (deputy->names + size > DEPUTY_NAMES_SIZE)
		free(name);
	else if (deputy_note(deputy, name))
		deputy->names += size;
}

/* A deputy knows a file by a name as in /proc, or with a build-id; NULL if there is neither. */
static char *name_of_mapping(const struct mapping *mapping)
{
	char id[2 * UNWIND_SFRAME_BUILD_ID_MAX + 1], *name;

	if (mapping->file)
		return strdup(mapping->file);
	write_hex(id, mapping->id.bytes, mapping->id.size);
	return !mapping->id.size || asprintf(&name, "%s %s", id, mapping->path) < 0 ? NULL : name;
}

/* It also knows the file itself. NULL without memory. */
static char *name_of_file(const struct identity *identity)
{
	char *name;

	return asprintf(&name, "%llx %llx %lld.%ld", (unsigned long long)identity->dev,
			(unsigned long long)identity->ino, (long long)identity->mtime.tv_sec,
			identity->mtime.tv_nsec) < 0 ? NULL : name;
}

/* Returns the number of the deputy of a user; that of all deputies if there is none. */
static unsigned int deputy_nr(const struct deputies *deputies, const struct user *user)
{
	unsigned int i = 0;

	while (i < deputies->nr && (deputies->known[i].user.uid != user->uid ||
				    deputies->known[i].user.gid != user->gid))
		i++;
	return i;
}

static const struct deputy *deputy_find(const struct deputies *deputies, const struct user *user)
{
	unsigned int nr = deputy_nr(deputies, user);

	return nr < deputies->nr ? &deputies->known[nr] : NULL;
}

/**
 * deputies_know - does the deputy of its user know this mapping?
 * @deputies:	the deputies
 * @mapping:	the mapping
 */
bool deputies_know(const struct deputies *deputies, const struct mapping *mapping)
{
	const struct deputy *deputy;
	struct user user;
	char *name;
	bool knows;

	/* Finding the user of a process is slow. */
	if (!deputies->nr || !user_of_process(mapping->pid ?: getpid(), &user))
		return false;
	deputy = deputy_find(deputies, &user);
	name = deputy ? name_of_mapping(mapping) : NULL;
	knows = deputy && deputy_knows(deputy, name);
	free(name);
	return knows;
}

/* May a file of a user be passed to a deputy? */
static bool deputies_take(const struct deputies *deputies, const struct user *user,
			  const struct deputy *deputy)
{
	if (deputy)
		return !deputy->error && !deputy->full && !deputy->crowd;
	return !deputies_are_full(deputies, user->uid) && !device_may_become(user);
}

/**
 * deputies_know_file - is there nothing to be done about a file for the user of a mapping?
 * @deputies:	the deputies
 * @mapping:	the mapping
 * @identity:	of the file
 * @listed:	the file is listed because no deputy took it
 *
 * To find out whether the process really has the file mapped takes long: a process with many
 * mappings, which maps a file again and again, would keep the session busy.
 *
 * Return: true if the deputy knows the file, or if there still is no deputy that would take it.
 */
bool deputies_know_file(struct deputies *deputies, const struct mapping *mapping,
			const struct identity *identity, bool listed)
{
	struct deputy *deputy = NULL;
	unsigned int nr;
	struct user user;
	bool knows;
	char *name;

	if ((!deputies->nr && !listed) || !user_of_process(mapping->pid ?: getpid(), &user))
		return false;
	nr = deputy_nr(deputies, &user);
	if (nr < deputies->nr)
		deputy = &deputies->known[nr];
	if (listed && !deputies_take(deputies, &user, deputy))
		return true;
	if (!deputy)
		return false;
	name = name_of_file(identity);
	knows = deputy_knows(deputy, name);
	free(name);
	/* The next time this mapping need not be opened. */
	if (knows)
		deputy_note_name(deputy, name_of_mapping(mapping));
	return knows;
}

/* Returns the deputy of a user, which may have ended; NULL with @error if there can be none. */
static struct deputy *deputy_get(struct session *session, const struct user *user, int *error)
{
	struct deputies *deputies = &session->deputies;
	unsigned int nr = deputy_nr(deputies, user);
	struct deputy *deputy = &deputies->known[nr];
	int ret;

	if (nr < deputies->nr)
		return deputy;
	*error = -EUSERS;
	if (deputies_are_full(deputies, user->uid))
		return NULL;
	/* One that was not asked for the start has not to be waited for. */
	*deputy = (struct deputy) { .user = *user, .socket = -1, .ready = true };
	ret = deputies_share(deputies, session->began);
	if (!ret)
		ret = deputy_start(deputy, deputies->began, session->options.verbose);
	*error = ret;
	if (ret)
		return NULL;
	deputies->nr++;
	return deputy;
}

/* Send the order that found no room before. */
static void deputy_flush(struct deputy *deputy)
{
	const u32 kind = ORDER_SYNC;

	if (deputy->sync && send(deputy->socket, &kind, sizeof(kind),
				 MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		deputy->sync = false;
}

/* The limit keeps a user from filling our memory with names. Returns an errno. */
static int session_crowd(const struct session *session, struct deputy *deputy)
{
	if (!deputy->crowd)
		session_say(session,
			    "user %u has mapped more than %u files that others may write, and the rest have no section",
			    deputy->user.uid, DEPUTY_FILES_MAX);
	deputy->crowd = true;
	return -E2BIG;
}

/* Returns 0 or a negative errno. */
static int deputy_send(struct session *session, struct deputy *deputy,
		       const struct mapping *mapping, const struct mapped_file *file)
{
	struct order order = {
		.kind = ORDER_LOOK, .identity = file->identity, .id = mapping->id,
		.since = now_ms(),
	};
	size_t size = strlen(mapping->path) + 1;

	if (size > sizeof(order.path))
		return -ENAMETOOLONG;
	memcpy(order.path, mapping->path, size);
	size += offsetof(struct order, path);
	deputy_flush(deputy);
	if (!pass_send(deputy->socket, &order, size, file->fd))
		return 0;
	if (errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS) {
		deputy->full = true;
		return -EBUSY;
	}
	/* It may have told why. */
	deputy_listen(session, deputy, NULL, NULL);
	if (deputy->socket >= 0)
		deputy_lose(session, deputy, -ECHILD);
	return deputy->error;
}

/**
 * deputies_pass - have the deputy of a user make the section of a file
 * @session:	the session
 * @mapping:	of the file
 * @file:	the file and the user
 *
 * Return: 0, or a negative errno: -EUSERS if there are too many users, one of is_scarce() if a
 * later attempt may succeed, -EBUSY if one may after deputies_listen() has asked for it.
 */
int deputies_pass(struct session *session, const struct mapping *mapping,
		  const struct mapped_file *file)
{
	struct deputy *deputy;
	int ret = 0;
	char *name;

	deputy = deputy_get(session, &file->user, &ret);
	if (!deputy)
		return ret;
	if (deputy->error)
		return deputy->error;
	name = name_of_file(&file->identity);
	if (!deputy_knows(deputy, name)) {
		if (deputy->nr_files >= DEPUTY_FILES_MAX)
			ret = session_crowd(session, deputy);
		else
			ret = deputy_send(session, deputy, mapping, file);
	}
	if (ret) {
		free(name);
		return ret;
	}
	deputy->nr_files += deputy_note(deputy, name);
	deputy_note_name(deputy, name_of_mapping(mapping));
	return 0;
}

/**
 * deputies_why - describe why a user has no deputy
 * @error:	what deputies_pass() returned
 *
 * Return: the end of a sentence about files for this user.
 */
const char *deputies_why(int error)
{
	switch (error) {
	case -EUSERS:
		return "and there are too many users";
	case -EOPNOTSUPP:
		return "who can have none while fs.suid_dumpable is 1";
	case -EBUSY:
		return "as the process that makes sections for this user takes no more";
	case -ECHILD:
		return "as the process that makes sections for this user has ended";
	case -E2BIG:
		return "who has mapped too many files that others may write";
	case -EMSGSIZE:
		return "as the process that makes sections for this user says too much";
	case -EPERM:
		return "as only root makes sections for others";
	default:
		return strerror(-error);
	}
}

/**
 * deputies_fds - list what to poll for messages of deputies
 * @deputies:	the deputies
 * @fds:	set, room for USERS_MAX
 *
 * Return: the number of @fds.
 */
unsigned int deputies_fds(const struct deputies *deputies, struct pollfd *fds)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < deputies->nr; i++) {
		if (deputies->known[i].socket >= 0 && !deputies->known[i].done)
			fds[nr++] = (struct pollfd) {
				.fd = deputies->known[i].socket, .events = POLLIN
			};
	}
	return nr;
}

/* Has there been room again since it took no more? */
static bool deputy_takes_more(struct deputy *deputy)
{
	struct pollfd ready = { .fd = deputy->socket, .events = POLLOUT };

	if (!deputy->full || deputy->socket < 0 || poll(&ready, 1, 0) <= 0 ||
	    !(ready.revents & POLLOUT))
		return false;
	deputy->full = false;
	return true;
}

/**
 * deputies_listen - read messages of deputies, and send them what they could not take before
 * @session:	the session, which looks again at what it could not pass on
 */
void deputies_listen(struct session *session)
{
	struct deputies *deputies = &session->deputies;

	for (unsigned int i = 0; i < deputies->nr; i++) {
		if (deputies->known[i].socket < 0)
			continue;
		deputy_flush(&deputies->known[i]);
		deputy_listen(session, &deputies->known[i], NULL, NULL);
		if (deputy_takes_more(&deputies->known[i]))
			session->lost = true;
	}
}

/**
 * deputies_sync - ask deputies to tell when they have made the sections for all mappings so far
 * @deputies:	the deputies
 */
void deputies_sync(struct deputies *deputies)
{
	for (unsigned int i = 0; i < deputies->nr; i++) {
		if (deputies->known[i].socket < 0)
			continue;
		deputies->known[i].ready = false;
		deputies->known[i].sync = true;
		deputy_flush(&deputies->known[i]);
	}
}

/**
 * deputies_are_ready - have all told that, or failed?
 * @deputies:	the deputies
 */
bool deputies_are_ready(const struct deputies *deputies)
{
	for (unsigned int i = 0; i < deputies->nr; i++) {
		if (deputies->known[i].socket >= 0 && !deputies->known[i].ready)
			return false;
	}
	return true;
}

/**
 * deputies_begin - tell deputies that the command begins: sections come late from then on
 * @deputies:	the deputies
 * @began:	the time, in ms
 */
void deputies_begin(struct deputies *deputies, long began)
{
	/* Pairs with the load in deputy_begin(). */
	if (deputies->began)
		__atomic_store_n(deputies->began, began, __ATOMIC_RELAXED);
}

static bool deputies_are_done(const struct deputies *deputies)
{
	for (unsigned int i = 0; i < deputies->nr; i++) {
		if (deputies->known[i].socket >= 0 && !deputies->known[i].done)
			return false;
	}
	return true;
}

/**
 * deputies_wait - is something still to be sent?
 * @deputies:	the deputies
 */
bool deputies_wait(const struct deputies *deputies)
{
	for (unsigned int i = 0; i < deputies->nr; i++) {
		if (deputies->known[i].socket >= 0 &&
		    (deputies->known[i].sync || deputies->known[i].full))
			return true;
	}
	return false;
}

/**
 * deputies_stop - tell deputies that the command has ended
 * @deputies:	the deputies
 */
void deputies_stop(struct deputies *deputies)
{
	for (unsigned int i = 0; i < deputies->nr; i++) {
		if (deputies->known[i].socket >= 0)
			shutdown(deputies->known[i].socket, SHUT_WR);
	}
}

/**
 * deputies_end - get the lists of deputies after deputies_stop()
 * @session:	the session
 * @missed:	called for each file of the lists
 * @data:	for @missed
 */
void deputies_end(struct session *session, sframe_missed_fn missed, void *data)
{
	struct deputies *deputies = &session->deputies;
	long end = now_ms() + 2 * DEPUTIES_WAIT_MAX;
	struct pollfd fds[USERS_MAX];

	while (!deputies_are_done(deputies) && now_ms() < end) {
		poll(fds, deputies_fds(deputies, fds), TICK);
		for (unsigned int i = 0; i < deputies->nr; i++)
			deputy_listen(session, &deputies->known[i], missed, data);
	}
	for (unsigned int i = 0; i < deputies->nr; i++) {
		if (deputies->known[i].socket >= 0 && !deputies->known[i].done)
			session_say(session,
				    "what had no section for user %u is not listed: the process that makes sections for this user does not answer",
				    deputies->known[i].user.uid);
	}
}

/**
 * deputies_free - end all deputies
 * @deputies:	the deputies
 */
void deputies_free(struct deputies *deputies)
{
	for (unsigned int i = 0; i < deputies->nr; i++) {
		tdestroy(deputies->known[i].files, free);
		if (deputies->known[i].socket < 0)
			continue;
		close(deputies->known[i].socket);
		stuck_kill(deputies->known[i].pid, deputies->known[i].user.uid);
	}
	if (deputies->began)
		munmap(deputies->began, sizeof(*deputies->began));
}
