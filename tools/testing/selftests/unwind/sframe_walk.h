/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Walks through files with SFrame sections, what a trace of them has to be, and what
 * the kernel says about the files.
 */
#ifndef _UNWIND_SFRAME_WALK_H
#define _UNWIND_SFRAME_WALK_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "sframe_elf.h"
#include "tracer.h"

/**
 * struct walker - what a thread needs to be walked
 * @fd:		the test tracer, with a tracer in slot 0
 * @stack:	pages that only walks use; what is not of the current one is zero
 * @event:	the latest trace
 */
struct walker {
	int				fd;
	char				*stack;
	struct unwind_test_event	event;
};

/* 0, or -1 with the reason in @why. */
int walker_init(struct walker *walker, const char **why);
/* Of a thread, which cannot do without: this ends the process. */
void walker_thread_init(struct walker *walker);
void walker_exit(struct walker *walker);

/*
 * Take a trace in a chain of @code that is mapped at @map, with nobody above it; false
 * if there was not exactly one trace. @next is called in place of the system call.
 */
bool walk(struct walker *walker, const struct chain_code *code, const void *map);
bool walk_args(struct walker *walker, const void *top, struct chain_args *args);

/* What is to be called for a system call that takes a trace. */
void walk_tracer_args(struct walker *walker, struct chain_args *args);

/*
 * Take a trace of words that only look like a stack. The frame pointer leads to the first
 * one, which so is the next frame pointer, and the second one is a return address. Behind
 * that, one table may find others than the next one.
 */
bool walk_words(struct walker *walker, const void *const *words, unsigned int nr);
/* Where they will be. */
const void **walker_words(const struct walker *walker);

/* The same mappings as before, but who knew something about them has to look again. */
void walk_anew(void);

/**
 * struct mapped - a file with a chain, and a mapping of its code
 * @image:	what is in it
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

/* Write a file, and map it; false if that is not possible. */
bool mapped_init(struct mapped *mapped, const struct image_spec *spec, const char *format, ...);
bool mapped_write(struct mapped *mapped, const char *format, ...);
void mapped_exit(struct mapped *mapped);

/* A walk in it. */
bool walk_mapped(struct walker *walker, const struct mapped *mapped);

/*
 * Write to a file in place, or truncate it first; and again, until its times have
 * changed. 0 or -1.
 */
int rewrite(int fd, const struct image *image, bool truncate);

/* An empty file system that is gone with this process, and its directory. */
int private_mount(char *dir, size_t size);
void private_unmount(const char *dir);

/**
 * struct trace - what a trace should be
 * @nr:		number of @ips
 * @ips:	addresses
 */
struct trace {
	unsigned int	nr;
	__u64		ips[UNWIND_TEST_ENTRIES];
};

void trace_add(struct trace *trace, const void *ip);
/* All of a chain; its callers where it called something else; who called it in walk(). */
void trace_add_chain(struct trace *trace, const struct chain_code *code, const void *map);
void trace_add_callers(struct trace *trace, const struct chain_code *code, const void *map);
void trace_add_outermost(struct trace *trace);
/* That of walk(). */
struct trace trace_of(const struct chain_code *code, const void *map);

/* Where walk_words() is, which the first return address is behind. */
void trace_add_words(struct trace *trace);
/* Of walk_mapped(): the innermost @nr frames, or all. */
struct trace trace_of_mapped(const struct mapped *mapped, unsigned int nr);
#define ALL_FRAMES	(CHAIN_FRAMES + 1)

/* Is the latest trace this one? Says what the difference is. */
bool trace_is(const struct walker *walker, const struct trace *trace);
/* Is it the first part of it, or all of it? */
bool trace_begins(const struct walker *walker, const struct trace *trace);
/* Does it have nothing but some of it, in that order? */
bool trace_is_of(const struct walker *walker, const struct trace *trace);

/**
 * struct object - a line of the list of files
 * @state:	what became of the file
 * @version:	of the section, or of all of its parts; - without a table
 * @functions:	functions that have a meaning
 * @bad:	those that have none
 * @bytes:	memory
 * @hits:	frames that were found
 */
struct object {
	char		state[16];
	char		version[8];
	unsigned int	functions;
	unsigned int	bad;
	unsigned long	bytes;
	unsigned long	hits;
};

/* How many lines there are for a path, and the last one of these; -1 if it is not a list. */
int object_find(const char *path, struct object *object);

/* What became of a walk through functions that a table is needed for. */
enum { WITH_TABLE, WITHOUT_TABLE, WRONG };

/* How many files there are; -1 if it is not a list. */
int object_count(void);

/* The sysctl. Off and on again, it drops all objects. */
int sframe_switch(bool on);
void sframe_drop(void);

/* Read, or write, all of a short file; 0 or -1. */
int file_get(const char *path, char *text, size_t size);
int file_put(const char *path, const char *text);
/* A file of @dir with the printed @text. */
int file_print(const char *dir, const char *name, const char *format, ...);
/* The number in a file of @dir, in its line @key if that is not NULL; -1 if there is none. */
long file_number(const char *dir, const char *name, const char *key);
/* A process in @cgroup that has one page of a file. */
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

/* Walk through a file: the innermost frames. */
#define EXPECT_FRAMES(mapped, frames) do {					\
	struct trace _right = trace_of_mapped(mapped, frames);			\
										\
	ASSERT_TRUE(walk_mapped(&self->walker, mapped));			\
	EXPECT_TRUE(trace_is(&self->walker, &_right))				\
		TH_LOG("in %s", (mapped)->path);				\
} while (0)

#define EXPECT_CHAIN(mapped)	EXPECT_FRAMES(mapped, ALL_FRAMES)

/* One line for a path, with this state. */
#define EXPECT_STATE(path, want) do {						\
	struct object _object;							\
										\
	EXPECT_EQ(1, object_find(path, &_object))				\
		TH_LOG("for %s", path);						\
	EXPECT_STREQ(want, _object.state)					\
		TH_LOG("for %s", path);						\
} while (0)

#endif /* _UNWIND_SFRAME_WALK_H */
