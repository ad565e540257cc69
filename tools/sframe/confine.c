// SPDX-License-Identifier: GPL-2.0
/*
 * Let a process that parses a file do nothing else: files are not trusted. If one takes over the
 * parser, it can use memory of its own, read and write the files that the process has open, learn
 * names and attributes of other files, and end.
 */
#include <elfutils/version.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <uapi/linux/filter.h>
#include <unistd.h>

#include "internal.h"
#include "session.h"

#if !_ELFUTILS_PREREQ(0, 178)
#error "libdw before 0.178 opens libraries while it parses a file, which the filter refuses"
#endif

#define ALLOW(name)							\
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##name, 0, 1),		\
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

#define LOAD(field)							\
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))

/* Allow a call if its argument has none of these bits, which are in the lower half. */
#define ALLOW_WITHOUT(name, arg, bits)					\
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##name, 0, 4),		\
	LOAD(args[arg]),						\
	BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1),		\
	REFUSE,								\
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

#define REFUSE	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

/*
 * libelf and libdw read by pread(), as files are not mapped; the rest is for memory and the end.
 * RLIMIT_DATA does not count shared memory.
 */
static struct sock_filter calls[] = {
	LOAD(arch),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
	REFUSE,
	LOAD(nr),
	ALLOW(read), ALLOW(pread64), ALLOW(write), ALLOW(lseek), ALLOW(fstat), ALLOW(newfstatat),
	ALLOW_WITHOUT(mmap, 3, MAP_SHARED), ALLOW(mremap), ALLOW(munmap), ALLOW(brk),
	ALLOW(madvise),
	ALLOW(exit), ALLOW(exit_group),
	REFUSE,
};

/**
 * confine - give up all system calls but those that parsing an open file takes
 *
 * Others fail with EPERM. Those for memory can do more with some capabilities, so give up these
 * as well; as processes of the same user could trace one without capabilities, let none do that.
 * stderr, which may be a terminal, becomes what stdout is.
 *
 * Return: false with errno if the kernel cannot do that.
 */
bool confine(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
	const struct sock_fprog filter = {
		.len = sizeof(calls) / sizeof(*calls), .filter = calls,
	};

	return !prctl(PR_SET_DUMPABLE, 0) && !syscall(SYS_capset, &header, none) &&
	       dup2(STDOUT_FILENO, STDERR_FILENO) >= 0 &&
	       !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}
