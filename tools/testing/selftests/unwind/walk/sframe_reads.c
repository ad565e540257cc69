// SPDX-License-Identifier: GPL-2.0
/*
 * Reads of a file's SFrame section that meet trouble: other tasks need it as well, it
 * changes, the read never ends or fails, or memory is short. The walked task then gets
 * its trace without the table, can be killed, and holds up no other task. Once the
 * trouble is over, the trace uses the table.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fuse.h"
#include "perf_ring.h"
#include "random.h"
#include "sframe_child.h"
#include "sframe_walk.h"
#include "workload.h"
#include "harness.h"

FIXTURE(reads) {
	struct walker walker;
	char dir[32];
	struct mapped file;
};

FIXTURE_SETUP(reads)
{
	SETUP_WALKER();
}

FIXTURE_TEARDOWN(reads)
{
	private_unmount(self->dir);
	walker_exit(&self->walker);
}

/* Reads of files so far, successful or not. Lookups in the cache do not count. */
static long reads(void)
{
	return unwind_stat("sframe_loaded") + unwind_stat("sframe_refused");
}

#define THREADS		4

/* State that the walking threads share. */
struct crowd {
	struct mapped		*file;
	pthread_barrier_t	barrier;
	unsigned int		rounds;
	long			reads;
	atomic_uint		wrong;
	atomic_bool		stop;
};

/* One of many threads that walk through an unknown file at once, another one in each round. */
static void *first_walks(void *data)
{
	struct crowd *crowd = data;
	struct walker walker;

	walker_thread_init(&walker);
	for (unsigned int i = 0; i < crowd->rounds; i++) {
		struct trace right;

		pthread_barrier_wait(&crowd->barrier);
		right = trace_of_mapped(crowd->file, ALL_FRAMES);
		/* A thread that has waited too long walks without the table. */
		crowd->wrong += !walk_mapped(&walker, crowd->file) ||
				(walker.event.nr != 1 && !trace_is(&walker, &right)) ||
				!trace_begins(&walker, &right);
		pthread_barrier_wait(&crowd->barrier);
		crowd->wrong += !walk_mapped(&walker, crowd->file) || !trace_is(&walker, &right);
		pthread_barrier_wait(&crowd->barrier);
	}
	walker_exit(&walker);
	return NULL;
}

/* Only one of the threads reads the file. */
TEST_F(reads, by_one_of_many)
{
	struct crowd crowd = { .file = &self->file, .rounds = 30 };
	pthread_t threads[THREADS];
	long loaded;

	ASSERT_EQ(0, pthread_barrier_init(&crowd.barrier, NULL, THREADS + 1));
	for (int i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, first_walks, &crowd));
	for (unsigned int i = 0; i < crowd.rounds; i++) {
		const struct image_spec spec = { .code = i % 2 ? &chain_a : &chain_b };

		ASSERT_TRUE(mapped_init(&self->file, &spec, "%s/%u", self->dir, i));
		loaded = unwind_stat("sframe_loaded");
		for (int step = 0; step < 3; step++)
			pthread_barrier_wait(&crowd.barrier);
		EXPECT_EQ(1, unwind_stat("sframe_loaded") - loaded);
		EXPECT_STATE(self->file.path, "ok");
		mapped_exit(&self->file);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	EXPECT_EQ(0, crowd.wrong);
}

/* Whatever a table contains, the stack holds no other return addresses. */
static void *walks_of_changing(void *data)
{
	struct crowd *crowd = data;
	struct trace right = trace_of_mapped(crowd->file, ALL_FRAMES);
	struct walker walker;

	walker_thread_init(&walker);
	while (reads() < crowd->reads) {
		for (int i = 0; i < 16; i++) {
			crowd->wrong += !walk_mapped(&walker, crowd->file) ||
					!trace_is_of(&walker, &right);
			walk_anew();
		}
	}
	walker_exit(&walker);
	return NULL;
}

static void *change(void *data)
{
	struct crowd *crowd = data;
	const struct image *image = &crowd->file->image;
	size_t section = image_offset(image, image->sframe);

	while (!crowd->stop) {
		size_t at = rnd_below(image->sframe_size);
		__u8 byte = one_in(3) ? image->bytes[section + at] : rnd();

		/*
		 * With another version or with register rules, a walk might find an address
		 * of code that is not a caller's.
		 */
		if (at == offsetof(struct sframe_head, version))
			continue;
		for (unsigned int i = 0; image->sframe->version == 3 && i < image->functions; i++) {
			if ((__u8 *)image->sframe + at == &sframe_attr(image->sframe, i)->info2)
				byte = 0;
		}
		if (pwrite(crowd->file->fd, &byte, 1, section + at) != 1)
			crowd->wrong++;
		/* The file system's clock is coarse, and a locked file is not read. */
		if (one_in(4))
			sframe_drop();
		sched_yield();
	}
	return NULL;
}

/* The section is never complete, and keeps changing. */
TEST_F(reads, of_what_changes)
{
	struct crowd crowd = { .file = &self->file };
	pthread_t threads[THREADS], changer;

	fuzz_start();
	for (int version = 1; version <= 3; version++) {
		const struct image_spec spec = { .code = &chain_a, .version = version };

		ASSERT_TRUE(mapped_init(&self->file, &spec, "%s/%d", self->dir, version));
		crowd.reads = reads() + 100;
		crowd.stop = false;
		ASSERT_EQ(0, pthread_create(&changer, NULL, change, &crowd));
		for (int i = 0; i < THREADS; i++)
			ASSERT_EQ(0, pthread_create(&threads[i], NULL, walks_of_changing, &crowd));
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		crowd.stop = true;
		pthread_join(changer, NULL);
		EXPECT_EQ(0, crowd.wrong);

		ASSERT_EQ(0, rewrite(self->file.fd, &self->file.image, false));
		walk_anew();
		EXPECT_CHAIN(&self->file);
		EXPECT_STATE(self->file.path, "ok");
	}
}

/* One allocation fails: the next attempt is a second later, not at the next walk. */
TEST_F(reads, without_memory)
{
	const struct image_spec spec = { .code = &chain_a };
	const struct image_spec other = { .code = &chain_b };
	struct unwind_test_op op = OP_FAIL(UNWIND_TEST_FAIL_CACHE, 1);
	struct trace right, none;
	long before, walks = 0;

	/* Allocate the memory for traces first. */
	ASSERT_TRUE(mapped_init(&self->file, &other, "%s/other", self->dir));
	EXPECT_CHAIN(&self->file);
	ASSERT_TRUE(mapped_init(&self->file, &spec, "%s/file", self->dir));
	right = trace_of_mapped(&self->file, ALL_FRAMES);
	none = trace_of_mapped(&self->file, 1);

	before = reads();
	ASSERT_EQ(0, tracer_op(self->walker.fd, op));
	EXPECT_FRAMES(&self->file, 1);
	EXPECT_STATE(self->file.path, "no-memory");
	do {
		walks++;
		walk_anew();
		ASSERT_TRUE(walk_mapped(&self->walker, &self->file));
		if (self->walker.event.nr == 1)
			ASSERT_TRUE(trace_is(&self->walker, &none));
	} while (self->walker.event.nr == 1);
	EXPECT_TRUE(trace_is(&self->walker, &right));
	EXPECT_STATE(self->file.path, "ok");
	EXPECT_EQ(2, reads() - before)
		TH_LOG("%ld walks", walks);
}

/* No memory for an object: the file stays unknown, and the next new lookup tries again. */
TEST_F(reads, without_object)
{
	struct unwind_test_op op = OP_FAIL(UNWIND_TEST_FAIL_OBJECT, 1);
	const struct image_spec spec = { .code = &chain_a };
	struct object object;
	long before;

	ASSERT_TRUE(mapped_init(&self->file, &spec, "%s/file", self->dir));
	before = unwind_stat("nomem");
	ASSERT_EQ(0, tracer_op(self->walker.fd, op));
	EXPECT_FRAMES(&self->file, 1);
	EXPECT_EQ(0, object_find(self->file.path, &object));
	EXPECT_EQ(1, unwind_stat("nomem") - before);
	walk_anew();
	EXPECT_CHAIN(&self->file);
	EXPECT_STATE(self->file.path, "ok");
}

/* No memory for the name: the object has none, and its size does not include it. */
TEST_F(reads, without_name)
{
	struct unwind_test_op op = OP_FAIL(UNWIND_TEST_FAIL_NAME, 1);
	const struct image_spec spec = { .code = &chain_a };
	struct object unnamed, named;

	ASSERT_TRUE(mapped_init(&self->file, &spec, "%s/file", self->dir));
	ASSERT_EQ(0, tracer_op(self->walker.fd, op));
	EXPECT_CHAIN(&self->file);
	ASSERT_EQ(1, object_find("?", &unnamed));
	EXPECT_STREQ("ok", unnamed.state);
	sframe_drop();
	walk_anew();
	EXPECT_CHAIN(&self->file);
	ASSERT_EQ(1, object_find(self->file.path, &named));
	EXPECT_EQ(unnamed.bytes + strlen(self->file.path) + 1, named.bytes);
	EXPECT_EQ(0, object_find("?", &unnamed));
}

/* The file is unknown, and this walk has not read it. */
#define EXPECT_NOT_READ(mapped) do {						\
	long _before = unwind_stat("sframe_not_read");				\
	struct object _none;							\
										\
	EXPECT_FRAMES(mapped, 1);						\
	EXPECT_EQ(0, object_find((mapped)->path, &_none));			\
	EXPECT_LT(_before, unwind_stat("sframe_not_read"));			\
} while (0)

static void wait_until_read(const char *path)
{
	struct object object;

	while (!object_find(path, &object) || !strcmp(object.state, "reading"))
		sched_yield();
}

/* A task that must not wait walks without the table while another task reads it. */
TEST_F(reads, for_real_time)
{
	struct image_spec spec = { .code = &chain_a };

	ASSERT_TRUE(mapped_init(&self->file, &spec, "%s/file", self->dir));
	ASSERT_EQ(0, set_policy(SCHED_FIFO));
	EXPECT_FRAMES(&self->file, 1);
	ASSERT_EQ(0, set_policy(SCHED_OTHER));
	wait_until_read(self->file.path);
	ASSERT_EQ(0, set_policy(SCHED_FIFO));
	walk_anew();
	EXPECT_CHAIN(&self->file);
	EXPECT_STATE(self->file.path, "ok");
}

TEST_F(reads, for_locked_memory)
{
	struct image_spec spec = { .code = &chain_a };

	ASSERT_TRUE(mapped_init(&self->file, &spec, "%s/file", self->dir));
	ASSERT_EQ(0, mlockall(MCL_CURRENT));
	EXPECT_FRAMES(&self->file, 1);
	wait_until_read(self->file.path);
	walk_anew();
	EXPECT_CHAIN(&self->file);
	EXPECT_STATE(self->file.path, "ok");
}

static time_t seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* However many walks there are, the kernel tries at most this often per second. */
#define EXPECT_TRIES(mapped, tries) do {					\
	long _before = unwind_stat("sframe_not_read");				\
	time_t _begin = seconds();						\
										\
	for (int _i = 0; _i < 1000; _i++)					\
		ASSERT_TRUE(walk_mapped(&self->walker, mapped));		\
	/* The first second may be half over. */				\
	EXPECT_GE((tries) * (2 + seconds() - _begin),				\
		  unwind_stat("sframe_not_read") - _before);			\
} while (0)

/* A walk reads no file that is open for direct I/O, but uses the table once it is read. */
TEST_F(reads, of_direct_io)
{
	struct image_spec spec = { .code = &chain_a };
	struct mapped direct;

	ASSERT_TRUE(mapped_init(&self->file, &spec, "%s/file", self->dir));
	direct = self->file;
	direct.fd = open(direct.path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (direct.fd < 0 && errno == EINVAL)
		SKIP(return, "needs a tmpfs that has direct I/O");
	ASSERT_LE(0, direct.fd);
	direct.map = image_map(&direct.image, direct.fd);
	ASSERT_NE(NULL, direct.map);
	EXPECT_NOT_READ(&direct);
	/* Direct I/O stays set: the kernel retries once a second. */
	EXPECT_TRIES(&direct, 1);
	EXPECT_CHAIN(&self->file);
	walk_anew();
	EXPECT_CHAIN(&direct);
}

/* Two users without privileges. */
#define SOMEBODY	12345
#define ELSE		12346

FIXTURE(slow) {
	struct walker walker;
	char dir[32];
	struct mapped file;
	struct fuse fuse;
	char page[SFRAME_PAGE];
};

FIXTURE_SETUP(slow)
{
	int err;

	SETUP_WALKER();
	err = fuse_mount(&self->fuse, false);
	if (err == -ENODEV)
		SKIP(return, "no /dev/fuse");
	ASSERT_EQ(0, err);
	image_page(self->page);
	ASSERT_TRUE(mapped_init(&self->file, &(struct image_spec) { .code = &chain_a }, "%s/file",
				self->dir));
}

FIXTURE_TEARDOWN(slow)
{
	fuse_unmount(&self->fuse);
	private_unmount(self->dir);
	walker_exit(&self->walker);
}

TEST_F(slow, in_the_end)
{
	struct child child;

	ASSERT_TRUE(child_start(&child, &self->fuse, false));
	child_go(&child);
	ASSERT_TRUE(fuse_wait_for_fault(&self->fuse, child.pidfd));
	fuse_resolve(&self->fuse, self->page);
	EXPECT_EQ(EXITED(WITH_TABLE), child_end(&child, &self->fuse, self->page));
	EXPECT_STATE(self->fuse.file, "ok");
}

/*
 * However long a read takes, a real-time task does not wait, and later all tasks have the
 * table. The read has the credentials of the task.
 */
TEST_F(slow, for_real_time)
{
	const struct orders orders = { .uid = SOMEBODY, .real_time = true };
	struct child child, second;
	unsigned int reads = 0;
	int status;

	ASSERT_TRUE(child_start_to(&child, &self->fuse, &orders));
	ASSERT_TRUE(child_start(&second, &self->fuse, false));
	child_go(&child);
	/* The task may end before the read begins. */
	while (fuse_wait_for_fault(&self->fuse, child.pidfd))
		reads++;
	ASSERT_EQ(child.pid, waitpid(child.pid, &status, 0));
	EXPECT_EQ(EXITED(WITHOUT_TABLE), status);

	if (!reads)
		ASSERT_TRUE(fuse_wait_for_fault(&self->fuse, second.pidfd));
	EXPECT_STATE(self->fuse.file, "reading");
	EXPECT_EQ(SOMEBODY, self->fuse.uid);
	fuse_resolve(&self->fuse, self->page);
	wait_until_read(self->fuse.file);
	EXPECT_STATE(self->fuse.file, "ok");
	child_go(&second);
	EXPECT_EQ(EXITED(WITH_TABLE), child_end(&second, &self->fuse, self->page));
}

/*
 * No other task waits for long, and the waiting task can be killed. The list names the file.
 * The read does not hold the lock of the address space: another thread can change mappings.
 */
TEST_F(slow, never)
{
	const struct orders orders = { .changes = true };
	struct child stuck, second, third;
	long before = reads();
	struct object object;
	char c;

	ASSERT_TRUE(child_start_to(&stuck, &self->fuse, &orders));
	ASSERT_EQ(1, read(stuck.ready[0], &c, 1));
	ASSERT_TRUE(child_start(&second, &self->fuse, false));
	ASSERT_TRUE(child_start(&third, &self->fuse, false));
	child_go(&stuck);
	ASSERT_TRUE(fuse_wait_for_fault(&self->fuse, stuck.pidfd));

	EXPECT_STATE(self->fuse.file, "reading");
	child_go(&stuck);
	ASSERT_FALSE(fuse_wait_for_fault(&self->fuse, stuck.ready[0]));
	ASSERT_EQ(1, read(stuck.ready[0], &c, 1));
	child_go(&second);
	EXPECT_EQ(EXITED(WITHOUT_TABLE), child_end(&second, &self->fuse, NULL));
	EXPECT_CHAIN(&self->file);

	ASSERT_EQ(0, kill(stuck.pid, SIGKILL));
	EXPECT_EQ(SIGKILL, child_end(&stuck, &self->fuse, NULL));
	EXPECT_EQ(0, object_find(self->fuse.file, &object));

	/* The next walk starts over. */
	fuse_resolve(&self->fuse, self->page);
	child_go(&third);
	EXPECT_EQ(EXITED(WITH_TABLE), child_end(&third, &self->fuse, self->page));
	EXPECT_STATE(self->fuse.file, "ok");
	/* The ordinary file, this program, which was walked with it, and both of these. */
	EXPECT_EQ(4, reads() - before);
}

/*
 * A writer holds the inode lock for as long as the server takes to provide the data to
 * write. No task reads the file meanwhile, and no task waits.
 */
TEST_F(slow, inode_locked)
{
	/* The page overwrites the file's headers with the same bytes. */
	const struct orders orders = { .write_to = self->file.fd };
	struct child writer;

	memcpy(self->page, self->file.image.bytes, sizeof(self->page));
	ASSERT_TRUE(child_start_to(&writer, &self->fuse, &orders));
	child_go(&writer);
	ASSERT_TRUE(fuse_wait_for_fault(&self->fuse, writer.pidfd));
	EXPECT_NOT_READ(&self->file);
	EXPECT_NOT_READ(&self->file);
	fuse_resolve(&self->fuse, self->page);
	EXPECT_EQ(0, child_end(&writer, &self->fuse, self->page));
	/* The next walk retries without a change of mappings. */
	EXPECT_CHAIN(&self->file);
	EXPECT_STATE(self->file.path, "ok");

	/* A longer delay is no reason to look up everything else at each walk. */
	ASSERT_TRUE(child_start_to(&writer, &self->fuse, &orders));
	child_go(&writer);
	ASSERT_TRUE(fuse_wait_for_fault(&self->fuse, writer.pidfd));
	sframe_drop();
	EXPECT_TRIES(&self->file, 9);
	fuse_resolve(&self->fuse, self->page);
	EXPECT_EQ(0, child_end(&writer, &self->fuse, self->page));
	do {
		ASSERT_TRUE(walk_mapped(&self->walker, &self->file));
	} while (self->walker.event.nr == 1);
	EXPECT_CHAIN(&self->file);
}

/* Sample @attr's event in a process that executes a program, called from the server's page. */
static bool exec_start(struct child *child, struct fuse *fuse, struct ring *ring,
		       const struct perf_event_attr *attr)
{
	const struct orders orders = { .execs = true };

	if (!child_start_to(child, fuse, &orders) || ring_open(ring, attr, child->pid, -1, 8))
		return false;
	ring_enable(ring);
	child_go(child);
	return true;
}

/* A task that waits for the server before exec can be traced. */
TEST_F(slow, before_exec)
{
	struct perf_event_attr attr = tracepoint_attr("syscalls/sys_enter_execve");
	union record *record = malloc(sizeof(*record));
	struct child child;
	struct ring ring;

	if (attr.type == ~0U)
		SKIP(return, "no system call tracepoints");
	ASSERT_TRUE(exec_start(&child, &self->fuse, &ring, &attr));
	ASSERT_TRUE(fuse_wait_for_fault(&self->fuse, child.pidfd));
	EXPECT_EQ(0, ptrace(PTRACE_SEIZE, child.pid, 0, 0));
	fuse_resolve(&self->fuse, self->page);
	EXPECT_EQ(EXITED(EXECED), child_end(&child, &self->fuse, self->page));
	ASSERT_TRUE(ring_next_type(&ring, record, PERF_RECORD_CALLCHAIN_DEFERRED));
	ASSERT_EQ(2, as_deferred(record)->nr);
	EXPECT_TRUE(workload_is_leaf_fp(as_deferred(record)->ips[0]));
	EXPECT_EQ(100, as_deferred(record)->ips[1] % SFRAME_PAGE);
	ring_close(&ring);
	free(record);
}

/* In exec, a walk does not wait for the server, neither for code nor for a table. */
TEST_F(slow, in_exec)
{
	struct perf_event_attr attr = software_attr(PERF_COUNT_SW_DUMMY);
	union record *record = malloc(sizeof(*record));
	struct child child;
	struct ring ring;

	attr.type = pmu_type("kprobe");
	attr.config = 0;
	attr.kprobe_func = (__u64)(unsigned long)"begin_new_exec";
	attr.sample_period = 1;
	if (attr.type == ~0U)
		SKIP(return, "no kprobe events");
	ASSERT_TRUE(exec_start(&child, &self->fuse, &ring, &attr));
	EXPECT_EQ(EXITED(EXECED), child_end(&child, &self->fuse, NULL));
	ASSERT_TRUE(ring_next_type(&ring, record, PERF_RECORD_CALLCHAIN_DEFERRED));
	EXPECT_LE(1, as_deferred(record)->nr);
	EXPECT_TRUE(workload_is_leaf_fp(as_deferred(record)->ips[0]));
	ring_close(&ring);
	free(record);
}

TEST_F(slow, server_dies)
{
	struct child child;

	ASSERT_TRUE(child_start(&child, &self->fuse, false));
	child_go(&child);
	ASSERT_TRUE(fuse_wait_for_fault(&self->fuse, child.pidfd));
	fuse_die(&self->fuse);
	EXPECT_EQ(EXITED(WITHOUT_TABLE), child_end(&child, &self->fuse, NULL));
	EXPECT_STATE(self->fuse.file, "unreadable");
	EXPECT_CHAIN(&self->file);
}

/* Page cache that a read fills is not charged to the task's cgroup. */
TEST_F(slow, page_cache)
{
	static const char root[] = "/sys/fs/cgroup";
	struct child child, keeper;
	char cgroup[64];
	pid_t owner;

	if (file_print(root, "cgroup.subtree_control", "+memory"))
		SKIP(return, "needs root and the memory controller of cgroup2 on %s", root);
	snprintf(cgroup, sizeof(cgroup), "%s/unwind-reads-%d", root, getpid());
	ASSERT_EQ(0, mkdir(cgroup, 0755));
	/* Bring everything that a child needs into memory. */
	ASSERT_TRUE(child_start(&child, &self->fuse, false));
	child_go(&child);
	EXPECT_EQ(EXITED(WITH_TABLE), child_end(&child, &self->fuse, self->page));
	sframe_drop();

	ASSERT_TRUE(child_start(&child, &self->fuse, false));
	/* Pages stay for as long as a process has mapped the file. */
	ASSERT_TRUE(child_start(&keeper, &self->fuse, false));
	EXPECT_EQ(0, file_print(cgroup, "cgroup.procs", "%d", child.pid));
	EXPECT_EQ(0, file_number(cgroup, "memory.stat", "file"));
	child_go(&child);
	EXPECT_EQ(EXITED(WITH_TABLE), child_end(&child, &self->fuse, self->page));
	EXPECT_STATE(self->fuse.file, "ok");
	/* The figure lags some seconds: once it has this page, it has all before. */
	owner = page_owner(cgroup);
	ASSERT_LT(0, owner);
	while (!file_number(cgroup, "memory.stat", "file"))
		ASSERT_EQ(0, waitpid(owner, NULL, WNOHANG));
	EXPECT_EQ(SFRAME_PAGE, file_number(cgroup, "memory.stat", "file"));
	EXPECT_EQ(0, file_number(cgroup, "memory.events", "oom"));
	kill(owner, SIGKILL);
	waitpid(owner, NULL, 0);

	child_go(&keeper);
	EXPECT_EQ(EXITED(WITH_TABLE), child_end(&keeper, &self->fuse, self->page));
	EXPECT_EQ(0, rmdir(cgroup));
}

/*
 * The next file system has the same device, unless another mount takes it first. Its
 * file has the same inode number, generation, times and size, and most likely the
 * inode's memory.
 */
TEST_F(slow, unmounted)
{
	static const char nothing[SFRAME_PAGE];
	struct object object;
	struct child child;

	for (int i = 0; i < 20; i++) {
		const void *page = i % 2 ? nothing : self->page;

		ASSERT_TRUE(child_start(&child, &self->fuse, false));
		child_go(&child);
		EXPECT_EQ(EXITED(i % 2 ? WITHOUT_TABLE : WITH_TABLE),
			  child_end(&child, &self->fuse, page));
		EXPECT_STATE(self->fuse.file, i % 2 ? "no-elf" : "ok");
		fuse_unmount(&self->fuse);
		EXPECT_EQ(0, object_find(self->fuse.file, &object));
		ASSERT_EQ(0, fuse_mount(&self->fuse, false));
	}
	/* Other files are still cached. */
	EXPECT_CHAIN(&self->file);
}

/* A failed read is retried, but at most once a second, however many walks there are. */
TEST_F(slow, errors)
{
	long before, failed = 0;
	struct child child;
	time_t begin;

	/* The other files of the trace are already cached. */
	EXPECT_CHAIN(&self->file);
	ASSERT_TRUE(child_start(&child, &self->fuse, true));
	before = unwind_stat("sframe_refused");
	begin = seconds();
	child_go(&child);
	ASSERT_TRUE(fuse_wait_for_fault(&self->fuse, child.pidfd));
	while (failed < 3) {
		/* Readahead makes a second request. */
		ASSERT_EQ(0, fuse_refuse(&self->fuse, EIO));
		ASSERT_TRUE(fuse_wait_for_fault(&self->fuse, child.pidfd));
		failed = unwind_stat("sframe_refused") - before;
		/* The first second may be half over, and clocks may lag. */
		EXPECT_LE(failed, 2 + seconds() - begin);
	}
	fuse_resolve(&self->fuse, self->page);
	EXPECT_EQ(EXITED(WITH_TABLE), child_end(&child, &self->fuse, self->page));
	EXPECT_STATE(self->fuse.file, "ok");
}

/* Files that one user may load at once on a machine with at most this many CPUs. */
#define LOADS_USER	16

FIXTURE(stuck) {
	struct walker walker;
	char dir[32];
	struct mapped file;
	struct fuse fuse[LOADS_USER + 2];
	struct child children[LOADS_USER + 2];
	char page[SFRAME_PAGE];
};

/* The creator of a user namespace may use many ids there and still counts as one user. */
FIXTURE_VARIANT(stuck) {
	bool many_ids;
};

FIXTURE_VARIANT_ADD(stuck, one_user) {};
FIXTURE_VARIANT_ADD(stuck, many_ids) { .many_ids = true };

FIXTURE_SETUP(stuck)
{
	if (sysconf(_SC_NPROCESSORS_ONLN) > LOADS_USER)
		SKIP(return, "needs no more than %d CPUs", LOADS_USER);
	SETUP_WALKER();
	image_page(self->page);
	ASSERT_TRUE(mapped_init(&self->file, &(struct image_spec) { .code = &chain_a }, "%s/file",
				self->dir));
	for (int i = 0; i < ARRAY_SIZE(self->fuse); i++) {
		int err = fuse_mount(&self->fuse[i], false);

		if (err == -ENODEV)
			SKIP(return, "no /dev/fuse");
		ASSERT_EQ(0, err);
	}
}

FIXTURE_TEARDOWN(stuck)
{
	for (int i = 0; i < ARRAY_SIZE(self->fuse); i++)
		fuse_unmount(&self->fuse[i]);
	private_unmount(self->dir);
	walker_exit(&self->walker);
}

/* A user with stuck files keeps only this user's other files from being read. */
TEST_F(stuck, keeps_only_his_own)
{
	struct child *own = &self->children[LOADS_USER], *others = own + 1;
	struct fuse *own_fuse = &self->fuse[LOADS_USER], *others_fuse = own_fuse + 1;
	const struct orders as_somebody = { .uid = SOMEBODY }, as_else = { .uid = ELSE };
	long busy = unwind_stat("sframe_busy");
	struct child again;

	for (int i = 0; i < LOADS_USER; i++) {
		const struct orders orders = {
			.uid = SOMEBODY, .inner = variant->many_ids ? i + 1 : 0,
		};

		ASSERT_TRUE(child_start_to(&self->children[i], &self->fuse[i], &orders));
		if (orders.inner)
			ASSERT_EQ(0, child_map_ids(&self->children[i], LOADS_USER + 1));
	}
	ASSERT_TRUE(child_start_to(own, own_fuse, &as_somebody));
	ASSERT_TRUE(child_start_to(&again, own_fuse, &as_somebody));
	ASSERT_TRUE(child_start_to(others, others_fuse, &as_else));
	for (int i = 0; i < LOADS_USER; i++) {
		child_go(&self->children[i]);
		ASSERT_TRUE(fuse_wait_for_fault(&self->fuse[i], self->children[i].pidfd));
	}
	EXPECT_EQ(0, unwind_stat("sframe_busy") - busy);

	/* This file is not read. */
	child_go(own);
	EXPECT_EQ(EXITED(WITHOUT_TABLE), child_end(own, own_fuse, NULL));
	EXPECT_EQ(0, own_fuse->reads);
	EXPECT_LT(0, unwind_stat("sframe_busy") - busy);

	child_go(others);
	EXPECT_EQ(EXITED(WITH_TABLE), child_end(others, others_fuse, self->page));
	EXPECT_CHAIN(&self->file);
	EXPECT_STATE(self->file.path, "ok");

	/* A slot is free again once a file is read or its last waiter is gone. */
	ASSERT_EQ(0, kill(self->children[0].pid, SIGKILL));
	EXPECT_EQ(SIGKILL, child_end(&self->children[0], &self->fuse[0], NULL));
	child_go(&again);
	EXPECT_EQ(EXITED(WITH_TABLE), child_end(&again, own_fuse, self->page));
	for (int i = 1; i < LOADS_USER; i++) {
		fuse_resolve(&self->fuse[i], self->page);
		EXPECT_EQ(EXITED(WITH_TABLE), child_end(&self->children[i], &self->fuse[i],
							self->page));
	}
}

TEST_HARNESS_MAIN
