/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Walks through files with SFrame sections, their correct traces, and the kernel's
 * list of the files.
 */
#ifndef _UNWIND_SFRAME_WALK_H
#define _UNWIND_SFRAME_WALK_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "files.h"
#include "sframe_elf.h"
#include "tracer.h"

/**
 * struct walker - what a thread needs to take traces
 * @fd:		the test tracer, with a tracer in slot 0
 * @stack:	pages that only walks use; zero outside of the current walk
 * @event:	the latest trace
 */
struct walker {
	int				fd;
	char				*stack;
	struct unwind_test_event	event;
};

/* 0, or -1 with the reason in @why. */
int walker_init(struct walker *walker, const char **why);
/* For a thread that cannot do without: ends the process on failure. */
void walker_thread_init(struct walker *walker);
void walker_exit(struct walker *walker);

/*
 * Take a trace in a chain of @code that is mapped at @map, called by chain_call();
 * false if there was not exactly one trace. @args may have a function to call instead
 * of the system call.
 */
bool walk(struct walker *walker, const struct chain_code *code, const void *map);
bool walk_args(struct walker *walker, const void *top, struct chain_args *args);

/* Set up the arguments of a system call that takes a trace. */
void walk_tracer_args(struct walker *walker, struct chain_args *args);

/*
 * Take a trace of words that only look like a stack. The frame pointer points to the
 * first word, which is the next frame pointer. The second word is a return address. After
 * that, a table may find other callers than the next word.
 */
bool walk_words(struct walker *walker, const void *const *words, unsigned int nr);
/* The address that walk_words() copies them to. */
const void **walker_words(const struct walker *walker);

/* Change the mappings and undo it, so that cached lookups of mappings have to be repeated. */
void walk_anew(void);

/**
 * struct mapped - a file with a chain, and a mapping of its code
 * @image:	its contents
 * @path:	its path
 * @fd:		the file, for reading and writing
 * @map:	the code
 */
struct mapped {
	struct image	image;
	char		path[256];
	int		fd;
	void		*map;
};

/* Write a file and map its code; false on failure. */
bool mapped_init(struct mapped *mapped, const struct image_spec *spec, const char *format, ...);
bool mapped_write(struct mapped *mapped, const char *format, ...);
void mapped_exit(struct mapped *mapped);

/* Walk through the file's chain. */
bool walk_mapped(struct walker *walker, const struct mapped *mapped);

/* Write to a file in place, or truncate it first. Repeat until its times change. 0 or -1. */
int rewrite(int fd, const struct image *image, bool truncate);

/* An empty file system that exists as long as this process, and its directory. */
int private_mount(char *dir, size_t size);
void private_unmount(const char *dir);

/**
 * struct trace - an expected trace
 * @nr:		number of @ips
 * @ips:	addresses
 */
struct trace {
	unsigned int	nr;
	__u64		ips[UNWIND_TEST_ENTRIES];
};

void trace_add(struct trace *trace, const void *ip);
/* A whole chain; its callers if it called another function; the caller in walk(). */
void trace_add_chain(struct trace *trace, const struct chain_code *code, const void *map);
void trace_add_callers(struct trace *trace, const struct chain_code *code, const void *map);
void trace_add_outermost(struct trace *trace);
/* The trace of walk(). */
struct trace trace_of(const struct chain_code *code, const void *map);

/* The address in walk_words(), which precedes the first return address. */
void trace_add_words(struct trace *trace);
/* The trace of walk_mapped(): the innermost @nr frames, or all. */
struct trace trace_of_mapped(const struct mapped *mapped, unsigned int nr);
#define ALL_FRAMES	(CHAIN_FRAMES + 1)

/* Is the latest trace this one? Prints the difference. */
bool trace_is(const struct walker *walker, const struct trace *trace);
/* Is the latest trace a first part of this one, or all of it? */
bool trace_begins(const struct walker *walker, const struct trace *trace);
/* Does the latest trace have only entries of this one, in the same order? */
bool trace_is_of(const struct walker *walker, const struct trace *trace);

/**
 * struct object - a line of the list of files
 * @state:	state of the file
 * @version:	of the section, or of all of its parts; - without a table
 * @functions:	valid functions
 * @bad:	rejected functions
 * @bytes:	memory
 * @hits:	frames found with the table
 */
struct object {
	char		state[16];
	char		version[8];
	unsigned int	functions;
	unsigned int	bad;
	unsigned long	bytes;
	unsigned long	hits;
};

/* The number of lines for a path, and the last of these lines; -1 if the list is malformed. */
int object_find(const char *path, struct object *object);

/* The result of a walk through functions that need a table. */
enum { WITH_TABLE, WITHOUT_TABLE, WRONG };

/* The number of files; -1 if the list is malformed. */
int object_count(void);

/* Set the sysctl. Turning it off and on again drops all objects. */
int sframe_switch(bool on);
void sframe_drop(void);

/* A process in @cgroup that owns one page of a file. */
pid_t page_owner(const char *cgroup);

/* For FIXTURE_SETUP() of a fixture with @walker and @dir. */
#define SETUP_WALKER() do {							\
	const char *_why;							\
										\
	if (walker_init(&self->walker, &_why))					\
		SKIP(return, "%s", _why);					\
	ASSERT_EQ(0, private_mount(self->dir, sizeof(self->dir)));		\
	sframe_drop();								\
} while (0)

/* Walk through a file and check the innermost frames. */
#define EXPECT_FRAMES(mapped, frames) do {					\
	struct trace _right = trace_of_mapped(mapped, frames);			\
										\
	ASSERT_TRUE(walk_mapped(&self->walker, mapped));			\
	EXPECT_TRUE(trace_is(&self->walker, &_right))				\
		TH_LOG("in %s", (mapped)->path);				\
} while (0)

#define EXPECT_CHAIN(mapped)	EXPECT_FRAMES(mapped, ALL_FRAMES)

/* Expect one line for a path, with this state. */
#define EXPECT_STATE(path, want) do {						\
	struct object _object;							\
										\
	EXPECT_EQ(1, object_find(path, &_object))				\
		TH_LOG("for %s", path);						\
	EXPECT_STREQ(want, _object.state)					\
		TH_LOG("for %s", path);						\
} while (0)

#endif /* _UNWIND_SFRAME_WALK_H */
