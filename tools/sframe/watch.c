// SPDX-License-Identifier: GPL-2.0
/*
 * New mappings of tasks, from perf events; existing ones are in scan.c.
 *
 * The events cover the given processes and all that they start from now on, on each CPU; or
 * all processes. After lost events, the caller has to rescan the mappings.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <uapi/linux/perf_event.h>
#include <unistd.h>

#include "session.h"

/* Pages of each buffer, besides the first, if the user may lock that many. */
#define RING_PAGES	16

/* The kernel's limit, on any architecture. */
#define CPUS_MAX	8192

/* How often to look for new CPUs, in ms. */
#define CPUS_LOOK	1000

struct watch {
	struct ring {
		int				fd;
		int				cpu;
		bool				ended;
		struct perf_event_mmap_page	*page;
	}		*rings;
	unsigned int	nr;
	int		*cpus;
	int		nr_cpus;
	long		cpus_look;
	bool		may_grow;
	unsigned int	pages;
	size_t		page_size;
	char		*record;
	bool		partial;
};

/* The part of the kernel's PERF_RECORD_MMAP2 that is read here. */
struct mmap2_record {
	struct perf_event_header	header;
	u32				pid, tid;
	u64				addr, len, pgoff;
	u8				build_id_size;
	u8				unused[3];
	u8				build_id[20];
	u32				prot, flags;
	char				filename[];
};

static int event_open(pid_t pid, int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY, .mmap = 1, .mmap2 = 1, .build_id = 1,
		.inherit = pid > 0, .exclude_kernel = 1, .exclude_hv = 1,
		.watermark = 1, .wakeup_watermark = 1,
	};

	return syscall(SYS_perf_event_open, &attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Open an event for the first of the tasks that still exists. */
static int ring_open(struct watch *watch, struct ring *ring, const pid_t *pids,
		     unsigned int nr_pids, int cpu)
{
	ring->cpu = cpu;
	ring->fd = event_open(nr_pids ? pids[0] : -1, cpu);
	for (unsigned int i = 1; i < nr_pids && ring->fd < 0 && errno == ESRCH; i++)
		ring->fd = event_open(pids[i], cpu);
	if (ring->fd < 0)
		return -errno;
	ring->page = mmap(NULL, (watch->pages + 1) * watch->page_size, PROT_READ | PROT_WRITE,
			  MAP_SHARED, ring->fd, 0);
	if (ring->page == MAP_FAILED) {
		int error = errno;

		close(ring->fd);
		return -error;
	}
	return 0;
}

static void close_rings(struct watch *watch)
{
	for (unsigned int i = 0; i < watch->nr; i++) {
		munmap(watch->rings[i].page, (watch->pages + 1) * watch->page_size);
		close(watch->rings[i].fd);
	}
	watch->nr = 0;
}

/*
 * Store the numbers of the CPUs that are online in @cpus, which has room for CPUS_MAX, and return
 * how many there are. The numbers may have gaps, as in "0-3,8-11". Virtual machines may have many
 * more CPUs that are offline, and each task that starts would get an event for each of them.
 */
static int list_cpus(int *cpus)
{
	FILE *list = fopen("/sys/devices/system/cpu/online", "re");
	int cpu, end, nr = 0, got;

	while (list && (got = fscanf(list, "%d-%d", &cpu, &end)) > 0) {
		if (got == 1)
			end = cpu;
		while (cpu >= 0 && cpu <= end && cpu < CPUS_MAX && nr < CPUS_MAX)
			cpus[nr++] = cpu++;
		if (fgetc(list) != ',')
			break;
	}
	if (list)
		fclose(list);
	/* Without /sys, assume that there are no gaps. */
	for (end = nr ? 0 : sysconf(_SC_NPROCESSORS_ONLN); nr < end && nr < CPUS_MAX; nr++)
		cpus[nr] = nr;
	return nr;
}

/* Has a CPU come online since the events were opened? */
static bool has_new_cpu(const struct watch *watch)
{
	int cpus[CPUS_MAX], nr = list_cpus(cpus), known = 0;

	for (int i = 0; i < nr; i++) {
		while (known < watch->nr_cpus && watch->cpus[known] < cpus[i])
			known++;
		if (known == watch->nr_cpus || watch->cpus[known] != cpus[i])
			return true;
	}
	return false;
}

/* Open a buffer for each CPU, except those that went offline. */
static int open_rings(struct watch *watch, const pid_t *pids, unsigned int nr_pids)
{
	int ret = 0;

	for (int i = 0; !ret && i < watch->nr_cpus; i++) {
		ret = ring_open(watch, &watch->rings[watch->nr], pids, nr_pids, watch->cpus[i]);
		if (ret == -ENODEV)
			ret = 0;
		else if (!ret)
			watch->nr++;
	}
	return ret;
}

/**
 * watch_free - stop watching
 * @watch:	from watch_new(), or NULL
 */
void watch_free(struct watch *watch)
{
	if (!watch)
		return;
	close_rings(watch);
	free(watch->rings);
	free(watch->cpus);
	free(watch->record);
	free(watch);
}

/*
 * Watch all threads of a process but @but, as far as descriptors below @max_fd suffice. Their
 * records go into the existing buffers. If some cannot be watched, @watch->partial is set.
 */
static void watch_threads(struct watch *watch, pid_t pid, pid_t but, int max_fd)
{
	struct dirent *task;
	char path[32];
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	while (tasks && (task = readdir(tasks))) {
		pid_t tid = atoi(task->d_name);

		for (unsigned int i = 0; tid > 0 && tid != but && i < watch->nr; i++) {
			int fd = event_open(tid, watch->rings[i].cpu);

			/* Keep it open: the event is needed until this process ends. */
			if (fd >= 0 && fd < max_fd &&
			    !ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, watch->rings[i].fd))
				continue;
			if (fd >= 0)
				close(fd);
			else if (errno == ESRCH)
				break;
			watch->partial = true;
		}
	}
	if (tasks)
		closedir(tasks);
}

/**
 * watch_new - start watching
 * @pids:	processes, with all that they start
 * @nr_pids:	number of @pids; 0 for all processes
 * @max_fd:	descriptors from this one on are not for threads
 *
 * Return: a watch for watch_free(); NULL with errno on failure.
 */
struct watch *watch_new(const pid_t *pids, unsigned int nr_pids, int max_fd)
{
	struct watch *watch = calloc(1, sizeof(*watch));
	int cpus[CPUS_MAX], ret;

	if (!watch)
		return NULL;
	watch->nr_cpus = list_cpus(cpus);
	watch->cpus_look = now_ms();
	watch->may_grow = sysconf(_SC_NPROCESSORS_CONF) > watch->nr_cpus;
	watch->page_size = sysconf(_SC_PAGESIZE);
	watch->pages = RING_PAGES;
	watch->rings = calloc(watch->nr_cpus, sizeof(*watch->rings));
	watch->cpus = malloc(watch->nr_cpus * sizeof(*watch->cpus));
	/* No record is larger. */
	watch->record = malloc(1 << 16);
	if (!watch->rings || !watch->cpus || !watch->record) {
		ret = -ENOMEM;
	} else {
		memcpy(watch->cpus, cpus, watch->nr_cpus * sizeof(*cpus));
		ret = open_rings(watch, pids, nr_pids);
	}
	/* An ordinary user may lock few pages, and perf needs them more. */
	while (ret == -EPERM && watch->pages > 1) {
		close_rings(watch);
		watch->pages /= 4;
		ret = open_rings(watch, pids, nr_pids);
	}
	for (unsigned int i = 0; !ret && i < nr_pids; i++)
		watch_threads(watch, pids[i], i ? 0 : pids[0], max_fd);
	if (ret) {
		watch_free(watch);
		errno = -ret;
		return NULL;
	}
	return watch;
}

unsigned int watch_nr(const struct watch *watch)
{
	return watch ? watch->nr : 0;
}

/* The descriptor to poll; -1 if the ring has ended. */
int watch_fd(const struct watch *watch, unsigned int nr)
{
	return watch->rings[nr].ended ? -1 : watch->rings[nr].fd;
}

/* The tasks of a ring are gone: stop polling it, as poll() would return at once. */
void watch_end(struct watch *watch, unsigned int nr)
{
	watch->rings[nr].ended = true;
}

/* Other threads may still write to a ring that is not polled any more. */
bool watch_has_ended(const struct watch *watch)
{
	for (unsigned int i = 0; watch && i < watch->nr; i++) {
		if (watch->rings[i].ended)
			return true;
	}
	return false;
}

/* Are there threads or CPUs that are not watched? Only a rescan finds what is mapped there. */
bool watch_is_partial(struct watch *watch)
{
	if (!watch || watch->partial || !watch->may_grow ||
	    now_ms() - watch->cpus_look < CPUS_LOOK)
		return watch && watch->partial;
	watch->cpus_look = now_ms();
	watch->partial = has_new_cpu(watch);
	return watch->partial;
}

/* How long to wait for what tasks map, in ms; -1 without a limit. No event tells of a new CPU. */
int watch_timeout(const struct watch *watch)
{
	return watch && watch->may_grow ? CPUS_LOOK : -1;
}

/* Copy a record out of the ring, which may wrap. */
static void ring_copy(const struct watch *watch, const struct ring *ring, u64 at, void *to,
		      size_t size)
{
	const char *data = (const char *)ring->page + watch->page_size;
	size_t mask = watch->pages * watch->page_size - 1;
	size_t begin = at & mask, first = mask + 1 - begin;

	if (first > size)
		first = size;
	memcpy(to, data + begin, first);
	memcpy((char *)to + first, data, size - first);
}

static void watch_record(const struct mmap2_record *record, watch_fn found, void *data)
{
	struct mapping mapping = {
		.pid = record->pid, .path = record->filename,
		.start = record->addr, .end = record->addr + record->len,
	};

	if (!names_file(record->filename))
		return;
	if ((record->header.misc & PERF_RECORD_MISC_MMAP_BUILD_ID) &&
	    record->build_id_size >= BUILD_ID_MIN &&
	    record->build_id_size <= sizeof(mapping.id.bytes)) {
		mapping.id.size = record->build_id_size;
		memcpy(mapping.id.bytes, record->build_id, mapping.id.size);
	}
	found(data, &mapping);
}

/* Returns false if events were lost. */
static bool ring_read(struct watch *watch, struct ring *ring, watch_fn found, void *data)
{
	struct perf_event_header *header = (void *)watch->record;
	u64 tail = ring->page->data_tail, head;
	bool all = true;

	/* Pairs with the kernel's barrier between writing records and data_head. */
	head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	while (head - tail >= sizeof(*header)) {
		ring_copy(watch, ring, tail, header, sizeof(*header));
		if (header->size < sizeof(*header) || header->size > head - tail)
			break;
		ring_copy(watch, ring, tail, watch->record, header->size);
		watch->record[header->size - 1] = '\0';
		if (header->type == PERF_RECORD_MMAP2 &&
		    header->size > sizeof(struct mmap2_record))
			watch_record((void *)watch->record, found, data);
		else if (header->type == PERF_RECORD_LOST)
			all = false;
		tail += header->size;
		/* Pairs with the kernel's load of data_tail: it may overwrite what was read. */
		__atomic_store_n(&ring->page->data_tail, tail, __ATOMIC_RELEASE);
	}
	return all;
}

/**
 * watch_read - read new mappings
 * @watch:	from watch_new()
 * @found:	called for each mapping
 * @data:	for @found
 *
 * Return: false if events were lost.
 */
bool watch_read(struct watch *watch, watch_fn found, void *data)
{
	bool all = true;

	for (unsigned int i = 0; i < watch->nr; i++)
		all &= ring_read(watch, &watch->rings[i], found, data);
	return all;
}
