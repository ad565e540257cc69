#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Count test results: results.py PART FILE...

Reads KTAP from a kernel log, TAP from kselftests and the output of 'perf test',
told apart by the form of the line. Prints each test that fails or is skipped and,
as its last line, "PART PASSED FAILED SKIPPED". Only leaves count: the line that sums up a
suite counts when it fails and nothing in the suite did. No result at all, or
fewer than the plan announced, is a failure.
"""

import re
import sys

STAMP = re.compile(r"^(?:\[ *\d+\.\d+\])?(?:\[ *[TC]\d+\])? ?")
RESULT = re.compile(r"^((?:# |    )*)(not )?ok \d+(?: -)? ?(.*)$")
PLAN = re.compile(r"^((?:# |    )*)1\.\.(\d+)\s*(?:# SKIP.*)?$")
PERF = re.compile(r"^ *\d+(?:\.\d+)?: (.*?) *: (Ok|FAILED!|Skip.*)$")


class Results:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.failures = []
        self.skips = []
        self.levels = {}  # depth -> [results seen, failures below, plan]

    def leaf(self, name, outcome):
        if outcome == "skip":
            self.skipped += 1
            self.skips.append(name)
        elif outcome == "ok":
            self.passed += 1
        else:
            self.failed += 1
            self.failures.append(name)

    def close(self, depth):
        """Leave every level below @depth: (any results there, any failures there)."""
        seen = failed = 0
        for level in [d for d in self.levels if d > depth]:
            count, bad, plan = self.levels.pop(level)
            if plan is not None and count != plan:
                self.leaf(f"planned {plan} tests, {count} reported", "fail")
                bad += 1
            seen += count
            failed += bad
        return seen, failed

    def line(self, text):
        text = STAMP.sub("", text.rstrip("\r\n"), count=1)
        match = PERF.match(text)
        if match:
            outcome = {"O": "ok", "F": "fail", "S": "skip"}[match.group(2)[0]]
            self.leaf(match.group(1), outcome)
            return
        match = PLAN.match(text)
        if match:
            depth = len(re.findall(r"# |    ", match.group(1)))
            self.levels.setdefault(depth, [0, 0, None])[2] = int(match.group(2))
            return
        match = RESULT.match(text)
        if not match:
            return
        depth = len(re.findall(r"# |    ", match.group(1)))
        name = match.group(3)
        skipped = re.search(r"# *SKIP", name)
        # An expected failure of kselftest is a pass.
        bad = bool(match.group(2)) and not re.search(r"# *(XFAIL|TODO)", name)
        below, failed = self.close(depth)
        level = self.levels.setdefault(depth, [0, 0, None])
        level[0] += 1
        level[1] += bad or failed > 0
        if not below or (bad and not failed):
            self.leaf(name, "fail" if bad else "skip" if skipped else "ok")

    def end(self):
        self.close(-1)
        if not self.passed + self.failed + self.skipped:
            self.leaf("no test reported a result", "fail")


def main(argv):
    results = Results()
    for path in argv[2:]:
        with open(path, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                results.line(line)
    results.end()
    for name in results.failures:
        print(f"FAILED {argv[1]}: {name}")
    for name in results.skips:
        print(f"SKIPPED {argv[1]}: {name}")
    print(argv[1].replace(" ", "-"), results.passed, results.failed, results.skipped)
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
