// SPDX-License-Identifier: GPL-2.0
/*
 * Events of PMUs below /sys/bus/event_source: PMU/terms/.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "prof.h"

#define DEVICES	"/sys/bus/event_source/devices"

/* The first line of a file, NULL if there is none. */
static char *read_line(const char *path)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;

	if (!file)
		return NULL;
	if (getline(&line, &room, file) < 0) {
		free(line);
		line = NULL;
	} else {
		line[strcspn(line, "\n")] = '\0';
	}
	fclose(file);
	return line;
}

static char *read_attribute(const char *pmu, const char *directory, const char *name)
{
	char *path, *line;

	if (strchr(name, '/') || name[0] == '.')
		return NULL;
	path = xprintf(DEVICES "/%s/%s%s", pmu, directory, name);
	line = read_line(path);
	free(path);
	return line;
}

static __u64 *config_field(struct event *event, const char *name)
{
	if (!strcmp(name, "config"))
		return &event->attr.config;
	if (!strcmp(name, "config1"))
		return &event->attr.config1;
	if (!strcmp(name, "config2"))
		return &event->attr.config2;
	return NULL;
}

/* @format names a field and ranges of its bits, lowest first: config:0-7,32-35 */
static bool set_bits(struct event *event, char *format, __u64 value)
{
	char *ranges = strchr(format, ':'), *range;
	__u64 *field;

	if (!ranges)
		return false;
	*ranges++ = '\0';
	field = config_field(event, format);
	if (!field)
		return false;

	while ((range = strsep(&ranges, ","))) {
		unsigned int from, to;
		int nr = sscanf(range, "%u-%u", &from, &to);

		if (nr == 1)
			to = from;
		if (nr < 1 || to > 63 || from > to)
			return false;
		for (unsigned int bit = from; bit <= to; bit++, value >>= 1) {
			*field &= ~(1ULL << bit);
			*field |= (value & 1) << bit;
		}
	}
	/* Remaining bits did not fit. */
	return !value;
}

static __u64 term_value(const struct event *event, const char *name, const char *text)
{
	__u64 value = 1;

	if (text && !parse_number(text, &value))
		die(STATUS_USAGE, "event '%s': the value of '%s' is not a number", event->name,
		    name);
	return value;
}

/* Terms of all PMUs: none describes them. */
static bool set_common(struct event *event, const char *name, const char *text)
{
	__u64 *field = config_field(event, name);

	if (!field && strcmp(name, "period") && strcmp(name, "freq"))
		return false;
	if (!text)
		die(STATUS_USAGE, "event '%s': '%s' lacks a value", event->name, name);
	if (field) {
		*field = term_value(event, name, text);
		return true;
	}
	event->attr.freq = !strcmp(name, "freq");
	event->attr.sample_period = term_value(event, name, text);
	event->has_period = true;
	if (!event->attr.sample_period)
		die(STATUS_USAGE, "event '%s': '%s' is not to be 0", event->name, name);
	return true;
}

static void set_terms(struct event *event, const char *pmu, char *terms, bool aliases);

static void set_term(struct event *event, const char *pmu, char *term, bool aliases)
{
	char *text = strchr(term, '='), *line;

	if (text)
		*text++ = '\0';
	if (set_common(event, term, text))
		return;

	line = read_attribute(pmu, "format/", term);
	if (line) {
		if (!set_bits(event, line, term_value(event, term, text)))
			die(STATUS_USAGE, "event '%s': the value of '%s' is too large",
			    event->name, term);
		free(line);
		return;
	}
	line = aliases && !text ? read_attribute(pmu, "events/", term) : NULL;
	if (!line)
		die(STATUS_USAGE, "event '%s': '%s' is not a term of PMU %s; see " DEVICES "/%s",
		    event->name, term, pmu, pmu);
	set_terms(event, pmu, line, false);
	free(line);
}

static void set_terms(struct event *event, const char *pmu, char *terms, bool aliases)
{
	char *term;

	while ((term = strsep(&terms, ",")))
		if (*term)
			set_term(event, pmu, term, aliases);
}

/**
 * event_parse_pmu - find an event of a PMU
 * @event:	set to it
 * @pmu:	its name
 * @terms:	name=value or an event's name, separated by commas; modified
 */
void event_parse_pmu(struct event *event, const char *pmu, char *terms)
{
	char *type = read_attribute(pmu, "", "type");
	__u64 number;

	if (!*pmu || strchr(pmu, '/') || !type || !parse_number(type, &number))
		die(STATUS_USAGE, "event '%s': there is no PMU '%s'; see " DEVICES, event->name,
		    pmu);
	event->attr.type = number;
	free(type);
	set_terms(event, pmu, terms, true);
}
