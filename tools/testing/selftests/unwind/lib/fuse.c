// SPDX-License-Identifier: GPL-2.0
/*
 * A file system of one file with one page, whose server is the calling process.
 *
 * Speaks the protocol of <linux/fuse.h> on /dev/fuse, with as few requests as a mapping
 * of the file needs. This process must not touch the file system: it would wait for its
 * own answer.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fuse.h"

#define FILE_NAME	"page"
#define FILE_NODE	2
#define MAX_WRITE	4096

/* The kernel requires room for a header and the longest write. */
static char request[FUSE_MIN_READ_BUFFER + MAX_WRITE];

static void answer(struct fuse *fuse, __u64 unique, int error, const void *data, size_t size)
{
	struct fuse_out_header header = {
		.len	= sizeof(header) + size,
		.error	= error,
		.unique	= unique,
	};
	struct iovec iov[] = {
		{ .iov_base = &header, .iov_len = sizeof(header) },
		{ .iov_base = (void *)data, .iov_len = size },
	};

	/* ENOENT: the requesting task may have been killed. */
	if (writev(fuse->fd, iov, 2) < 0 && errno != ENOENT)
		abort();
}

static struct fuse_attr attr_of(__u64 node)
{
	bool file = node == FILE_NODE;

	return (struct fuse_attr) {
		.ino	= node,
		.size	= file ? FUSE_PAGE : 0,
		.mode	= file ? S_IFREG | 0755 : S_IFDIR | 0755,
		.nlink	= 1,
		.blksize = FUSE_PAGE,
	};
}

static void answer_init(struct fuse *fuse, const struct fuse_in_header *in)
{
	const struct fuse_init_in *init = (const void *)(in + 1);
	struct fuse_init_out out = {
		.major		= FUSE_KERNEL_VERSION,
		.minor		= FUSE_KERNEL_MINOR_VERSION,
		.max_readahead	= init->max_readahead,
		/*
		 * Read asynchronously: a task that waits for a read that the server
		 * has seen cannot be killed, a task that waits for a page can.
		 */
		.flags		= fuse->sync ? 0 : FUSE_ASYNC_READ,
		.max_write	= MAX_WRITE,
	};

	answer(fuse, in->unique, 0, &out, sizeof(out));
}

static void answer_lookup(struct fuse *fuse, const struct fuse_in_header *in)
{
	struct fuse_entry_out out = { .nodeid = FILE_NODE, .attr = attr_of(FILE_NODE) };

	if (strcmp((const char *)(in + 1), FILE_NAME))
		answer(fuse, in->unique, -ENOENT, NULL, 0);
	else
		answer(fuse, in->unique, 0, &out, sizeof(out));
}

static void answer_getattr(struct fuse *fuse, const struct fuse_in_header *in)
{
	struct fuse_attr_out out = { .attr = attr_of(in->nodeid) };

	answer(fuse, in->unique, 0, &out, sizeof(out));
}

/* Without FOPEN_KEEP_CACHE the kernel drops the pages of earlier opens. */
static void answer_open(struct fuse *fuse, const struct fuse_in_header *in)
{
	struct fuse_open_out out = {};

	answer(fuse, in->unique, 0, &out, sizeof(out));
}

/* Overlays ask. */
static void answer_statfs(struct fuse *fuse, const struct fuse_in_header *in)
{
	struct fuse_statfs_out out = { .st = { .bsize = FUSE_PAGE, .namelen = 255 } };

	answer(fuse, in->unique, 0, &out, sizeof(out));
}

static void serve(struct fuse *fuse)
{
	const struct fuse_in_header *in = (const void *)request;
	ssize_t len = read(fuse->fd, request, sizeof(request));

	/* The requesting task was killed meanwhile. */
	if (len < 0 && (errno == ENOENT || errno == EAGAIN))
		return;
	if (len < (ssize_t)sizeof(*in))
		abort();

	switch (in->opcode) {
	case FUSE_INIT:
		answer_init(fuse, in);
		break;
	case FUSE_LOOKUP:
		answer_lookup(fuse, in);
		break;
	case FUSE_GETATTR:
		answer_getattr(fuse, in);
		break;
	case FUSE_OPEN:
		answer_open(fuse, in);
		break;
	case FUSE_STATFS:
		answer_statfs(fuse, in);
		break;
	case FUSE_READ:
		fuse->held = in->unique;
		fuse->reads++;
		fuse->uid = in->uid;
		break;
	case FUSE_RELEASE:
	case FUSE_FLUSH:
		answer(fuse, in->unique, 0, NULL, 0);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	default:
		/* The kernel does not depend on the others. */
		answer(fuse, in->unique, -ENOSYS, NULL, 0);
	}
}

int fuse_mount(struct fuse *fuse, bool sync)
{
	char options[64];
	int err;

	memset(fuse, 0, sizeof(*fuse));
	fuse->sync = sync;
	fuse->fd = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fuse->fd < 0)
		return -ENODEV;

	snprintf(fuse->dir, sizeof(fuse->dir), "/tmp/unwind-fuse.XXXXXX");
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse->fd);
	if (!mkdtemp(fuse->dir)) {
		err = errno;
		close(fuse->fd);
		return -err;
	}
	if (mount("unwind", fuse->dir, "fuse", MS_NOSUID | MS_NODEV, options)) {
		err = errno;
		rmdir(fuse->dir);
		close(fuse->fd);
		return -err;
	}
	snprintf(fuse->file, sizeof(fuse->file), "%s/" FILE_NAME, fuse->dir);
	return 0;
}

void fuse_unmount(struct fuse *fuse)
{
	fuse_die(fuse);
	umount2(fuse->dir, MNT_DETACH);
	rmdir(fuse->dir);
}

bool fuse_wait_for_fault(struct fuse *fuse, int pidfd)
{
	struct pollfd fds[] = {
		{ .fd = fuse->fd, .events = POLLIN },
		{ .fd = pidfd, .events = POLLIN },
	};
	unsigned int reads = fuse->reads;

	while (fuse->reads == reads) {
		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[0].revents & POLLIN)
			serve(fuse);
		else if (fds[1].revents)
			return false;
	}
	return true;
}

void fuse_resolve(struct fuse *fuse, const void *content)
{
	answer(fuse, fuse->held, 0, content, FUSE_PAGE);
	fuse->held = 0;
}

int fuse_refuse(struct fuse *fuse, int error)
{
	const struct fuse_out_header header = {
		.len = sizeof(header), .error = -error, .unique = fuse->held,
	};

	fuse->held = 0;
	return write(fuse->fd, &header, sizeof(header)) == sizeof(header) ? 0 : -errno;
}

void fuse_die(struct fuse *fuse)
{
	if (fuse->fd >= 0)
		close(fuse->fd);
	fuse->fd = -1;
	fuse->held = 0;
}
