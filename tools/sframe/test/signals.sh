# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# Signals, as session.sh tests them: each signal to run or its group reaches the command once. To
# be sourced there.
# shellcheck disable=SC2154	# set by session.sh, or by callers

# A program that counts signals. With "away", it is in its own process group.
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

# counted WANTED...: the program got exactly these signals. All of them arrived before the one that
# ends it, because that one is sent later and goes the same way.
counted() {
	sort -n count | tr '\n' ' ' > had
	[ "$(cat had)" = "$*${1:+ }" ] || fail "it had $(cat had), and not $*"
}

more_counted() {
	[ "$(wc -l < count)" -gt "$(wc -l < count.before)" ]
}

# To be followed by a command. It leads a session, without the signals that shells ignore for it.
alone=(python3 -c 'import os, signal, sys
for nr in signal.SIGHUP, signal.SIGINT, signal.SIGQUIT:
    signal.signal(nr, signal.SIG_DFL)
os.setsid()
os.execv(sys.argv[1], sys.argv[1:])')

# signals WHOM SIGNAL...: send these to run alone, or to its group if WHOM is -
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
	# If run failed, kill what it left behind.
	[ "$status" = 7 ] || { cat err; kill -9 -- -$pid; fail "status $status"; return 1; }
}

signals_alone() {
	signals "" TERM HUP INT QUIT USR2 && counted 1 2 3 12 15
}

# A signal that hit only the witness is not taken for a later signal of run.
signals_stray() {
	local stray=TERM
	signals "" TERM TERM && counted 15 15
}

# Stopping the witness does not stop run.
signals_stopped() {
	local stray=STOP
	signals "" TERM HUP && counted 1 15 && signals - TERM HUP && counted 1 15
}

signals_group() {
	signals - TERM HUP INT QUIT USR2 && counted 1 2 3 12 15
}

# hold PROCESS: stop it as a debugger does, until a file "release" exists
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

# debugs: can processes be debugged here? Otherwise the test is skipped
debugs() {
	python3 -c 'import ctypes, os, sys
SEIZE = 0x4206
sys.exit(ctypes.CDLL(None).ptrace(SEIZE, int(sys.argv[1]), None, None) != 0)' $$ ||
		skipped "no process can be debugged"
}

had_signals() {
	[ "$(wc -l < count)" = "$1" ]
}

# A witness that answers late is not asked again: its answer would be about earlier signals.
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
	# By now it has answered, or was killed.
	[ $status = 0 ] && soon grep '^State:.[SZ]' "/proc/$witness/status" &&
		kill -TERM $pid && soon had_signals 3
	status=$?
	kill -USR1 $pid
	wait $pid
	[ $? = 7 ] && [ $status = 0 ] && counted 15 15 15
}

# Nor does run wait longer for its end, because a debugger may hold that back.
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

# build_patient: a library in which each poll() without descriptors takes a second
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

# run still handles signals during that wait, and they end it.
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

# A command that has left the group still gets signals for the group.
signals_away() {
	away=away signals - TERM && counted 15
}

# shellcheck disable=SC2016	# for the inner shell
signals_ignored() {
	(trap '' HUP; exec "$sframe" run sh -c 'kill -HUP $PPID; exit 4') 2> err
	[ $? = 4 ]
}

# left_alone: run, $pid, has neither its command nor its witness any more
left_alone() {
	! pgrep -P "$pid" -x sh && ! pgrep -P "$pid" -x witness
}

# A signal after the end of the command ends the wait for the server, and nothing else.
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

# hang_up [away]: hang up a terminal whose session is led by run
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
