/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Files whose sections take much memory, and a thread that reads the list of files.
 */
#ifndef _UNWIND_SFRAME_LARGE_H
#define _UNWIND_SFRAME_LARGE_H

#include <pthread.h>
#include <stdatomic.h>

#include "sframe_walk.h"

/* Write 2 to drop objects that are unused at the moment. */
#define DROP_CACHES	"/proc/sys/vm/drop_caches"

/* Write and map a file of @nr functions that are never run; false on failure. */
bool large_init(struct mapped *large, unsigned int nr, unsigned int version, const char *dir,
		const char *name);
/* Walk through these return addresses, or through functions scattered over a large file. */
int walk_returns(struct walker *walker, const void *const *returns, unsigned int nr);
int walk_large(struct walker *walker, const struct mapped *large);

/* A thread that reads the list of files all the time. */
struct reader {
	pthread_t	thread;
	atomic_bool	stop;
	atomic_uint	lists;
	atomic_uint	bad;
};

void *reader_main(void *data);

#define START_READER(reader)							\
	ASSERT_EQ(0, pthread_create(&(reader)->thread, NULL, reader_main, reader))

#define STOP_READER(reader) do {						\
	(reader)->stop = true;							\
	pthread_join((reader)->thread, NULL);					\
	EXPECT_EQ(0, (reader)->bad);						\
	EXPECT_LT(0, (reader)->lists);						\
} while (0)

#endif /* _UNWIND_SFRAME_LARGE_H */
