/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The branch stack of the PMUs for tests, see test_branches.c.
 */
#ifndef _X86_EVENTS_TEST_BRANCHES_H
#define _X86_EVENTS_TEST_BRANCHES_H

#include <linux/types.h>

struct perf_event;
struct perf_event_pmu_context;
struct perf_sample_data;
struct pmu;
struct task_struct;

#ifdef CONFIG_PERF_TEST_BRANCHES

int test_branches_event_init(struct perf_event *event);
void test_branches_add(struct perf_event *event);
void test_branches_del(struct perf_event *event);
void test_branches_sched_task(struct perf_event_pmu_context *pmu_ctx,
			      struct task_struct *task, bool sched_in);
void test_branches_sample(struct perf_event *event, struct perf_sample_data *data);
int test_branches_init(struct pmu *pmu);
void test_branches_exit(struct pmu *pmu);

#else

/* A kernel without data of tasks has the PMU, too, to be compared. */
#define test_branches_sched_task	NULL

static inline int test_branches_event_init(struct perf_event *event) { return 0; }
static inline void test_branches_add(struct perf_event *event) {}
static inline void test_branches_del(struct perf_event *event) {}
static inline void test_branches_sample(struct perf_event *event, struct perf_sample_data *data) {}
static inline int test_branches_init(struct pmu *pmu) { return 0; }
static inline void test_branches_exit(struct pmu *pmu) {}

#endif

#endif /* _X86_EVENTS_TEST_BRANCHES_H */
