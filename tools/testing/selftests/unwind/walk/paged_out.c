// SPDX-License-Identifier: GPL-2.0
/*
 * A stack on a swap device: an interrupt cannot read it, the deferred walk can. The
 * thread sleeps in a system call while its stack is paged out, then both kinds of
 * events sample it before anything has touched the stack again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf_ring.h"
#include "swap.h"
#include "workload.h"
#include "harness.h"

#define PAGE		4096UL
#define STACK_PAGES	8
/* 16 bytes a frame: seven pages of them. */
#define DEPTH		1700U
#define MAX_STACK	2000

struct sleeper {
	char	*stack;
	int	tid;
	int	pipe[2];
	char	byte;
	bool	go;
	long	ret;
};

static void *sleeper_thread(void *data)
{
	struct sleeper *sleeper = data;
	long call[7] = { SYS_read, sleeper->pipe[0], (long)&sleeper->byte, 1 };

	__atomic_store_n(&sleeper->tid, gettid(), __ATOMIC_RELEASE);
	while (!__atomic_load_n(&sleeper->go, __ATOMIC_ACQUIRE))
		sched_yield();
	sleeper->ret = workload_call_on(sleeper->stack + STACK_PAGES * PAGE, DEPTH, call);
	return NULL;
}

static bool sleeps(int tid)
{
	char path[64], line[512];
	bool asleep = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	file = fopen(path, "r");
	if (!file)
		return false;
	/* "0 " is read(); a running thread says "running". */
	asleep = fgets(line, sizeof(line), file) && !strncmp(line, "0 ", 2);
	fclose(file);
	return asleep;
}

TEST(deferred_is_whole)
{
	struct perf_event_attr attr = tracepoint_attr("syscalls/sys_exit_read");
	union record *record = malloc(sizeof(*record));
	int old_max, out;
	struct ring deferred, in_place;
	struct sleeper sleeper = {};
	struct sample sample;
	pthread_t thread;
	__u64 nr;
	int at;

	if (attr.type == ~0U)
		SKIP(return, "needs root, tracefs and CONFIG_FTRACE_SYSCALLS");
	if (!have_swap())
		SKIP(return, "no swap device is active");
	old_max = set_sysctl("kernel/perf_event_max_stack", MAX_STACK);
	if (old_max < 0)
		SKIP(return, "cannot set kernel.perf_event_max_stack: %s", strerror(-old_max));

	/* Pin: new pages stay in a per-CPU batch, which reclaim does not scan. */
	ASSERT_EQ(0, pin_to(0));

	sleeper.stack = mmap(NULL, STACK_PAGES * PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)sleeper.stack);
	ASSERT_EQ(0, pipe(sleeper.pipe));
	ASSERT_EQ(0, pthread_create(&thread, NULL, sleeper_thread, &sleeper));
	while (!__atomic_load_n(&sleeper.tid, __ATOMIC_ACQUIRE))
		sched_yield();

	ASSERT_EQ(0, ring_open(&deferred, &attr, sleeper.tid, -1, 32));
	attr.defer_callchain = 0;
	attr.defer_output = 0;
	ASSERT_EQ(0, ring_open(&in_place, &attr, sleeper.tid, -1, 32));
	__atomic_store_n(&sleeper.go, true, __ATOMIC_RELEASE);
	while (!sleeps(sleeper.tid))
		usleep(1000);
	ring_enable(&deferred);
	ring_enable(&in_place);

	out = page_out(sleeper.stack, STACK_PAGES, STACK_PAGES - 1);
	if (out < (int)STACK_PAGES - 1)
		SKIP(return, "only %d of %lu pages went to swap", out, (unsigned long)STACK_PAGES);

	ASSERT_EQ(1, write(sleeper.pipe[1], "x", 1));
	pthread_join(thread, NULL);
	EXPECT_EQ(1, sleeper.ret);

	/* In place: only the instruction pointer needs no user memory. */
	ASSERT_TRUE(ring_next_type(&in_place, record, PERF_RECORD_SAMPLE));
	parse_sample(record, &sample);
	at = sample_part(&sample, PERF_CONTEXT_USER, &nr);
	ASSERT_LT(0, at);
	EXPECT_EQ(1, nr);
	EXPECT_TRUE(workload_is_leaf(sample.ips[at]));

	ASSERT_TRUE(ring_next_type(&deferred, record, PERF_RECORD_CALLCHAIN_DEFERRED));
	EXPECT_EQ(WORKLOAD_NR(DEPTH), as_deferred(record)->nr);
	EXPECT_EQ(-1, workload_check(as_deferred(record)->ips, as_deferred(record)->nr, DEPTH));

	ring_close(&deferred);
	ring_close(&in_place);
	EXPECT_EQ(MAX_STACK, set_sysctl("kernel/perf_event_max_stack", old_max));
}

/* Make a frame in a page on the swap device; NULL if the page is not swapped out. */
static char *paged_out_frame(void)
{
	char *map = mmap(NULL, 5 * PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long *frame = (void *)(map + 4 * PAGE);

	if (map == MAP_FAILED)
		return NULL;
	frame[0] = 0;
	frame[1] = (unsigned long)paged_out_frame;
	return page_out(frame, 1, 1) == 1 ? (char *)frame : NULL;
}

/*
 * An exiting task reads resident pages only, because nothing could end a wait for I/O.
 * (userfaultfd refuses to wait in an exiting task; a swap device does not.)
 */
TEST(exit_reads_what_is_resident)
{
	static const char * const events[] = {
		"syscalls/sys_enter_getppid", "syscalls/sys_enter_exit",
	};
	static const long calls[] = { SYS_getppid, SYS_exit };
	union record *record = malloc(sizeof(*record));

	if (!have_swap())
		SKIP(return, "no swap device is active");
	for (int i = 0; i < 2; i++) {
		struct perf_event_attr attr = tracepoint_attr(events[i]);
		struct ring ring;
		int go[2], status;
		pid_t child;
		char c = 'y';

		if (attr.type == ~0U)
			SKIP(return, "needs root, tracefs and CONFIG_FTRACE_SYSCALLS");
		ASSERT_EQ(0, pipe(go));
		child = fork();
		if (!child) {
			long call[7] = { calls[i] };
			char *frame;

			/* As above: on another CPU the page might not be swapped out. */
			frame = pin_to(0) ? NULL : paged_out_frame();
			if (!frame || read(go[0], &c, 1) != 1)
				_exit(4);
			workload_call_fp(frame, (unsigned long)frame, call);
			_exit(0);
		}
		ASSERT_EQ(0, ring_open(&ring, &attr, child, -1, 32));
		ring_enable(&ring);
		ASSERT_EQ(1, write(go[1], &c, 1));
		ASSERT_EQ(child, waitpid(child, &status, 0));
		if (WEXITSTATUS(status) == 4)
			SKIP(return, "the page did not go to swap");
		EXPECT_EQ(0, status);
		ASSERT_TRUE(ring_next_type(&ring, record, PERF_RECORD_CALLCHAIN_DEFERRED));
		EXPECT_TRUE(workload_is_leaf_fp(as_deferred(record)->ips[0]));
		/* A task that may wait for memory gets the second frame, too. */
		EXPECT_EQ(calls[i] == SYS_exit ? 1 : 2, as_deferred(record)->nr);
		ring_close(&ring);
	}
	free(record);
}

TEST_HARNESS_MAIN
