#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Test stackprof on the running kernel, as root: test.sh DIRECTORY [REGEX]
#
# The directory is where 'make stackprof test' put the programs. Needs perf on PATH, go,
# python3, objcopy and protoc. Results in TAP. With REGEX, only tests whose names match it.
set -u

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=../../../testing/selftests/unwind/lib/tap.sh
. "$here/../../../testing/selftests/unwind/lib/tap.sh"
prof=$bin/stackprof
threads=$bin/threads

# run ARGUMENT...: run stackprof, with its report in out and its messages in err; it must end,
# and its counts must add up
run() {
	local status=0
	timeout --foreground -s KILL 200 "$prof" -o out "$@" > said 2> err || status=$?
	[ $status = 0 ] || { cat err; fail "status $status: stackprof $*"; return 1; }
	balanced
}

# All samples are accounted for.
balanced() {
	awk '/^stackprof: [0-9]+ samples:/ {
		all = $2; sum = $4 + $8 + $12; seen = 1
	}
	/^stackprof: without user stack:/ { sum += $5 + $7 + $9 }
	END { exit !seen || sum != all }' err || { cat err; fail "the books do not balance"; }
}

# count WORD: the number before WORD in the messages of stackprof
count() {
	sed -n "s/.* \([0-9]\+\) $1.*/\1/p" err | head -n 1
}

samples() {
	sed -n 's/^stackprof: \([0-9]*\) samples:.*/\1/p' err
}

# value REGEX FILE: the sum of the folded lines that match
value() {
	awk -v re="$1" '{ n = $NF; sub(/ [0-9]+$/, "") }
		$0 ~ re { sum += n }
		END { print sum + 0 }' "$2"
}

# refuse STATUS REGEX ARGUMENT...: stackprof ends with this status and one sentence
refuse() {
	local wanted=$1 sentence=$2 status
	shift 2
	"$prof" "$@" > out 2> err
	status=$?
	[ "$status" = "$wanted" ] || { cat err; fail "status $status: stackprof $*"; return 1; }
	if [ "$(wc -l < err)" != 1 ] || [ -s out ] || ! grep -qE "^stackprof: .*$sentence" err; then
		cat err out
		fail "not one such sentence: stackprof $*"
	fi
}

bad_options() {
	local wrong=0
	while IFS='|' read -r status sentence arguments; do
		# shellcheck disable=SC2086	# words
		refuse "$status" "$sentence" $arguments || wrong=1
	done <<-'END'
		2|there is no option '-Z'|-Z
		2|there is no option '--nonsense'|--nonsense
		2|lacks its value|--depth
		2|lacks its value|-e
		2|there is no event 'nonsense'|-e nonsense
		2|there is no event 'LLC-misses'|-e LLC-misses
		2|there is no event 'L1-dcache-load'|-e L1-dcache-load
		2|modifiers are u, k|-e cycles:x
		2|up to three p|-e LLC-stores:pppp
		2|there is no PMU 'nonsense'|-e nonsense/config=1/
		2|not a term|-e software/nonsense/
		2|lacks the '/'|-e software/config=1
		2|not a number|-e software/config=x/
		2|is not to be 0|-e software/config=0,period=0/
		2|leave out --freq|-F 9 -e software/config=0,period=1000/
		2|there is no tracepoint|-e sched:nonsense
		2|has no frequency|-e sched:sched_switch -F 9
		2|takes a number|-F 0
		2|takes a number|-F -1
		2|takes a number|-c x
		2|exclude each other|-F 1 -c 1
		2|takes a number|-p x
		2|takes a number|-p 1,
		2|without a command|-p 1 -- true
		1|there is no process|-p 4194304
		2|number of seconds|-d 0
		2|number of seconds|-d 1x
		2|power of two|--ring-size 5
		2|takes a number|--ring-size 0
		2|takes a number|--depth 0
		2|from 1 to 4094|--depth 4095
		1|sysctl kernel.perf_event_max_stack|--depth 4094
		2|takes a number|--top 0
		2|goes without|--off-cpu -F 9
		1|cannot write|-o /nonsense/file -d 1
		1|cannot run 'nonsense'|-- nonsense
		1|cannot sample|-e r1 -d 1
		1|cannot sample|-e L1-dcache-load-misses:upp -d 1
		1|cannot sample|-e node-prefetches:k -d 1
	END
	return $wrong
}

# The BTF of another kernel replaces that of this one.
other_kernel() (
	mount --bind "$bin/other.btf" /sys/kernel/btf/vmlinux || exit 1
	trap 'umount /sys/kernel/btf/vmlinux' EXIT
	refuse 1 'no deferred user stacks for BPF' -d 1
)

# Each thread has its own functions, and hardly any sample lacks its user stack.
spin_stacks() {
	local name
	run -F 499 --folded -- "$threads" spin 4 || return 1
	for name in alpha beta gamma delta; do
		[ "$(value ";thread_$name;outer_$name;inner_$name" out)" -gt 50 ] ||
			{ cat out; fail "no thread $name"; return 1; }
	done
	wrong_stacks || return 1
	[ "$(value '^threads;.*not delivered' out)" -lt $(($(samples) / 50 + 10)) ] ||
		fail "too many user stacks are not delivered"
}

# spins NUMBER: one thread has more samples than this
spins() {
	[ "$(value ';thread_alpha;outer_alpha;inner_alpha' out)" -gt "$1" ] && return
	cat out err
	fail "not more than $1 samples of thread_alpha"
}

# No stack has functions of two threads, or a function without its callers.
wrong_stacks() {
	local of_two='alpha.*(beta|gamma|delta)|beta.*(gamma|delta)|gamma.*(alpha|beta|delta)'

	# The kernel has functions with such names, too.
	! sed 's/[^;]*_\[k\]//g' out | grep -E "$of_two" ||
		{ fail "these mix threads"; return 1; }
	awk -F';' '{
		for (i = 2; i <= NF; i++)
			if ($i ~ /^inner_/ && $(i - 1) !~ /^outer_/) bad = 1
		if (bad) { print; exit 1 }
	}' out || fail "a stack with a gap"
}

# with_perf COMM COMMAND...: run perf and stackprof at once, with a period each. With frequencies,
# each would adapt to a busy machine in its own way, and the shares would differ.
with_perf() {
	local comm=$1 perf
	shift
	perf record -q -a -c 2000003 -e cpu-clock --call-graph deferred --no-sframe \
		-o perf.data sleep 600 &
	perf=$!
	sleep 2
	run -c 1900009 -e cpu-clock --folded -- "$@" || { kill -INT $perf; return 1; }
	kill -INT $perf
	wait $perf
	# shellcheck disable=SC2094	# script is no file that perf reads
	perf script -i perf.data -F comm,ip,sym,dso --no-inline > script || return 1
	"$here/compare.py" perf out script "$comm"
}

# go tool pprof reads the output of --pprof, which has the same samples as that of --folded.
pprof() {
	local tool
	tool=$(go env GOTOOLDIR)/pprof
	run -F 499 --folded --pprof file.pb.gz -- "$threads" spin 2 || return 1
	HOME=$work "$tool" -symbolize=none -raw file.pb.gz > raw 2> err ||
		{ cat err; fail "pprof does not read it"; return 1; }
	"$here/compare.py" pprof out raw || return 1
	grep -qE '^[0-9]+: (0x[0-9a-f]+/){2}0x[0-9a-f]+ .*/threads [0-9a-f]{40}( |$)' raw ||
		{ grep -A 20 '^Mappings' raw; fail "no mapping with build-id"; return 1; }
	grep -qE '^[0-9]+: .*\[kernel.kallsyms\] [0-9a-f]{40}( |$)' raw ||
		{ grep -A 20 '^Mappings' raw; fail "no kernel with build-id"; return 1; }
	HOME=$work "$tool" -symbolize=none -top file.pb.gz > top 2> err || return 1
	grep -q spin top || { cat top; fail "no function spin in -top"; }
}

# Names of threads and files may be any bytes, but strings of a profile must be UTF-8.
strings() {
	cp "$threads" $'b\xc3d' || return 1
	run -F 499 --pprof file.pb.gz -- ./$'b\xc3d' spin 1 || return 1
	gzip -dc file.pb.gz | protoc -I "$here/.." --decode=pprof.Profile profile.proto > decoded ||
		return 1
	[ "$(grep -c '^string_table: .*b\\357\\277\\275d"$' decoded)" = 2 ] ||
		{ grep ^string_table decoded; fail "no name of thread and file"; }
}

# The blocked time is that of the program, in the function that sleeps.
off_cpu() {
	local says blocked
	run --off-cpu --folded -- "$threads" sleep 50 20 || return 1
	says=$(cat said)
	blocked=$(value '^threads;.*;main;do_sleep;sleep_here;.*_\[k\]$' out)
	echo "# slept for $says us, blocked for $blocked us"
	if [ "$blocked" -lt 990000 ] || [ "$blocked" -gt "$says" ]; then
		cat out
		return 1
	fi
}

# A thread that is still blocked at the end is reported, too.
off_cpu_end() {
	"$threads" wait &
	sleep 0.5
	run --off-cpu --folded -p $! -d 2
	kill $!
	[ "$(value 'sleep_here' out)" -gt 500000 ] || { cat out; fail "no sleep_here"; }
}

# Each hit of a tracepoint counts.
tracepoint() {
	run -e syscalls:sys_enter_getppid --folded -- "$threads" calls 1000 || return 1
	[ "$(value '^threads;.*;main;do_calls;call_here;syscall' out)" = 1000 ] ||
		{ cat out err; return 1; }
	run -e syscalls:sys_enter_getppid -c 10 --folded -- "$threads" calls 1000 || return 1
	[ "$(value call_here out)" -ge 90 ] && [ "$(value call_here out)" -le 100 ]
}

# Samples in NMIs.
nmi() {
	run -e "$1" -c 2000000 --folded -- "$threads" spin 2 || return 1
	spins 20 || return 1
	wrong_stacks
}

# The ring fills while the reader is stopped: losses are counted, and other stacks are right.
full_ring() {
	"$prof" -F 4000 --ring-size 4 --stacks 1 --folded -- "$threads" spin 4 > out 2> err &
	sleep 2
	kill -STOP $!
	sleep 1
	kill -CONT $!
	wait $! || return 1
	cat err
	balanced || return 1
	[ "$(count lost)" -gt 10 ] || fail "nothing was lost" || return 1
	grep -q 'larger' err || return 1
	wrong_stacks
}

# Only the ring has room for stacks.
few_stacks() {
	run -F 499 --stacks 1 --folded -- "$threads" spin 2 || return 1
	spins 20 || return 1
	[ "$(count 'without kernel stack')" = 0 ] && wrong_stacks
}

cut_stacks() {
	run -F 499 --depth 2 --folded -- "$threads" spin 2 || return 1
	cat err
	[ "$(count 'samples cut')" -gt 100 ] && grep -q ';\[cut\];inner_alpha;spin ' out
}

# The largest depth.
deep() {
	local max result
	max=$(cat /proc/sys/kernel/perf_event_max_stack)
	echo 5000 > /proc/sys/kernel/perf_event_max_stack
	run -F 499 --depth 4094 --folded -- "$threads" spin 2 && spins 20
	result=$?
	echo "$max" > /proc/sys/kernel/perf_event_max_stack
	return $result
}

# Only one process can be followed, which is the command.
few_tasks() {
	run -F 499 --tasks 1 --folded -- "$threads" die 20 || return 1
	cat err
	[ "$(count 'children missed')" = 20 ]
}

# Children that ended long ago, of a file that was removed.
dead() {
	cp "$threads" gone
	run -e syscalls:sys_enter_getppid --folded -- sh -c './gone die 50; rm gone' || return 1
	cat out err
	[ "$(value '^gone;.*;main;do_die;die_here;syscall' out)" = 50 ]
}

# calls NUMBER NAME: so many calls came from this function of a library
calls() {
	[ "$(value "^threads;.*;main;do_[a-z]*;$2;call_here;syscall" out)" = "$1" ] && return
	cat out err
	fail "not $1 calls from $2"
}

# Libraries that are mapped one after the other at the same address.
swapped() {
	run -e syscalls:sys_enter_getppid --folded -- "$threads" swap 100 \
		"$bin/one.so" "$bin/two.so" "$bin/one.so" || return 1
	[ "$(sort -u said | wc -l)" = 1 ] || { cat said; fail "not at the same place"; return 1; }
	calls 200 one && calls 100 two
}

# Mappings that were lost in a full buffer are found by another look.
lost_mappings() {
	# shellcheck disable=SC2016	# PPID is stackprof
	run -e syscalls:sys_enter_getppid --folded -- sh -c 'exec "$0" "$@" $PPID' \
		"$threads" lose 100 "$bin/one.so" || return 1
	cat err
	[ "$(count 'mappings lost')" -gt 100 ] || fail "nothing was lost" || return 1
	calls 100 one
}

# split LIBRARY: into a library without symbol table, and the debuginfo that it links to
split() {
	objcopy --only-keep-debug "$bin/$1.so" "$1.debug" &&
		objcopy --strip-all --add-gnu-debuglink="$1.debug" "$bin/$1.so" "$1.so"
}

# Debuginfo is found by build-id and by checksum, but not used if these differ.
debuginfo() {
	split one && split two || return 1
	run -e syscalls:sys_enter_getppid --folded -- "$threads" swap 100 ./one.so ./two.so ||
		return 1
	calls 100 one && calls 100 two || return 1
	echo >> two.debug
	cp two.debug one.debug
	run -e syscalls:sys_enter_getppid --folded -- "$threads" swap 100 ./one.so ./two.so ||
		return 1
	calls 0 one && calls 0 two
}

# Debuginfo is a pipe without a writer.
debuginfo_pipe() {
	split one && split two && rm one.debug two.debug && mkfifo one.debug two.debug || return 1
	run -e syscalls:sys_enter_getppid --folded -- "$threads" swap 100 ./one.so ./two.so
}

# A user who truncates a mapped file causes SIGBUS. stackprof looks up all names before it opens
# the profile, which waits for the reader of the pipe.
not_mapped() {
	local mapped tries=0
	cp "$threads" victim
	mkfifo pipe
	"$prof" -F 499 --pprof pipe -- ./victim spin 1 2> err &
	until grep -qE 'wait_for_partner|fifo_open' /proc/$!/wchan; do
		tries=$((tries + 1))
		if [ $tries = 500 ] || ! kill -0 $!; then
			cat err
			fail "it did not wait"
			return 1
		fi
		sleep 0.2
	done
	mapped=$(grep -c victim /proc/$!/maps)
	cat pipe > file.pb.gz
	wait $! || { cat err; return 1; }
	[ "$mapped" = 0 ] || fail "$mapped mappings of a target's file"
}

# The command ignores SIGTERM.
stubborn() {
	# shellcheck disable=SC2016	# the shell's own number
	run -F 499 --folded -d 1 -- sh -c 'trap "" TERM; echo $$; while :; do :; done' || return 1
	[ "$(value '^sh;' out)" -gt 50 ] || { cat out; fail "too few samples"; return 1; }
	sleep 0.5
	! kill -0 "$(cat said)" || fail "it still runs"
}

killed() {
	"$threads" wait &
	(sleep 2; kill -9 $!) &
	run -F 499 --folded -p $! || return 1
	[ "$(wc -l < err)" = 4 ]
}

interrupt() {
	"$prof" -F 499 --folded > out 2> err &
	sleep 4
	kill -INT $!
	wait $! || { cat err; return 1; }
	balanced && [ -s err ]
}

plain() {
	run -F 499 -n 2 -- "$threads" spin 2 || return 1
	cat out
	head -n 1 out | grep -qE '^[0-9]+ samples of cpu-clock, in [0-9]+ different stacks$' &&
		[ "$(grep -cE '^ *[0-9.]+ % +[0-9]+  threads$' out)" = 2 ]
}

# How many stacks were walked since boot.
walks() {
	awk '$1 == "walks" { print $2 }' /sys/kernel/debug/unwind/stats
}

# The man page's advice for users of bpftrace. In an emulator, bpftrace takes a minute to start;
# it finds names only of processes that still run.
bpftrace_path() {
	local perf spin tracer walked

	timeout --foreground -s INT 300 bpftrace -B none -e '
		tracepoint:unwind:user_unwind_stack { @[comm, ustack] = count(); }' > out 2> err &
	tracer=$!
	until grep -q Attaching out || ! kill -0 $tracer 2> /dev/null; do
		sleep 0.2
	done
	perf record -q -a -F 99 -e cpu-clock --call-graph deferred --no-sframe \
		-o /dev/null sleep 600 &
	perf=$!
	"$threads" spin 600 &
	spin=$!
	walked=$(walks)
	until [ "$(walks)" -ge $((walked + 500)) ] || ! kill -0 $perf 2> /dev/null; do
		sleep 0.5
	done
	kill -INT $perf
	wait $perf
	kill -INT $tracer
	wait $tracer
	kill $spin
	cat out err
	grep -q 'outer_alpha+' out
}

check "bad options" bad_options
check "a kernel without deferred user stacks" other_kernel
check "threads have their stacks" spin_stacks
check "plain report" plain
check "top ten as perf's: threads" with_perf threads "$threads" spin 8
check "top ten as perf's: messaging" with_perf sched-messaging \
	perf bench sched messaging -g 2 -l 600
check "pprof" pprof
if command -v protoc > /dev/null; then
	check "pprof: strings" strings
else
	skip "pprof: strings" "no protoc"
fi
check "off CPU: time asleep" off_cpu
check "off CPU: blocked at the end" off_cpu_end
check "tracepoint" tracepoint
if [ -e /sys/bus/event_source/devices/perf_test ]; then
	check "NMI" nmi perf_test/remote/
else
	skip "NMI" "no PMU perf_test"
fi
check "full ring" full_ring
check "no room for stacks" few_stacks
check "cut stacks" cut_stacks
check "deep stacks" deep
check "no room for children" few_tasks
check "processes and files that are gone" dead
check "files: one in the place of another" swapped
check "files: lost mappings" lost_mappings
check "files: separate debuginfo" debuginfo
check "files: a pipe for debuginfo" debuginfo_pipe
check "files: not mapped" not_mapped
check "the target is killed" killed
check "the command ignores SIGTERM" stubborn
check "interrupt" interrupt
if command -v bpftrace > /dev/null; then
	check "bpftrace hears of deliveries" bpftrace_path
else
	skip "bpftrace hears of deliveries" "no bpftrace"
fi
finish
