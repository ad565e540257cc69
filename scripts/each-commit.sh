#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Build every commit of the series: its kernel with the feature on and off, in a
# tiny configuration with -Werror, and perf if the commit changes it.
#
#   each-commit.sh [on|off...]
#
# Run after 'series.py tree'. One source tree checks out the commits in order, and
# each variant keeps its objects: only changed files are rebuilt.
# shellcheck disable=SC2317	# report calls what it is given
set -eu -o pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
here=$top/scripts
# The variables and the configuration of the user's git are not for the tree of the series.
for variable in $(git rev-parse --local-env-vars); do
	unset "$variable"
done
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
build=$top/build
qemu=$top/tools/testing/selftests/unwind/qemu
variants=${*:-on off}

die() { printf 'each-commit: %s\n' "$*" >&2; exit 1; }

kmake() {
	make -s -C "$source" O="$dir" ARCH=x86 CC="$KCC" HOSTCC="$KHOSTCC" "$@" < /dev/null
}

# Accept lost options before the commit that adds the feature to x86.
complete() {
	grep -q HAVE_UNWIND_USER_FP "$source/arch/x86/Kconfig" || return 0
	grep '^CONFIG_' "$here/tiny-$variant.config" > "$dir/requested"
	"$qemu/check-config.sh" "$dir/requested" "$dir/.config"
}

kernel() {
	kmake KCONFIG_ALLCONFIG="$here/tiny-$variant.config" allnoconfig &&
		complete && kmake -j"$(nproc)" vmlinux
}

# report WHAT COMMAND...: run a build in build/each-commit/WHAT, and print its result
report() {
	local what=$1 begin=$SECONDS result=ok
	shift
	dir=$build/each-commit/$what
	mkdir -p "$dir"
	"$@" > "$dir/log" 2>&1 || result=FAILED
	printf '%3d/%d %-4s %-6s %4d s  %s\n' "$number" "$total" "$what" "$result" \
		$((SECONDS - begin)) "$subject"
	if [ "$result" != ok ]; then
		grep -E -A4 'error|Error|^lost' "$dir/log" | head -n 20
		failed=$((failed + 1))
	fi
}

# bash parses this block as a whole before it runs: edits of this file do not affect this run.
{
free=$(df -Pm "$build" | awk 'NR == 2 { print $4 }')
[ "$free" -ge 4000 ] || die "the disk has $free MB free, the trees of objects need 4000 MB"

repo=$build/linux.git
source=$build/git/source
if [ "$(git -C "$source" rev-parse --git-common-dir 2> /dev/null)" != "$repo" ]; then
	rm -rf "$source"
	git -C "$repo" worktree prune
	echo "each-commit: checking out the base (about 15 s)"
	git -C "$repo" worktree add -q --detach "$source" base
fi

total=$(git -C "$repo" rev-list --count base..series)
number=0
failed=0
for commit in base $(git -C "$repo" rev-list --reverse base..series); do
	git -C "$source" checkout -q --detach "$commit"
	subject=$(git -C "$repo" show -s --format=%s "$commit")
	for variant in $variants; do
		report "$variant" kernel
	done
	if [ "$number" != 0 ] &&
	   ! git -C "$repo" diff --quiet "$commit~" "$commit" -- tools/perf; then
		report perf "$here/perf.sh" "$source" "$build/each-commit/perf"
	fi
	number=$((number + 1))
done
[ "$failed" = 0 ] || die "$failed builds failed"
exit
}
