// SPDX-License-Identifier: GPL-2.0
/*
 * sframe run: a command for the time of which the kernel has sections, for profilers that
 * do not see to that themselves.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"
#include "session.h"

/* As shells have it. */
#define STATUS_FAILED	125
#define STATUS_NO_EXEC	126
#define STATUS_NOT_FOUND 127

/* Wait until there is something to read, or that is closed, and be the command then. */
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

static int command_status(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		return STATUS_FAILED;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void run_missed(void *session, const char *path, bool late, const char *why)
{
	if (!late)
		session_say(session, "no stacks through %s: it %s", path, why);
}

/* The command is there, and waits. */
static int run_started(struct sframe_session_options *options, char **argv, pid_t pid, int go)
{
	int pidfd = syscall(SYS_pidfd_open, pid, 0), status;
	char message[SFRAME_MESSAGE];
	struct session *session;

	if (pidfd < 0)
		return fail(STATUS_FAILED, "%s: cannot be waited for: %s", argv[0],
			    strerror(errno));
	options->program = argv[0];
	if (!options->running) {
		options->pids = &pid;
		options->nr_pids = 1;
	}
	session = session_new(options, message);
	if (!session) {
		close(pidfd);
		return fail(STATUS_FAILED, "%s", message);
	}
	session_convert(session, -1);

	/* The terminal asks the command to stop, and what it does is its own business. */
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	if (write(go, "", 1) == 1)
		session_run(session, pidfd);
	status = command_status(pid);
	signal(SIGINT, SIG_DFL);
	signal(SIGQUIT, SIG_DFL);
	session_convert(session, -1);
	session_summary(session);
	session_missed(session, run_missed, session);
	session_free(session);
	close(pidfd);
	return status;
}

static int run_command(struct sframe_session_options *options, char **argv)
{
	int go[2], status;
	pid_t pid;

	if (pipe2(go, O_CLOEXEC))
		return fail(STATUS_FAILED, "there can be no pipe: %s", strerror(errno));
	pid = fork();
	if (!pid)
		command_main(argv, go);
	close(go[0]);
	if (pid < 0) {
		close(go[1]);
		return fail(STATUS_FAILED, "there can be no process: %s", strerror(errno));
	}
	status = run_started(options, argv, pid, go[1]);
	close(go[1]);
	/* Who has not been started ends by that. */
	if (status == STATUS_FAILED)
		waitpid(pid, NULL, 0);
	return status;
}

/* Returns 0, -1 if there was all that is to be done, or the status of an error. */
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
			return optopt ? fail(STATUS_FAILED, "there is no option '-%c'", optopt) :
				fail(STATUS_FAILED, "there is no option '%s'", argv[optind - 1]);
		}
	}
	return argv[optind] ? 0 : fail(STATUS_FAILED, "run needs a COMMAND");
}

/**
 * run_main - the verb run
 * @argc:	of its words, the verb is the first
 * @argv:	these
 *
 * Return: the exit status of the command, as shells have it; 125 after a sentence if it
 * did not run.
 */
int run_main(int argc, char **argv)
{
	struct sframe_session_options options = {};
	pid_t pid;
	int ret = run_parse(argc, argv, &options, &pid);

	return ret < 0 ? 0 : ret ?: run_command(&options, argv + optind);
}
