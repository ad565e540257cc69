#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Print the table of make bench: bench-table.py DIRECTORY

Reads "times", "attach", "recorders", "chains", "ends", "start", "stock", "whole" and the recordings of
guest-bench.sh, and "complete" of bench.sh. The cost of a sample is the additional time of
the work with the profiler, divided by the number of samples. The work is timed from its
first round on; of the hundreds of samples, a few at most are of the program's start and
end. Each figure is the median of the rounds, followed by half the range.
"""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from perfdata import PerfData

WAYS = ("fp", "deferred", "dwarf,8192", "dwarf,8192,defer")
# The output of user_regs.
SHOTS = re.compile(r"(\w+):no registers (\d+) \((\d+) elsewhere\), stale (\d+), torn (\d+), "
                   r"with -1 (\d+), all right (\d+)")
HITS = re.compile(r"(\w+):(\d+) NMIs, (\d+) in the kernel, (\d+) in entry code, "
                  r"(\d+) of them in the gap")
SHOOTINGS = 7
CALLS = 1000000
# Limit for the instructions of a record, a task work and a look at the code.
ALONE = 1600
# SFrame limits: cost of a warm frame relative to a frame in place, instructions of a cold
# frame and of a section of a C library's size, and memory per byte of that section.
WARM, COLD, LOAD, MEMORY = 3, 800, 2000000, 1.15
# Limits for programs of a distribution: instructions of perf record for cached sections;
# cost of a sample relative to fp (it must be below dwarf's, too); the cost with perf script
# relative to dwarf's, in a recording of less than a second and in one of four times the work;
# bytes of a sample without 8 for each user frame; percentage of incomplete stacks, because frames
# that are not walked cost nothing.
START, STOCK, LISTED, LONG, BYTES, INCOMPLETE = 30000000, 3, 0.225, 0.2, 130, 1
STOCK_WAYS = WAYS[:3]
# Limits for the end of perf record: a deferred sample relative to fp, and that of counting one.
ENDS, COUNT = 1.25, 30000
# Limit for a conversion, relative to the time in which libdw alone produces all rows.
CONVERT = 3
CONVERTED = re.compile(r"(\S+): libdw alone ([\d.]+) ms for (\d+) rows; convert ([\d.]+) ms")
# Three instructions: a load, a test and a branch that is not taken. A turn of two processes has
# four system calls and two context switches, and the ticks of the measurement change its figure.
IDLE = 3
TURNS = 100000
TURN, TURN_TICKS = (4 + 2) * IDLE, 10
# Limit of a thread's start and end while an open is amid all tasks: the scheduler may let the
# opener run once meanwhile, but not until it is done with many tasks.
AMID = 5000000
# Ten times as many tasks may cost that much more per task to give them data.
LINEAR = 1.1
# More memory that may be in use afterwards, for anything, in kB: some 150 of 10,000 objects.
KEPT = 128
# What detached events may cost: a sample, relative to one in a buffer of a CPU; and instructions
# of a turn, in which the task that has the event goes and comes.
RECORDED, RECORDED_TURN = 1.05, 60
# Nanoseconds of CPU time between two samples of bench-recorder.
PERIOD = 1000000
# The share of a limit by which a figure may exceed it because of its spread.
MARGIN = 0.05


def figure(values, digits=0):
    """Median and half of the range."""
    values = sorted(values)
    spread = (values[-1] - values[0]) / 2
    return f"{values[len(values) // 2]:,.{digits}f} ±{spread:,.{digits}f}"


def median(values):
    """The median."""
    return sorted(values)[len(values) // 2]


class Limits:
    """Compare figures with their limits."""

    def __init__(self):
        self.lines = []
        self.missed = 0

    def at_most(self, what, values, limit, margin=None):
        """
        The median of @values must be at most @limit. An excess below the figure's own
        spread proves nothing, but a large spread can hide a regression: tolerate at most
        @margin, by default MARGIN of the limit.
        """
        if margin is None:
            margin = MARGIN * limit
        over = median(values) - limit
        spread = (max(values) - min(values)) / 2
        verdict = "met"
        if over > 0:
            verdict = "within the spread"
            if over > min(spread, margin):
                verdict = "missed"
                self.missed += 1
        digits = 0 if max(map(abs, values)) >= 100 else 2
        self.lines.append(f"{what:56}{figure(values, digits):>20}{limit:>12,}  {verdict}")

    def none(self, what, count):
        """The count must be 0."""
        self.at_most(what, [count], 0)

    def show(self):
        """Print the limits, and return the exit status."""
        print("\nlimits:")
        print("\n".join(self.lines))
        if self.missed:
            print(f"bench: {self.missed} limits missed, see the end of the table",
                  file=sys.stderr)
        return 1 if self.missed else 0


class Bench:
    """The measurements."""

    def __init__(self, out):
        self.out = out
        self.times = {}
        self.loads = {}
        with open(os.path.join(out, "times"), encoding="ascii") as file:
            for line in file:
                work, depth, way, _, ns, *loads = line.split()
                self.times.setdefault((work, int(depth), way), []).append(int(ns))
                for load in loads:
                    self.loads.setdefault((work, int(depth), way), []).append(int(load))
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
    print(f"{name:24}{label:24}".ljust(48) + "".join(f" {cell:>16}" for cell in cells))


def minus(more, less):
    """The difference, in each round."""
    return [a - b for a, b in zip(more, less)]


def totals(bench, limits):
    """
    The total cost of a sample, with at most one sample per kernel entry. A deferred walk
    must cost no more than a walk in place; on a short stack it may cost ALONE more, because
    its record and task work cost more than it saves. A deferred stack must take no more
    space than one in the sample.
    """
    for work in ("read", "user"):
        for depth in (5, 100):
            data = {way: bench.data(work, depth, way) for way in WAYS}
            costs = {way: bench.costs(work, depth, way, data[way]) for way in WAYS}
            what = f"{work}, {depth} frames below"
            margin = MARGIN * (ALONE if depth == 5 else median(costs["fp"]))
            row(what, "instructions", [figure(costs[way]) for way in WAYS])
            limits.at_most(f"{what}: deferred more than fp",
                           minus(costs["deferred"], costs["fp"]),
                           ALONE if depth == 5 else 0, margin)
            size = {way: [d.bytes / len(d.samples) for d in data[way]] for way in WAYS}
            row("", "bytes", [figure(size[way]) for way in WAYS])
            limits.at_most(f"{what}: bytes more than dwarf's",
                           minus(size["dwarf,8192,defer"], size["dwarf,8192"]), 0)
            row("", "samples lost",
                [figure([d.lost_samples for d in data[way]]) for way in WAYS])
            for label, column in (("chain reaches main", 1), ("chain reaches _start", 2)):
                row("", label, [bench.reach(work, depth, way, column) for way in WAYS])


def frames(bench):
    """
    The cost of an additional frame, and of the cache misses after mappings change, which
    does not depend on the depth.
    """
    for work, label in (("read", "in a system call"), ("user", "in user mode")):
        cells = [figure(per_frame(bench, work, way, (5, 100)), 1) for way in WAYS]
        row("a frame", label, cells)
    row("mappings changed, 5 below", "", [figure(bench.costs("cold", 5, way,
                                                             bench.data("cold", 5, way)))
                                          for way in WAYS[:2]])


def per_frame(bench, work, way, depths, base=None):
    """
    The cost of an additional frame in each round. @base is the work of the smaller depth, if
    that is another one.
    """
    flat, deep = (bench.costs(what, depth, way, bench.data(what, depth, way))
                  for what, depth in zip((base or work, work), depths))
    return [(b - a) / (depths[1] - depths[0]) for a, b in zip(flat, deep)]


def per_load(bench, way, none, sample):
    """
    The cost of the load of a section in each round, if a sample costs @sample: samples during
    a load cost as much as others.
    """
    work = "reload-1", 5
    base = median(bench.times[(*work, none)])
    return [(ns - base - sample * len(d.samples)) / loads
            for ns, d, loads in zip(bench.times[(*work, way)], bench.data(*work, way),
                                    bench.loads[(*work, way)])]


def sections(bench, limits):
    """
    Sections of a C library's size: of bench-chain by the assembler, and by the converter.
    """
    sample = median(bench.costs("read-1", 5, "deferred", bench.data("read-1", 5, "deferred")))
    with open(os.path.join(bench.out, "sections-chain"), encoding="ascii") as file:
        sizes = dict(map(str.split, file))
    with open(os.path.join(bench.out, "objects"), encoding="ascii") as file:
        listed = {os.path.basename(f[-1]): f for f in map(str.split, file)}
    for kind in ("", ".v2", ".v3"):
        _, version, functions, _, memory, *_ = listed["bench-chain" + kind]
        size, memory = int(sizes["bench-chain" + kind]), int(memory)
        load = per_load(bench, "deferred" + kind, "none" + kind, sample)
        row(f"a section, version {version}", f"{functions} functions", ["", figure(load)])
        row(f"  {size:,} bytes", "bytes of memory",
            ["", f"{memory:,}", f"x {memory / size:.3f}"])
        limits.at_most(f"SFrame {version}: a section of the size of a C library's", load, LOAD)
        limits.at_most(f"SFrame {version}: its memory, times its size", [memory / size], MEMORY)


def sframe(bench, limits):
    """
    Frames that only SFrame can unwind, the sections of bench-chain, and programs of three
    assemblers.
    """
    for work, label in (("read", "in a system call"), ("user", "in user mode")):
        place, deferred = (per_frame(bench, work, "fp", (5, 100)),
                           per_frame(bench, work + "-1", "deferred", (5, 100)))
        row("a frame seen before", label, [figure(place, 1), figure(deferred, 1)])
        limits.at_most(f"SFrame, {label}: times a frame in place",
                       [cost / median(place) for cost in deferred], WARM)
    place = median(per_frame(bench, "read", "fp", (5, 100)))
    for spread in (30, 60, 100):
        seen = per_frame(bench, f"read-{spread}", "deferred", (5, 100), "read-1")
        row("", f"{spread} functions in turn", ["", figure(seen, 1)])
        limits.at_most(f"SFrame, {spread} functions: times a frame in place",
                       [cost / place for cost in seen], WARM)
    # These frames leave the fast path, but nothing is looked up again.
    seen = per_frame(bench, "read-1-8", "deferred", (5, 100), "read-1")
    row("", "8 mappings in turn", ["", figure(seen, 1)])
    limits.at_most("SFrame: a frame in another mapping", seen, COLD)
    deep = per_frame(bench, "read-1", "deferred", (100, 500))
    row("", "100 to 500 below", ["", figure(deep, 1)])
    limits.at_most("SFrame, 100 to 500 below: times a frame in place",
                   [cost / place for cost in deep], WARM)
    cold = per_frame(bench, "read-3700", "deferred", (300, 700))
    row("a frame not seen before", "in a system call", ["", figure(cold, 1)])
    limits.at_most("SFrame: a frame not seen before", cold, COLD)

    sections(bench, limits)

    for version in (1, 2, 3):
        cells = []
        for way in WAYS:
            samples, _, start = bench.chains[f"frames.v{version}-{way}"]
            cells.append(f"{100 * start / samples:.1f} %")
            if way == "deferred":
                limits.at_most(f"SFrame {version}: chains that do not reach _start, %",
                               [100 * (1 - start / samples)], 0 if version == 3 else 1)
        row(f"version {version}, user mode", "chain reaches _start", cells)


def interrupts(bench, limits):
    """
    About 80 samples in each kernel entry: interrupt and NMI cause nearly all of the cost. A
    deferred sample must cost the same at each depth, except for its share of the walk, and
    deferred stacks must take at most a fifth of the space.
    """
    deferred = []
    for depth in (5, 30, 120, 500):
        costs = {way: bench.costs("bulk", depth, way, bench.data("bulk", depth, way))
                 for way in WAYS}
        row(f"{depth} frames below", "instructions", [figure(costs[way]) for way in WAYS])
        deferred.append(costs["deferred"])
        size = {way: [d.bytes / len(d.samples) for d in bench.data("bulk", depth, way)]
                for way in WAYS}
        row("", "bytes", [figure(size[way]) for way in WAYS])
        limits.at_most(f"{depth} frames below: dwarf's bytes deferred, share",
                       [size["dwarf,8192,defer"][r] / size["dwarf,8192"][r]
                        for r in range(bench.rounds)], 0.2)
    # A walk of 500 frames, divided by 80, is about 2 instructions a frame.
    limits.at_most("a deferred sample, 500 frames more than 5",
                   minus(deferred[-1], deferred[0]), 2 * 500)


def programs(bench, limits):
    """
    The cost of user stacks for BPF programs in NMI. Below 30 frames, a program that requests
    a stack must cost at most half of one that walks it, each after subtracting the cost of a
    program that does nothing.
    """
    ways = ("nothing", "stackid", "deferred")
    print(f"{'':48}" + "".join(f"{head:>17}" for head in (
        "nothing", "get_stackid", "deferred")))
    for depth in (5, 30, 120, 500):
        costs = [bench.programs[(way, depth)] for way in ways]
        row(f"{depth} frames below", "instructions", [figure(cost) for cost in costs])
    nothing, stackid = (median(bench.programs[(way, 30)]) for way in ways[:2])
    limits.at_most("a BPF program that asks, share of one that walks",
                   [(cost - nothing) / (stackid - nothing)
                    for cost in bench.programs[("deferred", 30)]], 0.5)


def registers(bench, limits):
    """
    Samples in NMI with user registers, on the base and with the series: with the series they
    must be cheaper, and none may be wrong.
    """
    costs = {}
    for name, way, none in (("unpatched base", "base-regs", "base-none"),
                            ("this kernel", "regs", "none")):
        base = median(bench.times[("bulk", 5, none)])
        costs[name] = [(ns - base) / len(d.samples)
                       for ns, d in zip(bench.times[("bulk", 5, way)],
                                        bench.data("bulk", 5, way))]
        print(f"  {name:16}" + figure(costs[name]))
    limits.at_most("a sample with user registers, more than on the base",
                   minus(costs["this kernel"], costs["unpatched base"]), 0,
                   MARGIN * median(costs["unpatched base"]))
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
            wrong[name].append(sum(map(int, m.group(4, 6))))
    limits.none("samples with user registers that are wrong", sum(wrong["series"]))
    # On the base, registers are stale in the gap and -1 everywhere: the test must see that.
    limits.none("what is done that was not looked at, or is never wrong on the base",
                2 * SHOOTINGS - len(wrong["series"]) - sum(map(bool, wrong["base"])))


def rounds_of(path):
    """The figures of all rounds, by program and way."""
    figures = {}
    with open(path, encoding="ascii") as file:
        for line in file:
            name, way, _, ns = line.split()
            figures.setdefault((name, way), []).append(int(ns))
    return figures


def ends(bench, limits):
    """
    What perf record does with the recorded data at its end, per sample. To look for build-ids,
    it must not merge: a deferred sample may cost as much as one with its stack, and its share of
    a record. To count samples that go through files without a section, it must.
    """
    costs = rounds_of(os.path.join(bench.out, "ends"))
    found = {}
    for way, end, place in (("fp", "build-ids", "none"), ("deferred", "build-ids", "none"),
                            ("deferred", "counted", "uncounted")):
        samples = [len(PerfData(os.path.join(bench.out, f"ends-{way}-{end}-{r}.data")).samples)
                   for r in range(1, bench.rounds + 1)]
        more = minus(costs[way, end], costs[way, place])
        found[way, end] = [ns / nr for ns, nr in zip(more, samples)]
    looks = [found[way, "build-ids"] for way in WAYS[:2]]
    row("build-ids", "instructions", map(figure, looks))
    row("missing sections", "instructions", ["", figure(found["deferred", "counted"])])
    limits.at_most("perf record's search for build-ids: times fp",
                   [cost / median(looks[0]) for cost in looks[1]], ENDS)
    limits.at_most("perf record's count of missing sections", found["deferred", "counted"], COUNT)


def starts(bench, limits):
    """
    The cost of perf record with almost nothing to record, and the additional cost of the
    sections in its cache.
    """
    costs = rounds_of(os.path.join(bench.out, "start"))
    with open(os.path.join(bench.out, "sections"), encoding="ascii") as file:
        cached = dict(map(str.split, file))
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
        limits.at_most(f"perf record's start, {name}: more than fp", more, START)


class Stock:
    """Cost and contents of recordings of programs of a distribution."""

    def __init__(self, bench):
        times = rounds_of(os.path.join(bench.out, "stock"))
        self.names = list(dict.fromkeys(name for name, _ in times))
        whole = rounds_of(os.path.join(bench.out, "whole"))
        starts = rounds_of(os.path.join(bench.out, "start"))
        self.more, self.whole, self.samples, self.bytes, self.room = {}, {}, {}, {}, {}
        for name, way in ((n, w) for n in self.names for w in STOCK_WAYS):
            key = name, way
            none = median(times[name, "none"])
            self.more[key] = [ns - none for ns in times[key]]
            # Without what perf record costs where there is nothing to record.
            none = (median(whole[name, "none"]) + median(starts["true", way])
                    - median(starts["true", "none"]))
            self.whole[key] = [ns - none for ns in whole[key]]
            data = [PerfData(os.path.join(bench.out, f"stock-{name}-{way}-{r}.data"))
                    for r in range(1, bench.rounds + 1)]
            self.samples[key] = [len(d.samples) for d in data]
            self.bytes[key] = [d.bytes for d in data]
            self.room[key] = [BYTES * len(d.samples)
                              + 8 * sum(d.records.get(s.cookie, 0) for s in d.samples)
                              for d in data]
        with open(os.path.join(bench.out, "complete"), encoding="ascii") as file:
            self.complete = {f[0]: tuple(map(float, f[1:4])) for f in map(str.split, file)}
        self.listed = rounds_of(os.path.join(bench.out, "listed"))
        self.long = rounds_of(os.path.join(bench.out, "long"))
        self.long_samples = {
            (name, way): len(PerfData(os.path.join(bench.out, f"stock-{name}-{way}-long.data"))
                             .samples) for name, way in self.long}

    def per_sample(self, what, way, names):
        """The average of these programs in each round."""
        rounds = zip(*(what[name, way] for name in names))
        samples = zip(*(self.samples[name, way] for name in names))
        return [sum(a) / sum(b) for a, b in zip(rounds, samples)]

    def per_long_sample(self, way, names):
        """What perf script takes for a sample of these programs in long recordings."""
        return (sum(self.long[name, way][0] for name in names)
                / sum(self.long_samples[name, way] for name in names))

    def rows(self, label, names):
        """Print rows, and return the cost of a sample for each way."""
        costs = {way: self.per_sample(self.more, way, names) for way in STOCK_WAYS}
        row(label, "instructions", [figure(costs[way]) for way in STOCK_WAYS])
        row("", "with the last read", [figure(self.per_sample(self.whole, way, names))
                                       for way in STOCK_WAYS])
        row("", "perf script", [figure(self.per_sample(self.listed, way, names))
                                for way in STOCK_WAYS])
        row("", "and of more work", [f"{self.per_long_sample(way, names):,.0f}"
                                     for way in STOCK_WAYS])
        row("", "bytes", [figure(self.per_sample(self.bytes, way, names))
                          for way in STOCK_WAYS])
        return costs


def stock(bench, limits):
    """
    Programs of a distribution, from their exec to their exit: deferred samples must be
    cheap and small, and stacks complete.
    """
    all_of = Stock(bench)
    for name in all_of.names:
        all_of.rows(name, [name])
        size, room = (all_of.per_sample(what, "deferred", [name])
                      for what in (all_of.bytes, all_of.room))
        row("", "bytes allowed", ["", f"{median(room):,.0f}"])
        limits.at_most(f"{name}: bytes more than {BYTES} and 8 a frame", minus(size, room), 0)
        stacks = [all_of.complete[f"stock-{name}-{way}"] for way in STOCK_WAYS]
        row("", "complete", [f"{100 * part / n:.1f} %" for n, part, _ in stacks])
        row("", "user frames", [f"{depth:.1f}" for _, _, depth in stacks])
        limits.at_most(f"{name}: stacks that are not complete, %",
                       [100 * (1 - stacks[1][1] / stacks[1][0])], INCOMPLETE)
    costs = all_of.rows("all of them", all_of.names)
    place = median(costs["fp"])
    row("", "times fp", [f"{median(costs[way]) / place:.2f}" for way in STOCK_WAYS])
    limits.at_most("programs of a distribution: times fp",
                   [cost / place for cost in costs["deferred"]], STOCK)
    whole = {way: all_of.per_sample(all_of.whole, way, all_of.names) for way in STOCK_WAYS}
    limits.at_most("programs of a distribution, with the last read: times fp",
                   [cost / median(whole["fp"]) for cost in whole["deferred"]], STOCK)
    limits.at_most("programs of a distribution: more than dwarf",
                   minus(costs["deferred"], costs["dwarf,8192"]), 0,
                   MARGIN * median(costs["dwarf,8192"]))
    ours, copies = ([sum(both) for both in
                     zip(costs[way], all_of.per_sample(all_of.listed, way, all_of.names))]
                    for way in ("deferred", "dwarf,8192"))
    limits.at_most("programs of a distribution: with perf script, times dwarf",
                   [cost / median(copies) for cost in ours], LISTED)
    ours, copies = ([cost + all_of.per_long_sample(way, all_of.names) for cost in costs[way]]
                    for way in ("deferred", "dwarf,8192"))
    limits.at_most("programs of a distribution, of more work: with perf script, times dwarf",
                   [cost / median(copies) for cost in ours], LONG)


def converter(bench, limits):
    """The cost of converting files of the distribution."""
    with open(os.path.join(bench.out, "convert"), encoding="ascii") as file:
        found = [m.groups() for m in map(CONVERTED.match, file) if m]
    print(f"{'':48}" + "".join(f"{head:>17}" for head in ("rows", "libdw alone", "convert")))
    for name, libdw, rows, ours in found:
        row(os.path.basename(name), "",
            [f"{int(rows):,}", f"{float(libdw):,.2f}", f"{float(ours):,.2f}"])
        limits.at_most(f"{os.path.basename(name)}: converting, times libdw alone",
                       [float(ours) / float(libdw)], CONVERT)
    limits.none("files that were not converted", 2 - len(found))


def idle(bench, limits):
    """The cost of a system call and of a turn without a profiler."""
    print(f"{'':18}" + "".join(f"{work:>17}" for work in ("getppid()", "a turn")))
    calls, turns = ([[ns / count for ns in bench.times[(work, 5, way)]] for way in ("base", "none")]
                    for work, count in (("getppid", CALLS), ("switch", TURNS)))
    for name, *costs in zip(("unpatched base", "this kernel"), calls, turns):
        print(f"  {name:16}" + "".join(f"{figure(cost, 2):>17}" for cost in costs))
    limits.at_most("getppid() when nobody profiles, more than on the base",
                   minus(*reversed(calls)), IDLE)
    limits.at_most("a turn when nobody profiles, more than on the base",
                   minus(*reversed(turns)), TURN, TURN_TICKS)


def task_data(bench, limits):
    """
    The cost of data of all tasks: of the first and the second event of a CPU, of one that comes
    and goes, of a thread without and with such an event, and amid the first open; and of switches
    between tasks.
    """
    figures = {}
    with open(os.path.join(bench.out, "attach"), encoding="ascii") as file:
        for line in file:
            tasks, _, *numbers = map(int, line.split())
            figures.setdefault(tasks, []).append(numbers)
    print(f"{'':12}" + "".join(f" {head:>19}" for head in (
        "first open", "second open", "open and close", "a thread before", "with the events",
        "amid the first open", "bytes of a task", "kB kept")))
    for tasks, rounds in figures.items():
        *costs, before, during, after, kb_before, kb_during, kb_after = zip(*rounds)
        used, kept = minus(kb_during, kb_before), minus(kb_after, kb_before)
        print(f"  {tasks:<10,}" + "".join(f" {cell:>19}" for cell in (
            *map(figure, costs), figure([1024 * kb / tasks for kb in used]), figure(kept))))
        limits.none(f"{tasks:,} tasks: first opens without a thread meanwhile",
                    sum(not cost for cost in costs[5]))
        limits.none(f"{tasks:,} tasks: those without data", max(during))
        limits.none(f"{tasks:,} tasks: those with data before",
                    sum(count < tasks for count in before))
        limits.none(f"{tasks:,} tasks: those with data afterwards", max(minus(before, after)))
        limits.at_most(f"{tasks:,} tasks: memory kept afterwards, kB", kept, KEPT)
    few, many = (min(figures), max(figures))
    # With few tasks, the whole open costs less than this.
    limits.at_most(f"{many:,} tasks: a thread amid the first open",
                   [numbers[5] for numbers in figures[many]], AMID)
    for label, column in (("first open", 0), ("open and close", 2)):
        limits.at_most(f"{label}: cost per task with {many:,}, times that with {few:,}",
                       [b[column] / many / (a[column] / few)
                        for a, b in zip(figures[few], figures[many])], LINEAR)
    for label, column in (("second open", 1), ("a thread with an event", 4)):
        limits.at_most(f"{label}: with {many:,} tasks, times that with {few:,}",
                       [b[column] / a[column] for a, b in zip(figures[few], figures[many])],
                       LINEAR)
    turns = rounds_of(os.path.join(bench.out, "turns"))
    costs = [[ns / TURNS for ns in turns["switch", kind]] for kind in ("plain", "branches")]
    print(f"  {'a turn':<10}" + "".join(f" {cell:>19}" for cell in (
        "with an event", figure(costs[0]), "with branch stacks", figure(costs[1]))))


def recorders(bench, limits):
    """
    The cost of detached events beside ordinary ones: of samples of threads, with a share of what
    their start and their switches cost; and of turns in which no sample is taken.
    """
    figures = rounds_of(os.path.join(bench.out, "recorders"))
    none, ring, detached = (figures["threads", kind] for kind in ("none", "ring", "detached"))
    ring, detached = ([cost / (total / PERIOD) for cost, total in zip(minus(totals, none), totals)]
                      for totals in (ring, detached))
    turns = {kind: [ns / TURNS for ns in figures["switch", kind]] for kind in ("ring", "detached")}
    print(f"{'':18}" + "".join(f"{head:>19}" for head in ("a sample", "a turn")))
    for kind, cost in (("ring", ring), ("detached", detached)):
        print(f"  {kind:16}{figure(cost):>19}{figure(turns[kind]):>19}")
    limits.at_most("detached event: a sample, times one in a buffer of a CPU",
                   [a / b for a, b in zip(detached, ring)], RECORDED)
    limits.at_most("detached event: a turn, more than with an ordinary event",
                   minus(turns["detached"], turns["ring"]), RECORDED_TURN, TURN_TICKS)


def main(out):
    bench = Bench(out)
    limits = Limits()
    row("per sample", "", WAYS)
    totals(bench, limits)
    print()
    frames(bench)
    print()
    print("without frame pointers, by SFrame:")
    sframe(bench, limits)
    print()
    print("in interrupt and NMI, per sample:")
    interrupts(bench, limits)
    print()
    print("in NMI, per sample that a BPF program sees:")
    programs(bench, limits)
    print()
    print("in NMI, per sample with 3 user registers:")
    registers(bench, limits)
    print()
    print("at the end of perf record, per sample:")
    ends(bench, limits)
    print()
    print("perf record of what does next to nothing, millions of instructions in all:")
    starts(bench, limits)
    print()
    print("programs of a distribution, per sample:")
    print(f"{'':48}" + "".join(f"{way:>17}" for way in STOCK_WAYS))
    stock(bench, limits)
    print()
    print("the converter, millions of instructions:")
    converter(bench, limits)
    print()
    print("data of all tasks, instructions, and memory:")
    task_data(bench, limits)
    print()
    print("detached events, instructions:")
    recorders(bench, limits)
    print()
    print("when nobody profiles, instructions of a round trip:")
    idle(bench, limits)
    print(f"\nA figure is the median of {bench.rounds} rounds, and half of the range "
          "between them.")
    return limits.show()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
