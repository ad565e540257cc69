// SPDX-License-Identifier: GPL-2.0
/*
 * The user ABI of deferred callchains, byte by byte: attr bits and their errors, the
 * marker and cookie in a sample, PERF_RECORD_CALLCHAIN_DEFERRED with every sample_id.
 */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf_ring.h"
#include "tracer.h"
#include "workload.h"
#include "harness.h"

#define DEPTH	10
#define GETPPID	"syscalls/sys_enter_getppid"

/* The numbers that programs were built with. */
static_assert(PERF_RECORD_CALLCHAIN_DEFERRED == 22, "record type");
static_assert(PERF_RECORD_MAX == 23, "first free record type");
static_assert(PERF_RECORD_MISC_CALLCHAIN_EARLY == 0x2000, "misc bit of this series");
static_assert(PERF_CONTEXT_USER_DEFERRED == (__u64)-640, "marker");
static_assert(sizeof(struct perf_event_attr) == PERF_ATTR_SIZE_VER8, "attr grew");
static_assert(offsetof(struct deferred, cookie) == 8, "cookie");
static_assert(offsetof(struct deferred, nr) == 16, "nr");
static_assert(offsetof(struct deferred, ips) == 24, "ips");

#define FLAGS_OFFSET	40
#define DEFER_CALLCHAIN	(1ULL << 38)
#define DEFER_OUTPUT	(1ULL << 39)
/* Added by this series only. */
#define DEFER_USER_STATE (1ULL << 63)

/* Open a dummy event with additional bits in the flag word. */
static int open_flags(__u64 flags, __u64 sample_type)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_SW_DUMMY,
		.sample_type	= sample_type,
		.sample_period	= 1,
		.exclude_kernel	= 1,
		.exclude_hv	= 1,
	};
	__u64 word;
	int fd;

	memcpy(&word, (char *)&attr + FLAGS_OFFSET, sizeof(word));
	word |= flags;
	memcpy((char *)&attr + FLAGS_OFFSET, &word, sizeof(word));
	fd = perf_open(&attr, 0, -1, -1, 0);
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

TEST(attr_bits)
{
	struct perf_event_attr attr = { .defer_callchain = 1 };
	__u64 word;

	memcpy(&word, (char *)&attr + FLAGS_OFFSET, sizeof(word));
	EXPECT_EQ(DEFER_CALLCHAIN, word);
	attr.defer_output = 1;
	memcpy(&word, (char *)&attr + FLAGS_OFFSET, sizeof(word));
	EXPECT_EQ(DEFER_CALLCHAIN | DEFER_OUTPUT, word);
	attr.defer_user_state = 1;
	memcpy(&word, (char *)&attr + FLAGS_OFFSET, sizeof(word));
	EXPECT_EQ(DEFER_CALLCHAIN | DEFER_OUTPUT | DEFER_USER_STATE, word);

	EXPECT_EQ(0, open_flags(DEFER_CALLCHAIN, PERF_SAMPLE_CALLCHAIN));
	EXPECT_EQ(0, open_flags(DEFER_OUTPUT, PERF_SAMPLE_CALLCHAIN));
	EXPECT_EQ(0, open_flags(DEFER_CALLCHAIN | DEFER_OUTPUT, PERF_SAMPLE_CALLCHAIN));
	/* Without a callchain nothing is deferred, and no error is returned. */
	EXPECT_EQ(0, open_flags(DEFER_CALLCHAIN, 0));
	EXPECT_EQ(0, open_flags(DEFER_OUTPUT, 0));
}

TEST(attr_unknown_bits)
{
	for (int bit = 40; bit < 63; bit++) {
		EXPECT_EQ(-EINVAL, open_flags(1ULL << bit, PERF_SAMPLE_CALLCHAIN));
		EXPECT_EQ(-EINVAL, open_flags(1ULL << bit | DEFER_OUTPUT, 0));
	}
}

TEST(attr_sizes)
{
	static const struct {
		__u32	size;
		bool	tail;
		int	err;
	} cases[] = {
		{ PERF_ATTR_SIZE_VER0,		false,	0 },
		{ PERF_ATTR_SIZE_VER0 - 8,	false,	-E2BIG },
		{ PERF_ATTR_SIZE_VER8,		false,	0 },
		/* A newer program's attr is fine as long as it requests nothing new. */
		{ PERF_ATTR_SIZE_VER8 + 8,	false,	0 },
		{ PERF_ATTR_SIZE_VER8 + 8,	true,	-E2BIG },
		{ 4096,				false,	0 },
		{ 4104,				false,	-E2BIG },
	};
	static char bytes[8192] __attribute__((aligned(8)));
	struct perf_event_attr *attr = (void *)bytes;

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		int fd;

		memset(bytes, 0, sizeof(bytes));
		attr->type = PERF_TYPE_SOFTWARE;
		attr->config = PERF_COUNT_SW_DUMMY;
		attr->size = cases[i].size;
		attr->defer_callchain = 1;
		attr->defer_output = 1;
		attr->exclude_kernel = 1;
		attr->exclude_hv = 1;
		bytes[PERF_ATTR_SIZE_VER8] = cases[i].tail;
		fd = perf_open(attr, 0, -1, -1, 0);
		EXPECT_EQ(cases[i].err, fd < 0 ? fd : 0) {
			TH_LOG("size %u", cases[i].size);
		}
		if (fd >= 0)
			close(fd);
	}
}

/* Other errors are the same as without the bits. */
TEST(attr_errors)
{
	struct perf_event_attr good = software_attr(PERF_COUNT_SW_DUMMY), bad;

	good.exclude_kernel = 1;
	good.exclude_hv = 1;

	bad = good;
	bad.sample_type = PERF_SAMPLE_MAX;
	EXPECT_EQ(-EINVAL, perf_open(&bad, 0, -1, -1, 0));

	bad = good;
	bad.read_format = PERF_FORMAT_MAX;
	EXPECT_EQ(-EINVAL, perf_open(&bad, 0, -1, -1, 0));

	bad = good;
	bad.sample_max_stack = 65535;
	EXPECT_EQ(-EOVERFLOW, perf_open(&bad, 0, -1, -1, 0));

	bad = good;
	bad.type = ~0U;
	EXPECT_EQ(-ENOENT, perf_open(&bad, 0, -1, -1, 0));

	EXPECT_EQ(-EINVAL, perf_open(&good, 0, -1, -1, 1UL << 30));
	EXPECT_EQ(-EINVAL, perf_open(&good, -1, -1, -1, 0));
	EXPECT_EQ(-EBADF, perf_open(&good, 0, -1, 1 << 20, 0));
}

/* The result of opening a counter of a tracepoint, as user nobody if @nobody. */
static int count_as(const char *event, bool nobody)
{
	struct perf_event_attr attr = {
		.type	= PERF_TYPE_TRACEPOINT,
		.size	= sizeof(attr),
		.config	= tracepoint_id(event),
	};
	pid_t child = fork();
	int fd, status;

	if (!child) {
		if (nobody && setresuid(65534, 65534, 65534))
			_exit(255);
		fd = perf_open(&attr, 0, -1, -1, 0);
		_exit(fd < 0 ? -fd : 0);
	}
	return waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : -1;
}

/*
 * While the event with the stacks is enabled, all requests of all users lead to a walk, and
 * files are looked up. Enabling it needs privileges, even for a mere count.
 */
TEST(stack_event_needs_privileges)
{
	int old = set_sysctl("kernel/perf_event_paranoid", 1);

	if (old < -1 || tracepoint_id("unwind/user_unwind_stack") < 0)
		SKIP(return, "needs root and tracefs");
	EXPECT_EQ(0, count_as("unwind/user_unwind_stack", false));
	EXPECT_EQ(EPERM, count_as("unwind/user_unwind_stack", true));
	EXPECT_EQ(0, count_as("unwind/user_unwind_cookie", true));
	set_sysctl("kernel/perf_event_paranoid", old);
}

/* A tracepoint event on this thread, and one call of getppid() under it. */
FIXTURE(abi) {
	struct perf_event_attr attr;
	struct ring ring;
	union record *record;
	bool opened;
};

FIXTURE_SETUP(abi)
{
	self->attr = tracepoint_attr(GETPPID);
	if (self->attr.type == ~0U)
		SKIP(return, "needs root, tracefs and CONFIG_FTRACE_SYSCALLS");
	self->record = malloc(sizeof(*self->record));
}

FIXTURE_TEARDOWN(abi)
{
	if (self->opened)
		ring_close(&self->ring);
	free(self->record);
}

#define OPEN() do {							\
	ASSERT_EQ(0, ring_open(&self->ring, &self->attr, 0, -1, 32));	\
	self->opened = true;						\
} while (0)

#define START() do {							\
	OPEN();								\
	ring_enable(&self->ring);					\
} while (0)

/*
 * Like START(), on an event with kernel registers: the samples get a kernel
 * part. The events of single system calls pass on the user's registers.
 */
#define START_RAW() do {						\
	self->attr.config = tracepoint_id("raw_syscalls/sys_enter");	\
	OPEN();								\
	ASSERT_EQ(0, ring_filter(&self->ring, "id", SYS_getppid));	\
	ring_enable(&self->ring);					\
} while (0)

#define NEXT(_type) \
	ASSERT_TRUE(ring_next_type(&self->ring, self->record, _type))

/* Nothing follows the record's own fields if sample_id_all is off. */
TEST_F(abi, record_bytes)
{
	const struct deferred *deferred;
	struct sample sample;
	__u64 cookie;

	self->attr.sample_id_all = 0;
	START();
	workload_syscall(DEPTH, SYS_getppid);

	NEXT(PERF_RECORD_SAMPLE);
	parse_sample(self->record, &sample);
	cookie = sample_cookie(&sample);
	EXPECT_NE(0, cookie);

	ASSERT_TRUE(ring_next(&self->ring, self->record));
	deferred = as_deferred(self->record);
	EXPECT_EQ(22, deferred->header.type);
	EXPECT_EQ(PERF_RECORD_MISC_USER, deferred->header.misc);
	EXPECT_EQ(24 + 8 * WORKLOAD_NR(DEPTH), deferred->header.size);
	EXPECT_EQ(cookie, deferred->cookie);
	EXPECT_EQ(-1, workload_check(deferred->ips, deferred->nr, DEPTH));
	EXPECT_FALSE(ring_next(&self->ring, self->record));
}

/* The record says if the walk did not reach the outermost frame, as record_bytes does. */
TEST_F(abi, record_ends_early)
{
	const long getppid_args[7] = { SYS_getppid };

	START();
	workload_call_fp(NULL, 1, getppid_args);
	NEXT(PERF_RECORD_CALLCHAIN_DEFERRED);
	EXPECT_EQ(PERF_RECORD_MISC_USER | PERF_RECORD_MISC_CALLCHAIN_EARLY,
		  self->record->header.misc);
	/* Code without frame pointers may have any value there. */
	workload_call_fp(NULL, 0, getppid_args);
	NEXT(PERF_RECORD_CALLCHAIN_DEFERRED);
	EXPECT_EQ(PERF_RECORD_MISC_USER | PERF_RECORD_MISC_CALLCHAIN_EARLY,
		  self->record->header.misc);
}

/* Kernel part, marker, cookie, end. */
TEST_F(abi, sample_chain)
{
	struct sample sample;
	__u64 nr;

	START_RAW();
	workload_syscall(DEPTH, SYS_getppid);
	NEXT(PERF_RECORD_SAMPLE);
	parse_sample(self->record, &sample);

	ASSERT_LT(3, sample.nr);
	EXPECT_EQ(PERF_CONTEXT_KERNEL, sample.ips[0]);
	EXPECT_EQ(1, sample_part(&sample, PERF_CONTEXT_KERNEL, &nr));
	EXPECT_EQ(sample.nr - 3, nr);
	EXPECT_EQ(PERF_CONTEXT_USER_DEFERRED, sample.ips[sample.nr - 2]);
	EXPECT_GT(PERF_CONTEXT_MAX, sample.ips[sample.nr - 1]);
	EXPECT_EQ(-1, sample_part(&sample, PERF_CONTEXT_USER, &nr));
}

TEST_F(abi, sample_chain_without_kernel)
{
	struct sample sample;

	self->attr.exclude_callchain_kernel = 1;
	START_RAW();
	workload_syscall(DEPTH, SYS_getppid);
	NEXT(PERF_RECORD_SAMPLE);
	parse_sample(self->record, &sample);
	EXPECT_EQ(2, sample.nr);
	EXPECT_NE(0, sample_cookie(&sample));
	NEXT(PERF_RECORD_CALLCHAIN_DEFERRED);
}

/* An excluded user part is not deferred either. */
TEST_F(abi, sample_chain_without_user)
{
	struct sample sample;
	__u64 nr;

	self->attr.exclude_callchain_user = 1;
	START_RAW();
	workload_syscall(DEPTH, SYS_getppid);
	NEXT(PERF_RECORD_SAMPLE);
	parse_sample(self->record, &sample);
	EXPECT_EQ(1, sample_part(&sample, PERF_CONTEXT_KERNEL, &nr));
	EXPECT_EQ(sample.nr - 1, nr);
	EXPECT_FALSE(ring_next(&self->ring, self->record));
}

/* Without defer_callchain the sample has the user part as before. */
TEST_F(abi, sample_chain_immediate)
{
	struct sample sample;
	__u64 nr;
	int at;

	self->attr.defer_callchain = 0;
	START();
	workload_syscall(DEPTH, SYS_getppid);
	NEXT(PERF_RECORD_SAMPLE);
	parse_sample(self->record, &sample);
	at = sample_part(&sample, PERF_CONTEXT_USER, &nr);
	ASSERT_LT(0, at);
	EXPECT_EQ(-1, workload_check(sample.ips + at, nr, DEPTH));
	EXPECT_FALSE(ring_next(&self->ring, self->record));
}

/* Only an event with defer_output gets records. */
TEST_F(abi, no_output_no_record)
{
	struct sample sample;

	self->attr.defer_output = 0;
	START();
	workload_syscall(DEPTH, SYS_getppid);
	NEXT(PERF_RECORD_SAMPLE);
	parse_sample(self->record, &sample);
	EXPECT_NE(0, sample_cookie(&sample));
	EXPECT_FALSE(ring_next(&self->ring, self->record));
}

/* The parts of a cookie, seen from userspace; two requests in a row on each CPU. */
TEST_F(abi, cookie_layout)
{
	unsigned int cpus = sysconf(_SC_NPROCESSORS_ONLN);

	START();
	for (unsigned int i = 0; i < 10; i++) {
		unsigned int cpu = i / 2 % cpus;
		static __u64 last;
		struct sample sample;
		__u64 cookie;

		ASSERT_EQ(0, pin_to(cpu));
		workload_syscall(DEPTH, SYS_getppid);
		NEXT(PERF_RECORD_SAMPLE);
		parse_sample(self->record, &sample);
		cookie = sample_cookie(&sample);
		EXPECT_EQ(cpu + 1, (__u32)cookie);
		EXPECT_EQ(1, cookie >> 32 & 1);
		/* Other requests on that CPU may take cookies, too. */
		if (i % 2) {
			EXPECT_LT(last, cookie);
		}
		last = cookie;
		NEXT(PERF_RECORD_CALLCHAIN_DEFERRED);
		EXPECT_EQ(cookie, as_deferred(self->record)->cookie);
	}
}

static void ignore_signal(int sig)
{
	(void)sig;
}

/*
 * get_signal() runs task work before the signal_deliver tracepoint, so
 * its sample comes after the record. Same entry, same cookie, no second record.
 */
TEST_F(abi, sample_after_record)
{
	struct perf_event_attr late = tracepoint_attr("signal/signal_deliver");
	bool after_record = false;
	struct sample sample;
	__u64 cookie = 0;
	int fd;

	if (late.type == ~0U)
		SKIP(return, "no signal tracepoints");
	self->attr = tracepoint_attr("syscalls/sys_enter_tkill");
	ASSERT_EQ(0, ring_open(&self->ring, &self->attr, 0, -1, 32));
	self->opened = true;
	late.disabled = 0;
	late.defer_output = 0;
	fd = perf_open(&late, 0, -1, -1, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, self->ring.fd));
	signal(SIGUSR1, ignore_signal);
	ring_enable(&self->ring);
	workload_syscall(DEPTH, SYS_tkill, gettid(), SIGUSR1);

	while (ring_next(&self->ring, self->record)) {
		if (self->record->header.type == PERF_RECORD_CALLCHAIN_DEFERRED) {
			EXPECT_FALSE(after_record);
			after_record = true;
			EXPECT_EQ(cookie, as_deferred(self->record)->cookie);
			EXPECT_EQ(-1, workload_check(as_deferred(self->record)->ips,
						     as_deferred(self->record)->nr, DEPTH));
			continue;
		}
		if (self->record->header.type != PERF_RECORD_SAMPLE)
			continue;
		parse_sample(self->record, &sample);
		EXPECT_NE(0, sample_cookie(&sample));
		if (after_record) {
			EXPECT_EQ(cookie, sample_cookie(&sample));
			cookie = ~0ULL;
		}
		cookie = cookie ?: sample_cookie(&sample);
	}
	/* The record and the late sample have both been seen. */
	EXPECT_EQ(~0ULL, cookie);
	close(fd);
}

/* A sample that hit user mode has only marker and cookie. */
TEST_F(abi, user_mode_sample)
{
	volatile unsigned int spin = 0;
	struct sample sample;
	__u64 cookie;

	self->attr = software_attr(PERF_COUNT_SW_CPU_CLOCK);
	self->attr.sample_period = 1000000;
	START();
	do {
		while (!ring_next_type(&self->ring, self->record, PERF_RECORD_SAMPLE)) {
			for (unsigned int i = 0; i < 100000; i++)
				spin++;
		}
	} while ((self->record->header.misc & PERF_RECORD_MISC_CPUMODE_MASK) !=
		 PERF_RECORD_MISC_USER);
	ring_disable(&self->ring);

	parse_sample(self->record, &sample);
	EXPECT_EQ(2, sample.nr);
	EXPECT_NE(0, sample_cookie(&sample));
	cookie = sample_cookie(&sample);
	do {
		NEXT(PERF_RECORD_CALLCHAIN_DEFERRED);
	} while (as_deferred(self->record)->cookie != cookie);
	EXPECT_LE(1, as_deferred(self->record)->nr);
}

/* The longest record, and the counter of truncated ones. */
TEST_F(abi, longest_record)
{
	static const unsigned int max = 8180;
	long ended_full = unwind_stat("ended_full");
	int old = set_sysctl("kernel/perf_event_max_stack", 20000);

	if (old < 0)
		SKIP(return, "cannot set kernel.perf_event_max_stack: %s", strerror(-old));
	self->attr.sample_type |= PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_IDENTIFIER;
	START();
	workload_syscall(9000, SYS_getppid);
	NEXT(PERF_RECORD_CALLCHAIN_DEFERRED);
	EXPECT_EQ(max, as_deferred(self->record)->nr);
	EXPECT_EQ(24 + 8 * (max + 6), self->record->header.size);
	EXPECT_EQ(-1, workload_check_head(as_deferred(self->record)->ips, max, 9000));
	EXPECT_EQ(ended_full + 1, unwind_stat("ended_full"));
	ring_close(&self->ring);
	self->opened = false;
	EXPECT_EQ(20000, set_sysctl("kernel/perf_event_max_stack", old));
}

/* Every combination of the fields of sample_id. */
TEST_F(abi, sample_id)
{
	static const __u64 fields[] = {
		PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_SAMPLE_ID,
		PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_CPU, PERF_SAMPLE_IDENTIFIER,
	};

	for (unsigned int combination = 0; combination < 64; combination++) {
		const struct deferred *deferred = as_deferred(self->record);
		const __u64 *word;
		__u64 id;

		self->attr.sample_type = PERF_SAMPLE_CALLCHAIN;
		for (int i = 0; i < 6; i++) {
			if (combination & 1 << i)
				self->attr.sample_type |= fields[i];
		}
		START();
		ASSERT_EQ(0, ioctl(self->ring.fd, PERF_EVENT_IOC_ID, &id));
		workload_syscall(DEPTH, SYS_getppid);
		NEXT(PERF_RECORD_CALLCHAIN_DEFERRED);
		EXPECT_EQ(24 + 8 * (deferred->nr + __builtin_popcount(combination)),
			  deferred->header.size);
		EXPECT_EQ(-1, workload_check(deferred->ips, deferred->nr, DEPTH));

		word = deferred->ips + deferred->nr;
		if (combination & 1) {
			EXPECT_EQ(getpid() | (__u64)gettid() << 32, *word++);
		}
		if (combination & 2) {
			EXPECT_NE(0, *word++);
		}
		if (combination & 4) {
			EXPECT_EQ(id, *word++);
		}
		if (combination & 8) {
			EXPECT_EQ(id, *word++);
		}
		if (combination & 16) {
			EXPECT_GT(sysconf(_SC_NPROCESSORS_CONF), *word++);
		}
		if (combination & 32) {
			EXPECT_EQ(id, *word++);
		}
		ring_close(&self->ring);
		self->opened = false;
	}
}

TEST_HARNESS_MAIN
