#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Everything that must pass, on kernels that are built: check.sh KERNEL...
#
# Each part boots its own VM, so that a part that takes the kernel down hides no
# other. Prints every failing test, a table, and as the last line
# "N passed, N failed[, N skipped]". A part that could not run is a failure.
#
# Environment: BUILD (the build directory), LINUX, PERF_BIN.
set -u

here=$(cd "$(dirname "$0")" && pwd)
dir=$BUILD/check
table=
passed=0
failed=0
skipped=0

# count PART FILE...: add up results, print failures
count() {
	local p f s
	"$here/results.py" "$@" > "$dir/count"
	sed '$d' "$dir/count"
	read -r _ p f s < <(tail -n 1 "$dir/count")
	p=${p:-0} f=${f:-1} s=${s:-0}
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	table+=$(printf '%-18s %6d %6d %7d %6d s' "$1" "$p" "$f" "$s" $((SECONDS - begin)))$'\n'
}

# broken PART REASON: a part that could not run to its end is one failure more
broken() {
	echo "FAILED $1: $2"
	failed=$((failed + 1))
	table+=$(printf '%-18s %s' "$1" "$2")$'\n'
}

# guest KERNEL PART ARGUMENT...: one boot; its output and log become results
guest() {
	local kernel=$1 part=$2 name="$2 $1" leak="" status
	local log=$dir/$kernel-$part
	shift 2
	begin=$SECONDS
	echo "check: $name"
	[ "$kernel" != debug ] || leak=1
	rm -rf "$log"
	mkdir -p "$log"
	MEM=$([ "$kernel" = plain ] && echo 1G || echo 2G) LEAK=$leak CHECK=1 LOG=$log \
		TIMEOUT=$([ "$kernel" = plain ] && echo 600 || echo 1200) \
		APPEND=$([ "$part" = kunit ] && echo kunit.enable=1) GUEST_PATH=$PERF_BIN \
		"$here/vm.sh" run "$BUILD/kernel-$kernel" "sh $here/guest-check.sh $part $*" \
		> "$log/output" 2> "$log/errors"
	status=$?
	if [ "$part" = kunit ]; then
		count "$name" "$log/console.log"
	else
		count "$name" "$log/output"
	fi
	if [ "$status" -ge 120 ]; then
		cat "$log/errors"
		broken "$name" "$(sed -n 's/^vm: //p' "$log/errors" | head -n 1)"
	fi
}

# Read as a whole before it runs: an edit meanwhile must not reach this run.
{
mkdir -p "$dir"
for kernel; do
	if [ "$kernel" = "$1" ]; then
		begin=$SECONDS
		echo "check: harness $kernel"
		"$here/selftest.sh" "$BUILD/kernel-$kernel" > "$dir/harness"
		count "harness $kernel" "$dir/harness"
	fi
	guest "$kernel" kunit
	begin=$SECONDS
	if make -s -C "$LINUX/tools/testing/selftests" TARGETS=unwind O="$dir/obj" \
		KHDR_INCLUDES="-isystem $BUILD/kernel-$kernel/usr/include" \
		INSTALL_PATH="$dir/kselftest" install > "$dir/kselftest.log" 2>&1 < /dev/null; then
		guest "$kernel" kselftest "$dir/kselftest"
	else
		tail -n 20 "$dir/kselftest.log"
		broken "kselftest $kernel" "the tests did not build, see $dir/kselftest.log"
	fi
	[ "$kernel" != plain ] || guest "$kernel" perf
done

echo
printf '%-18s %6s %6s %7s\n%s\n' part passed failed skipped "$table"
echo "$passed passed, $failed failed$([ "$skipped" = 0 ] || echo ", $skipped skipped")"
[ "$failed" = 0 ]
exit
}
