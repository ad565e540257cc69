#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Test the virtual machine, as TAP: the scan of the log, the comparison of configurations, what
# the Makefile and programs.sh say, and the verdicts of vm.sh: those that need no guest, and,
# with a KERNEL-BUILD-DIR as argument, the others.
# shellcheck source-path=SCRIPTDIR
set -u

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=expect.sh
. "$here/expect.sh"

# Each case is a log; its name up to the first '-' is the expected outcome.
for log in "$here"/cases/*.log; do
	case $(basename "$log") in
	clean-*) want=0 ;;
	splat-*) want=1 ;;
	emulator-*) want=3 ;;
	*) want=2 ;;
	esac
	expect $want "splat: $(basename "$log" .log)" "$here/splat.sh" "$log"
done
expect 2 "splat: no log" "$here/splat.sh" "$tmp/nothing"

printf 'CONFIG_A=y\nCONFIG_B=n\nCONFIG_C=17\n' > "$tmp/requested"
printf 'CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=17\nCONFIG_D=y\n' > "$tmp/final"
expect 0 "config: all there" "$here/check-config.sh" "$tmp/requested" "$tmp/final"
sed 's/CONFIG_A=y/# CONFIG_A is not set/' "$tmp/final" > "$tmp/lost"
expect 1 "config: an option is lost" "$here/check-config.sh" "$tmp/requested" "$tmp/lost"
sed 's/17/18/' "$tmp/final" > "$tmp/lost"
expect 1 "config: a value is changed" "$here/check-config.sh" "$tmp/requested" "$tmp/lost"
sed 's/# CONFIG_B is not set/CONFIG_B=y/' "$tmp/final" > "$tmp/lost"
expect 1 "config: an option is on" "$here/check-config.sh" "$tmp/requested" "$tmp/lost"
expect 2 "config: no file" "$here/check-config.sh" "$tmp/requested" "$tmp/nothing"

# programs WANTED PROGRAM...: the last lines of programs.sh must be those of WANTED
programs() {
	local status
	TMPDIR=$tmp "$here/programs.sh" "$tmp/installed" "${@:2}" > "$tmp/checked"
	status=$?
	printf %b "$1" > "$tmp/wanted"
	sed '1,/^\(not \)\?ok '$(($# - 1))' /d' "$tmp/checked" | diff "$tmp/wanted" - || return 99
	return "$status"
}

mkdir -p "$tmp/installed/unwind"
printf '#!/bin/sh\necho 1..1\necho ok 1 a\n' > "$tmp/installed/unwind/good"
printf '#!/bin/sh\nexit 1\n' > "$tmp/installed/unwind/bad"
printf '#!/bin/sh\nexit 4\n' > "$tmp/installed/unwind/skip"
chmod +x "$tmp/installed/unwind/"*
expect 1 "programs: it fails if one fails" programs \
	'# failed: bad\n# skipped: skip\n# programs: 1 passed, 1 failed, 1 skipped\n' good bad skip
expect 1 "programs: it fails if there are none" programs ''
expect 0 "programs: it does not if one is skipped" programs \
	'# skipped: skip\n# programs: 1 passed, 0 failed, 1 skipped\n' skip good

# in_tree ARGUMENT...: run make in a kernel tree whose scripts build nothing, and whose virtual
# machine prints its command and ends with status 7
in_tree() {
	env -u MAKEFLAGS -u MAKEOVERRIDES -u MAKELEVEL -u T -u KERNEL -u O -u TIMEOUT \
		QEMU=true make -C "$qemu" "$@" > "$tmp/checked" 2>&1
}

# says TEXT ARGUMENT...: make must fail before it builds the kernel, with a line that ends in TEXT
says() {
	rm -f "$tmp/kernel-built"
	! in_tree "${@:2}" && [ ! -e "$tmp/kernel-built" ] && grep "$1\$" "$tmp/checked"
}

qemu=$tmp/tree/tools/testing/selftests/unwind/qemu
mkdir -p "$qemu" "$tmp/tree/init" "$tmp/tree/kernel/unwind"
cp "$here/Makefile" "$here/kernels.mk" "$qemu"
printf '#!/bin/sh\ntouch %s/kernel-built\n' "$tmp" > "$qemu/build-kernel.sh"
# shellcheck disable=SC2016	# the dollar signs are the script's
printf '#!/bin/sh\necho "$MEM $TIMEOUT CHECK=$CHECK leak=$LEAK ${LOG##*/} $3"\nexit 7\n' \
	> "$qemu/vm.sh"
chmod +x "$qemu/vm.sh" "$qemu/build-kernel.sh"
printf 'headers:\n' > "$tmp/tree/Makefile"
printf 'emit_tests:\n\t@printf "unwind:a\\nunwind:b\\n"\n' > "$qemu/../Makefile"
cat > "$tmp/tree/tools/testing/selftests/Makefile" <<'END'
install:
	mkdir -p $(O)/kselftest/kselftest_install
	printf 'unwind:a\nunwind:b\n' > $(O)/kselftest/kselftest_install/kselftest-list.txt
END
expect 0 "make: a directory that is no kernel tree" says "run make test there.  Stop."
: > "$tmp/tree/init/main.c"
expect 0 "make: a kernel without the series" says "it has no kernel/unwind/Kconfig"
: > "$tmp/tree/kernel/unwind/Kconfig"
expect 0 "make: a program that is missing" says "programs are missing: none" QEMU=none
expect 0 "make: a kernel without tests" says "is not one of plain, debug.  Stop." KERNEL=bench
expect 0 "make: two kernels" says "is not one of plain, debug.  Stop." KERNEL="plain debug"
expect 0 "make: a pattern is no kernel" says "is not one of plain, debug.  Stop." KERNEL=%
expect 0 "make: a directory that the guest does not see" \
	says "hidden from the guest, which has its own directory there" O=/var/lib/nothing
expect 2 "make: it fails if the virtual machine does" in_tree
expect 0 "make: all programs run" grep -qx \
	"1G 3600 CHECK=1 leak= log-plain UNWIND_TIMEOUT=1200 .*kselftest_install a b" \
	"$tmp/checked"
expect 0 "make: a wrong name, before the kernel is built" \
	says "there is no program 'c'; there are:" T="a c"
for name in '[ab]' "a's" 'a;b' 'a.b;c'; do
	expect 0 "make: $name is no name" \
		says "there is no program '${name//[/\\[}'; there are:" T="$name"
done
UNWIND_SECONDS=7 in_tree KERNEL=debug T=a.b O="$tmp/tree/o"
installed=$tmp/tree/o/unwind-qemu/kernel-debug/kselftest/kselftest_install
expect 0 "make: one test on the debug kernel, with a variable, built elsewhere" grep -qx \
	"2G 14400 CHECK=1 leak=debug log-debug .* UNWIND_SECONDS='7' sh .* $installed a.b" \
	"$tmp/checked"

# killed: the virtual machine must get SIGTERM if make is killed
killed() {
	local end=$((SECONDS + 60))
	cat > "$qemu/vm.sh" <<-END
		#!/bin/sh
		trap 'touch $tmp/ended; kill \$!; exit' TERM
		touch $tmp/begun
		sleep 60 &
		wait
	END
	in_tree &
	while [ ! -e "$tmp/ended" ] && [ "$SECONDS" -lt "$end" ]; do
		[ ! -e "$tmp/begun" ] || pkill -KILL -f "make -C $qemu"
		sleep 0.1
	done
	[ -e "$tmp/ended" ]
}

expect 0 "make: it is killed, and the virtual machine ends" killed

mkdir "$tmp/bin"
fake_kernel "$tmp/kernel"

# died WANTED NAME COMMAND: check the verdict on a guest whose emulator is this shell command;
# $console is the kernel log, $run the number of runs
died() {
	cat > "$tmp/bin/dying" <<-END
		#!/bin/bash
		ulimit -c 0
		for word; do
			case \$word in
			file:*) console=\${word#file:} ;;
			esac
		done
		echo >> $tmp/runs
		run=\$(wc -l < $tmp/runs)
		$3
	END
	chmod +x "$tmp/bin/dying"
	rm -f "$tmp/runs"
	expect "$1" "vm: $2" env QEMU="$tmp/bin/dying" LOG="$tmp/log" "$here/vm.sh" run \
		"$tmp/kernel" true
	cp "$tmp/output" "$tmp/checked"
}

died 125 "an emulator that does not start is no splat" "exit 1"
expect 0 "vm: that is said" grep -qx "vm: cannot run: QEMU ended with status 1" "$tmp/checked"
died 125 "nor is one that dies twice" 'kill -ABRT $$'
expect 0 "vm: it was run once more" [ "$(wc -l < "$tmp/runs")" = 2 ]
died 120 "a splat counts, however its emulator ends" \
	"cat $here/cases/splat-kasan.log > \$console; exit 1"
died 120 "and after another one that did not start" \
	"[ \$run = 2 ] || kill -ABRT \$\$; cat $here/cases/splat-kasan.log > \$console"
expect 0 "vm: it is the verdict then" [ "$(grep -c '^vm: [a-z]*: ' "$tmp/checked") $(
	grep '^vm: ' "$tmp/checked" | head -n 1 | cut -c -11)" = "1 vm: splat: " ]
died 120 "an empty log after a success is none" "exit 0"
died 121 "a leak that the guest reports" \
	"printf 'ready\\nleak\\nend\\n' > $tmp/log/status
	cat $here/cases/clean-boot.log > \$console"
int3="cat $here/cases/emulator-int3.log > \$console"
died 120 "an int3 outside of the text, of one thread" "$int3"
ACCEL=tcg,thread=multi died 122 "and of two threads" "$int3"
expect 125 "vm: no room for its files" env TMPDIR="$tmp/none" QEMU=false LOG="$tmp/log" \
	"$here/vm.sh" run "$tmp/kernel" true
cp "$tmp/output" "$tmp/checked"
expect 0 "vm: it says where" grep -qx "vm: cannot run: no files can be made in $tmp/none" \
	"$tmp/checked"
printf '#!/bin/sh\nexit 2\n' > "$tmp/bin/cpio"
chmod +x "$tmp/bin/cpio"
expect 125 "vm: no room for the initramfs" env PATH="$tmp/bin:$PATH" QEMU=false LOG="$tmp/log" \
	"$here/vm.sh" run "$tmp/kernel" true
cp "$tmp/output" "$tmp/checked"
expect 0 "vm: that is said, too" grep -q "^vm: cannot run: the initramfs" "$tmp/checked"
rm "$tmp/bin/cpio"

# interrupted: vm.sh must print one line on Ctrl-C
interrupted() {
	printf '#!/bin/sh\necho > %s\nexec sleep 1016\n' "$tmp/started" > "$tmp/bin/slow"
	chmod +x "$tmp/bin/slow"
	env --default-signal=INT QEMU="$tmp/bin/slow" LOG="$tmp/log" "$here/vm.sh" run \
		"$tmp/kernel" true > "$tmp/checked" 2>&1 &
	until [ -s "$tmp/started" ]; do
		kill -0 $! || return 1
		sleep 0.1
	done
	kill -INT $!
	wait $!
	[ $? = 130 ] && echo "vm: interrupted" | diff - "$tmp/checked"
}

expect 0 "vm: an interrupt is reported" interrupted

# stopped: signals to the group of vm.sh, one after the other, must leave no files
stopped() {
	local end=$((SECONDS + 60))
	rm -rf "$tmp/started" "$tmp/left"
	mkdir "$tmp/left"
	set -m
	TMPDIR=$tmp/left QEMU=$tmp/bin/slow LOG=$tmp/log "$here/vm.sh" run "$tmp/kernel" true \
		> "$tmp/checked" 2>&1 < /dev/null &
	set +m
	until [ -s "$tmp/started" ]; do
		kill -0 $! || return 1
		sleep 0.1
	done
	while kill -TERM -$! 2> /dev/null; do
		[ "$SECONDS" -lt "$end" ] || kill -KILL -$!
	done
	wait $!
	[ $? = 143 ] && [ -z "$(ls "$tmp/left")" ]
}

expect 0 "vm: signals leave nothing behind" stopped

# Compare the TSC frequency that the last guest got, the one that it used, and the real one.
told_tsc() {
	awk -v now="$("$kernel/vm-tsc")" '
		match($0, /tsc_early_khz=[0-9]+/) {
			told = substr($0, RSTART + 14, RLENGTH - 14) + 0
		}
		/tsc: Detected/ { used = int($(NF - 2) * 1000 + 0.5) }
		END { exit !(told && told == used && told > now * 0.99 && told < now * 1.01) }
	' "$tmp/log/console.log"
}

vm() { CHECK=1 TIMEOUT=${limit:-600} LOG=$tmp/log "$here/vm.sh" run "$kernel" "$1"; }

if kernel=${1-} && [ -n "$kernel" ]; then
	expect 0 "vm: success" vm true
	expect 0 "vm: the guest is told how fast the TSC is" told_tsc
	expect 7 "vm: the command's own status" vm 'exit 7'
	expect 137 "vm: the command is killed" vm 'kill -9 $$'
	expect 120 "vm: a panic" vm 'echo c > /proc/sysrq-trigger; sleep 60'
	expect 123 "vm: a silent end" vm 'echo b > /proc/sysrq-trigger; sleep 60'
	limit=15 expect 124 "vm: a command that hangs" vm 'sleep 1000'
	expect 0 "vm: it is asked what its CPUs do" grep -q 'NMI backtrace for cpu 1' \
		"$tmp/log/console.log"
	expect 125 "vm: no QEMU" env QEMU=no-such-qemu "$here/vm.sh" run "$kernel" true
	expect 125 "vm: no kernel" "$here/vm.sh" run "$tmp" true
	cat > "$tmp/qemu" <<-END
		#!/bin/sh
		[ ! -e $tmp/died ] || exec ${QEMU:-qemu-system-x86_64} "\$@"
		touch $tmp/died
		ulimit -c 0
		kill -ABRT \$\$
	END
	chmod +x "$tmp/qemu"
	expect 0 "vm: an emulator that dies before the guest is up" env QEMU="$tmp/qemu" \
		"$here/vm.sh" run "$kernel" true
	expect 123 "vm: a CPU that is not there" env APPEND=nr_cpus=1 TIMEOUT=600 \
		LOG="$tmp/log" "$here/vm.sh" run "$kernel" true
	expect 0 "vm: PID 1 says so" grep -q 'init: not 2 CPUs' "$tmp/log/console.log"
	expect 0 "vm: two CPUs with high-resolution timers, and the TSC" vm \
		'grep -c "hres_active *: 1" /proc/timer_list | grep -qx 2 &&
		grep -qx tsc /sys/devices/system/clocksource/clocksource0/current_clocksource'
	echo proof > "$tmp/proof"
	expect 0 "vm: /host and /out" env OUT="$tmp/out" "$here/vm.sh" run "$kernel" \
		'chroot /host /bin/true && echo proof > /out/proof'
	expect 0 "vm: /out reaches the host" cmp "$tmp/proof" "$tmp/out/proof"
fi
finish
