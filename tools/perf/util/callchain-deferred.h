/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_CALLCHAIN_DEFERRED_H
#define __PERF_CALLCHAIN_DEFERRED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <linux/compiler.h>
#include <linux/types.h>
#include <perf/event.h>

#include "event.h"
#include "sample.h"

struct addr_location;
struct callchain_param;
struct evlist;
struct evsel;
struct machine;
struct record_opts;
struct perf_session;
struct thread;

/* Recording: callchain-deferred-record.c */

int parse_callchain_deferred(const char *arg, struct callchain_param *param);
char *cut_callchain_deferred(char *arg);
void evsel__config_callchain_lbr(struct evsel *evsel, const struct record_opts *opts);
void evsel__reset_callchain_lbr(struct evsel *evsel);
void evlist__config_callchain_deferred(struct evlist *evlist);
bool evlist__defers_callchains(struct evlist *evlist);
bool evlist__has_callchain_deferred(struct evlist *evlist);
u16 evlist__sample_max_stack(struct evlist *evlist, const struct perf_sample *sample);
bool evsel__defers_callchain(const struct evsel *evsel);
bool evlist__sample_has_call_stack(struct evlist *evlist, const struct perf_sample *sample);
unsigned int evlist__sample_needs(struct evlist *evlist, const struct perf_sample *sample);
u64 evlist__sample_regs_mask(struct evlist *evlist, const struct perf_sample *sample);
u64 evlist__user_state_mask(struct evlist *evlist, union perf_event *event);
void perf_event_attr__clear_deferred(struct perf_event_attr *attr);
void evlist__clear_callchain_deferred(struct evlist *evlist);

/* The format of samples and records. */

/*
 * Marks in a callchain, which stand for missing user frames or tell where others are
 * from. They lie right below PERF_CONTEXT_MAX, where no code can be. An older perf shows them as
 * one unknown address.
 */
#define CALLCHAIN_USER_LOST	(PERF_CONTEXT_MAX - 1ULL)
#define CALLCHAIN_USER_DEFERRED	(PERF_CONTEXT_MAX - 2ULL)
#define CALLCHAIN_USER_CUT	(PERF_CONTEXT_MAX - 3ULL)
/* The callers that follow are from the branch stack. */
#define CALLCHAIN_USER_BRANCHES	(PERF_CONTEXT_MAX - 4ULL)
#define CALLCHAIN_USER_LOWEST	CALLCHAIN_USER_BRANCHES

/* Is ips[@idx] the cookie that follows PERF_CONTEXT_USER_DEFERRED? */
static inline bool ip_callchain__is_cookie(const struct ip_callchain *chain, u64 idx)
{
	return idx > 0 && chain->ips[idx - 1] == PERF_CONTEXT_USER_DEFERRED;
}

/* Does the chain lack its user part? If so, its last entry is the cookie. */
static inline bool ip_callchain__is_deferred(const struct ip_callchain *chain)
{
	return chain && chain->nr >= 2 && ip_callchain__is_cookie(chain, chain->nr - 1);
}

/* Are the outermost frames missing? If so, the last entry is the mark. */
static inline bool ip_callchain__is_cut(const struct ip_callchain *chain)
{
	return chain->nr && chain->ips[chain->nr - 1] == CALLCHAIN_USER_CUT;
}

/* Is the entry a mark, and no frame? */
static inline bool ip_callchain__is_mark(u64 ip)
{
	return ip >= CALLCHAIN_USER_LOWEST && ip < PERF_CONTEXT_MAX;
}

/* The entry to resolve. A cookie is not an address, so it is shown as a mark. */
static inline u64 ip_callchain__ip(const struct ip_callchain *chain, u64 idx)
{
	return ip_callchain__is_cookie(chain, idx) ? CALLCHAIN_USER_DEFERRED : chain->ips[idx];
}

bool callchain_mark__find(struct thread *thread, u64 ip, struct addr_location *al);

int perf_event__check_callchain_deferred(const union perf_event *event, u16 id_hdr_size);
size_t perf_event__fprintf_callchain_deferred(const union perf_event *event, FILE *fp);
struct ip_callchain *perf_event__new_user_callchain(const union perf_event *event);
int perf_event__write_callchain(union perf_event *dst, const union perf_event *event,
				const struct ip_callchain *chain, struct perf_sample *sample);

/* Merging: callchain-deferred.c */

/**
 * struct callchain_deferred_stats - results of merging samples and records
 * @merged: samples that got user addresses
 * @empty: samples whose record gives no addresses
 * @lost: samples whose record is not in the data
 * @late: samples delivered without waiting any longer for their record
 * @failed: samples that could not be queued for lack of memory
 * @truncated: merged samples whose user addresses end before an invalid one
 * @cut: merged samples whose user addresses end at a depth limit
 * @joined: merged samples with callers from their branch stack
 * @records: all records
 * @foreign: records that no sample asked for
 * @duplicate: records that repeat another record
 */
struct callchain_deferred_stats {
	__u64 merged;
	__u64 empty;
	__u64 lost;
	__u64 late;
	__u64 failed;
	__u64 truncated;
	__u64 cut;
	__u64 joined;
	__u64 records;
	__u64 foreign;
	__u64 duplicate;
};

/* Parts that a sample may lack and a record may provide. */
#define CALLCHAIN_DEFERRED_CHAIN	1
#define CALLCHAIN_DEFERRED_STATE	2
#define CALLCHAIN_DEFERRED_BOTH		3

/**
 * struct callchain_deferred_ops - the owner's functions for queued events
 * @parse: parse an event again, because its copy has moved
 * @deliver: deliver an event; @sample is NULL for PERF_RECORD_USER_TYPE_START and up
 * @max_stack: the depth that the event of a sample or a record was recorded with, 0 if
 * it has none
 * @call_stack: the branch stack of a sample is one of calls; NULL if there are none
 * @needs: the records that a sample with a cookie lacks, CALLCHAIN_DEFERRED_*; NULL if
 * always the callchain
 * @regs_mask: the registers that a sample can have
 * @state_mask: the registers in a record of user state; NULL if there are no such records
 * @alloc: allocator, NULL for malloc(); tests let it fail
 */
struct callchain_deferred_ops {
	int (*parse)(void *data, union perf_event *event, struct perf_sample *sample);
	int (*deliver)(void *data, union perf_event *event, struct perf_sample *sample,
		       u64 file_offset, const char *file_path);
	u16 (*max_stack)(void *data, const struct perf_sample *sample);
	bool (*call_stack)(void *data, const struct perf_sample *sample);
	unsigned int (*needs)(void *data, const struct perf_sample *sample);
	u64 (*regs_mask)(void *data, const struct perf_sample *sample);
	u64 (*state_mask)(void *data, union perf_event *event);
	void *(*alloc)(size_t size);
};

/**
 * struct callchain_deferred_limits - limits of the queue and the table
 * @max_bytes: limit of queued events with their records, and the same limit again for
 * records without queued events; 0 if all records are known beforehand
 * @max_ns: how long a sample may wait, in event time; 0 for no limit
 */
struct callchain_deferred_limits {
	size_t max_bytes;
	u64 max_ns;
};

struct callchain_deferred;

struct callchain_deferred *
callchain_deferred__new(const struct callchain_deferred_ops *ops, void *data,
			const struct callchain_deferred_limits *limits);
void callchain_deferred__delete(struct callchain_deferred *cd);
int callchain_deferred__add(struct callchain_deferred *cd,
			    const struct perf_record_callchain_deferred *rec,
			    const struct perf_sample *sample, bool copy);
int callchain_deferred__add_state(struct callchain_deferred *cd, union perf_event *event,
				  const struct perf_sample *sample, bool copy);
int callchain_deferred__feed(struct callchain_deferred *cd, union perf_event *event,
			     struct perf_sample *sample, u64 file_offset, const char *file_path);
const struct ip_callchain *
callchain_deferred__unmerged(const struct callchain_deferred *cd,
			     const struct perf_sample *sample);
union perf_event *callchain_deferred__copy_event(struct callchain_deferred *cd,
						 const union perf_event *event);
int callchain_deferred__hold(struct callchain_deferred *cd, union perf_event *event);
int callchain_deferred__flush(struct callchain_deferred *cd);
const struct callchain_deferred_stats *
callchain_deferred__stats(const struct callchain_deferred *cd);
size_t callchain_deferred__held_bytes(const struct callchain_deferred *cd);
u64 callchain_deferred__steps(const struct callchain_deferred *cd);

/* Callers from branch stacks: callchain-deferred-branches.c */

u64 callchain_deferred__join_branches(struct perf_sample *sample, u64 *ips, u64 nr_ips, u64 max);

/* Sessions: callchain-deferred-session.c */

int perf_session__start_callchains(struct perf_session *session);
union perf_event *perf_session__event_to_parse(struct perf_session *session,
					       union perf_event *event);
bool perf_session__skips(const struct perf_session *session, const union perf_event *event);
int perf_session__feed_callchain(struct perf_session *session, union perf_event *event,
				 struct perf_sample *sample, u64 file_offset,
				 const char *file_path);
int perf_session__hold_event(struct perf_session *session, union perf_event *event);
int perf_session__flush_callchains(struct perf_session *session);
void perf_session__warn_callchains(const struct perf_session *session);
size_t callchain_deferred__scnprintf_late(const struct callchain_deferred *cd, char *bf,
					  size_t size);
size_t callchain_deferred__fprintf_stats(const struct callchain_deferred *cd, FILE *fp);

/* Where merged callchains end: callchain-deferred-ends.c */

struct callchain_ends;

struct callchain_ends *callchain_ends__new(void);
void callchain_ends__delete(struct callchain_ends *ends);
bool callchain_ends__is_start(const char *name);
int callchain_ends__count(struct callchain_ends *ends, struct machine *machine,
			  const struct perf_sample *sample);
size_t callchain_ends__fprintf(const struct callchain_ends *ends, FILE *fp);

#endif /* __PERF_CALLCHAIN_DEFERRED_H */
