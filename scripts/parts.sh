# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154	# dir and here are the sourcing script's
# Run the parts of a check in parallel, repeat failed ones, and count the results. The script
# that sources this file sets dir (for the logs), here (the directory of this file), install
# (the installed kselftests) and parts (the parts that make test accepts).
#
#   part NAME COMMAND...	queues a part; NAME is KERNEL-KIND; COMMAND begins with its
#				variables
#   alone LIMIT COMMAND...	the last step of a part: runs COMMAND for at most LIMIT seconds
#   run_parts			runs the queued parts, and prints their failures
#   broken PART REASON		counts a part that could not run as one failure
#   summary			prints the table and the last line; fails if a test failed
#
# A part that fails without a splat, or whose emulator crashes, is run once more, alone,
# unless once is set. Tests that pass in the second run count as passed, and are listed as
# unsteady. A splat, a leak, a lockup, a guest that stops unexpectedly and a failure of a storm
# or a fuzzer are failures at once: UNWIND_SEED repeats what a storm does, but not when.

declare -A job=() told=() seconds=() running=() cause=()
declare -a queued=() suspects=() unsteady=()
table=
# Where guests keep their files.
temporary=${TMPDIR:-/tmp}
full=
passed=0
failed=0
skipped=0
over=0
timer=
minute=60

# Variables that tests read, and variables of the guest that make test takes.
program_variables="UNWIND_SEED UNWIND_SECONDS UNWIND_STORM_NMI UNWIND_FULL"
program_variables+=" UNWIND_FTRACE UNWIND_PERF UNWIND_NAMES"
guest_variables="MINUTES ACCEL ICOUNT SINGLESTEP VM_CPU APPEND MEM"

# part NAME [VARIABLE=VALUE]... COMMAND...
part() {
	local name=$1
	shift
	queued+=("$name")
	job[$name]=$(printf '%q ' "$@")
	told[$name]=$(variables "$@")
}

# variables [VARIABLE=VALUE]... COMMAND...: list the variables with which COMMAND runs, one a
# line. Call it in a subshell, because it exports them.
variables() {
	local variable value
	while [[ $1 == [A-Z]*=* ]]; do
		export "${1?}"
		shift
	done
	for variable in $program_variables $guest_variables; do
		value=${!variable-}
		[[ $value != *[^A-Za-z0-9_=,./-]* ]] || value=${value@Q}
		[ -z "$value" ] || echo "$variable=$value"
	done
}

# matters WHAT VARIABLE: test whether a command that repeats this part or program has to set
# VARIABLE
matters() {
	local program=$install/unwind/$1
	case $1-$2 in
	ftrace-UNWIND_FTRACE | perf-*-UNWIND_PERF) return 0 ;;
	*-UNWIND_NAMES) return 0 ;;
	ftrace-APPEND | ftrace-MEM | perf-*-APPEND | kselftest-intel-APPEND) return 0 ;;
	kselftest-intel-*) return 1 ;;
	kselftest-*-UNWIND_* | kselftest-*-APPEND | kselftest-*-MEM) return 0 ;;
	*-UNWIND_*) grep -qs "$2" "$program" ;;
	*) [ -e "$program" ] ;;
	esac
}

# is_part KIND: test whether make test accepts this part
is_part() {
	[[ " ${parts//$'\n'/ } " == *" $1 "* ]]
}

# with_variables NAME: filter that appends to each command that repeats a test the variables
# of the part that matter to the test, and drops a command if make test does not have its part
with_variables() {
	local line what variable
	while IFS= read -r line; do
		what=${line#    again: make test T=}
		[ "${what%% *}" != "${1#*-}" ] || is_part "${1#*-}" || continue
		printf '%s' "$line"
		while [ "$what" != "$line" ] && read -r variable && [ -n "$variable" ]; do
			[[ $line != *" ${variable%%=*}="* ]] || continue
			! matters "${what%%[. ]*}" "${variable%%=*}" || printf ' %s' "$variable"
		done <<< "${told[$1]}"
		echo
	done
}

# alone LIMIT COMMAND...: replace the shell of a part. COMMAND and the processes that it
# leaves in its process group end with the check, even if the check is killed.
# shellcheck disable=SC2317	# called by a part
alone() {
	exec setpriv --pdeathsig TERM timeout -k 30 "$@"
}

# Print the time and the progress of the check with a message.
tell() {
	printf 'check: %2d:%02d [%2d/%d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) \
		"$over" "${#queued[@]}" "$*"
}

# start NAME: run a part in the background; running[] maps its process id to its name
start() {
	local log=$dir/$1
	rm -rf "${log:?}"
	mkdir -p "$log"
	tell "$1 starts"
	eval "${job[$1]}" > "$log/output" 2> "$log/errors" < /dev/null &
	running[$!]=$1
	seconds[$1]=$SECONDS
}

# Print which parts run, and for how long.
others() {
	local pid
	for pid in "${!running[@]}"; do
		printf ' %s (%d s)' "${running[$pid]}" $((SECONDS - seconds[${running[$pid]}]))
	done
}

# Wait for a part, and say each minute what runs; sets name and status, which are local to the
# caller.
wait_one() {
	local pid
	while :; do
		[ -n "$timer" ] || {
			sleep "$minute" > /dev/null 2>&1 8>&- &
			timer=$!
		}
		wait -n -p pid "${!running[@]}" "$timer" 2> /dev/null
		status=$?
		[ "$pid" = "$timer" ] || break
		timer=
		tell "running:$(others)"
		# wait -n does not see a process that ended while no wait ran.
		for pid in "${!running[@]}"; do
			kill -0 "$pid" 2> /dev/null && continue
			wait "$pid" 2> /dev/null
			status=$?
			# bash has forgotten it, because a signal killed it.
			[ "$status" != 127 ] || status=137
			break 2
		done
	done
	name=${running[$pid]}
	unset "running[$pid]"
	# timeout sent SIGKILL, because the part ignored SIGTERM.
	[ "$status" != 137 ] || grep -q '^vm: ' "$dir/$name/errors" || status=124
	seconds[$name]=$((SECONDS - seconds[$name]))
}

# Count the results of a part in p, f and s; the text of its failures goes to its log/count.
count() {
	local log=$dir/$1 results=()
	[[ $1 == *-kunit ]] && results+=("$log/console.log")
	[ "${1#*-}" = kunit ] || results+=("$log/output")
	"$here/results.py" "$1" "${results[@]}" | with_variables "$1" > "$log/count"
	# A full disk may have cut it off.
	read -r _ p f s < <(tail -n 1 "$log/count" | grep -xE '[^ ]+( [0-9]+){3}') || {
		: > "$log/count"
		p=0 f=1 s=0
	}
}

# failures LOG: print the failures of a part that was counted
failures() {
	grep -E '^(FAILED|    )' "$1/count"
}

# names LOG: print the names of the tests that failed in a part that was counted, each with its
# program
names() {
	failures "$1" | sed -nE 's/^FAILED [^:]*: //p' | sort -u
}

# may_repeat NAME STATUS: fail for a splat, a leak, a lockup, an unexpected stop, a finding, and
# for programs whose next run is another one
may_repeat() {
	[ -z "${once-}" ] || return 1
	case $1-$2 in
	*-120 | *-121 | *-123 | *-124 | host-*fuzz-* | host-*corpus-*) return 1 ;;
	esac
	! names "$dir/$1" | grep -qE '^(storm|bpf_unwind_storm|core_probe|fuzz_[a-z]+): '
}

# during NAME: print which test a part was running when it ended, and how to repeat it
during() {
	local what
	what=$(awk '
		/^# [^#].*: starts$/ {
			begun = substr($0, 1, length($0) - 6)
			what = program = substr($0, 3, length($0) - 10)
			sub(/[.].*/, "", program)
		}
		/^# # +RUN / { what = program "." $4 }
		begun && index($0, begun) == 1 && /: [0-9]+ s$/ { what = "" }
		END { print what }' "$dir/$1/output")
	[ -n "$what" ] || return 0
	echo "    in $what"
	case ${1#*-} in
	kselftest-intel) what=${1#*-} ;;
	perf-*) what="${1#*-} UNWIND_PERF=${what@Q}" ;;
	esac
	echo "    again: make test T=$what KERNEL=${1%%-*}" | with_variables "$1"
}

# no_results LOG: test whether a part that was counted has no results, or a full disk lost them
no_results() {
	[ ! -s "$1/count" ] || grep -q '^FAILED [^:]*: no test reported a result$' "$1/count"
}

# reason NAME STATUS: print why a part that was counted failed as a whole, if it did
reason() {
	local why=""
	if [ "$2" -ge 120 ]; then
		why=$(sed -n 's/^vm: //p' "$dir/$1/errors" | head -n 1)
		[ "$2" != 124 ] || why=${why:-it took too long or was killed}
		why=${why:-it ended with status $2}
	elif [ "$2" != 0 ] && [ "$f" = 0 ]; then
		why="no test failed, but the part ended with status $2"
	elif [ ! -s "$dir/$1/count" ]; then
		why="its results could not be counted"
	fi
	echo "$why"
}

# settle NAME STATUS: add the final results of a part to the totals, and print its failures
settle() {
	local why p f s
	count "$1"
	why=$(reason "$1" "$2")
	if [ -n "$why" ] && no_results "$dir/$1"; then
		# This is one failure, which broken() counts.
		f=0
	else
		failures "$dir/$1"
	fi
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	table+=$(printf '%-24s %6d %6d %7d %6d s' "$1" "$p" "$f" "$s" "${seconds[$1]}")$'\n'
	[ -n "$why" ] || return 0
	cat "$dir/$1/errors"
	broken "$1" "$why"
	[ "$f" != 0 ] || failures "$dir/$1" | grep '^    '
	during "$1"
}

# ended NAME STATUS: settle the part, or keep it for a second run
ended() {
	local p f s left
	count "$1"
	over=$((over + 1))
	left=$(others)
	tell "$1: $p passed, $f failed, ${seconds[$1]} s${left:+; running:$left}"
	if [ "$f" = 0 ] && [ "$2" = 0 ]; then
		settle "$1" 0
		return
	fi
	# Later the guest's files are gone.
	full_disks
	if may_repeat "$1" "$2"; then
		suspects+=("$1")
		cause[$1]=$(reason "$1" "$2")
	else
		settle "$1" "$2"
	fi
}

# again NAME: run the part alone; tests that failed only in the first run are unsteady
again() {
	local name=$1 status first=$dir/$1.first p f s line
	tell "$1 failed${cause[$1]:+ (${cause[$1]})} and is run once more, alone"
	rm -rf "$first"
	mv "$dir/$1" "$first"
	sed -i "s#$dir/$1/#$first/#" "$first/count"
	failures "$first" | sed 's/^/first run: /'
	start "$1"
	wait_one
	count "$name"
	# A guest that the kernel or the emulator took down did not run all tests.
	while [ "$status" -lt 120 ] && IFS= read -r line; do
		unsteady+=("$name $line ($first)")
	done < <(comm -23 <(names "$first") <(names "$dir/$name"))
	[ "$f$status" != 00 ] || names "$first" | grep -q . ||
		unsteady+=("$name as a whole ($first)")
	settle "$name" "$status"
}

run_parts() {
	local name status
	trap 'stop_parts; exit 130' INT
	trap 'stop_parts; exit 143' TERM HUP
	for next in "${queued[@]}"; do
		# Run one part more than the CPUs, because some parts mostly wait.
		while [ "${#running[@]}" -gt "$(nproc)" ]; do
			wait_one
			ended "$name" "$status"
		done
		start "$next"
	done
	while [ "${#running[@]}" -gt 0 ]; do
		wait_one
		ended "$name" "$status"
	done
	for name in "${suspects[@]}"; do
		again "$name"
	done
	[ -z "$timer" ] || kill "$timer" 2> /dev/null || :
}

# shellcheck disable=SC2317	# called by a trap
stop_parts() {
	echo "check: interrupted" >&2
	# Not only those in running: a signal can arrive before a part is in there.
	jobs -pr | xargs -r kill 2> /dev/null
	wait
}

# free_space DIRECTORY: print how many MB the disk of DIRECTORY has free
free_space() {
	df -Pm "$1" | awk 'NR == 2 { print $4 }'
}

# Name each disk that is full, once.
full_disks() {
	local place
	for place in "$dir" "$temporary"; do
		[[ $full != *" $place "* ]] && [ "$(free_space "$place")" -lt 50 ] || continue
		echo "check: the disk of $place is full"
		full+=" $place "
	done
}

# broken PART REASON
broken() {
	echo "FAILED $1: $2"
	failed=$((failed + 1))
	table+=$(printf '%-24s %s' "$1" "$2")$'\n'
	full_disks
}

summary() {
	echo
	printf '%-24s %6s %6s %7s\n%s\n' part passed failed skipped "$table"
	[ "${#unsteady[@]}" = 0 ] || printf 'unsteady: %s\n' "${unsteady[@]}"
	[ "$skipped" = 0 ] || echo "$skipped skipped"
	if [ "$passed$failed" = 00 ]; then
		echo "FAILED: no test was run"
		failed=1
	fi
	[ "$failed" = 0 ] || [ -z "${UNWIND_SEED-}" ] ||
		echo "UNWIND_SEED=$UNWIND_SEED repeats what storms and fuzzers did"
	echo "$passed passed, $failed failed"
	[ "$failed" = 0 ]
}
