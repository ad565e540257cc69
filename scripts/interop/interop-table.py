#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compare how two versions of perf read each other's files.

    interop-table.py DIR

DIR holds sid.data and ours.data, and for each READER the output of
"perf script -F tid,time,ip" as READER-reads-FILE. The numbers of this tree's perf
must be those that perfdata.py finds in the file. Upstream's perf may miss the few
samples that were taken after their record was written, because it drops that record.
All other chains must be the same, address by address. Ends with status 1 otherwise.
"""

import os
import struct
import sys
from collections import Counter

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from perfdata import PerfData

KERNEL_BASE = 1 << 63
MATCHED = 0.99
UPSTREAM = 0.95


def chains(path):
    """Yield the addresses of each sample that perf script printed."""
    with open(path, encoding="ascii", errors="replace") as file:
        for block in file.read().split("\n\n"):
            lines = [line.split() for line in block.strip("\n").split("\n")]
            if lines and len(lines[0]) >= 2:
                yield [int(words[0], 16) for words in lines[1:] if words and
                       all(c in "0123456789abcdef" for c in words[0])]


def counts(path, cookies):
    """Samples, those with user frames, and those with kernel and user frames."""
    samples = user = both = cookies_shown = 0
    for chain in chains(path):
        samples += 1
        kernel_nr = sum(ip >= KERNEL_BASE for ip in chain)
        user_nr = sum(ip < KERNEL_BASE and ip not in cookies for ip in chain)
        cookies_shown += any(ip in cookies for ip in chain)
        user += user_nr > 0
        both += kernel_nr > 0 and user_nr > 0
    return samples, user, both, cookies_shown


def row(name, reader, cells):
    """One line of the table."""
    return f"{name:6}{reader:22}{cells[0]:9}{cells[1]:12}{cells[2]:13}{cells[3]:19}"


def meets(reader, cells, wanted):
    """Return whether a reader found the contents of the file."""
    if reader == "ours":
        return cells == wanted
    return cells[0] == wanted[0] and all(c >= UPSTREAM * w for c, w in zip(cells[1:3], wanted[1:3]))


def main(directory):
    """Print the table; return whether every reader found the contents of the files."""
    good = True
    print(f"{'file':6}{'read by':22}{'samples':>9}{'user chain':>12}"
          f"{'kernel+user':>13}{'cookie as address':>19}")
    for name in ("sid", "ours"):
        data = PerfData(f"{directory}/{name}.data")
        cookies = data.cookies
        merged = sum(bool(s.user or data.records.get(s.cookie)) for s in data.samples)
        wanted = (len(data.samples), merged, len(data.both), 0)
        print(row(name, "(what it holds)", wanted))
        for reader, label in (("sid", "perf of sid"), ("ours", "perf of this tree")):
            cells = counts(f"{directory}/{reader}-reads-{name}", cookies)
            met = meets(reader, cells, wanted)
            good = good and met
            print(row(name, label, cells) + ("   ok" if met else "   FAILED"))
        differing = Counter(map(tuple, chains(f"{directory}/sid-reads-{name}")))
        differing -= Counter(map(tuple, chains(f"{directory}/ours-reads-{name}")))
        unmerged = counts(f"{directory}/sid-reads-{name}", cookies)[3]
        same = differing.total() == unmerged
        good = good and same
        print(f"{name:6}chains that differ: {differing.total()}, of which sid's perf did "
              f"not merge {unmerged}   {'ok' if same else 'FAILED'}")
        enough = cookies and len(data.matched) >= MATCHED * len(cookies)
        good = good and bool(enough)
        print(f"{name:6}cookies matched: {len(data.matched)} of {len(cookies)}, at least "
              f"{100 * MATCHED:.0f} % wanted   {'ok' if enough else 'FAILED'}")
    return good


if __name__ == "__main__":
    try:
        sys.exit(0 if main(sys.argv[1]) else 1)
    except (OSError, ValueError, struct.error) as error:
        sys.exit(f"interop: {error}")
