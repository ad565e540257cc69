// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the format of deferred user callchains: in options, in records, in the events
 * that perf inject writes, where they end, and where they were cut. No sample is merged
 * here.
 */
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uapi/linux/filter.h>
#include <linux/kernel.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/zalloc.h>

#include "callchain.h"
#include "tests/callchain-deferred.h"
#include "util/callchain-deferred.h"
#include "dso.h"
#include "evlist.h"
#include "evsel.h"
#include "machine.h"
#include "record.h"
#include "symbol.h"
#include "thread.h"
#include "util.h"

/* Option values. */

int test__deferred_options(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	static const struct {
		const char *arg;
		int ret;
		u16 max_stack;
	} rows[] = {
		{ "deferred",		0,	0 },
		{ "deferred,32",	0,	32 },
		{ "fp,defer",		0,	0 },
		{ "fp,32,defer",	0,	32 },
		{ "fp,defer,32",	0,	32 },
		{ "deferred,lbr",	0,	0 },
		{ "deferred,lbr,32",	0,	32 },
		{ "fp,32,lbr,defer",	0,	32 },
		{ "dwarf,defer",	0,	0 },
		{ "dwarf,4096,defer",	0,	0 },
		{ "fp",			1,	0 },
		{ "fp,32",		1,	0 },
		{ "dwarf",		1,	0 },
		{ "dwarf,4096",		1,	0 },
		{ "lbr",		1,	0 },
		{ "",			1,	0 },
		{ "deferre",		1,	0 },
		{ "fp,lbr",		-EINVAL, 0 },
		{ "deferred,lbr,lbr",	-EINVAL, 0 },
		{ "fp,defre",		-EINVAL, 0 },
		{ "fp,defer,defer",	-EINVAL, 0 },
		{ "fp,32,defer,32",	-EINVAL, 0 },
		{ "deferred,defer",	-EINVAL, 0 },
		{ "deferred,0",		-EINVAL, 0 },
		{ "deferred,-1",	-EINVAL, 0 },
		{ "deferred,99999999",	-EINVAL, 0 },
		{ "deferred,99999999999999999999", -EINVAL, 0 },
		{ "deferred,1k",	-EINVAL, 0 },
		{ "dwarf,defer,4096",	-EINVAL, 0 },
		{ "lbr,defer",		-EINVAL, 0 },
		{ "defer",		-EINVAL, 0 },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct callchain_param param = { .record_mode = CALLCHAIN_NONE };
		int ret = parse_callchain_deferred(rows[i].arg, &param);

		pr_debug("'%s': %d\n", rows[i].arg, ret);
		TEST_EQUAL("return value", ret, rows[i].ret);
		TEST_EQUAL("defer", param.defer, !ret);
		TEST_EQUAL("lbr", param.defer_lbr, !ret && strstr(rows[i].arg, "lbr"));
		TEST_EQUAL("max_stack", param.max_stack, rows[i].max_stack);
		if (!ret)
			TEST_EQUAL("mode", param.record_mode,
				   rows[i].arg[1] == 'w' ? CALLCHAIN_DWARF : CALLCHAIN_FP);
	}
	return TEST_OK;
}

/* An event with an option of its own gives up the branches of lbr, and not those of -b. */
int test__deferred_lbr(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	static const u64 types[] = {
		0, PERF_SAMPLE_BRANCH_ANY, PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_CALL_STACK,
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(types); i++) {
		struct perf_event_attr attr = { .size = sizeof(attr) };
		struct record_opts opts = { .branch_stack = types[i] };
		struct evsel *evsel = evsel__new(&attr);

		TEST_ASSERT_VAL("memory", evsel);
		evsel__config_callchain_lbr(evsel, &opts);
		TEST_EQUAL("lbr", evsel->core.attr.branch_sample_type != 0, !types[i]);
		if (types[i])
			evsel__set_sample_bit(evsel, BRANCH_STACK);
		evsel->core.attr.branch_sample_type |= types[i];
		evsel__reset_callchain_lbr(evsel);
		TEST_EQUAL("branches", evsel->core.attr.branch_sample_type, types[i]);
		TEST_EQUAL("sample", !!(evsel->core.attr.sample_type & PERF_SAMPLE_BRANCH_STACK),
			   !!types[i]);
		evsel__delete(evsel);
	}
	return TEST_OK;
}

int test__deferred_top_options(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	static const struct {
		const char *arg;
		const char *record;
		const char *rest;
	} rows[] = {
		{ "deferred",			"deferred",	"" },
		{ "deferred,32",		"deferred,32",	"" },
		{ "deferred,32,graph,0.5",	"deferred,32",	"graph,0.5" },
		{ "deferred,lbr,32,caller",	"deferred,lbr,32", "caller" },
		{ "deferred,0.5,caller",	"deferred",	"0.5,caller" },
		{ "fp,32,defer,caller",		"fp,32,defer",	"caller" },
		{ "fp,defer,32,0.5",		"fp,defer,32",	"0.5" },
		{ "dwarf,4096,defer,caller",	"dwarf,4096,defer", "caller" },
		{ "dwarf,4096",			NULL,		NULL },
		{ "fp,graph",			NULL,		NULL },
		{ "graph,0.5,caller",		NULL,		NULL },
		{ "fp,32",			NULL,		NULL },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		char *arg = strdup(rows[i].arg), *rest;

		TEST_ASSERT_VAL("memory", arg);
		rest = cut_callchain_deferred(arg);
		pr_debug("'%s': '%s' and '%s'\n", rows[i].arg, arg, rest ?: "(null)");
		TEST_ASSERT_VAL("cut", !rest == !rows[i].rest);
		if (rest) {
			TEST_ASSERT_VAL("record part", !strcmp(arg, rows[i].record));
			TEST_ASSERT_VAL("report part", !strcmp(rest, rows[i].rest));
		}
		free(arg);
	}
	return TEST_OK;
}

/* Attributes for each answer of the kernel. */

#define NR_EVENTS	5

/* Make perf_event_open() in this process do nothing and return 0 or an error. */
static int set_answer(int err)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_perf_event_open, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = ARRAY_SIZE(filter), .filter = filter };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ?:
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

/* Events with callchains, two of them with their own depth, and one with stacks. */
static struct evlist *deferred_events(void)
{
	struct perf_event_attr attrs[] = {
		{ .sample_type = PERF_SAMPLE_CALLCHAIN, .defer_callchain = 1 },
		{ .sample_type = PERF_SAMPLE_CALLCHAIN, .defer_callchain = 1 },
		{ .sample_type = PERF_SAMPLE_CALLCHAIN, .defer_callchain = 1,
		  .sample_max_stack = 4 },
		{ .sample_type = PERF_SAMPLE_CALLCHAIN, .defer_callchain = 1,
		  .sample_max_stack = USHRT_MAX },
		{ .sample_type = PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_STACK_USER,
		  .defer_user_state = 1, .sample_stack_user = 8192 },
	};
	struct evlist *evlist = evlist__new();

	for (size_t i = 0; evlist && i < ARRAY_SIZE(attrs); i++) {
		struct evsel *evsel;

		attrs[i].type = PERF_TYPE_SOFTWARE;
		attrs[i].config = PERF_COUNT_SW_CPU_CLOCK;
		attrs[i].size = sizeof(attrs[i]);
		evsel = evsel__new(&attrs[i]);
		if (!evsel)
			return NULL;
		evlist__add(evlist, evsel);
	}
	return evlist;
}

struct answer {
	int err;
	bool deferred;
	const char *message;
};

/* Readers must know the depth, and it must not exceed that of a record. */
static int check_depths(struct perf_event_attr **attrs)
{
	const int most = 8180, limit = min(sysctl__max_stack(), most);

	TEST_EQUAL("depth", attrs[0]->sample_max_stack, limit);
	TEST_EQUAL("depth of the second", attrs[1]->sample_max_stack, limit);
	TEST_EQUAL("depth of its own", attrs[2]->sample_max_stack, 4);
	TEST_EQUAL("too large a depth", attrs[3]->sample_max_stack, most);
	return TEST_OK;
}

static int check_answer(const struct answer *answer)
{
	struct evlist *evlist = deferred_events();
	struct perf_event_attr *attrs[NR_EVENTS];
	int i, nr_outputs = 0;
	FILE *messages = tmpfile();
	struct evsel *evsel;
	char line[256] = "";

	TEST_ASSERT_VAL("memory", evlist && messages);
	TEST_EQUAL("events", evlist->core.nr_entries, NR_EVENTS);
	evlist__for_each_entry(evlist, evsel)
		attrs[evsel->core.idx] = &evsel->core.attr;
	if (set_answer(answer->err))
		return TEST_SKIP;
	dup2(fileno(messages), STDERR_FILENO);
	evlist__config_callchain_deferred(evlist);
	fflush(stderr);
	rewind(messages);
	while (fgets(line, sizeof(line), messages) && !strstr(line, "falling back"))
		*line = '\0';
	dup2(STDOUT_FILENO, STDERR_FILENO);

	pr_debug("%d: %s\n", answer->err, line);
	TEST_ASSERT_VAL("message", answer->message ? !!strstr(line, answer->message) : !*line);
	for (i = 0; i < NR_EVENTS - 1; i++) {
		TEST_EQUAL("callchains", attrs[i]->defer_callchain, answer->deferred);
		nr_outputs += attrs[i]->defer_output;
	}
	TEST_EQUAL("outputs", nr_outputs, answer->deferred);
	TEST_EQUAL("stacks", attrs[i]->defer_user_state, answer->deferred);
	return answer->deferred ? check_depths(attrs) : TEST_OK;
}

int test__deferred_answers(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	/* A user without permission gets the error when the user's events are opened. */
	static const struct answer answers[] = {
		{ 0,		true,	NULL },
		{ EPERM,	true,	NULL },
		{ EACCES,	true,	NULL },
		{ EMFILE,	false,	"cannot be had (" },
		{ EBUSY,	false,	"cannot be had (" },
		{ EOPNOTSUPP,	false,	"cannot be had (" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		pid_t pid;
		int status;

		fflush(NULL);
		pid = fork();
		if (!pid) {
			status = check_answer(&answers[i]);
			fflush(NULL);
			_exit(status == TEST_OK ? 0 : status == TEST_SKIP ? 2 : 1);
		}
		TEST_ASSERT_VAL("child", pid > 0 && waitpid(pid, &status, 0) == pid);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
			return TEST_SKIP;
		TEST_EQUAL("status", status, 0);
	}
	return TEST_OK;
}

/* The lengths in a record. */

int test__deferred_record_size(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	static const struct {
		u16 size;
		u16 id_size;
		__u64 nr;
		bool ok;
	} rows[] = {
		{ 24,	0,	0,		true },
		{ 24,	8,	0,		false },
		{ 32,	8,	0,		true },
		{ 32,	0,	1,		true },
		{ 40,	8,	1,		true },
		{ 65528, 48,	8182,		true },
		{ 65528, 48,	8183,		false },
		{ 0,	0,	0,		false },
		{ 8,	0,	0,		false },
		{ 16,	0,	0,		false },
		{ 24,	0,	1,		false },
		{ 32,	8,	1,		false },
		{ 33,	0,	1,		false },
		{ 64,	0,	6,		false },
		{ 64,	0,	1ULL << 61,	false },
		{ 64,	0,	(1ULL << 61) - 1, false },
		{ 64,	0,	-1ULL,		false },
	};
	union perf_event event;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		int ret;

		event.header.type = PERF_RECORD_CALLCHAIN_DEFERRED;
		event.header.size = rows[i].size;
		event.callchain_deferred.nr = rows[i].nr;
		ret = perf_event__check_callchain_deferred(&event, rows[i].id_size);

		pr_debug("size %u, sample_id %u, nr %" PRI_lu64 ": %d\n", rows[i].size,
			 rows[i].id_size, rows[i].nr, ret);
		TEST_EQUAL("return value", ret, rows[i].ok ? 0 : -EINVAL);
	}
	return TEST_OK;
}

/* Where tasks begin. */
int test__deferred_start(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	static const char * const starts[] = {
		"_start", "_dl_start_user", "_dl_start", "__libc_start_main",
		"__libc_start_call_main", "start_thread", "clone", "clone3", "__clone",
		"__clone3", "thread_start", "runtime.goexit", "runtime.rt0_go",
		"runtime.mstart", "__libc_start_main@@GLIBC_2.34", "clone@GLIBC_2.2.5",
		"runtime.goexit.abi0", "runtime.rt0_go.abi0",
	};
	static const char * const others[] = {
		"", "@", ".abi0", "main", "_start1", "_star", "clone3.part.0",
		"my_start_thread", "runtime.goexit0",
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(starts); i++)
		TEST_ASSERT_VAL(starts[i], callchain_ends__is_start(starts[i]));
	for (i = 0; i < ARRAY_SIZE(others); i++)
		TEST_ASSERT_VAL(others[i], !callchain_ends__is_start(others[i]));
	return TEST_OK;
}

/* Where chains end. The file exists only below the root of --symfs. */

#define PROGRAM		"/perf-test-program"
#define START		0x10000000ULL
#define ENTRY		(START + 0x1000)
#define THREADS		(START + 0x2000)
#define JIT		0x20000000ULL
#define GONE		0x30000000ULL
#define NOWHERE		0x40000000ULL

static int write_program(const char *dir)
{
	const Elf64_Ehdr ehdr = {
		.e_ident     = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64 },
		.e_entry     = 0x401000,
		.e_phoff     = sizeof(ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum     = 1,
	};
	const Elf64_Phdr phdr = {
		.p_type = PT_LOAD, .p_vaddr = 0x400000, .p_filesz = 0x3000,
	};
	char path[64];
	FILE *fp;

	snprintf(path, sizeof(path), "%s" PROGRAM, dir);
	fp = fopen(path, "w");
	if (!fp)
		return -errno;
	fwrite(&ehdr, sizeof(ehdr), 1, fp);
	fwrite(&phdr, sizeof(phdr), 1, fp);
	return fclose(fp);
}

static void map_file(struct machine *machine, u64 start, const char *name)
{
	struct perf_sample sample = { .cpumode = PERF_RECORD_MISC_USER };
	union perf_event event = {
		.mmap = { .pid = 1, .tid = 1, .start = start, .len = 0x3000 },
	};

	snprintf(event.mmap.filename, sizeof(event.mmap.filename), "%s", name);
	machine__process_mmap_event(machine, &event, &sample);
}

/* A process with a program, with code without a file, and with a file that is gone. */
static int map_all(struct machine *machine)
{
	struct dso *dso = machine__findnew_dso(machine, PROGRAM);
	struct symbol *sym = symbol__new(0x2000, 0x100, STB_GLOBAL, STT_FUNC, "start_thread");

	TEST_ASSERT_VAL("memory", dso && sym);
	symbols__insert(dso__symbols(dso), sym);
	dso__set_loaded(dso);
	dso__put(dso);
	map_file(machine, START, PROGRAM);
	map_file(machine, JIT, "//anon");
	map_file(machine, GONE, "/no/such/file");
	return TEST_OK;
}

static int check_ends(struct machine *machine)
{
	static const struct {
		u64 last[2];
		const char *out;
	} rows[] = {
		{ { START + 0x10, ENTRY + 0x10 }, "early:          0  ( 0.0%)\n" },
		{ { START + 0x10, ENTRY + 64 }, "early:          0  ( 0.0%)\n" },
		{ { START + 0x10, ENTRY + 65 }, "(100.0%) " PROGRAM "\n" },
		{ { START + 0x10, ENTRY }, "(100.0%) " PROGRAM "\n" },
		{ { PERF_CONTEXT_USER, ENTRY }, "early:          0  ( 0.0%)\n" },
		{ { PERF_CONTEXT_USER, START + 0x10 }, "(100.0%) " PROGRAM "\n" },
		{ { START + 0x10, THREADS + 0x10 }, "early:          0  ( 0.0%)\n" },
		{ { START + 0x10, JIT + 0x10 }, ".map\n" },
		{ { START + 0x10, NOWHERE + 0x10 }, "(100.0%) [unknown]\n" },
		{ { START + 0x10, GONE + 0x10 }, "early:          0  ( 0.0%)\n"
						 " merged, end unknown:          1  (100.0%)\n" },
		{ { START + 0x10, CALLCHAIN_USER_CUT }, "" },
		{ { PERF_CONTEXT_USER, CALLCHAIN_USER_LOST }, "" },
	};
	struct ip_callchain *chain = zalloc(sizeof(*chain) + 3 * sizeof(u64));
	struct perf_sample sample = { .pid = 1, .tid = 1, .callchain = chain };

	TEST_ASSERT_VAL("memory", chain);
	chain->nr = 3;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct callchain_ends *ends = callchain_ends__new();
		size_t size, len = strlen(rows[i].out);
		char *out = NULL;
		FILE *fp = open_memstream(&out, &size);

		TEST_ASSERT_VAL("memory", ends && fp);
		chain->ips[0] = PERF_CONTEXT_USER;
		memcpy(&chain->ips[1], rows[i].last, sizeof(rows[i].last));
		TEST_EQUAL("count", callchain_ends__count(ends, machine, &sample), 0);
		callchain_ends__fprintf(ends, fp);
		fclose(fp);
		callchain_ends__delete(ends);
		pr_debug("%zu: '%s'\n", i, out);
		TEST_ASSERT_VAL("what is printed", len ? size >= len &&
				!strcmp(out + size - len, rows[i].out) : !size);
		free(out);
	}
	free(chain);
	return TEST_OK;
}

int test__deferred_ends(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	char dir[] = "/tmp/perf-test-ends.XXXXXX", path[64];
	const char *symfs = symbol_conf.symfs;
	struct machines machines;
	int ret;

	TEST_ASSERT_VAL("directory", mkdtemp(dir));
	TEST_ASSERT_VAL("program", !write_program(dir));
	machines__init(&machines);
	symbol_conf.symfs = dir;
	ret = map_all(&machines.host) ?: check_ends(&machines.host);
	symbol_conf.symfs = symfs;
	machines__exit(&machines);
	snprintf(path, sizeof(path), "%s" PROGRAM, dir);
	unlink(path);
	rmdir(dir);
	return ret;
}

/* Resolve @chain and compare the cursor with @ips, which are in the order of @chain. */
static int resolve(struct machine *machine, struct ip_callchain *chain, int max_stack,
		   const u64 *ips, u64 nr)
{
	bool callee = callchain_param.order == ORDER_CALLEE;
	struct callchain_cursor *cursor = get_tls_callchain_cursor();
	struct thread *thread = machine__findnew_thread(machine, 1, 1);
	struct perf_sample sample = { .callchain = chain };
	struct symbol *parent = NULL;
	struct evsel evsel = {};
	u64 i;

	TEST_ASSERT_VAL("memory", thread && cursor);
	TEST_EQUAL("resolve", thread__resolve_callchain(thread, cursor, &evsel, &sample, &parent,
							NULL, max_stack), 0);
	thread__put(thread);
	callchain_cursor_commit(cursor);
	TEST_EQUAL("number", cursor->nr, nr);
	for (i = 0; i < nr; i++) {
		TEST_EQUAL("entry", callchain_cursor_current(cursor)->ip,
			   ips[callee ? i : nr - 1 - i]);
		callchain_cursor_advance(cursor);
	}
	return TEST_OK;
}

/* The mark of a cut chain is not a frame and does not count as one. */
int test__deferred_resolve(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	static const u64 ips[] = {
		PERF_CONTEXT_USER, 0x1000, 0x2000, 0x3000, 0x4000, CALLCHAIN_USER_CUT
	};
	static const u64 inner[] = { 0x1000, 0x2000, 0x3000, CALLCHAIN_USER_CUT };
	const enum chain_order order = callchain_param.order;
	struct ip_callchain *chain = zalloc(sizeof(*chain) + sizeof(ips));
	struct machines machines;
	int max_stack, ret = TEST_OK;

	TEST_ASSERT_VAL("memory", chain);
	machines__init(&machines);
	chain->nr = ARRAY_SIZE(ips);
	memcpy(chain->ips, ips, sizeof(ips));
	for (max_stack = 4; max_stack <= 6 && !ret; max_stack++) {
		callchain_param.order = ORDER_CALLEE;
		ret = resolve(&machines.host, chain, max_stack, ips + 1, 5);
		callchain_param.order = ORDER_CALLER;
		ret = ret ?: resolve(&machines.host, chain, max_stack, ips + 1, 5);
	}
	/* With a lower limit, keep the mark and the frames nearest to the start of the order. */
	callchain_param.order = ORDER_CALLEE;
	ret = ret ?: resolve(&machines.host, chain, 3, inner, 4);
	callchain_param.order = ORDER_CALLER;
	ret = ret ?: resolve(&machines.host, chain, 3, ips + 2, 4);
	callchain_param.order = order;
	machines__exit(&machines);
	free(chain);
	return ret;
}

/* Writing a merged sample: the size of an event is 16 bits. */
int test__deferred_write(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	union perf_event *event = zalloc(PERF_SAMPLE_MAX_SIZE), *dst = zalloc(PERF_SAMPLE_MAX_SIZE);
	struct ip_callchain *chain = zalloc(2 * PERF_SAMPLE_MAX_SIZE);
	u64 *array, nr, i;
	int ret;

	TEST_ASSERT_VAL("memory", event && dst && chain);
	for (nr = 1; nr < 16000; nr = nr * 2 + 1) {
		u64 nr_out = min_t(u64, nr, 8187), *out = (u64 *)dst->sample.array;
		struct perf_sample sample = { .callchain = chain };

		/* An ip, a callchain of two entries, and another word. */
		event->header.type = PERF_RECORD_SAMPLE;
		event->header.size = sizeof(event->header) + 5 * sizeof(u64);
		array = (u64 *)event->sample.array;
		array[0] = KERNEL_IP;
		array[1] = 2;
		array[2] = PERF_CONTEXT_USER_DEFERRED;
		array[3] = 3;
		array[4] = 1000;
		sample.aux_sample.size = sizeof(u64);
		sample.aux_sample.data = &array[4];
		chain->nr = nr;
		for (i = 0; i < nr; i++)
			chain->ips[i] = i;

		ret = perf_event__write_callchain(dst, event, (struct ip_callchain *)&array[1],
						  &sample);
		TEST_EQUAL("write", ret, 0);
		pr_debug("%d entries: size %u\n", (int)nr, dst->header.size);
		TEST_EQUAL("size", dst->header.size,
			   sizeof(event->header) + (nr_out + 3) * sizeof(u64));
		TEST_EQUAL("nr", out[1], nr_out);
		TEST_EQUAL("before", out[0], KERNEL_IP);
		TEST_EQUAL("last", out[1 + nr_out], nr_out - 1);
		TEST_EQUAL("after", out[2 + nr_out], 1000);
		TEST_ASSERT_VAL("callchain", sample.callchain == (void *)&out[1]);
		TEST_ASSERT_VAL("AUX sample", sample.aux_sample.data == &out[2 + nr_out]);
	}
	free(event);
	free(dst);
	free(chain);
	return TEST_OK;
}
