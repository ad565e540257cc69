#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The user stack walker, as a program, on made-up stacks and code.
#
#   fuzz.sh replay LINUX-TREE OUT [TEXT...]	walk each input of corpus/, as TAP
#   fuzz.sh run LINUX-TREE OUT SECONDS [SEED]	look for new ones, with libFuzzer; as TAP
#   fuzz.sh merge LINUX-TREE OUT		print what OUT/found adds to corpus/found
#   fuzz.sh coverage LINUX-TREE OUT		lines that corpus/ and OUT/found reach
#
# LINUX-TREE is the source of a kernel with the walker, OUT a directory for what is
# built. Replay needs any compiler with sanitizers (CC), the others need clang.
# JOBS fuzzers run side by side. Status 1 when something was found.
set -u -o pipefail

here=$(cd "$(dirname "$0")" && pwd)
under_test=(kernel/unwind/user.c kernel/unwind/text.c arch/x86/kernel/unwind_user_frame.c)

# The headers that are what they are in the kernel: NAME FILE...
real=(
	linux/unwind_user.h		include/linux/unwind_user.h
	linux/unwind_user_types.h	include/linux/unwind_user_types.h
	linux/unwind_stats.h		include/linux/unwind_stats.h
	linux/cleanup.h			include/linux/cleanup.h
	asm/unwind_user.h		arch/x86/include/asm/unwind_user.h
	asm/sigframe.h			arch/x86/include/asm/sigframe.h
	asm/ia32.h			arch/x86/include/asm/ia32.h
	uapi/asm/sigcontext.h		arch/x86/include/uapi/asm/sigcontext.h
	asm/ucontext.h			arch/x86/include/uapi/asm/ucontext.h
	asm-generic/ucontext.h		include/uapi/asm-generic/ucontext.h
	asm/insn.h			tools/arch/x86/include/asm/insn.h
	asm/inat.h			tools/arch/x86/include/asm/inat.h
	asm/inat_types.h		tools/arch/x86/include/asm/inat_types.h
)

die() {
	echo "fuzz: $*" >&2
	exit 2
}

# Headers for the files under test: the real ones, and empty ones for the rest.
headers() {
	local i name sources=()
	rm -rf "$out/include"
	for name in "${under_test[@]}" kernel/unwind/text.h kernel/unwind/unwind.h; do
		sources+=("$linux/$name")
	done
	for ((i = 0; i < ${#real[@]}; i += 2)); do
		name=$out/include/${real[i]}
		mkdir -p "${name%/*}"
		ln -s "$linux/${real[i + 1]}" "$name"
		sources+=("$linux/${real[i + 1]}")
	done
	sed -n 's/^#[ \t]*include <\(\(linux\|asm\|asm-generic\|uapi\)\/.*\.h\)>.*/\1/p' \
		"${sources[@]}" | sort -u | while read -r name; do
			name=$out/include/$name
			mkdir -p "${name%/*}"
			[ -e "$name" ] || : > "$name"
		done
}

# build PROGRAM COMPILER FLAG...
build() {
	local program=$out/$1 cc=$2 name objects=()
	shift 2
	# As the kernel is built: pointers and integers wrap around.
	# shellcheck disable=SC2054	# the commas are the compiler's
	local flags=(-std=gnu11 -O1 -g -Wall -Werror=implicit-function-declaration
		-Wno-sign-compare -Wno-pointer-sign -Wno-unused-variable
		-fno-strict-aliasing -fno-omit-frame-pointer -fwrapv
		-fno-sanitize-recover=all "$@" -fno-sanitize=pointer-overflow,alignment)
	mkdir -p "$program.o"
	headers
	awk -f "$linux/tools/arch/x86/tools/gen-insn-attr-x86.awk" \
		"$linux/tools/arch/x86/lib/x86-opcode-map.txt" > "$out/inat-tables.c" ||
		die "the tables of the instruction decoder cannot be made"
	for name in insn inat; do
		"$cc" "${flags[@]}" -w -I"$out" -I"$linux/tools/arch/x86/include" \
			-I"$linux/tools/include" -c -o "$program.o/$name.o" \
			"$linux/tools/arch/x86/lib/$name.c" || exit 2
		objects+=("$program.o/$name.o")
	done
	for name in "${under_test[@]/#/$linux/}" "$here"/{sim,input,fuzz}.c; do
		"$cc" "${flags[@]}" -I"$out/include" -include "$here/sim.h" \
			-c -o "$program.o/$(basename "$name" .c).o" "$name" || exit 2
		objects+=("$program.o/$(basename "$name" .c).o")
	done
	"$cc" "${flags[@]}" -o "$program" "${objects[@]}" || exit 2
}

need_clang() {
	command -v clang > /dev/null ||
		die "clang is needed for libFuzzer and is not installed; replay needs only gcc"
}

build_replay() {
	build replay "${CC:-gcc}" -fsanitize=address,undefined
}

build_fuzzer() {
	need_clang
	build fuzzer clang -DFUZZ "-fsanitize=fuzzer,${SANITIZE:-address,undefined}"
}

# The inputs of the corpus, as bytes.
seeds() {
	local text
	rm -rf "$out/seeds" "$out/texts"
	mkdir -p "$out/seeds" "$out/texts" "$out/found"
	for text in "$here"/corpus/*; do
		awk -v name="$out/texts/${text##*/}" '
			$0 == "next" { nr++; next }
			{ print > name "." nr + 0 }' "$text"
	done
	for text in "$out"/texts/*; do
		"$out/replay" bytes < "$text" > "$out/seeds/${text##*/}" || die "$text is wrong"
	done
}

# Each in its own process, so that a crash is a result like others.
replay() {
	local text count=0 failed=0
	[ $# -gt 0 ] || set -- "$here"/corpus/*
	build_replay
	ulimit -c 0
	echo "TAP version 13"
	echo "1..$#"
	for text; do
		count=$((count + 1))
		if (timeout 10 "$out/replay" replay "$text"; exit $?) > "$out/replay.log" 2>&1; then
			echo "ok $count ${text##*/}"
			[ -z "${VERBOSE:-}" ] || sed 's/^/# /' "$out/replay.log"
		else
			failed=1
			sed 's/^/# /' "$out/replay.log"
			echo "not ok $count ${text##*/}"
		fi
	done
	return "$failed"
}

# run SECONDS [SEED]
run() {
	local seconds=$1 seed=${2:-$((RANDOM * 32768 + RANDOM + 1))} job crash found=0
	local jobs=${JOBS:-1}
	[[ $seconds =~ ^[1-9][0-9]*$ && $seed =~ ^[1-9][0-9]*$ && $jobs =~ ^[1-9][0-9]*$ ]] ||
		die "SECONDS, SEED and JOBS are numbers above 0"
	need_clang
	build_replay
	build_fuzzer
	seeds
	rm -rf "$out/crash"
	mkdir -p "$out/crash"
	for ((job = 0; job < jobs; job++)); do
		"$out/fuzzer" -seed=$((seed + job)) -max_total_time="$seconds" -max_len=1024 \
			-timeout=10 -reload=10 -print_final_stats=1 -artifact_prefix="$out/crash/" \
			"$out/found" "$out/seeds" > "$out/fuzz-$job.log" 2>&1 < /dev/null &
	done
	wait
	echo "TAP version 13"
	echo "1..$jobs"
	for ((job = 0; job < jobs; job++)); do
		if grep -q '^Done ' "$out/fuzz-$job.log"; then
			echo -n "ok"
		else
			echo -n "not ok"
			found=1
		fi
		echo " $((job + 1)) seed $((seed + job)): $(summary "$out/fuzz-$job.log")"
	done
	for crash in "$out"/crash/*; do
		[ -e "$crash" ] || continue
		found=1
		"$out/replay" text < "$crash" > "$crash.txt"
		echo "# found: $crash.txt"
		grep -h -m 1 -e '^broken rule' -e 'SUMMARY' "$out"/fuzz-*.log | sed 's/^/# /'
		echo "# replay it: $0 replay $linux $out $crash.txt"
	done
	return "$found"
}

# What libFuzzer said last, in one line.
summary() {
	local cov runs seconds walks
	cov=$(sed -n 's/.*\(cov: [0-9]* ft: [0-9]* corp: [0-9]*\).*/\1/p' "$1" | tail -n 1)
	runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$1")
	seconds=$(sed -n 's/^Done .* in \([0-9]*\) second.*/\1/p' "$1")
	walks=$(grep -h '^[0-9]* walks, ' "$1")
	echo "${runs:-?} executions, ${seconds:+in }${seconds:-ended early}${seconds:+ s}, $cov" \
		"${walks:+($walks)}"
}

# A text of what was found and reaches code that the corpus does not.
merge() {
	local input
	need_clang
	build_replay
	build_fuzzer
	seeds
	rm -rf "$out/merged"
	cp -r "$out/seeds" "$out/merged"
	"$out/fuzzer" -merge=1 -use_counters=0 -max_len=1024 "$out/merged" "$out/found" \
		> "$out/merge.log" 2>&1 || die "merge failed, see $out/merge.log"
	for input in "$out"/merged/*; do
		[ ! -e "$out/seeds/${input##*/}" ] || continue
		echo next
		"$out/replay" text < "$input"
	done
}

coverage() {
	local name
	need_clang
	build_replay
	build covered clang -DFUZZ -fsanitize=fuzzer -fprofile-instr-generate -fcoverage-mapping
	seeds
	LLVM_PROFILE_FILE=$out/covered.raw "$out/covered" -runs=0 "$out/seeds" "$out/found" \
		> "$out/coverage.log" 2>&1 || die "an input fails, see $out/coverage.log"
	llvm-profdata merge -o "$out/covered.profile" "$out/covered.raw" || exit 2
	name=("${under_test[@]/#/$linux/}" "$linux/tools/arch/x86/lib/insn.c")
	llvm-cov report "$out/covered" -instr-profile="$out/covered.profile" "${name[@]}"
	llvm-cov show "$out/covered" -instr-profile="$out/covered.profile" "${name[@]}" \
		> "$out/coverage.txt"
	echo "each line: $out/coverage.txt"
}

main() {
	local verb=${1:-}
	[ $# -ge 3 ] ||
		die "usage: $0 VERB LINUX-TREE OUT..., with replay, run, merge or coverage as VERB"
	linux=$(cd "$2" && pwd) || exit 2
	mkdir -p "$3" && out=$(cd "$3" && pwd) || exit 2
	shift 3
	case $verb in
	run)
		[ $# -ge 1 ] || die "run needs a number of seconds"
		run "$@"
		;;
	replay)
		replay "$@"
		;;
	merge)
		merge
		;;
	coverage)
		coverage
		;;
	*)
		die "unknown verb $verb"
		;;
	esac
}

# Read as a whole before it runs: an edit meanwhile must not reach this run.
main "$@"; exit
