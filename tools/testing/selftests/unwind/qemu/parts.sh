# shellcheck shell=bash disable=SC2154	# dir and here are the sourcing script's
# SPDX-License-Identifier: GPL-2.0
# The parts of a check: run side by side, judged, run again, counted. To be sourced by a
# script that sets dir, where the logs go, here, where this file is, install, where the
# kselftests are, and parts, those that make test has.
#
#   part NAME COMMAND...	queues a part; NAME is KERNEL-KIND; COMMAND begins with its
#				variables
#   alone LIMIT COMMAND...	what a part does last: COMMAND, for LIMIT seconds at most
#   run_parts			runs what is queued, and prints what fails
#   broken PART REASON		a part that could not run is one failure
#   summary			the table and the last line; fails if anything did
#
# A part that fails without a splat is run once more, alone, as is one that the emulator
# took down, unless once is set. What passes then has passed, and is listed as unsteady. A
# splat, a leak, a lockup, a guest that just goes away and what a fuzzer finds here are
# failures at once. Storms and fuzzers in guests do the same in both runs, as UNWIND_SEED is
# the same.

declare -A job=() told=() seconds=() running=()
declare -a queued=() suspects=() unsteady=()
table=
passed=0
failed=0
skipped=0
over=0

# What programs of the kselftests read, and what make test takes for all of them.
program_variables="UNWIND_SEED UNWIND_SECONDS UNWIND_STORM_NMI UNWIND_FULL UNWIND_FTRACE"
guest_variables="MINUTES ACCEL SINGLESTEP VM_CPU APPEND"

# part NAME [VARIABLE=VALUE]... COMMAND...
part() {
	local name=$1
	shift
	queued+=("$name")
	job[$name]=$(printf '%q ' "$@")
	told[$name]=$(variables "$@")
}

# variables [VARIABLE=VALUE]... COMMAND...: with which it runs, one on a line; in a subshell
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

# matters WHAT VARIABLE: to this part or program, which does not have it without saying
matters() {
	local program=$install/unwind/$1
	case $1-$2 in
	ftrace-UNWIND_FTRACE) return 0 ;;
	*-UNWIND_*) grep -qs "$2" "$program" ;;
	*) [ -e "$program" ] ;;
	esac
}

# is_part KIND: whether make test has it
is_part() {
	[[ " ${parts//$'\n'/ } " == *" $1 "* ]]
}

# with_variables NAME: add to each command that runs a test of this part again the variables
# of the part that matter to the test; leave out a command for a part that make test has not
with_variables() {
	local line what variable
	while IFS= read -r line; do
		what=${line#    again: make test T=}
		[ "${what%% *}" != "${1#*-}" ] || is_part "${1#*-}" || continue
		printf '%s' "$line"
		while [ "$what" != "$line" ] && read -r variable && [ -n "$variable" ]; do
			! matters "${what%%[. ]*}" "${variable%%=*}" || printf ' %s' "$variable"
		done <<< "${told[$1]}"
		echo
	done
}

# alone LIMIT COMMAND...: instead of the shell of a part. It ends with the check, however
# that ends, and so does what it has started and left in its process group.
# shellcheck disable=SC2317	# called by a part
alone() {
	exec setpriv --pdeathsig TERM timeout -k 30 "$@"
}

# With a time: how far the check is.
tell() {
	printf 'check: %2d:%02d [%2d/%d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) \
		"$over" "${#queued[@]}" "$*"
}

# start NAME: in the background, its process in running
start() {
	local log=$dir/$1
	rm -rf "${log:?}"
	mkdir -p "$log"
	eval "${job[$1]}" > "$log/output" 2> "$log/errors" < /dev/null &
	running[$!]=$1
	seconds[$1]=$SECONDS
}

# Wait for a part; leaves its name and status there.
wait_one() {
	local pid
	wait -n -p pid "${!running[@]}"
	status=$?
	name=${running[$pid]}
	unset "running[$pid]"
	# It did not even heed the TERM when its time was over.
	[ "$status" != 137 ] || grep -q '^vm: ' "$dir/$name/errors" || status=124
	seconds[$name]=$((SECONDS - seconds[$name]))
}

# Count what a part reported: p, f and s, and the text of what failed in its log/count.
count() {
	local log=$dir/$1 results=$dir/$1/output
	[ "${1#*-}" != kunit ] || results=$log/console.log
	"$here/results.py" "$1" "$results" | with_variables "$1" > "$log/count"
	read -r _ p f s < <(tail -n 1 "$log/count")
	p=${p:-0} f=${f:-1} s=${s:-0}
}

# failures LOG: what failed in a part that was counted
failures() {
	grep -E '^(FAILED|    )' "$1/count"
}

# names LOG: of the tests that failed in a part that was counted
names() {
	failures "$1" | sed -nE 's/^FAILED [^:]*: //p' | sort -u
}

# may_repeat NAME STATUS: whether this is no splat, leak, lockup, sudden end or finding
may_repeat() {
	[ -z "${once-}" ] || return 1
	case $1-$2 in
	*-120 | *-121 | *-123 | *-124 | host-*-fuzz-*) return 1 ;;
	esac
}

# during NAME: what a part was doing when it ended, and how to do that again
during() {
	local what
	what=$(awk '
		/^# [a-z0-9_.]+: starts$/ { split($2, word, /[.:]/); what = word[1] }
		/^# # +RUN / { what = word[1] "." $4 }
		/^# [a-z0-9_.]+: [0-9]+ s$/ { what = "" }
		END { print what }' "$dir/$1/output")
	[ -n "$what" ] || return 0
	echo "    in $what"
	[ "${1#*-}" != kselftest-intel ] || what=kselftest-intel
	echo "    again: make test T=$what KERNEL=${1%%-*}" | with_variables "$1"
}

# settle NAME STATUS: add a part up, print its failures; the last word on it
settle() {
	local why="" p f s
	count "$1"
	if [ "$2" -ge 120 ]; then
		why=$(sed -n 's/^vm: //p' "$dir/$1/errors" | head -n 1)
		[ "$2" != 124 ] || why=${why:-it took too long}
		why=${why:-it ended with status $2}
	elif [ "$2" != 0 ] && [ "$f" = 0 ]; then
		why="no test failed, but the part ended with status $2"
	elif [ ! -s "$dir/$1/count" ]; then
		why="its results could not be counted"
	fi
	failures "$dir/$1"
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	table+=$(printf '%-24s %6d %6d %7d %6d s' "$1" "$p" "$f" "$s" "${seconds[$1]}")$'\n'
	[ -z "$why" ] || { cat "$dir/$1/errors"; broken "$1" "$why"; during "$1"; }
}

# ended NAME STATUS: settle it, or keep it for a second run
ended() {
	local p f s others
	count "$1"
	over=$((over + 1))
	others=$(for pid in "${!running[@]}"; do
		printf ' %s (%d s)' "${running[$pid]}" $((SECONDS - seconds[${running[$pid]}]))
	done)
	tell "$1: $p passed, $f failed, ${seconds[$1]} s${others:+; running:$others}"
	if [ "$f" = 0 ] && [ "$2" = 0 ]; then
		settle "$1" 0
	elif may_repeat "$1" "$2"; then
		suspects+=("$1")
	else
		settle "$1" "$2"
	fi
}

# again NAME: run it alone; what failed the first time is unsteady if it does not now
again() {
	local name=$1 status first=$dir/$1.first p f s line
	tell "$1 failed and is run once more, alone"
	rm -rf "$first"
	mv "$dir/$1" "$first"
	sed -i "s#$dir/$1/#$first/#" "$first/count"
	failures "$first" | sed 's/^/first run: /'
	start "$1"
	wait_one
	count "$name"
	# A guest that the kernel or the emulator took down did not come to all of them.
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
		# One more than there are CPUs, because some wait a lot.
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
}

# shellcheck disable=SC2317	# called by a trap
stop_parts() {
	echo "check: interrupted" >&2
	[ "${#running[@]}" = 0 ] || kill "${!running[@]}" 2> /dev/null
	wait
}

# broken PART REASON
broken() {
	echo "FAILED $1: $2"
	failed=$((failed + 1))
	table+=$(printf '%-24s %s' "$1" "$2")$'\n'
	[ "$(df -Pm "$dir" | awk 'NR == 2 { print $4 }')" -ge 50 ] ||
		echo "check: the disk of $dir is full"
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
