#!/bin/bash
# perf record with branch stacks of tasks
# SPDX-License-Identifier: GPL-2.0

# Records a program whose calls a PMU for tests keeps as a branch stack, for the program alone and
# for all CPUs: nearly all call chains are whole both times, although other tasks run on the same
# CPU. The test is skipped on kernels without that PMU.

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

	__attribute__((noipa)) void spin(void)
	{
		for (volatile int i = 0; i < 300000; i++)
			;
	}

	/* Records the call of spin() first, so that no sample in there misses it. */
	__attribute__((noipa)) void f3(void)
	{
		called(f3);
		record((uint64_t)f3 + 1, spin);
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

# whole NAME OPTION...: print how many of 1000 chains of samples in spin() are whole
whole() {
	local name=$1
	shift
	taskset -c 0 sh -c 'while :; do :; done' &
	other=$!
	perf record -q -o "${dir}/${name}" -e perf_test/remote/u -c 250000 --call-graph lbr "$@" -- \
		taskset -c 0 "${dir}/chain" "${branches}" 1
	kill "${other}"
	wait "${other}" 2> /dev/null || true
	other=
	perf script --no-inline -i "${dir}/${name}" --comms chain -F ip,sym 2> /dev/null | awk '
		function judge() {
			if (chain ~ /^ spin( |$)/) {
				all++
				whole += chain ~ /^ spin f3 f2 f1 main/
			}
			chain = ""
		}
		NF { chain = chain " " $2 }
		!NF { judge() }
		END { judge(); printf "%d %d\n", all, all ? 1000 * whole / all : 0 }'
}

err=0
for name in task all; do
	options=()
	[ "${name}" = task ] || options=(-a)
	whole "${name}" "${options[@]}" > "${dir}/share"
	read -r samples share < "${dir}/share"
	echo "${name}: ${samples} samples, ${share} of 1000 chains are whole"
	if [ "${samples}" -lt 100 ] || [ "${share}" -lt 990 ]; then
		echo "${name}: chains are not whole [Failed]"
		err=1
	fi
done

cleanup
exit "${err}"
