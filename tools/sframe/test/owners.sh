# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# Whose files sessions take for the user's and root's. To be sourced by session.sh, which has what
# they use, and is root of a user namespace.
# shellcheck disable=SC2154	# as it is there

# doubted FILE: a session for all has this sentence for it; or that it was converted, with -
doubted() {
	local sentence='is on a file system that may make up owners' status
	mapped "$1" || return 1
	rm -rf .debug
	SFRAME_FOR_ALL=yes ends 0 "" -v -p "$holder" true
	status=$?
	kill "$holder"
	[ $status = 0 ] || return 1
	if [ "${2-}" = - ]; then
		grep "$1: converted" err
	else
		grep "through .*/$1: it $sentence" err && ! grep "$1: converted" err
	fi
}

# on DIRECTORY ARGUMENT...: have the library "owned" there, on what is mounted so
on() {
	local dir=$1
	shift
	mkdir -p "$dir" && mount "$@" "$dir" && cp owned "$dir/owned"
}

# Root's files are not root's where others may have made up that.
owners() {
	library owned && on memory -t tmpfs -o nosuid none && doubted memory/owned - &&
		on honoured -t ramfs none && doubted honoured/owned - &&
		on nosuid -t ramfs -o nosuid none && doubted nosuid/owned &&
		mkdir -p also && mount --bind honoured also && mount -o remount,bind,nosuid also &&
		doubted also/owned -
}

# overlays [COMMAND...]: may an overlay be mounted, by whom this command makes one? A test is
# skipped if not
overlays() {
	mkdir -p top bottom probe
	unshare -m "$@" mount -t overlay -o lowerdir=top:bottom none probe ||
		skipped "no overlay can be mounted"
}

# overlaid DIRECTORY [FILE]: what is doubted there is also doubted in a stranger's overlay of it
# shellcheck disable=SC2016	# for the inner shell
overlaid() {
	local inside=(unshare -Urm sh -c
		'mount -t overlay -o "lowerdir=$0:bottom" none over && exec "$@"' "$1")
	mkdir -p over bottom && doubted "over/${2-owned}"
}

# In a container of root's, all see the overlay, if not by the same name.
# shellcheck disable=SC2016	# for the inner shell
owners_container() {
	local inside=(unshare -m sh -c 'mount --move over moved && exec "$@"' -)
	overlays || return
	mkdir -p over moved && library owned && on honoured -t ramfs none || return 1
	mkdir honoured/top honoured/bottom && mv honoured/owned honoured/top &&
		mount -t overlay -o lowerdir=honoured/top:honoured/bottom none over &&
		[ ! -e moved/owned ] && doubted moved/owned -
}

# Who makes user namespaces has mounts there that are not nosuid.
owners_overlay() {
	overlays unshare -Urm || return
	library owned && on nosuid -t ramfs -o nosuid none && overlaid nosuid
}

owners_overlay_fuse() {
	overlays unshare -Urm || return
	library owned && hanging owned && overlaid mnt file
}

# Where files have other devices than their mount has, the mount tells.
owners_device() {
	overlays || return
	library owned && on honoured -t ramfs none && mkdir -p bottom over also &&
		mount -t overlay -o lowerdir=honoured:bottom none over || return 1
	[ "$(stat -c %d over)" != "$(stat -c %d over/owned)" ] &&
		mount --bind over also && mount -o remount,bind,nosuid also &&
		doubted over/owned - && doubted also/owned -
}

# With other privileges than root's, the same goes for the user's own files.
owners_user() {
	library owned && on nosuid -t ramfs -o nosuid none || return 1
	export -f doubted mapped soon ends fail
	# shellcheck disable=SC2016	# for the inner shell
	sframe=$sframe unshare -U --map-user=1000 bash -c '
		[ "$(stat -c %u nosuid/owned)" = 1000 ] && doubted nosuid/owned'
}

# build_ids: a library with which all processes but this one's are those of a user, IDS, or those
# of whom the file ids.PID names, by four numbers, and by four behind a / for groups, if these are
# others; capabilities may follow, behind another /; "looked" has a line for each look at mappings,
# and "asked" for each question after ids or namespaces
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

# maps FILE SENTENCE...: a session for all, of a command that maps files until there is a sentence
# for each; with UNMAP, while nobody looks
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

# has_section FILE DEVICE: the device has one for this file
has_section() {
	grep "$(readelf -n "$1" | sed -n 's/.*Build ID: //p')" "$2"
}

# What a command of root's has mapped that others may write is for those who have mapped it.
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

# Who has it mapped no more may have become somebody else.
owners_command_gone() {
	library theirs && chmod o+w theirs &&
		UNMAP=yes maps "$PWD/theirs" "belongs to somebody else" && ! ls device.*
}

# Nor does it take the place of what is to be believed, be that of the same build-id.
owners_command_same_id() {
	build_ids && library theirs && cp theirs ours && chmod o+w theirs &&
		IDS=12345 LD_PRELOAD=$PWD/ids.so \
		maps "$PWD/theirs" converted "$PWD/ours" converted || return 1
	has_section theirs device.12345.12345 && has_section ours device
}

# refused ID STEP...: these steps, behind one of "ours", for which the cache has a section that the
# kernel refused then
refused() {
	local id=$1 name=${1:0:2}/${1:2}
	shift
	printf %s "$id" > refuse && SFRAME_REFUSE=$PWD/refuse steps "put saved $name" "map ours" \
		"wait /ours: has a section that the kernel does not take" "remove refuse" "$@"
}

# What is not kept is not waited for at the end, and nothing was made of it.
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

# What is refused of the cache makes nobody's file one that is for all.
owners_refused() {
	local id
	build_ids && library theirs && cp theirs ours && chmod o+w theirs || return 1
	id=$(readelf -n ours | sed -n 's/.*Build ID: //p')
	steps "map ours" "section ours device" && cp ".debug/.sframe/2/${id:0:2}/${id:2}" saved &&
		refused "$id" "be 12345 12345 12345 12345" "map theirs" \
		"section theirs device.12345.12345" && ! has_section theirs device
}

# steps STEP...: a session for all, of a command that does this: "map FILE"; "lose", so that the
# session sees nothing of what is mapped until "go", and looks then; "be IDS", with build_ids; wait
# for "wait SENTENCE" or "section FILE DEVICE"; "remove FILE"; "put FILE NAME", a copy of it into
# the cache; "count FILE", how often the session has looked at mappings by now; "forget FILE", to
# count from now on; "unshare", to be in a user namespace of its own; or "fork", and all else is
# done by a child
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
	        # What was lost is told with what is mapped next.
	        map("/bin/true").close()
	        time.sleep(0.1)

	server = int(subprocess.check_output(["pgrep", "-P", str(os.getppid()), "-x", "sframe"]))
	# Of one CPU there is one buffer.
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

# Who has a file mapped, and is of several users, as su is for a while, has it refused to nobody.
owners_unclaimed() {
	build_ids && library theirs && chmod o+w theirs || return 1
	steps "be 1 0 1 1" lose "map theirs" go "wait /theirs: belongs to somebody else" \
		"be 12345 12345 12345 12345" "map theirs" "section theirs device.12345.12345" &&
		grep 'belongs to somebody else, and nobody known has it mapped' err &&
		! grep 'through .*/theirs' err
}

# In a user namespace, the kernel uses sections for who has made that, and for nobody else there.
owners_inside() {
	unshare -Ur true || skipped "no user namespace in this one" || return
	build_ids && build_maker && library theirs && chmod o+w theirs || return 1
	LD_PRELOAD=$PWD/maker.so steps unshare "be 100001 100001 100001 100001" "map theirs" \
		"wait /theirs: belongs to somebody else, and nobody known has it mapped" \
		"be 12345 12345 12345 12345" "map theirs" "section theirs device.12345.12345" &&
		[ ! -e device.100001.100001 ]
}

# Nor does it for tasks that may do more than who opens the device for their user.
owners_capable() {
	build_ids && library theirs && chmod o+w theirs || return 1
	steps "be 1 1 1 1/1 1 1 1/0000000000000400" "map theirs" \
		"wait /theirs: belongs to somebody else, and nobody known has it mapped" \
		"be 1 1 1 1/1 1 1 1/0000000000000000" "map theirs" "section theirs device.1.1"
}

# Each user has a section of a file, be it that no event has told of it.
owners_each() {
	build_ids && library theirs && chmod o+w theirs || return 1
	steps "be 12345 12345 12345 12345" lose "map theirs" go \
		"section theirs device.12345.12345" \
		fork "be 23456 23456 23456 23456" lose "map theirs" go \
		"section theirs device.23456.23456" && ! grep 'through .*/theirs' err
}

# What is known for a user is known by another name as well.
owners_names() {
	build_ids && library theirs && library ours && library last && chmod o+w theirs &&
		ln -f theirs alias || return 1
	steps "be 12345 12345 12345 12345" "map theirs" "section theirs device.12345.12345" \
		"map alias" "map ours" "section ours device" "count before" \
		"map alias" "map alias" "map last" "section last device" "count after" &&
		[ -s before ] && cmp before after
}

# Of what is known, be it told by events or not, nobody asks whose it is each time.
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

# A file that nobody had is not listed if others of the same build-id were somebody's.
owners_covered() {
	build_ids && library theirs && chmod o+w theirs && cp -p theirs others || return 1
	steps "be 1 0 1 1" "map others" "wait /others: belongs to somebody else" \
		"be 12345 12345 12345 12345" "map theirs" "section theirs device.12345.12345" &&
		! grep 'through .*/\(theirs\|others\)' err
}

# There are so many users who have sections of their own, and one of them has not all places by
# groups. For others nothing is converted.
owners_many() {
	local nr step=() too_many="is for one user alone, and there are too many users"
	build_ids && library theirs && chmod o+w theirs || return 1
	for nr in {101..105}; do
		step+=("be 1 1 1 1/$nr $nr $nr $nr" "map theirs")
		[ "$nr" = 105 ] || step+=("section theirs device.1.$nr")
	done
	step+=("wait /theirs: $too_many")
	for nr in {2..5}; do
		step+=("be $nr $nr $nr $nr" "map theirs" "section theirs device.$nr.$nr")
	done
	step+=("be 6 6 6 6" "map theirs" "map theirs")
	library last && steps "${step[@]}" "map last" "section last device" || return 1
	[ "$(grep -c '/theirs: converted' err)" = 8 ] && [ ! -e device.1.105 ] &&
		[ ! -e device.6.6 ] && [ "$(grep -c "through .*/theirs: it $too_many" err)" = 2 ]
}

# What is missing for a user at first, as too many files are open, is there once they are not.
owners_scarce() {
	build_ids && library theirs && chmod o+w theirs && : > scarce || return 1
	SFRAME_SCARCE=$PWD/scarce steps "be 1 1 1 1" "map theirs" \
		"wait /theirs: is for one user alone, who can have none: Too many open files" \
		"remove scarce" "section theirs device.1.1" && ! grep 'through .*/theirs' err
}

# A file of root's that a group may write is that group's.
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

# So is one that an access control list lets others write, or might. ACL is the error when somebody
# asks for one, or 0.
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
	# There is one; EIO, ENODATA, EOPNOTSUPP.
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

# kept_alone FILE: a session without privileges keeps what is made of it, and the next one uses
# that; but one of the same user for all neither uses it nor makes it again, be the cache a copy
# that has lost modes and attributes
kept_alone() {
	local id nr status
	rm -rf .debug device
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
	[ $status = 0 ] && grep "$1: converted" err1 && ! grep "$1: converted" err2 || return 1
	id=$(readelf -n "$1" | sed -n 's/.*Build ID: //p')
	grep "$id" device1 && grep "$id" device2 || fail "it is not kept" || return 1
	! grep "$id" device || fail "it is used for all" || return 1
	grep "through .*/$1: it is on a file system that may make up owners" err
}

# What such a user may believe alone is not believed later where it is for all.
owners_later() {
	library owned && on nosuid -t ramfs -o nosuid none || return 1
	export -f kept_alone mapped soon ends fail
	sframe=$sframe unshare -U --map-user=1000 bash -c 'kept_alone nosuid/owned'
}

# Nor where a server says so.
owners_fuse() {
	library owned && hanging owned && doubted mnt/file
}
