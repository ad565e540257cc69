#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Assemble the series, and export it as patches.

  series.py manifest            check patches/series against what is there
  series.py tree [--force]      assemble build/linux; touches only what changed
  series.py refresh [PATCH]     edits made in build/linux go back to their source
  series.py draft               build/draft/*.patch, for checks of the text
  series.py export [VERSION..]  build/series/*.patch, proved by git am
  series.py new                 list the files that the series adds, as DEST

patches/series lists the commits in order. A line at column 0 names a patch file;
the lines after it that start with a tab name the new files of that commit; a name
that ends in a slash stands for all files below it. A patch file is a mail: From,
Subject, message, "---", and the edits to files of the base, if any.

Invariant: build/tree.state holds the hash of every file that the assembly
wrote. A file in build/linux with another hash was edited there, and is never
overwritten without --force.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))
PATCHES = os.path.join(TOP, "patches")
BASE_SH = os.path.join(TOP, "scripts", "base.sh")
BUILD = os.path.join(TOP, "build")
LINUX = os.path.join(BUILD, "linux")
STATE = os.path.join(BUILD, "tree.state")
SERIES = os.path.join(PATCHES, "series")

# Files of the repository that are not files of the kernel tree.
NOT_OVERLAY = ("patches/", "scripts/", ".ci/", "build/", "README.md", "UPSTREAM.md", "Makefile",
               ".gitignore")
KCONFIG_DEST = "kernel/unwind/Kconfig"


class Failure(Exception):
    """One sentence for the user; ends the program with status 1."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def rel(path):
    return os.path.relpath(path, TOP)


def run(args, **kwargs):
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **kwargs)
    if done.returncode:
        text = (done.stderr or done.stdout)
        text = text.decode(errors="replace") if isinstance(text, bytes) else text
        raise Failure(f"{' '.join(args[:6])} failed: {text.strip()}")
    return done.stdout


def read(path):
    with open(path, "rb") as f:
        return f.read()


def read_or_none(path):
    try:
        return read(path)
    except FileNotFoundError:
        return None


def write(path, data, mode=0o644):
    """Write the file atomically: to a temporary name, then rename. The mtime is now."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    tmp = path + ".tmp~"
    with open(tmp, "wb") as f:
        f.write(data)
    os.chmod(tmp, mode)
    os.rename(tmp, path)


def digest(data, mode):
    return hashlib.sha256(data + (b"x" if mode & 0o100 else b"-")).hexdigest()


def digest_file(path):
    try:
        return digest(read(path), os.stat(path).st_mode)
    except FileNotFoundError:
        return None


# The manifest


class Commit:
    """A commit of the series: its mail header, its edits, its new files."""

    def __init__(self, name):
        self.name = name
        self.brings = []
        self.path = os.path.join(PATCHES, name)
        text = read_or_none(self.path)
        if text is None:
            raise Failure(f"patches/series names {name}, which is not in patches/")
        text = text.decode()
        match = re.match(r"From: (.+ <.+>)\nSubject: (?:\[PATCH[^\]]*\] )?(.+(?:\n .+)*)\n\n((?:.*\n)*?)---\n", text)
        if not match:
            raise Failure(f"{rel(self.path)} does not start with From:, Subject:, an empty line, a message and '---'")
        self.header = match.group(0)
        self.author = match.group(1)
        self.subject = re.sub(r"\n ", " ", match.group(2))
        self.body = match.group(3)
        if "\nSigned-off-by: " not in "\n" + self.body:
            raise Failure(f"{rel(self.path)} has no Signed-off-by")
        self.edits = {}
        for part in re.split(r"(?m)^(?=diff --git )", text[match.end():]):
            if part.startswith("diff --git "):
                dest = re.match(r"diff --git a/(\S+) b/\1\n", part)
                if not dest:
                    raise Failure(f"{rel(self.path)} has a diff header that is not 'diff --git a/FILE b/FILE'")
                self.edits[dest.group(1)] = part
            elif part.strip():
                raise Failure(f"{rel(self.path)} has text between '---' and the first diff")


def files_of(entry):
    """Return the new files that a line of patches/series stands for."""
    if not entry.endswith("/"):
        return [entry]
    listing = run(["git", "-c", "safe.directory=*", "-C", TOP, "ls-files", "-z", entry])
    files = [name for name in listing.decode().split("\0") if name]
    if not files:
        raise Failure(f"patches/series names {entry}, which holds no file that git knows")
    return files


def load():
    """Return the commits of patches/series, in order."""
    commits = []
    try:
        lines = read(SERIES).decode().splitlines()
    except FileNotFoundError:
        raise Failure("patches/series is missing") from None
    for number, line in enumerate(lines, 1):
        line = line.split("#")[0].rstrip()
        if not line:
            continue
        if not line[0].isspace():
            commits.append(Commit(line))
        elif commits:
            commits[-1].brings += files_of(line.strip())
        else:
            raise Failure(f"patches/series:{number}: a file before the first commit")
    return commits


def overlay():
    """Return the new files, as {destination in the tree: source in the repository}."""
    listing = run(["git", "-c", "safe.directory=*", "-C", TOP, "ls-files", "-z", "-co", "--exclude-standard"])
    found = {}
    for name in listing.decode().split("\0"):
        if not name or name.startswith(NOT_OVERLAY) or not os.path.isfile(os.path.join(TOP, name)):
            continue
        found[destination(name)] = name
    return found


def destination(name):
    return KCONFIG_DEST if name == "Kconfig" else name


def manifest(commits):
    """List violations: each new file must be in exactly one commit, each patch file listed."""
    wrong = []
    owner = {}
    names = [c.name for c in commits]
    for commit in commits:
        if names.count(commit.name) > 1:
            wrong.append(f"patches/series names {commit.name} more than once")
        for name in commit.brings:
            if name in owner:
                wrong.append(f"{name} is in {owner[name]} and in {commit.name}")
            owner[name] = commit.name
            if not os.path.isfile(os.path.join(TOP, name)):
                wrong.append(f"{commit.name} brings {name}, which does not exist")
        if not commit.edits and not commit.brings:
            wrong.append(f"{commit.name} changes nothing")
    wrong += [f"{name} is in no commit of patches/series: add this line below its commit"
              f"{neighbour(name, owner)}:\n\t{name}" for name in overlay().values() if name not in owner]
    wrong += [f"patches/{name} is not in patches/series" for name in sorted(os.listdir(PATCHES))
              if name.endswith(".patch") and name not in names]
    return sorted(set(wrong))


def neighbour(name, owner):
    """Guess the commit of a new file: the one that brings most files of its directory."""
    folder = os.path.dirname(name)
    near = [commit for other, commit in owner.items() if os.path.dirname(other) == folder]
    return f", perhaps {max(near, key=near.count)}" if near else ""


# Applying


def apply_diff(old, diff, where, version):
    """Apply a diff to bytes, without fuzz. A failure names patch, hunk, file and base."""
    with tempfile.TemporaryDirectory() as tmp:
        target = os.path.join(tmp, "file")
        write(target, old)
        done = subprocess.run(["patch", "-N", "-F0", "-r-", "--no-backup-if-mismatch", target],
                              input=diff.encode(), capture_output=True, check=False)
        if done.returncode:
            text = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
            hunks = " ".join(re.findall(r"Hunk #(\d+) (?:FAILED|ignored)", text)) or "?"
            name = re.search(r"(?m)^\+\+\+ b/(\S+)", diff)
            name = name.group(1) if name else "?"
            raise Failure(f"{where}: hunk {hunks} does not apply to {name} of base {version}")
        return read(target)


class Hooks:
    """The contents of each edited base file after each commit that edits it."""

    def __init__(self, base, version, commits):
        self.stages = {}
        self.base = base
        for commit in commits:
            for path, diff in commit.edits.items():
                if path not in self.stages:
                    pristine = read_or_none(os.path.join(base, path))
                    if pristine is None:
                        raise Failure(f"patches/{commit.name}: {path} is not a file of base {version}")
                    self.stages[path] = [(None, pristine)]
                new = apply_diff(self.stages[path][-1][1], diff, f"patches/{commit.name}", version)
                self.stages[path].append((commit.name, new))

    def final(self, path):
        return self.stages[path][-1][1]

    def mode(self, path):
        return os.stat(os.path.join(self.base, path)).st_mode & 0o777


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


def base_tree(version=""):
    """Return the directory and the version of the pristine base."""
    done = subprocess.run([BASE_SH, "tree", version],
                          stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise SystemExit(1)
    path = done.stdout.decode().strip()
    return path, os.path.basename(path)


# Assembling build/linux


def load_state():
    data = read_or_none(STATE)
    return json.loads(data) if data else {"base": None, "files": {}}


def save_state(state):
    write(STATE, (json.dumps(state, indent=0, sort_keys=True) + "\n").encode())


def wanted(base, hooks):
    """Return the assembled files, {destination: (data, mode, source)}; an edit's source is None."""
    files = {path: (hooks.final(path), hooks.mode(path), None) for path in hooks.stages}
    for dest, name in overlay().items():
        source = os.path.join(TOP, name)
        data = read(source)
        if dest == "MAINTAINERS":
            data = merge_maintainers(read(os.path.join(base, dest)), data)
        elif os.path.exists(os.path.join(base, dest)):
            raise Failure(f"{name} exists in base {os.path.basename(base)}: edit it with a hook patch")
        mode = 0o755 if os.stat(source).st_mode & 0o100 else 0o644
        files[dest] = (data, mode, name)
    return files


def need_space(megabytes, what):
    free = shutil.disk_usage(BUILD).free >> 20
    if free < megabytes:
        raise Failure(f"{rel(BUILD)} has {free} MB free, {what} needs {megabytes} MB")


def copy_base(base, version, state):
    """Copy the base to build/linux. Objects of an earlier tree may be newer than the copied files."""
    shutil.rmtree(LINUX + ".tmp", ignore_errors=True)
    known = os.path.exists(STATE)
    # Record no base until the tree is complete: after an interruption, start from scratch.
    save_state({"base": None, "files": {}})
    if os.path.isdir(LINUX) and state["base"]:
        say(f"tree: changing build/linux from base {state['base']} to {version} (about 30 s)")
        run(["rsync", "-rlp", "--checksum", "--delete", base + "/", LINUX + "/"])
        return
    shutil.rmtree(LINUX, ignore_errors=True)
    need_space(2500, "the source tree")
    say(f"tree: copying base {version} to build/linux (about 10 s)")
    # With new timestamps, objects of another base are older than every copied file.
    same = not known or state["base"] == version
    run(["cp", "-a", *([] if same else ["--no-preserve=timestamps"]), base, LINUX + ".tmp"])
    for path in state["files"]:
        path = os.path.join(LINUX + ".tmp", path)
        if os.path.exists(path):
            os.utime(path)
    os.rename(LINUX + ".tmp", LINUX)


def edited(state, files):
    """List files of build/linux that differ from both the last and the next written version."""
    result = []
    for path, was in state["files"].items():
        now = digest_file(os.path.join(LINUX, path))
        if now in (was, None):
            continue
        if path in files and now == digest(*files[path][:2]):
            continue
        result.append(path)
    return sorted(result)


def tree(force):
    start = time.monotonic()
    base, version = base_tree(os.environ.get("BASE", ""))
    state = load_state()
    files = wanted(base, Hooks(base, version, load()))
    fresh = not os.path.isdir(LINUX) or state["base"] != version
    if os.path.isdir(LINUX):
        lost = [] if force else edited(state, files)
        if lost:
            raise Failure("edited in build/linux: " + ", ".join(lost) +
                          "; take it over with 'make refresh' or drop it with 'make tree FORCE=1'")
    if fresh:
        copy_base(base, version, state)
        state = {"base": version, "files": {}}
    written = removed = 0
    for path in sorted(set(state["files"]) - set(files)):
        target = os.path.join(LINUX, path)
        pristine = read_or_none(os.path.join(base, path))
        if pristine is not None:
            write(target, pristine, os.stat(os.path.join(base, path)).st_mode & 0o777)
        elif os.path.exists(target):
            os.unlink(target)
        del state["files"][path]
        removed += 1
    for path, (data, mode, _) in sorted(files.items()):
        target = os.path.join(LINUX, path)
        want = digest(data, mode)
        if digest_file(target) != want:
            write(target, data, mode)
            written += 1
        state["files"][path] = want
    save_state(state)
    if written or removed or fresh:
        say(f"tree: build/linux is base {version} plus the series, "
            f"{written} files written, {removed} taken back, {time.monotonic() - start:.1f} s")


# Taking edits back


def make_diff(path, old, new):
    """Return a diff with the least context that makes the place of each hunk unique."""
    for context in range(1, 6):
        diff = diff_text(path, old, new, context)
        if all(old.decode(errors="surrogateescape").count(block) == 1 for block in old_blocks(diff)):
            break
    return diff


def diff_text(path, old, new, context):
    with tempfile.TemporaryDirectory() as tmp:
        for side, data in (("a", old), ("b", new)):
            write(os.path.join(tmp, side, path), data)
        env = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CEILING_DIRECTORIES=tmp, GIT_DIR="/nonexistent")
        done = subprocess.run(["git", "diff", "--no-index", "--no-color", "--no-prefix", f"-U{context}",
                               f"a/{path}", f"b/{path}"], cwd=tmp, env=env, capture_output=True, check=False)
        if done.returncode > 1:
            raise Failure(f"git diff of {path} failed: {done.stderr.decode().strip()}")
    return re.sub(r"(?m)^index .*\n", "", done.stdout.decode(errors="surrogateescape"), count=1)


def old_blocks(diff):
    """Yield the lines that each hunk expects in the old file."""
    for hunk in re.split(r"(?m)^@@ .*\n", diff)[1:]:
        yield "".join(line[1:] for line in hunk.splitlines(True) if line[0] in " -")


def without_positions(text):
    return re.sub(r"(?m)^@@ .*$", "@@", text)


def edited_base_files(base, state):
    """Yield base files that were edited in build/linux and that no patch touches yet."""
    for root, dirs, names in os.walk(base):
        if root == base:
            dirs[:] = [d for d in dirs if d != ".git"]
        for name in names:
            old = os.path.join(root, name)
            path = os.path.relpath(old, base)
            new = os.path.join(LINUX, path)
            if path in state["files"] or os.path.islink(old):
                continue
            try:
                a, b = os.stat(old), os.stat(new)
            except FileNotFoundError:
                continue
            if (a.st_size, int(a.st_mtime)) != (b.st_size, int(b.st_mtime)) and read(old) != read(new):
                yield path


def refresh(patch):
    base, version = base_tree(load_state()["base"] or os.environ.get("BASE", ""))
    state = load_state()
    if not os.path.isdir(LINUX) or not state["base"]:
        raise Failure("build/linux is not assembled yet: 'make tree'")
    commits = load()
    names = [c.name for c in commits]
    if patch and patch not in names:
        raise Failure(f"{patch} is not in patches/series")
    hooks = Hooks(base, version, commits)
    files = wanted(base, hooks)
    touched = edited(state, files)
    for path in touched:
        source = files[path][2] if path in files else None
        if path == "MAINTAINERS":
            raise Failure("MAINTAINERS was edited in build/linux: edit the MAINTAINERS at the root instead")
        if source is None:
            continue
        if digest(*files[path][:2]) != state["files"][path]:
            raise Failure(f"{source} was edited here and in build/linux: make the two equal first")
        shutil.copy2(os.path.join(LINUX, path), os.path.join(TOP, source))
        say(f"refresh: {source}")
    edits = [p for p in touched if p in hooks.stages] + sorted(edited_base_files(base, state))
    for path in edits:
        take_back(path, patch, hooks, names, version)
    for commit in commits:
        rewrite(commit, hooks)
    for path in touched + edits:
        state["files"][path] = digest_file(os.path.join(LINUX, path))
    save_state(state)


def take_back(path, patch, hooks, names, version):
    """Add the edit of a base file to the stages of one patch and of all later ones."""
    new = read(os.path.join(LINUX, path))
    if path not in hooks.stages:
        if not patch:
            raise Failure(f"no patch touches {path}: name one with 'make refresh PATCH=NNNN-name.patch'")
        hooks.stages[path] = [(None, read(os.path.join(hooks.base, path)))]
    stages = hooks.stages[path]
    owner = patch or stages[-1][0]
    delta = diff_text(path, stages[-1][1], new, 3)
    if owner not in [name for name, _ in stages]:
        spot = sum(1 for name, _ in stages if name is None or names.index(name) < names.index(owner))
        stages.insert(spot, (owner, stages[spot - 1][1]))
    first = [name for name, _ in stages].index(owner)
    last = len(stages) - 1
    for i in range(first, last):
        stages[i] = (stages[i][0], apply_diff(stages[i][1], delta, f"the edit, as part of {owner}", version))
    stages[last] = (stages[last][0], new)
    say(f"refresh: {path} -> patches/{owner}")


def rewrite(commit, hooks):
    """Rewrite a patch file if it differs from its normal form."""
    text = commit.header
    for path in sorted(hooks.stages):
        stages = hooks.stages[path]
        for (_, old), (name, new) in zip(stages, stages[1:]):
            if name == commit.name and old != new:
                text += make_diff(path, old, new)
    if without_positions(text) != without_positions(read(commit.path).decode()):
        write(commit.path, text.encode(errors="surrogateescape"))
        say(f"refresh: wrote patches/{commit.name}")


# Export: patches/series as commits, and back


def git(repo, *args, env=None, **kwargs):
    full = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null",
                GIT_COMMITTER_NAME="unwind", GIT_COMMITTER_EMAIL="unwind@localhost")
    full.update(env or {})
    return run(["git", "-c", "core.compression=1", "-c", "gc.auto=0", "-c", "advice.detachedHead=false",
                "-C", repo, *args], env=full, **kwargs).decode().strip()


def import_base(base, version):
    """Return a bare repository whose branch 'base' is the pristine source."""
    repo = os.path.join(BUILD, "git", version + ".git")
    if os.path.isdir(repo):
        return repo
    tmp = repo + ".tmp"
    shutil.rmtree(tmp, ignore_errors=True)
    need_space(2500, "the git import of the base")
    say(f"series: importing base {version} into git (about 25 s)")
    os.makedirs(tmp)
    fill(tmp, base, version, ["."])
    os.rename(tmp, repo)
    return repo


def fill(repo, base, version, paths):
    """Make a bare repository whose branch 'base' has these files of the source."""
    git(repo, "init", "-q", "--bare")
    stamp(repo, base, "tree", paths)
    commit = git(repo, "commit-tree", "-m", f"linux-source-6.12 {version}", git(repo, "rev-parse", "tree^{tree}"),
                 env=identity("Debian Kernel Team <debian-kernel@lists.debian.org>"))
    git(repo, "update-ref", "refs/heads/base", commit)


def stamp(repo, tree_dir, tag, paths):
    """Write files of a directory as a tree object, using a separate index for stat data; tag it."""
    env = {"GIT_INDEX_FILE": os.path.join(repo, f"index.{tag}"), "GIT_WORK_TREE": tree_dir, "GIT_DIR": repo}
    git(repo, "-C", tree_dir, "add", "-A", "-f", *paths, env=env)
    value = git(repo, "write-tree", env=env)
    git(repo, "tag", "-f", tag, value)
    return value


def identity(author):
    name, mail = re.match(r"(.+) <(.+)>", author).groups()
    date = "1700000000 +0000"
    return {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": mail, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}


def build_branch(repo, base, commits, hooks):
    """Create the commits of the series on top of 'base' without a checkout."""
    env = {"GIT_INDEX_FILE": os.path.join(repo, "index.series")}
    git(repo, "read-tree", "base", env=env)
    parent = git(repo, "rev-parse", "base")
    maintainers = read(os.path.join(base, "MAINTAINERS"))
    ours = set()
    for commit in commits:
        lines = []
        for path in commit.edits:
            data = dict(hooks.stages[path])[commit.name]
            lines.append((path, data, hooks.mode(path)))
        for name in commit.brings:
            data = read(os.path.join(TOP, name))
            mode = os.stat(os.path.join(TOP, name)).st_mode
            if name == "MAINTAINERS":
                data = merge_maintainers(maintainers, data)
            if destination(name) in ours:
                raise Failure(f"{name} is in more than one commit")
            ours.add(destination(name))
            lines.append((destination(name), data, mode))
        info = ""
        for path, data, mode in lines:
            blob = git(repo, "hash-object", "-w", "--stdin", input=data)
            info += f"{'100755' if mode & 0o100 else '100644'} {blob}\t{path}\n"
        git(repo, "update-index", "--index-info", env=env, input=info.encode())
        value = git(repo, "write-tree", env=env)
        message = commit.subject + "\n\n" + commit.body
        parent = git(repo, "commit-tree", "-p", parent, value, env=identity(commit.author), input=message.encode())
    git(repo, "update-ref", "refs/heads/series", parent)
    return git(repo, "rev-parse", "series^{tree}")


def prove_by_am(repo, paths):
    """Apply the exported patches to a pristine base with git am, and return the resulting tree."""
    work = os.path.join(BUILD, "git", "am")
    shutil.rmtree(work, ignore_errors=True)
    git(repo, "worktree", "prune")
    git(repo, "worktree", "add", "-q", "--no-checkout", "--detach", work, "base")
    git(work, "sparse-checkout", "set", "--no-cone", *["/" + p for p in sorted(paths)])
    git(work, "checkout", "-q", "--detach", "base")
    patches = sorted(p for p in os.listdir(os.path.join(BUILD, "series.tmp")) if p.endswith(".patch"))
    git(work, "am", "-q", *[os.path.join(BUILD, "series.tmp", p) for p in patches])
    return git(work, "rev-parse", "HEAD^{tree}")


def checked_series():
    """Check the manifest; return the base, its version, the commits and their edits."""
    base, version = base_tree(load_state()["base"] or os.environ.get("BASE", ""))
    commits = load()
    wrong = manifest(commits)
    if wrong:
        raise Failure("; ".join(wrong))
    return base, version, commits, Hooks(base, version, commits)


def format_patches(repo, out, *paths):
    shutil.rmtree(out, ignore_errors=True)
    git(repo, "format-patch", "-q", "--zero-commit", "--no-signature", "--base=base", "-o", out, "base..series",
        "--", *paths)


def draft():
    """Write patches without data, from only the files that they edit: fast, but not a full check."""
    base, version, commits, hooks = checked_series()
    with tempfile.TemporaryDirectory(dir=BUILD) as repo:
        fill(repo, base, version, ["MAINTAINERS", *hooks.stages])
        build_branch(repo, base, commits, hooks)
        format_patches(repo, os.path.join(BUILD, "draft"), ".", ":!*corpus/*", ":!*.base64")


def export(versions):
    base, version, commits, hooks = checked_series()
    repo = import_base(base, version)
    made = build_branch(repo, base, commits, hooks)
    out = os.path.join(BUILD, "series.tmp")
    format_patches(repo, out)
    write(os.path.join(out, "base-version"), version.encode())
    paths = set(hooks.stages) | {destination(n) for c in commits for n in c.brings}
    applied = prove_by_am(repo, paths)
    if applied != made:
        raise Failure(f"git am gives tree {applied}, the series gives {made}")
    assembled = stamp(repo, LINUX, "assembled", ["."])
    if assembled != made:
        names = git(repo, "diff-tree", "-r", "--name-only", "series^{tree}", "assembled").split()
        raise Failure("build/linux differs from the series in " + ", ".join(names[:20]))
    final = os.path.join(BUILD, "series")
    shutil.rmtree(final, ignore_errors=True)
    os.rename(out, final)
    say(f"series: {len(commits)} patches in build/series, applied by git am to base {version}")
    for other in versions:
        if other != version:
            other_base(other, commits, hooks)
    print(f"tree {made}")


def other_base(version, commits, hooks):
    """Check that the edits apply, without fuzz, to another version of the base."""
    full = os.path.join(BUILD, "base", version)
    if not os.path.exists(full + ".sha256"):
        full = os.path.join(BUILD, "base-files", version)
        missing = [p for p in hooks.stages if not os.path.exists(os.path.join(full, p))]
        if missing:
            done = subprocess.run([BASE_SH, "files", version, full],
                                  input="".join(p + "\n" for p in hooks.stages).encode(), check=False)
            if done.returncode:
                raise SystemExit(1)
    for name in overlay():
        if name != "MAINTAINERS" and os.path.exists(os.path.join(full, name)):
            raise Failure(f"{name} exists in base {version}")
    Hooks(full, version, commits)
    say(f"series: applies to base {version}")


def take_lock(verb):
    """Return the lock on build/linux, which this process holds until it ends."""
    lock = open(os.path.join(BUILD, "tree.lock"), "w", encoding="ascii")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(f"{verb}: waiting for another make to finish with build/linux")
        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def main(argv):
    verb = argv[1] if len(argv) > 1 else ""
    os.makedirs(BUILD, exist_ok=True)
    try:
        lock = take_lock(verb)  # held until the end
        if verb == "manifest":
            wrong = manifest(load())
            for text in wrong:
                say(f"manifest: {text}")
            return 1 if wrong else 0
        if verb == "tree":
            tree("--force" in argv)
        elif verb == "refresh":
            refresh(os.path.basename(argv[2]) if len(argv) > 2 else "")
        elif verb == "export":
            export(argv[2:])
        elif verb == "draft":
            draft()
        elif verb == "new":
            print("\n".join(sorted(overlay())))
        else:
            raise Failure("usage: series.py manifest | tree [--force] | refresh [PATCH] | draft | export [VERSION...] | new")
    except Failure as error:
        say(f"{verb}: {error}")
        return 1
    except OSError as error:
        say(f"{verb}: {error.strerror}: {error.filename}")
        return 1
    except KeyboardInterrupt:
        say(f"{verb}: interrupted")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
