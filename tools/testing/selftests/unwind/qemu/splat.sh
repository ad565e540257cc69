#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Look for splats in a kernel log: splat.sh CONSOLE-LOG
#
# Prints the matching lines. Status 0: none, 1: found, 2: the log cannot be read,
# which is a failure too, 3: the emulator caused the first one. The patterns of the
# first group match only at the start of a message, after the time stamp and caller id: a
# test may print such a word in the middle of its own output.
set -u

log=${1?usage: splat.sh CONSOLE-LOG}
[ -r "$log" ] || { echo "no log at $log"; exit 2; }
[ -s "$log" ] || { echo "the log $log is empty"; exit 2; }

# NUL bytes come from a torn write, or from an old emulator that still writes to the log.
if [ "$(tr -dc '\000' < "$log" | wc -c)" -gt 0 ]; then
	echo "the log holds NUL bytes"
	exit 1
fi

start='^(\[ *[0-9]+\.[0-9]+\])?(\[ *[TC][0-9]+\])? *(watchdog: |rcu: |WARNING: )?'
text=$(tr -d '\r' < "$log" | grep -aE \
	-e "$start(WARNING|BUG|Oops|Kernel panic|kernel BUG|UBSAN|ODEBUG|Call Trace):? " \
	-e "$start(Call Trace:|DEBUG_LOCKS_WARN_ON|unreferenced object 0x)" \
	-e "$start(general protection fault|divide error|double fault|stack segment|int3)[,:] " \
	-e "$start(refcount_t: |list_(add|del) corruption|usercopy: Kernel memory)" \
	-e "$start(possible (recursive|circular) locking|inconsistent lock state)" \
	-e "$start(suspicious RCU usage|bad unlock balance|INFO: (task|trying|rcu))" \
	-e '(BUG|INFO|WARNING|ERROR): (KASAN|KCSAN|KMSAN|KFENCE): ' \
	-e 'INFO: task .* blocked for more than|soft lockup - CPU|hard LOCKUP on' \
	-e 'detected stalls? on|self-detected stall|kthread starved|kmemleak: [1-9][0-9]* new')
[ -n "$text" ] || exit 0
printf '%s\n' "$text"

# The emulator ran an int3 from its cache after the kernel had removed it: in the kernel's
# dump, the byte before the instruction pointer is not int3 (cc).
case $(printf '%s\n' "$text" | head -n 1) in
*'Oops: int3'*) ;;
*) exit 1 ;;
esac
byte=$(tr -d '\r' < "$log" | sed -n '/Oops: int3/,$ s/.*Code: .*\([0-9a-f][0-9a-f]\) <.*/\1/p' |
	head -n 1)
case $byte in
'' | cc) exit 1 ;;
esac
exit 3
