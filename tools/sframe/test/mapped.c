// SPDX-License-Identifier: GPL-2.0
/*
 * mapped: what becomes of files if the process that opens them does not end, because a debugger
 * holds its end back. Results in TAP.
 *
 * In the process that opens a file, a stand-in replaces the look at that file, and does what the
 * test asks for. A child of this process is the debugger.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "session.h"

/*
 * Waits for the end of a process. Together, these waits of 10 ms are longer than a tick. If each
 * takes a whole tick, because the machine is busy, they are shorter than a file may hang.
 */
#define FEW_WAITS	15

/* So many files that a few ticks for each would use much of the time. */
#define MANY_FILES	10

/**
 * struct shared - what processes tell each other
 * @opener:	the process that opens files
 * @debugged:	the debugger has attached to it
 */
static struct shared {
	volatile pid_t	opener;
	volatile bool	debugged;
} *shared;

static enum { GOOD, ENDS, ENDS_DEBUGGED } does;

/* Which open() finds too many open files. */
static enum { NOTHING, LOOK, PLACE } lacks;

/* The CPU clock of a process advances by 1 s with each read. */
static bool clock_leaps;
static char program[PATH_MAX];
static unsigned int nr, bad;
static struct mapped mapped;
static struct mapped_file file;

/* After so many waits of this process for the end of another one, the debugger ends. */
static unsigned int waits_left;
static pid_t debugger;

static void check(bool good, const char *name)
{
	printf("%sok %u - %s\n", good ? "" : "not ", ++nr, name);
	if (!good)
		printf("# it %s; %u strikes, %u ms are left, %u processes are\n", file.message,
		       mapped.strikes, mapped.budget, stuck_nr());
	bad += !good;
}

/* Wait until it has ended, even if it is debugged. */
static void wait_for_zombie(pid_t pid)
{
	char path[32], state = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	while (state != 'Z') {
		FILE *file = fopen(path, "re");

		if (!file || fscanf(file, "%*d %*s %c", &state) != 1)
			exit(1);
		fclose(file);
		usleep(1000);
	}
}

/* Without the debugger, the parent is the next to see the end. */
static void end_debugger(void)
{
	siginfo_t info;

	kill(debugger, SIGKILL);
	waitpid(debugger, NULL, 0);
	debugger = 0;
	waitid(P_PID, shared->opener, &info, WEXITED | WNOWAIT);
}

int poll(struct pollfd *fds, nfds_t nr_fds, int timeout)
{
	const struct timespec time = { timeout / 1000, timeout % 1000 * 1000000 };

	if (!nr_fds && waits_left) {
		wait_for_zombie(shared->opener);
		if (!--waits_left)
			end_debugger();
	}
	return syscall(SYS_ppoll, fds, nr_fds, &time, NULL, 0);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	static time_t leaps;
	int ret = syscall(SYS_clock_gettime, clock, time);

	if (clock_leaps && clock == CLOCK_PROCESS_CPUTIME_ID)
		time->tv_sec += leaps++;
	return ret;
}

int open(const char *name, int flags, ...)
{
	bool look = flags & O_DIRECTORY, place = !look && (flags & O_PATH);

	if ((lacks == LOOK && look) || (lacks == PLACE && place)) {
		errno = ENFILE;
		return -1;
	}
	/* No file is created. */
	return syscall(SYS_openat, AT_FDCWD, name, flags);
}

void job_limit_cpu(unsigned int seconds)
{
	(void)seconds;
}

const char *owner_doubt(int fd, bool *alone)
{
	(void)fd;
	*alone = false;
	return NULL;
}

/* Not called, because there is no doubt. */
bool user_of_mapping(pid_t pid, unsigned long start, unsigned long end, int fd,
		     struct user *user)
{
	(void)pid;
	(void)start;
	(void)end;
	(void)fd;
	(void)user;
	return false;
}

int file_build_id(int fd, struct build_id *id, bool *has_sframe, char *message)
{
	(void)fd;
	(void)id;
	(void)has_sframe;
	(void)message;
	shared->opener = getpid();
	while (does == ENDS_DEBUGGED && !shared->debugged)
		usleep(1000);
	if (does != GOOD)
		_exit(1);
	return 0;
}

static bool is_known(void *data, const struct mapping *mapping, const struct identity *identity)
{
	(void)data;
	(void)mapping;
	(void)identity;
	return false;
}

/* Debug the process that opens a file, now or later, and do not reap it. */
static void debug(int options)
{
	shared->debugged = false;
	debugger = fork();
	if (debugger)
		return;
	while (!shared->opener)
		usleep(1000);
	if (ptrace(PTRACE_SEIZE, shared->opener, NULL, options))
		_exit(1);
	shared->debugged = true;
	for (;;)
		pause();
}

static void debug_no_more(void)
{
	if (debugger) {
		kill(debugger, SIGKILL);
		waitpid(debugger, NULL, 0);
	}
	while (stuck_nr()) {
		stuck_reap();
		usleep(1000);
	}
}

/* Have a file opened, with the whole budget of time. */
static int open_file(int how)
{
	const struct mapping mapping = { .path = program };

	does = how;
	mapped.known = is_known;
	mapped.budget = WAITS_MAX;
	mapped.strikes = 0;
	mapped.max_fd = INT_MAX;
	shared->opener = 0;
	return mapped_open(&mapped, &mapping, BELIEVE_ALL, &file);
}

static bool says(const char *what)
{
	return !strcmp(file.message, what);
}

static bool can_debug(void)
{
	int status;

	shared->opener = getpid();
	debug(0);
	while (!shared->debugged && !waitpid(debugger, &status, WNOHANG))
		usleep(1000);
	if (shared->debugged)
		debug_no_more();
	return shared->debugged;
}

static void check_end(void)
{
	check(!open_file(GOOD) && file.fd >= 0, "a file that is opened");
	close(file.fd);
	check(mapped_end(&mapped) >= 0 && !stuck_nr(), "a process that opens files ends");
	check(open_file(ENDS) && says("breaks libelf") && !mapped.strikes,
	      "a process that ends has said nothing");
}

/*
 * The clocks are read one after the other, so differences may be negative. A negative difference
 * is no wait. Then, only ticks count in which the opener was seen waiting.
 */
static void check_budget(void)
{
	const struct mapping mapping = { .path = program };
	bool good = true;

	clock_leaps = true;
	good &= !open_file(GOOD);
	close(file.fd);
	for (int i = 1; i < MANY_FILES; i++) {
		good &= !mapped_open(&mapped, &mapping, BELIEVE_ALL, &file);
		close(file.fd);
	}
	clock_leaps = false;
	check(good && mapped.budget > WAITS_MAX - MANY_FILES * TICK,
	      "files that nobody waits for leave the time to others");
	check(mapped_end(&mapped) >= 0 && !stuck_nr(), "a process that opens them ends, too");
}

/* The session tries again when descriptors are free. */
static void check_scarce(void)
{
	lacks = LOOK;
	check(open_file(GOOD) && file.again && says("is not looked at, as too many files are open"),
	      "a file that cannot be opened for want of files");
	mapped_end(&mapped);
	lacks = PLACE;
	check(open_file(GOOD) && file.again && says("is not looked at, as too many files are open"),
	      "a file that cannot be kept for want of files");
	mapped_end(&mapped);
	lacks = NOTHING;
	check(!open_file(GOOD) && !file.again, "a file when there are some");
	close(file.fd);
	mapped_end(&mapped);
}

/* The process has ended, but its debugger holds the end back. */
static void check_kept(void)
{
	shared->opener = 0;
	debug(0);
	check(open_file(ENDS_DEBUGGED) && says("was opened by a process that does not end") &&
	      file.patience == OPEN_BLOCKED_MAX, "what a process that does not end has opened");
	check(mapped.strikes == 1, "it counts as one that hangs");
	check(mapped.budget <= WAITS_MAX - OPEN_BLOCKED_MAX, "there is less time for others");
	check(stuck_nr() == 1, "it is waited for later");
	debug_no_more();
	/* The process ends after all, while it is waited for. */
	shared->opener = 0;
	debug(0);
	waits_left = FEW_WAITS;
	check(open_file(ENDS_DEBUGGED) && says("breaks libelf") && !mapped.strikes,
	      "what a process that ends late has opened");
	check(mapped.budget < WAITS_MAX, "that time is spent, too");
	debug_no_more();
}

/* The process is stopped before its end, and does not count as one that waits. */
static void check_stopped(void)
{
	check(!open_file(GOOD), "one more file that is opened");
	close(file.fd);
	debug(PTRACE_O_TRACEEXIT);
	while (!shared->debugged)
		usleep(1000);
	alarm(100);
	check(mapped_end(&mapped) < 0 && stuck_nr() == 1, "a process stopped before its end");
	alarm(0);
	check(mapped.budget <= WAITS_MAX - OPEN_BLOCKED_MAX, "there is less time for others, too");
	debug_no_more();
}

/* If too many processes of another user hang, that user's files are not opened. */
static void check_share(void)
{
	const uid_t other = 12345;
	struct mapping mapping = { .path = program };
	pid_t pid = fork();

	if (!pid) {
		if (setuid(other))
			_exit(1);
		for (;;)
			pause();
	}
	while (process_uid(pid) != other && !waitpid(pid, NULL, WNOHANG))
		usleep(1000);
	if (process_uid(pid) != other) {
		printf("ok %u - another user # SKIP there can be no other user\n", ++nr);
		return;
	}
	mapping.pid = pid;
	while (stuck_has_room(other))
		stuck_add(pid, other);
	check(mapped_open(&mapped, &mapping, BELIEVE_ALL, &file) && file.stuck && file.again &&
	      says("is not looked at, as too many of this user do not answer"),
	      "files of another user who has half of the places");
	check(!open_file(GOOD) && file.fd >= 0, "a file of this user then");
	close(file.fd);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	stuck_reap();
	check(mapped_end(&mapped) >= 0 && !stuck_nr(), "all are gone");
}

int main(int argc, char **argv)
{
	(void)argc;
	setvbuf(stdout, NULL, _IOLBF, 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (shared == MAP_FAILED || !realpath(argv[0], program))
		return 1;
	check_end();
	check_budget();
	check_scarce();
	check_share();
	if (can_debug()) {
		check_kept();
		check_stopped();
	} else {
		printf("ok %u - a debugged process # SKIP no process can be debugged\n", ++nr);
	}
	printf("1..%u\n", nr);
	return !!bad;
}
