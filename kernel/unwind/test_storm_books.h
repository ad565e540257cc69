/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The books of a storm: interface of test_storm_books.c for test_storm.c.
 */
#ifndef _KERNEL_UNWIND_TEST_STORM_BOOKS_H
#define _KERNEL_UNWIND_TEST_STORM_BOOKS_H

#include <linux/atomic.h>
#include <linux/mutex.h>
#include <linux/types.h>
#include <linux/unwind_deferred_types.h>

#include "test_storm.h"

struct pt_regs;
struct storm_books;
struct storm_record;

/**
 * struct storm_tracer - a tracer
 * @work:	the core's part
 * @books:	the owner
 * @gen:	odd while the tracer may be called; grows by one before it is
 *		registered and after it is cancelled
 * @live:	set after it is registered, cleared before it is cancelled
 */
struct storm_tracer {
	struct unwind_work	work;
	struct storm_books	*books;
	u32			gen;
	bool			live;
};

/**
 * struct storm_books - tracers, their requests and their callbacks
 * @tracers:	the tracers
 * @sums:	counters
 * @records:	hash table with open addressing, see storm_record_of()
 * @names:	the latest cookies of each CPU, by counter
 * @nr_notes:	number of errors so far
 * @notes:	the first errors
 * @lock:	serializes registering and cancelling
 */
struct storm_books {
	struct storm_tracer			tracers[UNWIND_STORM_TRACERS];
	struct unwind_storm_sums __percpu	*sums;
	struct storm_record			*records;
	u32					*names;
	atomic_t				nr_notes;
	struct unwind_storm_note		notes[UNWIND_STORM_NOTES];
	/* Protects registering and cancelling. */
	struct mutex				lock;
};

int storm_books_open(struct storm_books *books);
void storm_books_close(struct storm_books *books);
int storm_books_read(struct storm_books *books, struct unwind_storm_counts __user *ucounts);

int storm_register(struct storm_books *books, unsigned long tracer);
int storm_cancel(struct storm_books *books, unsigned long tracer);

void storm_request_all(struct storm_books *books, unsigned long tracers, unsigned int count,
		       enum unwind_storm_where where, struct pt_regs *regs);

void storm_begin_syscall(struct storm_books *books);
int storm_begin_burst(struct storm_books *books);
void storm_end_burst(struct storm_books *books);

#endif /* _KERNEL_UNWIND_TEST_STORM_BOOKS_H */
