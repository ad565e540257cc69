#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Provide a pristine base tree: Debian's package linux-source-6.12.
#
#   base.sh tree [VERSION]             print the directory of the extracted base
#   base.sh pmu [VERSION]              the same with only the test PMU added
#   base.sh files VERSION DIR < LIST   extract only the listed files to DIR
#   base.sh versions                   print the versions that apt offers
#
# Without VERSION, this clone keeps the version that it chose first: otherwise a
# package update would change a tree in use. Under a lock, everything is written
# to a temporary name and then renamed.
set -eu

pkg=linux-source-6.12
top=$(cd "$(dirname "$0")/.." && pwd)
build=$top/build

say() { printf '%s\n' "$*" >&2; }
die() { say "base: $*"; exit 1; }

versions() {
	apt-cache madison $pkg 2>/dev/null | cut -d'|' -f2 | tr -d ' ' | sort -Vru
}

offered() {
	if [ -z "$(versions)" ] && [ "$(id -u)" = 0 ]; then
		say "base: apt knows no $pkg yet: apt-get update"
		apt-get -qq update >&2 || die "apt-get update failed"
	fi
	versions
}

# need_space MEGABYTES WHAT
need_space() {
	free=$(df -Pm "$build" | awk 'NR == 2 { print $4 }')
	[ "$free" -ge "$1" ] ||
		die "$build has $free MB free, $2 needs $1 MB"
}

# fetch VERSION: print the path of the package, and download it if it is missing
fetch() {
	file=$build/dl/${pkg}_$1_all.deb
	if [ ! -e "$file" ]; then
		offered | grep -qx -- "$1" ||
			die "unknown base version $1; apt offers: $(offered | tr '\n' ' ')"
		rm -rf "$build/dl/tmp"
		need_space 400 "the download of $pkg $1"
		say "base: downloading $pkg $1 (150 MB)"
		mkdir -p "$build/dl/tmp"
		(cd "$build/dl/tmp" &&
			apt-get -qq -o APT::Sandbox::User=root download "$pkg=$1" >&2) ||
			die "download of $pkg $1 failed"
		mv "$build/dl/tmp"/*.deb "$file"
		rm -rf "$build/dl/tmp"
	fi
	printf '%s\n' "$file"
}

# unpack DEB TAR-ARGUMENTS...
unpack() {
	deb=$1
	shift
	dpkg-deb --fsys-tarfile "$deb" | tar -xO "./usr/src/$pkg.tar.xz" |
		LC_ALL=C tar -xJ --strip-components=1 "$@"
}

tree() {
	version=$1
	if [ -z "$version" ] && [ -e "$build/base/default" ]; then
		version=$(cat "$build/base/default")
	fi
	if [ -z "$version" ]; then
		version=$(offered | head -n 1)
		[ -n "$version" ] || die "apt offers no $pkg and BASE is not set"
		mkdir -p "$build/base"
		echo "$version" > "$build/base/default"
	fi
	dir=$build/base/$version
	if [ ! -e "$dir.sha256" ]; then
		rm -rf "$dir" "$dir.tmp"
		deb=$(fetch "$version")
		# The assembled tree and its repository follow.
		need_space 4500 "the source of $pkg $version"
		say "base: extracting $pkg $version (about 15 s)"
		mkdir -p "$dir.tmp"
		unpack "$deb" -C "$dir.tmp" || die "extraction of $deb failed"
		[ -e "$dir.tmp/Makefile" ] || die "$deb holds no kernel source"
		mv "$dir.tmp" "$dir"
		sha256sum < "$deb" | cut -d' ' -f1 > "$dir.sha256"
		say "base: $pkg $version, sha256 of the package $(cat "$dir.sha256")"
	fi
	printf '%s\n' "$dir"
}

# The base needs the test PMU: make bench samples both kernels in NMI.
pmu() {
	base=$(tree "$1")
	dir=$build/base-pmu
	events=$top/arch/x86/events
	stamp="$base $(cat "$events/test_pmu.c" "$events/test_branches.h" "$top/Kconfig" \
		"$top"/patches/*-perf-test-pmu.patch | sha256sum)"
	if [ "$(cat "$dir.stamp" 2> /dev/null)" != "$stamp" ]; then
		rm -rf "$dir"
		# Share the files with the base by hard links, but copy those that change.
		cp -al "$base" "$dir"
		for file in arch/x86/events/Makefile arch/x86/Kconfig.debug; do
			cp --remove-destination "$base/$file" "$dir/$file"
		done
		cp "$events/test_pmu.c" "$events/test_branches.h" "$dir/arch/x86/events/"
		patch -s -p1 -d "$dir" < "$(ls "$top"/patches/*-perf-test-pmu.patch)" >&2 ||
			die "the test PMU does not apply to $base"
		awk '/^config / { on = $2 == "PERF_TEST_PMU" } on' "$top/Kconfig" \
			>> "$dir/arch/x86/Kconfig.debug"
		printf '%s\n' "$stamp" > "$dir.stamp"
	fi
	printf '%s\n' "$dir"
}

files() {
	deb=$(fetch "$1")
	say "base: reading $(wc -l < "$3") files of $pkg $1"
	rm -rf "$2" "$2.tmp"
	mkdir -p "$2.tmp"
	status=0
	unpack "$deb" -C "$2.tmp" --wildcards --no-wildcards-match-slash -T "$3" 2> "$3.err" ||
		status=$?
	# The caller reports files that this version lacks.
	if wrong=$(grep -v -e ': Not found in archive$' \
		-e '^tar: Exiting with failure status due to previous errors$' "$3.err"); then
		die "reading $deb failed: $(printf '%s\n' "$wrong" | head -n 1)"
	fi
	[ "$status" = 0 ] || [ -s "$3.err" ] ||
		die "reading $deb failed: tar ended with status $status"
	mv "$2.tmp" "$2"
}

mkdir -p "$build/dl"
exec 9> "$build/dl/lock"
flock 9
case ${1-} in
tree) tree "${2-}" ;;
pmu) pmu "${2-}" ;;
files)
	list=$(mktemp)
	trap 'rm -f "$list" "$list.err"' EXIT
	sed 's,^,*/,' > "$list"
	files "$2" "$3" "$list"
	;;
versions)
	list=$(offered)
	[ -n "$list" ] || die "apt offers no $pkg; make series VERSIONS=this does without"
	printf '%s\n' "$list"
	;;
*) die "usage: base.sh tree|pmu [VERSION] | files VERSION DIR | versions" ;;
esac
