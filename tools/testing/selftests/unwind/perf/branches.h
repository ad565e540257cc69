/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tasks that record their calls in the branch stack of perf_test, and the samples that show it;
 * and how often the kernel allocates and frees objects for that.
 */
#ifndef _UNWIND_BRANCHES_H
#define _UNWIND_BRANCHES_H

#include <stdbool.h>
#include <sys/types.h>

#include "perf_ring.h"

/* Calls of each task: perf_test keeps all of them, perf_test2 only the latest. */
#define DEPTH		12U
#define SMALL_DEPTH	8U
/* Samples that each task must get. */
#define ENOUGH		50U

/* A user without privileges. */
#define NOBODY		65534

/* Two tasks that take turns on one CPU; memory that all of them share. */
struct turns {
	int		cpu;
	int		branches;	/* the file */
	int		pipes[2][2];	/* each task reads its own */
	unsigned int	depth;		/* calls in a whole sample */
	volatile int	ready[2];
	volatile int	stop;
	volatile int	leave;		/* task 1 leaves task 0 */
	volatile pid_t	tid[2];
};

/* What the samples of one task hold. */
struct count {
	unsigned int	whole;	/* all calls that the PMU keeps, and nothing else */
	unsigned int	none;
	unsigned int	other;	/* some, or calls that are not its own */
};

/* Write a file of perf_test; false on failure. */
bool set_file(const char *name, const char *value);

/* Read a number from such a file, or -1. */
long get_file(const char *name);

/* An event with the branch stack of a PMU, perf_test or perf_test2. */
struct perf_event_attr branch_attr(const char *pmu);

/* The size of an object of the second PMU. */
#define OBJECT_SIZE	"/sys/kernel/slab/perf_test2/object_size"

/* Its objects that are freed. */
#define FREES		"kmem/kmem_cache_free"
#define OF_SECOND	"name==\"perf_test2\""

/*
 * Open an event for the tracepoint attr->config, which counts from its filter on. Sets the type,
 * the size and disabled. Returns the descriptor, or -1.
 */
int filtered_open(struct perf_event_attr *attr, int cpu, const char *filter);

/* Count a tracepoint on both CPUs; false on failure. */
bool count_open(int fd[2], const char *tracepoint, const char *filter);

/* How often it was hit, or -1. */
long counted(const int fd[2]);
void count_close(const int fd[2]);

/* Run on one CPU only, or exit. */
void run_on(int cpu);

/* Record @DEPTH calls of a task; false on failure. */
bool record_calls(int branches, unsigned int who);

/* Record calls, and then take turns until told to stop or to leave; in a new process. */
bool take_turns(struct turns *turns, unsigned int who);
pid_t start_turns(struct turns *turns, unsigned int who);

/* Before others take turns: drop what earlier tasks have left, which would start them too early. */
bool renew_turns(struct turns *turns);

/* Wait until a task is ready. */
bool is_ready(struct turns *turns, unsigned int who);

/* Wait until both tasks have recorded their calls, and drop the samples of before. */
bool both_ready(struct turns *turns, struct ring *ring);

/* Add a sample to @count if it is of task @who. */
void count_sample(const struct turns *turns, unsigned int who, const union record *record,
		  struct count *count);

/* Does a sample show calls of a task that is not its own? */
bool has_foreign(const struct turns *turns, const union record *record);
unsigned int all(const struct count *count);

/* Take samples until the first @nr tasks have enough, or for too long. */
void count_turns(struct turns *turns, struct ring *ring, union record *record,
		 struct count *count, int nr);

#define EXPECT_ALL_WHOLE(count, nr) do {					\
	for (int who_ = 0; who_ < (nr); who_++) {				\
		TH_LOG("task %d: %u whole, %u without, %u others", who_,	\
		       (count)[who_].whole, (count)[who_].none, (count)[who_].other); \
		EXPECT_LE(ENOUGH, (count)[who_].whole);				\
		EXPECT_EQ(0, (count)[who_].none);				\
		EXPECT_EQ(0, (count)[who_].other);				\
	}									\
} while (0)

#define EXPECT_EXIT(pid, wanted) do {						\
	int status_ = -1;							\
	EXPECT_EQ(pid, waitpid(pid, &status_, 0));				\
	EXPECT_EQ(wanted, status_);						\
} while (0)

/* Two processes that take turns get whole samples, and end. */
#define EXPECT_BOTH_WHOLE(self, pid) do {					\
	struct count both_[2];							\
										\
	count_turns((self)->turns, &(self)->ring, (self)->record, both_, 2);	\
	(self)->turns->stop = 1;						\
	EXPECT_ALL_WHOLE(both_, 2);						\
	EXPECT_EXIT((pid)[0], 0);						\
	EXPECT_EXIT((pid)[1], 0);						\
} while (0)

/* A fixture: shared memory, and the second PMU. The test itself runs on CPU 1. */
#define BRANCHES_FIXTURE {							\
	struct turns *turns;							\
	union record *record;							\
	struct ring ring;							\
	int percent;								\
}

#define BRANCHES_SETUP {							\
	const char *why_;							\
										\
	self->ring.fd = -1;							\
	self->record = malloc(sizeof(*self->record));				\
	self->turns = turns_init(&self->percent, &why_);			\
	if (!self->turns)							\
		SKIP(return, "%s", why_);					\
	/* A test that was killed may have left the kernel's own event. */	\
	ASSERT_TRUE(set_file("counter", "0"));					\
	ASSERT_TRUE(set_file("second", "1"));					\
}

#define BRANCHES_TEARDOWN {							\
	if (self->ring.fd >= 0)							\
		ring_close(&self->ring);					\
	/* If an object is left, the kernel warns. */				\
	EXPECT_TRUE(set_file("second", "0"));					\
	EXPECT_EQ(0, get_file("users"));					\
	turns_exit(self->turns, self->percent);					\
	free(self->record);							\
}

/* NULL, and why, if the test cannot run here. */
struct turns *turns_init(int *percent, const char **why);
void turns_exit(struct turns *turns, int percent);

#endif /* _UNWIND_BRANCHES_H */
