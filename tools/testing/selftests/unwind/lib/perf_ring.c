// SPDX-License-Identifier: GPL-2.0
/*
 * Open perf events with a ring buffer and parse their records.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "perf_ring.h"

/* Capacity of each set of cookies in tally_rings(). */
#define MAX_COOKIES	65536

int perf_open(const struct perf_event_attr *attr, pid_t pid, int cpu, int group,
	      unsigned long flags)
{
	int fd = syscall(SYS_perf_event_open, attr, pid, cpu, group, flags | PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int get_number(const char *path)
{
	FILE *file = fopen(path, "r");
	int number = -1;

	if (!file)
		return -1;
	if (fscanf(file, "%d", &number) != 1)
		number = -1;
	fclose(file);
	return number;
}

int tracepoint_id(const char *name)
{
	static const char * const mounts[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };
	char path[256];

	for (unsigned int i = 0; i < 2; i++) {
		int id;

		snprintf(path, sizeof(path), "%s/events/%s/id", mounts[i], name);
		id = get_number(path);
		if (id >= 0)
			return id;
	}
	return -1;
}

static struct perf_event_attr deferring_attr(__u32 type, __u64 config)
{
	return (struct perf_event_attr) {
		.type		= type,
		.size		= sizeof(struct perf_event_attr),
		.config		= config,
		.sample_period	= 1,
		.sample_type	= RING_SAMPLE_TYPE,
		.sample_id_all	= 1,
		.disabled	= 1,
		.defer_callchain = 1,
		.defer_output	= 1,
	};
}

struct perf_event_attr tracepoint_attr(const char *name)
{
	int id = tracepoint_id(name);

	return deferring_attr(id < 0 ? ~0U : PERF_TYPE_TRACEPOINT, id);
}

struct perf_event_attr software_attr(__u64 config)
{
	return deferring_attr(PERF_TYPE_SOFTWARE, config);
}

int pmu_type(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/type", name);
	return get_number(path);
}

/* The offset of an address of this program in its file, or -1 if no file maps it. */
static long file_offset(const void *addr, char *file, size_t size)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	uintptr_t start, end, offset;
	char line[4096], path[4096];
	long ret = -1;

	if (!maps)
		return -1;
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %" SCNxPTR " %*s %*s %4095s",
			   &start, &end, &offset, path) != 4)
			continue;
		if ((uintptr_t)addr < start || (uintptr_t)addr >= end)
			continue;
		snprintf(file, size, "%s", path);
		ret = (uintptr_t)addr - start + offset;
	}
	fclose(maps);
	return ret;
}

int uprobe_file_attr(struct perf_event_attr *attr, const char *file, __s64 offset)
{
	int type = pmu_type("uprobe");

	if (type < 0)
		return -ENOENT;

	*attr = software_attr(0);
	attr->type = type;
	attr->uprobe_path = (uintptr_t)file;
	attr->probe_offset = offset;
	return offset < 0 ? -EINVAL : 0;
}

int uprobe_attr(struct perf_event_attr *attr, const void *at, char *file, size_t size)
{
	long offset = file_offset(at, file, size);

	return uprobe_file_attr(attr, file, offset);
}

unsigned long kernel_symbol(const char *name)
{
	FILE *file = fopen("/proc/kallsyms", "r");
	unsigned long addr = 0, at;
	char symbol[256];

	if (!file)
		return 0;
	while (!addr && fscanf(file, "%lx %*c %255s%*[^\n]", &at, symbol) == 2) {
		if (!strcmp(symbol, name))
			addr = at;
	}
	fclose(file);
	return addr;
}

bool kernel_function(const char *name, unsigned long *begin, unsigned long *end)
{
	FILE *file = fopen("/proc/kallsyms", "r");
	unsigned long at;

	*begin = kernel_symbol(name);
	*end = -1UL;
	while (file && fscanf(file, "%lx%*[^\n]", &at) == 1) {
		if (at > *begin && at < *end)
			*end = at;
	}
	if (file)
		fclose(file);
	return *begin;
}

void keep_tracepoint(const char *name)
{
	struct perf_event_attr attr = tracepoint_attr(name);

	/* An event that samples callchains locks the sysctls that set their size. */
	attr.sample_type &= ~PERF_SAMPLE_CALLCHAIN;
	attr.defer_callchain = 0;
	attr.defer_output = 0;
	if (attr.type != ~0U)
		perf_open(&attr, 0, -1, -1, 0);
}

static int ring_open_as(struct ring *ring, const struct perf_event_attr *attr, pid_t pid, int cpu,
			unsigned int pages, unsigned long flags)
{
	size_t page = sysconf(_SC_PAGESIZE);
	void *base;

	memset(ring, 0, sizeof(*ring));
	ring->fd = perf_open(attr, pid, cpu, -1, flags);
	if (ring->fd < 0)
		return ring->fd;

	base = mmap(NULL, (pages + 1) * page, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
	if (base == MAP_FAILED) {
		int err = errno;

		close(ring->fd);
		ring->fd = -1;
		return -err;
	}

	ring->cpu = cpu;
	ring->meta = base;
	ring->data_size = pages * page;
	ring->sample_type = attr->sample_type;
	return 0;
}

int ring_open(struct ring *ring, const struct perf_event_attr *attr, pid_t pid, int cpu,
	      unsigned int pages)
{
	return ring_open_as(ring, attr, pid, cpu, pages, 0);
}

int ring_open_cgroup(struct ring *ring, const struct perf_event_attr *attr, int dir, int cpu,
		     unsigned int pages)
{
	return ring_open_as(ring, attr, dir, cpu, pages, PERF_FLAG_PID_CGROUP);
}

void ring_close(struct ring *ring)
{
	munmap(ring->meta, ring->data_size + sysconf(_SC_PAGESIZE));
	close(ring->fd);
	ring->fd = -1;
}

void ring_enable(struct ring *ring)
{
	ioctl(ring->fd, PERF_EVENT_IOC_ENABLE, 0);
}

void ring_disable(struct ring *ring)
{
	ioctl(ring->fd, PERF_EVENT_IOC_DISABLE, 0);
}

static int each_cpu(void)
{
	int cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return cpus < MAX_CPUS ? cpus : MAX_CPUS;
}

int rings_open(struct rings *rings, const struct perf_event_attr *attr, pid_t pid, int cpu,
	       unsigned int pages)
{
	int err;

	if (rings->nr >= 2 * MAX_CPUS)
		return -E2BIG;
	err = ring_open(&rings->ring[rings->nr], attr, pid, cpu, pages);
	rings->nr += !err;
	return err;
}

int rings_open_each_cpu(struct rings *rings, const struct perf_event_attr *attr, pid_t pid)
{
	int err = 0;

	for (int cpu = 0; cpu < each_cpu() && !err; cpu++)
		err = rings_open(rings, attr, pid, cpu, 32);
	return err;
}

int rings_share(struct rings *rings, const struct perf_event_attr *attr, pid_t pid)
{
	for (unsigned int i = 0; i < rings->nr; i++) {
		int fd = perf_open(attr, pid, rings->ring[i].cpu, -1, 0);

		if (fd < 0)
			return fd;
		if (rings->extras >= MAX_CPUS || ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT,
						       rings->ring[i].fd)) {
			close(fd);
			return -EINVAL;
		}
		rings->extra[rings->extras++] = fd;
	}
	return 0;
}

void rings_enable(struct rings *rings)
{
	for (unsigned int i = 0; i < rings->nr; i++)
		ring_enable(&rings->ring[i]);
	for (unsigned int i = 0; i < rings->extras; i++)
		ioctl(rings->extra[i], PERF_EVENT_IOC_ENABLE, 0);
}

void rings_disable(struct rings *rings)
{
	for (unsigned int i = 0; i < rings->nr; i++)
		ring_disable(&rings->ring[i]);
}

void rings_close(struct rings *rings)
{
	for (unsigned int i = 0; i < rings->extras; i++)
		close(rings->extra[i]);
	for (unsigned int i = 0; i < rings->nr; i++)
		ring_close(&rings->ring[i]);
	rings->extras = 0;
	rings->nr = 0;
}

int event_filter(int fd, const char *field, long value)
{
	char filter[64];

	snprintf(filter, sizeof(filter), "%s == %#lx", field, value);
	return ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filter) ? -errno : 0;
}

int ring_filter(struct ring *ring, const char *field, long value)
{
	return event_filter(ring->fd, field, value);
}

static void ring_copy(const struct ring *ring, __u64 from, void *to, size_t size)
{
	const char *data = (const char *)ring->meta + sysconf(_SC_PAGESIZE);
	size_t start = from % ring->data_size;
	size_t first = ring->data_size - start < size ? ring->data_size - start : size;

	memcpy(to, data + start, first);
	memcpy((char *)to + first, data, size - first);
}

bool ring_next(struct ring *ring, union record *record)
{
	/* Pairs with the kernel's publishing of data_head. */
	__u64 head = __atomic_load_n(&ring->meta->data_head, __ATOMIC_ACQUIRE);
	__u64 tail = ring->meta->data_tail;

	if (head == tail)
		return false;

	ring_copy(ring, tail, &record->header, sizeof(record->header));
	ring_copy(ring, tail, record, record->header.size);
	/* Pairs with the kernel's reading of data_tail before it writes. */
	__atomic_store_n(&ring->meta->data_tail, tail + record->header.size, __ATOMIC_RELEASE);
	return true;
}

bool ring_next_type(struct ring *ring, union record *record, __u32 type)
{
	while (ring_next(ring, record)) {
		if (record->header.type == type)
			return true;
	}
	return false;
}

unsigned int ring_count_samples(const struct ring *ring, pid_t tid)
{
	/* Pairs with the kernel's publishing of data_head. */
	__u64 head = __atomic_load_n(&ring->meta->data_head, __ATOMIC_ACQUIRE);
	unsigned int nr = 0;
	struct {
		struct perf_event_header	header;
		__u32				pid, tid;
	} first;

	for (__u64 at = ring->meta->data_tail; at != head; at += first.header.size) {
		ring_copy(ring, at, &first, sizeof(first));
		nr += first.header.type == PERF_RECORD_SAMPLE && first.tid == (__u32)tid;
	}
	return nr;
}

void ring_drain(struct ring *ring)
{
	__u64 head = __atomic_load_n(&ring->meta->data_head, __ATOMIC_ACQUIRE);

	__atomic_store_n(&ring->meta->data_tail, head, __ATOMIC_RELEASE);
}

void parse_sample(const union record *record, struct sample *sample)
{
	const __u64 *word = record->words + 1;

	sample->pid = (__u32)*word;
	sample->tid = *word++ >> 32;
	sample->time = *word++;
	sample->cpu = (__u32)*word++;
	sample->nr = *word++;
	sample->ips = word;
}

__u64 sample_cookie(const struct sample *sample)
{
	if (sample->nr < 2 || sample->ips[sample->nr - 2] != PERF_CONTEXT_USER_DEFERRED)
		return 0;
	return sample->ips[sample->nr - 1];
}

int sample_part(const struct sample *sample, __u64 marker, __u64 *nr)
{
	for (__u64 i = 0; i < sample->nr; i++) {
		__u64 end = i + 1;

		if (sample->ips[i] != marker)
			continue;
		while (end < sample->nr && sample->ips[end] < PERF_CONTEXT_MAX)
			end++;
		*nr = end - i - 1;
		return i + 1;
	}
	*nr = 0;
	return -1;
}

int set_number(const char *path, int value)
{
	int old = get_number(path);
	FILE *file = fopen(path, "w");

	if (!file)
		return -errno;
	fprintf(file, "%d\n", value);
	if (fclose(file))
		return -errno;
	return old;
}

int set_sysctl(const char *path, int value)
{
	char name[256];

	snprintf(name, sizeof(name), "/proc/sys/%s", path);
	return set_number(name, value);
}

struct cookies {
	__u64	*cookie;
	unsigned int	nr;
};

static bool has_cookie(const struct cookies *set, __u64 cookie)
{
	for (unsigned int i = 0; i < set->nr; i++) {
		if (set->cookie[i] == cookie)
			return true;
	}
	return false;
}

static void add_cookie(struct cookies *set, __u64 cookie)
{
	if (set->nr < MAX_COOKIES)
		set->cookie[set->nr++] = cookie;
}

/* Account one record. A sample adds its cookie to @asked, a record to @came. */
static void tally_record(struct tally *tally, const union record *record, pid_t tid,
			 struct cookies *asked, struct cookies *came)
{
	struct sample sample;
	__u64 cookie;

	switch (record->header.type) {
	case PERF_RECORD_LOST:
		tally->lost += record->words[2];
		break;
	case PERF_RECORD_CALLCHAIN_DEFERRED:
		tally->records++;
		tally->empty += !as_deferred(record)->nr;
		cookie = as_deferred(record)->cookie;
		if (has_cookie(came, cookie))
			tally->duplicate++;
		else
			add_cookie(came, cookie);
		break;
	case PERF_RECORD_SAMPLE:
		parse_sample(record, &sample);
		if (tid && sample.tid != (__u32)tid)
			break;
		tally->samples++;
		cookie = sample_cookie(&sample);
		if (!cookie)
			break;
		tally->deferred++;
		add_cookie(asked, cookie);
		break;
	}
}

void tally_rings(struct tally *tally, struct ring *rings, unsigned int nr, pid_t tid)
{
	struct cookies asked = { .cookie = calloc(MAX_COOKIES, sizeof(__u64)) };
	struct cookies came = { .cookie = calloc(MAX_COOKIES, sizeof(__u64)) };
	union record *record = malloc(sizeof(*record));

	memset(tally, 0, sizeof(*tally));
	if (!asked.cookie || !came.cookie || !record)
		exit(1);

	for (unsigned int i = 0; i < nr; i++) {
		while (ring_next(&rings[i], record))
			tally_record(tally, record, tid, &asked, &came);
	}

	for (unsigned int i = 0; i < asked.nr; i++)
		tally->matched += has_cookie(&came, asked.cookie[i]);
	for (unsigned int i = 0; i < came.nr; i++)
		tally->foreign += !has_cookie(&asked, came.cookie[i]);

	free(record);
	free(came.cookie);
	free(asked.cookie);
}
