// SPDX-License-Identifier: GPL-2.0
/*
 * Functions that call the next function of a path, so that one kind of code calls
 * another. This file is compiled several times, with ORACLE as the name of the kind.
 */
#include "oracle_mixed.h"

#define PASTE2(a, b)	a##b
#define PASTE(a, b)	PASTE2(a, b)
#define oracle_hops	PASTE(oracle_hops_, ORACLE)
#define oracle_handlers	PASTE(oracle_handlers_, ORACLE)

#ifdef __clang__
#define noinline	__attribute__((noinline))
#else
#define noinline	__attribute__((noinline, noclone))
#endif

static volatile long sink = 1;

static inline long next(const struct oracle_hop *path)
{
	return path->call(path + 1);
}

static noinline long leaf(const struct oracle_hop *path)
{
	return sink * 3;
}

static noinline long plain(const struct oracle_hop *path)
{
	return next(path) + sink;
}

/* Calls another function first, and so has a frame to remove before the tail call. */
static noinline long tail(const struct oracle_hop *path)
{
	sink += leaf(path);
	return next(path);
}

/* More values than callee-saved registers. */
static noinline long registers(const struct oracle_hop *path)
{
	long a = sink, b = sink, c = sink, d = sink, e = sink, f = sink, g = sink;
	long r = next(path);

	return r + a * b + c * d + e * f + g;
}

static noinline long variable(const struct oracle_hop *path)
{
	long n = sink & 15;
	volatile char array[n + 8];

	array[n] = n;
	return next(path) + array[n];
}

static noinline long aligned(const struct oracle_hop *path)
{
	volatile char array[64] __attribute__((aligned(64)));
	volatile char tail[(sink & 15) + 8];

	array[3] = 1;
	tail[7] = 2;
	return next(path) + array[3] + tail[7];
}

static noinline long with_arguments(long a, long b, long c, long d, long e, long f, long g,
				    const struct oracle_hop *path)
{
	return next(path) + a + b + c + d + e + f + g;
}

static noinline long arguments(const struct oracle_hop *path)
{
	return with_arguments(1, 2, 3, 4, 5, 6, sink, path) + 1;
}

static noinline long call_back(long (*func)(const struct oracle_hop *path),
			       const struct oracle_hop *path)
{
	return func(path) + sink;
}

static noinline long callback(const struct oracle_hop *path)
{
	return call_back(plain, path) + 1;
}

const struct oracle_hop oracle_hops[] = {
	{ plain }, { tail }, { registers }, { variable }, { aligned }, { arguments },
	{ callback }, { leaf }, {}
};

static noinline void short_handler(int sig)
{
	sink = sig;
}

static noinline void long_handler(int sig)
{
	const struct oracle_hop path[] = { { leaf } };

	sink = registers(path) + sig;
}

const oracle_handler_t oracle_handlers[] = {
	[ORACLE_SHORT] = short_handler, [ORACLE_LONG] = long_handler
};
