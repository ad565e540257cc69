// SPDX-License-Identifier: GPL-2.0
/*
 * For how long a process has waited that reads files: on a file system whose server is gone
 * a system call may never return, and there may be no end of calls that return late.
 *
 * Time counts in ticks in which the process was seen to wait; and as blocked, if it used no CPU
 * in these. So no time counts in which it could not run: because others did, because it was
 * stopped, or because the machine was; unless nobody can look, for want of descriptors. A tick
 * counts no more than its length, however late it comes.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "session.h"

/* Children of this process that were killed, and have not ended, and whose files they opened. */
static struct {
	pid_t	pid;
	uid_t	uid;
} stuck[STUCK_MAX];
static unsigned int nr_stuck;

/* In ms, since some time. */
long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/**
 * is_scarce - is it an error that goes away when others are done?
 * @error:	of errno.h
 */
bool is_scarce(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM || error == EAGAIN;
}

/* What it has used so far, in ns; 0 if that is not known. */
static u64 cpu_time(pid_t pid)
{
	struct timespec used;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &used))
		return 0;
	return used.tv_sec * 1000000000ULL + used.tv_nsec;
}

/* So that what waits for it has an end, where there are no descriptors to look at it. */
#define UNSEEN	'?'

/* As in /proc: R if it runs or could, T if it is stopped; 0 if that is not known. */
static char process_state(pid_t pid)
{
	char path[32], stat[128], *behind = NULL, state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return is_scarce(errno) ? UNSEEN : 0;
	/* The name, which is short, may have anything in it. */
	if (fgets(stat, sizeof(stat), file))
		behind = strrchr(stat, ')');
	if (behind)
		sscanf(behind, ") %c", &state);
	fclose(file);
	return state;
}

/**
 * process_uid - whose is a process?
 * @pid:	the process, or 0 for this one
 *
 * Return: the user; -1 if that is not known.
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
 * blocked_begin - begin to count
 * @blocked:	the count, set
 * @pid:	the process, which nobody else waits for
 */
void blocked_begin(struct blocked *blocked, pid_t pid)
{
	*blocked = (struct blocked) { .pid = pid, .tick = now_ms() };
}

/**
 * blocked_count - count a tick
 * @blocked:	the count
 * @state:	of the process, as /proc has it
 * @cpu:	what it has used so far, in ns
 *
 * What has ended goes on no more than what waits.
 */
void blocked_count(struct blocked *blocked, char state, u64 cpu)
{
	bool waits = state == 'S' || state == 'D' || state == 'Z' || state == UNSEEN;

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
 * blocked_look - bring the count up to date, which is to be done each tick
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
 * strikes_left - how many of those that hung still count?
 * @strikes:	how many there were
 * @since:	how long ago the last one was, in ms
 *
 * One is forgotten in each BLOCKED_MAX that goes by without another.
 */
unsigned int strikes_left(unsigned int strikes, long since)
{
	unsigned long forgotten = since / BLOCKED_MAX;

	return forgotten < strikes ? strikes - forgotten : 0;
}

/**
 * blocked_patience - for how long may opening a file hang?
 * @strikes:	how many have hung before
 *
 * One that hangs may be one of many, which are not waited for as long as the first.
 *
 * Return: the time in ms.
 */
unsigned int blocked_patience(unsigned int strikes)
{
	unsigned int max = strikes > 16 ? 0 : OPEN_BLOCKED_MAX >> strikes;

	return max < TICK ? TICK : max;
}

/**
 * strikes_more - one more hangs
 * @strikes:	how many there were
 *
 * Those that change nothing any more do not count, but for one: each is to be forgotten.
 *
 * Return: how many there are.
 */
unsigned int strikes_more(unsigned int strikes)
{
	return strikes && blocked_patience(strikes - 1) == TICK ? strikes : strikes + 1;
}

/**
 * blocked_wait - wait for what a process writes
 * @blocked:	the count of that process
 * @fd:		where that can be read
 * @max:	for how long it may hang, in ms
 * @all:	for how long it may wait in all, in ms
 *
 * Return: true if there is something to read, or the end of it.
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
 * stuck_add - remember a process that was killed
 * @pid:	the process, of STUCK_MAX at most
 * @uid:	whose file it has opened
 */
void stuck_add(pid_t pid, uid_t uid)
{
	if (nr_stuck == STUCK_MAX)
		return;
	stuck[nr_stuck].pid = pid;
	stuck[nr_stuck++].uid = uid;
}

/**
 * stuck_kill - end a process that hangs
 * @pid:	the process
 * @uid:	whose file it has opened
 *
 * It mostly can be killed, but not soon if the CPU is busy. What has not ended by then is left
 * to stuck_reap().
 */
void stuck_kill(pid_t pid, uid_t uid)
{
	kill(pid, SIGKILL);
	for (int tries = 0; tries < 10; tries++) {
		if (waitpid(pid, NULL, WNOHANG))
			return;
		poll(NULL, 0, 10);
	}
	stuck_add(pid, uid);
}

/**
 * stuck_reap - forget those that have ended
 */
void stuck_reap(void)
{
	/* From behind: who has ended is replaced by the last one. */
	for (unsigned int i = nr_stuck; i > 0; i--) {
		if (waitpid(stuck[i - 1].pid, NULL, WNOHANG))
			stuck[i - 1] = stuck[--nr_stuck];
	}
}

/**
 * stuck_nr - how many were killed, and have not ended?
 *
 * Return: their number, STUCK_MAX at most.
 */
unsigned int stuck_nr(void)
{
	return nr_stuck;
}

/**
 * stuck_has_room - may there be one more?
 * @uid:	whose file it would open
 *
 * No other user than this one has more than half of the places: nobody has to start much for that.
 *
 * Return: false if not.
 */
bool stuck_has_room(uid_t uid)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < nr_stuck; i++)
		nr += stuck[i].uid == uid;
	return nr_stuck < STUCK_MAX && (nr < STUCK_MAX / 2 || uid == getuid());
}
