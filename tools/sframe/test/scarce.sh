# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# Files that lack descriptors, as session.sh tests them: each file gets its section as soon as
# descriptors are free. To be sourced there.
# shellcheck disable=SC2154	# session.sh sets it

# build_cpus: a library that reports the CPUs of the list in the file "cpus", opens all events on
# CPU 0, and adds the number of the CPU on which it should have opened the event to a file "asked"
build_cpus() {
	cat > cpus.c <<-'END_CPUS'
	#define _GNU_SOURCE
	#include <dlfcn.h>
	#include <stdarg.h>
	#include <stdio.h>
	#include <string.h>
	#include <sys/syscall.h>
	#include <unistd.h>

	FILE *fopen(const char *name, const char *mode)
	{
		FILE *(*next)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");

		return next(strcmp(name, "/sys/devices/system/cpu/online") ? name : "cpus", mode);
	}

	static long ask(long cpu)
	{
		FILE *asked = fopen("asked", "a");

		if (asked) {
			fprintf(asked, "%ld\n", cpu);
			fclose(asked);
		}
		return 0;
	}

	long syscall(long nr, ...)
	{
		long (*next)(long, ...) = dlsym(RTLD_NEXT, "syscall"), args[6];
		va_list list;

		va_start(list, nr);
		for (int i = 0; i < 6; i++)
			args[i] = va_arg(list, long);
		va_end(list);
		if (nr == SYS_perf_event_open)
			args[2] = ask(args[2]);
		return next(nr, args[0], args[1], args[2], args[3], args[4], args[5]);
	}
	END_CPUS
	gcc -O2 -shared -fPIC -o cpus.so cpus.c -ldl
}

# few_open [CPUS]: more files wait for conversion than may be open: each is converted in the end,
# though each CPU has an event. With CPUS, the library "cpus" sets their numbers.
few_open() {
	local nr status
	rm -rf .debug few_open
	build_cpus && mkdir few_open || return 1
	for nr in $(seq 60); do
		library "few_$nr" && mv "few_$nr" few_open/ || return 1
	done
	mapped few_open/* || return 1
	# shellcheck disable=SC2016	# for the inner shell
	(ulimit -n $((50 + ($# == 1 ? 0 : $(nproc --all))))
	[ $# = 0 ] || { echo "$1" > cpus; export LD_PRELOAD=$PWD/cpus.so; }
	timeout 100 "$sframe" run -v -p "$holder" sh -c '
		until [ "$(grep -c "few_open/.*: converted" err)" = 60 ]; do
			sleep 0.1
		done' 2> err)
	status=$?
	kill "$holder"
	grep -v ': converted' err
	awk -F ': ' '$3 != "" && $3 == said[$2] { print; again = 1 }
		{ said[$2] = $3 }
		END { exit again }' err || fail "a sentence is said again" || return 1
	[ $status = 0 ] && ! grep 'few_open/.*: \(is not there any more\|cannot\)' err &&
		grep 'few_open/.*: is not looked at, as too many files are open' err
}

# A process has more threads than there are descriptors for events. What the last one maps is found.
many_threads() {
	local status=0 name
	rm -rf .debug many_threads mapped go_*
	mkdir many_threads && library cold && library warm && mv cold warm many_threads/ ||
		return 1
	python3 -c 'import mmap, os, threading, time
def maps():
    for name in ["cold", "warm"]:
        while not os.path.exists("go_" + name):
            time.sleep(0.1)
        with open("many_threads/" + name) as file:
            code.append(mmap.mmap(file.fileno(), 4096, flags=mmap.MAP_PRIVATE,
                                  prot=mmap.PROT_READ | mmap.PROT_EXEC))
code = []
for work in [lambda: time.sleep(100000)] * 100 + [maps]:
    threading.Thread(target=work, daemon=True).start()
open("mapped", "w").close()
time.sleep(100000)' & holder=$!
	soon test -e mapped || return 1
	# The second time, the cache has all that the start needs: nothing is converted.
	for name in cold warm; do
		# shellcheck disable=SC2016	# for the inner shell
		(ulimit -n $((50 + $(nproc --all)))
		timeout 100 "$sframe" run -v -p "$holder" sh -c '
			touch go_$0
			until grep -q "many_threads/$0: converted" err; do
				sleep 0.1
			done' $name 2> err) || status=$?
		cat err
	done
	kill "$holder"
	return $status
}

# The numbers of CPUs have gaps: each CPU has an event.
sparse_cpus() {
	rm -f asked
	build_cpus || return 1
	echo 0,2,8-11,40 > cpus
	LD_PRELOAD=$PWD/cpus.so ends 0 "" -v true || return 1
	[ "$(sort -un asked | xargs)" = "0 2 8 9 10 11 40" ] || fail "asked: $(xargs < asked)"
}

# A CPU comes online: what is mapped there is found, though no event tells of it. Nothing is mapped
# elsewhere meanwhile.
new_cpu() {
	local status waiter
	rm -rf .debug new found
	build_cpus && library new && mkfifo found || return 1
	echo 0 > cpus
	: > err
	(until grep -q "/new: converted" err; do
		sleep 0.1
	done; : > found) & waiter=$!
	# shellcheck disable=SC2016	# for the inner shell
	LD_PRELOAD=$PWD/cpus.so timeout 100 "$sframe" run -v taskset -c 0 sh -c '
		echo 0-1 > cpus
		taskset -c 1 python3 -c "import mmap, time
with open(\"new\") as file:
    code = mmap.mmap(file.fileno(), 4096, flags=mmap.MAP_PRIVATE,
                     prot=mmap.PROT_READ | mmap.PROT_EXEC)
time.sleep(100000)" & late=$!
		read found < found
		kill $late' 2> err
	status=$?
	kill $waiter 2> /dev/null
	wait $waiter 2> /dev/null
	cat err
	return $status
}

# scarce_room COMMAND: the kernel has no room for sections for a while, and then for one alone, the
# first or the last by build-id. They are offered again until it takes them, each as soon as it
# does. More attempts may fail in the same way, which is said once.
scarce_room() {
	local status
	rm -rf .debug device asked
	library full_1 && library full_2 && library full_3 && mapped full_1 full_2 full_3 &&
		: > full || return 1
	readelf -n full_1 full_2 full_3 | sed -n 's/.*Build ID: //p' | sort > ids
	# shellcheck disable=SC2016	# for the inner shell
	SFRAME_FULL=$PWD/full timeout 100 "$sframe" run -v -p "$holder" sh -c '
		until [ "$(grep -c "/full_.: has a section that the kernel" err)" = 3 ]; do
			sleep 0.1
		done
		sleep 3
		id=$("$@" ids)
		printf %s "$id" > full
		for other in $(grep -v "$id" ids); do
			until grep -q "^$other" device; do
				sleep 0.1
			done
		done
		! grep "^$id" device || exit 1
		rm full
		until grep -q "^$id" device; do
			sleep 0.1
		done' sh "$@" 2> err
	status=$?
	kill "$holder"
	rm -f full
	cat err
	[ $status = 0 ] && [ "$(grep -c '/full_.: has a section that' err)" = 3 ] &&
		! grep 'no stacks through' err
}

# build_withhold: a library that drops each received descriptor of a file "withheld"
build_withhold() {
	cat > withhold.c <<-'END_WITHHOLD'
	#define _GNU_SOURCE
	#include <stdio.h>
	#include <string.h>
	#include <sys/socket.h>
	#include <sys/syscall.h>
	#include <unistd.h>

	ssize_t recvmsg(int socket, struct msghdr *message, int flags)
	{
		ssize_t got = syscall(SYS_recvmsg, socket, message, flags);
		struct cmsghdr *header = CMSG_FIRSTHDR(message);
		char link[32], name[4096] = "";
		int fd;

		if (got < 0 || !header || header->cmsg_type != SCM_RIGHTS)
			return got;
		memcpy(&fd, CMSG_DATA(header), sizeof(fd));
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		readlink(link, name, sizeof(name) - 1);
		if (!strstr(name, "/withheld"))
			return got;
		close(fd);
		message->msg_controllen = 0;
		message->msg_flags |= MSG_CTRUNC;
		return got;
	}
	END_WITHHOLD
	gcc -O2 -shared -fPIC -o withhold.so withhold.c 2> /dev/null
}

# A file that a security module withholds from the session.
withheld() {
	rm -rf .debug
	build_withhold && library withheld && mapped withheld || return 1
	LD_PRELOAD=$PWD/withhold.so ends 0 "" -v -p "$holder" sleep 1 || return 1
	grep 'through .*/withheld: it is withheld by a security module' err &&
		grep '/libc[^ ]*: converted' err &&
		[ "$(grep -c '^sframe: [^ ]*/withheld: ' err)" = 1 ]
}

# build_scarce: a library with which descriptors are scarce while a file "scarce" exists: none for
# conversions; with SCARCE=file none to open the file that is converted, with SCARCE=ever only for
# files "ever1" and the like; with SCARCE=maps none to read mappings; with SCARCE=proc there is no
# /proc, and each look for it adds a byte to a file "looks". Of the mappings of these
# processes, " PID ", those of DEAF hang, those of BUSY take all of the CPU time, and those of SLOW
# take three seconds each, which a line in a file "reads" tells of.
build_scarce() {
	cat > scarce.c <<-'END_SCARCE'
	#define _GNU_SOURCE
	#include <dirent.h>
	#include <dlfcn.h>
	#include <errno.h>
	#include <stdio.h>
	#include <stdlib.h>
	#include <string.h>
	#include <sys/syscall.h>
	#include <unistd.h>

	static int begins, converts;

	static int is_scarce(const char *what)
	{
		const char *scarce = getenv("SCARCE");

		errno = EMFILE;
		return !strcmp(scarce ? scarce : "jobs", what) && !access("scarce", F_OK);
	}

	int memfd_create(const char *name, unsigned int flags)
	{
		begins = 1;
		return is_scarce("jobs") ? -1 : syscall(SYS_memfd_create, name, flags);
	}

	pid_t fork(void)
	{
		pid_t (*next)(void) = dlsym(RTLD_NEXT, "fork"), pid = next();

		converts = !pid && begins;
		begins = 0;
		return pid;
	}

	static int is_ever(const char *name)
	{
		char file[4096] = "";

		return readlink(name, file, sizeof(file) - 1) > 0 && strstr(file, "/ever") &&
		       is_scarce("ever");
	}

	int open(const char *name, int flags, ...)
	{
		if (converts && (is_ever(name) || is_scarce("file")))
			return -1;
		/* None is created there. */
		return syscall(SYS_open, name, flags);
	}

	static int is_one_of(const char *name, const char *pids)
	{
		char pid[32];

		snprintf(pid, sizeof(pid), " %d ", atoi(name + strlen("/proc/")));
		return strstr(name, "/maps") && getenv(pids) && strstr(getenv(pids), pid);
	}

	FILE *fopen(const char *name, const char *mode)
	{
		FILE *(*next)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");
		FILE *reads;

		while (is_one_of(name, "DEAF"))
			pause();
		while (is_one_of(name, "BUSY"))
			;
		if (is_one_of(name, "SLOW")) {
			sleep(3);
			reads = next("reads", "a");
			fprintf(reads, "%s\n", name);
			fclose(reads);
		}
		return strstr(name, "/maps") && is_scarce("maps") ? NULL : next(name, mode);
	}

	DIR *opendir(const char *name)
	{
		DIR *(*next)(const char *) = dlsym(RTLD_NEXT, "opendir");
		FILE *looks;

		if (strcmp(name, "/proc") || !is_scarce("proc"))
			return next(name);
		looks = fopen("looks", "a");
		fputc('x', looks);
		fclose(looks);
		errno = ENOENT;
		return NULL;
	}
	END_SCARCE
	gcc -O2 -shared -fPIC -o scarce.so scarce.c -ldl
}

# scarce_begin: build this library, and start a process, $holder, that maps "first"
scarce_begin() {
	build_scarce && library first && library second && mapping first second && touch map1 &&
		soon test -e mapped1
}

# scarce COMMAND...: sframe run with this library, while $holder has "first" mapped
scarce() {
	local status
	: > scarce
	LD_PRELOAD=$PWD/scarce.so timeout 60 "$sframe" run -v -p "$holder" "$@" 2> err
	status=$?
	cat err
	rm -f scarce
	return $status
}

# A file that cannot be converted for want of descriptors waits for them; nobody waits for it.
scarce_jobs() {
	local holder status
	scarce_begin || return 1
	scarce true && grep 'through .*/first: it cannot be converted: Too many' err &&
		scarce sh -c 'rm scarce
			until grep -q "/first: converted" err; do sleep 0.1; done' &&
		! grep '/first: cannot' err
	status=$?
	kill "$holder"
	return $status
}

# Likewise if a conversion has begun and cannot open its file, for a while or until the end.
scarce_file() {
	local holder status
	scarce_begin || return 1
	SCARCE=file scarce true && grep 'through .*/first: it cannot be opened: Too many' err &&
		SCARCE=file scarce sh -c '
			until grep "/first: cannot be opened" err; do sleep 0.1; done
			rm scarce
			until grep -q "/first: converted" err; do sleep 0.1; done' &&
		! grep 'through .*/first' err
	status=$?
	kill "$holder"
	return $status
}

# But not forever: other files of the same build-id get their turn then.
scarce_ever() {
	local holder status
	build_scarce && library ever1 && cp ever1 ever2 && mapped ever1 ever2 || return 1
	SCARCE=ever scarce sh -c '
		until [ "$(grep -c "/ever[12]: cannot be opened: Too many" err)" = 2 ]; do
			sleep 0.1
		done
		rm scarce
		until grep -q "/ever[12]: converted" err; do sleep 0.1; done' &&
		! grep 'through .*/ever' err
	status=$?
	kill "$holder"
	return $status
}

# The mappings of a process are looked at as soon as they can be read.
scarce_scans() {
	local holder status
	scarce_begin || return 1
	SCARCE=maps scarce sh -c 'sleep 1
		rm scarce
		until grep -q "/first: converted" err; do sleep 0.1; done'
	status=$?
	kill "$holder"
	return $status
}

# scarce_unread VARIABLE: a process whose mappings cannot be read, as they hang (DEAF) or take all
# of the CPU time (BUSY), does not keep others from their sections, and is named
scarce_unread() {
	local sframe=$bin/standin-slow status unread
	rm -rf .debug
	build_scarce && library unread && library heard && mapped unread || return 1
	unread=$holder
	mapped heard || return 1
	env "$1= $unread " LD_PRELOAD="$PWD/scarce.so" timeout 100 "$sframe" run -v -a \
		sh -c 'until grep "/heard: converted" err; do sleep 0.1; done; sleep 1' 2> err
	status=$?
	kill "$unread" "$holder"
	cat err
	[ $status = 0 ] && grep "mappings of process $unread take too long" err &&
		! grep '/unread' err
}

# Processes whose mappings take long together: the command does not wait for all, and each is read
# once.
scarce_time() {
	local pids=() sframe=$bin/standin-slow file status
	rm -rf .debug
	: > reads
	build_scarce || return 1
	for file in slow_1 slow_2; do
		library $file && mapped $file && pids+=("$holder") || return 1
	done
	SLOW=" ${pids[*]} " LD_PRELOAD=$PWD/scarce.so timeout 100 "$sframe" run -v -a sh -c '
		wc -l < reads > before
		until grep "/slow_2: converted" err; do sleep 0.1; done
		sleep 1' 2> err
	status=$?
	kill "${pids[@]}"
	cat reads err
	[ $status = 0 ] && [ "$(cat before)" -le 1 ] && [ "$(wc -l < reads)" -le 3 ] &&
		[ "$(grep -c '^sframe: it takes long to read what processes' err)" = 1 ] &&
		! grep 'through .*/slow_' err
}

# Without /proc, the session does not look for it again and again.
scarce_proc() {
	local status
	rm -f looks
	build_scarce && : > scarce || return 1
	SCARCE=proc LD_PRELOAD=$PWD/scarce.so ends 0 "" -a sleep 2
	status=$?
	rm -f scarce
	[ $status = 0 ] && [ "$(stat -c %s looks)" -le 2 ] || fail "looks: $(cat looks)"
}

# functions NR NAME_X: build a library with this number of functions, unlike others with another X
functions() {
	gcc -shared -Wl,--build-id -o "$2" -x assembler - <<-END_FUNCTIONS
	.quad ${2#*_}
	.rept $1
	.cfi_startproc
	nop
	.cfi_endproc
	.endr
	END_FUNCTIONS
}

# scarce_memory CLASS LOSSES [FILE]: sections of files that CLASS, u or o, can write; the second is
# too large for the memory that is left, unless they are in the cache. FILE is no cache
scarce_memory() {
	local name losses status
	rm -rf .debug
	[ $# = 2 ] || : > "$3"
	for name in large_1 large_2; do
		functions 110000 $name && chmod "$1+w" $name || return 1
	done
	mapped large_1 large_2 || return 1
	ends 0 "" -v ${3:+-c "$3"} -p "$holder" true
	status=$?
	kill "$holder"
	losses=$(grep -c '/large_.: it has a section for which no memory is left' err)
	[ $status = 0 ] && [ "$(grep -c '/large_.: converted' err)" = 2 ] &&
		[ "$losses" = "$2" ]
}

# The limit of the size of files, which a user can set, is for sections as well.
scarce_size() {
	rm -rf .debug
	: > "$SFRAME_DEVICE"
	library small && mapped small || return 1
	(ulimit -f 64; ends 0 "" -v -p "$holder" true)
	local status=$?
	kill "$holder"
	[ $status = 0 ] && grep '/small: converted' err && [ -d .debug ] &&
		grep '/libc[^ ]*: has a section that cannot be kept: File too large' err
}
