// SPDX-License-Identifier: GPL-2.0
/*
 * Walks through files with SFrame sections, their correct traces, and the kernel's
 * list of the files.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sframe_walk.h"
#include "workload.h"

extern const char workload_leaf_fp[];

#define LIST		"/sys/kernel/debug/unwind/sframe"
#define LIST_HEAD	"state version functions bad bytes hits path\n"
#define SWITCH		"/proc/sys/kernel/unwind_user_sframe"

/* One half is the stack of running code, the other half holds made-up words. */
#define STACK_SIZE	(8 * SFRAME_PAGE)
#define STACK_WORDS	(STACK_SIZE / 2)
/* Between both: where a return address may be that code tells of. */
#define STACK_GAP	64

int walker_init(struct walker *walker, const char **why)
{
	struct unwind_test_op op = OP_INIT(0);

	memset(walker, 0, sizeof(*walker));
	walker->fd = tracer_open(why);
	if (walker->fd < 0)
		return -1;
	if (access(LIST, R_OK)) {
		*why = "needs CONFIG_UNWIND_USER_SFRAME";
		return -1;
	}
	walker->stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (walker->stack == MAP_FAILED || tracer_op(walker->fd, op)) {
		*why = "no memory, or no tracer left";
		return -1;
	}
	return 0;
}

void walker_thread_init(struct walker *walker)
{
	const char *why;

	if (!walker_init(walker, &why))
		return;
	printf("# %s\n", why);
	exit(1);
}

void walker_exit(struct walker *walker)
{
	if (walker->stack)
		munmap(walker->stack, STACK_SIZE);
	close(walker->fd);
}

static bool one_event(struct walker *walker, long ret)
{
	struct unwind_test_event more;

	if (ret) {
		printf("# the system call returned %ld\n", ret);
		return false;
	}
	if (!tracer_event(walker->fd, &walker->event)) {
		printf("# there is no trace\n");
		return false;
	}
	if (tracer_event(walker->fd, &more)) {
		printf("# there are several traces\n");
		return false;
	}
	return true;
}

/* The kernel reads both only during the system call. */
static __thread struct unwind_test_op request;
static __thread struct unwind_test_ops requests;

static void prepare(struct walker *walker)
{
	request = (struct unwind_test_op)OP_REQUEST(0, UNWIND_TEST_TASK);
	requests = (struct unwind_test_ops) { .nr = 1, .ops = (uintptr_t)&request };
	memset(walker->stack, 0, STACK_SIZE);
}

void walk_tracer_args(struct walker *walker, struct chain_args *args)
{
	*args = (struct chain_args) {
		.nr = SYS_ioctl, .arg = { walker->fd, UNWIND_TEST_RUN, (long)&requests },
	};
}

bool walk_args(struct walker *walker, const void *top, struct chain_args *args)
{
	prepare(walker);
	return one_event(walker, chain_call(walker->stack + STACK_WORDS, top, args));
}

bool walk(struct walker *walker, const struct chain_code *code, const void *map)
{
	struct chain_args args;

	walk_tracer_args(walker, &args);
	return walk_args(walker, map + code->top, &args);
}

const void **walker_words(const struct walker *walker)
{
	return (void *)(walker->stack + STACK_WORDS + STACK_GAP);
}

bool walk_words(struct walker *walker, const void *const *words, unsigned int nr)
{
	const long args[7] = { SYS_ioctl, walker->fd, UNWIND_TEST_RUN, (long)&requests };
	const void **to = walker_words(walker);

	prepare(walker);
	memcpy(to, words, nr * sizeof(*words));
	return one_event(walker, workload_call_fp(walker->stack + STACK_WORDS, (uintptr_t)to,
						  args));
}

void walk_anew(void)
{
	void *map = mmap(NULL, SFRAME_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(map, SFRAME_PAGE);
}

bool mapped_write(struct mapped *mapped, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(mapped->path, sizeof(mapped->path), format, args);
	va_end(args);
	mapped->fd = image_write(&mapped->image, mapped->path);
	if (mapped->fd < 0)
		return false;
	mapped->map = image_map(&mapped->image, mapped->fd);
	return mapped->map;
}

bool mapped_init(struct mapped *mapped, const struct image_spec *spec, const char *format, ...)
{
	char path[sizeof(mapped->path)];
	va_list args;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	image_init(&mapped->image, spec);
	return mapped_write(mapped, "%s", path);
}

void mapped_exit(struct mapped *mapped)
{
	munmap(mapped->map, mapped->image.text_size);
	close(mapped->fd);
	image_free(&mapped->image);
}

bool walk_mapped(struct walker *walker, const struct mapped *mapped)
{
	return walk(walker, mapped->image.code, mapped->map);
}

int rewrite(int fd, const struct image *image, bool truncate)
{
	struct stat before, after;

	if (fstat(fd, &before))
		return -1;
	do {
		if ((truncate && ftruncate(fd, 0)) || image_write_fd(image, fd) ||
		    fstat(fd, &after))
			return -1;
	} while (before.st_ctim.tv_sec == after.st_ctim.tv_sec &&
		 before.st_ctim.tv_nsec == after.st_ctim.tv_nsec);
	return 0;
}

int private_mount(char *dir, size_t size)
{
	snprintf(dir, size, "/tmp/unwind-sframe.XXXXXX");
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    !mkdtemp(dir))
		return -1;
	return mount("unwind", dir, "tmpfs", 0, NULL);
}

void private_unmount(const char *dir)
{
	umount2(dir, MNT_DETACH);
	rmdir(dir);
}

void trace_add(struct trace *trace, const void *ip)
{
	if (trace->nr < UNWIND_TEST_ENTRIES)
		trace->ips[trace->nr++] = (uintptr_t)ip;
}

void trace_add_chain(struct trace *trace, const struct chain_code *code, const void *map)
{
	for (int i = 0; i < CHAIN_FRAMES; i++)
		trace_add(trace, map + code->frames[i]);
}

void trace_add_callers(struct trace *trace, const struct chain_code *code, const void *map)
{
	trace_add(trace, map + code->after_call);
	for (int i = CHAIN_INNER; i < CHAIN_FRAMES; i++)
		trace_add(trace, map + code->frames[i]);
}

void trace_add_outermost(struct trace *trace)
{
	trace_add(trace, chain_outermost);
}

void trace_add_words(struct trace *trace)
{
	trace_add(trace, workload_leaf_fp);
}

struct trace trace_of(const struct chain_code *code, const void *map)
{
	struct trace trace = {};

	trace_add_chain(&trace, code, map);
	trace_add_outermost(&trace);
	return trace;
}

struct trace trace_of_mapped(const struct mapped *mapped, unsigned int nr)
{
	struct trace trace = trace_of(mapped->image.code, mapped->map);

	if (nr < trace.nr)
		trace.nr = nr;
	return trace;
}

static void print_difference(const struct walker *walker, const struct trace *trace)
{
	printf("# frames found %u, right %u\n", walker->event.nr, trace->nr);
	for (unsigned int i = 0; i < UNWIND_TEST_ENTRIES; i++) {
		__u64 found = i < walker->event.nr ? walker->event.entries[i] : 0;
		__u64 right = i < trace->nr ? trace->ips[i] : 0;

		if (found || right)
			printf("#   %#llx %#llx%s\n", found, right,
			       found == right ? "" : " <--");
	}
}

static bool has_prefix(const struct walker *walker, const struct trace *trace)
{
	return walker->event.nr && walker->event.nr <= trace->nr &&
	       !memcmp(walker->event.entries, trace->ips,
		       walker->event.nr * sizeof(trace->ips[0]));
}

bool trace_is(const struct walker *walker, const struct trace *trace)
{
	if (walker->event.nr == trace->nr && has_prefix(walker, trace))
		return true;
	print_difference(walker, trace);
	return false;
}

bool trace_begins(const struct walker *walker, const struct trace *trace)
{
	if (has_prefix(walker, trace))
		return true;
	print_difference(walker, trace);
	return false;
}

bool trace_is_of(const struct walker *walker, const struct trace *trace)
{
	unsigned int at = 0;

	for (unsigned int i = 0; i < walker->event.nr; i++) {
		while (at < trace->nr && trace->ips[at] != walker->event.entries[i])
			at++;
		if (at++ >= trace->nr) {
			print_difference(walker, trace);
			return false;
		}
	}
	return walker->event.nr;
}

/* The known states. */
static bool is_state(const char *state)
{
	static const char * const states[] = {
		"ok", "none", "no-elf", "no-section", "damaged", "unsupported", "too-large",
		"no-memory", "unreadable", "reading",
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(states); i++) {
		if (!strcmp(state, states[i]))
			return true;
	}
	return false;
}

/* Escape a path as the list does. */
static void escape(char *to, const char *path)
{
	for (; *path; path++) {
		if (*path <= ' ' || *path > '~' || *path == '\\')
			to += sprintf(to, "\\%03o", (unsigned char)*path);
		else
			*to++ = *path;
	}
	*to = '\0';
}

static int read_list(const char *path, struct object *object)
{
	FILE *file = fopen(LIST, "r");
	char line[5000], name[4500];
	int nr = 0;

	if (!file)
		return -1;
	if (!fgets(line, sizeof(line), file) || strcmp(line, LIST_HEAD)) {
		printf("# no head in " LIST "\n");
		nr = -1;
	}
	while (nr >= 0 && fgets(line, sizeof(line), file)) {
		struct object got;
		int end = 0;

		if (sscanf(line, "%15s %7s %u %u %lu %lu %4499s%n", got.state, got.version,
			   &got.functions, &got.bad, &got.bytes, &got.hits, name, &end) != 7 ||
		    strcmp(line + end, "\n") || !is_state(got.state)) {
			printf("# in " LIST ": %s", line);
			nr = -1;
		} else if (path ? !strcmp(name, path) : strcmp(name, "[vdso]")) {
			nr++;
			if (object)
				*object = got;
		}
	}
	fclose(file);
	return nr;
}

int object_find(const char *path, struct object *object)
{
	char escaped[4 * 4096];

	*object = (struct object) { .state = "absent" };
	escape(escaped, path);
	return read_list(escaped, object);
}

int object_count(void)
{
	return read_list(NULL, NULL);
}

int sframe_switch(bool on)
{
	return file_put(SWITCH, on ? "1" : "0");
}

void sframe_drop(void)
{
	sframe_switch(false);
	sframe_switch(true);
}

pid_t page_owner(const char *cgroup)
{
	pid_t pid = fork();
	int fd;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = memfd_create("page", 0);
	if (file_print(cgroup, "cgroup.procs", "0") || write(fd, "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}
