#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Static checks of what the series adds: lint.sh SOURCE KERNEL-BUILD-DIR
#
# Runs after 'series.py export' and a kernel build. Every check runs; the status
# is non-zero if one of them found anything. No check is retried or filtered but
# for the checkpatch types below.
set -u -o pipefail
# Debian's python3, which has the modules that the kernel's scripts import.
PATH=/usr/bin:$PATH

top=$(cd "$(dirname "$0")/../.." && pwd)
source=$1
kernel=$2
cd "$top" || exit 1
failed=
exec 9> build/kernel.lock
flock -n 9 || { echo "lint: waiting for a kernel build"; flock 9; }
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# The repository may belong to another user, as it does in CI.
git() { command git -c safe.directory='*' "$@"; }

# lint NAME COMMAND...
lint() {
	local name=$1 begin=$SECONDS
	shift
	if "$@" > "$out" 2>&1; then
		printf 'lint: %-12s ok      %3d s\n' "$name" $((SECONDS - begin))
	else
		printf 'lint: %-12s FAILED  %3d s\n' "$name" $((SECONDS - begin))
		sed 's/^/    /' "$out"
		failed+=" $name"
	fi
}

# Exceptions to checkpatch, each with its reason:
# FILE_PATH_CHANGES	asks about MAINTAINERS for every new file; one commit of
#			the series updates it for all of them.
# ENOSYS		the stubs of a kernel without the feature return what upstream's do.
# RCU_TASKS_TRACE	uprobes are a user of it already, and where they hold it a
#			stack walk has to let go of it.
# MACRO_ARG_REUSE	the macros concerned take constants, labels and plain names.
# MACRO_ARG_UNUSED	the fallback of a macro that an architecture may define.
# ARCH_INCLUDE_LINUX, INCLUDE_LINUX	files below arch/ and their tests mean the
#			architecture's header.
# Where there are fault handlers of assembly also:
# SPACING		the % of an operand is not a division's.
# Where there are tracepoints also:
# OPEN_ENDED_LINE, PARENTHESIS_ALIGNMENT	they are written as all others are.
# Where the helpers of BPF are described also:
# SPACE_BEFORE_TAB	the scripts that read it want just that.
# In tests and tools also, where checkpatch reads the macros of the harness as statements:
# BRACES		an EXPECT or ASSERT is two statements and needs them.
# SPACING		FIXTURE_DATA(x) *self is a declaration; a test may have a block.
# MACRO_WITH_FLOW_CONTROL	as the harness' own.
# AVOID_EXTERNS, OPEN_ENDED_LINE, CAMELCASE	labels and blocks of assembly; names of
#			elfutils and protobuf-c.
# COMPLEX_MACRO, BIT_MACRO	lists of BPF instructions; user space has no BIT().
# VOLATILE		what keeps the compiler from dropping a test's memory access; what the
#			loader of a BPF program sets.
# PREFER_DEFINED_ATTRIBUTE_MACRO	user space has no __aligned().
# SPDX_LICENSE_TAG	perf takes the description of a shell test from line 2.
checkpatch() {
	local words ignored=FILE_PATH_CHANGES,ENOSYS,RCU_TASKS_TRACE,MACRO_ARG_REUSE tests
	local patch types
	local -a command
	ignored+=,MACRO_ARG_UNUSED,ARCH_INCLUDE_LINUX,INCLUDE_LINUX
	tests=$ignored,BRACES,SPACING,MACRO_WITH_FLOW_CONTROL,AVOID_EXTERNS,OPEN_ENDED_LINE
	tests+=,CAMELCASE,COMPLEX_MACRO,BIT_MACRO,VOLATILE,PREFER_DEFINED_ATTRIBUTE_MACRO
	tests+=,SPDX_LICENSE_TAG
	words=$(python3 -c 'import codespell_lib as c; print(c.__path__[0])')/data/dictionary.txt
	command=(perl scripts/checkpatch.pl --strict --quiet --show-types --codespell
		--codespellfile="$words")
	(cd "$source" && status=0
	for patch in "$top"/build/series/*.patch; do
		types=$ignored
		! grep -qE '^diff --git a/tools/(bpf|testing|perf/tests)/' "$patch" || types=$tests
		! grep -q '^+.*_ASM_EXTABLE' "$patch" || types+=,SPACING
		! grep -q '^+TRACE_EVENT' "$patch" ||
			types+=,OPEN_ENDED_LINE,PARENTHESIS_ALIGNMENT
		! grep -q '^+++ b/include/uapi/linux/bpf.h' "$patch" || types+=,SPACE_BEFORE_TAB
		"${command[@]}" --ignore "$types" "$patch" || status=1
	done
	rm -f .checkpatch-camelcase.*
	exit "$status")
}

# new SUFFIX...: the series' new files with one of these suffixes
new() {
	local suffix
	for suffix; do
		patches/scripts/series.py new | grep "\.$suffix\$"
	done
	return 0
}

# The objects of the new .c files that this configuration builds.
objects() {
	new c | grep -v '^tools/' | sed 's/c$/o/' | while read -r object; do
		[ ! -e "$kernel/$object" ] || echo "$object"
	done
}

kmake() {
	make -s -C "$source" O="$kernel" ARCH=x86 CC="$KCC" HOSTCC="$KHOSTCC" "$@" < /dev/null
}

# Objects built with other flags are removed, so that the next build is a plain one.
rebuild() {
	local list status
	list=$(objects)
	[ -n "$list" ] || return 0
	(cd "$kernel" && echo "$list" | xargs rm -f)
	# -k: one finding does not hide the next.
	# shellcheck disable=SC2086
	kmake -k "$@" $list
	status=$?
	# shellcheck disable=SC2086
	(cd "$kernel" && rm -f $list)
	# shellcheck disable=SC2086
	kmake $list || status=1
	return $status
}

# sparse reports on stderr and make succeeds all the same.
sparse() {
	local text
	text=$(rebuild C=1 CHECK='sparse' CF='-Wsparse-error -D__CHECK_ENDIAN__' 2>&1) ||
		{ printf '%s\n' "$text"; return 1; }
	[ -z "$text" ] || { printf '%s\n' "$text"; return 1; }
}

warnings() { rebuild W=1 KCFLAGS=-Werror; }

kerneldoc() {
	local files
	files=$(new c h | grep -v '^tools/')
	[ -n "$files" ] || return 0
	# shellcheck disable=SC2086
	(cd "$source" && perl scripts/kernel-doc -Wall -Werror -none $files)
}

shell() {
	git ls-files -co --exclude-standard | while read -r name; do
		if [ -f "$name" ] && head -n 1 "$name" | grep -qaE '^#!.*[/ ](ba)?sh'; then
			echo "$name"
		fi
	done | xargs -r shellcheck
}

python() { git ls-files -co --exclude-standard '*.py' | xargs python3 -m py_compile; }

spelling() {
	git ls-files -co --exclude-standard | grep -v '/cases/' |
		xargs codespell --ignore-words-list=creat,stap,parms,filp,ist
}

# Kernel options and ABI go together with their fragments.
fragments() {
	tools/testing/selftests/unwind/qemu/check-config.sh "$kernel/requested" "$kernel/.config"
}

lint manifest patches/scripts/series.py manifest
lint checkpatch checkpatch
lint W=1 warnings
lint sparse sparse
lint kernel-doc kerneldoc
lint shellcheck shell
lint python python
lint codespell spelling
lint config fragments
[ -z "$failed" ] || { echo "lint: failed:$failed"; exit 1; }
