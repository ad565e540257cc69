#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compare two tables of make bench: bench-against.py OLD NEW

Prints the figures that differ by more than 1 %, and whether that is more than both spreads
together. It can still be chance: some rows differ more between two runs than between the rounds of
one.
"""

import re
import sys

# Old tables have figures without a space between them: no number starts with two zeros.
NUMBER = r"(?:0|[1-9]\d{0,2}(?:,\d{3})*)(?:\.\d+)?"
FIGURE = re.compile(f"(-?{NUMBER}) ±({NUMBER})")
# What may change with the programs of the system.
COUNTED = re.compile(r"^\d+ (in the cache|functions)$")
# Columns of the names and labels of rows, as bench-table.py prints them.
NAME, LABEL = 24, 48
WORSE = 0.01


def number(text):
    """The number that a table prints."""
    return float(text.replace(",", ""))


def text(key):
    """Name a figure."""
    section, *rest = key
    return " ".join(f"{section.rstrip(':')} {' '.join(map(str, rest))}".split())


def figures(path):
    """The figures of a table, as (median, spread), by section, name, label and column."""
    found = {}
    section = name = ""
    with open(path, encoding="utf-8") as file:
        for line in file:
            line = line.rstrip()
            if line.endswith(":"):
                section = line
            if section == "limits:":
                break
            cells = FIGURE.findall(line)
            if not cells or "unpatched base" in line:
                continue
            first = FIGURE.search(line).start()
            name = line[:min(NAME, first)].strip() or name
            label = COUNTED.sub(r"\1", line[NAME:min(LABEL, first)].strip())
            while (section, name, label, 1) in found:
                label += "'"
            for column, cell in enumerate(cells, 1):
                found[section, name, label, column] = tuple(map(number, cell))
    return found


def main(old, new):
    """Returns the exit status."""
    old, new = figures(old), figures(new)
    for key, (median, spread) in new.items():
        before, wide = old.get(key, (median, spread))
        more = median - before
        if abs(more) <= WORSE * abs(before):
            continue
        share = f"{100 * more / before:+.1f} %" if before else ""
        verdict = "within the spread"
        if abs(more) > spread + wide:
            verdict = "worse" if more > 0 else "better"
        print(f"{before:>14,.1f}{median:>14,.1f}{share:>12}  {verdict:18}{text(key)}")
    for key in old.keys() ^ new.keys():
        print(f"only in the {'old' if key in old else 'new'} table: {text(key)}")
    both = old.keys() & new.keys()
    print(f"{len(both)} figures are in both tables")
    return 0 if both else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
