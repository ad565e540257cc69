#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Build perf from the assembled tree and install it below the build directory,
# where it finds its shell tests and strace groups.
#
#   perf.sh SOURCE BUILD-DIR
set -eu -o pipefail

dir=$2
begin=$SECONDS

die() { printf 'perf: %s\n' "$*" >&2; exit 1; }

free=$(df -Pm "$(dirname "$dir")" | awk 'NR == 2 { print $4 }')
[ "$free" -ge 800 ] || die "the disk has $free MB free, the perf build needs 800 MB"
mkdir -p "$dir"
exec 9> "$dir/lock"
flock -n 9 || { echo "perf: waiting for another build of perf"; flock 9; }
[ -x "$dir/install/bin/perf" ] || echo "perf: building (about 4 minutes on two CPUs)"

# Disable features that the series does not touch, or that Debian 12 has no package for.
make -s -C "$1/tools/perf" O="$dir" CC="$KHOSTCC" HOSTCC="$KHOSTCC" WERROR=1 \
	prefix="$dir/install" -j"$(nproc)" \
	NO_LIBPERL=1 NO_LIBPYTHON=1 NO_GTK2=1 NO_JVMTI=1 NO_LIBUNWIND=1 \
	BUILD_BPF_SKEL=0 NO_LIBNUMA=1 NO_LIBPFM4=1 NO_LIBBABELTRACE=1 NO_LIBCAPSTONE=1 \
	NO_LIBLLVM=1 \
	install-bin > "$dir/build.log" 2>&1 < /dev/null || {
	grep -E -B2 -A6 'error|Error|warning' "$dir/build.log" | tail -n 40 >&2
	die "the build failed; the whole log is $dir/build.log"
}
# Tests of perf pass without a word where it lacks what they use.
options=$("$dir/install/bin/perf" version --build-options)
for feature in aio bpf dwarf libelf libtraceevent pprof sframe zstd; do
	grep -q " $feature: \[ on" <<< "$options" ||
		die "perf has no $feature, which its tests need; see $dir/build.log"
done
echo "perf: $dir/install/bin/perf is up to date, $((SECONDS - begin)) s"
