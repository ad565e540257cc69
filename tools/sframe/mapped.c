// SPDX-License-Identifier: GPL-2.0
/*
 * Open and examine the files that tasks have mapped.
 *
 * A separate process does this, one file after the other, and reports the identity of a file
 * before it reads the file. Files and file systems are not trusted: if libelf crashes on a file,
 * or the file system hangs, only that process is lost, and a new one goes on with the next file.
 * Closing a file may hang as well, and cannot be interrupted. So sessions hold only O_PATH
 * descriptors, and other processes reopen them for reading.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "session.h"

/* Messages for one file: its identity, up to three times, and the result. */
#define ANSWERS_MAX	4

/* How many times 10 ms to wait for the end of the process in any case. */
#define END_TRIES	(OPEN_BLOCKED_MAX / 10)

/**
 * struct request - a mapping to examine
 * @pid:	as in struct mapping
 * @start:	as in struct mapping
 * @end:	as in struct mapping
 * @id:		as in struct mapping
 * @believe:	which files to trust
 * @path:	as in struct mapping
 */
struct request {
	pid_t		pid;
	u64		start;
	u64		end;
	struct build_id	id;
	enum believe	believe;
	char		path[PATH_MAX];
};

/**
 * file_reopen - reopen a file
 * @fd:		the file, or an O_PATH descriptor of it
 * @flags:	as for open()
 *
 * Return: the same file; -1 if it cannot be opened, with errno.
 */
int file_reopen(int fd, int flags)
{
	char name[32];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	/* Do not wait for the holder of a lease. */
	return open(name, flags | O_CLOEXEC | O_NONBLOCK);
}

/**
 * open_place - open a regular file
 * @place:	its O_PATH descriptor, which is closed; -1 with errno if there is none
 *
 * Opening a device may have effects, so this opens none.
 *
 * Return: the file, open for reading; -1 with errno on failure.
 */
int open_place(int place)
{
	struct stat st;
	int fd = -1;

	if (place < 0)
		return -1;
	if (!fstat(place, &st)) {
		errno = EINVAL;
		if (S_ISREG(st.st_mode))
			fd = file_reopen(place, O_RDONLY);
	}
	close(place);
	return fd;
}

/**
 * sframe_open_in - open a regular file by a name from a user
 * @root:	root directory for the name, such as that of a container
 * @path:	the name
 *
 * Return: the file, open for reading; -1 with errno on failure.
 */
int sframe_open_in(const char *root, const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	int at = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC), found;

	found = at < 0 ? -1 : syscall(__NR_openat2, at, path, &how, sizeof(how));
	if (at >= 0)
		close(at);
	return open_place(found);
}

/*
 * Open a mapped file that has no name any more, such as that of a daemon after an upgrade. Root may
 * open any mapping, and others the program of a process of theirs.
 */
static int open_nameless(const struct request *request)
{
	char link[64], path[PATH_MAX];
	ssize_t size;
	int place;

	snprintf(link, sizeof(link), "/proc/%d/map_files/%llx-%llx", request->pid,
		 (unsigned long long)request->start, (unsigned long long)request->end);
	place = open(link, O_PATH | O_CLOEXEC);
	if (place >= 0 || is_scarce(errno))
		return open_place(place);
	snprintf(link, sizeof(link), "/proc/%d/exe", request->pid);
	size = readlink(link, path, sizeof(path));
	if (size < 0 || (size_t)size != strlen(request->path) ||
	    memcmp(path, request->path, size)) {
		errno = ENOENT;
		return -1;
	}
	return open_place(open(link, O_PATH | O_CLOEXEC));
}

/* Do we have the same file by that name? A container may have another one. */
static bool is_here(int fd, const char *path)
{
	int here = sframe_open_in("/", path);
	struct stat st, ours;
	bool same;

	if (here < 0)
		return false;
	same = !fstat(fd, &st) && !fstat(here, &ours) &&
	       st.st_dev == ours.st_dev && st.st_ino == ours.st_ino;
	close(here);
	return same;
}

/* The file was opened, but we have no descriptor for it. */
static void is_one_too_many(struct mapped_file *file)
{
	snprintf(file->message, SFRAME_MESSAGE,
		 "is not looked at, as too many files are open");
	file->error = -EMFILE;
	file->again = true;
}

/* No descriptor arrived: retry later if we have none left, otherwise it was withheld. */
static void lack_file(int socket, struct mapped_file *file)
{
	int other = fcntl(socket, F_DUPFD_CLOEXEC, 0);

	if (other < 0) {
		is_one_too_many(file);
		return;
	}
	close(other);
	snprintf(file->message, SFRAME_MESSAGE, "is withheld by a security module");
	file->error = -EACCES;
}

static int receive_file(int socket, struct mapped_file *file)
{
	bool cut;
	int fd;

	if (pass_receive(socket, file, sizeof(*file), &fd, &cut))
		return -1;
	file->fd = fd;
	if (cut)
		lack_file(socket, file);
	return 0;
}

/*
 * How long this process has waited, in us, since an arbitrary start. CPU time does not count, nor
 * does time on the run queue, if the kernel accounts for that.
 */
static s64 waited_us(void)
{
	unsigned long long delay = 0;
	struct timespec now, used;
	FILE *file = fopen("/proc/self/schedstat", "re");

	if (file) {
		if (fscanf(file, "%*u %llu", &delay) != 1)
			delay = 0;
		fclose(file);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - used.tv_sec) * 1000000LL +
	       (now.tv_nsec - used.tv_nsec - (long long)delay) / 1000;
}

/*
 * Report the identity of the file, or with -1 that it is not known yet. Returns false if the file
 * need not be examined.
 */
static bool request_goes_on(int socket, int fd, struct mapped_file *file)
{
	struct mapped_file ask = { .asks = true };
	bool go = false;
	struct stat st;
	s64 begin;

	if (fd >= 0 && !fstat(fd, &st))
		ask.identity = (struct identity) { st.st_dev, st.st_ino, st.st_mtim };
	begin = waited_us();
	if (pass_send(socket, &ask, sizeof(ask), -1) ||
	    recv(socket, &go, sizeof(go), 0) != sizeof(go))
		_exit(1);
	/* This wait was not caused by the file. */
	file->waited -= waited_us() - begin;
	file->identity = ask.identity;
	return go;
}

/* Find the user of a file that is not for all. Another process, or a retry, may find one. */
static bool request_finds_user(const struct request *request, int fd, struct mapped_file *file)
{
	if (request->believe == BELIEVE_OWN)
		return false;
	if (user_of_mapping(request->pid, request->start, request->end, fd, &file->user))
		return true;
	file->user.uid = ALL_USERS;
	file->unclaimed = true;
	return false;
}

/*
 * Can this file have a section?
 *
 * A file of another user may carry the build-id of any file. So its section is not cached; and
 * where sections are for all tasks, it is only for tasks of the user that has mapped it, whose
 * deputy reads it.
 */
static bool request_takes(const struct request *request, int fd, struct mapped_file *file)
{
	const char *doubt = owner_doubt(fd, &file->alone);

	file->user.uid = ALL_USERS;
	file->unclaimed = false;
	file->id = request->id;
	if (doubt && request->believe != BELIEVE_ALL) {
		if (request_finds_user(request, fd, file))
			return true;
		snprintf(file->message, SFRAME_MESSAGE, "%s%s", doubt,
			 file->unclaimed ? ", and nobody known has it mapped" : "");
		return false;
	}
	if (file_build_id(fd, &file->id, &file->has_sframe, file->message)) {
		/* Keep the message if the kernel has reported a build-id for the file. */
		if (!request->id.size)
			file->message[0] = '\0';
		return false;
	}
	if (request->id.size && memcmp(&file->id, &request->id, sizeof(request->id))) {
		snprintf(file->message, SFRAME_MESSAGE, "is another file by now");
		return false;
	}
	file->own = !doubt && is_here(fd, request->path);
	return true;
}

/* The file was not opened for lack of a resource that others may release. */
static void is_for_later(struct mapped_file *file, int error)
{
	is_one_too_many(file);
	if (error != EMFILE && error != ENFILE)
		snprintf(file->message, SFRAME_MESSAGE, "is not looked at: %s", strerror(error));
	file->error = -EAGAIN;
}

/* A mapped device. Elsewhere, or if the file has a build-id, something else has its name now. */
static bool is_device(const struct request *request, int error)
{
	return error == EINVAL && !request->id.size && !strncmp(request->path, "/dev/", 5);
}

/* Opening one of the names has failed: the errno of another name may say more. */
static void say_missing(const struct request *request, struct mapped_file *file, int error)
{
	if (is_scarce(error)) {
		is_for_later(file, error);
	} else if (is_device(request, error)) {
		file->error = -EINVAL;
		file->message[0] = '\0';
	} else if (file->error == -ENOENT && (error == EACCES || error == EPERM)) {
		snprintf(file->message, SFRAME_MESSAGE, "cannot be opened: %s", strerror(error));
	}
}

/* Get an O_PATH descriptor and close the file: if that hangs, the session waits for the answer. */
static int take_place(int fd, struct mapped_file *file)
{
	int place = file_reopen(fd, O_PATH);

	file->error = place < 0 ? -errno : 0;
	file->again = false;
	if (place < 0 && is_scarce(errno))
		is_for_later(file, errno);
	else if (place < 0)
		snprintf(file->message, SFRAME_MESSAGE, "cannot be opened: %s", strerror(errno));
	close(fd);
	return place;
}

/* Ways to open a file. */
enum way { IN_TASK, HERE, NAMELESS, WAYS };

static int request_open_by(enum way way, const struct request *request)
{
	char root[32];

	if (way == NAMELESS)
		return open_nameless(request);
	snprintf(root, sizeof(root), "/proc/%d/root", request->pid);
	return sframe_open_in(way == HERE ? "/" : root, request->path);
}

/*
 * Get an O_PATH descriptor of a mapped file by its name in the task. The task may be gone with its
 * mounts, so try the same name in our own file system as well; and the file may have lost its name.
 */
static int request_open(int socket, const struct request *request, struct mapped_file *file)
{
	unsigned int ways = request->pid ? WAYS : NAMELESS;
	struct identity refused = {};

	file->error = -ENOENT;
	snprintf(file->message, SFRAME_MESSAGE, "is not there any more");
	for (unsigned int way = request->pid ? IN_TASK : HERE; way < ways; way++) {
		int fd;

		/* A file that has the name is a better match, even if it is of no use. */
		if (way == NAMELESS && file->error != -ENOENT)
			break;
		if (way == HERE && request->pid)
			request_goes_on(socket, -1, file);
		fd = request_open_by(way, request);
		if (fd < 0) {
			say_missing(request, file, errno);
			continue;
		}
		if (request_goes_on(socket, fd, file)) {
			file->error = -EACCES;
			if (request_takes(request, fd, file))
				return take_place(fd, file);
			refused = file->identity;
		} else if (file->error == -ENOENT) {
			file->error = -EEXIST;
			file->message[0] = '\0';
		}
		close(fd);
	}
	file->identity = refused;
	file->id = request->id;
	file->has_sframe = false;
	return -1;
}

static void __attribute__((noreturn)) mapped_main(int socket, pid_t parent)
{
	const int ours = child_begin(socket, parent);
	static struct request request;

	while (recv(ours, &request, sizeof(request), 0) == sizeof(request)) {
		struct mapped_file file = { .user = { .uid = ALL_USERS } };
		s64 begin;
		int fd;

		job_limit_cpu(OPEN_SECONDS);
		begin = waited_us();
		fd = request_open(ours, &request, &file);
		file.waited += waited_us() - begin;
		if (pass_send(ours, &file, sizeof(file), fd))
			break;
		if (fd >= 0)
			close(fd);
	}
	_exit(0);
}

static int mapped_start(struct mapped *mapped)
{
	pid_t parent = getpid();
	int sockets[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets))
		return -1;
	mapped->pid = fork();
	if (!mapped->pid)
		mapped_main(sockets[1], parent);
	close(sockets[1]);
	if (mapped->pid < 0) {
		close(sockets[0]);
		mapped->pid = 0;
		return -1;
	}
	mapped->socket = sockets[0];
	return 0;
}

/**
 * mapped_spend - charge waiting time to the budget
 * @mapped:	the process that opens files
 * @ms:		how long a file has waited
 */
void mapped_spend(struct mapped *mapped, unsigned int ms)
{
	mapped->budget -= ms < mapped->budget ? ms : mapped->budget;
}

/*
 * Returns the exit status; -1 if the process does not end, because closing a file hangs or a
 * debugger holds it. Charges the waiting time to the budget.
 */
static int mapped_wait(struct mapped *mapped)
{
	struct blocked blocked;
	int status = 0, tries;

	blocked_begin(&blocked, mapped->pid);
	for (tries = 0; tries < END_TRIES && blocked.row < mapped->max; tries++) {
		if (waitpid(mapped->pid, &status, WNOHANG)) {
			mapped_spend(mapped, blocked.waited);
			return status;
		}
		poll(NULL, 0, 10);
		blocked_look(&blocked);
	}
	mapped_spend(mapped, tries < END_TRIES ? blocked.waited : OPEN_BLOCKED_MAX);
	stuck_add(mapped->pid, mapped->uid);
	return -1;
}

/**
 * mapped_end - end the process that opens files
 * @mapped:	the process; a new one starts when needed
 *
 * Never hangs itself: a process that cannot be killed is left to stuck_reap().
 *
 * Return: its status from waitpid(), or 0 if it was known to hang; -1 if it was not, and does not
 *	   end.
 */
int mapped_end(struct mapped *mapped)
{
	int status = 0;

	if (!mapped->pid)
		return 0;
	close(mapped->socket);
	kill(mapped->pid, SIGKILL);
	if (mapped->hangs)
		stuck_kill(mapped->pid, mapped->uid);
	else
		status = mapped_wait(mapped);
	mapped->pid = 0;
	return status;
}

/* Why a process with this exit status has not answered. */
static const char *mapped_why(const struct mapped *mapped, int status)
{
	if (mapped->slow)
		return SFRAME_SLOW;
	if (mapped->hangs)
		return mapped->max < OPEN_BLOCKED_MAX ?
		       SFRAME_HANGS " soon" : SFRAME_HANGS;
	if (status < 0)
		return "was opened by a process that does not end";
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU ?
	       "takes too long to be opened" : "breaks libelf";
}

static int mapped_fail(struct mapped *mapped, const struct mapping *mapping,
		       struct mapped_file *file)
{
	int status = mapped_end(mapped);
	long now = now_ms();

	snprintf(file->message, SFRAME_MESSAGE, "%s", mapped_why(mapped, status));
	if (mapped->hangs || status < 0) {
		mapped->strikes = strikes_more(strikes_left(mapped->strikes,
							    now - mapped->struck));
		mapped->struck = now;
		file->patience = mapped->max;
		/* It may answer when it gets more time. */
		file->again = mapped->max < OPEN_BLOCKED_MAX;
	}
	mapped->hangs = false;
	file->id = mapping->id;
	file->has_sframe = false;
	file->error = -EIO;
	file->fd = -1;
	return -1;
}

/**
 * mapped_patience - get how long opening the next file may hang
 * @mapped:	the process that opens files
 *
 * At most half of the budget, to leave some time to other files.
 *
 * Return: the time in ms; 0 if no file may be opened.
 */
unsigned int mapped_patience(const struct mapped *mapped)
{
	unsigned int max = blocked_patience(strikes_left(mapped->strikes,
							 now_ms() - mapped->struck));
	unsigned int share = mapped->budget / 2 < TICK ? TICK : mapped->budget / 2;

	if (!mapped->budget || stuck_nr() == STUCK_MAX)
		return 0;
	return max < share ? max : share;
}

/* Returns false if no time is left, or the user has too many hung processes. */
static bool mapped_may(const struct mapped *mapped, uid_t uid, struct mapped_file *file)
{
	file->stuck = !stuck_has_room(uid);
	if (!file->stuck && mapped_patience(mapped))
		return true;
	snprintf(file->message, SFRAME_MESSAGE, "is not looked at, as %s",
		 !file->stuck ? "others take too much time" :
		 stuck_nr() == STUCK_MAX ? "too many do not answer" :
		 "too many of this user do not answer");
	file->error = -EAGAIN;
	file->again = true;
	return false;
}

/* Receive the messages about a file: first its identity, then the result. */
static bool mapped_talk(struct mapped *mapped, const struct mapping *mapping,
			struct blocked *blocked, struct mapped_file *file)
{
	unsigned int all = WAITED_TIMES * mapped->max;
	bool go;

	/* One file may not wait for longer than the whole budget. */
	if (all > mapped->budget)
		all = mapped->budget;
	do {
		mapped->hangs = !blocked_wait(blocked, mapped->socket, mapped->max, all);
		mapped->slow = mapped->hangs && blocked->row < mapped->max;
		if (mapped->hangs || receive_file(mapped->socket, file))
			return false;
		go = file->asks && !mapped->known(mapped->data, mapping, &file->identity);
	} while (file->asks &&
		 send(mapped->socket, &go, sizeof(go), MSG_NOSIGNAL) == sizeof(go));
	return !file->asks;
}

/*
 * Charge waits shorter than a tick as the process has measured them. Its result may be wrong, for
 * instance because it was stopped: accept a few ticks more than were seen here, as there are a few
 * messages. It may be negative, because the clocks are not read at the same time.
 */
static void mapped_spend_on(struct mapped *mapped, const struct blocked *blocked, s64 us)
{
	s64 least = blocked->waited * 1000LL, most = least + ANSWERS_MAX * TICK * 1000LL;

	us = us < least ? least : us > most ? most : us;
	us += mapped->spent;
	mapped->spent = us % 1000;
	mapped_spend(mapped, us / 1000);
}

static bool mapped_answer(struct mapped *mapped, const struct mapping *mapping,
			  struct mapped_file *file)
{
	struct blocked blocked;
	bool answers;

	mapped->max = mapped_patience(mapped);
	blocked_begin(&blocked, mapped->pid);
	answers = mapped_talk(mapped, mapping, &blocked, file);
	mapped_spend_on(mapped, &blocked, answers ? file->waited : 0);
	if (answers && file->fd >= mapped->max_fd) {
		close(file->fd);
		file->fd = -1;
		is_one_too_many(file);
	}
	return answers;
}

/**
 * mapped_open - open the file of a mapping
 * @mapped:	the process that opens it; started if needed
 * @mapping:	the mapping
 * @believe:	which files to trust
 * @file:	set to the file and its properties; or -ENOENT if it is gone, -EEXIST if known, or
 *		another error, and a message, which is empty if it is no file to convert
 *
 * With -EAGAIN it was not examined, because time, processes or descriptors were used up.
 *
 * Return: 0, or -1 if there is no file.
 */
int mapped_open(struct mapped *mapped, const struct mapping *mapping, enum believe believe,
		struct mapped_file *file)
{
	struct request request = {
		.pid = mapping->pid, .start = mapping->start, .end = mapping->end,
		.id = mapping->id, .believe = believe,
	};
	uid_t uid = process_uid(mapping->pid);

	*file = (struct mapped_file) {
		.fd = -1, .error = -ENOENT, .id = mapping->id, .user = { .uid = ALL_USERS },
	};
	if (snprintf(request.path, sizeof(request.path), "%s", mapping->path) >=
	    (int)sizeof(request.path)) {
		snprintf(file->message, SFRAME_MESSAGE, "has a name that is too long");
		return -1;
	}
	if (!mapped_may(mapped, uid, file))
		return -1;
	/* The process may have ended since the last file, and waiting may use up the budget. */
	if (mapped->pid && send(mapped->socket, &request, sizeof(request), MSG_NOSIGNAL) < 0) {
		mapped_end(mapped);
		if (!mapped_may(mapped, uid, file))
			return -1;
	}
	if (!mapped->pid &&
	    (mapped_start(mapped) ||
	     send(mapped->socket, &request, sizeof(request), MSG_NOSIGNAL) < 0)) {
		snprintf(file->message, SFRAME_MESSAGE, "cannot be opened: %s", strerror(errno));
		file->error = -EAGAIN;
		file->again = true;
		return -1;
	}
	mapped->uid = uid;
	if (!mapped_answer(mapped, mapping, file))
		return mapped_fail(mapped, mapping, file);
	return file->fd < 0 ? -1 : 0;
}
