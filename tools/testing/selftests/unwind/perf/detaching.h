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

/* The same for the tasks that a task makes. */
struct perf_event_attr inherit_attr(void);

/* Detach an event with a buffer of @pages; 0 or a negative errno. */
int detach_pages(int fd, unsigned int pages);

/* Open an event, detach it and let it count. Returns the descriptor, or a negative errno. */
int open_pages(const struct perf_event_attr *attr, pid_t pid, unsigned int pages);
int open_detached(const struct perf_event_attr *attr, pid_t pid);

/* How many names there are, and the path of one of them. */
int names(char *path, size_t size);

/* Wait until there are so many names. Returns how many there are. */
int wait_for_names(int nr);

/* Remove all names. Returns how many there were. */
int remove_names(void);

/* A mapping of an event, or NULL. */
struct perf_event_mmap_page *map_pages(int fd, int prot, unsigned int pages);
struct perf_event_mmap_page *map_event(int fd, int prot);
/* A mapping of the event of a thread, found by its name; NULL if there is none. */
struct perf_event_mmap_page *map_thread(pid_t pid, pid_t tid);
const struct perf_event_detached_info *info_of(const struct perf_event_mmap_page *map);

/* Let samples hit this function for a while, and fault in it if @end. */
void spin(bool end);
extern const char spin_fault[];

/* How many samples of an overwritten buffer are there, up to the first that did not hit spin()? */
unsigned int newest_in_spin(const struct perf_event_mmap_page *map);

/* Let samples of page faults hit where spin() is counted, without luck; and such an event. */
void touch(void);
struct perf_event_attr fault_attr(void);

/* What the newest record of an overwritten buffer is. */
__u32 newest_type(const struct perf_event_mmap_page *map);

/* Where the newest sample of an overwritten buffer is; 0 if there is none. */
__u64 newest_ip(const struct perf_event_mmap_page *map);

/* Does any of them hit it? */
bool any_in_spin(const struct perf_event_mmap_page *map);

/* How many records of a type are there? */
unsigned int count_type(const struct perf_event_mmap_page *map, __u32 type);

/* Wait until the event's task has exited. */
bool wait_for_end(const struct perf_event_mmap_page *map);

/* Let a task run on a CPU; 0 or -1. */
int run_on(pid_t tid, int cpu);

/* Wait until a thread sleeps. */
bool wait_for_sleep(pid_t pid, pid_t tid);

/* Become an ordinary user for good. */
void become(uid_t uid);

/* Run @what as a user. Returns what it returns, up to 99. */
int as_user(uid_t uid, int (*what)(const char *name), const char *name);

/* Take the values of the sysctls, false on failure; and set them again. */
bool save_sysctls(int values[NR_SYSCTLS]);
void restore_sysctls(const int values[NR_SYSCTLS]);

/*
 * A fixture: the file system is mounted, has no names, also if a test before failed amid its work,
 * and users need CAP_PERFMON.
 */
#define DETACHED_FIXTURE {							\
	int sysctls[NR_SYSCTLS];						\
	char name[300];								\
}

#define DETACHED_SETUP {							\
	if (access(DIR_NAME, F_OK))						\
		SKIP(return, "needs CONFIG_PERF_DETACHED");			\
	while (!umount(DIR_NAME))						\
		;								\
	ASSERT_EQ(0, mount("perffs", DIR_NAME, "perffs", 0, NULL));		\
	remove_names();								\
	ASSERT_TRUE(save_sysctls(self->sysctls));				\
	set_sysctl(SYSCTL, 1);							\
}

#define DETACHED_TEARDOWN {							\
	restore_sysctls(self->sysctls);						\
	EXPECT_EQ(0, remove_names());						\
	EXPECT_EQ(0, umount(DIR_NAME));						\
}

#endif /* _UNWIND_DETACHING_H */
