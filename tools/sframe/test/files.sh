# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# Tests of files: hostile ones, those in the cache, and those that others change meanwhile. To be
# sourced by test.sh, which has the helpers.
# shellcheck disable=SC2154	# set by test.sh

# Files whose headers ask for too much cost no time, neither before nor in the conversion.
hostile_files() {
	local wrong=0 name sentence known
	rm -rf hostile && mkdir hostile && cd hostile && "$here/hostile.py" || return 1
	while IFS='|' read -r name known sentence; do
		(ulimit -t 5 && "$bin/cache" id "$name" > said)
		[ "$(cat said)" = "$name: ${known:-$sentence}" ] ||
			{ cat said; fail "id of $name"; wrong=1; }
		# The kernel takes at least one function of these files.
		case $name in functions*|rows|parts) "$bin/decoder" -k "$name" || wrong=1 ;; esac
		(ulimit -t 5 && refuse 1 "$name: $sentence\$" convert -o out2 "$name") || wrong=1
	done <<-'END'
		notes|no build-id|has no section headers
		large-note|abababababababab|has no section headers
		cut-note|abababababababab|has no section headers
		far-note|no build-id|has no section headers
		far-sections|no build-id|is truncated: it lacks section headers
		names|no build-id|has no .eh_frame
		segments||has more than 8 executable segments
		program-headers||has more than 256 program headers
		functions-few|no build-id sframe|has no section headers
		functions|no build-id|has no section headers
		rows|no build-id|has no section headers
		parts|no build-id|has no section headers
		sections||has too many sections
		odd-sections||has too many sections
	END
	cd ..
	rm -rf hostile
	return $wrong
}

# needs FILE WORD...: it needs files with these in their names, and no others
needs() {
	local file=$1
	shift
	(ulimit -t 5 && "$bin/cache" needed "./$file" > said) && [ "$(sed 's,.*/,,' said)" = \
		"$(printf '%s\n' "$file" "$@")" ] || { cat said; fail "what $file needs"; }
}

# Likewise for the files that a program needs, which are looked for before it starts. The C library
# needs the loader. The loader comes first if it is the interpreter of the program.
hostile_needs() {
	local wrong=0 loader libc
	loader=$(basename "$(realpath /lib64/ld-linux-x86-64.so.2)")
	libc=$(basename "$(realpath "$libs/libc.so.6")")
	rm -rf hostile && mkdir hostile && cd hostile && "$here/hostile.py" || return 1
	needs needs-little "$loader" "$libc" || wrong=1
	needs needs-many "$loader" || wrong=1
	needs needs-strings "$loader" || wrong=1
	needs needs-interpreter "$libc" "$loader" || wrong=1
	needs needs-more "$loader" || wrong=1
	cd ..
	rm -rf hostile
	return $wrong
}

# own NAME OFFSET BYTES: with these bytes in its own section, a file counts as one without
own() {
	local at
	cp installed "$1" && at=$(section_at "$1" .sframe) &&
		patch "$1" $((at + $2)) "$3" || return 1
	! has_section "$1" || fail "$1: the kernel would not take it"
}

# has_section FILE: does it have a section that the kernel can use?
has_section() {
	"$bin/cache" id "$1" > said && cat said && grep -q ' sframe$' said
}

# section_at FILE NAME: the offset of the section in the file
section_at() {
	readelf -SW "$1" | sed 's/^ *\[ *[0-9]*\]//' | awk -v n="$2" '$1 == n { print "0x" $4 }'
}

# spoiled HOW...: with this damage, the file counts as one without a section, and the kernel's
# decoder refuses the section, too
spoiled() {
	"$here/spoil.py" installed spoiled "$@" || return 1
	! has_section spoiled && ! "$bin/decoder" -k spoiled || fail "spoiled: $*"
}

# harmless HOW...: the kernel still takes the file's own section, and sframe can read it
harmless() {
	"$here/spoil.py" installed harmless "$@" && has_section harmless &&
		"$bin/decoder" -k harmless && "$sframe" dump harmless > dumped &&
		"$sframe" check harmless > out || fail "harmless: $*"
}

# lacks HOW...: with this damage, the section is past the end of the file
lacks() {
	spoiled "$@" && refuse 1 'spoiled: is truncated: it lacks .sframe' dump spoiled &&
		refuse 1 'spoiled: is truncated: it lacks .sframe' check spoiled
}

# A file whose own section is damaged is converted; one with a single bad function is not.
damaged_own() {
	local wrong=0 at how
	program p && "$sframe" install -o installed p && has_section installed || return 1
	own magic 0 '\0' || wrong=1
	own version 2 '\11' || wrong=1
	own flags 3 '\200' || wrong=1
	own truncated 16 '\377\377\377' || wrong=1
	own empty 8 '\0\0\0\0' || wrong=1
	for how in size text offset limit order silent; do
		spoiled $how || wrong=1
	done
	at=$(section_at installed .sframe)
	# Only the first function is bad.
	cp installed flaw && patch flaw $((at + 28 + 8)) '\377\377\377\177' &&
		has_section flaw || wrong=1
	return $wrong
}

# sframe looks for the section where the kernel does: program headers come first.
headers_own() {
	local wrong=0
	program p && "$sframe" install -o installed p || return 1
	harmless shdr_offset || wrong=1
	harmless shdr_flags || wrong=1
	harmless phdr_size || wrong=1
	harmless no_phdr || wrong=1
	harmless empty_phdr || wrong=1
	harmless no_phdr shdr_size || wrong=1
	harmless nameless || wrong=1
	lacks phdr_offset || wrong=1
	"$here/spoil.py" installed odd odd_code && ! has_section odd &&
		refuse 1 'odd: has no executable segment' convert -o out2 odd || wrong=1
	lacks no_phdr shdr_offset || wrong=1
	spoiled no_phdr shdr_flags || wrong=1
	spoiled no_phdr many_shdrs || wrong=1
	return $wrong
}

# damaged_entry ENTRY COMMAND...: the command damages the only entry of a cache. Neither a search
# for the entry nor a walk through all entries takes it: both remove it, and it is made again
damaged_entry() {
	local entry=$1
	shift
	cp good "$entry" && "$@" "$entry" && mark "$entry" || return 1
	[ "$("$bin/cache" each store)" = 0 ] || fail "each: $*" || return 1
	[ ! -e "$entry" ] || fail "each leaves it: $*" || return 1
	cp good "$entry" && "$@" "$entry" && mark "$entry" || return 1
	[ "$("$bin/cache" find store p)" = none ] || fail "find: $*" || return 1
	[ ! -e "$entry" ] || fail "find leaves it: $*" || return 1
	"$bin/cache" save store p > name && cmp good "$entry"
}

zeroes() {
	dd if=/dev/zero of="$3" bs=1 seek="$1" count="$2" conv=notrunc 2> /dev/null
}

# A cached section that was not written completely is made again.
damaged_cache() {
	local entry size at wrong=0
	cp "$(realpath "$libs/libm.so.6")" p && rm -rf store &&
		mkdir store && "$bin/cache" save store p > name || return 1
	entry=store/.sframe/2/$(cat name)
	cp "$entry" good && size=$(stat -c %s good)
	[ "$(stat -c %a "$entry")" = 644 ] && [ "$("$bin/cache" find store p)" = "$size" ] &&
		[ "$("$bin/cache" each store)" = 1 ] || fail "a good one is not found" || return 1
	for ((at = 0; at < size; at += size / 7)); do
		damaged_entry "$entry" truncate -s $at || wrong=1
	done
	damaged_entry "$entry" truncate -s $((size - 1)) || wrong=1
	damaged_entry "$entry" truncate -s $((size + 1)) || wrong=1
	damaged_entry "$entry" truncate -s 1G || wrong=1
	for ((at = 4096; at < size; at += 4096)); do
		damaged_entry "$entry" zeroes $at 4096 || wrong=1
	done
	[ "$(find store -type f | wc -l)" = 1 ] || fail "more than the section is left" || wrong=1
	return $wrong
}

# A file that was written to after its build-id was read has no section: it could be kept under the
# build-id of what was there before.
written_later() {
	program p && rm -rf store && mkdir store || return 1
	! "$bin/cache" save store p written > said || fail "it is kept" || return 1
	[ "$(cat said)" = "p: was written to before it was converted" ] &&
		[ -z "$(find store -type f)" ] && "$bin/cache" save store p
}

# mark ENTRY [BOOT]: mark it as checked in the boot of this id, or in no known boot
mark() {
	python3 -c 'import os, sys
try:
    os.removexattr(sys.argv[1], "user.sframe.boot")
except OSError:
    pass
if sys.argv[2:]:
    os.setxattr(sys.argv[1], "user.sframe.boot", sys.argv[2].encode())' "$@"
}

# marked ENTRY: the id of the boot that it is marked with
marked() {
	python3 -c 'import os, sys
print(os.getxattr(sys.argv[1], "user.sframe.boot").decode())' "$1" 2> /dev/null || echo none
}

# A cached section is checked once in each boot, and marked with the boot's id: no clock tells when
# that was. A section checked in this boot is left to the kernel, unless its size differs.
once_a_boot() {
	local entry boot before=00000000-1111-2222-3333-444444444444
	boot=$(cat /proc/sys/kernel/random/boot_id)
	: > xattr && { mark xattr "$boot" || { skipped "files have no attributes here"; return; }; }
	program p && rm -rf store && mkdir store && "$bin/cache" save store p > name || return 1
	entry=store/.sframe/2/$(cat name)
	cp "$entry" good
	[ "$(marked "$entry")" = "$boot" ] || fail "a new one is read once more" || return 1
	mark "$entry" "$before" && [ "$("$bin/cache" each store read-only)" = 1 ] &&
		[ "$(marked "$entry")" = "$before" ] || fail "read-only marks it" || return 1
	mark "$entry" && touch -d 2001-01-01 "$entry" && [ "$("$bin/cache" each store)" = 1 ] &&
		[ "$(marked "$entry")" = "$boot" ] || fail "it is not marked" || return 1
	[ "$(stat -c %Y "$entry")" = "$(date -d 2001-01-01 +%s)" ] ||
		fail "it has another time" || return 1
	zeroes 64 64 "$entry"
	[ "$("$bin/cache" each store)" = 1 ] || fail "it is read twice" || return 1
	mark "$entry" "$before" && touch "$entry" && [ "$("$bin/cache" each store)" = 0 ] ||
		fail "the clock is believed" || return 1
	cp good "$entry" && zeroes 64 64 "$entry" && touch -d tomorrow "$entry" &&
		[ "$("$bin/cache" each store)" = 0 ] || fail "so is a time to come" || return 1
	cp good "$entry" && truncate -s -1 "$entry" && mark "$entry" "$boot" &&
		[ "$("$bin/cache" each store)" = 0 ] || fail "another size"
}

# A section that cannot be read now may be good: it is kept, and made again for this time. EBADMSG
# is the error of file systems for wrong checksums.
unreadable_cache() {
	local entry error
	cat > eio.c <<-'END'
		#include <errno.h>
		#include <stdlib.h>
		#include <sys/types.h>
		ssize_t pread(int fd, void *to, size_t size, off_t at)
		{
			errno = atoi(getenv("ERROR"));
			return -1;
		}
	END
	program p && gcc -O2 -shared -fPIC -o eio.so eio.c && rm -rf store && mkdir store &&
		"$bin/cache" save store p > name || return 1
	entry=store/.sframe/2/$(cat name)
	for error in 5 74; do
		[ "$(ERROR=$error LD_PRELOAD=$work/eio.so "$bin/cache" each store)" = 0 ] &&
			[ -e "$entry" ] && [ "$("$bin/cache" each store)" = 1 ] ||
			fail "error $error" || return 1
	done
}

# Sections of a cache on NFS come over the network: read only those that are needed. Leftovers of
# incomplete sections are removed, as elsewhere.
remote_cache() {
	local dir verb
	cat > nfs.c <<-'END'
		#include <sys/vfs.h>
		int fstatfs(int fd, struct statfs *fs)
		{
			*fs = (struct statfs) { .f_type = 0x6969 };
			return 0;
		}
	END
	program p && gcc -O2 -shared -fPIC -o nfs.so nfs.c && rm -rf store && mkdir store &&
		"$bin/cache" save store p > name && [ "$("$bin/cache" each store)" = 1 ] || return 1
	dir=$(dirname "store/.sframe/2/$(cat name)")
	: > "$dir/.tmp.new"
	touch -d '2 hours ago' "$dir/.tmp.old"
	[ "$(LD_PRELOAD=$work/nfs.so "$bin/cache" each store)" = 0 ] &&
		[ "$(LD_PRELOAD=$work/nfs.so "$bin/cache" find store p)" -gt 0 ] || return 1
	[ -e "$dir/.tmp.new" ] && [ ! -e "$dir/.tmp.old" ] || { ls -la "$dir"; return 1; }
	(cd "$dir" && touch -d '1 month ago' abcd{1000..3099}) || return 1
	LD_PRELOAD=$work/nfs.so "$bin/cache" prune store
	[ "$(find store -name 'abcd*' | wc -l)" = 2100 ] && "$bin/cache" prune store || return 1
	[ "$(find store -name 'abcd*' | wc -l)" = 1791 ] || { ls "$dir"; return 1; }
}

# CPU time runs out while the new file is written: it is complete, and no temporary file stays.
late_end() {
	cat > late.c <<-'END'
		#define _GNU_SOURCE
		#include <signal.h>
		#include <stdio.h>
		#include <sys/syscall.h>
		#include <unistd.h>

		int renameat2(int from_dir, const char *from, int to_dir, const char *to,
			      unsigned int flags)
		{
			raise(SIGXCPU);
			return syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
		}
	END
	program p && gcc -O2 -shared -fPIC -o late.so late.c || return 1
	rm -rf late && mkdir late &&
		LD_PRELOAD=$work/late.so "$sframe" install -o late/new p &&
		"$sframe" check late/new &&
		LD_PRELOAD=$work/late.so "$sframe" convert -o late/new.sf p || return 1
	[ "$(ls -A late)" = $'new\nnew.sf' ] || { ls -la late; return 1; }
}

# remote TYPE: does sframe take this file system for one with a server?
remote() {
	TYPE=$1 LD_PRELOAD=$work/type.so "$bin/cache" remote .
}

# A file system with a server may hang, or be slow. These are the numbers of FUSE, NFS, CIFS, 9P
# and others; ext4, XFS, tmpfs and overlayfs are local.
file_systems() {
	local type
	cat > type.c <<-'END'
		#include <stdlib.h>
		#include <sys/vfs.h>
		int fstatfs(int fd, struct statfs *fs)
		{
			*fs = (struct statfs) { .f_type = strtoul(getenv("TYPE"), NULL, 16) };
			return 0;
		}
	END
	gcc -O2 -shared -fPIC -o type.so type.c || return 1
	for type in 65735546 6969 517b fe534d42 ff534d42 5346414f 6b414653 73757245 01021997 \
		00c36400 7461636f 01161970 0bd00bd0 47504653 20030528 19830326 786f4256 \
		aad7aaea; do
		remote $type || fail "$type is local" || return 1
	done
	for type in ef53 58465342 9123683e 01021994 794c7630 f2f52010 73717368; do
		! remote $type || fail "$type is remote" || return 1
	done
}

# Without permission to add to the cache, sframe does not remove anything from it, either.
read_only_cache() {
	local entry
	program p && rm -rf store && mkdir store && "$bin/cache" save store p > name || return 1
	entry=store/.sframe/2/$(cat name)
	touch -d '2 hours ago' "$(dirname "$entry")/.tmp.old"
	truncate -s -1 "$entry"
	find store > before
	[ "$("$bin/cache" each store read-only)" = 0 ] &&
		[ "$("$bin/cache" find store p read-only)" = none ] &&
		find store | diff before - || return 1
	[ "$("$bin/cache" each store)" = 0 ] && [ "$(find store -type f)" = "" ]
}

# No incomplete file is left.
no_rest() {
	[ -z "$(find . -name 'p.*' -o -name '.sframe.*')" ] || { ls -la; fail "a file is left"; }
}

# meanwhile CALL COMMAND ARGUMENT...: run sframe, and COMMAND before CALL: the first read() or
# write() of a file, the first renameat2(), the second pread() of the start of a file, or the
# openat() that opens an incomplete file again; and $HOOK_back before the second renameat2()
meanwhile() {
	local call=$1 command=$2
	shift 2
	cat > hook.c <<-'END'
		#define _GNU_SOURCE
		#include <errno.h>
		#include <fcntl.h>
		#include <stdlib.h>
		#include <string.h>
		#include <sys/syscall.h>
		#include <unistd.h>
		static void hook(const char *call, int fd)
		{
			const char *command = getenv(call);
			unsetenv("LD_PRELOAD");
			if (fd <= 2 || !command)
				return;
			if (system(command))
				_exit(99);
			unsetenv(call);
		}
		ssize_t read(int fd, void *to, size_t size)
		{
			hook("HOOK_read", fd);
			return syscall(SYS_read, fd, to, size);
		}
		ssize_t write(int fd, const void *from, size_t size)
		{
			hook("HOOK_write", fd);
			return syscall(SYS_write, fd, from, size);
		}
		int renameat2(int at, const char *from, int to, const char *name,
			      unsigned int flags)
		{
			const char *has = getenv("FLAGS");
			static int calls;

			if (has && !strcmp(has, "without")) {
				errno = EINVAL;
				return -1;
			}
			hook(calls++ ? "HOOK_back" : "HOOK_renameat2", at);
			return syscall(SYS_renameat2, at, from, to, name, flags);
		}
		ssize_t pread(int fd, void *to, size_t size, off_t at)
		{
			static int starts;
			if (!at && starts++)
				hook("HOOK_pread", fd);
			return syscall(SYS_pread64, fd, to, size, at);
		}
		int openat(int at, const char *name, int flags, ...)
		{
			if (flags & O_PATH && !strncmp(name, ".sframe.", 8))
				hook("HOOK_openat", at);
			/* That of a new file is temp_create()'s. */
			return syscall(SYS_openat, at, name, flags, 0600);
		}
	END
	[ -e hook.so ] || gcc -O2 -shared -fPIC -o hook.so hook.c || return 1
	env "HOOK_$call=$command" LD_PRELOAD="$work/hook.so" "$sframe" "$@"
}

# refused_meanwhile CALL COMMAND WORDS [OPTION...]: install does not replace p, because of COMMAND
refused_meanwhile() {
	local call=$1 command=$2 words=$3
	shift 3
	if meanwhile "$call" "$command" install "$@" p 2> err; then
		fail "p is replaced after '$command'"
	else
		grep -q "^sframe: .*p: .*$words\$" err ||
			{ cat err; fail "no '$words' after '$command'"; }
	fi
}

# A change that keeps the size and the time of the file.
same_size="touch -r p time && printf x | dd of=p bs=1 seek=15 conv=notrunc 2> /dev/null &&
	touch -r time p"

# Changes of others to the file are kept, and no other file is replaced.
in_place_races() {
	local wrong=0
	program q && cp q other && chmod 755 other && chmod 4755 q || return 1
	cp -p q p && meanwhile write 'chmod 700 p' install p && clean p || return 1
	[ "$(stat -c %a p)" = 700 ] || fail "a mode is reverted" || wrong=1
	cp -p q p && ln p open && refused_meanwhile write 'echo x >> p' 'changed meanwhile' &&
		[ p -ef open ] || wrong=1
	cp -p q p && refused_meanwhile read 'echo x >> p' 'changed meanwhile' || wrong=1
	cp -p q p && refused_meanwhile read "$same_size" 'changed meanwhile' || wrong=1
	# A write that is not root's clears the set-user-ID bit.
	cp -p q p && refused_meanwhile read "$same_size; chmod u-s p" 'changed meanwhile' ||
		wrong=1
	cp -p q p && refused_meanwhile read 'echo x >> p' 'changed meanwhile' -o ./p || wrong=1
	rm -f p && cp -p q p && ln -f other open &&
		refused_meanwhile read 'mv open p' 'replaced meanwhile' && [ p -ef other ] ||
		wrong=1
	rm -f p && cp -p q p && mkdir -p dir1 && cp -p other dir1/p &&
		refused_meanwhile read 'rm p; ln -s dir1/p p' 'replaced meanwhile' || wrong=1
	cmp dir1/p other || fail "a link to another file is followed" || wrong=1
	# Between the last check and the rename.
	rm -f p && cp -p q p && ln -f other open &&
		refused_meanwhile renameat2 'mv open p' 'replaced meanwhile' && [ p -ef other ] ||
		wrong=1
	rm -f p && cp -p q p && refused_meanwhile renameat2 'rm p; mkdir p' 'replaced meanwhile' &&
		rmdir p || wrong=1
	# Changes before the rename back: each file is in its place, or a message tells its name.
	rm -f p && cp -p q p && ln -f other open && HOOK_back='rm p' \
		refused_meanwhile renameat2 'mv open p' 'replaced meanwhile' && [ p -ef other ] ||
		wrong=1
	no_rest || wrong=1
	rm -f p && cp -p q p && ln -f other open && HOOK_back='mv p ours; mkdir p' \
		refused_meanwhile renameat2 'mv open p' 'it is \.sframe\.[0-9a-f]* now' &&
		[ p -ef other ] && rmdir "$(grep -o '\.sframe\.[0-9a-f]*' err)" || wrong=1
	rm -f ours
	# A file system may not support the flags of renameat2().
	cp -p q p && FLAGS=without meanwhile write true install p && clean p || wrong=1
	no_rest && return $wrong
}

# A file that others put in the place of the new one, while that is written, stays theirs.
new_file_races() {
	local call wrong=0
	program q || return 1
	for call in openat write; do
		rm -f p && cp q p && refused_meanwhile $call 't=$(echo .sframe.*)
			mv $t ours; echo precious > $t' 'replaced meanwhile' || wrong=1
		cmp p q || fail "p is what others have, $call" || wrong=1
		echo precious | cmp - .sframe.* || fail "what others have is lost, $call" || wrong=1
		rm -f .sframe.* ours new
		if meanwhile $call 't=$(echo .sframe.*)
			mv $t ours; echo precious > $t' convert -o new p 2> err || [ -e new ]; then
			fail "a new file is what others have, $call" || wrong=1
		fi
		grep -q ': it was replaced meanwhile$' err || { cat err; wrong=1; }
		echo precious | cmp - .sframe.* || fail "theirs is lost, $call" || wrong=1
		rm -f .sframe.* ours new
	done
	return $wrong
}

# A file that others put in the place of the new one just before the rename is not taken for it.
late_file_races() {
	local wrong=0 swap='t=$(echo .sframe.*); mv $t ours; echo precious > $t'
	program q && cp q p || return 1
	refused_meanwhile renameat2 "$swap" 'it is \.sframe\.[0-9a-f]* now' || wrong=1
	cmp p q || fail "p is what others have" || wrong=1
	echo precious | cmp - .sframe.* || fail "what others have is lost" || wrong=1
	rm -f .sframe.* ours new
	if meanwhile renameat2 "$swap" convert -o new p 2> err; then
		fail "a new file is what others have" || wrong=1
	fi
	grep -q ': it was replaced meanwhile$' err || { cat err; wrong=1; }
	echo precious | cmp - new || fail "theirs is lost" || wrong=1
	rm -f ours new
	return $wrong
}

# A new file may get the inode number of a removed one: that alone does not make it ours.
number_race() {
	local number wrong=0
	echo > first && number=$(stat -c %i first) && rm first && echo > second || return 1
	[ "$(stat -c %i second)" = "$number" ] ||
		{ skipped "numbers of files are not used again at once"; return; }
	program q && cp q other && cp q p && ln -f other open || return 1
	HOOK_back='rm p; echo precious > p' \
		refused_meanwhile renameat2 'mv open p' 'it is \.sframe\.[0-9a-f]* now' &&
		[ p -ef other ] && echo precious | cmp - "$(grep -o '\.sframe\.[0-9a-f]*' err)" ||
		wrong=1
	rm -f .sframe.*
	return $wrong
}

# A file that others created meanwhile is kept, also on file systems without rename flags.
new_races() {
	local wrong=0 flags
	program p || return 1
	for flags in with without; do
		rm -f new
		if FLAGS=$flags meanwhile write 'echo x > new' convert -o new p 2> err; then
			fail "what was created meanwhile is replaced, $flags flags" || wrong=1
		fi
		echo x | cmp - new && grep -q ': it was created meanwhile$' err ||
			{ cat err; fail "no such sentence, $flags flags"; wrong=1; }
		rm new && FLAGS=$flags meanwhile write true convert -o new p &&
			"$sframe" check p new > out && no_rest || wrong=1
	done
	ln -sf no-such-file dangling &&
		refuse 1 'it is a link to a file that is not there' convert -o dangling p &&
		[ -L dangling ] || wrong=1
	rm -f dangling
	return $wrong
}

# owned FILE WANTED: it has this owner, group and mode
owned() {
	[ "$(stat -c '%u:%g %a' "$1")" = "$2" ] || { ls -ln "$1"; fail "$1 is not $2"; }
}

# A replaced file keeps its owner, group and mode, whoever replaces it.
owners() {
	local wrong=0
	program p && cp p q || return 1
	echo x > old && chown 12345:12346 old q && chmod 600 old && chmod 4750 q || return 1
	cp -p q q2
	"$sframe" convert -o old p && owned old '12345:12346 600' &&
		"$sframe" check p old > out || wrong=1
	"$sframe" install -o old p && owned old '12345:12346 600' && clean old || wrong=1
	meanwhile write 'chmod 640 old' convert -o old p && owned old '12345:12346 640' || wrong=1
	"$sframe" install -o q q && owned q '12345:12346 4750' && clean q || wrong=1
	"$sframe" install q2 && owned q2 '12345:12346 4750' && clean q2 || wrong=1
	return $wrong
}

# Write permission to a directory does not let a user take over the files there.
others_files() {
	local name wrong=0
	program p && cp "$sframe" sframe && rm -rf theirs && mkdir theirs &&
		cp p theirs/p && cp p theirs/q &&
		chown 12345 theirs theirs/p && chmod 755 . theirs theirs/* || return 1
	as_other() { setpriv --reuid 12345 --regid 0 --clear-groups ./sframe "$@" 2> err; }
	as_other install theirs/p && owned theirs/p '12345:0 755' || { cat err; wrong=1; }
	for name in '' '-o theirs/q'; do
		# shellcheck disable=SC2086	# words
		if as_other install $name theirs/q; then
			fail "a file of root is replaced" || wrong=1
		fi
		grep -q ': its owner and group cannot be kept$' err || { cat err; wrong=1; }
	done
	cmp p theirs/q && owned theirs/q '0:0 755' || wrong=1
	# New files get the directory's group, which the user is not in: chmod() drops set-group-ID.
	chgrp 12346 theirs && chmod 2755 theirs && cp p theirs/r &&
		chown 12345:12346 theirs/r && chmod 2755 theirs/r || return 1
	if as_other install theirs/r; then
		fail "a mode is lost" || wrong=1
	fi
	grep -q ': its mode cannot be kept$' err && owned theirs/r '12345:12346 2755' ||
		{ cat err; wrong=1; }
	no_rest && return $wrong
}

# changed_headers FILE: libelf reads other headers than those that were checked
changed_headers() {
	if meanwhile pread "cat $1 > p" convert -o out2 p 2> err; then
		fail "another file is converted: $1"
	else
		grep -q '^sframe: p: changes while it is read$' err || { cat err; fail "$1"; }
	fi
}

# Headers that others write after the check are not trusted.
headers_race() {
	local wrong=0
	program q && "$here/spoil.py" q phdrs many_phdrs &&
		"$here/spoil.py" q odd no_shdrs &&
		"$here/spoil.py" q sections many_sections || return 1
	cp q p && changed_headers phdrs || wrong=1
	cp odd p && changed_headers sections || wrong=1
	cp q p && meanwhile pread : convert -o p.sf p && rm p.sf || wrong=1
	return $wrong
}

# sframe may not write through a link that the shell may not write through.
others_links() {
	program p && rm -rf shared && mkdir -m 1777 shared && echo precious > precious || return 1
	ln -s "$work/precious" shared/link && chown -h 12345 shared/link || return 1
	if (: >> shared/link) 2> err; then
		"$sframe" convert -o shared/link p && [ -L shared/link ] &&
			"$sframe" dump precious > out
	else
		refuse 1 'cannot be written: Permission denied' convert -o shared/link p &&
			[ "$(cat precious)" = precious ]
	fi
}
