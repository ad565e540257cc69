// SPDX-License-Identifier: GPL-2.0
/*
 * Random registers, stacks, code, signal frames and segments, with requests pending:
 * from the entry of system calls, from page faults, from NMI. The guarantees for traces
 * must hold for any stack: a trace comes once for each cookie in a sample, is not longer
 * than allowed, and has no kernel address after its first entry, which is the
 * instruction pointer.
 *
 * A child does this and may crash; the parent reads the records and forks another child.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "random.h"
#include "fuzz_child.h"
#include "perf_ring.h"
#include "tracer.h"
#include "../../kselftest.h"

#define RING_PAGES	128
#define MAX_STACK	127
#define NMI_PERIOD	300000
#define STUCK_SECONDS	20

/**
 * struct watch - an event on the child
 * @ring:	its buffer
 * @asked:	cookies of samples
 * @came:	cookies of records
 * @nr_asked:	number of @asked
 * @nr_came:	number of @came
 * @lost:	records that did not fit
 * @entries:	each of its samples belongs to another kernel entry
 */
struct watch {
	struct ring	ring;
	__u64		*asked, *came;
	unsigned int	nr_asked, nr_came, lost;
	bool		entries;
};

#define MAX_COOKIES	200000U
#define WATCHES		3

static struct fuzz_shared *shared;
static struct watch watches[WATCHES];
static unsigned int nr_watches;
static union record record;
static struct {
	unsigned int	children, crashed, stuck, samples, deferred, records, empty, cut;
	unsigned int	lossy, bad;
	__u64		rounds, frames;
} count;

static void complain(const char *what, __u64 a, __u64 b)
{
	count.bad++;
	ksft_print_msg("child %u: %s: %llx %llx\n", count.children, what, a, b);
}

static void check_trace(struct watch *watch, const struct deferred *deferred)
{
	if (deferred->nr > MAX_STACK ||
	    deferred->header.size != sizeof(*deferred) + 8 * deferred->nr + 24) {
		complain("length and size", deferred->nr, deferred->header.size);
		return;
	}
	count.records++;
	count.empty += !deferred->nr;
	count.cut += deferred->nr == MAX_STACK;
	count.frames += deferred->nr;
	if (!deferred->cookie)
		complain("no cookie", 0, 0);
	for (__u64 i = 1; i < deferred->nr; i++) {
		if (deferred->ips[i] >> 47)
			complain("no user address", i, deferred->ips[i]);
	}
	if (watch->nr_came < MAX_COOKIES)
		watch->came[watch->nr_came++] = deferred->cookie;
}

static void check_sample(struct watch *watch)
{
	struct sample sample;
	__u64 cookie, nr;
	int at;

	parse_sample(&record, &sample);
	count.samples++;
	cookie = sample_cookie(&sample);
	at = sample_part(&sample, PERF_CONTEXT_USER_DEFERRED, &nr);
	if (cookie ? at != sample.nr - 1 : at >= 0)
		complain("marker and cookie are not last", at, sample.nr);
	if (!cookie)
		return;
	count.deferred++;
	if (watch->nr_asked < MAX_COOKIES)
		watch->asked[watch->nr_asked++] = cookie;
}

static bool drain(struct watch *watch)
{
	bool any = false;

	while (ring_next(&watch->ring, &record)) {
		any = true;
		if (record.header.type == PERF_RECORD_CALLCHAIN_DEFERRED)
			check_trace(watch, as_deferred(&record));
		else if (record.header.type == PERF_RECORD_SAMPLE)
			check_sample(watch);
		else if (record.header.type == PERF_RECORD_LOST)
			watch->lost += record.words[2];
	}
	return any;
}

static int compare(const void *a, const void *b)
{
	__u64 x = *(const __u64 *)a, y = *(const __u64 *)b;

	return x < y ? -1 : x > y;
}

/* Expect exactly one record for each cookie, even if the task crashed. */
static void check_cookies(struct watch *watch)
{
	struct { __u64 value, lost; } read_format;

	/* PERF_RECORD_LOST comes with the next record: it does not report the loss of the last. */
	if (read(watch->ring.fd, &read_format, sizeof(read_format)) != sizeof(read_format))
		complain("cannot read the event", 0, 0);
	if (read_format.lost || watch->lost || watch->nr_asked == MAX_COOKIES ||
	    watch->nr_came == MAX_COOKIES) {
		count.lossy++;
		return;
	}
	qsort(watch->came, watch->nr_came, 8, compare);
	for (unsigned int i = 1; i < watch->nr_came; i++) {
		if (watch->came[i] == watch->came[i - 1])
			complain("two records for one entry", watch->came[i], 0);
	}
	qsort(watch->asked, watch->nr_asked, 8, compare);
	for (unsigned int i = 0; i < watch->nr_asked; i++) {
		if (i && watch->entries && watch->asked[i] == watch->asked[i - 1])
			complain("two entries have one name", watch->asked[i], i);
		if (!bsearch(&watch->asked[i], watch->came, watch->nr_came, 8, compare))
			complain("no record for a sample", watch->asked[i], i);
	}
}

static void watch_event(struct perf_event_attr *attr, pid_t pid, bool entries)
{
	struct watch *watch = &watches[nr_watches];

	attr->read_format = PERF_FORMAT_LOST;
	if (attr->type == ~0U || ring_open(&watch->ring, attr, pid, -1, RING_PAGES))
		return;
	watch->nr_asked = 0;
	watch->nr_came = 0;
	watch->lost = 0;
	watch->entries = entries;
	ring_enable(&watch->ring);
	nr_watches++;
}

static void watch_child(pid_t pid)
{
	struct perf_event_attr attr = tracepoint_attr("raw_syscalls/sys_enter");
	int type = pmu_type("perf_test");

	nr_watches = 0;
	attr.sample_period = 1 + rnd_below(3);
	watch_event(&attr, pid, true);
	attr = software_attr(PERF_COUNT_SW_PAGE_FAULTS);
	watch_event(&attr, pid, false);
	if (type >= 0) {
		attr = software_attr(0);
		attr.type = type;
		attr.sample_period = NMI_PERIOD;
		watch_event(&attr, pid, false);
	}
}

/* Read the buffers until the child ends; kill it if it makes no progress. */
static void see_through(pid_t pid)
{
	unsigned int round = 0;
	time_t since = time(NULL);
	bool any, over = false, killed = false;
	int status;

	while (!over) {
		over = waitpid(pid, &status, WNOHANG) == pid;
		any = false;
		for (unsigned int i = 0; i < nr_watches; i++)
			any |= drain(&watches[i]);
		if (!any && !over)
			usleep(2000);
		if (round != shared->round || over) {
			round = shared->round;
			since = time(NULL);
		} else if (time(NULL) - since > STUCK_SECONDS) {
			/* Its code may loop or wait forever. */
			if (killed)
				complain("a child cannot be killed", pid, 0);
			count.stuck++;
			kill(pid, SIGKILL);
			killed = true;
			since = time(NULL);
		}
	}
	count.crashed += !WIFEXITED(status);
	count.rounds += shared->round;
}

static void one_child(void)
{
	int status;
	pid_t pid;

	shared->round = 0;
	pid = fork();
	if (pid < 0)
		ksft_exit_fail_msg("no child\n");
	if (!pid)
		fuzz_child(shared, count.children);
	/*
	 * Wait for the stop: before, the child could be at the end of a kernel entry
	 * whose record is already written and would miss the buffers opened below.
	 */
	if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status))
		ksft_exit_fail_msg("the child ended before it started\n");
	fuzz_reseed(1000000 + count.children);
	watch_child(pid);
	kill(pid, SIGCONT);
	see_through(pid);
	for (unsigned int i = 0; i < nr_watches; i++) {
		check_cookies(&watches[i]);
		ring_close(&watches[i].ring);
	}
	count.children++;
}

static void summary(const long *before, const char * const *stats, unsigned int nr)
{
	ksft_print_msg("%u children, %u crashed, %u stuck, %llu rounds\n", count.children,
		       count.crashed, count.stuck, count.rounds);
	for (unsigned int i = 0; i < FUZZ_KINDS; i++)
		ksft_print_msg("%u times %s\n", shared->kinds[i], fuzz_kinds[i]);
	ksft_print_msg("%u samples, %u deferred, %u lossy buffers\n", count.samples,
		       count.deferred, count.lossy);
	ksft_print_msg("%u records, %u empty, %u cut, %llu addresses\n", count.records,
		       count.empty, count.cut, count.frames);
	for (unsigned int i = 0; i < nr; i++)
		ksft_print_msg("unwind/stats: %s %ld\n", stats[i],
			       unwind_stat(stats[i]) - before[i]);
}

int main(void)
{
	static const char * const stats[] = {
		"requests", "refused_exiting", "refused_between", "walks", "frames", "ended_full",
		"no_code", "empty_moved", "empty_no_stack", "nomem",
	};
	long before[ARRAY_SIZE(stats)];
	int old_max, old_percent;

	ksft_print_header();
	if (geteuid())
		ksft_exit_skip("needs root\n");
	if (tracepoint_id("raw_syscalls/sys_enter") < 0)
		ksft_exit_skip("needs tracefs and CONFIG_FTRACE_SYSCALLS\n");
	ksft_set_plan(1);
	fuzz_start();
	old_percent = set_sysctl("kernel/perf_cpu_time_max_percent", 0);
	old_max = set_sysctl("kernel/perf_event_max_stack", MAX_STACK);
	keep_tracepoint("raw_syscalls/sys_enter");
	for (unsigned int i = 0; i < ARRAY_SIZE(stats); i++)
		before[i] = unwind_stat(stats[i]);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < WATCHES; i++) {
		watches[i].asked = malloc(8 * MAX_COOKIES);
		watches[i].came = malloc(8 * MAX_COOKIES);
	}

	do
		one_child();
	while (!fuzz_over() && count.bad < 20);

	if (old_max > 0)
		set_sysctl("kernel/perf_event_max_stack", old_max);
	if (old_percent > 0)
		set_sysctl("kernel/perf_cpu_time_max_percent", old_percent);
	summary(before, stats, ARRAY_SIZE(stats));
	ksft_test_result(!count.bad && count.deferred && count.records > count.empty,
			 "every trace keeps what it promises\n");
	ksft_finished();
}
