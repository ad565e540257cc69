# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# Processes that make sections for other users, with files that take too long or too much. To be
# sourced by session.sh, after owners.sh, which has the helpers.
# shellcheck disable=SC2154	# set by session.sh

# of_user COMMAND [ARGUMENT...]: a session for processes that run, whose command this is; then end
# the process of the last call of users, and the one of the user "ours"
of_user() {
	local status theirs=$holder
	mapped ours || return 1
	watches -a "$@"
	status=$?
	kill "$theirs" "$holder"
	return $status
}

# It takes few files at once: the rest come when there is room again.
# shellcheck disable=SC2016	# for the inner shell
deputy_full() {
	local nr names=()
	build_ids && build_busy && library ours || return 1
	for nr in {1..16}; do
		library "some$nr" && names+=("some$nr") || return 1
	done
	users "${names[@]}" || return 1
	of_user sh -c 'for i in $(seq 600); do
			[ "$(grep -c "/some[0-9]*: converted" err)" != 16 ] || break
			sleep 0.1
		done' || return 1
	[ "$(wc -l < device.12345.12345)" -ge 16 ] && ! grep 'through .*/some' err
}

# A deputy with few descriptors reads no more than it has room for. A conversion hangs: of the first
# file or of the last, as mappings may be listed in any order, until two seconds after the command
# has begun. The deputy learns all the same when that was: all files are late, and those that it was
# told of before, read or not, by so much.
# shellcheck disable=SC2016	# for the inner shell
deputy_crowded() {
	local nr names=() status taken late=': it had no section for its first' long
	rm -f go
	build_ids && build_busy && library ours && library held1 && library held2 || return 1
	for nr in {1..30}; do
		library "some$nr" && names+=("some$nr") || return 1
	done
	users held1 "${names[@]}" held2 || return 1
	FEW_FILES=50 of_user sh -c "$DEPUTY"'
		ls -l "/proc/$deputy/fd" > taken
		sleep 2
		touch go
		for i in $(seq 600); do
			[ "$(grep -cE "/(held|some)[0-9]*: converted" err)" != 32 ] || break
			sleep 0.1
		done'
	status=$?
	taken=$(grep -cE '/(held|some)[0-9]*$' taken)
	long=$(grep -cE "^sframe: /.*/(held|some)[0-9]*$late ([2-9]|[0-9]{2,})[.]" err)
	late=$(grep -cE "^sframe: /.*/(held|some)[0-9]*$late" err)
	echo "# $taken of 32 were taken, $late were late, $long by two seconds"
	[ $status = 0 ] && [ "$taken" -gt 0 ] && [ "$taken" -lt 28 ] && [ "$late" = 32 ] &&
		[ "$long" -gt "$taken" ] &&
		[ "$(wc -l < device.12345.12345)" -ge 32 ]
}

# Names may be as long as a user likes: what is said of them has a limit.
deputy_chatty() {
	local nr long said
	long=$(printf '%0240d/' {1..8})
	library none && gcc -O2 -shared -fPIC -Wl,--build-id=none -o none library.c &&
		mkdir -p "$long" || return 1
	for nr in {1..30}; do
		cp none "$long$nr" || return 1
	done
	limited 'user 12345 alone have no section, as the process .* says too much' "$long"* ||
		return 1
	said=$(grep -c '^sframe: for user 12345: .* has no build-id' err)
	echo "# said of $said of 30"
	[ "$said" -gt 0 ] && [ "$said" -lt 30 ]
}

# Counts the files of a name that the process for another user has open, in the inner shell.
# shellcheck disable=SC2016	# for the inner shell
OPENED='opened() { ls -l "/proc/$deputy/fd" | grep -cE "/$1(_again)?$"; }'

# Of two files of a build-id, the second waits for the section of the first. When the files on
# either side of them are converted, the process has looked at both.
# shellcheck disable=SC2016	# for the inner shell
deputy_same_id() {
	build_ids && build_busy && library ours && library busy && cp busy busy_again &&
		library some1 && library some2 && users some1 busy busy_again some2 || return 1
	of_user sh -c "$DEPUTY; $OPENED"'
		for i in $(seq 600); do
			[ "$(grep -c "/some[12]: converted" err) $(opened busy)" != "2 0" ] || break
			sleep 0.1
		done' || return 1
	[ "$(grep -c '/busy\(_again\)*: converted' err)" = 1 ] && ! grep 'through .*/busy' err
}

# But not for ever.
# shellcheck disable=SC2016	# for the inner shell
deputy_same_id_spins() {
	build_ids && build_busy && library ours && library spin && cp spin spin_again &&
		users spin spin_again || return 1
	of_user sh -c "$DEPUTY; $OPENED"'
		both=
		for i in $(seq 600); do
			case $(opened spin) in
			2) both=1 ;;
			1) [ -z "$both" ] || break ;;
			esac
			sleep 0.1
		done' || return 1
	grep 'through .*/spin\(_again\)*: it waits for too long for another' err &&
		grep 'through .*/spin\(_again\)*: it was not converted in time' err
}

# deputy_hangs SENTENCE COMMAND...: a file that does not answer when the build-id is read is listed
# with the sentence, and another file of the user has a section
deputy_hangs() {
	local sentence=$1 status
	shift
	build_ids && build_busy && library hangs && library ours && library theirs &&
		hanging hangs 0 4 && chmod o+w theirs && mapped mnt/file theirs &&
		echo "12345 12345 12345 12345" > "ids.$holder" || return 1
	of_user "$@"
	status=$?
	kill "$server"
	[ $status = 0 ] && has_section theirs device.12345.12345 && has_section ours device &&
		grep "through .*/mnt/file: it $sentence, for user 12345" err
}
