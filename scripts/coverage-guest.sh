#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# In the guest: run tests one after the other, and save in /out which lines each one ran.
#
#   coverage-guest.sh LINUX KERNEL-BUILD-DIR DIR NAME...
#
# NAME is a kselftest program in DIR, or ftrace.
set -u

here=$(dirname "$0")
linux=$1
kernel=$2
dir=$3
shift 3

# save NAME: copy the counts; the sizes of their files are 0
save() {
	(
		cd "/sys/kernel/debug/gcov$kernel" || exit 1
		find . -name '*.gcda' | while IFS= read -r file; do
			mkdir -p "/out/$1/${file%/*}"
			cat "$file" > "/out/$1/$file"
		done
	)
}

save kunit || exit 1
for name; do
	echo 1 > /sys/kernel/debug/gcov/reset
	case $name in
	ftrace) sh "$here/guest-check.sh" ftrace "$linux/tools/testing/selftests/ftrace" \
		"$kernel/install" ;;
	*) sh "$here/guest-check.sh" kselftest "$dir" "$name" ;;
	esac
	save "$name" || exit 1
done
