#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Boot a kernel in QEMU and run one command, or a shell, as root in the guest.
#
#   vm.sh run KERNEL-BUILD-DIR COMMAND	exit status: the command's own
#   vm.sh shell KERNEL-BUILD-DIR
#
# A run succeeds only if the guest's PID 1 writes "exit N" and "end" to its own port
# and the kernel log holds no splat. Every other outcome is a failure with a name and
# a status that commands rarely use:
#
#   120 splat   121 leak   122 emulator fault   123 unexpected stop   124 timeout
#   125 cannot run
#
# On a timeout the guest first gets an NMI: it panics, and prints the backtraces of its CPUs
# and blocked tasks.
#
# Environment: OUT=dir collects /out, LOG=dir keeps console.log and status (else a
# temporary directory), MEM, TIMEOUT in seconds (600 if not set), LEAK=1 checks with kmemleak,
# APPEND adds to the kernel command line, CHECK=1 panics at the first warning,
# VM_CPU names the model of the CPUs, GUEST_PATH is prepended to PATH, QEMU names the
# emulator, ICOUNT=1 gives the guest one CPU and a clock that counts the executed
# instructions, ACCEL picks another accelerator. SINGLESTEP=1 delivers interrupts
# between any two instructions, and not only at the end of translated blocks; it takes
# ten times as long.
set -u

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../../../.." && pwd)
qemu=${QEMU:-qemu-system-x86_64}

say() { printf '%s\n' "$*" >&2; }

# Print the log from the first splat on, or its last lines.
excerpt() {
	local first
	first=$(head -n 1 "$log/splat" 2> /dev/null)
	if [ -n "$first" ]; then
		grep -aF -A 24 -m 1 -e "$first" "$log/console.log"
	else
		tail -n 25 "$log/console.log"
	fi
}

# verdict STATUS WORD TEXT
verdict() {
	say "vm: $2: $3"
	if [ "$1" -ge 120 ] && [ -s "$log/console.log" ]; then
		say "vm: from the kernel log ($log/console.log):"
		excerpt | tr -d '\000\r' | sed 's/^/    /' >&2
		keep=1
	fi
	exit "$1"
}

# A signal to the process group would end rm, and a second one this function. Therefore the
# first command of each trap ignores the signals that come after it.
# shellcheck disable=SC2317	# called by the traps
cleanup() {
	trap '' INT TERM HUP
	# Not only $pid: a signal can arrive before it is set.
	jobs -pr | xargs -r kill 2> /dev/null
	# The emulator may write to $work until it has ended.
	[ -z "$pid" ] || wait_qemu 5 || kill -9 "$pid"
	pid=
	[ -n "${LOG-}" ] || [ "$keep" = 1 ] || rm -rf "$log"
	rm -rf "$work"
}

# The initramfs holds PID 1 and its job.
make_initramfs() {
	local path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

	mkdir -p "$work/root/job"
	cp "$1/vm-init" "$work/root/init"
	printf '%s' "$command" > "$work/root/job/cmd"
	cat > "$work/root/job/env" <<-END
		PATH=${GUEST_PATH:+$GUEST_PATH:}$path
		HOME=/root
		USER=root
		SHELL=/bin/bash
		LC_ALL=C
		TERM=${TERM:-dumb}
		UNWIND_TOP=$top
		VM_CPUS=$cpus
	END
	if [ "$mode" = shell ]; then
		: > "$work/root/job/shell"
		stty size 2>/dev/null > "$work/root/job/size"
	fi
	[ -z "${LEAK-}" ] || : > "$work/root/job/leak"
	(cd "$work/root" && find . -print0 | cpio -0 -o -H newc -R 0:0 --quiet) > "$work/initramfs"
}

# Wait at most $1 seconds for the emulator. A trapped signal ends the wait.
wait_qemu() {
	local end=$((SECONDS + $1))

	while kill -0 "$pid" 2> /dev/null; do
		[ "$SECONDS" -lt "$end" ] || return 1
		# Nobody writes to this pipe: read sleeps without a process that could stay behind.
		read -rt 0.2 <> "$work/idle"
	done
	return 0
}

# Sets ended to the emulator's status, and late if it timed out.
run_qemu() {
	late=
	# Give QEMU its own pipe, because it truncates the file and makes it non-blocking.
	cat < "$work/output" &
	relay=$!
	# QEMU ends with this shell, even if the shell is killed.
	setpriv --pdeathsig TERM "$qemu" "${args[@]}" -chardev file,id=out,path=/dev/fd/1 \
		-device virtserialport,chardev=out,name=out \
		< /dev/null 2> "$work/qemu.err" > "$work/output" &
	pid=$!
	if ! wait_qemu "${TIMEOUT:-600}"; then
		late=1
		echo nmi 1<> "$work/monitor.in"
		wait_qemu 30 || kill "$pid"
		wait_qemu 5 || kill -9 "$pid"
	fi
	wait "$pid"
	ended=$?
	pid=
	wait "$relay"
}

# bash parses this block as a whole before it runs: edits of this file do not affect this run.
{
mode=${1-}
build=${2-}
command=${3-}
case $mode in
run | shell) ;;
*) say "usage: vm.sh run|shell KERNEL-BUILD-DIR [COMMAND]"; exit 125 ;;
esac

keep=0
pid=
work=
log=${LOG-}
trap cleanup EXIT
# Clean up before exit: a signal can arrive when the trap for EXIT has just begun.
trap 'trap "" INT TERM HUP; say "vm: interrupted"; cleanup; exit 130' INT
trap 'trap "" INT TERM HUP; cleanup; exit 143' TERM HUP
{ work=$(trap '' INT TERM HUP; mktemp -d) &&
	mkfifo "$work/idle" "$work/output" "$work/monitor.in" "$work/monitor.out"; } ||
	verdict 125 "cannot run" "no files can be made in ${TMPDIR:-/tmp}"
log=${LOG:-$(trap '' INT TERM HUP; mktemp -d)}
{ mkdir -p "$log" && : > "$log/console.log"; } ||
	verdict 125 "cannot run" "no log can be written to ${log:-${TMPDIR:-/tmp}}"
rm -f "$log/status" "$log/splat"

command -v "$qemu" > /dev/null ||
	verdict 125 "cannot run" "no $qemu on PATH; install qemu-system-x86"
kernel=$build/arch/x86/boot/bzImage
[ -e "$kernel" ] || verdict 125 "cannot run" "no kernel at $kernel"
for tool in init tsc; do
	if [ ! -e "$build/vm-$tool" ] || [ "$here/$tool.c" -nt "$build/vm-$tool" ]; then
		verdict 125 "cannot run" "$build/vm-$tool is not there or older than $here/$tool.c"
	fi
done
cpus=2
[ -z "${ICOUNT-}" ] || cpus=1

out=${OUT:-$work/out}
mkdir -p "$out" || verdict 125 "cannot run" "no directory $out"
make_initramfs "$build" || verdict 125 "cannot run" "the initramfs cannot be written to $work"
truncate -s 256M "$work/swap"
PATH=$PATH:/sbin mkswap -q "$work/swap" > /dev/null 2>&1 ||
	verdict 125 "cannot run" "mkswap failed in $work"

# These thresholds leave room for an emulated CPU on a busy host.
append="console=ttyS0 panic=-1 oops=panic reboot=t no_hash_pointers"
append+=" softlockup_panic=1 watchdog_thresh=60 sysctl.kernel.hung_task_timeout_secs=240"
append+=" sysctl.kernel.hung_task_panic=1 rcupdate.rcu_cpu_stall_timeout=120"
append+=" sysctl.kernel.panic_on_rcu_stall=1 kasan_multi_shot"
# Panic on the NMI that a guest gets on a timeout, because nothing else sends unknown NMIs.
# The panic prints the backtraces of all CPUs and of blocked tasks.
append+=" unknown_nmi_panic panic_print=0xc0"
# Skip the kernel's timer test: on a busy host no timer interrupt may arrive during the test.
append+=" no_timer_check"
# No ACPI: the debug kernel takes half a minute to interpret its tables. The table of the
# multiprocessor specification suffices, but lacks the port of the PM timer, which calibrates
# the local APIC timer, and lists one CPU per socket. Linux does not trust the TSC across
# sockets, but here all CPUs read the host's TSC, so that no watchdog is needed. Pass its
# frequency: a guest on a busy host cannot measure it. With ICOUNT the guest has its own TSC.
append+=" acpi=off pmtmr=0x608 tsc=reliable"
if [ -z "${ICOUNT-}" ]; then
	tsc=$("$build/vm-tsc")
	[ -n "$tsc" ] || verdict 125 "cannot run" "$build/vm-tsc cannot tell how fast the TSC is"
	append+=" tsc_early_khz=$tsc"
fi
# Boot one CPU; PID 1 starts the others. Before 8.2, QEMU can pass a CPU's write to the wrong
# device while another CPU moves the devices as it probes the PCI bus. noreplace-smp: otherwise
# the kernel is patched for a single CPU until then.
[ "$cpus" = 1 ] || append+=" maxcpus=1 noreplace-smp"
[ -z "${CHECK-}" ] || append+=" panic_on_warn=1"
append+=" ${APPEND-}"

# shellcheck disable=SC2054	# the commas are QEMU's
args=(
	-machine q35 -cpu "${VM_CPU:-max}" -smp "$cpus,sockets=$cpus" -m "${MEM:-1G}"
	-nodefaults -display none -no-reboot
	-chardev "pipe,id=monitor,path=$work/monitor" -mon chardev=monitor
	-kernel "$kernel" -initrd "$work/initramfs" -append "$append"
	-serial "file:$log/console.log"
	-device virtio-serial-pci
	-chardev "file,id=status,path=$log/status"
	-device virtserialport,chardev=status,name=status
	-drive "file=$work/swap,if=virtio,format=raw,cache=unsafe,werror=report"
	-virtfs "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"
	-virtfs "local,path=$out,mount_tag=out,security_model=none"
)
# Run all CPUs in one thread. With one thread per CPU, a CPU can run the int3 of
# text_poke_bp() from its cache of translated code after another CPU has removed the int3 and
# its handler ("Oops: int3"). Switching tracepoints, static calls or probes patches text.
# Use ACCEL=tcg,thread=multi only for tests that need two CPUs at the same time, and patch no text
# meanwhile.
# shellcheck disable=SC2054	# the commas are QEMU's
if [ -n "${ICOUNT-}" ]; then
	args+=(-accel tcg,thread=single -icount shift=0,sleep=off)
else
	args+=(-accel "${ACCEL:-tcg,thread=single}")
fi
[ -z "${SINGLESTEP-}" ] || args+=(-singlestep)
late=
if [ "$mode" = shell ]; then
	"$qemu" "${args[@]}" -chardev stdio,id=out,signal=off \
		-device virtconsole,chardev=out 2> "$work/qemu.err"
	ended=$?
else
	run_qemu
	# The emulator crashed with a signal. Before PID 1 ran, and without a splat, nothing was
	# tested yet: run it once more.
	case $ended in
	132 | 134 | 135 | 136 | 139)
		if [ ! -s "$log/status" ] && { [ ! -s "$log/console.log" ] ||
			"$here/splat.sh" "$log/console.log" > /dev/null; }; then
			cat "$work/qemu.err" >&2
			say "QEMU ended with status $ended before the guest was up; once more"
			run_qemu
		fi
		;;
	esac
fi
grep -v 'terminating on signal' "$work/qemu.err" >&2

status=$(cat "$log/status" 2> /dev/null)
"$here/splat.sh" "$log/console.log" > "$log/splat"
found=$?
[ -z "$late" ] || verdict 124 timeout "no end after ${TIMEOUT:-600} s (TIMEOUT=seconds)"
# An emulator that exits before it writes anything has not booted a guest.
[ "$found" != 2 ] || [ "$ended" = 0 ] ||
	verdict 125 "cannot run" "QEMU ended with status $ended"
# Only CPUs that run in parallel can see each other's old text.
case $found-${ACCEL-} in
0-*) ;;
3-*multi*) verdict 122 "emulator fault" "int3 that is not in the kernel's text" ;;
*) verdict 120 splat "$(head -n 1 "$log/splat")" ;;
esac
case $status in
*leak*) verdict 121 leak "kmemleak reports unreferenced objects" ;;
esac
[ "$ended" = 0 ] || verdict 125 "cannot run" "QEMU ended with status $ended"
case $status in
ready*exit*end) ;;
ready*signal*end) ;;
*)
	reached=$(echo "$status" | tr '\n' ' ')
	verdict 123 "unexpected stop" "the guest went away after: ${reached:-nothing}"
	;;
esac
read -r how number <<< "$(grep -E '^(exit|signal) ' "$log/status")"
if [ "$how" = signal ]; then
	verdict $((128 + number)) fail "the command was killed by signal $number"
fi
exit "$number"
}
