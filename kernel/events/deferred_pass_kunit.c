// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the passes that write records to many events.
 *
 * The events here are fakes, because a pass knows events by their ids alone.
 */
#include <kunit/test.h>
#include <linux/percpu.h>

#include "deferred_pass.h"

#define MAX_EVENTS	64
/* A pass holds two records of this size, but not three. */
#define THIRD		(U16_MAX / 3 + 1)

/**
 * struct event - an event that side-band delivery reaches
 * @id:		its number, from 1 on
 * @size:	size of its record
 * @gone:	the event is closed or disabled
 * @full:	its buffer has no room
 * @marked:	its buffer is marked as having the record
 * @written:	how often it got the record
 */
struct event {
	u64		id;
	unsigned int	size;
	bool		gone;
	bool		full;
	bool		marked;
	unsigned int	written;
};

/**
 * struct delivery - delivery of one record
 * @first:	the first pass
 * @events:	the events that get it
 * @nr:		number of events
 * @passes:	number of passes so far
 * @after:	simulates what other tasks do after a pass, or NULL
 */
struct delivery {
	struct perf_deferred_pass first;
	struct event	events[MAX_EVENTS];
	unsigned int	nr;
	unsigned int	passes;
	void		(*after)(struct delivery *d, const struct perf_deferred_pass *pass);
};

static struct event *next_one(struct delivery *d, const struct perf_deferred_pass *pass)
{
	return &d->events[pass->from - 1];
}

static void output(struct perf_deferred_pass *pass, struct event *event)
{
	if (event->gone || !perf_deferred_turn(pass, event->id) || event->marked ||
	    !perf_deferred_take(pass, event->id, event->size))
		return;
	if (event->full) {
		perf_deferred_give_back(pass, event->size);
		return;
	}
	event->marked = true;
	event->written++;
}

static void deliver(struct kunit *test, struct delivery *d)
{
	struct perf_deferred_pass pass = d->first;

	do {
		KUNIT_ASSERT_LE(test, ++d->passes, 2 * MAX_EVENTS + PERF_DEFERRED_ANEW);
		for (unsigned int i = 0; i < d->nr; i++)
			output(&pass, &d->events[i]);
		if (d->after)
			d->after(d, &pass);
	} while (perf_deferred_more(&pass));
}

static struct delivery *new_delivery(struct kunit *test, unsigned int nr, unsigned int size)
{
	struct delivery *d = kunit_kzalloc(test, sizeof(*d), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, d);
	d->first = PERF_DEFERRED_PASS;
	d->nr = nr;
	for (unsigned int i = 0; i < nr; i++) {
		d->events[i].id = i + 1;
		d->events[i].size = size;
	}
	return d;
}

static void expect_written(struct kunit *test, const struct delivery *d, unsigned int times)
{
	for (unsigned int i = 0; i < d->nr; i++)
		KUNIT_EXPECT_EQ(test, d->events[i].written, d->events[i].gone ? 0 : times);
}

static unsigned long buffers_missed(void)
{
	unsigned long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu(unwind_stats[UNWIND_STAT_BUFFERS_MISSED], cpu));
	return sum;
}

static void nobody_test(struct kunit *test)
{
	struct delivery *d = new_delivery(test, 0, 0);

	deliver(test, d);
	KUNIT_EXPECT_EQ(test, d->passes, 1);
}

static void as_many_as_fit_test(struct kunit *test)
{
	struct delivery *d = new_delivery(test, MAX_EVENTS, U16_MAX / MAX_EVENTS);

	d->events[0].size = U16_MAX - (MAX_EVENTS - 1) * d->events[1].size;
	deliver(test, d);
	KUNIT_EXPECT_EQ(test, d->passes, 1);
	expect_written(test, d, 1);
}

static void one_byte_more_test(struct kunit *test)
{
	struct delivery *d = new_delivery(test, MAX_EVENTS, U16_MAX / MAX_EVENTS);

	d->events[0].size = U16_MAX - (MAX_EVENTS - 1) * d->events[1].size + 1;
	deliver(test, d);
	KUNIT_EXPECT_EQ(test, d->passes, 2);
	expect_written(test, d, 1);
}

static void longest_test(struct kunit *test)
{
	struct delivery *d = new_delivery(test, MAX_EVENTS, U16_MAX);

	deliver(test, d);
	KUNIT_EXPECT_EQ(test, d->passes, MAX_EVENTS);
	expect_written(test, d, 1);
}

/* A short record waits its turn after a long one that does not fit. */
static void in_order_test(struct kunit *test)
{
	struct delivery *d = new_delivery(test, 3, THIRD);

	d->events[1].size = U16_MAX;
	deliver(test, d);
	KUNIT_EXPECT_EQ(test, d->passes, 3);
	expect_written(test, d, 1);
}

/* One interrupt writes no more short records than fit in SZ_8K. */
static void short_in_interrupts_test(struct kunit *test)
{
	struct delivery *d = new_delivery(test, 12, SZ_8K / 4 + 1);

	d->first = PERF_DEFERRED_IRQ_PASS;
	deliver(test, d);
	KUNIT_EXPECT_EQ(test, d->passes, 4);
	expect_written(test, d, 1);
}

/* A record that is longer than SZ_8K gets an interrupt of its own. */
static void long_in_interrupts_test(struct kunit *test)
{
	struct delivery *d = new_delivery(test, 5, SZ_1K);

	d->first = PERF_DEFERRED_IRQ_PASS;
	d->events[1].size = U16_MAX;
	d->events[2].size = SZ_8K + 1;
	deliver(test, d);
	KUNIT_EXPECT_EQ(test, d->passes, 4);
	expect_written(test, d, 1);
}

/* Records for which buffers have no room do not add passes, whatever their length. */
static void no_room_test(struct kunit *test)
{
	struct delivery *d = new_delivery(test, MAX_EVENTS, U16_MAX);

	for (unsigned int i = 0; i < d->nr - 1; i++)
		d->events[i].full = true;
	deliver(test, d);
	KUNIT_EXPECT_EQ(test, d->passes, 1);
	KUNIT_EXPECT_EQ(test, d->events[d->nr - 1].written, 1);

	d->events[d->nr - 1].marked = false;
	d->passes = 0;
	d->first = PERF_DEFERRED_IRQ_PASS;
	deliver(test, d);
	KUNIT_EXPECT_EQ(test, d->passes, 1);
	KUNIT_EXPECT_EQ(test, d->events[d->nr - 1].written, 2);
}

/* Another task's record overwrites the marks. */
static void overwrite(struct delivery *d, const struct perf_deferred_pass *pass)
{
	for (unsigned int i = 0; i < d->nr; i++)
		d->events[i].marked = false;
}

static void others_in_between_test(struct kunit *test)
{
	struct delivery *d = new_delivery(test, MAX_EVENTS, THIRD);

	d->after = overwrite;
	deliver(test, d);
	KUNIT_EXPECT_EQ(test, d->passes, MAX_EVENTS / 2);
	expect_written(test, d, 1);
}

static void close_next(struct delivery *d, const struct perf_deferred_pass *pass)
{
	if (pass->more && d->passes <= PERF_DEFERRED_ANEW)
		next_one(d, pass)->gone = true;
}

/* The other events still get the record, and only once. */
static void next_is_closed_test(struct kunit *test)
{
	struct delivery *d = new_delivery(test, MAX_EVENTS, THIRD);
	unsigned long missed = buffers_missed();

	d->after = close_next;
	deliver(test, d);
	expect_written(test, d, 1);
	KUNIT_EXPECT_TRUE(test, d->events[2].gone);
	KUNIT_EXPECT_EQ(test, buffers_missed(), missed);
}

static void close_last(struct delivery *d, const struct perf_deferred_pass *pass)
{
	d->events[d->nr - 1].gone = true;
}

static void last_is_closed_test(struct kunit *test)
{
	struct delivery *d = new_delivery(test, 3, THIRD);
	unsigned long missed = buffers_missed();

	d->after = close_last;
	deliver(test, d);
	expect_written(test, d, 1);
	KUNIT_EXPECT_EQ(test, buffers_missed(), missed);
}

/* An event is enabled again once its turn is over, and the marks are overwritten. */
static void blink(struct delivery *d, const struct perf_deferred_pass *pass)
{
	overwrite(d, pass);
	for (unsigned int i = 0; i < d->nr; i++)
		d->events[i].gone = false;
	if (pass->more)
		next_one(d, pass)->gone = true;
}

static void endless_test(struct kunit *test)
{
	struct delivery *d = new_delivery(test, 3, THIRD);
	unsigned long missed = buffers_missed();

	d->after = blink;
	deliver(test, d);
	/* Each restart finds the event at which it was to continue gone. */
	KUNIT_EXPECT_LE(test, d->passes, 2 * PERF_DEFERRED_ANEW + 2);
	KUNIT_EXPECT_EQ(test, buffers_missed(), missed + 1);
}

static struct kunit_case perf_deferred_pass_cases[] = {
	KUNIT_CASE(nobody_test),
	KUNIT_CASE(as_many_as_fit_test),
	KUNIT_CASE(one_byte_more_test),
	KUNIT_CASE(longest_test),
	KUNIT_CASE(in_order_test),
	KUNIT_CASE(short_in_interrupts_test),
	KUNIT_CASE(long_in_interrupts_test),
	KUNIT_CASE(no_room_test),
	KUNIT_CASE(others_in_between_test),
	KUNIT_CASE(next_is_closed_test),
	KUNIT_CASE(last_is_closed_test),
	KUNIT_CASE(endless_test),
	{}
};

static struct kunit_suite perf_deferred_pass_suite = {
	.name		= "perf_deferred_pass",
	.test_cases	= perf_deferred_pass_cases,
};

kunit_test_suite(perf_deferred_pass_suite);
