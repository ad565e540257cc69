#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Test sessions on any kernel, with a stand-in for the device: session.sh DIRECTORY [REGEX]
#
# The directory is where 'make sframe test' put the programs. Needs gcc, python3, and root in
# a user namespace, where FUSE stands in for servers that hang; tests are skipped where that
# is missing. Results in TAP. With REGEX, only tests whose names match it.
if [ -z "${IN_NAMESPACE-}" ] && unshare -Urm true 2> /dev/null; then
	IN_NAMESPACE=yes exec unshare -Urm "$0" "$@"
fi
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=../../testing/selftests/unwind/lib/tap.sh
. "$here/../../testing/selftests/unwind/lib/tap.sh"
# shellcheck source-path=SCRIPTDIR source=ends.sh
. "$here/ends.sh"
# shellcheck source-path=SCRIPTDIR source=hangs.sh
. "$here/hangs.sh"
# shellcheck source-path=SCRIPTDIR source=owners.sh
. "$here/owners.sh"
# shellcheck source-path=SCRIPTDIR source=deputies.sh
. "$here/deputies.sh"
# shellcheck source-path=SCRIPTDIR source=rights.sh
. "$here/rights.sh"
# shellcheck source-path=SCRIPTDIR source=said.sh
. "$here/said.sh"
# shellcheck source-path=SCRIPTDIR source=scarce.sh
. "$here/scarce.sh"
# shellcheck source-path=SCRIPTDIR source=signals.sh
. "$here/signals.sh"
sframe=$bin/standin
export HOME=$work SFRAME_DEVICE=$work/device

# clean_up: kill processes that a test has started, and unmount its file systems
clean_up() {
	local dirs pid pids
	mapfile -t pids < <(find /proc -maxdepth 2 -name cwd -lname "$work*" -printf '%P\n')
	for pid in "${pids[@]%/cwd}"; do
		[ "$pid" = $$ ] || kill -9 "$pid"
	done
	# A later mount may be inside an earlier one. Do not access a file system that hangs.
	mapfile -t dirs < <(awk -v work="$work/" 'index($5, work) == 1 { print $5 }' \
		/proc/self/mountinfo | tac)
	[ ${#dirs[@]} = 0 ] || umount -l "${dirs[@]}"
	rm -f cached unflushed
	wait
}

# can_mount ARGUMENT...: can this be mounted on a directory "probe" here?
can_mount() {
	mkdir -p probe && unshare -m mount "$@" probe 2> /dev/null
}

# No device, or one that cannot be opened.
without_device() {
	SFRAME_DEVICE=/ ends 125 "cannot be opened" true || return 1
	(unset SFRAME_DEVICE; ends 125 "there is no /dev/unwind_sframe" touch none) && [ ! -e none ]
}

# mapped FILE...: start a process, $holder, that maps the files; the command "inside" starts it
inside=()
mapped() {
	rm -f mapped
	"${inside[@]}" python3 -c 'import mmap, os, sys, time
code = []
for name in sys.argv[1:]:
    file = os.open(name, os.O_RDONLY)
    code.append(mmap.mmap(file, 4096, flags=mmap.MAP_PRIVATE,
                          prot=mmap.PROT_READ | mmap.PROT_EXEC))
    os.close(file)
open("mapped", "w").close()
time.sleep(100000)' "$@" & holder=$!
	soon test -e mapped
}

# library NAME: build one unlike all others, with a build-id and an .eh_frame
library() {
	echo "int $1(int a) { return a + 1; }" > library.c
	gcc -O2 -g -shared -fPIC -Wl,--build-id -o "$1" library.c
}

# build_spin: a library whose fstat() of a file "spin" never returns, and of a file "busy..." takes
# 40 ms of CPU time
build_spin() {
	cat > spin.c <<-'END_SPIN'
	#include <stdio.h>
	#include <string.h>
	#include <sys/stat.h>
	#include <time.h>
	#include <unistd.h>

	int fstat(int fd, struct stat *st)
	{
		char link[32], name[4096] = "";
		clock_t begin = clock();

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		if (readlink(link, name, sizeof(name) - 1) > 5 &&
		    !strcmp(name + strlen(name) - 5, "/spin"))
			for (;;)
				;
		while (strstr(name, "/busy") && clock() - begin < CLOCKS_PER_SEC / 25)
			;
		return fstatat(fd, "", st, AT_EMPTY_PATH);
	}
	END_SPIN
	gcc -O2 -D_GNU_SOURCE -include fcntl.h -shared -fPIC -o spin.so spin.c
}

# A file that takes libelf all the time that the session has.
spins() {
	rm -rf .debug ran
	build_spin && library spin && mapped spin || return 1
	LD_PRELOAD=$PWD/spin.so ends 0 "" -v -p "$holder" touch ran
	kill "$holder"
	[ -e ran ] && grep 'through .*/spin: it takes too long to be opened' err &&
		grep '/libc[^ ]*: converted' err
}

# The CPU time to open a file is limited for each file, and not for all of them together.
many_busy() {
	local nr names=()
	for nr in {1..12}; do
		library "busy$nr" && names+=("busy$nr") || return 1
	done
	rm -rf .debug ran
	build_spin && mapped "${names[@]}" || return 1
	LD_PRELOAD=$PWD/spin.so ends 0 "" -v -p "$holder" touch ran
	kill "$holder"
	[ "$(grep -c '/busy[0-9]*: converted' err)" = 12 ]
}

# A killed server is reported, though the command runs on.
server_dies() {
	# shellcheck disable=SC2016	# for the inner shell
	ends 5 "has ended too early" sh -c 'kill -9 $(pgrep -x -P $PPID sframe); exit 5'
}

# opens_mappings: may this user open what a process, $holder, has mapped? Root may, but not in a
# user namespace.
opens_mappings() {
	local range
	range=$(awk '$2 ~ /x/ && $6 ~ "/" { print $1; exit }' "/proc/$holder/maps")
	head -c 1 "/proc/$holder/map_files/$range" > /dev/null 2>&1
}

# A file that took the name of a mapped one is not used, and makes nothing hang or crash.
hostile_files() {
	local name pid pids=() what says='through .*/%s (deleted): it is not there any more'
	rm -rf .debug
	mkdir -p hostile
	for what in fifo directory sparse short text gone other; do
		library "a_$what" && mv "a_$what" "hostile/$what" &&
			mapped "hostile/$what" || return 1
		pids+=("$holder")
		# /proc appends "(deleted)" to the name.
		rm "hostile/$what"
	done
	mkfifo 'hostile/fifo (deleted)' && mkdir 'hostile/directory (deleted)' &&
		library sparse && mv sparse 'hostile/sparse (deleted)' &&
		truncate -s 1T 'hostile/sparse (deleted)' &&
		library cut && head -c 200 cut > 'hostile/short (deleted)' &&
		echo text > 'hostile/text (deleted)' &&
		library another && mv another 'hostile/other (deleted)' || return 1
	name=$'hostile/a\nb\033[31m\\c (deleted)'
	library named && objcopy --remove-section .eh_frame named && mv named "$name" &&
		mapped "$name" || return 1
	pids+=("$holder")
	! opens_mappings || says='/%s (deleted): converted'
	for pid in "${pids[@]}"; do
		ends 0 "" -v -p "$pid" true || { kill "${pids[@]}"; return 1; }
		grep -a hostile err >> hostile.log
	done
	kill "${pids[@]}"
	echo "--"
	cat hostile.log
	for what in fifo directory gone; do
		grep "${says/\%s/$what}" hostile.log || return 1
	done
	grep '/other (deleted): converted' hostile.log &&
		grep 'through .*/a?b?\[31m\\c (deleted): it has no .eh_frame' hostile.log &&
		! grep 'breaks' hostile.log
}

# build_hold: a library that stops each conversion at its start
build_hold() {
	cat > hold.c <<-'END_HOLD'
	#define _GNU_SOURCE
	#include <signal.h>
	#include <sys/resource.h>
	#include <sys/syscall.h>
	#include <unistd.h>

	int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
	{
		/* What opens files has less. */
		if (resource == RLIMIT_CPU && limit->rlim_cur > 50)
			raise(SIGSTOP);
		return syscall(SYS_setrlimit, resource, limit);
	}
	END_HOLD
	gcc -O2 -shared -fPIC -o hold.so hold.c
}

# held: conversions, $jobs, of $pid have begun, and are stopped
held() {
	server=$(pgrep -P "$pid" -x sframe) && jobs=$(pgrep -r T -P "$server")
}

# holding: start run, and wait until its first conversions are stopped
holding() {
	rm -rf .debug ran
	build_hold || return 1
	LD_PRELOAD=$PWD/hold.so "$sframe" run touch ran 2> err & pid=$!
	soon held
}

# go_on: continue stopped conversions of $pid until it ends; returns its status
go_on() {
	while kill -0 "$pid" 2> /dev/null; do
		# shellcheck disable=SC2086	# words
		! held || kill -CONT $jobs
		sleep 0.1
	done
	wait "$pid"
}

# A stopped conversion does not hang: run waits for it, and all is well when it continues.
stopped() {
	local pid server jobs
	holding || return 1
	go_on && [ -e ran ] && ! grep 'does not answer\|no stacks' err
}

# A command that waits for its sections does not start if run is told to end.
ends_before() {
	local pid server jobs
	holding || return 1
	kill "$pid"
	wait "$pid"
	[ $? = 143 ] && [ ! -e ran ] && soon eval "! kill -0 $server"
}

# mapping FIRST SECOND [FILE...]: start a process, $holder, that maps FIRST once there is a file
# "map1", and then SECOND once there is a file "map2". It has both open, with their first page in
# memory, and maps the other files at once. All else that it needs is in the cache.
mapping() {
	rm -rf .debug ready ran go map1 map2 mapped1 mapped2
	cat > holder.c <<-'END_HOLDER'
	#include <fcntl.h>
	#include <stdio.h>
	#include <sys/mman.h>
	#include <unistd.h>

	static volatile char *map(int file)
	{
		return mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
	}

	int main(int argc, char **argv)
	{
		int files[2], first = 0;
		char name[16];

		for (int i = 0; i < 2; i++) {
			files[i] = open(argv[1 + i], O_RDONLY);
			volatile char *page = map(files[i]);

			first += *page;
			munmap((void *)page, 4096);
		}
		for (int i = 3; i < argc; i++)
			map(open(argv[i], O_RDONLY));
		close(creat("ready", 0644));
		for (int i = 0; i < 2; i++) {
			snprintf(name, sizeof(name), "map%d", 1 + i);
			while (access(name, F_OK))
				usleep(100000);
			map(files[i]);
			snprintf(name, sizeof(name), "mapped%d", 1 + i);
			close(creat(name, 0644));
		}
		pause();
	}
	END_HOLDER
	build_hold && gcc -O2 holder.c -o holder || return 1
	./holder "$@" & holder=$!
	soon test -e ready && ends 0 "" -p "$holder" sh -c :
}

# one_held: a single conversion of $pid, $first, has begun, and is stopped
one_held() {
	held && first=$jobs && [ "$(wc -w <<< "$jobs")" = 1 ]
}

# more_held: a second conversion is stopped, too, if two may run at once
more_held() {
	held && { [ "$(wc -w <<< "$jobs")" = 2 ] || [ "$(getconf _NPROCESSORS_ONLN)" = 1 ]; }
}

# The start waits only for files that were mapped when it began.
start_bound() {
	local pid server jobs first holder status
	library first && library second && mapping first second && touch map1 &&
		soon test -e mapped1 || return 1
	LD_PRELOAD=$PWD/hold.so "$sframe" run -v -p "$holder" sh -c 'touch ran' 2> err & pid=$!
	soon one_held && touch map2 && soon test -e mapped2 && soon more_held &&
		kill -CONT "$first" && soon test -e ran
	status=$?
	# Other files are converted for the next time.
	until ! kill -0 "$pid" 2> /dev/null; do
		# shellcheck disable=SC2086	# words
		! held || kill -CONT $jobs
		sleep 0.1
	done
	kill "$holder"
	wait "$pid" && [ $status = 0 ] && grep -q '/first: converted' err
}

# Likewise the end.
end_bound() {
	local pid server jobs first holder status
	library first && library second && mapping first second || return 1
	LD_PRELOAD=$PWD/hold.so "$sframe" run -v -p "$holder" sh -c 'touch ran
		until [ -e go ]; do sleep 0.1; done' 2> err & pid=$!
	soon test -e ran && touch map1 && soon one_held && touch go &&
		soon grep 'files are converted for the first time' err && touch map2 &&
		soon test -e mapped2 && kill -CONT "$first" && soon eval "! kill -0 $pid"
	status=$?
	kill -9 "$pid" 2> /dev/null
	kill "$holder"
	wait "$pid" && [ $status = 0 ] && grep '/first: converted' err && ! grep /second err
}

# Nor does the end look at mappings again, even if the last look could not see all of them.
end_scarce() {
	local pid server jobs first holder status
	build_scarce && library first && library second &&
		objcopy --remove-section .note.gnu.build-id second && mapping first second &&
		: > scarce || return 1
	SCARCE=maps LD_PRELOAD="$PWD/hold.so $PWD/scarce.so" "$sframe" run -v -p "$holder" sh -c '
		touch ran
		until [ -e go ]; do sleep 0.1; done' 2> err & pid=$!
	soon test -e ran && touch map1 && soon one_held && touch go &&
		soon grep 'files are converted for the first time' err && touch map2 &&
		soon test -e mapped2 && rm scarce && sleep 2 && kill -CONT "$first" &&
		soon eval "! kill -0 $pid"
	status=$?
	kill -9 "$pid" 2> /dev/null
	kill "$holder"
	rm -f scarce
	wait "$pid" && [ $status = 0 ] && grep '/first: converted' err && ! grep /second err
}

# first_then_second SENTENCE: run with FIRST of $holder mapped, and SECOND once this sentence is
# there for FIRST, until SECOND is converted
first_then_second() {
	export FIRST=$1
	# shellcheck disable=SC2016	# for the inner shell
	timeout 100 "$sframe" run -v -p "$holder" sh -c 'touch map1
		until grep -q "$FIRST" err; do sleep 0.1; done
		touch map2
		until grep -q "/second: converted" err; do sleep 0.1; done' 2> err
	local status=$?
	kill "$holder"
	cat err
	return $status
}

# A file that cannot be converted does not prevent the conversion of another one of the same
# build-id, even if that was mapped before the failure was known.
same_id() {
	local pid server jobs first holder status
	library second && objcopy --remove-section .eh_frame second first &&
		mapping first second && first_then_second '/first: has no .eh_frame' || return 1
	mapping first second || return 1
	# shellcheck disable=SC2016	# for the inner shell
	LD_PRELOAD=$PWD/hold.so "$sframe" run -v -p "$holder" sh -c 'touch ran
		until [ -e go ]; do sleep 0.1; done' 2> err & pid=$!
	soon test -e ran && touch map1 && soon one_held && touch map2 && soon test -e mapped2 &&
		kill -CONT "$first" && soon more_converted
	status=$?
	touch go
	kill "$holder"
	wait "$pid" && [ $status = 0 ]
}

# more_converted: stopped conversions continue; "second" was converted
more_converted() {
	# shellcheck disable=SC2086	# words
	! held || kill -CONT $jobs
	grep '/second: converted' err
}

# Files that have no section make room for one that has.
crowd() {
	local nr
	library second && library first &&
		gcc -O2 -shared -fPIC -Wl,--build-id=none -o none library.c &&
		mkdir -p crowd || return 1
	for nr in $(seq 400); do
		cp none "crowd/$nr" || return 1
	done
	mapping first second crowd/* && first_then_second '/first: converted' &&
		grep 'there are more than 300 files, and some without' err &&
		[ "$(grep -c 'more than' err)" = 1 ]
}

# More files than a session can track: it says so, once, and earlier files have sections.
many_files() {
	local nr lines
	library many && gcc -O2 -shared -fPIC -Wl,--build-id=none -o none library.c &&
		mkdir -p many_files || return 1
	for nr in $(seq 400); do
		cp none "many_files/$nr" || return 1
	done
	mapped many_files/* && ends 0 "there are more than 300 files" -p "$holder" true > log
	kill "$holder"
	lines=$(grep -c 'through .*/many_files/.* has no build-id' err)
	echo "# $lines of 400 files listed"
	[ "$lines" -gt 200 ] && [ "$lines" -lt 300 ] && [ "$(grep -c 'more than' err)" = 1 ]
}

# build_early: a library that reports each file that is synced before the device has one more
# section
build_early() {
	cat > early.c <<-'END_EARLY'
	#include <stdio.h>
	#include <stdlib.h>
	#include <sys/stat.h>
	#include <sys/syscall.h>
	#include <unistd.h>

	int fsync(int fd)
	{
		static off_t before;
		struct stat st;

		if (stat(getenv("SFRAME_DEVICE"), &st) || st.st_size <= before)
			dprintf(2, "early\n");
		dprintf(2, "fsync\n");
		before = st.st_size;
		return syscall(SYS_fsync, fd);
	}
	END_EARLY
	gcc -O2 -shared -fPIC -o early.so early.c
}

# A file's own section that covers few functions is listed, with a build-id or without, because the
# kernel takes no other section then. A section that covers all functions is not listed.
own_section() {
	local name
	printf 'int f%d(int a) { return a + 1; }\n' {1..20} > most.c
	echo 'int main(void) { return 0; }' > little.c
	gcc -w -O0 -c most.c && gcc -O0 -Wa,--gsframe -c little.c &&
		readelf -S little.o | grep -q '\.sframe' ||
		skipped "needs an assembler that knows SFrame" || return
	gcc -o own-little little.o most.o && gcc -Wl,--build-id=none -o own-none little.o most.o &&
		gcc -w -O0 -Wa,--gsframe -o own-all little.c most.c || return 1
	for name in little none all; do
		ends 0 "" -v "./own-$name" && cp err "err-$name" || return 1
	done
	for name in little none; do
		grep -E "/own-$name: it has a section of its own, for [0-9]+ of 2[0-9] functions" \
			"err-$name" || return 1
	done
	! grep 'own-all: ' err-all
}

# A program that was replaced by an upgrade, and for root its libraries as well, have sections.
deleted() {
	local says='through .*/gone (deleted): it is not there any more'
	library gone || return 1
	cat > daemon.c <<-'END_OLD'
	#include <unistd.h>
	int main(void)
	{
		close(open("ready", O_CREAT | O_WRONLY, 0644));
		pause();
	}
	END_OLD
	rm -rf .debug ready
	gcc -include fcntl.h -O2 -o old daemon.c -Wl,--no-as-needed ./gone || return 1
	./old & holder=$!
	soon test -e ready && rm old gone && library gone && cp gone old || return 1
	! opens_mappings || says='/gone (deleted): converted'
	ends 0 "" -v -p "$holder" true
	kill "$holder"
	grep '/old (deleted): converted' err && grep "$says" err
}

# Below /dev are files as well, and not only devices; also when they are mapped later.
below_dev() {
	local shm wrong=0
	library shm && shm=$(mktemp -p /dev/shm sframe.XXXXXX) || return 1
	cp shm "$shm"
	if ! mapped "$shm" /dev/zero; then
		rm "$shm"
		skipped "nothing can be run there"
		return
	fi
	ends 0 "" -v -p "$holder" true && cp err err-before || wrong=1
	kill "$holder"
	rm -rf .debug
	# shellcheck disable=SC2016	# for the inner shell
	SHM=$shm ends 0 "" -v sh -c 'LD_PRELOAD=$SHM sh -c "
		until grep -q \$SHM:.converted err; do sleep 0.1; done"' || wrong=1
	rm "$shm"
	grep "$shm: converted" err-before && ! grep /dev/zero err-before && [ $wrong = 0 ]
}

# A build-id that the kernel does not take is no missing one.
long_id() {
	local name id
	library ids || return 1
	for name in 20 24 32 1; do
		id=$(printf "%0$((2 * name))d" 7)
		gcc -O2 -shared -fPIC -Wl,--build-id=0x"$id" -o "id-$name" library.c || return 1
	done
	mapped id-20 id-24 id-32 id-1 && ends 0 "" -v -p "$holder" true
	kill "$holder"
	grep '/id-20: converted' err || return 1
	for name in 24 32; do
		grep "through .*/id-$name: it has a build-id that is too long" err || return 1
	done
	grep 'through .*/id-1: it has no build-id' err
}

# The kernel has a section before the cache has it on the disk. The kernel gets the cached file,
# unless that would come over the network.
kept() {
	local remote kind
	build_early || return 1
	for remote in '' yes; do
		if [ "$remote" ]; then kind="memory"; else kind="file"; fi
		rm -rf .debug device
		SFRAME_REMOTE=$remote LD_PRELOAD=$PWD/early.so ends 0 "" -v true || return 1
		grep -qx fsync err && ! grep -qx early err || fail "the disk is first" || return 1
		grep -c . device
		! grep -v " $kind\$" device || fail "not all are a $kind" || return 1
		[ "$(find .debug -type f | wc -l)" = "$(grep -cx fsync err)" ] || return 1
		# The next session converts none of these.
		ends 0 "" -v true && ! grep ': converted' err || return 1
	done
}

check "statuses and sentences" statuses
check "without the device" without_device
check "the kernel and the disk" kept
check "said: the kernel uses none" switched_off
check "said: code without words" lossy
check "said: sections that the kernel did not use" unused
check "many sections in the cache" many_cached
check "too many sections in the cache" full_cache
check "too many sections in a cache that hangs" hanging_cache
check "said: another user namespace" other_namespace
check "said: a cache that takes nothing" cache_takes_none
check "said: a cache that others may write" cache_of_others
check "a process, and not the command" command_alone
if [ -n "${IN_NAMESPACE-}" ]; then
	check "said: a file that may not be read" unreadable
else
	skip "said: a file that may not be read" "needs a user namespace"
fi
check "a section of a file's own that says little" own_section
check "build-ids of other lengths" long_id
check "files below /dev" below_dev
check "files that were replaced" deleted
check "signals for run alone" signals_alone
check "signals after one for the witness" signals_stray
check "signals when the witness is stopped" signals_stopped
check "signals when the witness answers too late" signals_late_answer
check "the end when the witness is debugged" signals_held
check "signals at the end when the witness is debugged" signals_held_late
check "signals for the group" signals_group
check "signals for a group that the command has left" signals_away
check "signals that are ignored" signals_ignored
check "signals when the command has ended" signals_late
check "a terminal hangs up" hang_up
check "a terminal hangs up, and the command is in the background" hang_up away
check "a server that is killed" server_dies
check "conversions that are stopped" stopped
check "told to end before the start" ends_before
check "what is mapped during the start" start_bound
check "what is mapped during the end" end_bound
check "what is mapped when the last look saw nothing" end_scarce
check "hostile files" hostile_files
check "many files" many_files
check "many files that have no section" crowd
check "many files that wait" few_open
check "many files that wait, and many CPUs" few_open 0-25
check "many threads" many_threads
check "numbers of CPUs with gaps" sparse_cpus
check "a CPU that comes online" new_cpu
check "a file that is withheld" withheld
check "conversions without descriptors" scarce_jobs
check "files that cannot be opened to be converted" scarce_file
check "files that cannot ever be opened to be converted" scarce_ever
check "sections that the kernel has no room for" scarce_room head -n 1
check "sections of which it has no room for the last" scarce_room tail -n 1
check "processes that cannot be looked at for a while" scarce_scans
check "processes that cannot be looked at ever" scarce_proc
check "a process whose mappings hang" scarce_unread DEAF
check "processes whose mappings take long together" scarce_time
check "a process whose mappings take long" scarce_unread BUSY
check "sections that fill the memory" scarce_memory o 1
check "sections that fill the memory without a cache" scarce_memory u 1 file
check "large sections in the cache" scarce_memory u 0
check "sections larger than the limit of files" scarce_size
check "two files of the same build-id" same_id
check "rights of conversions" rights
check "rights that conversions cannot give up" rights_unfiltered
check "rights of what reads files of others" rights_of_readers
check "rights of others over conversions" rights_of_others
check "a conversion that is traced" job_traced 0.3 ": converted"
check "a conversion that a tracer keeps" job_traced 1000 ": was not converted, as .* traces it"
check "a file that takes too long" spins
check "files that take long together" many_busy
check "a command that maps what others may write" owners_command
check "a command that has mapped what others may write" owners_command_gone
check "a file that a process of several users has mapped" owners_unclaimed
check "a file that others of a user namespace have mapped" owners_inside
check "a file that a user with capabilities has mapped" owners_capable
check "a file that several users have mapped" owners_each
check "a file that a scan finds again, and then for another user" owners_apart
check "a file that a user has mapped by two names" owners_names
check "files that a user has mapped many times" owners_asked
check "a file that too many users have mapped" owners_many
check "a file of a user for whom too many files are open" owners_scarce
check "a file that others may write, at the end" owners_late
check "a file that a group may write" owners_group
check "a file that a list lets others write" owners_acl
check "a file that others may write, and one of the same build-id" owners_command_same_id
check "a file that others may write, and a section that is refused" owners_refused
check "a file that others may write, and all processes" all_of_others
check "what processes run that others may write" owners_running
check "what they run, and takes long" owners_slow
check "a user whose files take long together" owners_time
check "a user with many files" owners_number
check "a user whose sections fill the memory" owners_memory
check "a user who ends what makes sections" owners_killed
check "a user who stops what makes sections" owners_stopped
check "what makes sections for a user" owners_alone
check "a user with more files than are taken at once" deputy_full
check "a user with more files than may be open" deputy_crowded
check "a user whose files have long names" deputy_chatty
check "a user with files of the same build-id" deputy_same_id
check "a user with files of the same build-id, of which one takes for ever" deputy_same_id_spins
if [ -n "${IN_NAMESPACE-}" ] && can_mount -t ramfs none; then
	check "a cache on a disk that is full" cache_full
	check "owners that may be made up" owners
	check "owners for a user who is not root" owners_user
	check "owners for a user who is for all later" owners_later
	check "owners that an overlay shows" owners_overlay
	check "owners in a container" owners_container
	check "owners where files have devices of their own" owners_device
else
	skip "a cache on a disk that is full" "needs a user namespace that may mount"
	skip "owners that may be made up" "needs a user namespace that may mount"
fi
if [ -w /dev/fuse ] && [ -n "${IN_NAMESPACE-}" ] && can_hang > /dev/null 2>&1; then
	check "a file that cannot be opened" hangs dead
	check "a file that cannot be closed" hangs unflushed
	check "a file that cannot be opened, and those of others" hangs_alone
	check "many files that cannot be opened" many_hang
	check "a file that hangs once" hangs_once
	check "a conversion that hangs" hangs_job
	check "a conversion that hangs, and /proc hides it" hidden hangs_job
	check "a conversion that cannot close its file" hangs_job_close
	check "a needed file that cannot be closed" hangs_needed
	check "a cache that hangs" hangs_cache
	check "two files of the same build-id, of which one hangs" same_id_hangs
	check "owners that a server makes up" owners_fuse
	check "owners that an overlay of such a server shows" owners_overlay_fuse
	check "a user with a file that cannot be read" deputy_hangs \
		'is on a file system that does not answer' sleep 40
	check "a user with a file that is not read in time" deputy_hangs \
		'could not be looked at in time' sleep 1
	check "a file that is opened slowly" slow_open
	check "a file that is opened slowly at the start" slow_start
	check "many files that are opened slowly" quick_start
	check "others than a process whose files are opened slowly" slow_turns
	check "a conversion that is slow" slow_job
else
	skip "files that hang" "needs FUSE in a user namespace"
fi

finish
