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

# limited COMMAND...: run it for at most UNWIND_TIMEOUT seconds. Its status goes to a file, because
# the output goes to a pipe.
limited() {
	timeout -k 30 "${UNWIND_TIMEOUT:-600}" "$@" 2>&1
	echo $? > "$status_file"
}

# run_test PROGRAM[.TEST]: run it with line-buffered output. TEST is the name of a test, or
# FIXTURE.TEST, or FIXTURE.VARIANT.TEST.
run_test() {
	option=
	case $1 in
	*.*.*) option=-r ;;
	*.*) option=-t ;;
	esac
	limited stdbuf --output=L "./${1%%.*}" ${option:+"$option" "${1#*.}"}
}

# run_perf NAME [MUST-RUN]: run the perf tests that match NAME, and report what perf does not
run_perf() {
	# Drop the last status: this test may kill the shell that writes it.
	rm -f "$status_file"
	limited perf test -v "$1" < /dev/null | tee "$perf_file"
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
	# Do the work of run_kselftest.sh here, because it starts two dozen processes for each
	# program: on the debug kernel these take longer than most tests.
	cd "$2/unwind" || exit 1
	shift 2
	echo "1..$#"
	nr=0
	for name; do
		nr=$((nr + 1))
		# Drop the last program's status: this program may kill the shell that writes it.
		rm -f "$status_file" "$status_file.none" "$status_file.plan"
		echo "# $name: starts"
		read -r begin _ < /proc/uptime
		run_test "$name" | while IFS= read -r line; do
			printf '# %s\n' "$line"
			case $line in
			1..0)
				: > "$status_file.none"
				echo "# there is no such test; there are:"
				"./${name%%.*}" -l 2>&1 | sed 's/^/# /'
				;;
			1..[1-9]*)
				: > "$status_file.plan"
				;;
			esac
		done
		read -r end _ < /proc/uptime
		echo "# $name: $((${end%.*} - ${begin%.*})) s"
		status=$(cat "$status_file")
		[ "$status" != 0 ] || [ -e "$status_file.plan" ] || status="0 without a plan"
		[ ! -e "$status_file.none" ] || status=none
		case $status in
		0) echo "ok $nr selftests: unwind: $name" ;;
		4) echo "ok $nr selftests: unwind: $name # SKIP" ;;
		*) echo "not ok $nr selftests: unwind: $name # exit=$status" ;;
		esac
	done
	;;
ftrace)
	# The modules in the default directory are the host's, not those of this kernel.
	export MODPROBE_OPTIONS="-d $3"
	# Without --logdir, ftracetest writes to its own directory, which is read-only.
	"$2/ftracetest" --ktap --verbose --logdir /tmp/ftrace \
		"$2/test.d/user-unwind/${UNWIND_FTRACE:-}"
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
	grep -v '^#' "$2" | while IFS= read -r name; do
		echo "# $name: starts"
		read -r begin _ < /proc/uptime
		run_perf "$name" "$must_run"
		read -r end _ < /proc/uptime
		echo "# $name: $((${end%.*} - ${begin%.*})) s"
	done
	;;
esac
