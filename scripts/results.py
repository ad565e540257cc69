#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Count test results: results.py PART FILE...

Reads KTAP from a kernel log, TAP from kselftests and the output of 'perf test', and
recognizes each by the form of the line. PART is "KERNEL-KIND" and names the tested part.
Prints each failed test with its first failed assertion or else its last output, its log, and
the command that repeats it; each skipped test; and "PART PASSED FAILED SKIPPED" as the last
line. Only leaves count: the result line of a suite counts only if it fails and no test of
the suite failed. A missing result is a failure, as is a number of results other than the plan
announced. A skip that expected-skips does not list is a failure, because the test checked
nothing.
"""

import collections
import glob
import os
import re
import shlex
import sys

SAID = 20  # lines to print of a test that fails without an assertion

STAMP = re.compile(r"^(?:\[ *\d+\.\d+\])?(?:\[ *[TC]\d+\])? ?")
RESULT = re.compile(r"^((?:# |    )*)(not )?ok \d+(?: -)? ?(.*)$")
PLAN = re.compile(r"^((?:# |    )*)1\.\.(\d+)\s*(?:# SKIP.*)?$")
PERF = re.compile(r"^ *\d+(?:\.\d+)?: (.*?) *: (Ok|FAILED!|Skip.*)$")
# The formats of the kselftest harness and of KUnit.
ASSERTION = re.compile(r"[\w./-]+\.[chS]:\d+:\w+:Expected |(?:EXPECTATION|ASSERTION) FAILED at ")

HERE = os.path.dirname(os.path.abspath(__file__))
FTRACE = os.path.join(HERE, "../tools/testing/selftests/ftrace/test.d/user-unwind/*.tc")

with open(os.path.join(HERE, "expected-skips"), encoding="ascii") as skips:
    EXPECTED = skips.read().splitlines()

# Parts whose tests UNWIND_NAMES chooses.
NAMED = ("stackprof", "convert", "sframe-sessions", "record", "sframe")


def ftrace_file(name):
    """The file of the ftrace test with this description, or None."""
    for path in glob.glob(FTRACE):
        with open(path, encoding="utf-8") as stream:
            if f"# description: {name.split(' # ')[0]}" in stream.read().splitlines():
                return os.path.basename(path)
    return None


def escaped(name):
    """The extended regular expression that matches this name of a test, without the reason."""
    return re.sub(r"[].*^$()+?{|[\\]", r"\\\g<0>", name.split(" # ")[0])


class Failure:
    """A test that did not pass."""

    def __init__(self, name, said, assertion, place, skipped=False, perf=False, test=None):
        self.name = name
        self.skipped = skipped
        self.perf = perf  # the line is perf's, or guest-check.sh's about one of perf's tests
        self.test = test  # of the part, which this is or is in
        self.program = None
        self.said = [assertion] if assertion else list(said)
        self.place = place

    def again(self, part):
        """The command that runs the test again."""
        kernel, _, kind = part.partition("-")
        if kind == "kselftest-intel":
            what = kind
        elif kind.startswith("kselftest") and self.program:
            test = self.name.split(" ")[0]
            what = self.program + ("." + test if "." in test else "")
        elif kind.endswith("kunit") and self.program:
            what = "kunit." + self.program
        elif kind.startswith("ftrace") and ftrace_file(self.name):
            what = f"ftrace UNWIND_FTRACE={ftrace_file(self.name)}"
        elif self.perf:
            # guest-check.sh quotes the name when it reports what perf does not.
            name = re.search(r"^(?:no )?perf .*?'(.*)'", self.name)
            what = f"{kind} UNWIND_PERF={shlex.quote(name.group(1) if name else self.name)}"
        elif self.test and kind in NAMED:
            what = f"{kind} UNWIND_NAMES={shlex.quote('^' + escaped(self.test) + '$')}"
        else:
            what = kind
        return f"make test T={what}" + ("" if kernel in ("plain", "host") else f" KERNEL={kernel}")

    def text(self, part):
        title = f"{self.program}: {self.name}" if self.program else self.name
        if self.skipped:
            return f"SKIPPED {part}: {title}"
        return "\n    ".join([f"FAILED {part}: {title}", *self.said, f"log: {self.place}",
                              f"again: {self.again(part)}"])


class Results:
    def __init__(self):
        self.passed = 0
        self.failures = []
        self.said = collections.deque(maxlen=SAID)  # since the last result
        self.assertion = None  # the first since the last result
        self.levels = {}  # depth -> [results seen, failures below, plan]
        self.place = ""

    def leaf(self, name, outcome, perf=False, test=None):
        if outcome == "ok":
            self.passed += 1
        else:
            self.failures.append(Failure(name, self.said, self.assertion, self.place,
                                         outcome == "skip", perf, test))
        self.said.clear()
        self.assertion = None

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
            self.leaf(match.group(1), outcome, perf=True)
            return
        match = PLAN.match(text)
        if match:
            depth = len(re.findall(r"# |    ", match.group(1)))
            self.levels.setdefault(depth, [0, 0, None])[2] = int(match.group(2))
            return
        match = RESULT.match(text)
        if not match:
            self.said.append(text)
            if not self.assertion and ASSERTION.search(text):
                self.assertion = text.lstrip("# ")
            return
        depth = len(re.findall(r"# |    ", match.group(1)))
        self.result(depth, match.group(3), bool(match.group(2)))

    def result(self, depth, name, bad):
        skipped = re.search(r"# *SKIP", name)
        # kselftest's expected failures count as passed.
        bad = bad and not re.search(r"# *(XFAIL|TODO)", name)
        below, failed = self.close(depth)
        level = self.levels.setdefault(depth, [0, 0, None])
        level[0] += 1
        level[1] += bad or failed > 0
        leaf = not below or (bad and not failed)
        if leaf:
            self.leaf(name, "fail" if bad else "skip" if skipped else "ok",
                      test=None if depth else name)
        if depth == 0 and (below or name.startswith("selftests: ")):
            self.belongs_to(name)

    def belongs_to(self, name):
        """@name ends a program or suite: it owns the failures since the one before."""
        program, _, rest = name.partition(" # ")
        # A single test of a program runs as PROGRAM.TEST.
        program = program.removeprefix("selftests: unwind: ").partition(".")[0]
        for failure in reversed(self.failures):
            if failure.program or failure.test not in (None, name):
                break
            failure.program = program
            failure.test = name
            if failure.name == name:
                failure.name = rest or "it failed"

    def read(self, path):
        before = self.passed + len(self.failures)
        self.place = path
        with open(path, encoding="utf-8", errors="replace") as stream:
            for number, line in enumerate(stream, 1):
                self.place = f"{path}:{number}"
                self.line(line)
        self.close(-1)
        if self.passed + len(self.failures) == before:
            self.leaf("no test reported a result", "fail")
        self.said.clear()
        self.assertion = None


def main(argv):
    results = Results()
    for path in argv[2:]:
        results.read(path)
    for failure in results.failures:
        # EXPECTED decides: an unexpected skip becomes a failure, and its text changes.
        text = failure.text(argv[1])
        failure.skipped = any(re.search(pattern, text) for pattern in EXPECTED)
        print(failure.text(argv[1]))
    skipped = sum(failure.skipped for failure in results.failures)
    failed = len(results.failures) - skipped
    print(argv[1].replace(" ", "-"), results.passed, failed, skipped, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv))
    except OSError as error:
        # Usually the disk is full. Drop the buffered output: a flush would fail as well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(f"results.py: {error}")
