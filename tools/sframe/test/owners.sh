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
