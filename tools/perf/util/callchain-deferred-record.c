// SPDX-License-Identifier: GPL-2.0
/*
 * Recording deferred user callchains: option values and attr bits.
 *
 * Two attr bits belong together. attr.defer_callchain is set in each event whose
 * samples shall carry a cookie instead of user addresses. attr.defer_output is set
 * in exactly one event of each ring buffer with such samples, because the kernel
 * writes a record to every event with that bit. The bits are decided here, when all
 * events of the evlist are known, and are cleared again if the kernel refuses them.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <linux/kernel.h>
#include <linux/string.h>

#include <perf/cpumap.h>

#include "callchain.h"
#include "callchain-deferred.h"
#include "debug.h"
#include "evlist.h"
#include "evsel.h"
#include "perf_api_probe.h"
#include "record.h"
#include "util.h"

/* The kernel's limit, whatever kernel.perf_event_max_stack says. */
#define MAX_RECORD_IPS	8180

static bool is_number(const char *str)
{
	return *str && str[strspn(str, "0123456789")] == '\0';
}

/* Is one of the comma separated words of @list equal to @word? */
static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	while (list) {
		if (!strncmp(list, word, len) && (!list[len] || list[len] == ','))
			return true;
		list = strchr(list, ',');
		if (list)
			list++;
	}
	return false;
}

static int parse_max_stack(const char *arg, const char *tok, u16 *max_stack)
{
	unsigned long limit = min_t(int, sysctl__max_stack(), USHRT_MAX);
	unsigned long nr = strtoul(tok, NULL, 10);

	if (nr < 1 || nr > limit) {
		pr_err("callchain: max-stack %s of '%s' is not within 1 and %lu (kernel.perf_event_max_stack)\n",
		       tok, arg, limit);
		return -EINVAL;
	}
	*max_stack = nr;
	return 0;
}

/* Parse the words after "fp" or "deferred". */
static int parse_words(const char *arg, char *words, bool defer, struct callchain_param *param)
{
	char *tok, *saveptr = NULL;
	u16 max_stack = 0;
	bool lbr = false;
	int ret;

	for (tok = strtok_r(words, ",", &saveptr); tok; tok = strtok_r(NULL, ",", &saveptr)) {
		if (!strcmp(tok, "defer") && !defer) {
			defer = true;
		} else if (is_number(tok) && !max_stack) {
			ret = parse_max_stack(arg, tok, &max_stack);
			if (ret)
				return ret;
		} else if (!strcmp(tok, "lbr") && !lbr && (defer || has_word(arg, "defer"))) {
			lbr = true;
		} else {
			pr_err("callchain: '%s' of '%s' is not expected, use deferred[,max-stack][,lbr] or fp[,max-stack][,defer][,lbr]\n",
			       tok, arg);
			return -EINVAL;
		}
	}

	param->record_mode = CALLCHAIN_FP;
	param->defer = true;
	param->defer_lbr = lbr;
	if (max_stack)
		param->max_stack = max_stack;
	return 0;
}

/* Parse "dwarf[,size],defer". The caller parses "dwarf,size". */
static int parse_dwarf(const char *arg, struct callchain_param *param)
{
	const char *last = strrchr(arg, ',');
	bool defer = !strcmp(last, ",defer");
	/* Empty, or the size. */
	const char *middle = strchr(arg, ',') + 1;
	char *rest;
	int ret;

	if (defer ? middle < last && memchr(middle, ',', last - middle) : middle <= last) {
		pr_err("callchain: '%s' is not expected, use dwarf[,size][,defer]\n", arg);
		return -EINVAL;
	}
	if (!defer)
		return 1;

	rest = strndup(arg, last - arg);
	if (!rest)
		return -ENOMEM;
	ret = parse_callchain_record(rest, param);
	free(rest);
	param->defer = !ret;
	return ret;
}

/**
 * parse_callchain_deferred - parse a record mode with deferral
 * @arg: value of --call-graph, of the call-graph term or of the config key
 * @param: the result
 *
 * Accepts "deferred[,max-stack][,lbr]", "fp[,max-stack][,defer][,lbr]" with the words
 * after the first in any order, and "dwarf[,size],defer".
 *
 * Return: 0, 1 if @arg does not ask for deferral, or -EINVAL after a message.
 */
int parse_callchain_deferred(const char *arg, struct callchain_param *param)
{
	size_t len = strcspn(arg, ",");
	bool fp = len == strlen("fp") && !strncmp(arg, "fp", len);
	bool deferred = len == strlen("deferred") && !strncmp(arg, "deferred", len);
	bool defer = has_word(arg, "defer");
	char *words;
	int ret;

	param->defer = false;
	param->defer_lbr = false;

	if (!strncmp(arg, "dwarf,", strlen("dwarf,")))
		return parse_dwarf(arg, param);

	/* Without deferral, a second word that is not a number has always been read as 0. */
	if (fp && !defer && (!arg[len] || is_number(arg + len + 1)))
		return 1;

	if (!fp && !deferred) {
		if (!defer)
			return 1;
		pr_err("callchain: only fp and dwarf can be deferred, not '%s'\n", arg);
		return -EINVAL;
	}

	words = strdup(arg + len);
	if (!words)
		return -ENOMEM;

	ret = parse_words(arg, words, deferred, param);
	free(words);
	return ret;
}

/**
 * cut_callchain_deferred - split off a deferred record mode
 * @arg: comma separated words, the record mode first
 *
 * perf top mixes the words for recording and reporting in one list, where a
 * number may belong to either. The numbers next to "deferred", "defer" and "lbr" are
 * the stack depth.
 *
 * Return: the rest of @arg after the record mode, which is cut off from it, or NULL
 * if the list does not begin with a deferred record mode.
 */
char *cut_callchain_deferred(char *arg)
{
	bool is_mode = !strncmp(arg, "fp,", 3) || !strncmp(arg, "dwarf,", 6);
	char *pos = arg, *end;

	if (!has_word(arg, is_mode ? "defer" : "deferred"))
		return NULL;
	if (!is_mode && strncmp(arg, "deferred", strlen("deferred")))
		return NULL;

	while ((pos = strchr(pos, ',')) != NULL) {
		char word[8];

		end = strchrnul(++pos, ',');
		if (end - pos >= (ptrdiff_t)sizeof(word))
			break;
		memcpy(word, pos, end - pos);
		word[end - pos] = '\0';
		if (strcmp(word, "defer") && strcmp(word, "lbr") && !is_number(word))
			break;
	}
	if (!pos)
		return arg + strlen(arg);

	pos[-1] = '\0';
	return pos;
}

#define DEFERRED_BRANCHES							\
	(PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_CALL_STACK |		\
	 PERF_SAMPLE_BRANCH_NO_CYCLES | PERF_SAMPLE_BRANCH_NO_FLAGS |		\
	 PERF_SAMPLE_BRANCH_HW_INDEX)

/**
 * evsel__config_callchain_lbr - record what completes deferred user callchains
 * @evsel: its callchains are deferred
 * @opts: may ask for other branches
 */
void evsel__config_callchain_lbr(struct evsel *evsel, const struct record_opts *opts)
{
	struct perf_event_attr *attr = &evsel->core.attr;

	if (opts->branch_stack) {
		pr_warning("Branches are recorded as -b or -j says, and lbr is ignored.\n");
		return;
	}
	if (attr->exclude_user) {
		pr_warning("%s: lbr is ignored, which is for events of user space.\n",
			   evsel__name(evsel));
		return;
	}
	evsel__set_sample_bit(evsel, BRANCH_STACK);
	attr->branch_sample_type = DEFERRED_BRANCHES;
}

/**
 * evsel__reset_callchain_lbr - undo evsel__config_callchain_lbr()
 * @evsel: has its branches, or those that -b or -j asks for, which it keeps
 */
void evsel__reset_callchain_lbr(struct evsel *evsel)
{
	struct perf_event_attr *attr = &evsel->core.attr;

	if (attr->branch_sample_type != DEFERRED_BRANCHES)
		return;
	evsel__reset_sample_bit(evsel, BRANCH_STACK);
	attr->branch_sample_type = 0;
}

/* Is the user part of any callchain deferred? */
bool evlist__defers_callchains(struct evlist *evlist)
{
	struct evsel *evsel;

	evlist__for_each_entry(evlist, evsel) {
		if (evsel->core.attr.defer_callchain)
			return true;
	}
	return false;
}

static bool evlist__has_user_state(struct evlist *evlist)
{
	struct evsel *evsel;

	evlist__for_each_entry(evlist, evsel) {
		if (evsel->core.attr.defer_user_state)
			return true;
	}
	return false;
}

/* Is anything deferred: callchains, or registers and stack? */
bool evlist__has_callchain_deferred(struct evlist *evlist)
{
	return evlist__defers_callchains(evlist) || evlist__has_user_state(evlist);
}

/*
 * Clear the deferral bits of an attr for a reader of merged callchains. It would take branch
 * stacks of calls for the user callchains.
 */
void perf_event_attr__clear_deferred(struct perf_event_attr *attr)
{
	if (attr->defer_callchain)
		attr->branch_sample_type &= ~PERF_SAMPLE_BRANCH_CALL_STACK;
	attr->defer_callchain = 0;
	attr->defer_output = 0;
	attr->defer_user_state = 0;
}

/* Clear all deferral bits of the attrs, but remember them in the evsels. */
void evlist__clear_callchain_deferred(struct evlist *evlist)
{
	struct evsel *evsel;

	evlist__for_each_entry(evlist, evsel) {
		if (evsel->core.attr.defer_callchain)
			evsel->call_stack_deferred |= evsel__has_branch_callstack(evsel);
		evsel->callchain_deferred |= evsel->core.attr.defer_callchain;
		evsel->user_state_deferred |= evsel->core.attr.defer_user_state;
		perf_event_attr__clear_deferred(&evsel->core.attr);
	}
}

/*
 * Returns the deepest event that defers and writes to this kind of ring buffer. If @like
 * is not NULL, only events on the CPUs of @like count.
 */
static struct evsel *evlist__deepest_deferred(struct evlist *evlist, bool backward,
					      const struct evsel *like)
{
	struct evsel *evsel, *deepest = NULL;

	evlist__for_each_entry(evlist, evsel) {
		const struct perf_event_attr *attr = &evsel->core.attr;

		if (!attr->defer_callchain || attr->write_backward != backward)
			continue;
		if (like && !perf_cpu_map__equal(evsel->core.cpus, like->core.cpus))
			continue;
		/* 0 stands for the sysctl's depth, the largest one. */
		if (!deepest || (u16)(attr->sample_max_stack - 1) >
				(u16)(deepest->core.attr.sample_max_stack - 1))
			deepest = evsel;
	}
	return deepest;
}

/*
 * A record with the maximal number of frames may be incomplete. To let readers detect
 * that, write the limit to the attrs even if it is the sysctl's. Write it to all
 * events, because it limits the kernel and user part together.
 */
static void evlist__write_max_stack(struct evlist *evlist)
{
	int limit = max(sysctl__max_stack(), 0);
	struct evsel *evsel;

	evlist__for_each_entry(evlist, evsel) {
		struct perf_event_attr *attr = &evsel->core.attr;

		if (attr->defer_callchain || attr->defer_output)
			attr->sample_max_stack = min(attr->sample_max_stack ?: limit,
						     MAX_RECORD_IPS);
	}
}

/*
 * A record serves all events, so its depth is that of the deepest one. An event that has
 * callchains itself keeps the depth that the user chose. Without another tracking event,
 * one event per set of CPUs gets the output: the core types of a hybrid machine have
 * events of their own.
 */
static void evlist__config_defer_output(struct evlist *evlist, bool backward)
{
	struct evsel *deepest = evlist__deepest_deferred(evlist, backward, NULL);
	struct evsel *tracking = evlist__get_tracking_event(evlist);
	struct perf_event_attr *attr = &tracking->core.attr;
	struct evsel *evsel;

	if (!deepest)
		return;

	if (attr->write_backward != backward || (attr->sample_type & PERF_SAMPLE_CALLCHAIN)) {
		evlist__for_each_entry(evlist, evsel) {
			if (!evsel->core.attr.defer_callchain ||
			    evsel->core.attr.write_backward != backward)
				continue;
			deepest = evlist__deepest_deferred(evlist, backward, evsel);
			deepest->core.attr.defer_output = 1;
		}
		return;
	}
	attr->defer_output = 1;
	attr->sample_max_stack = deepest->core.attr.sample_max_stack;
}

/*
 * Upper bound for the size of a record, marker and cookie without registers and stack. The
 * stack is shortened by this, so that a sample that is alone in its kernel entry takes no
 * more space than with a copy of its own.
 */
#define RECORD_SIZE	128

/* Returns the event with the largest stack of those that share the buffers of @like. */
static struct evsel *evlist__largest_user_state(struct evlist *evlist, const struct evsel *like)
{
	struct evsel *evsel, *largest = NULL;

	evlist__for_each_entry(evlist, evsel) {
		const struct perf_event_attr *attr = &evsel->core.attr;

		if (!attr->defer_user_state ||
		    attr->write_backward != like->core.attr.write_backward ||
		    !perf_cpu_map__equal(evsel->core.cpus, like->core.cpus))
			continue;
		if (!largest || attr->sample_stack_user > largest->core.attr.sample_stack_user)
			largest = evsel;
	}
	return largest;
}

/*
 * May events be deferred after this answer of the kernel? Yes also without permission to
 * open events: opening them fails later and reports the reason.
 */
static bool may_defer(int err)
{
	return !err || err == -EACCES || err == -EPERM;
}

static void warn_fallback(const char *what, int err, const char *fallback)
{
	char buf[STRERR_BUFSIZE];

	if (err == -EINVAL)
		pr_warning("%s are not supported by this kernel, falling back to %s.\n",
			   what, fallback);
	else
		pr_warning("%s cannot be had (%s), falling back to %s.\n", what,
			   str_error_r(-err, buf, sizeof(buf)), fallback);
}

/*
 * Defer registers and stack: one event of each kind of ring buffer gets the records. If
 * the kernel refuses, warn the user and let samples have their own copies.
 */
static void evlist__config_user_state(struct evlist *evlist)
{
	struct evsel *evsel, *largest;
	int err = perf_try_defer_user_state();
	static bool warned;

	if (may_defer(err)) {
		evlist__for_each_entry(evlist, evsel) {
			struct perf_event_attr *attr = &evsel->core.attr;

			if (attr->defer_user_state &&
			    attr->sample_stack_user > 2 * RECORD_SIZE)
				attr->sample_stack_user -= RECORD_SIZE;
		}
		evlist__for_each_entry(evlist, evsel) {
			if (!evsel->core.attr.defer_user_state)
				continue;
			largest = evlist__largest_user_state(evlist, evsel);
			largest->core.attr.defer_output = 1;
		}
		return;
	}

	evlist__for_each_entry(evlist, evsel)
		evsel->core.attr.defer_user_state = 0;
	if (!warned)
		warn_fallback("Deferred copies of the user stack", err, "plain dwarf");
	warned = true;
}

static void evlist__config_callchain(struct evlist *evlist)
{
	int err = perf_try_defer_callchain();
	const char *fallback = "frame pointers";
	static bool warned;
	struct evsel *evsel;

	if (may_defer(err)) {
		evlist__config_defer_output(evlist, false);
		evlist__config_defer_output(evlist, true);
		evlist__write_max_stack(evlist);
		return;
	}

	evlist__for_each_entry(evlist, evsel) {
		if (evsel->core.attr.defer_callchain && evsel__has_branch_callstack(evsel))
			fallback = "lbr";
		evsel->core.attr.defer_callchain = 0;
	}
	if (!warned)
		warn_fallback("Deferred user callchains", err, fallback);
	warned = true;
}

/**
 * evlist__config_callchain_deferred - complete the attrs of deferred events
 * @evlist: the events, all configured and none open
 *
 * If the kernel refuses, warn the user and defer nothing.
 */
void evlist__config_callchain_deferred(struct evlist *evlist)
{
	if (evlist__defers_callchains(evlist))
		evlist__config_callchain(evlist);
	if (evlist__has_user_state(evlist))
		evlist__config_user_state(evlist);
}
