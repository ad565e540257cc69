// SPDX-License-Identifier: GPL-2.0
/*
 * Processes that map a page of a file system that the test serves, and walk through it.
 * Meanwhile the test runs on and decides what the file system does.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sframe_child.h"
#include "workload.h"

int set_policy(int policy)
{
	const struct sched_param param = { .sched_priority = policy == SCHED_FIFO };

	return sched_setscheduler(0, policy, &param);
}

/* A stack that frame pointers can walk without the code. A table finds two more callers. */
static int walk_page(struct walker *walker, const void *map)
{
	const void **at = walker_words(walker);
	const void *words[] = {
		at + 5, map + 100, map + 200, chain_outermost, NULL, NULL, chain_outermost + 1,
	};
	struct trace with = {}, without = {};

	if (!walk_words(walker, words, ARRAY_SIZE(words)))
		return WRONG;
	trace_add_words(&without);
	trace_add(&without, words[1]);
	with = without;
	trace_add(&with, words[2]);
	trace_add(&with, words[3]);
	trace_add(&with, words[6]);
	trace_add(&without, words[6]);
	if (walker->event.nr == without.nr)
		return trace_is(walker, &without) ? WITHOUT_TABLE : WRONG;
	return trace_is(walker, &with) ? WITH_TABLE : WRONG;
}

/* Change the mappings at each further order, and say so. */
static void *changes_main(void *data)
{
	struct child *child = data;
	char c;

	while (read(child->go[0], &c, 1) == 1) {
		walk_anew();
		if (write(child->ready[1], "", 1) != 1)
			break;
	}
	return NULL;
}

/* Replace the program by one that ends with EXECED, in a call that came through the page. */
static void exec_through(const void *map)
{
	static const char * const args[] = { "sh", "-c", "exit " EXECED_TEXT, NULL };
	const long call[7] = { SYS_execve, (long)"/bin/sh", (long)args };
	/* The table finds the next return address after these, where there is none. */
	const void *frame[8] = { NULL, map + 100 };

	workload_call_fp(NULL, (unsigned long)frame, call);
}

static int child_main(struct child *child, const char *path, const struct orders *orders)
{
	uid_t uid = orders->uid, inner = orders->inner;
	struct walker walker;
	pthread_t changes;
	const char *why;
	void *map;
	char c;
	int how;

	if (walker_init(&walker, &why))
		return WRONG;
	map = mmap(NULL, SFRAME_PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE,
		   open(path, O_RDONLY | O_CLOEXEC), 0);
	if (orders->real_time && set_policy(SCHED_FIFO))
		return WRONG;
	if (uid && (setresgid(uid, uid, uid) || setresuid(uid, uid, uid)))
		return WRONG;
	if (inner && unshare(CLONE_NEWUSER))
		return WRONG;
	if (map == MAP_FAILED || write(child->ready[1], "", 1) != 1 ||
	    read(child->go[0], &c, 1) != 1)
		return WRONG;
	if (inner && setresuid(inner, inner, inner))
		return WRONG;
	if (orders->changes && pthread_create(&changes, NULL, changes_main, child))
		return WRONG;
	/* Set this after setresuid(), which clears it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (orders->execs)
		exec_through(map);
	if (orders->write_to)
		return pwrite(orders->write_to, map, SFRAME_PAGE, 0) != SFRAME_PAGE;
	do {
		walk_anew();
		how = walk_page(&walker, map);
	} while (how == WITHOUT_TABLE && orders->until_found);
	return how;
}

/* This process serves the file system and must not wait for the child here. */
bool child_start_to(struct child *child, struct fuse *fuse, const struct orders *orders)
{
	if (pipe(child->ready) || pipe(child->go))
		return false;
	child->pid = fork();
	if (!child->pid) {
		/* The server is gone once its last descriptor is closed. */
		close(fuse->fd);
		_exit(child_main(child, fuse->file, orders));
	}
	child->pidfd = syscall(SYS_pidfd_open, child->pid, 0);
	return child->pidfd >= 0 && !fuse_wait_for_fault(fuse, child->ready[0]);
}

int child_map_ids(const struct child *child, unsigned int nr)
{
	char dir[32];

	snprintf(dir, sizeof(dir), "/proc/%d", child->pid);
	return file_print(dir, "uid_map", "0 %u %u", INNER_IDS, nr);
}

bool child_start(struct child *child, struct fuse *fuse, bool until_found)
{
	return child_start_to(child, fuse, &(struct orders) { .until_found = until_found });
}

void child_go(struct child *child)
{
	if (write(child->go[1], "", 1) != 1)
		exit(1);
}

int child_end(struct child *child, struct fuse *fuse, const void *page)
{
	int status;

	while (fuse->fd >= 0 && fuse_wait_for_fault(fuse, child->pidfd)) {
		if (!page)
			return -1;
		fuse_resolve(fuse, page);
	}
	return waitpid(child->pid, &status, 0) == child->pid ? status : -1;
}
