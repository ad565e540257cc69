# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# For tests of the harness: sets tmp, a temporary directory, and prints results in TAP.

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
count=0
failed=0
# The check that runs this script may have exported these.
unset "${!UNWIND_@}"
unset MINUTES ACCEL ICOUNT SINGLESTEP VM_CPU APPEND MEM

# expect WANTED-STATUS NAME COMMAND...
expect() {
	local want=$1 name=$2 got
	shift 2
	"$@" > "$tmp/output" 2>&1
	got=$?
	count=$((count + 1))
	if [ "$got" = "$want" ]; then
		echo "ok $count $name"
	else
		echo "not ok $count $name: status $got, not $want"
		sed 's/^/# /' "$tmp/output"
		failed=$((failed + 1))
	fi
}

# finish: print the plan; fails if a test failed
finish() {
	echo "1..$count"
	[ "$failed" = 0 ]
}

# begun PID: wait until the child of this process is in the file started; fails if the process
# ends before
begun() {
	until [ -s "$tmp/started" ]; do
		kill -0 "$1" 2> /dev/null || return 1
		sleep 0.1
	done
}

# gone PID: test whether this process ends by itself, and otherwise end it
gone() {
	for _ in {1..300}; do
		kill -0 "$1" 2> /dev/null || return 0
		sleep 0.2
	done
	kill "$1"
	return 1
}

# fake_kernel DIR: make an empty kernel that vm.sh accepts
fake_kernel() {
	mkdir -p "$1/arch/x86/boot"
	touch "$1/vm-init" "$1/arch/x86/boot/bzImage"
	printf '#!/bin/sh\necho 1000000\n' > "$1/vm-tsc"
	chmod +x "$1/vm-tsc"
}
