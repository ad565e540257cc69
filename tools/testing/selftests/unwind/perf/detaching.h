/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Detached events, and their names.
 */
#ifndef _UNWIND_DETACHING_H
#define _UNWIND_DETACHING_H

#include <linux/perf_detached.h>
#include <stdbool.h>
#include <sys/types.h>

#include "perf_ring.h"

#define DIR_NAME	"/sys/kernel/perf"
/* Who may detach events; how many, and how many without a task; and how much memory. */
#define SYSCTL		"kernel/perf_event_detached"
#define SYSCTL_MAX	SYSCTL "_max"
#define SYSCTL_KEEP	SYSCTL "_keep"
#define SYSCTL_MLOCK	"kernel/perf_event_mlock_kb"
#define NR_SYSCTLS	4
#define NOBODY		65534
#define PAGES		4U
#define PAGE		4096UL

/* Samples of a task that are taken in user mode, the newest first. */
struct perf_event_attr clock_attr(void);

/* Detach an event with a buffer of @pages; 0 or a negative errno. */
int detach_pages(int fd, unsigned int pages);

/* Open an event, detach it and let it count. Returns the descriptor, or a negative errno. */
int open_pages(const struct perf_event_attr *attr, pid_t pid, unsigned int pages);
int open_detached(const struct perf_event_attr *attr, pid_t pid);

/* How many names there are, and the path of one of them. */
int names(char *path, size_t size);

/* Remove all names. Returns how many there were. */
int remove_names(void);

/* A mapping of an event, or NULL. */
struct perf_event_mmap_page *map_pages(int fd, int prot, unsigned int pages);
struct perf_event_mmap_page *map_event(int fd, int prot);
const struct perf_event_detached_info *info_of(const struct perf_event_mmap_page *map);

/* Become an ordinary user for good. */
void become(uid_t uid);

/* Run @what as a user. Returns what it returns, up to 99. */
int as_user(uid_t uid, int (*what)(const char *name), const char *name);

/* Take the values of the sysctls, false on failure; and set them again. */
bool save_sysctls(int values[NR_SYSCTLS]);
void restore_sysctls(const int values[NR_SYSCTLS]);

/* A fixture: the file system is mounted, has no names, and users need CAP_PERFMON. */
#define DETACHED_FIXTURE {							\
	int sysctls[NR_SYSCTLS];						\
	char name[300];								\
}

#define DETACHED_SETUP {							\
	if (access(DIR_NAME, F_OK))						\
		SKIP(return, "needs CONFIG_PERF_DETACHED");			\
	ASSERT_EQ(0, mount("perffs", DIR_NAME, "perffs", 0, NULL));		\
	ASSERT_TRUE(save_sysctls(self->sysctls));				\
	set_sysctl(SYSCTL, 1);							\
	ASSERT_EQ(0, names(self->name, sizeof(self->name)));			\
}

#define DETACHED_TEARDOWN {							\
	restore_sysctls(self->sysctls);						\
	EXPECT_EQ(0, remove_names());						\
	EXPECT_EQ(0, umount(DIR_NAME));						\
}

#endif /* _UNWIND_DETACHING_H */
