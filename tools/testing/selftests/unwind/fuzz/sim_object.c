// SPDX-License-Identifier: GPL-2.0
/*
 * The simulated kernel/unwind/object.c: files of mappings, and objects that have their
 * tables.
 *
 * An object is dropped where the input says so, at an event of a walk: a read, a lock, a
 * look at the epoch. It is freed at the end of the current RCU read-side section: the
 * address sanitizer catches later uses, and the file gets another object. As in sim.c,
 * each function checks that the walker may call it at this point.
 */
#include "fuzz.h"

#include <kernel/unwind/object.h>

struct file {
	unsigned int	area;
};

atomic_long_t unwind_objects_epoch = { 1 };
atomic_t unwind_objects_ticks;
struct file_table file_tables[AREAS];

static struct file files[AREAS];
/* Objects of files, or NULL if they are not known; and objects that wait for RCU. */
static struct unwind_object *objects[AREAS];
static struct unwind_object *dropped[MAX_DROPS];
static unsigned int nr_dropped;
static unsigned int nr_files;
/* A file took too long to read; the known files were forgotten. */
static bool waited;
static bool forgotten;

/* The object of the vDSO always exists. */
static bool is_vdso(unsigned int area)
{
	return process.mapped[area].kind == TABLE_VDSO;
}

/* The file of a mapping, or NULL. */
struct file *sim_file(unsigned int area)
{
	enum table_kind kind = process.mapped[area].kind;

	if (kind == TABLE_NO_FILE || kind == TABLE_VDSO || kind == TABLE_VDSO_32)
		return NULL;
	files[area].area = area;
	return &files[area];
}

struct file *sim_get_file(struct file *file)
{
	sim_no_window("get_file");
	sim_rule(sim_holds(SIM_MMAP) || sim_holds(SIM_VMA), "the file of an unlocked mapping");
	nr_files++;
	return file;
}

void sim_put_file(struct file *file)
{
	sim_no_window("fput");
	sim_rule(nr_files--, "a file is put that nobody has");
}

/* A copy of the table, with its rows after it. */
static struct unwind_object *new_object(unsigned int area)
{
	const struct sframe_table *master = file_tables[area].table;
	struct unwind_object *object = calloc(1, sizeof(*object));

	object->state = UNWIND_OBJECT_READY;
	if (master) {
		object->table = malloc(sframe_table_size(master));
		memcpy(object->table, master, sizeof(*master));
		memcpy(object->table->funcs, master->funcs,
		       master->nr_funcs * sizeof(*master->funcs));
		object->table->rows = (u8 *)&object->table->funcs[master->nr_funcs];
		memcpy(object->table->rows, master->rows, master->rows_size);
	}
	return object;
}

static void free_object(struct unwind_object *object)
{
	if (object)
		free(object->table);
	free(object);
}

static void drop(unsigned int area)
{
	if (objects[area] && !is_vdso(area) && nr_dropped < MAX_DROPS) {
		dropped[nr_dropped++] = objects[area];
		objects[area] = NULL;
	}
	unwind_objects_epoch.counter++;
}

/* Drop the objects that are due, and free those that RCU does not protect any more. */
void sim_event(void)
{
	unsigned int event = sim_counts()->events++;

	for (int i = 0; i < process.nr_drops; i++) {
		if (process.drops[i].event == event)
			drop(process.drops[i].area);
	}
	while (nr_dropped && !sim_in_rcu())
		free_object(dropped[--nr_dropped]);
}

long sim_epoch(const long *epoch)
{
	long val;

	sim_no_window("a look at the epoch");
	sim_event();
	val = *epoch;
	sim_event();
	return val;
}

/* Drop the object of a file that is not mapped: all objects are looked up again. */
void sim_objects_drop_other(void)
{
	unwind_objects_epoch.counter++;
}

/* Files were written to: all known files are looked up again. */
void sim_objects_forget(void)
{
	sim_objects_free();
	unwind_objects_epoch.counter++;
	unwind_objects_ticks.counter++;
	forgotten = true;
}

void sim_objects_free(void)
{
	for (int i = 0; i < AREAS; i++) {
		free_object(objects[i]);
		objects[i] = NULL;
	}
	forgotten = false;
}

/* Before a walk. */
void sim_objects_begin(void)
{
	waited = false;
	for (int i = 0; i < AREAS; i++) {
		enum table_kind kind = process.mapped[i].kind;

		if (!objects[i] && (is_vdso(i) || (kind == TABLE_READ && !forgotten)))
			objects[i] = new_object(i);
	}
}

/* After a walk. */
void sim_objects_end(void)
{
	sim_rule(!nr_files, "%u files are held after a walk", nr_files);
}

static void check_place(unsigned int nr, const struct unwind_object_place *place)
{
	const struct area *area = &process.areas[nr];

	sim_rule(place->start == area->base && place->end == area->base + area->pages * PAGE_SIZE,
		 "a mapping of %#lx to %#lx", place->start, place->end);
	/* The vDSO is mapped from its start, whatever pgoff says. */
	sim_rule(place->offset == (is_vdso(nr) ? 0 : (u64)process.mapped[nr].pgoff * PAGE_SIZE),
		 "a mapping from %#llx on", place->offset);
}

/* Like unwind_object_refer(): refer from a mapping to its object. */
static void refer(unsigned int area, const struct unwind_object_place *place,
		  struct unwind_object_ref *ref)
{
	if (!objects[area]->table)
		return;
	ref->object = objects[area];
	ref->bias = place->start - process.mapped[area].addr;
	if (process.replaced & BIT(area))
		ref->bias += process.shift;
}

int unwind_object_get(struct file *file, const struct unwind_object_place *place,
		      bool may_load, struct unwind_object_ref *ref)
{
	enum table_kind kind = process.mapped[file->area].kind;

	sim_no_window("a look for an object");
	sim_rule(nr_files, "a look for the object of a file that nobody has");
	sim_rule(!sim_in_rcu(), "a look for an object in an RCU section");
	sim_rule(!may_load || sim_may_wait(), "a file is read where nothing may wait");
	sim_rule(!may_load || !waited, "a file is read after another took too long");
	check_place(file->area, place);
	sim_counts()->gets++;

	*ref = (struct unwind_object_ref) {};
	sim_event();
	ref->epoch = unwind_objects_epoch.counter;
	if (kind == TABLE_NONE)
		return 0;
	if (!objects[file->area] && !may_load)
		return -EAGAIN;
	if (!objects[file->area] && kind == TABLE_AGAIN) {
		waited = true;
		return -ETIMEDOUT;
	}
	if (!objects[file->area])
		objects[file->area] = new_object(file->area);
	refer(file->area, place, ref);
	sim_event();
	return 0;
}

/* The input says when there is a tick. */
void unwind_objects_ask(void)
{
}

bool unwind_object_get_vdso(const struct unwind_object_place *place,
			    struct unwind_object_ref *ref)
{
	const struct area *area = sim_area(place->start);

	sim_no_window("a look for an object");
	sim_rule(area, "a vDSO at %#lx", place->start);
	check_place(area - process.areas, place);
	sim_counts()->gets++;

	*ref = (struct unwind_object_ref) { .epoch = unwind_objects_epoch.counter };
	if (objects[area - process.areas])
		refer(area - process.areas, place, ref);
	return ref->object;
}

void unwind_object_hit(const struct unwind_object_ref *ref, unsigned long hits)
{
	sim_no_window("unwind_object_hit");
	sim_rule(hits, "no use of an object is counted");
	guard(rcu)();
	if (!unwind_object_of(ref))
		return;
	for (int i = 0; i < AREAS; i++)
		sim_counts()->hits[i] += objects[i] == ref->object ? hits : 0;
}
