#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Build a kernel for the VM, and the VM's PID 1.
#
#   build-kernel.sh SOURCE BUILD-DIR FRAGMENT...
#
# KCC and KHOSTCC in the environment name the compilers, which are gcc otherwise, and KARGS has
# other variables of the kernel's Makefile.
#
# The configuration is allnoconfig plus the fragments; a later fragment overrides
# an earlier one. It is rebuilt only when a fragment changed, so a menuconfig in
# BUILD-DIR survives, but the result must always contain every line of the
# fragments.
set -eu -o pipefail

# bash parses this block as a whole before it runs: edits of this file do not affect this run.
{
source=${1:?no source tree}
dir=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
name=$(basename "$dir")

die() { printf '%s: %s\n' "$name" "$*" >&2; exit 1; }

# merge FRAGMENT...: print the last line for each option
merge() {
	cat "$@" | sed -n 's/^# \(CONFIG_[A-Za-z0-9_]*\) is not set$/\1=n/; /^CONFIG_/p' |
		awk -F= '!($1 in last) { order[++n] = $1 }
			{ last[$1] = $0 }
			END { for (i = 1; i <= n; i++) print last[order[i]] }'
}

kmake() {
	# shellcheck disable=SC2086	# its words
	make -s -C "$source" O="$dir" ARCH=x86 CC="${KCC:-gcc}" HOSTCC="${KHOSTCC:-gcc}" \
		${KARGS-} "$@"
}

free=$(df -Pm "$(dirname "$dir")" | awk 'NR == 2 { print $4 }')
[ "$free" -ge 1500 ] || die "the disk has $free MB free, a kernel build needs 1500 MB"

mkdir -p "$dir"
exec 9> "$(dirname "$dir")/kernel.lock"
flock -n 9 || { echo "$name: waiting for another kernel build"; flock 9; }
begin=$SECONDS
merge "$@" > "$dir/requested.new"
if ! cmp -s "$dir/requested.new" "$dir/requested" || [ ! -e "$dir/.config" ]; then
	rm -f "$dir/requested"
	echo "$name: configuring"
	kmake KCONFIG_ALLCONFIG="$dir/requested.new" allnoconfig > "$dir/config.log" 2>&1 ||
		{ cat "$dir/config.log" >&2; die "configuration failed"; }
	mv "$dir/requested.new" "$dir/requested"
fi
rm -f "$dir/requested.new"
# Otherwise a new option of the tree stops the build with a question.
if [ -n "$(find "$source" -name 'Kconfig*' -newer "$dir/.config" -print -quit)" ]; then
	kmake olddefconfig > /dev/null < /dev/null
	touch "$dir/.config"
fi
"$here/check-config.sh" "$dir/requested" "$dir/.config" || die "config lost"
[ -e "$dir/arch/x86/boot/bzImage" ] ||
	echo "$name: building (5 to 30 minutes on two CPUs, less with a warm ccache)"
goals=(bzImage)
! grep -q '=m$' "$dir/.config" || goals+=(modules)
kmake -j"$(nproc)" "${goals[@]}" < /dev/null || die "the kernel build failed"
[ ! "${goals[1]:-}" ] || kmake INSTALL_MOD_PATH="$dir/install" modules_install ||
	die "the modules cannot be installed in $dir/install"
# PID 1 of the guest, and the program that measures the host's TSC.
for tool in init tsc; do
	[ ! -e "$dir/vm-$tool" ] || [ "$here/$tool.c" -nt "$dir/vm-$tool" ] || continue
	gcc -static -O2 -Wall -Wextra -Werror -I"$source/tools/testing/selftests" \
		-o "$dir/vm-$tool.tmp" "$here/$tool.c" || die "$here/$tool.c did not compile"
	mv "$dir/vm-$tool.tmp" "$dir/vm-$tool"
done
echo "$name: $dir/arch/x86/boot/bzImage is up to date, $((SECONDS - begin)) s"
exit
}
