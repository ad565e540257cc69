// SPDX-License-Identifier: GPL-2.0
/*
 * Deep stacks: the trace is complete up to the longest record. Its memory is held only
 * while in use and is charged to the task's cgroup, in which no task is ever killed for
 * it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf_ring.h"
#include "tracer.h"
#include "workload.h"
#include "harness.h"

#define MAX_STACK	"kernel/perf_event_max_stack"
/* Entries that fit into a record of 64 KiB with the largest sample_id. */
#define LONGEST		8180U
#define PAGE		4096UL
/* At most this many entries fit into a page. */
#define PAGE_ENTRIES	((unsigned int)(PAGE / sizeof(long)))

/* Number of known callers for a trace of @nr entries. */
#define DEPTH(nr)	((nr) - WORKLOAD_NR(0))

FIXTURE(depth) {
	int old;
};

FIXTURE_VARIANT(depth) {
	/* The limit, and the number of entries of the stack and of its trace. */
	unsigned int max, nr, found;
};

FIXTURE_VARIANT_ADD(depth, 127) { .max = 127, .nr = 127, .found = 127 };
FIXTURE_VARIANT_ADD(depth, 510) { .max = 511, .nr = 510, .found = 510 };
FIXTURE_VARIANT_ADD(depth, 2000) { .max = 2001, .nr = 2000, .found = 2000 };
FIXTURE_VARIANT_ADD(depth, 8000) { .max = 8001, .nr = 8000, .found = 8000 };
FIXTURE_VARIANT_ADD(depth, short_of_longest) { .max = 9000, .nr = 8179, .found = 8179 };
FIXTURE_VARIANT_ADD(depth, longest) { .max = 9000, .nr = LONGEST, .found = LONGEST };

FIXTURE_VARIANT_ADD(depth, one_more) { .max = 9000, .nr = LONGEST + 1, .found = LONGEST };
FIXTURE_VARIANT_ADD(depth, one_more_than_127) { .max = 127, .nr = 128, .found = 127 };

FIXTURE_SETUP(depth)
{
	self->old = set_sysctl(MAX_STACK, variant->max);
	if (self->old < 0)
		SKIP(return, "cannot set %s: %s", MAX_STACK, strerror(-self->old));
}

FIXTURE_TEARDOWN(depth)
{
	if (self->old >= 0)
		set_sysctl(MAX_STACK, self->old);
}

/* Check the only sample in @ring and its record. */
static void check_record(struct __test_metadata *_metadata, struct ring *ring, unsigned int depth,
			 unsigned int found)
{
	union record *record = malloc(sizeof(*record));
	const struct deferred *deferred = as_deferred(record);
	struct sample sample;
	__u64 cookie;

	ASSERT_TRUE(ring_next_type(ring, record, PERF_RECORD_SAMPLE));
	parse_sample(record, &sample);
	cookie = sample_cookie(&sample);
	EXPECT_NE(0, cookie);
	ASSERT_TRUE(ring_next(ring, record));
	ASSERT_EQ(PERF_RECORD_CALLCHAIN_DEFERRED, record->header.type);
	EXPECT_EQ(cookie, deferred->cookie);
	EXPECT_EQ(found, deferred->nr);
	EXPECT_EQ(-1, workload_check_head(deferred->ips, deferred->nr, depth));
	EXPECT_FALSE(ring_next(ring, record));
	free(record);
}

/* Records to more buffers than can get a long record in one pass. */
TEST_F(depth, record)
{
	struct perf_event_attr attr = tracepoint_attr("syscalls/sys_enter_getppid");
	long ended_full = unwind_stat("ended_full");
	struct ring rings[3];

	if (attr.type == ~0U)
		SKIP(return, "needs tracefs and CONFIG_FTRACE_SYSCALLS");
	for (int i = 0; i < ARRAY_SIZE(rings); i++)
		ASSERT_EQ(0, ring_open(&rings[i], &attr, 0, -1, 64));
	for (int i = 0; i < ARRAY_SIZE(rings); i++)
		ring_enable(&rings[i]);
	workload_syscall(DEPTH(variant->nr), SYS_getppid);
	for (int i = 0; i < ARRAY_SIZE(rings); i++) {
		ring_disable(&rings[i]);
		check_record(_metadata, &rings[i], DEPTH(variant->nr), variant->found);
		ring_close(&rings[i]);
	}
	EXPECT_EQ(ended_full + (variant->nr > variant->found), unwind_stat("ended_full"));
}

/* The buffer is larger than a page only if needed, and until the return to user mode. */
TEST_F(depth, room)
{
	struct unwind_test_op shallow[] = { OP_FAULTABLE(), OP_ROOM() };
	struct unwind_test_op deep[] = { OP_FAULTABLE(), OP_ROOM() };
	struct unwind_test_op request[] = { OP_INIT(0), OP_REQUEST(0, UNWIND_TEST_TASK) };
	struct unwind_test_op room = OP_ROOM();
	struct unwind_test_event event = {};
	long ended_full = unwind_stat("ended_full");
	int cut = variant->nr > variant->found, page;
	const char *why;
	int fd = tracer_open(&why);

	if (fd < 0)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, tracer_run_deep(fd, shallow, ARRAY_SIZE(shallow), 10));
	page = shallow[1].ret;
	EXPECT_EQ(WORKLOAD_NR(10), shallow[0].arg);
	EXPECT_LE(WORKLOAD_NR(10), page);
	EXPECT_GT(PAGE_ENTRIES, page);

	ASSERT_EQ(0, tracer_run_deep(fd, deep, ARRAY_SIZE(deep), DEPTH(variant->nr)));
	EXPECT_EQ(0, deep[0].ret);
	EXPECT_EQ(variant->found, deep[0].arg);
	EXPECT_LE(variant->found, deep[1].ret);
	EXPECT_EQ(0, tracer_run(fd, &room, 1));
	EXPECT_EQ(page, room.ret);

	/* The same by a request; the event has only the head of the trace. */
	ASSERT_EQ(0, tracer_run_deep(fd, request, ARRAY_SIZE(request), DEPTH(variant->nr)));
	EXPECT_EQ(0, request[1].ret);
	ASSERT_TRUE(tracer_event(fd, &event));
	EXPECT_EQ(request[1].cookie, event.cookie);
	EXPECT_EQ(variant->found, event.nr);
	EXPECT_EQ(-1, workload_check_head(event.entries, UNWIND_TEST_ENTRIES, DEPTH(variant->nr)));
	EXPECT_FALSE(tracer_event(fd, &event));
	EXPECT_EQ(0, tracer_run(fd, &room, 1));
	EXPECT_EQ(page, room.ret);
	EXPECT_EQ(ended_full + 2 * cut, unwind_stat("ended_full"));
	close(fd);
}

/*
 * A memory cgroup with a process of many threads, each with a deep stack. A single trace
 * could hide in a batch, because memory is charged in batches.
 */
#define THREADS		32
#define NR		8000U
#define BUFFERS		(THREADS * NR * sizeof(long))
#define STACK		(64 * PAGE)
/* Memory that a CPU may charge in advance. */
#define BATCH		(64 * PAGE)

/* Phases of the process, for all threads. */
enum phase { WARM_UP, REQUEST, END };

struct shared {
	atomic_int	phase, ready, released;
};

FIXTURE(memcg) {
	struct shared *shared;
	char dir[64];
	int fd, old;
	pid_t child;
};

static int cg_open(const char *dir, const char *file, int flags)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	return open(path, flags | O_CLOEXEC);
}

static int cg_write(const char *dir, const char *file, const char *text)
{
	int fd = cg_open(dir, file, O_WRONLY);
	int ret = write(fd, text, strlen(text)) < 0 ? -errno : 0;

	close(fd);
	return ret;
}

/* The number after @key in a file, or the file's only number if @key is NULL; or -1. */
static long cg_read(const char *dir, const char *file, const char *key)
{
	char text[8192], line[32];
	int fd = cg_open(dir, file, O_RDONLY);
	ssize_t size = read(fd, text, sizeof(text) - 1);
	const char *at = text;

	close(fd);
	if (size < 0)
		return -1;
	text[size] = 0;
	if (key) {
		snprintf(line, sizeof(line), "%s ", key);
		while (strncmp(at, line, strlen(line))) {
			at = strchr(at, '\n');
			if (!at++)
				return -1;
		}
		at += strlen(line);
	}
	return atol(at);
}

/* The mount point of cgroups, with the memory controller enabled; NULL if there is none. */
static const char *cg_root(void)
{
	static const char * const dirs[] = { "/sys/fs/cgroup", "/tmp/unwind-cgroup" };

	for (unsigned int i = 0; i < ARRAY_SIZE(dirs); i++) {
		if (i) {
			mkdir(dirs[i], 0700);
			mount("cgroup", dirs[i], "cgroup2", 0, NULL);
		}
		if (!cg_write(dirs[i], "cgroup.subtree_control", "+memory"))
			return dirs[i];
	}
	return NULL;
}

struct thread {
	struct shared	*shared;
	char		*stack;
	int		fd;
};

static void wait_for(struct shared *shared, enum phase phase)
{
	while (shared->phase < phase)
		usleep(1000);
}

static void *deep_thread(void *data)
{
	struct thread *thread = data;
	struct unwind_test_op op = OP_FAULTABLE();
	struct unwind_test_ops ops = { .nr = 1, .ops = (uintptr_t)&op };
	long call[7] = { SYS_getppid };
	char *top = thread->stack + STACK;

	/* Allocate everything except for the long buffer. */
	workload_call_on(top, DEPTH(NR), call);
	if (tracer_run(thread->fd, &op, 1))
		_exit(1);
	thread->shared->ready++;

	wait_for(thread->shared, REQUEST);
	op = (struct unwind_test_op)OP_REQUEST(0, UNWIND_TEST_TASK);
	memcpy(call, (long[7]){ SYS_ioctl, thread->fd, UNWIND_TEST_RUN, (long)&ops },
	       sizeof(call));
	if (workload_call_on(top, DEPTH(NR), call) || op.ret)
		_exit(1);
	thread->shared->released++;
	wait_for(thread->shared, END);
	return NULL;
}

/* The process in the cgroup, which it enters first. */
static void deep_process(struct shared *shared, const char *dir, int fd)
{
	static struct thread threads[THREADS];
	pthread_t ids[THREADS];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin_to(0);
	if (cg_write(dir, "cgroup.procs", "0"))
		_exit(1);
	for (int i = 0; i < THREADS; i++) {
		threads[i] = (struct thread) { .shared = shared, .fd = fd };
		threads[i].stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (threads[i].stack == MAP_FAILED ||
		    pthread_create(&ids[i], NULL, deep_thread, &threads[i]))
			_exit(1);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(ids[i], NULL);
	_exit(0);
}

FIXTURE_SETUP(memcg)
{
	const char *root = cg_root();

	self->old = -1;
	if (!root)
		SKIP(return, "needs root and the memory controller of cgroup2");
	SETUP_TRACERS(1);
	ASSERT_EQ(0, tracer_op(self->fd, (struct unwind_test_op)
			       OP_MODE(0, UNWIND_TEST_MODE_SLEEP, 0)));
	self->old = set_sysctl(MAX_STACK, NR + 1);
	ASSERT_LE(0, self->old);
	snprintf(self->dir, sizeof(self->dir), "%s/unwind-%d", root, getpid());
	ASSERT_EQ(0, mkdir(self->dir, 0700));
	/* Without swap, reclaim cannot make room. */
	cg_write(self->dir, "memory.swap.max", "0");
	self->shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->shared);

	self->child = fork();
	if (!self->child)
		deep_process(self->shared, self->dir, self->fd);
	ASSERT_LT(0, self->child);
	while (self->shared->ready < THREADS) {
		ASSERT_EQ(0, waitpid(self->child, NULL, WNOHANG));
		usleep(1000);
	}
}

FIXTURE_TEARDOWN(memcg)
{
	if (self->old >= 0)
		set_sysctl(MAX_STACK, self->old);
	if (self->dir[0])
		rmdir(self->dir);
}

/* The traces that the callbacks of all threads got, while these sleep. */
struct traces {
	unsigned int	whole, shorter, empty, wrong;
};

static void get_traces(int fd, struct traces *traces)
{
	unsigned int nr = 0;

	memset(traces, 0, sizeof(*traces));
	while (nr < THREADS) {
		struct unwind_test_event event;
		unsigned int head;

		if (!tracer_event(fd, &event)) {
			usleep(1000);
			continue;
		}
		nr++;
		head = event.nr < UNWIND_TEST_ENTRIES ? event.nr : UNWIND_TEST_ENTRIES;
		traces->whole += event.nr == NR;
		traces->shorter += event.nr && event.nr < NR;
		traces->empty += !event.nr;
		traces->wrong += event.end || event.nr > NR ||
				 workload_check_head(event.entries, head, DEPTH(NR)) >= 0;
	}
}

/* End the callbacks, and wait until the buffers are freed. */
#define RELEASE() do {								\
	EXPECT_EQ(0, tracer_op(self->fd, (struct unwind_test_op)OP_RELEASE(0)));	\
	while (self->shared->released < THREADS) {				\
		ASSERT_EQ(0, waitpid(self->child, NULL, WNOHANG));		\
		usleep(1000);							\
	}									\
} while (0)

#define FINISH() do {								\
	int _status;								\
										\
	self->shared->phase = END;						\
	ASSERT_EQ(self->child, waitpid(self->child, &_status, 0));		\
	EXPECT_EQ(0, _status);							\
} while (0)

/* The sum may be off by a batch: expect to see only most of the buffers. */
#define MOST	((long)BUFFERS / 2)

/*
 * The kernel memory of a cgroup, as it is now. The statistics in memory.stat are up to two
 * seconds late, but a read of cpu.stat updates those of all controllers.
 */
static long kernel_memory(const char *dir)
{
	if (cg_read(dir, "cpu.stat", "usage_usec") < 0)
		return -1;
	return cg_read(dir, "memory.stat", "kernel");
}

TEST_F(memcg, charged_and_given_back)
{
	long kernel[3], current[3];
	struct traces traces;

	kernel[0] = kernel_memory(self->dir);
	ASSERT_LT(0, kernel[0]);
	current[0] = cg_read(self->dir, "memory.current", NULL);
	self->shared->phase = REQUEST;
	get_traces(self->fd, &traces);
	EXPECT_EQ(THREADS, traces.whole);
	EXPECT_EQ(0, traces.wrong);

	kernel[1] = kernel_memory(self->dir);
	current[1] = cg_read(self->dir, "memory.current", NULL);
	EXPECT_LE(MOST, kernel[1] - kernel[0]);
	EXPECT_LE(MOST, current[1] - current[0]);

	RELEASE();
	kernel[2] = kernel_memory(self->dir);
	current[2] = cg_read(self->dir, "memory.current", NULL);
	EXPECT_LE(MOST, kernel[1] - kernel[2]);
	EXPECT_LE(MOST, current[1] - current[2]);
	TH_LOG("kernel memory %ld, %ld, %ld KiB; all memory %ld, %ld, %ld KiB",
	       kernel[0] >> 10, kernel[1] >> 10, kernel[2] >> 10,
	       current[0] >> 10, current[1] >> 10, current[2] >> 10);
	FINISH();
}

/* Without memory the trace is shorter, which is counted, and no task is killed. */
TEST_F(memcg, no_memory)
{
	long nomem = unwind_stat("nomem"), ended_full = unwind_stat("ended_full");
	long empty = unwind_stat("empty_nomem");
	struct traces traces;
	char max[32];

	/* Leave room for a few buffers. */
	snprintf(max, sizeof(max), "%ld", cg_read(self->dir, "memory.current", NULL) + (long)BATCH);
	ASSERT_EQ(0, cg_write(self->dir, "memory.max", max));
	self->shared->phase = REQUEST;
	get_traces(self->fd, &traces);
	TH_LOG("%u whole, %u shorter, %u empty", traces.whole, traces.shorter, traces.empty);
	EXPECT_LT(0, traces.shorter + traces.empty);
	EXPECT_EQ(0, traces.wrong);
	EXPECT_EQ(traces.shorter + traces.empty, unwind_stat("nomem") - nomem);
	EXPECT_EQ(traces.shorter, unwind_stat("ended_full") - ended_full);
	EXPECT_EQ(traces.empty, unwind_stat("empty_nomem") - empty);
	EXPECT_LT(0, cg_read(self->dir, "memory.events", "max"));

	RELEASE();
	EXPECT_EQ(0, cg_read(self->dir, "memory.events", "oom_kill"));
	FINISH();
}

TEST_HARNESS_MAIN
