// SPDX-License-Identifier: GPL-2.0
/*
 * Show what is known about files: /sys/kernel/debug/unwind/sframe; and its words for errors.
 *
 * Contexts: unwind_object_show() runs in RCU read-side sections. The object that it gets
 * is immutable, except for statistics, unless it is still being read.
 */
#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/dcache.h>
#include <linux/debugfs.h>
#include <linux/errno.h>
#include <linux/init.h>
#include <linux/seq_file.h>
#include <linux/string_helpers.h>

#include "object.h"

/**
 * unwind_object_why - name the reason for an object without a table
 * @error:	an errno of unwind_object_load() or unwind_object_fetch(), or 0
 *
 * Context: any.
 * Return: a word.
 */
const char *unwind_object_why(int error)
{
	switch (error) {
	case 0:
		return "ok";
	case -ENOEXEC:
		return "no-elf";
	case -ENODATA:
		return "no-section";
	case -EINVAL:
		return "damaged";
	case -EOPNOTSUPP:
		return "unsupported";
	case -EFBIG:
	case -ENOSPC:
		return "too-large";
	case -ENOMEM:
		return "no-memory";
	case -EALREADY:
	case -EBUSY:
	case -ETIMEDOUT:
		return "reading";
	default:
		return "unreadable";
	}
}

/**
 * unwind_object_show_path - print the name of a file
 * @m:		where to
 * @path:	the name, or NULL
 *
 * Users choose names, and a terminal may execute what is in them: escape them.
 *
 * Context: any.
 */
void unwind_object_show_path(struct seq_file *m, const char *path)
{
	seq_escape_str(m, path ?: "?", ESCAPE_OCTAL | ESCAPE_NAP | ESCAPE_APPEND, " \\");
}

static void unwind_object_show_table(struct seq_file *m, const struct sframe_table *table)
{
	unsigned long versions = table->versions;
	const char *before = "";
	unsigned int version;

	for_each_set_bit(version, &versions, BITS_PER_LONG) {
		seq_printf(m, "%s%u", before, version);
		before = ",";
	}
	seq_printf(m, " %u %u", table->functions, table->bad);
}

/* Show what is known while the file is being read: a read of a dead server may never end. */
static void unwind_object_show_state(struct seq_file *m, const struct unwind_object *object,
				     enum unwind_object_state state)
{
	bool ready = state == UNWIND_OBJECT_READY;
	const struct sframe_table *table = ready ? object->table : NULL;

	seq_printf(m, "%s ", ready ? unwind_object_why(object->error) : "reading");
	if (table)
		unwind_object_show_table(m, table);
	else
		seq_puts(m, "- 0 0");
}

static void unwind_object_show(const struct unwind_object *object,
			       enum unwind_object_state state, void *data)
{
	struct seq_file *m = data;
	const char *path;

	unwind_object_show_state(m, object, state);
	/* No partner, see unwind_loads_add(). */
	seq_printf(m, " %zu %lu ", READ_ONCE(object->bytes), atomic_long_read(&object->hits));
	/* Pairs with unwind_object_name(). */
	path = READ_ONCE(object->path);
	unwind_object_show_path(m, path);
	seq_putc(m, '\n');
}

static int unwind_objects_show(struct seq_file *m, void *unused)
{
	seq_puts(m, "state version functions bad bytes hits path\n");
	unwind_objects_visit(unwind_object_show, m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(unwind_objects);

static int __init unwind_objects_init_debugfs(void)
{
	struct dentry *dir = debugfs_lookup("unwind", NULL);

	/* Only for the administrator: other users may not be allowed to see these files. */
	debugfs_create_file("sframe", 0400, dir, NULL, &unwind_objects_fops);
	/* The directory does not exist without CONFIG_DEBUG_FS. */
	if (!IS_ERR(dir))
		dput(dir);
	return 0;
}
late_initcall_sync(unwind_objects_init_debugfs);
