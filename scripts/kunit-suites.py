#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Name the KUnit suites that a kernel runs at boot: kunit-suites.py VMLINUX

Two pairs of symbols delimit the tables of pointers to suites; a suite begins with its name. For
a file with another layout, prints an error and ends with status 1.
"""

import mmap
import struct
import subprocess
import sys

TABLES = ("__kunit_suites", "__kunit_init_suites")
NAME = 256  # bytes in a name
MOST = 10000  # suites in a table
PT_LOAD = 1


def symbols(path):
    """Return the start and end addresses of each table."""
    lines = subprocess.run(["nm", "--", path], capture_output=True, check=True,
                           text=True).stdout.splitlines()
    found = {words[2]: int(words[0], 16) for words in map(str.split, lines) if len(words) == 3}
    return [(found[table + "_start"], found[table + "_end"]) for table in TABLES]


def segments(image):
    """Yield address, size in the file and offset in the file of each loaded segment."""
    (offset,) = struct.unpack_from("<Q", image, 32)
    size, number = struct.unpack_from("<HH", image, 54)
    for at in range(offset, offset + size * number, size):
        kind, _, start, address, _, length = struct.unpack_from("<IIQQQQ", image, at)
        if kind == PT_LOAD:
            yield address, length, start


def read(image, address, size):
    for begin, length, offset in segments(image):
        at = offset + address - begin
        if begin <= address and address + size <= min(begin + length, begin - offset + len(image)):
            return image[at:at + size]
    raise ValueError(f"nothing is at {address:#x}")


def suites(path):
    with open(path, "rb") as file:
        image = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    for start, end in symbols(path):
        if not 0 <= end - start <= 8 * MOST:
            raise ValueError(f"a table from {start:#x} to {end:#x}")
        table = read(image, start, end - start) if start < end else b""
        for (suite,) in struct.iter_unpack("<Q", table):
            yield read(image, suite, NAME).partition(b"\0")[0].decode()


if __name__ == "__main__":
    try:
        print("\n".join(suites(sys.argv[1])))
    except (OSError, ValueError, LookupError, struct.error, subprocess.SubprocessError) as error:
        sys.exit(f"kunit-suites: {sys.argv[1]}: its suites cannot be read: {error}")
