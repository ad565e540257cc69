/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Open perf events with a ring buffer and parse their records.
 */
#ifndef _UNWIND_PERF_RING_H
#define _UNWIND_PERF_RING_H

#include <linux/perf_event.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The sample fields that parse_sample() understands. */
#define RING_SAMPLE_TYPE						\
	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |		\
	 PERF_SAMPLE_CALLCHAIN)

struct ring {
	int				fd, cpu;
	struct perf_event_mmap_page	*meta;
	size_t				data_size;
	__u64			sample_type;
};

/* A record. Its data ends at header.size. */
union record {
	struct perf_event_header	header;
	__u64			words[65536 / 8];
};

/* The parts of a PERF_RECORD_SAMPLE of RING_SAMPLE_TYPE. */
struct sample {
	__u32	pid, tid;
	__u64	time;
	__u32	cpu;
	__u64	nr;
	const __u64	*ips;
};

/* The fixed part of a PERF_RECORD_CALLCHAIN_DEFERRED. */
struct deferred {
	struct perf_event_header	header;
	__u64			cookie;
	__u64			nr;
	__u64			ips[];
};

int perf_open(const struct perf_event_attr *attr, pid_t pid, int cpu, int group,
	      unsigned long flags);

/* The id of a tracepoint "system/name", or -1. */
int tracepoint_id(const char *name);

/*
 * An attr that samples each hit of a tracepoint with the kernel and user callchain
 * and sets both deferral bits. Not enabled. @attr->type is ~0 if the tracepoint
 * does not exist.
 */
struct perf_event_attr tracepoint_attr(const char *name);

/* Like tracepoint_attr(), for a software event. */
struct perf_event_attr software_attr(__u64 config);

/* The address of a kernel symbol, or 0. */
unsigned long kernel_symbol(const char *name);
/* The range from a symbol to the next one; false if the symbol is not found. */
bool kernel_function(const char *name, unsigned long *begin, unsigned long *end);

/* The event type of a PMU, or -1. */
int pmu_type(const char *name);

/* Like tracepoint_attr(), for a uprobe; -ENOENT without uprobe events. */
int uprobe_file_attr(struct perf_event_attr *attr, const char *file, __s64 offset);

/* A uprobe at an address of this program. The name of its file goes to @file. */
int uprobe_attr(struct perf_event_attr *attr, const void *at, char *file, size_t size);

/*
 * Keep a tracepoint in use until the process ends. For tests that open and close
 * events of it over and over: each first and last use patches kernel text, and
 * qemu/vm.sh says which guests do not always survive that.
 */
void keep_tracepoint(const char *name);

/* 0 or -errno; @pages of data, a power of two. */
int ring_open(struct ring *ring, const struct perf_event_attr *attr, pid_t pid, int cpu,
	      unsigned int pages);
/* The same for a cgroup, whose directory is open. */
int ring_open_cgroup(struct ring *ring, const struct perf_event_attr *attr, int dir, int cpu,
		     unsigned int pages);
void ring_close(struct ring *ring);
void ring_enable(struct ring *ring);
void ring_disable(struct ring *ring);

#define MAX_CPUS	64

/* The events of a test that own a buffer, and those that share one. */
struct rings {
	struct ring	ring[2 * MAX_CPUS];
	unsigned int	nr;
	int		extra[MAX_CPUS];
	unsigned int	extras;
};

/* Add an event, one on each CPU, or one into each buffer; 0 or -errno. */
int rings_open(struct rings *rings, const struct perf_event_attr *attr, pid_t pid, int cpu,
	       unsigned int pages);
int rings_open_each_cpu(struct rings *rings, const struct perf_event_attr *attr, pid_t pid);
int rings_share(struct rings *rings, const struct perf_event_attr *attr, pid_t pid);
void rings_enable(struct rings *rings);
void rings_disable(struct rings *rings);
void rings_close(struct rings *rings);

/* Let a tracepoint event sample only if a field has this value; 0 or -errno. */
int event_filter(int fd, const char *field, long value);
int ring_filter(struct ring *ring, const char *field, long value);

/* Take the oldest record; false if the buffer is empty. */
bool ring_next(struct ring *ring, union record *record);

/* Take records until one is of @type. */
bool ring_next_type(struct ring *ring, union record *record, __u32 type);

/* The number of samples of @tid in the buffer, which stay there. */
unsigned int ring_count_samples(const struct ring *ring, pid_t tid);

/* Drop all records in the buffer. */
void ring_drain(struct ring *ring);

void parse_sample(const union record *record, struct sample *sample);

/* The cookie of a sample that ends in marker and cookie, or 0. */
__u64 sample_cookie(const struct sample *sample);

/* The index after @marker, or -1. *nr counts the entries up to the next marker. */
int sample_part(const struct sample *sample, __u64 marker, __u64 *nr);

static inline const struct deferred *as_deferred(const union record *record)
{
	return (const struct deferred *)record;
}

/* Read a number from a kernel file, or -1. */
int get_number(const char *path);

/* Write a number to a kernel file and return its old value, or a negative errno. */
int set_number(const char *path, int value);

/* Like set_number(), for a sysctl below /proc/sys. */
int set_sysctl(const char *path, int value);

/* Counts of the records in a set of buffers. */
struct tally {
	unsigned int	samples;	/* of @tid, or all if @tid is 0 */
	unsigned int	deferred;	/* of those, with marker and cookie */
	unsigned int	matched;	/* of those, with a record */
	unsigned int	records;
	unsigned int	empty;		/* of those, with no address */
	unsigned int	foreign;	/* records that no sample asked for */
	unsigned int	duplicate;	/* records with a cookie seen before */
	unsigned int	lost;		/* from PERF_RECORD_LOST */
};

/* Read all that @nr rings hold. */
void tally_rings(struct tally *tally, struct ring *rings, unsigned int nr, pid_t tid);

#endif /* _UNWIND_PERF_RING_H */
