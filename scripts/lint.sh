#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Static checks of the series, as TAP, the quick ones first:
#
#   lint.sh SOURCE			the checks that need no kernel
#   lint.sh SOURCE -- FILE...		the same, only for these files of the repository
#   lint.sh SOURCE KERNEL-BUILD-DIR	the checks that need a kernel, and the export
#
# All checks run even if one fails; the status is non-zero if one of them failed. No check is
# retried, and only the checkpatch types below are filtered.
# shellcheck disable=SC2317	# lint calls what it is given
set -u -o pipefail
# Debian's python3, which has the modules that the kernel's scripts import.
PATH=/usr/bin:$PATH

top=$(cd "$(dirname "$0")/.." && pwd)
source=$1
kernel=${2-}
files=()
[ "$kernel" != -- ] || { kernel=; files=("${@:3}"); }
cd "$top" || exit 1
for file in "${files[@]}"; do
	[ -f "$file" ] || { echo "lint: there is no file $file" >&2; exit 2; }
done
nr=0
failed=0
out=$(mktemp)
# checkpatch leaves its cache in the tree.
trap 'rm -f "$out" "$source"/.checkpatch-camelcase.*' EXIT

# The repository may belong to another user, as it does in CI.
git() { command git -c safe.directory='*' "$@"; }

# only: of the files on stdin, print those that this script is asked to check
only() {
	if [ ${#files[@]} = 0 ]; then
		cat
	else
		grep -xF "$(printf '%s\n' "${files[@]}")"
	fi
	return 0
}

# lint NAME COMMAND...
lint() {
	local name=$1 begin=$SECONDS word=ok
	shift
	nr=$((nr + 1))
	"$@" > "$out" 2>&1 || { word="not ok"; failed=1; }
	[ "$word" = ok ] || sed 's/^/# /' "$out"
	echo "$word $nr - lint: $name"
	echo "# $((SECONDS - begin)) s"
}

# Exceptions to checkpatch, each with its reason:
# FILE_PATH_CHANGES	asks about MAINTAINERS for every new file; one commit of
#			the series updates it for all of them.
# ENOSYS		the stubs of a kernel without the feature return what upstream's do.
# RCU_TASKS_TRACE	uprobes use it already, and a stack walk has to release it where
#			they hold it.
# MACRO_ARG_REUSE	the macros concerned take constants, labels and plain names.
# MACRO_ARG_UNUSED	the fallback of a macro that an architecture may define.
# ARCH_INCLUDE_LINUX, INCLUDE_LINUX	files below arch/ and their tests need the
#			architecture's header.
# For patches with fault handlers of assembly, also:
# SPACING		the % of an operand is no modulo operator.
# For patches with tracepoints, also:
# OPEN_ENDED_LINE, PARENTHESIS_ALIGNMENT	they follow the style of all tracepoints.
# For patches that document BPF helpers, also:
# SPACE_BEFORE_TAB	the scripts that parse it require this.
# For tests and tools, also, because checkpatch parses the macros of the harness as statements:
# BRACES		an EXPECT or ASSERT is two statements and needs them.
# SPACING		FIXTURE_DATA(x) *self is a declaration; a test may have a block.
# MACRO_WITH_FLOW_CONTROL	the harness' macros have it, too.
# AVOID_EXTERNS, OPEN_ENDED_LINE, CAMELCASE	labels and blocks of assembly; names of
#			elfutils and protobuf-c.
# COMPLEX_MACRO, BIT_MACRO	lists of BPF instructions; user space has no BIT().
# VOLATILE		keeps the compiler from dropping a test's memory access; variables that
#			the loader of a BPF program sets.
# PREFER_DEFINED_ATTRIBUTE_MACRO	user space has no __aligned().
# SPDX_LICENSE_TAG	perf takes the description of a shell test from line 2.
# For scripts of the repository, also:
# PREFER_KERNEL_TYPES	user space has none; checkpatch knows that only of tools.
# REPEATED_WORD		the name of a check may be that of its function.
ignored=FILE_PATH_CHANGES,ENOSYS,RCU_TASKS_TRACE,MACRO_ARG_REUSE,MACRO_ARG_UNUSED
ignored+=,ARCH_INCLUDE_LINUX,INCLUDE_LINUX
tests=$ignored,BRACES,SPACING,MACRO_WITH_FLOW_CONTROL,AVOID_EXTERNS,OPEN_ENDED_LINE
tests+=,CAMELCASE,COMPLEX_MACRO,BIT_MACRO,VOLATILE,PREFER_DEFINED_ATTRIBUTE_MACRO,SPDX_LICENSE_TAG

# checkpatch_one TYPES FILE [OPTION]: run checkpatch on a file, unless it passed before
checkpatch_one() {
	# No --codespell, which takes three quarters of the time: spelling() checks that.
	local command=(perl scripts/checkpatch.pl --strict --quiet --show-types "${@:3}") key
	# Remember what passed for all clones, as ccache does, because it passes again.
	local passed=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/unwind-checkpatch
	mkdir -p "$passed" || return
	key=$(echo "${command[*]} $1" | cat - "$source/scripts/checkpatch.pl" "$2" | sha256sum)
	[ ! -e "$passed/${key%% *}" ] || return 0
	(cd "$source" && "${command[@]}" --ignore "$1" "$2") && : > "$passed/${key%% *}"
}

checkpatch() {
	local patch types status=0
	scripts/series.py draft "${files[@]}" || return
	for patch in "$top"/build/draft/*.patch; do
		[ -e "$patch" ] || continue
		types=$ignored
		! grep -qE '^diff --git a/tools/(bpf|sframe|testing|perf/tests)/' "$patch" ||
			types=$tests
		! grep -q '^+.*_ASM_EXTABLE' "$patch" || types+=,SPACING
		! grep -qE '^\+#include <g?elf\.h>' "$patch" || types+=,CAMELCASE
		! grep -q '^+TRACE_EVENT' "$patch" ||
			types+=,OPEN_ENDED_LINE,PARENTHESIS_ALIGNMENT
		! grep -q '^+++ b/include/uapi/linux/bpf.h' "$patch" || types+=,SPACE_BEFORE_TAB
		checkpatch_one "$types" "$patch" || status=1
	done
	return "$status"
}

# What is in no patch, because only the repository needs it
checkpatch_scripts() {
	local name types=$tests,PREFER_KERNEL_TYPES,REPEATED_WORD status=0
	while read -r name; do
		[ ! -f "$name" ] || checkpatch_one "$types" "$top/$name" -f || status=1
	done < <(git ls-files -co --exclude-standard scripts | grep -E '\.(c|h|S|sh|py)$' | only)
	return "$status"
}

# new SUFFIX...: list the series' new files with one of these suffixes
new() {
	local suffix
	for suffix; do
		scripts/series.py new | grep "\.$suffix\$"
	done
	return 0
}

# List the objects of new .c files that this configuration builds.
objects() {
	new c | grep -v '^tools/' | sed 's/c$/o/' | while read -r object; do
		[ ! -e "$kernel/$object" ] || echo "$object"
	done
}

kmake() {
	make -s -C "$source" O="$kernel" ARCH=x86 CC="$KCC" HOSTCC="$KHOSTCC" "$@" < /dev/null
}

# Build the objects with other flags, then remove them and build plain ones again.
rebuild() {
	local list status
	list=$(objects)
	[ -n "$list" ] || { echo "$kernel has no object of the series: run make kernel"; return 1; }
	(cd "$kernel" && echo "$list" | xargs rm -f)
	# -k: otherwise one finding hides the next.
	# shellcheck disable=SC2086
	kmake -k "$@" $list
	status=$?
	# shellcheck disable=SC2086
	(cd "$kernel" && rm -f $list)
	# shellcheck disable=SC2086
	kmake $list || status=1
	return "$status"
}

# make succeeds even if sparse reports something on stderr.
sparse() {
	local text
	text=$(rebuild C=1 CHECK='sparse' CF='-Wsparse-error -D__CHECK_ENDIAN__' 2>&1) ||
		{ printf '%s\n' "$text"; return 1; }
	[ -z "$text" ] || { printf '%s\n' "$text"; return 1; }
}

warnings() { rebuild W=1 KCFLAGS=-Werror; }

kerneldoc() {
	new c h | grep -v '^tools/' | only |
		(cd "$source" && xargs -r perl scripts/kernel-doc -Wall -Werror -none)
}

shell() {
	git ls-files -co --exclude-standard | only | while read -r name; do
		if [ -f "$name" ] && head -n 1 "$name" | grep -qaE '^#!.*[/ ](ba)?sh'; then
			echo "$name"
		fi
	done | xargs -r shellcheck -x
}

python() { git ls-files -co --exclude-standard '*.py' | only | xargs -r python3 -m py_compile; }

spelling() {
	git ls-files -co --exclude-standard | grep -v '/cases/' | only |
		xargs -r codespell --ignore-words-list=creat,stap,parms,filp,ist,iput
}

# Most kernels have none of the series' options, and must build with each of its hooks.
without() {
	local kernel=$top/build/off
	mkdir -p "$kernel"
	kmake KCONFIG_ALLCONFIG="$top/scripts/tiny-off.config" allnoconfig &&
		kmake -j"$(nproc)" vmlinux
}

# The configuration must contain all options of its fragments.
fragments() {
	tools/testing/selftests/unwind/qemu/check-config.sh "$kernel/requested" "$kernel/.config"
}

# Calls between files go one way.
circles() { scripts/circles.py "$kernel/kernel/unwind"; }

if [ -z "$kernel" ]; then
	lint manifest scripts/series.py manifest
	lint python python
	lint codespell spelling
	lint shellcheck shell
	lint kernel-doc kerneldoc
	lint checkpatch checkpatch
	lint "checkpatch of scripts" checkpatch_scripts
else
	exec 9> build/kernel.lock
	flock -n 9 || { echo "# waiting for a kernel build"; flock 9; }
	lint config fragments
	lint series scripts/series.py export
	lint "without the options" without
	lint circles circles
	lint W=1 warnings
	lint sparse sparse
fi
echo "1..$nr"
exit "$failed"
