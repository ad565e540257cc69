#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The table of make bench: bench-table.py DIRECTORY

Reads "times", "chains", "start", "stock" and the recordings that guest-bench.sh left,
and "complete" of bench.sh. The cost of a sample is what the work took longer than without
a profiler, divided by the samples. Each figure is the median of the rounds; behind it is
half the range.
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
# SFrame: times what a frame costs in place, instructions for one that was not seen
# before and for a section of the size of a C library's, and memory per byte of that.
WARM, COLD, LOAD, MEMORY = 3, 800, 2000000, 1.15
# Programs of a distribution: instructions of perf record for sections of its cache; times
# fp for a sample, which is to be cheaper than dwarf's, too; its bytes, but for 8 for each
# user frame; and the share of stacks that are complete, since what is not walked costs
# nothing.
START, STOCK, BYTES, COMPLETE = 30000000, 3, 130, 0.99
STOCK_WAYS = WAYS[:3]


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
        cells = [figure(per_frame(bench, work, way, (5, 100)), 1) for way in WAYS]
        row("a frame", label, cells)
    row("mappings changed, 5 below", "", [figure(bench.costs("cold", 5, way,
                                                             bench.data("cold", 5, way)))
                                          for way in WAYS[:2]])


def per_frame(bench, work, way, depths):
    """What a frame more costs, in each round."""
    flat, deep = (bench.costs(work, depth, way, bench.data(work, depth, way))
                  for depth in depths)
    return [(b - a) / (depths[1] - depths[0]) for a, b in zip(flat, deep)]


def sframe(bench):
    """
    Frames that only SFrame tells of, the section of bench-chain, and the programs that
    three assemblers made. Returns whether all of it is within its limits.
    """
    good = True
    for work, label in (("read", "in a system call"), ("user", "in user mode")):
        place, deferred = (per_frame(bench, work, "fp", (5, 100)),
                           per_frame(bench, work + "-1", "deferred", (5, 100)))
        row("a frame seen before", label, [figure(place, 1), figure(deferred, 1)])
        good &= median(deferred) <= WARM * median(place)
    deep = per_frame(bench, "read-1", "deferred", (100, 500))
    row("", "100 to 500 below", ["", figure(deep, 1)])
    good &= median(deep) <= WARM * median(per_frame(bench, "read", "fp", (5, 100)))
    cold = per_frame(bench, "read-3700", "deferred", (300, 700))
    row("a frame not seen before", "in a system call", ["", figure(cold, 1)])

    # Samples while it is read cost as much as others.
    data = bench.data("reload-1", 5, "deferred")
    sample = median(bench.costs("read-1", 5, "deferred", bench.data("read-1", 5, "deferred")))
    base = median(bench.times[("reload-1", 5, "none")])
    with open(os.path.join(bench.out, "loads"), encoding="ascii") as file:
        loads = [int(line.split()[1]) for line in file]
    load = [(ns - base - sample * len(d.samples)) / n
            for ns, d, n in zip(bench.times[("reload-1", 5, "deferred")], data, loads)]
    with open(os.path.join(bench.out, "section"), encoding="ascii") as file:
        size = int(file.read())
    with open(os.path.join(bench.out, "sframe"), encoding="ascii") as file:
        listed = [line.split() for line in file if line.endswith("/bench-chain\n")]
    memory = int(listed[0][4])
    row(f"a section of {size:,} bytes", f"{listed[0][2]} functions", ["", figure(load)])
    row("", "bytes of memory", ["", f"{memory:,}", f"x {memory / size:.3f}"])
    good &= median(cold) <= COLD and median(load) <= LOAD and memory <= MEMORY * size

    for version in (1, 2, 3):
        cells = []
        for way in WAYS:
            samples, _, start = bench.chains[f"frames.v{version}-{way}"]
            cells.append(f"{100 * start / samples:.1f} %")
            if way == "deferred":
                good &= start >= samples * (1 if version == 3 else 0.99)
        row(f"version {version}, user mode", "chain reaches _start", cells)
    return good


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


def rounds_of(path):
    """Figures of rounds, by what was done and the way."""
    figures = {}
    with open(path, encoding="ascii") as file:
        for line in file:
            name, way, _, ns = line.split()
            figures.setdefault((name, way), []).append(int(ns))
    return figures


def starts(bench):
    """
    What perf record costs when there is next to nothing to record, and how much more with
    sections of its cache. Returns whether that is within its limit.
    """
    costs = rounds_of(os.path.join(bench.out, "start"))
    with open(os.path.join(bench.out, "sections"), encoding="ascii") as file:
        cached = dict(map(str.split, file))
    good = True
    print(f"{'':48}" + "".join(f"{head:>17}" for head in ("fp", "deferred", "more")))
    for name, label in (("true", f"{cached['true']} in the cache"),
                        ("big", f"{cached['big']} in the cache"),
                        ("perl", ""), ("python3", "")):
        if (name, "deferred") not in costs:
            continue
        command = "true" if name == "big" else name
        place = costs[command, "fp"]
        more = [ns - median(place) for ns in costs[name, "deferred"]]
        row(command, label, [figure([ns / 1e6 for ns in cell], 2)
                             for cell in (place, costs[name, "deferred"], more)])
        good &= median(more) <= START
    return good


class Stock:
    """What recordings of programs of a distribution cost and tell."""

    def __init__(self, bench):
        times = rounds_of(os.path.join(bench.out, "stock"))
        self.names = list(dict.fromkeys(name for name, _ in times))
        self.more, self.samples, self.bytes, self.room = {}, {}, {}, {}
        for name, way in ((n, w) for n in self.names for w in STOCK_WAYS):
            key = name, way
            none = median(times[name, "none"])
            self.more[key] = [ns - none for ns in times[key]]
            data = [PerfData(os.path.join(bench.out, f"stock-{name}-{way}-{r}.data"))
                    for r in range(1, bench.rounds + 1)]
            self.samples[key] = [len(d.samples) for d in data]
            self.bytes[key] = [d.bytes for d in data]
            self.room[key] = [BYTES * len(d.samples)
                              + 8 * sum(d.records.get(s.cookie, 0) for s in d.samples)
                              for d in data]
        with open(os.path.join(bench.out, "complete"), encoding="ascii") as file:
            self.complete = {f[0]: tuple(map(float, f[1:4])) for f in map(str.split, file)}

    def per_sample(self, what, way, names):
        """Of these programs together, in each round."""
        rounds = zip(*(what[name, way] for name in names))
        samples = zip(*(self.samples[name, way] for name in names))
        return [sum(a) / sum(b) for a, b in zip(rounds, samples)]

    def rows(self, label, names):
        """Returns what a sample costs, of each way."""
        costs = {way: self.per_sample(self.more, way, names) for way in STOCK_WAYS}
        row(label, "instructions", [figure(costs[way]) for way in STOCK_WAYS])
        row("", "bytes", [figure(self.per_sample(self.bytes, way, names))
                          for way in STOCK_WAYS])
        return {way: median(costs[way]) for way in STOCK_WAYS}


def stock(bench):
    """
    Programs of a distribution, from their exec to their end. Returns whether a deferred
    sample is cheap enough, whether it is small enough, and whether stacks are complete.
    """
    all_of = Stock(bench)
    small = complete = True
    for name in all_of.names:
        all_of.rows(name, [name])
        size, room = (median(all_of.per_sample(what, "deferred", [name]))
                      for what in (all_of.bytes, all_of.room))
        row("", "bytes allowed", ["", f"{room:,.0f}"])
        small &= size <= room
        stacks = [all_of.complete[f"stock-{name}-{way}"] for way in STOCK_WAYS]
        row("", "complete", [f"{100 * part / n:.1f} %" for n, part, _ in stacks])
        row("", "user frames", [f"{depth:.1f}" for _, _, depth in stacks])
        complete &= stacks[1][1] >= COMPLETE * stacks[1][0]
    costs = all_of.rows("all of them", all_of.names)
    row("", "times fp", [f"{costs[way] / costs['fp']:.2f}" for way in STOCK_WAYS])
    cheap = costs["deferred"] <= STOCK * costs["fp"]
    cheap &= costs["deferred"] < costs["dwarf,8192"]
    return cheap, small, complete


def main(out):
    bench = Bench(out)
    row("per sample", "", WAYS)
    cheaper, small = totals(bench)
    print()
    frames(bench)
    print()
    print("without frame pointers, by SFrame:")
    tables = sframe(bench)
    print()
    print("in interrupt and NMI, per sample:")
    constant, smaller = interrupts(bench)
    print()
    print("in NMI, per sample that a BPF program sees:")
    half = programs(bench)
    print()
    print("in NMI, per sample with 3 user registers:")
    cheap_regs, right = registers(bench)
    print("\nperf record of what does next to nothing, millions of instructions in all:")
    started = starts(bench)
    print("\nprograms of a distribution, per sample:")
    print(f"{'':48}" + "".join(f"{way:>17}" for way in STOCK_WAYS))
    cheap, short, complete = stock(bench)
    print("\ngetppid() when nobody profiles, instructions a round trip:")
    for name, way in (("unpatched base", "base"), ("this kernel", "none")):
        print(f"  {name:16}"
              + figure([ns / CALLS for ns in bench.times[("getppid", 5, way)]], 2))
    print(f"\nA figure is the median of {bench.rounds} rounds, and half of the range "
          "between them.")
    if not tables:
        print(f"bench: SFrame costs more than {WARM} times a frame in place, {COLD} for one "
              f"that is new, {LOAD} for a section or {MEMORY} times its size, or loses callers",
              file=sys.stderr)
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
    if not started:
        print(f"bench: perf record needs more than {START} instructions for sections of its "
              "cache", file=sys.stderr)
    if not cheap:
        print(f"bench: deferred costs more than {STOCK} times fp, or no less than dwarf, "
              "with programs of a distribution", file=sys.stderr)
    if not short:
        print(f"bench: deferred takes more than {BYTES} bytes and 8 a frame with programs of "
              "a distribution", file=sys.stderr)
    if not complete:
        print(f"bench: less than {100 * COMPLETE:.0f} % of deferred stacks are complete",
              file=sys.stderr)
    return 0 if all((constant, cheaper, small, smaller, half, cheap_regs, right, tables,
                     started, cheap, short, complete)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
