# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# Messages, as session.sh tests them: each reason why sections are not used or not kept is said
# once. To be sourced there.
# shellcheck disable=SC2154	# session.sh sets it

# once REGEX: exactly one line matches
once() {
	[ "$(grep -c "^sframe: .*$1" err)" = 1 ] || fail "not once: $1"
}

# kernel.unwind_user_sframe is 0: the kernel uses no section.
switched_off() {
	SFRAME_OFF=yes ends 0 "" true && once 'kernel.unwind_user_sframe is 0' && ends 0 "" true &&
		! grep unwind_user_sframe err
}

# build_maker: a library that reports another user as the creator of a user namespace
build_maker() {
	cat > maker.c <<-'END_MAKER'
	#include <linux/nsfs.h>
	#include <stdarg.h>
	#include <sys/syscall.h>
	#include <unistd.h>

	int ioctl(int fd, unsigned long request, ...)
	{
		va_list args;
		void *arg;

		va_start(args, request);
		arg = va_arg(args, void *);
		va_end(args);
		if (request != NS_GET_OWNER_UID)
			return syscall(SYS_ioctl, fd, request, arg);
		*(uid_t *)arg = 12345;
		return 0;
	}
	END_MAKER
	gcc -O2 -shared -fPIC -o maker.so maker.c
}

# A task of another user namespace belongs only to the user who created that namespace, or one
# around it, and has the same id.
# shellcheck disable=SC2016	# for the inner shell
other_namespace() {
	local inside=() depth
	unshare -Ur true || skipped "no user namespace in this one" || return
	build_maker && library seen || return 1
	for depth in 1 2; do
		inside+=(unshare -Ur)
		LD_PRELOAD=$PWD/maker.so ends 0 "" "${inside[@]}" sh -c \
			'until grep -q "user namespace" err; do sleep 0.1; done
			cat /dev/null' && once 'is in another user namespace' || return 1
		rm -rf .debug
		ends 0 "" -v "${inside[@]}" sh -c 'LD_PRELOAD=$PWD/seen sh -c "
			until grep -q /seen:.converted err; do sleep 0.1; done"' &&
			! grep 'user namespace' err || return 1
	done
	ends 0 "" sh -c 'true; cat /dev/null' && ! grep 'user namespace' err && build_ids &&
		IDS=12345 LD_PRELOAD=$PWD/ids.so ends 0 "" unshare -Ur sh -c \
			'until grep -q "user namespace" err; do sleep 0.1; done' &&
		once 'is in another user namespace'
}

# A cache that exists, but takes no sections.
cache_takes_none() {
	local nr
	rm -rf .debug
	mkdir -p .debug/.sframe/2 || return 1
	for nr in {0..255}; do
		: > ".debug/.sframe/2/$(printf '%02x' "$nr")" || return 1
	done
	ends 0 "" -v true && grep ': converted' err &&
		once 'some sections are not put into the cache: Not a directory' || return 1
	rm -rf .debug
	ends 0 "" -v true && ! grep 'the cache' err
}

# A cache on a disk that is full: sections are used all the same, no half file is left, and what had
# no room is kept when there is some.
cache_full() {
	local status
	rm -rf .debug
	mkdir .debug && mount -t tmpfs -o size=32k,mode=700 none .debug || return 1
	: > device
	library small && mapped small && ends 0 "" -v -p "$holder" true &&
		grep '/small: converted' err && grep '/libc[^ ]*: converted' err &&
		! grep 'no stacks through .*/libc' err &&
		once 'some sections are not put into the cache: No space left on device' &&
		[ "$(find .debug -type f | wc -l)" -lt "$(wc -l < device)" ] &&
		! find .debug -name '*.*' -type f | grep . &&
		mount -o remount,size=100m .debug && ends 0 "" -v -p "$holder" true &&
		grep '/libc[^ ]*: converted' err && ! grep 'the cache' err &&
		ends 0 "" -v -p "$holder" true && ! grep ': converted' err
	status=$?
	kill "$holder"
	find .debug -type f
	umount .debug
	return $status
}

# A cache that others could write to.
cache_of_others() {
	rm -rf .debug
	mkdir .debug && chmod 777 .debug && ends 0 "" true && [ ! -e .debug/.sframe ] || return 1
	rm -rf .debug
	once "nothing is kept for the next time: .*: other users may write to it" || return 1
	ends 0 "" true && find .debug/.sframe/2 -type f -delete && chmod 777 .debug/.sframe/2/* &&
		ends 0 "" true || return 1
	once "some sections are not put into the cache: other users may write to it"
}

# With a process, the files of the command are of no interest.
command_alone() {
	rm -rf .debug
	library lib && echo 'int main(void) { return 0; }' > command.c &&
		gcc -O2 -Wl,--build-id command.c -o alone && mapped lib || return 1
	ends 0 "" -v -p "$holder" ./alone
	kill "$holder"
	grep '/lib: converted' err && ! grep '/alone' err && ends 0 "" -v ./alone &&
		grep '/alone: converted' err
}

# A file that exists, but that this user may not read.
unreadable() {
	library unreadable && rm -rf .debug || return 1
	export -f mapped soon ends fail
	# shellcheck disable=SC2016	# for the inner shell
	sframe=$sframe unshare -U --map-user=1000 bash -c '
		mapped unreadable && chmod 0 unreadable || exit 1
		ends 0 "" -v -p "$holder" true
		status=$?
		kill "$holder"
		[ $status = 0 ]' &&
		grep 'through .*/unreadable: it cannot be opened: Permission denied' err &&
		! grep 'unreadable: it is not there' err
}

# What the kernel did not use is said, with its reason.
unused() {
	local name status
	library always && library once && library never && mapped always once never || return 1
	for name in "always ok" "once ok,no-memory" "never too-large"; do
		printf 'sframe:\t%s %s /file\n' "$(readelf -n "${name% *}" |
			sed -n 's/.*Build ID: //p')" "${name#* }"
	done > info
	SFRAME_INFO=$PWD/info ends 0 "" -p "$holder" true
	status=$?
	kill "$holder"
	[ $status = 0 ] && ! grep /always err &&
		grep '/once may be incomplete: it .* not use in some stacks: there was no' err &&
		grep 'no stacks through .*/never: it .* did not use: it is too large' err
}

# Code that a section cannot describe is said when the section is made, and also later, even if
# nobody knew that the file is needed. The C library is not listed for that.
lossy() {
	local when
	cat > code.c <<-'END_LOSSY'
	__asm__(".text\n.globl lossy\n.type lossy, @function\nlossy:\n.cfi_startproc\nnop\n"
		".cfi_escape 0x0f, 5, 0x77, 8, 0x76, 0, 0x22\n.skip 1999, 0x90\nret\n"
		".cfi_endproc\n.size lossy, . - lossy\n");
	END_LOSSY
	rm -rf .debug && gcc -shared -o lossy code.c && mapped lossy || return 1
	for when in now later; do
		ends 0 "" -v -p "$holder" true && cp err "err-$when" || return 1
	done
	kill "$holder"
	ends 0 "" -v python3 -c 'import mmap, os
file = os.open("lossy", os.O_RDONLY)
code = mmap.mmap(file, 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)
' && cp err err-mapped || return 1
	grep '/lossy: converted' err-now &&
		! grep '/lossy: converted' err-later err-mapped || return 1
	for when in now later mapped; do
		[ "$(grep -c 'incomplete stacks through .*/lossy: it has 2000 bytes of code' \
			"err-$when")" = 1 ] && ! grep 'incomplete .*/libc' "err-$when" || return 1
		python3 -c 'import os; os.setxattr("lossy", "user.sframe.test", b"")' ||
			skipped "no attributes here" || return
	done
}

# fill_cache: sections under many names; the first 100 were last used long ago
fill_cache() {
	local from nr
	rm -rf .debug
	ends 0 "" true && from=$(find .debug -type f | head -n 1) && [ -n "$from" ] || return 1
	for nr in {100..299}; do
		mkdir -p .debug/.sframe/2/f0 && cp "$from" ".debug/.sframe/2/f0/0$nr" || return 1
	done
	touch -d '1 month ago' .debug/.sframe/2/f0/01*
}

# A cache with more sections than it keeps loses those that were used longest ago.
full_cache() {
	local nr
	rm -f device && fill_cache || return 1
	for nr in {300..599}; do
		cp .debug/.sframe/2/f0/0100 ".debug/.sframe/2/f0/0$nr" || return 1
	done
	touch -d '2 months ago' .debug/.sframe/2/f0/03*
	ends 0 "" true && [ ! -e .debug/.sframe/2/f0/0300 ] || return 1
	nr=$(find .debug/.sframe -type f | wc -l)
	[ "$nr" = 350 ] || fail "$nr are kept" || return 1
	[ -e .debug/.sframe/2/f0/0400 ] && [ -e .debug/.sframe/2/f0/0200 ] || return 1
	fill_recent && mkdir .debug/.sframe/2/f2 || return 1
	ends 0 "" true && nr=$(find .debug/.sframe/2/f1 -type f | wc -l)
	[ "$nr" = 450 ] || fail "$nr are kept of those used lately" || return 1
	for nr in {2000..2199}; do
		cp -l ".debug/.sframe/2/f1/$nr" ".debug/.sframe/2/f2/$nr" || return 1
	done
	ends 0 "" true && nr=$(find .debug/.sframe -type f | wc -l)
	[ "$nr" = 900 ] || fail "$nr are kept of too many" || return 1
	rm -rf .debug/.sframe/2/f2
	touch -d '73 hours ago' .debug/.sframe/2/f1/20*
	ends 0 "" true && [ ! -e .debug/.sframe/2/f1/2000 ] && [ -e .debug/.sframe/2/f1/2449 ]
}

# fill_recent: more sections than the cache keeps. They are 50 hours old, and so may have been used
# 26 hours ago.
fill_recent() {
	local nr
	mkdir -p .debug/.sframe/2/f1
	for nr in {2000..2449}; do
		cp .debug/.sframe/2/f0/0200 ".debug/.sframe/2/f1/$nr" || return 1
	done
	touch -d '50 hours ago' .debug/.sframe/2/f1/*
}

# What the session has to say does not wait for the cache.
hanging_cache() {
	cat > unlink.c <<-'END_UNLINK'
	#include <unistd.h>

	int unlinkat(int dir, const char *name, int flags)
	{
		(void)dir, (void)name, (void)flags;
		for (;;)
			pause();
	}
	END_UNLINK
	gcc -O2 -shared -fPIC -o unlink.so unlink.c && rm -f device && fill_cache || return 1
	fill_recent && touch -d '1 month ago' .debug/.sframe/2/f1/* || return 1
	rm -rf .debug/.sframe/2/f0
	LD_PRELOAD=$PWD/unlink.so ends 0 "" true && ! grep 'ended too early' err
}

# Of many cached sections, the session hands in those that were used last. A section that is used
# again becomes one of them.
many_cached() {
	local id old nr
	library many && rm -f device && fill_cache && mapped many || return 1
	ends 0 "" true && [ "$(grep -c '^f002' device)" -ge 40 ] && ! grep '^f001' device ||
		fail "not those that were of use last" || return 1
	rm device && SFRAME_MAX=160 ends 0 "" true && nr=$(grep -c '^f002' device) &&
		[ "$nr" -le 10 ] || fail "more than a share of what the user may have" || return 1
	ends 0 "" -p "$holder" true || return 1
	id=$(readelf -n many | sed -n 's/.*Build ID: //p')
	old=.debug/.sframe/2/${id:0:2}/${id:2}
	touch -d '1 month ago' "$old" && ends 0 "" -p "$holder" true || return 1
	kill "$holder"
	find "$old" -mtime -1 | grep .
}
