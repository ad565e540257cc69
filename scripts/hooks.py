# SPDX-License-Identifier: GPL-2.0
"""Find the patch to which an edit of a base file belongs, and write it there.

The versions of a file are a list of (patch, blob): the file of the base, whose patch is None, and
the file after each patch that edits it. Invariant: the last version is what build/linux contains
without the edit. An edit that belongs to one patch is in its version and in all later ones.
"""

import os
import re
import tempfile

from repo import LINUX, Failure, git, line, read, say, write


def blob(name):
    return git("cat-file", "blob", name)


def store(data):
    return line("hash-object", "-w", "--stdin", stdin=data)


def rows(text):
    """Return the lines as git counts them: str.splitlines() also ends them at form feeds, for example."""
    return [row for row in re.split(r"(?<=\n)", text) if row]


def hunks(old, new):
    """Return what differs between two blobs: (first line, lines) in the old one, and the new lines."""
    text = git("diff", "--no-color", "-U0", old, new).decode(errors="surrogateescape")
    found = []
    for part in re.split(r"(?m)^@@ ", text)[1:]:
        first, count = re.match(r"-(\d+)(?:,(\d+))? ", part).groups()
        count = int(count or 1)
        lines = [row[1:] for row in rows(part)[1:] if row[0] == "+"]
        found.append((int(first) - (count > 0), count, lines))
    return found


def with_hunks(lines, chosen):
    """Return lines after these hunks."""
    lines = list(lines)
    for first, count, new in reversed(chosen):
        lines[first:first + count] = new
    return lines


def owners(versions):
    """Return for each line of the last version the patch that it is from, or None."""
    who = [None] * blob(versions[0][1]).count(b"\n")
    for (_, old), (name, new) in zip(versions, versions[1:]):
        changes = [(first, count, [name] * len(lines)) for first, count, lines in hunks(old, new)]
        # A patch that only removes lines owns the line before.
        for before in [max(first - 1, 0) for first, _, lines in changes if not lines]:
            who[before:before + 1] = [who[before] or name]
        who = with_hunks(who, changes)
    return who


def nearest(who, hunk):
    """Return the patch with a line that is nearest to a hunk, or None."""
    first, count, _ = hunk
    owned = [number for number, name in enumerate(who) if name]
    return who[min(owned, key=lambda number: max(first - number, number - first - count + 1))] if owned else None


def merge(path, name, *versions):
    """Return a blob: a version of a file before later patches, with the edit of its last version."""
    with tempfile.TemporaryDirectory() as tmp:
        files = [os.path.join(tmp, side) for side in ("here", "last", "edited")]
        for file, version in zip(files, versions):
            write(file, blob(version))
        try:
            return store(git("merge-file", "-p", "-q", *files))
        except Failure:
            raise Failure(f"the edit of {path} and a patch after {name} change the same lines: "
                          "name that patch with 'make refresh PATCH=NNNN-name.patch'") from None


def read_edited(path):
    """Return an edited file, if a patch can hold its edit."""
    file = os.path.join(LINUX, path)
    data = read(file)
    if line("ls-tree", "tree", "--", path).startswith("100755") != os.access(file, os.X_OK):
        raise Failure(f"the mode of {path} was changed, which no patch can hold: chmod it back")
    if os.path.islink(file) or b"\0" in data:
        raise Failure(f"{path} is no text, and so no patch can hold its edit")
    if data and not data.endswith(b"\n"):
        raise Failure(f"{path} does not end with a newline: add one")
    return data


def take_back(path, patch, listed, stages):
    """Add each hunk of an edit to the named patch, or the one that is nearest to it, and to the
    versions of the file after later patches."""
    new = store(read_edited(path))
    versions = stages.setdefault(path, [(None, line("rev-parse", "base:" + path))])
    last = versions[-1][1]
    who = owners(versions)
    chosen = [(hunk, patch or nearest(who, hunk)) for hunk in hunks(last, new)]
    wanted = {owner for _, owner in chosen}
    if None in wanted:
        raise Failure(f"no patch touches {path}: name one with 'make refresh PATCH=NNNN-name.patch'")
    for name in wanted - {name for name, _ in versions}:
        spot = sum(1 for other, _ in versions if other is None or listed.index(other) < listed.index(name))
        versions.insert(spot, (name, versions[spot - 1][1]))
    lines = rows(blob(last).decode(errors="surrogateescape"))
    for number, (name, old) in enumerate(versions[1:], 1):
        here = [hunk for hunk, owner in chosen if listed.index(owner) <= listed.index(name)]
        if here:
            text = "".join(with_hunks(lines, here)).encode(errors="surrogateescape")
            versions[number] = (name, merge(path, name, old, last, store(text)))
    for name in sorted(wanted):
        say(f"refresh: {path} -> patches/{name}")


def make_diff(path, old, new):
    """Return a diff with the least context that makes the place of each hunk unique."""
    text = blob(old).decode(errors="surrogateescape")
    for context in range(1, 6):
        diff = git("diff", "--no-color", f"-U{context}", old, new).decode(errors="surrogateescape")
        diff = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n" + diff[diff.index("\n@@ ") + 1:]
        places = ["".join(row[1:] for row in rows(hunk) if row[0] in " -")
                  for hunk in re.split(r"(?m)^@@ .*\n", diff)[1:]]
        if all(text.count(place) == 1 for place in places):
            break
    return diff


def without_places(diff):
    """Return a diff without the positions and headings of its hunks, and without blank lines at its end."""
    return re.sub(r"(?m)^@@ .*$", "@@", diff).rstrip("\n")


def rewrite(commit, stages):
    """Rewrite a patch file, but keep its diffs of which only the positions would change."""
    diffs = {path: make_diff(path, old, new) for path in sorted(stages)
             for (_, old), (name, new) in zip(stages[path], stages[path][1:]) if name == commit.name and old != new}
    kept = {path: diff for path, diff in commit.edits.items()
            if without_places(diff) == without_places(diffs.get(path, ""))}
    if len(kept) < max(len(diffs), len(commit.edits)):
        text = commit.header + "".join(kept.get(path, diff).rstrip("\n") + "\n" for path, diff in diffs.items())
        write(commit.path, text.encode(errors="surrogateescape"))
        say(f"refresh: wrote patches/{commit.name}")
