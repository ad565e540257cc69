// SPDX-License-Identifier: GPL-2.0
/*
 * A program whose stacks are known, for test.sh. It is built with frame pointers, which
 * the functions of libc may lack, but for syscall(), which needs none.
 *
 *   threads spin SECONDS	four threads, two of them in system calls; each in
 *				functions of its own name
 *   threads sleep MS TIMES	sleeps in one function, and says for how long in us
 *   threads calls TIMES	so many system calls getppid()
 *   threads die TIMES		so many processes, each of which ends in its function
 *   threads wait		until it is killed, in two threads
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
	fprintf(stderr, "usage: threads spin|sleep|calls|die|wait NUMBER [TIMES]\n");
	return 2;
}
