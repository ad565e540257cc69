#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Say which lines of the series each kselftest program runs, and KUnit, and the tests of ftrace:
#
#   coverage.sh LINUX KERNEL-BUILD-DIR DIRECTORY [NAME...]
#
# NAME is a program, or ftrace. The kernel counts how often each line runs. One guest runs the
# tests one after the other, with counts that begin at 0; those of KUnit include the boot's.
#
# DIRECTORY gets the results, and a list of the lines that nothing runs, in "missed".
set -eu -o pipefail

linux=$1
kernel=$2
out=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
selftests=$linux/tools/testing/selftests

rm -rf "$out/counts"
mkdir -p "$out/counts"
echo "coverage: building the programs (log: $out/build.log)"
make -s -C "$linux" O="$kernel" ARCH=x86 headers
make -s -j"$(nproc)" -C "$selftests" TARGETS=unwind O="$out/obj" \
	KHDR_INCLUDES="-isystem $kernel/usr/include" INSTALL_PATH="$out/kselftest" \
	CC="${KHOSTCC:-gcc}" install > "$out/build.log" 2>&1 < /dev/null ||
	{ tail -n 20 "$out/build.log"; exit 1; }
# shellcheck disable=SC2046	# its words
[ $# != 0 ] || set -- $(sed 's/.*://' "$out/kselftest/kselftest-list.txt") ftrace
echo "coverage: running KUnit and $# more, half a minute for each (log: $out/output)"
status=0
OUT=$out/counts LOG=$out TIMEOUT=7200 APPEND='kunit.enable=1' "$selftests/unwind/qemu/vm.sh" \
	run "$kernel" "sh $here/coverage-guest.sh $linux $kernel $out/kselftest $*" \
	> "$out/output" < /dev/null || status=$?
grep -E '^not ok|# SKIP$' "$out/output" || true
[ "$status" = 0 ] || { echo "coverage: the guest ended with status $status"; exit 1; }
exec "$here/coverage.py" "$linux" "$kernel" "$out"
