# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# Shared by run.sh and perf.sh: programs to record, and the share of complete samples. To be
# sourced, with the arguments of the command line.
# shellcheck disable=SC2034	# used by the sourcing scripts
set -u

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=../../testing/selftests/unwind/lib/tap.sh
. "$here/../../testing/selftests/unwind/lib/tap.sh"
chmod 755 "$work"
export HOME=$work

# To be followed by a file, and a command.
record=(perf record -B -F 499 -e cpu-clock --call-graph deferred -o)

# shellcheck disable=SC2016	# this is perl
spin='my $x = 0; for (1..$ARGV[0]) { $x += sqrt($_) }'

processes=(sh -c 'for i in 1 2 3 4 5 6 7 8; do sort -n numbers | tail -n 1 | cat; done')
seq 1 60000 | awk '{ print $1 * 7919 % 1000003 }' > numbers

# Three programs without a section: named-eh lacks .eh_frame, named-id lacks a build-id, and
# the build-id of named-short is too short.
build_named() {
	echo 'int main(void) { for (volatile long i = 0; i < 100000000; i++); }' > named.c
	gcc -O2 -o named-eh named.c && gcc -O2 -Wl,--build-id=none -o named-id named.c &&
		gcc -O2 -Wl,--build-id=0x12 -o named-short named.c &&
		objcopy --remove-section .eh_frame --remove-section .eh_frame_hdr named-eh
}

# share FILE OPTION...: how many of 1000 samples are complete, and how many samples have no
# user stack; options are those of perf script
share() {
	local complete depth
	perf script -f -i "$@" -F ip,sym,dso,dsoff 2> /dev/null | "$here/complete.py" > shares
	tail -n +2 shares
	read -r samples complete depth none < shares
	echo "# $1: $samples samples, $complete complete, $depth deep; $none without user stack"
	[ "$samples" -ge 50 ] || { fail "too few samples"; return 1; }
	per_mille=$((complete * 1000 / samples))
	incomplete=$((samples - complete))
}

# whole FILE OPTION...: nearly all samples are complete, or all but two; and few samples have
# no user stack, as those of exec and exit
whole() {
	share "$@" && { [ "$per_mille" -ge 990 ] || [ "$incomplete" -le 2 ]; } || return 1
	[ "$none" -le $((samples / 25)) ] || fail "too many without user stack"
}

# stacks_end FILE: most samples are not complete
stacks_end() {
	share "$1" && [ "$per_mille" -lt 700 ]
}

# as_somebody COMMAND...: run as a user without privileges, who may record own processes, with
# PARANOID for perf_event_paranoid, by default 1
as_somebody() {
	local paranoid=/proc/sys/kernel/perf_event_paranoid former status
	mkdir -p somebody && chmod 777 somebody || return 1
	read -r former < $paranoid
	echo "${PARANOID-1}" > $paranoid
	HOME=$PWD/somebody setpriv --reuid 12345 --regid 12345 --clear-groups "$@"
	status=$?
	echo "$former" > $paranoid
	return $status
}
