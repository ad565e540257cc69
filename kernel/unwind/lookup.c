// SPDX-License-Identifier: GPL-2.0
/*
 * Find the SFrame table of a mapping: that of its file, of a section registered for the
 * file, or of the vDSO.
 *
 * Contexts: unwind_object_get() runs in task context and may sleep; with @may_load false
 * it does not sleep. A worker makes walks ask again once a second.
 *
 * Invariant: a reference has the epoch that was read before its object was found. So it is
 * stale if the object was dropped meanwhile.
 */
#include <linux/atomic.h>
#include <linux/cleanup.h>
#include <linux/errno.h>
#include <linux/init.h>
#include <linux/math.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sysctl.h>
#include <linux/unwind_user.h>
#include <linux/workqueue.h>

#include "object.h"
#include "side.h"

/* How many registrations for a file are tried until one has a table. */
#define UNWIND_OBJECT_SIDES	4

/* A walk asked since the last tick. */
static bool unwind_objects_asked;

static void unwind_objects_tick(struct work_struct *work);
static DECLARE_DELAYED_WORK(unwind_objects_work, unwind_objects_tick);

/*
 * Runs once a second while tasks are walked: it makes walks check their files again, which
 * may have been written to. Otherwise once a minute, until the last object is dropped.
 */
static void unwind_objects_tick(struct work_struct *work)
{
	/* Ordered before the tick, see unwind_object_ticks(). */
	bool asked = xchg(&unwind_objects_asked, false);

	if (asked)
		atomic_inc(&unwind_objects_ticks);
	unwind_objects_drop(UNWIND_OBJECT_UNUSED);
	unwind_room_tick();
	if (asked || unwind_objects_any())
		schedule_delayed_work(&unwind_objects_work,
				      asked ? UNWIND_OBJECT_RECHECK : UNWIND_OBJECT_UNUSED);
}

/**
 * unwind_objects_ask - have a tick within a second
 *
 * The first one that asks since the last tick brings the next tick forward.
 *
 * Context: task context.
 */
void unwind_objects_ask(void)
{
	/* Pairs with unwind_objects_tick(). If several tasks ask at once, one is enough. */
	if (READ_ONCE(unwind_objects_asked))
		return;
	WRITE_ONCE(unwind_objects_asked, true);
	mod_delayed_work(system_wq, &unwind_objects_work, UNWIND_OBJECT_RECHECK);
}

/*
 * Get the offset from addresses in the file's headers to those of the mapping. If two
 * segments share the mapped page, take the one whose size is that of the mapping.
 */
static bool unwind_object_bias(const struct unwind_object *object,
			       const struct unwind_object_place *place, unsigned long *bias)
{
	u64 size = place->end - place->start;
	bool found = false;

	for (unsigned int i = 0; i < object->elf.nr_segments; i++) {
		const struct unwind_elf_segment *segment = &object->elf.segments[i];
		u64 first = round_down(segment->offset, PAGE_SIZE);
		u64 end = round_up(segment->end, PAGE_SIZE);

		if (place->offset < first || place->offset >= end)
			continue;
		if (found && (place->offset != first || size != end - first))
			continue;
		*bias = place->start - (place->offset - segment->offset + segment->addr);
		found = true;
	}
	return found;
}

static void unwind_object_refer(const struct unwind_object *mapped,
				struct unwind_object *told,
				const struct unwind_object_place *place,
				struct unwind_object_ref *ref)
{
	if (told->table && unwind_object_bias(mapped, place, &ref->bias))
		ref->object = told;
}

/*
 * Find the first section registered for a file that has a table, and set @side to its
 * registration. Returns 0, even if none has a table, or the error of unwind_object_known()
 * for @side.
 */
static int unwind_object_look_aside(const struct unwind_object *mapped, bool may_load,
				    struct unwind_object **told, struct unwind_side **side)
{
	for (unsigned int nth = 0; nth < UNWIND_OBJECT_SIDES; nth++) {
		int ret;

		unwind_side_put(*side);
		*side = unwind_side_get(&mapped->elf.build_id, nth);
		ret = *side ? unwind_object_known(unwind_side_source(*side), may_load, told) : 0;
		if (ret || !*side)
			return ret;
		unwind_side_note(*side, (*told)->table ? 0 : (*told)->error);
		if ((*told)->table)
			return 0;
	}
	return 0;
}

/*
 * Find the table of a file, or of a section registered for it, and set @side to that
 * registration. Returns as unwind_object_known() does, for the registration if @side is set.
 * With @may_load, -ENOENT may also mean that a load failed for another user or cgroup only.
 */
static int unwind_object_look(const struct unwind_object_source *source,
			      const struct unwind_object_place *place, bool may_load,
			      struct unwind_object_ref *ref, struct unwind_side **side)
{
	struct unwind_object *mapped, *told;
	int ret;

	*ref = (struct unwind_object_ref) {};
	/* Otherwise an error for the file itself would be taken as one for the last @side. */
	unwind_side_put(no_free_ptr(*side));
	/* Pairs with unwind_object_forget(): objects found below were not dropped before. */
	ref->epoch = atomic_long_read_acquire(&unwind_objects_epoch);

	guard(rcu)();
	ret = unwind_object_known(source, may_load, &mapped);
	if (ret)
		return ret;
	told = mapped;
	if (!mapped->table)
		ret = unwind_object_look_aside(mapped, may_load, &told, side);
	if (!ret)
		unwind_object_refer(mapped, told, place, ref);
	return ret;
}

/**
 * unwind_object_get - find the table for a mapping of a file
 * @file:	the file
 * @place:	the mapping
 * @may_load:	read the file if it is not cached, and sections registered for it; may
 *		sleep then
 * @ref:	set; empty if the file has no table
 *
 * Context: task context; if @may_load, no locks held that a file system may take.
 * Return: 0; -EAGAIN if the answer is not known yet, -ETIMEDOUT if a wait for it timed out.
 */
int unwind_object_get(struct file *file, const struct unwind_object_place *place,
		      bool may_load, struct unwind_object_ref *ref)
{
	const struct unwind_object_source own = { .file = file };
	struct unwind_side *side __free(unwind_side) = NULL;
	int ret;

	*ref = (struct unwind_object_ref) {};
	/* No partner: see unwind_sframe_sysctl(). */
	if (!READ_ONCE(unwind_sframe_enabled) || !unwind_object_can_be(file))
		return 0;

	unwind_objects_ask();
	ret = unwind_object_look(&own, place, may_load, ref, &side);
	/*
	 * With @side set, the file has no table, and the registered section is not cached.
	 * Retry, because the task that current waited for may have failed for its own reasons.
	 */
	for (int i = 0; may_load && i < 2 + UNWIND_OBJECT_SIDES; i++) {
		if (ret != -ENOENT && ret != -EINPROGRESS)
			break;
		ret = unwind_object_fetch(side ? unwind_side_source(side) : &own, place, ret) ?:
		      unwind_object_look(&own, place, may_load, ref, &side);
		if (fatal_signal_pending(current))
			break;
	}
	switch (ret) {
	case -ENOENT:
	case -EINPROGRESS:
		return -EAGAIN;
	case 0:
	case -EAGAIN:
		return ret;
	}
	if (side)
		unwind_side_note(side, ret);
	/* After other errors the next walks would fail, too: no table until the next tick. */
	return ret == -ETIMEDOUT ? ret : 0;
}

/**
 * unwind_object_get_vdso - find the table of the vDSO
 * @place:	where it is mapped
 * @ref:	set if there is a table
 *
 * Context: any.
 * Return: true if @ref is set.
 */
bool unwind_object_get_vdso(const struct unwind_object_place *place,
			    struct unwind_object_ref *ref)
{
	*ref = (struct unwind_object_ref) {
		.epoch = atomic_long_read(&unwind_objects_epoch),
	};
	/* No partner: see unwind_sframe_sysctl(). */
	if (READ_ONCE(unwind_sframe_enabled))
		unwind_object_refer(&unwind_vdso, &unwind_vdso, place, ref);
	return ref->object;
}

/**
 * unwind_object_hit - count frames that were found in a table
 * @ref:	set by unwind_object_get()
 * @hits:	number of frames
 *
 * Context: any.
 */
void unwind_object_hit(const struct unwind_object_ref *ref, unsigned long hits)
{
	struct unwind_object *object;

	guard(rcu)();
	object = unwind_object_of(ref);
	if (object)
		atomic_long_add(hits, &object->hits);
}

/* Turning it off makes later lookups find no table, and frees the memory of all objects. */
static int unwind_sframe_sysctl(const struct ctl_table *ctl, int write, void *buffer,
				size_t *len, loff_t *pos)
{
	int ret = proc_dobool(ctl, write, buffer, len, pos);

	if (!ret && write) {
		atomic_inc(&unwind_objects_ticks);
		/* Pairs with unwind_object_read(). */
		smp_mb();
		if (!READ_ONCE(unwind_sframe_enabled))
			unwind_objects_drop(0);
	}
	return ret;
}

static struct ctl_table unwind_sysctls[] = {
	{
		.procname	= "unwind_user_sframe",
		.data		= &unwind_sframe_enabled,
		.maxlen		= sizeof(unwind_sframe_enabled),
		.mode		= 0644,
		.proc_handler	= unwind_sframe_sysctl,
	},
};

static void __init unwind_vdso_init(void)
{
	struct unwind_elf_source source = {};

	unwind_vdso.path = "[vdso]";
	unwind_vdso.error = -ENODATA;
	if (arch_unwind_user_vdso_image(&source.bytes, &source.size))
		unwind_vdso.error = unwind_object_load(&unwind_vdso, &source);
}

static int __init unwind_lookup_init(void)
{
	int ret = unwind_fetch_init() ?: unwind_side_init() ?: unwind_objects_init();

	if (ret)
		return ret;
	unwind_vdso_init();
	register_sysctl("kernel", unwind_sysctls);
	/* No partner: walks work without tables, and one more of these does no harm. */
	WRITE_ONCE(unwind_sframe_enabled, true);
	return 0;
}
late_initcall_sync(unwind_lookup_init);
