#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Tests of the harness itself, as TAP: the scan of the log, the comparison of
# configurations, and with a KERNEL-BUILD-DIR as argument each verdict of vm.sh.
set -u

here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
count=0
failed=0

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

# A case is a log; its name up to the first '-' is the expected outcome.
for log in "$here"/cases/*.log; do
	case $(basename "$log") in
	clean-*) want=0 ;;
	splat-*) want=1 ;;
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

vm() { CHECK=1 TIMEOUT=${limit:-120} LOG=$tmp/log "$here/vm.sh" run "$kernel" "$1"; }

if kernel=${1-} && [ -n "$kernel" ]; then
	expect 0 "vm: success" vm true
	expect 7 "vm: the command's own status" vm 'exit 7'
	expect 137 "vm: the command is killed" vm 'kill -9 $$'
	expect 120 "vm: a panic" vm 'echo c > /proc/sysrq-trigger; sleep 60'
	expect 123 "vm: a silent end" vm 'echo b > /proc/sysrq-trigger; sleep 60'
	limit=15 expect 124 "vm: a command that hangs" vm 'sleep 1000'
	expect 125 "vm: no QEMU" env QEMU=no-such-qemu "$here/vm.sh" run "$kernel" true
	expect 125 "vm: no kernel" "$here/vm.sh" run "$tmp" true
	echo proof > "$tmp/proof"
	expect 0 "vm: /host and /out" env OUT="$tmp/out" "$here/vm.sh" run "$kernel" \
		'chroot /host /bin/true && echo proof > /out/proof'
	expect 0 "vm: /out reaches the host" cmp "$tmp/proof" "$tmp/out/proof"
fi
echo "1..$count"
[ "$failed" = 0 ]
