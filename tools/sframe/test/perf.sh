#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Test what perf record --call-graph deferred does by itself for files without an SFrame
# section, on a kernel that takes sections: perf.sh DIRECTORY [REGEX]
#
# Arguments, needs and results are those of run.sh.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

sections=$work/.debug/.sframe/2

# recorded FILE ARGUMENT...: record, with the messages of perf in err
recorded() {
	"${record[@]}" "$@" > log 2> err < /dev/null || { cat log err; return 1; }
}

made() {
	find "$sections" -type f 2> /dev/null | wc -l
}

# stock COMMAND...: nearly all stacks are complete once sections are there, few without;
# print what the first recording says about sections
stock() {
	local former
	recorded first -- "$@" && share first || return 1
	sed -n '/stacks may be/,$p' err
	former=$(made)
	[ "$former" -gt 0 ] || { fail "no sections"; return 1; }
	recorded warm -- "$@" && whole warm || return 1
	[ "$(made)" = "$former" ] || { fail "sections are made again"; return 1; }
	! grep 'it had no section' err || { fail "something is late when all is there"; return 1; }
	recorded without --no-sframe -- "$@" && stacks_end without
}

# A file that is mapped before its section is there is named, with its share of samples. It is
# not named if the section is there in time.
late() {
	local line
	rm -rf "$sections"
	recorded late -- sh -c 'exec python3 -c "for i in range(4000000): pass"' ||
		return 1
	cat err
	line=$(grep '/python3[^ ]*: it had no section for its first [0-9.]* s$' err) || return 1
	read -r in cut _ <<< "$line"
	share late
	# The file has most samples; others that are not complete are of the shell, or in a library.
	awk -v in_all="${in%\%}" -v cut="${cut%\%}" -v samples="$samples" -v bad="$incomplete" \
		'BEGIN { exit !(in_all > 70 && cut > 0 && cut * samples / 100 <= bad + 0.5) }' ||
		{ fail "$in, $cut of $samples samples, $incomplete incomplete"; return 1; }
	recorded late -- sh -c 'exec python3 -c "for i in range(1000000): pass"' &&
		! grep 'may be incomplete' err || return 1
	# perf does not read a pipe again, but names the file.
	rm -rf "$sections"
	"${record[@]}" - -- sh -c 'exec python3 -c "for i in range(4000000): pass"' 2> err > pipe ||
		return 1
	grep '^/.*/python3[^ ]*: it had no section for its first [0-9.]* s$' err ||
		{ cat err; return 1; }
}

# shared FILE REGEX [PERCENT]: a line gives this file more of the samples than so many percent
shared() {
	awk -v file="$1" -v why="$2" -v least="${3-70}" '
		$3 ~ file ":$" && $0 ~ why && $1 + 0 > least { found = 1 }
		END { exit !found }' err || { cat err; fail "$1 has no such line"; }
}

named() {
	build_named && cp named-eh $'named\e[1m\n' || return 1
	recorded named ./named-eh && shared /named-eh 'it has no .eh_frame$' &&
		recorded named ./named-id && shared /named-id 'it has no build-id$' || return 1
	recorded named ./$'named\e[1m\n' && shared '/named\?.1m\?' 'it has no .eh_frame$' &&
		! grep -q $'\e' err || return 1
	recorded named sh -c './named-id & ./named-eh; wait' && shared /named-eh . 20 &&
		shared /named-id . 20 || return 1
	# perf does not read a pipe again; with -q or --no-sframe, it names no files.
	"${record[@]}" - ./named-eh 2> err > pipe || return 1
	grep -qE '^/.*/named-eh: it has no .eh_frame$' err || { cat err; return 1; }
	recorded named -q ./named-eh || return 1
	[ ! -s err ] || { cat err; return 1; }
	recorded named --no-sframe ./named-eh && ! grep 'may be incomplete' err
}

off() {
	rm -rf "$sections"
	recorded off --no-sframe perl -e "sub f { $spin } f() for 1..20" 20000 && stacks_end off &&
		[ "$(made)" = 0 ] || return 1
	printf '[record]\n\tsframe = false\n' > config
	PERF_CONFIG=$PWD/config recorded off perl -e "sub f { $spin } f() for 1..20" 20000 &&
		stacks_end off && [ "$(made)" = 0 ] || return 1
	"${record[@]}" off --call-graph fp true > log 2>&1 && [ "$(made)" = 0 ]
}

# perf does not read each recording again for code that a section cannot describe.
lossy() {
	cat > words.c <<-'END'
	__asm__(".text\n.globl lossy\n.type lossy, @function\nlossy:\n.cfi_startproc\nnop\n"
		".cfi_escape 0x0f, 5, 0x77, 8, 0x76, 0, 0x22\n.skip 1999, 0x90\nret\n"
		".cfi_endproc\n.size lossy, . - lossy\n");
	int main(void) { for (volatile long i = 0; i < 100000000; i++); }
	END
	gcc -O2 -o lossy words.c && recorded words ./lossy && ! grep 'Counting' err &&
		recorded words ./lossy && ! grep 'Counting' err || return 1
	# A cache without attributes does not tell what was lost before.
	rm -rf "$sections"
	recorded words -v ./lossy && grep 'Counting' err
}

# A kernel that takes no sections, and a cache that cannot be created.
without() {
	# shellcheck disable=SC2016	# for the inner shell
	unshare -m sh -c 'mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && exec "$@"' \
		sh "${record[@]}" without true > log 2> err < /dev/null || { cat err; return 1; }
	cat err
	[ "$(grep -ic sframe err)" = 1 ] &&
		grep 'WARNING: .* there is no /dev/unwind_sframe:' err || return 1
	: > file
	perf --buildid-dir "$PWD/file" "${record[@]:1}" without \
		perl -e "sub f { $spin } f() for 1..20" 20000 > log 2> err ||
		{ cat log err; return 1; }
	grep 'sframe: nothing is kept .*/file: Not a directory' err ||
		{ fail "nothing is said of the cache"; return 1; }
	whole without
}

# A running process, a running thread, several processes, and all.
running() {
	local one two
	perl -e "sub f { $spin } f() while 1" 20000 & one=$!
	python3 -c 'while True: sorted(range(1000), key=lambda x: -x)' & two=$!
	recorded pid -p $one sleep 2 && whole pid &&
		recorded tid -t $two sleep 2 && whole tid &&
		recorded both -p $one,$two sleep 3 && whole both &&
		recorded all -a sleep 3 && whole all --comms perl,python3,sleep,perf,sframe
	local status=$?
	kill $one $two
	wait $one $two 2> /dev/null
	return $status
}

somebody() {
	local file
	for file in first warm; do
		as_somebody "${record[@]}" "somebody/$file" -- \
			perl -e "sub f { $spin } f() for 1..30" 20000 > log 2> err < /dev/null ||
			{ cat log err; return 1; }
	done
	[ -d somebody/.debug/.sframe ] && whole somebody/warm
}

# Where users may not see the kernel, as most distributions have it.
of_user_code() {
	PARANOID=2 as_somebody "${record[@]}" somebody/user -- \
		perl -e "sub f { $spin } f() for 1..30" 20000 > log 2> err < /dev/null ||
		{ cat log err; return 1; }
	cat err
	perf evlist -v -f -i somebody/user | grep -q "exclude_kernel: 1" && whole somebody/user
}

# with_caps CAPS FILE ARGUMENT...: record as a user with these capabilities
with_caps() {
	local caps=$1 file=$2
	shift 2
	mkdir -p perfmon && chmod 777 perfmon || return 1
	HOME=$PWD/perfmon setpriv --reuid 12345 --regid 12345 --clear-groups \
		--inh-caps "$caps" --ambient-caps "$caps" "${record[@]}" "perfmon/$file" "$@" \
		> log 2> err < /dev/null || { cat log err; return 1; }
	cat err
}

# A user with CAP_PERFMON, whose sections are for all tasks, and own ones among them.
perfmon() {
	with_caps +perfmon data -- perl -e "sub f { $spin } f() for 1..30" 20000 &&
		[ -d perfmon/.debug/.sframe ] && whole perfmon/data
}

# But such a user has no section of what only others may trust: to see whether they map it takes
# more, and to become others is root's. For own processes there is one.
perfmon_others() {
	local seen=+perfmon,+sys_ptrace more=+dac_read_search pid status=0
	# A section of perl would serve for the copy.
	rm -rf perfmon
	cp "$(readlink -f "$(type -p perl)")" theirs && chown 12346 theirs || return 1
	setpriv --reuid 12346 --regid 12346 --clear-groups \
		./theirs -e "sub f { $spin } f() while 1" 20000 & pid=$!
	with_caps $seen others -p $pid sleep 3 &&
		grep '/theirs: it belongs to somebody else, and nobody known has it mapped' err &&
		with_caps $seen,$more others -p $pid sleep 3 &&
		grep '/theirs: it is for user 12346 alone, as only root makes' err || status=1
	kill $pid
	wait $pid 2> /dev/null
	[ $status = 0 ] || return 1
	setpriv --reuid 12345 --regid 12345 --clear-groups \
		./theirs -e "sub f { $spin } f() while 1" 20000 & pid=$!
	with_caps +perfmon own -p $pid sleep 3 || status=1
	kill $pid
	wait $pid 2> /dev/null
	[ $status = 0 ] && whole perfmon/own
}

# With -N nothing is kept, and what was kept before is used.
kept() {
	local record=("${record[@]}")
	rm -rf "$work/.debug"
	recorded kept -N "${perl[@]}" && whole kept && [ ! -e "$work/.debug" ] || return 1
	recorded kept "${perl[@]}" && whole kept && [ "$(made)" -gt 0 ] || return 1
	recorded kept -N -v "${perl[@]}" && whole kept && grep 'of which 0 were made now' err ||
		return 1
	# Several files of data are no reason to keep nothing; with -B it would not matter.
	record=("${record[@]:0:2}" "${record[@]:3}")
	rm -rf "$sections" several*
	recorded several --switch-output=10m "${perl[@]}" && [ "$(made)" -gt 0 ] || return 1
	rm -rf "$sections"
	recorded several --switch-output=10m -N "${perl[@]}" && [ "$(made)" = 0 ]
}

# ended STATUS COMMAND...: perf ends with this status
ended() {
	local wanted=$1 status
	shift
	"${record[@]}" status "$@" > log 2>&1 < /dev/null
	status=$?
	[ $status = "$wanted" ] || { cat log; fail "status $status instead of $wanted: $*"; }
}

# perf ends with the command's status, and takes no signal for another.
statuses() {
	ended 3 sh -c 'exit 3' && ended 4 sh -c 'sleep 1 & wait; exit 4' &&
		ended 255 no-such-program-at-all || return 1
	grep "'no-such-program-at-all' workload: No such file" log || { cat log; return 1; }
}

# gone: no process that makes sections is left
gone() {
	soon eval '! pgrep -x sframe'
}

# build_hold: a library with which conversions never end; HOLD is their state until then. With
# HOLD=C counting never ends, but a limit of its CPU time is a second
build_hold() {
	cat > hold.c <<-'END'
	#define _GNU_SOURCE
	#include <signal.h>
	#include <stdlib.h>
	#include <string.h>
	#include <sys/prctl.h>
	#include <sys/syscall.h>
	#include <sys/resource.h>
	#include <unistd.h>

	static int counts(int resource)
	{
		const struct rlimit second = { 1, 2 };
		char name[16];

		if (*getenv("HOLD") != 'C')
			return 0;
		prctl(PR_GET_NAME, name);
		while (resource == RLIMIT_CPU && !strcmp(name, "perf"))
			syscall(SYS_setrlimit, resource, &second);
		return 1;
	}

	/* It is the first that is done for a conversion. */
	int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
	{
		if (counts(resource))
			return syscall(SYS_setrlimit, resource, limit);
		while (resource == RLIMIT_CPU && *getenv("HOLD") == 'R')
			;
		if (resource == RLIMIT_CPU)
			raise(SIGSTOP);
		return syscall(SYS_setrlimit, resource, limit);
	}

	/* What perf calls. */
	int setrlimit64(__rlimit_resource_t resource, const struct rlimit64 *limit)
	{
		counts(resource);
		return syscall(SYS_setrlimit, resource, limit);
	}
	END
	gcc -O2 -shared -fPIC -o hold.so hold.c
}

# held STATE: a conversion has begun, and is in this state
held() {
	pgrep -r "$1" -P "$(pgrep -o -x sframe)"
}

# A killed perf leaves nothing behind, and perf goes on when its server is killed.
killed() {
	local pid command
	"${record[@]}" killed -a sleep 98765 > log 2>&1 & pid=$!
	soon pgrep -P $pid -x sleep && pgrep -P $pid -x sframe || return 1
	command=$(pgrep -P $pid -x sleep)
	kill -9 $pid
	wait $pid 2> /dev/null
	kill "$command"
	gone || return 1

	# shellcheck disable=SC2016	# for the inner shell
	"${record[@]}" killed sh -c 'kill -9 $(pgrep -P $PPID -x sframe); exit 5' > log 2>&1
	[ $? = 5 ] || { cat log; return 1; }
	grep 'WARNING: .* has ended too early' log
}

# timeout(1) signals all processes of a group, as this does, but only perf acts on that.
timed() {
	build_named || return 1
	setsid -w "${record[@]}" timed sh -c './named-eh; kill 0; sleep 1000' > log 2> err
	# The shell that starts it takes some, too, the more the busier the machine is.
	shared /named-eh 'it has no .eh_frame$' 30
}

# An interrupted perf does not wait for conversions, be they busy or stopped; nor does one that
# may not record. After a later failure, perf reports that failure alone.
impatient() {
	local hold=(env "LD_PRELOAD=$PWD/hold.so") pid
	build_hold || return 1
	for HOLD in T R; do
		export HOLD
		rm -rf "$sections"
		"${hold[@]}" "${record[@]}" interrupted touch ran > log 2>&1 & pid=$!
		soon held $HOLD || { cat log; return 1; }
		kill -INT $pid
		wait $pid
		[ $? = 130 ] || { cat log; fail "it has not ended by the signal"; return 1; }
		cat log
		gone && [ "$(made)" = 0 ] || return 1
		[ ! -e ran ] || { fail "the command has run"; return 1; }
	done
	! as_somebody timeout -k 5 100 "${hold[@]}" "${record[@]}" somebody/failed -C 0 true \
		> log 2>&1 || return 1
	cat log
	! grep -i sframe log || return 1
	! as_somebody "${record[@]}" somebody/failed -r 10 true > log 2>&1 || return 1
	cat log
	grep 'realtime priority' log && ! grep -i incomplete log
}

# What other tasks do while the first sections are made is not recorded: it would fill the buffers,
# which nobody reads then. Their files are known all the same.
meantime() {
	local pid busy status
	build_hold || return 1
	rm -rf "$sections"
	HOLD=T LD_PRELOAD=$PWD/hold.so "${record[@]}" meantime -a sleep 2 > log 2> err < /dev/null &
	pid=$!
	soon held T || { cat log err; return 1; }
	for _ in $(seq 200); do
		/bin/true
	done
	perl -e "sub f { $spin } f() while 1" 20000 & busy=$!
	soon grep -x perl /proc/$busy/comm || { kill $busy $pid; return 1; }
	# Each conversion stops at its start.
	while kill -0 $pid 2> /dev/null; do
		pkill -CONT -P "$(pgrep -o -x sframe)"
		sleep 0.3
	done
	wait $pid
	status=$?
	kill $busy
	wait $busy 2> /dev/null
	cat err
	[ $status = 0 ] || return 1
	perf script -i meantime --show-task-events > events || return 1
	[ "$(grep -c PERF_RECORD_EXIT events)" -lt 150 ] ||
		{ fail "$(grep -c PERF_RECORD_EXIT events) tasks have ended"; return 1; }
	# Its own section need not be there in time.
	perf report -i meantime --stdio --comms perl -s dso 2> /dev/null |
		awk '{ print } $NF == "perl" && $1 + 0 > 20 { found = 1 } END { exit !found }'
}

# If another user may have chosen a file's build-id, its section is not for others, nor kept.
of_others() {
	local id pid
	cp "$(readlink -f "$(type -p perl)")" theirs && chown 12345 theirs && rm -rf "$sections" &&
		id=$(readelf -n theirs | sed -n 's/.*Build ID: //p') || return 1
	recorded of-theirs ./theirs -e "sub f { $spin } f() for 1..30" 20000 && whole of-theirs &&
		[ "$(made)" != 0 ] && [ ! -e "$sections/${id:0:2}/${id:2}" ] || return 1
	recorded of-theirs -a ./theirs -e "sub f { $spin } f() for 1..30" 20000 &&
		whole of-theirs --comms theirs || return 1
	setpriv --reuid 12345 --regid 12345 --clear-groups \
		./theirs -e "sub f { $spin } f() while 1" 20000 & pid=$!
	recorded of-running -p $pid sleep 3
	kill $pid
	wait $pid 2> /dev/null
	whole of-running || return 1
	# If root's command becomes another user, only that user gets the section, with a delay.
	recorded of-user setpriv --reuid 12345 --regid 12345 --clear-groups \
		./theirs -e "sub f { $spin } f() for 1..30" 20000 && share of-user || return 1
	cat err
	[ "$per_mille" -ge 700 ] && ! grep '/theirs: it belongs to somebody else' err || return 1
	# A user without privileges uses such a section for own tasks only.
	cp theirs others && chown 12346 others && chmod 755 others || return 1
	setpriv --reuid 12345 --regid 12345 --clear-groups \
		./others -e "sub f { $spin } f() while 1" 20000 & pid=$!
	as_somebody "${record[@]}" somebody/others -p $pid sleep 3 > log 2> err
	kill $pid
	wait $pid 2> /dev/null
	cat err
	whole somebody/others
}

# What makes sections for another user has nothing that this user could get at, and ends with what
# it works for, even if the user has stopped it.
# shellcheck disable=SC2016	# eval expands it
reach() {
	local pid perf deputy somebody=(setpriv --reuid 12345 --regid 12345 --clear-groups) status=0
	cp "$(readlink -f "$(type -p perl)")" theirs && chown 12345 theirs || return 1
	"${somebody[@]}" ./theirs -e "sub f { $spin } f() while 1" 20000 & pid=$!
	"${record[@]}" reach -p $pid sleep 60 > log 2> err & perf=$!
	# Its conversions have its name, and it is their parent.
	soon eval 'deputy=$(pgrep -o -u 12345 -x sframe)' || status=1
	! "${somebody[@]}" cat "/proc/$deputy/environ" > seen 2> refused || status=1
	! "${somebody[@]}" ls "/proc/$deputy/fd" > seen 2> refused || status=1
	grep -E "^Cap(Prm|Eff|Amb):" "/proc/$deputy/status" > caps
	[ "$(grep -c ':.0*$' caps)" = 3 ] || status=1
	"${somebody[@]}" kill -STOP "$deputy" || status=1
	kill -9 "$(ps -o ppid= "$deputy" | tr -d ' ')"
	soon eval '! grep -qs "^State:.[^XZ]" "/proc/$deputy/status"' || status=1
	kill $perf $pid
	wait $perf $pid 2> /dev/null
	cat refused err
	return $status
}

# Root of a container may be another user, too: others make sections of their own.
of_container() {
	local pid id
	id=$(readelf -n "$(readlink -f "$(type -p perl)")" | sed -n 's/.*Build ID: //p')
	# complete.py finds this copy by the name of the program in the container.
	rm -rf "$sections" && mkdir -p inside &&
		cp "$(readlink -f "$(type -p perl)")" inside || return 1
	# shellcheck disable=SC2016	# for the inner shell
	unshare -m bash -c 'mount -t tmpfs none inside && cp "$(readlink -f "$(type -p perl)")" \
		inside/perl && exec inside/perl "$@"' bash -e "sub f { $spin } f() while 1" 20000 &
	pid=$!
	soon grep -q inside/perl /proc/$pid/maps && recorded container -p $pid sleep 3
	kill $pid
	wait $pid 2> /dev/null
	whole container && [ "$(made)" != 0 ] && [ ! -e "$sections/${id:0:2}/${id:2}" ]
}

# Files may have symbols that take any time to read: the list comes all the same.
endless_count() {
	build_hold && build_named || return 1
	HOLD=C LD_PRELOAD=$PWD/hold.so recorded endless ./named-eh && cat err &&
		grep 'WARNING: .* could not be counted' err &&
		grep -E '^/.*/named-eh: it has no .eh_frame$' err
}

# Ctrl-Z in a terminal is for perf and the command: perf would take the end or the stop of another
# child for that of the command.
stopped() {
	# timeout(1) makes an own group, as job control does: no other processes stop.
	# shellcheck disable=SC2016	# for the inner shell
	timeout -k 5 100 "${record[@]}" stopped \
		sh -c 'kill -TSTP $(pgrep -P $PPID -x sframe); exec perl "$@"' \
		sh -e "sub f { $spin } f() for 1..30" 20000 > log 2> err < /dev/null ||
		{ cat log err; return 1; }
	share stopped --comms perl
}

perl=(perl -e "sub f { $spin } f() for 1..30" 20000)
check "perl" stock "${perl[@]}"
check "python3" stock python3 -c 'import json
for i in range(250):
	json.loads(json.dumps({str(i): [i] * 5 for i in range(200)}))'
check "sort" stock sort -n numbers -o sorted numbers
check "xz with threads" stock xz -0 -kf -T2 --block-size=100k numbers
if command -v git > /dev/null; then
	mkdir one two
	for i in $(seq 400); do
		seq "$i" $((i + 50)) > "one/$i"
		seq "$i" 2 $((i + 100)) > "two/$i"
	done
	check "git" stock sh -c 'git diff --no-index --stat --patience one two || :'
else
	skip "git" "needs git"
fi
if command -v gcc > /dev/null && command -v objcopy > /dev/null; then
	for i in $(seq 40); do
		echo "int f$i(int a) { int s = 0; for (int i = 0; i < a; i++) s += a; return s; }"
	done > a.c
	check "the compiler" stock gcc -O2 -c -o a.o a.c
	check "what is missed is named" named
	check "code without words" lossy
else
	skip "the compiler" "needs gcc and binutils"
	skip "what is missed is named" "needs gcc and binutils"
	skip "code without words" "needs gcc and binutils"
fi
check "many processes" stock "${processes[@]}"
check "threads of python3" stock python3 -c 'import threading
def f():
	for i in range(20): sorted(range(1000), key=lambda x: -x)
t = [threading.Thread(target=f) for i in range(4)]
[x.start() for x in t]; [x.join() for x in t]'
check "what is late is named" late
check "opt out" off
check "without the device, without a cache" without
check "processes that run" running
check "somebody without privileges" somebody
check "somebody who may not see the kernel" of_user_code
check "somebody with CAP_PERFMON" perfmon
check "somebody with CAP_PERFMON, and files of others" perfmon_others
check "nothing is kept" kept
check "statuses" statuses
check "files of somebody else" of_others
check "what makes sections for somebody else" reach
check "files of a container" of_container
check "stopped by a terminal" stopped
check "killed" killed
if command -v gcc > /dev/null; then
	check "told to stop by a group" timed
	check "impatient" impatient
	check "in the meantime" meantime
	check "counting that does not end" endless_count
else
	skip "told to stop by a group" "needs gcc"
	skip "impatient" "needs gcc"
	skip "in the meantime" "needs gcc"
	skip "counting that does not end" "needs gcc"
fi

finish
