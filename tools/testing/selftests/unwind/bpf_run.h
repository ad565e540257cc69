/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Load and attach programs of bpf_unwind.bpf.c, and see what they found.
 */
#ifndef _UNWIND_BPF_RUN_H
#define _UNWIND_BPF_RUN_H

#include <stdbool.h>

#include "bpf_unwind.h"

struct bpf_link;
struct bpf_program;
struct bpf_unwind;

#define BPF_RUN_LINKS	8

/* No thread has this id, which programs look at until a test tells them another one. */
#define BPF_RUN_NOBODY	(~0U)

struct bpf_run {
	struct bpf_unwind		*skel;
	struct bpf_unwind_shared	*shared;
	struct bpf_link			*links[BPF_RUN_LINKS];
	unsigned int			nr_links;
};

/* Why no program of these can run here, or NULL. Names what a test needs to run. */
const char *bpf_run_missing(void);

/* The programs, not loaded; 0 or -errno. */
int bpf_run_open(struct bpf_run *run);

/*
 * Programs by name, up to a NULL: open and load them, and attach those that know where.
 * To attach one to another function than its own, say "name@function". 0 or -errno, with
 * nothing to be closed.
 */
int __bpf_run_start(struct bpf_run *run, const struct bpf_run *with, const char *const *names);
#define bpf_run_start(run, ...)	\
	__bpf_run_start(run, NULL, (const char *const[]){ __VA_ARGS__, NULL })

/* The same, with the notes and settings of programs that run already. */
#define bpf_run_join(run, with, ...)	\
	__bpf_run_start(run, with, (const char *const[]){ __VA_ARGS__, NULL })

struct bpf_program *bpf_run_program(struct bpf_run *run, const char *name);
int bpf_run_map(struct bpf_run *run, const char *name);

/* Attach to a perf event, to code of this program; 0 or -errno. */
int bpf_run_attach_event(struct bpf_run *run, const char *name, int fd);
int bpf_run_attach_uprobe(struct bpf_run *run, const char *name, const void *at);
int bpf_run_attach_uretprobe(struct bpf_run *run, const char *name, const void *at);

/* Attach what is loaded; 0 or -errno. */
int bpf_run_attach(struct bpf_run *run, const char *name);

/* Detach the latest. */
void bpf_run_detach(struct bpf_run *run);

void bpf_run_close(struct bpf_run *run);

/* What was noted is forgotten. */
void bpf_run_clear(struct bpf_run *run);

/* How many notes there are of @who, with @cookie if that is not 0. */
unsigned int bpf_run_count(const struct bpf_run *run, enum bpf_unwind_who who, __u64 cookie);

/* The @nr th note of @who, or NULL. */
const struct bpf_unwind_note *bpf_run_note(const struct bpf_run *run, enum bpf_unwind_who who,
					   unsigned int nr);

/* The @nr th trace that @who got in this way, or NULL. */
const struct bpf_unwind_trace *bpf_run_trace(const struct bpf_run *run,
					     enum bpf_unwind_who who,
					     enum bpf_unwind_how how, unsigned int nr);

/* Is it that of workload_call()? */
bool bpf_run_right(const struct bpf_unwind_trace *trace, unsigned int depth);

/* Does it have as many addresses, from workload_call_fp() on? */
bool bpf_run_has(const struct bpf_unwind_trace *trace, unsigned int nr);

/*
 * Leave one tracer of the unwinder to others, of @fd, see tracer.h; its slot, or 0 if that
 * cannot be done.
 */
unsigned int bpf_run_take_tracers(int fd);

/* Is it still there, now, or when programs that were unloaded are freed? */
bool bpf_run_tracer_left_now(int fd, unsigned int slot);
bool bpf_run_tracer_left(int fd, unsigned int slot);

/* What all notes say, with deliveries to one program. */
struct bpf_run_sum {
	unsigned int	asked;
	unsigned int	refused;
	unsigned int	entries;	/* in which somebody asked */
	unsigned int	granted_twice;	/* of these, with two requests that were the first */
	unsigned int	not_granted;	/* ... with none */
	unsigned int	delivered;
	unsigned int	missing;	/* entries without a delivery */
	unsigned int	twice;		/* ... with more than one */
	unsigned int	surplus;	/* beyond the requests that were the first, and arrivals */
	unsigned int	foreign;	/* deliveries that nobody asked for */
	unsigned int	empty;		/* deliveries of nothing */
	unsigned int	lost;		/* notes for which there was no room */
};

void bpf_run_add_up(const struct bpf_run *run, enum bpf_unwind_who who, struct bpf_run_sum *sum);

/* For FIXTURE_SETUP() and TEST(). */
#define SKIP_WITHOUT_BPF() do {							\
	const char *_why = bpf_run_missing();					\
										\
	if (_why)								\
		SKIP(return, "%s", _why);					\
} while (0)

#endif /* _UNWIND_BPF_RUN_H */
