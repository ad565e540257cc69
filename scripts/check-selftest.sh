#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Test what a whole check does, as TAP: which parts the gate has and how it runs them, what it
# says first and on its way, and what it does on a full disk and beside another check. The
# guests and the host's parts are fakes, and so no part needs a kernel. parts-selftest.sh tests
# single parts.
# shellcheck source-path=SCRIPTDIR disable=SC2016,SC2034	# make expands it; parts.sh
set -u

here=$(cd "$(dirname "$0")" && pwd)
top=${here%/*}
# shellcheck source=../tools/testing/selftests/unwind/qemu/expect.sh
. "$top/tools/testing/selftests/unwind/qemu/expect.sh"

# fake FILE: make a program of standard input
fake() {
	mkdir -p "$(dirname "$1")"
	cat > "$1"
	chmod +x "$1"
}

install=$tmp/none
parts=

# run_some: run the parts that the words queue, and count them; the output goes to checked
run_some() {
	(dir=$tmp/check && . "$here/parts.sh" && "$@" && run_parts; summary) \
		> "$tmp/checked" 2>&1
}

# The first part ends after two seconds, the second one when the check has said so.
two_parts() {
	SECONDS=754
	part plain-a sh -c "sleep 2; echo ok 1 a"
	part plain-b timeout 60 sh -c \
		"until grep -q 'plain-a: 1 passed' $tmp/checked; do sleep 0.1; done; echo ok 1 b"
}

# progress: a check must say the time, how many of the parts are over, when one starts, and which
# parts run, since when
progress() {
	local said
	rm -rf "$tmp/check"
	run_some two_parts
	said=$(sed -nE 's/12:(3[5-9]|[45].)|1[345]:../12:34/; /^check:/p' "$tmp/checked" |
		sed -E 's/ [0-9]+ s/ 2 s/; s/\([0-9]+ s\)/(1 s)/')
	printf '%s\n' \
		"check: 12:34 [ 0/2] plain-a starts" "check: 12:34 [ 0/2] plain-b starts" \
		"check: 12:34 [ 1/2] plain-a: 1 passed, 0 failed, 2 s; running: plain-b (1 s)" \
		"check: 12:34 [ 2/2] plain-b: 1 passed, 0 failed, 2 s" | diff - <(echo "$said")
}

expect 0 "parts: what is over and what runs is said" progress

# The disk of the check has FREE MB free, and that of the guests FREE_GUESTS MB.
fake "$tmp/bin/df" <<END
#!/bin/sh
[ "\$2" = "${TMPDIR:-/tmp}" ] && free=\$FREE_GUESTS || free=\$FREE
printf 'f\nf 0 0 %s\n' "\${free:-9999}"
END
PATH=$tmp/bin:$PATH

# A full disk loses the count of one part, and lets the guest of another one not start.
disk_parts() {
	once=1
	part plain-lost sh -c "ln -s /none/count $tmp/check/plain-lost; echo ok 1 a"
	part plain-unable sh -c "echo vm: cannot run: no space >&2; exit 125"
}

# A test fails for some reason, which is perhaps a full disk.
bad_part() {
	once=1
	part plain-bad sh -c "echo not ok 1 a"
}

# full_disk FREE FREE_GUESTS: print what a check says on disks with so many MB, but no logs
full_disk() {
	rm -rf "$tmp/check"
	FREE=$1 FREE_GUESTS=$2 run_some disk_parts
	grep -E '^FAILED|is full|[0-9] failed$' "$tmp/checked" | sort
}

# told_full: a full disk must be said, but no other one, and a part must count once
told_full() {
	local want
	want="0 passed, 2 failed
FAILED plain-lost: its results could not be counted
FAILED plain-unable: cannot run: no space"
	full_disk 50 50 | diff - <(echo "$want") &&
		full_disk 49 50 | diff - <(echo "$want
check: the disk of $tmp/check is full" | sort) &&
		full_disk 50 49 | diff - <(echo "$want
check: the disk of ${TMPDIR:-/tmp} is full" | sort) &&
		! FREE_GUESTS=49 run_some bad_part &&
		grep -qx "check: the disk of ${TMPDIR:-/tmp} is full" "$tmp/checked"
}

expect 0 "parts: a disk that gets full counts once" told_full

# A repository whose guests and host's parts are fakes, which write down how they are run
scripts=$tmp/repo/scripts
qemu=$tmp/repo/tools/testing/selftests/unwind/qemu
unwind=$tmp/linux/tools/testing/selftests/unwind
mkdir -p "$scripts"
for file in check.sh parts.sh results.py expected-skips alone.sh; do
	ln -s "$here/$file" "$scripts"
done
fake "$qemu/vm.sh" <<END
#!/bin/sh
[ ! -e $tmp/hang ] || { sleep 1020 & echo \$! > $tmp/started; wait; }
echo "ok 1 guest" | tee "\$LOG/console.log"
emulator="\$VM_CPU \$APPEND \$ACCEL \${SINGLESTEP:+SINGLESTEP} \$ICOUNT"
echo "\${LOG##*/} \$MEM \$TIMEOUT\${LEAK:+ LEAK}\${CHECK:+ CHECK} \$3 \$emulator" >> $tmp/ran
END
for file in "$qemu/selftest.sh" "$scripts"/{,check-,parts-}selftest.sh \
	"$scripts"/{lint,other-archs}.sh "$unwind/fuzz/fuzz.sh"; do
	fake "$file" <<END
#!/bin/sh
echo "ok 1 host"
echo "\$0 \$*" >> $tmp/ran
END
done
for program in core/storm core/core_probe walk/hostile_stack walk/oracle walk/oracle_sframe \
	walk/sframe_damage perf/delivery perf/nmi bpf/bpf_stack bpf/bpf_unwind; do
	mkdir -p "$unwind/${program%/*}"
	: > "$unwind/$program.c"
	echo "unwind:${program#*/}"
done > "$tmp/programs"
printf 'install:\n\tcp %s $(INSTALL_PATH)/kselftest-list.txt\n' "$tmp/programs" \
	> "$unwind/../Makefile"

for tool in bpf/stackprof sframe testing/selftests/unwind/go; do
	mkdir -p "$tmp/linux/tools/$tool"
	printf 'all test:;\n' > "$tmp/linux/tools/$tool/Makefile"
done
for file in test.sh session.sh sessions.sh; do
	fake "$tmp/linux/tools/sframe/test/$file" <<END
#!/bin/sh
echo "ok 1 host"
echo "\$0 \$* \${UNWIND_NAMES:+NAMES=\$UNWIND_NAMES}" >> $tmp/ran
END
done

fake "$tmp/bin/perf" <<'END'
#!/bin/sh
case $3 in
"a hang") exec sleep 90 ;;
"a kill") kill -9 $$ ;;
"a skip") echo " 1: a skip : Skip" ;;
"a test") echo " 1: a test : Ok" ;;
esac
END

# check TIER KERNEL...: run a check with fakes
check() {
	rm -f "$tmp/ran"
	env BUILD="$tmp/build" LINUX="$tmp/linux" PERF_BIN="$tmp/bin" LINT="$scripts/lint.sh" \
		UNWIND_SEED=7 "$scripts/check.sh" "$@" > "$tmp/checked" 2>&1
}

# ran: print how the parts ran, without what is the same for all
ran() {
	sed 's,[^ ]*/,,g; s/ UNWIND_SEED=7//; s/UNWIND_//g' "$tmp/ran" |
		sed 's/ sh guest-check.sh//; s/ kselftest kselftest/ kselftest/' | tr -s ' ' |
		sed 's/ $//'
}

# gate: make check must run these parts, with these programs, limits and variables
gate() {
	local plain="1G 1200 CHECK TIMEOUT=600 SECONDS=5 STORM_NMI=10000"
	local debug="1G 1200 LEAK CHECK TIMEOUT=600 SECONDS=5 STORM_NMI=2000"
	local sframe=${here%/*}/tools/sframe/test
	local fast=rcupdate.rcu_expedited=1
	local exit="ftrace ftrace install $fast kunit.enable=1"
	local names='NAMES=\^\(perl\|somebody\ without\ privileges\|what\ makes\ .\*\)\$'
	local quick="NAMES=^(bad|damaged|hostile|install: [^l]|PLT|real|wrong|"
	quick+="same as libdw.*(bash|git|ld-linux|libc|libstdc|perl|python))"
	local sessions="NAMES=^(files that were replaced|said: a cache that takes|statuses|"
	sessions+="what is mapped during|a file that others may write, and all)"
	[ "$(grep -cE '^check "(perl|somebody without privileges|what makes .*)"' \
		"$sframe/perf.sh")" = 3 ] &&
		[ "$(grep -cE "^check \"${sessions#*^}" "$sframe/session.sh")" = 6 ] &&
		check gate debug plain &&
		[ "$(tail -n 1 "$tmp/checked")" = "20 passed, 0 failed" ] &&
		ran | sort | diff - <(sort <<-END
		debug-kselftest-walk $debug kselftest hostile_stack $fast
		debug-kselftest-core $debug kselftest storm delivery $fast
		debug-kselftest-sframe $debug kselftest sframe_damage bpf_stack $fast
		debug-ftrace-kunit ${debug% SEC*} FTRACE=exit.tc $exit
		lint.sh
		plain-kselftest-walk $plain kselftest hostile_stack oracle $fast
		plain-perf-deferred $plain perf perf-tests.deferred $fast
		plain-ftrace $plain ftrace ftrace install $fast
		plain-kselftest-perf $plain kselftest delivery nmi $fast
		plain-kselftest-sframe $plain kselftest oracle_sframe sframe_damage $fast
		plain-kselftest-bpf $plain kselftest bpf_stack bpf_unwind $fast
		plain-kselftest-core $plain kselftest storm core_probe $fast
		fuzz.sh replay linux fuzz
		fuzz.sh sframe-replay linux fuzz
		test.sh sframe $quick
		session.sh sframe $sessions
		plain-record ${plain% SEC*} $names record sframe sframe $fast
		selftest.sh
		plain-kunit $plain kunit $fast kunit.enable=1
		END
		)
}

expect 0 "check: the gate's parts, and how they are run" gate

# all: make check-all must run these parts
all() {
	local plain="1G 1200 CHECK TIMEOUT=600 SECONDS=5 STORM_NMI=10000"
	local debug="2G 2400 LEAK CHECK TIMEOUT=1200 SECONDS=30 STORM_NMI=20000"
	local ftrace="ftrace ftrace install rcupdate.rcu_expedited=1"
	check all debug plain && [ "$(tail -n 1 "$tmp/checked")" = "34 passed, 0 failed" ] &&
		ran | sort | diff - <(sort <<-END
		debug-ftrace-1 ${debug% SEC*} FTRACE=\[a-k\]\*.tc $ftrace
		debug-ftrace-2 ${debug% SEC*} FTRACE=\[l-o\]\*.tc $ftrace
		debug-ftrace-3 ${debug% SEC*} FTRACE=\[\!a-o\]\*.tc $ftrace
		debug-kselftest-walk $debug kselftest hostile_stack oracle
		debug-kselftest-bpf $debug kselftest bpf_stack bpf_unwind
		debug-kselftest-perf $debug kselftest delivery nmi
		debug-kselftest-core $debug kselftest storm core_probe
		debug-kselftest-sframe $debug kselftest oracle_sframe sframe_damage
		debug-kunit $debug kunit kunit.enable=1
		lint.sh
		lint.sh kernel-plain
		plain-ftrace $plain ftrace ftrace install
		plain-kselftest-walk $plain kselftest hostile_stack oracle
		plain-kselftest-bpf $plain kselftest bpf_stack bpf_unwind
		plain-kselftest-perf $plain kselftest delivery nmi
		plain-kselftest-core $plain kselftest storm core_probe
		plain-kselftest-sframe $plain kselftest oracle_sframe sframe_damage
		other-archs.sh other-archs linux
		plain-stackprof $plain stackprof stackprof stackprof
		plain-perf-callchain $plain perf perf-tests.callchain
		plain-perf-deferred $plain perf perf-tests.deferred
		plain-kselftest-intel $plain kselftest compat_task max,vendor=GenuineIntel
		selftest.sh kernel-plain
		selftest.sh
		check-selftest.sh
		parts-selftest.sh
		fuzz.sh replay linux fuzz
		fuzz.sh sframe-replay linux fuzz
		plain-go $plain go go go
		test.sh sframe
		sessions.sh sframe
		plain-record $plain record sframe sframe
		plain-sframe $plain sframe sframe sframe
		plain-kunit $plain kunit kunit.enable=1
		END
		)
}

expect 0 "check: the parts of make check-all" all

# long: make check-long must run these parts. Only storms may use two CPUs at once.
long() {
	local debug="2G 2580 LEAK CHECK TIMEOUT=1380" full="FULL=1 kselftest matrix"
	local kcsan="2G 2580 CHECK TIMEOUT=1380 STORM_NMI=4000" storm="SECONDS=180 kselftest storm"
	local multi="tcg,thread=multi" slow="1G 3780 CHECK TIMEOUT=1980"
	MINUTES=3 check long plain debug kcsan &&
		[ "$(tail -n 1 "$tmp/checked")" = "17 passed, 0 failed" ] &&
		ran | sort | diff - <(sort <<-END
		plain-kselftest-storm 1G 1380 CHECK TIMEOUT=780 $storm $multi
		plain-kselftest-full $slow $full
		plain-kselftest-singlestep $slow kselftest user_regs compat_task SINGLESTEP
		fuzz.sh run linux fuzz 60 8
		fuzz.sh sframe-run linux fuzz 60 8
		debug-kselftest-storm $debug $storm $multi
		debug-kselftest-bpf_storm $debug SECONDS=60 kselftest bpf_unwind_storm
		debug-kselftest-fuzz_attr $debug SECONDS=60 kselftest fuzz_attr
		debug-kselftest-fuzz_detached $debug SECONDS=60 kselftest fuzz_detached
		debug-kselftest-fuzz_stack $debug SECONDS=60 kselftest fuzz_stack
		debug-kselftest-full 2G 7380 LEAK CHECK TIMEOUT=3780 $full core_probe
		kcsan-kselftest-walk $kcsan kselftest hostile_stack oracle
		kcsan-kselftest-bpf $kcsan kselftest bpf_stack bpf_unwind
		kcsan-kselftest-perf $kcsan kselftest delivery nmi
		kcsan-kselftest-core $kcsan kselftest storm core_probe
		kcsan-kselftest-sframe $kcsan kselftest oracle_sframe sframe_damage
		kcsan-kunit $kcsan kunit kunit.enable=1
		END
		)
}

expect 0 "check: the parts of make check-long" long

# parallel: a check must not take from its caller what changes the emulator
parallel() {
	ACCEL=tcg,thread=multi ICOUNT=icount SINGLESTEP=1 VM_CPU=max MINUTES=ten check gate plain
	! grep -E 'thread=multi|icount|SINGLESTEP| max ' "$tmp/ran" && [ -s "$tmp/ran" ]
}

expect 0 "check: it runs steady guests, whatever its caller has" parallel

# slow: outside of the gate a guest and its programs must have more time on the debug kernel
slow() {
	check test debug kunit
	grep "^debug-kunit 2G 2400 .* UNWIND_TIMEOUT=1200 " "$tmp/ran"
}

expect 0 "check: more time outside of the gate" slow

# second: a check must not run beside another one
second() {
	local status
	exec 7> "$tmp/build/check.lock"
	flock 7
	check gate plain
	status=$?
	exec 7>&-
	[ $status = 1 ] && [ ! -e "$tmp/ran" ] &&
		echo "check: another check runs in $tmp/build/check" | diff - "$tmp/checked"
}

expect 0 "check: not beside another one" second

# interrupted: Ctrl-C must end a check with its guest, and the next check must find nothing of it
interrupted() {
	local pid status
	rm -f "$tmp/started"
	touch "$tmp/hang"
	# With a process group of its own, as a terminal's shell starts it
	set -m
	check test plain kunit &
	pid=$!
	set +m
	begun "$pid" || return 2
	touch "$tmp/build/check/plain-kunit/old"
	kill -INT -- "-$pid"
	wait "$pid"
	status=$?
	rm "$tmp/hang"
	[ "$status" = 130 ] && grep -qx "check: interrupted" "$tmp/checked" &&
		gone "$(cat "$tmp/started")" && check test plain kunit &&
		[ ! -e "$tmp/build/check/plain-kunit/old" ]
}

expect 0 "check: Ctrl-C ends it, and the next one starts clean" interrupted

# late: a program whose test hangs, in a process group of its own, must end by its own limit, and
# the next one must run
late() {
	fake "$tmp/unwind/hangs" <<< $'#!/bin/bash\nset -m\nsleep 90 & wait'
	fake "$tmp/unwind/good" <<< 'echo 1..1; echo ok 1 a'
	UNWIND_TIMEOUT=10 TMPDIR=$tmp timeout 60 "$here/guest-check.sh" kselftest "$tmp" \
		hangs good | grep -v '^#' | diff - <(printf '%s\n' "1..2" \
		"not ok 1 selftests: unwind: hangs # exit=124" "ok 2 selftests: unwind: good")
}

expect 0 "guest: a program that hangs ends by its own limit" late

# perf_tests LIST: perf's tests must be named as they begin and end, and one that hangs must end
perf_tests() {
	printf '%s\n' "# list" "a test" "a hang" "a kill" "a skip" "no test" > "$tmp/$1"
	UNWIND_TIMEOUT=10 TMPDIR=$tmp timeout 60 "$here/guest-check.sh" perf "$tmp/$1" |
		sed -E '/^Killed/d; s/: [0-9]+ s$/: ends/' | diff - <(printf '%s\n' \
		"# a test: starts" " 1: a test : Ok" "# a test: ends" \
		"# a hang: starts" "  0: perf test 'a hang' did not end within 10 s : FAILED!" \
		"# a hang: ends" \
		"# a kill: starts" "  0: perf test 'a kill' ended with status 137 : FAILED!" \
		"# a kill: ends" \
		"# a skip: starts" " 1: a skip : Skip" ${2+"$2"} "# a skip: ends" \
		"# no test: starts" "  0: no perf test matches 'no test' : FAILED!" \
		"# no test: ends")
}

expect 0 "guest: perf's tests" perf_tests list
expect 0 "guest: those that perf must not skip" perf_tests list.deferred \
	"  0: perf skips a test of 'a skip' : FAILED!"

# one_perf: only the test that is named must run
one_perf() {
	UNWIND_PERF="a test" TMPDIR=$tmp "$here/guest-check.sh" perf "$tmp/list" |
		grep starts | diff - <(echo "# a test: starts")
}

expect 0 "guest: one of perf's tests" one_perf

# no_perf: a part that needs perf must say so if it is not built, and boot no guest
no_perf() {
	rm "$tmp/bin/perf"
	check test plain perf-deferred
	[ $? = 1 ] && [ ! -e "$tmp/ran" ] && grep -qx \
		"FAILED plain-perf-deferred: perf is not built; make perf builds it" "$tmp/checked"
}

expect 0 "check: perf that is not built" no_perf

# ci RECIPE...: run .ci/run in a repository whose check is RECIPE; prints its last line
ci() {
	mkdir -p "$tmp/ci/.ci"
	ln -sf "$top/.ci/run" "$tmp/ci/.ci"
	printf 'check:\n' > "$tmp/ci/Makefile"
	printf '\t@%s\n' "$@" >> "$tmp/ci/Makefile"
	env -u MAKEFLAGS -u MAKEOVERRIDES -u MAKELEVEL "$tmp/ci/.ci/run" > "$tmp/shown" 2>&1
	local status=$?
	tail -n 1 "$tmp/shown"
	return "$status"
}

# counted LINE RECIPE...: a check that fails must let .ci/run fail, with LINE as the last one
counted() {
	[ "$(ci "${@:2}" "exit 1")" = "$1" ] && ! ci "${@:2}" "exit 1"
}

# stopped: a signal to .ci/run must end the check, with all that it started
stopped() {
	local pid status
	rm -f "$tmp/ci/check"
	ci "sleep 71 & echo \$\$! > check; sleep 72" > /dev/null &
	until [ -s "$tmp/ci/check" ]; do
		kill -0 $! 2> /dev/null || return 1
		sleep 0.1
	done
	pkill -TERM -f "^/bin/sh $tmp/ci/.ci/run"
	wait $!
	status=$?
	pid=$(cat "$tmp/ci/check")
	[ "$status" = 143 ] && ! kill -0 "$pid" 2> /dev/null
}

expect 0 "ci: the counts are its last line" counted "3 passed, 1 failed" \
	"echo 3 passed, 1 failed" "echo more"
expect 0 "ci: a check without counts is a failure" counted "0 passed, 1 failed" "echo none"
expect 0 "ci: the check passes" ci "echo 3 passed, 0 failed"
expect 0 "ci: a signal ends the check" stopped

# The builds of the kernels in a clone, and that of perf, which ends make
fake "$tmp/new/scripts/perf.sh" <<< 'echo builds perf; exit 1'
fake "$tmp/new/tools/testing/selftests/unwind/qemu/build-kernel.sh" <<< 'exit 0'
ln -s "$here/alone.sh" "$(type -P true)" "$tmp/new/scripts"
ln -s true "$tmp/new/scripts/deps.sh"
ln -s true "$tmp/new/scripts/series.py"

# first WHAT: make check must say that it makes WHAT before it builds perf, and that perf did not
# build, and nothing else
first() {
	env -u MAKEFLAGS -u MAKEOVERRIDES -u MAKELEVEL -u KERNEL make -C "$top" TOP="$tmp/new" \
		SCRIPTS="$tmp/new/scripts" check 2>&1 < /dev/null |
		sed 's/From nothing.*40 to 70 minutes on.* 7.1 GB of disk.$/The cost./; /^make/d' |
		diff - <(echo "${1:+check: first makes $1. The cost.$'\n'}builds perf"
			echo "check: perf did not build, see above")
}

# there FILE: make an empty file that was built
there() {
	mkdir -p "$tmp/new/build/${1%/*}"
	: > "$tmp/new/build/$1"
}

expect 0 "make: what a check makes from nothing" first "tree perf kernel-debug kernel-plain"
there linux/Makefile
there kernel-plain/arch/x86/boot/bzImage
expect 0 "make: what of that is missing" first "perf kernel-debug"
there perf/install/bin/perf
there kernel-debug/arch/x86/boot/bzImage
expect 0 "make: nothing, if all is there" first ""

# says PATTERN ARGUMENT...: make -n must print a line that matches
says() {
	env -u MAKEFLAGS -u MAKEOVERRIDES -u MAKELEVEL -u KERNEL -u MINUTES make -n -C "$top" \
		TOP="$tmp/new" SCRIPTS="$tmp/new/scripts" "${@:2}" 2>&1 < /dev/null | grep -- "$1"
}

expect 0 "make: check-long uses all three kernels" says "check.sh long plain debug kcsan" check-long
expect 0 "make: or the one that is named" says "check.sh long kcsan *\$" check-long KERNEL=kcsan
expect 0 "make: check-all gets compilers of other architectures" says "deps.sh gcc-powerpc" \
	check-all
expect 1 "make: but not for the debug kernel alone" says "deps.sh gcc-powerpc" check-all \
	KERNEL=debug
expect 0 "make: the gate has nothing for that one" says "no tests for KERNEL=kcsan: .*  Stop.$" \
	check KERNEL=kcsan
expect 0 "make: nor for the one that counts lines" says "is for make coverage.*  Stop.$" \
	check KERNEL=gcov
expect 0 "make: minutes that are no number" says "MINUTES=08 is not a number of minutes.  Stop.$" \
	check-long MINUTES=08
finish
