// SPDX-License-Identifier: GPL-2.0
/*
 * A program with known stacks, for test.sh. It is built with frame pointers. Functions of libc
 * may lack these, except for syscall(), which needs none.
 *
 *   threads spin SECONDS	four threads, two of them in system calls; each in
 *				functions of its own name
 *   threads sleep MS TIMES	sleeps in one function, and says for how long in us
 *   threads calls TIMES	so many system calls getppid()
 *   threads die TIMES		so many processes, each of which ends in its function
 *   threads wait		in two of them, until it is killed
 *   threads swap TIMES LIB...	so many system calls getppid() from each library, when the
 *				one before is gone; says where the library's function is
 *   threads lose TIMES LIB PID	so many of these from a library that was mapped, like much
 *				else, while the process PID was stopped
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define noinline __attribute__((noinline, noclone))

static volatile int stop;
static volatile unsigned long work;

static noinline void spin(void)
{
	for (int i = 0; i < 1000; i++)
		work++;
}

/* Thread NAME: thread_NAME() calls outer_NAME(), which calls inner_NAME(). */
#define THREAD(name, what)			\
static noinline void inner_##name(void)		\
{						\
	what;					\
	work++;					\
}						\
						\
static noinline void outer_##name(void)		\
{						\
	inner_##name();				\
	work++;					\
}						\
						\
static void *thread_##name(void *arg)		\
{						\
	while (!stop)				\
		outer_##name();			\
	return arg;				\
}

static int random_fd;
static char buffer[4096];

static void read_random(void)
{
	if (syscall(SYS_read, random_fd, buffer, sizeof(buffer)) < 0)
		exit(1);
}

static void stat_file(void)
{
	syscall(SYS_access, "/proc/self/status", F_OK);
}

THREAD(alpha, spin())
THREAD(beta, spin(); spin())
THREAD(gamma, read_random())
THREAD(delta, stat_file())

static noinline int do_spin(unsigned int seconds)
{
	void *(*const threads[])(void *) = {
		thread_alpha, thread_beta, thread_gamma, thread_delta
	};
	pthread_t ids[4];

	random_fd = open("/dev/urandom", O_RDONLY);
	for (int i = 0; i < 4; i++)
		if (pthread_create(&ids[i], NULL, threads[i], NULL))
			return 1;
	sleep(seconds);
	stop = 1;
	for (int i = 0; i < 4; i++)
		pthread_join(ids[i], NULL);
	return 0;
}

static noinline void sleep_here(unsigned int ms)
{
	const struct timespec time = { ms / 1000, ms % 1000 * 1000000L };

	syscall(SYS_nanosleep, &time, NULL);
	work++;
}

static noinline int do_sleep(unsigned int ms, unsigned int times)
{
	struct timespec begin, end;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (unsigned int i = 0; i < times; i++)
		sleep_here(ms);
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%ld\n", (end.tv_sec - begin.tv_sec) * 1000000 +
	       (end.tv_nsec - begin.tv_nsec) / 1000);
	return 0;
}

static noinline void call_here(void)
{
	syscall(SYS_getppid);
	work++;
}

static noinline int do_calls(unsigned int times)
{
	for (unsigned int i = 0; i < times; i++)
		call_here();
	return 0;
}

static noinline void die_here(void)
{
	syscall(SYS_getppid);
	for (int i = 0; i < 200; i++)
		spin();
	_exit(0);
}

static noinline int do_die(unsigned int times)
{
	for (unsigned int i = 0; i < times; i++) {
		if (!fork())
			die_here();
		wait(NULL);
	}
	return 0;
}

static noinline void wait_here(void)
{
	syscall(SYS_pause);
	work++;
}

static void *thread_wait(void *arg)
{
	wait_here();
	return arg;
}

static noinline int do_wait(void)
{
	pthread_t id;

	if (pthread_create(&id, NULL, thread_wait, NULL))
		return 1;
	for (;;)
		sleep_here(10);
}

/* See called.c. */
typedef void (*called_t)(void (*)(void));

static called_t load(const char *library, void **handle)
{
	const called_t *called;

	*handle = dlopen(library, RTLD_NOW);
	called = *handle ? dlsym(*handle, "called") : NULL;
	if (!called) {
		fprintf(stderr, "threads: no library %s\n", library);
		exit(1);
	}
	return *called;
}

static noinline int do_swap(unsigned int times, char **libraries)
{
	for (; *libraries; libraries++) {
		void *handle;
		const called_t called = load(*libraries, &handle);

		printf("%p\n", called);
		for (unsigned int i = 0; i < times; i++)
			called(call_here);
		dlclose(handle);
	}
	return 0;
}

static void map_code(void)
{
	void *page = mmap(NULL, 1, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		exit(1);
	munmap(page, 1);
}

static noinline int do_lose(unsigned int times, const char *library, pid_t reader)
{
	called_t called;
	cpu_set_t cpus;
	void *handle;

	/* Stay on the CPU whose buffer loses records: its next record tells of the loss. */
	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);

	kill(reader, SIGSTOP);
	for (int i = 0; i < 5000; i++)
		map_code();
	called = load(library, &handle);
	kill(reader, SIGCONT);
	sleep(1);
	map_code();
	sleep(1);
	for (unsigned int i = 0; i < times; i++)
		called(call_here);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	const unsigned int number = argc > 2 ? atoi(argv[2]) : 0;

	if (!strcmp(what, "spin"))
		return do_spin(number);
	if (!strcmp(what, "sleep") && argc > 3)
		return do_sleep(number, atoi(argv[3]));
	if (!strcmp(what, "calls"))
		return do_calls(number);
	if (!strcmp(what, "die"))
		return do_die(number);
	if (!strcmp(what, "wait"))
		return do_wait();
	if (!strcmp(what, "swap"))
		return do_swap(number, argv + 3);
	if (!strcmp(what, "lose") && argc > 4)
		return do_lose(number, argv[3], atoi(argv[4]));
	fprintf(stderr, "usage: threads spin|sleep|calls|die|wait|swap|lose NUMBER ...\n");
	return 2;
}
