/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Load and attach programs of bpf_unwind.bpf.c, and read their results.
 */
#ifndef _UNWIND_BPF_RUN_H
#define _UNWIND_BPF_RUN_H

#include <stdbool.h>

#include "bpf_unwind.h"

struct bpf_link;
struct bpf_program;
struct bpf_unwind;

#define BPF_RUN_LINKS	8

/* No thread has this ID: programs ignore all threads until a test sets another one. */
#define BPF_RUN_NOBODY	(~0U)

struct bpf_run {
	struct bpf_unwind		*skel;
	struct bpf_unwind_shared	*shared;
	struct bpf_link			*links[BPF_RUN_LINKS];
	unsigned int			nr_links;
};

/* Why these programs cannot run here, or NULL. Names the missing requirement. */
const char *bpf_run_missing(void);

/* Open the programs without loading them; 0 or -errno. */
int bpf_run_open(struct bpf_run *run);

/*
 * Open and load the programs in a NULL-terminated list of names, and attach those that
 * name a target. "name@function" attaches a program to another function than its own.
 * 0 or -errno, with nothing to be closed.
 */
int __bpf_run_start(struct bpf_run *run, const struct bpf_run *with, const char *const *names);
#define bpf_run_start(run, ...)	\
	__bpf_run_start(run, NULL, (const char *const[]){ __VA_ARGS__, NULL })

/* The same, sharing the notes and settings of programs that already run. */
#define bpf_run_join(run, with, ...)	\
	__bpf_run_start(run, with, (const char *const[]){ __VA_ARGS__, NULL })

struct bpf_program *bpf_run_program(struct bpf_run *run, const char *name);
int bpf_run_map(struct bpf_run *run, const char *name);

/* Attach to a perf event, to code of this program; 0 or -errno. */
int bpf_run_attach_event(struct bpf_run *run, const char *name, int fd);
int bpf_run_attach_uprobe(struct bpf_run *run, const char *name, const void *at);
int bpf_run_attach_uretprobe(struct bpf_run *run, const char *name, const void *at);

/* Attach a loaded program; 0 or -errno. */
int bpf_run_attach(struct bpf_run *run, const char *name);

/* Detach the program that was attached last. */
void bpf_run_detach(struct bpf_run *run);

void bpf_run_close(struct bpf_run *run);

/* When a program was loaded, which names it in the notes of note_freed(); 0 on failure. */
__u64 bpf_run_load_time(const struct bpf_program *program);

/* Wait until note_freed() has seen that program. The test's timeout ends a wait in vain. */
void bpf_run_wait_freed(const struct bpf_run *run, __u64 load_time);

/* Drop all notes and traces. */
void bpf_run_clear(struct bpf_run *run);

/* Count the notes of @who, only those with @cookie if that is not 0. */
unsigned int bpf_run_count(const struct bpf_run *run, enum bpf_unwind_who who, __u64 cookie);

/* The @nr th note of @who, or NULL. */
const struct bpf_unwind_note *bpf_run_note(const struct bpf_run *run, enum bpf_unwind_who who,
					   unsigned int nr);

/* The @nr th trace that @who got by @how, or NULL. */
const struct bpf_unwind_trace *bpf_run_trace(const struct bpf_run *run,
					     enum bpf_unwind_who who,
					     enum bpf_unwind_how how, unsigned int nr);

/* Is it the trace of workload_call() at @depth? */
bool bpf_run_right(const struct bpf_unwind_trace *trace, unsigned int depth);

/* Does it have @nr addresses, starting in workload_call_fp()? */
bool bpf_run_has(const struct bpf_unwind_trace *trace, unsigned int nr);

/*
 * Take all tracers of the unwinder but one, for @fd, see tracer.h. Returns the slot of the
 * free one, or 0 if that is not possible.
 */
unsigned int bpf_run_take_tracers(int fd);

/* Is that tracer still free, now, or once unloaded programs are freed? */
bool bpf_run_tracer_left_now(int fd, unsigned int slot);
bool bpf_run_tracer_left(int fd, unsigned int slot);

/* Sums over all notes, with the deliveries to one program. */
struct bpf_run_sum {
	unsigned int	asked;
	unsigned int	refused;
	unsigned int	entries;	/* with a request */
	unsigned int	granted_twice;	/* ... with two requests granted as the first */
	unsigned int	not_granted;	/* ... with none */
	unsigned int	delivered;
	unsigned int	missing;	/* entries without a delivery */
	unsigned int	twice;		/* ... with more than one */
	unsigned int	surplus;	/* deliveries beyond granted requests and arrivals */
	unsigned int	foreign;	/* deliveries without a request */
	unsigned int	empty;		/* empty deliveries */
	unsigned int	lost;		/* notes that did not fit */
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
