#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# In the guest: make the recordings of make interop, see interop.sh.
#
#   guest-interop.sh ROOT		the directory with Debian sid's perf
#
# Results go to /out. Upstream's perf runs in its own root, where only /tmp and
# /root are writable.
set -u

root=$1

die() { echo "interop: $*" >&2; exit 1; }
sid() { chroot "$root" env HOME=/root PATH=/usr/bin:/usr/sbin:/bin:/sbin "$@"; }

# must WHAT COMMAND...: run it, and print its output only when it fails
must() {
	local what=$1
	shift
	"$@" > /tmp/must.log 2>&1 < /dev/null || { cat /tmp/must.log; die "$what failed"; }
	echo "interop: $what"
}

# to FILE COMMAND...: write its output to a file
to() {
	local file=$1
	shift
	"$@" > "$file" 2> /tmp/to.log < /dev/null || { cat /tmp/to.log; die "$* failed"; }
}

for dir in proc sys dev; do
	mount --rbind "/$dir" "$root/$dir" || die "cannot set up $root/$dir"
done
for dir in tmp root; do
	mount -t tmpfs none "$root/$dir" || die "cannot set up $root/$dir"
done

echo "interop: sid's perf: $(sid perf version)"
echo "interop: this tree's perf: $(perf version)"
bench=(perf bench sched messaging -g 1 -l 200)
must "sid's perf records with --call-graph fp,defer" \
	sid perf record -F 1000 -e cpu-clock --call-graph fp,defer \
	-o /tmp/sid.data -- "${bench[@]}"
must "this tree's perf records with --call-graph deferred" \
	perf record -F 1000 -e cpu-clock --call-graph deferred \
	-o "$root/tmp/ours.data" -- "${bench[@]}"
cp "$root"/tmp/*.data /out/ || die "no room for the recordings"

report=(--stdio --no-children --comm sched-messaging --sort comm -g "flat,0.5,1,callee")
for file in sid ours; do
	to /out/sid-reads-$file sid perf script -i /tmp/$file.data -F tid,time,ip
	to /out/sid-reports-$file sid perf report -i /tmp/$file.data "${report[@]}"
	to /out/ours-reads-$file perf script -i "$root/tmp/$file.data" -F tid,time,ip
	to /out/ours-reports-$file perf report --symfs "$root" \
		--kallsyms /proc/kallsyms -i "$root/tmp/$file.data" "${report[@]}"
done

echo
echo "What upstream's perf recorded, most frequent chain, reported by itself:"
grep -v '^#' /out/sid-reports-sid | sed 's/ *$//; /^$/d'
echo "and by this tree's perf:"
grep -v '^#' /out/ours-reports-sid | sed 's/ *$//; /^$/d'
