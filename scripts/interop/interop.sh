#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# make interop: run upstream's perf, from Debian sid, on this kernel. Both versions
# of perf record, and each reads both recordings.
#
#   interop.sh KERNEL-BUILD-DIR OUTPUT-DIR
set -eu -o pipefail

here=$(cd "$(dirname "$0")" && pwd)
qemu=$here/../../tools/testing/selftests/unwind/qemu
kernel=$1
out=$2
root=$out/sid
begin=$SECONDS

die() { echo "interop: $*" >&2; exit 1; }

# Print the Debian mirror that this machine's apt uses.
mirror() {
	# shellcheck disable=SC2016	# apt's own placeholder
	apt-get indextargets --format '$(REPO_URI)' \
		'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1
}

mkdir -p "$out"
if [ ! -e "$out/sid.complete" ]; then
	[ "$(id -u)" = 0 ] || die "debootstrap needs root"
	from=$(mirror)
	[ -n "$from" ] || die "apt knows no mirror of Debian"
	free=$(df -Pm "$out" | awk 'NR == 2 { print $4 }')
	[ "$free" -ge 1000 ] || die "the disk has $free MB free, Debian sid needs 1000 MB"
	echo "interop: getting Debian sid with its linux-perf (about 2 minutes)"
	rm -rf "$root"
	debootstrap --variant=minbase --include=linux-perf sid "$root" "$from" \
		> "$out/debootstrap.log" 2>&1 < /dev/null || {
		tail -n 5 "$out/debootstrap.log" >&2
		die "debootstrap failed; the whole log is $out/debootstrap.log"
	}
	: > "$out/sid.complete"
fi

rm -rf "$out/out"
mkdir "$out/out"
OUT=$out/out LOG=$out/log TIMEOUT=${TIMEOUT:-300} \
	"$qemu/vm.sh" run "$kernel" "'$here/guest-interop.sh' '$root'"
echo
status=0
"$here/interop-table.py" "$out/out" || status=1
echo "interop: $((SECONDS - begin)) s; recordings and reports are in $out/out"
exit "$status"
