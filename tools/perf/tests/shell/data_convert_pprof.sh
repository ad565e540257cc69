#!/bin/bash
# perf data convert --to-pprof
# SPDX-License-Identifier: GPL-2.0

# Converts samples to a profile for pprof, and decodes it again: it has all samples and the
# functions that perf report has, and a conversion that fails leaves no file.

set -e

perf data convert -h 2>&1 | grep -q to-pprof || { echo "Skip, built without pprof"; exit 2; }
for tool in protoc gunzip; do
	command -v "${tool}" > /dev/null || { echo "Skip, no ${tool}"; exit 2; }
done

dir=$(mktemp -d /tmp/__perf_test.pprof.XXXXX)
data=${dir}/perf.data
out=${dir}/out.pb.gz

cleanup() {
	rm -rf "${dir}"
	trap - EXIT TERM INT
}
trap 'cleanup; exit 1' EXIT TERM INT

err=0
fail() {
	echo "$1 [Failed]"
	err=1
}

# Decode without knowing names of fields: they are those of the format.
decode() {
	gunzip -c "$1" | protoc --decode_raw
}

# The sum of the first values of all samples, as pprof reads them.
samples_of() {
	go tool pprof -raw "$1" 2> /dev/null | awk '
		/^Samples:/ { on = 1; next }
		/^Locations/ { on = 0 }
		on && $1 ~ /^[0-9]+$/ { sum += $1 }
		END { print sum + 0 }'
}

convert() {
	perf data convert "$@" > "${dir}/log" 2>&1
}

test_samples() {
	echo "Samples"
	perf record -q -e cpu-clock:u -g -o "${data}" -- perf test -w noploop 1 2> /dev/null
	convert -i "${data}" --to-pprof "${out}" || fail "Convert"
	decode "${out}" > "${dir}/raw" || fail "Decode"
	grep -q noploop "${dir}/raw" || fail "The sampled function"
	grep -q "cpu-clock:u" "${dir}/raw" || fail "Name of the event"
	command -v go > /dev/null || return 0
	nr=$(perf script -i "${data}" -F ip,comm 2> /dev/null | grep -c '^[a-z]')
	[ "$(samples_of "${out}")" = "${nr}" ] || fail "Number of samples: ${nr}"
}

# Whether a profile has a string.
has() {
	decode "$1" | grep -qx "6: \"$2\""
}

# A sample has callers whose part of the chain is unwound here, and where it was taken even if its
# chain lacks that.
test_whole() {
	echo "Whole stacks"
	perf record -q -e cpu-clock:u --call-graph dwarf -o "${dir}/dwarf" -- \
		perf test -w noploop 1 2> /dev/null
	convert -i "${dir}/dwarf" --to-pprof "${dir}/dwarf.pb.gz" || fail "Convert dwarf's chains"
	has "${dir}/dwarf.pb.gz" main || fail "Callers that are unwound"

	perf record -q -e cpu-clock:k -g --user-callchains -o "${dir}/user" -- \
		dd if=/dev/zero of=/dev/null bs=1M count=4000 2> /dev/null
	convert -i "${dir}/user" --to-pprof "${dir}/user.pb.gz" || fail "Convert user callchains"
	has "${dir}/user.pb.gz" '\[kernel.kallsyms\].*' || fail "The sampled function in the kernel"
}

# Functions that a function was made of, and two pieces of generated code at their offset 0.
test_names() {
	echo "Names"
	command -v cc > /dev/null || { echo "No compiler"; return 0; }
	cat > "${dir}/names.c" <<- 'END'
		#include <stdio.h>
		#include <string.h>
		#include <sys/mman.h>
		#include <time.h>
		#include <unistd.h>

		/* dec %edi; jne to it; ret */
		static const unsigned char loop[] = { 0xff, 0xcf, 0x75, 0xfc, 0xc3 };
		static volatile int sink;

		static __attribute__((always_inline)) inline void is_inlined(void)
		{
			for (int i = 0; i < 1000000; i++)
				sink = i;
		}

		__attribute__((noipa)) void not_inlined(void)
		{
			is_inlined();
		}

		int main(void)
		{
			void (*code[2])(int);
			char name[64];
			FILE *file;

			snprintf(name, sizeof(name), "/tmp/perf-%d.map", getpid());
			file = fopen(name, "w");
			for (int i = 0; i < 2; i++) {
				/* With a gap, or the two are one. */
				char *page = mmap(NULL, 3 * 4096, PROT_NONE,
						  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

				mprotect(page + 4096, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
				page = mmap(page + 4096, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
					    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
				memcpy(page, loop, sizeof(loop));
				fprintf(file, "%lx %zx generated_%d\n", (long)page, sizeof(loop),
					i);
				code[i] = (void *)page;
			}
			fclose(file);
			for (time_t end = time(NULL) + 3; time(NULL) < end;) {
				not_inlined();
				code[0](1000000);
				code[1](1000000);
			}
			return 0;
		}
	END
	cc -O2 -g -o "${dir}/names" "${dir}/names.c"
	perf record -q -e cpu-clock:u -g -o "${dir}/jit" -- "${dir}/names" 2> /dev/null
	convert -i "${dir}/jit" --to-pprof "${dir}/jit.pb.gz" || fail "Convert generated code"
	pid=$(perf script -i "${dir}/jit" -F pid 2> /dev/null | awk '{ print $1; exit }')
	rm -f "/tmp/perf-${pid}.map"
	for name in not_inlined is_inlined generated_0 generated_1; do
		has "${dir}/jit.pb.gz" "${name}" || fail "Name ${name}"
	done
	has "${dir}/jit.pb.gz" "${dir}/names.c" || fail "Name of the source file"
}

# The line and function of a caller are those of its call. Where a page fault interrupts a task,
# they are those of the instruction, even if it is the first one of a function. The configured
# order of callchains does not matter.
test_lines() {
	echo "Lines"
	command -v cc > /dev/null || return 0
	cat > "${dir}/lines.c" <<- 'END'
		#include <sys/mman.h>

		/* Its first instruction faults, and what is before it is another function. */
		void touch(char *page);
		asm(".pushsection .text\n"
		    ".type never_runs, @function\n"
		    "never_runs: ret\n"
		    ".size never_runs, . - never_runs\n"
		    ".type touch, @function\n"
		    "touch: movb $1, (%rdi)\n"
		    "ret\n"
		    ".size touch, . - touch\n"
		    ".popsection\n");

		__attribute__((noipa)) void caller(char *page)
		{
			touch(page);
			asm volatile("");
		}

		int main(void)
		{
			const long size = 4000 * 4096;
			char *pages = mmap(0, size, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

			for (long at = 0; at < size; at += 4096)
				caller(pages + at);
			return 0;
		}
	END
	cc -O2 -g -fno-omit-frame-pointer -o "${dir}/lines" "${dir}/lines.c"
	perf record -q -e page-faults -c 1 -g -o "${dir}/faults" -- "${dir}/lines" 2> /dev/null
	printf '[call-graph]\n\torder = caller\n' > "${dir}/config"
	PERF_CONFIG=${dir}/config convert -i "${dir}/faults" --to-pprof "${dir}/faults.pb.gz" ||
		fail "Convert faults"
	has "${dir}/faults.pb.gz" touch || fail "The function that faults"
	! has "${dir}/faults.pb.gz" never_runs || fail "A function that never runs"
	command -v go > /dev/null || return 0
	go tool pprof -traces "${dir}/faults.pb.gz" > "${dir}/traces" 2> /dev/null
	tr -s '\n ' ' ' < "${dir}/traces" | grep -q ' touch main ' || fail "Order of callers"
	go tool pprof -list '^main$' "${dir}/faults.pb.gz" 2> /dev/null |
		grep -q ' [1-9][0-9.k]* .*caller(pages + at)' || fail "Line of a call"
}

# The number of samples stays apart from an event of that name.
test_types() {
	echo "Types"
	perf record -q -e cpu-clock/name=samples/u -o "${dir}/types" -- perf test -w noploop 1 \
		2> /dev/null
	convert -i "${dir}/types" --to-pprof "${dir}/types.pb.gz" || fail "Convert types"
	[ "$(decode "${dir}/types.pb.gz" | grep -c '^1 {')" = 2 ] || fail "Types of samples"
}

test_refused() {
	echo "Refused"
	cp "${out}" "${dir}/before"
	! convert -i "${data}" --to-pprof "${out}" || fail "An existing file"
	grep -q "exists; --force" "${dir}/log" || fail "Message for an existing file"
	cmp -s "${out}" "${dir}/before" || fail "An existing file has changed"
	ln -s "${out}" "${dir}/link"
	convert -f -i "${data}" --to-pprof "${dir}/link" || fail "With --force"
	[ -L "${dir}/link" ] || fail "A link was replaced"
	ln -s "${dir}/nowhere" "${dir}/lost"
	! convert -i "${data}" --to-pprof "${dir}/lost" || fail "A link to nowhere"
	[ -L "${dir}/lost" ] || fail "A link to nowhere was replaced"
	chmod 600 "${out}"
	convert -f -i "${data}" --to-pprof "${out}" || fail "A private file"
	[ "$(stat -c %a "${out}")" = 600 ] || fail "Mode of a private file"
	! convert -i "${data}" --to-pprof "${dir}/a" --to-json "${dir}/b" || fail "Two formats"
	! convert -i "${data}" --to-pprof "${dir}/none/out" || fail "A directory that is not there"
	grep -q "cannot be written: No such file" "${dir}/log" || fail "Message without a directory"
	! convert -i "${data}" --to-pprof /dev/full || fail "A full disk"
	grep -q "cannot be written: No space left" "${dir}/log" || fail "Message of a full disk"
}

# What a cut file still has is converted, as perf report shows it; nothing is left of a conversion
# that fails.
test_damaged() {
	echo "Damaged files"
	perf record -q -e cpu-clock:u -c 100000000 -o "${dir}/small" -- perf test -w noploop 1 \
		2> /dev/null
	# Cuts in the samples, and in the features at the end.
	size=$(stat -c %s "${dir}/small")
	part=$((size / 8))
	for cut in $(seq ${part} ${part} "${size}") $(seq $((size - 3500)) 100 "${size}"); do
		head -c "${cut}" "${dir}/small" > "${dir}/cut"
		mkdir "${dir}/new"
		rc=0
		convert -f -i "${dir}/cut" --to-pprof "${dir}/new/out" || rc=$?
		[ "${rc}" -lt 128 ] || fail "A crash after ${cut} bytes"
		if [ "${rc}" = 0 ]; then
			decode "${dir}/new/out" > /dev/null || fail "A bad profile of ${cut} bytes"
			rm "${dir}/new/out"
		fi
		rmdir "${dir}/new" || fail "Files left of ${cut} bytes"
	done
	perf record -q -e cpu-clock:k -D 100000 -o "${dir}/empty" -- true 2> /dev/null
	! convert -i "${dir}/empty" --to-pprof "${dir}/none" || fail "No samples"
	grep -q "has no samples" "${dir}/log" || fail "Message without samples"
	[ ! -e "${dir}/none" ] || fail "A file without samples"
}

test_pipe() {
	echo "Pipes"
	perf record -q -e cpu-clock:u -g -o - -- perf test -w noploop 1 2> /dev/null |
		perf data convert -i - --to-pprof "${dir}/pipe" > "${dir}/log" 2>&1 ||
		fail "From a pipe"
	decode "${dir}/pipe" | grep -q noploop || fail "The sampled function from a pipe"
}

# A server for continuous profiling takes the file by HTTP, as its manual says: in a form, whose
# part "profile" it is; what it is of is in the query. This one keeps the form and the query.
test_push() {
	echo "Push"
	for tool in python3 curl; do
		command -v "${tool}" > /dev/null || { echo "No ${tool}"; return 0; }
	done
	cat > "${dir}/server.py" <<- 'END'
		import http.server
		import sys

		class Server(http.server.BaseHTTPRequestHandler):
		    def do_POST(self):
		        form = self.rfile.read(int(self.headers["Content-Length"]))
		        end = b"--" + self.headers.get_boundary().encode() + b"--"
		        assert form.rstrip().endswith(end)
		        head, part = form.split(b"\r\n\r\n", 1)
		        assert b'name="profile"' in head
		        with open(sys.argv[1] + "/pushed", "wb") as file:
		            file.write(part[:part.rindex(b"\r\n" + end)])
		        with open(sys.argv[1] + "/query", "w") as file:
		            file.write(self.path)
		        self.send_response(200)
		        self.end_headers()

		server = http.server.HTTPServer(("127.0.0.1", 0), Server)
		with open(sys.argv[1] + "/port", "w") as file:
		    file.write(str(server.server_port))
		server.timeout = 60
		server.handle_request()
	END
	python3 "${dir}/server.py" "${dir}" > "${dir}/log" 2>&1 &
	for _ in $(seq 300); do
		[ ! -s "${dir}/port" ] || break
		sleep 0.1
	done
	query="/ingest?name=host&from=1&until=2&format=pprof"
	curl -fsS -F "profile=@${out}" "http://127.0.0.1:$(cat "${dir}/port")${query}" ||
		fail "The server refuses it: $(tail -n 1 "${dir}/log")"
	wait
	cmp "${dir}/pushed" "${out}" || fail "What the server has"
	[ "$(cat "${dir}/query")" = "${query}" ] || fail "What the server is told"
}

test_samples
test_push
test_whole
test_names
test_lines
test_types
test_refused
test_damaged
test_pipe

cleanup
exit ${err}
