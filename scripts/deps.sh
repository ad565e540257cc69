#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Install missing Debian packages that the build needs; without root, print their
# names in one line. Arguments are additional packages.
set -u

packages="bc binutils bison bpftrace btrfs-progs bzip2 ca-certificates ccache clang codespell cpio
	dpkg-dev dwarves flex gcc git golang-go kmod libbpf-dev libc6-dev libcap-dev
	libdw-dev libelf-dev libprotobuf-c-dev libslang2-dev libssl-dev
	libtraceevent-dev libzstd-dev lld llvm make patch pkg-config protobuf-c-compiler
	procps protobuf-compiler python3 qemu-system-x86 rsync shellcheck sparse trace-cmd
	util-linux xz-utils
	zlib1g-dev $*"

missing=
for package in $packages; do
	case $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) in
	installed) ;;
	*) missing="$missing $package" ;;
	esac
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ]; then
	echo "deps: missing packages: apt-get install --no-install-recommends$missing" >&2
	exit 1
fi
echo "deps: installing$missing"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
install() { apt-get -qq -y --no-install-recommends install $missing > /dev/null; }
install 2> /dev/null || { apt-get -qq update && install; } && exit 0
echo "deps: apt-get install --no-install-recommends$missing failed" >&2
exit 1
