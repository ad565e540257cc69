#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# In the guest: the measurements of make bench, see bench.sh. To /out go recordings
# and three files: "times" (work, depth, way, round, nanoseconds) and "chains"
# (recording, samples, those that reach main, those that reach _start), and "bpf"
# (program, depth, round, nanoseconds, samples).
#
#   guest-bench.sh base|all LOAD BENCH-BPF ROUNDS
set -u

cd /tmp || exit 1
what=$1
load=$2
bpf=$3
rounds=$4

die() { echo "bench: $*" >&2; exit 1; }

# idle NAME ROUND
idle() {
	local ns
	ns=$("$load" getppid 5 100000) || die "$load failed"
	echo "getppid 5 $1 $2 $ns" >> /out/times
}

# record EVENT WAY FILE LOAD-ARGUMENTS: prints nanoseconds
record() {
	local event=$1 way=$2 file=$3 how=(--call-graph "$2")
	shift 3
	[ "$way" != regs ] || how=("--user-regs=ip,sp,bp")
	perf record -B -N --no-bpf-event -e "$event" -c 200000 "${how[@]}" \
		-o "$file" -- "$load" "$@" 2> log < /dev/null ||
		{ cat log >&2; die "perf record failed"; }
}

# measure EVENT WORK DEPTH COUNT WAY ROUND [NAME-OF-WAY]
measure() {
	local name=$2-$3-${7:-$5}-$6 ns
	case $5 in
	none)
		ns=$("$load" "$2" "$3" "$4") || die "$load failed"
		;;
	*)
		ns=$(record "$1" "$5" "$name.data" "$2" "$3" "$4") || exit
		mv "$name.data" /out/ || die "no room for $name.data"
		;;
	esac
	echo "$2 $3 ${7:-$5} $6 $ns" >> /out/times
}

# program WHAT DEPTH ROUND: samples that a BPF program sees
program() {
	"$bpf" "$1" 200000 "$load" bulk "$2" 6 > figures || die "$bpf failed"
	echo "$1 $2 $3 $(paste -sd ' ' figures)" >> /out/bpf
}

# chains NAME: how far up they reach
chains() {
	perf script -F ip,sym -i "/out/$1.data" 2> /dev/null | awk -v name="$1" '
		function sample() {
			if (lines) { n++; m += main; s += last == "_start" }
			lines = main = 0
		}
		NF == 0 { sample(); next }
		{ lines++; last = $2; main = main || $2 == "main" }
		END { sample(); print name, n + 0, m + 0, s + 0 }' >> /out/chains
}

if [ "$what" = base ]; then
	for round in $(seq "$rounds"); do
		idle base "$round"
		for way in none regs; do
			measure perf_test/self/ bulk 5 6 $way "$round" base-$way
		done
	done
	exit
fi

# Once for the page cache.
record cpu-clock deferred warm read 5 1000 > /dev/null
echo 1024 > /proc/sys/kernel/perf_event_max_stack

for round in $(seq "$rounds"); do
	echo "bench: round $round of $rounds"
	idle none "$round"
	measure perf_test/self/ bulk 5 6 regs "$round"
	for way in none fp deferred dwarf,8192 dwarf,8192,defer; do
		for depth in 5 100; do
			measure cpu-clock read $depth 150000 $way "$round"
			measure cpu-clock user $depth 150000 $way "$round"
		done
		[ ${way%%,*} = dwarf ] || measure cpu-clock cold 5 40000 $way "$round"
		for depth in 5 30 120 500; do
			measure perf_test/self/ bulk $depth 6 $way "$round"
		done
	done
	for depth in 5 30 120 500; do
		for what in nothing stackid deferred; do
			program $what $depth "$round"
		done
	done
done
for way in fp deferred dwarf,8192 dwarf,8192,defer; do
	for depth in 5 100; do
		chains read-$depth-$way-1
		chains user-$depth-$way-1
	done
done
cp /sys/kernel/debug/unwind/stats /out/
