#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# make demo: record perf bench sched messaging and stock programs in the VM, with each way
# to get user callchains; show what the first recording missed, the merged report, and the
# tables.
#
#   demo.sh KERNEL-BUILD-DIR OUTPUT-DIR
#
# GUEST_PATH has the tree's perf, for the guest and for this script.
set -eu -o pipefail

here=$(cd "$(dirname "$0")" && pwd)
qemu=$here/../../tools/testing/selftests/unwind/qemu
kernel=$1
out=$2
begin=$SECONDS

rm -rf "$out"
mkdir -p "$out"
echo "demo: booting, then about twenty recordings of a few seconds each"
OUT=$out LOG=$out/log TIMEOUT=${TIMEOUT:-1200} \
	"$qemu/vm.sh" run "$kernel" "'$here/guest-demo.sh'" ||
	{ echo "demo: stopped; the log is in $out/log" >&2; exit 1; }
echo
status=0
"$here/demo-table.py" "$out" "$GUEST_PATH/perf" || status=1
echo
echo "demo: $((SECONDS - begin)) s; the recordings are in $out"
exit "$status"
