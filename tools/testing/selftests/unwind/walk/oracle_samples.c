// SPDX-License-Identifier: GPL-2.0
/*
 * The walk is correct at each instruction of the programs in sframe/, whose tables are
 * from three assemblers: one for each version of the format.
 *
 * Versions 1 and 2 have no rows for the function "realigned", and cannot mark _start as
 * outermost. The walk finds the frame of "realigned" from its code and stack, and finds
 * that the would-be return address of _start is not code: no exceptions are needed.
 */
#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "oracle.h"
#include "harness.h"

/* Enough for each loop to end, and for the recursion to reach some depth. */
#define ROUNDS		2
#define STRING2(x)	#x
#define STRING(x)	STRING2(x)

FIXTURE(program) {
	struct oracle oracle;
};

FIXTURE_VARIANT(program) {
	const char *name;
	int version;
};

#define PROGRAM(_id, _name, _version)						\
	FIXTURE_VARIANT_ADD(program, _id) { .name = _name, .version = _version }

PROGRAM(v1, "frames.v1", 1);
PROGRAM(v2, "frames.v2", 2);
PROGRAM(v2_pie, "frames-pie.v2", 2);
PROGRAM(v3, "frames.v3", 3);
PROGRAM(v3_pie, "frames-pie.v3", 3);

FIXTURE_SETUP(program)
{
	if (oracle_missing_sframe())
		SKIP(return, "%s", oracle_missing_sframe());
	ASSERT_TRUE(oracle_exec(&self->oracle, oracle_beside(variant->name), STRING(ROUNDS)));
	ASSERT_TRUE(oracle_judge(&self->oracle, self->oracle.child, variant->name));
	ASSERT_EQ(variant->version, oracle_image_sframe(&self->oracle.image[0]));
}

FIXTURE_TEARDOWN(program)
{
	oracle_end(&self->oracle);
}

TEST_F(program, every_instruction)
{
	ASSERT_TRUE(oracle_run(&self->oracle, variant->name));
	oracle_report(&self->oracle);
	EXPECT_EQ(0, self->oracle.wrong);
}

/* The same code in libraries: with a PLT, and with a signal at each instruction. */
FIXTURE(library) {
	struct oracle oracle;
	struct oracle_func table[3];
};

FIXTURE_VARIANT(library) {
	const char *name;
	int version, signal;
};

#define LIBRARY(_id, _name, _version, _signal)					\
	FIXTURE_VARIANT_ADD(library, _id) {					\
		.name = _name, .version = _version, .signal = _signal		\
	}

LIBRARY(v1, "libframes.v1.so", 1, 0);
LIBRARY(v2, "libframes.v2.so", 2, 0);
LIBRARY(v3, "libframes.v3.so", 3, 0);
LIBRARY(v1_signals, "libframes.v1.so", 1, SIGUSR1);
LIBRARY(v3_signals, "libframes.v3.so", 3, SIGUSR1);

static void handler(int sig)
{
	asm volatile("nop" : : : "memory");
}

FIXTURE_SETUP(library)
{
	struct sigaction action = { .sa_handler = handler };
	void *lib;

	if (oracle_missing_sframe())
		SKIP(return, "%s", oracle_missing_sframe());
	lib = dlopen(oracle_beside(variant->name), RTLD_LAZY | RTLD_LOCAL);
	ASSERT_NE(NULL, lib);
	self->table[0] = (struct oracle_func) { "top", dlsym(lib, "top"), ROUNDS };
	/* At its end it has restored the frame pointer, which its rows do not say. */
	self->table[1] = (struct oracle_func) { "realigned", dlsym(lib, "realigned"), 1 };
	ASSERT_NE(NULL, self->table[0].func);
	ASSERT_NE(NULL, self->table[1].func);

	ASSERT_EQ(0, sigaction(SIGUSR1, &action, NULL));
	self->oracle.signal = variant->signal;
	ASSERT_TRUE(oracle_judge(&self->oracle, getpid(), variant->name));
	ASSERT_EQ(variant->version, oracle_image_sframe(&self->oracle.image[0]));
	ASSERT_TRUE(oracle_fork(&self->oracle, &oracle_base_bare, self->table));
}

FIXTURE_TEARDOWN(library)
{
	oracle_end(&self->oracle);
}

TEST_F(library, every_instruction)
{
	ASSERT_TRUE(oracle_run_table(&self->oracle, self->table));
	EXPECT_EQ(0, self->oracle.wrong);
}

TEST_HARNESS_MAIN
