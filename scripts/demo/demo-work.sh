#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The work that make demo records: stock programs of the distribution on real input.
#
#   demo-work.sh prepare		write input to the current directory
#   demo-work.sh list		list installed programs, one a line; missing ones on stderr
#   demo-work.sh PROGRAM	run one program, a few seconds in the VM
#   demo-work.sh all		run all of them several times: a minute or more in the VM
#
# UNWIND_TOP is the repository: the compiler compiles the section converter. Set HOME to a
# separate directory.
set -eu

all=(gcc perl python3 sort xz git)
sframe=$UNWIND_TOP/tools/sframe
# One source file for each round.
sources=(table frames layout rules decode convert)

# Text that is neither uniform nor random for hash functions, comparisons and compressors.
make_lines() {
	awk -v n="$1" 'BEGIN {
		for (i = 1; i <= n; i++)
			print i * 7919 % 1000003, "line", i * i % 977, "of", i % 31, "words"
	}'
}

# A repository with a history: each commit appends to some file and rewrites another.
make_history() {
	awk -v commits="$1" 'BEGIN {
		for (i = 1; i <= commits; i++) {
			text = ""
			for (j = 1; j <= 60; j++)
				text = text "line " j " of " (j % 7 == i % 7 ? i : j) "\n"
			message = "Change " i "\n"
			printf "commit refs/heads/main\ncommitter A <a@example.org> %d +0000\n",
				1000000000 + i * 1000
			printf "data %d\n%s", length(message), message
			printf "M 644 inline dir%d/file%d\ndata %d\n%s\n",
				i % 3, i % 5, length(text), text
		}
	}'
}

prepare() {
	make_lines 30000 > lines
	if ! { git init -q repository && make_history 400 |
		git -C repository fast-import --quiet; } 2> git.err; then
		rm -rf repository
	fi
}

have() {
	command -v "$1" > /dev/null && { [ "$1" != git ] || [ -d repository ]; }
}

list() {
	for program in "${all[@]}"; do
		if have "$program"; then
			echo "$program"
		else
			echo "demo: there is no $program here, so it is left out" >&2
		fi
	done
}

# work PROGRAM ROUND
# shellcheck disable=SC2016	# the dollar signs are perl's
work() {
	case $1 in
	gcc)
		gcc -O2 -D_GNU_SOURCE -I"$sframe" -I"$UNWIND_TOP/build/linux/tools/include" \
			-c -o object.o "$sframe/${sources[$2]}.c"
		;;
	perl)
		perl -e 'sub words { return map { lc } split / /, shift }
			my %seen;
			open my $in, "<", "lines" or die;
			while (<$in>) {
				last if $. > 25000;
				$seen{$_}++ for words($_);
			}
			my @most = sort { $seen{$b} <=> $seen{$a} || $a cmp $b } keys %seen;
			print "$most[0]\n";'
		;;
	python3)
		python3 -c 'import ast, json
text = open(json.decoder.__file__).read()
for i in range(3):
	tree = ast.parse(text)
	code = compile(tree, "decoder", "exec")
	words = [line.split() for line in open("lines").readlines()[:4000]]
	words.sort(key=lambda word: int(word[0]))
	back = json.loads(json.dumps(words, indent=1))
print(len(back), len(ast.dump(tree)))'
		;;
	sort)
		for key in 1n 3 5; do
			sort --parallel=2 -k "$key" -o sorted lines
		done
		;;
	xz)
		xz -c -2 -T2 --block-size=200k lines > lines.xz
		;;
	git)
		git -C repository log -p --stat main > history
		;;
	esac
}

case ${1-} in
prepare | list)
	"$1"
	;;
all)
	for ((round = 0; round < ${#sources[@]}; round++)); do
		for program in $(list 2> /dev/null); do
			work "$program" "$round"
		done
	done
	;;
*)
	work "${1:?}" 0
	;;
esac
