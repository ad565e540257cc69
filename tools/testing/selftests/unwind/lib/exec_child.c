// SPDX-License-Identifier: GPL-2.0
/*
 * A process that executes itself forever.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec_child.h"

/* Find the path of exec_loop, next to this program; returns its entry point or 0. */
static unsigned long find_exec_loop(char *path, size_t size)
{
	ssize_t len = readlink("/proc/self/exe", path, size - sizeof("exec_loop"));
	Elf64_Ehdr elf;
	ssize_t got;
	int fd;

	while (len > 0 && path[len - 1] != '/')
		len--;
	memcpy(path + (len < 0 ? 0 : len), "exec_loop", sizeof("exec_loop"));
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return 0;
	got = read(fd, &elf, sizeof(elf));
	close(fd);
	return got == sizeof(elf) ? elf.e_entry : 0;
}

int exec_loop_prepare(struct exec_loop *loop)
{
	char path[PATH_MAX], c;
	int go[2];

	loop->entry = find_exec_loop(path, sizeof(path));
	if (!loop->entry || pipe2(go, O_CLOEXEC))
		return -1;

	loop->go = go[1];
	loop->pid = fork();
	if (!loop->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (read(go[0], &c, 1) == 1)
			execl(path, path, NULL);
		_exit(1);
	}
	close(go[0]);
	return loop->pid < 0 ? -1 : 0;
}

int exec_loop_start(struct exec_loop *loop)
{
	return write(loop->go, "", 1) == 1 ? 0 : -1;
}

bool exec_loop_stop(struct exec_loop *loop)
{
	int status;

	kill(loop->pid, SIGKILL);
	close(loop->go);
	return waitpid(loop->pid, &status, 0) == loop->pid && WIFSIGNALED(status) &&
	       WTERMSIG(status) == SIGKILL;
}
