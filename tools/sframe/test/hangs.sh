# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# What session.sh tests of files on a file system that does not answer, or not soon: sessions wait
# for so long, and no longer. To be sourced there.
# shellcheck disable=SC2154	# bin, here, sframe and work are others'

# hanging FILE [FROM TO [DELAY]]: have it as mnt/file, of a file system that is served by $server
hanging() {
	rm -f ready dead
	mkdir -p mnt
	python3 "$here/hang.py" mnt "$@" & server=$!
	soon eval "[ -e ready ] || ! kill -0 $server" && [ -e ready ]
}

# can_hang: may this file system be mounted here?
can_hang() {
	local server status
	hanging /dev/null
	status=$?
	clean_up > /dev/null 2>&1
	return $status
}

# served ARGUMENT...: as run, with the file system and the process that has its file
served() {
	ends 0 "" -v "$@"
	local status=$?
	kill "$holder" "$server"
	wait "$holder" "$server" 2> /dev/null
	return $status
}

# hangs FLAG: a file that cannot be opened, by "dead"; or that can be read but not be closed, by
# "unflushed"
hangs() {
	rm -rf .debug ran
	library "hangs_$1" && hanging "hangs_$1" && mapped mnt/file && : > "$1" || return 1
	served -p "$holder" touch ran && [ -e ran ] &&
		grep 'through .*/mnt/file: it is on a file system that does not answer' err &&
		grep '/libc[^ ]*: converted' err
}

# session_of PARENT: the process that has sections for run, as $session
session_of() {
	session=$(pgrep -x -P "$1" sframe)
}

# many_waiting SENTENCE COMMAND...: it comes soon; then this is done, and soon nobody waits, and
# what was not looked at is
# shellcheck disable=SC2016	# for later
many_waiting() {
	local sentence=$1
	shift
	soon grep "$sentence" err && "$@" &&
		soon eval '[ "$(pgrep -P "$session" | wc -l)" -le 1 ]' &&
		soon grep '/mnt/file0: is not there any more' err
}

# build_openers: a library with which each process that opens files has a line in "openers" when
# it starts: how many of them there are that nobody has waited for
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

# More files that cannot be opened than anybody has the time for, or processes.
many_hang() {
	# shellcheck disable=SC2034	# many_waiting has it in words for later
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
	# Each that hangs had one that took its place, but for the last one.
	most=$(sort -n openers | tail -n 1)
	echo "# $most processes that open files at once"
	[ "$most" = 8 ] || fail "not 8 processes" || return 1
	# Those that the start had no time for are looked at later.
	[ $status = 0 ] && [ "$(cat ran)" -lt 8 ] &&
		grep '/mnt/file.*: is not looked at, as others take too much time' err &&
		[ "$(grep -c 'processes hang' err)" = 1 ] && grep '/libc[^ ]*: converted' err
}

# A file that has hung for less than the whole time is tried again when there is more of it,
# though nothing is mapped meanwhile.
hangs_once() {
	local status
	library hangs_once && : > cached && hanging hangs_once && mapping mnt/file mnt/file &&
		touch map1 && soon test -e mapped1 && : > dead || return 1
	# What has hung is forgotten after 10 s.
	timeout 100 "$sframe" run -v -p "$holder" sh -c 'rm dead
		until grep -q "/file: converted" err; do sleep 0.1; done' 2> err
	status=$?
	cat err
	[ $status = 0 ] && grep '/file: is on a file system that does not answer soon' err
}

# That a file cannot be opened is no reason that another one of its build-id is not converted.
same_id_hangs() {
	library second && : > cached && hanging second && mapping mnt/file second && : > dead ||
		return 1
	first_then_second '/file: is on a file system that does not answer'
}

# A file that can be opened, but not be read where it counts: a conversion hangs.
hangs_job() {
	local from size
	rm -rf .debug ran
	library hangs_job || return 1
	read -r from size < <(readelf -SW hangs_job |
		awk 'sub(/.* \.eh_frame /, "") { print $3, $4 }')
	hanging hangs_job "0x$from" $((0x$from + 0x$size)) && mapped mnt/file || return 1
	# It starts before the time is up, and other files are converted.
	# shellcheck disable=SC2016	# for the inner shell
	served -p "$holder" sh -c 'pgrep -P $(pgrep -x -P $PPID sframe) > ran' || return 1
	[ "$(wc -l < ran)" = 2 ] || { fail "nobody hangs"; return 1; }
	grep 'through .*/mnt/file: it is on a file system that does not answer' err &&
		grep '/libc[^ ]*: converted' err
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
	# By then, all files were looked at.
	soon held && : > unflushed && go_on
	status=$?
	kill "$holder" "$fuse"
	wait "$holder" "$fuse" 2> /dev/null
	cat err
	[ $status = 0 ] && [ -e ran ] &&
		grep 'through .*/mnt/file: it is on a file system that does not answer' err &&
		grep '/libc[^ ]*: converted' err
}

# The cache: there is no server to speak of, and the command runs.
hangs_cache() {
	rm -f ran
	library hangs_cache && hanging hangs_cache && mapped hangs_cache && : > dead || return 1
	served -c mnt/cache touch ran && [ -e ran ] &&
		grep 'some sections are not there: a file system does not answer' err &&
		grep 'has ended too early, or hangs' err
}

# A file that is opened, but slowly: something goes on all the time.
slow_open() {
	local sframe=$bin/standin-slow
	rm -rf .debug ran
	library slow_open && hanging slow_open 64 100000 0.05 && mapped mnt/file || return 1
	served -p "$holder" touch ran && [ -e ran ] &&
		grep 'through .*/mnt/file: it is on a file system that is too slow' err &&
		grep '/libc[^ ]*: converted' err
}

# One that waits for less than a file may, and for longer than there is time for all.
slow_start() {
	local sframe=$bin/standin-slow
	rm -rf .debug ran
	# 8.5 s of the 9 s for a file, and of the 6 s until the command runs.
	library slow_start && hanging slow_start 64 234 0.05 && mapped mnt/file || return 1
	served -p "$holder" touch ran && [ -e ran ] &&
		grep '/mnt/file: is on a file system that is too slow' err
}

# Many files for which a server needs less than a tick each: these add up.
quick_start() {
	rm -rf .debug ran
	library quick_start && hanging quick_start 64 65 0.05 && mapped mnt/file{0..99} || return 1
	served -p "$holder" touch ran && [ -e ran ] &&
		grep '/mnt/file.*: is not looked at, as others take too much time' err
}

# Those are of one process, and more than there is time for: others have their turn before all of
# them were looked at.
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

# A conversion of such a file.
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
