#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# In the guest: one part of make check, results on stdout. A test of this series
# that perf skips has tested nothing here, which is a failure.
#
#   guest-check.sh kunit | kselftest DIR PROGRAM... | perf LIST
set -u

case $1 in
kunit)
	# The suites ran at boot; their results are in the kernel log.
	;;
kselftest)
	run=$2/run_kselftest.sh
	shift 2
	for name; do
		set -- "$@" -t "unwind:$name"
		shift
	done
	"$run" -o "${UNWIND_TIMEOUT:-600}" "$@" 2>&1
	;;
perf)
	grep -v '^#' "$2" | while IFS= read -r name; do
		perf test -v "$name" > /tmp/perf-test 2>&1 < /dev/null
		cat /tmp/perf-test
		grep -qE ': (Ok|FAILED!|Skip)' /tmp/perf-test ||
			echo "  0: no perf test matches '$name' : FAILED!"
		case $2 in
		*.deferred)
			! grep -q ': Skip' /tmp/perf-test ||
				echo "  0: perf skips a test of '$name' : FAILED!"
			;;
		esac
	done
	;;
esac
