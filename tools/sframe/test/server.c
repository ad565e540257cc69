// SPDX-License-Identifier: GPL-2.0
/*
 * server: what a profiler learns of a server that works, dies, cannot write, or hangs, of a lack
 * of memory, and of a signal that comes while nobody waits; and which time counts as time that a
 * process is blocked.
 * Results in TAP.
 *
 * A stand-in replaces the session, so each case happens at a known place.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session.h"

/* The server's end of the socket. */
#define SOCKET	3

/* More than fits into the socket and the buffers of stdio. */
#define MANY	5000

static enum { GOOD, DIES, CANNOT_WRITE, HANGS, FAILS, STALLS, NO_MEMORY } does;

/* This process gets a signal with what it reads, once. */
static pid_t signalled;
static unsigned int nr, bad, seen;

static void check(bool good, const char *name)
{
	printf("%sok %u - %s\n", good ? "" : "not ", ++nr, name);
	bad += !good;
}

int device_look(void)
{
	return 0;
}

struct session *session_new(const struct sframe_session_options *options, char *message)
{
	(void)options;
	if (does == HANGS)
		pause();
	snprintf(message, SFRAME_MESSAGE, "it fails");
	return does == FAILS ? NULL : (struct session *)&does;
}

static int swap_socket(int with)
{
	int former = dup(SOCKET);

	dup2(with, SOCKET);
	return former;
}

void session_missed(struct session *session, sframe_missed_fn missed, void *data)
{
	int socket = -1;

	(void)session;
	for (unsigned int i = 0; i < MANY; i++) {
		if (does == DIES && i == MANY / 2) {
			fflush(data);
			raise(SIGKILL);
		}
		if (does == STALLS && i == MANY / 2) {
			fflush(data);
			pause();
		}
		if (does == CANNOT_WRITE && i == MANY / 2)
			socket = swap_socket(open("/dev/full", O_WRONLY));
		missed(data, "/e\n\033l/m", i % 2, "eml: is a name\n");
	}
	/* From here on, it can write. */
	if (socket >= 0)
		swap_socket(socket);
}

void session_convert(struct session *session, int fd)
{
	(void)session;
	(void)fd;
}

void session_run(struct session *session, int fd)
{
	char end;

	(void)session;
	(void)!read(fd, &end, 1);
}

void session_prune(const struct session *session)
{
	(void)session;
}

void session_summary(const struct session *session)
{
	(void)session;
}

void session_free(struct session *session)
{
	(void)session;
}

static void missed(void *data, const char *path, bool late, const char *why)
{
	(void)data;
	if (strcmp(path, "/e\n\033l/m") || strcmp(why, "eml: is a name\n") || late != seen % 2)
		exit(1);
	seen++;
}

/* Returns the result of sframe_server_end(), if the wait before returned @wanted. */
static int serve(int how, int wanted, char *message)
{
	struct sframe_session_options options = {};
	struct sframe_server server;
	int waited;

	does = how;
	seen = 0;
	if (sframe_server_start(&server, &options))
		return -2;
	waited = sframe_server_wait(&server, NULL, message);
	return sframe_server_end(&server, missed, NULL) + 10 * (waited != wanted);
}

/* The server does not get the descriptors of standard streams that are closed. */
static bool closed_streams(void)
{
	int out = dup(1), err = dup(2), ret;
	char message[SFRAME_MESSAGE];

	close(0);
	close(1);
	close(2);
	ret = serve(GOOD, 0, message);
	dup2(out, 1);
	dup2(err, 2);
	return !ret && seen == MANY;
}

static void do_nothing(int sig)
{
	(void)sig;
}

ssize_t read(int fd, void *bytes, size_t size)
{
	ssize_t got = syscall(SYS_read, fd, bytes, size);

	if (does == STALLS && signalled == getpid() && got > 1) {
		signalled = 0;
		raise(SIGUSR1);
	}
	return got;
}

void *__real_realloc(void *old, size_t size);

/* The second part of the list finds no memory. */
void *__wrap_realloc(void *old, size_t size)
{
	return does == NO_MEMORY && old ? NULL : __real_realloc(old, size);
}

/* A signal ends the wait for a list that does not go on. */
static void check_signal(void)
{
	const struct sigaction action = { .sa_handler = do_nothing };
	char message[SFRAME_MESSAGE];

	sigaction(SIGUSR1, &action, NULL);
	signalled = getpid();
	check(serve(STALLS, 0, message) == 1 && !signalled, "a signal while nobody waits");
}

static void check_blocked(void)
{
	struct blocked blocked;

	blocked_begin(&blocked, getpid());
	for (int i = 0; i < 10; i++) {
		blocked_count(&blocked, 'R', 0);
		blocked_count(&blocked, 'T', 0);
		blocked_count(&blocked, 't', 0);
		blocked_count(&blocked, 0, 0);
	}
	check(!blocked.ms && !blocked.row, "a process that cannot run is not blocked");
	blocked_count(&blocked, 'D', 0);
	blocked_count(&blocked, 'S', 0);
	check(blocked.ms == 2 * TICK && blocked.row == 2 * TICK, "a process that waits is blocked");
	blocked_count(&blocked, 'D', 1);
	check(blocked.ms == 2 * TICK && !blocked.row, "a process that goes on does not hang");
	blocked_count(&blocked, 'D', 1);
	check(blocked.ms == 3 * TICK && blocked.row == TICK, "time adds up");
	check(blocked.waited == 4 * TICK, "a process that goes on may have waited");

	/* A late first look counts for one tick at most, and this process runs. */
	blocked_begin(&blocked, getpid());
	blocked.tick -= 1000 * TICK;
	blocked_look(&blocked);
	check(!blocked.ms, "the first tick of a process that runs");
}

static void check_patience(void)
{
	unsigned int strikes = 0;

	check(blocked_patience(0) == OPEN_BLOCKED_MAX, "one that never hung has all the time");
	check(blocked_patience(2) == OPEN_BLOCKED_MAX / 4, "a process that hangs again has less");
	check(blocked_patience(1000) == TICK, "a process that hangs each time has a tick");
	check(strikes_left(5, BLOCKED_MAX - 1) == 5, "strikes are not forgotten soon");
	check(strikes_left(5, 3 * BLOCKED_MAX) == 2, "strikes are forgotten one by one");
	check(!strikes_left(5, 1000L * BLOCKED_MAX), "no more than there are");
	for (int i = 0; i < 1000; i++)
		strikes = strikes_more(strikes);
	check(blocked_patience(strikes) == TICK, "a process that has hung 1000 times has a tick");
	check(blocked_patience(strikes_left(strikes, 10L * BLOCKED_MAX)) == OPEN_BLOCKED_MAX,
	      "1000 are forgotten as soon as a few");
}

/* A wait for a process ends, even if no file can be opened to look at that process. */
static void check_unseen(void)
{
	struct rlimit files, none;
	struct blocked blocked;
	pid_t pid = fork();
	int ends[2];

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	if (pipe(ends) || getrlimit(RLIMIT_NOFILE, &files))
		exit(1);
	/* poll() refuses more descriptors than the limit. */
	none = (struct rlimit) { 1, files.rlim_max };
	blocked_begin(&blocked, pid);
	setrlimit(RLIMIT_NOFILE, &none);
	alarm(100);
	check(!blocked_wait(&blocked, ends[0], OPEN_BLOCKED_MAX, BLOCKED_MAX),
	      "a process that cannot be seen hangs");
	alarm(0);
	setrlimit(RLIMIT_NOFILE, &files);
	close(ends[0]);
	close(ends[1]);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* A process that was killed, and ends later. */
static void check_stuck(void)
{
	siginfo_t info;
	pid_t pid = fork();

	if (!pid) {
		pause();
		_exit(0);
	}
	stuck_add(pid, getuid());
	stuck_reap();
	check(stuck_nr() == 1, "a process that has not ended is not forgotten");
	kill(pid, SIGKILL);
	waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
	stuck_reap();
	check(!stuck_nr() && waitpid(pid, NULL, WNOHANG) < 0, "a process that ended is no zombie");
}

/* How many more stuck processes a user may have. */
static unsigned int stuck_room(uid_t uid)
{
	unsigned int room = 0;

	for (; stuck_has_room(uid); room++)
		/* Not a child of this process: it is soon forgotten. */
		stuck_add(getpid(), uid);
	return room;
}

/* Another user cannot take all places. */
static void check_shares(void)
{
	uid_t own = getuid();

	check(process_uid(0) == own && process_uid(getpid()) == own && process_uid(-1) == -1U,
	      "the owner of a process");
	check(stuck_room(own + 1) == STUCK_MAX / 2, "half of the places are for another user");
	check(stuck_room(own) == STUCK_MAX / 2, "this one has the rest");
	check(!stuck_room(own + 2) && stuck_nr() == STUCK_MAX, "all have none if there is none");
	stuck_reap();
	check(stuck_room(own) == STUCK_MAX, "this one may have all");
	stuck_reap();
	check(stuck_room(-1) == STUCK_MAX / 2, "the owner is not known");
	stuck_reap();
}

int main(void)
{
	char message[SFRAME_MESSAGE];

	setvbuf(stdout, NULL, _IOLBF, 0);
	check(!serve(GOOD, 0, message) && seen == MANY && !message[0], "a whole list");
	check(serve(DIES, 0, message) == -1 && seen < MANY, "a server that dies in its list");
	check(serve(CANNOT_WRITE, 0, message) == -1 && seen < MANY,
	      "a server that cannot write its list");
	check(serve(HANGS, 0, message) == -1 && strstr(message, "does not answer"),
	      "a server that hangs");
	check(serve(FAILS, -1, message) == -1 && !strcmp(message, "it fails"),
	      "a server that fails");
	check(serve(NO_MEMORY, 0, message) == -ENOMEM && !seen, "no memory for the list");
	check(closed_streams(), "closed streams");
	check_signal();
	check_blocked();
	check_patience();
	check_unseen();
	check_stuck();
	check_shares();
	printf("1..%u\n", nr);
	return !!bad;
}
