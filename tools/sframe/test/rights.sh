# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# What processes that parse files may do, and others may do to them. To be sourced by session.sh.
# shellcheck disable=SC2154	# set by session.sh

# build_rights: a library with which a conversion crashes, if system calls fail that it does not
# need, and one that it needs works. Before that it waits while a file "hold" exists. If a file
# "seized" exists, it does not crash
build_rights() {
	cat > rights.c <<-'END_RIGHTS'
	#define _GNU_SOURCE
	#include <dlfcn.h>
	#include <errno.h>
	#include <signal.h>
	#include <stdbool.h>
	#include <stdlib.h>
	#include <sys/mman.h>
	#include <sys/stat.h>
	#include <sys/syscall.h>
	#include <unistd.h>

	static bool refused(long ret)
	{
		return ret == -1 && (errno == EPERM || errno == ENOSYS);
	}

	__attribute__((constructor)) static void begin(void)
	{
		signal(SIGXFSZ, SIG_IGN);
	}

	static bool output_is_limited(void)
	{
		for (int fd = 3; fd < 64; fd++) {
			if (lseek(fd, 1L << 27, SEEK_SET) > 0 && write(fd, "", 1) == 1)
				return false;
		}
		return true;
	}

	static bool has_no_rights(void)
	{
		char byte;

		/* The first one by the numbers of x32, too. */
		return refused(syscall(SYS_openat, -100, "/dev/null", 0)) &&
		       refused(syscall(0x40000000 | SYS_openat, -100, "/dev/null", 0)) &&
		       refused(syscall(SYS_fork)) && refused(syscall(SYS_socket, 1, 1, 0)) &&
		       refused(syscall(SYS_kill, getppid(), 0)) && refused(syscall(SYS_setsid)) &&
		       refused(syscall(SYS_ioctl, 2, 0x5412, "x")) &&
		       refused(syscall(SYS_execve, "/bin/true", NULL, NULL)) &&
		       mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			    0) == MAP_FAILED &&
		       mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1,
			    0) == MAP_FAILED &&
		       output_is_limited() && read(0, &byte, 1) == 0;
	}

	/* With READERS, they crash before they look for the build-id. */
	int elf_getphdrnum(void *elf, size_t *nr)
	{
		int (*real)(void *, size_t *) = (typeof(real))dlsym(RTLD_NEXT, "elf_getphdrnum");

		if (getenv("READERS") && has_no_rights())
			__builtin_trap();
		return real(elf, nr);
	}

	/* Only conversions call it. */
	int dwarf_next_cfi(const unsigned char *ident, void *data, int eh, long off, long *next,
			   void *to)
	{
		static int (*real)(const unsigned char *, void *, int, long, long *, void *);
		struct stat st;

		while (!stat("hold", &st))
			;
		if (!real)
			real = (typeof(real))dlsym(RTLD_NEXT, "dwarf_next_cfi");
		if (stat("seized", &st) && has_no_rights())
			__builtin_trap();
		return real(ident, data, eh, off, next, to);
	}
	END_RIGHTS
	gcc -O2 -shared -fPIC -o rights.so rights.c
}

# build_unfiltered: a library that acts like a kernel without filters for system calls
build_unfiltered() {
	cat > unfiltered.c <<-'END_UNFILTERED'
	#include <errno.h>
	#include <stdarg.h>
	#include <sys/prctl.h>
	#include <sys/syscall.h>
	#include <unistd.h>

	int prctl(int option, ...)
	{
		long args[4];
		va_list list;

		va_start(list, option);
		for (int i = 0; i < 4; i++)
			args[i] = va_arg(list, long);
		va_end(list);
		if (option != PR_SET_SECCOMP)
			return syscall(SYS_prctl, option, args[0], args[1], args[2], args[3]);
		errno = EINVAL;
		return -1;
	}
	END_UNFILTERED
	gcc -O2 -shared -fPIC -o unfiltered.so unfiltered.c
}

# Without a filter there is no conversion, which is said.
rights_unfiltered() {
	rm -rf .debug ran
	build_unfiltered && library unfiltered && mapped unfiltered || return 1
	LD_PRELOAD=$PWD/unfiltered.so ends 0 "" -v -p "$holder" touch ran || return 1
	kill "$holder"
	grep '/unfiltered: cannot be converted safely: Invalid argument' err &&
		! grep ': converted' err
}

# A conversion can do nothing but read its file and write its section.
rights() {
	rm -rf .debug ran
	build_rights && library rights && mapped rights || return 1
	LD_PRELOAD=$PWD/rights.so ends 0 "" -v -p "$holder" touch ran || return 1
	kill "$holder"
	grep '/rights: .*Illegal instruction' err && ! grep ': converted' err
}

# Nor can what reads the build-id of a file that others may write.
rights_of_readers() {
	local status
	rm -rf .debug device.* device ran
	build_rights && library theirs && chmod o+w theirs && library ours && mapped theirs ours ||
		return 1
	READERS=yes LD_PRELOAD=$PWD/rights.so SFRAME_FOR_ALL=yes \
		ends 0 "" -v -p "$holder" touch ran
	status=$?
	kill "$holder"
	[ $status = 0 ] && [ -e ran ] && grep '/theirs: breaks libelf' err &&
		grep '/ours: .*Illegal instruction' err
}

# held_job FILE: a session in the background with a conversion that goes on without the file
# "hold"; sets session and job
held_job() {
	local server
	rm -rf .debug
	build_rights && library "$1" && mapped "$1" && : > hold || return 1
	LD_PRELOAD=$PWD/rights.so "$sframe" run -v -p "$holder" true 2> err &
	session=$!
	# shellcheck disable=SC2016	# eval expands these
	soon eval 'server=$(pgrep -P $session -x sframe)' &&
		soon eval 'job=$(pgrep -o -r R -P $server)' &&
		soon grep -q '^Seccomp:[[:space:]]*2' "/proc/$job/status"
}

# job_traced SECONDS RESULT: a process traces a conversion, and waits for its end after these
# seconds. It does not hold up the session; the session says RESULT of the file
job_traced() {
	local job session tracer status=1
	rm -f hold seized
	held_job kept || { rm -f hold; return 1; }
	python3 -c 'import ctypes, os, sys, time
PTRACE_SEIZE = 0x4206
ptrace = ctypes.CDLL(None).ptrace
ptrace.argtypes = [ctypes.c_long] * 4
job = int(sys.argv[1])
if ptrace(PTRACE_SEIZE, job, 0, 0) == 0:
    open("seized", "w").close()
    os.waitid(os.P_PID, job, os.WEXITED | os.WNOWAIT)
    time.sleep(float(sys.argv[2]))
    os.waitpid(job, 0)' "$job" "$1" & tracer=$!
	soon test -e seized && status=0
	rm -f hold
	# shellcheck disable=SC2016	# eval expands it
	if ! soon eval '! kill -0 $session 2> gone'; then
		fail "it does not end"
		status=1
	fi
	kill "$holder"
	kill $tracer 2> gone
	rm -f seized
	wait "$session" && grep "/python3[^/]*$2" err || return 1
	return $status
}

# A process of the same user cannot look into it, though both have no capabilities.
rights_of_others() {
	local job session status=1
	held_job traced && status=0
	if setpriv --bounding-set=-all --inh-caps=-all --ambient-caps=-all \
		cat "/proc/$job/environ" > seen; then
		fail "it can be read"
		status=1
	fi
	rm hold
	wait "$session" && kill "$holder" && grep '/traced: .*Illegal instruction' err || return 1
	return $status
}
