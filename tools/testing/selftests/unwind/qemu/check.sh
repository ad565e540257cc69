#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Everything that must pass, on kernels that are built: check.sh KERNEL...
#
# Each part boots its own VM, so that a part that takes the kernel down hides no
# other. Parts run side by side, one more than there are CPUs, because perf waits a
# lot. Prints every failing test, a table, the number of skipped tests if there are
# any, and as the last line "N passed, N failed". A part that could not run is a
# failure.
#
# The debug kernel runs the same kselftests; what goes on for as long as it is told,
# storm and fuzzers, takes seconds on the plain kernel, a minute each on others.
# MINUTES=n is make check-long: storms, fuzzers and the whole test matrix instead, and
# the kcsan kernel has the kselftests.
#
# Environment: BUILD (the build directory), LINUX, PERF_BIN, MINUTES, and UNWIND_SEED,
# with which storm and fuzzers do again what they did.
set -u

here=$(cd "$(dirname "$0")" && pwd)
dir=$BUILD/check
table=
passed=0
failed=0
skipped=0
built=
install=$dir/kselftest
fuzz=$LINUX/tools/testing/selftests/unwind/fuzz/fuzz.sh
# For what switches tracepoints on and off: see keep_tracepoint() in perf_ring.h.
steady=tcg,thread=single

# timed FILE COMMAND...: leaves status and seconds in FILE
timed() {
	local file=$1 begin=$SECONDS
	shift
	"$@"
	echo "$? $((SECONDS - begin))" > "$file"
}

# guest KERNEL PART ARGUMENT...: one boot
# shellcheck disable=SC2317	# called by timed
guest() {
	local kernel=$1 part=$2 leak="" limit=1800 memory=1G vars
	shift 2
	[ "$kernel" != debug ] || leak=1
	[ "$kernel" = plain ] || { limit=3600 memory=2G; }
	limit=$((limit + 60 * ${MINUTES:-0}))
	vars="UNWIND_TIMEOUT=$limit ${UNWIND_SEED:+UNWIND_SEED=$UNWIND_SEED}"
	vars+=" ${seconds:+UNWIND_SECONDS=$seconds} ${full:+UNWIND_FULL=$full}"
	vars+=" ${nmi:+UNWIND_STORM_NMI=$nmi}"
	MEM=$memory LEAK=$leak CHECK=1 LOG=$dir/$kernel-$part TIMEOUT=$limit \
		APPEND=$([ "$part" = kunit ] && echo kunit.enable=1) GUEST_PATH=$PERF_BIN \
		"$here/vm.sh" run "$BUILD/kernel-$kernel" \
		"$vars sh $here/guest-check.sh ${part%%-*} $*"
}

# part KERNEL PART COMMAND...: start it when a CPU is free
part() {
	local name=$1-$2 log=$dir/$1-$2
	echo "check: $2 $1"
	rm -rf "${log:?}"
	mkdir -p "$log"
	while [ "$(jobs -rp | wc -l)" -gt "$(nproc)" ]; do
		wait -n
	done
	shift 2
	timed "$log/result" "$@" > "$log/output" 2> "$log/errors" &
	parts+=("$name")
}

# vm KERNEL PART ARGUMENT...: a part that is one boot
vm() {
	part "$1" "$2" guest "$@"
}

# Build the kselftests, for all kernels: their headers are the same.
build_kselftests() {
	make -s -C "$LINUX/tools/testing/selftests" TARGETS=unwind O="$dir/obj" \
		KHDR_INCLUDES="-isystem $BUILD/kernel-$1/usr/include" \
		INSTALL_PATH="$install" install > "$install.log" 2>&1 < /dev/null && return
	tail -n 20 "$install.log"
	broken kselftest "the tests did not build, see $install.log"
	return 1
}

# Build the BPF profiler, for the kernel whose types it takes.
build_stackprof() {
	mkdir -p "$dir/stackprof"
	make -s -C "$LINUX/tools/bpf/stackprof" OUTPUT="$dir/stackprof/" \
		VMLINUX_BTF="$BUILD/kernel-$1/vmlinux" test > "$dir/stackprof.log" 2>&1 \
		< /dev/null && return
	tail -n 20 "$dir/stackprof.log"
	broken stackprof "it did not build, see $dir/stackprof.log"
	return 1
}

# kselftests KERNEL: start them, in boots about as long as each other: more would cost
# more, as on the debug kernel one takes longer, with its search for leaks, than a storm
kselftests() {
	local kernel=$1 tests="" faults="" bpf="" name seconds="" nmi=""
	while IFS=: read -r _ name; do
		case $name in
		core_* | storm | fuzz_*) ;;
		bpf_*) bpf+=" $name" ;;
		depth | fail_nth | fault_at | hostile_stack | paged_out) faults+=" $name" ;;
		*) tests+=" $name" ;;
		esac
	done < "$install/kselftest-list.txt"
	# As many as a quarter of an hour for all has room for.
	case $kernel in
	plain) seconds=5 nmi=10000 ;;
	debug) seconds=30 nmi=20000 ;;
	kcsan) nmi=4000 ;;
	esac
	# shellcheck disable=SC2086	# a list of names
	vm "$kernel" kselftest "$install" $tests
	# shellcheck disable=SC2086	# a list of names
	vm "$kernel" kselftest-faults "$install" $faults
	# shellcheck disable=SC2086	# a list of names
	vm "$kernel" kselftest-bpf "$install" $bpf
	vm "$kernel" kselftest-core "$install" core_cancel core_probe core_requests \
		storm fuzz_attr fuzz_stack
	# The vDSO of 32-bit tasks has SYSENTER there, and SYSCALL elsewhere.
	[ "$kernel" != plain ] ||
		VM_CPU=max,vendor=GenuineIntel vm "$kernel" kselftest-intel "$install" compat_task
}

# What takes as long as it is told. The numbers are those of half an hour, most of
# which the storm takes on the plain kernel.
long() {
	local kernel=$1 seconds full nmi
	if [ "$kernel" = plain ]; then
		nmi=$((MINUTES * 2000000 / 30)) vm "$kernel" kselftest-storm "$install" storm
		full=1 vm "$kernel" kselftest-full "$install" matrix
		SINGLESTEP=1 vm "$kernel" kselftest-singlestep "$install" user_regs compat_task
		part walker fuzz "$fuzz" run "$LINUX" "$dir/fuzz" $((MINUTES * 20))
		return
	fi
	seconds=$((MINUTES * 60)) vm "$kernel" kselftest-storm "$install" storm
	seconds=$((MINUTES * 20)) vm "$kernel" kselftest-bpf_storm "$install" bpf_unwind_storm
	seconds=$((MINUTES * 20)) vm "$kernel" kselftest-fuzz_attr "$install" fuzz_attr
	seconds=$((MINUTES * 20)) vm "$kernel" kselftest-fuzz_stack "$install" fuzz_stack
	full=1 vm "$kernel" kselftest-full "$install" matrix core_probe
}

# broken PART REASON: a part that could not run to its end is one failure more
broken() {
	echo "FAILED $1: $2"
	failed=$((failed + 1))
	table+=$(printf '%-20s %s' "$1" "$2")$'\n'
}

# settle KERNEL-PART: add up results, print failures
settle() {
	local log=$dir/$1 status seconds p f s results unexpected
	read -r status seconds < "$log/result"
	results=$log/output
	[ "${1#*-}" != kunit ] || results=$log/console.log
	"$here/results.py" "$1" "$results" > "$log/count"
	grep '^FAILED' "$log/count"
	read -r _ p f s < <(tail -n 1 "$log/count")
	p=${p:-0} f=${f:-1} s=${s:-0}
	# A test that needs what is not there tests nothing.
	unexpected=$(grep '^SKIPPED' "$log/count" | grep -vEf "$here/expected-skips")
	if [ "$unexpected" ]; then
		echo "$unexpected"
		f=$((f + $(echo "$unexpected" | wc -l)))
		s=$((s - $(echo "$unexpected" | wc -l)))
	fi
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	table+=$(printf '%-20s %6d %6d %7d %6d s' "$1" "$p" "$f" "$s" "$seconds")$'\n'
	if [ "$status" -ge 120 ]; then
		cat "$log/errors"
		broken "$1" "$(sed -n 's/^vm: //p' "$log/errors" | head -n 1)"
	elif [ "$status" != 0 ] && [ "$f" = 0 ]; then
		cat "$log/errors"
		broken "$1" "no test failed, but the part ended with status $status"
	fi
}

# Read as a whole before it runs: an edit meanwhile must not reach this run.
{
mkdir -p "$dir"
parts=()
build_kselftests "$1" && built=1
for kernel; do
	if [ "${MINUTES-}" ] && [ "$kernel" != kcsan ]; then
		[ ! "$built" ] || long "$kernel"
		continue
	fi
	# The long ones first.
	ACCEL=$steady vm "$kernel" ftrace "$LINUX/tools/testing/selftests/ftrace" \
		"$BUILD/kernel-$kernel/install"
	if [ "$kernel" = plain ]; then
		# Takes minutes, which who checks an edit of the kernel has not.
		[ $# = 1 ] || ! build_stackprof "$kernel" ||
			ACCEL=$steady vm "$kernel" stackprof "$LINUX/tools/bpf/stackprof" \
				"$dir/stackprof"
		for list in "$here"/perf-tests.*; do
			vm "$kernel" "perf-${list##*.}" "$list"
		done
	fi
	[ ! "$built" ] || kselftests "$kernel"
	if [ "$kernel" = plain ]; then
		part "$kernel" harness "$here/selftest.sh" "$BUILD/kernel-$kernel"
		part walker corpus "$fuzz" replay "$LINUX" "$dir/fuzz"
	fi
	vm "$kernel" kunit
done
wait
for name in "${parts[@]}"; do
	settle "$name"
done

echo
printf '%-20s %6s %6s %7s\n%s\n' part passed failed skipped "$table"
[ "$skipped" = 0 ] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
exit
}
