#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# In the guest: make the recordings and the report of make demo, see demo.sh.
#
#   guest-demo.sh
#
# Results go to /out. A timer takes the samples, because the machine has no PMU.
set -u

work=$(cd "$(dirname "$0")" && pwd)/demo-work.sh
# The cache of sections is below HOME: it starts empty, and is lost with the VM.
HOME=$(mktemp -d) || exit 1
export HOME
cd "$HOME" || exit 1

die() { echo "demo: $*" >&2; exit 1; }

# record NAME HERTZ METHOD COMMAND...: to /out/NAME-METHOD.data; sets seconds
record() {
	local begin=$EPOCHREALTIME name=$1-${3%,*} hertz=$2 method=$3 file
	file=$name.data
	shift 3
	# No build ids: perf would read every mapped file of the host for them.
	perf record -B -F "$hertz" -e cpu-clock --call-graph "$method" \
		-o "$file" -- "$@" > /dev/null 2> "$name.err" < /dev/null ||
		{ cat "$name.err" >&2; die "perf record failed"; }
	cp "$file" /out/ || die "no room for $file"
	seconds=$(awk -v b="$begin" -v e="$EPOCHREALTIME" 'BEGIN { printf "%.1f", e - b }')
	awk -v name="$name" -v size="$(stat -c %s "$file")" -v seconds="$seconds" 'BEGIN {
		printf "demo: recorded %-22s %6.1f MB, %.1f s\n", name, size / 1048576, seconds
	}'
	rm "$file"
}

[ -e /dev/unwind_sframe ] || die "the kernel takes no SFrame sections: make kernel builds one"
"$work" prepare || die "no input for programs"
"$work" list > /out/programs
mapfile -t programs < /out/programs

# Run each program once before it is measured, because its first reads come from the host,
# slowly.
for program in "${programs[@]}"; do
	"$work" "$program" > /dev/null || die "$program failed"
done
# The first run. In the emulator, building a section for the compiler, of 30 MB, takes 5 to
# 10 s, and until then its stacks end early. The run is more than ten times as long as the
# compiler runs meanwhile: otherwise these stacks would dominate the result.
echo "demo: the first run, with an empty cache, takes a minute or two: $work all"
record cold 99 deferred "$work" all
echo "$seconds" > /out/cold-seconds
echo "demo: what perf record said:"
sed -n '/^\[ perf record: Captured/,$p' cold-deferred.err > /out/cold-said
sed 's/^/    /' /out/cold-said

# Run perf bench once before it is measured, because the first run reads it from the host.
perf record -B -q -e cpu-clock --call-graph deferred -o first.data -- \
	perf bench sched messaging -g 1 -l 1 > /dev/null 2>&1
for method in fp deferred dwarf,8192; do
	record messaging 1000 "$method" perf bench sched messaging -g 1 -l 300
done
for program in "${programs[@]}"; do
	for method in fp deferred dwarf,8192; do
		record "$program" 997 "$method" "$work" "$program"
	done
done
cp /proc/kallsyms /out/kallsyms

echo
echo "Most frequent chains of 'perf bench sched messaging', innermost frame first:"
echo
options="--stdio --no-children --comm sched-messaging --sort comm -g flat,0.5,4,callee"
echo "\$ perf report $options"
# shellcheck disable=SC2086	# several words
perf report -i /out/messaging-deferred.data $options > chains 2> chains.err ||
	{ cat chains.err >&2; die "perf report failed"; }
sed 's/ *$//; /^#/d' chains | cat -s
