#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The tests, on kernels that are built:
#
#   check.sh gate KERNEL...	make check: what finds most for its time
#   check.sh all KERNEL...	make check-all: everything that comes to an end by itself
#   check.sh long KERNEL...	make check-long: storms and fuzzers for MINUTES
#   check.sh test KERNEL WHAT	make test: one program, test or part in one boot
#
# Each part boots its own VM, so that a part that takes the kernel down hides no
# other. Prints every failing test, a table, the number of skipped tests if there are
# any, and as the last line "N passed, N failed". A part that could not run is a
# failure. parts.sh runs and judges the parts.
#
# Environment: BUILD (the build directory), LINUX, PERF_BIN, LINT (a command for quick
# checks of the source, as TAP), MINUTES, and UNWIND_SEED, with which storm and fuzzers do
# again what they did; each check draws one. make test takes the other variables of parts.sh,
# too, as a command that runs a test again has them.
set -u

here=$(cd "$(dirname "$0")" && pwd)
dir=$BUILD/check
install=$dir/kselftest
ftrace=$LINUX/tools/testing/selftests/ftrace
fuzz=$LINUX/tools/testing/selftests/unwind/fuzz/fuzz.sh
# shellcheck source-path=SCRIPTDIR source=parts.sh
. "$here/parts.sh"

# guest KERNEL KIND ARGUMENT...: one boot
# shellcheck disable=SC2317	# called by a part
guest() {
	local kernel=$1 kind=$2 leak="" limit=1200 memory=1G vars variable
	shift 2
	[ "$kernel" != debug ] || leak=1
	[ "$kernel" = plain ] || { limit=2400 memory=2G; }
	# One program that hangs is named, and does not take the others with it.
	vars="UNWIND_TIMEOUT=$((limit / 2 + 60 * ${MINUTES:-0}))"
	limit=$((limit + 60 * ${MINUTES:-0}))
	for variable in $program_variables; do
		[ -z "${!variable-}" ] || vars+=$(printf ' %s=%q' "$variable" "${!variable}")
	done
	export MEM=$memory LEAK=$leak CHECK=1 LOG=$dir/$kernel-$kind TIMEOUT=$limit
	GUEST_PATH=$PERF_BIN alone $((limit + 120)) "$here/vm.sh" run "$BUILD/kernel-$kernel" \
		"$vars sh $here/guest-check.sh ${kind%%-*} $*"
}

# vm KERNEL KIND ARGUMENT...: queue a part that is one boot, with the variables in with
vm() {
	part "$1-$2" "${with[@]}" guest "$@"
}

# host KIND COMMAND...: queue a part that runs here
host() {
	part "host-$1" "${with[@]}" alone $((2400 + 60 * ${MINUTES:-0})) "${@:2}"
}

# build WHAT DIRECTORY ARGUMENT...: quietly; say what failed
build() {
	local log=$dir/$1.log
	echo "check: building $1 (log: $log)"
	setpriv --pdeathsig TERM "$here/alone.sh" make -s -C "$LINUX/tools/$2" "${@:3}" \
		> "$log" 2>&1 < /dev/null 8>&- && return
	tail -n 20 "$log"
	broken "host-$1" "it did not build, see $log"
	return 1
}

# The kselftests, for all kernels: their headers are the same.
build_kselftests() {
	build kselftest testing/selftests TARGETS=unwind O="$dir/obj" \
		KHDR_INCLUDES="-isystem $BUILD/kernel-$1/usr/include" \
		INSTALL_PATH="$install" install
}

# build_tool DIRECTORY ARGUMENT...: a tool of the tree, and what its tests need
build_tool() {
	local name=${1##*/}
	mkdir -p "$dir/$name"
	build "$name" "$1" OUTPUT="$dir/$name/" "${@:2}"
}

build_stackprof() {
	build_tool bpf/stackprof VMLINUX_BTF="$BUILD/kernel-$1/vmlinux" test
}

# What the gate leaves out on the debug kernel: these look at values rather than at locks,
# contexts and lifetimes, the plain kernel shows the same in a tenth of the time, and each
# takes one to eight minutes there.
slow=" oracle oracle_samples oracle_sframe compat_task user_regs nmi core_probe fault_at "
slow+="bpf_unwind bpf_unwind_load sframe_load "

# programs KIND...: those of parts of the kselftests. The parts take about as long as each
# other; more of them would cost more boots, and on the debug kernel searches for leaks.
programs() {
	local name kind
	while IFS=: read -r _ name; do
		case $name in
		core_* | storm | fuzz_*) kind=core ;;
		bpf_*) kind=bpf ;;
		oracle_s* | sframe_*) kind=sframe ;;
		depth | fail_* | fault_at | hostile_stack | paged_out) kind=faults ;;
		*) kind=tasks ;;
		esac
		[[ " $* " == *" $kind "* ]] || continue
		[[ ${without-} == *" $name "* ]] || echo "$name"
	done < "$install/kselftest-list.txt"
}

# kselftest KERNEL KIND...: the programs of these kinds in one boot
kselftest() {
	local names
	mapfile -t names < <(programs "${@:2}")
	vm "$1" "kselftest-$2" "$install" "${names[@]}"
}

# queue KERNEL KIND: one part. KIND is one of these:
parts="kselftest-tasks kselftest-bpf kselftest-faults kselftest-core kselftest-sframe
kselftest-intel kunit ftrace perf-deferred perf-callchain stackprof convert record sframe
corpus sframe-corpus go harness harness-quick lint"
queue() {
	local kernel=$1 kind=$2 with=()
	# What goes on for as long as it is told.
	case $kernel in
	plain) with=(UNWIND_SECONDS=5 UNWIND_STORM_NMI=10000) ;;
	debug) with=(UNWIND_SECONDS=30 UNWIND_STORM_NMI=20000) ;;
	kcsan) with=(UNWIND_STORM_NMI=4000) ;;
	esac
	case $kind in
	kunit)
		with+=(APPEND=kunit.enable=1)
		vm "$kernel" kunit
		;;
	kselftest-intel)
		# The vDSO of 32-bit tasks has SYSENTER there, and SYSCALL elsewhere.
		with+=("VM_CPU=max,vendor=GenuineIntel")
		vm "$kernel" "$kind" "$install" compat_task
		;;
	kselftest-*)
		kselftest "$kernel" "${kind#*-}"
		;;
	perf-*)
		vm "$kernel" "$kind" "$here/perf-tests.${kind#*-}"
		;;
	ftrace)
		vm "$kernel" ftrace "$ftrace" "$BUILD/kernel-$kernel/install"
		;;
	stackprof)
		build_stackprof "$kernel" &&
			vm "$kernel" stackprof "$LINUX/tools/bpf/stackprof" "$dir/stackprof"
		;;
	go)
		build_tool testing/selftests/unwind/go all &&
			vm "$kernel" go "$LINUX/tools/testing/selftests/unwind/go" "$dir/go"
		;;
	convert)
		with=(PERF="$PERF_BIN/perf")
		host convert "$LINUX/tools/sframe/test/test.sh" "$dir/sframe"
		;;
	record | sframe)
		vm "$kernel" "$kind" "$LINUX/tools/sframe" "$dir/sframe"
		;;
	harness)
		host harness "$here/selftest.sh" "$BUILD/kernel-$kernel"
		;;
	harness-quick)
		host harness-quick "$here/selftest.sh"
		;;
	corpus)
		host corpus "$fuzz" replay "$LINUX" "$dir/fuzz"
		;;
	sframe-corpus)
		host sframe-corpus "$fuzz" sframe-replay "$LINUX" "$dir/fuzz"
		;;
	lint)
		# shellcheck disable=SC2086	# its words
		host lint $LINT
		;;
	*)
		return 2
		;;
	esac
}

# each KERNEL KIND...: queue these parts, in this order
each() {
	local kernel=$1 kind
	shift
	for kind; do
		queue "$kernel" "$kind"
	done
}

# What each tier has of a kernel; the long parts first, so that quick ones fill the CPUs at
# the end.
gate() {
	local without with=() kind
	case $1 in
	debug)
		without=$slow
		with=(UNWIND_SECONDS=10 UNWIND_STORM_NMI=5000)
		for kind in core "tasks faults" sframe bpf; do
			# shellcheck disable=SC2086	# its words
			kselftest debug $kind
		done
		with=(UNWIND_FTRACE=exit.tc)
		vm debug ftrace "$ftrace" "$BUILD/kernel-debug/install"
		queue debug kunit
		;;
	plain)
		[ -z "${LINT-}" ] || queue plain lint
		each plain kselftest-tasks perf-deferred ftrace kselftest-bpf kselftest-core \
			kselftest-sframe kselftest-faults kselftest-intel corpus sframe-corpus \
			harness-quick kunit
		;;
	*)
		broken "$1" "the gate has nothing for this kernel, make check-long may have"
		;;
	esac
}

all() {
	each "$1" ftrace kselftest-tasks kselftest-bpf kselftest-faults kselftest-core \
		kselftest-sframe
	if [ "$1" = plain ]; then
		each plain stackprof perf-callchain perf-deferred kselftest-intel harness corpus \
			sframe-corpus go
		! build_tool sframe all test || each plain convert record sframe
		[ -z "${LINT-}" ] || queue plain lint
	fi
	queue "$1" kunit
}

# What takes as long as it is told. The numbers are those of half an hour, most of
# which the storm takes on the plain kernel. Two CPUs of the guest run at the same time
# where no text is patched meanwhile.
long() {
	local kernel=$1 third=$((MINUTES * 20)) seed=$((UNWIND_SEED % 1000000 + 1)) with=()
	case $kernel in
	plain)
		with=(UNWIND_STORM_NMI=$((MINUTES * 2000000 / 30)) "ACCEL=tcg,thread=multi")
		vm plain kselftest-storm "$install" storm
		with=(UNWIND_FULL=1)
		vm plain kselftest-full "$install" matrix
		with=(SINGLESTEP=1)
		vm plain kselftest-singlestep "$install" user_regs compat_task
		with=()
		host walker-fuzz "$fuzz" run "$LINUX" "$dir/fuzz" "$third" "$seed"
		host sframe-fuzz "$fuzz" sframe-run "$LINUX" "$dir/fuzz" "$third" "$seed"
		;;
	debug)
		with=(UNWIND_SECONDS=$((MINUTES * 60)) "ACCEL=tcg,thread=multi")
		vm debug kselftest-storm "$install" storm
		with=(UNWIND_SECONDS="$third")
		vm debug kselftest-bpf_storm "$install" bpf_unwind_storm
		vm debug kselftest-fuzz_attr "$install" fuzz_attr
		vm debug kselftest-fuzz_stack "$install" fuzz_stack
		with=(UNWIND_FULL=1)
		vm debug kselftest-full "$install" matrix core_probe
		;;
	kcsan)
		each kcsan kselftest-tasks kselftest-bpf kselftest-faults kselftest-core \
			kselftest-sframe kunit
		;;
	esac
}

# has_suite KERNEL SUITE: whether there is one of KUnit that SUITE, which may have wildcards,
# stands for; what there is instead is said, with status 2
has_suite() {
	local suites suite
	suites=$("$here/kunit-suites.py" "$BUILD/kernel-$1/vmlinux") ||
		{ broken "$1-kunit" "its suites are not known"; return 1; }
	for suite in $suites; do
		# shellcheck disable=SC2053	# a pattern
		[[ $suite != $2 ]] || return 0
	done
	echo "check: there is no suite '$2'."
	list_suites "$suites"
	return 2
}

list_suites() {
	echo "kunit or kunit.SUITE[.TEST], with one of these suites:"
	echo "$1" | fmt -w 90 | sed 's/^/  /'
}

# one KERNEL WHAT: queue a program of the kselftests or a test of it, KUnit or a suite, or a
# part. Status 2: there is no such thing, and 3: the list was all that was wanted
one() {
	local kernel=$1 what=$2 with=()
	case $what in
	kunit.*)
		what=${what#*.}
		has_suite "$kernel" "${what%%.*}" || return
		with=(APPEND="kunit.enable=1 kunit.filter_glob=$what")
		vm "$kernel" kunit
		return
		;;
	esac
	[ "$what" != kunit ] || { queue "$kernel" kunit; return; }
	build_kselftests "$kernel" || return
	if grep -qx "unwind:${what%%.*}" "$install/kselftest-list.txt"; then
		vm "$kernel" kselftest-one "$install" "$what"
		return
	fi
	case $what in
	sframe) build_stackprof "$kernel" && build_tool sframe all test || return ;;
	convert | record) build_tool sframe all test || return ;;
	esac
	queue "$kernel" "$what"
	[ $? = 2 ] || return
	[ "$what" = help ] || echo "check: there is no '$what'."
	echo "PROGRAM or PROGRAM.TEST, with one of these programs:"
	sed 's/^unwind://' "$install/kselftest-list.txt" | fmt -w 90 | sed 's/^/  /'
	list_suites "$("$here/kunit-suites.py" "$BUILD/kernel-$kernel/vmlinux")"
	echo "or one of these parts:"
	echo "$parts" | fmt -w 90 | sed 's/^/  /'
	[ "$what" = help ] && return 3
	return 2
}

# Read as a whole before it runs: an edit meanwhile must not reach this run.
main() {
	local tier=$1 free variable
	shift
	mkdir -p "$install" || return
	exec 8> "$dir.lock"
	flock -n 8 || { echo "check: another check runs in $dir" >&2; return 1; }
	free=$(df -Pm "$dir" | awk 'NR == 2 { print $4 }')
	if [ "$free" -lt 1000 ]; then
		echo "check: the disk of $dir has $free MB free, tests need 1000 MB" >&2
		return 1
	fi
	rm -rf "$dir"/*.first
	# What a test of one kind is told is nothing for all others.
	if [ "$tier" != test ]; then
		for variable in $program_variables SINGLESTEP VM_CPU APPEND; do
			[ "$variable" = UNWIND_SEED ] || unset "$variable"
		done
	fi
	export UNWIND_SEED=${UNWIND_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
	if [ "$tier" = test ]; then
		once=1
		one "$@"
		case $? in
		2) return 2 ;;
		3) return 0 ;;
		esac
		run_parts
		summary
		return
	fi
	build_kselftests "$1" && for kernel; do
		case $tier in
		gate) gate "$kernel" ;;
		all) all "$kernel" ;;
		long) long "$kernel" ;;
		esac
	done
	run_parts
	summary
}

{ main "$@"; exit; }
