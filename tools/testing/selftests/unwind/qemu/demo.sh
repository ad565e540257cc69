#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# make demo: record a kernel-bound and a user-bound program in the VM, with each
# way to get user callchains; show the merged report, then the table.
#
#   demo.sh KERNEL-BUILD-DIR OUTPUT-DIR
set -eu -o pipefail

here=$(cd "$(dirname "$0")" && pwd)
kernel=$1
out=$2
begin=$SECONDS

rm -rf "$out"
mkdir -p "$out"
gcc -Wall -Wextra -O2 -g -fno-omit-frame-pointer \
	-fno-optimize-sibling-calls -fno-inline \
	-o "$out/demo-workload" "$here/demo-workload.c"

echo "demo: booting, then six recordings of a few seconds each"
OUT=$out LOG=$out/log TIMEOUT=${TIMEOUT:-300} \
	"$here/vm.sh" run "$kernel" "'$here/guest-demo.sh' '$out/demo-workload'"
echo
status=0
"$here/demo-table.py" "$out" || status=1
echo
echo "demo: $((SECONDS - begin)) s; the recordings are in $out"
exit "$status"
