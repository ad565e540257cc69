// SPDX-License-Identifier: GPL-2.0
/*
 * The verifier and programs that request deferred user stacks: which programs hold a tracer of
 * the unwinder while they are loaded, and which programs are refused, with which message.
 */
#define _GNU_SOURCE
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bpf_run.h"
#include "bpf_unwind_load.skel.h"
#include "perf_ring.h"
#include "tracer.h"
#include "workload.h"
#include "harness.h"

#define NOT_ALLOWED	"calling kernel function bpf_user_unwind_request is not allowed"
#define NO_HELPER	"program of this type cannot use helper bpf_get_stack#67"
#define GOES_WITH	"BPF_F_USER_DEFERRED goes with BPF_F_USER_STACK and nothing else"
#define NONE_LEFT	"all tracers of the user unwinder are in use"

/* Log of the program that was loaded last. */
static char verifier_log[65536];

/* Load one program. Returns 0 or -errno. */
static int load(struct bpf_unwind_load **skel, const char *name)
{
	struct bpf_program *program;
	int err;

	libbpf_set_print(NULL);
	*skel = bpf_unwind_load__open();
	if (!*skel)
		return -errno;
	program = bpf_object__find_program_by_name((*skel)->obj, name);
	if (!program) {
		bpf_unwind_load__destroy(*skel);
		return -ENOENT;
	}
	verifier_log[0] = '\0';
	bpf_program__set_autoload(program, true);
	bpf_program__set_log_buf(program, verifier_log, sizeof(verifier_log));
	/* Otherwise libbpf loads a refused program once more to get its log. */
	bpf_program__set_log_level(program, 1);
	err = bpf_unwind_load__load(*skel);
	if (err)
		bpf_unwind_load__destroy(*skel);
	return err;
}

FIXTURE(refused) {
};

FIXTURE_VARIANT(refused) {
	const char *program;
	int err;
	const char *why;
};

FIXTURE_VARIANT_ADD(refused, function_in_raw_tp) {
	"function_in_raw_tp", -EACCES, NOT_ALLOWED
};

FIXTURE_VARIANT_ADD(refused, function_in_xdp) {
	"function_in_xdp", -EACCES, NOT_ALLOWED
};

FIXTURE_VARIANT_ADD(refused, function_in_socket) {
	"function_in_socket", -EACCES, NOT_ALLOWED
};

FIXTURE_VARIANT_ADD(refused, function_in_tc) {
	"function_in_tc", -EACCES, NOT_ALLOWED
};

FIXTURE_VARIANT_ADD(refused, function_in_syscall) {
	"function_in_syscall", -EACCES, NOT_ALLOWED
};

FIXTURE_VARIANT_ADD(refused, flag_in_xdp) {
	"flag_in_xdp", -EINVAL, NO_HELPER
};

FIXTURE_VARIANT_ADD(refused, flag_in_socket) {
	"flag_in_socket", -EINVAL, NO_HELPER
};

FIXTURE_VARIANT_ADD(refused, flag_in_tc) {
	"flag_in_tc", -EINVAL, NO_HELPER
};

FIXTURE_VARIANT_ADD(refused, flag_in_sk_msg) {
	"flag_in_sk_msg", -EINVAL, NO_HELPER
};

FIXTURE_VARIANT_ADD(refused, flag_alone) {
	"flag_alone", -EINVAL, GOES_WITH
};

FIXTURE_VARIANT_ADD(refused, flag_with_build_id) {
	"flag_with_build_id", -EINVAL, GOES_WITH
};

FIXTURE_VARIANT_ADD(refused, flag_with_skip) {
	"flag_with_skip", -EINVAL, GOES_WITH
};

FIXTURE_VARIANT_ADD(refused, flag_with_unknown_flag) {
	"flag_with_unknown_flag", -EINVAL, GOES_WITH
};

FIXTURE_VARIANT_ADD(refused, no_cookie) {
	"no_cookie", -EACCES, "Possibly NULL pointer passed to trusted arg0"
};

FIXTURE_VARIANT_ADD(refused, perhaps_no_cookie) {
	"perhaps_no_cookie", -EACCES, "Possibly NULL pointer passed to trusted arg0"
};

FIXTURE_VARIANT_ADD(refused, wrong_map) {
	"wrong_map", -EINVAL, "cannot pass map_type 2 into func bpf_get_stackid"
};

FIXTURE_SETUP(refused)
{
	SKIP_WITHOUT_BPF();
}

FIXTURE_TEARDOWN(refused)
{
}

TEST_F(refused, by_verifier)
{
	struct bpf_unwind_load *skel;

	EXPECT_EQ(variant->err, load(&skel, variant->program));
	EXPECT_NE(NULL, strstr(verifier_log, variant->why)) {
		TH_LOG("%s", verifier_log);
	}
}

/* Take all tracers but one, which is slow: a program that holds one leaves none. */
FIXTURE(tracers) {
	int fd;
	unsigned int last;
};

FIXTURE_SETUP(tracers)
{
	SKIP_WITHOUT_BPF();
	SETUP_TRACERS(0);
	self->last = bpf_run_take_tracers(self->fd);
	ASSERT_LT(0, self->last);
	ASSERT_TRUE(bpf_run_tracer_left(self->fd, self->last));
}

FIXTURE_TEARDOWN(tracers)
{
	close(self->fd);
}

static const struct {
	const char	*program;
	bool		holds;
} programs[] = {
	{ "holds_by_function", true },
	{ "holds_by_flag", true },
	{ "holds_in_syscall", true },
	{ "holds_by_any_flags", true },
	{ "holds_by_masked_flags", true },
	{ "holds_by_one_branch", true },
	{ "holds_by_other_branch", true },
	{ "holds_by_call", true },
	{ "holds_nothing", false },
	{ "holds_nothing_by_mask", false },
	{ "holds_nothing_dead", false },
	{ "holds_nothing_delivery", false },
};

/* A program that can make requests holds a tracer from its load until it is freed. */
TEST_F(tracers, held)
{
	struct bpf_unwind_load *skel;

	for (unsigned int i = 0; i < ARRAY_SIZE(programs); i++) {
		ASSERT_EQ(0, load(&skel, programs[i].program)) {
			TH_LOG("%s: %s", programs[i].program, verifier_log);
		}
		EXPECT_EQ(!programs[i].holds, bpf_run_tracer_left_now(self->fd, self->last)) {
			TH_LOG("%s", programs[i].program);
		}
		bpf_unwind_load__destroy(skel);
		EXPECT_TRUE(bpf_run_tracer_left(self->fd, self->last));
	}
}

/* With no tracer left, programs that need one are refused with a message. */
TEST_F(tracers, none_left)
{
	struct bpf_unwind_load *skel;

	ASSERT_EQ(0, tracer_op(self->fd, (struct unwind_test_op)OP_INIT(self->last)));
	for (unsigned int i = 0; i < ARRAY_SIZE(programs); i++) {
		EXPECT_EQ(programs[i].holds ? -EBUSY : 0, load(&skel, programs[i].program)) {
			TH_LOG("%s", programs[i].program);
		}
		if (!programs[i].holds) {
			bpf_unwind_load__destroy(skel);
			continue;
		}
		EXPECT_NE(NULL, strstr(verifier_log, NONE_LEFT)) {
			TH_LOG("%s", verifier_log);
		}
	}

	/* The refused programs hold no tracer. */
	ASSERT_EQ(0, tracer_op(self->fd, (struct unwind_test_op)OP_CANCEL(self->last)));
	EXPECT_TRUE(bpf_run_tracer_left(self->fd, self->last));
	ASSERT_EQ(0, load(&skel, programs[0].program));
	bpf_unwind_load__destroy(skel);
	/* The next test counts what is left. */
	EXPECT_TRUE(bpf_run_tracer_left(self->fd, self->last));
}

/* All programs together hold one tracer. */
TEST_F(tracers, by_all_programs)
{
	struct bpf_unwind_load *first, *second;
	struct bpf_run run;
	__u64 loaded;

	ASSERT_EQ(0, bpf_run_start(&run, "note_freed"));
	ASSERT_EQ(0, load(&first, "holds_by_flag"));
	ASSERT_NE(0, loaded = bpf_run_load_time(first->progs.holds_by_flag));
	ASSERT_EQ(0, load(&second, "holds_by_function"));
	bpf_unwind_load__destroy(first);
	bpf_run_wait_freed(&run, loaded);
	EXPECT_FALSE(bpf_run_tracer_left_now(self->fd, self->last));
	bpf_unwind_load__destroy(second);
	EXPECT_TRUE(bpf_run_tracer_left(self->fd, self->last));
	bpf_run_close(&run);
}

/* A program that is refused after its request was verified releases the tracer. */
TEST_F(tracers, not_by_what_is_refused)
{
	struct bpf_unwind_load *skel;

	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(-EACCES, load(&skel, "asks_and_is_wrong"));
		EXPECT_NE(NULL, strstr(verifier_log, "R9 !read_ok"));
		EXPECT_TRUE(bpf_run_tracer_left(self->fd, self->last));
	}
}

/* Errors that are found only when the program runs. */
FIXTURE(wrong) {
	struct bpf_run run;
};

FIXTURE_SETUP(wrong)
{
	SKIP_WITHOUT_BPF();
}

FIXTURE_TEARDOWN(wrong)
{
	if (self->run.skel)
		bpf_run_close(&self->run);
}

static void run_once(struct bpf_run *run)
{
	run->shared->syscall = SYS_getpgid;
	run->shared->tid = gettid();
	workload_syscall(3, SYS_getpgid);
	run->shared->tid = BPF_RUN_NOBODY;
}

TEST_F(wrong, flags_that_were_not_known)
{
	static const struct {
		__u64	flags;
		int	ret;
	} cases[] = {
		{ BPF_F_USER_DEFERRED, -EINVAL },
		{ BPF_F_USER_DEFERRED | BPF_F_USER_BUILD_ID, -EINVAL },
		{ BPF_F_USER_DEFERRED | BPF_F_USER_STACK | BPF_F_USER_BUILD_ID, -EINVAL },
		{ BPF_F_USER_DEFERRED | BPF_F_USER_STACK | 1, -EINVAL },
		{ BPF_F_USER_DEFERRED | BPF_F_USER_STACK | 1ULL << 62, -EINVAL },
		{ BPF_F_USER_DEFERRED >> 1, -EINVAL },
		{ BPF_F_USER_DEFERRED | BPF_F_USER_STACK, 0 },
	};

	ASSERT_EQ(0, bpf_run_start(&self->run, "deliver_fentry", "ask_any_flags"));
	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct bpf_unwind_note *note;

		bpf_run_clear(&self->run);
		self->run.shared->flags = cases[i].flags;
		run_once(&self->run);
		note = bpf_run_note(&self->run, BPF_UNWIND_ASK, 0);
		ASSERT_NE(NULL, note);
		EXPECT_EQ(cases[i].ret, note->ret);
		EXPECT_EQ(!cases[i].ret, bpf_run_count(&self->run, BPF_UNWIND_FENTRY, 0));
		/* On error the buffer is cleared. */
		EXPECT_EQ(!cases[i].ret, !!note->cookie);
	}
}

TEST_F(wrong, calls)
{
	const struct bpf_unwind_note *note;

	ASSERT_EQ(0, bpf_run_start(&self->run, "deliver_fentry", "ask_wrongly", "ask_about_task"));
	run_once(&self->run);
	for (int who = BPF_UNWIND_WRONG_SIZE; who <= BPF_UNWIND_WRONG_FLAGS; who++) {
		ASSERT_NE(NULL, note = bpf_run_note(&self->run, who, 0));
		EXPECT_EQ(-EINVAL, note->ret);
		EXPECT_EQ(0, note->cookie);
	}
	EXPECT_EQ(0, bpf_run_count(&self->run, BPF_UNWIND_FENTRY, 0));
}

TEST_HARNESS_MAIN
