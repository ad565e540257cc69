// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of deferred user callchains in files and in data from a pipe, including
 * damaged data and data in the other byte order.
 *
 * Two words of the file header do not matter here. The attribute has the 64-bit
 * id EVENT_ID.
 */
#include <byteswap.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <linux/err.h>
#include <linux/kernel.h>

#include "tests/callchain-deferred.h"
#include "util/callchain-deferred.h"
#include "compress.h"
#include "data.h"
#include "header.h"
#include "session.h"
#include "tool.h"
#ifdef HAVE_SFRAME_SUPPORT
#include "../../sframe/server.h"
#include "record-sframe.h"
#endif

#define EVENT_ID	77

/* A file that does not exist. */
#define MAPPED_FILE	"/a/file"

/* Raw data at the end of a sample; the 32-bit size precedes it. */
static const char raw_data[12] = "raw bytes..";

/**
 * struct format - how the data is written
 * @swap: in the other byte order
 * @sample_id_all: records have a task and a time
 * @pipe: attributes are in the data, and records are not known beforehand
 * @nr_comp: how many times the data is compressed
 * @comp_mmap_len: the size that compressed data may need, according to the header
 * @mapped: the first task maps all addresses from MAPPED_FILE
 */
struct format {
	bool swap;
	bool sample_id_all;
	bool pipe;
	int nr_comp;
	u32 comp_mmap_len;
	bool mapped;
};

struct file {
	FILE *fp;
	const struct format *fmt;
};

static void put64(const struct file *file, u64 val)
{
	if (file->fmt->swap)
		val = bswap_64(val);
	fwrite(&val, sizeof(val), 1, file->fp);
}

static void put32(const struct file *file, u32 val)
{
	if (file->fmt->swap)
		val = bswap_32(val);
	fwrite(&val, sizeof(val), 1, file->fp);
}

static void put_header(const struct file *file, u32 type, u16 misc, u16 size)
{
	put32(file, type);
	if (file->fmt->swap) {
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
		.sample_id_all   = file->fmt->sample_id_all,
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
		    PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_RAW);
	put64(file, PERF_FORMAT_ID);
	for (i = 0; i < 8; i++)
		fputc(file->fmt->swap ? reverse_bits(flags[i]) : flags[i], file->fp);
	for (i = 48; i < (int)sizeof(attr); i++)
		fputc(0, file->fp);
}

static void put_sample(const struct file *file, u32 tid, u64 time, u64 cookie)
{
	put_header(file, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL, 8 + 11 * 8);
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
	put32(file, sizeof(raw_data));
	fwrite(raw_data, sizeof(raw_data), 1, file->fp);
}

static void put_id(const struct file *file, u32 tid, u64 time)
{
	if (!file->fmt->sample_id_all)
		return;
	put32(file, tid);
	put32(file, tid);
	put64(file, time);
	put64(file, EVENT_ID);
}

static void put_mmap(const struct file *file, u32 tid, u64 time)
{
	const char name[8] = MAPPED_FILE;

	put_header(file, PERF_RECORD_MMAP, PERF_RECORD_MISC_USER,
		   8 + 4 * 8 + sizeof(name) + (file->fmt->sample_id_all ? 24 : 0));
	put32(file, tid);
	put32(file, tid);
	put64(file, 0);
	put64(file, 1 << 12);
	put64(file, 0);
	fwrite(name, sizeof(name), 1, file->fp);
	put_id(file, tid, time);
}

/* A record whose two lengths may be wrong. */
static void put_record(const struct file *file, u32 tid, u64 time, u64 cookie, u64 nr, u64 nr_said,
		       u16 size_said)
{
	u16 size = 24 + nr * 8 + (file->fmt->sample_id_all ? 24 : 0);
	u64 i;

	put_header(file, PERF_RECORD_CALLCHAIN_DEFERRED, PERF_RECORD_MISC_USER, size_said ?: size);
	put64(file, cookie);
	put64(file, nr_said);
	for (i = 0; i < nr; i++)
		put64(file, cookie * 16 + i);
	put_id(file, tid, time);
}

/* The file header with its id, attribute and data sections, or that of a pipe. */
static void put_file_header(const struct file *file, u64 data_size)
{
	const u64 header_size = 104, attr_size = sizeof(struct perf_event_attr) + 16;
	int i;

	rewind(file->fp);
	fwrite(file->fmt->swap ? "2ELIFREP" : "PERFILE2", 8, 1, file->fp);
	if (file->fmt->pipe) {
		put64(file, 16);
		put_header(file, PERF_RECORD_HEADER_ATTR, 0, 8 + attr_size - 8);
		put_attr(file);
		put64(file, EVENT_ID);
		return;
	}

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
	size_t room;
	bool unsorted;
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

	if (sample->time < ft->last_time)
		ft->unsorted = true;
	ft->last_time = sample->time;
	if (chain->nr < 4 || chain->ips[2] != PERF_CONTEXT_USER)
		ft->bad = true;
	if (sample->raw_size != sizeof(raw_data) ||
	    memcmp(sample->raw_data, raw_data, sizeof(raw_data)))
		ft->bad = true;
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

static int read_file(const char *path, const struct format *fmt, struct file_tool *ft,
		     struct callchain_deferred_stats *stats)
{
	struct perf_data data = {
		.path  = path,
		.mode  = PERF_DATA_MODE_READ,
		.force = true,
	};
	struct perf_session *session;
	struct decomp *decomp;
	int ret;

	memset(ft, 0, sizeof(*ft));
	perf_tool__init(&ft->tool, /*ordered_events=*/true);
	ft->tool.attr = perf_event__process_attr;
	ft->tool.sample = file_tool__sample;
	ft->tool.callchain_deferred = file_tool__callchain_deferred;
	ft->tool.no_warn = true;
	ft->tool.ordering_requires_timestamps = true;

	session = perf_session__new(&data, &ft->tool);
	if (IS_ERR(session))
		return PTR_ERR(session);

	session->header.env.comp_mmap_len = fmt->comp_mmap_len;
	ret = perf_session__process_events(session);
	if (session->callchain_deferred)
		*stats = *callchain_deferred__stats(session->callchain_deferred);
	for (decomp = session->decomp_data.decomp; decomp; decomp = decomp->next)
		ft->room = max(ft->room, decomp->mmap_len);
	perf_session__delete(session);
	return ret;
}

struct file_row {
	const char *name;
	u64 nr;
	u64 nr_said;
	u16 size_said;
};

static void put_events(const struct file *file, const struct file_row *row)
{
	if (file->fmt->mapped)
		put_mmap(file, 1, 80);
	/* As from two buffers: the second has records for samples of the first. */
	put_sample(file, 1, 100, 3);
	put_sample(file, 1, 120, 5);
	put_sample(file, 1, 140, 7);
	if (row)
		put_record(file, 1, 145, 7, row->nr, row->nr_said, row->size_said);
	put_sample(file, 1, 160, 9);
	put_sample(file, 2, 90, 11);
	put_record(file, 1, 110, 3, 1, 1, 0);
	put_record(file, 1, 130, 5, 2, 2, 0);
	put_record(file, 1, 150, 9, 4, 4, 0);
	put_record(file, 3, 155, 13, 4, 4, 0);
}

static size_t put_comp_header(void *record, size_t increment)
{
	struct perf_event_header *header = record;

	if (increment) {
		header->size += increment;
		return increment;
	}
	header->type = PERF_RECORD_COMPRESSED;
	header->misc = 0;
	header->size = sizeof(*header);
	return header->size;
}

/* Write the events as compressed data, nested @nr times. */
static int put_compressed(const struct file *file, int nr)
{
	struct zstd_data zstd = {};
	struct file inner = { .fmt = file->fmt };
	char *data = NULL, out[4096];
	size_t size = 0;
	ssize_t len;
	int ret = 0;

	if (!nr) {
		put_events(file, NULL);
		return 0;
	}

	inner.fp = open_memstream(&data, &size);
	if (!inner.fp)
		return -ENOMEM;
	ret = put_compressed(&inner, nr - 1);
	fclose(inner.fp);

	zstd_init(&zstd, 1);
	len = zstd_compress_stream_to_records(&zstd, out, sizeof(out), data, size, sizeof(out),
					      put_comp_header);
	zstd_fini(&zstd);
	free(data);
	if (len > 0)
		fwrite(out, len, 1, file->fp);
	return ret ?: len > 0 ? 0 : -ENOTSUP;
}

static int write_file(const char *path, const struct format *fmt, const struct file_row *row)
{
	struct file file = { .fp = fopen(path, "w"), .fmt = fmt };
	long start;
	u64 size;
	int ret = 0;

	if (!file.fp)
		return -errno;

	put_file_header(&file, 0);
	start = ftell(file.fp);
	if (fmt->nr_comp)
		ret = put_compressed(&file, fmt->nr_comp);
	else
		put_events(&file, row);
	size = ftell(file.fp) - start;
	put_file_header(&file, size);
	return fclose(file.fp) ?: ret;
}

/*
 * Make the file @cut bytes shorter than its header says. If @cut is 0, set a data size of
 * nearly 2^64 instead, so that the end of the data wraps around.
 */
static int cut_file(const char *path, const struct format *fmt, int cut)
{
	struct file file = { .fp = fopen(path, "r+"), .fmt = fmt };
	long start, end;

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

/* Read and compare. Events of a file are not sorted if only samples have a time. */
static int check_file(const char *path, const struct format *fmt, const char *name,
		      u64 nr_records)
{
	bool sorted = fmt->pipe || fmt->sample_id_all;
	const char *expected = sorted ? "S- S1 S2 S- S4 " : "S1 S2 S- S4 S- ";
	struct callchain_deferred_stats stats = {};
	struct file_tool ft;
	int err = read_file(path, fmt, &ft, &stats);

	pr_debug("%s, %s%s%s: %d %s\n", name, fmt->pipe ? "pipe" : "file",
		 fmt->swap ? ", swapped" : "", fmt->sample_id_all ? "" : ", no sample_id_all",
		 err, ft.out);
	TEST_ASSERT_VAL("read", !err);
	TEST_ASSERT_VAL("output", !strcmp(ft.out, expected));
	TEST_ASSERT_VAL("order", ft.unsorted == !sorted);
	TEST_ASSERT_VAL("callchains and raw data", !ft.bad);
	TEST_ASSERT_VAL("room for compressed data", ft.room < 257 << 20);
	TEST_ASSERT_VAL("samples", stats.merged == 3 && stats.lost == 2);
	TEST_ASSERT_VAL("records", stats.records == nr_records);
	TEST_ASSERT_VAL("foreign records", stats.foreign == nr_records - 3);
	return TEST_OK;
}

static int check_refused(const char *path, const struct format *fmt, const char *name)
{
	struct callchain_deferred_stats stats;
	struct file_tool ft;
	int err = read_file(path, fmt, &ft, &stats);

	pr_debug("%s: %d\n", name, err);
	TEST_ASSERT_VAL("refused", err < 0);
	return TEST_OK;
}

static int check_format(const char *path, const struct format *fmt)
{
	static const struct file_row hostile[] = {
		{ "nr too large",	2, 100,			0 },
		{ "nr one too large",	0, 4,			0 },
		{ "nr near 2^61",	2, (1ULL << 61) - 2,	0 },
		{ "nr 2^61",		2, 1ULL << 61,		0 },
		{ "nr 2^64 - 1",	2, -1ULL,		0 },
		{ "size 8",		2, 2,			8 },
		{ "size 16",		2, 2,			16 },
		{ "size 24, nr 1",	2, 1,			24 },
		{ "size 33",		2, 1,			33 },
		{ "size 65535",		2, 1,			65535 },
	};
	/* Keep only a part of the last record, then only half of its header. */
	const int size = 24 + 4 * 8 + (fmt->sample_id_all ? 24 : 0);
	const int cuts[] = { 4, size - 4 };
	size_t i;

	TEST_ASSERT_VAL("write", !write_file(path, fmt, NULL));
	if (check_file(path, fmt, "intact", 4))
		return TEST_FAIL;

	for (i = 0; i < ARRAY_SIZE(hostile); i++) {
		/* A pipe has no size, so the end of the data is not an error. */
		if (fmt->pipe && hostile[i].size_said == 65535)
			continue;
		TEST_ASSERT_VAL("write", !write_file(path, fmt, &hostile[i]));
		if (check_refused(path, fmt, hostile[i].name))
			return TEST_FAIL;
	}

	if (fmt->pipe)
		return TEST_OK;

	for (i = 0; i < ARRAY_SIZE(cuts); i++) {
		TEST_ASSERT_VAL("write", !write_file(path, fmt, NULL));
		TEST_ASSERT_VAL("cut", !cut_file(path, fmt, cuts[i]));
		if (check_file(path, fmt, "truncated", 3))
			return TEST_FAIL;
	}

	TEST_ASSERT_VAL("write", !write_file(path, fmt, NULL));
	TEST_ASSERT_VAL("cut", !cut_file(path, fmt, 0));
	return check_refused(path, fmt, "the data size wraps around");
}

static int run_on_file(int (*check)(const char *path))
{
	char path[] = "/tmp/perf-test-deferred.XXXXXX";
	int fd = mkstemp(path), ret;

	TEST_ASSERT_VAL("temporary file", fd >= 0);
	close(fd);
	ret = check(path);
	unlink(path);
	return ret;
}

static int check_formats(const char *path)
{
	int i, ret = TEST_OK;

	for (i = 0; i < 8 && ret == TEST_OK; i++) {
		const struct format fmt = {
			.swap          = i & 1,
			.sample_id_all = i & 2,
			.pipe          = i & 4,
		};

		ret = check_format(path, &fmt);
	}
	return ret;
}

static int test__file(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	return run_on_file(check_formats);
}

static int check_compressed(const char *path)
{
	enum outcome { MERGED, REFUSED, HARMLESS };
	static const struct {
		const char *name;
		int nr_comp;
		u32 comp_mmap_len;
		enum outcome outcome;
	} rows[] = {
		{ "compressed",		1, 1 << 16,	MERGED },
		{ "compressed twice",	2, 1 << 16,	REFUSED },
		{ "three times",	3, 1 << 16,	REFUSED },
		{ "no room",		1, 0,		REFUSED },
		{ "too little room",	1, 8,		HARMLESS },
		{ "4 GB of room",	1, UINT_MAX,	MERGED },
	};
	struct callchain_deferred_stats stats;
	struct file_tool ft;
	size_t i;

	for (i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
		const char *name = rows[i / 2].name;
		enum outcome outcome = rows[i / 2].outcome;
		const struct format fmt = {
			.sample_id_all = true,
			.pipe          = i & 1,
			.nr_comp       = rows[i / 2].nr_comp,
			.comp_mmap_len = rows[i / 2].comp_mmap_len,
		};
		int err = write_file(path, &fmt, NULL);

		if (err == -ENOTSUP)
			return TEST_SKIP;
		TEST_ASSERT_VAL("write", !err);
		if (outcome == MERGED && check_file(path, &fmt, name, 4))
			return TEST_FAIL;
		if (outcome == REFUSED && check_refused(path, &fmt, name))
			return TEST_FAIL;
		if (outcome == HARMLESS)
			pr_debug("%s: %d\n", name, read_file(path, &fmt, &ft, &stats));
	}
	return TEST_OK;
}

static int test__compressed(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	return run_on_file(check_compressed);
}

/* The user can stop the search for records, like the steps that follow. */
static int check_stopped(const char *path)
{
	int i;

	for (i = 0; i < 2; i++) {
		const struct format fmt = {
			.sample_id_all = true,
			.nr_comp       = i,
			.comp_mmap_len = 1 << 16,
		};
		struct callchain_deferred_stats stats = {};
		struct file_tool ft;
		int err = write_file(path, &fmt, NULL);

		if (err == -ENOTSUP)
			return TEST_OK;
		TEST_ASSERT_VAL("write", !err);
		session_done = 1;
		err = read_file(path, &fmt, &ft, &stats);
		session_done = 0;
		TEST_ASSERT_VAL("read", !err);
		TEST_ASSERT_VAL("records", !stats.records);
	}
	return TEST_OK;
}

static int test__stopped(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	return run_on_file(check_stopped);
}

/* Count samples that missing SFrame sections affect; a signal ends the counting. */
#ifdef HAVE_SFRAME_SUPPORT

/* Count as perf record does, with the data still open. */
static int count(struct sframe_missed_list *list, const char *path)
{
	struct perf_data data = { .path = path, .file.fd = open(path, O_RDONLY | O_CLOEXEC) };
	int err = data.file.fd < 0 ? -errno : sframe_missed__count(list, &data);

	if (data.file.fd >= 0)
		close(data.file.fd);
	return err;
}

/* By now the name may be that of another file. */
static int check_replaced(const char *path)
{
	const struct format fmt = { .sample_id_all = true };
	struct perf_data data = { .path = path };
	struct sframe_missed_list list = {};

	TEST_ASSERT_VAL("write", !write_file(path, &fmt, NULL));
	data.file.fd = open(path, O_RDONLY | O_CLOEXEC);
	TEST_ASSERT_VAL("open", data.file.fd >= 0);
	TEST_ASSERT_VAL("replace", !unlink(path) && !mkfifo(path, 0600));
	TEST_ASSERT_VAL("memory", !sframe_missed__add(&list, "/a/file", false, "has none"));
	TEST_ASSERT_VAL("count", !sframe_missed__count(&list, &data));
	TEST_EQUAL("samples", list.samples, 3);
	sframe_missed__exit(&list);
	close(data.file.fd);
	return TEST_OK;
}

/* Chains that end at the start of a task are complete; a file that hangs is not asked for that. */
static int check_starts(const char *path)
{
	static const struct {
		const char *why;
		u64 cut;
	} rows[] = {
		{ "is on a file system that may make up owners",	1 },
		{ SFRAME_HANGS,						3 },
		{ SFRAME_HANGS " soon",					3 },
		{ SFRAME_SLOW,						3 },
	};
	const struct format fmt = { .sample_id_all = true, .mapped = true };

	TEST_ASSERT_VAL("write", !write_file(path, &fmt, NULL));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sframe_missed_list list = {};

		pr_debug("%s\n", rows[i].why);
		TEST_ASSERT_VAL("memory", !sframe_missed__add(&list, MAPPED_FILE, false,
							      rows[i].why));
		/* The chains with cookies 3 and 5 end just after it. */
		list.files[0].entry = 3 * 16;
		TEST_ASSERT_VAL("count", !count(&list, path));
		TEST_EQUAL("in samples", list.files[0].in, 3);
		TEST_EQUAL("end there", list.files[0].cut, rows[i].cut);
		sframe_missed__exit(&list);
	}
	return TEST_OK;
}

/* Losses of every recording are no reason to count, but are counted with the others. */
static int check_counted(const char *path)
{
	const struct format fmt = { .sample_id_all = true, .mapped = true };
	struct sframe_missed_list list = {};
	int i;

	TEST_ASSERT_VAL("write", !write_file(path, &fmt, NULL));
	TEST_ASSERT_VAL("nothing", !sframe_missed__has_news(&list));
	TEST_ASSERT_VAL("memory", !sframe_missed__add(&list, MAPPED_FILE, true,
						      "has 2000 bytes " SFRAME_NO_WORDS));
	TEST_ASSERT_VAL("no news", !sframe_missed__has_news(&list));
	TEST_ASSERT_VAL("memory", !sframe_missed__add(&list, MAPPED_FILE, true,
						      SFRAME_UNUSED " in some stacks"));
	TEST_ASSERT_VAL("news", sframe_missed__has_news(&list));
	TEST_ASSERT_VAL("memory", !sframe_missed__add(&list, "/b/file", false, "has none"));
	TEST_ASSERT_VAL("count", !count(&list, path));
	TEST_EQUAL("samples", list.samples, 3);
	for (i = 0; i < 2; i++) {
		TEST_EQUAL("in samples", list.files[i].in, 3);
		TEST_EQUAL("end there", list.files[i].cut, 3);
	}
	TEST_EQUAL("another file", list.files[2].in, 0);
	sframe_missed__exit(&list);
	return TEST_OK;
}

static int test__counted(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	return run_on_file(check_counted) ?: run_on_file(check_starts) ?:
	       run_on_file(check_replaced);
}

/* Send the signal to this process after each millisecond. */
static int send_always(int sig)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = sig };
	struct itimerspec often = { { .tv_nsec = 1000000 }, { .tv_nsec = 1000000 } };
	timer_t timer;

	/* Ignored: perf record's handler has no effect at that time, either. */
	signal(sig, SIG_IGN);
	return timer_create(CLOCK_MONOTONIC, &event, &timer) ?:
	       timer_settime(timer, 0, &often, NULL);
}

/* Count until the signal interrupts a count; the limit is far more than that takes. */
static int count_until(const char *path, int sig)
{
	const struct format fmt = { .sample_id_all = true };
	struct sframe_missed_list list = {};
	int i, err = 0, former = verbose;

	TEST_ASSERT_VAL("write", !write_file(path, &fmt, NULL));
	TEST_ASSERT_VAL("memory", !sframe_missed__add(&list, "/a/file", false, "has none"));
	TEST_ASSERT_VAL("count", !count(&list, path));
	TEST_EQUAL("samples", list.samples, 3);
	TEST_ASSERT_VAL("timer", !send_always(sig));
	verbose = 0;
	for (i = 0; i < 20000 && !err; i++) {
		list.samples = 0;
		err = count(&list, path);
	}
	verbose = former;
	pr_debug("signal %d, counted %d times: %d\n", sig, i, err);
	TEST_ASSERT_VAL("interrupted", err == -EINTR);
	TEST_EQUAL("no samples", list.samples, 0);
	TEST_ASSERT_VAL("may go on", !session_done);
	sframe_missed__exit(&list);
	return TEST_OK;
}

static int check_signals(const char *path)
{
	static const int sigs[] = { SIGINT, SIGTERM };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sigs); i++) {
		int status;
		pid_t pid;

		fflush(NULL);
		pid = fork();
		if (!pid) {
			status = count_until(path, sigs[i]);
			fflush(NULL);
			_exit(status != TEST_OK);
		}
		TEST_ASSERT_VAL("child", pid > 0 && waitpid(pid, &status, 0) == pid);
		TEST_EQUAL("status", status, 0);
	}
	return TEST_OK;
}

static int test__signals(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	return run_on_file(check_signals);
}

#else /* HAVE_SFRAME_SUPPORT */

static int test__counted(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	return TEST_SKIP;
}

static int test__signals(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	return TEST_SKIP;
}

#endif /* HAVE_SFRAME_SUPPORT */

static struct test_case tests__callchain_deferred_file[] = {
	TEST_CASE("Deferred callchains in files", file),
	TEST_CASE_REASON("Deferred callchains in compressed files", compressed,
			 "no zstd in this perf"),
	TEST_CASE("Deferred callchains in files, stopped by the user", stopped),
	TEST_CASE_REASON("Deferred callchains of files without section counted", counted,
			 "no SFrame in this perf"),
	TEST_CASE_REASON("Deferred callchains counted until a signal", signals,
			 "no SFrame in this perf"),
	{	.name = NULL, }
};

struct test_suite suite__callchain_deferred_file = {
	.desc = "Files of deferred user callchains",
	.test_cases = tests__callchain_deferred_file,
};
