#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Test the scripts of the repository, as TAP: the choice of tests, the tables of benchmarks, the
# assembly of the series, and what make, check.sh and guest-check.sh do with builds, programs
# and tests. parts-selftest.sh tests how a check counts.
# shellcheck source-path=SCRIPTDIR disable=SC2030,SC2031,SC2034	# subshells, parts.sh
set -u

here=$(cd "$(dirname "$0")" && pwd)
top=${here%/*}
qemu=$top/tools/testing/selftests/unwind/qemu
# shellcheck source=../tools/testing/selftests/unwind/qemu/expect.sh
. "$qemu/expect.sh"

# named [ARGUMENT]: the tests of a script that run; its argument is the regular expression
cat > "$tmp/named.sh" <<END
. "$here/../tools/testing/selftests/unwind/lib/tap.sh"
check "a test" true
check "another" true
check "a test too" true
finish
END
named() {
	bash "$tmp/named.sh" "$tmp" "$@" | sed -n 's/^ok [0-9]* - //p' | paste -sd ,
}

# chosen: the argument says which tests run, even if it is empty, and else UNWIND_NAMES
chosen() {
	[ "$(named)" = "a test,another,a test too" ] && [ "$(named '^a test$')" = "a test" ] &&
		[ "$(UNWIND_NAMES='^(another|a test)$' named)" = "a test,another" ] &&
		[ "$(UNWIND_NAMES=none named '')" = "a test,another,a test too" ] &&
		[ -z "$(UNWIND_NAMES=none named)" ]
}

expect 0 "tests: those that UNWIND_NAMES chooses" chosen

# verdicts: print the verdicts of make bench on sets of three figures for a limit of 100, and
# the number of missed limits
verdicts() {
	python3 - "$here/bench/bench-table.py" <<END
import importlib.util, sys
spec = importlib.util.spec_from_file_location("table", sys.argv[1])
table = importlib.util.module_from_spec(spec)
spec.loader.exec_module(table)
limits = table.Limits()
for values in [99, 100, 102], [90, 104, 106], [103, 104, 105], [3, 190, 200]:
    limits.at_most("figure", values, 100)
limits.at_most("figure", [90, 109, 111], 100, 10)
limits.at_most("figure", [90, 111, 113], 100, 10)
print([line.split("100  ")[1] for line in limits.lines], limits.missed)
END
}

echo "['met', 'within the spread', 'missed', 'missed', 'within the spread', 'missed'] 3" \
	> "$tmp/wanted"
PYTHONDONTWRITEBYTECODE=1 verdicts > "$tmp/got"
expect 0 "bench: verdicts" diff "$tmp/wanted" "$tmp/got"

# loads: print what bench-table.py makes of loads, for two rounds: 200 loads of 1000 each, 10
# samples of 30, and 50000 for the rest; and 100 loads of 1600
loads() {
	python3 - "$here/bench/bench-table.py" <<END
import importlib.util, sys
spec = importlib.util.spec_from_file_location("table", sys.argv[1])
table = importlib.util.module_from_spec(spec)
spec.loader.exec_module(table)

class Data:
    samples = [None] * 10

class Bench:
    times = {("reload-1", 5, "none"): [50000], ("reload-1", 5, "way"): [250300, 210300]}
    loads = {("reload-1", 5, "way"): [200, 100]}
    data = staticmethod(lambda *args: [Data, Data])

print(table.per_load(Bench, "way", "none", 30))
END
}

echo "[1000.0, 1600.0]" > "$tmp/wanted"
PYTHONDONTWRITEBYTECODE=1 loads > "$tmp/got"
expect 0 "bench: the cost of a load" diff "$tmp/wanted" "$tmp/got"

# The profiler samples all rounds, so the clock must run in all of them: print the number of
# rounds, and whether the time is that of all rounds.
cat > "$tmp/rounds.c" <<'END'
#define main bench_main
#include "bench-load.c"
#undef main

static long rounds;
static unsigned long spent;

static void once(void)
{
	unsigned long begin = now();

	while (now() - begin < 1000000)
		;
	spent += now() - begin;
	rounds++;
}

int main(void)
{
	unsigned long ns = work(once, 12);

	return printf("%ld %s\n", rounds, ns >= spent ? "all" : "not all") < 0;
}
END
echo "12 all" > "$tmp/wanted"
gcc -I"$here/bench" -o "$tmp/rounds" "$tmp/rounds.c" "$here/bench/bench-chain.S"
"$tmp/rounds" > "$tmp/got"
expect 0 "bench: all rounds are timed" diff "$tmp/wanted" "$tmp/got"

# chain FIELD: what perfdata.py reads from a sample with a callchain of two user addresses; with
# READ, the counter before the callchain has the value of a length
chain() {
	python3 - "$1" <<END
import struct, sys
sys.path.insert(0, "$here")
import perfdata
read = perfdata.READ if sys.argv[1] == "READ" else 0
attr = perfdata.Attr(struct.pack("<12Q", 0, 0, 0, perfdata.CALLCHAIN | read, *[0] * 8))
words = [1 << 40] * bool(read) + [3, perfdata.CONTEXT_USER, 1, 2]
try:
    print(perfdata.Sample(perfdata.MISC_USER, struct.pack(f"<{len(words)}Q", *words), attr).user)
except ValueError:
    print("refused")
END
}

printf '2\nrefused\n' > "$tmp/wanted"
(export PYTHONDONTWRITEBYTECODE=1; chain none; chain READ) > "$tmp/got"
expect 0 "perfdata: a field that precedes the callchain" diff "$tmp/wanted" "$tmp/got"

# Fake a disk with enough space.
mkdir "$tmp/bin"
printf '#!/bin/sh\nprintf "f\\nf 0 0 9999\\n"\n' > "$tmp/bin/df"
chmod +x "$tmp/bin/df"

# A build whose compiler is known only to the compiler's parent shell.
cat > "$tmp/building" <<END
#!/bin/bash
sh -c 'sleep 1019 & echo \$! > $tmp/started; wait'
exit
END
chmod +x "$tmp/building"

# outlived COMMAND...: test whether its build goes on after the command is killed
outlived() {
	local pid
	rm -f "$tmp/started"
	env -u MAKEFLAGS -u MAKEOVERRIDES -u MAKELEVEL "$@" < /dev/null &
	pid=$!
	begun "$pid" || return 2
	kill -9 "$pid"
	wait "$pid" 2> /dev/null
	! gone "$(cat "$tmp/started")"
}

# building PROGRAM: replace all programs that make starts by true, and PROGRAM, which is one of
# this directory or of qemu, by the build
building() {
	local program
	rm -rf "$tmp/built"
	mkdir "$tmp/built"
	for program in deps.sh series.py base.sh perf.sh build-kernel.sh check.sh; do
		ln -s "$(type -P true)" "$tmp/built/$program"
	done
	ln -s "$here/alone.sh" "$tmp/built"
	ln -sf "$tmp/building" "$tmp/built/$1"
}

# built PROGRAM GOAL...: run outlived on make GOAL, where only PROGRAM builds
built() {
	building "$1"
	outlived "${make[@]}" "${@:2}"
}

# refused GOAL...: make must not build while a check runs
refused() {
	building build-kernel.sh
	rm -f "$tmp/started"
	flock "$tmp/lock" timeout 60 env -u MAKEFLAGS -u MAKEOVERRIDES -u MAKELEVEL \
		"${make[@]}" "$@" > "$tmp/checked" 2>&1 < /dev/null
	[ $? = 2 ] && grep -q "another check runs" "$tmp/checked" && [ ! -e "$tmp/started" ]
}

# Use another lock than the check that runs this script.
make=(make -C "$top" KERNEL=plain SCRIPTS="$tmp/built" VM="$tmp/built" LINUX="$tmp/linux"
	CHECK_LOCK="$tmp/lock")
expect 1 "builds: perf does not outlive make" built perf.sh perf
expect 1 "builds: nor for its own tests" built perf.sh test T=perf-deferred
expect 1 "builds: nor does a kernel" built build-kernel.sh kernel
expect 1 "builds: nor those of a check" built build-kernel.sh check
expect 1 "builds: nor those of benchmarks" built build-kernel.sh bench
expect 0 "builds: none begins under a check that runs" refused check
expect 0 "builds: nor does one for a test" refused test T=a

cat > "$tmp/limit" <<'END'
#!/bin/sh
echo "$1 of $TIMEOUT s"
END
chmod +x "$tmp/limit"

# limited SECONDS [VARIABLE]: test whether the guest of make run has so many seconds
# shellcheck disable=SC2317	# called by expect
limited() {
	building vm.sh
	ln -sf "$tmp/limit" "$tmp/built/vm.sh"
	env -u MAKEFLAGS -u MAKEOVERRIDES -u MAKELEVEL -u TIMEOUT "${make[@]}" run CMD=true \
		"${@:2}" < /dev/null | grep -qx "run of $1 s"
}

expect 0 "make: a guest that hangs ends soon" limited 120
expect 0 "make: or when its caller wants" limited 7 TIMEOUT=7

# begins T STATUS: make test T=T must end with STATUS; test whether it begins a build
begins() {
	building build-kernel.sh
	rm -f "$tmp/started"
	ln -sf "$here/check.sh" "$here/parts.sh" "$tmp/built"
	ln -sf "$tmp/begun" "$tmp/built/build-kernel.sh"
	env -u MAKEFLAGS -u MAKEOVERRIDES -u MAKELEVEL "${make[@]}" TOP="$tmp" test T="$1" \
		> "$tmp/checked" 2>&1 < /dev/null
	[ $? = "$2" ] || return 2
	[ -e "$tmp/started" ]
}

# listed: make must have listed what it has
listed() {
	printf '%s\n' "check: there is no 'nonsense'." \
		"PROGRAM or PROGRAM.TEST, with one of these programs:" "  program" \
		"kunit or kunit.SUITE[.TEST], with one of these suites:" "  a_suite" \
		"or one of these parts:" | diff - <(
			sed '/^make/d; /^or one/q' "$tmp/checked") &&
		grep " perf-deferred " "$tmp/checked"
}

printf '#!/bin/sh\necho > %s\nexit 1\n' "$tmp/started" > "$tmp/begun"
chmod +x "$tmp/begun"
mkdir -p "$tmp/linux/tools/testing/selftests/unwind"
printf 'emit_tests:\n\t@echo unwind:program\n' \
	> "$tmp/linux/tools/testing/selftests/unwind/Makefile"
mkdir "$tmp/kernel"
printf 'static struct kunit_suite a = {\n\t.name = "a_suite",\n};\n' > "$tmp/kernel/a_kunit.c"
expect 1 "test: nothing is built for a name that is not there" begins nonsense 2
expect 0 "test: it is said which there are" listed
expect 1 "test: nor for a suite" begins kunit.a.first 2
expect 1 "test: nor for the list alone" begins help 0
for name in program.a.b 'kunit.a_*.first' perf-deferred; do
	expect 0 "test: but for $name" begins "$name" 2
done
printf 'install:\n\t@%s\n' "$tmp/building" > "$tmp/linux/tools/testing/selftests/Makefile"
expect 1 "builds: nor does what a check builds itself" outlived env BUILD="$tmp/build" \
	LINUX="$tmp/linux" PERF_BIN="$tmp" PATH="$tmp/bin:$PATH" "$here/check.sh" test plain all

# full: a check must not start on a full disk
full() {
	mkdir "$tmp/full"
	printf '#!/bin/sh\nprintf "f\\nf 0 0 999\\n"\n' > "$tmp/full/df"
	chmod +x "$tmp/full/df"
	env BUILD="$tmp/build" LINUX="$tmp/linux" PERF_BIN="$tmp" PATH="$tmp/full:$PATH" \
		"$here/check.sh" test plain all > "$tmp/checked" 2>&1
	[ $? = 1 ] && grep -q "has 999 MB free, tests need 1000 MB" "$tmp/checked"
}

expect 0 "check: a full disk" full

# A fake kernel image with nothing but two KUnit suites.
mkdir -p "$tmp/build/kernel-plain"
gcc -nostdlib -static -no-pie -Wl,-e,0 -o "$tmp/build/kernel-plain/vmlinux" -x assembler - <<'END'
	.data
	.globl __kunit_suites_start, __kunit_suites_end
	.globl __kunit_init_suites_start, __kunit_init_suites_end
first:	.asciz "first"
	.space 250
later:	.asciz "at_init"
	.space 248
__kunit_suites_start:
	.quad first
__kunit_suites_end:
__kunit_init_suites_start:
	.quad later
__kunit_init_suites_end:
END

# tested WHAT [VARIABLE...]: run make test; its output goes to the file checked
tested() {
	local status
	env PATH="$tmp/bin:$PATH" BUILD="$tmp/build" LINUX="$tmp/linux" PERF_BIN="$tmp/bin" \
		"${@:2}" "$here/check.sh" test plain "$1" > "$tmp/checked" 2>&1
	status=$?
	cat "$tmp/checked"
	return $status
}

expect 2 "test: a suite that is not there" tested kunit.nonsense
expect 0 "test: no guest is booted for it" [ ! -e "$tmp/build/check/plain-kunit" ]
expect 2 "test: it is said which there are" tested kunit.nonsense.first
tail -n 2 "$tmp/checked" > "$tmp/got"
printf 'kunit or kunit.SUITE[.TEST], with one of these suites:\n  first at_init\n' > "$tmp/wanted"
expect 0 "test: these" diff "$tmp/wanted" "$tmp/got"
for suite in first at_init 'fi*.test'; do
	expect 1 "test: the suite $suite is looked for in a guest" tested "kunit.$suite"
	expect 0 "test: of which there is none" grep -q "vm: cannot run: no kernel" \
		"$tmp/build/check/plain-kunit/errors"
done
mv "$tmp/build/kernel-plain/vmlinux" "$tmp/build/kernel-plain/cut"
head -c 5000 "$tmp/build/kernel-plain/cut" > "$tmp/build/kernel-plain/vmlinux"
expect 1 "test: a kernel that cannot be read" tested kunit.first
expect 0 "test: that is said" grep -q "^FAILED plain-kunit: its suites" "$tmp/checked"

# A program that fails in a guest; the fake emulator records the variables.
selftests=$tmp/linux/tools/testing/selftests
mkdir -p "$selftests"
fake_kernel "$tmp/build/kernel-plain"
cat > "$selftests/Makefile" <<'END'
install:
	mkdir -p $(INSTALL_PATH)/unwind
	echo unwind:program > $(INSTALL_PATH)/kselftest-list.txt
	echo UNWIND_SECONDS UNWIND_SEED > $(INSTALL_PATH)/unwind/program
END
cat > "$tmp/bin/emulator" <<END
#!/bin/sh
for word; do
	case \$word in
	tcg,*) echo "\$word" > $tmp/accelerator ;;
	*/initramfs) grep -aoE 'UNWIND_S[A-Z]*=[^ ]*' "\$word" > $tmp/guest ;;
	file:*) cat $qemu/cases/clean-boot.log > "\${word#file:}" ;;
	file,id=status,*) printf 'ready\\nexit 1\\nend\\n' > "\${word#*path=}" ;;
	esac
done
printf '# not ok 1 a.b\\nnot ok 1 selftests: unwind: program # exit=1\\n'
END
chmod +x "$tmp/bin/emulator"

# repeated: make test with the printed words must repeat the first run
repeated() {
	local words
	tested program UNWIND_SECONDS=5 QEMU="$tmp/bin/emulator"
	mv "$tmp/guest" "$tmp/first" && grep -qx UNWIND_SECONDS=5 "$tmp/first" || return 1
	read -ra words < <(sed -n 's/^    again: make test T=//p' "$tmp/checked")
	echo "${words[@]}"
	[ "${words[0]}" = program.a.b ] || return 1
	tested "${words[@]}" QEMU="$tmp/bin/emulator"
	diff "$tmp/first" "$tmp/guest"
}

expect 0 "test: the words that repeat a test repeat it" repeated
expect 0 "test: one thread is the default" grep -qx tcg,thread=single "$tmp/accelerator"

# homeless: a program in a folder that no part runs must be a failure of a check
homeless() {
	mkdir -p "$selftests/unwind/walk" "$selftests/unwind/odd"
	: > "$selftests/unwind/$1/program.c"
	env PATH="$tmp/bin:$PATH" BUILD="$tmp/build" LINUX="$tmp/linux" PERF_BIN="$tmp/bin" \
		"$here/check.sh" gate kcsan > "$tmp/checked" 2>&1
	rm "$selftests/unwind/$1/program.c"
	grep -qx "FAILED kselftest: no part runs program, which is in the folder '$1'" \
		"$tmp/checked"
}

expect 0 "check: a program in a folder that no part runs" homeless odd
expect 1 "check: one in a folder that a part runs" homeless walk

# nonsense: a test that the program does not have must fail, and list the existing tests
# shellcheck disable=SC2016	# the dollar sign is the program's
nonsense() {
	printf '#!/bin/sh\n[ "$1" = -l ] && echo a.b || echo 1..0\n' > "$tmp/unwind/program"
	chmod +x "$tmp/unwind/program"
	"$here/guest-check.sh" kselftest "$tmp" program.nonsense > "$tmp/checked"
	grep -qx "# a.b" "$tmp/checked" &&
		grep -q "^not ok 1 selftests: unwind: program.nonsense # exit=none" "$tmp/checked"
}

mkdir "$tmp/unwind"
expect 0 "guest: a test that is not there" nonsense

expect 0 "series: its unit tests" "$here/series_test.py"
expect 0 "series: with other programs and full disks" "$here/surroundings_test.py"

# compiled_once: what makefiles below tools/ compile must come from the cache in another clone
compiled_once() {
	local clone
	local -x CCACHE_DIR=$tmp/ccache CCACHE_NOHASHDIR=1
	for clone in "$tmp/clone.1" "$tmp/clone.2"; do
		mkdir "$clone"
		echo 'int x;' > "$clone/x.c"
		(cd "$clone" && CCACHE_BASEDIR=$clone "$here/cc.sh" -Wp,-MD,"$clone/.x.d" \
			-Wp,-MT,"$clone/x.o" -DTEXT='"a b"' -c -o "$clone/x.o" "$clone/x.c") ||
			return
		[ -s "$clone/x.o" ] && [ -s "$clone/.x.d" ] || return
	done
	ccache --print-stats | grep -qx "direct_cache_hit[[:space:]]*1"
}

expect 0 "builds: programs that another clone compiled" compiled_once

# lint ARGUMENT...: run lint.sh in a repository with two patches, whose checkpatch prints the name
# of the patch and fails for the second one; its results are in the file got
lint() {
	(cd "$tmp/repo" && HOME=$tmp bash scripts/lint.sh "$tmp/repo/source" "$@") \
		> "$tmp/checked" 2>&1
	grep -E '^(not )?ok|checks|reads|==>' "$tmp/checked" |
		sed 's/ [0-9]* - lint:/:/' > "$tmp/got"
}

mkdir -p "$tmp/repo/scripts" "$tmp/repo/source/scripts" "$tmp/repo/kernel"
cp "$here/lint.sh" "$tmp/repo/scripts"
cat > "$tmp/repo/scripts/series.py" <<'END'
#!/bin/sh
verb=$1
case $verb in
manifest) exit 1 ;;
new) echo kernel/a.c ;;
draft)
	rm -rf build/draft
	mkdir -p build/draft
	shift
	[ $# != 0 ] || set -- kernel/a.c kernel/b.c
	for name; do
		echo "$name" > "build/draft/${name##*/}.patch"
	done
	;;
esac
END
cat > "$tmp/repo/source/scripts/checkpatch.pl" <<'END'
$file = $ARGV[-1]; $file =~ s,.*/,,; print "checks $file\n"; exit($file =~ /^b/);
END
printf 'print "reads @ARGV\\n"; exit 1;\n' > "$tmp/repo/source/scripts/kernel-doc"
printf '#!/bin/sh\ncd a\n' > "$tmp/repo/kernel/b.sh"
printf 'print(\n' > "$tmp/repo/kernel/c.py"
: > "$tmp/repo/scripts/bad.sh"
word=$(printf '\164\145\150')
echo "$word" > "$tmp/repo/kernel/a.c"
chmod +x "$tmp/repo/scripts/series.py"
git init -q "$tmp/repo"

lint
cat > "$tmp/wanted" <<END
not ok: manifest
not ok: python
# kernel/a.c:1: $word ==> the
not ok: codespell
not ok: shellcheck
# reads -Wall -Werror -none kernel/a.c
not ok: kernel-doc
# checks a.c.patch
# checks b.c.patch
not ok: checkpatch
# checks bad.sh
# checks lint.sh
# checks series.py
not ok: checkpatch of scripts
END
expect 0 "lint: all checks run, the quick ones first" diff "$tmp/wanted" "$tmp/got"
lint
expect 0 "lint: a patch that passed is not checked again" \
	[ "$(grep checks "$tmp/got" | xargs)" = "# checks b.c.patch # checks bad.sh" ]
lint -- kernel/b.sh
cat > "$tmp/wanted" <<'END'
not ok: manifest
ok: python
ok: codespell
not ok: shellcheck
ok: kernel-doc
# checks b.sh.patch
not ok: checkpatch
ok: checkpatch of scripts
END
expect 0 "lint: the files that are named" diff "$tmp/wanted" "$tmp/got"
lint -- kernel/b.sh kernel/none
expect 0 "lint: a file that is not there" \
	grep -qx "lint: there is no file kernel/none" "$tmp/checked"
expect 0 "lint: then nothing is checked" [ ! -s "$tmp/got" ]

# said STATUS LINE: make run, whose command ends with STATUS, must print LINE at most, and then
# what make says
said() {
	printf '#!/bin/sh\nexit %s\n' "$1" > "$tmp/built/vm.sh"
	chmod +x "$tmp/built/vm.sh"
	env -u MAKEFLAGS -u MAKEOVERRIDES -u MAKELEVEL "${make[@]}" run CMD=true \
		> "$tmp/checked" 2>&1 < /dev/null
	printf '%s' "${2:+$2$'\n'}" > "$tmp/wanted"
	grep -v '^make' "$tmp/checked" | diff "$tmp/wanted" -
}

# goal GOAL TEXT: make GOAL must fail with this text
goal() {
	env -u MAKEFLAGS -u MAKEOVERRIDES -u MAKELEVEL "${make[@]}" "$1" \
		> "$tmp/checked" 2>&1 < /dev/null
	[ $? = 2 ] && grep -F "$2" "$tmp/checked"
}

# hooked: what make starts must not see the variables with which git runs a hook
hooked() {
	env -u MAKEFLAGS -u MAKEOVERRIDES -u MAKELEVEL GIT_DIR=/none GIT_INDEX_FILE=/none/index \
		"${make[@]}" show_git < /dev/null > "$tmp/checked" 2>&1
	grep -x "git: ," "$tmp/checked"
}

# spaced: make must say that it does not work in a directory with a space in its name
spaced() {
	mkdir -p "$tmp/a b"
	cp "$top/Makefile" "$tmp/a b"
	env -u MAKEFLAGS -u MAKEOVERRIDES -u MAKELEVEL make -C "$tmp/a b" tree > "$tmp/checked" 2>&1
	grep "a b has a space or a colon in its name, with which the kernel does not build" \
		"$tmp/checked"
}

# converted: a clone must have the same files if git is told to convert the ends of lines
converted() {
	# Not a clone of this repository, which may belong to another user.
	git init -q "$tmp/plain" &&
		cp "$top/.gitattributes" "$here/selftest.sh" "$tmp/plain/" &&
		git -C "$tmp/plain" add . &&
		git -C "$tmp/plain" -c user.name=a -c user.email=a@b commit -q -m files &&
		git -c core.autocrlf=true clone -q "$tmp/plain" "$tmp/crlf" &&
		cmp "$here/selftest.sh" "$tmp/crlf/selftest.sh"
}

building nothing
rm "$tmp/built/nothing"
# shellcheck disable=SC2016	# make expands it
printf 'all:\nshow_git:\n\t@echo "git: $$GIT_DIR,$$GIT_INDEX_FILE"\n' > "$tmp/linux/Makefile"
expect 0 "make: in a hook of git" hooked
expect 0 "make: in a directory with a space" spaced
expect 0 "git: a clone that converts the ends of lines" converted
expect 0 "make: a slip is no goal of the kernel" goal demoo "there is no verb 'demoo'; is it demo?"
expect 0 "make: nor is a goal that the kernel has not" goal frobnicate \
	"make: 'frobnicate' is no verb (make help), and the kernel tree failed to make it"
expect 0 "make run: it says how the command ended" said 7 "run: the command ended with status 7"
expect 0 "make run: nothing if it was good" said 0 ""

finish
