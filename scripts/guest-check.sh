#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# In the guest: run one part of make check, results on stdout. If perf skips a test of
# this series, that is a failure, because nothing was tested.
#
#   guest-check.sh kunit | kselftest DIR PROGRAM... | perf LIST | ftrace DIR |
#	stackprof SOURCE PROGRAMS | sframe SOURCE PROGRAMS |
#	record SOURCE PROGRAMS | go SOURCE PROGRAMS
set -u

status_file=${TMPDIR:-/tmp}/status
perf_file=${TMPDIR:-/tmp}/perf-test

# run_perf NAME [MUST-RUN]: run the perf tests that match NAME, for at most UNWIND_TIMEOUT
# seconds, and report what perf does not
run_perf() {
	# Drop the last status: this test may kill the shell that writes it.
	rm -f "$status_file"
	{
		timeout -k 30 "${UNWIND_TIMEOUT:-600}" perf test -v "$1" < /dev/null 2>&1
		echo $? > "$status_file"
	} | tee "$perf_file"
	status=$(cat "$status_file" || echo 255)
	if [ "$status" = 124 ]; then
		echo "  0: perf test '$1' did not end within ${UNWIND_TIMEOUT:-600} s : FAILED!"
	elif [ "$status" -ge 126 ]; then
		echo "  0: perf test '$1' ended with status $status : FAILED!"
	elif ! grep -qE ': (Ok|FAILED!|Skip)' "$perf_file"; then
		echo "  0: no perf test matches '$1' : FAILED!"
	elif [ -n "${2-}" ] && grep -q ': Skip' "$perf_file"; then
		echo "  0: perf skips a test of '$1' : FAILED!"
	fi
}

case $1 in
kunit)
	# The suites ran at boot; their results are in the kernel log.
	;;
kselftest)
	shift
	exec "${0%/*}/../tools/testing/selftests/unwind/qemu/programs.sh" "$@"
	;;
ftrace)
	# The modules in the default directory are the host's, not those of this kernel.
	export MODPROBE_OPTIONS="-d $3"
	# Without --logdir, ftracetest writes to its own directory, which is read-only.
	# shellcheck disable=SC2086	# a pattern
	"$2/ftracetest" --ktap --verbose --logdir /tmp/ftrace \
		"$2/test.d/user-unwind/"${UNWIND_FTRACE:-}
	;;
stackprof)
	"$2/test/test.sh" "$3"
	;;
sframe)
	"$2/test/run.sh" "$3"
	;;
record)
	"$2/test/perf.sh" "$3"
	;;
go)
	"$2/test.sh" "$3"
	;;
perf)
	case $2 in
	*.deferred) must_run=1 ;;
	*) must_run= ;;
	esac
	if [ -n "${UNWIND_PERF-}" ]; then
		echo "$UNWIND_PERF"
	else
		grep -v '^#' "$2"
	fi | while IFS= read -r name; do
		echo "# $name: starts"
		read -r begin _ < /proc/uptime
		run_perf "$name" "$must_run"
		read -r end _ < /proc/uptime
		echo "# $name: $((${end%.*} - ${begin%.*})) s"
	done
	;;
esac
