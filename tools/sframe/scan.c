// SPDX-License-Identifier: GPL-2.0
/*
 * Read the existing mappings of processes from /proc.
 *
 * For that the kernel takes the lock of a process's mappings, which the process can keep for as
 * long as it likes: a fault of its own waits with the lock for a file that it serves itself. So
 * another process reads the mappings. If it hangs, it is killed, and the next one goes on with the
 * process after that.
 *
 * There may be any number of processes and mappings, so a scan takes a limited time. If that is too
 * short, the next scan goes on where it stopped.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "session.h"

/*
 * Time of a scan without waits, which have limits of their own, in ms. So much is also for the
 * files of one process, and CPU time to read its mappings.
 */
#ifndef SCAN_MAX
#define SCAN_MAX	5000
#endif

/* How often a process of too many files leads to another scan, in which it may take less time. */
#define CUTS_MAX	16

/* Lines of /proc/PID/maps that name a file are shorter, even if all of the name is escaped. */
#define LINES_SIZE	(1 << 16)

/**
 * struct reader - the process that reads mappings
 * @pid:	the process, 0 if there is none
 * @socket:	takes a pid, and gives the lines of that process, and then one with END
 * @lines:	what was received of them
 * @at:		start of the next line
 * @size:	end of what was received
 * @strikes:	recent hangs
 * @struck:	when the last one was, in ms
 * @deaf:	the process whose mappings hung then, or took too long to read
 * @hung:	time lost to hangs in this scan, in ms
 * @cuts:	how often a process had too many files
 */
static struct reader {
	pid_t		pid;
	int		socket;
	char		lines[LINES_SIZE];
	size_t		at;
	size_t		size;
	unsigned int	strikes;
	long		struck;
	pid_t		deaf;
	unsigned int	hung;
	unsigned int	cuts;
} reader;

/* Begins the last line, which says whether all could be read. */
#define END	'='

/* Send the lines of files with code. */
static void read_maps(FILE *out, pid_t pid)
{
	char *line = NULL, path[32], x;
	bool whole = true;
	size_t size = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	if (!maps)
		whole = !is_scarce(errno);
	errno = 0;
	while (maps && getline(&line, &size, maps) > 0) {
		if (sscanf(line, "%*x-%*x %*2c%c", &x) == 1 && x == 'x' && strchr(line, '/'))
			fputs(line, out);
		errno = 0;
	}
	if (maps) {
		whole = feof(maps) || !is_scarce(errno);
		fclose(maps);
	}
	free(line);
	fprintf(out, "%c%d\n", END, whole);
}

static void __attribute__((noreturn)) reader_main(int socket, pid_t parent)
{
	int ours = child_begin(socket, parent);
	FILE *out = fdopen(ours, "w");
	pid_t pid;

	while (out && recv(ours, &pid, sizeof(pid), MSG_WAITALL) == sizeof(pid)) {
		job_limit_cpu((SCAN_MAX + 999) / 1000);
		read_maps(out, pid);
		if (fflush(out))
			break;
	}
	_exit(0);
}

static bool reader_start(void)
{
	pid_t parent = getpid();
	int sockets[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
		return false;
	reader.pid = fork();
	if (!reader.pid)
		reader_main(sockets[1], parent);
	close(sockets[1]);
	if (reader.pid < 0) {
		int error = errno;

		close(sockets[0]);
		reader.pid = 0;
		errno = error;
		return false;
	}
	reader.socket = sockets[0];
	reader.at = 0;
	reader.size = 0;
	return true;
}

static void reader_end(void)
{
	if (!reader.pid)
		return;
	close(reader.socket);
	stuck_kill(reader.pid, getuid());
	reader.pid = 0;
}

/* The next line, without its end, which is valid until the next call; NULL if none comes. */
static char *reader_line(struct blocked *blocked)
{
	unsigned int patience = blocked_patience(strikes_left(reader.strikes,
							      now_ms() - reader.struck));
	unsigned int all = WAITS_MAX - reader.hung;

	if (all > WAITED_TIMES * patience)
		all = WAITED_TIMES * patience;
	for (;;) {
		char *line = reader.lines + reader.at, *end;
		size_t size = reader.size - reader.at;
		ssize_t got;

		end = memchr(line, '\n', size);
		if (end) {
			*end = '\0';
			reader.at = end + 1 - reader.lines;
			return line;
		}
		memmove(reader.lines, line, size);
		reader.at = 0;
		reader.size = size;
		if (!blocked_wait(blocked, reader.socket, patience, all))
			return NULL;
		got = read(reader.socket, reader.lines + size, LINES_SIZE - size);
		if (got <= 0)
			return NULL;
		reader.size += got;
	}
}

/* Restore line breaks in a name: /proc escapes nothing else, not even '\'. */
static void unescape(char *name)
{
	char *to = name;

	for (const char *from = name; *from; from++) {
		*to = *from;
		if (!strncmp(from, "\\012", 4)) {
			*to = '\n';
			from += 3;
		}
		to++;
	}
	*to = '\0';
}

/* Handle a line with device, inode and name of a file. */
static void found_line(char *line, pid_t pid, watch_fn found, void *data)
{
	struct mapping mapping = { .pid = pid };
	unsigned long long start, end;
	int file = 0, at = 0;

	if (sscanf(line, "%llx-%llx %*s %*s %n%*s %*s %n", &start, &end, &file, &at) != 2 ||
	    !at || !names_file(line + at))
		return;
	unescape(line + at);
	mapping.file = line + file;
	mapping.path = line + at;
	mapping.start = start;
	mapping.end = end;
	found(data, &mapping);
}

/* Time since @begin, without waits for files since then, of which there were @waited before. */
static long busy_since(long begin, const struct round *round, unsigned int waited)
{
	return now_ms() - begin - (round->waited - waited);
}

/*
 * Call @found for each line of the process. Returns false if it hangs, or uses up the time. The
 * files that were found are known then, and take less time in the next scan: @whole is set to false
 * for that, but not again and again.
 */
static bool found_lines(pid_t pid, const struct round *round, bool *whole, watch_fn found,
			void *data)
{
	unsigned int waited = round->waited;
	long begin = now_ms(), first = 0, hung;
	struct blocked blocked;
	char *line;

	blocked_begin(&blocked, reader.pid);
	while ((line = reader_line(&blocked))) {
		if (*line == END) {
			*whole = line[1] != '0';
			return true;
		}
		first = first ?: now_ms();
		if (busy_since(first, round, waited) >= SCAN_MAX) {
			*whole = reader.cuts++ >= CUTS_MAX;
			return false;
		}
		found_line(line, pid, found, data);
	}
	reader.strikes = strikes_more(strikes_left(reader.strikes, now_ms() - reader.struck));
	reader.struck = now_ms();
	hung = busy_since(begin, round, waited);
	reader.hung += hung > 0 ? hung : 0;
	return false;
}

/*
 * Call @found for each file with code that a process has mapped. A process whose mappings hang
 * counts as read: it would hang again.
 *
 * Returns false if some are missing for now.
 */
static bool scan_process(pid_t pid, const struct round *round, watch_fn found, void *data)
{
	bool whole = true;

	if (!reader.pid && !reader_start())
		return !is_scarce(errno);
	if (send(reader.socket, &pid, sizeof(pid), MSG_NOSIGNAL) == sizeof(pid)) {
		if (found_lines(pid, round, &whole, found, data))
			return whole;
		reader.deaf = pid;
	}
	reader_end();
	return whole;
}

/**
 * scan_deaf - tell whose mappings took too long to read
 *
 * Return: the last such process, or 0.
 */
pid_t scan_deaf(void)
{
	return reader.deaf;
}

/* A process, and whether it is to be scanned. */
struct process {
	pid_t	pid;
	pid_t	parent;
	bool	in;
};

/* Returns 0 if the process has ended, and -1 if its parent cannot be read for now. */
static pid_t parent_of(pid_t pid)
{
	char path[32], stat[128], *behind;
	pid_t parent = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return is_scarce(errno) ? -1 : 0;
	/* The name is short, but may contain any character. */
	if (fgets(stat, sizeof(stat), file)) {
		behind = strrchr(stat, ')');
		if (behind)
			sscanf(behind, ") %*c %d", &parent);
	}
	fclose(file);
	return parent;
}

static int compare_processes(const void *a, const void *b)
{
	const struct process *one = a, *two = b;

	return one->pid < two->pid ? -1 : one->pid > two->pid;
}

/* Processes, sorted by pid when complete. */
struct processes {
	struct process	*all;
	size_t		nr;
	size_t		room;
};

static bool processes_add(struct processes *list, pid_t pid, pid_t parent, bool in)
{
	if (list->nr == list->room) {
		size_t room = 2 * list->room + 256;
		struct process *more = realloc(list->all, room * sizeof(*more));

		if (!more)
			return false;
		list->all = more;
		list->room = room;
	}
	list->all[list->nr++] = (struct process) { pid, parent, in };
	return true;
}

/* Add all processes: each is to be scanned, or none is and their parents are known. */
static bool processes_read(struct processes *list, bool in)
{
	DIR *proc = opendir("/proc");
	bool whole = proc || !is_scarce(errno);
	struct dirent *entry;

	while (proc && (entry = readdir(proc))) {
		pid_t pid = atoi(entry->d_name), parent = 0;

		if (pid <= 0)
			continue;
		if (!in)
			parent = parent_of(pid);
		whole &= parent >= 0;
		whole &= processes_add(list, pid, parent, in);
	}
	if (proc)
		closedir(proc);
	return whole;
}

static struct process *processes_find(const struct processes *list, pid_t pid)
{
	const struct process key = { .pid = pid };

	return bsearch(&key, list->all, list->nr, sizeof(key), compare_processes);
}

/* Mark children of marked processes. Returns true to repeat: rarely, as pids mostly ascend. */
static bool processes_mark_children(struct processes *list)
{
	const struct process *parent;
	bool more = false;

	for (size_t i = 0; i < list->nr; i++) {
		struct process *process = &list->all[i];

		parent = process->in ? NULL : processes_find(list, process->parent);
		if (parent && parent->in) {
			process->in = true;
			more = true;
		}
	}
	return more;
}

/* Make the list of processes to scan. Returns false if some are missing for now. */
static bool processes_list(struct processes *list, const pid_t *pids, unsigned int nr_pids,
			   bool children)
{
	bool whole = nr_pids && !children ? true : processes_read(list, !nr_pids);
	struct process *process;

	for (unsigned int i = 0; i < nr_pids && !children; i++)
		whole &= processes_add(list, pids[i], 0, true);
	if (list->nr)
		qsort(list->all, list->nr, sizeof(*list->all), compare_processes);
	for (unsigned int i = 0; i < nr_pids && children && list->nr; i++) {
		process = processes_find(list, pids[i]);
		if (process)
			process->in = true;
	}
	while (children && processes_mark_children(list))
		;
	return whole;
}

/* Is this process scanned in the first or second half of the circle, or not in this round? */
static bool has_turn(const struct round *round, pid_t pid, bool second)
{
	if (second)
		return round->after >= round->until && pid <= round->until;
	return pid > round->after && (round->after >= round->until || pid <= round->until);
}

/* Scan processes that have their turn, while there is time. */
static bool scan_list(const struct processes *list, struct round *round, watch_fn found,
		      void *data)
{
	const struct round now = *round;
	pid_t last = now.after;
	long begin = now_ms();
	bool whole = true;

	reader.hung = 0;
	for (size_t i = 0; i < 2 * list->nr; i++) {
		const struct process *process = &list->all[i % list->nr];

		if (!process->in || !has_turn(&now, process->pid, i >= list->nr))
			continue;
		if (reader.hung >= WAITS_MAX ||
		    busy_since(begin, round, now.waited) >= SCAN_MAX + (long)reader.hung) {
			round->rest = true;
			round->after = last;
			break;
		}
		last = process->pid;
		whole &= scan_process(last, round, found, data);
	}
	reader_end();
	return whole;
}

/**
 * scan_processes - read existing mappings
 * @pids:	processes
 * @nr_pids:	number of @pids; 0 for all processes
 * @children:	read those of all that @pids have started, too
 * @round:	processes whose turn it is; those that are left after a limited time
 * @found:	called for each mapping
 * @data:	for @found
 *
 * With @children, does not find a process whose parent has ended.
 *
 * Return: false if some are missing for lack of descriptors or memory, or as one process has too
 *	   many files; the latter not again and again.
 */
bool scan_processes(const pid_t *pids, unsigned int nr_pids, bool children, struct round *round,
		    watch_fn found, void *data)
{
	struct processes list = {};
	bool whole = processes_list(&list, pids, nr_pids, children);

	round->rest = false;
	whole &= scan_list(&list, round, found, data);
	free(list.all);
	return whole;
}
