// SPDX-License-Identifier: GPL-2.0
/*
 * Client of the kernel's test tracer (CONFIG_UNWIND_TEST_TRACER).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracer.h"
#include "workload.h"

#define UNWIND_DEBUGFS	"/sys/kernel/debug/unwind/"

int tracer_open(const char **why)
{
	int fd = open(UNWIND_DEBUGFS "test", O_RDWR | O_CLOEXEC);

	*why = "";
	if (fd >= 0)
		return fd;

	if (errno == EACCES || errno == EPERM)
		*why = "needs root";
	else
		*why = "needs CONFIG_UNWIND_TEST_TRACER and debugfs on /sys/kernel/debug";
	return -1;
}

int tracer_run(int fd, struct unwind_test_op *ops, unsigned int nr)
{
	struct unwind_test_ops arg = { .nr = nr, .ops = (uintptr_t)ops };

	return ioctl(fd, UNWIND_TEST_RUN, &arg) ? -errno : 0;
}

int tracer_run_deep(int fd, struct unwind_test_op *ops, unsigned int nr, unsigned int depth)
{
	struct unwind_test_ops arg = { .nr = nr, .ops = (uintptr_t)ops };

	return workload_syscall(depth, SYS_ioctl, fd, UNWIND_TEST_RUN, (long)&arg);
}

int tracer_run_fp(int fd, struct unwind_test_op *ops, unsigned int nr, void *top,
		  unsigned long fp)
{
	struct unwind_test_ops arg = { .nr = nr, .ops = (uintptr_t)ops };
	const long call[7] = { SYS_ioctl, fd, UNWIND_TEST_RUN, (long)&arg };

	return workload_call_fp(top, fp, call);
}

int tracer_op(int fd, struct unwind_test_op op)
{
	int ret = tracer_run(fd, &op, 1);

	return ret ?: op.ret;
}

bool tracer_event(int fd, struct unwind_test_event *event)
{
	struct unwind_test_op op = { .code = UNWIND_TEST_EVENT, .arg = (uintptr_t)event };

	return tracer_op(fd, op) == 1;
}

long unwind_stat(const char *name)
{
	FILE *file = fopen(UNWIND_DEBUGFS "stats", "r");
	char line_name[32];
	long value, ret = -1;

	if (!file)
		return -1;
	while (fscanf(file, "%31s %ld", line_name, &value) == 2) {
		if (!strcmp(line_name, name))
			ret = value;
	}
	fclose(file);
	return ret;
}
