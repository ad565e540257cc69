/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Declarations for the user space files of stackprof.
 */
#ifndef __PROF_H
#define __PROF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <linux/perf_event.h>
#include <linux/types.h>

#include "stackprof.h"

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))
#define BUILD_ID_SIZE		20
#define NSEC_PER_SEC		1000000000ULL

struct hashmap;

/* util.c: each error ends the program with one sentence. */
enum { STATUS_FAILED = 1, STATUS_USAGE = 2 };

void __attribute__((noreturn, format(printf, 2, 3))) die(int status, const char *format, ...);
void __attribute__((format(printf, 1, 2))) say(const char *format, ...);
void *xalloc(size_t size);
void *xgrow(void *array, size_t nr, size_t *room, size_t size);
char *xstrdup(const char *text);
char *__attribute__((format(printf, 1, 2))) xprintf(const char *format, ...);
struct hashmap *map_new(size_t (*hash)(long key, void *ctx),
			bool (*equal)(long key1, long key2, void *ctx));
struct hashmap *map_of_numbers(void);
struct hashmap *map_of_strings(void);
size_t hash_bytes(const void *data, size_t size);
__u64 now_ns(void);
bool parse_number(const char *text, __u64 *number);

/**
 * struct event - an event to sample
 * @name:	as the user wrote it
 * @attr:	for perf_event_open()
 * @category:	category of a tracepoint, else NULL
 * @tracepoint:	its name in @category
 * @has_period:	@attr has a frequency or a period from the event's own terms
 */
struct event {
	const char		*name;
	struct perf_event_attr	attr;
	char			*category;
	char			*tracepoint;
	bool			has_period;
};

/* events.c and pmu.c */
void event_parse(struct event *event, const char *name);
void event_parse_pmu(struct event *event, const char *pmu, char *terms);
int event_open(const struct event *event, int cpu);
bool event_is_time(const struct event *event);

/**
 * struct space - an address space: a process from one exec to the next, while none of its
 *		  mappings is replaced
 * @tgid:	the process
 * @exec_id:	counts its execs
 * @start:	start of the process
 * @changes:	how many mappings replaced others before
 * @first:	when it was first seen, as CLOCK_MONOTONIC
 * @last:	when it was last seen
 */
struct space {
	__u32	tgid;
	__u32	exec_id;
	__u64	start;
	__u64	changes;
	__u64	first;
	__u64	last;
};

/**
 * struct stack - addresses, innermost first
 * @nr:		entries in @ips
 * @cut:		the stack may be longer: @nr is the maximum
 * @ips:	the addresses
 *
 * Each sequence of addresses has one struct stack.
 */
struct stack {
	__u32	nr;
	bool	cut;
	__u64	ips[];
};

/**
 * enum user_state - what became of a user stack
 * @USER_NONE:		a kernel thread has none
 * @USER_MATCHED:	it was delivered
 * @USER_EMPTY:		it was delivered, but is empty
 * @USER_REFUSED:	the kernel refused the request
 * @USER_UNMATCHED:	no delivery was seen
 */
enum user_state {
	USER_NONE,
	USER_MATCHED,
	USER_EMPTY,
	USER_REFUSED,
	USER_UNMATCHED,
	NR_USER_STATES,
};

/**
 * struct group - samples that have all of this in common
 * @kernel:	their kernel stack, may be NULL
 * @user:	their user stack, NULL unless USER_MATCHED
 * @space:	address space of @user
 * @state:	of @user
 * @lost_kernel: the kernel stack was lost
 * @comm:	name of the thread
 * @count:	how many samples
 * @weight:	how many events or ns the samples stand for
 */
struct group {
	const struct stack	*kernel;
	const struct stack	*user;
	struct space		*space;
	enum user_state		state;
	bool			lost_kernel;
	char			comm[STACKPROF_COMM_LEN];
	__u64			count;
	__u64			weight;
};

/**
 * struct merge_stats - results for the samples that user space saw
 * @state:	by enum user_state
 * @cut:		samples with a stack that may be longer
 * @lost_kernel: samples whose kernel stack is lost
 */
struct merge_stats {
	__u64	state[NR_USER_STATES];
	__u64	cut;
	__u64	lost_kernel;
};

/* merge.c */
void merge_init(int stacks_fd, __u32 depth);
int merge_record(void *ctx, void *data, size_t size);
void merge_sample(const struct record *rec);
void merge_touch(void);
size_t merge_pending(void);
void merge_end(void);
const struct merge_stats *merge_stats(void);
struct hashmap *merge_groups(void);

struct dso;

/**
 * struct mapping - a file in an address space
 * @start:	first address
 * @end:	first address after it
 * @offset:	offset of @start in the file
 * @time:	when it was made, 0 if it was there before
 * @dso:	the file
 */
struct mapping {
	__u64		start;
	__u64		end;
	__u64		offset;
	__u64		time;
	struct dso	*dso;
};

/* spaces.c */
void spaces_open(int map_fd);
void spaces_read(__u64 time);
void spaces_rescan(void);
__u64 spaces_changes(__u32 tgid, __u64 time);
void spaces_scan(void);
void spaces_scan_process(__u32 tgid);
void spaces_touch(const struct space *space, const struct stack *stack);
const struct mapping *spaces_find(const struct space *space, __u64 addr);
__u64 spaces_lost(void);

/**
 * struct segment - a mapped part of a file
 * @dso:	the file
 * @offset:	offset of the part in the file
 * @start:	start of the first mapping of it that was seen
 * @end:	@start plus the size of its largest mapping
 * @id:		for the writer of the output, 0 at first
 */
struct segment {
	struct dso	*dso;
	__u64		offset;
	__u64		start;
	__u64		end;
	__u64		id;
};

/**
 * struct frame - a place in a file or in the kernel
 * @name:	name of the function, or [module+0xoff] if it has none
 * @known:	@name is the name of a function
 * @kernel:	it is in the kernel
 * @segment:	its segment, NULL in the kernel and where no file is known
 * @addr:	its address in the first mapping of @segment that was seen
 * @id:		for the writer of the output, 0 at first
 */
struct frame {
	char		*name;
	bool		known;
	bool		kernel;
	struct segment	*segment;
	__u64		addr;
	__u64		id;
};

/* dso.c: files, and the symbols in them */
struct dso *dso_get(const char *name, const void *build_id, size_t build_id_size, __u64 ino);
void dso_open(struct dso *dso, __u32 tgid, const struct mapping *mapping);
const char *dso_name(const struct dso *dso);
bool dso_is_file(const struct dso *dso);
bool dso_is_same(const struct dso *a, const struct dso *b);
size_t dso_build_id(struct dso *dso, const unsigned char **build_id);
char *dso_symbol(struct dso *dso, __u64 offset, __u64 *addr);
__u64 dso_changed(void);

/* symbols.c */
void symbols_init(void);
struct frame *symbols_user(const struct space *space, __u64 ip, bool caller);
struct frame *symbols_kernel(__u64 ip, bool caller);
__u64 symbols_kernel_start(void);
size_t symbols_kernel_build_id(const unsigned char **build_id);
bool symbols_hidden(void);

/**
 * struct profile - description of a report
 * @event:	the sampled event; NULL for --off-cpu
 * @begin:	start time, as CLOCK_REALTIME
 * @duration:	in ns
 * @top:	number of stacks in the plain report
 */
struct profile {
	const struct event	*event;
	__u64			begin;
	__u64			duration;
	__u64			top;
};

/* frames.c */
struct frames {
	struct frame	**frame;
	size_t		nr;
	size_t		room;
};

void frames_of(const struct group *group, bool off_cpu, struct frames *frames);

/* report.c */
void report_plain(struct profile *profile, FILE *out);
void report_folded(struct profile *profile, FILE *out);

/**
 * struct settings - options of the user
 * @event:	event to sample
 * @off_cpu:	no event: sample the time for which threads are blocked
 * @only_targets: profile some processes only
 * @verbose:	show the messages of libbpf
 * @depth:	maximum number of addresses of a stack
 * @stacks:	maximum number of different stacks in the map
 * @tasks:	maximum number of followed processes, and of blocked threads
 * @ring_size:	in bytes
 */
struct settings {
	struct event	event;
	bool		off_cpu;
	bool		only_targets;
	bool		verbose;
	__u64		depth;
	__u64		stacks;
	__u64		tasks;
	__u64		ring_size;
};

/**
 * struct losses - how much is missing, and of how much
 * @samples:	samples that were due
 * @lost_samples: samples that user space never saw
 * @lost_user:	user stacks that user space never saw
 * @lost_stacks: stacks for which neither the map nor the ring had room
 * @lost_children: processes that were not followed
 */
struct losses {
	__u64	samples;
	__u64	lost_samples;
	__u64	lost_user;
	__u64	lost_stacks;
	__u64	lost_children;
};

/* session.c */
void session_load(const struct settings *settings);
void session_target(__u32 tgid);
void session_start(void);
void session_poll(void);
void session_stop(void);
void session_losses(struct losses *losses);

/* command.c */
void command_prepare(char **argv);
__u32 command_pid(void);
void command_run(void);
bool command_ended(void);
void command_stop(void);
void command_wait(void);

/* pprof.c */
void pprof_write(const struct profile *profile, const char *path);

#endif /* __PROF_H */
