#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Run the tests on kernels that are already built:
#
#   check.sh gate KERNEL...	make check: the tests that find most bugs for their time
#   check.sh all KERNEL...	make check-all: all tests that end by themselves
#   check.sh long KERNEL...	make check-long: storms and fuzzers for MINUTES
#   check.sh test KERNEL WHAT	make test: one program, test or part in one boot
#   check.sh known KERNEL WHAT	whether make test has WHAT, before anything is built
#
# Each part boots its own VM: otherwise a part that crashes the kernel would hide the
# results of others. Prints every failing test, a table, the number of skipped tests unless
# it is 0, and "N passed, N failed" as the last line. A part that could not run is a
# failure. parts.sh runs the parts and evaluates their results.
#
# Environment: BUILD (the build directory), LINUX, PERF_BIN, LINT (a command for quick
# checks of the source, as TAP), MINUTES, and UNWIND_SEED, which makes the storm and the
# fuzzers repeat a run; the default is a random seed. make test also accepts the other
# variables of parts.sh, because the printed commands that repeat a test contain them.
set -u

here=$(cd "$(dirname "$0")" && pwd)
qemu=${here%/*}/tools/testing/selftests/unwind/qemu
dir=$BUILD/check
install=$dir/kselftest
ftrace=$LINUX/tools/testing/selftests/ftrace
unwind=$LINUX/tools/testing/selftests/unwind
# shellcheck source-path=SCRIPTDIR source=parts.sh
. "$here/parts.sh"

# guest KERNEL KIND ARGUMENT...: one boot
#
# The longest part of the gate, debug-kselftest-core, takes 600 s beside other parts on a machine
# with two CPUs. A guest has twice that, 1200 s, in case something else runs there. Each program
# has half of it, and none takes as long as its part. The other tiers also run on the debug kernel
# what is too slow for the gate: all of ftrace takes 1182 s, and single programs up to 480 s.
# shellcheck disable=SC2317	# called by a part
guest() {
	local kernel=$1 kind=$2 leak="" limit=1200 memory=${MEM:-1G} vars variable
	shift 2
	[ "$kernel" != debug ] || leak=1
	[ "$kernel" = plain ] || memory=${MEM:-2G}
	[ "$kernel" = plain ] || [ "$tier" = gate ] || limit=2400
	# All combinations, all instructions, and interrupts between any two of them take longer.
	[ -z "${UNWIND_FULL-}${SINGLESTEP-}" ] || limit=$((limit * 3))
	# Time out each program on its own: a hanging one is named, and the others still run.
	vars="UNWIND_TIMEOUT=$((limit / 2 + 60 * ${MINUTES:-0}))"
	limit=$((limit + 60 * ${MINUTES:-0}))
	for variable in $program_variables; do
		[ -z "${!variable-}" ] || vars+=$(printf ' %s=%q' "$variable" "${!variable}")
	done
	export MEM=$memory LEAK=$leak CHECK=1 LOG=$dir/$kernel-$kind TIMEOUT=$limit
	GUEST_PATH=$PERF_BIN alone $((limit + 120)) "$qemu/vm.sh" run "$BUILD/kernel-$kernel" \
		"$vars sh $here/guest-check.sh ${kind%%-*} $*"
}

# vm KERNEL KIND ARGUMENT...: queue a part that is one boot; with[] holds its variables
#
# Tests that remove many tracers, programs or probes mostly wait for grace periods. The gate
# expedites these with append, and saves a quarter of its time. Of the other tiers, only all of
# ftrace on the debug kernel does: a slow machine needs its whole limit otherwise. The programs of
# the gate need 1 GB on the debug kernel, which kmemleak scans in half the time of 2 GB.
vm() {
	local common=()
	[ -z "${append-}" ] || common=("APPEND=$append")
	[ "$tier-$1" != gate-debug ] || common+=(MEM=1G)
	part "$1-$2" "${common[@]}" "${with[@]}" guest "$@"
}

# host KIND COMMAND...: queue a part that runs on the host
host() {
	local limit=$((2400 + 60 * ${MINUTES:-0}))
	[ "$tier" != gate ] || limit=600
	part "host-$1" "${with[@]}" alone "$limit" "${@:2}"
}

# build WHAT DIRECTORY ARGUMENT...: run make, and print the end of the log if it fails
build() {
	local log=$dir/$1.log
	echo "check: building $1 (log: $log)"
	setpriv --pdeathsig TERM "$here/alone.sh" make -s -j"$(nproc)" -C "$LINUX/tools/$2" \
		CC="${KHOSTCC:-gcc}" HOSTCC="${KHOSTCC:-gcc}" "${@:3}" \
		> "$log" 2>&1 < /dev/null 8>&- && return
	tail -n 20 "$log"
	broken "host-$1" "it did not build, see $log"
	return 1
}

# Build the kselftests once for all kernels, because the kernels have the same headers.
build_kselftests() {
	build kselftest testing/selftests TARGETS=unwind O="$dir/obj" \
		KHDR_INCLUDES="-isystem $BUILD/kernel-$1/usr/include" \
		INSTALL_PATH="$install" install
}

# build_tool DIRECTORY ARGUMENT...: build a tool of the tree and the programs of its tests
build_tool() {
	local name=${1##*/}
	mkdir -p "$dir/$name"
	build "$name" "$1" OUTPUT="$dir/$name/" "${@:2}"
}

build_stackprof() {
	build_tool bpf/stackprof VMLINUX_BTF="$BUILD/kernel-$1/vmlinux" test
}

# The gate skips these programs on the debug kernel, because each takes half a minute to eight
# minutes there, and a quarter or a tenth of that on the plain kernel. Most check values; fail_nth
# has nothing to fail on the plain kernel. make check-all runs them on both.
slow=" oracle oracle_samples oracle_sframe matrix compat_task user_regs nmi core_probe fault_at "
slow+="boundaries core_requests record_abi task_data task_data_life task_data_stale task_data_walk "
slow+="detached_memory detached_stress detached_tasks fuzz_detached "
slow+="fail_nth depth uprobe user_state bpf_unwind bpf_unwind_life bpf_unwind_load bpf_unwind_nmi "
slow+="bpf_unwind_storm bpf_unwind_walk "
slow+="sframe_load sframe_cgroup sframe_files sframe_programs sframe_reads sframe_side_users "

# The tests of sframe on the host that the gate runs: regular expressions for their names.
quick="^(bad|damaged|hostile|install: [^l]|PLT|real|wrong|"
quick+="same as libdw.*(bash|git|ld-linux|libc|libstdc|perl|python))"
sessions="^(files that were replaced|said: a cache that takes|statuses|what is mapped during|"
sessions+="a file that others may write, and all)"

# kind_of NAME: set kind to the part of a kselftest program, and folder to where it is; fail if no
# part runs this folder. A part is a folder, except that walk is two parts: then all take about
# the same time. More parts would cost more boots, and more kmemleak scans on the debug kernel.
kind_of() {
	folder=$(echo "$unwind"/*/"$1.c")
	folder=${folder#"$unwind/"}
	folder=${folder%%/*}
	case $folder/$1 in
	walk/oracle_s* | walk/sframe_*) kind=sframe ;;
	core/* | walk/* | perf/* | bpf/*) kind=$folder ;;
	*) return 1 ;;
	esac
}

# know_folders: count each kselftest program that no part runs as a failure
know_folders() {
	local name kind folder
	while IFS=: read -r _ name; do
		kind_of "$name" ||
			broken kselftest "no part runs $name, which is in the folder '$folder'"
	done < "$install/kselftest-list.txt"
}

# programs KIND...: list the kselftest programs of these parts
programs() {
	local name kind folder
	while IFS=: read -r _ name; do
		kind_of "$name" || continue
		[[ " $* " == *" $kind "* ]] || continue
		[[ ${without-} == *" $name "* ]] || echo "$name"
	done < "$install/kselftest-list.txt"
}

# kselftest KERNEL KIND...: queue the programs of these kinds as one boot
kselftest() {
	local names
	mapfile -t names < <(programs "${@:2}")
	vm "$1" "kselftest-$2" "$install" "${names[@]}"
}

# queue KERNEL KIND: queue one part. KIND is one of:
parts="kselftest-core kselftest-walk kselftest-sframe kselftest-perf kselftest-bpf
kselftest-intel kunit ftrace perf-deferred perf-callchain stackprof convert record sframe
sframe-sessions corpus sframe-corpus go harness harness-quick scripts scripts-check
scripts-parts lint lint-kernel other-archs"
queue() {
	local kernel=$1 kind=$2 with=()
	# Set how long the storm, the fuzzers and the NMI tests run, unless make test says it.
	case $kernel in
	plain) with=(UNWIND_SECONDS=5 UNWIND_STORM_NMI=10000) ;;
	debug) with=(UNWIND_SECONDS=30 UNWIND_STORM_NMI=20000) ;;
	kcsan) with=(UNWIND_STORM_NMI=4000) ;;
	esac
	[ -z "${UNWIND_SECONDS-}" ] || with+=("UNWIND_SECONDS=$UNWIND_SECONDS")
	[ -z "${UNWIND_STORM_NMI-}" ] || with+=("UNWIND_STORM_NMI=$UNWIND_STORM_NMI")
	case $kind in
	perf-* | convert | record | sframe | stackprof)
		if [ ! -x "$PERF_BIN/perf" ]; then
			broken "$kernel-$kind" "perf is not built; make perf builds it"
			return 1
		fi
		;;&
	kunit)
		with+=(APPEND="${append:+$append }kunit.enable=1")
		vm "$kernel" kunit
		;;
	kselftest-intel)
		# The 32-bit vDSO uses SYSENTER on Intel CPUs, and SYSCALL on others.
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
			vm "$kernel" go "$unwind/go" "$dir/go"
		;;
	convert)
		with=(PERF="$PERF_BIN/perf")
		host convert "$LINUX/tools/sframe/test/test.sh" "$dir/sframe"
		;;
	sframe-sessions)
		host sframe-sessions "$LINUX/tools/sframe/test/sessions.sh" "$dir/sframe"
		;;
	record | sframe)
		vm "$kernel" "$kind" "$LINUX/tools/sframe" "$dir/sframe"
		;;
	harness)
		host harness "$qemu/selftest.sh" "$BUILD/kernel-$kernel"
		;;
	harness-quick)
		host harness-quick "$qemu/selftest.sh"
		;;
	scripts)
		host scripts "$here/selftest.sh"
		;;
	scripts-check)
		host scripts-check "$here/check-selftest.sh"
		;;
	scripts-parts)
		host scripts-parts "$here/parts-selftest.sh"
		;;
	corpus)
		host corpus "$unwind/fuzz/fuzz.sh" replay "$LINUX" "$dir/fuzz"
		;;
	sframe-corpus)
		host sframe-corpus "$unwind/fuzz/fuzz.sh" sframe-replay "$LINUX" "$dir/fuzz"
		;;
	lint)
		# shellcheck disable=SC2086	# its words
		host lint $LINT
		;;
	lint-kernel)
		# shellcheck disable=SC2086	# its words
		host lint-kernel $LINT "$BUILD/kernel-$kernel"
		;;
	other-archs)
		# From nothing, this compiles for most of an hour.
		MINUTES=30 host other-archs "$here/other-archs.sh" "$dir/other-archs" "$LINUX"
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
		[ $? != 2 ] || broken "$kernel-$kind" "there is no such part"
	done
}

# The parts of each tier on one kernel. Queue the long parts first: the quick ones keep the
# CPUs busy at the end.
#
# The gate leaves out what seldom finds anything for its time: most tests of this repository's
# scripts, those of the 32-bit program on an Intel CPU, and those of sframe that take long or
# measure.
gate() {
	local without with=() kind append=rcupdate.rcu_expedited=1
	case $1 in
	debug)
		without=$slow
		with=(UNWIND_SECONDS=5 UNWIND_STORM_NMI=2000)
		for kind in "core perf" walk "sframe bpf"; do
			# shellcheck disable=SC2086	# its words
			kselftest debug $kind
		done
		with=(UNWIND_FTRACE=exit.tc "APPEND=$append kunit.enable=1")
		vm debug ftrace-kunit "$ftrace" "$BUILD/kernel-debug/install"
		;;
	plain)
		each plain kselftest-walk perf-deferred ftrace kselftest-perf
		if build_tool sframe all test; then
			with=("UNWIND_NAMES=^(perl|somebody without privileges|what makes .*)$")
			vm plain record "$LINUX/tools/sframe" "$dir/sframe"
			with=("UNWIND_NAMES=$quick")
			host convert "$LINUX/tools/sframe/test/test.sh" "$dir/sframe"
			with=("UNWIND_NAMES=$sessions")
			host sframe-sessions "$LINUX/tools/sframe/test/session.sh" "$dir/sframe"
		fi
		each plain kselftest-sframe kselftest-bpf kselftest-core corpus sframe-corpus \
			harness-quick kunit
		;;
	*)
		broken "$1" "the gate has nothing for this kernel, make check-long may have"
		;;
	esac
}

# All of ftrace on the debug kernel takes up to 2,400 s, so three guests share it.
debug_ftrace() {
	local append=rcupdate.rcu_expedited=1 with nr=0 names
	for names in '[a-k]' '[l-o]' '[!a-o]'; do
		with=("UNWIND_FTRACE=$names*.tc")
		vm debug ftrace-$((++nr)) "$ftrace" "$BUILD/kernel-debug/install"
	done
}

all() {
	if [ "$1" = debug ]; then
		debug_ftrace
	else
		each "$1" ftrace
	fi
	each "$1" kselftest-walk kselftest-bpf kselftest-perf kselftest-core kselftest-sframe
	if [ "$1" = plain ]; then
		each plain other-archs stackprof perf-callchain perf-deferred kselftest-intel \
			harness scripts scripts-check scripts-parts corpus sframe-corpus go
		! build_tool sframe all test || each plain convert sframe-sessions record sframe
		[ -z "${LINT-}" ] || queue plain lint-kernel
	fi
	queue "$1" kunit
}

# Queue tests whose duration MINUTES sets. A storm has several CPUs at once: vm.sh says for which
# tests they may be emulated in parallel.
long() {
	local kernel=$1 third=$((MINUTES * 20)) seed=$((UNWIND_SEED % 1000000 + 1)) with=()
	case $kernel in
	plain)
		with=(UNWIND_SECONDS=$((MINUTES * 60)) "ACCEL=tcg,thread=multi")
		vm plain kselftest-storm "$install" storm
		with=(UNWIND_FULL=1)
		vm plain kselftest-full "$install" matrix
		with=(SINGLESTEP=1)
		vm plain kselftest-singlestep "$install" user_regs compat_task
		with=()
		host walker-fuzz "$unwind/fuzz/fuzz.sh" run "$LINUX" "$dir/fuzz" "$third" "$seed"
		host sframe-fuzz "$unwind/fuzz/fuzz.sh" sframe-run "$LINUX" "$dir/fuzz" "$third" \
			"$seed"
		;;
	debug)
		with=(UNWIND_SECONDS=$((MINUTES * 60)) "ACCEL=tcg,thread=multi")
		vm debug kselftest-storm "$install" storm
		with=(UNWIND_SECONDS="$third")
		vm debug kselftest-bpf_storm "$install" bpf_unwind_storm
		vm debug kselftest-fuzz_attr "$install" fuzz_attr
		vm debug kselftest-fuzz_detached "$install" fuzz_detached
		vm debug kselftest-fuzz_stack "$install" fuzz_stack
		with=(UNWIND_FULL=1)
		vm debug kselftest-full "$install" matrix core_probe
		;;
	kcsan)
		each kcsan kselftest-walk kselftest-bpf kselftest-perf kselftest-core \
			kselftest-sframe kunit
		;;
	esac
}

# has_suite KERNEL SUITE: check that a KUnit suite matches SUITE, which may contain wildcards;
# otherwise list the suites and return 2
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

# suites KERNEL: list the KUnit suites of the series, and those of the kernel if it is built
suites() {
	{
		find "${here%/*}"/{arch,kernel} -name '*_kunit.c' -exec sed -n \
			'/^static struct kunit_suite/,/^}/s/^\t\.name.*"\(.*\)".*/\1/p' {} +
		"$here/kunit-suites.py" "$BUILD/kernel-$1/vmlinux"
	} 2> /dev/null | sort -u
}

# known KERNEL WHAT: check that make test has WHAT, a kselftest program or one of its tests, KUnit
# or a suite, or a part; otherwise list what it has. This needs only the assembled tree: nobody
# should wait for a build because of a wrong name.
known() {
	local what=$2 programs suites name
	programs=$(make -s -C "$unwind" emit_tests COLLECTION=unwind OUTPUT="$dir/obj") ||
		{ echo "check: the programs of $unwind cannot be listed" >&2; return 1; }
	programs=${programs//unwind:/}
	suites=$(suites "$1")
	case $what in
	kunit.*)
		what=${what#*.}
		for name in $suites; do
			# shellcheck disable=SC2053	# a pattern
			[[ $name != ${what%%.*} ]] || return 0
		done
		;;
	*)
		! is_part "$what" && ! grep -qxF "${what%%.*}" <<< "$programs" || return 0
		;;
	esac
	[ "$what" = help ] || echo "check: there is no '$2'."
	echo "PROGRAM or PROGRAM.TEST, with one of these programs:"
	echo "$programs" | fmt -w 90 | sed 's/^/  /'
	list_suites "$suites"
	echo "or one of these parts:"
	echo "$parts" | fmt -w 90 | sed 's/^/  /'
	[ "$what" = help ] || return 2
}

# one KERNEL WHAT: queue a kselftest program or one of its tests, KUnit or a suite, or a part.
# Status 2: the built kernel or the built programs do not have WHAT.
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
	if grep -qxF "unwind:${what%%.*}" "$install/kselftest-list.txt"; then
		vm "$kernel" kselftest-one "$install" "$what"
		return
	fi
	case $what in
	sframe) build_stackprof "$kernel" && build_tool sframe all test || return ;;
	convert | sframe-sessions | record) build_tool sframe all test || return ;;
	esac
	is_part "$what" || { echo "check: there is no '$what'."; return 2; }
	queue "$kernel" "$what"
}

# bash parses main() as a whole before it runs: edits of this file do not affect this run.
main() {
	local tier=$1 free place variable
	shift
	[ "$tier" != known ] || { known "$@"; return; }
	mkdir -p "$install" || return
	exec 8> "$dir.lock"
	flock -n 8 || { echo "check: another check runs in $dir" >&2; return 1; }
	for place in "$dir" "$temporary"; do
		free=$(free_space "$place")
		if [ "$free" -lt 1000 ]; then
			echo "check: the disk of $place has $free MB free, tests need 1000 MB" >&2
			return 1
		fi
	done
	# Only make test takes these variables, because they are meant for one kind of test.
	if [ "$tier" != test ]; then
		for variable in $program_variables $guest_variables; do
			case $variable-$tier in
			UNWIND_SEED-* | MINUTES-long) ;;
			*) unset "$variable" ;;
			esac
		done
	fi
	export UNWIND_SEED=${UNWIND_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
	if [ "$tier" = test ]; then
		once=1
		one "$@"
		[ $? != 2 ] || return 2
		run_parts
		summary
		return
	fi
	# First, because what it finds is quickly corrected.
	[ -z "${LINT-}" ] || [ "$tier" = long ] || queue plain lint
	build_kselftests "$1" && know_folders && for kernel; do
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
