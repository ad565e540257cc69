// SPDX-License-Identifier: GPL-2.0
/*
 * BPF programs and tasks that end between a request for a deferred user stack and its
 * delivery, tasks without a user stack, programs that wait in a delivery, and full maps: no
 * trace goes to the wrong program, no task waits for another one, and all losses are reported.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bpf_run.h"
#include "hang.h"
#include "perf_ring.h"
#include "tracer.h"
#include "uring.h"
#include "workload.h"
#include "harness.h"

#define DEPTH	10
#define CALLS	20

/* A thread that makes one system call below known callers. */
struct caller {
	pthread_t	thread;
	atomic_int	tid;
	atomic_bool	go;
	long		call[7];
	long		ret;
};

static void *caller_thread(void *data)
{
	struct caller *caller = data;

	caller->tid = gettid();
	while (!caller->go)
		sched_yield();
	caller->ret = workload_call(DEPTH, caller->call);
	return NULL;
}

static void caller_start(struct caller *caller)
{
	pthread_create(&caller->thread, NULL, caller_thread, caller);
	while (!caller->tid)
		sched_yield();
}

/* Wait until a program has recorded a note of @who. */
static void wait_for_note(struct bpf_run *run, enum bpf_unwind_who who)
{
	while (!bpf_run_count(run, who, 0))
		usleep(1000);
}

/*
 * The program that made the request is unloaded before the delivery, as the last one that can
 * make requests: the next program does not get the trace.
 */
TEST(unloaded_before_delivery)
{
	struct bpf_run delivery, before, after;
	struct caller caller = {};
	unsigned int left;
	int fd, pipes[2];
	const char *why;
	__u64 cookie;
	char c;

	SKIP_WITHOUT_BPF();
	fd = tracer_open(&why);
	if (fd < 0)
		SKIP(return, "%s", why);
	left = bpf_run_take_tracers(fd);
	ASSERT_LT(0, left);
	ASSERT_TRUE(bpf_run_tracer_left(fd, left));
	ASSERT_EQ(0, pipe(pipes));
	ASSERT_EQ(0, bpf_run_start(&delivery, "deliver_fentry"));
	delivery.shared->tid = 0;
	delivery.shared->tgid = getpid();

	ASSERT_EQ(0, bpf_run_start(&before, "ask_raw_tp_flag"));
	memcpy(caller.call, (long[]){ SYS_read, pipes[0], (long)&c, 1 }, 4 * sizeof(long));
	caller_start(&caller);
	before.shared->syscall = SYS_read;
	before.shared->tid = caller.tid;
	caller.go = true;
	wait_for_note(&before, BPF_UNWIND_ASK);
	EXPECT_EQ(0, bpf_run_note(&before, BPF_UNWIND_ASK, 0)->ret);
	cookie = bpf_run_note(&before, BPF_UNWIND_ASK, 0)->cookie;
	bpf_run_close(&before);
	EXPECT_TRUE(bpf_run_tracer_left(fd, left));

	ASSERT_EQ(0, bpf_run_start(&after, "ask_raw_tp_flag"));
	after.shared->syscall = SYS_getpgid;
	after.shared->tid = gettid();
	ASSERT_EQ(1, write(pipes[1], "x", 1));
	pthread_join(caller.thread, NULL);
	EXPECT_EQ(1, caller.ret);
	EXPECT_EQ(0, bpf_run_count(&delivery, BPF_UNWIND_FENTRY, 0));

	workload_syscall(DEPTH, SYS_getpgid);
	EXPECT_EQ(1, bpf_run_count(&delivery, BPF_UNWIND_FENTRY, 0));
	EXPECT_NE(cookie, bpf_run_note(&delivery, BPF_UNWIND_FENTRY, 0)->cookie);
	bpf_run_close(&after);
	bpf_run_close(&delivery);
	close(fd);
}

/* The same while another program holds the tracer: the trace is delivered. */
TEST(one_of_two_unloaded)
{
	struct bpf_run stays, leaves;
	struct caller caller = {};
	__u64 cookie, loaded;
	int pipes[2];
	char c;

	SKIP_WITHOUT_BPF();
	ASSERT_EQ(0, pipe(pipes));
	ASSERT_EQ(0, bpf_run_start(&stays, "deliver_fentry_s", "ask_fentry", "note_freed"));
	ASSERT_EQ(0, bpf_run_start(&leaves, "ask_raw_tp_flag"));
	ASSERT_NE(0, loaded = bpf_run_load_time(bpf_run_program(&leaves, "ask_raw_tp_flag")));
	memcpy(caller.call, (long[]){ SYS_read, pipes[0], (long)&c, 1 }, 4 * sizeof(long));
	caller_start(&caller);
	leaves.shared->syscall = SYS_read;
	leaves.shared->tid = caller.tid;
	stays.shared->tid = caller.tid;
	caller.go = true;
	wait_for_note(&leaves, BPF_UNWIND_ASK);
	cookie = bpf_run_note(&leaves, BPF_UNWIND_ASK, 0)->cookie;
	bpf_run_close(&leaves);
	bpf_run_wait_freed(&stays, loaded);
	ASSERT_EQ(1, write(pipes[1], "x", 1));
	pthread_join(caller.thread, NULL);
	EXPECT_EQ(1, bpf_run_count(&stays, BPF_UNWIND_FENTRY_S, 0));
	EXPECT_EQ(1, bpf_run_count(&stays, BPF_UNWIND_FENTRY_S, cookie));
	EXPECT_TRUE(bpf_run_right(bpf_run_trace(&stays, BPF_UNWIND_FENTRY_S,
						BPF_UNWIND_STACK, 0), DEPTH));
	bpf_run_close(&stays);
}

/* Fork a child that makes a system call when the parent writes to *@go. */
static pid_t fork_caller(int *go, const long call[7], bool in_flight)
{
	int pipes[2];
	pid_t child;
	char c;

	if (pipe(pipes))
		return -1;
	child = fork();
	if (!child) {
		if (read(pipes[0], &c, 1) != 1)
			_exit(1);
		if (in_flight && uring_leave_in_flight())
			_exit(5);
		workload_call(DEPTH, call);
		_exit(0);
	}
	close(pipes[0]);
	*go = pipes[1];
	return child;
}

/* Map a page that is not in the page tables yet. */
static void *absent_page(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		exit(1);
	return page;
}

/* A task that is killed in its system call. */
TEST(killed_before_delivery)
{
	long call[7] = { SYS_pause };
	struct bpf_run run;
	int status, go;
	pid_t child;

	SKIP_WITHOUT_BPF();
	ASSERT_EQ(0, bpf_run_start(&run, "deliver_fentry_s", "ask_tp_btf"));
	child = fork_caller(&go, call, false);
	ASSERT_LE(0, child);
	run.shared->syscall = SYS_pause;
	run.shared->tid = child;
	ASSERT_EQ(1, write(go, "", 1));
	wait_for_note(&run, BPF_UNWIND_ASK);
	EXPECT_EQ(0, bpf_run_count(&run, BPF_UNWIND_FENTRY_S, 0));
	kill(child, SIGKILL);
	ASSERT_EQ(child, waitpid(child, &status, 0));

	EXPECT_EQ(1, bpf_run_count(&run, BPF_UNWIND_FENTRY_S, 0));
	EXPECT_EQ(1, bpf_run_count(&run, BPF_UNWIND_FENTRY_S,
				   bpf_run_note(&run, BPF_UNWIND_ASK, 0)->cookie));
	EXPECT_TRUE(bpf_run_right(bpf_run_trace(&run, BPF_UNWIND_FENTRY_S,
						BPF_UNWIND_STACK, 0), DEPTH));
	bpf_run_close(&run);
	close(go);
}

FIXTURE(exiting) {
};

FIXTURE_VARIANT(exiting) {
	long	nr;
	bool	in_flight;
};

FIXTURE_VARIANT_ADD(exiting, thread) {
	.nr = SYS_exit,
};

/* The delivery comes before the task is PF_EXITING. */
FIXTURE_VARIANT_ADD(exiting, group_with_io_uring) {
	.nr = SYS_exit_group, .in_flight = true,
};

FIXTURE_SETUP(exiting)
{
}

FIXTURE_TEARDOWN(exiting)
{
}

/*
 * In the delivery of an exiting task, programs get resident pages only, because nothing could
 * end a wait. Later requests are refused.
 */
TEST_F(exiting, exit_before_delivery)
{
	long call[7] = { variant->nr, 0 };
	const struct bpf_unwind_note *first, *late, *waited;
	struct bpf_run run;
	int status, go;
	pid_t child;

	SKIP_WITHOUT_BPF();
	ASSERT_EQ(0, bpf_run_start(&run, "deliver_fentry", "deliver_and_wait",
				   "deliver_fmod_s", "ask_tp_btf", "ask_in_exit"));
	run.shared->wait_addr = (uintptr_t)absent_page();
	child = fork_caller(&go, call, variant->in_flight);
	ASSERT_LE(0, child);
	run.shared->syscall = variant->nr;
	run.shared->wait_tid = child;
	run.shared->tid = child;
	ASSERT_EQ(1, write(go, "", 1));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	if (WEXITSTATUS(status) == 5)
		SKIP(return, "no io_uring");

	ASSERT_EQ(2, bpf_run_count(&run, BPF_UNWIND_ASK, 0));
	first = bpf_run_note(&run, BPF_UNWIND_ASK, 0);
	late = bpf_run_note(&run, BPF_UNWIND_ASK, 1);
	EXPECT_EQ(0, first->ret);
	EXPECT_EQ(-ESRCH, late->ret);
	EXPECT_EQ(0, late->cookie);
	EXPECT_EQ(1, bpf_run_count(&run, BPF_UNWIND_FENTRY, first->cookie));
	EXPECT_EQ(1, bpf_run_count(&run, BPF_UNWIND_FENTRY_S, first->cookie));
	EXPECT_EQ(2, bpf_run_count(&run, BPF_UNWIND_FENTRY, 0) +
		     bpf_run_count(&run, BPF_UNWIND_FENTRY_S, 0));
	EXPECT_TRUE(bpf_run_right(bpf_run_trace(&run, BPF_UNWIND_FENTRY,
						BPF_UNWIND_STACK, 0), DEPTH));
	EXPECT_TRUE(bpf_run_right(bpf_run_trace(&run, BPF_UNWIND_FMOD_S,
						BPF_UNWIND_STACK, 0), DEPTH));
	ASSERT_NE(NULL, waited = bpf_run_note(&run, BPF_UNWIND_WAITED, 0));
	EXPECT_EQ(-EFAULT, waited->ret);
	bpf_run_close(&run);
	close(go);
}

/* Exec delivers the old stack before it is gone; later requests are refused. */
TEST(exec_before_delivery)
{
	static const char *const argv[] = { "true", NULL };
	long call[7] = { SYS_execve, (long)"/bin/true", (long)argv, 0 };
	const struct bpf_unwind_note *first, *late;
	struct bpf_run run;
	int status, go;
	pid_t child;

	SKIP_WITHOUT_BPF();
	keep_tracepoint("sched/sched_process_exec");
	ASSERT_EQ(0, bpf_run_start(&run, "deliver_fentry_s", "ask_tp_btf", "ask_in_exec"));
	child = fork_caller(&go, call, false);
	ASSERT_LE(0, child);
	run.shared->syscall = SYS_execve;
	run.shared->tid = child;
	ASSERT_EQ(1, write(go, "", 1));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);

	ASSERT_EQ(2, bpf_run_count(&run, BPF_UNWIND_ASK, 0));
	first = bpf_run_note(&run, BPF_UNWIND_ASK, 0);
	late = bpf_run_note(&run, BPF_UNWIND_ASK, 1);
	EXPECT_EQ(0, first->ret);
	EXPECT_EQ(-ESTALE, late->ret);
	EXPECT_EQ(0, late->cookie);
	EXPECT_EQ(1, bpf_run_count(&run, BPF_UNWIND_FENTRY_S, 0));
	EXPECT_EQ(1, bpf_run_count(&run, BPF_UNWIND_FENTRY_S, first->cookie));
	EXPECT_TRUE(bpf_run_right(bpf_run_trace(&run, BPF_UNWIND_FENTRY_S,
						BPF_UNWIND_STACK, 0), DEPTH));
	bpf_run_close(&run);
	close(go);
}

/*
 * A program makes a request after the delivery has begun, as in NMI: it gets the trace
 * together with all others, and no program gets the trace twice.
 */
TEST(asked_at_delivery)
{
	struct bpf_run run;
	__u64 cookie;

	SKIP_WITHOUT_BPF();
	ASSERT_EQ(0, bpf_run_start(&run, "deliver_fentry_s", "ask_fentry_s",
				   "ask_fentry@bpf_user_unwind_callback"));
	run.shared->tid = gettid();
	for (unsigned int i = 0; i < 3; i++) {
		workload_syscall(DEPTH, SYS_getpgid);
		ASSERT_EQ(2 * (i + 1), bpf_run_count(&run, BPF_UNWIND_ASK, 0));
		cookie = bpf_run_note(&run, BPF_UNWIND_ASK, 2 * i)->cookie;
		EXPECT_EQ(0, bpf_run_note(&run, BPF_UNWIND_ASK, 2 * i)->ret);
		EXPECT_EQ(1, bpf_run_note(&run, BPF_UNWIND_ASK, 2 * i + 1)->ret);
		EXPECT_EQ(cookie, bpf_run_note(&run, BPF_UNWIND_ASK, 2 * i + 1)->cookie);
		EXPECT_EQ(1, bpf_run_count(&run, BPF_UNWIND_FENTRY_S, cookie));
	}
	run.shared->tid = BPF_RUN_NOBODY;
	bpf_run_close(&run);
}

FIXTURE(after_delivery) {
};

FIXTURE_VARIANT(after_delivery) {
	/* The program is loaded before the delivery, but not attached. */
	bool loaded;
	/* Another program requests the stack when a delivery begins. */
	bool in_callback;
};

FIXTURE_VARIANT_ADD(after_delivery, load) {
};

FIXTURE_VARIANT_ADD(after_delivery, attach) {
	.loaded = true,
};

FIXTURE_VARIANT_ADD(after_delivery, attach_and_request_in_callback) {
	.loaded = true,
	.in_callback = true,
};

FIXTURE_SETUP(after_delivery)
{
}

FIXTURE_TEARDOWN(after_delivery)
{
}

/*
 * A program arrives while a task waits in a kernel entry whose trace was delivered already:
 * the same trace is delivered once more, even if a program requests it when that delivery
 * begins.
 */
TEST_F(after_delivery, comes_again)
{
	struct bpf_run first, second;
	unsigned int asked;
	int go[2], status;
	__u64 cookie;
	pid_t pid;

	SKIP_WITHOUT_BPF();
	keep_tracepoint("sched/sched_switch");
	ASSERT_EQ(0, pipe(go));
	pid = uring_fork_waiter(go[0], DEPTH, NULL);
	if (pid == -ENOSYS)
		SKIP(return, "no io_uring");
	ASSERT_LT(0, pid);

	ASSERT_EQ(0, bpf_run_start(&first, "deliver_fentry", "ask_tp_btf",
				   variant->in_callback ?
					"ask_fentry@bpf_user_unwind_callback" : NULL));
	if (variant->loaded) {
		ASSERT_EQ(0, bpf_run_join(&second, &first, "ask_switch"));
		bpf_run_detach(&second);
	}
	first.shared->syscall = SYS_io_uring_enter;
	first.shared->tid = pid;
	ASSERT_EQ(1, write(go[1], "g", 1));
	wait_for_note(&first, BPF_UNWIND_FENTRY);
	cookie = bpf_run_note(&first, BPF_UNWIND_ASK, 0)->cookie;
	EXPECT_EQ(1, bpf_run_count(&first, BPF_UNWIND_FENTRY, cookie));
	asked = bpf_run_count(&first, BPF_UNWIND_ASK, cookie);
	EXPECT_EQ(1 + variant->in_callback, asked);

	if (variant->loaded) {
		ASSERT_EQ(0, bpf_run_attach(&second, "ask_switch"));
	} else {
		ASSERT_EQ(0, bpf_run_join(&second, &first, "ask_switch"));
	}
	/* The task wakes up for one result, and waits for the next one. */
	ASSERT_EQ(1, write(go[1], "p", 1));
	while (bpf_run_count(&first, BPF_UNWIND_ASK, cookie) == asked)
		usleep(1000);
	EXPECT_EQ(1, bpf_run_note(&first, BPF_UNWIND_ASK, asked)->ret);
	ASSERT_EQ(0, kill(pid, SIGUSR1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);

	EXPECT_EQ(2, bpf_run_count(&first, BPF_UNWIND_FENTRY, cookie));
	for (int i = 0; i < 2; i++) {
		const struct bpf_unwind_trace *trace;

		trace = bpf_run_trace(&first, BPF_UNWIND_FENTRY, BPF_UNWIND_ENTRIES, i);
		ASSERT_TRUE(bpf_run_right(trace, DEPTH));
		EXPECT_EQ(cookie, trace->cookie);
	}
	bpf_run_close(&second);
	bpf_run_close(&first);
	close(go[0]);
	close(go[1]);
}

TEST(refused_in_kernel_threads)
{
	struct bpf_run run;
	unsigned int nr;

	SKIP_WITHOUT_BPF();
	keep_tracepoint("sched/sched_switch");
	ASSERT_EQ(0, bpf_run_start(&run, "deliver_fentry", "ask_in_kernel_thread"));
	run.shared->tid = 0;
	/* Kernel workers and RCU threads hit the tracepoint. */
	wait_for_note(&run, BPF_UNWIND_ASK);
	run.shared->tid = BPF_RUN_NOBODY;
	nr = bpf_run_count(&run, BPF_UNWIND_ASK, 0);
	for (unsigned int i = 0; i < nr; i++) {
		EXPECT_EQ(-EINVAL, bpf_run_note(&run, BPF_UNWIND_ASK, i)->ret);
		EXPECT_EQ(0, bpf_run_note(&run, BPF_UNWIND_ASK, i)->cookie);
	}
	EXPECT_EQ(0, bpf_run_count(&run, BPF_UNWIND_FENTRY, 0));
	bpf_run_close(&run);
}

/* Programs get an error for data that does not fit, and later deliveries still come. */
TEST(full_maps)
{
	static const struct {
		enum bpf_unwind_who	who;
		int			full;
	} cases[] = {
		{ BPF_UNWIND_FULL_HASH, -E2BIG },
		{ BPF_UNWIND_FULL_STACKS, -EEXIST },
		{ BPF_UNWIND_FULL_RING, -1 },
	};
	struct bpf_run run;

	SKIP_WITHOUT_BPF();
	ASSERT_EQ(0, bpf_run_start(&run, "deliver_to_full_maps", "ask_fentry"));
	run.shared->tid = gettid();
	for (int i = 0; i < 3; i++)
		workload_syscall(DEPTH + i, SYS_getpgid);
	EXPECT_EQ(3, bpf_run_count(&run, BPF_UNWIND_FENTRY_S, 0));
	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		ASSERT_EQ(3, bpf_run_count(&run, cases[i].who, 0));
		EXPECT_EQ(0, bpf_run_note(&run, cases[i].who, 0)->ret);
		EXPECT_EQ(cases[i].full, bpf_run_note(&run, cases[i].who, 1)->ret);
		EXPECT_EQ(cases[i].full, bpf_run_note(&run, cases[i].who, 2)->ret);
	}
	bpf_run_close(&run);
}

/* A delivery that waits for a page of userfaultfd. */
FIXTURE(waiting) {
	struct bpf_run run;
	struct caller caller;
	char *page;
	int uffd;
};

FIXTURE_SETUP(waiting)
{
	SKIP_WITHOUT_BPF();
	self->page = mmap(NULL, HANG_PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->page);
	self->uffd = hang_page(self->page);
	if (self->uffd < 0)
		SKIP(return, "no userfaultfd");
	ASSERT_EQ(0, bpf_run_start(&self->run, "deliver_and_wait", "ask_fentry"));
	/* Use one CPU only: other tasks must make progress there, too. */
	ASSERT_EQ(0, pin_to(0));
	self->caller = (struct caller){ .call = { SYS_getpgid } };
	caller_start(&self->caller);
	self->run.shared->wait_tid = self->caller.tid;
	self->run.shared->wait_addr = (uintptr_t)self->page;
	self->run.shared->tgid = getpid();
	self->run.shared->tid = 0;
	self->caller.go = true;
	wait_for_fault(self->uffd);
	ASSERT_EQ(1, bpf_run_count(&self->run, BPF_UNWIND_FENTRY_S, 0));
}

FIXTURE_TEARDOWN(waiting)
{
	close(self->uffd);
	if (self->run.skel)
		bpf_run_close(&self->run);
}

static int go_on(FIXTURE_DATA(waiting) *self)
{
	static const char content[HANG_PAGE];
	int err = resolve(self->uffd, self->page, content);

	if (!err)
		pthread_join(self->caller.thread, NULL);
	return err;
}

/* Other tasks get their deliveries, also on that CPU. */
TEST_F(waiting, others_have_theirs)
{
	struct bpf_run_sum sum;

	for (int i = 0; i < CALLS; i++)
		workload_syscall(DEPTH, SYS_getpgid);
	EXPECT_EQ(0, bpf_run_count(&self->run, BPF_UNWIND_WAITED, 0));
	EXPECT_EQ(0, go_on(self));
	EXPECT_EQ(1, bpf_run_count(&self->run, BPF_UNWIND_WAITED, 0));
	bpf_run_add_up(&self->run, BPF_UNWIND_FENTRY_S, &sum);
	EXPECT_EQ(CALLS + 1, sum.entries);
	EXPECT_EQ(CALLS + 1, sum.delivered);
	EXPECT_EQ(0, sum.missing + sum.twice + sum.foreign);
}

/* Other tracers can be registered and cancelled. */
TEST_F(waiting, others_are_cancelled)
{
	struct perf_event_attr attr = tracepoint_attr("syscalls/sys_enter_getpgid");
	union record *record = malloc(sizeof(*record));
	struct unwind_test_event event;
	struct unwind_test_op op = OP_REQUEST(0, UNWIND_TEST_TASK);
	struct ring ring;
	const char *why;
	int fd;

	fd = tracer_open(&why);
	if (fd < 0)
		SKIP(return, "%s", why);
	EXPECT_EQ(0, tracer_op(fd, (struct unwind_test_op)OP_INIT(0)));
	EXPECT_EQ(0, tracer_run_deep(fd, &op, 1, DEPTH));
	EXPECT_TRUE(tracer_event(fd, &event));
	EXPECT_EQ(0, tracer_op(fd, (struct unwind_test_op)OP_CANCEL(0)));

	ASSERT_EQ(0, ring_open(&ring, &attr, 0, -1, 8));
	ring_enable(&ring);
	workload_syscall(DEPTH, SYS_getpgid, 0);
	EXPECT_TRUE(ring_next_type(&ring, record, PERF_RECORD_CALLCHAIN_DEFERRED));
	ring_close(&ring);

	EXPECT_EQ(0, bpf_run_count(&self->run, BPF_UNWIND_WAITED, 0));
	EXPECT_EQ(0, go_on(self));
	close(fd);
	free(record);
}

/* Programs can be unloaded meanwhile, and the last one releases the tracer. */
TEST_F(waiting, programs_are_unloaded)
{
	struct bpf_run run;

	bpf_run_close(&self->run);
	/* The wait does not affect later programs. */
	ASSERT_EQ(0, bpf_run_start(&run, "deliver_fentry", "ask_fentry"));
	run.shared->tid = gettid();
	workload_syscall(DEPTH, SYS_getpgid);
	EXPECT_EQ(1, bpf_run_count(&run, BPF_UNWIND_FENTRY, 0));
	EXPECT_EQ(0, go_on(self));
	EXPECT_EQ(1, bpf_run_count(&run, BPF_UNWIND_FENTRY, 0));
	bpf_run_close(&run);
}

/* SIGKILL ends the wait; the test's timeout would notice. */
TEST(killed_in_delivery)
{
	struct bpf_run run;
	int status, ready[2];
	pid_t child;
	char c;

	SKIP_WITHOUT_BPF();
	ASSERT_EQ(0, bpf_run_start(&run, "deliver_and_wait", "ask_fentry"));
	ASSERT_EQ(0, pipe(ready));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		struct caller caller = { .call = { SYS_getpgid } };
		char *page = mmap(NULL, HANG_PAGE, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		int uffd = hang_page(page);

		if (uffd < 0)
			_exit(4);
		caller_start(&caller);
		run.shared->wait_tid = caller.tid;
		run.shared->wait_addr = (uintptr_t)page;
		run.shared->tid = caller.tid;
		caller.go = true;
		wait_for_fault(uffd);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		pause();
	}
	close(ready[1]);
	if (read(ready[0], &c, 1) == 1) {
		EXPECT_EQ(1, bpf_run_count(&run, BPF_UNWIND_FENTRY_S, 0));
		EXPECT_EQ(0, bpf_run_count(&run, BPF_UNWIND_WAITED, 0));
		kill(child, SIGKILL);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 4)
		SKIP(return, "no userfaultfd");
	EXPECT_TRUE(WIFSIGNALED(status));
	EXPECT_EQ(SIGKILL, WTERMSIG(status));
	ASSERT_EQ(1, bpf_run_count(&run, BPF_UNWIND_WAITED, 0));
	EXPECT_EQ(-EFAULT, bpf_run_note(&run, BPF_UNWIND_WAITED, 0)->ret);
	bpf_run_close(&run);
}

TEST_HARNESS_MAIN
