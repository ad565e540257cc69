#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Check that the files of kernel/unwind use each other one way only: circles.py FOLDER

FOLDER has the objects. If each file uses only files below it, any of them can be read, tested and
replaced with what is below. Tests reach into all of them, and are left out.
"""

import collections
import glob
import graphlib
import os
import subprocess
import sys

# Files that are one: whatever makes room in the cache drops objects of it.
GROUPS = [{"object", "load", "room"}]


SOURCES = os.path.join(os.path.dirname(__file__), "..", "kernel", "unwind")


def is_file(name):
    """Is this an object of a file that is there, and not one of a test?"""
    return (os.path.exists(os.path.join(SOURCES, name + ".c"))
            and not name.startswith("test_") and not name.endswith("_kunit"))


def name_of(name):
    """The name of a file, or of the files that count as one with it."""
    return next(("+".join(sorted(group)) for group in GROUPS if name in group), name)


def symbols(path):
    """Return the symbols that an object defines for others, and those that it uses.

    Names with two underscores are those of trace events and of the compiler.
    """
    defined, used = set(), set()
    for line in subprocess.run(["nm", path], check=True, capture_output=True,
                               text=True).stdout.splitlines():
        kind, symbol = line.split()[-2:]
        if symbol.startswith("__"):
            continue
        if kind == "U":
            used.add(symbol)
        elif kind.isupper():
            defined.add(symbol)
    return defined, used


def main():
    """Returns the exit status."""
    owner, uses = {}, collections.defaultdict(set)
    for path in glob.glob(os.path.join(sys.argv[1], "*.o")):
        name = os.path.basename(path)[:-len(".o")]
        if not is_file(name):
            continue
        defined, used = symbols(path)
        owner.update({symbol: name_of(name) for symbol in defined})
        uses[name_of(name)] |= used
    if not uses:
        print(f"{sys.argv[1]} has no objects: run make kernel")
        return 1

    graph = {name: {owner[symbol] for symbol in used if symbol in owner} - {name}
             for name, used in uses.items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        # Each file of the circle comes before the one that uses it.
        circle = error.args[1]
        for below, above in zip(circle, circle[1:]):
            used = sorted(symbol for symbol in uses[above] if owner.get(symbol) == below)
            print(f"{above}.c uses {below}.c: {' '.join(used)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
