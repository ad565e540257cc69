// SPDX-License-Identifier: GPL-2.0
/*
 * Conversions, each in a separate process: files are not trusted. If libdw crashes on a file, or
 * needs too much memory or time, only that file is lost. If it takes over libdw, it can do little
 * but spoil its own section, see confine.c.
 *
 * One conversion runs per CPU, and the others are queued. A conversion that cannot start for lack
 * of descriptors, memory or processes keeps its turn. One that cannot open its file for such a
 * lack gets more turns, but a limited number, because a server may return any error. One that
 * hangs and cannot be killed keeps its slot until it ends, but nothing waits for it.
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

/* Attempts to open the file, one per tick, and the exit status if all have failed. */
#define OPEN_TRIES	10
#define STATUS_SCARCE	2

/* Attempts to get the status of a process that has ended, one every 10 ms. */
#define TRACED_TRIES	100

/*
 * Turns of a file that cannot be opened. Together they take as long as a file may hang, which is
 * longer than the kernel waits for the holder of a lease.
 */
#define TURNS_MAX	(BLOCKED_MAX / (OPEN_TRIES * TICK))

/**
 * job_limit_cpu - limit the CPU time that this process uses from now on
 * @seconds:	the limit, unless the process began with a lower one; SIGXCPU then kills it, without
 *		a core dump
 *
 * A process that does one thing after the other sets the limit anew for each.
 */
void job_limit_cpu(unsigned int seconds)
{
	static struct rlimit former;
	static bool known;
	struct rlimit limit = {};
	struct timespec used;

	signal(SIGXCPU, SIG_DFL);
	setrlimit(RLIMIT_CORE, &limit);
	known = known || !getrlimit(RLIMIT_CPU, &former);
	if (!known || clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used))
		return;
	limit = former;
	/* Round up the time used so far. */
	if (limit.rlim_cur > used.tv_sec + 1 + seconds)
		limit.rlim_cur = used.tv_sec + 1 + seconds;
	/* At the hard limit the kernel sends SIGKILL, which does not say why. */
	if (limit.rlim_cur == limit.rlim_max && limit.rlim_max > 1)
		limit.rlim_cur--;
	setrlimit(RLIMIT_CPU, &limit);
}

/**
 * job_close_others - close all files of the session, which may use up the descriptors
 * @one:	but not this one
 * @other:	nor this one
 */
void job_close_others(int one, int other)
{
	const int kept[] = { one < other ? one : other, one < other ? other : one };
	int from = STDERR_FILENO + 1;

	for (int i = 0; i < 2; i++) {
		if (kept[i] > from)
			syscall(__NR_close_range, from, kept[i] - 1, 0);
		if (kept[i] >= from)
			from = kept[i] + 1;
	}
	syscall(__NR_close_range, from, ~0U, 0);
}

/* Open the file for reading. Retry if descriptors are short, or another task holds a lease. */
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

/*
 * No section is larger: a file that takes over libdw must not fill the disk or the memory. The
 * server ignores SIGXFSZ, so that a larger write fails with EFBIG.
 */
static void job_limit_output(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur <= SFRAME_SECTION_MAX)
		return;
	limit.rlim_cur = SFRAME_SECTION_MAX;
	limit.rlim_max = SFRAME_SECTION_MAX;
	setrlimit(RLIMIT_FSIZE, &limit);
}

/**
 * job_be_first_to_die - if memory is short, end this process first
 *
 * Other programs must not suffer from a hostile file.
 */
void job_be_first_to_die(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	dprintf(fd, "1000");
	close(fd);
}

/*
 * A file that was written to since its build-id was read may have another one now. Then its section
 * must not be kept with the former one.
 */
static bool was_written(int fd, const struct timespec *mtime)
{
	struct stat st;

	return fstat(fd, &st) || st.st_mtim.tv_sec != mtime->tv_sec ||
	       st.st_mtim.tv_nsec != mtime->tv_nsec;
}

static void __attribute__((noreturn)) job_main(const struct job *job, int file,
					       const struct timespec *mtime, pid_t parent)
{
	struct sframe_options options = {};
	struct sframe_output out;
	size_t done = 0;
	ssize_t got;
	u64 lost = 0;
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	job_limit_cpu(JOB_SECONDS);
	job_limit_output();
	job_close_others(job->output, file);
	job_be_first_to_die();
	image_limit_memory(0);
	fd = job_open(job, file);
	if (!confine()) {
		snprintf(job->message, SFRAME_MESSAGE, "cannot be converted safely: %s",
			 strerror(errno));
		_exit(1);
	}
	if (sframe_convert_fd(fd, &options, &out)) {
		snprintf(job->message, SFRAME_MESSAGE, "%s", out.message);
		_exit(1);
	}
	if (was_written(fd, mtime)) {
		snprintf(job->message, SFRAME_MESSAGE, "was written to before it was converted");
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
 * job_start - start converting a file
 * @job:	set; pass it to job_end() if this returns 0
 * @file:	the file, or its O_PATH descriptor; the caller may close it afterwards
 * @mtime:	its modification time when its build-id was read; if it is another one after the
 *		conversion, there is no section
 *
 * Return: 0, or a negative errno.
 */
int job_start(struct job *job, int file, const struct timespec *mtime)
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
		job_main(job, file, mtime, parent);
	if (job->pid > 0) {
		/* Later conversions must not write to it. */
		madvise(job->message, SFRAME_MESSAGE, MADV_DONTFORK);
		job->pidfd = syscall(__NR_pidfd_open, job->pid, 0);
	}
	if (job->pidfd < 0) {
		int error = errno;

		if (job->pid > 0)
			stuck_kill(job->pid, getuid());
		job_free(job);
		return -error;
	}
	return 0;
}

/* A process that has ended is there at once, but for a tracer, which gets its status first. */
static pid_t job_wait(struct job *job, int *status)
{
	struct rusage usage = {};
	pid_t ended = wait4(job->pid, status, WNOHANG, &usage);

	for (int tries = 0; !ended && tries < TRACED_TRIES; tries++) {
		poll(NULL, 0, 10);
		ended = wait4(job->pid, status, WNOHANG, &usage);
	}
	job->cpu = 1000 * (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
		   (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
	return ended;
}

/**
 * job_end - end a conversion
 * @job:	the conversion, whose process has ended; @again, @lost and @cpu are set
 * @message:	set to the error message, SFRAME_MESSAGE bytes
 *
 * Leaves the process to stuck_reap() if a tracer keeps it for longer than a second.
 *
 * Return: the section, a file; -1 if there is none.
 */
int job_end(struct job *job, char *message)
{
	int status, section = -1;
	pid_t pid = job_wait(job, &status);

	if (!pid) {
		stuck_add(job->pid, getuid());
		snprintf(message, SFRAME_MESSAGE,
			 "was not converted, as the process is kept by one that traces it");
	} else if (pid < 0) {
		snprintf(message, SFRAME_MESSAGE, "was not converted, as the process is gone");
	} else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
		snprintf(message, SFRAME_MESSAGE,
			 "was not converted, as the process was killed, perhaps for want of memory");
	} else if (WIFSIGNALED(status)) {
		snprintf(message, SFRAME_MESSAGE, "takes too long, or breaks libdw: %s",
			 strsignal(WTERMSIG(status)));
	} else if (WEXITSTATUS(status)) {
		job->again = WEXITSTATUS(status) == STATUS_SCARCE;
		/* The process may not have terminated the message. */
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
 * jobs_init - initialize the conversions
 * @jobs:	conversions, all 0
 */
void jobs_init(struct jobs *jobs)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	jobs->end = &jobs->queue;
	jobs->max = cpus < 1 ? 1 : cpus > JOBS_MAX ? JOBS_MAX : cpus;
}

/**
 * jobs_queue - queue a file for conversion
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

/* Close the O_PATH descriptor of a file. */
static void dso_close(struct dso *dso)
{
	close(dso->file);
	dso->file = -1;
}

/* Remove the first dso from the queue, because it has started or cannot start. */
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
 * jobs_start - start as many conversions as allowed
 * @jobs:	conversions
 * @error:	set to why one cannot start, an errno: ETIME if all have taken too long
 *
 * Sets jobs->held to an error that may go away: the first dso of the queue waits for that.
 *
 * Return: a dso that cannot be converted, call again for the others; NULL if all possible ones
 * have started.
 */
struct dso *jobs_start(struct jobs *jobs, int *error)
{
	jobs->held = 0;
	while (jobs->queue && jobs->nr < JOBS_MAX && jobs_going(jobs) < jobs->max) {
		struct running *running = &jobs->running[jobs->nr];

		*running = (struct running) { .dso = jobs->queue };
		*error = ETIME;
		if (!jobs->cpu_max || jobs->cpu < jobs->cpu_max)
			*error = -job_start(&running->job, jobs->queue->file,
					    &jobs->queue->identity.mtime);
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

/* Kill a conversion without waiting for it. Returns its dso. */
static struct dso *running_kill(struct jobs *jobs, struct running *running)
{
	kill(running->job.pid, SIGKILL);
	running->killed = true;
	dso_close(running->dso);
	jobs->nr_killed++;
	return running->dso;
}

/**
 * jobs_kill_blocked - kill a conversion whose file system hangs or is too slow
 * @jobs:	conversions
 * @hangs:	set to true if it hangs, false if it is slow
 *
 * A process that cannot be killed keeps its slot, but nothing waits for it.
 *
 * Return: its dso, call again for more; NULL if there is none.
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
 * jobs_end - finish a conversion whose process has ended
 * @jobs:	conversions
 * @nr:		its index; the last conversion takes this index
 * @section:	set to the section, a file; -1 if there is none
 * @again:	in: may it get another turn? out: has it got one?
 * @message:	set to the error message, SFRAME_MESSAGE bytes
 *
 * Return: its dso; NULL if it was killed before.
 */
struct dso *jobs_end(struct jobs *jobs, unsigned int nr, int *section, bool *again,
		     char *message)
{
	struct running *running = &jobs->running[nr];
	struct dso *dso = running->killed ? NULL : running->dso;

	*section = job_end(&running->job, message);
	*again = *again && dso && running->job.again && ++dso->tried < TURNS_MAX;
	jobs->nr_killed -= running->killed;
	jobs->cpu += running->job.cpu;
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
 * jobs_going - count running conversions that were not killed
 * @jobs:	conversions
 */
unsigned int jobs_going(const struct jobs *jobs)
{
	return jobs->nr - jobs->nr_killed;
}

/**
 * jobs_are_done - are all conversions up to a turn done?
 * @jobs:	conversions
 * @last:	the last turn that counts
 * @row:	ignore conversions that were blocked for this long, in ms
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
 * jobs_each - call a function for each file not converted yet
 * @jobs:	conversions
 * @fn:		the function
 * @data:	for @fn
 */
void jobs_each(struct jobs *jobs, void (*fn)(struct dso *dso, long data), long data)
{
	for (struct dso *dso = jobs->queue; dso; dso = dso->next)
		fn(dso, data);
	for (unsigned int i = 0; i < jobs->nr; i++) {
		if (!jobs->running[i].killed)
			fn(jobs->running[i].dso, data);
	}
}

/**
 * jobs_drop - cancel the conversion of some files
 * @jobs:	conversions
 * @drops:	called for each file not converted yet; returns true to cancel it
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
 * jobs_free - kill all running conversions
 * @jobs:	conversions
 */
void jobs_free(struct jobs *jobs)
{
	for (unsigned int i = 0; i < jobs->nr; i++)
		kill(jobs->running[i].job.pid, SIGKILL);
	for (unsigned int i = 0; i < jobs->nr; i++) {
		if (!jobs->running[i].killed)
			stuck_kill(jobs->running[i].job.pid, getuid());
		job_free(&jobs->running[i].job);
	}
}
