// SPDX-License-Identifier: GPL-2.0
/*
 * Which file was mapped where in which process, even if the process is gone.
 *
 * Earlier mappings are read from /proc/PID/maps. The kernel reports later mappings, forks and
 * execs, through a perf event that counts nothing. Their records are per CPU, and lookups put
 * them in the order of time.
 *
 * Invariant: nothing is forgotten, and a mapping that replaces another one begins a new struct
 * space. So every address is looked up as of a time at which it meant the same as when it was on
 * a stack.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <bpf/hashmap.h>
#include <bpf/libbpf.h>

#include "prof.h"

/* Pages per CPU in the buffer. */
#define BUFFER_PAGES	64

/* A fork, or an exec if @parent is 0: mappings are inherited from @parent. */
struct birth {
	__u64	time;
	__u32	parent;
};

struct process {
	struct mapping	*mappings;
	size_t		nr_mappings;
	size_t		room_mappings;
	struct birth	*births;
	size_t		nr_births;
	size_t		room_births;
	__u64		*changes;	/* When mappings replaced others, in order */
	size_t		nr_changes;
	size_t		room_changes;
	bool		scanned;
};

/* Every record ends with this, according to sample_type. */
struct record_id {
	__u32	pid;
	__u32	tid;
	__u64	time;
};

struct record_fork {
	struct perf_event_header	header;
	__u32				pid;
	__u32				ppid;
	__u32				tid;
	__u32				ptid;
	__u64				time;
};

struct record_comm {
	struct perf_event_header	header;
	__u32				pid;
	__u32				tid;
};

struct record_mmap2 {
	struct perf_event_header	header;
	__u32				pid;
	__u32				tid;
	__u64				addr;
	__u64				len;
	__u64				pgoff;
	union {
		struct {
			__u32		maj;
			__u32		min;
			__u64		ino;
			__u64		ino_generation;
		};
		struct {
			__u8		build_id_size;
			__u8		reserved[3];
			__u8		build_id[BUILD_ID_SIZE];
		};
	};
	__u32				prot;
	__u32				flags;
	char				filename[];
};

struct record_lost {
	struct perf_event_header	header;
	__u64				id;
	__u64				lost;
};

static struct perf_buffer *buffer;
static struct hashmap *processes;
static struct hashmap *touched;
static __u64 read_until;
static __u64 lost;
static __u64 lost_time;

static struct process *process_of(__u32 tgid)
{
	struct process *process;

	if (hashmap__find(processes, tgid, &process))
		return process;
	process = xalloc(sizeof(*process));
	if (hashmap__add(processes, tgid, process))
		die(STATUS_FAILED, "out of memory");
	return process;
}

static void add_birth(__u32 tgid, __u32 parent, __u64 time)
{
	struct process *process = process_of(tgid);

	process->births = xgrow(process->births, process->nr_births, &process->room_births,
				sizeof(*process->births));
	process->births[process->nr_births++] = (struct birth) { time, parent };
}

/* The latest birth up to @time. */
static struct birth birth_at(const struct process *process, __u64 time)
{
	struct birth latest = {};

	for (size_t i = 0; i < process->nr_births; i++) {
		if (process->births[i].time <= time && process->births[i].time >= latest.time)
			latest = process->births[i];
	}
	return latest;
}

static void add_change(struct process *process, __u64 time)
{
	size_t i = process->nr_changes;

	if (i && process->changes[i - 1] == time)
		return;
	process->changes = xgrow(process->changes, i, &process->room_changes,
				 sizeof(*process->changes));
	for (; i && process->changes[i - 1] > time; i--)
		process->changes[i] = process->changes[i - 1];
	process->changes[i] = time;
	process->nr_changes++;
}

/**
 * spaces_changes - count the mappings that replaced others
 * @tgid:	the process
 * @time:	up to when
 *
 * Return: the number
 */
__u64 spaces_changes(__u32 tgid, __u64 time)
{
	struct process *process;
	size_t nr;

	if (!hashmap__find(processes, tgid, &process))
		return 0;
	nr = process->nr_changes;
	while (nr && process->changes[nr - 1] > time)
		nr--;
	return nr;
}

/* Do two mappings of a file map the same part? Mappings without a file have no offset. */
static bool is_same_part(const struct mapping *a, const struct mapping *b)
{
	return !dso_is_file(a->dso) || a->start - a->offset == b->start - b->offset;
}

/* The latest mapping up to @time in the address space that @birth began. */
static const struct mapping *mapping_at(const struct process *process, struct birth birth,
					__u64 time, __u64 addr)
{
	const struct mapping *latest = NULL;

	for (size_t i = 0; i < process->nr_mappings; i++) {
		const struct mapping *mapping = &process->mappings[i];

		if (addr >= mapping->start && addr < mapping->end &&
		    mapping->time >= birth.time && mapping->time <= time &&
		    (!latest || mapping->time >= latest->time))
			latest = mapping;
	}
	return latest;
}

static const struct mapping *find_at(__u32 tgid, __u64 time, __u64 addr)
{
	struct process *process;

	while (tgid && hashmap__find(processes, tgid, &process)) {
		struct birth birth = birth_at(process, time);
		const struct mapping *found = mapping_at(process, birth, time, addr);

		if (found || !birth.parent)
			return found;
		tgid = birth.parent;
		time = birth.time;
	}
	return NULL;
}

/**
 * spaces_find - find the mapping at an address
 * @space:	the address space
 * @addr:	the address
 *
 * Return: the mapping, NULL if none is known
 */
const struct mapping *spaces_find(const struct space *space, __u64 addr)
{
	return find_at(space->tgid, space->last, addr);
}

static bool overlap(const struct mapping *a, const struct mapping *b)
{
	return a->start < b->end && b->start < a->end;
}

/* Note when @mapping replaced others, or others replaced it, as records come by CPU. */
static void note_changes(__u32 tgid, const struct mapping *mapping)
{
	struct process *changed = process_of(tgid), *process;
	__u64 until = ~0ULL, time = mapping->time;

	while (tgid && hashmap__find(processes, tgid, &process)) {
		struct birth birth = birth_at(process, time);

		for (size_t i = 0; i < process->nr_mappings; i++) {
			const struct mapping *other = &process->mappings[i];

			if (overlap(other, mapping) && other->time >= birth.time &&
			    other->time <= until &&
			    (other->dso != mapping->dso || !is_same_part(other, mapping)))
				add_change(changed, other->time > mapping->time ?
						    other->time : mapping->time);
		}
		tgid = birth.parent;
		until = birth.time;
		time = birth.time;
	}
}

static void add_mapping(__u32 tgid, const struct mapping *mapping)
{
	struct process *process = process_of(tgid);

	note_changes(tgid, mapping);
	process->mappings = xgrow(process->mappings, process->nr_mappings,
				  &process->room_mappings, sizeof(*process->mappings));
	process->mappings[process->nr_mappings++] = *mapping;
}

/* Is all of @mapping in @known, without a mapping there after @known? */
static bool is_within(__u32 tgid, __u64 time, const struct mapping *known,
		      const struct mapping *mapping)
{
	struct process *process;

	if (mapping->end > known->end || !is_same_part(known, mapping))
		return false;
	while (tgid && hashmap__find(processes, tgid, &process)) {
		struct birth birth = birth_at(process, time);

		for (size_t i = 0; i < process->nr_mappings; i++) {
			const struct mapping *other = &process->mappings[i];

			if (overlap(other, mapping) && other->time <= time &&
			    (other->time > known->time ||
			     (other->time == known->time && other > known)))
				return false;
		}
		tgid = birth.parent;
		time = birth.time;
	}
	return true;
}

/* The table has repeated mappings of a process once. */
static bool is_known(__u32 tgid, const struct mapping *mapping)
{
	const struct mapping *known = find_at(tgid, mapping->time, mapping->start);

	return known && known->dso == mapping->dso &&
	       is_within(tgid, mapping->time, known, mapping);
}

/* For a line of /proc/PID/maps: a record may already have reported it, with its time. */
static bool is_recorded(__u32 tgid, const struct mapping *mapping)
{
	const struct mapping *known = find_at(tgid, ~0ULL, mapping->start);

	return known && dso_is_same(known->dso, mapping->dso) &&
	       is_within(tgid, ~0ULL, known, mapping);
}

/* Handle a line of /proc/PID/maps. */
static void scan_line(__u32 tgid, char *line, __u64 time)
{
	struct mapping mapping = { .time = time };
	unsigned long long start, end, offset, ino;
	char rights[8];
	int at = 0;

	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line, "%llx-%llx %7s %llx %*x:%*x %llu %n", &start, &end, rights, &offset,
		   &ino, &at) != 5 || !at || !strchr(rights, 'x'))
		return;

	mapping.start = start;
	mapping.end = end;
	mapping.offset = offset;
	mapping.dso = dso_get(line[at] ? line + at : "//anon", NULL, 0, ino);
	if (!is_recorded(tgid, &mapping))
		add_mapping(tgid, &mapping);
}

/* Read the current mappings, as of @time, or of the latest fork or exec if that was later. */
static void scan_process(__u32 tgid, __u64 time)
{
	char *path = xprintf("/proc/%u/maps", tgid), *line = NULL;
	struct process *process = process_of(tgid);
	FILE *file = fopen(path, "re");
	size_t room = 0;
	__u64 born;

	free(path);
	process->scanned = true;
	if (!file)
		return;
	born = birth_at(process, ~0ULL).time;
	while (getline(&line, &room, file) > 0)
		scan_line(tgid, line, time > born ? time : born);
	free(line);
	fclose(file);
}

/* Read the current mappings of a process. */
void spaces_scan_process(__u32 tgid)
{
	scan_process(tgid, 0);
}

static void scan_all(bool only_known, __u64 time)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;

	if (!proc)
		die(STATUS_FAILED, "cannot read /proc; mount it");
	while ((entry = readdir(proc))) {
		const __u32 tgid = strtoul(entry->d_name, NULL, 10);

		if (tgid && (!only_known || hashmap__find(processes, tgid, NULL)))
			scan_process(tgid, time);
	}
	closedir(proc);
}

/* Likewise for all processes. */
void spaces_scan(void)
{
	scan_all(false, 0);
}

/* If two places have the same key, only an early look at a file is lost. */
static bool first_touch(const struct space *space, __u64 addr)
{
	return !hashmap__add(touched, (long)space * 31 + (addr >> 12), 1);
}

/**
 * spaces_touch - open the files of a stack
 * @space:	address space of the stack
 * @stack:	the stack
 *
 * Do it early: the process may end, and the files of its own mount namespace with it.
 */
void spaces_touch(const struct space *space, const struct stack *stack)
{
	struct process *process = process_of(space->tgid);

	for (__u32 i = 0; i < stack->nr; i++) {
		const struct mapping *mapping;

		if (!first_touch(space, stack->ips[i]))
			continue;
		mapping = spaces_find(space, stack->ips[i]);
		/* Either a record was lost, or the process is older than the first record. */
		if (!mapping && !process->scanned) {
			scan_process(space->tgid, 0);
			mapping = spaces_find(space, stack->ips[i]);
		}
		if (mapping)
			dso_open(mapping->dso, space->tgid, mapping);
	}
}

static void handle_mmap2(const struct record_mmap2 *rec, __u64 time)
{
	const bool has_build_id = rec->header.misc & PERF_RECORD_MISC_MMAP_BUILD_ID;
	struct mapping mapping = {
		.start = rec->addr,
		.end = rec->addr + rec->len,
		.offset = rec->pgoff,
		.time = time,
	};

	if (has_build_id && rec->build_id_size <= BUILD_ID_SIZE)
		mapping.dso = dso_get(rec->filename, rec->build_id, rec->build_id_size, 0);
	else
		mapping.dso = dso_get(rec->filename, NULL, 0, has_build_id ? 0 : rec->ino);
	if (!is_known(rec->pid, &mapping))
		add_mapping(rec->pid, &mapping);
}

static void handle_lost(const struct record_lost *rec, __u64 time)
{
	lost += rec->lost;
	if (!lost_time || time < lost_time)
		lost_time = time;
}

static enum bpf_perf_event_ret handle_record(void *ctx, int cpu,
					     struct perf_event_header *header)
{
	const char *end = (const char *)header + header->size;
	const __u64 time = ((const struct record_id *)end - 1)->time;
	const struct record_fork *fork = (const void *)header;
	const struct record_comm *comm = (const void *)header;

	switch (header->type) {
	case PERF_RECORD_MMAP2:
		handle_mmap2((const void *)header, time);
		break;
	case PERF_RECORD_FORK:
		if (fork->pid != fork->ppid)
			add_birth(fork->pid, fork->ppid, time);
		break;
	case PERF_RECORD_COMM:
		if (header->misc & PERF_RECORD_MISC_COMM_EXEC)
			add_birth(comm->pid, 0, time);
		break;
	case PERF_RECORD_LOST:
		handle_lost((const void *)header, time);
		break;
	}
	return LIBBPF_PERF_EVENT_CONT;
}

/**
 * spaces_read - read the records of mappings
 * @time:	up to when
 */
void spaces_read(__u64 time)
{
	if (time < read_until)
		return;
	read_until = now_ns();
	perf_buffer__consume(buffer);
}

/* After a loss of records, read the current mappings. Those that are gone stay unknown. */
void spaces_rescan(void)
{
	if (!lost_time)
		return;
	scan_all(true, lost_time);
	lost_time = 0;
}

/* How many records of mappings, forks and execs were lost. */
__u64 spaces_lost(void)
{
	return lost;
}

/**
 * spaces_open - start to receive records of mappings
 * @map_fd:	an array of perf events
 */
void spaces_open(int map_fd)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.mmap = 1,
		.mmap2 = 1,
		.build_id = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.watermark = 1,
		.wakeup_watermark = 4096,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};

	processes = map_of_numbers();
	touched = map_of_numbers();
	buffer = perf_buffer__new_raw(map_fd, BUFFER_PAGES, &attr, handle_record, NULL, NULL);
	if (!buffer)
		die(STATUS_FAILED, "cannot listen to mappings of processes; run as root");
}
