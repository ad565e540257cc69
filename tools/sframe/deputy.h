/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Messages between a session and its deputies, see deputies.c and deputy.c.
 */
#ifndef _SFRAME_DEPUTY_H
#define _SFRAME_DEPUTY_H

#include <limits.h>

#include "internal.h"
#include "session.h"

/* What to do: to look at a file, and to tell when all is done. */
enum { ORDER_LOOK, ORDER_SYNC };

/**
 * struct order - a message to a deputy, which ends with the path
 * @kind:	what to do; the rest is for ORDER_LOOK, with which comes an O_PATH descriptor
 * @identity:	the file
 * @id:		its build-id, if the kernel has told it
 * @since:	when it was sent, in ms
 * @path:	its name
 */
struct order {
	u32		kind;
	struct identity	identity;
	struct build_id	id;
	long		since;
	char		path[PATH_MAX];
};

/* Sections are there, a line for the user, a file without section, no device, and the end. */
enum { ANSWER_READY, ANSWER_SAY, ANSWER_MISSED, ANSWER_FAILED, ANSWER_END };

/**
 * struct answer - a message from a deputy, which ends with the text
 * @kind:	what it is
 * @late:	with ANSWER_MISSED, as in sframe_missed_fn; with ANSWER_FAILED, an errno
 * @text:	a line; with ANSWER_MISSED, the path and the reason, each with its NUL
 */
struct answer {
	u32	kind;
	u32	late;
	char	text[PATH_MAX + SFRAME_MESSAGE];
};

void __attribute__((noreturn))
deputy_main(const struct user *user, int socket, long *began, bool verbose, pid_t parent);

#endif /* _SFRAME_DEPUTY_H */
