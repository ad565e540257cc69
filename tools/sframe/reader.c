// SPDX-License-Identifier: GPL-2.0
/*
 * Read what deputies have to know of files: the build-id, and whether there is a section.
 *
 * The files are not trusted, and the process that reads one has a copy of our memory. So it gives
 * up its rights first, see confine.c, reads one file, and ends. The caller believes nothing that it
 * says but what might be in the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "internal.h"
#include "session.h"

/**
 * struct contents - what a process has read
 * @error:	0, or the errno of the open()
 * @has_sframe:	1 if the file has a section of its own, otherwise 0
 * @good:	1 if the file can have a section, otherwise 0
 * @id:		the build-id
 * @message:	why the file has no section
 */
struct contents {
	u32		error;
	u8		has_sframe;
	u8		good;
	struct build_id	id;
	char		message[SFRAME_MESSAGE];
};

static void __attribute__((noreturn)) contents_main(int file, int socket, pid_t parent)
{
	struct contents contents = {};
	bool has_sframe = false;
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	job_limit_cpu(OPEN_SECONDS);
	job_close_others(file, socket);
	fd = file_reopen(file, O_RDONLY);
	if (fd < 0)
		contents.error = errno;
	else if (!confine())
		snprintf(contents.message, SFRAME_MESSAGE, "cannot be read safely: %s",
			 strerror(errno));
	else
		contents.good = !file_build_id(fd, &contents.id, &has_sframe, contents.message);
	contents.has_sframe = has_sframe;
	_exit(write(socket, &contents, sizeof(contents)) != sizeof(contents));
}

static bool is_same(const struct build_id *a, const struct build_id *b)
{
	return a->size == b->size && !memcmp(a->bytes, b->bytes, a->size);
}

/* Take over what may be in the file. */
static void take_contents(const struct contents *contents, const struct build_id *known,
			  struct mapped_file *result)
{
	const struct build_id *id = &contents->id;

	memcpy(result->message, contents->message, SFRAME_MESSAGE);
	result->message[SFRAME_MESSAGE - 1] = '\0';
	result->has_sframe = contents->has_sframe == 1;
	if (contents->good != 1 || id->size > UNWIND_SFRAME_BUILD_ID_MAX ||
	    (id->size && id->size < BUILD_ID_MIN)) {
		result->error = -EACCES;
		/* Not everything that is mapped is an ELF file. */
		if (!known->size)
			result->message[0] = '\0';
	} else if (known->size && !is_same(known, id)) {
		result->error = -EACCES;
		snprintf(result->message, SFRAME_MESSAGE, "is another file by now");
	} else {
		result->id.size = id->size;
		memcpy(result->id.bytes, id->bytes, id->size);
	}
}

/* The file could not be opened. */
static void take_error(int error, struct mapped_file *result)
{
	result->error = -EACCES;
	result->again = is_scarce(error);
	snprintf(result->message, SFRAME_MESSAGE, "cannot be opened: %s", strerror(error));
}

/* Wait for the process, and take what it says. */
static void reader_wait(pid_t pid, int socket, const struct build_id *known, unsigned int patience,
			struct mapped_file *result)
{
	struct contents contents;
	struct blocked blocked;

	blocked_begin(&blocked, pid);
	if (!blocked_wait(&blocked, socket, patience, WAITED_TIMES * patience)) {
		result->error = -EIO;
		result->again = patience < OPEN_BLOCKED_MAX;
		result->patience = patience;
		snprintf(result->message, SFRAME_MESSAGE, "%s",
			 blocked.row < patience ? SFRAME_SLOW : SFRAME_HANGS);
	} else if (recv(socket, &contents, sizeof(contents), 0) != sizeof(contents)) {
		result->error = -EIO;
		snprintf(result->message, SFRAME_MESSAGE, "breaks libelf, or takes too long");
	} else if (contents.error) {
		take_error(contents.error, result);
	} else {
		take_contents(&contents, known, result);
	}
}

/**
 * reader_read - read the build-id of a file in a process without rights
 * @file:	its O_PATH descriptor
 * @known:	the build-id that it should have, or an empty one
 * @patience:	how long the file may hang, in ms
 * @result:	its @error, @id, @has_sframe, @again, @patience and @message are set
 *
 * Return: 0, or -1 if @result has an error.
 */
int reader_read(int file, const struct build_id *known, unsigned int patience,
		struct mapped_file *result)
{
	pid_t parent = getpid(), pid;
	int sockets[2], error;

	result->error = 0;
	result->id = (struct build_id) {};
	if (!stuck_has_room(getuid())) {
		take_error(EAGAIN, result);
		snprintf(result->message, SFRAME_MESSAGE,
			 "is not looked at, as too many do not answer");
		return -1;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets)) {
		take_error(errno, result);
		return -1;
	}
	pid = fork();
	if (!pid)
		contents_main(file, sockets[1], parent);
	error = errno;
	close(sockets[1]);
	if (pid < 0) {
		close(sockets[0]);
		take_error(error, result);
		return -1;
	}
	reader_wait(pid, sockets[0], known, patience, result);
	close(sockets[0]);
	stuck_kill(pid, getuid());
	return result->error ? -1 : 0;
}
