// SPDX-License-Identifier: GPL-2.0
/*
 * Loads, attaches and reads the BPF programs, and stops them without missing user stacks that
 * are still due.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "prof.h"
#include "stackprof.skel.h"

#define POLL_MS		100

/* How often to look for deliveries after the last sample. */
#define LAST_POLLS	5

static struct {
	const struct settings	*settings;
	struct stackprof_bpf	*bpf;
	struct ring_buffer	*ring;
	struct bpf_link		**samplers;
	size_t			nr_samplers;
	size_t			room_samplers;
} session;

static int print_libbpf(enum libbpf_print_level level, const char *format, va_list args)
{
	if (!session.settings->verbose)
		return 0;
	return vfprintf(stderr, format, args);
}

static void check_kernel(void)
{
	if (access("/sys/kernel/btf/vmlinux", R_OK))
		die(STATUS_FAILED, "this kernel has no BTF; it needs CONFIG_DEBUG_INFO_BTF=y");
	if (libbpf_find_vmlinux_btf_id("bpf_user_unwind_deliver", BPF_TRACE_FENTRY) < 0)
		die(STATUS_FAILED,
		    "no deferred user stacks for BPF; the kernel needs CONFIG_UNWIND_USER=y");
}

static void set_sizes(const struct settings *settings)
{
	const __u32 size = settings->depth * sizeof(__u64);
	struct stackprof_bpf *bpf = session.bpf;

	if (bpf_map__set_max_entries(bpf->maps.ring, settings->ring_size) ||
	    bpf_map__set_max_entries(bpf->maps.stacks, settings->stacks) ||
	    bpf_map__set_value_size(bpf->maps.stacks, size) ||
	    bpf_map__set_value_size(bpf->maps.scratch, sizeof(struct record_stack) + size) ||
	    bpf_map__set_max_entries(bpf->maps.targets, settings->tasks) ||
	    bpf_map__set_max_entries(bpf->maps.blocked, settings->tasks))
		die(STATUS_FAILED, "cannot set the sizes of maps");
	bpf->rodata->stack_size = size;
	bpf->rodata->wakeup_size = settings->ring_size / 4;
}

static void set_programs(const struct settings *settings)
{
	const bool tracepoint = settings->event.category;
	struct stackprof_bpf *bpf = session.bpf;

	bpf->rodata->own_tgid = getpid();
	bpf->rodata->only_targets = settings->only_targets;
	if (tracepoint)
		bpf->rodata->tracepoint_period = settings->event.attr.sample_period;
	bpf_program__set_autoload(bpf->progs.on_switch, settings->off_cpu);
	bpf_program__set_autoload(bpf->progs.on_tracepoint, !settings->off_cpu && tracepoint);
	bpf_program__set_autoload(bpf->progs.on_event, !settings->off_cpu && !tracepoint);
	bpf_program__set_autoload(bpf->progs.on_fork, settings->only_targets);
	bpf_program__set_autoload(bpf->progs.on_exit, settings->only_targets);
}

static void __attribute__((noreturn)) die_load(int error)
{
	switch (error) {
	case EBUSY:
		die(STATUS_FAILED,
		    "all tracers of the user unwinder are in use; end another profiler or tracer");
	case EPERM:
		die(STATUS_FAILED, "no permission to load BPF programs; run as root");
	case ENOMEM:
		die(STATUS_FAILED,
		    "no memory for the maps; make --ring-size, --stacks or --tasks smaller");
	default:
		die(STATUS_FAILED,
		    "the kernel does not take the BPF programs: %s; --verbose shows why",
		    strerror(error));
	}
}

/**
 * session_load - load all programs and maps, but do not attach any program yet
 * @settings:	must exist until the end
 */
void session_load(const struct settings *settings)
{
	int ret;

	session.settings = settings;
	libbpf_set_print(print_libbpf);
	check_kernel();
	session.bpf = stackprof_bpf__open();
	if (!session.bpf)
		die(STATUS_FAILED, "cannot read the BPF programs: %s", strerror(errno));
	set_sizes(settings);
	set_programs(settings);
	ret = stackprof_bpf__load(session.bpf);
	if (ret)
		die_load(-ret);

	merge_init(bpf_map__fd(session.bpf->maps.stacks), settings->depth);
	session.ring = ring_buffer__new(bpf_map__fd(session.bpf->maps.ring), merge_record, NULL,
					NULL);
	if (!session.ring)
		die(STATUS_FAILED, "cannot map the ring: %s", strerror(errno));
	/* From now on, the kernel reports mappings; earlier ones are read from /proc. */
	spaces_open(bpf_map__fd(session.bpf->maps.mmaps));
	if (!settings->only_targets)
		spaces_scan();
}

/* Profile a process, and its children. */
void session_target(__u32 tgid)
{
	const __u8 one = 1;

	if (bpf_map__update_elem(session.bpf->maps.targets, &tgid, sizeof(tgid), &one,
				 sizeof(one), BPF_ANY))
		die(STATUS_FAILED, "process %u is one too many; make --tasks larger", tgid);
	spaces_scan_process(tgid);
}

static struct bpf_link *attach_program(struct bpf_program *program)
{
	struct bpf_link *link = bpf_program__attach(program);

	if (!link)
		die(STATUS_FAILED, "the kernel does not attach the BPF program %s: %s",
		    bpf_program__name(program), strerror(errno));
	return link;
}

static void add_sampler(struct bpf_link *link)
{
	if (!link)
		die(STATUS_FAILED, "cannot attach to '%s': %s", session.settings->event.name,
		    strerror(errno));
	session.samplers = xgrow(session.samplers, session.nr_samplers, &session.room_samplers,
				 sizeof(*session.samplers));
	session.samplers[session.nr_samplers++] = link;
}

static void attach_event(const struct event *event)
{
	struct bpf_program *program = session.bpf->progs.on_event;

	for (int cpu = 0; cpu < libbpf_num_possible_cpus(); cpu++) {
		int fd = event_open(event, cpu);

		if (fd >= 0)
			add_sampler(bpf_program__attach_perf_event(program, fd));
	}
}

/* Attach on_delivery() first: otherwise the deliveries for early samples are missed. */
void session_start(void)
{
	const struct event *event = &session.settings->event;
	struct stackprof_bpf *bpf = session.bpf;

	bpf->links.on_delivery = attach_program(bpf->progs.on_delivery);
	if (session.settings->only_targets) {
		bpf->links.on_fork = attach_program(bpf->progs.on_fork);
		bpf->links.on_exit = attach_program(bpf->progs.on_exit);
	}
	if (session.settings->off_cpu)
		add_sampler(attach_program(bpf->progs.on_switch));
	else if (event->category)
		add_sampler(bpf_program__attach_tracepoint(bpf->progs.on_tracepoint,
							   event->category, event->tracepoint));
	else
		attach_event(event);
}

/* Read the ring first: the mappings of its stacks are all reported by then. */
static void drain(void)
{
	ring_buffer__consume(session.ring);
	spaces_read(now_ns());
	spaces_rescan();
	merge_touch();
}

/* Handle the records in the ring, after a short wait for more. */
void session_poll(void)
{
	int ret = ring_buffer__poll(session.ring, POLL_MS);

	if (ret < 0 && ret != -EINTR)
		die(STATUS_FAILED, "cannot read the ring: %s", strerror(-ret));
	drain();
}

/* Threads that are still blocked count up to now. */
static void end_waits(void)
{
	const struct bpf_map *map = session.bpf->maps.blocked;
	const __u64 now = now_ns();
	__u32 key, *previous = NULL;
	struct record rec;

	while (!bpf_map__get_next_key(map, previous, &key, sizeof(key))) {
		previous = &key;
		if (bpf_map__lookup_elem(map, &key, sizeof(key), &rec, sizeof(rec), 0))
			continue;
		rec.weight = now > rec.time ? now - rec.time : 0;
		merge_sample(&rec);
	}
}

/* Stop sampling, but take the user stacks of the samples so far. */
void session_stop(void)
{
	for (size_t i = 0; i < session.nr_samplers; i++)
		bpf_link__destroy(session.samplers[i]);
	drain();
	if (session.settings->off_cpu)
		end_waits();
	for (int i = 0; i < LAST_POLLS && merge_pending(); i++)
		session_poll();
	bpf_link__destroy(session.bpf->links.on_delivery);
	session.bpf->links.on_delivery = NULL;
	drain();
	merge_end();
}

static __u64 read_count(__u32 which)
{
	const int nr = libbpf_num_possible_cpus();
	__u64 *values = xalloc(nr * sizeof(*values)), sum = 0;

	if (bpf_map__lookup_elem(session.bpf->maps.counts, &which, sizeof(which), values,
				 nr * sizeof(*values), 0))
		die(STATUS_FAILED, "cannot read what was lost: %s", strerror(errno));
	for (int cpu = 0; cpu < nr; cpu++)
		sum += values[cpu];
	free(values);
	return sum;
}

/* How often a program was skipped because it was already running on its CPU. */
static __u64 misses(const struct bpf_program *program)
{
	struct bpf_prog_info info = {};
	__u32 size = sizeof(info);

	if (bpf_program__fd(program) < 0 ||
	    bpf_prog_get_info_by_fd(bpf_program__fd(program), &info, &size))
		return 0;
	return info.recursion_misses;
}

void session_losses(struct losses *losses)
{
	const struct stackprof_bpf *bpf = session.bpf;
	const __u64 missed = misses(bpf->progs.on_switch) + misses(bpf->progs.on_tracepoint);

	losses->samples = read_count(COUNT_SAMPLES) + missed;
	losses->lost_samples = read_count(COUNT_LOST_SAMPLES) + missed;
	losses->lost_user = read_count(COUNT_LOST_USER) + misses(bpf->progs.on_delivery);
	losses->lost_stacks = read_count(COUNT_LOST_STACKS);
	losses->lost_children = read_count(COUNT_LOST_CHILDREN);
}
