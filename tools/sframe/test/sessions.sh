#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Test sessions and what they consist of: sessions.sh DIRECTORY [REGEX]
#
# Arguments and needs are those of session.sh, which is two of the tests. Results in TAP.
set -u

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=../../testing/selftests/unwind/lib/tap.sh
. "$here/../../testing/selftests/unwind/lib/tap.sh"

check "a server and its clients" "$bin/server"
check "a process that opens files, and does not end" "$bin/mapped"
check "a process that opens the device for a user" "$bin/opener"
check "run" "$here/session.sh" "$bin" ""
if [ "$(id -u)" = 0 ]; then
	# In a user namespace, root may not open what others have mapped.
	IN_NAMESPACE=none check "files that were replaced, and rights" \
		"$here/session.sh" "$bin" "files that were replaced|rights of conversions"
else
	skip "files that were replaced, and rights" "only root may open all of them"
fi

finish
