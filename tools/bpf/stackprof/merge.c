// SPDX-License-Identifier: GPL-2.0
/*
 * Joins samples and user stacks.
 *
 * A thread is in one kernel entry at a time, and its records are in order. So each thread has
 * one state, for the kernel entry of its latest record:
 *
 *   samples before the delivery wait for it;
 *   the delivery gives its stack to these samples, and to later ones of the entry;
 *   a record with another cookie ends the entry: samples that still wait are unmatched.
 *
 * Invariant: a sample gets the stack that was delivered with its cookie, or none.
 */
#include <stdlib.h>
#include <string.h>
#include <bpf/bpf.h>
#include <bpf/hashmap.h>

#include "prof.h"

/**
 * struct thread - the latest kernel entry of a thread
 * @cookie:	its cookie, 0 before the first entry
 * @delivered:	its delivery was seen
 * @user:	the delivered stack, NULL if that was empty or lost
 * @state:	of samples after the delivery
 * @waiting:	samples that wait for the delivery
 * @nr:		entries in @waiting
 * @room:	allocated entries of @waiting
 */
struct thread {
	__u64			cookie;
	bool			delivered;
	const struct stack	*user;
	enum user_state		state;
	struct group		*waiting;
	size_t			nr;
	size_t			room;
};

static struct {
	int			stacks_fd;
	__u32			depth;
	__u64			*ips;
	struct hashmap		*stacks;	/* Without duplicates */
	struct hashmap		*by_id;		/* By number in the map of stacks */
	struct hashmap		*sent;		/* By name, until it is used */
	struct hashmap		*spaces;
	struct hashmap		*threads;
	struct hashmap		*groups;
	struct group		**fresh;	/* Files not opened yet */
	size_t			nr_fresh;
	size_t			room_fresh;
	size_t			waiting;
	struct merge_stats	stats;
} merge;

/* Stacks */

static size_t stack_hash(long key, void *ctx)
{
	const struct stack *stack = (const struct stack *)key;

	return hash_bytes(stack->ips, stack->nr * sizeof(stack->ips[0]));
}

static bool stack_equal(long key1, long key2, void *ctx)
{
	const struct stack *a = (const struct stack *)key1, *b = (const struct stack *)key2;

	return a->nr == b->nr && !memcmp(a->ips, b->ips, a->nr * sizeof(a->ips[0]));
}

static const struct stack *intern_stack(const __u64 *ips, __u32 nr)
{
	struct stack *stack = xalloc(sizeof(*stack) + nr * sizeof(*ips)), *old;

	stack->nr = nr;
	stack->cut = nr >= merge.depth;
	memcpy(stack->ips, ips, nr * sizeof(*ips));
	if (hashmap__find(merge.stacks, stack, &old)) {
		free(stack);
		return old;
	}
	if (hashmap__add(merge.stacks, stack, stack))
		die(STATUS_FAILED, "out of memory");
	return stack;
}

/* The map never changes a stack once stored. */
static const struct stack *stack_by_id(__u64 id)
{
	const struct stack *stack;
	__u32 key = id, nr = 0;

	if (hashmap__find(merge.by_id, id, &stack))
		return stack;
	if (bpf_map_lookup_elem(merge.stacks_fd, &key, merge.ips))
		return NULL;

	while (nr < merge.depth && merge.ips[nr])
		nr++;
	stack = intern_stack(merge.ips, nr);
	if (hashmap__add(merge.by_id, id, stack))
		die(STATUS_FAILED, "out of memory");
	return stack;
}

static const struct stack *stack_by_name(__u64 name)
{
	const struct stack *stack;

	if (name < STACK_SENT)
		return stack_by_id(name - 1);
	return hashmap__delete(merge.sent, name, NULL, &stack) ? stack : NULL;
}

static void handle_stack(const struct record_stack *rec)
{
	if (hashmap__add(merge.sent, rec->stack, intern_stack(rec->ips, rec->nr)))
		die(STATUS_FAILED, "out of memory");
}

/* Address spaces */

static size_t space_hash(long key, void *ctx)
{
	return hash_bytes((const void *)key, offsetof(struct space, first));
}

static bool space_equal(long key1, long key2, void *ctx)
{
	return !memcmp((const void *)key1, (const void *)key2, offsetof(struct space, first));
}

static struct space *space_of(const struct record *rec)
{
	struct space key = {
		.tgid = rec->tgid,
		.exec_id = rec->exec_id,
		.start = rec->start,
		.first = rec->time,
		.last = rec->time,
	}, *space;

	spaces_read(rec->time);
	key.changes = spaces_changes(rec->tgid, rec->time);
	if (!hashmap__find(merge.spaces, &key, &space)) {
		space = xalloc(sizeof(*space));
		*space = key;
		if (hashmap__add(merge.spaces, space, space))
			die(STATUS_FAILED, "out of memory");
	}
	if (rec->time > space->last)
		space->last = rec->time;
	return space;
}

/* Groups */

static size_t group_hash(long key, void *ctx)
{
	return hash_bytes((const void *)key, offsetof(struct group, count));
}

static bool group_equal(long key1, long key2, void *ctx)
{
	return !memcmp((const void *)key1, (const void *)key2, offsetof(struct group, count));
}

static void add_group(const struct group *add)
{
	struct group *group;

	merge.stats.state[add->state] += add->count;
	if ((add->user && add->user->cut) || (add->kernel && add->kernel->cut))
		merge.stats.cut += add->count;
	if (add->lost_kernel)
		merge.stats.lost_kernel += add->count;

	if (hashmap__find(merge.groups, add, &group)) {
		group->count += add->count;
		group->weight += add->weight;
		return;
	}

	group = xalloc(sizeof(*group));
	memcpy(group, add, sizeof(*group));
	if (hashmap__add(merge.groups, group, group))
		die(STATUS_FAILED, "out of memory");
	if (!group->user)
		return;
	merge.fresh = xgrow(merge.fresh, merge.nr_fresh, &merge.room_fresh,
			    sizeof(*merge.fresh));
	merge.fresh[merge.nr_fresh++] = group;
}

/* Threads */

static void flush_thread(struct thread *thread, enum user_state state)
{
	for (size_t i = 0; i < thread->nr; i++) {
		struct group *group = &thread->waiting[i];

		group->state = state;
		group->user = state == USER_MATCHED ? thread->user : NULL;
		add_group(group);
		merge.waiting -= group->count;
	}
	thread->nr = 0;
}

static struct thread *thread_in_entry(__u32 tid, __u64 cookie)
{
	struct thread *thread;

	if (!hashmap__find(merge.threads, tid, &thread)) {
		thread = xalloc(sizeof(*thread));
		if (hashmap__add(merge.threads, tid, thread))
			die(STATUS_FAILED, "out of memory");
	}
	if (thread->cookie != cookie) {
		flush_thread(thread, USER_UNMATCHED);
		thread->cookie = cookie;
		thread->delivered = false;
		thread->user = NULL;
	}
	return thread;
}

static void wait_for_user(struct thread *thread, const struct group *group)
{
	struct group *last = thread->nr ? &thread->waiting[thread->nr - 1] : NULL;

	merge.waiting += group->count;
	if (last && group_equal((long)last, (long)group, NULL)) {
		last->count += group->count;
		last->weight += group->weight;
		return;
	}
	thread->waiting = xgrow(thread->waiting, thread->nr, &thread->room,
				sizeof(*thread->waiting));
	memcpy(&thread->waiting[thread->nr++], group, sizeof(*group));
}

/**
 * merge_sample - take a sample
 * @rec:	the sample
 */
void merge_sample(const struct record *rec)
{
	struct thread *thread;
	struct group group;

	/* Padding takes part in comparisons and hashes of groups. */
	memset(&group, 0, sizeof(group));
	group.space = space_of(rec);
	group.count = 1;
	group.weight = rec->weight;
	memcpy(group.comm, rec->comm, strnlen(rec->comm, sizeof(rec->comm)));
	if (rec->stack) {
		group.kernel = stack_by_name(rec->stack);
		group.lost_kernel = !group.kernel;
	}

	if (rec->status) {
		group.state = rec->status == STATUS_KTHREAD ? USER_NONE : USER_REFUSED;
		add_group(&group);
		return;
	}
	thread = thread_in_entry(rec->tid, rec->cookie);
	if (!thread->delivered) {
		wait_for_user(thread, &group);
		return;
	}
	group.state = thread->state;
	group.user = thread->user;
	add_group(&group);
}

static void handle_user(const struct record *rec)
{
	struct thread *thread = thread_in_entry(rec->tid, rec->cookie);

	space_of(rec);
	thread->delivered = true;
	thread->user = rec->stack ? stack_by_name(rec->stack) : NULL;
	if (thread->user)
		thread->state = USER_MATCHED;
	else
		thread->state = rec->stack ? USER_UNMATCHED : USER_EMPTY;
	flush_thread(thread, thread->state);
}

/**
 * merge_record - take a record from the ring
 * @ctx:	not used
 * @data:	the record
 * @size:	its size
 *
 * Return: 0
 */
int merge_record(void *ctx, void *data, size_t size)
{
	const struct record *rec = data;

	switch (rec->type) {
	case RECORD_SAMPLE:
		merge_sample(rec);
		break;
	case RECORD_USER:
		handle_user(rec);
		break;
	case RECORD_STACK:
		handle_stack(data);
		break;
	}
	return 0;
}

/* Open the files of new user stacks while their processes still exist. */
void merge_touch(void)
{
	for (size_t i = 0; i < merge.nr_fresh; i++)
		spaces_touch(merge.fresh[i]->space, merge.fresh[i]->user);
	merge.nr_fresh = 0;
}

/* How many samples wait for their user stack. */
size_t merge_pending(void)
{
	return merge.waiting;
}

/* Call this after the last record. */
void merge_end(void)
{
	struct hashmap_entry *entry;
	size_t bucket;

	hashmap__for_each_entry(merge.threads, entry, bucket)
		flush_thread(entry->pvalue, USER_UNMATCHED);
}

const struct merge_stats *merge_stats(void)
{
	return &merge.stats;
}

struct hashmap *merge_groups(void)
{
	return merge.groups;
}

/**
 * merge_init - prepare for the first record
 * @stacks_fd:	file descriptor of the map of stacks
 * @depth:	addresses per stack in the map
 */
void merge_init(int stacks_fd, __u32 depth)
{
	merge.stacks_fd = stacks_fd;
	merge.depth = depth;
	merge.ips = xalloc(depth * sizeof(*merge.ips));
	merge.stacks = map_new(stack_hash, stack_equal);
	merge.by_id = map_of_numbers();
	merge.sent = map_of_numbers();
	merge.spaces = map_new(space_hash, space_equal);
	merge.threads = map_of_numbers();
	merge.groups = map_new(group_hash, group_equal);
}
