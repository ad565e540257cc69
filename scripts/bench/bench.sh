#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# make bench: measure the cost of a sample in instructions and bytes for each way to get user
# callchains, in one boot; the cost of a system call and of a context switch without a
# profiler, on the base and with the series; that of data of all tasks; that of detached events
# beside ordinary ones; the cost of frames
# that only SFrame can unwind, and of a section of a C library's size. For programs of the
# distribution, which have neither frame pointers nor sections: the cost of starting perf
# record with cached sections, and the cost and the contents of recordings. What perf record does
# at its end.
#
#   bench.sh BASE-BUILD-DIR KERNEL-BUILD-DIR OUTPUT-DIR
#
# The machine has one CPU, whose clock counts the executed instructions (-icount
# shift=0): figures do not depend on the host, and are reproducible.
#
# NMIs also hit both kernels at arbitrary instructions to check the user registers in the
# samples: those of the base are known to be wrong.
#
# Environment: LINUX, the source tree; ROUNDS, 3 if not set; GUEST_PATH, where perf is, if
# that is not on PATH; AGAINST, the table of another run to compare this one with.
set -eu -o pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
unwind=$top/tools/testing/selftests/unwind
base=$1
kernel=$2
out=$3
begin=$SECONDS
# It may be in the directory that is about to be removed.
old=${AGAINST:+$(< "$AGAINST")}

# guest KERNEL-BUILD-DIR WHAT: one boot, see guest-bench.sh
guest() {
	ICOUNT=1 OUT=$out LOG=$out/log TIMEOUT=${TIMEOUT:-2400} \
		"$unwind/qemu/vm.sh" run "$1" \
		"'$here/guest-bench.sh' $2 '$out' ${ROUNDS:-3}"
}

rm -rf "$out"
mkdir -p "$out"
gcc -Wall -Wextra -O2 -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer -static \
	-o "$out/bench-load" "$here/bench-load.c" "$here/bench-chain.S"
# A file without a build-id can have no section.
gcc -Wall -Wextra -O2 -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer -static \
	-Wl,--build-id=none -o "$out/bench-unnamed" "$here/bench-load.c" "$here/bench-chain.S"
gcc -Wall -Wextra -O2 -static -isystem "$kernel/usr/include" \
	-o "$out/bench-bpf" "$here/bench-bpf.c"
gcc -Wall -Wextra -O2 -static -isystem "$kernel/usr/include" \
	-o "$out/bench-attach" "$here/bench-attach.c"
gcc -Wall -Wextra -O2 -static -isystem "$kernel/usr/include" \
	-o "$out/bench-recorder" "$here/bench-recorder.c"
gcc -Wall -Wextra -O2 -fomit-frame-pointer -static -Wa,--gsframe \
	-o "$out/bench-chain" "$here/bench-load.c" "$here/bench-chain.S" ||
	{ echo "bench: SFrame needs an assembler that can write it (binutils 2.40)" >&2; exit 1; }
for packed in "$unwind"/sframe/frames.*.gz.base64; do
	program=$out/$(basename "$packed" .gz.base64)
	base64 -d "$packed" | gunzip > "$program"
	chmod +x "$program"
done

# Run user_regs on a kernel; it must fail on the base. Leave out hostile_stack_pointers, which
# triggers a WARN there.
shoot() {
	local status=0
	LOG=$out/log TIMEOUT=900 "$unwind/qemu/vm.sh" run "$2" \
		"'$out/selftest/perf/user_regs' -T hostile_stack_pointers" \
		> "$out/regs-$1" || status=$?
	[ "$status" != "$([ "$1" = base ] && echo 1 || echo 0)" ] || return 0
	cat "$out/regs-$1"
	echo "bench: user_regs ended with $status on $1" >&2
	exit 1
}

mkdir "$out/selftest"
make -s -C "$LINUX/tools/testing/selftests/unwind" OUTPUT="$out/selftest" \
	KHDR_INCLUDES="-isystem $kernel/usr/include" "$out/selftest/perf/user_regs" \
	"$out/selftest/perf/exec_loop" > "$out/log.selftest"
mkdir "$out/sframe"
make -s -C "$LINUX/tools/sframe" OUTPUT="$out/sframe/" "$out/sframe/bench" "$out/sframe/sframe"
# The converter also converts the functions of the C library that are in the program, about 1100.
gcc -Wall -Wextra -O2 -fomit-frame-pointer -static -DFUNCS=2600 \
	-o "$out/bench-bare" "$here/bench-load.c" "$here/bench-chain.S"
for version in 2 3; do
	"$out/sframe/sframe" install -f $version -o "$out/bench-chain.v$version" \
		"$out/bench-bare"
done
for file in bench-chain{,.v2,.v3}; do
	size -A "$out/$file" | awk -v name="$file" '$1 == ".sframe" { print name, $2 }'
done > "$out/sections-chain"
echo "bench: registers of samples in NMI"
shoot base "$base"
shoot series "$kernel"

guest "$base" base
# Room for 10000 threads.
MEM=3G guest "$kernel" tasks
guest "$kernel" ends
guest "$kernel" all

# Count the complete user stacks on the host, which is faster and gives the same result,
# because the files of the guest have the same names.
mkdir "$out/home"
for file in "$out"/stock-*-1.data; do
	name=$(basename "$file" -1.data)
	figures=$(HOME=$out/home PATH=${GUEST_PATH:+$GUEST_PATH:}$PATH \
		perf script --no-inline -f -i "$file" -F ip,sym,dso,dsoff 2> "$out/log.script" |
		"$top/tools/sframe/test/complete.py")
	echo "$name ${figures%%$'\n'*}" >> "$out/complete"
done
echo
status=0
"$here/bench-table.py" "$out" > "$out/table" || status=1
cat "$out/table"
echo
[ -z "$old" ] || "$here/bench-against.py" <(echo "$old") "$out/table" || status=1
echo "bench: $((SECONDS - begin)) s; this table and the recordings are in $out"
exit "$status"
