#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# In the guest: take the measurements of make bench, see bench.sh. Recordings and these
# files go to /out: "times" (work, depth, way, round, nanoseconds, and for reload the
# SFrame sections read), "attach" (tasks, round, the figures of bench-attach), "turns" (work, kind
# of event, round, nanoseconds), "recorders" (likewise), "chains"
# (recording, samples, those that reach main, those that reach _start), "bpf" (program,
# depth, round, nanoseconds, samples), "ends" (way, what perf record does at the end,
# round, nanoseconds of it all), and the kernel's own counters, "stats" and, for the
# sections of reload, "objects". For programs of the distribution: "start" (command, way,
# round, nanoseconds of perf record with it), "stock" and "whole" (program, way, round,
# nanoseconds), their recordings, and "listed" (program, way, round, nanoseconds of perf
# script); for recordings of more work, "long" (likewise); "convert" is the output of the
# converter's own benchmark.
#
#   guest-bench.sh base|tasks|ends|all DIRECTORY ROUNDS
set -u

cd /tmp || exit 1
# perf keeps its caches below HOME: start without those of the host.
HOME=$(mktemp -d)
export HOME
what=$1
load=$2/bench-load
chain=$2/bench-chain
bpf=$2/bench-bpf
attach=$2/bench-attach
recorder=$2/bench-recorder
unnamed=$2/bench-unnamed
sframe=$2/sframe/bench
rounds=$3
period=200000
spread=

die() { echo "bench: $*" >&2; exit 1; }

# idle NAME ROUND: measure system calls and context switches without a profiler, as many as
# bench-table.py divides by
idle() {
	local work ns
	for work in "getppid 5 1000000" "switch 5 100000"; do
		# shellcheck disable=SC2086	# three words
		ns=$("$load" $work) || die "$load failed"
		echo "${work% *} $1 $2 $ns" >> /out/times
	done
}

# task_data ROUND: measure what it costs to give all tasks data of a PMU, and what it costs when
# tasks take turns
task_data() {
	local tasks figures kind ns
	for tasks in 1000 10000; do
		figures=$("$attach" $tasks) || die "$attach failed"
		echo "$tasks $1 $figures" >> /out/attach
	done
	for kind in plain branches; do
		ns=$("$attach" $kind "$load" switch 5 100000) || die "$attach failed"
		echo "switch $kind $1 $ns" >> /out/turns
	done
}

# recorders ROUND: measure what a detached event costs beside an ordinary one
recorders() {
	local kind ns
	for kind in none ring detached; do
		ns=$("$recorder" $kind threads "$load" threads 5 4000000) || die "$recorder failed"
		echo "threads $kind $1 $ns" >> /out/recorders
		rm -f /sys/kernel/perf/*.*
		[ $kind != none ] || continue
		ns=$("$recorder" $kind switch "$load" switch 5 100000) || die "$recorder failed"
		echo "switch $kind $1 $ns" >> /out/recorders
		rm -f /sys/kernel/perf/*.*
	done
}

# call_graph WAY: sets how[], the options of perf record. --no-sframe: the programs of the
# bench have the sections that the kernel reads, and a search for others would be measured too.
call_graph() {
	case $1 in
	regs) how=("--user-regs=ip,sp,bp") ;;
	deferred | *,defer) how=(--call-graph "$1" --no-sframe) ;;
	*) how=(--call-graph "$1") ;;
	esac
}

# record EVENT WAY FILE LOAD-ARGUMENTS: prints nanoseconds
record() {
	local event=$1 file=$3 how
	call_graph "$2"
	shift 3
	perf record -B --no-bpf-event -e "$event" -c "$period" "${how[@]}" \
		-o "$file" -- "$load" "$@" 2> log < /dev/null ||
		{ cat log >&2; die "perf record failed"; }
}

# measure EVENT WORK DEPTH COUNT WAY ROUND [NAME-OF-WAY]
measure() {
	local work=$2${spread:+-${spread// /-}} args=() name ns
	# shellcheck disable=SC2206	# the spread is one or two words
	args=("$2" "$3" "$4" $spread)
	name=$work-$3-${7:-$5}-$6
	case $5 in
	none)
		ns=$("$load" "${args[@]}") || die "$load failed"
		;;
	*)
		ns=$(record "$1" "$5" "$name.data" "${args[@]}") || exit
		mv "$name.data" /out/ || die "no room for $name.data"
		;;
	esac
	echo "$work $3 ${7:-$5} $6 $ns" >> /out/times
}

# sframe WAY ROUND: measure frames that only SFrame can unwind, of one function or of some,
# which are cached, in eight mappings in turn, or of more functions than the cache holds, and
# the loading of sections
sframe() {
	local load=$chain spread=1 depth file
	for depth in 5 100; do
		measure cpu-clock read $depth 150000 "$1" "$2"
		measure cpu-clock user $depth 150000 "$1" "$2"
	done
	for spread in 30 60 100 "1 8"; do
		measure cpu-clock read 100 150000 "$1" "$2"
	done
	spread=1
	# This trace is deeper than the kernel caches.
	measure cpu-clock read 500 150000 "$1" "$2"
	# The section of the assembler, and those of the converter.
	for file in "$chain"{,.v2,.v3}; do
		load=$file
		measure cpu-clock reload 5 200 "$1" "$2" "$1${file#"$chain"}"
		[ "$1" != none ] || continue
		# Copy it now, because the next measurement drops it.
		grep "/${file##*/}\$" /sys/kernel/debug/unwind/sframe >> /out/objects ||
			die "the kernel has not read the section of $file"
	done
	load=$chain
	# A longer period: otherwise samples hit the walks of other samples.
	period=2000000
	spread=3700
	for depth in 300 700; do
		measure cpu-clock read $depth 300000 "$1" "$2"
	done
	period=200000
}

# program WHAT DEPTH ROUND: measure samples with a BPF program
program() {
	"$bpf" "$1" 200000 "$load" bulk "$2" 12 > figures || die "$bpf failed"
	echo "$1 $2 $3 $(paste -sd ' ' figures)" >> /out/bpf
}

# behind_entry PROGRAM: print the last digits of the addresses in its _start after the first
# address; the other digits depend on where it is mapped
behind_entry() {
	local entry off
	entry=$(readelf -hW "$1" | awk '/Entry point address:/ { print $NF }')
	[ -n "$entry" ] || die "readelf finds no entry point of $1"
	for off in {1..31}; do
		printf ' %03x' $(((entry + off) & 0xfff))
	done
}

# chains NAME [PROGRAM]: count how many chains reach main and _start. PROGRAM is one of the
# sample programs: their _start, which calls start_c, has no symbol
chains() {
	local behind=
	[ -z "${2:-}" ] || behind=$(behind_entry "$2") || exit
	perf script -F ip,sym -i "/out/$1.data" 2> /dev/null |
		awk -v name="$1" -v behind="$behind " '
		function outermost() {
			return last == "_start" || (before == "start_c" &&
				index(behind, " " substr("00" ip, length(ip)) " "))
		}
		function sample() {
			if (lines) { n++; m += main; s += outermost() }
			lines = main = 0
			last = ""
		}
		NF == 0 { sample(); next }
		{ lines++; before = last; last = $2; ip = $1; main = main || $2 == "main" }
		END { sample(); print name, n + 0, m + 0, s + 0 }' >> /out/chains
}

# A shell in the cgroup runs this to print its CPU time in microseconds. The kernel accounts
# a running task up to its last scheduling, so wait for a child first.
# shellcheck disable=SC2016	# for that shell
used='( : ); read -r _ usec < /tmp/cgroup/bench/cpu.stat; echo $usec'

# counted COMMAND...: run it in a cgroup of its own
counted() {
	mkdir cgroup/bench || die "no cgroup for what is measured"
	(
		echo 0 > cgroup/bench/cgroup.procs
		exec "$@"
	) > output 2> log < /dev/null || { cat log >&2; die "$* failed"; }
}

# finished: print the nanoseconds that the cgroup used, and remove the cgroup
finished() {
	local tries
	awk '$1 == "usage_usec" { print $2 "000" }' cgroup/bench/cpu.stat
	# An exited task stays in the cgroup until the scheduler drops it.
	for tries in {1..100}; do
		! rmdir cgroup/bench 2> /dev/null || return 0
		sleep 0.01
	done
	die "tasks are left after $tries looks"
}

# start NAME WAY ROUND COMMAND...: measure all of perf record with almost nothing to record, or just
# the command
start() {
	local name=$1 way=$2 round=$3 how=() ns
	shift 3
	[ "$way" = none ] || how=(perf record -B --no-bpf-event -e cpu-clock -c 10000000
		-o start.data --call-graph "$way" --)
	counted "${how[@]}" "$@"
	ns=$(finished) || exit
	[ "$round" = warm ] || echo "$name $way $round $ns" >> /out/start
}

# ends ROUND: measure perf record when it does nothing with the recorded data at its end, when it
# looks for the build-ids, and when it counts the samples that go through a file without a section,
# or would count them
ends() {
	local way end program options how file ns
	for way in fp deferred; do
		call_graph $way
		for end in none build-ids uncounted counted; do
			program=$load
			case $end in
			none) options=(-B) ;;
			build-ids) options=(-N) ;;
			*)
				[ $way = deferred ] || continue
				program=$unnamed how=(--call-graph deferred) options=(-B)
				[ $end = counted ] || options=(-B -q)
				;;
			esac
			file=ends-$way-$end-$1.data
			counted perf record "${options[@]}" --no-bpf-event -e cpu-clock -c 20000 \
				"${how[@]}" -o "$file" -- "$program" user 30 100000
			ns=$(finished) || exit
			[ $end != counted ] || grep -q "Counting what missing" log ||
				die "perf record counts nothing"
			[ "$1" != warm ] || continue
			echo "$way $end $1 $ns" >> /out/ends
			mv "$file" /out/ || die "no room for $file"
		done
	done
}

# stock NAME WAY ROUND COMMAND...: measure from before the exec to the exit of COMMAND, including
# perf's work meanwhile; and all of it, with perf's start and its last read of the buffers
stock() {
	local name=$1 way=$2 round=$3 file=stock-$1-$2-$3.data how=() ns
	shift 3
	[ "$way" = none ] || how=(perf record -B --no-bpf-event -e cpu-clock -c "$period"
		--call-graph "$way" -o "$file" --)
	counted "${how[@]}" bash -c "$used; \"\$@\" > /dev/null || exit; $used" bash "$@"
	ns=$(finished) || exit
	[ "$round" != warm ] || return 0
	if [ "$round" != long ]; then
		echo "$name $way $round $ns" >> /out/whole
		echo "$name $way $round $(paste -sd ' ' output | awk '{ print $2 - $1 "000" }')" \
			>> /out/stock
	fi
	[ "$way" = none ] || mv "$file" /out/ || die "no room for $file"
}

# big_cache FROM: put 1000 sections into the cache of HOME, copies of the one of median size
# in FROM
big_cache() {
	local sections names=() i
	mapfile -t sections < <(find "$1/.debug/.sframe" -type f -printf '%s %p\n' | sort -n)
	[ ${#sections[@]} != 0 ] || die "perf record left no sections in its cache"
	for i in {0..999}; do
		printf -v "names[$i]" '%02d/%038d' $((i % 40)) "$i"
	done
	mkdir -p "$HOME"/.debug/.sframe/2/{0,1,2,3}{0..9}
	# 250 files per process, because the number of open files is limited.
	for i in 0 250 500 750; do
		(cd "$HOME/.debug/.sframe/2" && tee "${names[@]:i:250}" > /dev/null) \
			< "${sections[${#sections[@]} / 2]#* }" || die "no room for a cache"
	done
}

# sections: count the sections in the cache. The kernel accepts all: perf record removes others.
sections() {
	# On a busy host, the guest's clock runs while it waits for the host's files.
	! grep '^sframe:' log | grep -v 'converted for the first time$' >&2 ||
		die "perf record complains of its cache"
	find "$HOME/.debug/.sframe" -type f | wc -l
}

# convert: measure the conversion of a C library and of a compiler
convert() {
	local files=()
	files=("$(ldd "$(type -P bash)" | awk '$1 == "libc.so.6" { print $3 }')"
		"$(gcc -print-prog-name=cc1)")
	"$sframe" -r "$rounds" "${files[@]}" > /out/convert || die "$sframe failed"
}

# Use the same hash seed in each run.
export PERL_HASH_SEED=0 PYTHONHASHSEED=0

# recorded NAME WAY ROUND TIMES: record this many times the work of a program
recorded() {
	case $1 in
	perl)
		# shellcheck disable=SC2016	# the dollar signs are of perl
		stock "${@:1:3}" perl -e '
			my %h; $h{$_ % 1000 . "k"} += $_ for 1 .. 300000 * $ARGV[0];
			print scalar keys %h' "$4"
		;;
	python3)
		stock "${@:1:3}" python3 -S -c 'import sys
d = {}
for i in range(100000 * int(sys.argv[1])):
    d["k%d" % (i % 1000)] = d.get("k%d" % (i % 500), 0) + i
print(len(d))' "$4"
		;;
	xz) stock "${@:1:3}" xz -0 -T1 -c "numbers$4" ;;
	esac
}

# others ROUND: measure programs of the distribution: the work of perf record before and after
# them, and recordings of fixed work
others() {
	local name way ways="none fp deferred dwarf,8192"
	local -A empty=([perl]="-e 1" [python3]="-c 1")

	if [ "$1" = warm ]; then
		ways=deferred
		start true deferred warm "$true"
	else
		for way in $ways; do
			start true "$way" "$1" "$true"
		done
		HOME=$big start big deferred "$1" "$true"
	fi
	for name in perl python3 xz; do
		type -P $name > /dev/null || continue
		for way in $ways; do
			# shellcheck disable=SC2086	# two words
			[ $way = none ] || [ $way = dwarf,8192 ] || [ -z "${empty[$name]-}" ] ||
				start $name $way "$1" $name ${empty[$name]}
			recorded $name "$way" "$1" 1
		done
	done
}

# listed NAME WAY ROUND: measure perf script, which unwinds the stacks that dwarf has copied
listed() {
	local ns to=/out/listed
	[ "$3" != long ] || to=/out/long
	counted perf script --no-inline -f -i "/out/stock-$1-$2-$3.data" -F ip,sym
	ns=$(finished) || exit
	echo "$1 $2 $3 $ns" >> $to
}

# others_all: run all rounds of others with filled caches
others_all() {
	local round home=$HOME name way number random file
	true=$(type -P true) big=$(mktemp -d) || die "no program true"
	[ -c /dev/unwind_sframe ] || die "this kernel takes no sections"
	{ mkdir cgroup && mount -t cgroup2 none cgroup; } || die "no cgroups"
	for name in perl python3 xz; do
		type -P $name > /dev/null || echo "bench: there is no $name, so it is left out"
	done
	# Otherwise random addresses change the length of hash chains.
	random=$(< /proc/sys/kernel/randomize_va_space)
	echo 0 > /proc/sys/kernel/randomize_va_space
	seq 150000 > numbers1
	seq 600000 > numbers4
	others warm
	HOME=$big
	big_cache "$home"
	start true deferred warm "$true"
	number=$(sections) || exit
	echo "big $number" > /out/sections
	HOME=$home
	start true deferred warm "$true"
	number=$(sections) || exit
	echo "true $number" >> /out/sections
	for round in $(seq "$rounds"); do
		others "$round"
	done
	# perf script begins with work that does not depend on the number of samples.
	for name in perl python3 xz; do
		for way in fp deferred dwarf,8192; do
			! type -P $name > /dev/null || recorded $name $way long 4
		done
	done
	for file in /out/stock-*.data; do
		# NAME-WAY-ROUND
		name=${file#/out/stock-} name=${name%.data}
		way=${name#*-}
		listed "${name%%-*}" "${way%-*}" "${way##*-}"
	done
	echo "$random" > /proc/sys/kernel/randomize_va_space
}

# First of all: what recordings leave behind is still being freed for a while.
case $what in
base | all)
	for round in $(seq "$rounds"); do
		idle "${what/all/none}" "$round"
	done
	;;
esac
if [ "$what" = base ]; then
	for round in $(seq "$rounds"); do
		for way in none regs; do
			measure perf_test/self/ bulk 5 12 $way "$round" base-$way
		done
	done
	exit
fi
if [ "$what" = ends ]; then
	{ mkdir cgroup && mount -t cgroup2 none cgroup; } || die "no cgroups"
	for round in warm $(seq "$rounds"); do
		ends "$round"
	done
	exit
fi
if [ "$what" = tasks ]; then
	mount -t perffs none /sys/kernel/perf || die "no detached events"
	for round in $(seq "$rounds"); do
		task_data "$round"
		recorders "$round"
	done
	exit
fi

# Fill the page cache.
record cpu-clock deferred warm read 5 1000 > /dev/null
echo 1024 > /proc/sys/kernel/perf_event_max_stack

for round in $(seq "$rounds"); do
	echo "bench: round $round of $rounds"
	measure perf_test/self/ bulk 5 12 regs "$round"
	for way in none fp deferred dwarf,8192 dwarf,8192,defer; do
		for depth in 5 100; do
			measure cpu-clock read $depth 150000 $way "$round"
			# Looks at new code are few only among many samples.
			measure cpu-clock user $depth 400000 $way "$round"
		done
		[ ${way%%,*} = dwarf ] || measure cpu-clock cold 5 40000 $way "$round"
		case $way in
		none | deferred) sframe $way "$round" ;;
		esac
		for depth in 5 30 120 500; do
			measure perf_test/self/ bulk $depth 12 $way "$round"
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
	for program in "$2"/frames.v?; do
		name=$(basename "$program")-$way
		call_graph $way
		perf record -q -B --no-bpf-event -e cpu-clock:u -c "$period" "${how[@]}" \
			-o "$name.data" -- "$program" 3000 > log 2>&1 ||
			{ cat log >&2; die "$name failed"; }
		mv "$name.data" /out/ || die "no room for $name.data"
		chains "$name" "$program"
	done
done
echo "bench: programs of a distribution"
others_all
echo "bench: the converter"
convert
cp /sys/kernel/debug/unwind/stats /out/
