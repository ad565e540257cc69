#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Build what the series changes in common code for other architectures, and the code of these
# architectures that uses it: other-archs.sh OUTPUT-DIR SOURCE
#
# Needs Debian's cross compilers. Links and boots no kernel. Prints TAP.
set -u
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$2" && pwd)
mkdir -p "$1"
# tap.sh takes a second argument as names of tests.
set -- "$1"
# shellcheck source-path=SCRIPTDIR source=../tools/testing/selftests/unwind/lib/tap.sh
. "$here/../tools/testing/selftests/unwind/lib/tap.sh"

# builds ARCH TOOLS: build the directories and files in which the series changes common code, and
# all of the architecture's code
builds() {
	local make=(make -s -C "$source" O="$bin/$1" ARCH="$1" CROSS_COMPILE="$2-"
		CC="ccache $2-gcc" HOSTCC="ccache gcc")
	mkdir -p "$bin/$1"
	"${make[@]}" defconfig &&
		"${make[@]}" -j"$(nproc)" kernel/{bpf,events,sched,trace}/ \
			kernel/{exit,fork,rseq}.o fs/{exec,super}.o "arch/$1/"
}

check "s390" builds s390 s390x-linux-gnu
check "powerpc" builds powerpc powerpc64le-linux-gnu
finish
