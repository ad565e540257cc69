#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The table of make bench: bench-table.py DIRECTORY

Reads "times" and the recordings that guest-bench.sh left. The cost of a sample is
what the work took longer than without a profiler, divided by the samples. Each
figure is the median of the rounds; behind it is half the range.
"""

import os
import sys

from perfdata import PerfData

WAYS = ("fp", "deferred", "dwarf,8192")


def figure(values, digits=0):
    """Median and half of the range."""
    values = sorted(values)
    spread = (values[-1] - values[0]) / 2
    return f"{values[len(values) // 2]:,.{digits}f} ±{spread:,.{digits}f}"


def read_times(path):
    """{(work, depth, way): [nanoseconds of each round]}"""
    times = {}
    with open(path, encoding="ascii") as file:
        for line in file:
            work, depth, way, _, ns = line.split()
            times.setdefault((work, int(depth), way), []).append(int(ns))
    return times


def main(out):
    times = read_times(os.path.join(out, "times"))
    rounds = len(times[("getppid", 5, "none")])
    print(f"{'instructions, bytes':44}" + "".join(f"{way:>18}" for way in WAYS))
    for work in ("read", "user"):
        for depth in (5, 100):
            data = {way: [PerfData(os.path.join(out, f"{work}-{depth}-{way}-{r}.data"))
                          for r in range(1, rounds + 1)] for way in WAYS}
            base = sorted(times[(work, depth, "none")])[rounds // 2]
            name = f"{work}, {depth} frames below:"
            rows = {
                "instructions per sample": lambda way: figure(
                    [(ns - base) / len(d.samples)
                     for ns, d in zip(times[(work, depth, way)], data[way])]),
                "bytes per sample": lambda way: figure(
                    [d.bytes / len(d.samples) for d in data[way]]),
                "samples lost": lambda way: figure([d.lost_samples for d in data[way]]),
            }
            for row, value in rows.items():
                print(f"{name:24}{row:20}".ljust(44) + "".join(f"{value(way):>18}" for way in WAYS))
                name = ""
    ns = [value / 100000 for value in times[("getppid", 5, "none")]]
    print(f"\ngetppid(), nobody profiles: {figure(ns, 2)} instructions a round trip")
    print("A figure is the median of "
          f"{rounds} rounds, and half of the range between them.")


if __name__ == "__main__":
    main(sys.argv[1])
