/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_CALLCHAIN_DEFERRED_INDEX_H
#define __PERF_CALLCHAIN_DEFERRED_INDEX_H

#include <stdbool.h>
#include <linux/types.h>

struct perf_sample;
union perf_event;

struct dc_index *dc_index__new(void *(*alloc)(size_t size));
size_t dc_index__bytes(const struct dc_index *index);
u64 dc_index__steps(const struct dc_index *index);
void dc_index__delete(struct dc_index *index);
int dc_index__add(struct dc_index *index, const union perf_event *event,
		  const struct perf_sample *sample, bool cut, bool copy);
const union perf_event *dc_index__find(struct dc_index *index, u64 cookie,
				       const struct perf_sample *sample, bool is_state,
				       bool *cut);
u64 dc_index__account_unused(struct dc_index *index);

/* Largest number of tasks with the same cookie. Data that is not crafted has one. */
#define DC_MAX_SAME_COOKIE	16

/* An unknown task matches any task. */
static inline bool dc_same_tid(u32 a, u32 b)
{
	return a == b || a == (u32)-1 || b == (u32)-1;
}

/* Result of dc_index__add(). */
#define DC_INDEX_NEW		0
#define DC_INDEX_DUPLICATE	1
#define DC_INDEX_FOREIGN	2

#endif /* __PERF_CALLCHAIN_DEFERRED_INDEX_H */
