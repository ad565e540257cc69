// SPDX-License-Identifier: GPL-2.0
/*
 * Failures that the kernel injects into a task that requests them.
 *
 * The knobs are system-wide: restore_knobs() restores their old values, and failures hit
 * only tasks that request them.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inject.h"

#define FAULT_DIR	"/sys/kernel/debug/"

/* Settings for failures that could also be real ones. */
static const struct knob {
	const char	*path, *value;
} knobs[] = {
	{ "failslab/ignore-gfp-wait",		"N" },
	{ "failslab/verbose",			"0" },
	{ "failslab/task-filter",		"Y" },
	{ "failslab/times",			"-1" },
	{ "fail_page_alloc/ignore-gfp-wait",	"N" },
	{ "fail_page_alloc/ignore-gfp-highmem",	"N" },
	{ "fail_page_alloc/min-order",		"0" },
	{ "fail_page_alloc/verbose",		"0" },
	{ "fail_page_alloc/task-filter",	"Y" },
	{ "fail_page_alloc/times",		"-1" },
	{ "fail_usercopy/verbose",		"0" },
};

#define NR_KNOBS	(sizeof(knobs) / sizeof(*knobs))

static char old_knobs[NR_KNOBS][16];

/* Write @value and, if @old is not NULL, return the old value there; false on failure. */
static bool set_knob(const char *path, const char *value, char *old, size_t size)
{
	char name[128];
	ssize_t len;
	int fd;

	snprintf(name, sizeof(name), FAULT_DIR "%s", path);
	fd = open(name, O_RDWR);
	if (fd < 0)
		return false;
	if (old) {
		len = read(fd, old, size - 1);
		old[len > 0 ? len : 0] = '\0';
	}
	/* These files have no position. */
	len = write(fd, value, strlen(value));
	close(fd);
	return len > 0;
}

/* Filter one kind of failure, see set_filters(). */
static bool set_filter(const char *dir, unsigned long begin, unsigned long end)
{
	char path[64], text[32];

	snprintf(path, sizeof(path), "%s/require-start", dir);
	snprintf(text, sizeof(text), "%#lx", begin);
	if (!set_knob(path, text, NULL, 0))
		return false;
	snprintf(path, sizeof(path), "%s/require-end", dir);
	snprintf(text, sizeof(text), "%#lx", end);
	return set_knob(path, text, NULL, 0);
}

bool set_filters(unsigned long begin, unsigned long end)
{
	return set_filter("failslab", begin, end) &&
	       set_filter("fail_page_alloc", begin, end) &&
	       set_filter("fail_usercopy", begin, end);
}

bool filter_allocations(void)
{
	return set_filter("failslab", 1, 1) && set_filter("fail_page_alloc", 1, 1);
}

void clear_filters(void)
{
	set_filters(0, -1UL);
}

bool set_knobs(void)
{
	/* A killed test may have left a filter. */
	clear_filters();
	for (unsigned int i = 0; i < NR_KNOBS; i++) {
		if (!set_knob(knobs[i].path, knobs[i].value, old_knobs[i],
			      sizeof(old_knobs[i])))
			return false;
	}
	return true;
}

void restore_knobs(void)
{
	for (unsigned int i = 0; i < NR_KNOBS; i++)
		set_knob(knobs[i].path, old_knobs[i], NULL, 0);
}

bool set_slab_probability(const char *percent)
{
	return set_knob("failslab/probability", percent, NULL, 0);
}

bool set_probability(const char *percent)
{
	bool slab = set_slab_probability(percent);
	bool pages = set_knob("fail_page_alloc/probability", percent, NULL, 0);

	return slab && pages;
}

bool set_space(const char *bytes)
{
	return set_knob("failslab/space", bytes, NULL, 0);
}

bool take_failures(bool on)
{
	int fd = open("/proc/self/make-it-fail", O_RDWR | O_CLOEXEC);
	bool done = fd >= 0 && pwrite(fd, on ? "1" : "0", 1, 0) == 1;

	if (fd >= 0)
		close(fd);
	return done;
}

static int fail_nth_fd;

bool arm_init(void)
{
	fail_nth_fd = open("/proc/thread-self/fail-nth", O_RDWR);
	return fail_nth_fd >= 0;
}

void arm(unsigned int nth)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", nth);

	/* The armed fault may hit this write. */
	while (pwrite(fail_nth_fd, text, len, 0) != len)
		;
}

bool disarm(void)
{
	char text[16] = "";
	/* If the read fails, the fault has hit the read: it was still unused. */
	bool unused = pread(fail_nth_fd, text, sizeof(text) - 1, 0) <= 0 || atoi(text);

	arm(0);
	return unused;
}

bool zombie_unused(pid_t pid)
{
	char path[32], text[16] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fail-nth", pid);
	fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return false;
	close(fd);
	return atoi(text);
}
