#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# alone.sh COMMAND...: a build that ends with whoever started it, however that ends, and so does
# what it has started and left in its process group.
#
# To be started by "setpriv --pdeathsig TERM". A terminal's signals reach this shell alone, and
# end it; as when it is told to end, the build goes with it.
setpriv --pdeathsig TERM timeout -k 30 0 "$@" &
wait $!
exit
