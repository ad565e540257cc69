// SPDX-License-Identifier: GPL-2.0
/*
 * Functions with all kinds of frames that compilers make, to be stepped through
 * instruction by instruction. This file is compiled several times, with ORACLE as
 * the name of the set of flags. Do not call into a library here: libraries have no
 * frame pointers and no tables.
 *
 * If this file is a shared library itself, each call goes through its PLT.
 */
#include <stdarg.h>

#include "oracle.h"

#define PASTE2(a, b)	a##b
#define PASTE(a, b)	PASTE2(a, b)
#define oracle_table	PASTE(oracle_table_, ORACLE)

#ifdef __clang__
#define noinline	__attribute__((noinline))
#else
#define noinline	__attribute__((noinline, noclone))
#endif

#ifdef ORACLE_LIBRARY
#define local
#else
#define local	static
#endif

static volatile int sink;

local noinline int leaf(int x)
{
	return x * 3 + sink;
}

local noinline int nested(int x)
{
	return leaf(x) + leaf(x + 1);
}

local noinline int recursive(int n)
{
	return n < 2 ? n : recursive(n - 1) + recursive(n - 2);
}

local noinline int tail(int x)
{
	sink = nested(x);
	return leaf(x);
}

local noinline int tail_pointer(int x, int (*func)(int))
{
	sink = leaf(x);
	return func(x);
}

/* The early return needs no frame, and the compiler may make none for it. */
local noinline int early_out(int x)
{
	if (x < 0)
		return -x;
	for (int i = 0; i < 2; i++)
		sink += nested(x + i);
	return leaf(sink) + x;
}

local noinline int big_frame(int x)
{
	volatile int array[3000];

	array[x] = leaf(x);
	array[2999 - x] = array[x];
	return array[2999 - x];
}

local noinline int variable_frame(int n)
{
	volatile char array[n];

	array[0] = leaf(n);
	array[n - 1] = array[0];
	return array[n - 1];
}

local noinline int aligned_frame(int x)
{
	volatile int array[16] __attribute__((aligned(64)));

	array[x] = leaf(x);
	return array[x] + nested(x);
}

/* Aligned, and with arguments on the stack: the frame is located through r10. */
local noinline int aligned_arguments(int a, int b, int c, int d, int e, int f, int g, int h)
{
	volatile int array[16] __attribute__((aligned(64)));
	volatile char tail[a + 8];

	array[a] = leaf(g) + b + c + d + e + f;
	tail[a] = array[a];
	return leaf(h) + tail[a];
}

local noinline int variadic(int n, ...)
{
	va_list args;
	int sum = 0;

	va_start(args, n);
	for (int i = 0; i < n; i++)
		sum += leaf(va_arg(args, int));
	va_end(args);
	return sum;
}

struct big {
	long words[12];
};

local noinline struct big big_return(int x)
{
	struct big big = { { leaf(x), x } };

	big.words[11] = leaf(x + 1);
	return big;
}

local noinline int jump_table(int x)
{
	switch (x) {
	case 0: return leaf(1);
	case 1: return nested(2) + 1;
	case 2: return sink;
	case 3: return leaf(9) - sink;
	case 4: return leaf(5) * 2;
	case 5: return nested(7);
	default: return -1;
	}
}

local noinline long many_registers(long a, long b, long c, long d, long e, long f)
{
	long x = leaf(a), y = leaf(b), z = leaf(c), u = leaf(d), v = leaf(e), w = leaf(f);

	return x * a + y * b + z * c + u * d + v * e + w * f + nested(x + y);
}

local noinline __attribute__((cold)) void unlikely(int x)
{
	sink = leaf(x);
}

local noinline int cold_part(int x)
{
	if (__builtin_expect(x > 5, 0)) {
		unlikely(x);
		sink = nested(x);
	}
	return leaf(x);
}

local noinline double floating(double x)
{
	return x * leaf((int)x) + 0.5;
}

/* More values than callee-saved registers, including the frame pointer. */
local noinline long all_registers(long a, long b, long c, long d, long e, long f)
{
	long sum = 0;

	for (int i = 0; i < 2; i++) {
		sum += leaf(i) + a * b + c * d + e * f;
		a += b ^ i;
		b += c ^ i;
		c += d ^ i;
		d += e ^ i;
		e += f ^ i;
		f += a ^ i;
	}
	return sum;
}

/* The stack pointer moves for arguments, between pushes that save registers. */
local noinline long pushed_arguments(long x)
{
	long a = leaf(x), b = aligned_arguments(1, 2, 3, 4, 5, 6, 7, a);

	return aligned_arguments(2, a, b, a, b, a, b, leaf(b)) + a + b;
}

/* Does not return: the run ends at the breakpoint. */
local noinline __attribute__((noreturn)) void stop(int x)
{
	sink = leaf(x);
	asm volatile("int3");
	__builtin_unreachable();
}

/* Its last instruction is a call, whose return address is the next function. */
local noinline __attribute__((noreturn)) void last_call(int x)
{
	sink = nested(x);
	stop(x);
}

local noinline int behind_last_call(int x)
{
	if (x > 1)
		last_call(x);
	return nested(x);
}

typedef int (*func_t)(int);

/* Functions that are called and whose address is taken: a PLT has another stub for these. */
local noinline func_t address(int x)
{
	return x ? leaf : nested;
}

static int all_jumps(void)
{
	int sum = 0;

	for (int i = 0; i < 7; i++)
		sum += jump_table(i);
	return sum;
}

#define RUN(name, expr)			\
static void run_##name(void)		\
{					\
	sink = (expr);			\
}

RUN(leaf, leaf(1))
RUN(nested, nested(1))
RUN(recursive, recursive(5))
RUN(tail, tail(1))
RUN(tail_pointer, tail_pointer(1, nested))
RUN(early_out, early_out(-1) + early_out(1))
RUN(big_frame, big_frame(1))
RUN(variable_frame, variable_frame(100))
RUN(aligned_frame, aligned_frame(1))
RUN(aligned_arguments, aligned_arguments(1, 2, 3, 4, 5, 6, 7, 8))
RUN(variadic, variadic(3, 1, 2, 3) + variadic(8, 1, 2, 3, 4, 5, 6, 7, 8))
RUN(big_return, big_return(1).words[11])
RUN(jump_table, all_jumps())
RUN(many_registers, many_registers(1, 2, 3, 4, 5, 6))
RUN(cold_part, cold_part(1) + cold_part(9))
RUN(floating, floating(2.5))
RUN(all_registers, all_registers(1, 2, 3, 4, 5, 6))
RUN(pushed_arguments, pushed_arguments(1))
RUN(last_call, behind_last_call(1) + behind_last_call(2))
RUN(address, address(0)(1) + address(1)(1))

#define FUNC(name) { #name, run_##name, 0 }

const struct oracle_func oracle_table[] = {
	FUNC(leaf), FUNC(nested), FUNC(recursive), FUNC(tail), FUNC(tail_pointer),
	FUNC(early_out), FUNC(big_frame), FUNC(variable_frame), FUNC(aligned_frame),
	FUNC(aligned_arguments), FUNC(variadic), FUNC(big_return), FUNC(jump_table),
	FUNC(many_registers), FUNC(cold_part), FUNC(floating), FUNC(all_registers),
	FUNC(pushed_arguments), FUNC(address), FUNC(last_call),
	{}
};
