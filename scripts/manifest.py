# SPDX-License-Identifier: GPL-2.0
"""What patches/series says, and the new files that it lists.

patches/series starts with a version of the base, the tree of this version in git, and the cover
letter. Then it lists the commits in order. A line at column 0 names a patch file; the lines after
it that start with a tab name the new files of that commit. A line that ends in a slash stands for
all files below it, and one with asterisks for all that match, but for those of longer lines. A
patch file is a mail: From, Subject, message, "---", and the edits to files of the base, if any.
"""

import os
import re
from fnmatch import fnmatch

from repo import TOP, Failure, git, names, read

PATCHES = os.path.join(TOP, "patches")

# Files of the repository that are not files of the kernel tree, and those with another name there.
NOT_OVERLAY = ("patches/", "scripts/", ".ci/", "build/", "README.md", "UPSTREAM.md", "Makefile",
               ".gitattributes", ".gitignore")
RENAMED = {"Kconfig": "kernel/unwind/Kconfig"}


class Commit:
    """A commit of the series: its mail header, its edits, its new files."""

    def __init__(self, name):
        self.name = name
        self.brings, self.lines = [], []
        self.path = os.path.join(PATCHES, name)
        if not os.path.exists(self.path):
            raise Failure(f"patches/series names {name}, which is not in patches/")
        try:
            text = read(self.path).decode()
        except UnicodeDecodeError:
            raise Failure(f"patches/{name} is not UTF-8") from None
        match = re.match(r"From: (.+ <.+>)\nSubject: (?:\[PATCH[^\]]*\] )?(.+(?:\n .+)*)\n\n((?:.*\n)*?)---\n", text)
        if not match:
            raise Failure(f"patches/{name} does not start with From:, Subject:, an empty line, a message and '---'")
        self.header, self.author, subject, body = match.group(0, 1, 2, 3)
        self.message = (re.sub(r"\n ", " ", subject) + "\n\n" + body).encode()
        if "\nSigned-off-by: " not in "\n" + body:
            raise Failure(f"patches/{name} has no Signed-off-by")
        before, *parts = re.split(r"(?m)^(?=diff --git )", text[match.end():])
        if before.strip():
            raise Failure(f"patches/{name} has text between '---' and the first diff")
        self.edits = {}
        for part in parts:
            dest = re.match(r"diff --git a/(\S+) b/\1\n", part)
            if not dest:
                raise Failure(f"patches/{name} has a diff header that is not 'diff --git a/FILE b/FILE'")
            if not re.match(r"(index .*\n)?--- a/\S+\n\+\+\+ b/\S+\n@@ ", part[dest.end():]):
                raise Failure(f"patches/{name} does not just edit {dest.group(1)}: "
                              "patches do not add, remove or rename files, or change their modes")
            self.edits[dest.group(1)] = part

    def gone(self):
        """List, as sentences, the new files that do not exist."""
        return [f"{self.name} brings {name}, which does not exist: restore it, or " +
                ("remove its line from patches/series" if name in self.lines else f"run 'git rm {name}'")
                for name in self.brings if not os.path.isfile(os.path.join(TOP, name))]


def files_of(entry):
    """Return the new files that a line of patches/series stands for."""
    files = names("ls-files", "-z", entry, cwd=TOP) if entry.endswith("/") or "*" in entry else [entry]
    if not files:
        raise Failure(f"patches/series names {entry}, which holds no file that git knows")
    for name in files:
        if name.startswith(NOT_OVERLAY):
            raise Failure(f"patches/series names {entry}, but {name} is of the repository only: "
                          "it cannot be part of the series")
    return files


def head():
    """Return the version of the base in patches/series, its tree, the cover letter and the other lines."""
    match = re.match(r"(?:(?:#.*)?\n)*Base: (\S+)\nTree: ([0-9a-f]{40})\nSubject: (.+\n\n(?:.*\n)+?)---\n(?s:(.*))",
                     read(os.path.join(PATCHES, "series")).decode())
    if not match:
        raise Failure("patches/series does not start with Base:, Tree:, Subject:, an empty line, "
                      "the cover letter and '---'")
    return match.groups()


def load():
    """Return the commits of patches/series, in order."""
    commits, lines = [], []
    for text in head()[3].splitlines():
        text = text.split("#")[0].rstrip()
        if text and not text[0].isspace():
            commits.append(Commit(text))
        elif text and not commits:
            raise Failure(f"patches/series has a file before the first commit: {text.strip()}")
        elif text:
            commits[-1].lines.append(text.strip())
            lines.append((commits[-1], text.strip(), files_of(text.strip())))
    # A file belongs to the longest line that stands for it.
    longest = {}
    for _, entry, files in lines:
        longest.update({name: entry for name in files if len(entry) > len(longest.get(name, ""))})
    for commit, entry, files in lines:
        commit.brings += [name for name in files if longest[name] == entry]
        if entry not in longest.values():
            raise Failure(f"{commit.name} brings {entry}, which other lines bring")
    return commits


def destination(name):
    return RENAMED.get(name, name)


def overlay():
    """Return the new files, as {destination in the tree: source in the repository}."""
    return {destination(name): name for name in names("ls-files", "-z", "-co", "--exclude-standard", cwd=TOP)
            if not name.startswith(NOT_OVERLAY) and os.path.isfile(os.path.join(TOP, name))}


def manifest(commits):
    """List violations: each new file must be in exactly one commit, each patch file listed."""
    wrong, owner = [], {}
    listed = [commit.name for commit in commits]
    for commit in commits:
        if listed.count(commit.name) > 1:
            wrong.append(f"patches/series names {commit.name} more than once")
        if not commit.edits and not commit.brings:
            wrong.append(f"{commit.name} changes nothing")
        wrong += commit.gone()
        for name in commit.brings:
            if name in owner:
                wrong.append(f"{name} is in {owner[name]} and in {commit.name}")
            owner[name] = commit.name
    for name in overlay().values():
        if name in owner:
            continue
        if any(fnmatch(name, text + "*" if text.endswith("/") else text) for c in commits for text in c.lines):
            wrong.append(f"{name} is not known to git, and so not part of its folder: git add {name}")
        else:
            near = [owner[other] for other in owner if os.path.dirname(other) == os.path.dirname(name)]
            perhaps = f", perhaps {max(near, key=near.count)}" if near else ""
            wrong.append(f"{name} is in no commit of patches/series: "
                         f"add this line below its commit{perhaps}:\n\t{name}")
    wrong += [f"patches/{name} is not in patches/series" for name in os.listdir(PATCHES)
              if name.endswith(".patch") and name not in listed]
    return sorted(set(wrong))


def load_good():
    """Return the commits of patches/series if nothing is wrong."""
    commits = load()
    wrong = manifest(commits)
    if wrong:
        raise Failure("\n".join(wrong))
    return commits


# The new files, as they enter the tree

def merge_maintainers(base, ours):
    """Insert our entries of MAINTAINERS in alphabetical order."""
    text = base.decode()
    for new in ours.decode().strip("\n").split("\n\n"):
        title = new.split("\n")[0]
        start = text.index("\nMaintainers List\n")
        spot = next(m.start() for m in re.finditer(r"(?m)(?<=\n\n)^(\S.*)\n(?=[A-Z]:\t)", text[start:])
                    if m.group(1) > title or m.group(1) == "THE REST") + start
        text = text[:spot] + new + "\n\n" + text[spot:]
    return text.encode()


def new_file(name):
    """Return the command of git fast-import that adds a file of the repository."""
    data = read(os.path.join(TOP, name))
    if name == "MAINTAINERS":
        data = merge_maintainers(git("cat-file", "blob", "base:MAINTAINERS"), data)
    mode = 755 if os.access(os.path.join(TOP, name), os.X_OK) else 644
    return f"M 100{mode} inline {destination(name)}\ndata {len(data)}\n".encode() + data + b"\n"
