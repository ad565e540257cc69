#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# make bench: what a sample costs in instructions and bytes, for each way to get
# user callchains, side by side in one boot.
#
#   bench.sh KERNEL-BUILD-DIR OUTPUT-DIR
#
# The machine has one CPU, whose time is the number of instructions that it ran
# (-icount shift=0). So figures do not depend on the host, and repeat.
set -eu -o pipefail

here=$(cd "$(dirname "$0")" && pwd)
kernel=$1
out=$2
begin=$SECONDS

rm -rf "$out"
mkdir -p "$out"
gcc -Wall -Wextra -O2 -fno-omit-frame-pointer -static -o "$out/bench-load" "$here/bench-load.c"

ICOUNT=1 OUT=$out LOG=$out/log TIMEOUT=${TIMEOUT:-1200} \
	"$here/vm.sh" run "$kernel" "'$here/guest-bench.sh' '$out/bench-load' ${ROUNDS:-3}"
echo
"$here/bench-table.py" "$out"
echo
echo "bench: $((SECONDS - begin)) s; the recordings are in $out"
