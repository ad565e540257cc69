#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Check that the final configuration contains every requested option.
#
#   check-config.sh REQUESTED FINAL
#
# Kconfig silently drops an option whose dependencies are not met. Prints the
# lost options; status 1 if there are any, 2 if a file cannot be read.
set -u

for file in "$1" "$2"; do
	[ -r "$file" ] || { echo "cannot read $file"; exit 2; }
done
awk -F= '
	NR == FNR { want[$1] = substr($0, length($1) + 2); next }
	/^CONFIG_/ { got[$1] = substr($0, length($1) + 2) }
	END {
		for (o in want) {
			have = (o in got) ? got[o] : "n"
			if (have != want[o]) {
				printf "lost: %s=%s, the final value is %s\n", o, want[o], have
				lost = 1
			}
		}
		exit lost
	}' "$1" "$2"
