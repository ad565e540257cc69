#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# gcc through ccache, for programs that run on the host.
#
# The makefiles below tools/ name the target of a dependency file with -Wp,-MT and an absolute
# path. ccache does not know that argument, and so would not find what another clone compiled.
# Drop it: these makefiles do not read the target.
for argument; do
	shift
	case $argument in
	-Wp,-MT,*) ;;
	*) set -- "$@" "$argument" ;;
	esac
done
exec ccache gcc "$@"
