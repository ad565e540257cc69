// SPDX-License-Identifier: GPL-2.0
/*
 * The test matrix: each context that may request a user stack, with each kind of stack.
 *
 * A test's name is its row and its column. By default, all columns of row C1 and column
 * S1 of all rows are run. UNWIND_FULL=1 in the environment runs all cells.
 *
 *   C1  system call		S1  frame pointers	S11 loop of frames
 *   C2  page fault		S2  leaf without them	S12 misaligned frame
 *   C3  timer			S3  function entry	S13 unmapped
 *   C4  IPI			S4  function exit	S14 PROT_NONE
 *   C5  NMI			S5  sigaltstack		S15 at a guard page
 *   C6  uprobe			S6  signal frame	S16 last word of a VMA
 *   C7  uretprobe		S7  swapped stacks	S17 paged out
 *   C8  system call exit	S8  fp = 0		S18 hole of a file
 *   C9  exit			S9  fp < sp		S19 userfaultfd
 *   C10 exec			S10 fp = sp		S20 32-bit code
 *   C11 fork, vfork, clone
 *   C12 ptrace, sigreturn
 *   C13 kernel thread
 *   C14 io worker
 *   C15 UMIP, IOPL
 *   C16 rseq abort
 *
 * Every cell checks this: the trace has the addresses of all expected labels and nothing
 * else; a cookie is not zero, its count is odd, all samples of one entry share it and the
 * next entry has another one; each cookie of a sample has exactly one record; in S1, the
 * in-place chain is the same.
 *
 * The other axes of the matrix have tests of their own (program: test):
 *
 *   tracers, all bits		core_requests: every_bit, exactly_once
 *   storms			core_requests: storm_*; core_cancel: bit_changes_hands_*
 *   cancel and callback	core_cancel: waits_for_callback, does_not_wait_for_walk,
 *				killed_in_walk; a callback must not cancel
 *   callback that requests	core_requests: callback_requests
 *   NMI during a request	core_requests: point.*; core_probe: each_instruction
 *   uretprobe, 32-bit code	compat_task: return_probe.*
 *   no memory			core_requests: failed_cache; fail_nth; depth: no_memory
 *				(fail_function has nothing else to offer on the path)
 *   nth user read		fuzz/fuzz.sh replay: all simulated reads; fail_nth: reads of
 *				code and signal frames; fault_at: by page
 *   single steps		oracle: every_instruction
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hang.h"
#include "matrix.h"
#include "swap.h"
#include "tracer.h"
#include "workload.h"
#include "harness.h"

#define MAX_STACK	"kernel/perf_event_max_stack"
/* All cells, and all cases in them. */
#define FULL	"UNWIND_FULL"

/* The chains to compare with the expected answer, at the same time if possible. */
enum { DEFERRED = 1, IN_PLACE = 2 };

/* In static memory, which 32-bit code can address: the program is linked below 4 GiB. */
static struct run run;

/* The samples and records of one kernel entry. */
struct entry {
	__u64		cookie;
	unsigned int	samples, records;
};

#define MAX_ENTRIES	8192

static struct {
	struct entry	entries[MAX_ENTRIES];
	unsigned int	nr, samples, bare, records, hits, lost, empty, in_place;
	/* The first wrong answer. */
	const char	*wrong;
	unsigned int	at, nr_wrong;
	__u64		ip;
} seen;

static struct entry *entry_of(__u64 cookie)
{
	/* The last one is the most likely. */
	for (unsigned int i = seen.nr; i--;) {
		if (seen.entries[i].cookie == cookie)
			return &seen.entries[i];
	}
	if (seen.nr == MAX_ENTRIES) {
		seen.wrong = "too many entries";
		return &seen.entries[0];
	}
	seen.entries[seen.nr] = (struct entry) { .cookie = cookie };
	return &seen.entries[seen.nr++];
}

static void wrong(const char *what, unsigned int at, const __u64 *ips, unsigned int nr)
{
	if (seen.wrong)
		return;
	seen.wrong = what;
	seen.at = at;
	seen.ip = at < nr ? ips[at] : 0;
	seen.nr_wrong = nr;
}

/* The expected length of this task's trace, including the leaf's entry. */
static unsigned int right_nr(__u32 tid)
{
	bool copied = run.context->flags & CONTEXT_COPIES && tid != (__u32)run.child &&
		      run.shape->flags & CASE_LOST_IN_FORK;
	unsigned int nr = run.answer.nr;

	if (run.answer.resident && (run.context->flags & CONTEXT_RESIDENT || copied ||
				    run.shape->flags & CASE_KILLED))
		nr = run.answer.resident;
	return nr;
}

/* Is this the leaf's trace? If so, compare it with the answer. */
static bool check_trace(const char *what, const __u64 *ips, unsigned int nr, __u32 tid)
{
	unsigned int want = right_nr(tid), skip = 0;

	if (run.context->flags & CONTEXT_SIGRETURN) {
		if (!nr || ips[0] != (uintptr_t)matrix_restored)
			return false;
		skip = 1;
	}
	if (nr <= skip || ips[skip] < run.leaf->first || ips[skip] > run.leaf->last)
		return false;

	if (want + skip > MATRIX_MAX_STACK)
		want = MATRIX_MAX_STACK - skip;
	for (unsigned int i = 1; i < want && i + skip < nr; i++) {
		if (ips[i + skip] != run.answer.ips[i]) {
			wrong(what, i + skip, ips, nr);
			return true;
		}
	}
	if (nr != want + skip)
		wrong(what, want + skip, ips, nr);
	return true;
}

/* Filter out other tasks on the same CPU. */
static bool is_ours(__u32 tid)
{
	return tid == (__u32)run.child || run.context->flags & CONTEXT_INHERITS;
}

static void see_sample(const union record *record)
{
	struct sample sample;
	__u64 cookie, nr;

	parse_sample(record, &sample);
	if (!is_ours(sample.tid))
		return;
	cookie = sample_cookie(&sample);
	seen.samples++;
	if (!cookie) {
		seen.bare++;
		/* After exec and in exit no user part is valid, elsewhere it may be in place. */
		if (run.context->bare && sample_part(&sample, PERF_CONTEXT_USER, &nr) >= 0)
			wrong("a user part where there is no user stack", 0, sample.ips, sample.nr);
		return;
	}
	if (!(cookie >> 32 & 1))
		wrong("an even cookie", sample.nr - 1, sample.ips, sample.nr);
	entry_of(cookie)->samples++;
}

static void see_record(const union record *record)
{
	const struct deferred *deferred = as_deferred(record);
	/* The first word of the sample_id. */
	__u32 tid = deferred->ips[deferred->nr] >> 32;

	if (!is_ours(tid))
		return;
	seen.records++;
	seen.empty += !deferred->nr;
	entry_of(deferred->cookie)->records++;
	seen.hits += check_trace("deferred", deferred->ips, deferred->nr, tid);
}

static void see_in_place(const union record *record)
{
	struct sample sample;
	__u64 nr;
	int at;

	parse_sample(record, &sample);
	at = sample_part(&sample, PERF_CONTEXT_USER, &nr);
	if (at >= 0 && is_ours(sample.tid))
		seen.in_place += check_trace("in place", sample.ips + at, nr, sample.tid);
}

/* Read all new records. */
static void look(void)
{
	static union record record;

	for (unsigned int i = 0; i < run.deferred.nr; i++) {
		while (ring_next(&run.deferred.ring[i], &record)) {
			if (record.header.type == PERF_RECORD_SAMPLE)
				see_sample(&record);
			else if (record.header.type == PERF_RECORD_CALLCHAIN_DEFERRED)
				see_record(&record);
			else if (record.header.type == PERF_RECORD_LOST)
				seen.lost += record.words[2];
		}
	}
	for (unsigned int i = 0; i < run.in_place.nr; i++) {
		while (ring_next_type(&run.in_place.ring[i], &record, PERF_RECORD_SAMPLE))
			see_in_place(&record);
	}
}

/* In the child: prepare the stack and trigger. */
static void enter_once(void)
{
	bool faults = run.context->trigger == TRIGGER_LOAD ||
		      run.context->trigger == TRIGGER_SGDT;
	struct enter *site = run.site;

	if (faults && madvise(run.data + MATRIX_PAGE, MATRIX_PAGE, MADV_DONTNEED))
		_exit(1);
	site->addr = faults ? (uintptr_t)run.data + MATRIX_PAGE : (uintptr_t)&run.shared->stop;
	site->args[0] = run_nr(&run);
	if (run.context->args)
		run.context->args(&run, site->args + 1);
	run.enter.tid = gettid();
	if (run.shape->prepare)
		run.shared->err = run.shape->prepare(&run);
	if (run.shared->err)
		_exit(1);
	matrix_enter(&run.enter);
}

static void child(int go)
{
	int rounds = run.context->flags & CONTEXT_TWICE ? 2 : 1;
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);
	/* New pages stay on per-CPU lists before they can be paged out. */
	pin_to(CHILD_CPU);
	if (read(go, &c, 1) != 1)
		_exit(1);
	if (run.context->flags & CONTEXT_PTRACE) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
	}
	do {
		enter_once();
	} while (--rounds > 0 || (run.context->flags & CONTEXT_REPEATS && !run.shared->stop));
	/* Wait for the tasks that it started. */
	while (wait(NULL) > 0 || __atomic_load_n(&run.shared->thread, __ATOMIC_ACQUIRE))
		usleep(500);
	_exit(0);
}

/* Supply the page that the walk waits for, or kill the child. */
static void *resolver(void *data)
{
	int pidfd = syscall(SYS_pidfd_open, run.child, 0), uffd = -1;
	char *page = run.map + MATRIX_PAGE + MATRIX_HALF + MATRIX_STACK - 2 * MATRIX_PAGE;
	struct pollfd pollfd = { .events = POLLIN };

	while (!__atomic_load_n((bool *)data, __ATOMIC_ACQUIRE)) {
		int theirs = __atomic_load_n(&run.shared->uffd, __ATOMIC_ACQUIRE);

		if (uffd < 0 && theirs >= 0)
			uffd = syscall(SYS_pidfd_getfd, pidfd, theirs, 0);
		pollfd.fd = uffd;
		if (poll(&pollfd, 1, 1) != 1 || !(pollfd.revents & POLLIN))
			continue;
		if (run.shape->flags & CASE_KILLED) {
			kill(-run.child, SIGKILL);
			break;
		}
		resolve(uffd, page, run.data);
	}
	close(uffd);
	close(pidfd);
	return NULL;
}

/* Change the child's registers after the request; returns its exit status. */
static int trace_child(void)
{
	struct user_regs_struct regs;
	int status;

	if (waitpid(run.child, &status, 0) != run.child)
		return -1;
	status = stop_at_syscall(run.child, run_nr(&run), &regs) ?:
		 stop_at_syscall(run.child, run_nr(&run), &regs);
	if (status)
		return status;
	regs.rip = (uintptr_t)matrix_exit_group;
	regs.rsp = (uintptr_t)run.map + MATRIX_PAGE + 1024;
	regs.cs = 0x33;
	if (ptrace(PTRACE_SETREGS, run.child, 0, &regs) ||
	    ptrace(PTRACE_CONT, run.child, 0, 0) ||
	    waitpid(run.child, &status, 0) != run.child)
		return -1;
	return status;
}

/* Number of walks that ended like @counter says; with NULL, of all that ended badly. */
static long walks_ended(const char *counter)
{
	if (counter)
		return unwind_stat(counter);
	return unwind_stat("ended_unreadable") + unwind_stat("ended_bad_frame") +
	       unwind_stat("ended_signals") + unwind_stat("no_code");
}

/* Watch the child until it ends; returns its exit status. */
static int watch_child(void)
{
	bool repeats = run.context->flags & CONTEXT_REPEATS;
	int status;

	if (run.context->flags & CONTEXT_PTRACE)
		return trace_child();
	for (;;) {
		pid_t pid = waitpid(run.child, &status, repeats ? WNOHANG : 0);

		if (pid)
			return pid == run.child ? status : -1;
		look();
		if ((seen.hits || !run.deferred.nr) && (seen.in_place || !run.in_place.nr))
			run.shared->stop = 1;
		if (run.context->poke)
			run.context->poke(&run);
		usleep(500);
	}
}

/*
 * Open the context's events, which share a buffer; 0 or -errno. Interrupts repeat until
 * one has been seen: leave room for those that come while a busy host delays the reader.
 */
static int open_events(struct rings *rings, bool in_place)
{
	const struct context *context = run.context;
	bool each_cpu = context->flags & (CONTEXT_INHERITS | CONTEXT_CPU_WIDE);
	pid_t pid = context->flags & CONTEXT_CPU_WIDE ? -1 : run.child;
	int err = 0;

	for (unsigned int i = 0; i < (in_place ? 1 : context->events) && !err; i++) {
		struct perf_event_attr attr;
		int by_nr = context->attr(&run, i, &attr);

		if (by_nr < 0)
			return by_nr;
		attr.inherit = !!(context->flags & CONTEXT_INHERITS);
		attr.exclude_callchain_kernel = in_place;
		attr.defer_callchain = !in_place;
		attr.defer_output = !in_place && !i;
		if (i)
			err = rings_share(rings, &attr, pid);
		else if (each_cpu)
			err = rings_open_each_cpu(rings, &attr, pid);
		else
			err = rings_open(rings, &attr, pid, -1,
					 context->flags & CONTEXT_REPEATS ? 1024 : 64);
		for (unsigned int j = 0; by_nr && !err && j < rings->nr; j++)
			err = event_filter(i ? rings->extra[j] : rings->ring[j].fd, "id",
					   run_sampled_nr(&run));
	}
	return err;
}

/* The child is killed if the walk waits for the page. */
static bool is_killed(void)
{
	return run.shape->flags & CASE_KILLED &&
	       !(run.context->flags & (CONTEXT_RESIDENT | CONTEXT_REFUSED));
}

/* Log which case fails. */
#define EXPECT_IN_CASE(ok)							\
	EXPECT_TRUE(ok) {							\
		TH_LOG("in %s, %s", run.context->what, run.shape->what);	\
	}

/* An interrupt may hit while a signal or its return changes the registers. */
static bool may_move(void)
{
	return run.context->flags & CONTEXT_REPEATS && run.shape->flags & CASE_SIGNAL;
}

static void check_seen(struct __test_metadata *_metadata, unsigned int parts, long moved,
		       long ended)
{
	const struct context *context = run.context;
	bool exact = parts & DEFERRED && !is_killed();
	int before = _metadata->exit_code;
	unsigned int odd = 0, more = 0;

	/* The shape's own rt_sigreturn() is sampled, too, in both rounds. */
	if (context->flags & CONTEXT_SIGRETURN && run.shape->flags & CASE_SIGNAL)
		more = 2;

	EXPECT_IN_CASE(!seen.wrong);
	if (seen.wrong)
		TH_LOG("%s: entry %u of %u is %llx", seen.wrong, seen.at, seen.nr_wrong, seen.ip);
	for (unsigned int i = 0; i < seen.nr; i++)
		odd += !seen.entries[i].samples || seen.entries[i].records != 1;
	EXPECT_IN_CASE(!odd && !seen.lost);
	EXPECT_IN_CASE(seen.empty == (may_move() ? unwind_stat("empty_moved") - moved : 0));
	EXPECT_IN_CASE(!(parts & DEFERRED) || seen.hits);
	/* In the first context no other walks occur. */
	if (context->id == 1 && exact) {
		EXPECT_IN_CASE(walks_ended(run.shape->counter) - ended ==
			       (run.shape->counter ? seen.hits : 0));
	}
	if (context->traces && exact) {
		EXPECT_IN_CASE(seen.hits == context->traces);
	}
	if (context->samples && exact) {
		EXPECT_IN_CASE(seen.samples == context->samples + more);
		EXPECT_IN_CASE(seen.bare == context->bare);
		EXPECT_IN_CASE(seen.records == context->traces + more);
	}
	EXPECT_IN_CASE(!(parts & IN_PLACE) || seen.in_place);
	if (_metadata->exit_code != before)
		TH_LOG("samples %u, bare %u; records %u, empty %u; entries %u, odd %u; lost %u",
		       seen.samples, seen.bare, seen.records, seen.empty, seen.nr, odd, seen.lost);
}

/* Contexts without a user stack of their own: whatever the shape, no request is granted. */
static void check_refused(struct __test_metadata *_metadata)
{
	struct unwind_test_event event;

	EXPECT_IN_CASE(run.shared->op.ret == -EINVAL && !run.shared->op.cookie);
	EXPECT_IN_CASE(!tracer_event(run.tracer, &event));
	close(run.tracer);
}

static void run_child(struct __test_metadata *_metadata, int go, unsigned int parts)
{
	bool refused = run.context->flags & CONTEXT_REFUSED, over = false;
	long ended = walks_ended(run.shape->counter);
	long moved = unwind_stat("empty_moved");
	pthread_t thread;
	int status, err;

	err = parts & DEFERRED ? open_events(&run.deferred, false) : 0;
	if (!err && parts & IN_PLACE)
		err = open_events(&run.in_place, true);
	if (err == -ENOENT || err == -EACCES || err == -EPERM) {
		kill(run.child, SIGKILL);
		SKIP(return, "needs root and the events of: %s", run.context->what);
	}
	ASSERT_EQ(0, err);
	if (run.shape->flags & CASE_HANGS)
		ASSERT_EQ(0, pthread_create(&thread, NULL, resolver, &over));
	rings_enable(&run.deferred);
	rings_enable(&run.in_place);
	ASSERT_EQ(1, write(go, "g", 1));

	status = watch_child();
	/* A task that the child started and that was killed with it may still deliver. */
	while (waitpid(-run.child, NULL, 0) > 0)
		;
	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	if (run.shape->flags & CASE_HANGS)
		pthread_join(thread, NULL);
	if (run.shared->err == -ENOSYS)
		SKIP(return, "needs what is missing here: %s, %s", run.context->what,
		     run.shape->what);
	ASSERT_EQ(0, run.shared->err) {
		TH_LOG("no stack for %s, %s", run.context->what, run.shape->what);
	}
	EXPECT_EQ(is_killed() ? SIGKILL : 0, status) {
		TH_LOG("in %s, %s", run.context->what, run.shape->what);
	}
	if (refused) {
		check_refused(_metadata);
		return;
	}
	look();
	check_seen(_metadata, parts, moved, ended);
	rings_close(&run.deferred);
	rings_close(&run.in_place);
}

/* One case of a shape in one of the contexts of a row. */
static void run_case(struct __test_metadata *_metadata, const struct context *context,
		     const struct shape_case *shape, unsigned int parts)
{
	int go[2], err;

	run.context = context;
	run.shape = shape;
	run.poke_fd = -1;
	memset(&seen, 0, sizeof(seen));
	memset(run.shared, 0, sizeof(*run.shared));
	run.shared->uffd = -1;
	ASSERT_EQ(0, matrix_build(&run));
	err = context->setup ? context->setup(&run) : 0;
	if (err == -ENOENT || err == -ENOSYS)
		SKIP(return, "needs what is missing here: %s", context->what);
	ASSERT_EQ(0, err);
	ASSERT_EQ(0, pipe(go));
	run.child = fork();
	if (!run.child)
		child(go[0]);
	ASSERT_LT(0, run.child);
	run_child(_metadata, go[1], parts);
	close(go[0]);
	close(go[1]);
	close(run.poke_fd);
	matrix_unbuild(&run);
}

/* Also compare the in-place walker on good stacks, if the context allows that. */
static void run_parts(struct __test_metadata *_metadata, const struct context *context,
		      const struct shape_case *shape, bool good)
{
	unsigned int parts = context->flags & CONTEXT_REFUSED ? 0 : DEFERRED;

	if (good && parts && !(context->flags & CONTEXT_NOT_IN_PLACE))
		parts |= IN_PLACE;
	run_case(_metadata, context, shape, parts);
}

/* Run the selected cases of a shape in one context; stop at the first failure. */
static void run_shape(struct __test_metadata *_metadata, const struct context *context,
		      const struct shape *shape)
{
	const struct shape_case *end = shape->cases + MATRIX_CASES;

	if (context->flags & CONTEXT_PINNED) {
		if (sysconf(_SC_NPROCESSORS_ONLN) <= CHILD_CPU)
			SKIP(return, "needs two CPUs");
		pin_to(LOOKING_CPU);
	}
	for (const struct shape_case *c = shape->cases; c < end && c->build; c++) {
		if (c->flags & CASE_NEEDS_SWAP && !have_swap())
			SKIP(return, "needs swap");
		if (c->flags & CASE_FULL && context->id != 1 && !getenv(FULL))
			continue;
		if (_metadata->exit_code == KSFT_PASS)
			run_parts(_metadata, context, c, shape == &matrix_shapes[0]);
	}
}

static void run_cell(struct __test_metadata *_metadata, unsigned int id,
		     const struct shape *shape)
{
	run.shared = mmap(NULL, sizeof(*run.shared), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)run.shared);

	for (unsigned int i = 0; i < matrix_nr_contexts; i++) {
		const struct context *context = &matrix_contexts[i];

		if (context->id == id && (!(context->flags & CONTEXT_PLAIN) ||
					  shape == &matrix_shapes[0]))
			run_shape(_metadata, context, shape);
	}
}

struct cell {
	struct __test_metadata	test;
	char			name[16];
	unsigned int		context, shape;
};

static void cell_test(struct __test_metadata *_metadata,
		      struct __fixture_variant_metadata *variant)
{
	const struct cell *cell = (const struct cell *)_metadata;
	int old, percent;

	_metadata->setup_completed = true;
	/* Have the tasks of a child that ended as children. */
	EXPECT_EQ(0, prctl(PR_SET_CHILD_SUBREAPER, 1));
	old = set_sysctl(MAX_STACK, MATRIX_MAX_STACK);
	if (old < 0)
		SKIP(return, "needs root");
	/* Do not throttle because of the cost of samples under emulation. */
	percent = set_sysctl("kernel/perf_cpu_time_max_percent", 0);
	EXPECT_LE(0, percent);
	if (!setjmp(_metadata->env))
		run_cell(_metadata, cell->context, &matrix_shapes[cell->shape - 1]);
	/* Close the events first: the sysctl cannot be changed while they use it. */
	rings_close(&run.deferred);
	rings_close(&run.in_place);
	EXPECT_LE(0, set_sysctl(MAX_STACK, old));
	if (percent > 0)
		set_sysctl("kernel/perf_cpu_time_max_percent", percent);
	__test_check_assert(_metadata);
}

static void __attribute__((constructor(KSELFTEST_PRIO_TEST))) register_cells(void)
{
	static struct cell cells[NR_CONTEXTS][NR_SHAPES];
	bool full = getenv(FULL);

	for (unsigned int c = 1; c <= NR_CONTEXTS; c++) {
		for (unsigned int s = 1; s <= NR_SHAPES; s++) {
			struct cell *cell = &cells[c - 1][s - 1];

			if (!full && c > 1 && s > 1)
				continue;
			/* 32-bit code of a 64-bit task cannot return to the trampoline. */
			if (c == 7 && s == 20)
				continue;
			*cell = (struct cell) {
				.test = {
					.name = cell->name, .fn = cell_test,
					.fixture = &_fixture_global,
					.termsig = -1, .timeout = TEST_TIMEOUT_DEFAULT,
				},
				.context = c, .shape = s,
			};
			snprintf(cell->name, sizeof(cell->name), "C%u_S%u", c, s);
			__register_test(&cell->test);
		}
	}
}

TEST_HARNESS_MAIN
