// SPDX-License-Identifier: GPL-2.0
/*
 * A deputy: a process that makes sections for the tasks of one user, see deputies.c.
 *
 * It is a session of its own, for the files that another session passes on. Its memory is a copy
 * of that of the other session. So no task of the user may trace it, and it reads and converts
 * files in processes without rights. A process that a file has taken over can still leak that
 * memory through its reads of a file system that the user provides.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "deputy.h"

/* Limit of the CPU time of a deputy, and of its processes each, in s. */
#define CPU_MAX		(3 * JOB_SECONDS)

static void deputy_answer(int socket, const struct answer *answer, size_t size)
{
	/* Ours may have ended: then this process gets SIGKILL. */
	send(socket, answer, offsetof(struct answer, text) + size, MSG_NOSIGNAL);
}

/**
 * deputy_say - in a deputy, have a line printed
 * @session:	the session
 * @format:	as for printf()
 * @args:	for @format
 */
void deputy_say(const struct session *session, const char *format, va_list args)
{
	struct answer answer = { .kind = ANSWER_SAY };

	vsnprintf(answer.text, sizeof(answer.text), format, args);
	deputy_answer(session->socket, &answer, strlen(answer.text) + 1);
}

static void deputy_missed(void *data, const char *path, bool late, const char *why)
{
	struct answer answer = { .kind = ANSWER_MISSED, .late = late };
	const struct session *session = data;
	size_t size = strlen(path) + 1, more = strlen(why) + 1;

	if (size + more > sizeof(answer.text))
		return;
	memcpy(answer.text, path, size);
	memcpy(answer.text + size, why, more);
	deputy_answer(session->socket, &answer, size + more);
}

/* A file that is not looked at. */
static void deputy_miss(struct session *session, const struct order *order, const char *why)
{
	const struct mapping mapping = { .path = order->path, .id = order->id };
	struct mapped_file file = {
		.fd = -1, .error = -EAGAIN, .identity = order->identity, .id = order->id,
		.user = { .uid = ALL_USERS },
	};

	snprintf(file.message, SFRAME_MESSAGE, "%s", why);
	session_look(session, &mapping, &file, -1);
}

/*
 * Keep a file for later, with its descriptor. Returns false if there are too many, or if something
 * has been short for too long.
 */
static bool deputy_keep(struct session *session, const struct waiting *file)
{
	struct waiting *kept = &session->waiting[session->nr_waiting];

	if (session->nr_waiting == WAITING_MAX ||
	    (!file->patience && now_ms() - file->since >= BLOCKED_MAX))
		return false;
	*kept = *file;
	kept->order = malloc(sizeof(*kept->order));
	if (!kept->order)
		return false;
	*kept->order = *file->order;
	session->nr_waiting++;
	if (file->patience)
		session_hung(session, file->patience);
	else
		session->lost = true;
	return true;
}

/* Read the file. Returns true if it is kept for later. */
static bool deputy_read(struct session *session, struct waiting *waiting,
			struct mapped_file *file)
{
	struct mapped *mapped = &session->mapped;

	waiting->patience = 0;
	if (!reader_read(waiting->fd, &waiting->order->id, mapped_patience(mapped), file))
		return false;
	if (file->patience) {
		mapped->strikes = strikes_more(strikes_left(mapped->strikes,
							    now_ms() - mapped->struck));
		mapped->struck = now_ms();
	}
	waiting->patience = file->patience;
	file->again = file->again && deputy_keep(session, waiting);
	file->id = waiting->order->id;
	file->fd = -1;
	if (!file->again)
		close(waiting->fd);
	return file->again;
}

/* Is there nothing to be done about the file? Another one of its build-id may be of no use. */
static bool deputy_has(struct session *session, const struct waiting *waiting,
		       const struct mapping *mapping, bool first)
{
	const struct order *order = waiting->order;
	const struct dso *known = book_find(&session->book, &order->id);

	if (known && dso_is_other(known, &order->identity)) {
		if (deputy_keep(session, waiting))
			return true;
		deputy_miss(session, order, "waits for too long for another with its build-id");
	} else if (!known && book_is_full(&session->book)) {
		session_full(session);
	} else if ((!known || known->again) &&
		   (!first || !session_knows_file(session, mapping, &order->identity))) {
		return false;
	}
	close(waiting->fd);
	return true;
}

static void deputy_give_up(struct session *session, const struct waiting *waiting)
{
	close(waiting->fd);
	deputy_miss(session, waiting->order, "could not be looked at in time");
}

/*
 * Now that the build-id is known: does the file have to wait for another one? Returns true also if
 * it cannot, and is given up.
 */
static bool deputy_waits(struct session *session, struct waiting *waiting,
			 const struct build_id *id)
{
	const struct dso *known = book_find(&session->book, id);

	if (!known || !dso_is_other(known, &waiting->order->identity))
		return false;
	waiting->order->id = *id;
	if (!deputy_keep(session, waiting))
		deputy_give_up(session, waiting);
	return true;
}

static void deputy_look(struct session *session, struct waiting *waiting, bool first)
{
	const struct order *order = waiting->order;
	const struct mapping mapping = { .path = order->path, .id = order->id };
	struct mapped_file file = {
		.fd = waiting->fd, .identity = order->identity, .user = { .uid = ALL_USERS },
		.since = order->since,
	};

	if (deputy_has(session, waiting, &mapping, first))
		return;
	if (!deputy_read(session, waiting, &file) && !order->id.size && file.id.size &&
	    deputy_waits(session, waiting, &file.id))
		return;
	session_look(session, &mapping, &file, -1);
	session_forgot(session);
	if (file.fd >= 0)
		close(file.fd);
}

/**
 * deputy_begin - in a deputy, see whether the command has begun
 * @session:	the session
 *
 * Orders may wait long to be read, so this is not one of them.
 */
void deputy_begin(struct session *session)
{
	/* Pairs with the store in deputies_begin(). */
	long began = session->began ? 0 : __atomic_load_n(session->shared, __ATOMIC_RELAXED);

	if (began)
		session_begin(session, began);
}

/**
 * deputy_scan - in a deputy, look again at files that could not be read before
 * @session:	the session
 */
void deputy_scan(struct session *session)
{
	unsigned int nr = session->nr_waiting;
	struct waiting waiting[WAITING_MAX];

	memcpy(waiting, session->waiting, sizeof(waiting));
	session->nr_waiting = 0;
	for (unsigned int i = 0; i < nr; i++) {
		/* One that hung can only answer if it gets more time. */
		if (waiting[i].patience < mapped_patience(&session->mapped))
			deputy_look(session, &waiting[i], false);
		else if (!deputy_keep(session, &waiting[i]))
			deputy_give_up(session, &waiting[i]);
		free(waiting[i].order);
	}
}

/* Has the command ended? What ours has sent before may be unread. */
static bool deputy_is_late(const struct session *session)
{
	struct pollfd end = { .fd = session->socket, .events = POLLRDHUP };

	return poll(&end, 1, 0) > 0 && end.revents & (POLLRDHUP | POLLHUP);
}

static void deputy_take(struct session *session, struct order *order, int fd)
{
	struct waiting waiting = { .fd = fd, .since = now_ms(), .order = order };

	if (fd < 0) {
		deputy_miss(session, order, "is not looked at, as too many files are open");
	} else if (deputy_is_late(session)) {
		close(fd);
		deputy_miss(session, order, "was not looked at in time");
	} else {
		deputy_look(session, &waiting, true);
	}
}

/* Is there a descriptor for one more file, besides those that conversions and looks need? */
static bool deputy_has_room(const struct session *session)
{
	int fd = fcntl(session->socket, F_DUPFD_CLOEXEC, 0);

	if (fd >= 0)
		close(fd);
	return fd >= 0 && fd < session->mapped.max_fd;
}

/*
 * Do what ours has asked for, but look at one file at most: conversions have to go on. Returns
 * false when ours wants nothing more.
 */
static bool deputy_obey(struct session *session, unsigned long *last, bool *sync)
{
	static struct order order;
	ssize_t size;
	bool cut;
	int fd;

	do {
		size = pass_receive_any(session->socket, &order, sizeof(order), &fd, &cut,
					MSG_DONTWAIT);
		if (size <= 0)
			return size < 0 && errno == EAGAIN;
		if (order.kind == ORDER_SYNC) {
			*last = session->jobs.turns;
			*sync = true;
		}
	} while (order.kind != ORDER_LOOK);
	deputy_take(session, &order, fd);
	return true;
}

/*
 * Have the lowest priority, and limits that the user cannot raise. If memory is short, the deputy
 * and its processes end first. A group of tasks by session has a priority of its own.
 */
static void deputy_limit(void)
{
	const struct rlimit cpu = { CPU_MAX, CPU_MAX };
	struct rlimit data;
	int fd;

	setpriority(PRIO_PROCESS, 0, 19);
	fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		dprintf(fd, "19");
		close(fd);
	}
	job_be_first_to_die();
	image_limit_memory(0);
	if (!getrlimit(RLIMIT_DATA, &data)) {
		data.rlim_max = data.rlim_cur;
		setrlimit(RLIMIT_DATA, &data);
	}
	setrlimit(RLIMIT_CPU, &cpu);
}

/*
 * Become the user, and open the device. Others may have taken all descriptors or memory for a
 * while: retry until ours ends, or has nothing more to ask.
 */
static int deputy_open(const struct user *user, int socket, pid_t parent)
{
	struct pollfd end = { .fd = socket, .events = POLLRDHUP };
	bool own = user->uid == getuid();
	int device, ret = device_become(user);

	if (ret)
		return ret;
	/* The change of ids has reset the signal, and may have made the memory readable. */
	if (prctl(PR_SET_DUMPABLE, 0) || prctl(PR_SET_PDEATHSIG, SIGKILL))
		return -errno;
	if (getppid() != parent)
		_exit(1);
	device = device_open_for(own);
	while (device < 0 && is_scarce(-device) && poll(&end, 1, TICK) <= 0)
		device = device_open_for(own);
	return device;
}

/* Ours gets the answer only if it has no order left that was not read. */
static void __attribute__((noreturn)) deputy_fail(int socket, int error)
{
	const struct answer answer = { .kind = ANSWER_FAILED, .late = error };
	static struct order order;

	deputy_answer(socket, &answer, 0);
	while (recv(socket, &order, sizeof(order), 0) > 0)
		;
	_exit(1);
}

static void deputy_serve(struct session *session)
{
	struct pollfd until = { .fd = session->socket };
	const struct answer ready = { .kind = ANSWER_READY }, end = { .kind = ANSWER_END };
	unsigned long last = 0;
	bool sync = false;

	for (;;) {
		/* Without room, orders stay unread, and ours repeats those that it cannot send. */
		until.events = POLLRDHUP | (deputy_has_room(session) ? POLLIN : 0);
		if (session_step(session, until, sync ? TICK : -1) &&
		    !deputy_obey(session, &last, &sync))
			break;
		if (!sync || !jobs_are_done(&session->jobs, last, OPEN_BLOCKED_MAX))
			continue;
		deputy_answer(session->socket, &ready, 0);
		sync = false;
	}
	session_end(session);
	for (unsigned int i = 0; i < session->nr_waiting; i++)
		deputy_give_up(session, &session->waiting[i]);
	session->nr_waiting = 0;
	session_missed(session, deputy_missed, session);
	deputy_answer(session->socket, &end, 0);
}

void __attribute__((noreturn))
deputy_main(const struct user *user, int socket, long *began, bool verbose, pid_t parent)
{
	int ours = child_begin(socket, parent), device;
	struct session *session;

	/* No terminal of ours is within its reach, nor @began within that of what it starts. */
	if (madvise(began, sizeof(*began), MADV_DONTFORK) || setsid() < 0 ||
	    dup2(STDOUT_FILENO, STDERR_FILENO) < 0)
		deputy_fail(ours, errno);
	deputy_limit();
	device = deputy_open(user, ours, parent);
	if (device < 0)
		deputy_fail(ours, -device);
	session = session_new_deputy(device, ours, began, verbose);
	if (!session)
		deputy_fail(ours, ENOBUFS);
	deputy_serve(session);
	_exit(0);
}
