# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# What session.sh tests of signals: whatever run or its group gets, the command has once. To be
# sourced there.
# shellcheck disable=SC2154	# sframe, away and stray are others'

# A program that counts signals. With "away", it is in a group of its own.
cat > count.py <<-'END_COUNT'
	import os, signal, sys
	count = os.open("count", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
	for nr in signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR2:
	    signal.signal(nr, lambda nr, frame: os.write(count, b"%d\n" % nr))
	signal.signal(signal.SIGUSR1, lambda nr, frame: os._exit(7))
	if sys.argv[1:] == ["away"]:
	    os.setpgid(0, 0)
	open("ready", "w").close()
	while True:
	    signal.pause()
END_COUNT

# counted WANTED...: the program has had these signals, and no others. It has had all before
# the one that ends it, as that is a later one that goes the same way.
counted() {
	sort -n count | tr '\n' ' ' > had
	[ "$(cat had)" = "$*${1:+ }" ] || fail "it had $(cat had), and not $*"
}

more_counted() {
	[ "$(wc -l < count)" -gt "$(wc -l < count.before)" ]
}

# To be followed by a command, which leads a session and does not ignore what shells do for it.
alone=(python3 -c 'import os, signal, sys
for nr in signal.SIGHUP, signal.SIGINT, signal.SIGQUIT:
    signal.signal(nr, signal.SIG_DFL)
os.setsid()
os.execv(sys.argv[1], sys.argv[1:])')

# signals WHOM SIGNAL...: send these to run alone, or with - to its group
signals() {
	local whom=$1 pid sig status
	shift
	rm -f ready count
	"${alone[@]}" "$sframe" run python3 count.py "${away-}" 2> err & pid=$!
	soon test -e ready || { cat err; kill $pid; return 1; }
	if [ -n "${stray-}" ]; then
		soon pgrep -P $pid -x witness && (kill -"$stray" "$(pgrep -P $pid -x witness)") ||
			return 1
	fi
	for sig in "$@"; do
		: > count.before
		[ ! -e count ] || cat count > count.before
		kill -"$sig" -- "$whom$pid" || break
		soon more_counted || break
	done
	kill -USR1 $pid
	wait $pid
	status=$?
	# What run has left alone.
	[ "$status" = 7 ] || { cat err; kill -9 -- -$pid; fail "status $status"; return 1; }
}

signals_alone() {
	signals "" TERM HUP INT QUIT USR2 && counted 1 2 3 12 15
}

# What has hit the witness and nobody else is not taken for what run has later.
signals_stray() {
	local stray=TERM
	signals "" TERM TERM && counted 15 15
}

# Nobody who stops the witness stops run.
signals_stopped() {
	local stray=STOP
	signals "" TERM HUP && counted 1 15 && signals - TERM HUP && counted 1 15
}

signals_group() {
	signals - TERM HUP INT QUIT USR2 && counted 1 2 3 12 15
}

# hold PROCESS: stop it, until there is a file "release", as a debugger does
hold() {
	rm -f held release
	python3 -c 'import ctypes, os, sys, time
SEIZE, INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000
for request in SEIZE, INTERRUPT:
    ctypes.CDLL(None).ptrace(request, int(sys.argv[1]), None, None)
os.waitpid(int(sys.argv[1]), WALL)
open("held", "w").close()
while not os.path.exists("release"):
    time.sleep(0.1)' "$1" & holder=$!
	soon test -e held
}

# debugs: may processes be debugged here? A test is skipped if not
debugs() {
	python3 -c 'import ctypes, os, sys
SEIZE = 0x4206
sys.exit(ctypes.CDLL(None).ptrace(SEIZE, int(sys.argv[1]), None, None) != 0)' $$ ||
		skipped "no process can be debugged"
}

had_signals() {
	[ "$(wc -l < count)" = "$1" ]
}

# A witness that does not answer in time is not asked again: it would tell of former signals.
signals_late_answer() {
	local pid witness status
	debugs || return
	rm -f ready count
	"${alone[@]}" "$sframe" run python3 count.py 2> err & pid=$!
	soon test -e ready && soon pgrep -P $pid -x witness &&
		witness=$(pgrep -P $pid -x witness) && hold "$witness" &&
		kill -TERM -- -$pid && soon had_signals 2
	status=$?
	: > release
	wait "$holder"
	# It has answered by now, or has been killed.
	[ $status = 0 ] && soon grep '^State:.[SZ]' "/proc/$witness/status" &&
		kill -TERM $pid && soon had_signals 3
	status=$?
	kill -USR1 $pid
	wait $pid
	[ $? = 7 ] && [ $status = 0 ] && counted 15 15 15
}

# Nor is its end waited for any longer, as whoever debugs it may keep that back.
signals_held() {
	local pid status
	debugs || return
	rm -f ready go
	"$sframe" run sh -c 'touch ready
		until [ -e go ]; do sleep 0.1; done
		exit 5' 2> err & pid=$!
	soon test -e ready && soon pgrep -P $pid -x witness && hold "$(pgrep -P $pid -x witness)"
	status=$?
	touch go
	[ $status != 0 ] || soon eval "! kill -0 $pid"
	status=$?
	: > release
	wait "$holder"
	wait $pid
	[ $? = 5 ] && [ $status = 0 ]
}

# build_patient: a library with which waits that are for nothing take a second each
build_patient() {
	cat > patient.c <<-'END_PATIENT'
	#define _GNU_SOURCE
	#include <poll.h>
	#include <sys/syscall.h>
	#include <unistd.h>

	int poll(struct pollfd *fds, nfds_t nr, int timeout)
	{
		struct timespec time = { timeout / 1000, timeout % 1000 * 1000000 };

		if (!nr)
			time = (struct timespec) { 1, 0 };
		return syscall(SYS_ppoll, fds, nr, timeout < 0 ? NULL : &time, NULL, 0);
	}
	END_PATIENT
	gcc -O2 -shared -fPIC -o patient.so patient.c
}

# Meanwhile signals are heard, and end that wait.
signals_held_late() {
	local pid witness status
	debugs || return
	build_patient || return 1
	rm -f ready go
	LD_PRELOAD=$PWD/patient.so "${alone[@]}" "$sframe" run sh -c 'touch ready
		until [ -e go ]; do sleep 0.1; done
		exit 5' 2> err & pid=$!
	soon test -e ready && soon pgrep -P $pid -x witness &&
		witness=$(pgrep -P $pid -x witness) && hold "$witness" && touch go &&
		soon grep '^State:.Z' "/proc/$witness/status" && kill -TERM $pid &&
		soon eval "! kill -0 $pid"
	status=$?
	touch go
	: > release
	[ $status = 0 ] || kill -9 $pid
	wait "$holder"
	wait $pid
	[ $? = 5 ] && [ $status = 0 ]
}

# Whoever has left the group hears of what was for the group.
signals_away() {
	away=away signals - TERM && counted 15
}

# shellcheck disable=SC2016	# for the inner shell
signals_ignored() {
	(trap '' HUP; exec "$sframe" run sh -c 'kill -HUP $PPID; exit 4') 2> err
	[ $? = 4 ]
}

# left_alone: run, $pid, has neither the command nor its witness any more
left_alone() {
	! pgrep -P "$pid" -x sh && ! pgrep -P "$pid" -x witness
}

# What comes when the command has ended ends the wait for the server, and not more.
signals_late() {
	local pid sig status
	for sig in INT TERM HUP QUIT USR2; do
		rm -f ran
		# shellcheck disable=SC2016	# for the inner shell
		"${alone[@]}" "$sframe" run sh -c 'kill -STOP $(pgrep -x -P $PPID sframe)
			touch ran
			exit 3' 2> err & pid=$!
		if ! soon test -e ran || ! soon left_alone; then
			kill -9 $pid
			return 1
		fi
		kill -"$sig" $pid
		wait $pid
		status=$?
		cat err
		[ $status = 3 ] || fail "SIG$sig: status $status" || return 1
		grep -q "^sframe: what had no section is not listed: a signal " err || return 1
	done
}

# hang_up [away]: a terminal hangs up of which run leads the session
hang_up() {
	rm -f ready count
	python3 - "$sframe" "$@" <<-'END_PTY'
		import os, pty, signal, sys, time
		pid, terminal = pty.fork()
		if not pid:
		    signal.signal(signal.SIGHUP, signal.SIG_DFL)
		    command = ["run", "python3", "count.py"] + sys.argv[2:]
		    os.execv(sys.argv[1], ["sframe"] + command)
		while not os.path.exists("ready"):
		    time.sleep(0.1)
		os.close(terminal)
		for _ in range(600):
		    if os.path.getsize("count"):
		        break
		    time.sleep(0.1)
		try:
		    os.kill(pid, signal.SIGUSR1)
		except ProcessLookupError:
		    pass
		status = os.waitpid(pid, 0)[1]
		sys.exit(os.waitstatus_to_exitcode(status) & 127)
	END_PTY
	[ $? = 7 ] && counted 1
}
