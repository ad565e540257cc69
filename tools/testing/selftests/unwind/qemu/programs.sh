#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# In the guest: run installed kselftest programs, or single tests of them.
#
#   programs.sh DIR PROGRAM[.TEST]...
#
# DIR is where the kselftests are installed. TEST is the name of a test, or FIXTURE.TEST, or
# FIXTURE.VARIANT.TEST. Prints TAP, then which programs failed or were skipped, and how many. A
# program that runs no test has failed. The status is 1 if a program failed.
#
# This does the work of run_kselftest.sh, because that starts two dozen processes for each
# program: on the debug kernel these take longer than most tests.
#
# Environment: UNWIND_TIMEOUT, the seconds that a program may take.
set -u

dir=$1
shift
# Each result is a line of this file: passed, skipped or failed, and the name.
results=$(mktemp)
status_file=$results.status

# run_test PROGRAM[.TEST]: run it with line-buffered output, and keep its status in a file. Each
# test is a process group of its own, which timeout does not reach. But all are in one session: end
# what is left of it, because it would keep the pipe of the output open.
run_test() {
	option=
	case $1 in
	*.*.*) option=-r ;;
	*.*) option=-t ;;
	esac
	# shellcheck disable=SC2016	# the dollar signs are those of the session's shell
	setsid -w sh -c 'echo $$ > "$0"; exec timeout -k 30 "$@"' "$status_file.session" \
		"${UNWIND_TIMEOUT:-600}" stdbuf --output=L "./${1%%.*}" \
		${option:+"$option" "${1#*.}"} 2>&1
	echo $? > "$status_file"
	pkill -KILL -s "$(cat "$status_file.session")"
}

# those RESULT: list the names with this result
those() {
	sed -n "s/^$1 //p" "$results" | paste -sd ' '
}

# total RESULT: count them
total() {
	grep -c "^$1 " "$results"
}

[ $# -gt 0 ] || { echo "programs: there are none to run" >&2; exit 1; }
cd "$dir/unwind" || exit 1
echo "1..$#"
nr=0
for name; do
	nr=$((nr + 1))
	# Drop the last program's status: this program may kill the shell that writes it.
	rm -f "$status_file" "$status_file".*
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
	0)
		echo "ok $nr selftests: unwind: $name"
		echo "passed $name" >> "$results"
		;;
	4)
		echo "ok $nr selftests: unwind: $name # SKIP"
		echo "skipped $name" >> "$results"
		;;
	*)
		echo "not ok $nr selftests: unwind: $name # exit=$status"
		echo "failed $name" >> "$results"
		;;
	esac
done
for result in failed skipped; do
	names=$(those $result)
	[ -z "$names" ] || echo "# $result: $names"
done
echo "# programs: $(total passed) passed, $(total failed) failed, $(total skipped) skipped"
failed=$(total failed)
rm -f "$results" "$status_file"*
[ "$failed" = 0 ]
