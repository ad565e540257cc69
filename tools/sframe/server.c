// SPDX-License-Identifier: GPL-2.0
/*
 * Run a session for a program that has other work, such as perf record: in a separate
 * process, which ends with the program at the latest.
 *
 * The program must not have threads yet. It sees no SIGCHLD of the server, and wait() does
 * not return it. They talk through a socket: the server reports when all sections known to
 * be needed are there. When the program has shut down its half, the server lists the files
 * that had no section.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session.h"

/* Descriptor of the server's end of the socket. */
#define SOCKET	3

/* First byte from a server: all sections are there, or an error message follows. */
#define READY	'r'
#define FAILED	'f'

/* Precedes the path and the reason of a file in the list, both NUL-terminated. */
#define MISSED	'm'
#define LATE	'l'

/* End of the list. */
#define END	'e'

/* How many times 10 ms to wait for the end of a killed server. */
#define KILL_TRIES	1000

/**
 * sframe_printable - make a file name or a message safe for a terminal
 * @text:	the text, in which control characters are replaced
 */
void sframe_printable(char *text)
{
	for (unsigned char *c = (unsigned char *)text; *c; c++) {
		if (iscntrl(*c))
			*c = '?';
		else if (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)
			*c = c[1] = '?';
	}
}

/**
 * say_line - print a line on stderr
 * @format:	as for printf()
 * @args:	for @format, may contain file names
 */
void say_line(const char *format, va_list args)
{
	char *line;

	if (vasprintf(&line, format, args) < 0)
		return;
	sframe_printable(line);
	fprintf(stderr, "sframe: %s\n", line);
	free(line);
}

/*
 * Close the files of the program, except stderr. Open closed standard streams, so that no file
 * that the server opens takes their place.
 */
static int server_files(int socket)
{
	int null = open("/dev/null", O_RDWR);

	socket = fcntl(socket, F_DUPFD, SOCKET + 1);
	null = fcntl(null, F_DUPFD, SOCKET + 1);
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
	    (fcntl(2, F_GETFD) < 0 && dup2(null, 2) < 0) || dup2(socket, SOCKET) < 0)
		return -1;
	syscall(__NR_close_range, SOCKET + 1, ~0U, 0);
	return fcntl(SOCKET, F_SETFD, FD_CLOEXEC);
}

/* Detach from the program: reset its signal handlers and close its files. */
static int server_alone(int socket, pid_t parent)
{
	static const int ignored[] = {
		SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE,
		SIGTSTP, SIGTTIN, SIGTTOU, SIGXFSZ,
	};
	struct sigaction action;
	sigset_t none;

	for (int sig = 1; sig < NSIG; sig++) {
		if (!sigaction(sig, NULL, &action) &&
		    (action.sa_handler != SIG_IGN || sig == SIGCHLD))
			signal(sig, SIG_DFL);
	}
	/*
	 * Terminals and timeout(1) signal the program, and the server must survive to finish.
	 * If it stopped, the program would get a SIGCHLD. A section that exceeds the limit of
	 * files is not kept, with EFBIG.
	 */
	for (unsigned int i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
		signal(ignored[i], SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);

	/* SIGKILL, because the server may be waiting for a file system. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		return -1;
	prctl(PR_SET_NAME, "sframe");
	return server_files(socket);
}

static void server_missed(void *out, const char *path, bool late, const char *why)
{
	fprintf(out, "%c%s%c%s%c", late ? LATE : MISSED, path, 0, why, 0);
}

static void __attribute__((noreturn))
server_main(const struct sframe_session_options *options, int socket, pid_t parent)
{
	char message[SFRAME_MESSAGE], ready = READY, end = END;
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
	/* Send END only after a complete list, so that the reader can tell. */
	if (!ferror(out) && !fflush(out))
		send(SOCKET, &end, 1, 0);
	/* The reader waits for this, but has all it needs if the cache hangs. */
	session_prune(session);
	/* A conversion that cannot be killed has the socket open, too. */
	shutdown(SOCKET, SHUT_RDWR);
	session_free(session);
	_exit(0);
}

/* Do not use the descriptors of standard streams, even if these are closed. */
static int open_sockets(int sockets[2])
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return -1;
	for (int i = 0; i < 2; i++) {
		sockets[i] = fcntl(pair[i], F_DUPFD_CLOEXEC, SOCKET);
		close(pair[i]);
	}
	if (sockets[0] >= 0 && sockets[1] >= 0)
		return 0;
	for (int i = 0; i < 2; i++) {
		if (sockets[i] >= 0)
			close(sockets[i]);
	}
	errno = EMFILE;
	return -1;
}

/**
 * sframe_server_start - start a server that provides sections
 * @server:	set
 * @options:	which tasks it covers
 *
 * The server ends with the calling thread at the latest.
 *
 * Return: 0, or a negative errno: -ENOENT, which SFRAME_NO_DEVICE explains.
 */
int sframe_server_start(struct sframe_server *server,
			const struct sframe_session_options *options)
{
	int sockets[2], ret = device_look();
	pid_t parent = getpid();

	if (ret)
		return ret;
	if (open_sockets(sockets))
		return -errno;
	/* Like fork(), but without a signal when the child ends. */
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

/*
 * Wait until there is something to read or the server hangs, which sets @hangs. A signal between
 * @stop and ppoll() is not missed.
 */
static bool wait_until(const struct sframe_server *server, sframe_stop_fn stop, bool *hangs)
{
	const struct timespec tick = { .tv_nsec = TICK * 1000000 };
	struct pollfd ready = { .fd = server->socket, .events = POLLIN };
	struct blocked blocked;
	sigset_t all, former;
	int ret;

	blocked_begin(&blocked, server->pid);
	sigfillset(&all);
	if (stop)
		sigprocmask(SIG_SETMASK, &all, &former);
	do {
		blocked_look(&blocked);
		*hangs = blocked.row >= OPEN_BLOCKED_MAX;
		ret = *hangs || (stop && stop()) ? 0 :
			ppoll(&ready, 1, &tick, stop ? &former : NULL);
	} while (!*hangs && (ret < 0 ? errno == EINTR : !ret && !(stop && stop())));
	if (stop)
		sigprocmask(SIG_SETMASK, &former, NULL);
	return ret > 0;
}

/**
 * sframe_server_wait - wait for the sections that are known to be needed
 * @server:	the server
 * @stop:	returns true to stop waiting, e.g. after a signal; or NULL
 * @message:	set to a message, SFRAME_MESSAGE bytes, which is empty on success
 *
 * Does not wait for a server that hangs in a system call: it may provide sections later.
 *
 * Return: 0; 1 without a message if @stop returned true; -1 after an error, when the caller can
 * only end the server.
 */
int sframe_server_wait(struct sframe_server *server, sframe_stop_fn stop, char *message)
{
	ssize_t got;
	bool hangs;
	char state;

	message[0] = '\0';
	if (!wait_until(server, stop, &hangs)) {
		if (!hangs)
			return 1;
		snprintf(message, SFRAME_MESSAGE,
			 "some sections are not there: a file system does not answer");
		return 0;
	}
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
 * sframe_server_stop - request no more sections
 * @server:	the server
 *
 * Existing sections stay until sframe_server_end().
 */
void sframe_server_stop(struct sframe_server *server)
{
	shutdown(server->socket, SHUT_WR);
}

/*
 * Returns 0 at the end of the list, or if the server hangs; 1 if a signal has interrupted it;
 * -ENOMEM without memory. Only ppoll() unblocks signals, so no signal is missed between two calls.
 */
static int read_list(const struct sframe_server *server, const sigset_t *signals, char **list,
		     size_t *size)
{
	const struct timespec tick = { .tv_nsec = TICK * 1000000 };
	struct pollfd ready = { .fd = server->socket, .events = POLLIN };
	struct blocked blocked;
	size_t room = 0;
	ssize_t got = 1;
	char *more;

	blocked_begin(&blocked, server->pid);
	while (got > 0 && blocked.row < OPEN_BLOCKED_MAX) {
		int nr = ppoll(&ready, 1, &tick, signals);

		blocked_look(&blocked);
		if (nr < 0)
			return 1;
		if (!nr)
			continue;
		if (*size == room) {
			room += 65536;
			more = realloc(*list, room);
			if (!more)
				return -ENOMEM;
			*list = more;
		}
		got = read(server->socket, *list + *size, room - *size);
		if (got > 0)
			*size += got;
	}
	return 0;
}

/* Returns 0, or -1 if the list is incomplete. */
static int parse_list(const char *at, size_t size, sframe_missed_fn missed, void *data)
{
	const char *end = at + size, *why;

	/* READY is still unread if the caller has stopped waiting early. */
	if (size && *at == READY)
		at++;
	while (at < end && (*at == MISSED || *at == LATE)) {
		why = memchr(at, 0, end - at);
		if (!why || !memchr(why + 1, 0, end - why - 1))
			break;
		why++;
		missed(data, at + 1, *at == LATE, why);
		at = why + strlen(why) + 1;
	}
	return at + 1 == end && *at == END ? 0 : -1;
}

/**
 * sframe_server_end - end a server and drop its sections
 * @server:	the server
 * @missed:	called for each file that had no section, or had it late; NULL to end without
 *		waiting
 * @data:	for @missed
 *
 * Waits until all files seen are converted for later sessions, unless a signal handler
 * interrupts this.
 *
 * Return: 0 if @missed has seen all files; 1 if this did not wait; -ENOMEM if there is no memory
 * for the list of the files; -1 if the server had ended before, or hangs: sections were missed for
 * an unknown time.
 */
int sframe_server_end(struct sframe_server *server, sframe_missed_fn missed, void *data)
{
	sigset_t all, former;
	char *list = NULL;
	size_t size = 0;
	int ret = 1;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &former);
	sframe_server_stop(server);
	if (missed)
		ret = read_list(server, &former, &list, &size);
	sigprocmask(SIG_SETMASK, &former, NULL);
	close(server->socket);
	/* The server may be waiting for a file system, and has nothing left to do. */
	kill(server->pid, SIGKILL);
	/* Do not wait for a server that cannot be killed. */
	for (int tries = 0; tries < KILL_TRIES && !waitpid(server->pid, NULL, __WCLONE | WNOHANG);
	     tries++)
		poll(NULL, 0, 10);
	if (!ret)
		ret = parse_list(list, size, missed, data);
	free(list);
	return ret;
}
