// SPDX-License-Identifier: GPL-2.0
/*
 * Make a profile in pprof's format: a message of pprof.proto, compressed by zlib.
 *
 * Strings, mappings, functions, locations and samples are kept once each: a table leads from
 * what tells them apart to their number. A mapped part of a file has one mapping, at the address
 * where it was seen first; addresses of other processes are moved there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <linux/compiler.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/zalloc.h>

#include "hashmap.h"
#include "pprof.h"
#include "pprof.pb-c.h"

/**
 * struct bytes - a key of a table
 * @size:	how many bytes
 * @data:	the bytes
 */
struct bytes {
	size_t		size;
	const void	*data;
};

/**
 * struct pprof - a profile that is being made
 * @profile:	the message
 * @strings:	number of each string, plus 1
 * @mappings:	id of each mapping
 * @functions:	id of each function
 * @locations:	id of each location
 * @samples:	position of each sample, plus 1
 * @failed:	memory has run out
 */
struct pprof {
	Pprof__Profile	profile;
	struct hashmap	*strings;
	struct hashmap	*mappings;
	struct hashmap	*functions;
	struct hashmap	*locations;
	struct hashmap	*samples;
	bool		failed;
};

static size_t bytes_hash(long key, void *ctx __maybe_unused)
{
	const struct bytes *bytes = (const struct bytes *)key;
	const unsigned char *data = bytes->data;
	size_t hash = 14695981039346656037UL;

	/* FNV-1a */
	for (size_t i = 0; i < bytes->size; i++)
		hash = (hash ^ data[i]) * 1099511628211UL;
	return hash;
}

static bool bytes_equal(long key1, long key2, void *ctx __maybe_unused)
{
	const struct bytes *a = (const struct bytes *)key1, *b = (const struct bytes *)key2;

	return a->size == b->size && !memcmp(a->data, b->data, a->size);
}

static u64 table_find(const struct hashmap *table, const void *data, size_t size)
{
	const struct bytes key = { .size = size, .data = data };
	long id;

	return hashmap__find(table, &key, &id) ? id : 0;
}

static void table_add(struct pprof *pprof, struct hashmap *table, const void *data, size_t size,
		      u64 id)
{
	struct bytes *key = malloc(sizeof(*key) + size);

	if (!key) {
		pprof->failed = true;
		return;
	}
	key->size = size;
	key->data = memcpy(key + 1, data, size);
	if (hashmap__add(table, key, (long)id)) {
		free(key);
		pprof->failed = true;
	}
}

static void table_free(struct hashmap *table)
{
	struct hashmap_entry *entry;
	size_t bucket;

	if (IS_ERR_OR_NULL(table))
		return;
	hashmap__for_each_entry(table, entry, bucket)
		free((void *)entry->pkey);
	hashmap__free(table);
}

/*
 * Append to an array of @nr pointers, which has room for a power of two. Returns @element, or
 * without memory frees it and returns NULL.
 */
static void *append(struct pprof *pprof, void *array, size_t *nr, void *element)
{
	void ***at = array, **more;

	if (element && !(*nr & (*nr - 1))) {
		more = reallocarray(*at, *nr ? 2 * *nr : 1, sizeof(*more));
		if (more)
			*at = more;
		else
			zfree(&element);
	}
	if (!element) {
		pprof->failed = true;
		return NULL;
	}
	(*at)[(*nr)++] = element;
	return element;
}

/* Append a new message to a repeated field of another one; NULL without memory. */
#define NEW(pprof, array, nr, type, init) ({					\
	type *__new = malloc(sizeof(*__new));					\
	if (__new)								\
		init(__new);							\
	(type *)append(pprof, array, nr, __new);				\
})

/**
 * pprof__new - begin a profile
 *
 * Return: the profile, or NULL without memory.
 */
struct pprof *pprof__new(void)
{
	struct pprof *pprof = zalloc(sizeof(*pprof));

	if (!pprof)
		return NULL;
	pprof__profile__init(&pprof->profile);
	pprof->strings = hashmap__new(bytes_hash, bytes_equal, NULL);
	pprof->mappings = hashmap__new(bytes_hash, bytes_equal, NULL);
	pprof->functions = hashmap__new(bytes_hash, bytes_equal, NULL);
	pprof->locations = hashmap__new(bytes_hash, bytes_equal, NULL);
	pprof->samples = hashmap__new(bytes_hash, bytes_equal, NULL);
	if (IS_ERR(pprof->strings) || IS_ERR(pprof->mappings) || IS_ERR(pprof->functions) ||
	    IS_ERR(pprof->locations) || IS_ERR(pprof->samples)) {
		pprof__delete(pprof);
		return NULL;
	}
	pprof__string(pprof, "");
	return pprof;
}

/**
 * pprof__delete - free a profile
 * @pprof:	the profile, or NULL
 */
void pprof__delete(struct pprof *pprof)
{
	Pprof__Profile *copy;

	if (!pprof)
		return;
	table_free(pprof->strings);
	table_free(pprof->mappings);
	table_free(pprof->functions);
	table_free(pprof->locations);
	table_free(pprof->samples);
	/* protobuf-c frees only messages that are allocated as a whole. */
	copy = malloc(sizeof(*copy));
	if (copy) {
		*copy = pprof->profile;
		pprof__profile__free_unpacked(copy, NULL);
	}
	free(pprof);
}

/* Size in bytes of the character at @text, 0 if it is not UTF-8. */
static size_t utf8_size(const char *text)
{
	static const u32 least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *bytes = (const unsigned char *)text;
	size_t size = 0;
	u32 code;

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
	char *copy = malloc(3 * strlen(text) + 1), *to = copy;

	while (copy && *text) {
		const size_t size = utf8_size(text);

		to = mempcpy(to, size ? text : replacement, size ?: 3);
		text += size ?: 1;
	}
	if (copy)
		*to = '\0';
	return copy;
}

/**
 * pprof__string - get the number of a string
 * @pprof:	the profile
 * @text:	the string, in any bytes
 *
 * Return: its number.
 */
s64 pprof__string(struct pprof *pprof, const char *text)
{
	Pprof__Profile *profile = &pprof->profile;
	const size_t size = strlen(text);
	u64 id = table_find(pprof->strings, text, size);

	if (id)
		return id - 1;
	if (!append(pprof, &profile->string_table, &profile->n_string_table, to_utf8(text)))
		return 0;
	id = profile->n_string_table;
	table_add(pprof, pprof->strings, text, size, id);
	return id - 1;
}

/**
 * pprof__type - get the number of a type of samples
 * @pprof:	the profile
 * @type:	name of the type
 * @unit:	unit of its values
 *
 * The first one is the default. It is the number of samples, whatever an event is called.
 *
 * Return: the number of the type: the position of its value in each sample.
 */
size_t pprof__type(struct pprof *pprof, const char *type, const char *unit)
{
	Pprof__Profile *profile = &pprof->profile;
	const s64 id = pprof__string(pprof, type);
	Pprof__ValueType *new;

	for (size_t i = 1; i < profile->n_sample_type; i++) {
		if (profile->sample_type[i]->type == id)
			return i;
	}
	new = NEW(pprof, &profile->sample_type, &profile->n_sample_type, Pprof__ValueType,
		  pprof__value_type__init);
	if (!new)
		return 0;
	new->type = id;
	new->unit = pprof__string(pprof, unit);
	return profile->n_sample_type - 1;
}

/**
 * pprof__set_period - say how often a type is sampled
 * @pprof:	the profile
 * @type:	number of the type, which becomes the default one
 * @period:	in its unit, or 0
 */
void pprof__set_period(struct pprof *pprof, size_t type, u64 period)
{
	Pprof__Profile *profile = &pprof->profile;
	Pprof__ValueType *copy;

	if (pprof->failed || profile->period_type)
		return;
	copy = malloc(sizeof(*copy));
	if (!copy) {
		pprof->failed = true;
		return;
	}
	*copy = *profile->sample_type[type];
	profile->period_type = copy;
	profile->period = period;
	profile->default_sample_type = copy->type;
}

/**
 * pprof__set_time - say when the samples were taken
 * @pprof:	the profile
 * @begin:	in ns since 1970, or 0
 * @duration:	in ns
 */
void pprof__set_time(struct pprof *pprof, u64 begin, u64 duration)
{
	pprof->profile.time_nanos = begin;
	pprof->profile.duration_nanos = duration;
}

/**
 * pprof__comment - add a comment
 * @pprof:	the profile, which has none yet
 * @text:	the comment
 */
void pprof__comment(struct pprof *pprof, const char *text)
{
	Pprof__Profile *profile = &pprof->profile;

	profile->comment = malloc(sizeof(*profile->comment));
	if (!profile->comment) {
		pprof->failed = true;
		return;
	}
	profile->comment[0] = pprof__string(pprof, text);
	profile->n_comment = 1;
}

/**
 * pprof__mapping - get the id of a mapped part of a file
 * @pprof:	the profile
 * @mapping:	the part
 * @start:	set to the address where it was seen first
 *
 * Return: its id.
 */
u64 pprof__mapping(struct pprof *pprof, const struct pprof_mapping *mapping, u64 *start)
{
	const u64 key[] = {
		pprof__string(pprof, mapping->filename), pprof__string(pprof, mapping->build_id),
		mapping->place, mapping->offset,
	};
	Pprof__Profile *profile = &pprof->profile;
	u64 id = table_find(pprof->mappings, key, sizeof(key)), limit;
	Pprof__Mapping *new;

	if (id) {
		new = profile->mappings[id - 1];
		limit = new->memory_start + (mapping->limit - mapping->start);
		if (limit > new->memory_limit)
			new->memory_limit = limit;
		*start = new->memory_start;
		return id;
	}
	*start = mapping->start;
	new = NEW(pprof, &profile->mappings, &profile->n_mappings, Pprof__Mapping,
		  pprof__mapping__init);
	if (!new)
		return 0;
	new->id = profile->n_mappings;
	new->memory_start = mapping->start;
	new->memory_limit = mapping->limit;
	new->file_offset = mapping->offset;
	new->filename = key[0];
	new->build_id = key[1];
	new->has_functions = true;
	table_add(pprof, pprof->mappings, key, sizeof(key), new->id);
	return new->id;
}

/**
 * pprof__location - get the id of a location
 * @pprof:	the profile
 * @mapping:	id of its mapping, or 0
 * @addr:	its address there
 * @is_new:	set if it was not known
 *
 * A new location has no function yet, see pprof__add_line().
 *
 * Return: its id.
 */
u64 pprof__location(struct pprof *pprof, u64 mapping, u64 addr, bool *is_new)
{
	Pprof__Profile *profile = &pprof->profile;
	const u64 key[] = { mapping, addr };
	u64 id = table_find(pprof->locations, key, sizeof(key));
	Pprof__Location *new;

	*is_new = !id;
	if (id)
		return id;
	new = NEW(pprof, &profile->locations, &profile->n_locations, Pprof__Location,
		  pprof__location__init);
	if (!new)
		return 0;
	new->id = profile->n_locations;
	new->mapping_id = mapping;
	new->address = addr;
	table_add(pprof, pprof->locations, key, sizeof(key), new->id);
	return new->id;
}

static u64 function_id(struct pprof *pprof, const char *name, u64 mapping, s64 file)
{
	Pprof__Profile *profile = &pprof->profile;
	const u64 key[] = { pprof__string(pprof, name), mapping, file };
	u64 id = table_find(pprof->functions, key, sizeof(key));
	Pprof__Function *new;

	if (id)
		return id;
	new = NEW(pprof, &profile->functions, &profile->n_functions, Pprof__Function,
		  pprof__function__init);
	if (!new)
		return 0;
	new->id = profile->n_functions;
	new->name = key[0];
	new->system_name = key[0];
	new->filename = file;
	table_add(pprof, pprof->functions, key, sizeof(key), new->id);
	return new->id;
}

/**
 * pprof__add_line - say what is at a new location; for inlined functions several times
 * @pprof:	the profile
 * @location:	id of the location
 * @function:	name of its function, or NULL: then a reader with the file can find it
 * @file:	name of the source file, or NULL
 * @line:	line in there
 */
void pprof__add_line(struct pprof *pprof, u64 location, const char *function, const char *file,
		     u64 line)
{
	Pprof__Profile *profile = &pprof->profile;
	Pprof__Location *at;
	Pprof__Mapping *mapping;
	Pprof__Line *new;

	if (!location)
		return;
	at = profile->locations[location - 1];
	mapping = at->mapping_id ? profile->mappings[at->mapping_id - 1] : NULL;
	if (!function) {
		if (mapping)
			mapping->has_functions = false;
		return;
	}
	new = NEW(pprof, &at->lines, &at->n_lines, Pprof__Line, pprof__line__init);
	if (!new)
		return;
	new->function_id = function_id(pprof, function, at->mapping_id,
				       file ? pprof__string(pprof, file) : 0);
	new->line = line;
	if (mapping && file) {
		mapping->has_filenames = true;
		mapping->has_line_numbers = true;
	}
}

static bool copy_labels(struct pprof *pprof, Pprof__Sample *sample,
			const struct pprof_label *labels, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		Pprof__Label *new = NEW(pprof, &sample->labels, &sample->n_labels, Pprof__Label,
					pprof__label__init);

		if (!new)
			return false;
		new->key = labels[i].key;
		new->str = labels[i].value;
	}
	return true;
}

static Pprof__Sample *new_sample(struct pprof *pprof, const u64 *locations, size_t nr,
				 const struct pprof_label *labels, size_t nr_labels)
{
	Pprof__Profile *profile = &pprof->profile;
	Pprof__Sample *sample = NEW(pprof, &profile->samples, &profile->n_samples, Pprof__Sample,
				    pprof__sample__init);

	if (!sample || !copy_labels(pprof, sample, labels, nr_labels))
		return NULL;
	sample->location_id = memdup(locations, nr * sizeof(*locations));
	if (nr && !sample->location_id) {
		pprof->failed = true;
		return NULL;
	}
	sample->n_location_id = nr;
	return sample;
}

/* Let a sample have a value for each type. */
static bool grow_values(struct pprof *pprof, Pprof__Sample *sample, size_t nr)
{
	int64_t *more;

	if (sample->n_value >= nr)
		return true;
	more = reallocarray(sample->value, nr, sizeof(*more));
	if (!more) {
		pprof->failed = true;
		return false;
	}
	memset(more + sample->n_value, 0, (nr - sample->n_value) * sizeof(*more));
	sample->value = more;
	sample->n_value = nr;
	return true;
}

/**
 * pprof__add_sample - count a sample
 * @pprof:	the profile
 * @locations:	its stack: ids, the innermost first
 * @nr:		number of @locations
 * @labels:	its labels
 * @nr_labels:	number of @labels
 * @type:	number of its type; that of the number of samples is 0
 * @value:	what it counts for
 */
void pprof__add_sample(struct pprof *pprof, const u64 *locations, size_t nr,
		       const struct pprof_label *labels, size_t nr_labels, size_t type, u64 value)
{
	const size_t size = nr * sizeof(*locations), labels_size = nr_labels * sizeof(*labels);
	Pprof__Sample *sample;
	char *key;
	u64 id;

	if (pprof->failed)
		return;
	key = malloc(size + labels_size + 1);
	if (!key) {
		pprof->failed = true;
		return;
	}
	memcpy(key, labels, labels_size);
	memcpy(key + labels_size, locations, size);
	id = table_find(pprof->samples, key, size + labels_size);
	if (id) {
		sample = pprof->profile.samples[id - 1];
	} else {
		sample = new_sample(pprof, locations, nr, labels, nr_labels);
		table_add(pprof, pprof->samples, key, size + labels_size,
			  pprof->profile.n_samples);
	}
	free(key);
	if (!sample || !grow_values(pprof, sample, pprof->profile.n_sample_type))
		return;
	sample->value[0]++;
	sample->value[type] += value;
}

/* The value of a label that most samples have, as the number of a string; 0 without any. */
static s64 most_common(struct pprof *pprof, s64 key)
{
	Pprof__Profile *profile = &pprof->profile;
	u64 *nr = calloc(profile->n_string_table, sizeof(*nr));
	s64 best = 0;

	if (!nr) {
		pprof->failed = true;
		return 0;
	}
	for (size_t i = 0; i < profile->n_samples; i++) {
		const Pprof__Sample *sample = profile->samples[i];

		for (size_t j = 0; j < sample->n_labels; j++) {
			const Pprof__Label *label = sample->labels[j];

			if (label->key != key)
				continue;
			nr[label->str] += sample->value[0];
			if (nr[label->str] > nr[best])
				best = label->str;
		}
	}
	free(nr);
	return best;
}

/**
 * pprof__program_first - put the mapping of the program first, where readers look for it
 * @pprof:	the profile
 * @label:	label with the name of the program: that which most samples have
 * @max:	the name may be cut to this length
 */
void pprof__program_first(struct pprof *pprof, const char *label, size_t max)
{
	Pprof__Profile *profile = &pprof->profile;
	const s64 id = most_common(pprof, pprof__string(pprof, label));
	const char *name = id ? profile->string_table[id] : NULL;

	for (size_t i = 0; name && i < profile->n_mappings; i++) {
		Pprof__Mapping *mapping = profile->mappings[i];
		const char *file = profile->string_table[mapping->filename];

		if (strncmp(basename(file), name, max))
			continue;
		/* Locations know mappings by their ids, which stay. */
		profile->mappings[i] = profile->mappings[0];
		profile->mappings[0] = mapping;
		break;
	}
}

/**
 * struct output - a file that a message is packed to
 * @buffer:	what protobuf-c knows of it
 * @file:	the file
 * @failed:	a write has failed
 */
struct output {
	ProtobufCBuffer	buffer;
	gzFile		file;
	bool		failed;
};

static void output_append(ProtobufCBuffer *buffer, size_t size, const uint8_t *data)
{
	struct output *output = container_of(buffer, struct output, buffer);

	if (!output->failed && size && gzfwrite(data, size, 1, output->file) != 1)
		output->failed = true;
}

/* Write the message, and close @fd. Returns 0 or a negative errno. */
static int write_to(struct pprof *pprof, int fd)
{
	struct output output = { .buffer.append = output_append, .file = gzdopen(fd, "wb") };

	if (!output.file) {
		close(fd);
		return -ENOMEM;
	}
	errno = 0;
	pprof__profile__pack_to_buffer(&pprof->profile, &output.buffer);
	if (gzclose(output.file) != Z_OK || output.failed)
		return errno ? -errno : -EIO;
	return 0;
}

/* Write a new file, which gets the name @path only when it is complete. */
static int write_new(struct pprof *pprof, const char *path, mode_t mode)
{
	int fd, ret;
	char *temp;

	if (asprintf(&temp, "%s.XXXXXX", path) < 0)
		return -ENOMEM;
	fd = mkostemp(temp, O_CLOEXEC);
	if (fd < 0) {
		ret = -errno;
		free(temp);
		return ret;
	}
	ret = fchmod(fd, mode) ? -errno : 0;
	if (ret)
		close(fd);
	else
		ret = write_to(pprof, fd);
	if (!ret && rename(temp, path))
		ret = -errno;
	if (ret)
		unlink(temp);
	free(temp);
	return ret;
}

/* Replace a file by a new one, and not a link to it. The file keeps its mode. */
static int replace(struct pprof *pprof, const char *path, mode_t mode)
{
	char *real = realpath(path, NULL);
	int ret = real ? write_new(pprof, real, mode) : -errno;

	free(real);
	return ret;
}

/**
 * pprof__write - write a profile to a file
 * @pprof:	the profile
 * @path:	name of the file, which is replaced; a pipe or a device is written to
 *
 * Return: 0, or a negative errno; then there is no new file.
 */
int pprof__write(struct pprof *pprof, const char *path)
{
	Pprof__Profile *profile = &pprof->profile;
	const mode_t mask = umask(0);
	struct stat st;
	int fd;

	umask(mask);
	for (size_t i = 0; i < profile->n_samples; i++) {
		if (!grow_values(pprof, profile->samples[i], profile->n_sample_type))
			break;
	}
	if (pprof->failed)
		return -ENOMEM;
	/* A link to nowhere is not replaced either. */
	if (stat(path, &st))
		return lstat(path, &st) ? write_new(pprof, path, 0666 & ~mask) : -ENOENT;
	if (S_ISREG(st.st_mode))
		return replace(pprof, path, st.st_mode & 0777);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 ? -errno : write_to(pprof, fd);
}
