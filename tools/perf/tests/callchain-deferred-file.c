// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of deferred user callchains in whole files, damaged ones and those of
 * the other byte order too.
 *
 * Two words of the file header do not matter here, and the attribute has a
 * 64-bit id of its own: EVENT_ID.
 */
#include <byteswap.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/err.h>
#include <linux/kernel.h>

#include "callchain-deferred.h"
#include "data.h"
#include "debug.h"
#include "header.h"
#include "session.h"
#include "tests.h"
#include "tool.h"

#define KERNEL_IP	0xffffffff81000000ULL
#define EVENT_ID	77

struct file {
	FILE *fp;
	bool swap;
	bool sample_id_all;
};

static void put64(const struct file *file, u64 val)
{
	if (file->swap)
		val = bswap_64(val);
	fwrite(&val, sizeof(val), 1, file->fp);
}

static void put32(const struct file *file, u32 val)
{
	if (file->swap)
		val = bswap_32(val);
	fwrite(&val, sizeof(val), 1, file->fp);
}

static void put_header(const struct file *file, u32 type, u16 misc, u16 size)
{
	put32(file, type);
	if (file->swap) {
		misc = bswap_16(misc);
		size = bswap_16(size);
	}
	fwrite(&misc, sizeof(misc), 1, file->fp);
	fwrite(&size, sizeof(size), 1, file->fp);
}

static u8 reverse_bits(u8 val)
{
	u8 ret = 0;
	int i;

	for (i = 0; i < 8; i++)
		ret |= ((val >> i) & 1) << (7 - i);
	return ret;
}

static void put_attr(const struct file *file)
{
	struct perf_event_attr attr = {
		.sample_id_all   = file->sample_id_all,
		.defer_callchain = 1,
		.defer_output    = 1,
	};
	u8 *flags = (u8 *)(&attr.read_format + 1);
	int i;

	put32(file, PERF_TYPE_SOFTWARE);
	put32(file, sizeof(attr));
	put64(file, PERF_COUNT_SW_CPU_CLOCK);
	put64(file, 1000);
	put64(file, PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
		    PERF_SAMPLE_CALLCHAIN);
	put64(file, PERF_FORMAT_ID);
	for (i = 0; i < 8; i++)
		fputc(file->swap ? reverse_bits(flags[i]) : flags[i], file->fp);
	for (i = 48; i < (int)sizeof(attr); i++)
		fputc(0, file->fp);
}

static void put_sample(const struct file *file, u32 tid, u64 time, u64 cookie)
{
	put_header(file, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL, 8 + 9 * 8);
	put64(file, EVENT_ID);
	put64(file, KERNEL_IP);
	put32(file, tid);
	put32(file, tid);
	put64(file, time);
	put64(file, 4);
	put64(file, PERF_CONTEXT_KERNEL);
	put64(file, KERNEL_IP);
	put64(file, PERF_CONTEXT_USER_DEFERRED);
	put64(file, cookie);
}

/* A record whose two lengths may be wrong. */
static void put_record(const struct file *file, u32 tid, u64 time, u64 cookie, u64 nr, u64 nr_said,
		       u16 size_said)
{
	u16 size = 24 + nr * 8 + (file->sample_id_all ? 24 : 0);
	u64 i;

	put_header(file, PERF_RECORD_CALLCHAIN_DEFERRED, PERF_RECORD_MISC_USER, size_said ?: size);
	put64(file, cookie);
	put64(file, nr_said);
	for (i = 0; i < nr; i++)
		put64(file, cookie * 16 + i);
	if (file->sample_id_all) {
		put32(file, tid);
		put32(file, tid);
		put64(file, time);
		put64(file, EVENT_ID);
	}
}

/* The file header with its id, attribute and data sections. */
static void put_file_header(const struct file *file, u64 data_size)
{
	const u64 header_size = 104, attr_size = sizeof(struct perf_event_attr) + 16;
	int i;

	rewind(file->fp);
	if (file->swap)
		fwrite("2ELIFREP", 8, 1, file->fp);
	else
		fwrite("PERFILE2", 8, 1, file->fp);
	put64(file, header_size);
	put64(file, attr_size);
	put64(file, header_size + 8);
	put64(file, attr_size);
	put64(file, header_size + 8 + attr_size);
	put64(file, data_size);
	for (i = 0; i < 6; i++)
		put64(file, 0);
	put64(file, EVENT_ID);
	put_attr(file);
	put64(file, header_size);
	put64(file, 8);
}

struct file_tool {
	struct perf_tool tool;
	char out[128];
	u64 last_time;
	bool bad;
};

static int file_tool__sample(const struct perf_tool *tool, union perf_event *event __maybe_unused,
			     struct perf_sample *sample, struct evsel *evsel __maybe_unused,
			     struct machine *machine __maybe_unused)
{
	struct file_tool *ft = container_of(tool, struct file_tool, tool);
	const struct ip_callchain *chain = sample->callchain;
	size_t len = strlen(ft->out);
	u64 i;

	if (sample->time < ft->last_time || chain->nr < 4 || chain->ips[2] != PERF_CONTEXT_USER)
		ft->bad = true;
	ft->last_time = sample->time;
	for (i = 0; i < chain->nr; i++) {
		if (chain->ips[i] == PERF_CONTEXT_USER_DEFERRED)
			ft->bad = true;
	}
	if (chain->ips[chain->nr - 1] == CALLCHAIN_USER_LOST)
		snprintf(ft->out + len, sizeof(ft->out) - len, "S- ");
	else
		snprintf(ft->out + len, sizeof(ft->out) - len, "S%d ", (int)chain->nr - 3);
	return 0;
}

static int file_tool__callchain_deferred(const struct perf_tool *tool,
					 union perf_event *event __maybe_unused,
					 struct perf_sample *sample __maybe_unused,
					 struct evsel *evsel __maybe_unused,
					 struct machine *machine __maybe_unused)
{
	container_of(tool, struct file_tool, tool)->bad = true;
	return 0;
}

static int read_file(const char *path, struct file_tool *ft,
		     struct callchain_deferred_stats *stats)
{
	struct perf_data data = {
		.path  = path,
		.mode  = PERF_DATA_MODE_READ,
		.force = true,
	};
	struct perf_session *session;
	int ret;

	memset(ft, 0, sizeof(*ft));
	perf_tool__init(&ft->tool, /*ordered_events=*/true);
	ft->tool.sample = file_tool__sample;
	ft->tool.callchain_deferred = file_tool__callchain_deferred;
	ft->tool.no_warn = true;
	ft->tool.ordering_requires_timestamps = true;

	session = perf_session__new(&data, &ft->tool);
	if (IS_ERR(session))
		return PTR_ERR(session);

	ret = perf_session__process_events(session);
	if (session->callchain_deferred)
		*stats = *callchain_deferred__stats(session->callchain_deferred);
	perf_session__delete(session);
	return ret;
}

struct file_row {
	const char *name;
	bool hostile;
	u64 nr;
	u64 nr_said;
	u16 size_said;
};

static int write_file(const char *path, bool swap, bool sample_id_all, const struct file_row *row)
{
	struct file file = { .swap = swap, .sample_id_all = sample_id_all };
	long start;
	u64 size;

	file.fp = fopen(path, "w");
	if (!file.fp)
		return -errno;

	put_file_header(&file, 0);
	start = ftell(file.fp);

	/* As from two buffers: the second begins with a record of the first. */
	put_sample(&file, 1, 100, 3);
	put_sample(&file, 1, 120, 5);
	put_sample(&file, 1, 140, 7);
	if (row)
		put_record(&file, 1, 145, 7, row->nr, row->nr_said, row->size_said);
	put_sample(&file, 1, 160, 9);
	put_sample(&file, 2, 90, 11);
	put_record(&file, 1, 110, 3, 1, 1, 0);
	put_record(&file, 1, 130, 5, 2, 2, 0);
	put_record(&file, 1, 150, 9, 4, 4, 0);
	put_record(&file, 3, 155, 13, 4, 4, 0);

	size = ftell(file.fp) - start;
	put_file_header(&file, size);
	return fclose(file.fp);
}

/*
 * Make the file @cut bytes shorter than its header says. Or, if it is 0, let the data end
 * where it begins to, by a size of nearly 2^64.
 */
static int cut_file(const char *path, bool swap, bool sample_id_all, int cut)
{
	struct file file = { .swap = swap, .sample_id_all = sample_id_all };
	long start, end;

	file.fp = fopen(path, "r+");
	if (!file.fp)
		return -errno;

	fseek(file.fp, 0, SEEK_END);
	end = ftell(file.fp);
	put_file_header(&file, 0);
	start = ftell(file.fp);
	put_file_header(&file, cut ? (u64)(end - start) : -168ULL);
	if (fclose(file.fp))
		return -errno;
	return truncate(path, end - cut) ? -errno : 0;
}

static int test__file(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	static const struct file_row hostile[] = {
		{ "nr too large",	true,	2, 100,			0 },
		{ "nr one too large",	true,	0, 4,			0 },
		{ "nr near 2^61",	true,	2, (1ULL << 61) - 2,	0 },
		{ "nr 2^61",		true,	2, 1ULL << 61,		0 },
		{ "nr 2^64 - 1",	true,	2, -1ULL,		0 },
		{ "size 8",		true,	2, 2,			8 },
		{ "size 16",		true,	2, 2,			16 },
		{ "size 24, nr 1",	true,	2, 1,			24 },
		{ "size 33",		true,	2, 1,			33 },
		{ "size 65535",		true,	2, 1,			65535 },
	};
	struct callchain_deferred_stats stats = {};
	struct file_tool ft;
	char path[] = "/tmp/perf-test-deferred.XXXXXX";
	int fd = mkstemp(path), i, ret = TEST_FAIL;
	size_t row;

	TEST_ASSERT_VAL("temporary file", fd >= 0);
	close(fd);

	/* Each combination of byte order and sample_id_all. */
	for (i = 0; i < 4; i++) {
		bool swap = i & 1, sample_id_all = i & 2;
		/* Without sample_id_all a record has no time, and events are not sorted. */
		const char *expected = sample_id_all ? "S- S1 S2 S- S4 " : "S1 S2 S- S4 S- ";

		if (write_file(path, swap, sample_id_all, NULL) || read_file(path, &ft, &stats)) {
			pr_debug("cannot write or read %s\n", path);
			goto out;
		}
		pr_debug("swapped %d, sample_id_all %d: %s\n", swap, sample_id_all, ft.out);
		if (strcmp(ft.out, expected) || (ft.bad && sample_id_all))
			goto out;
		if (stats.merged != 3 || stats.lost != 2 || stats.records != 4 ||
		    stats.foreign != 1)
			goto out;

		for (row = 0; row < ARRAY_SIZE(hostile); row++) {
			int err = write_file(path, swap, sample_id_all, &hostile[row]);

			if (err)
				goto out;
			err = read_file(path, &ft, &stats);
			pr_debug("%s: %d\n", hostile[row].name, err);
			if (err >= 0)
				goto out;
		}

		/* Not all of the last record is left, then half of its header. */
		for (row = 0; row < 2; row++) {
			int size = 24 + 4 * 8 + (sample_id_all ? 24 : 0);

			if (write_file(path, swap, sample_id_all, NULL) ||
			    cut_file(path, swap, sample_id_all, row ? size - 4 : 4) ||
			    read_file(path, &ft, &stats))
				goto out;
			pr_debug("truncated: %s\n", ft.out);
			if (strcmp(ft.out, expected) || stats.merged != 3 || stats.lost != 2 ||
			    stats.records != 3 || stats.foreign)
				goto out;
		}

		if (write_file(path, swap, sample_id_all, NULL) ||
		    cut_file(path, swap, sample_id_all, 0) || read_file(path, &ft, &stats) >= 0)
			goto out;
	}
	ret = TEST_OK;
out:
	unlink(path);
	return ret;
}

static struct test_case tests__callchain_deferred_file[] = {
	TEST_CASE("Deferred callchains in files", file),
	{	.name = NULL, }
};

struct test_suite suite__callchain_deferred_file = {
	.desc = "Files with deferred user callchains",
	.test_cases = tests__callchain_deferred_file,
};
