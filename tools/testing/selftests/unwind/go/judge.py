#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Compare chains of the Go program: judge.py IN-PLACE DEFERRED MOVED-BEFORE MOVED-AFTER

The files are the output of 'perf script --no-inline -F comm,ip,sym,dso', the numbers are
the counter empty_moved of unwind/stats before and after the deferred recording. Each class
of samples is one result in TAP: enough samples, and nearly all deferred chains complete. The
counts in place are printed for comparison, with the most frequent incomplete chains.
"""

import collections
import re
import sys

COMM = "stacks"
LEAST_SAMPLES = 50
LEAST_PERCENT = 98
# An assembly function may have a suffix for its calling convention.
SUFFIX = re.compile(r"\.abi(0|internal)$")
FRAME = re.compile(r"\s+([0-9a-f]+) (.*?) ?\(([^()]*(?:\(deleted\))?)\)$")

GOROUTINE = ("runtime.goexit",)
ROOTS = GOROUTINE + ("runtime.rt0_go", "runtime.mstart")
# The system stacks of threads that C created begin with these.
C_ROOTS = ("crosscall", "threadentry", "start_thread", "clone", "_start")


class Chain:
    """User frames of a sample, innermost first."""

    def __init__(self, frames):
        self.names = [SUFFIX.sub("", name) for name, _ in frames]
        self.top = self.names[0] if frames else ""
        self.caller = self.names[1] if len(frames) > 1 else ""
        self.top_file = frames[0][1] if frames else ""

    def has(self, *names):
        """Does one of these functions occur?"""
        return any(name in self.names for name in names)

    def begins(self, *prefixes):
        """Does a function occur whose name begins with one of these?"""
        return any(name.startswith(prefixes) for name in self.names)

    def others(self):
        """Does a function occur that calls duffzero(), but is not under test?"""
        return self.has("main.deepen") or (self.caller.startswith("runtime.") and
                                           self.caller not in GOROUTINE)

    def reaches(self, *names):
        """Do all these functions occur, and the start of a goroutine?"""
        return self.has(*GOROUTINE) and all(self.has(name) for name in names)


# name: (does a chain belong to it?, is it complete?)
CLASSES = {
    "with a user stack": (
        lambda chain: True,
        lambda chain: chain.names),
    # A chain that ends too soon may not belong to any class below.
    "all": (
        lambda chain: chain.names,
        lambda chain: chain.begins(*ROOTS, *C_ROOTS)),
    "plain Go": (
        lambda chain: chain.begins("main.plain"),
        lambda chain: chain.reaches()),
    "systemstack": (
        lambda chain: chain.has("runtime.systemstack"),
        lambda chain: chain.begins(*ROOTS)),
    "allocation": (
        lambda chain: chain.has("runtime.mallocgc", "runtime.hashGrow", "runtime.growWork"),
        lambda chain: chain.begins(*ROOTS)),
    # gcBgMarkWorker() calls it on the system stack, through a function literal.
    "GC workers": (
        lambda chain: chain.has("runtime.gcDrain"),
        lambda chain: chain.begins("runtime.gcBgMarkWorker") and chain.reaches()),
    "C": (
        lambda chain: chain.has("burn_leaf", "burn"),
        lambda chain: chain.reaches("burn", "main.callC")),
    "Go called by C": (
        lambda chain: chain.has("main.calledBack"),
        lambda chain: chain.reaches("burn_in_go", "main.callBack")),
    "duffzero": (
        lambda chain: chain.top == "runtime.duffzero" and not chain.others(),
        lambda chain: chain.caller == "main.zero" and chain.reaches()),
    "duffcopy": (
        lambda chain: chain.top == "runtime.duffcopy" and not chain.others(),
        lambda chain: chain.caller == "main.copies" and chain.reaches()),
    "vDSO": (
        lambda chain: chain.top_file == "[vdso]",
        lambda chain: chain.begins(*ROOTS)),
    "growing stacks": (
        lambda chain: chain.has("main.deepen"),
        lambda chain: chain.reaches()),
}


def read(path):
    """The chains of the program's samples."""
    chains = []
    with open(path, encoding="utf-8", errors="replace") as file:
        samples = file.read().split("\n\n")
    for sample in samples:
        comm, *lines = sample.strip("\n").split("\n")
        if comm.strip() != COMM:
            continue
        frames = [match.groups() for match in map(FRAME.match, lines) if match]
        if len(frames) != len(lines):
            raise ValueError(f"{path}: what is this? {lines}")
        # Addresses of kernel frames are in the upper half.
        chains.append(Chain([(name, file) for ip, name, file in frames
                             if int(ip, 16) < 1 << 63]))
    return chains


class Results:
    """Print and count results."""

    def __init__(self):
        self.nr = self.failed = 0

    def result(self, good, name):
        """One line of TAP."""
        self.nr += 1
        self.failed += not good
        print("ok" if good else "not ok", self.nr, "-", name)

    def judge(self, name, in_place, deferred):
        """Compare the chains of one class."""
        belongs, complete = CLASSES[name]
        figures = []
        for chains in (in_place, deferred):
            mine = [chain for chain in chains if belongs(chain)]
            bad = [chain for chain in mine if not complete(chain)]
            figures.append((len(mine) - len(bad), len(mine), bad))
        (good, of, bad), (good_deferred, of_deferred, bad_deferred) = figures
        print(f"# {name}: in place {good} of {of}, deferred {good_deferred} of {of_deferred}")
        if min(of, of_deferred) < LEAST_SAMPLES:
            self.result(False, f"{name}: too few samples")
            return
        for word, chains in ("in place", bad), ("deferred", bad_deferred):
            ends = collections.Counter(" < ".join(chain.names[:4] + ["..."] * (
                len(chain.names) > 6) + chain.names[4:][-2:]) for chain in chains)
            for end, number in ends.most_common(3):
                print(f"# {word}, incomplete: {number} {end}")
        self.result(100 * good_deferred >= LEAST_PERCENT * of_deferred, name)


def main(in_place, deferred, before, after):
    """Print all results."""
    in_place, deferred = read(in_place), read(deferred)
    results = Results()
    for name in CLASSES:
        results.judge(name, in_place, deferred)
    print(f"# empty_moved: {before} before the deferred recording, {after} after it")
    results.result(before == after and after.isdigit(), "no traces withheld")
    print(f"1..{results.nr}")
    return 1 if results.failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except ValueError as error:
        print(f"# {error}\n1..1\nnot ok 1 - chains can be read")
        sys.exit(1)
