#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Print tables of the recordings of make demo.

    demo-table.py DIR PERF	reads DIR/*-{fp,deferred,dwarf}.data

Counts the contents of the files without perf; PERF unwinds the stacks that dwarf copied and
shows where stacks end. Ends with status 1 if one of the limits below is not met.
"""

import math
import os
import re
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from perfdata import PerfData

METHODS = ("fp", "deferred", "dwarf")
HEADS = ("fp", "deferred", "dwarf,8192")
COMPLETE = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                        "../../tools/sframe/test/complete.py")

# In percent.
LIMIT = 99
LIMIT_COLD = 90
LIMIT_WITHOUT = 2
# In a shorter first run, stacks from before the sections exist dominate.
COLD_SECONDS = 10
# Bytes of a sample and of its record, and of a frame.
BYTES_SAMPLE = 130
BYTES_FRAME = 8

NOTES = """\
[1] deferred: records per distinct cookie. fp unwinds and dwarf copies for every
    sample: theirs is the number of samples per kernel entry, and entries are what
    the cookies of the deferred recording count.
[2] of the samples that hit the kernel; each is of a user task here. dwarf: kernel
    frames, and a copy of the user stack that perf unwinds when it reports. Left
    over is exec, where the old user stack is gone and the new one not yet there."""

NOTES_STOCK = """\
[3] of the deferred recording. Samples of exec and exit, which have no user stack, are not
    rated: {without} of {samples} in the deferred ones.
[4] user stacks that end where the task began: at an entry point, or in clone().
[5] user frames of a sample, inlined functions not counted."""


class Stacks:
    """The output of complete.py for the stacks of one recording."""

    def __init__(self, perf, path):
        # Use neither perf's caches in HOME nor debuginfod servers.
        env = dict(os.environ, HOME=os.path.dirname(path), DEBUGINFOD_URLS="")
        with subprocess.Popen([perf, "script", "-f", "--no-inline", "-i", path, "-F",
                               "ip,sym,dso,dsoff"], env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as script:
            lines = subprocess.run([COMPLETE], stdin=script.stdout, stdout=subprocess.PIPE,
                                   check=True, text=True).stdout.splitlines()
        if script.returncode:
            raise ValueError(f"{perf} script -f -i {path} failed: run it to see why")
        samples, complete, depth, without = lines[0].split()
        self.samples, self.complete, self.without = int(samples), int(complete), int(without)
        self.depth = float(depth)
        self.ends = [line.lstrip("# ") for line in lines[1:]]


def percent(part, whole):
    """A percentage, rounded down: 100.0 % means all. Below 100 items, a plain count."""
    if not whole:
        return "-"
    if whole < 100:
        return f"{part}/{whole}"
    return f"{math.floor(1000 * part / whole) / 10:.1f} %"


def rows(runs):
    """Yield name and one cell for each of the runs of perf bench sched messaging."""
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
    yield row("perf.data bytes per sample", lambda m, d: f"{per_sample(d):.0f}")
    yield row("unwinds per kernel entry [1]", unwinds)
    yield row("cookies matched", lambda m, d: percent(len(d.matched), len(d.cookies)))
    yield row("kernel and user in one chain [2]",
              lambda m, d: percent(len(d.both), len(d.kernel_samples)))


def per_sample(data):
    """The bytes of a recording per sample."""
    return data.bytes / max(len(data.samples), 1)


def print_messaging(runs):
    """Print the table of the kernel-bound program."""
    print("perf bench sched messaging, which spends its time in the kernel:")
    print()
    print(f"{'':34}" + "".join(f"{h:>11}" for h in HEADS))
    for name, cells in rows(runs):
        print(f"{name:34}" + "".join(f"{c:>11}" for c in cells))
    print()
    print(NOTES)
    print()


def print_stock(stock, stacks):
    """Print the table of stock programs."""
    def cells(values):
        return "  " + "".join(f"{v:>{width}}" for v, width in zip(values, (8, 9, 11)))

    print("Stock programs, as they are installed, with a warm cache:")
    print()
    titles = ("complete [4]", "bytes per sample", "mean depth [5]")
    print(f"{'program':8}{'samples [3]':>11}" + "".join(f"  {t:^28}" for t in titles).rstrip())
    print(f"{'':19}" + cells(HEADS) * 3)
    for name, runs in stock.items():
        mine = [stacks[name, m] for m in METHODS]
        print(f"{name:8}{mine[1].samples:>11}" +
              cells(percent(s.complete, s.samples) for s in mine) +
              cells(f"{per_sample(runs[m]):.0f}" for m in METHODS) +
              cells(f"{s.depth:.1f}" for s in mine))
    print()
    deferred = [stacks[name, "deferred"] for name in stock]
    print(NOTES_STOCK.format(without=sum(s.without for s in deferred),
                             samples=sum(s.without + s.samples for s in deferred)))
    print()


def say(good, text, hint):
    """Print one line, and on failure more lines with hints."""
    print(f"{'ok' if good else 'FAILED'}: {text}")
    if not good:
        print("\n".join("    " + line for line in hint))
    return good


def verdict(name, part, whole, limit, hint):
    """Print and return whether the limit is met."""
    return say(whole and 100 * part >= limit * whole,
               f"{name}: {part} of {whole} ({percent(part, whole)}),"
               f" at least {limit} % wanted", hint)


def judge_names(directory, cold):
    """Check that perf record named the files in which stacks of the first run end."""
    with open(f"{directory}/cold-said", encoding="utf-8", errors="replace") as file:
        lines = re.findall(r"^ *[\d.]+% +([\d.]+)%  (/.*): it ", file.read(), re.MULTILINE)
    # A file has a line for each reason, all with the same share.
    named = sum({path: float(share) for share, path in lines}.values())
    known = cold.complete + round(named / 100 * cold.samples)
    return verdict("stock programs, first run: complete, or named above as ending early",
                   known, cold.samples, LIMIT,
                   ["perf script finds more stacks that end early than perf record has named"])


def judge_bytes(stock, stacks):
    """Check that deferred recordings are small."""
    size = sum(runs["deferred"].bytes for runs in stock.values())
    samples = sum(len(runs["deferred"].samples) for runs in stock.values())
    deferred = [stacks[name, "deferred"] for name in stock]
    frames = sum(s.depth * s.samples for s in deferred) / max(samples, 1)
    limit = BYTES_SAMPLE + BYTES_FRAME * frames
    return say(samples and size <= limit * samples,
               f"stock programs: {size / max(samples, 1):.0f} bytes per sample, at most"
               f" {BYTES_SAMPLE} + {BYTES_FRAME} x {frames:.1f} user frames ="
               f" {limit:.0f} wanted",
               ["perf report --header-only -i FILE and perf report -D say what is in there"])


def judge(directory, messaging, stock, stacks):
    """Print the verdicts; return whether all are good."""
    deferred = [runs["deferred"] for runs in (messaging, *stock.values())]
    warm = [stacks[name, "deferred"] for name in stock]
    cold = stacks["cold", "deferred"]
    with open(f"{directory}/cold-seconds", encoding="ascii") as file:
        seconds = float(file.read())
    without = sum(s.without for s in warm)
    rated = without + sum(s.samples for s in warm)
    broken = ["make check KERNEL=plain tells what is broken"]
    return all([
        verdict("deferred: cookies matched", sum(len(d.matched) for d in deferred),
                sum(len(d.cookies) for d in deferred), LIMIT, broken),
        verdict("deferred: kernel and user in one chain",
                len(messaging["deferred"].both),
                len(messaging["deferred"].kernel_samples), LIMIT, broken),
        *[verdict(f"{name}, warm cache: complete", s.complete, s.samples, LIMIT,
                  [f"ends early: {end}" for end in s.ends[:3]] + broken)
          for name, s in zip(stock, warm)],
        verdict("stock programs, first run: complete", cold.complete, cold.samples,
                LIMIT_COLD, ["perf record names above what it missed; on a busy host,"
                             " make demo again"] + cold.ends),
        judge_names(directory, cold),
        say(seconds >= COLD_SECONDS, f"stock programs, first run: {seconds:.0f} s,"
            f" at least {COLD_SECONDS} s wanted", ["more work is needed in demo-work.sh"]),
        say(without <= LIMIT_WITHOUT / 100 * rated, "stock programs: without user stack:"
            f" {without} of {rated} ({percent(without, rated)}), at most {LIMIT_WITHOUT} %"
            " wanted", broken),
        judge_bytes(stock, stacks),
    ])


def read_stacks(directory, perf, names):
    """Let perf unwind the stacks, which is slow for dwarf."""
    print("demo: perf script unwinds the copied stacks", flush=True)
    print()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(lambda name: Stacks(perf, f"{directory}/{name[0]}-{name[1]}.data"),
                         names)
        return dict(zip(names, found))


def main(directory, perf):
    """Print tables, notes and verdicts; return whether the verdicts are good."""
    def read(name):
        return {m: PerfData(f"{directory}/{name}-{m}.data") for m in METHODS}

    with open(f"{directory}/programs", encoding="ascii") as file:
        programs = file.read().split()
    messaging = read("messaging")
    stock = {name: read(name) for name in programs}
    stacks = read_stacks(directory, perf, [("cold", "deferred")] +
                         [(name, m) for name in programs for m in METHODS])
    print_messaging(messaging)
    print_stock(stock, stacks)
    return judge(directory, messaging, stock, stacks)


if __name__ == "__main__":
    try:
        sys.exit(0 if main(sys.argv[1], sys.argv[2]) else 1)
    except (OSError, ValueError, struct.error, subprocess.SubprocessError) as error:
        sys.exit(f"demo: {error}")
