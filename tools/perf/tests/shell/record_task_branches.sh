#!/bin/bash
# perf record with branch stacks of tasks
# SPDX-License-Identifier: GPL-2.0

# Records a program whose calls a PMU for tests keeps as a branch stack, for the program alone, for
# all CPUs, and to complete deferred callchains of both: nearly all call chains are whole each time,
# although other tasks run on the same CPU, and the program has no frame pointers. The test is
# skipped on kernels without that PMU.

set -e

branches=/sys/kernel/debug/perf_test/branches
pmu=/sys/bus/event_source/devices/perf_test
dir=$(mktemp -d /tmp/__perf_test.branches.XXXXX)

# Do not throttle for the cost of samples under emulation.
percent=/proc/sys/kernel/perf_cpu_time_max_percent
former=$(cat "${percent}")

# A loop that wants the same CPU.
other=

cleanup() {
	[ -z "${other}" ] || kill "${other}" 2> /dev/null || true
	[ ! -w "${percent}" ] || echo "${former}" > "${percent}"
	rm -rf "${dir}"
	trap - EXIT TERM INT
}
trap 'cleanup; exit 1' EXIT TERM INT

skip() {
	echo "$1 [Skip]"
	cleanup
	exit 2
}

if [ ! -e "${pmu}" ] || [ ! -w "${branches}" ]; then
	skip "needs CONFIG_PERF_TEST_PMU, root and debugfs"
fi
command -v cc > /dev/null || skip "needs a C compiler"
echo 0 > "${percent}"

# main() calls f1(), that f2(), that f3(), and that spin(), which works; f3() sleeps then. Each call
# is recorded, and that it returns, as hardware does by itself.
cat > "${dir}/chain.c" <<- 'END'
	#include <fcntl.h>
	#include <stdint.h>
	#include <stdlib.h>
	#include <unistd.h>

	static int branches;

	static void record(uint64_t from, void *function)
	{
		uint64_t call[] = { from, (uint64_t)function };

		if (write(branches, call, sizeof(call)) != sizeof(call))
			_exit(1);
	}

	static __attribute__((always_inline)) inline void called(void *function)
	{
		record((uint64_t)__builtin_return_address(0) - 1, function);
	}

	static __attribute__((always_inline)) inline void returns(void)
	{
		uint64_t any = 0;

		if (write(branches, &any, sizeof(any)) != sizeof(any))
			_exit(1);
	}

	/* Where it is called, which is not known before the first call. */
	static uint64_t call_of_spin;

	__attribute__((noipa)) void spin(void)
	{
		call_of_spin = (uint64_t)__builtin_return_address(0) - 1;
		for (volatile int i = 0; i < 300000; i++)
			;
	}

	/* Records the call of spin() first, so that no sample in there misses it. */
	__attribute__((noipa)) void f3(void)
	{
		called(f3);
		record(call_of_spin ? call_of_spin : (uint64_t)f3 + 1, spin);
		spin();
		returns();
		usleep(1000);
		returns();
	}

	__attribute__((noipa)) void f2(void)
	{
		called(f2);
		for (int i = 0; i < 20; i++)
			f3();
		returns();
	}

	__attribute__((noipa)) void f1(void)
	{
		called(f1);
		for (int i = 0; i < 20; i++)
			f2();
		returns();
	}

	int main(int argc, char **argv)
	{
		branches = open(argv[1], O_WRONLY);
		called(main);
		for (int i = atoi(argv[2]); i; i--)
			f1();
		returns();
		return 0;
	}
END
cc -O2 -fomit-frame-pointer -o "${dir}/chain" "${dir}/chain.c"

# record NAME OPTION...
record() {
	local name=$1
	shift
	taskset -c 0 sh -c 'while :; do :; done' &
	other=$!
	perf record -q -o "${dir}/${name}" -e perf_test/self/ -c 250000 --user-callchains "$@" -- \
		taskset -c 0 "${dir}/chain" "${branches}" 1
	kill "${other}"
	wait "${other}" 2> /dev/null || true
	other=
}

# whole NAME: print the number of samples in spin(), how many of 1000 of their chains are whole, and
# how many of 1000 have callers that a deferred callchain lacks
whole() {
	perf script --no-inline -i "${dir}/$1" --comms chain -F ip,sym 2> /dev/null | awk '
		function judge() {
			if (chain ~ /^ spin( |$)/) {
				all++
				whole += chain ~ /^ spin f3 f2 f1 main/
				marked += mark
			}
			chain = ""
			mark = 0
		}
		/user callchain from branch stack/ { mark = 1; next }
		NF { chain = chain " " $2 }
		!NF { judge() }
		END {
			judge()
			printf "%d %d %d\n", all, all ? 1000 * whole / all : 0,
				all ? 1000 * marked / all : 0
		}'
}

err=0
test_whole() {
	read -r samples share marked <<< "$(whole "$1")"
	echo "$1: ${samples} samples, of 1000 chains ${share} are whole and ${marked} have a mark"
	if [ "${samples}" -lt 100 ] || [ "${share}" -lt 990 ]; then
		echo "$1: chains are not whole [Failed]"
		err=1
	fi
}

test_marked() {
	test_whole "$1"
	if [ "${marked}" -lt 990 ]; then
		echo "$1: callers are not marked [Failed]"
		err=1
	fi
}

# A program that records no calls has the callchains by frame pointers.
test_without() {
	read -r samples share <<< "$(perf script --no-inline -i "${dir}/without" --comms perf \
			-F ip,sym 2> /dev/null | awk '
		$2 == "noploop" { here = NR; all++ }
		NF && NR == here + 1 { callers += $2 ~ /^[a-z_]/ }
		END { printf "%d %d\n", all, all ? 1000 * callers / all : 0 }')"
	echo "without: ${samples} samples, of 1000 chains ${share} have a caller"
	if [ "${samples}" -lt 100 ] || [ "${share}" -lt 990 ]; then
		echo "without: chains without branches are lost [Failed]"
		err=1
	fi
}

# perf report tells which callers come from branch stacks.
test_reported() {
	callers=$(perf report --stdio --no-children --no-inline -i "${dir}/$1" --comms chain \
			2> /dev/null | grep -m 1 -A 3 'user callchain from branch stack' |
		awk '{ print $NF }' | xargs)
	if [ "${callers}" != "stack] f2 f1 main" ]; then
		echo "$1: perf report shows '${callers}' [Failed]"
		err=1
	fi
}

record task --call-graph lbr
test_whole task
record all --call-graph lbr -a
test_whole all
perf record -q -o "${dir}/without" -e perf_test/self/ -c 250000 --user-callchains --call-graph lbr \
	-- perf test -w noploop 1
test_without
record deferred --call-graph deferred,lbr --no-sframe
test_marked deferred
test_reported deferred
record all-deferred --call-graph deferred,lbr --no-sframe -a
test_marked all-deferred
# Readers take the callchains that were written, not the branch stacks.
perf inject -i "${dir}/deferred" -o "${dir}/injected"
test_marked injected

cleanup
exit "${err}"
