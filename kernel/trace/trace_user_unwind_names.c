// SPDX-License-Identifier: GPL-2.0
/*
 * Names of the files that user stacks of an instance lead through.
 *
 * A stack has the inode and device of each address's file. The event user_unwind_file maps
 * these to path and build-id. Readers may come late, and buffers are cleared and
 * overwritten. So a file of a stack is named again if it was not named in the last second,
 * or not since the buffer was cleared.
 *
 * Contexts: user_unwind_name_files() is in task context, inside the core's SRCU section,
 * and does not wait for the disk: build-ids are read from the page cache.
 *
 * Invariant: an instance's table of named files has a fixed size. If that is too small,
 * files are named more often, never less.
 */
#include <linux/bitops.h>
#include <linux/buildid.h>
#include <linux/cleanup.h>
#include <linux/dcache.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/log2.h>
#include <linux/mm_types.h>
#include <linux/preempt.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/trace_events.h>
#include <linux/unwind_user_types.h>

#include <trace/events/unwind.h>

#include "trace.h"
#include "trace_user_unwind.h"

#define USER_UNWIND_SETS	128
#define USER_UNWIND_WAYS	4

/* Size of a path buffer. A longer path becomes "//toolong", as in perf. */
#define USER_UNWIND_PATH	512

/* Characters that would start a new line or control a terminal. */
#define USER_UNWIND_ESCAPED					\
	"\001\002\003\004\005\006\007\010\011\012\013\014\015\016\017\020" \
	"\021\022\023\024\025\026\027\030\031\032\033\034\035\036\037\177\\"

/**
 * struct user_unwind_named - a file that has been named
 * @inode:	as in &struct unwind_file; 0 for none
 * @start:	when the buffer was last cleared before that
 * @when:	when it was named, in jiffies
 * @dev:	as in &struct unwind_file
 * @generation:	generation of the inode, whose number may be reused
 */
struct user_unwind_named {
	u64		inode;
	u64		start;
	unsigned long	when;
	dev_t		dev;
	u32		generation;
};

/**
 * struct user_unwind_names - files that an instance has named
 * @lock:	protects @named; held while one set is searched
 * @named:	the files, in sets by inode and device; the oldest of a set is replaced
 */
struct user_unwind_names {
	raw_spinlock_t			lock;
	struct user_unwind_named	named[USER_UNWIND_SETS][USER_UNWIND_WAYS];
};

/**
 * user_unwind_names_new - allocate an empty table of named files
 *
 * Context: task context, may sleep.
 * Return: the table, to be freed with kfree(), or NULL.
 */
struct user_unwind_names *user_unwind_names_new(void)
{
	struct user_unwind_names *names = kzalloc(sizeof(*names), GFP_KERNEL);

	if (names)
		raw_spin_lock_init(&names->lock);
	return names;
}

static bool user_unwind_is_same(const struct user_unwind_named *a,
				const struct user_unwind_named *b)
{
	return a->inode == b->inode && a->dev == b->dev &&
	       a->generation == b->generation && a->start == b->start;
}

/* Find the slot of a file in its set, or else the slot to replace. */
static struct user_unwind_named *user_unwind_place(struct user_unwind_named *set,
						   const struct user_unwind_named *file)
{
	struct user_unwind_named *oldest = set;

	for (unsigned int i = 0; i < USER_UNWIND_WAYS; i++) {
		if (user_unwind_is_same(&set[i], file))
			return &set[i];
		if (time_before(set[i].when, oldest->when))
			oldest = &set[i];
	}
	return oldest;
}

/* Must a file be named now? If so, mark it as named. */
static bool user_unwind_is_news(struct user_unwind_names *names,
				const struct user_unwind_named *file)
{
	const u32 set = hash_64(file->inode ^ file->dev, ilog2(USER_UNWIND_SETS));
	struct user_unwind_named *named;
	bool news = false;

	/* Sparse does not see where a guard in function scope ends. */
	scoped_guard(raw_spinlock, &names->lock) {
		named = user_unwind_place(names->named[set], file);
		news = !user_unwind_is_same(named, file) ||
		       !time_before(file->when, named->when + HZ);
		if (news)
			*named = *file;
	}
	return news;
}

/* Get the escaped path of a file in @buf, which has USER_UNWIND_PATH bytes. */
static const char *user_unwind_path(const struct file *file, char *buf)
{
	char *path = d_path(file_user_path(file), buf, USER_UNWIND_PATH);
	char *end = IS_ERR(path) ? NULL : mangle_path(buf, path, USER_UNWIND_ESCAPED);

	if (!end)
		return "//toolong";

	*end = '\0';
	return buf;
}

/* Returns the size of the build-id, or 0 if it cannot be read without waiting. */
static u32 user_unwind_build_id(struct file *file, unsigned char *build_id)
{
	/* The parser uses only this field; the mapping itself may be gone. */
	struct vm_area_struct vma = { .vm_file = file };
	u32 size;

	if (!S_ISREG(file_inode(file)->i_mode) ||
	    build_id_parse_nofault(&vma, build_id, &size))
		return 0;

	return size;
}

/* Write the event to one instance only. */
static noinline_for_stack void user_unwind_write_name(struct trace_event_file *event,
						      const struct unwind_file *file)
{
	void (*probe)(void *data, const struct unwind_file *file, const char *path,
		      const u8 *build_id, u32 size) = event->event_call->class->probe;
	unsigned char build_id[BUILD_ID_SIZE_MAX];
	char buf[USER_UNWIND_PATH];
	u32 size = user_unwind_build_id(file->file, build_id);
	const char *path = user_unwind_path(file->file, buf);

	check_trace_callback_type_user_unwind_file(probe);
	/* Preemption is disabled as in a tracepoint. */
	guard(preempt_notrace)();
	probe(event, file, path, build_id, size);
}

/**
 * user_unwind_name_files - name the files of a stack that have to be named again
 * @names:	files that the instance has named
 * @event:	its event user_unwind_file
 * @trace:	the stack
 *
 * Context: task context of current.
 */
void user_unwind_name_files(struct user_unwind_names *names, struct trace_event_file *event,
			    const struct unwind_stacktrace *trace)
{
	struct trace_array *tr = event->tr;

	if (!tracer_tracing_is_on(tr))
		return;

	for (unsigned int i = 0; i < trace->nr_files; i++) {
		const struct unwind_file *file = &trace->files[i];
		struct user_unwind_named named;

		if (!file->file)
			continue;
		named = (struct user_unwind_named) {
			.inode		= file->inode,
			/* No partner: a name too many, or one a second late, does no harm. */
			.start		= READ_ONCE(tr->array_buffer.time_start),
			.when		= jiffies,
			.dev		= file->dev,
			.generation	= file_user_inode(file->file)->i_generation,
		};
		if (user_unwind_is_news(names, &named))
			user_unwind_write_name(event, file);
	}
}
