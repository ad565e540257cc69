#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Are the deferred chains of a Go program as complete as those that are taken in place?
# test.sh DIRECTORY
#
# Run it on the kernel under test, as root. DIRECTORY is where make put the program. Needs
# perf on PATH. Records the program with --call-graph fp and with deferred; judge.py prints
# the results, in TAP. Environment: GO_MS, milliseconds for each phase of the program.
set -u

here=$(cd "$(dirname "$0")" && pwd)
stacks=$(cd "$1" && pwd)/stacks
stats=/sys/kernel/debug/unwind/stats
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
# perf keeps sections below HOME.
export HOME=$work
cd "$work" || exit 1

# broken FILE REASON: print the file instead of a result
broken() {
	sed 's/^/# /' "$1"
	printf '1..1\nnot ok 1 - %s\n' "$2"
	exit 1
}

moved() {
	awk '$1 == "empty_moved" { print $2 }' "$stats"
}

# recorded METHOD: record samples to METHOD.data. A timer takes them, because the machine may
# have no PMU. Build ids would cost a read of every mapped file.
recorded() {
	perf record -B -F 997 -e cpu-clock --call-graph "$1" -o "$1.data" -- \
		"$stacks" "${GO_MS:-1000}" > log 2>&1 < /dev/null ||
		broken log "perf record --call-graph $1"
}

script() {
	perf script --no-inline -F comm,ip,sym,dso -i "$1.data" > "$1.txt" 2> log < /dev/null ||
		broken log "perf script of $1"
}

# The first read of a file comes from the host, slowly: keep it out of the recordings.
"$stacks" 50 > log 2>&1 || broken log "the program"
recorded fp
before=$(moved)
recorded deferred
after=$(moved)
script fp
script deferred
"$here/judge.py" fp.txt deferred.txt "${before:-none}" "${after:-none}"
