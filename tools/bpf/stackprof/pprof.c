// SPDX-License-Identifier: GPL-2.0
/*
 * Profiles for pprof and the servers that read its format: a compressed message of
 * profile.proto.
 *
 * Each mapped part of a file has one mapping, at the address where it was seen first; addresses
 * of other processes are moved there.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <bpf/hashmap.h>

#include "prof.h"
#include "profile.pb-c.h"

/* Output that grows with each group. */
struct writer {
	Pprof__Profile		profile;
	size_t		room_samples;
	size_t		room_mappings;
	size_t		room_locations;
	size_t		room_functions;
	size_t		room_string;
	struct hashmap	*strings;
	struct hashmap	*functions;
	Pprof__Mapping		*kernel;
};

/* Append a new message to a repeated field of the profile. */
#define NEW(w, field, type, init) ({						\
	struct writer *__w = (w);						\
	type *__new = xalloc(sizeof(*__new));					\
	init(__new);								\
	__w->profile.field = xgrow(__w->profile.field, __w->profile.n_##field,	\
				   &__w->room_##field, sizeof(__new));		\
	__w->profile.field[__w->profile.n_##field++] = __new;			\
	__new;									\
})

/* Size in bytes of the character at @text, 0 if it is not UTF-8. */
static size_t utf8_size(const char *text)
{
	static const __u32 least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *bytes = (const unsigned char *)text;
	size_t size = 0;
	__u32 code;

	if (bytes[0] < 0x80)
		return 1;
	while (bytes[0] & 0x80 >> size)
		size++;
	if (size < 2 || size > 4)
		return 0;
	code = bytes[0] & 0x7f >> size;
	for (size_t i = 1; i < size; i++) {
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (bytes[i] & 0x3f);
	}
	if (code < least[size] || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff)
		return 0;
	return size;
}

/* The format requires UTF-8, but names of threads, files and functions may be any bytes. */
static char *to_utf8(const char *text)
{
	static const char replacement[] = "\357\277\275";	/* U+FFFD */
	char *copy = xalloc(3 * strlen(text) + 1), *to = copy;

	while (*text) {
		const size_t size = utf8_size(text);

		to = mempcpy(to, size ? text : replacement, size ?: 3);
		text += size ?: 1;
	}
	return copy;
}

static __s64 string_id(struct writer *writer, const char *text)
{
	Pprof__Profile *profile = &writer->profile;
	char *copy = to_utf8(text);
	long id;

	if (hashmap__find(writer->strings, copy, &id)) {
		free(copy);
		return id;
	}
	id = profile->n_string_table;
	profile->string_table = xgrow(profile->string_table, id, &writer->room_string,
				      sizeof(*profile->string_table));
	profile->string_table[profile->n_string_table++] = copy;
	if (hashmap__add(writer->strings, copy, id))
		die(STATUS_FAILED, "out of memory");
	return id;
}

static __s64 hex_id(struct writer *writer, const unsigned char *bytes, size_t size)
{
	char text[2 * BUILD_ID_SIZE + 1] = "";

	for (size_t i = 0; i < size; i++)
		sprintf(text + 2 * i, "%02x", bytes[i]);
	return string_id(writer, text);
}

static Pprof__Mapping *new_mapping(struct writer *writer, const char *name,
				   const unsigned char *id, size_t id_size)
{
	Pprof__Mapping *mapping = NEW(writer, mappings, Pprof__Mapping, pprof__mapping__init);

	mapping->id = writer->profile.n_mappings;
	mapping->filename = string_id(writer, name);
	mapping->build_id = hex_id(writer, id, id_size);
	mapping->has_functions = 1;
	return mapping;
}

static __u64 kernel_mapping(struct writer *writer)
{
	const unsigned char *id;
	size_t size;

	if (!writer->kernel) {
		size = symbols_kernel_build_id(&id);
		writer->kernel = new_mapping(writer, "[kernel.kallsyms]", id, size);
		/* Modules have higher addresses. */
		writer->kernel->memory_start = symbols_kernel_start();
		writer->kernel->memory_limit = ~0ULL;
	}
	return writer->kernel->id;
}

static __u64 segment_mapping(struct writer *writer, struct segment *segment)
{
	const unsigned char *id;
	Pprof__Mapping *mapping;
	size_t size;

	if (segment->id)
		return segment->id;

	size = dso_build_id(segment->dso, &id);
	mapping = new_mapping(writer, dso_name(segment->dso), id, size);
	mapping->memory_start = segment->start;
	mapping->memory_limit = segment->end;
	mapping->file_offset = segment->offset;
	segment->id = mapping->id;
	return segment->id;
}

static __u64 function_id(struct writer *writer, const char *name, const char *file)
{
	char *key = xprintf("%s %s", file, name);
	Pprof__Function *function;

	if (hashmap__find(writer->functions, key, &function)) {
		free(key);
		return function->id;
	}
	function = NEW(writer, functions, Pprof__Function, pprof__function__init);
	function->id = writer->profile.n_functions;
	function->name = string_id(writer, name);
	function->system_name = function->name;
	if (hashmap__add(writer->functions, key, function))
		die(STATUS_FAILED, "out of memory");
	return function->id;
}

static void add_function(struct writer *writer, Pprof__Location *location, const char *name,
			 const char *file)
{
	Pprof__Line *line = xalloc(sizeof(*line));

	pprof__line__init(line);
	line->function_id = function_id(writer, name, file);
	location->lines = xalloc(sizeof(line));
	location->lines[0] = line;
	location->n_lines = 1;
}

static __u64 location_id(struct writer *writer, struct frame *frame)
{
	const char *file = frame->kernel ? "[kernel]" : "";
	Pprof__Location *location;

	if (frame->id)
		return frame->id;

	location = NEW(writer, locations, Pprof__Location, pprof__location__init);
	location->id = writer->profile.n_locations;
	location->address = frame->addr;
	if (frame->segment) {
		location->mapping_id = segment_mapping(writer, frame->segment);
		file = dso_name(frame->segment->dso);
	} else if (frame->kernel && frame->addr) {
		location->mapping_id = kernel_mapping(writer);
	}
	/* Without a function, a reader with the file can find it by build-id and address. */
	if (frame->known || !location->mapping_id)
		add_function(writer, location, frame->name, file);
	else
		writer->profile.mappings[location->mapping_id - 1]->has_functions = 0;
	frame->id = location->id;
	return frame->id;
}

static Pprof__Label *new_label(struct writer *writer, const char *key)
{
	Pprof__Label *label = xalloc(sizeof(*label));

	pprof__label__init(label);
	label->key = string_id(writer, key);
	return label;
}

static void add_sample(struct writer *writer, const struct group *group,
		       const struct frames *frames)
{
	Pprof__Sample *sample = NEW(writer, samples, Pprof__Sample, pprof__sample__init);
	char comm[STACKPROF_COMM_LEN + 1];

	sample->n_location_id = frames->nr;
	sample->location_id = xalloc((frames->nr ?: 1) * sizeof(*sample->location_id));
	for (size_t i = 0; i < frames->nr; i++)
		sample->location_id[frames->nr - 1 - i] = location_id(writer, frames->frame[i]);

	sample->n_value = 2;
	sample->value = xalloc(2 * sizeof(*sample->value));
	sample->value[0] = group->count;
	sample->value[1] = group->weight;

	snprintf(comm, sizeof(comm), "%.*s", STACKPROF_COMM_LEN, group->comm);
	sample->n_labels = 2;
	sample->labels = xalloc(2 * sizeof(*sample->labels));
	sample->labels[0] = new_label(writer, "comm");
	sample->labels[0]->str = string_id(writer, comm);
	sample->labels[1] = new_label(writer, "pid");
	sample->labels[1]->num = group->space->tgid;
}

static Pprof__ValueType *new_type(struct writer *writer, const char *type, const char *unit)
{
	Pprof__ValueType *new = xalloc(sizeof(*new));

	pprof__value_type__init(new);
	new->type = string_id(writer, type);
	new->unit = string_id(writer, unit);
	return new;
}

static void set_types(struct writer *writer, const struct profile *profile)
{
	const struct event *event = profile->event;
	const char *type = event ? event->name : "off-cpu";
	const char *unit = !event || event_is_time(event) ? "nanoseconds" : "count";
	Pprof__Profile *out = &writer->profile;

	/* This is pprof's name for time on a CPU. */
	if (event && event_is_time(event))
		type = "cpu";
	out->n_sample_type = 2;
	out->sample_type = xalloc(2 * sizeof(*out->sample_type));
	out->sample_type[0] = new_type(writer, "samples", "count");
	out->sample_type[1] = new_type(writer, type, unit);
	out->default_sample_type = string_id(writer, type);
	out->period_type = new_type(writer, type, unit);
	out->period = 1;
	if (event && !event->attr.freq)
		out->period = event->attr.sample_period;
	else if (event && event_is_time(event))
		out->period = NSEC_PER_SEC / event->attr.sample_freq;
}

static void compress_to(const char *path, const unsigned char *data, size_t size)
{
	gzFile file = gzopen(path, "wbe");

	if (!file)
		die(STATUS_FAILED, "cannot write '%s': %s", path, strerror(errno));
	errno = 0;
	if ((size && gzfwrite(data, size, 1, file) != 1) || gzclose(file) != Z_OK)
		die(STATUS_FAILED, "cannot write '%s': %s", path,
		    errno ? strerror(errno) : "zlib failed");
}

/**
 * pprof_write - write the profile to a file
 * @profile:	description of the samples
 * @path:	path of the file
 */
void pprof_write(const struct profile *profile, const char *path)
{
	struct writer writer = {};
	struct frames frames = {};
	struct hashmap_entry *entry;
	unsigned char *data;
	size_t size, bucket;

	pprof__profile__init(&writer.profile);
	writer.strings = map_of_strings();
	writer.functions = map_of_strings();
	string_id(&writer, "");
	set_types(&writer, profile);
	writer.profile.time_nanos = profile->begin;
	writer.profile.duration_nanos = profile->duration;

	hashmap__for_each_entry(merge_groups(), entry, bucket) {
		frames_of(entry->pvalue, !profile->event, &frames);
		add_sample(&writer, entry->pvalue, &frames);
	}

	size = pprof__profile__get_packed_size(&writer.profile);
	data = xalloc(size + 1);
	pprof__profile__pack(&writer.profile, data);
	compress_to(path, data, size);
	free(data);
	free(frames.frame);
}
