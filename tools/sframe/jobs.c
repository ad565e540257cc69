// SPDX-License-Identifier: GPL-2.0
/*
 * Conversions, each by a process of its own: files are whatever somebody has written, and
 * one that libdw fails on, or needs all memory and time for, is one file less.
 *
 * As many go on at once as there are CPUs, and the rest waits for its turn. What cannot begin for
 * want of descriptors, memory or processes keeps its turn until it can; what cannot open its file
 * for that may have other turns, but not without end: a server may give any error. One that hangs
 * and cannot be killed has its place until it ends, but nobody waits for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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

/* How often to try to open the file, in ticks, and the exit status if there was no way. */
#define OPEN_TRIES	10
#define STATUS_SCARCE	2

/*
 * How many turns a file has that cannot be opened: so many that all of them take as long as one
 * that hangs may, which is longer than the kernel waits for a lease to be given up.
 */
#define TURNS_MAX	(BLOCKED_MAX / (OPEN_TRIES * TICK))

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

/* What else the session has open is not needed, and may be all that can be. */
static void close_others(int one, int other)
{
	const int kept[] = { one < other ? one : other, one < other ? other : one };
	int from = STDERR_FILENO + 1;

	for (int i = 0; i < 2; i++) {
		if (kept[i] > from)
			syscall(SYS_close_range, from, kept[i] - 1, 0);
		if (kept[i] >= from)
			from = kept[i] + 1;
	}
	syscall(SYS_close_range, from, ~0U, 0);
}

/* The file, to be read. All may have too many open, or somebody a lease of this one. */
static int job_open(const struct job *job, int file)
{
	int fd = file_reopen(file, O_RDONLY), error;

	for (int tries = 1; fd < 0 && is_scarce(errno) && tries < OPEN_TRIES; tries++) {
		poll(NULL, 0, TICK);
		fd = file_reopen(file, O_RDONLY);
	}
	if (fd >= 0)
		return fd;
	error = errno;
	snprintf(job->message, SFRAME_MESSAGE, "cannot be opened: %s", strerror(error));
	_exit(is_scarce(error) ? STATUS_SCARCE : 1);
}

static void __attribute__((noreturn)) job_main(const struct job *job, int file, pid_t parent)
{
	struct sframe_options options = {};
	struct sframe_output out;
	size_t done = 0;
	struct stat st;
	ssize_t got;
	u64 lost = 0;
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	job_limit_cpu(JOB_SECONDS);
	close_others(job->output, file);
	if (!fstat(file, &st))
		image_limit_memory(st.st_size);
	fd = job_open(job, file);
	if (sframe_convert_fd(fd, &options, &out)) {
		snprintf(job->message, SFRAME_MESSAGE, "%s", out.message);
		_exit(1);
	}
	for (unsigned int i = 0; i < SFRAME_LOSS_NR; i++)
		lost += out.stats.lost[i];
	for (; done < out.size; done += got) {
		got = write(job->output, out.bytes + done, out.size - done);
		if (got < 0) {
			snprintf(job->message, SFRAME_MESSAGE,
				 "has a section that cannot be kept: %s", strerror(errno));
			_exit(1);
		}
	}
	snprintf(job->message, SFRAME_MESSAGE, "%llu", (unsigned long long)lost);
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
 * @job:	which is waited for; @again and @lost are set
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
		job->again = WEXITSTATUS(status) == STATUS_SCARCE;
		/* Who wrote it may have been mistaken about its end. */
		snprintf(message, SFRAME_MESSAGE, "%.*s", SFRAME_MESSAGE - 1, job->message);
	} else {
		snprintf(message, SFRAME_MESSAGE, "%.*s", SFRAME_MESSAGE - 1, job->message);
		job->lost = strtoull(message, NULL, 10);
		section = job->output;
		job->output = -1;
	}
	job_free(job);
	return section;
}

/**
 * jobs_init - begin
 * @jobs:	conversions, all 0
 */
void jobs_init(struct jobs *jobs)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	jobs->end = &jobs->queue;
	jobs->max = cpus < 1 ? 1 : cpus > JOBS_MAX ? JOBS_MAX : cpus;
}

/**
 * jobs_queue - have a file converted
 * @jobs:	conversions
 * @dso:	the file, which is open
 */
void jobs_queue(struct jobs *jobs, struct dso *dso)
{
	dso->turn = ++jobs->turns;
	dso->next = NULL;
	*jobs->end = dso;
	jobs->end = &dso->next;
	jobs->waiting++;
}

/* It has no use for its place any more. */
static void dso_close(struct dso *dso)
{
	close(dso->file);
	dso->file = -1;
}

/* Out of the queue, be it that it has begun or that it cannot. */
static struct dso *jobs_take(struct jobs *jobs)
{
	struct dso *dso = jobs->queue;

	jobs->queue = dso->next;
	if (!jobs->queue)
		jobs->end = &jobs->queue;
	jobs->waiting--;
	return dso;
}

/**
 * jobs_start - begin as many as there may be
 * @jobs:	conversions
 * @error:	set to why one cannot be begun, an error of errno.h
 *
 * What is missing for the time being is in jobs->held, and the first one waits for that.
 *
 * Return: one that cannot be begun, and others may; NULL if all have begun that may.
 */
struct dso *jobs_start(struct jobs *jobs, int *error)
{
	jobs->held = 0;
	while (jobs->queue && jobs->nr < JOBS_MAX && jobs_going(jobs) < jobs->max) {
		struct running *running = &jobs->running[jobs->nr];

		*running = (struct running) { .dso = jobs->queue };
		*error = -job_start(&running->job, jobs->queue->file);
		if (*error && is_scarce(*error)) {
			jobs->held = *error;
			return NULL;
		}
		jobs_take(jobs);
		if (*error) {
			dso_close(running->dso);
			return running->dso;
		}
		blocked_begin(&running->blocked, running->job.pid);
		jobs->nr++;
	}
	return NULL;
}

/* It is killed, and not waited for. Returns what was converted. */
static struct dso *running_kill(struct jobs *jobs, struct running *running)
{
	kill(running->job.pid, SIGKILL);
	running->killed = true;
	dso_close(running->dso);
	jobs->nr_killed++;
	return running->dso;
}

/**
 * jobs_kill_blocked - kill what waits for a file system that does not answer, or not soon
 * @jobs:	conversions
 * @hangs:	set to which of these it is
 *
 * It may be that it cannot be killed: nobody waits for it, and it keeps its place.
 *
 * Return: what was converted, and there may be more; NULL if there is none.
 */
struct dso *jobs_kill_blocked(struct jobs *jobs, bool *hangs)
{
	for (unsigned int i = 0; i < jobs->nr; i++) {
		struct running *running = &jobs->running[i];

		if (running->killed)
			continue;
		blocked_look(&running->blocked);
		*hangs = running->blocked.ms >= BLOCKED_MAX;
		if (!*hangs && running->blocked.waited < WAITED_TIMES * BLOCKED_MAX)
			continue;
		return running_kill(jobs, running);
	}
	return NULL;
}

/**
 * jobs_end - end one that is over
 * @jobs:	conversions
 * @nr:		which of them; the last one gets its number
 * @section:	set to the section, a file; to -1 if there is none
 * @again:	may it have another turn? Set to whether it has one
 * @message:	gets what was wrong, of SFRAME_MESSAGE bytes
 *
 * Return: what was converted; NULL if nobody has waited for that.
 */
struct dso *jobs_end(struct jobs *jobs, unsigned int nr, int *section, bool *again,
		     char *message)
{
	struct running *running = &jobs->running[nr];
	struct dso *dso = running->killed ? NULL : running->dso;

	*section = job_end(&running->job, message);
	*again = *again && dso && running->job.again && ++dso->tried < TURNS_MAX;
	jobs->nr_killed -= running->killed;
	if (dso)
		dso->lost = running->job.lost;
	*running = jobs->running[--jobs->nr];
	if (!dso && *section >= 0) {
		close(*section);
		*section = -1;
	}
	if (*again)
		jobs_queue(jobs, dso);
	else if (dso)
		dso_close(dso);
	return dso;
}

/**
 * jobs_going - how many conversions are waited for?
 * @jobs:	conversions
 */
unsigned int jobs_going(const struct jobs *jobs)
{
	return jobs->nr - jobs->nr_killed;
}

/**
 * jobs_are_done - is there nothing to wait for any more?
 * @jobs:	conversions
 * @last:	the last turn that counts
 * @row:	what has not gone on for so long does not count, in ms
 */
bool jobs_are_done(const struct jobs *jobs, unsigned long last, unsigned int row)
{
	unsigned int going = jobs_going(jobs);
	bool startable = jobs->nr < JOBS_MAX && going < jobs->max && (going || !jobs->held);

	for (unsigned int i = 0; i < jobs->nr; i++) {
		const struct running *running = &jobs->running[i];

		if (!running->killed && running->dso->turn <= last && running->blocked.row < row)
			return false;
	}
	return !jobs->queue || jobs->queue->turn > last || !startable;
}

/**
 * jobs_each - do something for all that is not converted yet
 * @jobs:	conversions
 * @fn:		what to do
 */
void jobs_each(struct jobs *jobs, void (*fn)(struct dso *dso))
{
	for (struct dso *dso = jobs->queue; dso; dso = dso->next)
		fn(dso);
	for (unsigned int i = 0; i < jobs->nr; i++) {
		if (!jobs->running[i].killed)
			fn(jobs->running[i].dso);
	}
}

/**
 * jobs_drop - convert some files no more
 * @jobs:	conversions
 * @drops:	called for each that is not converted yet, and may hang: is it one of them?
 * @data:	for @drops
 */
void jobs_drop(struct jobs *jobs, bool (*drops)(void *data, struct dso *dso, bool hangs),
	       void *data)
{
	struct dso **at = &jobs->queue, *dso;

	while ((dso = *at)) {
		if (drops(data, dso, false)) {
			*at = dso->next;
			jobs->waiting--;
			dso_close(dso);
		} else {
			at = &dso->next;
		}
	}
	jobs->end = at;
	for (unsigned int i = 0; i < jobs->nr; i++) {
		struct running *running = &jobs->running[i];

		if (!running->killed &&
		    drops(data, running->dso, running->blocked.row >= OPEN_BLOCKED_MAX))
			running_kill(jobs, running);
	}
}

/**
 * jobs_free - kill all that go on
 * @jobs:	conversions
 */
void jobs_free(struct jobs *jobs)
{
	char message[SFRAME_MESSAGE];

	for (unsigned int i = 0; i < jobs->nr; i++) {
		int section;

		if (jobs->running[i].killed)
			continue;
		kill(jobs->running[i].job.pid, SIGKILL);
		section = job_end(&jobs->running[i].job, message);
		if (section >= 0)
			close(section);
	}
}
