// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame sections for a recording: generated from .eh_frame for files that have none.
 *
 * A separate process converts files and registers sections with the kernel, see
 * tools/sframe/server.c. It starts when the events are open and before the workload runs.
 * Its sections stay registered until the recording is over. Without the kernel's interface,
 * or if anything fails, stacks are recorded without these sections.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/zalloc.h>
#include <perf/mmap.h>
#include <perf/threadmap.h>

#include "../../sframe/server.h"
#include "build-id.h"
#include "callchain-deferred.h"
#include "data.h"
#include "debug.h"
#include "evlist.h"
#include "evsel.h"
#include "mmap.h"
#include "record-sframe.h"
#include "thread_map.h"

/**
 * struct record_sframe - sections for a recording
 * @server: the process that registers them
 * @given_up: the wait for them was interrupted or failed
 */
struct record_sframe {
	struct sframe_server	server;
	bool			given_up;
};

static pid_t process_of(pid_t tid)
{
	char path[32], line[64];
	pid_t pid = tid;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	status = fopen(path, "re");
	if (!status)
		return tid;
	while (fgets(line, sizeof(line), status) && sscanf(line, "Tgid: %d", &pid) != 1)
		;
	fclose(status);
	return pid;
}

/* Find the processes of the recorded threads, each once; none for a system-wide recording. */
static int find_processes(struct perf_thread_map *threads, pid_t **pids)
{
	int nr = perf_thread_map__nr(threads), found = 0;

	*pids = NULL;
	if (nr <= 0 || perf_thread_map__pid(threads, 0) == -1)
		return 0;
	*pids = calloc(nr, sizeof(**pids));
	if (!*pids)
		return -1;
	for (int i = 0; i < nr; i++) {
		pid_t pid = process_of(perf_thread_map__pid(threads, i));

		/* Threads of a process are next to each other. */
		if (!found || (*pids)[found - 1] != pid)
			(*pids)[found++] = pid;
	}
	return found;
}

/**
 * record_sframe__start - start to generate sections
 * @evlist: open events, with the recorded threads
 * @program: the workload's program, NULL if there is no workload
 * @keep: keep generated sections in the build-id cache for the next recording
 *
 * The caller must not have created threads yet.
 *
 * Return: the argument of record_sframe__end(), or NULL.
 */
struct record_sframe *record_sframe__start(struct evlist *evlist, const char *program,
					   bool keep)
{
	struct sframe_session_options options = {
		.cache = buildid_dir, .read_only = !keep, .program = program,
		.running = !program || evlist->workload.pid !=
			perf_thread_map__pid(evlist->core.threads, 0),
		.verbose = verbose > 0, .quiet = quiet,
	};
	struct record_sframe *sframe;
	pid_t *pids;
	int nr, ret;

	/* Without deferred callchains the kernel does not walk. */
	if (!evlist__defers_callchains(evlist))
		return NULL;
	sframe = zalloc(sizeof(*sframe));
	nr = find_processes(evlist->core.threads, &pids);
	if (!sframe || nr < 0) {
		free(pids);
		free(sframe);
		return NULL;
	}
	options.pids = pids;
	options.nr_pids = nr;
	ret = sframe_server_start(&sframe->server, &options);
	free(pids);
	if (!ret)
		return sframe;
	pr_warning("WARNING: no SFrame sections for files that have none: %s\n",
		   ret == -ENOENT ? SFRAME_NO_DEVICE : strerror(-ret));
	free(sframe);
	return NULL;
}

/*
 * Nobody reads the buffers while sections are made. What fills them then would displace the records
 * that follow, and a record of a fork without those of the child's files would replace what is
 * synthesized for it. So record what tasks do only afterwards, and synthesize the rest.
 */
static void pause_tracking(struct evlist *evlist)
{
	struct evsel *evsel;

	evlist__for_each_entry(evlist, evsel) {
		if (evsel->immediate)
			evsel__disable(evsel);
	}
}

static void resume_tracking(struct evlist *evlist)
{
	struct evsel *evsel;

	for (int i = 0; i < evlist->core.nr_mmaps; i++) {
		struct perf_mmap *map = &evlist->mmap[i].core;

		map->prev = perf_mmap__read_head(map);
		perf_mmap__consume(map);
	}
	evlist__for_each_entry(evlist, evsel) {
		if (evsel->immediate)
			evsel__enable(evsel);
	}
}

/*
 * Only what all tasks have done can be synthesized later, not what children of given ones have; nor
 * changes of the kernel's code since kcore was copied.
 */
static bool may_pause(struct evlist *evlist)
{
	struct evsel *evsel;

	if (perf_thread_map__pid(evlist->core.threads, 0) != -1)
		return false;
	evlist__for_each_entry(evlist, evsel) {
		if (evsel->core.attr.text_poke)
			return false;
	}
	return evlist->mmap;
}

/**
 * record_sframe__wait - wait for the sections that are known to be needed
 * @sframe: from record_sframe__start(), or NULL
 * @evlist: open events; until the return they do not record what tasks do
 * @stop: has a signal handler ended the recording?
 *
 * Return: 0, also after an error, which only makes stacks less complete; -EINTR if @stop
 * returned true: the caller must not record then.
 */
int record_sframe__wait(struct record_sframe *sframe, struct evlist *evlist, bool (*stop)(void))
{
	char message[SFRAME_MESSAGE];
	bool pause;
	int ret;

	if (!sframe)
		return 0;
	pause = may_pause(evlist);
	if (pause)
		pause_tracking(evlist);
	ret = sframe_server_wait(&sframe->server, stop, message);
	if (pause)
		resume_tracking(evlist);
	if (ret < 0)
		pr_warning("WARNING: no SFrame sections for files that have none: %s\n", message);
	else if (message[0])
		pr_warning("WARNING: %s\n", message);
	sframe->given_up = ret;
	return ret > 0 ? -EINTR : 0;
}

/**
 * record_sframe__stop - tell the server that the recording is over
 * @sframe: from record_sframe__start(), or NULL
 */
void record_sframe__stop(struct record_sframe *sframe)
{
	if (sframe)
		sframe_server_stop(&sframe->server);
}

static void add_missed(void *data, const char *path, bool late, const char *why)
{
	sframe_missed__add(data, path, late, why);
}

/* Counting may take as long as perf report does. */
static void count_missed(struct sframe_missed_list *list, const struct perf_data *data)
{
	int err;

	fputs("[ perf record: Counting what missing SFrame sections cost, a signal ends that ]\n",
	      stderr);
	err = sframe_missed__count(list, data);
	if (err && err != -EINTR)
		pr_warning("WARNING: what missing SFrame sections cost could not be counted\n");
}

/**
 * record_sframe__end - list the files that had no section
 * @sframe: from record_sframe__start(), or NULL; freed
 * @failed: nothing was recorded
 * @data: the complete recorded data; NULL if it cannot be read
 */
void record_sframe__end(struct record_sframe *sframe, bool failed, const struct perf_data *data)
{
	struct sframe_missed_list list = {};
	int ret;

	if (!sframe)
		return;
	failed |= sframe->given_up;
	ret = sframe_server_end(&sframe->server, failed ? NULL : add_missed, &list);
	if (ret == -ENOMEM)
		pr_warning("WARNING: no memory for the list of files without SFrame sections\n");
	else if (ret < 0)
		pr_warning("WARNING: the process that makes SFrame sections has ended too early\n");
	if (list.nr && !quiet) {
		/* Do not spend this time on losses that every recording has. */
		if (data && (verbose > 0 || sframe_missed__has_news(&list)))
			count_missed(&list, data);
		sframe_missed__print(&list);
	}
	sframe_missed__exit(&list);
	free(sframe);
}
