#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Look for what a healthy kernel does not say: splat.sh CONSOLE-LOG
#
# Prints the offending lines. Status 0: none, 1: found, 2: the log cannot be read,
# which is no success either. A pattern may follow a time stamp and a caller id.
set -u

log=${1?usage: splat.sh CONSOLE-LOG}
[ -r "$log" ] || { echo "no log at $log"; exit 2; }
[ -s "$log" ] || { echo "the log $log is empty"; exit 2; }

# A console that an emulator still writes to, or a torn write, shows as NUL bytes.
if [ "$(tr -dc '\000' < "$log" | wc -c)" -gt 0 ]; then
	echo "the log holds NUL bytes"
	exit 1
fi

stamp='^(\[ *[0-9]+\.[0-9]+\])?(\[ *[TC][0-9]+\])? *'
tr -d '\r' < "$log" | grep -aE \
	-e "${stamp}(WARNING|BUG|Oops|INFO: (task|rcu|lockdep|possible|trying|rcu_[a-z]+ self)|Kernel panic|watchdog: BUG|UBSAN:|KASAN:|KCSAN:|KMSAN:|KFENCE:|kmemleak: [1-9][0-9]* new|general protection fault|int3:|divide error|stack segment|double fault|traps: PANIC|Kernel BUG|kernel BUG|unreferenced object|rcu: INFO:|rcu: .*(stall|starved)|NMI watchdog|ODEBUG|DEBUG_LOCKS_WARN|refcount_t:|list_(add|del) corruption|usercopy: Kernel memory|bad: scheduling|sched: RT throttling|Bad page|page_owner:.*corrupt)" \
	-e "${stamp}[= ]*(BUG: |KCSAN: |KASAN: )" \
	-e "${stamp}(Call Trace:|possible recursive locking|possible circular locking|inconsistent lock state|suspicious RCU usage|blocked for more than)" \
	-e 'detected stalls on|self-detected stall|kthread starved|blocked for more than [0-9]+ seconds|soft lockup - CPU|hard LOCKUP|Internal error|Unable to handle kernel|Modules linked in:' &&
	exit 1
exit 0
