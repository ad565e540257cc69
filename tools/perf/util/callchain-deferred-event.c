// SPDX-License-Identifier: GPL-2.0
/*
 * The data format of deferred user callchains, from the reader's side.
 *
 * A file may be damaged or crafted to do damage: no field of a record is used
 * before perf_event__check_callchain_deferred() has compared its two lengths,
 * header.size and nr. The cookie at the end of an unmerged callchain is never
 * treated as an address. A mark stands for missing frames and resolves to a
 * symbol, so all output code shows it without special cases.
 */
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>

#include "addr_location.h"
#include "callchain-deferred.h"
#include "debug.h"
#include "dso.h"
#include "evlist.h"
#include "evsel.h"
#include "map.h"
#include "maps.h"
#include "symbol.h"
#include "thread.h"
#include "user-state-deferred.h"

/* Print once: several readers check the same event, and each of them stops there. */
#define pr_broken(fmt, ...)							\
do {										\
	static bool told;							\
										\
	if (!told)								\
		pr_err("Broken deferred callchain record: " fmt, ##__VA_ARGS__);\
	told = true;								\
} while (0)

/**
 * perf_event__check_callchain_deferred - check the lengths of a callchain record
 * @event: PERF_RECORD_CALLCHAIN_DEFERRED; at least its header is readable
 * @id_hdr_size: size of the sample_id fields that must follow, 0 if there are none
 *
 * Return: 0 or -EINVAL after a message.
 */
int perf_event__check_callchain_deferred(const union perf_event *event, u16 id_hdr_size)
{
	const struct perf_record_callchain_deferred *rec = &event->callchain_deferred;
	size_t size = event->header.size;

	if (size < sizeof(*rec) + id_hdr_size || size % sizeof(u64)) {
		pr_broken("size %zu, expected at least %zu\n",
			  size, sizeof(*rec) + id_hdr_size);
		return -EINVAL;
	}

	/* Divide instead of multiply: rec->nr can be any value and could overflow. */
	if (rec->nr > (size - sizeof(*rec) - id_hdr_size) / sizeof(u64)) {
		pr_broken("%" PRI_lu64 " addresses do not fit into size %zu\n", rec->nr, size);
		return -EINVAL;
	}
	return 0;
}

/**
 * perf_event__fprintf_callchain_deferred - raw dump of a checked record
 * @event: PERF_RECORD_CALLCHAIN_DEFERRED
 * @fp: where to print
 *
 * Return: number of characters.
 */
size_t perf_event__fprintf_callchain_deferred(const union perf_event *event, FILE *fp)
{
	const struct perf_record_callchain_deferred *rec = &event->callchain_deferred;
	size_t ret;
	__u64 i;

	ret = fprintf(fp, "(0x%x): cookie: %#" PRI_lx64 "\n... FP chain: nr:%" PRI_lu64 "\n",
		      event->header.misc, rec->cookie, rec->nr);
	for (i = 0; i < rec->nr; i++)
		ret += fprintf(fp, "..... %2" PRI_lu64 ": %016" PRI_lx64 "\n", i, rec->ips[i]);
	return ret;
}

/**
 * perf_event__new_user_callchain - make a callchain from a record alone
 * @event: PERF_RECORD_CALLCHAIN_DEFERRED, checked
 *
 * Return: a callchain to be freed by the caller, or NULL.
 */
struct ip_callchain *perf_event__new_user_callchain(const union perf_event *event)
{
	const struct perf_record_callchain_deferred *rec = &event->callchain_deferred;
	struct ip_callchain *chain = malloc(sizeof(*chain) + (rec->nr + 1) * sizeof(u64));

	if (chain) {
		chain->nr = rec->nr + 1;
		chain->ips[0] = PERF_CONTEXT_USER;
		memcpy(chain->ips + 1, rec->ips, rec->nr * sizeof(u64));
	}
	return chain;
}

/**
 * perf_event__write_callchain - write a sample with another callchain
 * @dst: PERF_SAMPLE_MAX_SIZE bytes
 * @event: the sample
 * @chain: the callchain in @event
 * @sample: parsed from @event, with the other callchain, which is cut if it does not fit
 *
 * Afterwards @sample describes @dst. It is not parsed again, because that is possible
 * only once if @event is in the other byte order. Its pointers may still point into
 * @event, except that to AUX data, which a tool may cut out of the event.
 *
 * Return: 0 or -EINVAL if not even the rest of the sample fits.
 */
int perf_event__write_callchain(union perf_event *dst, const union perf_event *event,
				const struct ip_callchain *chain, struct perf_sample *sample)
{
	size_t before = (void *)chain - (void *)event;
	size_t skip = before + (chain->nr + 1) * sizeof(u64);
	size_t after = event->header.size - skip;
	size_t max = round_down(USHRT_MAX, sizeof(u64)) - sizeof(u64);
	u64 nr = sample->callchain->nr;
	void *pos = dst;

	if (before + after > max)
		return -EINVAL;

	if (nr > (max - before - after) / sizeof(u64)) {
		nr = (max - before - after) / sizeof(u64);
		pr_debug("callchain of %" PRI_lu64 " entries cut to %" PRI_lu64 "\n",
			 (__u64)sample->callchain->nr, (__u64)nr);
	}

	memcpy(pos, event, before);
	pos += before;
	*(u64 *)pos = nr;
	pos += sizeof(u64);
	memcpy(pos, sample->callchain->ips, nr * sizeof(u64));
	pos += nr * sizeof(u64);
	memcpy(pos, (void *)event + skip, after);
	if (sample->aux_sample.size)
		sample->aux_sample.data = pos + (sample->aux_sample.data - ((void *)event + skip));
	pos += after;
	dst->header.size = pos - (void *)dst;
	sample->callchain = (void *)dst + before;
	return 0;
}

/* The depth that the event of a sample was recorded with, 0 for the sysctl's. */
u16 evlist__sample_max_stack(struct evlist *evlist, const struct perf_sample *sample)
{
	const struct evsel *evsel = evlist__id2evsel(evlist, sample->id);

	return evsel ? evsel->core.attr.sample_max_stack : 0;
}

/* Are the user callchains of the event's samples deferred? Even if that is no longer said. */
bool evsel__defers_callchain(const struct evsel *evsel)
{
	return evsel->core.attr.defer_callchain || evsel->callchain_deferred;
}

/* Does the event of a sample have branch stacks of calls? */
bool evlist__sample_has_call_stack(struct evlist *evlist, const struct perf_sample *sample)
{
	const struct evsel *evsel = evlist__id2evsel(evlist, sample->id);

	return evsel && (evsel__has_branch_callstack(evsel) || evsel->call_stack_deferred);
}

/* The records that a sample with a cookie lacks. */
unsigned int evlist__sample_needs(struct evlist *evlist, const struct perf_sample *sample)
{
	const struct evsel *evsel = evlist__id2evsel(evlist, sample->id);

	if (!perf_sample__lacks_user_state(sample, evsel))
		return CALLCHAIN_DEFERRED_CHAIN;
	if (evsel__defers_callchain(evsel))
		return CALLCHAIN_DEFERRED_BOTH;
	return CALLCHAIN_DEFERRED_STATE;
}

/* The registers that a sample can have. */
u64 evlist__sample_regs_mask(struct evlist *evlist, const struct perf_sample *sample)
{
	const struct evsel *evsel = evlist__id2evsel(evlist, sample->id);

	return evsel ? evsel__user_state_mask(evsel) : 0;
}

/* The registers in a record, as of the event that it was checked against, not of its id. */
u64 evlist__user_state_mask(struct evlist *evlist, union perf_event *event)
{
	const struct evsel *evsel = evlist__event2evsel(evlist, event);

	return evsel ? evsel__user_state_mask(evsel) : 0;
}

static struct map *mark_map;

static void mark_map__init(void)
{
	static const struct {
		u64 ip;
		const char *name;
	} marks[] = {
		{ CALLCHAIN_USER_BRANCHES, "[user callchain from branch stack]" },
		{ CALLCHAIN_USER_CUT, "[user callchain cut]" },
		{ CALLCHAIN_USER_DEFERRED, "[user callchain deferred]" },
		{ CALLCHAIN_USER_LOST, "[user callchain lost]" },
	};
	struct dso *dso = dso__new("[deferred]");
	unsigned int i;

	if (!dso)
		return;

	/* The addresses in this object are 0 to 3. */
	for (i = 0; i < ARRAY_SIZE(marks); i++) {
		struct symbol *sym = symbol__new(marks[i].ip - marks[0].ip, 1, STB_GLOBAL,
						 STT_FUNC, marks[i].name);

		if (sym)
			symbols__insert(dso__symbols(dso), sym);
	}
	dso__set_loaded(dso);

	mark_map = map__new2(marks[0].ip, dso);
	if (mark_map)
		map__set_end(mark_map, PERF_CONTEXT_MAX);
	dso__put(dso);
}

/**
 * callchain_mark__find - resolve a mark in a callchain
 * @thread: the sampled thread
 * @ip: the callchain entry
 * @al: map, address and symbol are set if @ip is a mark
 *
 * Return: true if @ip is a mark that could be resolved.
 */
bool callchain_mark__find(struct thread *thread, u64 ip, struct addr_location *al)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (!ip_callchain__is_mark(ip))
		return false;

	pthread_once(&once, mark_map__init);
	if (!mark_map)
		return false;

	maps__put(al->maps);
	al->maps = maps__get(thread__maps(thread));
	map__put(al->map);
	al->map = map__get(mark_map);
	al->addr = map__map_ip(mark_map, ip);
	al->sym = dso__find_symbol_nocache(map__dso(mark_map), al->addr);
	return true;
}
