#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Test sframe: test.sh DIRECTORY [REGEX]
#
# The directory is where 'make sframe test' put the programs. Needs gcc and binutils, and
# programs to convert; missing ones are skipped, and PERF names one more. ROUNDS is the number
# of the fuzzer's rounds. Results in TAP. With REGEX, only tests whose names match it.
set -u

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=../../testing/selftests/unwind/lib/tap.sh
. "$here/../../testing/selftests/unwind/lib/tap.sh"
# shellcheck source-path=SCRIPTDIR source=files.sh
. "$here/files.sh"
sframe=$bin/sframe
samples=$here/../../testing/selftests/unwind/sframe
libs=/lib/x86_64-linux-gnu

# refuse STATUS REGEX ARGUMENT...: sframe ends with this status and one sentence, and nothing else
refuse() {
	local wanted=$1 sentence=$2 status
	shift 2
	timeout 100 "$sframe" "$@" > out 2> err
	status=$?
	[ "$status" = "$wanted" ] || { cat err; fail "status $status: sframe $*"; return 1; }
	if [ "$(wc -l < err)" != 1 ] || [ -s out ] || ! grep -qE "^sframe: .*$sentence" err; then
		cat err out
		fail "not one such sentence: sframe $*"
	fi
}

# elf NAME: the path of the program of this name, unless it is a script
elf() {
	local file
	type -ap "$1" | while read -r file; do
		if [ "$(head -c 4 "$file" | tail -c 3)" = ELF ]; then
			realpath "$file"
			break
		fi
	done
}

# program NAME FLAG...: build a small one, with a function that aligns its stack
program() {
	local name=$1
	shift
	[ -e small.c ] || cat > small.c <<-'END'
		#include <stdio.h>
		#include <string.h>
		__attribute__((noinline)) int aligned(int n)
		{
			_Alignas(64) char b[256];
			memset(b, n, sizeof(b));
			__asm__ volatile("" : : "r" (b) : "memory");
			return b[n & 255];
		}
		int main(int argc, char **argv)
		{
			printf("%d\n", aligned(argc + 40));
			return !argv[0];
		}
	END
	gcc -g -O2 "$@" -o "$name" small.c 2> ld.err || { cat ld.err; return 1; }
}

bad_options() {
	local wrong=0
	program p || return 1
	while IFS='|' read -r status sentence arguments; do
		# shellcheck disable=SC2086	# words
		refuse "$status" "$sentence" $arguments || wrong=1
	done <<-'END'
		2|needs a verb|
		2|there is no verb 'nonsense'|nonsense
		2|options come after the verb|-o x
		2|there is no option '-Z'|convert -Z p
		2|there is no option '--nonsense'|check --nonsense p
		2|'--partial=1' has a value|check --partial=1 p
		2|lacks its value|convert p -o
		2|takes 2 or 3|convert -f 1 p
		2|takes 2 or 3|convert -f 4 p
		2|takes 2 or 3|check --format x p
		2|takes a number|convert -a x p
		2|takes a number|convert -a -1 p
		2|needs a FILE|convert
		2|takes no 'q'|convert p q
		2|takes no 'r'|check p q r
		2|finds an address itself|install -a 1 p
	END
	[ ! -e p.sframe ] || wrong=1
	"$sframe" --help | grep -q '^Usage' || wrong=1
	"$sframe" convert --help | grep -q '^Usage' || wrong=1
	return $wrong
}

# patch FILE OFFSET BYTES: write bytes, in the notation of printf
patch() {
	# shellcheck disable=SC2059	# BYTES is a format
	printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc 2> /dev/null
}

# Files that cannot be converted, with each verb that reads them.
bad_files() {
	local wrong=0 verb
	program p && cp p arm && cp p elf32 && cp p nothing && cp p part || return 1
	patch arm 18 '\267\0'
	patch elf32 4 '\1'
	objcopy --remove-section .eh_frame --remove-section .eh_frame_hdr nothing
	truncate -s 100 part
	echo 'no ELF' > text
	: > empty
	gcc -O2 -c -o object.o small.c
	ln -sf /dev/null null
	ln -sf "$PWD/round" round
	mkdir -p directory
	[ -p fifo ] || mkfifo fifo || return 1
	for verb in convert check install; do
		while IFS='|' read -r sentence file; do
			refuse 1 "$file: $sentence" "$verb" -o out2 "$file" || wrong=1
		done <<-'END'
			is not an ELF file|text
			is not an ELF file|empty
			is for another architecture|arm
			is for another architecture|elf32
			is truncated|part
			has no .eh_frame|nothing
			is neither a program nor a shared library|object.o
			is not a regular file|null
			is not a regular file|directory
			is not a regular file|fifo
			cannot be opened: No such file|missing
			cannot be opened: Too many levels of symbolic links|round
			cannot be opened: Not a directory|p/p
		END
	done
	refuse 1 "has no .sframe" dump p || wrong=1
	refuse 1 "is not an ELF file" dump text || wrong=1
	[ ! -e out2 ] || wrong=1
	return $wrong
}

# A file that is cut off anywhere is called truncated: its section headers are at its end.
truncated() {
	local size at verb
	program p || return 1
	size=$(stat -c %s p)
	for ((at = 4; at < size; at += 61)); do
		head -c $at p > part
		for verb in convert check install; do
			refuse 1 'part: is truncated: it ' $verb -o out2 part ||
				{ fail "$verb of $at bytes"; return 1; }
		done
	done
	[ ! -e out2 ]
}

unwritable() {
	program p || return 1
	refuse 1 "cannot be written: No such file" convert -o /nonsense/file p || return 1
	refuse 1 "cannot be written: Is a directory" convert -o / p || return 1
	refuse 1 "cannot be written: No space left" convert -o /dev/full p || return 1
	refuse 1 "cannot be written: No such file" install -o /nonsense/file p || return 1
	mkdir -p dir && : > file || return 1
	refuse 1 'nodir/: cannot be written: there is no such directory' install -o nodir/ p &&
		refuse 1 'dir/: cannot be written: Is a directory' install -o dir/ p &&
		refuse 1 'file/: cannot be written: Not a directory' install -o file/ p &&
		[ ! -e nodir ] && [ ! -s file ] || return 1
	"$sframe" install p && "$sframe" dump p > dumped || return 1
	! "$sframe" dump p > /dev/full 2> err && grep -q 'cannot be written' err
}

# many NR: build a library of one function with this many rows
many() {
	awk -v nr="$1" 'BEGIN {
		print "f: .cfi_startproc"
		for (i = 0; i < nr; i++)
			print "nop\n.cfi_def_cfa_offset " 16 + i % 2 * 8
		print "ret\n.cfi_endproc"
	}' > many.S
	gcc -nostdlib -shared -o many.so many.S
}

# One function of many rows: libdw starts anew for each row.
too_many() {
	many 200000 || return 1
	refuse 1 "takes too much work" convert -o out2 many.so
}

# A function with too many rows becomes two functions.
many_rows() {
	many 70000 && "$sframe" check many.so || return 1
	"$sframe" convert -o many.sf many.so && "$bin/decoder" many.so many.sf || return 1
	"$sframe" dump many.sf | grep -q 'Num FDEs: 2$'
}

# A PLT in a segment that goes on after the end of the file: its CFA depends on the address, so
# check looks at each address, and at the rows of each entry where .eh_frame has no PLT.
large_plt() {
	local index plt fde
	program so -shared -fPIC -Wl,-z,lazy || return 1
	index=$(readelf -lW so | awk '/^  [A-Z_]+ +0x/ { if (/ LOAD .* R E /) print nr + 0; nr++ }')
	plt=$(readelf -SW so | sed -n 's/.* \.plt *PROGBITS *\([0-9a-f]*\) .*/\1/p')
	fde=$(readelf --debug-dump=frames so |
		sed -n "s/^\([0-9a-f]*\) .* FDE .*pc=$plt\.\..*/\1/p")
	[ "$index" ] && [ "$fde" ] || fail "no PLT" || return 1
	patch so $((64 + 56 * index + 32)) '\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0' || return 1
	fde=$(($(section_at so .eh_frame) + 16#$fde))
	cp so small.so && patch so $((fde + 12)) '\360\377\377\177' || return 1
	(ulimit -t 20 && "$sframe" convert -o large.sf so &&
		refuse 1 'so: has too many rows to be checked' check so) || return 1
	# The second of its functions is the PLT.
	patch large.sf 8 '\2' && patch large.sf $((28 + 16 + 8)) '\340\377\377\377' || return 1
	(ulimit -t 20 && "$sframe" check small.so large.sf > out 2> err)
	cat err
	grep -q 'small.so: has too many rows to be checked' err
}

# high NR INSTRUCTION...: build a library of NR functions, which after a row have these
high() {
	{
		echo "f: .rept $1"
		printf '%s\n' .cfi_startproc nop "${@:2}" nop ret .cfi_endproc
		echo .endr
	} > high.S
	gcc -nostdlib -shared -o high.so high.S 2> ld.err
}

# libdw needs 2 GiB for the first register, which it does not get, and 16 MB for the other. For
# that, it copies them for each row, or finds later that the instructions are bad.
huge_register() {
	local most='.cfi_escape 5, 0xfe, 0xff, 0xff, 0x7f, 1'
	local many='.cfi_escape 5, 0x80, 0x80, 0x80, 1, 1'
	high 1 "$most" && refuse 1 'needs more memory than there is' convert high.so || return 1
	high 1 "$many" && "$sframe" check high.so > out || return 1
	cat out
	grep -q 'cannot be said: damaged' out || return 1
	high 400 "$many" && refuse 1 'takes too much work' convert high.so || return 1
	high 400 "$many" '.cfi_escape 0x3e' && refuse 1 'takes too much work' convert high.so
}

# libdw copies the rules of all registers again and again.
remembered() {
	high 1 '.cfi_same_value 8000000' '.rept 40000' .cfi_remember_state .cfi_restore_state \
		.endr || return 1
	(ulimit -S -t 2 && refuse 1 'the file takes too much CPU time' convert high.so) &&
		(ulimit -t 2 && refuse 1 'the file takes too much CPU time' convert high.so)
}

# These read a file into memory.
large_file() {
	local verb
	rm -f large && truncate -s 5G large || return 1
	for verb in dump check install; do
		refuse 1 'large: is larger than 4 GiB' "$verb" large || return 1
	done
}

# Functions that libdw does not find cost nothing: the table of .eh_frame_hdr has only ten.
short_table() {
	high 300 && patch high.so $(($(section_at high.so .eh_frame_hdr) + 8)) '\12\0' &&
		"$sframe" convert -o high.sf high.so && "$sframe" check high.so high.sf > out
	cat out
	grep -q '^high.so: .* 300 functions, 10 FDEs' out
}

# Each allocation fails in turn, and all from each one on: the section is whole, or there is none.
no_memory() {
	program so -shared -fPIC && gcc -nostdlib -shared -o rows.so "$here/rows.S" &&
		"$bin/memory" so rows.so
}

# Rows of all kinds are converted as expected.
all_rows() {
	gcc -nostdlib -shared -Wl,-Ttext=0x1000 -o rows.so "$here/rows.S" || return 1
	"$sframe" convert -o rows.sf rows.so && "$sframe" dump rows.sf | sed 's/ *$//' > dumped
	diff "$here/rows.txt" dumped && "$sframe" check rows.so && "$sframe" check -f 2 rows.so
}

# For real sections, sframe prints the same as readelf.
sample() {
	"$sframe" dump "$1" > dumped || return 1
	# The expected text is readelf's, without blanks at the end of lines.
	sed -i 's/ *$//' dumped
	diff "$2" dumped && "$bin/decoder" "$1"
}

# How many functions readelf finds in .eh_frame; overlapping ones count once.
functions() {
	readelf --debug-dump=frames "$1" 2> /dev/null |
		sed -n 's/.* FDE .*pc=\([0-9a-f]*\)\.\.\([0-9a-f]*\)$/\1 \2/p' | sort |
		awk '"x" $1 < "x" $2 && "x" $2 > "x" end { nr++; end = $2 } END { print nr }'
}

# said FILE: "out", from check, finds nearly all of .eh_frame in the section. In its innermost
# loops, OpenSSL has rules that SFrame cannot say
said() {
	local least=99.9
	[[ $1 != */libcrypto* ]] || least=94
	awk -v least=$least '$NF == "same" { said = $3 } END { exit !(said >= least) }' out
}

# both FILE: check and the kernel's decoder pass with both versions; two conversions are the same
both() {
	local version
	"$sframe" check "$1" > out
	grep -q ", $(functions "$1") functions," out || { cat out; fail "some are missing"; } ||
		return 1
	said "$1" || { cat out; fail "too little is said"; } || return 1
	for version in 3 2; do
		"$sframe" check -f $version "$1" | sed 's/^/# /' || return 1
		[ "${PIPESTATUS[0]}" = 0 ] || return 1
		"$sframe" convert -f $version -o one "$1" &&
			"$sframe" convert -f $version -o two "$1" || return 1
		cmp one two || return 1
		"$bin/decoder" "$1" one || return 1
	done
	size "$1"
}

# The size of the section, next to that of .eh_frame.
size() {
	local bytes sum=0 hex='[0-9a-f]*'
	"$sframe" convert -o one "$1"
	for bytes in $(readelf -SW "$1" 2> /dev/null |
		sed -n "s/.* \.eh_frame[a-z_]* *[A-Z_0-9]* *$hex $hex \($hex\) .*/\1/p"); do
		sum=$((sum + 16#$bytes))
	done
	echo "# section: $(stat -c %s one) bytes, .eh_frame and its table: $sum"
}

# check finds damage in a section.
wrong_sections() {
	local at wrong=0
	gcc -nostdlib -shared -Wl,-Ttext=0x1000 -o rows.so "$here/rows.S" &&
		"$sframe" convert -o good rows.so && "$sframe" check rows.so good || return 1
	# The header says where rows begin; the first function has four, 5 bytes later.
	at=$((28 + $(od -An -tu4 -j24 -N4 good) + 5))
	wrong_section $((at + 2)) '\20' 'another CFA' || wrong=1
	wrong_section $((at + 3)) '\2' 'another CFA' || wrong=1
	wrong_section $((at + 6)) '\350' 'another frame pointer' || wrong=1
	wrong_section $((at - 3)) '\200' 'a signal frame where there is none' || wrong=1
	wrong_section $((at - 5)) '\3' 'another CFA' || wrong=1
	wrong_section 8 '\22' 'no row' || wrong=1
	wrong_section $(($(stat -c %s good) - 2)) '\0' 'no caller where there is one' || wrong=1
	cp good part
	patch part $(($(stat -c %s good) - 2)) '\5'
	refuse 1 'damaged section: a row is beyond the end' check rows.so part || wrong=1
	cp good part
	patch part 8 '\22'
	"$sframe" check --partial rows.so part || wrong=1
	"$sframe" check -a 8 rows.so good > out && wrong=1
	cp good part
	patch part 2 '\11'
	refuse 1 'damaged section: its version' check rows.so part || wrong=1
	head -c $((at + 100)) good > part
	refuse 1 'damaged section: it is truncated' check rows.so part || wrong=1
	refuse 1 'damaged section: it is truncated' dump part || wrong=1
	return $wrong
}

# wrong_section OFFSET BYTES WORDS: with these bytes, check says WORDS
wrong_section() {
	cp good part
	patch part "$1" "$2"
	if "$sframe" check rows.so part > out; then
		fail "no difference with '$2' at $1"
	else
		grep -q "bytes: $3\$" out || { cat out; fail "not '$3'"; }
	fi
}

# The address changes the starts of functions, and nothing else.
address() {
	local at
	program p && "$sframe" convert -a 0x123456 -o one p && "$sframe" convert -o two p ||
		return 1
	refuse 1 'too far from the section' convert -f 2 -a 0x123456789000 p || return 1
	"$sframe" convert -a 0x123456789000 -o far p && "$sframe" check -a 0x123456789000 p far ||
		return 1
	"$sframe" check -a 0x123456 p one && ! "$sframe" check p one > out || return 1
	at=$((28 + $(od -An -tu4 -j24 -N4 one)))
	cmp -i $at one two || fail "rows differ"
}

# The library is its headers and its archive, which exports only the declared names.
library() {
	program p && echo 'no ELF' > text && "$bin/api" p text || return 1
	nm -g --defined-only "$bin/libsframe-conv.a" | awk 'NF == 3 { print $3 }' | sort > names
	grep -hoE '^[a-z].*\bsframe_[a-z_]+\(' "$here"/../{sframe,server}.h |
		sed 's/.*\b\(sframe_[a-z_]*\)($/\1/' | sort > declared
	diff declared names && grep -qx sframe_convert_fd names
}

# make_install GOAL VARIABLE...: install into the directory "dest" with the makefile
make_install() {
	rm -rf dest
	MAKEFLAGS='' make -C "$here/.." OUTPUT="$bin/" DESTDIR="$work/dest" prefix=/opt/x "$@"
}

# The program, and its page, if that can be made; otherwise nothing.
make_installs() {
	local rst2man rst
	for rst2man in rst2man rst2man.py cat; do
		"$rst2man" --version && break
	done
	make_install install-bin && cmp "$bin/sframe" dest/opt/x/bin/sframe &&
		[ "$(stat -c %a dest/opt/x/bin/sframe)" = 755 ] &&
		[ "$(find dest -type f | wc -l)" = 1 ] || return 1
	rm -f "$bin/sframe.1"
	# With -j2, the program might be installed before the page fails.
	for rst in false 'sleep 1; false'; do
		! make_install -j2 install RST2MAN="$rst" && [ ! -e dest ] &&
			[ ! -e "$bin/sframe.1" ] || fail "installed without a page" || return 1
	done
	# The word is also in the source of the page, which stands in for the page with "cat".
	make_install install RST2MAN="$rst2man" && cmp "$bin/sframe" dest/opt/x/bin/sframe &&
		grep -q 'PT_GNU_SFRAME' dest/opt/x/share/man/man1/sframe.1 &&
		[ "$(find dest -type f | wc -l)" = 2 ]
}

# plt NAME BLOCKS FLAG...: build a program; its section has BLOCKS functions, which cover all PLTs
plt() {
	local name=$1 blocks=$2
	shift 2
	program "$name" "$@" || return 1
	"$sframe" check "$name" > out || { cat out; return 1; }
	"$sframe" convert -o one "$name" && "$bin/decoder" "$name" one || return 1
	"$sframe" dump one > dumped
	[ "$(grep -c 'STARTPC\[m\]' dumped)" = "$blocks" ] ||
		{ cat dumped; fail "not $blocks PLTs"; return 1; }
	readelf -SW "$name" | sed -n 's/.* \(\.plt[a-z.]*\) .*PROGBITS *\([0-9a-f]*\) .*/\2/p' |
		while read -r addr; do
			grep -q " pc = 0x$(printf %x "$((16#$addr))"), " dumped ||
				fail "nothing about $addr"
		done
}

# Entries that .eh_frame lacks get the same rows as those that it has an expression for.
plt_code() {
	program with -Wl,-z,lazy && program without -Wl,-z,lazy,--no-ld-generated-unwind-info ||
		return 1
	plt_rows with > one
	plt_rows without > two
	cat one
	[ "$(grep -c ' sp+' one)" = 4 ] && diff one two
}

# The rows of the first entry, and those of the entries that are alike.
plt_rows() {
	"$sframe" convert -o rows "$1" && "$sframe" dump rows | awk '
		/^ *func/ { nr++; next }
		nr == 1 || nr == 2 { print $1 ~ /^0/ ? substr($1, 16) " " $2 : $1 }'
}

# readelf does not complain about a file, and finds the section.
clean() {
	readelf -lSWn "$1" > elf 2> err
	if [ -s err ] || grep -iE 'warning|error: ' elf | grep -v '\.gnu\.warning'; then
		cat err
		fail "$1: readelf complains"
		return 1
	fi
	if ! grep -q 'GNU_SFRAME' elf || ! grep -q ' \.sframe ' elf; then
		fail "$1: no section"
	fi
}

# An installed copy has the contents of the file, and a section; also when it was stripped.
installed() {
	local file=$1 copy=$2 how mode
	"$sframe" install -o "$copy" "$file" && clean "$copy" || return 1
	"$sframe" check "$copy" > out || { cat out; return 1; }
	"$bin/decoder" "$copy" || return 1
	mode=$((0$(stat -Lc %a "$file") & 0777 & ~$(umask)))
	[ "$(stat -c %a "$copy")" = "$(printf %o $mode)" ] ||
		fail "another mode" || return 1
	readelf -nW "$file" | grep 'Build ID' > ids
	readelf -nW "$copy" | grep 'Build ID' | diff ids - || fail "another build-id" || return 1
	for how in '.text' '.rodata' '.data' '.eh_frame' '.debug_info' '.symtab'; do
		readelf -x "$how" "$file" > one 2> /dev/null
		readelf -x "$how" "$copy" 2> /dev/null > two
		[ "$how" = .symtab ] || cmp one two || fail "another $how" || return 1
	done
	readelf -sW "$file" 2> /dev/null | awk '$4 == "FUNC" { print $2, $8 }' > one
	readelf -sW "$copy" 2> /dev/null | awk '$4 == "FUNC" { print $2, $8 }' | cmp - one ||
		fail "other symbols" || return 1
	refuse 1 'has an .sframe already' install -o out2 "$copy" || return 1
	cp "$copy" "$copy.stripped"
	strip "$copy.stripped" && clean "$copy.stripped" &&
		"$sframe" check "$copy.stripped" > out && "$bin/decoder" "$copy.stripped"
}

# runs FILE SAYS ARGUMENT...: with a section it works as before, also stripped
runs() {
	local file=$1 says=$2 copy
	shift 2
	copy=$work/installed.${file##*/}
	installed "$file" "$copy" || return 1
	for copy in "$copy" "$copy.stripped"; do
		[ "$("$copy" "$@" 2>&1)" = "$says" ] || { "$copy" "$@"; fail "$copy $*"; return 1; }
	done
}

small_runs() {
	program "$@" && runs "$work/$1" 41
}

libraries() {
	local name
	rm -rf dir stripped
	mkdir dir stripped
	for name in libc.so.6 libm.so.6 libcrypto.so.3 libstdc++.so.6 libz.so.1; do
		[ -e "$libs/$name" ] || [ -e "/usr$libs/$name" ] || continue
		installed "$(realpath "$libs/$name")" "dir/$name" || return 1
		mv "dir/$name.stripped" "stripped/$name"
	done
	cat > use.py <<-'END'
		import ctypes, hashlib, math, sys, zlib
		for name in "libstdc++.so.6", "libcrypto.so.3", "libm.so.6", "libc.so.6":
		    ctypes.CDLL(name)
		print(hashlib.sha256(b"x").hexdigest()[:8], math.sin(1), zlib.crc32(b"x"))
		names = set(line.split()[-1] for line in open("/proc/self/maps"))
		print(sum(name.startswith(sys.argv[1]) for name in names) > 3, file=sys.stderr)
	END
	"$(elf python3)" use.py / > wanted 2> err || { cat err; return 1; }
	for name in dir stripped; do
		LD_LIBRARY_PATH=$work/$name "$(elf python3)" use.py "$work/$name" > out 2> err ||
			{ cat err; return 1; }
		diff wanted out || return 1
		[ "$(cat err)" = True ] || { cat err; return 1; }
		LD_LIBRARY_PATH=$work/$name ldd "$(elf bash)" | grep -q "$work/$name/libc" ||
			return 1
	done
}

linker() {
	installed "$(realpath /lib64/ld-linux-x86-64.so.2)" "$work/ld.so" || return 1
	[ "$("$work/ld.so" "$(elf bash)" -c 'echo works')" = works ] || return 1
	[ "$("$work/ld.so.stripped" "$(elf bash)" -c 'echo works')" = works ]
}

# Without -o the file is replaced: processes that opened it, or run it, keep the former one.
in_place() {
	local before
	program p && before=$(stat -c %i p) && ln -f p former || return 1
	chmod 4751 p
	ln -sf p link
	"$sframe" install link && clean p && [ "$(./p)" = 41 ] && [ -L link ] || return 1
	[ "$(stat -c %i p)" != "$before" ] && [ "$(stat -c %a p)" = 4751 ] &&
		! readelf -SW former | grep -q sframe && no_rest
}

# A program is not replaced by its section, under any of its names.
not_itself() {
	local out
	program p && cp p before && ln -f p hard && ln -sf p soft && ln -sf p p.sframe || return 1
	for out in "-o p" "-o ./p" "-o hard" "-o soft" ""; do
		# shellcheck disable=SC2086	# words
		refuse 1 'is the file to convert' convert $out p || return 1
		cmp p before && cmp hard before || return 1
	done
	[ -L soft ] && [ -L p.sframe ] && rm p.sframe hard || return 1
	cp p ./- && "$sframe" convert -o - ./- > out && "$sframe" convert -o good p && cmp out good
}

no_install() {
	local wrong=0 verb
	program p && cp p long && head -c 10000 /dev/zero >> long || return 1
	refuse 1 'data after its end' install -o out2 long || wrong=1
	cp p twice && "$sframe" install twice || return 1
	refuse 1 'has an .sframe already' install -o out2 twice || wrong=1
	cp p none
	# No section headers: clear their offset, their number, and the index of their names.
	patch none 40 '\0\0\0\0\0\0\0\0' && patch none 60 '\0\0\0\0'
	for verb in convert check install; do
		refuse 1 'none: has no section headers' $verb -o out2 none || wrong=1
	done
	[ ! -e out2 ] || wrong=1
	return $wrong
}

# The kernel walks through the code that binds functions lazily, if it knows that code: two loads,
# and the call of a function that pushes rbx at its start, and jumps to no other function.
binding() {
	local ld=/lib64/ld-linux-x86-64.so.2 called size to
	objdump -d --no-show-raw-insn "$ld" > code || return 1
	grep -A 2 'mov  *0x10(%rbx),%rsi$' code | grep -A 1 'mov  *0x8(%rbx),%rdi$' |
		sed -n 's/.*\tcall  *\([0-9a-f]*\) .*/\1/p' | sort -u > calls
	[ "$(wc -l < calls)" = 1 ] || { cat calls; fail "not one function is called"; return 1; }
	read -r called < calls
	sed -n "/^ *$called:/,/push  *%rbx$/p" code | head -n 16 > start
	cat start
	tail -n 1 start | grep -q 'push  *%rbx$' &&
		! grep -vE '\s(endbr64|(push|xor|mov|lea) .*)\s*$' start || return 1

	"$sframe" convert -o section "$ld" && "$sframe" dump section > functions || return 1
	size=$(sed -n "s/.* pc = 0x$called, size = \([0-9]*\) bytes$/\1/p" functions)
	objdump -d --no-show-raw-insn --start-address="0x$called" \
		--stop-address="$((0x$called + size))" "$ld" | sed -n 's/.*\tj[a-z]* *//p' > jumps
	while read -r to _; do
		if ! [[ $to =~ ^[0-9a-f]+$ ]] ||
			! ((0x$called <= 0x$to && 0x$to < 0x$called + size)); then
			fail "a jump to $to leaves it"
			return 1
		fi
	done < jumps
	[ -s jumps ]
}

fuzz() {
	local name
	program p && program so -shared -fPIC -Wl,-z,lazy && program fixed -no-pie || return 1
	program lld -fuse-ld=lld || cp p lld
	gcc -nostdlib -shared -Wl,-Ttext=0x1000 -o rows.so "$here/rows.S" || return 1
	for name in frames-pie.v2 libframes.v3.so; do
		base64 -d "$samples/$name.gz.base64" | gunzip > "$name" || return 1
	done
	"$bin/fuzz" -n "${ROUNDS:-20000}" -s 1 p so fixed lld rows.so frames-pie.v2 \
		libframes.v3.so 2> err || { cat err; return 1; }
	sed 's/^/# /' err
}

bench() {
	"$bin/bench" "$@" | sed 's/^/# /'
	[ "${PIPESTATUS[0]}" = 0 ]
}

check "bad options" bad_options
check "bad files" bad_files
check "truncated files" truncated
check "unwritable output" unwritable
check "limits: work" too_many
check "limits: rows" many_rows
check "limits: rows to check" large_plt
check "limits: registers" huge_register
check "limits: size" large_file
check "limits: CPU time" remembered
check "limits: CPU time at the end" late_end
check "bad .eh_frame_hdr" short_table
check "rows of all kinds" all_rows
check "wrong sections" wrong_sections
check "address of the section" address
check "library" library
check "hostile files" hostile_files
check "hostile files: what they need" hostile_needs
check "damaged section of a file" damaged_own
check "headers of a section of a file" headers_own
check "headers of a file that changes" headers_race
check "cache: damaged" damaged_cache
check "cache: a file that is written to" written_later
check "cache: once a boot" once_a_boot
check "cache: unreadable" unreadable_cache
check "cache: NFS" remote_cache
check "cache: a server's" file_systems
check "cache: read only" read_only_cache
check "make install" make_installs
for file in "$samples"/*.base64; do
	name=${file##*/}
	name=${name%.gz.base64}
	base64 -d "$file" | gunzip > "$name"
	check "real section: $name" sample "$name" "$samples/${name%.so}.txt"
done

for file in "$libs/libc.so.6" /lib64/ld-linux-x86-64.so.2 "/usr$libs/libstdc++.so.6" \
		"$libs/libcrypto.so.3" "$(elf python3)" "$(elf perl)" \
		"$(elf git)" "$(elf bash)" "$(gcc -print-prog-name=cc1)" \
		${PERF:+"$PERF"}; do
	if [ -e "$file" ]; then
		check "same as libdw, and in the kernel: ${file##*/}" both "$file"
	else
		skip "same as libdw, and in the kernel" "there is no ${file:-such program}"
	fi
done

check "PLT: lazy" plt lazy 1 -Wl,-z,lazy
check "PLT: now" plt now 1 -Wl,-z,now
check "PLT: IBT" plt ibt 1 -fcf-protection -Wl,-z,lazy,-z,ibtplt
check "PLT: library" plt library 1 -shared -fPIC -Wl,-z,lazy
check "PLT: without .eh_frame" plt_code
check "PLT: what the kernel knows of glibc" binding
for linker in lld gold; do
	if command -v "ld.$linker" > /dev/null; then
		check "PLT: $linker" plt "$linker" 1 -fuse-ld=$linker -Wl,-z,lazy
	else
		skip "PLT: $linker" "there is no ld.$linker"
	fi
done

check "install: PIE" small_runs pie -pie
check "install: fixed address" small_runs fixed -no-pie
check "install: static" small_runs static -static
check "install: static PIE" small_runs static-pie -static-pie
if command -v ld.lld > /dev/null; then
	check "install: lld" small_runs with-lld -fuse-ld=lld
else
	skip "install: lld" "there is no ld.lld"
fi
# shellcheck disable=SC2016	# for the shell under test
check "install: bash" runs "$(elf bash)" 'works 3' -c 'echo works $((1 + $(echo 2)))'
check "install: perl" runs "$(elf perl)" 'works 6' \
	-MPOSIX -e 'printf("works %d\n", POSIX::floor(6.5))'
check "install: python3" runs "$(elf python3)" 'works 3' \
	-c 'import json, ssl; print("works", json.loads("3"))'
check "install: libraries" libraries
check "install: dynamic linker" linker
check "install: in place" in_place
check "install: what others do meanwhile" in_place_races
check "install: what others create meanwhile" new_races
check "install: what others have in the place of a new file" new_file_races
check "install: what others have in its place at the end" late_file_races
check "install: a number that is used again" number_race
if [ "$(id -u)" = 0 ]; then
	check "install: links of others" others_links
	check "install: owners of files" owners
	check "install: files of others" others_files
else
	skip "install: links, owners and files of others" "only root makes them"
fi
check "install: refused" no_install
check "convert: into the program itself" not_itself
check "fuzz" fuzz
check "memory: none" no_memory
check "benchmark" bench "$libs/libc.so.6" "$(gcc -print-prog-name=cc1)"

finish
