#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The three recordings of each workload of make demo, as one table.

    demo-table.py DIR		reads DIR/{kernel,user}-bound-{fp,deferred,dwarf}.data

Reads the files without perf. Ends with status 1 when deferral did not do what it
is for: both limits below hold for the deferred recordings taken together.
"""

import math
import struct
import sys

from perfdata import PerfData

WORKLOADS = ("kernel-bound", "user-bound")
METHODS = ("fp", "deferred", "dwarf")
LIMIT = 99.0

NOTES = """\
[1] deferred: records per distinct cookie. fp unwinds and dwarf copies for every
    sample: theirs is the number of samples per kernel entry, and entries are what
    the cookies of the deferred recording count.
[2] of the samples that hit the kernel; each is of a user task here. dwarf: kernel
    frames, and a copy of the user stack that perf unwinds when it reports. Left
    over is exec, where the old user stack is gone and the new one not yet there."""


def percent(part, whole):
    """Rounded down: 100.0 % means all. Few are counted, not rated."""
    if not whole:
        return "-"
    if whole < 100:
        return f"{part}/{whole}"
    return f"{math.floor(1000 * part / whole) / 10:.1f} %"


def rows(runs):
    """Yield name and one cell for each of the runs of a workload."""
    deferred = runs["deferred"]
    entries = len(deferred.cookies)

    def row(name, cell):
        return name, [cell(method, runs[method]) for method in METHODS]

    def unwinds(method, data):
        if not entries:
            return "-"
        done = data.nr_records if method == "deferred" else len(deferred.samples)
        return f"{done / entries:.2f}"

    yield row("samples", lambda m, d: str(len(d.samples)))
    yield row("samples lost", lambda m, d: str(d.lost_samples))
    yield row("perf.data bytes per sample",
              lambda m, d: f"{d.bytes / max(len(d.samples), 1):.0f}")
    yield row("unwinds per kernel entry [1]", unwinds)
    yield row("cookies matched", lambda m, d: percent(len(d.matched), len(d.cookies)))
    yield row("kernel and user in one chain [2]",
              lambda m, d: percent(len(d.both), len(d.kernel_samples)))


def verdict(name, part, whole):
    """Say whether the limit holds for all deferred recordings together."""
    good = whole and 100 * part >= LIMIT * whole
    print(f"{'ok' if good else 'FAILED'}: {name}: {part} of {whole} ({percent(part, whole)}),"
          f" at least {LIMIT:.0f} % wanted")
    return good


def main(directory):
    """Print table, notes and verdict; return whether the verdict is good."""
    runs = {workload: {method: PerfData(f"{directory}/{workload}-{method}.data")
                       for method in METHODS} for workload in WORKLOADS}
    heads = ("fp", "deferred", "dwarf,8192")
    print(f"{'':34}" + "".join(f"{w:^34}" for w in WORKLOADS).rstrip())
    print(f"{'':34}" + "  ".join("".join(f"{h:>11}" for h in heads) for _ in WORKLOADS))
    for cells in zip(*(rows(runs[w]) for w in WORKLOADS)):
        print(f"{cells[0][0]:34}" +
              "  ".join("".join(f"{c:>11}" for c in columns) for _, columns in cells))
    print()
    print(NOTES)
    print()
    all_deferred = [runs[w]["deferred"] for w in WORKLOADS]
    return all([
        verdict("deferred: cookies matched",
                sum(len(d.matched) for d in all_deferred),
                sum(len(d.cookies) for d in all_deferred)),
        verdict("deferred: kernel and user in one chain",
                sum(len(d.both) for d in all_deferred),
                sum(len(d.kernel_samples) for d in all_deferred)),
    ])


if __name__ == "__main__":
    try:
        sys.exit(0 if main(sys.argv[1]) else 1)
    except (OSError, ValueError, struct.error) as error:
        sys.exit(f"demo: {error}")
