#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# In the guest: the recordings and the report of make demo, see demo.sh.
#
#   guest-demo.sh USER-BOUND-PROGRAM
#
# Results go to /out. Without a PMU in the machine, a timer takes the samples.
set -u

cd /tmp || exit 1
program=$1

die() { echo "demo: $*" >&2; exit 1; }

# record WORKLOAD METHOD COMMAND...
record() {
	local begin=$EPOCHREALTIME name=$1-${2%,*} method=$2 file
	file=$name.data
	shift 2
	# Build ids would cost a look at every mapped file of the host.
	perf record -B -N -F 1000 -e cpu-clock --call-graph "$method" \
		-o "$file" -- "$@" > "$name.log" 2>&1 < /dev/null ||
		{ cat "$name.log"; die "perf record failed"; }
	cp "$file" /out/ || die "no room for $file"
	awk -v name="$name" -v size="$(stat -c %s "$file")" \
		-v begin="$begin" -v end="$EPOCHREALTIME" 'BEGIN {
		printf "demo: recorded %-22s %6.1f MB, %.1f s\n",
			name, size / 1048576, end - begin
	}'
	rm "$file"
}

# The first run reads the program from the host; it is not to be measured.
perf bench sched messaging -g 1 -l 1 > /dev/null 2>&1

for method in fp deferred dwarf,8192; do
	record kernel-bound "$method" perf bench sched messaging -g 1 -l 300
	record user-bound "$method" "$program" 4000
done
cp /proc/kallsyms /out/kallsyms

echo
echo "Most frequent chains of 'perf bench sched messaging', innermost frame first:"
echo
options="--stdio --no-children --comm sched-messaging --sort comm -g flat,0.5,4,callee"
echo "\$ perf report $options"
# shellcheck disable=SC2086	# several words
perf report -i /out/kernel-bound-deferred.data $options > chains 2> chains.err ||
	{ cat chains.err; die "perf report failed"; }
sed 's/ *$//; /^#/d' chains | cat -s
