// SPDX-License-Identifier: GPL-2.0
/*
 * Walks of programs and libraries with SFrame sections: started by execve(), loaded by
 * the dynamic linker at the start and later, running before anybody traces them, in a
 * PLT, and in the vDSO. The files of sframe/ are from real compilers: their correct
 * traces follow from the calls in their code.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "perf_ring.h"
#include "sframe_sample.h"
#include "sframe_walk.h"
#include "harness.h"

/* Rounds of the functions of frames.c, and the same as an argument. */
#define ROUNDS		80
#define ROUNDS_ARG	"80"

static const struct image_spec spec_a = { .code = &chain_a };

/* A process that waits for child_run(). */
struct child {
	pid_t	pid;
	int	go;
};

#define FORK_CHILD(child) ({							\
	int _go[2];								\
										\
	ASSERT_EQ(0, pipe2(_go, O_CLOEXEC));					\
	(child)->pid = fork();							\
	(child)->go = _go[1];							\
	if (!(child)->pid) {							\
		char _c;							\
										\
		prctl(PR_SET_PDEATHSIG, SIGKILL);				\
		if (read(_go[0], &_c, 1) != 1)					\
			_exit(100);						\
	} else {								\
		close(_go[0]);							\
	}									\
	!(child)->pid;								\
})

/* Let the child run; returns its status. */
static int child_run(struct child *child)
{
	int status;

	if (write(child->go, "", 1) != 1 || waitpid(child->pid, &status, 0) != child->pid)
		return -1;
	return status;
}

FIXTURE(exec) {
	struct walker walker;
	char dir[32];
};

FIXTURE_VARIANT(exec) {
	unsigned int version;
	__u64 bias;
	bool program;
};

FIXTURE_VARIANT_ADD(exec, version_1) { .version = 1, .bias = 0x400000, .program = true };
FIXTURE_VARIANT_ADD(exec, version_2) { .version = 2, .bias = 0x400000, .program = true };
FIXTURE_VARIANT_ADD(exec, version_3) { .version = 3, .bias = 0x400000, .program = true };
FIXTURE_VARIANT_ADD(exec, pie_version_1) { .version = 1 };
FIXTURE_VARIANT_ADD(exec, pie_version_2) { .version = 2 };
FIXTURE_VARIANT_ADD(exec, pie_version_3) { .version = 3 };

FIXTURE_SETUP(exec)
{
	SETUP_WALKER();
}

FIXTURE_TEARDOWN(exec)
{
	private_unmount(self->dir);
	walker_exit(&self->walker);
}

/* The trace that a program takes of itself, at any address. */
static struct trace trace_of_program(const struct walker *walker, const struct chain_code *code,
				     __u64 bias)
{
	struct trace trace = {};
	__u64 map = bias ? bias + SFRAME_PAGE :
			   walker->event.entries[0] - code->frames[CHAIN_STUB];

	trace_add_chain(&trace, code, (void *)map);
	trace_add(&trace, (void *)map + code->after_top);
	return trace;
}

/* A program executes another one, which has other frames at the same addresses. */
TEST_F(exec, programs)
{
	const struct chain_code *const codes[] = { &chain_a, &chain_b };
	struct mapped files[2];
	struct trace right;
	struct child child;

	for (int i = 0; i < 2; i++) {
		struct image_spec spec = {
			.code = codes[i], .version = variant->version, .bias = variant->bias,
			.program = variant->program,
		};

		ASSERT_TRUE(mapped_init(&files[i], &spec, "%s/program%d", self->dir, i));
		/* A file that is open for writing cannot be executed. */
		mapped_exit(&files[i]);
	}
	if (FORK_CHILD(&child)) {
		dup2(self->walker.fd, CHAIN_TRACER_FD);
		execl(files[0].path, files[0].path, files[1].path, NULL);
		_exit(101);
	}
	ASSERT_EQ(0, child_run(&child));
	for (int i = 0; i < 2; i++) {
		ASSERT_TRUE(tracer_event(self->walker.fd, &self->walker.event));
		right = trace_of_program(&self->walker, codes[i], variant->bias);
		EXPECT_EQ(0, (right.ips[0] - codes[i]->frames[CHAIN_STUB]) % SFRAME_PAGE);
		EXPECT_TRUE(trace_is(&self->walker, &right));
		EXPECT_STATE(files[i].path, "ok");
	}
	EXPECT_FALSE(tracer_event(self->walker.fd, &self->walker.event));
}

/* The number of system calls of leaf_syscall() in a round, see frames.c. */
static unsigned int calls_of_round(unsigned int round)
{
	return (round + 5) & 3;
}

/* The recursion depth of recurse() in a round. */
static unsigned int depth_of_round(unsigned int round)
{
	return round % 40 + 1;
}

/**
 * struct sampling - traces of the functions of a file of sframe/
 * @sample:	the file
 * @attr:	an event that takes a trace at each call of getppid()
 * @ring:	the opened event
 * @record:	the latest record
 * @ends:	the file's table says which frame is the outermost
 */
struct sampling {
	struct sframe_sample	sample;
	struct perf_event_attr	attr;
	struct ring		ring;
	union record		*record;
	bool			ends;
};

#define SETUP_SAMPLING() do {							\
	self->s.attr = tracepoint_attr("syscalls/sys_enter_getppid");		\
	if (self->s.attr.type == ~0U)						\
		SKIP(return, "no CONFIG_FTRACE_SYSCALLS");			\
	SETUP_WALKER();								\
	ASSERT_TRUE(sample_open(&self->s.sample, variant->name))		\
		TH_LOG("no %s", self->s.sample.path);				\
	self->s.record = malloc(sizeof(*self->s.record));			\
	ASSERT_NE(NULL, self->s.record);					\
} while (0)

#define TEARDOWN_SAMPLING() do {						\
	free(self->s.record);							\
	private_unmount(self->dir);						\
	walker_exit(&self->walker);						\
} while (0)

#define OPEN_RING(pid) do {							\
	ASSERT_EQ(0, ring_open(&self->s.ring, &self->s.attr, pid, -1, 64));	\
	ring_enable(&self->s.ring);						\
} while (0)

#define EXPECT_SAMPLE() do {							\
	struct object _object;							\
										\
	EXPECT_STATE(self->s.sample.path, "ok");				\
	object_find(self->s.sample.path, &_object);				\
	EXPECT_STREQ(variant->version, _object.version);				\
	EXPECT_EQ(0, _object.bad);						\
} while (0)

/*
 * Is the next trace of the ring one of this round, with all callers up to @last, followed by
 * @outermost unless that is 0? Does it say whether that is known to be the end?
 */
static bool trace_of_round(struct sampling *s, unsigned int round, const char *last,
			   __u64 outermost)
{
	const struct deferred *trace = as_deferred(s->record);
	const struct sframe_sample *sample = &s->sample;
	unsigned int nr, depth;
	__u64 bias;

	if (!ring_next_type(&s->ring, s->record, PERF_RECORD_CALLCHAIN_DEFERRED)) {
		printf("# no trace of round %u\n", round);
		return false;
	}
	bias = trace->ips[0] - sample_leaf(sample);
	nr = sample_chain(sample, trace->ips, trace->nr, bias, last);
	depth = sample_count(sample, trace->ips, nr, bias, "recurse");
	if (nr && depth == depth_of_round(round) && nr + !!outermost == trace->nr &&
	    (!outermost || trace->ips[nr] == outermost) && !(bias & (SFRAME_PAGE - 1)) &&
	    !!(trace->header.misc & PERF_RECORD_MISC_CALLCHAIN_EARLY) == !s->ends)
		return true;
	printf("# in round %u, recursion %u, frames %u of %llu, bias %#llx, misc %#x\n", round,
	       depth, nr, trace->nr, bias, trace->header.misc);
	return false;
}

static bool traces_of_rounds(struct sampling *s, const char *last, __u64 outermost)
{
	for (unsigned int i = 0; i < ROUNDS; i++) {
		for (unsigned int call = 0; call < calls_of_round(i); call++) {
			if (!trace_of_round(s, i, last, outermost))
				return false;
		}
	}
	if (ring_next_type(&s->ring, s->record, PERF_RECORD_CALLCHAIN_DEFERRED)) {
		printf("# more traces than there should be\n");
		return false;
	}
	return true;
}

/* Check all traces of the ring. */
#define EXPECT_ROUNDS(last, outermost) do {					\
	EXPECT_TRUE(traces_of_rounds(&self->s, last, outermost));		\
	EXPECT_SAMPLE();							\
	ring_close(&self->s.ring);						\
} while (0)

FIXTURE(programs) {
	struct walker walker;
	char dir[32];
	struct sampling s;
};

FIXTURE_VARIANT(programs) {
	const char *name;
	const char *version;
};

FIXTURE_VARIANT_ADD(programs, version_1) { .name = "frames.v1", .version = "1" };
FIXTURE_VARIANT_ADD(programs, version_2) { .name = "frames.v2", .version = "2" };
FIXTURE_VARIANT_ADD(programs, version_3) { .name = "frames.v3", .version = "3" };
FIXTURE_VARIANT_ADD(programs, pie_version_2) { .name = "frames-pie.v2", .version = "2" };
FIXTURE_VARIANT_ADD(programs, pie_version_3) { .name = "frames-pie.v3", .version = "3" };

FIXTURE_SETUP(programs)
{
	SETUP_SAMPLING();
}

FIXTURE_TEARDOWN(programs)
{
	TEARDOWN_SAMPLING();
}

/* A program in a process of its own. */
TEST_F(programs, executed)
{
	struct child child;

	if (FORK_CHILD(&child)) {
		execl(self->s.sample.path, self->s.sample.path, ROUNDS_ARG, NULL);
		_exit(101);
	}
	/* Older versions have no words for that. */
	self->s.ends = !strcmp(variant->version, "3");
	OPEN_RING(child.pid);
	ASSERT_EQ(0, child_run(&child));
	EXPECT_ROUNDS("_start", 0);
}

/* The stack of chain_call(). */
static char stack[64 << 10] __attribute__((aligned(16)));

static void call_top(const void *top)
{
	chain_call(stack + sizeof(stack), top, (void *)ROUNDS);
}

FIXTURE(libraries) {
	struct walker walker;
	char dir[32];
	struct sampling s;
};

FIXTURE_VARIANT(libraries) {
	const char *name;
	const char *version;
};

FIXTURE_VARIANT_ADD(libraries, version_1) { .name = "libframes.v1.so", .version = "1" };
FIXTURE_VARIANT_ADD(libraries, version_2) { .name = "libframes.v2.so", .version = "2" };
FIXTURE_VARIANT_ADD(libraries, version_3) { .name = "libframes.v3.so", .version = "3" };

FIXTURE_SETUP(libraries)
{
	SETUP_SAMPLING();
}

FIXTURE_TEARDOWN(libraries)
{
	TEARDOWN_SAMPLING();
}

/* A library that a running program loads. */
TEST_F(libraries, opened)
{
	void *lib;

	lib = dlopen(self->s.sample.path, RTLD_LAZY | RTLD_LOCAL);
	ASSERT_NE(NULL, lib)
		TH_LOG("%s", dlerror());
	OPEN_RING(0);
	call_top(dlsym(lib, "top"));
	ring_disable(&self->s.ring);
	EXPECT_ROUNDS("top", (uintptr_t)chain_outermost);
}

/* A library that is loaded at the start, by this same program, see main(). */
TEST_F(libraries, preloaded)
{
	struct child child;
	__u64 outermost;
	int report[2];
	char fd[16];

	ASSERT_EQ(0, pipe(report));
	snprintf(fd, sizeof(fd), "%d", report[1]);
	if (FORK_CHILD(&child)) {
		setenv("LD_PRELOAD", self->s.sample.path, 1);
		execl("/proc/self/exe", "sframe_programs", "--call-top", fd, NULL);
		_exit(101);
	}
	OPEN_RING(child.pid);
	ASSERT_EQ(0, child_run(&child));
	ASSERT_EQ(sizeof(outermost), read(report[0], &outermost, sizeof(outermost)));
	EXPECT_ROUNDS("top", outermost);
}

/* Instructions of a PLT: of its first entry, and of a function's entry. */
static const struct plt_place {
	bool		entry;
	unsigned int	offset;
} plt_places[] = { { false, 0 }, { false, 6 }, { true, 0 }, { true, 6 }, { true, 11 } };

/* All callers of a function that is about to be called through its PLT entry. */
TEST_F(libraries, in_plt)
{
	const struct sframe_sample *sample = &self->s.sample;
	const struct deferred *trace = as_deferred(self->s.record);
	struct ring rings[ARRAY_SIZE(plt_places)];
	unsigned int hits[ARRAY_SIZE(plt_places)] = {};
	__u64 at[ARRAY_SIZE(plt_places)];
	struct link_map *lib;

	for (unsigned int i = 0; i < ARRAY_SIZE(plt_places); i++) {
		int err;

		at[i] = sample_plt(sample, plt_places[i].entry ? "leaf_syscall" : NULL) +
			plt_places[i].offset;
		/* These addresses are offsets in the file, too. */
		err = uprobe_file_attr(&self->s.attr, sample->path, at[i]);
		if (err == -ENOENT)
			SKIP(return, "no uprobe event source");
		ASSERT_EQ(0, err);
		/* The first ring gets the records of all events. */
		self->s.attr.defer_output = !i;
		ASSERT_EQ(0, ring_open(&rings[i], &self->s.attr, 0, -1, 64));
		ring_enable(&rings[i]);
	}
	lib = dlopen(sample->path, RTLD_LAZY | RTLD_LOCAL);
	ASSERT_NE(NULL, lib)
		TH_LOG("%s", dlerror());
	call_top(dlsym(lib, "top"));
	for (unsigned int i = 0; i < ARRAY_SIZE(plt_places); i++)
		ring_disable(&rings[i]);

	while (ring_next_type(&rings[0], self->s.record, PERF_RECORD_CALLCHAIN_DEFERRED)) {
		unsigned int nr;

		nr = sample_chain(sample, trace->ips, trace->nr, lib->l_addr, "top");
		ASSERT_NE(0, nr);
		ASSERT_EQ(nr + 1, trace->nr);
		EXPECT_EQ((uintptr_t)chain_outermost, trace->ips[nr]);
		for (unsigned int i = 0; i < ARRAY_SIZE(plt_places); i++)
			hits[i] += trace->ips[0] == lib->l_addr + at[i];
	}
	/* Each of eight functions is resolved once. */
	for (unsigned int i = 0; i < ARRAY_SIZE(plt_places); i++)
		EXPECT_EQ(!plt_places[i].entry ? 8 : !plt_places[i].offset ? ROUNDS : 1, hits[i]);
	EXPECT_SAMPLE();
}

FIXTURE(others) {
	struct walker walker;
	char dir[32];
	struct mapped file;
	struct ring ring;
	union record *record;
};

FIXTURE_SETUP(others)
{
	SETUP_WALKER();
	ASSERT_TRUE(mapped_init(&self->file, &spec_a, "%s/file", self->dir));
	self->record = malloc(sizeof(*self->record));
	ASSERT_NE(NULL, self->record);
}

FIXTURE_TEARDOWN(others)
{
	free(self->record);
	private_unmount(self->dir);
	walker_exit(&self->walker);
}

/* Walks of a process that has been running for a while. */
TEST_F(others, attached)
{
	struct perf_event_attr attr = tracepoint_attr("syscalls/sys_enter_getppid");
	const struct chain_args args = { .nr = SYS_getppid };
	struct trace right = trace_of_mapped(&self->file, ALL_FRAMES);
	const struct deferred *trace = as_deferred(self->record);
	int running[2], status;
	pid_t child;
	char c;

	if (attr.type == ~0U)
		SKIP(return, "no CONFIG_FTRACE_SYSCALLS");
	ASSERT_EQ(0, pipe(running));
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			chain_call(stack + sizeof(stack), self->file.map + chain_a.top, &args);
			if (running[1] >= 0 && write(running[1], "", 1) == 1)
				running[1] = -1;
		}
	}
	ASSERT_EQ(1, read(running[0], &c, 1));
	EXPECT_EQ(0, object_count());

	ASSERT_EQ(0, ring_open(&self->ring, &attr, child, -1, 64));
	ring_enable(&self->ring);
	for (int i = 0; i < 100; i++) {
		while (!ring_next_type(&self->ring, self->record, PERF_RECORD_CALLCHAIN_DEFERRED))
			sched_yield();
		ASSERT_EQ(right.nr, trace->nr);
		EXPECT_EQ(0, memcmp(right.ips, trace->ips, right.nr * sizeof(right.ips[0])));
	}
	ring_close(&self->ring);
	kill(child, SIGKILL);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_STATE(self->file.path, "ok");
}

/*
 * The last stack of a task is walked when nothing can end a wait any more: an unknown file
 * is not read, and a cached table is used.
 */
TEST_F(others, exiting)
{
	struct perf_event_attr attr = tracepoint_attr("syscalls/sys_enter_exit_group");
	const struct chain_args args = { .nr = SYS_exit_group, .arg = { 7 } };
	struct trace right = trace_of_mapped(&self->file, ALL_FRAMES);
	const struct deferred *trace = as_deferred(self->record);
	struct object object;

	if (attr.type == ~0U)
		SKIP(return, "no CONFIG_FTRACE_SYSCALLS");
	for (int known = 0; known < 2; known++) {
		long loaded = unwind_stat("sframe_loaded");
		struct child child;

		if (FORK_CHILD(&child))
			chain_call(stack + sizeof(stack), self->file.map + chain_a.top, &args);
		ASSERT_EQ(0, ring_open(&self->ring, &attr, child.pid, -1, 64));
		ring_enable(&self->ring);
		ASSERT_EQ(7 << 8, child_run(&child));
		ASSERT_TRUE(ring_next_type(&self->ring, self->record,
					   PERF_RECORD_CALLCHAIN_DEFERRED));
		EXPECT_EQ(known ? right.nr : 1, trace->nr);
		EXPECT_EQ(0, memcmp(right.ips, trace->ips, trace->nr * sizeof(right.ips[0])));
		EXPECT_EQ(known, object_find(self->file.path, &object));
		EXPECT_EQ(0, unwind_stat("sframe_loaded") - loaded);
		ring_close(&self->ring);

		/* Load the table for the second round. */
		EXPECT_CHAIN(&self->file);
	}
}

/*
 * A system call that the vDSO makes itself. The vDSO also has frame pointers, so only the
 * count of hits tells that its table was used.
 */
TEST_F(others, vdso)
{
	struct perf_event_attr attr = tracepoint_attr("syscalls/sys_enter_clock_gettime");
	void *vdso = dlopen("linux-vdso.so.1", RTLD_LAZY | RTLD_NOLOAD);
	const struct deferred *trace = as_deferred(self->record);
	struct trace right = {};
	struct object object;
	struct timespec ts;
	struct chain_args args = {
		.call_arg = (void *)CLOCK_PROCESS_CPUTIME_ID, .call_arg2 = &ts,
	};
	void *top = self->file.map + chain_a.top;

	ASSERT_NE(-1, object_find("[vdso]", &object));
	if (!strcmp(object.state, "no-section"))
		SKIP(return, "needs a vDSO with SFrame, by an assembler that makes that");
	EXPECT_STREQ("ok", object.state);
	if (attr.type == ~0U)
		SKIP(return, "no CONFIG_FTRACE_SYSCALLS");
	ASSERT_NE(NULL, vdso);
	args.call = dlsym(vdso, "__vdso_clock_gettime");
	ASSERT_NE(NULL, args.call);
	trace_add_callers(&right, &chain_a, self->file.map);
	trace_add_outermost(&right);

	ASSERT_EQ(0, ring_open(&self->ring, &attr, 0, -1, 64));
	do {
		unsigned int nr;

		walk_anew();
		ring_enable(&self->ring);
		ASSERT_EQ(0, chain_call(stack + sizeof(stack), top, &args));
		ring_disable(&self->ring);
		ASSERT_TRUE(ring_next_type(&self->ring, self->record,
					   PERF_RECORD_CALLCHAIN_DEFERRED));
		nr = trace->nr - right.nr;
		/* One or two functions of the vDSO. */
		ASSERT_LE(right.nr + 1, trace->nr);
		ASSERT_GE(right.nr + 2, trace->nr);
		EXPECT_EQ(0, memcmp(right.ips, trace->ips + nr, right.nr * sizeof(right.ips[0])));
		object_find("[vdso]", &object);
	} while (!object.hits);
	ring_close(&self->ring);
}

/* The program that the test "preloaded" executes. */
static int preloaded_main(const char *fd)
{
	const char *outermost = chain_outermost;
	const void *top = dlsym(RTLD_DEFAULT, "top");

	if (!top || write(atoi(fd), &outermost, sizeof(outermost)) != sizeof(outermost))
		return 1;
	call_top(top);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--call-top"))
		return preloaded_main(argv[2]);
	return test_harness_run(argc, argv);
}
