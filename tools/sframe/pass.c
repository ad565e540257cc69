// SPDX-License-Identifier: GPL-2.0
/*
 * Messages from one process to another, each with at most one descriptor.
 *
 * Where both sides know the size of a message, messages of another size are rejected.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "session.h"

/* Room for a descriptor. */
union control {
	char		space[CMSG_SPACE(sizeof(int))];
	struct cmsghdr	header;
};

/**
 * pass_send - send a message
 * @socket:	a packet socket, or a stream socket if the peer waits for each message
 * @bytes:	the message
 * @size:	size of @bytes
 * @fd:		a descriptor to send with it, or -1
 *
 * Return: 0, or -1 if the message cannot be sent.
 */
int pass_send(int socket, void *bytes, size_t size, int fd)
{
	struct iovec vec = { .iov_base = bytes, .iov_len = size };
	struct msghdr message = { .msg_iov = &vec, .msg_iovlen = 1 };
	union control control = {};

	if (fd >= 0) {
		message.msg_control = control.space;
		message.msg_controllen = sizeof(control.space);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(int));
	}
	return sendmsg(socket, &message, MSG_NOSIGNAL) == size ? 0 : -1;
}

/**
 * pass_receive_any - receive a message of any size
 * @socket:	as for pass_send()
 * @bytes:	receives the message
 * @max:	size of @bytes
 * @fd:		set to the descriptor that came with it, or -1
 * @cut:	set if a descriptor was sent but could not be received
 * @flags:	as for recvmsg()
 *
 * Return: as for recvmsg().
 */
ssize_t pass_receive_any(int socket, void *bytes, size_t max, int *fd, bool *cut, int flags)
{
	struct iovec vec = { .iov_base = bytes, .iov_len = max };
	union control control = {};
	/* Room for one descriptor: the padding at the end of the space might take another. */
	struct msghdr message = {
		.msg_iov = &vec, .msg_iovlen = 1,
		.msg_control = control.space, .msg_controllen = CMSG_LEN(sizeof(int)),
	};
	ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags);

	*fd = -1;
	if (got >= 0 && message.msg_controllen && control.header.cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(&control.header), sizeof(int));
	*cut = got >= 0 && *fd < 0 && message.msg_flags & MSG_CTRUNC;
	return got;
}

/**
 * pass_receive - receive a message of one size
 * @socket:	as for pass_send()
 * @bytes:	receives the message
 * @size:	size of @bytes
 * @fd:		as for pass_receive_any()
 * @cut:	likewise
 *
 * Return: 0, or -1 if there is no message of this size.
 */
int pass_receive(int socket, void *bytes, size_t size, int *fd, bool *cut)
{
	if (pass_receive_any(socket, bytes, size, fd, cut, 0) == (ssize_t)size)
		return 0;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	return -1;
}
