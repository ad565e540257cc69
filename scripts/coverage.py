#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Print which lines of the series each test program runs, from the counts of coverage.sh.

  coverage.py LINUX KERNEL-BUILD-DIR DIRECTORY

Only lines of files that this repository holds count, those of test code excepted.
"""

import json
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Code that tests need.
TESTS = re.compile(r"(^|/)(test_[^/]*|[^/]*_kunit)\.[ch]$")


def own_file(path, linux):
    """The name of a file of the series, or None."""
    name = os.path.relpath(os.path.join(linux, path), linux)
    return name if not TESTS.search(name) and os.path.exists(os.path.join(TOP, name)) else None


def gcov(directory, notes):
    """Yield what gcov says of each object: its notes must be where its counts are."""
    for place, _, files in os.walk(directory):
        for file in (file for file in files if file.endswith(".gcda")):
            counts = os.path.join(place, file)
            wanted = counts.removesuffix("gcda") + "gcno"
            if not os.path.lexists(wanted):
                os.symlink(os.path.join(notes, os.path.relpath(wanted, directory)), wanted)
            done = subprocess.run(["gcov", "--json-format", "--stdout", counts], cwd=notes,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
            yield from (json.loads(text) for text in done.stdout.splitlines() if text)


def lines_of(directory, linux, notes):
    """The lines with code, and those of them that ran: sets of (file, number)."""
    code, ran = set(), set()
    for entry in (entry for said in gcov(directory, notes) for entry in said["files"]):
        name = own_file(entry["file"], linux)
        for line in entry["lines"] if name else []:
            code.add((name, line["line_number"]))
            if line["count"]:
                ran.add((name, line["line_number"]))
    return code, ran


def ranges(lines):
    """Print sorted lines as FILE:FIRST-LAST, where no other line with code is between them."""
    text = []
    for name in sorted({name for name, _ in lines}):
        numbers, parts = sorted(number for file, number in lines if file == name), []
        for number in numbers:
            if parts and number - parts[-1][1] == 1:
                parts[-1][1] = number
            else:
                parts.append([number, number])
        text.append(name + ":" + ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts))
    return text


def main():
    linux, notes, out = sys.argv[1:]
    counts = os.path.join(out, "counts")
    code, ran = set(), {}
    for name in sorted(os.listdir(counts)):
        found, ran[name] = lines_of(os.path.join(counts, name), linux, notes)
        code |= found
    everything = set().union(*ran.values())

    print(f"{'file':48}{'lines':>8}{'run':>8}")
    for file in sorted({file for file, _ in code}):
        total = [line for line in code if line[0] == file]
        print(f"{file:48}{len(total):8}{sum(line in everything for line in total) / len(total):8.1%}")
    print(f"{'all':48}{len(code):8}{len(everything) / len(code):8.1%}\n")

    print(f"{'program':24}{'lines':>8}{'alone':>8}  of which no other program runs")
    for name, lines in sorted(ran.items(), key=lambda item: -len(item[1])):
        only = lines.difference(*(ran[other] for other in ran if other != name))
        print(f"{name:24}{len(lines):8}{len(only):8}  {' '.join(ranges(only))}")

    with open(os.path.join(out, "missed"), "w", encoding="utf-8") as file:
        file.write("".join(text + "\n" for text in ranges(code - everything)))
    print(f"\nThe lines that nothing runs are listed in {out}/missed.")


if __name__ == "__main__":
    main()
