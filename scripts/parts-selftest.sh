#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Test how a check runs its parts and counts their results, as TAP: results.py and parts.sh.
# shellcheck source-path=SCRIPTDIR disable=SC2030,SC2031,SC2034	# subshells, parts.sh
set -u

here=$(cd "$(dirname "$0")" && pwd)
top=${here%/*}
# shellcheck source=../tools/testing/selftests/unwind/qemu/expect.sh
. "$top/tools/testing/selftests/unwind/qemu/expect.sh"

# count WANTED NAME [PART]: the last line of results.py for standard input must be WANTED
count() {
	"$here/results.py" "${3-plain-part}" /dev/stdin > "$tmp/counted"
	tail -n 1 "$tmp/counted" > "$tmp/last"
	echo "${3-plain-part} $1" > "$tmp/wanted"
	expect 0 "results: $2" diff "$tmp/wanted" "$tmp/last"
}

count "0 1 0" "nothing is a failure" < /dev/null
expect 0 "results: its log is said all the same" grep -qx "    log: /dev/stdin" "$tmp/counted"
mkdir -p "$tmp/tests/unwind"
printf '#!/bin/sh\necho 1..1\necho ok 1 good\n' > "$tmp/tests/unwind/good"
printf '#!/bin/sh\nexit 1\n' > "$tmp/tests/unwind/bad"
printf '#!/bin/sh\nexit 4\n' > "$tmp/tests/unwind/skip"
printf '#!/bin/sh\nkill -9 $$\n' > "$tmp/tests/unwind/killed"
printf '#!/bin/sh\n' > "$tmp/tests/unwind/silent"
chmod +x "$tmp/tests/unwind/"*
TMPDIR=$tmp sh "$here/guest-check.sh" kselftest "$tmp/tests" good bad skip killed missing \
	silent > "$tmp/programs" 2> /dev/null
count "1 5 0" "programs that fail, skip, are killed, missing or test nothing" < "$tmp/programs"
count "2 1 0" "KTAP of the kernel, leaves only" <<END
[    1.1] KTAP version 1
[    1.1] 1..1
[    1.1]     KTAP version 1
[    1.1]     # Subtest: suite
[    1.1]     1..3
[    1.1]     ok 1 first
[    1.1][    T1]     ok 2 second
[    1.1]     ok 3 third # SKIP needs more
[    1.1] # suite: pass:2 fail:0 skip:1 total:3
[    1.1] ok 1 suite
END
count "1 1 0" "a failing leaf counts once" <<END
TAP version 13
1..1
# 1..2
# ok 1 a
# not ok 2 b
not ok 1 selftests: unwind: program # exit=1
END
count "1 1 0" "one passes, one fails" <<END
# why it is good
ok 1 a
# why it is bad
not ok 2 b
END
grep -v '^    log:' "$tmp/counted" > "$tmp/got"
cat > "$tmp/wanted" <<END
FAILED plain-part: b
    # why it is bad
    again: make test T=part
plain-part 1 1 0
END
expect 0 "results: a test that fails says why" diff "$tmp/wanted" "$tmp/got"
"$here/results.py" debug-kselftest-core /dev/stdin > "$tmp/got" <<END
1..2
# # a.c:7:first:Expected 1 (1) == i (2)
# # a.c:8:first:Expected 2 (2) == i (2)
# # first: Test failed
# not ok 1 fixture.first
# 1..1
not ok 1 selftests: unwind: a # exit=1
# not ok 1 global.second
# 1..1
not ok 2 selftests: unwind: b.global.second # exit=1
END
cat > "$tmp/wanted" <<END
FAILED debug-kselftest-core: a: fixture.first
    a.c:7:first:Expected 1 (1) == i (2)
    log: /dev/stdin:5
    again: make test T=a.fixture.first KERNEL=debug
FAILED debug-kselftest-core: b: global.second
    log: /dev/stdin:8
    again: make test T=b.global.second KERNEL=debug
debug-kselftest-core 0 2 0
END
expect 0 "results: program, assertion, place, and how to run it again" \
	diff "$tmp/wanted" "$tmp/got"
"$here/results.py" debug-kselftest-walk /dev/stdin > "$tmp/got" <<END
1..2
# #      SKIP      no page
# ok 1 a.b # SKIP no page
# 1..1
ok 1 selftests: unwind: paged # SKIP
# ok 1 a.c # SKIP needs CONFIG_FAULT_INJECTION
# 1..1
ok 2 selftests: unwind: fail # SKIP
END
cat > "$tmp/wanted" <<END
FAILED debug-kselftest-walk: paged: a.b # SKIP no page
    # #      SKIP      no page
    log: /dev/stdin:3
    again: make test T=paged.a.b KERNEL=debug
FAILED debug-kselftest-walk: fail: a.c # SKIP needs CONFIG_FAULT_INJECTION
    log: /dev/stdin:6
    again: make test T=fail.a.c KERNEL=debug
debug-kselftest-walk 0 2 0
END
expect 0 "results: a skip is a failure" diff "$tmp/wanted" "$tmp/got"
count "0 0 1" "but where it is expected" plain-kselftest-walk <<END
# ok 1 a.c # SKIP needs CONFIG_FAULT_INJECTION
# 1..1
ok 1 selftests: unwind: fail # SKIP
END
count "1 1 0" "a program that fails after its tests" <<END
# 1..1
# ok 1 a
not ok 1 selftests: unwind: program # exit=139
END
count "1 1 0" "a suite that stops early" <<END
# 1..2
# ok 1 a
not ok 1 selftests: unwind: program # TIMEOUT 45 seconds
END
count "1 2 0" "perf test, whose skips are failures" plain-perf-part <<END
 10: One  : Running (1 active)
 10: One  : Ok
 11: Two  : FAILED!
 12: Three: Skip (no hardware)
END

# told PART RESULT: print the variable in the command that repeats what this line reports
told() {
	echo "$2" | "$here/results.py" "$1" /dev/stdin |
		sed -n 's/^    again: make test T=[^ ]* //p'
}

cat > "$tmp/wanted" <<END
UNWIND_FTRACE=exit.tc KERNEL=debug
UNWIND_FTRACE=trace-cmd.tc
UNWIND_PERF='One test' KERNEL=debug
UNWIND_PERF=One
UNWIND_PERF=One
UNWIND_NAMES='^same as libdw: libstdc\+\+\.so$'
UNWIND_NAMES='^perl$'
UNWIND_NAMES='^run$'
END
{
	told debug-ftrace \
		"not ok 1 Deferred user stacks: asked for at the very end of a kernel entry"
	told plain-ftrace \
		"not ok 1 Deferred user stacks: recorded and reported by trace-cmd # UNRESOLVED"
	told debug-perf-deferred " 10: One test : FAILED!"
	told plain-perf-deferred "  0: perf test 'One' did not end within 10 s : FAILED!"
	told plain-perf-deferred "  0: no perf test matches 'One' : FAILED!"
	told host-convert "not ok 2 - same as libdw: libstdc++.so"
	told plain-record "not ok 1 - perl"
	told plain-record "1..2"
	told host-sframe-sessions $'# not ok 1 - signals\nnot ok 1 - run'
} > "$tmp/got"
expect 0 "results: single tests of ftrace, perf and sframe" diff "$tmp/wanted" "$tmp/got"

# A part: stub NAME STATUS [STATUS], the status of its first run and of later ones. Its test
# passes with 0. With 8 it passes and another test fails, with 9 a splat interrupts it, with
# 5 it is skipped, with 4 the stub prints nothing, with 3 a perf test takes too long, with 6,
# 7 and 10 a kselftest fails.
cat > "$tmp/stub" <<'END'
#!/bin/sh
echo >> "$0.$1"
echo "$UNWIND_SEED" >> "$0.seed"
[ "$(wc -l < "$0.$1")" = 1 ] || shift
[ "$2" != 9 ] || { echo "# program.a.b: starts"; echo "# #  RUN  a.b ..."; exit 120; }
case $2 in
3) echo "# Some perf test: starts"; exit 124 ;;
4) exit 1 ;;
5) exec echo "ok 1 test # SKIP none" ;;
6 | 7 | 10)
	case $2 in 6) program=program ;; 7) program=other ;; 10) program=storm ;; esac
	printf '# not ok 1 a.b\nnot ok 1 selftests: unwind: %s # exit=1\n' "$program"
	exit 1
	;;
esac
[ "$2" != 121 ] || { echo "# program: starts"; echo "# #  RUN  a.b ..."; echo "# program: 3 s"; }
case $2 in 0 | 8) ;; *) printf 'not ' ;; esac
echo "ok 1 test"
[ "$2" != 8 ] || echo "not ok 2 other"
exit "$2"
END
chmod +x "$tmp/stub"

# The files of kselftest programs contain the variables that the programs read.
install=$tmp/installed
parts="ftrace kselftest-intel kselftest-perf perf-deferred record"
mkdir -p "$install/unwind"
echo "UNWIND_SECONDS UNWIND_SEED" > "$install/unwind/program"
echo > "$install/unwind/other"

# check WANTED NAME STATUS...: run a check whose only part ends with STATUS. WANTED is the
# number of its runs and the last line.
check() {
	local want=$1 name=$2
	shift 2
	rm -rf "$tmp/check" "$tmp"/stub.*
	(dir=$tmp/check && . "$here/parts.sh" && minute=2 && part plain-stub "$tmp/stub" it "$@" &&
		run_parts && summary) > "$tmp/checked" 2>&1
	echo "$(wc -l < "$tmp/stub.it") $(tail -n 1 "$tmp/checked")" > "$tmp/got"
	echo "$want" > "$tmp/wanted"
	expect 0 "parts: $name" diff "$tmp/wanted" "$tmp/got"
}

check "1 1 passed, 0 failed" "one that passes runs once" 0
check "2 0 passed, 1 failed" "one that fails twice has failed" 1 1
UNWIND_SEED=7 check "2 1 passed, 0 failed" "one that fails once is run again" 1 0
expect 0 "parts: with the same seed" [ "$(paste -sd ' ' "$tmp/stub.seed")" = "7 7" ]
expect 0 "parts: and is listed as unsteady" \
	grep -qx "unsteady: plain-stub test ($tmp/check/plain-stub.first)" "$tmp/checked"
expect 0 "parts: with what failed, and where that is" \
	grep -qx "first run:     log: $tmp/check/plain-stub.first/output:1" "$tmp/checked"
check "2 1 passed, 1 failed" "another one that fails then does not hide it" 1 8
expect 0 "parts: it is listed as well" \
	grep -qx "unsteady: plain-stub test ($tmp/check/plain-stub.first)" "$tmp/checked"
check "2 0 passed, 1 failed" "one that is skipped has failed" 5 5
printf '%s\n' "first run: FAILED plain-stub: test # SKIP none" \
	"first run:     log: $tmp/check/plain-stub.first/output:1" \
	"FAILED plain-stub: test # SKIP none" "    log: $tmp/check/plain-stub/output:1" \
	> "$tmp/wanted"
grep -E 'SKIP|log:' "$tmp/checked" > "$tmp/got"
expect 0 "parts: that is said" diff "$tmp/wanted" "$tmp/got"
check "2 1 passed, 0 failed" "an emulator's fault is run again" 122 0
expect 0 "parts: it is said why" grep -q \
	"plain-stub failed (it ended with status 122) and is run once more, alone" "$tmp/checked"
check "2 1 passed, 0 failed" "an emulator that dies is run again" 125 0
check "1 0 passed, 2 failed" "a splat is not" 120 0
check "1 0 passed, 2 failed" "a leak is not" 121 0
expect 1 "parts: and is in no program" grep -q "  in program" "$tmp/checked"
check "1 0 passed, 2 failed" "a guest that goes away is not" 123 0
check "1 0 passed, 2 failed" "a guest that hangs is not" 124 0
check "2 0 passed, 2 failed" "a splat in the second run" 1 120
check "1 0 passed, 1 failed" "a splat in a test" 9
expect 0 "parts: it says in which" grep -qx "    again: make test T=program.a.b KERNEL=plain" \
	"$tmp/checked"

# repeats WANTED NAME PART STATUS VARIABLE...: after a failure of a part with these variables,
# the command that repeats the test must have WANTED after "T="
repeats() {
	local want=$1 name=$2 part=$3 status=$4
	shift 4
	rm -rf "$tmp/check" "$tmp"/stub.*
	(dir=$tmp/check once=1 && . "$here/parts.sh" && minute=2 &&
		part "$part" "$@" "$tmp/stub" it "$status" && run_parts) > "$tmp/checked" 2>&1
	sed -n 's/^    again: make test T=//p' "$tmp/checked" | sort -u > "$tmp/got"
	printf '%s' "${want:+$want$'\n'}" > "$tmp/wanted"
	expect 0 "again: $name" diff "$tmp/wanted" "$tmp/got"
}

UNWIND_SEED=7 repeats "program.a.b KERNEL=debug UNWIND_SEED=7 UNWIND_SECONDS=5" \
	"the variables that a program reads" debug-kselftest-core 9 UNWIND_SECONDS=5 UNWIND_FULL=1
repeats "program.a.b UNWIND_SECONDS=5" "without a seed" plain-kselftest-one 6 UNWIND_SECONDS=5
UNWIND_SEED=7 repeats "other.a.b KERNEL=debug" "not those that it does not read" \
	debug-kselftest-core 7 UNWIND_SECONDS=5
repeats "other.a.b MINUTES=30 ACCEL=tcg,thread=multi APPEND='a b'" "those of the guest" \
	plain-kselftest-storm 7 ACCEL=tcg,thread=multi MINUTES=30 APPEND="a b"
repeats "ftrace UNWIND_FTRACE=exit.tc APPEND=a" "those of ftrace" plain-ftrace 1 \
	UNWIND_FTRACE=exit.tc UNWIND_SECONDS=5 APPEND=a
repeats "perf-deferred UNWIND_PERF=a APPEND=a" "those of perf's tests" plain-perf-deferred 1 \
	UNWIND_PERF=a UNWIND_SECONDS=5 APPEND=a
repeats "record UNWIND_NAMES='^test\$'" "the test, not all that the part ran" plain-record 1 \
	UNWIND_NAMES="a b"
repeats "record UNWIND_NAMES='a b'" "all that the part ran" plain-record 4 \
	UNWIND_NAMES="a b" UNWIND_SECONDS=5
repeats "kselftest-intel" "not those that it has without saying" plain-kselftest-intel 7 \
	VM_CPU=max
repeats $'perf-deferred\nperf-deferred UNWIND_PERF=\'Some perf test\' KERNEL=plain' \
	"a perf test, and all of them for a guest that ended" \
	plain-perf-deferred 3
expect 0 "again: it is said which" grep -qx "    in Some perf test" "$tmp/checked"
repeats "ftrace" "a part that says nothing" plain-ftrace 4
repeats "kselftest-perf KERNEL=debug UNWIND_SECONDS=5 APPEND=a MEM=1G" \
	"those of programs that say nothing" debug-kselftest-perf 4 \
	UNWIND_SECONDS=5 APPEND=a MEM=1G
repeats "" "not one that make test has not" plain-kselftest-one 4
once=1 check "1 0 passed, 1 failed" "make test runs nothing twice" 1 0
(dir=$tmp/check && . "$here/parts.sh" && minute=2 && run_parts && summary) > "$tmp/checked"
expect 1 "parts: no part at all is a failure" [ $? = 0 ]

# killed: a part that is killed while the check is busy with another one must have failed
killed() {
	rm -rf "$tmp/check" "$tmp/killed"
	(dir=$tmp/check once=1 && . "$here/parts.sh" && minute=2
	tell() { [[ $1 != *" failed,"* ]] || until [ -e "$tmp/killed" ]; do sleep 0.1; done; }
	part plain-first sh -c "sleep 1; echo ok 1 first"
	part plain-killed alone 60 sh -c \
		"echo ok 1 a; sleep 2; kill -9 \$PPID; sleep 1; touch $tmp/killed"
	part plain-last sh -c "sleep 5; echo ok 1 last"
	run_parts; summary) > "$tmp/checked" 2>&1
	[ "$(tail -n 1 "$tmp/checked")" = "3 passed, 1 failed" ] &&
		grep -qx "FAILED plain-killed: it took too long or was killed" "$tmp/checked"
}

expect 0 "parts: one that is killed while nothing waits for it" killed

# interrupt SIGNAL: a check's parts and their children must end with the check
interrupt() {
	local pid
	rm -rf "$tmp/check" "$tmp/started"
	(dir=$tmp/check && . "$here/parts.sh" && minute=2 && part plain-sleep alone 60 sh -c \
		"sleep 1017 & echo \$! > $tmp/started; wait" && run_parts) > /dev/null 2>&1 &
	pid=$!
	begun "$pid" || return 2
	kill "-$1" "$pid"
	wait "$pid" 2> /dev/null
	gone "$(cat "$tmp/started")"
}

expect 0 "parts: a check that is stopped ends its parts" interrupt TERM
expect 0 "parts: so does one that is killed" interrupt KILL

# limited: a part that takes too long must be stopped and reported
limited() {
	rm -rf "$tmp/check"
	(dir=$tmp/check && . "$here/parts.sh" && part host-sleep alone 1 sleep 1018 &&
		run_parts; summary) > "$tmp/checked" 2>&1
	grep -q "^FAILED host-sleep: it took too long" "$tmp/checked"
}

# deaf: a part that SIGKILL ended must be reported as one that took too long
deaf() {
	(dir=$tmp/check && . "$here/parts.sh" && part host-deaf sh -c 'kill -9 $$' &&
		run_parts; summary) > "$tmp/checked" 2>&1
	grep -q "^FAILED host-deaf: it took too long" "$tmp/checked"
}

# found PART STATUS: a part in which a fuzzer or a storm finds something must not be repeated
found() {
	rm -rf "$tmp/check" "$tmp"/stub.*
	(dir=$tmp/check && . "$here/parts.sh" && part "$1" "$tmp/stub" it "$2" 0 &&
		run_parts; summary) > "$tmp/checked" 2>&1
	[ "$(wc -l < "$tmp/stub.it")" = 1 ]
}

# cut: a count that a full disk cut off must be a failure, and the table must come
cut() {
	rm -rf "$tmp/check" "$tmp"/stub.*
	mkdir "$tmp/cut"
	printf '#!/bin/sh\necho "FAILED plain-stub: test"\nprintf "plain-stub 1"\n' \
		> "$tmp/cut/results.py"
	chmod +x "$tmp/cut/results.py"
	(dir=$tmp/check once=1 && . "$here/parts.sh" && here=$tmp/cut &&
		part plain-stub "$tmp/stub" it 0 && run_parts; summary) > "$tmp/checked" 2>&1
	grep -qx "FAILED plain-stub: its results could not be counted" "$tmp/checked" &&
		[ "$(tail -n 1 "$tmp/checked")" = "0 passed, 1 failed" ]
}

# both: a part with tests at boot and after it must count both, and fail if either has no result
both() {
	rm -rf "$tmp/check"
	(dir=$tmp/check once=1 && . "$here/parts.sh" && minute=2
	part plain-all-kunit sh -c \
		"echo ok 1 a > $tmp/check/plain-all-kunit/console.log; echo ok 1 b"
	part plain-boot-kunit sh -c "echo ok 1 a > $tmp/check/plain-boot-kunit/console.log"
	part plain-later-kunit sh -c ": > $tmp/check/plain-later-kunit/console.log; echo ok 1 b"
	run_parts; summary) > "$tmp/checked" 2>&1
	[ "$(tail -n 1 "$tmp/checked")" = "4 passed, 2 failed" ] &&
		grep -q "^FAILED plain-boot-kunit: no test" "$tmp/checked" &&
		grep -q "^FAILED plain-later-kunit: no test" "$tmp/checked"
}

# long: a check must say each minute what runs, here each second
long() {
	rm -rf "$tmp/check"
	(dir=$tmp/check && . "$here/parts.sh" && minute=1 && part plain-long sh -c \
		"sleep 3; echo ok 1 a" && run_parts) > "$tmp/checked" 2>&1
	grep -qE '^check: .* running: plain-long \([1-3] s\)$' "$tmp/checked"
}

# between: a part that ends while the check says what runs must count
between() {
	rm -rf "$tmp/check"
	(dir=$tmp/check once=1 && . "$here/parts.sh" && minute=1
	tell() { [[ $1 != running:* ]] || sleep 2; }
	part plain-between sh -c "sleep 2; echo ok 1 a" && run_parts && summary) \
		> "$tmp/checked" 2>&1
	[ "$(tail -n 1 "$tmp/checked")" = "1 passed, 0 failed" ]
}

expect 0 "parts: one that hangs" limited
expect 0 "parts: one that does not heed a TERM" deaf
expect 0 "parts: what a fuzzer finds" found host-walker-fuzz 1
expect 0 "parts: what its corpus finds" found host-corpus 1
expect 0 "parts: or that of SFrame" found host-sframe-corpus 1
expect 0 "parts: what a storm finds" found debug-kselftest-core 10
expect 0 "parts: a count that is cut off" cut
expect 0 "parts: tests at boot and after it" both
expect 0 "parts: what runs is said each minute" long
expect 0 "parts: one that ends meanwhile" between
finish
