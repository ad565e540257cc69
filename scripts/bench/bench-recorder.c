// SPDX-License-Identifier: GPL-2.0
/*
 * For make bench: what detached events cost beside ordinary ones.
 *
 *   bench-recorder none|ring|detached switch|threads COMMAND...
 *
 * Becomes the command, while an event samples it: none; one with a buffer that another process has
 * mapped; or a detached one, of which each thread has a buffer, and whose name is left behind. For
 * switch, the event takes no samples, and the command's children lack it; for threads it takes
 * those of perf flight.
 */
#define _GNU_SOURCE
#include <linux/perf_detached.h>
#include <linux/perf_event.h>
#include <asm/perf_regs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGES	16U
#define PAGE	4096UL
/* Nanoseconds of CPU time between two samples. */
#define PERIOD	1000000UL

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static struct perf_event_attr attr_of(const char *work)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_TASK_CLOCK,
		.sample_period = PERIOD,
		.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID |
			       PERF_SAMPLE_TIME | PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN |
			       PERF_SAMPLE_REGS_USER,
		.sample_regs_user = (1ULL << PERF_REG_X86_IP) | (1ULL << PERF_REG_X86_SP) |
				    (1ULL << PERF_REG_X86_BP),
		.inherit = 1,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.exclude_callchain_kernel = 1,
		.defer_callchain = 1,
		.defer_output = 1,
		.write_backward = 1,
	};

	if (!strcmp(work, "switch")) {
		attr.config = PERF_COUNT_SW_PAGE_FAULTS;
		attr.sample_period = 1UL << 40;
		attr.inherit_thread = 1;
	}
	return attr;
}

/* Keep the buffer of an event of another process mapped until that ends. */
static void map_ring(const char *work, pid_t pid, int ready)
{
	struct perf_event_attr attr = attr_of(work);
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Buffers of inherited events are those of CPUs. */
	fd = syscall(SYS_perf_event_open, &attr, pid, 0, -1, 0);
	if (fd < 0 || mmap(NULL, (1 + PAGES) * PAGE, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED ||
	    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		die("ring");
	if (write(ready, "", 1) != 1)
		die("ready");
	for (;;)
		pause();
}

static void open_ring(const char *work)
{
	pid_t pid = getpid();
	int ready[2];
	char byte;

	if (pipe(ready))
		die("pipe");
	if (!fork()) {
		close(ready[0]);
		map_ring(work, pid, ready[1]);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		exit(1);
	close(ready[0]);
}

static void open_detached(const char *work)
{
	struct perf_event_detach detach = { .size = sizeof(detach), .pages = PAGES };
	struct perf_event_attr attr = attr_of(work);
	int fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_DETACHED);

	if (fd < 0 || ioctl(fd, PERF_EVENT_IOC_DETACH, &detach) ||
	    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		die("detached event");
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	if (!strcmp(argv[1], "ring"))
		open_ring(argv[2]);
	else if (!strcmp(argv[1], "detached"))
		open_detached(argv[2]);
	execvp(argv[3], argv + 3);
	die(argv[3]);
}
