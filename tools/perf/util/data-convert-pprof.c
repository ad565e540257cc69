// SPDX-License-Identifier: GPL-2.0
/*
 * Convert samples to a profile in pprof's format, see pprof.c.
 *
 * Each event has a type of value, what its samples count for; the first type is the number of
 * samples of all events.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/time64.h>
#include <linux/zalloc.h>

#include "addr_location.h"
#include "build-id.h"
#include "callchain.h"
#include "callchain-deferred.h"
#include "cgroup.h"
#include "data-convert.h"
#include "debug.h"
#include "dso.h"
#include "event.h"
#include "evlist.h"
#include "evsel.h"
#include "header.h"
#include "machine.h"
#include "map.h"
#include "pprof.h"
#include "session.h"
#include "srcline.h"
#include "symbol.h"
#include "thread.h"
#include "tool.h"
#include "trace-event.h"

/* pid, tid, name of the thread, cgroup */
#define LABELS_MAX	4

/* Names of threads are cut to this length. */
#define COMM_MAX	15

/**
 * struct convert_pprof - a conversion
 * @tool:	for the session
 * @session:	the file
 * @pprof:	the profile
 * @locations:	the stack of a sample
 * @room:	room in @locations
 * @first:	time of the first sample
 * @last:	time of the last sample
 * @samples:	how many samples were converted
 */
struct convert_pprof {
	struct perf_tool	tool;
	struct perf_session	*session;
	struct pprof		*pprof;
	u64			*locations;
	u64			room;
	u64			first;
	u64			last;
	u64			samples;
};

static size_t type_of(struct convert_pprof *convert, struct evsel *evsel)
{
	return pprof__type(convert->pprof, evsel__name(evsel),
			   evsel__is_clock(evsel) ? "nanoseconds" : "count");
}

static u64 mapping_of(struct convert_pprof *convert, struct map *map, u64 *start)
{
	char build_id[SBUILD_ID_SIZE] = "";
	struct dso *dso = map__dso(map);
	const bool is_file = !dso__kernel(dso) && map__mapping_type(map) == MAPPING_TYPE__DSO;
	const struct pprof_mapping mapping = {
		.place		= is_file ? 0 : map__start(map),
		.offset		= is_file ? map__pgoff(map) : 0,
		.start		= map__start(map),
		.limit		= map__end(map),
		.filename	= dso__long_name(dso),
		.build_id	= build_id,
	};

	if (dso__has_build_id(dso))
		build_id__sprintf(dso__bid(dso), build_id);
	return pprof__mapping(convert->pprof, &mapping, start);
}

/*
 * Add the functions that the compiler has put together at an address, the innermost first. The
 * outermost one is the symbol, which may have other names.
 */
static bool add_inlines(struct convert_pprof *convert, u64 location, struct dso *dso, u64 addr,
			struct symbol *sym)
{
	struct inline_node *node = dso__parse_addr_inlines(dso, addr, sym);
	const struct inline_list *entry;
	const char *name;
	bool found = false;

	if (!node)
		return false;
	list_for_each_entry(entry, &node->val, list) {
		char *file = entry->srcline ? strdup(entry->srcline) : NULL;
		char *colon = file ? strrchr(file, ':') : NULL;

		if (colon)
			*colon = '\0';
		if (list_is_last(&entry->list, &node->val))
			name = sym->name;
		else
			name = entry->symbol ? entry->symbol->name : "??";
		pprof__add_line(convert->pprof, location, name, file,
				colon ? strtoul(colon + 1, NULL, 10) : 0);
		found = true;
		free(file);
	}
	inline_node__delete(node);
	return found;
}

/* Say what is at a new location. */
static void add_lines(struct convert_pprof *convert, u64 location, struct map *map,
		      struct symbol *sym, u64 addr)
{
	unsigned int line = 0;
	char *file = NULL;
	struct dso *dso;

	if (map && sym) {
		dso = map__dso(map);
		addr = map__rip_2objdump(map, map__dso_map_ip(map, addr));
		file = get_srcline_split(dso, addr, &line);
		if (file && add_inlines(convert, location, dso, addr, sym)) {
			free(file);
			return;
		}
	}
	pprof__add_line(convert->pprof, location, sym ? sym->name : NULL, file, line);
	free(file);
}

static u64 location_of(struct convert_pprof *convert, struct map *map, struct symbol *sym,
		       u64 addr)
{
	u64 start, mapping = 0, at = addr, location;
	bool is_new;

	if (map && !ip_callchain__is_mark(addr)) {
		mapping = mapping_of(convert, map, &start);
		at = addr - map__start(map) + start;
	}
	location = pprof__location(convert->pprof, mapping, at, &is_new);
	if (is_new)
		add_lines(convert, location, map, sym, addr);
	return location;
}

static u64 location_of_sample(struct convert_pprof *convert, const struct perf_sample *sample,
			      struct thread *thread)
{
	struct addr_location al;
	u64 location;

	addr_location__init(&al);
	thread__find_symbol(thread, sample->cpumode, sample->ip, &al);
	location = location_of(convert, al.map, al.sym, sample->ip);
	addr_location__exit(&al);
	return location;
}

/*
 * A return address follows the call, whose line and function count: the address of a caller is
 * within the call. One at the beginning of a function or a map is none, or follows a call that
 * does not return; perf says what begins there.
 */
static u64 address_in_call(const struct callchain_cursor_node *node)
{
	struct map *map = node->ms.map;

	if (map && (node->ip == map__start(map) ||
		    (node->ms.sym && map__map_ip(map, node->ip) == node->ms.sym->start)))
		return node->ip;
	return node->ip - 1;
}

static bool in_kernel(const struct perf_sample *sample)
{
	return sample->cpumode == PERF_RECORD_MISC_KERNEL ||
	       sample->cpumode == PERF_RECORD_MISC_GUEST_KERNEL;
}

/*
 * Whether the first entry of a chain is where the sample was taken, though less exactly. It is not
 * if the sample is in the kernel and the chain has a user part alone, or if the user part is lost.
 */
static bool starts_at_sample(const struct callchain_cursor *cursor,
			     const struct perf_sample *sample, struct machine *machine)
{
	return cursor->nr && !ip_callchain__is_mark(cursor->first->ip) &&
	       machine__kernel_ip(machine, cursor->first->ip) == in_kernel(sample);
}

/*
 * Append the callers that are left in a chain. Their addresses follow calls, but for the first
 * one after the kernel's, where the task was interrupted, those of branches, which come from the
 * calls and follow a mark, and those that were unwound with unwind tables, which are within calls.
 */
static u64 add_callers(struct convert_pprof *convert, const struct perf_sample *sample,
		       struct machine *machine, struct callchain_cursor *cursor, u64 nr)
{
	bool was_kernel = in_kernel(sample), kernel, exact = false, is_unwound;
	struct callchain_cursor_node *node;

	is_unwound = sample->user_regs.regs && sample->user_stack.size;
	for (; (node = callchain_cursor_current(cursor)); callchain_cursor_advance(cursor)) {
		exact |= ip_callchain__is_mark(node->ip);
		kernel = machine__kernel_ip(machine, node->ip);
		convert->locations[nr++] =
			location_of(convert, node->ms.map, node->ms.sym,
				    exact || node->branch || kernel != was_kernel ||
				    (is_unwound && !kernel) ? node->ip : address_in_call(node));
		was_kernel = kernel;
	}
	return nr;
}

/* Returns the number of locations, or -ENOMEM. */
static s64 stack_of(struct convert_pprof *convert, struct perf_sample *sample, struct evsel *evsel,
		    struct thread *thread, struct machine *machine)
{
	struct callchain_cursor *cursor = get_tls_callchain_cursor();
	const u64 max = max_t(u64, scripting_max_stack,
			      sample->callchain ? sample->callchain->nr : 0);
	u64 *more;

	/* What is wrong with a chain ends it. */
	if (!cursor || thread__resolve_callchain(thread, cursor, evsel, sample, NULL, NULL,
						 max) == -ENOMEM)
		return -ENOMEM;
	callchain_cursor_commit(cursor);
	if (convert->room <= cursor->nr) {
		more = reallocarray(convert->locations, cursor->nr + 1, sizeof(*more));
		if (!more)
			return -ENOMEM;
		convert->locations = more;
		convert->room = cursor->nr + 1;
	}
	convert->locations[0] = location_of_sample(convert, sample, thread);
	if (starts_at_sample(cursor, sample, machine))
		callchain_cursor_advance(cursor);
	return add_callers(convert, sample, machine, cursor, 1);
}

static struct pprof_label label(struct convert_pprof *convert, const char *key, const char *value)
{
	return (struct pprof_label) {
		.key = pprof__string(convert->pprof, key),
		.value = pprof__string(convert->pprof, value),
	};
}

/* Numbers are strings as well: readers lose a number that is 0. */
static struct pprof_label number_label(struct convert_pprof *convert, const char *key, int value)
{
	char text[16];

	scnprintf(text, sizeof(text), "%d", value);
	return label(convert, key, text);
}

static size_t labels_of(struct convert_pprof *convert, const struct perf_sample *sample,
			struct thread *thread, struct machine *machine,
			struct pprof_label labels[LABELS_MAX])
{
	struct cgroup *cgroup = sample->cgroup ? cgroup__find(machine->env, sample->cgroup) : NULL;
	size_t nr = 0;

	labels[nr++] = number_label(convert, "pid", thread__pid(thread));
	labels[nr++] = number_label(convert, "tid", thread__tid(thread));
	labels[nr++] = label(convert, "comm", thread__comm_str(thread));
	if (cgroup)
		labels[nr++] = label(convert, "cgroup", cgroup->name);
	return nr;
}

static int process_sample(const struct perf_tool *tool, union perf_event *event __maybe_unused,
			  struct perf_sample *sample, struct evsel *evsel, struct machine *machine)
{
	struct convert_pprof *convert = container_of(tool, struct convert_pprof, tool);
	struct pprof_label labels[LABELS_MAX];
	struct thread *thread;
	size_t nr_labels;
	s64 nr;

	thread = machine__findnew_thread(machine, sample->pid, sample->tid);
	if (!thread)
		return -ENOMEM;
	nr = stack_of(convert, sample, evsel, thread, machine);
	if (nr > 0) {
		nr_labels = labels_of(convert, sample, thread, machine, labels);
		pprof__add_sample(convert->pprof, convert->locations, nr, labels, nr_labels,
				  type_of(convert, evsel), sample->period);
		if (!convert->samples++)
			convert->first = sample->time;
		convert->last = sample->time;
	}
	thread__put(thread);
	return nr < 0 ? nr : 0;
}

static void init_callchains(struct perf_session *session)
{
	/* Stacks begin with the innermost function, whatever the configuration says. */
	callchain_param.order = ORDER_CALLEE;
	callchain_param_setup(evlist__combined_sample_type(session->evlist),
			      perf_env__arch(&session->header.env));
}

/* Events of a pipe become known one after the other. */
static int process_attr(const struct perf_tool *tool, union perf_event *event,
			struct evlist **evlist)
{
	struct convert_pprof *convert = container_of(tool, struct convert_pprof, tool);
	int ret = perf_event__process_attr(tool, event, evlist);

	if (!ret)
		init_callchains(convert->session);
	return ret;
}

/* In a pipe, the features end with one that does not exist. */
static int process_feature(struct perf_session *session, union perf_event *event)
{
	return event->feat.feat_id < HEADER_LAST_FEATURE ?
	       perf_event__process_feature(session, event) : 0;
}

static void init_tool(struct perf_tool *tool)
{
	perf_tool__init(tool, /*ordered_events=*/true);
	tool->sample		= process_sample;
	tool->mmap		= perf_event__process_mmap;
	tool->mmap2		= perf_event__process_mmap2;
	tool->comm		= perf_event__process_comm;
	tool->namespaces	= perf_event__process_namespaces;
	tool->cgroup		= perf_event__process_cgroup;
	tool->exit		= perf_event__process_exit;
	tool->fork		= perf_event__process_fork;
	tool->lost		= perf_event__process_lost;
	tool->ksymbol		= perf_event__process_ksymbol;
	tool->text_poke		= perf_event__process_text_poke;
	tool->attr		= process_attr;
	tool->event_update	= perf_event__process_event_update;
	tool->feature		= process_feature;
	tool->build_id		= perf_event__process_build_id;
	tool->id_index		= perf_event__process_id_index;
#ifdef HAVE_LIBTRACEEVENT
	tool->tracing_data	= perf_event__process_tracing_data;
#endif
	tool->ordering_requires_timestamps = true;
}

/* The events whose samples perf counts have a type even if they have no sample. */
static void add_types(struct convert_pprof *convert)
{
	struct evlist *evlist = convert->session->evlist;
	struct evsel *evsel;

	evlist__for_each_entry(evlist, evsel) {
		if (!evsel__is_dummy_event(evsel))
			type_of(convert, evsel);
	}
}

static void set_period(struct convert_pprof *convert)
{
	struct evlist *evlist = convert->session->evlist;
	struct evsel *evsel;

	evlist__for_each_entry(evlist, evsel) {
		u64 period = evsel->core.attr.sample_period;

		if (evsel__is_dummy_event(evsel))
			continue;
		if (evsel->core.attr.freq)
			period = evsel__is_clock(evsel) && period ? NSEC_PER_SEC / period : 0;
		pprof__set_period(convert->pprof, type_of(convert, evsel), period);
		return;
	}
}

static void set_time(struct convert_pprof *convert)
{
	const struct perf_env *env = &convert->session->header.env;
	struct stat st;
	u64 begin = 0;

	if (env->clock.enabled)
		begin = env->clock.tod_ns + convert->first - env->clock.clockid_ns;
	else if (!fstat(perf_data__fd(convert->session->data), &st) && S_ISREG(st.st_mode))
		begin = st.st_mtime * NSEC_PER_SEC - (convert->last - convert->first);
	pprof__set_time(convert->pprof, begin, convert->last - convert->first);
}

static void add_command(struct convert_pprof *convert)
{
	const struct perf_env *env = &convert->session->header.env;
	char *text = NULL;
	size_t size;
	/* A truncated file may have the number alone. */
	FILE *file = env->cmdline_argv ? open_memstream(&text, &size) : NULL;

	for (int i = 0; file && i < env->nr_cmdline; i++)
		fprintf(file, "%s%s", i ? " " : "", env->cmdline_argv[i]);
	if (file && !fclose(file))
		pprof__comment(convert->pprof, text);
	free(text);
}

static int convert_session(struct convert_pprof *convert, const char *output)
{
	int ret = symbol__init(&convert->session->header.env);

	if (ret < 0) {
		pr_err("Symbols cannot be read.\n");
		return ret;
	}
	init_callchains(convert->session);
	add_types(convert);
	ret = perf_session__process_events(convert->session);
	if (ret < 0) {
		pr_err("'%s' cannot be read to its end, so '%s' is not written.\n",
		       convert->session->data->path, output);
		return ret;
	}
	if (!convert->samples) {
		pr_err("'%s' has no samples, so '%s' is not written.\n",
		       convert->session->data->path, output);
		return -ENODATA;
	}
	set_period(convert);
	set_time(convert);
	add_command(convert);
	pprof__program_first(convert->pprof, "comm", COMM_MAX);
	ret = pprof__write(convert->pprof, output);
	if (ret)
		pr_err("'%s' cannot be written: %s\n", output, strerror(-ret));
	return ret;
}

/**
 * convert__perf2pprof - convert samples to a profile for pprof
 * @input_name:	perf.data, or NULL for the default name; - is standard input
 * @output:	the new file, which must not exist
 * @opts:	options of perf data convert
 *
 * Return: 0, or 1 after a message, the status of perf.
 */
int convert__perf2pprof(const char *input_name, const char *output,
			struct perf_data_convert_opts *opts)
{
	struct perf_data data = {
		.mode = PERF_DATA_MODE_READ, .path = input_name, .force = opts->force,
	};
	struct convert_pprof convert = {};
	struct stat st;
	int ret;

	if (opts->all || opts->tod) {
		pr_err("--all and --tod are not for pprof's format.\n");
		return 1;
	}
	if (!opts->force && !stat(output, &st) && S_ISREG(st.st_mode)) {
		pr_err("'%s' exists; --force overwrites it.\n", output);
		return 1;
	}
	symbol_conf.use_callchain = true;
	/* Lines are found once for each location. */
	symbol_conf.inline_name = false;
	srcline_full_filename = true;
	convert.pprof = pprof__new();
	if (!convert.pprof) {
		pr_err("Not enough memory.\n");
		return 1;
	}
	pprof__type(convert.pprof, "samples", "count");
	init_tool(&convert.tool);
	convert.session = perf_session__new(&data, &convert.tool);
	if (IS_ERR(convert.session)) {
		ret = PTR_ERR(convert.session);
	} else {
		ret = convert_session(&convert, output);
		perf_session__delete(convert.session);
	}
	if (!ret)
		fprintf(stderr, "[ perf data convert: %" PRIu64 " samples of '%s' are in '%s' ]\n",
			convert.samples, data.path, output);
	pprof__delete(convert.pprof);
	free(convert.locations);
	return ret != 0;
}
