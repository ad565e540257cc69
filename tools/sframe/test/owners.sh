# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# Which files sessions take for the user's and for root's. To be sourced by session.sh, which has
# the helpers, and is root of a user namespace.
# shellcheck disable=SC2154	# set by session.sh

# doubted FILE [-]: a session for all doubts the owner of the file, so only a user who has mapped it
# can have its section; with -, all have the section
doubted() {
	local id sentence='is on a file system that may make up owners' status
	mapped "$1" || return 1
	id=$(readelf -n "/proc/$holder/root/$PWD/$1" | sed -n 's/.*Build ID: //p')
	rm -rf .debug device.* device
	SFRAME_FOR_ALL=yes ends 0 "" -v -p "$holder" true
	status=$?
	kill "$holder"
	[ $status = 0 ] && [ "$id" ] || return 1
	if [ "${2-}" = - ]; then
		grep "$1: converted" err && grep "$id" device
	elif grep "$id" device; then
		fail "all have it"
	else
		grep -s "$id" device.* || grep "through .*/$1: it $sentence" err
	fi
}

# on DIRECTORY ARGUMENT...: mount this on the directory, and copy the library "owned" there
on() {
	local dir=$1
	shift
	mkdir -p "$dir" && mount "$@" "$dir" && cp owned "$dir/owned"
}

# A user who watches all processes takes no files of others: they may be there for their build-ids.
all_of_others() {
	local status=1
	library others && chmod o+w others && mapped others || return 1
	rm -rf .debug
	if ends 0 "" -v -p "$holder" true && grep '/others: converted' err; then
		ends 0 "" -v -a true && ! grep '/others: converted' err &&
			grep '/others: it belongs to somebody else' err
		status=$?
	fi
	kill "$holder"
	return $status
}

# A file of root is not root's where other users may have made up its owner.
owners() {
	library owned && on memory -t tmpfs -o nosuid none && doubted memory/owned - &&
		on honoured -t ramfs none && doubted honoured/owned - &&
		on nosuid -t ramfs -o nosuid none && doubted nosuid/owned &&
		mkdir -p also && mount --bind honoured also && mount -o remount,bind,nosuid also &&
		doubted also/owned -
}

# overlays [COMMAND...]: can an overlay be mounted here, below COMMAND if there is one? Otherwise
# the test is skipped
overlays() {
	mkdir -p top bottom probe
	unshare -m "$@" mount -t overlay -o lowerdir=top:bottom none probe ||
		skipped "no overlay can be mounted"
}

# overlaid DIRECTORY [FILE]: a file that is doubted there is also doubted in a user's overlay of it
# shellcheck disable=SC2016	# for the inner shell
overlaid() {
	local inside=(unshare -Urm sh -c
		'mount -t overlay -o "lowerdir=$0:bottom" none over && exec "$@"' "$1")
	mkdir -p over bottom && doubted "over/${2-owned}"
}

# In a container of root, all users see the overlay, though by another name.
# shellcheck disable=SC2016	# for the inner shell
owners_container() {
	local inside=(unshare -m sh -c 'mount --move over moved && exec "$@"' -)
	overlays || return
	mkdir -p over moved && library owned && on honoured -t ramfs none || return 1
	mkdir honoured/top honoured/bottom && mv honoured/owned honoured/top &&
		mount -t overlay -o lowerdir=honoured/top:honoured/bottom none over &&
		[ ! -e moved/owned ] && doubted moved/owned -
}

# Users who create a user namespace can have mounts there that are not nosuid.
owners_overlay() {
	overlays unshare -Urm || return
	library owned && on nosuid -t ramfs -o nosuid none && overlaid nosuid
}

owners_overlay_fuse() {
	overlays unshare -Urm || return
	library owned && hanging owned && overlaid mnt file
}

# Where files have another device number than their mount, the mount decides.
owners_device() {
	overlays || return
	library owned && on honoured -t ramfs none && mkdir -p bottom over also &&
		mount -t overlay -o lowerdir=honoured:bottom none over || return 1
	[ "$(stat -c %d over)" != "$(stat -c %d over/owned)" ] &&
		mount --bind over also && mount -o remount,bind,nosuid also &&
		doubted over/owned - && doubted also/owned -
}

# With privileges other than root's, this applies to the user's own files, too.
owners_user() {
	library owned && on nosuid -t ramfs -o nosuid none || return 1
	export -f doubted mapped soon ends fail
	# shellcheck disable=SC2016	# for the inner shell
	sframe=$sframe unshare -U --map-user=1000 bash -c '
		[ "$(stat -c %u nosuid/owned)" = 1000 ] && doubted nosuid/owned'
}

# build_ids: a library that gives all processes but its own the user ID, IDS, or the ids that a file
# ids.PID has: four of the user; after a /, four of the group if these differ; after another /,
# capabilities. "looked" gets a line for each look at mappings, and "asked" for each query of ids or
# namespaces
build_ids() {
	cat > ids.c <<-'END_IDS'
	#define _GNU_SOURCE
	#include <dlfcn.h>
	#include <fcntl.h>
	#include <stdio.h>
	#include <stdlib.h>
	#include <string.h>
	#include <sys/stat.h>
	#include <unistd.h>

	static void asked(void)
	{
		FILE *(*next)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");
		FILE *file = next("asked", "a");

		fputs("asked\n", file);
		fclose(file);
	}

	int stat(const char *name, struct stat *st)
	{
		if (!strncmp(name, "/proc/", 6) && strstr(name, "/ns/user"))
			asked();
		return fstatat(AT_FDCWD, name, st, 0);
	}

	FILE *fopen(const char *name, const char *mode)
	{
		FILE *(*next)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");
		char ids[64] = "", path[32], *gids, *caps;
		int pid = 0, end = 0;
		FILE *file;

		if (sscanf(name, "/proc/%d/maps%n", &pid, &end) == 1 && end && pid != getpid()) {
			file = next("looked", "a");
			fputs("maps\n", file);
			fclose(file);
		}
		if (sscanf(name, "/proc/%d/status%n", &pid, &end) != 1 ||
		    strcmp(name + end, "") || !strstr(name, "status") || pid == getpid())
			return next(name, mode);
		asked();
		if (getenv("IDS"))
			sprintf(ids, "%1$s %1$s %1$s %1$s", getenv("IDS"));
		snprintf(path, sizeof(path), "ids.%d", pid);
		file = next(path, "r");
		if (file && fgets(ids, sizeof(ids), file))
			fclose(file);
		if (!*ids)
			return next(name, mode);
		gids = strchr(ids, '/');
		if (gids)
			*gids++ = '\0';
		caps = gids ? strchr(gids, '/') : NULL;
		if (caps)
			*caps++ = '\0';
		file = tmpfile();
		fprintf(file, "Uid:\t%s\nGid:\t%s\nCapPrm:\t%s\n", ids, gids ?: ids,
			caps ?: "0");
		rewind(file);
		return file;
	}
	END_IDS
	gcc -O2 -shared -fPIC -o ids.so ids.c -ldl
}

# maps FILE SENTENCE...: a session for all, of a command that maps each file until its sentence is
# there; with UNMAP, it maps and unmaps the file while the session is stopped
# shellcheck disable=SC2016	# for the inner shell
maps() {
	rm -rf .debug device.* device
	SFRAME_FOR_ALL=yes ends 0 "" -v python3 -c 'import mmap, os, signal, subprocess, sys, time
def read(name):
    with open(name, errors="replace") as file:
        return file.read()
server = int(subprocess.check_output(["pgrep", "-P", str(os.getppid()), "-x", "sframe"]))
for name, sentence in zip(sys.argv[1::2], sys.argv[2::2]):
    file = os.open(name, os.O_RDONLY)
    if os.environ.get("UNMAP"):
        os.kill(server, signal.SIGSTOP)
    code = mmap.mmap(file, 4096, flags=mmap.MAP_PRIVATE,
                     prot=mmap.PROT_READ | mmap.PROT_EXEC)
    if os.environ.get("UNMAP"):
        code.close()
        os.kill(server, signal.SIGCONT)
    while name + ": " + sentence not in read("err"):
        time.sleep(0.1)' "$@"
}

# has_section FILE DEVICE: the device has a section for this file
has_section() {
	grep "$(readelf -n "$1" | sed -n 's/.*Build ID: //p')" "$2"
}

# If root's command maps a file that others may write, only users who mapped it get its section.
owners_command() {
	build_ids && library theirs && chmod o+w theirs || return 1
	IDS=12345 LD_PRELOAD=$PWD/ids.so maps "$PWD/theirs" converted || return 1
	! has_section theirs device || fail "all have it" || return 1
	has_section theirs device.12345.12345 && [ "$(wc -l < device.12345.12345)" = 1 ] &&
		[ -s device ] || fail "they do not have it" || return 1
	maps "$PWD/theirs" converted || return 1
	! has_section theirs device && has_section theirs device.0.0 || return 1
	! find .debug -path "*/$(readelf -n theirs | sed -n 's/.*Build ID: ..//p')*" | grep .
}

# users NAME...: start a process that has mapped these files, which others may write, and has the
# ids of the user 12345
users() {
	chmod o+w "$@" && mapped "$@" && echo "12345 12345 12345 12345" > "ids.$holder"
}

# watches ARGUMENT...: a session for all, and for processes that run, with a library "busy"
watches() {
	rm -rf .debug device.* device
	LD_PRELOAD=$PWD/ids.so:$PWD/busy.so SFRAME_FOR_ALL=yes ends 0 "" -v "$@"
}

# build_busy: conversions of files named "busy..." take 0.4 s of CPU time, those named "spin..." all
# that they get, and those named "held..." sleep until there is a file "go". With FEW_FILES,
# there is one CPU, and a process that makes sections for another user may open so many files
build_busy() {
	cat > busy.c <<-'END_BUSY'
	#define _GNU_SOURCE
	#include <dlfcn.h>
	#include <fcntl.h>
	#include <stdio.h>
	#include <stdlib.h>
	#include <string.h>
	#include <sys/resource.h>
	#include <sys/syscall.h>
	#include <time.h>
	#include <unistd.h>

	static int converts;

	/* Such a process has begun a session. */
	int getrlimit(__rlimit_resource_t resource, struct rlimit *limit)
	{
		const char *few = getenv("FEW_FILES");
		int ret = syscall(SYS_getrlimit, resource, limit);

		if (few && resource == RLIMIT_NOFILE && getsid(0) == getpid())
			limit->rlim_max = atoi(few);
		return ret;
	}

	long sysconf(int name)
	{
		static long (*next)(int);

		if (!next)
			next = dlsym(RTLD_NEXT, "sysconf");
		return name == _SC_NPROCESSORS_ONLN && getenv("FEW_FILES") ? 1 : next(name);
	}

	/* What opens files has less time. */
	int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
	{
		if (resource == RLIMIT_CPU)
			converts = limit->rlim_cur > 50;
		return syscall(SYS_setrlimit, resource, limit);
	}

	int open(const char *name, int flags, ...)
	{
		char file[4096] = "";
		clock_t begin = clock();

		if (converts && !strncmp(name, "/proc/self/fd/", 14) &&
		    readlink(name, file, sizeof(file) - 1) < 0)
			file[0] = '\0';
		while (strstr(file, "/spin") ||
		       (strstr(file, "/busy") && clock() - begin < CLOCKS_PER_SEC * 2 / 5))
			;
		while (strstr(file, "/held") && access("go", F_OK))
			usleep(50000);
		return syscall(SYS_openat, AT_FDCWD, name, flags, 0644);
	}
	END_BUSY
	gcc -O2 -shared -fPIC -o busy.so busy.c
}

# Processes that run have sections of what others may write before the command runs.
owners_running() {
	local which status=0
	build_ids && build_busy && library theirs && users theirs || return 1
	for which in -a "-p$holder"; do
		watches "$which" sh -c 'cp device all; cp device.12345.12345 one' &&
			has_section theirs one && ! has_section theirs all || status=1
	done
	kill "$holder"
	return $status
}

# Their conversions do not keep the command from starting.
owners_slow() {
	local names=(spin1 spin2 spin3 spin4) name status first
	build_ids && build_busy && library ours || return 1
	for name in "${names[@]}"; do
		library "$name" || return 1
	done
	users "${names[@]}" && first=$holder && mapped ours || return 1
	watches -a cp device before
	status=$?
	kill "$first" "$holder"
	[ $status = 0 ] && has_section ours before || return 1
	for name in "${names[@]}"; do
		grep "through .*/$name: it was not converted in time" err || return 1
	done
}

# limited SENTENCE FILE...: what a deputy may use is too little for these files; then the sentence
# is in the messages. The user 23456, and all, have the sections of other files all the same
limited() {
	local sentence=$1 status first second
	shift
	build_ids && build_busy && library theirs && library ours || return 1
	users "$@" && first=$holder && users theirs && second=$holder &&
		echo "23456 23456 23456 23456" > "ids.$second" && mapped ours || return 1
	watches -a sh -c 'until grep "$0" err && [ -s device.23456.23456 ] &&
			grep "/theirs: converted" err; do sleep 0.1; done
		cp device all; cp device.23456.23456 theirs.device' "$sentence"
	status=$?
	kill "$first" "$second" "$holder"
	[ $status = 0 ] && has_section "theirs" theirs.device && has_section ours all
}

owners_time() {
	local names=() name nr some
	# More than may start at once, and three after these.
	nr=$((4 + ($(getconf _NPROCESSORS_ONLN) + 1) / 2))
	for name in $(seq "$nr"); do
		library "busy$name" && names+=("busy$name") || return 1
	done
	limited 'cannot be converted: all have taken too long' "${names[@]}" || return 1
	some=$(grep -c '/busy[0-9]*: converted' err)
	echo "# $some of $nr converted"
	[ "$some" -gt 0 ] && [ "$some" -lt "$nr" ] || return 1
	[ "$(grep -c 'through .*/busy[0-9]*: it cannot be converted' err)" = $((nr - some)) ]
}

owners_number() {
	local nr
	library none && gcc -O2 -shared -fPIC -Wl,--build-id=none -o none library.c &&
		mkdir -p many_none || return 1
	for nr in {1..400}; do
		cp none "many_none/$nr" || return 1
	done
	limited 'user 12345 has mapped more than 37 files' many_none/*
}

# deputy: the process that makes sections for another user, in a session whose command is $PPID
export DEPUTY='server=$(pgrep -P $PPID -x sframe)
	deputy=$(ps -o pid=,sid= --ppid "$server" | awk "\$1 == \$2 { print \$1 }")'

# A user who ends the process that makes sections for the own tasks keeps none from others.
# shellcheck disable=SC2016	# for the inner shell
owners_killed() {
	local status first
	build_ids && build_busy && library theirs && library ours && users theirs &&
		first=$holder && mapped ours || return 1
	watches -a sh -c "$DEPUTY"'
		kill -9 "$deputy"
		until grep "for user 12345 alone have no section, as the process .* has ended" err
		do
			sleep 0.1
		done
		cp device all'
	status=$?
	kill "$first" "$holder"
	[ $status = 0 ] && has_section ours all
}

# It has nothing that its user could get at, and ends with the session.
# shellcheck disable=SC2016	# for the inner shell
owners_alone() {
	local first
	rm -f gone readable files
	build_ids && build_busy && library theirs && users theirs && first=$holder || return 1
	watches -a sh -c "$DEPUTY"'
		ls -l "/proc/$deputy/fd" > files
		setpriv --bounding-set=-all --inh-caps=-all --ambient-caps=-all \
			cat "/proc/$deputy/environ" > seen && touch readable
		kill -STOP "$deputy"
		kill -9 "$server"
		while grep -qs "^State:.[^XZ]" "/proc/$deputy/status"; do sleep 0.1; done
		touch gone'
	kill "$first"
	cat files
	[ -e gone ] && [ ! -e readable ] && grep -q "device.12345.12345" files &&
		! grep -E "$PWD/(device$|[.]debug)" files
}

# Nor does a user who stops the deputy: the command starts and ends.
owners_stopped() {
	local status first
	build_ids && build_busy && library theirs && library ours && users theirs &&
		first=$holder && mapped ours || return 1
	SFRAME_STOPS=yes watches -a cp device all
	status=$?
	kill "$first" "$holder"
	[ $status = 0 ] && has_section ours all &&
		grep 'what had no section for user 12345 is not listed: .* does not answer' err
}

owners_memory() {
	local name
	for name in large_1 large_2; do
		functions 15000 $name || return 1
	done
	limited 'has a section for which no memory is left' large_1 large_2 &&
		[ "$(grep -c '/large_.: converted' err)" = 2 ] &&
		[ "$(grep -c 'through .*/large_.: it has a section for which no memory' err)" = 1 ]
}

# A task that no longer maps the file may belong to another user by now.
owners_command_gone() {
	library theirs && chmod o+w theirs &&
		UNMAP=yes maps "$PWD/theirs" "belongs to somebody else" && ! ls device.*
}

# Nor does such a section replace a trusted one, even of the same build-id.
owners_command_same_id() {
	build_ids && library theirs && cp theirs ours && chmod o+w theirs &&
		IDS=12345 LD_PRELOAD=$PWD/ids.so \
		maps "$PWD/theirs" converted "$PWD/ours" converted || return 1
	has_section theirs device.12345.12345 && has_section ours device
}

# refused ID STEP...: do these steps after a mapping of "ours", whose cached section the kernel
# has refused
refused() {
	local id=$1 name=${1:0:2}/${1:2}
	shift
	printf %s "$id" > refuse && SFRAME_REFUSE=$PWD/refuse steps "put saved $name" "map ours" \
		"wait /ours: has a section that the kernel does not take" "remove refuse" "$@"
}

# A conversion whose result is not kept is not waited for at the end; its file is listed.
# shellcheck disable=SC2016	# for the inner shell
owners_late() {
	local pid server jobs first holder status
	library never && library theirs && chmod o+w theirs && mapping theirs never || return 1
	LD_PRELOAD=$PWD/hold.so "$sframe" run -v -p "$holder" sh -c 'touch ran
		until [ -e go ]; do sleep 0.1; done' 2> err & pid=$!
	soon test -e ran && touch map1 && soon one_held && touch go &&
		soon eval "! kill -0 $pid"
	status=$?
	kill -9 "$pid" 2> /dev/null
	kill "$holder"
	cat err
	[ $status = 0 ] && grep 'through .*/theirs: it was not converted in time' err &&
		! grep 'for the next time' err
}

# If the kernel refuses a cached section, another user's file still does not serve all users.
owners_refused() {
	local id
	build_ids && library theirs && cp theirs ours && chmod o+w theirs || return 1
	id=$(readelf -n ours | sed -n 's/.*Build ID: //p')
	steps "map ours" "section ours device" && cp ".debug/.sframe/2/${id:0:2}/${id:2}" saved &&
		refused "$id" "be 12345 12345 12345 12345" "map theirs" \
		"section theirs device.12345.12345" && ! has_section theirs device
}

# steps STEP...: a session for all, of a command that does this: "map FILE"; "lose", so that the
# session sees no mappings until "go", and looks for them then; "be IDS", with build_ids; wait for
# "wait SENTENCE", "section FILE DEVICE" or "see FILE TEXT"; "remove FILE"; "put FILE NAME", which
# copies the file into the cache; "count FILE", which saves how often the session has looked at
# mappings; "forget FILE", which starts to count anew; "unshare", into a user namespace; "fork": a
# child does the rest
steps() {
	rm -rf .debug device.* device ids.[0-9]* looked asked
	cat > steps.py <<-'END_STEPS'
	import ctypes, mmap, os, shutil, signal, subprocess, sys, time

	def map(name):
	    file = os.open(name, os.O_RDONLY)
	    code = mmap.mmap(file, 4096, flags=mmap.MAP_PRIVATE,
	                     prot=mmap.PROT_READ | mmap.PROT_EXEC)
	    os.close(file)
	    return code

	def until(name, text):
	    while not os.path.exists(name) or text not in open(name, errors="replace").read():
	        # The next mapping reports lost events.
	        map("/bin/true").close()
	        time.sleep(0.1)

	server = int(subprocess.check_output(["pgrep", "-P", str(os.getppid()), "-x", "sframe"]))
	# Each CPU has its own buffer: use one.
	os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
	kept = []
	for step in sys.argv[1:]:
	    what, *words = step.split(" ")
	    if what == "map":
	        kept.append(map(words[0]))
	    elif what == "lose":
	        os.kill(server, signal.SIGSTOP)
	        for i in range(5000):
	            map("/bin/true").close()
	    elif what == "go":
	        os.kill(server, signal.SIGCONT)
	    elif what == "be":
	        open("ids.new", "w").write(" ".join(words))
	        os.rename("ids.new", "ids.%d" % os.getpid())
	    elif what == "wait":
	        until("err", " ".join(words))
	    elif what == "section":
	        note = subprocess.check_output(["readelf", "-n", words[0]], text=True)
	        until(words[1], note.split("Build ID: ")[1].split()[0])
	    elif what == "see":
	        until(*words)
	    elif what == "remove":
	        os.unlink(words[0])
	    elif what == "put":
	        name = ".debug/.sframe/2/" + words[1]
	        os.makedirs(os.path.dirname(name), exist_ok=True)
	        shutil.copy(words[0], name)
	    elif what == "count":
	        open(words[0], "w").write(open("looked").read())
	    elif what == "forget":
	        open(words[0], "w").close()
	    elif what == "unshare" and ctypes.CDLL(None).unshare(0x10000000):
	        sys.exit("there is no user namespace")
	    elif what == "fork":
	        child = os.fork()
	        if child:
	            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
	END_STEPS
	LD_PRELOAD=$PWD/ids.so:${LD_PRELOAD-} SFRAME_FOR_ALL=yes ends 0 "" -v python3 steps.py "$@"
}

# A process with ids of several users, as su for a while, does not make a file unusable for others.
owners_unclaimed() {
	build_ids && library theirs && chmod o+w theirs || return 1
	steps "be 1 0 1 1" lose "map theirs" go "wait /theirs: belongs to somebody else" \
		"be 12345 12345 12345 12345" "map theirs" "section theirs device.12345.12345" &&
		grep 'belongs to somebody else, and nobody known has it mapped' err &&
		! grep 'through .*/theirs' err
}

# In a user namespace, the kernel uses sections only for the user who created that namespace.
owners_inside() {
	unshare -Ur true || skipped "no user namespace in this one" || return
	build_ids && build_maker && library theirs && chmod o+w theirs || return 1
	LD_PRELOAD=$PWD/maker.so steps unshare "be 100001 100001 100001 100001" "map theirs" \
		"wait /theirs: belongs to somebody else, and nobody known has it mapped" \
		"be 12345 12345 12345 12345" "map theirs" "section theirs device.12345.12345" &&
		[ ! -e device.100001.100001 ]
}

# Nor does it for tasks with more capabilities than the process that opens the device for them.
owners_capable() {
	build_ids && library theirs && chmod o+w theirs || return 1
	steps "be 1 1 1 1/1 1 1 1/0000000000000400" "map theirs" \
		"wait /theirs: belongs to somebody else, and nobody known has it mapped" \
		"be 1 1 1 1/1 1 1 1/0000000000000000" "map theirs" "section theirs device.1.1"
}

# Each user gets a section of a file, even if the event of the mapping was lost.
owners_each() {
	build_ids && library theirs && chmod o+w theirs || return 1
	steps "be 12345 12345 12345 12345" lose "map theirs" go \
		"section theirs device.12345.12345" \
		fork "be 23456 23456 23456 23456" lose "map theirs" go \
		"section theirs device.23456.23456" && ! grep 'through .*/theirs' err
}

# What the deputy of one user knows, and then finds again by a scan, is not known for others.
owners_apart() {
	build_ids && library theirs && chmod o+w theirs || return 1
	steps "be 12345 12345 12345 12345" "map theirs" "section theirs device.12345.12345" \
		lose go fork "be 23456 23456 23456 23456" lose "map theirs" go \
		"section theirs device.23456.23456" && ! grep 'through .*/theirs' err
}

# What the session knows of a file for a user also applies to its other names.
owners_names() {
	build_ids && library theirs && library ours && library last && chmod o+w theirs &&
		ln -f theirs alias || return 1
	steps "be 12345 12345 12345 12345" "map theirs" "section theirs device.12345.12345" \
		"map alias" "map ours" "section ours device" "count before" \
		"map alias" "map alias" "map last" "section last device" "count after" &&
		[ -s before ] && cmp before after
}

# The session does not query ids for each known mapping, whether events or looks at /proc tell it.
owners_asked() {
	local nr step=()
	build_ids && library theirs && library ours && library last && chmod o+w theirs || return 1
	for nr in {1..1100}; do
		step+=("map ours")
	done
	steps "be 12345 12345 12345 12345" "map theirs" "section theirs device.12345.12345" \
		"map ours" "section ours device" lose go "forget asked" \
		lose "${step[@]}" "map last" go "section last device" || return 1
	echo "# asked $(wc -l < asked) times"
	[ -s asked ] && [ "$(wc -l < asked)" -lt 1000 ]
}

# The number of users with sections of their own is limited, and no user can take all places with
# several groups. Nothing is converted for users beyond the limit.
owners_many() {
	local nr step=() too_many="alone, and there are too many users"
	build_ids && library theirs && chmod o+w theirs || return 1
	for nr in {101..103}; do
		step+=("be 1 1 1 1/$nr $nr $nr $nr" "map theirs")
		[ "$nr" = 103 ] || step+=("section theirs device.1.$nr")
	done
	step+=("wait /theirs: is for user 1 $too_many")
	for nr in {2..7}; do
		step+=("be $nr $nr $nr $nr" "map theirs" "section theirs device.$nr.$nr")
	done
	step+=("be 8 8 8 8" "map theirs" "map theirs")
	library last && steps "${step[@]}" "map last" "section last device" || return 1
	[ "$(grep -c '/theirs: converted' err)" = 8 ] && [ ! -e device.1.103 ] &&
		[ ! -e device.8.8 ] || return 1
	[ "$(grep -c "through .*/theirs: it is for user 1 $too_many" err)" = 1 ]
}

# A section that a user lacks while too many files are open comes once files are closed.
owners_scarce() {
	build_ids && library theirs && chmod o+w theirs && : > scarce || return 1
	SFRAME_SCARCE=$PWD/scarce steps "be 1 1 1 1" "map theirs" \
		"see scarce none" "remove scarce" "section theirs device.1.1" &&
		! grep 'through .*/theirs' err
}

# A file of root that a group may write belongs to that group.
owners_group() {
	build_ids && library theirs && chmod g+w theirs || return 1
	maps "$PWD/theirs" converted || return 1
	has_section theirs device || fail "root's own group is another" || return 1
	cat > group.c <<-'END_GROUP'
	#define _GNU_SOURCE
	#include <fcntl.h>
	#include <sys/stat.h>

	int fstat(int fd, struct stat *st)
	{
		int ret = fstatat(fd, "", st, AT_EMPTY_PATH);

		st->st_gid = 50;
		return ret;
	}
	END_GROUP
	gcc -O2 -shared -fPIC -o group.so group.c || return 1
	LD_PRELOAD=$PWD/group.so maps "$PWD/theirs" converted || return 1
	! has_section theirs device && has_section theirs device.0.0
}

# Likewise a file that an access control list lets others write, or might. ACL is the error of the
# query for a list, or 0.
owners_acl() {
	local error
	cat > acl.c <<-'END_ACL'
	#include <errno.h>
	#include <stdlib.h>
	#include <string.h>
	#include <sys/syscall.h>
	#include <unistd.h>

	ssize_t fgetxattr(int fd, const char *name, void *value, size_t size)
	{
		if (strcmp(name, "system.posix_acl_access"))
			return syscall(SYS_fgetxattr, fd, name, value, size);
		errno = atoi(getenv("ACL"));
		return errno ? -1 : 44;
	}
	END_ACL
	gcc -O2 -shared -fPIC -o acl.so acl.c && library theirs && chmod g+w theirs || return 1
	# The list exists; EIO, ENODATA, EOPNOTSUPP.
	for error in 0 5 61 95; do
		ACL=$error LD_PRELOAD=$PWD/acl.so maps "$PWD/theirs" converted || return 1
		if [ "$error" -gt 5 ]; then
			has_section theirs device
		else
			! has_section theirs device && has_section theirs device.0.0
		fi || fail "error $error" || return 1
	done
	chmod g-w theirs && ACL=0 LD_PRELOAD=$PWD/acl.so maps "$PWD/theirs" converted &&
		has_section theirs device
}

# kept_alone FILE: a session without privileges keeps the section it makes, and the next one uses
# that; but a session for all of the same user does not use it, even if the cache is a copy without
# modes and attributes, and makes it again for this user alone
kept_alone() {
	local id nr status
	rm -rf .debug device.* device
	mapped "$1" || return 1
	for nr in 1 2; do
		ends 0 "" -v -p "$holder" true && cp err "err$nr" && cp device "device$nr" &&
			: > device || return 1
	done
	! find .debug -name '*.alone' ! -perm 600 | grep . || fail "others can read it" || return 1
	mv .debug former && cp -r --no-preserve=all former .debug && rm -rf former &&
		chmod -R u=rwX,go=rX .debug || return 1
	SFRAME_FOR_ALL=yes ends 0 "" -v -p "$holder" true
	status=$?
	kill "$holder"
	[ $status = 0 ] && grep "$1: converted" err1 && ! grep "$1: converted" err2 &&
		grep "$1: converted" err || return 1
	id=$(readelf -n "$1" | sed -n 's/.*Build ID: //p')
	grep "$id" device1 && grep "$id" device2 || fail "it is not kept" || return 1
	! grep "$id" device || fail "it is used for all" || return 1
	grep "$id" device.1000.*
}

# A section that only such a user may trust is not used later for all.
owners_later() {
	library owned && on nosuid -t ramfs -o nosuid none || return 1
	export -f kept_alone mapped soon ends fail
	sframe=$sframe unshare -U --map-user=1000 bash -c 'kept_alone nosuid/owned'
}

# Nor are owners that a FUSE server reports.
owners_fuse() {
	library owned && hanging owned && doubted mnt/file
}
