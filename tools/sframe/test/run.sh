#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Test 'sframe run' on a kernel that takes sections: run.sh DIRECTORY [REGEX]
#
# The directory is where 'make sframe' put the program. Needs root, perf with --call-graph
# deferred, stackprof in ../stackprof of the directory, and ordinary programs; tests are
# skipped where one is missing. Results in TAP. With REGEX, only tests whose names match it.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source-path=SCRIPTDIR source=ends.sh
. "$here/ends.sh"
sframe=$bin/sframe
stackprof=$bin/../stackprof/stackprof

without_device() {
	# shellcheck disable=SC2016	# for the inner shell
	unshare -m sh -c 'mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && exec "$@"' \
		sh "$sframe" run touch ran 2> err
	[ $? = 125 ] && [ ! -e ran ] && grep -q "there is no /dev/unwind_sframe" err
}

# kernel.unwind_user_sframe is 0: the kernel uses no section.
switched_off() {
	local sysctl=/proc/sys/kernel/unwind_user_sframe
	echo 0 > $sysctl || return 1
	"$sframe" run true 2> err
	echo 1 > $sysctl
	cat err
	[ "$(grep -c "kernel.unwind_user_sframe is 0" err)" = 1 ] &&
		"$sframe" run true 2> err && ! grep unwind_user_sframe err
}

# run OPTION... COMMAND...: run 'sframe run -v'
run() {
	"$sframe" run -v "$@" > log 2> err < /dev/null || { cat log err; return 1; }
}

# perf.sh tests what perf does by itself.
record=("${record[@]:0:2}" -q --no-sframe "${record[@]:2}")

# stock COMMAND...: few stacks are complete without sections, and nearly all with them
stock() {
	run "${record[@]}" first -- "$@" && run "${record[@]}" warm -- "$@" || return 1
	grep -q ' of which 0 were made now' err || { fail "no cache"; cat err; return 1; }
	whole warm || return 1
	"${record[@]}" without -- "$@" > log 2>&1 < /dev/null || { cat log; return 1; }
	stacks_end without
}

# The dynamic linker asks a library which function a call is for, when a program makes it for
# the first time: nearly all samples are in that library, and the walks pass the dynamic linker.
binds_lazily() {
	local bound
	cat > chosen.c <<-'END'
	#include <time.h>
	static int chosen(void) { return 0; }
	static __attribute__((noinline)) void take_a_second(void)
	{
		while (clock() < CLOCKS_PER_SEC)
			for (volatile int i = 0; i < 1000000; i++);
	}
	static int (*choose(void))(void)
	{
		take_a_second();
		return chosen;
	}
	int called(void) __attribute__((ifunc("choose")));
	END
	echo 'int called(void); int main(void) { return -called(); }' > caller.c
	gcc -O2 -shared -fPIC -o libchosen.so chosen.c &&
		gcc -O2 -Wl,-z,lazy -Wl,-rpath,"$PWD" -o lazy caller.c libchosen.so &&
		stock ./lazy || return 1
	bound=$(perf script -f -i warm -F ip,sym 2> /dev/null |
		awk -v RS= '/ take_a_second\n/ && / main\n/ { n++ } END { print n + 0 }')
	echo "# warm: $bound samples are in lazy binding"
	[ "$bound" -ge 100 ]
}

# profiled: how many samples a BPF profiler has, and how many of 1000 are complete
profiled() {
	# Samples in exec and exit have no user stack.
	grep '^perl;' folded | grep -vE '^perl;(\[user stack refused\]|[^;]*_\[k\])[; ]' > user
	awk '{ all += $NF }
		/^perl;_start[;_ ]/ { good += $NF }
		END { print all + 0, all ? int(good * 1000 / all) : 0 }' user > shares
	grep -vE '^perl;_start[;_ ]' user | head -n 5
	read -r samples per_mille < shares
	echo "# $samples samples, $per_mille in 1000 complete"
	[ "$samples" -ge 50 ]
}

# Requests by BPF.
by_bpf() {
	local profile=("$stackprof" -F 499 --folded -o folded --
		       perl -e "sub f { $spin } f() for 1..30" 20000)
	run "${profile[@]}" && run "${profile[@]}" && profiled || return 1
	[ "$per_mille" -ge 990 ] || { fail "too few are complete"; return 1; }
	"${profile[@]}" 2> err && profiled && [ "$per_mille" -lt 700 ]
}

# traced COMMAND...: count the stacks in a trace of perl's kill(2), and the complete ones
traced() {
	local instance=/sys/kernel/tracing/instances/sframe-$$ program
	program=$(readlink -f "$(type -p perl)")
	mkdir "$instance" &&
		echo user_unwind > "$instance/events/syscalls/sys_enter_kill/trigger" || return 1
	"$@" perl -e 'sub f { kill 0, $$ } f() for 1..100' 2> err < /dev/null
	grep " perl-\| perl *-" "$instance/trace" > trace
	rmdir "$instance"
	"$here/complete.py" "$program" < trace > shares
	read -r samples complete < shares
	echo "# $samples stacks, $complete complete"
	[ "$samples" -ge 100 ] || { cat err; tail -n 3 trace; return 1; }
}

# Requests by ftrace.
by_ftrace() {
	traced "$sframe" run && [ "$complete" = "$samples" ] && traced && [ "$complete" = 0 ]
}

# Programs without .eh_frame, or without a build-id, are named.
named() {
	build_named || return 1
	run sh -c './named-eh; ./named-id; ./named-short' || return 1
	cat err
	grep -q "through .*/named-eh: it has no .eh_frame" err &&
		grep -q "through .*/named-id: it has no build-id" err &&
		grep -q "through .*/named-short: it has no build-id" err
}

# Cached files that others may write are not trusted; damaged ones are replaced or removed.
hostile_cache() {
	local file id
	rm -rf cache
	run -c cache true || return 1
	id=$(readelf -n "$(readlink -f /usr/bin/true)" | sed -n 's/.*Build ID: //p')
	file=cache/.sframe/2/${id:0:2}/${id:2}
	[ -s "$file" ] || { fail "nothing in the cache"; return 1; }
	chmod 666 "$file" && run -c cache true && grep -q ' 1 were made now' err || return 1
	[ "$(stat -c %a "$file")" = 644 ] || { fail "who may write is as before"; return 1; }
	cp "$file" good && : > "cache/.sframe/2/${id:0:2}/0" && mkdir cache/.sframe/2/zz &&
		: > "cache/.sframe/2/${id:0:2}/$(printf '%0100d' 1)" &&
		: > "cache/.sframe/2/${id:0:2}/.tmp.1.2" &&
		touch -d '2 hours ago' "cache/.sframe/2/${id:0:2}/.tmp.1.1" &&
		echo damaged > "cache/.sframe/2/${id:0:2}/aaaa" || return 1
	run -c cache true && grep -q ' 0 were made now' err || return 1
	[ ! -e "cache/.sframe/2/${id:0:2}/aaaa" ] || { fail "damaged ones are kept"; return 1; }
	[ ! -e "cache/.sframe/2/${id:0:2}/.tmp.1.1" ] || { fail "half a file is kept"; return 1; }
	[ -e "cache/.sframe/2/${id:0:2}/.tmp.1.2" ] || { fail "half a file is taken"; return 1; }
	echo damaged > "$file"
	run -c cache true && grep -q ' 1 were made now' err && cmp good "$file" || return 1
	ln -sf "$PWD/good" "$file" && run -c cache true &&
		grep -q ' 1 were made now' err || return 1
	mv "cache/.sframe/2/${id:0:2}" elsewhere &&
		ln -s "$PWD/elsewhere" "cache/.sframe/2/${id:0:2}" &&
		run -c cache true && grep -q ' 1 were made now' err || return 1
	chmod 777 cache/.sframe
	run -c cache true && grep 'nothing is kept .* cache: other users may write to it' err
}

# What the kernel finds when it reads a section is told at the end: its words are known.
# shellcheck disable=SC2016	# for the inner shell
damaged_later() {
	local perl id file
	perl=$(readlink -f "$(type -p perl)")
	id=$(readelf -n "$perl" | sed -n 's/.*Build ID: //p')
	file=$PWD/cache/.sframe/2/${id:0:2}/${id:2}
	rm -rf cache
	run -c cache "$perl" -e 1 && [ -s "$file" ] || return 1
	run -c cache sh -c 'truncate -s 40 "$0" && exec "$@"' "$file" \
		"${record[@]}" damaged -- "$perl" -e "sub f { $spin } f() for 1..10" 20000 ||
		return 1
	cat err
	rm -rf cache
	grep "through $perl: it has a section that the kernel did not use: it is damaged" err
}

no_cache() {
	env -u HOME -u PERF_BUILDID_DIR "$sframe" run -v true 2> err || return 1
	grep 'nothing is kept .* PERF_BUILDID_DIR nor HOME' err &&
		grep -q ' sections, of which [1-9]' err || return 1
	: > file && run -c file true && grep 'nothing is kept .* file: Not a directory' err
}

# Stop the server until events are lost: it finds the mappings that it missed by looking at
# processes.
lost() {
	# shellcheck disable=SC2016	# for the inner shell
	run -c lost sh -c 'server=$(pgrep -P $PPID -x sframe)
		kill -STOP $server
		for i in $(seq 600); do /bin/true; done
		perl -e "sleep 1000" &
		until readlink /proc/$!/exe | grep -q perl; do sleep 0.1; done
		kill -CONT $server
		for i in $(seq 600); do
			/bin/true
			! grep -q "/perl[^ ]*: converted" err || break
			sleep 0.1
		done
		kill $!' || return 1
	cat err
	grep '/perl[^ ]*: converted' err
}

# A lease of a file makes nobody wait.
leased() {
	local pid begin
	python3 -c 'import fcntl, mmap, os, signal, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = os.open("leased", os.O_RDWR | os.O_CREAT)
os.write(file, bytes(4096))
code = mmap.mmap(file, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)
os.rename("leased", "moved")
os.unlink("moved")
file = os.open("moved (deleted)", os.O_RDWR | os.O_CREAT)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
open("ready", "w")
time.sleep(1000)' & pid=$!
	until [ -e ready ]; do
		kill -0 $pid || return 1
		sleep 0.2
	done
	# /proc shows this name for the file.
	grep -q ' r-xs .*/moved (deleted)$' /proc/$pid/maps || { cat /proc/$pid/maps; return 1; }
	begin=$SECONDS
	run -p $pid true
	kill $pid
	echo "# $((SECONDS - begin)) s"
	[ $((SECONDS - begin)) -lt 30 ]
}

# A file of another user has sections for a user that runs it: here root.
of_others() {
	local pid
	cp "$(readlink -f "$(type -p perl)")" theirs && chown 12345 theirs || return 1
	./theirs -e "sub f { $spin } f() while 1" 20000 &
	pid=$!
	run -p $pid -c none "${record[@]}" of-theirs -p $pid sleep 3
	kill $pid
	wait $pid 2> /dev/null
	cat err
	whole of-theirs && ! grep "through .*/theirs" err
}

# A process that already runs, and the files that it maps later.
of_pid() {
	local pid
	perl -e "sub f { $spin } f() while 1" 20000 &
	pid=$!
	run -p $pid "${record[@]}" pid -p $pid sleep 3
	kill $pid
	wait $pid 2> /dev/null
	whole pid
}

of_all() {
	local pid
	perl -e "sub f { $spin } f() while 1" 20000 &
	pid=$!
	run -a "${record[@]}" all -a sleep 3
	kill $pid
	wait $pid 2> /dev/null
	# Process 1 may run a file that is gone.
	whole all --comms perl,sleep,perf,sframe
}

# A user without privileges, for own programs only.
of_somebody() {
	local file
	for file in first warm; do
		as_somebody "$sframe" run -v "${record[@]}" "somebody/$file" -- \
			perl -e "sub f { $spin } f() for 1..30" 20000 > log 2> err < /dev/null ||
			{ cat log err; return 1; }
	done
	grep -q ' of which 0 were made now' err || { fail "no cache"; cat err; return 1; }
	whole somebody/warm
}

# A killed run leaves no sections behind.
killed() {
	local pid command
	run true || return 1
	"$sframe" run sleep 98765 & pid=$!
	soon pgrep -P $pid -x sleep || return 1
	command=$(pgrep -P $pid -x sleep)
	kill -9 $pid
	wait $pid 2> /dev/null
	kill "$command"
	"${record[@]}" without -- perl -e "sub f { $spin } f() for 1..20" 20000 > log 2>&1
	stacks_end without
}

check "statuses and sentences" statuses
check "without the device" without_device
check "the kernel uses none" switched_off
check "perl" stock perl -e "sub f { $spin } f() for 1..30" 20000
check "many processes" stock "${processes[@]}"
if command -v gcc > /dev/null && command -v objcopy > /dev/null; then
	check "what is missed is named" named
	check "lazy binding" binds_lazily
else
	skip "what is missed is named" "needs gcc and binutils"
	skip "lazy binding" "needs gcc and binutils"
fi
if [ -x "$stackprof" ]; then
	check "a BPF profiler" by_bpf
else
	skip "a BPF profiler" "needs stackprof"
fi
check "a trigger of ftrace" by_ftrace
check "a hostile cache" hostile_cache
check "a section that is damaged later" damaged_later
check "no cache" no_cache
check "a process that runs" of_pid
check "a program of somebody else" of_others
check "mappings that were lost" lost
check "a lease" leased
check "all processes" of_all
check "somebody without privileges" of_somebody
check "killed" killed

finish
