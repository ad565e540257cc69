#!/bin/bash
# perf report of damaged features
# SPDX-License-Identifier: GPL-2.0

# What a file says about the machine, the command and the build-ids comes after its samples. Lengths
# and numbers there may be wrong: perf report may refuse them, but must not crash.

set -e

dir=$(mktemp -d /tmp/__perf_test.features.XXXXX)
data=${dir}/perf.data
bad=${dir}/bad.data

cleanup() {
	rm -rf "${dir}"
	trap - EXIT TERM INT
}
trap 'cleanup; exit 1' EXIT TERM INT

err=0

# damage OFFSET ESCAPES: report a copy with other bytes there
damage() {
	local rc=0
	cp "${data}" "${bad}"
	printf '%b' "$2" | dd of="${bad}" bs=1 seek="$1" conv=notrunc status=none
	perf report --stdio -I -i "${bad}" > /dev/null 2>&1 || rc=$?
	if [ "${rc}" -ge 128 ] && [ "${rc}" -lt 160 ]; then
		echo "A crash, $2 at $1 [Failed]"
		err=1
	fi
}

perf record -q -e '{cpu-clock:u,task-clock:u}' -c 100000000 -o "${data}" -- perf test -w noploop 1 \
	2> /dev/null

# number OFFSET: print the number of eight bytes there
number() {
	od -A n -t d8 -j "$1" -N 8 "${data}" | tr -d ' '
}

# The sections of features are listed after the samples. The first one begins with a build-id,
# which says how large it is, and how large the build-id is; what is left of it is a name.
features=$(($(number 40) + $(number 48)))
record=$(number "${features}")
head -c 100000 /dev/zero >> "${data}"
damage $((record + 6)) '\xff\xff'
damage $((record + 6)) '\x00\x00'
damage $((record + 32)) '\xff'

# Others begin with a number of things, or with the length of the first one; and they may not be
# where the list says.
for at in $(seq "${features}" 16 $((record - 16))); do
	section=$(number "${at}")
	damage "${section}" '\xff\xff\xff\xff'
	damage "${section}" '\xe8\x03\x00\x00'
	damage $((section + 4)) '\xff\xff\xff\xff'
	damage $((at + 8)) '\xff\xff\xff\xff\xff\x00\x00\x00'
done

cleanup
exit ${err}
