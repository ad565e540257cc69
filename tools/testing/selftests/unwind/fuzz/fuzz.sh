#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The user stack walker, as a program, on made-up stacks, code and SFrame tables.
#
#   fuzz.sh replay LINUX-TREE OUT [TEXT...]	walk each input of corpus/, as TAP
#   fuzz.sh run LINUX-TREE OUT SECONDS [SEED]	look for new ones, with libFuzzer; as TAP
#   fuzz.sh merge LINUX-TREE OUT		print what OUT/found adds to corpus/found
#   fuzz.sh coverage LINUX-TREE OUT		lines that corpus/ and OUT/found reach
#
# The same for the SFrame decoder, on made-up sections and those of ../sframe/, in
# OUT/sframe: sframe-replay, sframe-run, sframe-merge, sframe-coverage. Replay also
# compares the frame of each address in ../sframe/ with a recorded dump of readelf. The
# same program runs the ELF parser on made-up images. Replay also compares its results for
# the files of ../sframe/ with those of readelf, and then changes each header field.
#
# LINUX-TREE is the source of a kernel with the walker, OUT a directory for the build.
# Replay needs any compiler with sanitizers (CC), the others need clang. The decoder
# needs libelf, python3, readelf. JOBS fuzzers run side by side. The status is 1 if
# something was found.
set -u -o pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck disable=SC1091	# it is linted by itself
. "$here/build.sh"

# The files under test, and the harness that makes a program of them.
# shellcheck disable=SC2034	# build.sh uses them
walker() {
	under_test=(kernel/unwind/{user,vma,text,sframe_find,sframe_user,sframe}.c
		arch/x86/kernel/unwind_user_{code,fp,frame,sframe}.c)
	under_test_flags=()
	harness=(sim sim_object input input_table sframe_plain model fuzz)
	needs_insn=1
	libs=()
	corpus=$here/corpus
	samples=()
	max_len=2048
}

# shellcheck disable=SC2034	# likewise
sframe() {
	local packed
	under_test=(kernel/unwind/{sframe,elf}.c)
	# Count calls.
	under_test_flags=(-finstrument-functions -include "$here/elf_sim.h")
	harness=(sframe sframe_plain sframe_input elf elf_plain elf_input)
	needs_insn=
	libs=(-lelf)
	corpus=$here/sframe-corpus
	max_len=2048
	out=$out/sframe
	mkdir -p "$out/samples"
	samples=()
	for packed in "${here%/*}"/sframe/*.gz.base64; do
		samples+=("$out/samples/$(basename "$packed" .gz.base64)")
		base64 -d "$packed" | gunzip > "${samples[-1]}" || die "$packed is wrong"
	done
}

die() {
	echo "fuzz: $*" >&2
	exit 2
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
	for text in "$corpus"/*; do
		awk -v name="$out/texts/${text##*/}" '
			$0 == "next" { nr++; next }
			{ print > name "." nr + 0 }' "$text"
	done
	for text in "$out"/texts/*; do
		"$out/replay" bytes < "$text" > "$out/seeds/${text##*/}" || die "$text is wrong"
	done
	for text in "${samples[@]}"; do
		"$out/replay" seed "$text" > "$out/seeds/${text##*/}" || die "$text is wrong"
	done
}

# Compare with the recorded dump of readelf.
# shellcheck disable=SC2317	# called by attempt
compare_rows() {
	timeout 60 "$out/replay" rows "$1" |
		python3 "$here/sframe_rows.py" - "${here%/*}/sframe/$(basename "$1" .so).txt"
}

# Print the section, by its program header and by its section header, and the code, in
# the format of "replay headers".
# shellcheck disable=SC2317	# likewise
readelf_headers() {
	readelf -lSW "$1" | awk '
		function hex(s) { sub(/^(0x)?0*/, "", s); return s == "" ? "0" : s }
		{ sub(/^ *\[ *[0-9]+\]/, "") }
		$1 == ".sframe" && $3 ~ /^[0-9a-f]+$/ {
			print "section", hex($4), hex($3), hex($5)
		}
		$1 == "LOAD" && /R.?E 0x/ { print "segment", hex($2), hex($3), hex($5) }
		$1 == "GNU_SFRAME" || $1 ~ /^L.*[+]0x474e554$/ {
			print "header", hex($2), hex($3), hex($5)
		}'
}

# Compare with the output of readelf.
# shellcheck disable=SC2317	# likewise
compare_headers() {
	diff <(readelf_headers "$1" | sort) <(timeout 60 "$out/replay" headers "$1" | sort) &&
		timeout 60 "$out/replay" damage "$1"
}

# shellcheck disable=SC2317	# likewise
replay_text() {
	timeout 60 "$out/replay" replay "$1"
}

# The last line may lack a newline.
comment() {
	awk '{ print "# " $0 }'
}

# attempt NUMBER FILE COMMAND [WORD]: run the command in its own process, so a crash is
# a result like others
attempt() {
	local name=${2##*/}${4:+ $4}
	if ("$3" "$2"; exit $?) > "$out/replay.log" 2>&1; then
		echo "ok $1 $name"
		[ -z "${VERBOSE:-}" ] || comment < "$out/replay.log"
	else
		comment < "$out/replay.log"
		echo "not ok $1 $name"
		return 1
	fi
}

replay() {
	local file count=0 failed=0
	if [ $# -gt 0 ]; then
		samples=()
	else
		set -- "$corpus"/*
	fi
	build_replay
	ulimit -c 0
	echo "TAP version 13"
	echo "1..$((2 * ${#samples[@]} + $#))"
	for file in "${samples[@]}"; do
		attempt $((++count)) "$file" compare_rows || failed=1
		attempt $((++count)) "$file" compare_headers headers || failed=1
	done
	for file; do
		attempt $((++count)) "$file" replay_text || failed=1
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
		"$out/fuzzer" -seed=$((seed + job)) -max_total_time="$seconds" \
			-max_len="$max_len" -timeout=10 -reload=10 -print_final_stats=1 \
			-artifact_prefix="$out/crash/" "$out/found" "$out/seeds" \
			> "$out/fuzz-$job.log" 2>&1 < /dev/null &
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
		echo "# replay it: $0 $prefix""replay $linux $top $crash.txt"
	done
	return "$found"
}

# Print the final statistics of libFuzzer in one line.
summary() {
	local cov runs seconds walks
	cov=$(sed -n 's/.*\(cov: [0-9]* ft: [0-9]* corp: [0-9]*\).*/\1/p' "$1" | tail -n 1)
	runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$1")
	seconds=$(sed -n 's/^Done .* in \([0-9]*\) second.*/\1/p' "$1")
	walks=$(grep -h -e '^[0-9]* walks, ' -e '^[0-9]* sections, ' -e '^[0-9]* images, ' "$1" |
		paste -sd ';' | sed 's/;/; /')
	echo "${runs:-?} executions, ${seconds:+in }${seconds:-ended early}${seconds:+ s}, $cov" \
		"${walks:+($walks)}"
}

# Print the found inputs that reach code that the corpus does not, as text.
merge() {
	local input
	need_clang
	build_replay
	build_fuzzer
	seeds
	rm -rf "$out/merged"
	cp -r "$out/seeds" "$out/merged"
	"$out/fuzzer" -merge=1 -use_counters=0 -max_len="$max_len" "$out/merged" \
		"$out/found" > "$out/merge.log" 2>&1 || die "merge failed, see $out/merge.log"
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
	name=("${under_test[@]/#/$linux/}" ${needs_insn:+"$linux/tools/arch/x86/lib/insn.c"})
	llvm-cov report "$out/covered" -instr-profile="$out/covered.profile" "${name[@]}"
	llvm-cov show "$out/covered" -instr-profile="$out/covered.profile" "${name[@]}" \
		> "$out/coverage.txt"
	echo "each line: $out/coverage.txt"
}

main() {
	local verb=${1:-} prefix=
	[ $# -ge 3 ] ||
		die "usage: $0 [sframe-]VERB LINUX-TREE OUT..., with replay, run, merge or" \
			"coverage as VERB"
	linux=$(cd "$2" && pwd) || exit 2
	mkdir -p "$3" && top=$(cd "$3" && pwd) || exit 2
	shift 3
	out=$top
	if [ "${verb#sframe-}" != "$verb" ]; then
		prefix=sframe-
		sframe
	else
		walker
	fi
	case ${verb#sframe-} in
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

# bash has read the whole file by now: an edit meanwhile does not affect this run.
main "$@"; exit
