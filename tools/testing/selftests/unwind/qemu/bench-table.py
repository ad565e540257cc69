#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The table of make bench: bench-table.py DIRECTORY

Reads "times", "chains" and the recordings that guest-bench.sh left. The cost of a
sample is what the work took longer than without a profiler, divided by the
samples. Each figure is the median of the rounds; behind it is half the range.
"""

import os
import re
import sys

from perfdata import PerfData

WAYS = ("fp", "deferred", "dwarf,8192", "dwarf,8192,defer")
# What user_regs counts.
SHOTS = re.compile(r"(\w+):no registers (\d+) \((\d+) elsewhere\), stale (\d+), torn (\d+), "
                   r"with -1 (\d+), all right (\d+)")
HITS = re.compile(r"(\w+):(\d+) NMIs, (\d+) in the kernel, (\d+) in entry code, "
                  r"(\d+) of them in the gap")
SHOOTINGS = 7
CALLS = 100000
# What a record, a task work and a look at the code may cost.
ALONE = 1600


def figure(values, digits=0):
    """Median and half of the range."""
    values = sorted(values)
    spread = (values[-1] - values[0]) / 2
    return f"{values[len(values) // 2]:,.{digits}f} ±{spread:,.{digits}f}"


def median(values):
    """The middle one."""
    return sorted(values)[len(values) // 2]


class Bench:
    """What was measured."""

    def __init__(self, out):
        self.out = out
        self.times = {}
        with open(os.path.join(out, "times"), encoding="ascii") as file:
            for line in file:
                work, depth, way, _, ns = line.split()
                self.times.setdefault((work, int(depth), way), []).append(int(ns))
        with open(os.path.join(out, "chains"), encoding="ascii") as file:
            self.chains = {f[0]: tuple(map(int, f[1:])) for f in map(str.split, file)}
        self.rounds = len(self.times[("getppid", 5, "none")])
        self.programs = {}
        with open(os.path.join(out, "bpf"), encoding="ascii") as file:
            for line in file:
                what, depth, _, ns, samples = line.split()
                none = median(self.times[("bulk", int(depth), "none")])
                self.programs.setdefault((what, int(depth)), []).append(
                    (int(ns) - none) / int(samples))

    def data(self, work, depth, way):
        """The recording of each round."""
        return [PerfData(os.path.join(self.out, f"{work}-{depth}-{way}-{r}.data"))
                for r in range(1, self.rounds + 1)]

    def costs(self, work, depth, way, data):
        """Instructions per sample in each round."""
        base = median(self.times[(work, depth, "none")])
        return [(ns - base) / len(d.samples)
                for ns, d in zip(self.times[(work, depth, way)], data)]

    def reach(self, work, depth, way, column):
        """Share of the samples whose chain reaches main (1) or _start (2)."""
        chains = self.chains[f"{work}-{depth}-{way}-1"]
        return f"{100 * chains[column] / chains[0]:.1f} %"


def row(name, label, cells):
    """Print a line of the table."""
    print(f"{name:24}{label:24}".ljust(48) + "".join(f"{cell:>17}" for cell in cells))


def totals(bench):
    """
    A sample for each kernel entry, or none: all that it costs. Returns whether to
    defer costs no more than to walk in place, but for ALONE: below a short stack the
    record of its own and the way to it are more than what is saved. And whether a stack
    that is deferred takes no more room than one in the sample.
    """
    cheaper = smaller = True
    for work in ("read", "user"):
        for depth in (5, 100):
            data = {way: bench.data(work, depth, way) for way in WAYS}
            costs = {way: bench.costs(work, depth, way, data[way]) for way in WAYS}
            row(f"{work}, {depth} frames below", "instructions",
                [figure(costs[way]) for way in WAYS])
            more = median(costs["deferred"]) - median(costs["fp"])
            cheaper &= more <= (ALONE if depth == 5 else 0)
            size = {way: [d.bytes / len(d.samples) for d in data[way]] for way in WAYS}
            row("", "bytes", [figure(size[way]) for way in WAYS])
            smaller &= median(size["dwarf,8192,defer"]) <= median(size["dwarf,8192"])
            row("", "samples lost",
                [figure([d.lost_samples for d in data[way]]) for way in WAYS])
            for label, column in (("chain reaches main", 1), ("chain reaches _start", 2)):
                row("", label, [bench.reach(work, depth, way, column) for way in WAYS])
    return cheaper, smaller


def frames(bench):
    """
    What a frame more costs; and what is forgotten when mappings change, which is the
    same at any depth.
    """
    for work, label in (("read", "in a system call"), ("user", "in user mode")):
        cells = []
        for way in WAYS:
            cost = {depth: bench.costs(work, depth, way, bench.data(work, depth, way))
                    for depth in (5, 100)}
            cells.append(figure([(deep - flat) / 95
                                 for flat, deep in zip(cost[5], cost[100])], 1))
        row("a frame", label, cells)
    row("mappings changed, 5 below", "", [figure(bench.costs("cold", 5, way,
                                                             bench.data("cold", 5, way)))
                                          for way in WAYS[:2]])


def interrupts(bench):
    """
    Some 80 samples in each kernel entry: interrupt and NMI are nearly all that counts.
    Returns whether a deferred sample costs the same whatever the depth, but for its
    share of the one walk, and whether stacks that are deferred take a fifth of the room.
    """
    smaller = True
    deferred = []
    for depth in (5, 30, 120, 500):
        costs = {way: bench.costs("bulk", depth, way, bench.data("bulk", depth, way))
                 for way in WAYS}
        row(f"{depth} frames below", "instructions", [figure(costs[way]) for way in WAYS])
        deferred.append(median(costs["deferred"]))
        size = {way: [d.bytes / len(d.samples) for d in bench.data("bulk", depth, way)]
                for way in WAYS}
        row("", "bytes", [figure(size[way]) for way in WAYS])
        smaller &= 5 * median(size["dwarf,8192,defer"]) <= median(size["dwarf,8192"])
    # A walk of 500 frames, divided by 80, is about 2 instructions a frame.
    return deferred[-1] - deferred[0] < 2 * 500, smaller


def programs(bench):
    """
    What BPF programs in NMI pay for user stacks. Returns whether one that asks costs at
    most half of one that takes the stack below 30 frames, each without what a program
    that does nothing costs.
    """
    ways = ("nothing", "stackid", "deferred")
    print(f"{'':48}" + "".join(f"{head:>17}" for head in (
        "nothing", "get_stackid", "deferred")))
    for depth in (5, 30, 120, 500):
        costs = [bench.programs[(way, depth)] for way in ways]
        row(f"{depth} frames below", "instructions", [figure(cost) for cost in costs])
    nothing, stackid, deferred = (median(bench.programs[(way, 30)]) for way in ways)
    return 2 * (deferred - nothing) <= stackid - nothing


def registers(bench):
    """
    Samples in NMI with user registers, on the base and with the series. Returns whether
    they got cheaper, and whether none is wrong any more.
    """
    costs = {}
    for name, way, none in (("unpatched base", "base-regs", "base-none"),
                            ("this kernel", "regs", "none")):
        base = median(bench.times[("bulk", 5, none)])
        costs[name] = [(ns - base) / len(d.samples)
                       for ns, d in zip(bench.times[("bulk", 5, way)],
                                        bench.data("bulk", 5, way))]
        print(f"  {name:16}" + figure(costs[name]))
    print("\nregisters of samples that hit the kernel, by what is done:")
    print("".join(f"{head:>14}" for head in ("", "", "NMIs", "in the gap", "none", "stale",
                                             "torn", "with -1", "right")))
    wrong = {"base": [], "series": []}
    for name in wrong:
        with open(os.path.join(bench.out, f"regs-{name}"), encoding="ascii") as file:
            text = file.read()
        hits = {m[1]: m for m in HITS.finditer(text)}
        for m in SHOTS.finditer(text):
            cells = (name, m[1].removeprefix("nmi_in_"), hits[m[1]][3], hits[m[1]][5],
                     f"{100 * int(m[2]) / int(hits[m[1]][3]):.1f} %", m[4], m[5], m[6], m[7])
            print("".join(f"{cell:>14}" for cell in cells))
            wrong[name].append(tuple(map(int, m.group(4, 6))))
    costs = [median(c) for c in costs.values()]
    # On the base it is stale in the gap, and -1 everywhere: that is what it is for.
    seen = len(wrong["base"]) == SHOOTINGS and all(map(all, wrong["base"][:1]))
    return costs[1] < costs[0], seen and wrong["series"] == SHOOTINGS * [(0, 0)]


def main(out):
    bench = Bench(out)
    row("per sample", "", WAYS)
    cheaper, small = totals(bench)
    print()
    frames(bench)
    print()
    print("in interrupt and NMI, per sample:")
    constant, smaller = interrupts(bench)
    print()
    print("in NMI, per sample that a BPF program sees:")
    half = programs(bench)
    print()
    print("in NMI, per sample with 3 user registers:")
    cheap_regs, right = registers(bench)
    print("\ngetppid() when nobody profiles, instructions a round trip:")
    for name, way in (("unpatched base", "base"), ("this kernel", "none")):
        print(f"  {name:16}"
              + figure([ns / CALLS for ns in bench.times[("getppid", 5, way)]], 2))
    print(f"\nA figure is the median of {bench.rounds} rounds, and half of the range "
          "between them.")
    if not constant:
        print("bench: a deferred sample costs more the deeper the stack is", file=sys.stderr)
    if not cheaper:
        print(f"bench: deferred costs more than fp below 100 frames, or {ALONE} more below 5",
              file=sys.stderr)
    if not small:
        print("bench: a deferred stack takes more room than one in the sample",
              file=sys.stderr)
    if not smaller:
        print("bench: deferred stacks take more than a fifth of the room", file=sys.stderr)
    if not half:
        print("bench: a BPF program that asks costs more than half of one that calls "
              "bpf_get_stackid()", file=sys.stderr)
    if not cheap_regs:
        print("bench: samples with user registers cost more than on the base", file=sys.stderr)
    if not right:
        print("bench: there are samples with wrong user registers, or none on the base",
              file=sys.stderr)
    return 0 if constant and cheaper and small and smaller and half and cheap_regs and right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
