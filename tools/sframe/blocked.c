// SPDX-License-Identifier: GPL-2.0
/*
 * Measure how long a process that reads files has waited: on a file system whose server is gone,
 * a system call may never return, or any number of calls may return late.
 *
 * A tick counts as waited if the process was seen waiting in it, and as blocked if it used no CPU
 * time either. So time in which it could not run does not count: other tasks ran, it was stopped,
 * or the machine was. The exception is a process whose state cannot be read.
 * A tick counts only with its nominal length, however late it comes.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "session.h"

/* Killed children that have not ended yet, and the users whose files they have opened. */
static struct {
	pid_t	pid;
	uid_t	uid;
} stuck[STUCK_MAX];
static unsigned int nr_stuck;

/* The monotonic time, in ms. */
long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/**
 * is_scarce - does an error go away when others release resources?
 * @error:	an errno
 */
bool is_scarce(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM || error == EAGAIN;
}

/* CPU time of a process, in ns; 0 if unknown. */
static u64 cpu_time(pid_t pid)
{
	struct timespec used;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &used))
		return 0;
	return used.tv_sec * 1000000000ULL + used.tv_nsec;
}

/*
 * The state cannot be read: descriptors are short, or /proc hides a process that cannot be traced,
 * by its option hidepid. Counts as waiting if no CPU time is used, to end the wait for the process.
 */
#define UNSEEN	'?'

/* The state as in /proc: R if it is runnable, T if it is stopped; 0 if unknown. */
static char process_state(pid_t pid)
{
	char path[32], stat[128], *behind = NULL, state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return UNSEEN;
	/* The name is short, but may contain any character. */
	if (fgets(stat, sizeof(stat), file))
		behind = strrchr(stat, ')');
	if (behind)
		sscanf(behind, ") %c", &state);
	fclose(file);
	return state;
}

/**
 * process_uid - get the user of a process
 * @pid:	the process, or 0 for this one
 *
 * Return: the user; -1 if unknown.
 */
uid_t process_uid(pid_t pid)
{
	char path[32], *line = NULL;
	unsigned int uid = -1;
	size_t size = 0;
	FILE *file;

	if (!pid)
		return getuid();
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	if (!file)
		return -1;
	while (getline(&line, &size, file) > 0 && sscanf(line, "Uid: %u", &uid) != 1)
		;
	free(line);
	fclose(file);
	return uid;
}

/**
 * blocked_begin - start counting
 * @blocked:	the count, set
 * @pid:	the process, a child that only the caller reaps
 */
void blocked_begin(struct blocked *blocked, pid_t pid)
{
	*blocked = (struct blocked) { .pid = pid, .tick = now_ms() };
}

/**
 * blocked_count - count a tick
 * @blocked:	the count
 * @state:	state of the process, as in /proc
 * @cpu:	its CPU time, in ns
 *
 * A process that has ended counts as waiting.
 */
void blocked_count(struct blocked *blocked, char state, u64 cpu)
{
	bool waits = state == 'S' || state == 'D' || state == 'Z' ||
		     (state == UNSEEN && cpu == blocked->cpu);

	if (waits)
		blocked->waited += TICK;
	if (cpu != blocked->cpu) {
		blocked->row = 0;
	} else if (waits) {
		blocked->ms += TICK;
		blocked->row += TICK;
	}
	blocked->cpu = cpu;
}

/**
 * blocked_look - update the count; call this in each tick
 * @blocked:	the count
 */
void blocked_look(struct blocked *blocked)
{
	long now = now_ms();

	if (now - blocked->tick < TICK)
		return;
	blocked->tick = now;
	blocked_count(blocked, process_state(blocked->pid), cpu_time(blocked->pid));
}

/**
 * strikes_left - get how many earlier hangs still count
 * @strikes:	how many there were
 * @since:	time since the last one, in ms
 *
 * One hang is forgotten for each BLOCKED_MAX without another.
 */
unsigned int strikes_left(unsigned int strikes, long since)
{
	unsigned long forgotten = since / BLOCKED_MAX;

	return forgotten < strikes ? strikes - forgotten : 0;
}

/**
 * blocked_patience - get how long opening a file may hang
 * @strikes:	earlier hangs that count
 *
 * If one file hangs, many others may, so each of them gets less time than the one before.
 *
 * Return: the time in ms.
 */
unsigned int blocked_patience(unsigned int strikes)
{
	unsigned int max = strikes > 16 ? 0 : OPEN_BLOCKED_MAX >> strikes;

	return max < TICK ? TICK : max;
}

/**
 * strikes_more - count one more hang
 * @strikes:	how many there were
 *
 * Stops counting one strike after the patience has reached its minimum: forgetting each strike
 * takes time.
 *
 * Return: the new number.
 */
unsigned int strikes_more(unsigned int strikes)
{
	return strikes && blocked_patience(strikes - 1) == TICK ? strikes : strikes + 1;
}

/**
 * blocked_wait - wait for output of a process
 * @blocked:	the count of that process
 * @fd:		descriptor to read the output from
 * @max:	how long it may hang, in ms
 * @all:	how long it may wait in total, in ms
 *
 * Return: true if @fd is readable or at its end.
 */
bool blocked_wait(struct blocked *blocked, int fd, unsigned int max, unsigned int all)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	do {
		if (poll(&ready, 1, TICK) > 0)
			return true;
		blocked_look(blocked);
	} while (blocked->row < max && blocked->waited < all);
	return false;
}

/**
 * child_begin - begin a process that may hang
 * @fd:		descriptor by which it talks to its parent
 * @parent:	the parent
 *
 * The process ends with its parent, and keeps no other file open, above all not the device.
 *
 * Return: the descriptor that replaces @fd. Does not return on failure.
 */
int child_begin(int fd, pid_t parent)
{
	const int ours = STDERR_FILENO + 1;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || dup2(fd, ours) < 0)
		_exit(1);
	syscall(__NR_close_range, ours + 1, ~0U, 0);
	return ours;
}

/**
 * stuck_add - record a killed process that has not ended
 * @pid:	the process, ignored if STUCK_MAX are recorded
 * @uid:	user whose file it has opened
 */
void stuck_add(pid_t pid, uid_t uid)
{
	if (nr_stuck == STUCK_MAX)
		return;
	stuck[nr_stuck].pid = pid;
	stuck[nr_stuck++].uid = uid;
}

/**
 * stuck_kill - kill a hung process
 * @pid:	the process
 * @uid:	user whose file it has opened
 *
 * Most processes can be killed, but a busy CPU delays their end. Leaves a process that does not
 * end within 100 ms to stuck_reap().
 */
void stuck_kill(pid_t pid, uid_t uid)
{
	kill(pid, SIGKILL);
	for (int ms = 1; ms < 100; ms *= 2) {
		if (waitpid(pid, NULL, WNOHANG))
			return;
		poll(NULL, 0, ms);
	}
	stuck_add(pid, uid);
}

/**
 * stuck_reap - forget killed processes that have ended
 */
void stuck_reap(void)
{
	/* Go backwards: the last process takes the slot of one that has ended. */
	for (unsigned int i = nr_stuck; i > 0; i--) {
		if (waitpid(stuck[i - 1].pid, NULL, WNOHANG))
			stuck[i - 1] = stuck[--nr_stuck];
	}
}

/**
 * stuck_nr - count the killed processes that have not ended
 *
 * Return: their number, STUCK_MAX at most.
 */
unsigned int stuck_nr(void)
{
	return nr_stuck;
}

/**
 * stuck_has_room - may another process be started?
 * @uid:	user whose file it would open
 *
 * Any user can make processes hang, so each user but our own gets at most half of the slots.
 *
 * Return: true if so.
 */
bool stuck_has_room(uid_t uid)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < nr_stuck; i++)
		nr += stuck[i].uid == uid;
	return nr_stuck < STUCK_MAX && (nr < STUCK_MAX / 2 || uid == getuid());
}
