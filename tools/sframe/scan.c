// SPDX-License-Identifier: GPL-2.0
/*
 * Read the existing mappings of processes from /proc.
 *
 * For that the kernel takes the lock of a process's mappings, which the process can keep for as
 * long as it likes: a fault of its own waits with the lock for a file that it serves itself. So
 * another process reads the mappings. If it hangs, it is killed, and the next one goes on with the
 * process after that.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "session.h"

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
 * @deaf:	the process whose mappings could not be read then
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

/**
 * scan_end - end a scan
 *
 * Call this after the last process.
 */
void scan_end(void)
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
		if (!blocked_wait(blocked, reader.socket, patience, WAITED_TIMES * patience))
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

/**
 * scan_process - read the mappings of a process
 * @pid:	the process
 * @found:	called for each mapped file with code
 * @data:	for @found
 *
 * A process whose mappings hang counts as read: it would hang again.
 *
 * Return: false if they cannot be read for now.
 */
bool scan_process(pid_t pid, watch_fn found, void *data)
{
	struct blocked blocked;
	char *line;

	if (!reader.pid && !reader_start())
		return !is_scarce(errno);
	blocked_begin(&blocked, reader.pid);
	if (send(reader.socket, &pid, sizeof(pid), MSG_NOSIGNAL) == sizeof(pid)) {
		while ((line = reader_line(&blocked))) {
			if (*line == END)
				return line[1] != '0';
			found_line(line, pid, found, data);
		}
		reader.strikes = strikes_more(strikes_left(reader.strikes,
							   now_ms() - reader.struck));
		reader.struck = now_ms();
		reader.deaf = pid;
	}
	scan_end();
	return true;
}

/**
 * scan_deaf - tell whose mappings could not be read
 *
 * Return: the last such process, or 0.
 */
pid_t scan_deaf(void)
{
	return reader.deaf;
}
