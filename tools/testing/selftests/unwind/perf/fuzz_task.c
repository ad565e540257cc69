// SPDX-License-Identifier: GPL-2.0
/*
 * A task for events of fuzzers to sample: it makes system calls, faults, forks, execs, exits, moves
 * to other CPUs and takes signals.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz_records.h"
#include "fuzz_task.h"
#include "random.h"
#include "workload.h"

static void on_signal(int sig)
{
	syscall(SYS_getppid);
}

static void *thread(void *data)
{
	for (int i = 0; i < 3; i++)
		workload_syscall(i * 3, SYS_getppid);
	return NULL;
}

enum end { EXITS, EXECUTES, IS_KILLED };

static void have_child(enum end end)
{
	pid_t pid = fork();

	if (!pid) {
		workload_syscall(3, SYS_getppid);
		if (end == EXECUTES)
			execl("/bin/true", "true", NULL);
		if (end == IS_KILLED)
			raise(SIGKILL);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static void touch_memory(void)
{
	char *map = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (map == MAP_FAILED)
		return;
	for (int i = 0; i < 8; i++)
		map[i * PAGE] = 1;
	munmap(map, 8 * PAGE);
}

void fuzz_task(void)
{
	pthread_t id;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);
	signal(SIGUSR1, on_signal);
	signal(SIGTRAP, on_signal);
	signal(SIGIO, SIG_IGN);
	for (;;) {
		switch (rnd_below(12)) {
		case 0:
			have_child(EXECUTES);
			break;
		case 1:
			have_child(EXITS);
			break;
		case 2:
			if (!pthread_create(&id, NULL, thread, NULL))
				pthread_join(id, NULL);
			break;
		case 3:
			workload_syscall(3, SYS_tkill, gettid(), SIGUSR1);
			break;
		case 4:
			touch_memory();
			break;
		case 5:
			usleep(rnd_below(1000));
			break;
		case 6:
			pin_to(rnd_below(2));
			break;
		case 7:
			sched_yield();
			break;
		case 8:
			have_child(IS_KILLED);
			break;
		default:
			workload_syscall(rnd_below(200), SYS_getppid);
		}
	}
}
