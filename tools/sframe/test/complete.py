#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""How many user stacks are complete: complete.py < OUTPUT, or complete.py PROGRAM < TRACE

OUTPUT is the output of 'perf script --no-inline -F ip,sym,dso,dsoff', TRACE is ftrace's output
for a process of PROGRAM. A stack is complete if it ends where a task begins: at the entry
point of a program or of the dynamic linker, or in clone(). Samples of kernel threads, exec
and exit have no user stack.
Prints samples with user stacks, complete ones, the mean number of user frames in these
samples, the number of samples without user stack, and the last frames of incomplete ones.
"""
import collections
import os
import re
import struct
import sys

# The start code of no program is longer.
START_SIZE = 64

starts = {}


def start(path):
    """Return the offset of the entry point in a file."""
    if path not in starts:
        starts[path] = None
        try:
            with open(path, "rb") as file:
                image = file.read(4096)
        except OSError:
            return None
        if image[:4] != b"\x7fELF" or len(image) < 64:
            return None
        entry, phoff = struct.unpack_from("<QQ", image, 24)
        number = struct.unpack_from("<H", image, 56)[0]
        for i in range(number):
            if phoff + (i + 1) * 56 > len(image):
                break
            kind, _, offset, addr, _, size = struct.unpack_from("<IIQQQQ", image, phoff + i * 56)
            if kind == 1 and addr <= entry < addr + size:
                starts[path] = entry - addr + offset
    return starts[path]


def ends(frame):
    """Is this the first frame of a task?"""
    match = re.match(r"\s*[0-9a-f]+ (.*?) ?\((.*)\+0x([0-9a-f]+)\)$", frame)
    if not match:
        return False
    symbol, path, offset = match.group(1), match.group(2), int(match.group(3), 16)
    if re.match(r"(__)?clone3?(\+|$)", symbol):
        return True
    at = start(path)
    return at is not None and 0 <= offset - at < START_SIZE


def in_user(frame):
    """Is this a frame of user space? Symbols of another machine's kernel may lack a name."""
    match = re.match(r"\s*([0-9a-f]+) ", frame)
    return bool(match) and int(match.group(1), 16) < 1 << 63


def read_trace(program):
    """Read the stacks of a trace; print how many there are, and how many are complete."""
    stacks = complete = 0
    at = start(program)
    for line in sys.stdin:
        match = re.search(r"user_unwind_stack: .* offsets=\{.*?(0x[0-9a-f]+)\} "
                          r"inodes=\{.*?(0x[0-9a-f]+)\}", line)
        if match:
            stacks += 1
            offset, inode = (int(number, 16) for number in match.groups())
            complete += (inode == os.stat(program).st_ino and
                         0 <= offset - at < START_SIZE)
    print(stacks, complete)


def read_samples():
    """Read samples, and print a summary."""
    samples = complete = frames = without = 0
    others = collections.Counter()
    for sample in sys.stdin.read().split("\n\n"):
        lines = [line for line in sample.split("\n") if line.strip()]
        if not lines:
            continue
        if not in_user(lines[-1]):
            without += 1
            continue
        samples += 1
        frames += sum(in_user(line) for line in lines)
        if ends(lines[-1]):
            complete += 1
        else:
            others[lines[-1].strip()] += 1
    print(samples, complete, f"{frames / max(samples, 1):.1f}", without)
    for frame, number in others.most_common(5):
        print("#", number, frame)


if len(sys.argv) > 1:
    read_trace(sys.argv[1])
else:
    read_samples()
