# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# Files on a file system that does not answer, or not soon, as session.sh tests them: sessions
# wait for a limited time. To be sourced there.
# shellcheck disable=SC2154	# session.sh sets these

# hanging FILE [FROM TO [DELAY]]: mount a file system, served by $server, with FILE as mnt/file
hanging() {
	rm -f ready dead
	mkdir -p mnt
	python3 "$here/hang.py" mnt "$@" & server=$!
	soon eval "[ -e ready ] || ! kill -0 $server" && [ -e ready ]
}

# can_hang: can this file system be mounted here?
can_hang() {
	local server status
	hanging /dev/null
	status=$?
	clean_up > /dev/null 2>&1
	return $status
}

# served ARGUMENT...: run, then kill the file system's server and the process that maps its file
served() {
	ends 0 "" -v "$@"
	local status=$?
	kill "$holder" "$server"
	wait "$holder" "$server" 2> /dev/null
	return $status
}

# hangs FLAG: a file that cannot be opened with "dead", or that can be read but not closed with
# "unflushed"
hangs() {
	rm -rf .debug ran
	library "hangs_$1" && hanging "hangs_$1" && mapped mnt/file && : > "$1" || return 1
	served -p "$holder" touch ran && [ -e ran ] &&
		grep 'through .*/mnt/file: it is on a file system that does not answer' err &&
		grep '/libc[^ ]*: converted' err
}

# A file that hangs at the start does not keep the files of other processes from their sections.
hangs_alone() {
	local first sframe=$bin/standin-slow
	rm -rf .debug early
	library hangs_alone && library others && hanging hangs_alone && mapped mnt/file || return 1
	first=$holder
	mapped others && : > dead &&
		served -a sh -c 'grep -c "/others: converted" err > early'
	kill "$first"
	wait "$first" 2> /dev/null
	[ "$(cat early)" = 1 ] &&
		grep 'through .*/mnt/file: it is on a file system that does not answer' err &&
		! grep 'take too long to read' err
}

# session_of PARENT: set $session to the process that makes sections for run
session_of() {
	session=$(pgrep -x -P "$1" sframe)
}

# many_waiting SENTENCE COMMAND...: wait for the sentence and run the command; soon no process
# waits any more, and the remaining files are looked at
# shellcheck disable=SC2016	# evaluated later
many_waiting() {
	local sentence=$1
	shift
	soon grep "$sentence" err && "$@" &&
		soon eval '[ "$(pgrep -P "$session" | wc -l)" -le 1 ]' &&
		soon grep '/mnt/file0: is not there any more' err
}

# build_openers: a library that adds a line to "openers" whenever a process that opens files
# starts: the number of such processes that were not reaped yet
build_openers() {
	cat > openers.c <<-'END_OPENERS'
	#define _GNU_SOURCE
	#include <dlfcn.h>
	#include <stdio.h>
	#include <sys/socket.h>
	#include <sys/wait.h>
	#include <unistd.h>

	static pid_t pids[1000];
	static int next_opens, nr;

	/* Only for processes that open files there is one of this kind. */
	int socketpair(int domain, int type, int protocol, int *sockets)
	{
		int (*next)(int, int, int, int *) = dlsym(RTLD_NEXT, "socketpair");

		next_opens = (type & 0xf) == SOCK_SEQPACKET;
		return next(domain, type, protocol, sockets);
	}

	pid_t fork(void)
	{
		pid_t (*next)(void) = dlsym(RTLD_NEXT, "fork"), pid = next();
		FILE *file;

		if (pid > 0 && next_opens && nr < 1000) {
			pids[nr++] = pid;
			file = fopen("openers", "ae");
			if (file) {
				fprintf(file, "%d\n", nr);
				fclose(file);
			}
		}
		next_opens = 0;
		return pid;
	}

	pid_t waitpid(pid_t pid, int *status, int flags)
	{
		pid_t (*next)(pid_t, int *, int) = dlsym(RTLD_NEXT, "waitpid");
		pid_t ended = next(pid, status, flags);

		for (int i = 0; i < nr; i++)
			if (pids[i] == ended)
				pids[i] = pids[--nr];
		return ended;
	}
	END_OPENERS
	gcc -O2 -shared -fPIC -o openers.so openers.c -ldl
}

# More files that cannot be opened than the session has time or processes for.
many_hang() {
	# shellcheck disable=SC2034	# many_waiting evaluates it later
	local pid session status most
	rm -rf .debug ran go openers
	build_openers && library many_hang && hanging many_hang &&
		mapped mnt/file{0..99} && : > dead || return 1
	# shellcheck disable=SC2016	# for the inner shell
	LD_PRELOAD=$PWD/openers.so "$sframe" run -v -p "$holder" sh -c '
		pgrep -P $(pgrep -x -P $PPID sframe) | wc -l > ran
		until [ -e go ]; do sleep 0.1; done' 2> err & pid=$!
	soon test -s ran && session_of $pid &&
		many_waiting "^sframe: 8 processes hang" kill -9 "$server"
	status=$?
	touch go
	kill "$holder" "$server" 2> /dev/null
	wait "$server" "$holder" 2> /dev/null
	wait "$pid" || status=1
	cat ran err
	# Each process that hangs was replaced, except the last one.
	most=$(sort -n openers | tail -n 1)
	echo "# $most processes that open files at once"
	[ "$most" = 8 ] || fail "not 8 processes" || return 1
	# Files that the start had no time for are looked at later.
	[ $status = 0 ] && [ "$(cat ran)" -lt 8 ] &&
		grep '/mnt/file.*: is not looked at, as others take too much time' err &&
		[ "$(grep -c 'processes hang' err)" = 1 ] && grep '/libc[^ ]*: converted' err
}

# A file that hung for less than the whole limit is tried again once there is time again, even if
# nothing is mapped meanwhile.
hangs_once() {
	local status
	library hangs_once && : > cached && hanging hangs_once && mapping mnt/file mnt/file &&
		touch map1 && soon test -e mapped1 && : > dead || return 1
	# A hang is forgotten after 10 s.
	timeout 100 "$sframe" run -v -p "$holder" sh -c 'rm dead
		until grep -q "/file: converted" err; do sleep 0.1; done' 2> err
	status=$?
	cat err
	[ $status = 0 ] && grep '/file: is on a file system that does not answer soon' err
}

# A file that cannot be opened does not prevent the conversion of another one of its build-id.
same_id_hangs() {
	library second && : > cached && hanging second && mapping mnt/file second && : > dead ||
		return 1
	first_then_second '/file: is on a file system that does not answer'
}

# A file that can be opened, but whose .eh_frame cannot be read: its conversion hangs.
hangs_job() {
	local from size
	rm -rf .debug ran
	library hangs_job || return 1
	read -r from size < <(readelf -SW hangs_job |
		awk 'sub(/.* \.eh_frame /, "") { print $3, $4 }')
	hanging hangs_job "0x$from" $((0x$from + 0x$size)) && mapped mnt/file || return 1
	# The command starts before the time is up, and other files are converted.
	# shellcheck disable=SC2016	# for the inner shell
	served -p "$holder" sh -c 'pgrep -P $(pgrep -x -P $PPID sframe) > ran' || return 1
	[ "$(wc -l < ran)" = 2 ] || { fail "nobody hangs"; return 1; }
	grep 'through .*/mnt/file: it is on a file system that does not answer' err &&
		grep '/libc[^ ]*: converted' err
}

# hidden COMMAND...: the session may not see processes that nobody may trace, as with the option
# hidepid of /proc
hidden() {
	cat > hidden.c <<-'END_HIDDEN'
	#define _GNU_SOURCE
	#include <dlfcn.h>
	#include <errno.h>
	#include <stdio.h>
	#include <string.h>

	FILE *fopen(const char *name, const char *mode)
	{
		FILE *(*next)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");
		int pid, end = 0;

		if (sscanf(name, "/proc/%d/stat%n", &pid, &end) == 1 && end && !name[end]) {
			errno = ENOENT;
			return NULL;
		}
		return next(name, mode);
	}
	END_HIDDEN
	gcc -O2 -shared -fPIC -o hidden.so hidden.c -ldl && LD_PRELOAD=$PWD/hidden.so "$@"
}

# A conversion that can read its file, but not close it.
hangs_job_close() {
	# shellcheck disable=SC2034	# jobs is set by held
	local pid server jobs status fuse
	rm -rf .debug ran
	build_hold && library hangs_job_close && hanging hangs_job_close && mapped mnt/file ||
		return 1
	fuse=$server
	LD_PRELOAD=$PWD/hold.so "$sframe" run -v -p "$holder" touch ran 2> err & pid=$!
	# By then, the session has looked at all files.
	soon held && : > unflushed && go_on
	status=$?
	kill "$holder" "$fuse"
	wait "$holder" "$fuse" 2> /dev/null
	cat err
	[ $status = 0 ] && [ -e ran ] &&
		grep 'through .*/mnt/file: it is on a file system that does not answer' err &&
		grep '/libc[^ ]*: converted' err
}

# has_open NAME: does a process of sframe have this file open?
has_open() {
	local pid
	for pid in $(pgrep -x 'sframe|standin.*'); do
		! find "/proc/$pid/fd" -lname "$1" 2> /dev/null | grep -q . || return 0
	done
	return 1
}

# A program that cannot be closed after it was read for what it needs. The process that did so
# outlives the session, whose sections must not stay registered for that.
hangs_needed() {
	rm -rf .debug
	cp "$(type -P true)" needed && hanging needed && : > unflushed || return 1
	ends 0 "" mnt/file && has_open '*/mnt/file' && ! has_open "$SFRAME_DEVICE"
	local status=$?
	kill "$server"
	wait "$server" 2> /dev/null
	return $status
}

# A cache that hangs: the server does not get ready, but the command runs.
hangs_cache() {
	rm -f ran
	library hangs_cache && hanging hangs_cache && mapped hangs_cache && : > dead || return 1
	served -c mnt/cache touch ran && [ -e ran ] &&
		grep 'some sections are not there: a file system does not answer' err &&
		grep 'has ended too early, or hangs' err
}

# A file that is opened slowly, but makes progress all the time.
slow_open() {
	local sframe=$bin/standin-slow
	rm -rf .debug ran
	library slow_open && hanging slow_open 64 100000 0.05 && mapped mnt/file || return 1
	served -p "$holder" touch ran && [ -e ran ] &&
		grep 'through .*/mnt/file: it is on a file system that is too slow' err &&
		grep '/libc[^ ]*: converted' err
}

# A file that takes less than the limit of a file, but more than the limit of the start.
slow_start() {
	local sframe=$bin/standin-slow
	rm -rf .debug ran
	# 8.5 s: less than the 9 s for a file, more than the 6 s until the command runs.
	library slow_start && hanging slow_start 64 234 0.05 && mapped mnt/file || return 1
	served -p "$holder" touch ran && [ -e ran ] &&
		grep '/mnt/file: is on a file system that is too slow' err
}

# Many files that take the server less than a tick each: their times add up.
quick_start() {
	rm -rf .debug ran
	library quick_start && hanging quick_start 64 65 0.05 && mapped mnt/file{0..99} || return 1
	served -p "$holder" touch ran && [ -e ran ] &&
		grep '/mnt/file.*: is not looked at, as others take too much time' err
}

# A process maps more such files than there is time for: other processes get their turn before the
# session has looked at all of these files.
slow_turns() {
	local status
	rm -rf .debug mapped
	library slow_turns && library second && hanging slow_turns 64 65 0.05 || return 1
	python3 -c 'import mmap, os, sys, time
kept = []
def map(name):
    file = os.open(name, os.O_RDONLY)
    kept.append(mmap.mmap(file, 4096, flags=mmap.MAP_PRIVATE,
                          prot=mmap.PROT_READ | mmap.PROT_EXEC))
    os.close(file)
if os.fork():
    for name in sys.argv[2:]:
        map(name)
    open("mapped", "w").close()
else:
    map(sys.argv[1])
time.sleep(100000)' second mnt/file{0..249} & holder=$!
	soon test -e mapped || return 1
	timeout 100 "$sframe" run -v -p "$holder" sh -c \
		'until grep -q "/second: converted" err; do sleep 0.1; done' 2> err
	status=$?
	cat err
	[ $status = 0 ] && grep '/mnt/file.*: it is not looked at, as others take too much time' err
}

# A conversion of a file that is read slowly.
slow_job() {
	local from size nr
	rm -rf .debug ran
	for nr in $(seq 100); do
		echo "int slow_$nr(int a) { return a + $nr; }"
	done > library.c
	gcc -O2 -shared -fPIC -Wl,--build-id -o slow_job library.c || return 1
	read -r from size < <(readelf -SW slow_job |
		awk 'sub(/.* \.eh_frame /, "") { print $3, $4 }')
	hanging slow_job "0x$from" $((0x$from + 0x$size)) 0.05 && mapped mnt/file || return 1
	served -p "$holder" touch ran && [ -e ran ] &&
		grep 'through .*/mnt/file: it is on a file system that is too slow' err &&
		grep '/libc[^ ]*: converted' err
}
