#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Build programs from files of the kernel. Sourced by fuzz.sh, whose variables under_test,
# under_test_flags, harness, needs_insn and libs define a program.
# shellcheck disable=SC2154	# they are the caller's, as are out and linux

# The headers that are used as they are in the kernel: NAME FILE...
real=(
	linux/unwind_user.h		include/linux/unwind_user.h
	linux/unwind_user_arch.h	include/linux/unwind_user_arch.h
	linux/unwind_user_types.h	include/linux/unwind_user_types.h
	linux/unwind_user_word.h	include/linux/unwind_user_word.h
	linux/unwind_stats.h		include/linux/unwind_stats.h
	linux/cleanup.h			include/linux/cleanup.h
	linux/elf.h			include/uapi/linux/elf.h
	linux/elf-em.h			include/uapi/linux/elf-em.h
	asm/unwind_user.h		arch/x86/include/asm/unwind_user.h
	asm/unwind_user_rule.h		arch/x86/include/asm/unwind_user_rule.h
	asm/sigcontext.h		arch/x86/include/asm/sigcontext.h
	asm/sigframe.h			arch/x86/include/asm/sigframe.h
	asm/ia32.h			arch/x86/include/asm/ia32.h
	uapi/asm/sigcontext.h		arch/x86/include/uapi/asm/sigcontext.h
	asm/ucontext.h			arch/x86/include/uapi/asm/ucontext.h
	asm-generic/ucontext.h		include/uapi/asm-generic/ucontext.h
	asm/insn.h			tools/arch/x86/include/asm/insn.h
	asm/inat.h			tools/arch/x86/include/asm/inat.h
	asm/inat_types.h		tools/arch/x86/include/asm/inat_types.h
	kernel/unwind/sframe.h		kernel/unwind/sframe.h
	kernel/unwind/elf.h		kernel/unwind/elf.h
	kernel/unwind/object.h		kernel/unwind/object.h
	kernel/unwind/text.h		kernel/unwind/text.h
	kernel/unwind/unwind.h		kernel/unwind/unwind.h
	kernel/unwind/vma.h		kernel/unwind/vma.h
)

# Headers for the files under test: the real ones, and empty ones for the rest.
headers() {
	local i name sources=()
	rm -rf "$out/include"
	for name in "${under_test[@]}" kernel/unwind/{rule,sframe_user}.h; do
		sources+=("$linux/$name")
	done
	for ((i = 0; i < ${#real[@]}; i += 2)); do
		name=$out/include/${real[i]}
		mkdir -p "${name%/*}"
		ln -s "$linux/${real[i + 1]}" "$name"
		sources+=("$linux/${real[i + 1]}")
	done
	sed -n 's/^#[ \t]*include <\(\(linux\|asm\|asm-generic\|uapi\)\/.*\.h\)>.*/\1/p' \
		"${sources[@]}" | sort -u | while read -r name; do
			name=$out/include/$name
			mkdir -p "${name%/*}"
			[ -e "$name" ] || : > "$name"
		done
}

# The instruction decoder.
build_insn() {
	local name
	awk -f "$linux/tools/arch/x86/tools/gen-insn-attr-x86.awk" \
		"$linux/tools/arch/x86/lib/x86-opcode-map.txt" > "$out/inat-tables.c" ||
		die "the tables of the instruction decoder cannot be made"
	for name in insn inat; do
		compile "$linux/tools/arch/x86/lib/$name.c" -w -I"$out" \
			-I"$linux/tools/arch/x86/include" -I"$linux/tools/include"
	done
}

# compile FILE FLAG...: add an object to the program that is being built
compile() {
	local object=$program.o/${#objects[@]}.o file=$1
	shift
	"$cc" "${flags[@]}" "$@" -c -o "$object" "$file" || exit 2
	objects+=("$object")
}

# build PROGRAM COMPILER FLAG...
build() {
	local program=$out/$1 cc=$2 name objects=()
	shift 2
	# As the kernel is built: pointers and integers wrap around.
	# shellcheck disable=SC2054	# the commas are the compiler's
	local flags=(-std=gnu11 -O1 -g -Wall -Werror=implicit-function-declaration
		-Wno-sign-compare -Wno-pointer-sign -Wno-unused-variable
		-fno-strict-aliasing -fno-omit-frame-pointer -fwrapv
		-fno-sanitize-recover=all "$@" -fno-sanitize=pointer-overflow,alignment)
	local simulated=(-I"$out/include" -include "$here/sim.h")
	mkdir -p "$program.o"
	headers
	[ -z "$needs_insn" ] || build_insn
	for name in "${under_test[@]}"; do
		compile "$linux/$name" "${simulated[@]}" "${under_test_flags[@]}"
	done
	for name in "${harness[@]}"; do
		compile "$here/$name.c" "${simulated[@]}"
	done
	"$cc" "${flags[@]}" -o "$program" "${objects[@]}" "${libs[@]}" || exit 2
}
