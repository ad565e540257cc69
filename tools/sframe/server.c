// SPDX-License-Identifier: GPL-2.0
/*
 * A session beside a program that has more to do, as perf record has: a process of its
 * own, which ends with the program at the latest.
 *
 * The program, which is not to have threads yet, hears nothing of it by SIGCHLD or by
 * wait(), which are about other processes. They talk by a socket: the server says when all
 * is there that is known to be needed, and lists what had no section once the program has
 * closed its half.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session.h"

/* Where the server has its end of the socket. */
#define SOCKET	3

/* The first byte that a server sends: all is there, or a sentence follows. */
#define READY	'r'
#define FAILED	'f'

/* Of a file in the list: before its path and a reason, which both end with a 0. */
#define MISSED	'm'
#define LATE	'l'

/* Behind the list. */
#define END	'e'

/* What the program has open, and handles, is its own business. */
static int server_alone(int socket, pid_t parent)
{
	static const int ignored[] = {
		SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE,
		SIGTSTP, SIGTTIN, SIGTTOU,
	};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct sigaction action;
	sigset_t none;

	for (int sig = 1; sig < NSIG; sig++) {
		if (!sigaction(sig, NULL, &action) && action.sa_handler != SIG_IGN)
			signal(sig, SIG_DFL);
	}
	/*
	 * Terminals and timeout(1) ask the program to stop, not what it needs for that; and
	 * it would hear by SIGCHLD of who stands still.
	 */
	for (unsigned int i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
		signal(ignored[i], SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);

	/* It may be waiting for a file system then. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		return -1;
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(socket, SOCKET) < 0)
		return -1;
	syscall(SYS_close_range, SOCKET + 1, ~0U, 0);
	prctl(PR_SET_NAME, "sframe");
	return fcntl(SOCKET, F_SETFD, FD_CLOEXEC);
}

static void server_missed(void *out, const char *path, bool late, const char *why)
{
	fprintf(out, "%c%s%c%s%c", late ? LATE : MISSED, path, 0, why, 0);
}

static void __attribute__((noreturn))
server_main(const struct sframe_session_options *options, int socket, pid_t parent)
{
	char message[SFRAME_MESSAGE], ready = READY;
	struct session *session;
	FILE *out;

	if (server_alone(socket, parent))
		_exit(1);
	out = fdopen(SOCKET, "w");
	session = out ? session_new(options, message) : NULL;
	if (!session) {
		dprintf(SOCKET, "%c%s", FAILED, out ? message : "there is no memory");
		_exit(1);
	}
	session_convert(session, SOCKET);
	if (write(SOCKET, &ready, 1) != 1)
		_exit(1);
	session_run(session, SOCKET);
	session_convert(session, SOCKET);
	if (options->verbose)
		session_summary(session);
	session_missed(session, server_missed, out);
	fputc(END, out);
	fflush(out);
	session_free(session);
	_exit(0);
}

/**
 * sframe_server_start - begin to have sections for what tasks map
 * @server:	set
 * @options:	which tasks
 *
 * It ends with the calling thread, if not before.
 *
 * Return: 0, or an error of errno.h, negative: -ENOENT if this kernel takes no sections.
 */
int sframe_server_start(struct sframe_server *server,
			const struct sframe_session_options *options)
{
	int sockets[2], ret = device_look();
	pid_t parent = getpid();

	if (ret)
		return ret;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
		return -errno;
	/* As fork(), but for the signal of its end, of which there is none. */
	server->pid = syscall(SYS_clone, 0, NULL, NULL, NULL, 0);
	if (!server->pid)
		server_main(options, sockets[1], parent);
	close(sockets[1]);
	server->socket = sockets[0];
	if (server->pid < 0) {
		int error = errno;

		close(sockets[0]);
		return -error;
	}
	return 0;
}

/* Until there is something to read. A handler between @stop and ppoll() is seen. */
static bool wait_until(int fd, sframe_stop_fn stop)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	sigset_t all, former;
	int ret;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &former);
	do {
		ret = stop() ? 0 : ppoll(&ready, 1, NULL, &former);
	} while (ret < 0 && errno == EINTR);
	sigprocmask(SIG_SETMASK, &former, NULL);
	return ret;
}

/**
 * sframe_server_wait - wait until all sections are there that are known to be needed
 * @server:	what was started
 * @stop:	does the caller want to wait no more, as a signal handler has said?
 * @message:	gets a sentence about an error, of SFRAME_MESSAGE bytes
 *
 * Return: 0; 1 if @stop said so, and there is no sentence; -1 after an error, when there is
 * nothing but to end the server.
 */
int sframe_server_wait(struct sframe_server *server, sframe_stop_fn stop, char *message)
{
	ssize_t got;
	char state;

	if (!wait_until(server->socket, stop))
		return 1;
	if (read(server->socket, &state, 1) != 1) {
		snprintf(message, SFRAME_MESSAGE, "the process that makes sections has ended");
		return -1;
	}
	if (state == READY)
		return 0;
	got = recv(server->socket, message, SFRAME_MESSAGE - 1, MSG_WAITALL);
	message[got < 0 ? 0 : got] = '\0';
	return -1;
}

/**
 * sframe_server_stop - say that no more is needed
 * @server:	what was started
 *
 * What is there stays until sframe_server_end().
 */
void sframe_server_stop(struct sframe_server *server)
{
	shutdown(server->socket, SHUT_WR);
}

/* Returns 0 at its end; 1 if a handler of a signal was called: nobody has the patience. */
static int read_list(int socket, char **list, size_t *size)
{
	struct pollfd ready = { .fd = socket, .events = POLLIN };
	size_t room = 0;
	ssize_t got = 1;
	char *more;

	while (got > 0) {
		if (*size == room) {
			room += 65536;
			more = realloc(*list, room);
			if (!more)
				return 1;
			*list = more;
		}
		if (poll(&ready, 1, -1) < 0)
			return 1;
		got = read(socket, *list + *size, room - *size);
		if (got > 0)
			*size += got;
	}
	return 0;
}

/* Returns 0, or -1 if it lacks its end. */
static int parse_list(const char *at, size_t size, sframe_missed_fn missed, void *data)
{
	const char *end = at + size, *why;

	/* It may not have said that it is ready before it was told to stop. */
	if (size && *at == READY)
		at++;
	while (at < end && *at != END) {
		why = memchr(at, 0, end - at);
		if (!why || !memchr(why + 1, 0, end - why - 1))
			break;
		why++;
		missed(data, at + 1, *at == LATE, why);
		at = why + strlen(why) + 1;
	}
	return at < end && *at == END ? 0 : -1;
}

/**
 * sframe_server_end - have these sections no longer
 * @server:	what was started
 * @missed:	called for each file that had no section, or not from its start on; NULL for
 *		not to wait
 * @data:	for @missed
 *
 * Waits until what was met is converted, for the next time, unless a signal handler
 * interrupts this.
 *
 * Return: 0 if @missed has seen all; 1 if that was not waited for; -1 if the server has
 * ended before, so that sections were missed and nobody knows since when.
 */
int sframe_server_end(struct sframe_server *server, sframe_missed_fn missed, void *data)
{
	char *list = NULL;
	size_t size = 0;
	int ret = 1;

	sframe_server_stop(server);
	if (missed)
		ret = read_list(server->socket, &list, &size);
	close(server->socket);
	/* It may be waiting for a file system, and has nothing left to do. */
	kill(server->pid, SIGKILL);
	waitpid(server->pid, NULL, __WCLONE);
	if (!ret)
		ret = parse_list(list, size, missed, data);
	free(list);
	return ret;
}
