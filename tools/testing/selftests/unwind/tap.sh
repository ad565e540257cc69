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
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

nr=0
bad=0

# check NAME COMMAND...: one result
check() {
	local name=$1
	shift
	[[ $name == *"$only"* ]] || return
	nr=$((nr + 1))
	if "$@" > output 2>&1; then
		sed -n 's/^# */# /p' output
		echo "ok $nr - $name"
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

# fail WORD...: why the test fails
fail() {
	echo "$*"
	return 1
}

# finish: the plan; fails if a test did
finish() {
	echo "1..$nr"
	[ "$bad" = 0 ]
}
