// SPDX-License-Identifier: GPL-2.0
/*
 * Parses events by the names that perf has for them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "prof.h"

struct event_name {
	const char	*name;
	const char	*alias;
	__u32		type;
	__u64		config;
};

#define HW(name, alias, id)	{ name, alias, PERF_TYPE_HARDWARE, PERF_COUNT_HW_##id }
#define SW(name, alias, id)	{ name, alias, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_##id }

static const struct event_name event_names[] = {
	HW("cpu-cycles", "cycles", CPU_CYCLES),
	HW("instructions", NULL, INSTRUCTIONS),
	HW("cache-references", NULL, CACHE_REFERENCES),
	HW("cache-misses", NULL, CACHE_MISSES),
	HW("branch-instructions", "branches", BRANCH_INSTRUCTIONS),
	HW("branch-misses", NULL, BRANCH_MISSES),
	HW("bus-cycles", NULL, BUS_CYCLES),
	HW("stalled-cycles-frontend", "idle-cycles-frontend", STALLED_CYCLES_FRONTEND),
	HW("stalled-cycles-backend", "idle-cycles-backend", STALLED_CYCLES_BACKEND),
	HW("ref-cycles", NULL, REF_CPU_CYCLES),
	SW("cpu-clock", NULL, CPU_CLOCK),
	SW("task-clock", NULL, TASK_CLOCK),
	SW("page-faults", "faults", PAGE_FAULTS),
	SW("minor-faults", NULL, PAGE_FAULTS_MIN),
	SW("major-faults", NULL, PAGE_FAULTS_MAJ),
	SW("context-switches", "cs", CONTEXT_SWITCHES),
	SW("cpu-migrations", "migrations", CPU_MIGRATIONS),
	SW("alignment-faults", NULL, ALIGNMENT_FAULTS),
	SW("emulation-faults", NULL, EMULATION_FAULTS),
};

static const char *const cache_names[] = {
	[PERF_COUNT_HW_CACHE_L1D]	= "L1-dcache",
	[PERF_COUNT_HW_CACHE_L1I]	= "L1-icache",
	[PERF_COUNT_HW_CACHE_LL]	= "LLC",
	[PERF_COUNT_HW_CACHE_DTLB]	= "dTLB",
	[PERF_COUNT_HW_CACHE_ITLB]	= "iTLB",
	[PERF_COUNT_HW_CACHE_BPU]	= "branch",
	[PERF_COUNT_HW_CACHE_NODE]	= "node",
};

/* All accesses of an operation, and those that missed. */
static const char *const cache_ops[][2] = {
	[PERF_COUNT_HW_CACHE_OP_READ]		= { "-loads", "-load-misses" },
	[PERF_COUNT_HW_CACHE_OP_WRITE]		= { "-stores", "-store-misses" },
	[PERF_COUNT_HW_CACHE_OP_PREFETCH]	= { "-prefetches", "-prefetch-misses" },
};

static bool is_name(const char *name, const char *text, size_t size)
{
	return name && strlen(name) == size && !strncmp(name, text, size);
}

static bool parse_name(struct event *event, const char *text, size_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(event_names); i++) {
		if (is_name(event_names[i].name, text, size) ||
		    is_name(event_names[i].alias, text, size)) {
			event->attr.type = event_names[i].type;
			event->attr.config = event_names[i].config;
			return true;
		}
	}
	return false;
}

/* CACHE-OPERATION */
static bool parse_cache(struct event *event, const char *text, size_t size)
{
	for (size_t cache = 0; cache < ARRAY_SIZE(cache_names); cache++) {
		const size_t length = strlen(cache_names[cache]);

		if (size < length || strncmp(text, cache_names[cache], length))
			continue;
		for (size_t op = 0; op < ARRAY_SIZE(cache_ops) * 2; op++) {
			if (!is_name(cache_ops[op / 2][op % 2], text + length, size - length))
				continue;
			event->attr.type = PERF_TYPE_HW_CACHE;
			event->attr.config = cache | op / 2 << 8 | op % 2 << 16;
			return true;
		}
	}
	return false;
}

/* rNNN, in hexadecimal digits */
static bool parse_raw(struct event *event, const char *text, size_t size)
{
	if (size < 2 || size > 17 || text[0] != 'r' ||
	    strspn(text + 1, "0123456789abcdefABCDEF") != size - 1)
		return false;

	event->attr.type = PERF_TYPE_RAW;
	event->attr.config = strtoull(text + 1, NULL, 16);
	return true;
}

static void parse_modifiers(struct event *event, const char *modifiers)
{
	bool user = false, kernel = false;
	unsigned int precise = 0;

	for (const char *c = modifiers; *c; c++) {
		user |= *c == 'u';
		kernel |= *c == 'k';
		precise += *c == 'p';
	}
	if (!*modifiers || modifiers[strspn(modifiers, "ukp")] || precise > 3)
		die(STATUS_USAGE, "event '%s': modifiers are u, k and up to three p, not '%s'",
		    event->name, modifiers);

	event->attr.precise_ip = precise;
	if (user || kernel) {
		event->attr.exclude_user = !user;
		event->attr.exclude_kernel = !kernel;
		event->attr.exclude_hv = true;
	}
}

static void parse_pmu(struct event *event)
{
	char *pmu = xstrdup(event->name);
	char *terms = strchr(pmu, '/'), *end;

	*terms++ = '\0';
	end = strchr(terms, '/');
	if (!end)
		die(STATUS_USAGE, "event '%s' lacks the '/' after its terms", event->name);
	*end++ = '\0';
	event_parse_pmu(event, pmu, terms);
	if (*end == ':')
		end++;
	if (*end)
		parse_modifiers(event, end);
	free(pmu);
}

static bool is_tracepoint_word(const char *text)
{
	return *text && !text[strcspn(text, ":/. ")];
}

static bool parse_tracepoint(struct event *event, const char *colon)
{
	const size_t size = colon - event->name;
	char *path;
	bool there;

	if (!size || !is_tracepoint_word(colon + 1))
		return false;

	event->attr.type = PERF_TYPE_TRACEPOINT;
	event->category = xprintf("%.*s", (int)size, event->name);
	event->tracepoint = xstrdup(colon + 1);
	path = xprintf("/sys/kernel/tracing/events/%s/%s/id", event->category,
		       event->tracepoint);
	there = !access(path, F_OK);
	free(path);
	if (!there && !access("/sys/kernel/tracing/events", F_OK))
		die(STATUS_USAGE, "there is no tracepoint '%s'; see /sys/kernel/tracing/events",
		    event->name);
	if (!there)
		die(STATUS_FAILED, "cannot see tracepoints; mount tracefs on /sys/kernel/tracing");
	return true;
}

/**
 * event_parse - find the event of a name
 * @event:	set to it
 * @name:	in the syntax of perf's option -e
 */
void event_parse(struct event *event, const char *name)
{
	const char *colon = strchr(name, ':');
	const size_t size = colon ? (size_t)(colon - name) : strlen(name);

	*event = (struct event) { .name = name, .attr.size = sizeof(event->attr) };
	if (strchr(name, '/')) {
		parse_pmu(event);
		return;
	}
	if (parse_name(event, name, size) || parse_cache(event, name, size) ||
	    parse_raw(event, name, size)) {
		if (colon)
			parse_modifiers(event, colon + 1);
		return;
	}
	if (!colon || !parse_tracepoint(event, colon))
		die(STATUS_USAGE, "there is no event '%s'; see 'perf list'", name);
}

/**
 * event_open - count an event
 * @event:	not a tracepoint
 * @cpu:	the CPU
 *
 * Return: a file descriptor, or -ENODEV if the CPU is offline.
 */
int event_open(const struct event *event, int cpu)
{
	struct perf_event_attr attr = event->attr;
	int fd = syscall(__NR_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd >= 0)
		return fd;
	switch (errno) {
	case ENODEV:
		return -ENODEV;
	case ENOENT:
	case EOPNOTSUPP:
		die(STATUS_FAILED, "this machine cannot sample '%s'; try -e cpu-clock",
		    event->name);
	case EACCES:
	case EPERM:
		die(STATUS_FAILED, "no permission to sample '%s'; run as root", event->name);
	case EINVAL:
		die(STATUS_FAILED, "the kernel takes '%s' not with these terms and this %s",
		    event->name, attr.freq ? "frequency" : "period");
	default:
		die(STATUS_FAILED, "cannot open event '%s' on CPU %d: %s", event->name, cpu,
		    strerror(errno));
	}
}

/* Are its periods in ns? */
bool event_is_time(const struct event *event)
{
	return event->attr.type == PERF_TYPE_SOFTWARE &&
	       (event->attr.config == PERF_COUNT_SW_CPU_CLOCK ||
		event->attr.config == PERF_COUNT_SW_TASK_CLOCK);
}
