// SPDX-License-Identifier: GPL-2.0
/*
 * A command to profile: a child that waits until everything is ready.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "prof.h"

/* Once the reports are written, a command has so long from SIGTERM to SIGKILL. */
#define GRACE_SECONDS	5

static struct {
	const char	*name;
	pid_t		pid;
	bool		ended;
	int		go;	/* Closed without a byte: do not run */
	int		error;	/* errno, if it cannot be run */
} command;

static void __attribute__((noreturn)) child(char **argv, int go, int error)
{
	char byte;

	if (read(go, &byte, 1) == 1) {
		execvp(argv[0], argv);
		/* Nobody reads more errors. */
		if (write(error, &errno, sizeof(errno)) < 0)
			_exit(126);
	}
	_exit(127);
}

void command_prepare(char **argv)
{
	int go[2], error[2];

	if (pipe2(go, O_CLOEXEC) || pipe2(error, O_CLOEXEC))
		die(STATUS_FAILED, "cannot make a pipe: %s", strerror(errno));
	command.pid = fork();
	if (command.pid < 0)
		die(STATUS_FAILED, "cannot fork: %s", strerror(errno));
	if (!command.pid) {
		close(go[1]);
		close(error[0]);
		child(argv, go[0], error[1]);
	}
	close(go[0]);
	close(error[1]);
	command.name = argv[0];
	command.go = go[1];
	command.error = error[0];
}

/* Returns 0 if there is no command. */
__u32 command_pid(void)
{
	return command.pid;
}

void command_run(void)
{
	int error;

	if (write(command.go, "", 1) != 1)
		die(STATUS_FAILED, "cannot start '%s': %s", command.name, strerror(errno));
	if (read(command.error, &error, sizeof(error)) == sizeof(error))
		die(STATUS_FAILED, "cannot run '%s': %s", command.name, strerror(error));
}

bool command_ended(void)
{
	if (!command.ended)
		command.ended = waitpid(command.pid, NULL, WNOHANG) == command.pid;
	return command.ended;
}

/* The command may take its time, or ignore the signal. */
void command_stop(void)
{
	if (!command_ended())
		kill(command.pid, SIGTERM);
}

/* Wait for the end of the command, and kill it after a while. */
void command_wait(void)
{
	const struct timespec pause = { .tv_nsec = NSEC_PER_SEC / 100 };
	const __u64 end = now_ns() + GRACE_SECONDS * NSEC_PER_SEC;

	while (!command_ended() && now_ns() < end)
		nanosleep(&pause, NULL);
	if (!command_ended())
		kill(command.pid, SIGKILL);
}
