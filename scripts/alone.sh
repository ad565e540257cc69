#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# alone.sh COMMAND...: run a build that ends with its parent, even if the parent is killed. The
# processes that the build leaves in its process group end too.
#
# Start it with "setpriv --pdeathsig TERM". Signals of the terminal reach only this shell. They
# end it as SIGTERM does, and the build ends with the shell.
setpriv --pdeathsig TERM timeout -k 30 0 "$@" &
wait $!
exit
