// SPDX-License-Identifier: GPL-2.0
/*
 * Conversions, each by a process of its own: files are whatever somebody has written, and
 * one that libdw fails on, or needs all memory and time for, is one file less.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "session.h"

/* Some hundred times what the largest programs take. */
#define JOB_SECONDS	100

/**
 * job_limit_cpu - limit the CPU that this process uses from now on
 * @seconds:	how much; it is killed by SIGXCPU then, and leaves no core
 */
void job_limit_cpu(unsigned int seconds)
{
	struct rlimit limit = {};
	struct timespec used;

	signal(SIGXCPU, SIG_DFL);
	setrlimit(RLIMIT_CORE, &limit);
	if (getrlimit(RLIMIT_CPU, &limit) || clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used))
		return;
	/* What was used is more than whole seconds. */
	limit.rlim_cur = used.tv_sec + 1 + seconds;
	if (limit.rlim_cur > limit.rlim_max)
		limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_CPU, &limit);
}

static void __attribute__((noreturn)) job_main(const struct job *job, int file, pid_t parent)
{
	struct sframe_options options = {};
	struct sframe_output out;
	size_t done = 0;
	struct stat st;
	ssize_t got;
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	job_limit_cpu(JOB_SECONDS);
	if (!fstat(file, &st))
		image_limit_memory(st.st_size);
	fd = file_reopen(file, O_RDONLY);
	if (fd < 0) {
		snprintf(job->message, SFRAME_MESSAGE, "cannot be opened: %s", strerror(errno));
		_exit(1);
	}
	if (sframe_convert_fd(fd, &options, &out)) {
		snprintf(job->message, SFRAME_MESSAGE, "%s", out.message);
		_exit(1);
	}
	for (; done < out.size; done += got) {
		got = write(job->output, out.bytes + done, out.size - done);
		if (got < 0) {
			snprintf(job->message, SFRAME_MESSAGE,
				 "has a section that cannot be kept: %s", strerror(errno));
			_exit(1);
		}
	}
	_exit(0);
}

static void job_free(struct job *job)
{
	if (job->output >= 0)
		close(job->output);
	if (job->pidfd >= 0)
		close(job->pidfd);
	if (job->message != MAP_FAILED)
		munmap(job->message, SFRAME_MESSAGE);
}

/**
 * job_start - begin to convert a file
 * @job:	set, to be given to job_end() if this returns 0
 * @file:	the file, or its place, which may be closed then
 *
 * Return: 0, or an error of errno.h, negative.
 */
int job_start(struct job *job, int file)
{
	pid_t parent = getpid();

	*job = (struct job) { .pidfd = -1, .output = memfd_create("sframe", MFD_CLOEXEC) };
	job->message = mmap(NULL, SFRAME_MESSAGE, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (job->output >= 0 && job->message != MAP_FAILED)
		job->pid = fork();
	else
		job->pid = -1;
	if (!job->pid)
		job_main(job, file, parent);
	if (job->pid > 0)
		job->pidfd = syscall(SYS_pidfd_open, job->pid, 0);
	if (job->pidfd < 0) {
		int error = errno;

		if (job->pid > 0) {
			kill(job->pid, SIGKILL);
			waitpid(job->pid, NULL, 0);
		}
		job_free(job);
		return -error;
	}
	return 0;
}

/**
 * job_end - end a conversion
 * @job:	which is waited for
 * @message:	gets what was wrong, of SFRAME_MESSAGE bytes
 *
 * Return: the section, a file; -1 if there is none.
 */
int job_end(struct job *job, char *message)
{
	int status, section = -1;

	if (waitpid(job->pid, &status, 0) != job->pid) {
		snprintf(message, SFRAME_MESSAGE, "was converted by nobody");
	} else if (WIFSIGNALED(status)) {
		snprintf(message, SFRAME_MESSAGE, "takes too long, or breaks libdw: %s",
			 strsignal(WTERMSIG(status)));
	} else if (WEXITSTATUS(status)) {
		/* Who wrote it may have been mistaken about its end. */
		snprintf(message, SFRAME_MESSAGE, "%.*s", SFRAME_MESSAGE - 1, job->message);
	} else {
		section = job->output;
		job->output = -1;
	}
	job_free(job);
	return section;
}
