#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compare what stackprof wrote with what others say about the same run.

  compare.py perf FOLDED SCRIPT COMM   SCRIPT is the output of
        perf script -F comm,ip,sym,dso --no-inline
  compare.py pprof FOLDED RAW          RAW is the output of go tool pprof -raw

perf: two profilers that sample on their own never count the same. The shares of a stack in
two profiles differ by chance with a standard deviation that is known: counts of samples are
Poisson's. A stack of either top ten must have a share in the other that is the same within
4 standard deviations, and must be among the other's top ten, or tie with its tenth, which is
to be within 4 standard deviations of it. So stacks of the same share may swap places, and
one that is missing, cut short or wrong is found. Functions with two names at one address
count as one. What a profiler does for a sample, at the end of its timer's interrupt, is
seen by the other alone, all the more on a busy machine, where the other's timer has expired
meanwhile: such a sample counts for what was interrupted.

pprof: both are of the same samples, so all stacks and counts must be the same.
"""

import collections
import re
import subprocess
import sys

TOP = 10
SIGMAS = 4
TIMER = ("asm_sysvec_apic_timer_interrupt", True)


def read_folded(path):
    """{stack as tuple, comm first: value}"""
    stacks = collections.Counter()
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            text, value = line.rstrip("\n").rsplit(" ", 1)
            stacks[tuple(text.split(";"))] += int(value)
    return stacks


def output(*command):
    """The lines that a program writes, none if it fails."""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()


class Names:
    """One name for each function, whatever else it is called."""

    def __init__(self):
        self.same = {}
        self.seen = set()

    def add(self, key, lines, column):
        by_address = collections.defaultdict(set)
        for line in lines:
            words = line.split()
            if len(words) >= 3 and words[1] in "tTwWiV":
                by_address[words[0]].add(words[column].split("@")[0])
        for names in by_address.values():
            first = min(names)
            for name in names:
                self.same[key, name] = first

    def add_kernel(self):
        with open("/proc/kallsyms", encoding="utf-8", errors="replace") as file:
            self.add("[k]", file, 2)

    def add_file(self, path):
        if path in self.seen or not path.startswith("/"):
            return
        self.seen.add(path)
        lines = output("nm", "-D", path) + output("nm", "-a", path)
        for line in output("readelf", "-n", path):
            match = re.search(r"Build ID: ([0-9a-f]{2})([0-9a-f]+)", line)
            if match:
                debug = "/usr/lib/debug/.build-id/{}/{}.debug".format(*match.groups())
                lines += output("nm", "-a", debug)
        self.add("", lines, 2)

    def one(self, name, kernel):
        return self.same.get(("[k]" if kernel else "", name), name)


def read_script(path, comm, names):
    """Fold what perf script prints: the comm, then frames innermost first, then a gap."""
    stacks = collections.Counter()
    with open(path, encoding="utf-8", errors="replace") as file:
        samples = file.read().split("\n\n")
    for sample in samples:
        lines = sample.strip("\n").split("\n")
        if lines[0].strip() != comm:
            continue
        frames = []
        for line in lines[1:]:
            match = re.match(r"\s+([0-9a-f]+) (.+) \((.*)\)$", line)
            if match:
                kernel = int(match.group(1), 16) >> 63
                if not kernel:
                    names.add_file(match.group(3))
                frames.append((match.group(2), bool(kernel)))
        stacks[tuple(reversed(frames))] += 1
    return stacks


def known(stack, names):
    """What was interrupted, with names for those of both; what has none in either is one
    thing."""
    if TIMER in stack:
        stack = stack[:stack.index(TIMER)]
    return tuple(("[unknown]" if name.startswith("[") else names.one(name, kernel))
                 + ("_[k]" if kernel else "") for name, kernel in stack)


def split_kernel(stack):
    return tuple((name.removesuffix("_[k]"), name.endswith("_[k]")) for name in stack)


def deviation(count, total, other_total):
    """Of the difference of two shares that are the same, in samples of the first."""
    return (count * (1 + total / other_total)) ** 0.5


def missing_from(one, other):
    """Stacks of the top ten of one that are not where they should be in the other."""
    total, other_total = sum(one.values()), sum(other.values())
    ranked = other.most_common(TOP)
    tenth = ranked[-1][1] * total / other_total if ranked else 0
    for stack, count in one.most_common(TOP):
        expected = other[stack] * total / other_total
        noise = SIGMAS * deviation(max(count, expected, 1), total, other_total)
        if abs(count - expected) > noise:
            yield stack, f"{count} samples against {expected:.0f}, +-{noise:.0f}"
        elif expected < tenth and tenth - expected > noise:
            yield stack, f"not in the top ten: {expected:.0f} samples, the tenth has {tenth:.0f}"


def compare_perf(folded, script, comm):
    names = Names()
    names.add_kernel()
    theirs_raw = read_script(script, comm, names)
    theirs, ours = collections.Counter(), collections.Counter()
    for stack, count in theirs_raw.items():
        theirs[known(stack, names)] += count
    for stack, count in read_folded(folded).items():
        if stack[0] == comm:
            ours[known(split_kernel(stack[1:]), names)] += count
    print(f"# {comm}: {sum(ours.values())} samples of stackprof in {len(ours)} stacks, "
          f"{sum(theirs.values())} of perf in {len(theirs)}")
    if len(ours) < 2 or len(theirs) < 2:
        print("# too few stacks to compare")
        return False
    print("# stackprof     perf  innermost of its top ten")
    for stack, count in ours.most_common(TOP):
        print(f"# {count:9} {theirs[stack]:8}  {';'.join(stack[-4:])}")
    wrong = [("perf lacks", *rest) for rest in missing_from(ours, theirs)]
    wrong += [("stackprof lacks", *rest) for rest in missing_from(theirs, ours)]
    for who, stack, why in wrong:
        print(f"# {who} {';'.join(stack)}: {why}")
    return not wrong


def read_raw(path):
    """Fold what go tool pprof -raw prints, and name mappings that say of themselves
    wrongly that all addresses in them have functions, or that not all have."""
    samples, locations, part, unnamed, wrong = [], {}, None, set(), []
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            line = line.rstrip("\n")
            if line in ("Samples:", "Locations", "Mappings"):
                part = line
            elif part == "Samples:":
                match = re.match(r"\s*(\d+)\s+(\d+): ?([\d ]*)$", line)
                if match:
                    samples.append([int(match.group(1)), match.group(3).split(), ""])
                elif samples and "comm:[" in line:
                    samples[-1][2] = re.search(r"comm:\[(.*?)\]", line).group(1)
            elif part == "Locations":
                match = re.match(r"\s*(\d+): 0x[0-9a-f]+ (?:M=(\d+) )?(.*?)"
                                 r"(?: \S*:\d+(?::\d+)? s=\d+(?:\(.*\))?)?$", line)
                if match:
                    locations[match.group(1)] = match.group(3)
                    if not match.group(3):
                        unnamed.add(match.group(2))
            elif part == "Mappings" and ":" in line:
                if line.endswith("[FN]") == (line.split(":")[0].strip() in unnamed):
                    wrong.append(line)
    stacks = collections.Counter()
    for count, ids, comm in samples:
        stacks[(comm, *(plain(locations[i]) for i in reversed(ids)))] += count
    return stacks, wrong


def plain(name):
    """pprof leaves names out where there is no function."""
    return "[]" if not name or name.startswith("[") else name


def compare_pprof(folded, raw):
    ours, (theirs, mappings) = collections.Counter(), read_raw(raw)
    for stack, count in read_folded(folded).items():
        ours[(stack[0], *(plain(name.removesuffix("_[k]")) for name in stack[1:]))] += count
    wrong = [stack for stack in ours | theirs if ours[stack] != theirs[stack]]
    for stack in wrong[:5]:
        print(f"# {ours[stack]} in folded, {theirs[stack]} in pprof: {';'.join(stack)}")
    print(f"# {sum(ours.values())} samples in {len(ours)} folded stacks, "
          f"{sum(theirs.values())} in {len(theirs)} of pprof")
    for line in mappings:
        print(f"# has functions for all or not: {line}")
    return bool(ours) and not wrong and not mappings


def main():
    what, args = sys.argv[1], sys.argv[2:]
    same = compare_perf(*args) if what == "perf" else compare_pprof(*args)
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
