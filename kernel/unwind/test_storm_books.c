// SPDX-License-Identifier: GPL-2.0
/*
 * Books of requests to the unwinding core and of its callbacks. They show in the end
 * whether each callback came exactly once, with the cookie of its request, and whether
 * cookies name kernel entries.
 *
 * Contexts:
 *  - storm_request_all(): any, NMI on top of itself included;
 *  - storm_callback(): task context, as any callback of the core;
 *  - everything else: task context.
 *
 * The books rest on three facts:
 *  - A record belongs to one task, and only this task writes it. Only an interrupt or
 *    NMI on top of the task can interleave, so an xchg() finds each value once. A new
 *    task at the same address continues the record, because no cookie comes twice.
 *  - A request and its entry in the books are in one section with preemption
 *    disabled, and callbacks run after it. unwind_deferred_cancel() waits for such
 *    sections and for callbacks, so a tracer's generation does not change in either.
 *  - A tracer lives as long as the books.
 */
#include <linux/cleanup.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/hash.h>
#include <linux/minmax.h>
#include <linux/perf_event.h>
#include <linux/percpu.h>
#include <linux/pid.h>
#include <linux/preempt.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/task_work.h>
#include <linux/uaccess.h>
#include <linux/unwind_deferred.h>
#include <linux/vmalloc.h>

#include "test_storm_books.h"

/* Maximal number of tasks at different addresses. */
#define STORM_RECORD_BITS	13
#define STORM_RECORDS		BIT(STORM_RECORD_BITS)
/* Number of each CPU's latest cookies that are remembered. */
#define STORM_NAMES		BIT(17)
/* How long some callbacks sleep: a few RCU grace periods. */
#define STORM_SLEEP_US		20000
/* storm_record::entry of a burst whose cookie is not known yet. */
#define STORM_NAMELESS		1

/**
 * struct storm_account - one tracer's account with one task
 * @granted:	the cookie that was granted last
 * @called:	the cookie of the latest callback
 * @mm:		address space of the granted request
 * @granted_gen: generation of the tracer that was granted @granted
 * @called_gen:	likewise
 */
struct storm_account {
	u64			granted;
	u64			called;
	struct mm_struct	*mm;
	u32			granted_gen;
	u32			called_gen;
};

/**
 * struct storm_record - the books about one task
 * @task:	the key; never dereferenced, as the task may be gone
 * @last:	the latest cookie
 * @nmi:	the latest cookie that was granted in NMI
 * @entry:	the cookie of the current burst, STORM_NAMELESS, or 0
 * @prev:	the cookie of the previous burst
 * @user:	the latest cookie that was requested in user mode
 * @nested:	depth of requests that are nested on top of each other
 * @accounts:	the task's account with each tracer
 */
struct storm_record {
	struct task_struct	*task;
	u64			last;
	u64			nmi;
	u64			entry;
	u64			prev;
	u64			user;
	u32			nested;
	struct storm_account	accounts[UNWIND_STORM_TRACERS];
};

static void storm_error(struct storm_books *books, enum unwind_storm_error error,
			unsigned int tracer, enum unwind_storm_where where, u64 cookie, u64 other)
{
	unsigned int nr = atomic_inc_return(&books->nr_notes) - 1;

	this_cpu_inc(books->sums->errors[error]);
	if (nr < UNWIND_STORM_NOTES) {
		books->notes[nr] = (struct unwind_storm_note) {
			.error	= error,
			.tracer	= tracer,
			.where	= where,
			.tid	= task_pid_nr(current),
			.cookie	= cookie,
			.other	= other,
		};
	}
}

/* An NMI in between claims the same slot for the same task, or none. */
static struct storm_record *storm_record_of(struct storm_books *books)
{
	unsigned int i = hash_ptr(current, STORM_RECORD_BITS);

	for (unsigned int n = 0; n < STORM_RECORDS; n++, i = (i + 1) % STORM_RECORDS) {
		struct storm_record *rec = &books->records[i];
		struct task_struct *task = READ_ONCE(rec->task);

		if (!task)
			task = cmpxchg(&rec->task, NULL, current) ?: current;
		if (task == current)
			return rec;
	}
	return NULL;
}

/* The task has a new cookie: check that it was not used before. */
static void storm_new_name(struct storm_books *books, unsigned int tracer,
			   enum unwind_storm_where where, u64 cookie)
{
	u32 cpu = (u32)cookie - 1, cnt = cookie >> 32;
	u32 *name = &books->names[cpu * STORM_NAMES + cnt / 2 % STORM_NAMES];

	this_cpu_inc(books->sums->entries);
	if (where == UNWIND_STORM_NMI || where == UNWIND_STORM_HIT)
		this_cpu_inc(books->sums->nmi_named);
	if (xchg(name, cnt) == cnt)
		storm_error(books, UNWIND_STORM_REUSED, tracer, where, cookie, 0);
}

/* Is @cookie the cookie of the current kernel entry? */
static bool storm_check_name(struct storm_books *books, struct storm_record *rec,
			     unsigned int tracer, enum unwind_storm_where where, u64 cookie)
{
	u64 entry = READ_ONCE(rec->entry);

	if ((u32)cookie - 1 >= nr_cpu_ids || !(cookie >> 32 & 1)) {
		storm_error(books, UNWIND_STORM_COOKIE, tracer, where, cookie, 0);
		return false;
	}

	if (entry == STORM_NAMELESS) {
		entry = cmpxchg(&rec->entry, STORM_NAMELESS, cookie);
		if (entry == STORM_NAMELESS && cookie == rec->prev)
			storm_error(books, UNWIND_STORM_STALE, tracer, where, cookie, 0);
	}
	if (entry > STORM_NAMELESS && entry != cookie)
		storm_error(books, UNWIND_STORM_SPLIT, tracer, where, cookie, entry);

	if (xchg(&rec->last, cookie) != cookie)
		storm_new_name(books, tracer, where, cookie);
	return true;
}

static bool storm_balanced(const struct storm_account *acc)
{
	return READ_ONCE(acc->granted) == READ_ONCE(acc->called) &&
	       READ_ONCE(acc->granted_gen) == READ_ONCE(acc->called_gen);
}

static void storm_grant(struct storm_books *books, struct storm_record *rec, unsigned int tracer,
			enum unwind_storm_where where, u64 cookie)
{
	struct storm_account *acc = &rec->accounts[tracer];
	/*
	 * A tracer that is live now was not being cancelled before, so its requests of
	 * earlier entries were due. Pairs with storm_register(): a tracer that is live
	 * again has another generation.
	 */
	bool live = smp_load_acquire(&books->tracers[tracer].live);
	u32 gen = READ_ONCE(books->tracers[tracer].gen);
	bool balanced = storm_balanced(acc);
	u64 last = xchg(&acc->granted, cookie);
	u32 last_gen = xchg(&acc->granted_gen, gen);

	WRITE_ONCE(acc->mm, current->mm);
	this_cpu_inc(books->sums->granted[tracer]);
	if (where == UNWIND_STORM_NMI || where == UNWIND_STORM_HIT) {
		if (xchg(&rec->nmi, cookie) != cookie)
			this_cpu_inc(books->sums->nmi_entries);
	}

	if (last_gen == gen && last == cookie)
		storm_error(books, UNWIND_STORM_TWICE, tracer, where, cookie, 0);
	else if (!balanced && last_gen == gen && live)
		storm_error(books, UNWIND_STORM_LOST, tracer, where, last, cookie);
	else if (!balanced)
		this_cpu_inc(books->sums->dropped);
}

static enum unwind_storm_result storm_result(int ret)
{
	switch (ret) {
	case 0:
		return UNWIND_STORM_GRANTED;
	case 1:
		return UNWIND_STORM_COMING;
	case -EINVAL:
		return UNWIND_STORM_EINVAL;
	case -ESRCH:
		return UNWIND_STORM_ESRCH;
	case -ESTALE:
		return UNWIND_STORM_ESTALE;
	case -EAGAIN:
		return UNWIND_STORM_EAGAIN;
	default:
		return UNWIND_STORM_NR_RESULTS;
	}
}

/* Check the answer to one request; @live: the tracer was registered all the time. */
static void storm_judge(struct storm_books *books, struct storm_record *rec, unsigned int tracer,
			enum unwind_storm_where where, bool live, int ret, u64 cookie)
{
	struct storm_account *acc = &rec->accounts[tracer];
	enum unwind_storm_result result = storm_result(ret);

	if (result == UNWIND_STORM_NR_RESULTS) {
		storm_error(books, UNWIND_STORM_RESULT, tracer, where, cookie, ret);
		return;
	}
	this_cpu_inc(books->sums->results[where][result]);

	if (ret < 0) {
		if (cookie)
			storm_error(books, UNWIND_STORM_COOKIE, tracer, where, cookie, ret);
		/* In a system call, the core has no reason to refuse. */
		if (live && (READ_ONCE(rec->entry) || where == UNWIND_STORM_SYSCALL))
			storm_error(books, UNWIND_STORM_REFUSED, tracer, where, 0, ret);
		return;
	}

	if (!storm_check_name(books, rec, tracer, where, cookie))
		return;
	if (!ret)
		storm_grant(books, rec, tracer, where, cookie);
	/* The request below this one may be granted, but not in the books yet. */
	else if (rec->nested == 1 &&
		 (READ_ONCE(acc->granted) != cookie ||
		  READ_ONCE(acc->granted_gen) != READ_ONCE(books->tracers[tracer].gen)))
		storm_error(books, UNWIND_STORM_PROMISE, tracer, where, cookie, acc->granted);
}

static void storm_request(struct storm_books *books, unsigned int tracer,
			  enum unwind_storm_where where, struct pt_regs *regs)
{
	struct storm_tracer *st = &books->tracers[tracer];
	struct storm_record *rec;
	bool live;
	u64 cookie;
	int ret;

	guard(preempt_notrace)();

	rec = storm_record_of(books);
	if (!rec) {
		storm_error(books, UNWIND_STORM_NO_ROOM, tracer, where, 0, 0);
		return;
	}

	rec->nested++;
	barrier();
	live = READ_ONCE(st->live);
	/* Use both request functions. */
	if (regs && tracer & 1)
		ret = unwind_deferred_request_regs(&st->work, perf_user_regs(regs), &cookie);
	else
		ret = unwind_deferred_request(&st->work, &cookie);
	live = live && READ_ONCE(st->live);
	storm_judge(books, rec, tracer, where, live, ret, cookie);
	if (ret >= 0 && regs && user_mode(regs))
		WRITE_ONCE(rec->user, cookie);
	barrier();
	rec->nested--;
}

/**
 * storm_request_all - make requests
 * @books:	the books to enter them in
 * @tracers:	set of tracers that make the requests
 * @count:	number of requests of each tracer
 * @where:	the current context
 * @regs:	registers of the NMI, or NULL
 *
 * Context: any.
 */
void storm_request_all(struct storm_books *books, unsigned long tracers, unsigned int count,
		       enum unwind_storm_where where, struct pt_regs *regs)
{
	unsigned int tracer;

	for (unsigned int i = 0; i < count; i++) {
		for_each_set_bit(tracer, &tracers, UNWIND_STORM_TRACERS)
			storm_request(books, tracer, where, regs);
	}
}

static void storm_callback(struct unwind_work *work, struct unwind_stacktrace *trace, u64 cookie)
{
	struct storm_tracer *st = container_of(work, struct storm_tracer, work);
	enum unwind_storm_where where = UNWIND_STORM_CALLBACK;
	struct storm_books *books = st->books;
	unsigned int tracer = st - books->tracers;
	struct storm_record *rec = storm_record_of(books);
	/* Cancel waits for this callback. */
	u32 gen = READ_ONCE(st->gen);
	struct storm_account *acc;

	this_cpu_inc(books->sums->called[tracer]);
	if (!(gen & 1))
		storm_error(books, UNWIND_STORM_CANCELLED, tracer, where, cookie, gen);
	if (!rec) {
		storm_error(books, UNWIND_STORM_NO_ROOM, tracer, where, cookie, 0);
		return;
	}
	if (!storm_check_name(books, rec, tracer, where, cookie))
		return;

	acc = &rec->accounts[tracer];
	if (acc->granted != cookie || acc->granted_gen != gen)
		storm_error(books, UNWIND_STORM_UNASKED, tracer, where, cookie, acc->granted);
	else if (acc->called == cookie && acc->called_gen == gen)
		storm_error(books, UNWIND_STORM_CALLED_TWICE, tracer, where, cookie, 0);
	else if (acc->mm != current->mm)
		storm_error(books, UNWIND_STORM_OTHER_MM, tracer, where, cookie, !current->mm);

	WRITE_ONCE(acc->called, cookie);
	WRITE_ONCE(acc->called_gen, gen);

	/* Sometimes, request for itself and for tracers with past or future callbacks. */
	if (!(cookie >> 33 & 15))
		storm_request_all(books, BIT(tracer) | (cookie >> 37 & 0xff), 1, where, NULL);
	/* Sometimes, sleep for longer than a cancel takes that does not wait. */
	if ((cookie >> 33 & 0xfff) == tracer)
		fsleep(STORM_SLEEP_US);
	if (READ_ONCE(st->gen) != gen)
		storm_error(books, UNWIND_STORM_CANCELLED, tracer, where, cookie, gen);
}

/**
 * storm_begin_syscall - check for late callbacks at the start of a system call
 * @books:	the books, in which no request from user mode may be open
 */
void storm_begin_syscall(struct storm_books *books)
{
	struct storm_record *rec;
	u64 cookie;

	guard(preempt_notrace)();

	rec = storm_record_of(books);
	if (!rec)
		return;
	cookie = xchg(&rec->user, 0);
	if (!cookie)
		return;
	for (unsigned int t = 0; t < UNWIND_STORM_TRACERS; t++) {
		const struct storm_account *acc = &rec->accounts[t];
		const struct storm_tracer *st = &books->tracers[t];

		if (storm_balanced(acc))
			continue;
		/*
		 * Pairs with storm_register(): a tracer that was cancelled and is live again
		 * has another generation. Check the cookie last: an NMI may have granted the
		 * next one meanwhile.
		 */
		if (smp_load_acquire(&st->live) &&
		    READ_ONCE(acc->granted_gen) == READ_ONCE(st->gen) &&
		    READ_ONCE(acc->granted) == cookie)
			storm_error(books, UNWIND_STORM_LATE, t, UNWIND_STORM_SYSCALL, cookie,
				    test_thread_flag(TIF_NOTIFY_RESUME) |
				    task_work_pending(current) << 1);
	}
}

/**
 * storm_begin_burst - start the requests of one kernel entry
 * @books:	the books to enter them in
 *
 * Return: 0, or -ENOSPC if there is no record for current.
 */
int storm_begin_burst(struct storm_books *books)
{
	struct storm_record *rec = storm_record_of(books);

	if (!rec)
		return -ENOSPC;
	WRITE_ONCE(rec->entry, STORM_NAMELESS);
	return 0;
}

/**
 * storm_end_burst - end the requests of one kernel entry
 * @books:	the books; storm_begin_burst() succeeded
 */
void storm_end_burst(struct storm_books *books)
{
	struct storm_record *rec = storm_record_of(books);
	u64 entry = xchg(&rec->entry, 0);

	if (entry != STORM_NAMELESS)
		rec->prev = entry;
}

/**
 * storm_register - register a tracer
 * @books:	the books that own it
 * @tracer:	the tracer
 *
 * Return: 0, -EINVAL if it is registered already, or as unwind_deferred_init().
 */
int storm_register(struct storm_books *books, unsigned long tracer)
{
	struct storm_tracer *st;
	int ret;

	if (tracer >= UNWIND_STORM_TRACERS)
		return -EINVAL;
	st = &books->tracers[tracer];

	guard(mutex)(&books->lock);

	if (st->live)
		return -EINVAL;
	WRITE_ONCE(st->gen, st->gen + 1);
	ret = unwind_deferred_init(&st->work, storm_callback);
	if (ret)
		WRITE_ONCE(st->gen, st->gen + 1);
	else
		/* Pairs with storm_begin_syscall() and storm_grant(). */
		smp_store_release(&st->live, true);
	return ret;
}

/**
 * storm_cancel - cancel a tracer
 * @books:	the books that own it
 * @tracer:	the tracer
 *
 * Return: 0, or -EINVAL if it is not registered.
 */
int storm_cancel(struct storm_books *books, unsigned long tracer)
{
	struct storm_tracer *st;

	if (tracer >= UNWIND_STORM_TRACERS)
		return -EINVAL;
	st = &books->tracers[tracer];

	guard(mutex)(&books->lock);

	if (!st->live)
		return -EINVAL;
	WRITE_ONCE(st->live, false);
	unwind_deferred_cancel(&st->work);
	WRITE_ONCE(st->gen, st->gen + 1);
	return 0;
}

static void storm_sum(struct storm_books *books, struct unwind_storm_counts *counts)
{
	const size_t nr = sizeof(counts->sums) / sizeof(u64);
	u64 *sums = (u64 *)&counts->sums;
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		const u64 *from = (const u64 *)per_cpu_ptr(books->sums, cpu);

		for (size_t i = 0; i < nr; i++)
			sums[i] += READ_ONCE(from[i]);
	}
}

/* Count callbacks that did not come, or not yet while other tasks are still active. */
static void storm_settle(struct storm_books *books, struct unwind_storm_counts *counts)
{
	guard(mutex)(&books->lock);

	for (unsigned int i = 0; i < STORM_RECORDS; i++) {
		struct storm_record *rec = &books->records[i];

		if (!READ_ONCE(rec->task))
			continue;
		counts->records++;
		for (unsigned int t = 0; t < UNWIND_STORM_TRACERS; t++) {
			const struct storm_account *acc = &rec->accounts[t];

			if (storm_balanced(acc))
				continue;
			if (READ_ONCE(acc->granted_gen) == books->tracers[t].gen)
				counts->owing++;
			else
				counts->left++;
		}
	}
}

/**
 * storm_books_read - copy the counters to userspace
 * @books:	the books
 * @ucounts:	destination in userspace
 *
 * Return: 0, -ENOMEM or -EFAULT.
 */
int storm_books_read(struct storm_books *books, struct unwind_storm_counts __user *ucounts)
{
	struct unwind_storm_counts *counts __free(kfree) = kzalloc(sizeof(*counts), GFP_KERNEL);

	if (!counts)
		return -ENOMEM;

	storm_sum(books, counts);
	storm_settle(books, counts);
	counts->nr_notes = min(atomic_read(&books->nr_notes), UNWIND_STORM_NOTES);
	memcpy(counts->notes, books->notes, sizeof(counts->notes));
	return copy_to_user(ucounts, counts, sizeof(*counts)) ? -EFAULT : 0;
}

/**
 * storm_books_close - cancel all tracers and free the books
 * @books:	the books; no more requests are made
 */
void storm_books_close(struct storm_books *books)
{
	for (unsigned int i = 0; i < UNWIND_STORM_TRACERS; i++)
		unwind_deferred_cancel(&books->tracers[i].work);
	free_percpu(books->sums);
	vfree(books->records);
	vfree(books->names);
}

/**
 * storm_books_open - initialize empty books
 * @books:	zeroed memory
 *
 * Return: 0, or -ENOMEM.
 */
int storm_books_open(struct storm_books *books)
{
	mutex_init(&books->lock);
	for (unsigned int i = 0; i < UNWIND_STORM_TRACERS; i++)
		books->tracers[i].books = books;

	books->sums = alloc_percpu(struct unwind_storm_sums);
	books->records = vzalloc(array_size(STORM_RECORDS, sizeof(*books->records)));
	books->names = vzalloc(array3_size(nr_cpu_ids, STORM_NAMES, sizeof(*books->names)));
	if (books->sums && books->records && books->names)
		return 0;

	storm_books_close(books);
	return -ENOMEM;
}
