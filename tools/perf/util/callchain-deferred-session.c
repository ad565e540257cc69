// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user callchains in a session: every tool gets merged samples.
 *
 * A file is read once for the records alone before its events are processed, with a
 * progress bar of its own. Addresses stay in the mapping of the file where possible. The
 * user may stop this pass, and the processing; samples that are still processed then may
 * lack their records. From a pipe, samples wait for their records. Events arrive here
 * right before they are delivered, in time order if the tool wants that.
 *
 * Compressed data is uncompressed here, and again when the events are processed. That
 * costs 900 instructions for a sample of 190 bytes, where perf script spends 60000
 * on it and perf inject 2900. The session's readers keep the data that they uncompress,
 * but each in its own list, with the state of its stream. Filling these lists here would
 * need a second path through the reader, also for files that end early.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <linux/kernel.h>
#include <linux/zalloc.h>
#include <byteswap.h>

#include "callchain-deferred.h"
#include "compress.h"
#include "data.h"
#include "debug.h"
#include "evlist.h"
#include "memswap.h"
#include "session.h"
#include "tool.h"
#include "ui/progress.h"
#include "util.h"
#include <internal/lib.h>

/* Limit of events with their records, and again of records alone, held from a pipe. */
#define PIPE_MAX_BYTES		(256UL * 1024 * 1024)

/**
 * struct dc_scan - state of reading one file's records
 * @session: the session
 * @copy: records must be copied, because the data that is read does not stay
 * @nested: the events come from a compressed one
 * @prog: the progress bar
 * @zstd: the compressed stream
 * @rest: uncompressed data, whose last event may be incomplete
 * @nr_rest: bytes in @rest
 */
struct dc_scan {
	struct perf_session	*session;
	bool			copy;
	bool			nested;
	struct ui_progress	*prog;
	struct zstd_data	zstd;
	char			*rest;
	size_t			nr_rest;
	char			buf[PERF_SAMPLE_MAX_SIZE] __aligned(8);
};

static int parse_held(void *data, union perf_event *event, struct perf_sample *sample)
{
	struct perf_session *session = data;

	return evlist__parse_sample(session->evlist, event, sample);
}

static int deliver_held(void *data, union perf_event *event, struct perf_sample *sample,
			u64 file_offset, const char *file_path)
{
	struct perf_session *session = data;

	/* FINISHED_ROUND, the only held event that perf writes. */
	if (!sample)
		return session->tool->finished_round(session->tool, event,
						     &session->ordered_events);

	return perf_session__deliver_sample(session, event, sample, file_offset, file_path);
}

static u16 max_stack_of_sample(void *data, const struct perf_sample *sample)
{
	struct perf_session *session = data;

	return evlist__sample_max_stack(session->evlist, sample);
}

static bool call_stack_of_sample(void *data, const struct perf_sample *sample)
{
	struct perf_session *session = data;

	return evlist__sample_has_call_stack(session->evlist, sample);
}

static unsigned int needs_of_sample(void *data, const struct perf_sample *sample)
{
	struct perf_session *session = data;

	return evlist__sample_needs(session->evlist, sample);
}

static u64 mask_of_sample(void *data, const struct perf_sample *sample)
{
	struct perf_session *session = data;

	return evlist__sample_regs_mask(session->evlist, sample);
}

static u64 mask_of_record(void *data, union perf_event *event)
{
	struct perf_session *session = data;

	return evlist__user_state_mask(session->evlist, event);
}

static const struct callchain_deferred_ops session_ops = {
	.parse     = parse_held,
	.deliver   = deliver_held,
	.max_stack = max_stack_of_sample,
	.call_stack = call_stack_of_sample,
	.needs = needs_of_sample,
	.regs_mask = mask_of_sample,
	.state_mask = mask_of_record,
};

/* Returns an event with its header in native byte order. The file is not modified. */
static union perf_event *scan_fetch(struct dc_scan *scan, void *data,
				    const struct perf_event_header *header)
{
	union perf_event *event = data;

	if (scan->session->header.needs_swap) {
		memcpy(scan->buf, data, header->size);
		event = (union perf_event *)scan->buf;
		event->header = *header;
	}
	return event;
}

static int scan_record(struct dc_scan *scan, union perf_event *event)
{
	struct perf_session *session = scan->session;
	struct perf_sample sample;

	if (session->header.needs_swap)
		mem_bswap_64(&event->header + 1, event->header.size - sizeof(event->header));

	if (evlist__parse_sample(session->evlist, event, &sample))
		return -EINVAL;

	if (event->header.type == PERF_RECORD_USER_STATE_DEFERRED)
		return callchain_deferred__add_state(session->callchain_deferred, event,
						     &sample, scan->copy);

	return callchain_deferred__add(session->callchain_deferred, &event->callchain_deferred,
				       &sample, scan->copy);
}

static ssize_t scan_events(struct dc_scan *scan, void *data, u64 size);

static int scan_compressed(struct dc_scan *scan, union perf_event *event)
{
	size_t len = min_t(size_t, scan->session->header.env.comp_mmap_len, DECOMP_MAX_BYTES);
	size_t src_size = event->header.size - sizeof(struct perf_record_compressed);
	void *src = (void *)event + sizeof(struct perf_record_compressed);
	bool copy = scan->copy;
	char *rest;
	size_t nr;
	ssize_t done;

	/* The events that are being read are in @rest, so do not reallocate it. */
	if (scan->nested || !len)
		return -EINVAL;

	rest = realloc(scan->rest, scan->nr_rest + len);
	if (!rest)
		return -ENOMEM;
	scan->rest = rest;

	nr = zstd_decompress_stream(&scan->zstd, src, src_size, rest + scan->nr_rest, len);
	if (!nr)
		return -EINVAL;
	nr += scan->nr_rest;

	scan->copy = true;
	scan->nested = true;
	done = scan_events(scan, rest, nr);
	scan->nested = false;
	scan->copy = copy;
	if (done < 0)
		return done;

	scan->nr_rest = nr - done;
	memmove(rest, rest + done, scan->nr_rest);
	return 0;
}

/**
 * scan_events - find the records in a range of events
 * @scan: state of this file
 * @data: the events
 * @size: bytes in @data
 *
 * Stops at a broken event, where the second pass stops as well and reports it, or
 * when the user stops it.
 *
 * Return: the number of bytes in complete events, or an error.
 */
static ssize_t scan_events(struct dc_scan *scan, void *data, u64 size)
{
	bool swap = scan->session->header.needs_swap;
	u64 pos = 0, start;
	int ret = 0;

	while (!ret && !session_done() && size - pos >= sizeof(struct perf_event_header)) {
		const struct perf_record_auxtrace *aux = data + pos;
		struct perf_event_header header = aux->header;
		u64 skip = 0;

		if (swap)
			perf_event_header__bswap(&header);
		if (header.size < sizeof(header))
			return -EINVAL;
		if (header.size > size - pos)
			break;

		if (header.type == PERF_RECORD_CALLCHAIN_DEFERRED ||
		    header.type == PERF_RECORD_USER_STATE_DEFERRED)
			ret = scan_record(scan, scan_fetch(scan, data + pos, &header));
		else if (header.type == PERF_RECORD_COMPRESSED)
			ret = scan_compressed(scan, scan_fetch(scan, data + pos, &header));
		else if (header.type == PERF_RECORD_AUXTRACE && header.size >= sizeof(*aux))
			skip = swap ? bswap_64(aux->size) : aux->size;

		start = pos;
		pos += header.size;
		if (skip > size - pos)
			break;
		pos += skip;
		if (!scan->nested)
			ui_progress__update(scan->prog, pos - start);
	}
	return ret ?: (ssize_t)pos;
}

static int scan_file(struct perf_session *session, struct ui_progress *prog, int fd, u64 offset,
		     u64 size)
{
	u64 start = round_down(offset, page_size);
	struct dc_scan *scan;
	struct stat st;
	ssize_t ret;
	void *map;

	/* Mapped pages beyond the end of the file must not be read. */
	if (fstat(fd, &st) || st.st_size < 0 || offset >= (u64)st.st_size)
		return 0;

	size = min(size, (u64)st.st_size - offset);
	if (!size)
		return 0;

	scan = zalloc(sizeof(*scan));
	if (!scan)
		return -ENOMEM;

	scan->session = session;
	scan->prog = prog;
	scan->copy = session->header.needs_swap;
	ret = zstd_init(&scan->zstd, 0);
	if (ret)
		goto out;

	map = mmap(NULL, size + offset - start, PROT_READ, MAP_SHARED, fd, start);
	if (map == MAP_FAILED) {
		ret = -errno;
		goto out;
	}
	ret = scan_events(scan, map + offset - start, size);

	/* Without copies, the mapping stays until the process ends, as that of the second pass. */
	if (scan->copy)
		munmap(map, size + offset - start);
out:
	zstd_fini(&scan->zstd);
	free(scan->rest);
	free(scan);
	return ret == -ENOMEM ? ret : 0;
}

static int scan_session(struct perf_session *session)
{
	struct perf_data *data = session->data;
	int i, ret, nr_files = perf_data__is_dir(data) ? data->dir.nr : 0;
	u64 size = session->header.data_size;
	struct ui_progress prog;

	for (i = 0; i < nr_files; i++)
		size += data->dir.files[i].size;
	pr_debug("Looking for the records of deferred callchains\n");
	ui_progress__init_size(&prog, size, "Looking for user callchains...");

	ret = scan_file(session, &prog, perf_data__fd(data), session->header.data_offset,
			session->header.data_size);
	for (i = 0; !ret && i < nr_files; i++)
		ret = scan_file(session, &prog, data->dir.files[i].fd, 0,
				data->dir.files[i].size);

	ui_progress__finish();
	return ret;
}

/**
 * perf_session__start_callchains - prepare for merging
 * @session: the session, with known events of which none was processed
 *
 * Does nothing if there are no deferred callchains, or if the tool or the raw dump
 * needs samples and records separately.
 *
 * Return: 0 or -ENOMEM.
 */
int perf_session__start_callchains(struct perf_session *session)
{
	bool is_pipe = perf_data__is_pipe(session->data);
	const struct callchain_deferred_limits limits = {
		.max_bytes = is_pipe ? PIPE_MAX_BYTES : 0,
	};

	/* perf inject calls this early, and each attribute in a pipe calls it again. */
	if (session->callchain_deferred)
		return 0;

	if (dump_trace || !session->tool->merge_deferred_callchains ||
	    !evlist__has_callchain_deferred(session->evlist))
		return 0;

	session->callchain_deferred = callchain_deferred__new(&session_ops, session, &limits);
	if (!session->callchain_deferred)
		return -ENOMEM;

	return is_pipe ? 0 : scan_session(session);
}

/**
 * perf_session__skips - is this a record that nobody asks for?
 * @session: the session
 * @event: an event that was read
 *
 * A tool that does not merge, as perf record when it looks for build-ids, need not sort the
 * records: that takes as long as for the samples.
 *
 * Return: true if the event need not be delivered.
 */
bool perf_session__skips(const struct perf_session *session, const union perf_event *event)
{
	const struct perf_tool *tool = session->tool;

	if (session->callchain_deferred || dump_trace)
		return false;
	switch (event->header.type) {
	case PERF_RECORD_CALLCHAIN_DEFERRED:
		return tool->callchain_deferred == process_event_sample_stub;
	case PERF_RECORD_USER_STATE_DEFERRED:
		return tool->user_state_deferred == process_event_sample_stub;
	default:
		return false;
	}
}

/*
 * Parsing a sample in the other byte order swaps parts of it in place, and a held
 * sample is parsed twice. So keep the original and parse a copy.
 */
union perf_event *perf_session__event_to_parse(struct perf_session *session,
					       union perf_event *event)
{
	if (!session->callchain_deferred || !session->header.needs_swap ||
	    event->header.type != PERF_RECORD_SAMPLE)
		return event;

	return callchain_deferred__copy_event(session->callchain_deferred, event);
}

/**
 * perf_session__feed_callchain - see callchain_deferred__feed()
 * @session: the session
 * @event: the next event to be delivered
 * @sample: parsed from it
 * @file_offset: for a later delivery
 * @file_path: for a later delivery
 *
 * Return: 0 if the event is to be delivered now, 1 if not, or an error.
 */
int perf_session__feed_callchain(struct perf_session *session, union perf_event *event,
				 struct perf_sample *sample, u64 file_offset,
				 const char *file_path)
{
	if (!session->callchain_deferred)
		return 0;

	return callchain_deferred__feed(session->callchain_deferred, event, sample,
					file_offset, file_path);
}

/**
 * perf_session__hold_event - queue one of perf's own events after the held ones
 * @session: the session
 * @event: PERF_RECORD_FINISHED_ROUND
 *
 * If this session does not sort the events, a later reader will, and relies on the
 * rounds. If it does, this event triggers the sorting and is not held.
 *
 * Return: 0 if the event is to be processed now, 1 if not, or an error.
 */
int perf_session__hold_event(struct perf_session *session, union perf_event *event)
{
	if (!session->callchain_deferred || session->tool->ordered_events)
		return 0;

	return callchain_deferred__hold(session->callchain_deferred, event);
}

int perf_session__flush_callchains(struct perf_session *session)
{
	return session->callchain_deferred ?
		callchain_deferred__flush(session->callchain_deferred) : 0;
}

/* Returns the number of samples without their record, and in @all of all samples. */
static __u64 callchain_deferred__missing(const struct callchain_deferred *cd, __u64 *all)
{
	const struct callchain_deferred_stats *stats = callchain_deferred__stats(cd);
	__u64 missing = stats->lost + stats->late + stats->failed;

	*all = missing + stats->merged + stats->empty;
	return missing;
}

/* For the status line of perf top, next to the events that are lost. */
size_t callchain_deferred__scnprintf_late(const struct callchain_deferred *cd, char *bf,
					  size_t size)
{
	__u64 late, all;

	if (!cd)
		return 0;

	late = callchain_deferred__missing(cd, &all);
	return scnprintf(bf, size, " late: %" PRI_lu64 "/%" PRI_lu64, late, all);
}

void perf_session__warn_callchains(const struct perf_session *session)
{
	const struct callchain_deferred *cd = session->callchain_deferred;
	__u64 bad, all;

	if (!cd)
		return;

	bad = callchain_deferred__missing(cd, &all) + callchain_deferred__stats(cd)->empty;
	if (bad && bad >= all / 20)
		pr_warning("Deferred callchains: %" PRI_lu64 " of %" PRI_lu64
			   " are missing or empty.\n", bad, all);
}

size_t callchain_deferred__fprintf_stats(const struct callchain_deferred *cd, FILE *fp)
{
#define LINE(name, field) { name, offsetof(struct callchain_deferred_stats, field) }
	static const struct {
		const char *name;
		size_t offset;
	} lines[] = {
		LINE("samples merged",		merged),
		LINE("samples empty",		empty),
		LINE("samples lost",		lost),
		LINE("samples late",		late),
		LINE("samples failed",		failed),
		LINE("samples truncated",	truncated),
		LINE("samples cut",		cut),
		LINE("samples joined",		joined),
		LINE("records",			records),
		LINE("records foreign",		foreign),
		LINE("records duplicate",	duplicate),
	};
#undef LINE
	const void *stats;
	size_t i, ret;

	if (!cd)
		return 0;

	stats = callchain_deferred__stats(cd);
	ret = fprintf(fp, "\nDeferred user callchains:\n");
	for (i = 0; i < ARRAY_SIZE(lines); i++)
		ret += fprintf(fp, "%20s: %10" PRI_lu64 "\n", lines[i].name,
			       *(const __u64 *)(stats + lines[i].offset));
	return ret;
}
