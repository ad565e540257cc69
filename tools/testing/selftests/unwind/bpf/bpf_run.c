// SPDX-License-Identifier: GPL-2.0
/*
 * Load and attach programs of bpf_unwind.bpf.c, and read their results.
 */
#define _GNU_SOURCE
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bpf_run.h"
#include "bpf_unwind.skel.h"
#include "perf_ring.h"
#include "tracer.h"
#include "workload.h"

/* How long an unloaded program may hold its tracer, on a busy host. */
#define SECONDS		100

const char *bpf_run_missing(void)
{
	if (geteuid())
		return "needs root";
	if (access("/sys/kernel/btf/vmlinux", R_OK))
		return "needs CONFIG_BPF_SYSCALL and CONFIG_DEBUG_INFO_BTF";
	if (!kernel_symbol("bpf_user_unwind_deliver"))
		return "needs CONFIG_UNWIND_USER and CONFIG_BPF_EVENTS";
	return NULL;
}

int bpf_run_open(struct bpf_run *run)
{
	libbpf_set_print(NULL);
	memset(run, 0, sizeof(*run));
	run->skel = bpf_unwind__open();
	return run->skel ? 0 : -errno;
}

struct bpf_program *bpf_run_program(struct bpf_run *run, const char *name)
{
	char only[64];

	/* Strip the attach target. */
	snprintf(only, sizeof(only), "%.*s", (int)strcspn(name, "@"), name);
	return bpf_object__find_program_by_name(run->skel->obj, only);
}

int bpf_run_map(struct bpf_run *run, const char *name)
{
	return bpf_object__find_map_fd_by_name(run->skel->obj, name);
}

static int keep_link(struct bpf_run *run, struct bpf_link *link)
{
	if (!link)
		return -errno;
	if (run->nr_links == BPF_RUN_LINKS) {
		bpf_link__destroy(link);
		return -E2BIG;
	}
	run->links[run->nr_links++] = link;
	return 0;
}

int bpf_run_attach(struct bpf_run *run, const char *name)
{
	return keep_link(run, bpf_program__attach(bpf_run_program(run, name)));
}

int bpf_run_attach_event(struct bpf_run *run, const char *name, int fd)
{
	return keep_link(run, bpf_program__attach_perf_event(bpf_run_program(run, name), fd));
}

static int attach_uprobe(struct bpf_run *run, const char *name, const void *at, bool ret)
{
	struct perf_event_attr attr;
	char file[4096];
	int err = uprobe_attr(&attr, at, file, sizeof(file));

	if (err)
		return err;
	return keep_link(run, bpf_program__attach_uprobe(bpf_run_program(run, name), ret, 0,
							 file, attr.probe_offset));
}

int bpf_run_attach_uprobe(struct bpf_run *run, const char *name, const void *at)
{
	return attach_uprobe(run, name, at, false);
}

int bpf_run_attach_uretprobe(struct bpf_run *run, const char *name, const void *at)
{
	return attach_uprobe(run, name, at, true);
}

void bpf_run_detach(struct bpf_run *run)
{
	bpf_link__destroy(run->links[--run->nr_links]);
}

/* The sections of perf event and uprobe programs name no target. */
static bool says_where(const struct bpf_program *program)
{
	return strpbrk(bpf_program__section_name(program), "/");
}

static int start(struct bpf_run *run, const struct bpf_run *with, const char *const *names)
{
	int err;

	if (with) {
		err = bpf_map__reuse_fd(run->skel->maps.bss, bpf_map__fd(with->skel->maps.bss));
		if (err)
			return err;
	}

	for (const char *const *name = names; *name; name++) {
		struct bpf_program *program = bpf_run_program(run, *name);
		const char *at = strchr(*name, '@');

		if (!program)
			return -ENOENT;
		bpf_program__set_autoload(program, true);
		if (at && bpf_program__set_attach_target(program, 0, at + 1))
			return -errno;
	}
	err = bpf_unwind__load(run->skel);
	if (err)
		return err;
	run->shared = &run->skel->bss->shared;
	if (!with)
		run->shared->tid = BPF_RUN_NOBODY;
	for (const char *const *name = names; *name && !err; name++) {
		if (says_where(bpf_run_program(run, *name)))
			err = bpf_run_attach(run, *name);
	}
	return err;
}

int __bpf_run_start(struct bpf_run *run, const struct bpf_run *with, const char *const *names)
{
	int err = bpf_run_open(run);

	if (err)
		return err;
	err = start(run, with, names);
	if (err)
		bpf_run_close(run);
	return err;
}

void bpf_run_close(struct bpf_run *run)
{
	while (run->nr_links)
		bpf_run_detach(run);
	bpf_unwind__destroy(run->skel);
	run->skel = NULL;
	run->shared = NULL;
}

__u64 bpf_run_load_time(const struct bpf_program *program)
{
	struct bpf_prog_info info = {};
	__u32 size = sizeof(info);

	return bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size) ? 0 : info.load_time;
}

void bpf_run_wait_freed(const struct bpf_run *run, __u64 load_time)
{
	while (!bpf_run_count(run, BPF_UNWIND_FREED, load_time))
		usleep(1000);
}

void bpf_run_clear(struct bpf_run *run)
{
	run->shared->nr_notes = 0;
	run->shared->nr_traces = 0;
}

const struct bpf_unwind_note *bpf_run_note(const struct bpf_run *run, enum bpf_unwind_who who,
					   unsigned int nr)
{
	for (__u32 i = 0; i < run->shared->nr_notes && i < BPF_UNWIND_NOTES; i++) {
		const struct bpf_unwind_note *note = &run->shared->notes[i];

		if (note->who == who && !nr--)
			return note;
	}
	return NULL;
}

unsigned int bpf_run_count(const struct bpf_run *run, enum bpf_unwind_who who, __u64 cookie)
{
	unsigned int count = 0;

	for (__u32 i = 0; i < run->shared->nr_notes && i < BPF_UNWIND_NOTES; i++) {
		const struct bpf_unwind_note *note = &run->shared->notes[i];

		count += note->who == who && (!cookie || note->cookie == cookie);
	}
	return count;
}

const struct bpf_unwind_trace *bpf_run_trace(const struct bpf_run *run,
					     enum bpf_unwind_who who,
					     enum bpf_unwind_how how, unsigned int nr)
{
	for (__u32 i = 0; i < run->shared->nr_traces && i < BPF_UNWIND_TRACES; i++) {
		const struct bpf_unwind_trace *trace = &run->shared->traces[i];

		if (trace->who == who && trace->how == how && !nr--)
			return trace;
	}
	return NULL;
}

bool bpf_run_right(const struct bpf_unwind_trace *trace, unsigned int depth)
{
	return trace && trace->ret == (__s64)sizeof(__u64) * WORKLOAD_NR(depth) &&
	       workload_check(trace->ips, WORKLOAD_NR(depth), depth) < 0;
}

bool bpf_run_has(const struct bpf_unwind_trace *trace, unsigned int nr)
{
	return trace && trace->ret == (__s64)sizeof(__u64) * nr &&
	       workload_is_leaf_fp(trace->ips[0]);
}

static int by_cookie(const void *a, const void *b)
{
	const struct bpf_unwind_note *x = a, *y = b;

	if (x->cookie != y->cookie)
		return x->cookie < y->cookie ? -1 : 1;
	return 0;
}

/* Add up the notes of one cookie. */
static void sum_entry(struct bpf_run_sum *sum, const struct bpf_unwind_note *note,
		      unsigned int nr, enum bpf_unwind_who who)
{
	unsigned int asked = 0, granted = 0, delivered = 0, allowed;
	__u64 ended = -1ULL, begun = 0;

	for (unsigned int i = 0; i < nr; i++) {
		if (note[i].who == BPF_UNWIND_ASK && note[i].arrivals < ended)
			ended = note[i].arrivals;
		if (note[i].who == who && note[i].arrivals > begun)
			begun = note[i].arrivals;
		asked += note[i].who == BPF_UNWIND_ASK;
		granted += note[i].who == BPF_UNWIND_ASK && !note[i].ret;
		delivered += note[i].who == who;
		sum->empty += note[i].who == who && !note[i].ret;
	}
	sum->asked += asked;
	sum->entries += !!asked;
	sum->granted_twice += granted > 1;
	sum->not_granted += asked && !granted;
	sum->delivered += !!delivered;
	sum->missing += asked && !delivered;
	sum->twice += delivered > 1;
	/* Each arrival between the first request and the last delivery may add a delivery. */
	allowed = granted + (begun > ended ? begun - ended : 0);
	sum->surplus += delivered > allowed ? delivered - allowed : 0;
	sum->foreign += delivered && !asked;
}

void bpf_run_add_up(const struct bpf_run *run, enum bpf_unwind_who who, struct bpf_run_sum *sum)
{
	unsigned int nr = run->shared->nr_notes, end;
	struct bpf_unwind_note *notes;

	memset(sum, 0, sizeof(*sum));
	if (nr > BPF_UNWIND_NOTES) {
		sum->lost = nr - BPF_UNWIND_NOTES;
		nr = BPF_UNWIND_NOTES;
	}
	notes = malloc((nr + 1) * sizeof(*notes));
	if (!notes)
		exit(1);
	memcpy(notes, run->shared->notes, nr * sizeof(*notes));
	qsort(notes, nr, sizeof(*notes), by_cookie);
	for (unsigned int i = 0; i < nr; i = end) {
		for (end = i + 1; end < nr && notes[end].cookie == notes[i].cookie; end++)
			;
		if (notes[i].cookie)
			sum_entry(sum, notes + i, end - i, who);
		else
			sum->refused += end - i;
	}
	free(notes);
}

unsigned int bpf_run_take_tracers(int fd)
{
	unsigned int slot = 0;
	int err = 0;

	for (; !err && slot < UNWIND_TEST_SLOTS; slot++)
		err = tracer_op(fd, (struct unwind_test_op)OP_INIT(slot));
	/* The last one was refused. */
	if (err != -EBUSY || slot < 3)
		return 0;
	return tracer_op(fd, (struct unwind_test_op)OP_CANCEL(slot - 2)) ? 0 : slot - 2;
}

bool bpf_run_tracer_left_now(int fd, unsigned int slot)
{
	if (tracer_op(fd, (struct unwind_test_op)OP_INIT(slot)))
		return false;
	tracer_op(fd, (struct unwind_test_op)OP_CANCEL(slot));
	return true;
}

bool bpf_run_tracer_left(int fd, unsigned int slot)
{
	for (int i = 0; i < SECONDS * 100; i++) {
		if (bpf_run_tracer_left_now(fd, slot))
			return true;
		usleep(10000);
	}
	return false;
}
