# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# Shared by run.sh and session.sh: how 'sframe run' ends, both with a kernel that takes sections
# and with a stand-in for the device. To be sourced, with $sframe set.
# shellcheck disable=SC2154	# set by the sourcing script

# ends STATUS REGEX ARGUMENT...: 'sframe run' ends with this status, and a sentence matches
ends() {
	local wanted=$1 sentence=$2 status
	shift 2
	timeout 100 "$sframe" run "$@" > out 2> err
	status=$?
	cat err
	[ "$status" = "$wanted" ] || { fail "status $status: sframe run $*"; return 1; }
	[ -z "$sentence" ] || grep -qE "^sframe: .*$sentence" err ||
		fail "not this sentence: $sentence"
}

# shellcheck disable=SC2016	# for the inner shell
statuses() {
	ends 0 "" true && ends 3 "" sh -c 'exit 3' && ends 143 "" sh -c 'kill $$' &&
		ends 137 "" sh -c 'kill -9 $$' && ends 129 "" sh -c 'kill -HUP $$' &&
		ends 3 "" -- sh -c 'exit 3' && ends 1 "" -v false --all &&
		ends 127 "no-such-program: cannot be run" no-such-program &&
		ends 126 "/: cannot be run" / &&
		ends 125 "there is no option '-z'" -z true &&
		ends 125 "'--all=5' has a value" --all=5 true &&
		ends 125 "'-p' lacks its value" -p &&
		ends 125 "and not 'x'" -p x true && ends 125 "and not '0'" -p 0 true &&
		ends 125 "not together" -a -p 1 true && ends 125 "needs a COMMAND" -a &&
		ends 0 "" --help && grep -q "^Usage" out &&
		ends 125 "there is no process 99999999" -p 99999999 true || return 1
	(trap '' CHLD; ends 3 "" sh -c 'exit 3')
}
