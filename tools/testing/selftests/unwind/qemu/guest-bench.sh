#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# In the guest: the measurements of make bench, see bench.sh. Recordings and the
# file "times" go to /out: work, depth, way, round, nanoseconds.
#
#   guest-bench.sh LOAD ROUNDS
set -u

cd /tmp || exit 1
load=$1
rounds=$2

die() { echo "bench: $*" >&2; exit 1; }

# measure WORK DEPTH COUNT WAY ROUND
measure() {
	local name=$1-$2-$4-$5 ns
	case $4 in
	none)
		ns=$("$load" "$1" "$2" "$3") || die "$load failed"
		;;
	*)
		perf record -B -N --no-bpf-event -e cpu-clock -c 200000 --call-graph "$4" \
			-o "$name.data" -- "$load" "$1" "$2" "$3" > ns 2> log < /dev/null ||
			{ cat log; die "perf record failed"; }
		ns=$(cat ns)
		mv "$name.data" /out/ || die "no room for $name.data"
		;;
	esac
	echo "$1 $2 $4 $5 $ns" >> /out/times
}

# Once for the page cache.
perf record -B -N --no-bpf-event -e cpu-clock -c 200000 --call-graph deferred -o warm \
	-- "$load" read 5 1000 > /dev/null 2>&1

for round in $(seq "$rounds"); do
	echo "bench: round $round of $rounds"
	measure getppid 5 100000 none "$round"
	for depth in 5 100; do
		for way in none fp deferred dwarf,8192; do
			measure read "$depth" 150000 "$way" "$round"
			measure user "$depth" 150000 "$way" "$round"
		done
	done
done
cp /sys/kernel/debug/unwind/stats /out/
