/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Events of deferred user stack unwinding. kernel/trace/trace_user_unwind.c writes
 * the same events for tracing instances that have traces of their own.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM unwind

#if !defined(_TRACE_UNWIND_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_UNWIND_H

#include <linux/kdev_t.h>
#include <linux/minmax.h>
#include <linux/perf_event.h>
#include <linux/tracepoint.h>
#include <linux/unwind_user_types.h>

/*
 * A tracer asks for the user stack of this kernel entry for the first time. Hit in any
 * context, NMI included.
 */
TRACE_EVENT(user_unwind_cookie,

	TP_PROTO(u64 cookie),

	TP_ARGS(cookie),

	TP_STRUCT__entry(
		__field(u64,	cookie)
	),

	TP_fast_assign(
		__entry->cookie	= cookie;
	),

	TP_printk("cookie=%llx", __entry->cookie)
);

/*
 * The user stack of a kernel entry: addresses, innermost first, and for each the file
 * that it is in. Without a file, inode and dev are 0 and the offset is the address
 * itself. A deeper stack is cut to UNWIND_EVENT_ENTRIES addresses; nr is its depth.
 */
TRACE_EVENT(user_unwind_stack,

	TP_PROTO(u64 cookie, const struct unwind_stacktrace *trace),

	TP_ARGS(cookie, trace),

	TP_STRUCT__entry(
		__field(u64,		cookie)
		__field(u32,		nr)
		__dynamic_array(u64,	ips,		min(trace->nr, UNWIND_EVENT_ENTRIES))
		__dynamic_array(u64,	offsets,	min(trace->nr, UNWIND_EVENT_ENTRIES))
		__dynamic_array(u64,	inodes,		min(trace->nr, UNWIND_EVENT_ENTRIES))
		__dynamic_array(u32,	devs,		min(trace->nr, UNWIND_EVENT_ENTRIES))
	),

	TP_fast_assign(
		u64 *ips = __get_dynamic_array(ips);
		u64 *offsets = __get_dynamic_array(offsets);
		u64 *inodes = __get_dynamic_array(inodes);
		u32 *devs = __get_dynamic_array(devs);

		__entry->cookie = cookie;
		__entry->nr = trace->nr;
		for (unsigned int i = 0; i < min(trace->nr, UNWIND_EVENT_ENTRIES); i++) {
			const struct unwind_file *file = trace->files ? trace->files + i : NULL;

			ips[i] = trace->entries[i];
			offsets[i] = file ? file->offset : trace->entries[i];
			inodes[i] = file ? file->inode : 0;
			devs[i] = file ? new_encode_dev(file->dev) : 0;
		}
	),

	TP_printk("cookie=%llx nr=%u ips=%s offsets=%s inodes=%s devs=%s",
		  __entry->cookie, __entry->nr,
		  __print_array(__get_dynamic_array(ips),
				__get_dynamic_array_len(ips) / 8, 8),
		  __print_array(__get_dynamic_array(offsets),
				__get_dynamic_array_len(offsets) / 8, 8),
		  __print_array(__get_dynamic_array(inodes),
				__get_dynamic_array_len(inodes) / 8, 8),
		  __print_array(__get_dynamic_array(devs),
				__get_dynamic_array_len(devs) / 4, 4))
);

/*
 * Names a file that stacks of an instance lead through: before the first such stack, and
 * again when the event may have been lost. The tracepoint is never hit: only instances
 * that asked get the event. Control characters and backslashes of the path are in octal.
 */
TRACE_EVENT(user_unwind_file,

	TP_PROTO(const struct unwind_file *file, const char *path, const u8 *build_id, u32 size),

	TP_ARGS(file, path, build_id, size),

	TP_STRUCT__entry(
		__field(u64,		inode)
		__field(u32,		dev)
		__dynamic_array(u8,	build_id,	size)
		__string(path,		path)
	),

	TP_fast_assign(
		__entry->inode = file->inode;
		__entry->dev = new_encode_dev(file->dev);
		memcpy(__get_dynamic_array(build_id), build_id, size);
		__assign_str(path);
	),

	TP_printk("inode=%#llx dev=%#x build_id=%s path=%s", __entry->inode, __entry->dev,
		  __print_hex_str(__get_dynamic_array(build_id),
				  __get_dynamic_array_len(build_id)),
		  __get_str(path))
);

/*
 * While this event is on, the requests of all users lead to walks, and files are looked up.
 * Without this check, perf would let any user count it, as that takes no raw data.
 */
#ifdef CONFIG_PERF_EVENTS
TRACE_EVENT_PERF_PERM(user_unwind_stack,
		      p_event->parent ? 0 : perf_allow_tracepoint());
#endif

#endif /* _TRACE_UNWIND_H */

#include <trace/define_trace.h>
