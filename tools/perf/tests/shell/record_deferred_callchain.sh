#!/bin/bash
# perf record with deferred user callchains
# SPDX-License-Identifier: GPL-2.0

# Records a program that runs mostly in the kernel and one that does not, and checks
# the output of all readers. The test is skipped if the kernel does not support
# deferral.

set -e

err=0
ended=" "
dir=$(mktemp -d /tmp/__perf_test.deferred.XXXXX)
data="${dir}/perf.data"
busy="perf test -w noploop"
kernel="perf bench -f simple sched messaging -g 1 -l 50"
# Buffers that hold a whole recording, however slowly perf reads them.
all=16M

# The machine's original level while test_ordinary_user changes it
paranoid=""

restore_paranoid() {
	[ -z "${paranoid}" ] || echo "${paranoid}" > /proc/sys/kernel/perf_event_paranoid
	paranoid=""
}

cleanup() {
	rm -rf "${dir}"
	trap - EXIT TERM INT
}

# An error or a signal in between
trap 'restore_paranoid; rm -rf "${dir}"; exit 1' EXIT TERM INT

fail() {
	echo "$1 [Failed]"
	err=1
}

# The last command of each part. An error in an arithmetic expansion ends a function
# without a status that "set -e" sees, so a part without this call counts as failed.
part_ends() {
	ended="${ended}${FUNCNAME[1]} "
}

check_parts() {
	for part in $(declare -F | sed -n 's/^declare -f \(test_.*\)/\1/p'); do
		case "${ended}" in
		*" ${part} "*) ;;
		*) fail "${part} has not come to its end" ;;
		esac
	done
}

# Read a file without inlined functions: perf asks addr2line for those and gives up if
# that is slow, and each would be a line in a callchain.
script() {
	perf script --no-inline "$@" 2> /dev/null
}

report() {
	perf report --no-inline "$@" 2> /dev/null
}

# The number in the first line of perf report --stats that begins with $2: that of all events.
stat_of() {
	perf report -i "$1" --stats 2> /dev/null | sed -n "/^ *$2: *\([0-9]*\).*/{s//\1/p;q}"
}

# How many events have all of the attribute fields?
events() {
	attrs=$(perf evlist -v -i "${data}")
	for field in "$@"; do
		attrs=$(echo "${attrs}" | grep -e "${field}" || true)
	done
	echo "${attrs}" | grep -c "type:" || true
}

# Does the file hold records or the marker, or the attribute bits?
has_deferral() {
	perf evlist -v -i "$1" | grep -q "defer_" ||
		LC_ALL=C grep -qaP '\x80\xfd\xff{6}' "$1" ||
		perf report -i "$1" --stats 2> /dev/null | grep -q "_DEFERRED events"
}

# BPF programs do not matter here, and searching for them takes most of the time.
record() {
	perf record -q --no-bpf-event -F 1000 -o "${data}" "$@" 2> "${dir}/log" || {
		cat "${dir}/log"
		return 1
	}
}

skip_unsupported() {
	# Not quiet: the message tells whether deferral is supported.
	perf record -e cpu-clock --call-graph deferred -o "${data}" -- true \
		> "${dir}/log" 2>&1
	if grep -q "not supported by this kernel" "${dir}/log"; then
		echo "Skip, this kernel does not support deferred user callchains"
		cleanup
		exit 2
	fi
}

test_attr() {
	echo "Attributes"

	record -e cpu-clock --call-graph deferred -- true
	[ "$(events "defer_callchain: 1" "defer_output: 1")" -eq 1 ] || fail "One event"

	record -e cpu-clock,task-clock --call-graph fp,defer -- true
	[ "$(events "-clock" "defer_callchain: 1")" -eq 2 ] || fail "Two events"
	[ "$(events "defer_output: 1")" -eq 1 ] || fail "Two events, one output"

	record -e '{cpu-clock,task-clock}' --call-graph deferred -- true
	[ "$(events "defer_output: 1")" -eq 1 ] || fail "Group, one output"

	record -e cpu-clock/call-graph=no/,task-clock/call-graph=deferred/ -- true
	[ "$(events "^task-clock" "defer_callchain: 1")" -eq 1 ] || fail "Event term"
	[ "$(events "defer_output: 1")" -eq 1 ] || fail "Event term, one output"

	record -e cpu-clock --call-graph deferred --kernel-callchains -- true
	! has_deferral "${data}" || fail "No user callchains, no deferral"

	for mode in deferred,4 fp,4,defer fp,defer,4; do
		record -e cpu-clock --call-graph "${mode}" -- true
		[ "$(events "defer_output: 1" "sample_max_stack: 4")" -eq 1 ] ||
			fail "Stack depth of ${mode}"
	done
	part_ends
}

# Samples in time order, no cookie, and at least one with both halves.
check_script() {
	script -F time,ip,sym "$@" | awk '
		/^ *[0-9]+\.[0-9]+:/ {
			sub(":", "", $1)
			if ($1 + 0 < last + 0)
				unsorted++
			last = $1
			kernel = 0
			samples++
			next
		}
		/user callchain deferred/ { unmerged++ }
		/user callchain (lost|cut)/ { next }
		/^[ \t]+ffff/ { kernel = 1 }
		/^[ \t]+[0-9a-f]+ / && !/^[ \t]+ffff/ { user++; if (kernel) both++; kernel = 0 }
		END {
			printf "%d samples, %d with kernel and user frames\n", samples, both
			exit !(samples && user && both && !unsorted && !unmerged)
		}'
}

test_merge() {
	echo "Merging"

	# shellcheck disable=SC2086
	record -m "${all}" -e cpu-clock --call-graph deferred -- ${kernel}
	check_script -i "${data}" || fail "Callchains of a program in the kernel"

	# All tasks have ended, and so has each kernel entry.
	merged=$(stat_of "${data}" "samples merged")
	lost=$(stat_of "${data}" "samples lost")
	echo "${merged} samples merged, ${lost} lost"
	[ "${merged}" -gt 0 ] || fail "No sample merged"
	[ "${lost}" -eq 0 ] || fail "Samples lost"

	report -i "${data}" --stdio -g caller > "${dir}/report" || fail "Report"
	! grep -q "user callchain deferred" "${dir}/report" || fail "Report has cookies"

	script -i "${data}" --no-merge-callchains > "${dir}/script"
	grep -q "DEFERRED CALLCHAIN \[cookie: [0-9a-f]*\]" "${dir}/script" || fail "Records apart"

	perf report -v -i "${data}" --stats 2>&1 | grep -q "^Looking for the records" ||
		fail "Report says what it does"

	perf report -D -i "${data}" 2> /dev/null > "${dir}/dump"
	grep -q "PERF_RECORD_CALLCHAIN_DEFERRED.*cookie: 0x" "${dir}/dump" || fail "Raw dump"
	part_ends
}

# Recording reads the file for build-ids, which takes no merging. It merges only to count what
# missing sections cost.
test_record() {
	echo "Recording"

	# shellcheck disable=SC2086
	perf record -v --no-sframe --no-bpf-event -F 1000 -e cpu-clock --call-graph deferred \
		-o "${data}" -- ${kernel} > "${dir}/log" 2>&1 || fail "Record"
	! grep "Looking for the records\|Deferred callchains" "${dir}/log" || fail "It merges"

	# Samples at the end of each file have no records.
	# shellcheck disable=SC2086
	perf record --no-sframe --no-bpf-event -F 1000 -e cpu-clock --call-graph deferred \
		--switch-output=1B --no-no-buildid --no-no-buildid-cache \
		-o "${dir}/switched" -- ${kernel} > "${dir}/log" 2>&1 || fail "Switched output"
	! grep "Deferred callchains" "${dir}/log" || fail "It warns of what it does not merge"
	rm -f "${dir}"/switched*
	part_ends
}

# The longest callchain of an event, without the mark of a cut chain.
longest() {
	script -i "${data}" -F event,ip | awk -v event="$1" '
		/: *$/ { mine = $1 == event ":"; nr = 0; next }
		mine && NF && $1 != "ffffffffffffeffe" && ++nr > max { max = nr }
		END { print max + 0 }'
}

# Is $1 in the callchains of the report? Lines of entries have the level of a symbol.
in_chains() {
	grep -v "^#" "${dir}/report" | grep -v " \[.\] " | grep -q "$1"
}

# Each event has the depth of its attr, and the shallow one does not cut the other.
test_depth() {
	echo "Depth"

	for mode in deferred fp; do
		# shellcheck disable=SC2086
		record -e "cpu-clock/max-stack=4,call-graph=${mode},name=shallow/" \
			-e task-clock/max-stack=40,call-graph=deferred,name=deep/ \
			-- ${kernel} > /dev/null
		[ "$(events "^shallow" "sample_max_stack: 4$")" -eq 1 ] ||
			fail "Attribute of the shallow event, ${mode}"
		[ "$(events "defer_output: 1" "sample_max_stack: 40$")" -eq 1 ] ||
			fail "Output next to the shallow event, ${mode}"
		[ "$(longest shallow)" -eq 4 ] || fail "Depth of the shallow event, ${mode}"
		[ "$(longest deep)" -gt 10 ] || fail "Depth of the deep event, ${mode}"
	done

	# If recording is delayed, a dummy event writes the records, as deep as the deepest event.
	record -D 1 -e cpu-clock/max-stack=4,call-graph=deferred/ \
		-e task-clock/max-stack=40,call-graph=deferred/ -- true
	[ "$(events "^dummy" "defer_output: 1" "sample_max_stack: 40$")" -eq 1 ] ||
		fail "Output of an event for all"

	# Cut in the kernel, which limits the user part alone to that depth.
	# shellcheck disable=SC2086
	record -e cpu-clock:u --call-graph deferred,4 -- ${busy}
	[ "$(longest cpu-clock:u)" -eq 4 ] || fail "Depth of what was cut"
	[ "$(stat_of "${data}" "samples cut")" -gt 0 ] || fail "Count of what was cut"
	script -i "${data}" -F ip,sym > "${dir}/script"
	grep -q "user callchain cut" "${dir}/script" || fail "Mark in perf script"
	for order in caller callee; do
		report -i "${data}" --stdio --max-stack 4 -g "${order}" --no-children \
			> "${dir}/report"
		in_chains "user callchain cut" || fail "Mark in perf report, ${order}"
		in_chains noploop || fail "Sampled function in perf report, ${order}"
	done

	# Readers know the limit even if it is the sysctl's.
	sysctl=$(cat /proc/sys/kernel/perf_event_max_stack)
	[ "${sysctl}" -le 8180 ] || sysctl=8180
	record -e cpu-clock --call-graph deferred -- true
	[ "$(events "defer_output: 1" "sample_max_stack: ${sysctl}$")" -eq 1 ] ||
		fail "Depth of the sysctl"
	record -e cpu-clock,task-clock --call-graph deferred -- true
	[ "$(events "defer_callchain: 1" "sample_max_stack: ${sysctl}$")" -eq 2 ] ||
		fail "Depth of the sysctl, two events"
	part_ends
}

test_user() {
	echo "User mode"

	# shellcheck disable=SC2086
	record -e cpu-clock:u --call-graph deferred -- ${busy}
	script -i "${data}" -F ip,sym > "${dir}/script"
	grep -A3 " noploop$" "${dir}/script" | grep -q -v " noploop$" || fail "Callers of noploop"
	[ "$(stat_of "${data}" "samples merged")" -gt 0 ] || fail "Counts of user mode"
	part_ends
}

# Make a program that calls a function 128 bytes after its entry point, which takes some
# time. $2 is the start of the function, $3 its end; %rbp is 0 before the call.
make_program() {
	zeros='\0\0\0\0'
	start='\061\355\350\171\0\0\0\270\074\0\0\0\061\377\017\005'
	# 500 million times: mov $500000000, %ecx; 1: dec %ecx; jne 1b
	loop='\271\0\145\315\035\377\311\165\374'
	{
		printf '\177ELF\002\001\001\0%b%b' "${zeros}" "${zeros}"
		printf '\002\0\076\0\001\0\0\0\170\0\100\0%b' "${zeros}"
		printf '\100\0\0\0%b%b%b%b' "${zeros}" "${zeros}" "${zeros}" "${zeros}"
		printf '\100\0\070\0\001\0\100\0\0\0\0\0'
		# One segment: the first 4096 bytes of the file
		printf '\001\0\0\0\005\0\0\0%b%b' "${zeros}" "${zeros}"
		printf '\0\0\100\0%b\0\0\100\0%b' "${zeros}" "${zeros}"
		printf '\0\020\0\0%b\0\020\0\0%b' "${zeros}" "${zeros}"
		printf '\0\020\0\0%b%b' "${zeros}" "${start}"
		head -c 112 /dev/zero
		printf '%b%b%b\303' "$2" "${loop}" "$3"
		head -c 4096 /dev/zero
	} > "$1"
	chmod 755 "$1"
}

# Percentage of the merged callchains that end early.
share_early() {
	sed -n 's/^ *merged, end early: *[0-9]* *( *\([0-9]*\)\.[0-9]*%)$/\1/p' "${dir}/report"
}

# The same program with frame pointers and without.
test_ends() {
	echo "Where callchains end"

	[ "$(uname -m)" = x86_64 ] || { part_ends; return 0; }
	# push %rbp; mov %rsp, %rbp; pop %rbp
	make_program "${dir}/with_fp" '\125\110\211\345' '\135'
	# sub $24, %rsp; add $24, %rsp: the kernel decodes the code of a leaf that has the
	# return address at the stack pointer, so this one moves the stack pointer.
	make_program "${dir}/without_fp" '\110\203\354\030' '\110\203\304\030'
	for program in with_fp without_fp; do
		record --no-sframe -e cpu-clock:u --call-graph deferred -- "${dir}/${program}"
		perf report -i "${data}" --stats 2> /dev/null > "${dir}/report"
		echo "${program}: $(share_early) % end early"
		case "${program}" in
		with_fp)
			[ "$(share_early)" -lt 5 ] || fail "Callchains with frame pointers"
			;;
		without_fp)
			[ "$(share_early)" -gt 90 ] || fail "Callchains without frame pointers"
			grep -q "%) ${dir}/${program}$" "${dir}/report" || fail "Where they end"
			;;
		esac
	done
	part_ends
}

test_inject() {
	echo "Inject"

	# shellcheck disable=SC2086
	record -e cpu-clock --call-graph deferred -- ${kernel} > /dev/null
	script -i "${data}" > "${dir}/a"
	for opts in "" "-b"; do
		# shellcheck disable=SC2086
		perf inject ${opts} -i "${data}" -o "${dir}/merged" 2> /dev/null ||
			fail "Inject ${opts}"
		! has_deferral "${dir}/merged" ||
			fail "Inject ${opts} does not suit an old perf"
		script -i "${dir}/merged" > "${dir}/b"
		cmp "${dir}/a" "${dir}/b" || fail "Inject ${opts} changes the output"
	done

	perf inject --no-merge-callchains -i "${data}" -o "${dir}/merged" 2> /dev/null
	has_deferral "${dir}/merged" || fail "Inject merges against the option"
	part_ends
}

# The number of switches in a file with user addresses, and with a mark that these were lost.
switches() {
	script -i "$1" -F event,ip,sym | awk '
		/: *$/ { mine = $1 == "sched:sched_switch:"; got = 0; next }
		mine && NF && $1 !~ "^ffff" && !got++ { users++ }
		mine && /\[user callchain lost\]/ { lost++ }
		END { print users + 0, lost + 0 }'
}

# inject -s writes the latest switch of a task with each later sample of sched_stat for that task,
# and with the user callchain of the switch. It loses no sample of other events.
test_inject_sched() {
	echo "Inject of tracepoints"

	perf version --build-options | grep -q "libtraceevent: \[ on" || { part_ends; return 0; }
	# Few switches, because each is written many times.
	record -m "${all}" -e cpu-clock,sched:sched_switch,sched:sched_stat_runtime \
		--call-graph deferred -- perf bench -f simple sched messaging -g 1 -l 5 > /dev/null
	perf inject -s -i "${data}" -o "${dir}/merged" 2> /dev/null || fail "Inject -s"
	script -i "${data}" | awk -v RS= -v ORS="\n\n" '/cpu-clock:/' > "${dir}/a"
	script -i "${dir}/merged" | awk -v RS= -v ORS="\n\n" '!/sched:sched_switch:/' > "${dir}/b"
	[ "$(grep -c "cpu-clock:" "${dir}/a")" -gt 10 ] || fail "Samples before inject -s"
	cmp "${dir}/a" "${dir}/b" || fail "Inject -s changes other samples"
	read -r before_users before_lost < <(switches "${data}")
	read -r users lost < <(switches "${dir}/merged")
	echo "switches: ${before_users} with user addresses, ${before_lost} lost;" \
		"written: ${users}, ${lost} lost"
	[ "${users}" -gt 10 ] || fail "Inject -s writes no switches with user addresses"
	[ $((before_lost + lost)) -eq 0 ] || fail "Lost user addresses of switches"
	part_ends
}

test_pipe() {
	echo "Pipe"

	# shellcheck disable=SC2086
	perf record -q -F 1000 -e cpu-clock --call-graph deferred -o - -- ${kernel} \
		2> /dev/null > "${data}"
	check_script -i - < "${data}" || fail "Script from a pipe"
	perf report -i - --stats < "${data}" 2> /dev/null > "${dir}/report"
	grep -q "samples merged: *[1-9]" "${dir}/report" || fail "Report from a pipe"

	perf inject -i - -o - < "${data}" 2> /dev/null > "${dir}/merged"
	check_script -i - < "${dir}/merged" || fail "Inject from pipe to pipe"
	perf inject -i - -o "${dir}/merged" < "${data}" 2> /dev/null
	! has_deferral "${dir}/merged" ||
		fail "Inject from a pipe does not suit an old perf"
	check_script -i "${dir}/merged" || fail "Inject from a pipe to a file"
	part_ends
}

test_compressed() {
	echo "Compressed"

	perf version --build-options | grep -q "zstd: \[ on" || { part_ends; return 0; }
	# shellcheck disable=SC2086
	record -z -e cpu-clock --call-graph deferred -- ${kernel}
	check_script -i "${data}" || fail "Script of a compressed file"
	perf inject -i "${data}" -o "${dir}/merged" 2> /dev/null ||
		fail "Inject of a compressed file"
	! has_deferral "${dir}/merged" || fail "Inject of a compressed file did not merge"
	part_ends
}

# Sample each page fault of $2 in the kernel with mode $1.
record_faults() {
	# shellcheck disable=SC2086
	perf record -q --no-bpf-event -m "${all}" -e page-faults:k -c 1 --call-graph "$1" \
		-o "${data}" -- $2 2> "${dir}/log" || fail "Record page faults, $1"
}

# User registers and stack once for each kernel entry, and unwinding from them.
test_user_state() {
	echo "Registers and stack"

	# A page fault for each page that one system call fills, and a few in exec.
	large="dd if=/dev/zero of=/dev/null bs=1M count=1"
	record_faults dwarf "${large}"
	copied=$(stat -c %s "${data}")
	copied=$((copied / $(stat_of "${data}" "SAMPLE events")))
	record_faults dwarf,8192,defer "${large}"
	[ "$(events "defer_output: 1, defer_user_state: 1" "sample_stack_user: 8064")" -eq 1 ] ||
		fail "Attributes of dwarf,8192,defer"
	deferred=$(stat -c %s "${data}")
	deferred=$((deferred / $(stat_of "${data}" "SAMPLE events")))
	echo "${copied} bytes a sample, ${deferred} deferred"
	[ $((deferred * 5)) -le "${copied}" ] || fail "Size of the file"
	[ "$(stat_of "${data}" "samples merged")" -gt 0 ] || fail "No sample has its stack"
	[ "$(stat_of "${data}" "samples lost")" -eq 0 ] || fail "Samples without stack"
	[ "$(stat_of "${data}" "samples empty")" -eq 0 ] || fail "Samples with an empty stack"

	# Few samples, because unwinding by DWARF is slow.
	# shellcheck disable=SC2086
	record -F 100 -e cpu-clock:u --call-graph dwarf,defer -- ${busy}
	script -i "${data}" -F ip,sym > "${dir}/script"
	grep -A3 " noploop$" "${dir}/script" | grep -q " main$\|cmd_test$\|run_" ||
		fail "Callers of noploop"
	script -i "${data}" > "${dir}/a"
	perf inject -i "${data}" -o "${dir}/merged" 2> /dev/null || fail "Inject of stacks"
	! has_deferral "${dir}/merged" || fail "Inject of stacks does not suit an old perf"
	script -i "${dir}/merged" > "${dir}/b"
	cmp "${dir}/a" "${dir}/b" || fail "Inject of stacks changes the output"
	perf inject --no-merge-callchains -i "${data}" -o "${dir}/merged" 2> /dev/null
	has_deferral "${dir}/merged" || fail "Inject of stacks merges against the option"

	# shellcheck disable=SC2086
	perf record -q -F 100 -e cpu-clock:u --call-graph dwarf,defer -o - -- ${busy} \
		2> /dev/null > "${data}"
	perf report -i - --stats < "${data}" 2> /dev/null > "${dir}/report"
	grep -q "samples merged: *[1-9]" "${dir}/report" || fail "Stacks from a pipe"

	# Page faults also happen in the walk, in exec and in exit.
	perf record -q --no-bpf-event -m "${all}" -e page-faults -c 1 \
		--call-graph dwarf,8192,defer -o "${data}" \
		-- sh -c '/bin/true; /bin/true; /bin/true' 2> "${dir}/log"
	[ "$(stat_of "${data}" "samples merged")" -gt 50 ] || fail "Stacks of page faults"
	[ "$(stat_of "${data}" "samples lost")" -eq 0 ] || fail "Page faults without stack"
	empty=$(stat_of "${data}" "samples empty")
	echo "${empty} samples of page faults are empty"
	[ $((empty * 20)) -le "$(stat_of "${data}" "samples merged")" ] || fail "Empty page faults"
	part_ends
}

# The number of kernel entries with samples whose record is missing, but for the last entry
# of each task: the recording may have ended before that one did.
entries_lost() {
	perf report -D -i "$1" 2> /dev/null | awk '
		function cookie(text) {
			sub("^0x", "", text)
			return substr("0000000000000000" text, length(text) + 1)
		}
		/: PERF_RECORD_SAMPLE/ {
			match($0, ": [0-9]+/[0-9]+: ")
			tid = substr($0, RSTART, RLENGTH)
			time = $2
		}
		deferred { task[cookie($NF)] = tid }
		deferred && time >= latest[tid] { latest[tid] = time; last[tid] = cookie($NF) }
		{ deferred = /^[.]+ +[0-9]+: fffffffffffffd80$/ }
		/: PERF_RECORD_CALLCHAIN_DEFERRED/ { came[cookie($NF)] = 1 }
		END {
			for (c in task) {
				entries++
				lost += !(c in came) && last[task[c]] != c
			}
			print entries ? lost + 0 : "no"
		}'
}

# Overwritten buffers, one file per buffer, and a separate tracking event.
test_modes() {
	echo "Modes"

	for mode in --overwrite --threads "-C 0"; do
		# shellcheck disable=SC2086
		record -m "${all}" -e cpu-clock --call-graph deferred ${mode} -- ${kernel} \
			> /dev/null
		merged=$(stat_of "${data}" "samples merged")
		case "${mode}" in
		# Other tasks may be in the kernel when the recording ends.
		-C*) lost=$(entries_lost "${data}") ;;
		*) lost=$(stat_of "${data}" "samples lost") ;;
		esac
		echo "${mode}: ${merged} samples merged, ${lost} lost"
		[ "${merged}" -gt 0 ] || fail "No sample merged with ${mode}"
		[ "${lost}" = 0 ] || fail "Samples lost with ${mode}"
		rm -r "${data}"
	done
	part_ends
}

# Run perf record of noploop as an ordinary user at a level of perf_event_paranoid.
record_as_nobody() {
	level=$1
	shift
	echo "${level}" > /proc/sys/kernel/perf_event_paranoid
	[ "$(cat /proc/sys/kernel/perf_event_paranoid)" = "${level}" ] ||
		fail "perf_event_paranoid cannot be ${level}"
	setpriv --reuid nobody --clear-groups env HOME="${dir}/${level}" \
		"${dir}/perf" record --no-bpf-event "$@" --call-graph deferred \
		-o "${dir}/${level}/data" -- "${dir}/perf" test -w noploop > "${dir}/log" 2>&1
}

# Own programs of a user who may not sample the kernel, or may not sample at all.
test_ordinary_user() {
	echo "Ordinary user"

	[ "$(id -u)" -eq 0 ] || { part_ends; return 0; }
	paranoid=$(cat /proc/sys/kernel/perf_event_paranoid)
	chmod 711 "${dir}"
	cp "$(command -v perf)" "${dir}/perf"
	install -d -o nobody -m 755 "${dir}/3" "${dir}/2" "${dir}/1"
	for level in 2 1; do
		for opts in "" "-e cpu-clock:u" "-e cpu-clock --user-callchains"; do
			# shellcheck disable=SC2086
			record_as_nobody "${level}" ${opts} || {
				cat "${dir}/log"
				fail "Level ${level}, ${opts}"
			}
			# perf refuses to read other users' files as root.
			chown root "${dir}/${level}/data"
			! grep -q "not supported\|cannot be had" "${dir}/log" ||
				fail "Level ${level}, ${opts}: fp"
			[ "$(stat_of "${dir}/${level}/data" "samples merged")" -gt 0 ] ||
				fail "Level ${level}, ${opts}: no sample merged"
		done
	done
	# Some kernels have a level that forbids everything, which is not a lack of support.
	! record_as_nobody 3 -e cpu-clock:u || echo "Level 3 is as level 2"
	! grep -q "not supported\|cannot be had" "${dir}/log" || fail "Level 3: wrong message"
	restore_paranoid
	part_ends
}

# perf trace shows files of perf trace record with their callchains.
test_trace() {
	echo "Trace"

	perf version --build-options | grep -q "libtraceevent: \[ on" || { part_ends; return 0; }
	for mode in fp deferred; do
		perf trace record --call-graph "${mode}" -o "${data}" -- true \
			> "${dir}/log" 2>&1 || fail "perf trace record, ${mode}"
		perf trace -i "${data}" > "${dir}/trace" 2>&1 ||
			fail "perf trace -i, ${mode}"
		grep -q "execve\|mmap" "${dir}/trace" || fail "System calls, ${mode}"
		# A symbol and the path of its file
		grep -q "^ *[a-z_0-9]* (/" "${dir}/trace" || fail "User callchains, ${mode}"
		! grep -q "user callchain" "${dir}/trace" || fail "Marks, ${mode}"
	done
	part_ends
}

# The test PMU, if the kernel has it: its events sample in NMI.
test_nmi() {
	echo "In NMI"

	[ -d /sys/bus/event_source/devices/perf_test ] || { part_ends; return 0; }
	perf list --raw-dump pmu 2> /dev/null | grep -q "perf_test/remote/" || fail "perf list"
	# shellcheck disable=SC2086
	record -e perf_test/remote/ --call-graph deferred -- ${kernel}
	[ "$(stat_of "${data}" "samples merged")" -gt 0 ] || fail "No sample merged"
	part_ends
}

test_refused() {
	echo "Refused"

	perf record -q -e cpu-clock --call-graph lbr,defer -o "${data}" -- true 2> "${dir}/log" &&
		fail "lbr,defer"
	grep -q "only fp and dwarf can be deferred" "${dir}/log" || fail "Message of lbr,defer"
	perf record -q -e cpu-clock --call-graph dwarf,defer,64 -o "${data}" -- true \
		2> "${dir}/log" && fail "dwarf,defer,64"
	grep -q "use dwarf\[,size\]\[,defer\]" "${dir}/log" || fail "Message of dwarf,defer,64"
	for mode in dwarf,8192,deferred dwarf,8192,foo dwarf,deferred fp,foo; do
		perf record -q -e cpu-clock --call-graph "${mode}" -o "${data}" -- true \
			2> "${dir}/log" && fail "${mode}"
		grep -q "^callchain: .*${mode##*,}" "${dir}/log" ||
			fail "Message of ${mode}"
	done
	perf record -q -e cpu-clock/call-graph=nonsense/ -o "${data}" -- true 2> "${dir}/log" &&
		fail "A wrong call-graph term"
	grep -q "invalid call-graph mode" "${dir}/log" || fail "Message of a wrong call-graph term"

	perf version --build-options | grep -q "libtraceevent: \[ on" || { part_ends; return 0; }
	perf trace -e cpu-clock --call-graph deferred -- true > "${dir}/log" 2>&1 &&
		fail "perf trace"
	grep -q "perf trace cannot show deferred" "${dir}/log" || fail "Message of perf trace"
	part_ends
}

skip_unsupported
test_attr
test_merge
test_record
test_depth
test_user
test_ends
test_inject
test_inject_sched
test_pipe
test_compressed
test_user_state
test_modes
test_ordinary_user
test_trace
test_nmi
test_refused
check_parts

cleanup
exit ${err}
