// SPDX-License-Identifier: GPL-2.0
/*
 * Files without SFrame section, and the cost: the share of samples whose user stacks go
 * through these files, and the share of those that end there.
 *
 * If there is such a file, the recorded data is read once more to count the samples.
 */
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <api/fs/fs.h>
#include <internal/lib.h>
#include <linux/err.h>
#include <linux/string.h>
#include <linux/zalloc.h>

#include "../../sframe/server.h"
#include "addr_location.h"
#include "callchain-deferred.h"
#include "data.h"
#include "debug.h"
#include "dso.h"
#include "event.h"
#include "machine.h"
#include "map.h"
#include "record-sframe.h"
#include "sample.h"
#include "session.h"
#include "symbol.h"
#include "thread.h"
#include "tool.h"

/* Upper limit of the size of a program's start code, in bytes. */
#define START_SIZE	64

/* Maximum number of listed files, unless perf is verbose. */
#define MAX_LINES	20

struct counting {
	struct perf_tool		tool;
	struct sframe_missed_list	*list;
};

/**
 * sframe_missed__add - add a file
 * @list: the list
 * @path: path of the file
 * @late: the file had a section in the end
 * @why: the reason
 *
 * Return: 0 or -ENOMEM.
 */
int sframe_missed__add(struct sframe_missed_list *list, const char *path, bool late,
		       const char *why)
{
	struct sframe_missed *files, *file;

	files = reallocarray(list->files, list->nr + 1, sizeof(*files));
	if (!files)
		return -ENOMEM;
	list->files = files;
	file = &files[list->nr];
	*file = (struct sframe_missed) {
		.path = strdup(path), .why = strdup(why), .late = late, .entry = -1,
	};
	if (!file->path || !file->why) {
		free(file->path);
		free(file->why);
		return -ENOMEM;
	}
	list->nr++;
	return 0;
}

/* Was code run without a section because there was none, or none yet? */
static bool is_news(const struct sframe_missed *file)
{
	return !file->late || !strstr(file->why, SFRAME_NO_WORDS);
}

/**
 * sframe_missed__has_news - are there losses other than those of every recording?
 * @list: files that had no section, or none for all of their code
 *
 * Every recording has some libraries with code that no section covers. Many processes map
 * them, but few stacks go through such code.
 */
bool sframe_missed__has_news(const struct sframe_missed_list *list)
{
	for (unsigned int i = 0; i < list->nr; i++) {
		if (is_news(&list->files[i]))
			return true;
	}
	return false;
}

void sframe_missed__exit(struct sframe_missed_list *list)
{
	for (unsigned int i = 0; i < list->nr; i++) {
		free(list->files[i].path);
		free(list->files[i].why);
	}
	zfree(&list->files);
	list->nr = 0;
}

static int cmp_path(const void *a, const void *b)
{
	return strcmp(((const struct sframe_missed *)a)->path,
		      ((const struct sframe_missed *)b)->path);
}

/* Find the first entry of this name: a file has an entry for each of its reasons. */
static struct sframe_missed *find(struct sframe_missed_list *list, struct map *map)
{
	struct sframe_missed key = { .path = (char *)dso__long_name(map__dso(map)) }, *file;

	file = key.path ? bsearch(&key, list->files, list->nr, sizeof(key), cmp_path) : NULL;
	while (file && file > list->files && !cmp_path(file - 1, file))
		file--;
	return file;
}

/* Find the next entry of the same name, or NULL. */
static struct sframe_missed *find_next(struct sframe_missed_list *list,
				       struct sframe_missed *file)
{
	if (file + 1 == list->files + list->nr || cmp_path(file, file + 1))
		return NULL;
	return file + 1;
}

/* Get the file offset of a file's entry point; 0 if it has none. */
static s64 read_entry(const char *path)
{
	int fd = sframe_open_in("/", path);
	Elf *elf = NULL;
	s64 entry = 0;
	size_t nr = 0;
	GElf_Ehdr ehdr;
	GElf_Phdr phdr;

	if (fd < 0)
		return 0;
	if (elf_version(EV_CURRENT) != EV_NONE)
		elf = elf_begin(fd, ELF_C_READ, NULL);
	if (elf && gelf_getehdr(elf, &ehdr) && !elf_getphdrnum(elf, &nr)) {
		for (size_t i = 0; i < nr; i++) {
			if (gelf_getphdr(elf, i, &phdr) && phdr.p_type == PT_LOAD &&
			    ehdr.e_entry - phdr.p_vaddr < phdr.p_filesz)
				entry = ehdr.e_entry - phdr.p_vaddr + phdr.p_offset;
		}
	}
	elf_end(elf);
	close(fd);
	return entry;
}

/* Does a task start here, so that its callchain is complete? */
static bool is_start(struct sframe_missed *file, struct map *map, u64 ip)
{
	u64 offset = map__map_ip(map, ip);
	struct symbol *sym;

	if (file->entry == -1)
		file->entry = read_entry(file->path);
	if (file->entry && offset - file->entry < START_SIZE)
		return true;
	sym = map__find_symbol(map, offset);
	return sym && (!strcmp(sym->name, "clone") || !strcmp(sym->name, "clone3") ||
		       !strcmp(sym->name, "__clone") || !strcmp(sym->name, "__clone3"));
}

/* Is this a file that perf would wait for, perhaps for ever? */
static bool is_slow(struct sframe_missed_list *list, struct sframe_missed *file)
{
	for (; file; file = find_next(list, file)) {
		if (strstarts(file->why, SFRAME_HANGS) || strstarts(file->why, SFRAME_SLOW))
			return true;
	}
	return false;
}

static void count_file(struct sframe_missed *file, u64 sample, bool cut)
{
	if (file->last != sample) {
		file->last = sample;
		file->in++;
	}
	file->cut += cut;
}

static void count_frame(struct sframe_missed_list *list, struct thread *thread, u64 ip,
			bool is_last)
{
	struct sframe_missed *file = NULL;
	struct addr_location al;
	bool cut;

	addr_location__init(&al);
	if (thread__find_map(thread, PERF_RECORD_MISC_USER, ip, &al))
		file = find(list, al.map);
	cut = file && is_last && (is_slow(list, file) || !is_start(file, al.map, ip));
	for (; file; file = find_next(list, file))
		count_file(file, list->samples, cut);
	addr_location__exit(&al);
}

static int count_sample(const struct perf_tool *tool, union perf_event *event __maybe_unused,
			struct perf_sample *sample, struct evsel *evsel __maybe_unused,
			struct machine *machine)
{
	struct counting *counting = container_of(tool, struct counting, tool);
	const struct ip_callchain *chain = sample->callchain;
	struct thread *thread;
	u64 first = 0, end;

	while (chain && first < chain->nr && chain->ips[first] != PERF_CONTEXT_USER)
		first++;
	if (!chain || ++first >= chain->nr || chain->ips[first] >= CALLCHAIN_USER_LOWEST)
		return 0;
	thread = machine__findnew_thread(machine, sample->pid, sample->tid);
	if (!thread)
		return -ENOMEM;
	counting->list->samples++;
	/* All but the first are return addresses: look up the call before. */
	for (end = first; end < chain->nr && !ip_callchain__is_mark(chain->ips[end]); end++)
		;
	/* A chain that was cut at a depth limit does not end there for want of a section. */
	for (u64 i = first; i < end; i++)
		count_frame(counting->list, thread, chain->ips[i] - (i > first),
			    i == end - 1 && !ip_callchain__is_cut(chain));
	thread__put(thread);
	return 0;
}

static void limit(int resource, rlim_t most)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) || limit.rlim_cur <= most)
		return;
	limit.rlim_cur = most;
	setrlimit(resource, &limit);
}

/* Memory that is private now, in bytes. */
static u64 data_size(void)
{
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (file && fscanf(file, "%*u %*u %*u %*u %*u %lu", &pages) != 1)
		pages = 0;
	if (file)
		fclose(file);
	return (u64)pages * page_size;
}

/* Is nearly all memory used that may be? */
static bool is_near_limit(void)
{
	u64 size = data_size();
	struct rlimit limit;

	/* To read the size takes memory, too. */
	return !getrlimit(RLIMIT_DATA, &limit) && (!size || size > limit.rlim_cur / 8 * 7);
}

/*
 * Symbols of a file may take any time and memory. Allow many times what those of real files take,
 * and what the data itself may take. Each compressed record takes much memory, however small it is.
 */
static void limit_counting(struct perf_session *session)
{
	bool compressed = perf_header__has_feat(&session->header, HEADER_COMPRESSED);
	u64 size = perf_data__size(session->data);

	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_CPU, 100 + (size >> 20) * (compressed ? 10 : 1));
	if (!compressed)
		limit(RLIMIT_DATA, data_size() + 2 * size + (2ULL << 30));
}

/*
 * Read the recorded data, by the descriptor: another user may have replaced the file of that name.
 * A directory can be opened by its name only.
 */
static int count_data(struct sframe_missed_list *list, const struct perf_data *data)
{
	char path[32];
	struct perf_data input = {
		.path = data->is_dir ? data->path : path,
		.mode = PERF_DATA_MODE_READ,
		.force = !data->is_dir,
	};
	struct counting counting = { .list = list };
	struct perf_session *session;
	int err;

	scnprintf(path, sizeof(path), "/proc/self/fd/%d", data->file.fd);
	perf_tool__init(&counting.tool, /*ordered_events=*/true);
	counting.tool.sample = count_sample;
	counting.tool.mmap = perf_event__process_mmap;
	counting.tool.mmap2 = perf_event__process_mmap2;
	counting.tool.comm = perf_event__process_comm;
	counting.tool.fork = perf_event__process_fork;
	counting.tool.exit = perf_event__process_exit;
	counting.tool.namespaces = perf_event__process_namespaces;
	counting.tool.ordering_requires_timestamps = true;
	counting.tool.no_warn = true;
	session = perf_session__new(&input, &counting.tool);
	if (IS_ERR(session))
		return PTR_ERR(session);
	limit_counting(session);
	err = perf_session__process_events(session);
	/* Without memory, perf leaves out mappings and symbols, and goes on. */
	if (!err && is_near_limit())
		err = -ENOMEM;
	perf_session__delete(session);
	return err;
}

/* What the process that counts sends for each file; the number of samples comes first. */
struct counts {
	u64 in;
	u64 cut;
};

static void __noreturn counting_main(struct sframe_missed_list *list,
				     const struct perf_data *data, int fd, pid_t parent)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGSEGV, SIGFPE, SIGBUS, SIGXCPU };
	FILE *out = fdopen(fd, "w");

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	/* No handlers of perf record, which would also print a backtrace. */
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		signal(signals[i], SIG_DFL);
	session_done = 0;
	/* It reads symbols of anybody's files: if memory is short, it is to end first. */
	filename__write_int("/proc/self/oom_score_adj", 1000);
	if (!out || count_data(list, data))
		_exit(1);
	fwrite(&list->samples, sizeof(list->samples), 1, out);
	for (unsigned int i = 0; i < list->nr; i++) {
		const struct counts counts = { list->files[i].in, list->files[i].cut };

		fwrite(&counts, sizeof(counts), 1, out);
	}
	_exit(!!fflush(out));
}

/* Read @size bytes, unless a signal has come. Returns 0, -EINTR or -EIO. */
static int receive(int in, void *data, size_t size)
{
	struct pollfd ready = { .fd = in, .events = POLLIN };
	ssize_t got;

	for (; size; data += got, size -= got) {
		while (poll(&ready, 1, 100) <= 0) {
			if (session_done)
				return -EINTR;
		}
		got = read(in, data, size);
		if (got <= 0)
			return session_done ? -EINTR : -EIO;
	}
	return 0;
}

static int receive_counts(struct sframe_missed_list *list, int in)
{
	u64 samples;
	int err = receive(in, &samples, sizeof(samples));

	for (unsigned int i = 0; i < list->nr && !err; i++) {
		struct counts counts;

		err = receive(in, &counts, sizeof(counts));
		if (err)
			break;
		list->files[i].in = counts.in;
		list->files[i].cut = counts.cut;
	}
	if (!err) {
		list->samples = samples;
		list->counted = true;
		return 0;
	}
	for (unsigned int i = 0; i < list->nr; i++) {
		list->files[i].in = 0;
		list->files[i].cut = 0;
	}
	return err;
}

static void stop_counting(int sig __maybe_unused)
{
	session_done = 1;
}

/* Let another process count. A file that hangs may keep it for ever, so do not wait for its end. */
static int count_apart(struct sframe_missed_list *list, const struct perf_data *data)
{
	pid_t parent = getpid(), pid;
	int counts[2], err;

	if (pipe2(counts, O_CLOEXEC))
		return -errno;
	pid = fork();
	err = pid < 0 ? -errno : 0;
	if (!pid)
		counting_main(list, data, counts[1], parent);
	close(counts[1]);
	if (!err)
		err = receive_counts(list, counts[0]);
	close(counts[0]);
	if (pid > 0)
		kill(pid, SIGKILL);
	for (int tries = 0; pid > 0 && !waitpid(pid, NULL, WNOHANG) && tries < 100; tries++)
		usleep(1000);
	return err;
}

/**
 * sframe_missed__count - count the samples that missing sections affect
 * @list: files that had no section
 * @data: the recorded data, still open
 *
 * Another process reads the symbols of these files: many are of other users, who may have made
 * them to break perf.
 *
 * Return: 0; -EINTR after SIGINT or SIGTERM; or another negative number if @data cannot be read, or
 *	   takes too much CPU time or memory.
 */
int sframe_missed__count(struct sframe_missed_list *list, const struct perf_data *data)
{
	sighandler_t former_int, former_term;
	int err;

	qsort(list->files, list->nr, sizeof(*list->files), cmp_path);
	/* SIGINT or SIGTERM ends the counting: the list has no shares then. */
	session_done = 0;
	former_int = signal(SIGINT, stop_counting);
	former_term = signal(SIGTERM, stop_counting);
	err = count_apart(list, data);
	signal(SIGTERM, former_term);
	signal(SIGINT, former_int);
	session_done = 0;
	return err;
}

static int cmp_cost(const void *va, const void *vb)
{
	const struct sframe_missed *a = va, *b = vb;

	if (a->cut != b->cut)
		return a->cut < b->cut ? 1 : -1;
	if (a->in != b->in)
		return a->in < b->in ? 1 : -1;
	/* Without counts, begin with the files that can have no section. */
	if (a->late != b->late)
		return a->late ? 1 : -1;
	return strcmp(a->path, b->path);
}

/*
 * If the samples were counted, skip late files in which no callchain ends, and other files that no
 * stack goes through. Otherwise skip files in which every recording has losses.
 */
static bool is_worth(const struct sframe_missed_list *list, const struct sframe_missed *file)
{
	if (!list->counted)
		return is_news(file);
	return file->late ? file->cut : file->in;
}

static void print_head(const struct sframe_missed_list *list)
{
	fputs("[ perf record: User stacks may be incomplete where these files are in them ]\n",
	      stderr);
	if (list->counted)
		fputs("in samples  end there  file\n", stderr);
}

static void print_file(const struct sframe_missed_list *list, struct sframe_missed *file)
{
	if (list->counted)
		fprintf(stderr, "%9.2f%% %9.2f%%  ", file->in * 100.0 / list->samples,
			file->cut * 100.0 / list->samples);
	/* A file name may contain control sequences for the terminal. */
	sframe_printable(file->path);
	sframe_printable(file->why);
	fprintf(stderr, "%s: it %s\n", file->path, file->why);
}

/**
 * sframe_missed__print - list the relevant files on stderr, highest cost first
 * @list: files that had no section
 */
void sframe_missed__print(struct sframe_missed_list *list)
{
	unsigned int lines = 0, more = 0;

	qsort(list->files, list->nr, sizeof(*list->files), cmp_cost);
	for (unsigned int i = 0; i < list->nr; i++) {
		struct sframe_missed *file = &list->files[i];

		if (!is_worth(list, file))
			continue;
		if (lines == MAX_LINES && verbose <= 0) {
			more++;
			continue;
		}
		if (!lines++)
			print_head(list);
		print_file(list, file);
	}
	if (more)
		fprintf(stderr, "and %u more, see -v\n", more);
}
