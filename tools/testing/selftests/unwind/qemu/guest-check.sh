#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# In the guest: one part of make check, results on stdout.
#
#   guest-check.sh kunit | kselftest DIR | perf
set -u

here=$(dirname "$0")
case $1 in
kunit)
	# The suites ran at boot; their results are in the kernel log.
	;;
kselftest)
	"$2/run_kselftest.sh" 2>&1
	;;
perf)
	grep -v '^#' "$here/perf-tests.list" | while IFS= read -r name; do
		perf test -v "$name" > /tmp/perf-test 2>&1 < /dev/null
		cat /tmp/perf-test
		grep -qE ': (Ok|FAILED!|Skip)' /tmp/perf-test ||
			echo "  0: no perf test matches '$name' : FAILED!"
	done
	;;
esac
