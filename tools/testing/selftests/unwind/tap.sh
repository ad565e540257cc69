# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# For tests of tools: a directory to work in, which is the current one, and results in TAP.
# To be sourced with the words of the command line: DIRECTORY [WORDS]. The directory is where
# the programs are; with WORDS, only tests with these in their name run.
# shellcheck disable=SC2034	# bin and work are used there
set -u

bin=$(cd "$1" && pwd)
only=${2-}
work=$(mktemp -d)
trap 'clean_up > /dev/null 2>&1; rm -rf "$work"' EXIT
cd "$work" || exit 1

nr=0
bad=0
why=

# clean_up: what is to be done behind each test, however it has ended; where that is something, it
# is defined anew
clean_up() {
	:
}

# check NAME COMMAND...: one result
check() {
	local name=$1 status
	shift
	[[ $name == *"$only"* ]] || return
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
		sed 's/^#* */# /' output | tail -n 60
		echo "not ok $nr - $name"
		bad=$((bad + 1))
	fi
}

# skip NAME REASON: a test that needs what is not there
skip() {
	[[ $1 == *"$only"* ]] || return
	nr=$((nr + 1))
	echo "ok $nr - $1 # SKIP $2"
}

# skipped REASON: what a test returns when it finds that it needs what is not there
skipped() {
	why=$1
	return 4
}

# fail WORD...: why the test fails
fail() {
	echo "$*"
	return 1
}

# soon COMMAND...: it is true before long
soon() {
	for _ in $(seq 600); do
		"$@" > /dev/null 2>&1 && return
		sleep 0.1
	done
	ps ax | tail -n 20
	fail "this does not happen: $*"
}

# finish: the plan; fails if a test did
finish() {
	echo "1..$nr"
	[ "$bad" = 0 ]
}
