# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# For tests of tools: sets up a temporary working directory, and prints results in TAP. Source
# it with the arguments of the command line: DIRECTORY [REGEX]. DIRECTORY holds the programs;
# with REGEX, or UNWIND_NAMES in its place, only tests whose names match it run.
# shellcheck disable=SC2034	# bin and work are used there
set -u

bin=$(cd "$1" && pwd)
only=${2-${UNWIND_NAMES-}}
work=$(mktemp -d)
trap 'clean_up > /dev/null 2>&1; rm -rf "$work"' EXIT
cd "$work" || exit 1

nr=0
bad=0
why=

# clean_up: runs after each test, even a failed one; tests that need a cleanup redefine it
clean_up() {
	:
}

# check NAME COMMAND...: run one test, and print its result
check() {
	local name=$1 status
	shift
	[[ $name =~ $only ]] || return
	nr=$((nr + 1))
	why=
	"$@" > output 2>&1
	status=$?
	clean_up > /dev/null 2>&1
	if [ $status = 0 ]; then
		sed -n 's/^# */# /p' output
		echo "ok $nr - $name"
	elif [ $status = 4 ] && [ -n "$why" ]; then
		echo "ok $nr - $name # SKIP $why"
	else
		# Without the plan of tests within this one, of which some may be left out.
		sed 's/^#* */# /; /^# 1\.\.[0-9]*$/d' output > shown
		head -n -60 shown | grep --no-group-separator -B 10 '^# \(# \)*not ok '
		tail -n 60 shown
		echo "not ok $nr - $name"
		bad=$((bad + 1))
	fi
}

# skip NAME REASON: skip a test because something that it needs is missing
skip() {
	[[ $1 =~ $only ]] || return
	nr=$((nr + 1))
	echo "ok $nr - $1 # SKIP $2"
}

# skipped REASON: a test returns this when it finds that something is missing
skipped() {
	why=$1
	return 4
}

# fail WORD...: print why the test fails, and fail
fail() {
	echo "$*"
	return 1
}

# soon COMMAND...: wait up to a minute until COMMAND succeeds
soon() {
	for _ in $(seq 600); do
		"$@" > /dev/null 2>&1 && return
		sleep 0.1
	done
	ps ax | tail -n 20
	fail "this does not happen: $*"
}

# finish: print the plan; fails if a test failed
finish() {
	echo "1..$nr"
	[ "$bad" = 0 ]
}
