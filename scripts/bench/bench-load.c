// SPDX-License-Identifier: GPL-2.0
/*
 * Fixed work for make bench: the difference in run time is the cost of the profiler.
 *
 *   bench-load read|bulk|cold|user|threads|getppid|switch|reload DEPTH COUNT [SPREAD [MAPPINGS]]
 *
 * Does COUNT rounds of the work below DEPTH callers with frame pointers, and prints
 * their nanoseconds, which are instructions if the machine's clock counts these: for
 * getppid without those of ticks, for reload also the number of SFrame sections that the
 * kernel read meanwhile. With SPREAD,
 * the callers are in turn SPREAD functions of bench-chain.S, if it is linked; with
 * MAPPINGS, in turn in as many mappings of their code.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

static int zero;
static volatile unsigned int sink;

static __attribute__((noinline)) void read_once(void)
{
	char byte;

	if (read(zero, &byte, 1) != 1)
		exit(1);
}

/* Long enough for many samples in one kernel entry. */
static __attribute__((noinline)) void bulk_once(void)
{
	static char buf[1 << 20];
	struct iovec iov[16];

	for (unsigned int i = 0; i < ARRAY_SIZE(iov); i++)
		iov[i] = (struct iovec) { .iov_base = buf, .iov_len = sizeof(buf) };
	if (readv(zero, iov, ARRAY_SIZE(iov)) != sizeof(buf) * ARRAY_SIZE(iov))
		exit(1);
}

/* Invalidate what the kernel caches about the mappings. */
static __attribute__((noinline)) void cold_once(void)
{
	void *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED || munmap(page, 4096))
		exit(1);
	read_once();
}

static __attribute__((noinline)) void compute_once(void)
{
	for (unsigned int i = 0; i < 100; i++)
		sink = sink * 5 + i;
}

static __attribute__((noinline)) void getppid_once(void)
{
	syscall(SYS_getppid);
}

/* What the other process reads from, and this one. */
static int turns[2][2];

/* Let another process take a turn. */
static __attribute__((noinline)) void switch_once(void)
{
	char byte = 0;

	if (write(turns[0][1], &byte, 1) != 1 || read(turns[1][0], &byte, 1) != 1)
		exit(1);
}

/* The other process ends when this one does. */
static void take_turns(void)
{
	char byte;

	if (pipe(turns[0]) || pipe(turns[1]))
		exit(1);
	switch (fork()) {
	case -1:
		exit(1);
	case 0:
		close(turns[0][1]);
		while (read(turns[0][0], &byte, 1) == 1 && write(turns[1][1], &byte, 1) == 1)
			;
		_exit(0);
	}
}

/* Invalidate what the kernel caches about files, and run long enough for samples. */
static __attribute__((noinline)) void reload_once(void)
{
	static const char * const values[] = { "0\n", "1\n" };

	for (unsigned int i = 0; i < ARRAY_SIZE(values); i++) {
		int fd = open("/proc/sys/kernel/unwind_user_sframe", O_WRONLY);

		if (fd < 0 || write(fd, values[i], 2) != 2 || close(fd))
			exit(1);
	}
	for (unsigned int i = 0; i < 50000; i++)
		sink = sink * 3 + i;
}

static unsigned long loaded(void)
{
	FILE *file = fopen("/sys/kernel/debug/unwind/stats", "r");
	unsigned long count;
	char name[64];

	while (file && fscanf(file, "%63s %lu", name, &count) == 2) {
		if (strcmp(name, "sframe_loaded"))
			continue;
		fclose(file);
		return count;
	}
	exit(1);
}

static unsigned long now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000UL + ts.tv_nsec;
}

static __attribute__((noinline)) unsigned long work(void (*once)(void), long count)
{
	/* Time the first rounds, too: the profiler takes samples in them. */
	unsigned long begin = now();

	while (count--)
		once();
	return now() - begin;
}

static __attribute__((noinline)) unsigned long below(int depth, void (*once)(void), long count)
{
	unsigned long ns;

	if (!depth)
		return work(once, count);
	ns = below(depth - 1, once, count);
	/* No tail call. */
	sink++;
	return ns;
}

#define THREADS	8

struct share {
	int depth;
	long count;
};

static void *compute_share(void *arg)
{
	const struct share *share = arg;

	below(share->depth, compute_once, share->count);
	return NULL;
}

/* Let threads share the work. */
static unsigned long in_threads(int depth, long count)
{
	struct share share = { .depth = depth, .count = count / THREADS };
	unsigned long begin = now();
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++) {
		if (pthread_create(&threads[i], NULL, compute_share, &share))
			exit(1);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return now() - begin;
}

/* Rounds between two ticks. */
#define PART	1000

/*
 * Time many parts: in the one that takes least no tick has come. All its rounds take the same
 * number of instructions, and the clock takes less than one a round.
 */
static unsigned long without_ticks(int depth, void (*once)(void), long count)
{
	unsigned long ns, least = -1UL;

	for (long i = 0; i < count / PART; i++) {
		ns = below(depth, once, PART);
		if (ns < least)
			least = ns;
	}
	return least / PART * count;
}

/* bench-chain.S */
extern const char chain_code[];
extern const unsigned int chain_funcs;
extern const unsigned int chain_size;

typedef unsigned long (*chain_t)(void **list);

static void (*chain_once)(void);
static long chain_count;

static unsigned long chain_work(void **list)
{
	(void)list;
	return work(chain_once, chain_count);
}

/* The start of the program, which the linker maps at the start of the file. */
extern const char __executable_start[];

/* Map the functions once more; they run at any address. */
static const char *chain_map(void)
{
	size_t skip = (size_t)chain_code % 4096, size = skip + chain_funcs * chain_size;
	int fd = open("/proc/self/exe", O_RDONLY);
	char *map = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd,
			 chain_code - __executable_start - skip);

	if (map == MAP_FAILED || close(fd) || memcmp(map + skip, chain_code, chain_size))
		exit(1);
	return map + skip;
}

/*
 * Functions that are adjacent in the list are not adjacent in the table. Not inlined: with
 * the array, main's frame would be as large as a signal frame, which the walk looks for then.
 */
static __attribute__((noinline)) unsigned long
below_chain(int depth, unsigned int spread, unsigned int mappings, void (*once)(void),
	    long count)
{
	void **list = calloc(depth + 1, sizeof(*list));
	const char *maps[16] = { chain_code };

	if (!spread || spread > chain_funcs || !mappings || mappings > ARRAY_SIZE(maps) || !list)
		exit(2);
	for (unsigned int i = 1; i < mappings; i++)
		maps[i] = chain_map();
	for (int i = 0; i < depth; i++)
		list[i] = (void *)(maps[i % mappings] +
				   i % spread * 1009 % chain_funcs * chain_size);
	list[depth] = (void *)chain_work;
	chain_once = once;
	chain_count = count;
	return ((chain_t)list[0])(list + 1);
}

int main(int argc, char **argv)
{
	unsigned long ns, before = 0;
	void (*once)(void);

	if (argc < 4 || argc > 6)
		return 2;
	zero = open("/dev/zero", O_RDONLY);
	if (!strcmp(argv[1], "read"))
		once = read_once;
	else if (!strcmp(argv[1], "bulk"))
		once = bulk_once;
	else if (!strcmp(argv[1], "cold"))
		once = cold_once;
	else if (!strcmp(argv[1], "user") || !strcmp(argv[1], "threads"))
		once = compute_once;
	else if (!strcmp(argv[1], "reload"))
		once = reload_once;
	else if (!strcmp(argv[1], "switch"))
		once = switch_once;
	else
		once = getppid_once;
	if (once == reload_once)
		before = loaded();
	if (once == switch_once)
		take_turns();
	if (once == getppid_once && atol(argv[3]) < PART)
		return 2;
	if (once == getppid_once)
		ns = without_ticks(atoi(argv[2]), once, atol(argv[3]));
	else if (!strcmp(argv[1], "threads"))
		ns = in_threads(atoi(argv[2]), atol(argv[3]));
	else if (argc == 4)
		ns = below(atoi(argv[2]), once, atol(argv[3]));
	else
		ns = below_chain(atoi(argv[2]), atoi(argv[4]), argc == 6 ? atoi(argv[5]) : 1,
				 once, atol(argv[3]));
	if (once == reload_once)
		printf("%lu %lu\n", ns, loaded() - before);
	else
		printf("%lu\n", ns);
	return 0;
}
