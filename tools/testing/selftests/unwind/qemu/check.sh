#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Everything that must pass, on kernels that are built: check.sh KERNEL...
#
# Each part boots its own VM, so that a part that takes the kernel down hides no
# other. Parts run side by side, one more than there are CPUs, because perf waits a
# lot. Prints every failing test, a table, the number of skipped tests if there are
# any, and as the last line "N passed, N failed". A part that could not run is a
# failure.
#
# Environment: BUILD (the build directory), LINUX, PERF_BIN.
set -u

here=$(cd "$(dirname "$0")" && pwd)
dir=$BUILD/check
table=
passed=0
failed=0
skipped=0

# timed FILE COMMAND...: leaves status and seconds in FILE
timed() {
	local file=$1 begin=$SECONDS
	shift
	"$@"
	echo "$? $((SECONDS - begin))" > "$file"
}

# guest KERNEL PART ARGUMENT...: one boot
# shellcheck disable=SC2317	# called by timed
guest() {
	local kernel=$1 part=$2 leak=""
	local log=$dir/$kernel-$part
	shift 2
	[ "$kernel" != debug ] || leak=1
	MEM=$([ "$kernel" = plain ] && echo 1G || echo 2G) LEAK=$leak CHECK=1 LOG=$log \
		TIMEOUT=$([ "$kernel" = plain ] && echo 900 || echo 1800) \
		APPEND=$([ "$part" = kunit ] && echo kunit.enable=1) GUEST_PATH=$PERF_BIN \
		"$here/vm.sh" run "$BUILD/kernel-$kernel" "sh $here/guest-check.sh ${part%-*} $*" \
		> "$log/output" 2> "$log/errors"
}

# part KERNEL PART ARGUMENT...: start it when a CPU is free
part() {
	local kernel=$1 name=$2
	echo "check: $name $kernel"
	rm -rf "${dir:?}/$kernel-$name"
	mkdir -p "$dir/$kernel-$name"
	while [ "$(jobs -rp | wc -l)" -gt "$(nproc)" ]; do
		wait -n
	done
	if [ "$name" = harness ]; then
		timed "$dir/$kernel-$name/result" "$here/selftest.sh" "$BUILD/kernel-$kernel" \
			> "$dir/$kernel-$name/output" 2> "$dir/$kernel-$name/errors" &
	else
		timed "$dir/$kernel-$name/result" guest "$@" &
	fi
	parts+=("$kernel-$name")
}

# broken PART REASON: a part that could not run to its end is one failure more
broken() {
	echo "FAILED $1: $2"
	failed=$((failed + 1))
	table+=$(printf '%-20s %s' "$1" "$2")$'\n'
}

# settle KERNEL-PART: add up results, print failures
settle() {
	local log=$dir/$1 status seconds p f s results
	read -r status seconds < "$log/result"
	results=$log/output
	[ "${1#*-}" != kunit ] || results=$log/console.log
	"$here/results.py" "$1" "$results" > "$log/count"
	sed '$d' "$log/count"
	read -r _ p f s < <(tail -n 1 "$log/count")
	p=${p:-0} f=${f:-1} s=${s:-0}
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	table+=$(printf '%-20s %6d %6d %7d %6d s' "$1" "$p" "$f" "$s" "$seconds")$'\n'
	if [ "$status" -ge 120 ]; then
		cat "$log/errors"
		broken "$1" "$(sed -n 's/^vm: //p' "$log/errors" | head -n 1)"
	fi
}

# Read as a whole before it runs: an edit meanwhile must not reach this run.
{
mkdir -p "$dir"
parts=()
for kernel; do
	# The long ones first.
	if [ "$kernel" = plain ]; then
		for list in "$here"/perf-tests.*; do
			part "$kernel" "perf-${list##*.}" "$list"
		done
	fi
	[ "$kernel" != "$1" ] || part "$kernel" harness
	if make -s -C "$LINUX/tools/testing/selftests" TARGETS=unwind O="$dir/obj" \
		KHDR_INCLUDES="-isystem $BUILD/kernel-$kernel/usr/include" \
		INSTALL_PATH="$dir/kselftest" install > "$dir/kselftest.log" 2>&1 < /dev/null; then
		part "$kernel" kselftest "$dir/kselftest"
	else
		tail -n 20 "$dir/kselftest.log"
		broken "$kernel-kselftest" "the tests did not build, see $dir/kselftest.log"
	fi
	part "$kernel" kunit
done
wait
for name in "${parts[@]}"; do
	settle "$name"
done

echo
printf '%-20s %6s %6s %7s\n%s\n' part passed failed skipped "$table"
[ "$skipped" = 0 ] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
exit
}
