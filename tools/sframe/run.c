// SPDX-License-Identifier: GPL-2.0
/*
 * sframe run: run a command while the kernel has sections, for profilers that do not
 * provide sections themselves.
 *
 * One process provides the sections, see server.c, and another one is the command. This
 * process starts both and waits. It opens no file named by users, because that could hang
 * and keep the command from starting.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"
#include "session.h"

/* Exit statuses as in shells. */
#define STATUS_FAILED	125
#define STATUS_NO_EXEC	126
#define STATUS_NOT_FOUND 127

/* How many times 10 ms to wait for the end of a killed witness. */
#define KILL_TRIES	1000

/* Wait for a byte on @go and execute the command, or exit if @go is closed. */
static void __attribute__((noreturn)) command_main(char **argv, const int go[2])
{
	char start;

	close(go[1]);
	if (read(go[0], &start, 1) != 1)
		_exit(STATUS_FAILED);
	execvp(argv[0], argv);
	_exit(fail(errno == ENOENT ? STATUS_NOT_FOUND : STATUS_NO_EXEC,
		   "%s: cannot be run: %s", argv[0], strerror(errno)));
}

/*
 * Forward these signals to the command if they were sent to this process only, unless the caller
 * of this program ignores them.
 */
static const int forwarded[] = {
	SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM,
};

static void forwarded_set(sigset_t *set)
{
	struct sigaction action;

	sigemptyset(set);
	for (unsigned int i = 0; i < sizeof(forwarded) / sizeof(*forwarded); i++) {
		if (!sigaction(forwarded[i], NULL, &action) && action.sa_handler != SIG_IGN)
			sigaddset(set, forwarded[i]);
	}
}

/**
 * struct seen - signals that the witness has received
 * @set:	a bit for each signal
 * @from:	its sender, or 0 for the kernel
 */
struct seen {
	u64	set;
	pid_t	from[64];
};

/**
 * struct witness - a process that tells signals to the group from those to one process
 * @pid:	the process, which takes signals only when it is asked
 * @socket:	connection to it
 * @seen:	signals that it has reported and that were not used yet
 */
struct witness {
	pid_t		pid;
	int		socket;
	struct seen	seen;
};

/* Tools that look for this program by name or arguments must not find the witness. */
static void witness_hide(void)
{
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	char line[4096];
	ssize_t size = fd < 0 ? 0 : read(fd, line, sizeof(line));

	if (size > 0)
		memset(program_invocation_name, 0, size);
	if (fd >= 0)
		close(fd);
	prctl(PR_SET_NAME, "witness");
}

static void __attribute__((noreturn)) witness_main(int socket, pid_t parent)
{
	const struct timespec now = {};
	siginfo_t info;
	sigset_t all;
	char ask;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	witness_hide();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	forwarded_set(&all);
	while (read(socket, &ask, 1) == 1) {
		struct seen seen = {};
		int sig;

		while ((sig = sigtimedwait(&all, &info, &now)) > 0) {
			seen.set |= 1ULL << sig;
			seen.from[sig] = info.si_code == SI_KERNEL ? 0 : info.si_pid;
		}
		if (write(socket, &seen, sizeof(seen)) != sizeof(seen))
			break;
	}
	_exit(0);
}

/* Without a witness, the command gets signals to the group twice. */
static void witness_start(struct witness *witness)
{
	pid_t parent = getpid();
	int sockets[2];

	*witness = (struct witness) { .socket = -1 };
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
		return;
	witness->pid = fork();
	if (!witness->pid)
		witness_main(sockets[1], parent);
	close(sockets[1]);
	witness->socket = sockets[0];
}

/* Kill the witness. Do not wait for it, because a debugger may delay its end. */
static void witness_dismiss(struct witness *witness)
{
	if (witness->socket >= 0)
		close(witness->socket);
	if (witness->pid > 0)
		kill(witness->pid, SIGKILL);
	*witness = (struct witness) { .socket = -1 };
}

/* Wait for an answer. Give up if the witness hangs, or is stopped again and again. */
static bool witness_answers(const struct witness *witness)
{
	struct pollfd ready = { .fd = witness->socket, .events = POLLIN };
	struct blocked blocked;

	blocked_begin(&blocked, witness->pid);
	for (unsigned int ms = 0; ms < BLOCKED_MAX && blocked.row < OPEN_BLOCKED_MAX; ms += TICK) {
		kill(witness->pid, SIGCONT);
		if (poll(&ready, 1, TICK) > 0)
			return true;
		blocked_look(&blocked);
	}
	return false;
}

/*
 * Add the signals that the witness has seen. Keep only those that are pending here as well, as
 * these were sent to the group.
 *
 * Dismiss a witness that has not answered once: a late answer would be taken for the answer to
 * the next question.
 */
static void witness_ask(struct witness *witness, int sig)
{
	struct seen *seen = &witness->seen, new;
	sigset_t pending;

	if (send(witness->socket, "", 1, MSG_NOSIGNAL) != 1 ||
	    !witness_answers(witness) ||
	    recv(witness->socket, &new, sizeof(new), MSG_WAITALL) != sizeof(new)) {
		witness_dismiss(witness);
		return;
	}
	sigpending(&pending);
	for (int other = 1; other < 64; other++) {
		u64 bit = 1ULL << other;

		if (new.set & bit) {
			seen->set |= bit;
			seen->from[other] = new.from[other];
		}
		if (other != sig && sigismember(&pending, other) != 1)
			seen->set &= ~bit;
	}
}

/* Was this signal sent to the group? Then the witness has it from the same sender. */
static bool witness_has(struct witness *witness, int sig, pid_t from)
{
	u64 bit = 1ULL << sig;
	bool has;

	if (witness->pid <= 0)
		return false;
	/*
	 * The kernel changes no group while it sends a signal to one: after this call, all
	 * members have the signal. The call has no other effect.
	 */
	setpgid(witness->pid, getpgrp());
	witness_ask(witness, sig);
	has = witness->seen.set & bit && witness->seen.from[sig] == from;
	witness->seen.set &= ~bit;
	return has;
}

/**
 * struct command - the command to run
 * @pid:	its process, which exists until it is waited for
 * @pidfd:	pidfd of @pid
 * @go:		pipe to write to for its start
 */
struct command {
	pid_t	pid;
	int	pidfd;
	int	go;
};

/* A hangup of the terminal signals the session leader, which may be only this process. */
static void forward_signals(const struct command *command, struct witness *witness, int signals)
{
	struct signalfd_siginfo info;

	while (read(signals, &info, sizeof(info)) == sizeof(info)) {
		pid_t from = info.ssi_code == SI_KERNEL ? 0 : info.ssi_pid;

		/* A command that has left the group did not get the signal. */
		if (!witness_has(witness, info.ssi_signo, from) ||
		    getpgid(command->pid) != getpgrp())
			syscall(__NR_pidfd_send_signal, command->pidfd, info.ssi_signo, NULL, 0);
	}
}

/* The socket for the server's list of files, and the signal that has ended reading it. */
static volatile sig_atomic_t closing = -1, impatient;

static void end_closing(int sig)
{
	int error = errno;

	impatient = sig;
	shutdown(closing, SHUT_RD);
	errno = error;
}

/* The status of the command is known now: signals must not replace it. */
static void handle_signals(void)
{
	const struct sigaction action = { .sa_handler = end_closing };
	sigset_t set;

	forwarded_set(&set);
	for (int sig = 1; sig < NSIG; sig++) {
		if (sigismember(&set, sig) == 1)
			sigaction(sig, &action, NULL);
	}
}

/*
 * Wait for the end of the witness, which mostly is short. Nothing depends on it, so a signal ends
 * the wait.
 */
static void witness_end(struct witness *witness)
{
	pid_t pid = witness->pid;

	witness_dismiss(witness);
	for (int tries = 0; pid > 0 && tries < KILL_TRIES && !impatient; tries++) {
		if (waitpid(pid, NULL, WNOHANG))
			return;
		poll(NULL, 0, 10);
	}
}

/* Run the command until it ends. It is not reaped before, so its pid cannot be reused. */
static int command_run(const struct command *command)
{
	struct pollfd fds[] = { { .events = POLLIN }, { .events = POLLIN } };
	struct witness witness;
	sigset_t set, former;
	int status;

	forwarded_set(&set);
	fds[0].fd = command->pidfd;
	fds[1].fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fds[1].fd < 0)
		sigemptyset(&set);
	sigprocmask(SIG_BLOCK, &set, &former);
	/* Start the witness with these signals blocked. */
	witness_start(&witness);
	if (write(command->go, "", 1) != 1)
		kill(command->pid, SIGKILL);
	/* A signal that has ended the command may be pending here as well: take it. */
	do {
		poll(fds, 2, -1);
		forward_signals(command, &witness, fds[1].fd);
	} while (!fds[0].revents);
	if (fds[1].fd >= 0)
		close(fds[1].fd);
	if (waitpid(command->pid, &status, 0) != command->pid)
		status = STATUS_FAILED << 8;
	handle_signals();
	sigprocmask(SIG_SETMASK, &former, NULL);
	witness_end(&witness);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void __attribute__((format(printf, 1, 2))) run_say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say_line(format, args);
	va_end(args);
}

/**
 * struct late - sections that came late
 * @listed:	list their files
 * @next_time:	how many came too late
 */
struct late {
	bool		listed;
	unsigned int	next_time;
};

static void run_missed(void *data, const char *path, bool is_late, const char *why)
{
	struct late *late = data;

	if (is_late && strstr(why, SFRAME_UNUSED))
		run_say("stacks through %s may be incomplete: it %s", path, why);
	else if (is_late && strstr(why, SFRAME_NO_WORDS))
		run_say("incomplete stacks through %s: it %s", path, why);
	else if (is_late && !strcmp(why, SFRAME_NEXT_TIME))
		late->next_time++;
	else if (is_late && late->listed)
		run_say("%s: it %s", path, why);
	else if (!is_late)
		run_say("no stacks through %s: it %s", path, why);
}

/* Run the command. The server has all sections known to be needed, or hangs. */
static int run_served(struct sframe_server *server, const struct command *command, bool verbose)
{
	struct late late = { .listed = verbose };
	int status, ret;

	/* Duplicate the socket, because sframe_server_end() closes it. */
	closing = fcntl(server->socket, F_DUPFD_CLOEXEC, 0);
	status = command_run(command);
	ret = sframe_server_end(server, run_missed, &late);
	if (ret && impatient)
		run_say("what had no section is not listed: a signal came, %s",
			strsignal(impatient));
	else if (ret == -ENOMEM)
		run_say("what had no section is not listed: there is no memory for it");
	else if (ret < 0)
		run_say("the process that makes sections has ended too early, or hangs");
	if (late.next_time)
		run_say("%u sections were made for the next time only", late.next_time);
	return status;
}

/* Start the server. The command's process exists, and waits. */
static int run_started(struct sframe_session_options *options, char **argv,
		       const struct command *command)
{
	char message[SFRAME_MESSAGE];
	struct sframe_server server;
	int ret;

	if (!options->nr_pids)
		options->program = argv[0];
	if (!options->running) {
		options->pids = &command->pid;
		options->nr_pids = 1;
	}
	ret = sframe_server_start(&server, options);
	if (ret == -ENOENT)
		return fail(STATUS_FAILED, "no sections: " SFRAME_NO_DEVICE);
	if (ret)
		return fail(STATUS_FAILED, "there can be no process: %s", strerror(-ret));
	ret = sframe_server_wait(&server, NULL, message);
	if (ret)
		sframe_server_end(&server, NULL, NULL);
	if (ret)
		return fail(STATUS_FAILED, "%s", message);
	if (message[0])
		run_say("%s", message);
	return run_served(&server, command, options->verbose);
}

static int run_command(struct sframe_session_options *options, char **argv)
{
	struct command command;
	int go[2], status;

	if (pipe2(go, O_CLOEXEC))
		return fail(STATUS_FAILED, "there can be no pipe: %s", strerror(errno));
	command.pid = fork();
	if (!command.pid)
		command_main(argv, go);
	close(go[0]);
	command.go = go[1];
	command.pidfd = command.pid < 0 ? -1 : syscall(__NR_pidfd_open, command.pid, 0);
	/* The caller may have ignored SIGCHLD. */
	signal(SIGCHLD, SIG_DFL);
	if (command.pidfd < 0)
		status = fail(STATUS_FAILED, "there can be no process: %s", strerror(errno));
	else
		status = run_started(options, argv, &command);
	/* A command that was not started exits now. */
	close(go[1]);
	if (command.pidfd >= 0) {
		/* Wait by pidfd, because the pid may be reused. */
		waitid(P_PIDFD, command.pidfd, NULL, WEXITED);
		close(command.pidfd);
	}
	return status;
}

/* Returns 0, -1 if nothing is left to do, or the status of an error. */
static int run_parse(int argc, char **argv, struct sframe_session_options *options, pid_t *pid)
{
	static const struct option longs[] = {
		{ "all",	no_argument,		NULL, 'a' },
		{ "pid",	required_argument,	NULL, 'p' },
		{ "cache",	required_argument,	NULL, 'c' },
		{ "verbose",	no_argument,		NULL, 'v' },
		{ "help",	no_argument,		NULL, 'h' },
		{}
	};
	int option;
	char *end;
	long nr;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "+:ap:c:vh", longs, NULL)) != -1) {
		if ((option == 'a' || option == 'p') && options->running)
			return fail(STATUS_FAILED, "--all and --pid come once, and not together");
		switch (option) {
		case 'a':
			options->running = true;
			break;
		case 'p':
			nr = strtol(optarg, &end, 10);
			if (nr < 1 || nr > INT_MAX || *end)
				return fail(STATUS_FAILED, "--pid takes a process, and not '%s'",
					    optarg);
			*pid = nr;
			options->pids = pid;
			options->nr_pids = 1;
			options->running = true;
			break;
		case 'c':
			options->cache = optarg;
			break;
		case 'v':
			options->verbose = true;
			break;
		case 'h':
			help();
			return -1;
		case ':':
			return fail(STATUS_FAILED, "'%s' lacks its value", argv[optind - 1]);
		default:
			return fail_option(STATUS_FAILED, "apcvh", argv[optind - 1]);
		}
	}
	return argv[optind] ? 0 : fail(STATUS_FAILED, "run needs a COMMAND");
}

/**
 * run_main - the verb run
 * @argc:	number of arguments, of which the verb is the first
 * @argv:	the arguments
 *
 * Return: the exit status of the command, as in shells; 125 after an error message if it did
 * not run.
 */
int run_main(int argc, char **argv)
{
	struct sframe_session_options options = {};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), ret;
	pid_t pid;

	/* Open closed standard streams with O_CLOEXEC: no other file takes their place. */
	while (null >= 0 && null <= STDERR_FILENO)
		null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0)
		close(null);
	ret = run_parse(argc, argv, &options, &pid);
	return ret < 0 ? 0 : ret ?: run_command(&options, argv + optind);
}
